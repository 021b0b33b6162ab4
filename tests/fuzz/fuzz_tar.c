/* fuzz_tar.c - an arbitrary file opened as tar / WebDataset. */
#include "harness.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("tar", data, size);
}
