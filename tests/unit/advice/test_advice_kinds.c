/*
 * test_advice_kinds.c - advice to kinds of programs: archives, databases, pipes, C streams, one
 * reader for all. Each was told something that costs more than it saves, or that is not so.
 */
#include "advice/advice.h"

#include "adviceset.h"

/* As the kernel answers a stream that it reads ahead of: most reads at once, a few late. */
static void read_ahead(struct stk_prof_rec *r)
{
    uint32_t reads = (uint32_t)r->n.c[STK_C_READS];
    memset(r->n.read_latency, 0, sizeof r->n.read_latency);
    r->n.read_latency[set_latency(1e-6)] = reads - reads / 32;
    r->n.read_latency[set_latency(0.01)] = reads / 32;
}

/* A configuration that is read in every step: no number of readers helps. */
static void read_whole_in_every_step(void)
{
    set_init(&s, 5, 1);
    set_use(&s, 0, set_file(&s, "/lus/conf.json", "lustre", 1400),
            (struct use){.reads = 1000,
                         .opens = 1000,
                         .bytes = 1400,
                         .read_s = 0.0008,
                         .seeks = 2000,
                         .meta_s = 2,
                         .distinct = 1400});
    const struct stk_finding *f = advise("open-per-sample");
    CHECK(says(f, "1,000 times") && says(f, "json.load("));
    CHECK(f && f->gain_s > 2.7 && f->gain_s < 2.81);
    CHECK_INT(o.o.nfindings, 1); /* not read-parallelism, metadata-load, seek-heavy */
    done();
}

/* A sample of a zip takes three reads (head, name, data): two of three follow on, and yet it is
 * random. A buffer of megabytes would be filled anew for each. */
static void archive_in_random_order(void)
{
    set_init(&s, 20, 1);
    set_use(&s, 0, set_file(&s, "/lus/train.zip", "lustre", 400 * MB),
            (struct use){.reads = 12000,
                         .bytes = 10 * KIB,
                         .read_s = 0.0005,
                         .seq = 5.0 / 6,
                         .consec = 2.0 / 3});
    const struct stk_finding *f = advise("random-reads");
    CHECK(says(f, "pieces of 30.0 KiB") && says(f, "50 % of the jumps"));
    CHECK(!says(set_finding(&o, "small-reads"), "buffering"));
    done();
}

/* Rows across chunks of the wrong shape: short runs of neighbours are no stream to read ahead. */
static void short_runs_are_no_stream(void)
{
    set_init(&s, 10, 1);
    read_ahead(set_use(
        &s, 0, set_file(&s, "/lus/gz.h5", "lustre", 200 * MB),
        (struct use){
            .reads = 12000, .bytes = 30 * KIB, .read_s = 0.0003, .seq = 0.97, .consec = 0.95}));
    CHECK(!advise("prefetch-depth"));
    done();
}

/* What comes as fast as the kernel can read ahead comes no faster in one piece. */
static void stream_of_hdf5(void)
{
    set_init(&s, 10, 1);
    read_ahead(set_use(
        &s, 0, set_file(&s, "/lus/rows.h5", "lustre", 125 * MB),
        (struct use){.reads = 2000, .bytes = 64 * KIB, .read_s = 0.0005, .seq = 1, .consec = 1}));
    CHECK(!advise("in-memory-hdf5"));
    CHECK(set_finding(&o, "prefetch-depth") != NULL);
    done();
}

/* Requests of a MiB are large, though the last one of a file is short. */
static void the_last_one_is_short(void)
{
    set_init(&s, 10, 1);
    set_use(&s, 0, set_file(&s, "/lus/part.bin", "lustre", 31.25 * MB),
            (struct use){.reads = 320,
                         .opens = 10,
                         .bytes = 31.25 / 32 * MB,
                         .read_s = 0.003,
                         .seq = 1,
                         .consec = 1});
    CHECK(!advise("prefetch-depth"));
    done();
}

static struct stk_prof_rec *c_stream(double seq, double consec, double opens)
{
    set_init(&s, 10, 1);
    s.proc[0].exe = "/bin/solver";
    return set_use(&s, 0, set_file(&s, "/lus/a.dat", "lustre", 200 * MB),
                   (struct use){.reads = 20000,
                                .opens = opens,
                                .bytes = 8 * KIB,
                                .read_s = 0.0002,
                                .seq = seq,
                                .consec = consec,
                                .api = STK_API_STDIO});
}

