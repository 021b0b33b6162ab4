/* fuzz_datum.c - an arbitrary record taken for a Caffe Datum. */
#include "harness.h"

int fuzz_datum(const uint8_t *data, size_t size)
{
    return stk_fuzz_codec("datum", data, size);
}
