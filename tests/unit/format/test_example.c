/* An Example written by TensorFlow must come in as it was meant, and one of ours must come back as
 * the same sample: everything packed into TFRecord goes through here. */
#include <stdlib.h>

#include "format/codec/example.h"
#include "format/format.h"
#include "format/sample.h"
#include "check.h"

static const struct stk_codec *example, *sequence;
static struct stk_sample s;
static struct stk_err err;

static int explode(const struct stk_codec *c, const void *p, size_t n)
{
    stk_sample_reset(&s);
    memset(&err, 0, sizeof err);
    return c->explode("", 0, p, n, &s, &err);
}

static struct stk_value array(enum stk_dtype t, const void *p, size_t n)
{
    return (struct stk_value){.kind = STK_ARRAY,
                              .dtype = (uint8_t)t,
                              .ndim = 1,
                              .dim = {n},
                              .data = p,
                              .size = n * stk_dtype_size(t)};
}

static struct stk_value bytes(const char *p)
{
    return (struct stk_value){.kind = STK_BYTES, .data = p, .size = strlen(p)};
}

static bool same_value(const struct stk_value *a, const struct stk_value *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->ndim != b->ndim ||
        memcmp(a->dim, b->dim, a->ndim * sizeof *a->dim) || a->size != b->size ||
        (a->size && memcmp(a->data, b->data, a->size)) || a->nitems != b->nitems)
        return false;
    for (size_t i = 0; i < a->nitems; i++)
        if (!same_value(&a->item[i], &b->item[i]))
            return false;
    return true;
}

/* Writes a sample of one field, reads it, and compares. */
static bool comes_back(const struct stk_codec *c, const char *name, const struct stk_value *v)
{
    struct stk_sample one;
    struct stk_buf b = STK_BUF_INIT;
    stk_sample_init(&one);
    stk_sample_add(&one, name, strlen(name), v);
    int rc = c->implode(&one, &b, &err);
    if (!rc)
        rc = explode(c, b.data, b.len);
    bool ok = !rc && s.nfields == 1 && s.field[0].name_len == strlen(name) &&
              memcmp(s.field[0].name, name, strlen(name)) == 0 && same_value(&s.field[0].value, v);
    if (rc)
        fprintf(stderr, "%s: %s\n", name, err.what);
    stk_sample_reset(&s); /* its values point into b */
    stk_buf_release(&b);
    stk_sample_release(&one);
    return ok;
}

static int refused(const struct stk_codec *c, const struct stk_value *v)
{
    struct stk_sample one;
    struct stk_buf b = STK_BUF_INIT;
    stk_sample_init(&one);
    stk_sample_add(&one, "x", 1, v);
    int rc = c->implode(&one, &b, &err);
    stk_buf_release(&b);
    stk_sample_release(&one);
    return rc;
}

/* As `protoc --encode=tensorflow.Example` gives it, keys sorted. */
static const uint8_t canonical[] = "\x0a\x36"
                                   "\x0a\x10\x0a\x04"
                                   "data\x12\x08\x0a\x06\x0a\x04JPEG"
                                   "\x0a\x0c\x0a\x03"
                                   "key\x12\x05\x0a\x03\x0a\x01k"
                                   "\x0a\x14\x0a\x05"
                                   "label\x12\x0b\x1a\x09\x0a\x07\x81\x80\x80\x80\x80\x80\x01";

static void test_known_bytes(void)
{
    CHECK_INT(explode(example, canonical, sizeof canonical - 1), 0);
    CHECK_INT(s.nfields, 2);
    CHECK(s.key_len == 1 && s.key[0] == 'k');
    const struct stk_value *data = stk_sample_get(&s, "data"), *label = stk_sample_get(&s, "label");
    CHECK(data && data->kind == STK_BYTES && data->size == 4 && !memcmp(data->data, "JPEG", 4));
    CHECK(data && (const uint8_t *)data->data > canonical &&
          (const uint8_t *)data->data < canonical + sizeof canonical);
    CHECK(label && label->kind == STK_ARRAY && label->dtype == STK_I64 && label->ndim == 0);
    CHECK(label && stk_value_i64(label, 0) == ((int64_t)1 << 42) + 1);
    CHECK_INT(example->bid(canonical, sizeof canonical - 1), 90);
    CHECK_INT(sequence->bid(canonical, sizeof canonical - 1), 0);

    struct stk_buf b = STK_BUF_INIT;
    CHECK_INT(example->implode(&s, &b, &err), 0);
    CHECK(b.len == sizeof canonical - 1 && memcmp(b.data, canonical, b.len) == 0);
    stk_buf_release(&b);
}

