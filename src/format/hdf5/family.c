/*
 * family.c - HDF5 files in which every sample has its own dataset (images/00000, images/00001,
 * ...) or group (demo_0/action, demo_0/image, demo_1/action, ...).
 *
 * A family is datasets whose names differ only by a number. Unlike numbered columns (x1, x2) they
 * have names that are only numbers, or different lengths, or another dataset has one row for each
 * of them, or they are more than a table has columns.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/hash.h"

#define MAX_DIGITS 18

/* A dataset's name split at its number. */
struct numbered {
    size_t set;
    const char *name;
    size_t stem;      /* bytes before the number */
    const char *rest; /* behind it */
    bool pure;        /* the path component is only the number */
    uint64_t number;
};

/* Splits at the first path component that ends in a number (ignoring a suffix such as .jpg). */
static bool take_apart(const char *name, struct numbered *x)
{
    for (const char *part = name; part; part = strchr(part, '/'), part = part ? part + 1 : NULL) {
        size_t len = strcspn(part, "/"), digits = 0;
        const char *dot = memrchr(part, '.', len);
        size_t end =
            dot && dot > part && isdigit((unsigned char)dot[-1]) ? (size_t)(dot - part) : len;
        while (digits < end && isdigit((unsigned char)part[end - 1 - digits]))
            digits++;
        if (!digits || digits > MAX_DIGITS)
            continue;
        x->name = name;
        x->stem = (size_t)(part - name) + end - digits;
        x->rest = part + end;
        x->pure = digits == end;
        x->number = strtoull(part + end - digits, NULL, 10);
        return true;
    }
    return false;
}

static int by_family(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    size_t n = x->stem < y->stem ? x->stem : y->stem;
    int c = memcmp(x->name, y->name, n);
    c = c ? c : (x->stem > y->stem) - (x->stem < y->stem);
    c = c ? c : strcmp(x->rest, y->rest);
    c = c ? c : (x->number > y->number) - (x->number < y->number);
    return c ? c : strcmp(x->name, y->name);
}

static bool of_one_family(const struct numbered *x, const struct numbered *y)
{
    return x->stem == y->stem && memcmp(x->name, y->name, x->stem) == 0 &&
           strcmp(x->rest, y->rest) == 0;
}

/* ---- which series of names are families ---- */

struct series {
    const struct numbered *x;
    size_t n;
    bool alike, varies; /* of one type and rank; of several shapes */
    bool lengths_differ;
};

static bool same_type(const struct stk_h5_dataset *a, const struct stk_h5_dataset *b)
{
    const struct stk_h5_type *s = &a->type, *t = &b->type;
    return a->rank == b->rank && !a->whole && !b->whole && s->what == t->what &&
           s->dtype == t->dtype && s->ndims == t->ndims &&
           memcmp(s->dim, t->dim, s->ndims * sizeof *s->dim) == 0;
}

static struct series series_at(const struct stk_h5_dataset *set, const struct numbered *x, size_t n)
{
    struct series r = {.x = x, .n = 1, .alike = true};
    const struct stk_h5_dataset *first = &set[x->set];
    for (; r.n < n && of_one_family(x, &x[r.n]); r.n++) {
        const struct stk_h5_dataset *d = &set[x[r.n].set];
        r.alike &= same_type(first, d) && x[r.n].number != x[r.n - 1].number;
        r.varies |= memcmp(first->dim, d->dim, first->rank * sizeof *d->dim) != 0;
        r.lengths_differ |= first->rank && first->dim[0] != d->dim[0];
    }
    return r;
}

/* True if another dataset has a row for each of them that their own rows do not explain. */
static bool has_labels(const struct stk_h5_dataset *set, size_t n, const bool *in_series,
                       const struct series *r)
{
    const struct stk_h5_dataset *first = &set[r->x->set];
    if (first->rank && first->dim[0] == r->n && !r->lengths_differ)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!in_series[i] && set[i].rank && set[i].dim[0] == r->n)
            return true;
    return false;
}

/* A text is one value; a sample cannot have an array of texts. */
static bool can_be_value(const struct stk_h5_dataset *d)
{
    bool text = d->type.what == STK_H5_STRING || d->type.what == STK_H5_VARIABLE;
    return !text || !d->rank;
}

static bool is_family(const struct stk_h5_dataset *set, size_t n, const bool *numbered,
                      const struct series *r)
{
    bool groups = strchr(r->x->rest, '/') != NULL;
    if (!r->alike || r->n < 2 || !can_be_value(&set[r->x->set]))
        return false;
    return r->n > STK_H5_MAX_COLUMNS || has_labels(set, n, numbered, r) ||
           (r->n > 2 && (r->x->pure || groups || r->lengths_differ));
}

