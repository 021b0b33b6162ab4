/*
 * bench_jpeg - how fast JPEGs become pixels on one thread: libjpeg's own loop (decode all of it to
 * RGB) against stk_image_decode(), over the same files in memory, round by round.
 * Usage: bench_jpeg [-r ROUNDS] [-d DECODE]... FILE|FOLDER... Prints images/s, medians of the
 * rounds.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "image/image.h"

#ifndef STK_HAVE_JPEG

int main(void)
{
    fprintf(stderr, "bench_jpeg: built without libjpeg\n");
    return 4;
}

#else

#include <jpeglib.h>

#define MAX_FILES   10000
#define MAX_DECODES 8
#define MAX_ROUNDS  101

struct bench {
    struct stk_buf file[MAX_FILES];
    size_t nfiles;
    const char *text[MAX_DECODES];
    size_t ntexts;
    int rounds;
    uint8_t *out; /* large enough for any of them */
    size_t out_size;
    struct stk_image *im;
    uint64_t key;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "bench_jpeg: %s\n", what);
    exit(4);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* other programs' turns do not count */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- the two contestants ---- */

/* As a program that knows its JPEGs are good would write it. */
static void by_libjpeg(struct bench *b, const struct stk_buf *file)
{
    static struct jpeg_decompress_struct d;
    static struct jpeg_error_mgr errors;
    if (!d.err) {
        d.err = jpeg_std_error(&errors);
        jpeg_create_decompress(&d);
    }
    jpeg_mem_src(&d, file->data, file->len);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    size_t stride = (size_t)d.output_width * 3;
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = b->out + d.output_scanline * stride;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
}

static void by_stoker(struct bench *b, const struct stk_buf *file, const struct stk_image_op *op)
{
    struct stk_err err = {0};
    uint32_t w, h;
    if (stk_image_size(b->im, file->data, file->len, op, &w, &h, &err) != 0 ||
        stk_image_decode(b->im, file->data, file->len, op, b->key++, b->out,
                         (size_t)w * h * op->channels, &err) != 0)
        fail(err.what);
}

/* ---- rounds ---- */

static double rate(struct bench *b, const struct stk_image_op *op)
{
    double start = seconds();
    for (size_t i = 0; i < b->nfiles; i++) {
        if (op)
            by_stoker(b, &b->file[i], op);
        else
            by_libjpeg(b, &b->file[i]);
    }
    return (double)b->nfiles / (seconds() - start);
}

static int smaller(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, smaller);
    return v[n / 2];
}

static void run(struct bench *b)
{
    static double rates[MAX_DECODES + 1][MAX_ROUNDS];
    struct stk_image_op op[MAX_DECODES];
    struct stk_err err = {0};
    char *field = NULL;
    for (size_t i = 0; i < b->ntexts; i++) {
        if (stk_image_op_parse(b->text[i], &op[i], &field, &err) != 0)
            fail(err.what);
        free(field);
    }
    for (int r = -1; r < b->rounds; r++) /* round -1 warms up */
        for (size_t i = 0; i <= b->ntexts; i++)
            rates[i][r < 0 ? 0 : r] = rate(b, i ? &op[i - 1] : NULL);
    double base = median(rates[0], b->rounds);
    printf("%10.1f images/s  100.0 %%  libjpeg, all of it to RGB\n", base);
    for (size_t i = 0; i < b->ntexts; i++) {
        double mine = median(rates[i + 1], b->rounds);
        printf("%10.1f images/s  %5.1f %%  %s\n", mine, 100 * mine / base, b->text[i]);
    }
}

/* ---- files ---- */

static void add_file(struct bench *b, const char *path)
{
    struct stk_err err = {0};
    struct stk_image_op op = {.channels = 3};
    uint32_t w, h;
    if (b->nfiles == MAX_FILES)
        fail("too many files");
    struct stk_buf *f = &b->file[b->nfiles++];
    if (stk_read_file(path, 1u << 30, f, &err) != 0 ||
        stk_image_size(b->im, f->data, f->len, &op, &w, &h, &err) != 0)
        fail(err.what);
    size_t size = (size_t)w * h * 3;
    b->out_size = size > b->out_size ? size : b->out_size;
}

static void add_path(struct bench *b, const char *path)
{
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    if (n < 0) {
        add_file(b, path);
        return;
    }
    for (int i = 0; i < n; i++) {
        char *file = stk_path_join(path, names[i]->d_name);
        if (file && names[i]->d_name[0] != '.')
            add_file(b, file);
        free(file);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    static struct bench b = {.rounds = 5};
    int c;
    while ((c = getopt(argc, argv, "r:d:")) != -1) {
        if (c == 'r' && atoi(optarg) >= 1 && atoi(optarg) <= MAX_ROUNDS)
            b.rounds = atoi(optarg);
        else if (c == 'd' && b.ntexts < MAX_DECODES)
            b.text[b.ntexts++] = optarg;
        else
            return 2;
    }
    if (optind == argc) {
        fprintf(stderr, "usage: bench_jpeg [-r ROUNDS] [-d DECODE]... FILE|FOLDER...\n");
        return 2;
    }
    if (b.ntexts == 0) {
        b.text[b.ntexts++] = "image";
        b.text[b.ntexts++] = "image:224,crop=random,flip";
    }
    if (stk_image_new(&b.im, NULL) != 0)
        fail("no memory");
    for (int i = optind; i < argc; i++)
        add_path(&b, argv[i]);
    b.out_size = b.out_size > 16u << 20 ? b.out_size : 16u << 20;
    b.out = malloc(b.out_size);
    if (!b.nfiles || !b.out)
        fail(b.nfiles ? "no memory" : "no files");
    run(&b);
    return 0;
}

#endif
