/*
 * types.h - one type per field of a dataset being written.
 *
 * Most formats record a field's type once. If samples come from formats in which each value has its
 * own type (JSON, Examples, MXNet's labels), all samples are examined first (note, and merge for
 * several threads), then one type that holds every value without loss is chosen (settle), and every
 * sample is converted to it (convert). A field without such a type is refused.
 *
 *   integers and floats    the smallest type that holds all; refused if none does
 *   text and bytes         bytes
 *   bytes, and lists of    lists
 *   json and text, numbers json
 *   [] and arrays          arrays, one of them without elements, if the format has shapes
 *   null and anything      null if the format has it; json with text; else refused
 */
#ifndef STK_FORMAT_CODEC_TYPES_H
#define STK_FORMAT_CODEC_TYPES_H

#include "format/format.h"
#include "format/sample.h"

#define STK_TYPES_SEEN 20 /* kinds distinguished, each array type counted */

struct stk_type {
    char *name;
    size_t name_len;
    uint32_t seen;                  /* bit k: kind k of types.c */
    uint64_t first[STK_TYPES_SEEN]; /* the first sample of each */
    uint64_t samples;               /* that have the field */
    uint64_t largest;               /* magnitude of 64-bit integers */
    bool nonfinite, empty_text;
    uint8_t ndim, other_ndim; /* of the first array, and of the first that differs */
    bool shapes_differ, tails_differ;
    uint64_t shape_at, other_at;
    uint64_t dim[STK_MAX_NDIM], other_dim[STK_MAX_NDIM];

    /* Decided by settle. */
    uint8_t as; /* enum in types.c */
    uint8_t dtype;
    bool fill;     /* null if missing */
    uint32_t only; /* lenient: the kinds accepted, 0: all */
};

struct stk_types {
    struct stk_type *type;
    size_t ntypes, cap;
    uint32_t *slot; /* hash table of numbers from 1, by name */
    size_t nslots;
    uint64_t samples;
    bool crowded; /* more names than the table holds */
    bool active;  /* there is something to convert */
};

void stk_types_release(struct stk_types *t);
/* Notes the types of sample number `at`. */
int stk_types_note(struct stk_types *t, const struct stk_sample *s, uint64_t at,
                   struct stk_err *err);
/* Adds the notes of another table. */
int stk_types_merge(struct stk_types *t, const struct stk_types *from, struct stk_err *err);

/* Writes a name of sample number `at` for messages to `to`. */
typedef void stk_types_name_fn(void *user, uint64_t at, char *to, size_t n);
/* The format to settle the types for. */
struct stk_types_target {
    unsigned holds;    /* enum stk_holds of the format written */
    const char *title; /* its name */
    bool lenient;      /* refuse samples that do not fit only when they are converted */
    stk_types_name_fn *name;
    void *user;
};
int stk_types_settle(struct stk_types *t, const struct stk_types_target *target,
                     struct stk_err *err);
/* The type of a field, or NULL. */
const struct stk_type *stk_types_find(const struct stk_types *t, const char *name, size_t len);
/* The settled kind: enum stk_kind, 0 if all are null; dtype: of an array. */
uint8_t stk_type_kind(const struct stk_type *y, uint8_t *dtype);
bool stk_type_has_null(const struct stk_type *y);
/* Converts a sample to the types; new values go into its arena. */
int stk_types_convert(const struct stk_types *t, struct stk_sample *s, struct stk_err *err);

#endif
