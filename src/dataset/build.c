/*
 * build.c - lists files in parallel and merges the reports into the tables of an index.
 *
 * Workers take groups of adjacent files. A worker appends the reports of its groups to its own
 * spools; the merge then copies the ranges of all groups in file order, so the index does not
 * depend on the number of workers. Memory does not grow with the dataset.
 */
#include "dataset/build_priv.h"
#include "base/file.h"
#include "base/pool.h"
#include "host/cpus.h"
#include "format/jail.h"
#include "format/format.h"
#include "format/group.h"
#include "format/members.h"

#include <stdlib.h>
#include <sys/stat.h>

/* ---- listing a file ---- */

/* The decoded length of a compressed file, from its header. */
static int decoded_size(const struct file_sink *f, uint64_t *len, struct stk_err *err)
{
    struct builder *b = f->g->b;
    struct stk_file file;
    uint8_t head[32];
    size_t got = 0;
    int rc = stk_file_open(&b->files, f->file, STK_FILE_PLAIN, &file, err);
    if (rc < 0)
        return rc;
    rc = stk_pread_full(file.fd, head, sizeof head, 0, &got, f->path, err);
    stk_file_close(&file);
    if (rc == 0 && !stk_member_decoded_len(b->o->list.compress, head, got, len))
        rc = stk_err_set(err, STK_E_CORRUPT, f->path, 0, "damaged compressed data");
    return rc;
}

/* Files of one stem are one sample. It ends with its last file, where it is counted. */
static int list_grouped_file(struct file_sink *f, struct stk_lister *l, struct stk_grouper *group,
                             const struct stk_chain *chain, const char *name, size_t len,
                             struct stk_err *err)
{
    struct builder *b = f->g->b;
    uint64_t value_len = f->rec.size;
    int rc = chain->nsteps ? decoded_size(f, &value_len, err) : 0;
    if (rc == 0)
        rc = stk_grouper_member(group, name, len, err);
    if (rc == 1)
        rc = stk_notes_left_out(&f->notes, "file", name, STK_GROUP_TWICE, 1, err);
    else if (rc == 0) {
        int64_t extent = stk_list_extent(l, 0, f->rec.size, chain, err);
        rc = extent < 0 ? (int)extent : stk_grouper_part(group, extent, 0, value_len, err);
    }
    uint64_t next = (uint64_t)f->file + 1;
    size_t next_len = 0;
    const char *next_name = next < b->walk->nfiles ? key_name(b, next, &next_len) : NULL;
    if (rc == 0 && (!next_name || stk_grouper_is_new(group, next_name, next_len)))
        rc = stk_grouper_flush(group, err);
    return rc < 0 ? rc : group->open ? 0 : stk_build_close_sample(f, err);
}

/* A file of a folder is a sample: it need not be opened. */
static int list_tree_file(struct file_sink *f, struct stk_lister *l, struct stk_grouper *group,
                          struct stk_err *err)
{
    struct builder *b = f->g->b;
    const char *name = file_name(b, f->file), *key = NULL;
    size_t key_len = b->file[f->file].name_len;
    struct stat sb;
    if (stk_stat_walk(&f->look, name, &sb) < 0)
        return stk_err_sys(err, f->path, "stat");
    f->rec.size = (uint64_t)sb.st_size;
    f->rec.mtime_ns = (int64_t)sb.st_mtim.tv_sec * 1000000000 + sb.st_mtim.tv_nsec;
    f->rec.changed_ns = (int64_t)sb.st_ctim.tv_sec * 1000000000 + sb.st_ctim.tv_nsec;
    f->rec.inode = stk_inode_fold(sb.st_ino);
    stk_readers_join(&f->g->w->readers, &sb);
    struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES};
    struct stk_chain chain = {0};
    int compress = b->o->list.compress;
    if (stk_member_strip(compress, name, &key_len)) /* "a.jpg.zst" holds the sample "a.jpg" */
        chain = (struct stk_chain){.nsteps = 1, .step[0].id = (uint16_t)compress};
    if (b->key)
        name = key_name(b, f->file, &key_len);
    if (b->o->list.grouped)
        return list_grouped_file(f, l, group, &chain, name, key_len, err);
    if (compress)
        key = name;
    int field = stk_list_field(l, &spec, err);
    return field < 0 ? field
                     : stk_list_record_filtered(l, field, 0, f->rec.size, &chain, key,
                                                key ? key_len : 0, err);
}

