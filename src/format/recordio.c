/*
 * recordio.c - dmlc RecordIO as MXNet uses it: u32 magic, u32 flag<<29 | length, data, zeros to a
 * multiple of 4. A payload with the magic at a multiple of 4 is cut there into parts (flag 1, 2…,
 * 3), so that any aligned magic is a header: after damage, searching for it finds the next record.
 */
#include "format/format.h"
#include "format/codec/codec.h"
#include "format/sample.h"

#include <stdio.h>

#define MAGIC      0xced7230au
#define HEAD       8
#define LENGTH_MAX ((1u << 29) - 1)
#define SCAN_BYTES (256u << 10)

enum part_flag { WHOLE = 0, FIRST = 1, MIDDLE = 2, LAST = 3 };

static const char *const suffixes[] = {".rec", NULL};
static const char *const side[] = {"*.idx", "*.lst", NULL};

static uint64_t padded(uint64_t n)
{
    return (n + 3) & ~(uint64_t)3;
}

static int bid(const struct stk_probe *p)
{
    if (p->head_len >= HEAD && stk_le32(p->head) == MAGIC)
        return stk_le32(p->head + 4) >> 29 <= FIRST ? 95 : 30;
    return p->size == 0 ? 20 : 0;
}

/* ---- listing ------------------------------------------------------------------------------ */

struct walk {
    struct stk_lister *l;
    struct stk_src *src;
    struct stk_err *err;
    uint64_t off, size;
    int field; /* -1 until the first record is seen */
};

struct record {
    uint64_t off, len; /* stored bytes from the end of the first header to the end of the data */
    uint64_t next;     /* where the next record should begin */
    bool parts;
};

struct header {
    bool whole, magic; /* 8 bytes exist; they begin with the magic */
    uint32_t flag, len;
};

static int header_at(struct walk *w, uint64_t off, struct header *h)
{
    const uint8_t *p;
    size_t got;
    int rc = stk_src_peek(w->src, off, HEAD, &p, &got, w->err);
    *h = (struct header){.whole = got == HEAD, .magic = got >= 4 && stk_le32(p) == MAGIC};
    if (rc == 0 && h->whole) {
        h->flag = stk_le32(p + 4) >> 29;
        h->len = stk_le32(p + 4) & LENGTH_MAX;
    }
    return rc;
}

/* The next aligned header that begins a record, at off or later; the file's size if none. */
static int find_head(struct walk *w, uint64_t off, uint64_t *found)
{
    for (off = padded(off);;) {
        const uint8_t *p;
        size_t got;
        int rc = stk_src_peek(w->src, off, SCAN_BYTES, &p, &got, w->err);
        if (rc < 0)
            return rc;
        *found = w->size;
        if (got < HEAD)
            return 0;
        size_t at = 0;
        for (; at + HEAD <= got; at += 4)
            if (stk_le32(p + at) == MAGIC && stk_le32(p + at + 4) >> 29 <= FIRST) {
                *found = off + at;
                return 0;
            }
        off += at;
    }
}

/* Reports damage in the record at `at` and continues at the next header after `from`. */
static int resync(struct walk *w, uint64_t at, uint64_t from, const char *what)
{
    int rc = find_head(w, from, &w->off);
    if (rc < 0)
        return rc;
    if (w->off >= w->size)
        return stk_list_problem(w->l, (int64_t)at, w->err, "%s; no record follows", what);
    return stk_list_problem(w->l, (int64_t)at, w->err, "%s; the next record is at %llu", what,
                            (unsigned long long)w->off);
}

/* Follows the parts of a record. Sets *wrong to the error, NULL if it is whole. */
static int measure(struct walk *w, struct header h, struct record *r, const char **wrong)
{
    uint64_t off = w->off;
    *r = (struct record){.off = off + HEAD, .parts = h.flag == FIRST};
    *wrong = NULL;
    for (;;) {
        r->len = off + HEAD + h.len - r->off;
        r->next = off + HEAD + padded(h.len);
        if (r->off + r->len > w->size)
            *wrong = "truncated record: it says more bytes than the file has";
        else if (r->parts && h.flag != LAST && h.len % 4)
            *wrong = "a part of a multi-part record has a damaged length";
        if (*wrong || h.flag == WHOLE || h.flag == LAST)
            return 0;
        off = r->next;
        int rc = header_at(w, off, &h);
        if (rc < 0)
            return rc;
        if (!h.whole || !h.magic || h.flag < MIDDLE || h.flag > LAST) {
            *wrong = "a multi-part record is not finished";
            return 0;
        }
    }
}

