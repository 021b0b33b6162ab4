/*
 * bench_load - the loader flat out, through the public header alone: what a C program gets.
 * Usage: bench_load [options] PATH, see usage(). Looks at the address and length of every sample
 * (the checksums have read the bytes) and prints one JSON object with seconds from open to first
 * batch, seconds of each epoch, CPU seconds and the loader's own counters.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "stoker.h"

#define MAX_EPOCHS 100

struct run {
    struct stk_open_options open;
    struct stk_loader_options options;
    unsigned epochs;
    uint64_t batches; /* stop after so many; 0: never */
    uint64_t step_us; /* a step of the training that uses a batch: nothing else happens */
    uint64_t samples, bytes, given;
    double start, open_s, first_s, epoch_s[MAX_EPOCHS];
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_load [-b BATCH] [-e EPOCHS] [-n BATCHES] [-t THREADS] [-q DEPTH]\n"
            "                  [-s block|global|none] [-i IO] [-d DECODE] [-p PAYLOAD]\n"
            "                  [-r READ_BYTES] [-m MEMORY_BYTES] [-w STEP_US] [-u] PATH\n"
            "-u: do not compare checksums; -w: what a training step takes\n");
    return 2;
}

static int shuffle_of(const char *name)
{
    return strcmp(name, "none") == 0     ? STK_SHUFFLE_NONE
           : strcmp(name, "global") == 0 ? STK_SHUFFLE_GLOBAL
           : strcmp(name, "block") == 0  ? STK_SHUFFLE_BLOCK
                                         : -1;
}

static void set_number(struct run *r, int letter, uint64_t n)
{
    switch (letter) {
    case 'b':
        r->options.batch = (uint32_t)n;
        break;
    case 'e':
        r->epochs = (unsigned)n;
        break;
    case 'n':
        r->batches = n;
        break;
    case 't':
        r->options.threads = (uint32_t)n;
        break;
    case 'q':
        r->options.depth = (uint32_t)n;
        break;
    case 'r':
        r->options.read_bytes = n;
        break;
    case 'm':
        r->options.memory_bytes = n;
        break;
    case 'w':
        r->step_us = n;
        break;
    default:
        break;
    }
}

static int parse(struct run *r, int argc, char **argv)
{
    int letter;

    while ((letter = getopt(argc, argv, "b:e:n:t:q:s:i:d:p:r:m:w:u")) != -1) {
        switch (letter) {
        case '?':
            return -1;
        case 's':
            r->options.shuffle = shuffle_of(optarg);
            break;
        case 'i':
            r->options.io = optarg;
            break;
        case 'd':
            r->options.decode = optarg;
            break;
        case 'p':
            r->open.payload = optarg;
            break;
        case 'u':
            r->options.no_check = true;
            break;
        default:
            set_number(r, letter, strtoull(optarg, NULL, 10));
        }
    }
    r->options.epochs = r->epochs;
    return r->options.shuffle >= 0 && r->epochs >= 1 && r->epochs <= MAX_EPOCHS &&
                   optind + 1 == argc
               ? 0
               : -1;
}

static int fail(const char *what, const struct stk_err *err)
{
    char text[2200];
    fprintf(stderr, "bench_load: %s: %s\n", what, stk_err_text(err, text, sizeof text));
    return 1;
}

static void look_at(struct run *r, const struct stk_batch *b)
{
    for (size_t c = 0; c < b->ncolumns; c++) {
        const struct stk_column *col = &b->column[c];
        uint64_t size = col->layout == STK_DENSE ? stk_dtype_size(col->dtype) * b->n : 0;
        for (size_t d = 0; d < col->ndim; d++)
            size *= col->dim[d];
        for (size_t i = 0; col->layout == STK_SPANS && i < b->n; i++)
            size += col->span[i].data ? col->span[i].size : 0;
        for (size_t i = 0; col->layout == STK_VALUES && i < b->n; i++)
            size += col->value[i].data ? col->value[i].size : 0;
        r->bytes += size;
    }
    r->samples += b->n;
}

/* One epoch, or what is left of -n. Returns 1, 0 when -n is reached, negative on an error. */
static int epoch(struct run *r, struct stk_loader *ld, double *seconds, struct stk_err *err)
{
    struct stk_batch *b;
    double start = now_s();
    int rc;

    while ((rc = stk_loader_next(ld, &b, err)) == 1) {
        if (r->given++ == 0)
            r->first_s = now_s() - r->start;
        look_at(r, b);
        if (r->step_us)
            usleep((useconds_t)r->step_us);
        stk_batch_release(b);
        if (r->given == r->batches)
            break;
    }
    *seconds = now_s() - start;
    return rc < 0 ? rc : rc == 0;
}

static void report(const struct run *r, unsigned epochs, double cpu, struct stk_loader *ld)
{
    struct stk_loader_stats s;

    stk_loader_stats(ld, &s);
    printf("{\"samples\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"open_s\": %.6f, "
           "\"first_batch_s\": %.6f, \"cpu_s\": %.6f, \"epoch_s\": [",
           r->samples, r->bytes, r->open_s, r->first_s, cpu);
    for (unsigned i = 0; i < epochs; i++)
        printf("%s%.6f", i ? ", " : "", r->epoch_s[i]);
    printf("], \"io\": \"%s\", \"depth\": %.1f, \"reads\": %" PRIu64 ", \"bytes_asked\": %" PRIu64
           ", \"bytes_read\": %" PRIu64 ", \"stall_s\": %.6f, \"decode_s\": %.6f, \"threads\": %u, "
           "\"memory_peak_bytes\": %" PRIu64 "}\n",
           s.io, s.depth, s.reads, s.bytes_asked, s.bytes_read, (double)s.stall_ns * 1e-9,
           (double)s.decode_ns * 1e-9, s.threads, s.memory_peak_bytes);
}

int main(int argc, char **argv)
{
    struct run r = {.epochs = 1, .options = {.batch = 256, .shuffle = STK_SHUFFLE_NONE}};
    struct stk_dataset *ds = NULL;
    struct stk_loader *ld = NULL;
    struct stk_err err = {0};
    unsigned n = 0;
    double cpu;
    int rc;

    if (parse(&r, argc, argv) != 0)
        return usage();
    r.start = now_s();
    if (stk_dataset_open(argv[optind], &r.open, &ds, &err) != 0)
        return fail("open", &err);
    r.open_s = now_s() - r.start;
    cpu = cpu_s();
    if (stk_loader_open(ds, &r.options, &ld, &err) != 0) {
        stk_dataset_close(ds);
        return fail("loader", &err);
    }
    /* The first epoch begins when the loader is opened: its threads read from then on. */
    double opened = now_s() - r.start - r.open_s;
    do {
        rc = epoch(&r, ld, &r.epoch_s[n], &err);
        n++;
    } while (rc == 1 && n < r.epochs);
    r.epoch_s[0] += opened;
    if (rc >= 0)
        report(&r, n, cpu_s() - cpu, ld);
    stk_loader_close(ld);
    stk_dataset_close(ds);
    return rc < 0 ? fail("next", &err) : 0;
}
