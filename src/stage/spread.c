/*
 * spread.c - one call of stk_spread() on one rank, step by step: rank 0 lists the source, the
 * leaders of the nodes agree on a mode and on what each node shall have, the ring (spread_ring.c)
 * moves it, each node completes its copy, and all learn how each fared. Ranks that lead no node
 * take part in the first step and the last only.
 */
#include "stage/spread.h"
#include "stage/spread_priv.h"
#include "stage/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/units.h"

#define ANSWER_S STK_COMM_FOREVER /* only a lost rank ends a wait: a node may be slow */

struct spread {
    struct stk_comm *all, *leaders;
    struct stk_spread_options o;
    struct stk_spread_result *r;
    struct stk_source src;
    struct spread_map map;
    uint32_t node, nodes;
    struct stk_spread_node me;
    struct spread_counts counts;
    struct stk_tier *tier;
    struct stk_tier_set *set;
    uint64_t room;
    uint8_t *readers;  /* by node */
    uint64_t *shall;   /* parcels that this node shall have */
    uint64_t *missing; /* those that travel */
    uint64_t *wanted;  /* SHARD: by node; else NULL */
    int index_fd;      /* the index of the source, in memory; -1: none */
    char index_path[64];
    struct spread_status *status;
    double start, ticked, disk_s;
    bool agreed;        /* the error is known to all ranks */
    _Atomic bool stuck; /* a thread waits for the disk: it ends without a word when that answers */
    bool unread;        /* some parcels could be read by no node */
    int read_rc;        /* why this node could not read its part; another one may have read it */
    struct stk_err read_err;
};

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

/* The first failure is the one that is told. */
static void note_failure(struct spread *s, int code, const struct stk_err *err)
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

static void enter(struct spread *s, enum stk_spread_phase phase)
{
    s->me.phase = phase;
    take_counts(s);
    stk_status_write(s->status, &s->me, true);
}

/* Runs step(user) in a helper thread, so that a disk that hangs does not keep this node from
 * telling the others. STK_E_STOPPED and s->stuck: the thread still runs, and uses what user leads
 * to. */
static int run_step(struct spread *s, stk_thread_fn *step, void *user, double limit_s,
                    struct stk_err *err)
{
    struct stk_thread *t;
    int rc = stk_thread_open(&t, err);
    if (rc)
        return rc;
    int late =
        stk_thread_call(t, step, NULL, user, &(struct stk_limit){.seconds = limit_s}, &rc, err);
    if (stk_thread_close(t, 0) && !late)
        return rc;
    s->stuck = true;
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "the disk has not completed a sync for %.0f s",
                       limit_s);
}

/* Non-zero: stop. */
static int tell(struct spread *s, enum stk_stage_phase phase, uint64_t bytes)
{
    return s->o.progress ? s->o.progress(s->o.user, phase, bytes, s->src.bytes) : 0;
}

static int tick(void *user)
{
    struct spread *s = user;
    double now = stk_now();
    if (now - s->ticked < TICK_S)
        return 0;
    s->ticked = now;
    take_counts(s);
    stk_status_write(s->status, &s->me, false);
    return tell(s, STK_STAGE_COPY, s->me.there);
}

#define MAGIC 0x73726332u

struct reader {
    const uint8_t *p;
    size_t left;
    bool bad;
};

/* ---- writing ---- */

static void put_u64(struct stk_buf *b, uint64_t v)
{
    uint8_t le[8];
    stk_put_le64(le, v);
    stk_buf_put(b, le, sizeof le);
}

static void put_text(struct stk_buf *b, const char *s)
{
    put_u64(b, strlen(s));
    stk_buf_put(b, s, strlen(s) + 1);
}

static void encode_source(const struct stk_source *s, struct stk_buf *out)
{
    put_u64(out, MAGIC);
    put_text(out, s->path);
    put_text(out, s->name);
    put_text(out, s->root);
    put_u64(out, (uint64_t)s->is_dir | (uint64_t)s->outside << 1 | (uint64_t)(s->ds != NULL) << 2);
    put_u64(out, s->identity);
    put_u64(out, (uint64_t)s->changed_ns);
    put_u64(out, s->count);
    put_u64(out, s->ndirs);
    for (uint64_t i = 0; i < s->count; i++) {
        const struct stk_tier_file *f = &s->file[i];
        put_u64(out, f->size);
        put_u64(out, (uint64_t)f->mtime_ns);
        put_u64(out, f->hash);
        put_u64(out, f->mode | (uint64_t)f->hashed << 32);
        put_text(out, f->name);
    }
    for (uint64_t i = 0; i < s->ndirs; i++) {
        put_u64(out, (uint64_t)s->dir[i].mtime_ns);
        put_u64(out, s->dir[i].mode);
        put_text(out, s->dir[i].name);
    }
}

