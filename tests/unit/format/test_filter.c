/* test_filter.c - filter chains: everything we compress comes back, damage and bombs are refused.
 */
#include "check.h"
#include "format/format.h"

#include <stdlib.h>
#include <zlib.h>
#ifdef STK_HAVE_LZMA
#include <lzma.h>
#endif
#ifdef STK_HAVE_LZ4
#include <lz4.h>
#endif

static struct stk_buf out, scratch;
static struct stk_err err;

static int decode1(unsigned id, unsigned arg, uint64_t max, const void *p, size_t n)
{
    struct stk_chain c = {.nsteps = 1, .max_decoded = max};
    c.step[0].id = (uint16_t)id;
    c.step[0].arg = (uint16_t)arg;
    return stk_filter_decode(&c, p, n, &out, &scratch, "file", 77, &err);
}

static bool same(const void *p, size_t n)
{
    return out.len == n && (n == 0 || memcmp(out.data, p, n) == 0);
}

/* Compressible but not trivial. */
static void fill(uint8_t *p, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (uint8_t)(seed >> 28 | (i / 64 % 16) << 4);
    }
}

/* A user would lose every sample packed with --compress. */
static void test_round_trips(void)
{
    static const unsigned ids[] = {STK_FILTER_ZLIB, STK_FILTER_DEFLATE, STK_FILTER_ZSTD,
                                   STK_FILTER_LZ4F};
    static const size_t sizes[] = {0, 1, 3, 4096, 65536, 65537, 2u << 20};
    static const int levels[] = {0, 1, 9};
    uint8_t *data = malloc(5u << 20);
    fill(data, 5u << 20, 1);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (stk_filter_missing(ids[i]))
            continue;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
                struct stk_buf z = STK_BUF_INIT, again = STK_BUF_INIT;
                CHECK(stk_filter_encode(ids[i], levels[l], data, sizes[k], &z, &err) == 0);
                CHECK(stk_filter_encode(ids[i], levels[l], data, sizes[k], &again, &err) == 0);
                CHECK(z.len == again.len && memcmp(z.data, again.data, z.len) == 0);
                CHECK(decode1(ids[i], 0, 0, z.data, z.len) == 0 && same(data, sizes[k]));
                if (sizes[k]) {
                    CHECK(decode1(ids[i], 0, sizes[k], z.data, z.len) == 0);
                    CHECK(same(data, sizes[k]));
                }
                if (sizes[k] > 1)
                    CHECK(decode1(ids[i], 0, sizes[k] - 1, z.data, z.len) == STK_E_CORRUPT);
                stk_buf_release(&z);
                stk_buf_release(&again);
            }
        }
    }
    free(data);
}

/* A truncated or flipped sample must be an error with its place, not a crash or wrong bytes. */
static void test_damage(void)
{
    static const unsigned ids[] = {STK_FILTER_ZLIB, STK_FILTER_ZSTD, STK_FILTER_LZ4F};
    uint8_t data[3000];
    fill(data, sizeof data, 2);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (stk_filter_missing(ids[i]))
            continue;
        struct stk_buf z = STK_BUF_INIT;
        CHECK(stk_filter_encode(ids[i], 0, data, sizeof data, &z, &err) == 0);
        for (size_t n = 0; n < z.len; n++) {
            memset(&err, 0, sizeof err);
            CHECK(decode1(ids[i], 0, 0, z.data, n) == STK_E_CORRUPT);
            CHECK(err.offset == 77 && strcmp(err.path, "file") == 0);
        }
        for (size_t bit = 0; bit < z.len * 8; bit++) {
            z.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            /* Some header bits mean nothing to the data (an lz4 or zlib level hint). */
            int rc = decode1(ids[i], 0, 1 << 20, z.data, z.len);
            CHECK(rc == STK_E_CORRUPT || (rc == 0 && same(data, sizeof data)));
            z.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        stk_buf_release(&z);
    }
}

