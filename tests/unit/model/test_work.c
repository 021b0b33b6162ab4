/*
 * test_work.c - the time that work takes on a storage, each term by hand: advise, tune and stage
 * promise what these functions say.
 */
#include "model/work.h"

#include <math.h>

#include "check.h"
#include "load/options.h"
#include "model/measure.h"

#define KIB 1024.0
#define MB  1048576.0

static void near(int line, const char *what, double got, double want, double part)
{
    bool same = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= part * fabs(want);
    if (same)
        return;
    fprintf(stderr, "FAIL %s:%d: %s is %.9g, want %.9g\n", __FILE__, line, what, got, want);
    check_failures++;
}
#define NEAR(got, want)         near(__LINE__, #got, (got), (want), 1e-9)
#define ABOUT(got, want, part)  near(__LINE__, #got, (got), (want), (part))
#define WORK(st, ...)           stk_work_s((st), &(struct stk_work){__VA_ARGS__})

static const struct stk_storage slow = {.fs = "nfs",
                                        .open_s = 2e-3,
                                        .ask_s = 1e-3,
                                        .latency_s = 1e-3,
                                        .create_s = 5e-3,
                                        .read_Bps = 1e9,
                                        .write_Bps = 5e8,
                                        .window = 256 * KIB};

/* What overlaps in lanes, and what does not. */
static void terms(void)
{
    NEAR(WORK(&slow, .opens = 10), 0.02);
    NEAR(WORK(&slow, .asks = 10), 0.01);
    NEAR(WORK(&slow, .requests = 10), 0.01);
    NEAR(WORK(&slow, .bytes = 1e8), 0.1);
    NEAR(WORK(&slow, .cpu_s = 3), 3);
    NEAR(WORK(&slow, .creates = 4), 0.02);
    NEAR(WORK(&slow, .written = 1e8), 0.2);
    NEAR(WORK(&slow, .opens = 10, .asks = 20, .requests = 100, .bytes = 1e8), 0.02 + 0.02 + 0.1 + 0.1);
    /* Waits overlap, the transfer of a client does not: 240 ms / 2, then 100 ms. */
    NEAR(WORK(&slow, .opens = 10, .asks = 20, .requests = 100, .bytes = 1e8, .lanes = 2), 0.12);
    NEAR(WORK(&slow, .opens = 10, .asks = 20, .requests = 100, .bytes = 1e8, .lanes = 4), 0.1);
    /* Eight lanes that decode share two CPUs. */
    NEAR(WORK(&slow, .requests = 800, .cpu_s = 0.8, .lanes = 8), 0.2);
    NEAR(WORK(&slow, .requests = 800, .cpu_s = 0.8, .lanes = 8, .cpus = 2), 0.4);
    /* The next request is on its way: the waits, or the transfer. */
    NEAR(WORK(&slow, .requests = 50, .bytes = 1e8, .piped = true), 0.1);
    NEAR(WORK(&slow, .requests = 200, .bytes = 1e8, .piped = true), 0.2);
    /* 256 windows of 1 ms, or 67 ms. */
    struct stk_work w = stk_work_read(&slow, 64 * MB, 4 * MB);
    NEAR(stk_work_s(&slow, &w), 0.256);
}

/* Calls on storage in memory are CPU work: 16 threads on two CPUs are no faster than two. */
static void memory(void)
{
    struct stk_storage st = {.memory = true, .served = true, .open_s = 20e-6, .latency_s = 10e-6, .read_Bps = 1e9};
    NEAR(WORK(&st, .opens = 1000, .requests = 1000, .bytes = 1e7), 0.04); /* 30 ms, and 10 of copies */
    NEAR(WORK(&st, .opens = 1000, .requests = 1000, .bytes = 1e7, .lanes = 16, .cpus = 2), 0.02);
    NEAR(WORK(&st, .opens = 1000, .requests = 1000, .bytes = 1e7, .cpu_s = 0.02, .lanes = 16, .cpus = 2), 0.03);
    /* The loader's as well: 1000 opens of 30 us, and the copies of 10 ms. */
    struct stk_work w = {.opens = 1000, .requests = 1000, .bytes = 1e7, .lanes = 32};
    NEAR(stk_loader_io_s(&st, &w, 0, 2), 0.02);
    st.memory = false; /* FUSE: the server may wait */
    NEAR(WORK(&st, .opens = 1000, .requests = 1000, .bytes = 1e7, .lanes = 16, .cpus = 2), 0.01);
}

/* A program that computes beside its readers. */
static void a_program(void)
{
    NEAR(stk_run_ahead_s(10, 4, 0.5), 10.5); /* hidden, but for the first batch */
    NEAR(stk_run_ahead_s(10, 40, 0.5), 40);
    /* 20 batches in 4 s: one reader of four needs 0.8 s for its first, and one alone 0.2 s. */
    NEAR(stk_first_batch_s(4, 4, 20), 0.8);
    NEAR(stk_first_batch_s(4, 0, 20), 0.2);
    NEAR(stk_first_batch_s(4, 16, 2), 4); /* no more than all of it */
}

