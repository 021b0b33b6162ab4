/*
 * wrap_walk.c - functions that walk directories inside the C library, whose own calls do not pass
 * here: nftw(), fts, glob(), scandir(), realpath(). Each call counts as a walk, with its time. A
 * name that nftw() or fts returns was queried there (stat), and the time since the one before it is
 * that query's; a program's own function that runs inside is not part of it.
 */
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <dirent.h>
#include <unistd.h>

#include "preload/priv.h"
#include "preload/wrap.h"

/* ---- nftw(), ftw() ---- */

typedef int nftw_fn(const char *, const void *, int, struct FTW *);
typedef int ftw_fn(const char *, const void *, int);

/* The walk of this thread; its functions take no argument of ours. */
struct walk {
    nftw_fn *each;
    ftw_fn *each_old;
    struct walk *outer;
    struct stk_pl_call since; /* the last return to the C library … */
    bool on;                  /* … is recorded */
    bool moves;               /* FTW_CHDIR */
};
static __thread struct walk *walking STK_PL_TLS;

/* The C library found a name: `base` is where its last part begins. */
static void found(struct walk *w, const char *path, int base, int type)
{
    struct stk_pl_call now;
    if (w->moves)
        stk_pl_path_moved();
    const char *name = w->moves ? path + base : path;
    if (w->on)
        stk_pl_meta_path(&w->since, AT_FDCWD, name, STK_C_STATS, type != FTW_NS);
    if (type == FTW_D && stk_pl_begin(&now))
        stk_pl_meta_path(&now, AT_FDCWD, name, STK_C_DIR_READS, true);
}

/* A walk that the function begins is its own, and the function may leave by longjmp(). */
static int visit(const char *path, const void *st, int type, struct FTW *where)
{
    struct walk *w = walking;
    found(w, path, where->base, type);
    walking = w->outer;
    int rc = w->each(path, st, type, where);
    walking = w;
    w->on = stk_pl_begin(&w->since);
    return rc;
}

static int visit_old(const char *path, const void *st, int type)
{
    struct walk *w = walking;
    found(w, path, 0, type);
    walking = w->outer;
    int rc = w->each_old(path, st, type);
    walking = w;
    w->on = stk_pl_begin(&w->since);
    return rc;
}

static void begin(struct walk *w)
{
    w->outer = walking;
    walking = w;
    w->on = stk_pl_begin(&w->since);
}

static int end(struct walk *w, const char *path, int rc)
{
    walking = w->outer;
    if (w->moves)
        stk_pl_path_moved();
    if (w->on)
        stk_pl_walked(&w->since, AT_FDCWD, path, rc < 0 ? -1 : 0);
    return rc;
}

#define WALK(name)                                                                                 \
    WRAP(int, name, (const char *path, nftw_fn *each, int fds, int flags))                         \
    {                                                                                              \
        REAL(int, name, (const char *, nftw_fn *, int, int));                                      \
        struct walk w = {.each = each, .moves = flags & FTW_CHDIR};                                \
        begin(&w);                                                                                 \
        return end(&w, path, real(path, visit, fds, flags));                                       \
    }
WALK(nftw)
WALK(nftw64)

#define WALK_OLD(name)                                                                             \
    WRAP(int, name, (const char *path, ftw_fn *each, int fds))                                     \
    {                                                                                              \
        REAL(int, name, (const char *, ftw_fn *, int));                                            \
        struct walk w = {.each_old = each};                                                        \
        begin(&w);                                                                                 \
        return end(&w, path, real(path, visit_old, fds));                                          \
    }
WALK_OLD(ftw)
WALK_OLD(ftw64)

/* ---- fts: FTS64 and FTSENT64 have the same members where offsets have 64 bits ---- */

/* Without FTS_NOCHDIR the walk changes the working directory, where the name is `fts_accpath`. */
static void read_entry(struct stk_pl_call *call, const FTS *walk, const FTSENT *e)
{
    bool moves = !(walk->fts_options & FTS_NOCHDIR);
    if (moves)
        stk_pl_path_moved();
    if (!e)
        return;
    bool again = e->fts_info == FTS_DP, queried = e->fts_info != FTS_NSOK && !again;
    stk_pl_meta_path(call, AT_FDCWD, moves ? e->fts_accpath : e->fts_path,
                     queried ? STK_C_STATS
                     : again ? STK_C_DIR_READS
                             : STK_TIME_ONLY,
                     e->fts_info != FTS_NS && e->fts_info != FTS_DNR && e->fts_info != FTS_ERR);
}

