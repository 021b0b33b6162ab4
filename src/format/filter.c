/*
 * filter.c - filter chains: stored bytes to data, and one-shot compression for writers.
 *
 * What is decoded is hostile: output grows step by step as bytes really come out, never at once
 * because a header says so, and stops at the limit. Does not decode STK_FILTER_RESUME (src.c does).
 */
#include "format/format.h"

#include <pthread.h>
#include <stdlib.h>
#include <zlib.h>
#ifdef STK_HAVE_LIBDEFLATE
#include <libdeflate.h>
#endif
#ifdef STK_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif
#ifdef STK_HAVE_LZ4
#include <lz4.h>
#include <lz4frame.h>
#endif
#ifdef STK_HAVE_LZMA
#include <lzma.h>
#endif

#define LIMIT_DEFAULT                                                                              \
    ((size_t)1 << 30)                 /* where the chain sets none: the largest sample we take     \
                                       */
#define TRUST_BYTES ((size_t)4 << 20) /* taken at once on a header's word; above: as it comes */
#define STEP_BYTES  ((size_t)64 << 10)
#define XZ_MEMORY   ((uint64_t)128 << 20) /* twice what xz -9 needs */
#define MAGIC       0xced7230au           /* RecordIO */

/* ---- contexts kept a thread: making one costs more than decoding a 4 KiB sample ----------- */

struct contexts {
    z_stream inflate;
    bool inflate_ready;
#ifdef STK_HAVE_LIBDEFLATE
    struct libdeflate_decompressor *inflater;
    struct libdeflate_compressor *deflater;
    int deflater_level;
#endif
#ifdef STK_HAVE_ZSTD
    ZSTD_DCtx *unzstd;
    ZSTD_CCtx *zstd;
#endif
#ifdef STK_HAVE_LZ4
    LZ4F_dctx *unlz4;
    LZ4F_cctx *lz4;
#endif
#ifdef STK_HAVE_LZMA
    lzma_stream unxz;
#endif
};

static _Thread_local struct contexts *mine;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_made;

static void contexts_free(void *p)
{
    struct contexts *c = p;
    if (c->inflate_ready)
        inflateEnd(&c->inflate);
#ifdef STK_HAVE_LIBDEFLATE
    libdeflate_free_decompressor(c->inflater);
    libdeflate_free_compressor(c->deflater);
#endif
#ifdef STK_HAVE_ZSTD
    ZSTD_freeDCtx(c->unzstd);
    ZSTD_freeCCtx(c->zstd);
#endif
#ifdef STK_HAVE_LZ4
    if (c->unlz4)
        LZ4F_freeDecompressionContext(c->unlz4);
    if (c->lz4)
        LZ4F_freeCompressionContext(c->lz4);
#endif
#ifdef STK_HAVE_LZMA
    lzma_end(&c->unxz);
#endif
    free(c);
    mine = NULL;
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, contexts_free) == 0;
}

/* At exit, or when the library is unloaded: the main thread's contexts (no destructor of the key
 * runs for it), and the key, whose destructor is about to vanish. */
__attribute__((destructor)) static void contexts_free_last(void)
{
    if (key_made)
        pthread_key_delete(key);
    key_made = false;
    if (mine)
        contexts_free(mine);
}

/* This thread's contexts, freed when the thread ends; NULL: no memory. */
static struct contexts *contexts(void)
{
    if (mine)
        return mine;
    pthread_once(&key_once, make_key);
    struct contexts *c = key_made ? calloc(1, sizeof *c) : NULL;
    if (c && pthread_setspecific(key, c) != 0) {
        free(c);
        return NULL;
    }
    return mine = c;
}

/* ---- one decoding step ------------------------------------------------------------------- */

struct job {
    struct contexts *ctx;
    const uint8_t *in;
    size_t len;
    struct stk_buf *out;
    size_t limit;
    uint16_t arg;
    const char *path;
    uint64_t offset;
    struct stk_err *err;
};

static int corrupt(const struct job *j, const char *what)
{
    return stk_err_set(j->err, STK_E_CORRUPT, j->path, (int64_t)j->offset, "%s (%zu stored bytes)",
                       what, j->len);
}

static int too_big(const struct job *j)
{
    return stk_err_set(j->err, STK_E_CORRUPT, j->path, (int64_t)j->offset,
                       "%zu stored bytes decode to more than the limit of %zu bytes", j->len,
                       j->limit);
}

