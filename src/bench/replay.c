/*
 * replay.c - the kind of dataset that a profile describes: groups of files, each used alike. A
 * sample makes its part of the group's calls, so that the sums of all samples are the profile's
 * counters; in between, what a profile does not keep (the exact sequence) is drawn. The sizes of
 * requests are those that the profile has, in their numbers.
 */
#include "bench/reader.h"

#include <math.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"

#define TURN 0.6180339887498949 /* the golden ratio: its multiples are spread evenly */
#define OFF  0.01               /* of the bytes: sizes that are this far off are made to fit */

/* The sizes of the requests of one sample. */
struct sizes {
    const struct stk_bench_group *g;
    uint64_t n, bytes, sum;
    uint64_t first; /* number of the first among all requests of the group */
    double shift, scale;
    bool on; /* requests of a file that stays open */
};

/* Sample k makes the kth part of `total` calls of `per` samples: the parts add up exactly. */
static uint64_t part_of(uint64_t total, uint64_t per, uint64_t k)
{
    unsigned __int128 at = (unsigned __int128)k * total;
    return (uint64_t)((at + total) / per - at / per);
}

/* The kth point between 0 and 1. */
static double point(uint64_t k)
{
    double turn = (double)(k + 1) * TURN;
    return turn - floor(turn);
}

/* A size of the group's distribution; u: from 0 to 1, its quantile. */
static uint64_t draw(const struct stk_bench_group *g, double u)
{
    double left = u * (double)g->weight;
    size_t i = 0;
    while (i + 1 < g->ndrawn && left >= (double)g->drawn[i].count)
        left -= (double)g->drawn[i++].count;
    return g->drawn[i].bytes;
}

static uint64_t raw_size(const struct sizes *s, uint64_t i)
{
    if (!s->g->ndrawn && s->on)
        return part_of(s->g->bytes, s->g->requests, s->first + i);
    if (!s->g->ndrawn)
        return s->bytes / s->n + 1;
    return draw(s->g, s->on ? point(s->first + i) : ((double)i + s->shift) / (double)s->n);
}

/* n requests that make up the bytes of a visit: one of each nth part of the distribution, small
 * ones first. k: number of the sample. */
static struct sizes sizes_of(const struct stk_bench_group *g, uint64_t n, uint64_t bytes,
                             uint64_t k)
{
    struct sizes s = {.g = g, .n = n, .bytes = bytes, .scale = 1, .shift = point(k)};
    for (uint64_t i = 0; i < s.n; i++)
        s.sum += raw_size(&s, i);
    uint64_t last = s.n ? raw_size(&s, s.n - 1) : 0;
    if (s.sum - last >= s.bytes) /* even without the largest it is too much */
        s.scale = s.sum ? (double)s.bytes / (double)s.sum : 0;
    return s;
}

/* Bytes of the group, divided by those that its sizes give. */
static double scale_of(const struct stk_bench_group *g)
{
    double sum = 0;
    for (size_t i = 0; i < g->ndrawn; i++)
        sum += (double)g->drawn[i].bytes * (double)g->drawn[i].count / (double)g->weight;
    double scale = g->bytes && sum > 0 ? (double)g->bytes / (double)g->requests / sum : 1;
    return fabs(scale - 1) > OFF ? scale : 1;
}

/* n requests to a file that stays open: those of all samples together have the distribution. */
static struct sizes sizes_on(const struct stk_bench_group *g, uint64_t n, uint64_t k)
{
    struct sizes s = {.g = g, .n = n, .on = true, .scale = scale_of(g)};
    s.first = (uint64_t)((unsigned __int128)k * g->requests / g->per);
    return s;
}

static uint64_t size_at(const struct sizes *s, uint64_t i)
{
    uint64_t v = raw_size(s, i);
    if (s->on ? s->scale != 1 : s->scale < 1)
        v = (uint64_t)((double)v * s->scale);
    else if (!s->on && i + 1 == s->n)
        v = v + s->bytes - s->sum;
    v = v > STK_REQUEST_MAX ? STK_REQUEST_MAX : v;
    return v ? v : 1;
}

