/* select.c - globs on keys, the order, and the cuts between shards. */
#include "pack/priv.h"
#include "base/buf.h"

#include <fnmatch.h>
#include <stdlib.h>

#define MAX_SHARDS 99999u

static bool matches(const char *const *globs, const char *key)
{
    for (; *globs; globs++)
        if (fnmatch(*globs, key, 0) == 0)
            return true;
    return false;
}

static int filter(struct stk_select *s, const struct stk_select_options *o, struct stk_err *err)
{
    struct stk_buf key = STK_BUF_INIT;
    int rc = 0;
    s->filtered = true;
    for (uint64_t i = 0; rc == 0 && i < stk_dataset_len(s->ds); i++) {
        const char *p;
        size_t len;
        rc = stk_index_key(&s->ds->index, i, &p, &len, err);
        if (rc == 0 && !len)
            rc = stk_err_set(err, STK_E_UNSUPPORTED, s->ds->path, -1,
                             "--include and --exclude need keys outside the records, which %s does "
                             "not have",
                             s->ds->format->title);
        if (rc < 0)
            break;
        stk_buf_reset(&key);
        stk_buf_put(&key, p, len);
        const char *text = stk_buf_cstr(&key);
        if ((o->include && !matches(o->include, text)) || (o->exclude && matches(o->exclude, text)))
            continue;
        s->n++;
        rc = stk_spool_put(&s->kept, &i, sizeof i, err);
    }
    stk_buf_release(&key);
    const void *p = NULL;
    if (rc == 0)
        rc = stk_spool_map(&s->kept, &p, err);
    s->number = p;
    return rc;
}

uint64_t stk_select_stored(const struct stk_select *s, uint64_t i)
{
    return s->filtered ? s->number[i] : i;
}

uint64_t stk_select_at(const struct stk_select *s, uint64_t i)
{
    return stk_select_stored(s, s->shuffled ? stk_perm_at(&s->perm, i) : i);
}

static int add_cut(struct stk_select *s, uint64_t at, struct stk_err *err)
{
    if (STK_ARRAY_MORE(s->cut, s->nshards + 1, err)) /* the end of the last one stands behind */
        return STK_E_NOMEM;
    s->cut[s->nshards++] = at;
    s->cut[s->nshards] = s->n;
    return 0;
}

/* Equal numbers of samples. */
static int cut_by_count(struct stk_select *s, uint64_t shards, struct stk_err *err)
{
    if (shards > s->n && s->n)
        shards = s->n;
    int rc = 0;
    for (uint64_t k = 0; rc == 0 && k < shards; k++)
        rc = add_cut(s, (uint64_t)((unsigned __int128)s->n * k / shards), err);
    return rc;
}

/* Total bytes, and a cut before the sample that would take a shard over the size. */
static int cut_by_size(struct stk_select *s, uint64_t size, bool cut, struct stk_err *err)
{
    uint64_t in_shard = 0;
    int rc = cut ? add_cut(s, 0, err) : 0;
    for (uint64_t i = 0; rc == 0 && i < s->n; i++) {
        uint64_t bytes;
        rc = stk_index_sample_bytes(&s->ds->index, stk_select_at(s, i), &bytes, err);
        s->bytes += bytes;
        if (cut && in_shard && in_shard + bytes > size && rc == 0) {
            rc = add_cut(s, i, err);
            in_shard = 0;
        }
        in_shard += bytes;
    }
    return rc;
}

int stk_select_init(struct stk_select *s, const struct stk_dataset *ds,
                    const struct stk_select_options *o, struct stk_err *err)
{
    *s = (struct stk_select){.ds = ds, .n = stk_dataset_len(ds)};
    stk_spool_init(&s->kept, NULL);
    int rc = 0;
    if (o->include || o->exclude) {
        s->n = 0;
        rc = filter(s, o, err);
    }
    s->shuffled = o->shuffle;
    stk_perm_init(&s->perm, s->n, o->seed);
    if (rc == 0)
        rc = cut_by_size(s, o->shard_size_bytes, o->shards == 0, err);
    if (rc == 0 && o->shards)
        rc = cut_by_count(s, o->shards, err);
    if (rc == 0 && s->nshards > MAX_SHARDS)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1,
                         "%llu shards are more than a name has room for; make them larger",
                         (unsigned long long)s->nshards);
    return rc;
}

void stk_select_release(struct stk_select *s)
{
    stk_spool_release(&s->kept);
    free(s->cut);
    *s = (struct stk_select){0};
    s->kept.fd = -1;
}
