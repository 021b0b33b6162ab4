/*
 * chars.c - values in slots of fixed size: padded strings, and arrays that differ in shape
 * from sample to sample.
 *
 * "chars:S" drops zero bytes at the end, "chars:Z" everything from the first zero byte on,
 * "chars:P" spaces at the end, "chars:U" is UTF-32 (little-endian, zero padded) and becomes UTF-8.
 * "shape:..." changes nothing: it distinguishes fields of one name and several shapes.
 */
#include "base/text.h"
#include "format/format.h"
#include "format/sample.h"

static size_t without_padding(char how, const uint8_t *p, size_t n)
{
    if (how == 'Z')
        return strnlen((const char *)p, n);
    size_t unit = how == 'U' ? 4 : 1;
    uint8_t pad = how == 'P' ? ' ' : 0;
    n -= n % unit;
    for (; n; n -= unit)
        for (size_t i = 1; i <= unit; i++)
            if (p[n - i] != pad)
                return n;
    return n;
}

static int from_utf32(const struct stk_field_spec *spec, const uint8_t *p, size_t n,
                      struct stk_sample *s, const uint8_t **out, size_t *out_len,
                      struct stk_err *err)
{
    char *to = stk_arena_alloc(&s->arena, n + 1);
    if (!to)
        return stk_err_nomem(err, n);
    size_t len = 0;
    for (size_t i = 0; i + 4 <= n; i += 4) {
        uint32_t cp = stk_le32(p + i);
        if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
            return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "'%.*s' is not Unicode",
                               (int)spec->name_len, spec->name);
        len += stk_utf8_put(to + len, cp);
    }
    *out = (const uint8_t *)to;
    *out_len = len;
    return 0;
}

static int arrange(const struct stk_field_spec *spec, const char *context, size_t context_len,
                   const uint8_t *p, size_t n, struct stk_sample *s, const uint8_t **out,
                   size_t *out_len, struct stk_err *err)
{
    (void)context, (void)context_len;
    char how = spec->codec[strlen("chars:")];
    n = without_padding(how, p, n);
    *out = p;
    *out_len = n;
    return how == 'U' ? from_utf32(spec, p, n, s, out, out_len, err) : 0;
}

const struct stk_codec stk_codec_chars = {
    .name = "chars", .title = "string of fixed size", .arrange = arrange};

static int as_it_is(const struct stk_field_spec *spec, const char *context, size_t context_len,
                    const uint8_t *p, size_t n, struct stk_sample *s, const uint8_t **out,
                    size_t *out_len, struct stk_err *err)
{
    (void)spec, (void)context, (void)context_len, (void)s, (void)err;
    *out = p;
    *out_len = n;
    return 0;
}

const struct stk_codec stk_codec_shape = {
    .name = "shape", .title = "array of any shape", .arrange = as_it_is};
