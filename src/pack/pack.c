/*
 * pack.c - any dataset into shards of any writable format: decides how, then runs the workers.
 *
 * Everything is written into DST.partial; the manifest comes last, then the folder gets its name.
 */
#include "pack/priv.h"
#include "dataset/checksum.h"
#include "load/plan.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/text.h"
#include "host/cpus.h"

#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_SHARD_SIZE (256ull << 20)
#define CHUNK_BYTES        (4u << 20) /* read and encoded by one worker at a time */
#define MAX_JOBS           256u
#define SHARDS_MOST        99999u /* names have five digits */

/* ---- settings ---- */

/* The format whose files end as dst does (also one this build lacks: it shall be refused, not
 * replaced by another), else the default. */
static const char *format_by_ending(const char *dst)
{
    size_t n = strlen(dst);
    while (n > 1 && dst[n - 1] == '/')
        n--;
    const char *slash = memrchr(dst, '/', n), *base = slash ? slash + 1 : dst;
    for (size_t i = 0; stk_format_at(i); i++)
        for (const char *const *s = stk_format_at(i)->suffixes; *s; s++)
            if (stk_name_has_suffix(base, n - (size_t)(base - dst), *s))
                return stk_format_at(i)->name;
    return STK_DEFAULT_FORMAT;
}

static int choose_format(struct pack *p, const char *dst, struct stk_err *err)
{
    const char *name = p->o->format ? p->o->format : format_by_ending(dst);
    const struct stk_format *f = stk_format_find(name);
    if (!f)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "no format is called '%s'", name);
    if (f->missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "%s is not in this build of stoker: install %s and build again",
                           f->title, f->package);
    if (!(f->caps & STK_CAN_WRITE))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%s cannot be written", f->title);
    if (p->o->shards > SHARDS_MOST)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%llu shards: the most is %u",
                           (unsigned long long)p->o->shards, SHARDS_MOST);
    if (p->o->on_error != STK_ON_ERROR_STOP && p->o->on_error != STK_ON_ERROR_SKIP)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "a bad sample can stop a pack or be skipped, nothing else");
    if (p->o->shards > 1 && !(f->caps & STK_CAN_SHARD))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%s is written as one file: --shards does "
                           "not apply",
                           f->title);
    p->cfg.format = f;
    return 0;
}

static int choose_codec(struct pack *p, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    const char *name = p->o->payload;
    if (name && strcmp(name, "auto") == 0)
        name = NULL;
    if (!(f->caps & STK_CAN_CODEC))
        return name ? stk_err_set(err, STK_E_USAGE, NULL, -1, "%s has no --payload", f->title) : 0;
    const struct stk_codec *from = p->first.record ? p->first.record_codec : NULL;
    if (!name && from && from->widens && strcmp(from->widens, f->payload) == 0)
        name = from->name;
    if (!name)
        name = f->payload;
    p->cfg.codec = stk_codec_find(name);
    if (!p->cfg.codec)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "no payload is called '%s'", name);
    if (!p->cfg.codec->implode)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "payload '%s' can only be read", name);
    return 0;
}

static int choose_compression(struct pack *p, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    int rc = stk_compress_parse(p->o->compress, &p->cfg.compress, &p->cfg.level, err);
    if (rc < 0 || !p->cfg.compress)
        return rc;
    bool deflate = p->cfg.compress == STK_FILTER_ZLIB;
    if (!(f->caps & (deflate ? STK_CAN_DEFLATE : STK_CAN_COMPRESS)))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%s cannot be compressed with %s%s",
                           f->title, stk_compress_name(p->cfg.compress),
                           f->caps & STK_CAN_DEFLATE ? "; it can with deflate" : "");
    const char *missing = stk_filter_missing((enum stk_filter_id)p->cfg.compress);
    if (missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "%s is not in this build of stoker: install %s and build again",
                           stk_compress_name(p->cfg.compress), missing);
    return 0;
}

