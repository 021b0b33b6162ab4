/* options.c - the table of a loader's options, and a struct of them checked by it. */
#include "load/options.h"

const char *const stk_last_names[] = {
    [STK_LAST_DROP] = "drop", [STK_LAST_PAD] = "pad", [STK_LAST_SHORT] = "short", NULL};
const char *const stk_on_error_names[] = {[STK_ON_ERROR_STOP] = "stop",
                                          [STK_ON_ERROR_SKIP] = "skip",
                                          [STK_ON_ERROR_REPLACE] = "replace",
                                          NULL};

const struct stk_opt stk_loader_opts[] = {
    STK_LOADER_ORDER_OPTIONS(0),
    STK_LOADER_READ_OPTIONS(0),
    STK_LOADER_PROGRAM_OPTIONS(0),
    {.name = NULL},
};

int stk_loader_option_set(struct stk_loader_options *o, const char *name, const char *text,
                          struct stk_arena *arena, struct stk_err *err)
{
    const struct stk_opt *opt = stk_opt_find(stk_loader_opts, name);
    return opt ? stk_opt_store(opt, o, text, true, arena, err)
               : stk_opt_unknown(stk_loader_opts, "option", "", name, strlen(name), err);
}

/* Clamps sizes to their range: they only affect speed. */
static void fit_size(const struct stk_opt *opt, struct stk_loader_options *o)
{
    uint64_t v = stk_opt_number(opt, o);
    v = v < opt->min ? opt->min : v;
    stk_opt_set_number(opt, o, opt->max && v > opt->max ? opt->max : v);
}

static int check_number(const struct stk_opt *opt, const struct stk_loader_options *o,
                        struct stk_err *err)
{
    const char *const *choices = stk_opt_choices(opt);
    uint64_t v = stk_opt_number(opt, o), max = opt->max;
    for (size_t i = 0; choices && choices[i]; i++)
        max = i;
    if (!max || v <= max)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s: %llu is more than %llu", opt->name,
                       (unsigned long long)v, (unsigned long long)max);
}

int stk_loader_options_check(struct stk_loader_options *o, struct stk_err *err)
{
    int rc = 0;
    for (const struct stk_opt *opt = stk_loader_opts; opt->name && !rc; opt++) {
        bool number = opt->type == STK_OPT_UNSIGNED || opt->type == STK_OPT_SIZE ||
                      opt->field == STK_FIELD_NUMBER;
        if (number && opt->def && opt->min && !stk_opt_number(opt, o))
            rc = stk_opt_store(opt, o, opt->def, true, NULL, err);
        else if (opt->type == STK_OPT_SIZE && stk_opt_number(opt, o))
            fit_size(opt, o);
        else if (number)
            rc = check_number(opt, o, err);
    }
    return rc;
}
