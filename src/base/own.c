/*
 * own.c - ownership of folders, folders that we adopt, and removal. Everything works through
 * descriptors: a name in a folder that others may write can lead elsewhere from one call to the
 * next, a descriptor cannot.
 */
#include "base/dir.h"
#include "base/own.h"
#include "base/file.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FOLDER       (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define DEPTH_MAX    200 /* of nested folders; each needs a descriptor while it is removed */
#define LINKS_MAX    8   /* links that lead to links */
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

/* ---- owners --------------------------------------------------------------------------------- */

bool stk_trusts(uid_t owner, uid_t data_uid)
{
    return owner == geteuid() || owner == 0 || owner == data_uid;
}

/* before: what a number needs in front. */
static const char *user_text(uid_t uid, const char *before, char buf[64])
{
    char text[4096];
    struct passwd pw, *found = NULL;
    if (getpwuid_r(uid, &pw, text, sizeof text, &found) == 0 && found && found->pw_name[0])
        snprintf(buf, 64, "%s", found->pw_name);
    else
        snprintf(buf, 64, "%s%lu", before, (unsigned long)uid);
    return buf;
}

const char *stk_user_name(uid_t uid, char buf[64])
{
    return user_text(uid, "uid ", buf);
}

const char *stk_user_word(uid_t uid, char buf[64])
{
    return user_text(uid, "", buf);
}

/* Finds the owner and mode that a file system gives a new file: NFS maps root to nobody, and some
 * file systems have no owners. */
static bool probe(int fd, struct stat *st)
{
    int made = stk_create_nameless_at(fd, ".stoker", 0600);
    bool ok = made >= 0 && fstat(made, st) == 0;
    if (made >= 0)
        close(made);
    return ok;
}

/* True if the file system gives every file we make this owner or these permissions. */
static bool is_given(int fd, const struct stat *st)
{
    struct stat sample;
    return probe(fd, &sample) && sample.st_uid == st->st_uid &&
           ((st->st_mode & OTHERS_WRITE) == 0 || (sample.st_mode & OTHERS_WRITE) != 0);
}

int stk_own_check(int fd, const char *path, struct stk_err *err)
{
    struct stat st;
    char who[64];
    if (fstat(fd, &st) < 0)
        return stk_err_sys(err, path, "stat");
    bool foreign = st.st_uid != geteuid();
    if ((!foreign && !(st.st_mode & OTHERS_WRITE)) || is_given(fd, &st))
        return 0;
    if (foreign)
        return stk_err_set(err, STK_E_EXISTS, path, -1,
                           "in the way: it belongs to %s, who could change or remove its "
                           "contents; have it removed, or choose another place",
                           stk_user_name(st.st_uid, who));
    return stk_err_set(err, STK_E_EXISTS, path, -1,
                       "in the way: others may write in it (mode %04o), so its contents may not "
                       "be yours; move it away, or check it and run chmod go-w on it",
                       (unsigned)(st.st_mode & 07777));
}

/* Reads a link that the caller or root made, malloc'ed: exactly this link, even if it is replaced
 * meanwhile. 1: it is a link; 0: it is not. */
static int read_link(const char *path, char **to, struct stk_err *err)
{
    struct stat st;
    char text[PATH_MAX], who[64];
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC), rc = 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return 0; /* opening it reports the error */
    }
    ssize_t n = readlinkat(fd, "", text, sizeof text - 1);
    if (n < 0)
        rc = stk_err_sys(err, path, "read the link");
    else if (st.st_uid != geteuid() && st.st_uid != 0)
        rc = stk_err_set(err, STK_E_EXISTS, path, -1,
                         "a link made by %s: it may lead to any file of yours; name the folder it "
                         "leads to",
                         stk_user_name(st.st_uid, who));
    else if (!(*to = strndup(text, (size_t)n)))
        rc = stk_err_nomem(err, (uint64_t)n);
    close(fd);
    return rc < 0 ? rc : 1;
}

/* The path that a link at `path` with that text leads to. malloc'ed. */
static char *beside(const char *path, const char *to)
{
    size_t dir = (size_t)(stk_base_name(path) - path);
    char *out = NULL;
    return to[0] == '/'                                       ? strdup(to)
           : asprintf(&out, "%.*s%s", (int)dir, path, to) < 0 ? NULL
                                                              : out;
}

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void trim_slashes(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
}

/* Follows one link at *at. 1: followed; 0: not a link. */
static int follow(char **at, struct stk_err *err)
{
    char *to = NULL;
    trim_slashes(*at);
    int rc = read_link(*at, &to, err);
    if (rc == 1) {
        char *next = beside(*at, to);
        rc = next ? 1 : stk_err_nomem(err, strlen(to));
        free(next ? *at : NULL);
        *at = next ? next : *at;
    }
    free(to);
    return rc;
}

