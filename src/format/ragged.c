/*
 * ragged.c - schemas of tables written, columns of tables read; shared by NPZ and HDF5.
 *
 * Knows nothing about either file format: they supply the arrays and where their bytes are.
 */
#include "format/ragged.h"

#include <stdio.h>
#include <stdlib.h>

const char *stk_ragged_kind_name(uint8_t kind)
{
    return kind == STK_TEXT ? "text" : kind == STK_JSON ? "json" : NULL;
}

uint8_t stk_ragged_kind_find(const char *name, size_t len)
{
    if (len == 4 && memcmp(name, "text", 4) == 0)
        return STK_TEXT;
    return len == 4 && memcmp(name, "json", 4) == 0 ? STK_JSON : STK_BYTES;
}

/* ---- the schema ---- */

void stk_schema_free(struct stk_schema *sc)
{
    if (!sc)
        return;
    for (size_t i = 0; i < sc->ncolumns; i++)
        free(sc->column[i].name);
    free(sc->column);
    free(sc);
}

static bool name_is(const struct stk_schema_column *c, const char *name, size_t len)
{
    return c->name_len == len && memcmp(c->name, name, len) == 0;
}

static bool ends_in(const char *name, size_t len, const char *suffix)
{
    size_t n = strlen(suffix);
    return len > n && memcmp(name + len - n, suffix, n) == 0;
}

static int array_column(struct stk_schema_column *c, const struct stk_value *v, const char *format,
                        struct stk_err *err)
{
    uint64_t bytes = stk_dtype_size(v->dtype);
    c->dtype = v->dtype;
    c->ndim = v->ndim;
    if (v->ndim > STK_MAX_NDIM)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "field '%s' has %u dimensions",
                           c->name, v->ndim);
    for (unsigned i = 0; i < v->ndim; i++) {
        c->dim[i] = v->dim[i];
        if (__builtin_mul_overflow(bytes, v->dim[i], &bytes))
            bytes = 0;
    }
    if (!bytes || bytes != v->size)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "field '%s' is an array without elements, which %s cannot hold", c->name,
                           format);
    c->row_bytes = (size_t)bytes;
    return 0;
}

/* Adds a column; uses only the type of v. */
static int add_column(struct stk_schema *sc, const char *name, size_t len,
                      const struct stk_value *v, const char *format, struct stk_err *err)
{
    struct stk_schema_column *c = &sc->column[sc->ncolumns];
    c->name = malloc(len + 1);
    if (!c->name)
        return stk_err_nomem(err, len + 1);
    sc->ncolumns++;
    memcpy(c->name, name, len);
    c->name[len] = '\0';
    c->name_len = len;
    c->kind = v->kind;
    if (!stk_key_is_safe_path(name, len))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "a field named '%.100s' has no place in %s", c->name, format);
    if (v->kind == STK_LIST)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "field '%s' is a list of values of differing length, which has no "
                           "place in %s; use tfrecord with --payload sequence",
                           c->name, format);
    c->ragged = v->kind != STK_ARRAY;
    return c->ragged ? 0 : array_column(c, v, format, err);
}

/* Two columns must not need the same array, nor may one be a group that contains the other. */
static int check_names(const struct stk_schema *sc, bool folders, struct stk_err *err)
{
    size_t suffix = strlen(STK_RAGGED_OFFSETS);
    for (size_t i = 0; i < sc->ncolumns; i++)
        for (size_t k = 0; k < sc->ncolumns; k++) {
            const struct stk_schema_column *a = &sc->column[i], *b = &sc->column[k];
            bool same = i < k && name_is(a, b->name, b->name_len);
            bool inside = folders && a->name_len < b->name_len && b->name[a->name_len] == '/' &&
                          memcmp(a->name, b->name, a->name_len) == 0;
            bool offsets = a->ragged && b->name_len == a->name_len + suffix &&
                           memcmp(a->name, b->name, a->name_len) == 0 &&
                           ends_in(b->name, b->name_len, STK_RAGGED_OFFSETS);
            size_t kind = strlen("." STK_RAGGED_KIND);
            offsets |= !folders && stk_ragged_kind_name(a->kind) &&
                       b->name_len == a->name_len + kind &&
                       memcmp(a->name, b->name, a->name_len) == 0 &&
                       ends_in(b->name, b->name_len, "." STK_RAGGED_KIND);
            if (inside)
                return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                                   "field '%s' would stand in a group '%s', but that is an array",
                                   b->name, a->name);
            if (same || offsets)
                return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                                   "fields '%s' and '%s' would be written as the same array",
                                   a->name, b->name);
        }
    return 0;
}

