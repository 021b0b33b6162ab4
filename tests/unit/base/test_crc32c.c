/* test_crc32c.c - CRC-32C: each way this CPU has, against the values of RFC 3720 and against bit by
 * bit arithmetic. Were one wrong, good data would be called corrupt on some machines, or corrupt
 * data good; were it to read a byte too many, a mapped file would end in a crash. */
#include "check.h"
#include "base/hash.h"
#include "base/crc32c_priv.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST 4100u
#define ALIGNED 64u

static uint32_t slow(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n; n--, p++) {
        crc ^= *p;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return crc;
}

static void fill(uint8_t *p, size_t n)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (uint8_t)(seed >> 24);
    }
}

/* Threads that all want the first CRC of the process get the right one. */
static void *first(void *arg)
{
    *(uint32_t *)arg = stk_crc32c(0, "123456789", 9);
    return NULL;
}

static void first_use(void)
{
    pthread_t t[4];
    uint32_t got[4] = {0};
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&t[i], NULL, first, &got[i]) == 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        CHECK_INT(got[i], 0xe3069283u);
    }
}

static void known_values(uint32_t (*extend)(uint32_t, const uint8_t *, size_t))
{
    uint8_t b[4][32];
    for (int i = 0; i < 32; i++) {
        b[0][i] = 0;
        b[1][i] = 0xff;
        b[2][i] = (uint8_t)i;
        b[3][i] = (uint8_t)(31 - i);
    }
    static const uint32_t want[4] = {0x8a9136aau, 0x62a8ab43u, 0x46dd794eu, 0x113fdb5cu};
    for (int i = 0; i < 4; i++)
        CHECK_INT(~extend(~0u, b[i], 32), want[i]);
    CHECK_INT(~extend(~0u, (const uint8_t *)"123456789", 9), 0xe3069283u);
    CHECK_INT(extend(0x12345678u, b[0], 0), 0x12345678u);
}

/* Every length at every alignment, and a register that is not the initial one. */
static void lengths(const struct stk_crc32c_way *way, const uint8_t *data)
{
    for (size_t at = 0; at < ALIGNED; at++) {
        uint32_t begin = at % 3 ? 0x9e3779b9u * (uint32_t)at : ~0u, want = begin;
        size_t bad = 0;
        for (size_t n = 0; n <= LONGEST; n++) {
            bad += way->extend(begin, data + at, n) != want;
            want = slow(want, data + at + n, 1);
        }
        CHECK_INT(bad, 0);
    }
}

/* A CRC of two pieces is that of the whole, wherever it was cut. */
static void splits(const struct stk_crc32c_way *way, const uint8_t *data)
{
    static const size_t sizes[] = {40, 300, 1111, 2048};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        uint32_t want = slow(~0u, data, sizes[k]);
        size_t bad = 0;
        for (size_t cut = 0; cut <= sizes[k]; cut++) {
            uint32_t crc = way->extend(~0u, data, cut);
            bad += way->extend(crc, data + cut, sizes[k] - cut) != want;
        }
        CHECK_INT(bad, 0);
    }
}

/* Nothing before or behind the bytes is read: pages that cannot be, and the sanitizer's eyes. */
static void bounds(const struct stk_crc32c_way *way, const uint8_t *data)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (LONGEST + page) / page * page, bad = 0;
    uint8_t *map =
        mmap(NULL, room + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    if (map == MAP_FAILED)
        return;
    CHECK(mprotect(map, page, PROT_NONE) == 0);
    CHECK(mprotect(map + page + room, page, PROT_NONE) == 0);
    uint8_t *begin = map + page, *end = begin + room;
    for (size_t n = 0; n <= LONGEST; n++) {
        memcpy(end - n, data, n);
        uint32_t want = way->extend(~0u, data, n);
        bad += way->extend(~0u, end - n, n) != want;
        memcpy(begin, data, n);
        bad += way->extend(~0u, begin, n) != want;
    }
    for (size_t n = 1; n < 1200; n++) {
        uint8_t *exact = malloc(n);
        if (!exact)
            break;
        memcpy(exact, data, n);
        bad += way->extend(~0u, exact, n) != way->extend(~0u, data, n);
        free(exact);
    }
    CHECK_INT(bad, 0);
    munmap(map, room + 2 * page);
}

static void large(const struct stk_crc32c_way *way)
{
    size_t size = (1u << 20) + 77;
    uint8_t *p = malloc(size);
    CHECK(p != NULL);
    if (!p)
        return;
    fill(p, size);
    uint32_t want = slow(~0u, p, size);
    CHECK_INT(way->extend(~0u, p, size), want);
    CHECK_INT(~stk_crc32c(0, p, size), want);
    p[size / 2] ^= 16;
    CHECK(way->extend(~0u, p, size) != want);
    free(p);
}

/* What the constants of the fast ways are made with. */
static void powers(void)
{
    CHECK_INT(stk_crc32c_power(0), 1u << 31);
    CHECK_INT(stk_crc32c_power(32), 0x82f63b78u);
    CHECK_INT(stk_crc32c_power(STK_CRC32C_ORDER), 1u << 31);
    CHECK_INT(stk_crc32c_times(stk_crc32c_power(1000), stk_crc32c_power(77)),
              stk_crc32c_power(1077));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(first_use);
    CHECK_RUN(powers);
    static uint8_t data[ALIGNED + LONGEST + 1];
    fill(data, sizeof data);
    struct stk_crc32c_way ways[STK_CRC32C_WAYS];
    size_t n = stk_crc32c_ways(ways);
    for (size_t i = 0; i < n; i++) {
        CHECK_FOR(ways[i].name, known_values, ways[i].extend);
        CHECK_FOR(ways[i].name, lengths, &ways[i], data);
        CHECK_FOR(ways[i].name, splits, &ways[i], data);
        CHECK_FOR(ways[i].name, bounds, &ways[i], data);
        CHECK_FOR(ways[i].name, large, &ways[i]);
    }
    return CHECK_DONE();
}
