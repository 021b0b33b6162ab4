/*
 * source.c - what is to be copied: the list of source_list.c, the checksums of a manifest, the
 * identity of the dataset, and its index.
 */
#include "tier/source.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "dataset/dataset.h"
#include "tier/priv.h"

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct stk_tier_file *)a)->name, ((const struct stk_tier_file *)b)->name);
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
    s->changed_ns = 0; /* checksums say more: a copy that has them is good, whatever the source is */
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
    int rc = stk_source_list(s, o, sb, err);
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
