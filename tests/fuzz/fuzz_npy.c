/* fuzz_npy.c - an arbitrary file opened as NPY. */
#include "harness.h"

int fuzz_npy(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("npy", data, size);
}
