/*
 * tune.h - the closed loop: a workload, changes that may make it faster, each replayed on this
 * storage beside the workload as it is, and a ranking of what was measured.
 *
 * A change is one row of a table (tune/kinds.c): when it applies, the keys of the workload that it
 * sets, what has to be prepared for it, what it costs, and the actions that carry it out. A
 * candidate is one change, or a combination of changes that have won alone. Candidates are points
 * of two studies (study/runner.h): the first compares all of them with the baseline, the second
 * measures the winners and their combinations afresh, so that no gain is an accident of having been
 * chosen. Everything that is made lies in one folder beside the data and one on each faster
 * storage. The data itself is only read.
 */
#ifndef STK_TUNE_TUNE_H
#define STK_TUNE_TUNE_H

#include "advice/action.h"
#include "base/own.h"
#include "base/verdict.h"
#include "bench/workload.h"
#include "study/runner.h"

#define STK_TUNE_CHANGES 4 /* of a candidate, at most */
#define STK_TUNE_SETS    6 /* keys of a change */
#define STK_TUNE_MAX     48
#define STK_TUNE_NOTES   24
#define STK_TUNE_PARTS   4
#define STK_TUNE_PLACES  2 /* of an index */
#define STK_TUNE_INDEXES (2 * STK_TUNE_PLACES)
#define STK_TUNE_ACTIONS (2 * STK_TUNE_PARTS + 1) /* of a change */
/* In the folder: the beacon of a running call, and the folders of its two studies. */
#define STK_TUNE_STATUS "status.json"
#define STK_TUNE_FIRST  "first"
#define STK_TUNE_SECOND "second"

#define STK_SCRIPT_PATH 4096

/* The Python script behind a command: `python train.py`, `python -m pkg`, `torchrun … train.py`,
 * `srun python …`, `sh -c "…"`. A patch is made for it. */
struct stk_script {
    char python[STK_SCRIPT_PATH]; /* the interpreter; "": the command does not say */
    char file[STK_SCRIPT_PATH];   /* absolute; "": a module */
    char module[256];             /* of python -m; "": a file */
    char cwd[STK_SCRIPT_PATH];    /* where the command runs */
};

/* What the job itself used, by its profile. */
struct stk_tune_job {
    bool known;
    uint64_t peak_bytes; /* of memory, all processes */
    uint64_t gpus;       /* that it could use */
    double loop_s;       /* of the main loop; 0: not known */
    enum stk_framework framework;
    bool batch_guessed;    /* the workload's batch is an assumption */
    /* How stoker's loader would decode the pictures that it trains with; NULL: there are none. */
    const char *decode;
    bool labelled, size_known; /* as in struct stk_action */
};

/* What is tuned, and how. */
struct stk_tune_plan {
    const char *workload;    /* a workload file, or the name of one that comes with stoker */
    const struct stk_workload *made; /* or one that was made of a profile or a dataset, settled */
    const char *name;        /* for people; NULL: that of the workload */
    const struct stk_script *script; /* of the job; NULL: not known */
    struct stk_tune_job job;
    const char *const
        *notes;              /* sentences about the job, for the result; NULL-terminated, or NULL */
    const char *data;        /* folder of its data; NULL: the workload says where its data is */
    const char *const *set;  /* keys of the workload to change; NULL-terminated, or NULL */
    bool small;              /* the workload's small variant */
    const char *beside;      /* prepared data goes to a new folder in it; NULL: beside the data */
    const char *const *near; /* folders on faster storage, NULL-terminated; NULL: found */
    const char *const *only; /* ids of kinds to try; NULL: all */
    const char *choice;      /* id of a change that is tried before others; NULL: none */
    double budget_s;
    uint64_t space_bytes; /* the most that prepared data may take, in all; 0: what is free */
    double least;         /* a gain below this share is not worth a change */
    uint64_t seed;
    const struct stk_executor *via;
    const char **sbatch;
    bool keep;           /* what was made stays */
    bool fewer_cpus;     /* also tries how many CPUs reading needs */
    const char *storage; /* --virtual-storage of bench: for tests; NULL: the real one */
    /* Actions of the findings about a profile: only kinds that carry out one of them are tried.
     * NULL: all kinds. */
    const struct stk_action *action;
    size_t nactions;
    /* Called several times per second, with what happens now; non-zero: stop. May be NULL. */
    int (*tick)(void *user, const char *doing);
    void *user;
};

struct stk_tune_kind;

/* How a run uses a copy. */
enum stk_tune_use {
    STK_USE_NOTHING,
    STK_USE_LOADER, /* the loader reads it */
    STK_USE_DATA,   /* the program reads it instead of its data */
    STK_USE_INDEX,  /* the index of the data, for the loader: it is made once, not in every run */
};