/* ---- making them ---- */

/* "images/#" is `images`, "demo_#/x" is `x`, "#" is `data`. */
static char *family_name(const struct series *r)
{
    size_t n = r->x->stem;
    const char *slash = strchr(r->x->rest, '/');
    if (slash)
        return strdup(slash + 1);
    while (n && strchr("/_-.", r->x->name[n - 1]))
        n--;
    return n ? strndup(r->x->name, n) : strdup("data");
}

static bool same_numbers(const struct series *r, const struct stk_h5_family *f)
{
    for (size_t i = 0; r->n == f->n && i < f->n; i++)
        if (r->x[i].number != f->number[i])
            return false;
    return r->n == f->n;
}

static int add_family(struct stk_h5_families *fs, const struct series *r, struct stk_err *err)
{
    if (STK_ARRAY_MORE(fs->item, fs->n, err))
        return STK_E_NOMEM;
    struct stk_h5_family *f = &fs->item[fs->n];
    *f = (struct stk_h5_family){.n = r->n, .varies = r->varies};
    f->name = family_name(r);
    f->member = calloc(r->n, sizeof *f->member);
    f->number = calloc(r->n, sizeof *f->number);
    fs->n++;
    if (!f->name || !f->member || !f->number)
        return stk_err_nomem(err, r->n * sizeof *f->member);
    for (size_t i = 0; i < r->n; i++) {
        f->member[i] = r->x[i].set;
        f->number[i] = r->x[i].number;
    }
    return 0;
}

void stk_h5_families_release(struct stk_h5_families *fs)
{
    for (size_t i = 0; i < fs->n; i++) {
        free(fs->item[i].name);
        free(fs->item[i].member);
        free(fs->item[i].number);
    }
    free(fs->item);
    *fs = (struct stk_h5_families){0};
}

/* The family with the most members; the first of equals. */
static struct series largest(const struct stk_h5_dataset *set, size_t nset, const bool *is_numbered,
                             const struct numbered *x, size_t n)
{
    struct series best = {0};
    for (size_t i = 0; i < n;) {
        struct series r = series_at(set, x + i, n - i);
        if (r.n > best.n && is_family(set, nset, is_numbered, &r))
            best = r;
        i += r.n;
    }
    return best;
}

int stk_h5_families(const struct stk_h5_dataset *set, const struct stk_table_array *a, size_t nset,
                    struct stk_h5_families *fs, struct stk_err *err)
{
    struct numbered *x = calloc(nset + 1, sizeof *x);
    bool *is_numbered = calloc(nset + 1, 1);
    size_t n = 0;
    int rc = x && is_numbered ? 0 : stk_err_nomem(err, nset * sizeof *x);
    for (size_t i = 0; rc == 0 && i < nset; i++)
        if (!a[i].skip && take_apart(set[i].name, &x[n])) {
            is_numbered[i] = true;
            x[n++].set = i;
        }
    if (rc == 0 && n)
        qsort(x, n, sizeof *x, by_family);
    struct series best = {0};
    if (rc == 0)
        best = largest(set, nset, is_numbered, x, n);
    if (best.n)
        rc = add_family(fs, &best, err);
    for (size_t i = 0; rc == 0 && best.n && i < n && fs->n < STK_H5_MAX_COLUMNS;) {
        struct series r = series_at(set, x + i, n - i);
        if (r.x != best.x && r.alike && same_numbers(&r, &fs->item[0]))
            rc = add_family(fs, &r, err);
        i += r.n;
    }
    free(x);
    free(is_numbered);
    return rc;
}

/* ---- one as a column ---- */

/* Fields of one name and several shapes need distinct specs (format/codec/chars.c). */
static void name_shape(struct stk_h5_family_column *f, struct stk_field_spec *spec)
{
    static const char digit[] = "0123456789abcdefghijklmnopqrstuvwxyz", prefix[] = "shape:";
    const size_t end = sizeof f->codec - 1;
    uint64_t h = stk_hash64(spec->dim, spec->ndim * sizeof *spec->dim);
    memcpy(f->codec, prefix, sizeof prefix - 1);
    for (size_t at = sizeof prefix - 1; at < end; at++, h /= 36)
        f->codec[at] = digit[h % 36];
    f->codec[end] = '\0';
    spec->codec = f->codec;
}

