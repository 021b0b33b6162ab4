/* lookup.c - a table of element numbers by hash: open addressing, at most half full. */
#include "base/lookup.h"

#include <stdlib.h>
#include <string.h>

#define LEAST 16u

struct stk_lookup_slot {
    uint32_t hash; /* enough bits to place the slot in a larger table: nslots < 2^33 */
    uint32_t item; /* from 1; 0: free */
};

static void place(struct stk_lookup_slot *slot, size_t nslots, struct stk_lookup_slot s)
{
    size_t at = s.hash & (nslots - 1);
    while (slot[at].item)
        at = (at + 1) & (nslots - 1);
    slot[at] = s;
}

static int grow(struct stk_lookup *t, struct stk_err *err)
{
    size_t n = t->nslots ? 2 * t->nslots : LEAST;
    struct stk_lookup_slot *slot = calloc(n, sizeof *slot);
    if (!slot)
        return stk_err_nomem(err, n * sizeof *slot);
    for (size_t i = 0; i < t->nslots; i++)
        if (t->slot[i].item)
            place(slot, n, t->slot[i]);
    free(t->slot);
    t->slot = slot;
    t->nslots = n;
    return 0;
}

int stk_lookup_add(struct stk_lookup *t, uint64_t hash, uint32_t item, struct stk_err *err)
{
    int rc = 2 * (t->n + 1) > t->nslots ? grow(t, err) : 0;
    if (rc)
        return rc;
    place(t->slot, t->nslots, (struct stk_lookup_slot){(uint32_t)hash, item + 1});
    t->n++;
    return 0;
}

bool stk_lookup_next(const struct stk_lookup *t, uint64_t hash, size_t *at, uint32_t *item)
{
    while (t->nslots) {
        const struct stk_lookup_slot *s = &t->slot[((uint32_t)hash + (*at)++) & (t->nslots - 1)];
        if (!s->item)
            break;
        *item = s->item - 1;
        if (s->hash == (uint32_t)hash)
            return true;
    }
    return false;
}

void stk_lookup_clear(struct stk_lookup *t)
{
    if (t->nslots)
        memset(t->slot, 0, t->nslots * sizeof *t->slot);
    t->n = 0;
}

void stk_lookup_release(struct stk_lookup *t)
{
    free(t->slot);
    *t = (struct stk_lookup){0};
}
