/*
 * fold.c - files of one directory and suffix become one group, as the preload library does within a
 * process: when the logs hold more records than fit into memory, and when a file would otherwise
 * count twice, since one process recorded it by name and another one in a group. Counts stay exact;
 * which bytes of which file were read becomes an estimate.
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

static int join_members(struct stk_pb *pb, const char *path, const struct stk_pb_file *f,
                        struct stk_pb_file *g, struct stk_err *err)
{
    if (!g->members) {
        g->members = stk_arena_alloc(&pb->p->arena, STK_PB_MEMBERS);
        if (!g->members)
            return stk_err_nomem(err, STK_PB_MEMBERS);
        memset(g->members, 0, STK_PB_MEMBERS);
    }
    if (!f->members)
        stk_members_add(g->members, stk_path_hash(path, f->path_len));
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
    return join_members(pb, from->path, f, g, err);
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

/* Every file i of n becomes a part of to[i]. */
static int fold_into(struct stk_pb *pb, const uint32_t *to, size_t n, struct stk_err *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++)
        if (to[i] != i)
            rc = join(pb, i, to[i], err);
    return rc ? rc : fold_records(pb, to, err);
}

static int fold(struct stk_pb *pb, struct stk_err *err)
{
    size_t n = pb->p->nfiles;
    uint32_t *to = malloc((n + 1) * sizeof *to);
    if (!to)
        return stk_err_nomem(err, n * sizeof *to);
    int rc = choose(pb, to, n, err);
    rc = rc ? rc : fold_into(pb, to, n, err);
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

/* ---- files that one process recorded by name, and another one in a group -------------------- */

struct both { /* one per file */
    uint32_t group; /* that takes such files; of a group, and if there is none: itself */
    uint32_t procs; /* that recorded it; of a file, only those that also recorded the group */
    uint32_t last;  /* the last one that was counted, plus 1 */
};

static int find_group(struct stk_pb *pb, uint32_t file, struct stk_buf *pattern, uint32_t *out)
{
    const char *path = pb->p->file[file].path;
    size_t n = pb->file[file].path_len;
    *out = file;
    for (enum stk_pb_fold level = 0; level <= STK_FOLD_ALL && *out == file; level++) {
        int rc = stk_pb_pattern(pattern, path, n, level);
        if (rc)
            return rc;
        (void)stk_pb_find(pb, (const char *)pattern->data, pattern->len, true, out);
    }
    return 0;
}

static void count_proc(struct both *b, uint32_t proc)
{
    b->procs += b->last != proc + 1;
    b->last = proc + 1;
}

/* Records are ordered by process: those of one. */
static void count_process(const struct stk_pb *pb, struct both *b, size_t from, size_t end)
{
    const struct stk_profile *p = pb->p;
    uint32_t proc = p->rec[from].proc;
    for (size_t i = from; i < end; i++)
        if (p->file[p->rec[i].file].group)
            count_proc(&b[p->rec[i].file], proc);
    for (size_t i = from; i < end; i++) {
        struct both *f = &b[p->rec[i].file];
        if (f != &b[f->group] && b[f->group].last == proc + 1)
            count_proc(f, proc);
    }
}

/* A process with a group that did not record a file by name may have it in the group. */
static int unite(struct stk_pb *pb, struct both *b, uint32_t *to, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    struct stk_buf pattern = STK_BUF_INIT;
    size_t n = p->nfiles;
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc; i++) {
        b[i] = (struct both){.group = i};
        if (!p->file[i].group)
            rc = find_group(pb, i, &pattern, &b[i].group);
    }
    stk_buf_release(&pattern);
    for (size_t from = 0, end; from < p->nrecs && !rc; from = end) {
        for (end = from + 1; end < p->nrecs && p->rec[end].proc == p->rec[from].proc;)
            end++;
        count_process(pb, b, from, end);
    }
    for (uint32_t i = 0; i < n; i++)
        to[i] = b[i].procs < b[b[i].group].procs ? b[i].group : i;
    return rc ? rc : fold_into(pb, to, n, err);
}

int stk_pb_unite(struct stk_pb *pb, struct stk_err *err)
{
    size_t n = pb->p->nfiles, groups = 0;
    for (size_t i = 0; i < n; i++)
        groups += pb->p->file[i].group;
    if (!groups)
        return 0;
    struct both *b = calloc(n, sizeof *b);
    uint32_t *to = calloc(n, sizeof *to);
    int rc = b && to ? unite(pb, b, to, err) : stk_err_nomem(err, n * sizeof *b);
    free(b);
    free(to);
    return rc;
}
