/*
 * jpeg.c - JPEG through libjpeg: makes pixels only of the rows and columns that a frame needs
 * (libjpeg-turbo), and shrinks large images in the DCT domain. Damage that libjpeg would paint over
 * is an error here: the user of the loader decides what happens to bad samples.
 */
#include "image/priv.h"

#include <string.h>

#ifdef STK_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>

/* libjpeg-turbo writes aligned rows past the cache, and reading them back at once would wait for
 * memory: so rows begin at an odd address. */
#define ODD 4

/* jpeg_crop_scanline() and jpeg_skip_scanlines() came with 1.5 and gave wrong rows or none for some
 * files until 1.5.3; skipping in progressive files could hang until 2.0. */
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 1005003
#define PARTIAL             1
#define PARTIAL_PROGRESSIVE (LIBJPEG_TURBO_VERSION_NUMBER >= 2000000)
#else
#define PARTIAL 0
#endif

#ifdef JCS_EXTENSIONS
#define COLOR_RGBX JCS_EXT_RGBX
#else
#define COLOR_RGBX JCS_RGB
#endif

#define MAX_SCANS  100        /* progressive files have about ten; each may cost a whole pass */
#define MAX_MEMORY (1L << 30) /* for libjpeg, which keeps progressive images whole */

struct jpeg {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    const struct stk_image_job *job;
    struct stk_image *im;
    struct stk_frame frame;
    bool direct; /* rows need no processing: libjpeg writes them to their place */
    struct stk_err *err;
    int code;
};

/* ---- errors ------------------------------------------------------------------------------ */

static int code_of(int message)
{
    switch (message) {
    case JERR_OUT_OF_MEMORY:
    case JERR_NO_BACKING_STORE:
        return STK_E_NOMEM;
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOT_COMPILED:
        return STK_E_UNSUPPORTED;
    default:
        return STK_E_CORRUPT;
    }
}

static _Noreturn void leave(struct jpeg *j, int code, const char *what)
{
    j->code = stk_err_set(j->err, code, NULL, -1, "JPEG: %s", what);
    longjmp(j->back, 1);
}

static void on_error(j_common_ptr d)
{
    char text[JMSG_LENGTH_MAX];
    d->err->format_message(d, text);
    leave(d->client_data, code_of(d->err->msg_code), text);
}

/* The warnings of libjpeg that mean made-up pixels. */
static void on_message(j_common_ptr d, int level)
{
    switch (level < 0 ? d->err->msg_code : 0) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
#if JPEG_LIB_VERSION >= 70 || defined(LIBJPEG_TURBO_VERSION_NUMBER)
    case JWRN_ARITH_BAD_CODE:
#endif
        on_error(d);
        break;
    default:
        break;
    }
}

static void on_progress(j_common_ptr d)
{
    if (((j_decompress_ptr)d)->input_scan_number > MAX_SCANS)
        leave(d->client_data, STK_E_UNSUPPORTED, "more than 100 scans");
}

/* ---- input: all of it is there ----------------------------------------------------------- */

static void source_nothing(j_decompress_ptr d)
{
    (void)d;
}

static boolean source_end(j_decompress_ptr d)
{
    leave(d->client_data, STK_E_CORRUPT, "it ends before its last row: truncated");
}

static void source_skip(j_decompress_ptr d, long n)
{
    if (n <= 0)
        return;
    if ((unsigned long)n > d->src->bytes_in_buffer)
        source_end(d);
    d->src->next_input_byte += n;
    d->src->bytes_in_buffer -= (size_t)n;
}

/* ---- header ------------------------------------------------------------------------------ */

/* A block of 8 x 8 samples takes at least a bit. A file that claims more is truncated, or wants to
 * exhaust memory. (Arithmetic coding can do better than a bit.) */
static int check_length(struct jpeg *j)
{
    uint64_t blocks = 0, per_byte = j->d.arith_code ? 128 : 8;
    for (int i = 0; i < j->d.num_components; i++)
        blocks += (uint64_t)j->d.comp_info[i].width_in_blocks * j->d.comp_info[i].height_in_blocks;
    if (blocks / per_byte <= j->job->n)
        return 0;
    return stk_err_set(j->err, STK_E_CORRUPT, NULL, -1,
                       "JPEG: %zu bytes cannot hold %u x %u pixels: truncated", j->job->n,
                       j->d.image_width, j->d.image_height);
}

