/*
 * priv.h - what the files of tune share: the stages of a call, each a function that fills a new
 * struct from those before it, and the table of kinds of changes.
 *
 *     subject      subject.c, look.c, pilot.c   what is tuned, on what, and what it waits for
 *     candidates   kinds.c                      changes that are possible here
 *     prediction   predict.c                    what each should gain; which are worth a try
 *     copies       copies.c                     the data in the forms and places that they need
 *     study        study.c                      runs of each beside the job as it is
 *     verdicts     verdict.c                    the result: what each gains and costs
 *
 * Candidates are numbered as they are proposed, the job as it is first; no stage sorts them, and
 * what later stages find has the same numbers. Only the rows of the result are sorted, which
 * nothing points into.
 */
#ifndef STK_TUNE_PRIV_H
#define STK_TUNE_PRIV_H

#include "bench/bench.h"
#include "host/beacon.h"
#include "host/fs.h"
#include "model/storage.h"
#include "record/folder.h"
#include "tune/tune.h"

#define STK_TUNE_SPEC   "tune.json"
#define STK_TUNE_PREFIX "stoker-tune"
#define STK_TUNE_BASE   "baseline"
#define STK_TUNE_NEAR   4
#define STK_TUNE_PACKED "packed" /* stands for the place of packed data in lines to paste */

/* ---- the subject ---------------------------------------------------------------------------- */

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

/* What it costs to unpack compressed data, and what compressing would leave of it: CPU seconds per
 * stored byte in which a program, and stoker's loader, unpack it; 0: it is not compressed. */
struct stk_unpack {
    double program_s, loader_s;
    double grows; /* bytes per stored byte, unpacked, and of a table as arrays; 0: not known */
    double zstd_leaves; /* bytes per stored byte if zstd packs it; 0: not known */
    double unzstd_s;    /* CPU seconds per stored byte in which that is unpacked */
};

/* What some of its files show. */
struct stk_tune_look {
    const char *format; /* of all of them; NULL: they differ, or it is not known */
    bool arrays;        /* they are arrays, by their names */
    const char *packs_as; /* the format that data of this one is packed into; NULL: tfrecord */
    const char *decode; /* that changes with a loader decode pictures to; NULL: they do not */
    double decode_s;    /* CPU time in which the loader decodes a picture; 0: it does not */
    struct stk_unpack unpack;
};

/* A few steps of the job as it is: how long a run is, and what the job waits for. */
struct stk_tune_pilot {
    uint64_t steps;      /* of a run */
    uint64_t peak_bytes; /* of memory, of the largest rank */
    bool cached;         /* all data is in the page cache, as when the program was profiled */
    double epoch_s;      /* NaN: no pilot yet */
    double wait_share, save_share; /* of its time */
    double compute_s;              /* per epoch */
    double open_s, request_s, request_bytes; /* means of its calls; NaN: none */
    double run_s;      /* of a run: its measured steps */
    double run_cost_s; /* the same with its start and end */
};

struct stk_tune_subject {
    struct stk_workload w;    /* as it is, settled */
    const char *source;       /* its files; NULL: it reads none */
    const char *save;         /* where checkpoints go; NULL: it writes none */
    const struct stk_fs *fs;  /* of the source */
    uint64_t files, bytes;
    double newest_s; /* when one of them was changed last */
    struct stk_tune_whole whole; /* files and bytes are those of a sample of it */
    bool cold; /* the workload does not say what the page cache holds: nothing of the data */
    unsigned cpus;
    uint64_t memory_bytes; /* free */
    struct stk_tune_near near[STK_TUNE_NEAR];
    size_t nnear;
    struct stk_tune_look look;
    struct stk_tune_pilot pilot;
    struct stk_storage storage; /* of the source */
};

static inline uint64_t stk_tune_ranks(const struct stk_tune_subject *s)
{
    return s->w.training.ranks;
}
/* The data, also if a sample of it is tuned. */
static inline uint64_t stk_tune_whole_bytes(const struct stk_tune_subject *s)
{
    return s->whole.bytes ? s->whole.bytes : s->bytes;
}
static inline const char *stk_tune_whole_source(const struct stk_tune_subject *s)
{
    return s->whole.source ? s->whole.source : s->source;
}