/* Lets the records of the file be checked while they are listed. */
static int begin_check(struct file_sink *f, struct stk_src *src, struct stk_err *err)
{
    struct builder *b = f->g->b;
    f->src = src;
    f->check_codec = NULL;
    const struct stk_format *format = b->walk->format;
    if (!b->o->checker || !format->check || !(format->caps & STK_CAN_STREAM) ||
        stk_src_is_stream(src) || !f->rec.size)
        return 0;
    /* With fewer files than workers, idle workers can read for others. */
    unsigned helpers = b->walk->nfiles < b->nworkers ? b->nworkers - 1 : 0;
    int rc = stk_check_open(b->o->checker, format, src, f->file, helpers, &f->check, err);
    if (rc == 0)
        stk_src_set_blocks(src, stk_check_feed(f->check));
    return rc;
}

static int end_check(struct file_sink *f, int rc, struct stk_err *err)
{
    struct stk_check *c = f->check;
    f->check = NULL;
    if (!c)
        return rc;
    int end = stk_check_close(c, rc == 0, rc == 0 ? err : NULL);
    return rc < 0 ? rc : end;
}

/* Compressed bytes make no sense to a format: not worth a try. */
static int refuse_compressed(struct stk_src *src, const char *path, struct stk_err *err)
{
    const uint8_t *head;
    size_t got;
    int rc = stk_src_peek(src, 0, STK_COMPRESSION_HEAD, &head, &got, err);
    const struct stk_compression *c = rc < 0 ? NULL : stk_compression_of(head, got);
    return c ? stk_compression_refuse(c, path, err) : rc;
}

static int list_container(struct file_sink *f, struct stk_err *err)
{
    struct builder *b = f->g->b;
    const struct stk_format *format = b->walk->format;
    struct stk_file file;
    struct stk_src *src;
    struct stat sb;
    int rc = stk_file_open(&b->files, f->file, STK_FILE_PLAIN, &file, err);
    if (rc == 0 && fstat(file.fd, &sb) < 0) {
        rc = stk_err_sys(err, f->path, "stat");
        stk_file_close(&file);
    }
    if (rc == 0)
        stk_readers_join(&f->g->w->readers, &sb);
    if (rc == 0) /* from now on the source owns the descriptor */
        rc = stk_src_open(file.fd, file_name(b, f->file), f->path, format->caps & STK_CAN_GZIP,
                          &src, err);
    if (rc < 0)
        return rc;
    f->rec.size = stk_src_file_size(src);
    f->rec.mtime_ns = stk_src_mtime_ns(src);
    f->rec.changed_ns = (int64_t)sb.st_ctim.tv_sec * 1000000000 + sb.st_ctim.tv_nsec;
    f->rec.inode = stk_inode_fold(sb.st_ino);
    struct stk_lister l;
    stk_lister_init(&l, &f->base, src, &b->o->list);
    rc = begin_check(f, src, err);
    if (rc < 0)
        ;
    else if (f->rec.size == 0)
        rc = format->caps & STK_CAN_EMPTY ? 0 : stk_list_problem(&l, 0, err, "the file is empty");
    else if (!stk_src_is_stream(src) && (rc = refuse_compressed(src, f->path, err)) < 0)
        ;
    else if (format->caps & STK_CAN_CRASH)
        rc = stk_jail_list(format, &l, src, err);
    else
        rc = format->list(&l, src, err);
    struct stk_err ignored;
    int end = stk_lister_finish(&l, rc == 0 ? err : &ignored);
    if (rc == 0)
        rc = end == 0 ? stk_build_close_sample(f, err) : end;
    rc = end_check(f, rc, err);
    stk_lister_release(&l);
    stk_src_close(src);
    return rc;
}

/* Damage and unreadable files affect only that file; other errors stop the build. */
static bool is_file_problem(int code)
{
    return code == STK_E_CORRUPT || code == STK_E_SYS || code == STK_E_UNSUPPORTED;
}

/* Prepares the sink for another file; keeps field and chain numbers only for files of a folder,
 * which share one lister. */