/* setvbuf() helps where a stream is read in order, in many calls, and nobody reads ahead. */
static void buffers_of_c_streams(void)
{
    c_stream(1, 1, 1);
    CHECK(says(advise("stdio-heavy"), "setvbuf"));
    done();
    read_ahead(c_stream(1, 1, 1)); /* measured: as long with 4 MiB as with 4 KiB */
    CHECK(!advise("stdio-heavy"));
    done();
    c_stream(0.5, 0, 1); /* fseek, fread */
    CHECK(!advise("stdio-heavy"));
    done();
    c_stream(1, 1, 10000); /* two calls a file */
    CHECK(!advise("stdio-heavy"));
    done();
    c_stream(0, 0, 1)->n.c[STK_C_FIRST_READS] = 20000; /* as Darshan: no order is known */
    CHECK(advise("stdio-heavy") != NULL);
    done();
}

/* A seek is local: thousands are nothing beside opens of milliseconds, millions are seconds. */
static void seeks_are_cheap(void)
{
    struct use u = {
        .reads = 2800, .opens = 400, .bytes = 4 * MB, .read_s = 1e-3, .seeks = 4400, .meta_s = 1};
    set_init(&s, 10, 1);
    set_use(&s, 0, set_file(&s, "/lus/big.bin", "lustre", 20480 * MB), u);
    CHECK(!advise("seek-heavy"));
    done();
    u.seeks = 4e6;
    u.meta_s = 4;
    set_init(&s, 10, 1);
    set_use(&s, 0, set_file(&s, "/lus/big.bin", "lustre", 20480 * MB), u);
    CHECK(advise("seek-heavy") != NULL);
    done();
}

/* Sixteen requests in flight are sixteen readers, in one thread or in many. */
static void asynchronous(void)
{
    set_init(&s, 10, 1);
    set_use(
        &s, 0, set_file(&s, "/lus/big.bin", "lustre", 2048 * MB),
        (struct use){
            .reads = 16000, .bytes = 64 * KIB, .read_s = 0.005, .seq = 0.5, .api = STK_API_ASYNC});
    s.proc[0].io_union_s = s.proc[0].io_sum_s / 16;
    CHECK(!advise("read-parallelism"));
    CHECK(set_finding(&o, "random-reads") != NULL);
    done();
}

static void four_ranks(double others)
{
    set_init(&s, 20, 4);
    for (uint32_t r = 0; r < 4; r++) {
        char name[32];
        snprintf(name, sizeof name, "/lus/%u.bin", r);
        set_use(&s, r, set_file(&s, name, "lustre", 9e9),
                (struct use){.reads = r ? others : 200,
                             .bytes = r ? 100 : 4 * MB,
                             .read_s = r ? 1e-5 : 0.05,
                             .seq = 1,
                             .consec = 1});
    }
}

/* One rank that reads for all is not "4.0 times as long", and no loader divides it. */
static void one_reads_for_all(void)
{
    for (double others = 0; others <= 4; others += 4) {
        four_ranks(others);
        const struct stk_finding *f = advise("imbalance");
        CHECK(says(f, "rank 0 reads, most of 4 ranks do not") && says(f, "MPI_Bcast"));
        CHECK(!says(f, "times as long") && !says(f, "Loader("));
        done();
    }
    /* Through MPI-IO the library chooses who reads. */
    four_ranks(0);
    s.rec[s.p.nrecs] = s.rec[0];
    s.rec[s.p.nrecs].file = 3; /* records lie in the order of files: rank 0's file is the last */
    s.rec[s.p.nrecs++].api = STK_API_MPIIO;
    s.rec[3].proc = 0;
    s.rec[3].n = s.rec[0].n;
    stk_counts_init(&s.rec[0].n);
    CHECK(!advise("imbalance"));
    done();
}

