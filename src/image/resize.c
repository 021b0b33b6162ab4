/*
 * resize.c - the sink of decoded rows: antialiased bilinear resize in two passes (across, then
 * down), flip and layout. Weights are computed and rounded as in Pillow, so that the pixels are the
 * same. Keeps only as many rows as one row of output needs.
 */
#include "image/priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_MAX (UINT64_C(1) << 30) /* no sane resize needs more */

int stk_room_need(struct stk_room *r, uint64_t size, struct stk_err *err)
{
    if (size <= r->size)
        return 0;
    void *p = size <= ROOM_MAX ? calloc(1, size) : NULL;
    if (!p)
        return stk_err_nomem(err, size);
    free(r->p);
    r->p = p;
    r->size = size;
    return 0;
}

/* ---- weights ----------------------------------------------------------------------------- */

/* Weights of one output, to coef; *start: the first pixel with a weight. Returns their number. */
static uint32_t weigh(const struct stk_axis *a, uint32_t i, double *weight, int32_t *coef,
                      uint32_t *start)
{
    double reach = a->step < 1 ? 1 : a->step, centre = a->at + (a->first + i + 0.5) * a->step;
    double low = centre - reach + 0.5, high = centre + reach + 0.5;
    uint32_t begin = low < 0 ? 0 : (uint32_t)low, end = high > a->n ? a->n : (uint32_t)high;
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t x = begin; x < end; x++) {
        double away = fabs((x - centre + 0.5) * (1 / reach));
        double w = away < 1 ? 1 - away : 0;
        if (w == 0 && n == 0) /* leading zeros need not be multiplied */
            begin = x + 1;
        else
            weight[n++] = w;
        sum += w;
    }
    while (n && weight[n - 1] == 0)
        n--;
    if (n == 0) { /* only after unlucky rounding */
        begin = begin < a->n ? begin : a->n - 1;
        weight[n++] = sum = 1;
    }
    for (uint32_t k = 0; k < n; k++)
        coef[k] = (int32_t)(0.5 + weight[k] / sum * (1 << STK_WEIGHT_BITS));
    *start = a->lo + begin;
    return n;
}

/* Moves rows of coef from `wide` apart to w->taps apart, and fills tables up to a multiple of
 * four. */
static void tighten(struct stk_weights *w, uint32_t wide)
{
    uint32_t padded = (w->out + 3) / 4 * 4;
    for (uint32_t i = 1; i < w->out; i++)
        memmove(w->coef + (size_t)i * w->taps, w->coef + (size_t)i * wide,
                w->taps * sizeof *w->coef);
    memset(w->coef + (size_t)w->out * w->taps, 0,
           (size_t)(padded - w->out) * w->taps * sizeof *w->coef);
    for (uint32_t i = w->out; i < padded; i++) {
        w->start[i] = w->start[w->out - 1];
        w->count[i] = 0;
    }
}

/* Tables for a->out outputs of up to `wide` weights, the weights all 0; *weight: room for `wide`.
 */
static int make_room(const struct stk_axis *a, uint32_t wide, struct stk_weights *w,
                     struct stk_room *room, double **weight, struct stk_err *err)
{
    uint32_t padded = (a->out + 3) / 4 * 4;
    uint64_t coefs = (uint64_t)wide * padded;
    int rc = stk_room_need(room,
                           coefs * (sizeof *w->coef + 8 * sizeof *w->split) +
                               wide * sizeof **weight + padded * 2 * sizeof *w->start,
                           err);
    if (rc != 0)
        return rc;
    w->split = room->p;
    *weight = (double *)(w->split + 8 * coefs);
    w->coef = (int32_t *)(*weight + wide);
    w->start = (uint32_t *)(w->coef + coefs);
    w->count = w->start + padded;
    w->out = a->out;
    memset(w->coef, 0, coefs * sizeof *w->coef);
    return 0;
}

/* [*begin, *end): the pixels that any output needs. mirrored: the last output comes first. */
static int make_weights(const struct stk_axis *a, bool mirrored, struct stk_weights *w,
                        struct stk_room *room, uint32_t *begin, uint32_t *end, struct stk_err *err)
{
    /* An output reaches at most twice the step, and one more; then rounded to a multiple of
     * four. */
    uint32_t wide = ((uint32_t)ceil(a->step < 1 ? 1 : a->step) + 2) / 2 * 4, taps = 1;
    double *weight;
    int rc = make_room(a, wide, w, room, &weight, err);
    if (rc != 0)
        return rc;
    *begin = UINT32_MAX;
    *end = 0;
    for (uint32_t i = 0; i < a->out; i++) {
        uint32_t at = mirrored ? a->out - 1 - i : i;
        uint32_t n = weigh(a, i, weight, w->coef + (size_t)at * wide, &w->start[at]);
        uint32_t start = w->start[at];
        w->count[at] = n;
        taps = n > taps ? n : taps;
        *begin = start < *begin ? start : *begin;
        *end = start + n > *end ? start + n : *end;
    }
    w->taps = taps <= 2 ? 2 : (taps + 3) / 4 * 4;
    tighten(w, wide);
    return 0;
}

