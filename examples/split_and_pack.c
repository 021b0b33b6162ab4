/*
 * split_and_pack.c - packs a dataset, verifies it, splits it into training and test samples, and
 * reads some of the test samples with one call.
 *
 *   cc split_and_pack.c -o split_and_pack $(pkg-config --cflags --libs stoker)
 *   ./split_and_pack photos/ photos-packed
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <stoker.h>

#define MANY 16

static int complain(const struct stk_err *err)
{
    char text[2200];
    fprintf(stderr, "split_and_pack: %s\n", stk_err_text(err, text, sizeof text));
    return EXIT_FAILURE;
}

/* 1: whole, 0: damaged. */
static int verify(const char *path, struct stk_err *err)
{
    struct stk_result *r;
    struct stk_result_stats st;
    int rc = stk_verify(path, NULL, NULL, &r, err);
    if (rc < 0)
        return rc;
    stk_result_stats(r, &st);
    printf("%s: %" PRIu64 " samples, %" PRIu64 " problems\n", st.format, st.samples, st.problems);
    for (size_t i = 0; i < 3 && stk_result_problem(r, i); i++)
        printf("  %s: %s\n", stk_result_problem(r, i)->path, stk_result_problem(r, i)->what);
    stk_result_free(r);
    return st.whole == 1;
}

/* The bytes of the first samples, read together. */
static int read_some(struct stk_dataset *ds, uint64_t *bytes, struct stk_err *err)
{
    struct stk_sample *s[MANY];
    uint64_t index[MANY];
    size_t n = stk_dataset_len(ds) < MANY ? (size_t)stk_dataset_len(ds) : MANY;
    for (size_t i = 0; i < n; i++) {
        s[i] = stk_sample_new();
        index[i] = i;
    }
    int rc = stk_dataset_read_many(ds, index, n, s, err); /* a NULL among them is refused */
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; rc == 0 && f < stk_sample_nfields(s[i]); f++)
            *bytes += stk_sample_field(s[i], f)->value.size;
        stk_sample_free(s[i]);
    }
    return rc;
}

/* Nine of ten samples to train with, the others to test. */
static int split(const char *path, struct stk_err *err)
{
    struct stk_dataset *ds = NULL, *train = NULL, *test = NULL;
    uint64_t bytes = 0;
    int rc = stk_dataset_open(path, NULL, &ds, err);
    uint64_t n = stk_dataset_len(ds), cut = n - n / 10;
    if (rc == 0)
        rc = stk_dataset_slice(ds, 0, 1, cut, &train, err);
    if (rc == 0)
        rc = stk_dataset_slice(ds, cut, 1, n - cut, &test, err);
    stk_dataset_close(ds); /* the subsets keep what they need of it */
    if (rc == 0)
        rc = read_some(test, &bytes, err);
    if (rc == 0)
        printf("%" PRIu64 " to train with, %" PRIu64 " to test; %" PRIu64 " bytes read\n",
               stk_dataset_len(train), stk_dataset_len(test), bytes);
    stk_dataset_close(train);
    stk_dataset_close(test);
    return rc;
}

int main(int argc, char **argv)
{
    struct stk_err err = {0};
    struct stk_pack_options pack = {.shuffle = true, .seed = 1, .shards = 2};
    if (argc != 3) {
        fprintf(stderr, "usage: split_and_pack SRC DST\n");
        return 2;
    }
    if (stk_version_number() < STK_VERSION_NUMBER)
        fprintf(stderr, "built for stoker %s, running with %s\n", STK_VERSION, stk_version());
    if (stk_pack(argv[1], argv[2], NULL, &pack, NULL, &err) < 0)
        return complain(&err);
    int whole = verify(argv[2], &err);
    if (whole < 0 || split(argv[2], &err) < 0)
        return complain(&err);
    return whole ? EXIT_SUCCESS : EXIT_FAILURE;
}
