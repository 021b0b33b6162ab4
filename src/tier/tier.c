/*
 * tier.c - a tier: a folder of ours that holds sets. Nothing is used that others could have
 * written, and nothing without working locks.
 */
#include "tier/priv.h"

#include "base/dir.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_fields.h"
#include "host/root.h"
#include "host/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VERSION   1
#define JSON_MAX  (64u << 10)
#define NAMES_MAX 64u /* looked at to tell an empty folder from another */

static uint64_t boot_now(void)
{
    char id[64];
    stk_host_line("/proc/sys/kernel/random/boot_id", id, sizeof id);
    return stk_hash64(id, strlen(id));
}

/* ---- tier.json ---- */

struct settings {
    uint64_t version, limit_bytes, age_s;
};
static const struct stk_jfield settings_fields[] = {
    {STK_JFIELD(UNSIGNED, "version", struct settings, version)},
    {STK_JFIELD(UNSIGNED, "limit_bytes", struct settings, limit_bytes)},
    {STK_JFIELD(UNSIGNED, "age_s", struct settings, age_s)},
    {0},
};

static int write_settings(const struct stk_tier *t, struct stk_err *err)
{
    const struct settings s = {VERSION, t->limit_bytes, t->age_s};
    struct stk_buf text = STK_BUF_INIT;
    stk_jfields_text(settings_fields, &s, true, &text);
    int rc = stk_buf_check(&text, err);
    if (rc == 0)
        rc =
            stk_write_file_at(t->fd, STK_TIER_JSON, text.data, text.len, STK_PRIVATE, t->path, err);
    stk_buf_release(&text);
    return rc;
}

static int take_settings(struct stk_tier *t, struct stk_buf *text, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct settings s = {0};
    int rc = stk_jfields_parse(settings_fields, stk_buf_cstr(text), text->len, t->path, &arena, &s,
                               err);
    if (rc == 0 && s.version != VERSION)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, t->path, -1,
                         "a tier of another version of stoker; choose another folder");
    if (rc == 0) {
        t->limit_bytes = t->limit_bytes ? t->limit_bytes : s.limit_bytes;
        t->age_s = t->age_s ? t->age_s : s.age_s;
    }
    stk_arena_release(&arena);
    return rc;
}

/* 1: there are none. */
static int read_settings(struct stk_tier *t, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_err why = {0};
    int rc = stk_read_file_at(t->fd, STK_TIER_JSON, O_NOFOLLOW, JSON_MAX, &text, t->path, &why);
    if (stk_if_there(rc, &why) == 0)
        rc = 1;
    else if (rc < 0)
        (void)stk_err_wrap(&why, rc, "its " STK_TIER_JSON);
    else
        rc = take_settings(t, &text, &why);
    stk_buf_release(&text);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* ---- opening ---- */

static int check_private(const struct stk_tier *t, struct stk_err *err)
{
    struct stat st;
    if (fstat(t->fd, &st) < 0)
        return stk_err_sys(err, t->path, "stat");
    if (st.st_uid != geteuid() || !(st.st_mode & 077))
        return 0; /* the first: stk_own_folder() has seen that the file system has no owners */
    return stk_err_set(err, STK_E_EXISTS, t->path, -1,
                       "others may enter it (mode %04o): copies would be open to them; run chmod "
                       "700 on it, or choose another folder",
                       (unsigned)(st.st_mode & 07777));
}

/* Opens a file twice. Some file systems do not open one that has no name any more (ESTALE). */
static int open_twice(const struct stk_tier *t, int *a, int *b)
{
    char at[STK_FD_PATH], name[64];
    *a = stk_create_nameless(stk_fd_path(t->fd, NULL, at));
    *b = *a < 0 ? -1 : open(stk_fd_path(*a, NULL, at), O_RDWR | O_CLOEXEC);
    if (*b >= 0 || errno != ESTALE)
        return *b < 0 ? -1 : 0;
    close(*a);
    snprintf(name, sizeof name, STK_TIER_JSON ".partial.%ld", (long)getpid());
    *a = stk_create_at(t->fd, name, 0600);
    *b = *a < 0 ? -1 : openat(t->fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (*a >= 0)
        (void)stk_unlink_at(t->fd, name, t->path, NULL);
    return *b < 0 ? -1 : 0;
}

/* Some file systems accept locks that exclude nobody. */
static int check_locks(const struct stk_tier *t, struct stk_err *err)
{
    int a = -1, b = -1;
    int rc = open_twice(t, &a, &b) < 0 ? stk_err_sys(err, t->path, "create a file in it") : 0;
    if (rc == 0 && (stk_tier_lock(a, F_WRLCK, 0, 1) < 0 || stk_tier_lock(b, F_WRLCK, 0, 1) == 0))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, t->path, -1,
                         "its file system (%s) has no locks between processes; choose a folder on "
                         "a local disk",
                         t->fs->name);
    if (a >= 0)
        close(a);
    if (b >= 0)
        close(b);
    return rc;
}

static int begin_filling(struct stk_tier *t, struct stk_err *err)
{
    t->account = openat(t->fd, STK_TIER_JSON, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (t->account < 0)
        return stk_err_sys(err, t->path, "open its " STK_TIER_JSON);
    stk_tier_sweep(t);
    return 0;
}

/* The path as it is now: callers print paths of copies, and may change their folder. */
static void take_real_path(struct stk_tier *t)
{
    char *real = realpath(t->path, NULL);
    if (real) {
        free(t->path);
        t->path = real;
    }
}

static int open_folder(struct stk_tier *t, int dirfd, const char *name, struct stk_err *err)
{
    unsigned flags = t->make ? STK_OWN_MAKE | STK_OWN_PRIVATE : 0;
    int rc = name ? stk_own_folder_at(dirfd, name, flags, &t->fd, t->path, err)
                  : stk_own_folder(t->path, flags, &t->fd, err);
    if (rc == 0)
        rc = check_private(t, err);
    if (rc < 0)
        return rc;
    if (!name)
        take_real_path(t);
    t->fs = stk_fs_of_fd(t->fd);
    rc = t->make ? check_locks(t, err) : 0;
    if (rc == 0)
        rc = read_settings(t, err);
    if (rc == 1)
        rc = t->make ? write_settings(t, err) : 0;
    return rc == 0 && t->make ? begin_filling(t, err) : rc;
}

/* ---- which folder ---- */

/* True for an empty folder, and for a tier that another process is making now. */
static bool is_empty(const char *path)
{
    struct stk_dir d;
    bool others = false, settings = false;
    unsigned n = 0;
    int rc = stk_dir_open(&d, path, NULL);
    for (const struct dirent *e; n++ < NAMES_MAX && (e = stk_dir_next(&d));) {
        bool being_made = strncmp(e->d_name, STK_TIER_JSON ".", sizeof STK_TIER_JSON) == 0;
        settings = settings || strcmp(e->d_name, STK_TIER_JSON) == 0;
        others = others || !being_made;
    }
    return stk_dir_end(&d, rc, NULL) == 0 && (settings || !others);
}

/* Those that another user has put into a folder of ours, or of root, say nothing. */
static bool has_settings(const char *path, uid_t owner)
{
    char *mark = stk_path_join(path, STK_TIER_JSON);
    struct stat st;
    bool has = mark && stk_may_exist(AT_FDCWD, mark);
    if (has && lstat(mark, &st) == 0)
        has = st.st_uid == geteuid() || st.st_uid == owner;
    free(mark);
    return has;
}

char *stk_tier_at(const char *path)
{
    struct stat st;
    char *in = NULL;
    if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) || has_settings(path, st.st_uid) ||
        (st.st_uid == geteuid() && !(st.st_mode & 077) && is_empty(path)))
        return strdup(path);
    int rc = asprintf(&in, "%s/stoker-%u", path, (unsigned)geteuid());
    return rc < 0 ? NULL : stk_scratch_not_taken(in);
}

