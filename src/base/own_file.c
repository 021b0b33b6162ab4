/*
 * own_file.c - files that we create: exclusively, without following links, under an unguessable
 * name, and renamed into place.
 */
#include "base/own.h"
#include "base/dir.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_TRIES 100 /* 10 ms apart */
#define TRIES     16 /* if all these names are taken, someone is interfering */
#define PARTIAL   ".partial."

int stk_create_at(int dirfd, const char *name, mode_t mode)
{
    return openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

int stk_create_nameless_at(int dirfd, const char *name, mode_t mode)
{
    char tmp[STK_RANDOM_NAME];
    int fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd;
    stk_random_name(tmp, name, PARTIAL); /* NFS and others lack O_TMPFILE */
    fd = stk_create_at(dirfd, tmp, mode);
    if (fd >= 0)
        (void)unlinkat(dirfd, tmp, 0);
    return fd;
}

int stk_create_nameless(const char *dir)
{
    int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = dirfd < 0 ? -1 : stk_create_nameless_at(dirfd, ".stoker", 0600);
    if (dirfd >= 0)
        close(dirfd);
    return fd;
}

/* ---- files of killed processes --------------------------------------------------------------- */

#define DIGITS    16   /* of a random name */
#define SWEEP_MAX 4096 /* names that are looked at: not worth more time */

/* Makes the lock that keeps it. False: it was taken for abandoned in the moment before. */
static bool keep(int fd)
{
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return false;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* Where there are no locks, nothing is known to be abandoned. Other users remove their own. */
static bool remove_abandoned(int dirfd, const char *name)
{
    int fd;
    struct stat st;
    if (stk_read_open(dirfd, name, O_NOFOLLOW, &fd, &st, name, NULL) < 0)
        return false;
    bool gone = st.st_uid == geteuid() && st.st_nlink == 1 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
                unlinkat(dirfd, name, 0) == 0;
    close(fd);
    return gone;
}

unsigned stk_new_sweep(int dirfd, const char *name)
{
    char prefix[STK_RANDOM_NAME];
    struct stk_dir d;
    unsigned gone = 0;
    stk_random_name(prefix, name, PARTIAL);
    size_t n = strlen(prefix) - DIGITS;
    int rc = stk_dir_open_fd(&d, dirfd, name, NULL), seen = 0;
    for (const struct dirent *e; seen < SWEEP_MAX && (e = stk_dir_next(&d)); seen++)
        if (strlen(e->d_name) == n + DIGITS && strncmp(e->d_name, prefix, n) == 0 &&
            strspn(e->d_name + n, "0123456789abcdef") == DIGITS)
            gone += remove_abandoned(dirfd, e->d_name);
    (void)stk_dir_end(&d, rc, NULL); /* the next one tries again */
    return gone;
}

/* ---- whole or not at all -------------------------------------------------------------------- */

static void release(struct stk_new *f)
{
    if (f->fd >= 0)
        close(f->fd);
    if (f->dirfd >= 0)
        close(f->dirfd);
    free(f->tmp);
    free(f->name);
    free(f->path);
    *f = STK_NEW_INIT;
}

void stk_new_abort(struct stk_new *f)
{
    if (f->dirfd >= 0 && f->tmp)
        (void)unlinkat(f->dirfd, f->tmp, 0);
    release(f);
}

/* f has dirfd, which is its own. */
static int begin(struct stk_new *f, const char *name, mode_t mode, const char *path,
                 struct stk_err *err)
{
    char tmp[STK_RANDOM_NAME];
    f->name = strdup(name);
    f->path = strdup(path);
    int rc = f->name && f->path ? 0 : stk_err_nomem(err, strlen(path));
    for (int i = 0; rc == 0 && i < TRIES && f->fd < 0; i++) {
        stk_random_name(tmp, name, PARTIAL);
        f->fd = stk_create_at(f->dirfd, tmp, mode);
        if (f->fd < 0 && errno != EEXIST)
            break;
        if (f->fd >= 0 && !keep(f->fd)) {
            (void)unlinkat(f->dirfd, tmp, 0);
            close(f->fd);
            f->fd = -1;
        }
    }
    if (rc == 0 && f->fd < 0)
        rc = stk_err_sys(err, path, "create");
    if (rc == 0 && !(f->tmp = strdup(tmp))) {
        (void)unlinkat(f->dirfd, tmp, 0);
        rc = stk_err_nomem(err, sizeof tmp);
    }
    if (rc < 0)
        release(f);
    else
        (void)stk_new_sweep(f->dirfd, name);
    return rc;
}

int stk_new_begin_at(struct stk_new *f, int dirfd, const char *name, mode_t mode, const char *path,
                     struct stk_err *err)
{
    *f = STK_NEW_INIT;
    f->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 0);
    return f->dirfd < 0 ? stk_err_sys(err, path, "open its folder")
                        : begin(f, name, mode, path, err);
}

int stk_new_begin(struct stk_new *f, const char *path, mode_t mode, struct stk_err *err)
{
    const char *name;
    *f = STK_NEW_INIT;
    int rc = stk_open_parent(path, &f->dirfd, &name, err);
    if (rc == 0 && (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) {
        release(f);
        errno = EISDIR;
        return stk_err_sys(err, path, "create");
    }
    return rc < 0 ? rc : begin(f, name, mode, path, err);
}

int stk_new_commit(struct stk_new *f, struct stk_err *err)
{
    int rc = 0;
    bool direct = !f->tmp; /* a pipe has nothing to sync */
    if (!direct && fsync(f->fd) < 0)
        rc = stk_err_sys(err, f->path, "fsync");
    /* With the lock, which another descriptor of it keeps: a sweep would take it for abandoned. */
    int fd = f->fd, lock = direct ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    f->fd = -1;
    if (close(fd) < 0 && rc == 0)
        rc = stk_err_sys(err, f->path, "close");
    if (rc == 0 && !direct && renameat(f->dirfd, f->tmp, f->dirfd, f->name) < 0)
        rc = stk_err_sys(err, f->path, "rename into place");
    if (lock >= 0)
        close(lock);
    if (rc < 0) {
        stk_new_abort(f);
        return rc;
    }
    if (!direct)
        rc = stk_fsync_dir(f->dirfd, f->path, err);
    release(f);
    return rc;
}

/* ---- output files named by the user ---------------------------------------------------------- */

/* In /dev and /proc, names denote devices and descriptors: /dev/stdout is not a file, whatever it
 * leads to. */
static bool is_special_folder(const char *path)
{
    size_t n = (size_t)(stk_base_name(path) - path);
    char *dir = n ? strndup(path, n) : strdup("."), *real = dir ? realpath(dir, NULL) : NULL;
    bool special = real && (strcmp(real, "/dev") == 0 || strcmp(real, "/proc") == 0 ||
                            strncmp(real, "/proc/", 6) == 0);
    free(dir);
    free(real);
    return special;
}

static bool is_device(const struct stat *st)
{
    return !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode);
}

/* Opens the pipe or device at path, or -1. Follows a link if the user or root made it; another
 * user's pipe is refused. */
static int open_device(int dirfd, const char *path)
{
    struct stat seen, st;
    int fd = -1;
    if (fstatat(dirfd, path, &seen, AT_SYMLINK_NOFOLLOW) == 0 && is_device(&seen) &&
        (seen.st_uid == geteuid() || seen.st_uid == 0))
        fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != seen.st_ino || st.st_dev != seen.st_dev)) {
        close(fd); /* replaced since we looked */
        fd = -1;
    }
    return fd;
}

