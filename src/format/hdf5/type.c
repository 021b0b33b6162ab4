/*
 * type.c - maps HDF5 types to ours: numbers, strings, bytes; refuses the rest with the reason.
 */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/hdf5.h"

#include <stdio.h>

bool stk_h5_text_attribute(hid_t object, const char *name, char *to, size_t n)
{
    to[0] = '\0';
    if (stk_h5.Aexists(object, name) <= 0)
        return false;
    hid_t attr = stk_h5.Aopen(object, name, H5P_DEFAULT);
    hid_t type = attr < 0 ? -1 : stk_h5.Aget_type(attr);
    hid_t space = attr < 0 ? -1 : stk_h5.Aget_space(attr);
    bool text = type >= 0 && space >= 0 && stk_h5.Tget_class(type) == H5T_STRING &&
                stk_h5.Sget_simple_extent_npoints(space) == 1;
    if (text && stk_h5.Tis_variable_str(type) > 0) {
        char *own = NULL;
        if (stk_h5.Aread(attr, type, &own) >= 0 && own)
            snprintf(to, n, "%s", own);
        stk_h5.free_memory(own);
    } else if (text && stk_h5.Tget_size(type) < 4096) {
        char fixed[4096];
        size_t len = stk_h5.Aread(attr, type, fixed) >= 0 ? stk_h5.Tget_size(type) : 0;
        snprintf(to, n, "%.*s", (int)len, fixed);
    }
    if (space >= 0)
        stk_h5.Sclose(space);
    if (type >= 0)
        stk_h5.Tclose(type);
    if (attr >= 0)
        stk_h5.Aclose(attr);
    return to[0] != '\0';
}

static void refuse(struct stk_h5_type *t, const char *why)
{
    t->what = STK_H5_REFUSED;
    snprintf(t->why, sizeof t->why, "%s", why);
}

static bool set_order(hid_t type, struct stk_h5_type *t)
{
    H5T_order_t order = stk_h5.Tget_order(type);
    t->big_endian = order == H5T_ORDER_BE;
    return order == H5T_ORDER_LE || order == H5T_ORDER_BE || stk_h5.Tget_size(type) == 1;
}

static void describe_integer(hid_t type, struct stk_h5_type *t)
{
    static const uint8_t dtypes[2][9] = {
        {[1] = STK_U8, [2] = STK_U16, [4] = STK_U32, [8] = STK_U64},
        {[1] = STK_I8, [2] = STK_I16, [4] = STK_I32, [8] = STK_I64}};
    size_t size = stk_h5.Tget_size(type);
    bool is_signed = stk_h5.Tget_class(type) != H5T_BITFIELD && stk_h5.Tget_sign(type) == H5T_SGN_2;
    if (size > 8 || !dtypes[is_signed][size] || stk_h5.Tget_precision(type) != size * 8 ||
        !set_order(type, t)) {
        refuse(t, "integers of an unusual width");
        return;
    }
    t->what = STK_H5_NUMBERS;
    t->dtype = dtypes[is_signed][size];
    t->size = size;
}

/* Only the IEEE formats of 2, 4 and 8 bytes; bfloat16 has the size of float16 but other bits. */
static void describe_float(hid_t type, struct stk_h5_type *t)
{
    static const struct {
        size_t size, sign, exponent, exponent_bits, mantissa_bits, bias;
        uint8_t dtype;
    } known[] = {{2, 15, 10, 5, 10, 15, STK_F16},
                 {4, 31, 23, 8, 23, 127, STK_F32},
                 {8, 63, 52, 11, 52, 1023, STK_F64}};
    size_t size = stk_h5.Tget_size(type), sign = 0, epos = 0, ebits = 0, mpos = 0, mbits = 0;
    size_t bias = stk_h5.Tget_ebias(type);
    if (stk_h5.Tget_fields(type, &sign, &epos, &ebits, &mpos, &mbits) >= 0 && set_order(type, t)) {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (known[i].size == size && known[i].sign == sign && known[i].exponent == epos &&
                known[i].exponent_bits == ebits && mpos == 0 && known[i].mantissa_bits == mbits &&
                known[i].bias == bias) {
                t->what = STK_H5_NUMBERS;
                t->dtype = known[i].dtype;
                t->size = size;
                return;
            }
    }
    refuse(t, "floating-point numbers that are not IEEE float16, float32 or float64");
}

static bool member_is(hid_t type, unsigned i, const char *name, int8_t value)
{
    int8_t v = -1;
    char *got = stk_h5.Tget_member_name(type, i);
    bool is =
        got && strcmp(got, name) == 0 && stk_h5.Tget_member_value(type, i, &v) >= 0 && v == value;
    stk_h5.free_memory(got);
    return is;
}

/* h5py writes bool as an enumeration of int8. Any other enumeration is read as its integers. */
static void describe_enum(hid_t type, struct stk_h5_type *t)
{
    hid_t base = stk_h5.Tget_super(type);
    if (base < 0) {
        refuse(t, "an enumeration of an unknown type");
        return;
    }
    describe_integer(base, t);
    stk_h5.Tclose(base);
    if (t->what == STK_H5_NUMBERS && t->size == 1 && stk_h5.Tget_nmembers(type) == 2 &&
        member_is(type, 0, "FALSE", 0) && member_is(type, 1, "TRUE", 1))
        t->dtype = STK_BOOL;
}

static void describe_string(hid_t type, unsigned addr_size, struct stk_h5_type *t)
{
    t->is_string = true;
    t->utf8 = stk_h5.Tget_cset(type) == H5T_CSET_UTF8;
    if (stk_h5.Tis_variable_str(type) > 0) {
        t->what = STK_H5_VARIABLE;
        t->size = 8 + addr_size;
        return;
    }
    t->what = STK_H5_STRING;
    t->size = stk_h5.Tget_size(type);
    t->padding = stk_h5.Tget_strpad(type);
}

