/*
 * spool.c - logs on a node-local disk, copied to the profile's folder now and then.
 *
 * A log is mapped into the program and written at every call: on a network file system that would
 * cause traffic, and on some, other nodes would not see it. So logs are written to a folder on the
 * node, and changes are copied every half minute: a node that is switched off at the time limit
 * loses no more than that. Changes are detected by content: the time of a mapped file says nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/thread.h"
#include "host/fs.h"
#include "record/priv.h"

#define SPOOL_ROOM   (256ull << 20) /* required free space */
#define LOCAL_ROOM   (1ull << 30)
#define WHOLE_MAX    (8u << 20) /* larger logs (traces) are updated block by block, in place */
#define BLOCK        STK_LOG_BLOCK
#define BLOCKS_LIMIT (1u << 20) /* 64 GiB per log */
#define COPY_REST    9          /* pause between copies, in multiples of the time a copy took */

struct copied {
    char name[256];
    uint64_t key;   /* of the name */
    uint64_t *hash; /* of each block, when last copied */
    size_t nblocks;
    bool done; /* it has ended, and did not change between two copies */
};

struct stk_copier {
    struct stk_launch *l;
    struct stk_thread *thread; /* NULL: copies only at the end */
    struct copied *file;
    size_t n;
    uint8_t *block;
};

/* ---- node-local folders ------------------------------------------------------------------- */

const char *stk_launch_local_dir(uint64_t *free_bytes)
{
    const char *const path[] = {getenv("SLURM_TMPDIR"),
                                getenv("LOCAL_SCRATCH"),
                                getenv("LOCALSCRATCH"),
                                getenv("TMPDIR"),
                                "/local/scratch",
                                "/localscratch",
                                "/local",
                                "/scratch",
                                "/tmp",
                                "/dev/shm"};
    *free_bytes = 0;
    return stk_fs_choose_local(path, sizeof path / sizeof *path, LOCAL_ROOM, free_bytes);
}

static int make_spool(struct stk_launch *l, const char *in, struct stk_err *err)
{
    int rc = stk_folder_temp(&l->spool_folder, in, "stoker-profile-spool", err);
    if (!rc)
        l->logs = l->spool = l->spool_folder.path;
    return rc;
}

void stk_launch_drop_spool(struct stk_launch *l)
{
    if (!l->spool)
        return;
    stk_folder_destroy(&l->spool_folder);
    stk_folder_release(&l->spool_folder);
    l->spool = NULL;
    l->logs = l->dir;
}

int stk_launch_take_spool(struct stk_launch *l, struct stk_err *err)
{
    const char *const path[] = {getenv("SLURM_TMPDIR"), getenv("TMPDIR"), "/tmp", "/dev/shm"};
    uint64_t bytes;
    l->logs = l->dir;
    if (l->o.spool)
        return make_spool(l, l->o.spool, err);
    const struct stk_fs *fs = stk_fs_of_path(l->dir);
    if (!fs->network)
        return 0;
    const char *in = stk_fs_choose_local(path, sizeof path / sizeof *path, SPOOL_ROOM, &bytes);
    if (in && make_spool(l, in, NULL) == 0)
        return 0;
    stk_launch_note(l,
                    "no node-local folder has room for logs (TMPDIR, /tmp, /dev/shm), so they are "
                    "written to %s directly: every process then maps files there",
                    fs->name);
    return 0;
}

/* ---- copying ------------------------------------------------------------------------------ */

static struct copied *find_copied(struct stk_copier *c, const char *name)
{
    uint64_t key = stk_hash64(name, strlen(name));
    for (size_t i = 0; i < c->n; i++)
        if (c->file[i].key == key && strcmp(c->file[i].name, name) == 0)
            return &c->file[i];
    if (STK_ARRAY_MORE(c->file, c->n, NULL))
        return NULL;
    struct copied *f = &c->file[c->n++];
    *f = (struct copied){.key = key};
    snprintf(f->name, sizeof f->name, "%s", name);
    return f;
}

