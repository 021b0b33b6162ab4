/*
 * types.c - if fields may differ in type, reads all samples before anything is written: the
 * fields get one type each (format/codec/types.h), or the pack is refused early.
 */
#include "pack/priv.h"
#include "base/pool.h"

#include <stdio.h>
#include <stdlib.h>

#define LOOK_SAMPLES 1024u

struct looking {
    struct pack *p;
    pthread_mutex_t lock; /* all below */
    uint64_t next;        /* next sample to assign */
    uint64_t bytes;
};

/* True if all records have the same fields of the same types. */
static bool is_uniform(const struct stk_index *idx, const char *name)
{
    const struct stk_codec *codec = stk_codec_find(name);
    return !*name ||
           (codec && codec->uniform &&
            codec->uniform(idx->table[STK_T_CONTEXT], stk_index_count(idx, STK_T_CONTEXT)));
}

/* True if two entries of one field (they are adjacent) differ in more than how it is stored: the
 * numbers of a netCDF file may be packed, and those of the next not. */
static bool differ(const struct stk_index *idx, uint64_t i)
{
    const char *name, *before;
    const struct stk_index_field *f = stk_index_field(idx, i, &name),
                                 *g = i ? stk_index_field(idx, i - 1, &before) : NULL;
    return f && g && f->name_len == g->name_len && memcmp(name, before, f->name_len) == 0 &&
           (f->kind != g->kind || f->dtype != g->dtype || f->ndim != g->ndim ||
            memcmp(f->dim, g->dim, sizeof f->dim) != 0);
}

/* True if the index alone does not determine the types. */
static bool must_look(const struct pack *p, unsigned holds)
{
    const struct stk_index *idx = &p->ds->index;
    const struct stk_index_field *f = idx->table[STK_T_FIELDS];
    const struct stk_segment *seg = idx->table[STK_T_SEGMENTS];
    bool record = p->first.record && p->first.record_codec == p->cfg.codec;
    if ((holds & STK_HOLDS_BYTES) || record)
        return false; /* records are copied unchanged */
    for (uint64_t i = 0; i < stk_index_count(idx, STK_T_FIELDS); i++)
        if (!is_uniform(idx, f[i].codec) || differ(idx, i))
            return true;
    for (uint64_t i = 0; !(holds & STK_HOLDS_GAPS) && i < stk_index_count(idx, STK_T_SEGMENTS); i++)
        if (seg[i].kind == STK_SEG_PARTS && stk_index_count(idx, STK_T_FIELDS) > 1)
            return true;
    return false;
}

/* The next few MiB of samples in storage order. */
static int take(struct looking *g, struct stk_buf *ids, uint64_t *first, struct stk_err *err)
{
    struct pack *p = g->p;
    uint64_t bytes = 0, n = 0;
    int rc = 0;
    stk_buf_reset(ids);
    pthread_mutex_lock(&g->lock);
    *first = g->next;
    for (; rc == 0 && g->next < p->sel.n && n < LOOK_SAMPLES; n++) {
        uint64_t one = 0, id = stk_select_stored(&p->sel, g->next);
        rc = stk_index_sample_bytes(&p->ds->index, id, &one, err);
        if (rc == 0 && n && bytes + one > p->chunk_bytes)
            break;
        bytes += one;
        stk_buf_put(ids, &id, sizeof id);
        g->next++;
    }
    g->bytes += bytes;
    if (rc == 0 && p->o->progress &&
        p->o->progress(p->o->user, "types", g->bytes, p->sel.bytes, g->next, p->sel.n))
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    pthread_mutex_unlock(&g->lock);
    return rc < 0 ? rc : stk_buf_check(ids, err);
}

/* Unreadable samples are reported when they are packed. */
static int look_at(struct pack *p, struct stk_reader *r, const struct stk_buf *ids, uint64_t first,
                   struct stk_sample *s, struct stk_types *types, struct stk_err *err)
{
    const uint64_t *id = (const void *)ids->data;
    size_t n = ids->len / sizeof *id;
    int rc = stk_reader_batch(r, id, n, err);
    for (size_t k = 0; rc == 0 && k < n; k++) {
        struct stk_err why = {0};
        rc = stk_reader_get(r, k, s, &why);
        if (rc == 0)
            rc = stk_pack_dress(p, first + k, s, &why);
        if (rc == 0)
            rc = stk_types_note(types, s, id[k], &why);
        if (rc < 0 && stk_pack_can_skip(p, rc))
            rc = 0;
        else if (rc < 0) {
            stk_pack_place(p, id[k], &why);
            if (err)
                *err = why;
        }
    }
    return rc;
}

static int look(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct looking *g = user;
    struct stk_reader *r = NULL;
    struct stk_types types = {0};
    struct stk_sample s;
    struct stk_buf ids = STK_BUF_INIT;
    uint64_t first;
    (void)item, (void)thread;
    stk_sample_init(&s);
    int rc = stk_reader_new(g->p->ds, &r, err);
    while (rc == 0 && (rc = take(g, &ids, &first, err)) == 0 && ids.len)
        rc = look_at(g->p, r, &ids, first, &s, &types, err);
    pthread_mutex_lock(&g->lock);
    if (rc == 0)
        rc = stk_types_merge(&g->p->types, &types, err);
    pthread_mutex_unlock(&g->lock);
    stk_types_release(&types);
    stk_sample_release(&s);
    stk_buf_release(&ids);
    stk_reader_free(r);
    return rc;
}

/* "sample a/7.jpg", "sample number 7" */
static void name_sample(void *user, uint64_t at, char *to, size_t n)
{
    struct pack *p = user;
    struct stk_sample s;
    stk_sample_init(&s);
    bool known = stk_dataset_read(p->ds, at, &s, NULL) == 0 && s.key_len &&
                 stk_is_text((const uint8_t *)s.key, s.key_len);
    if (known)
        snprintf(to, n, "sample %.*s", (int)(s.key_len < 200 ? s.key_len : 200), s.key);
    else
        snprintf(to, n, "sample number %llu", (unsigned long long)at);
    stk_sample_release(&s);
}

int stk_pack_types(struct pack *p, struct stk_err *err)
{
    const struct stk_format *f = p->cfg.format;
    unsigned holds = p->cfg.codec ? p->cfg.codec->holds : f->holds;
    if (!must_look(p, holds))
        return 0;
    struct looking g = {.p = p};
    const struct stk_types_target to = {.holds = holds,
                                        .title = f->title,
                                        .lenient = p->o->on_error == STK_ON_ERROR_SKIP,
                                        .name = name_sample,
                                        .user = p};
    pthread_mutex_init(&g.lock, NULL);
    int rc = stk_pool_run(p->jobs, p->jobs, look, &g, err);
    pthread_mutex_destroy(&g.lock);
    if (rc == 0)
        rc = stk_types_settle(&p->types, &to, err);
    p->cfg.types = &p->types;
    if (rc == 0 && p->cfg.first)
        rc = stk_types_convert(&p->types, &p->first, err);
    return rc;
}