/* Every prefix and every flipped bit is either refused or read without harm. */
static void test_damage(void)
{
    for (size_t n = 0; n < sizeof canonical - 1; n++) {
        uint8_t *copy = malloc(n + 1); /* its own block, so that ASan sees one byte too far */
        memcpy(copy, canonical, n);
        CHECK_INT(explode(example, copy, n), n ? STK_E_CORRUPT : 0);
        CHECK_INT(example->bid(copy, n), 0);
        free(copy);
    }
    for (size_t bit = 0; bit < 8 * (sizeof canonical - 1); bit++) {
        uint8_t copy[sizeof canonical];
        memcpy(copy, canonical, sizeof copy);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        explode(example, copy, sizeof copy - 1);
        explode(sequence, copy, sizeof copy - 1);
        example->bid(copy, sizeof copy - 1);
        sequence->bid(copy, sizeof copy - 1);
    }
}

static void test_other_writers(void)
{
    /* Unpacked lists: float 1.5 and 2.5 with a tag each; int64 7 and -1 likewise. */
    static const uint8_t loose[] = "\x0a\x2a"
                                   "\x0a\x11\x0a\x01"
                                   "f\x12\x0c\x12\x0a\x0d\x00\x00\xc0\x3f\x0d\x00\x00\x20\x40"
                                   "\x0a\x15\x0a\x01"
                                   "i\x12\x10\x1a\x0e\x08\x07"
                                   "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10";
    /* The last byte is cut off here: a stray tag makes the list invalid. */
    CHECK_INT(explode(example, loose, sizeof loose - 1), STK_E_CORRUPT);
    uint8_t good[sizeof loose];
    memcpy(good, loose, sizeof good);
    good[1] -= 1, good[22] -= 1, good[27] -= 1, good[29] -= 1;
    CHECK_INT(explode(example, good, sizeof good - 2), 0);
    const struct stk_value *f = stk_sample_get(&s, "f"), *i = stk_sample_get(&s, "i");
    CHECK(f && f->dtype == STK_F32 && f->ndim == 1 && f->dim[0] == 2);
    CHECK(f && stk_value_f64(f, 0) == 1.5 && stk_value_f64(f, 1) == 2.5);
    CHECK(i && i->dtype == STK_I64 && i->dim[0] == 2);
    CHECK(i && stk_value_i64(i, 0) == 7 && stk_value_i64(i, 1) == -1);
}

static void test_protobuf_rules(void)
{
    /* Two entries "a": the last wins. Value before key. An unknown field. An empty oneof. */
    static const uint8_t odd[] = "\x0a\x1f"
                                 "\x0a\x0a\x0a\x01"
                                 "a\x12\x05\x0a\x03\x0a\x01x"
                                 "\x0a\x0c\x12\x05\x0a\x03\x0a\x01y\x0a\x01"
                                 "a\x18\x05"
                                 "\x0a\x03\x0a\x01n";
    CHECK_INT(explode(example, odd, sizeof odd - 1), 0);
    CHECK_INT(s.nfields, 1);
    const struct stk_value *a = stk_sample_get(&s, "a");
    CHECK(a && a->size == 1 && *(const char *)a->data == 'y');
    CHECK_INT(example->bid(odd, sizeof odd - 1), 0); /* not strict enough to be guessed */

    /* One Feature: int64 list 1, then bytes "p", then bytes "q": the oneof's last member, merged.
     */
    static const uint8_t merged[] = "\x0a\x18\x0a\x16\x0a\x01"
                                    "m\x12\x11\x1a\x03\x0a\x01\x01\x0a\x03\x0a\x01p\x0a\x05\x0a\x03"
                                    "qqq";
    CHECK_INT(explode(example, merged, sizeof merged - 1), 0);
    const struct stk_value *m = stk_sample_get(&s, "m");
    CHECK(m && m->kind == STK_LIST && m->nitems == 2 && m->item[1].size == 3);
    CHECK_INT(explode(example, "", 0), 0);
    CHECK_INT(s.nfields, 0);
}

