/* priv.h - shared by the parts that run a study. For runner*.c and the unit test. */
#ifndef STK_STUDY_PRIV_H
#define STK_STUDY_PRIV_H

#include <regex.h>
#include <sched.h>

#include "base/spawn.h"
#include "sched/slurm/slurm.h"
#include "host/beacon.h"
#include "host/cpus.h"
#include "record/folder.h"
#include "study/runner.h"

/* ---- words (study/command.c) ------------------------------------------------------------------ */

/* The values of the marks in a text. */
struct stk_marks {
    uint64_t n, ranks, size;        /* size 0: none */
    uint64_t nodes, ranks_per_node; /* 0: not placed */
};
struct stk_marks stk_point_marks(const struct stk_point *p);
/* Appends text with {n}, {ranks} and {size} replaced; every other brace stays. */
void stk_marks_expand(struct stk_buf *out, const char *text, const struct stk_marks *m);
bool stk_marks_in(const char *text, const char *mark);

/* A growing list of words in an arena, NULL-terminated. fail is sticky. */
struct stk_words {
    const char **v;
    size_t n, room;
    bool fail;
    struct stk_arena *arena;
};
void stk_words_add(struct stk_words *w, const char *text);
void stk_words_addn(struct stk_words *w, const char *text, size_t len);
/* The same, with marks replaced. */
void stk_words_add_expanded(struct stk_words *w, const char *text, const struct stk_marks *m);
/* Splits as a shell does, with '…', "…" and \, but expands nothing. */
int stk_words_split(struct stk_words *w, const char *text, struct stk_err *err);

/* ---- the plan (study/plan.c) ---------------------------------------------------------------- */

int stk_runner_check(const struct stk_runner_plan *p, struct stk_err *err);
/* Whether the size of the problem can depend on N, as far as we can see. */
bool stk_runner_grows(const struct stk_runner_plan *p);
/* The point with the most of something: the offset of a uint64_t in struct stk_point. */
const struct stk_point *stk_points_most(const struct stk_points *points, size_t offset);
int stk_runner_copy_plan(const struct stk_runner_plan *from, struct stk_arena *arena,
                         struct stk_runner_plan *to, struct stk_err *err);
void stk_runner_write_plan(const struct stk_runner_plan *p, struct stk_buf *out);
/* Describes what it runs, for people: secrets masked, safe on a terminal. */
void stk_runner_plan_text(const struct stk_runner_plan *p, struct stk_buf *out);
int stk_runner_read_plan(const char *text, size_t len, const char *path, struct stk_arena *arena,
                         struct stk_runner_plan *p, struct stk_err *err);

/* ---- one process (study/one.c) ------------------------------------------------------------- */

struct stk_exec_end {
    double wall_s, cpu_s;
    int64_t max_rss_bytes; /* of its largest process; -1: less than ours, which hides it */
    int status;            /* as in a shell */
    int signal;            /* the one that ended it, or 0 */
    bool timed_out, stopped;
};
/* Runs it to its end and times it by the monotonic clock, from before its start to after its end.
 * c, from its path on, says what to run and how long it may take; it is asked to end before it is
 * killed, and does not outlive us. An error: it could not be started. */
int stk_exec_timed(struct stk_child *c, struct stk_exec_end *end, struct stk_err *err);

/* ---- its output (study/output.c) ------------------------------------------------------------ */

#define STK_OUTPUT_MAX (16u << 20) /* bytes at the end of an output that are searched and kept */

struct stk_metric {
    regex_t regex;
    const char *member; /* instead; borrowed from the plan */
    bool compiled;
    enum stk_metric_pick pick;
};
int stk_metric_init(struct stk_metric *m, const char *regex, enum stk_metric_pick pick,
                    struct stk_err *err);
void stk_metric_release(struct stk_metric *m);
/* False: not found, or not a number. text[0..len] ends in a NUL; line breaks are overwritten. */
bool stk_metric_find(const struct stk_metric *m, char *text, size_t len, double *value);

