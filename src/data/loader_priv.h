/*
 * loader_priv.h - what the parts of the loader share.
 *
 *   loader_feed.c     one thread walks the plan: stretches of it become reads, finished stretches
 *                     become work
 *   loader_stretch.c  what a stretch reads
 *   loader_shared.c   filtered extents that samples and stretches share
 *   loader_sieve.c    a stretch that wants little of what it has to read
 *   loader_work.c     threads check, decode and put values into the slots of batches
 *   loader_batch.c    batches: made, filled, finished, released
 *   loader_columns.c  which columns a batch has, and how a value gets into one
 *   loader_watch.c    what happens to mapped files under batches that were given out
 *   loader_mend.c     what happens in the place of a sample that cannot be had
 *   loader_open.c     settings, and everything that is made from them
 *   loader_order.c    how large blocks and windows are
 *   loader.c          the calls of stoker.h
 *
 * A stretch is a run of slots of the plan whose bytes are read together. It may hold part of a
 * batch or many batches; both count references: a batch whose values point into a stretch keeps it.
 * `lock` guards the queues and counters; slots of a batch are written without it, each by one
 * thread, and published by the batch's count of slots to do.
 */
#ifndef STK_DATA_LOADER_PRIV_H
#define STK_DATA_LOADER_PRIV_H

#include "data/assemble.h"
#include "data/image.h"
#include "data/io.h"
#include "data/label.h"
#include "data/plan.h"
#include "data/reader.h"
#include "data/region.h"

#include <pthread.h>
#include <stdatomic.h>

struct stretch;
struct batch;

/* Work for a thread: samples [first, end) of a stretch, for the slots of one batch from `slot` on;
 * without a batch: a filtered extent to decode. */
struct item {
    struct item *next;
    struct stretch *stretch;
    struct batch *batch;
    uint32_t first, end, slot;
};

/* A filtered extent that samples have parts of. */
struct shared {
    uint64_t extent;
    struct shared *next;          /* in its chain of the kept ones, or among the free ones */
    struct shared *older, *newer; /* of the kept ones */
    struct use *waiting;          /* of stretches that wait for it */
    uint32_t users;               /* stretches, and the feeder if it keeps it */
    bool done, kept;
    int code; /* 0: decoded */
    struct stk_err *why;
    struct stk_buf data;
    size_t about;   /* bytes it will be, about */
    uint64_t met;   /* by the stretch of this number, last */
    size_t charged; /* to the budget, once the stretch that decoded it is gone */
};

/* That a stretch needs it. */
struct use {
    uint64_t extent;
    struct shared *x;
    struct stretch *stretch;
    struct use *next; /* among those waiting */
    uint32_t want;    /* one that brings its bytes; NO_WANT: another stretch has them */
};
#define NO_WANT UINT32_MAX

struct run {
    struct stk_io_req req;
    size_t first, end; /* places in the fetch's order */
    uint64_t from;
    uint8_t *at; /* its bytes, or what is kept of them... */
    size_t room; /* ...and how many there may be */
    /* loader_sieve.c: */
    bool sifted;   /* it is read to the ring */
    uint64_t turn; /* its place there: the how manieth */
};

#define SIEVE_TURNS 256 /* places of the ring at a time */

/* A ring of memory whose places are given back in any order, and taken again in the order they were
 * given. What it knows of a place is its own: a run is gone, or another's, when its stretch is done,
 * while a place before its own is still being read to. */
struct sieve {
    struct stk_region *region; /* NULL: it was not needed yet */
    size_t size, head, used;
    uint64_t first, next; /* turns: the oldest that is not free, and the next to be given */
    struct {
        size_t bytes;
        bool returned;
    } turn[SIEVE_TURNS];
};

struct stretch {
    struct stretch *next;     /* in a queue */
    struct stretch *all_next; /* of all the loader ever made */
    struct stk_loader *ld;
    struct stk_fetch fetch;
    struct stk_region *region;
    struct run *run;
    size_t nruns, cap_runs, submitted, completed;
    struct stk_buf items;         /* struct item */
    struct use *use;              /* by extent */
    size_t nuses, cap_uses, nown; /* nown: those it decodes itself, items in front of the others */
    uint32_t unready;             /* uses that are not decoded, and one while it is being read */
    _Atomic uint32_t refs;
    _Atomic uint32_t left; /* pieces of work that are not done */
    size_t need;           /* bytes of memory its reads take */
    size_t decoded;        /* bytes the extents it decodes will be, about */
    size_t used;           /* the same of all it uses */
    size_t asked;          /* bytes its samples have of them */
    size_t charged;        /* to the budget: its plan and its decoded bytes */
    bool copies;           /* batches copy what they need of it: holding it would cost more */
    bool sifted;           /* by loader_sieve.c */
};

