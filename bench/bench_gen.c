/*
 * bench_gen - writes a TFRecord file of raw records with right checksums, as fast as the disk.
 * Usage: bench_gen FILE RECORDS MIN_BYTES MAX_BYTES. The same arguments give the same bytes.
 * Not a way to make datasets: it shares the checksum with the library it helps to measure.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/random.h"

#define POOL_BYTES (8u << 20) /* payloads are slices of this: past any compressor's window */
#define BUF_BYTES  (4u << 20)

struct gen {
    FILE *file;
    uint8_t *pool;
    uint64_t state;
};

static uint32_t masked_crc(const void *p, size_t n)
{
    uint32_t crc = stk_crc32c(0, p, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static int put_record(struct gen *g, const uint8_t *data, uint64_t len)
{
    uint8_t head[12], foot[4];
    uint32_t crc;

    memcpy(head, &len, 8); /* the machines we measure on are little-endian, as the format */
    crc = masked_crc(head, 8);
    memcpy(head + 8, &crc, 4);
    crc = masked_crc(data, len);
    memcpy(foot, &crc, 4);
    return fwrite(head, sizeof head, 1, g->file) == 1 && fwrite(data, len, 1, g->file) == 1 &&
                   fwrite(foot, sizeof foot, 1, g->file) == 1
               ? 0
               : -1;
}

static int put_records(struct gen *g, uint64_t count, uint64_t min, uint64_t max)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t len = min + stk_random_next(&g->state) % (max - min + 1);
        uint64_t at = stk_random_next(&g->state) % (POOL_BYTES - max);
        if (put_record(g, g->pool + at, len) != 0)
            return -1;
    }
    return fflush(g->file) == 0 && fsync(fileno(g->file)) == 0 ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct gen g = {.state = 1};
    uint64_t count, min, max;
    int rc = 1;

    if (argc != 5) {
        fprintf(stderr, "usage: bench_gen FILE RECORDS MIN_BYTES MAX_BYTES\n");
        return 2;
    }
    count = strtoull(argv[2], NULL, 10);
    min = strtoull(argv[3], NULL, 10);
    max = strtoull(argv[4], NULL, 10);
    if (min < 1 || max < min || max > POOL_BYTES / 2) {
        fprintf(stderr, "bench_gen: 1 <= MIN_BYTES <= MAX_BYTES <= %u\n", POOL_BYTES / 2);
        return 2;
    }
    g.pool = malloc(POOL_BYTES);
    g.file = fopen(argv[1], "wbe");
    if (g.pool && g.file) {
        setvbuf(g.file, NULL, _IOFBF, BUF_BYTES);
        for (size_t i = 0; i < POOL_BYTES; i += 8)
            memcpy(g.pool + i, &(uint64_t){stk_random_next(&g.state)}, 8);
        rc = put_records(&g, count, min, max) == 0 ? 0 : 1;
    }
    if (rc != 0)
        perror(argv[1]);
    if (g.file && fclose(g.file) != 0)
        rc = 1;
    free(g.pool);
    return rc;
}