/* True if a record ending at off is plausible: a header follows, or the file ends (or is cut off)
 * before one could. */
static int leads_on(struct walk *w, uint64_t off, bool *yes)
{
    struct header h = {0};
    *yes = off <= w->size && w->size - off < 4;
    if (*yes || off > w->size)
        return 0;
    int rc = header_at(w, off, &h);
    *yes = h.magic;
    return rc;
}

/*
 * A length cannot be checked by itself. If it does not lead to a header, either the length or the
 * magic there is damaged; it is the magic if the header there leads to another.
 */
static int length_is_wrong(struct walk *w, const struct record *r, bool *wrong)
{
    bool yes;
    int rc = leads_on(w, r->next, &yes);
    *wrong = !yes && r->next < w->size;
    if (rc < 0 || !*wrong)
        return rc;
    struct header h;
    rc = header_at(w, r->next, &h);
    if (rc < 0 || !h.whole || h.flag > FIRST)
        return rc;
    rc = leads_on(w, r->next + HEAD + padded(h.len), &yes);
    *wrong = !yes;
    return rc;
}

/* Examines the start of a record, its parts joined, as far as the window reaches: the bytes after
 * an image header do not matter. */
static int look_at(struct walk *w, const struct record *r, struct stk_payload_guess *g)
{
    const uint8_t *p;
    size_t n = (size_t)(r->len < STK_PEEK_MAX ? r->len : STK_PEEK_MAX), got;
    int rc = stk_src_peek(w->src, r->off, n, &p, &got, w->err);
    if (rc < 0)
        return rc;
    struct stk_buf joined = STK_BUF_INIT, scratch = STK_BUF_INIT;
    const struct stk_chain join = {.nsteps = 1, .step[0].id = STK_FILTER_JOIN};
    uint64_t total = r->len;
    bool cut = r->parts && got < r->len;
    if (r->parts && !cut && stk_filter_decode(&join, p, got, &joined, &scratch, "", 0, NULL) == 0) {
        p = joined.data;
        got = joined.len;
        total = got;
    }
    if (cut) /* in one piece up to the first magic */
        for (size_t at = 0; at + 4 <= got; at += 4)
            if (stk_le32(p + at) == MAGIC)
                got = at;
    stk_payload_look(g, p, got, total, true);
    stk_buf_release(&joined);
    stk_buf_release(&scratch);
    return 0;
}

/* Detects the payload from the first records, or those before the first damage. */
static int look(void *user, struct stk_payload_guess *g, struct stk_err *err)
{
    struct walk ahead = *(struct walk *)user;
    ahead.err = err;
    uint64_t seen = 0;
    int rc = 0;
    while (rc == 0 && g->looked < STK_PAYLOAD_RECORDS && seen < STK_PEEK_MAX) {
        struct header h;
        struct record r;
        const char *wrong = NULL;
        rc = header_at(&ahead, ahead.off, &h);
        if (rc < 0 || !h.whole || !h.magic || h.flag > FIRST)
            break;
        rc = measure(&ahead, h, &r, &wrong);
        if (rc < 0 || wrong)
            break;
        rc = look_at(&ahead, &r, g);
        seen += r.len;
        ahead.off = r.next;
    }
    return rc;
}