/* ---- reading ---- */

static uint64_t get_u64(struct reader *r)
{
    if (r->left < 8) {
        r->bad = true;
        return 0;
    }
    uint64_t v = stk_le64(r->p);
    r->p += 8;
    r->left -= 8;
    return v;
}

/* Borrowed from the bytes being read. */
static const char *get_text(struct reader *r)
{
    uint64_t n = get_u64(r);
    const char *s = (const char *)r->p;
    if (r->bad || n >= r->left || s[n] != '\0' || memchr(s, 0, n)) {
        r->bad = true;
        return "";
    }
    r->p += n + 1;
    r->left -= n + 1;
    return s;
}

static int get_files(struct stk_source *s, struct reader *r, struct stk_err *err)
{
    /* Each takes at least these bytes: the numbers cannot ask for more memory than they came in. */
    if (s->count > r->left / 41 || s->ndirs > r->left / 25) {
        r->bad = true;
        return 0;
    }
    s->file = calloc(s->count + 1, sizeof *s->file);
    s->dir = calloc(s->ndirs + 1, sizeof *s->dir);
    if (!s->file || !s->dir)
        return stk_err_nomem(err, s->count * sizeof *s->file);
    for (uint64_t i = 0; i < s->count && !r->bad; i++) {
        struct stk_tier_file *f = &s->file[i];
        f->size = get_u64(r);
        f->mtime_ns = (int64_t)get_u64(r);
        f->hash = get_u64(r);
        uint64_t mode = get_u64(r);
        f->mode = (mode_t)(mode & 07777);
        f->hashed = mode >> 32 & 1;
        f->name = get_text(r);
    }
    for (uint64_t i = 0; i < s->ndirs && !r->bad; i++) {
        s->dir[i].mtime_ns = (int64_t)get_u64(r);
        s->dir[i].mode = (mode_t)(get_u64(r) & 07777);
        s->dir[i].name = get_text(r);
    }
    return 0;
}

static int decode_source(struct stk_source *s, const void *p, size_t n, struct stk_err *err)
{
    *s = STK_SOURCE_INIT;
    char *own = stk_arena_dup(&s->arena, p, n);
    struct reader r = {.p = (uint8_t *)own, .left = n};
    if (!own)
        return stk_err_nomem(err, n);
    r.bad = get_u64(&r) != MAGIC;
    s->path = strdup(get_text(&r));
    s->name = strdup(get_text(&r));
    s->root = strdup(get_text(&r));
    uint64_t flags = get_u64(&r);
    s->is_dir = flags & 1;
    s->outside = flags >> 1 & 1;
    s->identity = get_u64(&r);
    s->changed_ns = (int64_t)get_u64(&r);
    s->count = get_u64(&r);
    s->ndirs = get_u64(&r);
    int rc = !s->path || !s->name || !s->root ? stk_err_nomem(err, n) : get_files(s, &r, err);
    if (!rc && (r.bad || r.left))
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the list of the source came damaged");
    if (rc) {
        s->count = s->ndirs = 0;
        return rc;
    }
    s->rootfd = open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->rootfd < 0)
        rc = stk_err_sys(err, s->root, "open the folder on this node");
    stk_source_settle(s);
    return rc;
}

#define INDEX_MAX (1ull << 40)

struct hello {
    int32_t code;
    uint64_t list, index; /* bytes that follow */
    struct stk_err err;
};

static void read_index(struct spread *s, struct stk_buf *index)
{
    if (s->src.index && stk_read_file(s->src.index, INDEX_MAX, index, NULL) < 0)
        stk_buf_reset(index);
}

/* An index beside the source is read once, too: the others keep it in memory until it is written to
 * their copies. */
static int keep_index(struct spread *s, const void *p, size_t n, struct stk_err *err)
{
    s->index_fd = memfd_create("stoker-index", MFD_CLOEXEC);
    if (s->index_fd < 0)
        return stk_err_sys(err, NULL, "memory for the index");
    int rc = stk_write_full(s->index_fd, p, n, "index", err);
    snprintf(s->index_path, sizeof s->index_path, "/proc/self/fd/%d", s->index_fd);
    s->src.index = s->index_path;
    return rc;
}

