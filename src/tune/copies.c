/*
 * copies.c - what the candidates need: data in another form or place, made by child processes. A
 * candidate that cannot be prepared is skipped by name.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/helper.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/units.h"
#include "model/work.h"
#include "tune/priv.h"

#define GRACE_S    20
#define SAID_MAX   8192
#define TIME_SHARE 0.5   /* of the budget: for all preparing */
#define PIECE      (1u << 20) /* of a read */
#define PER_FILE   4096u /* bytes that a copy adds to each file, at most */

static void skip(struct stk_tune_candidate *c, const char *fmt, ...) STK_PRINTF(2, 3);
static void skip(struct stk_tune_candidate *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->why, sizeof c->why, fmt, ap);
    va_end(ap);
    c->verdict = STK_TUNE_SKIPPED;
}

/* Bytes that a copy takes, at most. */
static uint64_t need_bytes(const struct stk_tune_subject *s, const struct stk_tune_change *c)
{
    return (c->use == STK_USE_INDEX ? 0 : s->bytes) + s->files * PER_FILE;
}

/* False: there is no room for it. */
static bool has_room(const struct stk_tuner *t, struct stk_tune_candidate *c, const char *dir,
                     uint64_t used)
{
    const struct stk_tune_change *x = &c->change[0];
    uint64_t need = need_bytes(&t->s, x), room = stk_tune_free_bytes(dir);
    uint64_t limit = t->plan->space_bytes;
    char a[32], b[32];
    if (x->where && t->s.near[x->near].room_bytes < room)
        room = t->s.near[x->near].room_bytes;
    uint64_t whole = stk_tune_whole_bytes(&t->s);
    if (x->where && whole > room)
        skip(c, "all of the data, %s, does not fit into %.150s, where %s are free",
             stk_format_size(whole, a, sizeof a), dir, stk_format_size(room, b, sizeof b));
    else if (need > room)
        skip(c, "it needs %s in %.150s, and %s are free", stk_format_size(need, a, sizeof a), dir,
             stk_format_size(room, b, sizeof b));
    else if (limit && used + need > limit)
        skip(c, "it needs %s, and --space %s is taken by other copies",
             stk_format_size(need, a, sizeof a), stk_format_size(limit, b, sizeof b));
    return c->verdict != STK_TUNE_SKIPPED;
}

/* ---- one copy ------------------------------------------------------------------------------- */

const char *stk_tune_reason(struct stk_buf *said)
{
    char *text = (char *)(uintptr_t)stk_buf_cstr(said), *end = strrchr(text, '\n');
    if (end && !end[1])
        *end = '\0';
    end = strrchr(text, '\n'); /* of what a library said before */
    return end ? end + 1 : text;
}