/* Each n-th record of a shared file: the ranks' parts should lie together. */
static void records_in_turn(void)
{
    set_init(&s, 10, 4);
    uint32_t f = set_file(&s, "/lus/shared.bin", "lustre", 200 * MB);
    for (uint32_t r = 0; r < 4; r++) {
        s.proc[r].exe = "/bin/solver";
        struct stk_prof_rec *at = set_use(
            &s, r, f, (struct use){.reads = 3200, .bytes = 16 * KIB, .read_s = 0.0005, .seq = 1});
        at->n.stride[0].value = 48 * 1024;
        at->n.stride[0].count = 3199;
    }
    s.file[f].distinct_bytes = s.file[f].rank_distinct_bytes;
    CHECK(says(advise("small-reads"), "MPI_File_read_all"));
    CHECK(!set_finding(&o, "random-reads"));
    done();
}

/* 400 NPZ of twelve reads each, three epochs: none of them is a file of statistics. */
static void sample_in_pieces(void)
{
    set_init(&s, 10, 1);
    set_use(
        &s, 0, set_file(&s, "/lus/d/0001.npz", "lustre", 16 * KIB),
        (struct use){.reads = 36, .opens = 3, .bytes = 1400, .read_s = 1e-5, .distinct = 16 * KIB});
    CHECK(!advise("stats-file-reread"));
    done();
}

static void looked_for(const char *path, double stats, double errors, double meta_s)
{
    struct stk_prof_rec *r = set_use(&s, 0, set_file(&s, path, "lustre", 30 * MB),
                                     (struct use){.stats = stats, .meta_s = meta_s});
    r->n.c[STK_C_ERRORS] = (uint64_t)errors;
    r->n.c[STK_C_OPENS] = r->n.c[STK_C_CLOSES] = 0;
}

/* What helps against calls that move no data is not always a list of files. */
static void what_is_asked_for(void)
{
    set_init(&s, 10, 1);
    looked_for("/lus/ds.db", 3000, 0, 1.2);
    looked_for("/lus/ds.db-journal", 0, 3000, 2.3);
    const struct stk_finding *f = advise("metadata-load");
    CHECK(says(f, "3,000 calls that failed") && !says(f, "files.txt"));
    CHECK(says(f, "sqlite3.connect(\"file:/lus/ds.db?immutable=1\""));
    done();
    set_init(&s, 10, 1);
    looked_for("/lus/run/stop", 0, 3000, 2.3);
    CHECK(says(advise("metadata-load"), "One file is asked for 3,000 times"));
    done();
    set_init(&s, 10, 1);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "/lus/out/%d.npy", i);
        set_use(&s, 0, set_file(&s, name, "lustre", 0),
                (struct use){.writes = 1, .write_bytes = 8 * KIB, .write_s = 1e-4, .meta_s = 2e-3});
    }
    f = advise("metadata-load");
    CHECK(says(f, "fewer, larger files") && !says(f, "files.txt"));
    done();
}

/* An open that takes minutes waits for the other end of a pipe: packing saves none of it. */
static void named_pipes(void)
{
    set_init(&s, 1400, 1);
    for (int i = 0; i < 70; i++) {
        char name[32];
        snprintf(name, sizeof name, "/gpfs/w/pipe_%d", i);
        set_use(&s, 0, set_file(&s, name, "gpfs", 0),
                (struct use){.reads = 3, .opens = 3, .bytes = 200, .read_s = 1e-4, .meta_s = 18});
    }
    advise("");
    CHECK_INT(o.o.nfindings, 0);
    done();
}

/* Darshan records the interpreter's own files: they are no dataset to pack. */
static void libraries_are_no_data(void)
{
    for (int darshan = 0; darshan < 2; darshan++) {
        set_init(&s, 10, 1);
        s.p.source = darshan ? &stk_source_darshan : &stk_source_stoker;
        for (int i = 0; i < 200; i++) {
            char name[64];
            snprintf(name, sizeof name, "/home/u/.conda/envs/e/lib/python3.8/m%d.txt", i);
            set_use(&s, 0, set_file(&s, name, "nfs", 9000),
                    (struct use){.reads = 2, .bytes = 4500, .read_s = 1e-3, .meta_s = 9e-3});
        }
        CHECK_INT(advise("many-small-files") != NULL, !darshan); /* a user may ask for them */
        CHECK(!darshan || o.o.nfindings == 0);
        done();
    }
}

