/* encode.c - one-shot compression for writers. */
#include "format/filter/priv.h"

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

/* With a checksum: most formats with compressed samples have none of their own. */
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
    struct contexts *ctx = stk_filter_contexts();
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
                               stk_filter_name(id), stk_filter_missing(id));
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "filter %d is not for writing",
                           (int)id);
    }
}
