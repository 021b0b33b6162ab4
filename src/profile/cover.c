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
