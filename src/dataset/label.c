/* label.c - classes from directories or a CSV, numbered in byte order of their names. */
#include "dataset/label.h"
#include "base/buf.h"
#include "base/hash.h"
#include "dataset/layout.h"
#include "format/csv/csv.h"
#include "format/sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CLASSES_SURE 32 /* this many names may be classes, whatever the number of rows */

struct label_entry {
    uint64_t hash; /* of its name or key, which identifies it */
    int64_t label;
    const char *name; /* DIR: the class */
    bool given;       /* CSV: a row has set it */
};

static struct label_entry *find(const struct stk_labels *l, const char *name, size_t len)
{
    uint64_t hash = stk_hash64(name, len);
    uint32_t i;
    for (size_t at = 0; stk_lookup_next(&l->table, hash, &at, &i);)
        if (l->entry[i].hash == hash)
            return &l->entry[i];
    return NULL;
}

/* The entry of a name, added if new. NULL: out of memory. */
static struct label_entry *intern(struct stk_labels *l, const char *name, size_t len,
                                  struct stk_err *err)
{
    struct label_entry *e = find(l, name, len);
    if (e)
        return e;
    uint64_t hash = stk_hash64(name, len);
    if (STK_ARRAY_MORE(l->entry, l->nentries, err) < 0 ||
        stk_lookup_add(&l->table, hash, (uint32_t)l->nentries, err) < 0)
        return NULL;
    e = &l->entry[l->nentries++];
    *e = (struct label_entry){.hash = hash, .label = -1};
    return e;
}

/* ---- directories ---- */

/* Component `level` of the key's directories; false: none. */
static bool dir_at(const char *key, size_t len, int level, const char **p, size_t *n)
{
    int depth = 0;
    for (size_t i = 0; i < len; i++)
        depth += key[i] == '/';
    int want = level < 0 ? depth + level : level - 1;
    if (want < 0 || want >= depth)
        return false;
    const char *at = key;
    for (int i = 0; i < want; i++)
        at = (const char *)memchr(at, '/', len - (size_t)(at - key)) + 1;
    *p = at;
    *n = (size_t)((const char *)memchr(at, '/', len - (size_t)(at - key)) - at);
    return true;
}

static int no_dir(const struct stk_labels *l, const char *key, size_t len, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                       "'%.*s' has no directory at level %d to take its label from",
                       (int)(len < 500 ? len : 500), key, l->level);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Numbers the classes that were collected. */
static int number_classes(struct stk_labels *l, struct stk_err *err)
{
    size_t n = 0;
    l->classes = stk_arena_alloc(&l->arena, (l->nentries + 1) * sizeof *l->classes);
    if (!l->classes)
        return stk_err_nomem(err, l->nentries * sizeof *l->classes);
    for (size_t i = 0; i < l->nentries; i++)
        if (l->entry[i].name)
            l->classes[n++] = l->entry[i].name;
    qsort(l->classes, n, sizeof *l->classes, by_text);
    l->nclasses = n;
    for (size_t i = 0; i < n; i++)
        find(l, l->classes[i], strlen(l->classes[i]))->label = (int64_t)i;
    return 0;
}

static int add_class(struct stk_labels *l, const char *name, size_t len, struct stk_err *err)
{
    struct label_entry *e = intern(l, name, len, err);
    if (e && !e->name)
        e->name = stk_arena_dup(&l->arena, name, len);
    return e && e->name ? 0 : stk_err_nomem(err, len);
}

/* strict false: a key without that directory means that there are no labels at all. */
static int collect_dirs(struct stk_labels *l, const struct stk_dataset *ds, bool strict,
                        struct stk_err *err)
{
    const char *last = NULL;
    size_t last_len = 0;
    for (uint64_t i = 0; i < stk_dataset_len(ds); i++) {
        const char *key, *dir;
        size_t len, n;
        int rc = stk_index_key(&ds->index, i, &key, &len, err);
        if (rc == 0 && !len)
            rc = stk_err_set(err, STK_E_UNSUPPORTED, ds->path, -1,
                             "--label-from dir needs keys outside the records, which %s does not "
                             "have",
                             ds->format->title);
        if (rc < 0)
            return rc;
        if (!dir_at(key, len, l->level, &dir, &n)) {
            if (strict)
                continue; /* reported when the sample is packed, where it can be skipped */
            l->mode = STK_LABEL_NONE;
            return 0;
        }
        if (last && n == last_len && memcmp(dir, last, n) == 0)
            continue;
        last = dir;
        last_len = n;
        rc = add_class(l, dir, n, err);
        if (rc < 0)
            return rc;
    }
    return number_classes(l, err);
}

