/*
 * npz_write.c - writing NPZ: a ZIP in which every column is one member.
 *
 * Rows of the columns arrive interleaved, so they are spooled: each column fills a buffer, full
 * buffers go to one nameless scratch file, and at the end every column is copied from it in order.
 */
#include "base/buf.h"
#include "base/file.h"
#include "base/spool.h"
#include "format/numpy/npyhead.h"
#include "format/ragged.h"
#include "format/numpy/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#define BUFFERS_TOTAL (32u << 20) /* of all columns together */
#define BUFFER_MAX    (1u << 20)
#define BUFFER_MIN    (4u << 10)
#define LEVEL_DEFAULT 6

/* ---- preparing ---------------------------------------------------------------------------- */

void stk_npz_unprepare(struct stk_write_config *cfg)
{
    stk_schema_free(cfg->priv);
    cfg->priv = NULL;
}

int stk_npz_prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct stk_schema *sc = NULL;
    if (!cfg->first)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "without a sample the arrays of an NPZ file are not known");
    if (cfg->first->nfields >= STK_ZIP_MEMBERS_MAX / 3)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%zu fields are too many for NPZ",
                           cfg->first->nfields);
    int rc = stk_schema_new(cfg->first, "NPZ", false, &sc, err);
    for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++)
        if (!sc->column[i].ragged && sc->column[i].ndim == STK_MAX_NDIM)
            rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "field %s has too many dimensions",
                             sc->column[i].name);
    if (rc == 0)
        cfg->priv = sc;
    else
        stk_schema_free(sc);
    return rc;
}

int stk_npz_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                   struct stk_buf *out, struct stk_err *err)
{
    int rc = stk_schema_encode(cfg->priv, s, out, err);
    return rc < 0 ? stk_err_wrap(err, rc, "sample %.*s", (int)(s->key_len < 200 ? s->key_len : 200),
                                 s->key)
                  : 0;
}

/* ---- spooling ----------------------------------------------------------------------------- */

struct piece {
    uint64_t off;
    uint64_t len;
};

/* The data of one array being written. */
struct stream {
    struct stk_buf buf;
    struct piece *piece; /* in the scratch file, in order */
    size_t npieces;
    uint64_t bytes;
    uint32_t crc;
};

struct shard {
    int fd;
    char *dir; /* folder of the scratch file, for messages */
    uint64_t spooled, rows;
    size_t buffer_size;
    struct stream *stream; /* two per column: its data, its offsets */
    size_t nstreams;
    struct stk_cell *cell;
    struct stk_zip_entry *entry;
    size_t nentries;
    struct stk_arena names;
};

static void free_shard(struct shard *h)
{
    if (!h)
        return;
    for (size_t i = 0; h->stream && i < h->nstreams; i++) {
        stk_buf_release(&h->stream[i].buf);
        free(h->stream[i].piece);
    }
    if (h->fd >= 0)
        close(h->fd);
    stk_arena_release(&h->names);
    free(h->dir);
    free(h->stream);
    free(h->cell);
    free(h->entry);
    free(h);
}

static int spool(struct shard *h, struct stream *s, struct stk_err *err)
{
    if (!s->buf.len)
        return 0;
    if (STK_ARRAY_MORE(s->piece, s->npieces, err))
        return STK_E_NOMEM;
    int rc = stk_write_full(h->fd, s->buf.data, s->buf.len, h->dir, err);
    if (rc < 0)
        return rc;
    s->piece[s->npieces++] = (struct piece){.off = h->spooled, .len = s->buf.len};
    h->spooled += s->buf.len;
    stk_buf_reset(&s->buf);
    return 0;
}

static int put(struct shard *h, struct stream *s, const void *p, size_t n, struct stk_err *err)
{
    if (!n)
        return 0;
    s->crc = (uint32_t)crc32_z(s->crc, p, n);
    s->bytes += n;
    stk_buf_put(&s->buf, p, n);
    int rc = stk_buf_check(&s->buf, err);
    return rc == 0 && s->buf.len >= h->buffer_size ? spool(h, s, err) : rc;
}

