/*
 * io_mmap.c - the engine that copies nothing: a file is mapped when first needed and stays so. Data
 * that is in memory already is given out at once; threads wait for the rest to be brought in.
 */
#include "data/io_priv.h"
#include "base/file.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOKS   8u  /* pages of a range that are looked at to know whether it is in memory */
#define TRUSTED 256 /* requests found there in a row, after which only some are looked at... */
#define LOOK_AT 16  /* ...one in this many. A wrong guess costs whoever touches the page a wait. */

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

static bool page_in_memory(const struct stk_io_file *f, uint64_t off, size_t page)
{
    unsigned char resident = 0;
    uint8_t byte;
    if (f->seeable)
        return mincore((void *)(uintptr_t)(f->map + off), page, &resident) == 0 && (resident & 1);
    return f->fd >= 0 && stk_pread_cached(f->fd, &byte, 1, off);
}

/* Whether it is, judged by some of its pages. */
static bool in_memory(const struct stk_io_req *req)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = req->off / page, last = (req->off + req->len - 1) / page;
    unsigned looks = last - first < LOOKS ? (unsigned)(last - first) + 1 : LOOKS;
    for (unsigned i = 0; i < looks; i++) {
        uint64_t at = first + (looks > 1 ? (last - first) * i / (looks - 1) : 0);
        if (!page_in_memory(req->held, at * page, (size_t)page))
            return false;
    }
    return true;
}

static void mmap_start(struct stk_io *io, struct stk_io_req *req)
{
    bool look = io->resident < TRUSTED || io->resident % LOOK_AT == 0;
    io->resident = !look || in_memory(req) ? io->resident + 1 : 0;
    if (!io->resident) {
        stk_io_job(io, req, STK_JOB_LOAD);
        return;
    }
    atomic_fetch_add_explicit(&io->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&io->bytes_read, req->len, memory_order_relaxed);
    stk_io_finished(io, req);
}

const struct stk_io_ops stk_io_mmap_ops = {
    .kind = STK_IO_MMAP,
    .name = "mmap",
    .title = "mappings",
    .lacking = "too many files to map",
    .threads_do = STK_JOB_LOAD,
    .open = mmap_open,
    .close = mmap_close,
    .start = mmap_start,
    .poll = stk_io_threads_poll,
    .notify = stk_io_threads_notify,
};
