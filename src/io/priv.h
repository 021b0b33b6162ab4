/*
 * priv.h - what the engines share: open files, the threads, and the way of a finished request back
 * to the owner.
 *
 * The path of a request: submit -> look up its file; if it is not open, a thread opens it and all
 * requests that wait for it continue -> the engine moves bytes -> done list -> reap.
 */
#ifndef STK_IO_PRIV_H
#define STK_IO_PRIV_H

#include "base/guard.h"
#include "io/io.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#define STK_IO_SEGMENTS 256u         /* pieces of memory that can be registered */
#define STK_IO_MAPS     4096u        /* files that are mapped at most */
#define STK_IO_HOT      (256u << 10) /* bytes that stay in a core's cache while they are copied */
#define STK_IO_ASK_MAX  (1u << 30)   /* the kernel moves less than 2 GiB in one call */

/* ---- lists of requests ---- */

struct stk_io_list {
    struct stk_io_req *first, *last;
};

static inline void stk_io_push(struct stk_io_list *l, struct stk_io_req *req)
{
    req->next = NULL;
    if (l->first)
        l->last->next = req;
    else
        l->first = req;
    l->last = req;
}

static inline struct stk_io_req *stk_io_pop(struct stk_io_list *l)
{
    struct stk_io_req *req = l->first;
    if (req)
        l->first = req->next;
    return req;
}

/* Moves all of b to the end of a. */
static inline void stk_io_append(struct stk_io_list *a, struct stk_io_list *b)
{
    if (!b->first)
        return;
    if (a->first)
        a->last->next = b->first;
    else
        a->first = b->first;
    a->last = b->last;
    b->first = NULL;
}

/* ---- requests and their files (io/request.c) ---- */

enum stk_io_got {
    STK_GOT_FILE,    /* req->held or req->map is set */
    STK_GOT_TO_OPEN, /* a thread must call stk_io_open_file() for it */
    STK_GOT_WAIT,    /* its file is being opened; it will be in that call's list */
};
enum stk_io_got stk_io_get_file(struct stk_io *io, struct stk_io_req *req);
/* Opens the request's file. Appends it and every request that waited for it to *waited: holding the
 * file, or failed. */
void stk_io_open_file(struct stk_io *io, struct stk_io_req *req, struct stk_io_list *waited);
void stk_io_put_file(struct stk_io *io, struct stk_io_req *req);

/* Copies why, with the file's path and the offset filled in. */
void stk_io_fail(const struct stk_files *files, struct stk_io_req *req, const struct stk_err *why);
/* Computes the range to request. False: it failed. */
bool stk_io_begin(const struct stk_files *files, struct stk_io_req *req);

enum stk_io_step {
    STK_STEP_DONE,  /* finished, successfully or not */
    STK_STEP_AGAIN, /* ask for the rest: want - got bytes at at + got */
    STK_STEP_PLAIN, /* the rest cannot be read directly: use the page cache */
};
/* The next step after a read that returned `result` bytes or -errno. */
enum stk_io_step stk_io_step(const struct stk_files *files, struct stk_io_req *req, ssize_t result);

/* For requests with `arrived`: reports the bytes that have arrived... */
void stk_io_arrived(struct stk_io_req *req);
/* ...and reads the bytes in the page cache at once, in blocks that stay in this core's cache until
 * they are examined. True: the request is complete. False: the rest must be requested in one piece,
 * since it has to be waited for. */
bool stk_io_read_cached(struct stk_io *io, struct stk_io_req *req);

/* ---- threads (io/threads.c) ---- */

enum stk_io_job {
    STK_JOB_OPEN,  /* open its file */
    STK_JOB_READ,  /* read it, all or the rest */
    STK_JOB_ONCE,  /* open, read, close */
    STK_JOB_LOAD,  /* load mapped pages */
    STK_JOB_FETCH, /* have the overlay read it */
};

struct stk_io_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct stk_io_list queue;
    unsigned queued, idle, nthreads, max;
    bool stop;
    pthread_t *thread;
};

int stk_io_pool_init(struct stk_io_pool *pool, unsigned max, struct stk_err *err);
/* Queues n jobs; starts threads if all are busy. Runs them here if no thread can be started. */
void stk_io_pool_add(struct stk_io *io, struct stk_io_list *jobs, unsigned n);
/* Joins the threads. Drops jobs that have not begun. */
void stk_io_pool_stop(struct stk_io_pool *pool);
void stk_io_pool_release(struct stk_io_pool *pool);

/* ---- the front end ---- */

enum stk_io_caps {
    STK_IO_CAN_DIRECT = 1, /* reads past the page cache too */
    STK_IO_CAN_ONCE = 2, /* opens, reads and closes a file in one go: for folders of small files */
};

/* An engine. A new one is a file with one of these, a line in the table of io/engine.c and a
 * stk_io_kind. */
