/*
 * check.c - a ring of blocks. A thread claims the next block, reads it, and checks its records when
 * the listing is past it; it has two blocks at a time, so that it reads one while the listing is in
 * the other. The listing thread does the same while it waits for a block, and joins and checks the
 * few records that cross blocks.
 */
#include "dataset/priv.h"
#include "base/buf.h"
#include "base/file.h"
#include "dataset/dataset.h"
#include "format/sample.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>

#define OWN_BLOCKS  2u /* per thread, at a time */
#define MAX_HELPERS 16u
#define AHEAD       (16u << 20) /* how far ahead the kernel reads */
#define MAX_RING    (OWN_BLOCKS * (MAX_HELPERS + 1))
#define JOIN_MAX    (16u << 20) /* a longer record that crosses blocks is read again later */

struct record {
    uint64_t off, len;
    const struct stk_codec *codec;
};

enum block_state { FREE, READING, READY, PASSED };

struct block {
    enum block_state state;
    uint64_t number;
    unsigned owner;
    int rc; /* of the read */
    struct stk_err err;
    uint8_t *data;
    size_t len;
    struct stk_buf records; /* struct record, complete in the block */
};

struct stk_check {
    struct stk_blocks feed;
    struct stk_checker *checker;
    const struct stk_format *format;
    const char *path;
    int fd;
    uint32_t file;
    uint64_t size, nblocks;
    struct stk_buf listed;    /* struct record reported that is not yet in a passed block */
    struct stk_buf joined;    /* the bytes so far of the record that crosses blocks */
    struct stk_sample sample; /* of the listing thread */
    bool missed;
    struct stk_problems problems; /* under the checker's lock */
    uint64_t passed;              /* blocks the listing is past */
    _Atomic uint64_t advised;     /* the kernel was asked to read up to here */

    pthread_mutex_t lock; /* everything below */
    pthread_cond_t changed;
    struct block ring[MAX_RING];
    unsigned nring;
    uint64_t next; /* block to be claimed */
    bool closing;
    pthread_t thread[MAX_HELPERS];
    unsigned nthreads, started;
};

/* ---- the dataset's part ---- */

void stk_checker_init(struct stk_checker *c,
                      void (*problem)(void *user, const struct stk_err *what), void *user)
{
    *c = (struct stk_checker){.problem = problem, .user = user};
    pthread_mutex_init(&c->lock, NULL);
}

void stk_checker_release(struct stk_checker *c)
{
    free(c->missed);
    pthread_mutex_destroy(&c->lock);
}

bool stk_checker_saw_all(const struct stk_checker *c, uint64_t file)
{
    return file >= c->nmissed || !c->missed[file];
}

