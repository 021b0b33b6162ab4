/* test_bench.c - the engine on storage with a virtual clock: what a benchmark says must be what the
 * model of the storage gives, exactly and whatever the scheduling. */
#include "check.h"
#include "scratch.h"

#include "bench/bench.h"
#include "bench/plan.h"
#include "bench/reader.h"
#include "bench/feed.h"

#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>

#define STEP_S 0.1

static struct stk_err err;

/* Sixteen files; a batch is 10 kB, and one request. changes: "key=value key=value". */
static void make(struct stk_workload *w, const char *changes)
{
    static const char text[] =
        "name: t\ndataset: {format: tfrecord, files: 16, samples_per_file: 40, record: 984}\n"
        "access: {transfer: 10000}\n"
        "training: {batch: 10, scaling: weak, steps: 20, compute: 100ms}\n";
    char copy[400], *rest = copy;
    snprintf(copy, sizeof copy, "%s", changes);
    CHECK_INT(stk_workload_parse(text, strlen(text), "t.yaml", false, w, &err), 0);
    for (char *word; (word = strsep(&rest, " "));)
        if (*word)
            CHECK_INT(stk_workload_set(w, word, &err), 0);
    CHECK_INT(stk_workload_settle(w, &err), 0);
}

/* Runs it on storage that takes io_s seconds per batch. */
static void run(const char *changes, uint32_t ranks, double io_s, struct stk_bench_result *out)
{
    struct stk_workload w;
    struct stk_bench_data d;
    make(&w, changes);
    const char *dir = scratch_path(w.dataset.eval_files ? "with-eval" : "data");
    CHECK_INT(stk_bench_data_generate(&d, &w, dir, 2, NULL, NULL, NULL, &err), 0);
    struct stk_bench_config c = {.w = &w, .data = &d};
    c.model = (struct stk_bench_model){.rate_Bps = io_s > 0 ? 1e4 / io_s : 0, .is_virtual = true};
    CHECK_INT(stk_bench_run(&c, ranks, false, out, &err), 0);
    CHECK_INT(out->lost, -1);
    out->w = NULL;
    stk_bench_data_close(&d);
    stk_workload_release(&w);
}

/* Utilisation of steps 0 to n - 1 with io seconds per batch and c seconds of computing: the first
 * batch is waited for; then the slower of the two sets the pace. */
static double expected(double io, double c, int n)
{
    double end = io + c, ready = io;
    for (int k = 1; k < n; k++) {
        ready += io;
        end = (ready > end ? ready : end) + c;
    }
    return n * c / end;
}

static void utilisation_is_exact(const char *label, uint32_t ranks)
{
    (void)label;
    for (int percent = 10; percent <= 100; percent += 15) {
        struct stk_bench_result r;
        double io = percent == 100 ? 0 : STEP_S * 100 / percent;
        run("", ranks, io, &r);
        CHECK(fabs(r.utilisation - expected(io, STEP_S, 20)) < 0.001);
        CHECK(fabs(r.utilisation_least - r.utilisation) < 1e-9);
        CHECK_INT(r.rank[ranks - 1].measured_steps, 20);
        CHECK_INT(r.io.samples, ranks * 200u);
        stk_bench_release(&r);
    }
}

/* Without the start, a step takes as long as its batch: the set percentage itself. */
static void warmup_is_left_out(void)
{
    struct stk_bench_result r;
    run("training.warmup=5", 4, STEP_S * 2, &r);
    CHECK(fabs(r.utilisation - 0.5) < 0.001);
    CHECK_INT(r.rank[0].measured_steps, 15);
    stk_bench_release(&r);
}

static void a_loop_that_reads_adds_both_times(void)
{
    struct stk_bench_result r;
    run("reader.threads=0", 2, STEP_S, &r);
    CHECK(fabs(r.utilisation - 0.5) < 0.001);
    CHECK(fabs(r.mlperf - 0.5) < 0.001);
    CHECK(fabs(r.io_share - 0.5) < 0.001);
    stk_bench_release(&r);
}

