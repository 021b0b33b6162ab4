/*
 * cover.c - which bytes several readers read together: exact ranges while they are few, a sample of
 * the file when they are many (proflog/cover.h). An estimate is marked as such. Also counts what a
 * HyperLogLog sketch saw.
 */
#include "profile/priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A damaged log may hold any range: those that make no sense are skipped. */
size_t stk_cover_spans(const struct stk_cover *c, struct stk_byte_range *out)
{
    uint32_t n = c->nspans < STK_COVER_SPANS ? c->nspans : STK_COVER_SPANS;
    size_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (c->span[i].from < c->span[i].to)
            out[kept++] = (struct stk_byte_range){c->span[i].from, c->span[i].to};
    return kept;
}

static int by_start(const void *a, const void *b)
{
    const struct stk_byte_range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

size_t stk_spans_join(struct stk_byte_range *s, size_t n)
{
    size_t kept = 0;
    if (n)
        qsort(s, n, sizeof *s, by_start);
    for (size_t i = 0; i < n; i++) {
        if (kept && s[i].from <= s[kept - 1].to)
            s[kept - 1].to = s[i].to > s[kept - 1].to ? s[i].to : s[kept - 1].to;
        else
            s[kept++] = s[i];
    }
    return kept;
}

uint64_t stk_spans_bytes(const struct stk_byte_range *s, size_t n)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += s[i].to - s[i].from; /* disjoint: the sum is below 2^64 */
    return bytes;
}

/* The sample of the higher level of both. */
static void add_sample(struct stk_cover *to, const struct stk_cover *from)
{
    uint32_t level = from->level < STK_COVER_TOP ? from->level : STK_COVER_TOP;
    while (to->level < level)
        stk_cover_rise(to);
    for (size_t i = 0; i < STK_COVER_SLOTS; i++)
        if (from->line[i].bits && (from->line[i].key & 63) >= to->level)
            stk_cover_add_line(to, from->line[i].key, from->line[i].bits);
}

void stk_cover_add(struct stk_cover *to, const struct stk_cover *from)
{
    struct stk_byte_range all[2 * STK_COVER_SPANS];
    size_t n = stk_cover_spans(to, all);
    n += stk_cover_spans(from, all + n);
    n = stk_spans_join(all, n);
    to->overflow = to->overflow || from->overflow || n > STK_COVER_SPANS;
    to->nspans = (uint32_t)(n < STK_COVER_SPANS ? n : STK_COVER_SPANS);
    for (uint32_t i = 0; i < to->nspans; i++) {
        to->span[i].from = all[i].from;
        to->span[i].to = all[i].to;
    }
    add_sample(to, from);
}

/* x + sum of x^(2^k) 2^(k-1): the contribution of the empty registers. */
static double sigma(double x)
{
    double y = 1, z = x, last;
    if (x >= 1)
        return INFINITY;
    do {
        x *= x;
        last = z;
        z += x * y;
        y += y;
    } while (z > last);
    return z;
}

/*
 * HyperLogLog with the estimator of Ertl (2017, "New cardinality estimation algorithms for
 * HyperLogLog sketches", algorithm 6): unbiased from 0 to 2^50, so that the few hundred requests of
 * a small file are as accurate as the millions of a large one.
 */
double stk_sketch_count(const uint8_t *reg, size_t m)
{
    double z = 0;
    size_t empty = 0;
    for (size_t i = 0; i < m; i++) {
        if (reg[i])
            z += ldexp(1, -(int)reg[i]);
        else
            empty++;
    }
    if (empty == m)
        return 0;
    double size = (double)m;
    return size * size / (2 * M_LN2 * (size * sigma((double)empty / size) + z));
}

/* Bytes in the sample, times its level. */
static double sampled(const struct stk_cover *c)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < STK_COVER_SLOTS; i++)
        bits += (uint32_t)__builtin_popcount(c->line[i].bits);
    return ldexp(bits, (int)(c->level < STK_COVER_TOP ? c->level : STK_COVER_TOP));
}

uint64_t stk_cover_bytes(const struct stk_cover *c, uint64_t read_bytes, uint64_t file_size,
                         bool *exact)
{
    struct stk_byte_range all[STK_COVER_SPANS];
    size_t n = stk_spans_join(all, stk_cover_spans(c, all));
    uint64_t sure = stk_spans_bytes(all, n);
    *exact = !c->overflow;
    if (!c->overflow)
        return sure;
    double guess = sampled(c);
    uint64_t most = file_size && file_size < read_bytes ? file_size : read_bytes;
    uint64_t bytes = guess < (double)most ? (uint64_t)guess : most;
    return bytes > sure ? bytes : sure;
}

/* ---- threads that read the same -------------------------------------------------------------- */

/* Threads of one process that each read everything the process read, at the same time: their
 * passes over the data are no epochs. A slot stands for the threads that used it one after the
 * other. */

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
