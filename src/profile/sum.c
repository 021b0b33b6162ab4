/*
 * sum.c - sorts the records, and sums what all processes together did to a file: who read
 * it, how much of it, and how much of that several ranks read.
 */
#include "profile/priv.h"

#include <stdlib.h>

#include "host/fs.h"

/* ---- order ---- */

struct place {
    uint64_t key; /* file, process */
    uint32_t rec;
    uint32_t api;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->api > y->api) - (x->api < y->api);
}

/* Moves records to their places within the same memory: they are large and many. */
static void permute(struct stk_pb *pb, struct place *from, size_t n)
{
    struct stk_prof_rec *rec = pb->p->rec;
    for (size_t i = 0; i < n; i++) {
        if (from[i].rec == STK_PB_NONE)
            continue;
        struct stk_prof_rec held = rec[i];
        struct stk_pb_rec held_more = pb->rec[i];
        size_t at = i;
        for (;;) {
            size_t source = from[at].rec;
            from[at].rec = STK_PB_NONE;
            if (source == i)
                break;
            rec[at] = rec[source];
            pb->rec[at] = pb->rec[source];
            at = source;
        }
        rec[at] = held;
        pb->rec[at] = held_more;
    }
}

/* Drops files without a record; keeps the order of the others. */
static void drop_unused(struct stk_pb *pb)
{
    struct stk_profile *p = pb->p;
    uint32_t n = 0;
    for (size_t i = 0, end; i < p->nrecs; i = end, n++) {
        uint32_t file = p->rec[i].file;
        p->file[n] = p->file[file];
        pb->file[n] = pb->file[file];
        for (end = i; end < p->nrecs && p->rec[end].file == file; end++)
            p->rec[end].file = n;
    }
    p->nfiles = n;
}

int stk_pb_sort(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    struct place *place = malloc((p->nrecs + 1) * sizeof *place);
    if (!place)
        return stk_err_nomem(err, p->nrecs * sizeof *place);
    for (uint32_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *r = &p->rec[i];
        place[i] = (struct place){(uint64_t)r->file << 32 | r->proc, i, r->api};
    }
    qsort(place, p->nrecs, sizeof *place, by_place);
    permute(pb, place, p->nrecs);
    free(place);
    drop_unused(pb);
    return 0;
}

/* ---- what was read ---- */

struct reader {
    uint32_t unit, rec;
};

struct work { /* reused for every file */
    struct reader *reader;
    struct stk_byte_range *span;
    size_t nreaders, nspans, reader_room, span_room;
};

static int by_unit(const void *a, const void *b)
{
    const struct reader *x = a, *y = b;
    return (x->unit > y->unit) - (x->unit < y->unit);
}

static bool is_exact(const struct stk_pb *pb, uint32_t rec)
{
    return pb->rec[rec].wide || !pb->p->rec[rec].read.overflow;
}

