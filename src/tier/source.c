/*
 * source.c - what is to be copied: files and folders with their sizes and times, the checksums of a
 * manifest, the identity of the dataset, and its index. Folders of one level are read by several
 * threads at once, and sizes are asked for in parallel: on a shared file system each of these calls
 * waits. Also what of a copy is not in its ledger: folders with their times, and the index.
 */
#include "tier/priv.h"
#include "tier/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/beneath.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"
#include "base/pool.h"
#include "dataset/dataset.h"
#include "host/cpus.h"

#define DEPTH_MAX   100
#define STAT_CHUNK  256 /* files whose sizes one thread asks for at a time, at most... */
#define STAT_LEAST  8   /* ...and at least, unless there are fewer */
#define FAR_THREADS 64  /* that ask a file system of another node: they mostly wait */

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

static int list_files(struct stk_source *s, const struct stk_source_options *o,
                      const struct stat *sb, struct stk_err *err)
{
    return s->is_dir ? list_tree(s, o, err) : list_one(s, sb, err);
}

/* ---- the manifest ---- */

uint64_t stk_source_find(const struct stk_source *s, const char *name)
{
    struct stk_tier_file key = {.name = name};
    const struct stk_tier_file *f =
        s->count ? bsearch(&key, s->file, s->count, sizeof *s->file, by_file) : NULL;
    return f ? (uint64_t)(f - s->file) : s->count;
}

static int take_hashes(struct stk_source *s, const struct stk_manifest_file *m, size_t n,
                       struct stk_err *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t k = stk_source_find(s, m[i].name);
        struct stk_tier_file *f = k < s->count ? &s->file[k] : NULL;
        char *path = stk_path_join(s->root, m[i].name);
        int rc = 0;
        if (!f)
            rc = stk_err_set(err, STK_E_CORRUPT, path, -1,
                             "the manifest lists it, but it is not "
                             "there");
        else if (f->size != m[i].size)
            rc = stk_err_set(err, STK_E_CORRUPT, path, -1,
                             "has %llu bytes, but the manifest says %llu: it changed since it was "
                             "packed",
                             (unsigned long long)f->size, (unsigned long long)m[i].size);
        free(path);
        if (rc)
            return rc;
        f->hash = m[i].xxh64;
        f->hashed = true;
    }
    return 0;
}

static int read_manifest(struct stk_source *s, struct stk_err *err)
{
    struct stk_manifest_at at = {.dirfd = s->rootfd, .outside = s->outside, .dir = s->root};
    struct stk_manifest m = {0};
    int rc = s->is_dir ? stk_manifest_read_at(&at, &m, err) : 0;
    if (rc == 0 && s->is_dir)
        rc = stk_manifest_missing(&at, err);
    if (rc <= 0)
        return rc;
    rc = take_hashes(s, m.shard, m.nshards, err);
    rc = rc ? rc : take_hashes(s, m.other, m.nother, err);
    s->changed_ns =
        0; /* checksums say more: a copy that has them is good, whatever the source is */
    stk_manifest_release(&m);
    return rc;
}

/* ---- identity and index ---- */

static int on_index(void *user, uint64_t bytes, uint64_t total, uint64_t samples)
{
    const struct stk_source_options *o = user;
    (void)bytes, (void)total;
    return o->progress ? o->progress(o->user, samples) : 0;
}

static uint64_t identity_of_list(const struct stk_source *s)
{
    struct stk_hash h;
    stk_hash_init(&h);
    for (uint64_t i = 0; i < s->count; i++) {
        stk_hash_update(&h, s->file[i].name, strlen(s->file[i].name) + 1);
        stk_hash_update(&h, &s->file[i].size, sizeof s->file[i].size);
    }
    uint64_t id = stk_hash_final(&h);
    return id ? id : 1;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/';
}

/* One inside the folder is copied as a file of it. */
static void take_index(struct stk_source *s, const struct stk_dataset *ds)
{
    const char *index = ds->index_path;
    if (index && index[0] && !(s->is_dir && is_below(index, s->path)))
        s->index = index;
}

/* A folder that is no dataset is copied all the same: only an interruption is an error. */
static int identify(struct stk_source *s, const struct stk_source_options *o, struct stk_err *err)
{
    struct stk_open_options open = {.follow_links = o->follow_links,
                                    .trust = o->trust,
                                    .no_index_write = o->no_index,
                                    .progress = on_index,
                                    .user = (void *)(uintptr_t)o};
    struct stk_dataset *ds = NULL;
    struct stk_err why = {0};
    int rc = stk_dataset_open_with(s->path, &open, true, true, &ds, &why);
    if (rc == STK_E_STOPPED || rc == STK_E_NOMEM) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc < 0)
        return 0;
    s->ds = ds;
    s->identity = stk_dataset_identity(ds);
    take_index(s, ds);
    return 0;
}

