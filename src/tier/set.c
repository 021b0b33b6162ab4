/*
 * set.c - the copy of one source: made whole (list, ledger) under a name of its own and renamed, so
 * that it either exists or does not; joined by everyone else.
 */
#include "tier/priv.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "host/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX (UINT64_C(4) << 30)
#define TRIES    8 /* another process may remove or make it meanwhile */

/* ---- memory ---- */

static struct stk_tier_set *set_new(struct stk_tier *t, struct stk_err *err)
{
    struct stk_tier_set *s = calloc(1, sizeof *s);
    if (!s) {
        stk_err_nomem(err, sizeof *s);
        return NULL;
    }
    s->tier = t;
    s->dir = s->copy = s->ledger = -1;
    s->filler = t->make;
    s->pid = getpid();
    pthread_mutex_init(&s->lock, NULL);
    for (unsigned i = 0; i < STK_TIER_STRIPES; i++)
        pthread_mutex_init(&s->stripe[i], NULL);
    return s;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void stk_tier_set_close(struct stk_tier_set *s)
{
    if (!s)
        return;
    if (s->pid == getpid())
        stk_tier_unreserve(s);
    close_fd(&s->ledger); /* ends all locks */
    close_fd(&s->copy);
    close_fd(&s->dir);
    pthread_mutex_destroy(&s->lock);
    for (unsigned i = 0; i < STK_TIER_STRIPES; i++)
        pthread_mutex_destroy(&s->stripe[i]);
    stk_buf_release(&s->text);
    free(s->src.file);
    free(s->base);
    free((void *)s->known);
    free((void *)s->stamp);
    free(s->path);
    free(s);
}

/* Takes s->text as its list. */
static int take_list(struct stk_tier_set *s, struct stk_err *err)
{
    int rc = stk_tier_list_parse(s->text.data, s->text.len, &s->src, s->path, err);
    if (rc < 0)
        return rc;
    uint64_t n = s->src.count;
    s->base = calloc(n + 1, sizeof *s->base);
    s->stamp = calloc(n + 1, sizeof *s->stamp);
    if (!s->base || !s->stamp)
        return stk_err_nomem(err, (n + 1) * sizeof *s->base);
    for (uint64_t i = 0; i < n; i++) {
        s->base[i + 1] = s->base[i] + stk_tier_parcels(s->src.file[i].size);
        s->bytes += s->src.file[i].size;
    }
    s->known = calloc(s->base[n] + 1, 1);
    s->salt = stk_hash64(s->text.data, s->text.len);
    return s->known ? 0 : stk_err_nomem(err, s->base[n] + 1);
}

static void id_of(uint64_t identity, uint64_t list, char id[STK_TIER_ID])
{
    snprintf(id, STK_TIER_ID, "%016llx-%08x", (unsigned long long)identity, (unsigned)list);
}

static int name_set(struct stk_tier_set *s, const char *id, struct stk_err *err)
{
    snprintf(s->id, sizeof s->id, "%s", id);
    free(s->path);
    s->path = stk_path_join(s->tier->path, id);
    return s->path ? 0 : stk_err_nomem(err, sizeof s->id);
}

/* ---- joining ---- */

static int open_ledger(struct stk_tier_set *s, struct stk_err *err)
{
    s->ledger = openat(s->dir, STK_TIER_LEDGER, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (s->ledger < 0)
        return stk_err_sys(err, s->path, "open its ledger");
    return 0;
}

/* 1: it is being removed. */
static int lock_use(struct stk_tier_set *s, struct stk_err *err)
{
    struct stat now, mine;
    if (stk_tier_lock(s->ledger, F_RDLCK, STK_LOCK_USE, 1) < 0) {
        if (errno == EAGAIN)
            return 1;
        return stk_err_sys(err, s->path, "lock its ledger");
    }
    bool same = fstatat(s->tier->fd, s->id, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
                fstat(s->dir, &mine) == 0 && now.st_ino == mine.st_ino;
    return same ? 0 : 1;
}

/* Another process may rename it at any time: the descriptor stays valid. */
static int open_copy(struct stk_tier_set *s, struct stk_err *err)
{
    static const char *const name[] = {STK_TIER_DATA, STK_TIER_FILLING, STK_TIER_DATA};
    struct stk_err why = {0};
    int rc = 0;
    for (size_t i = 0; i < 3 && s->copy < 0; i++) {
        rc = stk_own_folder_at(s->dir, name[i], 0, &s->copy, s->path, &why);
        atomic_store(&s->published, rc == 0 && i != 1);
    }
    if (rc < 0 && why.sys_errno == ENOENT && s->filler)
        rc = stk_own_folder_at(s->dir, STK_TIER_FILLING, STK_OWN_MAKE | STK_OWN_PRIVATE, &s->copy,
                               s->path, &why);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

void stk_tier_look_published(struct stk_tier_set *s)
{
    struct stat data, mine;
    bool is = fstatat(s->dir, STK_TIER_DATA, &data, AT_SYMLINK_NOFOLLOW) == 0 &&
              fstat(s->copy, &mine) == 0 && data.st_ino == mine.st_ino;
    atomic_store(&s->published, is);
}

static int read_set(struct stk_tier_set *s, struct stk_err *err)
{
    char id[STK_TIER_ID];
    int rc = stk_read_file_at(s->dir, STK_TIER_LIST, O_NOFOLLOW, LIST_MAX, &s->text, s->path, err);
    if (rc < 0)
        return stk_err_wrap(err, rc, "its " STK_TIER_LIST);
    rc = take_list(s, err);
    if (rc == 0)
        rc = stk_ledger_check(s, err);
    if (rc < 0)
        return rc;
    id_of(s->src.identity, stk_tier_version(&s->src), id);
    if (strcmp(id, s->id) != 0)
        return stk_err_set(err, STK_E_CORRUPT, s->path, -1,
                           "damaged: its list belongs to another set");
    return open_copy(s, err);
}

/* Writes the lease of a filler; best effort. */
static void write_lease(struct stk_tier_set *s)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_jw w;
    char boot[64], host[256] = "";
    const char *job = getenv("SLURM_JOB_ID");
    stk_host_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    (void)gethostname(host, sizeof host - 1);
    stk_jw_init(&w, &text, true);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "job", job);
    stk_jw_put_u64(&w, "pid", (uint64_t)getpid());
    stk_jw_put_str(&w, "boot_id", boot);
    stk_jw_put_str(&w, "host", host);
    stk_jw_put_u64(&w, "since_s", (uint64_t)time(NULL));
    stk_jw_close(&w, '}');
    /* Not synced: it says nothing that matters after a crash of the machine. */
    int fd = -1;
    if (!text.fail && stk_open_fresh(s->dir, STK_TIER_LEASE, STK_PRIVATE, &fd, s->path, NULL) == 0)
        (void)stk_write_full(fd, text.data, text.len, s->path, NULL);
    close_fd(&fd);
    stk_buf_release(&text);
}

/* A set that is used is not the oldest. */
static int mark_used(struct stk_tier_set *s, struct stk_err *err)
{
    (void)futimens(s->ledger, NULL);
    if (!s->filler)
        return 0;
    stk_tier_recount(s);
    stk_tier_set_fills(s, true);
    write_lease(s);
    return stk_tier_hold(s, err);
}

bool stk_tier_filled_by_others(const struct stk_tier_set *s)
{
    return stk_tier_locked(s->ledger, STK_LOCK_FILL);
}

void stk_tier_set_fills(struct stk_tier_set *s, bool fills)
{
    (void)stk_tier_lock(s->ledger, fills ? F_RDLCK : F_UNLCK, STK_LOCK_FILL, 1);
}

int stk_tier_join(struct stk_tier *t, const char *id, bool use, struct stk_tier_set **out,
                  struct stk_err *err)
{
    struct stk_err why = {0};
    struct stk_tier_set *s = set_new(t, err);
    if (!s)
        return STK_E_NOMEM;
    s->filler = s->filler && use;
    int rc = name_set(s, id, &why);
    if (rc == 0)
        rc = stk_own_folder_at(t->fd, id, 0, &s->dir, s->path, &why);
    if (rc == 0)
        rc = open_ledger(s, &why);
    if (rc == 0 && use)
        rc = lock_use(s, &why);
    if (rc == 0)
        rc = read_set(s, &why);
    if (stk_if_there(rc, &why) == 0)
        rc = 1;
    if (rc == 0 && use)
        rc = mark_used(s, &why);
    if (rc == 0) {
        *out = s;
        return 0;
    }
    stk_tier_set_close(s);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* ---- making ---- */

static int write_new(struct stk_tier_set *s, struct stk_err *err)
{
    int fd = stk_create_at(s->dir, STK_TIER_LIST, 0600);
    int rc = fd < 0 ? stk_err_sys(err, s->path, "create its list")
                    : stk_write_full(fd, s->text.data, s->text.len, s->path, err);
    close_fd(&fd);
    if (rc < 0)
        return rc;
    s->ledger = stk_create_at(s->dir, STK_TIER_LEDGER, 0600);
    if (s->ledger < 0)
        return stk_err_sys(err, s->path, "create its ledger");
    if (stk_tier_lock(s->ledger, F_RDLCK, STK_LOCK_USE, 1) < 0)
        return stk_err_sys(err, s->path, "lock its ledger");
    rc = stk_ledger_create(s->ledger, s, s->path, err);
    return rc == 0 ? open_copy(s, err) : rc;
}

/* A folder of that name without a list was a set: of it, only what others have put there is left.
 * 1: it is a set, or is gone now. */
static int clear_way(const struct stk_tier_set *s, struct stk_err *err)
{
    struct stk_left left;
    int fd = -1;
    if (stk_own_folder_at(s->tier->fd, s->id, 0, &fd, s->path, NULL) < 0)
        return 1;
    bool set = stk_may_exist(fd, STK_TIER_LIST);
    int rc = set ? 1 : stk_tier_remove_rest(s->tier, s->id, fd, &left, err);
    close(fd);
    if (rc)
        return rc;
    return left.n
               ? stk_err_set(err, STK_E_EXISTS, s->tier->path, -1,
                             "a copy that was removed is in the way, because stoker did not make "
                             "%s; move that away",
                             left.first)
               : 1;
}

/* Gives it its name. 1: another process was faster. */
static int name_new(struct stk_tier_set *s, const char *temp, struct stk_err *err)
{
    const char *name = stk_base_name(temp);
    if (stk_rename_at(s->tier->fd, name, s->tier->fd, s->id) == 0)
        return mark_used(s, err);
    int rc = errno == EEXIST || errno == ENOTEMPTY ? 1 : stk_err_sys(err, s->path, "make folder");
    if (rc == 1)
        rc = clear_way(s, err);
    (void)stk_remove_at(s->tier->fd, name, s->path, NULL);
    return rc;
}

static int make(struct stk_tier *t, const struct stk_tier_source *src, const char *id,
                struct stk_tier_set **out, struct stk_err *err)
{
    char at[STK_FD_PATH], prefix[STK_TIER_ID + 16], *temp = NULL;
    struct stk_tier_set *s = set_new(t, err);
    if (!s)
        return STK_E_NOMEM;
    snprintf(prefix, sizeof prefix, "%s.partial", id);
    int rc = name_set(s, id, err);
    if (rc == 0)
        rc = stk_tier_list_write(src, &s->text, err);
    if (rc == 0)
        rc = take_list(s, err);
    if (rc == 0)
        rc = stk_own_temp_folder(stk_fd_path(t->fd, NULL, at), prefix, &temp, &s->dir, err);
    if (rc == 0)
        rc = write_new(s, err);
    if (rc == 0)
        rc = name_new(s, temp, err);
    else if (temp)
        (void)stk_remove_at(t->fd, stk_base_name(temp), s->path, NULL);
    free(temp);
    if (rc == 0)
        *out = s;
    else
        stk_tier_set_close(s);
    return rc;
}

int stk_tier_set_open(struct stk_tier *t, const struct stk_tier_source *src,
                      struct stk_tier_set **out, struct stk_err *err)
{
    char id[STK_TIER_ID];
    int rc = 1;
    id_of(src->identity, stk_tier_version(src), id);
    for (int i = 0; rc == 1 && i < TRIES; i++) {
        rc = stk_tier_join(t, id, true, out, err);
        /* A damaged set that nobody uses is as good as none. */
        if (rc == STK_E_CORRUPT && t->make && stk_tier_evict(t, id, false, NULL, NULL) == 0)
            rc = 1;
        if (rc == 1 && t->make)
            rc = make(t, src, id, out, err);
        else if (rc == 1)
            break;
    }
    return rc == 1 ? stk_err_set(err, STK_E_STALE, t->path, -1,
                                 "the copy of %s in it is being removed; run again", src->path)
                   : rc;
}

/* ---- finding ---- */

struct wanted {
    char prefix[STK_TIER_ID];
    char best[STK_TIER_ID];
    int64_t changed_ns;
    bool published;
    uint64_t bytes;
};

static int look_at_set(void *user, const struct stk_tier_info *info)
{
    struct wanted *w = user;
    bool better = !w->best[0] || info->published > w->published ||
                  (info->published == w->published && info->bytes_there > w->bytes);
    if (w->best[0] && info->changed_ns != w->changed_ns)
        better = info->changed_ns > w->changed_ns;
    if (!better)
        return 0;
    w->changed_ns = info->changed_ns;
    memcpy(w->best, info->id, sizeof w->best);
    w->published = info->published;
    w->bytes = info->bytes_there;
    return 0;
}

int stk_tier_set_join(struct stk_tier *t, const char *id, struct stk_tier_set **out,
                      struct stk_err *err)
{
    int rc = stk_tier_join(t, id, true, out, err);
    return rc < 0 ? rc : !rc;
}

int stk_tier_set_find(struct stk_tier *t, uint64_t identity, struct stk_tier_set **out,
                      struct stk_err *err)
{
    struct wanted w = {0};
    snprintf(w.prefix, sizeof w.prefix, "%016llx-", (unsigned long long)identity);
    int rc = stk_tier_each(t, w.prefix, look_at_set, &w, err);
    return rc || !w.best[0] ? rc : stk_tier_set_join(t, w.best, out, err);
}

/* ---- properties ---- */

const char *stk_tier_set_id(const struct stk_tier_set *s)
{
    return s->id;
}

const struct stk_tier_source *stk_tier_set_source(const struct stk_tier_set *s)
{
    return &s->src;
}

int stk_tier_set_folder(const struct stk_tier_set *s)
{
    return s->copy;
}

static int compare(const char *name, size_t len, const char *with)
{
    int by = strncmp(name, with, len);
    return by ? by : with[len] ? -1 : 0;
}

int64_t stk_tier_set_lookup(const struct stk_tier_set *s, const char *name, size_t len)
{
    uint64_t lo = 0, hi = s->src.count;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int by = compare(name, len, s->src.file[mid].name);
        if (by == 0)
            return (int64_t)mid;
        if (by < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return -1;
}

bool stk_tier_name_of(const struct stk_tier_set *s, uint64_t file, char *out, size_t room)
{
    const char *name = s->src.file[file].name;
    int n = snprintf(out, room, "%s%s%s", s->src.name, name[0] ? "/" : "", name);
    return n > 0 && (size_t)n < room;
}

char *stk_tier_set_path(const struct stk_tier_set *s)
{
    char *out = NULL;
    const char *where = atomic_load(&s->published) ? STK_TIER_DATA : STK_TIER_FILLING;
    return asprintf(&out, "%s/%s/%s", s->path, where, s->src.name) < 0 ? NULL : out;
}
