/*
 * fill.c - filling a set: parcels, finished files. Bytes first, then the entry that says so: whoever
 * is killed in between leaves a parcel that is not there.
 */
#include "tier/priv.h"

#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Written at once: what stays in a core's cache. On a virtual machine, writing whole parcels to ext4
 * took up to three times as long; why is not known. */
#define WRITE_BYTES (256u << 10)

static bool is_full(int error)
{
    return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

/* ---- parcels ---- */

/* The usable path of a published copy never shows a file that is being mended. */
static int unpublish(struct stk_tier_set *s, struct stk_err *err)
{
    if (!atomic_load(&s->published))
        return 0;
    stk_tier_look_published(s);
    if (atomic_load(&s->published) &&
        stk_rename_at(s->dir, STK_TIER_DATA, s->dir, STK_TIER_FILLING) < 0 && errno != ENOENT)
        return stk_err_sys(err, s->path, "rename the copy");
    atomic_store(&s->published, false);
    return 0;
}

/* 2: the disk is full. */
static int write_bytes(int fd, const void *p, size_t n, uint64_t at, const char *path,
                       struct stk_err *err)
{
    struct stk_err why = {0};
    int rc = 0;
    for (size_t done = 0, k; rc == 0 && done < n; done += k) {
        k = n - done < WRITE_BYTES ? n - done : WRITE_BYTES;
        rc = stk_pwrite_full(fd, (const uint8_t *)p + done, k, at + done, path, &why);
    }
    if (rc < 0 && err)
        *err = why;
    return rc < 0 && is_full(why.sys_errno) ? 2 : rc;
}

static int set_times(int fd, int64_t mtime_ns, const char *path, struct stk_err *err)
{
    struct timespec t = stk_time_of_ns(mtime_ns);
    return futimens(fd, (struct timespec[2]){t, t}) < 0 ? stk_err_sys(err, path, "set its times") : 0;
}

/* The times are set, so that the stamp is final. */
int stk_tier_finish_open(struct stk_tier_set *s, uint64_t file, int fd, struct stk_ledger_record *r,
                         struct stk_err *err)
{
    struct stat st;
    int rc = set_times(fd, s->src.file[file].mtime_ns, s->path, err);
    if (rc == 0 && fstat(fd, &st) < 0)
        rc = stk_err_sys(err, s->path, "stat");
    if (rc < 0)
        return rc;
    r->state = STK_RECORD_FINISHED;
    r->done = s->base[file + 1] - s->base[file];
    stk_tier_stamp_take(r, &st);
    return 0;
}

/* A file of one parcel: the claim makes this process its only writer. */
static int put_whole(struct stk_tier_set *s, uint64_t file, int fd, const void *p, size_t n,
                     uint64_t hash, struct stk_err *err)
{
    struct stk_ledger_record r = {.boot = s->tier->boot, .tag = stk_tier_new_tag(s, 0)};
    int rc = write_bytes(fd, p, n, 0, s->path, err);
    if (rc == 0)
        rc = stk_tier_finish_open(s, file, fd, &r, err);
    if (rc == 0 && r.size != n) { /* what was there before was longer */
        rc = ftruncate(fd, (off_t)n) < 0 ? stk_err_sys(err, s->path, "write")
                                         : stk_tier_finish_open(s, file, fd, &r, err);
    }
    return rc == 0 ? stk_ledger_put_small(s, file, &r, hash, err) : rc;
}

/* The record of a file of several parcels, begun if there is none. With the file's lock. */
static int begin_record(struct stk_tier_set *s, uint64_t file, int fd, struct stk_ledger_record *r,
                        struct stk_err *err)
{
    struct stat st;
    if (stk_tier_file_good(s, file, r))
        return 0;
    if (ftruncate(fd, (off_t)s->src.file[file].size) < 0 || fstat(fd, &st) < 0)
        return stk_err_sys(err, s->path, "write");
    *r = (struct stk_ledger_record){
        .state = STK_RECORD_OPEN, .boot = s->tier->boot, .tag = stk_tier_new_tag(s, 0)};
    stk_tier_stamp_take(r, &st);
    return 0;
}

/* One of several. With the file's lock. */
static int put_part(struct stk_tier_set *s, uint64_t file, uint64_t parcel, int fd, const void *p,
                    size_t n, uint64_t hash, struct stk_err *err)
{
    struct stk_ledger_record r;
    struct stat st;
    int rc = begin_record(s, file, fd, &r, err);
    if (rc == 0)
        rc = write_bytes(fd, p, n, parcel * STK_TIER_PARCEL, s->path, err);
    if (rc == 0) /* The disk works while the next ones are read; publishing waits for less. */
        (void)sync_file_range(fd, (off_t)(parcel * STK_TIER_PARCEL), (off_t)n,
                              SYNC_FILE_RANGE_WRITE);
    if (rc == 0 && fstat(fd, &st) < 0)
        rc = stk_err_sys(err, s->path, "stat");
    if (rc == 0)
        rc = stk_ledger_put_entry(s, file, parcel, hash, r.tag, err);
    if (rc != 0)
        return rc;
    r.state = STK_RECORD_OPEN;
    r.done++;
    stk_tier_stamp_take(&r, &st);
    rc = stk_ledger_put_record(s, file, &r, err);
    return rc < 0 ? rc : r.done >= s->base[file + 1] - s->base[file] ? 1 : 0;
}

static int put_locked(struct stk_tier_set *s, uint64_t file, uint64_t parcel, const void *p,
                      size_t n, uint64_t hash, struct stk_err *err)
{
    if (!stk_tier_file_lock(s, file, false))
        return stk_tier_held_up(s->ledger, s->path, err);
    int fd = stk_tier_copy_open(s, file, true, err);
    int rc = fd < 0 ? fd : put_part(s, file, parcel, fd, p, n, hash, err);
    if (fd >= 0)
        close(fd);
    stk_tier_file_unlock(s, file);
    return rc;
}

static int differs(const struct stk_tier_set *s, uint64_t file, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, s->src.path, -1,
                       "%s differs from its checksum in the manifest; run stoker verify on the "
                       "dataset",
                       s->src.file[file].name[0] ? s->src.file[file].name : s->src.name);
}

