/*
 * npz.c - NPZ: a ZIP of .npy members; the arrays of equal length are the columns of its samples.
 *
 * A stored member is an extent with computed rows; a small deflated member is decoded whole when
 * any of its rows is read, a large one is listed in pieces of some rows (zip.h). Keys and ragged
 * columns (X with X.offsets) are read while listing.
 */
#include "format_code.h"
#include "base/buf.h"
#include "base/text.h"
#include "format/numpy/npyhead.h"
#include "format/ragged.h"
#include "format/numpy/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define FILTERED_EXTENT (1u << 20)
#define EMPTY_ROWS_MAX  (1u << 24) /* empty rows cost a hostile file nothing */
#define RAGGED_MAX      256u       /* each needs buffers while listing */
#define KEY_CHARS_MAX   16384u
#define STEP            (64u << 10)

extern const struct stk_format stk_format_npz;

static const char *const suffixes[] = {".npz", NULL};

static int bid(const struct stk_probe *p)
{
    bool named = stk_format_suffix_matches(&stk_format_npz, p->name);
    bool zip = p->head_len >= 4 && memcmp(p->head, "PK\3\4", 4) == 0;
    return !named ? 0 : zip ? 90 : 30;
}

/* ---- reading a member while listing ---------------------------------------------------------- */

struct member {
    struct stk_src *src;
    const struct stk_zip_entry *e;
    struct stk_npy_head h;
    const char *name; /* without .npy */
    size_t name_len;
    char *own;      /* the name of a structure's member, else NULL */
    uint64_t whole; /* then: bytes of a structure; else 0 */
    uint64_t begin; /* offset of the first row, or of the first structure */
    /* Its pieces, if listed so; per_extent 0: it is not. */
    int64_t first_extent;
    uint64_t per_extent;
    /* Deflated members are read forwards, through a window of the last decoded bytes. */
    z_stream *z;
    struct stk_buf win;
    uint64_t win_off, in_at;
};

static int damaged(const struct member *m, const char *what, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, stk_src_path(m->src), (int64_t)m->e->data_off,
                       "member %s: %s", m->e->name, what);
}

static void member_close(struct member *m)
{
    if (m->z)
        inflateEnd(m->z);
    free(m->z);
    m->z = NULL;
    stk_buf_release(&m->win);
}

static int member_open(struct member *m, struct stk_err *err)
{
    m->z = calloc(1, sizeof *m->z);
    if (m->z && inflateInit2(m->z, -15) == Z_OK)
        return 0;
    free(m->z);
    m->z = NULL;
    return stk_err_nomem(err, sizeof *m->z);
}

/* Decodes up to STEP more bytes; drops bytes before keep_from. */
static int inflate_step(struct member *m, uint64_t keep_from, struct stk_err *err)
{
    uint64_t end = m->win_off + m->win.len, left = m->e->stored - m->in_at;
    if (keep_from > m->win_off && m->win.len) {
        size_t drop = keep_from < end ? (size_t)(keep_from - m->win_off) : m->win.len;
        memmove(m->win.data, m->win.data + drop, m->win.len - drop);
        m->win.len -= drop;
        m->win_off += drop;
    }
    const uint8_t *p;
    size_t got;
    int rc = stk_src_peek(m->src, m->e->data_off + m->in_at, left < STEP ? (size_t)left : STEP, &p,
                          &got, err);
    if (rc < 0)
        return rc;
    uint8_t *to = stk_buf_room(&m->win, STEP);
    if (!to)
        return stk_err_nomem(err, STEP);
    m->z->next_in = (Bytef *)(uintptr_t)p;
    m->z->avail_in = (uInt)got;
    m->z->next_out = to;
    m->z->avail_out = STEP;
    rc = inflate(m->z, Z_NO_FLUSH);
    m->in_at += got - m->z->avail_in;
    m->win.len += STEP - m->z->avail_out;
    bool stuck = m->z->avail_out == STEP;
    if ((rc != Z_OK && rc != Z_STREAM_END) || stuck || m->win_off + m->win.len > m->e->size)
        return damaged(m, "damaged compressed data", err);
    return 0;
}

