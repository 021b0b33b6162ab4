/* test_src.c - the window a listing sees a file through: the bytes asked for and no others, of
 * plain files in any order, of compressed ones forwards and from access points. */
#include "check.h"
#include "scratch.h"
#include "format/lister.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#define SIZE (10u << 20)

static uint8_t *data; /* SIZE bytes, compressible in parts */

static void make_data(void)
{
    uint32_t seed = 7;
    data = malloc(SIZE);
    for (size_t i = 0; data && i < SIZE; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = i / 1000 % 3 ? (uint8_t)(seed >> 24) : (uint8_t)(i / 1000);
    }
}

static struct stk_src *open_src(const char *name, bool stream)
{
    struct stk_err err = {0};
    struct stk_src *s = NULL;
    CHECK_INT(stk_src_open(open(scratch_path(name), O_RDONLY), name, name, stream, &s, &err), 0);
    CHECK_STR(err.what, "");
    return s;
}

static void peek_is(struct stk_src *s, uint64_t off, size_t n)
{
    const uint8_t *p = NULL;
    size_t got = 77, want = off >= SIZE ? 0 : SIZE - off < n ? (size_t)(SIZE - off) : n;
    CHECK_INT(stk_src_peek(s, off, n, &p, &got, NULL), 0);
    CHECK_INT(got, want);
    CHECK(!want || memcmp(p, data + off, want) == 0);
}

static void plain(void)
{
    scratch_file("plain", data, SIZE);
    struct stk_src *s = open_src("plain", true);
    CHECK(!stk_src_is_stream(s));
    CHECK_INT(stk_src_size(s), SIZE);
    static const uint64_t at[] = {0,        12,       4095, 4096,        5u << 20, 100,
                                  SIZE - 1, SIZE - 9, SIZE, SIZE + 1000, 1u << 20, 0};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        peek_is(s, at[i], 1);
        peek_is(s, at[i], 12);
        peek_is(s, at[i], 70000);
    }
    peek_is(s, 3, STK_PEEK_MAX);
    for (uint64_t off = 0; off < SIZE; off += 33333) /* hops */
        peek_is(s, off, 12);
    for (uint64_t off = 0; off < 300000; off += 100) /* and a walk */
        peek_is(s, off, 100);
    stk_src_close(s);
}

/* ---- compressed ---- */

/* window: 15 zlib, 15 + 16 gzip. */
static void deflate_to(struct stk_buf *out, int window, int level, const uint8_t *p, size_t n)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)p, .avail_in = (uInt)n};
    uint8_t block[65536];
    int rc = deflateInit2(&z, level, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY);
    do {
        z.next_out = block;
        z.avail_out = sizeof block;
        rc = deflate(&z, Z_FINISH);
        stk_buf_put(out, block, sizeof block - z.avail_out);
    } while (rc == Z_OK || rc == Z_BUF_ERROR);
    deflateEnd(&z);
}

static void decode_all_points(const struct stk_buf *file, struct stk_src *s)
{
    struct stk_access_point p;
    uint64_t at = 0, npoints = 0;
    while (stk_src_take_point(s, true, &p)) {
        uint8_t *out = malloc(p.decoded_len + 1);
        CHECK_INT(p.out_off, at);
        CHECK(p.in_off + p.in_len <= file->len);
        CHECK_INT(stk_point_decode(&p, file->data + p.in_off, out, "x", NULL), 0);
        CHECK(memcmp(out, data + p.out_off, p.decoded_len) == 0);
        at += p.decoded_len;
        npoints++;
        free(p.window);
        free(out);
    }
    CHECK_INT(at, SIZE);
    CHECK(npoints >= 2);
}

static void stream(const struct stk_buf *file)
{
    scratch_file("stream", file->data, file->len);
    struct stk_src *s = open_src("stream", true);
    struct stk_err err = {0};
    const uint8_t *p;
    size_t got;
    CHECK(stk_src_is_stream(s));
    CHECK(stk_src_size(s) == UINT64_MAX && stk_src_file_size(s) == file->len);
    for (uint64_t off = 0; off < SIZE; off += 77777) {
        peek_is(s, off, 12);
        peek_is(s, off, 5000);
        peek_is(s, off + 12, 3000000 / (1 + off / 1000));
    }
    CHECK_INT(stk_src_peek(s, 5, 10, &p, &got, &err), STK_E_UNSUPPORTED); /* long gone */
    while (stk_src_drain(s, 100000, &err) > 0)
        ;
    peek_is(s, SIZE, 10);
    CHECK_STR(err.what[0] == 'a' ? "" : err.what, ""); /* only the refusal above */
    uint64_t begins, ends;
    for (uint64_t off = 0; off < SIZE; off += 999999) {
        stk_src_point_of(s, off, &begins, &ends);
        CHECK(begins <= off && off < ends);
    }
    decode_all_points(file, s);
    stk_src_close(s);
    s = open_src("stream", false); /* not asked to see through it */
    CHECK(!stk_src_is_stream(s));
    stk_src_close(s);
}