int stk_tier_put(struct stk_tier_set *s, uint64_t file, uint64_t parcel, const void *p, size_t n,
                 uint64_t hash, struct stk_err *err)
{
    const struct stk_tier_file *f = &s->src.file[file];
    bool whole = s->base[file + 1] - s->base[file] == 1;
    if (whole && f->hashed && f->hash != stk_hash64(p, n))
        return differs(s, file, err);
    int rc = stk_tier_reserve(s, n, err);
    if (rc == 0)
        rc = unpublish(s, err);
    if (rc != 0)
        return rc;
    if (!whole) {
        rc = put_locked(s, file, parcel, p, n, hash, err);
    } else {
        int fd = stk_tier_copy_open(s, file, true, err);
        rc = fd < 0 ? fd : put_whole(s, file, fd, p, n, hash, err);
        if (fd >= 0)
            close(fd);
    }
    if (rc == 0 || rc == 1)
        stk_tier_know(s, s->base[file] + parcel, STK_KNOWN_THERE);
    return rc;
}

/* ---- finished files ---- */

/* None of its parcels counts any more. With the file's lock. */
static void forget(struct stk_tier_set *s, uint64_t file)
{
    struct stk_ledger_record none = {0};
    (void)stk_ledger_put_record(s, file, &none, NULL);
    for (uint64_t i = 0; i < s->base[file + 1] - s->base[file]; i++) {
        (void)stk_ledger_put_entry(s, file, i, 0, 0, NULL);
        stk_tier_know(s, s->base[file] + i, STK_KNOWN_NOT);
    }
}

static int check_entries(struct stk_tier_set *s, uint64_t file, uint32_t tag, struct stk_err *err)
{
    uint8_t *p = malloc(stk_ledger_span(s, file, 1));
    uint64_t n = s->base[file + 1] - s->base[file], there = 0;
    int rc =
        p ? stk_ledger_read(s, file, 1, p, err) : stk_err_nomem(err, stk_ledger_span(s, file, 1));
    struct stk_ledger_view v = {s, p, file};
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        struct stk_ledger_entry e;
        there += stk_ledger_entry_in(&v, file, i, &e) && e.tag == tag;
    }
    if (rc == 0 && there < n)
        rc = stk_err_set(err, STK_E_STALE, s->path, -1, "%s is not complete",
                         s->src.file[file].name);
    free(p);
    return rc;
}

static int check_hash(struct stk_tier_set *s, uint64_t file, int fd, const uint64_t *hash,
                      struct stk_err *err)
{
    const struct stk_tier_file *f = &s->src.file[file];
    uint64_t now = 0, size = 0;
    if (!f->hashed)
        return 0;
    int rc = hash ? 0 : stk_hash_fd(fd, &now, &size, s->path, err);
    if (rc == 0 && (hash ? *hash : now) != f->hash) {
        forget(s, file);
        rc = differs(s, file, err);
    }
    return rc;
}

static int finish_locked(struct stk_tier_set *s, uint64_t file, const uint64_t *hash,
                         struct stk_err *err)
{
    struct stk_ledger_record r;
    if (!stk_tier_file_good(s, file, &r))
        return stk_err_set(err, STK_E_STALE, s->path, -1, "%s is missing or was changed",
                           s->src.file[file].name);
    if (r.state == STK_RECORD_FINISHED)
        return 0;
    int rc = check_entries(s, file, r.tag, err);
    int fd = rc < 0 ? rc : stk_tier_copy_open(s, file, false, err);
    rc = fd < 0 ? fd : check_hash(s, file, fd, hash, err);
    if (rc == 0)
        rc = stk_tier_finish_open(s, file, fd, &r, err);
    if (rc == 0)
        rc = stk_ledger_put_record(s, file, &r, err);
    if (fd >= 0)
        close(fd);
    return rc;
}

int stk_tier_finish_file(struct stk_tier_set *s, uint64_t file, const uint64_t *hash,
                         struct stk_err *err)
{
    if (!stk_tier_file_lock(s, file, false))
        return stk_tier_held_up(s->ledger, s->path, err);
    int rc = finish_locked(s, file, hash, err);
    stk_tier_file_unlock(s, file);
    return rc;
}
