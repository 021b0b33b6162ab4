/* priv.h - what the files of tune share: the subject, the table of kinds, one call while it runs. */
#ifndef STK_TUNE_PRIV_H
#define STK_TUNE_PRIV_H

#include "bench/bench.h"
#include "host/beacon.h"
#include "host/fs.h"
#include "model/storage.h"
#include "record/folder.h"
#include "tune/tune.h"
#include "tune/unpack.h"

#define STK_TUNE_SPEC   "tune.json"
#define STK_TUNE_PREFIX "stoker-tune"
#define STK_TUNE_BASE   "baseline"
#define STK_TUNE_NEAR   4
#define STK_TUNE_PACKED "packed" /* stands for the place of packed data in lines to paste */

/* A folder on storage of this node that may take a copy. */
struct stk_tune_near {
    const char *path;
    const struct stk_fs *fs;
    uint64_t room_bytes; /* UINT64_MAX: not known */
    struct stk_storage storage;
};

/* The data of which a sample is tuned; no bytes: all of it is. */
struct stk_tune_whole {
    const char *source;
    uint64_t files, bytes;
};

/* What is tuned. Texts are in the arena of struct stk_tune. */
struct stk_tune_subject {
    struct stk_workload w;    /* as it is, settled */
    const char *source;       /* its files; NULL: it reads none */
    const char *save;         /* where checkpoints go; NULL: it writes none */
    const struct stk_fs *fs;  /* of the source */
    uint64_t files, bytes, samples;
    double newest_s; /* when one of them was changed last */
    struct stk_tune_whole whole; /* files and bytes are those of a sample of it */
    uint64_t ranks;
    const char *format; /* of all its files; NULL: they differ, or it is not known */
    bool arrays; /* its files are arrays, by their names */
    const char *packs_as; /* the format that data of this one is packed into; NULL: tfrecord */
    const char *decode; /* that changes with a loader decode pictures to; NULL: they do not */
    double decode_s; /* CPU time in which the loader decodes a picture; 0: it does not */
    struct stk_unpack unpack; /* of the data as it is */
    bool cold; /* the workload does not say what the page cache holds: nothing of the data */
    bool cached; /* but all of it when the program was profiled */
    unsigned cpus;
    uint64_t memory_bytes; /* free */
    struct stk_tune_near near[STK_TUNE_NEAR];
    size_t nnear;
    struct stk_storage storage; /* of the source */
    /* Of the pilot: the steps of a run, seconds per epoch, and the shares of them. */
    uint64_t steps;
    uint64_t peak_bytes; /* of memory, of the largest rank */
    double epoch_s, wait_share, save_share, compute_s;
    double open_s, request_s, request_bytes; /* means of its calls; NaN: none */
};

enum stk_tune_helps {
    STK_HELPS_READS,
    STK_HELPS_SAVES,
    STK_HELPS_COST, /* does not make the job faster, but smaller */
};
/* Of two changes in one slot, a candidate has one. A loader replaces all of the reader. */
enum stk_tune_slot {
    STK_SLOT_DATA = 1u << 0,
    STK_SLOT_THREADS = 1u << 1,
    STK_SLOT_PREFETCH = 1u << 2,
    STK_SLOT_REQUEST = 1u << 3,
    STK_SLOT_SHARD = 1u << 4,
    STK_SLOT_LOAD = 1u << 5,
    STK_SLOT_SAVE = 1u << 6,
    STK_SLOT_REREAD = 1u << 7,
    STK_SLOT_CPUS = 1u << 8,
};

