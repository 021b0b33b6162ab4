/*
 * dest.c - claims DST.partial, and swaps it with DST at the end. Whatever is killed when, DST is
 * the old dataset, the new one, or nothing. Of what makes DST.partial known as ours (the plan, the
 * manifest) one is there first and goes last, so that the next run can clear away what is left.
 */
#include "data/dest.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAN_NAME  "pack.plan"
#define PLAN_MAX   (1u << 20)
#define PLAN_FORCE "replaces the dataset there\n" /* last line of the plan of a --force run */

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* What a run that was killed may leave in the folder besides shards. */
static bool is_temporary(const char *name)
{
    return strstr(name, ".partial") != NULL;
}

/* 1: not there, or an empty folder; 0: something is in it; negative: cannot tell. */
static int is_vacant(const char *path, struct stk_err *err)
{
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT ? 1 : errno == ENOTDIR ? 0 : stk_err_sys(err, path, "open folder");
    int vacant = 1;
    for (struct dirent *e; vacant && (e = readdir(d));)
        vacant = is_dot(e->d_name);
    closedir(d);
    return vacant;
}

static bool has_entry(const char *dir, const char *name)
{
    char *path = stk_path_join(dir, name);
    struct stat sb;
    bool there = path && stat(path, &sb) == 0;
    free(path);
    return there;
}

/* A folder that something is mounted on cannot be renamed: better said before the work is done. */
static int check_mount(const struct stk_dest *d, const struct stat *sb, struct stk_err *err)
{
    char *up = stk_path_join(d->final, "..");
    struct stat parent;
    bool mounted = up && stat(up, &parent) == 0 && parent.st_dev != sb->st_dev;
    free(up);
    return mounted ? stk_err_set(err, STK_E_EXISTS, d->final, -1,
                                 "a file system is mounted here, so the folder cannot be put in "
                                 "place as a whole; choose a folder below it")
                   : 0;
}

static int check_final(const struct stk_dest *d, bool force, struct stk_err *err)
{
    struct stat sb;
    if (stat(d->final, &sb) < 0)
        return errno == ENOENT ? 0 : stk_err_sys(err, d->final, "open folder");
    if (!S_ISDIR(sb.st_mode))
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "a file is there already, and a dataset is a folder; choose another "
                           "destination");
    int rc = check_mount(d, &sb, err), vacant = rc < 0 ? rc : is_vacant(d->final, err);
    if (vacant != 0)
        return vacant < 0 ? vacant : 0;
    struct stk_manifest m;
    int ours = stk_manifest_read(d->final, &m, NULL);
    if (ours == 1)
        stk_manifest_release(&m);
    if (ours == 0)
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "it holds files and no manifest of ours: somebody's data, not to be "
                           "replaced; choose another destination");
    if (!force)
        return stk_err_set(err, STK_E_EXISTS, d->final, -1,
                           "a dataset is there already; --force replaces it when the new one is "
                           "whole");
    return 0;
}

/* Whether all that is in DST.partial are files no run has finished. */
static bool only_temporary(const char *path)
{
    DIR *d = opendir(path);
    bool only = d != NULL;
    for (struct dirent *e; only && (e = readdir(d));)
        only = is_dot(e->d_name) || is_temporary(e->d_name);
    if (d)
        closedir(d);
    return only;
}

/* What is in DST.partial: nothing, an unfinished run, an old dataset that was swapped out, or
 * (then we keep off) something else. */
static int check_partial(const struct stk_dest *d, struct stk_err *err)
{
    int vacant = is_vacant(d->partial, err);
    if (vacant != 0)
        return vacant < 0 ? vacant : 0;
    if (has_entry(d->partial, PLAN_NAME) || has_entry(d->partial, STK_MANIFEST_NAME) ||
        only_temporary(d->partial))
        return 0;
    if (access(d->partial, F_OK) < 0)
        return 0; /* it got its final name while we looked: check_final() sees it */
    return stk_err_set(err, STK_E_EXISTS, d->partial, -1,
                       "in the way, and not left by an unfinished pack; move it away");
}

/* Whether the plan of the unfinished run is this one; *force: that run was given --force. */
static bool same_plan(const struct stk_dest *d, const char *plan, bool *force)
{
    struct stk_buf b = STK_BUF_INIT;
    char *path = stk_path_join(d->partial, PLAN_NAME);
    bool same = path && stk_read_file(path, PLAN_MAX, &b, NULL) == 0;
    size_t n = strlen(plan), tail = strlen(PLAN_FORCE);
    *force = same && b.len == n + tail && memcmp(b.data + n, PLAN_FORCE, tail) == 0;
    same = same && (b.len == n || *force) && memcmp(b.data, plan, n) == 0;
    stk_buf_release(&b);
    free(path);
    return same;
}