static int nomem(const struct job *j)
{
    return stk_err_nomem(j->err, j->out->len);
}

/* Room for more output: as much again as there is, but one byte past the limit at most (that byte
 * tells "too big" from "just fits"). NULL: no memory. */
static void *grow(struct job *j, size_t *room)
{
    size_t left = j->limit + 1 - j->out->len;
    size_t want = j->out->len > STEP_BYTES ? j->out->len : STEP_BYTES;
    if (want < j->len)
        want = j->len;
    if (want > left)
        want = left;
    void *p = stk_buf_room(j->out, want);
    if (p) {
        *room = j->out->cap - j->out->len;
        if (*room > left)
            *room = left;
    }
    return p;
}

/* ---- deflate in its three wrappers ------------------------------------------------------- */

static const char *deflate_name(enum stk_filter_id id)
{
    return id == STK_FILTER_ZLIB   ? "damaged zlib data"
           : id == STK_FILTER_GZIP ? "damaged gzip data"
                                   : "damaged deflate data";
}

#ifdef STK_HAVE_LIBDEFLATE

/* libdeflate wants all the room at once and starts again when it was too little: begin with what
 * is likely, and never with more than deflate can make of the input (1032 to 1). */
static size_t deflate_guess(const struct job *j)
{
    size_t most = j->len > SIZE_MAX / 2064 ? SIZE_MAX : j->len * 1032 + 64;
    size_t guess = j->len > TRUST_BYTES / 4 ? j->len * 4 : TRUST_BYTES;
    size_t left = j->limit - j->out->len;
    if (j->limit / 16 <= j->len)
        guess = j->limit;
    guess = guess < most ? guess : most;
    return guess < left ? guess : left;
}

static enum libdeflate_result deflate_call(struct job *j, enum stk_filter_id id, const uint8_t *in,
                                           size_t len, void *to, size_t room, size_t *used,
                                           size_t *made)
{
    struct libdeflate_decompressor *d = j->ctx->inflater;
    if (id == STK_FILTER_ZLIB)
        return libdeflate_zlib_decompress_ex(d, in, len, to, room, used, made);
    if (id == STK_FILTER_GZIP)
        return libdeflate_gzip_decompress_ex(d, in, len, to, room, used, made);
    return libdeflate_deflate_decompress_ex(d, in, len, to, room, used, made);
}

/* One stream, appended to out. */
static int deflate_stream(struct job *j, enum stk_filter_id id, const uint8_t *in, size_t len,
                          size_t *used)
{
    if (!j->ctx->inflater && !(j->ctx->inflater = libdeflate_alloc_decompressor()))
        return nomem(j);
    for (size_t room = deflate_guess(j);;) {
        void *to = stk_buf_room(j->out, room + 1);
        if (!to)
            return nomem(j);
        size_t made = 0, left = j->limit - j->out->len;
        enum libdeflate_result r = deflate_call(j, id, in, len, to, room, used, &made);
        if (r == LIBDEFLATE_SUCCESS) {
            j->out->len += made;
            return 0;
        }
        if (r != LIBDEFLATE_INSUFFICIENT_SPACE)
            return corrupt(j, deflate_name(id));
        if (room >= left)
            return too_big(j);
        room = room > left / 4 ? left : room * 4;
    }
}

#else

static int inflate_ready(struct job *j, int window_bits)
{
    z_stream *z = &j->ctx->inflate;
    int r = j->ctx->inflate_ready ? inflateReset2(z, window_bits) : inflateInit2(z, window_bits);
    if (r == Z_OK)
        j->ctx->inflate_ready = true;
    return r == Z_OK ? 0 : nomem(j);
}

