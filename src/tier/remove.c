/*
 * remove.c - removing sets and what killed processes have left of them: what the list of a set
 * names, and the files that every set has. What else lies there is somebody's, stays, and is named.
 */
#include "tier/priv.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PARTIAL ".partial."

/* ---- names ---- */

/* "0123456789abcdef-01234567" */
static bool is_id(const char *name)
{
    size_t n = strspn(name, "0123456789abcdef");
    return n == 16 && name[16] == '-' && strspn(name + 17, "0123456789abcdef") == 8;
}

bool stk_tier_is_set(const char *name)
{
    return is_id(name) && !name[25];
}

bool stk_tier_begins_set(const char *path)
{
    return is_id(path) && (!path[25] || path[25] == '/' ||
                           strncmp(path + 25, PARTIAL, strlen(PARTIAL)) == 0);
}

static bool is_leftover(const char *name)
{
    return is_id(name) && strncmp(name + 25, PARTIAL, strlen(PARTIAL)) == 0;
}

/* ---- a set that may go ---- */

/* Opens the ledger and locks the set against all use. -1: there is no ledger; -2: it is in use, or
 * whether it is cannot be asked. */
static int lock_out(int dir)
{
    int fd = openat(dir, STK_TIER_LEDGER, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && stk_tier_lock(fd, F_WRLCK, STK_LOCK_USE, 1) < 0) {
        close(fd);
        return -2;
    }
    return fd >= 0 ? fd : stk_is_absent(errno) ? -1 : -2;
}

/* A set that nobody can join as long as it is locked. */
struct locked {
    int dir, ledger; /* ledger -1: there is none */
};

static void unlock_set(struct locked *l)
{
    if (l->ledger >= 0)
        close(l->ledger);
    if (l->dir >= 0)
        close(l->dir);
}

static int stays(struct stk_tier *t, const char *id, const char *why, struct stk_err *err)
{
    struct stk_tier_set *s = NULL;
    (void)stk_tier_join(t, id, false, &s, NULL);
    int rc = stk_err_set(err, STK_E_EXISTS, t->path, -1, "the copy %s%s%s stays: %s", id,
                         s ? " of " : "", s ? s->src.path : "", why);
    stk_tier_set_close(s);
    return rc;
}

static bool is_published(int dir)
{
    return stk_may_exist(dir, STK_TIER_DATA);
}

/* Locks a set that may be removed. Only the path of one that was published is known to anybody. */
static int lock_set(struct stk_tier *t, const char *id, bool for_room, struct locked *l,
                    struct stk_err *err)
{
    char why[STK_TIER_WHY];
    *l = (struct locked){-1, -1};
    if (!stk_tier_is_set(id) || !stk_may_exist(t->fd, id))
        return stk_err_set(err, STK_E_USAGE, t->path, -1, "there is no copy %s in it", id);
    int rc = stk_own_folder_at(t->fd, id, 0, &l->dir, t->path, err);
    if (rc < 0)
        return rc;
    stk_tier_look(t);
    l->ledger = lock_out(l->dir);
    if (l->ledger == -2 && !stk_tier_opened(t, id, true, why))
        snprintf(why, sizeof why, "it is in use; end the processes that use it first");
    if (l->ledger == -2 || (is_published(l->dir) && stk_tier_held(t, l->dir, for_room, why)) ||
        stk_tier_opened(t, id, false, why))
        rc = stays(t, id, why, err);
    if (rc < 0)
        unlock_set(l);
    return rc;
}

bool stk_tier_stays(struct stk_tier *t, const char *id, bool for_room, struct stk_err *err)
{
    struct locked l;
    bool stays = lock_set(t, id, for_room, &l, err) < 0;
    if (!stays)
        unlock_set(&l);
    return stays;
}

/* ---- what is ours in it ---- */

static bool begins(const char *name, const char *with, const char **rest)
{
    size_t n = strlen(with);
    bool so = strncmp(name, with, n) == 0 && (!name[n] || name[n] == '/');
    *rest = so && name[n] ? name + n + 1 : "";
    return so;
}

