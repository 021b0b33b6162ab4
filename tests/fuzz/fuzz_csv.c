/* fuzz_csv.c - an arbitrary file opened as CSV. */
#include "harness.h"

int fuzz_csv(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("csv", data, size);
}
