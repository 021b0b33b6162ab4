/*
 * members.c - the fields of a sample as members named after its key, and back.
 *
 * One rule for folder, tar and squashfs, so that a sample keeps its fields when it moves between
 * them. Does no I/O.
 */
#include "format/members.h"
#include "base/buf.h"
#include "base/text.h"
#include "format/numpy/npyhead.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- names ---- */

static size_t base_of(const char *name, size_t len)
{
    const char *slash = len ? memrchr(name, '/', len) : NULL;
    return slash ? (size_t)(slash + 1 - name) : 0;
}

size_t stk_member_stem(const char *name, size_t len)
{
    size_t from = base_of(name, len);
    while (from < len && name[from] == '.')
        from++;
    const char *dot = from < len ? memchr(name + from, '.', len - from) : NULL;
    return dot ? (size_t)(dot - name) : len;
}

size_t stk_member_clean(char *name, size_t len)
{
    size_t to = 0;
    bool absolute = len && name[0] == '/';
    for (size_t at = 0; at < len;) {
        const char *slash = memchr(name + at, '/', len - at);
        size_t n = slash ? (size_t)(slash - (name + at)) : len - at;
        if (n && !(n == 1 && name[at] == '.')) {
            if (to || absolute)
                name[to++] = '/'; /* never overtakes `at`: a component came before it */
            memmove(name + to, name + at, n);
            to += n;
        }
        at += n + 1;
    }
    return to;
}

bool stk_member_is_meta(const char *name, size_t len)
{
    const char *slash = len ? memchr(name, '/', len) : NULL;
    size_t n = slash ? (size_t)(slash - name) : len;
    return n >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + n - 2, "__", 2) == 0;
}

bool stk_member_is_hidden(const char *name, size_t len)
{
    size_t base = base_of(name, len);
    return base < len && name[base] == '.';
}

const char *stk_member_suffix(int compress)
{
    return compress == STK_FILTER_ZSTD ? ".zst" : compress == STK_FILTER_LZ4F ? ".lz4" : "";
}

bool stk_member_strip(int compress, const char *name, size_t *len)
{
    const char *suffix = stk_member_suffix(compress);
    size_t n = strlen(suffix);
    if (!n || *len <= n || !stk_text_ends(name, *len, suffix))
        return false;
    *len -= n;
    return true;
}

/* A zstd frame (RFC 8878, 3.1.1.1): magic, descriptor, window unless "single segment", dictionary
 * number, content size. */
static bool zstd_len(const uint8_t *p, size_t n, uint64_t *len)
{
    if (n < 5 || stk_le32(p) != 0xfd2fb528u)
        return false;
    static const uint8_t dict_bytes[4] = {0, 1, 2, 4}, size_bytes[4] = {0, 2, 4, 8};
    bool single = p[4] & 0x20;
    size_t at = 5u + (single ? 0u : 1u) + dict_bytes[p[4] & 3], k = size_bytes[p[4] >> 6];
    k = k == 0 && single ? 1 : k;
    if (!k || n < at + k)
        return false;
    *len = k == 1   ? p[at]
           : k == 2 ? stk_le16(p + at) + 256u
           : k == 4 ? stk_le32(p + at)
                    : stk_le64(p + at);
    return true;
}

/* An LZ4 frame: magic, flags, block size, content size where flag bit 3 says so. An empty one has
 * none, but then ends at once: a block size of 0. */
static bool lz4_len(const uint8_t *p, size_t n, uint64_t *len)
{
    if (n < 11 || stk_le32(p) != 0x184d2204u)
        return false;
    *len = 0;
    if (!(p[4] & 8))
        return stk_le32(p + 7) == 0;
    if (n < 14)
        return false;
    *len = stk_le64(p + 6);
    return true;
}

bool stk_member_decoded_len(int compress, const uint8_t *p, size_t n, uint64_t *len)
{
    bool said = compress == STK_FILTER_ZSTD   ? zstd_len(p, n, len)
                : compress == STK_FILTER_LZ4F ? lz4_len(p, n, len)
                                              : false;
    return said && *len <= INT64_MAX;
}

/* Escapes in a field's name within a member's: "/" would make a directory. "%" is escaped only if
 * it looks like an escape, so that names in foreign files stay unchanged. */
