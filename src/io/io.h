/*
 * io.h - reads of files: many at once, large, by one of several engines. An engine only knows a
 * struct stk_files: a dataset's files, or any list.
 *
 * One thread (the owner) submits and reaps; the engine does the rest. A request names a file by its
 * number; files are opened when first needed (and checked as files.h says), by threads, so that a
 * slow open delays nothing else, and closed again when too many are open. Requests complete in any
 * order. A short file, an error or a missing file is the result of its request, with path and
 * offset in the message; the others continue.
 */
#ifndef STK_IO_IO_H
#define STK_IO_IO_H

#include <pthread.h>

#include "io/files.h"

/* For direct reads the engine extends a range to multiples of at most this. */
#define STK_IO_ALIGN STK_FILE_ALIGN

enum stk_io_kind {
    STK_IO_AUTO,
    STK_IO_DIRECT,  /* io_uring if allowed, else threads; O_DIRECT if supported */
    STK_IO_URING,   /* io_uring through the page cache */
    STK_IO_THREADS, /* pread in threads, through the page cache */
    STK_IO_MMAP,    /* no copy at all; a file that shrinks gives an error, not SIGBUS */
};

/* Their names for users: "auto", "direct", and the available engines; NULL-terminated. */
const char *const *stk_io_names(void);
int stk_io_find(const char *name, enum stk_io_kind *kind, struct stk_err *err);

/* Whether io_uring can be used here; an error says why not: it is not built in, or the kernel or a
 * sandbox refuses it. */
int stk_io_try_uring(struct stk_err *err);

/* Requests in flight unless the caller gives a number. On a network, more of them hide round trips. */
#define STK_IO_DEPTH         32u
#define STK_IO_DEPTH_NETWORK 64u

struct stk_io_config {
    enum stk_io_kind kind;
    unsigned depth;      /* requests in flight; 0: one of the above */
    uint64_t bytes;      /* without a depth given: bytes in flight at most; 0: any number */
    bool random;         /* requests are scattered: do not read around them */
    uint64_t cache_room; /* bytes of page cache the job may fill; for STK_IO_AUTO */
    bool watch;          /* check for changes after direct reads of local files, too */
};

struct stk_io_req {
    /* Set by the owner: */
    uint32_t file;
    uint64_t off;
    size_t len;  /* > 0 */
    void *buf;   /* STK_IO_ALIGN-aligned, stk_io_room(len) bytes; unused by STK_IO_MMAP */
    int segment; /* number of the registered memory that holds buf; -1: none */
    void *user;
    /* Optional: the first n bytes are at `data`. Called as they come, by the thread that has copied
     * them there, while they are in its core's cache; not for bytes that come by other ways
     * (mapped, or written to memory by a device or another thread). n = 0: a copy failed, and the
     * range is read again from the source. */
    void (*arrived)(struct stk_io_req *req, size_t n);
    /* Set by the engine: */
    int code;            /* 0, or negative, and *why is filled */
    bool changed;        /* the file was changed since it was opened: its size still suffices, but
                          * only a checksum tells whether these bytes are old or new */
    struct stk_err *why; /* malloc'ed on failure, else NULL (also if out of memory). Caller frees
                          * with free(). */
    const uint8_t *data; /* byte `off` of the file; in buf, or in the mapping (valid until
                            stk_io_close) */
    /* Private to the engine: */
    uint32_t from; /* number of the file, or of the copy, that is read */
    struct stk_io_req *next;
    struct stk_file *held;               /* the open file it reads, pinned */
    const struct stk_io_map *map;        /* or the mapped one */
    struct stk_io_req *opening;          /* the next request whose file is being opened... */
    struct stk_io_req *waits, *last;     /* ...and the requests waiting for that */
    uint64_t at;                         /* file offset of buf[0] */
    size_t want, got;                    /* bytes to request from there; bytes received */
    uint64_t submitted_ns, completed_ns; /* CLOCK_MONOTONIC */
    uint64_t asked_ns;                   /* start of the kernel request; only under a profiler */
    uint8_t job;
    bool buffered; /* the rest goes through the page cache, though its file is read directly */
    bool watch;    /* check whether the file has changed, though it is read directly */
    unsigned tries;
};

/* Bytes a buffer must have for a read of len. */
static inline size_t stk_io_room(size_t len)
{
    return (len + 3 * (size_t)STK_IO_ALIGN - 1) & ~((size_t)STK_IO_ALIGN - 1);
}

struct stk_io;

/*
 * Only one thread at a time (the owner) submits, reaps and stops; other functions say where they
 * may be called. Threads that touch mapped data must not block SIGBUS.
 */

/* Probes if kind is AUTO. Borrows files. Caller frees with stk_io_close(). */
int stk_io_open(const struct stk_files *files, const struct stk_io_config *cfg, struct stk_io **out,
                struct stk_err *err);
/* The owner's last call: cancels requests that have not begun, waits for the rest. Afterwards every
 * request and its buf belongs to the caller, reaped or not (errors that were not reaped are freed).
 * Mapped data stays. */