/* Opens an output that is written in place, not replaced; -1: a file, or missing. */
static int open_as_it_is(int dirfd, const char *name)
{
    char *at = NULL;
    int fd = -1;
    if (dirfd != AT_FDCWD)
        return open_device(dirfd, name);
    if (is_special_folder(name))
        return openat(dirfd, name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (stk_own_resolve(name, &at, NULL) == 0)
        fd = open_device(AT_FDCWD, at);
    free(at);
    return fd;
}

int stk_new_output(struct stk_new *f, const char *path, mode_t mode, struct stk_err *err)
{
    int fd = open_as_it_is(AT_FDCWD, path);
    if (fd < 0)
        return stk_new_begin(f, path, mode, err);
    *f = STK_NEW_INIT;
    f->fd = fd;
    f->path = strdup(path);
    if (f->path)
        return 0;
    release(f);
    return stk_err_nomem(err, strlen(path));
}

int stk_open_fresh(int dirfd, const char *name, mode_t mode, int *fd, const char *path,
                   struct stk_err *err)
{
    *fd = open_as_it_is(dirfd, name);
    for (int i = 0; *fd < 0 && i < TRIES; i++) {
        if ((unlinkat(dirfd, name, 0) < 0 && errno != ENOENT) ||
            ((*fd = stk_create_at(dirfd, name, mode)) < 0 && errno != EEXIST))
            break;
    }
    return *fd < 0 ? stk_err_sys(err, path, "create") : 0;
}

static int check_mine(int fd, const char *path, struct stk_err *err)
{
    struct stat st;
    char who[64];
    if (fstat(fd, &st) < 0)
        return stk_err_sys(err, path, "stat");
    if (!S_ISREG(st.st_mode))
        return stk_err_set(err, STK_E_EXISTS, path, -1, "in the way: not a file; move it away");
    if (st.st_uid != geteuid())
        return stk_err_set(err, STK_E_EXISTS, path, -1,
                           "in the way: it belongs to %s; have it removed, or choose another place",
                           stk_user_name(st.st_uid, who));
    if (st.st_nlink != 1)
        return stk_err_set(err, STK_E_EXISTS, path, -1,
                           "in the way: the file has another hard link elsewhere; move it away");
    return 0;
}

int stk_open_append(int dirfd, const char *name, mode_t mode, int *fd, const char *path,
                    struct stk_err *err)
{
    const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    bool made = false;
    *fd = -1;
    for (int i = 0; *fd < 0 && i < TRIES; i++) {
        *fd = openat(dirfd, name, flags | O_CREAT | O_EXCL, mode);
        made = *fd >= 0;
        if (made || errno != EEXIST)
            break;
        *fd = openat(dirfd, name, flags); /* removed meanwhile: try again */
        if (*fd < 0 && errno != ENOENT)
            break;
    }
    int rc = *fd < 0 ? stk_err_sys(err, path, "open") : made ? 0 : check_mine(*fd, path, err);
    if (rc < 0 && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* ---- whole files ---------------------------------------------------------------------------- */

static int write_all(struct stk_new *f, const void *p, size_t n, struct stk_err *err)
{
    int rc = stk_write_full(f->fd, p, n, f->path, err);
    if (rc == 0)
        return stk_new_commit(f, err);
    stk_new_abort(f);
    return rc;
}

int stk_write_file_at(int dirfd, const char *name, const void *p, size_t n, mode_t mode,
                      const char *path, struct stk_err *err)
{
    struct stk_new f;
    int rc = stk_new_begin_at(&f, dirfd, name, mode, path, err);
    return rc < 0 ? rc : write_all(&f, p, n, err);
}

int stk_write_file_atomic(const char *path, const void *p, size_t n, struct stk_err *err)
{
    struct stk_new f;
    int rc = stk_new_output(&f, path, STK_SHARED, err);
    return rc < 0 ? rc : write_all(&f, p, n, err);
}

/* ---- permissions of derived files ---------------------------------------------------------- */

/* Who may read, by mode: 2 everybody, 1 the group, 0 the owner. For a folder: its contents. */
static int audience(const struct stat *st)
{
    mode_t mode = st->st_mode, all = S_IRGRP | S_IROTH;
    if (S_ISDIR(mode))
        mode &= (mode_t)((mode & (S_IXGRP | S_IXOTH)) << 2) | (mode_t)~all;
    return (mode & all) == all ? 2 : mode & S_IRGRP ? 1 : 0;
}

void stk_readers_merge(struct stk_readers *r, const struct stk_readers *other)
{
    bool groups = r->any && other->any && r->audience == 1 && other->audience == 1;
    if (groups && r->gid != other->gid)
        r->audience = 0;
    else if (other->any && (!r->any || other->audience < r->audience))
        *r = *other;
}

void stk_readers_join(struct stk_readers *r, const struct stat *st)
{
    struct stk_readers one = {.audience = audience(st), .gid = st->st_gid, .any = true};
    stk_readers_merge(r, &one);
}

/* The mode of a new file by the umask (or the folder's default). */
static mode_t usual_mode(const struct stk_new *f)
{
    struct stat st;
    int fd = stk_create_nameless_at(f->dirfd, f->name, 0666);
    mode_t mode = fd >= 0 && fstat(fd, &st) == 0 ? st.st_mode & 0666 : 0600;
    if (fd >= 0)
        close(fd);
    return mode;
}

void stk_new_share(struct stk_new *f, const struct stk_readers *r)
{
    static const mode_t let[] = {0, S_IRGRP, S_IRGRP | S_IROTH};
    struct stat st;
    if (!f->tmp || !r->any || !r->audience || fstat(f->fd, &st) < 0)
        return;
    mode_t mode = let[r->audience] & usual_mode(f);
    if (r->audience == 1 && st.st_gid != r->gid && fchown(f->fd, (uid_t)-1, r->gid) < 0)
        mode = 0;
    (void)fchmod(f->fd, 0600 | mode);
}

int stk_new_derived(struct stk_new *f, const char *path, const struct stk_readers *r,
                    struct stk_err *err)
{
    bool narrow = r && r->any;
    int rc = stk_new_output(f, path, narrow ? STK_PRIVATE : STK_SHARED, err);
    if (rc == 0 && narrow)
        stk_new_share(f, r);
    return rc;
}

int stk_write_derived(const char *path, const void *p, size_t n, const struct stk_readers *r,
                      struct stk_err *err)
{
    struct stk_new f;
    int rc = stk_new_derived(&f, path, r, err);
    return rc < 0 ? rc : write_all(&f, p, n, err);
}

/* ---- reading -------------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a folder"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
           : S_ISLNK(mode)  ? "a link"
                            : "a device";
}

static int refuse_kind(mode_t mode, const char *path, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "is %s, not a file", kind_of(mode));
}

bool stk_is_absent(int error)
{
    return error == ENOENT || error == ENOTDIR;
}

int stk_if_there(int rc, struct stk_err *err)
{
    if (rc != STK_E_SYS || !stk_is_absent(err->sys_errno))
        return rc < 0 ? rc : 1;
    *err = (struct stk_err){0};
    return 0;
}

int stk_find_at(int dirfd, const char *name, struct stat *st, const char *path, struct stk_err *err)
{
    struct stat mine;
    if (fstatat(dirfd, name, st ? st : &mine, AT_SYMLINK_NOFOLLOW) == 0)
        return 1;
    if (stk_is_absent(errno))
        return 0;
    bool named = strcmp(stk_base_name(path), stk_base_name(name)) == 0;
    return stk_err_sys(err, path, "look at%s%s", named ? "" : " ", named ? "" : name);
}

bool stk_may_exist(int dirfd, const char *name)
{
    return stk_find_at(dirfd, name, NULL, name, NULL) != 0;
}

bool stk_lock_alone(int fd)
{
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; i++) {
        if (i == LOCK_TRIES)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return true;
}

int stk_read_open(int dirfd, const char *name, int flags, int *fd, struct stat *st,
                  const char *path, struct stk_err *err)
{
    const int base = O_RDONLY | O_CLOEXEC | O_NOCTTY | (flags & O_NOFOLLOW);
    struct stat mine;
    st = st ? st : &mine;
    *fd = openat(dirfd, name, base | O_NONBLOCK);
    /* Another process holds a lease: the kernel breaks it, which takes a moment. */
    if (*fd < 0 && errno == EWOULDBLOCK && fstatat(dirfd, name, st, 0) == 0 && S_ISREG(st->st_mode))
        *fd = openat(dirfd, name, base);
    if (*fd < 0) {
        int why = errno; /* sockets, and links with O_NOFOLLOW, cannot be opened */
        bool seen = (why == ENXIO || why == ELOOP) &&
                    fstatat(dirfd, name, st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st->st_mode);
        errno = why;
        return seen ? refuse_kind(st->st_mode, path, err) : stk_err_sys(err, path, "open");
    }
    int rc = fstat(*fd, st) < 0      ? stk_err_sys(err, path, "stat")
             : !S_ISREG(st->st_mode) ? refuse_kind(st->st_mode, path, err)
                                     : 0;
    if (rc < 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}
