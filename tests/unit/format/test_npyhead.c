/* test_npyhead.c - NPY headers: every one NumPy writes is read, ours are NumPy's byte for byte, and
 * no header can make us read, allocate or multiply past the end of anything. */
#include "check.h"
#include "format/format.h"
#include "format/numpy/npyhead.h"
#include "format/sample.h"

#include <stdlib.h>

static struct stk_npy_head h;
static struct stk_err err;

/* A file of version 1 (or 2, 3) whose header text is `text`, in a block of exactly its size so
 * that ASan sees a read past the end. */
static int parse_version(int version, const char *text)
{
    size_t n = strlen(text), at = version == 1 ? 10 : 12;
    uint8_t *p = malloc(at + n);
    memcpy(p, "\x93NUMPY", 6);
    p[6] = (uint8_t)version;
    p[7] = 0;
    if (version == 1)
        stk_put_le16(p + 8, (uint16_t)n);
    else
        stk_put_le32(p + 8, (uint32_t)n);
    memcpy(p + at, text, n);
    err = (struct stk_err){0};
    int rc = stk_npy_parse(p, at + n, &h, &err);
    free(p);
    return rc;
}

static int parse(const char *text)
{
    return parse_version(1, text);
}

/* A user would lose arrays written by some NumPy, old or new. */
static void test_reads(void)
{
    CHECK_INT(parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n"), 0);
    CHECK_INT(h.dtype, STK_F32);
    CHECK_INT(h.ndim, 2);
    CHECK_INT(h.dim[0], 3);
    CHECK_INT(h.dim[1], 4);
    CHECK_INT(h.count, 12);
    CHECK_INT(h.data_bytes, 48);
    CHECK_INT(h.data_offset, 10 + 66);
    CHECK(!h.swap && !h.fortran && !h.chars);
    /* other order of keys, other quotes, no blanks, no last comma, no newline */
    CHECK_INT(parse("{\"shape\":(),\"descr\":\">i8\",\"fortran_order\":True}"), 0);
    CHECK(h.ndim == 0 && h.count == 1 && h.swap && !h.fortran && h.dtype == STK_I64);
    CHECK_INT(parse("{'shape': (5L,), 'fortran_order': False, 'descr': '|u1'}"), 0);
    CHECK(h.ndim == 1 && h.dim[0] == 5 && h.dtype == STK_U8 && !h.swap);
    CHECK_INT(parse("{'shape': (2, 3), 'fortran_order': True, 'descr': '>u2'}"), 0);
    CHECK(h.fortran && h.swap);
    CHECK_INT(parse("{'shape': (7, 1), 'fortran_order': True, 'descr': '|b1'}"), 0);
    CHECK(!h.fortran && h.dtype == STK_BOOL);
    CHECK_INT(parse("{'shape': (0, 9), 'fortran_order': False, 'descr': '<f2'}"), 0);
    CHECK(h.count == 0 && h.data_bytes == 0 && h.dtype == STK_F16);
    CHECK_INT(parse_version(2, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }\n"), 0);
    CHECK_INT(h.data_offset, 12 + 58);
    CHECK_INT(parse_version(3, "{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }\n"), 0);
    CHECK_INT(parse("{'shape': (4,), 'fortran_order': False, 'descr': '|S5'}"), 0);
    CHECK(h.chars == 'S' && h.itemsize == 5 && h.data_bytes == 20 && h.dtype == 0);
    CHECK_INT(parse("{'shape': (4,), 'fortran_order': False, 'descr': '<U5'}"), 0);
    CHECK(h.chars == 'U' && h.itemsize == 20);
}

/* A user would get a crash or wrong numbers instead of the reason. */
static void test_refuses(void)
{
    static const char *const unsupported[] = {
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<c32', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f16', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|V8', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }",
    };
    static const char *const corrupt[] = {
        "",
        "{",
        "{}",
        "[]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), } x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [3], }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,), }",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,), }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4', 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<f3', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4x', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|S0', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '|S99999999999999999999', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4\\', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f4",
        "{'descr' '<f4'}",
        /* 2^63 bytes and more, also behind a zero */
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 9223372036854775807, 4), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
    };
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
        CHECK_INT(parse(unsupported[i]), STK_E_UNSUPPORTED);
        CHECK(err.what[0] && err.offset > 0);
    }
    for (size_t i = 0; i < sizeof corrupt / sizeof *corrupt; i++) {
        CHECK_INT(parse(corrupt[i]), STK_E_CORRUPT);
        CHECK(err.what[0] && err.offset >= 0);
    }
}