/* A few KiB that decode to gigabytes must not take the node's memory. */
static void test_bombs(void)
{
    static const unsigned ids[] = {STK_FILTER_ZLIB, STK_FILTER_DEFLATE, STK_FILTER_ZSTD,
                                   STK_FILTER_LZ4F};
    size_t n = 64u << 20;
    uint8_t *zeros = calloc(1, n);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (stk_filter_missing(ids[i]))
            continue;
        struct stk_buf z = STK_BUF_INIT, fresh = STK_BUF_INIT, spare = STK_BUF_INIT;
        CHECK(stk_filter_encode(ids[i], 0, zeros, n, &z, &err) == 0);
        struct stk_chain c = {.nsteps = 1, .max_decoded = 100000};
        c.step[0].id = (uint16_t)ids[i];
        CHECK(stk_filter_decode(&c, z.data, z.len, &fresh, &spare, "f", 0, &err) == STK_E_CORRUPT);
        CHECK(strstr(err.what, "limit"));
        CHECK(fresh.cap + spare.cap <= 1u << 20);
        CHECK(decode1(ids[i], 0, n, z.data, z.len) == 0 && same(zeros, n));
        stk_buf_release(&fresh);
        stk_buf_release(&spare);
        stk_buf_release(&z);
    }
    free(zeros);
#ifdef STK_HAVE_ZSTD
    /* A frame that says 2^40 bytes and holds none: nothing may be allocated on its word. */
    static const uint8_t liar[] = {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0};
    CHECK(decode1(STK_FILTER_ZSTD, 0, 0, liar, sizeof liar) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_ZSTD, 0, (uint64_t)1 << 41, liar, sizeof liar) == STK_E_CORRUPT);
#endif
}

static size_t gzip_member(const uint8_t *p, size_t n, uint8_t *to, size_t room)
{
    z_stream z = {0};
    deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *)(uintptr_t)p;
    z.avail_in = (uInt)n;
    z.next_out = to;
    z.avail_out = (uInt)room;
    deflate(&z, Z_FINISH);
    deflateEnd(&z);
    return z.total_out;
}

/* gzip files joined with cat are one file; half of it must not be lost silently. */
static void test_gzip_members(void)
{
    uint8_t data[5000], z[20000];
    fill(data, sizeof data, 3);
    size_t a = gzip_member(data, 2000, z, sizeof z);
    size_t b = a + gzip_member(data + 2000, 3000, z + a, sizeof z - a);
    CHECK(decode1(STK_FILTER_GZIP, 0, 0, z, b) == 0 && same(data, 5000));
    memset(z + b, 0, 100);
    CHECK(decode1(STK_FILTER_GZIP, 0, 0, z, b + 100) == 0 && same(data, 5000));
    CHECK(decode1(STK_FILTER_GZIP, 0, 5000, z, b) == 0 && same(data, 5000));
    CHECK(decode1(STK_FILTER_GZIP, 0, 4999, z, b) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_GZIP, 0, 1999, z, b) == STK_E_CORRUPT);
    z[b] = 7;
    CHECK(decode1(STK_FILTER_GZIP, 0, 0, z, b + 100) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_GZIP, 0, 0, z, b - 1) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_GZIP, 0, 0, NULL, 0) == STK_E_CORRUPT);
}

/* squashfs images of other compressors. */
static void test_lz4_block_and_xz(void)
{
    uint8_t data[20000], z[40000];
    fill(data, sizeof data, 4);
    (void)z;
#ifdef STK_HAVE_LZ4
    int n = LZ4_compress_default((char *)data, (char *)z, sizeof data, sizeof z);
    CHECK(decode1(STK_FILTER_LZ4B, 0, 131072, z, (size_t)n) == 0 && same(data, sizeof data));
    CHECK(decode1(STK_FILTER_LZ4B, 0, 0, z, (size_t)n) == 0 && same(data, sizeof data));
    CHECK(decode1(STK_FILTER_LZ4B, 0, 19999, z, (size_t)n) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_LZ4B, 0, 131072, z, (size_t)n / 2) == STK_E_CORRUPT ||
          out.len < sizeof data);
#endif
#ifdef STK_HAVE_LZMA
    size_t at = 0;
    CHECK(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC32, NULL, data, sizeof data, z, &at, sizeof z) ==
          LZMA_OK);
    CHECK(decode1(STK_FILTER_XZ, 0, 131072, z, at) == 0 && same(data, sizeof data));
    CHECK(decode1(STK_FILTER_XZ, 0, sizeof data, z, at) == 0 && same(data, sizeof data));
    CHECK(decode1(STK_FILTER_XZ, 0, sizeof data - 1, z, at) == STK_E_CORRUPT);
    for (size_t cut = 0; cut < at; cut += 97)
        CHECK(decode1(STK_FILTER_XZ, 0, 131072, z, cut) == STK_E_CORRUPT);
    z[at / 2] ^= 1;
    CHECK(decode1(STK_FILTER_XZ, 0, 131072, z, at) == STK_E_CORRUPT);
