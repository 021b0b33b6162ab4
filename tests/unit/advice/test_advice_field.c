/*
 * test_advice_field.c - advice to programs that people brought: each was told something that was
 * not so, or not told what was. A user would follow the advice and gain nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "advice/priv.h"

#include "adviceset.h"

/* 16,000 reads of 8 KiB in order, of which one in 32 waits for what the kernel reads ahead. */
static void stream_that_is_read_ahead(void)
{
    set_init(&s, 20, 1);
    uint32_t f = set_file(&s, "/lus/shard-0000.tar", "lustre", 125 * MB);
    struct stk_prof_rec *r = set_use(
        &s, 0, f,
        (struct use){.reads = 16000, .bytes = 8 * KIB, .read_s = 0.0006, .seq = 1, .consec = 1});
    memset(r->n.read_latency, 0, sizeof r->n.read_latency);
    r->n.read_latency[set_latency(1e-6)] = 15500;
    r->n.read_latency[set_latency(0.019)] = 500;
    /* Larger requests would wait for the same bytes: measured, they gain nothing. */
    CHECK(!advise("small-reads"));
    CHECK(set_finding(&o, "prefetch-depth") != NULL);
    CHECK(!says(set_finding(&o, "read-parallelism"), "TFRecord"));
    done();
}

static void save_often(const char *path, const char *fs, double writes, double opens, double syncs)
{
    set_init(&s, 10, 1);
    struct stk_prof_rec *r = set_use(&s, 0, set_file(&s, path, fs, 8 * MB),
                                     (struct use){.writes = writes,
                                                  .write_bytes = 512 * KIB,
                                                  .write_s = 1,
                                                  .opens = opens,
                                                  .fsyncs = syncs,
                                                  .stats = 200,
                                                  .meta_s = 2});
    r->n.c[STK_C_STATS] = 0;
    r->n.c[STK_C_WRITE_OPENS] = (uint64_t)opens;
}

/* What is written under a name of its own and renamed is a checkpoint all the same. */
static void checkpoint_until_it_is_renamed(void)
{
    save_often("/lus/run/model.pt.tmp", "lustre", 320, 200, 200);
    CHECK(advise("checkpoint-local") != NULL);
    CHECK(!set_finding(&o, "metadata-load")); /* the time is that of fsync, not of opens */
    CHECK(!set_finding(&o, "fsync-heavy"));   /* the same seconds */
    done();
    /* On a local disk, synced once each: that is what one tells people to do. */
    save_often("/scratch/model.pt.tmp", "ext4", 320, 200, 200);
    const struct stk_finding *f = advise("fsync-heavy");
    CHECK(says(f, "that is right") && !says(f, "Sync once"));
    CHECK(!set_finding(&o, "metadata-load"));
    done();
    /* A line, a sync. */
    save_often("/scratch/steps.txt", "ext4", 1000, 1, 1000);
    CHECK(says(advise("fsync-heavy"), "Sync once"));
    done();
    save_often("/scratch/runs.db-journal", "ext4", 1000, 300, 900);
    CHECK(says(advise("fsync-heavy"), "transaction"));
    done();
}

/* cat reads a table and waits for the pipe; what parses it is another. */
static void text_that_is_passed_on(void)
{
    struct use u = {
        .reads = 1000, .bytes = 128 * KIB, .read_s = 1e-5, .seq = 1, .consec = 1, .span_s = 5};
    set_init(&s, 20, 1);
    s.proc[0].cpu_s = 0.05;
    set_use(&s, 0, set_file(&s, "/d/table.csv", "ext4", 125 * MB), u);
    CHECK(!advise("csv-to-records"));
    done();
    set_init(&s, 20, 1);
    s.proc[0].cpu_s = 6; /* this one parses */
    set_use(&s, 0, set_file(&s, "/d/table.jsonl", "ext4", 125 * MB), u);
    const struct stk_finding *f = advise("csv-to-records");
    CHECK(f && f->gain_s > 1 && f->gain_s < 1.4); /* of 5 s between the reads, mostly computing */
    CHECK(says(f, "stoker pack /d/table.jsonl /d/table.jsonl-packed --format tfrecord"));
    done();
    set_init(&s, 20, 1);
    s.proc[0].cpu_s = 6; /* as batches of cells it takes longer than a parser of whole files */
    set_use(&s, 0, set_file(&s, "/d/table.csv", "ext4", 125 * MB), u);
    CHECK(!advise("csv-to-records"));
    done();
    set_init(&s, 20, 1);
    s.proc[0].cpu_s = 6; /* gzip: less than half as many bytes, and as much to parse */
    set_use(&s, 0, set_file(&s, "/d/table.jsonl.gz", "ext4", 125 * MB), u);
    f = advise("csv-to-records");
    CHECK(f && f->gain_s > 2 && f->gain_s < 2.8);
    done();
}

