/*
 * state.c - what of a set is there, publishing it, and checking it byte by byte.
 */
#include "tier/priv.h"

#include "base/file.h"
#include "base/hash.h"
#include "host/opened.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS 1800000 /* for one that publishes */
#define LOOK_MS 5000

/* ---- one parcel ---- */

/* A writer that is at work has compared the copy with its record, and its own write changes the
 * stamp: then the tag alone decides. */
static bool counts(struct stk_tier_set *s, uint64_t file, uint32_t tag)
{
    struct stk_ledger_record r;
    bool locked = stk_tier_file_lock(s, file, true);
    bool there = locked ? stk_tier_file_good(s, file, &r)
                        : stk_ledger_record(s, file, &r) && r.state != STK_RECORD_NONE &&
                              r.boot == s->tier->boot;
    if (locked)
        stk_tier_file_unlock(s, file);
    return there && r.tag == tag;
}

bool stk_tier_has(struct stk_tier_set *s, uint64_t file, uint64_t parcel)
{
    uint64_t g = s->base[file] + parcel;
    struct stk_ledger_entry e;
    if (atomic_load_explicit(&s->known[g], memory_order_relaxed) == STK_KNOWN_THERE)
        return true;
    bool there = stk_ledger_entry(s, file, parcel, &e) && counts(s, file, e.tag);
    if (there) {
        uint8_t was = STK_KNOWN_NOT; /* a claim stays one */
        atomic_compare_exchange_strong(&s->known[g], &was, STK_KNOWN_THERE);
    }
    return there;
}

bool stk_tier_file_finished(struct stk_tier_set *s, uint64_t file)
{
    struct stk_ledger_record r;
    if (!stk_tier_file_lock(s, file, false))
        return false;
    bool is = stk_tier_file_good(s, file, &r) && r.state == STK_RECORD_FINISHED;
    stk_tier_file_unlock(s, file);
    return is;
}

/* ---- all of them ---- */

static int count_file(void *user, const struct stk_ledger_view *v, uint64_t file,
                      struct stk_err *err)
{
    struct stk_tier_state *st = user;
    const struct stk_tier_set *s = v->set;
    struct stk_ledger_record r;
    struct stk_ledger_entry e;
    (void)err;
    if (!stk_ledger_record_in(v, file, &r) || r.state == STK_RECORD_NONE ||
        (r.boot != s->tier->boot && !st->published))
        return 0;
    st->files_finished += r.state == STK_RECORD_FINISHED;
    for (uint64_t i = 0; i < s->base[file + 1] - s->base[file]; i++)
        if (stk_ledger_entry_in(v, file, i, &e) && e.tag == r.tag) {
            st->parcels_there++;
            st->bytes_there += stk_tier_parcel_len(s->src.file[file].size, i);
        }
    return 0;
}

int stk_tier_state(struct stk_tier_set *s, struct stk_tier_state *st, struct stk_err *err)
{
    stk_tier_look_published(s);
    *st = (struct stk_tier_state){.files = s->src.count,
                                  .parcels = s->base[s->src.count],
                                  .bytes = s->bytes,
                                  .published = atomic_load(&s->published)};
    return stk_ledger_each(s, count_file, st, err);
}

/* ---- waiting for other processes ---- */

static pid_t stopped_with(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? stk_proc_stopped_with(&st) : 0;
}

static int is_stopped(const char *path, pid_t pid, struct stk_err *err)
{
    return stk_err_set(err, STK_E_EXISTS, path, -1,
                       "process %ld works on the same copy and is stopped: let it go on (kill -CONT "
                       "%ld), or end it",
                       (long)pid, (long)pid);
}

int stk_tier_check_locks(const struct stk_tier_set *s, struct stk_err *err)
{
    errno = atomic_load(&s->refused);
    return errno ? stk_err_sys(err, s->path, "lock a part of it") : 0;
}

int stk_tier_check_stopped(const struct stk_tier_set *s, struct stk_err *err)
{
    pid_t pid = stopped_with(s->ledger);
    return pid ? is_stopped(s->path, pid, err) : 0;
}

int stk_tier_held_up(int fd, const char *path, struct stk_err *err)
{
    if (errno != EAGAIN)
        return stk_err_sys(err, path, "lock a part of it");
    pid_t pid = stopped_with(fd);
    return pid ? is_stopped(path, pid, err)
               : stk_err_set(err, STK_E_EXISTS, path, -1,
                             "another process has locked a part of it and does not go on");
}

/* ---- publishing ---- */