static int gather(struct stk_pb *pb, struct work *w, uint32_t rec, struct stk_err *err)
{
    const struct stk_pb_rec *x = &pb->rec[rec];
    struct stk_byte_range few[STK_COVER_SPANS];
    int rc = 0;
    if (!x->wide) {
        size_t n = stk_cover_spans(&pb->p->rec[rec].read, few);
        for (size_t i = 0; i < n && !rc; i++) {
            rc = STK_ARRAY_ROOM(w->span, w->span_room, w->nspans + 1, err);
            if (!rc)
                w->span[w->nspans++] = few[i];
        }
        return rc;
    }
    uint32_t at = x->first;
    for (uint32_t i = 0; i < x->wide && at != STK_PB_NONE && !rc; i++, at = pb->span_next[at]) {
        rc = STK_ARRAY_ROOM(w->span, w->span_room, w->nspans + 1, err);
        if (!rc)
            w->span[w->nspans++] = pb->span[at];
    }
    return rc;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t s;
    return __builtin_add_overflow(a, b, &s) ? UINT64_MAX : s;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Bytes that the readers [from, to) together read at least once. */
static int distinct(struct stk_pb *pb, struct work *w, size_t from, size_t to, uint64_t size,
                    uint64_t *bytes, bool *exact, struct stk_err *err)
{
    struct stk_cover cover = {0};
    uint64_t read_bytes = 0, told = 0;
    int rc = 0;
    *exact = true;
    w->nspans = 0;
    for (size_t i = from; i < to && !rc; i++) {
        const struct stk_prof_rec *r = &pb->p->rec[w->reader[i].rec];
        *exact = *exact && is_exact(pb, w->reader[i].rec);
        read_bytes = add(read_bytes, r->n.c[STK_C_READ_BYTES]);
        told = pb->rec[w->reader[i].rec].told ? add(told, r->distinct_bytes) : told;
        rc = gather(pb, w, w->reader[i].rec, err);
    }
    w->nspans = stk_spans_join(w->span, w->nspans);
    *bytes = stk_spans_bytes(w->span, w->nspans); /* not exact: a lower bound */
    if (rc || *exact)
        return rc;
    if (told) { /* which bytes is unknown: assumes that each reader read other bytes, as far as the
                   file has them */
        *bytes = size && size < told ? size : told;
        return 0;
    }
    bool whole;
    for (size_t i = from; i < to; i++)
        stk_cover_add(&cover, &pb->p->rec[w->reader[i].rec].read);
    cover.overflow = 1;
    uint64_t guess = stk_cover_bytes(&cover, read_bytes, size, &whole);
    *bytes = guess > *bytes ? guess : *bytes;
    return 0;
}

static int list_readers(struct stk_pb *pb, struct work *w, size_t from, size_t to,
                        struct stk_err *err)
{
    const struct stk_profile *p = pb->p;
    int rc = 0;
    w->nreaders = 0;
    for (size_t i = from; i < to && !rc; i++) {
        if (!stk_api_moves(p->rec[i].api) || !p->rec[i].n.c[STK_C_READS])
            continue;
        rc = STK_ARRAY_ROOM(w->reader, w->reader_room, w->nreaders + 1, err);
        if (!rc)
            w->reader[w->nreaders++] = (struct reader){p->proc[p->rec[i].proc].unit, (uint32_t)i};
    }
    return rc;
}

static int read_of_file(struct stk_pb *pb, struct work *w, struct stk_prof_file *f, uint64_t size,
                        struct stk_err *err)
{
    bool exact;
    int rc = distinct(pb, w, 0, w->nreaders, size, &f->distinct_bytes, &f->distinct_exact, err);
    if (w->nreaders)
        qsort(w->reader, w->nreaders, sizeof *w->reader, by_unit);
    for (size_t i = 0, end; i < w->nreaders && !rc; i = end) {
        uint64_t bytes;
        for (end = i + 1; end < w->nreaders && w->reader[end].unit == w->reader[i].unit;)
            end++;
        rc = distinct(pb, w, i, end, size, &bytes, &exact, err);
        f->ranks++;
        f->rank_distinct_bytes = add(f->rank_distinct_bytes, bytes);
    }
    return rc;
}

/* One record for all ranks: assumes that no byte was read twice, as far as possible. */
static void read_by_all(const struct stk_pb *pb, const struct work *w, uint32_t ranks,
                        struct stk_prof_file *f)
{
    uint64_t read = 0, most;
    for (size_t i = 0; i < w->nreaders; i++)
        read = add(read, pb->p->rec[w->reader[i].rec].n.c[STK_C_READ_BYTES]);
    if (__builtin_mul_overflow(f->distinct_bytes, ranks, &most))
        most = UINT64_MAX;
    f->ranks = ranks;
    f->rank_distinct_bytes = read < most ? read : most;
}

/* How many files a group stands for; the opened names limit the estimate. */
static uint64_t members(const struct stk_pb_file *x, uint64_t opens)
{
    if (!x->members)
        return 1;
    uint64_t n = (uint64_t)(stk_sketch_count(x->members, STK_PB_MEMBERS) + 0.5);
    n = opens && n > opens ? opens : n;
    return n ? n : 1;
}

static int sum_file(struct stk_pb *pb, struct work *w, uint32_t file, size_t from, size_t to,
                    struct stk_err *err)
{
    const struct stk_profile *p = pb->p;
    struct stk_prof_file *f = &p->file[file];
    uint64_t size = 0, names = 0;
    for (size_t i = from; i < to; i++) {
        const uint64_t *c = p->rec[i].n.c;
        uint64_t reach =
            c[STK_C_FILE_SIZE] > c[STK_C_MAX_OFFSET] ? c[STK_C_FILE_SIZE] : c[STK_C_MAX_OFFSET];
        size = reach > size ? reach : size;
        names = add(names, add(add(c[STK_C_OPENS], c[STK_C_STATS]),
                               add(c[STK_C_ERRORS], add(c[STK_C_REMOVES], c[STK_C_RENAMES]))));
    }
    if (f->group) {
        f->files = members(&pb->file[file], names);
        if (__builtin_mul_overflow(size, f->files, &size))
            size = UINT64_MAX;
    }
    if (pb->file[file].fs_type && stk_fs_by_magic(pb->file[file].fs_type)->magic)
        f->fs = stk_fs_by_magic(pb->file[file].fs_type)->name;
    int rc = list_readers(pb, w, from, to, err);
    rc = rc ? rc : read_of_file(pb, w, f, size, err);
    if (pb->file[file].shared_ranks && w->nreaders)
        read_by_all(pb, w, pb->file[file].shared_ranks, f);
    /* For a group only the largest size is known: the bytes read are closer to its size, since
     * files in their hundreds are mostly read whole. */
    f->size_bytes = f->group && f->distinct_bytes ? f->distinct_bytes : size;
    return rc;
}

/* What is mapped of a file, at most all of it. */
static void sum_mapped(struct stk_profile *p, const struct stk_prof_file *f, size_t from, size_t to)
{
    uint64_t bytes = 0;
    for (size_t i = from; i < to; i++)
        if (p->rec[i].api == STK_API_POSIX)
            bytes = add(bytes, p->rec[i].n.c[STK_C_MMAP_BYTES]);
    p->mapped_files += bytes ? f->files : 0;
    p->mapped_bytes =
        add(p->mapped_bytes, f->size_bytes && f->size_bytes < bytes ? f->size_bytes : bytes);
}

static int sum_record(struct stk_pb *pb, struct work *w, uint32_t rec, struct stk_err *err)
{
    struct stk_prof_rec *r = &pb->p->rec[rec];
    struct stk_prof_proc *proc = &pb->p->proc[r->proc];
    const uint64_t *c = r->n.c;
    bool exact;
    if (pb->rec[rec].wide) {
        w->nspans = 0;
        int rc = gather(pb, w, rec, err);
        if (rc)
            return rc;
        r->distinct_bytes = stk_spans_bytes(w->span, stk_spans_join(w->span, w->nspans));
    } else if (!pb->rec[rec].told) {
        uint64_t size = pb->p->file[r->file].group ? 0 : c[STK_C_FILE_SIZE];
        r->distinct_bytes = stk_cover_bytes(&r->read, c[STK_C_READ_BYTES], size, &exact);
    }
    if (!stk_api_moves(r->api))
        return 0;
    proc->read_bytes = add(proc->read_bytes, c[STK_C_READ_BYTES]);
    proc->write_bytes = add(proc->write_bytes, c[STK_C_WRITE_BYTES]);
    proc->seen_read_bytes = add(proc->seen_read_bytes, c[STK_C_READ_BYTES]);
    proc->seen_write_bytes = add(proc->seen_write_bytes, c[STK_C_WRITE_BYTES]);
    proc->io_sum_s += (double)c[STK_C_READ_NS] / 1e9 + (double)c[STK_C_WRITE_NS] / 1e9 +
                      (double)c[STK_C_META_NS] / 1e9;
    return 0;
}

int stk_pb_sums(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    struct work w = {0};
    int rc = 0;
    for (uint32_t i = 0; i < p->nrecs && !rc; i++)
        rc = sum_record(pb, &w, i, err);
    for (size_t i = 0, end; i < p->nrecs && !rc; i = end) {
        for (end = i + 1; end < p->nrecs && p->rec[end].file == p->rec[i].file;)
            end++;
        rc = sum_file(pb, &w, p->rec[i].file, i, end, err);
        sum_mapped(p, &p->file[p->rec[i].file], i, end);
    }
    for (size_t i = 0; i < p->nprocs; i++) {
        struct stk_prof_proc *c = &p->proc[i];
        uint64_t told = c->told_read_bytes;
        int64_t ahead = pb->proc[i].ahead_bytes;
        double life = c->end_s - c->start_s;
        if (pb->proc[i].no_line)
            c->io_union_s = c->io_sum_s < life ? c->io_sum_s : life;
        /* rchar and wchar, which our counts are compared with, include neither io_uring nor kernel
         * aio. */
        c->seen_read_bytes = less(less(c->seen_read_bytes, told), pb->proc[i].aio_bytes[0]);
        c->seen_write_bytes = less(c->seen_write_bytes, pb->proc[i].aio_bytes[1]);
        c->seen_read_bytes = ahead > 0 ? add(c->seen_read_bytes, (uint64_t)ahead)
                                       : less(c->seen_read_bytes, -(uint64_t)ahead);
    }
    free(w.reader);
    free(w.span);
    return rc;
}
