/*
 * pack.c - any dataset into shards of any writable format.
 *
 * Workers take chunks of neighbouring output positions, read and encode them, and append them to
 * the shard in order, each waiting for its turn: so the bytes do not depend on the number of
 * workers. A shard gets its name when it is whole; the manifest is written last.
 */
#include "data/pack.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "data/build.h"
#include "data/dest.h"
#include "data/label.h"
#include "data/out.h"
#include "data/reader.h"
#include "data/select.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_SHARD_SIZE (256ull << 20)
#define CHUNK_BYTES        (4u << 20) /* read and encoded by one worker in one go */
#define CHUNK_SAMPLES      4096u
#define MAX_JOBS           256u

struct shard {
    uint64_t begin, end;  /* positions */
    uint64_t next;        /* position not handed out yet */
    uint64_t chunks;      /* handed out */
    uint64_t turn;        /* chunk that may append now */
    uint64_t samples;     /* appended */
    unsigned in_flight;
    bool opened, done;
    struct stk_out out;
    char name[280];
    struct stk_manifest_file file, side;
    char *side_name;
};

struct pack {
    const struct stk_pack_options *o;
    struct stk_dataset *ds;
    struct stk_select sel;
    struct stk_labels labels;
    struct stk_dest dest;
    struct stk_write_config cfg;
    struct stk_sample first;
    struct stk_reader *first_reader; /* keeps the first sample's bytes */
    struct shard *shard;
    uint64_t nshards;
    unsigned jobs;
    uint64_t chunk_bytes;
    const char *name;

    pthread_mutex_t lock; /* all below, and the shards' counters */
    pthread_cond_t turned;
    int rc; /* first failure */
    struct stk_err err;
    struct stk_problems skipped;
    uint64_t samples_done, bytes_done, bytes_out, shards_kept;
    double last_progress;
};

/* ---- settings ---- */

static int choose_format(struct pack *p, struct stk_err *err)
{
    const char *name = p->o->format ? p->o->format : "tfrecord";
    const struct stk_format *f = stk_format_find(name);
    if (!f)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "no format is called '%s'", name);
    if (f->missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "%s is not in this build of stoker: install %s and build again", f->title,
                           f->missing);
    if (!(f->caps & STK_CAN_WRITE))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%s cannot be written", f->title);
    if (p->o->shards > 1 && !(f->caps & STK_CAN_SHARD))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s is written as one: no --shards",
                           f->title);
    p->cfg.format = f;
    return 0;
}

