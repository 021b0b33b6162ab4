/*
 * pieces.c - finds points where decoding of a deflated range can begin: at deflate blocks, given
 * the 32 KiB before them (as src.c does for whole compressed files). A piece begins at a sample
 * boundary; its decoder begins at the last block before and drops the bytes between, its lead.
 */
#include "format/numpy/zip.h"
#include "base/buf.h"

#include <stdlib.h>
#include <zlib.h>

#define PIECE_BYTES ((uint64_t)1 << 20) /* decoded bytes of a piece, about */
#define PIECES_MOST 1024u               /* per range: their windows are held until all are found */
#define HISTORY     32768u              /* deflate's window */
#define STEP        (256u << 10)
#define TELL        (16u << 20) /* stored bytes between two signs of life */

/* The last position where decoding can begin. */
struct mark {
    uint64_t in, out; /* from the start of the range */
    unsigned bits;
    size_t len;
    uint8_t window[HISTORY];
};

struct cutter {
    struct stk_pieces *p;
    struct stk_lister *l;
    z_stream z;
    uint64_t in, out;     /* stored bytes consumed, bytes decoded */
    uint8_t *buf;         /* the last decoded bytes */
    size_t have;          /* bytes in it */
    uint64_t from;        /* start of the current section: before, in or after the pieces */
    uint32_t section_crc; /* of its bytes */
    struct mark mark;
};

void stk_pieces_release(struct stk_pieces *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->piece[i].at.window);
    free(p->piece);
    p->piece = NULL;
    p->n = 0;
}

/* ---- pieces ---- */

/* Begins a piece here; its stored length is known at its end. */
static int begin_piece(struct cutter *c, uint64_t from, struct stk_err *err)
{
    struct stk_pieces *p = c->p;
    if (STK_ARRAY_MORE(p->piece, p->n, err))
        return STK_E_NOMEM;
    uint64_t lead = from - c->mark.out, in = c->mark.in - (c->mark.bits > 0);
    struct stk_piece *x = &p->piece[p->n];
    *x = (struct stk_piece){
        .at = {.in_off = p->off + in,
               .out_off = from,
               .decoded_len = p->end - from < p->length ? p->end - from : p->length,
               .bits = c->mark.bits,
               .lead = lead < STK_POINT_LEAD ? (uint32_t)lead : STK_POINT_LEAD}};
    int rc = stk_access_point_window(&x->at, c->mark.window, c->mark.len, err);
    p->n += rc == 0;
    return rc;
}

static void end_piece(struct cutter *c)
{
    struct stk_piece *x = &c->p->piece[c->p->n - 1];
    x->at.in_len = c->p->off + c->in - x->at.in_off;
    x->crc = c->section_crc;
}

/* The end of the section that contains `out`. */
static uint64_t section_end(const struct cutter *c)
{
    const struct stk_pieces *p = c->p;
    if (c->out < p->begin)
        return p->begin;
    if (c->out >= p->end)
        return p->size;
    uint64_t left = p->length - (c->out - p->begin) % p->length;
    return left < p->end - c->out ? c->out + left : p->end;
}

/* At the border of two sections. */
static int next_section(struct cutter *c, struct stk_err *err)
{
    struct stk_pieces *p = c->p;
    if (c->out > p->begin && c->out <= p->end)
        end_piece(c);
    p->crc = (uint32_t)crc32_combine(p->crc, c->section_crc, (z_off_t)(c->out - c->from));
    c->from = c->out;
    c->section_crc = 0;
    return c->out >= p->begin && c->out < p->end ? begin_piece(c, c->out, err) : 0;
}

/* ---- decoding ---- */

static void take_mark(struct cutter *c)
{
    struct mark *m = &c->mark;
    m->in = c->in;
    m->out = c->out;
    m->bits = (unsigned)c->z.data_type & 7;
    m->len = c->have < HISTORY ? c->have : HISTORY;
    memcpy(m->window, c->buf + c->have - m->len, m->len);
}

/* Supplies more stored bytes once the last are used up; none at the end. */
static int feed(struct cutter *c, struct stk_err *err)
{
    uint64_t left = c->p->stored - c->in;
    const uint8_t *p;
    size_t got = 0;
    if (c->z.avail_in || !left)
        return 0;
    int rc = stk_src_peek(c->l->src, c->p->off + c->in, left < STEP ? (size_t)left : STEP, &p, &got,
                          err);
    c->z.next_in = rc < 0 ? NULL : (Bytef *)(uintptr_t)p;
    c->z.avail_in = rc < 0 ? 0 : (uInt)got;
    return rc;
}

/* Makes room for output up to the border; once all is decoded, for one byte that must not come: the
 * end of the stream is still to be seen. */
static void make_room(struct cutter *c)
{
    uint64_t left = section_end(c) - c->out;
    if (c->have > HISTORY + STEP / 2) {
        memmove(c->buf, c->buf + c->have - HISTORY, HISTORY);
        c->have = HISTORY;
    }
    size_t room = HISTORY + STEP - c->have;
    c->z.next_out = c->buf + c->have;
    c->z.avail_out = left == 0 ? 1 : left < room ? (uInt)left : (uInt)room;
}

/* Decodes to the next block or section border, as far as one peek at the file allows. 1: continue;
 * 0: the end, or damage. */
