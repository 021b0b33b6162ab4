/*
 * compare.h - `stoker stage --compare`: the same data staged in several forms (form.h), each with
 * several numbers of jobs at once, here or as Slurm jobs: seconds to the first usable sample and to
 * the last, the cost of preparing a form told apart, and where more jobs begin to wait for each
 * other.
 *
 * A form and a number of jobs are a point of a study (study/point.h), whose command is this program
 * with stk_compare_step(). Points run in random order, each several times, with none of the source
 * in the page cache of the node. Everything that is made lies in one folder beside the source and
 * one on each target, and is removed at the end, whatever the end is. The source is only read.
 */
#ifndef STK_STAGE_COMPARE_H
#define STK_STAGE_COMPARE_H

#include "scaling/bend.h"
#include "scaling/scaling.h"
#include "stage/form.h"
#include "study/runner.h"

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
