/* test_workload.c - workload files: what is read, and what is refused with which words. A key that
 * is misread or ignored makes a benchmark of another job. */
#include "check.h"

#include "bench/workload.h"

#include <math.h>

static struct stk_workload w;
static struct stk_err err;

static int parse(const char *text, bool small)
{
    stk_workload_release(&w);
    err = (struct stk_err){0};
    return stk_workload_parse(text, strlen(text), "w.yaml", small, &w, &err);
}

static int settle(const char *text)
{
    int rc = parse(text, false);
    return rc ? rc : stk_workload_settle(&w, &err);
}

static const char full[] = "# a comment\n"
                           "name: job\n"
                           "dataset:\n"
                           "  format: tfrecord\n"
                           "  files: 16\n"
                           "  samples_per_file: 100\n"
                           "  record: normal(112K, 4K)\n"
                           "training:\n"
                           "  batch: 8\n"
                           "  compute: 250ms\n"
                           "  barrier: no\n"
                           "checkpoint:\n"
                           "  every: 10\n"
                           "  files: [1K, 7M]\n"
                           "small:\n"
                           "  dataset: {files: 2}\n"
                           "  training.compute: 1ms\n";

static void reads_keys(void)
{
    CHECK_INT(settle(full), 0);
    CHECK_STR(w.name, "job");
    CHECK_INT(w.dataset.format, STK_BENCH_TFRECORD);
    CHECK_INT(w.dataset.files, 16);
    CHECK_INT(w.dataset.record.kind, STK_DIST_NORMAL);
    CHECK_INT(w.dataset.record.a, 112 << 10);
    CHECK(w.training.compute.a == 0.25);
    CHECK(!w.training.barrier);
    CHECK_INT(w.access.transfer_bytes, 256 << 10);
    CHECK_INT(w.checkpoint.nfiles, 2);
    CHECK_INT(w.checkpoint.bytes[1], 7 << 20);
}

static void small_section_overrides(void)
{
    CHECK_INT(parse(full, true), 0);
    CHECK_INT(stk_workload_settle(&w, &err), 0);
    CHECK_INT(w.dataset.files, 2);
    CHECK_INT(w.dataset.samples_per_file, 100);
    CHECK(w.training.compute.a == 0.001);
}

static void refused(const char *text, const char *why)
{
    CHECK(settle(text) < 0);
    if (!strstr(err.what, why))
        CHECK_STR(err.what, why);
}

static void unknown_keys_name_the_nearest(void)
{
    refused("name: x\ndataset:\n  fils: 3\n", "line 3: unknown key dataset.fils; did you mean "
                                              "dataset.files?");
    refused("name: x\nsmall:\n  dataset:\n    files: 1\n    sead: 2\n",
            "line 5: unknown key dataset.sead; did you mean dataset.seed?");
    refused("nmae: x\n", "line 1: unknown key nmae; did you mean name?");
}

static void values_are_checked(void)
{
    refused("name: x\ndataset:\n  files: many\n", "line 3: dataset.files: ");
    refused("name: x\ndataset: {files: 0}\n", "line 2: dataset.files: ");
    refused("name: x\ndataset: {format: tfrecrod}\n", "tfrecord");
    refused("name: x\ndataset:\n  record: nromal(1K, 2)\n", "did you mean normal?");
    refused("name: x\ndataset: {record: normal(1K)}\n", "normal takes 2 values, not 1");
    refused("name: x\ntraining: {compute: fast}\n", "line 2: training.compute");
    refused("name: x\ndataset: {files: 1, files: 2}\n", "dataset.files was set in line 2 already");
    refused("name: a/b\n", "name: only letters");
    refused("dataset: {files: 1}\n", "name: the workload has no name");
}

