/* spread_priv.h - what the files of spreading share. */
#ifndef STK_STAGE_SPREAD_PRIV_H
#define STK_STAGE_SPREAD_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "stage/spread.h"

/* ---- numbers of parcels (order.c) ---- */

/* All parcels of a source, numbered through. */
struct spread_map {
    const struct stk_source *src;
    uint64_t *base; /* number of each file's first parcel; count + 1 of them */
    uint64_t parcels;
};
int stk_spread_map_init(struct spread_map *m, const struct stk_source *src, struct stk_err *err);
void stk_spread_map_release(struct spread_map *m);
/* Its bytes. */
size_t stk_spread_len(const struct spread_map *m, uint64_t file, uint64_t parcel);

/* A set of parcels: a bit each. */
static inline size_t stk_bits_words(uint64_t n)
{
    return (size_t)((n + 63) / 64);
}
static inline bool stk_bit(const uint64_t *bits, uint64_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}
static inline void stk_bit_set(uint64_t *bits, uint64_t i)
{
    bits[i / 64] |= 1ull << (i % 64);
}

/* Which parcels are to travel, who reads each, and how far it goes. */
struct spread_work {
    const struct spread_map *map;
    uint32_t node, nodes;   /* in the ring */
    const uint8_t *readers; /* by node: it can read the source */
    /* REPLICATE: those that are missing on any node; all go all the way. */
    const uint64_t *missing;
    /* SHARD: those that are missing on each node, one set after another; else NULL. */
    const uint64_t *wanted;
};
/* The parts that this node reads. *out: caller frees. */
int stk_spread_parts(const struct spread_work *w, struct stk_part **out, size_t *n,
                     struct stk_err *err);
/* The number of nodes after its reader that a parcel passes. */
uint32_t stk_spread_hops(const struct spread_work *w, uint64_t parcel);
/* SHARD: the parcels that o->epochs (0: 1) epochs of these ranks of plan->world ask for, and those of
 * files without samples. bits: of the map. */
int stk_spread_need(const struct spread_map *m, const struct stk_loader_options *plan,
                    const uint32_t *rank, uint32_t nranks, uint64_t *bits, struct stk_err *err);

/* ---- the ring (spread_ring.c) ---- */

/* What a leader did. Counted while it runs: any thread may read it. */
struct spread_counts {
    _Atomic uint64_t read, sent, received, written;
    _Atomic uint64_t there; /* bytes in the copy */
};

struct spread_ring {
    /* Set by the caller. */
    struct stk_comm *comm; /* of the leaders */
    const struct stk_source *src;
    const struct spread_work *work;
    struct stk_tier_set *set; /* NULL: this node keeps nothing */
    struct stk_copy_options copy;
    struct spread_counts *counts;
    double disk_s; /* a write that takes longer: the disk hangs */
    /* Called often; non-zero: stop. */
    int (*tick)(void *user);
    void *user;
    /* Filled in. */
    int disk_rc, read_rc; /* what went wrong here, and does not stop the others */
    struct stk_err disk_err, read_err;
    uint8_t *read_failed; /* by node: it could not read its part; caller's */
    double read_s;
    bool stuck; /* a thread of ours still writes to the set: it must stay open */
};
/* Moves all parcels of the work. An error: the ring is broken, and no leader can go on. */
int stk_spread_ring(struct spread_ring *r, struct stk_err *err);

/* ---- status files (spread_status.c) ---- */

struct spread_status;
/* Begins the file of this node in a folder, which is made if missing. dir NULL: none is written. */
int stk_status_begin(const char *dir, uint32_t node, const struct stk_spread_node *n,
                     struct spread_status **out, struct stk_err *err);
/* Writes it again, at most every few seconds unless `now`. */
void stk_status_write(struct spread_status *s, const struct stk_spread_node *n, bool now);
/* The others, as far as their files tell. */
void stk_status_read(struct spread_status *s, struct stk_spread_node *node, uint32_t nodes);
/* remove: nobody needs the file, nor those of `nodes` nodes, and the folder, if it is empty then. */
void stk_status_end(struct spread_status *s, uint32_t nodes, bool remove);

#endif
