/*
 * copy.h - reads parts of a source and gives their parcels to a sink: the copy on this node, or a
 * sink that sends parcels to other nodes as well.
 *
 * Large files go through the engines, many reads in flight. Small files are read by threads, with
 * four system calls each. Every parcel is hashed once; if the list has the hash of a whole file,
 * its parcels are also hashed in order. A file whose size or time differs from the record is
 * STK_E_STALE, and never finished.
 */
#ifndef STK_STAGE_COPY_H
#define STK_STAGE_COPY_H

#include "tier/source.h"

/* Neighbouring parcels of one file. */
struct stk_part {
    uint64_t file;
    uint64_t first, count; /* parcels (STK_TIER_PARCEL) */
};

/* Receives parcels. All functions are called from any thread, several at once. Those that answer
 * with a claim (enum stk_tier_claim) may be NULL: all parcels are wanted. */
struct stk_copy_sink {
    /* Anything but STK_TIER_OURS: the parcel is not read. */
    enum stk_tier_claim (*claim)(struct stk_copy_sink *me, uint64_t file, uint64_t parcel);
    /* The same for n small files that follow one another. */
    void (*claim_files)(struct stk_copy_sink *me, uint64_t first, uint64_t n, uint8_t *got);
    /* Takes a claimed parcel: n bytes at p, whose stk_tier_hash() is hash. 1: now the whole file is
     * there; 0, or negative. Borrows p during the call. */
    int (*put)(struct stk_copy_sink *me, uint64_t file, uint64_t parcel, const void *p, size_t n,
               uint64_t hash, struct stk_err *err);
    /* Gives claims back, after a put or without one. May be NULL. */
    void (*drop)(struct stk_copy_sink *me, uint64_t file, uint64_t parcel);
    void (*drop_files)(struct stk_copy_sink *me, uint64_t first, uint64_t n, const uint8_t *got);
    /* A put of this file of several parcels returned 1, and all puts of its part are over. hash: of
     * the whole file as it was read; NULL: not computed, because some parcels were there before.
     * May be NULL. */
    int (*finish)(struct stk_copy_sink *me, uint64_t file, const uint64_t *hash,
         struct stk_err *err);
};

struct stk_copy_options {
    unsigned threads;      /* that read small files, hash and write; 0: by cores and file system */
    unsigned depth;        /* reads in flight; 0: the engine's choice */
    uint64_t memory_bytes; /* for buffers; 0: 256 MiB, less on a small node */
    uint64_t max_rate;     /* bytes per second read from the source; 0: no limit */
    bool any_order;        /* the parts need not be copied in their order */
    bool gentle;           /* others read the source: no more large reads in flight than it needs */
    bool no_hash;          /* all hashes are 0: only for measuring what hashing costs */
    /* Called often, from any thread; non-zero: stop (STK_E_STOPPED). Bytes and small files put so
     * far. May be NULL. */
    int (*progress)(void *user, uint64_t bytes, uint64_t files);
    /* True if others ask us to begin no reads now. Called before each read if `gentle`. May be NULL.
     * They are obeyed for a second at most. */
    bool (*others_first)(void *user);
    void *user;
};

struct stk_copy_result {
    uint64_t bytes, files; /* put; files: whole small files, and large ones that were finished */
    uint64_t skipped;      /* parcels that were there, or that another process was copying */
    char engine[64];       /* that read the large files: "direct, io_uring"; "": there were none */
};

/* Copies small files first, then large ones, each in the order of the parts. Returns the first
 * error; parcels that were put before it stay put. *r is filled in any case. */
int stk_copy(const struct stk_source *src, const struct stk_part *part, size_t nparts,
             const struct stk_copy_options *o, struct stk_copy_sink *sink,
             struct stk_copy_result *r, struct stk_err *err);
/* All files of the source as parts, in its order. *out: caller frees with free(). */
int stk_copy_all(const struct stk_source *src, struct stk_part **out, size_t *n,
                 struct stk_err *err);

#endif
