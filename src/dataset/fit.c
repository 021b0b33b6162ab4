/*
 * fit.c - checks whether an index fits this dataset: its files as they are now, and the caller's
 * options.
 */
#include "dataset/priv.h"
#include "base/file.h"
#include "base/hash.h"
#include "host/fs.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

/* Up to this many files are checked against the index when it is opened; more are checked when they
 * are first read. */
#define CHECK_FILES 1024
/* Pieces of at most so many files are compared: in most formats, the first one says what the others
 * mean. */
#define PIECED_FILES 8
#define PIECE        4096

/* ---- trust ---- */

/* An index is trusted only as far as its owner owns the data. */
static bool may_vouch(struct stk_fit *f, uid_t owner)
{
    bool may = !f->only_owner || owner == f->owner;
    f->others_data |= !may;
    return may;
}

static bool dirs_fresh(struct stk_fit *f)
{
    const struct stk_index *idx = f->idx;
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
        if (fstatat(f->ds->files.rootfd, name[0] ? name : ".", &sb, 0) < 0 ||
            !may_vouch(f, sb.st_uid) ||
            (f->has_inodes && d[i].inode && d[i].inode != stk_inode_fold(sb.st_ino)) ||
            (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec != d[i].mtime_ns)
            return false;
    }
    return true;
}

/* ---- the data that was indexed, not other data of the same sizes and times ---- */

/* Whether the index still is the file that was written, or its folder the one that was listed: then
 * the files must be those that were indexed, untouched. Else it was copied, with the data. */
static void find_origin(struct stk_fit *f)
{
    const struct stk_index_header *h = f->idx->h;
    int rootfd = f->ds->files.rootfd;
    struct stat sb;
    bool same_root = fstat(rootfd, &sb) == 0 && sb.st_ino == h->root_inode;
    bool kept = !stk_fs_of_fd(rootfd)->fuse;
    f->original = same_root || (kept && h->own_inode && f->inode == h->own_inode);
    f->has_inodes = f->original && kept;
}

/* ctimes tell nothing of a copy, nor of an image that is mounted read-only: it has the times that
 * its maker gave it, and so has another image mounted in its place. */
