/*
 * test_analysis.c - the numbers people read off a profile, on profiles made in memory. If these are
 * wrong, everything a report says is.
 */
#include "analysis/analysis.h"

#include <math.h>

#include "check.h"
#include "analysis/parts.h"
#include "profileset.h"

#define KIB 1024.0
#define MB  1048576.0

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fmax(1, fabs(b));
}

static void formats(void)
{
    CHECK_STR(stk_format_of_path("/d/train-00001-of-01024"), "tfrecord");
    CHECK_STR(stk_format_of_path("/d/a.tfrecord.gz"), "tfrecord");
    CHECK_STR(stk_format_of_path("/d/x.TAR"), "tar");
    CHECK_STR(stk_format_of_path("/d/a.JPEG"), "image");
    CHECK_STR(stk_format_of_path("train/*.jpg"), "image");
    CHECK_STR(stk_format_of_path("/d/model.ckpt-50.data-00000-of-00001"), "checkpoint");
    CHECK_STR(stk_format_of_path("/d/epoch3.pt"), "checkpoint");
    CHECK_STR(stk_format_of_path("/d/ckpt_3.npz"), "checkpoint");
    CHECK_STR(stk_format_of_path("/d/checkpoint-500/optimizer.bin"), "checkpoint");
    CHECK_STR(stk_format_of_path("checkpoints/1.h5"), "checkpoint");
    CHECK_STR(stk_format_of_path("/d/checkpoints/x/1.h5"), "hdf5");
    CHECK_STR(stk_format_of_path("/d/events.out.tfevents.12.n"), "log");
    CHECK_STR(stk_format_of_path("/d/x.h5"), "hdf5");
    CHECK_STR(stk_format_of_path("/d/x.csv"), "csv");
    CHECK_STR(stk_format_of_path("/d/epoch3.pt.tmp"), "checkpoint"); /* until it is renamed */
    CHECK_STR(stk_format_of_path("/d/a.csv.partial"), "csv");
    CHECK_STR(stk_format_of_path("/d/.tmp"), "");
    CHECK_STR(stk_format_of_path("/d.h5/noname"), "");
    CHECK_STR(stk_format_of_path(""), "");
}

/* Sums and ratios of a file and of the job. */
static void ratios(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 2);
    uint32_t f = set_file(&s, "/d/x.h5", "lustre", 1e6);
    for (uint32_t r = 0; r < 2; r++)
        set_use(&s, r, f,
                (struct use){.reads = 101,
                             .bytes = 10 * KIB,
                             .read_s = 0.001,
                             .seq = 0.6,
                             .consec = 0.4,
                             .distinct = 500e3,
                             .meta_s = 0.5});
    f = set_file(&s, "/d/y.bin", "lustre", 8e6);
    set_use(&s, 0, f,
            (struct use){.reads = 2,
                         .bytes = 4 * MB,
                         .read_s = 0.01,
                         .seq = 1,
                         .consec = 1,
                         .writes = 4,
                         .write_bytes = 100,
                         .write_s = 0.2});
    /* Above POSIX: shown elsewhere, never added. */
    set_use(&s, 1, f,
            (struct use){.reads = 1000, .bytes = 4 * MB, .read_s = 1, .api = STK_API_HDF5});
    s.file[f].distinct_bytes = s.file[f].rank_distinct_bytes = (uint64_t)(8 * MB);
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK_INT(a.nfiles, 2);
    CHECK_STR(a.file[0].name, "/d/x.h5");
    const struct stk_usage *u = &a.file[0];
    CHECK_INT(u->n.c[STK_C_READS], 202);
    CHECK(near(u->seq, 0.6) && near(u->consec, 0.4) && near(u->random, 80.0 / 202));
    CHECK(near(u->mean_read_bytes, 10240) && near(u->read_s, 0.202) && near(u->meta_s, 1));
    CHECK(near(u->reread, 2 * 101 * 10240 / 500e3) && near(u->rank_overlap, 2));
    CHECK_INT(u->ranks, 2);
    CHECK_INT(u->procs, 2);
    CHECK(near(u->small, 1) && near(u->small_time, 1));
    CHECK(u->latency_p50_s > 0.0005 && u->latency_p50_s <= 0.0011);
    CHECK_INT(a.job.n.c[STK_C_READS], 204);
    CHECK(near(a.job.io_s, 1.202 + 0.02 + 0.2));
    CHECK_INT(a.job.files, 2);
    CHECK_INT(a.job.files_written, 1);
    CHECK_INT(a.job.files_read_once, 1);
    CHECK_INT(a.nformats, 1);
    CHECK_STR(a.format[0].name, "hdf5");
    CHECK_STR(a.file[1].format, "hdf5"); /* by the calls made on it */
    CHECK_INT(a.nranks, 2);
    CHECK_INT(a.rank[0].files_read, 2);
    CHECK_INT(a.rank[1].files_read, 1);
    CHECK(a.gpu_util_mean < 0 && a.cpu_cores_mean < 0 && near(a.coverage_read, 1));
    CHECK_INT(a.cores, 16);
    stk_analysis_release(&a);
    set_release(&s);
}

