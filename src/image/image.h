/*
 * image.h - JPEG and PNG bytes to pixels: scaled while decoding where that is possible, cropped,
 * resized, flipped, normalised, laid out as asked. One decoder per thread; nothing is allocated
 * once its buffers have grown to the largest image.
 */
#ifndef STK_IMAGE_IMAGE_H
#define STK_IMAGE_IMAGE_H

#include "base/err.h"

enum stk_crop {
    STK_CROP_NONE,   /* the whole image, resized to width x height (aspect not kept) */
    STK_CROP_CENTER, /* the shorter side resized to fit, the middle taken */
    STK_CROP_RANDOM, /* random resized crop: area and aspect drawn as torchvision does */
};

/* What becomes of a pixel's value v: v itself (U8), or (v / 255 - mean) / std by channel, in the
 * order and precision of torchvision's ToTensor() and Normalize(). */
struct stk_tone {
    int dtype;             /* STK_U8, STK_F16 or STK_F32 */
    float mean[3], std[3]; /* 0 and 1: the values are v / 255 */
};

struct stk_image_op {
    uint32_t width, height; /* 0: as stored */
    int crop;               /* enum stk_crop */
    uint32_t resize;        /* CENTER: size of the shorter side before the crop; 0: just enough */
    bool flip;              /* left and right, for half of the images */
    bool nchw;              /* planes one after another; else pixels interleaved */
    uint32_t channels;      /* 3 or 1 */
    struct stk_tone tone;
    double scale_min, scale_max, ratio_min, ratio_max; /* RANDOM: 0.08, 1, 3/4, 4/3 */
};

/* Reads "image", "image:224", "image:WxH,crop=none|center|random,resize=N,flip,layout=hwc|chw,gray,
 * scale=A-B,ratio=A-B,dtype=uint8|float16|float32,mean=R:G:B,std=R:G:B,field=NAME" (without field:
 * the first that holds an image). *field is malloc'ed or NULL. With a size and no crop= it is
 * crop=center; "image:224,resize=256" is torchvision's Resize(256) and CenterCrop(224). With mean=
 * or std= and no dtype= it is dtype=float32. */
int stk_image_op_parse(const char *text, struct stk_image_op *op, char **field,
                       struct stk_err *err);

struct stk_image;
int stk_image_new(struct stk_image **out, struct stk_err *err); /* Caller frees with _free(). */
void stk_image_free(struct stk_image *im);

/* True if the bytes begin like a JPEG or PNG. */
bool stk_image_is(const uint8_t *p, size_t n);
/* What decoding with op gives: height and width, and so bytes (stk_image_bytes). */
int stk_image_size(struct stk_image *im, const uint8_t *p, size_t n, const struct stk_image_op *op,
                   uint32_t *width, uint32_t *height, struct stk_err *err);
size_t stk_image_bytes(const struct stk_image_op *op, uint32_t width, uint32_t height);
/* Decodes into out, which has room for exactly what stk_image_size() says. key: what random choices
 * are made from; the same key gives the same pixels, on any machine and thread.
 *
 * Pixels are Pillow's, to the bit: full-quality decoding, antialiased bilinear resize, crops as
 * torchvision makes them, gray as convert("L") makes it (docs/loader.md has the exceptions). Only
 * where the part taken is at least four times as large as the result are JPEGs shrunk while they
 * are decoded (then up to a tenth of the values are off by more than 2). EXIF orientation, colour
 * profiles and gamma are not applied, alpha is left out, 16 bits become the high 8 (Pillow clips
 * 16-bit gray), CMYK is taken for inverted as Adobe writes it.
 *
 * STK_E_CORRUPT also for what libjpeg only warns of: data missing, cut off or replaced; whether a
 * file was cut off is found whichever part is wanted. STK_E_UNSUPPORTED: over 2^28 pixels, 12-bit
 * JPEG, no library. out holds anything after an error. */
int stk_image_decode(struct stk_image *im, const uint8_t *p, size_t n,
                     const struct stk_image_op *op, uint64_t key, void *out, size_t out_size,
                     struct stk_err *err);
/* NULL when built in, else the package to install. */
const char *stk_image_missing(bool png);

#endif