static int list_source(struct spread *s, const char *path, struct stk_buf *list,
                       struct stk_buf *index, struct hello *h)
{
    h->code = stk_source_open(&s->src, path, &s->o.source, &h->err);
    if (h->code == 0) {
        encode_source(&s->src, list);
        read_index(s, index);
        h->code = stk_buf_check(list, &h->err);
    }
    h->list = list->len;
    h->index = index->fail ? 0 : index->len;
    return h->code;
}

/* Every rank gets the list, or the error. Ranks that lead no node have no use for it. */
static int share_list(struct spread *s, const char *path, struct stk_err *err)
{
    struct stk_buf list = STK_BUF_INIT, index = STK_BUF_INIT;
    struct hello h = {0};
    bool first = stk_comm_rank(s->all) == 0, leads = s->leaders != NULL;
    if (first)
        (void)list_source(s, path, &list, &index, &h);
    int rc = stk_comm_bcast(s->all, 0, &h, sizeof h, ANSWER_S, err);
    if (!rc && h.code) {
        s->agreed = true;
        if (err)
            *err = h.err;
        rc = h.code;
    }
    if (!rc && leads && !first &&
        (!stk_buf_extend(&list, h.list) || !stk_buf_extend(&index, h.index + 1)))
        rc = stk_err_nomem(err, h.list + h.index);
    rc = rc || !leads ? rc : stk_comm_bcast(s->leaders, 0, list.data, h.list, ANSWER_S, err);
    rc = rc || !leads || !h.index
             ? rc
             : stk_comm_bcast(s->leaders, 0, index.data, h.index, ANSWER_S, err);
    if (!rc && leads && !first) {
        struct stk_err why = {0};
        int code = decode_source(&s->src, list.data, list.len, &why);
        s->readers[s->node] = code == 0; /* this node does not see the source */
        rc = code && code != STK_E_SYS ? code : 0;
        if (rc && err)
            *err = why;
        rc = rc || !h.index ? rc : keep_index(s, index.data, h.index, err);
    }
    stk_buf_release(&list);
    stk_buf_release(&index);
    s->r->files = s->src.count;
    s->r->bytes = s->src.bytes;
    return rc;
}

/* ---- the place on this node ---- */

/* On the heap: a thread that hangs keeps using it. */
struct placing {
    struct spread *s;
    struct stk_tier *tier;
    struct stk_tier_set *set;
    struct stk_tier_state state;
    uint64_t room;
};

static int find_place(void *user, struct stk_err *err)
{
    struct placing *p = user;
    struct spread *s = p->s;
    struct stk_tier_source ts = stk_source_for_tier(&s->src);
    int rc = s->o.place(s->o.user, &s->src, &p->tier, &p->room, err);
    rc = rc ? rc : stk_tier_set_open(p->tier, &ts, &p->set, err);
    rc = rc ? rc : stk_tier_state(p->set, &p->state, err);
    rc = rc || p->state.bytes_there >= s->src.bytes ? rc
                                                    : stk_tier_make_room(p->set, s->src.bytes, err);
    return rc == 2 ? 0 : rc; /* the mode may be one that needs less */
}

/* Without a place the node takes part all the same: it reads and passes on. Making a tier syncs its
 * settings, so that a disk that hangs may do so here already. */
static void open_place(struct spread *s)
{
    struct placing *p = calloc(1, sizeof *p);
    struct stk_err err = {0};
    int rc = p ? 0 : stk_err_nomem(&err, sizeof *p);
    if (p)
        p->s = s;
    rc = rc ? rc : run_step(s, find_place, p, s->disk_s, &err);
    if (rc)
        note_failure(s, rc, &err);
    if (s->stuck || !p)
        return;
    s->tier = p->tier;
    s->room = p->room;
    atomic_store(&s->counts.there, p->state.bytes_there);
    if (rc && p->set)
        stk_tier_set_close(p->set);
    else
        s->set = p->set;
    free(p);
}

/* ---- the mode ---- */

struct offer {
    uint64_t room, there; /* of a node without a place: UINT64_MAX and 0 */
    uint64_t reads;
};

/* The node with the least room for what it lacks, of those that have a place; *small: the number of
 * these that have too little. */
