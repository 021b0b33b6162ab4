/*
 * lister.c - turns stk_list_* calls into events, numbering fields, chains and extents.
 *
 * In a compressed file byte ranges are cut at its access points, so that formats list compressed
 * and plain files with the same code.
 */
#include "format/lister.h"
#include "base/buf.h"
#include "base/text.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct lister_field {
    char *name; /* NULL: empty slot */
    size_t len;
    char codec[16];
    uint8_t kind;
    int number;
};

void stk_lister_init(struct stk_lister *l, struct stk_sink *sink, struct stk_src *src,
                     const struct stk_list_options *opts)
{
    *l = (struct stk_lister){.sink = sink, .opts = opts, .src = src, .resume_chain = -1};
}

void stk_lister_release(struct stk_lister *l)
{
    for (uint32_t i = 0; i < l->fields_cap; i++)
        free(l->fields[i].name);
    free(l->fields);
    free(l->chain);
    *l = (struct stk_lister){0};
}

const struct stk_list_options *stk_list_opts(const struct stk_lister *l)
{
    return l->opts;
}

/* Matches a glob, a group whose arrays are wanted, or an array in a wanted group. */
static bool is_wanted(const char *glob, const char *name, size_t len)
{
    size_t n = strlen(glob);
    char own[512];
    snprintf(own, sizeof own, "%.*s", (int)len, name);
    return fnmatch(glob, own, 0) == 0 || (len > n && own[n] == '/' && memcmp(own, glob, n) == 0) ||
           (n > len && glob[len] == '/' && memcmp(own, glob, len) == 0);
}

bool stk_list_wants(const struct stk_lister *l, const char *name)
{
    size_t len = strlen(name);
    if (!l->opts || !l->opts->datasets)
        return true;
    if (stk_name_has_suffix(name, len, ".offsets")) /* belongs to its array */
        len -= strlen(".offsets");
    for (const char *p = l->opts->datasets; p; p = strchr(p, ','), p = p ? p + 1 : NULL) {
        char glob[512];
        snprintf(glob, sizeof glob, "%.*s", (int)strcspn(p, ","), p);
        if (len < sizeof glob && is_wanted(glob, name, len))
            return true;
    }
    return false;
}

static int emit(struct stk_lister *l, const struct stk_event *e, struct stk_err *err)
{
    return l->sink->event(l->sink, e, err);
}

/* ---- chains ---- */

static bool chain_equal(const struct stk_chain *a, const struct stk_chain *b)
{
    if (a->nsteps != b->nsteps || a->max_decoded != b->max_decoded)
        return false;
    for (uint32_t i = 0; i < a->nsteps; i++)
        if (a->step[i].id != b->step[i].id || a->step[i].arg != b->step[i].arg)
            return false;
    return true;
}

/* The local number of a chain (STK_NO_CHAIN for none), negative on error. */
static int chain_number(struct stk_lister *l, const struct stk_chain *c, struct stk_err *err)
{
    if (!c || !c->nsteps)
        return STK_NO_CHAIN;
    for (uint32_t i = l->nchains; i-- > 0;)
        if (chain_equal(&l->chain[i], c))
            return (int)i;
    if (l->nchains >= 250)
        return stk_err_set(err, STK_E_UNSUPPORTED, l->src ? stk_src_path(l->src) : NULL, -1,
                           "more than 250 different filter chains in one file");
    if (STK_ARRAY_MORE(l->chain, l->nchains, err))
        return STK_E_NOMEM;
    l->chain[l->nchains] = *c;
    struct stk_event e = {.type = STK_EV_CHAIN, .blob = c, .blob_len = sizeof *c};
    int rc = emit(l, &e, err);
    return rc < 0 ? rc : (int)l->nchains++;
}

/* ---- fields ---- */

static uint32_t name_hash(const char *p, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a: names are short */
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)p[i]) * 16777619u;
    return h;
}

static struct lister_field *field_slot(struct lister_field *t, uint32_t cap, const char *name,
                                       size_t len, const char *codec, uint8_t kind)
{
    for (uint32_t i = name_hash(name, len) & (cap - 1);; i = (i + 1) & (cap - 1))
        if (!t[i].name || (t[i].len == len && memcmp(t[i].name, name, len) == 0 &&
                           t[i].kind == kind && strcmp(t[i].codec, codec) == 0))
            return &t[i];
}

