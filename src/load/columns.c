/*
 * columns.c - the columns of batches: determined from the first sample, filled value by value.
 *
 * A column has the layout of its first value. A value that does not fit (another shape, no such
 * field) goes into the batch's table of values, and that batch gives the column as values.
 */
#include "load/priv.h"
#include "base/buf.h"
#include "base/random.h"

#include <stdlib.h>

#define FIRST  16   /* samples tried, one after the other, until one can be read */
#define IMAGES 4096 /* samples tried to find an image: if none has one, it is a mistake */
#define LOOKS  256  /* samples tried to find a requested field */

/* ---- which columns ---- */

static bool wanted(const struct stk_loader *ld, const char *name, size_t len)
{
    const char *const *f = ld->o.fields;
    for (; f && *f; f++)
        if (strlen(*f) == len && memcmp(*f, name, len) == 0)
            return true;
    return !ld->o.fields;
}

static int32_t find_column(const struct stk_loader *ld, const char *name, size_t len)
{
    for (size_t i = 0; i < ld->ncolumns; i++)
        if (ld->column[i].name_len == len && memcmp(ld->column[i].name, name, len) == 0)
            return (int32_t)i;
    return -1;
}

static struct column *add_column(struct stk_loader *ld, const char *name, size_t len)
{
    char *copy = STK_ARRAY_MORE(ld->column, ld->ncolumns, NULL) == 0 ? malloc(len + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, name, len);
    copy[len] = '\0';
    ld->column[ld->ncolumns] = (struct column){.name = copy, .name_len = len};
    return &ld->column[ld->ncolumns++];
}

static void shape_column(struct column *c, const struct stk_value *v)
{
    c->kind = v->kind;
    c->layout = v->kind == STK_ARRAY ? STK_DENSE : v->kind == STK_LIST ? STK_VALUES : STK_SPANS;
    if (v->kind != STK_ARRAY)
        return;
    c->dtype = v->dtype;
    c->ndim = v->ndim;
    memcpy(c->dim, v->dim, sizeof c->dim);
    c->size = v->size;
}

static void shape_image(const struct stk_loader *ld, struct column *c)
{
    const struct stk_image_op *op = &ld->image;
    c->image = true;
    c->kind = STK_ARRAY;
    c->dtype = (uint8_t)op->tone.dtype;
    c->ndim = 3;
    c->layout = op->width ? STK_DENSE : STK_VALUES;
    uint64_t h = op->height, w = op->width, ch = op->channels;
    uint64_t dim[3] = {op->nchw ? ch : h, op->nchw ? h : w, op->nchw ? w : ch};
    memcpy(c->dim, dim, sizeof dim);
    c->size = stk_image_bytes(op, op->width, op->height);
}

static int columns_of_sample(struct stk_loader *ld, const struct stk_sample *s, struct stk_err *err)
{
    bool decode = ld->image.channels != 0, found = false;
    for (size_t i = 0; i < s->nfields; i++) {
        const struct stk_field *f = &s->field[i];
        if (!wanted(ld, f->name, f->name_len))
            continue;
        struct column *c = add_column(ld, f->name, f->name_len);
        if (!c)
            return stk_err_nomem(err, f->name_len);
        shape_column(c, &f->value);
        bool named = ld->image_field && strcmp(ld->image_field, c->name) == 0;
        bool first = !ld->image_field && !found && f->value.kind == STK_BYTES &&
                     stk_image_is(f->value.data, f->value.size);
        if (decode && (named || first)) {
            shape_image(ld, c);
            found = true;
        }
    }
    if (decode && !found && ld->image_field)
        return stk_err_set(err, STK_E_USAGE, ld->ds->path, -1, "there is no field '%s' to decode",
                           ld->image_field);
    if (decode && !found)
        return stk_err_set(err, STK_E_USAGE, ld->ds->path, -1,
                           "no field of the first sample holds a JPEG or PNG image");
    return 0;
}

/* True for the field of a record that its codec splits into fields with other names. */
static bool is_record(const char *name, size_t len)
{
    return (len == 6 && memcmp(name, "record", 6) == 0) ||
           (len == 3 && memcmp(name, "row", 3) == 0);
}

/* True if the codec of field i changes its bytes; "raw" does not. */
static bool is_coded(const struct stk_loader *ld, uint64_t i)
{
    const struct stk_codec *c = ld->ds->codec[i];
    return c && strcmp(c->name, "raw") != 0;
}