/* A number of the JSON object that is the last line of an output. False: there is none. */
bool stk_output_member(const char *text, size_t len, const char *member, double *value);
/* Opens an unnamed file for the output of a command. */
int stk_output_open(int *fd, struct stk_err *err);
int stk_output_reset(int fd, struct stk_err *err);
/* Its end, or its beginning, NUL-terminated. */
int stk_output_read(int fd, bool head, struct stk_buf *b, struct stk_err *err);
/* The last line that says something, as much as fits, in UTF-8. */
void stk_output_last_line(const struct stk_buf *b, char *out, size_t size);

/* ---- the machine (study/machine.c) ---------------------------------------------------------- */

void stk_machine_look(struct stk_runner_conditions *c);
void stk_runner_note(struct stk_runner_conditions *c, const char *fmt, ...) STK_PRINTF(2, 3);

/* How busy others were: readings of /proc/stat around runs. */
struct stk_noise_watch {
    bool known;
    double at_s, busy_s, steal_s, all_s; /* at the last reading; CPU seconds */
    double ours_s;                       /* used by our runs since */
    double others_s, stolen_s, total_s, watched_s, worst;
};
void stk_noise_begin(struct stk_noise_watch *w);
/* cpu_s: CPU time of a run. */
void stk_noise_run(struct stk_noise_watch *w, double cpu_s);
void stk_noise_end(struct stk_noise_watch *w, struct stk_runner_conditions *c);

/* ---- how a run is started (study/command.c) ------------------------------------------------- */

/* The same for all points: where programs are, and what precedes the command. */
struct stk_launcher {
    struct stk_arena arena;
    struct stk_words prefix;    /* launcher and container, with marks */
    const char *const *visible; /* GPUs, as in CUDA_VISIBLE_DEVICES */
    size_t nvisible;
    struct stk_cores cores;
};
int stk_launcher_init(struct stk_launcher *l, const struct stk_runner_plan *p,
                      const struct stk_points *points, struct stk_runner_conditions *c,
                      struct stk_err *err);
void stk_launcher_release(struct stk_launcher *l);
/* One run: argv and envp are in the arena, which is reset first. */
struct stk_command {
    struct stk_arena arena;
    struct stk_words argv, env;
    char *path; /* malloc'ed */
    cpu_set_t cpus;
    bool pinned;
};
int stk_command_make(struct stk_command *c, const struct stk_launcher *l,
                     const struct stk_runner_plan *p, const struct stk_point *point,
                     struct stk_err *err);
/* A line for sh, with marks. */
int stk_command_shell(struct stk_command *c, const struct stk_launcher *l,
                      const struct stk_runner_plan *p, const char *line,
                      const struct stk_point *point, struct stk_err *err);
void stk_command_release(struct stk_command *c);

/* ---- one run (study/one.c) ------------------------------------------------------------------ */

struct stk_one {
    const struct stk_runner_plan *plan;
    const struct stk_launcher *launcher;
    const struct stk_metric *metric;
    struct stk_command command;
    int (*run)(void *user, const struct stk_point *p); /* in place of it; NULL: none */
    void *run_user;
    const struct stk_point *point;
    int out_fd;
    int (*tick)(void *user, const char *phase);
    void *user;
    const char *phase;
    char note[STK_STUDY_TEXT_MAX + 1];
    struct stk_buf output; /* of the last run: read only when needed */
};
/* out_fd: for its output, takes ownership; -1: an unnamed file. */
int stk_one_init(struct stk_one *o, const struct stk_runner_plan *plan,
                 const struct stk_launcher *launcher, const struct stk_metric *metric, int out_fd,
                 struct stk_err *err);
void stk_one_release(struct stk_one *o);
/* A run of the point with everything unknown. */
struct stk_study_run stk_point_run(const struct stk_point *p, uint64_t repeat);
/* Prepares, runs, times. Fills status, times, value and note (borrowed until the next run).
 * STK_E_STOPPED: tick stopped it. */
int stk_one_run(struct stk_one *o, const struct stk_point *p, uint64_t repeat,
                struct stk_study_run *run, struct stk_err *err);

/* ---- the study in its folder (study/runner.c) ----------------------------------------------- */

