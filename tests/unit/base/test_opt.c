/* A setting must mean the same wherever it is written, and a typo must be an error, not silence. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/opt.h"
#include "check.h"

struct settings {
    bool force, keep;
    const char *name, *mode;
    const char **include;
    uint64_t jobs, size;
    double wait_s, share;
    /* As the library's own structs have them: */
    const char *const *fields;
    uint32_t batch;
    int order;
    bool no_check;
};

static const char *const modes[] = {"stop", "skip", "dir[:LEVEL]", "csv:FILE", NULL};

static const char *const orders[] = {"block", "global", "none", NULL};

static const struct stk_opt table[] = {
    {.name = "force",
     .letter = 'f',
     .type = STK_OPT_FLAG,
     .incidental = true,
     .offset = offsetof(struct settings, force)},
    {.name = "keep", .type = STK_OPT_FLAG, .def = "yes", .offset = offsetof(struct settings, keep)},
    {.name = "name",
     .letter = 'n',
     .type = STK_OPT_STRING,
     .arg = "NAME",
     .offset = offsetof(struct settings, name)},
    {.name = "mode",
     .type = STK_OPT_ENUM,
     .arg = "MODE",
     .def = "stop",
     .choices = modes,
     .offset = offsetof(struct settings, mode)},
    {.name = "include",
     .type = STK_OPT_LIST,
     .arg = "GLOB",
     .offset = offsetof(struct settings, include)},
    {.name = "jobs",
     .letter = 'j',
     .type = STK_OPT_UNSIGNED,
     .arg = "N",
     .def = "1",
     .min = 1,
     .max = 64,
     .offset = offsetof(struct settings, jobs)},
    {.name = "shard-size",
     .type = STK_OPT_SIZE,
     .arg = "SIZE",
     .offset = offsetof(struct settings, size)},
    {.name = "wait",
     .type = STK_OPT_DURATION,
     .arg = "TIME",
     .def = "1.5s",
     .offset = offsetof(struct settings, wait_s)},
    {.name = "share",
     .type = STK_OPT_PERCENT,
     .arg = "PERCENT",
     .max = 100,
     .offset = offsetof(struct settings, share)},
    {.name = "fields",
     .type = STK_OPT_NAMES,
     .arg = "NAMES",
     .offset = offsetof(struct settings, fields)},
    {.name = "batch",
     .type = STK_OPT_UNSIGNED,
     .field = STK_FIELD_U32,
     .arg = "N",
     .def = "32",
     .max = UINT32_MAX,
     .offset = offsetof(struct settings, batch)},
    {.name = "order",
     .type = STK_OPT_ENUM,
     .field = STK_FIELD_NUMBER,
     .arg = "HOW",
     .def = "global",
     .choices = orders,
     .offset = offsetof(struct settings, order)},
    {.name = "check",
     .type = STK_OPT_FLAG,
     .def = "yes",
     .opposite = true,
     .offset = offsetof(struct settings, no_check)},
    {.name = NULL},
};

static const struct stk_opt other[] = {
    {.name = "colour", .type = STK_OPT_STRING, .arg = "C", .offset = 0},
    {.name = NULL},
};

static struct settings s;
static struct stk_err err;

static int read_argv(struct stk_opts *o, int argc, const char *const *argv)
{
    memset(&s, 0, sizeof s);
    memset(&err, 0, sizeof err);
    CHECK_INT(stk_opts_init(o, "pack", table, &s, &err), 0);
    return stk_opts_read_argv(o, argc, (char *const *)(uintptr_t)argv, &err);
}

#define ARGV(...)                                                                                  \
    (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[])                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void test_argv(void)
{
    struct stk_opts o;
    CHECK_INT(read_argv(&o, ARGV("SRC", "--shard-size=64M", "-fj4", "--name", "--x", "--include",
                                 "a*", "--include=b", "--no-keep", "--wait", "2m", "--share", "80%",
                                 "--mode=dir:2", "--", "--jobs")),
              0);
    CHECK(s.force && !s.keep && s.jobs == 4 && s.size == 64 << 20);
    CHECK(s.wait_s == 120 && s.share == 0.8);
    CHECK_STR(s.name, "--x");
    CHECK_STR(s.mode, "dir:2");
    CHECK(s.include && strcmp(s.include[0], "a*") == 0 && strcmp(s.include[1], "b") == 0 &&
          !s.include[2]);
    CHECK_INT(o.nargs, 2);
    CHECK_STR(o.arg[0], "SRC");
    CHECK_STR(o.arg[1], "--jobs");
    CHECK(stk_opts_given(&o, "jobs") && !stk_opts_given(&o, "nothing"));
    stk_opts_release(&o);

    CHECK_INT(read_argv(&o, ARGV("-", "-j", "7", "-nfoo")), 0);
    CHECK(s.jobs == 7 && s.keep && s.wait_s == 1.5 && o.nargs == 1 && !stk_opts_given(&o, "keep"));
    CHECK_STR(s.name, "foo");
    stk_opts_release(&o);
}

