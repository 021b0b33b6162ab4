/* test_reader.c - reading by the index: the right bytes in any order and from several threads, one
 * damaged sample without its neighbours, files that changed noticed. */
#include "check.h"
#include "recordset.h"
#include "load/priv.h"
#include "dataset/reader.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 500

static bool is_sample(const struct stk_sample *s, uint64_t i)
{
    uint8_t want[3000];
    size_t n = make_sample(i, want);
    const struct stk_value *v = stk_sample_get(s, "data");
    return v && v->size == n && (!n || memcmp(v->data, want, n) == 0);
}

static struct stk_dataset *open_set(const char *path)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    struct stk_open_options o = {.payload = "raw", .no_index_write = true};
    CHECK_INT(stk_dataset_open(path, &o, &ds, &err), 0);
    CHECK_STR(err.what, "");
    CHECK_INT(ds ? stk_dataset_len(ds) : 0, N);
    return ds;
}

static void read_batch(struct stk_reader *r, const uint64_t *ids, size_t n)
{
    struct stk_sample s;
    struct stk_err err = {0};
    stk_sample_init(&s);
    CHECK_INT(stk_reader_batch(r, ids, n, &err), 0);
    for (size_t k = n; k-- > 0;) { /* asked for in another order than it was read */
        CHECK_INT(stk_reader_get(r, k, &s, &err), 0);
        CHECK(is_sample(&s, ids[k]));
    }
    stk_sample_release(&s);
}

static void batches(struct stk_dataset *ds)
{
    struct stk_reader *r = NULL;
    uint64_t ids[N];
    CHECK_INT(stk_reader_new(ds, &r, NULL), 0);
    for (uint64_t i = 0; i < N; i++)
        ids[i] = i;
    read_batch(r, ids, N);           /* in order */
    CHECK(stk_reader_reads(r) < 10); /* neighbours come together */
    for (uint64_t i = 0; i < N; i++)
        ids[i] = i * 123 % N;
    read_batch(r, ids, N); /* in no order */
    read_batch(r, (uint64_t[]){7, 7, 499, 7, 0, 499}, 6);
    read_batch(r, ids, 0);
    for (uint64_t i = 0; i < N; i += 41)
        read_batch(r, &i, 1);
    CHECK(stk_reader_batch(r, (uint64_t[]){3, N}, 2, NULL) < 0);
    read_batch(r, (uint64_t[]){3}, 1); /* goes on after that */
    stk_reader_free(r);
}

/* ---- checksums of bytes as they come ---- */

/* Samples in no order, some of them twice; they stand in two files. */
static void add_some(struct stk_fetch *f)
{
    for (uint64_t i = 0; i < N; i += 3) {
        CHECK_INT(stk_fetch_add(f, i * 123 % N, NULL, NULL, NULL), 0);
        if (i % 7 == 0)
            CHECK_INT(stk_fetch_add(f, i * 123 % N, NULL, NULL, NULL), 0);
    }
    CHECK_INT(stk_fetch_sort(f, NULL), 0);
}

static void sum_bundle(struct stk_fetch *f, size_t i, size_t end, uint64_t from, uint64_t to,
                       uint64_t step)
{
    struct stk_sums sums = {.place = i};
    char *path = stk_files_path(&f->ds->files, stk_fetch_at(f, i)->file);
    struct stk_buf file = STK_BUF_INIT;
    CHECK_INT(stk_read_file(path, 1 << 30, &file, NULL), 0);
    for (uint64_t at = from; at < to;) {
        at = to - at < step ? to : at + step;
        uint8_t *there = malloc((size_t)(at - from)); /* a byte too far is seen by the sanitizer */
        memcpy(there, file.data + from, (size_t)(at - from));
        stk_fetch_sum(f, &sums, i, end, there, from, at);
        free(there);
    }
    CHECK_INT(sums.place, end);
    stk_buf_release(&file);
    free(path);
}

