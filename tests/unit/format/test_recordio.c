/*
 * test_recordio.c - listing RecordIO, whole and damaged, and MXNet's image header both ways. The
 * files are made here from the format's description, not by our writer.
 */
#include "check.h"
#include "format/format.h"
#include "format/lister.h"
#include "format/sample.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define MAGIC 0xced7230au

/* ---- what a listing reported --------------------------------------------------------------- */

struct seen {
    struct stk_sink sink;
    uint64_t off[64], len[64];
    uint16_t chain[64];
    size_t nrecords, nproblems;
    int64_t problem[64];
    char codec[16];
};

static int take(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    (void)err;
    struct seen *s = (struct seen *)sink;
    if (e->type == STK_EV_FIELD) {
        struct stk_field_wire w;
        memcpy(&w, e->blob, sizeof w);
        memcpy(s->codec, w.codec, sizeof s->codec);
    } else if (e->type == STK_EV_RECORD && s->nrecords < 64) {
        s->off[s->nrecords] = e->a;
        s->len[s->nrecords] = e->b;
        s->chain[s->nrecords++] = e->chain;
    } else if (e->type == STK_EV_PROBLEM && s->nproblems < 64) {
        s->problem[s->nproblems++] = (int64_t)e->a;
    }
    return 0;
}

static int list(const struct stk_buf *file, struct seen *s)
{
    char path[] = "/tmp/stoker-test-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, file->data, file->len) == (ssize_t)file->len);
    close(fd);
    *s = (struct seen){.sink.event = take};
    struct stk_list_options opts = {.payload = "auto"};
    struct stk_src *src = NULL;
    struct stk_err err = {0};
    struct stk_lister l;
    int rc = stk_src_open(open(path, O_RDONLY | O_CLOEXEC), path, path, false, &src, &err);
    CHECK_INT(rc, 0);
    stk_lister_init(&l, &s->sink, src, &opts);
    rc = stk_format_find("recordio")->list(&l, src, &err);
    stk_lister_release(&l);
    stk_src_close(src);
    unlink(path);
    return rc;
}

/* ---- files ---------------------------------------------------------------------------------- */

static void put_u32(struct stk_buf *b, uint32_t v)
{
    uint8_t le[4];
    stk_put_le32(le, v);
    stk_buf_put(b, le, 4);
}

static void put_part(struct stk_buf *b, uint32_t flag, const void *p, size_t n)
{
    put_u32(b, MAGIC);
    put_u32(b, flag << 29 | (uint32_t)n);
    stk_buf_put(b, p, n);
    stk_buf_zeros(b, -n & 3);
}

/* Records of 0, 1, 2, … 9 bytes. */
static void put_ten(struct stk_buf *b)
{
    for (size_t i = 0; i < 10; i++)
        put_part(b, 0, "abcdefghij", i);
}

static void test_whole(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct seen s;
    put_ten(&b);
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 10);
    CHECK_INT(s.nproblems, 0);
    uint64_t at = 0;
    for (size_t i = 0; i < 10; i++) {
        CHECK_INT(s.off[i], at + 8);
        CHECK_INT(s.len[i], i);
        CHECK_INT(s.chain[i], STK_NO_CHAIN);
        at += 8 + ((i + 3) & ~3ull);
    }
    CHECK_STR(s.codec, "raw");
    stk_buf_reset(&b);
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords + s.nproblems, 0);
    stk_buf_release(&b);
}

/* One lost header must cost one record, not the rest of the file. */
static void test_resync(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct seen s;
    put_ten(&b);
    size_t fifth = 8 + 12 + 12 + 12 + 12; /* records of 0, 1, 2, 3 and 4 bytes stand before it */

    b.data[fifth] ^= 1; /* its magic */
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 9);
    CHECK_INT(s.nproblems, 1);
    CHECK_INT(s.problem[0], fifth);
    b.data[fifth] ^= 1;

    b.data[fifth + 4] += 8; /* its length, now ending in a later record */
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 9);
    CHECK_INT(s.nproblems, 1);
    CHECK_INT(s.problem[0], fifth);
    b.data[fifth + 4] -= 8;

    b.data[fifth + 6] ^= 1; /* past the end of the file */
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 9);
    CHECK_INT(s.problem[0], fifth);
    b.data[fifth + 6] ^= 1;

    b.data[fifth + 7] ^= 0x40; /* the middle of a record that never began */
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 9);
    CHECK_INT(s.problem[0], fifth);
    stk_buf_release(&b);
}

