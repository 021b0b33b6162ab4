/*
 * comm.c - communicators: making, closing and grouping them, and their messages. The kinds are in
 * comm_fork.c and comm_mpi.c; "alone" needs no messages.
 */
#include "sched/comm.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/pool.h"
#include "host/proc.h"
#include "host/root.h"
#include "sched/comm_priv.h"
#include "sched/rank.h"

#define MEET_S  60.0 /* for ranks to begin and to end together: one may start late */
#define CLOSE_S 10.0

/* ---- nodes ---- */

/* Numbers the nodes of a communicator by their first rank. */
static int number_nodes(struct stk_comm *c, struct stk_err *err)
{
    const struct comm_peer *peer = c->root->peer;
    c->node = calloc(c->size, sizeof *c->node);
    c->leader = calloc(c->size, sizeof *c->leader);
    if (!c->node || !c->leader)
        return stk_err_nomem(err, c->size * sizeof *c->node);
    for (uint32_t i = 0; i < c->size; i++) {
        const char *name = peer[stk_comm_world(c, i)].node;
        uint32_t n = 0;
        /* Ranks of a node mostly follow each other. */
        if (i && strcmp(name, peer[stk_comm_world(c, i - 1)].node) == 0)
            n = c->node[i - 1];
        else
            while (n < c->nodes && strcmp(name, peer[stk_comm_world(c, c->leader[n])].node) != 0)
                n++;
        if (n == c->nodes)
            c->leader[c->nodes++] = i;
        c->node[i] = n;
    }
    return 0;
}

/* Processes with an equal, known number see each other in /proc. */
static uint64_t this_machine(void)
{
    char boot[64], space[64] = "";
    struct stk_hash h;
    stk_host_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t n = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    if (!*boot || n <= 0)
        return 0;
    stk_hash_init(&h);
    stk_hash_update(&h, boot, strlen(boot));
    stk_hash_update(&h, space, (size_t)n);
    return stk_hash_final(&h);
}

/* STOKER_NODE=node%r: "%r" is the rank, so that each process of a machine can be a node. */
static void name_node(struct comm_peer *p, const char *name, uint32_t rank)
{
    const char *at = strstr(name, "%r");
    if (at)
        snprintf(p->node, sizeof p->node, "%.*s%u%.20s", (int)(at - name < 30 ? at - name : 30),
                 name, (unsigned)rank, at + 2);
    else
        stpncpy(p->node, name, sizeof p->node - 1);
}

static void describe_self(struct comm_peer *p, const char *node, uint32_t rank)
{
    struct stk_proc_stat st;
    int proc_fd;
    *p = (struct comm_peer){.pid = getpid()};
    if (stk_proc_open(&proc_fd, NULL) == 0) {
        if (stk_proc_is_own(proc_fd) && stk_proc_stat(proc_fd, getpid(), &st)) {
            p->machine = this_machine();
            p->start = st.start;
        }
        close(proc_fd);
    }
    if (!node || !*node)
        node = getenv("STOKER_NODE");
    if (node && *node)
        name_node(p, node, rank);
    else if (gethostname(p->node, sizeof p->node - 1) != 0)
        strcpy(p->node, "localhost");
}

/* ---- making and closing ---- */

static void free_comm(struct stk_comm *c)
{
    if (c) {
        free(c->map);
        free(c->node);
        free(c->leader);
        free(c);
    }
}

static void free_root(struct comm_root *r)
{
    if (r) {
        stk_pulse_stop(r);
        if (r->ops)
            r->ops->close(r->impl, r->failed);
        /* MPI that was not finalised may still read it. */
        for (size_t i = 0; i < r->nkept && (!r->failed || r->ops->forgets); i++)
            free(r->kept[i]);
        free(r->kept);
        pthread_mutex_destroy(&r->lock);
        free(r->peer);
        free(r);
    }
}

static struct comm_root *new_root(const struct comm_ops *ops, void *impl, const char *kind,
                                  uint32_t rank, uint32_t size)
{
    struct comm_root *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct comm_root){.ops = ops, .impl = impl, .rank = rank, .size = size};
    stpncpy(r->kind, kind, sizeof r->kind - 1);
    pthread_mutex_init(&r->lock, NULL);
    r->peer = calloc(size, sizeof *r->peer);
    return r;
}

/* All at once: the thread of the signs of life looks at them meanwhile. A rank that did not tell its
 * node is one of its own. */
static void take_peers(struct comm_root *r, const struct comm_peer *all)
{
    pthread_mutex_lock(&r->lock);
    memcpy(r->peer, all, r->size * sizeof *all);
    for (uint32_t i = 0; i < r->size; i++) {
        char *node = r->peer[i].node;
        node[sizeof r->peer[i].node - 1] = '\0';
        if (!r->peer[i].pid)
            snprintf(node, sizeof r->peer[i].node, "(rank %u)", (unsigned)i);
    }
    pthread_mutex_unlock(&r->lock);
}

