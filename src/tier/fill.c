/*
 * fill.c - filling a set: claims, parcels, finished files. A claim is the right of one thread of
 * the node to copy a parcel, by a lock on a byte of the ledger; whoever gets one learns whether the
 * parcel is there after all. Bytes come first, then the entry that says so: whoever is killed in
 * between leaves a parcel that is not there.
 */
#include "tier/priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"

/* ---- one parcel ---- */

static bool read_parcel_hash(int fd, uint64_t size, uint64_t parcel, uint64_t *hash)
{
    size_t n = stk_tier_parcel_len(size, parcel), got = 0;
    uint8_t *p = malloc(n ? n : 1);
    bool ok =
        p && stk_pread_full(fd, p, n, parcel * STK_TIER_PARCEL, &got, NULL, NULL) == 0 && got == n;
    if (ok)
        *hash = stk_tier_hash(p, n);
    free(p);
    return ok;
}

/* Compares a parcel of doubtful origin with its hash. With the file's lock. */
static bool recheck(struct stk_tier_set *s, uint64_t file, uint64_t parcel,
                    const struct stk_ledger_entry *e, struct stk_ledger_record *r)
{
    uint64_t hash = 0;
    int fd = stk_tier_copy_open(s, file, false, NULL);
    bool same = fd >= 0 && read_parcel_hash(fd, s->src.file[file].size, parcel, &hash) &&
                hash == e->hash && stk_ledger_put_entry(s, file, parcel, hash, r->tag, NULL) == 0;
    if (fd >= 0)
        close(fd);
    if (same) {
        r->done++;
        same = stk_ledger_put_record(s, file, r, NULL) == 0;
    }
    return same;
}

/* Whether a claimed parcel turns out to be there. */
static bool is_there(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    struct stk_ledger_entry e;
    struct stk_ledger_record r;
    if (!stk_ledger_entry(s, file, parcel, &e) || !stk_tier_file_lock(s, file, false))
        return false;
    bool there =
        stk_tier_file_good(s, file, &r) && (e.tag == r.tag || recheck(s, file, parcel, &e, &r));
    stk_tier_file_unlock(s, file);
    return there;
}

static uint8_t known(const struct stk_tier_set *s, uint64_t g)
{
    return atomic_load_explicit(&s->known[g], memory_order_relaxed);
}

/* Claims a parcel among the threads of this process. */
static enum stk_tier_claim claim_here(struct stk_tier_set *s, uint64_t g)
{
    pthread_mutex_lock(&s->lock);
    uint8_t now = known(s, g);
    if (now == STK_KNOWN_NOT)
        stk_tier_know(s, g, STK_KNOWN_CLAIMED);
    pthread_mutex_unlock(&s->lock);
    return now == STK_KNOWN_NOT     ? STK_TIER_OURS
           : now == STK_KNOWN_THERE ? STK_TIER_THERE
                                    : STK_TIER_BUSY;
}

static void unclaim_here(struct stk_tier_set *s, uint64_t g, uint64_t n)
{
    pthread_mutex_lock(&s->lock);
    for (uint64_t i = g; i < g + n; i++)
        if (known(s, i) == STK_KNOWN_CLAIMED)
            stk_tier_know(s, i, STK_KNOWN_NOT);
    pthread_mutex_unlock(&s->lock);
}

/* Locks part of the ledger for writing; a refusal is kept for stk_tier_check_locks(). */
static bool tier_lock_noted(struct stk_tier_set *s, int64_t at, int64_t n)
{
    if (stk_tier_lock(s->ledger, F_WRLCK, at, n) == 0)
        return true;
    if (errno != EAGAIN)
        atomic_store(&s->refused, errno);
    return false;
}

enum stk_tier_claim stk_tier_claim(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    uint64_t g = s->base[file] + parcel;
    enum stk_tier_claim got = claim_here(s, g);
    if (got != STK_TIER_OURS)
        return got;
    if (!tier_lock_noted(s, (int64_t)g, 1)) {
        unclaim_here(s, g, 1);
        return STK_TIER_BUSY;
    }
    if (!is_there(s, file, parcel))
        return STK_TIER_OURS;
    stk_tier_know(s, g, STK_KNOWN_THERE);
    stk_tier_drop(s, file, parcel);
    return STK_TIER_THERE;
}

