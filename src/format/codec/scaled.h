/*
 * scaled.h - arrays stored as other numbers than they mean, as netCDF's conventions (CF) pack them:
 * value = stored * scale + offset, and some stored values mean that there is none.
 *
 * Every file may have its own numbers, so they are no part of a field's name and type: the index
 * keeps a record of each packing in its context, and a field's codec names the record.
 */
#ifndef STK_FORMAT_CODEC_SCALED_H
#define STK_FORMAT_CODEC_SCALED_H

#include "format/format.h"

#define STK_SCALED_FILLS 4u

/* A record of the context, which is an array of them, ascending by name. In the index as it is. */
struct stk_scaled {
    char name[16]; /* "scaled:" and a hash of the rest */
    char tile[16]; /* the codec of the stored values (tile.c), or "" */
    uint8_t stored, nfill; /* stored: enum stk_dtype */
    uint8_t pad[6];
    double scale, offset;
    uint64_t fill[STK_SCALED_FILLS]; /* stored values that mean nan: as int64, or as double */
};

/* Names the record: call it when all else is set. spec: the field, for its shape. */
void stk_scaled_name(struct stk_scaled *s, const struct stk_field_spec *spec);
/* Serves as stk_format's merge_context: the records of both. */
int stk_scaled_merge(const char *a, size_t a_len, const char *b, size_t b_len, struct stk_buf *out,
                     struct stk_err *err);

#endif
