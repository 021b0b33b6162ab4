/* Whether staging pays: tables of cases, each computed by hand. */
#include "stage/cost.h"

#include <math.h>

#include "check.h"
#include "profileset.h"

#define GB 1000000000.0

static void near(int line, double got, double want)
{
    bool same = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) < 1e-6;
    if (same)
        return;
    fprintf(stderr, "FAIL %s:%d: got %g, want %g\n", __FILE__, line, got, want);
    check_failures++;
}
#define NEAR(got, want) near(__LINE__, (got), (want))

/* 1 TB; a shared file system with 10 GB/s, 2 GB/s for a node; a disk with 1 GB/s in and 4 out. */
static struct stk_cost_case usual(void)
{
    return (struct stk_cost_case){
        .bytes = (uint64_t)(1000 * GB),
        .files = 1000,
        .nodes = 1,
        .source = {.read_Bps = 2 * GB, .all_Bps = 10 * GB},
        .target = {.write_Bps = 1 * GB, .read_Bps = 4 * GB},
        .fabric_Bps = 5 * GB,
    };
}

static struct stk_cost compute(const struct stk_cost_case *c)
{
    struct stk_cost out;
    stk_cost_compute(c, &out);
    return out;
}

static void ways(void)
{
    static const struct {
        unsigned nodes, copies;
        double W; /* GB/s */
        double s[STK_COST_WAYS];
        const char *wall[STK_COST_WAYS];
    } cases[] = {
        /* 1000 GB at W = 1 are 1000 s, whatever the source and the fabric do. */
        {1, 0, 1, {1000, NAN, NAN}, {"target", NULL, NULL}},
        {8, 0, 1, {1000, 1000, 125}, {"target", "target", "target"}},
        /* 8 nodes read 8 TB at 10 GB/s: 800 s. Once: 100 s at 10 GB/s, 175 s into a node. */
        {8, 0, 20, {800, 175, 100}, {"source", "fabric", "source"}},
        {8, 2, 20, {800, 175, 100}, {"source", "fabric", "source"}},
        {8, 8, 20, {800, 175, 175}, {"source", "fabric", "fabric"}},
        {8, 99, 20, {800, 175, 175}, {"source", "fabric", "fabric"}},
        /* 2 nodes cannot read 10 GB/s: 2 GB/s each. */
        {2, 0, 20, {500, 250, 250}, {"source", "source", "source"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stk_cost_case c = usual();
        c.nodes = cases[i].nodes;
        c.copies = cases[i].copies;
        c.target.write_Bps = cases[i].W * GB;
        struct stk_cost out = compute(&c);
        for (int k = 0; k < STK_COST_WAYS; k++) {
            NEAR(out.way[k].least_s, cases[i].s[k]);
            NEAR(out.way[k].most_s, cases[i].s[k]);
            CHECK(cases[i].wall[k] || !out.way[k].wall);
            if (cases[i].wall[k])
                CHECK_STR(out.way[k].wall, cases[i].wall[k]);
        }
    }
}

/* Without the rate for all nodes, they may share the rate of one. */
static void unknown_rates(void)
{
    struct stk_cost_case c = usual();
    c.nodes = 4;
    c.source.all_Bps = 0;
    c.target.write_Bps = 100 * GB;
    struct stk_cost out = compute(&c);
    NEAR(out.way[STK_COST_NAIVE].least_s, 500);
    NEAR(out.way[STK_COST_NAIVE].most_s, 2000);
    NEAR(out.way[STK_COST_ONCE].least_s, 150);
    NEAR(out.way[STK_COST_ONCE].most_s, 500);
    c.fabric_Bps = 0;
    out = compute(&c);
    NEAR(out.way[STK_COST_ONCE].most_s, NAN);
    CHECK(!out.way[STK_COST_ONCE].wall);
    CHECK_INT(out.best, STK_COST_SHARD);
    c.target.read_Bps = 0;
    out = compute(&c);
    CHECK_INT(out.verdict, STK_COST_UNKNOWN);
    NEAR(out.pays_after, NAN);
    CHECK_STR(out.reason, "not known whether it pays: how fast the target is read is not known");
}

static void files_cost_time(void)
{
    struct stk_cost_case c = usual();
    c.files = 1000000;
    c.source.open_s = 0.006;
    c.source.latency_s = 0.002;
    c.target.create_s = 0.001;
    c.target.open_s = 0.0004;
    struct stk_cost out = compute(&c);
    /* Four readers: a million files at 8 ms and 1000 GB at 2 GB/s are 8500 s of one of them. */
    NEAR(out.way[STK_COST_NAIVE].most_s, 2125);
    NEAR(out.first_epoch_s, 2125);
    NEAR(stk_cost_file_s(&c.source), 0.002);
    /* 400 s for files and 250 s for bytes, of four: the disk is what takes longer. */
    NEAR(out.target_epoch_s, 250);
    c.target.create_s = 0.01; /* 10000 s, and 1000 s for bytes */
    NEAR(compute(&c).way[STK_COST_NAIVE].most_s, 2750);
}

static void verdicts(void)
{
    static const struct {
        const char *name;
        uint64_t epochs;
        double cache_gb, need_gb, read_gb;
        bool local, background;
        enum stk_cost_verdict verdict;
        double pays_after;
        const char *reason;
    } cases[] = {
        /* 500 s from the source, 250 s from the copy, 1000 s to make it: 1000 + 250 E < 500 E. */
        {"pays", 0, 0, 0, 4, false, false, STK_COST_PAYS, 5,
         "it pays after 5 epochs, and saves 4 min 10 s per epoch"},
        {"enough epochs", 5, 0, 0, 4, false, false, STK_COST_PAYS, 5,
         "it pays after 5 epochs, and saves 4 min 10 s per epoch"},
        {"few", 4, 0, 0, 4, false, false, STK_COST_FEW, 5,
         "it will not pay: 4 epochs, and it takes 5"},
        {"one", 1, 0, 0, 4, false, false, STK_COST_FEW, 5,
         "it will not pay: 1 epoch, and it takes 5"},
        /* Beside the copy, the first epoch reads the source: 1000 + 250 (E - 1) < 500 E. */
        {"background", 0, 0, 0, 4, false, true, STK_COST_PAYS, 4,
         "it pays after 4 epochs, and saves 4 min 10 s per epoch"},
        {"local", 90, 0, 0, 4, true, false, STK_COST_LOCAL, 5,
         "it will not pay: the source is on this node already"},
        {"cached", 90, 1000, 0, 4, false, false, STK_COST_CACHED, INFINITY,
         "it will not pay: the page cache (931 GiB) holds the data (931 GiB) after the first "
         "epoch"},
        {"slower", 90, 0, 0, 2, false, false, STK_COST_SLOWER, INFINITY,
         "it will not pay: an epoch takes 8 min 20 s from the source and 8 min 20 s from the "
         "copy"},
        /* The training consumes 1 GB/s, which the source delivers. */
        {"idle", 90, 0, 1, 4, false, false, STK_COST_IDLE, INFINITY,
         "it will not pay: the source delivers what the training consumes (16 min 40 s per "
         "epoch)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stk_cost_case c = usual();
        c.epochs = cases[i].epochs;
        c.cache_bytes = (uint64_t)(cases[i].cache_gb * GB);
        c.need_Bps = cases[i].need_gb * GB;
        c.target.read_Bps = cases[i].read_gb * GB;
        c.source_local = cases[i].local;
        c.background = cases[i].background;
        struct stk_cost out = compute(&c);
        CHECK_STR(stk_cost_verdict_name(out.verdict), stk_cost_verdict_name(cases[i].verdict));
        NEAR(out.pays_after, cases[i].pays_after);
        CHECK_STR(out.reason, cases[i].reason);
    }
}

/* An LRU cache of half the data answers 15 % of the reads of a shuffled epoch, not half of them. */
static void cache_of_a_part(void)
{
    struct stk_cost_case c = usual();
    c.cache_bytes = c.bytes / 2;
    struct stk_cost out = compute(&c);
    NEAR(out.cached_share, 0.5 + 0.5 * log(0.5));
    NEAR(out.source_epoch_s, 500 * (1 - out.cached_share));
    NEAR(out.first_epoch_s, 500);
}

/* 100 MB/s and 1 ms per open on NFS; a loop that waits for half of 100 s consumes in the other
 * half. */
static void rates_of_a_profile(void)
{
    struct set s;
    struct stk_analysis a;
    struct stk_cost_case c = {.target = {.write_Bps = 7}}, before = c;
    double block = 4194304;
    set_init(&s, 100, 1);
    set_use(&s, 0, set_file(&s, "/n/data/a.bin", "nfs", 1200 * block),
            (struct use){.reads = 1200,
                         .bytes = block,
                         .read_s = block / 1e8,
                         .seq = 1,
                         .consec = 1,
                         .meta_s = 1e-3});
    set_use(&s, 0, set_file(&s, "/n/database", "nfs", 64),
            (struct use){.reads = 9000, .bytes = 4096, .read_s = 1e-3});
    CHECK_INT(stk_analyze(&s.p, &a, NULL), 0);
    CHECK(!stk_cost_take_profile(&a, "/n/dat", &c));
    CHECK(memcmp(&c, &before, sizeof c) == 0);
    CHECK(stk_cost_take_profile(&a, "/n/data", &c));
    CHECK(fabs(c.source.read_Bps / 1e8 - 1) < 0.1);
    CHECK(c.source.open_s > 0 && c.target.write_Bps == 7);
    NEAR(c.need_Bps / (1200 * block / stk_compute_of(&a)), 1);
    CHECK(stk_compute_of(&a) > 0 && stk_compute_of(&a) < 100);
    stk_analysis_release(&a);
    set_release(&s);
}

/* 2 GB/s from the source, 4 from the copy: a loop of one thread that reads and computes in turn gains
 * what its requests gain, however long it computes. */
static void the_work_of_a_profile(void)
{
    struct stk_cost_case c = usual();
    c.nodes = 2;
    c.source = (struct stk_storage){.read_Bps = 2 * GB, .latency_s = 1e-3};
    c.target = (struct stk_storage){.read_Bps = 4 * GB, .write_Bps = GB};
    c.epoch = (struct stk_work){.requests = 2e6, .bytes = 1000 * GB, .lanes = 1};
    struct stk_cost out = compute(&c);
    NEAR(out.source_epoch_s, 250 + 1000); /* of each node: 500 GB, and a million requests */
    NEAR(out.target_epoch_s, 125);
    c.epoch.lanes = 10;
    NEAR(compute(&c).source_epoch_s, 250); /* what they wait for overlaps */
    c.need_Bps = 2 * GB; /* it computes for 500 s */
    NEAR(compute(&c).source_epoch_s, 500);
    c.in_turn = true;
    c.epoch.lanes = 1;
    NEAR(compute(&c).source_epoch_s, 250 + 1000 + 500);
    NEAR(compute(&c).saved_s, 1125);
}

static void nothing_at_all(void)
{
    struct stk_cost_case c = {0};
    struct stk_cost out = compute(&c);
    CHECK_INT(out.verdict, STK_COST_SLOWER);
    NEAR(out.way[STK_COST_NAIVE].most_s, 0);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(ways);
    CHECK_RUN(unknown_rates);
    CHECK_RUN(files_cost_time);
    CHECK_RUN(verdicts);
    CHECK_RUN(cache_of_a_part);
    CHECK_RUN(rates_of_a_profile);
    CHECK_RUN(the_work_of_a_profile);
    CHECK_RUN(nothing_at_all);
    return CHECK_DONE();
}