/* True if the examined sample has field i: then the result of its codec is known. */
static bool was_seen(const struct stk_loader *ld, uint64_t i)
{
    struct stk_buf b = STK_BUF_INIT;
    bool seen = false;
    uint64_t number = stk_dataset_at(ld->ds, ld->looked_at);
    if (stk_index_slices(&ld->ds->index, number, &b, NULL) == 0)
        for (size_t k = 0; k < b.len / sizeof(struct stk_slice); k++)
            seen = seen || ((const struct stk_slice *)(const void *)b.data)[k].field == i;
    stk_buf_release(&b);
    return seen;
}

/* The column of a field of the index; added if the first sample lacks the field. */
static int column_of_field(struct stk_loader *ld, uint64_t i, bool raw, struct stk_err *err)
{
    const char *name;
    const struct stk_index_field *f = stk_index_field(&ld->ds->index, i, &name);
    if (!f)
        return 0;
    bool coded = is_coded(ld, i);
    size_t len = f->name_len;
    struct stk_value v = {.kind = f->kind, .dtype = f->dtype, .ndim = f->ndim};
    memcpy(v.dim, f->dim, sizeof v.dim);
    v.size = (size_t)stk_value_count(&v) * stk_dtype_size(v.dtype);
    if (ld->ds->codec[i] && is_record(name, len)) {
        if (coded && !raw)
            return 0; /* the sample's fields are its columns */
        name = "data";
        len = 4;
    }
    if (coded) /* only the codec knows its layout */
        v = (struct stk_value){.kind = raw ? STK_BYTES : STK_LIST};
    if (!wanted(ld, name, len))
        return 0;
    int32_t at = find_column(ld, name, len);
    if (at < 0 && coded && !raw && was_seen(ld, i))
        return 0; /* it has another name */
    if (at < 0) {
        struct column *c = add_column(ld, name, len);
        if (!c)
            return stk_err_nomem(err, len);
        shape_column(c, &v);
        at = (int32_t)(ld->ncolumns - 1);
    }
    ld->column_of[i] = at;
    return 0;
}

/* Fields that the first sample lacks but the index knows. */
static int columns_of_index(struct stk_loader *ld, bool raw, struct stk_err *err)
{
    const struct stk_index *idx = &ld->ds->index;
    uint64_t n = stk_index_count(idx, STK_T_FIELDS);
    ld->column_of = calloc((size_t)n + 1, sizeof *ld->column_of);
    if (!ld->column_of)
        return stk_err_nomem(err, n);
    ld->simple = true;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        ld->column_of[i] = -1;
        ld->simple = ld->simple && (raw || !is_coded(ld, i));
        rc = column_of_field(ld, i, raw, err);
    }
    return rc;
}

static int label_column(struct stk_loader *ld, struct stk_err *err)
{
    if (!ld->labels || find_column(ld, "label", 5) >= 0 || !wanted(ld, "label", 5))
        return 0;
    struct column *c = add_column(ld, "label", 5);
    if (!c)
        return stk_err_nomem(err, sizeof *c);
    struct stk_value v = {.kind = STK_ARRAY, .dtype = STK_I64, .size = 8};
    shape_column(c, &v);
    c->is_label = true;
    return 0;
}

static bool sample_has(struct stk_loader *ld, uint64_t id, const char *name)
{
    struct stk_err why = {0}; /* reported when its batch is due */
    if (stk_reader_batch(ld->reader, &id, 1, &why) < 0 ||
        stk_reader_get(ld->reader, 0, &ld->sample, &why) < 0)
        return false;
    for (size_t i = 0; i < ld->sample.nfields; i++) {
        const struct stk_field *f = &ld->sample.field[i];
        if (f->name_len == strlen(name) && memcmp(f->name, name, f->name_len) == 0)
            return true;
    }
    return false;
}

/* A requested field that the first sample lacks: later records may have it. */
static bool is_elsewhere(struct stk_loader *ld, const char *name)
{
    uint64_t n = stk_dataset_len(ld->ds), looks = n < LOOKS ? n : LOOKS;
    for (uint64_t i = 0; !ld->simple && i < looks; i++)
        if (sample_has(ld, looks < n ? i * (n / looks) : i, name))
            return true;
    return false;
}

