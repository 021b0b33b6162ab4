/*
 * comm_fork.c - ranks that are processes of this machine, forked by the first: messages are bytes
 * in rings of shared memory, one ring per pair of ranks and direction.
 *
 * A ring has one writer and one reader and needs no lock. A message is a head and its bytes, in as
 * many parts as the ring has room for. One that comes before its receive is kept aside.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sched/comm_priv.h"

#define RANKS_MAX 4096
#define RING_MIN  ((size_t)4096)
#define RING_MAX  ((size_t)256 << 10)
#define TOTAL_MAX ((size_t)1 << 30) /* of all rings; pages that are not used take no memory */

struct ring {
    _Alignas(64) _Atomic uint64_t head; /* bytes ever written */
    _Alignas(64) _Atomic uint64_t tail; /* bytes ever read */
};

struct head {
    uint64_t size;
    int64_t tag;
};

/* A message that is sent, awaited, or kept aside until it is awaited. */
struct item {
    struct item *next;
    struct head head;
    size_t done;        /* bytes so far; sent: with the head */
    uint8_t *p;         /* borrowed; of one kept aside: its own */
    size_t room;        /* awaited: bytes at p */
    uint32_t peer;      /* awaited: may be STK_COMM_ANY */
    struct item *bound; /* awaited: the one kept aside that it gets */
    bool complete, matched, sent;
    bool own; /* p is to be freed */
};

struct lane { /* of one peer */
    struct item *out, **out_end;
    struct item *in;  /* that its bytes go to now */
    uint8_t head[16]; /* of the next message, as far as it is here */
    size_t head_done;
    uint64_t skip; /* bytes of a message that nobody wants any more */
};

struct forked {
    uint32_t rank, size;
    size_t ring_size; /* a power of two */
    uint8_t *shared;
    size_t shared_size;
    pid_t *pid; /* rank 0 only */
    struct lane *lane;
    struct item *awaited, *aside; /* in order */
    struct item *sent;            /* complete, and not asked for yet */
};

/* ---- rings ---- */

static struct ring *ring_of(const struct forked *f, uint32_t from, uint32_t to)
{
    size_t each = sizeof(struct ring) + f->ring_size;
    return (struct ring *)(void *)(f->shared + ((size_t)from * f->size + to) * each);
}

static size_t ring_put(const struct forked *f, struct ring *r, const void *p, size_t n)
{
    uint64_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
    size_t room = f->ring_size - (size_t)(head - tail), at = (size_t)head & (f->ring_size - 1);
    n = n < room ? n : room;
    size_t first = f->ring_size - at < n ? f->ring_size - at : n;
    uint8_t *data = (uint8_t *)(r + 1);
    memcpy(data + at, p, first);
    memcpy(data, (const uint8_t *)p + first, n - first);
    atomic_store_explicit(&r->head, head + n, memory_order_release);
    return n;
}

static size_t ring_get(const struct forked *f, struct ring *r, void *p, size_t n)
{
    uint64_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&r->head, memory_order_acquire);
    size_t there = (size_t)(head - tail), at = (size_t)tail & (f->ring_size - 1);
    n = n < there ? n : there;
    size_t first = f->ring_size - at < n ? f->ring_size - at : n;
    const uint8_t *data = (const uint8_t *)(r + 1);
    memcpy(p, data + at, first);
    memcpy((uint8_t *)p + first, data, n - first);
    atomic_store_explicit(&r->tail, tail + n, memory_order_release);
    return n;
}

/* ---- moving messages ---- */

static void push_out(struct forked *f, uint32_t to)
{
    struct lane *l = &f->lane[to];
    struct ring *r = ring_of(f, f->rank, to);
    while (l->out) {
        struct item *m = l->out;
        if (m->done < sizeof m->head)
            m->done += ring_put(f, r, (uint8_t *)&m->head + m->done, sizeof m->head - m->done);
        if (m->done < sizeof m->head)
            return;
        size_t at = m->done - sizeof m->head;
        m->done += ring_put(f, r, m->p + at, m->head.size - at);
        if (m->done < sizeof m->head + m->head.size)
            return;
        l->out = m->next;
        if (!l->out)
            l->out_end = &l->out;
        m->complete = true;
        m->next = f->sent;
        f->sent = m;
    }
}

static void append(struct item **list, struct item *m)
{
    while (*list)
        list = &(*list)->next;
    m->next = NULL;
    *list = m;
}

static void take_off(struct item **list, const struct item *m)
{
    for (; *list; list = &(*list)->next)
        if (*list == m) {
            *list = m->next;
            return;
        }
}

static bool fits(const struct item *awaited, uint32_t from, int64_t tag)
{
    return !awaited->matched && awaited->head.tag == tag &&
           (awaited->peer == from || awaited->peer == STK_COMM_ANY);
}

