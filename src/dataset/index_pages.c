/* index_pages.c - loads and drops pages of an index. */
#include "dataset/priv.h"
#include "base/file.h"
#include "base/hash.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BITS_LEAST   12
#define BITS_MOST    16 /* of a block */
#define DROP_AT_ONCE 64 /* pages: a thread that needs one of them waits */

_Static_assert(1u << BITS_MOST == STK_INDEX_BLOCK, "a page is no larger than a block");

int stk_index_bad(const struct stk_index *idx, struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_CORRUPT, idx->path, -1,
                       "damaged index (%s); remove it, and stoker builds a new one", what);
}

int stk_index_read(const struct stk_index *idx, void *to, uint64_t off, uint64_t n,
                   struct stk_err *err)
{
    size_t got;
    int rc = stk_pread_full(idx->fd, to, (size_t)n, off, &got, idx->path, err);
    if (rc == 0 && got < n)
        rc = stk_err_set(err, STK_E_STALE, idx->path, (int64_t)(off + got),
                         "the index became shorter");
    return rc;
}

int stk_pages_new(struct stk_index *idx, struct stk_err *err)
{
    struct stk_index_pages *pg = calloc(1, sizeof *pg);
    if (!pg)
        return stk_err_nomem(err, sizeof *pg);
    idx->pages = pg;
    pg->bits = BITS_LEAST;
    while (pg->bits < BITS_MOST && 1l << pg->bits < sysconf(_SC_PAGESIZE))
        pg->bits++;
    pg->count = (stk_index_summed(idx) + (1u << pg->bits) - 1) >> pg->bits;
    pg->state = calloc(pg->count + 1, sizeof *pg->state);
    return pg->state ? 0 : stk_err_nomem(err, pg->count);
}

void stk_pages_free(struct stk_index_pages *pg)
{
    if (!pg)
        return;
    free((void *)(uintptr_t)pg->state);
    free((void *)(uintptr_t)atomic_load(&pg->sum));
    free(pg);
}

static uint8_t *page_at(const struct stk_index *idx, uint64_t page)
{
    return (uint8_t *)(uintptr_t)idx->h + STK_INDEX_TABLES + (page << idx->pages->bits);
}

/* ---- loading ---- */

/* The state of a page that no thread is loading. After fork() the loading thread may be missing in
 * the child: COMING. */
static uint8_t settled(const struct stk_index *idx, uint64_t page)
{
    const _Atomic uint8_t *state = &idx->pages->state[page];
    uint8_t was = atomic_load_explicit(state, memory_order_acquire);
    while (was == STK_PAGE_COMING && idx->pid == getpid()) {
        sched_yield();
        was = atomic_load_explicit(state, memory_order_acquire);
    }
    return was;
}

/* A thread that copies from it meanwhile has seen that it was dropped, or sees it after copying any
 * of these words. */
static void put_page(const struct stk_index *idx, uint64_t page, const uint8_t *from, size_t n)
{
    struct stk_index_pages *pg = idx->pages;
    uint64_t *to = (void *)page_at(idx, page), word;
    uint8_t was = settled(idx, page);
    while (was < STK_PAGE_HERE && was != STK_PAGE_COMING &&
           !atomic_compare_exchange_strong(&pg->state[page], &was, STK_PAGE_COMING))
        was = settled(idx, page);
    if (was >= STK_PAGE_HERE)
        return;
    for (size_t i = 0; i < n / sizeof word; i++) {
        memcpy(&word, from + i * sizeof word, sizeof word);
        __atomic_store_n(to + i, word, __ATOMIC_RELEASE);
    }
    atomic_fetch_add_explicit(&pg->present, 1, memory_order_relaxed);
    atomic_store_explicit(&pg->state[page], STK_PAGE_FRESH, memory_order_release);
}

/* Loads [first page, n bytes) of the file, if it matches `sum`. */
static int bring_bytes(const struct stk_index *idx, uint64_t first, size_t n, uint64_t sum,
                       bool again, struct stk_err *err)
{
    size_t size = (size_t)1 << idx->pages->bits;
    uint64_t off = STK_INDEX_TABLES + first * size;
    uint8_t *bytes = malloc(n);
    if (!bytes)
        return stk_err_nomem(err, n);
    int rc = stk_index_read(idx, bytes, off, n, err);
    if (rc == 0 && stk_hash64(bytes, n) != sum)
        rc = again ? stk_err_set(err, STK_E_STALE, idx->path, (int64_t)off,
                                 "the index was changed while it was in use")
                   : stk_index_bad(idx, err, "a checksum does not match");
    for (size_t at = 0; rc == 0 && at < n; at += size)
        put_page(idx, first + at / size, bytes + at, n - at < size ? n - at : size);
    free(bytes);
    return rc;
}

