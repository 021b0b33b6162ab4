/*
 * copies.c - what the candidates need: data in another form or place, made by child processes. A
 * candidate that cannot be prepared is skipped by name.
 */
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/helper.h"
#include "base/units.h"
#include "model/work.h"
#include "tune/priv.h"

#define TIME_SHARE 0.5   /* of the budget: for all preparing */
#define PIECE      (1u << 20) /* of a read */
#define PER_FILE   4096u /* bytes that a copy adds to each file, at most */

/* While copies are made. */
struct shop {
    struct stk_tuner *t;
    const struct stk_tune_subject *s;
    const struct stk_tune_list *list;
    struct stk_tune_copy *copy; /* of all candidates */
    uint64_t used;              /* bytes of all copies */
};

static void skip(struct shop *shop, struct stk_tune_copy *copy, const char *fmt, ...)
    STK_PRINTF(3, 4);
static void skip(struct shop *shop, struct stk_tune_copy *copy, const char *fmt, ...)
{
    char text[320];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const char *why = stk_tune_text(&shop->t->out->arena, "%s", text);
    copy->why = why ? why : "there is no memory";
}

/* ---- is there room? ---------------------------------------------------------------------------
 */

/* Bytes that a copy takes, at most. */
static uint64_t need_bytes(const struct stk_tune_subject *s, const struct stk_tune_change *c)
{
    return (c->use == STK_USE_INDEX ? 0 : s->bytes) + s->files * PER_FILE;
}

/* Says why not. */
static void find_room(struct shop *shop, const struct stk_tune_change *x, const char *dir,
                     struct stk_tune_copy *copy)
{
    const struct stk_tune_subject *s = shop->s;
    uint64_t need = need_bytes(s, x), room = stk_tune_free_bytes(dir);
    uint64_t limit = shop->t->plan.space_bytes, whole = stk_tune_whole_bytes(s);
    char a[32], b[32];
    if (x->where && s->near[x->near].room_bytes < room)
        room = s->near[x->near].room_bytes;
    if (x->where && whole > room)
        skip(shop, copy, "all of the data, %s, does not fit into %.150s, where %s are free",
             stk_format_size(whole, a, sizeof a), dir, stk_format_size(room, b, sizeof b));
    else if (need > room)
        skip(shop, copy, "it needs %s in %.150s, and %s are free",
             stk_format_size(need, a, sizeof a), dir, stk_format_size(room, b, sizeof b));
    else if (limit && shop->used + need > limit)
        skip(shop, copy, "it needs %s, and --space %s is taken by other copies",
             stk_format_size(need, a, sizeof a), stk_format_size(limit, b, sizeof b));
}

/* ---- one copy ------------------------------------------------------------------------------- */

