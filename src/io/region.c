/*
 * region.c - read buffers: mapped memory, in huge pages if available, registered with the engine so
 * that the kernel need not pin it for every read.
 */
#include "io/io.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HUGE  (2u << 20)
#define SMALL (64u << 10)
#define PAGE  (4u << 10) /* or more */

void stk_regions_init(struct stk_regions *r, struct stk_io *io, size_t size, size_t budget)
{
    *r = (struct stk_regions){.io = io, .size = size, .budget = budget};
    pthread_mutex_init(&r->lock, NULL);
}

static void destroy(struct stk_regions *r, struct stk_region *g)
{
    if (g->segment >= 0)
        stk_io_unregister(r->io, g->segment);
    munmap(g->p, g->size);
    free(g);
}

void stk_regions_release(struct stk_regions *r)
{
    while (r->idle) {
        struct stk_region *g = r->idle;
        r->idle = g->next;
        destroy(r, g);
    }
    pthread_mutex_destroy(&r->lock);
}

/* Makes the memory resident, by this thread alone. If many threads read into fresh memory at once,
 * each that faults in the same huge page takes one of its own first (2 MiB that nobody counted) and
 * returns it when another thread was quicker: 32 of them can exceed the limit of a job. */
static void populate(volatile uint8_t *p, size_t size)
{
    for (size_t at = 0; at < size; at += PAGE)
        p[at] = 0;
}

static struct stk_region *make(struct stk_regions *r, size_t size)
{
    struct stk_region *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->size = size;
    g->p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g->p == MAP_FAILED) {
        free(g);
        return NULL;
    }
    if (size >= HUGE)
        madvise(g->p, size, MADV_HUGEPAGE); /* fewer faults, fewer pages to pin; optional */
    g->segment = stk_io_register(r->io, g->p, size);
    if (size >= HUGE && g->segment < 0)
        populate(g->p, size);
    return g;
}

/* Unlinks the first idle region of at least `need` bytes. */
static struct stk_region *find(struct stk_regions *r, size_t need)
{
    for (struct stk_region **at = &r->idle; *at; at = &(*at)->next) {
        struct stk_region *g = *at;
        if (g->size >= need) {
            *at = g->next;
            return g;
        }
    }
    return NULL;
}

static size_t size_for(const struct stk_regions *r, size_t need)
{
    /* A small region stays small: registered memory is resident even if unused. */
    size_t size = need > r->size || need < r->size / 4 ? need : r->size;
    size_t unit = size >= 4 * (size_t)HUGE ? HUGE : SMALL;
    return (size + unit - 1) / unit * unit;
}

/* Returns idle regions until `bytes` more fit, or none is left. With the lock held: what is counted
 * as free must be free, or another thread fills it while this one still has it. */
static void make_way(struct stk_regions *r, size_t bytes)
{
    while (r->idle && r->total + r->charged + bytes > r->budget) {
        struct stk_region *g = r->idle;
        r->idle = g->next;
        r->total -= g->size;
        destroy(r, g);
    }
}

static void note_peak(struct stk_regions *r)
{
    size_t now = r->total + r->charged;
    r->peak = now > r->peak ? now : r->peak;
}

struct stk_region *stk_region_take(struct stk_regions *r, size_t need, bool over, bool *nomem)
{
    *nomem = false;
    pthread_mutex_lock(&r->lock);
    struct stk_region *g = find(r, need);
    if (g) {
        pthread_mutex_unlock(&r->lock);
        return g;
    }
    /* A stretch that needs more than usual gets a larger region, which stays; others make room for
     * it. */
    size_t size = size_for(r, need);
    make_way(r, size);
    bool allowed = over || r->total + r->charged + size <= r->budget || r->total == 0;
    if (allowed)
        r->total += size;
    note_peak(r);
    pthread_mutex_unlock(&r->lock);
    if (!allowed)
        return NULL;
    g = make(r, size);
    if (!g) {
        *nomem = true;
        pthread_mutex_lock(&r->lock);
        r->total -= size;
        pthread_mutex_unlock(&r->lock);
    }
    return g;
}

bool stk_regions_charge(struct stk_regions *r, size_t bytes, bool over)
{
    pthread_mutex_lock(&r->lock);
    make_way(r, bytes);
    bool allowed = over || r->total + r->charged + bytes <= r->budget;
    if (allowed)
        r->charged += bytes;
    note_peak(r);
    pthread_mutex_unlock(&r->lock);
    return allowed;
}

void stk_regions_uncharge(struct stk_regions *r, size_t bytes)
{
    pthread_mutex_lock(&r->lock);
    r->charged -= bytes;
    pthread_mutex_unlock(&r->lock);
}

bool stk_regions_tight(struct stk_regions *r)
{
    pthread_mutex_lock(&r->lock);
    bool tight = r->total + r->charged > r->budget / 2;
    pthread_mutex_unlock(&r->lock);
    return tight;
}

void stk_region_give(struct stk_regions *r, struct stk_region *g)
{
    pthread_mutex_lock(&r->lock);
    bool keep = r->total + r->charged <= r->budget;
    if (keep) {
        g->next = r->idle;
        r->idle = g;
    } else {
        r->total -= g->size;
        destroy(r, g);
    }
    pthread_mutex_unlock(&r->lock);
}

size_t stk_regions_peak(struct stk_regions *r)
{
    pthread_mutex_lock(&r->lock);
    size_t peak = r->peak;
    pthread_mutex_unlock(&r->lock);
    return peak;
}