/* Two threads read two batches at once. */
static void threads_share_the_work(void)
{
    struct stk_bench_result r;
    run("training.warmup=10 reader.threads=2 reader.prefetch=4", 1, STEP_S * 2, &r);
    CHECK(fabs(r.utilisation - 1) < 0.001);
    stk_bench_release(&r);
    run("training.warmup=10 reader.threads=2 reader.prefetch=4", 1, STEP_S * 4, &r);
    CHECK(fabs(r.utilisation - 0.5) < 0.001);
    stk_bench_release(&r);
}

/* The wait for each epoch's first batch, seconds. Two threads, each of which reads a batch in a
 * step's time; three epochs of 20 steps. */
static double waits_for_epochs(const char *how, double *epoch_s)
{
    struct stk_bench_result r;
    char text[300];
    snprintf(text, sizeof text,
             "reader.threads=2 reader.prefetch=4 training.epochs=3 reader.epochs=%s", how);
    run(text, 1, STEP_S, &r);
    double wait_s = r.rank[0].wait_s;
    *epoch_s = r.epoch_s;
    CHECK(fabs(r.wall_s - 60 * STEP_S - wait_s) < 1e-6);
    stk_bench_release(&r);
    return wait_s;
}

/* Worker processes take time to start, in each epoch unless they stay: who adds workers to short
 * epochs loses. */
static void threads_that_are_started_take_time(void)
{
    double begin = 0.01, start = 2 * 0.03, first = STEP_S, epoch_s;
    CHECK(fabs(waits_for_epochs("ahead", &epoch_s) - first) < 1e-6);
    CHECK(fabs(waits_for_epochs("ahead reader.start=30ms", &epoch_s) - first - start) < 1e-6);
    CHECK(fabs(epoch_s - 20 * STEP_S - (first + start) / 3) < 1e-6);
    CHECK(fabs(waits_for_epochs("asked reader.start=30ms", &epoch_s) - 3 * first - start) < 1e-6);
    CHECK(fabs(epoch_s - 20 * STEP_S - first - start / 3) < 1e-6);
    CHECK(fabs(waits_for_epochs("restart reader.start=30ms", &epoch_s) - 3 * (first + start)) < 1e-6);
    CHECK(fabs(epoch_s - 20 * STEP_S - first - start) < 1e-6);
    /* The first thread begins while the second is started. */
    CHECK(fabs(waits_for_epochs("restart reader.start=30ms reader.begin=10ms", &epoch_s) -
               3 * (first + start)) < 1e-6);
    CHECK(fabs(waits_for_epochs("restart reader.begin=10ms", &epoch_s) - 3 * (first + begin)) < 1e-6);
}

/* Of a part of an epoch, the time to start is not multiplied. */
static void the_start_of_a_part_of_an_epoch_counts_once(void)
{
    struct stk_bench_result r;
    run("reader.threads=2 reader.prefetch=4 reader.epochs=restart reader.start=1s "
        "training.most_steps=5",
        1, STEP_S, &r);
    CHECK_INT(r.rank[0].steps, 5);
    CHECK(fabs(r.epoch_s - 20 * STEP_S - STEP_S - 2) < 1e-6);
    stk_bench_release(&r);
}

/* Without computing, lanes run on by themselves; with a nanosecond they wait for the taker. Both
 * give the same times. */
static void steps_without_computing_are_exact(void)
{
    static const char *const readers[] = {
        "reader.threads=0",
        "reader.threads=1 reader.prefetch=1",
        "reader.threads=1 reader.prefetch=5",
        "reader.threads=3 reader.prefetch=2",
        "reader.threads=3 reader.prefetch=7",
    };
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        struct stk_bench_result none, some;
        char text[200];
        snprintf(text, sizeof text, "%s training.barrier=no training.epochs=12", readers[i]);
        strcat(text, " training.compute=0");
        run(text, 2, STEP_S, &none);
        strcpy(strstr(text, "compute=") + 8, "1ns");
        run(text, 2, STEP_S, &some);
        CHECK_INT(none.rank[1].steps, 240);
        CHECK_INT(none.io.samples, some.io.samples);
        CHECK_INT(none.io.requests, some.io.requests);
        CHECK(fabs(none.rank[1].wall_s - some.rank[1].wall_s) < 1e-6);
        CHECK(fabs(none.rank[1].wait_s - some.rank[1].wait_s) < 1e-6);
        stk_bench_release(&none);
        stk_bench_release(&some);
    }
}