/* Bytes [off, off + n) of the member as decoded. */
static int member_read(struct member *m, uint64_t off, void *out, size_t n, struct stk_err *err)
{
    if (off > m->e->size || n > m->e->size - off)
        return damaged(m, "it is too short", err);
    if (m->e->method == STK_ZIP_STORED) {
        uint8_t *to = out;
        for (size_t done = 0, got; done < n; done += got) {
            const uint8_t *p;
            size_t want = n - done < STEP ? n - done : STEP;
            int rc = stk_src_peek(m->src, m->e->data_off + off + done, want, &p, &got, err);
            if (rc < 0 || !got)
                return rc < 0 ? rc : damaged(m, "the file ends in it", err);
            memcpy(to + done, p, got);
        }
        return 0;
    }
    int rc = m->z ? 0 : member_open(m, err);
    if (rc == 0 && off < m->win_off)
        rc = damaged(m, "offsets that go backwards", err);
    while (rc == 0 && m->win_off + m->win.len < off + n)
        rc = inflate_step(m, off > 64 ? off - 64 : 0, err); /* 64: offsets are read with overlap */
    if (rc == 0 && n)
        memcpy(out, m->win.data + (off - m->win_off), n);
    return rc;
}

/* For ragged.h: bytes of the array itself. */
static int read_data(void *user, uint64_t off, void *out, size_t n, struct stk_err *err)
{
    struct member *m = user;
    return member_read(m, m->h.data_offset + off, out, n, err);
}

static int read_offsets(void *user, uint64_t off, void *out, size_t n, struct stk_err *err)
{
    struct member *m = user;
    int rc = read_data(m, off, out, n, err);
    uint8_t *p = out;
    for (size_t i = 0; rc == 0 && m->h.swap && i + 8 <= n; i += 8)
        stk_put_le64(p + i, __builtin_bswap64(stk_le64(p + i)));
    return rc;
}

/* ---- the arrays of a file -------------------------------------------------------------------- */

struct npz {
    struct stk_lister *l;
    struct stk_src *src;
    struct stk_zip zip;
    struct member *member;
    struct stk_table_array *array; /* the same numbers */
    size_t n, nragged;
    struct stk_npy_records *records; /* of the array looked at */
    struct member *key_member;       /* keys of fixed-width text */
    struct stk_buf key;              /* the current key, as UTF-8 */
    char left_out[256];              /* the last array left out, and why */
};

static int refuse(const struct npz *f, const struct stk_zip_entry *e, const char *why,
                  struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(f->src), (int64_t)e->header_off, "%s",
                       why);
}

/* An unreadable array does not hide the others. */
static int leave_out(struct npz *f, const struct stk_zip_entry *e, const char *why,
                     struct stk_err *err)
{
    snprintf(f->left_out, sizeof f->left_out, ": %.60s: %.170s", e->name, why);
    char name[200];
    bool npy = e->name_len > 4 && memcmp(e->name + e->name_len - 4, ".npy", 4) == 0;
    snprintf(name, sizeof name, "%.*s", (int)(e->name_len < 199 ? e->name_len - 4 * npy : 199),
             e->name);
    return stk_list_left_out(f->l, "member", name, why, err);
}

static uint64_t row_bytes(const struct stk_npy_head *h)
{
    uint64_t bytes = h->itemsize;
    for (unsigned i = 1; i < h->ndim; i++)
        bytes *= h->dim[i];
    return bytes;
}

static int check_entry(const struct npz *f, const struct stk_zip_entry *e, struct stk_err *err)
{
    if (e->flags & 1)
        return refuse(f, e, "it is encrypted", err);
    if (e->method != STK_ZIP_STORED && e->method != STK_ZIP_DEFLATED)
        return refuse(f, e, "it is neither stored nor deflated", err);
    return 0;
}

