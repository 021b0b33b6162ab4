/*
 * work.c - the workers. Each takes a chunk of adjacent output positions, reads and encodes it,
 * and appends it to the shard in order, so that the bytes do not depend on the number of workers. A
 * shard gets its final name when it is whole.
 */
#include "pack/priv.h"
#include "base/pool.h"
#include "format/codec/codec.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK_SAMPLES 4096u

/* ---- preparing a sample ---- */

static int set_text(struct stk_sample *s, const char *field, const char *text, struct stk_err *err)
{
    if (stk_sample_find(s, field))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the sample already has a field '%s', the name for the texts of "
                           "--label-from; rename their column",
                           field);
    s->record = NULL;
    return stk_sample_add_bytes(s, field, STK_TEXT, text, strlen(text), err);
}

/* Gives the sample its label and a key. */
int stk_pack_dress(const struct pack *p, uint64_t number, struct stk_sample *s, struct stk_err *err)
{
    int64_t label;
    double real;
    int rc = stk_labels_of(&p->labels, s->key, s->key_len, &label, err);
    if (rc == 1 && p->labels.text) {
        rc = set_text(s, p->labels.text_field, p->labels.text[label], err);
    } else if (rc == 1 && p->labels.reals) {
        memcpy(&real, &label, sizeof real);
        rc = stk_sample_set_label_f64(s, real, err);
    } else if (rc == 1) {
        rc = stk_sample_set_label(s, label, err);
    }
    s->number = number;
    if (rc == 0 && (p->o->number_keys || !s->key_len)) {
        char text[320];
        const char *slash = s->key_len ? memrchr(s->key, '/', s->key_len) : NULL;
        const char *base = slash ? slash + 1 : s->key, *end = s->key + s->key_len;
        /* The suffix identifies the payload. */
        bool ending = s->key_len && stk_sample_find(s, "data");
        const char *dot = ending ? memrchr(base, '.', (size_t)(end - base)) : NULL;
        int n = snprintf(text, sizeof text, "%08llu%.*s", (unsigned long long)number,
                         dot && end - dot < 256 ? (int)(end - dot) : 0, dot ? dot : "");
        bool had_key = s->key_len != 0;
        s->key = stk_arena_dup(&s->arena, text, (size_t)n);
        s->key_len = (size_t)n;
        /* A stored record without a key stays valid. */
        if (had_key)
            s->record = NULL;
        rc = s->key ? 0 : stk_err_nomem(err, (uint64_t)n);
    }
    return rc;
}

/* True if the source has a key that the output cannot hold. */
static bool loses_key(const struct pack *p, const struct stk_sample *s)
{
    uint64_t id;
    if (p->o->number_keys || (p->holds & STK_HOLDS_KEY))
        return false;
    bool number = stk_sample_has_id(s, &id);
    return !number || (id != s->number && !(p->holds & STK_HOLDS_ID));
}

static void skip(struct pack *p, const struct stk_err *why)
{
    pthread_mutex_lock(&p->lock);
    stk_problems_add_code(&p->skipped, why->code, why->path, why->offset, why->what);
    pthread_mutex_unlock(&p->lock);
}

bool stk_pack_can_skip(const struct pack *p, int rc)
{
    return p->o->on_error == STK_ON_ERROR_SKIP && rc != STK_E_NOMEM && rc != STK_E_STOPPED;
}

void stk_pack_place(const struct pack *p, uint64_t id, struct stk_err *why)
{
    int64_t off;
    if (why->path[0] || why->code == STK_E_NOMEM)
        return;
    struct stk_err bare = *why;
    char *path = stk_reader_place(p->ds, id, &off);
    stk_err_set(why, bare.code, path, off, "%s", bare.what);
    free(path);
}

/* ---- workers ---- */

struct worker_state {
    struct stk_reader *reader;
    struct stk_sample sample;
    struct stk_buf ids, out;
};

/* Adjacent positions of a shard that one worker processes at a time. */
struct chunk {
    uint64_t number; /* in the shard, from 0 */
    uint64_t begin, end;
    uint64_t bytes;   /* stored, of the source */
    uint64_t samples; /* encoded: without those skipped */
    uint64_t keys_lost;
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

/* The shard to work on: of the shards in progress with positions left, the one with the fewest
 * workers; a new one while fewer are in progress than workers. NULL: nothing left. */
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
            rc = stk_pack_dress(p, i, &w->sample, &why);
        if (rc == 0)
            rc = stk_types_convert(&p->types, &w->sample, &why);
        if (rc == 0)
            rc = f->encode(&p->cfg, &w->sample, &w->out, &why);
        if (rc == 0) {
            c->samples++;
            c->keys_lost += loses_key(p, &w->sample);
            continue;
        }
        stk_pack_place(p, stk_select_at(&p->sel, i), &why);
        if (stk_pack_can_skip(p, rc)) {
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
    int rc = stk_out_open(&s->out, f, p->dest.fd, p->dest.partial, s->name, err);
    return rc == 0 && f->begin ? f->begin(&p->cfg, &s->out.out, err) : rc;
}

static int shard_append(struct pack *p, struct shard *s, const struct stk_buf *b, uint64_t n,
                        struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    s->samples += n;
    return f->append ? f->append(&p->cfg, &s->out.out, b->data, b->len, n, err)
                     : stk_out_write(&s->out.out, b->data, b->len, err);
}

static int shard_finish(struct pack *p, struct shard *s, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    int rc = f->finish ? f->finish(&p->cfg, &s->out.out, err) : 0;
    if (rc == 0)
        rc = stk_out_seal(&s->out, &s->file, &s->side, err);
    s->file.name = s->name;
    s->file.samples = s->samples;
    if (rc == 0) /* before it has its name: what has one is in the record */
        rc = stk_done_add(p->dest.fd, p->dest.partial, &s->file, &s->side, err);
    if (rc == 0)
        rc = stk_out_commit(&s->out, err);
    if (rc == 0 && s->side.name) {
        s->side_name = strdup(s->side.name);
        s->side.name = s->side_name;
        rc = s->side_name ? 0 : stk_err_nomem(err, 1);
    }
    return rc;
}

int stk_pack_report(struct pack *p, const char *phase, bool now, struct stk_err *err)
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

/* Waits for the chunks before this one, appends it, and lets the next one continue. Called with the
 * lock held, which is released while writing. */
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
        p->keys_lost += c->keys_lost;
        p->bytes_done += c->bytes;
        rc = stk_pack_report(p, "pack", false, &why);
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

int stk_pack_write_shards(struct pack *p, struct stk_err *err)
{
    int rc = stk_pool_run(p->jobs, p->jobs, work, p, err);
    if (rc == 0 && p->rc) {
        rc = p->rc;
        if (err)
            *err = p->err;
    }
    for (uint64_t i = 0; i < p->nshards; i++) {
        struct shard *s = &p->shard[i];
        if (!s->done && s->out.out.state && p->cfg.format->abort)
            p->cfg.format->abort(&p->cfg, &s->out.out);
        stk_out_release(&s->out);
    }
    return rc;
}
