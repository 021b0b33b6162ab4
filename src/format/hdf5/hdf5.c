/*
 * hdf5.c - HDF5: finds the datasets of a file and lists where the bytes of each sample are.
 *
 * libhdf5 finds the datasets (in a child process: jail.h), format/hdf5/raw.c and
 * format/hdf5/chunks.c their storage, format/hdf5/rows.c and format/hdf5/text.c the samples in
 * them. Data is never read through libhdf5. format/hdf5/write.c writes.
 */
#include "format_code.h"
#include "format/format.h"

static const char *const suffixes[] = {".h5", ".hdf5", ".he5", NULL};

/* The signature is at 0, or after a user block of 512 bytes times a power of 2. */
static int bid(const struct stk_probe *p)
{
    static const uint8_t signature[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    for (size_t at = 0; at + sizeof signature <= p->head_len; at = at ? at * 2 : 512)
        if (memcmp(p->head + at, signature, sizeof signature) == 0)
            return at ? 95 : 100;
    return 0;
}

#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <stdio.h>
#include <stdlib.h>

#include "format/jail.h"
#include "format/ragged.h"

#define MAX_COUNTED 1000000u /* number of arrays whose bytes are added up */

struct listing {
    struct stk_h5_file file;
    struct stk_lister *l;
    hid_t h5;
    struct stk_h5_dataset *set;
    struct stk_table_array *array;
    size_t n;
    struct stk_h5_families families;
    struct stk_h5_family_column *family; /* of each */
    struct stk_h5_column *column;
    struct stk_table_column *table; /* the columns, then the families, then their key */
    size_t ncolumns, ntable;
    uint64_t count;
    char why[400]; /* something was left out */
};

static void still_alive(void *user)
{
    stk_list_alive(user);
}

/* ---- which of them are columns ---- */

static void as_array(const struct stk_h5_dataset *d, struct stk_table_array *a)
{
    *a = (struct stk_table_array){.name = d->name, .name_len = strlen(d->name)};
    a->kind = STK_ARRAY;
    a->dtype = d->type.dtype;
    if (d->type.what == STK_H5_STRING || d->type.what == STK_H5_VARIABLE)
        a->kind = STK_TEXT;
    else if (d->type.what != STK_H5_NUMBERS)
        a->kind = STK_BYTES;
    a->ndim = d->rank ? d->rank + d->type.ndims : 0;
    a->bytes = d->type.size;
    a->other = d->matlab && !d->flat ? d->dim[d->rank - 1] : 0;
    for (unsigned i = 0; i < d->rank && i < STK_MAX_NDIM + 1; i++) {
        a->dim[i] = d->dim[i];
        if (__builtin_mul_overflow(a->bytes, d->dim[i], &a->bytes))
            a->bytes = UINT64_MAX / MAX_COUNTED;
    }
    if (a->bytes > UINT64_MAX / MAX_COUNTED)
        a->bytes = UINT64_MAX / MAX_COUNTED;
}

static int not_read(struct listing *t, const struct stk_h5_dataset *d, const char *why,
                    struct stk_err *err)
{
    const char *named = strncmp(why, "dataset '", 9) == 0 ? strstr(why, "': ") : NULL;
    why = named ? named + 3 : why;
    snprintf(t->why, sizeof t->why, ": %.100s: %.250s", d->name, why);
    return stk_list_left_out(t->l, d->whole ? "column" : "dataset", d->name, why, err);
}

/* Why a dataset cannot be a column, NULL: it can. */
static const char *trouble(const struct stk_h5_dataset *d, bool other)
{
    bool chars = d->type.what == STK_H5_STRING && d->type.size == 1 && d->rank == 2;
    if (d->type.what == STK_H5_REFUSED)
        return d->type.why;
    if (d->type.compound && !d->whole && other)
        return "compounds in more than one dimension";
    if (d->type.what == STK_H5_NUMBERS && d->rank - 1 + d->type.ndims > STK_MAX_NDIM)
        return "it has more than 9 dimensions";
    if ((d->type.what == STK_H5_STRING || d->type.what == STK_H5_VARIABLE) && d->rank > 1 && !chars)
        return "it has several strings, or bytes of variable length, for each sample";
    return NULL;
}

/* Leaves out and reports datasets that cannot be read. Compounds count if there is nothing else. */
static int drop_refused(struct listing *t, struct stk_err *err)
{
    bool other = false;
    for (size_t i = 0; i < t->n; i++)
        other |= t->array[i].column && t->set[i].type.what != STK_H5_REFUSED &&
                 !(t->set[i].type.compound && !t->set[i].whole);
    for (size_t i = 0; i < t->n; i++) {
        const char *why = t->array[i].column ? trouble(&t->set[i], other) : NULL;
        t->array[i].column &= !why;
        t->array[i].skip |= why != NULL;
        int rc = why ? not_read(t, &t->set[i], why, err) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A table in pandas' "fixed" format: axis0 and block0_items hold names of columns. */
static bool is_pandas_name(const struct listing *t, const char *name)
{
    const char *base = strrchr(name, '/');
    size_t dir = base ? (size_t)(base - name) + 1 : 0, len = strlen(name);
    base = name + dir;
    if (strcmp(base, "axis0") != 0 &&
        (strncmp(base, "block", 5) != 0 || len < 6 || strcmp(name + len - 6, "_items") != 0))
        return false;
    for (size_t i = 0; i < t->n; i++)
        if (strncmp(t->set[i].name, name, dir) == 0 && strcmp(t->set[i].name + dir, "axis1") == 0)
            return true;
    return false;
}

static int drop_pandas_names(struct listing *t, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t->n && t->n <= STK_H5_MAX_COLUMNS; i++) {
        t->array[i].skip = is_pandas_name(t, t->set[i].name);
        if (t->array[i].skip)
            rc = not_read(t, &t->set[i], "the names of a table's columns (pandas)", err);
    }
    return rc;
}

/* Along which axis the samples of MATLAB's arrays are: of a matrix as large in both, along its
 * rows. */
static int turn_columns(struct listing *t, struct stk_err *err)
{
    bool any = false;
    for (size_t i = 0; i < t->n; i++) {
        struct stk_h5_dataset *d = &t->set[i];
        bool last = t->array[i].other && t->array[i].other == t->count;
        d->turned = t->array[i].column && last && (d->rank == 2 || d->dim[0] != t->count);
        any |= d->turned;
    }
    return any ? stk_list_taken(t->l, "array", "MATLAB's, with a sample in each row",
                                "MATLAB stores the first dimension last (MATLAB_class)", err)
               : 0;
}

/* If every sample has its own datasets, their number is the number of samples. */
static int take_families(struct listing *t, struct stk_err *err)
{
    char as[400];
    for (size_t i = 0; i < t->families.n; i++)
        for (size_t k = 0; k < t->families.item[i].n; k++)
            t->array[t->families.item[i].member[k]].skip = true;
    t->count = t->families.item[0].n;
    stk_table_choose_rows(t->array, t->n, t->count);
    snprintf(as, sizeof as, "each dataset or group such as %.300s",
             t->set[t->families.item[0].member[0]].name);
    return stk_list_taken(t->l, "sample", as,
                          "their names differ only by a number; --datasets names others", err);
}

static int choose_columns(struct listing *t, struct stk_err *err)
{
    t->array = calloc(t->n ? t->n : 1, sizeof *t->array);
    if (!t->array)
        return stk_err_nomem(err, t->n * sizeof *t->array);
    for (size_t i = 0; i < t->n; i++)
        as_array(&t->set[i], &t->array[i]);
    int rc = drop_pandas_names(t, err);
    if (rc == 0)
        rc = stk_table_split(t->l, t->array, t->n, err);
    if (rc == 0)
        rc = stk_h5_families(t->set, t->array, t->n, &t->families, err);
    if (rc == 0 && t->families.n)
        rc = take_families(t, err);
    else if (rc == 0)
        t->count = stk_table_choose(t->array, t->n);
    if (rc == 0)
        rc = drop_refused(t, err);
    if (rc == 0)
        rc = turn_columns(t, err);
    if (rc == 0)
        rc = stk_table_report(t->l, t->array, t->n, "dataset", !t->families.n, err);
    for (size_t i = 0; i < t->n; i++)
        t->ncolumns += t->array[i].column;
    if (rc == 0 && t->ncolumns > STK_H5_MAX_COLUMNS)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(t->file.src), -1,
                           "%zu datasets of %llu elements each, which are too many columns",
                           t->ncolumns, (unsigned long long)t->count);
    return rc;
}

/* ---- ragged pairs ---- */

/* The kind from the attribute; BYTES without it. */
static uint8_t ragged_kind(hid_t ds)
{
    char text[16];
    (void)stk_h5_text_attribute(ds, STK_RAGGED_KIND, text, sizeof text);
    return stk_ragged_kind_find(text, strlen(text));
}

static int ragged_column(struct listing *t, struct stk_h5_column *c,
                         const struct stk_h5_dataset *offsets, struct stk_table_column *out,
                         struct stk_err *err)
{
    hid_t ds = stk_h5.Dopen2(t->h5, offsets->path, H5P_DEFAULT);
    if (ds < 0)
        return stk_h5_failed(stk_src_path(t->file.src), "open a dataset", err);
    int rc = stk_h5_store_init(&c->offsets, &t->file, ds, offsets->name, &offsets->type, err);
    stk_h5.Dclose(ds);
    out->how = STK_TABLE_RAGGED;
    out->place = (struct stk_stripe){
        .first_extent = c->first_extent, .per_extent = c->store.block_dim[0], .stride = 1};
    if (!out->place.per_extent)
        out->place.per_extent = 1;
    out->data_bytes = c->store.dim[0];
    out->read_offsets = stk_h5_store_read;
    out->read_offsets_user = &c->offsets;
    out->read_data = stk_h5_store_read;
    out->read_data_user = &c->store;
    return rc;
}

/* ---- all columns ---- */

static int make_column(struct listing *t, size_t i, struct stk_h5_column *c,
                       struct stk_table_column *out, struct stk_err *err)
{
    const struct stk_table_array *a = &t->array[i];
    c->set = &t->set[i];
    c->is_key = a->is_key;
    *out = (struct stk_table_column){.is_key = a->is_key};
    out->spec.name = a->name;
    out->spec.name_len = a->name_len;
    hid_t ds = stk_h5.Dopen2(t->h5, c->set->path, H5P_DEFAULT);
    if (ds < 0)
        return stk_h5_failed(stk_src_path(t->file.src), "open a dataset", err);
    struct stk_h5_type stored = c->set->type;
    if (c->set->whole)
        stored = (struct stk_h5_type){.what = STK_H5_OPAQUE, .size = c->set->whole};
    int rc = stk_h5_store_init(&c->store, &t->file, ds, c->set->name, &stored, err);
    if (rc == 0 && c->set->flat)
        rc = stk_h5_store_flatten(&c->store, err);
    if (rc == 0 && a->pair != SIZE_MAX)
        out->spec.kind = ragged_kind(ds);
    else if (rc == 0)
        rc = stk_h5_packing(ds, &stored, &c->packing, err);
    stk_h5.Dclose(ds);
    if (rc < 0)
        return rc;
    c->first_extent = stk_h5_store_list(&c->store, t->l, err);
    if (c->first_extent < 0)
        return (int)c->first_extent;
    if (a->pair != SIZE_MAX)
        return ragged_column(t, c, &t->set[a->pair], out, err);
    bool text = c->set->type.what == STK_H5_STRING || c->set->type.what == STK_H5_VARIABLE;
    if (text && c->set->rank == 1 && !c->set->whole)
        return stk_h5_text_column(c, t->l, t->count, out, err);
    out->is_key = false;
    return stk_h5_rows_column(c, t->l, out, err);
}

void stk_h5_column_release(struct stk_h5_column *c)
{
    stk_h5_store_release(&c->store);
    stk_h5_store_release(&c->offsets);
    stk_h5_heap_release(&c->heap);
    free(c->bytes);
    *c = (struct stk_h5_column){0};
}

static int make_columns(struct listing *t, struct stk_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        struct stk_err why = {.offset = -1};
        if (!t->array[i].column)
            continue;
        int rc = make_column(t, i, &t->column[n], &t->table[n], &why);
        if (rc == 0 && t->set[i].type.complex)
            rc = stk_list_taken(t->l, "array", "pairs of numbers, real and imaginary part",
                                "samples have no complex numbers", &why);
        if (rc < 0)
            stk_h5_column_release(&t->column[n]);
        if (rc == STK_E_UNSUPPORTED)
            /* An unreadable dataset does not hide the others. */
            rc = not_read(t, &t->set[i], why.what, err);
        else if (rc == 0)
            n++;
        else if (err)
            *err = why;
        if (rc < 0)
            return rc;
    }
    t->ncolumns = t->ntable = n;
    return 0;
}

