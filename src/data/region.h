/*
 * region.h - a loader's memory, within a budget: regions that reads go to, made when needed, used
 * again and again (the last one given back first: it is still in the CPU's cache); and charges for
 * everything else that grows with the data: decoded bytes, arrays of batches, plans.
 */
#ifndef STK_DATA_REGION_H
#define STK_DATA_REGION_H

#include "data/io.h"

#include <pthread.h>

struct stk_region {
    struct stk_region *next;
    uint8_t *p;
    size_t size;
    int segment; /* as the engine knows it, -1: it does not */
};

struct stk_regions {
    struct stk_io *io;
    pthread_mutex_t lock;
    struct stk_region *idle;
    size_t size;   /* of a region as they are made */
    size_t budget; /* bytes of all of them and all charges */
    size_t total;  /* of regions */
    size_t charged, peak;
};

void stk_regions_init(struct stk_regions *r, struct stk_io *io, size_t size, size_t budget);
/* Gives up the idle ones; none may be in use. The engine must still be open. */
void stk_regions_release(struct stk_regions *r);
/* A region of at least `need` bytes; NULL: the budget is used up (over: go beyond it) or there is no
 * memory (*nomem). */
struct stk_region *stk_region_take(struct stk_regions *r, size_t need, bool over, bool *nomem);
/* Counts bytes that are about to be taken elsewhere; idle regions make room for them. False: the
 * budget is used up (over: it is counted all the same). */
bool stk_regions_charge(struct stk_regions *r, size_t bytes, bool over);
void stk_regions_uncharge(struct stk_regions *r, size_t bytes);
/* Whether less than half of the budget is left: nothing is kept for later then. */
bool stk_regions_tight(struct stk_regions *r);
/* The most bytes there ever were. */
size_t stk_regions_peak(struct stk_regions *r);
void stk_region_give(struct stk_regions *r, struct stk_region *g);

#endif
