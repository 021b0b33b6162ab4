/* requests.c - see requests.h. */
#include "bench/requests.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/array.h"

#define WHOLE_MAX (64ull << 20) /* of a request without access.transfer */

/* Bytes from off on, in requests of the transfer size; those of a stream that follow each other
 * become one. */
static int add(struct stk_requests *q, const struct stk_workload *w, struct stk_request r,
               struct stk_err *err)
{
    const struct stk_bench_kind *kind = stk_bench_kind_of(w->dataset.format);
    bool rows = kind->stored && !kind->frame; /* one request each, as libhdf5 makes them */
    uint64_t most = w->access.transfer_bytes && !rows ? w->access.transfer_bytes : WHOLE_MAX;
    struct stk_request *last = q->n ? &q->item[q->n - 1] : NULL;
    if (kind->frame && w->access.transfer_bytes && last && last->file == r.file &&
        last->off + last->bytes == r.off) {
        uint64_t room = most - last->bytes, k = r.bytes < room ? r.bytes : room;
        last->bytes += k;
        r.off += k;
        r.bytes -= k;
    }
    while (r.bytes) {
        uint64_t k = r.bytes < most ? r.bytes : most;
        int rc = STK_ARRAY_ROOM(q->item, q->room, q->n + 1, err);
        if (rc < 0)
            return rc;
        q->item[q->n++] = (struct stk_request){r.file, r.off, k};
        r.off += k;
        r.bytes -= k;
    }
    return 0;
}

/* Where a sample of a stream begins: the sum of those before it. */
static uint64_t stream_offset(struct stk_requests *q, const struct stk_workload *w,
                              const struct stk_bench_kind *kind, struct stk_bench_place at)
{
    if (w->dataset.record.kind == STK_DIST_CONSTANT)
        return at.index * kind->stored(w, at);
    if (q->file != at.file || q->index > at.index) {
        q->file = at.file;
        q->index = q->off = 0;
    }
    for (; q->index < at.index; q->index++)
        q->off += kind->stored(w, (struct stk_bench_place){at.file, q->index});
    return q->off;
}

static int whole_file(struct stk_requests *q, const struct stk_workload *w, uint64_t file,
                      int dirfd, struct stk_err *err)
{
    char name[STK_BENCH_NAME];
    struct stat st;
    if (fstatat(dirfd, stk_bench_file_name(w, file, name), &st, AT_SYMLINK_NOFOLLOW) < 0)
        return stk_err_sys(err, name, "stat");
    return add(q, w, (struct stk_request){file, 0, (uint64_t)st.st_size}, err);
}

static int add_sample(struct stk_requests *q, const struct stk_workload *w,
                      const struct stk_bench_kind *kind, struct stk_bench_place at, int dirfd,
                      struct stk_err *err)
{
    q->samples++;
    q->asked_bytes += stk_bench_record(w, at);
    if (kind->stored) {
        uint64_t off = stream_offset(q, w, kind, at);
        return add(q, w, (struct stk_request){at.file, off, kind->stored(w, at)}, err);
    }
    /* The other samples of a file that was read whole are in memory. */
    if (q->file == at.file && w->dataset.samples_per_file > 1)
        return 0;
    q->file = at.file;
    return whole_file(q, w, at.file, dirfd, err);
}

int stk_requests_make(struct stk_requests *q, const struct stk_bench_plan *p, uint64_t reader,
                      uint64_t readers, uint64_t step, int dirfd, struct stk_err *err)
{
    const struct stk_bench_kind *kind = stk_bench_kind_of(p->w->dataset.format);
    bool same = p->w->access.offsets == STK_OFFSETS_SAME;
    uint64_t all = stk_bench_plan_together(p), n = same ? all : all / readers;
    uint64_t first = same ? 0 : reader * n;
    int rc = 0;
    q->n = 0;
    q->samples = q->asked_bytes = 0;
    for (uint64_t i = 0; i < n && rc == 0; i++)
        rc = add_sample(q, p->w, kind, stk_bench_plan_shared(p, step, first + i), dirfd, err);
    return rc;
}

void stk_requests_release(struct stk_requests *q)
{
    free(q->item);
    *q = STK_REQUESTS_INIT;
}
