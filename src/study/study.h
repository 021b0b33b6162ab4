/*
 * study.h - a scaling study: runs of the same thing at several N, as measured.
 *
 * Nothing is computed here (scaling.h does); runs are only ever added, by a reader of files or by
 * the runner. Every text is copied; lengths and counts are bounded.
 */
#ifndef STK_STUDY_STUDY_H
#define STK_STUDY_STUDY_H

#include "base/buf.h"
#include "base/json_fields.h"
#include "sched/slurm/slurm.h"

/* ---- columns of foreign tables --------------------------------------------------------------- */

/* What the columns of foreign tables mean: one table of names and one of units, for CSV, for JSON
 * of other tools, and for --columns. */
enum stk_table_col {
    STK_COL_NONE, /* not ours */
    STK_COL_N,
    STK_COL_TIME,
    STK_COL_REPEAT,
    STK_COL_SERIES,
    STK_COL_CORES,
    STK_COL_GPUS,
    STK_COL_NODES,
    STK_COL_HOST,
    STK_COL_STATUS,
    STK_COL_KIND,
    STK_COL_NOTE,
    STK_COL_JOB,
    STK_COL_QUEUE,
    STK_COL_VALUE,
    STK_COL_RATE,
    STK_COL_COUNT, /* threads, ranks: N if no column has that name */
    STK_COL_TRES,  /* Slurm's "cpu=4,gres/gpu=2,node=1" */
};

#define STK_HEADING_MAX   63 /* bytes of a name */
#define STK_HEADING_VAGUE 8  /* added to the rank of a time whose name does not say that it is the one */

/* A column by its heading: "Time (ms)", "runtime_avg[s]", "img/s". */
struct stk_heading {
    enum stk_table_col column;
    double factor;    /* of plain numbers: 0.001 for milliseconds */
    bool hours;       /* "2:30" is hours and minutes */
    bool parameter;   /* of hyperfine: if it is not N, it tells series apart */
    unsigned rank;    /* 0: of one run; otherwise a summary or vague, used if no column of a lower
                         rank is there */
    const char *unit; /* what it counts, if it is N: "GPUs"; NULL: unknown */
    char name[STK_HEADING_MAX + 1]; /* of the value or rate as shown; else in lower case */
};

/* Which heading is which column, as given by --columns. */
#define STK_HEADINGS_MAX 16
struct stk_headings {
    size_t n;
    struct {
        enum stk_table_col column;
        char heading[STK_HEADING_MAX + 1];
    } v[STK_HEADINGS_MAX];
};

/* Reads "n=tasks,time=runtime_avg". */
int stk_headings_parse(const char *text, struct stk_headings *out, struct stk_err *err);
/* map: may be NULL. A column that the map names is found by it alone. */
void stk_heading_read(const char *text, const struct stk_headings *map, struct stk_heading *out);

#define STK_STUDY_SERIES_MAX 64
#define STK_STUDY_RUNS_MAX   20000 /* in all series */
#define STK_STUDY_N_MAX      1000000000
#define STK_STUDY_TEXT_MAX   255 /* bytes of a name, host or note */

enum stk_run_status {
    STK_RUN_OK,
    STK_RUN_FAILED,  /* ended with a status other than 0, or has no time */
    STK_RUN_TIMEOUT, /* reached its time limit */
    STK_RUN_CANCELLED,
    STK_RUN_MEMORY, /* killed for memory */
    STK_RUN_NODE,   /* the node failed */
    STK_RUN_PENDING /* never started */
};
#define STK_RUN_STATUSES (STK_RUN_PENDING + 1)
const char *stk_run_status_word(enum stk_run_status s); /* "failed", "out of memory" */
extern const char *const stk_run_status_ids[]; /* "failed", "memory": in files. Ends in NULL */
/* The status for a word of ours, of Slurm (COMPLETED, OUT_OF_MEMORY, "CANCELLED by 0") or of a
 * person; -1: none. */
int stk_run_status_find(const char *word, size_t n);
/* True for a word of Slurm for a job that has started and not ended. */
bool stk_run_is_live(const char *word, size_t n);
enum stk_run_status stk_run_status_of(enum stk_slurm_state state);
/* True when the run speaks against the program: it failed, took too long or too much memory.
 * Cancelled runs, runs that never started and failed nodes do not. */
bool stk_run_blames(enum stk_run_status s);

