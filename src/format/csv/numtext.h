/* numtext.h - elements of arrays as decimal text, for the text formats (CSV, JSON). */
#ifndef STK_FORMAT_CSV_NUMTEXT_H
#define STK_FORMAT_CSV_NUMTEXT_H

#include "base/num.h"
#include "format/sample.h"

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