struct stk_tuner;
struct stk_tune_kind {
    const char *id;
    unsigned slots; /* enum stk_tune_slot */
    enum stk_tune_helps helps;
    unsigned effort;                      /* for people: among equals the smaller one wins */
    enum stk_action_kind finds[6];        /* actions of findings that it carries out */
    size_t nfinds;
    const char *tool, *package;           /* a program that it needs; NULL: none */
    /* Adds its changes, or none. */
    int (*propose)(struct stk_tuner *t, const struct stk_tune_kind *k, struct stk_err *err);
    bool unmodelled; /* nothing is predicted: it is proposed only where there is a reason */
    bool repacks; /* prepare() takes a packed copy as well as the data */
    /* Prepares c->copy.path, in a child process, and appends the path of the data in it; NULL:
     * nothing to prepare. */
    int (*prepare)(const struct stk_tuner *t, const struct stk_tune_change *c, struct stk_buf *at,
                   struct stk_err *err);
    size_t (*act)(const struct stk_tune_change *c, struct stk_action *out);
    /* The argument of stoker.patch that changes a script for it, after its option; false: there is
     * none for these numbers. made: where the data is now. */
    const char *patch_option; /* NULL: scripts are changed by hand */
    bool (*patch)(const struct stk_tune *t, const struct stk_tune_change *c, const char *made,
                  struct stk_buf *out);
    bool patches_parts; /* by one argument for each part of the data, FOLDER=PACKED */
    const char *advice; /* for people, if no action says it */
};
extern const struct stk_tune_kind *const stk_tune_kinds[]; /* NULL-terminated */
const struct stk_tune_kind *stk_tune_kind_find(const char *id);

/* The stages of a call whose results are kept. Copies are kept one by one; runs, in the folders of
 * their studies. */
enum stk_tune_stage {
    STK_TUNE_BEGUN,   /* the folder is there: what is tuned, and where something may be made */
    STK_TUNE_KNOWN,   /* the subject: its files were looked at, the job as it is was run */
    STK_TUNE_PLANNED, /* the candidates, with what is expected of them */
};

/* One call while it runs. */
struct stk_tuner {
    const struct stk_tune_plan *plan; /* &own */
    struct stk_tune_plan own;
    struct stk_tune *out;
    enum stk_tune_stage stage; /* the last that has ended */
    bool resumed;
    struct stk_tune_subject s;
    char self[4096]; /* the path of this program */
    struct stk_folder work;                 /* beside the data */
    struct stk_folder there[STK_TUNE_NEAR]; /* on faster storage; fd -1: not made */
    /* Their paths, known before they exist, so that --clean finds whatever a killed call made: those
     * of s.near first. */
    const char *folder[STK_TUNE_NEAR + 1];
    size_t nfolders;
    /* Where the job as it is writes checkpoints in its runs; NULL: none. fd -1: in work. */
    struct stk_folder saves;
    const char *saves_path;
    size_t noted;  /* sentences of the result that are kept with the stages */
    bool changed;  /* the data, since the call that is resumed */
    bool measures; /* all is prepared */
    double start_s, passed_s; /* passed_s: in virtual seconds */
    double run_s;      /* of the baseline: its measured steps */
    double run_cost_s; /* the same with its start and end */
    unsigned noisy;    /* studies during which other programs ran */
    /* Indexes of the data that were not there before, and are removed. */
    const char *index[STK_TUNE_INDEXES];
    size_t nindexes;
    char doing[240];
    struct stk_runner *runner; /* of the study that is judged now */
    struct stk_beacon beacon;
};

void stk_tune_note(struct stk_tune *t, const char *fmt, ...) STK_PRINTF(2, 3);
/* tune.c: a call that has not begun, with the candidate "as it is". Caller ends it with
 * stk_tune_end(), also after an error, and releases *out. */
int stk_tune_init(struct stk_tuner *t, const struct stk_tune_plan *plan, struct stk_tune *out,
                  struct stk_err *err);
void stk_tune_end(struct stk_tuner *t);
/* A candidate without a change; NULL: there are too many. */
struct stk_tune_candidate *stk_tune_add(struct stk_tune *out);
/* Says what happens now; non-zero: stop. */
int stk_tuner_doing(struct stk_tuner *t, const char *fmt, ...) STK_PRINTF(2, 3);
int stk_tuner_tick(void *user);
/* ---- state.c: tune.json in the folder of a call, which jobs, a resume and --clean read; and what
 * happens now, for `stoker watch`. */
