/* reader.c - see reader.h: streams and whole files; libhdf5 is in hdf5.c. */
#include "bench/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE       4096u
#define BUFFER_MAX (64u << 20)
#define WORK_BYTES (4u << 20) /* a picture as floats; more than the cache of a core */

const char *stk_bench_file_name(const struct stk_workload *w, uint64_t file,
                                char buf[STK_BENCH_NAME])
{
    const struct stk_bench_kind *kind = stk_bench_kind_of(w->dataset.format);
    char folder[24] = "";
    if (w->dataset.folders)
        snprintf(folder, sizeof folder, "%05llu/", (unsigned long long)(file % w->dataset.folders));
    uint64_t of = w->dataset.format == STK_BENCH_REPLAY ? stk_bench_groups_files(w)
                                                        : w->dataset.files;
    snprintf(buf, STK_BENCH_NAME, "%s/%s%.32s-%05llu-of-%05llu%s",
             w->dataset.is_eval ? "eval" : "train", folder, w->name, (unsigned long long)file,
             (unsigned long long)of, kind->suffix);
    return buf;
}

int stk_bench_reader_open(struct stk_bench_reader *r, uint64_t file, struct stk_err *err)
{
    char name[STK_BENCH_NAME];
    stk_bio_close(&r->io, &r->file);
    r->begin = r->end = 0;
    r->off = r->next_index = 0;
    r->current = UINT64_MAX;
    int rc = stk_bio_open(&r->io, stk_bench_file_name(r->w, file, name), &r->file, err);
    if (rc == 0)
        r->current = file;
    return rc;
}

static int damaged(const struct stk_bench_reader *r, const char *what, struct stk_err *err)
{
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", r->io.dir, r->file.name);
    return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)r->off, "%s", what);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* One request: of the transfer size, or of the next record exactly. */
static int refill(struct stk_bench_reader *r, struct stk_err *err)
{
    size_t n = r->request, got = 0;
    if (!r->w->access.transfer_bytes) {
        struct stk_bench_place at = {r->current, r->next_index};
        uint64_t record = r->kind->stored(r->w, at);
        n = record < n ? (size_t)record : n;
    }
    int rc = stk_bio_read(&r->io, &r->file, r->buf, n, r->off, &got, err);
    if (rc == 0 && got == 0)
        return damaged(r, "the file ends before its last sample", err);
    r->off += got;
    r->begin = 0;
    r->end = rc == 0 ? got : 0;
    return rc;
}

static int pass_record(struct stk_bench_reader *r, struct stk_err *err)
{
    struct stk_bench_frame f = {0};
    bool ends = false;
    while (!ends) {
        int rc = r->begin == r->end ? refill(r, err) : 0;
        if (rc < 0)
            return rc;
        r->begin += r->kind->frame(&f, r->buf + r->begin, r->end - r->begin, &ends);
    }
    r->next_index++;
    return 0;
}

/* From the start of the file until required: a stream knows no other way. */
int stk_bench_stream_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err)
{
    int rc = 0;
    if (r->current != at.file || r->next_index > at.index)
        rc = stk_bench_reader_open(r, at.file, err);
    while (rc == 0 && r->next_index <= at.index)
        rc = pass_record(r, err);
    return rc;
}

/* ---- whole files ---------------------------------------------------------------------------- */

/* A file is read when its first sample is needed; the others of it are in memory then. */
int stk_bench_whole_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                           struct stk_err *err)
{
    if (r->current == at.file && r->w->dataset.samples_per_file > 1)
        return 0;
    int rc = stk_bench_reader_open(r, at.file, err);
    while (rc == 0 && r->off < r->file.size) {
        uint64_t left = r->file.size - r->off;
        bool cut = left < r->request && r->io.cache != STK_CACHE_DIRECT;
        size_t n = cut ? (size_t)left : r->request;
        size_t got = 0;
        rc = stk_bio_read(&r->io, &r->file, r->buf, n, r->off, &got, err);
        if (rc == 0 && got == 0)
            rc = damaged(r, "the file became shorter", err);
        r->off += got;
    }
    stk_bio_close(&r->io, &r->file);
    if (rc < 0)
        r->current = UINT64_MAX;
    return rc;
}

/* ---- records at an offset ------------------------------------------------------------------- */

static int read_range(struct stk_bench_reader *r, uint64_t begin, uint64_t end, struct stk_err *err)
{
    int rc = 0;
    size_t got = 0;
    for (r->off = begin; r->off < end && rc == 0; r->off += got) {
        uint64_t left = end - r->off;
        rc = stk_bio_read(&r->io, &r->file, r->buf, left < r->request ? (size_t)left : r->request,
                          r->off, &got, err);
        if (rc == 0 && got == 0)
            rc = damaged(r, "the file ends before its last sample", err);
    }
    return rc;
}

