/*
 * sample.c - the result of `stoker inspect --sample`: the fields of a sample, with previews.
 */
#include <stdio.h>

#include "base/text.h"
#include "format/sample.h"
#include "report/data.h"
#include "report/sniff.h"

#define FIELDS_JSON   1000
#define PREVIEW_ITEMS 64

/* "3 x 224 x 224", "scalar" */
static const char *shape_text(const uint64_t *dim, unsigned ndim, char *buf, size_t size)
{
    if (!ndim) {
        snprintf(buf, size, "scalar");
        return buf;
    }
    size_t n = 0;
    for (unsigned d = 0; d < ndim && d < STK_MAX_NDIM && n < size; d++)
        n += (size_t)snprintf(buf + n, size - n, "%s%llu", d ? " x " : "",
                              (unsigned long long)dim[d]);
    return buf;
}

static void preview_array(const struct stk_value *v, struct stk_buf *out)
{
    uint64_t n = stk_value_count(v);
    bool is_float = stk_dtype_is_float(v->dtype);
    for (uint64_t i = 0; i < n && i < PREVIEW_ITEMS; i++) {
        stk_buf_puts(out, i ? ", " : "");
        if (is_float)
            stk_buf_printf(out, "%.6g", stk_value_f64(v, i));
        else if (v->dtype == STK_BOOL)
            stk_buf_puts(out, stk_value_i64(v, i) ? "true" : "false");
        else if (v->dtype == STK_U64)
            stk_buf_printf(out, "%llu", (unsigned long long)stk_value_i64(v, i));
        else
            stk_buf_printf(out, "%lld", (long long)stk_value_i64(v, i));
    }
    if (n > PREVIEW_ITEMS)
        stk_buf_puts(out, ", ...");
}

static bool looks_like_text(const struct stk_value *v)
{
    return v->kind == STK_TEXT || v->kind == STK_JSON ||
           (v->kind == STK_BYTES && v->size && v->size < (1u << 20) &&
            stk_is_text(v->data, v->size));
}

/* A value in at most cols columns. */
static void preview(const struct stk_value *v, size_t cols, struct stk_buf *out)
{
    struct stk_buf all = STK_BUF_INIT;
    const char *p = v->data;
    size_t n = v->size < 1024 ? v->size : 1024;
    if (v->kind == STK_ARRAY) {
        preview_array(v, &all);
    } else if (v->kind == STK_LIST) {
        stk_buf_printf(&all, "%zu items", v->nitems);
        for (size_t i = 0; i < v->nitems && i < 4; i++) {
            stk_buf_puts(&all, i ? "; " : ": ");
            preview(&v->item[i], 24, &all);
        }
    } else if (!looks_like_text(v)) {
        for (size_t i = 0; i < n && i < 32; i++)
            stk_buf_printf(&all, "%s%02x", i ? " " : "", (unsigned char)p[i]);
        if (n > 32)
            stk_buf_puts(&all, " ...");
    }
    /* A list's previews are escaped already; everything else is escaped here, once. */
    if (looks_like_text(v)) {
        stk_text_escape(out, p, n, cols);
    } else if (v->kind == STK_LIST) {
        size_t fits = all.len <= cols ? all.len : cols > 3 ? cols - 3 : 0;
        while (fits < all.len && fits && ((uint8_t)all.data[fits] & 0xc0) == 0x80)
            fits--;
        stk_buf_put(out, all.data, fits);
        stk_buf_puts(out, fits < all.len ? "..." : "");
    } else {
        stk_text_escape(out, stk_buf_cstr(&all), all.len, cols);
    }
    stk_buf_release(&all);
}

/* "JPEG 640x480" for bytes, "float32" for arrays. */
static void type_text(const struct stk_value *v, char *buf, size_t size)
{
    buf[0] = '\0';
    if (v->kind == STK_ARRAY)
        snprintf(buf, size, "%s", stk_dtype_name(v->dtype));
    else if (v->kind == STK_BYTES && v->size)
        stk_sniff(v->data, v->size, buf, size);
}