/* The signs of life come first: a rank that dies before all have met is missed like any other. Then
 * the others have a communicator all the same, whose calls say which rank is lost. */
static int meet(struct stk_comm *c, const char *node, struct stk_err *err)
{
    struct comm_root *r = c->root;
    struct comm_peer self, *all = calloc(c->size, sizeof *all);
    if (!all)
        return stk_err_nomem(err, c->size * sizeof *all);
    int rc = c->size == 1 ? 0 : stk_pulse_start(r, err);
    describe_self(&self, node, c->rank);
    rc = rc ? rc : stk_comm_allgather(c, &self, sizeof self, all, MEET_S, err);
    bool met = rc == 0;
    if (met || stk_pulse_lost(r, NULL, 0) >= 0) {
        take_peers(r, all);
        rc = number_nodes(c, err);
    }
    if (met)
        free(all);
    else
        stk_comm_keep(c, all); /* a message may still come into it */
    return rc;
}

int stk_comm_make(const struct comm_ops *ops, void *impl, const char *kind, uint32_t rank,
                  uint32_t size, bool threads, const char *node, struct stk_comm **out,
                  struct stk_err *err)
{
    struct stk_comm *c = calloc(1, sizeof *c);
    struct comm_root *r = new_root(ops, impl, kind, rank, size);
    int rc = !c || !r || !r->peer ? stk_err_nomem(err, size * sizeof *r->peer) : 0;
    if (rc == 0) {
        r->threads = threads;
        *c = (struct stk_comm){.root = r, .owner = true, .rank = rank, .size = size};
        rc = meet(c, node, err);
    }
    if (rc == 0) {
        *out = c;
        return 0;
    }
    if (r)
        r->failed = true;
    else if (ops)
        ops->close(impl, true);
    free_root(r);
    free_comm(c);
    return rc;
}

struct stk_comm *stk_comm_alone(void)
{
    struct stk_comm *c = NULL;
    return stk_comm_make(NULL, NULL, "alone", 0, 1, false, NULL, &c, NULL) == 0 ? c : NULL;
}

static int alone_for_lack(const char *node, const struct stk_err *why, struct stk_comm **out,
                          struct stk_err *err)
{
    int rc = stk_comm_make(NULL, NULL, "alone", 0, 1, false, node, out, err);
    if (rc == 0 && why)
        snprintf((*out)->root->lacks, sizeof(*out)->root->lacks, "%.639s", why->what);
    return rc;
}

int stk_comm_open(const struct stk_comm_options *o, struct stk_comm **out, struct stk_err *err)
{
    const struct stk_comm_options defaults = {0};
    const struct stoker_mpi *mpi;
    struct stk_rank rank = {0};
    struct stk_err why = {0};
    o = o ? o : &defaults;
    const char *want = o->module && *o->module ? o->module : getenv("STOKER_MPI");
    want = want && *want ? want : NULL;
    int rc = stk_rank_detect(&rank, err);
    if (rc)
        return rc;
    if (rank.world <= 1)
        return alone_for_lack(o->node, NULL, out, err);
    rc = stk_module_load(want, &mpi, &why);
    /* What the user named is used or refused. */
    if (rc && want) {
        if (err)
            *err = why;
        return rc;
    }
    rc = rc ? rc : stk_comm_mpi_join(mpi, rank.world, o, out, &why);
    return rc ? alone_for_lack(o->node, &why, out, err) : 0;
}

void stk_comm_close(struct stk_comm *c)
{
    if (!c)
        return;
    struct comm_root *r = c->root;
    if (!c->owner) {
        pthread_mutex_lock(&r->lock);
        r->groups &= ~(1u << (c->block - 1));
        pthread_mutex_unlock(&r->lock);
    } else {
        if (c->size > 1 && !r->failed && stk_pulse_lost(r, NULL, 0) < 0) {
            stk_pulse_closing(r);
            r->failed = stk_comm_barrier(c, CLOSE_S, NULL) != 0;
        }
        free_root(r);
    }
    free_comm(c);
}

/* ---- groups ---- */

static int check_group(const struct stk_comm *c, const uint32_t *rank, uint32_t n, uint32_t *mine,
                       struct stk_err *err)
{
    bool inside = false;
    for (uint32_t i = 0; i < n; i++) {
        if (rank[i] >= c->size)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "a group has rank %u of %u",
                               (unsigned)rank[i], (unsigned)c->size);
        if (rank[i] == c->rank) {
            inside = true;
            *mine = i;
        }
    }
    return inside ? 0 : stk_err_set(err, STK_E_USAGE, NULL, -1, "this rank is not in the group");
}