static void streams(void)
{
    struct stk_buf b = STK_BUF_INIT;
    deflate_to(&b, 15 + 16, 6, data, SIZE);
    stream(&b);
    stk_buf_reset(&b);
    deflate_to(&b, 15, 1, data, SIZE);
    stream(&b);
    stk_buf_reset(&b); /* members of odd sizes, an empty one, zeros behind */
    deflate_to(&b, 15 + 16, 0, data, 777);
    deflate_to(&b, 15 + 16, 9, data + 777, 0);
    deflate_to(&b, 15 + 16, 1, data + 777, SIZE - 1000);
    deflate_to(&b, 15 + 16, 1, data + SIZE - 223, 223);
    stk_buf_zeros(&b, 511);
    stream(&b);
    stk_buf_release(&b);
}

/* Reads to the end; returns the code, and how far it came. */
static int read_on(const struct stk_buf *file, uint64_t *good)
{
    scratch_file("bad", file->data, file->len);
    struct stk_src *s = open_src("bad", true);
    struct stk_err err = {0};
    int rc = 0;
    size_t got = 1;
    for (*good = 0; rc == 0 && got; *good += rc == 0 ? got : 0) {
        const uint8_t *p;
        rc = stk_src_peek(s, *good, 10000, &p, &got, &err);
        CHECK(rc < 0 || !got || *good + got > SIZE || memcmp(p, data + *good, got) == 0);
    }
    if (rc == 0 && stk_src_drain(s, 1, &err) < 0)
        rc = err.code;
    CHECK(rc == 0 || (strcmp(err.path, "bad") == 0 && err.offset >= 0));
    CHECK(rc == 0 || stk_src_told_damage(s) || *good >= SIZE);
    stk_src_close(s);
    return rc;
}

static void damaged(void)
{
    struct stk_buf b = STK_BUF_INIT;
    uint64_t good;
    deflate_to(&b, 15 + 16, 1, data, SIZE);
    size_t len = b.len;
    b.len = len / 2; /* cut off: what is before it can be read */
    CHECK_INT(read_on(&b, &good), STK_E_CORRUPT);
    CHECK(good > SIZE / 3 && good < SIZE * 2 / 3);
    b.len = len - 3;
    CHECK_INT(read_on(&b, &good), STK_E_CORRUPT);
    b.len = len;
    b.data[len - 6] ^= 1; /* its checksum */
    CHECK_INT(read_on(&b, &good), STK_E_CORRUPT);
    CHECK_INT(good, SIZE);
    b.data[len - 6] ^= 1;
    stk_buf_puts(&b, "garbage");
    CHECK_INT(read_on(&b, &good), STK_E_CORRUPT);
    b.len = len;
    CHECK_INT(read_on(&b, &good), 0);
    stk_buf_release(&b);
}

static void bad_points(void)
{
    uint8_t out[100], in[100] = {0};
    const struct stk_access_point bad[] = {
        {.in_len = 100, .decoded_len = 100, .bits = 8},
        {.in_len = 0, .decoded_len = 100, .bits = 3},
        {.in_len = 100, .decoded_len = 100, .window = in, .window_len = 50},
        {.in_len = 100, .decoded_len = 100},
        {.in_len = 100, .decoded_len = 0, .lead = 100},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(stk_point_decode(&bad[i], in, out, "x", NULL) == STK_E_CORRUPT);
    CHECK(stk_point_decode(&(struct stk_access_point){.in_len = 100}, in, out, "x", NULL) == 0);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    make_data();
    CHECK_RUN(plain);
    CHECK_RUN(streams);
    CHECK_RUN(damaged);
    CHECK_RUN(bad_points);
    free(data);
    scratch_done();
    return CHECK_DONE();
}
