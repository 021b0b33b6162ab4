/* fuzz_sample.c - the neutral serialisation of samples, read from arbitrary bytes. */
#include "harness.h"

#include <stdlib.h>

int fuzz_sample(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    struct stk_sample s, back;
    struct stk_buf flat = STK_BUF_INIT;
    struct stk_err err = {0};
    size_t used = 0;
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    stk_sample_init(&s);
    stk_sample_init(&back);
    if (stk_sample_unflatten(&s, copy, size, &used, &err) == 0) {
        if (used > size)
            stk_fuzz_broken("a sample ends within the bytes it is read from");
        if (stk_sample_flatten(&s, &flat, &err) == 0 &&
            stk_sample_unflatten(&back, flat.data, flat.len, &used, &err) != 0)
            stk_fuzz_broken("a flattened sample can be read");
    }
    stk_sample_release(&s);
    stk_sample_release(&back);
    stk_buf_release(&flat);
    free(copy);
    return 0;
}