static void choose_jobs(struct pack *p)
{
    unsigned cpus = stk_cpus(), jobs = p->open->jobs ? p->open->jobs : cpus;
    /* Small files wait for the file system, not for the CPU: have several on the way. */
    if (!p->open->jobs && (p->ds->format->caps & STK_CAN_TREE))
        jobs = cpus * 4 < 8 ? 8 : cpus * 4 > 32 ? 32 : cpus * 4;
    p->jobs = jobs > MAX_JOBS ? MAX_JOBS : jobs;
    p->chunk_bytes = CHUNK_BYTES;
    /* A worker holds the bytes it read, the bytes it encoded, and a little more. */
    if (p->o->memory_bytes && p->o->memory_bytes / (3 * p->jobs) < p->chunk_bytes)
        p->chunk_bytes = p->o->memory_bytes / (3 * p->jobs);
}

static void default_name(const char *dst, char *buf, size_t size)
{
    size_t n = strlen(dst);
    while (n > 1 && dst[n - 1] == '/')
        n--;
    const char *slash = memrchr(dst, '/', n), *base = slash ? slash + 1 : dst;
    size_t len = n - (size_t)(base - dst);
    bool usable = len && len < 200 && memcmp(base, ".", 1) != 0;
    snprintf(buf, size, "%.*s", usable ? (int)len : 4, usable ? base : "data");
}

/* What is read: the whole index but the times of folders and what is computed from the rest; and
 * when the files last changed, by the time that no program sets back. */
static int plan_of_source(const struct pack *p, struct stk_buf *b, struct stk_err *err)
{
    static const enum stk_table kept[] = {
        STK_T_FILES, STK_T_NAMES,  STK_T_EXTENTS,    STK_T_SEGMENTS, STK_T_COLUMNS,
        STK_T_ROWS,  STK_T_PARTS,  STK_T_KEYOFF,     STK_T_KEYS,     STK_T_FIELDS,
        STK_T_CRCS,  STK_T_CHAINS, STK_T_FIELDNAMES, STK_T_CONTEXT,
    };
    const struct stk_index_header *h = p->ds->index.h;
    uint64_t hash[sizeof kept / sizeof *kept], changed = (uint64_t)h->changed_ns;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        hash[i] = h->table[kept[i]].hash;
    /* The index of a tree has just been built; another may be older than the files. A packed
     * dataset has checksums. */
    int rc = 0;
    if (!p->ds->has_manifest && !(p->ds->format->caps & STK_CAN_TREE))
        rc = stk_files_latest(&p->ds->files, &changed, err);
    stk_buf_printf(b, "index %016llx data %016llx changed %llu\n",
                   (unsigned long long)stk_hash64(hash, sizeof hash),
                   (unsigned long long)h->data_id, (unsigned long long)changed);
    return rc;
}

/* Everything that determines the output, so that two runs can be compared. */
static int plan_text(const struct pack *p, const char *src, struct stk_buf *b, struct stk_err *err)
{
    const struct stk_pack_options *o = p->o;
    char *real = realpath(src, NULL);
    stk_buf_printf(b, "stoker %s\nsource %s\n", STK_VERSION, real ? real : src);
    int rc = plan_of_source(p, b, err);
    stk_buf_printf(b, "format %s payload %s name %s shards %llu size %llu compress %s\n",
                   p->cfg.format->name, p->cfg.codec ? p->cfg.codec->name : "", p->name,
                   (unsigned long long)o->shards, (unsigned long long)o->shard_size_bytes,
                   o->compress ? o->compress : "");
    stk_buf_printf(b, "shuffle %d %llu label %s numbers %d on_error %d group %d split %s\n",
                   o->shuffle, (unsigned long long)o->seed, o->label_from ? o->label_from : "auto",
                   o->number_keys, o->on_error, p->open->group,
                   p->open->split ? p->open->split : "");
    if (o->shuffle)
        stk_buf_printf(b, "order %d\n", STK_ORDER_VERSION);
    stk_buf_printf(b, "header %s types %s\n", p->open->header ? p->open->header : "auto",
                   p->open->types ? p->open->types : "");
    if (p->ds->list.delimiter)
        stk_buf_printf(b, "delimiter %d\n", p->ds->list.delimiter);
    uint64_t hash = 0, size = 0;
    if (o->label_from && strncmp(o->label_from, "csv:", 4) == 0 &&
        stk_hash_file(o->label_from + 4, &hash, &size, NULL) == 0)
        stk_buf_printf(b, "labels %016llx\n", (unsigned long long)hash);
    if (p->open->datasets)
        stk_buf_printf(b, "datasets %s\n", p->open->datasets);
    for (const char *const *g = o->include; g && *g; g++)
        stk_buf_printf(b, "include %s\n", *g);
    for (const char *const *g = o->exclude; g && *g; g++)
        stk_buf_printf(b, "exclude %s\n", *g);
    free(real);
    (void)stk_buf_cstr(b);
    return rc < 0 ? rc : stk_buf_check(b, err);
}