static bool is_escape(const char *p, size_t n)
{
    return n >= 3 &&
           (memcmp(p, "%2F", 3) == 0 || memcmp(p, "%2E", 3) == 0 || memcmp(p, "%25", 3) == 0);
}

static void put_escaped(struct stk_buf *b, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] == '/')
            stk_buf_puts(b, "%2F");
        else if (is_escape(name + i, len - i))
            stk_buf_puts(b, "%25");
        else
            stk_buf_putc(b, name[i]);
    }
}

static void put_unescaped(struct stk_buf *b, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool escape = is_escape(name + i, len - i);
        stk_buf_putc(b, !escape              ? name[i]
                        : name[i + 2] == 'F' ? '/'
                        : name[i + 2] == 'E' ? '.'
                                             : '%');
        i += escape ? 2 : 0;
    }
}

/* The extensions that determine a kind. */
static const struct {
    const char *ext;
    uint8_t kind, spec_kind;
    const char *codec;
} kinds[] = {
    {"npy", STK_ARRAY, STK_BYTES, "npy"},
    {"json", STK_JSON, STK_JSON, NULL},
    {"txt", STK_TEXT, STK_TEXT, NULL},
};

/* "npy" or "x.npy" for ext "npy". *before: the length before the extension (all of a bare one). */
static bool says_kind(const char *name, size_t len, const char *ext, size_t *before)
{
    size_t n = strlen(ext);
    if (!stk_text_ends(name, len, ext))
        return false;
    *before = len == n ? len : len - n - 1;
    return len == n || (len > n + 1 && name[len - n - 1] == '.');
}

int stk_member_field(const char *ext, size_t len, struct stk_buf *scratch,
                     struct stk_field_spec *spec, struct stk_err *err)
{
    *spec = (struct stk_field_spec){.kind = STK_BYTES};
    if (len == 3 && memcmp(ext, "cls", 3) == 0) {
        spec->name = "label";
        spec->name_len = 5;
        spec->codec = "cls";
        return 0;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t before;
        if (says_kind(ext, len, kinds[i].ext, &before)) {
            len = before;
            spec->kind = kinds[i].spec_kind;
            spec->codec = kinds[i].codec;
            break;
        }
    }
    stk_buf_reset(scratch);
    put_unescaped(scratch, ext, len);
    spec->name = (const char *)scratch->data;
    spec->name_len = scratch->len;
    return stk_buf_check(scratch, err);
}

static bool must_give_way(const struct stk_ext_words *x, const struct stk_ext_words *o)
{
    /* A field that keeps its whole extension may take another's short name. */
    return o->whole ? o->text == x->name || (o->name == x->name && !x->label)
                    : (o->name == x->name && !x->label) || (x->label && o->text == x->name);
}

void stk_member_clashes(struct stk_ext_words *x, size_t n)
{
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n && !x[i].whole; k++)
                if (k != i && must_give_way(&x[i], &x[k]))
                    more = x[i].whole = true;
    }
}

/* ---- members of a sample ---- */

void stk_members_release(struct stk_members *m)
{
    free(m->item);
    stk_buf_release(&m->text);
    stk_buf_release(&m->packed);
    stk_buf_release(&m->full);
    *m = (struct stk_members)STK_MEMBERS_INIT;
}

/* A name that a reader takes for nothing else: not a number, no surrounding space. */
static bool is_class_name(const struct stk_value *v)
{
    const uint8_t *p = v->data;
    size_t n = v->size;
    return n && p[0] > ' ' && p[n - 1] > ' ' && !strchr("+-.0123456789", p[0]);
}

/* A label that a decimal number or a name represents fully. */
static bool is_class(const struct stk_field *f)
{
    const struct stk_value *v = &f->value;
    if (f->name_len != 5 || memcmp(f->name, "label", 5) != 0)
        return false;
    if (v->kind == STK_TEXT)
        return is_class_name(v);
    return v->kind == STK_ARRAY && v->ndim == 0 && !stk_dtype_is_float(v->dtype) &&
           v->dtype != STK_BOOL && v->size == stk_dtype_size(v->dtype) &&
           (v->dtype != STK_U64 || stk_value_i64(v, 0) >= 0);
}