static int list_one(struct walk *w, const struct record *r)
{
    struct stk_chain c = {0};
    if (r->parts)
        c.step[c.nsteps++].id = STK_FILTER_JOIN;
    if (stk_list_opts(w->l)->compress)
        c.step[c.nsteps++].id = (uint16_t)stk_list_opts(w->l)->compress;
    if (w->field < 0 && (w->field = stk_payload_field(w->l, "image", look, w, w->err)) < 0)
        return w->field;
    int rc = stk_list_record_filtered(w->l, w->field, r->off, r->len, c.nsteps ? &c : NULL, NULL, 0,
                                      w->err);
    if (rc == 0 && r->next > w->size)
        rc = stk_list_problem(w->l, (int64_t)w->size, w->err,
                              "the padding after the last record is cut off");
    w->off = r->next;
    return rc;
}

/* Lists one record, or reports damage and skips it. */
static int step(struct walk *w)
{
    struct header h;
    struct record r;
    const char *wrong = NULL;
    bool bad_length = false;
    int rc = header_at(w, w->off, &h);
    if (rc < 0)
        return rc;
    if (!h.whole)
        return resync(w, w->off, w->size, "truncated record header");
    if (!h.magic)
        return resync(w, w->off, w->off + 4, "no record begins here (the magic is missing)");
    if (h.flag > FIRST)
        return resync(w, w->off, w->off + 4, "a part of a record without its beginning");
    rc = measure(w, h, &r, &wrong);
    if (rc == 0 && !wrong)
        rc = length_is_wrong(w, &r, &bad_length);
    if (rc < 0)
        return rc;
    if (bad_length)
        wrong = "the record's length leads to no other record";
    return wrong ? resync(w, w->off, w->off + 4, wrong) : list_one(w, &r);
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct walk w = {.l = l, .src = src, .err = err, .size = stk_src_size(src), .field = -1};
    int rc = 0;
    while (rc == 0 && w.off < w.size)
        rc = step(&w);
    return rc;
}

/* The first header says the length of the first part, which is all of a record that is whole. */
static int check(const uint8_t *frame, uint64_t len, const uint32_t *sum, const char *path,
                 uint64_t offset, struct stk_err *err)
{
    (void)sum; /* it has none to compare with */
    uint32_t word = stk_le32(frame + 4), flag = word >> 29;
    uint64_t said = word & LENGTH_MAX;
    if (stk_le32(frame) == MAGIC &&
        ((flag == WHOLE && said == len) || (flag == FIRST && said + HEAD <= len)))
        return 0;
    return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)offset,
                       "no record of %llu bytes begins here", (unsigned long long)len);
}

/* ---- writing ------------------------------------------------------------------------------ */

/*
 * encode writes, per record, a note for append (u64 number for the .idx, u32 stored bytes) and the
 * stored bytes. Only append knows the offset of a record in the file.
 */
#define NOTE 12

static int prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = cfg->first && cfg->codec ? cfg->codec->implode(cfg->first, &b, err) : 0;
    stk_buf_release(&b);
    return rc;
}

static void put_part(struct stk_buf *out, uint32_t flag, const uint8_t *p, size_t n)
{
    uint8_t head[HEAD];
    stk_put_le32(head, MAGIC);
    stk_put_le32(head + 4, flag << 29 | (uint32_t)n);
    stk_buf_put(out, head, HEAD);
    stk_buf_put(out, p, n);
}

/* The first multiple of 4 from `at` on that holds the magic; n: none. */
static size_t find_magic(const uint8_t *p, size_t at, size_t n)
{
    for (; at + 4 <= n; at += 4)
        if (stk_le32(p + at) == MAGIC)
            return at;
    return n;
}

/* A record that contains the magic, cut there like dmlc's writer does. */
static void put_parts(struct stk_buf *out, const uint8_t *p, size_t n)
{
    size_t from = 0;
    for (size_t at; (at = find_magic(p, from, n)) < n; from = at + 4)
        put_part(out, from ? MIDDLE : FIRST, p + from, at - from);
    put_part(out, from ? LAST : WHOLE, p + from, n - from);
}

static int compress_in_place(const struct stk_write_config *cfg, struct stk_buf *out, size_t data,
                             struct stk_err *err)
{
    struct stk_buf packed = STK_BUF_INIT;
    int rc = stk_filter_encode((enum stk_filter_id)cfg->compress, cfg->level, out->data + data,
                               out->len - data, &packed, err);
    out->len = data;
    stk_buf_put(out, packed.data, packed.len);
    stk_buf_release(&packed);
    return rc < 0 ? rc : stk_buf_check(out, err);
}