static void contradictions_name_the_key(void)
{
    refused("name: x\ndataset: {format: csv, chunk: 4K}\n", "dataset.chunk: only HDF5");
    refused("name: x\ndataset:\n  format: hdf5\n  record: uniform(1, 9)\n",
            "line 4: dataset.record: ");
    refused("name: x\ndataset: {samples_per_file: 1000000000000, record: 1G}\n",
            "dataset.samples_per_file: a file has at most 4 EB");
    refused("name: x\ndataset: {format: files, samples_per_file: 2}\n",
            "dataset.samples_per_file: ");
    refused("name: x\ndataset: {format: npz, record: 4K, dims: [10, 10]}\n",
            "dataset.record: contradicts dataset.dims, whose product is 100 bytes");
    refused("name: x\ndataset: {format: tfrecord}\naccess: {offsets: same}\n",
            "access.offsets: \"same\" needs access.sharing: shared");
    refused("name: x\ndataset: {format: csv}\naccess: {order: random-start}\n", "access.order: ");
    refused("name: x\n", "training.steps: dataset.format is none");
    refused("name: x\ntraining: {steps: 2, warmup: 2}\n", "training.warmup: ");
    refused("name: x\ntraining: {steps: 2}\ncheckpoint: {every: 1}\n",
            "checkpoint.every: checkpoint.files has no sizes");
    refused("name: x\ntraining: {steps: 2}\ncheckpoint: {files: [1]}\n", "checkpoint.files: ");
    refused("name: x\ntraining: {steps: 1000000000, epochs: 1000000, batch: 100000000}\n",
            "training.steps: too many");
    refused("name: x\ndataset: {format: npz, dims: [4000000000, 4000000000, 4]}\n",
            "dataset.dims: the product");
}

static void bombs_are_refused(void)
{
    refused("a: &a [x, x]\nb: [*a, *a]\n", "line 1: anchors and aliases are not supported");
    refused("name: &n x\ndescription: *n\n", "line 1: anchors and aliases");
    refused("&m {name: x}\n", "anchors and aliases");
    refused("a: {a: {a: {a: {a: {a: {a: {a: {a: {a: 1}}}}}}}}}\n", "nested more than 8 deep");
    refused("name: !!python/object x\n", "tags are not supported");
    refused("name: x\n---\nname: y\n", "second document");
    refused("- a\n- b\n", "a mapping of keys");
    refused("", "empty");
    refused("name:\n", "name: a key without a value");
    refused("dataset:\n  dims: [1, [2]]\n", "line 2: dataset.dims: a list has plain values only");
    refused("? [a]\n: b\n", "a key must be a plain word");
    refused("name: \"a\\0b\"\n", "with a NUL byte");
    refused("name: [\n", "line ");
}

static void endless_input_is_refused(void)
{
    size_t n = 4 << 20;
    char *text = malloc(n + 1);
    memset(text, '[', n);
    text[n] = '\0';
    CHECK(parse(text, false) < 0);
    memset(text, 'k', n);
    CHECK(parse(text, false) < 0);
    size_t len = 0;
    for (int i = 0; i < 2000; i++)
        len += (size_t)sprintf(text + len, "k%d: 1\n", i);
    CHECK(parse(text, false) < 0);
    CHECK(strstr(err.what, "more than 1024 keys") != NULL);
    free(text);
}

static void sets_single_keys(void)
{
    CHECK_INT(parse(full, false), 0);
    CHECK_INT(stk_workload_set(&w, "training.batch=32", &err), 0);
    CHECK_INT(w.training.batch, 32);
    CHECK_INT(stk_workload_set(&w, "batch=48", &err), 0); /* the last word is enough … */
    CHECK_INT(w.training.batch, 48);
    CHECK(stk_workload_set(&w, "path=x", &err) < 0); /* … if no other key has it */
    CHECK(stk_workload_set(&w, "training.batch", &err) < 0);
    CHECK(strstr(err.what, "key=value") != NULL);
}

static void scales_data_and_steps(void)
{
    CHECK_INT(settle("name: x\ndataset: {format: tfrecord, files: 1000, samples_per_file: 10}\n"
                     "training: {steps: 500, ranks: 4}\n"),
              0);
    stk_workload_scale(&w, 0.01);
    CHECK_INT(w.dataset.files, 10);
    CHECK_INT(w.dataset.samples_per_file, 10);
    CHECK_INT(w.training.steps, 5);
    stk_workload_scale(&w, 0.1);
    CHECK_INT(w.dataset.files, 4); /* one per rank */
    CHECK_INT(w.dataset.samples_per_file, 2);
    CHECK_INT(w.training.steps, 1);
}

