/*
 * dress.c - what of a copy is not in its ledger: folders with their times, and the index that is
 * beside the source.
 */
#include "tier/source.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "tier/priv.h"

#define INDEX_MAX (UINT64_C(1) << 40)

/* Opens NAME/dir in the copy, making what is missing. */
static int enter(const struct stk_source *s, const struct stk_tier_set *set, const char *dir)
{
    char part[NAME_MAX + 1];
    int fd = stk_enter_at(stk_tier_set_folder(set), s->name);
    while (fd >= 0 && *dir) {
        size_t n = strcspn(dir, "/");
        snprintf(part, sizeof part, "%.*s", (int)n, dir);
        int next = stk_enter_at(fd, part);
        close(fd);
        fd = next;
        dir += n;
        dir += strspn(dir, "/");
    }
    return fd;
}

/* An index knows the times of its folders, and is used only if they agree. */
int stk_source_folders(const struct stk_source *s, struct stk_tier_set *set, bool times,
                       struct stk_err *err)
{
    for (uint64_t i = 0; i < s->ndirs; i++) {
        const struct stk_source_dir *d = &s->dir[i];
        struct timespec t[2] = {{.tv_nsec = UTIME_OMIT}, stk_time_of_ns(d->mtime_ns)};
        int fd = enter(s, set, d->name);
        bool done =
            fd >= 0 && (!times || (fchmod(fd, d->mode | 0700) == 0 && futimens(fd, t) == 0));
        int rc = done ? 0 : stk_err_sys(err, d->name, "make the folder of the copy");
        if (fd >= 0)
            close(fd);
        if (rc)
            return rc;
    }
    return 0;
}

/* The index beside the source becomes that beside the copy. Without it, one is built. */
static int copy_index(const struct stk_source *s, const struct stk_tier_set *set,
                      struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    char *name = NULL;
    int rc = 0;
    if (!s->index || stk_read_file(s->index, INDEX_MAX, &b, NULL) < 0)
        return 0;
    if (asprintf(&name, "%s.stkidx", s->name) < 0)
        rc = stk_err_nomem(err, strlen(s->name));
    else
        rc =
            stk_write_file_at(stk_tier_set_folder(set), name, b.data, b.len, STK_PRIVATE, name, err);
    free(name);
    stk_buf_release(&b);
    return rc;
}

int stk_source_publish(const struct stk_source *s, struct stk_tier_set *set, char **path,
                       struct stk_err *err)
{
    int rc = copy_index(s, set, err);
    rc = rc ? rc : stk_source_folders(s, set, true, err);
    return rc ? rc : stk_tier_publish(set, path, err);
}