static int add_families(struct listing *t, struct stk_err *err)
{
    bool key = false, any = false;
    for (size_t i = 0; i < t->ntable; i++)
        key |= t->table[i].is_key;
    for (size_t i = 0; i < t->families.n; i++) {
        struct stk_h5_family_column *f = &t->family[i];
        f->file = &t->file;
        f->set = t->set;
        f->family = &t->families.item[i];
        f->h5 = t->h5;
        int rc = stk_h5_family_start(f, t->l, &t->table[t->ntable], err);
        if (rc < 0)
            return rc;
        t->ntable += rc == 0;
        any |= rc == 0;
    }
    if (any && !key)
        stk_h5_family_key(&t->family[0], &t->table[t->ntable++]);
    return 0;
}

static int make_table(struct listing *t, struct stk_err *err)
{
    size_t n = t->ncolumns + t->families.n + 1;
    t->column = calloc(t->ncolumns + 1, sizeof *t->column);
    t->family = calloc(t->families.n + 1, sizeof *t->family);
    t->table = calloc(n, sizeof *t->table);
    if (!t->column || !t->family || !t->table)
        return stk_err_nomem(err, n * sizeof *t->column);
    int rc = make_columns(t, err);
    return rc < 0 ? rc : add_families(t, err);
}

static bool only_a_key(const struct listing *t)
{
    return t->ntable == 1 && t->table[0].is_key;
}