/* One change: a row of the table with its numbers. Texts belong to struct stk_tune. */
struct stk_tune_change {
    const struct stk_tune_kind *kind;
    const char *kind_id;
    char id[STK_POINT_ID_MAX]; /* "threads-8" */
    char label[96];            /* "8 reading threads instead of 1" */
    const char *set[STK_TUNE_SETS]; /* "reader.threads=8" */
    size_t nset;
    bool loader;                /* stoker's loader reads */
    const char *format, *codec; /* of prepared data; NULL: as it is */
    const char *source;         /* the data as it is; NULL: none */
    enum stk_tune_use use;
    size_t near;                /* of a copy: the number of that folder */
    uint64_t number;            /* of the kind: threads, bytes, … */
    const char *where;          /* of a copy: the folder on faster storage; NULL: beside the data */
    const char *named;          /* the same if the user has named it, else "" */
    uint64_t memory_bytes;      /* that it takes on each node */
    unsigned cpus;              /* that all ranks together may use; 0: all */
    const char *makes;          /* the name of what is prepared for it; NULL: nothing is */
    size_t single; /* the number of the candidate that is this change alone */
};

/* A candidate before anything is known about it: one change, or several that go together. */
struct stk_tune_proposal {
    char id[STK_POINT_ID_MAX];
    char label[200];
    struct stk_tune_change change[STK_TUNE_CHANGES];
    size_t nchanges; /* 0: the job as it is */
};

enum stk_tune_verdict {
    STK_TUNE_GAIN,    /* clearly faster, by more than is worth mentioning */
    STK_TUNE_NOTHING, /* clearly no gain that is worth the change */
    STK_TUNE_UNCLEAR, /* the runs differ too much, or too few were made */
    STK_TUNE_DROPPED, /* not tried: the prediction shows that it cannot help */
    STK_TUNE_SKIPPED, /* not tried: no space, a program is missing, … */
    STK_TUNE_FAILED,  /* every run failed */
};
const char *stk_tune_verdict_name(enum stk_tune_verdict v); /* in JSON */

struct stk_tune_candidate {
    char id[STK_POINT_ID_MAX];
    char label[200];
    struct stk_tune_change change[STK_TUNE_CHANGES];
    size_t nchanges; /* 0: the baseline */
    enum stk_tune_verdict verdict;
    char why[320];           /* dropped, skipped, failed; or what to know about the gain */
    double predicted_s;      /* of an epoch; NaN: no prediction */
    /* Of the baseline, the median; of the others, that divided by gain.times: the runs of one round
     * are compared, so that a machine that gets slower meanwhile does not decide. NaN: not measured
     */
    double epoch_s;
    struct stk_interval epoch_ci;
    double utilisation;      /* of the accelerators; NaN: unknown, or the job computes nothing */
    double cores;            /* CPUs that its runs kept busy, mean; NaN: unknown */
    uint64_t runs;           /* that ended well, in both studies */
    bool confirmed;          /* its numbers are those of the second study */
    struct stk_verdict gain; /* against the baseline, from the pairs of a round */
    /* Costs. */
    double once_s;           /* for the whole dataset; 0: nothing; NaN: unknown */
    uint64_t disk_bytes, memory_bytes;
    double pays_after;       /* epochs; 0: at once; infinite: never; NaN: unknown */
    double mixing;           /* spread of a batch against that of a full shuffle; NaN: as before */
};

/* A folder of the data that is a dataset of its own, or all of it. Texts belong to struct stk_tune.
 */
struct stk_tune_part {
    const char *name;   /* "train"; "": all of the data */
    const char *source; /* its path */
    const char *packed; /* where it is packed to */
    bool evaluated;     /* not trained with: every sample once, in order */
    bool classes;       /* its folders are classes */
    const char *decode; /* of what is evaluated, by a finding about a profile; NULL: not known */
    struct stk_file_field field[STK_FIELDS]; /* of its samples, if a finding knows them */
};

/* The datasets in the data. */
struct stk_tune_parts {
    struct stk_tune_part part[STK_TUNE_PARTS]; /* the one to train with first */
    size_t nparts;             /* 0: there is no data */
    const char *packed;        /* where packed data goes, for lines to paste; NULL: there is none */
    /* The folder of images/ and masks/, one dataset for the loader, and where it is packed; NULL:
     * there is none. What is measured, and patched, are the files of one of them. */
    const char *sides, *sides_packed;
    struct stk_file_field sides_field[STK_FIELDS];
};

