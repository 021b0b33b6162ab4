/*
 * npy.c - the bytes of a .npy file, as a member or record, and an ARRAY.
 *
 * The array is used in place; only Fortran order and big-endian elements are copied. Anything but
 * an array of numbers stays bytes.
 */
#include "format/format.h"
#include "format/numpy/npyhead.h"
#include "format/sample.h"

static int bid(const uint8_t *p, size_t n)
{
    struct stk_npy_head h;
    return stk_npy_parse(p, n, &h, NULL) == 0 && n - h.data_offset == h.data_bytes ? 95 : 0;
}

static int explode(const char *context, size_t context_len, const uint8_t *p, size_t n,
                   struct stk_sample *s, struct stk_err *err)
{
    (void)context, (void)context_len;
    struct stk_npy_head h;
    int rc = stk_npy_parse(p, n, &h, err);
    /* Strings, structures, objects, complex numbers: a file like any other, and never unpickled. */
    if (rc == STK_E_UNSUPPORTED || (rc == 0 && (h.chars || h.complex)))
        return stk_sample_add_bytes(s, "data", STK_BYTES, p, n, err);
    if (rc < 0) {
        if (err)
            err->offset = -1; /* drops the offset within the header; the reader adds that of the
                               * member */
        return stk_err_wrap(err, rc, "NPY header");
    }
    /* Fewer bytes mean damage; more would be lost silently (several arrays saved into one file). */
    if (n - h.data_offset != h.data_bytes)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1,
                           "the NPY header announces %llu bytes of data, there are "
                           "%llu",
                           (unsigned long long)h.data_bytes,
                           (unsigned long long)(n - h.data_offset));
    struct stk_value v = {.kind = STK_ARRAY,
                          .dtype = h.dtype,
                          .ndim = h.ndim,
                          .data = p + h.data_offset,
                          .size = (size_t)h.data_bytes};
    memcpy(v.dim, h.dim, sizeof v.dim);
    if (h.swap || h.fortran) {
        uint8_t *copy = stk_arena_alloc(&s->arena, v.size);
        if (!copy)
            return stk_err_nomem(err, v.size);
        stk_npy_normalise(&h, v.data, copy);
        v.data = copy;
    }
    return stk_sample_add(s, "data", 4, &v) ? 0 : stk_err_nomem(err, sizeof v);
}

/* One array and nothing else. */
static int implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err)
{
    const struct stk_field *f = NULL;
    for (size_t i = 0; i < s->nfields; i++) {
        const struct stk_field *g = &s->field[i];
        if (f || g->value.kind != STK_ARRAY)
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                               "an NPY record holds one array; use --payload example");
        f = g;
    }
    if (!f)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "the sample has no array");
    stk_npy_write_head(out, f->value.dtype, f->value.ndim, f->value.dim);
    stk_buf_put(out, f->value.data, f->value.size);
    return stk_buf_check(out, err);
}

const struct stk_codec stk_codec_npy = {.name = "npy",
                                        .title = "NPY array",
                                        .payload = true,
                                        .holds = STK_HOLDS_SHAPES,
                                        .bid = bid,
                                        .explode = explode,
                                        .implode = implode};
