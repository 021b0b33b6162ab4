/*
 * io_mmap.c - the engine that copies nothing: a file is mapped when first needed and stays so. Data
 * that is in memory already is given out at once; threads wait for the rest to be brought in.
 */
#include "data/io_priv.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOKS 8u /* pages of a range that are looked at to know whether it is in memory */

static int mmap_open(struct stk_io *io, struct stk_err *err)
{
    uint64_t nfiles = io->ds->index.h->nfiles;
    int guard = nfiles && nfiles <= STK_IO_MAPS ? stk_guard_reserve((unsigned)nfiles) : -1;
    if (guard < 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "too many files to map");
    io->files.guard = guard;
    io->files.map = true;
    return 0;
}

static void mmap_close(struct stk_io *io)
{
    if (io->files.guard >= 0)
        stk_guard_release(io->files.guard, (unsigned)io->ds->index.h->nfiles);
}

/* Whether it is, judged by some of its pages. */
static bool in_memory(const struct stk_io_req *req)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)req->data & ~(page - 1), last = (uintptr_t)req->data + req->len - 1;
    uintptr_t npages = (last - from) / page + 1;
    unsigned looks = npages < LOOKS ? (unsigned)npages : LOOKS;
    if (!req->held->seeable)
        return false;
    for (unsigned i = 0; i < looks; i++) {
        unsigned char resident = 0;
        uintptr_t at = from + (looks > 1 ? (npages - 1) * i / (looks - 1) : 0) * page;
        if (mincore((void *)at, page, &resident) < 0 || !(resident & 1))
            return false;
    }
    return true;
}

static void mmap_start(struct stk_io *io, struct stk_io_req *req)
{
    if (!in_memory(req)) {
        stk_io_job(io, req, STK_JOB_LOAD);
        return;
    }
    atomic_fetch_add_explicit(&io->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&io->bytes_read, req->len, memory_order_relaxed);
    stk_io_finished(io, req);
}

const struct stk_io_ops stk_io_mmap_ops = {
    .threads_do = STK_JOB_LOAD,
    .open = mmap_open,
    .close = mmap_close,
    .start = mmap_start,
    .poll = stk_io_threads_poll,
    .notify = stk_io_threads_notify,
};