struct stk_io_ops {
    enum stk_io_kind kind;
    const char *name;  /* "uring": the name for users */
    const char *title; /* "io_uring" */
    /* "io_uring cannot be used here": shown if threads replace it. NULL: open()'s error. */
    const char *lacking;
    unsigned caps; /* enum stk_io_caps */
    /* A thread's job for a request whose file it has just opened: STK_JOB_READ, STK_JOB_LOAD; or
     * STK_JOB_OPEN: returns it to the owner, which starts it. */
    enum stk_io_job threads_do;
    /* Optional. Negative: this engine is not available here. */
    int (*open)(struct stk_io *io, struct stk_err *err);
    void (*close)(struct stk_io *io);
    void (*stop)(struct stk_io *io); /* cancels, and waits for requests that cannot be cancelled */
    /* A request whose file is open and whose range is known. */
    void (*start)(struct stk_io *io, struct stk_io_req *req);
    /* Collects finished ones into io->done; wait: blocks until something may have happened. */
    void (*poll)(struct stk_io *io, bool wait);
    /* From any thread: wakes the owner, because something was posted or it should wake up. */
    void (*notify)(struct stk_io *io);
    /* Optional. */
    int (*add_memory)(struct stk_io *io, void *p, size_t size);
    void (*drop_memory)(struct stk_io *io, int segment);
};

/* Waiting and waking for engines whose owner waits only for posts. */
void stk_io_threads_poll(struct stk_io *io, bool wait);
void stk_io_threads_notify(struct stk_io *io);

extern const struct stk_io_ops stk_io_threads_ops, stk_io_mmap_ops, stk_io_uring_ops;

/* Opens the engine for a kind that is not AUTO; threads if it is not available (io/engine.c). */
int stk_io_take_engine(struct stk_io *io, enum stk_io_kind kind, struct stk_err *err);

struct stk_io {
    const struct stk_files *files;
    const struct stk_io_ops *ops;
    const char *name;
    char detail[96];
    struct stk_io_choice choice;
    unsigned depth;
    bool once; /* too many small files to keep any open */
    bool stopped;
    pid_t pid; /* of the process that opened it */
    bool random;
    bool watch;
    struct stk_handles handles;
    struct stk_io_map *map; /* by number; NULL: this engine maps nothing */
    int guard;              /* of map: the guard slot of file 0 */
    pthread_mutex_t open_lock;
    struct stk_io_req *opening; /* requests whose file is being opened, one per file */
    struct stk_io_pool pool;
    void *engine; /* its own state */

    /* The owner's: */
    unsigned inflight; /* submitted and not reaped */
    uint64_t inflight_bytes, most_bytes;
    unsigned unfinished; /* submitted and not yet known to be finished */
    uint64_t last_completed_ns;
    struct stk_io_list jobs; /* for the threads, collected until the owner polls */
    unsigned njobs;
    uint64_t resident;       /* mapped requests in a row that were in memory */
    struct stk_io_list done; /* finished, to be reaped */

    /* Passed from threads to the owner: */
    pthread_mutex_t post_lock;
    pthread_cond_t post_cond;
    struct stk_io_list post_done, post_ready; /* finished; file is open now, to be started */
    _Atomic bool posted, woken, waiting;

    _Atomic bool always_waits; /* its files do not support reads that must not wait */
    _Atomic uint64_t reads, bytes_read, latency_ns, busy_ns;
    _Atomic uint64_t opens; /* without those of handles */
    _Atomic uint64_t level_bytes[1 + STK_FILES_LEVELS], refused;
    _Atomic uint64_t busy_since_ns; /* 0: nothing is in flight */
};

uint64_t stk_io_now_ns(void);
/* From any thread: counts a call that returned n bytes, or failed. */
void stk_io_count_read(struct stk_io *io, ssize_t n);
/* By the owner: the request is over (code, why, data are set). */
void stk_io_finished(struct stk_io *io, struct stk_io_req *req);
/* By a thread: passes on finished and ready requests, and wakes the owner. */
void stk_io_post(struct stk_io *io, struct stk_io_list *done, struct stk_io_list *ready);
/* By the owner: takes posted requests; starts those that are ready. */
void stk_io_take_posted(struct stk_io *io);
/* By the owner: a job for the threads. */
void stk_io_job(struct stk_io *io, struct stk_io_req *req, enum stk_io_job job);
/* Passes the collected jobs to the threads. */
void stk_io_flush_jobs(struct stk_io *io);

/* ---- mappings (io/mmap.c) ---- */

/* A file that is mapped as a whole. */
struct stk_io_map {
    _Atomic bool ready; /* set after the rest */
    const uint8_t *p;
    uint64_t size;
    bool seeable;   /* mincore() is reliable for it */
    uint32_t level; /* of the copy that is mapped; 0: the source */
    int fd;         /* for checks without mincore(), and for changes; -1: not kept */
    struct stk_file_stamp stamp;
    _Atomic bool changed; /* its file has changed since */
};

/* By a thread. */
int stk_io_map_file(struct stk_io *io, uint32_t number, struct stk_err *err);

#endif
