/*
 * dataset.c - opening a dataset: its manifest, its files, and an index that fits them (place.c
 * decides where that is).
 */
#include "dataset/open_options.h"
#include "dataset/dataset.h"
#include "dataset/label.h"
#include "base/beneath.h"
#include "base/file.h"
#include "base/api.h"
#include "dataset/build.h"
#include "dataset/checksum.h"
#include "dataset/priv.h"
#include "dataset/place.h"
#include "dataset/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- problems ---- */

void stk_problems_release(struct stk_problems *p)
{
    for (size_t i = 0; i < p->kept; i++) {
        free((char *)p->item[i].path);
        free((char *)p->item[i].what);
    }
    free(p->item);
    *p = (struct stk_problems){0};
}

static bool is_known(const struct stk_problems *p, const char *path, int64_t offset,
                     const char *what)
{
    for (size_t i = 0; i < p->kept; i++)
        if (p->item[i].offset == offset && strcmp(p->item[i].path, path) == 0 &&
            strcmp(p->item[i].what, what) == 0)
            return true;
    return false;
}

void stk_problems_add_code(struct stk_problems *p, int code, const char *path, int64_t offset,
                           const char *what)
{
    if (is_known(p, path, offset, what))
        return;
    p->count++;
    p->unsupported += code == STK_E_UNSUPPORTED;
    if (p->kept == STK_PROBLEMS_KEPT)
        return;
    if (!p->item && !(p->item = calloc(STK_PROBLEMS_KEPT, sizeof *p->item)))
        return;
    struct stk_problem x = {
        .path = strdup(path), .code = code, .offset = offset, .what = strdup(what)};
    if (x.path && x.what) {
        p->item[p->kept++] = x;
    } else {
        free((char *)x.path);
        free((char *)x.what);
    }
}

void stk_problems_add(struct stk_problems *p, const char *path, int64_t offset, const char *what)
{
    stk_problems_add_code(p, STK_E_CORRUPT, path, offset, what);
}

void stk_problems_join(struct stk_problems *p, const struct stk_problems *from)
{
    uint64_t more = from->count, unsupported = from->unsupported;
    for (size_t i = 0; i < from->kept; i++) {
        const struct stk_problem *x = &from->item[i];
        stk_problems_add_code(p, x->code, x->path, x->offset, x->what);
        more--;
        unsupported -= x->code == STK_E_UNSUPPORTED;
    }
    p->count += more; /* those that were not kept */
    p->unsupported += unsupported;
}

static int by_place(const void *a, const void *b)
{
    const struct stk_problem *x = a, *y = b;
    int c = strcmp(x->path, y->path);
    return c ? c : (x->offset > y->offset) - (x->offset < y->offset);
}

void stk_problems_sort(struct stk_problems *p)
{
    if (p->kept)
        qsort(p->item, p->kept, sizeof *p->item, by_place);
}

/* Kinds of index: one made without options, and one made with the caller's. */
enum { PLAIN, ASKED, NPLACES };

/* How a dataset is opened: the caller's options and ours. */
struct opening {
    const struct stk_open_options *o;
    bool collect; /* collect problems instead of failing at the first */
    bool trust;   /* use an existing index; else none is published either */
    struct stk_checker *checker;
    char *place[NPLACES][STK_PLACES];
    struct stk_manifest above; /* of the folder that the dataset is in... */
    char *folder;
    const struct stk_manifest_file *entry; /* ...if it names the dataset as one of its shards */
};

/* ---- its files ---- */

static int file_entry(const void *list, uint64_t number, struct stk_files_entry *e,
                      struct stk_err *err)
{
    const struct stk_index_file *f;
    int rc = stk_index_file(list, number, &f, &e->name, err);
    if (rc < 0)
        return rc;
    e->name_len = f->name_len;
    e->size = f->size;
    e->mtime_ns = f->mtime_ns;
    e->inode = f->inode;
    return 0;
}

void stk_files_of_index(struct stk_files *files, const struct stk_index *idx)
{
    files->count = idx->h->nfiles;
    files->bytes = idx->h->bytes_stored;
    files->entry = file_entry;
    files->list = idx;
}

void stk_dataset_list_files(struct stk_dataset *ds)
{
    stk_files_of_index(&ds->files, &ds->index);
}

/* ---- an existing index ---- */

