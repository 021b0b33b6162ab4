/* folder.c - see folder.h. */
#include "record/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "dataset/trust.h"

#define SHARED_FILE 0644 /* minus the umask */
#define COPY_MAX    ((size_t)1 << 30)
#define OTHERS_READ (S_IRGRP | S_IROTH)

void stk_folder_release(struct stk_folder *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    *f = STK_FOLDER_INIT;
}

/* ---- taking one --------------------------------------------------------------------------- */

/* The descriptor's current path, wherever the name given by the caller leads by now. */
static int name_it(struct stk_folder *f, const char *path, struct stk_err *err)
{
    char at[STK_FD_PATH], real[PATH_MAX];
    ssize_t n = readlink(stk_fd_path(f->fd, NULL, at), real, sizeof real - 1);
    f->path = n > 0 && real[0] == '/' ? strndup(real, (size_t)n) : realpath(path, NULL);
    return f->path ? 0 : stk_err_sys(err, path, "find");
}

static int make_parents(const char *path, struct stk_err *err)
{
    const char *base = stk_base_name(path);
    char *dir = base - path > 1 ? strndup(path, (size_t)(base - path - 1)) : NULL;
    int rc = dir && *dir ? stk_mkdirs(dir, err) : 0;
    free(dir);
    return rc;
}

/* Where the umask lets a group write (002), `mkdir DIR` does too: the folder is still empty, and
 * from now on others cannot add to it. */
static void close_to_others(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        (st.st_mode & (S_IWGRP | S_IWOTH)) && stk_dir_is_empty(fd, path, NULL) == 1)
        (void)fchmod(fd, st.st_mode & 07755);
    if (fd >= 0)
        close(fd);
}

static mode_t less_umask(mode_t mode)
{
    mode_t mask = umask(077);
    umask(mask);
    return mode & ~mask;
}

static int take(struct stk_folder *f, const char *path, bool *made, struct stk_err *err)
{
    struct stk_err why = {0};
    const unsigned make = STK_OWN_MAKE | STK_OWN_PRIVATE;
    int rc = make_parents(path, err);
    if (rc)
        return rc;
    rc = stk_own_folder(path, make | STK_OWN_NEW, &f->fd, &why);
    *made = rc == 0;
    if (rc == STK_E_SYS && why.sys_errno == EEXIST) {
        close_to_others(path);
        return stk_own_folder(path, make, &f->fd, err);
    }
    if (rc && err)
        *err = why;
    return rc;
}

int stk_folder_take(struct stk_folder *f, const char *path, bool share, bool *made,
                    struct stk_err *err)
{
    char *at = NULL;
    *f = STK_FOLDER_INIT;
    *made = false;
    int rc = stk_own_resolve(path, &at, err);
    rc = rc ? rc : take(f, at, made, err);
    if (!rc && share) {
        f->mode = SHARED_FILE;
        if (*made && fchmod(f->fd, less_umask(0755)) != 0)
            rc = stk_err_sys(err, path, "share");
    }
    rc = rc ? rc : name_it(f, at, err);
    free(at);
    if (rc)
        stk_folder_release(f);
    return rc;
}

/* Whether its commands may be run: it belongs to the caller, root or a trusted user, and nobody
 * else may write it. what: "it", or a file name. */
static int check_owner(const struct stat *st, const char *trust, const char *what, const char *path,
                       struct stk_err *err)
{
    struct stk_trust t;
    struct stat closed = *st; /* as if nobody else could write it */
    char who[64], as[64];
    closed.st_mode &= (mode_t) ~(S_IWGRP | S_IWOTH);
    int rc = stk_trust_init(&t, trust, err);
    bool good = !rc && stk_trust_check(&t, st, path, NULL) == 0;
    bool foreign = !rc && stk_trust_check(&t, &closed, path, NULL) != 0;
    stk_trust_release(&t);
    if (rc || good)
        return rc;
    if (foreign)
        return stk_err_set(err, STK_E_EXISTS, path, -1,
                           "%s belongs to %s; use --trust %s to accept it", what,
                           stk_user_name(st->st_uid, who), stk_user_word(st->st_uid, as));
    return stk_err_set(err, STK_E_EXISTS, path, -1,
                       "others can write %s (mode %04o) and may have changed it: if it is as you "
                       "left it, run chmod go-w on it, or use --trust all to accept it as it is",
                       what, (unsigned)(st->st_mode & 07777));
}