static int step(struct cutter *c, struct stk_err *err)
{
    int rc = feed(c, err);
    if (rc < 0)
        return rc;
    make_room(c);
    uInt in = c->z.avail_in, room = c->z.avail_out;
    rc = inflate(&c->z, Z_BLOCK);
    size_t made = room - c->z.avail_out;
    c->in += in - c->z.avail_in;
    bool ended = rc == Z_STREAM_END, stuck = rc == Z_BUF_ERROR && !in;
    c->p->damaged = (rc != Z_OK && rc != Z_BUF_ERROR && !ended) || stuck ||
                    c->out + made > c->p->size || (ended && c->out + made != c->p->size);
    if (c->p->damaged)
        return 0;
    c->section_crc = (uint32_t)crc32_z(c->section_crc, c->buf + c->have, made);
    c->have += made;
    c->out += made;
    if ((c->z.data_type & 128) && !(c->z.data_type & 64))
        take_mark(c);
    return !ended;
}

/* Adds pieces that cannot be decoded, so that reading them reports it; the pieces before them are
 * good. */
static int add_failing(struct cutter *c, struct stk_err *err)
{
    struct stk_pieces *p = c->p;
    uint64_t some = p->length / 512 + (64u << 10);
    bool open = p->n && !p->piece[p->n - 1].at.in_len; /* the piece with the damage */
    if (open)
        free(p->piece[--p->n].at.window);
    int rc = 0;
    for (uint64_t at = p->begin + p->n * p->length; rc == 0 && at < p->end; at += p->length) {
        rc = begin_piece(c, at, err);
        if (rc < 0)
            return rc;
        struct stk_access_point *x = &p->piece[p->n - 1].at;
        uint64_t left = p->off + p->stored - x->in_off;
        x->in_len = left < some ? left : some;
    }
    return rc;
}

static int cut(struct cutter *c, struct stk_err *err)
{
    int rc = c->p->begin ? 0 : begin_piece(c, 0, err), more = 1;
    for (uint64_t told = 0; rc == 0 && more > 0;) {
        uint64_t border = section_end(c);
        more = step(c, err);
        rc = more < 0 ? more : 0;
        if (rc == 0 && !c->p->damaged && c->out == border && c->out > c->from)
            rc = next_section(c, err);
        if (rc == 0 && c->in - told >= TELL) {
            rc = stk_list_at(c->l, c->p->off + c->in, err);
            told = c->in;
        }
    }
    return rc == 0 && c->p->damaged ? add_failing(c, err) : rc;
}

/* ---- how large pieces are ---- */

/* Pieces of several units, about PIECE_BYTES. */
static uint64_t first_length(const struct stk_pieces *p)
{
    uint64_t want = (p->end - p->begin) / PIECES_MOST + 1;
    want = want < PIECE_BYTES ? PIECE_BYTES : want;
    return want > p->unit ? want / p->unit * p->unit : p->unit;
}

/* Merges pieces in pairs. */
static void merge_pairs(struct stk_pieces *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i += 2) {
        struct stk_piece *x = &p->piece[n++];
        *x = p->piece[i];
        if (i + 1 == p->n)
            break;
        struct stk_piece *y = &p->piece[i + 1];
        x->crc = (uint32_t)crc32_combine(x->crc, y->crc, (z_off_t)y->at.decoded_len);
        x->at.in_len = y->at.in_off + y->at.in_len - x->at.in_off;
        x->at.decoded_len += y->at.decoded_len;
        free(y->at.window);
    }
    p->n = n;
    p->length *= 2;
}

/* Deflate blocks may be larger than pieces (zeros, or a writer that makes few): then most of the
 * decoding would be leads. */
static void enlarge(struct stk_pieces *p)
{
    for (;;) {
        uint64_t leads = 0;
        for (size_t i = 0; i < p->n; i++)
            leads += p->piece[i].at.lead;
        if (leads <= (p->end - p->begin) / 8 || p->n < 2)
            return;
        merge_pairs(p);
    }
}

int stk_pieces_find(struct stk_pieces *p, struct stk_lister *l, struct stk_err *err)
{
    struct cutter *c = calloc(1, sizeof *c);
    uint8_t *buf = malloc(HISTORY + STEP);
    p->length = first_length(p);
    if (!c || !buf || inflateInit2(&c->z, -15) != Z_OK) {
        free(c);
        free(buf);
        return stk_err_nomem(err, sizeof *c + HISTORY + STEP);
    }
    c->p = p;
    c->l = l;
    c->buf = buf;
    int rc = cut(c, err);
    if (rc == 0 && !p->damaged)
        enlarge(p);
    inflateEnd(&c->z);
    free(buf);
    free(c);
    return rc;
}

int64_t stk_pieces_list(const struct stk_pieces *p, struct stk_lister *l,
                        const struct stk_chain *tail, bool sums, struct stk_err *err)
{
    int64_t first = -1;
    for (size_t i = 0; i < p->n; i++) {
        int64_t x = stk_list_point(l, &p->piece[i].at, tail, err);
        int rc = x >= 0 && sums ? stk_list_crc32(l, p->piece[i].crc, err) : 0;
        if (x < 0 || rc < 0)
            return x < 0 ? x : rc;
        first = i ? first : x;
    }
    return first;
}
