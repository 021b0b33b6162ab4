/*
 * bench_open - what it costs to open an indexed dataset, seen from inside the process.
 * Usage: bench_open PATH. Prints one JSON object: seconds and private memory for the open, then
 * for the first random reads. Uses nothing but the public header.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stoker.h"

#define READS 100

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Private_Clean + Private_Dirty of the whole process: what would go away with it. */
static long private_kib(void)
{
    char line[256];
    long total = 0, kib;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");

    if (!f)
        return -1;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Private_Clean: %ld", &kib) == 1 ||
            sscanf(line, "Private_Dirty: %ld", &kib) == 1)
            total += kib;
    fclose(f);
    return total;
}

static int fail(const char *what, const struct stk_err *err)
{
    char text[2200];
    fprintf(stderr, "bench_open: %s: %s\n", what, stk_err_text(err, text, sizeof text));
    return 1;
}

int main(int argc, char **argv)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    struct stk_sample *sample = stk_sample_new();
    double start, open_s, reads_s;
    long before_kib, open_kib, reads_kib;

    if (argc != 2 || !sample) {
        fprintf(stderr, "usage: bench_open PATH\n");
        return 2;
    }
    before_kib = private_kib();
    start = now_s();
    if (stk_dataset_open(argv[1], NULL, &ds, &err) != 0)
        return fail("open", &err);
    open_s = now_s() - start;
    open_kib = private_kib();

    start = now_s();
    for (uint64_t i = 0; i < READS; i++)
        if (stk_dataset_read(ds, i * 7919 * 1009 % stk_dataset_len(ds), sample, &err) != 0)
            return fail("read", &err);
    reads_s = now_s() - start;
    reads_kib = private_kib();

    printf("{\"samples\": %" PRIu64 ", \"open_s\": %.6f, \"before_private_kib\": %ld, "
           "\"open_private_kib\": %ld, \"reads\": %d, \"reads_s\": %.6f, "
           "\"reads_private_kib\": %ld}\n",
           stk_dataset_len(ds), open_s, before_kib, open_kib, READS, reads_s, reads_kib);
    stk_dataset_close(ds);
    stk_sample_free(sample);
    return 0;
}
