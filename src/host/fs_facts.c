/* fs_facts.c - asks a file system about itself, in a child. */
#include "host/fs_facts.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/helper.h"
#include "base/own.h"
#include "host/fs.h"
#include "host/mounts.h"
#include "host/quota.h"
#include "host/root.h"

#define LIMIT_S 5.0

const char *stk_reach_name(enum stk_reach reach)
{
    static const char *const names[] = {"not known", "local disk", "memory", "shared"};
    return names[reach];
}

/* ---- in the child ------------------------------------------------------------------------- */

struct question {
    const char *path;
    bool nearest, no_purge;
};

enum stk_reach stk_reach_of(const struct stk_fs *fs)
{
    if (!fs->magic)
        return STK_REACH_UNKNOWN;
    return fs->memory ? STK_REACH_MEMORY : fs->network ? STK_REACH_SHARED : STK_REACH_LOCAL;
}

/* FUSE may be anything, from a disk of this node to another continent. */
static enum stk_reach reach_of_fuse(const char *type)
{
    return strcmp(type, "fuseblk") == 0 ? STK_REACH_LOCAL : STK_REACH_UNKNOWN;
}

/* What is written to an overlay goes to its upper folder, on diskless nodes into memory. */
static enum stk_reach reach_of_overlay(const struct stk_mount *m, enum stk_reach reach)
{
    struct statfs sf;
    if (!m->upper[0] || statfs(m->upper, &sf) != 0)
        return reach;
    return stk_reach_of(stk_fs_by_magic((uint64_t)sf.f_type));
}

static void take_kind(const struct stk_mount *m, const struct statfs *sf, struct stk_fs_facts *f)
{
    const struct stk_fs *fs = stk_fs_by_magic((uint64_t)sf->f_type);
    const struct stk_fs *named = m->type[0] ? stk_fs_by_name(m->type) : NULL;
    bool by_mount = m->type[0] && (fs->fuse || !fs->magic || stk_host_is_captured());
    if (by_mount && named)
        fs = named;
    snprintf(f->fs, sizeof f->fs, "%s", by_mount ? m->type : fs->magic ? fs->name : "");
    f->reach = fs->fuse ? reach_of_fuse(m->type) : stk_reach_of(fs);
    if (fs->overlay)
        f->reach = reach_of_overlay(m, f->reach);
    f->stripes = fs->stripes;
}

static void take_space(struct stk_fs_facts *f)
{
    struct statvfs v;
    if (statvfs(f->path, &v) != 0)
        return;
    if (v.f_blocks) { /* 0: it holds no files of its own, as /proc */
        f->total_bytes = (uint64_t)v.f_blocks * v.f_frsize;
        f->free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    }
    if (v.f_files) { /* 0: inodes are made as needed */
        f->total_files = v.f_files;
        f->free_files = v.f_favail;
    }
    f->read_only = v.f_flag & ST_RDONLY;
}

static void take_owner(const char *path, struct stk_fs_facts *f)
{
    struct stat st, link;
    if (stat(f->path, &st) != 0)
        return;
    f->owner = st.st_uid;
    f->mode = st.st_mode;
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    f->folder = S_ISDIR(st.st_mode);
    f->writable = f->folder && access(f->path, W_OK | X_OK) == 0;
    f->foreign_link =
        lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && !stk_trusts(link.st_uid, geteuid());
}

/* The file system itself first: if what follows hangs, that much is known. */
static void take_all(const char *path, bool purge, struct stk_fs_facts *f)
{
    static struct stk_mount m;
    struct statfs sf;
    if (stk_mount_of(f->path, &m))
        snprintf(f->point, sizeof f->point, "%s", m.point);
    snprintf(f->fs, sizeof f->fs, "%s", m.type);
    if (statfs(f->path, &sf) == 0)
        take_kind(&m, &sf, f);
    take_space(f);
    take_owner(path, f);
    if (purge)
        (void)stk_purge_rule(f->path, &f->purge);
    f->quota_told = f->stripes ? stk_lustre_quota(f->path, &f->quota_bytes, &f->quota_files)
                               : stk_quota_left(m.source, &f->quota_bytes, &f->quota_files);
    if (f->stripes)
        (void)stk_lustre_stripe(f->path, &f->stripe);
}

/* path, or what is left of it when missing names are cut off its end. */
static bool resolve(const char *path, bool nearest, char *out)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    while (!realpath(part, out)) {
        char *slash = strrchr(part, '/');
        if (!nearest || errno != ENOENT || !slash)
            return false;
        slash[slash == part] = '\0';
    }
    return true;
}

static int look_at(void *user, void *answer)
{
    const struct question *q = user;
    struct stk_fs_facts *f = answer;
    f->total_bytes = f->free_bytes = f->total_files = f->free_files = UINT64_MAX;
    f->quota_bytes = f->quota_files = UINT64_MAX;
    if (!resolve(q->path, q->nearest, f->path))
        return errno;
    take_all(q->path, !q->no_purge, f);
    return 0;
}

/* ---- in the parent ------------------------------------------------------------------------ */

/* A file system that does not answer: mountinfo still says what it is. */
static void take_mount(struct stk_fs_facts *f)
{
    static struct stk_mount m;
    if (f->fs[0] || f->path[0] != '/' || !stk_mount_of(f->path, &m))
        return;
    const struct stk_fs *fs = stk_fs_by_name(m.type);
    snprintf(f->fs, sizeof f->fs, "%s", m.type);
    snprintf(f->point, sizeof f->point, "%s", m.point);
    f->reach = fs ? stk_reach_of(fs) : STK_REACH_UNKNOWN;
}

int stk_fs_facts(const char *path, const struct stk_fs_look *look, struct stk_fs_facts *out)
{
    char absolute[PATH_MAX], cwd[PATH_MAX];
    if (path[0] != '/' && getcwd(cwd, sizeof cwd)) {
        int n = snprintf(absolute, sizeof absolute, "%s/%s", cwd, path);
        path = n > 0 && (size_t)n < sizeof absolute ? absolute : path;
    }
    struct question q = {path, look && look->nearest, look && look->no_purge};
    const struct stk_limit limit = {look && look->limit_s > 0 ? look->limit_s : LIMIT_S,
                                    look ? look->stop : NULL, look ? look->user : NULL};
    int wrong = stk_helper_ask(look_at, &q, &limit, out, sizeof *out);
    if (!out->path[0])
        snprintf(out->path, sizeof out->path, "%s", path);
    if (wrong) {
        take_mount(out);
        if (!out->total_bytes)
            out->total_bytes = out->free_bytes = out->total_files = out->free_files = UINT64_MAX;
        out->quota_told = false;
        out->quota_bytes = out->quota_files = UINT64_MAX;
    }
    return out->error = wrong;
}
