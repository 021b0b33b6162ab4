/* opt_json.c - the effective settings of a run as JSON, with the source of each. */
#include "base/opt.h"
#include "base/secret.h"

static void write_list(const char **list, struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (; list && *list; list++)
        stk_secret_json_text(w, *list);
    stk_jw_close(w, ']');
}

/* As typed: separated by commas. */
static void write_names(const char *const *names, struct stk_jw *w)
{
    struct stk_buf text = STK_BUF_INIT;
    for (size_t i = 0; names[i]; i++)
        stk_buf_printf(&text, "%s%s", i ? "," : "", names[i]);
    stk_jw_str(w, stk_buf_cstr(&text));
    stk_buf_release(&text);
}

static void write_value(const struct stk_opts *o, const struct stk_opt *opt, struct stk_jw *w)
{
    const char *field = (const char *)o->fields + opt->offset;
    const char *text, *const *names;
    double d;
    switch (opt->type) {
    case STK_OPT_FLAG:
        stk_jw_bool(w, *(const bool *)(const void *)field != opt->opposite);
        return;
    case STK_OPT_LIST:
        write_list(*(const char ***)(uintptr_t)field, w);
        return;
    default:
        break;
    }
    if (o->origin[opt - o->table].from == STK_FROM_NOWHERE) {
        stk_jw_null(w);
    } else if (opt->type == STK_OPT_UNSIGNED || opt->type == STK_OPT_SIZE) {
        stk_jw_u64(w, stk_opt_number(opt, o->fields));
    } else if (opt->type == STK_OPT_DURATION || opt->type == STK_OPT_PERCENT) {
        memcpy(&d, field, sizeof d);
        stk_jw_f64(w, d);
    } else if (opt->type == STK_OPT_NAMES) {
        memcpy(&names, field, sizeof names);
        write_names(names, w);
    } else if (opt->field == STK_FIELD_NUMBER) {
        stk_jw_str(w, stk_opt_choices(opt)[stk_opt_number(opt, o->fields)]);
    } else {
        memcpy(&text, field, sizeof text);
        stk_secret_json_text(w, text);
    }
}

static void write_setting(const struct stk_opts *o, const struct stk_opt *opt, struct stk_jw *w)
{
    static const char *const from[] = {
        [STK_FROM_NOWHERE] = "default", [STK_FROM_DEFAULT] = "default",
        [STK_FROM_SITE] = "site",       [STK_FROM_CONFIG] = "config",
        [STK_FROM_ENV] = "environment", [STK_FROM_ARGV] = "command line",
    };
    static const char *const unit[] = {
        [STK_OPT_SIZE] = "bytes",
        [STK_OPT_DURATION] = "seconds",
        [STK_OPT_PERCENT] = "fraction",
        [STK_OPT_NAMES] = NULL,
    };
    const struct stk_opt_origin *origin = &o->origin[opt - o->table];
    stk_jw_key(w, opt->name);
    stk_jw_open(w, '{');
    stk_jw_key(w, "value");
    write_value(o, opt, w);
    if (unit[opt->type]) {
        stk_jw_put_str(w, "unit", unit[opt->type]);
    }
    stk_jw_put_str(w, "from", from[origin->from]);
    if (origin->where) {
        stk_jw_put_str(w, "where", origin->where);
    }
    stk_jw_close(w, '}');
}

void stk_opts_write_json(const struct stk_opts *o, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    for (const struct stk_opt *opt = o->table; opt->name; opt++)
        if (strcmp(opt->name, "help") != 0)
            write_setting(o, opt, w);
    stk_jw_close(w, '}');
}

void stk_opts_write_recipe(const struct stk_opts *o, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    for (const struct stk_opt *opt = o->table; opt->name; opt++) {
        if (opt->incidental)
            continue;
        stk_jw_key(w, opt->name);
        write_value(o, opt, w);
    }
    stk_jw_close(w, '}');
}