static int missing_field(struct stk_loader *ld, struct stk_err *err)
{
    for (const char *const *f = ld->o.fields; f && *f; f++) {
        if (find_column(ld, *f, strlen(*f)) >= 0)
            continue;
        if (!is_elsewhere(ld, *f))
            return stk_err_set(err, STK_E_USAGE, ld->ds->path, -1, "there is no field '%s'", *f);
        struct column *c = add_column(ld, *f, strlen(*f));
        if (!c)
            return stk_err_nomem(err, sizeof *c);
        shape_column(c, &(struct stk_value){.kind = STK_LIST}); /* values of any shape */
    }
    return 0;
}

static void forget_columns(struct stk_loader *ld)
{
    for (size_t i = 0; i < ld->ncolumns; i++)
        free(ld->column[i].name);
    ld->ncolumns = 0;
}

/* Columns from sample i. STK_E_USAGE: it can be read, but has nothing to decode. */
static int look_at_sample(struct stk_loader *ld, uint64_t i, struct stk_err *err)
{
    ld->looked_at = i;
    int rc = stk_reader_batch(ld->reader, &i, 1, err);
    if (rc == 0)
        rc = stk_reader_get(ld->reader, 0, &ld->sample, err);
    if (rc == 0)
        rc = columns_of_sample(ld, &ld->sample, err);
    if (rc < 0)
        forget_columns(ld);
    return rc;
}

/* The first readable sample determines the columns. If bad samples are passed over, tries the first
 * ones and then any, so that a bad beginning of any length is no failure. The same on every
 * rank. */
static int columns_of_samples(struct stk_loader *ld, struct stk_err *err)
{
    uint64_t n = stk_dataset_len(ld->ds), images = 0;
    uint64_t tries = ld->o.on_error == STK_ON_ERROR_STOP ? n > 0 : n <= FIRST ? n : FIRST + n;
    struct stk_perm any;
    int rc = 0, one = -1;
    stk_perm_init(&any, n, 0);
    for (uint64_t i = 0; i < tries && one < 0 && one != STK_E_NOMEM && images < IMAGES; i++) {
        struct stk_err why = {.offset = -1};
        one = look_at_sample(ld, i < FIRST ? i : stk_perm_at(&any, i - FIRST), &why);
        images += one == STK_E_USAGE;
        if (i > 0 && one < 0)
            continue; /* the first one's error counts; the others' are reported with their batches
                       */
        rc = one;
        if (rc < 0 && err)
            *err = why;
    }
    return rc;
}

int stk_columns_find(struct stk_loader *ld, struct stk_err *err)
{
    bool raw = ld->o.decode && strcmp(ld->o.decode, "raw") == 0;
    int rc = raw ? 0 : columns_of_samples(ld, err);
    if (rc == 0)
        rc = columns_of_index(ld, raw, err);
    if (rc == 0)
        rc = label_column(ld, err);
    if (rc == 0 && stk_dataset_len(ld->ds))
        rc = missing_field(ld, err);
    for (size_t i = 0; i < ld->ncolumns; i++)
        ld->views = ld->views || ld->column[i].layout != STK_DENSE;
    return rc;
}

void stk_columns_release(struct stk_loader *ld)
{
    forget_columns(ld);
    free(ld->column);
    free(ld->column_of);
}

/* ---- filling them ---- */

static void *batch_alloc(struct batch *b, size_t n)
{
    pthread_mutex_lock(&b->lock);
    void *p = stk_arena_alloc(&b->arena, n ? n : 1);
    pthread_mutex_unlock(&b->lock);
    return p;
}

/* Copies a value whose bytes do not outlive the stretch. */
static int copy_value(struct batch *b, struct stk_value *v, struct stk_err *err)
{
    void *data = batch_alloc(b, v->size);
    if (!data)
        return stk_err_nomem(err, v->size);
    if (v->size)
        memcpy(data, v->data, v->size);
    v->data = data;
    if (v->kind != STK_LIST)
        return 0;
    struct stk_value *item = batch_alloc(b, v->nitems * sizeof *item);
    if (!item)
        return stk_err_nomem(err, v->nitems * sizeof *item);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < v->nitems; i++) {
        item[i] = v->item[i];
        rc = copy_value(b, &item[i], err);
    }
    v->item = item;
    return rc;
}

