/*
 * spread_ring.c - the leaders' ring: crates go from each leader to the next until they have passed
 * all nodes that want their parcels.
 *
 * Threads of the copier fill crates with what they read. One thread sends and receives. Writers put
 * parcels into the tier. A crate's memory is used again when it was passed on and written.
 *
 * The ring cannot block: a leader has at most OWN_ABROAD crates of its own on their way, which the
 * last node to get each acknowledges, and every leader has more room than that for crates of
 * others. So there is always a leader with room for the next crate.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage/spread_ring.h"

/* Takes the first of a list. */
static struct crate *pop(struct crate **first, struct crate ***end)
{
    struct crate *c = *first;
    *first = c->link;
    if (!*first)
        *end = first;
    return c;
}

/* ---- the thread that sends and receives ---- */

/* With the lock held. */
void stk_ring_release(struct ring *g, struct crate *c)
{
    if (!c->own || c->sending || c->acking || c->abroad || c->writing)
        return; /* crates of others are collected by the thread that receives */
    c->link = g->free_own;
    g->free_own = c;
    pthread_cond_signal(&g->free_cond);
}

/* True: a writer has it now, and releases it. */
static bool give_to_writers(struct ring *g, struct crate *c)
{
    if (!g->r->set || atomic_load(&g->disk_broken))
        return false;
    pthread_mutex_lock(&g->lock);
    c->writing = true;
    c->write_link = NULL;
    *g->to_write_end = c;
    g->to_write_end = &c->write_link;
    pthread_cond_signal(&g->write_cond);
    pthread_mutex_unlock(&g->lock);
    return true;
}

/* Crates that were filled here: to the writers, and on their way. */
static bool take_ready(struct ring *g)
{
    bool some = false;
    for (;;) {
        pthread_mutex_lock(&g->lock);
        struct crate *c = g->ready;
        if (c && (g->nabroad < OWN_ABROAD || !stk_crate_head(c)->hops))
            (void)pop(&g->ready, &g->ready_end);
        else
            c = NULL;
        if (c && stk_crate_head(c)->hops)
            c->sending = c->abroad = true;
        pthread_mutex_unlock(&g->lock);
        if (!c)
            return some;
        some = true;
        bool travels = c->abroad;
        if (travels) {
            g->nabroad++;
            stk_crate_push(&g->send_end, c);
        }
        if (!give_to_writers(g, c) && !travels) {
            pthread_mutex_lock(&g->lock);
            stk_ring_release(g, c);
            pthread_mutex_unlock(&g->lock);
        }
    }
}

static int start_sends(struct ring *g, struct stk_err *err)
{
    int rc = 0;
    while (g->send && g->nsending < SENDS_MAX && !rc) {
        struct crate *c = pop(&g->send, &g->send_end);
        rc = stk_comm_isend(g->r->comm, (g->me + 1) % g->nodes, TAG_CRATE, c->p, c->size, &c->msg,
                            err);
        stk_crate_push(&g->sending_end, c);
        g->nsending++;
    }
    return rc;
}

static int end_sends(struct ring *g, bool *some, struct stk_err *err)
{
    while (g->sending) {
        struct crate *c = g->sending;
        int rc = stk_comm_test(g->r->comm, &c->msg, err);
        if (rc || c->msg.busy)
            return rc;
        (void)pop(&g->sending, &g->sending_end);
        g->nsending--;
        *some = true;
        atomic_fetch_add(&g->r->counts->sent, stk_crate_head(c)->bytes);
        pthread_mutex_lock(&g->lock);
        c->sending = false;
        stk_ring_release(g, c);
        pthread_mutex_unlock(&g->lock);
    }
    return 0;
}

static int post_receives(struct ring *g, struct stk_err *err)
{
    int rc = 0;
    pthread_mutex_lock(&g->lock);
    for (unsigned i = 0; i < ROOM_CRATES; i++) {
        struct crate *c = &g->room[i];
        if (c->size && !c->sending && !c->acking && !c->writing) {
            c->size = 0; /* free */
            c->link = g->free_room;
            g->free_room = c;
        }
    }
    pthread_mutex_unlock(&g->lock);
    while (g->free_room && !rc) {
        struct crate *c = g->free_room;
        g->free_room = c->link;
        rc = stk_comm_irecv(g->r->comm, (g->me + g->nodes - 1) % g->nodes, TAG_CRATE, c->p,
                            CRATE_MAX, &c->msg, err);
        stk_crate_push(&g->posted_end, c);
    }
    return rc;
}

static bool entry_is_sound(const struct ring *g, const struct entry *e)
{
    const struct stk_source *src = g->r->src;
    if (e->kind == KIND_LAST)
        return e->len == 0;
    if (e->file >= src->count || e->kind > KIND_LAST)
        return false;
    uint64_t size = src->file[e->file].size;
    return e->kind == KIND_FINISH ? e->len == 0
                                  : e->parcel < stk_tier_parcels(size) &&
                                        e->len == stk_tier_parcel_len(size, e->parcel);
}

