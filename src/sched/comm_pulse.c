/*
 * comm_pulse.c - signs of life: a thread per rank that tells the next rank that this one runs, and
 * looks after the rank before it. The one that misses it tells all others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/thread.h"
#include "host/proc.h"
#include "sched/comm_priv.h"

#define LOOK_S 0.1 /* between looks for notices */
#define BEAT_S 0.5 /* between signs of life */

/* A notice on its way to one rank. */
struct posted {
    struct comm_notice text;
    uint64_t room[8];
    bool busy;
};

struct comm_pulse {
    struct comm_root *root;
    struct stk_thread *thread;
    pthread_mutex_t lock; /* of why */
    char why[256];
    _Atomic int64_t lost; /* -1: none */

    /* With the root's lock held. */
    struct posted in, beat;
    struct posted *out; /* one per rank; NULL: nothing was told */
    double seen, beaten, looked;
    bool closing;
    int proc_fd;
    _Atomic bool reported;   /* a rank has said that it has reported the failure */
    struct posted *reports;  /* ours, one per rank */
};

/* ---- sending ---- */

static void post(struct comm_root *r, struct posted *m, uint32_t to)
{
    m->busy =
        r->ops->isend(r->impl, to, COMM_TAG_NOTICE, &m->text, sizeof m->text, m->room, NULL) == 0;
}

static bool is_done(struct comm_root *r, struct posted *m)
{
    uint32_t from;
    size_t n;
    bool done = false;
    if (m->busy && (r->ops->test(r->impl, m->room, &done, &from, &n, NULL) != 0 || done))
        m->busy = false;
    return !m->busy;
}

/* With the root's lock held. */
static void mark(struct comm_root *r, uint32_t rank, const char *why)
{
    struct comm_pulse *p = r->pulse;
    int64_t none = -1;
    pthread_mutex_lock(&p->lock);
    if (p->lost < 0)
        snprintf(p->why, sizeof p->why, "%s", why);
    bool first = atomic_compare_exchange_strong(&p->lost, &none, (int64_t)rank);
    pthread_mutex_unlock(&p->lock);
    struct stk_err err = {0};
    if (first && r->on_lost && rank != r->rank && stk_pulse_check(r, &err))
        r->on_lost(r->on_lost_user, &err);
}

void stk_pulse_tell(struct comm_root *r, uint32_t rank, const char *why)
{
    struct comm_pulse *p = r->pulse;
    if (!p || p->lost >= 0)
        return;
    mark(r, rank, why);
    p->out = calloc(r->size, sizeof *p->out);
    for (uint32_t i = 0; p->out && i < r->size; i++) {
        if (i == rank || i == r->rank)
            continue;
        p->out[i].text = (struct comm_notice){.kind = NOTICE_LOST, .rank = rank};
        snprintf(p->out[i].text.why, sizeof p->out[i].text.why, "%.247s", why);
        post(r, &p->out[i], i);
    }
}

static bool all_told(struct comm_root *r)
{
    struct comm_pulse *p = r->pulse;
    bool told = true;
    for (uint32_t i = 0; p->out && i < r->size; i++)
        told &= is_done(r, &p->out[i]);
    for (uint32_t i = 0; p->reports && i < r->size; i++)
        told &= is_done(r, &p->reports[i]);
    return told;
}

void stk_pulse_reported(struct comm_root *r)
{
    struct comm_pulse *p = r->pulse;
    pthread_mutex_lock(&r->lock);
    p->reports = p->reports ? NULL : calloc(r->size, sizeof *p->reports);
    for (uint32_t i = 0; p->reports && i < r->size; i++) {
        p->reports[i].text = (struct comm_notice){.kind = NOTICE_REPORTED, .rank = r->rank};
        if (i != r->rank && (int64_t)i != p->lost)
            post(r, &p->reports[i], i);
    }
    pthread_mutex_unlock(&r->lock);
    stk_pulse_flush(r);
}

void stk_pulse_flush(struct comm_root *r)
{
    double until = stk_now() + 1;
    struct timespec t = {.tv_nsec = 1000000};
    for (bool told = !r->pulse; !told && stk_now() < until; nanosleep(&t, NULL)) {
        pthread_mutex_lock(&r->lock);
        told = all_told(r);
        pthread_mutex_unlock(&r->lock);
    }
}

/* ---- looking ---- */

static uint32_t before(const struct comm_root *r)
{
    return (r->rank + r->size - 1) % r->size;
}

static void post_receive(struct comm_root *r)
{
    struct posted *m = &r->pulse->in;
    m->busy = r->ops->irecv(r->impl, STK_COMM_ANY, COMM_TAG_NOTICE, &m->text, sizeof m->text,
                            m->room, NULL) == 0;
}

static void take_notices(struct comm_root *r, double now)
{
    struct comm_pulse *p = r->pulse;
    while (p->in.busy && is_done(r, &p->in)) {
        struct comm_notice *n = &p->in.text;
        n->why[sizeof n->why - 1] = '\0';
        if (n->kind == NOTICE_ALIVE && n->rank == before(r))
            p->seen = now;
        else if (n->kind == NOTICE_LOST && n->rank < r->size)
            mark(r, n->rank, n->why);
        else if (n->kind == NOTICE_REPORTED)
            atomic_store(&p->reported, true);
        post_receive(r);
    }
}

enum { UNKNOWN, RUNS, STOPPED, ENDED };