static void not_used(struct stk_dataset *ds, const char *why)
{
    if (!ds->index_why)
        ds->index_why = strdup(why);
}

/* Opens the file at a place. Follows a link only if the user follows links. */
static int open_place(const struct opening *how, const char *path, struct stat *st,
                      struct stk_err *err)
{
    bool follow = how->o->follow_links || how->o->index;
    int fd, rc = stk_read_open(AT_FDCWD, path, follow ? 0 : O_NOFOLLOW, &fd, st, path, err);
    return rc < 0 ? rc : fd;
}

/* An index of an earlier version is rebuilt, except in a packed dataset, where it has what only
 * `pack` knows. */
static int open_current(const struct stk_dataset *ds, int fd, const char *path,
                        struct stk_index *idx, struct stk_err *err)
{
    int rc = stk_index_open_fd(fd, path, idx, err);
    uint32_t version = rc == 0 ? idx->h->version : 0;
    if (rc < 0 || version == STK_INDEX_VERSION || ds->has_manifest)
        return rc;
    stk_index_close(idx);
    return stk_err_set(err, STK_E_STALE, path, -1,
                       "an index of version %u; this stoker writes "
                       "version %u",
                       version, STK_INDEX_VERSION);
}

static bool try_index(struct stk_dataset *ds, const struct opening *how, const char *path)
{
    struct stk_err why = {0};
    struct stat st;
    struct stk_index idx = {0};
    int fd = open_place(how, path, &st, &why), rc = fd;
    if (fd >= 0)
        rc = stk_trust_check(&ds->trust, &st, path, &why);
    if (rc == 0)
        rc = open_current(ds, fd, path, &idx, &why);
    if (fd >= 0)
        close(fd);
    if (rc < 0) {
        if (stk_if_there(rc, &why) != 0)
            not_used(ds, why.what);
        return false;
    }
    struct stk_fit f = {.ds = ds,
                        .idx = &idx,
                        .o = how->o,
                        .inode = st.st_ino,
                        .owner = st.st_uid,
                        .only_owner = stk_trust_is_owners(&ds->trust, st.st_uid)};
    if (!stk_fit_all_but_files(&f) || !stk_fit_files(&f) || !(ds->index_path = strdup(path))) {
        if (f.others_data)
            not_used(ds, "it belongs to a user who does not own all of the data");
        stk_index_close(&idx);
        return false;
    }
    ds->format = f.format;
    ds->index = idx;
    stk_dataset_list_files(ds);
    return true;
}

/* ---- building ---- */

static int make_walk(struct stk_dataset *ds, const struct stk_open_options *o, struct stk_walk *w,
                     struct stk_problems *problems, struct stk_err *err)
{
    struct stk_walk_options how = {.rootfd = ds->is_dir ? ds->files.rootfd : -1,
                                   .outside = ds->files.outside,
                                   .want = ds->format ? ds->format->name : o->format,
                                   .split = o->split};
    /* A packed folder of files is a tree one level down. */
    if (ds->has_manifest && !(ds->format->caps & STK_CAN_TREE)) {
        size_t n = ds->manifest.nshards;
        const char **names = calloc(n ? n : 1, sizeof *names);
        if (!names)
            return stk_err_nomem(err, n * sizeof *names);
        for (size_t i = 0; i < n; i++)
            names[i] = ds->manifest.shard[i].name;
        int rc = stk_walk_shards(w, ds->path, &how, ds->format, names, n, err);
        free(names);
        return rc;
    }
    /* For a single file, root is its parent folder, not the dataset. */
    return stk_walk_with(w, ds->has_manifest ? ds->root : ds->path, &how, problems, err);
}

/* Which settings the walk would have detected without being told. */
static unsigned found_out(const struct stk_walk *w)
{
    return w->as_found ? STK_FIT_FORMAT : 0;
}

/* An index of a packed dataset, made without options, replaces the one that pack made: it has the
 * checksums of the samples, too. */
static bool replaces_packed(const struct stk_dataset *ds, const struct opening *how)
{
    return ds->has_manifest && how->trust && !how->o->datasets && !stk_fit_listing(ds, how->o, 0);
}

static int tell(const struct opening *how, uint64_t bytes, uint64_t total, struct stk_err *err)
{
    const struct stk_open_options *o = how->o;
    bool stop = o->progress && o->progress(o->user, bytes, total, 0);
    return stop ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped") : 0;
}