static int fields_grow(struct stk_lister *l, struct stk_err *err)
{
    uint32_t cap = l->fields_cap ? l->fields_cap * 2 : 64;
    struct lister_field *t = calloc(cap, sizeof *t);
    if (!t)
        return stk_err_nomem(err, cap * sizeof *t);
    for (uint32_t i = 0; i < l->fields_cap; i++)
        if (l->fields[i].name)
            *field_slot(t, cap, l->fields[i].name, l->fields[i].len, l->fields[i].codec,
                        l->fields[i].kind) = l->fields[i];
    free(l->fields);
    l->fields = t;
    l->fields_cap = cap;
    return 0;
}

static int field_emit(struct stk_lister *l, const struct stk_field_spec *spec, size_t len,
                      const char *codec, struct stk_err *err)
{
    struct stk_field_wire w = {.kind = spec->kind, .dtype = spec->dtype, .ndim = spec->ndim};
    snprintf(w.codec, sizeof w.codec, "%s", codec);
    memcpy(w.dim, spec->dim, sizeof w.dim);
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_put(&b, &w, sizeof w);
    stk_buf_put(&b, spec->name, len);
    struct stk_event e = {.type = STK_EV_FIELD, .blob = b.data, .blob_len = (uint32_t)b.len};
    int rc = stk_buf_check(&b, err);
    if (rc == 0)
        rc = emit(l, &e, err);
    stk_buf_release(&b);
    return rc;
}

int stk_list_field(struct stk_lister *l, const struct stk_field_spec *spec, struct stk_err *err)
{
    size_t len = spec->name_len ? spec->name_len : strlen(spec->name);
    const char *codec = spec->codec ? spec->codec : "";
    if (l->fields_cap) {
        struct lister_field *f =
            field_slot(l->fields, l->fields_cap, spec->name, len, codec, spec->kind);
        if (f->name)
            return f->number;
    }
    if (len > 4096 || l->nfields >= 65535 || spec->ndim > STK_MAX_NDIM)
        return stk_err_set(err, STK_E_UNSUPPORTED, l->src ? stk_src_path(l->src) : NULL, -1,
                           "too many fields, or a field's name or shape is too long");
    if (l->nfields * 2 >= l->fields_cap && fields_grow(l, err) < 0)
        return STK_E_NOMEM;
    int rc = field_emit(l, spec, len, codec, err);
    if (rc < 0)
        return rc;
    struct lister_field *f =
        field_slot(l->fields, l->fields_cap, spec->name, len, codec, spec->kind);
    f->name = malloc(len + 1);
    if (!f->name)
        return stk_err_nomem(err, len + 1);
    memcpy(f->name, spec->name, len);
    f->name[len] = '\0';
    f->len = len;
    snprintf(f->codec, sizeof f->codec, "%s", codec);
    f->kind = spec->kind;
    f->number = (int)l->nfields++;
    return f->number;
}

int stk_list_context(struct stk_lister *l, const char *text, size_t len, struct stk_err *err)
{
    if (len > STK_EVENT_BLOB_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(l->src), -1,
                           "the description of the columns takes more than 16 MiB");
    struct stk_event e = {.type = STK_EV_CONTEXT, .blob = text, .blob_len = (uint32_t)len};
    return emit(l, &e, err);
}

/* ---- extents and samples of plain files ---- */

int64_t stk_list_extent(struct stk_lister *l, uint64_t offset, uint64_t length,
                        const struct stk_chain *chain, struct stk_err *err)
{
    int number = chain_number(l, chain, err);
    if (number < 0)
        return number;
    struct stk_event e = {
        .type = STK_EV_EXTENT, .chain = (uint16_t)number, .a = offset, .b = length};
    int rc = emit(l, &e, err);
    return rc < 0 ? rc : (int64_t)l->nextents++;
}

int stk_list_crc32(struct stk_lister *l, uint32_t crc, struct stk_err *err)
{
    struct stk_event e = {.type = STK_EV_CRC, .a = crc};
    return emit(l, &e, err);
}