static int choose_codec(struct pack *p, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    const char *name = p->o->payload;
    if (!(f->caps & STK_CAN_CODEC))
        return name ? stk_err_set(err, STK_E_USAGE, NULL, -1, "%s has no --payload", f->title) : 0;
    /* Records that are Examples or sequences already stay what they are, where that is usual. */
    const struct stk_codec *from = p->first.record_codec;
    bool usual = !f->payload || strcmp(f->payload, "example") == 0;
    if (!name && usual && from && p->first.record &&
        (strcmp(from->name, "sequence") == 0 || strcmp(from->name, "example") == 0))
        name = from->name;
    if (!name)
        name = f->payload ? f->payload : "example";
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
    unsigned cpus = stk_cpus(), jobs = p->o->jobs ? p->o->jobs : cpus;
    /* Small files wait for the file system, not for the CPU: have several on the way. */
    if (!p->o->jobs && (p->ds->format->caps & STK_CAN_TREE))
        jobs = cpus * 4 < 8 ? 8 : cpus * 4 > 32 ? 32 : cpus * 4;
    p->jobs = jobs > MAX_JOBS ? MAX_JOBS : jobs;
    p->chunk_bytes = CHUNK_BYTES;
    /* A worker holds what it read, what it encoded, and a little more. */
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

/* Everything that decides the bytes of the output, so that a run can be told to be the same. */
static int plan_text(const struct pack *p, const char *src, struct stk_buf *b, struct stk_err *err)
{
    const struct stk_pack_options *o = p->o;
    const struct stk_index_header *h = p->ds->index.h;
    char *real = realpath(src, NULL);
    stk_buf_printf(b, "stoker %s\nsource %s\nfiles %016llx names %016llx extents %016llx\n",
                   STK_VERSION, real ? real : src,
                   (unsigned long long)h->table[STK_T_FILES].hash,
                   (unsigned long long)h->table[STK_T_NAMES].hash,
                   (unsigned long long)h->table[STK_T_EXTENTS].hash);
    stk_buf_printf(b, "format %s payload %s name %s shards %llu size %llu compress %s\n",
                   p->cfg.format->name, p->cfg.codec ? p->cfg.codec->name : "", p->name,
                   (unsigned long long)o->shards, (unsigned long long)o->shard_size_bytes,
                   o->compress ? o->compress : "");
    stk_buf_printf(b, "shuffle %d %llu label %s numbers %d on_error %d group %d\n", o->shuffle,
                   (unsigned long long)o->seed, o->label_from ? o->label_from : "auto",
                   o->number_keys, o->on_error, o->src_group);
    uint64_t hash = 0, size = 0;
    if (o->label_from && strncmp(o->label_from, "csv:", 4) == 0 &&
        stk_hash_file(o->label_from + 4, &hash, &size, NULL) == 0)
        stk_buf_printf(b, "labels %016llx\n", (unsigned long long)hash);
    for (const char *const *g = o->include; g && *g; g++)
        stk_buf_printf(b, "include %s\n", *g);
    for (const char *const *g = o->exclude; g && *g; g++)
        stk_buf_printf(b, "exclude %s\n", *g);
    free(real);
    (void)stk_buf_cstr(b);
    return stk_buf_check(b, err);
}

/* ---- a sample, as it will be written ---- */

/* Gives the sample its label and a key. */
static int dress(const struct pack *p, uint64_t number, struct stk_sample *s, struct stk_err *err)
{
    int64_t label;
    int rc = stk_labels_of(&p->labels, s->key, s->key_len, &label, err);
    if (rc == 1)
        rc = stk_sample_set_label(s, label, err);
    s->number = number;
    if (rc == 0 && (p->o->number_keys || !s->key_len)) {
        char text[320];
        const char *slash = s->key_len ? memrchr(s->key, '/', s->key_len) : NULL;
        const char *base = slash ? slash + 1 : s->key, *end = s->key + s->key_len;
        const char *dot = s->key_len ? memrchr(base, '.', (size_t)(end - base)) : NULL;
        int n = snprintf(text, sizeof text, "%08llu%.*s", (unsigned long long)number,
                         dot && end - dot < 256 ? (int)(end - dot) : 0, dot ? dot : "");
        bool had_key = s->key_len != 0;
        s->key = stk_arena_dup(&s->arena, text, (size_t)n);
        s->key_len = (size_t)n;
        /* A stored record has no key to change unless it had one. */
        if (had_key)
            s->record = NULL;
        rc = s->key ? 0 : stk_err_nomem(err, (uint64_t)n);
    }
    return rc;
}

static void skip(struct pack *p, const struct stk_err *why)
{
    pthread_mutex_lock(&p->lock);
    stk_problems_add(&p->skipped, why->path, why->offset, why->what);
    pthread_mutex_unlock(&p->lock);
}

static bool can_skip(const struct pack *p, int rc)
{
    return p->o->on_error == STK_ON_ERROR_SKIP && rc != STK_E_NOMEM && rc != STK_E_STOPPED;
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
            rc = dress(p, i, &p->first, &why);
        if (rc == 0) {
            p->cfg.first = &p->first;
            return 0;
        }
        if (!can_skip(p, rc)) {
            if (err)
                *err = why;
            return rc;
        }
        rc = 0; /* it is counted when the workers come to it */
    }
    return rc;
}

/* ---- workers ---- */

struct worker_state {
    struct stk_reader *reader;
    struct stk_sample sample;
    struct stk_buf ids, out;
};

/* Neighbouring positions of a shard that one worker handles in one go. */
struct chunk {
    uint64_t number; /* in the shard, from 0 */
    uint64_t begin, end;
    uint64_t bytes;   /* stored, of the source */
    uint64_t samples; /* encoded: without those skipped */
};

