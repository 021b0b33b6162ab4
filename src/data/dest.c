/*
 * dest.c - claims DST.partial, and swaps it with DST at the end. Whatever is killed when, DST is
 * the old dataset, the new one, or nothing.
 */
#include "data/dest.h"
#include "base/file.h"
#include "data/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PLAN_NAME "pack.plan"
#define PLAN_MAX  (1u << 20)

/* 1: not there, or an empty folder; 0: something is in it; negative: cannot tell. */
static int is_vacant(const char *path, struct stk_err *err)
{
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT ? 1 : errno == ENOTDIR ? 0 : stk_err_sys(err, path, "open folder");
    int vacant = 1;
    for (struct dirent *e; vacant && (e = readdir(d));)
        vacant = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
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

static int check_final(const struct stk_dest *d, bool force, struct stk_err *err)
{
    int vacant = is_vacant(d->final, err);
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

/* What is in DST.partial: nothing, an unfinished run, an old dataset that was swapped out, or
 * (then we keep off) something else. */
static int check_partial(const struct stk_dest *d, struct stk_err *err)
{
    int vacant = is_vacant(d->partial, err);
    if (vacant != 0)
        return vacant < 0 ? vacant : 0;
    if (has_entry(d->partial, PLAN_NAME) || has_entry(d->partial, STK_MANIFEST_NAME))
        return 0;
    return stk_err_set(err, STK_E_EXISTS, d->partial, -1,
                       "in the way, and not left by an unfinished pack; move it away");
}

static bool same_plan(const struct stk_dest *d, const char *plan)
{
    struct stk_buf b = STK_BUF_INIT;
    char *path = stk_path_join(d->partial, PLAN_NAME);
    bool same = path && stk_read_file(path, PLAN_MAX, &b, NULL) == 0 && b.len == strlen(plan) &&
                memcmp(b.data, plan, b.len) == 0;
    stk_buf_release(&b);
    free(path);
    return same;
}

static int lock_partial(struct stk_dest *d, struct stk_err *err)
{
    d->lock_fd = open(d->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->lock_fd < 0)
        return stk_err_sys(err, d->partial, "open folder");
    if (flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return stk_err_set(err, STK_E_EXISTS, d->partial, -1,
                           "another stoker is writing this dataset");
    return 0;
}

static int write_plan(const struct stk_dest *d, const char *plan, struct stk_err *err)
{
    char *path = stk_path_join(d->partial, PLAN_NAME);
    int rc = path ? stk_write_file_atomic(path, plan, strlen(plan), err)
                  : stk_err_nomem(err, strlen(d->partial));
    free(path);
    return rc;
}

/* Empties the folder but keeps it (and our lock on it). */
static int empty_partial(const struct stk_dest *d, struct stk_err *err)
{
    DIR *dir = opendir(d->partial);
    if (!dir)
        return stk_err_sys(err, d->partial, "open folder");
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(dir));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char *path = stk_path_join(d->partial, e->d_name);
        rc = path ? stk_remove_tree(path, err) : stk_err_nomem(err, 1);
        free(path);
    }
    closedir(dir);
    return rc;
}

int stk_dest_open(struct stk_dest *d, const char *dst, bool force, bool resume, const char *plan,
                  struct stk_err *err)
{
    *d = (struct stk_dest){.lock_fd = -1};
    size_t n = strlen(dst);
    while (n > 1 && dst[n - 1] == '/')
        n--;
    d->final = strndup(dst, n);
    if (!d->final || asprintf(&d->partial, "%s.partial", d->final) < 0) {
        d->partial = NULL;
        return stk_err_nomem(err, n);
    }
    int rc = check_final(d, force, err);
    if (rc == 0)
        rc = check_partial(d, err);
    if (rc == 0)
        rc = stk_mkdirs(d->partial, err);
    if (rc == 0)
        rc = lock_partial(d, err);
    if (rc < 0)
        return rc;
    bool unfinished = has_entry(d->partial, PLAN_NAME);
    d->resumed = resume && unfinished && same_plan(d, plan);
    if (resume && unfinished && !d->resumed)
        return stk_err_set(err, STK_E_STALE, d->partial, -1,
                           "the unfinished run there had another source or other options; without "
                           "--resume it is started over");
    if (d->resumed)
        return 0;
    rc = empty_partial(d, err);
    return rc < 0 ? rc : write_plan(d, plan, err);
}

/* Puts partial in final's place, which holds a dataset. */
static int swap(const struct stk_dest *d, struct stk_err *err)
{
    if (renameat2(AT_FDCWD, d->partial, AT_FDCWD, d->final, RENAME_EXCHANGE) == 0)
        return stk_remove_tree(d->partial, err);
    if (errno != EINVAL && errno != ENOSYS)
        return stk_err_sys(err, d->final, "rename into place");
    char *old = NULL; /* a file system that cannot exchange: for a moment there is none */
    if (asprintf(&old, "%s.old.partial", d->final) < 0)
        return stk_err_nomem(err, strlen(d->final));
    int rc = rename(d->final, old) < 0 || rename(d->partial, d->final) < 0
                 ? stk_err_sys(err, d->final, "rename into place")
                 : stk_remove_tree(old, err);
    free(old);
    return rc;
}

int stk_dest_publish(struct stk_dest *d, struct stk_err *err)
{
    char *plan = stk_path_join(d->partial, PLAN_NAME);
    if (plan)
        (void)unlink(plan); /* the manifest is there by now and speaks for the folder */
    free(plan);
    int vacant = is_vacant(d->final, err);
    int rc = vacant < 0 ? vacant : 0;
    if (vacant == 0)
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
