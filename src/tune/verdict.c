/*
 * verdict.c - what the runs show: pairs of one round, whose ratio does not suffer from a machine
 * that gets slower meanwhile; combinations of changes that have won alone: pairs that do not touch
 * the same thing, and all of the best of each; and the result: a row for each candidate with what
 * it gains and what it costs, ranked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "load/options.h"
#include "stoker.h"
#include "tune/priv.h"

#define NEARLY    0.95 /* of the best gain: not worth more effort */
#define CLOSE     0.85 /* the same, if the difference may be noise */

/* ---- pairs ---------------------------------------------------------------------------------- */

/* The cost of the run of that number; NaN: none, or it failed. */
static double cost_of(const struct stk_study *study, const struct stk_study_series *s,
                      uint32_t repeat)
{
    double v = NAN;
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].repeat == repeat && s->run[i].status == STK_RUN_OK)
            v = stk_study_cost(study, &s->run[i]);
    return v;
}

size_t stk_tune_pairs(const struct stk_study *study, size_t base, size_t other, double *log_ratio,
                      size_t max)
{
    const struct stk_study_series *s = &study->series[other];
    size_t pairs = 0;
    for (size_t i = 0; i < s->nruns && pairs < max; i++) {
        double a = cost_of(study, &study->series[base], s->run[i].repeat);
        double b = stk_study_cost(study, &s->run[i]);
        if (a > 0 && b > 0)
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

/* ---- combinations --------------------------------------------------------------------------- */

#define COMBINED_MAX 4

static unsigned slots_of(const struct stk_tune_proposal *c)
{
    unsigned all = 0;
    for (size_t i = 0; i < c->nchanges; i++) /* the loader divides the samples by itself */
        all |= c->change[i].kind->slots | (c->change[i].loader ? STK_SLOT_SHARD : 0u);
    return all;
}

/* Whether both can be made: neither replaces what the other changes. */
static bool fits(const struct stk_tune_proposal *a, const struct stk_tune_proposal *b)
{
    return !(slots_of(a) & slots_of(b)) && a->nchanges + b->nchanges <= STK_TUNE_CHANGES;
}

/* Adds one with the changes of another. NULL: the name is too long, is there already, or there is
 * no room. */
static const struct stk_tune_proposal *join(struct stk_tune_list *list,
                                            const struct stk_tune_proposal *one,
                                            const struct stk_tune_proposal *two)
{
    char id[2 * STK_POINT_ID_MAX + 8], label[2 * sizeof one->label + 4];
    int n = snprintf(id, sizeof id, "%s_%s", one->id, two->id);
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->item[i].id, id) == 0)
            return NULL;
    struct stk_tune_proposal *c = n < STK_POINT_ID_MAX ? stk_tune_add(list) : NULL;
    if (!c)
        return NULL;
    *c = *one;
    for (size_t i = 0; i < two->nchanges; i++)
        c->change[c->nchanges++] = two->change[i];
    memcpy(c->id, id, (size_t)n + 1);
    snprintf(label, sizeof label, "%s + %s", one->label, two->label);
    label[sizeof c->label - 1] = '\0';
    memcpy(c->label, label, sizeof c->label);
    return c;
}

/* The winners, the largest gain first. */
struct winners {
    size_t number[STK_TUNE_MAX], n;
};

static struct winners winners_of(const struct stk_tune_list *list, const struct stk_tune_study *s)
{
    struct winners w = {.n = 0};
    for (size_t i = 1; i < list->n; i++) {
        double times = s->item[i].gain.times;
        size_t at = w.n;
        if (s->item[i].verdict != STK_TUNE_GAIN)
            continue;
        for (w.n++; at; at--) {
            const size_t before = w.number[at - 1];
            double other = s->item[before].gain.times;
            if (other > times ||
                (!(other < times) && strcmp(list->item[before].id, list->item[i].id) < 0))
                break;
            w.number[at] = before;
        }
        w.number[at] = i;
    }
    return w;
}

/* The best change with fewer CPUs: does it need all of them? */
static void with_fewer_cpus(struct stk_tune_list *out, size_t best, size_t singles,
                            const struct stk_tune_study *s)
{
    for (size_t i = 1; i < singles; i++) {
        const struct stk_tune_proposal *c = &out->item[i];
        if (c->change[0].kind->helps == STK_HELPS_COST && s->item[i].runs &&
            fits(&out->item[best], c))
            (void)join(out, &out->item[best], c);
    }
}

