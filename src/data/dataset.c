/*
 * dataset.c - opening a dataset: its manifest, its files, and an index that fits them (place.c
 * says where that stands).
 */
#include "data/columns.h"
#include "data/dataset.h"
#include "data/label.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/build.h"
#include "data/place.h"
#include "data/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Up to so many files are checked against the index when it is opened; more are checked one by one
 * when they are first read. */
#define CHECK_FILES 1024

/* ---- problems ---- */

void stk_problems_release(struct stk_problems *p)
{
    for (size_t i = 0; i < p->kept; i++) {
        free(p->item[i].path);
        free(p->item[i].what);
    }
    free(p->item);
    *p = (struct stk_problems){0};
}

void stk_problems_add_code(struct stk_problems *p, int code, const char *path, int64_t offset,
                           const char *what)
{
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
        free(x.path);
        free(x.what);
    }
}

void stk_problems_add(struct stk_problems *p, const char *path, int64_t offset, const char *what)
{
    stk_problems_add_code(p, STK_E_CORRUPT, path, offset, what);
}

void stk_problems_join(struct stk_problems *p, const struct stk_problems *from)
{
    uint64_t count = p->count + from->count, unsupported = p->unsupported + from->unsupported;
    for (size_t i = 0; i < from->kept; i++) {
        const struct stk_problem *x = &from->item[i];
        stk_problems_add_code(p, x->code, x->path, x->offset, x->what);
    }
    p->count = count;
    p->unsupported = unsupported;
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

/* Where an index may be: one that was made without options, and one made with the caller's. */
enum { PLAIN, ASKED, NPLACES };

/* How a dataset is opened: the caller's options and ours. */
struct opening {
    const struct stk_open_options *o;
    bool collect; /* problems, instead of failing with the first */
    bool trust;   /* an index that is there; else none is published either */
    bool is_dir;
    struct stk_checker *checker;
    char *place[NPLACES][STK_PLACES];
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
    return 0;
}

void stk_dataset_list_files(struct stk_dataset *ds)
{
    ds->files.count = ds->index.h->nfiles;
    ds->files.bytes = ds->index.h->bytes_stored;
    ds->files.entry = file_entry;
    ds->files.list = &ds->index;
}

/* ---- is an index still right? ---- */

static bool dirs_fresh(const struct stk_dataset *ds)
{
    const struct stk_index *idx = &ds->index;
    const struct stk_index_dir *d = idx->table[STK_T_DIRS];
    const char *names = idx->table[STK_T_NAMES];
    uint64_t room = stk_index_count(idx, STK_T_NAMES);
    if (stk_index_touch(idx, STK_T_DIRS, NULL) < 0)
        return false;
    for (uint64_t i = 0; i < stk_index_count(idx, STK_T_DIRS); i++) {
        struct stat sb;
        if (d[i].name_off >= room || d[i].name_len >= room - d[i].name_off ||
            stk_index_touch_bytes(idx, STK_T_NAMES, d[i].name_off, d[i].name_len + 1ull, NULL) <
                0 ||
            names[d[i].name_off + d[i].name_len])
            return false;
        const char *name = names + d[i].name_off;
        if (fstatat(ds->files.rootfd, name[0] ? name : ".", &sb, 0) < 0 ||
            (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec != d[i].mtime_ns)
            return false;
    }
    return true;
}

static bool files_fresh(const struct stk_dataset *ds)
{
    bool tree = ds->format->caps & STK_CAN_TREE;
    uint64_t n = ds->files.count;
    for (uint64_t i = 0; i < n && n <= CHECK_FILES && !tree; i++)
        if (!stk_files_unchanged(&ds->files, i))
            return false;
    return true;
}

/* ---- what the caller asked for ---- */

/* Parts of it that an index may also have found out by itself. */
enum { ASKED_FORMAT = 1, ASKED_PAYLOAD = 2 };

/* A number for what the caller asked for instead of having it found out, 0 for nothing. An index
 * made so must not be used by a caller who asked for something else, or for nothing: every option
 * that changes what is listed belongs in here. without: parts that are not counted. */
static uint64_t listing_id(const struct stk_dataset *ds, const struct stk_open_options *o,
                           unsigned without)
{
    struct stk_buf b = STK_BUF_INIT;
    const char *packed = ds->has_manifest ? ds->manifest.payload : "auto";
    if (o->format && !ds->has_manifest && !(without & ASKED_FORMAT))
        stk_buf_printf(&b, "format %s\n", o->format);
    if (strcmp(ds->list.payload, "auto") != 0 && strcmp(ds->list.payload, packed) != 0 &&
        !(without & ASKED_PAYLOAD))
        stk_buf_printf(&b, "payload %s\n", ds->list.payload);
    if (ds->list.grouped && !ds->has_manifest)
        stk_buf_puts(&b, "group\n");
    if (o->header && strcmp(o->header, "auto") != 0)
        stk_buf_printf(&b, "header %s\n", o->header);
    if (ds->list.delimiter)
        stk_buf_printf(&b, "delimiter %d\n", ds->list.delimiter);
    if (ds->types)
        stk_buf_printf(&b, "types %s\n", ds->types);
    if (o->split)
        stk_buf_printf(&b, "split %s\n", o->split);
    uint64_t id = b.len ? stk_hash64(b.data, b.len) : 0;
    stk_buf_release(&b);
    return id;
}

/* The index was made as asked, or what it found out is what is asked for. */
static bool settings_match(const struct stk_dataset *ds, const struct stk_open_options *o)
{
    const struct stk_index_header *h = ds->index.h;
    bool format = !o->format || strcmp(o->format, h->format) == 0;
    bool payload =
        strcmp(ds->list.payload, "auto") == 0 || strcmp(ds->list.payload, h->payload) == 0;
    if (!format || h->compress != ds->list.compress)
        return false;
    /* A folder of files that is named so is all its files, else those that look like samples. */
    unsigned named = ds->format->caps & STK_CAN_TREE ? 0 : ASKED_FORMAT;
    return h->listing == listing_id(ds, o, 0) || h->listing == listing_id(ds, o, named) ||
           (payload && (h->listing == listing_id(ds, o, ASKED_PAYLOAD) ||
                        h->listing == listing_id(ds, o, named | ASKED_PAYLOAD)));
}

/* A single file's index must be of this very file. */
static bool same_root(const struct stk_dataset *ds, bool is_dir)
{
    const struct stk_index_file *f;
    const char *name, *base = stk_base_name(ds->path);
    bool index_of_dir = stk_index_count(&ds->index, STK_T_DIRS) > 0 || ds->has_manifest;
    if (is_dir)
        return index_of_dir;
    return !index_of_dir && ds->index.h->nfiles == 1 &&
           stk_index_file(&ds->index, 0, &f, &name, NULL) == 0 && f->name_len == strlen(base) &&
           memcmp(name, base, f->name_len) == 0;
}

/* The shards of a packed dataset must be those the manifest lists. */
static bool manifest_match(struct stk_dataset *ds)
{
    const struct stk_manifest *m = &ds->manifest;
    if (!ds->has_manifest)
        return true;
    /* Another packing of the same samples may have files of the same names and sizes. */
    if (ds->index.h->data_id != stk_dataset_identity(ds))
        return false;
    if (ds->format->caps & STK_CAN_TREE)
        return ds->index.h->nsamples == m->samples;
    if (ds->index.h->nfiles != m->nshards || ds->index.h->nsamples != m->samples)
        return false;
    for (size_t i = 0; i < m->nshards; i++) {
        const struct stk_index_file *f;
        const char *name;
        if (stk_index_file(&ds->index, i, &f, &name, NULL) < 0 || f->size != m->shard[i].size ||
            f->name_len != strlen(m->shard[i].name) ||
            memcmp(name, m->shard[i].name, f->name_len) != 0)
            return false;
    }
    return true;
}

/* A packed dataset whose files have suffered keeps its number of samples where bad ones are passed
 * over: ranks that see other damage, or see it later, still agree. What is left of a file is read.
 */
static bool files_usable(struct stk_dataset *ds, const struct stk_open_options *o)
{
    if (files_fresh(ds))
        return true;
    ds->files.any_size = ds->has_manifest && o->pass_over;
    return ds->files.any_size;
}

/* One of a former version is made anew, for what it lacks; but that of a packed dataset has what
 * only `pack` knows. */
static int open_current(struct stk_dataset *ds, const char *path, struct stk_err *err)
{
    int rc = stk_index_open(path, &ds->index, err);
    uint32_t version = rc == 0 ? ds->index.h->version : 0;
    if (rc < 0 || version == STK_INDEX_VERSION || ds->has_manifest)
        return rc;
    stk_index_close(&ds->index);
    return stk_err_set(err, STK_E_STALE, path, -1, "an index of version %u, this stoker makes %u",
                       version, STK_INDEX_VERSION);
}

static bool try_index(struct stk_dataset *ds, const struct stk_open_options *o, const char *path,
                      bool is_dir)
{
    struct stk_err why = {0};
    int rc = open_current(ds, path, &why);
    if (rc < 0) {
        if (rc != STK_E_SYS && !ds->index_why)
            ds->index_why = strdup(why.what);
        return false;
    }
    stk_dataset_list_files(ds);
    const struct stk_format *f = stk_format_find(ds->index.h->format);
    if (f && (!ds->format || ds->format == f)) {
        const struct stk_format *before = ds->format;
        ds->format = f;
        if (settings_match(ds, o) && same_root(ds, is_dir) && manifest_match(ds) &&
            dirs_fresh(ds) && files_usable(ds, o) && (ds->index_path = strdup(path)))
            return true;
        ds->format = before;
    }
    stk_index_close(&ds->index);
    return false;
}

/* ---- building ---- */

static int make_walk(struct stk_dataset *ds, const struct stk_open_options *o, struct stk_walk *w,
                     struct stk_problems *problems, struct stk_err *err)
{
    /* A packed folder of files is a tree: one level down, like any other. */
    if (ds->has_manifest && !(ds->format->caps & STK_CAN_TREE)) {
        size_t n = ds->manifest.nshards;
        const char **names = calloc(n ? n : 1, sizeof *names);
        if (!names)
            return stk_err_nomem(err, n * sizeof *names);
        for (size_t i = 0; i < n; i++)
            names[i] = ds->manifest.shard[i].name;
        int rc = stk_walk_shards(w, ds->path, ds->format, names, n, NULL, err);
        free(names);
        return rc;
    }
    /* Of a single file, root is the folder it stands in: not what was asked for. */
    return stk_walk(w, ds->has_manifest ? ds->root : ds->path,
                    ds->format ? ds->format->name : o->format, o->split, NULL, problems, err);
}

/* The index of the walked files, in t. */
static int build_into(struct stk_dataset *ds, const struct opening *how, struct stk_walk *w,
                      struct stk_target *t, struct stk_err *err)
{
    struct stk_build_options b = {.list = ds->list,
                                  .jobs = how->o->jobs,
                                  .problems = how->collect ? &ds->problems : NULL,
                                  .checker = how->checker,
                                  .path = t->at,
                                  .data_id = ds->has_manifest ? stk_dataset_identity(ds) : 0,
                                  .listing = listing_id(ds, how->o, w->as_found ? ASKED_FORMAT : 0),
                                  .progress = how->o->progress,
                                  .user = how->o->user};
    b.list.grouped = b.list.grouped || stk_spool_len(&w->keys);
    int rc = stk_build_index(w, &b, t->fd, err);
    /* An index of damaged data is good for this run only: the next shall see the damage itself. */
    bool published = rc == 0 && ds->problems.count == 0 && stk_target_publish(t, &w->readers);
    if (rc == 0)
        rc = stk_index_open_fd(t->fd, published ? t->at : ds->path, &ds->index, err);
    if (rc == 0 && !(ds->index_path = strdup(published ? t->at : "")))
        rc = stk_err_nomem(err, 1);
    ds->index_built = true;
    return rc;
}

/* *first: the place to begin with; afterwards the one behind that which could not be written to
 * the end, STK_PLACES: that was not the trouble. */
static int build(struct stk_dataset *ds, const struct opening *how, int *first, struct stk_err *err)
{
    struct stk_walk w;
    struct stk_target t = {.fd = -1, .number = -1, .file = STK_NEW_INIT};
    int rc = make_walk(ds, how->o, &w, &ds->problems, err);
    ds->format = w.format;
    if (rc == 0 && ds->problems.count && !how->collect)
        rc = stk_err_set(err, STK_E_SYS, ds->problems.item[0].path, -1, "open folder: %s",
                         ds->problems.item[0].what);
    bool asked = rc == 0 && listing_id(ds, how->o, w.as_found ? ASKED_FORMAT : 0);
    if (rc == 0)
        rc = stk_target_open(&t, how->place[asked ? ASKED : PLAIN], *first, err);
    if (rc == 0)
        rc = build_into(ds, how, &w, &t, err);
    bool full = rc == STK_E_SYS && t.at && strcmp(err->path, t.at) == 0;
    *first = full ? t.number + 1 : STK_PLACES;
    stk_target_close(&t);
    stk_walk_release(&w);
    return rc;
}

/* A full disk at one place is no reason to fail: there are others, the last one without a name. */
static int build_somewhere(struct stk_dataset *ds, const struct opening *how, bool nameless,
                           struct stk_err *err)
{
    const struct stk_format *format = ds->format;
    struct stk_err why = {0};
    int rc, first = nameless ? STK_PLACES : ds->has_manifest ? 1 : 0;
    /* Inside a packed dataset nothing is changed: its index there was written with it. */
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

static int use_manifest(struct stk_dataset *ds, const struct stk_open_options *o,
                        struct stk_err *err)
{
    int rc = stk_manifest_read(ds->path, &ds->manifest, err);
    if (rc <= 0)
        return rc;
    ds->has_manifest = true;
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

static int open_root(struct stk_dataset *ds, bool is_dir, struct stk_err *err)
{
    const char *slash = strrchr(ds->path, '/');
    /* Files of a packed tree are below the one "shard". */
    bool packed_tree = ds->has_manifest && (ds->format->caps & STK_CAN_TREE);
    if (packed_tree)
        ds->root = ds->manifest.nshards ? stk_path_join(ds->path, ds->manifest.shard[0].name)
                                        : strdup(ds->path);
    else
        ds->root = is_dir              ? strdup(ds->path)
                   : !slash            ? strdup(".")
                   : slash == ds->path ? strdup("/")
                                       : strndup(ds->path, (size_t)(slash - ds->path));
    if (!ds->root)
        return stk_err_nomem(err, strlen(ds->path));
    ds->files.root = ds->root;
    ds->files.rootfd = open(ds->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ds->files.rootfd < 0 ? stk_err_sys(err, ds->root, "open folder") : 0;
}

static int open_index(struct stk_dataset *ds, struct opening *how, struct stk_err *err)
{
    const struct stk_open_options *o = how->o;
    uint64_t listing = listing_id(ds, o, 0);
    bool found = false, look = how->trust && !o->rebuild_index && !o->datasets;
    int rc = stk_places(ds, o->index, 0, how->place[PLAIN], err);
    if (rc == 0)
        rc = stk_places(ds, o->index, listing, how->place[ASKED], err);
    for (int k = PLAIN; rc == 0 && look && k <= (listing ? ASKED : PLAIN); k++)
        for (int i = 0; !found && i < STK_PLACES && how->place[k][i]; i++)
            found = try_index(ds, o, how->place[k][i], how->is_dir);
    if (rc == 0 && !found)
        rc = build_somewhere(ds, how, !how->trust || o->no_index_write || o->datasets, err);
    if (rc == 0 && o->datasets && !(ds->format->caps & STK_CAN_PICK))
        rc = stk_err_set(err, STK_E_USAGE, ds->path, -1,
                         "datasets can be named of HDF5 and NPZ; this is %s", ds->format->title);
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

/* What the dataset is told and keeps: the caller may free his options when it is open. */
static int keep_texts(struct stk_dataset *ds, const struct stk_open_options *o, struct stk_err *err)
{
    ds->payload = strdup(o->payload ? o->payload : "auto");
    ds->datasets = o->datasets ? strdup(o->datasets) : NULL;
    ds->list.payload = ds->payload ? ds->payload : "auto";
    ds->list.datasets = ds->datasets;
    ds->list.grouped = o->group;
    return ds->payload && !o->datasets == !ds->datasets ? 0 : stk_err_nomem(err, 1);
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
    bool is_dir = how->is_dir = rc == 0 && S_ISDIR(sb.st_mode);
    if (rc == 0)
        rc = ds->list.header = stk_columns_header(o->header, err);
    if (rc >= 0)
        rc = ds->list.delimiter = stk_columns_delimiter(o->delimiter, err);
    if (rc >= 0)
        rc = stk_columns_parse(o->types, &ds->types, err);
    ds->list.types = ds->types;
    if (rc == 0 && strcmp(ds->list.payload, "auto") != 0 && !stk_codec_find(ds->list.payload))
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "no payload is called '%s'", ds->list.payload);
    if (rc == 0 && is_dir)
        rc = use_manifest(ds, o, err);
    if (rc == 0)
        rc = open_root(ds, is_dir, err);
    if (rc == 0)
        rc = open_index(ds, how, err);
    if (rc == 0)
        rc = find_codecs(ds, err);
    if (rc == 0)
        rc = stk_notes_read(&ds->notes, ds->index.table[STK_T_NOTES],
                            (size_t)stk_index_count(&ds->index, STK_T_NOTES), err);
    if (rc == 0)
        stk_dataset_list_files(ds);
    if (rc < 0)
        stk_dataset_close(ds);
    else
        *out = ds;
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

int stk_dataset_open(const char *path, const struct stk_open_options *opts,
                     struct stk_dataset **out, struct stk_err *err)
{
    return stk_dataset_open_with(path, opts, opts && opts->pass_over, true, out, err);
}

void stk_dataset_close(struct stk_dataset *ds)
{
    if (!ds || atomic_fetch_sub(&ds->keepers, 1) > 0)
        return;
    stk_reader_free_all(ds->idle);
    if (ds->labels)
        stk_labels_release(ds->labels);
    free(ds->labels);
    stk_index_close(&ds->index);
    stk_manifest_release(&ds->manifest);
    stk_problems_release(&ds->problems);
    stk_notes_release(&ds->notes);
    if (ds->files.rootfd >= 0)
        close(ds->files.rootfd);
    pthread_mutex_destroy(&ds->lock);
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
    return ds ? ds->index.h->nsamples : 0;
}

const char *stk_dataset_format(const struct stk_dataset *ds)
{
    return ds->format->name;
}

const struct stk_problems *stk_dataset_problems(const struct stk_dataset *ds)
{
    return &ds->problems;
}

const struct stk_note *stk_dataset_note(const struct stk_dataset *ds, size_t i)
{
    return i < ds->notes.n ? &ds->notes.item[i] : NULL;
}

const char *stk_version(void)
{
    return STK_VERSION;
}
