/*
 * spread.c - brings a source to many nodes: rank 0 lists it, the leaders agree on what each node
 * shall have, move it around their ring, and each completes the copy of its node.
 */
#include "stage/spread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/pool.h"
#include "base/text.h"
#include "stage/spread_run.h"

#define TICK_S 0.05
#define DISK_S 60.0 /* unless the caller says otherwise */

const char *const stk_spread_names[] = {"auto", "replicate", "shard", NULL};
const char *const stk_spread_phases[] = {"",     "listing", "preparing", "copying", "syncing",
                                         "done", "failed",  "lost",      NULL};

const char *stk_spread_phase_name(uint32_t phase)
{
    return stk_spread_phases[phase <= STK_SPREAD_LOST ? phase : STK_SPREAD_UNHEARD];
}

enum stk_spread_phase stk_spread_phase_of(const char *name)
{
    int i = stk_text_index(name, stk_spread_phases);
    return i < 0 ? STK_SPREAD_UNHEARD : (enum stk_spread_phase)i;
}

/* ---- this node's record ---- */

void stk_spread_failed(struct spread *s, int code, const struct stk_err *err)
{
    char text[2200];
    if (s->me.code)
        return;
    s->me.code = code;
    snprintf(s->me.what, sizeof s->me.what, "%.255s", stk_err_text(err, text, sizeof text));
}

static void take_counts(struct spread *s)
{
    s->me.read = atomic_load(&s->counts.read);
    s->me.sent = atomic_load(&s->counts.sent);
    s->me.received = atomic_load(&s->counts.received);
    s->me.written = atomic_load(&s->counts.written);
    s->me.there = atomic_load(&s->counts.there);
    s->me.seconds = stk_now() - s->start;
}

void stk_spread_enter(struct spread *s, enum stk_spread_phase phase)
{
    s->me.phase = phase;
    take_counts(s);
    stk_status_write(s->status, &s->me, true);
}

int stk_spread_step(struct spread *s, stk_thread_fn *step, void *user, double limit_s,
                    struct stk_err *err)
{
    struct stk_thread *t;
    int rc = stk_thread_open(&t, err);
    if (rc)
        return rc;
    int late = stk_thread_call(t, step, NULL, user, &(struct stk_limit){.seconds = limit_s}, &rc,
                               err);
    if (stk_thread_close(t, 0) && !late)
        return rc;
    s->stuck = true;
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "the disk has not completed a sync for %.0f s",
                       limit_s);
}

int stk_spread_tell(struct spread *s, enum stk_stage_phase phase, uint64_t bytes)
{
    return s->o.progress ? s->o.progress(s->o.user, phase, bytes, s->src.bytes) : 0;
}

int stk_spread_tick(void *user)
{
    struct spread *s = user;
    double now = stk_now();
    if (now - s->ticked < TICK_S)
        return 0;
    s->ticked = now;
    take_counts(s);
    stk_status_write(s->status, &s->me, false);
    return stk_spread_tell(s, STK_STAGE_COPY, s->me.there);
}

/* ---- the whole ---- */

static int lead(struct spread *s, struct stk_err *err)
{
    stk_spread_enter(s, STK_SPREAD_PREPARING);
    stk_spread_open_place(s);
    int rc = stk_spread_agree(s, err);
    rc = rc ? rc : stk_spread_map_init(&s->map, &s->src, err);
    rc = rc ? rc : stk_spread_divide(s, err);
    s->me.wanted = rc ? 0 : stk_spread_count(s);
    if (rc == 0)
        stk_spread_refuse_small(s);
    rc = rc ? rc : stk_spread_move(s, err);
    if (rc)
        return rc;
    stk_spread_complete(s);
    stk_spread_enter(s, s->me.code ? STK_SPREAD_FAILED : STK_SPREAD_DONE);
    return 0;
}

static void sum_up(struct stk_spread_result *r)
{
    r->good = 0;
    r->slowest = -1;
    for (uint32_t i = 0; i < r->nodes; i++) {
        r->good += r->node[i].phase == STK_SPREAD_DONE;
        if (r->slowest < 0 || r->node[i].seconds > r->node[r->slowest].seconds)
            r->slowest = (int64_t)i;
    }
}

struct summary {
    int32_t mode;
    char why[256];
};

/* The leaders gather their records; rank 0 tells all others. */
static int gather(struct spread *s, struct stk_err *err)
{
    struct stk_spread_result *r = s->r;
    struct summary sum = {.mode = r->mode};
    int rc = 0;
    memcpy(sum.why, r->why, sizeof sum.why);
    if (s->leaders)
        rc = stk_comm_allgather(s->leaders, &s->me, sizeof s->me, r->node, STK_SPREAD_ANSWER_S, err);
    rc = rc ? rc : stk_comm_bcast(s->all, 0, &sum, sizeof sum, STK_SPREAD_ANSWER_S, err);
    rc = rc ? rc : stk_comm_bcast(s->all, 0, r->node, s->nodes * sizeof *r->node, STK_SPREAD_ANSWER_S, err);
    r->mode = sum.mode;
    memcpy(r->why, sum.why, sizeof r->why);
    sum_up(r);
    return rc;
}