static int find_first(struct pack *p, struct stk_err *err)
{
    struct stk_err why = {0};
    int rc = stk_reader_new(p->ds, &p->first_reader, err);
    for (uint64_t i = 0; rc == 0 && i < p->sel.n; i++) {
        uint64_t id = stk_select_at(&p->sel, i);
        rc = stk_reader_batch(p->first_reader, &id, 1, err);
        if (rc < 0)
            return rc;
        rc = stk_reader_get(p->first_reader, 0, &p->first, &why);
        if (rc == 0)
            rc = stk_pack_dress(p, i, &p->first, &why);
        if (rc == 0) {
            p->cfg.first = &p->first;
            return 0;
        }
        if (!stk_pack_can_skip(p, rc)) {
            if (err)
                *err = why;
            return rc;
        }
        rc = 0; /* the workers count it when they reach it */
    }
    return rc;
}

/* ---- the whole ---- */

struct index_progress {
    const struct stk_pack_options *o;
};

static int on_index(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    const struct index_progress *ip = user;
    return ip->o->progress ? ip->o->progress(ip->o->user, "index", done, total, samples, 0) : 0;
}

static int open_source(struct pack *p, const char *src, struct stk_err *err)
{
    struct index_progress ip = {p->o};
    struct stk_open_options o = *p->open;
    o.progress = on_index;
    o.user = &ip;
    bool collect = p->o->on_error == STK_ON_ERROR_SKIP;
    int rc = stk_dataset_open_with(src, &o, collect, true, &p->ds, err);
    /* A file may have changed without a trace in its folder: check again. The index of a packed
     * dataset has the checksums of its files. */
    bool tree = rc == 0 && (p->ds->format->caps & STK_CAN_TREE) && !p->ds->has_manifest;
    if (tree && !p->ds->index_built) {
        stk_dataset_close(p->ds);
        p->ds = NULL;
        o.rebuild_index = true;
        rc = stk_dataset_open_with(src, &o, collect, true, &p->ds, err);
    }
    if (rc == 0)
        stk_problems_join(&p->skipped, &p->ds->problems);
    return rc;
}

/* The samples of a packed dataset include labels, except in trees of files, where the directories
 * are the labels. */
static int choose_labels(struct pack *p, struct stk_err *err)
{
    const char *from = p->o->label_from;
    unsigned caps = p->ds->format->caps | p->cfg.format->caps;
    if ((!from || strcmp(from, "auto") == 0) && p->ds->has_manifest &&
        (caps & (STK_CAN_TREE | STK_CAN_PATHS)))
        return stk_labels_from_manifest(&p->labels, &p->ds->manifest, err);
    return stk_labels_init(&p->labels, from, p->ds, err);
}

static int64_t label_at(void *user, uint64_t i)
{
    const struct pack *p = user;
    const char *key;
    size_t len;
    int64_t label = -1;
    /* A tree of files is ordered by name, whatever the order of writing. */
    bool tree = p->cfg.format->caps & STK_CAN_TREE;
    uint64_t id = tree ? stk_select_stored(&p->sel, i) : stk_select_at(&p->sel, i);
    bool known = stk_index_key(&p->ds->index, id, &key, &len, NULL) == 0 &&
                 stk_labels_of(&p->labels, key, len, &label, NULL) == 1;
    return known ? label : -1;
}