/* A read of exactly 1 MiB is not under 1 MiB. */
static void unit_reads(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 10, 1);
    struct stk_prof_rec *r =
        set_use(&s, 0, set_file(&s, "/d/x", "ext4", 1e8),
                (struct use){.reads = 90, .bytes = 1048576, .read_s = 1e-3, .seq = 1, .consec = 1});
    r->n.c[STK_C_READS] += 10;
    r->n.read_size[set_bin(200000)] += 10;
    r->n.size[0] = (struct stk_common_value){1048576, 90};
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(fabs(a.job.small - 0.1) < 1e-9); /* "100 % are under 1 MiB" would be plain wrong */
    CHECK(a.job.small_time > 0 && a.job.small_time < 0.1);
    stk_analysis_release(&a);
    set_release(&s);
}

/* A folder for each class is one dataset; train and val are two. */
static void directories(void)
{
    static const char *const split[] = {"train", "val"};
    struct set s;
    struct stk_analysis a;
    char name[96];
    set_init(&s, 100, 1);
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < 600; i++) {
            snprintf(name, sizeof name, "/data/in/%s/n%03d/%d.jpg", split[d], i % 200, i);
            set_use(&s, 0, set_file(&s, name, "nfs", 1000),
                    (struct use){.reads = 1, .bytes = 1000, .read_s = 0.001 * (d ? 1 : 2)});
        }
    /* Listing the classes is counted, and is no file of another kind beside them. */
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "/data/in/train/n%03d", i);
        set_use(&s, 0, set_file(&s, name, "nfs", 0), (struct use){.meta_s = 1e-6})
            ->n.c[STK_C_DIR_READS] = 3;
    }
    set_use(&s, 0, set_file(&s, "/data/out/log.csv", "nfs", 10),
            (struct use){.writes = 1, .write_bytes = 10, .write_s = 0.001});
    set_use(&s, 0, set_file(&s, "rel.txt", "nfs", 10), (struct use){.reads = 1, .bytes = 10});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK_INT(a.ndirs, 4);
    CHECK_STR(a.dir[0].name, "/data/in/train");
    CHECK_STR(a.dir[0].format, "image");
    CHECK_INT(a.dir[0].files_read, 600);
    CHECK_STR(a.dir[1].name, "/data/in/val");
    CHECK_STR(a.dir[2].name, "/data/out");
    CHECK_STR(a.dir[3].name, ".");
    stk_analysis_release(&a);
    set_release(&s);

    /* Thousands of folders without a pattern stay a short list. */
    set_init(&s, 100, 1);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "/d%d/a%d/b%d/c%d/f.npy", i, i, i, i);
        set_use(&s, 0, set_file(&s, name, "nfs", 1000),
                (struct use){.reads = 1, .bytes = 1000, .read_s = 0.001});
    }
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(a.ndirs <= 256);
    CHECK_INT(a.job.files_read, 3000);
    uint64_t files = 0;
    for (size_t i = 0; i < a.ndirs; i++)
        files += a.dir[i].files_read;
    CHECK_INT(files, 3000);
    stk_analysis_release(&a);
    set_release(&s);
}

