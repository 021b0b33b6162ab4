/*
 * copy_write.c - what becomes of parcels that were read: threads hash them, give them to the sink, and
 * finish their files.
 *
 * Reads end in any order. If the hash of a whole file is to be compared, a parcel that came early
 * keeps its buffer until its turn: the thread that has the next one hashes all that follow. Reads
 * are submitted in order, so the parcel that all wait for is always in flight.
 */
#include <stdlib.h>

#include "stage/copy_large.h"

/* ---- errors ---- */

void stk_large_fail(struct large *l, int rc, const struct stk_err *err)
{
    pthread_mutex_lock(&l->lock);
    if (l->rc == 0) {
        l->rc = rc;
        l->err = *err;
    }
    pthread_mutex_unlock(&l->lock);
    atomic_store(&l->c->stop, true);
}

void stk_large_give_back(struct large *l, struct cargo *x)
{
    pthread_mutex_lock(&l->lock);
    x->flow = NULL;
    x->link = l->free;
    l->free = x;
    pthread_mutex_unlock(&l->lock);
    stk_io_wake(l->io);
}

/* ---- the hash of a whole file ---- */

static void insert_early(struct flow *f, struct cargo *x)
{
    struct cargo **at = &f->early;
    while (*at && (*at)->parcel < x->parcel)
        at = &(*at)->link;
    x->link = *at;
    *at = x;
}

/* The parcel whose turn it is; any, if the whole file is not hashed. *hash: hash it. */
static struct cargo *take_early(struct large *l, struct flow *f, bool *hash)
{
    pthread_mutex_lock(&l->lock);
    struct cargo *x = f->early;
    x = x && (x->parcel == f->next || !f->in_order) ? x : NULL;
    if (x)
        f->early = x->link;
    else
        f->passing = false;
    f->next += x != NULL;
    *hash = f->in_order;
    pthread_mutex_unlock(&l->lock);
    return x;
}

uint64_t stk_large_pass(struct large *l, struct flow *f, struct cargo *x)
{
    uint64_t over = 0;
    bool hash;
    pthread_mutex_lock(&l->lock);
    if (x)
        insert_early(f, x);
    bool mine = !f->passing;
    f->passing = true;
    pthread_mutex_unlock(&l->lock);
    for (struct cargo *y; mine && (y = take_early(l, f, &hash)); over++) {
        if (hash)
            stk_hash_update(&f->hash, y->req.data, y->req.len);
        stk_large_give_back(l, y);
    }
    return over;
}

void stk_large_forget_hash(struct large *l, struct flow *f)
{
    pthread_mutex_lock(&l->lock);
    f->in_order = false;
    pthread_mutex_unlock(&l->lock);
}

/* ---- writers ---- */

static int finish(struct large *l, struct flow *f, struct stk_err *err)
{
    struct stk_copying *c = l->c;
    const struct stk_tier_file *file = &c->src->file[f->part->file];
    /* If nothing is to be hashed, nor shall the tier do so. */
    bool known = f->in_order || (c->o->no_hash && file->hashed);
    uint64_t hash = f->in_order ? stk_hash_final(&f->hash) : file->hash;
    if (!f->whole)
        return 0;
    int rc =
        c->sink->finish ? c->sink->finish(c->sink, f->part->file, known ? &hash : NULL, err) : 0;
    return rc ? rc : stk_copying_tell(c, 0, 1, err);
}

void stk_large_settle(struct large *l, struct flow *f, uint64_t n)
{
    struct stk_err err = {0};
    pthread_mutex_lock(&l->lock);
    f->left -= n;
    bool last = n && f->left == 0;
    pthread_mutex_unlock(&l->lock);
    if (!last)
        return;
    int rc = stk_large_stopping(l) ? 0 : finish(l, f, &err);
    if (rc < 0)
        stk_large_fail(l, rc, &err);
}

/* Why a read gave nothing usable; 0: it did. */
static int check_read(struct large *l, struct cargo *x, struct stk_err *err)
{
    struct stk_io_req *req = &x->req;
    if (req->code < 0 && req->why)
        *err = *req->why;
    else if (req->code < 0)
        stk_err_set(err, req->code, NULL, -1, "cannot be read");
    else if (req->changed)
        stk_err_set(err, STK_E_STALE, NULL, -1, "the file changed while it was copied; run again");
    int rc = req->code < 0 ? stk_copying_judge(req->code, err) : req->changed ? STK_E_STALE : 0;
    if (rc)
        stk_files_blame(&l->c->src->files, req->file, err);
    free(req->why);
    req->why = NULL;
    return rc;
}

/* Hashes up to byte n. */
static void hash_to(struct cargo *x, size_t n)
{
    x->hash = stk_tier_hash_more(x->hash, x->req.data + x->hashed, n - x->hashed);
    x->hashed = n;
}

void stk_large_arrived(struct stk_io_req *req, size_t n)
{
    struct cargo *x = req->user;
    if (n == 0)
        x->hash = x->hashed = 0;
    hash_to(x, n);
}

static int put(struct large *l, struct cargo *x, struct stk_err *err)
{
    struct stk_copying *c = l->c;
    if (!c->o->no_hash)
        hash_to(x, x->req.len);
    int rc = c->sink->put(c->sink, x->req.file, x->parcel, x->req.data, x->req.len, x->hash, err);
    if (rc == 1) {
        pthread_mutex_lock(&l->lock);
        x->flow->whole = true;
        pthread_mutex_unlock(&l->lock);
    }
    return rc < 0 ? rc : stk_copying_tell(c, x->req.len, 0, err);
}

/* One that arrived, good or bad. */
static void take_cargo(struct large *l, struct cargo *x)
{
    struct stk_copying *c = l->c;
    struct flow *f = x->flow;
    struct stk_err err = {0};
    int rc = check_read(l, x, &err);
    if (rc == 0 && !stk_large_stopping(l))
        rc = put(l, x, &err);
    if (c->sink->drop)
        c->sink->drop(c->sink, x->req.file, x->parcel);
    if (rc < 0) {
        stk_large_forget_hash(l, f);
        stk_large_fail(l, rc, &err);
    }
    stk_large_settle(l, f, stk_large_pass(l, f, x));
}

static struct cargo *wait_ready(struct large *l)
{
    pthread_mutex_lock(&l->lock);
    while (!l->ready && !l->over)
        pthread_cond_wait(&l->ready_cond, &l->lock);
    struct cargo *x = l->ready;
    if (x && !(l->ready = x->link))
        l->ready_last = &l->ready;
    pthread_mutex_unlock(&l->lock);
    return x;
}

void *stk_large_write(void *user)
{
    struct large *l = user;
    for (struct cargo *x; (x = wait_ready(l));)
        take_cargo(l, x);
    return NULL;
}
