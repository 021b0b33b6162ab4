/*
 * test_ragged.c - tables of columns: the schema of what is written, and which arrays of a file are
 * the columns of its samples.
 */
#include "check.h"

#include "format/lister.h"
#include "format/ragged.h"

/* ---- the schema ---- */

static struct stk_value array_of(uint8_t dtype, const void *data, uint64_t n)
{
    return (struct stk_value){.kind = STK_ARRAY,
                              .dtype = dtype,
                              .ndim = 1,
                              .dim = {n},
                              .data = data,
                              .size = (size_t)n * stk_dtype_size(dtype)};
}

static struct stk_value bytes_of(uint8_t kind, const char *text)
{
    return (struct stk_value){.kind = kind, .data = text, .size = strlen(text)};
}

static void add(struct stk_sample *s, const char *name, struct stk_value v)
{
    CHECK(stk_sample_add(s, name, strlen(name), &v) != NULL);
}

static int schema_rc(const char *a, struct stk_value va, const char *b, struct stk_value vb,
                     struct stk_err *err)
{
    struct stk_sample s;
    struct stk_schema *sc = NULL;
    stk_sample_init(&s);
    stk_sample_reset(&s);
    s.key = "k";
    s.key_len = 1;
    add(&s, a, va);
    if (b)
        add(&s, b, vb);
    int rc = stk_schema_new(&s, "HDF5", true, &sc, err);
    stk_schema_free(sc);
    stk_sample_release(&s);
    return rc;
}

