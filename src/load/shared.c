/*
 * shared.c - filtered extents with parts of several samples: each is decoded once for all stretches
 * that need it while it is in memory.
 *
 * The first stretch that needs an extent reads it, and one of its threads decodes it; the others
 * wait. The feeder keeps the latest extents within the budget, so that a pass in order decodes an
 * extent once, however many stretches it takes. `lock` guards the fields that stretches share
 * (users, done, waiting, the free list); only the feeder uses the kept extents.
 */
#include "load/priv.h"

#include <stdlib.h>

static void release(struct shared *x)
{
    stk_buf_release(&x->data);
    free(x->why);
    free(x);
}

struct shared *stk_shared_new(struct stk_loader *ld, uint64_t extent)
{
    pthread_mutex_lock(&ld->lock);
    struct shared *x = ld->free_shared;
    if (x)
        ld->free_shared = x->next;
    pthread_mutex_unlock(&ld->lock);
    if (!x && !(x = calloc(1, sizeof *x)))
        return NULL;
    stk_regions_uncharge(&ld->regions, x->charged); /* from now on the stretch is charged for it */
    free(x->why);
    struct stk_buf data = x->data;
    *x = (struct shared){.extent = extent, .users = 1, .data = data};
    if (!x->data.cap) /* memory that is given up must really be returned */
        x->data.own_pages = true;
    return x;
}

/* Frees it first: what is not charged may be taken by another thread at once. */
static void give_up(struct stk_loader *ld, struct shared *x)
{
    size_t charged = x->charged;
    release(x);
    stk_regions_uncharge(&ld->regions, charged);
}

void stk_shared_charge(struct stk_loader *ld, struct shared *x)
{
    (void)stk_regions_charge(&ld->regions, x->data.cap, true);
    x->charged = x->data.cap;
}

void stk_shared_drop(struct stk_loader *ld, struct shared *x)
{
    if (--x->users)
        return;
    if (stk_regions_tight(&ld->regions)) {
        give_up(ld, x);
        return;
    }
    x->next = ld->free_shared;
    ld->free_shared = x;
}

void stk_shared_fail(struct shared *x, int code, const struct stk_err *why)
{
    x->code = code;
    x->why = x->why ? x->why : malloc(sizeof *x->why);
    if (x->why)
        *x->why = *why;
}

bool stk_shared_give_up(struct stk_loader *ld)
{
    bool any = ld->free_shared != NULL;
    while (ld->free_shared) {
        struct shared *x = ld->free_shared;
        ld->free_shared = x->next;
        give_up(ld, x);
    }
    return any;
}

void stk_shared_done(struct stk_loader *ld, struct shared *x)
{
    x->done = true;
    for (struct use *u = x->waiting; u; u = u->next)
        if (--u->stretch->unready == 0)
            stk_stretch_ready(ld, u->stretch);
    x->waiting = NULL;
}

/* ---- the kept ones ---- */

static struct shared **chain_of(struct stk_loader *ld, uint64_t extent)
{
    return &ld->kept.by_extent[extent % STK_KEPT_CHAINS];
}

struct shared *stk_kept_find(struct stk_loader *ld, uint64_t extent)
{
    struct shared *x = *chain_of(ld, extent);
    while (x && x->extent != extent)
        x = x->next;
    return x;
}

static void link_last(struct stk_loader *ld, struct shared *x)
{
    x->older = ld->kept.newest;
    x->newer = NULL;
    *(x->older ? &x->older->newer : &ld->kept.oldest) = x;
    ld->kept.newest = x;
}

static void unlink_age(struct stk_loader *ld, struct shared *x)
{
    *(x->older ? &x->older->newer : &ld->kept.oldest) = x->newer;
    *(x->newer ? &x->newer->older : &ld->kept.newest) = x->older;
}

/* With the lock held. */
static void let_go(struct stk_loader *ld, struct shared *x)
{
    struct shared **at = chain_of(ld, x->extent);
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    unlink_age(ld, x);
    ld->kept.bytes -= x->about;
    x->kept = false;
    stk_shared_drop(ld, x);
}

void stk_kept_add(struct stk_loader *ld, struct shared *x)
{
    x->met = ld->nbuilt;
    if (x->kept) {
        unlink_age(ld, x);
        link_last(ld, x);
        return;
    }
    pthread_mutex_lock(&ld->lock);
    x->users++;
    pthread_mutex_unlock(&ld->lock);
    struct shared **chain = chain_of(ld, x->extent);
    x->next = *chain;
    *chain = x;
    x->kept = true;
    ld->kept.bytes += x->about;
    link_last(ld, x);
}

/* Drops extents that the last stretch did not need, oldest first; then some that it did need,
 * newest first: if every stretch needs all of them, the remaining ones serve the next stretch. */
static void let_some_go(struct stk_loader *ld, size_t most)
{
    struct shared *next;
    for (struct shared *x = ld->kept.oldest; x && x->met != ld->nbuilt; x = next) {
        next = x->newer;
        if (ld->kept.bytes > most)
            let_go(ld, x);
    }
    size_t i = 0;
    for (struct shared *x = ld->kept.newest; x && ld->kept.bytes > most; x = next, i++) {
        next = x->older;
        if (i >= ld->kept.last)
            let_go(ld, x);
    }
}

void stk_kept_trim(struct stk_loader *ld, size_t most)
{
    struct shared *newer;
    pthread_mutex_lock(&ld->lock);
    let_some_go(ld, most);
    for (struct shared *x = ld->kept.oldest; x; x = newer) {
        newer = x->newer;
        if (x->done && x->code) /* the next stretch that needs it may succeed */
            let_go(ld, x);
    }
    pthread_mutex_unlock(&ld->lock);
}

void stk_kept_release(struct stk_loader *ld)
{
    while (ld->kept.oldest)
        let_go(ld, ld->kept.oldest);
    (void)stk_shared_give_up(ld);
}