/* A barrier makes every step as long as that of the slowest rank. */
static void ranks_wait_for_the_slowest(void)
{
    struct stk_bench_result r, alone;
    run("training.compute=uniform(50ms,150ms)", 4, 0, &r);
    CHECK(r.utilisation < 0.9);
    CHECK(r.rank[0].barrier_s > 0);
    CHECK(fabs(r.rank[0].measured_s - r.rank[3].measured_s) < 1e-9);
    run("training.barrier=no", 4, 0, &alone);
    CHECK(fabs(alone.utilisation - 1) < 1e-9);
    stk_bench_release(&r);
    stk_bench_release(&alone);
}

static double sum_part(const struct stk_course *c, enum stk_course_part part)
{
    double sum = 0;
    for (size_t i = 0; i < STK_COURSE_BINS; i++)
        sum += (double)c->part_s[part][i];
    return sum;
}

/* 30 kB at 100 kB/s take 0.3 s, twice, in 20 steps of 0.1 s. */
static void checkpoints_take_time(void)
{
    struct stk_bench_result r;
    run("checkpoint.every=10 checkpoint.files=10000,20000 checkpoint.restores=3", 2, STEP_S, &r);
    CHECK_INT(r.restore_bytes, 90000);
    CHECK(fabs(r.restore_s - 0.9) < 1e-6);
    CHECK_INT(r.checkpoints, 2);
    CHECK_INT(r.checkpoint_bytes, 60000);
    CHECK(fabs(r.checkpoint_s - 0.6) < 1e-6);
    CHECK(fabs(r.rank[1].checkpoint_s - 0.6) < 1e-6);
    CHECK(fabs(sum_part(&r.course, STK_COURSE_CHECKPOINT) - 2 * 0.6) < 1e-4);
    CHECK(fabs(sum_part(&r.course, STK_COURSE_COMPUTE) - 2 * 2.0) < 1e-4);
    CHECK(fabs(sum_part(&r.course, STK_COURSE_WAIT) - 2 * 0.1) < 1e-4);
    CHECK(fabs(r.rank[1].measured_s - (0.1 + 2.0 + 0.6)) < 1e-6);
    stk_bench_release(&r);
}

static void requests_are_counted(void)
{
    struct stk_bench_result r;
    run("", 4, 0.01, &r);
    struct stk_io_tally_size most = stk_io_tally_common(&r.io);
    CHECK_INT(most.bytes, 10000);
    CHECK_INT(r.io.consecutive, r.io.requests - r.io.first);
    CHECK_INT(r.io.asked_bytes, r.io.samples * 984);
    CHECK(fabs(1e-9 * (double)r.io.latency.max - 0.01) < 1e-6);
    stk_bench_release(&r);
}

/* Two epochs of 4 steps, an evaluation of 2 steps after each: 0.1 s for the first batch, 0.05 s of
 * computing per step while the next is read. */
static void evaluations_are_apart(void)
{
    struct stk_bench_result r;
    run("dataset.eval_files=4 dataset.files=4 training.steps=4 training.epochs=2 "
        "training.eval_every=1 training.eval_steps=2 training.eval_compute=50ms",
        2, STEP_S, &r);
    CHECK_INT(r.rank[0].eval_steps, 4);
    CHECK(fabs(r.rank[0].eval_s - 2 * 0.25) < 1e-6);
    CHECK(fabs(r.rank[0].measured_s - 0.9) < 1e-6);
    CHECK_INT(r.io.samples, 2 * (80 + 40));
    stk_bench_release(&r);
}