#define PAGE  4096u
#define PIECE (4u << 20)
#define ROOM_MAX                                                                                   \
    (64u << 20)        /* of a thread's buffer: larger requests go over it again and again         \
                        */
#define VISIT_MAX 1e15 /* bytes */

/* ---- generating ----------------------------------------------------------------------------- */

static int write_piece(int fd, uint8_t *p, uint64_t left, uint64_t seed, struct stk_bench_place at,
                       const char *path, struct stk_err *err)
{
    size_t n = left < PIECE ? (size_t)left : PIECE;
    stk_bench_fill(p, n, seed, at);
    return stk_write_full(fd, p, n, path, err);
}

static int write_replay(const struct stk_workload *w, uint64_t item, int dirfd, const char *name,
                        const char *path, struct stk_err *err)
{
    uint64_t file, piece = 0;
    size_t g = stk_bench_group_of(w, item, &file);
    uint64_t left = stk_bench_group_size(w, g, file);
    uint8_t *p = malloc(PIECE);
    int fd = p ? stk_create_at(dirfd, name, STK_SHARED) : -1;
    int rc = !p ? stk_err_nomem(err, PIECE) : fd < 0 ? stk_err_sys(err, path, "create") : 0;
    for (; left && rc == 0; left -= left < PIECE ? left : PIECE)
        rc = write_piece(fd, p, left, w->dataset.seed, (struct stk_bench_place){item, piece++},
                         path, err);
    if (fd >= 0 && close(fd) < 0 && rc == 0)
        rc = stk_err_sys(err, path, "close");
    free(p);
    return rc;
}

/* ---- the state of a thread ------------------------------------------------------------------ */

struct held { /* an open file of a group */
    struct stk_bio_file file;
    uint64_t number; /* UINT64_MAX: none */
    uint64_t end;    /* of the last request */
    uint64_t index;  /* of the last sample in it */
};

struct use {           /* of a group */
    struct held *held; /* a file is in the place of its number modulo room */
    uint64_t room;
    uint64_t last;         /* number of the file that was used last; UINT64_MAX: none */
    uint64_t seen, opened; /* samples so far, and opens of files that stay open */
    double due;            /* requests that the bytes so far stand for, and that were not made */
    uint8_t *kept;         /* by file; NULL: none */
};

struct stk_replay_state {
    struct use use[STK_GROUPS];
    uint64_t turn; /* of files that are picked in turn */
    uint8_t *buf;
    size_t room;
};

#define FILES_LEAST 16u /* that a thread may hold open, whatever the limit of the process */

/* Files of a group that a thread may hold open: all, or its part of half of the descriptors. */
static uint64_t room_of(const struct stk_workload *w, size_t g)
{
    struct rlimit limit;
    uint64_t threads = (w->reader.threads ? w->reader.threads : 1) * w->ngroups;
    uint64_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 / threads : 0;
    uint64_t files = w->group[g].hold ? stk_bench_group_files(w, g) : 1;
    most = most < FILES_LEAST ? FILES_LEAST : most;
    return files < most ? files : most;
}

static int make_use(struct use *u, const struct stk_workload *w, size_t g, struct stk_err *err)
{
    uint64_t room = room_of(w, g);
    *u = (struct use){.held = calloc(room, sizeof *u->held), .last = UINT64_MAX};
    if (!u->held)
        return stk_err_nomem(err, room * sizeof *u->held);
    u->room = room;
    for (uint64_t i = 0; i < room; i++)
        u->held[i] = (struct held){.file = STK_BIO_NONE, .number = UINT64_MAX};
    return 0;
}

static void close_replay(struct stk_bench_reader *r)
{
    struct stk_replay_state *s = r->state;
    for (size_t g = 0; s && g < STK_GROUPS; g++) {
        for (uint64_t i = 0; i < s->use[g].room; i++)
            stk_bio_close(&r->io, &s->use[g].held[i].file);
        free(s->use[g].held);
        free(s->use[g].kept);
    }
    if (s)
        free(s->buf);
    free(s);
    r->state = NULL;
}

static int make_state(struct stk_bench_reader *r, struct stk_err *err)
{
    struct stk_replay_state *s = r->state ? NULL : calloc(1, sizeof *s);
    int rc = 0;
    if (r->state)
        return 0;
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    r->state = s;
    for (size_t g = 0; g < r->w->ngroups && rc == 0; g++)
        rc = make_use(&s->use[g], r->w, g, err);
    if (rc < 0)
        close_replay(r);
    return rc;
}

