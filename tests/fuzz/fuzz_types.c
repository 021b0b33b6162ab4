/* fuzz_types.c - samples of JSON Lines brought into one type for a field: what was decided must
 * hold for every sample it was decided over. The first byte says what the target holds. */
#include "format/codec/types.h"
#include "harness.h"

#define LINES 16u

static void name_sample(void *user, uint64_t at, char *to, size_t n)
{
    (void)user, (void)at;
    if (n)
        *to = '\0';
}

/* The next line as a sample; false: there is none that is one. */
static bool next_sample(const uint8_t **p, const uint8_t *end, struct stk_sample *s)
{
    const struct stk_codec *json = stk_codec_find("json");
    struct stk_err err;
    while (*p < end) {
        const uint8_t *nl = memchr(*p, '\n', (size_t)(end - *p)), *from = *p;
        const uint8_t *to = nl ? nl : end;
        *p = nl ? nl + 1 : end;
        stk_sample_reset(s);
        if (json->explode("", 0, from, (size_t)(to - from), s, &err) == 0)
            return true;
    }
    return false;
}

int fuzz_types(const uint8_t *data, size_t size)
{
    struct stk_types t = {0};
    struct stk_sample s;
    struct stk_err err;
    if (!size)
        return 0;
    const uint8_t *p = data + 1, *end = data + size;
    const struct stk_types_target to = {
        .holds = *data & 0x1fu, .title = "", .lenient = *data & 0x20, .name = name_sample};
    stk_sample_init(&s);
    for (uint64_t i = 0; i < LINES && next_sample(&p, end, &s); i++)
        (void)stk_types_note(&t, &s, i, &err);
    if (stk_types_settle(&t, &to, &err) == 0) {
        p = data + 1;
        for (uint64_t i = 0; i < LINES && next_sample(&p, end, &s); i++) {
            int rc = stk_types_convert(&t, &s, &err);
            if (rc < 0 && rc != STK_E_NOMEM && !to.lenient)
                stk_fuzz_broken("a sample fits the types that were decided over it");
            stk_fuzz_touch_sample(&s);
        }
    }
    stk_sample_release(&s);
    stk_types_release(&t);
    return 0;
}