static void test_bids_are_strict(void)
{
    static const char *const not_ours[] = {"",
                                           "\x0a",
                                           "hello, world",
                                           "\x0a\x00",
                                           "\xff\xd8\xff\xe0",
                                           "\x08\x03\x10\x20\x18\x20",
                                           "\x0a\x04\x0a\x02\x0a\x00"};
    for (size_t i = 0; i < sizeof not_ours / sizeof *not_ours; i++) {
        const uint8_t *p = (const uint8_t *)not_ours[i];
        size_t n = i == 3 ? 2 : i == 6 ? 6 : strlen(not_ours[i]);
        CHECK_INT(example->bid(p, n), 0);
        CHECK_INT(sequence->bid(p, n), 0);
    }
}

/* A volume of 16 MiB in the first record must not turn a dataset into raw bytes. */
static void test_large_records_are_recognised(void)
{
    enum { N = 1 << 16, SEEN = 4096 };
    static uint8_t raw[N];
    struct stk_value v = {.kind = STK_BYTES, .data = raw, .size = N};
    struct stk_value grid = array(STK_F32, raw, N / 4);
    struct stk_buf b = STK_BUF_INIT;
    grid.ndim = 2, grid.dim[0] = 4, grid.dim[1] = N / 16;
    stk_sample_reset(&s);
    s.key = "k", s.key_len = 1;
    stk_sample_add(&s, "x", 1, &v);
    CHECK_INT(example->implode(&s, &b, &err), 0);
    CHECK_STR(stk_example_guess_large(b.data, SEEN, b.len), "example");
    CHECK(!stk_example_guess_large(b.data, SEEN, b.len + 1));
    CHECK(!stk_example_guess_large(b.data, SEEN, b.len - 1));
    for (size_t n = 0; n < 8; n++)
        CHECK(!stk_example_guess_large(b.data, n, b.len));
    stk_buf_reset(&b);
    stk_sample_reset(&s);
    s.key = "k", s.key_len = 1;
    stk_sample_add(&s, "x", 1, &grid);
    CHECK_INT(sequence->implode(&s, &b, &err), 0);
    CHECK_STR(stk_example_guess_large(b.data, SEEN, b.len), "sequence");
    CHECK(!stk_example_guess_large(b.data, SEEN, b.len + 1));
    CHECK(!stk_example_guess_large(raw, SEEN, N));
    stk_buf_release(&b);
}

static void test_arrays_come_back(void)
{
    uint8_t raw[96];
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (uint8_t)(i * 37 + 5);
    for (enum stk_dtype t = STK_U8; t < STK_BOOL; t++) {
        struct stk_value v = array(t, raw, 12);
        CHECK(comes_back(example, "x", &v));
        v = array(t, raw, 1);
        CHECK(comes_back(example, "x", &v));
        CHECK(comes_back(example, "label", &v));
        v.ndim = 0;
        CHECK(comes_back(example, "x", &v));
        CHECK(comes_back(example, "label", &v));
        CHECK(comes_back(sequence, "x", &v));
        v = array(t, raw, 12);
        v.ndim = 3;
        v.dim[0] = 2, v.dim[1] = 3, v.dim[2] = 2;
        CHECK(comes_back(example, "x", &v));
        CHECK(comes_back(sequence, "x", &v));
        v = array(t, raw, 0);
        CHECK(comes_back(example, "x", &v));
        v.ndim = 2;
        v.dim[0] = 3, v.dim[1] = 0;
        CHECK(comes_back(example, "x", &v));
        CHECK(comes_back(sequence, "x", &v));
    }
    static const uint8_t yes_no[] = {1, 0, 1};
    struct stk_value v = array(STK_BOOL, yes_no, 3);
    CHECK(comes_back(example, "mask", &v));
    static const uint64_t big[] = {UINT64_MAX, 0, (uint64_t)1 << 63};
    v = array(STK_U64, big, 3);
    CHECK(comes_back(example, "hash", &v));
}

