/* fuzz_example.c - an arbitrary record taken for a tf.train.Example, and for the start of one. */
#include "harness.h"

#include "format/codec/example.h"

int fuzz_example(const uint8_t *data, size_t size)
{
    stk_example_guess_large(data, size, size);
    stk_example_guess_large(data, size, size + 100);
    return stk_fuzz_codec("example", data, size);
}