/* Sound samples would be called corrupt, or corrupt ones sound, by where a read happens to end. */
static void sums_as_bytes_come(struct stk_dataset *ds)
{
    uint8_t bytes[3000];
    for (uint64_t step = 1; step < 200000; step = step * 13 + 1) {
        struct stk_fetch f;
        uint64_t from, to;
        stk_fetch_init(&f, ds);
        stk_fetch_reset(&f);
        add_some(&f);
        for (size_t i = 0, j; i < stk_fetch_nwants(&f); i = j) {
            j = stk_fetch_bundle(&f, i, step < 100 ? 5000 : 1 << 20, &from, &to);
            sum_bundle(&f, i, j, from, to, step);
        }
        for (size_t k = 0; k < stk_fetch_count(&f); k++) {
            const struct stk_want *w = stk_fetch_want(&f, k);
            size_t n = make_sample(stk_fetch_id(&f, k), bytes);
            CHECK(w->summed && w->leads);
            CHECK_INT(w->sum, stk_crc32c(0, bytes, n));
        }
        stk_fetch_release(&f);
    }
}

/* ---- several threads, one dataset ---- */

struct thread {
    struct stk_dataset *ds;
    uint64_t step;
    unsigned wrong;
    pthread_t id;
};

static void *read_many(void *arg)
{
    struct thread *t = arg;
    struct stk_sample *s = stk_sample_new();
    for (uint64_t i = 0; i < N; i++) {
        uint64_t k = i * t->step % N;
        t->wrong += stk_dataset_read(t->ds, k, s, NULL) != 0 || !is_sample(s, k);
    }
    stk_sample_free(s);
    return NULL;
}