/* By the keys if they determine the labels, else by the source's manifest. */
static bool stands_by_class(struct pack *p)
{
    if (p->labels.mode == STK_LABEL_NONE)
        return p->ds->has_manifest && p->ds->manifest.class_by_class && !p->o->shuffle;
    return !p->labels.reals && stk_mixing_together(p->sel.n, 1, label_at, p);
}

static int prepare(struct pack *p, const char *src, const char *dst, struct stk_err *err)
{
    const struct stk_pack_options *o = p->o;
    struct stk_select_options so = {.include = o->include,
                                    .exclude = o->exclude,
                                    .shuffle = o->shuffle,
                                    .seed = o->seed,
                                    .shards = o->shards,
                                    .shard_size_bytes = o->shard_size_bytes ? o->shard_size_bytes
                                                                            : DEFAULT_SHARD_SIZE};
    int rc = choose_format(p, dst, err);
    if (rc == 0 && !o->shards && !o->shard_size_bytes && (p->cfg.format->caps & STK_CAN_BE_ONE))
        so.shards = 1;
    if (rc == 0)
        rc = choose_compression(p, err);
    if (rc == 0)
        rc = stk_dest_apart(src, dst, err);
    if (rc == 0)
        rc = open_source(p, src, err);
    if (rc == 0)
        rc = stk_select_init(&p->sel, p->ds, &so, err);
    if (rc == 0)
        rc = choose_labels(p, err);
    if (rc == 0)
        rc = find_first(p, err);
    if (rc == 0)
        rc = choose_codec(p, err);
    if (rc == 0 && p->sel.n == 0)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, src, -1, "there are no samples to pack");
    if (rc < 0)
        return rc;
    p->holds = p->cfg.format->holds | (p->cfg.codec ? p->cfg.codec->holds : 0);
    p->cfg.total_samples = p->sel.n;
    p->cfg.label_in_key = p->labels.mode == STK_LABEL_DIR && !o->number_keys;
    p->class_by_class = stands_by_class(p);
    choose_jobs(p);
    rc = stk_pack_types(p, err);
    if (rc == 0 && p->cfg.format->prepare)
        rc = p->cfg.format->prepare(&p->cfg, err);
    struct stk_buf plan = STK_BUF_INIT;
    if (rc == 0)
        rc = plan_text(p, src, &plan, err);
    if (rc == 0)
        stk_dest_plan_id((const char *)plan.data, p->plan_id);
    if (rc == 0)
        rc = stk_dest_open(&p->dest, dst, o->force, o->resume, (const char *)plan.data, err);
    stk_buf_release(&plan);
    return rc;
}

/* How much --force is about to replace: a damaged dataset has no count. */
static uint64_t count_old(const struct stk_dest *d)
{
    struct stk_manifest m = {0};
    uint64_t n = d->force && stk_manifest_read(d->final, &m, NULL) == 1 ? m.samples : 0;
    stk_manifest_release(&m);
    return n;
}

struct members {
    struct pack *p;
    struct stk_err first; /* what was found first; code 0: nothing */
};

static void on_member(void *user, const struct stk_err *what)
{
    struct members *m = user;
    stk_problems_add_code(&m->p->skipped, what->code, what->path, what->offset, what->what);
    if (!m->first.code)
        m->first = *what;
}

/* Rows of stored members of a zip were read without their checksums, which are of whole members. A
 * flipped bit must not get a checksum that says that it is right. */
static int check_members(struct pack *p, struct stk_err *err)
{
    struct members m = {.p = p};
    uint64_t bytes = 0;
    if (stk_index_count(&p->ds->index, STK_T_CHECKS))
        return 0; /* of samples */
    int rc = stk_crcs_check(p->ds, true, &bytes, on_member, &m, err);
    if (rc == 0 && m.first.code && p->o->on_error == STK_ON_ERROR_STOP) {
        rc = m.first.code;
        if (err)
            *err = m.first;
    }
    return rc;
}