static uint32_t tightest(const struct spread *s, const struct offer *offer, uint32_t *small)
{
    uint32_t worst = 0;
    double least = 1e300;
    *small = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        double spare = offer[i].room == UINT64_MAX
                           ? 1e299
                           : (double)offer[i].room + (double)offer[i].there - (double)s->src.bytes;
        *small += spare < 0;
        if (spare < least) {
            least = spare;
            worst = i;
        }
    }
    return worst;
}

/* Nodes that have a place with room for all of it. */
static uint32_t count_fitting(const struct spread *s, const struct offer *offer, uint32_t small)
{
    uint32_t n = s->nodes - small;
    for (uint32_t i = 0; i < s->nodes; i++)
        n -= offer[i].room == UINT64_MAX;
    return n;
}

static void choose_mode(struct spread *s, const struct offer *offer, bool dataset)
{
    char size[32], room[32];
    uint32_t small, worst = tightest(s, offer, &small);
    uint32_t whole = count_fitting(s, offer, small), least = s->o.min_nodes;
    struct stk_spread_result *r = s->r;
    r->mode = s->o.mode;
    if (r->mode != STK_SPREAD_AUTO)
        return;
    bool fits = !small, enough = small && least && least < s->nodes && whole >= least;
    r->mode = fits || enough || !dataset ? STK_SPREAD_REPLICATE : STK_SPREAD_SHARD;
    stk_format_size(s->src.bytes, size, sizeof size);
    stk_format_size(offer[worst].room == UINT64_MAX ? 0 : offer[worst].room, room, sizeof room);
    if (fits)
        snprintf(r->why, sizeof r->why, "replicate: %s fit on every node", size);
    else if (enough)
        snprintf(r->why, sizeof r->why,
                 "replicate: %s fit on %u nodes, not in the %s of node %s, and %u are enough", size,
                 whole, room, stk_comm_node_name(s->leaders, worst), least);
    else
        snprintf(r->why, sizeof r->why, "%s: %s do not fit in the %s of node %s%s",
                 stk_spread_names[r->mode], size, room, stk_comm_node_name(s->leaders, worst),
                 dataset ? "" : "; it is not a dataset, so no plan says which part a node needs");
}

static int agree(struct spread *s, struct stk_err *err)
{
    struct offer mine = {.room = s->set ? s->room : UINT64_MAX,
                         .there = atomic_load(&s->counts.there),
                         .reads = s->readers[s->node]};
    uint64_t dataset = s->src.ds != NULL;
    struct offer *offer = calloc(s->nodes, sizeof *offer);
    int rc = offer ? stk_comm_allgather(s->leaders, &mine, sizeof mine, offer, ANSWER_S, err)
                   : stk_err_nomem(err, s->nodes * sizeof *offer);
    rc = rc ? rc : stk_comm_bcast(s->leaders, 0, &dataset, sizeof dataset, ANSWER_S, err);
    for (uint32_t i = 0; i < s->nodes && !rc; i++)
        s->readers[i] = offer[i].reads != 0;
    if (!rc)
        choose_mode(s, offer, dataset);
    free(offer);
    return rc;
}

/* ---- what each node shall have ---- */

/* Rank 0 has the dataset; the others get what follows from its plan. A training with more ranks
 * than there are here has them on the nodes in order. Node k also keeps what the copies - 1 nodes
 * before it need. */
static int plan_shards(struct spread *s, uint64_t *bits, struct stk_err *err)
{
    size_t words = stk_bits_words(s->map.parcels);
    struct stk_loader_options plan = s->o.loader;
    uint32_t ranks = stk_comm_size(s->all), copies = s->o.copies ? s->o.copies : 1;
    plan.world = plan.world ? plan.world : ranks;
    uint32_t *mine = calloc(plan.world, sizeof *mine);
    int rc = mine ? 0 : stk_err_nomem(err, plan.world * sizeof *mine);
    copies = copies < s->nodes ? copies : s->nodes;
    for (uint32_t n = 0; n < s->nodes && !rc; n++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < plan.world; i++)
            if (stk_comm_node(s->all, (uint32_t)((uint64_t)i * ranks / plan.world)) == n)
                mine[count++] = i;
        uint64_t *need = calloc(words + 1, sizeof *need);
        rc = need ? stk_spread_need(&s->map, &plan, mine, count, need, err)
                  : stk_err_nomem(err, words * 8);
        for (uint32_t k = 0; k < copies && !rc; k++)
            for (size_t i = 0; i < words; i++)
                bits[(n + k) % s->nodes * words + i] |= need[i];
        free(need);
    }
    free(mine);
    return rc;
}

