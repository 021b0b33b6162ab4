/*
 * finish.c - the names of shards, the shards that an earlier run finished, and the index and
 * manifest that complete the dataset.
 */
#include "dataset/checksum.h"
#include "pack/priv.h"
#include "base/beneath.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/buf.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <inttypes.h>

/* ---- shards ---- */

int stk_pack_name_shards(struct pack *p, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    p->nshards = f->caps & STK_CAN_SHARD ? p->sel.nshards : 1;
    p->shard = calloc(p->nshards ? p->nshards : 1, sizeof *p->shard);
    if (!p->shard)
        return stk_err_nomem(err, p->nshards * sizeof *p->shard);
    for (uint64_t i = 0; i < p->nshards; i++) {
        struct shard *s = &p->shard[i];
        s->out = STK_OUT_INIT;
        s->begin = s->next = p->nshards == p->sel.nshards ? p->sel.cut[i] : 0;
        s->end = p->nshards == p->sel.nshards ? p->sel.cut[i + 1] : p->sel.n;
        if (f->caps & STK_CAN_TREE)
            snprintf(s->name, sizeof s->name, "files");
        else
            snprintf(s->name, sizeof s->name, "%s-%05llu-of-%05llu%s", p->name,
                     (unsigned long long)i, (unsigned long long)p->nshards, f->suffix);
    }
    return 0;
}

/* The options for listing the output. */
static struct stk_list_options list_options(const struct pack *p)
{
    return (struct stk_list_options){.payload = p->cfg.codec ? p->cfg.codec->name : "auto",
                                     .compress = p->cfg.compress,
                                     .grouped = p->cfg.grouped,
                                     .header = p->cfg.columns ? STK_HEADER_YES : STK_HEADER_AUTO,
                                     .types = p->cfg.columns};
}

static int walk_tree(const struct pack *p, const char *name, struct stk_walk *w,
                     struct stk_err *err)
{
    struct stk_problems none = {0};
    struct stk_walk_options o = {.want = p->cfg.format->name};
    char *root = stk_path_join(p->dest.partial, name);
    if (!root)
        return stk_err_nomem(err, strlen(name));
    o.rootfd = stk_open_beneath(p->dest.fd, name, O_RDONLY | O_DIRECTORY);
    int rc = o.rootfd < 0 ? stk_err_sys(err, root, "open folder")
                          : stk_walk_with(w, root, &o, &none, err);
    if (o.rootfd >= 0)
        close(o.rootfd);
    stk_problems_release(&none);
    free(root);
    return rc;
}

/* Walks the files in the folder being written. */
static int walk_output(const struct pack *p, struct stk_walk *w, struct stk_err *err)
{
    uint64_t n = p->nshards;
    *w = (struct stk_walk){.rootfd = -1};
    if (p->cfg.format->caps & STK_CAN_TREE)
        return walk_tree(p, p->shard[0].name, w, err);
    const char **names = calloc(n ? n : 1, sizeof *names);
    if (!names)
        return stk_err_nomem(err, n * sizeof *names);
    for (uint64_t i = 0; i < n; i++)
        names[i] = p->shard[i].name;
    const struct stk_walk_options o = {.rootfd = p->dest.fd};
    int rc = stk_walk_shards(w, p->dest.partial, &o, p->cfg.format, names, n, err);
    free(names);
    return rc;
}

/* Compares a file of an earlier run with its record. 1: alike; 0: it is gone, or another. */
static int is_recorded(const struct pack *p, const struct stk_manifest_file *f, struct stk_err *err)
{
    struct stk_err why = {0};
    uint64_t size;
    struct stat sb;
    char *path = stk_path_join(p->dest.partial, f->name);
    int rc = path ? stk_find_at(p->dest.fd, f->name, &sb, path, err)
                  : stk_err_nomem(err, strlen(f->name));
    if (rc == 1 && S_ISLNK(sb.st_mode)) /* never ours */
        rc = 0;
    if (rc == 1) {
        rc = stk_content_compare(p->dest.fd, false, f, path, &size, &why);
        if ((rc == STK_E_SYS || rc == STK_E_NOMEM) && err)
            *err = why;
        rc = rc == STK_E_SYS || rc == STK_E_NOMEM ? rc : rc == 0;
    }
    free(path);
    return rc;
}

