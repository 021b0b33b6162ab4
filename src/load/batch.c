/*
 * batch.c - batches: their memory, their lifetime, and their layout for the caller.
 */
#include "load/priv.h"
#include "base/buf.h"
#include "base/api.h"

#include <stdlib.h>
#include <unistd.h>

/* ---- making and freeing ---- */

static void *dense_alloc(struct stk_loader *ld, size_t size)
{
    if (ld->o.alloc)
        return ld->o.alloc(ld->o.user, size);
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void dense_free(struct stk_loader *ld, void *p, size_t size)
{
    if (p && ld->o.alloc && ld->o.free)
        ld->o.free(ld->o.user, p, size);
    else if (!ld->o.alloc)
        free(p);
}

static bool make_cell(struct stk_loader *ld, const struct column *c, struct cell *cell)
{
    size_t n = ld->o.batch;
    cell->set = malloc(n);
    if (c->layout == STK_DENSE)
        cell->data = dense_alloc(ld, n * c->size + (c->size == 0));
    if (c->layout == STK_SPANS)
        cell->span = calloc(n, sizeof *cell->span);
    return cell->set && (c->layout != STK_DENSE || cell->data) &&
           (c->layout != STK_SPANS || cell->span);
}

void stk_batch_free(struct batch *b)
{
    struct stk_loader *ld = b->ld;
    for (size_t i = 0; b->cell && i < ld->ncolumns; i++) {
        struct cell *cell = &b->cell[i];
        dense_free(ld, cell->data, ld->o.batch * ld->column[i].size);
        free(cell->set);
        free(cell->span);
        free(cell->value);
    }
    free(b->cell);
    free(b->column);
    free(b->id);
    free(b->flags);
    free(b->key);
    free(b->held);
    free(b->failure);
    free((void *)(uintptr_t)b->files);
    free(b->extra);
    stk_arena_release(&b->arena);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

static struct batch *make_batch(struct stk_loader *ld)
{
    size_t n = ld->o.batch;
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->ld = ld;
    pthread_mutex_init(&b->lock, NULL);
    b->id = malloc(n * sizeof *b->id);
    b->flags = malloc(n);
    b->key = ld->o.keys ? calloc(n, sizeof *b->key) : NULL;
    b->column = calloc(ld->ncolumns + 1, sizeof *b->column);
    b->cell = calloc(ld->ncolumns + 1, sizeof *b->cell);
    size_t words = stk_watch_words(ld);
    b->files = words ? calloc(words, sizeof *b->files) : NULL;
    bool ok = (!words || b->files) && b->id && b->flags && b->column && b->cell &&
              (!ld->o.keys || b->key);
    for (size_t i = 0; ok && i < ld->ncolumns; i++)
        ok = make_cell(ld, &ld->column[i], &b->cell[i]);
    if (ok)
        return b;
    stk_batch_free(b);
    return NULL;
}

/* Counts bytes; idle stretches are given up to make room. */
static bool charge(struct stk_loader *ld, size_t bytes, bool over)
{
    return stk_regions_charge(&ld->regions, bytes, false) ||
           ((stk_stretches_give_up(ld) || over) && stk_regions_charge(&ld->regions, bytes, over));
}

/* Counts the bytes that the batch has and is expected to get. */
static bool charge_batch(struct stk_loader *ld, struct batch *b, bool over)
{
    size_t has = stk_arena_size(&b->arena), expected = atomic_load(&ld->arena_bytes);
    size_t all = (size_t)ld->batch_bytes + (has > expected ? has : expected);
    size_t more = all > b->charged ? all - b->charged : 0;
    if (!charge(ld, more, over))
        return false;
    b->charged += more;
    return true;
}

void stk_batch_grown(struct batch *b, uint32_t n)
{
    struct stk_loader *ld = b->ld;
    pthread_mutex_lock(&b->lock);
    size_t arena = stk_arena_size(&b->arena), now = (size_t)ld->batch_bytes + arena;
    bool filled = (b->unfilled -= n) == 0;
    if (now > b->charged)
        (void)stk_regions_charge(&ld->regions, now - b->charged, true);
    else if (filled)
        stk_regions_uncharge(&ld->regions, b->charged - now);
    if (filled || now > b->charged)
        b->charged = now;
    pthread_mutex_unlock(&b->lock);
    size_t expected = atomic_load(&ld->arena_bytes);
    expected = filled ? expected / 8 * 7 : expected;
    atomic_store(&ld->arena_bytes, arena > expected ? arena : expected);
}

static void put_back(struct stk_loader *ld, struct batch *b, bool free_it)
{
    pthread_mutex_lock(&ld->lock);
    if (free_it) {
        ld->nbatches--;
    } else {
        b->next = ld->free_batches;
        ld->free_batches = b;
    }
    pthread_mutex_unlock(&ld->lock);
    if (free_it && b) {
        size_t charged = b->charged;
        stk_batch_free(b);
        stk_regions_uncharge(&ld->regions, charged);
    }
}

/* An idle batch, or a new one if the limit allows it. */
static struct batch *find_batch(struct stk_loader *ld, bool over, bool *made, bool *nomem)
{
    *nomem = false;
    pthread_mutex_lock(&ld->lock);
    struct batch *b = ld->free_batches;
    *made = !b && (ld->nbatches < ld->max_batches || over);
    if (b)
        ld->free_batches = b->next;
    ld->nbatches += *made;
    pthread_mutex_unlock(&ld->lock);
    /* Made without the lock: the caller's allocator may wait for a thread that releases a batch. */
    if (*made && charge(ld, (size_t)ld->batch_bytes, over)) {
        b = make_batch(ld);
        *nomem = !b;
        if (b)
            b->charged = (size_t)ld->batch_bytes;
        else
            stk_regions_uncharge(&ld->regions, (size_t)ld->batch_bytes);
    }
    if (*made && !b)
        put_back(ld, NULL, true);
    return b;
}

struct batch *stk_batch_take(struct stk_loader *ld, bool over, bool *nomem)
{
    bool made;
    struct batch *b = find_batch(ld, over, &made, nomem);
    if (b && !charge_batch(ld, b, over)) {
        put_back(ld, b, made);
        b = NULL;
    }
    if (!b)
        return NULL;
    for (size_t i = 0; i < ld->ncolumns; i++)
        memset(b->cell[i].set, SLOT_EMPTY, ld->o.batch);
    for (size_t i = 0; b->files && i < stk_watch_words(ld); i++)
        atomic_store_explicit(&b->files[i], 0, memory_order_relaxed);
    stk_arena_reset(&b->arena);
    b->next = NULL;
    b->bytes = 0;
    b->nfailures = b->nheld = b->nextra = 0;
    atomic_store_explicit(&b->checked, 0, memory_order_relaxed);
    atomic_store_explicit(&b->checked_bytes, 0, memory_order_relaxed);
    return b;
}

/* ---- while it is filled ---- */

int stk_batch_hold(struct batch *b, struct stretch *s)
{
    pthread_mutex_lock(&b->lock);
    if (b->nheld && b->held[b->nheld - 1] == s) {
        pthread_mutex_unlock(&b->lock);
        stk_stretch_drop(s); /* one reference is enough */
        return 0;
    }
    int rc = STK_ARRAY_ROOM(b->held, b->cap_held, b->nheld + 1, NULL);
    if (rc == 0)
        b->held[b->nheld++] = s;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void stk_batch_failed(struct batch *b, uint32_t slot, int code, const struct stk_err *why)
{
    pthread_mutex_lock(&b->lock);
    /* Without memory for the reason the slot stays empty, which is detected, too. */
    if (STK_ARRAY_ROOM(b->failure, b->cap_failures, b->nfailures + 1, NULL) == 0)
        b->failure[b->nfailures++] = (struct failure){.slot = slot, .code = code, .why = *why};
    pthread_mutex_unlock(&b->lock);
}

/* ---- given out ---- */

/* If some slot has no value of the expected form, the whole column becomes values. */
static int as_values(struct batch *b, size_t i, struct stk_err *err)
{
    const struct column *c = &b->ld->column[i];
    struct cell *cell = &b->cell[i];
    if (!cell->value)
        cell->value = calloc(b->ld->o.batch, sizeof *cell->value);
    if (!cell->value)
        return stk_err_nomem(err, b->ld->o.batch * sizeof *cell->value);
    for (size_t k = 0; k < b->size; k++) {
        struct stk_value *v = &cell->value[k];
        if (cell->set[k] == SLOT_VALUE)
            continue;
        *v = (struct stk_value){0};
        if (cell->set[k] == SLOT_EMPTY)
            continue;
        v->kind = c->kind;
        v->dtype = c->dtype;
        v->ndim = c->ndim;
        memcpy(v->dim, c->dim, sizeof v->dim);
        v->data =
            c->layout == STK_DENSE ? (const uint8_t *)cell->data + k * c->size : cell->span[k].data;
        v->size = c->layout == STK_DENSE ? c->size : cell->span[k].size;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct extra *)a)->name, ((const struct extra *)b)->name);
}

/* Columns that only this batch has, after those of all batches. */
static int add_extras(struct batch *b, struct stk_err *err)
{
    size_t n = b->ld->ncolumns;
    struct stk_column *all = realloc(b->column, (n + b->nextra + 1) * sizeof *all);
    if (!all)
        return stk_err_nomem(err, (n + b->nextra + 1) * sizeof *all);
    b->column = all;
    qsort(b->extra, b->nextra, sizeof *b->extra, by_name); /* whichever thread was first */
    for (size_t i = 0; i < b->nextra; i++) {
        const struct extra *x = &b->extra[i];
        struct stk_column *out = &all[n + i];
        *out = (struct stk_column){.name = x->name, .layout = STK_VALUES, .value = x->value};
        for (size_t k = 0; !out->kind && k < b->size; k++)
            out->kind = x->value[k].kind;
    }
    return 0;
}

int stk_batch_finish(struct batch *b, struct stk_err *err)
{
    struct stk_loader *ld = b->ld;
    if (b->nextra && add_extras(b, err) < 0)
        return STK_E_NOMEM;
    for (size_t i = 0; i < ld->ncolumns; i++) {
        const struct column *c = &ld->column[i];
        struct cell *cell = &b->cell[i];
        struct stk_column *out = &b->column[i];
        *out = (struct stk_column){.name = c->name,
                                   .layout = c->layout,
                                   .kind = c->kind,
                                   .dtype = c->dtype,
                                   .ndim = c->ndim,
                                   .data = cell->data,
                                   .span = cell->span};
        memcpy(out->dim, c->dim, sizeof out->dim);
        bool native = c->layout != STK_VALUES;
        for (size_t k = 0; native && k < b->size; k++)
            native = cell->set[k] == SLOT_NATIVE ||
                     (cell->set[k] == SLOT_EMPTY && c->layout == STK_SPANS);
        for (size_t k = 0; native && c->layout == STK_SPANS && k < b->size; k++)
            if (cell->set[k] == SLOT_EMPTY)
                cell->span[k] = (struct stk_span){0};
        int rc = native ? 0 : as_values(b, i, err);
        if (rc < 0)
            return rc;
        if (native)
            continue;
        out->layout = STK_VALUES;
        out->value = cell->value;
        out->kind = 0;
        for (size_t k = 0; !out->kind && k < b->size; k++)
            out->kind = cell->value[k].kind;
    }
    b->pub.n = b->size;
    b->pub.id = b->id;
    b->pub.flags = b->flags;
    b->pub.key = b->key;
    b->pub.ncolumns = ld->ncolumns + b->nextra;
    b->pub.column = b->column;
    return 0;
}

void stk_batch_release(struct stk_batch *pub)
{
    if (stk_live_end(pub))
        stk_batch_give_back((struct batch *)pub);
}

void stk_batch_give_back(struct batch *b)
{
    struct stk_loader *ld = b->ld;
    if (ld->pid != getpid()) /* after fork() another thread of the parent may hold the locks */
        return;
    for (size_t i = 0; i < b->nheld; i++)
        stk_stretch_drop(b->held[i]);
    b->nheld = 0;
    if (b->charged > ld->batch_bytes && stk_regions_tight(&ld->regions)) {
        stk_arena_release(&b->arena);
        stk_regions_uncharge(&ld->regions, b->charged - (size_t)ld->batch_bytes);
        b->charged = (size_t)ld->batch_bytes;
    }
    pthread_mutex_lock(&ld->lock);
    stk_watch_released(ld, b);
    bool keep = ld->nbatches <= ld->max_batches && !ld->stop;
    pthread_mutex_unlock(&ld->lock);
    put_back(ld, b, !keep);
    pthread_mutex_lock(&ld->lock);
    stk_feed_wake(ld);
    pthread_mutex_unlock(&ld->lock);
    stk_loader_unref(ld);
}
