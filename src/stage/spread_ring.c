/*
 * spread_ring.c - the leaders' ring: crates go from each leader to the next until they have passed
 * all nodes that want their parcels.
 *
 * Threads of the copier fill crates with what they read. One thread sends and receives. Writers put
 * parcels into the tier; a disk that fails stops the writing here, and nothing else. A crate's
 * memory is used again when it was passed on and written.
 *
 * The ring cannot block: a leader has at most OWN_ABROAD crates of its own on their way, which the
 * last node to get each acknowledges, and every leader has more room than that for crates of
 * others. So there is always a leader with room for the next crate.
 */
#include "stage/spread_priv.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/pool.h"

#define RING_MAGIC  0x63726174u
#define ENTRIES_MAX 1024u
#define OPEN_CRATES 4u /* that are being filled at the same time */
#define OWN_ABROAD  6u
#define OWN_CRATES  (OPEN_CRATES + OWN_ABROAD + 2)
#define ROOM_CRATES 12u /* for those of others: more than OWN_ABROAD */
#define SENDS_MAX   4u
#define WRITERS     4u

enum { TAG_CRATE, TAG_ACK };
enum { KIND_PARCEL, KIND_FINISH, KIND_LAST };

struct head {
    uint32_t magic, origin;
    uint32_t hops; /* nodes that it goes to from here */
    uint32_t entries;
    uint64_t bytes; /* behind the head; the entries come after them */
    uint64_t slot;  /* the origin's number of the crate, for the acknowledgement */
};

struct entry {
    uint64_t file, parcel;
    uint64_t hash; /* PARCEL: of its bytes; FINISH: of the whole file */
    uint32_t len, kind;
};

#define DATA_MAX  ((size_t)STK_TIER_PARCEL)
#define CRATE_MAX (sizeof(struct head) + DATA_MAX + ENTRIES_MAX * sizeof(struct entry))

struct crate {
    uint8_t *p; /* head, bytes, entries */
    size_t size;
    struct entry entry[ENTRIES_MAX]; /* while it is filled */
    struct crate *link, *write_link;
    struct stk_comm_msg msg, ack_msg;
    uint64_t ack;
    bool own, sending, acking, abroad, writing; /* any of these: in use */
};

/* A writer, and the crate that it writes. Not of base/thread.h, where one function at a time is
 * waited for: the ring goes on meanwhile, and takes the crate away from a writer that is late. */
struct writer {
    struct ring *ring;
    pthread_t thread;
    struct crate *crate; /* NULL: none, or it was taken away because the disk hangs */
    double since_s;
};

/* A file that lacks its hash, or the hash that lacks its file. */
struct pending {
    uint64_t file, hash;
    bool complete;
};

struct ring {
    struct spread_ring *r;
    uint32_t me, nodes;
    uint8_t *memory; /* of all crates */
    struct crate own[OWN_CRATES], room[ROOM_CRATES];

    pthread_mutex_t lock;
    pthread_cond_t free_cond, write_cond;
    bool abort;                       /* the ring is broken: threads end */
    bool no_more;                     /* writers end when their queue is empty */
    struct crate *free_own;           /* by link */
    struct crate *ready, **ready_end; /* filled, to be sent or written */
    struct crate *to_write, **to_write_end;
    struct writer writer[WRITERS];
    unsigned writers, busy_writers;
    bool copied; /* the copier has ended */

    struct {
        pthread_mutex_t lock;
        struct crate *crate;
    } open[OPEN_CRATES];
    uint32_t *left; /* parcels of each file of the parts that were not read yet */
    uint64_t first_file;

    pthread_mutex_t pending_lock;
    struct pending *pending;
    size_t npending, pending_room;
    atomic_bool disk_broken;

    /* The thread that sends and receives, only. */
    struct crate *free_room;
    struct crate *posted, **posted_end; /* receives, in order */
    struct crate *send, **send_end;     /* to be sent */
    struct crate *sending, **sending_end;
    struct crate *acking;
    unsigned nsending, nabroad;
    uint64_t ack_in;
    struct stk_comm_msg ack_msg;
    bool ack_posted;
    uint32_t lasts;
};

static struct head *head_of(struct crate *c)
{
    return (struct head *)(void *)c->p;
}

/* Appends to a list that knows its end. */
static void push(struct crate ***end, struct crate *c)
{
    c->link = NULL;
    **end = c;
    *end = &c->link;
}