/* A value that does not fit the column. */
static int put_odd(struct batch *b, struct cell *cell, uint32_t slot, const struct stk_value *v,
                   bool stable, struct stk_err *err)
{
    pthread_mutex_lock(&b->lock);
    if (!cell->value)
        cell->value = calloc(b->ld->o.batch, sizeof *cell->value);
    struct stk_value *table = cell->value;
    pthread_mutex_unlock(&b->lock);
    if (!table)
        return stk_err_nomem(err, b->ld->o.batch * sizeof *table);
    table[slot] = *v;
    cell->set[slot] = SLOT_VALUE;
    /* A codec makes the items of a list: they never last, even if the bytes do. */
    return stable && v->kind != STK_LIST ? 0 : copy_value(b, &table[slot], err);
}

static int put_image(struct worker *w, struct batch *b, uint32_t slot, size_t c,
                     const struct stk_value *v, struct stk_err *err)
{
    struct stk_loader *ld = w->ld;
    const struct column *col = &ld->column[c];
    struct cell *cell = &b->cell[c];
    /* Random choices depend on the sample and the epoch, never on the thread. */
    uint64_t key = ld->order.seed * STK_GOLDEN64 ^ b->pub.epoch * 0xd1b54a32d192ed03u ^
                   b->id[slot] * 0x8cb92ba72f3d8dd7u;
    if (v->kind != STK_BYTES)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "field '%s' is not an image", col->name);
    if (col->layout == STK_DENSE) {
        cell->set[slot] = SLOT_NATIVE;
        return stk_image_decode(w->image, v->data, v->size, &ld->image, key,
                                (uint8_t *)cell->data + slot * col->size, col->size, err);
    }
    uint32_t width, height;
    int rc = stk_image_size(w->image, v->data, v->size, &ld->image, &width, &height, err);
    if (rc < 0)
        return rc;
    uint64_t ch = ld->image.channels;
    struct stk_value out = {.kind = STK_ARRAY, .dtype = col->dtype, .ndim = 3};
    uint64_t hwc[3] = {height, width, ch}, chw[3] = {ch, height, width};
    memcpy(out.dim, ld->image.nchw ? chw : hwc, sizeof hwc);
    out.size = stk_image_bytes(&ld->image, width, height);
    void *pixels = batch_alloc(b, out.size);
    if (!pixels)
        return stk_err_nomem(err, out.size);
    out.data = pixels;
    rc = stk_image_decode(w->image, v->data, v->size, &ld->image, key, pixels, out.size, err);
    return rc < 0 ? rc : put_odd(b, cell, slot, &out, true, err);
}

static bool fits(const struct column *c, const struct stk_value *v)
{
    return v->kind == STK_ARRAY && v->dtype == c->dtype && v->ndim == c->ndim &&
           v->size == c->size && memcmp(v->dim, c->dim, v->ndim * sizeof *v->dim) == 0;
}

uint8_t *stk_column_place(const struct batch *b, uint32_t slot, uint32_t field, uint64_t length)
{
    const struct stk_loader *ld = b->ld;
    int32_t c = ld->simple ? ld->column_of[field] : -1;
    if (c < 0 || ld->column[c].layout != STK_DENSE || ld->column[c].image ||
        ld->column[c].size != length)
        return NULL;
    return (uint8_t *)b->cell[c].data + slot * ld->column[c].size;
}

int stk_column_put(struct worker *w, struct batch *b, uint32_t slot, size_t c,
                   const struct stk_value *v, bool stable, struct stk_err *err)
{
    const struct column *col = &w->ld->column[c];
    struct cell *cell = &b->cell[c];
    if (col->image)
        return put_image(w, b, slot, c, v, err);
    if (col->layout == STK_DENSE && fits(col, v)) {
        uint8_t *to = (uint8_t *)cell->data + slot * col->size;
        cell->set[slot] = SLOT_NATIVE;
        if (to == v->data) /* by load/cut.c */
            return 0;
        if (col->size == 8) /* a label: not worth a call */
            memcpy(to, v->data, 8);
        else
            memcpy(to, v->data, col->size);
        return 0;
    }
    if (col->layout != STK_SPANS || v->kind != col->kind) /* "7" is not 7, null is no text */
        return put_odd(b, cell, slot, v, stable, err);
    const void *p = v->data;
    if (!stable) {
        void *copy = batch_alloc(b, v->size);
        if (!copy)
            return stk_err_nomem(err, v->size);
        if (v->size)
            memcpy(copy, v->data, v->size);
        p = copy;
    }
    cell->set[slot] = SLOT_NATIVE;
    cell->span[slot] = (struct stk_span){.data = p, .size = v->size};
    return 0;
}

