/*
 * probe.c - chooses an engine for some files: by their file system, and by how much of their data
 * is in memory already. Probes some places of a few files and reads none.
 */
#include "io/priv.h"
#include "base/file.h"
#include "base/random.h"
#include "host/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLACES       64u /* places probed in all */
#define FILES        8u  /* files opened for that */
#define CACHED_SHARE 0.9 /* from this share on, the data counts as being in memory */

/* mincore() is reliable for the owner only, and starts no read; a read that must not wait works for
 * everyone, but not on every file system. */
struct looker {
    int fd;
    uint8_t *map;
    size_t page;
};

/* 1: in memory, 0: not, -1: unknown. */
static int look(const struct looker *l, uint64_t off)
{
    unsigned char resident = 0;
    uint8_t byte;
    if (l->map)
        return mincore(l->map + off, l->page, &resident) == 0 ? resident & 1 : -1;
    if (stk_pread_cached(l->fd, &byte, 1, off))
        return 1;
    return errno == EAGAIN ? 0 : -1;
}

/* Probes n places of a file; adds to *there and *looked. */
static void look_at_file(const struct stk_file *f, unsigned n, uint64_t *seed, unsigned *there,
                         unsigned *looked)
{
    struct looker l = {.fd = f->fd, .page = (size_t)sysconf(_SC_PAGESIZE)};
    uint64_t npages = (f->size + l.page - 1) / l.page;
    if (stk_file_seeable(f) && f->size && f->size <= SIZE_MAX / 2) {
        void *p = mmap(NULL, (size_t)f->size, PROT_READ, MAP_SHARED, f->fd, 0);
        l.map = p == MAP_FAILED ? NULL : p;
    }
    if (!l.map)
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* no more than the page itself */
    for (unsigned i = 0; i < n && npages; i++) {
        int rc = look(&l, stk_random_next(seed) % npages * l.page);
        *looked += rc >= 0;
        *there += rc > 0;
    }
    if (l.map)
        munmap(l.map, (size_t)f->size);
}

/* Probes some files, evenly spread. Returns whether direct reads are supported; *local: all are on
 * file systems of this node, so the kernel knows of every change. */
static bool look_around(const struct stk_files *files, double *cached, bool *local)
{
    uint64_t nfiles = files->count, seed = stk_io_now_ns();
    unsigned n = nfiles < FILES ? (unsigned)nfiles : FILES, there = 0, looked = 0;
    bool direct = false;
    for (unsigned i = 0; i < n; i++) {
        struct stk_file f;
        if (stk_file_open(files, nfiles * i / n, STK_FILE_PLAIN, &f, NULL) < 0)
            continue;
        *local = *local && stk_fs_is_local(stk_fs_of_fd(f.fd));
        look_at_file(&f, PLACES / n, &seed, &there, &looked);
        direct = direct || fcntl(f.fd, F_SETFL, O_DIRECT) == 0;
        stk_file_close(&f);
    }
    *cached = looked ? (double)there / looked : -1;
    return direct;
}

/* The file system of the first file: a symbolic link, or an overlay, may lead away from the root.
 */
static const struct stk_fs *fs_of(const struct stk_files *files)
{
    struct stk_file f;
    if (stk_file_open(files, 0, STK_FILE_PLAIN, &f, NULL) < 0)
        return stk_fs_of_path(files->root);
    const struct stk_fs *fs = stk_fs_of_fd(f.fd);
    stk_file_close(&f);
    return fs;
}

/* Mapped only if a change of the file under the mapping is detected. */
static enum stk_io_kind choose(const struct stk_io_choice *c, bool direct, bool fits, bool local)
{
    if (c->cached >= CACHED_SHARE)
        return local ? STK_IO_MMAP : STK_IO_THREADS;
    if (!direct || (c->network && fits))
        return STK_IO_THREADS;
    return STK_IO_DIRECT;
}

static void give_reason(struct stk_io_choice *c, bool direct)
{
    char share[48] = "what is in memory cannot be seen";
    const char *more = "";
    if (c->cached >= 0)
        snprintf(share, sizeof share, "%.0f %% of the data is in memory", c->cached * 100);
    if (c->kind == STK_IO_THREADS && c->cached < CACHED_SHARE)
        more = direct ? ", the rest fits" : ", no direct reads here";
    snprintf(c->reason, sizeof c->reason, "%s, %s%s", c->fs, share, more);
}

/* Files that cannot be probed are still read, and may fail then. */
void stk_io_probe(const struct stk_files *files, const struct stk_io_config *cfg,
                  struct stk_io_choice *out)
{
    const struct stk_fs *fs = fs_of(files);
    *out = (struct stk_io_choice){.kind = cfg->kind, .network = fs->network, .cached = -1};
    snprintf(out->fs, sizeof out->fs, "%s", fs->name);
    if (cfg->kind != STK_IO_AUTO)
        return;
    bool local = stk_fs_is_local(fs), direct = look_around(files, &out->cached, &local);
    if (fs->memory && local) {
        out->kind = STK_IO_MMAP;
        out->cached = 1;
        snprintf(out->reason, sizeof out->reason, "%s is memory", fs->name);
        return;
    }
    out->kind = choose(out, direct, files->bytes <= cfg->cache_room, local);
    give_reason(out, direct);
}