int stk_folder_check(const struct stk_folder *f, const char *name, const char *trust,
                     struct stk_err *err)
{
    struct stat st;
    int there = stk_find_at(f->fd, name, &st, f->path, err);
    if (there < 1)
        return there;
    if (S_ISLNK(st.st_mode))
        return stk_err_set(err, STK_E_EXISTS, f->path, -1, "%s is a link", name);
    return check_owner(&st, trust, name, f->path, err);
}

/* Sets trusted. An owner that a file system reports for every file (NFS for root) proves
 * nothing. */
static int check_found(struct stk_folder *f, const char *path, const char *trust,
                       struct stk_err *err)
{
    struct stat st;
    if (fstat(f->fd, &st) != 0)
        return stk_err_sys(err, path, "stat");
    f->trusted = st.st_uid != geteuid();
    int rc = check_owner(&st, trust, "it", path, err);
    if (rc == STK_E_EXISTS && stk_own_check(f->fd, path, NULL) == 0)
        rc = 0;
    return rc;
}

/* Opens it. Follows links of the caller and of root; links of others only with "all". */
static int open_found(struct stk_folder *f, const char *path, const char *trust,
                      struct stk_err *err)
{
    char *at = NULL;
    bool all = trust && strcmp(trust, "all") == 0;
    int rc = all ? 0 : stk_own_resolve(path, &at, err);
    if (!rc && (f->fd = open(at ? at : path,
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC | (all ? 0 : O_NOFOLLOW))) < 0)
        rc = stk_err_sys(err, path, "open");
    free(at);
    return rc ? rc : check_found(f, path, trust, err);
}

int stk_folder_find(struct stk_folder *f, const char *path, const char *like, const char *trust,
                    struct stk_err *err)
{
    struct stat st;
    *f = STK_FOLDER_INIT;
    int rc = open_found(f, path, trust, err);
    rc = rc ? rc : name_it(f, path, err);
    if (!rc && fstatat(f->fd, like, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & OTHERS_READ))
        f->mode = SHARED_FILE;
    if (rc)
        stk_folder_release(f);
    return rc;
}

int stk_folder_temp(struct stk_folder *f, const char *dir, const char *prefix, struct stk_err *err)
{
    *f = STK_FOLDER_INIT;
    int rc = stk_mkdirs(dir, err);
    char *real = rc ? NULL : realpath(dir, NULL);
    if (!rc && !real)
        rc = stk_err_sys(err, dir, "find");
    rc = rc ? rc : stk_own_temp_folder(real, prefix, &f->path, &f->fd, err);
    free(real);
    return rc;
}

/* Where the file system has no locks, nobody is kept out. */
int stk_folder_lock(const struct stk_folder *f, struct stk_err *err)
{
    if (stk_lock_alone(f->fd))
        return 0;
    return stk_err_set(err, STK_E_USAGE, f->path, -1,
                       "another stoker is working in this folder: wait until it has ended, or end "
                       "it");
}

/* ---- files in it -------------------------------------------------------------------------- */

char *stk_folder_path(const struct stk_folder *f, const char *name)
{
    return stk_path_join(f->path, name);
}

/* The folder that holds a file: the folder itself, or one below it. */
struct spot {
    int fd;
    bool below;       /* fd must be closed */
    const char *name; /* in it */
    char *path;
};

static void leave(struct spot *s)
{
    if (s->below && s->fd >= 0)
        close(s->fd);
    free(s->path);
}