/* s->shall. */
static int divide(struct spread *s, struct stk_err *err)
{
    size_t words = stk_bits_words(s->map.parcels);
    bool shard = s->r->mode == STK_SPREAD_SHARD;
    s->shall = calloc(words + 1, sizeof *s->shall);
    s->missing = calloc(words + 1, sizeof *s->missing);
    s->wanted = shard ? calloc(words * s->nodes + 1, sizeof *s->wanted) : NULL;
    if (!s->shall || !s->missing || (shard && !s->wanted))
        return stk_err_nomem(err, words * s->nodes * 8);
    if (!shard) {
        for (uint64_t k = 0; k < s->map.parcels; k++)
            stk_bit_set(s->shall, k);
        return 0;
    }
    int rc = s->node == 0 ? plan_shards(s, s->wanted, err) : 0;
    rc = rc ? rc : stk_comm_bcast(s->leaders, 0, s->wanted, words * s->nodes * 8, ANSWER_S, err);
    memcpy(s->shall, s->wanted + s->node * words, words * 8);
    return rc;
}

/* Bytes that this node shall have. */
static uint64_t count_wanted(const struct spread *s)
{
    uint64_t bytes = 0;
    for (uint64_t f = 0; f < s->src.count; f++)
        for (uint64_t k = s->map.base[f]; k < s->map.base[f + 1]; k++)
            bytes += stk_bit(s->shall, k) ? stk_spread_len(&s->map, f, k) : 0;
    return bytes;
}

/* What this node lacks of what it shall have; nothing if it has no place. Also counts its bytes. */
static void look(struct spread *s, uint64_t *bits)
{
    uint64_t there = 0;
    memset(bits, 0, stk_bits_words(s->map.parcels) * 8);
    for (uint64_t f = 0; f < s->src.count && s->set; f++)
        for (uint64_t k = s->map.base[f]; k < s->map.base[f + 1]; k++) {
            if (!stk_bit(s->shall, k))
                continue;
            if (stk_tier_has(s->set, f, k - s->map.base[f]))
                there += stk_spread_len(&s->map, f, k);
            else
                stk_bit_set(bits, k);
        }
    atomic_store(&s->counts.there, there);
}

/* s->missing or s->wanted. *some: there are any, on whichever node. */
static int find_missing(struct spread *s, bool *some, struct stk_err *err)
{
    size_t words = stk_bits_words(s->map.parcels);
    int rc;
    if (s->r->mode == STK_SPREAD_SHARD) {
        uint64_t *mine = s->missing;
        look(s, mine);
        rc = stk_comm_allgather(s->leaders, mine, words * 8, s->wanted, ANSWER_S, err);
        for (uint32_t n = 0; n < s->nodes; n++)
            for (size_t i = 0; i < words; i++)
                s->missing[i] |= s->wanted[n * words + i];
    } else {
        look(s, s->missing);
        rc = stk_comm_reduce_u64(s->leaders, STK_COMM_OR, s->missing, words, ANSWER_S, err);
    }
    *some = false;
    for (size_t i = 0; i < words && !rc; i++)
        *some |= s->missing[i] != 0;
    return rc;
}

#define PASSES     2u /* of the ring: once more if a node could not read its part */
#define SYNC_TIMES 10 /* the time that was spent so far */

/* ---- moving it ---- */

static void close_set(struct spread *s)
{
    if (s->set && !s->stuck)
        stk_tier_set_close(s->set);
    s->set = NULL;
}

