/*
 * fuzz_image.c - arbitrary bytes decoded as a JPEG or PNG, and arbitrary text read as what to do
 * with one. Input: a byte that says what is asked for, a byte the random choices come from, the
 * image (or, with the highest bit of the first, the text).
 */
#include "harness.h"

#include <stdlib.h>
#include <zlib.h>

#include "image/image.h"

#define MAX_PIXELS (8u << 20) /* more would only test the speed of memory */

/* Makes the checksums of a PNG's chunks right: a fuzzer would hardly ever. */
static void mend_png(uint8_t *p, size_t n)
{
    for (size_t at = 8; at + 12 <= n;) {
        uint32_t length = __builtin_bswap32(stk_le32(p + at));
        if (length > n - at - 12)
            return;
        uint32_t sum = (uint32_t)crc32(0, p + at + 4, length + 4);
        stk_put_le32(p + at + 8 + length, __builtin_bswap32(sum));
        at += 12 + (size_t)length;
    }
}

static void read_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *field = NULL;
    struct stk_image_op op;
    struct stk_err err = {0};
    memcpy(text, data, size);
    text[size] = '\0';
    if (stk_image_op_parse(text, &op, &field, &err) == 0 && !op.width != !op.height)
        stk_fuzz_broken("a size has two sides");
    free(field);
    free(text);
}

static uint8_t *decode(struct stk_image *im, const uint8_t *data, size_t size,
                       const struct stk_image_op *op, uint64_t key, size_t *n)
{
    struct stk_err err = {0};
    uint32_t width, height;
    if (stk_image_size(im, data, size, op, &width, &height, &err) != 0 ||
        (uint64_t)width * height > MAX_PIXELS)
        return NULL;
    *n = (size_t)width * height * op->channels;
    uint8_t *out = malloc(*n);
    if (stk_image_decode(im, data, size, op, key, out, *n, &err) == 0)
        return out;
    free(out);
    return NULL;
}

int fuzz_image(const uint8_t *data, size_t size)
{
    static const char *const texts[] = {
        "image",
        "image:16,crop=random,flip",
        "image:24x8,crop=none,layout=nchw",
        "image:12,resize=20,gray",
        "image:gray,flip",
        "image:layout=nchw,flip",
        "image:100x3",
        "image:3,crop=random,gray,scale=0.5-1",
    };
    struct stk_image *im, *other;
    struct stk_image_op op;
    char *field;
    size_t n = 0, again_n = 0;
    if (size < 2)
        return 0;
    if (data[0] & 0x80) {
        read_text(data + 2, size - 2);
        return 0;
    }
    if (stk_image_op_parse(texts[data[0] % 8], &op, &field, NULL) != 0 ||
        stk_image_new(&im, NULL) != 0 || stk_image_new(&other, NULL) != 0)
        stk_fuzz_broken("good settings are taken");
    size -= 2;
    uint8_t *file = malloc(size ? size : 1);
    memcpy(file, data + 2, size);
    if (size && file[0] == 0x89)
        mend_png(file, size);
    uint8_t *out = decode(im, file, size, &op, data[1], &n);
    uint8_t *again = decode(other, file, size, &op, data[1], &again_n);
    if (!out != !again || n != again_n || (out && memcmp(out, again, n) != 0))
        stk_fuzz_broken("the same bytes and key give the same pixels");
    free(out);
    free(again);
    free(file);
    stk_image_free(im);
    stk_image_free(other);
    return 0;
}
