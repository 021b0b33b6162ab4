/*
 * cmd.h - what a command is, and what a run of one has at hand.
 *
 * A command is one const struct in the table in main.c: its words, its option table, its function.
 * The function wires library calls together and returns an exit status, or a negative STK_E_* code
 * with run->err filled. Everything around it (options, JSON envelope, errors, hints) is in run.c.
 */
#ifndef STK_CMD_CMD_H
#define STK_CMD_CMD_H

#include <stdio.h>

#include "base/json.h"
#include "base/opt.h"
#include "cmd/progress.h"

enum stk_exit {
    STK_EXIT_DONE = 0,
    STK_EXIT_PROBLEM = 1, /* done, and a problem was found */
    STK_EXIT_USAGE = 2,
    STK_EXIT_PARTLY = 3,
    STK_EXIT_FAILED = 4,
};

/* Settings every command has: the first member of its settings struct. */
struct stk_common {
    const char *json;
    double progress_every_s;
    bool quiet, verbose, help;
};

/* Of commands that read profiles; at: the offset of a string. */
#define STK_TRUST_OPTION(at)                                                                       \
    {.name = "trust",                                                                              \
     .type = STK_OPT_STRING,                                                                       \
     .arg = "USER,...",                                                                            \
     .incidental = true,                                                                           \
     .offset = (at),                                                                               \
     .help = "Believe profiles of these users (names, numbers, or all), too: not only your own, "  \
             "root's, and those of whose folder they lie in"}

/* Of the results that --json writes: counts up when a member goes, or gets another meaning or type;
 * not when members are added. */
#define STK_RESULT_SCHEMA 1

#define STK_COMMON_OPTIONS                                                                         \
    {.name = "json",                                                                               \
     .type = STK_OPT_STRING,                                                                       \
     .arg = "FILE",                                                                                \
     .incidental = true,                                                                           \
     .offset = offsetof(struct stk_common, json),                                                  \
     .help = "Write the result as JSON to FILE; with - alone on standard output"},                 \
        {.name = "progress-every",                                                                 \
         .type = STK_OPT_DURATION,                                                                 \
         .arg = "TIME",                                                                            \
         .def = "10s",                                                                             \
         .incidental = true,                                                                       \
         .offset = offsetof(struct stk_common, progress_every_s),                                  \
         .help = "How often to print a line of progress where there is no terminal"},              \
        {.name = "quiet",                                                                          \
         .letter = 'q',                                                                            \
         .type = STK_OPT_FLAG,                                                                     \
         .incidental = true,                                                                       \
         .offset = offsetof(struct stk_common, quiet),                                             \
         .help = "Print errors only"},                                                             \
        {.name = "verbose",                                                                        \
         .type = STK_OPT_FLAG,                                                                     \
         .incidental = true,                                                                       \
         .offset = offsetof(struct stk_common, verbose),                                           \
         .help = "Name every program that is started (sbatch, mksquashfs), and where it is"},      \
        {.name = "help",                                                                           \
         .letter = 'h',                                                                            \
         .type = STK_OPT_FLAG,                                                                     \
         .incidental = true,                                                                       \
         .offset = offsetof(struct stk_common, help),                                              \
         .help = "Print this help"},                                                               \
    {                                                                                              \
        .name = NULL                                                                               \
    }

struct stk_example {
    const char *line, *what;
};

struct stk_run;

struct stk_cmd {
    const char *name, *summary;
    const char *args;                   /* "SRC DST"; "[COMMAND]" may be left out */
    const char *description;            /* paragraphs, an empty line between them */
    const struct stk_example *examples; /* .line NULL ends them */
    const struct stk_opt *options;
    size_t settings_size;
    /* The arguments are a program and its arguments: options end at the first, signals are the
     * program's, and so is the exit status. */
    bool runs_program;
    bool own_status; /* with runs_program: signals and the exit status are stoker's all the same */
    int (*run)(struct stk_run *run);
};

const struct stk_cmd *stk_cmd_at(size_t i); /* NULL past the end */
const struct stk_cmd *stk_cmd_find(const char *name);
/* The names, NULL-terminated. */
const char *const *stk_cmd_names(void);

/* One run of a command. */
struct stk_run {
    const struct stk_cmd *cmd;
    int argc; /* without the command's name */
    char *const *argv;
    struct stk_opts opts;
    void *settings;
    const struct stk_common *common; /* the start of settings */
    struct stk_progress progress;
    struct stk_jw json; /* inside the object "result": a command adds its members */
    struct stk_buf json_text;
    bool out_is_data; /* standard output carries data or JSON: text for people goes to stderr */
    double start_s;
    int raise_signal; /* what ended the program that was run: ends us too, after everything else */
    struct stk_err err;
    struct stk_buf hint; /* what to do about err, where the command knows: said after it */
};

/* Runs argv (without the command's name). Returns the exit status of the process. */
int stk_run_command(const struct stk_cmd *cmd, int argc, char *const *argv);
/* attend.c: what(run), with somebody who ends it when a signal came and it cannot. */
int stk_attend(struct stk_run *run, int (*what)(struct stk_run *run));
struct stk_judged; /* lab/judge.h */
/* stk_judge() of a profile that may be believed (stk_folder_believe(); trust: as of --trust);
 * STK_E_STOPPED when a signal came meanwhile, which may have kept it from a file. */
int stk_judge_profile(struct stk_run *run, const char *path, const char *trust,
                      struct stk_judged *out);
/* Text for people, on the right stream; nothing with --quiet. */
void stk_say(const struct stk_run *run, const char *fmt, ...) STK_PRINTF(2, 3);
/* Prints "stoker: pack: text" to stderr, everything escaped. cmd may be NULL. */
void stk_complain(const char *cmd, const char *text);
void stk_hint(const char *text);
/* "stopped by an interrupt", more, and what to do then. */
void stk_say_stopped(const struct stk_run *run, int sig, const char *more);
/* Columns to write in: the terminal's (60..120), else 80. */
unsigned stk_columns(const struct stk_run *run);

/* Refuses a file of --option that could not be written, before the work for it is done. NULL and
 * "-" are fine. */
int stk_check_output(struct stk_run *run, const char *option, const char *path);
/* Writes such a file, as a whole or not at all; "-" is standard output. */
int stk_put_output(const char *path, const struct stk_buf *b, struct stk_err *err);

/* help.c */
void stk_help_overview(struct stk_buf *out);
void stk_help_command(const struct stk_cmd *cmd, struct stk_buf *out);
/* "stoker pack SRC DST [OPTIONS]" */
void stk_help_usage(const struct stk_cmd *cmd, struct stk_buf *out);
/* man.c; cmd NULL: the page of stoker itself. */
void stk_man_page(const struct stk_cmd *cmd, struct stk_buf *out);
bool stk_opt_is_common(const struct stk_opt *opt);

#endif
