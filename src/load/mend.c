/*
 * mend.c - fills the slot of a sample that cannot be read.
 *
 * This happens when a batch is given out, in the order of batches and slots, in the caller's
 * thread, so the replacement depends on the data alone, never on timing. It is slow, and rare.
 */
#include "load/priv.h"
#include "base/buf.h"
#include "base/random.h"
#include "dataset/reader.h"

#include <stdio.h>
#include <stdlib.h>

#define DRAWS  1000 /* samples tried in place of a bad one, before falling back to any */
#define BEFORE 16   /* earlier samples that are tried again */

/* Reads the ranges of the stretch, one after another. */
static int read_runs(struct stk_loader *ld, struct stretch *s, struct stk_err *err)
{
    stk_buf_reset(&ld->mended_bytes);
    size_t total = 1;
    for (size_t i = 0; i < s->nbundles; i++)
        total += s->bundle[i].req.len;
    if (!stk_buf_room(&ld->mended_bytes, total))
        return stk_err_nomem(err, total);
    for (size_t i = 0; i < s->nbundles; i++) {
        const struct bundle *r = &s->bundle[i];
        uint8_t *p = stk_buf_extend(&ld->mended_bytes, r->req.len);
        int rc = stk_reader_range(ld->reader, r->req.file, r->from, r->req.len, p, err);
        if (rc < 0)
            return rc;
        for (size_t k = r->first; k < r->end; k++) {
            struct stk_want *w = stk_fetch_at(&s->fetch, k);
            w->p = p + (w->off - r->from);
        }
    }
    return 0;
}

/* Reads, decodes and puts one sample into a slot. */
static int put_now(struct stk_loader *ld, struct batch *b, uint32_t slot, uint64_t id,
                   struct stk_err *err)
{
    if (!ld->mended)
        ld->mended = stk_stretch_take(ld);
    if (!ld->mended)
        return stk_err_nomem(err, sizeof *ld->mended);
    stk_stretch_reset(ld->mended);
    for (size_t c = 0; c < ld->ncolumns; c++)
        b->cell[c].set[slot] = SLOT_EMPTY;
    for (size_t i = 0; i < b->nextra; i++)
        b->extra[i].value[slot] = (struct stk_value){0};
    b->id[slot] = id;
    int rc = stk_fetch_add(&ld->mended->fetch, id, NULL, NULL, err);
    if (rc == 0)
        rc = stk_stretch_plan(ld->mended, false, err);
    if (rc == 0)
        rc = read_runs(ld, ld->mended, err);
    return rc < 0 ? rc : stk_work_now(&ld->mender, ld->mended, b, slot, err);
}

static void keep_text(struct stk_loader *ld, const char *line)
{
    if (ld->nproblems == STK_PROBLEMS_KEPT)
        return;
    if (STK_ARRAY_MORE(ld->problem, ld->nproblems, NULL))
        return;
    ld->problem[ld->nproblems] = strdup(line);
    ld->nproblems += ld->problem[ld->nproblems] != NULL;
}

static void keep_problem(struct stk_loader *ld, const struct stk_err *why, const char *line)
{
    ld->stats.corrupt++;
    ld->stats.unsupported += why->code == STK_E_UNSUPPORTED;
    keep_text(ld, line);
}

void stk_problems_of_dataset(struct stk_loader *ld)
{
    const struct stk_problems *known = stk_dataset_problems(ld->ds);
    char line[2400];
    for (size_t i = 0; i < known->kept; i++) {
        const struct stk_problem *p = &known->item[i];
        const char *path = p->path ? p->path : "";
        if (p->offset >= 0)
            snprintf(line, sizeof line, "%s:%lld: %s", path, (long long)p->offset, p->what);
        else
            snprintf(line, sizeof line, "%s: %s", path, p->what);
        keep_text(ld, line);
    }
}

void stk_problem_note(struct stk_loader *ld, const struct stk_err *why)
{
    char text[2200];
    stk_err_text(why, text, sizeof text);
    keep_problem(ld, why, text);
}

