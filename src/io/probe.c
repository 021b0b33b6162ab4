/*
 * probe.c - chooses an engine for some files: by their file system, and by how much of their data
 * is in memory already. Probes some places of a few files and reads none.
 */
#include "io/priv.h"
#include "base/file.h"
#include "base/pool.h"
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

/* The copy only if no file is read from the source: the engine must suit both. */
static int open_one(const struct stk_files *files, uint64_t number, struct stk_file *f)
{
    bool copies = files->overlay && files->overlay->whole;
    return stk_file_open(files, copies ? stk_files_route_whole(files, number) : number,
                         STK_FILE_PLAIN, f, NULL);
}

/* A mapped file is read from one place as long as it is mapped, and fills nothing. */
static bool may_map(const struct stk_files *files)
{
    return !files->overlay || (files->overlay->whole && !files->overlay->fetch);
}

/* What is seen of one file. */
struct seen {
    unsigned there, looked;
    bool away, direct; /* not on a file system of this node; direct reads are supported */
};

struct probing {
    const struct stk_files *files;
    uint64_t seed;
    unsigned n;
    struct seen seen[FILES];
};

static int probe_file(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct probing *p = user;
    struct seen *s = &p->seen[item];
    uint64_t seed = p->seed + item;
    struct stk_file f;
    (void)thread, (void)err;
    if (open_one(p->files, p->files->count * item / p->n, &f) < 0)
        return 0;
    s->away = !stk_fs_is_local(stk_fs_of_fd(f.fd));
    look_at_file(&f, PLACES / p->n, &seed, &s->there, &s->looked);
    s->direct = fcntl(f.fd, F_SETFL, O_DIRECT) == 0;
    stk_file_close(&f);
    return 0;
}

/* Probes some files, evenly spread; all at once if an open takes a round trip. Returns whether
 * direct reads are supported; *local: all are on file systems of this node, so the kernel knows of
 * every change. */
static bool look_around(const struct stk_files *files, bool network, double *cached, bool *local)
{
    struct probing p = {.files = files, .seed = stk_io_now_ns()};
    struct seen all = {0};
    p.n = files->count < FILES ? (unsigned)files->count : FILES;
    (void)stk_pool_run(network ? p.n : 1, p.n, probe_file, &p, NULL);
    for (unsigned i = 0; i < p.n; i++) {
        all.there += p.seen[i].there;
        all.looked += p.seen[i].looked;
        all.away = all.away || p.seen[i].away;
        all.direct = all.direct || p.seen[i].direct;
    }
    *local = *local && !all.away;
    *cached = all.looked ? (double)all.there / all.looked : -1;
    return all.direct;
}

/* The file system of the first file: a symbolic link, or an overlay, may lead away from the root.
 */
static const struct stk_fs *fs_of(const struct stk_files *files)
{
    struct stk_file f;
    if (open_one(files, 0, &f) < 0)
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
    bool local = stk_fs_is_local(fs);
    bool direct = look_around(files, fs->network, &out->cached, &local);
    local = local && may_map(files);
    if (fs->memory && local) {
        out->kind = STK_IO_MMAP;
        out->cached = 1;
        snprintf(out->reason, sizeof out->reason, "%s is memory", fs->name);
        return;
    }
    out->kind = choose(out, direct, files->bytes <= cfg->cache_room, local);
    give_reason(out, direct);
}
