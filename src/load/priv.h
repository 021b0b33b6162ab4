/*
 * priv.h - what the parts of the loader share.
 *
 *   load/feed.c     one thread walks the plan: stretches of it become reads, finished stretches
 *                     become work
 *   load/stretch.c  plans the reads of a stretch
 *   load/shared.c   filtered extents that samples and stretches share
 *   load/sieve.c    a stretch that needs little of what it must read
 *   load/cut.c      a stretch whose filtered extents do not fit into the memory
 *   load/work.c     threads check, decode and put values into the slots of batches
 *   load/batch.c    batches: made, filled, finished, released
 *   load/columns.c  which columns a batch has, and how a value gets into one
 *   load/watch.c    detects changes of mapped files under delivered batches
 *   load/mend.c     replaces samples that cannot be read
 *   load/open.c     settings, and everything derived from them
 *   load/window.c   sizes of blocks and windows
 *   load/loader.c   the calls of stoker.h
 *
 * A stretch is a sequence of slots of the plan whose bytes are read together. It may hold part of a
 * batch or many batches; both count references: a batch whose values point into a stretch keeps it.
 * `lock` guards the queues and counters; slots of a batch are written without it, each by one
 * thread, and published by the batch's count of slots to do.
 */
#ifndef STK_LOAD_PRIV_H
#define STK_LOAD_PRIV_H

#include "dataset/fetch.h"
#include "image/image.h"
#include "io/io.h"
#include "dataset/label.h"
#include "load/plan.h"
#include "dataset/reader.h"
#include "tier/overlay.h"

#include <pthread.h>
#include <stdatomic.h>

#define SAMPLE_PLAN_BYTES 160 /* about the memory for planning the read of a sample */
#define FEW_EXTENTS       2   /* one by one, so few would take as much memory as all at once */

struct stretch;
struct batch;

/* Work for a thread: samples [first, end) of a stretch, for the slots of one batch from `slot` on;
 * without a batch: a filtered extent to decode. */
struct item {
    struct item *next;
    struct stretch *stretch;
    struct batch *batch;
    struct bundle *bundle; /* that brings the extent; NULL: all of the stretch has arrived */
    uint32_t first, end, slot;
};

/* A filtered extent with parts of several samples. */
struct shared {
    uint64_t extent;
    struct shared *next;          /* in the chain of kept extents, or in the free list */
    struct shared *older, *newer; /* among the kept extents */
    struct use *waiting;          /* uses by stretches that wait for it */
    uint32_t users;               /* number of stretches, plus one if the feeder keeps it */
    bool done, kept;
    bool cut; /* of its data only slices were kept, by the stretch */
    int code; /* 0: decoded */
    struct stk_err *why;
    struct stk_buf data;
    size_t about;   /* estimated decoded bytes... */
    size_t takes;   /* ...and bytes of buffers to decode it */
    size_t was;     /* decoded bytes, if it is cut */
    uint64_t met;   /* number of the last stretch that used it */
    size_t charged; /* to the budget, once the stretch that decoded it is gone */
};

/* The use of a shared extent by a stretch. */
struct use {
    uint64_t extent;
    struct shared *x;
    struct stretch *stretch;
    struct use *next; /* among those waiting */
    uint32_t want;    /* the want that reads its bytes; NO_WANT: another stretch has them */
    /* load/cut.c: */
    uint32_t first, end;   /* its wants, as indexes in the fetch's order */
    const uint8_t *stored; /* its bytes, once read */
};
#define NO_WANT UINT32_MAX

/* Neighbouring wants that one request reads. */
struct bundle {
    struct stk_io_req req;
    size_t first, end; /* indexes in the fetch's order */
    uint64_t from;
    uint8_t *at;          /* its bytes, or the kept ones... */
    size_t room;          /* ...and their maximum number */
    struct stk_sums sums; /* of the bytes that arrived */
    /* load/sieve.c: */
    bool sifted;   /* read into the ring */
    uint64_t turn; /* its sequence number in the ring */
    /* load/cut.c: */
    struct item *item; /* extents in it that its stretch decodes... */
    uint32_t nitems;
    uint32_t left;       /* ...and those that are not decoded yet */
    struct bundle *next; /* among those decoded */
};

