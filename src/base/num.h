/*
 * num.h - decimal text to numbers and back, exactly and fast, whatever the locale.
 *
 * For text formats with millions of numbers (CSV, JSON): no allocation, no NUL needed, and the
 * written text is the shortest that reads back as the same number.
 */
#ifndef STK_BASE_NUM_H
#define STK_BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

enum stk_num {
    STK_NUM_NONE = 0, /* not a number */
    STK_NUM_INT,      /* digits that fit int64 */
    STK_NUM_BIG,      /* digits only, too many for int64 */
    STK_NUM_FLOAT,    /* a fraction, an exponent, nan, inf, infinity (any case), or -0 */
};

/* Parses all of p[0..n): sets *f for all kinds but NONE, *i for INT. Accepts a leading sign but no
 * space. Numbers of more than 400 characters are NONE. */
enum stk_num stk_num_parse(const char *p, size_t n, int64_t *i, double *f);

#define STK_NUM_ROOM 32 /* bytes of the longest number */

/* Write at out (no terminator) and return the length. A float always has a point or an exponent
 * ("1.0", "1e+20") so that it reads back as a float; others are nan, inf and -inf. */
size_t stk_num_f64(char *out, double v);
size_t stk_num_f32(char *out, float v);
size_t stk_num_i64(char *out, int64_t v);
size_t stk_num_u64(char *out, uint64_t v);

#endif