/* cp asks for a file once, however often the program did. */
static void what_a_copy_costs(void)
{
    set_init(&s, 20, 1);
    set_nodes(&s, 8);
    set_use(&s, 0, set_file(&s, "/lus/ds.db", "lustre", 32 * MB),
            (struct use){.reads = 9000,
                         .bytes = 4 * KIB,
                         .read_s = 0.0004,
                         .seq = 0.5,
                         .stats = 3000,
                         .meta_s = 3,
                         .distinct = 16 * MB});
    const struct stk_finding *f = advise("stage-to-node");
    CHECK(f && f->gain_s > 6); /* of 6.6 s; not less the 3 s of stat */
    done();
}

/* A buffer collects what follows on: not writes here and there, not chunks of HDF5. */
static void writes_that_no_buffer_collects(void)
{
    for (int hdf5 = 0; hdf5 < 2; hdf5++) {
        set_init(&s, 10, 1);
        set_use(
            &s, 0, set_file(&s, hdf5 ? "/lus/out.h5" : "/lus/out.bin", "lustre", 0),
            (struct use){.writes = 3000, .write_bytes = 4096, .write_s = 3, .scattered = !hdf5});
        const struct stk_finding *f = advise("small-writes");
        CHECK(says(f, hdf5 ? "d[i:i + rows]" : "in order") && !says(f, "Buffered"));
        done();
    }
}

/* Rank 0 saves for all: the run waits as long as that takes, not an eighth of it. */
static void one_rank_saves(void)
{
    set_init(&s, 100, 8);
    for (uint32_t r = 0; r < 8; r++) {
        char name[32];
        snprintf(name, sizeof name, "/lus/%u.bin", r);
        set_use(&s, r, set_file(&s, name, "lustre", 1e9),
                (struct use){.reads = 100, .bytes = 8 * MB, .read_s = 0.01, .seq = 1, .consec = 1});
    }
    set_use(&s, 0, set_file(&s, "/lus/run/checkpoints/epoch_1.npz", "lustre", 0),
            (struct use){.writes = 1000, .write_bytes = 4 * MB, .write_s = 30});
    const struct stk_finding *f = advise("checkpoint-local");
    CHECK(f && f->severity == STK_SEV_HIGH && f->gain_s > 27 && f->gain_s < 30);
    done();
}

/* A file that is written again and again: only the last copy is waited for, and the sentence has every
 * second of the gain. */
static void one_file_for_all_checkpoints(void)
{
    set_init(&s, 8, 1);
    set_use(&s, 0, set_file(&s, "/lus/last.pt", "lustre", 0),
            (struct use){.writes = 24, .write_bytes = 3.26 * MB, .write_s = 2.16, .write_opens = 8});
    const struct stk_finding *f = advise("checkpoint-local");
    CHECK(f && f->gain_s > 1.8 && f->gain_s < 2.16 && says(f, "written 8 times"));
    done();
}

/* A log of one write per line cannot be written better, and promises nothing. */
static void logs_promise_nothing(void)
{
    set_init(&s, 5, 1);
    set_use(&s, 0, set_file(&s, "/lus/train.log", "lustre", 0),
            (struct use){.writes = 1600, .write_bytes = 27, .write_s = 1.78});
    set_use(&s, 0, set_file(&s, "/lus/last.pt", "lustre", 0),
            (struct use){.writes = 12, .write_bytes = 3 * MB, .write_s = 0.15, .write_opens = 4});
    const struct stk_finding *f = advise("small-writes");
    CHECK(f && f->gain_s == 0 && f->severity == STK_SEV_LOW && says(f, "open(\"/lus/train.log\", mode,"));
    CHECK(strstr(o.o.verdict, "begin with checkpoint-local, which saves about 1"));
    done();
    set_init(&s, 5, 1); /* other writes beside it have a gain of their own */
    set_use(&s, 0, set_file(&s, "/lus/train.log", "lustre", 0),
            (struct use){.writes = 1600, .write_bytes = 27, .write_s = 1.78});
    set_use(&s, 0, set_file(&s, "/lus/out.bin", "lustre", 0),
            (struct use){.writes = 1600, .write_bytes = 27, .write_s = 1});
    CHECK(advise("small-writes") && o.o.finding[0].gain_s > 0.5 && o.o.finding[0].gain_s <= 1);
    CHECK(o.o.nfindings > 1 && strstr(o.o.verdict, "begin with small-writes, which saves"));
    done();
}

