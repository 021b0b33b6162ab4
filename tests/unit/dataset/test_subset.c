/* test_subset.c - some samples of a dataset: as a dataset of its own for reading, for loaders,
 * their ranks and their states, and many samples in one call. */
#include "check.h"
#include "recordset.h"
#include "dataset/dataset.h"
#include "dataset/priv.h"
#include "stoker.h"

#include <unistd.h>

#define N 600

static struct stk_dataset *open_set(const char *path)
{
    struct stk_dataset *ds = NULL;
    struct stk_open_options o = {.payload = "raw", .no_index_write = true};
    CHECK_INT(stk_dataset_open(path, &o, &ds, NULL), 0);
    return ds;
}

static bool is_bytes(const void *p, size_t size, uint64_t i)
{
    uint8_t want[3000];
    size_t n = make_sample(i, want);
    return size == n && (!n || memcmp(p, want, n) == 0);
}

static bool is_sample(const struct stk_sample *s, uint64_t i)
{
    const struct stk_value *v = stk_sample_get(s, "data");
    return v && is_bytes(v->data, v->size, i);
}

static struct stk_dataset *subset(struct stk_dataset *ds, const uint64_t *index, uint64_t n)
{
    struct stk_dataset *out = NULL;
    CHECK_INT(stk_dataset_subset(ds, index, n, &out, NULL), 0);
    CHECK_INT(stk_dataset_len(out), n);
    return out;
}

static struct stk_dataset *slice(struct stk_dataset *ds, uint64_t first, int64_t step, uint64_t n)
{
    struct stk_dataset *out = NULL;
    CHECK_INT(stk_dataset_slice(ds, first, step, n, &out, NULL), 0);
    CHECK_INT(stk_dataset_len(out), n);
    return out;
}

static void check_reads(struct stk_dataset *ds, uint64_t i, uint64_t want)
{
    struct stk_sample *s = stk_sample_new();
    CHECK_INT(stk_dataset_read(ds, i, s, NULL), 0);
    CHECK(is_sample(s, want));
    stk_sample_free(s);
}

/* A user would get other samples than the ones asked for. */
static void right_samples(struct stk_dataset *ds)
{
    struct stk_dataset *a = subset(ds, (uint64_t[]){7, 7, 599, 0}, 4);
    struct stk_dataset *b = slice(ds, 500, -5, 100);
    struct stk_dataset *of_a = slice(a, 3, -1, 4), *of_b = slice(b, 1, 2, 50);
    struct stk_dataset *picked = subset(b, (uint64_t[]){99, 3}, 2);
    check_reads(a, 1, 7);
    check_reads(a, 2, 599);
    check_reads(b, 99, 5);
    check_reads(of_a, 0, 0);
    check_reads(of_a, 1, 599);
    check_reads(of_b, 0, 495);
    check_reads(of_b, 49, 5);
    check_reads(picked, 1, 485);
    stk_dataset_close(a);
    stk_dataset_close(b); /* those made of them go on */
    check_reads(of_a, 2, 7);
    check_reads(of_b, 1, 485);
    stk_dataset_close(of_a);
    stk_dataset_close(of_b);
    stk_dataset_close(picked);
}