static bool is_data(const struct stk_field *f)
{
    return f->name_len == 4 && memcmp(f->name, "data", 4) == 0;
}

/* For bytes named "x.npy": escapes the dot, so that the name does not claim another kind. */
static void hide_kind(struct stk_buf *b, size_t at)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !b->fail; i++) {
        size_t before, len = b->len - at;
        if (!says_kind((char *)b->data + at, len, kinds[i].ext, &before) || before == len)
            continue;
        b->len = at + before;
        stk_buf_printf(b, "%%2E%s", kinds[i].ext);
        return;
    }
}

/* True if the key is the name of the payload's file: it does not claim another kind. */
static bool is_named_by_key(const struct stk_sample *s, size_t stem, const struct stk_field *f)
{
    return is_data(f) && stem < s->key_len &&
           (f->value.kind != STK_ARRAY || stk_text_ends(s->key + stem, s->key_len - stem, ".npy"));
}

/* Appends the member's name. full: adds the extension of its kind even if the name ends in it. */
static void put_name(struct stk_buf *b, const struct stk_member_rules *r,
                     const struct stk_sample *s, const struct stk_field *f, bool full)
{
    size_t stem = stk_member_stem(s->key, s->key_len);
    bool data = is_data(f);
    uint8_t kind = f->value.kind;
    if (is_named_by_key(s, stem, f)) {
        stk_buf_put(b, s->key, s->key_len);
        return;
    }
    stk_buf_put(b, s->key, stem);
    size_t at = b->len, before;
    if (is_class(f)) {
        stk_buf_puts(b, ".cls");
        return;
    }
    const char *name = data ? (kind == STK_BYTES ? r->data_ext : "data") : f->name;
    size_t len = data ? strlen(name) : f->name_len;
    if (len) {
        stk_buf_putc(b, '.');
        put_escaped(b, name, len);
        if (full && kind == STK_BYTES)
            hide_kind(b, at + 1);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !b->fail; i++)
        if (kinds[i].kind == kind &&
            !(len && !full &&
              says_kind((char *)b->data + at + 1, b->len - at - 1, kinds[i].ext, &before))) {
            stk_buf_putc(b, '.');
            stk_buf_puts(b, kinds[i].ext);
        }
}

static int put_array_head(struct stk_buf *b, const struct stk_field *f, struct stk_err *err)
{
    const struct stk_value *v = &f->value;
    uint64_t bytes;
    if (!stk_dtype_size(v->dtype) ||
        __builtin_mul_overflow(stk_value_count(v), stk_dtype_size(v->dtype), &bytes) ||
        bytes != v->size)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "the array '%.*s' has %zu bytes, which does not match its shape",
                           (int)(f->name_len < 200 ? f->name_len : 200), f->name, v->size);
    stk_npy_write_head(b, v->dtype, v->ndim, v->dim);
    return 0;
}

/* Compresses head and data of one member together. */
static int pack_member(struct stk_members *m, const struct stk_member_rules *r,
                       struct stk_member *e, const uint8_t *head, struct stk_err *err)
{
    struct stk_buf joined = STK_BUF_INIT;
    const uint8_t *p = e->data;
    size_t n = e->len, at = m->packed.len;
    if (e->head_len) {
        stk_buf_put(&joined, head, e->head_len);
        stk_buf_put(&joined, e->data, e->len);
        p = joined.data;
        n = joined.len;
    }
    int rc = stk_buf_check(&joined, err);
    if (rc == 0)
        rc = stk_filter_encode((enum stk_filter_id)r->compress, r->level, p, n, &m->packed, err);
    stk_buf_release(&joined);
    e->head_len = 0;
    e->packed_at = at;
    e->len = m->packed.len - at;
    return rc;
}

