/* out.c - writing a shard: in order, in large writes, write-back started early, fsynced, renamed.
 */
#include "pack/priv.h"
#include "dataset/checksum.h"
#include "base/beneath.h"
#include "base/file.h"
#include "base/spool.h"
#include "base/text.h"
#include "dataset/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRITE_SIZE (1u << 20)
#define SYNC_STEP                                                                                  \
    (16u << 20) /* start write-back at this interval, so that the fsync has little                 \
                 * left */

static int write_out(struct stk_out_file *o, const void *p, size_t n, struct stk_err *err)
{
    int rc = stk_write_full(o->fd, p, n, o->partial, err);
    if (rc < 0)
        return rc;
    stk_hash_update(&o->hash, p, n);
    o->written += n;
    if (o->written - o->started >= SYNC_STEP) {
        (void)sync_file_range(o->fd, (off_t)o->started, (off_t)(o->written - o->started),
                              SYNC_FILE_RANGE_WRITE);
        o->started = o->written;
    }
    return 0;
}

static int flush(struct stk_out_file *o, struct stk_err *err)
{
    int rc = o->buf.len ? write_out(o, o->buf.data, o->buf.len, err) : 0;
    stk_buf_reset(&o->buf);
    return rc;
}

static int out_write(struct stk_out *out, const void *p, size_t n, struct stk_err *err)
{
    struct stk_out_file *o = (struct stk_out_file *)out;
    if (n >= WRITE_SIZE / 4) { /* large enough to write directly */
        int rc = flush(o, err);
        return rc < 0 ? rc : write_out(o, p, n, err);
    }
    stk_buf_put(&o->buf, p, n);
    if (o->buf.fail)
        return stk_buf_check(&o->buf, err);
    return o->buf.len >= WRITE_SIZE ? flush(o, err) : 0;
}

static uint64_t out_tell(const struct stk_out *out)
{
    const struct stk_out_file *o = (const struct stk_out_file *)out;
    return o->written + o->buf.len;
}

static int out_patch(struct stk_out *out, uint64_t off, const void *p, size_t n,
                     struct stk_err *err)
{
    struct stk_out_file *o = (struct stk_out_file *)out;
    int rc = flush(o, err);
    o->patched = true;
    return rc < 0 ? rc : stk_pwrite_full(o->fd, p, n, off, o->partial, err);
}

/* ---- sidecars ---- */

char *stk_out_side_name(const struct stk_format *f, const char *name)
{
    size_t n = strlen(name), stem = stk_text_ends(name, n, f->suffix) ? n - strlen(f->suffix) : n;
    char *side = NULL;
    return asprintf(&side, "%.*s%s", (int)stem, name, f->sidecar) < 0 ? NULL : side;
}

static int side_open(struct stk_out_file *o, struct stk_err *err)
{
    o->side_name = stk_out_side_name(o->format, o->name);
    char *path = o->side_name ? stk_path_join(o->dir, o->side_name) : NULL;
    int rc =
        path ? stk_new_begin_at(&o->side_file, o->out.dirfd, o->side_name, STK_SHARED, path, err)
             : stk_err_nomem(err, strlen(o->name));
    free(path);
    return rc;
}

static int side_flush(struct stk_out_file *o, struct stk_err *err)
{
    int rc = stk_write_full(o->side_file.fd, o->side.data, o->side.len, o->side_file.path, err);
    stk_buf_reset(&o->side);
    return rc;
}

static int out_sidecar(struct stk_out *out, const void *p, size_t n, struct stk_err *err)
{
    struct stk_out_file *o = (struct stk_out_file *)out;
    int rc = o->side_file.fd < 0 ? side_open(o, err) : 0;
    if (rc < 0)
        return rc;
    stk_buf_put(&o->side, p, n);
    if (o->side.fail)
        return stk_buf_check(&o->side, err);
    return o->side.len >= WRITE_SIZE ? side_flush(o, err) : 0;
}

/* ---- opening ---- */