static void test_truncated(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct seen s;
    put_ten(&b);
    size_t whole = b.len, last = whole - 8 - 12;
    for (size_t n = last + 1; n < whole; n++) {
        b.len = n;
        CHECK_INT(list(&b, &s), 0);
        CHECK_INT(s.nproblems, 1);
        CHECK_INT(s.nrecords, n < last + 8 + 9 ? 9 : 10); /* only padding may be missing */
    }
    stk_buf_release(&b);
}

static void test_parts(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct seen s;
    put_part(&b, 0, "first", 5);
    size_t multi = b.len;
    put_part(&b, 1, "abcd", 4);
    put_part(&b, 2, "", 0);
    put_part(&b, 3, "efghi", 5);
    size_t after = b.len;
    put_part(&b, 0, "last", 4);
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 3);
    CHECK_INT(s.nproblems, 0);
    CHECK_INT(s.off[1], multi + 8);
    CHECK_INT(s.len[1], after - 3 - multi - 8);
    CHECK(s.chain[1] != STK_NO_CHAIN);

    const struct stk_format *f = stk_format_find("recordio");
    struct stk_err err;
    CHECK_INT(f->check(b.data + multi, s.len[1], NULL, "f", multi, &err), 0);
    CHECK_INT(f->check(b.data, 5, NULL, "f", 0, &err), 0);
    CHECK_INT(f->check(b.data, 6, NULL, "f", 0, &err), STK_E_CORRUPT);
    CHECK_INT(f->check(b.data + 4, 5, NULL, "f", 4, &err), STK_E_CORRUPT);

    struct stk_chain join = {.nsteps = 1, .step[0].id = STK_FILTER_JOIN};
    struct stk_buf out = STK_BUF_INIT, scratch = STK_BUF_INIT;
    CHECK_INT(
        stk_filter_decode(&join, b.data + s.off[1], (size_t)s.len[1], &out, &scratch, "f", 0, &err),
        0);
    CHECK(out.len == 17 && memcmp(out.data,
                                  "abcd\x0a\x23\xd7\xce\x0a\x23\xd7\xce"
                                  "efghi",
                                  17) == 0);

    b.data[multi + 8 + 4] ^= 1; /* the magic of the second part: the record is not finished */
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 2);
    CHECK_INT(s.nproblems, 1);
    CHECK_INT(s.problem[0], multi);
    stk_buf_release(&b);
    stk_buf_release(&out);
    stk_buf_release(&scratch);
}

/* A header of 512 MiB lengths, nothing but magics, a lone half header: no crash, no memory. */
static void test_hostile(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct seen s;
    for (int i = 0; i < 100000; i++)
        put_u32(&b, MAGIC);
    CHECK_INT(list(&b, &s), 0);
    CHECK(s.nrecords == 0 && s.nproblems > 0);
    stk_buf_reset(&b);
    for (int i = 0; i < 1000; i++) {
        put_u32(&b, MAGIC);
        put_u32(&b, 0x1fffffffu);
    }
    CHECK_INT(list(&b, &s), 0);
    CHECK(s.nrecords == 0 && s.nproblems > 0);
    stk_buf_reset(&b);
    for (int i = 0; i < 1000; i++)
        put_part(&b, 1, "", 0);
    CHECK_INT(list(&b, &s), 0);
    CHECK_INT(s.nrecords, 0);
    stk_buf_release(&b);
}

/* ---- the image header ------------------------------------------------------------------------ */

static void put_image(struct stk_buf *b, uint32_t flag, float label, uint64_t id, const float *more,
                      const char *data)
{
    uint8_t head[24] = {0};
    uint32_t bits;
    memcpy(&bits, &label, 4);
    stk_put_le32(head, flag);
    stk_put_le32(head + 4, bits);
    stk_put_le64(head + 8, id);
    stk_buf_put(b, head, sizeof head);
    stk_buf_put(b, more, flag * sizeof *more);
    stk_buf_puts(b, data);
}