static int note_missed(struct stk_checker *c, uint32_t file, struct stk_err *err)
{
    int rc = 0;
    pthread_mutex_lock(&c->lock);
    if (file >= c->nmissed) {
        size_t before = c->nmissed;
        rc = STK_ARRAY_ROOM(c->missed, c->nmissed, (size_t)file + 1, err);
        if (rc == 0)
            memset(c->missed + before, 0, c->nmissed - before);
    }
    if (rc == 0)
        c->missed[file] = 1;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* ---- records ---- */

static void check_record(struct stk_check *k, const struct record *r, const uint8_t *frame,
                         struct stk_sample *s)
{
    const struct stk_format *f = k->format;
    struct stk_err why = {0};
    uint64_t at = r->off - f->head;
    int rc = f->check(frame, r->len, NULL, k->path, at, &why);
    if (rc == 0 && r->codec) {
        stk_sample_reset(s);
        rc = r->codec->explode("", 0, frame + f->head, (size_t)r->len, s, &why);
        if (rc < 0 && !why.path[0]) {
            struct stk_err bare = why;
            stk_err_set(&why, bare.code, k->path, (int64_t)at, "%s", bare.what);
        }
    }
    if (rc < 0) {
        pthread_mutex_lock(&k->checker->lock);
        stk_problems_add(&k->problems, k->path, why.offset, why.what);
        pthread_mutex_unlock(&k->checker->lock);
    }
}

static void check_block(struct stk_check *k, const struct block *b, struct stk_sample *s)
{
    const struct record *r = (const void *)b->records.data;
    for (size_t i = 0; i < b->records.len / sizeof *r; i++)
        check_record(k, &r[i], b->data + (r[i].off - k->format->head - b->number * STK_SRC_BLOCK),
                     s);
}

/* ---- reading ---- */

/* Storage gets requests much larger than a block. */
static void read_ahead(struct stk_check *k, uint64_t off)
{
    uint64_t advised = atomic_load(&k->advised);
    if (off + AHEAD / 2 < advised)
        return;
    uint64_t from = advised > off ? advised : off;
    if (atomic_compare_exchange_strong(&k->advised, &advised, from + AHEAD))
        (void)posix_fadvise(k->fd, (off_t)from, AHEAD, POSIX_FADV_WILLNEED);
}

static void read_block(struct stk_check *k, struct block *b)
{
    uint64_t off = b->number * STK_SRC_BLOCK;
    size_t want = k->size - off < STK_SRC_BLOCK ? (size_t)(k->size - off) : STK_SRC_BLOCK, got;
    b->err = (struct stk_err){0};
    b->rc = 0;
    b->len = want;
    if (stk_pread_cached(k->fd, b->data, want, off))
        return;
    read_ahead(k, off);
    b->rc = stk_pread_full(k->fd, b->data, want, off, &got, k->path, &b->err);
    if (b->rc == 0 && got < want)
        b->rc = stk_err_set(&b->err, STK_E_CORRUPT, k->path, (int64_t)(off + got),
                            "the file became shorter while it was read");
    b->len = b->rc == 0 ? want : 0;
}

/* Claims the next block if there is one and its place in the ring is free. Lock held. */
static struct block *claim(struct stk_check *k, unsigned owner)
{
    struct block *b = &k->ring[k->next % k->nring];
    if (k->next >= k->nblocks || k->closing || b->state != FREE)
        return NULL;
    b->state = READING;
    b->owner = owner;
    b->number = k->next++;
    stk_buf_reset(&b->records);
    return b;
}

/* A thread's oldest block to be checked, and the number of its blocks. Lock held. */
static struct block *own_passed(struct stk_check *k, unsigned owner, unsigned *owned)
{
    struct block *first = NULL;
    *owned = 0;
    for (unsigned i = 0; i < k->nring; i++) {
        struct block *b = &k->ring[i];
        if (b->state == FREE || b->owner != owner)
            continue;
        ++*owned;
        if (b->state == PASSED && (!first || b->number < first->number))
            first = b;
    }
    return first;
}

/* Checks or reads one block, whichever is due. False: neither. Lock held, released meanwhile. */
static bool step(struct stk_check *k, unsigned me, struct stk_sample *s)
{
    unsigned owned;
    struct block *b = own_passed(k, me, &owned);
    bool passed = b != NULL;
    if (!b && owned < OWN_BLOCKS)
        b = claim(k, me);
    if (!b)
        return false;
    pthread_mutex_unlock(&k->lock);
    if (passed)
        check_block(k, b, s);
    else
        read_block(k, b);
    pthread_mutex_lock(&k->lock);
    b->state = passed ? FREE : READY;
    pthread_cond_broadcast(&k->changed);
    return true;
}

static void *helper(void *arg)
{
    struct stk_check *k = arg;
    struct stk_sample s;
    stk_sample_init(&s);
    pthread_mutex_lock(&k->lock);
    unsigned me = ++k->started; /* 0 is the listing thread */
    for (;;) {
        if (step(k, me, &s))
            continue;
        if (k->closing)
            break;
        pthread_cond_wait(&k->changed, &k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    stk_sample_release(&s);
    return NULL;
}

/* ---- what the listing calls ---- */

/* While the block is not loaded, the listing thread reads and checks like the others. */
static int feed_get(struct stk_blocks *f, uint64_t number, const uint8_t **p, struct stk_err *err)
{
    struct stk_check *k = (struct stk_check *)f;
    struct block *b = &k->ring[number % k->nring];
    pthread_mutex_lock(&k->lock);
    while (!(b->state == READY && b->number == number))
        if (!step(k, 0, &k->sample))
            pthread_cond_wait(&k->changed, &k->lock);
    pthread_mutex_unlock(&k->lock);
    *p = b->data;
    if (b->rc < 0 && err)
        *err = b->err;
    return b->rc;
}

static uint64_t frame_begin(const struct stk_check *k, const struct record *r)
{
    return r->off - k->format->head;
}

static uint64_t frame_end(const struct stk_check *k, const struct record *r)
{
    return r->off + r->len + k->format->tail;
}

/* Adds a block's bytes to the record that crosses blocks, and checks it when complete. Returns true
 * when it is finished. */
static bool join(struct stk_check *k, const struct record *r, const struct block *b)
{
    uint64_t begin = b->number * STK_SRC_BLOCK, end = begin + b->len;
    uint64_t from = frame_begin(k, r), to = frame_end(k, r);
    from = from > begin ? from : begin;
    uint64_t until = to < end ? to : end;
    if (to - frame_begin(k, r) <= JOIN_MAX)
        stk_buf_put(&k->joined, b->data + (from - begin), (size_t)(until - from));
    if (to > end)
        return false;
    if (k->joined.fail || k->joined.len != to - frame_begin(k, r))
        k->missed = true;
    else
        check_record(k, r, k->joined.data, &k->sample);
    stk_buf_reset(&k->joined);
    return true;
}

/* Assigns the records reported so far to the block: complete ones to its owner; joins crossing
 * ones. */
static void deal(struct stk_check *k, struct block *b)
{
    struct record *r = (void *)k->listed.data;
    size_t n = k->listed.len / sizeof *r, i = 0;
    uint64_t begin = b->number * STK_SRC_BLOCK, end = begin + b->len;
    for (; i < n && frame_begin(k, &r[i]) < end; i++) {
        bool whole = frame_begin(k, &r[i]) >= begin && frame_end(k, &r[i]) <= end;
        if (whole)
            stk_buf_put(&b->records, &r[i], sizeof r[i]);
        else if (!join(k, &r[i], b))
            break; /* it continues in the next block */
    }
    k->missed = k->missed || b->records.fail;
    k->listed.len = (n - i) * sizeof *r;
    if (i && k->listed.len)
        memmove(r, r + i, k->listed.len);
}

static int feed_done(struct stk_blocks *f, uint64_t number, struct stk_err *err)
{
    struct stk_check *k = (struct stk_check *)f;
    const uint8_t *p;
    int rc = feed_get(f, number, &p, err);
    if (rc < 0)
        return rc;
    struct block *b = &k->ring[number % k->nring];
    deal(k, b);
    k->passed = number + 1;
    pthread_mutex_lock(&k->lock);
    b->state = PASSED;
    if (b->owner != 0)
        pthread_cond_broadcast(&k->changed);
    pthread_mutex_unlock(&k->lock);
    return 0;
}

int stk_check_record(struct stk_check *k, uint64_t off, uint64_t len, const struct stk_codec *codec,
                     struct stk_err *err)
{
    struct record r = {.off = off, .len = len, .codec = codec};
    if (frame_begin(k, &r) < k->passed * STK_SRC_BLOCK) {
        k->missed = true; /* its first block is gone: the listing looked past it first */
        return 0;
    }
    stk_buf_put(&k->listed, &r, sizeof r);
    return stk_buf_check(&k->listed, err);
}

struct stk_blocks *stk_check_feed(struct stk_check *k)
{
    return &k->feed;
}

/* ---- life ---- */

static void check_free(struct stk_check *k)
{
    for (unsigned i = 0; i < k->nring; i++) {
        free(k->ring[i].data);
        stk_buf_release(&k->ring[i].records);
    }
    stk_buf_release(&k->listed);
    stk_buf_release(&k->joined);
    stk_problems_release(&k->problems);
    stk_sample_release(&k->sample);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    free(k);
}

int stk_check_open(struct stk_checker *c, const struct stk_format *f, const struct stk_src *src,
                   uint32_t file, unsigned helpers, struct stk_check **out, struct stk_err *err)
{
    struct stk_check *k = calloc(1, sizeof *k);
    if (!k)
        return stk_err_nomem(err, sizeof *k);
    k->feed = (struct stk_blocks){.get = feed_get, .done = feed_done};
    k->checker = c;
    k->format = f;
    k->path = stk_src_path(src);
    k->fd = stk_src_fd(src);
    k->file = file;
    k->size = stk_src_size(src);
    k->nblocks = (k->size + STK_SRC_BLOCK - 1) / STK_SRC_BLOCK;
    stk_sample_init(&k->sample);
    pthread_mutex_init(&k->lock, NULL);
    pthread_cond_init(&k->changed, NULL);
    helpers = helpers > MAX_HELPERS ? MAX_HELPERS : helpers;
    unsigned nring = (helpers + 1) * OWN_BLOCKS;
    for (; k->nring < nring; k->nring++)
        if (!(k->ring[k->nring].data = malloc(STK_SRC_BLOCK))) {
            check_free(k);
            return stk_err_nomem(err, STK_SRC_BLOCK);
        }
    pthread_mutex_lock(&k->lock);
    while (k->nthreads < helpers && pthread_create(&k->thread[k->nthreads], NULL, helper, k) == 0)
        k->nthreads++;
    pthread_mutex_unlock(&k->lock);
    *out = k;
    return 0;
}

/* Reports the problems, except those of a file that is read again and will show them again. */
static void tell(struct stk_check *k)
{
    for (uint64_t i = 0; i < k->problems.count; i++) {
        const struct stk_problem *p = i < k->problems.kept ? &k->problems.item[i] : NULL;
        struct stk_err e;
        stk_err_set(&e, STK_E_CORRUPT, k->path, p ? p->offset : -1, "%s",
                    p ? p->what : "more damage");
        k->checker->problem(k->checker->user, &e);
    }
}

/* The last blocks of the listing, which no later peek marked as passed. */
static int pass_rest(struct stk_check *k, struct stk_err *err)
{
    int rc = 0;
    while (rc == 0 && k->listed.len) {
        const struct record *r = (const void *)k->listed.data;
        uint64_t before = k->listed.len, at = frame_begin(k, r) + k->joined.len;
        if (frame_end(k, r) - frame_begin(k, r) > JOIN_MAX)
            break;
        rc = feed_done(&k->feed, at / STK_SRC_BLOCK, err);
        if (rc == 0 && k->listed.len == before && k->joined.len == 0)
            break; /* a record before the remaining blocks: out of order */
    }
    return rc;
}

int stk_check_close(struct stk_check *k, bool complete, struct stk_err *err)
{
    int rc = complete ? pass_rest(k, err) : 0;
    pthread_mutex_lock(&k->lock);
    k->closing = true;
    pthread_cond_broadcast(&k->changed);
    while (step(k, 0, &k->sample))
        ; /* the blocks this thread still has to check */
    pthread_mutex_unlock(&k->lock);
    for (unsigned i = 0; i < k->nthreads; i++)
        pthread_join(k->thread[i], NULL);
    if (!complete || rc < 0 || k->missed || k->listed.len) {
        int noted = note_missed(k->checker, k->file, rc == 0 ? err : NULL);
        rc = rc < 0 ? rc : noted;
    } else {
        tell(k);
    }
    check_free(k);
    return rc;
}