int stk_schema_new(const struct stk_sample *first, const char *format, bool folders,
                   struct stk_schema **out, struct stk_err *err)
{
    static const struct stk_value key = {.kind = STK_TEXT};
    struct stk_schema *sc = calloc(1, sizeof *sc);
    if (!sc || !(sc->column = calloc(first->nfields + 1, sizeof *sc->column))) {
        free(sc);
        return stk_err_nomem(err, sizeof *sc);
    }
    int rc = 0;
    sc->has_key = first->key_len > 0;
    if (sc->has_key)
        rc = add_column(sc, "key", 3, &key, format, err);
    for (size_t i = 0; rc == 0 && i < first->nfields; i++) {
        const struct stk_field *f = &first->field[i];
        rc = add_column(sc, f->name, f->name_len, &f->value, format, err);
    }
    if (rc == 0 && !first->nfields)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "the first sample has no fields");
    if (rc == 0)
        rc = check_names(sc, folders, err);
    if (rc < 0)
        stk_schema_free(sc);
    else
        *out = sc;
    return rc;
}

/* ---- a sample against the schema ---- */

/* Fields are mostly in the order of the first sample; names decide. */
static const struct stk_value *value_of(const struct stk_schema_column *c,
                                        const struct stk_sample *s, size_t guess)
{
    if (guess < s->nfields && name_is(c, s->field[guess].name, s->field[guess].name_len))
        return &s->field[guess].value;
    for (size_t i = 0; i < s->nfields; i++)
        if (name_is(c, s->field[i].name, s->field[i].name_len))
            return &s->field[i].value;
    return NULL;
}

/* "float32 (3, 4)" */
static void shape_text(char *to, size_t n, uint8_t dtype, uint8_t ndim, const uint64_t *dim)
{
    int at = snprintf(to, n, "%s (", stk_dtype_name(dtype));
    for (unsigned i = 0; i < ndim && at > 0 && (size_t)at < n; i++)
        at += snprintf(to + at, n - (size_t)at, i ? ", %llu" : "%llu", (unsigned long long)dim[i]);
    if (at > 0 && (size_t)at < n)
        snprintf(to + at, n - (size_t)at, ")");
}

static int misfit(const struct stk_schema_column *c, const struct stk_value *v, struct stk_err *err)
{
    char here[160], first[160];
    if (v->kind == STK_ARRAY)
        shape_text(here, sizeof here, v->dtype, v->ndim, v->dim);
    else
        snprintf(here, sizeof here, "%s", stk_kind_name(v->kind));
    if (c->kind == STK_ARRAY)
        shape_text(first, sizeof first, c->dtype, c->ndim, c->dim);
    else
        snprintf(first, sizeof first, "%s", stk_kind_name(c->kind));
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "field '%s' is %s here but %s in the first sample; all must be alike",
                       c->name, here, first);
}