static int list_datasets(struct listing *t, struct stk_err *err)
{
    const char *path = stk_src_path(t->file.src);
    int rc = stk_h5_find(&t->file, t->l, t->h5, &t->set, &t->n, t->why, sizeof t->why, err);
    if (rc == 0)
        rc = choose_columns(t, err);
    if (rc < 0)
        return rc;
    if (t->count || !t->ncolumns) {
        rc = make_table(t, err);
        if (rc == 0 && !t->ntable)
            rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                             stk_list_opts(t->l)->datasets && !t->n
                                 ? "no dataset in it matches --datasets"
                                 : "no dataset in it can be read as samples%s",
                             t->why);
    }
    if (rc < 0 || !t->count)
        return rc;
    if (only_a_key(t))
        t->table[0].is_key = false;
    return stk_table_list(t->l, t->table, t->ntable, t->count, path, err);
}

/* ---- the file ---- */

static void listing_release(struct listing *t)
{
    for (size_t i = 0; t->column && i < t->ncolumns; i++)
        stk_h5_column_release(&t->column[i]);
    for (size_t i = 0; t->family && i < t->families.n; i++)
        stk_h5_column_release(&t->family[i].column);
    stk_h5_families_release(&t->families);
    stk_h5_forget(t->set, t->n);
    free(t->family);
    free(t->column);
    free(t->table);
    free(t->array);
    if (t->h5 >= 0)
        stk_h5.Fclose(t->h5);
}