/* The next chunk of a shard, cut by bytes and by number. */
static int cut_chunk(struct pack *p, struct shard *s, struct chunk *c, struct stk_err *err)
{
    uint64_t i = s->next;
    *c = (struct chunk){.begin = i, .number = s->chunks++};
    while (i < s->end && i - c->begin < CHUNK_SAMPLES) {
        uint64_t n;
        int rc = stk_index_sample_bytes(&p->ds->index, stk_select_at(&p->sel, i), &n, err);
        if (rc < 0)
            return rc;
        if (c->bytes + n > p->chunk_bytes && i > c->begin)
            break;
        c->bytes += n;
        i++;
    }
    c->end = s->next = i;
    return 0;
}

/* The shard to work on: of those begun and not handed out wholly the one with the fewest at it; a
 * new one while there are fewer begun than workers. NULL: nothing left. */
static struct shard *choose_shard(struct pack *p)
{
    struct shard *best = NULL;
    unsigned begun = 0;
    for (uint64_t i = 0; i < p->nshards; i++) {
        struct shard *s = &p->shard[i];
        bool over = s->done || (s->opened && s->next >= s->end && s->chunks);
        if (over)
            continue;
        if (!s->opened)
            return begun < p->jobs && (!best || best->in_flight) ? s : best;
        begun++;
        if (!best || s->in_flight < best->in_flight)
            best = s;
    }
    return best;
}

static int encode_chunk(struct pack *p, struct worker_state *w, struct chunk *c,
                        struct stk_err *err)
{
    uint64_t begin = c->begin, end = c->end;
    stk_buf_reset(&w->ids);
    stk_buf_reset(&w->out);
    for (uint64_t i = begin; i < end; i++) {
        uint64_t id = stk_select_at(&p->sel, i);
        stk_buf_put(&w->ids, &id, sizeof id);
    }
    int rc = stk_buf_check(&w->ids, err);
    if (rc == 0)
        rc = stk_reader_batch(w->reader, (const void *)w->ids.data, (size_t)(end - begin), err);
    const struct stk_format *f = p->cfg.format;
    for (uint64_t i = begin; rc == 0 && i < end; i++) {
        struct stk_err why = {0};
        size_t before = w->out.len;
        rc = stk_reader_get(w->reader, (size_t)(i - begin), &w->sample, &why);
        if (rc == 0)
            rc = dress(p, i, &w->sample, &why);
        if (rc == 0)
            rc = f->encode(&p->cfg, &w->sample, &w->out, &why);
        if (rc == 0) {
            c->samples++;
            continue;
        }
        if (!why.path[0] && rc != STK_E_NOMEM) {
            struct stk_err bare = why;
            int64_t off;
            char *path = stk_reader_place(p->ds, stk_select_at(&p->sel, i), &off);
            stk_err_set(&why, bare.code, path, off, "%s", bare.what);
            free(path);
        }
        if (can_skip(p, rc)) {
            w->out.len = before;
            w->out.fail = false;
            skip(p, &why);
            rc = 0;
        } else if (err) {
            *err = why;
        }
    }
    return rc;
}

static int shard_begin(struct pack *p, struct shard *s, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    int rc = stk_out_open(&s->out, f, p->dest.partial, s->name, err);
    return rc == 0 && f->begin ? f->begin(&p->cfg, &s->out, err) : rc;
}

static int shard_append(struct pack *p, struct shard *s, const struct stk_buf *b, uint64_t n,
                        struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    s->samples += n;
    return f->append ? f->append(&p->cfg, &s->out, b->data, b->len, n, err)
                     : stk_out_write(&s->out, b->data, b->len, err);
}

static int shard_finish(struct pack *p, struct shard *s, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    int rc = f->finish ? f->finish(&p->cfg, &s->out, err) : 0;
    if (rc == 0)
        rc = stk_out_commit(&s->out, &s->file, &s->side, err);
    s->file.name = s->name;
    s->file.samples = s->samples;
    if (rc == 0 && s->side.name) {
        s->side_name = strdup(s->side.name);
        s->side.name = s->side_name;
        rc = s->side_name ? 0 : stk_err_nomem(err, 1);
    }
    return rc;
}

static int report(struct pack *p, const char *phase, bool now, struct stk_err *err)
{
    if (!p->o->progress)
        return 0;
    double t = stk_now();
    if (!now && t - p->last_progress < 0.1)
        return 0;
    p->last_progress = t;
    return p->o->progress(p->o->user, phase, p->bytes_done, p->sel.bytes, p->samples_done, p->sel.n)
               ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped")
               : 0;
}

