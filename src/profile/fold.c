/*
 * fold.c - reduces the records when the logs hold more than fit into memory: files of one
 * directory and suffix become one group, as the preload library does within a process. Counts stay
 * exact; which bytes of which file were read becomes an estimate.
 */
#include "profile/priv.h"

#include "base/hash.h"

#include <stdlib.h>

#define GROUP_LEAST 32u /* files; fewer are not grouped, if that suffices */
#define MAX_SUFFIX  12u /* including the dot; a longer one is part of the name */

int stk_pb_pattern(struct stk_buf *out, const char *path, size_t n, enum stk_pb_fold level)
{
    const char *slash = memrchr(path, '/', n);
    size_t dir = slash ? (size_t)(slash - path) + 1 : 0;
    const char *dot = memrchr(path + dir, '.', n - dir);
    stk_buf_reset(out);
    if (level == STK_FOLD_DIRECTORY)
        stk_buf_put(out, path, dir);
    stk_buf_putc(out, '*');
    if (level < STK_FOLD_ALL && dot && dot > path + dir && (size_t)(path + n - dot) <= MAX_SUFFIX)
        stk_buf_put(out, dot, (size_t)(path + n - dot));
    return stk_buf_check(out, NULL);
}

/* The number of files per pattern, by hash alone: on a collision, two patterns fold a little
 * early. */
struct tally {
    uint64_t hash;
    uint32_t count;
};

static struct tally *tally_of(struct tally *table, size_t mask, uint64_t hash)
{
    size_t at = hash & mask;
    while (table[at].count && table[at].hash != hash)
        at = (at + 1) & mask;
    table[at].hash = hash;
    return &table[at];
}

/* Groups can only join wider groups. */
static bool foldable(const struct stk_pb *pb, size_t file)
{
    return !pb->p->file[file].group || pb->level > STK_FOLD_DIRECTORY;
}

/* to[i]: the file that replaces file i. New files (groups) are appended. */
static int choose(struct stk_pb *pb, uint32_t *to, size_t n, struct stk_err *err)
{
    struct stk_buf pattern = STK_BUF_INIT;
    size_t slots = 64;
    int rc = 0;
    while (slots < n * 2)
        slots *= 2;
    struct tally *table = calloc(slots, sizeof *table);
    if (!table)
        return stk_err_nomem(err, slots * sizeof *table);
    for (size_t i = 0; i < n && !rc; i++) {
        if (!foldable(pb, i))
            continue;
        rc = stk_pb_pattern(&pattern, pb->p->file[i].path, pb->file[i].path_len, pb->level);
        tally_of(table, slots - 1, stk_hash64(pattern.data, pattern.len))->count++;
    }
    for (uint32_t i = 0; i < n && !rc; i++) {
        to[i] = i;
        if (!foldable(pb, i))
            continue;
        rc = stk_pb_pattern(&pattern, pb->p->file[i].path, pb->file[i].path_len, pb->level);
        uint64_t hash = stk_hash64(pattern.data, pattern.len);
        uint32_t least = pb->level == STK_FOLD_DIRECTORY ? GROUP_LEAST : 2;
        if (!rc && tally_of(table, slots - 1, hash)->count >= least)
            rc = stk_pb_file(pb, "", (const char *)pattern.data, pattern.len, true, &to[i], err);
    }
    free(table);
    stk_buf_release(&pattern);
    return rc;
}

static int join_members(struct stk_pb *pb, const struct stk_pb_file *f, struct stk_pb_file *g,
                        struct stk_err *err)
{
    if (!g->members) {
        g->members = stk_arena_alloc(&pb->p->arena, STK_PB_MEMBERS);
        if (!g->members)
            return stk_err_nomem(err, STK_PB_MEMBERS);
        memset(g->members, 0, STK_PB_MEMBERS);
    }
    uint64_t hash = stk_mix64(f->hash);
    uint8_t rank = (uint8_t)(__builtin_clzll((hash >> 6) | 1) - 5);
    uint8_t *mine = &g->members[hash % STK_PB_MEMBERS];
    if (!f->members)
        *mine = *mine > rank ? *mine : rank;
    for (size_t i = 0; f->members && i < STK_PB_MEMBERS; i++)
        g->members[i] = g->members[i] > f->members[i] ? g->members[i] : f->members[i];
    return 0;
}

