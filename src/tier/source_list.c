/*
 * source_list.c - the files and folders of a source. Folders of one level are read by several
 * threads at once, and sizes are asked for in parallel: on a shared file system each of these calls
 * waits.
 */
#include "tier/priv.h"
#include "tier/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/beneath.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "host/cpus.h"

#define DEPTH_MAX  100
#define STAT_CHUNK 256 /* files whose sizes one thread asks for at a time, at most... */
#define STAT_LEAST 8   /* ...and at least, unless there are fewer */
#define FAR_THREADS 64 /* that ask a file system of another node: they mostly wait */

/* A folder; the chain of those above it tells a link that leads back. */
struct node {
    const char *name; /* relative to the root */
    const struct node *up;
    unsigned depth;
    dev_t dev;
    ino_t ino;
    struct stk_source_dir entry;
};

struct left_out {
    const char *name, *kind, *why;
};

struct lister {
    struct stk_source *s;
    const struct stk_source_options *o;
    pthread_mutex_t lock;
    struct node **level, **next; /* folders being read, and those found in them */
    size_t nlevel, nnext;
    struct left_out *left;
    size_t nleft;
    uint64_t chunk; /* files whose sizes one thread asks for at a time */
};

static int64_t ns_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t mtime_of(const struct stat *sb)
{
    return ns_of(sb->st_mtim);
}

/* ---- what was found, under the lock ---- */

/* folder/base in the arena; NULL: no memory. */
static char *full_name(struct lister *l, const char *folder, const char *base)
{
    size_t a = strlen(folder), b = strlen(base);
    char *name = stk_arena_alloc(&l->s->arena, a + b + 2);
    if (name)
        snprintf(name, a + b + 2, "%s%s%s", folder, a ? "/" : "", base);
    return name;
}

static int add_file(struct lister *l, const char *name, struct stk_err *err)
{
    struct stk_source *s = l->s;
    if (STK_ARRAY_MORE(s->file, s->count, err))
        return STK_E_NOMEM;
    s->file[s->count++] = (struct stk_tier_file){.name = name};
    return 0;
}

static int add_folder(struct lister *l, const struct node *up, const char *name,
                      struct stk_err *err)
{
    struct node *n = stk_arena_alloc(&l->s->arena, sizeof *n);
    if (!n || STK_ARRAY_MORE(l->next, l->nnext, err))
        return n ? STK_E_NOMEM : stk_err_nomem(err, sizeof *n);
    *n = (struct node){.name = name, .up = up, .depth = up->depth + 1};
    l->next[l->nnext++] = n;
    return up->depth < DEPTH_MAX
               ? 0
               : stk_err_set(err, STK_E_UNSUPPORTED, l->s->root, -1,
                             "folders are nested more than %d levels deep", DEPTH_MAX);
}

static int leave_out(struct lister *l, const char *name, const char *kind, const char *why,
                     struct stk_err *err)
{
    if (STK_ARRAY_MORE(l->left, l->nleft, err))
        return STK_E_NOMEM;
    l->left[l->nleft++] = (struct left_out){name, kind, why};
    return 0;
}

/* ---- entries of a folder ---- */

static bool leads_back(const struct stat *sb, const struct node *n)
{
    for (; n; n = n->up)
        if (n->dev == sb->st_dev && n->ino == sb->st_ino)
            return true;
    return false;
}

/* *why: the reason that a link is left out; NULL: it is not, and *sb describes its target. */
static int look_at_link(const struct stk_source *s, const struct node *in, const char *name,
                        struct stat *sb, const char **why, struct stk_err *err)
{
    int fd = stk_open_by_rule(s->rootfd, s->outside, name, O_PATH);
    bool out = fd < 0 && errno == EXDEV && fstatat(s->rootfd, name, sb, 0) == 0;
    int wrong = fd < 0 || fstat(fd, sb) < 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    bool nothing = wrong && (stk_is_absent(wrong) || wrong == ELOOP || wrong == EXDEV);
    *why = out       ? "leads outside; --follow-links follows it"
           : nothing ? "leads to nothing"
           : !wrong && S_ISDIR(sb->st_mode) && leads_back(sb, in)
               ? "leads back to a folder it is in"
               : NULL;
    errno = wrong;
    return wrong && !*why ? stk_err_sys(err, name, "follow the link") : 0;
}

