/*
 * room.c - the limit of a tier, and what is removed to make room: only sets of ours that no process
 * has open and no job may be reading, least recently used first. A tier that stays full keeps what it has: in a shuffled
 * epoch any fixed part is as good as another, and replacing parts would only add writes.
 */
#include "tier/priv.h"

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/units.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define GRANULE   (UINT64_C(64) << 20) /* reserved at once */
#define SWEEP_S   600 /* a set that is still being made is younger */
#define LEASE_MAX 4096u
#define WAIT_MS   60000 /* another process may be removing many files */

int stk_tier_each_name(struct stk_tier *t, int (*see)(void *user, const char *name), void *user,
                       struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, t->fd, t->path, err);
    for (const struct dirent *e; rc == 0 && (e = stk_dir_next(&d));)
        rc = see(user, e->d_name);
    return stk_dir_end(&d, rc, err);
}

/* ---- the list ---- */

struct listing {
    struct stk_tier *t;
    const char *prefix;
    int (*see)(void *user, const struct stk_tier_info *info);
    void *user;
    struct stk_err *err;
};

static int64_t last_use(int ledger)
{
    struct stat st;
    return fstat(ledger, &st) < 0 ? 0
                                  : (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

/* A damaged set is not listed; making it again removes it. One that cannot be read is an error. */
static int judge(const struct listing *l, int rc, const struct stk_err *why)
{
    if (rc != STK_E_SYS && rc != STK_E_NOMEM)
        return 0;
    if (l->err)
        *l->err = *why;
    return rc;
}

static int show_set(const struct listing *l, struct stk_tier_set *s)
{
    struct stk_tier_state st;
    struct stk_buf lease = STK_BUF_INIT;
    struct stk_err why = {0};
    int rc = stk_tier_state(s, &st, &why);
    if (rc < 0)
        return judge(l, rc, &why);
    bool leased =
        stk_read_file_at(s->dir, STK_TIER_LEASE, O_NOFOLLOW, LEASE_MAX, &lease, s->path, NULL) == 0;
    char *path = stk_tier_set_path(s);
    struct stk_tier_info info = {.source = s->src.path,
                                 .name = s->src.name,
                                 .tier = l->t->path,
                                 .form = s->src.form,
                                 .path = path ? path : "",
                                 .files = st.files,
                                 .bytes = st.bytes,
                                 .bytes_there = st.bytes_there,
                                 .published = st.published,
                                 .filling = stk_tier_locked(s->ledger, STK_LOCK_FILL),
                                 .used = stk_tier_locked(s->ledger, STK_LOCK_USE),
                                 .used_ns = last_use(s->ledger),
                                 .changed_ns = s->src.changed_ns,
                                 .lease = leased ? stk_buf_cstr(&lease) : NULL};
    memcpy(info.id, s->id, sizeof info.id);
    rc = l->see(l->user, &info);
    stk_buf_release(&lease);
    free(path);
    return rc;
}

static int list_name(void *user, const char *name)
{
    const struct listing *l = user;
    struct stk_tier_set *s = NULL;
    struct stk_err why = {0};
    if (!stk_tier_is_set(name) || strncmp(name, l->prefix, strlen(l->prefix)) != 0)
        return 0;
    int rc = stk_tier_join(l->t, name, false, &s, &why);
    if (rc)
        return judge(l, rc, &why);
    rc = show_set(l, s);
    stk_tier_set_close(s);
    return rc;
}

int stk_tier_each(struct stk_tier *t, const char *prefix,
                  int (*see)(void *user, const struct stk_tier_info *info), void *user,
                  struct stk_err *err)
{
    struct listing l = {t, prefix, see, user, err};
    return stk_tier_each_name(t, list_name, &l, err);
}

int stk_tier_list(struct stk_tier *t, int (*see)(void *user, const struct stk_tier_info *info),
                  void *user, struct stk_err *err)
{
    return stk_tier_each(t, "", see, user, err);
}

/* ---- removing for room, or by age ---- */

struct telling {
    struct stk_tier *t;
    const char *path; /* of the copy, before it was removed */
    struct stk_left left;
};

static int tell_removed(void *user, const struct stk_tier_info *info)
{
    const struct telling *told = user;
    struct stk_tier_info i = *info;
    i.path = told->path;
    i.left = told->left.n ? &told->left : NULL;
    told->t->removed(told->t->user, &i);
    return 0;
}

static int evict_told(struct stk_tier *t, const char *id, struct stk_err *err)
{
    struct telling told = {.t = t};
    struct listing l = {t, "", tell_removed, &told, NULL};
    struct stk_tier_set *s = NULL;
    if (t->removed)
        (void)stk_tier_join(t, id, false, &s, NULL);
    char *path = s ? stk_tier_set_path(s) : NULL;
    told.path = path ? path : id;
    int rc = stk_tier_evict(t, id, true, &told.left, err);
    if (rc == 0 && s)
        (void)show_set(&l, s);
    free(path);
    stk_tier_set_close(s);
    return rc;
}

/* ---- sets by age ---- */

struct candidate {
    char id[STK_TIER_ID];
    int64_t used_ns;
    uint64_t reserved;
};

struct candidates {
    struct stk_tier *t;
    struct candidate *set;
    size_t n;
    uint64_t reserved; /* of all sets */
    struct stk_err *err;
};

static int read_reserved(int ledger, uint64_t *bytes, const char *path, struct stk_err *err)
{
    struct stk_ledger_head h = {0};
    size_t got = 0;
    int rc = stk_pread_full(ledger, &h, sizeof h, 0, &got, path, err);
    *bytes = rc == 0 && got == sizeof h ? h.reserved : 0;
    return rc;
}

static uint64_t reserved_in(int ledger)
{
    uint64_t bytes;
    (void)read_reserved(ledger, &bytes, NULL, NULL);
    return bytes;
}

static int add_candidate(void *user, const char *name)
{
    struct candidates *c = user;
    char path[STK_TIER_ID + 16];
    if (!stk_tier_is_set(name))
        return 0;
    snprintf(path, sizeof path, "%.25s/" STK_TIER_LEDGER, name);
    int fd = openat(c->t->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return stk_is_absent(errno) ? 0 : stk_err_sys(c->err, c->t->path, "open %s", path);
    struct candidate one = {.used_ns = last_use(fd)};
    int rc = read_reserved(fd, &one.reserved, c->t->path, c->err);
    close(fd);
    if (rc < 0)
        return rc;
    snprintf(one.id, sizeof one.id, "%.25s", name);
    c->reserved += one.reserved;
    if (STK_ARRAY_MORE(c->set, c->n, NULL))
        return STK_E_NOMEM;
    c->set[c->n++] = one;
    return 0;
}

static int by_use(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static int gather(struct stk_tier *t, struct candidates *c, struct stk_err *err)
{
    *c = (struct candidates){.t = t, .err = err};
    int rc = stk_tier_each_name(t, add_candidate, c, err);
    if (rc == 0 && c->n)
        qsort(c->set, c->n, sizeof *c->set, by_use);
    return rc;
}

static int is_full(const struct stk_tier *t, const struct stk_err *stays, struct stk_err *err)
{
    char limit[32];
    stk_err_set(err, STK_E_UNSUPPORTED, t->path, -1, "full: its limit is %s%s%s",
                stk_format_size(t->limit_bytes, limit, sizeof limit), stays->what[0] ? "; " : "",
                stays->what);
    return 2;
}

/* Of sets in the order of their last use, those that must go for `over` bytes: the first *n of c.
 * False: they would not be enough. */
static bool choose(struct candidates *c, const char *keep, uint64_t over, size_t *n,
                   struct stk_err *stays)
{
    uint64_t freed = 0;
    *n = 0;
    for (size_t i = 0; i < c->n && freed < over; i++) {
        if (strcmp(c->set[i].id, keep) == 0 || !c->set[i].reserved ||
            stk_tier_stays(c->t, c->set[i].id, true, stays->code ? NULL : stays))
            continue;
        freed += c->set[i].reserved;
        c->set[(*n)++] = c->set[i];
    }
    return freed >= over;
}

int stk_tier_make_room(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err)
{
    struct stk_tier *t = s->tier;
    struct candidates c = {0};
    struct stk_err stays = {0};
    size_t n = 0;
    if (!t->limit_bytes)
        return 0;
    int rc = gather(t, &c, err);
    uint64_t all = c.reserved - reserved_in(s->ledger) + bytes;
    if (rc == 0 && all > t->limit_bytes &&
        (bytes > t->limit_bytes || !choose(&c, s->id, all - t->limit_bytes, &n, &stays)))
        rc = is_full(t, &stays, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (evict_told(t, c.set[i].id, &stays) < 0)
            rc = is_full(t, &stays, err);
    free(c.set);
    return rc;
}

void stk_tier_sweep(struct stk_tier *t)
{
    struct candidates c = {0};
    int64_t oldest = ((int64_t)time(NULL) - (int64_t)t->age_s) * 1000000000;
    stk_tier_remove_leftovers(t, SWEEP_S, NULL);
    if (!t->age_s)
        return;
    if (gather(t, &c, NULL) == 0)
        for (size_t i = 0; i < c.n && c.set[i].used_ns < oldest; i++)
            (void)evict_told(t, c.set[i].id, NULL);
    free(c.set);
}

/* ---- the account ---- */

/* Changes to `reserved` of all sets happen under one lock of the tier. */
static bool lock_account(struct stk_tier *t)
{
    pthread_mutex_lock(&t->lock);
    for (int i = 0; stk_tier_lock(t->account, F_WRLCK, 0, 1) < 0; i++) {
        if (i >= WAIT_MS || errno != EAGAIN) {
            pthread_mutex_unlock(&t->lock);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

static void unlock_account(struct stk_tier *t)
{
    (void)stk_tier_lock(t->account, F_UNLCK, 0, 1);
    pthread_mutex_unlock(&t->lock);
}

static int write_reserved(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err)
{
    return stk_pwrite_full(s->ledger, &bytes, sizeof bytes,
                           offsetof(struct stk_ledger_head, reserved), s->path, err);
}

static uint64_t granule_of(const struct stk_tier *t, uint64_t bytes)
{
    uint64_t n = t->limit_bytes && t->limit_bytes / 64 < GRANULE ? t->limit_bytes / 64 : GRANULE;
    return n > bytes ? n : bytes;
}

/* The bytes that may be added. 2: not even `bytes`. With the account locked. */
static int grant(struct stk_tier_set *s, uint64_t bytes, uint64_t *more, struct stk_err *err)
{
    uint64_t mine = reserved_in(s->ledger);
    *more = granule_of(s->tier, bytes);
    int rc = stk_tier_make_room(s, mine + *more, NULL);
    if (rc != 2)
        return rc;
    *more = bytes;
    return stk_tier_make_room(s, mine + bytes, err);
}

static int refill(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err)
{
    struct stk_tier *t = s->tier;
    uint64_t more = 0;
    if (!lock_account(t))
        return stk_tier_held_up(t->account, t->path, err);
    int rc = grant(s, bytes, &more, err);
    if (rc == 0)
        rc = write_reserved(s, reserved_in(s->ledger) + more, err);
    unlock_account(t);
    if (rc == 0)
        s->allowed += more;
    return rc;
}

int stk_tier_reserve(struct stk_tier_set *s, uint64_t bytes, struct stk_err *err)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    if (s->allowed < bytes)
        rc = refill(s, bytes - s->allowed, err);
    if (rc == 0)
        s->allowed -= bytes;
    pthread_mutex_unlock(&s->lock);
    return rc;
}

void stk_tier_unreserve(struct stk_tier_set *s)
{
    if (!s->allowed || !lock_account(s->tier))
        return;
    uint64_t all = reserved_in(s->ledger);
    (void)write_reserved(s, all > s->allowed ? all - s->allowed : 0, NULL);
    unlock_account(s->tier);
    s->allowed = 0;
}

void stk_tier_recount(struct stk_tier_set *s)
{
    struct stk_tier_state st;
    /* Another filler has bytes reserved that are not there yet. */
    if (stk_tier_lock(s->ledger, F_WRLCK, STK_LOCK_FILL, 1) < 0 || !lock_account(s->tier))
        return;
    if (stk_tier_state(s, &st, NULL) == 0)
        (void)write_reserved(s, st.bytes_there, NULL);
    unlock_account(s->tier);
}
