/*
 * packing.c - the attributes by which netCDF files (CF conventions) store numbers as others:
 * value = stored * scale_factor + add_offset, and _FillValue and missing_value mean that there is
 * none. The values become floats, with nan for none.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <math.h>
#include <stdio.h>
#include <strings.h>

#include "format/sample.h"

/* The numbers of an attribute. */
struct numbers {
    size_t n;    /* 0: there is no such attribute */
    bool floats; /* else integers */
    bool wide;   /* float64 */
    double real[STK_SCALED_FILLS];
    int64_t whole[STK_SCALED_FILLS]; /* integers; their bits if they are unsigned */
};

static int refuse(struct stk_err *err, const char *name, const char *why)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "its attribute %s %s", name, why);
}

static int read_open(hid_t attr, hid_t type, hid_t space, const char *name, size_t most,
                     struct numbers *out, struct stk_err *err)
{
    int class = type < 0 ? -1 : (int)stk_h5.Tget_class(type);
    int64_t n = space < 0 ? -1 : (int64_t)stk_h5.Sget_simple_extent_npoints(space);
    if (class == H5T_ENUM)
        return 0; /* names, not numbers */
    if (class != H5T_INTEGER && class != H5T_FLOAT)
        return refuse(err, name, "is not a number");
    if (n < 1 || n > (int64_t)most)
        return refuse(err, name,
                      n < 1       ? "has no value"
                      : most == 1 ? "has several values"
                                  : "names too many values");
    out->floats = class == H5T_FLOAT;
    out->wide = out->floats && stk_h5.Tget_size(type) > 4;
    bool unsigned64 = stk_h5.Tget_size(type) == 8 && stk_h5.Tget_sign(type) == H5T_SGN_NONE;
    hid_t as = unsigned64 ? *stk_h5.T_STD_U64LE : *stk_h5.T_STD_I64LE;
    if (stk_h5.Aread(attr, *stk_h5.T_IEEE_F64LE, out->real) < 0 ||
        (!out->floats && stk_h5.Aread(attr, as, out->whole) < 0))
        return refuse(err, name, "cannot be read");
    out->n = (size_t)n;
    return 0;
}

static int read_numbers(hid_t ds, const char *name, size_t most, struct numbers *out,
                        struct stk_err *err)
{
    *out = (struct numbers){0};
    if (stk_h5.Aexists(ds, name) <= 0)
        return 0;
    hid_t attr = stk_h5.Aopen(ds, name, H5P_DEFAULT);
    hid_t type = attr < 0 ? -1 : stk_h5.Aget_type(attr);
    hid_t space = attr < 0 ? -1 : stk_h5.Aget_space(attr);
    int rc = read_open(attr, type, space, name, most, out, err);
    if (space >= 0)
        stk_h5.Sclose(space);
    if (type >= 0)
        stk_h5.Tclose(type);
    if (attr >= 0)
        stk_h5.Aclose(attr);
    return rc;
}

/* netCDF's classic types have no signs: an attribute tells that there is none. */
static bool is_unsigned(hid_t ds)
{
    char text[8];
    return stk_h5_text_attribute(ds, "_Unsigned", text, sizeof text) &&
           strncasecmp(text, "true", 4) == 0;
}

/* ---- stored values that mean none ---- */

/* The smallest and the largest value of an integer type. */
static void range_of(uint8_t dtype, int64_t *least, uint64_t *most)
{
    unsigned bits = 8 * (unsigned)stk_dtype_size(dtype);
    bool negative = dtype == STK_I8 || dtype == STK_I16 || dtype == STK_I32 || dtype == STK_I64;
    *most = UINT64_MAX >> (64 - bits + negative);
    *least = negative ? -(int64_t)*most - 1 : 0;
}

/* True if a stored value can be number k; its bits in *fill. */
static bool as_fill(const struct numbers *x, size_t k, uint8_t dtype, uint64_t *fill)
{
    double real = x->real[k];
    if (stk_dtype_is_float(dtype)) {
        memcpy(fill, &real, sizeof *fill);
        return !isnan(real); /* nan is none already */
    }
    int64_t least, whole = x->whole[k];
    uint64_t most;
    range_of(dtype, &least, &most);
    if (x->floats) {
        if (!(real >= -0x1p63 && real < 0x1p63) || floor(real) < real)
            return false;
        whole = (int64_t)real;
    }
    *fill = (uint64_t)whole;
    return dtype == STK_U64 || (whole >= least && (whole < 0 || (uint64_t)whole <= most));
}