/* What is wrong with an array's header and size; NULL: nothing. */
static const char *misfit(const struct member *m)
{
    uint64_t size;
    if (__builtin_add_overflow(m->h.data_offset, m->h.data_bytes, &size) || size != m->e->size)
        return "its size is not that of the array in it";
    if (m->h.ndim && m->h.dim[0] > EMPTY_ROWS_MAX && !row_bytes(&m->h))
        return "too many rows without data";
    return NULL;
}

/* Reads the header of one member: 1 an array, 0 left out (and reported if damaged). */
static int open_array(struct npz *f, struct member *m, struct stk_err *err)
{
    uint8_t head[STK_NPY_HEAD_MAX];
    size_t n = m->e->size < sizeof head ? (size_t)m->e->size : sizeof head;
    struct stk_err why;
    int rc = check_entry(f, m->e, &why);
    if (rc == 0)
        rc = member_read(m, 0, head, n, &why);
    member_close(m);
    m->win_off = m->in_at = 0;
    f->records->n = 0;
    bool parsed = rc == 0;
    if (parsed)
        rc = stk_npy_parse(head, n, &m->h, &why);
    struct stk_err other;
    if (rc == STK_E_UNSUPPORTED && stk_npy_parse_records(head, n, &m->h, f->records, &other) == 0)
        rc = 0;
    else if (rc < 0)
        f->records->n = 0;
    if (rc == STK_E_UNSUPPORTED) /* objects, structures, dates: not supported */
        return leave_out(f, m->e, why.what, err);
    if (parsed && rc < 0)
        rc = stk_err_wrap(&why, rc, "NPY header");
    const char *wrong = rc == 0 ? misfit(m) : why.what;
    if (rc < 0 && rc != STK_E_CORRUPT)
        return stk_err_set(err, rc, stk_src_path(f->src), (int64_t)m->e->data_off, "%s", why.what);
    if (wrong) {
        rc = stk_list_problem(f->l, (int64_t)m->e->data_off, err, "member %s: %s", m->e->name,
                              wrong);
        return rc < 0 ? rc : 0;
    }
    return 1;
}

static int add_array(struct npz *f, const struct member *m, struct stk_err *err)
{
    struct stk_table_array a = {.name = m->name,
                                .name_len = m->name_len,
                                .kind = m->h.chars == 'S'   ? STK_BYTES
                                        : m->h.chars == 'U' ? STK_TEXT
                                                            : STK_ARRAY,
                                .dtype = m->h.dtype,
                                .ndim = m->h.ndim,
                                .bytes = m->h.data_bytes};
    memcpy(a.dim, m->h.dim, sizeof m->h.dim);
    if (STK_ARRAY_MORE(f->member, f->n, err) || STK_ARRAY_MORE(f->array, f->n, err))
        return STK_E_NOMEM;
    f->member[f->n] = *m;
    f->array[f->n++] = a;
    return 0;
}

/* Adds the members of a list of structures: "table/name". */
static int add_members(struct npz *f, const struct member *table, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < f->records->n; i++) {
        const struct stk_npy_member *x = &f->records->member[i];
        struct stk_buf name = STK_BUF_INIT;
        stk_buf_printf(&name, "%.*s/%.*s", (int)table->name_len, table->name, (int)x->name_len,
                       x->name);
        rc = stk_buf_check(&name, err);
        if (rc == 0 && !stk_list_wants(f->l, stk_buf_cstr(&name)))
            ;
        else if (rc == 0 && x->why[0]) {
            rc = stk_list_left_out(f->l, "column", stk_buf_cstr(&name), x->why, err);
        } else if (rc == 0) {
            struct member m = *table;
            m.own = strdup(stk_buf_cstr(&name));
            m.name = m.own;
            m.name_len = name.len;
            m.whole = table->h.itemsize;
            m.h = x->h;
            rc = m.own ? add_array(f, &m, err) : stk_err_nomem(err, name.len);
            if (rc < 0)
                free(m.own);
        }
        stk_buf_release(&name);
    }
    return rc;
}