/* ---- candidates, and what is found about each of them ---------------------------------------- */

/* The first is the job as it is. Combinations come behind all single changes. */
struct stk_tune_list {
    struct stk_tune_proposal *item;
    size_t n;
    struct stk_arena *arena; /* of their texts */
};

/* By the model, and whether it is tried. */
struct stk_tune_expected {
    double epoch_s;                /* NaN: no prediction */
    enum stk_tune_verdict verdict; /* UNCLEAR: it is tried; else DROPPED or SKIPPED */
    char why[320];                 /* it is not */
};

/* What its change needs prepared. */
struct stk_tune_copy {
    const char *path; /* NULL: nothing is prepared */
    const char *at;   /* of the data in it, once it is made; "": nothing has to be there */
    double prepare_s; /* NaN: not made */
    uint64_t bytes, files;
    const char *why;  /* it could not be made; NULL: it is there, or nothing is needed */
};

/* Its runs in one study. */
struct stk_tune_measured {
    uint64_t runs;   /* that ended well */
    double epoch_s;  /* the median; NaN: none */
    struct stk_interval epoch_ci;
    double cores;            /* CPUs that they kept busy; NaN: not known */
    struct stk_verdict gain; /* against the job as it is */
    enum stk_tune_verdict verdict; /* UNCLEAR without a reason: it was not tried */
    char why[320];           /* no run ended well */
};
struct stk_tune_study {
    struct stk_tune_measured *item;
    size_t n; /* 0: no study was made */
    bool unfinished;
    double others_cores; /* CPUs that other programs used meanwhile; NaN: not known */
    unsigned cpus;
};

/* What the stages have found so far: each adds what it returns. */
struct stk_tune_found {
    struct stk_tune_subject subject;
    struct stk_tune_parts parts;
    struct stk_tune_list list;
    struct stk_tune_expected *expected;
    struct stk_tune_copy *copy; /* of each candidate that is one change */
    struct stk_tune_study first, second;
};

/* The stages whose results are in the folder when they end. Copies are kept one by one; runs, in
 * the folders of their studies; predictions follow from the rest. */
enum stk_tune_stage {
    STK_TUNE_BEGUN,   /* the folder is there: what is tuned, and where something may be made */
    STK_TUNE_KNOWN,   /* the subject: its files were looked at, the job as it is was run */
    STK_TUNE_PLANNED, /* the candidates */
};

/* ---- a call: what it was asked for, where it works, what time it is ---------------------------
 */

struct stk_tuner {
    struct stk_tune_plan plan; /* as a resume has it, too */
    struct stk_tune *out;      /* its notes and its arena; the last stage fills in the rest */
    enum stk_tune_stage stage; /* the last that has ended */
    bool resumed;
    bool changed;  /* the data, since the call that is resumed */
    bool measures; /* all is prepared */
    char self[4096]; /* the path of this program */
    struct stk_folder work; /* beside the data */
    /* Others, known before they exist, so that --clean finds whatever a killed call made: those of
     * the subject's near first. */
    const char *folder[STK_TUNE_NEAR + 1];
    size_t nfolders;
    const char *saves; /* where the job as it is writes checkpoints in its runs; NULL: none */
    /* Indexes of the data that were not there before, and are removed. */
    const char *index[STK_TUNE_INDEXES];
    size_t nindexes;
    const char **point; /* ids of the candidates: names of what is made for them begin so */
    size_t npoints;
    double start_s, passed_s; /* passed_s: in virtual seconds */
    char doing[240];
    struct stk_beacon beacon;
};

/* A sentence for the result; each is there once. */
void stk_tune_note(struct stk_tuner *t, const char *fmt, ...) STK_PRINTF(2, 3);
/* In the arena; NULL: no memory. */
const char *stk_tune_text(struct stk_arena *a, const char *fmt, ...) STK_PRINTF(2, 3);
/* A call that has not begun. Caller ends it with stk_tune_end(), also after an error, and releases
 * *out. */
