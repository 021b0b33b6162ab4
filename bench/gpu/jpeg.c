/*
 * jpeg.c - makes JPEGs for the GPU benchmark, and decodes them where Python has nothing that can:
 * 500x375, about 110 KB, with the spectrum of photographs (the finer the detail, the weaker).
 * Built by resnet50.py as a shared library; the machine is known to have libjpeg and little else.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "../../src/base/random.h" /* built without the project's include paths */

#define WIDTH   500
#define HEIGHT  375
#define SIDE    2048 /* of the texture that images are windows of; a power of two */
#define OCTAVES 8
#define QUALITY 93

static float noise_at(uint64_t seed, unsigned x, unsigned y)
{
    uint64_t state = seed ^ ((uint64_t)x << 32 | y);
    return (float)(stk_random_next(&state) >> 40) / (1u << 24) - 0.5f;
}

/* Adds noise of one octave: random heights on a grid of `step` pixels, straight lines between. */
static void add_octave(float *texture, uint64_t seed, unsigned step, float strength)
{
    for (unsigned y = 0; y < SIDE; y++) {
        float fy = (float)(y % step) / (float)step;
        unsigned top = y / step, below = (top + 1) % (SIDE / step);
        for (unsigned gx = 0; gx < SIDE / step; gx++) {
            unsigned right = (gx + 1) % (SIDE / step);
            float a = noise_at(seed, gx, top) * (1 - fy) + noise_at(seed, gx, below) * fy;
            float b = noise_at(seed, right, top) * (1 - fy) + noise_at(seed, right, below) * fy;
            for (unsigned i = 0; i < step; i++) {
                float fx = (float)i / (float)step;
                texture[(size_t)y * SIDE + gx * step + i] += strength * (a * (1 - fx) + b * fx);
            }
        }
    }
}

static float *make_texture(void)
{
    static const float strength[OCTAVES] = {120, 100, 80, 65, 55, 48, 44, 40};
    float *t = calloc(3u * SIDE * SIDE, sizeof *t);
    for (unsigned c = 0; t && c < 3; c++)
        for (unsigned o = 0; o < OCTAVES; o++) {
            /* Channels share their fine detail, as in photographs. */
            uint64_t seed = (o < 4 ? c : 0) * 1000u + o;
            add_octave(t + (size_t)c * SIDE * SIDE, seed, (SIDE / 16) >> o, strength[o]);
        }
    return t;
}

static void fill(uint8_t *rgb, const float *texture, uint64_t *state)
{
    unsigned x0 = (unsigned)(stk_random_next(state) % (SIDE - WIDTH));
    unsigned y0 = (unsigned)(stk_random_next(state) % (SIDE - HEIGHT));
    float gain = 0.7f + (float)(stk_random_next(state) % 1000) / 1700.0f;

    for (unsigned c = 0; c < 3; c++) {
        float base = 80.0f + (float)(stk_random_next(state) % 96);
        const float *from = texture + ((size_t)c * SIDE + y0) * SIDE + x0;
        for (unsigned y = 0; y < HEIGHT; y++)
            for (unsigned x = 0; x < WIDTH; x++) {
                float v = base + gain * from[(size_t)y * SIDE + x];
                rgb[((size_t)y * WIDTH + x) * 3 + c] = (uint8_t)(v < 0.0f     ? 0.0f
                                                                 : v > 255.0f ? 255.0f
                                                                              : v);
            }
    }
}

static int write_jpeg(const char *path, const uint8_t *rgb)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr e;
    FILE *f = fopen(path, "wbe");

    if (!f)
        return -1;
    c.err = jpeg_std_error(&e);
    jpeg_create_compress(&c);
    jpeg_stdio_dest(&c, f);
    c.image_width = WIDTH;
    c.image_height = HEIGHT;
    c.input_components = 3;
    c.in_color_space = JCS_RGB;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, QUALITY, TRUE);
    jpeg_start_compress(&c, TRUE);
    while (c.next_scanline < HEIGHT) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)c.next_scanline * WIDTH * 3);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    return fclose(f);
}

/* Images [first, first + count) into FOLDER/class_NNN/NNNNNN.jpg; the folders are there. */
int make_images(const char *folder, unsigned first, unsigned count, unsigned classes)
{
    float *texture = make_texture();
    uint8_t *rgb = malloc(WIDTH * HEIGHT * 3);
    int rc = texture && rgb ? 0 : -1;
    char path[4096];

    for (unsigned i = first; rc == 0 && i < first + count; i++) {
        uint64_t state = i;
        snprintf(path, sizeof path, "%s/class_%03u/%06u.jpg", folder, i % classes, i);
        fill(rgb, texture, &state);
        rc = write_jpeg(path, rgb);
    }
    free(texture);
    free(rgb);
    return rc;
}

struct trap {
    struct jpeg_error_mgr manager;
    jmp_buf back;
};

static void spring(j_common_ptr c)
{
    longjmp(((struct trap *)c->err)->back, 1);
}

/* Decodes to RGB into out (room bytes); width and height are set. */
int decode_rgb(const uint8_t *in, size_t n, uint8_t *out, size_t room, int *width, int *height)
{
    struct jpeg_decompress_struct d;
    struct trap trap;

    d.err = jpeg_std_error(&trap.manager);
    trap.manager.error_exit = spring;
    if (setjmp(trap.back)) {
        jpeg_destroy_decompress(&d);
        return -1;
    }
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, (unsigned char *)(uintptr_t)in, n);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    *width = (int)d.output_width;
    *height = (int)d.output_height;
    if ((size_t)d.output_width * d.output_height * 3 > room)
        spring((j_common_ptr)&d);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = out + (size_t)d.output_scanline * d.output_width * 3;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return 0;
}