/* One entry of the archive. */
static int take_entry(struct npz *f, const struct stk_zip_entry *e, struct stk_err *err)
{
    if (e->name_len < 5 || memcmp(e->name + e->name_len - 4, ".npy", 4) != 0) {
        bool folder = e->name_len && e->name[e->name_len - 1] == '/';
        return folder || stk_list_opts(f->l)->datasets
                   ? 0
                   : leave_out(f, e, "it is not an array (.npy)", err);
    }
    char name[512];
    snprintf(name, sizeof name, "%.*s", (int)(e->name_len - 4 < 511 ? e->name_len - 4 : 511),
             e->name);
    if (!stk_list_wants(f->l, name))
        return 0;
    struct member m = {.src = f->src, .e = e, .name = e->name, .name_len = e->name_len - 4};
    int rc = open_array(f, &m, err);
    if (rc <= 0)
        return rc;
    m.begin = m.h.data_offset;
    return f->records->n ? add_members(f, &m, err) : add_array(f, &m, err);
}

static int open_arrays(struct npz *f, struct stk_err *err)
{
    int rc = 0;
    f->records = malloc(sizeof *f->records);
    if (!f->records)
        return stk_err_nomem(err, sizeof *f->records);
    for (size_t i = 0; rc == 0 && i < f->zip.nentries; i++)
        rc = take_entry(f, &f->zip.entry[i], err);
    if (rc == 0 && !f->n && f->left_out[0])
        rc = stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(f->src), -1,
                         "no array in it can be read%s", f->left_out);
    return rc;
}

/* ---- columns ------------------------------------------------------------------------------- */

/* The filters after decompression. */
static struct stk_chain tail_of(const struct member *m)
{
    struct stk_chain c = {0};
    if (m->h.swap) {
        c.step[c.nsteps].id = STK_FILTER_BSWAP;
        c.step[c.nsteps++].arg = stk_npy_unit(&m->h);
    }
    return c;
}

/* The filter chain of a member. Limits are powers of two, so that few chains serve all members. */
static struct stk_chain chain_of(const struct member *m)
{
    struct stk_chain c = {.nsteps = 1, .step[0].id = STK_FILTER_DEFLATE, .max_decoded = 4096};
    const struct stk_chain tail = tail_of(m);
    if (m->e->method != STK_ZIP_DEFLATED)
        return tail;
    while (c.max_decoded < m->e->size)
        c.max_decoded *= 2;
    for (uint32_t i = 0; i < tail.nsteps; i++)
        c.step[c.nsteps++] = tail.step[i];
    return c;
}

/* The member as one extent, with its checksum if the filters leave its bytes unchanged. */
static int list_whole(struct npz *f, const struct member *m, struct stk_stripe *c,
                      struct stk_err *err)
{
    struct stk_chain chain = chain_of(m);
    c->base = m->h.data_offset;
    if (m->h.swap && m->h.data_offset % stk_npy_unit(&m->h))
        return refuse(f, m->e, "it is deflated, big-endian and not aligned", err);
    c->first_extent = stk_list_extent(f->l, m->e->data_off, m->e->stored, &chain, err);
    if (c->first_extent < 0)
        return (int)c->first_extent;
    return m->h.swap ? 0 : stk_list_crc32(f->l, m->e->crc, err);
}

static int list_found(struct npz *f, const struct member *m, const struct stk_pieces *p,
                      struct stk_stripe *c, struct stk_err *err)
{
    bool right = !p->damaged && p->crc == m->e->crc;
    int rc = 0;
    if (p->length > STK_PIECE_MOST)
        return refuse(
            f, m->e,
            "it is deflated in blocks of more than 1 GiB, of which every row needs a whole one "
            "decoded; numpy.savez does without",
            err);
    if (!right)
        rc = stk_list_problem(f->l, (int64_t)m->e->data_off, err, "member %s: %s", m->e->name,
                              p->damaged ? "damaged compressed data"
                                         : "the data's checksum does not match");
    const struct stk_chain tail = tail_of(m);
    c->base = m->h.data_offset - m->begin;
    c->per_extent = p->length / p->unit;
    c->first_extent = rc < 0 ? rc : stk_pieces_list(p, f->l, &tail, right && !m->h.swap, err);
    return c->first_extent < 0 ? (int)c->first_extent : 0;
}