static int add_member(struct stk_members *m, const struct stk_member_rules *r,
                      const struct stk_sample *s, const struct stk_field *f, bool full,
                      struct stk_err *err)
{
    struct stk_member *e = &m->item[m->n++];
    bool class = is_class(f), packed = r->compress && !class;
    int rc = 0;
    *e = (struct stk_member){
        .name_at = m->text.len, .packed_at = SIZE_MAX, .data = f->value.data, .len = f->value.size};
    e->field = f;
    put_name(&m->text, r, s, f, full);
    e->plain_len = m->text.len - e->name_at;
    stk_buf_puts(&m->text, packed ? stk_member_suffix(r->compress) : "");
    e->head_at = m->text.len;
    e->name_len = e->head_at - e->name_at;
    if (class && f->value.kind == STK_ARRAY) { /* the head is the whole member, made here */
        stk_buf_printf(&m->text, "%lld", (long long)stk_value_i64(&f->value, 0));
        e->len = 0;
    } else if (!class && f->value.kind == STK_ARRAY) {
        rc = put_array_head(&m->text, f, err);
    }
    if (rc == 0)
        rc = stk_buf_check(&m->text, err);
    e->head_len = m->text.len - e->head_at;
    return rc == 0 && packed ? pack_member(m, r, e, m->text.data + e->head_at, err) : rc;
}

static int by_name(const void *a, const void *b)
{
    const struct stk_member *x = a, *y = b;
    size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
    int d = memcmp(x->name, y->name, n);
    return d ? d : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

/* Sets the pointers: the buffers no longer move. */
static int settle(struct stk_members *m, struct stk_err *err)
{
    for (size_t i = 0; i < m->n; i++) {
        struct stk_member *e = &m->item[i];
        e->name = (const char *)m->text.data + e->name_at;
        e->head = m->text.data + e->head_at;
        if (e->packed_at != SIZE_MAX)
            e->data = m->packed.data + e->packed_at;
    }
    if (m->n > 1)
        qsort(m->item, m->n, sizeof *m->item, by_name);
    for (size_t i = 1; i < m->n; i++)
        if (by_name(&m->item[i - 1], &m->item[i]) == 0)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "two fields of the sample would both be called '%.*s'",
                               (int)m->item[i].name_len, m->item[i].name);
    return 0;
}

static int refuse_field(const struct stk_field *f, struct stk_err *err)
{
    int len = (int)(f->name_len < 200 ? f->name_len : 200);
    if (f->value.kind == STK_LIST)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the field '%.*s' is a list, which no file of a member can hold; "
                           "pack into tfrecord, json or jsonl",
                           len, f->name);
    if (!f->name_len || memchr(f->name, '\0', f->name_len))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "a field whose name is empty or contains NUL cannot name a file");
    return 0;
}

/* The part after a dot of the key is read as the name of a field: it must be that of one. */
static int refuse_cut_key(const struct stk_sample *s, struct stk_err *err)
{
    size_t stem = stk_member_stem(s->key, s->key_len);
    if (stem == s->key_len)
        return 0;
    for (size_t i = 0; i < s->nfields; i++)
        if (is_named_by_key(s, stem, &s->field[i]))
            return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "the key '%.*s' would come back as '%.*s': in file names, a field's name "
                       "follows the dot; use --keys number, or pack into tfrecord or jsonl",
                       (int)(s->key_len < 500 ? s->key_len : 500), s->key,
                       (int)(stem < 500 ? stem : 500), s->key);
}

static int refuse_sample(const struct stk_sample *s, struct stk_err *err)
{
    int len = (int)(s->key_len < 500 ? s->key_len : 500);
    if (!s->key_len)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the sample has no key to name files after; use --keys number");
    if (!stk_key_is_safe_path(s->key, s->key_len))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "the key '%.*s' is not a safe path (absolute, '.', '..', empty or "
                           "overlong component); use --keys number",
                           len, s->key);
    if (!s->nfields)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "the sample '%.*s' has no fields", len,
                           s->key);
    for (size_t i = 0; i < s->nfields; i++) {
        int rc = refuse_field(&s->field[i], err);
        if (rc < 0)
            return rc;
    }
    return refuse_cut_key(s, err);
}

/* ---- will they come back? ---- */

/* How a reader interprets the member, from its name among the others. */
struct reading {
    const char *ext, *name;
    size_t ext_len, name_len;
    uint8_t kind;
    const char *codec;
};