static int read_header(struct jpeg *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    jpeg_create_decompress(d);
    d->mem->max_memory_to_use = MAX_MEMORY;
    d->src = &j->source;
    jpeg_read_header(d, TRUE);
    int rc = stk_image_check_size("JPEG", d->image_width, d->image_height, j->err);
    if (rc == 0)
        rc = check_length(j);
    if (rc == 0 && jpeg_has_multiple_scans(d))
        d->progress = &j->progress;
    return rc;
}

/* ---- pixels ------------------------------------------------------------------------------ */

/* Computes gray from red, green and blue like Pillow's convert("L"). The Y of YCbCr, which libjpeg
 * offers for less, differs: colours outside of RGB are clipped. */
static int choose_colors(struct jpeg *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    switch (d->jpeg_color_space) {
    case JCS_GRAYSCALE:
        d->out_color_space = j->frame.channels == 1 ? JCS_GRAYSCALE
                             : j->direct            ? JCS_RGB
                                                    : COLOR_RGBX;
        return 0;
    case JCS_YCbCr:
    case JCS_RGB:
        d->out_color_space = j->direct ? JCS_RGB : COLOR_RGBX;
        return 0;
    case JCS_CMYK:
    case JCS_YCCK:
        j->direct = false;
        d->out_color_space = JCS_CMYK;
        return 0;
    default:
        return stk_err_set(j->err, STK_E_UNSUPPORTED, NULL, -1,
                           "JPEG: %d channels of no known colour space", d->num_components);
    }
}

/* Shrinks as long as two pixels per output pixel remain: as near to a plain resize as Pillow's
 * reducing_gap=2 (+-2 for nearly all pixels). Entropy decoding, which shrinking does not save,
 * dominates, so the last halving would gain little. Other eighths have no fast inverse DCT: 5/8 to
 * 7/8 take longer than 8/8. */
static void choose_scale(struct jpeg *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    double step = j->frame.x.step < j->frame.y.step ? j->frame.x.step : j->frame.y.step;
    unsigned shrink = !j->frame.resized || step < 4 ? 1 : step < 8 ? 2 : step < 16 ? 4 : 8;
    d->scale_num = 1;
    d->scale_denom = shrink;
    jpeg_calc_output_dimensions(d);
    if (shrink > 1 && d->output_width < d->image_width)
        stk_image_shrink(&j->frame, shrink, d->output_width, d->output_height);
}

/* Cuts off unneeded columns; returns the first remaining one. Keeps one more on either side, since
 * smooth upsampling of colours uses neighbours. */
static uint32_t cut_columns(struct jpeg *j)
{
#if PARTIAL
    struct jpeg_decompress_struct *d = &j->d;
    const struct stk_scaler *s = &j->im->sink;
    JDIMENSION begin = s->col_begin ? s->col_begin - 1 : 0, width = d->output_width - begin;
    for (int i = 0; i < d->num_components; i++) /* rarer factors failed until 3.0 */
        if (d->comp_info[i].h_samp_factor > 2 || d->comp_info[i].v_samp_factor > 2)
            return 0;
    if (s->col_end + 2 - begin < width)
        width = s->col_end + 2 - begin;
    if (width == d->output_width)
        return 0;
    jpeg_crop_scanline(d, &begin, &width);
    return begin;
#else
    (void)j;
    return 0;
#endif
}

static void skip_rows(struct jpeg *j, uint8_t *row)
{
    struct jpeg_decompress_struct *d = &j->d;
    uint32_t n = j->im->sink.row_begin;
#if PARTIAL
    if (n && (PARTIAL_PROGRESSIVE || !d->progress))
        jpeg_skip_scanlines(d, n);
#endif
    while (d->output_scanline < n)
        jpeg_read_scanlines(d, &row, 1);
}

/* Inverted, as Adobe writes it and all programs read it; rounded as in Pillow. In place. */
static void cmyk_to_rgbx(uint8_t *p, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, p += 4)
        for (int c = 0; c < 3; c++) {
            unsigned ink = (255u - p[c]) * p[3] + 128;
            p[c] = (uint8_t)(p[3] - ((ink >> 8) + ink) / 256);
        }
}

/* 3-byte pixels to 4-byte ones, in place: from the end. */
static void widen(uint8_t *p, size_t pixels)
{
    for (size_t i = pixels; i-- > 0;)
        memmove(p + 4 * i, p + 3 * i, 3);
}

static void read_rows(struct jpeg *j, uint8_t *row)
{
    struct jpeg_decompress_struct *d = &j->d;
    struct stk_scaler *s = &j->im->sink;
    while (d->output_scanline < s->row_end) {
        jpeg_read_scanlines(d, &row, 1);
        if (d->out_color_space == JCS_CMYK)
            cmyk_to_rgbx(row, d->output_width);
        else if (d->output_components == 3)
            widen(row, d->output_width);
        if (s->frame.channels == 1 && d->output_components > 1)
            stk_row_luma(row, row, d->output_width);
        stk_scaler_row(s, row);
    }
}