/* Frees a crate of our own if nothing uses it any more; with the lock held. */
static void release_crate(struct ring *g, struct crate *c)
{
    if (!c->own || c->sending || c->acking || c->abroad || c->writing)
        return; /* crates of others are collected by the thread that receives */
    c->link = g->free_own;
    g->free_own = c;
    pthread_cond_signal(&g->free_cond);
}

/* ---- filling crates: called by threads of the copier ---- */

static struct crate *take_own(struct ring *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->free_own && !g->abort)
        pthread_cond_wait(&g->free_cond, &g->lock);
    struct crate *c = g->abort ? NULL : g->free_own;
    if (c)
        g->free_own = c->link;
    pthread_mutex_unlock(&g->lock);
    if (c)
        *head_of(c) =
            (struct head){.magic = RING_MAGIC, .origin = g->me, .slot = (uint64_t)(c - g->own)};
    return c;
}

static void close_crate(struct ring *g, struct crate *c)
{
    struct head *h = head_of(c);
    size_t entries = h->entries * sizeof(struct entry);
    memcpy(c->p + sizeof *h + h->bytes, c->entry, entries);
    c->size = sizeof *h + h->bytes + entries;
    pthread_mutex_lock(&g->lock);
    push(&g->ready_end, c);
    pthread_mutex_unlock(&g->lock);
}

static int pack(struct ring *g, const struct entry *e, const void *p, uint32_t hops,
                struct stk_err *err)
{
    unsigned k = (unsigned)((uintptr_t)pthread_self() >> 12) % OPEN_CRATES;
    int rc = 0;
    pthread_mutex_lock(&g->open[k].lock);
    struct crate *c = g->open[k].crate;
    if (c && (head_of(c)->bytes + e->len > DATA_MAX || head_of(c)->entries == ENTRIES_MAX)) {
        close_crate(g, c);
        c = NULL;
    }
    c = c ? c : take_own(g);
    if (c) {
        struct head *h = head_of(c);
        if (e->len)
            memcpy(c->p + sizeof *h + h->bytes, p, e->len);
        c->entry[h->entries++] = *e;
        h->bytes += e->len;
        h->hops = h->hops > hops ? h->hops : hops;
        /* A full parcel leaves at once: the last ones do not wait for the end. */
        if (h->bytes == DATA_MAX) {
            close_crate(g, c);
            c = NULL;
        }
    } else {
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    }
    g->open[k].crate = c;
    pthread_mutex_unlock(&g->open[k].lock);
    return rc;
}

static struct ring *ring_of(struct stk_copy_sink *me);

static int sink_put(struct stk_copy_sink *me, uint64_t file, uint64_t parcel, const void *p,
                    size_t n, uint64_t hash, struct stk_err *err)
{
    struct ring *g = ring_of(me);
    const struct spread_work *w = g->r->work;
    struct entry e = {
        .file = file, .parcel = parcel, .hash = hash, .len = (uint32_t)n, .kind = KIND_PARCEL};
    uint32_t hops = stk_spread_hops(w, w->map->base[file] + parcel);
    int rc = pack(g, &e, p, hops, err);
    if (rc)
        return rc;
    atomic_fetch_add(&g->r->counts->read, n);
    pthread_mutex_lock(&g->lock);
    bool whole = --g->left[file - g->first_file] == 0;
    pthread_mutex_unlock(&g->lock);
    return whole;
}

/* The hash of the whole file travels behind its parcels: the others need not read them again. */
static int sink_finish(struct stk_copy_sink *me, uint64_t file, const uint64_t *hash,
                       struct stk_err *err)
{
    struct ring *g = ring_of(me);
    const struct spread_map *m = g->r->work->map;
    uint32_t hops = 0;
    if (!hash)
        return 0;
    for (uint64_t k = m->base[file]; k < m->base[file + 1]; k++) {
        uint32_t h = stk_spread_hops(g->r->work, k);
        hops = h > hops ? h : hops;
    }
    return pack(g, &(struct entry){.file = file, .hash = *hash, .kind = KIND_FINISH}, NULL, hops,
                err);
}

struct ring_sink {
    struct stk_copy_sink sink; /* first */
    struct ring *ring;
};

static struct ring *ring_of(struct stk_copy_sink *me)
{
    return ((struct ring_sink *)(void *)me)->ring;
}

/* ---- the copier's thread ---- */