enum { SLOT_EMPTY, SLOT_NATIVE, SLOT_VALUE }; /* what a column has for a slot */

/* A column of a batch. Arrays have `batch` places. */
struct cell {
    uint8_t *set; /* SLOT_* */
    void *data;   /* DENSE */
    struct stk_span *span;
    struct stk_value *value; /* made when first needed, then kept */
};

struct failure {
    uint32_t slot;
    int code;
    struct stk_err why;
};

struct watch_at {
    uint64_t epoch, step;
};

/* From one batch to another. */
struct watch_span {
    struct watch_at first, last;
    bool any;
};

struct batch {
    struct stk_batch pub; /* first: what the caller has */
    struct batch *next;
    struct stk_loader *ld;
    uint64_t *id;
    uint8_t *flags;
    struct stk_span *key;
    struct stk_column *column;
    struct cell *cell;
    uint64_t bytes; /* stored, of its samples */
    uint64_t first_slot;
    uint32_t size;  /* slots */
    size_t charged; /* to the budget: its arrays and its arena */
    _Atomic uint32_t todo;
    _Atomic uint64_t checked, checked_bytes; /* samples whose checksums were compared */
    pthread_mutex_t lock;                    /* the rest */
    uint32_t unfilled;
    struct stk_arena arena;
    struct stretch **held;
    size_t nheld, cap_held;
    struct failure *failure;
    size_t nfailures, cap_failures;
    _Atomic uint64_t *files; /* mapped: a bit for each file it has bytes of; else NULL */
    struct batch *given_next, **given_at; /* among those the caller has, by loader_watch.c */
    struct extra *extra;                  /* fields that the dataset's columns do not have */
    size_t nextra, cap_extra;
};

/* A field that only some later samples have: a column of this batch alone. */
struct extra {
    char *name; /* in the batch's arena */
    size_t name_len;
    struct stk_value *value; /* one per slot, in the arena; kind 0: no such field */
};

/* A column as the dataset has it. */
struct column {
    char *name;
    size_t name_len;
    uint8_t layout, kind, dtype, ndim;
    uint64_t dim[STK_MAX_NDIM];
    size_t size;   /* DENSE: bytes of a sample */
    bool image;    /* the bytes are an image to decode */
    bool is_label; /* from the key's directory */
};

#define STK_KEPT_CHAINS 256
#define STK_KEPT_SHARE  3 /* of the budget: the most that the kept ones may take */

struct kept {
    struct shared *by_extent[STK_KEPT_CHAINS];
    struct shared *oldest, *newest;
    size_t bytes; /* about */
    size_t last;  /* of them, the newest, are the last sample's */
};

struct worker {
    struct stk_loader *ld;
    pthread_t thread;
    bool started;
    struct stk_sample sample;
    struct stk_image *image;
    struct stk_buf scratch, whole;
    struct stretch *stretch;         /* the one at hand */
    bool copies;                     /* it does not live as long as the batch */
    uint32_t guess;                  /* column the last field went to */
    uint64_t checked, checked_bytes; /* of the item at hand */
};

struct stk_loader {
    struct stk_dataset *ds;
    struct stk_loader_options o; /* pointers in it are not used after opening */
    _Atomic uint32_t refs;       /* itself while open, and each batch the caller has */
    int pid;
    struct stk_io *io;
    struct stk_regions regions;
    struct stk_labels *labels; /* the dataset's */
    struct stk_image_op image;
    char *image_field;
    uint64_t stretch_bytes;     /* when a stretch is large enough */
    uint64_t region_bytes;      /* memory it takes, with room for its last sample */
    uint64_t region_most;       /* and when its reads need more, they are sifted */
    struct sieve sieve;         /* the feeder's */
    uint32_t item_samples;      /* samples a piece of work has at most */
    uint64_t batch_bytes;       /* of the arrays of a batch */
    uint64_t decoded_most;      /* decoded bytes of a stretch */
    _Atomic size_t arena_bytes; /* what values of a batch take besides, by the last ones */
    uint32_t max_batches;       /* in use at once */

    struct column *column;
    size_t ncolumns;
    uint64_t looked_at;     /* the sample that says what they are */
    int32_t *column_of;     /* by field of the index: column, -1: not wanted */
    bool simple;            /* no field has a codec: slices are values */
    bool views;             /* batches point into stretches */
    bool checks;            /* the index has the samples' checksums, and they are compared */
    bool summed_chain[256]; /* by chain as in struct stk_want: undoing it compares a checksum */