/* One rank in two reads both batches, 20 kB, while nobody computes. */
static void some_ranks_read_for_all(void)
{
    struct stk_bench_result r;
    run("access.sharing=collective access.readers=2 training.scaling=strong training.steps=10", 4,
        STEP_S, &r);
    CHECK(fabs(r.utilisation - 1.0 / 3) < 0.001);
    CHECK_INT(r.io.samples, 4 * 100);
    CHECK_INT(r.rank[0].io.samples, 200);
    CHECK_INT(r.rank[1].io.samples, 0);
    CHECK_INT(r.rank[2].io.samples, 200);
    stk_bench_release(&r);
    run("access.sharing=collective access.offsets=same training.steps=10", 4, STEP_S, &r);
    CHECK(fabs(r.utilisation - 0.5) < 0.001); /* one batch is enough for all */
    CHECK_INT(r.io.samples, 100);
    stk_bench_release(&r);
}

static void stragglers_stand_out(void)
{
    struct stk_bench_rank rank[4] = {0};
    struct stk_bench_result r = {.rank = rank, .ranks = 4, .lost = -1};
    for (uint32_t i = 0; i < 4; i++)
        rank[i] = (struct stk_bench_rank){.rank = i, .measured_s = 10, .wait_s = i == 2 ? 5 : 1};
    stk_bench_sum(&r);
    CHECK_INT(r.slowest, 2);
    for (uint32_t i = 0; i < 4; i++)
        CHECK_INT(stk_bench_straggles(&r, i), i == 2);
    r.rank[2].measured_s = 1000; /* half a percent of the time */
    CHECK(!stk_bench_straggles(&r, 2));
}