static int deflate_stream(struct job *j, enum stk_filter_id id, const uint8_t *in, size_t len,
                          size_t *used)
{
    z_stream *z = &j->ctx->inflate;
    int rc = inflate_ready(j, id == STK_FILTER_ZLIB ? 15 : id == STK_FILTER_GZIP ? 31 : -15);
    if (rc < 0)
        return rc;
    size_t fed = 0;
    z->avail_in = 0;
    for (;;) {
        size_t room = 0;
        uint8_t *to = grow(j, &room);
        if (!to)
            return nomem(j);
        if (!z->avail_in && fed < len) {
            z->next_in = (z_const Bytef *)(uintptr_t)(in + fed);
            z->avail_in = len - fed > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)(len - fed);
            fed += z->avail_in;
        }
        z->next_out = to;
        z->avail_out = room > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uInt)room;
        int r = inflate(z, Z_NO_FLUSH);
        j->out->len += (size_t)(z->next_out - to);
        if (j->out->len > j->limit)
            return too_big(j);
        if (r == Z_STREAM_END)
            break;
        if (r == Z_MEM_ERROR)
            return nomem(j);
        if (r != Z_OK || (!z->avail_in && fed == len && z->avail_out))
            return corrupt(j, deflate_name(id));
    }
    *used = fed - z->avail_in;
    return 0;
}

#endif

static int decode_zlib(struct job *j)
{
    size_t used;
    return deflate_stream(j, STK_FILTER_ZLIB, j->in, j->len, &used);
}

static int decode_deflate(struct job *j)
{
    size_t used;
    return deflate_stream(j, STK_FILTER_DEFLATE, j->in, j->len, &used);
}

static bool all_zero(const uint8_t *p, size_t n)
{
    return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

/* All members; zero padding after the last is allowed, as gzip(1) does. */
static int decode_gzip(struct job *j)
{
    for (size_t at = 0; at == 0 || !all_zero(j->in + at, j->len - at);) {
        size_t used = 0;
        int rc = deflate_stream(j, STK_FILTER_GZIP, j->in + at, j->len - at, &used);
        if (rc < 0)
            return rc;
        at += used;
    }
    return 0;
}

/* ---- zstd -------------------------------------------------------------------------------- */

#ifdef STK_HAVE_ZSTD

/* The frame does not say its size, says one not to be taken on trust, or is one of several. */
static int zstd_stream(struct job *j)
{
    ZSTD_DCtx *d = j->ctx->unzstd;
    ZSTD_DCtx_reset(d, ZSTD_reset_session_only);
    ZSTD_inBuffer in = {j->in, j->len, 0};
    for (size_t hint = 1; in.pos < in.size || hint != 0;) {
        size_t room = 0;
        void *to = grow(j, &room);
        if (!to)
            return nomem(j);
        ZSTD_outBuffer o = {to, room, 0};
        hint = ZSTD_decompressStream(d, &o, &in);
        j->out->len += o.pos;
        if (ZSTD_isError(hint))
            return corrupt(j, ZSTD_getErrorCode(hint) == ZSTD_error_memory_allocation
                                  ? "zstd: not enough memory"
                                  : "damaged zstd data");
        if (j->out->len > j->limit)
            return too_big(j);
        if (hint != 0 && in.pos == in.size && o.pos < o.size)
            return corrupt(j, "zstd data ends early");
    }
    return 0;
}

static int decode_zstd(struct job *j)
{
    if (!j->ctx->unzstd && !(j->ctx->unzstd = ZSTD_createDCtx()))
        return nomem(j);
    unsigned long long size = ZSTD_getFrameContentSize(j->in, j->len);
    if (size == ZSTD_CONTENTSIZE_ERROR)
        return corrupt(j, "not zstd data");
    if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > j->limit)
        return too_big(j);
    if (size > TRUST_BYTES && size / 16 > j->len) /* also when it is unknown */
        return zstd_stream(j);
    void *to = stk_buf_room(j->out, (size_t)size + 1);
    if (!to)
        return nomem(j);
    size_t n = ZSTD_decompressDCtx(j->ctx->unzstd, to, (size_t)size, j->in, j->len);
    if (ZSTD_getErrorCode(n) == ZSTD_error_dstSize_tooSmall)
        return zstd_stream(j);
    if (ZSTD_isError(n))
        return corrupt(j, "damaged zstd data");
    j->out->len += n;
    return 0;
}

#endif

/* ---- lz4 --------------------------------------------------------------------------------- */

#ifdef STK_HAVE_LZ4

static int lz4f_run(struct job *j)
{
    size_t at = 0;
    for (size_t hint = 1; at < j->len || hint != 0;) {
        size_t room = 0, used = j->len - at;
        void *to = grow(j, &room);
        if (!to)
            return nomem(j);
        size_t made = room;
        hint = LZ4F_decompress(j->ctx->unlz4, to, &made, j->in + at, &used, NULL);
        if (LZ4F_isError(hint))
            return corrupt(j, "damaged lz4 data");
        at += used;
        j->out->len += made;
        if (j->out->len > j->limit)
            return too_big(j);
        if (hint != 0 && at == j->len && made < room)
            return corrupt(j, "lz4 data ends early");
    }
    return 0;
}

