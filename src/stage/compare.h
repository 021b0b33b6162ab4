/*
 * compare.h - `stoker stage --compare`: the same data staged in several forms, each with
 * several numbers of jobs at once, here or as Slurm jobs: seconds to the first usable sample and to
 * the last, the cost of preparing a form told apart, and where more jobs begin to wait for each
 * other.
 *
 * A form and a number of jobs are a point of a study (study/runner.h), whose command is this program
 * with stk_compare_step(). Points run in random order, each several times, with none of the source
 * in the page cache of the node. Everything that is made lies in one folder beside the source and
 * one on each target, and is removed at the end, whatever the end is. The source is only read.
 */
#ifndef STK_STAGE_COMPARE_H
#define STK_STAGE_COMPARE_H

#include "scaling/bend.h"
#include "scaling/scaling.h"
#include "study/runner.h"
#include "tier/source.h"

/* ---- forms ----------------------------------------------------------------------------------- */

/* The forms of the same data that `stoker stage --compare` stages: as it is, as one tar that is
 * then extracted, as record shards, as a squashfs image. A form is one const struct in one table:
 * how it is prepared once, and what it takes, after the copy is on the node, until its samples can
 * be read. */
enum { STK_FORM_FILES, STK_FORM_TAR, STK_FORM_RECORDS, STK_FORM_SQUASHFS, STK_FORMS };

#define STK_FORM_WORDS 24

/* The program that prepares a form; its texts belong to the caller or live forever. */
struct stk_form_command {
    const char *argv[STK_FORM_WORDS];
    char parent[4096], jobs[16];
};

/* Filled in as the copy becomes usable: seconds on the clock of stk_now(). */
struct stk_form_use {
    const char *copy; /* the staged form */
    const char *dir;  /* a folder of the job's own, for what is made of the copy */
    double first_at;  /* in: the first piece was there; out: the first sample can be read */
    double last_at;   /* in: the copy was complete; out: every sample can be read */
};

struct stk_form {
    const char *id;             /* in options and results */
    const char *does;           /* "one tar, then extracted" */
    const char *name;           /* of the prepared form; NULL: the source itself */
    const char *tool, *package; /* the system program that it needs; NULL: none */
    uint64_t copies;            /* of the data that are on the target at once */
    uint64_t per_file;          /* bytes that the form adds to each file, at most */
    void (*prepare)(const struct stk_source *src, const char *self, const char *out,
                    struct stk_form_command *c);                /* NULL: nothing to prepare */
    int (*open)(struct stk_form_use *use, struct stk_err *err); /* NULL: a copy is usable at once */
};

extern const struct stk_form stk_forms[STK_FORMS];
extern const char *const stk_form_ids[STK_FORMS + 1]; /* NULL-terminated */
const struct stk_form *stk_form_find(const char *id); /* or NULL */
/* Why it cannot be measured here; NULL: it can. */
const char *stk_form_missing(const struct stk_form *f, char *why, size_t size);
/* Bytes that the prepared form may take; 0 if nothing is prepared. */
uint64_t stk_form_bytes(const struct stk_form *f, uint64_t bytes, uint64_t files);
/* Bytes that one job may take on its target. */
uint64_t stk_form_target_bytes(const struct stk_form *f, uint64_t bytes, uint64_t files);

struct stk_compare_plan {
    const char *source;
    const char *target;     /* jobs stage to a new folder in it; NULL: chosen on each node */
    const char *beside;     /* prepared forms go to a new folder in it, on the storage of the
                               source; NULL: the folder that contains the source */
    const char *const *ids; /* of the forms, NULL-terminated; NULL: all */
    const char *jobs;       /* numbers of jobs at once, as for stk_runner_parse_n() */
    uint64_t runs, seed;
    const struct stk_executor *via;
    uint64_t per_node;   /* jobs that share a node; 0: 1. Here all of them do */
    const char **sbatch; /* options of sbatch; NULL-terminated, or NULL */
    /* Called several times per second, with what happens now; non-zero: stop. May be NULL. */
    int (*tick)(void *user, const char *doing);
    void *user;
};

/* A form with that many jobs at once: all jobs of all its runs. */
struct stk_compare_times {
    uint64_t n;
    size_t jobs;
    double first_s, last_s; /* medians */
    double slowest_s;       /* the largest time to the last sample */
};

struct stk_compare_form {
    const struct stk_form *form;             /* NULL: not asked for */
    char why[320];                           /* why it was not measured; "": it was */
    char *path;                              /* of the form as it is staged */
    double prepare_s;                        /* once; NaN: nothing to prepare */
    uint64_t files, bytes;                   /* of the form as it is staged */
    const struct stk_scaling_series *series; /* NULL: no run */
    struct stk_compare_times *times;         /* n rising */
    size_t ntimes;
    struct stk_bend bend;
};

#define STK_COMPARE_NOTES 24

struct stk_compare {
    char *source, *target;             /* target NULL: chosen on each node */
    const char *source_fs, *target_fs; /* kinds of file systems; NULL: not known */
    uint64_t files, bytes;             /* of the source */
    uint64_t runs;
    const struct stk_executor *via;
    bool stopped, complete; /* complete: every point has all its runs */
    struct stk_compare_form form[STK_FORMS];
    struct stk_scaling scaling; /* time to the last sample over jobs at once; a series per form */
    char note[STK_COMPARE_NOTES][320]; /* sentences without a full stop */
    size_t nnotes;
    struct stk_runner *runner; /* the study behind all this; NULL: it was not begun */
};

/* Runs the comparison. Caller releases with stk_compare_release(), also after an error.
 * STK_E_STOPPED: tick() stopped it; the times so far are there. */
int stk_compare(const struct stk_compare_plan *plan, struct stk_compare *out, struct stk_err *err);
void stk_compare_release(struct stk_compare *c);

/* What the runs with the fewest jobs at once show of a form against another. */
struct stk_verdict stk_compare_verdict(const struct stk_compare_form *f,
                                       const struct stk_compare_form *than);
/* The form to use: the data as it is, unless others are shown to be faster. Of the forms that are,
 * and take hardly longer (STK_BEND_TOLERANCE) than the fastest of them, the one that takes least to
 * prepare. NULL: nothing was measured. */
const struct stk_compare_form *stk_compare_best(const struct stk_compare *c);
/* After how many stagings preparing a form has saved its own time, against another form. Infinite:
 * never; NaN: not known. */
double stk_compare_pays_after(const struct stk_compare_form *f,
                              const struct stk_compare_form *than);

/* ---- inside a point ------------------------------------------------------------------------- */

struct stk_compare_step {
    const char *dir;         /* the folder of the comparison */
    const char *form;        /* id */
    uint64_t n;              /* jobs at once, in all processes of the point */
    uint64_t jobs;           /* of them in this process */
    int (*stop)(void *user); /* may be NULL */
    void *user;
};
struct stk_compare_job {
    double first_s, last_s;
};
/* Stages the form by `jobs` jobs at once and writes their times to the folder of the comparison.
 * *out: one per job, caller frees with free(). */
int stk_compare_step(const struct stk_compare_step *s, struct stk_compare_job **out,
                     struct stk_err *err);
/* What a point prints about a job; the metric of the study reads it. */
#define STK_COMPARE_LINE   "seconds to first sample: %.6f\nseconds to last sample: %.6f\n"
#define STK_COMPARE_METRIC "seconds to last sample: ([0-9.]+)"

#endif