/* One run. */
struct stk_study_run {
    uint64_t n;                 /* 1..STK_STUDY_N_MAX */
    const char *point;          /* the id of its point, if N alone does not identify it; NULL */
    uint32_t repeat;            /* its index among the runs of its point */
    enum stk_run_status status; /* only OK runs count */
    double wall_s;              /* wall clock of the command; NaN: unknown */
    double value;               /* the metric, if the study has one; NaN: none */
    int64_t cores, gpus, nodes; /* allocated, not requested; -1: unknown */
    double queue_s;             /* time in the queue; NaN: unknown */
    double accounted_s;         /* elapsed time by the scheduler's accounting; NaN: unknown */
    double launch_s;            /* how long the launcher takes for an empty command; NaN: unknown */
    double cpu_s;               /* CPU time of all its processes; NaN: unknown */
    int64_t peak_memory_bytes;  /* of its largest process; -1: unknown */
    const char *host;           /* NULL: unknown */
    const char *kind;           /* of node or GPU, "a100", "EPYC 7742"; NULL: unknown */
    const char *job;            /* the scheduler's id; NULL: none */
    const char *note;           /* why it failed; NULL: none */
    const char *output;         /* the files of the study with its output; NULL: none */
};
/* Everything unknown, status OK. */
#define STK_STUDY_RUN_INIT                                                                         \
    {                                                                                              \
        .wall_s = NAN, .value = NAN, .cores = -1, .gpus = -1, .nodes = -1, .queue_s = NAN,         \
        .accounted_s = NAN, .launch_s = NAN, .cpu_s = NAN, .peak_memory_bytes = -1                 \
    }

struct stk_headings;
struct stk_study_series {
    const char *name; /* "": the only one, without a name */
    struct stk_study_run *run;
    size_t nruns;
};

struct stk_study {
    const char *unit;   /* what N counts: "threads", "GPUs"; NULL: just N */
    const char *metric; /* name of the compared value; NULL: the wall clock */
    bool higher_better; /* of the metric: a rate, not a time */
    bool weak;          /* the problem grew with N */
    bool fixed;         /* the three above are fixed: files that differ are refused */
    const struct stk_headings *headings; /* of tables to be read; NULL: by their names. Borrowed */
    struct stk_study_series series[STK_STUDY_SERIES_MAX];
    size_t nseries, nruns;
    struct stk_arena text;
};

#define STK_STUDY_INIT                                                                             \
    {                                                                                              \
        0                                                                                          \
    }

void stk_study_release(struct stk_study *s);
int stk_study_set_unit(struct stk_study *s, const char *unit, struct stk_err *err);
int stk_study_set_metric(struct stk_study *s, const char *name, bool higher_better,
                         struct stk_err *err);
/* The series of that name, created if missing. Borrowed: the index is valid as long as s. */
int stk_study_series(struct stk_study *s, const char *name, size_t len, size_t *index,
                     struct stk_err *err);
/* Whether a run can be added: an OK run must have a positive, finite time (or value, if there is a
 * metric). */
int stk_study_check(const struct stk_study *s, const struct stk_study_run *run,
                    struct stk_err *err);
/* Copies a run that can be added. */
int stk_study_add(struct stk_study *s, size_t series, const struct stk_study_run *run,
                  struct stk_err *err);
/* Copies the runs of all series; a series without a name becomes `name`. */
int stk_study_append(struct stk_study *to, const struct stk_study *from, const char *name,
                     struct stk_err *err);
/* The compared value, smaller is better: seconds, the metric, or its inverse. NaN: not an OK
 * run. */
double stk_study_cost(const struct stk_study *s, const struct stk_study_run *run);
/* The number of nodes in a list such as "n1,n[4-6,8]". 0: none, or not such a list. */
size_t stk_study_hosts(const char *list);

/* ---- files -------------------------------------------------------------------------------- */

#define STK_STUDY_FILE_MAX    (32u << 20)
#define STK_STUDY_COLUMNS_MAX 256

/*
 * Reads times measured elsewhere (study/csv.c): one row per run, separated by comma, semicolon or
 * tab. With a header, columns are found by name (docs/scale.md), unknown ones are ignored, and
 * several `time` columns are repeats. Without one the order is n, time, repeat, series, cores,
 * gpus, nodes, host, status. Lines that begin with # are skipped. On error err->offset is the line.
 * Runs go into the series of their row, or into `series` if there is no such column.
 */
int stk_study_read_csv(struct stk_study *s, const char *text, size_t len, const char *path,
                       const char *series, struct stk_err *err);
/* The same for a table that was made from another format: errors name no line. */
int stk_study_read_converted(struct stk_study *s, const struct stk_buf *table, const char *path,
                             const char *series, struct stk_err *err);
/* The study as the value of a JSON member, and back: from a study, or from a result of `stoker
 * scale` that contains one. */
void stk_study_write_json(const struct stk_study *s, struct stk_jw *w);
extern const struct stk_jfield stk_study_run_fields[];
/* Texts are borrowed from v. Missing members are NaN, -1 and NULL. */
int stk_study_read_run(const struct stk_jval *v, struct stk_study_run *run, struct stk_err *err);
int stk_study_read_json(struct stk_study *s, const char *text, size_t len, const char *path,
                        struct stk_err *err);
/* The JSON of another tool as a table (study/foreign.c): hyperfine, ReFrame. *known: it is one. */
int stk_study_convert(const struct stk_jval *root, const struct stk_headings *headings,
                      const char *path, struct stk_buf *table, bool *known, struct stk_err *err);
/* Reads any kind of file; "-" is the standard input. series: as for CSV. */
int stk_study_read(struct stk_study *s, const char *path, const char *series, struct stk_err *err);

#endif
