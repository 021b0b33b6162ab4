/*
 * region.h - a loader's memory, within a budget: regions for reads, made when needed and reused
 * (the last returned first: it is still in the CPU's cache); and charges for everything else that
 * grows with the data: decoded bytes, arrays of batches, plans.
 */
#ifndef STK_IO_REGION_H
#define STK_IO_REGION_H

#include "io/io.h"

#include <pthread.h>

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