static void threads(struct stk_dataset *ds)
{
    struct thread t[4];
    for (unsigned i = 0; i < 4; i++) {
        t[i] = (struct thread){.ds = ds, .step = 3 + 2 * i};
        CHECK_INT(pthread_create(&t[i].id, NULL, read_many, &t[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(t[i].id, NULL);
        CHECK_INT(t[i].wrong, 0);
    }
}

/* What a sample's values point into stays as long as the sample does. */
static void samples_outlive_reads(struct stk_dataset *ds)
{
    struct stk_sample *a = stk_sample_new(), *b = stk_sample_new();
    CHECK_INT(stk_dataset_read(ds, 10, a, NULL), 0);
    for (uint64_t i = 0; i < 50; i++)
        CHECK_INT(stk_dataset_read(ds, 20 + i, b, NULL), 0);
    CHECK(is_sample(a, 10) && is_sample(b, 69));
    CHECK(stk_dataset_read(ds, N, b, NULL) < 0);
    CHECK(stk_dataset_read(ds, UINT64_MAX, b, NULL) < 0);
    CHECK(is_sample(a, 10));
    stk_sample_free(a);
    stk_sample_free(b);
}

/* ---- damage ---- */

static void one_bad_sample(const char *path)
{
    struct stk_dataset *ds = open_set(path);
    struct stk_reader *r = NULL;
    struct stk_sample s;
    struct stk_err err = {0};
    uint64_t ids[20];
    int64_t off;
    stk_sample_init(&s);
    CHECK_INT(stk_reader_new(ds, &r, NULL), 0);
    char *file = stk_reader_place(ds, 7, &off); /* where its frame begins */
    FILE *f = fopen(file, "r+b");
    struct stat before;
    stat(file, &before);
    fseek(f, (long)off + 12 + 5, SEEK_SET);
    fputc('!', f);
    fclose(f);
    /* As bytes rot: without a new time. */
    utimensat(0, file, (struct timespec[]){before.st_atim, before.st_mtim}, 0);
    for (uint64_t i = 0; i < 20; i++)
        ids[i] = i;
    CHECK_INT(stk_reader_batch(r, ids, 20, &err), 0);
    for (size_t i = 0; i < 20; i++) {
        int rc = stk_reader_get(r, i, &s, &err);
        CHECK(i == 7 ? rc == STK_E_CORRUPT : rc == 0 && is_sample(&s, i));
    }
    CHECK_STR(err.path, file);
    CHECK_INT(err.offset, off);
    free(file);
    stk_reader_free(r);
    stk_sample_release(&s);
    stk_dataset_close(ds);
}

static void changed_files(const char *path)
{
    struct stk_dataset *ds = open_set(path);
    struct stk_sample *s = stk_sample_new();
    struct stk_err err = {0};
    char file[700];
    snprintf(file, sizeof file, "%s/1.tfrecord", path);
    CHECK_INT(truncate(file, 1000), 0);
    CHECK_INT(stk_dataset_read(ds, 300, s, &err), STK_E_STALE);
    CHECK_STR(err.path, file);
    CHECK(stk_dataset_read(ds, 3, s, &err) == 0 && is_sample(s, 3)); /* the other file's */
    unlink(file);
    CHECK_INT(stk_dataset_read(ds, 300, s, &err), STK_E_SYS);
    CHECK_STR(err.path, file);
    CHECK_INT(mkfifo(file, 0600), 0);
    CHECK_INT(stk_dataset_read(ds, 300, s, &err), STK_E_STALE); /* and does not hang */
    stk_sample_free(s);
    stk_dataset_close(ds);
}

/* ---- the caller's options ---- */

/* Pointers among the words at p that lead into a block of the caller's. */
static int borrowed(const void *p, size_t n, const char *block, size_t size)
{
    int found = 0;
    for (size_t i = 0; i + sizeof(uintptr_t) <= n; i += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (const char *)p + i, sizeof word);
        found += word >= (uintptr_t)block && word < (uintptr_t)block + size;
    }
    return found;
}

/* The texts of the options in one block, which is freed when the dataset and the loader are open.
 */
static void options_are_the_callers(const char *path)
{
    static const char texts[] = "tfrecord\0raw\0auto\0threads\0data\0raw";
    char *block = malloc(sizeof texts);
    memcpy(block, texts, sizeof texts);
    const char *fields[] = {block + 26, NULL};
    struct stk_open_options o = {
        .format = block, .payload = block + 9, .header = block + 13, .no_index_write = true};
    struct stk_loader_options lo = {
        .batch = 50, .io = block + 18, .fields = fields, .decode = block + 31};
    struct stk_dataset *ds = NULL;
    struct stk_loader *ld = NULL;
    struct stk_batch *b;
    uint64_t samples = 0;
    CHECK_INT(stk_dataset_open(path, &o, &ds, NULL), 0);
    CHECK_INT(stk_loader_open(ds, &lo, &ld, NULL), 0);
    CHECK_INT(borrowed(ds, sizeof *ds, block, sizeof texts), 0);
#ifndef __SANITIZE_THREAD__ /* its threads are at work in what is looked through here */
    CHECK_INT(borrowed(ld, sizeof *ld, block, sizeof texts), 0);
    CHECK_INT(borrowed(ld, sizeof *ld, (const char *)fields, sizeof fields), 0);
#endif
    free(block);
    CHECK_STR(ds->list.payload, "raw");
    for (; stk_loader_next(ld, &b, NULL) == 1; stk_batch_release(b))
        samples += b->n;
    CHECK_INT(samples, N);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    char path[600];
    for (int gzip = 0; gzip < 2; gzip++) {
        const char *kind = gzip ? "packed" : "plain";
        snprintf(path, sizeof path, "%s", make_set(kind, N, 2, gzip));
        struct stk_dataset *ds = open_set(path);
        CHECK_FOR(kind, batches, ds);
        if (!gzip)
            CHECK_FOR(kind, sums_as_bytes_come, ds);
        CHECK_FOR(kind, threads, ds);
        CHECK_FOR(kind, samples_outlive_reads, ds);
        stk_dataset_close(ds);
    }
    snprintf(path, sizeof path, "%s", make_set("bad", N, 2, false));
    CHECK_CASE("one_bad_sample", NULL, one_bad_sample(path));
    snprintf(path, sizeof path, "%s", make_set("changed", N, 2, false));
    CHECK_CASE("changed_files", NULL, changed_files(path));
    snprintf(path, sizeof path, "%s", make_set("freed", N, 2, false));
    CHECK_CASE("options_are_the_callers", NULL, options_are_the_callers(path));
    scratch_done();
    return CHECK_DONE();
}