static int describe_file(struct listing *t, struct stk_err *err)
{
    hid_t plist = stk_h5.Fget_create_plist(t->h5);
    hsize_t user_block = 0;
    size_t addr_size = 0, len_size = 0;
    if (plist < 0 || stk_h5.Pget_userblock(plist, &user_block) < 0 ||
        stk_h5.Pget_sizes(plist, &addr_size, &len_size) < 0 || addr_size < 2 || addr_size > 8 ||
        len_size < 2 || len_size > 8) {
        if (plist >= 0)
            stk_h5.Pclose(plist);
        return stk_h5_failed(stk_src_path(t->file.src), "describe the file", err);
    }
    stk_h5.Pclose(plist);
    t->file.base = user_block;
    t->file.addr_size = (unsigned)addr_size;
    t->file.len_size = (unsigned)len_size;
    return 0;
}

/* The program may have this file open (h5py), in the same library. Files of the same driver are one
 * to it, and it would read through a descriptor that this process does not have: so another driver,
 * which logs nothing. */
static hid_t open_apart(const char *path)
{
    hid_t access = stk_h5.Pcreate(*stk_h5.P_FILE_ACCESS);
    hid_t file = access >= 0 && stk_h5.Pset_fapl_log(access, NULL, 0, 0) >= 0
                     ? stk_h5.Fopen(path, H5F_ACC_RDONLY, access)
                     : -1;
    if (file >= 0) /* each call forgets the errors of the last one, which say why */
        stk_h5.Pclose(access);
    return file;
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct listing t = {.file = {.src = src, .alive = still_alive, .user = l}, .l = l, .h5 = -1};
    /* Read-only file systems refuse locks, and we do not write. */
    (void)setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
    int rc = stk_h5_start(err);
    if (rc < 0)
        return rc;
    (void)stk_h5.Eset_auto2(H5E_DEFAULT, NULL, NULL);
    t.h5 = open_apart(stk_src_library_path(src));
    if (t.h5 < 0)
        return stk_h5_failed(stk_src_path(src), "open this file", err);
    rc = describe_file(&t, err);
    if (rc == 0)
        rc = list_datasets(&t, err);
    listing_release(&t);
    return rc;
}
#endif

