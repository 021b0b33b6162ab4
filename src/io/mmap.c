/*
 * mmap.c - the engine that copies nothing: a file is mapped when first needed and stays mapped.
 * Data that is in memory is given out at once; threads wait for the rest to be loaded.
 *
 * A reader of a record looks at its lengths more than once, and relies on the lengths that it
 * checked. So only files that no other user can change are mapped.
 */
#include "io/priv.h"
#include "base/file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOKS 8u /* pages of a range that are probed to see whether it is in memory */
#define TRUSTED                                                                                    \
    256            /* after this many requests in a row that were in memory, some are probed...    \
                    */
#define LOOK_AT 16 /* ...one in this many. After a wrong guess, touching the page waits. */

static int mmap_open(struct stk_io *io, struct stk_err *err)
{
    uint64_t nfiles = io->files->count;
    if (nfiles <= STK_IO_MAPS && !stk_files_are_ours(io->files))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "not mapped: others can change the files");
    int guard = nfiles && nfiles <= STK_IO_MAPS ? stk_guard_reserve((unsigned)nfiles) : -1;
    if (guard < 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "too many files to map");
    io->guard = guard;
    io->map = calloc(nfiles, sizeof *io->map);
    return io->map ? 0 : stk_err_nomem(err, nfiles * sizeof *io->map);
}

static void mmap_close(struct stk_io *io)
{
    for (uint64_t i = 0; io->map && i < io->files->count; i++) {
        struct stk_io_map *m = &io->map[i];
        if (!atomic_load(&m->ready))
            continue;
        if (m->size)
            (void)munmap((void *)(uintptr_t)m->p, (size_t)m->size);
        if (m->fd >= 0)
            close(m->fd);
    }
    free(io->map);
    io->map = NULL;
    if (io->guard >= 0)
        stk_guard_release(io->guard, (unsigned)io->files->count);
    io->guard = -1;
}

/* mincore() reveals what is in memory to the owner only; for others the open file does, and it also
 * reveals changes. */
static int descriptor_to_look(const struct stk_file *f, bool seeable)
{
    if (f->fd >= (int)stk_handles_limit())
        return -1; /* the mapping keeps the file */
    if (!seeable)
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* probing loads nothing */
    return f->fd;
}

static int map_it(struct stk_io *io, struct stk_file *f, struct stk_io_map *m, struct stk_err *err)
{
    m->size = f->size;
    m->seeable = stk_file_seeable(f);
    m->stamp = f->stamp;
    m->fd = -1;
    if (f->size == 0)
        return 0;
    if (!stk_file_is_ours(f))
        return stk_err_set(err, STK_E_STALE, NULL, -1,
                           "others can change the file by now, so it is not mapped; run again");
    void *p = f->size <= SIZE_MAX ? mmap(NULL, (size_t)f->size, PROT_READ, MAP_SHARED, f->fd, 0)
                                  : MAP_FAILED;
    if (p == MAP_FAILED)
        return stk_err_sys(err, NULL, "mmap");
    if (io->random)
        (void)madvise(p, (size_t)f->size, MADV_RANDOM);
    stk_guard_add(io->guard + (int)(m - io->map), p, (size_t)f->size);
    m->p = p;
    m->fd = descriptor_to_look(f, m->seeable);
    if (m->fd >= 0)
        f->fd = -1; /* owned by the mapping from now on */
    return 0;
}

/* A complete copy, else the source. */
static int open_best(const struct stk_files *files, uint32_t number, struct stk_file *f,
                     struct stk_err *err)
{
    uint64_t from = stk_files_route_whole(files, number);
    if (from != number && stk_file_open(files, from, STK_FILE_PLAIN, f, NULL) == 0) {
        if (!f->growing)
            return 0;
        stk_file_close(f);
    }
    return stk_file_open(files, number, STK_FILE_PLAIN, f, err);
}

int stk_io_map_file(struct stk_io *io, uint32_t number, struct stk_err *err)
{
    struct stk_file f;
    struct stk_io_map *m = number < io->files->count ? &io->map[number] : NULL;
    if (m && atomic_load(&m->ready))
        return 0; /* since the request was submitted */
    atomic_fetch_add_explicit(&io->opens, 1, memory_order_relaxed);
    int rc = open_best(io->files, number, &f, err);
    if (rc < 0)
        return rc;
    m->level = stk_files_level(io->files, f.number);
    rc = map_it(io, &f, m, err);
    stk_file_close(&f);
    if (rc == 0)
        atomic_store_explicit(&m->ready, true, memory_order_release);
    return rc;
}

bool stk_io_unchanged(struct stk_io *io, uint32_t file)
{
    struct stk_io_map *m = io->map && file < io->files->count ? &io->map[file] : NULL;
    if (!m || !atomic_load_explicit(&m->ready, memory_order_acquire))
        return true;
    if (atomic_load_explicit(&m->changed, memory_order_relaxed) ||
        stk_guard_damage(io->guard + (int)file) != UINT64_MAX)
        return false;
    if (!stk_file_changed(io->files, file, m->fd, &m->stamp))
        return true;
    atomic_store_explicit(&m->changed, true, memory_order_relaxed);
    return false;
}

static bool page_in_memory(const struct stk_io_map *m, uint64_t off, size_t page)
{
    unsigned char resident = 0;
    uint8_t byte;
    if (m->seeable)
        return mincore((void *)(uintptr_t)(m->p + off), page, &resident) == 0 && (resident & 1);
    return m->fd >= 0 && stk_pread_cached(m->fd, &byte, 1, off);
}

/* True if the range is in memory, judging by some of its pages. */
static bool in_memory(const struct stk_io_req *req)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = req->off / page, last = (req->off + req->len - 1) / page;
    unsigned looks = last - first < LOOKS ? (unsigned)(last - first) + 1 : LOOKS;
    for (unsigned i = 0; i < looks; i++) {
        uint64_t at = first + (looks > 1 ? (last - first) * i / (looks - 1) : 0);
        if (!page_in_memory(req->map, at * page, (size_t)page))
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
    stk_io_count_read(io, (ssize_t)req->len);
    stk_io_finished(io, req);
}

const struct stk_io_ops stk_io_mmap_ops = {
    .kind = STK_IO_MMAP,
    .name = "mmap",
    .title = "mappings",
    .threads_do = STK_JOB_LOAD,
    .open = mmap_open,
    .close = mmap_close,
    .start = mmap_start,
    .poll = stk_io_threads_poll,
    .notify = stk_io_threads_notify,
};