#endif
}

/* HDF5 arrays written with shuffle=True, of any element size, with a piece of one at the end. */
static void test_shuffle(void)
{
    static const size_t sizes[] = {0, 1, 2, 3, 4, 8, 12};
    uint8_t data[1003], stored[1003];
    fill(data, sizeof data, 5);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t es = sizes[k] ? sizes[k] : 1, n = sizeof data / es;
        memcpy(stored, data, sizeof data);
        for (size_t i = 0; i < n; i++)
            for (size_t b = 0; b < es; b++)
                stored[b * n + i] = data[i * es + b];
        CHECK(decode1(STK_FILTER_SHUFFLE, (unsigned)sizes[k], 0, stored, sizeof stored) == 0);
        CHECK(same(data, sizeof data));
    }
    CHECK(decode1(STK_FILTER_SHUFFLE, 4, 0, NULL, 0) == 0 && out.len == 0);
    CHECK(decode1(STK_FILTER_SHUFFLE, 4, 100, stored, 104) == STK_E_CORRUPT);
}

/* Values worked out by hand from the definition (words of two bytes, big-endian). */
static void test_fletcher(void)
{
    static const uint8_t even[] = {1, 2, 3, 4, 6, 4, 8, 5};   /* sums 0x0406, 0x0508 */
    static const uint8_t odd[] = {1, 2, 3, 0x02, 0x04, 4, 5}; /* sums 0x0402, 0x0504 */
    uint8_t buf[8];
    memcpy(buf, even, 4);
    stk_put_le32(buf + 4, 0x05080406u);
    CHECK(decode1(STK_FILTER_FLETCHER, 0, 0, buf, 8) == 0 && same(even, 4));
    stk_put_le32(buf + 4, 0x08050604u); /* as libhdf5 before 1.6.3 wrote it */
    CHECK(decode1(STK_FILTER_FLETCHER, 0, 0, buf, 8) == 0 && same(even, 4));
    memcpy(buf, odd, 3);
    stk_put_le32(buf + 3, 0x05040402u);
    CHECK(decode1(STK_FILTER_FLETCHER, 0, 0, buf, 7) == 0 && same(odd, 3));
    buf[0] ^= 1;
    CHECK(decode1(STK_FILTER_FLETCHER, 0, 0, buf, 7) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_FLETCHER, 0, 0, buf, 3) == STK_E_CORRUPT);
}

static void test_bswap(void)
{
    static const uint8_t in[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t two[] = {2, 1, 4, 3, 6, 5, 8, 7}, four[] = {4, 3, 2, 1, 8, 7, 6, 5},
                         eight[] = {8, 7, 6, 5, 4, 3, 2, 1};
    CHECK(decode1(STK_FILTER_BSWAP, 2, 0, in, 8) == 0 && same(two, 8));
    CHECK(decode1(STK_FILTER_BSWAP, 4, 0, in, 8) == 0 && same(four, 8));
    CHECK(decode1(STK_FILTER_BSWAP, 8, 0, in, 8) == 0 && same(eight, 8));
    CHECK(decode1(STK_FILTER_BSWAP, 4, 0, in, 6) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_BSWAP, 3, 0, in, 6) == STK_E_UNSUPPORTED);
    CHECK(decode1(STK_FILTER_BSWAP, 4, 0, NULL, 0) == 0 && out.len == 0);
}

/* The chain libhdf5 makes most of: fletcher32(deflate(shuffle(x))). */
static void test_chain(void)
{
    uint8_t data[4000], stored[4000];
    fill(data, sizeof data, 6);
    for (size_t i = 0; i < 1000; i++)
        for (size_t b = 0; b < 4; b++)
            stored[b * 1000 + i] = data[i * 4 + b];
    struct stk_buf z = STK_BUF_INIT;
    CHECK(stk_filter_encode(STK_FILTER_ZLIB, 0, stored, sizeof stored, &z, &err) == 0);
    uint32_t a = 0, b = 0; /* the textbook form, modulo at every step */
    for (size_t i = 0; i < z.len; i += 2) {
        a = (a + ((uint32_t)z.data[i] << 8 | (i + 1 < z.len ? z.data[i + 1] : 0u))) % 65535;
        b = (b + a) % 65535;
    }
    uint8_t sum[4];
    stk_put_le32(sum, b << 16 | a);
    stk_buf_put(&z, sum, 4);
    struct stk_chain c = {.nsteps = 3, .max_decoded = sizeof data};
    c.step[0].id = STK_FILTER_FLETCHER;
    c.step[1].id = STK_FILTER_ZLIB;
    c.step[2].id = STK_FILTER_SHUFFLE;
    c.step[2].arg = 4;
    CHECK(stk_filter_decode(&c, z.data, z.len, &out, &scratch, "f", 0, &err) == 0);
    CHECK(same(data, sizeof data));
    struct stk_chain none = {0};
    CHECK(stk_filter_decode(&none, data, 10, &out, &scratch, "f", 0, &err) == 0 && same(data, 10));
    c.nsteps = 6;
    CHECK(stk_filter_decode(&c, z.data, z.len, &out, &scratch, "f", 0, &err) == STK_E_CORRUPT);
    stk_buf_release(&z);
}

