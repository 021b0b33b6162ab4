/*
 * text.c - HDF5 datasets of strings and of bytes of variable length: fixed-size strings are in
 * the dataset, padded; others are in the file's global heap.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <stdlib.h>

#define KEY_MAX    (64u << 10)
#define MAX_STRING (16u << 20) /* fixed size; rows are read while listing */
#define SNIFF_ROWS 64          /* examined to tell text from bytes */

/* ---- strings of fixed size: read while listing, to drop the padding ---- */

static size_t string_length(const struct stk_h5_type *type, const char *p)
{
    size_t n = type->size;
    if (type->padding == H5T_STR_NULLTERM)
        return strnlen(p, n);
    char pad = type->padding == H5T_STR_SPACEPAD ? ' ' : '\0';
    while (n && p[n - 1] == pad)
        n--;
    return n;
}

static int locate_string(void *user, struct stk_lister *l, uint64_t row, struct stk_err *err)
{
    (void)l;
    struct stk_h5_column *c = user;
    size_t size = c->set->type.size;
    int rc = stk_h5_store_read(&c->store, row * size, c->bytes, size, err);
    c->len = rc < 0 ? 0 : string_length(&c->set->type, c->bytes);
    return rc;
}

static int list_string(void *user, struct stk_lister *l, int field, uint64_t row,
                       struct stk_err *err)
{
    const struct stk_h5_column *c = user;
    uint64_t per = c->store.block_dim[0];
    return stk_list_part(l, field, c->first_extent + (int64_t)(row / per),
                         row % per * c->store.element, c->len, err);
}

static int string_key(void *user, uint64_t row, const char **key, size_t *len, struct stk_err *err)
{
    (void)row, (void)err;
    const struct stk_h5_column *c = user;
    *key = c->bytes;
    *len = (size_t)c->len;
    return 0;
}

static int string_column(struct stk_h5_column *c, struct stk_table_column *out, struct stk_err *err)
{
    size_t size = c->set->type.size;
    if (size > MAX_STRING)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(c->store.file->src), -1,
                           "dataset '%.200s': strings of %zu bytes", c->store.name, size);
    c->bytes = malloc(size + 1);
    if (!c->bytes)
        return stk_err_nomem(err, size);
    out->how = STK_TABLE_OTHER;
    out->locate = locate_string;
    out->parts = list_string;
    out->key = string_key;
    out->user = c;
    return 0;
}

/* ---- values of variable length: references into the global heap ---- */

static int heap_problem(const struct stk_h5_column *c, struct stk_lister *l, uint64_t row,
                        const struct stk_err *why, struct stk_err *err)
{
    if (c->quiet)
        return 1;
    int rc = stk_list_problem(l, why->offset, err, "sample %llu of dataset '%.200s': %s",
                              (unsigned long long)row, c->set->name, why->what);
    return rc < 0 ? rc : 1;
}

static int locate_variable(void *user, struct stk_lister *l, uint64_t row, struct stk_err *err)
{
    struct stk_h5_column *c = user;
    const struct stk_h5_file *f = c->store.file;
    uint8_t ref[16];
    struct stk_err why = {.offset = -1};
    uint64_t size = 0;
    int rc = stk_h5_store_read(&c->store, row * c->store.element, ref, c->store.element, err);
    if (rc < 0)
        return rc;
    c->len = stk_le32(ref);
    uint64_t addr = stk_h5_addr(f, ref + 4);
    if (!c->len)
        return 0;
    rc = stk_h5_heap_find(&c->heap, addr, stk_le32(ref + 4 + f->addr_size), &c->at, &size, &why);
    if (rc == 0 && size < c->len)
        rc = stk_err_set(&why, STK_E_CORRUPT, NULL, (int64_t)c->at,
                         "%llu bytes in the heap where %llu should be", (unsigned long long)size,
                         (unsigned long long)c->len);
    if (rc == 0 && c->is_key && c->len > KEY_MAX)
        rc = stk_err_set(&why, STK_E_CORRUPT, NULL, (int64_t)c->at, "a key of %llu bytes",
                         (unsigned long long)c->len);
    return rc < 0 ? heap_problem(c, l, row, &why, err) : 0;
}

static int list_variable(void *user, struct stk_lister *l, int field, uint64_t row,
                         struct stk_err *err)
{
    (void)row;
    struct stk_h5_column *c = user;
    if (!c->len)
        return stk_list_part(l, field, c->empty_extent, 0, 0, err);
    int64_t extent = stk_list_extent(l, c->at, c->len, NULL, err);
    return extent < 0 ? (int)extent : stk_list_part(l, field, extent, 0, c->len, err);
}

static int variable_key(void *user, uint64_t row, const char **key, size_t *len,
                        struct stk_err *err)
{
    (void)row;
    struct stk_h5_column *c = user;
    const uint8_t *p = NULL;
    size_t got = 0;
    *len = (size_t)c->len;
    *key = "";
    if (!c->len)
        return 0;
    int rc = stk_src_peek(c->store.file->src, c->at, (size_t)c->len, &p, &got, err);
    if (rc < 0)
        return rc;
    /* Copied: the peeked bytes are gone once the next column is located. */
    *len = got;
    *key = memcpy(c->bytes, p, got);
    return 0;
}

static int variable_column(struct stk_h5_column *c, struct stk_lister *l,
                           struct stk_table_column *out, struct stk_err *err)
{
    c->heap.file = c->store.file;
    c->bytes = malloc(KEY_MAX);
    if (!c->bytes)
        return stk_err_nomem(err, KEY_MAX);
    c->empty_extent = stk_list_extent(l, 0, 0, NULL, err);
    out->how = STK_TABLE_OTHER;
    out->locate = locate_variable;
    out->parts = list_variable;
    out->key = variable_key;
    out->user = c;
    return c->empty_extent < 0 ? (int)c->empty_extent : 0;
}

/* Programs in C mark every string as ASCII, whatever it holds: the first values decide. */
static bool looks_like_text(struct stk_lister *l, uint64_t count, struct stk_table_column *col)
{
    struct stk_err ignored;
    struct stk_h5_column *c = col->user;
    bool text = true;
    c->quiet = true;
    for (uint64_t row = 0; text && row < count && row < SNIFF_ROWS; row++) {
        const char *p;
        size_t n;
        if (col->locate(c, l, row, &ignored) != 0)
            continue;
        text = c->len <= KEY_MAX &&
               (col->key(c, row, &p, &n, &ignored) < 0 || stk_is_text((const uint8_t *)p, n));
    }
    c->quiet = false;
    return text;
}

int stk_h5_text_column(struct stk_h5_column *c, struct stk_lister *l, uint64_t count,
                       struct stk_table_column *out, struct stk_err *err)
{
    int rc = c->set->type.what == STK_H5_STRING ? string_column(c, out, err)
                                                : variable_column(c, l, out, err);
    if (rc == 0) {
        bool text = c->set->type.utf8 || (c->set->type.is_string && looks_like_text(l, count, out));
        out->spec.kind = text ? STK_TEXT : STK_BYTES;
    }
    return rc;
}
#endif