static int run(struct pack *p, const char *src, struct stk_err *err)
{
    struct stk_manifest_file index = {0};
    int rc = stk_pack_name_shards(p, err);
    if (rc == 0 && p->dest.resumed)
        rc = stk_pack_keep_finished(p, err);
    if (rc == 0)
        rc = stk_pack_write_shards(p, err);
    if (rc == 0)
        rc = check_members(p, err);
    if (rc == 0)
        rc = stk_spool_intact(&p->sel.kept, err); /* the selection must be intact */
    if (rc == 0)
        rc = stk_pack_report(p, "sync", true, err);
    if (rc == 0)
        rc = stk_pack_write_index(p, &index, err);
    if (rc == 0)
        rc = stk_pack_write_manifest(p, src, &index, err);
    p->replaced = count_old(&p->dest);
    return rc < 0 ? rc : stk_dest_publish(&p->dest, err);
}

static void release(struct pack *p)
{
    if (p->cfg.format && p->cfg.format->unprepare)
        p->cfg.format->unprepare(&p->cfg);
    for (uint64_t i = 0; p->shard && i < p->nshards; i++)
        free(p->shard[i].side_name);
    free(p->shard);
    stk_types_release(&p->types);
    stk_sample_release(&p->first);
    stk_reader_free(p->first_reader);
    stk_select_release(&p->sel);
    stk_labels_release(&p->labels);
    stk_dest_release(&p->dest);
    stk_dataset_close(p->ds);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->turned);
}

/* Describes the dataset that exists already. */
static int describe_whole(struct pack *p, struct stk_pack_result *r, struct stk_err *err)
{
    struct stk_manifest m = {0};
    int rc = stk_manifest_read(p->dest.final, &m, err);
    if (rc < 0)
        return rc;
    snprintf(r->format, sizeof r->format, "%s", p->cfg.format->name);
    r->whole = true;
    r->samples = m.samples;
    r->shards = r->shards_kept = r->files = m.nshards;
    r->bytes_in = p->sel.bytes;
    r->bytes_out = m.bytes;
    r->classes = m.nclasses;
    r->class_by_class = m.class_by_class;
    stk_manifest_release(&m);
    return 0;
}

static void fill_result(struct pack *p, struct stk_pack_result *r)
{
    snprintf(r->format, sizeof r->format, "%s", p->cfg.format->name);
    r->samples = p->samples_done;
    r->replaced = p->replaced;
    r->shards = p->nshards;
    r->files = p->files_out;
    r->shards_kept = p->shards_kept;
    r->shards_redone = p->shards_redone;
    r->bytes_in = p->sel.bytes;
    r->bytes_out = p->bytes_out;
    r->classes = p->labels.nclasses;
    r->class_by_class = p->class_by_class;
    stk_problems_sort(&p->skipped);
}

static int note_texts(const struct stk_labels *l, struct stk_notes *notes, struct stk_err *err)
{
    char as[240], why[200];
    snprintf(as, sizeof as, "text, in the field '%.200s'", l->text_field);
    snprintf(why, sizeof why,
             "%llu different ones in %llu rows are no classes; a column of numbers is taken as "
             "labels",
             (unsigned long long)l->ntexts, (unsigned long long)l->rows);
    return stk_notes_taken(notes, "label", as, why, 1, err);
}

/* A field that is written, and the type of its numbers (0: it has none). */
struct written {
    const char *name;
    size_t name_len;
    uint8_t dtype;
    bool plain; /* always numbers: no nulls, nothing else */
};

/* Field i of all samples if they were examined (the first one may lack some), else of the first. */
static bool written_at(const struct pack *p, size_t i, struct written *w)
{
    const struct stk_types *t = p->cfg.types;
    if (t && i < t->ntypes) {
        const struct stk_type *y = &t->type[i];
        *w = (struct written){.name = y->name, .name_len = y->name_len};
        w->plain = stk_type_kind(y, &w->dtype) == STK_ARRAY && !stk_type_has_null(y) && !y->fill;
        return true;
    }
    if (t || i >= p->first.nfields)
        return false;
    const struct stk_field *f = &p->first.field[i];
    bool numbers = f->value.kind == STK_ARRAY;
    *w = (struct written){f->name, f->name_len, numbers ? f->value.dtype : 0, numbers};
    return true;
}

/* JSON has numbers, but not their types, and CSV not all: notes those that are read back as others.
 */
