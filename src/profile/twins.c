/*
 * twins.c - threads of one process that each read everything the process read, at the same time:
 * their passes over the data are no epochs. A slot stands for the threads that used it one after
 * the other.
 */
#include "profile/priv.h"

#include <stdlib.h>

#define SLOTS_MOST 4096u
#define WHOLE      0.9 /* of what the process read; the sketch's error is 6.5 % */

int stk_pb_slot(struct stk_pb_slots *s, uint32_t slot, const struct stk_log_record *r,
                struct stk_err *err)
{
    const uint64_t *c = r->n.c;
    bool exact;
    if (slot >= SLOTS_MOST || !stk_api_moves(r->api) || !c[STK_C_READS])
        return 0;
    int rc = STK_ARRAY_ROOM(s->of, s->room, (size_t)slot + 1, err);
    if (rc)
        return rc;
    for (; s->n <= slot; s->n++)
        s->of[s->n] = (struct stk_pb_slot){.first_ns = UINT64_MAX};
    struct stk_pb_slot *to = &s->of[slot];
    uint64_t size = r->group ? 0 : c[STK_C_FILE_SIZE];
    uint64_t bytes = stk_cover_bytes(&r->read, c[STK_C_READ_BYTES], size, &exact);
    if (__builtin_add_overflow(to->distinct_bytes, bytes, &to->distinct_bytes))
        to->distinct_bytes = UINT64_MAX;
    to->first_ns = c[STK_C_FIRST_READ_NS] < to->first_ns ? c[STK_C_FIRST_READ_NS] : to->first_ns;
    to->last_ns = c[STK_C_LAST_READ_NS] > to->last_ns ? c[STK_C_LAST_READ_NS] : to->last_ns;
    return 0;
}

int stk_pb_slots_keep(struct stk_pb *pb, const struct stk_pb_slots *s, struct stk_err *err)
{
    struct stk_pb_proc *x = &pb->proc[pb->p->nprocs - 1];
    if (s->n < 2)
        return 0;
    x->slot = stk_arena_alloc(&pb->temp, s->n * sizeof *s->of);
    if (!x->slot)
        return stk_err_nomem(err, s->n * sizeof *s->of);
    memcpy(x->slot, s->of, s->n * sizeof *s->of);
    x->nslots = (uint32_t)s->n;
    return 0;
}

/* The largest number of them that read all of it at one moment. */
static uint32_t at_once(const struct stk_pb_slot *s, uint32_t n, double all)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t now = 0;
        for (uint32_t k = 0; k < n && (double)s[i].distinct_bytes >= WHOLE * all; k++)
            now += (double)s[k].distinct_bytes >= WHOLE * all && s[k].first_ns <= s[i].first_ns &&
                   s[i].first_ns < s[k].last_ns;
        most = now > most ? now : most;
    }
    return most;
}

int stk_pb_twins(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    double *all = stk_arena_alloc(&pb->temp, (p->nprocs + 1) * sizeof *all);
    if (!all)
        return stk_err_nomem(err, p->nprocs * sizeof *all);
    memset(all, 0, (p->nprocs + 1) * sizeof *all);
    for (size_t i = 0; i < p->nrecs; i++)
        if (stk_api_moves(p->rec[i].api))
            all[p->rec[i].proc] += (double)p->rec[i].distinct_bytes;
    for (size_t i = 0; i < p->nprocs; i++)
        p->proc[i].twins = all[i] > 0 ? at_once(pb->proc[i].slot, pb->proc[i].nslots, all[i]) : 1;
    return 0;
}
