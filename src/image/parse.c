/*
 * parse.c - parses image settings ("image:224,crop=random,flip") into a struct stk_image_op.
 * Reports every error here, before a dataset is touched.
 */
#include "image/priv.h"
#include "base/num.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SHAPE                                                                                      \
    "image[:SIZE|WIDTHxHEIGHT][,crop=none|center|random][,resize=N][,flip][,layout=hwc|chw][,"     \
    "gray]"                                                                                        \
    "[,scale=A-B][,ratio=A-B][,dtype=uint8|float16|float32][,mean=R:G:B][,std=R:G:B][,field=NAME]"

struct parser {
    struct stk_image_op *op;
    char **field;
    bool crop_given, area_given, tone_given, dtype_given;
    struct stk_err *err;
};

static int wrong(struct parser *p, const char *item, size_t n, const char *why)
{
    return stk_err_set(p->err, STK_E_USAGE, NULL, -1, "decode: \"%.*s\": %s; it is %s",
                       (int)(n < 200 ? n : 200), item, why, SHAPE);
}

static bool number(const char *s, size_t n, double *out)
{
    int64_t i;
    double below = 1;
    const char *slash = memchr(s, '/', n);
    size_t top = slash ? (size_t)(slash - s) : n;
    if (stk_num_parse(s, top, &i, out) == STK_NUM_NONE)
        return false;
    if (slash && stk_num_parse(slash + 1, n - top - 1, &i, &below) == STK_NUM_NONE)
        return false;
    *out /= below;
    return *out > 0 && *out < 1e6; /* false for NaN, too */
}

/* "0.08-1", "3/4-4/3": positive and in this order. */
static bool range(const char *s, size_t n, double *low, double *high)
{
    const char *dash = memchr(s, '-', n);
    if (!dash)
        return false;
    size_t left = (size_t)(dash - s);
    return number(s, left, low) && number(dash + 1, n - left - 1, high) && *low <= *high;
}

static bool side(const char *s, size_t n, uint32_t *out)
{
    int64_t i;
    double f;
    if (n == 0 || s[0] < '0' || s[0] > '9' || stk_num_parse(s, n, &i, &f) != STK_NUM_INT)
        return false;
    *out = i > 0 && i <= STK_IMAGE_MAX_SIDE ? (uint32_t)i : 0;
    return *out != 0;
}

static int read_size(struct parser *p, const char *s, size_t n)
{
    const char *x = memchr(s, 'x', n);
    size_t left = x ? (size_t)(x - s) : n;
    if (!side(s, left, &p->op->width) || (x && !side(x + 1, n - left - 1, &p->op->height)))
        return wrong(p, s, n, "not a size of 1 to 16384 pixels");
    if (!x)
        p->op->height = p->op->width;
    return 0;
}

static bool is(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(s, word, n) == 0;
}

static bool read_crop(struct parser *p, const char *s, size_t n)
{
    static const char *const names[] = {"none", "center", "random"};
    p->crop_given = true;
    for (int i = STK_CROP_NONE; i <= STK_CROP_RANDOM; i++)
        if (is(s, n, names[i])) {
            p->op->crop = i;
            return true;
        }
    return false;
}

static bool read_layout(struct parser *p, const char *s, size_t n)
{
    p->op->nchw = is(s, n, "chw") || is(s, n, "nchw");
    return p->op->nchw || is(s, n, "hwc") || is(s, n, "nhwc");
}

static bool read_dtype(struct parser *p, const char *s, size_t n)
{
    static const int types[] = {STK_U8, STK_F16, STK_F32};
    p->dtype_given = true;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is(s, n, stk_dtype_name((enum stk_dtype)types[i]))) {
            p->op->tone.dtype = types[i];
            return true;
        }
    return false;
}

/* "0.5" for all channels, or "0.485:0.456:0.406". */
static bool read_channels(struct parser *p, const char *s, size_t n, float v[3])
{
    const char *end = s + n;
    int64_t whole;
    double x;
    p->tone_given = true;
    for (int i = 0; i < 3; i++) {
        const char *colon = memchr(s, ':', (size_t)(end - s));
        size_t len = (size_t)((colon ? colon : end) - s);
        if (stk_num_parse(s, len, &whole, &x) == STK_NUM_NONE || !(fabs(x) < 1e6))
            return false;
        v[i] = (float)x;
        if (!colon && i == 0) {
            v[1] = v[2] = v[0];
            return true;
        }
        if (!colon || i == 2)
            return !colon && i == 2;
        s = colon + 1;
    }
    return false;
}