static void kept(struct pack *p, struct shard *s)
{
    s->done = true;
    p->shards_kept++;
    p->samples_done += s->samples;
    for (uint64_t lost = s->end - s->begin - s->samples; lost; lost--)
        stk_problems_add(&p->skipped, s->name, -1, "skipped by the run that was resumed");
}

/* Removes a shard that is not the one that was finished: it is packed again. */
static int drop_shard(struct pack *p, struct shard *s, const char *side, struct stk_err *err)
{
    int rc = stk_remove_at(p->dest.fd, s->name, p->dest.partial, err);
    if (rc == 0 && side)
        rc = stk_remove_at(p->dest.fd, side, p->dest.partial, err);
    p->shards_redone++;
    return rc;
}

/* Keeps a shard and its sidecar if they are what was recorded when they were finished, byte for
 * byte. What changed since (damage, another file of that name) is packed again. */
static int keep_shard(struct pack *p, struct shard *s, struct stk_err *err)
{
    int there = stk_find_at(p->dest.fd, s->name, NULL, p->dest.partial, err);
    if (there < 1)
        return there;
    const struct stk_manifest_file *file = stk_done_find(&p->dest.done, s->name), *side = NULL;
    if (p->cfg.format->sidecar) {
        s->side_name = stk_out_side_name(p->cfg.format, s->name);
        if (!s->side_name)
            return stk_err_nomem(err, strlen(s->name));
        side = stk_done_find(&p->dest.done, s->side_name);
    }
    uint64_t most = s->end - s->begin;
    bool skips = p->o->on_error == STK_ON_ERROR_SKIP;
    int same = file && file->samples <= most && (file->samples == most || skips);
    if (same)
        same = is_recorded(p, file, err);
    if (same == 1 && side)
        same = is_recorded(p, side, err);
    if (same == 1) {
        s->file = *file;
        s->samples = file->samples;
        if (side)
            s->side = *side;
        kept(p, s);
        return 0;
    }
    int rc = same < 0 ? same : drop_shard(p, s, s->side_name, err);
    free(s->side_name);
    s->side_name = NULL;
    return rc;
}

int stk_pack_keep_finished(struct pack *p, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < p->nshards; i++)
        rc = keep_shard(p, &p->shard[i], err);
    return rc;
}

/* ---- the rest of the dataset ---- */

static int check_count(const struct pack *p, uint64_t listed, struct stk_err *err)
{
    if (listed == p->samples_done)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, p->dest.final, -1,
                       "%llu samples were written but %llu are read back: in %s the files of one "
                       "sample share a name up to the first dot, which must be unique; use --keys "
                       "number",
                       (unsigned long long)p->samples_done, (unsigned long long)listed,
                       p->cfg.format->title);
}

static int data_id(const struct pack *p, uint64_t *id, struct stk_err *err)
{
    struct stk_manifest_file *f = calloc(p->nshards + 1, sizeof *f);
    if (!f)
        return stk_err_nomem(err, p->nshards * sizeof *f);
    for (uint64_t i = 0; i < p->nshards; i++)
        f[i] = p->shard[i].file;
    *id = stk_manifest_id(f, p->nshards);
    free(f);
    return 0;
}

static int on_check(void *user, struct stk_err *err)
{
    return stk_pack_report(user, "index", false, err);
}

/* Builds the index of the output; *listed: the samples found. */
static int fill_index(struct pack *p, const struct stk_new *f, struct stk_walk *w, uint64_t *listed,
                      struct stk_err *err)
{
    struct stk_build_options b = {.list = list_options(p),
                                  .jobs = p->open->jobs,
                                  .portable = true,
                                  .path = f->path,
                                  .checks = true};
    struct stk_index idx = {0};
    int rc = data_id(p, &b.data_id, err);
    if (rc == 0)
        rc = stk_build_index(w, &b, f->fd, err);
    if (rc == 0)
        rc = stk_checks_add(w, p->jobs, on_check, p, f->fd, f->path, err);
    if (rc == 0)
        rc = stk_index_open_fd(f->fd, f->path, &idx, err);
    if (rc == 0) {
        *listed = idx.h->nsamples;
        p->files_out = idx.h->nfiles;
        stk_index_close(&idx);
    }
    return rc;
}