static int sync_folder(const char *path, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 || syncfs(fd) != 0;
    rc = rc ? stk_err_sys(err, path, "sync") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* What making a copy takes on modelled storage: all of the data is read, and the copy written. */
static double modelled_s(const struct stk_tune_subject *s, const struct stk_tune_change *x,
                         const struct stk_tune_copy *copy)
{
    const struct stk_storage *from = &s->storage;
    const struct stk_storage *to = x->where ? &s->near[x->near].storage : from;
    struct stk_work read = stk_work_read(from, (double)s->bytes, PIECE);
    const struct stk_work write = {.creates = (double)copy->files, .written = (double)copy->bytes};
    read.opens = (double)s->files;
    read.requests = fmax(read.requests, read.opens);
    return stk_work_s(from, &read) + stk_work_s(to, &write);
}

/* The path goes to its standard output, or the reason to its standard error. */
static int make(void *user)
{
    const struct stk_tune_making *m = user;
    struct stk_buf at = STK_BUF_INIT;
    struct stk_err err = {0};
    char why[1000];
    stk_helper_close(-1);
    int rc = m->change->kind->prepare(m, &at, &err);
    if (rc)
        stk_err_text(&err, why, sizeof why);
    const char *text = rc ? why : stk_buf_cstr(&at);
    rc = stk_write_full(rc ? STDERR_FILENO : STDOUT_FILENO, text, strlen(text), NULL, NULL) || rc;
    stk_buf_release(&at);
    return rc;
}

/* A packed copy, from which others are made: reading it is faster than the data as it is. NULL:
 * there is none. */
static const struct stk_tune_copy *packed_copy(const struct shop *shop)
{
    for (size_t i = 1; i < shop->list->n; i++) {
        const struct stk_tune_change *x = &shop->list->item[i].change[0];
        if (x->kind->repacks && !x->where && !isnan(shop->copy[i].prepare_s))
            return &shop->copy[i];
    }
    return NULL;
}

/* How large it is, and what it took. */
static int weigh(struct shop *shop, const struct stk_tune_change *x, double begin_s,
                 struct stk_tune_copy *copy, struct stk_err *err)
{
    struct stk_tuner *t = shop->t;
    const struct stk_tune_copy *packed = x->kind->repacks ? packed_copy(shop) : NULL;
    struct stk_tune_files seen = {0};
    int rc = sync_folder(t->work.path, err);
    if (!rc && *copy->at)
        rc = stk_tune_files_count(copy->path, NULL, NULL, NULL, &seen, err);
    copy->bytes = seen.bytes;
    copy->files = seen.n;
    t->passed_s += t->plan.storage ? modelled_s(shop->s, x, copy) : 0;
    copy->prepare_s = stk_tuner_now(t) - begin_s + (packed ? packed->prepare_s : 0);
    shop->used += copy->bytes;
    return rc;
}

static int run_prepare(struct shop *shop, const struct stk_tune_change *x, double limit_s,
                       struct stk_tune_copy *copy, struct stk_err *err)
{
    struct stk_tuner *t = shop->t;
    const struct stk_tune_copy *packed = x->kind->repacks ? packed_copy(shop) : NULL;
    struct stk_tune_making m = {.s = shop->s, .change = x, .path = copy->path,
                                .packed = packed ? packed->path : NULL,
                                .source = t->plan.data ? shop->s->save : shop->s->source};
    struct stk_tune_child c = {.inside = make, .user = &m, .text = STK_BUF_INIT,
                               .limit_s = t->plan.storage ? 0 : limit_s};
    double begin_s = stk_tuner_now(t);
    int rc = stk_tune_in_child(t, &c, err);
    if (!rc && c.timed_out)
        skip(shop, copy,
             "preparing it took more than %.0f s, its share of the budget: use a larger "
             "--budget",
             limit_s);
    else if (!rc && c.why)
        skip(shop, copy, "%.280s", c.why);
    copy->at = stk_tune_text(&t->out->arena, "%s", stk_buf_cstr(&c.text));
    stk_buf_release(&c.text);
    rc = rc || copy->at ? rc : stk_err_nomem(err, 1);
    return rc || copy->why ? rc : weigh(shop, x, begin_s, copy, err);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Storage that takes no folder is no reason to give up the other candidates. */
static void enter(struct shop *shop, const struct stk_tune_change *x, struct stk_tune_copy *copy)
{
    struct stk_err why = {0};
    char text[300];
    if (x->where && stk_tune_enter(shop->t->folder[x->near], &why) != 0)
        skip(shop, copy, "%s", stk_err_text(&why, text, sizeof text));
}

static int prepare(struct shop *shop, size_t i, double limit_s, struct stk_err *err)
{
    const struct stk_tune_change *x = &shop->list->item[i].change[0];
    struct stk_tune_copy *copy = &shop->copy[i];
    const char *dir = x->where ? shop->t->folder[x->near] : shop->t->work.path;
    int rc = 0;
    *copy = (struct stk_tune_copy){.prepare_s = NAN};
    if (limit_s < 1)
        skip(shop, copy, "no time is left to prepare it: use a larger --budget");
    else
        enter(shop, x, copy);
    if (copy->why)
        return 0;
    copy->path = stk_tune_text(&shop->t->out->arena, "%s/%s", dir, x->makes);
    if (!copy->path)
        return stk_err_nomem(err, strlen(dir));
    if (shop->t->resumed) /* one that was not made to its end */
        rc = stk_remove_tree(copy->path, err);
    find_room(shop, x, dir, copy);
    if (rc || copy->why)
        return rc;
    rc = stk_tuner_doing(shop->t, err, "preparing: %s", shop->list->item[i].label);
    return rc ? rc : run_prepare(shop, x, limit_s, copy, err);
}

/* Of an earlier call. */
static bool is_there(const struct stk_tune_copy *copy)
{
    return copy->at && !isnan(copy->prepare_s) && access(copy->at, R_OK) == 0;
}

static int begin_copies(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    if (f->copy) /* of the call that is resumed */
        return 0;
    f->copy = stk_arena_alloc(&t->out->arena, f->list.n * sizeof *f->copy);
    for (size_t i = 0; f->copy && i < f->list.n; i++)
        f->copy[i] = (struct stk_tune_copy){.prepare_s = NAN};
    return f->copy ? 0 : stk_err_nomem(err, f->list.n);
}

int stk_tune_make_copies(struct stk_tuner *t, struct stk_tune_found *f, struct stk_err *err)
{
    double until = stk_tuner_now(t) + TIME_SHARE * stk_tuner_left_s(t);
    int rc = begin_copies(t, f, err);
    struct shop shop = {.t = t, .s = &f->subject, .list = &f->list, .copy = f->copy};
    for (size_t i = 1; i < f->list.n && !rc; i++) {
        const struct stk_tune_change *x = &f->list.item[i].change[0];
        struct stk_tune_copy *copy = &f->copy[i];
        if (f->expected[i].verdict != STK_TUNE_UNCLEAR)
            continue;
        if (x->kind->helps == STK_HELPS_SAVES && stk_tune_saves_at(t, x))
            enter(&shop, x, copy);
        if (!x->makes || !x->kind->prepare)
            continue;
        if (is_there(copy)) {
            shop.used += copy->bytes;
            continue;
        }
        rc = prepare(&shop, i, until - stk_tuner_now(t), err);
        if (!rc && !copy->why)
            rc = stk_tune_write_state(t, f, err);
    }
    return rc;
}