/* Nothing of a crate is used before all of it was checked. *last: the last of its origin. */
static int open_crate(struct ring *g, struct crate *c, bool *last, struct stk_err *err)
{
    struct head *h = stk_crate_head(c);
    uint64_t bytes = 0;
    bool sound = c->msg.size >= sizeof *h && h->magic == RING_MAGIC && h->origin < g->nodes &&
                 h->origin != g->me && h->hops && h->hops < g->nodes && h->entries <= ENTRIES_MAX &&
                 h->bytes <= DATA_MAX &&
                 c->msg.size == sizeof *h + h->bytes + h->entries * sizeof(struct entry);
    for (uint32_t i = 0; sound && i < h->entries; i++) {
        struct entry e;
        memcpy(&e, c->p + sizeof *h + h->bytes + i * sizeof e, sizeof e);
        sound = entry_is_sound(g, &e);
        bytes += e.len;
        if (sound && e.kind == KIND_LAST) {
            *last = true;
            g->r->read_failed[h->origin] = e.hash != 0;
        }
    }
    if (sound && bytes == h->bytes)
        return 0;
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a message from node %s makes no sense",
                       stk_comm_node_name(g->r->comm, (g->me + g->nodes - 1) % g->nodes));
}

/* A crate has come: on with it, and to the writers. */
static int receive(struct ring *g, struct crate *c, struct stk_err *err)
{
    struct head *h = stk_crate_head(c);
    bool last = false;
    int rc = open_crate(g, c, &last, err);
    if (rc)
        return rc;
    c->size = c->msg.size;
    atomic_fetch_add(&g->r->counts->received, h->bytes);
    g->lasts += last;
    if (--h->hops) {
        c->sending = true;
        stk_crate_push(&g->send_end, c);
    } else {
        c->acking = true;
        c->ack = h->slot;
        rc = stk_comm_isend(g->r->comm, h->origin, TAG_ACK, &c->ack, sizeof c->ack, &c->ack_msg,
                            err);
        c->link = g->acking;
        g->acking = c;
    }
    (void)give_to_writers(g, c);
    return rc;
}

static int end_receives(struct ring *g, bool *some, struct stk_err *err)
{
    while (g->posted) {
        int rc = stk_comm_test(g->r->comm, &g->posted->msg, err);
        if (rc || g->posted->msg.busy)
            return rc;
        struct crate *c = pop(&g->posted, &g->posted_end);
        *some = true;
        rc = receive(g, c, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int end_acks(struct ring *g, struct stk_err *err)
{
    for (struct crate **at = &g->acking; *at;) {
        struct crate *c = *at;
        int rc = stk_comm_test(g->r->comm, &c->ack_msg, err);
        if (rc)
            return rc;
        if (c->ack_msg.busy) {
            at = &c->link;
            continue;
        }
        *at = c->link;
        pthread_mutex_lock(&g->lock);
        c->acking = false;
        pthread_mutex_unlock(&g->lock);
    }
    return 0;
}

static int take_acks(struct ring *g, bool *some, struct stk_err *err)
{
    for (;;) {
        int rc = 0;
        if (!g->ack_posted)
            rc = stk_comm_irecv(g->r->comm, STK_COMM_ANY, TAG_ACK, &g->ack_in, sizeof g->ack_in,
                                &g->ack_msg, err);
        g->ack_posted = rc == 0;
        rc = rc ? rc : stk_comm_test(g->r->comm, &g->ack_msg, err);
        if (rc || g->ack_msg.busy)
            return rc;
        g->ack_posted = false;
        *some = true;
        if (g->ack_in >= OWN_CRATES || !g->own[g->ack_in].abroad)
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                               "an acknowledgement of a crate that was not sent");
        struct crate *c = &g->own[g->ack_in];
        g->nabroad--;
        pthread_mutex_lock(&g->lock);
        c->abroad = false;
        stk_ring_release(g, c);
        pthread_mutex_unlock(&g->lock);
    }
}

static bool is_over(struct ring *g)
{
    pthread_mutex_lock(&g->lock);
    bool over = g->copied && !g->ready && !g->to_write && !g->busy_writers;
    pthread_mutex_unlock(&g->lock);
    return over && g->lasts == g->nodes - 1 && !g->send && !g->sending && !g->acking && !g->nabroad;
}

static int move(struct ring *g, bool *some, struct stk_err *err)
{
    int rc = post_receives(g, err);
    *some |= take_ready(g);
    rc = rc ? rc : end_receives(g, some, err);
    rc = rc ? rc : start_sends(g, err);
    rc = rc ? rc : end_sends(g, some, err);
    rc = rc ? rc : end_acks(g, err);
    return rc ? rc : take_acks(g, some, err);
}

static void doze(unsigned idle)
{
    struct timespec t = {.tv_nsec = idle < 20 ? 20000 : idle < 200 ? 100000 : 500000};
    if (idle > 4)
        nanosleep(&t, NULL);
}

static int run(struct ring *g, struct stk_err *err)
{
    int rc = 0;
    for (unsigned idle = 0; !rc && !is_over(g);) {
        bool some = false;
        rc = move(g, &some, err);
        stk_ring_look_after_disk(g);
        if (!rc && g->r->tick(g->r->user))
            rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
        idle = some ? 0 : idle + 1;
        doze(idle);
    }
    return rc;
}

/* ---- begin and end ---- */

static int begin(struct ring *g, struct stk_err *err)
{
    size_t n = OWN_CRATES + ROOM_CRATES, each = (CRATE_MAX + 4095) / 4096 * 4096;
    g->memory = aligned_alloc(4096, n * each);
    if (!g->memory)
        return stk_err_nomem(err, n * each);
    for (unsigned i = 0; i < n; i++) {
        struct crate *c = i < OWN_CRATES ? &g->own[i] : &g->room[i - OWN_CRATES];
        struct crate **list = i < OWN_CRATES ? &g->free_own : &g->free_room;
        c->p = g->memory + i * each;
        c->own = i < OWN_CRATES;
        c->link = *list;
        *list = c;
    }
    g->ready_end = &g->ready;
    g->to_write_end = &g->to_write;
    g->posted_end = &g->posted;
    g->send_end = &g->send;
    g->sending_end = &g->sending;
    return 0;
}

static void stop_threads(struct ring *g, bool abort)
{
    pthread_mutex_lock(&g->lock);
    g->abort |= abort;
    g->no_more = true;
    pthread_cond_broadcast(&g->free_cond);
    pthread_cond_broadcast(&g->write_cond);
    pthread_mutex_unlock(&g->lock);
}

static void start_writers(struct ring *g)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        struct writer *w = &g->writer[g->writers];
        *w = (struct writer){.ring = g};
        g->writers += pthread_create(&w->thread, NULL, stk_ring_write, w) == 0;
    }
}