/* Rows after the last needed one were not decoded. Whether a file counts as truncated must not
 * depend on which rows these are; no other marker can be between them and the end. */
static int check_end(struct jpeg *j)
{
    const uint8_t *p = j->source.next_input_byte;
    size_t n = j->source.bytes_in_buffer;
    if (jpeg_input_complete(&j->d) || j->d.unread_marker == JPEG_EOI)
        return 0;
    for (; n >= 2; n--)
        if (p[n - 2] == 0xff && p[n - 1] == JPEG_EOI)
            return 0;
    return stk_err_set(j->err, STK_E_CORRUPT, NULL, -1, "JPEG: no end marker: truncated");
}

static void read_direct(struct jpeg *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    size_t stride = (size_t)d->output_width * 3;
    while (d->output_scanline < d->output_height) {
        JSAMPROW row = j->job->out + d->output_scanline * stride;
        jpeg_read_scanlines(d, &row, 1);
    }
}

static int read_through_sink(struct jpeg *j)
{
    struct stk_image *im = j->im;
    int rc = stk_scaler_begin(&im->sink, &j->frame, j->job->out, j->err);
    if (rc == 0)
        rc = stk_room_need(
            &im->row, (uint64_t)j->d.output_width * 4 + stk_scaler_slack(&im->sink) + ODD, j->err);
    if (rc != 0)
        return rc;
    jpeg_start_decompress(&j->d);
    stk_scaler_columns(&im->sink, cut_columns(j));
    skip_rows(j, im->row.p + ODD);
    read_rows(j, im->row.p + ODD);
    return 0;
}

static int read_pixels(struct jpeg *j)
{
    struct jpeg_decompress_struct *d = &j->d;
    struct stk_frame *f = &j->frame;
    int rc = stk_image_plan(j->job, d->image_width, d->image_height, f, j->err);
    if (rc != 0)
        return rc;
    j->direct = !f->resized && !f->flip && !f->nchw && f->channels == 3;
    rc = choose_colors(j);
    if (rc != 0)
        return rc;
    choose_scale(j);
    if (j->direct) {
        jpeg_start_decompress(d);
        read_direct(j);
    } else {
        rc = read_through_sink(j);
    }
    return rc == 0 ? check_end(j) : rc;
}

/* ---- front ------------------------------------------------------------------------------- */

static int decode(struct jpeg *j)
{
    int rc = read_header(j);
    return rc == 0 && j->job->op ? read_pixels(j) : rc;
}

/* libjpeg's error exit jumps here; nothing in this function changes meanwhile. */
static int guarded(struct jpeg *j)
{
    return setjmp(j->back) ? j->code : decode(j);
}

/* A new decompressor for every image: a reused one would lend its tables to a file that lacks its
 * own, and pixels would depend on what the thread decoded before. */
static int run(struct jpeg *j)
{
    j->d.err = jpeg_std_error(&j->errors);
    j->d.client_data = j;
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->source = (struct jpeg_source_mgr){.next_input_byte = j->job->p,
                                         .bytes_in_buffer = j->job->n,
                                         .init_source = source_nothing,
                                         .fill_input_buffer = source_end,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_nothing};
    j->progress.progress_monitor = on_progress;
    int rc = guarded(j);
    jpeg_destroy_decompress(&j->d);
    return rc;
}

int stk_jpeg_size(const uint8_t *p, size_t n, uint32_t *width, uint32_t *height,
                  struct stk_err *err)
{
    struct stk_image_job job = {.p = p, .n = n};
    struct jpeg j = {.job = &job, .err = err};
    int rc = run(&j);
    if (rc == 0) {
        *width = j.d.image_width;
        *height = j.d.image_height;
    }
    return rc;
}

int stk_jpeg_decode(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err)
{
    struct jpeg j = {.job = job, .im = im, .err = err};
    return run(&j);
}

#else

int stk_jpeg_size(const uint8_t *p, size_t n, uint32_t *width, uint32_t *height,
                  struct stk_err *err)
{
    (void)p, (void)n, (void)width, (void)height;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "this build cannot decode JPEG: install %s and build again",
                       stk_image_missing(false));
}

int stk_jpeg_decode(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err)
{
    (void)im;
    return stk_jpeg_size(job->p, job->n, NULL, NULL, err);
}

#endif