/* ---- the whole ---- */

static int entry_of(const void *list, uint64_t number, struct stk_files_entry *e,
                    struct stk_err *err)
{
    const struct stk_source *s = list;
    if (number >= s->count)
        return stk_err_set(err, STK_E_USAGE, s->root, -1, "there is no file number %llu",
                           (unsigned long long)number);
    const struct stk_tier_file *f = &s->file[number];
    const char *name = s->is_dir ? f->name : s->name;
    *e = (struct stk_files_entry){name, strlen(name), f->size, f->mtime_ns};
    return 0;
}

static int find_root(struct stk_source *s, const char *path, struct stat *sb, struct stk_err *err)
{
    s->path = realpath(path, NULL);
    if (!s->path || stat(s->path, sb) < 0)
        return stk_err_sys(err, path, "open");
    if (!S_ISDIR(sb->st_mode) && !S_ISREG(sb->st_mode))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "is neither a file nor a folder");
    s->is_dir = S_ISDIR(sb->st_mode);
    const char *base = stk_base_name(s->path);
    s->name = strdup(base[0] ? base : "root");
    size_t above = (size_t)(base - s->path);
    s->root = s->is_dir ? strdup(s->path) : strndup(s->path, above > 1 ? above - 1 : 1);
    if (!s->name || !s->root)
        return stk_err_nomem(err, strlen(s->path));
    s->rootfd = open(s->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return s->rootfd < 0 ? stk_err_sys(err, s->root, "open the folder") : 0;
}

struct stk_tier_source stk_source_for_tier(const struct stk_source *s)
{
    return (struct stk_tier_source){.path = s->path,
                                    .name = s->name,
                                    .identity = s->identity,
                                    .changed_ns = s->changed_ns,
                                    .file = s->file,
                                    .count = s->count};
}

void stk_source_settle(struct stk_source *s)
{
    s->bytes = 0;
    for (uint64_t i = 0; i < s->count; i++)
        s->bytes += s->file[i].size;
    if (!s->identity)
        s->identity = identity_of_list(s);
    s->files = (struct stk_files){.rootfd = s->rootfd,
                                  .root = s->root,
                                  .count = s->count,
                                  .bytes = s->bytes,
                                  .entry = entry_of,
                                  .list = s,
                                  .outside = s->outside};
}

static int list_all(struct stk_source *s, const struct stk_source_options *o, const struct stat *sb,
                    struct stk_err *err)
{
    int rc = list_files(s, o, sb, err);
    rc = rc ? rc : read_manifest(s, err);
    if (rc == 0)
        stk_source_settle(s);
    return rc;
}

int stk_source_open(struct stk_source *s, const char *path, const struct stk_source_options *o,
                    struct stk_err *err)
{
    static const struct stk_source_options none;
    struct stat sb;
    o = o ? o : &none;
    *s = STK_SOURCE_INIT;
    s->outside = o->follow_links;
    int rc = find_root(s, path, &sb, err);
    rc = rc ? rc : identify(s, o, err);
    return rc ? rc : list_all(s, o, &sb, err);
}

int stk_source_of(struct stk_source *s, struct stk_dataset *ds, struct stk_err *err)
{
    static const struct stk_source_options none;
    struct stat sb;
    *s = STK_SOURCE_INIT;
    s->outside = ds->files.outside;
    s->identity = stk_dataset_identity(ds);
    int rc = find_root(s, ds->path, &sb, err);
    if (rc == 0)
        take_index(s, ds);
    return rc ? rc : list_all(s, &none, &sb, err);
}

void stk_source_release(struct stk_source *s)
{
    if (s->rootfd >= 0)
        close(s->rootfd);
    free(s->path);
    free(s->name);
    free(s->root);
    free(s->file);
    free(s->dir);
    stk_dataset_close(s->ds);
    stk_notes_release(&s->notes);
    stk_arena_release(&s->arena);
    *s = STK_SOURCE_INIT;
}

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
        rc = stk_write_file_at(stk_tier_set_folder(set), name, b.data, b.len, STK_PRIVATE, name,
                               err);
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