/* Fields of a struct that was not made for options hold what was meant, and JSON shows it. */
static void check_fields(void)
{
    struct stk_opts o;
    CHECK_INT(read_argv(&o, ARGV("x")), 0);
    CHECK(!s.fields && s.batch == 32 && s.order == 1 && !s.no_check);
    stk_opts_release(&o);
    CHECK_INT(read_argv(&o, ARGV("--fields=a,bc", "--batch", "4294967295", "--order", "none",
                                 "--no-check")),
              0);
    CHECK(s.batch == UINT32_MAX && s.order == 2 && s.no_check);
    CHECK(s.fields && strcmp(s.fields[0], "a") == 0 && strcmp(s.fields[1], "bc") == 0 &&
          !s.fields[2]);
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_opts_write_recipe(&o, &w);
    CHECK(strstr(stk_buf_cstr(&b), "\"fields\":\"a,bc\",\"batch\":4294967295,\"order\":\"none\","
                                   "\"check\":false"));
    stk_buf_release(&b);
    stk_opts_release(&o);
}

static void refused(const char *part, int argc, const char *const *argv)
{
    struct stk_opts o;
    CHECK_INT(read_argv(&o, argc, argv), STK_E_USAGE);
    if (!strstr(err.what, part))
        fprintf(stderr, "\"%s\" does not say \"%s\"\n", err.what, part);
    CHECK(strstr(err.what, part));
    stk_opts_release(&o);
}

static void test_refusing(void)
{
    check_fields();
    refused("a name is empty", ARGV("--fields", "a,,b"));
    refused("within 0 and 4294967295", ARGV("--batch", "4294967296"));
    refused("block, global, none", ARGV("--order", "random"));
    refused("did you mean --shard-size?", ARGV("--shrad-size", "1"));
    refused("did you mean --no-keep?", ARGV("--no-kep"));
    refused("did you mean skip?", ARGV("--mode", "skpi"));
    refused("needs a value: --jobs N", ARGV("--jobs"));
    refused("needs a value: -j N", ARGV("-j"));
    refused("unknown option -x", ARGV("-x"));
    refused("takes no value", ARGV("--force=1"));
    refused("not a switch", ARGV("--no-jobs"));
    refused("within 1 and 64", ARGV("--jobs", "65"));
    refused("within 1 and 64", ARGV("--jobs", "0"));
    refused("not a whole number", ARGV("--jobs", "-3"));
    refused("within 0% and 100%", ARGV("--share", "101"));
    refused("not a size", ARGV("--shard-size", "12Q"));
    refused("write csv:FILE", ARGV("--mode", "csv"));
    refused("write csv:FILE", ARGV("--mode", "csv:"));
    refused("takes no argument", ARGV("--mode", "stop:2"));
    struct stk_opts o;
    CHECK_INT(read_argv(&o, ARGV("--zzzzzzzz")), STK_E_USAGE);
    CHECK(!strstr(err.what, "did you mean"));
    stk_opts_release(&o);
}

static char config_path[64];

