/* test_pieces.c - large compressed arrays: every row is right, damage is its rows' own, and a pass
 * over the rows decodes each byte about once, not once for every few rows. */
#include "check.h"
#include "scratch.h"
#include "base/random.h"
#include "dataset/dataset.h"
#include "dataset/reader.h"
#include "format/numpy/npyhead.h"
#include "format/numpy/zip.h"
#include "stoker.h"

#include <zlib.h>

#define ROW   4096u
#define NROWS 3000u /* 12 MB, 12 pieces */

/* ---- an archive ---- */

struct array {
    const char *name;
    uint64_t rows, row_bytes;
    int level;
    void (*fill)(uint64_t row, uint8_t *to, size_t n);
};

static void fill_numbers(uint64_t row, uint8_t *to, size_t n)
{
    uint64_t x = stk_mix64(row);
    for (size_t i = 0; i < n; i++, x = x * 6364136223846793005u + 1)
        to[i] = i % 4 < 2 ? (uint8_t)(x >> 59) : 0;
    memcpy(to, &row, sizeof row);
}

static void fill_alike(uint64_t row, uint8_t *to, size_t n)
{
    memset(to, 7, n);
    memcpy(to, &row, sizeof row);
}

static void array_bytes(const struct array *a, struct stk_buf *out)
{
    stk_npy_write_head(out, STK_U8, 2, (uint64_t[]){a->rows, a->row_bytes});
    for (uint64_t i = 0; i < a->rows; i++)
        a->fill(i, stk_buf_extend(out, (size_t)a->row_bytes), (size_t)a->row_bytes);
}