/* Called with the lock held. */
static void fail(struct pack *p, int rc, const struct stk_err *why)
{
    if (p->rc == 0) {
        p->rc = rc;
        p->err = *why;
    }
    pthread_cond_broadcast(&p->turned);
}

/* Waits for this chunk's turn, appends it, and passes the turn on. Called with the lock held, which
 * is given up while bytes move. */
static void append_in_turn(struct pack *p, struct shard *s, const struct chunk *c,
                           struct worker_state *w)
{
    struct stk_err why = {0};
    while (p->rc == 0 && s->turn != c->number)
        pthread_cond_wait(&p->turned, &p->lock);
    if (p->rc)
        return;
    bool last = s->next >= s->end && c->number + 1 == s->chunks;
    pthread_mutex_unlock(&p->lock);
    int rc = c->number == 0 ? shard_begin(p, s, &why) : 0;
    if (rc == 0)
        rc = shard_append(p, s, &w->out, c->samples, &why);
    pthread_mutex_lock(&p->lock);
    if (rc == 0) {
        s->turn++;
        p->samples_done += c->samples;
        p->bytes_done += c->bytes;
        rc = report(p, "pack", false, &why);
        pthread_cond_broadcast(&p->turned);
    }
    if (rc == 0 && last) {
        pthread_mutex_unlock(&p->lock);
        rc = shard_finish(p, s, &why);
        pthread_mutex_lock(&p->lock);
        s->done = rc == 0;
    }
    if (rc < 0)
        fail(p, rc, &why);
}

static int worker_init(struct pack *p, struct worker_state *w, struct stk_err *err)
{
    *w = (struct worker_state){0};
    stk_sample_init(&w->sample);
    return stk_reader_new(p->ds, &w->reader, err);
}

static void worker_release(struct worker_state *w)
{
    stk_reader_free(w->reader);
    stk_sample_release(&w->sample);
    stk_buf_release(&w->ids);
    stk_buf_release(&w->out);
}

static int work(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct pack *p = user;
    struct worker_state w;
    (void)item, (void)thread, (void)err;
    struct stk_err why = {0};
    int rc = worker_init(p, &w, &why);
    pthread_mutex_lock(&p->lock);
    if (rc < 0)
        fail(p, rc, &why);
    for (struct shard *s; p->rc == 0 && (s = choose_shard(p));) {
        struct chunk c;
        s->opened = true;
        rc = cut_chunk(p, s, &c, &why);
        s->in_flight++;
        pthread_mutex_unlock(&p->lock);
        if (rc == 0)
            rc = encode_chunk(p, &w, &c, &why);
        pthread_mutex_lock(&p->lock);
        if (rc < 0)
            fail(p, rc, &why);
        else
            append_in_turn(p, s, &c, &w);
        s->in_flight--;
    }
    pthread_mutex_unlock(&p->lock);
    worker_release(&w);
    return 0;
}

/* ---- shards ---- */