static void describe_variable(hid_t type, unsigned addr_size, struct stk_h5_type *t)
{
    hid_t base = stk_h5.Tget_super(type);
    struct stk_h5_type inner = {.what = STK_H5_REFUSED};
    if (base >= 0 && stk_h5.Tget_class(base) == H5T_INTEGER)
        describe_integer(base, &inner);
    if (base >= 0)
        stk_h5.Tclose(base);
    if (inner.what != STK_H5_NUMBERS || inner.size != 1) {
        refuse(t, "arrays of variable length (only those of bytes are read)");
        return;
    }
    t->what = STK_H5_VARIABLE;
    t->size = 8 + addr_size;
}

static void describe_array(hid_t type, unsigned addr_size, struct stk_h5_type *t)
{
    hsize_t dim[H5S_MAX_RANK];
    int ndims = stk_h5.Tget_array_ndims(type);
    hid_t base = stk_h5.Tget_super(type);
    if (base >= 0 && ndims > 0 && stk_h5.Tget_array_dims2(type, dim) >= 0)
        stk_h5_describe_type(base, addr_size, t);
    else
        refuse(t, "an array type libhdf5 cannot describe");
    if (base >= 0)
        stk_h5.Tclose(base);
    if (t->what == STK_H5_REFUSED)
        return;
    size_t elements = 1;
    if (t->what == STK_H5_STRING && ndims == 1 && dim[0] == 1) /* pandas: equivalent to a string */
        return;
    bool fits = t->what == STK_H5_NUMBERS && (unsigned)ndims + t->ndims <= STK_MAX_NDIM;
    for (int i = 0; fits && i < ndims; i++)
        fits = !__builtin_mul_overflow(elements, dim[i], &elements) && elements;
    if (!fits || __builtin_mul_overflow(t->size, elements, &t->size)) {
        refuse(t, "array types of something other than numbers");
        return;
    }
    memmove(t->dim + ndims, t->dim, t->ndims * sizeof *t->dim);
    for (int i = 0; i < ndims; i++)
        t->dim[i] = dim[i];
    t->ndims += (unsigned)ndims;
}

static bool is_part(hid_t type, unsigned i, const char *a, const char *b)
{
    char *name = stk_h5.Tget_member_name(type, i);
    bool is = name && (strcmp(name, a) == 0 || strcmp(name, b) == 0);
    stk_h5.free_memory(name);
    return is;
}

/* Compounds of a real and an imaginary part are arrays of two, with the same layout. */
static bool describe_complex(hid_t type, struct stk_h5_type *t)
{
    if (stk_h5.Tget_class(type) != H5T_COMPOUND || stk_h5.Tget_nmembers(type) != 2 ||
        !is_part(type, 0, "r", "real") || !is_part(type, 1, "i", "imag"))
        return false;
    hid_t re = stk_h5.Tget_member_type(type, 0), im = stk_h5.Tget_member_type(type, 1);
    struct stk_h5_type half = {.what = STK_H5_REFUSED};
    if (re >= 0 && im >= 0 && stk_h5.Tget_class(re) == H5T_FLOAT && stk_h5.Tequal(re, im) > 0)
        describe_float(re, &half);
    if (re >= 0)
        stk_h5.Tclose(re);
    if (im >= 0)
        stk_h5.Tclose(im);
    if (half.what != STK_H5_NUMBERS || stk_h5.Tget_size(type) != 2 * half.size ||
        stk_h5.Tget_member_offset(type, 1) != half.size)
        return false;
    *t = half;
    t->size *= 2;
    t->ndims = 1;
    t->dim[0] = 2;
    t->complex = true;
    return true;
}

static void describe_bytes(hid_t type, struct stk_h5_type *t)
{
    if (describe_complex(type, t))
        return;
    t->what = STK_H5_OPAQUE;
    t->compound = stk_h5.Tget_class(type) == H5T_COMPOUND;
    t->size = stk_h5.Tget_size(type);
    if (t->compound &&
        (stk_h5.Tdetect_class(type, H5T_VLEN) > 0 || stk_h5.Tis_variable_str(type) > 0 ||
         stk_h5.Tdetect_class(type, H5T_REFERENCE) > 0))
        refuse(t, "compounds with members of variable length");
}

void stk_h5_describe_type(hid_t type, unsigned addr_size, struct stk_h5_type *out)
{
    *out = (struct stk_h5_type){0};
    switch (stk_h5.Tget_class(type)) {
    case H5T_INTEGER:
    case H5T_BITFIELD:
        describe_integer(type, out);
        break;
    case H5T_FLOAT:
        describe_float(type, out);
        break;
    case H5T_ENUM:
        describe_enum(type, out);
        break;
    case H5T_STRING:
        describe_string(type, addr_size, out);
        break;
    case H5T_VLEN:
        describe_variable(type, addr_size, out);
        break;
    case H5T_ARRAY:
        describe_array(type, addr_size, out);
        break;
    case H5T_OPAQUE:
    case H5T_COMPOUND:
        describe_bytes(type, out);
        break;
    case H5T_REFERENCE:
        refuse(out, "references");
        break;
    default:
        refuse(out, "an unknown type");
        break;
    }
    if (out->what != STK_H5_REFUSED && (out->size == 0 || out->size > UINT32_MAX))
        refuse(out, "elements of an impossible size");
}

#else
typedef int stk_no_hdf5_type; /* a file must declare something */
#endif
