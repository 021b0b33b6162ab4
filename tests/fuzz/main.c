/*
 * main.c - all fuzz targets as one program: `fuzz TARGET ...`. With libFuzzer (clang, -Dfuzz=true)
 * the rest of the line is its options. Without it the rest is `RUNS FILE...`: each file as it is,
 * then RUNS changes of the files in turn, the same ones every time: what this finds does not depend
 * on the machine's speed.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/random.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} targets[] = {
#define TARGET(name) {#name, fuzz_##name},
    FUZZ_TARGETS(TARGET)
#undef TARGET
};

static const struct target *target;

static const struct target *find(const char *name)
{
    for (size_t i = 0; name && i < sizeof targets / sizeof *targets; i++)
        if (strcmp(targets[i].name, name) == 0)
            return &targets[i];
    fprintf(stderr, "usage: fuzz TARGET ...; the targets:");
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        fprintf(stderr, " %s", targets[i].name);
    fprintf(stderr, "\n");
    exit(2);
}

/* The name goes from the command line into the environment: libFuzzer starts itself again to
 * minimise what it found, with the options that are left. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("STOKER_FUZZ_TARGET");
    if (!name && *argc > 1) {
        name = (*argv)[1];
        setenv("STOKER_FUZZ_TARGET", name, 1);
        (*argv)[1] = (*argv)[0];
        (*argv)++;
        (*argc)--;
    }
    target = find(name);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return target->run(data, size);
}

#ifndef STK_LIBFUZZER
/* Of the sanitizers, where there are some. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

#define INPUT_MAX (1u << 20)

static struct stk_buf *seeds;
static size_t nseeds;
static uint64_t dice;
/* What runs now, for the case that it is the last. */
static struct {
    const char *file;
    unsigned long run; /* 0: the file as it is */
    const uint8_t *data;
    size_t size;
} now;

/* Called when a sanitizer ends the process; abort() comes here too (handle_abort=1). */
static void keep_input(void)
{
    const char *folder = getenv("STOKER_FUZZ_FOUND");
    char path[600];
    snprintf(path, sizeof path, "%s/%s-crash", folder ? folder : ".", target->name);
    FILE *f = fopen(path, "wb");
    if (f) {
        fwrite(now.data, 1, now.size, f);
        fclose(f);
    }
    fprintf(stderr, "%s: %s, change %lu; the input is in %s\n", target->name, now.file, now.run,
            path);
}

static size_t below(size_t n)
{
    return n ? (size_t)(stk_random_next(&dice) % n) : 0;
}

/* Overwrites up to eight bytes with a number that parsers stumble over. */
static void put_number(uint8_t *p, size_t n)
{
    static const uint64_t odd[] = {0,         1,          0x7f,       0x80,      0xff,
                                   0x7fff,    0xffff,     0x7fffffff, 1u << 31,  UINT32_MAX,
                                   INT64_MAX, 1ull << 63, UINT64_MAX, 1ull << 32};
    uint64_t v = odd[below(sizeof odd / sizeof *odd)] + below(3) - 1;
    size_t width = (size_t)1 << below(4);
    for (size_t i = 0; i < width && i < n; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static void cut_out(struct stk_buf *b)
{
    size_t at = below(b->len), n = 1 + below(below(2) ? b->len - at : 16);
    n = n < b->len - at ? n : b->len - at;
    memmove(b->data + at, b->data + at + n, b->len - at - n);
    b->len -= n;
}

/* A stretch of some seed, put in or laid over. */
static void splice_in(struct stk_buf *b, bool over)
{
    const struct stk_buf *from = &seeds[below(nseeds)];
    if (!from->len)
        return;
    size_t start = below(from->len), n = 1 + below(from->len - start), at = below(b->len + 1);
    if (over) {
        memcpy(b->data + at, from->data + start, n < b->len - at ? n : b->len - at);
        return;
    }
    if (b->len + n > INPUT_MAX)
        return;
    size_t tail = b->len - at;
    stk_buf_put(b, from->data + start, n); /* makes room */
    memmove(b->data + at + n, b->data + at, tail);
    memcpy(b->data + at, from->data + start, n);
}

static void change(struct stk_buf *b)
{
    size_t at = below(b->len);
    switch (b->len ? below(7) : 6) {
    case 0:
        b->data[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        b->data[at] = (uint8_t)below(256);
        break;
    case 2:
        put_number(b->data + at, b->len - at);
        break;
    case 3:
        cut_out(b);
        break;
    case 4:
        b->len = at;
        break;
    case 5:
        splice_in(b, true);
        break;
    default:
        splice_in(b, false);
        break;
    }
}

/* From memory of just the right size: ASan watches its end. */
static void run(const struct stk_buf *b, const char *file, unsigned long nth)
{
    uint8_t *copy = malloc(b->len ? b->len : 1);
    if (b->len)
        memcpy(copy, b->data, b->len);
    now.file = file;
    now.run = nth;
    now.data = copy;
    now.size = b->len;
    target->run(copy, b->len);
    free(copy);
}

static void read_seed(const char *path)
{
    struct stk_err err;
    if (STK_ARRAY_MORE(seeds, nseeds, &err) != 0)
        exit(1);
    seeds[nseeds] = (struct stk_buf)STK_BUF_INIT;
    if (stk_read_file(path, INPUT_MAX, &seeds[nseeds++], &err) != 0) {
        fprintf(stderr, "%s: %s\n", path, err.what);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    LLVMFuzzerInitialize(&argc, &argv);
    unsigned long runs = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    struct stk_buf b = STK_BUF_INIT;
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_input);
    for (int i = 2; i < argc; i++)
        read_seed(argv[i]);
    for (size_t i = 0; i < nseeds; i++)
        run(&seeds[i], argv[2 + i], 0);
    for (unsigned long i = 0; nseeds && i < runs; i++) {
        const struct stk_buf *seed = &seeds[i % nseeds];
        stk_buf_reset(&b);
        stk_buf_put(&b, seed->data, seed->len);
        for (size_t n = 1 + below(4); n; n--)
            change(&b);
        run(&b, argv[2 + i % nseeds], i + 1);
    }
    printf("%s: %zu files, %lu changes\n", target->name, nseeds, runs);
    for (size_t i = 0; i < nseeds; i++)
        stk_buf_release(&seeds[i]);
    free(seeds);
    stk_buf_release(&b);
    return 0;
}
#endif