static int put_offset(struct shard *h, size_t column, struct stk_err *err)
{
    uint8_t end[8];
    stk_put_le64(end, h->stream[2 * column].bytes);
    return put(h, &h->stream[2 * column + 1], end, sizeof end, err);
}

/* In the shard's folder: if there is room for the shard, there is room for this. */
static int open_scratch(struct shard *h, struct stk_out *o, struct stk_err *err)
{
    char at[STK_FD_PATH];
    h->dir = strdup(stk_out_path(o));
    if (!h->dir)
        return stk_err_nomem(err, strlen(stk_out_path(o)));
    char *slash = strrchr(h->dir, '/');
    if (slash)
        *slash = '\0';
    h->fd = stk_nameless_file(stk_fd_path(o->dirfd, NULL, at), err);
    return h->fd < 0 ? h->fd : 0;
}

int stk_npz_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    const struct stk_schema *sc = cfg->priv;
    struct shard *h = calloc(1, sizeof *h);
    if (!h)
        return stk_err_nomem(err, sizeof *h);
    *stk_out_state(o) = h;
    h->fd = -1;
    h->nstreams = 2 * sc->ncolumns;
    h->stream = calloc(h->nstreams + 1, sizeof *h->stream);
    h->cell = calloc(sc->ncolumns + 1, sizeof *h->cell);
    h->entry = calloc(3 * sc->ncolumns + 1, sizeof *h->entry);
    if (!h->stream || !h->cell || !h->entry)
        return stk_err_nomem(err, h->nstreams * sizeof *h->stream);
    h->buffer_size = BUFFERS_TOTAL / (h->nstreams + 1);
    h->buffer_size = h->buffer_size > BUFFER_MAX   ? BUFFER_MAX
                     : h->buffer_size < BUFFER_MIN ? BUFFER_MIN
                                                   : h->buffer_size;
    int rc = open_scratch(h, o, err);
    for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++)
        if (sc->column[i].ragged)
            rc = put_offset(h, i, err);
    return rc;
}

int stk_npz_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                   size_t len, uint64_t nsamples, struct stk_err *err)
{
    const struct stk_schema *sc = cfg->priv;
    struct shard *h = *stk_out_state(o);
    size_t at = 0, used;
    for (uint64_t k = 0; k < nsamples; k++, at += used) {
        int rc = stk_schema_decode(sc, bytes + at, len - at, h->cell, &used, err);
        for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++) {
            rc = put(h, &h->stream[2 * i], h->cell[i].data, h->cell[i].size, err);
            if (rc == 0 && sc->column[i].ragged)
                rc = put_offset(h, i, err);
        }
        if (rc < 0)
            return rc;
    }
    h->rows += nsamples;
    return 0;
}

/* ---- the ZIP ------------------------------------------------------------------------------- */

/* Writes a member's bytes, plain or deflated. */
struct sink {
    struct stk_out *o;
    z_stream z;
    bool deflate;
    uint8_t *room; /* BUFFER_MAX bytes */
};

static int sink_put(struct sink *k, const void *p, size_t n, bool last, struct stk_err *err)
{
    if (!k->deflate)
        return stk_out_write(k->o, p, n, err);
    k->z.next_in = (Bytef *)(uintptr_t)p;
    k->z.avail_in = (uInt)n; /* buffers are far below 4 GiB */
    for (;;) {
        k->z.next_out = k->room;
        k->z.avail_out = BUFFER_MAX;
        int z = deflate(&k->z, last ? Z_FINISH : Z_NO_FLUSH);
        size_t made = BUFFER_MAX - k->z.avail_out;
        int rc = made ? stk_out_write(k->o, k->room, made, err) : 0;
        if (rc < 0)
            return rc;
        if (z == Z_STREAM_END || (!last && !k->z.avail_in && k->z.avail_out))
            return 0;
        if (z != Z_OK && z != Z_BUF_ERROR)
            return stk_err_set(err, STK_E_NOMEM, NULL, -1, "deflate failed");
    }
}