int stk_tune_write_state(struct stk_tuner *t, struct stk_err *err);
/* Of the call in that folder: plan, stage, and what the stages so far have found. The folder is open
 * then, and not locked. Texts are in the arena of t->out. */
int stk_tune_read_state(struct stk_tuner *t, const char *dir, struct stk_err *err);
/* Only what that call has made, for --clean: its folders, indexes, and the names of its points. */
int stk_tune_read_made(struct stk_tuner *t, const char *dir, struct stk_err *err);
void stk_tuner_show(struct stk_tuner *t);
/* What time it is: with modelled storage, the virtual seconds of all runs so far. */
double stk_tuner_now(const struct stk_tuner *t);
double stk_tuner_left_s(const struct stk_tuner *t); /* of the budget */
/* In the arena of the result; NULL: no memory. */
const char *stk_tune_text(struct stk_tuner *t, const char *fmt, ...) STK_PRINTF(2, 3);

/* ---- kinds.c: adds a candidate of one change; the caller fills in the change. NULL: too many. */
struct stk_tune_change *stk_tune_propose(struct stk_tuner *t, const struct stk_tune_kind *k,
                                         const char *id, const char *label);
/* Adds "key=value" to a change. */
int stk_tune_set(struct stk_tuner *t, struct stk_tune_change *c, struct stk_err *err,
                 const char *fmt, ...) STK_PRINTF(4, 5);

/* Whether each rank reads its own samples with it, where all read the same; the loader divides, too. */
bool stk_tune_divides(const struct stk_tune_subject *s, const struct stk_tune_change *c);

/* Whether candidates of that kind are proposed. */
bool stk_tune_wants(const struct stk_tune_plan *p, const struct stk_tune_kind *k);
/* The ids of the kinds that are; a resume has no findings that ask for them. NULL: no memory. */
const char *const *stk_tune_wanted(struct stk_tuner *t);
/* Lets every kind that is wanted add its candidates. */
int stk_tune_propose_all(struct stk_tuner *t, struct stk_err *err);

/* ---- subject.c: the workload, its data, this node. */
int stk_tune_read_subject(struct stk_tuner *t, struct stk_err *err);
/* Finds the data of the workload, and how much it is. */
int stk_tune_find_data(struct stk_tuner *t, struct stk_err *err);
/* What the result says of the subject. */
int stk_tune_describe(struct stk_tuner *t, struct stk_err *err);
uint64_t stk_tune_whole_bytes(const struct stk_tune_subject *s);
/* Adds what lies below a folder, or a file. */
struct stk_tune_tree {
    uint64_t files, bytes;
    double newest_s; /* when one was changed last */
    const char *match; /* names of files that count; NULL: all but indexes of stoker */
    int (*tick)(void *user); /* NULL: none; non-zero: stop */
    void *user;
    bool stopped;
};
int stk_tune_measure_tree(const char *path, struct stk_tune_tree *t, struct stk_err *err);
void stk_tune_release_subject(struct stk_tune_subject *s);

/* ---- run.c: the run of a candidate, or of the job as it is (NULL). Borrows from t. */
int stk_tune_job(struct stk_tuner *t, const struct stk_tune_candidate *c, struct stk_bench_job *job,
                 struct stk_err *err);
/* Runs the baseline a few steps: how long a step takes, and what is waited for. Decides the steps
 * of all runs. */
int stk_tune_pilot(struct stk_tuner *t, struct stk_err *err);

/* ---- run.c: lets runs find the data in the page cache, if the program did; after the pilot. */
int stk_tune_settle_cache(struct stk_tuner *t, struct stk_err *err);
/* Seconds in which the program made the steps of an epoch, when it was profiled; NaN: not known. */
double stk_tune_own_epoch_s(const struct stk_tuner *t);
/* Whether all data stays in the page cache once it was read. */
bool stk_tune_fits(const struct stk_tune_subject *s);

