/*
 * judge.c - what the runs show: pairs of one round, whose ratio does not suffer from a machine that
 * gets slower meanwhile; the ranking; combinations of changes that have won alone: pairs that do not
 * touch the same thing, and all of the best of each; and what a candidate costs: disk, memory, time
 * once, epochs until that is saved, and how much worse it mixes than a full shuffle.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/options.h"
#include "stoker.h"
#include "tune/priv.h"

#define NEARLY    0.95 /* of the best gain: not worth more effort */
#define CLOSE     0.85 /* the same, if the difference may be noise */

/* The value of the run of that number; NaN: none, or it failed. */
static double value_of(const struct stk_study_series *s, uint32_t repeat)
{
    double v = NAN;
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].repeat == repeat && s->run[i].status == STK_RUN_OK)
            v = s->run[i].value;
    return v;
}

size_t stk_tune_pairs(const struct stk_study_series *base, const struct stk_study_series *other,
                      double *log_ratio, size_t max)
{
    size_t pairs = 0;
    for (size_t i = 0; i < other->nruns && pairs < max; i++) {
        double a = value_of(base, other->run[i].repeat), b = other->run[i].value;
        if (other->run[i].status == STK_RUN_OK && a > 0 && b > 0)
            log_ratio[pairs++] = log(a / b);
    }
    return pairs;
}

enum stk_tune_verdict stk_tune_judge(const struct stk_verdict *v)
{
    return v->kind == STK_VERDICT_FASTER      ? STK_TUNE_GAIN
           : v->kind == STK_VERDICT_NOT_KNOWN ? STK_TUNE_UNCLEAR
                                              : STK_TUNE_NOTHING;
}

/* ---- the ranking ---------------------------------------------------------------------------- */

static unsigned effort_of(const struct stk_tune_candidate *c)
{
    unsigned sum = 0;
    for (size_t i = 0; i < c->nchanges; i++)
        sum += c->change[i].kind->effort;
    return sum;
}

/* Gains first, the largest before the others; then what was tried; then what was not. */
static double key_of(const struct stk_tune_candidate *c)
{
    double times = isnan(c->gain.times) ? 0 : fmin(c->gain.times, 1e6);
    return (c->verdict == STK_TUNE_GAIN ? 0 : 1e9 * (1 + (double)c->verdict)) - times;
}

static int by_rank(const void *a, const void *b)
{
    const struct stk_tune_candidate *x = a, *y = b;
    double kx = key_of(x), ky = key_of(y);
    if (kx != ky)
        return kx < ky ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* Clearly faster, and not by less of something. */
static bool can_be_best(const struct stk_tune_candidate *c)
{
    for (size_t i = 0; i < c->nchanges; i++)
        if (c->change[i].kind->helps == STK_HELPS_COST)
            return false;
    return c->verdict == STK_TUNE_GAIN;
}

static bool nearly_best(const struct stk_tune_candidate *c, double most)
{
    const struct stk_verdict *r = &c->gain;
    return r->times >= NEARLY * most || (r->times >= CLOSE * most && r->ci.hi >= most);
}

/* Of those that gain nearly as much as the best, the one that takes least effort. */
static size_t choose(const struct stk_tune *t)
{
    size_t best = 0;
    double most = 1;
    for (size_t i = 1; i < t->n; i++)
        if (can_be_best(&t->candidate[i]))
            most = fmax(most, t->candidate[i].gain.times);
    for (size_t i = 1; i < t->n; i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (can_be_best(c) && nearly_best(c, most) &&
            (!best || effort_of(c) < effort_of(&t->candidate[best])))
            best = i;
    }
    return best;
}

void stk_tune_rank(struct stk_tune *t)
{
    if (t->n > 1)
        qsort(t->candidate + 1, t->n - 1, sizeof *t->candidate, by_rank);
    t->best = choose(t);
}

int stk_tune_choose(struct stk_tune *t, const char *id, struct stk_err *err)
{
    struct stk_buf ids = STK_BUF_INIT;
    for (size_t i = 1; i < t->n && !t->chosen; i++) {
        stk_buf_printf(&ids, "%s%s", i > 1 ? ", " : "", t->candidate[i].id);
        if (strcmp(t->candidate[i].id, id) == 0) {
            t->best = i;
            t->chosen = true;
        }
    }
    int rc = t->chosen ? 0
                       : stk_err_set(err, STK_E_USAGE, NULL, -1,
                                     "\"%.60s\" is not a change that is possible here (%.300s)", id,
                                     ids.len ? stk_buf_cstr(&ids) : "there is none");
    stk_buf_release(&ids);
    return rc;
}

/* ---- combinations --------------------------------------------------------------------------- */

#define COMBINED_MAX 4

static unsigned slots_of(const struct stk_tune_candidate *c)
{
    unsigned all = 0;
    for (size_t i = 0; i < c->nchanges; i++) /* the loader divides the samples by itself */
        all |= c->change[i].kind->slots | (c->change[i].loader ? STK_SLOT_SHARD : 0u);
    return all;
}

/* Whether both can be made: neither replaces what the other changes. */
static bool fits(const struct stk_tune_candidate *a, const struct stk_tune_candidate *b)
{
    return !(slots_of(a) & slots_of(b)) && a->nchanges + b->nchanges <= STK_TUNE_CHANGES;
}

static bool is_there(const struct stk_tune *t, const char *id)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->candidate[i].id, id) == 0)
            return true;
    return false;
}