/* A stream, a client, and all of them. */
static void rates(void)
{
    struct stk_storage st = {.stream_Bps = 1e8, .read_Bps = 4e8, .all_Bps = 1e9};
    NEAR(WORK(&st, .bytes = 1e8), 1);
    NEAR(WORK(&st, .bytes = 1e8, .lanes = 2), 0.5);
    NEAR(WORK(&st, .bytes = 1e8, .lanes = 8), 0.25);               /* of one client */
    NEAR(WORK(&st, .bytes = 1e8, .lanes = 8, .clients = 2), 0.25); /* 200 MB at 1 GB/s */
    NEAR(WORK(&st, .bytes = 1e8, .lanes = 8, .clients = 8), 0.8);
    st.all_Bps = 0; /* each has its own */
    NEAR(WORK(&st, .bytes = 1e8, .lanes = 8, .clients = 8), 0.25);
    NEAR(stk_storage_share_Bps(&st, 8), 1e8);
    st.all_Bps = 1e9;
    NEAR(stk_storage_share_Bps(&st, 8), 1e8);
    NEAR(stk_storage_share_Bps(&st, 20), 5e7);
}

/* What is not known is not a guess. */
static void unknown_rates(void)
{
    struct stk_storage st = {.latency_s = 1e-3};
    NEAR(WORK(&st, .requests = 10), 0.01);
    NEAR(WORK(&st, .requests = 10, .bytes = 1), NAN);
    NEAR(WORK(&st, .requests = 10, .written = 1), NAN);
    NEAR(stk_run_ahead_s(10, NAN, 1), NAN);
    NEAR(stk_run_ahead_s(10, 1, NAN), NAN);
}

static void sums(void)
{
    struct stk_work all = {0}, w = {.opens = 1,    .asks = 2,     .requests = 3, .bytes = 4e6, .creates = 5,
                                    .written = 6e6, .cpu_s = 8,    .lanes = 2,   .piped = true};
    stk_work_add(&all, &w);
    stk_work_add(&all, &w);
    CHECK(all.piped && all.lanes == 0);
    all.lanes = 2;
    stk_work_scale(&w, 2);
    NEAR(stk_work_s(&slow, &all), stk_work_s(&slow, &w));
    NEAR(all.opens, 2);
    NEAR(w.cpu_s, 16);
    stk_work_add(&all, &(struct stk_work){.requests = 1});
    CHECK(!all.piped); /* not all of them are on their way before they are needed */
}

/* A gain is a part of what was measured, and never a loss. */
static void savings(void)
{
    struct stk_work before = {.requests = 1000}, after = {.requests = 250};
    NEAR(stk_work_saved_s(&slow, 2, &before, &after), 1.5);
    NEAR(stk_work_saved_s(&slow, 2, &after, &before), 0);
    NEAR(stk_work_saved_s(&slow, 2, &(struct stk_work){0}, &after), 0);
}

/* Sorting a batch merges only requests that have neighbours. */
static void sorted_batches(void)
{
    struct stk_work w = {.requests = 3200, .bytes = 3200 * 4096.0};
    struct stk_work far = stk_work_sorted(&slow, w, 1e12, 32);
    struct stk_work close = stk_work_sorted(&slow, w, 1e6, 32);
    ABOUT(far.requests, w.requests, 0.01);
    CHECK(close.requests < w.requests / 20);
    CHECK(close.bytes <= 1e6 + 1);
    struct stk_work alone = stk_work_sorted(&slow, w, 1e12, 1);
    ABOUT(alone.requests, w.requests, 0.01);
}

/* Blocks of 2 MiB, 32 at once on this node and 64 elsewhere; nine opens and 10 ms before them. */
static void the_loader(void)
{
    struct stk_storage st = {.open_s = 2e-3, .latency_s = 1e-3, .read_Bps = 1e8};
    struct stk_work w = stk_loader_work(&st, 64 * MB);
    NEAR(w.requests, 32);
    NEAR(w.lanes, 32);
    NEAR(stk_work_s(&st, &w), 64 * MB / 1e8);
    st.network = true;
    NEAR(stk_loader_work(&st, MB).lanes, 64);
    NEAR(stk_loader_work(&slow, 64 * MB).requests, 256); /* cut up by the kernel */
    NEAR(stk_loader_start_s(&st), 0.01 + 9 * 3e-3);
    NEAR(stk_loader_window(10), 10);
    NEAR(stk_loader_window(1e12), 64 * MB);
    NEAR(stk_loader_windows(65 * MB, 1e9, 1), 128 * MB);
    NEAR(stk_loader_windows(65 * MB, 100 * MB, 1), 100 * MB); /* there is no more */
    NEAR(stk_loader_windows(65 * MB, 1e9, 2), 128 * MB);
    /* 64 MiB for each of two ranks at 100 MB/s together, and new memory at 2 GB/s. */
    st.all_Bps = 1e8;
    NEAR(stk_loader_first_s(&st, 64 * MB, 2, 64 * MB), 2 * 64 * MB / 1e8 + 64 * MB / 2e9);
    /* Decoding on two CPUs; of storage that they serve, its transfer comes on top. */
    w = stk_loader_work(&st, 1e8);
    NEAR(stk_loader_io_s(&st, &w, 1, 2), 1);
    NEAR(stk_loader_io_s(&st, &w, 3, 2), 1.5);
    st.served = true;
    NEAR(stk_loader_io_s(&st, &w, 3, 2), 2.5);
    /* Reading is hidden behind computing, but for the first window; or it takes longer. */
    NEAR(stk_run_ahead_s(10, 4, 1), 11);
    NEAR(stk_run_ahead_s(10, 40, 1), 40);
}

