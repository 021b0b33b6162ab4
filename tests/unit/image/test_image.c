/*
 * test_image.c - pixels of JPEGs and PNGs: partial decoding gives the pixels of a full one, random
 * choices follow the key alone, damage is found whatever part is asked for.
 * As a program, "test_image FILE DECODE KEY" prints the frame and the raw pixels, for
 * tests/compat/test_image.py, which compares them with Pillow's.
 */
#include "check.h"
#include "image/priv.h"

#if !defined(STK_HAVE_JPEG) || !defined(STK_HAVE_PNG)
static void pictures(void)
{
    CHECK_SKIP("built without libjpeg or libpng");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(pictures);
    return CHECK_DONE();
}
#else

#include "base/file.h"
#include "pictures.h"

#include <math.h>

static struct stk_image *im;
static struct stk_err err;

static struct stk_image_op op_of(const char *text)
{
    struct stk_image_op op;
    char *field = NULL;
    if (stk_image_op_parse(text, &op, &field, &err) != 0)
        check_fail(__FILE__, __LINE__, err.what);
    free(field);
    return op;
}

/* Decodes into malloc'ed memory of just the right size; NULL and *rc where it fails. */
static uint8_t *decode(const void *p, size_t n, const char *text, uint64_t key, size_t *size,
                       int *rc)
{
    struct stk_image_op op = op_of(text);
    uint32_t w = 0, h = 0;
    uint8_t *copy = malloc(n ? n : 1), *out = NULL; /* ASan watches the end of the copy */
    memcpy(copy, p, n);
    *rc = stk_image_size(im, copy, n, &op, &w, &h, &err);
    *size = (size_t)w * h * op.channels;
    if (*rc == 0) {
        out = malloc(*size);
        *rc = stk_image_decode(im, copy, n, &op, key, out, *size, &err);
    }
    free(copy);
    if (*rc == 0)
        return out;
    free(out);
    return NULL;
}

static const struct jpeg_kind kinds[] = {
    {"4:4:4", 3, JCS_YCbCr, 1, 1, false, 0},      {"4:2:2", 3, JCS_YCbCr, 2, 1, false, 0},
    {"4:2:0", 3, JCS_YCbCr, 2, 2, false, 0},      {"4:4:0", 3, JCS_YCbCr, 1, 2, false, 0},
    {"4:1:1", 3, JCS_YCbCr, 4, 1, false, 0},      {"4:1:0", 3, JCS_YCbCr, 4, 2, false, 0},
    {"gray", 1, JCS_GRAYSCALE, 1, 1, false, 0},   {"RGB", 3, JCS_RGB, 1, 1, false, 0},
    {"progressive", 3, JCS_YCbCr, 2, 2, true, 0}, {"restarts", 3, JCS_YCbCr, 2, 2, false, 1},
    {"CMYK", 4, JCS_CMYK, 1, 1, false, 0},        {"YCCK", 4, JCS_YCCK, 2, 2, false, 0},
};
#define NKINDS (sizeof kinds / sizeof *kinds)

/* A user would train on wrong pixels at the edges of crops: rows and columns that are not decoded
 * must not change those that are. A PNG of a JPEG's pixels is decoded whole: the two must agree. */
static void same_as_whole(const struct jpeg_kind *k, uint32_t width, uint32_t height)
{
    static const char *const texts[] = {
        "image:48x40,crop=random,flip",
        "image:40x56,crop=random,layout=nchw",
        "image:48",
        "image:32,resize=48",
        "image:64x32,crop=none",
        "image:flip",
    };
    struct picture p = picture_make(width, height, 7);
    size_t n, size, size2;
    int rc;
    uint8_t *jpeg = picture_jpeg(&p, k, &n);
    struct picture whole = {width, height, decode(jpeg, n, "image", 0, &size, &rc)};
    CHECK_INT(rc, 0);
    CHECK_INT(size, (size_t)width * height * 3);
    struct stk_buf png = picture_png(&whole, false);
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (uint64_t key = 0; key < 25; key++) {
            uint8_t *a = decode(jpeg, n, texts[t], key, &size, &rc);
            uint8_t *b = decode(png.data, png.len, texts[t], key, &size2, &rc);
            if (!a || !b || size != size2 || memcmp(a, b, size) != 0)
                check_text(k->name, (int)key, "other pixels", texts[t]);
            free(a);
            free(b);
        }
    stk_buf_release(&png);
    free(whole.rgb);
    free(jpeg);
    free(p.rgb);
}