static int make_room(struct stk_replay_state *s, uint64_t bytes, struct stk_err *err)
{
    size_t n = bytes < ROOM_MAX ? (size_t)bytes : ROOM_MAX;
    if (n <= s->room)
        return 0;
    free(s->buf);
    s->room = (n + PAGE - 1) / PAGE * PAGE;
    if (posix_memalign((void **)&s->buf, PAGE, s->room) != 0) {
        s->buf = NULL;
        s->room = 0;
        return stk_err_nomem(err, n);
    }
    return 0;
}

/* ---- the part of a sample ------------------------------------------------------------------- */

struct visit { /* one open file, and what is done with it for a sample */
    uint64_t stats, seeks, requests, ends, bytes;
    uint64_t start; /* of the first request */
};

/* ---- the calls ------------------------------------------------------------------------------ */

/* The offset of request i after the first. Jumps come last, those back to the start of the file at
 * the end: sizes ascend, and the largest request fits there. */
static uint64_t next_offset(const struct stk_bench_group *g, const struct held *h, uint64_t i,
                            uint64_t n, uint64_t k)
{
    double after = (double)(n - 1), at = (double)i - 1;
    double shift = (double)(stk_mix64(k) >> 40) / (double)(1u << 24);
    double near = g->consecutive * after + shift, far = g->sequential * after + shift;
    return at + 1 <= near ? h->end : at + 1 <= far ? h->end + 1 : 0;
}

static int make_requests(struct stk_bench_reader *r, const struct stk_bench_group *g,
                         struct held *h, const struct visit *v, struct stk_err *err)
{
    struct stk_replay_state *s = r->state;
    struct sizes sizes = g->hold ? sizes_on(g, v->requests, r->serial)
                                 : sizes_of(g, v->requests, v->bytes, r->serial);
    int rc = 0;
    for (uint64_t i = 0; i < v->requests && rc == 0; i++) {
        uint64_t n = size_at(&sizes, i), size = h->file.size;
        uint64_t off = i ? next_offset(g, h, i, v->requests, r->serial) : v->start;
        size_t got = 0;
        n = n > size ? size : n;
        off = off + n > size ? size - n : off;
        rc = n ? make_room(s, n, err) : 0;
        if (i < v->seeks)
            stk_bio_seek(&r->io, &h->file, off);
        if (rc == 0 && n)
            rc = stk_bio_read_over(&r->io, &h->file, s->buf, s->room, (size_t)n, off, &got, err);
        h->end = off + got;
    }
    for (uint64_t i = v->requests; i < v->seeks && rc == 0; i++)
        stk_bio_seek(&r->io, &h->file, h->end);
    for (uint64_t i = 0; i < v->ends && rc == 0; i++) {
        size_t got;
        rc = make_room(s, PAGE, err);
        rc = rc ? rc : stk_bio_read(&r->io, &h->file, s->buf, PAGE, h->file.size, &got, err);
    }
    return rc;
}

static int open_file(struct stk_bench_reader *r, size_t g, uint64_t number, struct held *h,
                     struct stk_err *err)
{
    stk_bio_close(&r->io, &h->file);
    *h = (struct held){.file = STK_BIO_NONE, .number = UINT64_MAX};
    int rc = stk_bio_open_found(&r->io, r->data->list[g].file[number], &h->file, err);
    if (rc == 0)
        h->number = number;
    return rc;
}

/* The file that is read, until its end. */
static uint64_t next_of_stream(const struct use *u, uint64_t files)
{
    const struct held *h = &u->held[u->last % u->room];
    return (u->last + (h->end >= h->file.size)) % files;
}

static uint64_t pick(struct stk_bench_reader *r, size_t g, struct stk_bench_place at, uint64_t j)
{
    struct stk_replay_state *s = r->state;
    uint64_t n = stk_bench_group_files(r->w, g);
    int how = r->w->group[g].pick;
    if (r->w->group[g].start == STK_START_FOLLOW && s->use[g].last != UINT64_MAX)
        return next_of_stream(&s->use[g], n);
    return (how == STK_PICK_SAMPLE ? at.file
            : how == STK_PICK_NEXT ? s->turn++
                                   : stk_mix64(r->serial * STK_GOLDEN64 + j + g)) %
           n;
}