int stk_folder_below(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err)
{
    char *path = stk_folder_path(f, name);
    int rc = path ? stk_own_folder_at(f->fd, name, STK_OWN_MAKE | STK_OWN_PRIVATE, fd, path, err)
                  : stk_err_nomem(err, strlen(name));
    if (rc == STK_E_EXISTS && f->trusted) {
        *fd = openat(f->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rc = *fd < 0 ? rc : 0;
    } else if (!rc && (f->mode & OTHERS_READ)) {
        (void)fchmod(*fd, less_umask(0755));
    }
    free(path);
    return rc;
}

/* writes: creates the folder if it is missing. */
static int go_to(const struct stk_folder *f, const char *name, bool writes, struct spot *s,
                 struct stk_err *err)
{
    const char *base = stk_base_name(name);
    *s = (struct spot){.fd = f->fd, .below = base > name, .name = base};
    s->path = stk_folder_path(f, name);
    char *dir = s->below ? strndup(name, (size_t)(base - name - 1)) : NULL;
    int rc = s->path && (dir || !s->below) ? 0 : stk_err_nomem(err, strlen(name));
    if (!rc && s->below && writes)
        rc = stk_folder_below(f, dir, &s->fd, err);
    else if (!rc && s->below &&
             (s->fd = openat(f->fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        rc = stk_err_sys(err, s->path, "open");
    free(dir);
    if (rc)
        leave(s);
    return rc;
}

int stk_folder_write(const struct stk_folder *f, const char *name, const void *p, size_t n,
                     struct stk_err *err)
{
    struct spot s;
    int rc = go_to(f, name, true, &s, err);
    if (rc)
        return rc;
    rc = stk_write_file_at(s.fd, s.name, p, n, f->mode, s.path, err);
    leave(&s);
    return rc;
}

int stk_folder_read(const struct stk_folder *f, const char *name, size_t max, struct stk_buf *b,
                    struct stk_err *err)
{
    struct spot s;
    struct stat st;
    int fd = -1, rc = go_to(f, name, false, &s, err);
    size_t got = 0;
    if (rc)
        return rc;
    stk_buf_reset(b);
    rc = stk_read_open(s.fd, s.name, O_NOFOLLOW, &fd, &st, s.path, err);
    if (!rc && (uint64_t)st.st_size > max)
        rc = stk_err_set(err, STK_E_CORRUPT, s.path, -1, "%lld bytes are more than expected here",
                         (long long)st.st_size);
    if (!rc && !stk_buf_room(b, (size_t)st.st_size + 1))
        rc = stk_err_nomem(err, (uint64_t)st.st_size);
    rc = rc ? rc : stk_pread_full(fd, b->data, (size_t)st.st_size, 0, &got, s.path, err);
    b->len = rc ? 0 : got;
    if (fd >= 0)
        close(fd);
    leave(&s);
    return rc;
}

int stk_folder_write_fields(const struct stk_folder *f, const char *name,
                            const struct stk_jfield *table, const void *from, bool pretty,
                            struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_jfields_text(table, from, pretty, &b);
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(f, name, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

int stk_folder_read_fields(const struct stk_folder *f, const char *name, size_t max,
                           const struct stk_jfield *table, struct stk_arena *arena, void *to,
                           struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    char *path = stk_folder_path(f, name);
    int rc = path ? stk_folder_read(f, name, max, &b, err) : stk_err_nomem(err, strlen(name));
    rc = rc ? rc : stk_jfields_parse(table, stk_buf_cstr(&b), b.len, path, arena, to, err);
    stk_buf_release(&b);
    free(path);
    return rc;
}

bool stk_folder_has(const struct stk_folder *f, const char *name)
{
    struct stk_err why = {0};
    struct spot s;
    if (stk_if_there(go_to(f, name, false, &s, &why), &why) != 1)
        return why.code != 0;
    bool there = stk_may_exist(s.fd, s.name);
    leave(&s);
    return there;
}

static int make_ours(const struct stk_folder *f, const char *name, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = stk_folder_read(f, name, COPY_MAX, &b, err);
    rc = rc ? rc : stk_folder_write(f, name, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

int stk_folder_append(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err)
{
    struct spot s;
    *fd = -1;
    int rc = go_to(f, name, true, &s, err);
    if (rc)
        return rc;
    rc = stk_open_append(s.fd, s.name, f->mode, fd, s.path, err);
    if (f->trusted && (rc == STK_E_EXISTS || rc == STK_E_SYS)) { /* EACCES: it is read-only */
        rc = make_ours(f, name, err);
        rc = rc ? rc : stk_open_append(s.fd, s.name, f->mode, fd, s.path, err);
    }
    leave(&s);
    return rc;
}

int stk_folder_fresh(const struct stk_folder *f, const char *name, int *fd, struct stk_err *err)
{
    struct spot s;
    *fd = -1;
    int rc = go_to(f, name, true, &s, err);
    if (rc)
        return rc;
    rc = stk_open_fresh(s.fd, s.name, f->mode, fd, s.path, err);
    leave(&s);
    return rc;
}

int stk_folder_remove(const struct stk_folder *f, const char *name, struct stk_err *err)
{
    char *path = stk_folder_path(f, name);
    int rc = path ? stk_unlink_at(f->fd, name, path, err) : stk_err_nomem(err, strlen(name));
    free(path);
    return rc;
}

void stk_folder_destroy_ours(const struct stk_folder *f, const char *last,
                             bool (*ours)(void *user, const char *name), void *user,
                             struct stk_left *left)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, f->fd, f->path, NULL);
    for (const struct dirent *e; (e = stk_dir_next(&d));) {
        if (strcmp(e->d_name, last) == 0)
            continue;
        if (!ours || ours(user, e->d_name))
            (void)stk_remove_at(f->fd, e->d_name, f->path, NULL);
        else if (!left->n++)
            snprintf(left->first, sizeof left->first, "%s/%s", f->path, e->d_name);
    }
    rc = stk_dir_end(&d, rc, NULL);
    if (*last && !rc) /* what is left can still be found by it */
        (void)stk_remove_at(f->fd, last, f->path, NULL);
    (void)stk_rmdir_at(AT_FDCWD, f->path); /* removes only an empty one */
}

void stk_folder_destroy(const struct stk_folder *f)
{
    stk_folder_destroy_ours(f, "", NULL, NULL, NULL);
}

/* ---- whose files may be read -------------------------------------------------------------- */

/* The folder that contains a path; if it cannot be examined, it belongs to nobody. */
static void look_above(const char *real, struct stat *st)
{
    size_t n = (size_t)(stk_base_name(real) - real);
    char *dir = strndup(real, n > 1 ? n - 1 : 1);
    if (!dir || stat(dir, st) != 0)
        *st = (struct stat){.st_uid = (uid_t)-1};
    free(dir);
}

static int believe_files(const struct stk_trust *t, int fd, const char *path,
                         bool (*counts)(const char *name), struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, fd, path, err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        struct stat st;
        if (!counts(e->d_name) || !stk_dir_stat(&d, e, AT_SYMLINK_NOFOLLOW, &st))
            continue;
        char *name = stk_path_join(path, e->d_name);
        rc = stk_trust_check(t, &st, name ? name : path, err);
        free(name);
    }
    return stk_dir_end(&d, rc, err);
}

static int believe(struct stk_trust *t, const char *real, const struct stat *st, const char *path,
                   bool (*counts)(const char *name), struct stk_err *err)
{
    look_above(real, &t->data);
    int rc = stk_trust_check(t, st, path, err);
    if (rc || !S_ISDIR(st->st_mode))
        return rc;
    int fd = open(real, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0; /* the reader reports what is wrong */
    t->data = *st;
    rc = believe_files(t, fd, path, counts, err);
    close(fd);
    return rc;
}

int stk_folder_believe(const char *path, bool (*counts)(const char *name), const char *trust,
                       struct stk_err *err)
{
    struct stk_trust t;
    struct stat st;
    char real[PATH_MAX];
    int rc = stk_trust_init(&t, trust, err);
    if (!rc && realpath(path, real) && stat(real, &st) == 0)
        rc = believe(&t, real, &st, path, counts, err);
    stk_trust_release(&t);
    return rc;
}
