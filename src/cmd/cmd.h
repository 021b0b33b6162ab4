/*
 * cmd.h - what a command is, and the context of one run of it.
 *
 * A command is one const struct in the table in main.c: its texts, its option table, its function.
 * The function wires library calls together and returns an exit status, or a negative STK_E_* code
 * with run->err filled. Everything around it (options, JSON envelope, errors, hints) is in run.c.
 */
#ifndef STK_CMD_CMD_H
#define STK_CMD_CMD_H

#include <stdio.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/opt.h"
#include "base/own.h"
#include "result/screen.h"

/* ---- progress -------------------------------------------------------------------------------- */

/* Progress of a long job: a bar on a terminal, a line at intervals elsewhere.
 *
 * Commands pass the update function to the library as its callback. Any thread may call it, at any
 * rate; it returns non-zero when a signal asked to stop. */

#define STK_PROGRESS_WINDOW 16

struct stk_progress {
    FILE *to; /* NULL: silent */
    bool bar, drawn, utf8;
    const char *command;
    const char *counted; /* what is counted beside bytes; NULL: samples. Set it before the first update */
    char phase[24];
    double every_s, next_s, phase_start_s;
    /* Amounts done over the last seconds: the rate shown is the current one, not the average. */
    struct stk_progress_mark {
        double at_s;
        uint64_t done;
    } mark[STK_PROGRESS_WINDOW];
    unsigned nmarks;
    pthread_mutex_t lock;
};

/* to: where to draw, NULL for nowhere. */
void stk_progress_init(struct stk_progress *p, FILE *to, const char *command, double every_s);
/* Totals are 0 when unknown. Returns non-zero when the job should stop. */
int stk_progress_update(struct stk_progress *p, const char *phase, uint64_t bytes_done,
                        uint64_t bytes_total, uint64_t samples_done, uint64_t samples_total);
/* The same with a text of the caller's, shown verbatim when a line is due. */
int stk_progress_say(struct stk_progress *p, const char *text);
/* Erases the bar. Call it before printing anything else. */
void stk_progress_clear(struct stk_progress *p);
void stk_progress_release(struct stk_progress *p);

/* SIGINT and SIGTERM ask to stop; a second one kills. */
void stk_stop_on_signals(void);
/* So do a terminal and a reader of the output that are gone: for a command that must remove what it
 * made. */
void stk_stop_on_loss(void);
int stk_stop_signal(void); /* the signal received, or 0 */

enum stk_exit {
    STK_EXIT_DONE = 0,
    STK_EXIT_PROBLEM = 1, /* completed, and found a problem */
    STK_EXIT_USAGE = 2,
    STK_EXIT_PARTLY = 3,
    STK_EXIT_FAILED = 4,
};

/* Settings every command has: the first member of its settings struct. */
enum stk_colour_when { STK_COLOUR_AUTO, STK_COLOUR_ALWAYS, STK_COLOUR_NEVER };

struct stk_common {
    const char *json;
    int color; /* enum stk_colour_when */
    double progress_every_s;
    bool quiet, verbose, help;
};

/* For commands that read profiles; at: offset of a string member. */
#define STK_TRUST_OPTION(at)                                                                       \
    {                                                                                              \
        .name = "trust", .type = STK_OPT_STRING, .arg = "USER,...", .incidental = true,            \
        .offset = (at),                                                                            \
        .help = "Trust profiles of these users (names, numbers, or all), not only your own, "      \
                "root's, and those of the owner of their folder"                                   \
    }

/* Of the results that --json writes: counts up when a member goes, or gets another meaning or type;
 * not when members are added. */
#define STK_RESULT_SCHEMA 1

extern const char *const stk_color_choices[];
#define STK_COMMON_OPTION(...) STK_OPT_OF(struct stk_common, 0, __VA_ARGS__)
#define STK_COMMON_OPTIONS                                                                         \
    STK_COMMON_OPTION("json", json, STRING, .arg = "FILE", .incidental = true,                     \
                      .help = "Write the result as JSON to FILE; with -, to standard output only"),\
        STK_COMMON_OPTION("progress-every", progress_every_s, DURATION, .arg = "TIME",             \
                          .def = "10s", .incidental = true,                                        \
                          .help = "Interval for printing a line of progress if there is no "       \
                                  "terminal"),                                                     \
        STK_COMMON_OPTION("color", color, ENUM, .arg = "WHEN", .def = "auto",                      \
                          .choices = stk_color_choices, .incidental = true,                        \
                          .help = "Use colours; auto: on a terminal, unless NO_COLOR is set"),     \
        STK_COMMON_OPTION("quiet", quiet, FLAG, .letter = 'q', .incidental = true,                 \
                          .help = "Print errors only"),                                            \
        STK_COMMON_OPTION("verbose", verbose, FLAG, .incidental = true,                            \
                          .help = "Name every program that stoker starts (sbatch, mksquashfs), "   \
                                  "with path"),                                                    \
        STK_COMMON_OPTION("help", help, FLAG, .letter = 'h', .incidental = true,                   \
                          .help = "Print this help"),                                              \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* The exit status for problems with the data: STK_EXIT_PROBLEM for damage, STK_EXIT_PARTLY if all
 * of them are `unsupported`: sound, but of a kind that stoker does not read. */