int stk_own_resolve(const char *path, char **out, struct stk_err *err)
{
    char *at = strdup(path);
    int rc = at ? 1 : stk_err_nomem(err, strlen(path));
    for (int i = 0; rc == 1 && i < LINKS_MAX; i++)
        rc = follow(&at, err);
    if (rc == 1) {
        errno = ELOOP;
        rc = stk_err_sys(err, path, "open");
    }
    /* "." and ".." cannot be renamed; the folders they denote can, by name. */
    char *real = rc == 0 && is_dot(stk_base_name(at)) ? realpath(at, NULL) : NULL;
    if (real || rc < 0) {
        free(at);
        at = real;
    }
    *out = at;
    return rc;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* An unguessable name keeps others from blocking it; O_EXCL is what makes it safe. */
static uint64_t unguessable(void)
{
    uint64_t n;
    struct timespec now;
    if (getrandom(&n, sizeof n, GRND_NONBLOCK) == (ssize_t)sizeof n)
        return n;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return stk_mix64((uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec) + (uint64_t)getpid() +
           (uint64_t)(uintptr_t)&n;
}

void stk_random_name(char out[STK_RANDOM_NAME], const char *name, const char *mark)
{
    snprintf(out, STK_RANDOM_NAME, "%.200s%s%016llx", name, mark,
             (unsigned long long)unguessable());
}

const char *stk_fd_path(int dirfd, const char *name, char buf[STK_FD_PATH])
{
    snprintf(buf, STK_FD_PATH, "/proc/self/fd/%d%s%s", dirfd, name ? "/" : "", name ? name : "");
    return buf;
}

int stk_open_parent(const char *path, int *dirfd, const char **name, struct stk_err *err)
{
    *name = stk_base_name(path);
    size_t n = (size_t)(*name - path);
    char *dir = n ? strndup(path, n) : strdup(".");
    if (!dir)
        return stk_err_nomem(err, n);
    *dirfd = open(dir, FOLDER);
    if (*dirfd < 0 && errno == EACCES) /* writable, but not readable */
        *dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int rc = *dirfd < 0 ? stk_err_sys(err, path, "open its folder") : 0;
    free(dir);
    return rc;
}

/* Some network file systems cannot sync a folder and say so with EINVAL. */
int stk_fsync_dir(int fd, const char *path, struct stk_err *err)
{
    return fsync(fd) < 0 && errno != EINVAL && errno != EBADF ? stk_err_sys(err, path, "fsync") : 0;
}

/* ---- folders -------------------------------------------------------------------------------- */

static int not_a_folder(int dirfd, const char *name, const char *path, struct stk_err *err)
{
    struct stat st;
    int why = errno;
    bool link = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (link)
        return stk_err_set(err, STK_E_EXISTS, path, -1,
                           "in the way: a link where stoker expects its own folder; remove it");
    errno = why;
    return why == ENOTDIR
               ? stk_err_set(err, STK_E_EXISTS, path, -1, "in the way: not a folder; move it away")
               : stk_err_sys(err, path, "open folder");
}

int stk_own_folder_at(int dirfd, const char *name, unsigned flags, int *fd, const char *path,
                      struct stk_err *err)
{
    mode_t mode = flags & STK_OWN_PRIVATE ? 0700 : 0777;
    bool made = flags & STK_OWN_MAKE && mkdirat(dirfd, name, mode) == 0;
    *fd = -1;
    if (flags & STK_OWN_MAKE && !made && (errno != EEXIST || flags & STK_OWN_NEW))
        return stk_err_sys(err, path, "make folder");
    *fd = openat(dirfd, name, FOLDER | O_NOFOLLOW);
    if (*fd < 0)
        return not_a_folder(dirfd, name, path, err);
    /* A folder we made under the umask may be writable by a group; still it must be the one we
     * made. */
    struct stat st;
    bool shared =
        made && !(flags & STK_OWN_PRIVATE) && fstat(*fd, &st) == 0 && st.st_uid == geteuid();
    int rc = shared ? 0 : stk_own_check(*fd, path, err);
    if (rc < 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

int stk_own_folder(const char *path, unsigned flags, int *fd, struct stk_err *err)
{
    const char *name;
    int dirfd, rc;
    char *trimmed = strdup(path); /* "a/b/" is b in a */
    *fd = -1;
    if (!trimmed)
        return stk_err_nomem(err, strlen(path));
    trim_slashes(trimmed);
    rc = stk_open_parent(trimmed, &dirfd, &name, err);
    if (rc == 0) {
        rc = stk_own_folder_at(dirfd, name[0] ? name : ".", flags, fd, path, err);
        close(dirfd);
    }
    free(trimmed);
    return rc;
}

int stk_enter_at(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, FOLDER | O_NOFOLLOW);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(dirfd, name, 0777) < 0 && errno != EEXIST)
        return -1;
    return openat(dirfd, name, FOLDER | O_NOFOLLOW);
}

int stk_own_temp_folder(const char *dir, const char *prefix, char **path, int *fd,
                        struct stk_err *err)
{
    char name[STK_RANDOM_NAME];
    int own = -1;
    stk_random_name(name, prefix, ".");
    char *at = stk_path_join(dir, name);
    int rc = at ? stk_own_folder(at, STK_OWN_MAKE | STK_OWN_PRIVATE | STK_OWN_NEW, &own, err)
                : stk_err_nomem(err, strlen(dir));
    if (rc < 0) {
        free(at);
        return rc;
    }
    *path = at;
    if (fd)
        *fd = own;
    else
        close(own);
    return 0;
}

int stk_mkdirs(const char *path, struct stk_err *err)
{
    char *copy = strdup(path);
    if (!copy)
        return stk_err_nomem(err, strlen(path));
    int rc = 0;
    for (char *p = copy + 1; rc == 0 && *copy; p++) {
        if (*p && *p != '/')
            continue;
        char c = *p;
        *p = '\0';
        struct stat sb;
        if (mkdir(copy, 0777) < 0 &&
            !(errno == EEXIST && stat(copy, &sb) == 0 && S_ISDIR(sb.st_mode)))
            rc = stk_err_sys(err, copy, "make folder");
        *p = c;
        if (!c)
            break;
    }
    free(copy);
    return rc;
}

/* Opens the folder one level down; takes ownership of fd. -1 with errno. */
static int step_down(int fd, const char *name, size_t len)
{
    char *part = strndup(name, len);
    int next = part ? stk_enter_at(fd, part) : -1, why = errno;
    free(part);
    close(fd);
    errno = why;
    return next;
}

int stk_mkdirs_below(const char *root, const char *name, int *dirfd, struct stk_err *err)
{
    int rc = stk_mkdirs(root, err), fd = rc < 0 ? -1 : open(root, FOLDER);
    if (rc == 0 && fd < 0)
        rc = stk_err_sys(err, root, "open folder");
    for (const char *slash; fd >= 0 && (slash = strchr(name, '/')); name = slash + 1) {
        fd = step_down(fd, name, (size_t)(slash - name));
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
            rc = stk_err_set(err, STK_E_UNSUPPORTED, root, -1,
                             "a link or a file is in the way, where '%.*s' would be a folder",
                             (int)(slash - name), name);
        else if (fd < 0)
            rc = stk_err_sys(err, root, "make a folder in it");
    }
    *dirfd = fd;
    return rc;
}

/* ---- renaming and removing ------------------------------------------------------------------ */

int stk_rename_at(int from, const char *name, int to, const char *new_name)
{
    return renameat(from, name, to, new_name);
}

int stk_rename_new_at(int dirfd, const char *name, const char *new_name)
{
    return renameat2(dirfd, name, dirfd, new_name, RENAME_NOREPLACE);
}

int stk_exchange_at(int dirfd, const char *a, const char *b)
{
    return renameat2(dirfd, a, dirfd, b, RENAME_EXCHANGE);
}

int stk_unlink_at(int dirfd, const char *name, const char *path, struct stk_err *err)
{
    return unlinkat(dirfd, name, 0) < 0 && errno != ENOENT ? stk_err_sys(err, path, "remove") : 0;
}

int stk_rmdir_at(int dirfd, const char *name)
{
    return unlinkat(dirfd, name, AT_REMOVEDIR);
}

int stk_rmdir_empty_at(int dirfd, const char *name, const char *path, struct stk_err *err)
{
    if (stk_rmdir_at(dirfd, name) == 0 || stk_is_absent(errno) || errno == ENOTEMPTY ||
        errno == EEXIST || errno == ENOTDIR || errno == EBUSY)
        return 0;
    return stk_err_sys(err, path, "remove the folder %s", name);
}

/* A folder below dirfd on the same mount; EXDEV: something is mounted there. */
static int open_below(int dirfd, const char *name)
{
    struct open_how how = {.flags = FOLDER | O_NOFOLLOW, .resolve = RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, dirfd, name, &how, sizeof how);
    if (fd >= 0 ||
        (errno != ENOSYS && errno != EPERM)) /* EPERM: some sandboxes, for calls they do not know */
        return fd;
    struct stat above, st;
    fd = openat(dirfd, name, FOLDER | O_NOFOLLOW);
    if (fd >= 0 && fstat(dirfd, &above) == 0 && fstat(fd, &st) == 0 && above.st_dev != st.st_dev) {
        close(fd);
        errno = EXDEV;
        return -1;
    }
    return fd;
}

static int remove_entry(int dirfd, const char *name, const char *path, int depth,
                        struct stk_err *err);

/* Takes ownership of fd. */
static int empty_folder(int fd, const char *path, int depth, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_take(&d, fd, path, err);
    for (const struct dirent *e; rc == 0 && (e = stk_dir_next(&d));)
        rc = remove_entry(fd, e->d_name, path, depth + 1, err);
    return stk_dir_end(&d, rc, err);
}

static int remove_entry(int dirfd, const char *name, const char *path, int depth,
                        struct stk_err *err)
{
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return stk_err_sys(err, path, "remove");
    if (depth > DEPTH_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "more than %d nested folders; remove it by hand", DEPTH_MAX);
    int why = errno,
        fd = depth ? open_below(dirfd, name) : openat(dirfd, name, FOLDER | O_NOFOLLOW);
    if (fd < 0) {
        errno = errno == ENOTDIR || errno == ELOOP ? why : errno; /* it cannot be removed */
        return stk_err_sys(err, path, "remove");
    }
    int rc = empty_folder(fd, path, depth, err);
    if (rc == 0 && unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        rc = stk_err_sys(err, path, "remove");
    return rc;
}

int stk_remove_at(int dirfd, const char *name, const char *path, struct stk_err *err)
{
    return remove_entry(dirfd, name, path, 0, err);
}

int stk_remove_tree(const char *path, struct stk_err *err)
{
    return remove_entry(AT_FDCWD, path, path, 0, err);
}

struct sorting {
    bool (*ours)(void *user, const char *name);
    void *user;
    struct stk_left *left;
    const char *path; /* of the folder */
    struct stk_err *err;
    bool remove; /* else only counts */
};

static int sort_folder(const struct sorting *s, int fd, const char *at, int depth);

static void leave(struct stk_left *left, const char *name)
{
    if (!left->n++)
        snprintf(left->first, sizeof left->first, "%s", name);
}

/* at: its name below the folder. */
static int sort_file(const struct sorting *s, int fd, const char *name, const char *at)
{
    if (!s->ours(s->user, at))
        return leave(s->left, at), 0;
    return s->remove && unlinkat(fd, name, 0) < 0 && errno != ENOENT
               ? stk_err_sys(s->err, s->path, "remove %s", at)
               : 0;
}

static int sort_entry(const struct sorting *s, int fd, const struct dirent *e, const char *at,
                      int depth)
{
    const char *name = e->d_name;
    struct stat st;
    if (e->d_type != DT_UNKNOWN && e->d_type != DT_DIR)
        return sort_file(s, fd, name, at);
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : stk_err_sys(s->err, s->path, "stat %s", at);
    if (!S_ISDIR(st.st_mode))
        return sort_file(s, fd, name, at);
    int in = depth < DEPTH_MAX ? open_below(fd, name) : (errno = ELOOP, -1);
    if (in < 0)
        return stk_err_sys(s->err, s->path, "open %s", at);
    uint64_t before = s->left->n;
    int rc = sort_folder(s, in, at, depth + 1);
    if (rc == 0 && s->remove && s->left->n == before && unlinkat(fd, name, AT_REMOVEDIR) < 0 &&
        errno != ENOENT)
        leave(s->left, at); /* someone has put something in it just now */
    return rc;
}

/* Takes ownership of fd. */
static int sort_folder(const struct sorting *s, int fd, const char *at, int depth)
{
    struct stk_dir d;
    int rc = stk_dir_take(&d, fd, s->path, s->err);
    for (const struct dirent *e; rc == 0 && (e = stk_dir_next(&d));) {
        char *name = stk_path_join(at, e->d_name);
        rc = name ? sort_entry(s, fd, e, name, depth) : stk_err_nomem(s->err, NAME_MAX);
        free(name);
    }
    return stk_dir_end(&d, rc, s->err);
}

static int sort_all(const struct sorting *s, int dirfd)
{
    int fd = openat(dirfd, ".", FOLDER);
    return fd < 0 ? stk_err_sys(s->err, s->path, "open folder") : sort_folder(s, fd, "", 0);
}

int stk_remove_ours(int dirfd, bool (*ours)(void *user, const char *name), void *user,
                    struct stk_left *left, const char *path, struct stk_err *err)
{
    return sort_all(&(struct sorting){ours, user, left, path, err, .remove = true}, dirfd);
}

int stk_count_others(int dirfd, bool (*ours)(void *user, const char *name), void *user,
                     struct stk_left *left, const char *path, struct stk_err *err)
{
    return sort_all(&(struct sorting){ours, user, left, path, err, .remove = false}, dirfd);
}
