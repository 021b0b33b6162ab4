/*
 * watch.c - detects changes of mapped files while batches point into them. Values are checked when
 * they are put into a batch; after that, only the caller reads them. So every batch knows its
 * files, and before the next batch is given out, the files of all batches that the caller has, or
 * had since the last check, are checked for changes.
 */
#include "load/priv.h"
#include "base/pool.h"

#include <stdio.h>
#include <stdlib.h>

#define CHEAP_FILES 16u /* checked each time; more, only so often that the checks cost... */
#define COST_SHARE  32u /* ...one part in this many of the time */

size_t stk_watch_words(const struct stk_loader *ld)
{
    return ld->io && stk_io_maps(ld->io) ? (size_t)(ld->ds->files.count + 63) / 64 : 0;
}

void stk_watch_sample(struct batch *b, const struct stk_fetch *f, size_t k)
{
    for (uint32_t i = stk_fetch_first(f, k); i < stk_fetch_first(f, k + 1); i++) {
        const struct stk_want *w = stk_fetch_want(f, i);
        _Atomic uint64_t *word = &b->files[w->file / 64];
        uint64_t bit = 1ull << w->file % 64;
        if (w->len && !(atomic_load_explicit(word, memory_order_relaxed) & bit))
            atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
    }
}

/* ---- which batches ---- */

static void widen(struct watch_span *s, const struct batch *b)
{
    struct watch_at at = {b->pub.epoch, b->pub.step};
    bool before =
        at.epoch < s->first.epoch || (at.epoch == s->first.epoch && at.step < s->first.step);
    bool after = at.epoch > s->last.epoch || (at.epoch == s->last.epoch && at.step > s->last.step);
    if (!s->any || before)
        s->first = at;
    if (!s->any || after)
        s->last = at;
    s->any = true;
}

void stk_watch_given(struct stk_loader *ld, struct batch *b)
{
    if (!ld->views || !ld->late)
        return;
    b->given_next = ld->given;
    b->given_at = &ld->given;
    if (ld->given)
        ld->given->given_at = &b->given_next;
    ld->given = b;
}

void stk_watch_released(struct stk_loader *ld, struct batch *b)
{
    if (!b->given_at)
        return;
    *b->given_at = b->given_next;
    if (b->given_next)
        b->given_next->given_at = b->given_at;
    b->given_at = NULL;
    for (size_t i = 0; i < stk_watch_words(ld); i++)
        ld->late[i] |= atomic_load_explicit(&b->files[i], memory_order_relaxed);
    widen(&ld->late_span, b);
}

/* Files of batches that the caller has, or had since the last check. With the lock held. */
static void collect(struct stk_loader *ld, uint64_t *files)
{
    size_t n = stk_watch_words(ld);
    memcpy(files, ld->late, n * sizeof *files);
    for (const struct batch *b = ld->given; b; b = b->given_next)
        for (size_t i = 0; i < n; i++)
            files[i] |= atomic_load_explicit(&b->files[i], memory_order_relaxed);
}

/* The batches with bytes of a file. */
static struct watch_span concerned(struct stk_loader *ld, uint32_t file)
{
    uint64_t bit = 1ull << file % 64;
    struct watch_span span = {0};
    pthread_mutex_lock(&ld->lock);
    if (ld->late[file / 64] & bit)
        span = ld->late_span;
    for (const struct batch *b = ld->given; b; b = b->given_next)
        if (atomic_load_explicit(&b->files[file / 64], memory_order_relaxed) & bit)
            widen(&span, b);
    pthread_mutex_unlock(&ld->lock);
    return span;
}

/* ---- reporting ---- */

static int changed_under(struct stk_loader *ld, uint32_t file, struct stk_err *err)
{
    struct watch_span s = concerned(ld, file);
    char which[120];
    char *path = stk_files_path(&ld->ds->files, file);
    unsigned long long e0 = s.first.epoch, s0 = s.first.step, e1 = s.last.epoch, s1 = s.last.step;
    if (e0 != e1)
        snprintf(which, sizeof which, "batches %llu of epoch %llu to %llu of epoch %llu", s0, e0,
                 s1, e1);
    else if (s0 != s1)
        snprintf(which, sizeof which, "batches %llu to %llu of epoch %llu", s0, s1, e0);
    else
        snprintf(which, sizeof which, "batch %llu of epoch %llu", s0, e0);
    int rc = stk_err_set(err, STK_E_STALE, path, -1,
                         "the file changed, or could not be read, after %s had been given out with "
                         "views of it: their samples may be wrong",
                         which);
    free(path);
    return rc;
}

