/*
 * check.c - windows of records go through a short queue to a few threads. Where the queue is full the
 * thread that lists checks the window itself, so that all are busy and memory stays bounded.
 */
#include "data/check.h"

#include <pthread.h>
#include <stdlib.h>

#define QUEUE_MAX 8u

struct job {
    const struct stk_format *format;
    char *path;
    struct stk_buf win, rec; /* rec: struct stk_seen */
    uint64_t win_off;
};

struct stk_checker {
    struct stk_watcher watcher;
    void (*problem)(void *user, const struct stk_err *what);
    void *user;
    pthread_t *thread;
    unsigned nthreads;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct job queue[QUEUE_MAX];
    unsigned head, queued, at_work;
    struct stk_buf spare[QUEUE_MAX]; /* window buffers to use again */
    unsigned nspare;
    bool closing;
    int rc;
    struct stk_err err;
    uint8_t *missed; /* a byte for each file */
    uint64_t nmissed;
};

/* ---- checking ---- */

static int check_record(const struct job *j, const struct stk_seen *r, struct stk_sample *s,
                        struct stk_err *err)
{
    const struct stk_format *f = j->format;
    const uint8_t *frame = j->win.data + (r->off - f->head - j->win_off);
    int rc = f->check(frame, r->len, j->path, r->off - f->head, err);
    if (rc < 0 || !r->codec)
        return rc;
    stk_sample_reset(s);
    rc = r->codec->explode("", 0, frame + f->head, (size_t)r->len, s, err);
    if (rc < 0 && err && !err->path[0]) {
        struct stk_err why = *err;
        stk_err_set(err, why.code, j->path, (int64_t)(r->off - f->head), "%s", why.what);
    }
    return rc;
}

static int check_job(struct stk_checker *c, const struct job *j, struct stk_err *err)
{
    struct stk_sample s;
    const struct stk_seen *rec = (const void *)j->rec.data;
    int rc = 0;
    stk_sample_init(&s);
    for (size_t i = 0; rc == 0 && i < j->rec.len / sizeof *rec; i++) {
        struct stk_err why = {0};
        int one = check_record(j, &rec[i], &s, &why);
        if (one == STK_E_NOMEM)
            rc = stk_err_nomem(err, rec[i].len);
        else if (one < 0)
            c->problem(c->user, &why);
    }
    stk_sample_release(&s);
    return rc;
}

/* ---- the queue ---- */

static void job_release(struct job *j)
{
    free(j->path);
    stk_buf_release(&j->win);
    stk_buf_release(&j->rec);
    *j = (struct job){0};
}

/* Called with the lock held. */
static void keep_spare(struct stk_checker *c, struct job *j)
{
    if (c->nspare < QUEUE_MAX) {
        c->spare[c->nspare++] = j->win;
        j->win = (struct stk_buf)STK_BUF_INIT;
    }
}

static void *thread_main(void *arg)
{
    struct stk_checker *c = arg;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->queued && !c->closing)
            pthread_cond_wait(&c->changed, &c->lock);
        if (!c->queued)
            break;
        struct job j = c->queue[c->head];
        c->head = (c->head + 1) % QUEUE_MAX;
        c->queued--;
        c->at_work++;
        pthread_mutex_unlock(&c->lock);
        struct stk_err why = {0};
        int rc = check_job(c, &j, &why);
        pthread_mutex_lock(&c->lock);
        if (rc < 0 && c->rc == 0) {
            c->rc = rc;
            c->err = why;
        }
        keep_spare(c, &j);
        job_release(&j);
        c->at_work--;
        pthread_cond_broadcast(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

/* Takes the window (and gives another buffer for it) and queues it; false: no room or no threads. */
static bool enqueue(struct stk_checker *c, struct job *j, struct stk_buf *win)
{
    pthread_mutex_lock(&c->lock);
    bool room = c->queued < QUEUE_MAX && c->nthreads;
    if (room) {
        j->win = *win;
        *win = c->nspare ? c->spare[--c->nspare] : (struct stk_buf)STK_BUF_INIT;
        stk_buf_reset(win);
        c->queue[(c->head + c->queued++) % QUEUE_MAX] = *j;
        pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return room;
}

static int on_records(struct stk_watcher *w, const struct stk_format *f, const char *path,
                      struct stk_buf *win, uint64_t win_off, const struct stk_seen *rec, size_t n,
                      struct stk_err *err)
{
    struct stk_checker *c = (struct stk_checker *)w;
    struct job j = {.format = f, .path = strdup(path), .win_off = win_off};
    stk_buf_put(&j.rec, rec, n * sizeof *rec);
    int rc = j.path ? stk_buf_check(&j.rec, err) : stk_err_nomem(err, n * sizeof *rec);
    if (rc == 0 && enqueue(c, &j, win))
        return 0;
    j.win = *win;
    if (rc == 0)
        rc = check_job(c, &j, err);
    j.win = (struct stk_buf)STK_BUF_INIT; /* still the caller's */
    job_release(&j);
    return rc;
}

static void on_missed(struct stk_watcher *w, uint32_t file)
{
    struct stk_checker *c = (struct stk_checker *)w;
    pthread_mutex_lock(&c->lock);
    if (file >= c->nmissed) {
        uint64_t n = (uint64_t)file * 2 + 64;
        uint8_t *grown = realloc(c->missed, n);
        if (grown) {
            memset(grown + c->nmissed, 0, n - c->nmissed);
            c->missed = grown;
            c->nmissed = n;
        } else {
            c->rc = stk_err_nomem(&c->err, n);
        }
    }
    if (file < c->nmissed)
        c->missed[file] = 1;
    pthread_mutex_unlock(&c->lock);
}

bool stk_checker_saw_all(const struct stk_checker *c, uint64_t file)
{
    return file >= c->nmissed || !c->missed[file];
}

/* ---- life ---- */

struct stk_watcher *stk_checker_watcher(struct stk_checker *c)
{
    return &c->watcher;
}

int stk_checker_new(unsigned jobs, void (*problem)(void *user, const struct stk_err *what),
                    void *user, struct stk_checker **out, struct stk_err *err)
{
    struct stk_checker *c = calloc(1, sizeof *c);
    if (!c || !(c->thread = calloc(jobs ? jobs : 1, sizeof *c->thread))) {
        free(c);
        return stk_err_nomem(err, sizeof *c);
    }
    c->watcher = (struct stk_watcher){.records = on_records, .missed = on_missed};
    c->problem = problem;
    c->user = user;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    /* A thread that cannot be had only makes it slower. */
    while (c->nthreads < jobs &&
           pthread_create(&c->thread[c->nthreads], NULL, thread_main, c) == 0)
        c->nthreads++;
    *out = c;
    return 0;
}

int stk_checker_wait(struct stk_checker *c, struct stk_err *err)
{
    pthread_mutex_lock(&c->lock);
    while (c->queued || c->at_work)
        pthread_cond_wait(&c->changed, &c->lock);
    int rc = c->rc;
    if (rc < 0 && err)
        *err = c->err;
    pthread_mutex_unlock(&c->lock);
    return rc;
}

void stk_checker_free(struct stk_checker *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    for (unsigned i = 0; i < c->nthreads; i++)
        pthread_join(c->thread[i], NULL);
    for (unsigned i = 0; i < c->nspare; i++)
        stk_buf_release(&c->spare[i]);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c->missed);
    free(c->thread);
    free(c);
}