static void test_names_that_collide_are_refused(void)
{
    struct stk_err err = {0};
    struct stk_value text = bytes_of(STK_TEXT, "x"), none = {0};
    float f[2] = {1, 2};
    struct stk_value array = array_of(STK_F32, f, 2);
    CHECK_INT(schema_rc("a", text, "b", array, &err), 0);
    CHECK_INT(schema_rc("a", text, "a.offsets", array, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("a", array, "a.offsets", array, &err), 0); /* nothing ragged about a */
    CHECK_INT(schema_rc("a", array, "a/b", array, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("a", array, "a", text, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("key", text, NULL, none, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("../a", array, NULL, none, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("/a", array, NULL, none, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("a//b", array, NULL, none, &err), STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("l", (struct stk_value){.kind = STK_LIST}, NULL, none, &err),
              STK_E_UNSUPPORTED);
    CHECK_INT(schema_rc("e", array_of(STK_F32, f, 0), NULL, none, &err), STK_E_UNSUPPORTED);
}

static int encode(const struct stk_schema *sc, const char *key, const char *a, struct stk_value va,
                  const char *b, struct stk_value vb, struct stk_buf *out, struct stk_err *err)
{
    struct stk_sample s;
    stk_sample_init(&s);
    stk_sample_reset(&s);
    s.key = key;
    s.key_len = strlen(key);
    add(&s, a, va);
    if (b)
        add(&s, b, vb);
    stk_buf_reset(out);
    int rc = stk_schema_encode(sc, &s, out, err);
    stk_sample_release(&s);
    return rc;
}

static struct stk_schema *make_schema(void)
{
    static const double zero[2];
    struct stk_sample s;
    struct stk_schema *sc = NULL;
    stk_sample_init(&s);
    stk_sample_reset(&s);
    s.key = "first";
    s.key_len = 5;
    add(&s, "t", bytes_of(STK_TEXT, "text"));
    add(&s, "v", array_of(STK_F64, zero, 2));
    CHECK_INT(stk_schema_new(&s, "HDF5", true, &sc, NULL), 0);
    stk_sample_release(&s);
    return sc;
}

static void test_samples_are_checked_and_come_back(void)
{
    struct stk_schema *sc = make_schema();
    struct stk_buf out = STK_BUF_INIT;
    struct stk_err err = {0};
    struct stk_cell cell[3];
    size_t used;
    double d[2] = {0.5, -1};
    int64_t i[2] = {7, -9}, large[2] = {(1ll << 53) + 1, 0};
    float f[2] = {1, 2};
    struct stk_value t = bytes_of(STK_TEXT, "hello"), v = array_of(STK_F64, d, 2);
    /* The order of the fields does not matter. */
    CHECK_INT(encode(sc, "k1", "v", v, "t", t, &out, &err), 0);
    CHECK_INT(stk_schema_decode(sc, out.data, out.len, cell, &used, &err), 0);
    CHECK_INT(used, out.len);
    CHECK(cell[0].size == 2 && memcmp(cell[0].data, "k1", 2) == 0);
    CHECK(cell[1].size == 5 && memcmp(cell[1].data, "hello", 5) == 0);
    CHECK(cell[2].size == 16 && memcmp(cell[2].data, d, 16) == 0);
    for (size_t n = 0; n < out.len; n++)
        CHECK_INT(stk_schema_decode(sc, out.data, n, cell, &used, &err), STK_E_CORRUPT);
    /* Whole numbers fit a column of floats as long as none changes. */
    CHECK_INT(encode(sc, "", "t", t, "v", array_of(STK_I64, i, 2), &out, &err), 0);
    CHECK_INT(stk_schema_decode(sc, out.data, out.len, cell, &used, &err), 0);
    double back[2];
    memcpy(back, cell[2].data, sizeof back);
    CHECK(back[0] == 7 && back[1] == -9 && cell[0].size == 0);
    CHECK_INT(encode(sc, "", "t", t, "v", array_of(STK_I64, large, 2), &out, &err),
              STK_E_UNSUPPORTED);
    CHECK_INT(encode(sc, "", "t", t, "v", array_of(STK_F32, f, 2), &out, &err), STK_E_UNSUPPORTED);
    CHECK_INT(encode(sc, "", "t", t, "v", array_of(STK_F64, d, 1), &out, &err), STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "'v'") && strstr(err.what, "float64 (1)") &&
          strstr(err.what, "float64 (2)"));
    CHECK_INT(encode(sc, "", "t", bytes_of(STK_BYTES, "b"), "v", v, &out, &err), STK_E_UNSUPPORTED);
    CHECK_INT(encode(sc, "", "t", t, "w", v, &out, &err), STK_E_UNSUPPORTED);
    CHECK_INT(encode(sc, "", "t", t, NULL, v, &out, &err), STK_E_UNSUPPORTED);
    stk_buf_release(&out);
    stk_schema_free(sc);
}

/* ---- which arrays are columns ---- */

static struct stk_table_array numbers(const char *name, uint8_t dtype, uint64_t n, uint64_t bytes)
{
    return (struct stk_table_array){.name = name,
                                    .name_len = strlen(name),
                                    .kind = STK_ARRAY,
                                    .dtype = dtype,
                                    .ndim = 1,
                                    .dim = {n},
                                    .bytes = bytes};
}

static void test_most_arrays_of_a_length_are_the_columns(void)
{
    struct stk_table_array a[] = {numbers("x", STK_F32, 10, 40), numbers("y", STK_F32, 10, 40),
                                  numbers("mean", STK_F32, 3000, 12000),
                                  numbers("scalar", STK_F32, 1, 4)};
    a[3].ndim = 0;
    CHECK_INT(stk_table_choose(a, 4), 10);
    CHECK(a[0].column && a[1].column && !a[2].column && !a[3].column);
    /* One each: bytes decide, then length. */
    struct stk_table_array b[] = {numbers("x", STK_F32, 10, 40), numbers("y", STK_F32, 7, 90)};
    CHECK_INT(stk_table_choose(b, 2), 7);
    b[0].bytes = 90;
    CHECK_INT(stk_table_choose(b, 2), 10);
    CHECK_INT(stk_table_choose(NULL, 0), 0);
    CHECK_INT(stk_table_choose(&a[3], 1), 0);
}

static void test_statistics_are_no_samples(void)
{
    struct stk_table_array a[] = {numbers("x", STK_F32, 50, 200), numbers("y", STK_U8, 50, 50),
                                  numbers("mean", STK_F64, 4, 32), numbers("std", STK_F64, 4, 32),
                                  numbers("n", STK_I64, 4, 32)};
    CHECK_INT(stk_table_choose(a, 5), 50);
    /* Means of the columns of a table that is alone. */
    struct stk_table_array b[] = {numbers("x", STK_F32, 50, 80000),
                                  numbers("mean", STK_F32, 400, 1600),
                                  numbers("std", STK_F32, 400, 1600),
                                  numbers("max", STK_F32, 400, 1600)};
    b[0].ndim = 2;
    b[0].dim[1] = 400;
    CHECK_INT(stk_table_choose(b, 4), 50);
    /* Tables of similar size: most columns win. */
    struct stk_table_array c[] = {numbers("a", STK_F32, 100, 400), numbers("b", STK_F32, 100, 400),
                                  numbers("c", STK_F32, 100, 400), numbers("d", STK_F32, 200, 800),
                                  numbers("e", STK_F32, 200, 800)};
    CHECK_INT(stk_table_choose(c, 5), 100);
    /* Samples along another axis. */
    struct stk_table_array d[] = {numbers("x", STK_F64, 4, 1600), numbers("y", STK_F64, 50, 400)};
    d[0].ndim = 2;
    d[0].dim[1] = d[0].other = 50;
    CHECK_INT(stk_table_choose(d, 2), 50);
    CHECK(d[0].column && d[1].column);
}

static void test_ragged_pairs_count_as_one(void)
{
    struct stk_table_array a[] = {
        numbers("data.offsets", STK_U64, 11, 88), numbers("data", STK_U8, 5000, 5000),
        numbers("label", STK_I64, 10, 80),        numbers("key", STK_U8, 40, 40),
        numbers("key.offsets", STK_U64, 11, 88),  numbers("odd.offsets", STK_U64, 11, 88),
        numbers("odd", STK_F32, 5000, 20000)};
    CHECK_INT(stk_table_choose(a, 7), 10);
    CHECK(a[1].column && a[1].pair == 0 && !a[1].is_key);
    CHECK(a[3].column && a[3].pair == 4 && a[3].is_key);
    CHECK(!a[0].column && !a[4].column);
    CHECK(a[2].column && a[2].pair == SIZE_MAX);
    CHECK(!a[5].column && !a[6].column); /* offsets of something that is not bytes */
}

/* ---- listing ---- */

struct part_sink {
    struct stk_sink sink;
    uint64_t samples, parts, columns, problems, bytes, last_extent;
    char keys[64];
};

static int take(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    struct part_sink *p = (struct part_sink *)sink;
    (void)err;
    p->samples += e->type == STK_EV_SAMPLE;
    p->parts += e->type == STK_EV_PART;
    p->columns += e->type == STK_EV_COLUMN;
    p->problems += e->type == STK_EV_PROBLEM;
    if (e->type == STK_EV_SAMPLE || e->type == STK_EV_KEY)
        strncat(p->keys, e->blob_len ? (const char *)e->blob : "", e->blob_len);
    if (e->type == STK_EV_PART) {
        p->bytes += e->b;
        p->last_extent = e->c;
    }
    return 0;
}

static int read_memory(void *user, uint64_t off, void *out, size_t n, struct stk_err *err)
{
    (void)err;
    memcpy(out, (const uint8_t *)user + off, n);
    return 0;
}

static void list(struct stk_table_column *c, size_t n, uint64_t count, struct part_sink *sink)
{
    static const struct stk_list_options opts = {.payload = "auto"};
    struct stk_lister l;
    struct stk_err err = {0};
    *sink = (struct part_sink){.sink.event = take};
    stk_lister_init(&l, &sink->sink, NULL, &opts);
    CHECK_INT(stk_table_list(&l, c, n, count, "file", &err), 0);
    stk_lister_release(&l);
}

static struct stk_table_column ragged_column(const char *name, const uint64_t *offsets,
                                             const char *data, uint64_t bytes)
{
    return (struct stk_table_column){
        .spec = {.name = name, .name_len = strlen(name), .kind = STK_BYTES},
        .how = STK_TABLE_RAGGED,
        .is_key = strcmp(name, "key") == 0,
        .place = {.per_extent = 4, .stride = 1},
        .data_bytes = bytes,
        .read_offsets = read_memory,
        .read_offsets_user = (void *)(uintptr_t)offsets,
        .read_data = read_memory,
        .read_data_user = (void *)(uintptr_t)data};
}

static void test_ragged_values_cross_extents(void)
{
    /* Values of 3, 0, 9 and 1 bytes in extents of 4: 1 + 1 + 3 + 1 parts. */
    static const uint64_t offsets[] = {0, 3, 3, 12, 13}, keys[] = {0, 1, 2, 3, 4};
    struct part_sink s;
    struct stk_table_column c[] = {ragged_column("key", keys, "abcd", 4),
                                   ragged_column("data", offsets, NULL, 13)};
    list(c, 2, 4, &s);
    CHECK_INT(s.samples, 4);
    CHECK_INT(s.parts, 6);
    CHECK_INT(s.bytes, 13);
    CHECK_INT(s.last_extent, 3);
    CHECK_STR(s.keys, "abcd");
}

static void test_damaged_offsets_cost_their_samples(void)
{
    static const uint64_t offsets[] = {0, 5, 3, 12, 99, UINT64_MAX};
    struct part_sink s;
    struct stk_table_column c = ragged_column("data", offsets, NULL, 13);
    list(&c, 1, 5, &s);
    /* Backwards, beyond the end, and from beyond it. */
    CHECK_INT(s.problems, 3);
    CHECK_INT(s.samples, 2);
    CHECK_INT(s.bytes, 5 + 9);
}

static void test_uniform_columns_store_nothing_per_sample(void)
{
    struct part_sink s;
    struct stk_table_column c = {.spec = {.name = "x", .kind = STK_BYTES},
                                 .how = STK_TABLE_UNIFORM,
                                 .place = {.per_extent = 10, .stride = 4, .length = 4}};
    list(&c, 1, 1000000, &s);
    CHECK_INT(s.columns, 1);
    CHECK_INT(s.samples + s.parts, 0);
    /* Nor with keys, unless one of those is damaged: that row is left out. */
    static const uint64_t keys[] = {0, 1, 2, 3, 4}, damaged[] = {0, 1, 99, 3, 4};
    struct stk_table_column with_keys[] = {ragged_column("key", keys, "abcd", 4), c};
    list(with_keys, 2, 4, &s);
    CHECK_INT(s.columns, 1);
    CHECK_INT(s.samples + s.parts + s.problems, 0);
    CHECK_STR(s.keys, "abcd");
    with_keys[0] = ragged_column("key", damaged, "abcd", 4);
    list(with_keys, 2, 4, &s);
    CHECK_INT(s.columns, 0);
    CHECK_INT(s.samples, 2);
    CHECK_STR(s.keys, "ad");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_names_that_collide_are_refused);
    CHECK_RUN(test_samples_are_checked_and_come_back);
    CHECK_RUN(test_most_arrays_of_a_length_are_the_columns);
    CHECK_RUN(test_statistics_are_no_samples);
    CHECK_RUN(test_ragged_pairs_count_as_one);
    CHECK_RUN(test_ragged_values_cross_extents);
    CHECK_RUN(test_damaged_offsets_cost_their_samples);
    CHECK_RUN(test_uniform_columns_store_nothing_per_sample);
    return CHECK_DONE();
}