/* A header bomb would take the machine's memory. */
static void test_bounds(void)
{
    static const uint8_t bomb[] = {0x93, 'N',  'U',  'M',  'P',  'Y', 2,
                                   0,    0xff, 0xff, 0xff, 0xff, '{'};
    CHECK_INT(stk_npy_parse(bomb, sizeof bomb, &h, &err), STK_E_CORRUPT);
    CHECK(strstr(err.what, "64 KiB"));
    static const uint8_t version[] = {0x93, 'N', 'U', 'M', 'P', 'Y', 9, 0, 1, 0, '{', '}'};
    CHECK_INT(stk_npy_parse(version, sizeof version, &h, &err), STK_E_UNSUPPORTED);
    struct stk_buf b = STK_BUF_INIT;
    uint64_t dim[] = {3};
    stk_npy_write_head(&b, STK_F32, 1, dim);
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *cut = malloc(n + 1); /* one more, as malloc(0) may be NULL */
        memcpy(cut, b.data, n);
        CHECK_INT(stk_npy_parse(cut, n, &h, &err), STK_E_CORRUPT);
        free(cut);
    }
    CHECK_INT(stk_npy_parse(b.data, b.len, &h, NULL), 0);
    stk_buf_release(&b);
}

static void check_written(enum stk_dtype t, unsigned ndim, const uint64_t *dim, const char *text,
                          size_t want_len)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_npy_write_head(&b, t, ndim, dim);
    CHECK_INT(b.len, want_len);
    CHECK(memcmp(b.data, "\x93NUMPY\x01\x00", 8) == 0);
    CHECK_INT(stk_le16(b.data + 8), want_len - 10);
    CHECK(memcmp(b.data + 10, text, strlen(text)) == 0);
    for (size_t i = 10 + strlen(text); i + 1 < b.len; i++)
        CHECK(b.data[i] == ' ');
    CHECK(b.data[b.len - 1] == '\n');
    CHECK_INT(stk_npy_parse(b.data, b.len, &h, NULL), 0);
    CHECK(h.dtype == t && h.ndim == ndim && h.data_offset == b.len);
    CHECK(memcmp(h.dim, dim, ndim * sizeof *dim) == 0);
    stk_buf_release(&b);
}

/* The expected texts and lengths are what numpy.save of 1.24 writes. A user would get files that
 * differ from NumPy's, or that some reader does not take. */
static void test_writes(void)
{
    const uint64_t none[] = {0}, one[] = {5}, two[] = {3, 4};
    const uint64_t many[] = {10000000000ull, 9, 9, 9, 9, 9, 9, 9};
    check_written(STK_F32, 2, two, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
                  128);
    check_written(STK_U8, 1, one, "{'descr': '|u1', 'fortran_order': False, 'shape': (5,), }", 128);
    check_written(STK_BOOL, 1, none, "{'descr': '|b1', 'fortran_order': False, 'shape': (0,), }",
                  128);
    check_written(STK_I64, 0, none, "{'descr': '<i8', 'fortran_order': False, 'shape': (), }", 128);
    check_written(STK_F16, 8, many,
                  "{'descr': '<f2', 'fortran_order': False, "
                  "'shape': (10000000000, 9, 9, 9, 9, 9, 9, 9), }",
                  128);
    struct stk_buf a = STK_BUF_INIT, b = STK_BUF_INIT;
    const uint64_t max[] = {UINT64_MAX, 4};
    stk_npy_write_head(&a, STK_F64, 2, two);
    stk_npy_write_head(&b, STK_F64, 2, max);
    CHECK_INT(a.len, b.len); /* a row count can be patched in later */
    stk_buf_release(&a);
    stk_buf_release(&b);
}