/* Adds file i to the group. */
static int join(struct stk_pb *pb, uint32_t i, uint32_t group, struct stk_err *err)
{
    struct stk_pb_file *f = &pb->file[i], *g = &pb->file[group];
    struct stk_prof_file *from = &pb->p->file[i], *to = &pb->p->file[group];
    g->fs_type = g->fs_type ? g->fs_type : f->fs_type;
    to->fs = *to->fs ? to->fs : from->fs;
    to->stripe_bytes = to->stripe_bytes ? to->stripe_bytes : from->stripe_bytes;
    to->stripe_count = to->stripe_count ? to->stripe_count : from->stripe_count;
    to->layouts |= from->layouts;
    return join_members(pb, f, g, err);
}

static int by_target(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void merge(struct stk_pb *pb, size_t to, size_t from)
{
    struct stk_prof_rec *t = &pb->p->rec[to], *f = &pb->p->rec[from];
    stk_counts_add(&t->n, &f->n);
    stk_cover_add(&t->read, &f->read);
    t->distinct_bytes = t->distinct_bytes > UINT64_MAX - f->distinct_bytes
                            ? UINT64_MAX
                            : t->distinct_bytes + f->distinct_bytes;
    pb->rec[to].told |= pb->rec[from].told;
}

/* Ranges mean nothing across files: the sample, which hashes file and offset, counts. */
static void forget_spans(struct stk_pb *pb, size_t rec)
{
    pb->p->rec[rec].read.nspans = 0;
    pb->p->rec[rec].read.overflow = 1;
    pb->rec[rec].wide = 0;
}

/* A key is file, API (three bits) and the record's position among those of its process, of which
 * there are at most RECS_MOST. */
#define PLACE_BITS 29
#define PLACE      ((1ull << PLACE_BITS) - 1)

/* Records are ordered by process; within one, records that now have the same file are merged. */
static size_t merge_process(struct stk_pb *pb, size_t from, size_t end, size_t out, uint64_t *key,
                            const uint32_t *to)
{
    struct stk_prof_rec *rec = pb->p->rec;
    size_t n = end - from;
    for (size_t i = 0; i < n; i++) {
        const struct stk_prof_rec *r = &rec[from + i];
        key[i] = (uint64_t)to[r->file] << 32 | (uint64_t)r->api << PLACE_BITS | (i & PLACE);
    }
    qsort(key, n, sizeof *key, by_target);
    /* The first of each (file, API) stays, the others are added to it. */
    for (size_t i = 0; i < n; i++) {
        size_t at = from + (key[i] & PLACE);
        bool folded = rec[at].file != to[rec[at].file];
        rec[at].file = to[rec[at].file];
        if (folded)
            forget_spans(pb, at);
        if (i && key[i] >> PLACE_BITS == key[i - 1] >> PLACE_BITS) {
            size_t head = from + (key[i - 1] & PLACE);
            merge(pb, head, at);
            rec[at].proc = STK_PB_NONE;                 /* gone */
            key[i] = (key[i] & ~PLACE) | (head - from); /* the head continues */
        }
    }
    for (size_t i = from; i < end; i++) {
        if (rec[i].proc == STK_PB_NONE)
            continue;
        if (out != i) {
            rec[out] = rec[i];
            pb->rec[out] = pb->rec[i];
        }
        out++;
    }
    return out;
}

static int fold_records(struct stk_pb *pb, const uint32_t *to, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    uint64_t *key = NULL;
    size_t room = 0, out = 0;
    int rc = 0;
    for (size_t from = 0, end; from < p->nrecs && !rc; from = end) {
        for (end = from + 1; end < p->nrecs && p->rec[end].proc == p->rec[from].proc;)
            end++;
        rc = STK_ARRAY_ROOM(key, room, end - from, err);
        if (!rc)
            out = merge_process(pb, from, end, out, key, to);
    }
    free(key);
    if (!rc)
        p->nrecs = out;
    return rc;
}

static int fold(struct stk_pb *pb, struct stk_err *err)
{
    size_t n = pb->p->nfiles;
    uint32_t *to = malloc((n + 1) * sizeof *to);
    if (!to)
        return stk_err_nomem(err, n * sizeof *to);
    int rc = choose(pb, to, n, err);
    for (uint32_t i = 0; i < n && !rc; i++)
        if (to[i] != i)
            rc = join(pb, i, to[i], err);
    rc = rc ? rc : fold_records(pb, to, err);
    free(to);
    return rc;
}

int stk_pb_fold(struct stk_pb *pb, struct stk_err *err)
{
    size_t enough = pb->max_recs / 2;
    int rc = fold(pb, err);
    pb->folded = true;
    /* If that did not help (as many directories as files), wider groups do, from now on. */
    while (!rc && pb->p->nrecs > enough && pb->level < STK_FOLD_ALL) {
        pb->level++;
        rc = fold(pb, err);
    }
    if (!rc && pb->p->nrecs > enough)
        pb->max_recs *= 2; /* so many processes cannot be described with less */
    return rc;
}