static size_t put_part(uint8_t *p, uint32_t flag, const char *text)
{
    size_t n = strlen(text);
    stk_put_le32(p, 0xced7230au);
    stk_put_le32(p + 4, flag << 29 | (uint32_t)n);
    memcpy(p + 8, text, n);
    return 8 + n;
}

/* RecordIO cuts a record where its own magic occurs in the data; the reader puts it back. */
static void test_join(void)
{
    uint8_t stored[64] = "abcdefgh";
    size_t n = 8 + put_part(stored + 8, 2, "ijkl");
    n += put_part(stored + n, 3, "mnopq");
    CHECK(decode1(STK_FILTER_JOIN, 0, 0, stored, n) == 0);
    CHECK(same("abcdefgh\x0a\x23\xd7\xceijkl\x0a\x23\xd7\xcemnopq", 25));
    CHECK(decode1(STK_FILTER_JOIN, 0, 24, stored, n) == STK_E_CORRUPT);
    for (size_t cut = 0; cut < n; cut++)
        CHECK(decode1(STK_FILTER_JOIN, 0, 0, stored, cut) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_JOIN, 0, 0, stored, n + 1) == STK_E_CORRUPT);
    stored[15] |= 0xe0; /* a part flag of 7 */
    CHECK(decode1(STK_FILTER_JOIN, 0, 0, stored, n) == STK_E_CORRUPT);
}

static void test_refusals(void)
{
    static const uint8_t in[4] = {0};
    CHECK(decode1(STK_FILTER_ZEROS, 12, 0, in, 1) == 0 && out.len == 4096 && out.data[4095] == 0);
    CHECK(decode1(STK_FILTER_ZEROS, 12, 4095, in, 1) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_ZEROS, 60, 0, in, 1) == STK_E_CORRUPT);
    CHECK(decode1(STK_FILTER_RESUME, 0, 0, in, 4) == STK_E_UNSUPPORTED);
    CHECK(decode1(0, 0, 0, in, 4) == STK_E_UNSUPPORTED);
    CHECK(decode1(999, 0, 0, in, 4) == STK_E_UNSUPPORTED);
    struct stk_buf z = STK_BUF_INIT;
    CHECK(stk_filter_encode(STK_FILTER_JOIN, 0, in, 4, &z, &err) == STK_E_UNSUPPORTED);
    CHECK(stk_filter_encode(STK_FILTER_ZLIB, 99, in, 4, &z, &err) == STK_E_USAGE);
    CHECK(stk_filter_missing(STK_FILTER_ZLIB) == NULL);
    if (stk_filter_missing(STK_FILTER_ZSTD)) {
        CHECK(decode1(STK_FILTER_ZSTD, 0, 0, in, 4) == STK_E_UNSUPPORTED);
        CHECK(strstr(err.what, "libzstd-dev"));
        CHECK(stk_filter_encode(STK_FILTER_ZSTD, 0, in, 4, &z, &err) == STK_E_UNSUPPORTED);
    } else {
        CHECK(stk_filter_encode(STK_FILTER_ZSTD, 99, in, 4, &z, &err) == STK_E_USAGE);
    }
    stk_buf_release(&z);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_round_trips);
    CHECK_RUN(test_damage);
    CHECK_RUN(test_bombs);
    CHECK_RUN(test_gzip_members);
    CHECK_RUN(test_lz4_block_and_xz);
    CHECK_RUN(test_shuffle);
    CHECK_RUN(test_fletcher);
    CHECK_RUN(test_bswap);
    CHECK_RUN(test_chain);
    CHECK_RUN(test_join);
    CHECK_RUN(test_refusals);
    stk_buf_release(&out);
    stk_buf_release(&scratch);
    return CHECK_DONE();
}