void stk_tier_drop(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    uint64_t g = s->base[file] + parcel;
    (void)stk_tier_lock(s->ledger, F_UNLCK, (int64_t)g, 1);
    unclaim_here(s, g, 1);
}

/* ---- many files ---- */

/* True if all parcels were unclaimed here, and now are claimed here. */
static bool claim_range_here(struct stk_tier_set *s, uint64_t from, uint64_t to)
{
    bool all_free = true;
    pthread_mutex_lock(&s->lock);
    for (uint64_t g = from; all_free && g < to; g++)
        all_free = known(s, g) == STK_KNOWN_NOT;
    for (uint64_t g = from; all_free && g < to; g++)
        stk_tier_know(s, g, STK_KNOWN_CLAIMED);
    pthread_mutex_unlock(&s->lock);
    return all_free;
}

/* All that is missing of a file, or nothing. */
static enum stk_tier_claim claim_file(struct stk_tier_set *s, uint64_t file)
{
    uint64_t n = s->base[file + 1] - s->base[file], ours = 0, i = 0;
    enum stk_tier_claim one = STK_TIER_THERE;
    for (; i < n && one != STK_TIER_BUSY; i++) {
        one = stk_tier_claim(s, file, i);
        ours += one == STK_TIER_OURS;
    }
    if (one != STK_TIER_BUSY)
        return ours ? STK_TIER_OURS : STK_TIER_THERE;
    for (uint64_t k = 0; k + 1 < i; k++)
        stk_tier_drop(s, file, k);
    return STK_TIER_BUSY;
}

/* Of a file that is locked as a whole. */
static enum stk_tier_claim look_through(struct stk_tier_set *s, const struct stk_ledger_view *v,
                                        uint64_t file)
{
    enum stk_tier_claim all = STK_TIER_THERE;
    uint64_t n = s->base[file + 1] - s->base[file];
    for (uint64_t i = 0; i < n; i++) {
        struct stk_ledger_entry e;
        if (stk_ledger_entry_in(v, file, i, &e) && is_there(s, file, i))
            stk_tier_know(s, s->base[file] + i, STK_KNOWN_THERE);
        else
            all = STK_TIER_OURS;
    }
    return all;
}

static void drop_range(struct stk_tier_set *s, uint64_t first, uint64_t n)
{
    uint64_t from = s->base[first], count = s->base[first + n] - from;
    if (count)
        (void)stk_tier_lock(s->ledger, F_UNLCK, (int64_t)from, (int64_t)count);
    unclaim_here(s, from, count);
}

static bool claim_range(struct stk_tier_set *s, uint64_t first, uint64_t n, uint8_t *got)
{
    uint64_t from = s->base[first], to = s->base[first + n];
    uint8_t *p = malloc(stk_ledger_span(s, first, n));
    bool ours = p && claim_range_here(s, from, to);
    if (ours && !tier_lock_noted(s, (int64_t)from, (int64_t)(to - from))) {
        unclaim_here(s, from, to - from);
        ours = false;
    }
    bool read = ours && stk_ledger_read(s, first, n, p, NULL) == 0;
    struct stk_ledger_view v = {s, p, first};
    for (uint64_t i = 0; read && i < n; i++)
        got[i] = (uint8_t)look_through(s, &v, first + i);
    if (ours && !read)
        drop_range(s, first, n);
    free(p);
    return read;
}

void stk_tier_claim_files(struct stk_tier_set *s, uint64_t first, uint64_t n, uint8_t *got)
{
    if (!n || claim_range(s, first, n, got))
        return;
    for (uint64_t i = 0; i < n; i++)
        got[i] = (uint8_t)claim_file(s, first + i);
}

void stk_tier_drop_files(struct stk_tier_set *s, uint64_t first, uint64_t n, const uint8_t *got)
{
    for (uint64_t i = 0, run; i < n; i += run ? run : 1) {
        for (run = 0; i + run < n && got[i + run] != STK_TIER_BUSY;)
            run++;
        if (run)
            drop_range(s, first + i, run);
    }
}