    pthread_mutex_t lock;
    pthread_cond_t work_cond, ready_cond;
    struct item *work_first, **work_last;
    uint32_t idle;                       /* workers that wait */
    struct batch *out_first, **out_last; /* fed or being fed, in order */
    struct batch *free_batches;
    struct stretch *free_stretches, *all_stretches;
    struct shared *free_shared; /* with the buffers they had */
    uint32_t nbatches;          /* that exist */
    uint32_t active;            /* stretches that are being read or worked on */
    bool stop;
    bool waiting; /* the caller waits in stk_loader_next() */
    bool hungry;  /* the feeder waits for something to be given back */
    int fatal;    /* code; *fatal_why says more */
    struct stk_err fatal_why;

    pthread_t feeder;
    bool feeder_started;
    struct worker *worker;
    uint32_t nworkers;

    struct stk_plan plan[2]; /* of epoch e: [e % 2] */
    bool planned[2];
    uint64_t first_epoch;
    struct stk_order order; /* settings of every epoch's */
    /* The feeder's: */
    uint64_t feed_epoch, feed_slot;
    struct batch *feed_batch;
    uint64_t nbuilt; /* stretches */
    struct kept kept;
    bool index_warm;       /* all of it that is asked for was looked at before */
    struct stretch *built; /* waits for memory */
    struct {
        uint64_t extent, stretch;
    } met[1024];                /* filtered extents a stretch has already, by their number */
    struct stk_buf next_slices; /* of the sample that may be added next */
    double grows; /* times: what decoding makes of stored bytes, by the first sample */
    struct stretch *submit_first, **submit_last;
    /* The caller's: */
    uint64_t take_epoch, take_step, take_slots, refills;
    bool epoch_over;           /* its end was told; the next call begins another */
    struct stk_reader *reader; /* for mending, as the next three */
    struct worker mender;
    struct stretch *mended;
    struct stk_buf mended_bytes;
    struct stk_sample sample;
    uint64_t drawn, drawn_epoch; /* samples drawn for want of a better one, all of them bad */
    char **problem;              /* texts, STK_PROBLEMS_KEPT at most */
    size_t nproblems;
    char warning[480]; /* "": none */
    struct stk_loader_stats stats;
    _Atomic uint64_t decode_ns, decoded_bytes;
    /* loader_watch.c; bits by file. The first three with the lock held: */
    struct batch *given; /* batches with views that the caller has */
    uint64_t *late;      /* files of those given back since they were last asked about... */
    struct watch_span late_span;
    uint64_t *told, *asked; /* said to have changed; room to collect in */
    uint64_t watch_again_ns;
};

/* ---- loader_feed.c ---- */
void *stk_feed_main(void *loader);
/* Wakes the feeder when it waits for memory or batches. With the lock held. */
void stk_feed_wake(struct stk_loader *ld);

/* The plan of an epoch, made when needed. With the lock held. */
/* The order's settings from the options. */
void stk_loader_set_order(struct stk_loader *ld);
/* Sets the warning where order o leaves classes together. */
void stk_loader_warn(struct stk_loader *ld, const struct stk_order *o);
int stk_loader_plan(struct stk_loader *ld, uint64_t epoch, const struct stk_stage *stage,
                    size_t nstages, struct stk_err *err);

/* ---- loader_stretch.c ---- */
struct stretch *stk_stretch_take(struct stk_loader *ld); /* an empty one; NULL: no memory */
void stk_stretch_reset(struct stretch *s);
/* When its samples are added: finds the few large reads that bring all of it. share: by the feeder,
 * with other stretches. */
int stk_stretch_plan(struct stretch *s, bool share, struct stk_err *err);
/* All it needs is there: its samples become work. With the lock held. */
void stk_stretch_ready(struct stk_loader *ld, struct stretch *s);
void stk_stretch_drop(struct stretch *s); /* one reference */
void stk_stretch_free(struct stretch *s);
/* Bytes an extent will be when it is decoded, about. */
size_t stk_stretch_decoded(const struct stk_loader *ld, const struct stk_slice *sl,
                           const struct stk_want *w);
/* Bytes it has besides its region. */
size_t stk_stretch_size(const struct stretch *s);
/* Counts them; over: whatever the budget says. Idle stretches give up theirs if need be. */
bool stk_stretch_charge(struct stretch *s, size_t bytes, bool over);

/* ---- loader_shared.c ---- */
/* One that its caller uses; NULL: no memory. */
struct shared *stk_shared_new(struct stk_loader *ld, uint64_t extent);
/* From now on the budget is charged for it by itself. */
void stk_shared_charge(struct stk_loader *ld, struct shared *x);
/* One user less; it is decoded, those waiting go on; the free ones give up their memory. All with
 * the lock held. */
void stk_shared_drop(struct stk_loader *ld, struct shared *x);
void stk_shared_done(struct stk_loader *ld, struct shared *x);
void stk_shared_give_up(struct stk_loader *ld);
/* By the feeder: the one kept of this extent, or NULL; keeps one, as the newest; lets go of old
 * ones until the others have `most` bytes, but not of the last sample's. */