/* JSON and CSV write 3 for 3.0: converts between integers and floats if no value changes. */
static int put_converted(const struct stk_schema_column *c, const struct stk_value *v,
                         struct stk_buf *out, struct stk_err *err)
{
    uint64_t n = stk_value_count(v);
    for (uint64_t i = 0; i < n; i++) {
        int64_t whole;
        double real;
        if (c->dtype == STK_F64) {
            whole = stk_value_i64(v, i);
            real = (double)whole;
            if (whole > (1ll << 53) || whole < -(1ll << 53))
                return misfit(c, v, err);
            stk_buf_put(out, &real, sizeof real);
        } else {
            real = stk_value_f64(v, i);
            if (!(real >= -9e15 && real <= 9e15) || (double)(int64_t)real != real)
                return misfit(c, v, err);
            whole = (int64_t)real;
            stk_buf_put(out, &whole, sizeof whole);
        }
    }
    return 0;
}

static int put_array(const struct stk_schema_column *c, const struct stk_value *v,
                     struct stk_buf *out, struct stk_err *err)
{
    if (v->ndim != c->ndim || memcmp(v->dim, c->dim, c->ndim * sizeof *c->dim) != 0)
        return misfit(c, v, err);
    if (v->dtype == c->dtype) {
        if (v->size != c->row_bytes)
            return misfit(c, v, err);
        stk_buf_put(out, v->data, v->size);
        return 0;
    }
    if ((c->dtype == STK_F64 && v->dtype == STK_I64) ||
        (c->dtype == STK_I64 && v->dtype == STK_F64))
        return put_converted(c, v, out, err);
    return misfit(c, v, err);
}

static void put_ragged(struct stk_buf *out, const void *p, size_t n)
{
    uint8_t len[8];
    stk_put_le64(len, n);
    stk_buf_put(out, len, sizeof len);
    stk_buf_put(out, p, n);
}

static int put_cell(const struct stk_schema_column *c, const struct stk_value *v,
                    struct stk_buf *out, struct stk_err *err)
{
    if (!c->ragged)
        return v->kind == STK_ARRAY ? put_array(c, v, out, err) : misfit(c, v, err);
    /* Text can be bytes, but not vice versa. */
    if (v->kind != c->kind && !(c->kind == STK_BYTES && v->kind == STK_TEXT))
        return misfit(c, v, err);
    /* It would be read back as bytes. */
    if (c->kind == STK_TEXT && !stk_is_text((const uint8_t *)v->data, v->size))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "field '%s' is not UTF-8 without NUL, as text in an array must be; use "
                           "jsonl or tfrecord",
                           c->name);
    put_ragged(out, v->data, v->size);
    return 0;
}

int stk_schema_encode(const struct stk_schema *sc, const struct stk_sample *s, struct stk_buf *out,
                      struct stk_err *err)
{
    size_t begin = sc->has_key, matched = 0;
    if (sc->has_key)
        put_ragged(out, s->key, s->key_len);
    for (size_t i = begin; i < sc->ncolumns; i++) {
        const struct stk_schema_column *c = &sc->column[i];
        const struct stk_value *v = value_of(c, s, i - begin);
        if (!v)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "field '%s' of the first sample is missing here; all must have "
                               "the same fields",
                               c->name);
        matched++;
        int rc = put_cell(c, v, out, err);
        if (rc < 0)
            return rc;
    }
    if (matched != s->nfields)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "%zu fields here but %zu in the first sample; all must have the same "
                           "fields",
                           s->nfields, sc->ncolumns - begin);
    return stk_buf_check(out, err);
}

int stk_schema_decode(const struct stk_schema *sc, const uint8_t *p, size_t n,
                      struct stk_cell *cell, size_t *used, struct stk_err *err)
{
    size_t at = 0;
    for (size_t i = 0; i < sc->ncolumns; i++) {
        uint64_t size = sc->column[i].row_bytes;
        if (sc->column[i].ragged) {
            if (n - at < 8)
                return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "an encoded sample is cut off");
            size = stk_le64(p + at);
            at += 8;
        }
        if (n - at < size)
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "an encoded sample is cut off");
        cell[i] = (struct stk_cell){.data = p + at, .size = (size_t)size};
        at += (size_t)size;
    }
    *used = at;
    return 0;
}

/* ---- which arrays are columns ---- */

