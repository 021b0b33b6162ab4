/* fuzz_npz.c - an arbitrary file opened as NPZ. */
#include "harness.h"

int fuzz_npz(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("npz", data, size);
}