/* A user would get transposed or byte-swapped numbers. */
static void test_normalise(void)
{
    static const uint8_t stored[] = {0, 1, 0, 4, 0, 2,
                                     0, 5, 0, 3, 0, 6}; /* columns of 1 2 3/4 5 6 */
    static const uint8_t want[] = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
    uint8_t got[12];
    CHECK_INT(parse("{'shape': (2, 3), 'fortran_order': True, 'descr': '>u2'}"), 0);
    stk_npy_normalise(&h, stored, got);
    CHECK(memcmp(got, want, 12) == 0);
    /* three dimensions, Fortran order: element (i, j, k) of (2, 2, 2) stands at i + 2j + 4k */
    static const uint8_t cube[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint8_t cube_c[] = {0, 4, 2, 6, 1, 5, 3, 7};
    CHECK_INT(parse("{'shape': (2, 2, 2), 'fortran_order': True, 'descr': '|u1'}"), 0);
    stk_npy_normalise(&h, cube, got);
    CHECK(memcmp(got, cube_c, 8) == 0);
    static const uint8_t text[] = {0, 0, 0, 'a', 0, 0, 0, 'b'};
    CHECK_INT(parse("{'shape': (1,), 'fortran_order': False, 'descr': '>U2'}"), 0);
    stk_npy_normalise(&h, text, got);
    CHECK(memcmp(got, "a\0\0\0b\0\0\0", 8) == 0);
}

/* A user would lose the arrays in the members of a WebDataset. */
static void test_codec(void)
{
    const struct stk_codec *c = stk_codec_find("npy");
    struct stk_sample s, back;
    struct stk_buf b = STK_BUF_INIT;
    static const uint8_t numbers[] = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0};
    struct stk_value v = {.kind = STK_ARRAY, .dtype = STK_U16, .ndim = 2, .dim = {2, 3}};
    v.data = numbers;
    v.size = sizeof numbers;
    stk_sample_init(&s);
    stk_sample_init(&back);
    CHECK(c && stk_sample_add(&s, "x", 1, &v));
    CHECK_INT(c->implode(&s, &b, &err), 0);
    /* a label would be lost without a word */
    CHECK_INT(stk_sample_add_i64(&s, "label", 5, 3, &err), 0);
    CHECK_INT(c->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    CHECK(c->bid(b.data, b.len) > 90);
    CHECK_INT(c->explode("", 0, b.data, b.len, &back, &err), 0);
    const struct stk_value *got = stk_sample_get(&back, "data");
    CHECK(got && got->kind == STK_ARRAY && got->dtype == STK_U16 && got->ndim == 2 &&
          got->dim[0] == 2 && got->dim[1] == 3 && got->size == 12 &&
          memcmp(got->data, numbers, 12) == 0);
    CHECK_INT(c->explode("", 0, b.data, b.len - 1, &back, &err), STK_E_CORRUPT);
    stk_buf_putc(&b, 'x');
    CHECK_INT(c->explode("", 0, b.data, b.len, &back, &err), STK_E_CORRUPT);
    CHECK_INT(c->bid(b.data, b.len), 0);
    /* objects are pickles: bytes, never looked into */
    static const char objects[] = "\x93NUMPY\x01\x00\x39\x00"
                                  "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\nevil";
    stk_sample_reset(&back);
    CHECK_INT(c->explode("", 0, (const uint8_t *)objects, sizeof objects - 1, &back, &err), 0);
    got = stk_sample_get(&back, "data");
    CHECK(got && got->kind == STK_BYTES && got->size == sizeof objects - 1);
    CHECK(stk_sample_add(&s, "y", 1, &v));
    CHECK_INT(c->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    stk_buf_release(&b);
    stk_sample_release(&s);
    stk_sample_release(&back);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_reads);
    CHECK_RUN(test_refuses);
    CHECK_RUN(test_bounds);
    CHECK_RUN(test_writes);
    CHECK_RUN(test_normalise);
    CHECK_RUN(test_codec);
    return CHECK_DONE();
}
