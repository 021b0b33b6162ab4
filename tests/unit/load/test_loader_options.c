/* An option of the loader, or of opening a dataset, would be known to one front and not to another,
 * or mean something else there. */
#include "check.h"
#include "load/options.h"
#include "dataset/open_options.h"

#include <stdio.h>

static struct stk_err err;

/* Text that the option takes, and that is not its default. */
static const char *some_text(const struct stk_opt *opt)
{
    static char text[32];
    const char *const *choices = stk_opt_choices(opt);
    if (choices)
        return choices[1];
    if (opt->type == STK_OPT_FLAG)
        return opt->def ? "no" : "yes";
    if (opt->type == STK_OPT_STRING || opt->type == STK_OPT_NAMES)
        return "raw";
    snprintf(text, sizeof text, "%llu", (unsigned long long)opt->min + 1);
    return text;
}

union options {
    struct stk_loader_options loader;
    struct stk_open_options open;
};

/* Every row can be set by its name and changes a field of its own. */
static void check_rows(const struct stk_opt *table)
{
    struct stk_arena arena = {0};
    uint8_t taken[sizeof(union options)] = {0};
    for (const struct stk_opt *opt = table; opt->name; opt++) {
        union options o = {0};
        size_t changed = 0;
        CHECK(opt->help && stk_opt_find(table, opt->name) == opt);
        CHECK(opt->field != STK_FIELD_U32 || (opt->max && opt->max <= UINT32_MAX));
        CHECK_INT(stk_opt_store(opt, &o, some_text(opt), true, &arena, &err), 0);
        for (size_t i = 0; i < sizeof o; i++)
            if (((const uint8_t *)&o)[i]) {
                CHECK(!taken[i]);
                taken[i] = 1;
                changed++;
            }
        CHECK(changed > 0);
        if (table != stk_loader_opts || opt->type == STK_OPT_STRING || opt->type == STK_OPT_NAMES)
            continue;
        CHECK_INT(stk_loader_options_check(&o.loader, &err), 0);
    }
    stk_arena_release(&arena);
}

static void every_row(void)
{
    check_rows(stk_loader_opts);
    check_rows(stk_open_opts);
}

/* All zero is what `stoker load` calls the defaults. */
static void defaults(void)
{
    struct stk_arena arena = {0};
    struct stk_loader_options zero = {0}, set = {0};
    CHECK_INT(stk_loader_options_check(&zero, &err), 0);
    CHECK(zero.batch == 32 && zero.read_bytes == 4 << 20 && zero.block_bytes == 2 << 20 &&
          zero.window_bytes == 64 << 20);
    for (const struct stk_opt *opt = stk_loader_opts; opt->name; opt++)
        if (opt->def)
            CHECK_INT(stk_opt_store(opt, &set, opt->def, true, &arena, &err), 0);
    CHECK_STR(set.io, "auto");
    CHECK_STR(set.decode, "auto");
    CHECK_STR(set.tier, "auto");
    set.io = set.decode = set.tier = NULL; /* NULL says the same */
    CHECK(memcmp(&set, &zero, sizeof set) == 0);
    stk_arena_release(&arena);
}

static void refuses(struct stk_loader_options o, const char *says)
{
    CHECK_INT(stk_loader_options_check(&o, &err), STK_E_USAGE);
    CHECK_STR(err.what, says);
}

static void limits(void)
{
    struct stk_loader_options o = {.read_bytes = 1, .memory_bytes = 1, .depth = 4096};
    CHECK_INT(stk_loader_options_check(&o, &err), 0);
    CHECK(o.read_bytes == 64 << 10 && o.memory_bytes == 1 << 20);
    refuses((struct stk_loader_options){.batch = 2 << 20}, "batch: 2097152 is more than 1048576");
    refuses((struct stk_loader_options){.threads = 5000}, "threads: 5000 is more than 4096");
    refuses((struct stk_loader_options){.last = 3}, "last: 3 is more than 2");
    refuses((struct stk_loader_options){.shuffle = -1}, "shuffle: 4294967295 is more than 2");
    CHECK_INT(stk_loader_option_set(&o, "bacth", "1", NULL, &err), STK_E_USAGE);
    CHECK(strstr(err.what, "did you mean batch?"));
    CHECK_INT(stk_loader_option_set(&o, "batch", "0", NULL, &err), STK_E_USAGE);
    CHECK_INT(stk_loader_option_set(&o, "batch", "7", NULL, &err), 0);
    CHECK_INT(o.batch, 7);
}

static void keywords(void)
{
    char name[32];
    const struct stk_opt *t = stk_loader_opts;
    CHECK_STR(stk_opt_keyword(stk_opt_find(t, "on-error"), name, sizeof name), "on_error");
    CHECK_STR(stk_opt_keyword(stk_opt_find(stk_open_opts, "rebuild-index"), name, sizeof name),
              "rebuild");
    CHECK_STR(stk_opt_keyword(stk_opt_find(t, "read-size"), name, sizeof name), "read");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(every_row);
    CHECK_RUN(defaults);
    CHECK_RUN(limits);
    CHECK_RUN(keywords);
    return CHECK_DONE();
}