/* The batch's own column of that name; added if new. With the batch's lock held. */
static struct extra *extra_column(struct batch *b, const char *name, size_t len)
{
    for (size_t i = 0; i < b->nextra; i++)
        if (b->extra[i].name_len == len && memcmp(b->extra[i].name, name, len) == 0)
            return &b->extra[i];
    if (STK_ARRAY_ROOM(b->extra, b->cap_extra, b->nextra + 1, NULL) < 0)
        return NULL;
    struct extra *x = &b->extra[b->nextra];
    size_t table = b->ld->o.batch * sizeof *x->value;
    *x = (struct extra){.name = stk_arena_alloc(&b->arena, len + 1),
                        .name_len = len,
                        .value = stk_arena_alloc(&b->arena, table)};
    if (!x->name || !x->value)
        return NULL;
    memcpy(x->name, name, len);
    x->name[len] = '\0';
    memset(x->value, 0, table);
    b->nextra++;
    return x;
}

/* A field that the first sample lacks. */
static int put_extra(struct batch *b, uint32_t slot, const struct stk_field *f, struct stk_err *err)
{
    struct stk_value v = f->value;
    if (b->ld->o.fields) /* the names were freed, but all requested fields are columns */
        return 0;
    int rc = copy_value(b, &v, err);
    pthread_mutex_lock(&b->lock);
    struct extra *x = rc == 0 ? extra_column(b, f->name, f->name_len) : NULL;
    if (x)
        x->value[slot] = v;
    pthread_mutex_unlock(&b->lock);
    return rc < 0 || x ? rc : stk_err_nomem(err, sizeof *x);
}

int stk_columns_put(struct worker *w, struct batch *b, uint32_t slot, const struct stk_sample *s,
                    bool (*stable)(const struct worker *w, const void *p, size_t n, size_t k),
                    size_t k, struct stk_err *err)
{
    struct stk_loader *ld = w->ld;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->nfields; i++) {
        const struct stk_field *f = &s->field[i];
        /* Fields come in the same order sample after sample. */
        w->guess = w->guess + 1 < ld->ncolumns ? w->guess + 1 : 0;
        const struct column *c = ld->ncolumns ? &ld->column[w->guess] : NULL;
        if (!c || c->name_len != f->name_len || memcmp(c->name, f->name, f->name_len) != 0) {
            int32_t at = find_column(ld, f->name, f->name_len);
            if (at < 0) {
                rc = put_extra(b, slot, f, err);
                continue;
            }
            w->guess = (uint32_t)at;
        }
        rc = stk_column_put(w, b, slot, w->guess, &f->value,
                            stable(w, f->value.data, f->value.size, k), err);
    }
    return rc;
}

/* A key inside the record, if the index has none. */
static int record_key(struct stk_loader *ld, struct batch *b, const struct stk_sample *s,
                      const char **key, size_t *len, struct stk_err *err)
{
    if (*len || ld->simple || !s->key_len)
        return 0;
    *key = batch_alloc(b, s->key_len);
    if (!*key)
        return stk_err_nomem(err, s->key_len);
    memcpy((char *)(uintptr_t)*key, s->key, s->key_len);
    *len = s->key_len;
    return 0;
}

int stk_columns_put_key(struct worker *w, struct batch *b, uint32_t slot, uint64_t id,
                        struct stk_err *err)
{
    struct stk_loader *ld = w->ld;
    const char *key;
    size_t len;
    int64_t label;
    if (!b->key && !ld->labels)
        return 0;
    int rc = stk_index_key(&ld->ds->index, id, &key, &len, err);
    if (rc == 0 && b->key)
        rc = record_key(ld, b, &w->sample, &key, &len, err);
    if (rc == 0 && b->key)
        b->key[slot] = (struct stk_span){.data = key, .size = len};
    for (size_t c = ld->ncolumns; rc == 0 && c-- > 0;) {
        if (!ld->column[c].is_label)
            continue;
        rc = stk_labels_of(ld->labels, key, len, &label, err);
        if (rc > 0) {
            b->cell[c].set[slot] = SLOT_NATIVE;
            memcpy((uint8_t *)b->cell[c].data + slot * 8, &label, 8);
        }
        return rc < 0 ? rc : 0;
    }
    return rc;
}
