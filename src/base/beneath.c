/*
 * beneath.c - openat2() with RESOLVE_BENEATH, and the same done by hand if the kernel lacks it
 * (before Linux 5.6, or behind a system call filter).
 */
#include "base/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_LINKS 40  /* like the kernel */
#define MAX_DEPTH 256 /* folders on the way, all open at once */
#define MAX_TRIES 8   /* while others rename folders on the way */

/* ---- the kernel does it ---- */

#ifdef SYS_openat2
struct how { /* struct open_how, which older headers do not have */
    uint64_t flags, mode, resolve;
};
#define NO_MAGIC_LINKS 0x02u
#define NO_LINKS       0x04u
#define BENEATH        0x08u

static int open_resolving(int folder, const char *name, int flags, uint64_t resolve)
{
    struct how how = {.flags = (uint64_t)(unsigned)flags, .resolve = resolve};
    int fd = -1;
    /* EAGAIN: something was renamed while the kernel resolved a "..", and it cannot be sure. */
    for (int i = 0; i < MAX_TRIES && (i == 0 || (fd < 0 && errno == EAGAIN)); i++)
        fd = (int)syscall(SYS_openat2, folder, name, &how, sizeof how);
    return fd;
}

/* -1 with ENOSYS: it must be done by hand. */
static int by_kernel(int folder, const char *name, int flags)
{
    static _Atomic bool missing;
    errno = ENOSYS;
    if (atomic_load_explicit(&missing, memory_order_relaxed))
        return -1;
    /* Links are rare, and without "..", only a link leads outside. Then the kernel can skip its
     * final check, which takes a global lock. */
    bool plain = name[0] != '/' && !strstr(name, "..");
    int fd = plain ? open_resolving(folder, name, flags, NO_LINKS) : -1;
    if (!plain || (fd < 0 && errno == ELOOP))
        fd = open_resolving(folder, name, flags, BENEATH | NO_MAGIC_LINKS);
    if (fd < 0 && errno == ENOSYS)
        atomic_store_explicit(&missing, true, memory_order_relaxed);
    return fd;
}
#else
static int by_kernel(int folder, const char *name, int flags)
{
    (void)folder, (void)name, (void)flags;
    errno = ENOSYS;
    return -1;
}
#endif

/* ---- by hand ---- */

struct way {
    int dir[MAX_DEPTH]; /* the folders passed so far, the root of the walk first */
    int depth;
    unsigned links;
    char rest[PATH_MAX]; /* the part of the path still to walk */
};

static void go_up(struct way *w, int depth)
{
    while (w->depth > depth)
        close(w->dir[w->depth--]);
}

/* Takes the next component off the rest; "" at the end. */
static void next_part(struct way *w, char part[NAME_MAX + 1])
{
    const char *p = w->rest + strspn(w->rest, "/");
    size_t n = strcspn(p, "/");
    size_t keep = n <= NAME_MAX ? n : NAME_MAX; /* no file has a longer name */
    memcpy(part, p, keep);
    part[keep] = '\0';
    p += n;
    p += strspn(p, "/");
    memmove(w->rest, p, strlen(p) + 1);
}

/* The part of an absolute path that is beneath the folder, or NULL. */
static const char *part_beneath(int folder, const char *path)
{
    char self[40], root[PATH_MAX];
    snprintf(self, sizeof self, "/proc/self/fd/%d", folder);
    ssize_t n = readlink(self, root, sizeof root);
    if (n <= 0 || n == (ssize_t)sizeof root || strncmp(path, root, (size_t)n) != 0)
        return NULL;
    return root[n - 1] == '/' || path[n] == '/' || !path[n] ? path + n : NULL;
}

/* Prepends the link's target to the rest. 1: not a link. */
static int follow(struct way *w, const char *link)
{
    char target[PATH_MAX], rest[PATH_MAX];
    ssize_t n = readlinkat(w->dir[w->depth], link, target, sizeof target - 1);
    if (n < 0)
        return errno == EINVAL ? 1 : -1;
    target[n] = '\0';
    const char *to = target;
    if (target[0] == '/') {
        to = part_beneath(w->dir[0], target);
        go_up(w, 0);
    }
    bool fits = to && (size_t)snprintf(rest, sizeof rest, "%s/%s", to, w->rest) < sizeof rest;
    if (fits)
        memcpy(w->rest, rest, sizeof rest);
    errno = !to ? EXDEV : !fits ? ENAMETOOLONG : ELOOP;
    return fits && ++w->links <= MAX_LINKS ? 0 : -1;
}