/* page: 1, or the unit of the requests. */
static int range_sample(struct stk_bench_reader *r, struct stk_bench_place at, uint64_t page,
                        struct stk_err *err)
{
    uint64_t index = STK_BENCH_INDEX_ENTRY * r->w->dataset.samples_per_file;
    uint64_t size = stk_bench_record(r->w, at), begin = index + at.index * size;
    uint64_t end = (begin + size + page - 1) / page * page;
    int rc = 0;
    if (r->current != at.file) {
        rc = stk_bench_reader_open(r, at.file, err);
        rc = rc ? rc : read_range(r, 0, index / 2, err); /* the offsets, then the lengths */
        rc = rc ? rc : read_range(r, index / 2, index, err);
    }
    if (rc == 0 && begin + size <= r->file.size && end > r->file.size)
        end = r->file.size;
    return rc ? rc : read_range(r, begin / page * page, end, err);
}

int stk_bench_indexed_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                             struct stk_err *err)
{
    return range_sample(r, at, 1, err);
}

int stk_bench_mapped_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err)
{
    return range_sample(r, at, PAGE, err);
}

/* ---- the reader ----------------------------------------------------------------------------- */

/* Without a transfer size: a whole file, or the largest record. Cut at a size that every machine
 * has. */
static size_t request_bytes(const struct stk_workload *w)
{
    bool by_record = w->dataset.format == STK_BENCH_INDEXED || w->dataset.format == STK_BENCH_MAPPED;
    double whole = stk_dist_mean(&w->dataset.record) * 2;
    whole *= by_record ? 1 : (double)w->dataset.samples_per_file;
    if (w->access.transfer_bytes)
        return (size_t)w->access.transfer_bytes;
    return stk_bench_is_stream(w->dataset.format) || whole > BUFFER_MAX
               ? BUFFER_MAX
               : ((size_t)whole + (64u << 10)) / PAGE * PAGE;
}

int stk_bench_reader_init(struct stk_bench_reader *r, const struct stk_workload *w,
                          const struct stk_bench_data *data, struct stk_bench_clock *clock,
                          struct stk_io_tally *tally, struct stk_err *err)
{
    *r = (struct stk_bench_reader){.w = w, .file = STK_BIO_NONE, .current = UINT64_MAX};
    r->kind = stk_bench_kind_of(w->dataset.format);
    r->data = data;
    r->io = (struct stk_bio){clock, tally, data->dirfd, data->dir, w->reader.cache};
    if (!r->kind)
        return 0;
    if (r->kind->package)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "this build reads no %s: install %s and build stoker again",
                           stk_bench_formats[w->dataset.format], r->kind->package);
    r->request = request_bytes(w);
    size_t head = w->access.head_reads ? (size_t)w->access.head_bytes : 0;
    size_t room = r->request > head ? r->request : head;
    if (posix_memalign((void **)&r->buf, PAGE, (room + PAGE - 1) / PAGE * PAGE) != 0)
        r->buf = NULL;
    return r->buf ? 0 : stk_err_nomem(err, room);
}

int stk_bench_reader_head(struct stk_bench_reader *r, struct stk_err *err)
{
    const struct stk_workload *w = r->w;
    uint64_t n = w->access.head_reads, bytes = w->access.head_bytes, off = 0, near = 0;
    if (!n || !r->kind)
        return 0;
    int rc = stk_bench_reader_open(r, 0, err);
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        size_t got = 0;
        rc = stk_bio_read(&r->io, &r->file, r->buf, (size_t)bytes, off, &got, err);
        bool follows = (double)(near + 1) <= w->access.head_consecutive * (double)n;
        near += follows;
        off += follows ? bytes : 2 * bytes;
        if (off + bytes > r->file.size)
            off = 0;
    }
    stk_bio_close(&r->io, &r->file);
    r->current = UINT64_MAX;
    return rc;
}

int stk_bench_reader_think(struct stk_bench_reader *r, struct stk_err *err)
{
    double s = stk_bench_think(r->w, r->serial);
    bool burns = s > 0 && r->w->reader.think_how == STK_THINK_BURN;
    if (burns && !r->work)
        r->work = calloc(1, WORK_BYTES);
    if (burns && !r->work)
        return stk_err_nomem(err, WORK_BYTES);
    if (burns)
        stk_bench_burn(r->io.clock, s, r->work, WORK_BYTES);
    else if (s > 0)
        stk_bench_until(r->io.clock, stk_bench_now(r->io.clock) + s);
    return 0;
}

int stk_bench_reader_sample(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err)
{
    int rc = r->kind->sample(r, at, err);
    r->io.tally->samples += rc == 0;
    r->io.tally->asked_bytes += rc == 0 ? stk_bench_record(r->w, at) : 0;
    bool later = r->w->reader.load == STK_LOAD_STORED;
    return rc || later ? rc : stk_bench_reader_think(r, err);
}

int stk_bench_reader_beside(struct stk_bench_reader *r, struct stk_bench_place at,
                            struct stk_err *err)
{
    int rc = r->w->dataset.format == STK_BENCH_REPLAY ? stk_bench_replay_beside(r, at, err) : 0;
    return rc ? rc : stk_bench_reader_think(r, err);
}

void stk_bench_reader_release(struct stk_bench_reader *r)
{
    if (r->kind && r->kind->close)
        r->kind->close(r);
    stk_bio_close(&r->io, &r->file);
    free(r->buf);
    free(r->work);
    r->buf = r->work = NULL;
}
