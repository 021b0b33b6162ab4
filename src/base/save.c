/*
 * save.c - a file of the user's program, a checkpoint say, that is replaced whole or not at all
 * (stoker.h). It is written under a hidden, locked name of its own and renamed. A lock ends with its
 * process: the next save of the name removes what is no longer locked.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/api.h"
#include "base/own.h"
#include "base/thread.h"
#include "stoker.h"

#define TRIES       16
#define COPY_BYTES  (4u << 20) /* Lustre's RPC size */
#define ELSEWHERE_S 86400      /* after which another node's file is taken to be left over: locks of
                                  some file systems hold on one node only */

struct part { /* a file being written */
    int dirfd, fd; /* -1: none */
    char tmp[STK_RANDOM_NAME];
};

struct stk_save {
    struct part part, near; /* beside the target; in the folder that the caller names */
    char *name, *target;    /* borrowed from target */
    char *at;               /* where the caller writes */
    struct stk_save *next;  /* of those that are being committed */
    struct stat folder;
};

/* ---- one at a time per name ----------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct stk_save *busy; /* being committed */
static unsigned started;      /* of those: on threads of ours */
static struct stk_err failed; /* the first that nobody was told of; code 0: none */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* The child has none of the threads that would end these. */
static void in_child(void)
{
    busy = NULL;
    started = 0;
    failed.code = 0;
    pthread_cond_init(&ended, NULL);
    pthread_mutex_unlock(&lock);
}

static void wait_for_started(void)
{
    pthread_mutex_lock(&lock);
    while (started)
        pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
    (void)pthread_atfork(before_fork, in_parent, in_child);
    (void)atexit(wait_for_started);
}

static bool same_target(const struct stk_save *a, const struct stk_save *b)
{
    return a->folder.st_dev == b->folder.st_dev && a->folder.st_ino == b->folder.st_ino &&
           strcmp(a->name, b->name) == 0;
}

/* With the lock. */
static void wait_for_others(const struct stk_save *s)
{
    for (const struct stk_save *b = busy; b;) {
        bool is = same_target(b, s);
        if (is)
            pthread_cond_wait(&ended, &lock);
        b = is ? busy : b->next;
    }
}

static void enter(struct stk_save *s, bool thread)
{
    pthread_mutex_lock(&lock);
    wait_for_others(s);
    s->next = busy;
    busy = s;
    started += thread;
    pthread_mutex_unlock(&lock);
}

static void leave(struct stk_save *s)
{
    pthread_mutex_lock(&lock);
    struct stk_save **at = &busy;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}

/* A thread of ours ends, which has nobody to tell of an error. */
static void end_thread(const struct stk_err *err)
{
    pthread_mutex_lock(&lock);
    started--;
    if (err->code && !failed.code)
        failed = *err;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&lock);
}

/* ---- hidden names --------------------------------------------------------------------------- */

/* ".NAME", and what stands between it and the random end: the node is told apart. */
static void name_parts(const char *name, char hidden[STK_RANDOM_NAME], char mark[32])
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    snprintf(hidden, STK_RANDOM_NAME, ".%.199s", name);
    snprintf(mark, 32, ".saving.%08x.", (unsigned)stk_hash64(host, strlen(host)));
}

/* Whether a name is that of a save of `hidden`, of any node; *ours: of this one. */
static bool is_hidden(const char *name, const char *hidden, const char *mark, bool *ours)
{
    size_t n = strlen(hidden), m = strlen(mark);
    if (strlen(name) != n + m + 16 || memcmp(name, hidden, n) != 0 ||
        memcmp(name + n, ".saving.", 8) != 0 || name[n + m - 1] != '.')
        return false;
    *ours = memcmp(name + n, mark, m) == 0;
    return strspn(name + n + 8, "0123456789abcdef.") == m - 8 + 16;
}