/* The options of the loader and what is predicted of it are the same numbers. */
static void the_options_of_the_loader(void)
{
    struct stk_loader_options o = {.batch = 1, .world = 1};
    CHECK_INT(stk_loader_options_check(&o, NULL), 0);
    CHECK(o.window_bytes == STK_LOADER_BYTES(STK_LOADER_WINDOW_MIB));
    CHECK(o.block_bytes == STK_LOADER_BYTES(STK_LOADER_BLOCK_MIB));
    CHECK(o.read_bytes == STK_LOADER_BYTES(STK_LOADER_READ_MIB));
}

static void virtual_storage(void)
{
    struct stk_storage st;
    CHECK_INT(stk_storage_parse("100M,1ms", &st, NULL), 0);
    NEAR(WORK(&st, .requests = 10, .bytes = 100 * MB), 1.01);
    NEAR(WORK(&st, .requests = 10, .bytes = 100 * MB, .lanes = 10), 0.101); /* each has the rate */
    NEAR(WORK(&st, .bytes = 100 * MB, .clients = 4), 1);
    CHECK_INT(stk_storage_parse("100M,1ms,shared", &st, NULL), 0);
    NEAR(WORK(&st, .requests = 10, .bytes = 100 * MB, .lanes = 10), 1);
    NEAR(WORK(&st, .bytes = 100 * MB, .clients = 4), 4);
    NEAR(WORK(&st, .opens = 3, .asks = 4), 0.007);
    CHECK_INT(stk_storage_parse("0", &st, NULL), 0);
    NEAR(WORK(&st, .requests = 10, .bytes = 1e9), 0);
    CHECK(stk_storage_parse("fast", &st, NULL) < 0);
    CHECK(stk_storage_parse("1M,soon", &st, NULL) < 0);
}

/* Four readers: what each of them waits for is four times what they take together. */
static void measured(void)
{
    struct stk_measured m = {.storage = {.latency_s = 1e-3, .write_Bps = 5e7},
                             .large_Bps = 1e8,
                             .opens_per_s = 1000,
                             .creates_per_s = 400};
    stk_measure_storage(&m);
    NEAR(m.storage.open_s, 3e-3); /* 4 ms with the first request */
    NEAR(m.storage.create_s, 10e-3);
    NEAR(m.storage.read_Bps, 1e8);
    /* Files of 400 kB at 40 MB/s: 100 per s, each takes one reader 40 ms, 4 of them until it is read. */
    struct stk_measured small = {.storage = {.latency_s = 1e-3},
                                 .opens_per_s = 1000,
                                 .small_Bps = 4e7,
                                 .read_each = 4e5};
    stk_measure_storage(&small);
    NEAR(small.storage.stream_Bps, 4e5 / 36e-3);
    NEAR(WORK(&small.storage, .opens = 100, .requests = 100, .bytes = 4e7, .lanes = 4), 1);
    struct stk_measured none = {0};
    stk_measure_storage(&none);
    CHECK(none.storage.read_Bps == 0 && none.storage.open_s == 0);
}

/* Nearer storage is assumed to be faster. */
static void assumed(void)
{
    struct stk_work w = {.opens = 1, .asks = 1, .requests = 1, .bytes = MB};
    struct stk_storage shared = stk_storage_assumed(STK_REACH_SHARED),
                       local = stk_storage_assumed(STK_REACH_LOCAL),
                       memory = stk_storage_assumed(STK_REACH_MEMORY);
    CHECK(stk_work_s(&shared, &w) > stk_work_s(&local, &w));
    CHECK(stk_work_s(&local, &w) > stk_work_s(&memory, &w));
    CHECK(shared.network && !local.network && !local.served && memory.served);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(terms);
    CHECK_RUN(memory);
    CHECK_RUN(a_program);
    CHECK_RUN(rates);
    CHECK_RUN(unknown_rates);
    CHECK_RUN(sums);
    CHECK_RUN(savings);
    CHECK_RUN(sorted_batches);
    CHECK_RUN(the_loader);
    CHECK_RUN(the_options_of_the_loader);
    CHECK_RUN(virtual_storage);
    CHECK_RUN(measured);
    CHECK_RUN(assumed);
    return CHECK_DONE();
}