/* A block of tags that no member of the group uses. */
static int agree_on_block(struct stk_comm *g, struct stk_err *err)
{
    struct comm_root *r = g->root;
    uint64_t used = r->groups;
    g->block = COMM_BLOCK_SETUP;
    int rc = stk_comm_reduce_u64(g, STK_COMM_OR, &used, 1, MEET_S, err);
    if (rc)
        return rc;
    uint32_t i = 0;
    while (i < COMM_GROUPS && (used >> i & 1))
        i++;
    if (i == COMM_GROUPS)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "a rank is in %d groups already",
                           COMM_GROUPS);
    pthread_mutex_lock(&r->lock);
    r->groups |= 1u << i;
    pthread_mutex_unlock(&r->lock);
    g->block = i + 1;
    return 0;
}

int stk_comm_group(struct stk_comm *c, const uint32_t *rank, uint32_t n, struct stk_comm **out,
                   struct stk_err *err)
{
    uint32_t mine = 0;
    int rc = check_group(c, rank, n, &mine, err);
    if (rc)
        return rc;
    struct stk_comm *g = calloc(1, sizeof *g);
    uint32_t *map = calloc(n, sizeof *map);
    if (!g || !map) {
        free(g);
        free(map);
        return stk_err_nomem(err, n * sizeof *map);
    }
    *g = (struct stk_comm){.root = c->root, .rank = mine, .size = n, .map = map};
    for (uint32_t i = 0; i < n; i++)
        map[i] = stk_comm_world(c, rank[i]);
    rc = agree_on_block(g, err);
    rc = rc ? rc : number_nodes(g, err);
    if (rc)
        free_comm(g);
    else
        *out = g;
    return rc;
}

/* ---- who ---- */

uint32_t stk_comm_rank(const struct stk_comm *c)
{
    return c->rank;
}

uint32_t stk_comm_size(const struct stk_comm *c)
{
    return c->size;
}

const char *stk_comm_kind(const struct stk_comm *c)
{
    return c->root->kind;
}

const char *stk_comm_lacks(const struct stk_comm *c)
{
    return c->root->lacks;
}

uint32_t stk_comm_nodes(const struct stk_comm *c)
{
    return c->nodes;
}

uint32_t stk_comm_node(const struct stk_comm *c, uint32_t rank)
{
    return c->node[rank];
}

uint32_t stk_comm_leader(const struct stk_comm *c, uint32_t node)
{
    return c->leader[node];
}

const char *stk_comm_node_name(const struct stk_comm *c, uint32_t node)
{
    return c->root->peer[stk_comm_world(c, c->leader[node])].node;
}

int stk_comm_pid(const struct stk_comm *c, uint32_t rank)
{
    const struct comm_root *r = c->root;
    return r->ops && r->ops->pid ? r->ops->pid(r->impl, stk_comm_world(c, rank)) : 0;
}

int64_t stk_comm_lost(struct stk_comm *c, char *why, size_t size)
{
    return stk_pulse_lost(c->root, why, size);
}

void stk_comm_on_lost(struct stk_comm *c, void (*lost)(void *user, const struct stk_err *why),
                      void *user)
{
    struct comm_root *r = c->root;
    if (!r->pulse)
        return;
    pthread_mutex_lock(&r->lock);
    r->on_lost = lost;
    r->on_lost_user = user;
    pthread_mutex_unlock(&r->lock);
}

void stk_comm_set_patience(struct stk_comm *c, double seconds)
{
    atomic_store(&c->root->patience_s, seconds);
}

void stk_comm_give_up(struct stk_comm *c, const char *why)
{
    struct comm_root *r = c->root;
    if (r->size == 1)
        return;
    pthread_mutex_lock(&r->lock);
    stk_pulse_tell(r, r->rank, why);
    pthread_mutex_unlock(&r->lock);
    stk_pulse_flush(r);
}

void stk_comm_reported(struct stk_comm *c)
{
    if (c->root->pulse)
        stk_pulse_reported(c->root);
}