static int take_entry(struct lister *l, const struct node *in, struct stk_dir *d,
                      const struct dirent *e, struct stk_err *err)
{
    pthread_mutex_lock(&l->lock);
    char *name = full_name(l, in->name, e->d_name);
    pthread_mutex_unlock(&l->lock);
    if (!name)
        return stk_err_nomem(err, strlen(in->name));
    unsigned char is = stk_dir_type(d, e);
    mode_t type = (mode_t)is << 12;
    const char *why = NULL, *kind = S_ISLNK(type) ? "link" : "file";
    struct stat sb = {0};
    if (is == DT_UNKNOWN)
        return 0; /* gone by now, or an error of the listing */
    if (S_ISLNK(type)) {
        int rc = look_at_link(l->s, in, name, &sb, &why, err);
        if (rc < 0)
            return rc;
        type = sb.st_mode & S_IFMT;
    }
    if (!why && !S_ISREG(type) && !S_ISDIR(type))
        why = "is neither a file nor a folder";
    pthread_mutex_lock(&l->lock);
    int rc = why             ? leave_out(l, name, kind, why, err)
             : S_ISREG(type) ? add_file(l, name, err)
                             : add_folder(l, in, name, err);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

static int read_folder(struct lister *l, struct node *n, struct stk_dir *d, struct stk_err *err)
{
    struct stat sb;
    if (fstat(d->fd, &sb) < 0)
        return stk_err_sys(err, d->path, "stat");
    n->dev = sb.st_dev;
    n->ino = sb.st_ino;
    n->entry = (struct stk_source_dir){n->name, mtime_of(&sb), sb.st_mode & 0777};
    int rc = 0;
    for (const struct dirent *e; rc == 0 && (e = stk_dir_next(d));)
        rc = take_entry(l, n, d, e, err);
    return rc;
}

static int tell(const struct lister *l, struct stk_err *err)
{
    const struct stk_source_options *o = l->o;
    return o->progress && o->progress(o->user, l->s->count)
               ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped")
               : 0;
}

static int list_folder(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct lister *l = user;
    struct node *n = l->level[item];
    const char *name = n->name[0] ? n->name : ".";
    (void)thread;
    char *path = stk_path_join(l->s->root, n->name);
    struct stk_dir d;
    int rc = stk_dir_take(
        &d, stk_open_by_rule(l->s->rootfd, l->s->outside, name, O_RDONLY | O_DIRECTORY),
        path ? path : n->name, err);
    rc = rc ? rc : read_folder(l, n, &d, err);
    rc = stk_dir_end(&d, rc, err);
    free(path);
    return rc ? rc : tell(l, err);
}

static int keep_level(struct lister *l, struct stk_err *err)
{
    struct stk_source *s = l->s;
    for (size_t i = 0; i < l->nlevel; i++) {
        if (STK_ARRAY_MORE(s->dir, s->ndirs, err))
            return STK_E_NOMEM;
        s->dir[s->ndirs++] = l->level[i]->entry;
    }
    free(l->level);
    l->level = l->next;
    l->nlevel = l->nnext;
    l->next = NULL;
    l->nnext = 0;
    return 0;
}

static int list_folders(struct lister *l, unsigned threads, struct stk_err *err)
{
    struct node root = {.name = ""};
    l->level = malloc(sizeof *l->level);
    if (!l->level)
        return stk_err_nomem(err, sizeof *l->level);
    l->level[0] = &root;
    l->nlevel = 1;
    int rc = 0;
    while (rc == 0 && l->nlevel) {
        rc = stk_pool_run(threads, l->nlevel, list_folder, l, err);
        rc = rc ? rc : keep_level(l, err);
    }
    free(l->level);
    free(l->next);
    return rc;
}

/* ---- sizes and times ---- */

static int ask_sizes(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct lister *l = user;
    struct stk_source *s = l->s;
    uint64_t end = (item + 1) * l->chunk < s->count ? (item + 1) * l->chunk : s->count;
    struct stk_stat_walk look;
    int64_t changed_ns = 0;
    int rc = 0;
    (void)thread;
    stk_stat_walk_init(&look, s->rootfd, s->outside);
    for (uint64_t i = item * l->chunk; rc == 0 && i < end; i++) {
        struct stk_tier_file *f = &s->file[i];
        struct stat sb;
        if (stk_stat_walk(&look, f->name, &sb) < 0)
            rc = stk_err_sys(err, f->name, "stat");
        else if (!S_ISREG(sb.st_mode))
            rc = stk_err_set(err, STK_E_STALE, f->name, -1, "changed while it was listed");
        f->size = (uint64_t)sb.st_size;
        f->mtime_ns = mtime_of(&sb);
        f->mode = sb.st_mode & 0777;
        changed_ns = rc == 0 && ns_of(sb.st_ctim) > changed_ns ? ns_of(sb.st_ctim) : changed_ns;
    }
    stk_stat_walk_release(&look);
    pthread_mutex_lock(&l->lock);
    s->changed_ns = changed_ns > s->changed_ns ? changed_ns : s->changed_ns;
    pthread_mutex_unlock(&l->lock);
    return rc ? rc : tell(l, err);
}

/* ---- order, and what is left out ---- */

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct stk_tier_file *)a)->name, ((const struct stk_tier_file *)b)->name);
}