void stk_io_stop(struct stk_io *io);
/* Stops if necessary, and frees, including mapped data. From any thread. */
void stk_io_close(struct stk_io *io);
/* The engine in use: one of stk_io_names(). */
const char *stk_io_name(const struct stk_io *io);
/* The same in more words: "direct, io_uring", "direct, threads", "threads, io_uring cannot
 * be used here". Borrowed. */
const char *stk_io_detail(const struct stk_io *io);
/* Why it was chosen: "ext4, 0 % of the data is in memory"; "" when kind was given. Borrowed. */
const char *stk_io_reason(const struct stk_io *io);
bool stk_io_maps(const struct stk_io *io); /* true: buf is not used, so give none */
unsigned stk_io_depth(const struct stk_io *io);
/* Registers memory for buffers, so that the kernel need not pin it for each read. Returns its
 * number for stk_io_req.segment, or -1: used unregistered. From any thread. All of it becomes
 * resident. No request with that segment may be in flight when it is unregistered; the memory may
 * be unmapped right after. */
int stk_io_register(struct stk_io *io, void *p, size_t size);
void stk_io_unregister(struct stk_io *io, int segment);

/* Requests that can still be submitted before one must be reaped. */
unsigned stk_io_free_slots(const struct stk_io *io);
/* Takes the request. Never fails: errors are its result. It may be delayed until stk_io_reap(). */
void stk_io_submit(struct stk_io *io, struct stk_io_req *req);
/* Returns up to max finished requests. wait: blocks until there is one or stk_io_wake() was called
 * (even if nothing is in flight). */
size_t stk_io_reap(struct stk_io *io, struct stk_io_req **done, size_t max, bool wait);
/* From any thread: a waiting (or the next waiting) stk_io_reap() returns. */
void stk_io_wake(struct stk_io *io);
/*
 * For mapped data, after it was read (from any thread; always true for the other engines): false if
 * part of [off, off + len) was missing or unreadable, so that zeros were seen instead; report "the
 * file became shorter while it was read". A file cut in the middle of a page reads as zeros up to
 * the end of that page unnoticed: only checksums detect that.
 */
bool stk_io_intact(struct stk_io *io, uint32_t file, uint64_t off, uint64_t len);
/*
 * For mapped data that is still in use (from any thread; always true for the other engines): false
 * if the file has changed in size or time since it was mapped, or part of it was missing. From then
 * on stk_io_intact() is false for it.
 */
bool stk_io_unchanged(struct stk_io *io, uint32_t file);

struct stk_io_stats {
    uint64_t reads, bytes_read, opens;
    double depth_integral_s, busy_s; /* their quotient: requests in flight while there were any */
    uint64_t level_bytes[1 + STK_FILES_LEVELS]; /* requested, by where they came from */
    uint64_t refused; /* reads of a copy that failed and were repeated from the source */
};
void stk_io_stats(struct stk_io *io, struct stk_io_stats *out); /* from any thread */

/* The choice of STK_IO_AUTO for some files, by their file system and by how much of them is cached
 * (probed at some offsets, without reading). */
struct stk_io_choice {
    enum stk_io_kind kind;
    bool network;    /* a file system of another machine */
    double cached;   /* share of the probed offsets that are cached; < 0: unknown */
    char fs[16];     /* "ext4" */
    char reason[96]; /* "ext4, 0 % of the data is in memory" */
};
void stk_io_probe(const struct stk_files *files, const struct stk_io_config *cfg,
                  struct stk_io_choice *out);

/* ---- regions --------------------------------------------------------------------------------- */

/* A loader's memory, within a budget: regions for reads, made when needed and reused (the last
 * returned first: it is still in the CPU's cache); and charges for everything else that grows with
 * the data: decoded bytes, arrays of batches, plans. */

struct stk_region {
    struct stk_region *next;
    uint8_t *p;
    size_t size;
    int segment; /* the engine's number for it; -1: not registered */
};

struct stk_regions {
    struct stk_io *io;
    pthread_mutex_t lock;
    struct stk_region *idle;
    size_t size;   /* of a new region */
    size_t budget; /* bytes of all of them and all charges */
    size_t total;  /* of regions */
    size_t charged, peak;
};

void stk_regions_init(struct stk_regions *r, struct stk_io *io, size_t size, size_t budget);
/* Frees the idle regions; none may be in use. The engine must still be open. */
void stk_regions_release(struct stk_regions *r);
/* A region of at least `need` bytes; NULL: the budget is used up (over: exceed it) or memory is
 * (*nomem). */
struct stk_region *stk_region_take(struct stk_regions *r, size_t need, bool over, bool *nomem);
/* Charges bytes that are about to be allocated elsewhere; frees idle regions for them. False: the
 * budget is used up (over: charges them anyway). */
bool stk_regions_charge(struct stk_regions *r, size_t bytes, bool over);
void stk_regions_uncharge(struct stk_regions *r, size_t bytes);
/* True if less than half of the budget is left: then nothing is kept for later. */
bool stk_regions_tight(struct stk_regions *r);
/* The peak number of bytes. */
size_t stk_regions_peak(struct stk_regions *r);
void stk_region_give(struct stk_regions *r, struct stk_region *g);

#endif