/* The other one may be syncing much. */
static bool lock_publish(struct stk_tier_set *s)
{
    for (int i = 0; stk_tier_lock(s->ledger, F_WRLCK, STK_LOCK_PUBLISH, 1) < 0; i++) {
        int why = errno;
        if (i >= WAIT_MS || why != EAGAIN ||
            (i % LOOK_MS == LOOK_MS - 1 && stopped_with(s->ledger))) {
            errno = why;
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static int check_stamp(struct stk_tier_set *s, uint64_t file, const struct stk_ledger_record *r,
                       struct stk_err *err)
{
    char name[PATH_MAX];
    struct stat st;
    bool fits = stk_tier_name_of(s, file, name, sizeof name) &&
                fstatat(s->copy, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                stk_tier_stamp_fits(r, &st) && r->size == s->src.file[file].size;
    return fits ? 0
                : stk_err_set(err, STK_E_STALE, s->path, -1,
                              "%s was changed by another program; stage it again",
                              s->src.file[file].name);
}

/* The file is finished and as it was left. */
static int check_file(void *user, const struct stk_ledger_view *v, uint64_t file,
                      struct stk_err *err)
{
    struct stk_tier_set *s = user;
    struct stk_ledger_record r;
    bool done = stk_ledger_record_in(v, file, &r) && r.state == STK_RECORD_FINISHED &&
                (r.boot == s->tier->boot || atomic_load(&s->published));
    return done ? check_stamp(s, file, &r, err) : stk_tier_finish_file(s, file, NULL, err);
}

static int rename_copy(struct stk_tier_set *s, struct stk_err *err)
{
    if (syncfs(s->copy) < 0)
        return stk_err_sys(err, s->path, "sync");
    if (stk_rename_at(s->dir, STK_TIER_FILLING, s->dir, STK_TIER_DATA) < 0)
        return stk_err_sys(err, s->path, "rename the copy");
    atomic_store(&s->published, true);
    int rc = stk_fsync_dir(s->dir, s->path, err);
    return rc < 0 ? rc : stk_fsync_dir(s->tier->fd, s->tier->path, err);
}

int stk_tier_publish(struct stk_tier_set *s, char **path, struct stk_err *err)
{
    if (!lock_publish(s))
        return stk_tier_held_up(s->ledger, s->path, err);
    stk_tier_look_published(s);
    int rc = stk_ledger_each(s, check_file, s, err);
    if (rc == 0 && !atomic_load(&s->published))
        rc = rename_copy(s, err);
    (void)stk_tier_lock(s->ledger, F_UNLCK, STK_LOCK_PUBLISH, 1);
    if (rc < 0)
        return rc;
    *path = stk_tier_set_path(s);
    return *path ? 0 : stk_err_nomem(err, PATH_MAX);
}


/* ---- checking bytes ---- */

static int check_parcel(struct stk_tier_set *s, uint64_t file, uint64_t parcel, int fd, uint8_t *p,
                        uint64_t *bad, struct stk_err *err)
{
    struct stk_ledger_entry e;
    size_t n = stk_tier_parcel_len(s->src.file[file].size, parcel), got = 0;
    bool listed = stk_ledger_entry(s, file, parcel, &e);
    int rc = listed ? stk_pread_full(fd, p, n, parcel * STK_TIER_PARCEL, &got, s->path, err) : 0;
    if (rc < 0 || (listed && got == n && stk_tier_hash(p, n) == e.hash))
        return rc;
    ++*bad;
    atomic_store(&s->known[s->base[file] + parcel], STK_KNOWN_NOT);
    return listed && s->filler ? stk_ledger_put_entry(s, file, parcel, 0, 0, err) : 0;
}

/* A file with bad parcels is not finished any more. */
static int reopen(struct stk_tier_set *s, uint64_t file, uint64_t bad, struct stk_err *err)
{
    struct stk_ledger_record r;
    int rc = 0;
    if (!s->filler || !stk_tier_file_lock(s, file, false))
        return 0;
    if (stk_ledger_record(s, file, &r) && r.state == STK_RECORD_FINISHED) {
        r.state = STK_RECORD_OPEN;
        r.done -= bad < r.done ? bad : r.done;
        rc = stk_ledger_put_record(s, file, &r, err);
    }
    stk_tier_file_unlock(s, file);
    return rc;
}

/* Opens a copy of the right size. Negative: it is missing, or longer or shorter. */
static int open_whole(struct stk_tier_set *s, uint64_t file)
{
    struct stat st;
    int fd = stk_tier_copy_open(s, file, false, NULL);
    if (fd < 0 || (fstat(fd, &st) == 0 && (uint64_t)st.st_size == s->src.file[file].size))
        return fd;
    close(fd);
    return STK_E_STALE;
}

int stk_tier_verify_file(struct stk_tier_set *s, uint64_t file, uint64_t *bad, struct stk_err *err)
{
    uint64_t n = s->base[file + 1] - s->base[file];
    size_t most = stk_tier_parcel_len(s->src.file[file].size, 0); /* the first is the largest */
    uint8_t *p = malloc(most ? most : 1);
    *bad = 0;
    if (!p)
        return stk_err_nomem(err, most);
    int fd = open_whole(s, file), rc = 0;
    if (fd < 0)
        *bad = n;
    for (uint64_t i = 0; fd >= 0 && rc == 0 && i < n; i++)
        rc = check_parcel(s, file, i, fd, p, bad, err);
    if (fd >= 0)
        close(fd);
    free(p);
    return rc == 0 && *bad ? reopen(s, file, *bad, err) : rc;
}
