/*
 * tile.c - arrays stored as tiles: chunks of HDF5 that cut a sample along several axes.
 *
 * The stored bytes are the tiles of the array in row-major order of their grid, each one whole,
 * even where it extends past the array's edge. "tile:28x28x1" names the tile's shape, the field the
 * array's.
 */
#include "format/format.h"
#include "format/sample.h"

#include <stdlib.h>

struct tiling {
    unsigned ndim;
    uint64_t dim[STK_MAX_NDIM], tile[STK_MAX_NDIM], grid[STK_MAX_NDIM];
    size_t element;
    uint64_t tile_bytes, array_bytes, ntiles;
};

static int wrong(const struct stk_field_spec *spec, struct stk_err *err)
{
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the tiles (%.15s) of '%.*s' do not fit it",
                       spec->codec, (int)spec->name_len, spec->name);
}

static bool parse_tile(const char *codec, struct tiling *t)
{
    const char *p = codec + strlen("tile");
    for (unsigned i = 0; i < t->ndim; i++) {
        uint64_t v = 0;
        if (*p != (i ? 'x' : ':') || p[1] < '1' || p[1] > '9')
            return false;
        for (p++; *p >= '0' && *p <= '9'; p++)
            v = v * 10 + (uint64_t)(*p - '0'); /* at most 15 digits */
        t->tile[i] = v;
    }
    return *p == '\0';
}

static bool measure(const struct stk_field_spec *spec, struct tiling *t)
{
    t->element = stk_dtype_size(spec->dtype);
    t->ndim = spec->ndim;
    if (spec->kind != STK_ARRAY || !t->ndim || t->ndim > STK_MAX_NDIM || !t->element ||
        strlen(spec->codec) > 15 || !parse_tile(spec->codec, t))
        return false;
    t->tile_bytes = t->array_bytes = t->element;
    t->ntiles = 1;
    for (unsigned i = 0; i < t->ndim; i++) {
        t->dim[i] = spec->dim[i];
        t->grid[i] = t->dim[i] / t->tile[i] + (t->dim[i] % t->tile[i] != 0);
        if (__builtin_mul_overflow(t->tile_bytes, t->tile[i], &t->tile_bytes) ||
            __builtin_mul_overflow(t->array_bytes, t->dim[i], &t->array_bytes) ||
            __builtin_mul_overflow(t->ntiles, t->grid[i], &t->ntiles))
            return false;
    }
    return true;
}

static void copy_run(uint8_t *to, const uint8_t *from, size_t n)
{
    switch (n) { /* the usual sizes: one element, if the last axis is cut to 1 */
    case 1:
        *to = *from;
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    default:
        memcpy(to, from, n);
    }
}

/* Copies one tile; first: the array's coordinates of its first element. */
static void place_tile(const struct tiling *t, const uint64_t *first, const uint8_t *p,
                       uint8_t *out)
{
    unsigned last = t->ndim - 1;
    uint64_t at[STK_MAX_NDIM] = {0}, rows = 1, extent[STK_MAX_NDIM];
    for (unsigned i = 0; i < t->ndim; i++) {
        uint64_t left = t->dim[i] - first[i];
        extent[i] = left < t->tile[i] ? left : t->tile[i];
        if (i < last)
            rows *= extent[i];
    }
    size_t run = (size_t)extent[last] * t->element;
    for (uint64_t r = 0; r < rows; r++) {
        uint64_t from = 0, to = 0;
        for (unsigned i = 0; i < t->ndim; i++) {
            from = from * t->tile[i] + at[i];
            to = to * t->dim[i] + first[i] + at[i];
        }
        copy_run(out + to * t->element, p + from * t->element, run);
        for (unsigned i = last; i-- > 0;) {
            if (++at[i] < extent[i])
                break;
            at[i] = 0;
        }
    }
}

static int arrange(const struct stk_field_spec *spec, const char *context, size_t context_len,
                   const uint8_t *p, size_t n, struct stk_sample *s, const uint8_t **out,
                   size_t *out_len, struct stk_err *err)
{
    (void)context, (void)context_len;
    struct tiling t = {0};
    uint64_t want;
    if (!measure(spec, &t) || __builtin_mul_overflow(t.tile_bytes, t.ntiles, &want) || want != n ||
        t.array_bytes > n)
        return wrong(spec, err);
    uint8_t *to = stk_arena_alloc(&s->arena, (size_t)t.array_bytes);
    if (!to)
        return stk_err_nomem(err, t.array_bytes);
    uint64_t first[STK_MAX_NDIM] = {0};
    for (uint64_t k = 0; k < t.ntiles; k++) {
        place_tile(&t, first, p + k * t.tile_bytes, to);
        for (unsigned i = t.ndim; i-- > 0;) {
            first[i] += t.tile[i];
            if (first[i] < t.dim[i])
                break;
            first[i] = 0;
        }
    }
    *out = to;
    *out_len = (size_t)t.array_bytes;
    return 0;
}

static bool uniform(const char *context, size_t context_len)
{
    (void)context, (void)context_len;
    return true;
}

const struct stk_codec stk_codec_tile = {
    .name = "tile", .title = "array in tiles", .uniform = uniform, .arrange = arrange};
