/* test_crc32c.c - CRC-32C against the values of RFC 3720 and against bit by bit arithmetic: lengths
 * around the blocks of the fast way, at every alignment. */
#include "check.h"
#include "base/crc32c.h"

#include <stdlib.h>

static uint32_t slow(uint32_t crc, const uint8_t *p, size_t n)
{
    crc = ~crc;
    for (; n; n--, p++) {
        crc ^= *p;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static void known_values(void)
{
    uint8_t b[32];
    CHECK_INT(stk_crc32c(0, "123456789", 9), 0xe3069283u);
    CHECK_INT(stk_crc32c(0, "", 0), 0);
    memset(b, 0, sizeof b);
    CHECK_INT(stk_crc32c(0, b, sizeof b), 0x8a9136aau);
    memset(b, 0xff, sizeof b);
    CHECK_INT(stk_crc32c(0, b, sizeof b), 0x62a8ab43u);
    for (int i = 0; i < 32; i++)
        b[i] = (uint8_t)i;
    CHECK_INT(stk_crc32c(0, b, sizeof b), 0x46dd794eu);
}

int main(void)
{
    known_values();
    static const size_t lengths[] = {1,   7,    8,    9,     255,   256,   767,   768,   769,
                                     776, 4095, 4096, 12287, 12288, 12289, 13063, 24576, 40000};
    uint8_t *data = malloc(40016);
    uint32_t seed = 1;
    for (size_t i = 0; data && i < 40016; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = (uint8_t)(seed >> 24);
    }
    for (size_t i = 0; data && i < sizeof lengths / sizeof *lengths; i++)
        for (size_t shift = 0; shift < 9; shift += 1 + shift / 2) {
            const uint8_t *p = data + shift;
            size_t n = lengths[i], half = n / 3;
            uint32_t want = slow(0, p, n);
            CHECK_INT(stk_crc32c(0, p, n), want);
            CHECK_INT(stk_crc32c(stk_crc32c(0, p, half), p + half, n - half), want);
        }
    free(data);
    return CHECK_DONE();
}
