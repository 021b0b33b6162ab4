/*
 * priv.h - what the parts of the filters share: filter.c decompresses and runs chains,
 * format/filter/bytes.c rearranges bytes, format/filter/encode.c compresses.
 */
#ifndef STK_FORMAT_FILTER_PRIV_H
#define STK_FORMAT_FILTER_PRIV_H

#include "format/format.h"

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

/* ---- contexts per thread: making one costs more than decoding a 4 KiB sample ----------- */

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

/* This thread's contexts, freed when the thread ends; NULL: no memory. */
struct contexts *stk_filter_contexts(void);
const char *stk_filter_name(enum stk_filter_id id); /* "zstd" */

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

static inline int corrupt(const struct job *j, const char *what)
{
    return stk_err_set(j->err, STK_E_CORRUPT, j->path, (int64_t)j->offset, "%s (%zu stored bytes)",
                       what, j->len);
}

static inline int too_big(const struct job *j)
{
    return stk_err_set(j->err, STK_E_CORRUPT, j->path, (int64_t)j->offset,
                       "%zu stored bytes decode to more than the limit of %zu bytes", j->len,
                       j->limit);
}

static inline int nomem(const struct job *j)
{
    return stk_err_nomem(j->err, j->out->len);
}

/* ---- format/filter/bytes.c ---- */

int stk_filter_shuffle(struct job *j);
int stk_filter_fletcher(struct job *j); /* only checks; the last 4 bytes are then dropped */
int stk_filter_bswap(struct job *j);
int stk_filter_join(struct job *j);
int stk_filter_lzf(struct job *j);
int stk_filter_zeros(struct job *j);

#endif
