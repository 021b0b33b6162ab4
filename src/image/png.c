/*
 * png.c - PNG through libpng: every kind of pixel to 8 bits, without alpha, gamma or profile, like
 * Pillow's convert("RGB"). Rows below the frame are not decompressed.
 */
#include "image/priv.h"

#include <string.h>

#ifdef STK_HAVE_PNG

#include <setjmp.h>
#include <png.h>

#define INFLATE_MAX 1032 /* most bytes from one byte of deflate data (zlib's manual) */

struct png {
    png_structp png;
    png_infop info;
    const struct stk_image_job *job;
    struct stk_image *im;
    size_t at; /* bytes of the file read */
    struct stk_frame frame;
    uint32_t width, height;
    int passes;
    struct stk_err *err;
    int code;
};

static _Noreturn void on_error(png_structp png, png_const_charp what)
{
    struct png *g = png_get_error_ptr(png);
    int code = strcmp(what, "Out of memory") == 0 ? STK_E_NOMEM : STK_E_CORRUPT;
    g->code = stk_err_set(g->err, code, NULL, -1, "PNG: %s", what);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp what)
{
    (void)png, (void)what;
}

static void read_bytes(png_structp png, png_bytep out, size_t n)
{
    struct png *g = png_get_io_ptr(png);
    if (n > g->job->n - g->at)
        png_error(png, "it ends before its last chunk: truncated");
    memcpy(out, g->job->p + g->at, n);
    g->at += n;
}

/* Text, profiles and the like are not even decompressed. */
static void ignore_ancillary(png_structp png)
{
#ifdef PNG_HANDLE_AS_UNKNOWN_SUPPORTED
    static const png_byte chunks[] = "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0oFFs\0pCAL\0pHYs\0"
                                     "sBIT\0sCAL\0sPLT\0sRGB\0sTER\0tEXt\0tIME\0zTXt";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, chunks, sizeof chunks / 5);
#else
    (void)png;
#endif
}

/* A size that deflate cannot reach is that of a truncated file, or wants to exhaust memory. */
static int check_length(struct png *g)
{
    uint64_t row = (uint64_t)png_get_rowbytes(g->png, g->info) + 1;
    if (row * g->height / INFLATE_MAX <= g->job->n)
        return 0;
    return stk_err_set(g->err, STK_E_CORRUPT, NULL, -1,
                       "PNG: %zu bytes cannot hold %u x %u pixels: truncated", g->job->n, g->width,
                       g->height);
}

static int read_header(struct png *g)
{
    png_set_read_fn(g->png, g, read_bytes);
    ignore_ancillary(g->png);
    png_read_info(g->png, g->info);
    g->width = png_get_image_width(g->png, g->info);
    g->height = png_get_image_height(g->png, g->info);
    int rc = stk_image_check_size("PNG", g->width, g->height, g->err);
    return rc == 0 ? check_length(g) : rc;
}

/* Asks for rows of 4-byte pixels, or of 1 byte if both the file and the op are gray. Returns the
 * bytes per pixel. */