struct stk_runner {
    struct stk_arena arena;
    struct stk_runner_plan plan;
    struct stk_points points;
    struct stk_tally *tally; /* of each */
    struct stk_folder folder;
    const char *dir; /* its path */
    int journal_fd;
    double synced_s, published_s, start_s;
    struct stk_study study;
    struct stk_runner_conditions conditions;
    struct stk_metric metric;
    const struct stk_runner_watch *watch;
    struct stk_runner_state state;
    bool fresh, changed; /* created by this call; its plan differs from the one on disk */
    const char *trust;   /* other accepted owners, as for --trust; NULL: none */
    size_t before[STK_STUDY_SERIES_MAX]; /* how many runs of each series are of earlier calls */
    bool retry;                          /* those that failed are repeated, too */
    bool budget_spent;
    double passed_s;        /* in runs of this call, by plan.clock */
    double shortest_s;      /* of all runs and warm-ups of this call; 0: none yet */
    double around_s;        /* the longest time spent beside a run: --prepare */
    bool later;             /* the executor accepts no more runs at the moment */
    struct stk_err refused; /* why the last one was refused; code 0: none was */
    void *there;            /* private to the executor */
    struct stk_beacon beacon;
};

/* Adds a run of a point to the journal and to the study. */
int stk_runner_keep(struct stk_runner *r, struct stk_tally *t, const struct stk_study_run *run,
                    struct stk_err *err);
/* Reads a file of JSON lines and calls line() for each; cuts off an incomplete line that a crash
 * left. */
typedef int stk_line_fn(void *user, const struct stk_jval *v, struct stk_err *err);
int stk_lines_open(const struct stk_folder *f, const char *name, int *fd, stk_line_fn *line,
                   void *user, struct stk_err *err);
int stk_lines_add(int fd, const struct stk_jfield *table, const void *from, const char *path,
                  struct stk_err *err);

/* The point of a run in the journal; NULL: not in the plan. */
struct stk_tally *stk_runner_point_of(const struct stk_runner *r, const struct stk_study_run *run);
#define STK_RUN_NAME_SIZE (STK_POINT_ID_MAX + 24)
/* "n8-r2" */
void stk_run_name(const struct stk_point *p, uint64_t repeat, char *name, size_t size);

/* ---- which run is next (study/drive.c) ------------------------------------------------------- */

void stk_tally_update(const struct stk_runner *r, struct stk_tally *t);
/* The same for all points, if whether one is done depends on the others. */
void stk_tally_compare(const struct stk_runner *r);
/* How often it was tried, including waiting runs, without runs to be repeated. */
uint64_t stk_tally_tries(const struct stk_tally *t);
/* The number of its next run. */
uint64_t stk_tally_next(const struct stk_tally *t);
/* What time it is for the budget: runs here may have a clock of their own. */
double stk_runner_now(const struct stk_runner *r);
int stk_runner_tick(struct stk_runner *r, const char *phase);
int stk_runner_drive(struct stk_runner *r, struct stk_err *err);

/* ---- Slurm (study/jobs.c) ------------------------------------------------------------------- */

#define STK_TOKEN_SIZE 12

/* A job that has not been collected. */
struct stk_job_run {
    uint64_t id; /* 0: sbatch gave no answer, and the job may exist under its name */
    struct stk_tally *tally;
    uint64_t repeat;
    char token[STK_TOKEN_SIZE]; /* the end of its name */
    double gone_s;              /* since when it has ended, or Slurm does not know it; 0: neither */
    double stuck_s;             /* since when it is known that it cannot start; 0: it may */
    bool pending;
};
/* Makes the batch file and the options of sbatch for one run. */
int stk_batch_make(const struct stk_runner *r, const struct stk_job_run *j, struct stk_buf *script,
                   struct stk_words *args, struct stk_err *err);
/* Reads plan and points of a study on disk. STK_E_EXISTS: it belongs to another user, or another
 * user could have changed it, and r->trust does not accept that. */
int stk_runner_find_plan(struct stk_runner *r, const char *dir, struct stk_err *err);
int stk_runner_make_points(struct stk_runner *r, struct stk_err *err);

#endif