/* A large deflated member: pieces of some rows (of `unit` bytes), so that reading a row does not
 * decode everything. Members of one structure share them. */
static int list_pieces(struct npz *f, struct member *m, uint64_t unit, struct stk_stripe *c,
                       struct stk_err *err)
{
    for (const struct member *x = f->member; x < m; x++)
        if (x->e == m->e && x->per_extent) {
            c->base = m->h.data_offset - m->begin;
            c->per_extent = x->per_extent;
            c->first_extent = x->first_extent;
            return 0;
        }
    struct stk_pieces p = {.off = m->e->data_off,
                           .stored = m->e->stored,
                           .size = m->e->size,
                           .begin = m->begin,
                           .end = m->e->size,
                           .unit = unit};
    int rc = stk_pieces_find(&p, f->l, err);
    if (rc == 0)
        rc = list_found(f, m, &p, c, err);
    m->first_extent = c->first_extent;
    m->per_extent = rc == 0 ? c->per_extent : 0;
    stk_pieces_release(&p);
    return rc;
}

/* A member's rows, each of `unit` bytes. */
static int list_rows(struct npz *f, struct member *m, uint64_t unit, struct stk_stripe *c,
                     struct stk_err *err)
{
    bool large = m->e->method == STK_ZIP_DEFLATED && m->e->size > STK_PIECES_LEAST;
    return large && unit ? list_pieces(f, m, unit, c, err) : list_whole(f, m, c, err);
}

/* A stored big-endian member: extents of whole rows, because a filter decodes whole extents. */
static int list_swapped(struct npz *f, const struct member *m, uint64_t count, struct stk_stripe *c,
                        struct stk_err *err)
{
    struct stk_chain chain = chain_of(m);
    uint64_t start = m->e->data_off + m->h.data_offset, row = c->length;
    c->per_extent = row < FILTERED_EXTENT ? FILTERED_EXTENT / row : 1;
    for (uint64_t k = 0; k < count; k += c->per_extent) {
        uint64_t n = count - k < c->per_extent ? count - k : c->per_extent;
        int64_t x = stk_list_extent(f->l, start + k * row, n * row, &chain, err);
        if (x < 0)
            return (int)x;
        if (k == 0)
            c->first_extent = x;
    }
    return 0;
}

static int uniform_column(struct npz *f, struct member *m, uint64_t count,
                          struct stk_table_column *t, struct stk_err *err)
{
    struct stk_stripe *c = &t->place;
    t->how = STK_TABLE_UNIFORM;
    t->spec.kind = stk_npy_kind(&m->h);
    t->spec.codec = stk_npy_codec(&m->h);
    t->spec.dtype = m->h.dtype;
    t->spec.ndim = (uint8_t)(m->h.ndim - 1);
    memcpy(t->spec.dim, m->h.dim + 1, t->spec.ndim * sizeof *t->spec.dim);
    c->length = c->stride = row_bytes(&m->h);
    if (m->whole)
        c->stride = m->whole;
    c->per_extent = count ? count : 1;
    if (m->h.chars && m->h.ndim > 1 && (m->h.chars == 'U' || m->h.itemsize > 1))
        return refuse(f, m->e, "it has several strings in a row", err);
    if (m->h.fortran)
        return refuse(f, m->e,
                      "it is in Fortran order, with scattered rows; save "
                      "numpy.ascontiguousarray(a)",
                      err);
    if (m->h.swap && m->e->method == STK_ZIP_STORED && c->length && count)
        return list_swapped(f, m, count, c, err);
    return list_rows(f, m, c->stride, c, err);
}