static int build_output(struct pack *p, const char *path, uint64_t *listed, struct stk_err *err)
{
    struct stk_walk w;
    struct stk_new f = STK_NEW_INIT;
    int rc = walk_output(p, &w, err);
    if (rc == 0)
        rc = stk_new_begin_at(&f, p->dest.fd, STK_INDEX_NAME, STK_SHARED, path, err);
    if (rc == 0)
        rc = fill_index(p, &f, &w, listed, err);
    if (rc == 0)
        rc = stk_new_commit(&f, err);
    stk_new_abort(&f);
    stk_walk_release(&w);
    return rc;
}

int stk_pack_write_index(struct pack *p, struct stk_manifest_file *file, struct stk_err *err)
{
    uint64_t listed = 0;
    char *path = stk_path_join(p->dest.partial, STK_INDEX_NAME);
    if (!path)
        return stk_err_nomem(err, 1);
    int rc = build_output(p, path, &listed, err);
    /* The first sample was one file, but a later one several: list the files as groups. */
    bool tree = p->cfg.format->caps & (STK_CAN_TREE | STK_CAN_PATHS);
    if (rc == 0 && listed > p->samples_done && tree && !p->cfg.grouped) {
        p->cfg.grouped = true;
        rc = build_output(p, path, &listed, err);
    }
    if (rc == 0)
        rc = check_count(p, listed, err);
    if (rc == 0)
        rc = stk_hash_file_at(p->dest.fd, STK_INDEX_NAME, O_NOFOLLOW, &file->xxh64, &file->size,
                              path, err);
    file->name = STK_INDEX_NAME;
    free(path);
    return rc;
}

int stk_pack_write_manifest(struct pack *p, const char *src, const struct stk_manifest_file *index,
                            struct stk_err *err)
{
    char label_from[32] = "";
    if (p->cfg.label_in_key) /* a tree of files needs no label files */
        snprintf(label_from, sizeof label_from, "dir:%d", p->labels.level);
    struct stk_manifest m = {.format = p->cfg.format->name,
                             .payload = p->cfg.codec ? p->cfg.codec->name : "",
                             .compress = p->cfg.compress,
                             .grouped = p->cfg.grouped,
                             .columns = p->cfg.columns,
                             .plan = p->plan_id,
                             .label_from = label_from,
                             .samples = p->samples_done,
                             .source = src,
                             .settings_json = p->o->settings_json,
                             .class_by_class = p->class_by_class,
                             .classes = p->labels.classes,
                             .nclasses = p->labels.nclasses};
    if (p->ds->has_manifest && p->labels.mode == STK_LABEL_NONE) {
        m.classes = p->ds->manifest.classes; /* labels are kept, so keep their names */
        m.nclasses = p->ds->manifest.nclasses;
        if (!p->o->number_keys)
            m.label_from = p->ds->manifest.label_from;
    }
    m.shard = calloc(p->nshards + 1, sizeof *m.shard);
    m.other = calloc(p->nshards + 1, sizeof *m.other);
    int rc = m.shard && m.other ? 0 : stk_err_nomem(err, p->nshards * sizeof *m.shard);
    for (uint64_t i = 0; rc == 0 && i < p->nshards; i++) {
        m.shard[m.nshards++] = p->shard[i].file;
        m.bytes += p->shard[i].file.size;
        if (p->shard[i].side.name)
            m.other[m.nother++] = p->shard[i].side;
    }
    if (rc == 0) {
        m.other[m.nother++] = *index;
        p->bytes_out = m.bytes;
        rc = stk_manifest_write(p->dest.fd, p->dest.partial, &m, err);
    }
    free(m.shard);
    free(m.other);
    return rc;
}

/* ---- the record of finished shards ----------------------------------------------------------- */

/* The record of finished shards. Each entry is a text between NUL bytes that begins with its
 * checksum, so that an entry that was cut off is none, and spoils no other. */

#define RECORD_MAX (256u << 20) /* shards are at most 99,999 */
#define HASH_LEN   17           /* 16 digits and a space */