static int name_shards(struct pack *p, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    p->nshards = f->caps & STK_CAN_SHARD ? p->sel.nshards : 1;
    p->shard = calloc(p->nshards ? p->nshards : 1, sizeof *p->shard);
    if (!p->shard)
        return stk_err_nomem(err, p->nshards * sizeof *p->shard);
    for (uint64_t i = 0; i < p->nshards; i++) {
        struct shard *s = &p->shard[i];
        s->out.fd = s->out.side_fd = -1;
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

/* How what is written here is listed. */
static struct stk_list_options list_options(const struct pack *p)
{
    return (struct stk_list_options){.payload = p->cfg.codec ? p->cfg.codec->name : "auto",
                                     .compress = p->cfg.compress,
                                     .grouped = p->cfg.grouped};
}

/* The files of shards [first, first + n) as they stand in the folder being written. */
static int walk_output(const struct pack *p, uint64_t first, uint64_t n, struct stk_walk *w,
                       struct stk_err *err)
{
    struct stk_problems none = {0};
    if (p->cfg.format->caps & STK_CAN_TREE) {
        char *root = stk_path_join(p->dest.partial, p->shard[first].name);
        *w = (struct stk_walk){.rootfd = -1};
        int rc = root ? stk_walk(w, root, "folder", NULL, &none, err) : stk_err_nomem(err, 1);
        stk_problems_release(&none);
        free(root);
        return rc;
    }
    const char **names = calloc(n ? n : 1, sizeof *names);
    *w = (struct stk_walk){.rootfd = -1};
    if (!names)
        return stk_err_nomem(err, n * sizeof *names);
    for (uint64_t i = 0; i < n; i++)
        names[i] = p->shard[first + i].name;
    int rc = stk_walk_shards(w, p->dest.partial, p->cfg.format, names, n, NULL, err);
    free(names);
    return rc;
}

/* Samples in a shard of an earlier run, by listing it. */
static int count_samples(struct pack *p, uint64_t shard, uint64_t *n, struct stk_err *err)
{
    struct stk_walk w;
    struct stk_index idx;
    int rc = walk_output(p, shard, 1, &w, err);
    int fd = rc < 0 ? rc : stk_nameless_file(NULL, err);
    if (fd >= 0) {
        struct stk_build_options b = {.list = list_options(p), .jobs = p->o->jobs};
        rc = stk_build_index(&w, &b, fd, err);
        if (rc == 0)
            rc = stk_index_open_fd(fd, p->shard[shard].name, &idx, err);
        if (rc == 0) {
            *n = idx.h->nsamples;
            stk_index_close(&idx);
        }
        close(fd);
    }
    stk_walk_release(&w);
    return fd < 0 ? fd : rc;
}

/* A sidecar of an earlier run: NAME with another suffix, e.g. .idx. */
static int keep_side(struct pack *p, struct shard *s, struct stk_err *err)
{
    size_t n = strlen(s->name) - strlen(p->cfg.format->suffix);
    char *path = NULL;
    struct stat sb;
    if (asprintf(&s->side_name, "%.*s.idx", (int)n, s->name) < 0)
        return stk_err_nomem(err, n);
    path = stk_path_join(p->dest.partial, s->side_name);
    int rc = path ? 0 : stk_err_nomem(err, n);
    if (rc == 0 && strcmp(p->cfg.format->suffix, ".idx") != 0 && stat(path, &sb) == 0) {
        s->side.name = s->side_name;
        rc = stk_hash_file(path, &s->side.xxh64, &s->side.size, err);
    }
    free(path);
    return rc;
}

static void kept(struct pack *p, struct shard *s)
{
    s->file.name = s->name;
    s->file.samples = s->samples;
    s->done = true;
    p->shards_kept++;
    p->samples_done += s->samples;
    for (uint64_t lost = s->end - s->begin - s->samples; lost; lost--)
        stk_problems_add(&p->skipped, s->name, -1, "skipped by the run that was resumed");
}

/* A shard that has its name was whole when it got it. One that is not any more (a file system that
 * lost its end in a crash) is written again. */
static int keep_shard(struct pack *p, uint64_t i, const char *path, struct stk_err *err)
{
    struct shard *s = &p->shard[i];
    struct stat sb;
    if (lstat(path, &sb) < 0)
        return 0;
    int rc = stk_out_checksum(path, &s->file.size, &s->file.xxh64, err);
    if (rc == 0)
        rc = count_samples(p, i, &s->samples, err);
    if (rc < 0 && rc != STK_E_CORRUPT)
        return rc;
    uint64_t most = s->end - s->begin;
    bool skips = p->o->on_error == STK_ON_ERROR_SKIP;
    if (rc < 0 || s->samples > most || (s->samples < most && !skips)) {
        s->samples = 0;
        return stk_remove_tree(path, err);
    }
    rc = keep_side(p, s, err);
    if (rc == 0)
        kept(p, s);
    return rc;
}

static int keep_finished(struct pack *p, struct stk_err *err)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < p->nshards; i++) {
        char *path = stk_path_join(p->dest.partial, p->shard[i].name);
        rc = path ? keep_shard(p, i, path, err) : stk_err_nomem(err, 1);
        free(path);
    }
    return rc;
}

