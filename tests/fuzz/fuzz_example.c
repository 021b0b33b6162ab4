/* fuzz_example.c - an arbitrary record taken for a tf.train.Example. */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return stk_fuzz_codec("example", data, size);
}