static int decode_lz4f(struct job *j)
{
    if (!j->ctx->unlz4 &&
        LZ4F_isError(LZ4F_createDecompressionContext(&j->ctx->unlz4, LZ4F_VERSION))) {
        j->ctx->unlz4 = NULL;
        return nomem(j);
    }
    int rc = lz4f_run(j);
    if (rc < 0)
        LZ4F_resetDecompressionContext(j->ctx->unlz4);
    return rc;
}

/* A block says nothing of its size, but makes 255 bytes of one at most. */
static int decode_lz4b(struct job *j)
{
    size_t most = j->len > SIZE_MAX / 512 ? SIZE_MAX / 2 : j->len * 255 + 64;
    size_t room = most < j->limit ? most : j->limit;
    if (j->len > LZ4_MAX_INPUT_SIZE)
        return corrupt(j, "lz4 block is too large");
    if (room > LZ4_MAX_INPUT_SIZE)
        room = LZ4_MAX_INPUT_SIZE;
    uint8_t *to = stk_buf_room(j->out, room + 1);
    if (!to)
        return nomem(j);
    int n = LZ4_decompress_safe((const char *)j->in, (char *)to, (int)j->len, (int)room);
    if (n < 0)
        return corrupt(j, "damaged or oversized lz4 block");
    j->out->len += (size_t)n;
    return 0;
}

#endif

/* ---- xz ---------------------------------------------------------------------------------- */

#ifdef STK_HAVE_LZMA

