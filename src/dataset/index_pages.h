/*
 * index_pages.h - which pages of an index are in memory. The blocks they are in are brought in when
 * they are first looked at, and compared with their checksums.
 *
 * Where memory is limited, pages of the tables that are only ever copied from are dropped again,
 * and read anew when they are looked at: they must be what they were. Whoever copies takes no lock
 * for that. He copies, and once more where pages were dropped meanwhile; one that goes while he
 * looks at it is zeros at worst.
 */
#ifndef STK_DATASET_INDEX_PAGES_H
#define STK_DATASET_INDEX_PAGES_H

#include "dataset/index.h"

/* COMING: somebody writes to it, or drops it. FRESH: it came since the last look for old ones. */
enum stk_page { STK_PAGE_ABSENT, STK_PAGE_COMING, STK_PAGE_GONE, STK_PAGE_HERE, STK_PAGE_FRESH };

struct stk_index_pages {
    unsigned bits; /* a page has 1 << bits bytes */
    uint64_t count;
    _Atomic uint8_t *state;          /* enum stk_page of each */
    _Atomic uint64_t present;        /* pages that are in memory */
    _Atomic uint64_t drops;          /* how often some were dropped */
    _Atomic(_Atomic uint64_t *) sum; /* of each that was dropped; NULL: none will be */
    _Atomic bool dropping;           /* somebody does it; the next is his: */
    uint64_t hand;                   /* where to look for old ones next */
};

/* In front of the header, so that the tables begin with a page. */
#define STK_INDEX_LEAD (STK_INDEX_BLOCK - STK_INDEX_TABLES)

/* For an index whose checksums are there. Caller frees with stk_pages_free(). */
int stk_pages_new(struct stk_index *idx, struct stk_err *err);
void stk_pages_free(struct stk_index_pages *pg);
/* Brings a page in, with its block. */
int stk_pages_bring(const struct stk_index *idx, uint64_t page, struct stk_err *err);

/* Bytes under the checksums, and those of block b: all are of one size but the last. */
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

/* Every entry goes through here before it is believed. [p, p + n) is in a table. */
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