/* One rank is in I/O half of the run: "waits 1.6 % of its time" would hide that. */
static void the_rank_that_waits_longest(void)
{
    for (uint32_t ranks = 8; ranks <= 32; ranks += 24) {
        set_init(&s, 100, ranks);
        uint32_t f = set_file(&s, "/lus/out/a.bin", "lustre", 0);
        for (uint32_t r = 0; r < ranks; r++)
            set_use(&s, r, f,
                    (struct use){.writes = r == 5 ? 100 : 1,
                                 .write_bytes = 64 * MB,
                                 .write_s = r == 5 ? 50 : 0.01});
        const struct stk_finding *few = advise("imbalance");
        if (ranks == 8) { /* it may well be meant */
            CHECK(!few && strstr(o.o.verdict, "rank 5 spends 50 % of the run in I/O"));
        } else {
            CHECK(says(few, "1 of 32 ranks does the I/O of all") &&
                  says(few, "rank 5 spends most time in I/O: 50.0 s"));
            CHECK(!strstr(o.o.verdict, "saves about 0"));
        }
        done();
    }
}

/* A storage target that is slow: the rank whose file lies there writes as much, for longer. */
static void one_rank_writes_slowly(void)
{
    for (int bad = 0; bad < 2; bad++) { /* the slowest of many is always slower than most */
        set_init(&s, 100, 8);
        for (uint32_t r = 0; r < 8; r++) {
            char name[32];
            snprintf(name, sizeof name, "/lus/out/%u.bin", r);
            double write_s = bad ? 5 : 30;
            set_use(&s, r, set_file(&s, name, "lustre", 0),
                    (struct use){
                        .writes = 100, .write_bytes = 4 * MB, .write_s = r == 6 ? 60 : write_s});
        }
        const struct stk_finding *f = advise("imbalance");
        CHECK(bad ? says(f, "rank 6 writes 12.0 times as long") && says(f, "as much, but slower")
                  : !f);
        done();
    }
}

/* Two hundred files of 200 MB are a dataset to stage, not a small file to keep. */
static void too_much_to_keep(void)
{
    set_init(&s, 100, 1);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "/lus/d/%d.npz", i);
        set_use(&s, 0, set_file(&s, name, "lustre", 200e6),
                (struct use){.reads = 500,
                             .opens = 5,
                             .bytes = 2e6,
                             .read_s = 4e-4,
                             .seq = 1,
                             .consec = 1,
                             .distinct = 200e6});
    }
    CHECK(!advise("reread-small-file"));
    done();
}

/* Windows of a mapped file of tokens: some hundred faults are seconds on shared storage; on a local
 * disk they may be those of the libraries. */
static void tokens_that_are_mapped(void)
{
    for (int shared = 0; shared < 2; shared++) {
        set_init(&s, 2, 1);
        struct stk_prof_rec *r =
            set_use(&s, 0, set_file(&s, "/d/tokens.bin", shared ? "nfs" : "ext4", 64 * MB),
                    (struct use){.reads = 0});
        r->n.c[STK_C_MMAPS] = 1;
        r->n.c[STK_C_MMAP_BYTES] = 64u << 20;
        s.proc[0].major_faults = 630;
        CHECK_INT(advise("mmap-random") != NULL, shared);
        done();
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(tokens_that_are_mapped);
    CHECK_RUN(writes_that_no_buffer_collects);
    CHECK_RUN(one_rank_saves);
    CHECK_RUN(one_file_for_all_checkpoints);
    CHECK_RUN(logs_promise_nothing);
    CHECK_RUN(the_rank_that_waits_longest);
    CHECK_RUN(one_rank_writes_slowly);
    CHECK_RUN(too_much_to_keep);
    CHECK_RUN(read_whole_in_every_step);
    CHECK_RUN(archive_in_random_order);
    CHECK_RUN(short_runs_are_no_stream);
    CHECK_RUN(stream_of_hdf5);
    CHECK_RUN(the_last_one_is_short);
    CHECK_RUN(buffers_of_c_streams);
    CHECK_RUN(seeks_are_cheap);
    CHECK_RUN(asynchronous);
    CHECK_RUN(one_reads_for_all);
    CHECK_RUN(records_in_turn);
    CHECK_RUN(sample_in_pieces);
    CHECK_RUN(what_is_asked_for);
    CHECK_RUN(named_pipes);
    CHECK_RUN(libraries_are_no_data);
    CHECK_RUN(what_a_copy_costs);
    return CHECK_DONE();
}