static int decode_xz(struct job *j)
{
    lzma_stream *z = &j->ctx->unxz;
    if (lzma_stream_decoder(z, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return nomem(j);
    z->next_in = j->in;
    z->avail_in = j->len;
    for (;;) {
        size_t room = 0;
        uint8_t *to = grow(j, &room);
        if (!to)
            return nomem(j);
        z->next_out = to;
        z->avail_out = room;
        lzma_ret r = lzma_code(z, z->avail_in ? LZMA_RUN : LZMA_FINISH);
        j->out->len += room - z->avail_out;
        if (j->out->len > j->limit)
            return too_big(j);
        if (r == LZMA_STREAM_END)
            return 0;
        if (r == LZMA_MEMLIMIT_ERROR)
            return corrupt(j, "xz data wants more than 128 MiB to decode");
        if (r == LZMA_MEM_ERROR)
            return nomem(j);
        if (r != LZMA_OK)
            return corrupt(j, r == LZMA_BUF_ERROR ? "xz data ends early" : "damaged xz data");
    }
}

#endif

/* ---- HDF5's filters ---------------------------------------------------------------------- */

/* Byte k of every element stands together: lane[k]. The loops are written so that the compiler
 * makes vector code of them. */
static void unshuffle4(const uint8_t *in, size_t n, uint8_t *out)
{
    const uint8_t *a = in, *b = in + n, *c = in + 2 * n, *d = in + 3 * n;
    for (size_t i = 0; i < n; i++)
        stk_put_le32(out + 4 * i, (uint32_t)a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 |
                                      (uint32_t)d[i] << 24);
}

static void unshuffle8(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = in + i;
        uint64_t lo = (uint64_t)p[0] | (uint64_t)p[n] << 8 | (uint64_t)p[2 * n] << 16 |
                      (uint64_t)p[3 * n] << 24;
        uint64_t hi = (uint64_t)p[4 * n] | (uint64_t)p[5 * n] << 8 | (uint64_t)p[6 * n] << 16 |
                      (uint64_t)p[7 * n] << 24;
        stk_put_le64(out + 8 * i, lo | hi << 32);
    }
}

static void unshuffle2(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        stk_put_le16(out + 2 * i, (uint16_t)(in[i] | in[n + i] << 8));
}

static void unshuffle_any(const uint8_t *in, size_t n, size_t size, uint8_t *out)
{
    for (size_t k = 0; k < size; k++)
        for (size_t i = 0; i < n; i++)
            out[i * size + k] = in[k * n + i];
}

static int decode_shuffle(struct job *j)
{
    if (j->len > j->limit)
        return too_big(j);
    size_t size = j->arg ? j->arg : 1, n = j->len / size, whole = n * size;
    uint8_t *out = stk_buf_room(j->out, j->len + 1);
    if (!out)
        return nomem(j);
    if (size == 4)
        unshuffle4(j->in, n, out);
    else if (size == 8)
        unshuffle8(j->in, n, out);
    else if (size == 2)
        unshuffle2(j->in, n, out);
    else
        unshuffle_any(j->in, n, size, out);
    if (whole < j->len) /* a part of an element at the end is stored as it is */
        memcpy(out + whole, j->in + whole, j->len - whole);
    j->out->len += j->len;
    return 0;
}

/* As libhdf5 computes it: big-endian 16-bit words, an odd last byte as the high half of one. */
static uint32_t fletcher32(const uint8_t *p, size_t len)
{
    uint32_t sum1 = 0, sum2 = 0;
    for (size_t words = len / 2; words;) {
        size_t run = words > 360 ? 360 : words; /* the sums cannot overflow in 360 steps */
        words -= run;
        for (; run; run--, p += 2) {
            sum1 += (uint32_t)p[0] << 8 | p[1];
            sum2 += sum1;
        }
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    if (len % 2) {
        sum1 += (uint32_t)*p << 8;
        sum2 += sum1;
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    return sum2 << 16 | sum1;
}

static int check_fletcher(struct job *j)
{
    if (j->len < 4)
        return corrupt(j, "too short for its Fletcher-32 checksum");
    uint32_t stored = stk_le32(j->in + j->len - 4);
    uint32_t sum = fletcher32(j->in, j->len - 4);
    /* libhdf5 before 1.6.3 stored the halves with their bytes exchanged, and is still read. */
    uint32_t old = (sum & 0x00ff00ffu) << 8 | (sum >> 8 & 0x00ff00ffu);
    if (stored != sum && stored != old)
        return corrupt(j, "the Fletcher-32 checksum does not match the data");
    return 0;
}

static int decode_bswap(struct job *j)
{
    size_t size = j->arg, len = j->len;
    if (len > j->limit)
        return too_big(j);
    if (size != 2 && size != 4 && size != 8)
        return stk_err_set(j->err, STK_E_UNSUPPORTED, j->path, (int64_t)j->offset,
                           "big-endian elements of %zu bytes", size);
    if (len % size)
        return corrupt(j, "the data is not a whole number of elements");
    uint8_t *out = stk_buf_extend(j->out, len + 1);
    if (!out)
        return nomem(j);
    j->out->len--;
    memcpy(out, j->in, len);
    for (size_t i = 0; size == 2 && i < len; i += 2)
        stk_put_le16(out + i, __builtin_bswap16(stk_le16(out + i)));
    for (size_t i = 0; size == 4 && i < len; i += 4)
        stk_put_le32(out + i, __builtin_bswap32(stk_le32(out + i)));
    for (size_t i = 0; size == 8 && i < len; i += 8)
        stk_put_le64(out + i, __builtin_bswap64(stk_le64(out + i)));
    return 0;
}

/* ---- others ------------------------------------------------------------------------------ */

/*
 * The bytes of a multi-part RecordIO record from the end of its first header to the end of its last
 * part. A writer cuts a payload where the magic stands at a multiple of 4 and drops it there, so
 * the first aligned magic we meet is the header of the second part; after it the headers' lengths
 * lead.
 */
static int decode_join(struct job *j)
{
    size_t at = 0;
    while (j->len - at >= 8 && stk_le32(j->in + at) != MAGIC)
        at += 4;
    stk_buf_put(j->out, j->in, at);
    for (uint32_t flag = 2; flag == 2;) {
        if (j->len - at < 8 || stk_le32(j->in + at) != MAGIC)
            return corrupt(j, "a part of a multi-part record has no header");
        uint32_t word = stk_le32(j->in + at + 4);
        size_t size = word & ((1u << 29) - 1), padded = (size + 3) & ~(size_t)3;
        flag = word >> 29;
        if ((flag != 2 && flag != 3) || size > j->len - at - 8)
            return corrupt(j, "a part of a multi-part record has a damaged header");
        stk_buf_put(j->out, j->in + at, 4);
        stk_buf_put(j->out, j->in + at + 8, size);
        at += 8 + (flag == 3 ? size : padded);
        if (j->out->len > j->limit)
            return too_big(j);
        if (at > j->len)
            break;
    }
    if (at != j->len)
        return corrupt(j, "the parts of a multi-part record do not add up");
    return stk_buf_check(j->out, j->err);
}

/* LZF: runs of up to 32 literals, and copies of 3 to 264 bytes from at most 8 KiB back. */
static int decode_lzf(struct job *j)
{
    const uint8_t *p = j->in, *end = p + j->len;
    while (p < end) {
        size_t ctrl = *p++, n = ctrl < 32 ? ctrl + 1 : (ctrl >> 5) + 2, back = 0;
        if (ctrl >> 5 == 7) /* a long copy: one more byte of length */
            n += p < end ? *p++ : 0;
        if (ctrl >= 32 && p < end)
            back = ((ctrl & 31) << 8 | *p++) + 1;
        if (ctrl < 32 ? (size_t)(end - p) < n : !back || back > j->out->len)
            return corrupt(j, "damaged lzf data");
        if (n > j->limit - j->out->len)
            return too_big(j);
        uint8_t *to = stk_buf_extend(j->out, n);
        if (!to)
            return nomem(j);
        if (ctrl < 32) {
            memcpy(to, p, n);
            p += n;
            continue;
        }
        const uint8_t *from = to - back;
        for (size_t i = 0; i < n; i++) /* it may overlap itself: that is how runs are stored */
            to[i] = from[i];
    }
    return 0;
}

/* A hole: nothing is stored, 2^arg zeros are meant. */
static int decode_zeros(struct job *j)
{
    if (j->arg > 30 || ((size_t)1 << j->arg) > j->limit)
        return too_big(j);
    stk_buf_zeros(j->out, (size_t)1 << j->arg);
    return stk_buf_check(j->out, j->err);
}

struct filter {
    const char *name;
    const char *missing;
    int (*decode)(struct job *j); /* NULL: not here */
    bool check_only;              /* decode only looks: the last 4 bytes are then dropped */
};

static const struct filter filters[] = {
    [STK_FILTER_ZLIB] = {"zlib", NULL, decode_zlib},
    [STK_FILTER_GZIP] = {"gzip", NULL, decode_gzip},
    [STK_FILTER_DEFLATE] = {"deflate", NULL, decode_deflate},
#ifdef STK_HAVE_ZSTD
    [STK_FILTER_ZSTD] = {"zstd", NULL, decode_zstd},
#else
    [STK_FILTER_ZSTD] = {"zstd", "libzstd-dev", NULL},
#endif
#ifdef STK_HAVE_LZ4
    [STK_FILTER_LZ4F] = {"lz4", NULL, decode_lz4f},
    [STK_FILTER_LZ4B] = {"lz4", NULL, decode_lz4b},
#else
    [STK_FILTER_LZ4F] = {"lz4", "liblz4-dev", NULL},
    [STK_FILTER_LZ4B] = {"lz4", "liblz4-dev", NULL},
#endif
#ifdef STK_HAVE_LZMA
    [STK_FILTER_XZ] = {"xz", NULL, decode_xz},
#else
    [STK_FILTER_XZ] = {"xz", "liblzma-dev", NULL},
#endif
    [STK_FILTER_SHUFFLE] = {"shuffle", NULL, decode_shuffle},
    [STK_FILTER_FLETCHER] = {"fletcher32", NULL, check_fletcher, true},
    [STK_FILTER_BSWAP] = {"byte swap", NULL, decode_bswap},
    [STK_FILTER_RESUME] = {"resume", NULL, NULL},
    [STK_FILTER_JOIN] = {"join", NULL, decode_join},
    [STK_FILTER_ZEROS] = {"zeros", NULL, decode_zeros},
    [STK_FILTER_LZF] = {"lzf", NULL, decode_lzf},
};

#define NFILTERS (sizeof filters / sizeof *filters)

const char *stk_filter_missing(enum stk_filter_id id)
{
    return (size_t)id < NFILTERS ? filters[id].missing : NULL;
}

static int no_decoder(const struct job *j, unsigned id)
{
    if (id < NFILTERS && filters[id].missing)
        return stk_err_set(j->err, STK_E_UNSUPPORTED, j->path, (int64_t)j->offset,
                           "this build cannot decode %s: install %s and build again",
                           filters[id].name, filters[id].missing);
    return stk_err_set(j->err, STK_E_UNSUPPORTED, j->path, (int64_t)j->offset,
                       "filter %u cannot be decoded by itself", id);
}

/* One step: from j->in to out, or a look at j->in. Two buffers take turns; the one written last is
 * `out`, so that the caller finds the result there. */
static int run_step(struct job *j, unsigned id, struct stk_buf *scratch)
{
    const struct filter *f = id < NFILTERS ? &filters[id] : NULL;
    if (!f || !f->decode)
        return no_decoder(j, id);
    if (!f->check_only) {
        struct stk_buf turn = *j->out;
        *j->out = *scratch;
        *scratch = turn;
        stk_buf_reset(j->out);
    }
    int rc = f->decode(j);
    if (rc < 0)
        return rc;
    if (f->check_only) {
        j->len -= 4;
    } else {
        j->in = j->out->data;
        j->len = j->out->len;
    }
    return 0;
}

int stk_filter_decode(const struct stk_chain *c, const uint8_t *in, size_t len, struct stk_buf *out,
                      struct stk_buf *scratch, const char *path, uint64_t offset,
                      struct stk_err *err)
{
    static const uint8_t nothing[1], empty[1];
    in = len ? in : nothing;
    stk_buf_reset(out);
    struct job j = {contexts(), in, len, out, 0, 0, path, offset, err};
    if (!j.ctx)
        return stk_err_nomem(err, sizeof *j.ctx);
    if (c->nsteps > STK_CHAIN_MAX)
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)offset, "a chain of %u filters",
                           c->nsteps);
    size_t limit = c->max_decoded ? (size_t)c->max_decoded : LIMIT_DEFAULT;
    if (limit > SIZE_MAX / 4)
        limit = SIZE_MAX / 4;
    for (uint32_t i = 0; i < c->nsteps; i++) {
        j.arg = c->step[i].arg;
        j.in = j.in ? j.in : empty; /* a step that made nothing may have no buffer */
        /* A checksum that a later step removes may make a middle result a little larger. */
        j.limit = i + 1 < c->nsteps ? limit + 4 * STK_CHAIN_MAX : limit;
        int rc = run_step(&j, c->step[i].id, scratch);
        if (rc < 0)
            return rc;
    }
    j.limit = limit;
    if (j.len > limit)
        return too_big(&j);
    if (j.in == in) /* nothing was decoded, only checked */
        stk_buf_put(out, j.in, j.len);
    else
        out->len = j.len;
    return stk_buf_check(out, err);
}

/* ---- compressing ------------------------------------------------------------------------- */

static int bad_level(const char *name, int level, int min, int max, struct stk_err *err)
{
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s level %d: from %d to %d", name, level, min,
                       max);
}