/* The array's data: the spooled part, then the rest in the buffer. */
static int copy_stream(struct shard *h, struct sink *k, struct stream *s, struct stk_err *err)
{
    uint8_t *room = malloc(BUFFER_MAX);
    int rc = room ? 0 : stk_err_nomem(err, BUFFER_MAX);
    for (size_t i = 0; i < s->npieces && rc == 0; i++) {
        const struct piece *p = &s->piece[i];
        for (uint64_t done = 0; done < p->len && rc == 0; done += BUFFER_MAX) {
            size_t n = p->len - done < BUFFER_MAX ? (size_t)(p->len - done) : BUFFER_MAX, got = 0;
            rc = stk_pread_full(h->fd, room, n, p->off + done, &got, h->dir, err);
            if (rc == 0 && got < n)
                rc = stk_err_set(err, STK_E_CORRUPT, h->dir, -1, "the scratch file is too short");
            if (rc == 0)
                rc = sink_put(k, room, n, false, err);
        }
    }
    for (size_t at = 0; at < s->buf.len && rc == 0; at += BUFFER_MAX) {
        size_t n = s->buf.len - at < BUFFER_MAX ? s->buf.len - at : BUFFER_MAX;
        rc = sink_put(k, s->buf.data + at, n, false, err);
    }
    free(room);
    return rc;
}