int stk_tune_init(struct stk_tuner *t, const struct stk_tune_plan *plan, struct stk_tune *out,
                  struct stk_err *err);
void stk_tune_end(struct stk_tuner *t);
/* Says what happens now. STK_E_STOPPED: stop. */
int stk_tuner_doing(struct stk_tuner *t, struct stk_err *err, const char *fmt, ...)
    STK_PRINTF(3, 4);
int stk_tuner_tick(void *user); /* a struct stk_tuner; non-zero: stop */
/* With modelled storage, the virtual seconds of all runs so far. */
double stk_tuner_now(const struct stk_tuner *t);
double stk_tuner_left_s(const struct stk_tuner *t); /* of the budget */
/* Makes something in a child process, which ends with what inside(user) returns: its output is in
 * *text. STK_E_STOPPED; *timed_out and *why (why it failed; in the arena) or NULL otherwise. */
struct stk_tune_child {
    int (*inside)(void *user);
    void *user;
    double limit_s; /* 0: none */
    struct stk_buf text;
    bool timed_out;
    const char *why; /* it failed; NULL: it did not */
    double wall_s;
};
int stk_tune_in_child(struct stk_tuner *t, struct stk_tune_child *c, struct stk_err *err);

/* ---- state.c: tune.json in the folder of a call, which jobs, a resume and --clean read; and what
 * happens now, for `stoker watch`. */
int stk_tune_write_state(struct stk_tuner *t, const struct stk_tune_found *f, struct stk_err *err);
/* Of the call in that folder: plan, stage, and what the stages so far have found. The folder is
 * open then, and not locked. */
int stk_tune_read_state(struct stk_tuner *t, const char *dir, struct stk_tune_found *f,
                        struct stk_err *err);
/* Only what that call has made, for --clean: its folders, indexes, and the names of its points. */
int stk_tune_read_made(struct stk_tuner *t, const char *dir, struct stk_err *err);
void stk_tuner_show(struct stk_tuner *t);

/* ---- subject.c ------------------------------------------------------------------------------- */

/* The workload, its data, faster storage of this node. Caller releases the workload, also after an
 * error. */
int stk_tune_find_subject(struct stk_tuner *t, struct stk_tune_subject *out, struct stk_err *err);
/* Looks again at the data of a subject: where it is, how much, and this node. */
int stk_tune_find_data(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err);
/* If copies of the whole have no room: makes a sample of it the data. */
int stk_tune_take_sample(struct stk_tuner *t, struct stk_tune_subject *s, struct stk_err *err);
/* Storage of the data and of the folders near it, by measurements and the pilot's own calls. */
void stk_tune_measure_storage(struct stk_tuner *t, struct stk_tune_subject *s);
/* Free space for copies in a folder. */
uint64_t stk_tune_free_bytes(const char *path);

/* ---- look.c: files of the data, and what some of them show ------------------------------------
 */

struct stk_tune_file {
    const char *name; /* below the source; "": the source itself */
    uint64_t bytes;
};
struct stk_tune_files {
    struct stk_tune_file *file; /* by size, then by name; NULL: they were only counted */
    size_t n;
    uint64_t bytes;
    double newest_s; /* when one was changed last */
    struct stk_arena arena;
};
/* Lists regular files whose names match (NULL: all but indexes of stoker), no hidden ones. Follows
 * links, as the program does that reads the data. Caller releases, also after an error. */
int stk_tune_files_list(const char *source, const char *match, struct stk_tune_files *out,
                        struct stk_err *err);
/* The same without their names: there may be millions. tick: called now and then; non-zero:
 * STK_E_STOPPED. May be NULL. Nothing to release. */
int stk_tune_files_count(const char *source, const char *match, int (*tick)(void *user), void *user,
                         struct stk_tune_files *out, struct stk_err *err);
/* Keeps `keep` of them at equal distances in the order of sizes, from a place that the seed
 * chooses: the sizes of the part are distributed like those of the whole. */
void stk_tune_files_thin(struct stk_tune_files *f, size_t keep, uint64_t seed);
void stk_tune_files_release(struct stk_tune_files *f);
/* Caller frees. NULL: no memory. */
char *stk_tune_file_path(const char *source, const struct stk_tune_file *f);

