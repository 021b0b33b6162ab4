/*
 * links.c - a list of hashed names that is sorted at the first lookup, and again after many
 * additions: most archives have no links, and pay only an append per member.
 */
#include "format/tar/links.h"
#include "base/array.h"
#include "base/hash.h"

#include <stdlib.h>

#define TAIL_MAX 64 /* minimum number of unsorted entries to scan */

static int by_hash(const void *a, const void *b)
{
    const struct stk_tar_place *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->at > y->at) - (x->at < y->at);
}

int stk_tar_links_add(struct stk_tar_links *k, const char *name, size_t name_len, uint64_t at,
                      uint64_t len, struct stk_err *err)
{
    if (k->n == STK_TAR_LINKABLE)
        return 0;
    if (STK_ARRAY_ROOM(k->item, k->cap, k->n + 1, err))
        return STK_E_NOMEM;
    k->item[k->n++] =
        (struct stk_tar_place){.hash = stk_hash64(name, name_len), .at = at, .len = len};
    return 0;
}

/* The last sorted entry with that hash. */
static const struct stk_tar_place *find_sorted(const struct stk_tar_links *k, uint64_t hash)
{
    size_t lo = 0, hi = k->sorted; /* the first with a greater hash */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k->item[mid].hash <= hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && k->item[lo - 1].hash == hash ? &k->item[lo - 1] : NULL;
}

const struct stk_tar_place *stk_tar_links_find(struct stk_tar_links *k, const char *name,
                                               size_t name_len)
{
    const struct stk_tar_place *found = NULL;
    uint64_t hash = stk_hash64(name, name_len);
    if (k->n - k->sorted > TAIL_MAX + k->sorted / 8) {
        qsort(k->item, k->n, sizeof *k->item, by_hash);
        k->sorted = k->n;
    }
    for (size_t i = k->n; i > k->sorted && !found; i--)
        found = k->item[i - 1].hash == hash ? &k->item[i - 1] : NULL;
    found = found ? found : find_sorted(k, hash);
    return found && found->len != STK_TAR_NO_DATA ? found : NULL;
}

void stk_tar_links_release(struct stk_tar_links *k)
{
    free(k->item);
    *k = (struct stk_tar_links){0};
}