/* The level of directories that name classes: below those that name splits, or just "images". */
static int class_level(const struct stk_dataset *ds)
{
    const int deepest = 4;
    for (int level = 1; level < deepest; level++)
        for (uint64_t i = 0; i < stk_dataset_len(ds); i++) {
            const char *key, *dir;
            size_t len, n;
            if (stk_index_key(&ds->index, i, &key, &len, NULL) < 0 ||
                !dir_at(key, len, level, &dir, &n) || !stk_layout_is_neutral(dir, n))
                return level;
        }
    return deepest;
}

/* ---- CSV ---- */

/* True if the column of a field has whole numbers and empty cells, which are read as floats. */
static bool is_whole_with_gaps(const struct stk_dataset *ds, const struct stk_field *f)
{
    struct stk_csv_context ctx;
    struct stk_csv_entry e;
    const struct stk_index *idx = &ds->index;
    int rc = stk_csv_context_open(&ctx, idx->table[STK_T_CONTEXT],
                                  stk_index_count(idx, STK_T_CONTEXT), NULL);
    for (int more = rc == 0; more == 1 && (more = stk_csv_context_next(&ctx, &e, NULL)) == 1;)
        if (e.name_len == f->name_len && memcmp(e.name, f->name, f->name_len) == 0)
            return e.type == STK_CSV_INT_GAPS;
    return false;
}

/* A column of numbers has one type in all rows: regression targets stay floats. */
static int64_t number_label(struct stk_labels *l, const struct stk_value *v)
{
    int64_t bits;
    double real = stk_value_f64(v, 0);
    if (!stk_dtype_is_float(v->dtype))
        return stk_value_i64(v, 0);
    if (l->gaps)
        return (int64_t)real;
    l->reals = true;
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

/* The columns of a row: the key is in `key`, else in the first column that is not `label`; the label
 * in `label`, else in the next one. NULL: there is none. */
static void find_columns(const struct stk_sample *s, const struct stk_field **key,
                         const struct stk_field **lab)
{
    size_t at = 0;
    *lab = stk_sample_find(s, "label");
    *key = NULL;
    if (!s->key_len) {
        at = s->nfields && *lab == &s->field[0];
        *key = at < s->nfields ? &s->field[at++] : NULL;
    }
    if (!*lab && at < s->nfields)
        *lab = &s->field[at];
}

/* The key of a row as text: whole numbers are keys, too. */
static int key_of(const struct stk_sample *s, const struct stk_field *f, char *room,
                  const char **key, size_t *len, struct stk_err *err)
{
    const struct stk_value *v = f ? &f->value : NULL;
    bool array = v && v->kind == STK_ARRAY;
    *key = v && v->kind == STK_TEXT ? v->data : room;
    *len = v && v->kind == STK_TEXT ? v->size : 0;
    if (s->key_len) {
        *key = s->key;
        *len = s->key_len;
    } else if (array && !v->ndim && !stk_dtype_is_float(v->dtype)) {
        *len = stk_value_text(v, 0, room);
    } else if (array) {
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the keys of the samples would be in column '%.*s', but it has numbers "
                           "with fractions, or empty cells",
                           (int)(f->name_len < 200 ? f->name_len : 200), f->name);
    }
    return *len ? 0 : stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a row without key");
}

/* An empty cell is no label: 1, or 0 if there is one, or an error. */
static int has_none(const struct stk_field *lab, struct stk_err *err)
{
    const struct stk_value *v = lab ? &lab->value : NULL;
    if (!v)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a row without label");
    if (v->kind == STK_TEXT)
        return !v->size;
    if (v->kind == STK_ARRAY && !v->ndim)
        return stk_dtype_is_float(v->dtype) && isnan(stk_value_f64(v, 0));
    if (v->kind == STK_JSON && v->size == 4 && memcmp(v->data, "null", 4) == 0)
        return 1;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "the labels would be in '%.*s', which is not one number or name per row",
                       (int)(lab->name_len < 200 ? lab->name_len : 200), lab->name);
}

