/* fuzz_tsv.c - an arbitrary file opened as TSV. */
#include "harness.h"

int fuzz_tsv(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("tsv", data, size);
}