/* An index of the copy, or one being written: "NAME.stkidx", "NAME.1a2b3c4d.stkidx.partial.5", and
 * "NAME/index.stkidx" (dataset/place.c). */
static bool is_index(const char *set, const char *name)
{
    size_t n = strlen(set);
    return strstr(name, ".stkidx") &&
           ((strncmp(name, set, n) == 0 && name[n] == '.' && !strchr(name + n, '/')) ||
            (begins(name, set, &name) && strncmp(name, "index.stkidx", 12) == 0));
}

/* A list that is damaged names nothing: then all of the copy counts as ours, as it does while a
 * dataset is packed there. */
static bool is_copied(const struct stk_tier_set *s, const char *name)
{
    const char *rest;
    if (!s->src.name || !s->src.count || is_index(s->src.name, name))
        return true;
    return begins(name, s->src.name, &rest) && stk_tier_set_lookup(s, rest, strlen(rest)) >= 0;
}

/* The list goes last: a removal that was killed is completed by it. */
static bool is_ours(void *user, const char *name)
{
    const char *rest;
    if (begins(name, STK_TIER_DATA, &rest) || begins(name, STK_TIER_FILLING, &rest))
        return rest[0] && is_copied(user, rest);
    return strcmp(name, STK_TIER_LEDGER) == 0 || strcmp(name, STK_TIER_LEASE) == 0 ||
           strcmp(name, STK_TIER_LIST) == 0 || begins(name, STK_TIER_JOBS, &rest);
}

static bool is_ours_but_list(void *user, const char *name)
{
    return strcmp(name, STK_TIER_LIST) != 0 && is_ours(user, name);
}

/* What is ours of a list that exists and cannot be read is not known. */
static int read_ours(int dir, struct stk_tier_set *s, struct stk_err *err)
{
    struct stk_err why = {0};
    const char *path = s->tier->path;
    const uint64_t most = UINT64_MAX >> 1;
    int rc = stk_read_file_at(dir, STK_TIER_LIST, O_NOFOLLOW, most, &s->text, path, &why);
    rc = stk_if_there(rc, &why);
    if (rc == STK_E_SYS || rc == STK_E_NOMEM) {
        (void)stk_err_wrap(&why, rc, "its " STK_TIER_LIST);
        return err ? (*err = why).code : rc;
    }
    (void)stk_tier_list_parse(s->text.data, s->text.len, &s->src, path, NULL);
    return 0;
}

static void release_ours(struct stk_tier_set *s)
{
    free(s->src.file);
    stk_buf_release(&s->text);
}

/* Empties the folder of a set. *left: what stays; names begin with `name`. */
static int empty_set(struct stk_tier_set *s, int dir, const char *name, struct stk_left *left,
                     struct stk_err *err)
{
    struct stk_left here = {0}, none = {0};
    const char *path = s->tier->path;
    int rc = stk_remove_ours(dir, is_ours_but_list, s, &none, path, err);
    rc = rc ? rc : stk_remove_ours(dir, is_ours, s, &here, path, err);
    if (rc == 0 && here.n && !left->n)
        snprintf(left->first, sizeof left->first, "%s/%.3000s", name, here.first);
    left->n += here.n;
    return rc;
}

