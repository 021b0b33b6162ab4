/* fuzz_opt.c - what people type: sizes, durations, config files, command lines. */
#include "harness.h"

#include <stdlib.h>

#include "base/opt.h"
#include "base/units.h"

struct settings {
    bool flag;
    const char *text, *choice;
    const char **list;
    uint64_t count, size;
    double wait_s, share;
};

static const char *const choices[] = {"stop", "skip", "dir[:LEVEL]", "csv:FILE", NULL};

static const struct stk_opt table[] = {
    {.name = "flag",
     .letter = 'f',
     .type = STK_OPT_FLAG,
     .offset = offsetof(struct settings, flag)},
    {.name = "text",
     .letter = 't',
     .type = STK_OPT_STRING,
     .arg = "TEXT",
     .def = "none",
     .offset = offsetof(struct settings, text)},
    {.name = "choice",
     .type = STK_OPT_ENUM,
     .arg = "WHAT",
     .choices = choices,
     .def = "stop",
     .offset = offsetof(struct settings, choice)},
    {.name = "list", .type = STK_OPT_LIST, .arg = "X", .offset = offsetof(struct settings, list)},
    {.name = "count",
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .max = 100,
     .offset = offsetof(struct settings, count)},
    {.name = "size",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .offset = offsetof(struct settings, size)},
    {.name = "wait",
     .type = STK_OPT_DURATION,
     .arg = "TIME",
     .offset = offsetof(struct settings, wait_s)},
    {.name = "share",
     .type = STK_OPT_PERCENT,
     .arg = "PERCENT",
     .offset = offsetof(struct settings, share)},
    {0}};

static void write_settings(const struct stk_opts *o)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *v;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    stk_opts_write_json(o, &w);
    if (stk_json_parse(&a, (const char *)b.data, b.len, &v, NULL))
        stk_fuzz_broken("settings are written as JSON");
    stk_arena_release(&a);
    stk_buf_release(&b);
}

static void read_config(const uint8_t *data, size_t size)
{
    static const struct stk_opt_section all[] = {{"fuzz", table}};
    struct settings fields = {0};
    struct stk_opts o;
    struct stk_err err = {0};
    if (stk_opts_init(&o, "fuzz", table, &fields, &err))
        stk_fuzz_broken("the defaults are fine");
    const struct stk_opt_file file = {stk_fuzz_file("config", data, size), STK_FROM_CONFIG, true};
    if (stk_opts_read_config(&o, &file, all, 1, &err) == 0)
        write_settings(&o);
    stk_opts_release(&o);
}

/* Arguments are what stands between NULs. */
static void read_argv(const char *text, size_t size)
{
    char *argv[17];
    int argc = 0;
    for (size_t i = 0; i < size && argc < 16; i += strlen(text + i) + 1)
        argv[argc++] = (char *)(uintptr_t)(text + i);
    argv[argc] = NULL;
    struct settings fields = {0};
    struct stk_opts o;
    struct stk_err err = {0};
    if (stk_opts_init(&o, "fuzz", table, &fields, &err))
        stk_fuzz_broken("the defaults are fine");
    if (stk_opts_read_argv(&o, argc, argv, &err) == 0)
        write_settings(&o);
    stk_opts_release(&o);
}

int fuzz_opt(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), shown[64];
    struct stk_err err = {0};
    uint64_t u = 0;
    double d = 0;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (stk_parse_size(text, &u, &err) == 0)
        stk_fuzz_touch(stk_format_size(u, shown, sizeof shown), 1);
    if (stk_parse_duration(text, &d, &err) == 0)
        stk_fuzz_touch(stk_format_duration(d, shown, sizeof shown), 1);
    stk_parse_u64(text, &u, &err);
    read_argv(text, size);
    read_config(data, size);
    free(text);
    return 0;
}
