/*
 * kinds.c - the table of changes, what all kinds share, and the actions that carry changes out. The
 * rows are in reads.c (how the program reads) and data.c (where and in which form its data is).
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "tune/kinds.h"

/* ---- for all kinds -------------------------------------------------------------------------- */

static bool carries_out_some(const struct stk_tune_plan *p, const struct stk_tune_kind *k)
{
    for (size_t i = 0; i < p->nactions; i++)
        for (size_t n = 0; n < k->nfinds; n++)
            if (p->action[i].kind == k->finds[n])
                return true;
    return false;
}

static bool wanted_by_findings(const struct stk_tune_plan *p, const struct stk_tune_kind *k)
{
    bool any = false; /* a job may wait though its findings ask for nothing that can be tried */
    for (size_t i = 0; stk_tune_kinds[i] && !any; i++)
        any = carries_out_some(p, stk_tune_kinds[i]);
    return !any || carries_out_some(p, k);
}

bool stk_tune_wants(const struct stk_tune_plan *p, const struct stk_tune_kind *k)
{
    if (!p->only)
        return k->helps == STK_HELPS_COST ? p->fewer_cpus : wanted_by_findings(p, k);
    for (const char *const *id = p->only; *id; id++)
        if (strcmp(*id, k->id) == 0)
            return true;
    return false;
}

const char *const *stk_tune_wanted(struct stk_tuner *t)
{
    size_t n = 0, room = 1;
    for (size_t i = 0; stk_tune_kinds[i]; i++)
        room++;
    const char **only = stk_arena_alloc(&t->out->arena, room * sizeof *only);
    for (size_t i = 0; only && stk_tune_kinds[i]; i++)
        if (stk_tune_wants(t->plan, stk_tune_kinds[i]))
            only[n++] = stk_tune_kinds[i]->id;
    if (only)
        only[n] = NULL;
    return only;
}

struct stk_tune_change *stk_tune_propose(struct stk_tuner *t, const struct stk_tune_kind *k,
                                         const char *id, const char *label)
{
    struct stk_tune *out = t->out;
    struct stk_tune_candidate *c = stk_tune_add(out);
    if (!c)
        return NULL;
    struct stk_tune_change *x = &c->change[0];
    c->nchanges = 1;
    x->kind = k;
    x->kind_id = k->id;
    x->copy.prepare_s = NAN;
    x->source = k->helps == STK_HELPS_SAVES ? t->s.save
                : t->s.whole.source         ? t->s.whole.source
                                            : t->s.source;
    snprintf(x->id, sizeof x->id, "%s", id);
    snprintf(x->label, sizeof x->label, "%s", label);
    snprintf(c->id, sizeof c->id, "%s", id);
    snprintf(c->label, sizeof c->label, "%s", label);
    return x;
}

int stk_tune_set(struct stk_tuner *t, struct stk_tune_change *c, struct stk_err *err,
                 const char *fmt, ...)
{
    char text[4400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text || c->nset == STK_TUNE_SETS)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%.80s: the name is too long", text);
    c->set[c->nset] = stk_arena_dup(&t->out->arena, text, (size_t)n);
    return c->set[c->nset++] ? 0 : stk_err_nomem(err, (size_t)n);
}

/* ---- the table ------------------------------------------------------------------------------ */

const struct stk_tune_kind *const stk_tune_kinds[] = {
    &stk_tune_threads, &stk_tune_prefetch, &stk_tune_request,  &stk_tune_shard, &stk_tune_memory,
    &stk_tune_keep,    &stk_tune_loader,   &stk_tune_pack,     &stk_tune_compress,
    &stk_tune_squashfs, &stk_tune_stage,   &stk_tune_save,     &stk_tune_shards,
    &stk_tune_arrays,  &stk_tune_stripes,  &stk_tune_cpus,     NULL,
};

const struct stk_tune_kind *stk_tune_kind_find(const char *id)
{
    for (size_t i = 0; stk_tune_kinds[i]; i++)
        if (strcmp(stk_tune_kinds[i]->id, id) == 0)
            return stk_tune_kinds[i];
    return NULL;
}

const char *const *stk_tune_kind_ids(void)
{
    static const char *ids[sizeof stk_tune_kinds / sizeof *stk_tune_kinds];
    for (size_t i = 0; stk_tune_kinds[i]; i++)
        ids[i] = stk_tune_kinds[i]->id;
    return ids;
}