static size_t choose_pixels(struct png *g)
{
    int type = png_get_color_type(g->png, g->info);
    bool color = type & PNG_COLOR_MASK_COLOR, gray = !color && g->job->op->channels == 1;
    png_set_strip_16(g->png);
    png_set_packing(g->png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(g->png);
    else if (!color)
        png_set_expand_gray_1_2_4_to_8(g->png);
    if (gray) {
        png_set_strip_alpha(g->png);
    } else {
        if (!color)
            png_set_gray_to_rgb(g->png);
        png_set_filler(g->png, 255, PNG_FILLER_AFTER); /* if there is no alpha */
    }
    g->passes = png_set_interlace_handling(g->png);
    png_read_update_info(g->png, g->info);
    return gray ? 1 : 4;
}

static void give_row(struct png *g, uint8_t *row, size_t pixel_bytes)
{
    struct stk_scaler *s = &g->im->sink;
    if (s->frame.channels == 1 && pixel_bytes == 4)
        stk_row_luma(row, row, g->width);
    stk_scaler_row(s, row);
}

/* The first row of an interlaced image is complete only after all passes. */
static int read_interlaced(struct png *g, size_t row_bytes, size_t pixel_bytes)
{
    struct stk_scaler *s = &g->im->sink;
    int rc = stk_room_need(&g->im->whole, (uint64_t)row_bytes * g->height, g->err);
    if (rc != 0)
        return rc;
    uint8_t *whole = g->im->whole.p;
    for (int pass = 0; pass < g->passes; pass++)
        for (uint32_t y = 0; y < g->height; y++)
            png_read_row(g->png, whole + y * row_bytes, NULL);
    for (uint32_t y = s->row_begin; y < s->row_end; y++) {
        memcpy(g->im->row.p, whole + y * row_bytes, row_bytes);
        give_row(g, g->im->row.p, pixel_bytes);
    }
    return 0;
}

static void read_rows(struct png *g, size_t pixel_bytes)
{
    struct stk_scaler *s = &g->im->sink;
    uint8_t *row = g->im->row.p;
    for (uint32_t y = 0; y < s->row_end; y++) {
        png_read_row(g->png, row, NULL);
        if (y >= s->row_begin)
            give_row(g, row, pixel_bytes);
    }
    /* A truncated file is bad whichever rows are needed. */
    bool whole = g->job->n >= 12 && memcmp(g->job->p + g->job->n - 8, "IEND", 4) == 0;
    for (uint32_t y = s->row_end; y < g->height && !whole; y++)
        png_read_row(g->png, row, NULL);
}

static int read_pixels(struct png *g)
{
    struct stk_scaler *s = &g->im->sink;
    int rc = stk_image_plan(g->job, g->width, g->height, &g->frame, g->err);
    if (rc == 0)
        rc = stk_scaler_begin(s, &g->frame, g->job->out, g->err);
    if (rc != 0)
        return rc;
    size_t pixel_bytes = choose_pixels(g), row_bytes = png_get_rowbytes(g->png, g->info);
    if (row_bytes != pixel_bytes * g->width)
        return stk_err_set(g->err, STK_E_UNSUPPORTED, NULL, -1, "PNG: unexpected kind of pixels");
    rc = stk_room_need(&g->im->row, (uint64_t)row_bytes + stk_scaler_slack(s), g->err);
    if (rc == 0 && g->passes > 1)
        rc = read_interlaced(g, row_bytes, pixel_bytes);
    else if (rc == 0)
        read_rows(g, pixel_bytes);
    return rc;
}

static int decode(struct png *g)
{
    int rc = read_header(g);
    return rc == 0 && g->job->op ? read_pixels(g) : rc;
}

/* libpng's error exit jumps here; nothing in this function changes meanwhile. */
static int guarded(struct png *g)
{
    return setjmp(png_jmpbuf(g->png)) ? g->code : decode(g);
}

static int run(struct png *g)
{
    int rc = STK_E_NOMEM;
    g->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, g, on_error, on_warning);
    g->info = g->png ? png_create_info_struct(g->png) : NULL;
    if (g->info)
        rc = guarded(g);
    else
        stk_err_set(g->err, rc, NULL, -1, "PNG: libpng cannot start");
    png_destroy_read_struct(&g->png, &g->info, NULL);
    return rc;
}

int stk_png_size(const uint8_t *p, size_t n, uint32_t *width, uint32_t *height, struct stk_err *err)
{
    struct stk_image_job job = {.p = p, .n = n};
    struct png g = {.job = &job, .err = err};
    int rc = run(&g);
    if (rc == 0) {
        *width = g.width;
        *height = g.height;
    }
    return rc;
}

int stk_png_decode(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err)
{
    struct png g = {.job = job, .im = im, .err = err};
    return run(&g);
}

#else

int stk_png_size(const uint8_t *p, size_t n, uint32_t *width, uint32_t *height, struct stk_err *err)
{
    (void)p, (void)n, (void)width, (void)height;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "this build cannot decode PNG: install %s and build again",
                       stk_image_missing(true));
}

int stk_png_decode(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err)
{
    (void)im;
    return stk_png_size(job->p, job->n, NULL, NULL, err);
}

#endif