/* True: the thread has it in memory, or will. */
static bool is_kept(struct stk_bench_reader *r, size_t g, uint64_t number)
{
    struct use *u = &((struct stk_replay_state *)r->state)->use[g];
    if (!r->w->group[g].keep)
        return false;
    if (!u->kept)
        u->kept = calloc(stk_bench_group_files(r->w, g), 1);
    bool there = u->kept && u->kept[number];
    if (u->kept)
        u->kept[number] = 1;
    return there;
}

/* Requests of a visit: one, and more in proportion to its bytes. If there are fewer requests than
 * opens, some visits make none, and the others have their bytes. */
static void count_requests(struct use *u, const struct stk_bench_group *g, double all,
                           struct visit *v)
{
    bool one = g->requests >= g->opens;
    double bytes = (double)v->bytes;
    if (!(all > 0) || !v->bytes)
        return;
    u->due += (double)(one ? g->requests - g->opens : g->requests) * bytes / all;
    v->requests = (uint64_t)u->due;
    u->due -= (double)v->requests;
    v->requests += one;
    if (!one)
        v->bytes = (uint64_t)((double)v->requests * all / (double)g->requests + 0.5);
}

/* Stats of a file that is closed. Opening it takes one at the open file, as of Python and stdio:
 * that counts if the profile has any. */
static int make_stats(struct stk_bench_reader *r, const char *name, uint64_t stats, bool opens,
                      struct stk_err *err)
{
    int rc = 0;
    bool counts = opens && stats;
    r->io.tally->stats += counts;
    for (uint64_t i = counts; i < stats && rc == 0; i++)
        rc = stk_bio_stat(&r->io, name, err);
    return rc;
}

#define IN_PART 0.9 /* of a file: less is not all of it but, say, its trailer */

/* Bytes of a visit: the file's part of those of all visits; if files are read in part (a header, a
 * crop), as many of each. The mean in a workload is rounded to a byte: who reads whole files reads
 * no byte more. */
static void size_visit(struct use *u, const struct stk_bench_group *g, double mean, uint64_t size,
                       struct visit *v)
{
    double all = g->bytes ? (double)g->bytes : mean * (double)g->opens; /* 0: whole files */
    double share = all / (double)g->opens / (mean > 0 ? mean : 1);
    bool whole = fabs(share - 1) * mean <= 1;
    double of = share < IN_PART ? fmin(mean, (double)size / share) : (double)size;
    double bytes = of * (whole ? 1 : share) + 0.5;
    v->bytes = bytes < VISIT_MAX ? (uint64_t)bytes : (uint64_t)VISIT_MAX;
    count_requests(u, g, all, v);
}

/* A file that is opened for it alone. */
static int visit_alone(struct stk_bench_reader *r, size_t gi, struct visit *v, uint64_t number,
                       struct stk_err *err)
{
    const struct stk_bench_group *g = &r->w->group[gi];
    const struct stk_bench_list *l = &r->data->list[gi];
    struct use *u = &((struct stk_replay_state *)r->state)->use[gi];
    struct held *h = &u->held[0];
    int rc = make_stats(r, l->file[number], v->stats, true, err);
    rc = rc ? rc : open_file(r, gi, number, h, err);
    if (rc < 0)
        return rc;
    size_visit(u, g, l->mean_bytes, h->file.size, v);
    rc = make_requests(r, g, h, v, err);
    stk_bio_close(&r->io, &h->file);
    return rc;
}

static bool is_shuffled(const struct stk_workload *w)
{
    return w->access.shuffle == STK_MIX_SAMPLES || w->access.shuffle == STK_MIX_BOTH;
}

/* Whether a file that is open is opened again, when the thread comes back to it: some programs do
 * so in each epoch, others never. The profile says how often. */
