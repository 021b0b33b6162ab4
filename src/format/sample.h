/*
 * sample.h - a sample in memory: key, fields, and the arena for decoded parts.
 *
 * A sample is reused: reset, fill, use. Values may point into buffers of the reader (valid until
 * the sample is reset) or into the sample's arena.
 */
#ifndef STK_FORMAT_SAMPLE_H
#define STK_FORMAT_SAMPLE_H

#include <stdatomic.h>

#include "base/buf.h"
#include "base/num.h"

struct stk_codec;

/* A buffer that values of several samples point into: it stays as long as one of them does. */
struct stk_hold {
    _Atomic size_t samples;
    struct stk_buf bytes;
};

struct stk_sample {
    const char *key; /* not terminated */
    size_t key_len;
    uint64_t number; /* its index in the dataset being written (pack sets it) */
    struct stk_field *field;
    size_t nfields, cap;
    /* The record as stored and the codec it was exploded with, when the whole sample is one record:
     * a writer of the same codec may copy it instead of encoding again. NULL if fields were changed
     * since. */
    const uint8_t *record;
    size_t record_len;
    const struct stk_codec *record_codec;
    struct stk_arena arena;
    struct stk_buf bytes;  /* what the reader assembled for this sample */
    struct stk_hold *hold; /* the reader's buffer, kept alive while values point into it; NULL */
};

void stk_sample_init(struct stk_sample *s);
void stk_sample_release(struct stk_sample *s);
void stk_sample_reset(struct stk_sample *s);
/* Resets the sample and lets go of its hold. Returns that where no other sample has it, for the
 * next use of its memory: caller frees with stk_hold_free(). Else NULL. */
struct stk_hold *stk_sample_let_go(struct stk_sample *s);
void stk_hold_free(struct stk_hold *h);

/* Adds a field; name and value are borrowed. NULL: out of memory. */
struct stk_field *stk_sample_add(struct stk_sample *s, const char *name, size_t name_len,
                                 const struct stk_value *v);
int stk_sample_add_bytes(struct stk_sample *s, const char *name, enum stk_kind kind, const void *p,
                         size_t n, struct stk_err *err);
/* Scalars go into the arena. */
int stk_sample_add_i64(struct stk_sample *s, const char *name, size_t name_len, int64_t v,
                       struct stk_err *err);
const struct stk_field *stk_sample_find(const struct stk_sample *s, const char *name);
/* Sets or replaces "label" and drops the stored record. */
int stk_sample_set_label(struct stk_sample *s, int64_t label, struct stk_err *err);
int stk_sample_set_label_f64(struct stk_sample *s, double label, struct stk_err *err);

/* Elements of an ARRAY (product of dims; 1 for a scalar). */
uint64_t stk_value_count(const struct stk_value *v);
/* Element i of an ARRAY as a number. */
double stk_value_f64(const struct stk_value *v, uint64_t i);
int64_t stk_value_i64(const struct stk_value *v, uint64_t i);
bool stk_dtype_is_float(enum stk_dtype t);
/* Whether formats give values of this type: other numbers are reserved. */
bool stk_dtype_is_read(enum stk_dtype t);
/* True when p[0..n) is UTF-8 without NUL. */
bool stk_is_text(const uint8_t *p, size_t n);
/* Checks for exactly one JSON value, as Python's json accepts it (format/json/check.c). STK_E_CORRUPT: it
 * is not; STK_E_UNSUPPORTED: an object has duplicate names. */
int stk_json_check(const uint8_t *p, size_t n, struct stk_err *err);
size_t stk_json_bom(const uint8_t *p, size_t n); /* length of the byte order mark, if any */
/* True when a key can be a relative path below a folder: no empty, "." or ".." component, not
 * absolute, no NUL, components under 256 bytes. */
bool stk_key_is_safe_path(const char *key, size_t len);
/* The key without the extension of its base name (from the FIRST dot, as WebDataset splits;
 * returns len when there is none). */
size_t stk_key_stem(const char *key, size_t len);

/* The field for a raw record, which loses the others; NULL: none is suitable. */
const struct stk_field *stk_raw_field(const struct stk_sample *s);

/* ---- elements as text ------------------------------------------------------------------------ */

/* Writes element i of an ARRAY at out (STK_NUM_ROOM bytes) and returns its length: the shortest
 * text that reads back as the same number of its type. Booleans are 0 and 1. */
static inline size_t stk_value_text(const struct stk_value *v, uint64_t i, char *out)
{
    switch (v->dtype) {
    case STK_F64:
        return stk_num_f64(out, stk_value_f64(v, i));
    case STK_F32:
    case STK_F16:
        return stk_num_f32(out, (float)stk_value_f64(v, i));
    case STK_U64:
        return stk_num_u64(out, stk_le64((const uint8_t *)v->data + i * 8));
    default:
        return stk_num_i64(out, stk_value_i64(v, i));
    }
}

#endif