static bool read_std(struct parser *p, const char *s, size_t n)
{
    float *v = p->op->tone.std;
    return read_channels(p, s, n, v) && v[0] > 0 && v[1] > 0 && v[2] > 0;
}

static bool read_field(struct parser *p, const char *s, size_t n)
{
    free(*p->field);
    *p->field = n ? strndup(s, n) : NULL;
    return *p->field != NULL;
}

/* The value of "key=value"; false: no such value. *known: the key exists. */
static bool read_value(struct parser *p, const char *key, size_t len, const char *s, size_t n,
                       bool *known)
{
    struct stk_image_op *op = p->op;
    if (is(key, len, "crop"))
        return read_crop(p, s, n);
    if (is(key, len, "resize"))
        return side(s, n, &op->resize);
    if (is(key, len, "layout"))
        return read_layout(p, s, n);
    if (is(key, len, "dtype"))
        return read_dtype(p, s, n);
    if (is(key, len, "mean"))
        return read_channels(p, s, n, op->tone.mean);
    if (is(key, len, "std"))
        return read_std(p, s, n);
    if (is(key, len, "field"))
        return read_field(p, s, n);
    if (is(key, len, "scale")) {
        p->area_given = true;
        return range(s, n, &op->scale_min, &op->scale_max) && op->scale_max <= 1;
    }
    if (is(key, len, "ratio")) {
        p->area_given = true;
        return range(s, n, &op->ratio_min, &op->ratio_max);
    }
    *known = false;
    return false;
}

static int read_item(struct parser *p, const char *s, size_t n)
{
    const char *equals = memchr(s, '=', n);
    bool known = true;
    if (equals) {
        size_t len = (size_t)(equals - s);
        if (read_value(p, s, len, equals + 1, n - len - 1, &known))
            return 0;
        return wrong(p, s, n, known ? "no such value" : "no such setting");
    }
    if (is(s, n, "flip"))
        p->op->flip = true;
    else if (is(s, n, "gray"))
        p->op->channels = 1;
    else if (n && s[0] >= '0' && s[0] <= '9')
        return read_size(p, s, n);
    else
        return wrong(p, s, n, "no such setting");
    return 0;
}

/* Settings that are valid alone may contradict each other. */
static int check_whole(struct parser *p, const char *text)
{
    struct stk_image_op *op = p->op;
    size_t n = strlen(text);
    if (op->width && !p->crop_given)
        op->crop = STK_CROP_CENTER;
    if (p->tone_given && !p->dtype_given)
        op->tone.dtype = STK_F32;
    if (p->tone_given && op->tone.dtype == STK_U8)
        return wrong(p, text, n, "mean and std need dtype=float32 or float16");
    if (!op->width && (op->crop != STK_CROP_NONE || op->resize))
        return wrong(p, text, n, "a crop needs a size");
    if (p->area_given && op->crop != STK_CROP_RANDOM)
        return wrong(p, text, n, "scale and ratio are for crop=random");
    if (op->resize && op->crop != STK_CROP_CENTER)
        return wrong(p, text, n, "resize is for crop=center");
    if (op->resize && (op->resize < op->width || op->resize < op->height))
        return wrong(p, text, n, "resize is smaller than what is cut out after it");
    return 0;
}

static int read_items(struct parser *p, const char *text)
{
    const char *s = text + strlen("image");
    if (*s != ':' && *s != ',' && *s != '\0')
        return wrong(p, text, strlen(text), "unknown");
    while (*s) {
        size_t n = strcspn(++s, ",");
        int rc = read_item(p, s, n);
        if (rc != 0)
            return rc;
        s += n;
    }
    return check_whole(p, text);
}

int stk_image_op_parse(const char *text, struct stk_image_op *op, char **field, struct stk_err *err)
{
    struct parser p = {.op = op, .field = field, .err = err};
    *op = (struct stk_image_op){.channels = 3,
                                .scale_min = 0.08,
                                .scale_max = 1,
                                .ratio_min = 3. / 4,
                                .ratio_max = 4. / 3,
                                .tone = {.dtype = STK_U8, .std = {1, 1, 1}}};
    *field = NULL;
    int rc = strncmp(text, "image", 5) == 0 ? read_items(&p, text)
                                            : wrong(&p, text, strlen(text), "unknown");
    if (rc != 0) {
        free(*field);
        *field = NULL;
    }
    return rc;
}
