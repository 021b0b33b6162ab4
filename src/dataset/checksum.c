/* checksum.c - the checksum of a file, or of a folder with everything in it. */
#include "dataset/checksum.h"
#include "base/beneath.h"
#include "base/file.h"
#include "base/hash.h"
#include "dataset/walk.h"
#include "format/format.h"
#include "io/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int hash_one(int dirfd, bool outside, const char *name, uint64_t *hash, uint64_t *size,
                    const char *path, struct stk_err *err)
{
    int fd = stk_file_open_at(dirfd, outside, name, path, size, err);
    if (fd < 0)
        return fd;
    int rc = stk_hash_fd(fd, hash, size, path, err);
    close(fd);
    return rc;
}

/* Over name, size and content checksum of every file, in walking order. */
static int hash_files(struct stk_walk *w, uint64_t *size, uint64_t *hash, struct stk_err *err)
{
    const void *files = NULL, *names = NULL;
    struct stk_hash h;
    stk_hash_init(&h);
    int rc = stk_spool_map(&w->files, &files, err);
    if (rc == 0)
        rc = stk_spool_map(&w->names, &names, err);
    *size = 0;
    for (uint64_t i = 0; rc == 0 && i < w->nfiles; i++) {
        const struct stk_index_file *f = (const struct stk_index_file *)files + i;
        const char *name = (const char *)names + f->name_off;
        uint64_t one[2];
        char *full = stk_walk_path(w, name, f->name_len);
        rc = full ? hash_one(w->rootfd, w->outside, name, &one[0], &one[1], full, err)
                  : stk_err_nomem(err, f->name_len);
        stk_hash_update(&h, name, f->name_len + 1);
        stk_hash_update(&h, one, sizeof one);
        *size += rc == 0 ? one[1] : 0;
        free(full);
    }
    *hash = stk_hash_final(&h);
    if (rc == 0)
        rc = stk_spool_intact(&w->files, err);
    if (rc == 0)
        rc = stk_spool_intact(&w->names, err);
    return rc;
}

static int tree_checksum(int fd, bool outside, uint64_t *size, uint64_t *hash, const char *path,
                         struct stk_err *err)
{
    struct stk_walk w;
    struct stk_problems problems = {0};
    struct stk_walk_options o = {.rootfd = fd, .outside = outside, .want = stk_format_tree()->name};
    int rc = stk_walk_with(&w, path, &o, &problems, err);
    if (rc == 0 && problems.count)
        rc = stk_err_set(err, STK_E_SYS, path, -1, "%s", problems.item[0].what);
    if (rc == 0)
        rc = hash_files(&w, size, hash, err);
    stk_problems_release(&problems);
    stk_walk_release(&w);
    return rc;
}

int stk_content_checksum(int dirfd, bool outside, const char *name, uint64_t *size, uint64_t *hash,
                     const char *path, struct stk_err *err)
{
    int dir = stk_open_by_rule(dirfd, outside, name, O_RDONLY | O_DIRECTORY), rc;
    if (dir < 0)
        return hash_one(dirfd, outside, name, hash, size, path, err);
    rc = tree_checksum(dir, outside, size, hash, path, err);
    close(dir);
    return rc;
}

int stk_content_compare(int dirfd, bool outside, const struct stk_manifest_file *f,
                        const char *path, uint64_t *size, struct stk_err *err)
{
    struct stat st;
    uint64_t hash;
    *size = 0;
    if (!outside && stk_stat_beneath(dirfd, f->name, &st) < 0 && errno == EXDEV)
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "a link that leads outside the dataset");
    int rc = stk_content_checksum(dirfd, outside, f->name, size, &hash, path, err);
    if (rc == 0 && *size != f->size)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "it has %llu bytes, the manifest says %llu",
                         (unsigned long long)*size, (unsigned long long)f->size);
    else if (rc == 0 && hash != f->xxh64)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1,
                         "its checksum is not the one in the manifest");
    return rc;
}