static bool is_bytes_of_ragged(const struct stk_table_array *a)
{
    return a->kind == STK_ARRAY && a->dtype == STK_U8 && a->ndim == 1;
}

static bool is_offsets(const struct stk_table_array *a)
{
    return a->kind == STK_ARRAY && (a->dtype == STK_U64 || a->dtype == STK_I64) && a->ndim == 1 &&
           a->dim[0] > 0 && ends_in(a->name, a->name_len, STK_RAGGED_OFFSETS);
}

static int by_name(const void *x, const void *y)
{
    const struct stk_table_array *const *a = x, *const *b = y;
    size_t n = (*a)->name_len < (*b)->name_len ? (*a)->name_len : (*b)->name_len;
    int d = memcmp((*a)->name, (*b)->name, n);
    return d ? d : ((*a)->name_len > (*b)->name_len) - ((*a)->name_len < (*b)->name_len);
}

/* Pairs every X with its X.offsets. Without memory for the sorted view nothing is ragged. */
static void find_pairs(struct stk_table_array *a, size_t n)
{
    struct stk_table_array **sorted = malloc(n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
        a[i].pair = SIZE_MAX;
        a[i].column = a[i].is_key = false;
        if (sorted)
            sorted[i] = &a[i];
    }
    if (!sorted)
        return;
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; i < n; i++) {
        if (!is_offsets(&a[i]))
            continue;
        struct stk_table_array base = {.name = a[i].name,
                                       .name_len = a[i].name_len - strlen(STK_RAGGED_OFFSETS)};
        struct stk_table_array *want = &base, **hit;
        hit = bsearch(&want, sorted, n, sizeof *sorted, by_name);
        if (hit && is_bytes_of_ragged(*hit))
            (*hit)->pair = i;
    }
    free(sorted);
}

/* What the arrays of one length say together. */
struct vote {
    uint64_t length, votes;
    double bytes, cells;
    bool flat; /* all have one dimension */
};

static int by_length(const void *x, const void *y)
{
    const struct vote *a = x, *b = y;
    return (a->length > b->length) - (a->length < b->length);
}

/* The number of samples by an array; UINT64_MAX: not a column, or the offsets of a pair. */
static uint64_t length_of(const struct stk_table_array *a, size_t i, const bool *is_pair_offsets)
{
    if (!a[i].ndim || a[i].skip || is_pair_offsets[i])
        return UINT64_MAX;
    return a[i].pair == SIZE_MAX ? a[i].dim[0] : a[a[i].pair].dim[0] - 1;
}

/* The number of elements. */
static double cells_of(const struct stk_table_array *a)
{
    double n = 1;
    for (unsigned i = 0; i < a->ndim && i <= STK_MAX_NDIM; i++)
        n *= (double)a->dim[i];
    return n;
}

#define ALONE 64 /* an array weighs so much less if no other one has its length */
#define SMALL 4  /* lengths of so much less weight than the heaviest do not count */

/* Statistics, names of classes and other metadata may be more arrays than the data, but the data is
 * large, and its arrays share their length. Flat arrays as long as a later dimension of the
 * largest array describe that dimension: the means of all columns. */
static double weight_of(const struct vote *v, const struct stk_table_array *largest)
{
    for (unsigned i = 1; v->flat && i < largest->ndim && i <= STK_MAX_NDIM; i++)
        if (largest->dim[i] == v->length && largest->dim[0] != v->length)
            return 0;
    return v->votes > 1 && v->length > 1 ? v->cells * ALONE : v->cells;
}

/* True if the longer of two lengths wins. Many writers store single values as arrays of one row:
 * against those the bytes alone count. */
static bool wins(const struct vote *longer, const struct vote *best)
{
    bool tie = longer->votes == best->votes || best->length <= 1;
    return longer->votes > best->votes || (tie && longer->bytes >= best->bytes);
}