/* The same bytes three times over, a file at a time: three epochs of a third each. */
static void epochs_found(void)
{
    struct set s;
    struct stk_analysis a;
    char name[64];
    set_init(&s, 90, 1);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "/d/%d.tfrecord", i);
        set_use(&s, 0, set_file(&s, name, "nfs", 4e6),
                (struct use){.reads = 30,
                             .opens = 3,
                             .bytes = 400e3,
                             .read_s = 0.01,
                             .seq = 1,
                             .consec = 1,
                             .distinct = 4e6});
    }
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK_INT(a.nepochs, 3);
    CHECK(!a.epochs_marked);
    CHECK(a.nepochs == 3 && fabs(a.epoch[1].start_s - 30) < 0.5 &&
          fabs(a.epoch[1].end_s - 60) < 0.5);
    CHECK(a.nepochs == 3 && fabs((double)a.epoch[2].read_bytes - 40e6) < 1e6);
    stk_analysis_release(&a);
    set_release(&s);
}

/* Once, or by several ranks, or at random in a file that stays open: no epochs are claimed. */
static void epochs_unclear(void)
{
    struct set s;
    struct stk_analysis a;
    for (int kind = 0; kind < 3; kind++) {
        set_init(&s, 90, kind == 1 ? 3 : 1);
        uint32_t f = set_file(&s, "/d/x.h5", "nfs", 40e6);
        struct use u = {.reads = 100, .bytes = 400e3, .read_s = 0.01, .seq = 1, .consec = 1};
        if (kind == 2)
            u = (struct use){
                .reads = 700, .bytes = 400e3, .read_s = 0.01, .seq = 0.5, .distinct = 40e6};
        for (uint32_t r = 0; r < (kind == 1 ? 3u : 1u); r++)
            set_use(&s, r, f, u);
        CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
        CHECK_INT(a.nepochs, 0);
        stk_analysis_release(&a);
        set_release(&s);
    }
}

/* 40 MB in ten files, each read `times` times by each of `procs` processes, in `span_s`. */
static void passes_set(struct set *s, uint32_t procs, double times, double span_s)
{
    char name[64];
    set_init(s, 90, 1);
    while (s->p.nprocs < procs)
        set_worker(s, 0, 1);
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "/d/%d.tfrecord", i);
        uint32_t f = set_file(s, name, "nfs", 4e6);
        for (uint32_t w = 0; w < procs; w++)
            set_use(s, w, f,
                    (struct use){.reads = 10 * times,
                                 .opens = times,
                                 .bytes = 400e3,
                                 .read_s = 0.01,
                                 .seq = 1,
                                 .consec = 1,
                                 .distinct = 4e6,
                                 .span_s = span_s});
        s->file[f].rank_distinct_bytes = 4000000; /* one rank */
    }
}

static size_t epochs_of(struct set *s)
{
    struct stk_analysis a;
    CHECK_INT(stk_analyze(&s->p, &a, NULL), 0);
    size_t n = a.nepochs;
    stk_analysis_release(&a);
    set_release(s);
    return n;
}

/* Four workers open an archive, and each reads as many bytes as it has. If a buffer is filled around
 * every member, each has read a part of the members only: these are not four epochs. */
static void buffers_are_no_passes(void)
{
    for (int twice = 0; twice < 2; twice++) {
        struct set s;
        set_init(&s, 90, 1);
        while (s.p.nprocs < 5)
            set_worker(&s, 0, 1);
        uint32_t f = set_file(&s, "/d/all.zip", "nfs", 4e6);
        for (uint32_t w = 1; w < 5; w++) {
            s.proc[w].start_s = 20 * (w - 1);
            set_use(&s, w, f,
                    (struct use){.reads = 1000,
                                 .bytes = 4e3,
                                 .read_s = 0.001,
                                 .seq = 0.5,
                                 .distinct = twice ? 3e6 : 4e6,
                                 .span_s = 19});
        }
        s.file[f].distinct_bytes = s.file[f].rank_distinct_bytes = 4000000;
        CHECK_INT(epochs_of(&s) == 0, twice);
    }
}