/* A launcher that lost a rank sends SIGTERM to the others at once: the reason is known soon. */
static void wait_for_cause(struct spread *s, int rc)
{
    struct timespec t = {.tv_nsec = 20000000};
    for (int i = 0; i < 40 && rc == STK_E_STOPPED && stk_comm_lost(s->all, NULL, 0) < 0; i++)
        nanosleep(&t, NULL);
}

/* A rank was lost, or this one was stopped: what the files tell. */
static void gather_from_files(struct spread *s)
{
    struct stk_spread_result *r = s->r;
    char why[200] = "";
    int64_t lost = stk_comm_lost(s->all, why, sizeof why);
    struct stk_spread_node *copy = calloc(s->nodes, sizeof *copy);
    if (!copy)
        return;
    memcpy(copy, r->node, s->nodes * sizeof *copy);
    stk_comm_keep(s->all, r->node);
    r->node = copy;
    r->from_status = true;
    stk_status_read(s->status, r->node, s->nodes);
    if (s->leaders)
        r->node[s->node] = s->me;
    if (lost >= 0 && lost != (int64_t)stk_comm_rank(s->all)) {
        struct stk_spread_node *n = &r->node[stk_comm_node(s->all, (uint32_t)lost)];
        n->phase = STK_SPREAD_LOST;
        snprintf(n->what, sizeof n->what, "rank %lld: %s", (long long)lost, why);
        n->code = STK_E_STOPPED;
    }
    sum_up(r);
}

static int make_group(struct spread *s, struct stk_err *err)
{
    uint32_t *rank = calloc(s->nodes, sizeof *rank);
    int rc = rank ? 0 : stk_err_nomem(err, s->nodes * sizeof *rank);
    for (uint32_t i = 0; i < s->nodes && rank; i++)
        rank[i] = stk_comm_leader(s->all, i);
    rc = rc ? rc : stk_comm_group(s->all, rank, s->nodes, &s->leaders, err);
    free(rank);
    return rc;
}

static int begin(struct spread *s, struct stk_err *err)
{
    struct stk_spread_result *r = s->r;
    uint32_t me = stk_comm_rank(s->all);
    s->start = stk_now();
    s->nodes = stk_comm_nodes(s->all);
    s->node = stk_comm_node(s->all, me);
    s->readers = calloc(s->nodes, 1);
    r->node = calloc(s->nodes, sizeof *r->node);
    if (!s->readers || !r->node)
        return stk_err_nomem(err, s->nodes * sizeof *r->node);
    memset(s->readers, 1, s->nodes);
    r->nodes = s->nodes;
    for (uint32_t i = 0; i < s->nodes; i++) {
        snprintf(r->node[i].name, sizeof r->node[i].name, "%s", stk_comm_node_name(s->all, i));
        r->node[i].rank = stk_comm_leader(s->all, i);
    }
    s->me = r->node[s->node];
    if (stk_comm_leader(s->all, s->node) != me)
        return 0;
    s->me.phase = STK_SPREAD_LISTING;
    int rc = make_group(s, err);
    return rc ? rc : stk_status_begin(s->o.status, s->node, &s->me, &s->status, err);
}

static void end(struct spread *s, int rc)
{
    /* All nodes read the result before the first removes the files. */
    bool clean = s->agreed || (!rc && s->r->good == s->nodes && s->node == 0);
    stk_status_end(s->status, s->agreed ? 0 : s->nodes, clean);
    if (s->stuck) { /* a thread uses all of it */
        s->r->stuck = true;
        stk_comm_close(s->leaders);
        return;
    }
    stk_spread_close_set(s);
    if (s->tier)
        stk_tier_close(s->tier);
    stk_source_release(&s->src);
    stk_spread_map_release(&s->map);
    if (s->index_fd >= 0)
        close(s->index_fd);
    free(s->readers);
    free(s->shall);
    if (rc) { /* what was being sent stays in place */
        stk_comm_keep(s->all, s->missing);
        stk_comm_keep(s->all, s->wanted);
        stk_comm_keep(s->all, s);
    } else {
        free(s->missing);
        free(s->wanted);
    }
    stk_comm_close(s->leaders);
    if (!rc)
        free(s);
}

int stk_spread(struct stk_comm *c, const char *path, const struct stk_spread_options *o,
               struct stk_spread_result *r, struct stk_err *err)
{
    struct spread *s = calloc(1, sizeof *s);
    struct stk_err why = {0};
    *r = (struct stk_spread_result){.mode = o->mode, .slowest = -1};
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    s->all = c;
    s->o = *o;
    s->disk_s = o->disk_s > 0 ? o->disk_s : DISK_S;
    s->r = r;
    s->src = STK_SOURCE_INIT;
    s->index_fd = -1;
    int rc = begin(s, &why);
    rc = rc ? rc : stk_spread_share_list(s, path, &why);
    rc = rc || !s->leaders ? rc : lead(s, &why);
    rc = rc ? rc : gather(s, &why);
    if (rc && !s->agreed) {
        wait_for_cause(s, rc);
        stk_comm_give_up(c, why.what);
        stk_spread_failed(s, rc, &why);
        stk_spread_enter(s, STK_SPREAD_FAILED);
        if (r->node)
            gather_from_files(s);
    }
    if (rc && err)
        *err = why;
    end(s, rc);
    return rc;
}

void stk_spread_result_release(struct stk_spread_result *r)
{
    free(r->node);
    *r = (struct stk_spread_result){0};
}