/* Explodes the record, implodes it again: must give the same bytes. */
static void round_trip(const struct stk_buf *b, struct stk_sample *s)
{
    const struct stk_codec *c = stk_codec_find("image");
    struct stk_buf again = STK_BUF_INIT;
    struct stk_err err;
    stk_sample_reset(s);
    CHECK_INT(c->explode("", 0, b->data, b->len, s, &err), 0);
    CHECK_INT(c->implode(s, &again, &err), 0);
    CHECK(again.len == b->len && memcmp(again.data, b->data, b->len) == 0);
    stk_buf_release(&again);
}

static void test_image(void)
{
    static const float labels[] = {0.5f, -1.25f, 7};
    struct stk_buf b = STK_BUF_INIT;
    struct stk_sample s;
    stk_sample_init(&s);
    put_image(&b, 0, 3, 41, NULL, "\xff\xd8\xffjpeg");
    round_trip(&b, &s);
    CHECK(s.key_len == 2 && memcmp(s.key, "41", 2) == 0);
    const struct stk_value *v = stk_sample_get(&s, "label");
    CHECK(v && v->dtype == STK_I64 && v->ndim == 0 && stk_value_i64(v, 0) == 3);
    v = stk_sample_get(&s, "data");
    CHECK(v && v->kind == STK_BYTES && v->size == 7);
    CHECK(stk_codec_guess(b.data, b.len) == stk_codec_find("image"));
    stk_buf_reset(&b);
    put_image(&b, 0, 0.25f, 1, NULL, "");
    round_trip(&b, &s);
    v = stk_sample_get(&s, "label");
    CHECK(v && v->dtype == STK_F32 && stk_value_f64(v, 0) == 0.25);
    stk_buf_reset(&b);
    put_image(&b, 3, 0, 9, labels, "x");
    round_trip(&b, &s);
    v = stk_sample_get(&s, "label");
    CHECK(v && v->ndim == 1 && v->dim[0] == 3 && stk_value_f64(v, 1) == -1.25);

    const struct stk_codec *c = stk_codec_find("image");
    struct stk_err err;
    for (size_t n = 0; n < 36; n++) { /* header or labels cut off */
        stk_sample_reset(&s);
        CHECK_INT(c->explode("", 0, b.data, n, &s, &err), STK_E_CORRUPT);
    }
    uint8_t zeros[64] = {0};
    CHECK(stk_codec_guess(zeros, sizeof zeros) == NULL); /* black pixels are no header */
    stk_sample_release(&s);
    stk_buf_release(&b);
}

static void test_image_refusals(void)
{
    const struct stk_codec *c = stk_codec_find("image");
    struct stk_sample s;
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err err = {0};
    stk_sample_init(&s);
    stk_sample_reset(&s);
    CHECK_INT(stk_sample_add_bytes(&s, "data", STK_BYTES, "x", 1, &err), 0);
    CHECK_INT(stk_sample_add_i64(&s, "label", 5, 16777217, &err), 0);
    CHECK_INT(c->implode(&s, &b, &err), STK_E_UNSUPPORTED); /* float32 would make it 16777216 */
    CHECK(strstr(err.what, "label") != NULL);
    CHECK_INT(stk_sample_set_label(&s, 5, &err), 0);
    s.key = "n01440764/x.jpg";
    s.key_len = 15;
    s.number = 77;
    stk_buf_reset(&b);
    CHECK_INT(c->implode(&s, &b, &err), 0);
    CHECK_INT(stk_le64(b.data + 8), 77); /* a key that is no number: the sample's place */
    CHECK_INT(stk_sample_add_bytes(&s, "mask", STK_BYTES, "y", 1, &err), 0);
    CHECK_INT(c->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "mask") != NULL);
    stk_sample_release(&s);
    stk_buf_release(&b);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_whole);
    CHECK_RUN(test_resync);
    CHECK_RUN(test_truncated);
    CHECK_RUN(test_parts);
    CHECK_RUN(test_hostile);
    CHECK_RUN(test_image);
    CHECK_RUN(test_image_refusals);
    return CHECK_DONE();
}