static void test_lists_come_back(void)
{
    static const float f[6] = {1, 2, 3, 4, 5, 6};
    static const int16_t i[4] = {-1, 2, -3, 4};
    struct stk_value words[3] = {bytes("one"), bytes(""), bytes("three")};
    struct stk_value list = {.kind = STK_LIST, .item = words, .nitems = 3};
    for (list.nitems = 0; list.nitems <= 3; list.nitems++) {
        CHECK(comes_back(example, "words", &list));
        CHECK(comes_back(sequence, "words", &list));
    }
    struct stk_value ragged[2] = {array(STK_F32, f, 2), array(STK_F32, f, 3)};
    list = (struct stk_value){.kind = STK_LIST, .item = ragged, .nitems = 2};
    CHECK_INT(refused(example, &list), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "sequence"));
    CHECK(comes_back(sequence, "ragged", &list));
    ragged[0] = array(STK_I16, i, 1), ragged[1] = array(STK_I16, i, 4);
    CHECK(comes_back(sequence, "ragged", &list));
    ragged[1] = array(STK_F32, f, 3);
    CHECK_INT(refused(sequence, &list), STK_E_UNSUPPORTED);
    ragged[0] = (struct stk_value){.kind = STK_LIST, .item = words, .nitems = 2};
    CHECK(comes_back(sequence, "mixed", &list));

    struct stk_value grid = array(STK_F32, f, 6);
    grid.ndim = 2;
    grid.dim[0] = 2, grid.dim[1] = 3;
    CHECK(comes_back(sequence, "grid", &grid));
    /* Steps of one width are an array when they are read. */
    ragged[0] = array(STK_F32, f, 3), ragged[1] = array(STK_F32, f + 3, 3);
    struct stk_buf b = STK_BUF_INIT;
    stk_sample_reset(&s);
    stk_sample_add(&s, "grid", 4, &list);
    CHECK_INT(sequence->implode(&s, &b, &err), 0);
    CHECK_INT(sequence->bid(b.data, b.len), 90);
    CHECK_INT(example->bid(b.data, b.len), 0);
    CHECK_INT(explode(example, b.data, b.len), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "SequenceExample"));
    CHECK_INT(explode(sequence, b.data, b.len), 0);
    CHECK(s.nfields == 1 && same_value(&s.field[0].value, &grid));
    stk_buf_release(&b);
}

static void test_json_is_checked(void)
{
    struct stk_value v = bytes("{\"a\": [1, null]}");
    v.kind = STK_JSON;
    CHECK(comes_back(example, "meta", &v));
    v.data = "{\"a\": [1, null}}"; /* says json, is not: stays bytes beside its companion */
    CHECK(!comes_back(example, "meta", &v));
    struct stk_buf b = STK_BUF_INIT;
    stk_sample_reset(&s);
    stk_sample_add(&s, "meta", 4, &v);
    CHECK_INT(example->implode(&s, &b, &err), 0);
    CHECK_INT(explode(example, b.data, b.len), 0);
    CHECK_INT(s.nfields, 2);
    CHECK(stk_sample_get(&s, "meta") && stk_sample_get(&s, "meta")->kind == STK_BYTES);
    stk_sample_reset(&s);
    stk_buf_release(&b);
}

/* A foreign file may have features that only look like our companions. */
static void test_companions_that_do_not_fit(void)
{
    static const float f[4] = {1, 2, 3, 4};
    static const int64_t wrong[][3] = {{3, 5}, {-2, -2}, {INT64_MAX, INT64_MAX}, {4, 0}, {2, 3}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct stk_sample two;
        struct stk_buf b = STK_BUF_INIT;
        struct stk_value v = array(STK_F32, f, 4), shape = array(STK_I64, wrong[i], 2);
        struct stk_value dtype = bytes("float128");
        stk_sample_init(&two);
        stk_sample_add(&two, "x", 1, &v);
        stk_sample_add(&two, "x/shape", 7, &shape);
        stk_sample_add(&two, "x/dtype", 7, &dtype);
        CHECK_INT(example->implode(&two, &b, &err), 0);
        CHECK_INT(explode(example, b.data, b.len), 0);
        CHECK_INT(s.nfields, 3);
        stk_sample_reset(&s);
        stk_buf_release(&b);
        stk_sample_release(&two);
    }
}