static int sync_folder(const char *path, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 || syncfs(fd) != 0;
    rc = rc ? stk_err_sys(err, path, "sync") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int measure_copy(struct stk_tune_copy *copy, struct stk_err *err)
{
    struct stk_tune_tree seen = {0};
    int rc = stk_tune_measure_tree(copy->path, &seen, err);
    copy->bytes = seen.bytes;
    copy->files = seen.files;
    return rc;
}

/* What making a copy takes on modelled storage: all of the data is read, and the copy written. */
static double modelled_s(const struct stk_tuner *t, const struct stk_tune_change *x)
{
    const struct stk_storage *from = &t->s.storage;
    const struct stk_storage *to = x->where ? &t->s.near[x->near].storage : from;
    struct stk_work read = stk_work_read(from, (double)t->s.bytes, PIECE);
    const struct stk_work write = {.creates = (double)x->copy.files,
                                   .written = (double)x->copy.bytes};
    read.opens = (double)t->s.files;
    read.requests = fmax(read.requests, read.opens);
    return stk_work_s(from, &read) + stk_work_s(to, &write);
}

struct making {
    struct stk_tuner *t;
    const struct stk_tune_change *change;
};

/* In the child: the path goes to its standard output, or the reason to its standard error. */
static int make(void *user)
{
    const struct making *m = user;
    struct stk_buf at = STK_BUF_INIT;
    struct stk_err err = {0};
    char why[1000];
    stk_helper_close(-1);
    int rc = m->change->kind->prepare(m->t, m->change, &at, &err);
    if (rc)
        stk_err_text(&err, why, sizeof why);
    const char *text = rc ? why : stk_buf_cstr(&at);
    rc = stk_write_full(rc ? STDERR_FILENO : STDOUT_FILENO, text, strlen(text), NULL, NULL) || rc;
    stk_buf_release(&at);
    return rc;
}

static int on_tick(void *user)
{
    const struct making *m = user;
    return stk_tuner_tick(m->t);
}

static int run_prepare(struct stk_tuner *t, struct stk_tune_candidate *c, double limit_s,
                       struct stk_err *err)
{
    struct stk_tune_change *x = &c->change[0];
    struct making making = {t, x};
    struct stk_buf at = STK_BUF_INIT, said = STK_BUF_INIT;
    struct stk_child child = {.inside = make,
                              .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                              .own_group = true,
                              .death_signal = SIGTERM,
                              .timeout_s = t->plan->storage ? 0 : limit_s,
                              .grace_s = GRACE_S,
                              .tick = on_tick,
                              .text = {NULL, &at, &said},
                              .text_max = {0, SAID_MAX, SAID_MAX},
                              .user = &making};
    double start = stk_tuner_now(t);
    errno = stk_child_start(&child);
    int rc = errno ? stk_err_sys(err, NULL, "start a child") : 0;
    if (!rc)
        (void)stk_child_attend(&child);
    if (!rc && child.stopped)
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    else if (!rc && child.timed_out)
        skip(c, "preparing it took more than %.0f s, its share of the budget: use a larger "
                "--budget",
             limit_s);
    else if (!rc && child.ending.status)
        skip(c, "%.280s", stk_tune_reason(&said));
    else if (!rc)
        rc = sync_folder(t->work.path, err);
    x->copy.at = stk_tune_text(t, "%s", stk_buf_cstr(&at));
    rc = rc || x->copy.at ? rc : stk_err_nomem(err, at.len);
    stk_buf_release(&at);
    stk_buf_release(&said);
    if (!rc && c->verdict != STK_TUNE_SKIPPED) {
        const struct stk_tune_copy *packed = x->kind->repacks ? stk_tune_packed(t) : NULL;
        rc = *x->copy.at ? measure_copy(&x->copy, err) : 0;
        t->passed_s += t->plan->storage ? modelled_s(t, x) : 0;
        x->copy.prepare_s = stk_tuner_now(t) - start + (packed ? packed->prepare_s : 0);
    }
    return rc;
}

const struct stk_tune_copy *stk_tune_packed(const struct stk_tuner *t)
{
    for (size_t i = 1; i < t->out->n; i++) {
        const struct stk_tune_change *x = &t->out->candidate[i].change[0];
        if (t->out->candidate[i].nchanges == 1 && x->kind->repacks && !x->where &&
            !isnan(x->copy.prepare_s))
            return &x->copy;
    }
    return NULL;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Storage that takes no folder is no reason to give up the other candidates. */
static bool enter(struct stk_tuner *t, struct stk_tune_candidate *c, const char **dir)
{
    const struct stk_tune_change *x = &c->change[0];
    struct stk_err why = {0};
    char text[300];
    if (!x->where || stk_tune_enter_near(t, x->near, dir, &why) == 0)
        return true;
    stk_err_text(&why, text, sizeof text);
    skip(c, "%s", text);
    return false;
}

static int prepare(struct stk_tuner *t, struct stk_tune_candidate *c, uint64_t *used,
                   double limit_s, struct stk_err *err)
{
    struct stk_tune_change *x = &c->change[0];
    const char *dir = t->work.path;
    int rc = 0;
    if (!enter(t, c, &dir))
        return 0;
    x->copy.path = stk_tune_text(t, "%s/%s", dir, stk_base_name(x->copy.path));
    if (!x->copy.path)
        return stk_err_nomem(err, strlen(dir));
    if (t->resumed) /* one that was not made to its end */
        rc = stk_remove_tree(x->copy.path, err);
    if (rc || !has_room(t, c, dir, *used))
        return rc;
    if (stk_tuner_doing(t, "preparing: %s", c->label))
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    rc = run_prepare(t, c, limit_s, err);
    *used += x->copy.bytes;
    return rc ? rc : stk_tune_write_state(t, err);
}

static bool needs_copy(const struct stk_tune_candidate *c)
{
    return c->nchanges == 1 && c->change[0].copy.path && c->change[0].kind->prepare &&
           c->verdict == STK_TUNE_UNCLEAR;
}

static bool saves_there(const struct stk_tuner *t, const struct stk_tune_candidate *c)
{
    return c->nchanges == 1 && c->change[0].kind->helps == STK_HELPS_SAVES &&
           c->verdict == STK_TUNE_UNCLEAR && stk_tune_saves_at(t, &c->change[0]);
}

/* Of an earlier call. */
static bool is_there(const struct stk_tune_copy *copy)
{
    return copy->at && !isnan(copy->prepare_s) && access(copy->at, R_OK) == 0;
}

int stk_tune_make_copies(struct stk_tuner *t, struct stk_err *err)
{
    double until = stk_tuner_now(t) + TIME_SHARE * stk_tuner_left_s(t);
    uint64_t used = 0;
    int rc = 0;
    for (size_t i = 1; i < t->out->n && !rc; i++) {
        struct stk_tune_candidate *c = &t->out->candidate[i];
        struct stk_tune_copy *copy = &c->change[0].copy;
        double left = until - stk_tuner_now(t);
        const char *dir;
        if (saves_there(t, c))
            (void)enter(t, c, &dir);
        if (!needs_copy(c))
            continue;
        if (is_there(copy)) {
            used += copy->bytes;
            continue;
        }
        copy->at = NULL;
        copy->prepare_s = NAN;
        if (left < 1)
            skip(c, "no time is left to prepare it: use a larger --budget");
        else
            rc = prepare(t, c, &used, left, err);
    }
    return rc;
}