/* Those whose disk hangs may never end. */
static void end_writers(struct ring *g)
{
    for (unsigned i = 0; i < g->writers; i++)
        if (g->r->stuck)
            (void)pthread_detach(g->writer[i].thread);
        else
            pthread_join(g->writer[i].thread, NULL);
}

static int run_threads(struct ring *g, struct stk_err *err)
{
    pthread_t copier;
    start_writers(g);
    bool copying = g->writers && pthread_create(&copier, NULL, stk_ring_read, g) == 0;
    int rc =
        copying ? run(g, err) : stk_err_set(err, STK_E_SYS, NULL, -1, "no thread can be started");
    stop_threads(g, rc != 0);
    if (copying)
        pthread_join(copier, NULL);
    end_writers(g);
    return rc;
}

static void end(struct ring *g, bool failed)
{
    for (struct crate *c = g->posted; c; c = c->link)
        stk_comm_drop(g->r->comm, &c->msg);
    if (g->ack_posted)
        stk_comm_drop(g->r->comm, &g->ack_msg);
    free(g->left);
    g->left = NULL;
    if (g->r->stuck) /* a writer uses it until the disk answers, or the process ends */
        return;
    for (unsigned i = 0; i < OPEN_CRATES; i++)
        pthread_mutex_destroy(&g->open[i].lock);
    pthread_mutex_destroy(&g->lock);
    pthread_mutex_destroy(&g->pending_lock);
    pthread_cond_destroy(&g->free_cond);
    pthread_cond_destroy(&g->write_cond);
    free(g->pending);
    if (failed) {
        stk_comm_keep(g->r->comm, g->memory);
        stk_comm_keep(g->r->comm, g);
    } else {
        free(g->memory);
        free(g);
    }
}

int stk_spread_ring(struct spread_ring *r, struct stk_err *err)
{
    struct ring *g = calloc(1, sizeof *g);
    if (!g)
        return stk_err_nomem(err, sizeof *g);
    g->r = r;
    g->me = stk_comm_rank(r->comm);
    g->nodes = stk_comm_size(r->comm);
    pthread_mutex_init(&g->lock, NULL);
    pthread_mutex_init(&g->pending_lock, NULL);
    pthread_cond_init(&g->free_cond, NULL);
    pthread_cond_init(&g->write_cond, NULL);
    for (unsigned i = 0; i < OPEN_CRATES; i++)
        pthread_mutex_init(&g->open[i].lock, NULL);
    int rc = begin(g, err);
    rc = rc ? rc : run_threads(g, err);
    if (!rc && r->set)
        stk_ring_finish(g);
    r->read_failed[g->me] = r->read_rc != 0;
    end(g, rc != 0);
    return rc;
}