#define SIEVE_TURNS 256 /* maximum number of slots in the ring */

/* A ring of memory whose places are returned in any order, and taken again in the order they were
 * given. It keeps its own record of a place: a bundle may be freed or reused when its stretch is
 * done, while a place before its own is still being read to. */
struct sieve {
    struct stk_region *region; /* NULL: not needed yet */
    size_t size, head, used;
    uint64_t first, next; /* sequence numbers: the oldest in use, and the next to assign */
    struct {
        size_t bytes;
        bool returned;
    } turn[SIEVE_TURNS];
};

/* Extents that are decoded while others are still being read. */
struct decoding {
    struct item *first, *last; /* that wait */
    size_t bytes;              /* of buffers in use for those that are cut... */
    size_t room;               /* ...and their limit, which is charged to the budget */
    size_t most;               /* what the limit should not exceed */
    struct bundle *back;       /* bundles whose extents are all decoded, for the feeder */
};

struct stretch {
    struct stretch *next;     /* in a queue */
    struct stretch *all_next; /* list of all stretches */
    struct stk_loader *ld;
    struct stk_fetch fetch;
    struct stk_region *region;
    struct bundle *bundle;
    size_t nbundles, cap_bundles, submitted, completed;
    struct stk_buf items;         /* struct item */
    struct use *use;              /* by extent */
    size_t nuses, cap_uses, nown; /* nown: extents it decodes itself; their items come first */
    uint32_t unready;             /* uses not yet decoded, plus one while it is being read */
    _Atomic uint32_t refs;
    _Atomic uint32_t left; /* items not yet done */
    size_t need;           /* bytes of memory for its reads */
    size_t decoded;        /* estimated bytes of the extents it decodes */
    size_t used;           /* the same for all extents it uses */
    size_t asked;          /* bytes of them that its samples need */
    size_t charged;        /* to the budget: its plan and its decoded bytes */
    bool copies;           /* batches copy from it: holding it would cost more */
    bool sifted;           /* by load/sieve.c */
    bool cuts;             /* keeps only slices of the extents it decodes */
    bool streams;          /* decodes extents as they arrive: load/cut.c */
    size_t slices;         /* bytes of its region for slices */
};

enum { SLOT_EMPTY, SLOT_NATIVE, SLOT_VALUE }; /* state of a slot in a column */