/* Passes at the same time, by threads or by workers that do not divide the data, are no epochs. */
static void passes_at_once(void)
{
    struct set s;
    passes_set(&s, 1, 4, 80);
    CHECK_INT(epochs_of(&s), 4);
    passes_set(&s, 1, 4, 80);
    s.proc[0].twins = 4;
    CHECK_INT(epochs_of(&s), 0);
    passes_set(&s, 1, 8, 80);
    s.proc[0].twins = 4;
    CHECK_INT(epochs_of(&s), 2);
    passes_set(&s, 4, 1, 80);
    CHECK_INT(epochs_of(&s), 0);
    passes_set(&s, 4, 1, 20);
    for (uint32_t w = 0; w < 4; w++)
        s.proc[w].start_s = 21 * w; /* one worker after the other */
    CHECK_INT(epochs_of(&s), 4);
}

/* N draws with replacement from N samples: one epoch, in which half of them come again. */
static void draws_with_replacement(void)
{
    struct set s;
    char name[64];
    set_init(&s, 90, 1);
    for (int i = 0; i < 63; i++) { /* of 100, as often as Poisson has it */
        double times = i < 37 ? 1 : i < 55 ? 2 : 3;
        snprintf(name, sizeof name, "/d/%d.jpg", i);
        set_use(&s, 0, set_file(&s, name, "nfs", 1e5),
                (struct use){
                    .reads = times, .opens = times, .bytes = 1e5, .read_s = 0.01, .distinct = 1e5});
    }
    CHECK_INT(epochs_of(&s), 0);
}

static void marks(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    set_use(&s, 0, set_file(&s, "/d/x", "nfs", 1e6),
            (struct use){.reads = 100, .bytes = 1e4, .read_s = 0.1});
    for (int i = 0; i < 10; i++) {
        s.mark[s.p.nmarks++] = (struct stk_prof_mark){
            .kind = STK_MARK_STEP, .at_s = i * 10, .length_s = 10, .name = "", .number = 1};
        s.mark[s.p.nmarks++] = (struct stk_prof_mark){
            .kind = STK_MARK_PHASE, .at_s = i * 10, .length_s = 2.5, .name = "load"};
        if (i % 5 == 0)
            s.mark[s.p.nmarks++] =
                (struct stk_prof_mark){.kind = STK_MARK_EPOCH, .at_s = i * 10, .name = ""};
    }
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(a.steps.marked);
    CHECK_INT(a.steps.count, 10);
    CHECK(near(a.steps.mean_s, 10) && near(a.steps.p99_s, 10) && near(a.steps.max_s, 10));
    CHECK(fabs(a.steps.io_s - 1) < 0.01);
    CHECK_INT(a.nphases, 1);
    CHECK_STR(a.phase[0].name, "load");
    CHECK(near(a.phase[0].total_s, 25) && near(a.phase[0].mean_s, 2.5));
    CHECK(fabs(a.phase[0].io_s - 2.5) < 0.05); /* a quarter of 10 s, spread evenly */
    CHECK(a.epochs_marked);
    CHECK_INT(a.nepochs, 2);
    CHECK(a.nepochs == 2 && near(a.epoch[1].start_s, 50) && near(a.epoch[1].end_s, 100));
    stk_analysis_release(&a);
    set_release(&s);
}

/* Nine reads, then a pause of half a second, again and again: steps. Pauses of all lengths: none.
 */
static void steps_found(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    set_use(&s, 0, set_file(&s, "/d/x", "nfs", 1e6),
            (struct use){.reads = 1000, .bytes = 1e4, .read_s = 0.001});
    s.p.gap[12] = (struct stk_prof_gap){.count = 900, .ns = 900 * 5000};
    s.p.gap[28] = (struct stk_prof_gap){.count = 100, .ns = 100 * 500000000ull};
    s.proc[0].read_bytes = 1;
    s.proc[s.p.nprocs] = s.proc[0]; /* a parent that only looks for files has no steps */
    s.proc[s.p.nprocs++].read_bytes = 0;
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(!a.steps.marked);
    CHECK_INT(a.steps.count, 100);
    CHECK(a.steps.mean_s > 0.5 && a.steps.mean_s < 0.52);
    stk_analysis_release(&a);
    for (int b = 10; b < 30; b++)
        s.p.gap[b] = (struct stk_prof_gap){.count = 50, .ns = 50ull << b};
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK_INT(a.steps.count, 0);
    stk_analysis_release(&a);
    set_release(&s);
}