/* Reading past the end of a subset would read a stranger's sample. */
static void what_is_not_there(struct stk_dataset *ds)
{
    struct stk_dataset *a = slice(ds, 10, 1, 5), *out = NULL, *none = slice(ds, 0, 1, 0);
    struct stk_sample *s = stk_sample_new();
    struct stk_err err = {0};
    CHECK_INT(stk_dataset_read(a, 5, s, &err), STK_E_USAGE);
    CHECK_STR(err.what, "there is no sample 5: 5 in all");
    CHECK_INT(stk_dataset_read(none, 0, s, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_subset(a, (uint64_t[]){4, 5}, 2, &out, &err), STK_E_USAGE);
    CHECK_STR(err.path, ds->path);
    CHECK_INT(stk_dataset_subset(a, NULL, 2, &out, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_subset(NULL, NULL, 0, &out, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_slice(a, 5, 1, 1, &out, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_slice(a, 4, 1, 2, &out, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_slice(a, 0, -1, 2, &out, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_slice(a, 0, INT64_MIN, UINT64_MAX, &out, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_slice(a, 1, INT64_MAX, 3, &out, NULL), STK_E_USAGE);
    CHECK(out == NULL);
    stk_sample_free(s);
    stk_dataset_close(a);
    stk_dataset_close(none);
}

static uint64_t identity(struct stk_dataset *ds)
{
    uint64_t id = stk_dataset_identity(ds);
    stk_dataset_close(ds);
    return id;
}

/* A training would go on with other samples, or would be refused with the same ones. */
static void known_by_its_samples(struct stk_dataset *ds)
{
    uint64_t all = stk_dataset_identity(ds), two = identity(slice(ds, 3, 4, 2));
    CHECK(identity(slice(ds, 0, 1, N)) == all);
    CHECK(two != all && two == identity(subset(ds, (uint64_t[]){3, 7}, 2)));
    CHECK(two != identity(subset(ds, (uint64_t[]){7, 3}, 2)));
    CHECK(identity(slice(ds, 0, 1, N - 1)) != all);
    CHECK(identity(slice(ds, 9, 0, 1)) == identity(subset(ds, (uint64_t[]){9}, 1)));
    struct stk_dataset *odd = slice(ds, 1, 2, N / 2);
    CHECK(identity(subset(odd, (uint64_t[]){1, 3}, 2)) == two);
    stk_dataset_close(odd);
}

/* ---- loaders ---- */

static bool right_batch(const struct stk_batch *b, const uint64_t *index)
{
    bool ok = true;
    for (size_t k = 0; k < b->n; k++)
        ok = ok && is_bytes(b->column->span[k].data, b->column->span[k].size, index[b->id[k]]);
    return ok;
}

/* Loads what is left of the epoch; at most `steps` batches of it. */
static bool load(struct stk_loader *ld, const uint64_t *index, unsigned *seen, unsigned steps)
{
    struct stk_batch *b;
    bool ok = true;
    while (steps-- && stk_loader_next(ld, &b, NULL) == 1) {
        ok = ok && right_batch(b, index);
        for (size_t k = 0; k < b->n; k++)
            seen[b->id[k]] += !(b->flags[k] & STK_REPEAT);
        stk_batch_release(b);
    }
    return ok;
}

static bool all_once(const unsigned *seen, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && seen[i] == 1;
    return ok;
}

/* Ranks would share samples of a subset, lose some, or get some of the others. */
static void loaders_of_ranks(struct stk_dataset *ds)
{
    uint64_t index[99];
    for (uint64_t i = 0; i < 99; i++)
        index[i] = i * i % N;
    struct stk_dataset *sub = subset(ds, index, 99);
    for (int shuffle = 0; shuffle < 3; shuffle++) {
        unsigned seen[99] = {0};
        for (uint32_t r = 0; r < 3; r++) {
            struct stk_loader_options o = {.batch = 8,
                                           .shuffle = shuffle,
                                           .rank = r,
                                           .world = 3,
                                           .last = STK_LAST_SHORT,
                                           .threads = 1};
            struct stk_loader *ld = NULL;
            CHECK_INT(stk_loader_open(sub, &o, &ld, NULL), 0);
            CHECK(load(ld, index, seen, UINT32_MAX));
            stk_loader_close(ld);
        }
        CHECK(all_once(seen, 99));
    }
    stk_dataset_close(sub);
}

/* A training on a subset could not be resumed, or with another subset by mistake. */
static void states_of_subsets(struct stk_dataset *ds)
{
    uint64_t index[50];
    for (uint64_t i = 0; i < 50; i++)
        index[i] = 100 + 3 * i;
    unsigned seen[50] = {0};
    char *state = NULL;
    struct stk_err err = {0};
    struct stk_loader *ld = NULL;
    struct stk_loader_options o = {.batch = 4, .last = STK_LAST_SHORT, .threads = 1};
    struct stk_dataset *a = subset(ds, index, 50), *b = slice(ds, 100, 3, 50);
    struct stk_dataset *other = slice(ds, 101, 3, 50);
    CHECK_INT(stk_loader_open(a, &o, &ld, NULL), 0);
    CHECK(load(ld, index, seen, 5));
    CHECK_INT(stk_loader_state(ld, &state, NULL), 0);
    stk_loader_close(ld);
    stk_dataset_close(a);
    o.state = state;
    CHECK_INT(stk_loader_open(other, &o, &ld, &err), STK_E_STALE);
    CHECK_INT(stk_loader_open(ds, &o, &ld, &err), STK_E_STALE);
    CHECK_INT(stk_loader_open(b, &o, &ld, &err), 0);
    stk_dataset_close(b); /* the loader keeps it */
    CHECK(load(ld, index, seen, UINT32_MAX));
    CHECK(all_once(seen, 50));
    stk_loader_close(ld);
    free(state);
    stk_dataset_close(other);
}

/* ---- many at once ---- */

#define MANY 120

/* A user would wait for a hundred reads instead of a few. */
static void few_reads(struct stk_dataset *ds)
{
    struct stk_sample *s[MANY];
    uint64_t index[MANY];
    for (size_t k = 0; k < MANY; k++) {
        s[k] = stk_sample_new();
        index[k] = (MANY - k) * 3 % N;
    }
    for (int again = 0; again < 2; again++) { /* the second time the memory is there */
        CHECK_INT(stk_dataset_read_many(ds, index, MANY, s, NULL), 0);
        for (size_t k = 0; k < MANY; k++)
            CHECK(is_sample(s[k], index[k]));
    }
    CHECK(ds->idle && stk_reader_reads(ds->idle) < 20);
    for (size_t k = 1; k < MANY; k++) /* one keeps what it needs */
        stk_sample_free(s[k]);
    CHECK_INT(stk_dataset_read(ds, 0, s[1] = stk_sample_new(), NULL), 0);
    CHECK(is_sample(s[0], index[0]) && is_sample(s[1], 0));
    stk_sample_free(s[0]);
    stk_sample_free(s[1]);
}

static void many_of_a_subset(struct stk_dataset *ds)
{
    struct stk_dataset *sub = slice(ds, 599, -1, 300);
    struct stk_sample *s[3] = {stk_sample_new(), stk_sample_new(), stk_sample_new()};
    CHECK_INT(stk_dataset_read_many(sub, (uint64_t[]){0, 299, 0}, 3, s, NULL), 0);
    CHECK(is_sample(s[0], 599) && is_sample(s[1], 300) && is_sample(s[2], 599));
    CHECK_INT(stk_dataset_read_many(sub, (uint64_t[]){0, 300}, 2, s, NULL), STK_E_USAGE);
    CHECK_INT(stk_sample_nfields(s[0]), 0); /* nothing stale is left */
    CHECK_INT(stk_dataset_read_many(sub, NULL, 0, NULL, NULL), 0);
    CHECK_INT(stk_dataset_read_many(sub, NULL, 1, s, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_read_many(sub, (uint64_t[]){0}, 1, NULL, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_read_many(NULL, (uint64_t[]){0}, 1, s, NULL), STK_E_USAGE);
    CHECK_INT(stk_dataset_read(sub, 0, NULL, NULL), STK_E_USAGE);
    for (int i = 0; i < 3; i++)
        stk_sample_free(s[i]);
    stk_dataset_close(sub);
}

/* One damaged sample would take its neighbours with it, or pass for a good one. */
static void one_is_damaged(void)
{
    struct stk_buf b = STK_BUF_INIT;
    uint8_t bytes[3000];
    for (uint64_t i = 0; i < 5; i++) {
        size_t at = b.len;
        scratch_record(&b, bytes, make_sample(i + 1, bytes));
        b.data[at + 12] ^= i == 2;
    }
    scratch_file("damaged/0.tfrecord", b.data, b.len);
    stk_buf_release(&b);
    struct stk_dataset *ds = open_set(scratch_path("damaged"));
    struct stk_sample *s[4];
    struct stk_err err = {0};
    for (int i = 0; i < 4; i++)
        s[i] = stk_sample_new();
    CHECK_INT(stk_dataset_read_many(ds, (uint64_t[]){0, 1, 3, 4}, 4, s, NULL), 0);
    CHECK_INT(stk_dataset_read_many(ds, (uint64_t[]){0, 1, 2, 3}, 4, s, &err), STK_E_CORRUPT);
    CHECK(strstr(err.path, "0.tfrecord") != NULL);
    CHECK(is_sample(s[0], 1) && is_sample(s[1], 2));
    CHECK_INT(stk_sample_nfields(s[2]) + stk_sample_nfields(s[3]), 0);
    for (int i = 0; i < 4; i++)
        stk_sample_free(s[i]);
    stk_dataset_close(ds);
}

/* What stands in the place of a bad sample must come from the subset, by every engine. */
static void bad_ones_are_passed_over(void)
{
    static const char *const engines[] = {"threads", "mmap"};
    struct stk_buf b = STK_BUF_INIT;
    uint8_t bytes[3000];
    uint64_t index[30];
    for (uint64_t i = 0; i < 60; i++) {
        size_t at = b.len;
        scratch_record(&b, bytes, make_sample(i + 1, bytes));
        b.data[at + 12] ^= i == 31; /* number 15 of the odd ones */
    }
    scratch_file("some/0.tfrecord", b.data, b.len);
    stk_buf_release(&b);
    struct stk_dataset *ds = open_set(scratch_path("some")), *odd = slice(ds, 1, 2, 30);
    for (size_t i = 0; i < 30; i++)
        index[i] = 2 * i + 2; /* as make_sample() counts */
    for (int how = STK_ON_ERROR_SKIP; how <= STK_ON_ERROR_REPLACE; how++)
        for (int e = 0; e < 2; e++) {
            unsigned seen[30] = {0};
            struct stk_loader *ld = NULL;
            struct stk_loader_options o = {.batch = 5, .on_error = how, .io = engines[e]};
            CHECK_INT(stk_loader_open(odd, &o, &ld, NULL), 0);
            CHECK(load(ld, index, seen, UINT32_MAX));
            CHECK_INT(seen[15], 0);
            CHECK(strstr(stk_loader_problem(ld, 0), "(sample 15)") != NULL);
            CHECK(stk_loader_problem(ld, 1) == NULL);
            stk_loader_close(ld);
        }
    stk_dataset_close(odd);
    stk_dataset_close(ds);
}

/* A model would be trained with other classes than it is tested with. */
static void classes_keep_their_numbers(void)
{
    static const char *const files[] = {"by/ant/1.bin", "by/bee/1.bin", "by/cat/1.bin"};
    for (int i = 0; i < 3; i++)
        scratch_file(files[i], "\1\2\3", 3);
    struct stk_dataset *ds = NULL;
    struct stk_open_options o = {.no_index_write = true};
    CHECK_INT(stk_dataset_open(scratch_path("by"), &o, &ds, NULL), 0);
    struct stk_dataset *sub = slice(ds, 2, -2, 2);
    const char *const *names;
    CHECK_INT(stk_dataset_classes(sub, &names), 3);
    stk_dataset_close(ds);
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL;
    struct stk_loader_options how = {.batch = 2, .shuffle = STK_SHUFFLE_NONE, .keys = true};
    CHECK_INT(stk_loader_open(sub, &how, &ld, NULL), 0);
    CHECK_INT(stk_loader_next(ld, &b, NULL), 1);
    const struct stk_column *c = &b->column[b->ncolumns - 1];
    CHECK_STR(c->name, "label");
    CHECK(memcmp(c->data, (int64_t[]){2, 0}, 16) == 0);
    CHECK(memcmp(b->key[0].data, "cat/1", 5) == 0);
    stk_batch_release(b);
    stk_loader_close(ld);
    struct stk_sample *s = stk_sample_new();
    CHECK_INT(stk_dataset_read(sub, 0, s, NULL), 0);
    const struct stk_value *v = stk_sample_get(s, "label");
    CHECK(v && memcmp(v->data, (int64_t[]){2}, 8) == 0);
    stk_sample_free(s);
    stk_dataset_close(sub);
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    for (int packed = 0; packed < 2; packed++) {
        const char *how = packed ? "packed" : "plain";
        struct stk_dataset *ds = open_set(make_set(how, N, packed ? 1 : 3, packed));
        CHECK_FOR(how, right_samples, ds);
        CHECK_FOR(how, what_is_not_there, ds);
        CHECK_FOR(how, known_by_its_samples, ds);
        CHECK_FOR(how, loaders_of_ranks, ds);
        CHECK_FOR(how, states_of_subsets, ds);
        CHECK_FOR(how, few_reads, ds);
        CHECK_FOR(how, many_of_a_subset, ds);
        stk_dataset_close(ds);
    }
    CHECK_RUN(one_is_damaged);
    CHECK_RUN(bad_ones_are_passed_over);
    CHECK_RUN(classes_keep_their_numbers);
    scratch_done();
    return CHECK_DONE();
}
