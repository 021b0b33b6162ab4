/*
 * assemble.c - samples from slices: assembles fields, and lets codecs decode records.
 */
#include "dataset/fetch.h"
#include "base/hash.h"
#include "dataset/reader.h"

#include <stdlib.h>

/* Reserves room for all bytes that must be copied, so that the buffer never moves. */
static int reserve(const struct stk_fetch *f, uint32_t first, uint32_t end, struct stk_sample *s,
                   struct stk_err *err)
{
    const struct stk_slice *sl = stk_fetch_slice(f, 0);
    uint64_t total = 0;
    for (uint32_t i = first; i < end; i++)
        if (sl[i].length != UINT64_MAX && __builtin_add_overflow(total, sl[i].length, &total))
            return stk_err_nomem(err, total);
    if (end - first > 1 && !stk_buf_room(&s->bytes, (size_t)total + 1))
        return stk_err_nomem(err, total);
    return 0;
}

/* The value of slices [i, j), all of one field: in place if it is one plain slice, else copied. */
static int field_bytes(stk_slice_fn *slice, void *user, uint32_t i, uint32_t j,
                       struct stk_sample *s, const uint8_t **p, uint64_t *len, struct stk_err *err)
{
    bool fleeting;
    uint64_t n;
    int rc = slice(user, i, p, len, &fleeting, err);
    if (rc < 0 || (j - i == 1 && !fleeting))
        return rc;
    size_t at = s->bytes.len;
    if (j - i == 1 && !stk_buf_room(&s->bytes, (size_t)*len + 1))
        return stk_err_nomem(err, *len);
    stk_buf_put(&s->bytes, *p, (size_t)*len);
    for (uint32_t k = i + 1; rc == 0 && k < j; k++) {
        rc = slice(user, k, p, &n, &fleeting, err);
        if (rc == 0)
            stk_buf_put(&s->bytes, *p, (size_t)n);
    }
    if (rc == 0)
        rc = stk_buf_check(&s->bytes, err);
    *p = s->bytes.data + at;
    *len = s->bytes.len - at;
    return rc;
}

static int plain_value(const struct stk_index_field *f, const char *name, const uint8_t *p,
                       uint64_t len, struct stk_sample *s, struct stk_err *err)
{
    struct stk_value v = {
        .kind = f->kind, .dtype = f->dtype, .ndim = f->ndim, .data = p, .size = (size_t)len};
    memcpy(v.dim, f->dim, sizeof v.dim);
    uint64_t want;
    if (f->kind == STK_ARRAY &&
        (__builtin_mul_overflow(stk_value_count(&v), stk_dtype_size(f->dtype), &want) ||
         want != len))
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "field '%.*s' has %llu bytes, which does not match its shape",
                           (int)f->name_len, name, (unsigned long long)len);
    if (f->kind == STK_TEXT && !stk_is_text(p, (size_t)len))
        v.kind = STK_BYTES;
    if (f->kind == STK_JSON) {
        size_t bom = stk_json_bom(p, (size_t)len);
        v.data = p + bom;
        v.size -= bom;
        struct stk_err why;
        int rc = stk_json_check(v.data, v.size, &why);
        if (rc < 0)
            return stk_err_set(err, rc, NULL, -1, "the field '%.*s'%s %s",
                               (int)(f->name_len < 200 ? f->name_len : 200), name,
                               rc == STK_E_CORRUPT ? "" : ":", why.what);
    }
    return stk_sample_add(s, name, f->name_len, &v) ? 0 : stk_err_nomem(err, sizeof v);
}

static int arranged_value(const struct stk_index *idx, const struct stk_codec *c,
                          const struct stk_index_field *f, const char *name, const uint8_t *p,
                          uint64_t len, struct stk_sample *s, struct stk_err *err)
{
    struct stk_field_spec spec = {.name = name,
                                  .name_len = f->name_len,
                                  .kind = f->kind,
                                  .dtype = f->dtype,
                                  .ndim = f->ndim,
                                  .codec = f->codec};
    memcpy(spec.dim, f->dim, sizeof spec.dim);
    const uint8_t *out = NULL;
    size_t out_len = 0;
    int rc = c->arrange(&spec, idx->table[STK_T_CONTEXT], stk_index_count(idx, STK_T_CONTEXT), p,
                        (size_t)len, s, &out, &out_len, err);
    return rc < 0 ? rc : plain_value(f, name, out, out_len, s, err);
}

/* Codecs of single values name them "data"; renames that to the field's own name. */
static void rename_single(struct stk_sample *s, size_t before, const char *name, size_t len)
{
    bool record =
        (len == 6 && memcmp(name, "record", 6) == 0) || (len == 3 && memcmp(name, "row", 3) == 0);
    if (s->nfields != before + 1 || record)
        return;
    struct stk_field *f = &s->field[before];
    if (f->name_len != 4 || memcmp(f->name, "data", 4) != 0)
        return;
    f->name = name;
    f->name_len = len;
}