#ifdef STK_HAVE_LIBDEFLATE

static int encode_deflate(struct contexts *ctx, enum stk_filter_id id, int level, const uint8_t *in,
                          size_t len, struct stk_buf *out, struct stk_err *err)
{
    level = level ? level : 6;
    if (level < 1 || level > 12)
        return bad_level("deflate", level, 1, 12, err);
    if (ctx->deflater && ctx->deflater_level != level) {
        libdeflate_free_compressor(ctx->deflater);
        ctx->deflater = NULL;
    }
    if (!ctx->deflater && !(ctx->deflater = libdeflate_alloc_compressor(level)))
        return stk_err_nomem(err, 1 << 20);
    ctx->deflater_level = level;
    size_t bound = libdeflate_zlib_compress_bound(ctx->deflater, len);
    void *to = stk_buf_room(out, bound);
    if (!to)
        return stk_err_nomem(err, bound);
    out->len += id == STK_FILTER_ZLIB
                    ? libdeflate_zlib_compress(ctx->deflater, in, len, to, bound)
                    : libdeflate_deflate_compress(ctx->deflater, in, len, to, bound);
    return 0;
}

#else

static int encode_deflate(struct contexts *ctx, enum stk_filter_id id, int level, const uint8_t *in,
                          size_t len, struct stk_buf *out, struct stk_err *err)
{
    (void)ctx;
    level = level ? level : 6;
    if (level < 1 || level > 9)
        return bad_level("deflate", level, 1, 9, err);
    if (len > UINT32_MAX / 2)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "%zu bytes are too many to deflate",
                           len);
    z_stream z = {0};
    if (deflateInit2(&z, level, Z_DEFLATED, id == STK_FILTER_ZLIB ? 15 : -15, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return stk_err_nomem(err, 1 << 18);
    uLong bound = deflateBound(&z, len);
    z.next_out = stk_buf_room(out, bound);
    z.avail_out = (uInt)bound;
    z.next_in = (z_const Bytef *)(uintptr_t)in;
    z.avail_in = (uInt)len;
    int r = z.next_out ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    if (r == Z_STREAM_END)
        out->len += bound - z.avail_out;
    deflateEnd(&z);
    return r == Z_STREAM_END ? 0 : stk_err_nomem(err, bound);
}

#endif

#ifdef STK_HAVE_ZSTD

/* With a checksum: most formats that hold samples compressed by us have none of their own. */
static int encode_zstd(struct contexts *ctx, int level, const uint8_t *in, size_t len,
                       struct stk_buf *out, struct stk_err *err)
{
    if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
        return bad_level("zstd", level, ZSTD_minCLevel(), ZSTD_maxCLevel(), err);
    if (!ctx->zstd && !(ctx->zstd = ZSTD_createCCtx()))
        return stk_err_nomem(err, 1 << 20);
    size_t bound = ZSTD_compressBound(len);
    void *to = stk_buf_room(out, bound);
    if (!to)
        return stk_err_nomem(err, bound);
    ZSTD_CCtx_setParameter(ctx->zstd, ZSTD_c_compressionLevel, level);
    ZSTD_CCtx_setParameter(ctx->zstd, ZSTD_c_checksumFlag, 1);
    size_t n = ZSTD_compress2(ctx->zstd, to, bound, in, len);
    if (ZSTD_isError(n))
        return stk_err_set(err, STK_E_NOMEM, NULL, -1, "zstd: %s", ZSTD_getErrorName(n));
    out->len += n;
    return 0;
}

#endif

#ifdef STK_HAVE_LZ4

static int encode_lz4f(struct contexts *ctx, int level, const uint8_t *in, size_t len,
                       struct stk_buf *out, struct stk_err *err)
{
    if (level < -100 || level > LZ4F_compressionLevel_max())
        return bad_level("lz4", level, -100, LZ4F_compressionLevel_max(), err);
    LZ4F_preferences_t how = {.compressionLevel = level};
    how.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    how.frameInfo.contentSize = len;
    how.frameInfo.blockSizeID = len > 256u << 10 ? LZ4F_max1MB : LZ4F_max64KB;
    size_t bound = LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(len, &how);
    uint8_t *to = stk_buf_room(out, bound);
    if (!to || (!ctx->lz4 && LZ4F_isError(LZ4F_createCompressionContext(&ctx->lz4, LZ4F_VERSION))))
        return stk_err_nomem(err, bound);
    size_t n = LZ4F_compressBegin(ctx->lz4, to, bound, &how), made = n;
    if (!LZ4F_isError(n))
        made += n = LZ4F_compressUpdate(ctx->lz4, to + made, bound - made, in, len, NULL);
    if (!LZ4F_isError(n))
        made += n = LZ4F_compressEnd(ctx->lz4, to + made, bound - made, NULL);
    if (LZ4F_isError(n))
        return stk_err_set(err, STK_E_NOMEM, NULL, -1, "lz4: %s", LZ4F_getErrorName(n));
    out->len += made;
    return 0;
}

#endif

int stk_filter_encode(enum stk_filter_id id, int level, const uint8_t *in, size_t len,
                      struct stk_buf *out, struct stk_err *err)
{
    struct contexts *ctx = contexts();
    static const uint8_t none[1];
    in = len ? in : none;
    if (!ctx)
        return stk_err_nomem(err, sizeof *ctx);
    switch (id) {
    case STK_FILTER_ZLIB:
    case STK_FILTER_DEFLATE:
        return encode_deflate(ctx, id, level, in, len, out, err);
#ifdef STK_HAVE_ZSTD
    case STK_FILTER_ZSTD:
        return encode_zstd(ctx, level, in, len, out, err);
#endif
#ifdef STK_HAVE_LZ4
    case STK_FILTER_LZ4F:
        return encode_lz4f(ctx, level, in, len, out, err);
#endif
    default:
        if (stk_filter_missing(id))
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "this build cannot write %s: install %s and build again",
                               filters[id].name, stk_filter_missing(id));
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "filter %d is not for writing",
                           (int)id);
    }
}
