/* fuzz_jsonl.c - an arbitrary file opened as JSON Lines. */
#include "harness.h"

int fuzz_jsonl(const uint8_t *data, size_t size)
{
    return stk_fuzz_format("jsonl", data, size);
}