static int count_left(struct ring *g, const struct stk_part *part, size_t n, struct stk_err *err)
{
    uint64_t first = n ? part[0].file : 0, end = first;
    for (size_t i = 0; i < n; i++) {
        first = part[i].file < first ? part[i].file : first;
        end = part[i].file >= end ? part[i].file + 1 : end;
    }
    g->first_file = first;
    g->left = calloc((size_t)(end - first) + 1, sizeof *g->left);
    if (!g->left)
        return stk_err_nomem(err, (end - first) * sizeof *g->left);
    for (size_t i = 0; i < n; i++)
        g->left[part[i].file - first] += (uint32_t)part[i].count;
    return 0;
}

static int still_wanted(void *user, uint64_t bytes, uint64_t files)
{
    struct ring *g = user;
    (void)bytes, (void)files;
    pthread_mutex_lock(&g->lock);
    bool stop = g->abort;
    pthread_mutex_unlock(&g->lock);
    return stop;
}

static int read_part(struct ring *g, struct stk_err *err)
{
    struct ring_sink sink = {.sink = {.put = sink_put, .finish = sink_finish}, .ring = g};
    struct stk_copy_options o = g->r->copy;
    struct stk_copy_result result;
    struct stk_part *part = NULL;
    size_t n = 0;
    o.progress = still_wanted;
    o.user = g;
    int rc = stk_spread_parts(g->r->work, &part, &n, err);
    rc = rc ? rc : count_left(g, part, n, err);
    rc = rc || !n ? rc : stk_copy(g->r->src, part, n, &o, &sink.sink, &result, err);
    free(part);
    return rc;
}

/* The last crate of a leader goes to all; the others learn that it could not read its part. */
static void send_last(struct ring *g)
{
    struct entry e = {.kind = KIND_LAST, .hash = (uint64_t)(g->r->read_rc != 0)};
    for (unsigned i = 0; i < OPEN_CRATES; i++)
        if (g->open[i].crate) {
            close_crate(g, g->open[i].crate);
            g->open[i].crate = NULL;
        }
    struct crate *c = take_own(g);
    if (!c)
        return;
    struct head *h = head_of(c);
    c->entry[h->entries++] = e;
    h->hops = g->nodes - 1;
    close_crate(g, c);
}

