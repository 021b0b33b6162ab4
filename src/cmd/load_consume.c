/*
 * load_consume.c - what `stoker load` does with a batch: touches its bytes, so that lazily mapped
 * pages count as read, or hashes them; and writes which samples came (--ids).
 */
#include "base/buf.h"
#include "base/hash.h"
#include "cmd/load.h"

#define PAGE 4096u

/* Reads a byte of every page: enough to fill the memory, at almost no CPU time. */
static void touch(const void *p, size_t n)
{
    const volatile uint8_t *b = p;
    for (size_t off = 0; off < n; off += PAGE)
        (void)b[off];
    if (n)
        (void)b[n - 1];
}

static void touch_value(const struct stk_value *v, unsigned depth)
{
    touch(v->data, v->size);
    for (size_t i = 0; i < v->nitems && depth; i++)
        touch_value(&v->item[i], depth - 1);
}

/* Bytes per sample of a dense column. */
static size_t dense_bytes(const struct stk_column *c)
{
    size_t n = stk_dtype_size(c->dtype);
    for (unsigned d = 0; d < c->ndim && d < STK_MAX_NDIM; d++)
        n *= (size_t)c->dim[d];
    return n;
}

#define LIST_DEPTH 16 /* of nested lists; no format goes deeper */

static void touch_column(const struct stk_column *c, size_t n)
{
    if (c->layout == STK_DENSE) {
        touch(c->data, n * dense_bytes(c));
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (c->layout == STK_SPANS)
            touch(c->span[i].data, c->span[i].size);
        else
            touch_value(&c->value[i], LIST_DEPTH);
    }
}

/* ---- hashing ------------------------------------------------------------------------------- */

static uint64_t value_bytes(const struct stk_value *v, unsigned depth)
{
    uint64_t n = v->size;
    for (size_t i = 0; v->kind == STK_LIST && i < v->nitems && depth; i++)
        n += value_bytes(&v->item[i], depth - 1);
    return n;
}

static void hash_value(struct stk_hash *h, const struct stk_value *v, unsigned depth)
{
    if (v->size)
        stk_hash_update(h, v->data, v->size);
    for (size_t i = 0; v->kind == STK_LIST && i < v->nitems && depth; i++)
        hash_value(h, &v->item[i], depth - 1);
}

/* XXH64 of a field: its name, a zero byte, the length of its bytes (8 bytes, little-endian), the
 * bytes; the bytes of a list are its items' bytes in order. */
static uint64_t hash_field(const char *name, const struct stk_value *v)
{
    struct stk_hash h;
    uint8_t length[8];
    stk_hash_init(&h);
    stk_hash_update(&h, name, strlen(name) + 1);
    stk_put_le64(length, value_bytes(v, LIST_DEPTH));
    stk_hash_update(&h, length, sizeof length);
    hash_value(&h, v, LIST_DEPTH);
    return stk_hash_final(&h);
}

/* A sum, so that the order of fields and samples does not matter, and the sums of ranks add up. */
static uint64_t hash_sample(const struct stk_batch *b, size_t i)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < b->ncolumns; k++) {
        const struct stk_column *c = &b->column[k];
        size_t dense = c->layout == STK_DENSE ? dense_bytes(c) : 0;
        struct stk_value v = {.kind = c->kind};
        if (c->layout == STK_VALUES)
            v = c->value[i];
        else if (c->layout == STK_SPANS)
            v.data = c->span[i].data, v.size = c->span[i].size;
        else
            v.data = (const uint8_t *)c->data + i * dense, v.size = dense;
        if (v.kind)
            sum += hash_field(c->name, &v);
    }
    return sum;
}

/* ---- a batch ------------------------------------------------------------------------------- */

static int put_id(struct stk_load *l, const struct stk_batch *b, size_t i, const uint64_t *hash)
{
    int n = fprintf(l->ids, "%llu %llu %llu %u", (unsigned long long)b->epoch,
                    (unsigned long long)b->step, (unsigned long long)b->id[i], b->flags[i]);
    if (n >= 0 && hash)
        n = fprintf(l->ids, " %016llx", (unsigned long long)*hash);
    if (n >= 0)
        n = fputc('\n', l->ids);
    return n >= 0 ? 0 : stk_err_sys(&l->run->err, l->s->ids, "cannot write --ids");
}

int stk_load_consume(struct stk_load *l, const struct stk_batch *b)
{
    bool hashes = l->r.hashed;
    int rc = 0;
    for (size_t k = 0; l->s->consume == STK_CONSUME_TOUCH && k < b->ncolumns; k++)
        touch_column(&b->column[k], b->n);
    for (size_t i = 0; !rc && (hashes || l->ids) && i < b->n; i++) {
        uint64_t hash = hashes ? hash_sample(b, i) : 0;
        l->r.content += hash;
        if (l->ids)
            rc = put_id(l, b, i, hashes ? &hash : NULL);
    }
    return rc;
}
