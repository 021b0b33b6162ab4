/*
 * image.c - JPEG and PNG bytes to pixels: recognises the format and chooses the part of an image
 * (whole, centre, random) from its size, the op and the key. image/jpeg.c and image/png.c decode,
 * image/resize.c resizes.
 */
#include "image/priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

static const uint8_t png_magic[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static bool is_jpeg(const uint8_t *p, size_t n)
{
    return n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff;
}

static bool is_png(const uint8_t *p, size_t n)
{
    return n >= sizeof png_magic && memcmp(p, png_magic, sizeof png_magic) == 0;
}

bool stk_image_is(const uint8_t *p, size_t n)
{
    return is_jpeg(p, n) || is_png(p, n);
}

const char *stk_image_missing(bool png)
{
#ifndef STK_HAVE_PNG
    if (png)
        return "libpng-dev";
#endif
#ifndef STK_HAVE_JPEG
    if (!png)
        return "libjpeg-dev";
#endif
    (void)png;
    return NULL;
}

/* ---- randomness -------------------------------------------------------------------------- */

static double draw_between(uint64_t *state, double low, double high)
{
    return low + (high - low) * ((double)(stk_random_next(state) >> 11) * 0x1p-53);
}

static uint32_t draw_below(uint64_t *state, uint64_t n)
{
    return (uint32_t)(((stk_random_next(state) >> 32) * n) >> 32);
}

/* ---- frames ------------------------------------------------------------------------------ */

static struct stk_axis axis(uint32_t lo, uint32_t n, uint32_t out)
{
    return (struct stk_axis){.lo = lo, .n = n, .out = out, .step = (double)n / out};
}

/* torchvision's fallback after ten draws that do not fit: the middle, with the nearest aspect
 * allowed. */
static void fallback_crop(const struct stk_image_op *op, uint32_t width, uint32_t height,
                          struct stk_frame *f)
{
    double ratio = (double)width / height, w = width, h = height;
    if (ratio < op->ratio_min)
        h = rint(w / op->ratio_min);
    else if (ratio > op->ratio_max)
        w = rint(h * op->ratio_max);
    uint32_t cut_w = w < 1 ? 1 : (uint32_t)w, cut_h = h < 1 ? 1 : (uint32_t)h;
    f->x = axis((width - cut_w) / 2, cut_w, op->width);
    f->y = axis((height - cut_h) / 2, cut_h, op->height);
}

/* torchvision's RandomResizedCrop.get_params, draw by draw. */
static void random_crop(const struct stk_image_op *op, uint64_t *state, uint32_t width,
                        uint32_t height, struct stk_frame *f)
{
    double area = (double)width * height;
    double ratio_low = log(op->ratio_min), ratio_high = log(op->ratio_max);
    for (int i = 0; i < 10; i++) {
        double target = area * draw_between(state, op->scale_min, op->scale_max);
        double ratio = exp(draw_between(state, ratio_low, ratio_high));
        double w = rint(sqrt(target * ratio)), h = rint(sqrt(target / ratio));
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        uint32_t cut_w = (uint32_t)w, cut_h = (uint32_t)h;
        uint32_t y = draw_below(state, (uint64_t)height - cut_h + 1);
        uint32_t x = draw_below(state, (uint64_t)width - cut_w + 1);
        f->x = axis(x, cut_w, op->width);
        f->y = axis(y, cut_h, op->height);
        return;
    }
    fallback_crop(op, width, height, f);
}

/* The middle `out` of an axis of n pixels that is resized to `whole`. */
static struct stk_axis middle(uint32_t n, uint64_t whole, uint32_t out)
{
    return (struct stk_axis){
        .n = n, .out = out, .step = n / (double)whole, .first = rint((double)(whole - out) / 2)};
}

/* torchvision's Resize(shorter side), then CenterCrop: the longer side is rounded down. */
static void center_crop(const struct stk_image_op *op, uint32_t width, uint32_t height,
                        struct stk_frame *f)
{
    uint64_t w = width, h = height, whole_w, whole_h;
    bool by_width; /* the width decides the scale */
    if (op->resize)
        by_width = w <= h;
    else
        by_width = op->width * h >= op->height * w;
    if (by_width) {
        whole_w = op->resize ? op->resize : op->width;
        whole_h = whole_w * h / w;
    } else {
        whole_h = op->resize ? op->resize : op->height;
        whole_w = whole_h * w / h;
    }
    f->x = middle(width, whole_w, op->width);
    f->y = middle(height, whole_h, op->height);
}

void stk_image_frame(const struct stk_image_op *op, uint64_t key, uint32_t width, uint32_t height,
                     struct stk_frame *f)
{
    uint64_t state = key;
    state = stk_random_next(&state); /* keys may be mere counters */
    bool heads = stk_random_next(&state) >> 63;
    *f = (struct stk_frame){.resized = op->width != 0,
                            .flip = op->flip && heads,
                            .nchw = op->nchw,
                            .channels = op->channels};
    if (!op->width) {
        f->x = axis(0, width, width);
        f->y = axis(0, height, height);
    } else if (op->crop == STK_CROP_RANDOM) {
        random_crop(op, &state, width, height, f);
    } else if (op->crop == STK_CROP_CENTER) {
        center_crop(op, width, height, f);
    } else {
        f->x = axis(0, width, op->width);
        f->y = axis(0, height, op->height);
    }
}

/* A pixel is exactly `shrink` old ones, so positions divide exactly: the box stays, and its edges
 * may now be inside a pixel. */
static void shrink_axis(struct stk_axis *a, uint32_t shrink, uint32_t size)
{
    double begin = (double)a->lo / shrink, end = ((double)a->lo + a->n) / shrink;
    uint32_t lo = (uint32_t)begin, hi = (uint32_t)ceil(end);
    hi = hi < size ? hi : size;
    lo = lo < hi ? lo : hi - 1;
    a->at = begin - lo + a->at / shrink;
    a->step /= shrink;
    a->lo = lo;
    a->n = hi - lo;
}

void stk_image_shrink(struct stk_frame *f, uint32_t shrink, uint32_t width, uint32_t height)
{
    shrink_axis(&f->x, shrink, width);
    shrink_axis(&f->y, shrink, height);
}

/* ---- front ------------------------------------------------------------------------------- */

int stk_image_check_size(const char *kind, uint64_t width, uint64_t height, struct stk_err *err)
{
    if (width == 0 || height == 0)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "%s: it has no pixels", kind);
    if (width > STK_IMAGE_MAX_STORED || height > STK_IMAGE_MAX_STORED ||
        width * height > STK_IMAGE_MAX_PIXELS)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "%s: %llu x %llu pixels are more than the %llu that are taken", kind,
                           (unsigned long long)width, (unsigned long long)height,
                           (unsigned long long)STK_IMAGE_MAX_PIXELS);
    return 0;
}