/* Fails the slots of a batch, not yet given out, that have bytes of the file: mending reads them
 * again, or applies the policy. */
static void fail_slots(struct stk_loader *ld, struct batch *b, uint32_t file)
{
    struct stk_buf slices = STK_BUF_INIT;
    struct stk_err why = {0};
    char *path = stk_files_path(&ld->ds->files, file);
    stk_err_set(&why, STK_E_STALE, path, -1, "the file changed while it was read");
    free(path);
    for (uint32_t k = 0; k < b->size; k++) {
        stk_buf_reset(&slices);
        uint64_t number = stk_dataset_at(ld->ds, b->id[k]);
        bool has = stk_index_slices(&ld->ds->index, number, &slices, NULL) < 0;
        const struct stk_slice *s = (const void *)slices.data;
        for (size_t i = 0; !has && i < slices.len / sizeof *s; i++) {
            struct stk_extent e;
            has = stk_index_extent(&ld->ds->index, s[i].extent, &e, NULL) < 0 || e.file == file;
        }
        if (has)
            stk_batch_failed(b, k, STK_E_STALE, &why);
    }
    stk_buf_release(&slices);
}

/* Checks one file of the batches given out (`had`) or of the next one (`has`). */
static int ask(struct stk_loader *ld, struct batch *b, uint32_t file, bool had, bool has,
               struct stk_err *err)
{
    if (stk_io_unchanged(ld->io, file))
        return 0;
    if (has)
        fail_slots(ld, b, file);
    if (!had || (ld->told[file / 64] >> file % 64 & 1))
        return 0;
    struct stk_err why = {0};
    int rc = changed_under(ld, file, &why);
    ld->told[file / 64] |= 1ull << file % 64;
    if (ld->o.on_error != STK_ON_ERROR_STOP) {
        stk_problem_note(ld, &why);
        return 0;
    }
    ld->stats.corrupt++;
    if (err)
        *err = why;
    return rc;
}

static unsigned count_bits(const uint64_t *a, const struct batch *b, size_t n)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += (unsigned)__builtin_popcountll(a[i] | (b ? b->files[i] : 0));
    return count;
}

static uint64_t now_ns(void)
{
    return (uint64_t)(stk_now() * 1e9);
}

int stk_watch(struct stk_loader *ld, struct batch *b, struct stk_err *err)
{
    size_t n = stk_watch_words(ld);
    if (!n)
        return 0;
    uint64_t *had = ld->asked, begin = now_ns();
    pthread_mutex_lock(&ld->lock);
    collect(ld, had);
    bool all = !b || begin >= ld->watch_again_ns || count_bits(had, b, n) <= CHEAP_FILES;
    pthread_mutex_unlock(&ld->lock);
    int rc = 0;
    for (size_t i = 0; all && rc == 0 && i < n; i++) {
        uint64_t has = b ? atomic_load_explicit(&b->files[i], memory_order_relaxed) : 0;
        for (uint64_t left = had[i] | has; rc == 0 && left; left &= left - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(left);
            rc = ask(ld, b, (uint32_t)(i * 64 + bit), had[i] >> bit & 1, has >> bit & 1, err);
        }
    }
    if (!all || rc < 0)
        return rc;
    uint64_t now = now_ns();
    ld->watch_again_ns = now + (now - begin) * COST_SHARE;
    pthread_mutex_lock(&ld->lock); /* batches released meanwhile are checked again */
    for (size_t i = 0; i < n; i++)
        ld->late[i] &= ~had[i];
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any = any || ld->late[i];
    if (!any)
        ld->late_span = (struct watch_span){0};
    pthread_mutex_unlock(&ld->lock);
    return 0;
}

int stk_watch_init(struct stk_loader *ld, struct stk_err *err)
{
    size_t n = stk_watch_words(ld);
    if (!n)
        return 0;
    ld->late = calloc(3 * n, sizeof *ld->late);
    ld->told = ld->late + n;
    ld->asked = ld->late + 2 * n;
    return ld->late ? 0 : stk_err_nomem(err, 3 * n * sizeof *ld->late);
}