static void write_config(const char *text)
{
    FILE *f = fopen(config_path, "w");
    CHECK(f != NULL);
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static const struct stk_opt_section sections[] = {{"pack", table}, {"paint", other}};

static int read_config(struct stk_opts *o)
{
    const struct stk_opt_file file = {config_path, STK_FROM_CONFIG, true};
    return stk_opts_read_config(o, &file, sections, 2, &err);
}

/* The command line wins over the environment, that over the file, whatever is read first. */
static void test_precedence(void)
{
    struct stk_opts o;
    write_config("# comment\ncolour = red\nname = everywhere\n\n[pack]\njobs = 2\r\n"
                 "include = x y\ninclude = z\nkeep = no\nwait = 9s\n[paint]\ncolour = blue\n");
    setenv("STOKER_JOBS", "3", 1);
    setenv("STOKER_PACK_JOBS", "4", 1);
    setenv("STOKER_WAIT", "8s", 1);
    setenv("STOKER_SHARD_SIZE", "1K", 1);
    CHECK_INT(read_argv(&o, ARGV("--wait", "7s")), 0);
    CHECK_INT(stk_opts_read_env(&o, &err), 0);
    CHECK_INT(read_config(&o), 0);
    CHECK(s.wait_s == 7 && s.jobs == 4 && s.size == 1024 && !s.keep);
    CHECK(stk_opts_typed(&o, "wait") && !stk_opts_typed(&o, "jobs") && stk_opts_given(&o, "jobs"));
    CHECK_STR(s.name, "everywhere");
    CHECK(s.include && strcmp(s.include[0], "x y") == 0 && strcmp(s.include[1], "z") == 0);
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_opts_write_json(&o, &w);
    const char *json = stk_buf_cstr(&b);
    CHECK(strstr(json, "\"jobs\":{\"value\":4,\"from\":\"environment\","
                       "\"where\":\"STOKER_PACK_JOBS\"}"));
    CHECK(strstr(json, "\"wait\":{\"value\":7.0,\"unit\":\"seconds\",\"from\":\"command line\"}"));
    CHECK(strstr(json, "\"keep\":{\"value\":false,\"from\":\"config\",\"where\":\""));
    CHECK(strstr(json, "\"share\":{\"value\":null,"));
    stk_buf_reset(&b);
    stk_jw_init(&w, &b, false);
    stk_opts_write_recipe(&o, &w);
    json = stk_buf_cstr(&b);
    CHECK(strstr(json, "\"jobs\":4") && !strstr(json, "force") && !strstr(json, "from"));
    stk_buf_release(&b);
    stk_opts_release(&o);
    setenv("STOKER_INCLUDE", "a,b*,", 1);
    CHECK_INT(read_argv(&o, ARGV("x")), 0);
    CHECK_INT(read_config(&o), 0);
    CHECK_INT(stk_opts_read_env(&o, &err), 0);
    CHECK(s.include && strcmp(s.include[1], "b*") == 0 && !s.include[2]);
    stk_opts_release(&o);
    setenv("STOKER_PACK_JOBS", "many", 1);
    CHECK_INT(read_argv(&o, ARGV("x")), 0);
    CHECK_INT(stk_opts_read_env(&o, &err), STK_E_USAGE);
    CHECK(strstr(err.what, "STOKER_PACK_JOBS"));
    stk_opts_release(&o);
}

static void test_bad_config(void)
{
    static const struct {
        const char *text, *says;
        int64_t line;
    } cases[] = {
        {"[pack]\nshardsize = 1\n", "did you mean shard-size?", 2},
        {"[pakc]\n", "did you mean [pack]?", 1},
        {"[pack\n", "[command]", 1},
        {"\n\njobs\n", "name = value", 3},
        {"jobs = 1000\n", "within 1 and 64", 1},
        {"nonsense = 1\n", "unknown setting", 1},
        {"[paint]\njobs = 1\n", "unknown setting", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stk_opts o;
        write_config(cases[i].text);
        CHECK_INT(read_argv(&o, ARGV("x")), 0);
        CHECK_INT(read_config(&o), STK_E_USAGE);
        CHECK_INT(err.offset, cases[i].line);
        CHECK_STR(err.path, config_path);
        CHECK(strstr(err.what, cases[i].says));
        stk_opts_release(&o);
    }
    struct stk_opts o;
    CHECK_INT(read_argv(&o, ARGV("x")), 0);
    unlink(config_path);
    const struct stk_opt_file file = {config_path, STK_FROM_CONFIG, false};
    CHECK_INT(stk_opts_read_config(&o, &file, sections, 2, &err), 0);
    CHECK_INT(read_config(&o), STK_E_SYS);
    stk_opts_release(&o);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    snprintf(config_path, sizeof config_path, "/tmp/stoker-test-opt.%d", (int)getpid());
    CHECK_RUN(test_argv);
    CHECK_RUN(test_refusing);
    CHECK_RUN(test_precedence);
    CHECK_RUN(test_bad_config);
    unlink(config_path);
    return CHECK_DONE();
}