static void *run_reader(void *arg)
{
    struct ring *g = arg;
    struct stk_err err = {0};
    double start = stk_now();
    int rc = g->r->work->readers[g->me] ? read_part(g, &err) : 0;
    g->r->read_s = stk_now() - start;
    g->r->read_rc = rc;
    g->r->read_err = err;
    send_last(g);
    pthread_mutex_lock(&g->lock);
    g->copied = true;
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- errors that do not stop the ring ---- */

static void break_disk(struct ring *g, int rc, const struct stk_err *err)
{
    pthread_mutex_lock(&g->lock);
    if (!g->r->disk_rc) {
        g->r->disk_rc = rc;
        g->r->disk_err = *err;
    }
    pthread_mutex_unlock(&g->lock);
    atomic_store(&g->disk_broken, true);
}

/* ---- writing ---- */

static int finish_file(struct ring *g, uint64_t file, const uint64_t *hash)
{
    struct stk_err err = {0};
    int rc = stk_tier_finish_file(g->r->set, file, hash, &err);
    if (rc)
        break_disk(g, rc, &err);
    return rc;
}

/* Brings a file and its hash together; the first of the two waits here. True: both are there. */
static bool meets(struct ring *g, uint64_t file, bool complete, uint64_t *hash)
{
    bool both = false;
    size_t i = 0;
    pthread_mutex_lock(&g->pending_lock);
    while (i < g->npending && g->pending[i].file != file)
        i++;
    if (i < g->npending) {
        both = g->pending[i].complete != complete;
        *hash = complete ? g->pending[i].hash : *hash;
        if (both)
            g->pending[i] = g->pending[--g->npending];
    } else if (stk_array_room(&g->pending, &g->pending_room, g->npending + 1, sizeof *g->pending,
                              NULL) == 0) {
        g->pending[g->npending++] =
            (struct pending){.file = file, .hash = *hash, .complete = complete};
    }
    pthread_mutex_unlock(&g->pending_lock);
    return both;
}

static void store(struct ring *g, const struct entry *e, const uint8_t *p, bool check)
{
    struct stk_tier_set *set = g->r->set;
    struct stk_err err = {0};
    uint64_t hash = 0;
    if (check && stk_tier_hash(p, e->len) != e->hash) {
        stk_err_set(&err, STK_E_CORRUPT, g->r->src->file[e->file].name,
                    (int64_t)(e->parcel * STK_TIER_PARCEL), "it came damaged over the network");
        break_disk(g, STK_E_CORRUPT, &err);
        return;
    }
    int rc = stk_tier_put(set, e->file, e->parcel, p, e->len, e->hash, &err);
    if (rc == 2 || rc < 0) {
        break_disk(g, rc == 2 ? STK_E_SYS : rc, &err);
        return;
    }
    atomic_fetch_add(&g->r->counts->written, e->len);
    atomic_fetch_add(&g->r->counts->there, e->len);
    if (rc == 1 && (!g->r->src->file[e->file].hashed))
        (void)finish_file(g, e->file, NULL);
    else if (rc == 1 && meets(g, e->file, true, &hash))
        (void)finish_file(g, e->file, &hash);
}

/* This node wants the parcel. */
static bool is_wanted(const struct ring *g, const struct entry *e)
{
    const struct spread_work *w = g->r->work;
    size_t words = stk_bits_words(w->map->parcels);
    return !w->wanted || stk_bit(w->wanted + w->node * words, w->map->base[e->file] + e->parcel);
}

static bool is_small(const struct ring *g, const struct entry *e)
{
    return e->kind == KIND_PARCEL && g->r->src->file[e->file].size <= STK_TIER_PARCEL;
}

/* Small files that follow one another are claimed with one lock. Returns how many were stored. */
static uint32_t store_run(struct ring *g, const struct entry *e, uint32_t n, const uint8_t *p,
                          bool check)
{
    enum { MOST = 64 };
    uint8_t got[MOST];
    uint32_t run = 1;
    while (run < n && run < MOST && is_small(g, &e[run]) && e[run].file == e[0].file + run)
        run++;
    stk_tier_claim_files(g->r->set, e[0].file, run, got);
    for (uint32_t i = 0; i < run; p += e[i++].len)
        if (got[i] == STK_TIER_OURS && !atomic_load(&g->disk_broken) && is_wanted(g, &e[i]))
            store(g, &e[i], p, check);
    stk_tier_drop_files(g->r->set, e[0].file, run, got);
    return run;
}

static void store_one(struct ring *g, const struct entry *e, const uint8_t *p, bool check)
{
    uint64_t hash = e->hash;
    if (e->kind == KIND_FINISH && g->r->src->file[e->file].hashed &&
        meets(g, e->file, false, &hash))
        (void)finish_file(g, e->file, &hash);
    if (e->kind != KIND_PARCEL || !is_wanted(g, e) ||
        stk_tier_claim(g->r->set, e->file, e->parcel) != STK_TIER_OURS)
        return;
    store(g, e, p, check);
    stk_tier_drop(g->r->set, e->file, e->parcel);
}

static void write_crate(struct ring *g, struct crate *c)
{
    const struct head *h = head_of(c);
    const uint8_t *p = c->p + sizeof *h;
    uint32_t entries = h->entries;
    bool own = c->own;
    struct entry *e = malloc(entries * sizeof *e + 1); /* those in the crate are not aligned */
    if (!e) {
        struct stk_err err = {0};
        break_disk(g, stk_err_nomem(&err, ENTRIES_MAX * sizeof *e), &err);
        return;
    }
    memcpy(e, p + h->bytes, entries * sizeof *e);
    for (uint32_t i = 0; i < entries && !atomic_load(&g->disk_broken);) {
        uint32_t n = 1;
        if (is_small(g, &e[i]))
            n = store_run(g, &e[i], entries - i, p, !own);
        else
            store_one(g, &e[i], p, !own);
        while (n--)
            p += e[i++].len;
    }
    free(e);
}

/* With the lock held. False: the crate was taken away meanwhile. */
static bool take_crate(struct writer *w)
{
    struct ring *g = w->ring;
    struct crate *c = g->to_write;
    g->to_write = c->write_link;
    if (!g->to_write)
        g->to_write_end = &g->to_write;
    g->busy_writers++;
    w->crate = c;
    w->since_s = stk_now();
    pthread_mutex_unlock(&g->lock);
    write_crate(g, c);
    pthread_mutex_lock(&g->lock);
    if (!w->crate)
        return false;
    w->crate = NULL;
    g->busy_writers--;
    c->writing = false;
    release_crate(g, c);
    return true;
}

static void *run_writer(void *arg)
{
    struct writer *w = arg;
    struct ring *g = w->ring;
    bool mine = true;
    pthread_mutex_lock(&g->lock);
    while (mine) {
        while (!g->to_write && !g->no_more && !g->abort)
            pthread_cond_wait(&g->write_cond, &g->lock);
        if (g->abort || !g->to_write)
            break;
        mine = take_crate(w);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- a disk that hangs ---- */

/* With the lock held. */
static bool hangs(const struct ring *g)
{
    double now = stk_now();
    bool late = false;
    for (unsigned i = 0; i < g->writers; i++)
        late |= g->writer[i].crate && now - g->writer[i].since_s > g->r->disk_s;
    return late;
}

/* The writer may still read the memory of its crate, which therefore gets another. Not while a
 * message uses it: later, then. With the lock held. */
static void take_back(struct ring *g, struct writer *w)
{
    struct crate *c = w->crate;
    uint8_t *p = c->sending || c->acking || c->abroad ? NULL : malloc(CRATE_MAX);
    if (!p)
        return;
    c->p = p;
    c->writing = false;
    w->crate = NULL;
    g->busy_writers--;
    g->r->stuck = true;
    release_crate(g, c);
}

/* Nobody will write them. With the lock held. */
static void drop_queue(struct ring *g)
{
    while (g->to_write) {
        struct crate *c = g->to_write;
        g->to_write = c->write_link;
        c->writing = false;
        release_crate(g, c);
    }
    g->to_write_end = &g->to_write;
}

static void look_after_disk(struct ring *g)
{
    struct stk_err err = {0};
    pthread_mutex_lock(&g->lock);
    bool late = hangs(g);
    pthread_mutex_unlock(&g->lock);
    if (!late)
        return;
    break_disk(g,
               stk_err_set(&err, STK_E_STOPPED, NULL, -1,
                           "the disk has not completed a write for %.0f s", g->r->disk_s),
               &err);
    pthread_mutex_lock(&g->lock);
    drop_queue(g);
    for (unsigned i = 0; i < g->writers; i++)
        if (g->writer[i].crate && stk_now() - g->writer[i].since_s > g->r->disk_s)
            take_back(g, &g->writer[i]);
    pthread_mutex_unlock(&g->lock);
}

static void finish_files(struct ring *g)
{
    for (size_t i = 0; i < g->npending && !atomic_load(&g->disk_broken); i++)
        if (g->pending[i].complete)
            (void)finish_file(g, g->pending[i].file, NULL);
}

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
        if (c && (g->nabroad < OWN_ABROAD || !head_of(c)->hops))
            (void)pop(&g->ready, &g->ready_end);
        else
            c = NULL;
        if (c && head_of(c)->hops)
            c->sending = c->abroad = true;
        pthread_mutex_unlock(&g->lock);
        if (!c)
            return some;
        some = true;
        bool travels = c->abroad;
        if (travels) {
            g->nabroad++;
            push(&g->send_end, c);
        }
        if (!give_to_writers(g, c) && !travels) {
            pthread_mutex_lock(&g->lock);
            release_crate(g, c);
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
        push(&g->sending_end, c);
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
        atomic_fetch_add(&g->r->counts->sent, head_of(c)->bytes);
        pthread_mutex_lock(&g->lock);
        c->sending = false;
        release_crate(g, c);
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
        push(&g->posted_end, c);
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
    struct head *h = head_of(c);
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
    struct head *h = head_of(c);
    bool last = false;
    int rc = open_crate(g, c, &last, err);
    if (rc)
        return rc;
    c->size = c->msg.size;
    atomic_fetch_add(&g->r->counts->received, h->bytes);
    g->lasts += last;
    if (--h->hops) {
        c->sending = true;
        push(&g->send_end, c);
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
        release_crate(g, c);
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
        look_after_disk(g);
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
        g->writers += pthread_create(&w->thread, NULL, run_writer, w) == 0;
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
    bool copying = g->writers && pthread_create(&copier, NULL, run_reader, g) == 0;
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
        finish_files(g);
    r->read_failed[g->me] = r->read_rc != 0;
    end(g, rc != 0);
    return rc;
}