/* Tries to unpack some of the files, for two seconds at most. tick: called now and then; non-zero:
 * stop. May be NULL. */
void stk_tune_unpack(const char *source, const struct stk_tune_files *f, int (*tick)(void *user),
                     void *user, struct stk_unpack *out);
/* Files that are not what their names say are noted. */
void stk_tune_look(struct stk_tuner *t, const struct stk_tune_subject *s,
                   struct stk_tune_look *out);

/* ---- pilot.c --------------------------------------------------------------------------------- */

/* The run of a candidate. Texts are in the arena of the result; the workload is borrowed from f. */
int stk_tune_job(struct stk_tuner *t, const struct stk_tune_found *f, size_t number,
                 struct stk_bench_job *job, struct stk_err *err);
/* Runs the job as it is a few steps, and lets runs find the data in the page cache if the program
 * did: if it was much faster than such a run when it was profiled, it read cached data. */
int stk_tune_run_pilot(struct stk_tuner *t, const struct stk_tune_subject *s,
                       struct stk_tune_pilot *out, struct stk_err *err);

/* ---- kinds.c --------------------------------------------------------------------------------- */

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

/* What kinds propose from, and to. */
struct stk_tune_offer {
    const struct stk_tune_plan *plan;
    const struct stk_tune_subject *s;
    struct stk_tune_list *list;
};
/* What is made, in a child process. */
struct stk_tune_making {
    const struct stk_tune_subject *s;
    const struct stk_tune_change *change;
    const char *path;   /* where */
    const char *packed; /* a packed copy, to read from instead of the data; NULL: there is none */
    const char *source; /* of a copy as it is: the data with all that belongs to it */
};

struct stk_tune_kind {
    const char *id;
    unsigned slots; /* enum stk_tune_slot */
    enum stk_tune_helps helps;
    unsigned effort;                      /* for people: among equals the smaller one wins */
    uint64_t finds;                       /* bits of actions of findings that it carries out */
    /* Adds its changes, or none. */
    int (*propose)(struct stk_tune_offer *o, const struct stk_tune_kind *k, struct stk_err *err);
    bool unmodelled; /* nothing is predicted: it is proposed only where there is a reason */
    bool repacks; /* prepare() takes a packed copy as well as the data */
    /* Prepares m->path, and appends the path of the data in it; NULL: nothing to prepare. */
    int (*prepare)(const struct stk_tune_making *m, struct stk_buf *at, struct stk_err *err);
    /* The one action that carries it out, and the offset in it of the number of the change; 0: it
     * has none. Or what appends its actions, and returns how many. */
    struct stk_action action;
    size_t number;
    size_t (*act)(const struct stk_tune_change *c, struct stk_action *out);
    /* The option of stoker.patch that changes a script for it; NULL: scripts are changed by hand.
     */
    const char *patch_option;
    /* Its argument; false: there is none for these numbers. made: where the data is now. NULL: the
     * option has none. */
    bool (*patch)(const struct stk_tune *t, const struct stk_tune_change *c, const char *made,
                  struct stk_buf *out);
    bool patches_parts; /* by one argument for each part of the data, FOLDER=PACKED */
    const char *advice; /* for people, if no action says it */
};
extern const struct stk_tune_kind *const stk_tune_kinds[]; /* NULL-terminated */
const struct stk_tune_kind *stk_tune_kind_find(const char *id);

/* Whether candidates of that kind are proposed. */
bool stk_tune_wants(const struct stk_tune_plan *p, const struct stk_tune_kind *k);
/* The candidates: those of every kind that is wanted, behind the job as it is. */
int stk_tune_propose(const struct stk_tune_plan *p, const struct stk_tune_subject *s,
                     struct stk_arena *arena, struct stk_tune_list *out, struct stk_err *err);
/* The job as it is, alone. */
int stk_tune_list_new(struct stk_arena *arena, struct stk_tune_list *out, struct stk_err *err);
/* An empty candidate behind the others; NULL: there are too many. */
struct stk_tune_proposal *stk_tune_add(struct stk_tune_list *list);
/* Whether each rank reads its own samples with it, where all read the same; the loader divides,
 * too. */
