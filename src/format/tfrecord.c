/*
 * tfrecord.c - TFRecord: u64 length, u32 masked CRC-32C of it, data, u32 masked CRC-32C of data.
 *
 * The length's checksum distinguishes a damaged length (the rest of the file is lost: there is no
 * marker to find the next record) from damaged data (the next record can be found).
 */
#include "format_code.h"
#include "format/format.h"
#include "format/codec/codec.h"
#include "format/sample.h"
#include "base/hash.h"

#include <string.h>

#define HEAD 12
#define TAIL 4

#define PASSING (1u << 20) /* window in a compressed file */

static const char *const suffixes[] = {".tfrecord", ".tfrecords", ".tfrec", ".tfr", NULL};
static const char *const side[] = {"*.idx", "*.tfindex", "*.index", NULL};

static uint32_t mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint32_t masked(const void *p, size_t n)
{
    return mask(stk_crc32c(0, p, n));
}

static uint32_t unmask(uint32_t crc)
{
    crc -= 0xa282ead8u;
    return crc >> 17 | crc << 15;
}

static int bid(const struct stk_probe *p)
{
    if (p->head_len >= HEAD && masked(p->head, 8) == stk_le32(p->head + 8))
        return 99;
    return 0;
}

/* Examines the first records as far as they are in the window: earlier decompressed bytes are gone.
 * Does not read a large record whole. */
static int look(void *user, struct stk_payload_guess *g, struct stk_err *err)
{
    struct stk_src *src = user;
    const uint8_t *p;
    size_t got;
    for (uint64_t off = 0; g->looked < STK_PAYLOAD_RECORDS && off < STK_PEEK_MAX - HEAD;) {
        int rc = stk_src_peek(src, 0, (size_t)off + HEAD, &p, &got, err);
        if (rc < 0 || got < off + HEAD || masked(p + off, 8) != stk_le32(p + off + 8))
            return rc;
        uint64_t len = stk_le64(p + off), room = STK_PEEK_MAX - HEAD - off;
        size_t n = (size_t)(len < room ? len : room);
        if (g->looked && n < len)
            return 0;
        rc = stk_src_peek(src, 0, (size_t)off + HEAD + n, &p, &got, err);
        if (rc < 0 || got < off + HEAD + n)
            return rc;
        stk_payload_look(g, p + off + HEAD, n, len, false);
        if (n < len)
            return 0;
        off += HEAD + len + TAIL;
    }
    return 0;
}

/* In a compressed file only the listing sees frames: the reader gets slices of decoded blocks. 1:
 * the record is whole; 0: it is not, and was reported; negative: stop. */
static int check_passing(struct stk_lister *l, struct stk_src *src, uint64_t off, uint64_t len,
                         struct stk_err *err)
{
    uint32_t crc = 0;
    const uint8_t *p;
    size_t got;
    int rc = 0;
    for (uint64_t at = 0; rc == 0 && at < len; at += got) {
        size_t want = len - at < PASSING ? (size_t)(len - at) : PASSING;
        rc = stk_src_peek(src, off + HEAD + at, want, &p, &got, err);
        if (rc == 0 && got < want)
            return 1; /* the file ends before the record: reported when it is listed */
        if (rc == 0)
            crc = stk_crc32c(crc, p, got);
    }
    if (rc == 0)
        rc = stk_src_peek(src, off + HEAD + len, TAIL, &p, &got, err);
    if (rc < 0)
        return rc;
    if (got < TAIL)
        rc = stk_list_problem(l, (int64_t)off, err, "truncated record: its checksum is missing");
    else if (mask(crc) != stk_le32(p))
        rc = stk_list_problem(l, (int64_t)off, err,
                              "corrupt record: the data's checksum does not match");
    else
        return 1;
    return rc;
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    const struct stk_chain chain = {.nsteps = 1,
                                    .step[0].id = (uint16_t)stk_list_opts(l)->compress};
    bool filtered = stk_list_opts(l)->compress != 0;
    uint64_t off = 0, size = stk_src_size(src);
    int field = -1;
    for (;;) {
        const uint8_t *p;
        size_t got;
        int rc = stk_src_peek(src, off, HEAD, &p, &got, err);
        if (rc < 0)
            return rc;
        if (got == 0)
            return 0;
        if (got < HEAD)
            return stk_list_problem(l, (int64_t)off, err,
                                    "truncated record: %zu bytes of a 12-byte header", got);
        uint64_t len = stk_le64(p), end;
        if (masked(p, 8) != stk_le32(p + 8))
            return stk_list_problem(l, (int64_t)off, err,
                                    "corrupt record length (its checksum does not match); "
                                    "the rest of the file cannot be read");
        if (__builtin_add_overflow(off, len, &end) ||
            __builtin_add_overflow(end, HEAD + TAIL, &end) || end > size)
            return stk_list_problem(l, (int64_t)off, err,
                                    "truncated record: it should have %llu bytes, but the file "
                                    "ends before",
                                    (unsigned long long)len);
        if (field < 0 && (field = stk_payload_field(l, "example", look, src, err)) < 0)
            return field;
        rc = stk_src_is_stream(src) ? check_passing(l, src, off, len, err) : 1;
        if (rc == 1)
            rc = filtered
                     ? stk_list_record_filtered(l, field, off + HEAD, len, &chain, NULL, 0, err)
                     : stk_list_record(l, field, off + HEAD, len, NULL, 0, err);
        if (rc < 0)
            return rc;
        off = end;
    }
}