static void put_entry(struct stk_buf *b, const struct stk_manifest_file *f, struct stk_buf *body)
{
    stk_buf_reset(body);
    stk_buf_printf(body, "%" PRIu64 " %" PRIu64 " %016" PRIx64 " %s", f->size, f->samples, f->xxh64,
                   f->name);
    stk_buf_putc(b, '\0');
    stk_buf_printf(b, "%016" PRIx64 " ", stk_hash64(body->data, body->len));
    stk_buf_put(b, body->data, body->len);
    stk_buf_putc(b, '\0');
}

int stk_done_add(int dirfd, const char *path, const struct stk_manifest_file *shard,
                 const struct stk_manifest_file *side, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT, body = STK_BUF_INIT;
    int fd = -1;
    if (side->name)
        put_entry(&b, side, &body);
    put_entry(&b, shard, &body);
    int rc = body.fail ? stk_buf_check(&body, err) : stk_buf_check(&b, err);
    if (rc == 0)
        rc = stk_open_append(dirfd, STK_DONE_NAME, STK_PRIVATE, &fd, path, err);
    if (rc == 0)
        rc = stk_write_full(fd, b.data, b.len, path, err);
    if (rc == 0 && fdatasync(fd) < 0)
        rc = stk_err_sys(err, path, "fsync %s", STK_DONE_NAME);
    if (fd >= 0)
        close(fd);
    stk_buf_release(&b);
    stk_buf_release(&body);
    return rc;
}

/* An entry with a right checksum; its name is borrowed. */
static bool parse_entry(const char *text, struct stk_manifest_file *f)
{
    uint64_t hash;
    int at = 0;
    size_t len = strlen(text);
    if (len <= HASH_LEN || sscanf(text, "%16" SCNx64, &hash) != 1 ||
        hash != stk_hash64(text + HASH_LEN, len - HASH_LEN) ||
        sscanf(text + HASH_LEN, "%" SCNu64 " %" SCNu64 " %16" SCNx64 "%n", &f->size, &f->samples,
               &f->xxh64, &at) != 3 ||
        text[HASH_LEN + at] != ' ')
        return false;
    f->name = text + HASH_LEN + at + 1;
    return true;
}

static int parse(struct stk_done *d, struct stk_err *err)
{
    const char *text = stk_buf_cstr(&d->text);
    if (d->text.fail)
        return stk_buf_check(&d->text, err);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < d->text.len; at += strlen(text + at) + 1) {
        struct stk_manifest_file f;
        if (!parse_entry(text + at, &f))
            continue;
        if (STK_ARRAY_MORE(d->file, d->n, err))
            return STK_E_NOMEM;
        d->file[d->n] = f;
        rc = stk_lookup_add(&d->by_name, stk_hash64(f.name, strlen(f.name)), (uint32_t)d->n++, err);
    }
    return rc;
}

int stk_done_read(struct stk_done *d, int dirfd, const char *path, struct stk_err *err)
{
    struct stk_err why = {0};
    *d = (struct stk_done){0};
    int rc = stk_read_file_at(dirfd, STK_DONE_NAME, O_NOFOLLOW, RECORD_MAX, &d->text, path, &why);
    rc = stk_if_there(rc, &why);
    if (rc == 1)
        return parse(d, err);
    if (rc != STK_E_SYS && rc != STK_E_NOMEM) /* none, or no file */
        return 0;
    (void)stk_err_wrap(&why, rc, STK_DONE_NAME);
    return err ? (*err = why).code : rc;
}

const struct stk_manifest_file *stk_done_find(const struct stk_done *d, const char *name)
{
    const struct stk_manifest_file *last = NULL;
    uint32_t i;
    for (size_t at = 0; stk_lookup_next(&d->by_name, stk_hash64(name, strlen(name)), &at, &i);)
        if (strcmp(d->file[i].name, name) == 0 && (!last || &d->file[i] > last))
            last = &d->file[i];
    return last;
}

void stk_done_release(struct stk_done *d)
{
    free(d->file);
    stk_lookup_release(&d->by_name);
    stk_buf_release(&d->text);
    *d = (struct stk_done){0};
}