/* Sizes of MLPerf Storage's table: 105 GiB for 8B, with every division of the same model. */
static void large_models_are_divided(void)
{
    static const struct {
        uint64_t ranks, tensor, pipeline, zero;
        size_t files_first, files_last;
    } cases[] = {
        {8, 1, 1, 0, 2, 0}, {8, 1, 1, 1, 2, 1},  {8, 1, 1, 3, 2, 2},
        {8, 4, 1, 3, 2, 2}, {8, 2, 2, 1, 18, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stk_workload w;
        uint64_t bytes[STK_CHECKPOINT_FILES];
        double sum = 0;
        CHECK_INT(stk_workload_default(&w, &err), 0);
        w.model.layers = 32;
        w.model.vocabulary = 128256;
        w.model.tensor = cases[i].tensor;
        w.model.pipeline = cases[i].pipeline;
        w.model.zero = cases[i].zero;
        CHECK_INT(stk_model_check(&w, cases[i].ranks, &err), 0);
        CHECK_INT(stk_model_check(&w, 3, &err) < 0, cases[i].tensor > 1);
        CHECK(fabs(stk_model_parameters(&w) - 8.03e9) < 0.01e9);
        for (uint64_t r = 0; r < cases[i].ranks; r++)
            for (size_t n = stk_checkpoint_files(&w, r, cases[i].ranks, bytes); n; n--)
                sum += (double)bytes[n - 1];
        CHECK(fabs(sum / (1u << 30) - 104.7) < 0.1);
        CHECK_INT(stk_checkpoint_files(&w, 0, cases[i].ranks, bytes), cases[i].files_first);
        CHECK_INT(stk_checkpoint_files(&w, 7, cases[i].ranks, bytes), cases[i].files_last);
        stk_workload_release(&w);
    }
}

/* 126 layers in 32 stages: 4 in the first 30, 3 in the others, and the ends have more. */
static void stages_need_not_have_as_many_layers(void)
{
    struct stk_workload w;
    uint64_t bytes[STK_CHECKPOINT_FILES];
    double sum = 0;
    CHECK_INT(stk_workload_default(&w, &err), 0);
    w.model.layers = 126;
    w.model.hidden = 16384;
    w.model.ffn = 53248;
    w.model.vocabulary = 128256;
    w.model.heads = 128;
    w.model.tensor = 8;
    w.model.pipeline = 32;
    w.model.zero = 1;
    CHECK_INT(stk_model_check(&w, 512, &err), 0);
    for (uint64_t r = 0; r < 512; r++)
        for (size_t n = stk_checkpoint_files(&w, r, 512, bytes); n; n--)
            sum += (double)bytes[n - 1];
    CHECK(fabs(sum / (1ull << 40) - 5.17) < 0.01);
    CHECK_INT(stk_checkpoint_files(&w, 0, 512, bytes), 4 + 1 + 1);
    CHECK_INT(stk_checkpoint_files(&w, 29 * 8, 512, bytes), 4 + 1);
    CHECK_INT(stk_checkpoint_files(&w, 30 * 8, 512, bytes), 3 + 1);
    CHECK_INT(stk_checkpoint_files(&w, 255, 512, bytes), 3 + 2 + 1);
    CHECK_INT(stk_checkpoint_files(&w, 511, 512, bytes), 1);
    /* A part of the job writes what it would write in the whole. */
    uint64_t whole = bytes[0];
    CHECK(stk_model_check(&w, 16, &err) < 0);
    w.model.data = 2;
    CHECK_INT(stk_model_check(&w, 16, &err), 0);
    CHECK_INT(stk_checkpoint_files(&w, 9, 16, bytes), 4 + 1);
    CHECK_INT(bytes[4], whole);
    CHECK(stk_model_check(&w, 513, &err) < 0);
    stk_workload_release(&w);
}

/* The read never returns; that it is noticed does not depend on how long the test waits. */
static void storage_that_hangs_is_reported(void)
{
    static struct stk_workload w;
    static struct stk_bench_data d;
    struct stk_bench_result r;
    make(&w, "");
    CHECK_INT(stk_bench_data_generate(&d, &w, scratch_path("data"), 2, NULL, NULL, NULL, &err), 0);
    static struct stk_bench_config c;
    c = (struct stk_bench_config){.w = &w, .data = &d, .patience_s = 0.02};
    c.model = (struct stk_bench_model){.is_virtual = true, .hangs = true};
    CHECK_INT(stk_bench_run(&c, 1, false, &r, &err), STK_E_STOPPED);
    CHECK(strstr(err.what, "the storage hangs") != NULL);
    stk_bench_release(&r);
    stk_bench_data_close(&d);
    /* The workload stays: the thread that hangs uses it. */
}

/* Rank 2 of 4 hangs wherever it waits for storage: the others end, and the result names it. */
static void a_rank_that_hangs_is_named(const char *changes)
{
    struct stk_workload w;
    struct stk_bench_data d;
    struct stk_bench_result r;
    make(&w, changes);
    CHECK_INT(stk_bench_data_generate(&d, &w, scratch_path("data"), 2, NULL, NULL, NULL, &err), 0);
    struct stk_bench_config c = {.w = &w, .data = &d, .patience_s = 0.02};
    c.model = (struct stk_bench_model){.is_virtual = true, .hangs = true, .hangs_on = 2};
    CHECK_INT(stk_bench_run(&c, 4, false, &r, &err), 0);
    CHECK_INT(r.lost, 2);
    CHECK(strstr(r.why_lost, "the storage hangs") != NULL);
    stk_bench_release(&r);
    stk_bench_data_close(&d);
    stk_workload_release(&w);
}

/* What a collective read takes for the places of samples must be where they are. */
static void samples_are_where_they_are_stored(const char *format, uint64_t after)
{
    struct stk_workload w;
    struct stk_bench_data d;
    char change[80], name[STK_BENCH_NAME];
    struct stat st;
    snprintf(change, sizeof change, "dataset.format=%s dataset.record=uniform(10,2000)", format);
    make(&w, change);
    CHECK_INT(stk_bench_data_generate(&d, &w, scratch_path(format), 2, NULL, NULL, NULL, &err), 0);
    const struct stk_bench_kind *kind = stk_bench_kind_of(w.dataset.format);
    for (uint64_t file = 0; file < w.dataset.files; file++) {
        uint64_t sum = 0;
        for (uint64_t i = 0; i < w.dataset.samples_per_file; i++)
            sum += kind->stored(&w, (struct stk_bench_place){file, i});
        CHECK_INT(fstatat(d.dirfd, stk_bench_file_name(&w, file, name), &st, 0), 0);
        CHECK((uint64_t)st.st_size >= sum && (uint64_t)st.st_size <= sum + after);
    }
    stk_bench_data_close(&d);
    stk_workload_release(&w);
}

/* Readers divide a step: together they ask for every byte of the file once, in the end. */
static void readers_divide_the_bytes(uint64_t readers)
{
    struct stk_workload w;
    struct stk_bench_plan p;
    uint64_t bytes = 0, requests = 0;
    make(&w, "dataset.files=1 dataset.samples_per_file=400 access.sharing=collective "
             "access.transfer=2000 training.scaling=strong training.steps=0 "
             "dataset.record=uniform(10,2000)");
    CHECK_INT(stk_bench_plan(&p, &w, 0, 4, &err), 0);
    const struct stk_bench_kind *kind = stk_bench_kind_of(w.dataset.format);
    for (uint64_t k = 0; k < readers; k++) {
        struct stk_requests q = STK_REQUESTS_INIT;
        for (uint64_t step = 0; step < p.steps; step++) {
            CHECK_INT(stk_requests_make(&q, &p, k, readers, step, -1, &err), 0);
            CHECK_INT(q.samples, 40 / readers);
            for (size_t i = 0; i < q.n; i++) {
                CHECK(q.item[i].bytes <= 2000);
                CHECK(i == 0 || q.item[i].off == q.item[i - 1].off + q.item[i - 1].bytes);
                bytes += q.item[i].bytes;
            }
            requests += q.n;
        }
        stk_requests_release(&q);
    }
    for (uint64_t i = 0; i < 400; i++)
        bytes -= kind->stored(&w, (struct stk_bench_place){0, i});
    CHECK_INT(bytes, 0);
    CHECK(requests > 0);
    stk_workload_release(&w);
}

/* ---- the course of a run -------------------------------------------------------------------- */

/* Bins widen as the run grows, and no second is lost or moved to another part. */
static void a_course_keeps_every_second(void)
{
    struct stk_course a = {0}, b = {0};
    uint64_t steps = 0;
    for (int i = 0; i < 1000; i++) {
        stk_course_add(&a, STK_COURSE_WAIT, i, i + 0.25);
        stk_course_add(&a, STK_COURSE_COMPUTE, i + 0.25, i + 1);
        stk_course_step(&a, i + 1);
    }
    CHECK(a.bin_s == 8 && stk_course_used(&a) == 126);
    CHECK(fabs(sum_part(&a, STK_COURSE_WAIT) - 250) < 1e-3);
    CHECK(fabs(sum_part(&a, STK_COURSE_COMPUTE) - 750) < 1e-3);
    CHECK(fabs((double)a.part_s[STK_COURSE_WAIT][3] - 2) < 1e-5);
    stk_course_add(&b, STK_COURSE_CHECKPOINT, 0.5, 1.5);
    stk_course_add(&b, STK_COURSE_WAIT, 3, 2);
    stk_course_add(&b, STK_COURSE_WAIT, -1, 2);
    stk_course_add(&b, STK_COURSE_WAIT, 0, INFINITY);
    stk_course_step(&b, NAN);
    CHECK(stk_course_used(&b) == 96 && sum_part(&b, STK_COURSE_WAIT) == 0);
    stk_course_merge(&b, &a);
    CHECK(b.bin_s == 8 && fabs(sum_part(&b, STK_COURSE_CHECKPOINT) - 1) < 1e-5);
    for (size_t i = 0; i < STK_COURSE_BINS; i++)
        steps += b.steps[i];
    CHECK_INT(steps, 1000);
}

/* 42 files and a list of labels that is read for every sample; two passes, the last batch is
 * smaller. The sums are those of the workload, however the samples are divided, and decoding takes
 * the time that it says. */
static void a_replay_makes_the_calls_of_the_profile(uint32_t ranks, uint64_t threads)
{
    static const char text[] =
        "name: r\ndataset: {format: replay, files: 42, record: 9000}\n"
        "files:\n"
        "  1: {path: x, count: 42, size: \"uniform(2K, 20K)\", per: 84, opens: 84, stats: 168,\n"
        "      seeks: 100, requests: 250, bytes: 900000, sizes: [512x84, 4096x166]}\n"
        "  2: {path: y, size: 3000, per: 84, opens: 84, requests: 84, bytes: 252000}\n"
        "access: {sharing: shared, shuffle: samples}\nreader: {think: 10ms}\n"
        "training: {batch: 4, epochs: 2, last: keep}\n";
    struct stk_workload w;
    struct stk_bench_data d;
    struct stk_bench_result r;
    CHECK_INT(stk_workload_parse(text, strlen(text), "r.yaml", false, &w, &err), 0);
    w.reader.threads = threads;
    CHECK_INT(stk_workload_settle(&w, &err), 0);
    CHECK_INT(stk_bench_data_generate(&d, &w, scratch_path("replay"), 2, NULL, NULL, NULL, &err), 0);
    struct stk_bench_config c = {.w = &w, .data = &d, .model = {.is_virtual = true}};
    CHECK_INT(stk_bench_run(&c, ranks, false, &r, &err), 0);
    CHECK_INT(r.io.samples, 84);
    CHECK_INT(r.io.opens, 168);
    CHECK_INT(r.io.stats, 168);
    CHECK_INT(r.io.seeks, 100);
    CHECK(r.io.requests >= 334 - 2 * ranks - threads && r.io.requests <= 334);
    CHECK(r.io.bytes > 1129000 && r.io.bytes < 1175000);
    double most = 84 * 0.01 / ranks, least = most / (threads > 1 ? 2 : 1);
    CHECK(r.wall_s <= most + 1e-6 && r.wall_s >= least - 1e-6);
    stk_bench_release(&r);
    stk_bench_data_close(&d);
    stk_workload_release(&w);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(a_course_keeps_every_second);
#ifdef STK_HAVE_YAML
    CHECK_FOR("1", utilisation_is_exact, "1", 1);
    CHECK_FOR("4", utilisation_is_exact, "4", 4);
    CHECK_FOR("16", utilisation_is_exact, "16", 16);
    CHECK_RUN(warmup_is_left_out);
    CHECK_RUN(a_loop_that_reads_adds_both_times);
    CHECK_RUN(threads_share_the_work);
    CHECK_RUN(threads_that_are_started_take_time);
    CHECK_RUN(the_start_of_a_part_of_an_epoch_counts_once);
    CHECK_RUN(steps_without_computing_are_exact);
    CHECK_RUN(ranks_wait_for_the_slowest);
    CHECK_RUN(checkpoints_take_time);
    CHECK_RUN(requests_are_counted);
    CHECK_RUN(evaluations_are_apart);
    CHECK_RUN(some_ranks_read_for_all);
    CHECK_RUN(stragglers_stand_out);
    CHECK_RUN(large_models_are_divided);
    CHECK_RUN(stages_need_not_have_as_many_layers);
    CHECK_RUN(storage_that_hangs_is_reported);
    CHECK_FOR("in a step", a_rank_that_hangs_is_named, "");
    CHECK_FOR("in the loop", a_rank_that_hangs_is_named, "reader.threads=0");
    CHECK_FOR("at the start", a_rank_that_hangs_is_named, "reader.load=start");
    CHECK_FOR("before it", a_rank_that_hangs_is_named, "access.head_reads=3");
    CHECK_FOR("reading for others", a_rank_that_hangs_is_named,
              "access.sharing=collective access.readers=2");
    CHECK_FOR("at a checkpoint", a_rank_that_hangs_is_named,
              "reader.load=never checkpoint.every=5 checkpoint.files=1000 checkpoint.ranks=all");
    CHECK_FOR("without barriers", a_rank_that_hangs_is_named, "training.barrier=no");
    CHECK_FOR("tfrecord", samples_are_where_they_are_stored, "tfrecord", 0);
    CHECK_FOR("csv", samples_are_where_they_are_stored, "csv", 0);
    CHECK_FOR("tar", samples_are_where_they_are_stored, "tar", 10240);
    CHECK_FOR("1", readers_divide_the_bytes, 1);
    CHECK_FOR("2", readers_divide_the_bytes, 2);
    CHECK_FOR("4", readers_divide_the_bytes, 4);
    CHECK_FOR("alone", a_replay_makes_the_calls_of_the_profile, 1, 0);
    CHECK_FOR("two threads", a_replay_makes_the_calls_of_the_profile, 1, 2);
    CHECK_FOR("three ranks", a_replay_makes_the_calls_of_the_profile, 3, 1);
#endif
    scratch_done();
    return CHECK_DONE();
}