/* Current hashes of all blocks; malloc'ed. A block that changes after it was hashed is copied again
 * next time. */
static int hash_blocks(struct stk_copier *c, struct copied *f, int fd, uint64_t size,
                       uint64_t **fresh, size_t *n, struct stk_err *err)
{
    *n = (size_t)((size + BLOCK - 1) / BLOCK);
    if (*n > BLOCKS_LIMIT)
        return stk_err_set(err, STK_E_UNSUPPORTED, f->name, -1, "too large to be copied");
    *fresh = malloc((*n + 1) * sizeof **fresh);
    if (!*fresh)
        return stk_err_nomem(err, *n * sizeof **fresh);
    int rc = 0;
    for (size_t i = 0; !rc && i < *n; i++) {
        size_t got = 0;
        rc = stk_pread_full(fd, c->block, BLOCK, (uint64_t)i * BLOCK, &got, f->name, err);
        (*fresh)[i] = stk_hash64(c->block, got);
    }
    return rc;
}

static bool same(const struct copied *f, const uint64_t *fresh, size_t n)
{
    return f->hash && f->nblocks == n && memcmp(f->hash, fresh, n * sizeof *fresh) == 0;
}

/* Copies one block: its content, then its head, which says how much of the content is complete. */
static int copy_block(struct stk_copier *c, int from, int to, size_t i, const char *name,
                      struct stk_err *err)
{
    size_t got = 0, head = sizeof(struct stk_log_block);
    uint64_t at = (uint64_t)i * BLOCK;
    int rc = stk_pread_full(from, c->block, BLOCK, at, &got, name, err);
    head = got < head ? got : head;
    if (!rc)
        rc = stk_pwrite_full(to, c->block + head, got - head, at + head, name, err);
    return rc ? rc : stk_pwrite_full(to, c->block, head, at, name, err);
}

/* Copies blocks that differ; the first, which counts them, last. */
static int copy_in_place(struct stk_copier *c, const struct copied *f, int from,
                         const uint64_t *fresh, size_t n, struct stk_err *err)
{
    struct stat st;
    int to, rc = stk_folder_append(&c->l->folder, f->name, &to, err);
    if (rc)
        return rc;
    if (fcntl(to, F_SETFL, 0) != 0) /* appended data would not go to its offset */
        rc = stk_err_sys(err, f->name, "open");
    /* The copy may have been cut or removed: only its length is ours. */
    size_t there = fstat(to, &st) == 0 ? (size_t)(st.st_size / BLOCK) : 0;
    there = there < f->nblocks ? there : f->nblocks;
    for (size_t k = 1; !rc && k <= n; k++) {
        size_t i = k % n;
        if (i >= there || f->hash[i] != fresh[i])
            rc = copy_block(c, from, to, i, f->name, err);
    }
    if (close(to) != 0 && !rc)
        rc = stk_err_sys(err, f->name, "write");
    return rc;
}

static int copy_bytes(struct stk_copier *c, int from, int to, const char *name, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t at = 0; !rc;) {
        size_t got = 0;
        rc = stk_pread_full(from, c->block, BLOCK, at, &got, name, err);
        if (!rc && got)
            rc = stk_write_full(to, c->block, got, name, err);
        at += got;
        if (got < BLOCK)
            break;
    }
    return rc;
}

/* The folder is ours alone, so a predictable name is safe; nothing is synced, since it is copied
 * again. */
static int copy_whole(struct stk_copier *c, const struct copied *f, int from, struct stk_err *err)
{
    const struct stk_folder *in = &c->l->folder;
    char beside[sizeof f->name + 32];
    int to;
    snprintf(beside, sizeof beside, "%s.partial.%d", f->name, (int)getpid());
    int rc = stk_folder_fresh(in, beside, &to, err);
    if (rc)
        return rc;
    rc = copy_bytes(c, from, to, f->name, err);
    if (close(to) != 0 && !rc)
        rc = stk_err_sys(err, f->name, "write");
    if (!rc && stk_rename_at(in->fd, beside, in->fd, f->name) != 0)
        rc = stk_err_sys(err, f->name, "rename");
    if (rc)
        (void)stk_folder_remove(in, beside, NULL);
    return rc;
}