#define FTS_READ(name)                                                                             \
    WRAP(FTSENT *, name, (FTS * walk))                                                             \
    {                                                                                              \
        REAL(FTSENT *, name, (FTS *));                                                             \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(walk);                                                                     \
        FTSENT *e = real(walk);                                                                    \
        int why = errno;                                                                           \
        read_entry(&call, walk, e);                                                                \
        errno = why;                                                                               \
        return e;                                                                                  \
    }
FTS_READ(fts_read)
FTS_READ(fts64_read)

typedef int compare_fn(const FTSENT **, const FTSENT **);
#define FTS_OPEN(name)                                                                             \
    WRAP(FTS *, name, (char *const *paths, int options, compare_fn *compare))                      \
    {                                                                                              \
        REAL(FTS *, name, (char *const *, int, compare_fn *));                                     \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(paths, options, compare);                                                  \
        FTS *walk = real(paths, options, compare);                                                 \
        if (paths && paths[0])                                                                     \
            stk_pl_walked(&call, AT_FDCWD, paths[0], walk ? 0 : -1);                               \
        return walk;                                                                               \
    }
FTS_OPEN(fts_open)
FTS_OPEN(fts64_open)

#define FTS_CLOSE(name)                                                                            \
    WRAP(int, name, (FTS * walk))                                                                  \
    {                                                                                              \
        REAL(int, name, (FTS *));                                                                  \
        int rc = real(walk);                                                                       \
        if (!stk_pl_self.vforked)                                                                  \
            stk_pl_path_moved(); /* back to where the walk began */                                \
        return rc;                                                                                 \
    }
FTS_CLOSE(fts_close)
FTS_CLOSE(fts64_close)

/* ---- glob() ---- */

/* The directory in which the search of a pattern begins. */
static void begin_of(const char *pattern, char *to, size_t room)
{
    size_t n = strcspn(pattern, "*?[{~\\");
    while (n && pattern[n - 1] != '/')
        n--;
    n = n < room ? n : room - 1;
    memcpy(to, pattern, n);
    to[n] = 0;
    if (!n)
        memcpy(to, ".", 2);
}

static void globbed(struct stk_pl_call *call, const char *pattern, int rc, size_t names)
{
    char folder[512]; /* the caller may have a small stack */
    int why = errno;
    begin_of(pattern, folder, sizeof folder);
    stk_pl_walked(call, AT_FDCWD, folder, rc == 0 || rc == GLOB_NOMATCH ? (int64_t)names : -1);
    errno = why;
}

/* With GLOB_ALTDIRFUNC the program's own functions look, and are seen. */
#define GLOB(name)                                                                                 \
    WRAP(int, name,                                                                                \
         (const char *pattern, int flags, int (*on_error)(const char *, int), glob_t *g))          \
    {                                                                                              \
        REAL(int, name, (const char *, int, int (*)(const char *, int), glob_t *));                \
        struct stk_pl_call call;                                                                   \
        size_t before = flags & GLOB_APPEND ? g->gl_pathc : 0;                                     \
        if (flags & GLOB_ALTDIRFUNC || !stk_pl_begin(&call))                                       \
            return real(pattern, flags, on_error, g);                                              \
        int rc = real(pattern, flags, on_error, g);                                                \
        globbed(&call, pattern, rc, rc == 0 && g->gl_pathc > before ? g->gl_pathc - before : 0);   \
        return rc;                                                                                 \
    }
GLOB(glob)
GLOB(glob64)

/* ---- scandir() ---- */

#define SCAN_DIR(name, dirfd, parameters, types, arguments)                                        \
    WRAP(int, name, parameters)                                                                    \
    {                                                                                              \
        REAL(int, name, types);                                                                    \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real arguments;                                                                 \
        int n = real arguments;                                                                    \
        stk_pl_walked(&call, dirfd, path, n);                                                      \
        return n;                                                                                  \
    }
#define SCAN(name)                                                                                 \
    SCAN_DIR(name, AT_FDCWD, (const char *path, void *list, void *filter, void *compare),          \
             (const char *, void *, void *, void *), (path, list, filter, compare))
SCAN(scandir)
SCAN(scandir64)

#define SCAN_AT(name)                                                                              \
    SCAN_DIR(name, dir, (int dir, const char *path, void *list, void *filter, void *compare),      \
             (int, const char *, void *, void *, void *), (dir, path, list, filter, compare))
SCAN_AT(scandirat)
SCAN_AT(scandirat64)

/* ---- realpath(): asks for every part of the path ---- */