static inline int stk_exit_for(uint64_t problems, uint64_t unsupported)
{
    return problems > unsupported ? STK_EXIT_PROBLEM : problems ? STK_EXIT_PARTLY : STK_EXIT_DONE;
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
    const struct stk_opt *keys; /* NULL, or the keys of the file it reads, for its manual */
    size_t settings_size;
    /* The arguments are a program and its arguments: options end at the first, and the program
     * receives the signals and decides the exit status. */
    bool runs_program;
    bool own_status; /* with runs_program: stoker still handles signals and the exit status */
    /* Works without the user's settings if the file system that holds them does not answer. */
    bool wary;
    int (*run)(struct stk_run *run);
    /* May be NULL. What to do about run->err if this command knows more than run.c does: NULL if it
     * does not, "" for no hint at all. */
    const char *(*hint)(const struct stk_run *run);
    /* NULL, or what to do after a signal has stopped it, unless run->hint says it. */
    const char *stopped_hint;
};

const struct stk_cmd *stk_cmd_at(size_t i); /* NULL past the end */
const struct stk_cmd *stk_cmd_find(const char *name);
/* The names, NULL-terminated. */
const char *const *stk_cmd_names(void);

/* One run of a command. */
/* A reason to end a command other than a signal. Both functions are called beside the command
 * (attend.c): they take no lock and touch no file. */
struct stk_deadline {
    bool (*is_over)(void *user);
    /* For a command that the kernel blocks: says the last word. Returns the exit status. */
    int (*leave)(void *user);
    void *user;
};

struct stk_run {
    const struct stk_cmd *cmd;
    int argc; /* without the command's name */
    char *const *argv;
    struct stk_opts opts;
    void *settings;
    const struct stk_common *common; /* first member of settings */
    struct stk_progress progress;
    struct stk_jw json; /* inside the object "result": a command adds its members */
    struct stk_buf json_text;
    /* After a signal the command removes what it made, and takes its time: attend.c does not end
     * it; a second signal does. */
    _Atomic bool cleans_up;
    const struct stk_deadline *_Atomic deadline; /* NULL: none. Borrowed, until it is NULL again */
    /* Takes away a screen that another process draws, before a last word; NULL: there is none. Called in
     * a thread of its own while the command is blocked: waits a second at most, allocates nothing. */
    void (*_Atomic leave_screen)(void);
    bool out_is_data; /* standard output carries data or JSON: text goes to stderr */
    struct stk_readers readers; /* stk_derives_from() */
    double start_s;
    int raise_signal; /* signal that ended the user's program; raised on us last */
    struct stk_err err;
    struct stk_buf hint; /* what to do about err, printed after it; may be empty */
};

/* Runs argv (without the command's name). Returns the exit status of the process. */
int stk_run_command(const struct stk_cmd *cmd, int argc, char *const *argv);
/* attend.c: calls what(run) beside a thread that ends the process if a signal came, or the deadline
 * is over, and the call is blocked. */
int stk_attend(struct stk_run *run, int (*what)(struct stk_run *run));
struct stk_judged; /* advice/advice.h */
/* stk_judge() of a trusted profile (stk_folder_believe(); trust: the value of --trust).
 * STK_E_STOPPED when a signal came meanwhile, which may have cut reading short. */
int stk_judge_profile(struct stk_run *run, const char *path, const char *trust,
                      struct stk_judged *out);
/* Prints text on the right stream; nothing with --quiet. */
void stk_say(const struct stk_run *run, const char *fmt, ...) STK_PRINTF(2, 3);
/* The same for a screen that src/report has drawn; releases it. Fails if it is not complete. */
int stk_say_text(struct stk_run *run, struct stk_buf *text);
/* The result of a command: fills run->json, and prints the screen. data: the struct that the kind is
 * filled from. how: NULL: as the kind says. */
struct stk_result_kind;
struct stk_screen stk_screen_of(const struct stk_run *run, const char *subject,
                                struct stk_buf *out);
struct stk_say_how {
    const char *subject; /* what the result is of; NULL: an argument */
    size_t problems;     /* how many are listed; 0: as many as the kind says */
    const void *style;   /* an option for fields that draw themselves */
    const char *csv;     /* also writes the table of the kind there; NULL: not */
};
int stk_say_result(struct stk_run *run, const struct stk_result_kind *kind, const void *data,
                   const struct stk_say_how *how);
/* Prints "stoker: pack: text" to stderr, everything escaped. cmd may be NULL. */
void stk_complain(const char *cmd, const char *text);
void stk_hint(const char *text);
/* Another process says the same: neither of them prints anything while it is on. */
void stk_mute(bool on);
/* True if run->err is about the first argument or a file below it. */
bool stk_err_in_data(const struct stk_run *run);
/* Prints "stopped by an interrupt", `more`, and a hint. */
void stk_say_stopped(const struct stk_run *run, int sig, const char *more);
/* Whether marks become colours on that stream. */
bool stk_in_colour(const struct stk_run *run, FILE *f);
/* Width of the output: the terminal's (60..120), else 80. */
unsigned stk_columns(const struct stk_run *run);

/* Refuses an output file of --option that cannot be written, before any work is done. Accepts NULL
 * and "-". */
int stk_check_output(struct stk_run *run, const char *option, const char *path);
/* Notes who may read what is at path: nobody else may read the files that this run writes of it. */
void stk_derives_from(struct stk_run *run, const char *path);
/* Writes such a file whole or not at all; "-" is standard output. */
int stk_put_output(const struct stk_run *run, const char *path, const struct stk_buf *b,
                   struct stk_err *err);

/* help.c */
void stk_help_overview(struct stk_buf *out);
void stk_help_command(const struct stk_cmd *cmd, struct stk_buf *out);
/* "stoker pack SRC DST [OPTIONS]" */
void stk_help_usage(const struct stk_cmd *cmd, struct stk_buf *out);

#define STK_BUILD_PARTS_MAX 80
struct stk_build_part; /* report/node.h */
/* formats.c: the optional parts of this build. part: room for STK_BUILD_PARTS_MAX. Returns their
 * number. */
size_t stk_list_parts(struct stk_build_part *part);

#endif
