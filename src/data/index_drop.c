/* index_drop.c - the oldest pages of a large index make way for new ones. */
#include "data/index_drop.h"
#include "base/file.h"
#include "base/hash.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define STRIPES   16         /* so that threads do not wait for each other's cache lines */
#define SMALL     (4u << 20) /* an index up to that stays whole */
#define PAGE      4096u
#define PER_BLOCK (STK_INDEX_BLOCK / PAGE)

/* Tables that grow with the samples, and whose entries are copied by whoever looks at them. */
static const enum stk_table droppable[] = {STK_T_EXTENTS, STK_T_ROWS, STK_T_PARTS, STK_T_KEYOFF,
                                           STK_T_CHECKS};

enum { HERE, GONE, COMING }; /* stk_drop.page, once its block was there */

struct stripe {
    _Alignas(64) _Atomic uint32_t holders;
};

struct stk_drop {
    struct stripe stripe[STRIPES];
    _Alignas(64) _Atomic bool dropping;
    _Atomic uint64_t most;    /* pages there may be... */
    _Atomic uint64_t present; /* ...and are */
    uint64_t npages;
    _Atomic uint8_t *page;
    _Atomic uint64_t *sum; /* of each page that was there once */
    pthread_mutex_t lock;  /* the rest */
    uint32_t *queue;       /* a ring of those present, by age */
    uint64_t first;
};

int stk_drop_new(struct stk_index *idx, struct stk_err *err)
{
    uint64_t n = stk_index_count(idx, STK_T_SUMS) * PER_BLOCK;
    if (idx->size <= SMALL || n > UINT32_MAX || sysconf(_SC_PAGESIZE) != PAGE)
        return 0;
    struct stk_drop *d = aligned_alloc(_Alignof(struct stk_drop), sizeof *d);
    if (!d)
        return stk_err_nomem(err, sizeof *d);
    *d = (struct stk_drop){.most = UINT64_MAX, .npages = n};
    d->page = calloc(n, sizeof *d->page);
    d->sum = calloc(n, sizeof *d->sum);
    d->queue = calloc(n, sizeof *d->queue);
    pthread_mutex_init(&d->lock, NULL);
    idx->drop = d;
    return d->page && d->sum && d->queue ? 0 : stk_err_nomem(err, n * sizeof *d->sum);
}

void stk_drop_free(struct stk_drop *d)
{
    if (!d)
        return;
    pthread_mutex_destroy(&d->lock);
    free((void *)(uintptr_t)d->page);
    free((void *)(uintptr_t)d->sum);
    free(d->queue);
    free(d);
}

static uint8_t *page_at(const struct stk_index *idx, uint64_t p)
{
    return (uint8_t *)(uintptr_t)idx->h + STK_INDEX_TABLES + p * PAGE;
}

void stk_index_limit(struct stk_index *idx, uint64_t bytes)
{
    if (!idx->drop || idx->size <= bytes)
        return;
    (void)madvise(page_at(idx, 0), idx->drop->npages * PAGE, MADV_NOHUGEPAGE);
    uint64_t most = (bytes > SMALL ? bytes : SMALL) / PAGE, now = atomic_load(&idx->drop->most);
    while (most < now && !atomic_compare_exchange_weak(&idx->drop->most, &now, most))
        ;
}

/* ---- who looks ---- */

static _Atomic uint32_t *my_stripe(struct stk_drop *d)
{
    static _Atomic unsigned threads;
    static _Thread_local unsigned mine; /* + 1 */
    if (!mine)
        mine = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % STRIPES + 1;
    return &d->stripe[mine - 1].holders;
}

/* In a child after fork() whoever dropped pages, or held them, may not be there: it drops none. */
static bool is_ours(const struct stk_index *idx)
{
    return idx->pid == getpid();
}

void stk_drop_hold_large(const struct stk_index *idx)
{
    _Atomic uint32_t *holders = my_stripe(idx->drop);
    for (;;) {
        atomic_fetch_add(holders, 1);
        if (!atomic_load(&idx->drop->dropping) || !is_ours(idx))
            return;
        atomic_fetch_sub(holders, 1);
        sched_yield();
    }
}

/* ---- pages that come ---- */

static bool may_be_dropped(const struct stk_index *idx, uint64_t b)
{
    uint64_t from = STK_INDEX_TABLES + b * STK_INDEX_BLOCK, to = from + STK_INDEX_BLOCK;
    for (size_t i = 0; i < sizeof droppable / sizeof *droppable; i++) {
        enum stk_table t = droppable[i];
        uint64_t off = idx->h->table[t].off;
        if (from >= off && to <= off + idx->h->table[t].count * idx->h->table[t].elem)
            return true;
    }
    return false;
}