int stk_image_plan(const struct stk_image_job *job, uint32_t width, uint32_t height,
                   struct stk_frame *f, struct stk_err *err)
{
    stk_image_frame(job->op, job->key, width, height, f);
    uint64_t need = (uint64_t)f->x.out * f->y.out * f->channels;
    if (need != job->out_size)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "an image of %u x %u does not fit %zu bytes of room", f->x.out, f->y.out,
                           job->out_size);
    return 0;
}

int stk_image_new(struct stk_image **out, struct stk_err *err)
{
    *out = calloc(1, sizeof **out);
    return *out ? 0 : stk_err_nomem(err, sizeof **out);
}

void stk_image_free(struct stk_image *im)
{
    if (!im)
        return;
    stk_scaler_release(&im->sink);
    free(im->bytes.p);
    free(im->row.p);
    free(im->whole.p);
    free(im);
}

/* Sound pictures of a kind that is not decoded. */
static const char *other_kind(const uint8_t *p, size_t n)
{
    static const struct {
        const char *name;
        uint8_t at, len;
        const char *magic;
    } kinds[] = {
        {"WebP", 8, 4, "WEBP"},
        {"GIF", 0, 4, "GIF8"},
        {"TIFF", 0, 4, "II*\0"},
        {"TIFF", 0, 4, "MM\0*"},
        {"BMP", 0, 2, "BM"},
        {"JPEG 2000", 4, 8, "jP  \r\n\x87\n"},
        {"JPEG 2000", 0, 4, "\xff\x4f\xff\x51"},
        {"JPEG XL", 0, 2, "\xff\x0a"},
        {"JPEG XL", 4, 4, "JXL "},
        {"AVIF", 4, 8, "ftypavif"},
        {"HEIF", 4, 7, "ftyphei"},
        {"HEIF", 4, 8, "ftypmif1"},
        {"PNM", 0, 2, "P4"},
        {"PNM", 0, 2, "P5"},
        {"PNM", 0, 2, "P6"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (n >= (size_t)kinds[i].at + kinds[i].len &&
            memcmp(p + kinds[i].at, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].name;
    return NULL;
}

static int not_an_image(const uint8_t *p, size_t n, struct stk_err *err)
{
    const char *kind = other_kind(p, n);
    if (kind)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "a %s image: only JPEG and PNG are decoded", kind);
    return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "neither a JPEG nor a PNG image");
}

int stk_image_size(struct stk_image *im, const uint8_t *p, size_t n, const struct stk_image_op *op,
                   uint32_t *width, uint32_t *height, struct stk_err *err)
{
    (void)im;
    if (op->width) {
        *width = op->width;
        *height = op->height;
        return 0;
    }
    if (is_jpeg(p, n))
        return stk_jpeg_size(p, n, width, height, err);
    return is_png(p, n) ? stk_png_size(p, n, width, height, err) : not_an_image(p, n, err);
}

size_t stk_image_bytes(const struct stk_image_op *op, uint32_t width, uint32_t height)
{
    return (size_t)op->channels * width * height * stk_dtype_size((enum stk_dtype)op->tone.dtype);
}

static int decode_bytes(struct stk_image *im, const struct stk_image_job *job, struct stk_err *err)
{
    if (is_jpeg(job->p, job->n))
        return stk_jpeg_decode(im, job, err);
    return is_png(job->p, job->n) ? stk_png_decode(im, job, err)
                                  : not_an_image(job->p, job->n, err);
}

int stk_image_decode(struct stk_image *im, const uint8_t *p, size_t n,
                     const struct stk_image_op *op, uint64_t key, void *out, size_t out_size,
                     struct stk_err *err)
{
    struct stk_image_job job = {p, n, op, key, out, out_size};
    if (op->tone.dtype == STK_U8)
        return decode_bytes(im, &job, err);
    job.out_size = out_size / stk_dtype_size((enum stk_dtype)op->tone.dtype);
    int rc = stk_room_need(&im->bytes, job.out_size, err);
    job.out = im->bytes.p;
    if (rc == 0)
        rc = decode_bytes(im, &job, err);
    if (rc == 0)
        stk_tone_put(&im->tones, op, job.out, out, job.out_size / op->channels);
    return rc;
}