static int open_cell(struct stk_h5_family_column *f, struct stk_lister *l,
                     const struct stk_h5_dataset *d, struct stk_err *err)
{
    struct stk_h5_column *c = &f->column;
    hid_t ds = stk_h5.Dopen2(f->h5, d->path, H5P_DEFAULT);
    if (ds < 0)
        return stk_h5_failed(stk_src_path(f->file->src), "open a dataset", err);
    c->set = d;
    c->no_tiles = f->family->varies;
    bool text = d->type.what == STK_H5_STRING || d->type.what == STK_H5_VARIABLE;
    int rc = stk_h5_store_init(&c->store, f->file, ds, d->name, &d->type, err);
    if (rc == 0)
        rc = stk_h5_packing(ds, &d->type, &c->packing, err);
    if (rc == 0 && !text && d->rank)
        rc = stk_h5_store_wrap(&c->store, err);
    stk_h5.Dclose(ds);
    if (rc < 0)
        return rc;
    c->first_extent = stk_h5_store_list(&c->store, l, err);
    if (c->first_extent < 0)
        return (int)c->first_extent;
    if (!text)
        return stk_h5_rows_column(c, l, &f->cell, err);
    if (d->rank)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "several strings in a sample");
    rc = stk_h5_text_column(c, l, 1, &f->cell, err);
    return rc < 0 || !f->cell.locate ? rc : f->cell.locate(f->cell.user, l, 0, err);
}

static void describe_cell(struct stk_h5_family_column *f, const struct stk_h5_dataset *d)
{
    struct stk_field_spec *spec = &f->cell.spec;
    spec->name = f->family->name;
    spec->name_len = strlen(f->family->name);
    if (!f->family->varies || spec->kind != STK_ARRAY || f->column.packing.packed)
        return; /* the codec of packed numbers distinguishes shapes, too */
    if (d->type.dtype == STK_U8 && spec->ndim == 1) /* files and the like, not vectors */
        *spec = (struct stk_field_spec){
            .name = spec->name, .name_len = spec->name_len, .kind = STK_BYTES};
    else
        name_shape(f, spec);
}

static int locate(void *user, struct stk_lister *l, uint64_t row, struct stk_err *err)
{
    struct stk_h5_family_column *f = user;
    const struct stk_h5_dataset *d = &f->set[f->family->member[row]];
    struct stk_err why = {.offset = -1};
    stk_h5_column_release(&f->column);
    f->cell = (struct stk_table_column){0};
    int rc = open_cell(f, l, d, &why);
    if (rc == 0)
        describe_cell(f, d);
    if (rc == STK_E_UNSUPPORTED) {
        rc = stk_list_left_out(l, "sample", d->name, why.what, err);
        return rc < 0 ? rc : 1;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int parts(void *user, struct stk_lister *l, int field, uint64_t row, struct stk_err *err)
{
    struct stk_h5_family_column *f = user;
    const struct stk_stripe *p = &f->cell.place;
    (void)row;
    field = stk_list_field(l, &f->cell.spec, err);
    int rc = field < 0 ? field : 0;
    if (f->cell.how != STK_TABLE_UNIFORM)
        return rc < 0 ? rc : f->cell.parts(f->cell.user, l, field, 0, err);
    for (uint64_t t = 0; rc == 0 && t < (p->tiles ? p->tiles : 1); t++)
        rc = stk_list_part(l, field, p->first_extent + (int64_t)t, p->base, p->length, err);
    return rc;
}

/* The number as it is written: 00017. */
static int key(void *user, uint64_t row, const char **text, size_t *len, struct stk_err *err)
{
    (void)err;
    struct stk_h5_family_column *f = user;
    struct numbered x = {0};
    const char *name = f->set[f->family->member[row]].name;
    (void)take_apart(name, &x);
    const char *from = name + x.stem;
    while (from > name && from[-1] != '/')
        from--;
    *text = from;
    *len = (size_t)(x.rest - from);
    return 0;
}

void stk_h5_family_key(struct stk_h5_family_column *f, struct stk_table_column *out)
{
    *out = (struct stk_table_column){.how = STK_TABLE_OTHER, .is_key = true, .key = key, .user = f};
}

int stk_h5_family_start(struct stk_h5_family_column *f, struct stk_lister *l,
                        struct stk_table_column *out, struct stk_err *err)
{
    /* The first readable dataset determines the field. */
    int rc = 1;
    for (uint64_t row = 0; rc > 0 && row < f->family->n && row < 64; row++)
        rc = locate(f, l, row, err);
    *out = (struct stk_table_column){
        .spec = f->cell.spec, .how = STK_TABLE_OTHER, .locate = locate, .parts = parts, .user = f};
    if (out->spec.codec) { /* the next row overwrites its own */
        snprintf(f->first_codec, sizeof f->first_codec, "%s", out->spec.codec);
        out->spec.codec = f->first_codec;
    }
    return rc;
}
#else
typedef int stk_no_hdf5_family; /* a file must declare something */
#endif
