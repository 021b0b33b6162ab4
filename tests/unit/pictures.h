/*
 * pictures.h - JPEG and PNG files made in memory by libjpeg and libpng, and a test picture that
 * shows where each of its pixels came from: a slope in each direction and fine noise on top.
 */
#ifndef PICTURES_H
#define PICTURES_H

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <jpeglib.h>
#include <png.h>

struct picture {
    uint32_t width, height;
    uint8_t *rgb;
};

static inline struct picture picture_make(uint32_t width, uint32_t height, uint32_t seed)
{
    struct picture p = {width, height, malloc((size_t)width * height * 3)};
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *px = p.rgb + ((size_t)y * width + x) * 3;
            seed = seed * 1664525u + 1013904223u;
            px[0] = (uint8_t)(x * 200 / width + (seed >> 28));
            px[1] = (uint8_t)(y * 200 / height + (seed >> 24 & 31));
            px[2] = (uint8_t)((x / 8 + y / 8) % 2 * 60 + 90 + (seed >> 20 & 15));
        }
    return p;
}

struct jpeg_kind {
    const char *name;
    int components;      /* 1, 3 or 4; 4: the picture's channels and one that is their mean */
    J_COLOR_SPACE space; /* what is stored */
    int h, v;            /* how many times coarser colours are stored */
    bool progressive;
    int restart; /* rows of blocks between restart markers; 0: none */
};

/* Caller frees with free(). */
static inline uint8_t *picture_jpeg(const struct picture *p, const struct jpeg_kind *k, size_t *n)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    unsigned long size = 0;
    uint8_t *row = malloc((size_t)p->width * 4);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, &size);
    c.image_width = p->width;
    c.image_height = p->height;
    c.input_components = k->components;
    c.in_color_space = k->components == 1 ? JCS_GRAYSCALE : k->components == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_colorspace(&c, k->space);
    jpeg_set_quality(&c, 90, TRUE);
    c.comp_info[0].h_samp_factor = k->h;
    c.comp_info[0].v_samp_factor = k->v;
    c.restart_in_rows = k->restart;
    if (k->progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < c.image_height) {
        const uint8_t *from = p->rgb + (size_t)c.next_scanline * p->width * 3;
        for (uint32_t x = 0; x < p->width; x++)
            for (int i = 0; i < k->components; i++)
                row[x * (uint32_t)k->components + (uint32_t)i] =
                    i < 3 ? from[3 * x + (uint32_t)i]
                          : (uint8_t)((from[3 * x] + from[3 * x + 1] + from[3 * x + 2]) / 3);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    *n = size;
    return out;
}

static inline void picture_png_write(png_structp png, png_bytep p, size_t n)
{
    stk_buf_put(png_get_io_ptr(png), p, n);
}

/* Caller frees with stk_buf_release(). */
static inline struct stk_buf picture_png(const struct picture *p, bool interlaced)
{
    struct stk_buf out = STK_BUF_INIT;
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_bytep *rows = malloc(p->height * sizeof *rows);
    for (uint32_t y = 0; y < p->height; y++)
        rows[y] = p->rgb + (size_t)y * p->width * 3;
    png_set_write_fn(png, &out, picture_png_write, NULL);
    png_set_compression_level(png, 1);
    png_set_filter(png, 0, PNG_FILTER_NONE);
    png_set_IHDR(png, info, p->width, p->height, 8, PNG_COLOR_TYPE_RGB,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
                 PNG_FILTER_TYPE_BASE);
    png_write_info(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    free(rows);
    return out;
}

#endif