/* Memory for a message that no receive takes directly. */
static struct item *keep_aside(struct forked *f, uint32_t from, const struct head *h)
{
    struct item *m = calloc(1, sizeof *m);
    uint8_t *p = m ? malloc(h->size + 1) : NULL;
    if (!p) {
        free(m);
        return NULL;
    }
    *m = (struct item){.head = *h, .p = p, .peer = from, .own = true};
    append(&f->aside, m);
    return m;
}

static void bind(struct item *awaited, struct item *aside)
{
    awaited->matched = aside->matched = true;
    awaited->bound = aside;
    awaited->peer = aside->peer;
}

/* Where the bytes of the next message of a lane go. NULL: no memory now. */
static struct item *match(struct forked *f, uint32_t from, const struct head *h)
{
    struct item *m = f->awaited;
    while (m && !fits(m, from, h->tag))
        m = m->next;
    if (m && h->size <= m->room) {
        m->matched = true;
        m->peer = from;
        m->head = *h;
        return m;
    }
    struct item *aside = keep_aside(f, from, h);
    if (m && aside)
        bind(m, aside); /* too long for it: an error when it is asked for */
    return aside;
}

/* False: the rest is still to come. */
static bool skip_rest(struct forked *f, struct lane *l, struct ring *r)
{
    uint8_t dropped[4096];
    size_t n = 1;
    while (l->skip && n) {
        n = ring_get(f, r, dropped, l->skip < sizeof dropped ? l->skip : sizeof dropped);
        l->skip -= n;
    }
    return l->skip == 0;
}

static void pull_in(struct forked *f, uint32_t from)
{
    struct lane *l = &f->lane[from];
    struct ring *r = ring_of(f, from, f->rank);
    while (skip_rest(f, l, r)) {
        struct head h;
        if (!l->in) {
            l->head_done += ring_get(f, r, l->head + l->head_done, sizeof h - l->head_done);
            if (l->head_done < sizeof h)
                return;
            memcpy(&h, l->head, sizeof h);
            if (!(l->in = match(f, from, &h)))
                return;
            l->head_done = 0;
        }
        struct item *m = l->in;
        m->done += ring_get(f, r, m->p + m->done, m->head.size - m->done);
        if (m->done < m->head.size)
            return;
        m->complete = true;
        l->in = NULL;
    }
}

static void progress(struct forked *f)
{
    for (uint32_t i = 0; i < f->size; i++) {
        push_out(f, i);
        pull_in(f, i);
    }
}

/* ---- operations ---- */

static int new_item(uint64_t *room, struct item **out, struct stk_err *err)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return stk_err_nomem(err, sizeof **out);
    memcpy(room, out, sizeof *out);
    return 0;
}

static int fork_isend(void *impl, uint32_t to, int tag, const void *p, size_t n, uint64_t *room,
                      struct stk_err *err)
{
    struct forked *f = impl;
    struct item *m;
    int rc = new_item(room, &m, err);
    if (rc)
        return rc;
    *m = (struct item){
        .head = {.size = n, .tag = tag}, .p = (uint8_t *)(uintptr_t)p, .peer = to, .sent = true};
    *f->lane[to].out_end = m;
    f->lane[to].out_end = &m->next;
    push_out(f, to);
    return 0;
}

/* A message that came before its receive; NULL: none. */
static struct item *find_aside(struct forked *f, const struct item *awaited)
{
    for (struct item *m = f->aside; m; m = m->next)
        if (!m->matched && m->head.tag == awaited->head.tag &&
            (awaited->peer == STK_COMM_ANY || awaited->peer == m->peer))
            return m;
    return NULL;
}

static int fork_irecv(void *impl, uint32_t from, int tag, void *p, size_t n, uint64_t *room,
                      struct stk_err *err)
{
    struct forked *f = impl;
    struct item *m;
    int rc = new_item(room, &m, err);
    if (rc)
        return rc;
    *m = (struct item){.head.tag = tag, .p = p, .room = n, .peer = from};
    struct item *aside = find_aside(f, m);
    if (aside)
        bind(m, aside);
    append(&f->awaited, m);
    return 0;
}

/* Takes what was kept aside for a receive, once all of it is there. */
static int take_aside(struct forked *f, struct item *m, struct stk_err *err)
{
    struct item *a = m->bound;
    if (!a || !a->complete)
        return 0;
    if (a->head.size > m->room)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "rank %u sent %llu bytes, and %zu were expected", (unsigned)a->peer,
                           (unsigned long long)a->head.size, m->room);
    if (a->head.size)
        memcpy(m->p, a->p, a->head.size);
    m->head = a->head;
    m->complete = true;
    take_off(&f->aside, a);
    free(a->p);
    free(a);
    m->bound = NULL;
    return 0;
}