static int check(const uint8_t *frame, uint64_t len, const uint32_t *sum, const char *path,
                 uint64_t offset, struct stk_err *err)
{
    if (stk_le64(frame) != len || masked(frame, 8) != stk_le32(frame + 8))
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)offset,
                           "no record begins here (the length's checksum does not match)");
    if ((sum ? mask(*sum) : masked(frame + HEAD, len)) != stk_le32(frame + HEAD + len))
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)offset,
                           "corrupt record: the data's checksum does not match");
    return 0;
}

static uint32_t sum(const uint8_t *tail)
{
    return unmask(stk_le32(tail));
}

static int prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = cfg->first ? cfg->codec->implode(cfg->first, &b, err) : 0;
    stk_buf_release(&b);
    return rc;
}

/* Writes the record right after its header, so that data is copied once. */
static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    size_t head = out->len;
    int rc = 0;
    stk_buf_extend(out, HEAD);
    if (s->record && s->record_codec == cfg->codec)
        stk_buf_put(out, s->record, s->record_len);
    else
        rc = cfg->codec->implode(s, out, err);
    if (rc == 0 && cfg->compress) {
        struct stk_buf packed = STK_BUF_INIT;
        rc = stk_filter_encode((enum stk_filter_id)cfg->compress, cfg->level,
                               out->data + head + HEAD, out->len - head - HEAD, &packed, err);
        out->len = head + HEAD;
        stk_buf_put(out, packed.data, packed.len);
        stk_buf_release(&packed);
    }
    uint8_t *tail = stk_buf_extend(out, TAIL);
    if (rc < 0 || !tail)
        return rc < 0 ? rc : stk_buf_check(out, err);
    uint8_t *p = out->data + head;
    size_t len = out->len - head - HEAD - TAIL;
    stk_put_le64(p, len);
    stk_put_le32(p + 8, masked(p, 8));
    stk_put_le32(tail, masked(p + HEAD, len));
    return 0;
}

static const struct stk_format_use use = {
    .how = STK_USE_STREAM | STK_USE_BARE,
    .package = "tensorflow",
    .readers = stk_code_tfrecord_readers_py,
    .ahead = stk_code_tfrecord_ahead_py,
    .divide = stk_code_tfrecord_divide_py,
};

const struct stk_format stk_format_tfrecord = {
    .name = "tfrecord",
    .title = "TFRecord",
    .suffix = ".tfrecord",
    .suffixes = suffixes,
    .payload = "example",
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_COMPRESS | STK_CAN_CODEC |
            STK_CAN_GZIP | STK_CAN_STREAM | STK_CAN_SUM | STK_CAN_EMPTY,
    .side = side,
    .bid = bid,
    .list = list,
    .head = HEAD,
    .tail = TAIL,
    .check = check,
    .sum = sum,
    .prepare = prepare,
    .encode = encode,
    .use = &use,
};