/* Shares of run time: of a thread, of the job, of the loop that trains. */
static void shares(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 100, 1);
    uint32_t f = set_file(&s, "/d/x", "nfs", 1e9);
    set_use(&s, 0, f, (struct use){.reads = 100, .bytes = 1e4, .read_s = 0.1});
    for (int w = 0; w < 3; w++)
        set_use(&s, set_worker(&s, 0, 5), f,
                (struct use){.reads = 300, .bytes = 1e4, .read_s = 0.1});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(near(a.io_share_thread, 0.25)); /* (10 + 3 x 30) / 4 / 100 */
    CHECK(near(a.io_share_main, 0.1));
    /* Between the busiest (30 %) and all one after another (100 %); by chance 1 - 0.75^4. */
    CHECK(fabs(a.io_share_merged - (1 - pow(0.75, 4))) < 0.01);
    CHECK_INT(a.nranks, 1); /* workers belong to the process that forked them */
    CHECK_INT(a.rank[0].workers, 3);
    CHECK(near(a.rank[0].cpu_s, 10 + 15));
    stk_analysis_release(&a);
    set_release(&s);
}

/* What a damaged or empty profile may hold must not hurt. */
static void odd(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 0, 1);
    s.p.bin_s = 0;
    s.p.nprocs = 0;
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK_INT(a.nfiles, 0);
    stk_analysis_release(&a);
    s.p.nprocs = 1;
    uint32_t f = set_file(&s, "", "", 0);
    struct stk_prof_rec *r = set_use(&s, 0, f, (struct use){.reads = 5, .bytes = 1e18});
    for (int i = 0; i < STK_C_COUNT; i++)
        r->n.c[i] = UINT64_MAX;
    r->n.c[STK_C_FIRST_READS] = 7; /* sums and parts that disagree */
    s.proc[0].parent = 0;
    s.proc[0].born = STK_BORN_FORK;
    struct set_advice o;
    CHECK_INT(set_advise(&s, &o), 0);
    set_advice_release(&o);
    set_release(&s);
}

/* One read of 70 us lies in a bin that ends at 131 us: no percentile is above the longest. */
static void latency(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 1, 1);
    set_use(&s, 0, set_file(&s, "/d/x", "nfs", 1e6),
            (struct use){.reads = 1, .bytes = 1e6, .read_s = 70e-6});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(near(a.job.latency_p99_s, 70e-6) && a.job.latency_p50_s <= a.job.read_s);
    stk_analysis_release(&a);
    set_release(&s);
}

/* Programs of a script are not ranks; beside real ranks they belong to none. */
static void script(void)
{
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        struct set s;
        struct stk_analysis a;
        set_init(&s, 10, ranks);
        uint32_t f = set_file(&s, "/d/x", "nfs", 1e6);
        for (uint32_t r = 0; r < ranks; r++)
            set_use(&s, r, f, (struct use){.reads = 10, .bytes = 1e4, .read_s = 0.01});
        for (uint32_t other = 0; other < 2; other++) {
            uint32_t i = (uint32_t)s.p.nprocs++;
            s.proc[i] = s.proc[0];
            s.proc[i].world = s.proc[i].rank = 0;
            s.proc[i].unit = s.p.nunits++;
            set_use(&s, i, f, (struct use){.reads = 10, .bytes = 1e4, .read_s = 0.01});
        }
        CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
        CHECK_INT(a.nranks, ranks == 1 ? 1 : 3);
        CHECK(a.job.ranks <= s.p.nranks);
        CHECK(a.rank[0].known && a.rank[0].rank == 0);
        CHECK(ranks == 1 ? a.rank[0].procs == 3 : !a.rank[2].known && a.rank[2].procs == 2);
        stk_analysis_release(&a);
        set_release(&s);
    }
}

/* libc's own few KiB are no share to worry about; a MiB that went by is. */
static void coverage(void)
{
    for (int much = 0; much < 2; much++) {
        struct set s;
        struct stk_analysis a;
        set_init(&s, 10, 1);
        s.proc[0].kernel_read_bytes = much ? 1u << 20 : 4096;
        s.proc[0].seen_read_bytes = 700;
        s.proc[0].kernel_write_bytes = 1000; /* of a killed process: as of the last look */
        s.proc[0].seen_write_bytes = 1210;
        CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
        CHECK(a.coverage_write <= 1);
        CHECK(much ? a.coverage_read >= 0 && !a.coverage_little
                   : a.coverage_read < 0 && a.coverage_little);
        stk_analysis_release(&a);
        set_release(&s);
    }
}