static int put_header(struct stk_out *o, const struct stk_zip_entry *e, bool again,
                      struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_zip_put_local(&b, e);
    int rc = stk_buf_check(&b, err);
    if (rc == 0)
        rc = again ? stk_out_patch(o, e->header_off, b.data, b.len, err)
                   : stk_out_write(o, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

/* Writes head and data of a member through the sink; sets its compressed size in e. */
static int put_body(struct shard *h, struct stk_out *o, int level, struct stk_zip_entry *e,
                    const struct stk_buf *head, struct stream *s, struct stk_err *err)
{
    struct sink k = {.o = o, .deflate = e->method == STK_ZIP_DEFLATED};
    uint64_t start = stk_out_tell(o);
    if (k.deflate && (!(k.room = malloc(BUFFER_MAX)) ||
                      deflateInit2(&k.z, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)) {
        free(k.room);
        return stk_err_nomem(err, BUFFER_MAX);
    }
    int rc = sink_put(&k, head->data, head->len, false, err);
    if (rc == 0 && s)
        rc = copy_stream(h, &k, s, err);
    if (rc == 0)
        rc = sink_put(&k, "", 0, true, err);
    if (k.deflate)
        deflateEnd(&k.z);
    free(k.room);
    e->stored = stk_out_tell(o) - start;
    return rc;
}

/* One array NAME[suffix].npy; s NULL: only the head. */
static int put_member(const struct stk_write_config *cfg, struct shard *h, struct stk_out *o,
                      const char *name, const char *suffix, const struct stk_buf *head,
                      struct stream *s, struct stk_err *err)
{
    uint64_t bytes = s ? s->bytes : 0;
    size_t room = strlen(name) + strlen(suffix) + 5;
    char *full = stk_arena_alloc(&h->names, room);
    struct stk_zip_entry *e = &h->entry[h->nentries++];
    int rc = stk_buf_check(head, err);
    if (rc < 0 || !full)
        return rc < 0 ? rc : stk_err_nomem(err, room);
    snprintf(full, room, "%s%s.npy", name, suffix);
    *e = (struct stk_zip_entry){.name = full,
                                .name_len = room - 1,
                                .flags = 1u << 11, /* the name is UTF-8 */
                                .method = cfg->compress ? STK_ZIP_DEFLATED : STK_ZIP_STORED,
                                .size = head->len + bytes,
                                .header_off = stk_out_tell(o)};
    e->crc = (uint32_t)crc32_z(0, head->data, head->len);
    if (bytes)
        e->crc = (uint32_t)crc32_combine(e->crc, s->crc, (z_off_t)bytes);
    e->stored = e->size;
    if (cfg->compress && e->size > STK_NPZ_DEFLATED_MAX)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "array %s would have over 1 GiB in one deflated member; use a smaller "
                           "--shard-size or no --compress",
                           full);
    rc = put_header(o, e, false, err);
    if (rc == 0)
        rc = put_body(h, o, cfg->level ? cfg->level : LEVEL_DEFAULT, e, head, s, err);
    return rc == 0 && cfg->compress ? put_header(o, e, true, err) : rc;
}

/* X.kind: "text" or "json" as an array of no dimensions. */
static void kind_array(struct stk_buf *out, const char *kind)
{
    uint8_t head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    stk_put_le16(head + 8, 128 - sizeof head);
    stk_buf_put(out, head, sizeof head);
    stk_buf_printf(out, "{'descr': '|S%zu', 'fortran_order': False, 'shape': (), }", strlen(kind));
    while (out->len < 127 && !out->fail)
        stk_buf_putc(out, ' ');
    stk_buf_putc(out, '\n');
    stk_buf_puts(out, kind);
}

static int put_column(const struct stk_write_config *cfg, struct shard *h, struct stk_out *o,
                      size_t i, struct stk_err *err)
{
    const struct stk_schema *sc = cfg->priv;
    const struct stk_schema_column *c = &sc->column[i];
    struct stream *data = &h->stream[2 * i], *offsets = &h->stream[2 * i + 1];
    uint64_t dim[STK_MAX_NDIM] = {c->ragged ? data->bytes : h->rows}, count = h->rows + 1;
    struct stk_buf head = STK_BUF_INIT;
    if (!c->ragged)
        memcpy(dim + 1, c->dim, c->ndim * sizeof *dim);
    stk_npy_write_head(&head, c->ragged ? STK_U8 : c->dtype, c->ragged ? 1 : c->ndim + 1u, dim);
    int rc = put_member(cfg, h, o, c->name, "", &head, data, err);
    if (rc == 0 && c->ragged) {
        stk_buf_reset(&head);
        stk_npy_write_head(&head, STK_U64, 1, &count);
        rc = put_member(cfg, h, o, c->name, STK_RAGGED_OFFSETS, &head, offsets, err);
    }
    const char *kind = c->ragged ? stk_ragged_kind_name(c->kind) : NULL;
    if (rc == 0 && kind && !(i == 0 && sc->has_key)) {
        stk_buf_reset(&head);
        kind_array(&head, kind);
        rc = put_member(cfg, h, o, c->name, "." STK_RAGGED_KIND, &head, NULL, err);
    }
    stk_buf_release(&head);
    return rc;
}

static int put_directory(struct shard *h, struct stk_out *o, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    uint64_t start = stk_out_tell(o);
    for (size_t i = 0; i < h->nentries; i++)
        stk_zip_put_central(&b, &h->entry[i]);
    stk_zip_put_end(&b, h->nentries, start, b.len);
    int rc = stk_buf_check(&b, err);
    if (rc == 0)
        rc = stk_out_write(o, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

int stk_npz_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    const struct stk_schema *sc = cfg->priv;
    struct shard *h = *stk_out_state(o);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sc->ncolumns; i++)
        rc = put_column(cfg, h, o, i, err);
    if (rc == 0)
        rc = put_directory(h, o, err);
    stk_npz_abort(cfg, o);
    return rc;
}

void stk_npz_abort(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    free_shard(*stk_out_state(o));
    *stk_out_state(o) = NULL;
}