int stk_list_record_filtered(struct stk_lister *l, int field, uint64_t off, uint64_t len,
                             const struct stk_chain *chain, const char *key, size_t key_len,
                             struct stk_err *err)
{
    int number = chain_number(l, chain, err);
    if (number < 0)
        return number;
    struct stk_event e = {.type = STK_EV_RECORD,
                          .has_key = key != NULL,
                          .chain = (uint16_t)number,
                          .field = (uint32_t)field,
                          .a = off,
                          .b = len,
                          .blob = key,
                          .blob_len = (uint32_t)key_len};
    int rc = emit(l, &e, err);
    l->nextents += rc == 0;
    return rc;
}

int stk_list_sample(struct stk_lister *l, const char *key, size_t key_len, struct stk_err *err)
{
    struct stk_event e = {
        .type = STK_EV_SAMPLE, .has_key = key != NULL, .blob = key, .blob_len = (uint32_t)key_len};
    return emit(l, &e, err);
}

int stk_list_part(struct stk_lister *l, int field, int64_t extent, uint64_t offset, uint64_t length,
                  struct stk_err *err)
{
    struct stk_event e = {.type = STK_EV_PART,
                          .field = (uint32_t)field,
                          .a = offset,
                          .b = length,
                          .c = (uint64_t)extent};
    return emit(l, &e, err);
}

int stk_list_column(struct stk_lister *l, const struct stk_stripe *c, uint64_t count,
                    struct stk_err *err)
{
    struct stk_event e = {.type = STK_EV_COLUMN, .a = count, .blob = c, .blob_len = sizeof *c};
    return emit(l, &e, err);
}

int stk_list_key(struct stk_lister *l, const char *key, size_t key_len, struct stk_err *err)
{
    struct stk_event e = {
        .type = STK_EV_KEY, .has_key = true, .blob = key, .blob_len = (uint32_t)key_len};
    return emit(l, &e, err);
}

int stk_list_problem(struct stk_lister *l, int64_t offset, struct stk_err *err, const char *fmt,
                     ...)
{
    char text[sizeof err->what];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (l->src && stk_src_is_stream(l->src) && offset >= 0 && n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, " (at this offset of the decompressed data)");
    struct stk_event e = {.type = STK_EV_PROBLEM,
                          .a = (uint64_t)offset,
                          .blob = text,
                          .blob_len = (uint32_t)strlen(text)};
    return emit(l, &e, err);
}

static int emit_note(struct stk_lister *l, uint8_t type, const char *a, const char *b,
                     const char *c, struct stk_err *err)
{
    const char *text[] = {a, b, c};
    char blob[3 * STK_NOTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < 3; i++) {
        size_t len = strnlen(text[i], STK_NOTE_MAX - 1);
        memcpy(blob + n, text[i], len);
        blob[n + len] = '\0';
        n += len + 1;
    }
    struct stk_event e = {.type = type, .blob = blob, .blob_len = (uint32_t)n};
    return emit(l, &e, err);
}

int stk_list_left_out(struct stk_lister *l, const char *kind, const char *name, const char *why,
                      struct stk_err *err)
{
    return emit_note(l, STK_EV_LEFT_OUT, kind, name, why, err);
}

int stk_list_taken(struct stk_lister *l, const char *what, const char *as, const char *because,
                   struct stk_err *err)
{
    return emit_note(l, STK_EV_TAKEN, what, as, because, err);
}

bool stk_event_texts(const void *blob, size_t len, const char *text[3])
{
    const char *p = blob, *end = p + len;
    for (size_t i = 0; i < 3; i++) {
        const char *nul = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
        if (!nul)
            return false;
        text[i] = p;
        p = nul + 1;
    }
    return p == end;
}

/* ---- byte ranges, in plain and in compressed files ---- */

int64_t stk_list_point(struct stk_lister *l, const struct stk_access_point *p,
                       const struct stk_chain *tail, struct stk_err *err)
{
    struct stk_chain c = {.nsteps = 1, .step[0].id = STK_FILTER_RESUME};
    for (uint32_t i = 0; tail && i < tail->nsteps && c.nsteps < STK_CHAIN_MAX; i++)
        c.step[c.nsteps++] = tail->step[i];
    int64_t extent = stk_list_extent(l, p->in_off, p->in_len, &c, err);
    struct stk_event e = {.type = STK_EV_POINT,
                          .a = p->decoded_len,
                          .b = p->bits,
                          .c = p->lead,
                          .blob = p->window,
                          .blob_len = (uint32_t)p->window_len};
    int rc = extent < 0 ? (int)extent : emit(l, &e, err);
    return rc < 0 ? rc : extent;
}

