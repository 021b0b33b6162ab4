/* fuzz_recordio.c - an arbitrary file opened as MXNet RecordIO. */
#include "harness.h"

int fuzz_recordio(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("recordio", data, size);
}
