/* cost.c - what a candidate costs: disk, memory, time once, epochs until that is saved, and how
 * much worse it mixes than a full shuffle. */
#include <math.h>

#include "load/options.h"
#include "stoker.h"
#include "tune/priv.h"

#define BLOCK_BYTES   STK_LOADER_BYTES(STK_LOADER_BLOCK_MIB)
#define WINDOW_BLOCKS (STK_LOADER_WINDOW_MIB / STK_LOADER_BLOCK_MIB)
#define LOOK_AT       (1u << 16)

/* The loader mixes blocks; a program that shuffled all samples loses a little by that. */
static double mixing(const struct stk_tune_subject *s)
{
    struct stk_order o;
    struct stk_mixing m;
    int shuffle = s->w.access.shuffle;
    bool whole = (shuffle == STK_MIX_SAMPLES || shuffle == STK_MIX_BOTH) &&
                 !stk_bench_is_stream(s->w.dataset.format);
    uint64_t n = s->w.dataset.files * s->w.dataset.samples_per_file;
    uint64_t each = n ? s->bytes / n + 1 : 1, block = BLOCK_BYTES / each;
    if (!whole || !n)
        return NAN;
    stk_order_init(&o, n, STK_SHUFFLE_BLOCK, 1, 0, block ? block : 1, WINDOW_BLOCKS);
    if (stk_mixing_measure(&o, s->w.training.batch, LOOK_AT, NULL, NULL, &m, NULL) != 0)
        return NAN;
    return m.spread_random > 0 ? fmin(m.spread / m.spread_random, 1) : NAN;
}

void stk_tune_cost(const struct stk_tuner *t, struct stk_tune_candidate *c)
{
    const struct stk_tune_subject *s = &t->s;
    double saved = t->out->candidate[0].epoch_s - c->epoch_s;
    c->once_s = 0;
    c->disk_bytes = c->memory_bytes = 0;
    for (size_t i = 0; i < c->nchanges; i++) {
        const struct stk_tune_change *x = &c->change[i];
        bool memory = x->where && s->near[x->near].fs->memory;
        c->memory_bytes += x->memory_bytes;
        if (!x->copy.path || isnan(x->copy.prepare_s))
            continue;
        c->once_s += x->copy.prepare_s;
        c->disk_bytes += memory ? 0 : x->copy.bytes;
        if (memory)
            c->memory_bytes += x->copy.bytes - (x->memory_bytes < x->copy.bytes ? x->memory_bytes
                                                                               : x->copy.bytes);
    }
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].loader)
            c->mixing = mixing(s);
    c->pays_after = isnan(saved) ? NAN : c->once_s <= 0 ? 0 : saved > 0 ? ceil(c->once_s / saved) : INFINITY;
}