static void sink_next(struct file_sink *f, uint64_t number, const char *path, bool tree)
{
    f->file = (uint32_t)number;
    f->path = path;
    f->rec = (struct file_rec){0};
    f->progress_off = 0;
    f->nkeys = 0;
    if (!tree || !f->g->b->o->list.grouped) {
        f->first_extent = f->g->nextents;
        f->mode = 0;
        f->open = false;
    }
    if (!tree) {
        stk_buf_reset(&f->field_map);
        stk_buf_reset(&f->chain_map);
    }
}

static void sink_release(struct file_sink *f)
{
    stk_buf_release(&f->field_map);
    stk_buf_release(&f->chain_map);
    stk_buf_release(&f->parts);
    stk_buf_release(&f->key);
    stk_notes_release(&f->notes);
    stk_stat_walk_release(&f->look);
}

static int list_file(struct file_sink *f, struct stk_lister *tree, struct stk_grouper *group,
                     uint64_t number, struct stk_err *err)
{
    struct builder *b = f->g->b;
    const char *name = file_name(b, number);
    char *path = stk_walk_path(b->walk, name, b->file[number].name_len);
    if (!path)
        return stk_err_nomem(err, b->file[number].name_len);
    struct stk_err why = {0};
    sink_next(f, number, path, tree != NULL);
    int rc = tree ? list_tree_file(f, tree, group, &why) : list_container(f, &why);
    /* Without options of the caller, what does not fit is the file, not the manifest's types. */
    if (rc == STK_E_USAGE && b->o->data_id && !b->o->listing) {
        stk_err_wrap(&why, rc, "it is not what was packed");
        rc = why.code = STK_E_CORRUPT;
    }
    if (rc < 0 && is_file_problem(rc) && b->o->problems && !f->g->lost)
        rc = stk_build_problem(b, rc, path, why.offset, why.what, err);
    else if (rc < 0 && err)
        *err = why;
    if (rc == 0)
        rc = stk_build_close_keys(f, err);
    if (rc == 0)
        rc = put(f->g, S_FILES, &f->rec, sizeof f->rec, err);
    if (rc == 0)
        rc = stk_build_put_notes(f, err);
    if (f->rec.has_keys)
        atomic_store(&b->any_keys, true);
    if (f->rec.size > f->progress_off)
        atomic_fetch_add(&b->bytes_done, f->rec.size - f->progress_off);
    free(path);
    return rc;
}

static void spool_marks(const struct worker *w, uint64_t *mark)
{
    for (int i = 0; i < S_COUNT; i++)
        mark[i] = stk_spool_len(&w->spool[i]);
}

/* The first file of a group: does not split files of one stem if these belong together. */
static uint64_t group_start(const struct builder *b, uint64_t item)
{
    uint64_t i = item * b->files_per_group;
    while (b->o->list.grouped && i > 0 && i < b->walk->nfiles) {
        size_t before_len, here_len;
        const char *before = key_name(b, i - 1, &before_len), *here = key_name(b, i, &here_len);
        size_t stem = stk_member_stem(before, before_len);
        if (stem != stk_member_stem(here, here_len) || memcmp(before, here, stem) != 0)
            break;
        i++;
    }
    return i < b->walk->nfiles ? i : b->walk->nfiles;
}

static int list_group(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct builder *b = user;
    struct group *grp = &b->group[item];
    struct group_state g = {.b = b, .w = &b->worker[thread]};
    struct file_sink f = {.base.event = stk_build_event, .g = &g};
    stk_stat_walk_init(&f.look, b->walk->rootfd, b->walk->outside);
    struct stk_lister l;
    bool tree = b->walk->format->caps & STK_CAN_TREE;
    stk_lister_init(&l, &f.base, NULL, &b->o->list);
    grp->worker = thread;
    spool_marks(g.w, grp->begin);
    struct stk_grouper group;
    stk_grouper_init(&group, &l, false, STK_GROUP_EXTS);
    uint64_t first = group_start(b, item), end = group_start(b, item + 1);
    int rc = 0;
    for (uint64_t i = first; rc == 0 && i < end; i++) {
        rc = list_file(&f, tree ? &l : NULL, &group, i, err);
        if (rc == 0 && (!tree || i % 256 == 0))
            rc = stk_build_report(b, false, err);
    }
    if (rc == 0)
        rc = stk_build_flush_segment(&g, err);
    spool_marks(g.w, grp->end);
    stk_grouper_release(&group);
    stk_lister_release(&l);
    sink_release(&f);
    return rc;
}

