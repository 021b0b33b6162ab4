/* fuzz_json.c - an arbitrary file opened as a JSON array. */
#include "harness.h"

int fuzz_json(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("json", data, size);
}
