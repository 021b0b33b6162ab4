/*
 * spread_move.c - moves the parcels around the ring of the leaders, and completes the copy of each
 * node.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "stage/spread_run.h"
#include "stage/target.h"

#define PASSES     2u /* of the ring: once more if a node could not read its part */
#define SYNC_TIMES 10 /* the time that was spent so far */

/* ---- moving it ---- */

void stk_spread_close_set(struct spread *s)
{
    if (s->set && !s->stuck)
        stk_tier_set_close(s->set);
    s->set = NULL;
}

/* A node that cannot hold what it shall have takes part all the same, as one without a place. */
void stk_spread_refuse_small(struct spread *s)
{
    struct stk_err err = {0};
    char id[STK_TIER_ID];
    stk_spread_look(s, s->missing);
    uint64_t there = atomic_load(&s->counts.there);
    int rc = !s->set || there >= s->me.wanted
                 ? 0
                 : stk_target_room(stk_tier_path(s->tier), s->me.wanted - there, 0, &err);
    if (rc == 0)
        return;
    snprintf(id, sizeof id, "%s", stk_tier_set_id(s->set));
    stk_spread_failed(s, rc, &err);
    stk_spread_close_set(s);
    if (!there)
        (void)stk_tier_evict(s->tier, id, false, NULL, NULL);
}

/* Of one round; on the heap, since a thread that hangs keeps using it. */
struct round {
    struct spread_work work;
    struct spread_ring ring;
    uint8_t *read_failed;
};

static struct round *new_round(struct spread *s)
{
    struct round *t = calloc(1, sizeof *t);
    uint8_t *read_failed = calloc(s->nodes, 1);
    if (!t || !read_failed) {
        free(t);
        free(read_failed);
        return NULL;
    }
    t->read_failed = read_failed;
    t->work = (struct spread_work){.map = &s->map,
                                   .node = s->node,
                                   .nodes = s->nodes,
                                   .readers = s->readers,
                                   .missing = s->missing,
                                   .wanted = s->wanted};
    t->ring = (struct spread_ring){.comm = s->leaders,
                                   .src = &s->src,
                                   .work = &t->work,
                                   .set = s->set,
                                   .copy = s->o.copy,
                                   .counts = &s->counts,
                                   .disk_s = s->disk_s,
                                   .tick = stk_spread_tick,
                                   .user = s,
                                   .read_failed = read_failed};
    t->ring.copy.max_rate = s->o.copy.max_rate ? s->o.copy.max_rate / s->nodes + 1 : 0;
    return t;
}

/* *failed: the number of nodes that could not read their part. */
static int move_once(struct spread *s, uint32_t *failed, struct stk_err *err)
{
    struct round *t = new_round(s);
    if (!t)
        return stk_err_nomem(err, s->nodes + sizeof *t);
    struct spread_ring *ring = &t->ring;
    int rc = stk_spread_ring(ring, err);
    s->me.read_s += ring->read_s;
    s->stuck = s->stuck || ring->stuck;
    if (!rc && ring->disk_rc) {
        stk_spread_failed(s, ring->disk_rc, &ring->disk_err);
        stk_spread_close_set(s); /* what it has stays, and the next run goes on with it */
    }
    for (uint32_t i = 0; i < s->nodes && !rc; i++) {
        *failed += t->read_failed[i];
        s->readers[i] = s->readers[i] && !t->read_failed[i];
    }
    if (!rc && ring->read_rc) {
        s->read_rc = ring->read_rc;
        s->read_err = ring->read_err;
    }
    if (!s->stuck) {
        free(t->read_failed);
        free(t);
    }
    return rc;
}

static bool has_reader(const struct spread *s)
{
    bool some = false;
    for (uint32_t i = 0; i < s->nodes; i++)
        some |= s->readers[i];
    return some;
}

int stk_spread_move(struct spread *s, struct stk_err *err)
{
    bool some = true;
    int rc = 0;
    stk_spread_enter(s, STK_SPREAD_COPYING);
    for (unsigned pass = 0; pass < PASSES && !rc; pass++) {
        uint32_t failed = 0;
        rc = stk_spread_missing(s, &some, err);
        if (rc || !some)
            break;
        s->unread = !has_reader(s);
        if (s->unread)
            break;
        rc = move_once(s, &failed, err);
        s->unread = failed != 0;
        if (!failed)
            break;
    }
    return rc;
}

/* ---- completing the copy ---- */

static int on_fill(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total)
{
    struct spread *s = user;
    (void)total;
    if (s->stuck)
        return 1;
    atomic_store(&s->counts.there, bytes);
    stk_status_write(s->status, &s->me, false);
    return stk_spread_tell(s, phase, bytes);
}

struct publishing {
    struct spread *s;
    struct stk_stage_result r;
};

static int fill_and_sync(void *user, struct stk_err *err)
{
    struct publishing *p = user;
    struct stk_stage_options o = {.copy = p->s->o.copy,
                                  .one_of_many = p->s->node != 0,
                                  .progress = on_fill,
                                  .user = p->s};
    return stk_stage_fill(&p->s->src, p->s->tier, &o, &p->r, err);
}

/* Copies what another process had claimed and not completed, syncs and publishes. What was written
 * may take some times as long to reach the disk. */
static void publish(struct spread *s)
{
    struct publishing *p = calloc(1, sizeof *p);
    struct stk_err err = {0};
    stk_spread_enter(s, STK_SPREAD_SYNCING);
    stk_spread_close_set(s);
    double limit_s = s->disk_s + SYNC_TIMES * (stk_now() - s->start);
    int rc = p ? 0 : stk_err_nomem(&err, sizeof *p);
    if (p)
        p->s = s;
    rc = rc ? rc : stk_spread_step(s, fill_and_sync, p, limit_s, &err);
    if (rc)
        stk_spread_failed(s, rc, &err);
    if (s->stuck || !p)
        return;
    if (!rc)
        atomic_store(&s->counts.there, s->src.bytes);
    atomic_fetch_add(&s->counts.read, p->r.bytes_copied);
    if (!rc && p->r.path)
        snprintf(s->me.path, sizeof s->me.path, "%s", p->r.path);
    stk_stage_result_release(&p->r);
    free(p);
}

void stk_spread_complete(struct spread *s)
{
    struct stk_err err = {0};
    if (s->unread && s->read_rc)
        stk_spread_failed(s, s->read_rc, &s->read_err);
    else if (s->unread)
        stk_spread_failed(s,
                     stk_err_set(&err, STK_E_STOPPED, NULL, -1,
                                 "another node could not read its part of the source"),
                     &err);
    if (!s->set || s->me.code)
        return;
    if (s->r->mode == STK_SPREAD_REPLICATE) {
        publish(s);
        return;
    }
    uint64_t *left = calloc(stk_bits_words(s->map.parcels) + 1, 8);
    if (left)
        stk_spread_look(s, left);
    free(left);
    if (atomic_load(&s->counts.there) < s->me.wanted)
        stk_spread_failed(s,
                     stk_err_set(&err, STK_E_STOPPED, NULL, -1,
                                 "another process is still copying a part of it"),
                     &err);
    else
        snprintf(s->me.path, sizeof s->me.path, "%s", s->src.path);
}