static const struct stk_format_use use = {
    .how = STK_USE_LIBRARY,
    .package = "h5py",
    .library = "HDF5",
    .open = stk_code_hdf5_open_py,
    .load = stk_code_hdf5_load_py,
    .keep = stk_code_hdf5_keep_py,
    .rewriter = stk_code_hdf5_rewrite_sh,
    .batch_read = stk_code_hdf5_batch_read_py,
    .batch_write = stk_code_hdf5_batch_write_py,
    .divide = stk_code_hdf5_divide_py,
};

const struct stk_format stk_format_hdf5 = {
    .name = "hdf5",
    .title = "HDF5",
    .holds = STK_HOLDS_KEY,
    .suffix = ".h5",
    .suffixes = suffixes,
    .package = "libhdf5-dev",
    .bid = bid,
#ifdef STK_HAVE_HDF5
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_DEFLATE | STK_CAN_OWN_FILE |
            STK_CAN_CRASH | STK_CAN_PICK | STK_CAN_BE_ARRAYS,
    .load = stk_h5_load,
    .list = list,
    .merge_context = stk_scaled_merge,
    .prepare = stk_hdf5_prepare,
    .unprepare = stk_hdf5_unprepare,
    .encode = stk_hdf5_encode,
    .begin = stk_hdf5_begin,
    .append = stk_hdf5_append,
    .finish = stk_hdf5_finish,
    .abort = stk_hdf5_abort,
#else
    .missing = true,
    .caps = STK_CAN_BE_ARRAYS,
#endif
    .use = &use,
};