static void test_partial(void)
{
    for (size_t i = 0; i < NKINDS; i++) {
        same_as_whole(&kinds[i], 117, 91);
        same_as_whole(&kinds[i], 64, 80);
    }
}

/* A user would get images moved by half a pixel from large JPEGs: shrinking while decoding must
 * keep geometry. The slopes of the picture would show it. */
static void test_shrunk(void)
{
    struct picture p = picture_make(800, 600, 3);
    for (size_t i = 0; i < NKINDS; i++) {
        if (kinds[i].components == 4)
            continue;
        size_t n, size;
        int rc;
        uint8_t *jpeg = picture_jpeg(&p, &kinds[i], &n);
        struct picture whole = {p.width, p.height, decode(jpeg, n, "image", 0, &size, &rc)};
        struct stk_buf png = picture_png(&whole, false);
        for (uint64_t key = 0; key < 6; key++) {
            const char *text =
                key % 2 ? "image:50,crop=random,flip,scale=0.5-1" : "image:100x60,crop=none";
            uint8_t *a = decode(jpeg, n, text, key, &size, &rc);
            uint8_t *b = decode(png.data, png.len, text, key, &size, &rc);
            double shift[3] = {0};
            size_t far = 0;
            for (size_t j = 0; a && b && j < size; j++) {
                far += abs(a[j] - b[j]) > 2;
                shift[j % 3] += a[j] - b[j];
            }
            /* 4:1:1 has no smooth upsampling to be like. */
            CHECK(a && b && far < size / (kinds[i].h == 4 ? 5 : 50));
            for (int c = 0; c < 3; c++)
                CHECK(fabs(shift[c] / (double)(size / 3)) < 0.3);
            free(a);
            free(b);
        }
        stk_buf_release(&png);
        free(whole.rgb);
        free(jpeg);
    }
    free(p.rgb);
}

/* A user would see other pixels on another machine: plain C and vector loops must agree. */
static void test_loops(void)
{
    const struct stk_row_ops *best = stk_row_ops();
    static const double steps[] = {0.3, 0.99, 1, 1.5, 2.3, 5, 17.7};
    uint32_t seed = 1;
    for (size_t t = 0; t < sizeof steps / sizeof *steps; t++)
        for (uint32_t out = 1; out < 40; out += 3) {
            uint32_t n = (uint32_t)ceil(out * steps[t]) + 1;
            struct stk_axis a = {.n = n, .out = out, .step = n / (double)out};
            struct stk_frame f = {.x = a, .y = a, .resized = true, .channels = 3};
            struct stk_scaler s[2];
            uint8_t *pixels[2] = {malloc((size_t)out * out * 3), malloc((size_t)out * out * 3)};
            uint8_t *row = NULL;
            memset(s, 0, sizeof s);
            for (int i = 0; i < 2; i++) {
                f.nchw = out % 2;
                CHECK(stk_scaler_begin(&s[i], &f, pixels[i], &err) == 0);
                s[i].ops = i ? best : &stk_row_ops_c;
                row = realloc(row, n * 4 + stk_scaler_slack(&s[i]));
            }
            for (uint32_t y = 0; y < n; y++) {
                for (size_t x = 0; x < n * 4 + stk_scaler_slack(&s[0]); x++)
                    row[x] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
                if (y >= s[0].row_begin && y < s[0].row_end)
                    for (int i = 0; i < 2; i++)
                        stk_scaler_row(&s[i], row);
            }
            CHECK(memcmp(pixels[0], pixels[1], (size_t)out * out * 3) == 0);
            for (int i = 0; i < 2; i++) {
                stk_scaler_release(&s[i]);
                free(pixels[i]);
            }
            free(row);
        }
}

/* A user would wait for a crash: cut anywhere, a file is refused with STK_E_CORRUPT, whichever part
 * of it a key asks for. What merely stands after the image does no harm. */
static void cut_everywhere(const uint8_t *p, size_t n, size_t end)
{
    size_t size;
    int rc;
    for (size_t len = 8; len < n - end; len += 1 + len / 40) {
        CHECK(!decode(p, len, "image:16,crop=random", len, &size, &rc));
        CHECK_INT(rc, STK_E_CORRUPT);
        CHECK(!decode(p, len, "image", 0, &size, &rc));
        CHECK_INT(rc, STK_E_CORRUPT);
    }
    uint8_t *longer = calloc(1, n + 100), *a, *b;
    memcpy(longer, p, n);
    a = decode(longer, n + 100, "image", 0, &size, &rc);
    b = decode(p, n, "image", 0, &size, &rc);
    CHECK(a && b && memcmp(a, b, size) == 0);
    free(a);
    free(b);
    free(longer);
}