static int read_name(const struct stk_members *m, size_t i, size_t stem, struct stk_buf *names,
                     struct reading *r)
{
    const struct stk_member *e = &m->item[i];
    struct stk_buf scratch = STK_BUF_INIT;
    struct stk_field_spec spec;
    *r = (struct reading){.ext = (const char *)m->text.data + e->name_at + stem + 1,
                          .ext_len = e->plain_len > stem + 1 ? e->plain_len - stem - 1 : 0};
    if (!r->ext_len)
        return 0;
    int rc = stk_member_field(r->ext, r->ext_len, &scratch, &spec, NULL);
    r->kind = spec.kind;
    r->codec = spec.codec;
    r->name_len = spec.name_len;
    stk_buf_put(names, spec.name, spec.name_len);
    stk_buf_release(&scratch);
    return rc;
}

/* A .npy of strings, complex numbers, structures or objects, which stays bytes. */
static bool is_no_numbers(const struct stk_value *v)
{
    struct stk_npy_head h;
    int rc = stk_npy_parse(v->data, v->size, &h, NULL);
    return rc == STK_E_UNSUPPORTED || (rc == 0 && (h.chars || h.complex));
}

/* The kind as which the member is read back. */
static uint8_t kind_back(const struct reading *r, const struct stk_member *e)
{
    const struct stk_value *v = &e->field->value;
    if (r->codec && strcmp(r->codec, "cls") == 0)
        return is_class(e->field) ? v->kind : STK_ARRAY;
    if (r->codec) /* npy */
        return v->kind == STK_BYTES && is_no_numbers(v) ? STK_BYTES : STK_ARRAY;
    return r->kind == STK_TEXT && !stk_is_text(v->data, v->size) ? STK_BYTES : r->kind;
}

static bool comes_back(const struct reading *r, const struct stk_member *e, bool whole)
{
    const struct stk_field *f = e->field;
    const char *name = whole ? r->ext : r->name;
    size_t len = whole ? r->ext_len : r->name_len;
    uint8_t kind = kind_back(r, e);
    /* Formats that do not distinguish text turn it into bytes: reading it as text loses nothing. */
    return len == f->name_len && memcmp(name, f->name, len) == 0 &&
           (kind == f->value.kind || (kind == STK_TEXT && f->value.kind == STK_BYTES));
}

static bool same_text(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* Gives equal texts equal numbers: extensions from 0 on, then names. */
static void number_words(const struct reading *r, size_t n, struct stk_ext_words *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (struct stk_ext_words){.text = (int)i, .name = (int)(n + i)};
        x[i].label = r[i].codec && strcmp(r[i].codec, "cls") == 0;
        for (size_t k = i; k-- > 0;)
            if (same_text(r[i].name, r[i].name_len, r[k].name, r[k].name_len))
                x[i].name = x[k].name;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (r[k].ext_len && same_text(r[i].name, r[i].name_len, r[k].ext, r[k].ext_len))
                x[i].name = (int)k;
}

/* The first member from `from` on that would be read back under another name or as another kind;
 * m->n: none, SIZE_MAX: out of memory. The payload is exempt: its extension is its name. */
static size_t first_lost(const struct stk_members *m, const struct stk_sample *s, size_t from,
                         struct stk_err *err)
{
    size_t stem = stk_member_stem(s->key, s->key_len), lost = m->n, at = 0;
    struct stk_buf names = STK_BUF_INIT;
    if (m->n == 1 && is_data(m->item[0].field))
        return m->n;
    struct reading *r = calloc(m->n + 1, sizeof *r);
    struct stk_ext_words *x = calloc(m->n + 1, sizeof *x);
    bool fine = r && x;
    for (size_t i = 0; fine && i < m->n; i++)
        fine = read_name(m, i, stem, &names, &r[i]) == 0;
    fine = fine && !names.fail;
    for (size_t i = 0; fine && i < m->n; at += r[i++].name_len)
        r[i].name = (const char *)names.data + at;
    if (fine) {
        number_words(r, m->n, x);
        stk_member_clashes(x, m->n);
    }
    for (size_t i = from; fine && lost == m->n && i < m->n; i++)
        if (!is_data(m->item[i].field) && !comes_back(&r[i], &m->item[i], x[i].whole))
            lost = i;
    if (!fine)
        (void)stk_err_nomem(err, m->n * sizeof *r);
    stk_buf_release(&names);
    free(r);
    free(x);
    return fine ? lost : SIZE_MAX;
}

static int refuse_lost(const struct stk_member *e, struct stk_err *err)
{
    const struct stk_field *f = e->field;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "the field '%.*s' (%s) would be read back as another: in names of files "
                       "what stands behind the last dot says what they hold; pack into tfrecord or "
                       "jsonl",
                       (int)(f->name_len < 200 ? f->name_len : 200), f->name,
                       stk_kind_name(f->value.kind));
}

