/*
 * fuzz_squashfs.c - an arbitrary file opened as a squashfs image. libsquashfs reads it in a child
 * process, as it does for users: what is looked for is not its crashes but what they do to us, and
 * whatever the walk makes of tables that it takes for sound.
 */
#include "harness.h"

int fuzz_squashfs(const uint8_t *data, size_t size)
{
    return stk_fuzz_jailed("squashfs", data, size);
}