/* numpy.load() of an array for each of its rows that is used, from a local disk. */
static void loaded_again_and_again(void)
{
    struct use u = {.opens = 15, .reads = 30, .bytes = 31 * MB, .read_s = 0.015, .seq = 1,
                    .consec = 1, .distinct = 62 * MB};
    set_init(&s, 1, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN | stk_library_bit("numpy", 5);
    set_use(&s, 0, set_file(&s, "/d/x.npy", "ext4", 62 * MB), u);
    const struct stk_finding *f = advise("reread-small-file");
    CHECK(f && f->gain_s > 0.3 && says(f, "mmap_mode=\"r\""));
    done();
}

/* numpy.memmap() for every batch (nanoGPT), of two files. */
static void mapped_again_and_again(void)
{
    static const char *const names[] = {"/lus/train.bin", "/lus/val.bin"};
    set_init(&s, 8, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN | stk_library_bit("numpy", 5);
    s.proc[0].cpu_s = 0.5;
    s.proc[0].major_faults = 1656;
    for (size_t i = 0; i < 2; i++) {
        double n = i ? 30 : 120, size = i ? 3 * MB : 15 * MB;
        struct stk_prof_rec *r =
            set_use(&s, 0, set_file(&s, names[i], "lustre", size),
                    (struct use){.opens = n, .stats = 3 * n, .meta_s = 0.005 * n});
        r->n.c[STK_C_MMAPS] = (uint64_t)n;
        r->n.c[STK_C_MMAP_BYTES] = (uint64_t)(n * size);
    }
    const struct stk_finding *f = advise("map-per-sample");
    CHECK(f && o.o.nfindings == 1 && f->npaths == 2);
    CHECK(f && f->gain_s > 5 && says(f, "mapped 120 times") && says(f, "numpy.memmap(\"/lus/train.bin\""));
    done();
}

/* Each mapped once, but touched here and there: both files may be loaded first. */
static void two_mapped_files(void)
{
    set_init(&s, 8, 1);
    s.proc[0].cpu_s = 0.5;
    s.proc[0].major_faults = 1656;
    for (int i = 0; i < 2; i++) {
        struct stk_prof_rec *r = set_use(&s, 0,
                                         set_file(&s, i ? "/lus/a.bin" : "/lus/b.bin", "lustre",
                                                  15 * MB),
                                         (struct use){.opens = 1, .meta_s = 0.005});
        r->n.c[STK_C_MMAPS] = 4;
        r->n.c[STK_C_MMAP_BYTES] = (uint64_t)(4 * 15 * MB);
    }
    const struct stk_finding *f = advise("mmap-random");
    CHECK(f && says(f, "cat /lus/a.bin") && says(f, "cat /lus/b.bin") && says(f, "15.0 MiB of"));
    done();
}

/* The main loop waits for workers that import their modules (dask), or for their work. */
static void workers_that_start(void)
{
    for (int starting = 0; starting < 2; starting++) {
        set_init(&s, 10, 1);
        s.proc[0].seen_read_bytes = s.proc[0].kernel_read_bytes = 64u << 20;
        s.proc[0].wait_processes_s = 6;
        s.proc[0].cpu_s = 3;
        for (int w = 0; w < 2; w++)
            set_use(&s, set_worker(&s, 0, 5),
                    set_file(&s, w ? "/d/a.bin" : "/d/b.bin", "ext4", 8 * MB),
                    (struct use){.reads = 2, .bytes = 4 * MB, .read_s = 1e-3})
                ->n.c[STK_C_FIRST_READ_NS] = starting ? 5000000000u : 1000000;
        advise("");
        CHECK(strstr(o.o.verdict, starting ? "workers took to start" : "busy with decoding"));
        done();
    }
}

/* "Nothing to fix" is said with the floor, and only if nothing would save more than that. */
static void nothing_to_fix(void)
{
    struct use u = {.reads = 25, .bytes = 4 * MB, .read_s = 0.004, .seq = 1, .consec = 1};
    set_init(&s, 1, 1);
    set_use(&s, 0, set_file(&s, "/d/x.bin", "ext4", 100 * MB), u);
    advise("");
    CHECK(strstr(o.o.verdict, "nothing to fix") && strstr(o.o.verdict, "more than 500 ms"));
    done();
    set_init(&s, 100, 1); /* 2,000 files of two megabytes at 50 MB/s: no rule, but 8 s */
    for (int i = 0; i < 2000; i++) {
        char name[64];
        snprintf(name, sizeof name, "/lus/shots/%d.npz", i);
        set_use(&s, 0, set_file(&s, name, "lustre", 2.1e6),
                (struct use){.reads = 9, .bytes = 233e3, .read_s = 0.0045, .seq = 0.9, .consec = 0.8});
    }
    advise("");
    CHECK(o.o.nfindings || strncmp(o.o.verdict, "no known fault", 14) == 0);
    CHECK(o.o.nfindings || strstr(o.o.verdict, "of 1 min 40 s would be saved"));
    done();
}

/* Every rank reads the file once: there is nothing to keep in memory. */
static void each_rank_once(void)
{
    set_init(&s, 10, 4);
    uint32_t f = set_file(&s, "/lus/mesh.bin", "lustre", 100 * MB);
    for (uint32_t r = 0; r < 4; r++)
        set_use(
            &s, r, f,
            (struct use){.reads = 1600, .bytes = 64 * KIB, .read_s = 0.002, .seq = 1, .consec = 1});
    CHECK(!advise("reread-small-file"));
    CHECK(set_finding(&o, "same-data-every-rank") != NULL);
    CHECK(!says(set_finding(&o, "same-data-every-rank"), "Loader(")); /* it cannot read a .bin */
    done();
}

/* Children that tell their parent nothing are ranks; those that do are a loader's workers. */
static void spawned(uint64_t parent_heard)
{
    set_init(&s, 100, 1);
    s.proc[0].seen_read_bytes = 5000 + parent_heard;
    s.proc[0].left_out_read_bytes = 5000;
    uint32_t f = set_file(&s, "/lus/data.h5", "lustre", 100 * MB);
    for (int i = 0; i < 2; i++)
        set_use(&s, set_worker(&s, 0, 10), f,
                (struct use){.reads = 5000, .bytes = 16 * KIB, .read_s = 0.006, .seq = 0.5});
}

static void ranks_that_were_spawned(void)
{
    spawned(8);
    CHECK(advise("small-reads") != NULL);
    done();
    spawned(80000);
    advise("");
    CHECK(o.o.nfindings == 0 && strstr(o.o.verdict, "hidden behind computing"));
    done();
}

/* Little of a big file in random order: cp copies all of it, a buffer would be filled in vain. */
static void little_of_much(void)
{
    set_init(&s, 60, 1);
    set_nodes(&s, 8);
    set_use(&s, 0, set_file(&s, "/lus/big.bin", "lustre", 20480 * MB),
            (struct use){.reads = 20000, .bytes = 4 * KIB, .read_s = 0.001, .seq = 0.5});
    const struct stk_finding *f = advise("random-reads");
    CHECK(f && !says(f, "Loader("));
    f = set_finding(&o, "stage-to-node");
    CHECK(!f || says(f, "Copying 20.0 GiB"));
    f = set_finding(&o, "small-reads");
    CHECK(f && !says(f, "buffering") && !says(f, "stoker pack"));
    done();
}

static void no_python(void)
{
    set_init(&s, 10, 1);
    s.proc[0].exe = "/usr/bin/solver";
    set_use(&s, 0, set_file(&s, "/d/out.dat", "ext4", 1e6),
            (struct use){.writes = 100000, .write_bytes = 5.9, .write_s = 2});
    const struct stk_finding *f = advise("small-writes");
    CHECK(says(f, "setvbuf") && !says(f, "open("));
    CHECK(f && strstr(f->title, "writes of 6 B"));
    done();
    set_init(&s, 10, 2);
    s.proc[0].exe = s.proc[1].exe = "/usr/bin/solver";
    uint32_t file = set_file(&s, "/lus/mesh.npy", "lustre", 100 * MB);
    for (uint32_t r = 0; r < 2; r++)
        set_use(
            &s, r, file,
            (struct use){.reads = 800, .bytes = 128 * KIB, .read_s = 0.005, .seq = 1, .consec = 1});
    f = advise("same-data-every-rank");
    CHECK(f && !says(f, "torch"));
    f = set_finding(&o, "prefetch-depth");
    CHECK(f && !says(f, "DataLoader("));
    f = set_finding(&o, "read-parallelism");
    CHECK(f && !says(f, "DataLoader("));
    done();
}

/* An HDF5 file that is opened for each sample would be loaded for each sample: 13 times slower. */
static void load_at_every_open(void)
{
    for (int once = 0; once < 2; once++) {
        set_init(&s, 10, 1);
        set_use(&s, 0, set_file(&s, "/lus/a.h5", "lustre", 20 * MB),
                (struct use){.reads = 12000,
                             .bytes = 1600,
                             .read_s = 0.0002,
                             .opens = once ? 1 : 12000,
                             .seq = 1,
                             .distinct = 19e6,
                             .meta_s = 1});
        const struct stk_finding *f = advise("in-memory-hdf5");
        CHECK(!!f == !!once);
        CHECK(once || set_finding(&o, "open-per-sample"));
        done();
    }
}

/* Numbers of a finding that names one file are that file's. */
static void one_files_numbers(void)
{
    set_init(&s, 10, 1);
    for (int i = 0; i < 3; i++)
        set_use(&s, 0,
                set_file(&s, i ? i > 1 ? "/lus/c.h5" : "/lus/b.h5" : "/lus/a.h5", "lustre", MB),
                (struct use){.reads = 1000, .bytes = 1000, .read_s = 0.001, .seq = 1});
    const struct stk_finding *f = advise("in-memory-hdf5");
    CHECK(f && strstr(f->title, "1.00 MiB is read in 1,000 pieces"));
    CHECK(f && strstr(f->sentence[1], "2 more are like it"));
    done();
}

/* PBS has no sbcast. */
static void schedulers(void)
{
    static const enum stk_scheduler name[] = {STK_SCHEDULER_SLURM, STK_SCHEDULER_PBS,
                                              STK_SCHEDULER_NONE};
    for (int i = 0; i < 3; i++) {
        set_init(&s, 10, 2);
        set_nodes(&s, 8);
        s.p.job = "7";
        s.p.scheduler = name[i];
        uint32_t file = set_file(&s, "/lus/a.bin", "lustre", 64 * MB);
        for (uint32_t r = 0; r < 2; r++)
            set_use(&s, r, file,
                    (struct use){
                        .reads = 3000, .bytes = 64 * KIB, .read_s = 0.001, .distinct = 64 * MB});
        const struct stk_finding *f = advise("stage-to-node");
        CHECK(f && says(f, "sbcast") == (i == 0) && !says(f, "srun"));
        CHECK(f && (i == 0 || says(f, "mpirun")));
        done();
    }
}

/* Requests in flight while the program computes are not waited for. */
static void in_flight(void)
{
    for (int busy = 0; busy < 2; busy++) {
        set_init(&s, 10, 1);
        set_use(&s, 0, set_file(&s, "/lus/a.bin", "lustre", 64 * MB),
                (struct use){.reads = 9000,
                             .bytes = 4096,
                             .read_s = 0.001,
                             .seq = 1,
                             .consec = 1,
                             .api = STK_API_ASYNC});
        s.proc[0].cpu_s = busy ? 9.9 : 0.5;
        const struct stk_finding *f = advise("small-reads");
        CHECK(busy ? !f || f->gain_s <= 0.1 : f && f->gain_s > 5);
        done();
    }
}

/* Pictures of many class folders: the tree is named, and that opening is in the time. */
static void classes(void)
{
    char name[64];
    set_init(&s, 10, 1);
    s.host[0].cores = 8;
    for (int i = 0; i < 400; i++) {
        snprintf(name, sizeof name, "/lus/train/n%02d/%d.jpg", i % 40, i);
        set_use(&s, 0, set_file(&s, name, "lustre", 9000),
                (struct use){.reads = 1, .bytes = 9000, .read_s = 0.004, .meta_s = 0.016});
    }
    const struct stk_finding *f = advise("read-parallelism");
    CHECK(f && strcmp(f->path[0], "/lus/train") == 0);
    CHECK(f && strstr(f->sentence[0], "opening"));
    done();
}

/* Text that is read all through the run, while the program computes with it. */
static void parsed_throughout(void)
{
    set_init(&s, 10, 1);
    s.proc[0].cpu_s = 9.5;
    set_use(
        &s, 0, set_file(&s, "/lus/a.csv", "lustre", 40 * MB),
        (struct use){
            .reads = 5000, .bytes = 8192, .read_s = 1e-5, .seq = 1, .consec = 1, .span_s = 9.9});
    const struct stk_finding *f = advise("csv-to-records");
    CHECK(f && f->gain_s == 0 && f->severity < STK_SEV_MEDIUM && says(f, "--format npz"));
    done();
}

/* What is packed is not put where the program lists. */
static void packed_beside_what_is_listed(void)
{
    char root[] = "/tmp/test-advice-XXXXXX", name[128], want[300];
    CHECK(mkdtemp(root));
    snprintf(name, sizeof name, "%s/set", root);
    CHECK_INT(mkdir(name, 0700), 0);
    for (int listed = 0; listed < 2; listed++) {
        set_init(&s, 10, 1);
        snprintf(name, sizeof name, "%s/set", root);
        if (listed)
            set_use(&s, 0, set_file(&s, name, "ext4", 0), (struct use){.stats = 1})
                ->n.c[STK_C_DIR_READS] = 2;
        snprintf(name, sizeof name, "%s/set/a.csv", root);
        fclose(fopen(name, "w"));
        set_use(&s, 0, set_file(&s, name, "ext4", 4 * MB),
                (struct use){.reads = 500, .bytes = 8192, .read_s = 0.002, .seq = 1, .consec = 1});
        snprintf(want, sizeof want, listed ? "%s %s/set-packed/a.csv " : "%s %s-packed ", name,
                 listed ? root : name);
        CHECK(says(advise("csv-to-records"), want));
        done();
    }
    unlink(name);
    snprintf(name, sizeof name, "%s/set", root);
    CHECK_INT(rmdir(name) | rmdir(root), 0);
}

/* Files of one folder that are read alike are one dataset, in every line; others are none of it. */
static void tables_of_several_files(void)
{
    const struct use u = {
        .reads = 500, .bytes = 8192, .read_s = 0.002, .seq = 1, .consec = 1, .span_s = 2};
    const char *const fifth[] = {NULL, "/lus/tab/val.csv", "/lus/other.csv"};
    for (size_t more = 0; more < 3; more++) {
        set_init(&s, 10, 1);
        s.proc[0].cpu_s = 2;
        for (int i = 0; i < 4; i++) {
            char name[32];
            snprintf(name, sizeof name, "/lus/tab/part%d.csv", i);
            set_use(&s, 0, set_file(&s, name, "lustre", 4 * MB), u);
        }
        if (fifth[more])
            set_use(&s, 0, set_file(&s, fifth[more], "lustre", 1 * MB),
                    (struct use){.reads = 9, .bytes = 8192, .read_s = 0.002, .seq = 1, .consec = 1});
        const struct stk_finding *f = advise("csv-to-records");
        bool all = more != 1;
        CHECK(says(f, all ? "/lus/tab (4 files): 15.6 MiB in 2,000 reads of 8.0 KiB"
                          : ".csv: 3.91 MiB in 500 reads of 8.0 KiB"));
        CHECK(f && f->gain_s < 4);
        CHECK(f && (strcmp(f->path[0], "/lus/tab") == 0) == all);
        CHECK(f && says(f, all ? "stoker pack /lus/tab /lus/tab-packed" : "stoker pack /lus/tab/part"));
        done();
    }
}

/* bcachefs is a local disk for the loader, so it is for the advice; a site's own name is shared. */
static void one_table_of_file_systems(void)
{
    CHECK_INT(stk_advice_reach("bcachefs"), STK_REACH_LOCAL);
    CHECK_INT(stk_advice_reach("disk"), STK_REACH_LOCAL);
    CHECK_INT(stk_advice_reach("devtmpfs"), STK_REACH_MEMORY);
    CHECK_INT(stk_advice_reach("dvs"), STK_REACH_SHARED);
    CHECK_INT(stk_advice_reach(""), STK_REACH_UNKNOWN);
}

/* What was not seen is no proof of health. */
static void unseen(void)
{
    set_init(&s, 10, 1);
    s.proc[0].kernel_read_bytes = 100u << 20;
    advise("");
    CHECK(o.o.blind && strncmp(o.o.verdict, "no fault in what was seen", 25) == 0);
    done();
    const struct {
        double coverage; /* 0: the kernel's count is missing */
        uint64_t dropped, writes;
        bool blind;
        const char *says;
    } parts[] = {{.coverage = 0.7, .says = "; only 70 % of the bytes"},
                 {.coverage = 0, .says = "count is not available"},
                 {.coverage = 1, .blind = true, .says = "io_uring or kernel AIO in 1 process "},
                 {.coverage = 1, .dropped = 5000, .says = "5,000 calls could not be recorded"},
                 {.coverage = 0, .writes = 4096}, /* the kernel counted: nothing was read */
                 {.coverage = 1}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        set_init(&s, 10, 1);
        set_use(&s, 0, set_file(&s, "/d/a.bin", "lustre", 8 * MB),
                (struct use){.reads = 2, .bytes = 4 * MB, .read_s = 1e-3});
        s.proc[0].seen_read_bytes = (uint64_t)(8 * MB);
        s.proc[0].kernel_read_bytes =
            parts[i].coverage > 0 ? (uint64_t)(8 * MB / parts[i].coverage) : 0;
        s.proc[0].kernel_write_bytes = s.proc[0].seen_write_bytes = parts[i].writes;
        s.proc[0].blind = parts[i].blind;
        s.proc[0].dropped_calls = parts[i].dropped;
        advise("");
        CHECK(o.o.nfindings == 0 && o.o.blind == (parts[i].says != NULL));
        CHECK(!parts[i].says || !strstr(o.o.verdict, "nothing to fix"));
        CHECK(!parts[i].says || strstr(o.o.verdict, parts[i].says));
        done();
    }
    set_init(&s, 10, 1); /* beside a note as well */
    set_use(&s, 0, set_file(&s, "/d/a.csv", "ext4", 8 * MB),
            (struct use){.reads = 128, .bytes = 64 * KIB, .read_s = 1e-6, .seq = 1, .consec = 1});
    s.proc[0].seen_read_bytes = (uint64_t)(8 * MB);
    s.proc[0].kernel_read_bytes = (uint64_t)(60 * MB);
    advise("csv-to-records");
    CHECK(o.o.finding[0].severity == STK_SEV_NOTE && o.o.blind);
    CHECK(strstr(o.o.verdict, "; only 13 % of the bytes"));
    done();
    set_init(&s, 10, 1); /* nothing at all was recorded */
    s.proc[0].log = "";
    advise("");
    CHECK(o.o.blind && strncmp(o.o.verdict, "nothing is known", 16) == 0);
    done();
    set_init(&s, 10, 1);
    struct stk_prof_rec *r = set_use(&s, 0, set_file(&s, "/d/data.mdb", "lustre", 125 * MB),
                                     (struct use){.reads = 2, .bytes = 152, .read_s = 1e-5});
    r->n.c[STK_C_MMAPS] = 1;
    r->n.c[STK_C_MMAP_BYTES] = 125u << 20;
    s.p.mapped_bytes = 125u << 20;
    s.proc[0].major_faults = 811;
    advise("");
    CHECK(strstr(o.o.verdict, "125 MiB of mapped files are not included (811 page faults") != NULL);
    done();
}

/* A loop that waits is not told that all is well because its readers' time is not I/O. */
static void a_wait_that_is_no_io(void)
{
    set_init(&s, 10, 1);
    set_use(&s, 0, set_file(&s, "/d/a.bin", "lustre", 8 * MB),
            (struct use){.reads = 2, .bytes = 4 * MB, .read_s = 1e-3});
    s.proc[0].threads = 2;
    s.proc[0].wait_threads_s = 4;
    advise("");
    CHECK(!o.o.nfindings && strstr(o.o.verdict, "the main loop waited 40 % of it for data"));
    CHECK(!strstr(o.o.verdict, "nothing to fix"));
    done();
}

/* Modules on slow storage cost what data there would; nearby they are nobody's problem. */
static void libraries_on_slow_storage(void)
{
    for (int slow = 0; slow < 2; slow++) {
        struct stk_log_place place[STK_LOG_PLACES] = {
            {.folder = "/lustre/env/lib/python3.11/site-packages", .files = 1200, .calls = 9000},
            {.folder = "/usr", .files = 100, .calls = 300, .ns = 1000000}};
        place[0].ns = slow ? 6800000000 : 100000000;
        set_init(&s, 8, 1);
        s.proc[0].places = place;
        s.proc[0].left_out_ns = place[0].ns + place[1].ns;
        const struct stk_finding *f = advise("library-files");
        CHECK(!f == !slow);
        CHECK(!slow || (f->severity == STK_SEV_HIGH && f->gain_s > 6 && f->gain_s < 6.8));
        CHECK(!slow || (says(f, "1,200 files") && says(f, "-C /lustre/env .")));
        CHECK(slow || strstr(o.o.verdict, "files of libraries and of the system took 101 ms"));
        done();
    }
    /* Nobody packs /usr. */
    struct stk_log_place place[STK_LOG_PLACES] = {{.folder = "/usr/lib/python3/dist-packages",
                                                   .files = 1200,
                                                   .calls = 9000,
                                                   .ns = 6800000000}};
    set_init(&s, 8, 1);
    s.proc[0].places = place;
    s.proc[0].left_out_ns = place[0].ns;
    const struct stk_finding *f = advise("library-files");
    CHECK(f && !says(f, "tar -cf") && strstr(f->what_to_do, "belong to the system"));
    done();
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(stream_that_is_read_ahead);
    CHECK_RUN(checkpoint_until_it_is_renamed);
    CHECK_RUN(text_that_is_passed_on);
    CHECK_RUN(loaded_again_and_again);
    CHECK_RUN(mapped_again_and_again);
    CHECK_RUN(two_mapped_files);
    CHECK_RUN(workers_that_start);
    CHECK_RUN(nothing_to_fix);
    CHECK_RUN(each_rank_once);
    CHECK_RUN(ranks_that_were_spawned);
    CHECK_RUN(little_of_much);
    CHECK_RUN(no_python);
    CHECK_RUN(unseen);
    CHECK_RUN(libraries_on_slow_storage);
    CHECK_RUN(a_wait_that_is_no_io);
    CHECK_RUN(load_at_every_open);
    CHECK_RUN(one_files_numbers);
    CHECK_RUN(schedulers);
    CHECK_RUN(in_flight);
    CHECK_RUN(classes);
    CHECK_RUN(parsed_throughout);
    CHECK_RUN(tables_of_several_files);
    CHECK_RUN(packed_beside_what_is_listed);
    CHECK_RUN(one_table_of_file_systems);
    return CHECK_DONE();
}
