/*
 * io_probe.c - which engine suits a dataset: by the kind of file system it is on, and by whether
 * its data is in memory already. Looks at some places of a few files, reads none of them.
 */
#include "data/io_priv.h"
#include "base/file.h"
#include "base/random.h"
#include "host/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLACES       64u /* looked at in all */
#define FILES        8u  /* opened for that */
#define CACHED_SHARE 0.9 /* from here on the data counts as being in memory */

static int open_file(struct stk_dataset *ds, uint64_t number, uint64_t *size)
{
    const struct stk_index_file *f;
    const char *name;
    char buf[PATH_MAX];
    struct stat sb;
    if (stk_index_file(&ds->index, number, &f, &name, NULL) < 0 || f->name_len >= sizeof buf)
        return -1;
    memcpy(buf, name, f->name_len);
    buf[f->name_len] = '\0';
    int fd = openat(ds->rootfd, buf, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &sb) < 0 || !S_ISREG(sb.st_mode))) {
        close(fd);
        fd = -1;
    }
    *size = fd >= 0 ? (uint64_t)sb.st_size : 0;
    return fd;
}

/* mincore() tells the truth to the owner only, and starts no reading; a read that must not wait
 * tells everybody, but is not there on every file system. */
struct looker {
    int fd;
    uint8_t *map;
    size_t page;
};

/* 1: in memory, 0: not, -1: cannot be known. */
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

/* Looks at n places of a file; adds to *there of *looked. */
static void look_at_file(int fd, uint64_t size, unsigned n, uint64_t *seed, unsigned *there,
                         unsigned *looked)
{
    struct looker l = {.fd = fd, .page = (size_t)sysconf(_SC_PAGESIZE)};
    struct stat sb;
    uid_t me = geteuid();
    uint64_t npages = (size + l.page - 1) / l.page;
    if ((me == 0 || (fstat(fd, &sb) == 0 && sb.st_uid == me)) && size && size <= SIZE_MAX / 2) {
        void *p = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, fd, 0);
        l.map = p == MAP_FAILED ? NULL : p;
    }
    if (!l.map)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no more than the page itself */
    for (unsigned i = 0; i < n && npages; i++) {
        int rc = look(&l, stk_random_next(seed) % npages * l.page);
        *looked += rc >= 0;
        *there += rc > 0;
    }
    if (l.map)
        munmap(l.map, (size_t)size);
}

/* Goes through some files, evenly spread. Returns whether direct reads can be had there. *fs: what
 * the first is on, which a symbolic link may have led to. */
static bool look_around(struct stk_dataset *ds, double *cached, const struct stk_fs **fs)
{
    uint64_t nfiles = ds->index.h->nfiles, seed = stk_io_now_ns();
    unsigned n = nfiles < FILES ? (unsigned)nfiles : FILES, there = 0, looked = 0;
    bool direct = false;
    for (unsigned i = 0; i < n; i++) {
        uint64_t size;
        int fd = open_file(ds, nfiles * i / n, &size);
        if (fd < 0)
            continue;
        if (i == 0)
            *fs = stk_fs_of_fd(fd);
        look_at_file(fd, size, PLACES / n, &seed, &there, &looked);
        direct = direct || fcntl(fd, F_SETFL, O_DIRECT) == 0;
        close(fd);
    }
    *cached = looked ? (double)there / looked : -1;
    return direct;
}

static enum stk_io_kind choose(const struct stk_io_choice *c, bool direct, bool fits)
{
    if (c->cached >= CACHED_SHARE)
        return c->network ? STK_IO_THREADS : STK_IO_MMAP;
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

int stk_io_probe(struct stk_dataset *ds, const struct stk_io_config *cfg, struct stk_io_choice *out,
                 struct stk_err *err)
{
    (void)err; /* what cannot be looked at is read all the same, and fails then if it must */
    const struct stk_fs *fs = stk_fs_of_fd(ds->rootfd);
    bool direct = false;
    *out = (struct stk_io_choice){.kind = cfg->kind, .cached = -1};
    if (cfg->kind == STK_IO_AUTO)
        direct = look_around(ds, &out->cached, &fs);
    out->network = fs->network;
    out->any_offset = fs->any_offset;
    snprintf(out->fs, sizeof out->fs, "%s", fs->name);
    if (cfg->kind != STK_IO_AUTO)
        return 0;
    if (fs->memory) {
        out->kind = STK_IO_MMAP;
        out->cached = 1;
        snprintf(out->reason, sizeof out->reason, "%s is memory", fs->name);
        return 0;
    }
    out->kind = choose(out, direct, ds->index.h->bytes_stored <= cfg->cache_room);
    give_reason(out, direct);
    return 0;
}