static bool has_ended(int fd)
{
    struct stk_log_header h;
    size_t got = 0, want = offsetof(struct stk_log_header, pid_space);
    return stk_pread_full(fd, &h, want, 0, &got, "", NULL) == 0 && got == want &&
           h.magic == STK_LOG_MAGIC && h.end != STK_END_NONE;
}

static int copy_file(struct stk_copier *c, struct copied *f, int dirfd, struct stk_err *err)
{
    struct stat st;
    uint64_t *fresh = NULL;
    size_t n = 0;
    int fd = openat(dirfd, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : stk_err_sys(err, f->name, "open");
    int rc = fstat(fd, &st) != 0 ? stk_err_sys(err, f->name, "stat") : 0;
    if (!rc)
        rc = hash_blocks(c, f, fd, (uint64_t)st.st_size, &fresh, &n, err);
    bool unchanged = !rc && same(f, fresh, n);
    if (!rc && !unchanged)
        rc = st.st_size > (off_t)WHOLE_MAX ? copy_in_place(c, f, fd, fresh, n, err)
                                           : copy_whole(c, f, fd, err);
    if (!rc) {
        f->done = unchanged && has_ended(fd);
        free(f->hash);
        f->hash = fresh;
        f->nblocks = n;
        fresh = NULL;
    }
    free(fresh);
    close(fd);
    return rc;
}

/* Copies all changes. Continues after an error, and returns the first one. */
static int copy_all(struct stk_copier *c, bool last, struct stk_err *err)
{
    struct stk_dir d;
    int first = stk_dir_open_fd(&d, c->l->spool_folder.fd, c->l->spool, err);
    for (const struct dirent *e; (e = stk_dir_next(&d));) {
        if (!stk_launch_is_ours(e->d_name))
            continue;
        struct copied *f = find_copied(c, e->d_name);
        struct stk_err why = {0};
        int rc = !f                 ? stk_err_nomem(&why, sizeof *f)
                 : f->done && !last ? 0
                                    : copy_file(c, f, d.fd, &why);
        if (rc && !first) {
            first = rc;
            if (err)
                *err = why;
        }
    }
    return stk_dir_end(&d, first, err);
}

/* ---- the thread --------------------------------------------------------------------------- */

static int copying(void *user, struct stk_err *err)
{
    struct stk_copier *c = user;
    double took_s = 0;
    (void)err;
    while (stk_thread_sleep(c->thread, stk_now() + c->l->o.copy_s + COPY_REST * took_s)) {
        double before_s = stk_now();
        (void)copy_all(c, false, NULL); /* repeated later; only the last copy must succeed */
        took_s = stk_now() - before_s;
    }
    return 0;
}

int stk_copier_start(struct stk_launch *l, struct stk_err *err)
{
    if (!l->spool)
        return 0;
    struct stk_copier *c = calloc(1, sizeof *c);
    if (!c || !(c->block = malloc(BLOCK))) {
        free(c);
        return stk_err_nomem(err, BLOCK);
    }
    c->l = l;
    if (stk_thread_open(&c->thread, NULL) == 0)
        stk_thread_begin(c->thread, copying, NULL, c);
    l->copier = c;
    return 0;
}

static void copier_free(struct stk_copier *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->file[i].hash);
    free(c->file);
    free(c->block);
    free(c);
}

int stk_copier_finish(struct stk_launch *l, struct stk_err *err)
{
    struct stk_copier *c = l->copier;
    if (!c) {
        l->spool_left = l->spool;
        return l->spool ? stk_err_nomem(err, BLOCK) : 0;
    }
    (void)stk_thread_close(c->thread, INFINITY);
    int rc = copy_all(c, true, err);
    copier_free(c);
    l->copier = NULL;
    if (rc)
        l->spool_left = l->spool;
    else
        stk_folder_destroy(&l->spool_folder); /* its name is still needed */
    return rc;
}