/* A zombie counts as ended: its parent may be the one that waits for its message. */
static int process_of(const struct comm_pulse *p, const struct comm_peer *peer)
{
    struct stk_proc_stat st;
    if (p->proc_fd < 0 || !peer->machine || peer->machine != p->root->peer[p->root->rank].machine)
        return UNKNOWN;
    if (!stk_proc_stat(p->proc_fd, (pid_t)peer->pid, &st) || st.start != peer->start ||
        st.state == 'Z' || st.state == 'X')
        return ENDED;
    return st.state == 'T' || st.state == 't' ? STOPPED : RUNS;
}

bool stk_pulse_await_report(struct comm_root *r, uint32_t from)
{
    const struct comm_pulse *p = r->pulse;
    return !p || atomic_load(&p->reported) || process_of(p, &r->peer[from]) == ENDED;
}

/* Without a sign of life. */
static double most_silence(struct comm_root *r, int process)
{
    double patience = atomic_load(&r->patience_s);
    if (process != STOPPED)
        return STK_COMM_BUSY_S;
    return patience > 0 && patience < STK_COMM_SILENT_S ? patience : STK_COMM_SILENT_S;
}

static void look_after(struct comm_root *r, double now)
{
    struct comm_pulse *p = r->pulse;
    uint32_t other = before(r);
    char why[160];
    double silent = now - p->seen;
    if (p->closing)
        return;
    int process = process_of(p, &r->peer[other]);
    if (process == ENDED) {
        /* It may have said why in its last message. */
        take_notices(r, now);
        stk_pulse_tell(r, other, "its process has ended");
    } else if (silent > most_silence(r, process)) {
        snprintf(why, sizeof why, "it gave no sign of life for %.0f s%s", silent,
                 process == STOPPED ? ": its process is stopped" : "");
        stk_pulse_tell(r, other, why);
    }
}

void stk_pulse_beat(struct comm_root *r)
{
    struct comm_pulse *p = r->pulse;
    double now = stk_now();
    if (!p || now - p->looked < LOOK_S / 2)
        return;
    /* A job that was suspended as a whole: the silence was ours. */
    if (now - p->looked > STK_COMM_SILENT_S / 4)
        p->seen = now;
    p->looked = now;
    take_notices(r, now);
    if (p->out)
        (void)all_told(r);
    look_after(r, now); /* often: Slurm kills all ranks of MPI soon after one of them */
    if (now - p->beaten < BEAT_S)
        return;
    p->beaten = now;
    if (is_done(r, &p->beat)) {
        p->beat.text = (struct comm_notice){.kind = NOTICE_ALIVE, .rank = r->rank};
        post(r, &p->beat, (r->rank + 1) % r->size);
    }
}

static int pulse_main(void *arg, struct stk_err *err)
{
    struct comm_pulse *p = arg;
    (void)err;
    do {
        pthread_mutex_lock(&p->root->lock);
        stk_pulse_beat(p->root);
        pthread_mutex_unlock(&p->root->lock);
    } while (stk_thread_sleep(p->thread, stk_now() + LOOK_S));
    return 0;
}

/* ---- start and end ---- */

int stk_pulse_start(struct comm_root *r, struct stk_err *err)
{
    struct comm_pulse *p = calloc(1, sizeof *p);
    if (!p)
        return stk_err_nomem(err, sizeof *p);
    double now = stk_now();
    *p = (struct comm_pulse){.root = r, .lost = -1, .seen = now, .looked = now, .proc_fd = -1};
    pthread_mutex_init(&p->lock, NULL);
    if (stk_proc_open(&p->proc_fd, NULL) != 0)
        p->proc_fd = -1;
    r->pulse = p;
    post_receive(r);
    int rc = r->threads ? stk_thread_open(&p->thread, err) : 0;
    if (p->thread)
        stk_thread_begin(p->thread, pulse_main, NULL, p);
    return rc;
}

void stk_pulse_closing(struct comm_root *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->pulse)
        r->pulse->closing = true;
    pthread_mutex_unlock(&r->lock);
}

/* MPI may write to a message that is still on its way at any time: after a failure its memory
 * stays. */
void stk_pulse_stop(struct comm_root *r)
{
    struct comm_pulse *p = r->pulse;
    if (!p)
        return;
    (void)stk_thread_close(p->thread, INFINITY);
    if (p->proc_fd >= 0)
        close(p->proc_fd);
    bool told = all_told(r) && is_done(r, &p->beat);
    if (p->in.busy && told && !r->failed && p->lost < 0)
        r->ops->cancel(r->impl, p->in.room);
    else if (p->in.busy)
        told = false;
    p->proc_fd = -1;
    r->failed |= !told || p->lost >= 0;
    pthread_mutex_destroy(&p->lock);
    if (told || r->ops->forgets) {
        free(p->out);
        free(p->reports);
        free(p);
    }
    r->pulse = NULL;
}

int64_t stk_pulse_lost(struct comm_root *r, char *why, size_t size)
{
    struct comm_pulse *p = r->pulse;
    if (!p || p->lost < 0)
        return -1;
    if (why && size) {
        pthread_mutex_lock(&p->lock);
        snprintf(why, size, "%s", p->why);
        pthread_mutex_unlock(&p->lock);
    }
    return p->lost;
}

int stk_pulse_check(struct comm_root *r, struct stk_err *err)
{
    char why[256];
    int64_t lost = stk_pulse_lost(r, why, sizeof why);
    if (lost < 0)
        return 0;
    const struct comm_peer *peer = &r->peer[lost];
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "rank %lld%s%s is lost: %s", (long long)lost,
                       peer->pid ? " on node " : "", peer->pid ? peer->node : "", why);
}