static char *resolved(struct stk_pl_call *call, const char *path, char *to)
{
    stk_pl_walked(call, AT_FDCWD, path, to ? 0 : -1);
    return to;
}

#define RESOLVE(name, parameters, types, arguments)                                                \
    WRAP(char *, name, parameters)                                                                 \
    {                                                                                              \
        REAL(char *, name, types);                                                                 \
        struct stk_pl_call call;                                                                   \
        if (!path || !stk_pl_begin(&call))                                                         \
            return real arguments;                                                                 \
        return resolved(&call, path, real arguments);                                              \
    }
RESOLVE(realpath, (const char *path, char *to), (const char *, char *), (path, to))
RESOLVE(__realpath_chk, (const char *path, char *to, size_t room), (const char *, char *, size_t),
        (path, to, room))
RESOLVE(canonicalize_file_name, (const char *path), (const char *), (path))

/* ---- directories ----------------------------------------------------------------------------- */

/* Directories: every entry that readdir() returns is a call. What walks directories inside the C
 * library is in wrap_walk.c. */

static int fd_of(DIR *dir)
{
    int before = errno;
    int fd = dirfd(dir);
    errno = before;
    return fd;
}

/* The time belongs to the open; the call is also a read of the directory. */
static void count_read(int fd)
{
    struct stk_pl_call call;
    if (stk_pl_begin(&call))
        stk_pl_meta_fd(&call, fd, STK_C_DIR_READS, true, STK_API_POSIX);
}

WRAP(DIR *, opendir, (const char *path))
{
    REAL(DIR *, opendir, (const char *));
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(path);
    DIR *dir = real(path);
    int fd = dir ? fd_of(dir) : -1;
    stk_pl_opened(&call, AT_FDCWD, path, O_RDONLY | O_DIRECTORY, fd, STK_API_POSIX);
    if (fd >= 0)
        count_read(fd);
    return dir;
}

WRAP(DIR *, fdopendir, (int fd))
{
    REAL(DIR *, fdopendir, (int));
    struct stk_pl_call call;
    if (!stk_pl_begin(&call))
        return real(fd);
    DIR *dir = real(fd);
    stk_pl_meta_fd(&call, fd, STK_C_DIR_READS, dir, STK_API_POSIX);
    return dir;
}

/* NULL is the end, or an error that only errno tells: both are calls on the directory. */
#define READ_ENTRY(name, type)                                                                     \
    WRAP(type *, name, (DIR * dir))                                                                \
    {                                                                                              \
        REAL(type *, name, (DIR *));                                                               \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(dir);                                                                      \
        type *entry = real(dir);                                                                   \
        stk_pl_meta_fd(&call, fd_of(dir), STK_C_DIR_READS, true, STK_API_POSIX);                   \
        return entry;                                                                              \
    }
READ_ENTRY(readdir, struct dirent)
READ_ENTRY(readdir64, struct dirent64)

#define READ_ENTRY_R(name, type)                                                                   \
    WRAP(int, name, (DIR * dir, type * entry, type * *result))                                     \
    {                                                                                              \
        REAL(int, name, (DIR *, type *, type **));                                                 \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(dir, entry, result);                                                       \
        int rc = real(dir, entry, result);                                                         \
        stk_pl_meta_fd(&call, fd_of(dir), STK_C_DIR_READS, rc == 0, STK_API_POSIX);                \
        return rc;                                                                                 \
    }
READ_ENTRY_R(readdir_r, struct dirent)
READ_ENTRY_R(readdir64_r, struct dirent64)

WRAP(int, closedir, (DIR * dir))
{
    REAL(int, closedir, (DIR *));
    struct stk_pl_call call;
    int fd = dir ? fd_of(dir) : -1;
    if (fd < 0 || !stk_pl_begin(&call))
        return real(dir);
    uint32_t what = stk_pl_closing(fd);
    int rc = real(dir);
    stk_pl_closed(&call, what, rc == 0, STK_API_POSIX);
    return rc;
}

#define READ_BATCH(name)                                                                           \
    WRAP(ssize_t, name, (int fd, void *p, size_t room))                                            \
    {                                                                                              \
        REAL_OR(ssize_t, name, (int, void *, size_t), -1);                                         \
        struct stk_pl_call call;                                                                   \
        if (!stk_pl_begin(&call))                                                                  \
            return real(fd, p, room);                                                              \
        ssize_t got = real(fd, p, room);                                                           \
        stk_pl_meta_fd(&call, fd, STK_C_DIR_READS, got >= 0, STK_API_POSIX);                       \
        return got;                                                                                \
    }
READ_BATCH(getdents64)