static int fork_test(void *impl, uint64_t *room, bool *done, uint32_t *from, size_t *n,
                     struct stk_err *err)
{
    struct forked *f = impl;
    struct item *m;
    memcpy(&m, room, sizeof m);
    progress(f);
    int rc = m->sent ? 0 : take_aside(f, m, err);
    if (rc || !m->complete)
        return rc;
    *done = true;
    *from = m->peer;
    *n = (size_t)m->head.size;
    take_off(m->sent ? &f->sent : &f->awaited, m);
    free(m);
    return 0;
}

/* A message of which a part has left must be completed, or the next one is not understood: its
 * bytes are kept. A receive of which a part has come drops the rest. */
static void fork_cancel(void *impl, uint64_t *room)
{
    struct forked *f = impl;
    struct item *m;
    memcpy(&m, room, sizeof m);
    if (m->sent) {
        uint8_t *copy = m->complete ? NULL : malloc(m->head.size + 1);
        if (copy) {
            memcpy(copy, m->p, m->head.size);
            m->p = copy;
            m->own = true;
        }
        return;
    }
    for (uint32_t i = 0; i < f->size; i++)
        if (f->lane[i].in == m) {
            f->lane[i].in = NULL;
            f->lane[i].skip = m->head.size - m->done;
        }
    take_off(&f->awaited, m);
    free(m);
}

static pid_t fork_pid(void *impl, uint32_t rank)
{
    const struct forked *f = impl;
    return f->pid ? f->pid[rank] : 0;
}

static void free_list(struct item *m)
{
    while (m) {
        struct item *next = m->next;
        if (m->own)
            free(m->p);
        free(m);
        m = next;
    }
}

static void fork_close(void *impl, bool failed)
{
    struct forked *f = impl;
    (void)failed;
    for (uint32_t i = 0; f->lane && i < f->size; i++)
        free_list(f->lane[i].out);
    free_list(f->awaited);
    free_list(f->sent);
    free_list(f->aside);
    if (f->shared)
        munmap(f->shared, f->shared_size);
    free(f->lane);
    free(f->pid);
    free(f);
}

static const struct comm_ops ops = {
    .forgets = true,
    .isend = fork_isend,
    .irecv = fork_irecv,
    .test = fork_test,
    .cancel = fork_cancel,
    .close = fork_close,
    .pid = fork_pid,
};

/* ---- forking ---- */

static int new_forked(unsigned n, struct forked **out, struct stk_err *err)
{
    struct forked *f = calloc(1, sizeof *f);
    if (!f)
        return stk_err_nomem(err, sizeof *f);
    *f = (struct forked){.size = n, .ring_size = RING_MAX};
    size_t pairs = (size_t)n * n;
    while (f->ring_size > RING_MIN && pairs * f->ring_size > TOTAL_MAX)
        f->ring_size /= 2;
    f->shared_size = pairs * (f->ring_size + sizeof(struct ring));
    f->pid = calloc(n, sizeof *f->pid);
    f->lane = calloc(n, sizeof *f->lane);
    void *p = mmap(NULL, f->shared_size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    f->shared = p == MAP_FAILED ? NULL : p;
    if (!f->pid || !f->lane || !f->shared) {
        fork_close(f, true);
        return stk_err_nomem(err, pairs * RING_MIN);
    }
    for (unsigned i = 0; i < n; i++)
        f->lane[i].out_end = &f->lane[i].out;
    *out = f;
    return 0;
}

static void end_children(struct forked *f)
{
    for (uint32_t i = 1; i < f->size; i++)
        if (f->pid[i] > 0) {
            kill(f->pid[i], SIGKILL);
            (void)waitpid(f->pid[i], NULL, 0);
        }
}

static int fork_all(struct forked *f, struct stk_err *err)
{
    for (uint32_t i = 1; i < f->size && !f->rank; i++) {
        pid_t pid = fork();
        if (pid < 0) {
            int rc = stk_err_sys(err, NULL, "fork");
            end_children(f);
            return rc;
        }
        if (pid > 0) {
            f->pid[i] = pid;
            continue;
        }
        f->rank = i;
        free(f->pid);
        f->pid = NULL;
    }
    return 0;
}

int stk_comm_fork(unsigned n, struct stk_comm **out, struct stk_err *err)
{
    struct forked *f = NULL;
    if (n == 0 || n > RANKS_MAX)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%u processes; at most %d", n, RANKS_MAX);
    int rc = new_forked(n, &f, err);
    if (rc)
        return rc;
    rc = fork_all(f, err);
    if (rc) {
        fork_close(f, true);
        return rc;
    }
    uint32_t rank = f->rank;
    rc = stk_comm_make(&ops, f, "forked", rank, n, true, NULL, out, err);
    if (rc && rank)
        _exit(1);
    return rc;
}