static void note_problem(struct stk_loader *ld, uint64_t id, const struct stk_err *why)
{
    char text[2200], line[2300];
    stk_err_text(why, text, sizeof text);
    snprintf(line, sizeof line, "%s (sample %llu)", text, (unsigned long long)id);
    keep_problem(ld, why, line);
}

/* True for errors that are not the sample's own: no policy passes over them. */
static bool is_fatal(int rc)
{
    return rc == STK_E_NOMEM || rc == STK_E_STOPPED;
}

/* Tries a sample in a slot that no new sample can fill. 1: done; 0: this one is bad, too. */
static int try_repeat(struct stk_loader *ld, struct batch *b, uint32_t slot, uint64_t id,
                      struct stk_err *err)
{
    int rc = put_now(ld, b, slot, id, err);
    return rc == 0 ? 1 : is_fatal(rc) ? rc : 0;
}

/* A good sample of the same batch. */
static int repeat_in_batch(struct stk_loader *ld, struct batch *b, uint32_t slot, const bool *bad,
                           struct stk_err *err)
{
    int rc = 0;
    for (uint32_t i = 1; rc == 0 && i < b->size; i++) {
        uint32_t good = (slot + i) % b->size;
        if (!bad[good])
            rc = try_repeat(ld, b, slot, b->id[good], err);
    }
    return rc;
}

/* A sample that this rank received before, the latest first. */
static int repeat_before(struct stk_loader *ld, struct batch *b, uint32_t slot, struct stk_err *err)
{
    const struct stk_plan *p = &ld->plan[b->pub.epoch % 2];
    uint64_t at = p->given + b->first_slot;
    int rc = 0;
    at = at < p->size ? at : p->size;
    for (uint64_t i = 0; rc == 0 && at-- > 0 && i < BEFORE; i++)
        rc = try_repeat(ld, b, slot, stk_order_at(&p->order, stk_plan_position(p, p->first + at)),
                        err);
    return rc;
}

/* Tries samples drawn from the whole dataset by the seed, until one is good. Bad ones are not tried
 * again in this epoch. */
static int find_any(struct stk_loader *ld, struct batch *b, uint32_t slot, struct stk_err *err)
{
    struct stk_perm draw;
    uint64_t n = stk_dataset_len(ld->ds);
    int rc = 0;
    if (ld->drawn_epoch != b->pub.epoch)
        ld->drawn = 0;
    ld->drawn_epoch = b->pub.epoch;
    stk_perm_init(&draw, n, ld->order.seed ^ b->pub.epoch * STK_GOLDEN64);
    while (ld->drawn < n && (rc = try_repeat(ld, b, slot, stk_perm_at(&draw, ld->drawn), err)) == 0)
        ld->drawn++;
    return rc;
}

/* Fills a slot with a sample from elsewhere in the epoch if no new one is left. */
static int repeat_good(struct stk_loader *ld, struct batch *b, uint32_t slot, const bool *bad,
                       struct stk_err *err)
{
    struct stk_err why = {.offset = -1};
    int rc = repeat_in_batch(ld, b, slot, bad, &why);
    if (rc == 0)
        rc = repeat_before(ld, b, slot, &why);
    if (rc == 0)
        rc = find_any(ld, b, slot, &why);
    if (rc > 0) {
        b->flags[slot] = STK_REPEAT;
        return 0;
    }
    if (rc < 0 && err)
        *err = why;
    return rc < 0 ? rc
                  : stk_err_set(err, STK_E_CORRUPT, ld->ds->path, -1,
                                "not one of its %llu samples can be read",
                                (unsigned long long)stk_dataset_len(ld->ds));
}

static int skip(struct stk_loader *ld, struct batch *b, uint32_t slot, const bool *bad,
                struct stk_err *err)
{
    const struct stk_plan *p = &ld->plan[b->pub.epoch % 2];
    uint64_t id;
    struct stk_err why = {0};
    ld->stats.skipped++;
    while (stk_plan_refill(p, b->first_slot + b->size, ld->refills, &id)) {
        ld->refills++;
        b->flags[slot] = 0;
        int rc = put_now(ld, b, slot, id, &why);
        if (rc == 0)
            return 0;
        if (is_fatal(rc)) {
            if (err)
                *err = why;
            return rc;
        }
        note_problem(ld, id, &why);
        ld->stats.skipped++;
    }
    return repeat_good(ld, b, slot, bad, err);
}

