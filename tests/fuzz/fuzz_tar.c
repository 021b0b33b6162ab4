/* fuzz_tar.c - an arbitrary file opened as tar / WebDataset. */
#include "harness.h"

int fuzz_tar(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("tar", data, size);
}