/* Means and limits of 20,000 draws; the numbers are fixed, so this cannot fail by chance. */
static void draws_follow_their_distribution(void)
{
    static const struct {
        const char *text;
        double mean, sd;
    } cases[] = {
        {"100", 100, 0},
        {"normal(100, 10)", 100, 10},
        {"uniform(50, 150)", 100, 28.87},
        {"exponential(100)", 100, 100},
        {"gamma(4, 25)", 100, 50},
        {"poisson(9)", 9, 3},
        {"poisson(100)", 100, 10},
        {"gamma(0.5, 200)", 100, 141.4},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct stk_dist d;
        double sum = 0, squares = 0;
        const int n = 20000;
        CHECK_INT(stk_dist_parse(cases[c].text, STK_DIST_BYTES, &d, &err), 0);
        CHECK(fabs(stk_dist_mean(&d) - cases[c].mean) < 1e-9);
        for (int i = 0; i < n; i++) {
            double v = stk_dist_at(&d, (uint64_t)i);
            CHECK(v >= 0);
            CHECK(v == stk_dist_at(&d, (uint64_t)i));
            sum += v;
            squares += v * v;
        }
        double mean = sum / n, sd = sqrt(fmax(0, squares / n - mean * mean));
        CHECK(fabs(mean - cases[c].mean) < 0.03 * cases[c].mean);
        CHECK(fabs(sd - cases[c].sd) < 0.04 * cases[c].mean);
    }
}

/* Jobs of a queue run the workload that is saved: a key that is lost is another job. */
static void is_saved_and_loaded(void)
{
    static const char *const keys[] = {
        "name=job",           "dataset.format=replay",  "dataset.path=/a \"b\"/c", "dataset.files=3",
        "files.1.path=.",     "files.1.count=3",        "files.1.match=*.jpg",     "files.2.path=x",
        "files.2.hold=yes",   "files.1.sizes=1Kx2,1Mx1", "files.2.sequential=12.5%", "files.2.consecutive=0",
        "reader.start=6ms",   "reader.think=normal(2ms, 1ms)"};
    static const char yaml[] = "name: job\ndataset:\n  format: replay\n  path: \"/a \\\"b\\\"/c\"\n"
                               "  files: 3\nfiles:\n  1:\n    path: .\n    match: \"*.jpg\"\n"
                               "    count: 3\n    sizes: [1Kx2, 1Mx1]\n  2:\n    path: x\n"
                               "    hold: yes\n    sequential: 12.5%\n    consecutive: 0%\n"
                               "reader:\n  start: 0.006000000s\n  think: \"normal(2ms, 1ms)\"\n";
    struct stk_buf saved = STK_BUF_INIT, again = STK_BUF_INIT, text = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_workload other;
    struct stk_jval *v;
    struct stk_jw j;
    stk_workload_release(&w);
    CHECK_INT(stk_workload_default(&w, &err), 0);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK_INT(stk_workload_set(&w, keys[i], &err), 0);
    CHECK_INT(stk_workload_settle(&w, &err), 0);
    stk_jw_init(&j, &saved, false);
    stk_workload_save(&w, &j);
    CHECK_INT(stk_json_parse(&arena, (const char *)saved.data, saved.len, &v, &err), 0);
    CHECK_INT(stk_workload_load(&other, v, &err), 0);
    stk_jw_init(&j, &again, false);
    stk_workload_save(&other, &j);
    CHECK_STR(stk_buf_cstr(&again), stk_buf_cstr(&saved));
    CHECK_INT(other.group[0].drawn[1].bytes, 1 << 20);
    CHECK(other.reader.start_s == 0.006 && other.reader.think.b == 0.001);
    stk_workload_yaml(&w, &text);
    CHECK_STR(stk_buf_cstr(&text), yaml);
    stk_workload_release(&other);
    stk_arena_release(&arena);
    stk_buf_release(&saved);
    stk_buf_release(&again);
    stk_buf_release(&text);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
#ifdef STK_HAVE_YAML
    CHECK_RUN(reads_keys);
    CHECK_RUN(small_section_overrides);
    CHECK_RUN(unknown_keys_name_the_nearest);
    CHECK_RUN(values_are_checked);
    CHECK_RUN(contradictions_name_the_key);
    CHECK_RUN(bombs_are_refused);
    CHECK_RUN(endless_input_is_refused);
    CHECK_RUN(sets_single_keys);
    CHECK_RUN(scales_data_and_steps);
#endif
    CHECK_RUN(is_saved_and_loaded);
    CHECK_RUN(draws_follow_their_distribution);
    stk_workload_release(&w);
    return CHECK_DONE();
}
