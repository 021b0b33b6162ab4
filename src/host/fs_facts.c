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
#include <sys/quota.h>
#include <fcntl.h>

#include "base/helper.h"
#include "base/own.h"
#include "host/fs.h"
#include "host/root.h"
#include "base/dir.h"

/* ---- rules of purging ------------------------------------------------------------------------ */

/* Length of folder if path is in it; 0: it is not. */
static size_t holds(const char *folder, size_t n, const char *path)
{
    while (n > 1 && folder[n - 1] == '/')
        n--;
    if (n == 1 && folder[0] == '/')
        return 1;
    return n && strncmp(folder, path, n) == 0 && (path[n] == '/' || !path[n]) ? n : 0;
}

/* ---- $STOKER_PURGE_DAYS ------------------------------------------------------------------- */

/* False: it says nothing about this path. */
static bool told_by_user(const char *path, struct stk_purge *p)
{
    const char *list = getenv("STOKER_PURGE_DAYS");
    size_t best = 0;
    bool found = false;
    for (const char *at = list && *list ? list : NULL; at; at = strchr(at, ':')) {
        at += *at == ':';
        const char *end = at + strcspn(at, ":"), *sign = memchr(at, '=', (size_t)(end - at));
        size_t n = sign ? holds(at, (size_t)(sign - at), path) : 0;
        char *after;
        double days = strtod(sign ? sign + 1 : at, &after);
        if (after != end || !(days >= 0) || (sign && !n) || n < best)
            continue;
        best = n;
        found = true;
        p->days = days;
        snprintf(p->from, sizeof p->from, "STOKER_PURGE_DAYS");
    }
    return found;
}

/* ---- systemd-tmpfiles --------------------------------------------------------------------- */

/* "10d", "1w12h", "bmA:2w", "~3d": in days. 0: none ("-"). */
static double age_days(const char *text)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"min", 60},  {"month", 2629800}, {"m", 60},
                 {"s", 1},     {"h", 3600},  {"d", 86400}, {"w", 604800},      {"y", 31557600}};
    const char *colon = strchr(text, ':');
    double seconds = 0;
    text = colon ? colon + 1 : text;
    text += *text == '~';
    while (*text >= '0' && *text <= '9') {
        double n = strtod(text, (char **)&text), unit = 1;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strncmp(text, units[i].unit, strlen(units[i].unit)) == 0) {
                unit = units[i].s;
                break;
            }
        text += strspn(text, "abcdefghijklmnopqrstuvwxyz");
        seconds += n * unit;
    }
    return seconds / 86400;
}

struct search {
    const char *path;
    size_t best; /* length of the folder of the rule found so far */
    struct stk_purge *purge;
};

/* "q /tmp 1777 root root 10d": types that clean a folder; the sixth word is the age. */
static void read_rule(char *line, const char *file, struct search *s)
{
    char *at = NULL, *word[6];
    size_t n = 0;
    for (char *w = strtok_r(line, " \t\n", &at); w && n < 6; w = strtok_r(NULL, " \t\n", &at))
        word[n++] = w;
    if (n < 6 || !strchr("dDevqQxX", word[0][0]))
        return;
    size_t len = holds(word[1], strlen(word[1]), s->path);
    if (!len || len < s->best)
        return;
    s->best = len;
    s->purge->days = strchr("xX", word[0][0]) ? 0 : age_days(word[5]);
    snprintf(s->purge->from, sizeof s->purge->from, "%s", file);
}

static void read_file(const char *folder, const char *name, struct search *s)
{
    char path[512], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = stk_host_fopen(path);
    while (f && getline(&line, &room, f) > 0)
        read_rule(line, path, s);
    free(line);
    if (f)
        fclose(f);
}

static const char *const folders[] = {"/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"};

/* A file of the same name in an earlier folder replaces it. */
static bool is_replaced(size_t folder, const char *name)
{
    char path[512];
    for (size_t i = 0; i < folder; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        if (stk_host_exists(path))
            return true;
    }
    return false;
}

static void read_folder(size_t i, struct search *s)
{
    struct stk_dir d;
    int rc = stk_dir_take(&d, stk_host_open(folders[i], O_RDONLY | O_DIRECTORY), folders[i], NULL);
    for (const struct dirent *e; (e = stk_dir_next(&d));) {
        size_t n = strlen(e->d_name);
        if (n > 5 && n < 200 && strcmp(e->d_name + n - 5, ".conf") == 0 &&
            !is_replaced(i, e->d_name))
            read_file(folders[i], e->d_name, s);
    }
    (void)stk_dir_end(&d, rc, NULL); /* advice: what was read counts */
}

bool stk_purge_rule(const char *path, struct stk_purge *p)
{
    struct search s = {path, 0, p};
    *p = (struct stk_purge){0};
    if (told_by_user(path, p))
        return p->days > 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        read_folder(i, &s);
    return p->days > 0;
}

/* ---- quota ----------------------------------------------------------------------------------- */

/* QCMD() shifts into the sign bit. */
#define COMMAND(type) (int)((unsigned)Q_GETQUOTA << SUBCMDSHIFT | ((unsigned)(type)&SUBCMDMASK))
#define BLOCK         1024u /* limits are in KiB, what is used in bytes */

static uint64_t left(uint64_t soft, uint64_t hard, uint64_t used)
{
    uint64_t limit = hard ? hard : soft;
    return !limit ? UINT64_MAX : limit > used ? limit - used : 0;
}

static bool take(const char *device, int type, int id, uint64_t *bytes, uint64_t *files)
{
    struct dqblk q;
    if (quotactl(COMMAND(type), device, id, (void *)&q) != 0)
        return false;
    uint64_t b = left(q.dqb_bsoftlimit * BLOCK, q.dqb_bhardlimit * BLOCK, q.dqb_curspace);
    uint64_t f = left(q.dqb_isoftlimit, q.dqb_ihardlimit, q.dqb_curinodes);
    *bytes = b < *bytes ? b : *bytes;
    *files = f < *files ? f : *files;
    return true;
}

bool stk_quota_left(const char *device, uint64_t *bytes, uint64_t *files)
{
    *bytes = *files = UINT64_MAX;
    if (device[0] != '/')
        return false;
    bool user = take(device, USRQUOTA, (int)geteuid(), bytes, files);
    bool group = take(device, GRPQUOTA, (int)getegid(), bytes, files);
    return user || group;
}

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
    struct stk_limit limit = look ? look->limit : (struct stk_limit){0};
    limit.seconds = limit.seconds > 0 ? limit.seconds : LIMIT_S;
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