static uint64_t count_votes(struct vote *v, size_t n, const struct stk_table_array *largest)
{
    const struct vote *best = NULL;
    double heaviest = 0;
    size_t groups = 0;
    qsort(v, n, sizeof *v, by_length);
    for (size_t i = 0; i < n; groups++) {
        struct vote sum = v[i];
        for (i++; i < n && v[i].length == sum.length; i++) {
            sum.votes += v[i].votes;
            sum.bytes += v[i].bytes;
            sum.cells += v[i].cells;
            sum.flat &= v[i].flat;
        }
        v[groups] = sum;
        double weight = weight_of(&sum, largest);
        heaviest = weight > heaviest ? weight : heaviest;
    }
    for (size_t i = 0; i < groups; i++) /* lengths ascend */
        if (weight_of(&v[i], largest) * SMALL >= heaviest && (!best || wins(&v[i], best)))
            best = &v[i];
    return best ? best->length : 0;
}

/* True for the arrays that are X.offsets of an X; NULL: no memory. */
static bool *pair_offsets(const struct stk_table_array *a, size_t n)
{
    bool *is = calloc(n ? n : 1, 1);
    for (size_t i = 0; is && i < n; i++)
        if (a[i].pair != SIZE_MAX)
            is[a[i].pair] = true;
    return is;
}

static void mark_columns(struct stk_table_array *a, size_t n, const bool *is_pair_offsets,
                         uint64_t count)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t length = length_of(a, i, is_pair_offsets);
        bool other = length != UINT64_MAX && a[i].other && a[i].other == count;
        a[i].column = length == count || other;
        a[i].skip |= is_pair_offsets[i];
        bool variable = a[i].pair != SIZE_MAX || a[i].kind != STK_ARRAY;
        a[i].is_key =
            a[i].column && variable && a[i].name_len == 3 && memcmp(a[i].name, "key", 3) == 0;
    }
}

void stk_table_choose_rows(struct stk_table_array *a, size_t n, uint64_t count)
{
    find_pairs(a, n);
    bool *is_pair_offsets = pair_offsets(a, n);
    if (is_pair_offsets)
        mark_columns(a, n, is_pair_offsets, count);
    free(is_pair_offsets);
}

uint64_t stk_table_choose(struct stk_table_array *a, size_t n)
{
    find_pairs(a, n);
    struct vote *v = calloc(2 * n + 1, sizeof *v);
    bool *is_pair_offsets = pair_offsets(a, n);
    uint64_t count = 0;
    size_t nvotes = 0, largest = 0;
    for (size_t i = 0; v && is_pair_offsets && i < n; i++) {
        uint64_t length = length_of(a, i, is_pair_offsets);
        if (length == UINT64_MAX)
            continue;
        struct vote one = {length, 1, (double)a[i].bytes, cells_of(&a[i]), a[i].ndim == 1};
        largest = !nvotes || one.cells > cells_of(&a[largest]) ? i : largest;
        v[nvotes++] = one;
        one.length = a[i].other;
        if (a[i].other && a[i].other != length)
            v[nvotes++] = one;
    }
    if (nvotes) {
        count = count_votes(v, nvotes, &a[largest]);
        mark_columns(a, n, is_pair_offsets, count);
    }
    free(v);
    free(is_pair_offsets);
    return count;
}

/* ---- listing ---- */

#define KEY_MAX (64u << 10) /* longer than any path; a longer one is damage */

struct listing {
    struct stk_lister *l;
    struct stk_table_column *column;
    size_t ncolumns;
    uint64_t count;
    const char *path;
    struct stk_buf key;
};