/* a with the changes of b. False: the name is too long, or there is no room. */
static bool join(struct stk_tune *t, size_t a, size_t b, size_t *made)
{
    struct stk_tune_candidate *c = &t->candidate[t->n];
    const struct stk_tune_candidate *one = &t->candidate[a], *two = &t->candidate[b];
    char id[2 * STK_POINT_ID_MAX + 8], label[2 * sizeof c->label + 4];
    snprintf(id, sizeof id, "%s_%s", one->id, two->id);
    if (t->n == STK_TUNE_MAX || strlen(id) >= STK_POINT_ID_MAX || is_there(t, id))
        return false;
    *c = *one;
    for (size_t i = 0; i < two->nchanges; i++)
        c->change[c->nchanges++] = two->change[i];
    snprintf(c->id, sizeof c->id, "%.*s", (int)sizeof c->id - 1, id);
    snprintf(label, sizeof label, "%s + %s", one->label, two->label);
    label[sizeof c->label - 1] = '\0';
    memcpy(c->label, label, sizeof c->label);
    c->verdict = STK_TUNE_UNCLEAR;
    c->gain = (struct stk_verdict){.times = NAN, .ci = {NAN, NAN}};
    c->predicted_s = c->epoch_s = c->utilisation = NAN;
    c->runs = 0;
    c->confirmed = false;
    c->why[0] = '\0';
    *made = t->n++;
    return true;
}

static bool won(const struct stk_tune_candidate *c)
{
    return c->verdict == STK_TUNE_GAIN;
}

/* The best change with fewer CPUs: does it need all of them? */
static void with_fewer_cpus(struct stk_tune *t, size_t singles)
{
    size_t made;
    for (size_t i = 1; i < singles && won(&t->candidate[1]); i++) {
        const struct stk_tune_candidate *c = &t->candidate[i];
        if (c->nchanges == 1 && c->change[0].kind->helps == STK_HELPS_COST &&
            c->verdict != STK_TUNE_SKIPPED && c->verdict != STK_TUNE_FAILED &&
            fits(&t->candidate[1], c))
            (void)join(t, 1, i, &made);
    }
}

/* The candidates are ranked: earlier ones gain more. */
int stk_tune_combine(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune *out = t->out;
    size_t singles = out->n, made, pairs = 0;
    (void)err;
    with_fewer_cpus(out, singles);
    for (size_t a = 1; a < singles && pairs < COMBINED_MAX; a++)
        for (size_t b = a + 1; b < singles && pairs < COMBINED_MAX; b++) {
            if (!won(&out->candidate[a]) || !won(&out->candidate[b]) ||
                !fits(&out->candidate[a], &out->candidate[b]) || !join(out, a, b, &made))
                continue;
            pairs++;
            /* The best of everything else on top of the best pair. */
            for (size_t c = b + 1; c < singles && pairs == 1; c++)
                if (won(&out->candidate[c]) && fits(&out->candidate[made], &out->candidate[c]))
                    (void)join(out, made, c, &made);
        }
    return 0;
}

/* ---- costs ---------------------------------------------------------------------------------- */

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