int stk_pages_bring(const struct stk_index *idx, uint64_t page, struct stk_err *err)
{
    const struct stk_index_pages *pg = idx->pages;
    const uint64_t *block_sum = idx->table[STK_T_SUMS];
    uint64_t per_block = STK_INDEX_BLOCK >> pg->bits, b = page / per_block;
    uint8_t was = settled(idx, page);
    if (was >= STK_PAGE_HERE)
        return 0;
    if (was == STK_PAGE_GONE)
        return bring_bytes(idx, page, (size_t)1 << pg->bits, atomic_load(&pg->sum)[page], true,
                           err);
    return bring_bytes(idx, b * per_block, stk_index_block_size(idx, b), block_sum[b], false, err);
}

/* ---- dropping ---- */

int stk_index_limit(const struct stk_index *idx, struct stk_err *err)
{
    struct stk_index_pages *pg = idx->pages;
    _Atomic uint64_t *none = NULL;
    if (atomic_load(&pg->sum) || sysconf(_SC_PAGESIZE) != 1l << pg->bits)
        return 0; /* pages are larger than blocks: all stay */
    _Atomic uint64_t *sum = calloc(pg->count + 1, sizeof *sum);
    if (!sum)
        return stk_err_nomem(err, pg->count * sizeof *sum);
    /* Parts of a huge page cannot be dropped. */
    (void)madvise(page_at(idx, 0), pg->count << pg->bits, MADV_NOHUGEPAGE);
    if (!atomic_compare_exchange_strong(&pg->sum, &none, sum))
        free((void *)(uintptr_t)sum); /* another loader was faster */
    return 0;
}

/* True if the whole page belongs to a table whose entries are copied by their readers. */
static bool may_go(const struct stk_index *idx, uint64_t page)
{
    static const enum stk_table copied[] = {STK_T_EXTENTS, STK_T_ROWS, STK_T_PARTS, STK_T_KEYOFF,
                                            STK_T_CHECKS};
    uint64_t from = STK_INDEX_TABLES + (page << idx->pages->bits);
    uint64_t to = from + (1ull << idx->pages->bits);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        uint64_t off = idx->h->table[copied[i]].off;
        if (from >= off &&
            to <= off + idx->h->table[copied[i]].count * idx->h->table[copied[i]].elem)
            return true;
    }
    return false;
}

/* False: it stays for now. */
static bool take_away(const struct stk_index *idx, uint64_t page)
{
    struct stk_index_pages *pg = idx->pages;
    uint8_t is = atomic_load_explicit(&pg->state[page], memory_order_acquire);
    if (is < STK_PAGE_HERE || !may_go(idx, page))
        return false;
    if (is == STK_PAGE_HERE) {
        atomic_load(&pg->sum)[page] = stk_hash64(page_at(idx, page), (size_t)1 << pg->bits);
        is = STK_PAGE_COMING;
    } else {
        is = STK_PAGE_HERE; /* when the hand returns */
    }
    atomic_store_explicit(&pg->state[page], is, memory_order_release);
    return is == STK_PAGE_COMING;
}

/* Drops the pages at the hand, and moves it. Returns the number of pages it passed, at most
 * `most`. */
static uint64_t drop_some(const struct stk_index *idx, uint64_t most)
{
    struct stk_index_pages *pg = idx->pages;
    uint64_t first = pg->hand, n = 0;
    most = most < DROP_AT_ONCE ? most : DROP_AT_ONCE;
    while (n < most && first + n < pg->count && take_away(idx, first + n))
        n++;
    pg->hand = (first + (n ? n : 1)) % pg->count;
    if (!n)
        return 1;
    /* Readers of these pages are notified before the pages are dropped, and before they can be
     * loaded again. */
    atomic_fetch_add(&pg->drops, 1);
    (void)madvise(page_at(idx, first), n << pg->bits, MADV_DONTNEED);
    atomic_fetch_sub(&pg->present, n);
    for (uint64_t i = 0; i < n; i++)
        atomic_store_explicit(&pg->state[first + i], STK_PAGE_GONE, memory_order_release);
    return n;
}

void stk_index_trim(const struct stk_index *idx, uint64_t most)
{
    struct stk_index_pages *pg = idx->pages;
    uint64_t pages = most >> pg->bits, left = pg->count;
    /* After fork() the dropping thread may be missing in the child. */
    if (atomic_load_explicit(&pg->present, memory_order_relaxed) <= pages ||
        !atomic_load(&pg->sum) || idx->pid != getpid() || atomic_exchange(&pg->dropping, true))
        return;
    while (left && atomic_load(&pg->present) > pages - pages / 8)
        left -= drop_some(idx, left);
    atomic_store(&pg->dropping, false);
}