static bool is_same(int dirfd, const char *name, int fd)
{
    struct stat a, b;
    return fstatat(dirfd, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
           a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* Renamed first, so that no process joins it meanwhile; what is not ours gets its path back. */
static int remove_set(struct stk_tier *t, struct stk_tier_set *s, const char *id, int dir,
                      struct stk_left *left, struct stk_err *err)
{
    char gone[STK_TIER_ID + 48];
    struct timespec now;
    struct stk_left here = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(gone, sizeof gone, "%.25s" PARTIAL "%ld-%ld", id, (long)getpid(), now.tv_nsec);
    if (stk_rename_at(t->fd, id, t->fd, gone) < 0)
        return stk_err_sys(err, t->path, "remove the copy %s", id);
    if (!is_same(t->fd, gone, dir)) {
        (void)stk_rename_at(t->fd, gone, t->fd, id);
        return stk_err_set(err, STK_E_STALE, t->path, -1, "another folder is %s now: run again", id);
    }
    int rc = empty_set(s, dir, id, &here, err);
    if (rc == 0 && !here.n && stk_rmdir_at(t->fd, gone) < 0 && errno != ENOENT)
        rc = stk_err_sys(err, t->path, "remove the folder %s", gone);
    if (rc == 0 && here.n && stk_rename_new_at(t->fd, gone, id) < 0)
        snprintf(here.first, 48 + STK_TIER_ID, "%s", gone); /* the copy was made again */
    if (!left->n)
        memcpy(left->first, here.first, sizeof left->first);
    left->n += here.n;
    return rc;
}

int stk_tier_evict(struct stk_tier *t, const char *id, bool for_room, struct stk_left *left,
                   struct stk_err *err)
{
    struct locked l;
    struct stk_left none = {0};
    struct stk_tier_set s = {.tier = t};
    int rc = lock_set(t, id, for_room, &l, err);
    if (rc < 0)
        return rc;
    rc = read_ours(l.dir, &s, err);
    rc = rc ? rc : remove_set(t, &s, id, l.dir, left ? left : &none, err);
    release_ours(&s);
    unlock_set(&l);
    return rc;
}

/* ---- what killed processes have left ---- */

struct leftovers {
    struct stk_tier *t;
    int64_t before; /* seconds since 1970: older ones are not being made any more */
    struct stk_left *left;
};

static bool is_nothing(void *user, const char *name)
{
    (void)user;
    (void)name;
    return false;
}

int stk_tier_remove_rest(struct stk_tier *t, const char *id, int dir, struct stk_left *left,
                         struct stk_err *err)
{
    struct stk_left here = {0};
    int rc = stk_remove_ours(dir, is_nothing, NULL, &here, t->path, err);
    *left = (struct stk_left){.n = here.n};
    if (here.n)
        snprintf(left->first, sizeof left->first, "%s/%.3000s", id, here.first);
    else
        (void)stk_rmdir_at(t->fd, id);
    return rc;
}

static int remove_leftover(void *user, const char *name)
{
    const struct leftovers *o = user;
    struct stk_tier *t = o->t;
    struct stk_tier_set s = {.tier = t};
    struct stat st;
    char why[STK_TIER_WHY];
    int dir = -1;
    if (!is_leftover(name) || stk_own_folder_at(t->fd, name, 0, &dir, t->path, NULL) < 0)
        return 0;
    bool old = fstat(dir, &st) == 0 && st.st_mtim.tv_sec < o->before;
    if (old)
        stk_tier_look(t);
    int ledger = old ? lock_out(dir) : -2;
    if (ledger != -2 && !stk_tier_opened(t, name, false, why) && read_ours(dir, &s, NULL) == 0 &&
        empty_set(&s, dir, name, o->left, NULL) == 0)
        (void)stk_rmdir_at(t->fd, name);
    release_ours(&s);
    if (ledger >= 0)
        close(ledger);
    close(dir);
    return 0;
}

void stk_tier_remove_leftovers(struct stk_tier *t, int64_t age_s, struct stk_left *left)
{
    struct stk_left none = {0};
    struct leftovers o = {t, (int64_t)time(NULL) - age_s, left ? left : &none};
    (void)stk_tier_each_name(t, remove_leftover, &o, NULL);
}

struct clearing {
    const char *const *name;
    size_t n;
};

static bool is_of_tier(void *user, const char *name)
{
    const struct clearing *c = user;
    bool ours = strcmp(name, STK_TIER_JSON) == 0 || strncmp(name, STK_TIER_JSON ".partial.",
                                                            sizeof STK_TIER_JSON ".partial") == 0;
    for (size_t i = 0; !ours && i < c->n; i++) {
        size_t n = strlen(c->name[i]);
        ours = strncmp(name, c->name[i], n) == 0 && strcmp(name + n, ".log") == 0;
    }
    return ours;
}

int stk_tier_clear(struct stk_tier *t, const char *const *name, size_t n, struct stk_left *left,
                   struct stk_err *err)
{
    struct clearing c = {name, n};
    stk_tier_remove_leftovers(t, 0, NULL);
    return stk_remove_ours(t->fd, is_of_tier, &c, left, t->path, err);
}