/* A column of a batch. Arrays have `batch` places. */
struct cell {
    uint8_t *set; /* SLOT_* */
    void *data;   /* DENSE */
    struct stk_span *span;
    struct stk_value *value; /* allocated when first needed, then kept */
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
    struct stk_batch pub; /* must be first: the caller's view */
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
    pthread_mutex_t lock;                    /* protects the rest */
    uint32_t unfilled;
    struct stk_arena arena;
    struct stretch **held;
    size_t nheld, cap_held;
    struct failure *failure;
    size_t nfailures, cap_failures;
    _Atomic uint64_t *files; /* mapped: a bit per file that it has bytes of; else NULL */
    struct batch *given_next, **given_at; /* among those of the caller, by load/watch.c */
    struct extra *extra;                  /* fields that are not columns of the dataset */
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
#define STK_KEPT_SHARE  3 /* kept extents may take this part of the budget: 1/3 */

struct kept {
    struct shared *by_extent[STK_KEPT_CHAINS];
    struct shared *oldest, *newest;
    size_t bytes; /* about */
    size_t last;  /* number of the newest that belong to the last sample */
};

struct worker {
    struct stk_loader *ld;
    pthread_t thread;
    bool started;
    struct stk_sample sample;
    struct stk_image *image;
    struct stk_buf scratch, whole;
    struct stretch *stretch;         /* the current stretch */
    bool copies;                     /* it ends before the batch */
    uint32_t guess;                  /* column of the last field */
    uint64_t checked, checked_bytes; /* of the current item */
};

struct stk_loader {
    struct stk_dataset *ds;
    struct stk_loader_options o; /* pointers in it are not used after opening */
    _Atomic uint32_t refs;       /* one while open, and one per delivered batch */
    int pid;
    struct stk_tier_overlay *tier; /* NULL: only the source is read */
    bool started;                  /* a batch was complete. With the lock */
    struct stk_files files;        /* the dataset's, with the tier in front */
    struct stk_io *io;
    struct stk_regions regions;
    struct stk_labels *labels; /* the dataset's */
    struct stk_image_op image;
    char *image_field;
    uint64_t index_bytes;       /* the index's share of the memory... */
    uint64_t budget;            /* ...and the rest */
    uint64_t stretch_bytes;     /* when a stretch is large enough */
    uint64_t region_bytes;      /* memory it takes, with room for its last sample */
    uint64_t region_most;       /* and when its reads need more, they are sieved */
    struct sieve sieve;         /* the feeder's */
    struct decoding decoding;   /* with the lock held, but for `most` */
    bool cuts;                  /* most stretches will cut their extents */
    uint32_t item_samples;      /* maximum number of samples per item */
    uint64_t batch_bytes;       /* of the arrays of a batch */
    uint64_t decoded_most;      /* decoded bytes of a stretch, unless it cuts them */
    _Atomic size_t arena_bytes; /* additional memory per batch, from the last batches */
    uint32_t max_batches;       /* in use at once */

    struct column *column;
    size_t ncolumns;
    uint64_t looked_at;     /* the sample that determines the columns */
    int32_t *column_of;     /* by field of the index: column, -1: not wanted */
    bool simple;            /* no field has a codec: slices are values */
    bool views;             /* batches point into stretches */
    bool checks;            /* the index has the samples' checksums, and they are compared */
    bool sums;              /* these or the records' own checksums need sums of the stored bytes */
    bool summed_chain[256]; /* by chain as in struct stk_want: undoing it compares a checksum */

