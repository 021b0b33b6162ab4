/*
 * filter.c - filter chains: stored bytes to data.
 *
 * Input is hostile: output grows as bytes really come out, never at once because a header says so,
 * and stops at the limit. Does not decode STK_FILTER_RESUME (src.c does).
 */
#include "format/filter/priv.h"

#include <pthread.h>
#include <stdlib.h>

#define LIMIT_DEFAULT                                                                              \
    ((size_t)1 << 30) /* if the chain sets no limit: the largest sample we accept                  \
                       * \ */
#define TRUST_BYTES                                                                                \
    ((size_t)4 << 20) /* allocated at once if a header says so; more only as it                    \
                       * comes */
#define STEP_BYTES  ((size_t)64 << 10)
#define XZ_MEMORY   ((uint64_t)128 << 20) /* twice what xz -9 needs */

/* ---- contexts ---- */

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

/* At exit, or when the library is unloaded: frees the main thread's contexts (for which no
 * destructor runs), and the key, whose destructor is about to vanish. */
__attribute__((destructor)) static void contexts_free_last(void)
{
    if (key_made)
        pthread_key_delete(key);
    key_made = false;
    if (mine)
        contexts_free(mine);
}

struct contexts *stk_filter_contexts(void)
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

/* ---- output ---- */

/* Makes room for more output: doubles it, but to one byte past the limit at most (that byte
 * distinguishes "too big" from "just fits"). NULL: no memory. */
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

/* libdeflate needs all the room at once and starts over if it was too little: begin with a likely
 * size, and never more than deflate can produce from the input (1032 to 1). */
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

/* For a frame without a size, with an implausible one, or one of several. */
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
    if (size > TRUST_BYTES && size / 16 > j->len) /* also if it is unknown */
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

/* A block does not record its size, but expands 1 byte to 255 at most. */
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
            return stk_err_set(j->err, STK_E_UNSUPPORTED, j->path, (int64_t)j->offset,
                               "xz data needs more than 128 MiB of memory to decode");
        if (r == LZMA_MEM_ERROR)
            return nomem(j);
        if (r != LZMA_OK)
            return corrupt(j, r == LZMA_BUF_ERROR ? "xz data ends early" : "damaged xz data");
    }
}

#endif

/* ---- chains ---- */

struct filter {
    const char *name;
    const char *missing;
    int (*decode)(struct job *j); /* NULL: not decoded here */
    bool check_only;              /* decode only checks; the last 4 bytes are then dropped */
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
    [STK_FILTER_SHUFFLE] = {"shuffle", NULL, stk_filter_shuffle},
    [STK_FILTER_FLETCHER] = {"fletcher32", NULL, stk_filter_fletcher, true},
    [STK_FILTER_BSWAP] = {"byte swap", NULL, stk_filter_bswap},
    [STK_FILTER_RESUME] = {"resume", NULL, NULL},
    [STK_FILTER_JOIN] = {"join", NULL, stk_filter_join},
    [STK_FILTER_ZEROS] = {"zeros", NULL, stk_filter_zeros},
    [STK_FILTER_LZF] = {"lzf", NULL, stk_filter_lzf},
};

#define NFILTERS (sizeof filters / sizeof *filters)

const char *stk_filter_name(enum stk_filter_id id)
{
    return (size_t)id < NFILTERS ? filters[id].name : "?";
}

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

/* One step: decodes from j->in to out, or checks j->in. Two buffers alternate; the one written last
 * is `out`, where the caller finds the result. */
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
    struct job j = {stk_filter_contexts(), in, len, out, 0, 0, path, offset, err};
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
        j.in = j.in ? j.in : empty; /* a step without output may have no buffer */
        /* A checksum that a later step removes may make an intermediate result a little larger. */
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