static int csv_row(struct stk_labels *l, struct stk_labels *classes, const struct stk_sample *s,
                   bool collect, struct stk_err *err)
{
    char room[STK_NUM_ROOM];
    const struct stk_field *lab, *named;
    const char *key;
    size_t len;
    find_columns(s, &named, &lab);
    int rc = key_of(s, named, room, &key, &len, err);
    if (rc == 0)
        rc = has_none(lab, err);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    bool text = lab->value.kind == STK_TEXT;
    if (collect)
        return text ? add_class(classes, lab->value.data, lab->value.size, err) : 0;
    const struct label_entry *class = text ? find(classes, lab->value.data, lab->value.size) : NULL;
    if (text && !class)
        return stk_err_set(err, STK_E_STALE, NULL, -1, "it changed while it was read");
    struct label_entry *e = intern(l, key, len, err);
    if (!e)
        return STK_E_NOMEM;
    int64_t label = class ? class->label : number_label(l, &lab->value);
    if (e->given && e->label != label)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "two rows give '%.*s' different labels, and a sample has one",
                           (int)(len < 200 ? len : 200), key);
    e->label = label;
    e->given = true;
    return 0;
}

/* Names that rarely repeat are captions, not classes. */
static bool are_texts(const struct stk_labels *classes, uint64_t rows)
{
    return classes->nclasses > CLASSES_SURE && classes->nclasses > rows / 2;
}

/* The name of the column with the labels. */
static const char *label_column(struct stk_labels *l, const struct stk_sample *s)
{
    const struct stk_field *lab, *key;
    find_columns(s, &key, &lab);
    return lab ? stk_arena_dup(&l->arena, lab->name, lab->name_len) : NULL;
}

static bool label_has_gaps(const struct stk_dataset *ds, const struct stk_sample *s)
{
    const struct stk_field *lab, *key;
    find_columns(s, &key, &lab);
    return lab && is_whole_with_gaps(ds, lab);
}

/* The CSV is a dataset like any other. Two passes: the classes, then the keys. */
static int read_csv(struct stk_labels *l, const char *path, struct stk_err *err)
{
    struct stk_open_options o = {.no_index_write = true};
    struct stk_dataset *ds = NULL;
    struct stk_labels classes = {0};
    struct stk_sample s;
    stk_sample_init(&s);
    int rc = stk_dataset_open(path, &o, &ds, err);
    for (int pass = 0; rc == 0 && pass < 2; pass++) {
        for (uint64_t i = 0; rc == 0 && i < stk_dataset_len(ds); i++) {
            rc = stk_dataset_read(ds, i, &s, err);
            if (rc == 0 && pass == 0 && i == 0)
                l->gaps = label_has_gaps(ds, &s);
            if (rc == 0)
                rc = csv_row(l, &classes, &s, pass == 0, err);
        }
        if (rc == 0 && pass == 0)
            rc = number_classes(&classes, err);
    }
    bool texts = rc == 0 && are_texts(&classes, stk_dataset_len(ds));
    l->text_field = texts ? label_column(&classes, &s) : NULL;
    if (texts && !l->text_field)
        rc = stk_err_nomem(err, sizeof s);
    l->rows = ds ? stk_dataset_len(ds) : 0;
    if (rc < 0 && err && !strstr(err->path, path))
        rc = stk_err_wrap(err, rc, "labels from %s", path);
    l->text = texts ? classes.classes : NULL;
    l->ntexts = texts ? classes.nclasses : 0;
    l->classes = texts ? NULL : classes.classes;
    l->nclasses = texts ? 0 : classes.nclasses;
    l->arena = classes.arena;
    stk_lookup_release(&classes.table);
    free(classes.entry);
    stk_sample_release(&s);
    stk_dataset_close(ds);
    return rc;
}

/* ---- both ---- */

