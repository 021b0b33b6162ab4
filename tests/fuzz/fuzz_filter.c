/*
 * fuzz_filter.c - filter chains on arbitrary bytes. Input: number of steps, id and argument of
 * each, then the stored bytes.
 */
#include "harness.h"

#include <stdlib.h>

#define MAX_DECODED (1u << 20)

static void decode(const struct stk_chain *c, const uint8_t *in, size_t n)
{
    struct stk_buf out = STK_BUF_INIT, scratch = STK_BUF_INIT;
    struct stk_err err = {0};
    if (stk_filter_decode(c, in, n, &out, &scratch, "fuzz", 0, &err) == 0) {
        if (c->max_decoded && out.len > c->max_decoded)
            stk_fuzz_broken("a filter keeps to the limit");
        stk_fuzz_touch(out.data, out.len);
    }
    stk_buf_release(&out);
    stk_buf_release(&scratch);
}

static void round_trip(uint16_t id, const uint8_t *in, size_t n)
{
    struct stk_buf packed = STK_BUF_INIT, out = STK_BUF_INIT, scratch = STK_BUF_INIT;
    struct stk_chain c = {.nsteps = 1, .step[0].id = id, .max_decoded = MAX_DECODED};
    struct stk_err err = {0};
    if (stk_filter_encode((enum stk_filter_id)id, 0, in, n, &packed, &err) == 0 &&
        n <= MAX_DECODED &&
        (stk_filter_decode(&c, packed.data, packed.len, &out, &scratch, "fuzz", 0, &err) ||
         out.len != n || (n && memcmp(out.data, in, n))))
        stk_fuzz_broken("what a filter packs it unpacks");
    stk_buf_release(&packed);
    stk_buf_release(&out);
    stk_buf_release(&scratch);
}

int fuzz_filter(const uint8_t *data, size_t size)
{
    struct stk_chain c = {.max_decoded = MAX_DECODED};
    if (!size)
        return 0;
    c.nsteps = data[0] % (STK_CHAIN_MAX + 1);
    size_t head = 1 + 2 * (size_t)c.nsteps;
    if (size < head)
        return 0;
    for (uint32_t i = 0; i < c.nsteps; i++) {
        c.step[i].id = data[1 + 2 * i] % 16; /* a few past the last one that exists */
        c.step[i].arg = data[2 + 2 * i];
    }
    size_t n = size - head;
    uint8_t *in = malloc(n + 1);
    if (!in)
        return 0;
    memcpy(in, data + head, n);
    decode(&c, in, n);
    if (c.nsteps)
        round_trip(c.step[0].id, in, n);
    free(in);
    return 0;
}