static void field_json(const struct stk_field *f, struct stk_jw *w)
{
    const struct stk_value *v = &f->value;
    char type[64], shape[200];
    struct stk_buf seen = STK_BUF_INIT;
    stk_jw_open(w, '{');
    stk_jw_key(w, "name");
    stk_jw_strn(w, f->name, f->name_len);
    stk_jw_put_str(w, "kind", stk_kind_name(v->kind));
    type_text(v, type, sizeof type);
    stk_jw_key(w, v->kind == STK_ARRAY ? "dtype" : "looks_like");
    stk_jw_str(w, type[0] ? type : NULL);
    if (v->kind == STK_ARRAY) {
        stk_jw_key(w, "shape");
        stk_jw_open(w, '[');
        for (unsigned d = 0; d < v->ndim && d < STK_MAX_NDIM; d++)
            stk_jw_u64(w, v->dim[d]);
        stk_jw_close(w, ']');
        stk_jw_put_str(w, "dimensions", shape_text(v->dim, v->ndim, shape, sizeof shape));
    }
    stk_jw_put_str(w, "type", type);
    stk_jw_put_u64(w, "size_bytes", v->size);
    preview(v, 200, &seen);
    stk_jw_put_str(w, "preview", stk_buf_cstr(&seen));
    stk_buf_release(&seen);
    stk_jw_close(w, '}');
}

const struct stk_result_field stk_sample_fields[] = {
    {"name", "field", STK_U_TEXT},
    {"kind", "kind", STK_U_TEXT},
    {"dtype", NULL, STK_U_TEXT, .meaning = "of an array"},
    {"looks_like", NULL, STK_U_TEXT, .meaning = "what the bytes look like: \"JPEG 640x480\""},
    {"type", "type", STK_U_TEXT, .flags = STK_F_IF_SET},
    {"shape", NULL, STK_U_LIST},
    {"dimensions", "shape", STK_U_TEXT, .flags = STK_F_IF_SET},
    {"size_bytes", "size", STK_U_BYTES},
    {"preview", "value", STK_U_TEXT, .flags = STK_F_ESCAPED | STK_F_CUT_END},
    {NULL}};

void stk_put_sample_fields(const struct stk_sample *s, struct stk_jw *w)
{
    size_t n = s ? stk_sample_nfields(s) : 0;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n && i < FIELDS_JSON; i++)
        field_json(stk_sample_field(s, i), w);
    stk_jw_close(w, ']');
}

static void put_key(const void *base, struct stk_jw *w)
{
    const struct stk_sample_shown *s = base;
    size_t n = 0;
    const char *key = stk_sample_key(s->sample, &n);
    stk_jw_strn(w, key ? key : "", n);
}

static void put_fields(const void *base, struct stk_jw *w)
{
    const struct stk_sample_shown *s = base;
    stk_put_sample_fields(s->sample, w);
}

STK_NUMBER_OF(fields_total, struct stk_sample_shown, (double)stk_sample_nfields(r->sample))

static const struct stk_result_field fields[] = {
    {"sample", "sample", STK_U_COUNT, STK_FROM(struct stk_sample_shown, number),
     .flags = STK_F_HEAD | STK_F_LEAD, .say = "sample %"},
    {"key", "key", STK_U_TEXT, .put = put_key, .flags = STK_F_HEAD | STK_F_IF_SET,
     .say = "key %"},
    {"fields_total", "fields", STK_U_COUNT, .number = fields_total, .flags = STK_F_PAGE},
    {"fields", "fields", STK_U_TABLE, .put = put_fields, .of = stk_sample_fields, .most = 64},
    {NULL}};

static bool is_sample(const struct stk_jval *result)
{
    return stk_json_get(result, "sample") != NULL;
}

const struct stk_result_kind stk_sample_kind = {.command = "inspect",
                                                .doing = "A sample",
                                                .subject = SIZE_MAX,
                                                .fields = fields,
                                                .fits = true,
                                                .takes = is_sample};