int stk_tune_combine(const struct stk_tune_list *list, const struct stk_tune_study *first,
                     struct stk_tune_list *out, struct stk_err *err)
{
    struct winners w = winners_of(list, first);
    size_t pairs = 0;
    int rc = stk_tune_list_new(list->arena, out, err);
    if (rc)
        return rc;
    memcpy(out->item, list->item, list->n * sizeof *list->item);
    out->n = list->n;
    if (w.n)
        with_fewer_cpus(out, w.number[0], list->n, first);
    for (size_t a = 0; a < w.n && pairs < COMBINED_MAX; a++)
        for (size_t b = a + 1; b < w.n && pairs < COMBINED_MAX; b++) {
            const struct stk_tune_proposal *one = &out->item[w.number[a]];
            const struct stk_tune_proposal *two = &out->item[w.number[b]];
            const struct stk_tune_proposal *both = fits(one, two) ? join(out, one, two) : NULL;
            if (!both)
                continue;
            pairs++;
            /* The best of everything else on top of the best pair. */
            for (size_t c = b + 1; c < w.n && pairs == 1; c++)
                if (fits(both, &out->item[w.number[c]]))
                    (void)join(out, both, &out->item[w.number[c]]);
        }
    return 0;
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

/* ---- a row: what it gains ----------------------------------------------------------------------
 */

static void put_times(const struct stk_tune_measured *m, struct stk_tune_candidate *c)
{
    c->verdict = m->verdict;
    c->epoch_s = m->epoch_s;
    c->epoch_ci = m->epoch_ci;
    c->cores = m->cores;
    c->gain = m->gain;
    memcpy(c->why, m->why, sizeof c->why);
}

/* Of both studies: the second stands, if it has a time; why it was not run, if none has. */
static void put_measured(const struct stk_tune_found *f, size_t i, struct stk_tune_candidate *c)
{
    const struct stk_tune_measured *first = i < f->first.n ? &f->first.item[i] : NULL;
    const struct stk_tune_measured *second = i < f->second.n ? &f->second.item[i] : NULL;
    bool tried = first && (first->runs || *first->why);
    if (second && second->runs) {
        put_times(second, c);
        c->confirmed = i > 0;
    } else if (tried) {
        put_times(first, c);
    } else if (second && *second->why) {
        put_times(second, c);
    } else if (f->expected && f->expected[i].verdict != STK_TUNE_UNCLEAR) {
        c->verdict = f->expected[i].verdict;
        memcpy(c->why, f->expected[i].why, sizeof c->why);
    } else if (f->copy && c->nchanges == 1 && f->copy[i].why) {
        c->verdict = STK_TUNE_SKIPPED;
        snprintf(c->why, sizeof c->why, "%s", f->copy[i].why);
    }
    c->runs = (first ? first->runs : 0) + (second ? second->runs : 0);
    if (c->verdict == STK_TUNE_GAIN && !c->confirmed) /* it may be noise that was chosen */
        snprintf(c->why, sizeof c->why, "not measured a second time");
}

/* The pilot is the only measurement of the job as it is if nothing is worth trying. */
static void put_baseline(const struct stk_tune_found *f, struct stk_tune_candidate *c)
{
    c->verdict = STK_TUNE_NOTHING;
    c->why[0] = '\0';
    c->gain = (struct stk_verdict){.times = 1};
    if (!isnan(c->epoch_s))
        return;
    c->epoch_s = f->subject.pilot.epoch_s;
    c->epoch_ci = (struct stk_interval){NAN, NAN};
    c->runs = 1;
}

/* Its time follows from the ratio, as the runs of one round are compared: medians of other rounds
 * would contradict it. */
static void follow_ratio(const struct stk_tune_candidate *base, struct stk_tune_candidate *c)
{
    if (!(c->gain.times > 0) || !(base->epoch_s > 0) || !(c->epoch_s > 0))
        return;
    c->epoch_s = base->epoch_s / c->gain.times;
    c->epoch_ci = (struct stk_interval){base->epoch_s / c->gain.ci.hi,
                                        base->epoch_s / c->gain.ci.lo};
}

/* ---- a row: what it costs ----------------------------------------------------------------------
 */

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

static void put_costs(const struct stk_tune_found *f, double base_s, struct stk_tune_candidate *c)
{
    const struct stk_tune_subject *s = &f->subject;
    double saved = base_s - c->epoch_s;
    for (size_t i = 0; i < c->nchanges; i++) {
        const struct stk_tune_change *x = &c->change[i];
        const struct stk_tune_copy *copy = f->copy ? &f->copy[x->single] : NULL;
        bool memory = x->where && s->near[x->near].fs->memory;
        c->memory_bytes += x->memory_bytes;
        if (x->loader)
            c->mixing = mixing(s);
        if (!copy || isnan(copy->prepare_s))
            continue;
        c->once_s += copy->prepare_s;
        c->disk_bytes += memory ? 0 : copy->bytes;
        c->memory_bytes +=
            memory && copy->bytes > x->memory_bytes ? copy->bytes - x->memory_bytes : 0;
    }
    c->pays_after = isnan(saved)     ? NAN
                    : c->once_s <= 0 ? 0
                    : saved > 0      ? ceil(c->once_s / saved)
                                     : INFINITY;
}

/* ---- the result -------------------------------------------------------------------------------
 */

static void put_subject(const struct stk_tuner *t, const struct stk_tune_found *f,
                        struct stk_tune *out)
{
    const struct stk_tune_subject *s = &f->subject;
    const struct stk_format *format = s->look.format ? stk_format_find(s->look.format) : NULL;
    const struct stk_tune_job *job = &t->plan.job;
    out->job = *job;
    out->least = t->plan.least;
    out->via = t->plan.via;
    out->data = f->parts;
    out->file_system = s->fs ? s->fs->name : NULL;
    out->files = s->whole.bytes ? s->whole.files : s->files;
    out->bytes = stk_tune_whole_bytes(s);
    out->sample_bytes = s->bytes;
    out->ranks = s->w.training.ranks;
    out->batch = s->w.training.batch;
    out->threads = s->w.reader.threads;
    out->shuffles = s->w.access.shuffle != STK_MIX_NONE;
    out->framework = job->framework ? job->framework : STK_FRAMEWORK_TORCH;
    out->use = format ? format->use : NULL;
    out->decode = s->look.decode;
    out->steps = s->pilot.steps;
    out->memory_bytes = s->pilot.peak_bytes;
    out->compute_s = s->pilot.compute_s;
    out->budget_spent = f->first.unfinished || f->second.unfinished;
}

/* What was found about a sample is multiplied by the size of the whole. */
static void enlarge(const struct stk_tune_subject *s, struct stk_tune *out)
{
    double times = (double)s->whole.bytes / (double)s->bytes;
    for (size_t i = 0; i < out->n; i++) {
        struct stk_tune_candidate *c = &out->candidate[i];
        c->epoch_s *= times;
        c->epoch_ci = (struct stk_interval){c->epoch_ci.lo * times, c->epoch_ci.hi * times};
        c->predicted_s *= times;
        c->once_s *= times;
        c->disk_bytes = (uint64_t)((double)c->disk_bytes * times);
    }
    out->compute_s *= times;
}

#define BUSY 0.25 /* of the CPUs: enough to blur times */

static void note(struct stk_tuner *t, const struct stk_tune_found *f)
{
    const struct stk_tune_subject *s = &f->subject;
    const struct stk_tune_study *noisy = f->first.others_cores > BUSY * f->first.cpus ? &f->first
                                                                                      : &f->second;
    char part[32], all[32];
    if (noisy->n && noisy->others_cores > BUSY * noisy->cpus && !t->plan.storage)
        stk_tune_note(t,
                      "Other programs kept %.1f of the %u CPUs busy meanwhile: intervals are wider "
                      "than on a quiet machine",
                      noisy->others_cores, noisy->cpus);
    if (s->whole.bytes && s->bytes)
        stk_tune_note(
            t,
            "All of it ran on a sample of %llu of the %llu files, %s of %s, because copies of "
            "the whole have no room: how many times as fast is measured, times and disk marked "
            "with ~ are multiplied by %.3g. A sample may fit into a cache of the storage that "
            "the whole does not fit into",
            (unsigned long long)s->files, (unsigned long long)s->whole.files,
            stk_format_size(s->bytes, part, sizeof part),
            stk_format_size(s->whole.bytes, all, sizeof all),
            (double)s->whole.bytes / (double)s->bytes);
}

int stk_tune_verdicts(struct stk_tuner *t, const struct stk_tune_found *f, struct stk_tune *out,
                      struct stk_err *err)
{
    const struct stk_tune_subject *s = &f->subject;
    put_subject(t, f, out);
    out->name = strdup(t->plan.name);
    out->candidate = calloc(f->list.n, sizeof *out->candidate);
    if (!out->name || !out->candidate)
        return stk_err_nomem(err, f->list.n * sizeof *out->candidate);
    for (size_t i = 0; i < f->list.n; i++) {
        const struct stk_tune_proposal *p = &f->list.item[i];
        struct stk_tune_candidate *c = &out->candidate[out->n++];
        *c = (struct stk_tune_candidate){.verdict = STK_TUNE_UNCLEAR,
                                         .nchanges = p->nchanges,
                                         .predicted_s = f->expected ? f->expected[i].epoch_s : NAN,
                                         .epoch_s = NAN,
                                         .cores = NAN,
                                         .mixing = NAN,
                                         .gain.times = NAN};
        memcpy(c->id, p->id, sizeof c->id);
        memcpy(c->label, p->label, sizeof c->label);
        memcpy(c->change, p->change, sizeof c->change);
        put_measured(f, i, c);
        if (!i)
            put_baseline(f, c);
        else
            follow_ratio(&out->candidate[0], c);
        put_costs(f, out->candidate[0].epoch_s, c);
        double busy = s->pilot.compute_s / c->epoch_s;
        c->utilisation = s->pilot.compute_s > 0 && busy > 0 ? fmin(busy, 1) : NAN;
    }
    if (s->whole.bytes && s->bytes)
        enlarge(s, out);
    note(t, f);
    stk_tune_rank(out);
    return 0;
}
