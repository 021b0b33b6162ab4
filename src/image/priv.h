/*
 * priv.h - what the image*.c files share: which part of an image is wanted (a frame), and the
 * sink that takes decoded rows and leaves resized pixels. Decoders know file formats, the sink
 * knows resizing and layout; image.c decides the frame.
 */
#ifndef STK_IMAGE_PRIV_H
#define STK_IMAGE_PRIV_H

#include "image/image.h"
#include "image/rows.h"

#define STK_IMAGE_MAX_PIXELS (UINT64_C(1) << 28)
#define STK_IMAGE_MAX_STORED 1000000u /* largest stored side; libpng's own limit */
#define STK_IMAGE_MAX_SIDE   16384u   /* largest requested side */

/* One direction of a frame. Output i has its centre at lo + at + (first + i + 0.5) * step, in
 * source pixels; the pixels it is made of are taken from [lo, lo + n) only. */
struct stk_axis {
    uint32_t lo, n, out;
    double at, first, step;
};

struct stk_frame {
    struct stk_axis x, y;
    bool resized; /* false: the whole image, pixel by pixel */
    bool flip;
    bool nchw;
    uint32_t channels;
};

/* The frame of op and key for an image of this size. */
void stk_image_frame(const struct stk_image_op *op, uint64_t key, uint32_t width, uint32_t height,
                     struct stk_frame *f);
/* The same frame over an image shrunk to 1/shrink, with width x height pixels. */
void stk_image_shrink(struct stk_frame *f, uint32_t shrink, uint32_t width, uint32_t height);

/* Memory that only grows; growing zeroes it and loses its contents. */
struct stk_room {
    void *p;
    size_t size;
};
int stk_room_need(struct stk_room *r, uint64_t size, struct stk_err *err);

/* Takes the rows of an image from top to bottom and writes the requested pixels to out. */
struct stk_scaler {
    struct stk_frame frame;
    uint32_t row_begin, row_end; /* rows to be given, in this order */
    uint32_t col_begin, col_end; /* columns of them that are used */
    /* private */
    const struct stk_row_ops *ops;
    struct stk_weights x, y;
    struct stk_room x_room, y_room, ring_room;
    uint8_t *ring, *line; /* horizontally resized rows; one row of output */
    size_t stride;        /* of a row of the ring */
    uint32_t row, done;   /* rows taken, rows of output written */
    uint8_t *out;
};

/* Prepares for the rows [row_begin, row_end) of a frame; out has room for all of it. */
int stk_scaler_begin(struct stk_scaler *s, const struct stk_frame *f, uint8_t *out,
                     struct stk_err *err);
/* Says that rows will begin with source column col <= col_begin. Once, before the first row. */
void stk_scaler_columns(struct stk_scaler *s, uint32_t col);
/* Meaningless bytes at the end of a row that may be read. */
size_t stk_scaler_slack(const struct stk_scaler *s);
/* The next row: pixels of 4 bytes (R, G, B, anything), or of 1 where one channel is asked for. */
void stk_scaler_row(struct stk_scaler *s, const uint8_t *row);
void stk_scaler_release(struct stk_scaler *s);

/* A tone as a table: the values of 0 to 255 by channel. */
struct stk_tones {
    struct stk_tone of; /* all zero: none was made yet */
    union {
        float f32[3][256];
        uint16_t f16[3][256];
    } value;
};

/* n pixels of `channels` values, interleaved or in planes, to the tone asked for. */
void stk_tone_put(struct stk_tones *t, const struct stk_image_op *op, const uint8_t *from, void *to,
                  size_t pixels);

struct stk_image {
    struct stk_scaler sink;
    struct stk_tones tones;
    struct stk_room bytes; /* an image before its tone */
    struct stk_room row;   /* one decoded row */
    struct stk_room whole; /* an interlaced image, until it is complete */
};

/* What a decoder is asked to do. */
struct stk_image_job {
    const uint8_t *p;
    size_t n;
    const struct stk_image_op *op;
    uint64_t key;
    uint8_t *out;
    size_t out_size;
};

/* Frame, sizes and sink for an image whose header says width x height. */
int stk_image_plan(const struct stk_image_job *job, uint32_t width, uint32_t height,
                   struct stk_frame *f, struct stk_err *err);
/* STK_E_CORRUPT or _UNSUPPORTED when no sane image is that large. */
int stk_image_check_size(const char *kind, uint64_t width, uint64_t height, struct stk_err *err);

int stk_jpeg_size(const uint8_t *p, size_t n, uint32_t *width, uint32_t *height,
                  struct stk_err *err);
int stk_jpeg_decode(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err);
int stk_png_size(const uint8_t *p, size_t n, uint32_t *width, uint32_t *height,
                 struct stk_err *err);
int stk_png_decode(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err);

#endif