static void test_keys(void)
{
    struct stk_value v = bytes("field");
    struct stk_buf b = STK_BUF_INIT;
    stk_sample_reset(&s);
    s.key = "a/b.jpg", s.key_len = 7;
    stk_sample_add(&s, "key", 3, &v);
    CHECK_INT(example->implode(&s, &b, &err), 0);
    CHECK_INT(explode(example, b.data, b.len), 0);
    CHECK(s.key_len == 7 && memcmp(s.key, "a/b.jpg", 7) == 0);
    CHECK_INT(s.nfields, 1);
    CHECK(stk_sample_get(&s, "key"));

    /* Two features of one name are refused, not written for a reader to pick from. */
    static const float f[4] = {1, 2, 3, 4};
    struct stk_value grid = array(STK_F32, f, 4), shape = array(STK_F32, f, 2);
    grid.ndim = 2, grid.dim[0] = 2, grid.dim[1] = 2;
    stk_sample_reset(&s);
    stk_sample_add(&s, "x", 1, &grid);
    stk_sample_add(&s, "x/shape", 7, &shape);
    CHECK_INT(example->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "x/shape"));
    /* Also between the context (x/dtype, for the list x) and the feature lists. */
    static const int16_t i[2] = {1, 2};
    struct stk_value item = array(STK_I16, i, 2), word = bytes("w");
    struct stk_value list = {.kind = STK_LIST, .item = &item, .nitems = 1};
    struct stk_value words = {.kind = STK_LIST, .item = &word, .nitems = 1};
    stk_sample_reset(&s);
    stk_sample_add(&s, "x", 1, &list);
    CHECK_INT(sequence->implode(&s, &b, &err), 0);
    stk_sample_add(&s, "x/dtype", 7, &words);
    CHECK_INT(sequence->implode(&s, &b, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "x/dtype"));
    stk_buf_release(&b);
}

static void test_order_does_not_matter(void)
{
    enum { N = 60 }; /* more than the writer keeps on its stack */
    static char name[N][16];
    struct stk_buf b[2] = {STK_BUF_INIT, STK_BUF_INIT};
    for (int pass = 0; pass < 2; pass++) {
        stk_sample_reset(&s);
        for (int i = 0; i < N; i++) {
            int k = pass ? N - 1 - i : i;
            struct stk_value v = bytes("value");
            snprintf(name[k], sizeof name[k], "c%d", k);
            stk_sample_add(&s, name[k], strlen(name[k]), &v);
        }
        CHECK_INT(example->implode(&s, &b[pass], &err), 0);
    }
    CHECK(b[0].len == b[1].len && memcmp(b[0].data, b[1].data, b[0].len) == 0);
    CHECK_INT(explode(example, b[0].data, b[0].len), 0);
    CHECK_INT(s.nfields, N);
    stk_sample_reset(&s);
    stk_buf_release(&b[0]);
    stk_buf_release(&b[1]);
}

/* 2 bytes a stored item, 104 in memory: a small record must not take gigabytes. */
static void test_many_empty_strings(void)
{
    size_t items = 3u << 20, list = 2 * items;
    struct stk_buf b = STK_BUF_INIT;
    static const uint8_t head[] = {0x0a, 0x8e, 0x80, 0x80, 0x03, 0x0a, 0x89, 0x80,
                                   0x80, 0x03, 0x0a, 0x00, 0x12, 0x84, 0x80, 0x80,
                                   0x03, 0x0a, 0x80, 0x80, 0x80, 0x03};
    stk_buf_put(&b, head, sizeof head);
    for (size_t i = 0; i < list; i += 2)
        stk_buf_put(&b, "\x0a\x00", 2);
    b.data[1] = 0x91, b.data[6] = 0x8c, b.data[13] = 0x85;
    CHECK_INT(explode(example, b.data, b.len), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "more than"));
    stk_buf_release(&b);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    example = stk_codec_find("example");
    sequence = stk_codec_find("sequence");
    stk_sample_init(&s);
    CHECK_RUN(test_known_bytes);
    CHECK_RUN(test_damage);
    CHECK_RUN(test_other_writers);
    CHECK_RUN(test_protobuf_rules);
    CHECK_RUN(test_bids_are_strict);
    CHECK_RUN(test_large_records_are_recognised);
    CHECK_RUN(test_arrays_come_back);
    CHECK_RUN(test_lists_come_back);
    CHECK_RUN(test_json_is_checked);
    CHECK_RUN(test_companions_that_do_not_fit);
    CHECK_RUN(test_keys);
    CHECK_RUN(test_order_does_not_matter);
    CHECK_RUN(test_many_empty_strings);
    stk_sample_release(&s);
    return CHECK_DONE();
}