/* ---- the sink ---------------------------------------------------------------------------- */

static int begin_resize(struct stk_scaler *s, struct stk_err *err)
{
    const struct stk_frame *f = &s->frame;
    int rc = make_weights(&f->x, f->flip, &s->x, &s->x_room, &s->col_begin, &s->col_end, err);
    if (rc == 0)
        rc = make_weights(&f->y, false, &s->y, &s->y_room, &s->row_begin, &s->row_end, err);
    if (rc != 0)
        return rc;
    s->ops->prepare(&s->x);
    s->stride = ((size_t)f->x.out * f->channels + STK_ROW_SLACK + 63) / 64 * 64;
    rc = stk_room_need(&s->ring_room, (uint64_t)s->stride * (s->y.taps + 1), err);
    s->line = s->ring_room.p;
    s->ring = rc == 0 ? s->line + s->stride : NULL;
    return rc;
}

int stk_scaler_begin(struct stk_scaler *s, const struct stk_frame *f, uint8_t *out,
                     struct stk_err *err)
{
    s->frame = *f;
    s->ops = stk_row_ops();
    s->out = out;
    s->done = 0;
    if (f->resized) {
        int rc = begin_resize(s, err);
        s->row = s->row_begin;
        return rc;
    }
    s->row = s->row_begin = s->col_begin = 0;
    s->row_end = f->y.n;
    s->col_end = f->x.n;
    return stk_room_need(&s->ring_room, (uint64_t)f->x.n * 3 + STK_ROW_SLACK, err);
}

void stk_scaler_columns(struct stk_scaler *s, uint32_t col)
{
    if (col && s->frame.resized)
        for (uint32_t i = 0; i < (s->x.out + 3) / 4 * 4; i++)
            s->x.start[i] -= col;
}

size_t stk_scaler_slack(const struct stk_scaler *s)
{
    return STK_ROW_SLACK + (s->frame.resized ? (size_t)s->x.taps * 4 : 0);
}

/* Puts a finished row of interleaved pixels to its place in the layout. */
static void put_line(struct stk_scaler *s, const uint8_t *line)
{
    const struct stk_frame *f = &s->frame;
    size_t width = f->x.out, plane = width * f->y.out, row = s->done++;
    if (f->nchw && f->channels == 3)
        s->ops->split(line, s->out + row * width, plane, width);
    else
        memcpy(s->out + row * width * f->channels, line, width * f->channels);
}

static void mirror(uint8_t *line, size_t width, size_t channels)
{
    if (width < 2)
        return;
    for (uint8_t *a = line, *b = line + (width - 1) * channels; a < b; b -= 2 * channels)
        for (size_t c = 0; c < channels; c++, a++, b++) {
            uint8_t v = *a;
            *a = *b;
            *b = v;
        }
}

static void plain_row(struct stk_scaler *s, const uint8_t *row)
{
    const struct stk_frame *f = &s->frame;
    uint8_t *line = s->ring_room.p;
    if (f->channels == 3)
        s->ops->pack(row, line, f->x.n);
    else
        memcpy(line, row, f->x.n);
    if (f->flip)
        mirror(line, f->x.n, f->channels);
    put_line(s, line);
}

void stk_scaler_row(struct stk_scaler *s, const uint8_t *row)
{
    const struct stk_frame *f = &s->frame;
    if (!f->resized) {
        plain_row(s, row);
        return;
    }
    uint8_t *narrow = s->ring + s->row % s->y.taps * s->stride;
    if (f->channels == 3)
        s->ops->across(row, &s->x, narrow);
    else
        stk_row_across_gray(row, &s->x, narrow);
    s->row++;
    while (s->done < f->y.out && s->y.start[s->done] + s->y.count[s->done] <= s->row) {
        s->ops->down(s->ring, s->stride, &s->y, s->done, s->line, (size_t)f->x.out * f->channels);
        put_line(s, s->line);
    }
}

void stk_scaler_release(struct stk_scaler *s)
{
    free(s->x_room.p);
    free(s->y_room.p);
    free(s->ring_room.p);
}