struct stk_tune {
    char *name;                /* of the workload or dataset */
    char *dir;                 /* the folder, if it stays; NULL: removed */
    struct stk_tune_job job;
    struct stk_script script;  /* of the job; no file and no module: not known */
    const char *file_system;   /* of the data; NULL: there is none */
    uint64_t files, bytes;     /* of the data */
    uint64_t sample_bytes;     /* of it that the runs read at most; bytes: all */
    uint64_t steps, ranks;     /* of a run */
    uint64_t batch, threads;
    uint64_t memory_bytes;     /* of the largest rank of the job as it is */
    struct stk_tune_parts data;
    bool shuffles;
    const struct stk_format_use *use; /* of all files of the data; NULL: they differ, or unknown */
    enum stk_framework framework; /* of the lines to paste */
    const char *decode;        /* that changes with a loader decode to; NULL: they do not */
    double compute_s;          /* per epoch and accelerator */
    double least;
    struct stk_tune_candidate *candidate; /* the first is the baseline; then by rank */
    size_t n;
    size_t best;               /* 0: nothing to gain */
    bool chosen;               /* by the user, whatever it gains */
    bool stopped, budget_spent; /* stopped: also by an error; what is known so far is there */
    double seconds;            /* this took */
    const struct stk_executor *via;
    char note[STK_TUNE_NOTES][480]; /* sentences without a full stop */
    size_t nnotes;
    struct stk_arena arena; /* texts of the candidates */
};

/* Tunes. Caller releases with stk_tune_release(), also after an error. STK_E_STOPPED: tick()
 * stopped it; what is known so far is there, and out->dir can be resumed. So it is after an error
 * once runs have been made: a disk that is full may have space tomorrow. */
int stk_tune(const struct stk_tune_plan *plan, struct stk_tune *out, struct stk_err *err);
/* Continues in the folder of an earlier call. plan: tick, user, budget and keep count; the rest is
 * in the folder. */
int stk_tune_resume(const char *dir, const struct stk_tune_plan *plan, struct stk_tune *out,
                    struct stk_err *err);
/* Removes what an earlier call made, and nothing else. *left: the rest. */
int stk_tune_clean(const char *dir, struct stk_left *left, struct stk_err *err);
void stk_tune_release(struct stk_tune *t);

/* Appends the actions that carry out a candidate, and the sentences that no action says. Returns
 * how many. Texts are borrowed from the candidate. */
size_t stk_tune_actions(const struct stk_tune *t, const struct stk_tune_candidate *c,
                        struct stk_action out[STK_TUNE_CHANGES * STK_TUNE_ACTIONS]);
/* Makes the candidate of that id the best, whatever it gains. */
int stk_tune_choose(struct stk_tune *t, const char *id, struct stk_err *err);
/* What a person does for a change that no action carries out; NULL: an action does. */
const char *stk_tune_advice(const struct stk_tune_change *c);
/* The option of stoker.patch that changes a script for part n of a change, and its argument; NULL:
 * people change it, or there are no more parts. made: where the data is now; NULL: where it was. */
const char *stk_tune_patch(const struct stk_tune *t, const struct stk_tune_change *c,
                           const char *made, size_t n, struct stk_buf *argument);
/* The paths of the indexes that reading the data may leave, beside it or in the user's cache, in
 * the arena; NULL: there is one already, or no memory. Afterwards they can be removed. data may be
 * NULL. */
void stk_tune_indexes_of(struct stk_arena *a, const char *data, const char *index[STK_TUNE_PLACES]);
void stk_tune_remove_index(const char *index);
/* Packed data goes there, its parts into folders below. */
int stk_tune_pack_to(struct stk_tune *t, const char *to, struct stk_err *err);
/* The seed with which a part is shuffled when it is packed; 0: not. Class after class, a loader
 * that reads blocks would give batches of one class. */
uint64_t stk_tune_mixes(const struct stk_tune *t, const struct stk_tune_part *p);
/* A workload that reads the dataset at path, as programs usually do; settled. stop: non-zero ends
 * the look at its files with STK_E_STOPPED; NULL: never. Caller frees with stk_workload_release(),
 * also on error. */
int stk_tune_guess(const char *path, int (*stop)(void), struct stk_workload *w,
                   struct stk_err *err);
/* Ids of the kinds, NULL-terminated. */
const char *const *stk_tune_kind_ids(void);

/* ---- the user's own command ----------------------------------------------------------------- */

/* Finds it in the words of a command that runs in cwd. False: the command names none. */
bool stk_script_find(const char *const *words, const char *cwd, struct stk_script *out);
/* The same for a command as a shell would take it: what stk_quote_word() wrote, not all of sh. */
bool stk_script_find_text(const char *command, const char *cwd, struct stk_script *out);

struct stk_tune_check_plan {
    const char **before; /* the command; NULL-terminated */
    const char *after;   /* a line for sh */
    uint64_t runs;       /* of each */
    int (*tick)(void *user, const char *doing);
    void *user;
};
struct stk_tune_check {
    double before_s,
        after_s; /* the median of the runs that ended well; that divided by gain.times */
    double before_least_s, before_most_s; /* of the command as it is: whether it does the same */
    size_t failed_before, failed_after;   /* runs */
    struct stk_verdict gain;
};
int stk_tune_check(const struct stk_tune_check_plan *plan, struct stk_tune_check *out,
                   struct stk_err *err);

/* Makes the run of a point in this process, and appends its figures as a line of JSON. stop:
 * non-zero ends it. */
int stk_tune_step(const char *dir, const char *id, int (*stop)(void), struct stk_buf *out,
                  struct stk_err *err);

#endif
