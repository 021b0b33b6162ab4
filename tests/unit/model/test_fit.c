/*
 * test_fit.c - the storage that a profile shows: on storage with known numbers, the fit finds them.
 * A user would lose trust in every gain.
 */
#include "model/fit.h"

#include <math.h>

#include "check.h"
#include "profileset.h"

#define KIB 1024.0
#define MB  1048576.0

static bool near(double a, double b, double part)
{
    return fabs(a - b) <= part * fabs(b);
}
#define CHECK_NEAR(a, b, part)                                                                     \
    do {                                                                                           \
        if (!near(a, b, part))                                                                     \
            fprintf(stderr, "%s is %g, want %g\n", #a, (double)(a), (double)(b));                  \
        CHECK(near(a, b, part));                                                                   \
    } while (0)

/* 1 ms per request, 100 MB/s, opens of 2 ms, stats of 0.5 ms: all of it is in the profile. */
static void fit_finds_the_numbers(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    set_use(
        &s, 0, set_file(&s, "/n/a.bin", "nfs", 64 * MB),
        (struct use){.reads = 3000, .bytes = 4096, .read_s = 1e-3 + 4096 / 1e8, .meta_s = 2e-3});
    set_use(&s, 0, set_file(&s, "/n/b.bin", "nfs", 64 * MB),
            (struct use){.reads = 16,
                         .bytes = 4 * MB,
                         .read_s = 4 * MB / 1e8,
                         .seq = 1,
                         .consec = 1,
                         .meta_s = 2e-3});
    set_use(&s, 0, set_file(&s, "/n/c.bin", "nfs", 10),
            (struct use){.opens = 50, .stats = 100, .meta_s = 50 * 2e-3 + 100 * 0.5e-3});
    /* Another file system says nothing about this one. */
    set_use(&s, 0, set_file(&s, "/tmp/d.bin", "tmpfs", 64 * MB),
            (struct use){.reads = 100000, .bytes = 4096, .read_s = 2e-6});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    struct stk_storage st = stk_storage_fit(&a, "nfs", STK_REACH_SHARED);
    CHECK(st.latency_measured && st.read_measured);
    CHECK_NEAR(st.latency_s, 1e-3, 0.05);
    CHECK_NEAR(st.read_Bps, 1e8, 0.1);
    CHECK_NEAR(st.open_s, 2e-3, 0.05);
    CHECK_NEAR(st.ask_s, 0.5e-3, 0.05);
    st = stk_storage_fit(&a, "lustre", STK_REACH_SHARED);
    CHECK(!st.latency_measured && !st.read_measured && st.latency_s > 0 && st.read_Bps > 0);
    stk_analysis_release(&a);
    set_release(&s);
}

/* One open that stalled for 150 ms does not make nine opens of the loader cost more than a second. */
static void a_stall_is_not_the_storage(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    set_use(&s, 0, set_file(&s, "/n/a.bin", "nfs", 64 * MB),
            (struct use){.reads = 3000, .bytes = 4096, .read_s = 1e-3, .meta_s = 150e-3});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    struct stk_storage st = stk_storage_fit(&a, "nfs", STK_REACH_SHARED);
    CHECK(st.open_s <= st.latency_s && st.ask_s <= st.latency_s);
    stk_analysis_release(&a);
    set_release(&s);
}

/* Of reads in order, storage answers those that wait; the others found their bytes in memory. */
static void requests_are_those_that_wait(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    struct stk_prof_rec *r = set_use(
        &s, 0, set_file(&s, "/n/a.bin", "nfs", 64 * MB),
        (struct use){.reads = 16384, .bytes = 4096, .read_s = 0.4 / 16384, .seq = 1, .consec = 1});
    memset(r->n.read_latency, 0, sizeof r->n.read_latency);
    r->n.read_latency[set_latency(1e-6)] = 16384 - 256;
    r->n.read_latency[set_latency(1.5e-3)] = 256;
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    struct stk_work w = stk_work_of(&a.file[0]);
    CHECK_NEAR(w.requests, 256, 0.001);
    CHECK_NEAR(w.bytes, 64 * MB, 0.001);
    CHECK(w.cpu_s < 0.05);
    /* The kernel cuts longer reads into the same requests: they save the calls only. */
    struct stk_storage st = stk_storage_fit(&a, "nfs", STK_REACH_SHARED);
    struct stk_work large = stk_work_read(&st, 64 * MB, 4 * MB);
    CHECK(stk_work_saved_s(&st, 0.4, &w, &large) < 0.05);
    stk_analysis_release(&a);
    set_release(&s);
}

/* 100 s of one thread, of which it reads for 1 s and is on the CPU for 10: for 8 outside the kernel. */
static void one_thread(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    set_use(&s, 0, set_file(&s, "/n/a.bin", "nfs", 64 * MB), (struct use){.reads = 1000, .bytes = 4096, .read_s = 1e-3});
    s.proc[0].user_s = 8;
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(stk_reads_in_turn(&a));
    CHECK_NEAR(stk_compute_of(&a), 99, 0.001);
    CHECK_NEAR(stk_decode_of(&a), 8, 0.001);
    CHECK_NEAR(stk_batch_of(&a, 3000, 1000, 0), 32, 0);
    CHECK_NEAR(stk_batch_of(&a, 3000, 1000, 4), 15, 0); /* 16 batches of each reader */
    a.steps.marked = true;
    a.steps.count = 60;
    CHECK_NEAR(stk_batch_of(&a, 3000, 1000, 4), 50, 0);
    stk_analysis_release(&a);
    /* Of workers, what they decode is their own, and the loop computes in all of its time. */
    set_use(&s, set_worker(&s, 0, 4), set_file(&s, "/n/b.bin", "nfs", 64 * MB),
            (struct use){.reads = 1000, .bytes = 4096, .read_s = 1e-3});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(!stk_reads_in_turn(&a));
    CHECK_NEAR(stk_decode_of(&a), 0, 0);
    s.proc[1].user_s = 3;
    CHECK_NEAR(stk_readers_cpu_s(&a, 0), 3, 0.001);
    CHECK_NEAR(stk_readers_cpu_s(&a, 2), 1.5, 0.001); /* two of the four before it began */
    stk_analysis_release(&a);
    set_release(&s);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(fit_finds_the_numbers);
    CHECK_RUN(a_stall_is_not_the_storage);
    CHECK_RUN(requests_are_those_that_wait);
    CHECK_RUN(one_thread);
    return CHECK_DONE();
}