/* ---- the whole ---- */

static void plan_groups(struct builder *b)
{
    uint64_t nfiles = b->walk->nfiles;
    uint64_t least = b->walk->format->caps & STK_CAN_TREE ? 512 : 1;
    uint64_t per = nfiles / ((uint64_t)b->nworkers * 16);
    b->files_per_group = per > least ? per : least;
    b->ngroups = (nfiles + b->files_per_group - 1) / b->files_per_group;
}

/* Nothing is recorded about the files yet. */
static int file_entry(const void *list, uint64_t number, struct stk_files_entry *e,
                      struct stk_err *err)
{
    (void)err;
    const struct builder *b = list;
    *e = (struct stk_files_entry){
        .name = file_name(b, number), .name_len = b->file[number].name_len, .size = STK_SIZE_ANY};
    return 0;
}

static int builder_init(struct builder *b, struct stk_err *err)
{
    const void *files, *names;
    int rc = stk_spool_map(&b->walk->files, &files, err);
    if (rc == 0)
        rc = stk_spool_map(&b->walk->names, &names, err);
    if (rc < 0)
        return rc;
    const void *keys = NULL;
    if (stk_spool_len(&b->walk->keys) && (rc = stk_spool_map(&b->walk->keys, &keys, err)) < 0)
        return rc;
    b->file = files;
    b->names = names;
    b->key = keys;
    b->files = (struct stk_files){.rootfd = b->walk->rootfd,
                                  .root = b->walk->root,
                                  .count = b->walk->nfiles,
                                  .entry = file_entry,
                                  .list = b,
                                  .outside = b->walk->outside};
    b->nworkers = b->o->jobs ? b->o->jobs : stk_cpus();
    /* The jail forks: only from a single-threaded process, so that no missing thread holds a lock
     * in the child. */
    if (b->walk->format->caps & STK_CAN_CRASH)
        b->nworkers = 1;
    plan_groups(b);
    b->group = calloc(b->ngroups ? b->ngroups : 1, sizeof *b->group);
    b->worker = calloc(b->nworkers, sizeof *b->worker);
    if (!b->group || !b->worker)
        return stk_err_nomem(err, b->ngroups * sizeof *b->group);
    for (unsigned w = 0; w < b->nworkers; w++)
        for (int i = 0; i < S_COUNT; i++)
            stk_spool_init(&b->worker[w].spool[i], b->o->tmpdir);
    return 0;
}

static void builder_release(struct builder *b)
{
    for (unsigned w = 0; b->worker && w < b->nworkers; w++)
        for (int i = 0; i < S_COUNT; i++)
            stk_spool_release(&b->worker[w].spool[i]);
    free(b->worker);
    free(b->group);
    stk_buf_release(&b->fields);
    stk_buf_release(&b->fieldnames);
    stk_buf_release(&b->chains);
    stk_buf_release(&b->context);
    pthread_mutex_destroy(&b->lock);
}

int stk_build_index(struct stk_walk *w, const struct stk_build_options *o, int fd,
                    struct stk_err *err)
{
    const struct stk_format *f = w->format;
    if (f->missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, w->root, -1,
                           "%s is not in this build of stoker: install %s and build again",
                           f->title, f->package);
    if (!(f->caps & STK_CAN_READ))
        return stk_err_set(err, STK_E_UNSUPPORTED, w->root, -1, "%s cannot be read", f->title);
    int rc = f->load ? f->load(err) : 0;
    if (rc < 0)
        return rc;
    struct builder b = {.walk = w, .o = o};
    pthread_mutex_init(&b.lock, NULL);
    rc = builder_init(&b, err);
    if (rc == 0)
        rc = stk_pool_run(b.nworkers, b.ngroups, list_group, &b, err);
    for (unsigned i = 0; rc == 0 && i < b.nworkers; i++)
        stk_readers_merge(&w->readers, &b.worker[i].readers);
    if (rc == 0)
        rc = stk_build_report(&b, true, err);
    if (rc == 0)
        rc = stk_build_merge(&b, fd, err);
    builder_release(&b);
    return rc;
}