/* The bounds of a row, as stored. */
static int read_bounds(struct listing *t, struct stk_table_column *c, uint64_t row,
                         uint64_t *from, uint64_t *to, struct stk_err *err)
{
    if (!c->window) {
        c->window = malloc((STK_TABLE_WINDOW + 1) * sizeof *c->window);
        if (!c->window)
            return stk_err_nomem(err, STK_TABLE_WINDOW * sizeof *c->window);
        c->window_len = 0;
    }
    if (row < c->window_first || row + 1 >= c->window_first + c->window_len) {
        uint64_t left = t->count + 1 - row;
        uint64_t n = left < STK_TABLE_WINDOW + 1 ? left : STK_TABLE_WINDOW + 1;
        c->window_len = 0;
        int rc = c->read_offsets(c->read_offsets_user, row * 8, c->window, (size_t)n * 8, err);
        if (rc < 0)
            return rc;
        c->window_first = row;
        c->window_len = n;
    }
    *from = stk_le64(&c->window[row - c->window_first]);
    *to = stk_le64(&c->window[row + 1 - c->window_first]);
    return 0;
}

/* The bounds of a row in *from and *to. 1: damaged and reported. */
static int ragged_bounds(struct listing *t, struct stk_table_column *c, uint64_t row,
                         uint64_t *from, uint64_t *to, struct stk_err *err)
{
    int rc = read_bounds(t, c, row, from, to, err);
    if (rc < 0 || (*from <= *to && *to <= c->data_bytes))
        return rc;
    rc = stk_list_problem(
        t->l, -1, err, "sample %llu: offsets %llu..%llu of '%.*s' are not in its %llu bytes",
        (unsigned long long)row, (unsigned long long)*from, (unsigned long long)*to,
        (int)c->spec.name_len, c->spec.name, (unsigned long long)c->data_bytes);
    return rc < 0 ? rc : 1;
}

static int key_of(struct listing *t, struct stk_table_column *c, uint64_t row, const char **key,
                  size_t *len, struct stk_err *err)
{
    if (c->how == STK_TABLE_OTHER)
        return c->key(c->user, row, key, len, err);
    uint64_t from, to;
    int rc = ragged_bounds(t, c, row, &from, &to, err);
    if (rc != 0)
        return rc;
    if (to - from > KEY_MAX) {
        rc = stk_list_problem(t->l, -1, err, "sample %llu: a key of %llu bytes",
                              (unsigned long long)row, (unsigned long long)(to - from));
        return rc < 0 ? rc : 1;
    }
    stk_buf_reset(&t->key);
    *len = (size_t)(to - from);
    char *room = stk_buf_room(&t->key, *len + 1);
    if (!room)
        return stk_err_nomem(err, *len + 1);
    *key = room;
    return *len ? c->read_data(c->read_data_user, from, room, *len, err) : 0;
}

static int list_uniform(struct stk_lister *l, const struct stk_table_column *c, uint64_t row,
                        struct stk_err *err)
{
    const struct stk_stripe *p = &c->place;
    uint64_t tiles = p->tiles ? p->tiles : 1;
    int64_t first = p->first_extent + (int64_t)(row / p->per_extent * tiles);
    int rc = 0;
    for (uint64_t t = 0; rc == 0 && t < tiles; t++)
        rc = stk_list_part(l, p->field, first + (int64_t)t,
                           p->base + row % p->per_extent * p->stride, p->length, err);
    return rc;
}

/* The bytes [from, to) of X, one part per extent. */
static int list_ragged(struct stk_lister *l, const struct stk_table_column *c, uint64_t from,
                       uint64_t to, struct stk_err *err)
{
    const struct stk_stripe *p = &c->place;
    int rc = 0;
    do {
        uint64_t within = from % p->per_extent, n = p->per_extent - within;
        n = n < to - from ? n : to - from;
        /* An empty value at the very end would refer to an extent that does not exist. */
        uint64_t extent = n ? from / p->per_extent : 0;
        rc = stk_list_part(l, p->field, p->first_extent + (int64_t)extent, n ? p->base + within : 0,
                           n, err);
        from += n;
    } while (rc == 0 && from < to);
    return rc;
}