static bool is_left_over(int dirfd, int fd, const char *name, bool ours)
{
    struct stat st, now;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return false;
    if (!ours && time(NULL) - st.st_mtime < ELSEWHERE_S)
        return false;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 &&
           fstatat(dirfd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st.st_ino &&
           now.st_dev == st.st_dev;
}

/* What killed saves of this name have left. Tidying: what cannot be removed stays. */
static void sweep(int dirfd, const char *name)
{
    char hidden[STK_RANDOM_NAME], mark[32];
    struct stk_dir d;
    bool ours;
    int rc = stk_dir_open_fd(&d, dirfd, name, NULL);
    name_parts(name, hidden, mark);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        if (!is_hidden(e->d_name, hidden, mark, &ours))
            continue;
        int fd = openat(dirfd, e->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (is_left_over(dirfd, fd, e->d_name, ours))
            (void)stk_unlink_at(dirfd, e->d_name, e->d_name, NULL);
        close(fd);
    }
    (void)stk_dir_end(&d, rc, NULL);
}

/* Makes it, locked. A file system without locks keeps what killed saves leave. */
static int make(struct part *p, const char *name, const char *path, struct stk_err *err)
{
    char hidden[STK_RANDOM_NAME], mark[32];
    struct stat st;
    name_parts(name, hidden, mark);
    for (int i = 0; i < TRIES; i++) {
        stk_random_name(p->tmp, hidden, mark);
        p->fd = stk_create_at(p->dirfd, p->tmp, STK_SHARED);
        if (p->fd < 0 && errno == EEXIST)
            continue;
        if (p->fd < 0 || fstat(p->fd, &st) < 0)
            break;
        bool taken = flock(p->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(p->fd, &st) == 0 && st.st_nlink)
            return 0;
        close(p->fd); /* another save took it for left over, just before the lock */
        p->fd = -1;
    }
    return stk_err_sys(err, path, "create");
}

static void drop(struct part *p, bool remove)
{
    if (p->fd >= 0 && remove)
        (void)stk_unlink_at(p->dirfd, p->tmp, p->tmp, NULL);
    if (p->fd >= 0)
        close(p->fd);
    if (p->dirfd >= 0)
        close(p->dirfd);
    p->fd = p->dirfd = -1;
}

/* ---- begin ---------------------------------------------------------------------------------- */

static void release(struct stk_save *s, bool keep_near)
{
    drop(&s->part, true);
    drop(&s->near, !keep_near);
    free(s->target);
    free(s->at);
    free(s);
}

/* Only a file can be replaced: a device in its place would be lost. */
static int check_target(struct stk_save *s, struct stk_err *err)
{
    struct stat st;
    bool there = fstatat(s->part.dirfd, s->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT)
        return stk_err_sys(err, s->target, "look at");
    if (!s->name[0] || (there && S_ISDIR(st.st_mode))) {
        errno = EISDIR;
        return stk_err_sys(err, s->target, "save");
    }
    if (there && !S_ISREG(st.st_mode))
        return stk_err_set(err, STK_E_UNSUPPORTED, s->target, -1,
                           "is not a file, so it cannot be replaced by one");
    return fstat(s->part.dirfd, &s->folder) == 0 ? 0 : stk_err_sys(err, s->target, "look at");
}

static int open_near(struct stk_save *s, const char *near, struct stk_err *err)
{
    s->near.dirfd = open(near, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->near.dirfd < 0)
        return stk_err_sys(err, near, "open");
    sweep(s->near.dirfd, s->name);
    return make(&s->near, s->name, near, err);
}

static char *path_of(const char *dir, size_t n, const char *name)
{
    char *folder = n ? strndup(dir, n) : strdup("."), *path;
    path = folder ? stk_path_join(folder, name) : NULL;
    free(folder);
    return path;
}

static int open_parts(struct stk_save *s, const char *path, const char *near, struct stk_err *err)
{
    const char *name;
    int rc = stk_own_resolve(path, &s->target, err);
    if (rc < 0)
        return rc;
    rc = stk_open_parent(s->target, &s->part.dirfd, &name, err);
    if (rc < 0)
        return rc;
    s->name = (char *)(uintptr_t)name;
    rc = check_target(s, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&lock);
    wait_for_others(s); /* else they pile up where storage is slower than the program */
    pthread_mutex_unlock(&lock);
    sweep(s->part.dirfd, s->name);
    rc = near ? open_near(s, near, err) : make(&s->part, s->name, s->target, err);
    if (rc < 0)
        return rc;
    s->at = near ? stk_path_join(near, s->near.tmp)
                 : path_of(s->target, (size_t)(s->name - s->target), s->part.tmp);
    return s->at ? 0 : stk_err_nomem(err, strlen(path));
}

int stk_save_begin(const char *path, const char *near, struct stk_save **save, struct stk_err *err)
{
    struct stk_save *s = path && save ? calloc(1, sizeof *s) : NULL;
    if (!path || !save)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "stk_save_begin: NULL");
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    (void)pthread_once(&once, prepare);
    s->part = s->near = (struct part){.dirfd = -1, .fd = -1};
    int rc = open_parts(s, path, near, err);
    if (!rc && !stk_live_add(s))
        rc = stk_err_nomem(err, sizeof *s);
    if (rc < 0)
        release(s, false);
    else
        *save = s;
    return rc;
}