int stk_labels_init(struct stk_labels *l, const char *spec, const struct stk_dataset *ds,
                    struct stk_err *err)
{
    *l = (struct stk_labels){0};
    if (!spec || strcmp(spec, "auto") == 0) {
        if (!(ds->format->caps & (STK_CAN_TREE | STK_CAN_PATHS)) || ds->has_manifest)
            return 0;
        l->mode = STK_LABEL_DIR;
        l->level = class_level(ds);
        return collect_dirs(l, ds, false, err);
    }
    if (strcmp(spec, "none") == 0)
        return 0;
    if (strncmp(spec, "csv:", 4) == 0) {
        l->mode = STK_LABEL_CSV;
        return read_csv(l, spec + 4, err);
    }
    char *end = NULL;
    long level = strncmp(spec, "dir:", 4) == 0 ? strtol(spec + 4, &end, 10) : -1;
    if ((strcmp(spec, "dir") != 0 && (!end || *end || end == spec + 4)) || level == 0 ||
        level > 100 || level < -100)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "labels come from auto, none, dir, dir:LEVEL (1 is the first directory, "
                           "-1 the last) or csv:FILE, not from '%s'",
                           spec);
    l->mode = STK_LABEL_DIR;
    l->level = (int)level;
    return collect_dirs(l, ds, true, err);
}

int stk_labels_from_manifest(struct stk_labels *l, const struct stk_manifest *m,
                             struct stk_err *err)
{
    const char *spec = m->label_from ? m->label_from : "";
    *l = (struct stk_labels){0};
    if (strncmp(spec, "dir:", 4) != 0)
        return 0;
    l->mode = STK_LABEL_DIR;
    l->level = atoi(spec + 4);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->nclasses; i++)
        rc = add_class(l, m->classes[i], strlen(m->classes[i]), err);
    return rc < 0 ? rc : number_classes(l, err);
}

void stk_labels_release(struct stk_labels *l)
{
    stk_arena_release(&l->arena);
    stk_lookup_release(&l->table);
    free(l->entry);
    *l = (struct stk_labels){0};
}

int stk_labels_of(const struct stk_labels *l, const char *key, size_t len, int64_t *label,
                  struct stk_err *err)
{
    const struct label_entry *e = NULL;
    const char *dir;
    size_t n;
    if (l->mode == STK_LABEL_NONE)
        return 0;
    if (l->mode == STK_LABEL_DIR) {
        if (!dir_at(key, len, l->level, &dir, &n))
            return no_dir(l, key, len, err);
        e = find(l, dir, n);
    } else {
        /* As written, without its extension, or by the base name alone. */
        const char *slash = memrchr(key, '/', len), *base = slash ? slash + 1 : key;
        e = find(l, key, len);
        e = e ? e : find(l, key, stk_key_stem(key, len));
        e = e ? e : find(l, base, len - (size_t)(base - key));
    }
    if (!e)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "no label is given for '%.*s'",
                           (int)(len < 500 ? len : 500), key);
    *label = e->label;
    return 1;
}

/* ---- labels of a dataset being read ---- */

/* Records of most formats include key and label: then the index has no keys. */
static bool has_keys(const struct stk_dataset *ds)
{
    return (ds->index.h->flags & STK_INDEX_KEYS_ARE_FILES) ||
           stk_index_count(&ds->index, STK_T_KEYOFF);
}

static int find_labels(struct stk_dataset *ds, struct stk_err *err)
{
    ds->labels_known = !has_keys(ds);
    if (ds->labels_known)
        return 0;
    struct stk_labels *l = calloc(1, sizeof *l);
    if (!l)
        return stk_err_nomem(err, sizeof *l);
    int rc = ds->has_manifest ? stk_labels_from_manifest(l, &ds->manifest, err)
                              : stk_labels_init(l, "auto", ds, err);
    ds->labels_known = rc == 0;
    if (rc == 0 && l->mode != STK_LABEL_NONE) {
        ds->labels = l;
        return 0;
    }
    stk_labels_release(l);
    free(l);
    return rc;
}

int stk_dataset_labels(struct stk_dataset *ds, struct stk_labels **out, struct stk_err *err)
{
    ds = ds->whole ? ds->whole : ds; /* a class has the same number in every subset */
    pthread_mutex_lock(&ds->lock);
    int rc = ds->labels_known ? 0 : find_labels(ds, err);
    *out = ds->labels;
    pthread_mutex_unlock(&ds->lock);
    return rc;
}

size_t stk_dataset_classes(struct stk_dataset *ds, const char *const **names)
{
    struct stk_labels *l;
    const char *const *none;
    names = names ? names : &none;
    *names = NULL;
    if (!ds)
        return 0;
    if (ds->has_manifest) {
        *names = ds->manifest.classes;
        return ds->manifest.nclasses;
    }
    if (stk_dataset_labels(ds, &l, NULL) < 0 || !l)
        return 0;
    *names = l->classes;
    return l->nclasses;
}