bool stk_tune_divides(const struct stk_tune_subject *s, const struct stk_tune_change *c);

/* ---- predict.c ------------------------------------------------------------------------------- */

/* Streams in which a rank of the workload reads at a time. */
double stk_tune_lanes(const struct stk_tune_subject *s, const struct stk_workload *w);

/* What is expected of each candidate. copy: NULL: none is made yet, and what cannot help is
 * dropped. NULL: no memory. In the arena. */
struct stk_tune_expected *stk_tune_predict(const struct stk_tune_plan *p,
                                           const struct stk_tune_subject *s,
                                           const struct stk_tune_list *list,
                                           const struct stk_tune_copy *copy);
/* Skips the least promising candidates for which there is no time. runs: how many of an earlier
 * call each has, which stay; NULL: none. */
void stk_tune_ration(const struct stk_tune_plan *p, const struct stk_tune_subject *s,
                     const struct stk_tune_list *list, const uint64_t *runs, double left_s,
                     struct stk_tune_expected *expected);

/* ---- copies.c -------------------------------------------------------------------------------- */

/* Fills in f->copy: of each candidate that is tried, and needs one. */
int stk_tune_make_copies(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err);

/* ---- folders.c: what a call makes, and removes ------------------------------------------------
 */

/* Makes the folder beside the data, and names the others. */
int stk_tune_folders(struct stk_tuner *t, const struct stk_tune_subject *s, struct stk_err *err);
/* Makes one of the others, when it is first needed. NULL: none is. */
int stk_tune_enter(const char *folder, struct stk_err *err);
void stk_tune_remove(struct stk_tuner *t);
/* Listing a dataset keeps an index beside it: those that are ours to remove. */
void stk_tune_remove_indexes(struct stk_tuner *t);
bool stk_tune_saves(const struct stk_workload *w);
/* Where its checkpoints go. c: a change; NULL: the job as it is. NULL: where the workload says. */
const char *stk_tune_saves_at(const struct stk_tuner *t, const struct stk_tune_change *c);

/* ---- study.c --------------------------------------------------------------------------------- */

/* Runs the candidates for which takes() is true beside the job as it is, until the difference of
 * each is clear or the time is up. Runs of an earlier call count. *out is filled in also after an
 * error: what is known so far. */
int stk_tune_study(struct stk_tuner *t, const struct stk_tune_found *f, const char *study,
                   bool (*takes)(const struct stk_tune_found *f, size_t number), double budget_s,
                   struct stk_tune_study *out, struct stk_err *err);
/* Runs that ended well in the study of that name of an earlier call, for each candidate. NULL:
 * there are none. In the arena. */
uint64_t *stk_tune_runs(struct stk_tuner *t, const struct stk_tune_list *list, const char *study);
/* Cancels the jobs of its studies that are still in the queue. */
int stk_tune_cancel(const struct stk_folder *work, struct stk_err *err);

/* ---- verdict.c ------------------------------------------------------------------------------- */

/* log(time of base / time of other) of the first `max` rounds in which both ended well. Returns how
 * many. */
size_t stk_tune_pairs(const struct stk_study *study, size_t base, size_t other, double *log_ratio,
                      size_t max);
enum stk_tune_verdict stk_tune_judge(const struct stk_verdict *v);
/* The list with combinations of the changes that have won, behind them. */
int stk_tune_combine(const struct stk_tune_list *list, const struct stk_tune_study *first,
                     struct stk_tune_list *out, struct stk_err *err);
/* The rows of the result, ranked, and the best of them. */
int stk_tune_verdicts(struct stk_tuner *t, const struct stk_tune_found *f,
                      struct stk_tune *out, struct stk_err *err);
/* Ranks the rows, and chooses the best. */
void stk_tune_rank(struct stk_tune *t);

/* ---- actions.c: the datasets in the data ------------------------------------------------------
 */

/* What the findings and its folders say. */
int stk_tune_find_parts(struct stk_tuner *t, const struct stk_tune_subject *s,
                        struct stk_tune_parts *out, struct stk_err *err);

#endif