static void deflate_all(const struct stk_buf *in, int level, struct stk_buf *out)
{
    z_stream z = {.next_in = in->data, .avail_in = (uInt)in->len};
    CHECK_INT(deflateInit2(&z, level, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    uLong room = deflateBound(&z, (uLong)in->len);
    z.next_out = stk_buf_extend(out, room);
    z.avail_out = (uInt)room;
    CHECK_INT(deflate(&z, Z_FINISH), Z_STREAM_END);
    out->len = z.total_out;
    deflateEnd(&z);
}

/* Writes an NPZ file; harm_at: eighths of the first member before bytes that are overwritten. */
static const char *make_npz(const char *name, const struct array *a, size_t n, size_t harm_at)
{
    struct stk_buf b = STK_BUF_INIT, raw = STK_BUF_INIT, packed = STK_BUF_INIT;
    struct stk_zip_entry e[10];
    for (size_t i = 0; i < n; i++) {
        stk_buf_reset(&raw);
        stk_buf_reset(&packed);
        array_bytes(&a[i], &raw);
        deflate_all(&raw, a[i].level, &packed);
        e[i] = (struct stk_zip_entry){.name = a[i].name,
                                      .name_len = strlen(a[i].name),
                                      .method = STK_ZIP_DEFLATED,
                                      .crc = (uint32_t)crc32_z(0, raw.data, raw.len),
                                      .stored = packed.len,
                                      .size = raw.len,
                                      .header_off = b.len};
        stk_zip_put_local(&b, &e[i]);
        if (i == 0 && harm_at)
            memset(packed.data + packed.len / 8 * harm_at, 0xff, 64);
        stk_buf_put(&b, packed.data, packed.len);
    }
    size_t start = b.len;
    for (size_t i = 0; i < n; i++)
        stk_zip_put_central(&b, &e[i]);
    stk_zip_put_end(&b, n, start, b.len - start);
    scratch_file(name, b.data, b.len);
    stk_buf_release(&b);
    stk_buf_release(&raw);
    stk_buf_release(&packed);
    return scratch_path(name);
}

static struct stk_dataset *open_set(const char *path, uint64_t rows)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    struct stk_open_options o = {.no_index_write = true};
    CHECK_INT(stk_dataset_open(path, &o, &ds, &err), 0);
    CHECK_STR(err.what, "");
    CHECK_INT(ds ? stk_dataset_len(ds) : 0, rows);
    return ds;
}

static bool is_row(const struct array *a, uint64_t row, const void *p, size_t n)
{
    uint8_t want[1u << 16];
    a->fill(row, want, (size_t)a->row_bytes);
    return n == a->row_bytes && memcmp(p, want, n) == 0;
}

/* ---- one by one ---- */

/* Reads all rows in order, `step` at a time. Returns how many could not be read. */
static uint64_t read_all(struct stk_reader *r, const struct array *a, size_t n, uint64_t step)
{
    uint64_t ids[64], bad = 0;
    struct stk_sample s;
    stk_sample_init(&s);
    for (uint64_t i = 0; i < a->rows; i += step) {
        size_t count = 0;
        for (; count < step && i + count < a->rows; count++)
            ids[count] = i + count;
        CHECK_INT(stk_reader_batch(r, ids, count, NULL), 0);
        for (size_t k = 0; k < count; k++) {
            struct stk_err err = {0};
            if (stk_reader_get(r, k, &s, &err) < 0) {
                bad++;
                CHECK(strstr(err.what, "damaged compressed data") != NULL);
                continue;
            }
            for (size_t c = 0; c < n; c++)
                CHECK(is_row(&a[c], ids[k], s.field[c].value.data, s.field[c].value.size));
        }
    }
    stk_sample_release(&s);
    return bad;
}

static const struct array numbers[] = {{"x.npy", NROWS, ROW, 1, fill_numbers},
                                       {"y.npy", NROWS, 2 * ROW, 1, fill_numbers}};
/* Compressed so well that pieces have four megabytes: those of a sample are more than a reader
 * keeps of others. */
/* clang-format off */
#define ALIKE(name) {name, 168, 1u << 16, 6, fill_alike}
/* clang-format on */
static const struct array alike[] = {ALIKE("0.npy"), ALIKE("1.npy"), ALIKE("2.npy"), ALIKE("3.npy"),
                                     ALIKE("4.npy"), ALIKE("5.npy"), ALIKE("6.npy"), ALIKE("7.npy"),
                                     ALIKE("8.npy"), ALIKE("9.npy")};

static void in_order(const char *path, const struct array *a, size_t n, uint64_t step)
{
    struct stk_dataset *ds = open_set(path, a->rows);
    struct stk_reader *r = NULL;
    uint64_t all = 0;
    for (size_t c = 0; c < n; c++)
        all += a[c].rows * a[c].row_bytes;
    CHECK_INT(stk_reader_new(ds, &r, NULL), 0);
    CHECK_INT(read_all(r, a, n, step), 0);
    CHECK_INT(stk_reader_decoded_bytes(r), all);
    stk_reader_free(r);
    stk_dataset_close(ds);
}

static void rows_one_by_one(void)
{
    const char *path = make_npz("numbers.npz", numbers, 2, 0);
    in_order(path, numbers, 2, 1);
    in_order(path, numbers, 2, 64);
    path = make_npz("alike.npz", alike, 10, 0);
    in_order(path, alike, 10, 1);
    in_order(path, alike, 10, 64);
}

/* Damage is told when the file is listed; who passes over it gets the rows before it, and those
 * behind it say what is the matter. */
static void damage(void)
{
    const char *path = make_npz("harmed.npz", numbers, 1, 4);
    struct stk_open_options o = {.no_index_write = true};
    struct stk_dataset *ds = NULL;
    struct stk_reader *r = NULL;
    struct stk_err err = {0};
    CHECK_INT(stk_dataset_open(path, &o, &ds, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, "member x.npy: damaged compressed data");
    o.pass_over = true;
    CHECK_INT(stk_dataset_open(path, &o, &ds, NULL), 0);
    CHECK_INT(stk_dataset_len(ds), NROWS);
    CHECK_INT(stk_reader_new(ds, &r, NULL), 0);
    uint64_t bad = read_all(r, numbers, 1, 16);
    CHECK(bad > NROWS / 3 && bad < NROWS * 2 / 3);
    stk_reader_free(r);
    stk_dataset_close(ds);
}

/* ---- by the loader ---- */

static uint64_t load(struct stk_dataset *ds, const struct array *a, size_t n, int shuffle,
                     uint64_t memory)
{
    struct stk_loader_options o = {.batch = 24, /* of all numbers of rows here, a divisor */
                                   .shuffle = shuffle,
                                   .threads = 2,
                                   .memory_bytes = memory};
    struct stk_loader *ld = NULL;
    struct stk_loader_stats st;
    struct stk_batch *b;
    uint64_t seen = 0;
    CHECK_INT(stk_loader_open(ds, &o, &ld, NULL), 0);
    while (stk_loader_next(ld, &b, NULL) == 1) {
        for (size_t k = 0; k < b->n; k++) {
            for (size_t c = 0; c < n; c++) {
                const struct stk_column *x = &b->column[c];
                const uint8_t *p = x->layout == STK_DENSE
                                       ? (const uint8_t *)x->data + k * a[c].row_bytes
                                       : x->span[k].data;
                CHECK(is_row(&a[c], b->id[k], p, (size_t)a[c].row_bytes));
            }
            seen += !(b->flags[k] & STK_REPEAT);
        }
        stk_batch_release(b);
    }
    CHECK_INT(seen, a->rows);
    stk_loader_stats(ld, &st);
    stk_loader_close(ld);
    return st.decoded_bytes;
}

/* In order each byte is decoded once, however little memory there is; shuffled too, where what is
 * decoded fits. */
static void by_the_loader(void)
{
    const uint64_t all = (uint64_t)NROWS * 3 * ROW;
    struct stk_dataset *ds = open_set(make_npz("numbers.npz", numbers, 2, 0), NROWS);
    CHECK(load(ds, numbers, 2, STK_SHUFFLE_NONE, 16u << 20) <= all);
    CHECK(load(ds, numbers, 2, STK_SHUFFLE_NONE, 256u << 20) <= all);
    CHECK(load(ds, numbers, 2, STK_SHUFFLE_BLOCK, 256u << 20) <= all);
    CHECK(load(ds, numbers, 2, STK_SHUFFLE_GLOBAL, 256u << 20) <= all);
    stk_dataset_close(ds);
    ds = open_set(make_npz("alike.npz", alike, 10, 0), alike->rows);
    CHECK(load(ds, alike, 10, STK_SHUFFLE_NONE, 16u << 20) <= alike->rows * 10 * alike->row_bytes);
    stk_dataset_close(ds);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(rows_one_by_one);
    CHECK_RUN(damage);
    CHECK_RUN(by_the_loader);
    scratch_done();
    return CHECK_DONE();
}