bool stk_tune_divides(const struct stk_tune_subject *s, const struct stk_tune_change *c)
{
    return s->ranks > 1 && s->w.access.offsets == STK_OFFSETS_SAME &&
           (c->loader || c->kind->slots & STK_SLOT_SHARD);
}

/* Each rank of a profile that read all samples made steps for all of them. */
static int divide_steps(struct stk_tuner *t, struct stk_tune_change *c, struct stk_err *err)
{
    bool fewer = stk_tune_divides(&t->s, c) && t->s.w.training.scaling == STK_SCALING_WEAK;
    return fewer ? stk_tune_set(t, c, err, "training.scaling=strong") : 0;
}

/* The loader decodes and unpacks in its own threads what the program decodes in its own way. */
static int decode_too(struct stk_tuner *t, struct stk_tune_change *c, struct stk_err *err)
{
    const struct stk_workload *w = &t->s.w;
    double think = stk_dist_mean(&w->reader.think);
    double rest = think - t->s.unpack.program_s * stk_dist_mean(&w->dataset.record);
    if (!c->loader)
        return 0;
    if (t->s.decode)
        return stk_tune_set(t, c, err, "reader.decode=%s", t->s.decode);
    return think > 0 && t->s.unpack.program_s > 0
               ? stk_tune_set(t, c, err, "reader.think=%.9fs", rest > 0 ? rest : 0)
               : 0;
}

int stk_tune_propose_all(struct stk_tuner *t, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; stk_tune_kinds[i] && !rc; i++)
        if (stk_tune_wants(t->plan, stk_tune_kinds[i]))
            rc = stk_tune_kinds[i]->propose(t, stk_tune_kinds[i], err);
    const char *source = t->s.whole.source ? t->s.whole.source : t->s.source;
    rc = rc ? rc : stk_tune_find_parts(t, source, err);
    for (size_t i = 1; i < t->out->n && !rc; i++) {
        rc = divide_steps(t, &t->out->candidate[i].change[0], err);
        rc = rc ? rc : decode_too(t, &t->out->candidate[i].change[0], err);
    }
    return rc;
}

const char *stk_tune_advice(const struct stk_tune_change *c)
{
    return c->kind->advice;
}

const char *stk_tune_patch(const struct stk_tune *t, const struct stk_tune_change *c,
                           const char *made, size_t n, struct stk_buf *argument)
{
    const struct stk_tune_kind *k = c->kind;
    const struct stk_tune_part *p = n < t->nparts ? &t->part[n] : NULL;
    bool can = k->patch_option && (k->patches_parts ? p && made : !n);
    stk_buf_reset(argument);
    if (can && k->patches_parts)
        stk_buf_printf(argument, "%s=%s%s%s", p->source, made, *p->name ? "/" : "", p->name);
    else if (can && k->patch)
        can = k->patch(t, c, made, argument);
    return can && !argument->fail ? k->patch_option : NULL;
}

size_t stk_tune_actions(const struct stk_tune *t, const struct stk_tune_candidate *c,
                        struct stk_action out[STK_TUNE_CHANGES * STK_TUNE_ACTIONS])
{
    struct stk_action whole[STK_TUNE_ACTIONS];
    size_t n = 0;
    for (size_t i = 0; i < c->nchanges; i++) {
        const struct stk_tune_kind *k = c->change[i].kind;
        size_t some = k->act ? k->act(&c->change[i], whole) : 0;
        for (size_t j = 0; j < some; j++)
            n += stk_tune_act_parts(t, &whole[j], out + n);
    }
    for (size_t i = 0; i < n; i++) {
        if (t->packed && out[i].path && strcmp(out[i].path, STK_TUNE_PACKED) == 0)
            out[i].path = t->packed;
        out[i].use = out[i].kind >= STK_ACT_READERS ? t->use : NULL; /* lines for that library */
        if (out[i].kind >= STK_ACT_LARGER_READS && !out[i].is_file && t->files != 1)
            out[i].path = NULL; /* they open a file, not the folder */
        if (out[i].kind == STK_ACT_PREFETCH && t->threads) { /* torch counts batches per worker */
            out[i].count = t->threads;
            out[i].depth = (out[i].depth + t->threads - 1) / t->threads;
        }
        out[i].loader.framework = t->framework;
        out[i].loader.batch = t->batch;
        out[i].loader.batch_known = !t->job.batch_guessed;
    }
    return n;
}