static int add_field(const struct stk_dataset *ds, uint32_t number, const uint8_t *p, uint64_t len,
                     bool only, struct stk_sample *s, struct stk_err *err)
{
    const char *name;
    const struct stk_index *idx = &ds->index;
    const struct stk_index_field *f = stk_index_field(idx, number, &name);
    if (!f)
        return stk_err_set(err, STK_E_CORRUPT, ds->index_path, -1,
                           "damaged index: a field does not exist");
    const struct stk_codec *c = ds->codec[number];
    if (!c)
        return plain_value(f, name, p, len, s, err);
    if (c->arrange)
        return arranged_value(idx, c, f, name, p, len, s, err);
    size_t before = s->nfields;
    int rc = c->explode(idx->table[STK_T_CONTEXT], stk_index_count(idx, STK_T_CONTEXT), p,
                        (size_t)len, s, err);
    if (rc == 0)
        rename_single(s, before, name, f->name_len);
    if (rc == 0 && only) {
        s->record = p;
        s->record_len = (size_t)len;
        s->record_codec = c;
    }
    return rc;
}

static int get_sample(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                      struct stk_sample *s, struct stk_err *err)
{
    const struct stk_slice *sl = stk_fetch_slice(f, 0);
    uint32_t first = stk_fetch_first(f, k), end = stk_fetch_first(f, k + 1);
    stk_sample_reset(s);
    int rc = stk_index_key(&f->ds->index, stk_fetch_id(f, k), &s->key, &s->key_len, err);
    if (rc == 0)
        rc = reserve(f, first, end, s, err);
    for (uint32_t i = first, j; rc == 0 && i < end; i = j) {
        const uint8_t *p;
        uint64_t len;
        for (j = i + 1; j < end && sl[j].field == sl[i].field;)
            j++;
        rc = field_bytes(slice, user, i, j, s, &p, &len, err);
        if (rc == 0)
            rc = add_field(f->ds, sl[i].field, p, len, i == first && j == end, s, err);
    }
    return rc;
}

int stk_assemble_sum(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                     uint32_t *crc, uint64_t *bytes, struct stk_err *err)
{
    int rc = 0;
    *crc = 0;
    *bytes = 0;
    for (uint32_t i = stk_fetch_first(f, k); rc == 0 && i < stk_fetch_first(f, k + 1); i++) {
        struct stk_want *w = stk_fetch_want(f, i);
        uint64_t length = stk_fetch_slice(f, i)->length, len = 0;
        const uint8_t *p;
        bool fleeting;
        if (length == 0)
            continue;
        if (w->summed && !w->failed) { /* by the thread that read it */
            *crc = w->sum;
            *bytes += w->len;
            continue;
        }
        if (w->failed || (w->chain && length != UINT64_MAX))
            rc = slice(user, i, &p, &len, &fleeting, err);
        else
            rc = stk_fetch_stored(f, i, true, &p, &len, err);
        if (rc == 0 && len)
            *crc = stk_crc32c(*crc, p, (size_t)len);
        if (rc == 0 && w->framed && w->leads) { /* the frame has the same sum: computed once */
            w->sum = *crc;
            w->summed = true;
        }
        *bytes += length == UINT64_MAX ? w->len : len; /* with its frame, as requested */
    }
    return rc;
}

/* A damaged record is damage of the file; a sound one that is not the index's is another file's. */
static int wrong_sum(const struct stk_fetch *f, size_t k, struct stk_err *err)
{
    const uint8_t *p;
    uint64_t len;
    for (uint32_t i = stk_fetch_first(f, k); i < stk_fetch_first(f, k + 1); i++) {
        int rc = stk_fetch_want(f, i)->framed ? stk_fetch_stored(f, i, false, &p, &len, err) : 0;
        if (rc < 0)
            return rc;
    }
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                       "corrupt sample: its checksum is not the one in the index");
}

int stk_assemble_check(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                       uint64_t *bytes, struct stk_err *err)
{
    const struct stk_dataset *ds = f->ds;
    uint64_t id = stk_fetch_id(f, k);
    uint32_t want, have;
    int rc = stk_index_sample_check(ds->checks ? ds->checks : &ds->index, id, &want, err);
    if (rc <= 0)
        return rc;
    rc = stk_assemble_sum(f, k, slice, user, &have, bytes, err);
    if (rc == 0 && have != want)
        rc = wrong_sum(f, k, err);
    if (rc < 0)
        stk_assemble_locate(ds, id, rc, err);
    return rc < 0 ? rc : 1;
}

void stk_assemble_locate(const struct stk_dataset *ds, uint64_t id, int code, struct stk_err *err)
{
    if (!err || err->path[0] || code == STK_E_NOMEM)
        return;
    int64_t off;
    char *path = stk_reader_place(ds, id, &off);
    struct stk_err why = *err;
    stk_err_set(err, why.code, path, off, "%s", why.what);
    free(path);
}

int stk_assemble(const struct stk_fetch *f, size_t k, stk_slice_fn *slice, void *user,
                 struct stk_sample *s, struct stk_err *err)
{
    int rc = get_sample(f, k, slice, user, s, err);
    if (rc < 0) /* codecs do not know the record's position */
        stk_assemble_locate(f->ds, stk_fetch_id(f, k), rc, err);
    return rc;
}