/* A group's number of files is an estimate, and so is every sum that it is in. */
static void estimates(void)
{
    struct set s;
    struct stk_analysis a;
    set_init(&s, 10, 1);
    for (int g = 0; g < 2; g++) {
        uint32_t f = set_file(&s, g ? "/d/*.jpg" : "/e/x.jpg", "nfs", 1e6);
        s.file[f].group = g;
        s.file[f].files = g ? 4956 : 1;
        set_use(&s, 0, f, (struct use){.reads = 10, .bytes = 1e4, .read_s = 0.01});
    }
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(!a.job.files_exact && a.file[0].files_exact != a.file[1].files_exact);
    stk_analysis_release(&a);
    set_release(&s);
}

/* A job of 10 s: a quarter of a second in reads of the main process, one in writes. */
static void loop_set(struct set *s, uint32_t ranks)
{
    set_init(s, 10, ranks);
    uint32_t f = set_file(s, "/d/a.bin", "nfs", 1e6);
    for (uint32_t r = 0; r < ranks; r++)
        set_use(s, r, f, (struct use){.reads = 25, .bytes = 4e4, .read_s = 0.01, .write_s = 1});
}

static struct stk_loop loop_of(struct set *s)
{
    struct stk_analysis a;
    CHECK_INT(stk_analyze(&s->p, &a, NULL), 0);
    struct stk_loop l = a.loop;
    CHECK(l.why || near(l.start_s + l.wait_s + l.write_s + l.compute_s, l.run_s));
    stk_analysis_release(&a);
    set_release(s);
    return l;
}

static void main_loop_alone(void)
{
    struct set s;
    loop_set(&s, 2);
    s.rec[0].n.c[STK_C_FIRST_READ_NS] = s.rec[1].n.c[STK_C_FIRST_READ_NS] = 3000000000;
    s.proc[0].wait_threads_s = 5; /* for threads that read nothing: not for data */
    struct stk_loop l = loop_of(&s);
    CHECK_INT(l.how, STK_LOOP_READS);
    CHECK(near(l.wait_s, 0.25) && near(l.write_s, 1) && near(l.start_s, 3) && l.loops == 2);
}

/* A program that only writes does not wait for data when it opens its files. */
static void main_loop_that_writes(void)
{
    for (int reads = 0; reads < 2; reads++) {
        struct set s;
        loop_set(&s, 1);
        struct stk_prof_rec *r = set_use(&s, 0, set_file(&s, "/d/log.txt", "nfs", 1000),
                                         (struct use){.opens = 100, .meta_s = 2, .reads = reads});
        r->n.c[STK_C_WRITE_OPENS] = 100;
        s.proc[0].main_io_s = s.proc[0].io_sum_s = 3.25;
        struct stk_loop l = loop_of(&s);
        CHECK(near(l.wait_s, reads ? 2.25 : 0.25) && near(l.write_s, reads ? 1 : 3));
    }
}

/* What HDF5 unpacks in its calls is not what the program computes. */
static void main_loop_that_unpacks(void)
{
    struct set s;
    loop_set(&s, 1);
    struct stk_prof_rec *r =
        set_use(&s, 0, s.rec[0].file, (struct use){.reads = 25, .bytes = 4e4, .read_s = 0.05});
    r->api = STK_API_HDF5;
    s.proc[0].main_io_s = s.proc[0].io_sum_s = 1.25;
    struct stk_loop l = loop_of(&s);
    CHECK(near(l.wait_s, 1.25) && near(l.write_s, 1)); /* 0.25 in reads, 1 s beside them */
}