/* The kind of the bytes of X, from X.kind. */
static int kind_of(struct npz *f, const struct member *x, uint8_t *kind, struct stk_err *err)
{
    static const char suffix[] = "." STK_RAGGED_KIND;
    *kind = STK_BYTES;
    for (size_t i = 0; i < f->n; i++) {
        struct member *m = &f->member[i];
        char text[16];
        if (m->h.chars != 'S' || m->h.ndim || m->h.itemsize > sizeof text ||
            m->name_len != x->name_len + strlen(suffix) ||
            memcmp(m->name, x->name, x->name_len) != 0 ||
            memcmp(m->name + x->name_len, suffix, strlen(suffix)) != 0)
            continue;
        int rc = read_data(m, 0, text, (size_t)m->h.itemsize, err);
        member_close(m);
        if (rc == 0)
            *kind = stk_ragged_kind_find(text, (size_t)m->h.itemsize);
        return rc;
    }
    return 0;
}

static int ragged_column(struct npz *f, struct member *x, struct member *offsets,
                         struct stk_table_column *t, struct stk_err *err)
{
    t->how = STK_TABLE_RAGGED;
    t->data_bytes = x->h.data_bytes;
    t->read_offsets = read_offsets;
    t->read_offsets_user = offsets;
    t->read_data = read_data;
    t->read_data_user = x;
    t->place.per_extent = x->h.data_bytes ? x->h.data_bytes : 1;
    if (++f->nragged > RAGGED_MAX)
        return refuse(f, x->e, "the file has too many ragged columns", err);
    if (t->is_key)
        return 0;
    int rc = kind_of(f, x, &t->spec.kind, err);
    return rc < 0 ? rc : list_rows(f, x, 1, &t->place, err);
}

/* Row `row` of an array of fixed-width text, which numpy makes from a list of str or bytes. */
static int fixed_key(void *user, uint64_t row, const char **key, size_t *len, struct stk_err *err)
{
    struct npz *f = user;
    struct member *m = f->key_member;
    size_t n = (size_t)m->h.itemsize, unit = m->h.chars == 'U' ? 4 : 1;
    stk_buf_reset(&f->key);
    uint8_t *raw = stk_buf_room(&f->key, n * 2);
    if (!raw)
        return stk_err_nomem(err, n);
    int rc = read_data(m, row * n, raw, n, err);
    while (n >= unit && !memcmp(raw + n - unit, "\0\0\0", unit)) /* NUL-padded */
        n -= unit;
    *key = (char *)raw;
    *len = n;
    if (rc < 0 || unit == 1)
        return rc;
    char *text = (char *)raw + m->h.itemsize;
    *key = text;
    *len = 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        uint32_t cp = stk_le32(raw + i);
        cp = m->h.swap ? __builtin_bswap32(cp) : cp;
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            return damaged(m, "a key is not Unicode", err);
        *len += stk_utf8_put(text + *len, cp);
    }
    return 0;
}

static int make_column(struct npz *f, size_t i, uint64_t count, struct stk_table_column *t,
                       struct stk_err *err)
{
    struct member *m = &f->member[i];
    const struct stk_table_array *a = &f->array[i];
    *t = (struct stk_table_column){
        .spec = {.name = a->name, .name_len = a->name_len, .kind = STK_BYTES}, .is_key = a->is_key};
    if (a->pair != SIZE_MAX)
        return ragged_column(f, m, &f->member[a->pair], t, err);
    if (!a->is_key)
        return uniform_column(f, m, count, t, err);
    t->how = STK_TABLE_OTHER;
    t->key = fixed_key;
    t->user = f;
    f->key_member = m;
    if (m->h.ndim != 1 || m->h.itemsize > 4 * KEY_CHARS_MAX)
        return refuse(f, m->e, "it cannot be the samples' keys", err);
    return 0;
}