static bool needs_pieces(const struct stk_fit *f)
{
    struct statvfs fs;
    return !f->original ||
           (fstatvfs(f->ds->files.rootfd, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0);
}

static int hash_pieces(const struct stk_files *files, uint64_t number, struct stk_hash *h)
{
    struct stk_file file;
    uint8_t piece[PIECE];
    int rc = stk_file_open(files, number, STK_FILE_PLAIN, &file, NULL);
    if (rc < 0)
        return rc;
    uint64_t last = file.size > PIECE ? file.size - PIECE : 0;
    for (uint64_t i = 0; rc == 0 && i < 3; i++) {
        size_t got = 0;
        rc = stk_pread_full(file.fd, piece, sizeof piece, last * i / 2, &got, NULL, NULL);
        stk_hash_update(h, piece, got);
    }
    stk_file_close(&file);
    return rc;
}

uint64_t stk_fit_pieces(const struct stk_files *files)
{
    uint64_t n = files->count < PIECED_FILES ? files->count : PIECED_FILES;
    struct stk_hash h;
    int rc = 0;
    stk_hash_init(&h);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = hash_pieces(files, files->count * i / n, &h);
    return rc == 0 ? stk_hash_final(&h) : 0;
}

static bool is_what_was_indexed(const struct stk_fit *f, const struct stk_files *files)
{
    const struct stk_index_header *h = f->idx->h;
    if (f->original && files->count <= CHECK_FILES &&
        stk_files_changed_since(files, h->changed_ns))
        return false;
    return !h->pieces || !needs_pieces(f) || stk_fit_pieces(files) == h->pieces;
}

bool stk_fit_files(struct stk_fit *f)
{
    struct stk_files files = f->ds->files;
    stk_files_of_index(&files, f->idx);
    bool tree = f->format->caps & STK_CAN_TREE;
    for (uint64_t i = 0; i < files.count && files.count <= CHECK_FILES && !tree; i++) {
        uid_t owner;
        int rc = stk_files_compare(&files, i, &owner, NULL);
        bool damaged = rc < 0 && rc != STK_E_STALE && files.packed;
        if ((rc < 0 && !damaged) || (rc != STK_E_SYS && !may_vouch(f, owner)))
            return false;
    }
    files.in_place = f->has_inodes;
    return tree || files.packed || is_what_was_indexed(f, &files);
}

static int shard_entry(const void *list, uint64_t number, struct stk_files_entry *e,
                       struct stk_err *err)
{
    const struct stk_manifest *m = list;
    (void)err;
    *e = (struct stk_files_entry){.name = m->shard[number].name,
                                  .name_len = strlen(m->shard[number].name),
                                  .size = m->shard[number].size};
    return 0;
}

int stk_fit_check_packed(struct stk_dataset *ds, bool collect, struct stk_err *err)
{
    struct stk_files files = ds->files;
    int rc = 0;
    if (!(ds->format->caps & STK_CAN_TREE)) {
        files.entry = shard_entry;
        files.list = &ds->manifest;
        files.count = ds->manifest.nshards;
    }
    for (uint64_t i = 0; rc == 0 && i < files.count && files.count <= CHECK_FILES; i++) {
        struct stk_err why = {0};
        rc = stk_files_compare(&files, i, NULL, &why);
        if (rc < 0 && rc != STK_E_NOMEM && collect) {
            stk_problems_add_code(&ds->problems, rc, why.path, why.offset, why.what);
            rc = 0;
        } else if (rc < 0 && err) {
            *err = why;
        }
    }
    return rc;
}

/* ---- what the caller asked for ---- */

/* Every option that changes what is listed belongs in here. */
uint64_t stk_fit_listing(const struct stk_dataset *ds, const struct stk_open_options *o,
                         unsigned without)
{
    struct stk_buf b = STK_BUF_INIT;
    const char *packed = ds->has_manifest ? ds->manifest.payload : "auto";
    if (o->format && !ds->has_manifest && !(without & STK_FIT_FORMAT))
        stk_buf_printf(&b, "format %s\n", o->format);
    if (strcmp(ds->list.payload, "auto") != 0 && strcmp(ds->list.payload, packed) != 0 &&
        !(without & STK_FIT_PAYLOAD))
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
    if (o->follow_links)
        stk_buf_puts(&b, "links\n");
    uint64_t id = b.len ? stk_hash64(b.data, b.len) : 0;
    stk_buf_release(&b);
    return id;
}

/* True if the index was made with these options, or detected the same settings. */
static bool settings_match(const struct stk_fit *f)
{
    const struct stk_dataset *ds = f->ds;
    const struct stk_open_options *o = f->o;
    const struct stk_index_header *h = f->idx->h;
    bool format = !o->format || strcmp(o->format, h->format) == 0;
    bool payload =
        strcmp(ds->list.payload, "auto") == 0 || strcmp(ds->list.payload, h->payload) == 0;
    if (!format || h->compress != ds->list.compress)
        return false;
    /* With an explicit format, a folder is all its files; else those that look like samples. */
    unsigned named = f->format->caps & STK_CAN_TREE ? 0 : STK_FIT_FORMAT;
    return h->listing == stk_fit_listing(ds, o, 0) || h->listing == stk_fit_listing(ds, o, named) ||
           (payload && (h->listing == stk_fit_listing(ds, o, STK_FIT_PAYLOAD) ||
                        h->listing == stk_fit_listing(ds, o, named | STK_FIT_PAYLOAD)));
}

/* The index of a single file must be for exactly this file. */
static bool same_root(const struct stk_fit *f)
{
    const struct stk_index_file *file;
    const char *name, *base = stk_base_name(f->ds->path);
    bool index_of_dir = stk_index_count(f->idx, STK_T_DIRS) > 0 || f->ds->has_manifest;
    if (f->ds->is_dir)
        return index_of_dir;
    return !index_of_dir && f->idx->h->nfiles == 1 &&
           stk_index_file(f->idx, 0, &file, &name, NULL) == 0 && file->name_len == strlen(base) &&
           memcmp(name, base, file->name_len) == 0;
}

/* The shards of a packed dataset must be those the manifest lists. */
static bool manifest_match(const struct stk_fit *f)
{
    const struct stk_manifest *m = &f->ds->manifest;
    const struct stk_index_header *h = f->idx->h;
    if (!f->ds->has_manifest)
        return true;
    /* Another packing of the same samples may have files of the same names and sizes. */
    if (h->data_id != stk_dataset_identity(f->ds))
        return false;
    if (f->format->caps & STK_CAN_TREE)
        return h->nsamples == m->samples;
    if (h->nfiles != m->nshards || h->nsamples != m->samples)
        return false;
    for (size_t i = 0; i < m->nshards; i++) {
        const struct stk_index_file *file;
        const char *name;
        if (stk_index_file(f->idx, i, &file, &name, NULL) < 0 || file->size != m->shard[i].size ||
            file->name_len != strlen(m->shard[i].name) ||
            memcmp(name, m->shard[i].name, file->name_len) != 0)
            return false;
    }
    return true;
}

bool stk_fit_all_but_files(struct stk_fit *f)
{
    f->format = stk_format_find(f->idx->h->format);
    find_origin(f);
    return f->format && (!f->ds->format || f->ds->format == f->format) && settings_match(f) &&
           same_root(f) && manifest_match(f) && dirs_fresh(f);
}