/* Written at once: what stays in a core's cache. On a virtual machine, writing whole parcels to
 * ext4 took up to three times as long; why is not known. */
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
    return futimens(fd, (struct timespec[2]){t, t}) < 0 ? stk_err_sys(err, path, "set its times")
                                                        : 0;
}

/* The times are set, so that the stamp is final. */
static int tier_finish_open(struct stk_tier_set *s, uint64_t file, int fd,
                            struct stk_ledger_record *r, struct stk_err *err)
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
        rc = tier_finish_open(s, file, fd, &r, err);
    if (rc == 0 && r.size != n) { /* what was there before was longer */
        rc = ftruncate(fd, (off_t)n) < 0 ? stk_err_sys(err, s->path, "write")
                                         : tier_finish_open(s, file, fd, &r, err);
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
        rc = tier_finish_open(s, file, fd, &r, err);
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

static int is_stale(const struct stk_tier_set *s, uint64_t file, const char *how,
                    struct stk_err *err)
{
    return stk_err_set(err, STK_E_STALE, s->path, -1, "%s %s", s->src.file[file].name, how);
}

/* Writes an entry per parcel, and compares the file with its hash in the list. */
static int hash_parcels(struct stk_tier_set *s, uint64_t file, int fd, uint32_t tag,
                        struct stk_err *err)
{
    const struct stk_tier_file *f = &s->src.file[file];
    size_t most = stk_tier_parcel_len(f->size, 0);
    uint8_t *p = malloc(most ? most : 1);
    struct stk_hash all;
    int rc = p ? 0 : stk_err_nomem(err, most);
    stk_hash_init(&all);
    for (uint64_t i = 0; rc == 0 && i < stk_tier_parcels(f->size); i++) {
        size_t n = stk_tier_parcel_len(f->size, i), got = 0;
        rc = stk_pread_full(fd, p, n, i * STK_TIER_PARCEL, &got, s->path, err);
        if (rc == 0 && got < n)
            rc = is_stale(s, file, "became shorter", err);
        stk_hash_update(&all, p, rc ? 0 : n);
        rc = rc ? rc : stk_ledger_put_entry(s, file, i, stk_tier_hash(p, n), tag, err);
    }
    if (rc == 0 && f->hashed && stk_hash_final(&all) != f->hash)
        rc = is_stale(s, file, "differs from its checksum", err);
    free(p);
    return rc;
}

static int take_file(struct stk_tier_set *s, uint64_t file, int fd, struct stk_err *err)
{
    struct stat st;
    struct stk_ledger_record r = {.boot = s->tier->boot, .tag = stk_tier_new_tag(s, 0)};
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != s->src.file[file].size)
        return is_stale(s, file, "has another size", err);
    int rc = hash_parcels(s, file, fd, r.tag, err);
    rc = rc ? rc : tier_finish_open(s, file, fd, &r, err);
    return rc ? rc : stk_ledger_put_record(s, file, &r, err);
}

/* With the file's lock. */
static int adopt(struct stk_tier_set *s, uint64_t file, struct stk_err *err)
{
    struct stk_ledger_record r;
    if (stk_tier_file_good(s, file, &r) && r.state == STK_RECORD_FINISHED)
        return 0;
    int fd = stk_tier_copy_open(s, file, false, NULL);
    if (fd < 0)
        return is_stale(s, file, "is missing", err);
    int rc = stk_tier_reserve(s, s->src.file[file].size, err);
    rc = rc ? rc : take_file(s, file, fd, err);
    close(fd);
    return rc;
}

int stk_tier_adopt_file(struct stk_tier_set *s, uint64_t file, struct stk_err *err)
{
    if (!stk_tier_file_lock(s, file, false))
        return stk_tier_held_up(s->ledger, s->path, err);
    int rc = adopt(s, file, err);
    stk_tier_file_unlock(s, file);
    return rc;
}

int stk_tier_expect(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err)
{
    return stk_tier_reserve(s, bytes, err);
}

bool stk_tier_set_alone(struct stk_tier_set *s)
{
    return tier_lock_noted(s, STK_LOCK_ALONE, 1);
}
