/* combine.c - combinations of changes that have won alone: pairs that do not touch the same thing,
 * and all of the best of each. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tune/priv.h"

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