static int write_plan(const struct stk_dest *d, const char *plan, bool force, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_puts(&b, plan);
    if (force)
        stk_buf_puts(&b, PLAN_FORCE);
    char *path = stk_path_join(d->partial, PLAN_NAME);
    int rc = path ? stk_buf_check(&b, err) : stk_err_nomem(err, strlen(d->partial));
    if (rc == 0)
        rc = stk_write_file_atomic(path, b.data, b.len, err);
    stk_buf_release(&b);
    free(path);
    return rc;
}

/* ---- clearing away ---- */

static bool is_mark(const char *name)
{
    return strcmp(name, PLAN_NAME) == 0 || strcmp(name, STK_MANIFEST_NAME) == 0;
}

/* Removes what is in the folder but its marks; or only what was not finished. */
static int clear(const char *dir, bool temporary_only, struct stk_err *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return stk_err_sys(err, dir, "open folder");
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        if (is_dot(e->d_name) || is_mark(e->d_name) || (temporary_only && !is_temporary(e->d_name)))
            continue;
        char *path = stk_path_join(dir, e->d_name);
        rc = path ? stk_remove_tree(path, err) : stk_err_nomem(err, 1);
        free(path);
    }
    closedir(d);
    return rc;
}

static int clear_mark(const char *dir, const char *name, struct stk_err *err)
{
    char *path = stk_path_join(dir, name);
    int rc = path ? 0 : stk_err_nomem(err, strlen(dir));
    if (rc == 0 && unlink(path) < 0 && errno != ENOENT)
        rc = stk_err_sys(err, path, "remove");
    free(path);
    return rc;
}

/* Removes a dataset that was swapped out. Its place counts as ours until it is gone. */
static int remove_dataset(const char *dir, struct stk_err *err)
{
    int rc = clear(dir, false, err);
    if (rc == 0)
        rc = clear_mark(dir, STK_MANIFEST_NAME, err);
    return rc < 0 ? rc : stk_remove_tree(dir, err);
}

/* ---- claiming ---- */

static char *old_place(const struct stk_dest *d)
{
    char *old = NULL;
    return asprintf(&old, "%s.old.partial", d->final) < 0 ? NULL : old;
}

/* A run killed where a file system cannot exchange two folders: the old dataset gets its name
 * back, or goes if the new one made it. */
static int settle_old(const struct stk_dest *d, struct stk_err *err)
{
    char *old = old_place(d);
    if (!old)
        return stk_err_nomem(err, strlen(d->final));
    int rc = 0;
    if (!has_entry(old, STK_MANIFEST_NAME))
        (void)rmdir(old);
    else if (has_entry(d->final, STK_MANIFEST_NAME))
        rc = remove_dataset(old, err);
    else if (rename(old, d->final) < 0)
        rc = stk_err_sys(err, old, "put the old dataset back in place");
    free(old);
    return rc;
}

