/* fuzz_sequence.c - an arbitrary record taken for a tf.train.SequenceExample. */
#include "harness.h"

int fuzz_sequence(const uint8_t *data, size_t size)
{
    return stk_fuzz_codec("sequence", data, size);
}