int stk_save_fd(const struct stk_save *s)
{
    return !s ? -1 : s->near.fd >= 0 ? s->near.fd : s->part.fd;
}

const char *stk_save_path(const struct stk_save *s)
{
    return s ? s->at : "";
}

/* ---- commit --------------------------------------------------------------------------------- */

/* The file under its name: a writer that takes a path may have replaced the one that was made. */
static int open_written(const struct part *p, const char *at, int *fd, struct stk_err *err)
{
    struct stat st;
    int rc = stk_read_open(p->dirfd, p->tmp, O_NOFOLLOW, fd, &st, at, err);
    if (rc == 0 && st.st_uid != geteuid()) {
        close(*fd);
        rc = stk_err_set(err, STK_E_EXISTS, at, -1, "another user has replaced it");
    }
    return rc;
}

static int copy(int from, const char *at, const struct stk_save *s, struct stk_err *err)
{
    uint8_t *bytes = malloc(COPY_BYTES);
    int rc = bytes ? 0 : stk_err_nomem(err, COPY_BYTES);
    size_t got = COPY_BYTES;
    for (uint64_t off = 0; !rc && got == COPY_BYTES; off += got) {
        rc = stk_pread_full(from, bytes, COPY_BYTES, off, &got, at, err);
        rc = rc ? rc : stk_pwrite_full(s->part.fd, bytes, got, off, s->target, err);
    }
    free(bytes);
    return rc;
}

/* To the folder of the target, if it is not there. *from: a descriptor of what to publish. */
static int bring(struct stk_save *s, int *from, struct stk_err *err)
{
    if (s->near.fd < 0)
        return open_written(&s->part, s->at, from, err);
    int near = -1, rc = open_written(&s->near, s->at, &near, err);
    rc = rc ? rc : make(&s->part, s->name, s->target, err);
    rc = rc ? rc : copy(near, s->at, s, err);
    if (near >= 0)
        close(near);
    *from = rc ? -1 : fcntl(s->part.fd, F_DUPFD_CLOEXEC, 0);
    return rc || *from >= 0 ? rc : stk_err_sys(err, s->target, "save");
}

static int publish(struct stk_save *s, int from, struct stk_err *err)
{
    struct stat old;
    if (fstatat(s->part.dirfd, s->name, &old, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(old.st_mode))
        (void)fchmod(from, old.st_mode & 07777); /* who may read it stays as it was */
    if (fsync(from) < 0)
        return stk_err_sys(err, s->target, "fsync");
    if (stk_rename_at(s->part.dirfd, s->part.tmp, s->part.dirfd, s->name) < 0)
        return stk_err_sys(err, s->target, "rename into place");
    close(s->part.fd);
    s->part.fd = -1;
    return stk_fsync_dir(s->part.dirfd, s->target, err);
}

/* What cannot be copied stays where it was written, and the error says so. */
static int commit(struct stk_save *s, struct stk_err *err)
{
    int from = -1, rc = bring(s, &from, err);
    rc = rc ? rc : publish(s, from, err);
    if (from >= 0)
        close(from);
    if (rc < 0 && s->near.fd >= 0)
        rc = stk_err_wrap(err, rc, "copy %s, which stays until the next save", s->at);
    leave(s);
    release(s, rc < 0);
    return rc;
}

int stk_save_commit(struct stk_save *s, struct stk_err *err)
{
    if (!stk_live_end(s))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "stk_save_commit: it has ended");
    enter(s, false);
    return commit(s, err);
}

void stk_save_abort(struct stk_save *s)
{
    if (stk_live_end(s))
        release(s, false);
}

/* ---- on a thread ---------------------------------------------------------------------------- */

static void *run(void *save)
{
    struct stk_err err = {0};
    (void)commit(save, &err);
    end_thread(&err);
    return NULL;
}

int stk_save_start(struct stk_save *s, struct stk_err *err)
{
    if (!stk_live_end(s))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "stk_save_start: it has ended");
    pthread_t thread;
    enter(s, true);
    if (stk_thread_start(&thread, run, s) == 0) {
        pthread_detach(thread);
        return 0;
    }
    int rc = commit(s, err); /* no thread is left: now, then */
    end_thread(&(struct stk_err){0});
    return rc;
}

int stk_saves_wait(struct stk_err *err)
{
    wait_for_started();
    pthread_mutex_lock(&lock);
    int rc = failed.code;
    if (rc && err)
        *err = failed;
    failed.code = 0;
    pthread_mutex_unlock(&lock);
    return rc;
}