static int replace(struct stk_loader *ld, struct batch *b, uint32_t slot, uint64_t id,
                   struct stk_err *err)
{
    struct stk_perm draw;
    struct stk_err why = {.offset = -1};
    uint64_t n = stk_dataset_len(ld->ds);
    int rc = 0;
    stk_perm_init(&draw, n, ld->order.seed ^ b->pub.epoch << 32 ^ id * STK_GOLDEN64);
    for (uint64_t i = 0; rc == 0 && i < n && i < DRAWS; i++)
        if (stk_perm_at(&draw, i) != id)
            rc = try_repeat(ld, b, slot, stk_perm_at(&draw, i), &why);
    if (rc == 0)
        rc = find_any(ld, b, slot, &why);
    if (rc > 0) {
        b->flags[slot] |= STK_REPLACED;
        ld->stats.replaced++;
        return 0;
    }
    if (rc < 0 && err)
        *err = why;
    return rc < 0 ? rc
                  : stk_err_set(err, STK_E_CORRUPT, ld->ds->path, -1,
                                "not one of its %llu samples can be read", (unsigned long long)n);
}

static int mend_slot(struct stk_loader *ld, struct batch *b, uint32_t slot, const bool *bad,
                     struct stk_err *err)
{
    uint64_t id = b->id[slot];
    struct stk_err why = {.offset = -1};
    /* Read alone the sample may be good: a neighbour failed, or the error was temporary. */
    int rc = put_now(ld, b, slot, id, &why);
    if (rc == 0)
        return 0;
    if (is_fatal(rc) || ld->o.on_error == STK_ON_ERROR_STOP) {
        ld->stats.corrupt++;
        if (err)
            *err = why;
        return rc;
    }
    note_problem(ld, id, &why);
    if (ld->o.on_error == STK_ON_ERROR_REPLACE)
        return replace(ld, b, slot, id, err);
    return skip(ld, b, slot, bad, err);
}

/* Slots whose samples were already given out in place of bad ones. */
static int mend_used(struct stk_loader *ld, struct batch *b, bool *bad, struct stk_err *err)
{
    const struct stk_plan *p = &ld->plan[b->pub.epoch % 2];
    int rc = 0;
    for (uint32_t k = 0; rc == 0 && ld->refills && k < b->size; k++) {
        bool repeat;
        uint64_t id = stk_plan_sample_after(p, b->first_slot + k, ld->refills, &repeat);
        if (!repeat || (b->flags[k] & STK_REPEAT))
            continue;
        b->flags[k] = STK_REPEAT;
        bad[k] = put_now(ld, b, k, id, err) < 0;
        if (bad[k])
            rc = repeat_good(ld, b, k, bad, err);
        bad[k] = false;
    }
    return rc;
}

static int by_slot(const void *a, const void *b)
{
    const struct failure *x = a, *y = b;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

int stk_mend(struct stk_loader *ld, struct batch *b, struct stk_err *err)
{
    if (!b->nfailures && !ld->refills)
        return 0;
    bool *bad = calloc(b->size, sizeof *bad);
    if (!bad)
        return stk_err_nomem(err, b->size);
    for (size_t i = 0; i < b->nfailures; i++)
        bad[b->failure[i].slot] = true;
    int rc = mend_used(ld, b, bad, err);
    if (b->nfailures)
        qsort(b->failure, b->nfailures, sizeof *b->failure, by_slot);
    for (size_t i = 0; rc == 0 && i < b->nfailures; i++) {
        uint32_t slot = b->failure[i].slot;
        if (!bad[slot])
            continue; /* mended above, or listed twice */
        rc = mend_slot(ld, b, slot, bad, err);
        bad[slot] = false;
    }
    free(bad);
    return rc;
}