/* Writes the payload in place, assuming that it need not be cut. */
static int put_payload(const struct stk_write_config *cfg, const struct stk_sample *s,
                       struct stk_buf *out, struct stk_err *err)
{
    int rc = 0;
    size_t data = out->len;
    if (s->record && s->record_codec == cfg->codec)
        stk_buf_put(out, s->record, s->record_len);
    else
        rc = cfg->codec->implode(s, out, err);
    if (rc == 0)
        rc = stk_buf_check(out, err);
    if (rc == 0 && cfg->compress)
        rc = compress_in_place(cfg, out, data, err);
    if (rc == 0 && out->len - data > LENGTH_MAX)
        rc =
            stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                        "a sample of %zu bytes: RecordIO takes less than 512 MiB", out->len - data);
    return rc;
}

/* Cuts the payload at out->data[data…], which holds the magic, into parts. */
static int cut_payload(struct stk_buf *out, size_t data, struct stk_err *err)
{
    struct stk_buf whole = STK_BUF_INIT;
    stk_buf_put(&whole, out->data + data, out->len - data);
    int rc = stk_buf_check(&whole, err);
    out->len = data - HEAD;
    if (rc == 0)
        put_parts(out, whole.data, whole.len);
    stk_buf_release(&whole);
    return rc;
}

/* The number in the .idx is that of the image header, which a copied record already has. */
static uint64_t idx_number(const struct stk_write_config *cfg, const struct stk_sample *s)
{
    bool copied = s->record && s->record_codec == cfg->codec && s->record_len >= STK_IRHEADER &&
                  strcmp(cfg->codec->name, "image") == 0;
    return copied ? stk_irheader_id(s->record) : stk_sample_id(s);
}

static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    size_t note = out->len, data = note + NOTE + HEAD;
    stk_buf_extend(out, NOTE + HEAD);
    int rc = put_payload(cfg, s, out, err);
    if (rc < 0)
        return rc;
    size_t n = out->len - data;
    if (find_magic(out->data + data, 0, n) < n) {
        rc = cut_payload(out, data, err);
    } else {
        stk_put_le32(out->data + data - HEAD, MAGIC);
        stk_put_le32(out->data + data - 4, (uint32_t)n);
    }
    stk_buf_zeros(out, (size_t)(padded(n) - n));
    if (rc == 0)
        rc = stk_buf_check(out, err);
    if (rc < 0)
        return rc;
    stk_put_le64(out->data + note, idx_number(cfg, s));
    stk_put_le32(out->data + note + 8, (uint32_t)(out->len - note - NOTE));
    return 0;
}

/* Writes the records, and a line "number TAB offset" per record to the sidecar, like im2rec. */
static int append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                  size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg, (void)nsamples;
    int rc = 0;
    while (rc == 0 && len > NOTE) {
        size_t n = stk_le32(bytes + 8);
        char line[48];
        int text = snprintf(line, sizeof line, "%llu\t%llu\n", (unsigned long long)stk_le64(bytes),
                            (unsigned long long)stk_out_tell(o));
        rc = stk_out_write(o, bytes + NOTE, n, err);
        if (rc == 0)
            rc = stk_out_sidecar(o, line, (size_t)text, err);
        bytes += NOTE + n;
        len -= NOTE + n;
    }
    return rc;
}

static const struct stk_format_use use = {.how = STK_USE_STREAM};

const struct stk_format stk_format_recordio = {
    .name = "recordio",
    .title = "MXNet RecordIO",
    .suffix = ".rec",
    .suffixes = suffixes,
    .payload = "image",
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_COMPRESS | STK_CAN_CODEC |
            STK_CAN_EMPTY,
    .sidecar = ".idx",
    .side = side,
    .bid = bid,
    .list = list,
    .head = HEAD,
    .check = check,
    .prepare = prepare,
    .encode = encode,
    .append = append,
    .use = &use,
};