static bool opens_again(const struct stk_bench_reader *r, const struct use *u,
                        const struct stk_bench_group *g, const struct held *h,
                        struct stk_bench_place at)
{
    bool goes_on = u->last == h->number && !is_shuffled(r->w) &&
                   (g->start == STK_START_FOLLOW ? h->end < h->file.size : at.index > h->index);
    return !goes_on && (double)u->opened <= (double)u->seen * (double)g->opens / (double)g->per;
}

/* Where the first request of a sample begins. The next sample follows, unless they are shuffled: a
 * jump begins a sample then. */
static uint64_t start_of(const struct stk_bench_reader *r, const struct stk_bench_group *g,
                         const struct held *h, struct stk_bench_place at)
{
    uint64_t size = h->file.size, samples = r->w->dataset.samples_per_file;
    bool follows = h->end && at.index == h->index + 1 && !is_shuffled(r->w);
    if (g->start == STK_START_RANDOM)
        return size ? stk_mix64(r->serial ^ STK_GOLDEN64) % size : 0;
    if (g->start == STK_START_FOLLOW || follows)
        return h->end < size ? h->end : 0;
    return (uint64_t)((unsigned __int128)size * at.index / samples);
}

/* A file that stays open from sample to sample. */
static int visit_open(struct stk_bench_reader *r, size_t gi, struct visit *v, uint64_t number,
                      struct stk_bench_place at, struct stk_err *err)
{
    const struct stk_bench_group *g = &r->w->group[gi];
    struct use *u = &((struct stk_replay_state *)r->state)->use[gi];
    struct held *h = &u->held[number % u->room];
    bool opens = h->number != number || opens_again(r, u, g, h, at);
    int rc = make_stats(r, r->data->list[gi].file[number], v->stats, opens, err);
    if (rc == 0 && opens)
        rc = open_file(r, gi, number, h, err);
    u->opened += opens;
    u->seen++;
    u->last = number;
    v->requests = part_of(g->requests, g->per, r->serial);
    v->start = start_of(r, g, h, at);
    h->index = at.index;
    return rc ? rc : make_requests(r, g, h, v, err);
}

static struct visit share(const struct stk_bench_group *g, uint64_t k, uint64_t j, uint64_t n)
{
    uint64_t first = part_of(g->stats, g->per, k), seeks = part_of(g->seeks, g->per, k),
             ends = part_of(g->ends, g->per, k);
    return (struct visit){
        .stats = part_of(first, n, j), .seeks = part_of(seeks, n, j), .ends = part_of(ends, n, j)};
}

static int use_group(struct stk_bench_reader *r, size_t gi, struct stk_bench_place at,
                     struct stk_err *err)
{
    const struct stk_bench_group *g = &r->w->group[gi];
    bool alone = !g->hold;
    uint64_t n = alone ? part_of(g->opens, g->per, r->serial) : 1;
    int rc = 0;
    for (uint64_t j = 0; j < n && rc == 0; j++) {
        uint64_t number = pick(r, gi, at, j);
        struct visit v = share(g, r->serial, j, n);
        if (is_kept(r, gi, number))
            continue;
        rc = alone ? visit_alone(r, gi, &v, number, err) : visit_open(r, gi, &v, number, at, err);
    }
    return rc;
}

static int use_groups(struct stk_bench_reader *r, size_t from, int when, struct stk_bench_place at,
                      struct stk_err *err)
{
    int rc = make_state(r, err);
    for (size_t g = from; g < r->w->ngroups && rc == 0; g++)
        if (r->w->group[g].when == when)
            rc = use_group(r, g, at, err);
    return rc;
}

static int sample_replay(struct stk_bench_reader *r, struct stk_bench_place at, struct stk_err *err)
{
    return use_groups(r, 0, STK_WHEN_SAMPLE, at, err);
}

int stk_bench_replay_beside(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err)
{
    return use_groups(r, 1, STK_WHEN_SAMPLE, at, err);
}

int stk_bench_replay_start(struct stk_bench_reader *r, uint64_t rank, struct stk_err *err)
{
    r->serial = rank;
    return use_groups(r, 0, STK_WHEN_START, (struct stk_bench_place){0, 0}, err);
}

const struct stk_bench_kind stk_bench_replay = {
    .suffix = ".bin", .write = write_replay, .sample = sample_replay, .close = close_replay};