/* Makes all members with names; m->full selects those with full names. */
static int make_named(struct stk_members *m, const struct stk_member_rules *r,
                      const struct stk_sample *s, struct stk_err *err)
{
    m->n = 0;
    stk_buf_reset(&m->text);
    stk_buf_reset(&m->packed);
    for (size_t i = 0; i < s->nfields; i++) {
        if (r->no_label && is_class(&s->field[i]) && s->nfields > 1)
            continue;
        bool full = m->full.len && m->full.data[m->n];
        int rc = add_member(m, r, s, &s->field[i], full, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int stk_members_make(struct stk_members *m, const struct stk_member_rules *r,
                     const struct stk_sample *s, struct stk_err *err)
{
    m->n = 0;
    stk_buf_reset(&m->text);
    stk_buf_reset(&m->packed);
    int rc = refuse_sample(s, err);
    if (rc < 0)
        return rc;
    if (STK_ARRAY_ROOM(m->item, m->cap, s->nfields, err))
        return STK_E_NOMEM;
    stk_buf_reset(&m->full);
    rc = make_named(m, r, s, err);
    /* Names that would be misread are written in full; if that does not help, another member causes
     * it, and all are written in full. Then they must be right. */
    for (size_t lost; rc == 0 && (lost = first_lost(m, s, 0, err)) != m->n;) {
        stk_buf_zeros(&m->full, m->full.len ? 0 : m->n);
        if (lost > m->n || stk_buf_check(&m->full, err) < 0)
            return STK_E_NOMEM;
        if (!memchr(m->full.data, 0, m->n))
            return refuse_lost(&m->item[lost], err);
        if (m->full.data[lost])
            memset(m->full.data, 1, m->n);
        for (size_t i = lost; i < m->n; i = first_lost(m, s, i + 1, err))
            m->full.data[i] = 1;
        rc = make_named(m, r, s, err);
    }
    return rc < 0 ? rc : settle(m, err);
}

int stk_members_check_payload(const struct stk_sample *s, struct stk_err *err)
{
    size_t stem = stk_member_stem(s->key, s->key_len);
    const struct stk_field *f = stem + 1 < s->key_len ? stk_sample_find(s, "data") : NULL;
    if (!f || f->value.kind != STK_BYTES)
        return 0;
    struct stk_buf scratch = STK_BUF_INIT;
    struct stk_field_spec spec;
    struct stk_npy_head h;
    const uint8_t *p = f->value.data;
    size_t n = f->value.size, bom = stk_json_bom(p, n);
    int rc = stk_member_field(s->key + stem + 1, s->key_len - stem - 1, &scratch, &spec, err);
    stk_buf_release(&scratch);
    if (rc == 0 && spec.kind == STK_JSON)
        rc = stk_json_check(p + bom, n - bom, err);
    bool bad = rc == STK_E_CORRUPT || (rc == 0 && spec.codec && strcmp(spec.codec, "npy") == 0 &&
                                       stk_npy_parse(p, n, &h, NULL) == STK_E_CORRUPT);
    return bad ? stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                             "the contents of '%.*s' do not match its name, by which it would be "
                             "read",
                             (int)(s->key_len < 500 ? s->key_len : 500), s->key)
               : rc;
}

int stk_members_prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    for (size_t i = 0; cfg->first && i < cfg->first->nfields; i++) {
        int rc = refuse_field(&cfg->first->field[i], err);
        if (rc < 0)
            return rc;
    }
    struct stk_members m = STK_MEMBERS_INIT;
    const struct stk_member_rules rules = {.data_ext = "", .no_label = cfg->label_in_key};
    int rc = cfg->first ? stk_members_make(&m, &rules, cfg->first, err) : 0;
    /* A single file with a name other than the key identifies its field. */
    cfg->grouped =
        m.n > 1 || (m.n && (m.item[0].name_len != cfg->first->key_len ||
                            memcmp(m.item[0].name, cfg->first->key, m.item[0].name_len)));
    stk_members_release(&m);
    return rc;
}