static void main_loop_of_others(void)
{
    struct set s;
    loop_set(&s, 1);
    s.proc[0].threads = 3;
    s.proc[0].wait_threads_s = 4;
    struct stk_loop l = loop_of(&s);
    CHECK(l.how == STK_LOOP_THREADS && near(l.wait_s, 4.25));

    /* zcat | train: the wait is known, but not because nobody else reads. */
    for (uint64_t sent = 0; sent <= 4000000; sent += 4000000) {
        loop_set(&s, 1);
        uint32_t cat = set_worker(&s, 0, 1);
        s.proc[cat].worker = 0;
        s.proc[cat].born = STK_BORN_START;
        s.proc[cat].read_bytes = 2000000;
        s.proc[0].read_bytes = 1000000;
        s.proc[0].seen_read_bytes = 1000000 + sent;
        s.proc[0].wait_processes_s = 2;
        l = loop_of(&s);
        CHECK(l.how == (sent ? STK_LOOP_PIPES : STK_LOOP_READS) && near(l.wait_s, 2.25));
    }

    loop_set(&s, 1);
    uint32_t server = set_worker(&s, 0, 1), w = set_worker(&s, server, 1);
    s.proc[server].worker = 0;
    s.proc[server].command = "python3 -c 'from multiprocessing.forkserver import main'";
    s.proc[w].start_s = 2;
    s.proc[w].worker = 1;
    s.proc[0].wait_processes_s = 6;
    l = loop_of(&s);
    CHECK(l.how == STK_LOOP_WORKERS && l.workers == 1);
    CHECK(near(l.wait_s, 6.25) && near(l.start_s, 2) && near(l.compute_s, 0.75));
}

static void main_loop_marked(void)
{
    struct set s;
    loop_set(&s, 1);
    const struct {
        const char *name;
        double at, length;
    } phase[] = {{"data", 2, 3}, {"load file", 3, 1}, {"forward", 5, 2}, {"Data", 7, 1}};
    for (size_t i = 0; i < 4; i++)
        s.mark[s.p.nmarks++] = (struct stk_prof_mark){.kind = STK_MARK_PHASE,
                                                      .name = phase[i].name,
                                                      .at_s = phase[i].at,
                                                      .length_s = phase[i].length};
    struct stk_loop l = loop_of(&s);
    CHECK(l.how == STK_LOOP_MARKS && near(l.wait_s, 4)); /* nested ones count once */
}

/* What was not seen is not called computing. */
static void main_loop_unknown(void)
{
    struct set s;
    loop_set(&s, 1);
    s.proc[0].kernel_read_bytes = 1ull << 30;
    CHECK(strstr(loop_of(&s).why, "were not seen"));
    loop_set(&s, 1);
    s.proc[0].blind = true;
    CHECK(strstr(loop_of(&s).why, "io_uring"));
    loop_set(&s, 1);
    s.proc[0].major_faults = 1000;
    s.rec[0].n.c[STK_C_MMAP_BYTES] = 1ull << 30;
    CHECK(strstr(loop_of(&s).why, "mapped"));
    loop_set(&s, 1);
    s.proc[0].threads = 2;
    CHECK(strstr(loop_of(&s).why, "other threads"));
    loop_set(&s, 1);
    s.p.source = &stk_source_darshan;
    CHECK_INT(loop_of(&s).how, STK_LOOP_UNKNOWN);
    set_init(&s, 10, 1);
    s.p.nprocs = 0;
    CHECK(strstr(loop_of(&s).why, "no process"));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(formats);
    CHECK_RUN(ratios);
    CHECK_RUN(unit_reads);
    CHECK_RUN(directories);
    CHECK_RUN(epochs_found);
    CHECK_RUN(epochs_unclear);
    CHECK_RUN(buffers_are_no_passes);
    CHECK_RUN(passes_at_once);
    CHECK_RUN(draws_with_replacement);
    CHECK_RUN(marks);
    CHECK_RUN(steps_found);
    CHECK_RUN(shares);
    CHECK_RUN(odd);
    CHECK_RUN(latency);
    CHECK_RUN(script);
    CHECK_RUN(coverage);
    CHECK_RUN(estimates);
    CHECK_RUN(main_loop_alone);
    CHECK_RUN(main_loop_that_writes);
    CHECK_RUN(main_loop_that_unpacks);
    CHECK_RUN(main_loop_of_others);
    CHECK_RUN(main_loop_marked);
    CHECK_RUN(main_loop_unknown);
    return CHECK_DONE();
}