    pthread_mutex_t lock;
    pthread_cond_t work_cond, ready_cond;
    struct item *work_first, **work_last;
    uint32_t idle;                       /* workers that wait */
    struct batch *out_first, **out_last; /* fed or being fed, in order */
    struct batch *free_batches;
    struct stretch *free_stretches, *all_stretches;
    struct shared *free_shared; /* with their buffers */
    uint32_t nbatches;          /* that exist */
    uint32_t active;            /* stretches being read or processed */
    bool stop;
    bool waiting; /* the caller waits in stk_loader_next() */
    bool hungry;  /* the feeder waits for memory or batches */
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
    bool index_warm;             /* all needed parts of the index were loaded before */
    struct stretch *growing;     /* waits for batches... */
    uint64_t grows_to, grows_in; /* ...up to this many samples of this epoch */
    struct stretch *built;       /* waits for memory */
    struct {
        uint64_t extent, stretch;
    } met[1024];  /* filtered extents that the stretch already has, by number */
    double grows; /* ratio of decoded to stored bytes, from the first sample */
    struct stretch *submit_first, **submit_last;
    /* The caller's: */
    uint64_t take_epoch, take_step, take_slots, refills;
    bool epoch_over;           /* its end was reported; the next call begins another */
    struct stk_reader *reader; /* for mending, like the next three */
    struct worker mender;
    struct stretch *mended;
    struct stk_buf mended_bytes;
    struct stk_sample sample;
    uint64_t drawn, drawn_epoch; /* samples drawn for want of a better one, all of them bad */
    char **problem;              /* texts, STK_PROBLEMS_KEPT at most */
    size_t nproblems;
    char warning[480];                    /* "": none */
    struct stk_buf tier_notes, tier_text; /* tiers that are not used, and why; those in use */
    struct stk_tier_filled tier_filled;
    struct stk_loader_stats stats;
    _Atomic uint64_t decode_ns, decoded_bytes;
    /* load/watch.c; bits by file. The first three with the lock held: */
    struct batch *given; /* delivered batches with views */
    uint64_t *late;      /* files of batches released since the last check... */
    struct watch_span late_span;
    uint64_t *told, *asked; /* reported as changed; scratch space */
    uint64_t watch_again_ns;
};

/* ---- load/feed.c ---- */
void *stk_feed_main(void *loader);
/* Wakes the feeder when it waits for memory or batches. With the lock held. */
void stk_feed_wake(struct stk_loader *ld);

/* The plan of an epoch, made when needed. With the lock held. */
/* The order's settings from the options. */
void stk_loader_set_order(struct stk_loader *ld);
/* The index's share of the memory in bytes: all it needs, but at most a quarter of the memory, or
 * half if the order uses the whole index. */
uint64_t stk_loader_index_share(const struct stk_loader *ld);
/* About the filtered extents, shared by samples, that a window needs (block), or any stretch
 * (global), or a sample. All 0: samples do not share any. */
struct packed {
    uint64_t bytes;    /* decoded */
    uint64_t nextents; /* number of them */
    uint64_t largest;  /* decoded bytes of the largest... */
    uint64_t takes;    /* ...and bytes to read and to decode it */
    uint64_t nslices;  /* of a sample */
};
void stk_loader_packed(const struct stk_loader *ld, struct packed *p);
/* Sets the warning if an extent does not fit into the memory. */
void stk_loader_warn_extent(struct stk_loader *ld, const struct packed *p);
/* Sets the warning if order o leaves classes together, or is unexpectedly expensive. */
void stk_loader_warn(struct stk_loader *ld, const struct stk_order *o);
int stk_loader_plan(struct stk_loader *ld, uint64_t epoch, const struct stk_leg *leg, size_t nlegs,
                    struct stk_err *err);

/* ---- load/stretch.c ---- */
struct stretch *stk_stretch_take(struct stk_loader *ld); /* an empty one; NULL: no memory */
void stk_stretch_reset(struct stretch *s);
/* After its samples are added: plans the few large reads for all of them. share: by the feeder,
 * with other stretches. */
int stk_stretch_plan(struct stretch *s, bool share, struct stk_err *err);
/* All its data has arrived: queues its samples as work. With the lock held. */
void stk_stretch_ready(struct stk_loader *ld, struct stretch *s);
void stk_stretch_drop(struct stretch *s); /* one reference */
void stk_stretch_free(struct stretch *s);
/* The stretch's use of an extent, or NULL. */
struct use *stk_use_find(const struct stretch *s, uint64_t extent);
/* Estimated decoded size of an extent with `stored` bytes. */
size_t stk_stretch_decoded(const struct stk_loader *ld, uint64_t extent, uint8_t chain,
                           uint64_t stored);
/* Bytes of buffers to decode an extent to `decoded` bytes. */
size_t stk_stretch_takes(const struct stk_loader *ld, uint8_t chain, size_t decoded);
/* Bytes it has or will have besides its region. */
size_t stk_stretch_size(const struct stretch *s);
/* Charges them to the budget; over: even beyond it. Idle stretches free their memory if needed. */
bool stk_stretch_charge(struct stretch *s, size_t bytes, bool over);
void stk_stretch_settle(struct stretch *s); /* it is charged what it has */
/* Idle stretches free what they keep for reuse. False: they had nothing. */
bool stk_stretches_give_up(struct stk_loader *ld);

/* ---- load/shared.c ---- */
/* A new one with the caller as its user; NULL: no memory. */
struct shared *stk_shared_new(struct stk_loader *ld, uint64_t extent);
/* From now on it is charged to the budget separately. */
void stk_shared_charge(struct stk_loader *ld, struct shared *x);
/* Drops a user; marks it decoded, so that waiting stretches continue; frees the memory of unused
 * ones. All with the lock held. */
void stk_shared_drop(struct stk_loader *ld, struct shared *x);
/* It cannot be decoded. By the only thread that uses it. */
void stk_shared_fail(struct shared *x, int code, const struct stk_err *why);
void stk_shared_done(struct stk_loader *ld, struct shared *x);
bool stk_shared_give_up(struct stk_loader *ld);
/* By the feeder: the kept one of this extent, or NULL; keeps one, as the newest; drops old ones
 * until the others have `most` bytes, but not those of the last sample. */
struct shared *stk_kept_find(struct stk_loader *ld, uint64_t extent);
void stk_kept_add(struct stk_loader *ld, struct shared *x);
void stk_kept_trim(struct stk_loader *ld, size_t most);
void stk_kept_release(struct stk_loader *ld); /* and the unused ones, at the end */

/* ---- load/sieve.c ---- */
/* room: approximate memory limit. */
void stk_sieve_init(struct stk_loader *ld, uint64_t room);
/* True if a planned stretch needs too much memory, and far less if it is sifted. */
bool stk_sieve_pays(const struct stretch *s);
/* The largest read then... */
uint64_t stk_sieve_most(const struct stk_loader *ld);
/* ...and, with bundles no larger than that, decides what is sifted and the memory it needs. */
void stk_sieve_plan(struct stretch *s);
/* Before a sifted stretch is read. 1: done; 0: not before other bundles are done. */
int stk_sieve_open(struct stretch *s, struct stk_err *err);
/* Lends memory to read a sifted bundle into. False: not before another bundle is done. */
bool stk_sieve_lend(struct stk_loader *ld, struct bundle *r);
void stk_sieve_return(struct stk_loader *ld, struct bundle *r);
/* Keeps the needed parts of a sifted bundle after it was read. */
void stk_sieve_keep(struct stretch *s, const struct bundle *r);

/* ---- load/cut.c ---- */
/* True if the decoded extents of a stretch do not fit, but their slices do. */
bool stk_cut_pays(const struct stretch *s);
/* Different extents may begin at the same place of a file: the wants of each become neighbours. */
void stk_cut_group(struct stk_fetch *f);
/* True if a stretch with planned bundles must decode extents as they arrive. */
bool stk_stream_pays(const struct stretch *s);
/* True for a want, by its index in the order, whose extent is decoded when its bundle arrives: its
 * stored bytes are not kept. */
bool stk_stream_has(const struct stretch *s, size_t place);
/* Then: assigns its extents to its bundles, and sets where slices go, if they are cut. */
void stk_stream_plan(struct stretch *s);
/* The other slices go to `at`, where s->slices bytes are. */
void stk_cut_place(struct stretch *s, uint8_t *at);
/* Charges the buffers for decoding. */
void stk_cut_reserve(struct stretch *s);
/* By the feeder: a bundle has arrived (code: it failed), so its extents can be decoded. */
void stk_stream_decode(struct stk_loader *ld, struct bundle *r, int code,
                       const struct stk_err *why);
/* By a thread, with the lock held: the extent of an item is decoded. The item may be gone then. */
void stk_stream_decoded(struct stk_loader *ld, const struct item *it);
/* By the feeder: takes the bundles whose extents are all decoded. */
struct bundle *stk_stream_back(struct stk_loader *ld);
/* By a thread: keeps the needed slices of a decoded extent. */
void stk_cut(const struct use *u, const struct stk_extent *e, const struct stk_buf *decoded);
/* Returns such a slice. */
int stk_cut_slice(const struct shared *x, const struct stk_slice *sl, const struct stk_want *w,
                  const struct stk_dataset *ds, const struct stk_extent *e, const uint8_t **p,
                  uint64_t *len, struct stk_err *err);

/* ---- load/work.c ---- */
void *stk_work_main(void *worker);
int stk_worker_init(struct worker *w, struct stk_loader *ld, struct stk_err *err);
void stk_worker_release(struct worker *w);
/* Puts the first sample of a stretch that has been read into a slot, in this thread, and copies
 * bytes that do not outlive it. */
int stk_work_now(struct worker *w, struct stretch *s, struct batch *b, uint32_t slot,
                 struct stk_err *err);
/* Appends items to the queue. With the lock held. */
void stk_work_push(struct stk_loader *ld, struct item *first, size_t n);

/* ---- load/batch.c ---- */
/* A batch to fill; NULL: none is free (over: makes one more anyway). */
struct batch *stk_batch_take(struct stk_loader *ld, bool over, bool *nomem);
void stk_batch_free(struct batch *b);
/* n more slots are filled: charges the memory it now uses. */
void stk_batch_grown(struct batch *b, uint32_t n);
/* Keeps the stretch while the batch is held. Takes the caller's reference. */
int stk_batch_hold(struct batch *b, struct stretch *s);
void stk_batch_failed(struct batch *b, uint32_t slot, int code, const struct stk_err *why);
/* Decides the layout of every column. */
int stk_batch_finish(struct batch *b, struct stk_err *err);
/* Drops the caller's batch, and its reference to the loader. */
void stk_batch_give_back(struct batch *b);
void stk_loader_unref(struct stk_loader *ld);

/* ---- load/columns.c ---- */
/* From the first sample that can be read and the fields of the index. */
int stk_columns_find(struct stk_loader *ld, struct stk_err *err);
void stk_columns_release(struct stk_loader *ld);
/* Where the value of a field goes that is stored in one slice of `length` bytes; NULL: that depends
 * on the value. */
uint8_t *stk_column_place(const struct batch *b, uint32_t slot, uint32_t field, uint64_t length);
/* Stores a value in its slot. stable: its bytes live as long as the batch. */
int stk_column_put(struct worker *w, struct batch *b, uint32_t slot, size_t c,
                   const struct stk_value *v, bool stable, struct stk_err *err);
/* All fields of a sample; stable(user, p) says which bytes live as long as the batch. */
int stk_columns_put(struct worker *w, struct batch *b, uint32_t slot, const struct stk_sample *s,
                    bool (*stable)(const struct worker *w, const void *p, size_t n, size_t k),
                    size_t k, struct stk_err *err);
/* The key and the label by directory. */
int stk_columns_put_key(struct worker *w, struct batch *b, uint32_t slot, uint64_t id,
                        struct stk_err *err);

/* ---- load/watch.c ---- */
/* After the engine is open. Frees: free(ld->late). */
int stk_watch_init(struct stk_loader *ld, struct stk_err *err);
size_t stk_watch_words(const struct stk_loader *ld); /* per batch; 0: nothing is mapped */
/* By a worker: sample k is about to be put into the batch. */
void stk_watch_sample(struct batch *b, const struct stk_fetch *f, size_t k);
void stk_watch_given(struct stk_loader *ld, struct batch *b); /* both with the lock held */
void stk_watch_released(struct stk_loader *ld, struct batch *b);
/* Before a batch is delivered (NULL: the end of an epoch): fails the slots whose file has changed.
 * If bytes of batches delivered before may have changed, returns negative or notes a problem, by
 * the policy. */
int stk_watch(struct stk_loader *ld, struct batch *b, struct stk_err *err);

/* ---- load/mend.c ---- */
/* Counts a problem that was passed over, and keeps its text. */
void stk_problem_note(struct stk_loader *ld, const struct stk_err *why);
/* Keeps the texts of what was passed over when the dataset was opened: not samples, not counted. */
void stk_problems_of_dataset(struct stk_loader *ld);
/* Repairs the failed slots of a batch before delivery. */
int stk_mend(struct stk_loader *ld, struct batch *b, struct stk_err *err);

#endif