/* Damage is listed if problems are collected, else it is the error. */
static int note_damage(struct stk_dataset *ds, const struct opening *how, int rc, const char *path,
                       const struct stk_err *why, struct stk_err *err)
{
    if (rc < 0 && rc != STK_E_NOMEM && how->collect) {
        stk_problems_add_code(&ds->problems, rc, path, why->offset, why->what);
        return 0;
    }
    if (rc < 0 && err)
        *err = *why;
    return rc;
}

/* A shard that is opened by itself is what the manifest of its dataset says. `whole`: compares its
 * checksum, too. */
static int compare_entry(struct stk_dataset *ds, const struct opening *how, bool whole,
                         struct stk_err *err)
{
    const struct stk_manifest_file *e = how->entry;
    struct stk_err why = {0};
    struct stat st;
    uint64_t size;
    if (!e || (!whole && ds->is_dir))
        return 0;
    int top = open(how->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = top < 0 ? stk_err_sys(&why, how->folder, "open folder") : 0;
    if (rc == 0 && whole)
        rc = stk_content_compare(top, ds->files.outside, e, ds->path, &size, &why);
    else if (rc == 0 && fstatat(top, e->name, &st, 0) < 0)
        rc = stk_err_sys(&why, ds->path, "stat");
    else if (rc == 0 && (uint64_t)st.st_size != e->size)
        rc = stk_err_set(&why, STK_E_CORRUPT, ds->path, -1,
                         "it has %llu bytes, the manifest says %llu",
                         (unsigned long long)st.st_size, (unsigned long long)e->size);
    if (top >= 0)
        close(top);
    return note_damage(ds, how, rc, ds->path, &why, err);
}

/* The checksums of a new index are those of the packed samples only if the shards are. */
static int compare_shards(struct stk_dataset *ds, const struct opening *how, struct stk_err *err)
{
    const struct stk_manifest *m = &ds->manifest;
    int top = open(ds->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = top < 0 ? stk_err_sys(err, ds->path, "open folder") : 0;
    uint64_t done = 0, size;
    for (size_t i = 0; rc == 0 && i < m->nshards; i++) {
        struct stk_err why = {0};
        char *path = stk_path_join(ds->path, m->shard[i].name);
        rc = path ? stk_content_compare(top, how->o->follow_links, &m->shard[i], path, &size, &why)
                  : stk_err_nomem(&why, strlen(m->shard[i].name));
        rc = note_damage(ds, how, rc, path, &why, err);
        free(path);
        done += size;
        rc = rc < 0 ? rc : tell(how, done, m->bytes, err);
    }
    if (top >= 0)
        close(top);
    return rc;
}

struct checking {
    const struct opening *how;
    pthread_mutex_t lock;
};

static int on_check(void *user, struct stk_err *err)
{
    struct checking *c = user;
    pthread_mutex_lock(&c->lock);
    int rc = tell(c->how, 0, 0, err);
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static int add_checks(const struct stk_walk *w, const struct opening *how,
                      const struct stk_new_index *t, struct stk_err *err)
{
    struct checking c = {.how = how};
    pthread_mutex_init(&c.lock, NULL);
    int rc = stk_checks_add(w, how->o->jobs, on_check, &c, t->fd, t->at ? t->at : w->root, err);
    pthread_mutex_destroy(&c.lock);
    return rc;
}

/* The index of the walked files, in t. */
static int build_into(struct stk_dataset *ds, const struct opening *how, struct stk_walk *w,
                      struct stk_new_index *t, struct stk_err *err)
{
    bool packed = replaces_packed(ds, how);
    struct stk_build_options b = {.list = ds->list,
                                  .jobs = how->o->jobs,
                                  .portable = packed,
                                  .checks = packed && !ds->problems.count,
                                  .problems = how->collect ? &ds->problems : NULL,
                                  .checker = how->checker,
                                  .path = t->at,
                                  .data_id = ds->has_manifest ? stk_dataset_identity(ds) : 0,
                                  .listing = stk_fit_listing(ds, how->o, found_out(w)),
                                  .progress = how->o->progress,
                                  .user = how->o->user};
    b.list.grouped = b.list.grouped || stk_spool_len(&w->keys);
    int rc = stk_build_index(w, &b, t->fd, err);
    if (rc == 0 && b.checks && !ds->problems.count)
        rc = add_checks(w, how, t, err);
    /* An index of damaged data is only used in this run: the next must see the damage itself. */
    bool published = rc == 0 && ds->problems.count == 0 && stk_new_index_publish(t, &w->readers);
    if (rc == 0)
        rc = stk_index_open_fd(t->fd, published ? t->at : ds->path, &ds->index, err);
    if (rc == 0 && !(ds->index_path = strdup(published ? t->at : "")))
        rc = stk_err_nomem(err, 1);
    ds->index_built = true;
    return rc;
}

/* *first: the place to begin with; afterwards, the place after the one where writing failed.
 * STK_PLACES: the error was something else. */
static int build(struct stk_dataset *ds, const struct opening *how, int *first, struct stk_err *err)
{
    struct stk_walk w;
    struct stk_new_index t = {.fd = -1, .number = -1, .file = STK_NEW_INIT};
    int rc = make_walk(ds, how->o, &w, &ds->problems, err);
    ds->format = w.format;
    if (rc == 0 && ds->problems.count && !how->collect)
        rc = stk_err_set(err, STK_E_SYS, ds->problems.item[0].path, ds->problems.item[0].offset,
                         "%s", ds->problems.item[0].what);
    if (rc == 0 && replaces_packed(ds, how))
        rc = compare_shards(ds, how, err);
    if (rc == 0)
        rc = compare_entry(ds, how, true, err);
    bool asked = rc == 0 && stk_fit_listing(ds, how->o, found_out(&w));
    if (rc == 0)
        rc = stk_new_index_open(&t, how->place[asked ? ASKED : PLAIN], *first, err);
    if (rc == 0)
        rc = build_into(ds, how, &w, &t, err);
    bool full = rc == STK_E_SYS && t.at && strcmp(err->path, t.at) == 0;
    *first = full ? t.number + 1 : STK_PLACES;
    stk_new_index_close(&t);
    stk_walk_release(&w);
    return rc;
}

/* A full disk at one place is no reason to fail: there are others, the last one nameless. */
static int build_somewhere(struct stk_dataset *ds, const struct opening *how, bool nameless,
                           struct stk_err *err)
{
    const struct stk_format *format = ds->format;
    struct stk_err why = {0};
    int rc, first = nameless ? STK_PLACES : 0;
    do {
        stk_problems_release(&ds->problems);
        ds->format = format;
        rc = build(ds, how, &first, &why);
    } while (rc < 0 && first < STK_PLACES);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* ---- opening ---- */

static int find_codecs(struct stk_dataset *ds, struct stk_err *err)
{
    uint64_t n = stk_index_count(&ds->index, STK_T_FIELDS);
    if (n > 65535)
        return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1,
                           "damaged index: too many fields");
    ds->codec = calloc(n ? n : 1, sizeof *ds->codec);
    if (!ds->codec)
        return stk_err_nomem(err, n * sizeof *ds->codec);
    for (uint64_t i = 0; i < n; i++) {
        const char *name;
        const struct stk_index_field *f = stk_index_field(&ds->index, i, &name);
        if (!f || (f->codec[0] && !(ds->codec[i] = stk_codec_find(f->codec))))
            return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1,
                               "damaged index: a field of an unknown kind");
    }
    return 0;
}

/* A folder without a manifest, or whose samples are not those of its manifest, may be a packed
 * dataset that is being removed because another took its name: its remains are not a dataset. */
static int check_replaced(const struct stk_dataset *ds, struct stk_err *err)
{
    struct stat now;
    const struct stat *then = &ds->trust.data;
    if (!ds->is_dir || (stat(ds->path, &now) == 0 && now.st_dev == then->st_dev &&
                        now.st_ino == then->st_ino))
        return 0;
    return stk_err_set(err, STK_E_STALE, ds->path, -1,
                       "the folder was replaced or removed while it was being opened; try again");
}

static int no_manifest(const struct stk_dataset *ds, const struct stk_manifest_at *at,
                       struct stk_err *err)
{
    struct stk_err why = {0};
    int rc = stk_manifest_missing(at, &why), replaced = rc < 0 ? check_replaced(ds, err) : 0;
    if (rc < 0 && replaced == 0 && err)
        *err = why;
    return replaced < 0 ? replaced : rc;
}

static int use_manifest(struct stk_dataset *ds, const struct stk_open_options *o,
                        struct stk_err *err)
{
    struct stk_manifest_at at = {ds->files.rootfd, ds->files.outside, ds->path, &ds->trust};
    int rc = stk_manifest_read_at(&at, &ds->manifest, err);
    if (rc <= 0)
        return rc < 0 ? rc : no_manifest(ds, &at, err);
    ds->has_manifest = ds->files.packed = true;
    ds->format = stk_format_find(ds->manifest.format);
    if (!ds->format || (ds->manifest.payload[0] && !stk_codec_find(ds->manifest.payload)))
        return stk_err_set(err, STK_E_UNSUPPORTED, ds->path, -1,
                           "packed as '%s' / '%s', which this stoker does not know",
                           ds->manifest.format, ds->manifest.payload);
    if (o->split)
        return stk_err_set(err, STK_E_USAGE, ds->path, -1,
                           "packed by stoker: it has no splits to choose from");
    if (o->format && strcmp(o->format, ds->manifest.format) != 0)
        return stk_err_set(err, STK_E_USAGE, ds->path, -1, "the dataset is %s, not %s",
                           ds->manifest.format, o->format);
    ds->list.compress = ds->manifest.compress;
    ds->list.grouped = ds->manifest.grouped;
    if (ds->manifest.payload[0] && strcmp(ds->list.payload, "auto") == 0)
        ds->list.payload = ds->manifest.payload;
    if (ds->manifest.columns && ds->manifest.columns[0]) { /* a table of ours: it has a header */
        ds->list.header = ds->list.header ? ds->list.header : STK_HEADER_YES;
        ds->list.types = ds->list.types ? ds->list.types : ds->manifest.columns;
    }
    return 0;
}

/* Finds the dataset among the shards of the folder that it is in. A manifest there that cannot be
 * read for want of rights, or that is not trusted, says nothing about it. */
static int find_entry(struct stk_dataset *ds, struct opening *how, struct stk_err *err)
{
    char *real = ds->has_manifest ? NULL : realpath(ds->path, NULL);
    char *slash = real ? strrchr(real, '/') : NULL;
    if (!slash || !slash[1] || !(how->folder = strndup(real, (size_t)(slash - real) + 1))) {
        free(real);
        return 0;
    }
    struct stk_err why = {0};
    int fd = open(how->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stk_manifest_at at = {fd, true, how->folder, &ds->trust};
    int rc = fd < 0 ? stk_err_sys(&why, how->folder, "open folder")
                    : stk_manifest_read_at(&at, &how->above, &why);
    bool private = rc == STK_E_SYS && (why.sys_errno == EACCES || why.sys_errno == EPERM);
    for (size_t i = 0; rc == 1 && i < how->above.nshards; i++)
        if (strcmp(how->above.shard[i].name, slash + 1) == 0)
            how->entry = &how->above.shard[i];
    if (fd >= 0)
        close(fd);
    free(real);
    if (rc >= 0 || private || rc == STK_E_UNSUPPORTED)
        return 0;
    return err ? (*err = why).code : rc;
}

/* Opens the folder that names are relative to: the dataset, or the parent of its single file.
 * Ownership is decided here, even if a name leads elsewhere later. */
static int open_root(struct stk_dataset *ds, struct stk_err *err)
{
    const char *base = stk_base_name(ds->path);
    size_t n = (size_t)(base - ds->path);
    ds->root = ds->is_dir ? strdup(ds->path)
               : n > 1    ? strndup(ds->path, n - 1)
                          : strdup(n ? "/" : ".");
    if (!ds->root)
        return stk_err_nomem(err, strlen(ds->path));
    ds->files.root = ds->root;
    ds->files.rootfd = open(ds->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ds->files.rootfd < 0)
        return stk_err_sys(err, ds->root, "open folder");
    int rc = ds->is_dir ? fstat(ds->files.rootfd, &ds->trust.data)
                        : fstatat(ds->files.rootfd, base, &ds->trust.data, 0);
    return rc < 0 ? stk_err_sys(err, ds->path, "open") : 0;
}

/* Files of a packed tree are below the one "shard". */
static int enter_tree(struct stk_dataset *ds, struct stk_err *err)
{
    if (!ds->has_manifest || !(ds->format->caps & STK_CAN_TREE) || !ds->manifest.nshards)
        return 0;
    const char *name = ds->manifest.shard[0].name;
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, top = ds->files.rootfd;
    char *root = stk_path_join(ds->path, name);
    if (!root)
        return stk_err_nomem(err, strlen(name));
    free(ds->root);
    ds->files.root = ds->root = root;
    ds->files.rootfd = stk_open_by_rule(top, ds->files.outside, name, flags);
    int rc = ds->files.rootfd < 0 ? stk_err_sys(err, root, "open folder") : 0;
    close(top);
    return rc;
}

/* 1: the file may be replaced: an index, whole or not, or empty; 0: not; else it cannot be read. */
static int is_index(const struct opening *how, const char *path)
{
    char magic[8];
    size_t got = 0;
    struct stat st;
    int fd = open_place(how, path, &st, NULL);
    if (fd < 0)
        return fd;
    int rc = stk_pread_full(fd, magic, sizeof magic, 0, &got, path, NULL);
    close(fd);
    return rc < 0 ? rc : memcmp(magic, STK_INDEX_MAGIC, got) == 0;
}

/* A file of the user that happens to have the name of an index. */
static void stays(struct stk_dataset *ds, const char *path)
{
    char why[160];
    snprintf(why, sizeof why, "%.80s is not one of stoker's, and is left as it is",
             stk_base_name(path));
    free(ds->index_why);
    ds->index_why = strdup(why);
}

/* Drops places where a new index must not go: a packed dataset, which has its own, and a place with
 * another user's index or with any other file, which is not ours to replace. */
static void drop_places(struct stk_dataset *ds, const struct opening *how, char *place[STK_PLACES])
{
    int n = 0;
    for (int i = 0; i < STK_PLACES && place[i]; i++) {
        struct stat st;
        bool inside = i == 0 && ds->has_manifest;
        int there = stk_find_at(AT_FDCWD, place[i], &st, place[i], NULL);
        bool theirs = there < 0 || (there && st.st_uid != geteuid());
        int index = there > 0 && !inside && !theirs ? is_index(how, place[i]) : 1;
        if (index == 0 || (index < 0 && !S_ISREG(st.st_mode)))
            stays(ds, place[i]);
        if (inside || theirs || index <= 0)
            free(place[i]);
        else
            place[n++] = place[i];
    }
    while (n < STK_PLACES)
        place[n++] = NULL;
}

static int open_index(struct stk_dataset *ds, struct opening *how, struct stk_err *err)
{
    const struct stk_open_options *o = how->o;
    uint64_t listing = stk_fit_listing(ds, o, 0);
    bool found = false, look = how->trust && !o->rebuild_index && !o->datasets;
    int rc = stk_places(ds, o->index, 0, how->place[PLAIN], err);
    if (rc == 0)
        rc = stk_places(ds, o->index, listing, how->place[ASKED], err);
    for (int k = PLAIN; rc == 0 && look && k <= (listing ? ASKED : PLAIN); k++)
        for (int i = 0; !found && i < STK_PLACES && how->place[k][i]; i++)
            found = try_index(ds, how, how->place[k][i]);
    for (int k = PLAIN; rc == 0 && !found && k < NPLACES; k++)
        drop_places(ds, how, how->place[k]);
    if (rc == 0 && !found)
        rc = build_somewhere(ds, how, !how->trust || o->no_index_write || o->datasets, err);
    if (rc == 0 && o->datasets && !(ds->format->caps & STK_CAN_PICK))
        rc = stk_err_set(err, STK_E_USAGE, ds->path, -1,
                         "only HDF5 and NPZ have datasets to name; this is %s", ds->format->title);
    for (int k = PLAIN; k < NPLACES; k++)
        stk_places_free(how->place[k]);
    return rc;
}

static char *trimmed(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return strndup(path, n);
}

/* Copies the caller's texts: the options may be freed once the dataset is open. */
static int keep_texts(struct stk_dataset *ds, const struct stk_open_options *o, struct stk_err *err)
{
    ds->payload = strdup(o->payload ? o->payload : "auto");
    ds->datasets = o->datasets ? strdup(o->datasets) : NULL;
    ds->list.payload = ds->payload ? ds->payload : "auto";
    ds->list.datasets = ds->datasets;
    ds->list.grouped = o->group;
    return ds->payload && !o->datasets == !ds->datasets ? 0 : stk_err_nomem(err, 1);
}

/* A packed dataset is what its manifest says: each file has its size, and all samples are there.
 * Readers compare the checksums of samples. If bad samples are passed over, a damaged packed
 * dataset keeps its number of samples: ranks that see other damage, or see it later, still agree.
 * The rest of a file is read. */
static int check_packed(struct stk_dataset *ds, const struct opening *how, struct stk_err *err)
{
    uint64_t before = ds->problems.count, samples = ds->index.h->nsamples;
    int rc = stk_fit_check_packed(ds, how->collect, err);
    bool damaged = rc < 0 || ds->problems.count > before;
    /* With options, a table may have other samples. */
    bool fewer = samples != ds->manifest.samples && replaces_packed(ds, how);
    ds->files.any_size = how->o->pass_over && damaged;
    int replaced = damaged || fewer ? check_replaced(ds, err) : 0;
    if (rc < 0 || replaced < 0 || !fewer)
        return replaced < 0 ? replaced : rc;
    struct stk_err why = {0};
    rc = stk_err_set(&why, STK_E_CORRUPT, ds->path, -1,
                     "%llu samples are there, but %llu were packed", (unsigned long long)samples,
                     (unsigned long long)ds->manifest.samples);
    if (how->collect)
        stk_problems_add(&ds->problems, why.path, -1, why.what);
    else if (err)
        *err = why;
    return how->collect ? 0 : rc;
}

static int open_how(const char *path, struct opening *how, struct stk_dataset **out,
                    struct stk_err *err)
{
    static const struct stk_open_options defaults;
    const struct stk_open_options *o = how->o = how->o ? how->o : &defaults;
    struct stk_dataset *ds = calloc(1, sizeof *ds);
    if (!ds || !(ds->path = trimmed(path))) {
        free(ds);
        return stk_err_nomem(err, sizeof *ds);
    }
    pthread_mutex_init(&ds->lock, NULL);
    ds->files.rootfd = -1;
    int rc = keep_texts(ds, o, err);
    struct stat sb;
    if (rc == 0 && stat(ds->path, &sb) < 0)
        rc = stk_err_sys(err, path, "open");
    ds->is_dir = rc == 0 && S_ISDIR(sb.st_mode);
    ds->files.outside = !ds->is_dir || o->follow_links; /* a named file may be a link */
    if (rc == 0)
        rc = stk_trust_init(&ds->trust, o->trust, err);
    if (rc == 0)
        rc = ds->list.header = stk_columns_header(o->header, err);
    if (rc >= 0)
        rc = ds->list.delimiter = stk_columns_delimiter(o->delimiter, err);
    if (rc >= 0)
        rc = stk_columns_parse(o->types, &ds->types, err);
    ds->list.types = ds->types;
    if (rc == 0 && strcmp(ds->list.payload, "auto") != 0 && !stk_codec_find(ds->list.payload))
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "no payload is called '%s'", ds->list.payload);
    if (rc == 0)
        rc = open_root(ds, err);
    if (rc == 0 && ds->is_dir)
        rc = use_manifest(ds, o, err);
    if (rc == 0)
        rc = find_entry(ds, how, err);
    if (rc == 0)
        rc = enter_tree(ds, err);
    if (rc == 0)
        rc = open_index(ds, how, err);
    if (rc == 0)
        rc = compare_entry(ds, how, false, err);
    if (rc == 0)
        rc = find_codecs(ds, err);
    if (rc == 0)
        rc = stk_notes_read(&ds->notes, ds->index.table[STK_T_NOTES],
                            (size_t)stk_index_count(&ds->index, STK_T_NOTES), err);
    if (rc == 0)
        stk_dataset_list_files(ds);
    if (rc == 0)
        rc = ds->has_manifest && how->trust ? check_packed(ds, how, err) : check_replaced(ds, err);
    if (rc == 0 && !stk_live_add(ds))
        rc = stk_err_nomem(err, sizeof ds);
    stk_manifest_release(&how->above);
    free(how->folder);
    if (rc < 0)
        stk_dataset_drop(ds);
    else
        *out = ds;
    return rc;
}

/* Shows the index at one place, if it would be taken. */
static void show_place(struct stk_dataset *ds, const struct stk_open_options *o, const char *path,
                       stk_look_at_index *look, void *user)
{
    const struct opening how = {.o = o};
    struct stk_index idx = {0};
    struct stat st;
    int fd = open_place(&how, path, &st, NULL);
    if (fd < 0)
        return;
    struct stk_fit f = {.ds = ds, .idx = &idx, .o = o, .inode = st.st_ino};
    if (open_current(ds, fd, path, &idx, NULL) == 0 && stk_fit_all_but_files(&f) &&
        stk_fit_files(&f))
        look(user, &idx, path, st.st_uid);
    stk_index_close(&idx);
    close(fd);
}

int stk_dataset_published(struct stk_dataset *ds, const struct stk_open_options *o,
                          stk_look_at_index *look, void *user, struct stk_err *err)
{
    const uint64_t listing[NPLACES] = {[ASKED] = stk_fit_listing(ds, o, 0)};
    int rc = 0;
    for (int k = PLAIN; rc == 0 && k <= (listing[ASKED] ? ASKED : PLAIN); k++) {
        char *place[STK_PLACES];
        rc = stk_places(ds, o->index, listing[k], place, err);
        for (int i = 0; rc == 0 && i < STK_PLACES && place[i]; i++)
            show_place(ds, o, place[i], look, user);
        stk_places_free(place);
    }
    return rc;
}

int stk_dataset_open_with(const char *path, const struct stk_open_options *opts, bool collect,
                          bool trust, struct stk_dataset **out, struct stk_err *err)
{
    struct opening how = {.o = opts, .collect = collect, .trust = trust};
    return open_how(path, &how, out, err);
}

int stk_dataset_open_checked(const char *path, const struct stk_open_options *opts,
                             struct stk_checker *checker, struct stk_dataset **out,
                             struct stk_err *err)
{
    struct opening how = {.o = opts, .collect = true, .checker = checker};
    return open_how(path, &how, out, err);
}

int stk_dataset_open_sized(const char *path, const struct stk_open_options *opts, size_t opts_size,
                           struct stk_dataset **out, struct stk_err *err)
{
    struct stk_open_options o;
    if (!path || !out)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no %s (NULL)",
                           path ? "place for the dataset" : "path");
    int rc = stk_sized_in(&o, sizeof o, opts, opts_size, "open options", err);
    return rc < 0 ? rc : stk_dataset_open_with(path, &o, o.pass_over, true, out, err);
}

void stk_dataset_close(struct stk_dataset *ds)
{
    if (stk_live_end(ds))
        stk_dataset_drop(ds);
}

void stk_dataset_drop(struct stk_dataset *ds)
{
    if (atomic_fetch_sub(&ds->keepers, 1) > 0)
        return;
    stk_reader_free_all(ds->idle);
    pthread_mutex_destroy(&ds->lock);
    if (ds->whole) {
        stk_dataset_drop(ds->whole);
        stk_pick_release(&ds->pick);
        free(ds);
        return;
    }
    if (ds->labels)
        stk_labels_release(ds->labels);
    free(ds->labels);
    stk_index_close(&ds->index);
    stk_manifest_release(&ds->manifest);
    stk_problems_release(&ds->problems);
    stk_notes_release(&ds->notes);
    if (ds->files.rootfd >= 0)
        close(ds->files.rootfd);
    stk_trust_release(&ds->trust);
    free(ds->codec);
    free(ds->index_path);
    free(ds->index_why);
    free(ds->root);
    free(ds->types);
    free(ds->payload);
    free(ds->datasets);
    free(ds->path);
    free(ds);
}

uint64_t stk_dataset_len(const struct stk_dataset *ds)
{
    return !ds ? 0 : ds->whole ? ds->pick.n : ds->index.h->nsamples;
}

const char *stk_dataset_format(const struct stk_dataset *ds)
{
    return ds ? ds->format->name : "";
}

const struct stk_problems *stk_dataset_problems(const struct stk_dataset *ds)
{
    return &ds->problems;
}

const struct stk_note *stk_dataset_note(const struct stk_dataset *ds, size_t i)
{
    return ds && i < ds->notes.n ? &ds->notes.item[i] : NULL;
}

const char *stk_version(void)
{
    return STK_VERSION;
}

unsigned stk_version_number(void)
{
    return STK_VERSION_NUMBER;
}