/* ---- predict.c: fills in predictions, and drops what cannot help. */
void stk_tune_predict(struct stk_tuner *t);
void stk_tune_measure_storage(struct stk_tuner *t);
/* Skips the least promising candidates if the budget is too small for all. */
void stk_tune_ration(struct stk_tuner *t);

/* ---- sample.c: tunes a part of data that is larger than the space for copies. */
int stk_tune_sample(struct stk_tuner *t, struct stk_err *err);
/* Turns the figures of a sample into those of the whole. */
void stk_tune_extrapolate(struct stk_tuner *t);

/* ---- sound.c: notes files that are not what their names say. */
void stk_tune_check_sound(struct stk_tuner *t);

/* ---- judge.c: after the times are known. */
void stk_tune_cost(const struct stk_tuner *t, struct stk_tune_candidate *c);

/* ---- folders.c: what a call makes, and removes. */
/* Makes the folder beside the data, and names the others. */
int stk_tune_folders(struct stk_tuner *t, struct stk_err *err);
/* Opens those that are there, and makes the one for checkpoints. */
int stk_tune_open_folders(struct stk_tuner *t, struct stk_err *err);
/* The folder on storage number i, made when it is first needed. */
int stk_tune_enter_near(struct stk_tuner *t, size_t i, const char **path, struct stk_err *err);
void stk_tune_remove(struct stk_tuner *t);
void stk_tune_release_folders(struct stk_tuner *t);
/* Listing a dataset keeps an index beside it: those that are ours to remove. */
void stk_tune_remove_indexes(struct stk_tuner *t);
bool stk_tune_saves(const struct stk_workload *w);
/* Where its checkpoints go. c: a change; NULL: the job as it is. NULL: where the workload says. */
const char *stk_tune_saves_at(const struct stk_tuner *t, const struct stk_tune_change *c);
/* Free space for copies in a folder. */
uint64_t stk_tune_free_bytes(const char *path);

/* ---- copies.c: the data of the candidates in other forms and places. */
int stk_tune_make_copies(struct stk_tuner *t, struct stk_err *err);
/* A packed copy, from which others are made: reading it is faster than the data as it is. NULL:
 * there is none. */
const struct stk_tune_copy *stk_tune_packed(const struct stk_tuner *t);
/* What a child said: the reason why it failed. */
const char *stk_tune_reason(struct stk_buf *said);

/* ---- measure.c: runs the candidates that are not dropped or skipped, as the study of that name.
 */
int stk_tune_measure(struct stk_tuner *t, const char *study,
                     bool (*takes)(const struct stk_tune_candidate *c), double budget_s,
                     bool confirms, struct stk_err *err);
/* Cancels the jobs of its studies that are still in the queue. */
int stk_tune_cancel(const struct stk_folder *work, struct stk_err *err);

/* ---- judge.c */
/* log(time of base / time of other) of the first `max` rounds in which both ended well. Returns how
 * many. */
size_t stk_tune_pairs(const struct stk_study_series *base, const struct stk_study_series *other,
                      double *log_ratio, size_t max);
enum stk_tune_verdict stk_tune_judge(const struct stk_verdict *v);
/* Ranks the candidates and chooses the best. */
void stk_tune_rank(struct stk_tune *t);

/* ---- parts.c: the datasets in the data. source: all of it; NULL: there is none. */
int stk_tune_find_parts(struct stk_tuner *t, const char *source, struct stk_err *err);
/* The same action for each part, if it is about packed data or a loader. Returns how many. */
size_t stk_tune_act_parts(const struct stk_tune *t, const struct stk_action *a,
                          struct stk_action *out);

/* ---- judge.c: adds combinations of changes that have won. */
int stk_tune_combine(struct stk_tuner *t, struct stk_err *err);

#endif