static int add_fills(hid_t ds, const char *name, uint8_t dtype, struct stk_scaled *s,
                     struct stk_err *err)
{
    struct numbers x;
    int rc = read_numbers(ds, name, STK_SCALED_FILLS, &x, err);
    for (size_t i = 0; rc == 0 && i < x.n; i++) {
        uint64_t fill = 0;
        bool new = as_fill(&x, i, dtype, &fill);
        for (unsigned k = 0; k < s->nfill; k++)
            new &= s->fill[k] != fill;
        if (new && s->nfill == STK_SCALED_FILLS)
            return refuse(err, name, "names too many values");
        if (new)
            s->fill[s->nfill++] = fill;
    }
    return rc;
}

/* ---- the whole ---- */

/* The conventions: values have the type of the attributes; a float32 does not hold integers of 32
 * bits, nor what is stored as float64. */
static uint8_t type_of_values(const struct stk_scaled *s, const struct numbers *scale,
                              const struct numbers *offset)
{
    bool is_float = stk_dtype_is_float(s->stored);
    bool wide = scale->wide || offset->wide || (scale->n && !scale->floats) ||
                (offset->n && !offset->floats) ||
                stk_dtype_size(s->stored) > (is_float ? 4 : 2);
    return wide ? STK_F64 : STK_F32;
}

static uint8_t without_sign(uint8_t dtype)
{
    return dtype == STK_I8    ? STK_U8
           : dtype == STK_I16 ? STK_U16
           : dtype == STK_I32 ? STK_U32
           : dtype == STK_I64 ? STK_U64
                              : dtype;
}

int stk_h5_packing(hid_t ds, const struct stk_h5_type *type, struct stk_h5_packing *out,
                   struct stk_err *err)
{
    struct numbers scale, offset;
    struct stk_scaled *s = &out->how;
    *out = (struct stk_h5_packing){.dtype = type->dtype};
    s->stored = type->dtype;
    s->scale = 1;
    if (type->what != STK_H5_NUMBERS || type->dtype == STK_BOOL)
        return 0;
    int rc = read_numbers(ds, "scale_factor", 1, &scale, err);
    if (rc == 0)
        rc = read_numbers(ds, "add_offset", 1, &offset, err);
    if (rc == 0)
        rc = add_fills(ds, "_FillValue", type->dtype, s, err);
    if (rc == 0)
        rc = add_fills(ds, "missing_value", type->dtype, s, err);
    if (rc < 0)
        return rc;
    s->scale = scale.n ? scale.real[0] : 1;
    s->offset = offset.n ? offset.real[0] : 0;
    if (is_unsigned(ds))
        out->dtype = s->stored = without_sign(type->dtype);
    out->limited = stk_h5.Aexists(ds, "valid_range") > 0 || stk_h5.Aexists(ds, "valid_min") > 0 ||
                   stk_h5.Aexists(ds, "valid_max") > 0;
    out->packed = s->scale != 1 || s->offset != 0 || s->nfill;
    if (out->packed)
        out->dtype = type_of_values(s, &scale, &offset);
    return 0;
}

int stk_h5_unpack(const struct stk_h5_packing *p, struct stk_lister *l, struct stk_field_spec *spec,
                  char codec[16], struct stk_err *err)
{
    struct stk_scaled s = p->how;
    int rc = 0;
    if (p->limited)
        rc = stk_list_taken(l, "array", "values whatever their valid_range",
                            "values outside the range that attributes name are kept", err);
    if (rc < 0 || !p->packed) {
        spec->dtype = p->dtype;
        return rc;
    }
    rc = stk_list_taken(l, "array", "the values of packed numbers",
                        "attributes (scale_factor, add_offset, _FillValue) describe them; missing "
                        "values are nan",
                        err);
    snprintf(s.tile, sizeof s.tile, "%s", spec->codec ? spec->codec : "");
    spec->dtype = p->dtype;
    stk_scaled_name(&s, spec);
    snprintf(codec, 16, "%s", s.name);
    spec->codec = codec;
    return rc < 0 ? rc : stk_list_context(l, (const char *)&s, sizeof s, err);
}
#else
typedef int stk_no_hdf5_packing; /* a file must declare something */
#endif
