/*
 * rows.h - the inner loops over rows of pixels. Two sets, plain C and AVX2, give the same
 * bytes: the result must not depend on the machine.
 */
#ifndef STK_IMAGE_ROWS_H
#define STK_IMAGE_ROWS_H

#include <stddef.h>
#include <stdint.h>

#define STK_WEIGHT_BITS 22 /* 32 - 8 of the pixel - 2 to spare, as in Pillow */
#define STK_ROW_SLACK   32 /* bytes past the end of a row that loops may read and write */

/* Weights of one direction: output i is the sum of coef[i * taps + k] * source[start[i] + k] over
 * k < count[i]. The tables go on to a multiple of 4 outputs, with weights of 0. */
struct stk_weights {
    uint32_t *start, *count;
    int32_t *coef;  /* STK_WEIGHT_BITS of fraction; 0 from count[i] on */
    int16_t *split; /* the same in the layout for `across`; room for 8 per coef */
    uint32_t taps;  /* 2, or a multiple of 4 */
    uint32_t out;
};

struct stk_row_ops {
    void (*prepare)(struct stk_weights *w); /* makes split from coef, before `across` */
    /* Pixels of 4 bytes to pixels of 3. Reads taps pixels past the last; writes STK_ROW_SLACK. */
    void (*across)(const uint8_t *row, const struct stk_weights *w, uint8_t *out);
    /* n bytes of output i from rows of a ring: row r is at ring + r % w->taps * stride. Reads and
     * writes STK_ROW_SLACK. */
    void (*down)(const uint8_t *ring, size_t stride, const struct stk_weights *w, uint32_t i,
                 uint8_t *out, size_t n);
    void (*pack)(const uint8_t *rgbx, uint8_t *rgb, size_t pixels); /* exactly 3 * pixels bytes */
    /* RGB to three rows, plane bytes apart. */
    void (*split)(const uint8_t *rgb, uint8_t *out, size_t plane, size_t pixels);
};

extern const struct stk_row_ops stk_row_ops_c;
const struct stk_row_ops *stk_row_ops(void); /* the fastest here */

/* One channel: rare enough to be plain C only. */
void stk_row_across_gray(const uint8_t *row, const struct stk_weights *w, uint8_t *out);
/* Pixels of 4 bytes to gray, like Pillow's convert("L"); may work in place. */
void stk_row_luma(const uint8_t *rgbx, uint8_t *gray, size_t pixels);

#endif