/* A node that cannot hold what it shall have takes part all the same, as one without a place. */
static void refuse_small(struct spread *s)
{
    struct stk_err err = {0};
    char id[STK_TIER_ID];
    look(s, s->missing);
    uint64_t there = atomic_load(&s->counts.there);
    int rc = !s->set || there >= s->me.wanted
                 ? 0
                 : stk_target_room(stk_tier_path(s->tier), s->me.wanted - there, 0, &err);
    if (rc == 0)
        return;
    snprintf(id, sizeof id, "%s", stk_tier_set_id(s->set));
    note_failure(s, rc, &err);
    close_set(s);
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
                                   .tick = tick,
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
        note_failure(s, ring->disk_rc, &ring->disk_err);
        close_set(s); /* what it has stays, and the next run goes on with it */
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

static int move(struct spread *s, struct stk_err *err)
{
    bool some = true;
    int rc = 0;
    enter(s, STK_SPREAD_COPYING);
    for (unsigned pass = 0; pass < PASSES && !rc; pass++) {
        uint32_t failed = 0;
        rc = find_missing(s, &some, err);
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
    return tell(s, phase, bytes);
}

struct publishing {
    struct spread *s;
    struct stk_stage_result r;
};

static int fill_and_sync(void *user, struct stk_err *err)
{
    struct publishing *p = user;
    struct stk_stage_options o = {
        .copy = p->s->o.copy, .one_of_many = p->s->node != 0, .progress = on_fill, .user = p->s};
    return stk_stage_fill(&p->s->src, p->s->tier, &o, &p->r, err);
}

/* Copies what another process had claimed and not completed, syncs and publishes. What was written
 * may take some times as long to reach the disk. */
static void publish(struct spread *s)
{
    struct publishing *p = calloc(1, sizeof *p);
    struct stk_err err = {0};
    enter(s, STK_SPREAD_SYNCING);
    close_set(s);
    double limit_s = s->disk_s + SYNC_TIMES * (stk_now() - s->start);
    int rc = p ? 0 : stk_err_nomem(&err, sizeof *p);
    if (p)
        p->s = s;
    rc = rc ? rc : run_step(s, fill_and_sync, p, limit_s, &err);
    if (rc)
        note_failure(s, rc, &err);
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

static void complete(struct spread *s)
{
    struct stk_err err = {0};
    if (s->unread && s->read_rc)
        note_failure(s, s->read_rc, &s->read_err);
    else if (s->unread)
        note_failure(s,
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
        look(s, left);
    free(left);
    if (atomic_load(&s->counts.there) < s->me.wanted)
        note_failure(s,
                     stk_err_set(&err, STK_E_STOPPED, NULL, -1,
                                 "another process is still copying a part of it"),
                     &err);
    else
        snprintf(s->me.path, sizeof s->me.path, "%s", s->src.path);
}

/* ---- the whole ---- */

static int lead(struct spread *s, struct stk_err *err)
{
    enter(s, STK_SPREAD_PREPARING);
    open_place(s);
    int rc = agree(s, err);
    rc = rc ? rc : stk_spread_map_init(&s->map, &s->src, err);
    rc = rc ? rc : divide(s, err);
    s->me.wanted = rc ? 0 : count_wanted(s);
    if (rc == 0)
        refuse_small(s);
    rc = rc ? rc : move(s, err);
    if (rc)
        return rc;
    complete(s);
    enter(s, s->me.code ? STK_SPREAD_FAILED : STK_SPREAD_DONE);
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

/* All ranks know the result. Nobody returns before rank 0 has removed the files: the next call may
 * make them again. */
static void settle_status(struct spread *s)
{
    stk_status_end(s->status, s->nodes, s->r->good == s->nodes && s->node == 0);
    s->status = NULL;
    (void)stk_comm_barrier(s->all, ANSWER_S, NULL); /* a rank that is lost now has done its part */
}

/* The leaders gather their records; rank 0 tells all others. */
static int gather(struct spread *s, struct stk_err *err)
{
    struct stk_spread_result *r = s->r;
    struct summary sum = {.mode = r->mode};
    int rc = 0;
    memcpy(sum.why, r->why, sizeof sum.why);
    if (s->leaders)
        rc = stk_comm_allgather(s->leaders, &s->me, sizeof s->me, r->node, ANSWER_S, err);
    rc = rc ? rc : stk_comm_bcast(s->all, 0, &sum, sizeof sum, ANSWER_S, err);
    rc = rc ? rc : stk_comm_bcast(s->all, 0, r->node, s->nodes * sizeof *r->node, ANSWER_S, err);
    r->mode = sum.mode;
    memcpy(r->why, sum.why, sizeof r->why);
    sum_up(r);
    if (!rc)
        settle_status(s);
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
    stk_status_end(s->status, 0, s->agreed);
    if (s->stuck) { /* a thread uses all of it */
        s->r->stuck = true;
        stk_comm_close(s->leaders);
        return;
    }
    close_set(s);
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
    rc = rc ? rc : share_list(s, path, &why);
    rc = rc || !s->leaders ? rc : lead(s, &why);
    rc = rc ? rc : gather(s, &why);
    if (rc && !s->agreed) {
        wait_for_cause(s, rc);
        stk_comm_give_up(c, why.what);
        note_failure(s, rc, &why);
        enter(s, STK_SPREAD_FAILED);
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
