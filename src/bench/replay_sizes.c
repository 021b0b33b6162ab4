/* replay_sizes.c - see replay_sizes.h. */
#include "bench/replay_sizes.h"

#include <math.h>

#define TURN 0.6180339887498949 /* the golden ratio: its multiples are spread evenly */
#define OFF  0.01               /* of the bytes: sizes that are this far off are made to fit */

uint64_t stk_replay_part(uint64_t total, uint64_t per, uint64_t k)
{
    unsigned __int128 at = (unsigned __int128)k * total;
    return (uint64_t)((at + total) / per - at / per);
}

/* The kth point between 0 and 1. */
static double point(uint64_t k)
{
    double turn = (double)(k + 1) * TURN;
    return turn - floor(turn);
}

/* A size of the group's distribution; u: from 0 to 1, its quantile. */
static uint64_t draw(const struct stk_bench_group *g, double u)
{
    double left = u * (double)g->weight;
    size_t i = 0;
    while (i + 1 < g->ndrawn && left >= (double)g->drawn[i].count)
        left -= (double)g->drawn[i++].count;
    return g->drawn[i].bytes;
}

static uint64_t raw_size(const struct stk_replay_sizes *s, uint64_t i)
{
    if (!s->g->ndrawn && s->on)
        return stk_replay_part(s->g->bytes, s->g->requests, s->first + i);
    if (!s->g->ndrawn)
        return s->bytes / s->n + 1;
    return draw(s->g, s->on ? point(s->first + i) : ((double)i + s->shift) / (double)s->n);
}

struct stk_replay_sizes stk_replay_sizes(const struct stk_bench_group *g, uint64_t n,
                                         uint64_t bytes, uint64_t k)
{
    struct stk_replay_sizes s = {.g = g, .n = n, .bytes = bytes, .scale = 1, .shift = point(k)};
    for (uint64_t i = 0; i < s.n; i++)
        s.sum += raw_size(&s, i);
    uint64_t last = s.n ? raw_size(&s, s.n - 1) : 0;
    if (s.sum - last >= s.bytes) /* even without the largest it is too much */
        s.scale = s.sum ? (double)s.bytes / (double)s.sum : 0;
    return s;
}

/* Bytes of the group, divided by those that its sizes give. */
static double scale_of(const struct stk_bench_group *g)
{
    double sum = 0;
    for (size_t i = 0; i < g->ndrawn; i++)
        sum += (double)g->drawn[i].bytes * (double)g->drawn[i].count / (double)g->weight;
    double scale = g->bytes && sum > 0 ? (double)g->bytes / (double)g->requests / sum : 1;
    return fabs(scale - 1) > OFF ? scale : 1;
}

struct stk_replay_sizes stk_replay_sizes_on(const struct stk_bench_group *g, uint64_t n, uint64_t k)
{
    struct stk_replay_sizes s = {.g = g, .n = n, .on = true, .scale = scale_of(g)};
    s.first = (uint64_t)((unsigned __int128)k * g->requests / g->per);
    return s;
}

uint64_t stk_replay_size_at(const struct stk_replay_sizes *s, uint64_t i)
{
    uint64_t v = raw_size(s, i);
    if (s->on ? s->scale != 1 : s->scale < 1)
        v = (uint64_t)((double)v * s->scale);
    else if (!s->on && i + 1 == s->n)
        v = v + s->bytes - s->sum;
    v = v > STK_REQUEST_MAX ? STK_REQUEST_MAX : v;
    return v ? v : 1;
}