static int write_shards(struct pack *p, struct stk_err *err)
{
    int rc = stk_pool_run(p->jobs, p->jobs, work, p, err);
    if (rc == 0 && p->rc) {
        rc = p->rc;
        if (err)
            *err = p->err;
    }
    for (uint64_t i = 0; i < p->nshards; i++) {
        struct shard *s = &p->shard[i];
        if (!s->done && s->out.state && p->cfg.format->abort)
            p->cfg.format->abort(&p->cfg, &s->out);
        stk_out_release(&s->out);
    }
    return rc;
}

/* ---- the rest of the dataset ---- */

static int check_count(const struct pack *p, uint64_t listed, struct stk_err *err)
{
    if (listed == p->samples_done)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, p->dest.final, -1,
                       "%llu samples were written but %llu are found again: in %s the files of one "
                       "sample share a name up to the first dot, and no other sample's may; "
                       "--keys number makes names that do",
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

static int write_index(struct pack *p, struct stk_manifest_file *file, struct stk_err *err)
{
    struct stk_walk w;
    char *path = stk_path_join(p->dest.partial, STK_INDEX_NAME);
    if (!path)
        return stk_err_nomem(err, 1);
    int rc = walk_output(p, 0, p->nshards, &w, err);
    int fd = rc < 0 ? -1 : open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (rc == 0 && fd < 0)
        rc = stk_err_sys(err, path, "create");
    struct stk_build_options b = {
        .list = list_options(p), .jobs = p->o->jobs, .portable = true, .path = path};
    if (rc == 0)
        rc = data_id(p, &b.data_id, err);
    if (rc == 0)
        rc = stk_build_index(&w, &b, fd, err);
    struct stk_index idx = {0};
    if (rc == 0)
        rc = stk_index_open_fd(fd, path, &idx, err);
    if (rc == 0)
        rc = check_count(p, idx.h->nsamples, err);
    if (idx.h)
        stk_index_close(&idx);
    if (rc == 0 && fsync(fd) < 0)
        rc = stk_err_sys(err, path, "fsync");
    if (fd >= 0)
        close(fd);
    if (rc == 0)
        rc = stk_hash_file(path, &file->xxh64, &file->size, err);
    file->name = STK_INDEX_NAME;
    stk_walk_release(&w);
    free(path);
    return rc;
}

static int write_manifest(struct pack *p, const char *src, const struct stk_manifest_file *index,
                          struct stk_err *err)
{
    char label_from[32] = "";
    if (p->cfg.label_in_key) /* a tree of files can be made again without label files */
        snprintf(label_from, sizeof label_from, "dir:%d", p->labels.level);
    struct stk_manifest m = {.format = p->cfg.format->name,
                             .payload = p->cfg.codec ? p->cfg.codec->name : "",
                             .compress = p->cfg.compress,
                             .grouped = p->cfg.grouped,
                             .label_from = label_from,
                             .samples = p->samples_done,
                             .source = src,
                             .settings_json = p->o->settings_json,
                             .classes = p->labels.classes,
                             .nclasses = p->labels.nclasses};
    if (p->ds->has_manifest && p->labels.mode == STK_LABEL_NONE) {
        m.classes = p->ds->manifest.classes; /* labels came along, so do their names */
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
        rc = stk_manifest_write(p->dest.partial, &m, err);
    }
    free(m.shard);
    free(m.other);
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
    struct stk_open_options o = {.format = p->o->src_format,
                                 .payload = p->o->src_payload,
                                 .group = p->o->src_group,
                                 .jobs = p->o->jobs,
                                 .progress = on_index,
                                 .user = &ip};
    bool collect = p->o->on_error == STK_ON_ERROR_SKIP;
    int rc = stk_dataset_open_with(src, &o, collect, true, &p->ds, err);
    /* A file of a folder may have changed without the folder showing it: look again. */
    if (rc == 0 && (p->ds->format->caps & STK_CAN_TREE) && !p->ds->index_built) {
        stk_dataset_close(p->ds);
        p->ds = NULL;
        o.rebuild_index = true;
        rc = stk_dataset_open_with(src, &o, collect, true, &p->ds, err);
    }
    for (size_t i = 0; rc == 0 && i < p->ds->problems.kept; i++) {
        const struct stk_problem *x = &p->ds->problems.item[i];
        stk_problems_add(&p->skipped, x->path, x->offset, x->what);
    }
    if (rc == 0)
        p->skipped.count += p->ds->problems.count - p->ds->problems.kept;
    return rc;
}

/* Labels of a packed dataset are in its samples already, except where files are all there is: there
 * the directories are the labels. */
static int choose_labels(struct pack *p, struct stk_err *err)
{
    const char *from = p->o->label_from;
    unsigned caps = p->ds->format->caps | p->cfg.format->caps;
    if ((!from || strcmp(from, "auto") == 0) && p->ds->has_manifest &&
        (caps & (STK_CAN_TREE | STK_CAN_PATHS)))
        return stk_labels_from_manifest(&p->labels, &p->ds->manifest, err);
    return stk_labels_init(&p->labels, from, p->ds, err);
}

static int prepare(struct pack *p, const char *src, const char *dst, struct stk_err *err)
{
    const struct stk_pack_options *o = p->o;
    struct stk_select_options so = {.include = o->include,
                                    .exclude = o->exclude,
                                    .shuffle = o->shuffle,
                                    .seed = o->seed,
                                    .shards = o->shards,
                                    .shard_size_bytes =
                                        o->shard_size_bytes ? o->shard_size_bytes
                                                            : DEFAULT_SHARD_SIZE};
    int rc = choose_format(p, err);
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
        rc = stk_err_set(err, STK_E_UNSUPPORTED, src, -1, "there is not a single sample to pack");
    if (rc < 0)
        return rc;
    p->cfg.total_samples = p->sel.n;
    p->cfg.label_in_key = p->labels.mode == STK_LABEL_DIR && !o->number_keys;
    choose_jobs(p);
    rc = p->cfg.format->prepare ? p->cfg.format->prepare(&p->cfg, err) : 0;
    struct stk_buf plan = STK_BUF_INIT;
    if (rc == 0)
        rc = plan_text(p, src, &plan, err);
    if (rc == 0)
        rc = stk_dest_open(&p->dest, dst, o->force, o->resume, (const char *)plan.data, err);
    stk_buf_release(&plan);
    return rc;
}

static int run(struct pack *p, const char *src, struct stk_err *err)
{
    struct stk_manifest_file index = {0};
    int rc = name_shards(p, err);
    if (rc == 0 && p->dest.resumed)
        rc = keep_finished(p, err);
    if (rc == 0)
        rc = write_shards(p, err);
    if (rc == 0)
        rc = report(p, "sync", true, err);
    if (rc == 0)
        rc = write_index(p, &index, err);
    if (rc == 0)
        rc = write_manifest(p, src, &index, err);
    return rc < 0 ? rc : stk_dest_publish(&p->dest, err);
}

static void release(struct pack *p)
{
    if (p->cfg.format && p->cfg.format->unprepare)
        p->cfg.format->unprepare(&p->cfg);
    for (uint64_t i = 0; p->shard && i < p->nshards; i++)
        free(p->shard[i].side_name);
    free(p->shard);
    stk_sample_release(&p->first);
    stk_reader_free(p->first_reader);
    stk_select_release(&p->sel);
    stk_labels_release(&p->labels);
    stk_dest_release(&p->dest);
    stk_dataset_close(p->ds);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->turned);
}

static void fill_result(struct pack *p, struct stk_pack_result *r)
{
    snprintf(r->format, sizeof r->format, "%s", p->cfg.format->name);
    r->samples = p->samples_done;
    r->shards = p->nshards;
    r->shards_kept = p->shards_kept;
    r->bytes_in = p->sel.bytes;
    r->bytes_out = p->bytes_out;
    r->classes = p->labels.nclasses;
    stk_problems_sort(&p->skipped);
}

int stk_pack(const char *src, const char *dst, const struct stk_pack_options *o,
             struct stk_pack_result *result, struct stk_err *err)
{
    struct pack p = {.o = o, .dest.lock_fd = -1};
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
    if (rc == 0)
        rc = run(&p, src, err);
    if (rc == 0)
        fill_result(&p, result);
    result->skipped = p.skipped; /* also told after a failure */
    result->seconds_index = indexed - start;
    result->seconds_total = stk_now() - start;
    release(&p);
    return rc;
}