/* Opens the last component: a descriptor, -1 with errno, or -2 if a link continues the walk. */
static int open_last(struct way *w, const char *part, int flags)
{
    struct stat sb;
    int fd = openat(w->dir[w->depth], part, flags | O_NOFOLLOW), why = errno;
    bool link = fd < 0 ? why == ELOOP || why == ENOTDIR
                       : (flags & O_PATH) && fstat(fd, &sb) == 0 && S_ISLNK(sb.st_mode);
    if (!link || (flags & O_NOFOLLOW))
        return fd;
    if (fd >= 0)
        close(fd);
    int rc = follow(w, part);
    errno = rc > 0 ? why : errno;
    return rc == 0 ? -2 : -1;
}

static int enter(struct way *w, const char *part)
{
    if (w->depth + 1 == MAX_DEPTH) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = openat(w->dir[w->depth], part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0) {
        w->dir[++w->depth] = fd;
        return 0;
    }
    int why = errno, rc = why == ENOTDIR || why == ELOOP ? follow(w, part) : 1;
    errno = rc > 0 ? why : errno;
    return rc == 0 ? 0 : -1;
}

/* Like open_last(), for any component. */
static int step(struct way *w, int flags)
{
    char part[NAME_MAX + 1];
    next_part(w, part);
    if (!part[0])
        return openat(w->dir[w->depth], ".", flags);
    if (strcmp(part, ".") == 0)
        return -2;
    if (strcmp(part, "..") == 0) {
        errno = EXDEV;
        if (w->depth == 0)
            return -1;
        go_up(w, w->depth - 1); /* not "..": the folder may have been moved meanwhile */
        return -2;
    }
    if (!w->rest[0])
        return open_last(w, part, flags);
    return enter(w, part) < 0 ? -1 : -2;
}

int stk_open_beneath_stepwise(int folder, const char *name, int flags)
{
    struct way w = {.dir = {folder}};
    int n = snprintf(w.rest, sizeof w.rest, "%s", name);
    errno = name[0] == '/' ? EXDEV : !name[0] ? ENOENT : ENAMETOOLONG;
    int fd = name[0] == '/' || !name[0] || n >= (int)sizeof w.rest ? -1 : -2;
    while (fd == -2)
        fd = step(&w, flags | O_CLOEXEC);
    int why = errno;
    go_up(&w, 0);
    errno = why;
    return fd;
}

/* ---- both ---- */

int stk_open_beneath(int folder, const char *name, int flags)
{
    int fd = by_kernel(folder, name, flags | O_CLOEXEC);
    /* EXDEV: to the kernel every absolute link leads outside. EPERM: filters answer so to system
     * calls they do not know; opening for reading never fails with it. */
    bool by_hand =
        fd < 0 && (errno == ENOSYS || errno == EXDEV || errno == EPERM || errno == EAGAIN);
    return by_hand ? stk_open_beneath_stepwise(folder, name, flags) : fd;
}

int stk_open_by_rule(int folder, bool outside, const char *name, int flags)
{
    return outside ? openat(folder, name, flags | O_CLOEXEC)
                   : stk_open_beneath(folder, name, flags);
}

int stk_stat_beneath(int folder, const char *name, struct stat *sb)
{
    int fd = stk_open_beneath(folder, name, O_PATH);
    if (fd < 0)
        return -1;
    int rc = fstat(fd, sb), why = errno;
    close(fd);
    errno = why;
    return rc;
}

/* ---- many of them ---- */

void stk_stat_walk_init(struct stk_stat_walk *l, int folder, bool outside)
{
    l->folder = folder;
    l->dir = -1;
    l->outside = outside;
    l->len = 0;
}

void stk_stat_walk_release(struct stk_stat_walk *l)
{
    if (l->dir >= 0)
        close(l->dir);
    l->dir = -1;
}

/* Opens the folder named by the first n bytes, unless it is open. */
static int enter_dir(struct stk_stat_walk *l, const char *name, size_t n)
{
    if (l->dir >= 0 && l->len == n && memcmp(l->at, name, n) == 0)
        return 0;
    stk_stat_walk_release(l);
    errno = ENAMETOOLONG;
    if (n + 1 > sizeof l->at)
        return -1;
    memcpy(l->at, name, n);
    l->at[n] = '\0';
    l->len = n;
    l->dir = stk_open_beneath(l->folder, n ? l->at : ".", O_PATH | O_DIRECTORY);
    return l->dir < 0 ? -1 : 0;
}

int stk_stat_walk(struct stk_stat_walk *l, const char *name, struct stat *sb)
{
    if (l->outside)
        return fstatat(l->folder, name, sb, 0);
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    if (enter_dir(l, name, slash ? (size_t)(slash - name) : 0) < 0 ||
        fstatat(l->dir, base, sb, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    return S_ISLNK(sb->st_mode) ? stk_stat_beneath(l->folder, name, sb) : 0;
}