static int note_types(const struct pack *p, struct stk_notes *notes, struct stk_err *err)
{
    struct stk_buf why = STK_BUF_INIT;
    struct written w;
    unsigned named = 0;
    for (size_t i = 0; written_at(p, i, &w); i++) {
        bool kept = !w.dtype || w.dtype == STK_I64 || w.dtype == STK_F64 || w.dtype == STK_BOOL ||
                    (p->cfg.columns && w.plain && w.dtype != STK_F16);
        if (kept)
            continue;
        if (named++ < 4)
            stk_buf_printf(&why, "%s%.*s was %s", named > 1 ? ", " : "",
                           (int)(w.name_len < 60 ? w.name_len : 60), w.name,
                           stk_dtype_name(w.dtype));
        else if (named == 5)
            stk_buf_puts(&why, ", ...");
    }
    stk_buf_printf(&why, "; %s does not record that; converted back, the values are the same",
                   p->cfg.format->title);
    int rc = stk_buf_check(&why, err);
    if (rc == 0 && named)
        rc = stk_notes_taken(notes, "type", "int64 or float64 when read back", stk_buf_cstr(&why),
                             1, err);
    stk_buf_release(&why);
    return rc;
}

/* Notes what the output cannot hold. */
static int note_losses(const struct pack *p, struct stk_notes *notes, struct stk_err *err)
{
    char why[200];
    const struct stk_field *kept = p->holds & STK_HOLDS_BYTES ? stk_raw_field(&p->first) : NULL;
    int rc = 0;
    for (size_t i = 0; rc == 0 && kept && i < p->first.nfields; i++) {
        const struct stk_field *f = &p->first.field[i];
        char *name = f == kept ? NULL : strndup(f->name, f->name_len);
        if (name)
            rc = stk_notes_left_out(notes, "field", name,
                                    "not written: a raw record has one field; --payload example "
                                    "holds all",
                                    1, err);
        free(name);
    }
    snprintf(why, sizeof why, "not written: %s%s%s has %s; other formats keep them",
             p->cfg.format->title, p->cfg.codec ? ", payload " : "",
             p->cfg.codec ? p->cfg.codec->name : "",
             p->holds & STK_HOLDS_ID ? "only numbers for keys" : "no place for keys");
    if (rc == 0 && (p->cfg.columns || (p->holds & STK_HOLDS_ANY)))
        rc = note_types(p, notes, err);
    if (rc == 0 && p->labels.text)
        rc = note_texts(&p->labels, notes, err);
    return rc < 0 || !p->keys_lost ? rc
                                   : stk_notes_left_out(notes, "key", "", why, p->keys_lost, err);
}

void stk_pack_result_release(struct stk_pack_result *r)
{
    stk_problems_release(&r->skipped);
    stk_notes_release(&r->notes);
}

int stk_pack_into(const char *src, const char *dst, const struct stk_open_options *open,
                  const struct stk_pack_options *o, struct stk_pack_result *result,
                  struct stk_err *err)
{
    struct pack p = {.o = o, .open = open, .dest = STK_DEST_INIT};
    char name[256];
    double start = stk_now(), indexed;
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.turned, NULL);
    stk_sample_init(&p.first);
    p.sel.kept.fd = -1;
    default_name(dst, name, sizeof name);
    p.name = o->name ? o->name : name;
    *result = (struct stk_pack_result){0};
    int rc = 0;
    if (!stk_key_is_safe_path(p.name, strlen(p.name)) || strchr(p.name, '/') ||
        strlen(p.name) > 200)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "'%s' cannot be the name of shards", p.name);
    if (rc == 0)
        rc = prepare(&p, src, dst, err);
    indexed = stk_now();
    if (rc == 0 && p.dest.whole)
        rc = describe_whole(&p, result, err);
    else if (rc == 0 && (rc = run(&p, src, err)) == 0)
        fill_result(&p, result);
    if (rc == 0)
        rc = stk_notes_join(&result->notes, &p.ds->notes, err);
    if (rc == 0)
        rc = note_losses(&p, &result->notes, err);
    result->skipped = p.skipped; /* also after a failure */
    result->seconds_index = indexed - start;
    result->seconds_total = stk_now() - start;
    release(&p);
    return rc;
}