static void test_cut(void)
{
    struct picture p = picture_make(70, 50, 5);
    for (size_t i = 0; i < NKINDS; i++) {
        size_t n;
        uint8_t *jpeg = picture_jpeg(&p, &kinds[i], &n);
        cut_everywhere(jpeg, n, 0);
        free(jpeg);
    }
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        struct stk_buf png = picture_png(&p, interlaced);
        cut_everywhere(png.data, png.len, 16); /* all pixels are there before the last chunks */
        stk_buf_release(&png);
    }
    free(p.rgb);
}

/* A user would lose the job to one bad byte: any damage is an error or other pixels, no more. */
static void test_damage(void)
{
    struct picture p = picture_make(70, 50, 5);
    uint32_t seed = 1;
    for (size_t i = 0; i < NKINDS; i++) {
        size_t n, size;
        int rc;
        uint8_t *jpeg = picture_jpeg(&p, &kinds[i], &n);
        for (int k = 0; k < 300; k++) {
            seed = seed * 1664525u + 1013904223u;
            size_t at = (seed >> 8) % n;
            jpeg[at] ^= (uint8_t)(1 << (seed & 7));
            free(decode(jpeg, n, k % 2 ? "image" : "image:24,crop=random", seed, &size, &rc));
            jpeg[at] ^= (uint8_t)(1 << (seed & 7));
        }
        free(jpeg);
    }
    free(p.rgb);
}

static uint8_t *find_marker(uint8_t *p, size_t n, int marker)
{
    for (size_t i = 0; i + 1 < n; i++)
        if (p[i] == 0xff && p[i + 1] == marker)
            return p + i;
    return NULL;
}

/* A user would lose the node's memory to 2 KB of JPEG that says it has 65500 x 65500 pixels, and a
 * file without tables would look different after another image. */
static void test_liars(void)
{
    struct picture p = picture_make(70, 50, 5);
    for (int progressive = 0; progressive < 2; progressive++) {
        struct jpeg_kind k = {"", 3, JCS_YCbCr, 2, 2, progressive, 0};
        size_t n, size;
        int rc;
        uint8_t *jpeg = picture_jpeg(&p, &k, &n);
        uint8_t *frame = find_marker(jpeg, n, progressive ? 0xc2 : 0xc0);
        uint8_t *tables = find_marker(jpeg, n, 0xdb);
        memcpy(frame + 5, "\x3f\xff\x3f\xff", 4); /* 16383 x 16383: too much for so few bytes */
        CHECK(!decode(jpeg, n, "image:24", 1, &size, &rc) && rc == STK_E_CORRUPT);
        memcpy(frame + 5, "\xff\xdc\xff\xdc", 4); /* 65500 x 65500: too much for anybody */
        CHECK(!decode(jpeg, n, "image:24", 1, &size, &rc) && rc == STK_E_UNSUPPORTED);
        memcpy(frame + 5, "\0\x32\0\x46", 4);
        free(decode(jpeg, n, "image:24", 1, &size, &rc));
        CHECK_INT(rc, 0);
        tables[1] = 0xfe; /* a comment now */
        CHECK(!decode(jpeg, n, "image:24", 1, &size, &rc) && rc == STK_E_CORRUPT);
        free(jpeg);
    }
    free(p.rgb);
}

/* A user would train on the same crops every epoch, or on crops torchvision would not make. */
static void test_random(void)
{
    struct stk_image_op op = op_of("image:224,crop=random,flip");
    double area = 0, x = 0, y = 0;
    int flips = 0, whole = 0;
    enum { N = 20000 };
    for (uint64_t key = 0; key < N; key++) {
        struct stk_frame f;
        stk_image_frame(&op, key, 500, 375, &f);
        double ratio = (double)f.x.n / f.y.n, part = (double)f.x.n * f.y.n / (500 * 375);
        CHECK(f.x.lo + f.x.n <= 500 && f.y.lo + f.y.n <= 375 && f.x.n && f.y.n);
        CHECK(ratio > 0.74 && ratio < 1.35 && part > 0.079 && part < 1.001);
        area += part / N;
        x += (f.x.lo + f.x.n / 2.) / 500 / N;
        y += (f.y.lo + f.y.n / 2.) / 375 / N;
        flips += f.flip;
        whole += f.y.n == 375;
    }
    CHECK(fabs(area - 0.432) < 0.005); /* of torchvision, 200,000 draws; not 0.54: not all fit */
    CHECK(fabs(x - 0.5) < 0.005 && fabs(y - 0.5) < 0.005);
    CHECK(abs(flips - N / 2) < N / 50 && whole > 0);
    struct stk_frame f;
    stk_image_frame(&op, 1, 1000, 10, &f); /* nothing drawn fits: the middle, 4:3 */
    CHECK_INT(f.x.n, 13);
    CHECK_INT(f.x.lo, 493);
    CHECK_INT(f.y.n, 10);
    op.flip = false;
    stk_image_frame(&op, 3, 300, 300, &f);
    CHECK(!f.flip);
}