void stk_comm_await_report(struct stk_comm *c, uint32_t from, double limit_s)
{
    double until = stk_now() + limit_s;
    while (stk_now() < until && !stk_pulse_await_report(c->root, stk_comm_world(c, from))) {
        pthread_mutex_lock(&c->root->lock);
        stk_pulse_beat(c->root);
        pthread_mutex_unlock(&c->root->lock);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

/* ---- messages ---- */

static int check_message(const struct stk_comm *c, uint32_t peer, int tag, size_t n,
                         struct stk_err *err)
{
    if ((peer < c->size || peer == STK_COMM_ANY) && tag >= 0 && tag < COMM_BLOCK &&
        n <= STK_COMM_MSG_MAX && c->root->ops)
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1,
                       "a message of %zu bytes with tag %d for rank %lu of %lu", n, tag,
                       (unsigned long)peer, (unsigned long)c->size);
}

static int finish_call(struct comm_root *r, int rc)
{
    r->failed |= rc != 0;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

int stk_comm_isend(struct stk_comm *c, uint32_t to, int tag, const void *p, size_t n,
                   struct stk_comm_msg *m, struct stk_err *err)
{
    struct comm_root *r = c->root;
    int rc = check_message(c, to, tag, n, err);
    if (rc)
        return rc;
    *m = (struct stk_comm_msg){.from = c->rank, .size = n, .busy = true, .sent = true};
    pthread_mutex_lock(&r->lock);
    rc = stk_pulse_check(r, err);
    rc = rc ? rc
            : r->ops->isend(r->impl, stk_comm_world(c, to), (int)c->block * COMM_BLOCK + tag, p, n,
                            m->room, err);
    m->busy = rc == 0;
    return finish_call(r, rc);
}

int stk_comm_irecv(struct stk_comm *c, uint32_t from, int tag, void *p, size_t n,
                   struct stk_comm_msg *m, struct stk_err *err)
{
    struct comm_root *r = c->root;
    int rc = check_message(c, from, tag, n, err);
    if (rc)
        return rc;
    *m = (struct stk_comm_msg){.from = from, .busy = true};
    pthread_mutex_lock(&r->lock);
    rc = stk_pulse_check(r, err);
    rc = rc ? rc
            : r->ops->irecv(r->impl, from == STK_COMM_ANY ? from : stk_comm_world(c, from),
                            (int)c->block * COMM_BLOCK + tag, p, n, m->room, err);
    m->busy = rc == 0;
    return finish_call(r, rc);
}

/* The rank in c of a rank of the root. */
static uint32_t rank_in(const struct stk_comm *c, uint32_t world)
{
    uint32_t i = 0;
    while (c->map && i < c->size && c->map[i] != world)
        i++;
    return c->map ? i : world;
}

int stk_comm_test(struct stk_comm *c, struct stk_comm_msg *m, struct stk_err *err)
{
    struct comm_root *r = c->root;
    uint32_t from = 0;
    size_t n = 0;
    bool done = false, any = m->from == STK_COMM_ANY;
    if (!m->busy)
        return 0;
    pthread_mutex_lock(&r->lock);
    /* Also if a thread does so: on a busy machine, it may not get the lock for long. */
    stk_pulse_beat(r);
    /* A message that has arrived counts, even if its sender is lost since. */
    int rc = r->ops->test(r->impl, m->room, &done, &from, &n, err);
    if (!rc && !done)
        rc = stk_pulse_check(r, err);
    if (!rc && done) {
        m->busy = false;
        m->size = n;
        m->from = any ? rank_in(c, from) : m->from;
    }
    return finish_call(r, rc);
}

/* Others of this machine may need the CPU to send what we wait for. */
static void pause_between(unsigned tries)
{
    if (tries < 16)
        return;
    if (tries < 64) {
        sched_yield();
        return;
    }
    struct timespec t = {.tv_nsec = tries < 512 ? 50000 : 500000};
    nanosleep(&t, NULL);
}

int stk_comm_wait(struct stk_comm *c, struct stk_comm_msg *m, double limit_s, struct stk_err *err)
{
    double until = stk_now() + limit_s;
    for (unsigned tries = 0;; tries++) {
        int rc = stk_comm_test(c, m, err);
        if (rc || !m->busy)
            return rc;
        if (tries > 64 && stk_now() > until) {
            c->root->failed = true;
            return stk_err_set(err, STK_E_STOPPED, NULL, -1, "no answer within %.0f s", limit_s);
        }
        pause_between(tries);
    }
}

void stk_comm_keep(struct stk_comm *c, void *p)
{
    struct comm_root *r = c->root;
    pthread_mutex_lock(&r->lock);
    if (p && STK_ARRAY_MORE(r->kept, r->nkept, NULL) == 0)
        r->kept[r->nkept++] = p;
    pthread_mutex_unlock(&r->lock);
}

void stk_comm_drop(struct stk_comm *c, struct stk_comm_msg *m)
{
    struct comm_root *r = c->root;
    if (!m->busy || (m->sent && !r->ops->forgets))
        return;
    pthread_mutex_lock(&r->lock);
    r->ops->cancel(r->impl, m->room);
    pthread_mutex_unlock(&r->lock);
    m->busy = false;
}