/* Skips arrays that describe others: X.kind is the kind of the bytes of X. */
static void skip_kinds(struct npz *f)
{
    static const char suffix[] = "." STK_RAGGED_KIND;
    size_t n = strlen(suffix);
    for (size_t i = 0; i < f->n; i++) {
        const struct stk_table_array *a = &f->array[i];
        if (a->ndim || a->name_len <= n || memcmp(a->name + a->name_len - n, suffix, n) != 0)
            continue;
        for (size_t k = 0; k < f->n; k++)
            if (f->array[k].pair != SIZE_MAX && f->array[k].name_len == a->name_len - n &&
                memcmp(f->array[k].name, a->name, a->name_len - n) == 0)
                f->array[i].skip = true;
    }
}

static int make_columns(struct npz *f, uint64_t count, struct stk_table_column *t, size_t *n,
                        struct stk_err *err)
{
    for (size_t i = 0; i < f->n; i++) {
        struct stk_err why = {.offset = -1};
        if (!f->array[i].column)
            continue;
        int rc = make_column(f, i, count, &t[*n], &why);
        if (rc == 0 && f->member[i].h.complex)
            rc = stk_list_taken(f->l, "array", STK_NPY_PAIRS, &why);
        *n += rc == 0;
        if (rc == STK_E_UNSUPPORTED)
            rc = leave_out(f, f->member[i].e, why.what, err);
        else if (rc < 0 && err)
            *err = why;
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int list_columns(struct npz *f, struct stk_err *err)
{
    int rc = stk_table_split(f->l, f->array, f->n, err);
    uint64_t count = stk_table_choose(f->array, f->n);
    struct stk_table_column *t = calloc(f->n + 1, sizeof *t);
    size_t n = 0;
    if (!t)
        return stk_err_nomem(err, f->n * sizeof *t);
    skip_kinds(f);
    if (rc == 0)
        rc = stk_table_report(f->l, f->array, f->n, "member", true, err);
    if (rc == 0)
        rc = make_columns(f, count, t, &n, err);
    if (rc == 0 && f->n && !n)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(f->src), -1,
                         "no array in it can be read as samples%s", f->left_out);
    if (rc == 0 && n)
        rc = stk_table_list(f->l, t, n, count, stk_src_path(f->src), err);
    free(t);
    return rc;
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct npz f = {.l = l, .src = src};
    struct stk_err why;
    int rc = stk_zip_read(&f.zip, src, &why);
    if (rc == STK_E_CORRUPT)
        rc = stk_list_problem(l, why.offset, err, "%s", why.what);
    else if (rc < 0 && err)
        *err = why;
    else if (rc == 0)
        rc = open_arrays(&f, err);
    if (rc == 0)
        rc = list_columns(&f, err);
    for (size_t i = 0; i < f.n; i++) {
        member_close(&f.member[i]);
        free(f.member[i].own);
    }
    free(f.records);
    free(f.member);
    free(f.array);
    stk_buf_release(&f.key);
    stk_zip_release(&f.zip);
    return rc;
}

static const struct stk_format_use use = {
    .how = STK_USE_SAMPLE | STK_USE_LIBRARY,
    .package = "numpy",
    .open = stk_code_npz_open_py,
    .parse = stk_code_npz_parse_py,
    .keep = stk_code_npz_keep_py,
};

const struct stk_format stk_format_npz = {
    .name = "npz",
    .title = "NPZ",
    .holds = STK_HOLDS_KEY,
    .suffix = ".npz",
    .suffixes = suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_DEFLATE | STK_CAN_BE_SAMPLE |
            STK_CAN_PICK | STK_CAN_BE_ARRAYS,
    .bid = bid,
    .list = list,
    .prepare = stk_npz_prepare,
    .unprepare = stk_npz_unprepare,
    .encode = stk_npz_encode,
    .begin = stk_npz_begin,
    .append = stk_npz_append,
    .finish = stk_npz_finish,
    .abort = stk_npz_abort,
    .use = &use,
};