static int by_dir(const void *a, const void *b)
{
    return strcmp(((const struct stk_source_dir *)a)->name,
                  ((const struct stk_source_dir *)b)->name);
}

static int by_left(const void *a, const void *b)
{
    return strcmp(((const struct left_out *)a)->name, ((const struct left_out *)b)->name);
}

/* Threads found them in any order. */
static int settle(struct lister *l, struct stk_err *err)
{
    struct stk_source *s = l->s;
    int rc = 0;
    if (s->count)
        qsort(s->file, s->count, sizeof *s->file, by_file);
    if (s->ndirs)
        qsort(s->dir, s->ndirs, sizeof *s->dir, by_dir);
    if (l->nleft)
        qsort(l->left, l->nleft, sizeof *l->left, by_left);
    for (size_t i = 0; rc == 0 && i < l->nleft; i++)
        rc =
            stk_notes_left_out(&s->notes, l->left[i].kind, l->left[i].name, l->left[i].why, 1, err);
    return rc;
}

static unsigned threads_for(const struct stk_source *s, unsigned asked)
{
    unsigned cpus = stk_cpus();
    if (asked)
        return asked;
    return stk_fs_is_local(stk_fs_of_fd(s->rootfd)) ? 2 * cpus : FAR_THREADS;
}

/* All threads have work, and few of them ask in one folder at once. */
static uint64_t chunk_for(uint64_t files, unsigned threads)
{
    uint64_t n = files / (2 * (uint64_t)threads);
    return n < STAT_LEAST ? STAT_LEAST : n < STAT_CHUNK ? n : STAT_CHUNK;
}

static int list_tree(struct stk_source *s, const struct stk_source_options *o, struct stk_err *err)
{
    struct lister l = {.s = s, .o = o};
    unsigned threads = threads_for(s, o->threads);
    pthread_mutex_init(&l.lock, NULL);
    int rc = list_folders(&l, threads, err);
    rc = rc ? rc : settle(&l, err);
    l.chunk = chunk_for(s->count, threads);
    rc = rc ? rc : stk_pool_run(threads, (s->count + l.chunk - 1) / l.chunk, ask_sizes, &l, err);
    pthread_mutex_destroy(&l.lock);
    free(l.left);
    return rc;
}

static int list_one(struct stk_source *s, const struct stat *sb, struct stk_err *err)
{
    s->file = calloc(1, sizeof *s->file);
    if (!s->file)
        return stk_err_nomem(err, sizeof *s->file);
    s->count = 1;
    s->changed_ns = ns_of(sb->st_ctim);
    s->file[0] = (struct stk_tier_file){.name = "",
                                        .size = (uint64_t)sb->st_size,
                                        .mtime_ns = mtime_of(sb),
                                        .mode = sb->st_mode & 0777};
    return 0;
}

int stk_source_list(struct stk_source *s, const struct stk_source_options *o, const struct stat *sb,
                    struct stk_err *err)
{
    return s->is_dir ? list_tree(s, o, err) : list_one(s, sb, err);
}