static void refused(const char *text, const char *why)
{
    struct stk_image_op op;
    char *field = (char *)"";
    CHECK_INT(stk_image_op_parse(text, &op, &field, &err), STK_E_USAGE);
    CHECK(field == NULL);
    if (!strstr(err.what, why) || !strstr(err.what, "crop=none|center|random"))
        check_text(__FILE__, __LINE__, err.what, why);
}

/* A user would train for a week with a setting that was misspelt and passed over. */
static void test_parse(void)
{
    struct stk_image_op op = op_of("image");
    char *field;
    CHECK(op.width == 0 && op.channels == 3 && op.crop == STK_CROP_NONE && !op.flip && !op.nchw);
    op = op_of("image:224");
    CHECK(op.width == 224 && op.height == 224 && op.crop == STK_CROP_CENTER);
    CHECK(stk_image_op_parse("image:320x240,crop=random,flip,gray,layout=nchw,scale=0.2-1,"
                             "ratio=3/4-4/3,field=image/encoded",
                             &op, &field, &err) == 0);
    CHECK(op.width == 320 && op.height == 240 && op.crop == STK_CROP_RANDOM && op.flip);
    CHECK(op.channels == 1 && op.nchw && op.scale_min == 0.2 && op.ratio_max == 4. / 3);
    CHECK_STR(field, "image/encoded");
    free(field);
    op = op_of("image:gray,flip");
    CHECK(op.width == 0 && op.channels == 1 && op.flip);
    refused("images", "unknown");
    refused("jpeg", "unknown");
    refused("image:", "no such setting");
    refused("image:224,", "no such setting");
    refused("image:0", "not a size");
    refused("image:224x", "not a size");
    refused("image:99999", "not a size");
    refused("image:224,crop=middle", "no such value");
    refused("image:224,flop", "no such setting");
    refused("image:224,mode=x", "no such setting");
    refused("image:224,crop=random,scale=0.5", "no such value");
    refused("image:224,crop=random,scale=1-0.5", "no such value");
    refused("image:224,crop=random,ratio=nan-1", "no such value");
    refused("image:224,crop=random,ratio=1/0-2", "no such value");
    refused("image:224,scale=0.5-1", "crop=random");
    refused("image:crop=random", "needs a size");
    refused("image:224,resize=200", "smaller");
    refused("image:224,crop=none,resize=256", "crop=center");
    refused("image:field=a,field=", "no such value");
}

static int print_pixels(char **argv)
{
    struct stk_buf file = STK_BUF_INIT;
    struct stk_image_op op = op_of(argv[2]), stored = op_of("image");
    struct stk_frame f;
    uint32_t w, h;
    size_t size;
    int rc = stk_read_file(argv[1], 1u << 30, &file, &err);
    uint64_t key = strtoull(argv[3], NULL, 10);
    uint8_t *out = rc == 0 ? decode(file.data, file.len, argv[2], key, &size, &rc) : NULL;
    if (rc == 0)
        rc = stk_image_size(im, file.data, file.len, &stored, &w, &h, &err);
    if (rc == 0) {
        stk_image_frame(&op, key, w, h, &f);
        printf("%u %u %u %u %u %u %d\n", f.x.out, f.y.out, f.x.lo, f.y.lo, f.x.n, f.y.n, f.flip);
        fwrite(out, 1, size, stdout);
    } else {
        fprintf(stderr, "%d %s\n", rc, err.what);
    }
    free(out);
    stk_buf_release(&file);
    stk_image_free(im);
    return rc == 0 && check_failures == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (stk_image_new(&im, &err) != 0)
        return 1;
    if (argc == 5 && strcmp(argv[1], "--pixels") == 0)
        return print_pixels(argv + 1);
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_parse);
    CHECK_RUN(test_random);
    CHECK_RUN(test_loops);
    CHECK_RUN(test_partial);
    CHECK_RUN(test_shrunk);
    CHECK_RUN(test_cut);
    CHECK_RUN(test_damage);
    CHECK_RUN(test_liars);
    stk_image_free(im);
    return CHECK_DONE();
}

#endif