/* ---- opening and closing ---- */

int stk_tier_open_at(int dirfd, const char *name, const char *path,
                     const struct stk_tier_options *o, struct stk_tier **out, struct stk_err *err)
{
    struct stk_tier *t = calloc(1, sizeof *t);
    char *copy = strdup(path);
    if (!t || !copy) {
        free(t);
        free(copy);
        return stk_err_nomem(err, sizeof *t);
    }
    *t = (struct stk_tier){.path = copy,
                           .fd = -1,
                           .account = -1,
                           .first = -1,
                           .make = o->make,
                           .limit_bytes = o->limit_bytes,
                           .age_s = o->age_s,
                           .hold = o->hold,
                           .keep_s = o->keep_s,
                           .job_over = o->job_over,
                           .removed = o->removed,
                           .user = o->user,
                           .boot = boot_now()};
    t->opened = o->opened ? o->opened : &t->own;
    pthread_mutex_init(&t->lock, NULL);
    pthread_mutex_init(&t->looking, NULL);
    int rc = open_folder(t, dirfd, name, err);
    if (rc < 0) {
        stk_tier_close(t);
        return rc;
    }
    *out = t;
    return 0;
}

int stk_tier_open(const char *path, const struct stk_tier_options *o, struct stk_tier **out,
                  struct stk_err *err)
{
    return stk_tier_open_at(-1, NULL, path, o, out, err);
}

void stk_tier_close(struct stk_tier *t)
{
    if (!t)
        return;
    stk_tier_went_first(t);
    if (t->fd >= 0)
        close(t->fd);
    if (t->account >= 0)
        close(t->account);
    pthread_mutex_destroy(&t->lock);
    pthread_mutex_destroy(&t->looking);
    stk_opened_release(&t->own);
    free(t->path);
    free(t);
}

/* ---- who goes first ---- */

void stk_tier_go_first(struct stk_tier *t)
{
    t->first = openat(t->fd, STK_TIER_JSON, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (t->first >= 0)
        (void)stk_tier_lock(t->first, F_RDLCK, STK_LOCK_FIRST, 1);
}

/* Unlocked by name: a child that was forked has the descriptor, too. */
void stk_tier_went_first(struct stk_tier *t)
{
    if (t->first < 0)
        return;
    (void)stk_tier_lock(t->first, F_UNLCK, STK_LOCK_FIRST, 1);
    close(t->first);
    t->first = -1;
}

bool stk_tier_others_first(const struct stk_tier_set *s)
{
    return s->tier->account >= 0 && stk_tier_locked(s->tier->account, STK_LOCK_FIRST);
}

/* ---- properties ---- */

const char *stk_tier_path(const struct stk_tier *t)
{
    return t->path;
}

bool stk_tier_is_made(const struct stk_tier *t)
{
    return stk_may_exist(t->fd, STK_TIER_JSON);
}

uint64_t stk_tier_limit_bytes(const struct stk_tier *t)
{
    return t->limit_bytes;
}

uint64_t stk_tier_age_s(const struct stk_tier *t)
{
    return t->age_s;
}

bool stk_tier_in_memory(const struct stk_tier *t)
{
    return t->fs->memory;
}