int stk_list_at(struct stk_lister *l, uint64_t off, struct stk_err *err)
{
    return emit(l, &(struct stk_event){.type = STK_EV_AT, .a = off}, err);
}

/* Reports the extents of the access points that are complete (last: also the open one). */
static int drain_points(struct stk_lister *l, bool last, struct stk_err *err)
{
    struct stk_access_point p;
    while (stk_src_take_point(l->src, last, &p)) {
        int64_t extent = stk_list_point(l, &p, NULL, err);
        free(p.window);
        if (extent < 0)
            return (int)extent;
    }
    return 0;
}

#define ADVANCE_STEP (1u << 20)

int stk_lister_finish(struct stk_lister *l, struct stk_err *err)
{
    if (!l->src || !stk_src_is_stream(l->src))
        return 0;
    /* Bytes the format skipped (a tar's padding) still count in the file's checksum. */
    bool known = stk_src_told_damage(l->src); /* and so reported */
    struct stk_err why = {0};
    int rc = 0, more;
    while ((more = stk_src_drain(l->src, ADVANCE_STEP, &why)) > 0 && rc == 0)
        rc = drain_points(l, false, err);
    if (rc == 0)
        rc = drain_points(l, true, err);
    if (rc == 0 && more < 0 && !known)
        rc = stk_list_problem(l, why.offset, err, "%s", why.what);
    return rc;
}

/* Decodes up to the end of a range, so that the access points in it are known. */
static int stream_decode(struct stk_lister *l, uint64_t off, uint64_t len, struct stk_err *err)
{
    uint64_t end;
    if (__builtin_add_overflow(off, len, &end))
        return stk_err_set(err, STK_E_CORRUPT, stk_src_path(l->src), (int64_t)off,
                           "a length runs past any file's end");
    int rc = drain_points(l, false, err);
    for (uint64_t at = off; rc == 0 && at < end;) {
        at = end - at > ADVANCE_STEP ? at + ADVANCE_STEP : end;
        rc = stk_src_advance(l->src, at, err);
        if (rc == 0)
            rc = drain_points(l, false, err);
    }
    return rc;
}

/* One part for every access point's extent the (decoded) range touches. */
static int stream_parts(struct stk_lister *l, int field, uint64_t off, uint64_t len,
                        struct stk_err *err)
{
    for (;;) {
        uint64_t begins, ends, point = stk_src_point_of(l->src, off, &begins, &ends);
        uint64_t n = len < ends - off ? len : ends - off;
        int rc = stk_list_part(l, field, (int64_t)point, off - begins, n, err);
        off += n;
        len -= n;
        if (rc < 0 || !len)
            return rc;
    }
}

int stk_list_part_bytes(struct stk_lister *l, int field, uint64_t off, uint64_t len,
                        struct stk_err *err)
{
    if (stk_src_is_stream(l->src)) {
        int rc = stream_decode(l, off, len, err);
        return rc < 0 ? rc : stream_parts(l, field, off, len, err);
    }
    int64_t extent = stk_list_extent(l, off, len, NULL, err);
    return extent < 0 ? (int)extent : stk_list_part(l, field, extent, 0, len, err);
}

int stk_list_record(struct stk_lister *l, int field, uint64_t off, uint64_t len, const char *key,
                    size_t key_len, struct stk_err *err)
{
    if (!stk_src_is_stream(l->src))
        return stk_list_record_filtered(l, field, off, len, NULL, key, key_len, err);
    /* Decodes first: a range that cannot be decoded is not a sample. */
    int rc = stream_decode(l, off, len, err);
    if (rc == 0)
        rc = stk_list_sample(l, key, key_len, err);
    if (rc == 0)
        rc = stream_parts(l, field, off, len, err);
    struct stk_event end = {.type = STK_EV_END};
    return rc < 0 ? rc : emit(l, &end, err);
}