/* They will be the first to go when all that are there now have gone. */
static void enqueue(const struct stk_index *idx, uint64_t p, uint64_t n)
{
    struct stk_drop *d = idx->drop;
    if (!is_ours(idx)) /* nor may the lock be free */
        return;
    pthread_mutex_lock(&d->lock);
    for (uint64_t i = 0; i < n; i++)
        d->queue[(d->first + d->present++) % d->npages] = (uint32_t)(p + i);
    pthread_mutex_unlock(&d->lock);
}

void stk_drop_brought_large(const struct stk_index *idx, uint64_t b, const uint8_t *bytes)
{
    if (!may_be_dropped(idx, b))
        return;
    for (uint64_t i = 0; i < PER_BLOCK; i++)
        atomic_store_explicit(&idx->drop->sum[b * PER_BLOCK + i],
                              stk_hash64(bytes + i * PAGE, PAGE), memory_order_relaxed);
    enqueue(idx, b * PER_BLOCK, PER_BLOCK);
}

/* As with blocks: who comes second waits for the first. */
static void put_page(const struct stk_index *idx, uint64_t p, const uint8_t *bytes)
{
    _Atomic uint8_t *state = &idx->drop->page[p];
    uint8_t was = GONE;
    bool mine = atomic_compare_exchange_strong(state, &was, COMING);
    while (!mine && was == COMING) {
        mine = !is_ours(idx);
        sched_yield();
        was = atomic_load_explicit(state, memory_order_acquire);
    }
    if (!mine || was == HERE)
        return;
    memcpy(page_at(idx, p), bytes, PAGE);
    atomic_store_explicit(state, HERE, memory_order_release);
    enqueue(idx, p, 1);
}

static int bring_page(const struct stk_index *idx, uint64_t p, struct stk_err *err)
{
    uint8_t bytes[PAGE];
    size_t got;
    uint64_t off = STK_INDEX_TABLES + p * PAGE;
    int rc = stk_pread_full(idx->fd, bytes, PAGE, off, &got, idx->path, err);
    if (rc == 0 && (got < PAGE || stk_hash64(bytes, PAGE) != idx->drop->sum[p]))
        rc = stk_err_set(err, STK_E_STALE, idx->path, (int64_t)off,
                         "the index was changed while it was in use");
    if (rc == 0)
        put_page(idx, p, bytes);
    return rc;
}

int stk_drop_look_large(const struct stk_index *idx, uint64_t at, uint64_t n, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t p = at / PAGE; rc == 0 && p <= (at + n - 1) / PAGE; p++)
        if (atomic_load_explicit(&idx->drop->page[p], memory_order_acquire) != HERE)
            rc = bring_page(idx, p, err);
    return rc;
}

/* ---- pages that go ---- */

static void wait_for_holders(struct stk_drop *d)
{
    for (size_t i = 0; i < STRIPES; i++)
        while (atomic_load(&d->stripe[i].holders))
            sched_yield();
}

/* The oldest page, and those that came with it. Returns how many. */
static uint64_t drop_oldest(const struct stk_index *idx, struct stk_drop *d)
{
    uint64_t p = d->queue[d->first], n = 0;
    do {
        d->first = (d->first + 1) % d->npages;
        atomic_store_explicit(&d->page[p + n], GONE, memory_order_relaxed);
        n++;
    } while (n < d->present && n < PER_BLOCK && d->queue[d->first] == p + n);
    (void)madvise(page_at(idx, p), n * PAGE, MADV_DONTNEED);
    return n;
}

void stk_drop_let_go_large(const struct stk_index *idx)
{
    struct stk_drop *d = idx->drop;
    atomic_fetch_sub(my_stripe(d), 1);
    uint64_t most = atomic_load_explicit(&d->most, memory_order_relaxed);
    if (atomic_load_explicit(&d->present, memory_order_relaxed) <= most || !is_ours(idx) ||
        atomic_exchange(&d->dropping, true)) /* somebody else does it */
        return;
    wait_for_holders(d);
    pthread_mutex_lock(&d->lock);
    while (d->present > most - most / 8) /* some at a time: everybody waits for it */
        d->present -= drop_oldest(idx, d);
    pthread_mutex_unlock(&d->lock);
    atomic_store(&d->dropping, false);
}