struct shared *stk_kept_find(struct stk_loader *ld, uint64_t extent);
void stk_kept_add(struct stk_loader *ld, struct shared *x);
void stk_kept_trim(struct stk_loader *ld, size_t most);
void stk_kept_release(struct stk_loader *ld); /* and the free ones, at the end */

/* ---- loader_sieve.c ---- */
/* About how much memory it may take. */
void stk_sieve_init(struct stk_loader *ld, uint64_t room);
/* Whether a stretch that is planned needs too much memory, and far less if it is sifted. */
bool stk_sieve_pays(const struct stretch *s);
/* The largest read then... */
uint64_t stk_sieve_most(const struct stk_loader *ld);
/* ...and, once its runs are no larger, what is sifted and the memory it needs. */
void stk_sieve_plan(struct stretch *s);
/* Before a stretch that is sifted is read. False: no memory. */
bool stk_sieve_open(struct stk_loader *ld);
/* Memory for a run to be read to, where it is to be sifted. False: not before another run is done.
 */
bool stk_sieve_lend(struct stk_loader *ld, struct run *r);
void stk_sieve_return(struct stk_loader *ld, struct run *r);
/* Keeps what is wanted of a sifted run that was read. */
void stk_sieve_keep(struct stretch *s, const struct run *r);

/* ---- loader_work.c ---- */
void *stk_work_main(void *worker);
int stk_worker_init(struct worker *w, struct stk_loader *ld, struct stk_err *err);
void stk_worker_release(struct worker *w);
/* Puts the first sample of a stretch that is read into a slot, here and now, with copies of what
 * would not last. */
int stk_work_now(struct worker *w, struct stretch *s, struct batch *b, uint32_t slot,
                 struct stk_err *err);
/* Appends items to the queue. With the lock held. */
void stk_work_push(struct stk_loader *ld, struct item *first, size_t n);

/* ---- loader_batch.c ---- */
/* A batch to fill, NULL: none is free (over: make one more all the same). */
struct batch *stk_batch_take(struct stk_loader *ld, bool over, bool *nomem);
void stk_batch_free(struct batch *b);
/* n more slots are filled: counts what it has come to. */
void stk_batch_grown(struct batch *b, uint32_t n);
/* Keeps the stretch while the batch is held. Takes over the caller's reference. */
int stk_batch_hold(struct batch *b, struct stretch *s);
void stk_batch_failed(struct batch *b, uint32_t slot, int code, const struct stk_err *why);
/* Decides the layout of every column. */
int stk_batch_finish(struct batch *b, struct stk_err *err);
/* What the caller had, and its reference to the loader. */
void stk_batch_give_back(struct batch *b);
void stk_loader_unref(struct stk_loader *ld);

/* ---- loader_columns.c ---- */
/* From the first sample that can be read and the fields of the index. */
int stk_columns_find(struct stk_loader *ld, struct stk_err *err);
void stk_columns_release(struct stk_loader *ld);
/* Puts a value in its place. stable: its bytes live as long as the batch. */
int stk_column_put(struct worker *w, struct batch *b, uint32_t slot, size_t c,
                   const struct stk_value *v, bool stable, struct stk_err *err);
/* All fields of a sample; stable(user, p) says which bytes live as long as the batch. */
int stk_columns_put(struct worker *w, struct batch *b, uint32_t slot, const struct stk_sample *s,
                    bool (*stable)(const struct worker *w, const void *p, size_t n, size_t k),
                    size_t k, struct stk_err *err);
/* The key and the label by directory. */
int stk_columns_put_key(struct worker *w, struct batch *b, uint32_t slot, uint64_t id,
                        struct stk_err *err);

/* ---- loader_watch.c ---- */
/* After the engine is open. Frees: free(ld->late). */
int stk_watch_init(struct stk_loader *ld, struct stk_err *err);
size_t stk_watch_words(const struct stk_loader *ld); /* of a batch's files; 0: nothing is mapped */
/* By a worker: sample k is about to be put into the batch. */
void stk_watch_sample(struct batch *b, const struct stk_fetch *f, size_t k);
void stk_watch_given(struct stk_loader *ld, struct batch *b); /* both with the lock held */
void stk_watch_released(struct stk_loader *ld, struct batch *b);
/* Before a batch is given out (NULL: the end of an epoch is told): fails those of its slots whose
 * file has changed. Negative, or a problem noted, by the policy: bytes of batches given out before
 * may have changed. */
int stk_watch(struct stk_loader *ld, struct batch *b, struct stk_err *err);

/* ---- loader_mend.c ---- */
/* Counts and keeps the text of what was passed over. */
void stk_problem_note(struct stk_loader *ld, const struct stk_err *why);
/* Treats the failed slots of a batch that is to be given out. */
int stk_mend(struct stk_loader *ld, struct batch *b, struct stk_err *err);

#endif
