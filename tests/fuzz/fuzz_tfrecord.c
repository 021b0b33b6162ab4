/* fuzz_tfrecord.c - an arbitrary file opened as TFRecord. */
#include "harness.h"

int fuzz_tfrecord(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("tfrecord", data, size);
}
