/*
 * fuzz_codec.c - every codec that takes a context (the columns of a CSV) or has no target of its
 * own. Input: codec number, length of the context, context, record. The context comes from an
 * index, so it is as hostile as the record.
 */
#include "harness.h"

#include <stdlib.h>

#include "format/csv/csv.h"

static void merge(const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct stk_buf out = STK_BUF_INIT;
    struct stk_err err = {0};
    stk_csv_context_merge(a, a_len, b, b_len, &out, &err);
    stk_buf_release(&out);
}

int fuzz_codec(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t ncodecs = 0;
    while (stk_codec_at(ncodecs))
        ncodecs++;
    const struct stk_codec *c = stk_codec_at(data[0] % ncodecs);
    size_t context_len = data[1] < size - 2 ? data[1] : size - 2, n = size - 2 - context_len;
    char *context = malloc(context_len + 1);
    uint8_t *record = malloc(n + 1);
    if (!context || !record || !c->explode) {
        free(context);
        free(record);
        return 0;
    }
    memcpy(context, data + 2, context_len);
    memcpy(record, data + 2 + context_len, n);
    if (strcmp(c->name, "csv") == 0) /* contexts of two files of a dataset are merged */
        merge(context, context_len, (const char *)record, n);
    struct stk_sample s;
    struct stk_buf out = STK_BUF_INIT;
    struct stk_err err = {0};
    stk_sample_init(&s);
    if (c->bid)
        c->bid(record, n);
    if (c->explode(context, context_len, record, n, &s, &err) == 0) {
        stk_fuzz_touch_sample(&s);
        for (size_t i = 0; i < ncodecs; i++) /* any record may be packed into any other */
            if (stk_codec_at(i)->implode)
                stk_codec_at(i)->implode(&s, &out, &err);
    }
    stk_buf_release(&out);
    stk_sample_release(&s);
    free(context);
    free(record);
    return 0;
}