/* All checks that may leave the sample out happen before it begins. */
static int locate_row(struct listing *t, uint64_t row, const char **key, size_t *key_len,
                      struct stk_err *err)
{
    for (size_t i = 0; i < t->ncolumns; i++) {
        struct stk_table_column *c = &t->column[i];
        uint64_t from, to;
        int rc = c->locate ? c->locate(c->user, t->l, row, err) : 0;
        if (rc == 0 && c->is_key)
            rc = key_of(t, c, row, key, key_len, err);
        else if (rc == 0 && c->how == STK_TABLE_RAGGED)
            rc = ragged_bounds(t, c, row, &from, &to, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int list_row(struct listing *t, uint64_t row, struct stk_err *err)
{
    const char *key = NULL;
    size_t key_len = 0;
    int rc = locate_row(t, row, &key, &key_len, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = stk_list_sample(t->l, key, key_len, err);
    for (size_t i = 0; rc == 0 && i < t->ncolumns; i++) {
        struct stk_table_column *c = &t->column[i];
        uint64_t from, to;
        if (c->is_key)
            continue;
        if (c->how == STK_TABLE_UNIFORM)
            rc = list_uniform(t->l, c, row, err);
        else if (c->how == STK_TABLE_OTHER)
            rc = c->parts(c->user, t->l, c->place.field, row, err);
        else if ((rc = ragged_bounds(t, c, row, &from, &to, err)) == 0)
            rc = list_ragged(t->l, c, from, to, err);
    }
    return rc;
}

/* Whether every row has a key: a row without one is left out, and no row of columns can be. */
static bool keys_are_sound(struct listing *t, struct stk_table_column *c)
{
    bool sound = c->how == STK_TABLE_RAGGED;
    for (uint64_t row = 0, from, to; sound && row < t->count; row++)
        sound = read_bounds(t, c, row, &from, &to, NULL) == 0 && from <= to &&
                to <= c->data_bytes && to - from <= KEY_MAX;
    return sound;
}

/* Columns at computable places: nothing is listed per row but its key, if there are keys. */
static int list_columns(struct listing *t, struct stk_table_column *keys, struct stk_err *err)
{
    int rc = 0;
    const char *key;
    size_t len;
    for (size_t i = 0; rc == 0 && i < t->ncolumns; i++)
        if (!t->column[i].is_key)
            rc = stk_list_column(t->l, &t->column[i].place, t->count, err);
    for (uint64_t row = 0; keys && rc == 0 && row < t->count; row++) {
        rc = key_of(t, keys, row, &key, &len, err);
        rc = rc == 0 ? stk_list_key(t->l, key, len, err) : rc;
    }
    return rc < 0 ? rc : 0;
}

static int list_table(struct listing *t, struct stk_err *err)
{
    struct stk_table_column *keys = NULL;
    bool uniform = true;
    for (size_t i = 0; i < t->ncolumns; i++) {
        struct stk_table_column *c = &t->column[i];
        keys = c->is_key ? c : keys;
        uniform &= c->is_key || (c->how == STK_TABLE_UNIFORM && !c->locate);
        if (c->is_key)
            continue;
        int field = stk_list_field(t->l, &c->spec, err);
        if (field < 0)
            return field;
        c->place.field = field;
    }
    if (uniform && (!keys || (t->ncolumns > 1 && keys_are_sound(t, keys))))
        return list_columns(t, keys, err);
    int rc = 0;
    for (uint64_t row = 0; rc == 0 && row < t->count; row++)
        rc = list_row(t, row, err);
    return rc;
}

int stk_table_list(struct stk_lister *l, struct stk_table_column *column, size_t ncolumns,
                   uint64_t count, const char *path, struct stk_err *err)
{
    struct listing t = {
        .l = l, .column = column, .ncolumns = ncolumns, .count = count, .path = path};
    for (size_t i = 0; i < ncolumns; i++)
        column[i].window = NULL;
    int rc = list_table(&t, err);
    for (size_t i = 0; i < ncolumns; i++) {
        free(column[i].window);
        column[i].window = NULL;
    }
    stk_buf_release(&t.key);
    return rc;
}