static const struct stk_out_ops ops = {
    .write = out_write, .tell = out_tell, .patch = out_patch, .sidecar = out_sidecar};

static int name_it(struct stk_out_file *o, const char *dir, const char *name, struct stk_err *err)
{
    o->dir = strdup(dir);
    o->name = strdup(name);
    o->partial_name = NULL;
    if (asprintf(&o->partial_name, "%s.partial", name) < 0)
        o->partial_name = NULL;
    o->partial = o->partial_name ? stk_path_join(dir, o->partial_name) : NULL;
    o->out.name = o->partial_name;
    o->out.path = o->partial;
    return o->dir && o->name && o->partial ? 0 : stk_err_nomem(err, strlen(dir));
}

int stk_out_open(struct stk_out_file *o, const struct stk_format *f, int dirfd, const char *dir,
                 const char *name, struct stk_err *err)
{
    *o = STK_OUT_INIT;
    o->out.ops = &ops;
    o->out.dirfd = dirfd;
    o->format = f;
    stk_hash_init(&o->hash);
    int rc = name_it(o, dir, name, err);
    if (rc == 0)
        rc = stk_remove_at(dirfd, o->partial_name, o->partial, err); /* from a killed run */
    if (rc < 0 || (f->caps & STK_CAN_OWN_FILE))
        return rc;
    o->fd = stk_create_at(dirfd, o->partial_name, STK_SHARED);
    return o->fd < 0 ? stk_err_sys(err, o->partial, "create") : 0;
}

/* ---- committing ---- */

static int sync_own(const struct stk_out_file *o, struct stk_err *err)
{
    int fd = openat(o->out.dirfd, o->partial_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int rc = fd < 0 || fsync(fd) < 0 ? stk_err_sys(err, o->partial, "fsync") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int seal_side(struct stk_out_file *o, struct stk_manifest_file *side, struct stk_err *err)
{
    *side = (struct stk_manifest_file){0};
    if (o->side_file.fd < 0)
        return 0;
    int rc = side_flush(o, err);
    if (rc == 0)
        rc = stk_hash_file_at(o->out.dirfd, o->side_file.tmp, O_NOFOLLOW, &side->xxh64, &side->size,
                              o->side_file.path, err);
    side->name = o->side_name;
    return rc;
}

static int give_name(const struct stk_out_file *o, struct stk_err *err)
{
    return stk_rename_at(o->out.dirfd, o->partial_name, o->out.dirfd, o->name) < 0
               ? stk_err_sys(err, o->partial, "rename into place")
               : 0;
}

int stk_out_seal(struct stk_out_file *o, struct stk_manifest_file *shard,
                 struct stk_manifest_file *side, struct stk_err *err)
{
    int rc = o->fd >= 0 ? flush(o, err) : sync_own(o, err);
    if (rc == 0 && o->fd >= 0 && fsync(o->fd) < 0)
        rc = stk_err_sys(err, o->partial, "fsync");
    shard->name = o->name;
    if (rc == 0 && o->fd >= 0 && !o->patched) {
        shard->size = o->written;
        shard->xxh64 = stk_hash_final(&o->hash);
    } else if (rc == 0) {
        rc = stk_content_checksum(o->out.dirfd, false, o->partial_name, &shard->size, &shard->xxh64,
                              o->partial, err);
    }
    return rc < 0 ? rc : seal_side(o, side, err);
}

/* The sidecar first: a shard with its final name must be complete. */
int stk_out_commit(struct stk_out_file *o, struct stk_err *err)
{
    int rc = o->side_file.fd < 0 ? 0 : stk_new_commit(&o->side_file, err);
    return rc < 0 ? rc : give_name(o, err);
}

void stk_out_release(struct stk_out_file *o)
{
    if (o->fd >= 0)
        close(o->fd);
    stk_new_abort(&o->side_file);
    stk_buf_release(&o->buf);
    stk_buf_release(&o->side);
    free(o->dir);
    free(o->name);
    free(o->partial);
    free(o->partial_name);
    free(o->side_name);
    *o = STK_OUT_INIT;
}
