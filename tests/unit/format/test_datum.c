/* test_datum.c - Caffe's Datum: bytes as Caffe writes them (by hand, from caffe.proto), both ways.
 */
#include "check.h"
#include "format/format.h"
#include "format/sample.h"

static const struct stk_codec *codec;
static struct stk_sample s;
static struct stk_err err;

static int explode(const void *p, size_t n)
{
    stk_sample_reset(&s);
    return codec->explode("", 0, p, n, &s, &err);
}

static void round_trip(const char *p, size_t n)
{
    struct stk_buf b = STK_BUF_INIT;
    CHECK_INT(explode(p, n), 0);
    CHECK_INT(codec->implode(&s, &b, &err), 0);
    CHECK(b.len == n && memcmp(b.data, p, n) == 0);
    stk_buf_release(&b);
}

/* channels 1, height 2, width 3, data 6 bytes, label 5 */
static const char pixels[] = "\x08\x01\x10\x02\x18\x03\x22\x06"
                             "abcdef"
                             "\x28\x05";
/* data, label -1 (ten bytes on the wire), encoded */
static const char jpeg[] = "\x22\x04\xff\xd8\xff\xe0"
                           "\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                           "\x38\x01";
/* channels 2, height 1, width 1, two floats: 1.0, -2.0 */
static const char floats[] = "\x08\x02\x10\x01\x18\x01\x35\0\0\x80\x3f\x35\0\0\0\xc0";
static const char packed[] = "\x08\x02\x10\x01\x18\x01\x32\x08\0\0\x80\x3f\0\0\0\xc0";

static void test_kinds(void)
{
    round_trip(pixels, sizeof pixels - 1);
    const struct stk_value *v = stk_sample_get(&s, "data");
    CHECK(v && v->kind == STK_ARRAY && v->dtype == STK_U8 && v->ndim == 3 && v->dim[1] == 2 &&
          v->dim[2] == 3);
    CHECK_INT(stk_value_i64(stk_sample_get(&s, "label"), 0), 5);
    round_trip(jpeg, sizeof jpeg - 1);
    v = stk_sample_get(&s, "data");
    CHECK(v && v->kind == STK_BYTES && v->size == 4);
    CHECK_INT(stk_value_i64(stk_sample_get(&s, "label"), 0), -1);
    round_trip(floats, sizeof floats - 1);
    v = stk_sample_get(&s, "data");
    CHECK(v && v->dtype == STK_F32 && v->ndim == 3 && stk_value_f64(v, 1) == -2.0);
    CHECK(stk_sample_get(&s, "label") == NULL);
    CHECK_INT(explode(packed, sizeof packed - 1), 0);
    v = stk_sample_get(&s, "data");
    CHECK(v && v->dtype == STK_F32 && stk_value_f64(v, 0) == 1.0 && stk_value_f64(v, 1) == -2.0);
}

static void test_guess(void)
{
    CHECK(stk_codec_guess((const uint8_t *)pixels, sizeof pixels - 1) == codec);
    CHECK(stk_codec_guess((const uint8_t *)jpeg, sizeof jpeg - 1) == codec);
    CHECK(stk_codec_guess((const uint8_t *)floats, sizeof floats - 1) == codec);
    CHECK(codec->bid((const uint8_t *)"", 0) == 0);
    CHECK(codec->bid((const uint8_t *)"\x08\x01", 2) == 0);
    CHECK(codec->bid((const uint8_t *)"plain text", 10) == 0);
}

static void test_damage(void)
{
    CHECK_INT(explode("\x08\x02\x10\x02\x18\x03\x22\x06"
                      "abcdef",
                      14),
              STK_E_CORRUPT); /* 12 pixels */
    for (size_t n = 1; n < sizeof pixels - 1; n++)
        (void)explode(pixels, n); /* must not read past n: the sanitizer watches */
    CHECK_INT(explode("\x22\x7f"
                      "abc",
                      5),
              STK_E_CORRUPT);
    CHECK_INT(explode("\x32\x03"
                      "abc",
                      5),
              STK_E_CORRUPT);
    CHECK_INT(explode("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11), STK_E_CORRUPT);
}

static void test_refusals(void)
{
    struct stk_buf b = STK_BUF_INIT;
    const double d[2] = {1, 2};
    struct stk_value v = {
        .kind = STK_ARRAY, .dtype = STK_F64, .ndim = 1, .dim = {2}, .data = d, .size = sizeof d};
    stk_sample_reset(&s);
    CHECK(stk_sample_add(&s, "data", 4, &v) != NULL);
    CHECK_INT(codec->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    stk_sample_reset(&s);
    CHECK_INT(stk_sample_add_bytes(&s, "data", STK_BYTES, "x", 1, &err), 0);
    CHECK_INT(stk_sample_add_i64(&s, "label", 5, (int64_t)1 << 40, &err), 0);
    CHECK_INT(codec->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    CHECK_INT(stk_sample_set_label(&s, 1, &err), 0);
    CHECK_INT(codec->implode(&s, &b, &err), 0);
    CHECK_INT(stk_sample_add_bytes(&s, "mask", STK_BYTES, "x", 1, &err), 0);
    CHECK_INT(codec->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "mask") != NULL);
    stk_buf_release(&b);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    codec = stk_codec_find("datum");
    stk_sample_init(&s);
    CHECK_RUN(test_kinds);
    CHECK_RUN(test_guess);
    CHECK_RUN(test_damage);
    CHECK_RUN(test_refusals);
    stk_sample_release(&s);
    return CHECK_DONE();
}