static bool same_folder(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* A folder that is at path, locked. Negative: somebody else has it (STK_E_EXISTS), or worse. */
static int lock_folder(const char *path, struct stk_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return stk_err_sys(err, path, "open folder");
    /* Where there are no locks at all we go on without. */
    bool taken = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
    /* What was locked may just have got its final name: then it is the other one's. */
    if (!taken && same_folder(fd, path))
        return fd;
    close(fd);
    return stk_err_set(err, STK_E_EXISTS, path, -1, "another stoker is writing this dataset");
}

/* Names that rename() would not follow: a link, ".", "..". */
static char *resolve(const char *dst)
{
    size_t n = strlen(dst);
    while (n > 1 && dst[n - 1] == '/')
        n--;
    char *path = strndup(dst, n);
    const char *base = path ? stk_base_name(path) : NULL;
    struct stat sb;
    if (path && (is_dot(base) || (lstat(path, &sb) == 0 && S_ISLNK(sb.st_mode)))) {
        char *real = realpath(path, NULL);
        if (real) {
            free(path);
            path = real;
        }
    }
    return path;
}

/* The real path of dst, or of the folder it will be in. malloc'ed, NULL: cannot tell. */
static char *real_part(const char *dst, bool *whole)
{
    char *copy = strdup(dst), *real = copy ? realpath(copy, NULL) : NULL;
    *whole = real != NULL;
    for (bool last = false; copy && !real && !last;) {
        char *slash = strrchr(copy, '/');
        last = !slash || slash == copy;
        if (!last)
            *slash = '\0';
        real = realpath(!slash ? "." : last ? "/" : copy, NULL);
    }
    free(copy);
    return real;
}

int stk_dest_apart(const char *src, const char *dst, struct stk_err *err)
{
    struct stat sb;
    bool whole, inside = false;
    char *from = stat(src, &sb) == 0 && S_ISDIR(sb.st_mode) ? realpath(src, NULL) : NULL;
    char *to = from ? real_part(dst, &whole) : NULL;
    if (to) {
        size_t n = strcmp(from, "/") == 0 ? 0 : strlen(from);
        bool same = strcmp(from, to) == 0;
        inside = same ? !whole : strncmp(from, to, n) == 0 && to[n] == '/';
    }
    free(from);
    free(to);
    return inside ? stk_err_set(err, STK_E_USAGE, dst, -1,
                                "the destination is inside the source; choose one beside it")
                  : 0;
}

static int claim(struct stk_dest *d, struct stk_err *err)
{
    int rc = check_final(d, d->force, err);
    if (rc == 0)
        rc = check_partial(d, err);
    if (rc == 0)
        rc = stk_mkdirs(d->partial, err);
    if (rc == 0)
        rc = d->lock_fd = lock_folder(d->partial, err);
    if (rc < 0)
        return rc;
    rc = settle_old(d, err);
    if (rc == 0) /* again: another run may have ended between the look and the lock */
        rc = check_final(d, d->force, err);
    if (rc < 0)
        (void)rmdir(d->partial); /* if nothing is in it */
    return rc;
}

void stk_dest_plan_id(const char *plan, char *to)
{
    snprintf(to, 17, "%016llx", (unsigned long long)stk_hash64(plan, strlen(plan)));
}

/* The dataset at final is what the plan makes. */
static bool is_whole(const struct stk_dest *d, const char *plan)
{
    struct stk_manifest m = {0};
    char id[17];
    stk_dest_plan_id(plan, id);
    bool whole = stk_manifest_read(d->final, &m, NULL) == 1 && m.plan && strcmp(m.plan, id) == 0;
    stk_manifest_release(&m);
    return whole;
}

int stk_dest_open(struct stk_dest *d, const char *dst, bool force, bool resume, const char *plan,
                  struct stk_err *err)
{
    *d = (struct stk_dest){.lock_fd = -1, .force = force};
    d->final = resolve(dst);
    if (!d->final || asprintf(&d->partial, "%s.partial", d->final) < 0) {
        d->partial = NULL;
        return stk_err_nomem(err, strlen(dst));
    }
    bool unfinished = has_entry(d->partial, PLAN_NAME), forced;
    d->resumed = resume && unfinished && same_plan(d, plan, &forced);
    d->force = force || (d->resumed && forced);
    d->whole = resume && !unfinished && is_whole(d, plan);
    if (d->whole)
        return 0;
    int rc = claim(d, err);
    if (rc < 0)
        return rc;
    if (resume && unfinished && !d->resumed)
        return stk_err_set(err, STK_E_STALE, d->partial, -1,
                           "the unfinished run there had another source or other options; without "
                           "--resume it is started over");
    rc = clear(d->partial, d->resumed, err);
    if (rc < 0 || d->resumed)
        return rc;
    rc = write_plan(d, plan, force, err); /* before the manifest of an old dataset goes */
    return rc < 0 ? rc : clear_mark(d->partial, STK_MANIFEST_NAME, err);
}

/* ---- publishing ---- */

/* The dataset that was swapped out, unless a new run has taken the place already. */
static int drop_partial(const struct stk_dest *d, struct stk_err *err)
{
    int fd = lock_folder(d->partial, NULL);
    if (fd < 0)
        return 0;
    int rc = remove_dataset(d->partial, err);
    close(fd);
    return rc;
}

/* Where a file system cannot exchange: for a moment there is none. */
static int swap_in_steps(const struct stk_dest *d, struct stk_err *err)
{
    char *old = old_place(d);
    if (!old)
        return stk_err_nomem(err, strlen(d->final));
    int rc = rename(d->final, old) < 0 ? stk_err_sys(err, d->final, "rename out of the way") : 0;
    if (rc == 0 && rename(d->partial, d->final) < 0) {
        rc = stk_err_sys(err, d->final, "rename into place");
        (void)rename(old, d->final);
    } else if (rc == 0) {
        rc = remove_dataset(old, err);
    }
    free(old);
    return rc;
}

/* Puts partial in final's place, which holds a dataset. */
static int swap(const struct stk_dest *d, struct stk_err *err)
{
    if (renameat2(AT_FDCWD, d->partial, AT_FDCWD, d->final, RENAME_EXCHANGE) == 0)
        return drop_partial(d, err);
    if (errno != EINVAL && errno != ENOSYS)
        return stk_err_sys(err, d->final, "rename into place");
    return swap_in_steps(d, err);
}

int stk_dest_publish(struct stk_dest *d, struct stk_err *err)
{
    int rc = check_final(d, d->force, err); /* what is there now may be new */
    int vacant = rc < 0 ? rc : is_vacant(d->final, err);
    /* The manifest is there by now and speaks for the folder. */
    rc = vacant < 0 ? vacant : clear_mark(d->partial, PLAN_NAME, err);
    if (rc == 0 && vacant == 0)
        rc = swap(d, err);
    else if (rc == 0 && rename(d->partial, d->final) < 0)
        rc = stk_err_sys(err, d->final, "rename into place");
    return rc < 0 ? rc : stk_fsync_dir_of(d->final, err);
}

void stk_dest_release(struct stk_dest *d)
{
    if (d->lock_fd >= 0)
        close(d->lock_fd);
    free(d->final);
    free(d->partial);
    *d = (struct stk_dest){.lock_fd = -1};
}
