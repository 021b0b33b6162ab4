/*
 * index_pages.h - which pages of an index are in memory. Blocks are loaded at their first use, and
 * compared with their checksums.
 *
 * If memory is limited, pages of tables whose entries are only copied are dropped, and read again
 * at their next use: they must be unchanged. A reader that copies takes no lock. It copies, and
 * copies again if pages were dropped meanwhile; a page that is dropped under it reads as zeros at
 * worst.
 */
#ifndef STK_DATASET_INDEX_PAGES_H
#define STK_DATASET_INDEX_PAGES_H

#include "dataset/index.h"

/* COMING: a thread loads or drops it. FRESH: loaded since the last search for old pages. */
enum stk_page { STK_PAGE_ABSENT, STK_PAGE_COMING, STK_PAGE_GONE, STK_PAGE_HERE, STK_PAGE_FRESH };

struct stk_index_pages {
    unsigned bits; /* a page has 1 << bits bytes */
    uint64_t count;
    _Atomic uint8_t *state;          /* enum stk_page of each */
    _Atomic uint64_t present;        /* pages that are in memory */
    _Atomic uint64_t drops;          /* how often pages were dropped */
    _Atomic(_Atomic uint64_t *) sum; /* of each page that was dropped; NULL: none will be */
    _Atomic bool dropping;           /* a thread is dropping; only that thread uses the next field: */
    uint64_t hand;                   /* where the next search for old pages begins */
};

/* Before the header, so that the tables begin with a page. */
#define STK_INDEX_LEAD (STK_INDEX_BLOCK - STK_INDEX_TABLES)

/* For an index whose checksums are loaded. Caller frees with stk_pages_free(). */
int stk_pages_new(struct stk_index *idx, struct stk_err *err);
void stk_pages_free(struct stk_index_pages *pg);
/* Loads a page, with its block. */
int stk_pages_bring(const struct stk_index *idx, uint64_t page, struct stk_err *err);

/* Bytes under the checksums, and the bytes of block b: all blocks but the last have one size. */
static inline uint64_t stk_index_summed(const struct stk_index *idx)
{
    return idx->h->table[STK_T_SUMS].off - STK_INDEX_TABLES;
}
static inline size_t stk_index_block_size(const struct stk_index *idx, uint64_t b)
{
    uint64_t left = stk_index_summed(idx) - b * STK_INDEX_BLOCK;
    return left < STK_INDEX_BLOCK ? (size_t)left : STK_INDEX_BLOCK;
}

/* Reads [off, off + n) of the file. */
int stk_index_read(const struct stk_index *idx, void *to, uint64_t off, uint64_t n,
                   struct stk_err *err);
int stk_index_bad(const struct stk_index *idx, struct stk_err *err, const char *what);

/* Every entry goes through here before it is trusted. [p, p + n) is in a table. */
static inline int stk_pages_touch(const struct stk_index *idx, const void *p, uint64_t n,
                                  struct stk_err *err)
{
    const struct stk_index_pages *pg = idx->pages;
    if (!n)
        return 0;
    uint64_t at = (uint64_t)((const uint8_t *)p - (const uint8_t *)idx->h) - STK_INDEX_TABLES;
    for (uint64_t i = at >> pg->bits; i <= (at + n - 1) >> pg->bits; i++)
        if (atomic_load_explicit(&pg->state[i], memory_order_acquire) < STK_PAGE_HERE) {
            int rc = stk_pages_bring(idx, i, err);
            if (rc < 0)
                return rc;
        }
    return 0;
}

/* The same, and copies n words from p on. */
static inline int stk_pages_copy(const struct stk_index *idx, const uint64_t *p, size_t n,
                                 uint64_t *to, struct stk_err *err)
{
    const struct stk_index_pages *pg = idx->pages;
    uint64_t drops;
    do {
        drops = atomic_load_explicit(&pg->drops, memory_order_acquire);
        int rc = stk_pages_touch(idx, p, n * sizeof *p, err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i < n; i++)
            to[i] = __atomic_load_n(p + i, __ATOMIC_ACQUIRE);
    } while (atomic_load_explicit(&pg->drops, memory_order_relaxed) != drops);
    return 0;
}

#endif
