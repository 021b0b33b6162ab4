/* test_runner.c - the parts of running a study: words, plans, metrics, one timed process, and a
 * batch file that quotes what it must. A wrong word runs a wrong command, or somebody else's. */
#include "base/file.h"
#include "check.h"
#include "study/priv.h"
#include "scratch.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *expand(const char *text, struct stk_marks at)
{
    static struct stk_buf b;
    stk_buf_reset(&b);
    stk_marks_expand(&b, text, &at);
    static char out[256];
    snprintf(out, sizeof out, "%s", stk_buf_cstr(&b));
    stk_buf_release(&b);
    return out;
}

static void marks(void)
{
    struct stk_marks at = {.n = 8, .ranks = 16, .size = 4000000000u};
    CHECK_STR(expand("--workers={n}", at), "--workers=8");
    CHECK_STR(expand("{n}{n}/{size}/{ranks}", at), "88/4000000000/16");
    CHECK_STR(expand("{x} {{n}} {} { {n", at), "{x} {8} {} { {n");
    at.size = 0;
    CHECK_STR(expand("{size}", at), "{size}");
    CHECK_STR(expand("", at), "");
}

static void splitting(void)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_words w = {.arena = &arena};
    CHECK_INT(stk_words_split(&w, "  a 'b c'\"d $x\" e\\ f '' \"\\\"\" $(x)\t`y`", NULL), 0);
    const char *const want[] = {"a", "b cd $x", "e f", "", "\"", "$(x)", "`y`"};
    CHECK_INT(w.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < w.n && i < sizeof want / sizeof *want; i++)
        CHECK_STR(w.v[i], want[i]);
    CHECK(w.v[w.n] == NULL);
    CHECK_INT(stk_words_split(&w, "a 'b", NULL), STK_E_USAGE);
    for (int i = 0; i < 100; i++)
        stk_words_add(&w, "more");
    CHECK_INT(w.n, 108);
    stk_arena_release(&arena);
}

static void numbers(void)
{
    uint64_t n[STK_RUNNER_N_MAX];
    size_t nn;
    CHECK_INT(stk_runner_parse_n("n", "8,1,2,1,4", n, &nn, NULL), 0);
    CHECK(nn == 4 && n[0] == 1 && n[3] == 8);
    CHECK_INT(stk_runner_parse_n("n", "1-4,16-64*2", n, &nn, NULL), 0);
    CHECK(nn == 7 && n[3] == 4 && n[4] == 16 && n[6] == 64);
    static const char *const bad[] = {"",    "0",   "1,x", "-3",    "3-", "4-2",        "1-8*1",
                                      "1 2", "1.5", ",",   "1-999", "*2", "9999999999", "1-4*0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_INT(stk_runner_parse_n("n", bad[i], n, &nn, NULL), STK_E_USAGE);
}

static double find(const char *regex, enum stk_metric_pick pick, const char *text)
{
    struct stk_metric m;
    char copy[512];
    double value = -1;
    CHECK_INT(stk_metric_init(&m, regex, pick, NULL), 0);
    snprintf(copy, sizeof copy, "%s", text);
    if (!stk_metric_find(&m, copy, strlen(copy), &value))
        value = -1;
    CHECK_STR(copy, text);
    stk_metric_release(&m);
    return value;
}

static void metrics(void)
{
    static const char log[] = "step 1 images/s: 10\nstep 2 images/s: 20.5 images/s: 30\nend";
    char name[64];
    struct stk_metric m;
    CHECK(find("images/s: ([0-9.]+)", STK_METRIC_LAST, log) == 30);
    CHECK(find("images/s: ([0-9.]+)", STK_METRIC_FIRST, log) == 10);
    CHECK(find("images/s: ([0-9.]+)", STK_METRIC_MEDIAN, log) == 20.5);
    CHECK(find("^step ([0-9]+)", STK_METRIC_LAST, log) == 2);
    CHECK(find("loss ([0-9.e+-]+)$", STK_METRIC_LAST, "loss 1.5e-3\n") == 1.5e-3);
    CHECK(find("(x*)", STK_METRIC_LAST, "abc") == -1);
    CHECK(find("t=([a-z]+)", STK_METRIC_LAST, "t=never") == -1);
    CHECK(find("t=([0-9]+)", STK_METRIC_LAST, "") == -1);
    CHECK(find("t", STK_METRIC_MEMBER, "t=1\n{\"t\": 3}\n") == 3);
    CHECK(find("t", STK_METRIC_MEMBER, "{\"t\": 3}\nkilled\n") == -1);
    CHECK(find("t", STK_METRIC_MEMBER, "{\"t\": \"3\"}") == -1 && find("t", STK_METRIC_MEMBER, "") == -1);
    CHECK_INT(stk_metric_init(&m, "a([0-9]", STK_METRIC_LAST, NULL), STK_E_USAGE);
    CHECK_INT(stk_metric_init(&m, "a[0-9]", STK_METRIC_LAST, NULL), STK_E_USAGE);
    stk_metric_name("images/s: ([0-9.]+)", name, sizeof name);
    CHECK_STR(name, "images/s");
    stk_metric_name("Time \\(s\\) = ([0-9.]+)", name, sizeof name);
    CHECK_STR(name, "Time (s)");
    stk_metric_name("[a-z]+ ([0-9.]+)", name, sizeof name);
    CHECK_STR(name, "metric");
    stk_metric_name("([0-9.]+) images/s", name, sizeof name);
    CHECK_STR(name, "images/s");
}

/* The wrong way round, the slowest N would be recommended as the fastest. */
static void better_ways(void)
{
    static const struct {
        const char *regex;
        int sense;
    } cases[] = {
        {"([0-9.]+) images/s", 1},
        {"images/s: ([0-9.]+)", 1},
        {"([0-9.]+)it/s", 1},
        {"samples/sec ([0-9.]+)", 1},
        {"img\\/s(ec)? *= *([0-9.]+)", 1},
        {"([0-9.]+) tokens per second", 1},
        {"images_per_s=([0-9.]+)", 1},
        {"rate: ([0-9.]+) Mterms/s", 1},
        {"rate ([0-9.]+)", 1},
        {"([0-9.eE+]+) *GFLOPS", 1},
        {"Throughput \\([a-z/]+\\): ([0-9.]+)", 1},
        {"time: ([0-9.]+)", -1},
        {"([0-9.]+) s$", -1},
        {"([0-9.]+)s/it", -1},
        {"step took ([0-9.]+)\\s*ms", -1},
        {"ms/step: ([0-9]+)", -1},
        {"seconds per epoch ([0-9.]+)", -1},
        {"t=([0-9.]+)", 0},
        {"words ([0-9]+)", 0},
        {"error rate ([0-9.]+)", 0}, /* either */
        {"[time]+ ([[:space:]rate0-9]+)", 0},
        {"iterated ([0-9]+)", 0},
        {"[", 0},
        {"[[:s", 0},
        {"\\", 0},
        {"", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int sense = stk_metric_sense(cases[i].regex);
        if (sense != cases[i].sense)
            fprintf(stderr, "%s\n", cases[i].regex);
        CHECK_INT(sense, cases[i].sense);
    }
}

/* What a plan says is what a later call reads, whatever bytes are in it. */
static void plans(void)
{
    const char *argv[] = {"./a b", "\xff\xfe\x01'\"$", "{n}", "", NULL}, *sbatch[] = {"-p x", NULL};
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT, q;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf b = STK_BUF_INIT;
    p.argv = argv;
    p.sbatch = sbatch;
    p.cwd = "/tmp";
    p.n[0] = 1;
    p.n[1] = 1000000000;
    p.nn = 2;
    p.metric = "x ([0-9]+)\n";
    p.sets = STK_SETS_GPUS;
    p.timeout_s = 0.25;
    CHECK_INT(stk_runner_check(&p, NULL), 0);
    CHECK_INT(stk_runner_copy_plan(&p, &arena, &q, NULL), 0);
    CHECK_STR(q.argv[0], argv[0]);
    CHECK_STR(q.argv[1], argv[1]);
    CHECK_STR(q.argv[3], "");
    CHECK(!q.argv[4] && q.prepare == NULL && q.nn == 2 && q.n[1] == p.n[1]);
    CHECK(q.timeout_s == 0.25 && q.precision == p.precision && q.pin && q.sets == p.sets);
    CHECK_STR(q.sbatch[0], "-p x");
    CHECK_STR(q.metric, p.metric);
    stk_runner_write_plan(&p, &b);
    for (size_t i = 0; i + 1 < b.len; i += 7) /* cut anywhere: an error, not a crash */
        CHECK(stk_runner_read_plan((const char *)b.data, i, "p", &arena, &q, NULL) != 0);
    stk_buf_release(&b);
    stk_arena_release(&arena);
}

/* A shell reads the two paths as they are. */
static void batch_file(void)
{
    const char *argv[] = {"true", NULL};
    struct stk_runner r = {.dir = (char *)(uintptr_t) "/d/it's $(x) 50%"};
    struct stk_buf script = STK_BUF_INIT;
    struct stk_words args = {.arena = &r.arena};
    struct stk_job_run job = {.repeat = 1, .token = "5f3a9c1e"};
    r.plan = (struct stk_runner_plan){.argv = argv,
                                      .n = {6},
                                      .nn = 1,
                                      .runs_max = 1,
                                      .via = &stk_executor_slurm,
                                      .sets = STK_SETS_RANKS | STK_SETS_GPUS,
                                      .ranks_per_node = 4,
                                      .threads_per_rank = 2,
                                      .gpu_type = "k80",
                                      .batch_head = "#SBATCH -t {n}\nmodule load {n}"};
    CHECK_INT(stk_runner_make_points(&r, NULL), 0);
    job.tally = &r.tally[0];
    CHECK_INT(stk_batch_make(&r, &job, &script, &args, NULL), 0);
    const char *text = stk_buf_cstr(&script);
    CHECK(strncmp(text, "#!/bin/sh\n#SBATCH -t 6\nmodule load {n}\nexec '", 45) == 0);
    CHECK(strstr(text, " --resume '/d/it'\\''s $(x) 50%' --inside n6-r1\n") != NULL);
    static const char *const want[] = {"--job-name=stoker-n6-r1-5f3a9c1e",
                                       "--output=/d/it's $(x) 50%%/jobs/n6-r1.slurm",
                                       "--ntasks=6",
                                       "--ntasks-per-node=4",
                                       "--cpus-per-task=2",
                                       "--gres=gpu:k80:4"};
    CHECK_INT(args.n, 6);
    for (size_t i = 0; i < args.n && i < 6; i++)
        CHECK_STR(args.v[i], want[i]);
    r.dir = (char *)(uintptr_t) "/d/a\nb";
    CHECK_INT(stk_batch_make(&r, &job, &script, &args, NULL), STK_E_USAGE);
    stk_buf_release(&script);
    stk_arena_release(&r.arena);
}

/* ---- points -------------------------------------------------------------------------------- */

static struct stk_points make(struct stk_arena *arena, const struct stk_runner_plan *p)
{
    struct stk_points points;
    CHECK_INT(stk_runner_check(p, NULL), 0);
    CHECK_INT(stk_points_make(p, arena, &points, NULL), 0);
    return points;
}

/* A point of N that is called otherwise would not be found again in a study of an older stoker. */
static void points_of_n(void)
{
    const char *argv[] = {"./a", "{n}/{size}", NULL};
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    p.argv = argv;
    p.weak = true;
    p.size = 10;
    p.sets = STK_SETS_THREADS;
    CHECK_INT(stk_runner_parse_n("n", "1,8", p.n, &p.nn, NULL), 0);
    struct stk_points points = make(&arena, &p);
    CHECK_INT(points.n, 2);
    CHECK_STR(points.v[1].id, "n8");
    CHECK_STR(points.v[1].label, "N=8");
    CHECK_STR(points.v[1].argv[1], "8/80");
    CHECK(points.v[1].by_n && points.v[1].n == 8 && points.v[1].size == 80);
    CHECK(points.v[1].give.threads == 8 && points.v[1].give.cpus == 8 && !points.v[1].give.ranks);
    p.sets = STK_SETS_NODES;
    p.ranks_per_node = 4;
    points = make(&arena, &p);
    CHECK(points.v[1].give.nodes == 8 && points.v[1].give.ranks == 32);
    stk_arena_release(&arena);
}

static const char *batch_args(const struct stk_runner_plan *plan, size_t i)
{
    static char text[512];
    struct stk_runner r = {.plan = *plan, .dir = (char *)(uintptr_t) "/d"};
    struct stk_buf script = STK_BUF_INIT;
    struct stk_words args = {.arena = &r.arena};
    CHECK_INT(stk_runner_make_points(&r, NULL), 0);
    const struct stk_job_run job = {.tally = &r.tally[i]};
    CHECK_INT(stk_batch_make(&r, &job, &script, &args, NULL), 0);
    text[0] = '\0';
    for (size_t k = 0; k < args.n; k++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", k ? " " : "", args.v[k]);
    stk_buf_release(&script);
    stk_arena_release(&r.arena);
    return text;
}

/* Packed and spread ranks would be one curve. */
static void points_of_pack(void)
{
    const char *argv[] = {"./a", "{ranks_per_node}x{nodes}", NULL};
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT, back;
    struct stk_arena arena = STK_ARENA_INIT;
    p.argv = argv;
    p.via = &stk_executor_slurm;
    p.sets = STK_SETS_RANKS;
    p.cwd = "/d";
    CHECK_INT(stk_runner_parse_n("n", "2,4", p.n, &p.nn, NULL), 0);
    CHECK_INT(stk_runner_parse_n("ranks-per-node", "4,2,1", p.pack, &p.npack, NULL), 0);
    CHECK_INT(stk_runner_check(&p, NULL), 0);
    CHECK_INT(stk_runner_copy_plan(&p, &arena, &back, NULL), 0); /* as a resume reads it */
    struct stk_points points = make(&arena, &back);
    static const char *const want[][3] = {{"n2-by1", "1 rank per node", "1x2"},
                                          {"n4-by1", "1 rank per node", "1x4"},
                                          {"n2-by2", "2 ranks per node", "2x1"},
                                          {"n4-by2", "2 ranks per node", "2x2"},
                                          {"n4-by4", "4 ranks per node", "4x1"}};
    CHECK_INT(points.n, 5);
    for (size_t i = 0; i < 5 && i < points.n; i++) {
        CHECK_STR(points.v[i].id, want[i][0]);
        CHECK_STR(points.v[i].series, want[i][1]);
        CHECK_STR(points.v[i].argv[1], want[i][2]);
    }
    CHECK_STR(points.v[4].label, "N=4 with 4 ranks per node");
    CHECK(strstr(batch_args(&p, 3), "--nodes=2 --ntasks-per-node=2"));
    p.pack[2] = 3;
    CHECK_INT(stk_runner_check(&p, NULL), STK_E_USAGE);
    p.pack[2] = 4;
    p.nspread = 1;
    p.spread[0] = 1;
    CHECK_INT(stk_runner_check(&p, NULL), STK_E_USAGE); /* one way of placing at a time */
    stk_arena_release(&arena);
}

/* Ranks would be wherever Slurm has room, and two placements the same one. */
static void points_of_spread(void)
{
    const char *argv[] = {"./a", NULL};
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    p.argv = argv;
    p.via = &stk_executor_slurm;
    p.sets = STK_SETS_RANKS;
    CHECK_INT(stk_runner_parse_n("n", "1,2,6", p.n, &p.nn, NULL), 0);
    CHECK_INT(stk_runner_parse_n("spread", "1,2", p.spread, &p.nspread, NULL), 0);
    struct stk_points points = make(&arena, &p);
    static const char *const want[][3] = {{"n1-on1", "1 node", "--nodes=1 --ntasks-per-node=1"},
                                          {"n2-on1", "1 node", "--nodes=1 --ntasks-per-node=2"},
                                          {"n6-on1", "1 node", "--nodes=1 --ntasks-per-node=6"},
                                          {"n2-on2", "2 nodes", "--nodes=2 --ntasks-per-node=1"},
                                          {"n6-on2", "2 nodes", "--nodes=2 --ntasks-per-node=3"}};
    CHECK_INT(points.n, 5);
    for (size_t i = 0; i < 5 && i < points.n; i++) {
        char all[200];
        CHECK_STR(points.v[i].id, want[i][0]);
        CHECK_STR(points.v[i].series, want[i][1]);
        snprintf(all, sizeof all, "--job-name=stoker-%s-r0 --output=/d/jobs/%s-r0.slurm %s",
                 want[i][0], want[i][0], want[i][2]);
        CHECK_STR(batch_args(&p, i), all);
    }
    CHECK_STR(points.v[4].label, "N=6 on 2 nodes");
    p.spread[1] = 4; /* no N can be divided by four */
    CHECK_INT(stk_runner_check(&p, NULL), STK_E_USAGE);
    p.spread[1] = 2;
    p.sets = STK_SETS_THREADS;
    CHECK_INT(stk_runner_check(&p, NULL), STK_E_USAGE);
    stk_arena_release(&arena);
}

static void bad_variants(void)
{
    const char *argv[] = {"true", NULL}, *odd[] = {"no equals sign", NULL};
    const struct stk_point bad[][2] = {
        {{.id = "a/b", .argv = argv}, {.id = "b", .argv = argv}},
        {{.id = "", .argv = argv}, {.id = "b", .argv = argv}},
        {{.id = NULL, .argv = argv}, {.id = "b", .argv = argv}},
        {{.id = "a"}, {.id = "b", .argv = argv}},
        {{.id = "a", .argv = argv, .env = odd}, {.id = "b", .argv = argv}},
        {{.id = "b", .argv = argv, .n = 2}, {.id = "b", .argv = argv}},
        {{.id = "a", .argv = argv, .series = "s"}, {.id = "b", .argv = argv, .series = "s"}},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct stk_runner_plan p = STK_RUNNER_PLAN_INIT;
        struct stk_arena arena = STK_ARENA_INIT;
        struct stk_points points;
        p.variant = bad[i];
        p.nvariants = 2;
        CHECK_INT(stk_runner_check(&p, NULL), 0);
        CHECK_INT(stk_points_make(&p, &arena, &points, NULL), STK_E_USAGE);
        stk_arena_release(&arena);
    }
}

/* Three commands, told apart by what they are called with and what stands in their environment. */
static const char *const three[][3] = {
    {"slow", "A=1", "echo one $A two >> log; sleep 0.03"},
    {"quick", "A=2", "echo $A >> log"},
    {"broken", "A=3", "echo no; exit $A"},
};

struct variants {
    struct stk_point point[3];
    const char *argv[3][4], *env[3][2];
};

static void make_variants(struct variants *v, struct stk_runner_plan *p)
{
    *p = (struct stk_runner_plan)STK_RUNNER_PLAN_INIT;
    for (size_t i = 0; i < 3; i++) {
        const char *argv[] = {"sh", "-c", three[i][2], NULL};
        memcpy(v->argv[i], argv, sizeof argv);
        v->env[i][0] = three[i][1];
        v->env[i][1] = NULL;
        v->point[i] = (struct stk_point){.id = three[i][0], .argv = v->argv[i], .env = v->env[i]};
    }
    p->variant = v->point;
    p->nvariants = 3;
    p->runs_min = p->runs_max = 1;
    p->warmup = 0;
}

static size_t count_in(const char *path, const char *what)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t n = 0;
    CHECK_INT(stk_read_file(path, 1 << 20, &b, NULL), 0);
    for (const char *p = stk_buf_cstr(&b); (p = strstr(p, what)); p++)
        n++;
    stk_buf_release(&b);
    return n;
}

/* The journal has every point once, then every point that is not given up once more, and so on. */
static void check_rounds(const char *path)
{
    struct stk_buf b = STK_BUF_INIT;
    unsigned round = 0, seen = 0;
    CHECK_INT(stk_read_file(path, 1 << 20, &b, NULL), 0);
    for (const char *p = stk_buf_cstr(&b); (p = strstr(p, "\"point\":\"")); p++)
        for (unsigned i = 0; i < 3; i++)
            if (strncmp(p + strlen("\"point\":\""), three[i][0], strlen(three[i][0])) == 0) {
                CHECK(!(seen & 1u << i));
                seen |= 1u << i;
                if (seen == (round < 2 ? 7u : 3u)) { /* two failures are enough */
                    seen = 0;
                    round++;
                }
            }
    CHECK_INT(round, 3);
    stk_buf_release(&b);
}

/* A tuner that has seen enough adds the next one to try; what was run is not run again. */
static void add_one(const struct stk_runner_change *as_before)
{
    const char *argv[] = {"sh", "-c", "echo next >> log", NULL};
    const struct stk_point next[] = {{.id = "quick", .argv = argv}, {.id = "next", .argv = argv}};
    struct stk_runner_change more = *as_before;
    struct stk_runner *r = NULL;
    size_t n;
    more.variant = next;
    more.nvariants = 2;
    CHECK_INT(stk_runner_resume("study", &more, &r, NULL), 0);
    CHECK_INT(stk_runner_go(r, NULL, NULL), 0);
    const struct stk_tally *t = stk_runner_tally(r, &n);
    CHECK(n == 4 && t[1].good == 3 && t[3].good == 3 && stk_runner_study(r)->nruns == 11);
    CHECK_STR(t[3].point->id, "next");
    stk_runner_free(r);
    CHECK_INT(count_in("log", "next"), 3);
}

/* Begun, and resumed for more: each of three variants is run as often as was asked for, and what
 * the first call has run is not run again. */
static void variants(void)
{
    const struct stk_runner_change more = {.runs_min = 3,
                                           .runs_max = 3,
                                           .precision = NAN,
                                           .timeout_s = NAN,
                                           .budget_s = NAN,
                                           .at_once = UINT64_MAX};
    struct stk_runner_plan p;
    struct variants v;
    struct stk_runner *r = NULL;
    char *home = getcwd(NULL, 0);
    size_t n;
    make_variants(&v, &p);
    CHECK(chdir(scratch_begin()) == 0);
    CHECK_INT(stk_runner_new(&p, "study", &r, NULL), 0);
    CHECK_INT(stk_runner_go(r, NULL, NULL), 0);
    stk_runner_free(r);
    CHECK_INT(count_in("study/runs.jsonl", "\n"), 3);
    CHECK_INT(stk_runner_resume("study", &more, &r, NULL), 0);
    CHECK_INT(stk_runner_go(r, NULL, NULL), 0);
    const struct stk_tally *t = stk_runner_tally(r, &n);
    CHECK_INT(n, 3);
    CHECK(t[0].good == 3 && t[1].good == 3 && t[2].good == 0 && t[2].bad == 2);
    CHECK(t[0].cost >= 0.03 && isnan(t[2].cost));
    const struct stk_study *s = stk_runner_study(r);
    CHECK(s->nseries == 3 && s->nruns == 8);
    CHECK_STR(s->series[2].name, "broken");
    CHECK_STR(s->series[2].run[0].point, "broken");
    stk_runner_free(r);
    check_rounds("study/runs.jsonl");
    add_one(&more);
    CHECK_INT(count_in("log", "one 1 two\n"), 3);
    CHECK_INT(count_in("study/output/broken-r1.txt", "no"), 1);
    CHECK(chdir(home) == 0);
    scratch_done();
    free(home);
}

/* Every executor can be found by what it is called. */
static void executors(void)
{
    for (size_t i = 0; stk_executor_names[i]; i++)
        CHECK_STR(stk_executor_find(stk_executor_names[i])->name, stk_executor_names[i]);
    CHECK(stk_executor_find("nowhere") == NULL);
}

/* A study of a stoker that knew N alone, `slurm` in its plan. */
static void old_plans(void)
{
    const char *argv[] = {"true", "{n}", NULL};
    struct stk_runner_plan p = STK_RUNNER_PLAN_INIT, q;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf b = STK_BUF_INIT;
    p.argv = argv;
    p.cwd = "/";
    p.n[0] = p.nn = 1;
    p.via = &stk_executor_slurm;
    stk_runner_write_plan(&p, &b);
    char *via = strstr((char *)(uintptr_t)stk_buf_cstr(&b), "\"via\"");
    CHECK(via != NULL);
    if (via)
        via[1] = 'x';
    CHECK_INT(stk_runner_read_plan(stk_buf_cstr(&b), b.len, "p", &arena, &q, NULL), 0);
    CHECK(q.via == &stk_executor_slurm);
    stk_buf_release(&b);
    stk_arena_release(&arena);
}

static int stop_now(void *user)
{
    return ++*(int *)user > 1;
}

static void processes(void)
{
    const char *env[] = {"A=b", NULL};
    const char *ok[] = {"sh", "-c", "echo out; echo err >&2; exit 3", NULL};
    const char *hang[] = {"sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100", NULL};
    struct stk_child c = {.path = "/bin/sh", .argv = ok, .env = env, .dir = "/", .own_group = true};
    struct stk_exec_end end;
    struct stk_buf b = STK_BUF_INIT;
    char line[32];
    int ticks = 0, fd;
    CHECK_INT(stk_output_open(&fd, NULL), 0);
    c.fd[0] = STK_FD_NULL;
    c.fd[1] = c.fd[2] = fd;
    CHECK_INT(stk_exec_timed(&c, &end, NULL), 0);
    CHECK(end.status == 3 && !end.signal && end.wall_s > 0 && end.cpu_s >= 0);
    CHECK_INT(stk_output_read(fd, false, &b, NULL), 0);
    CHECK_STR(stk_buf_cstr(&b), "out\nerr\n");
    stk_output_last_line(&b, line, sizeof line);
    CHECK_STR(line, "err");
    c.argv = hang;
    c.timeout_s = 2; /* long enough for the shell to set its trap */
    CHECK_INT(stk_exec_timed(&c, &end, NULL), 0);
    CHECK(end.timed_out && !end.stopped && end.signal == SIGKILL && end.wall_s >= 2);
    c.argv = (const char *[]){"sh", "-c", "sleep 100", NULL};
    c.timeout_s = 0;
    c.tick = stop_now;
    c.user = &ticks;
    CHECK_INT(stk_exec_timed(&c, &end, NULL), 0);
    CHECK(end.stopped && !end.timed_out);
    c.path = "/nowhere/at/all";
    CHECK_INT(stk_exec_timed(&c, &end, NULL), STK_E_SYS);
    close(fd);
    stk_buf_release(&b);
}

static void last_lines(void)
{
    struct stk_buf b = STK_BUF_INIT;
    char line[8];
    stk_output_last_line(&b, line, sizeof line);
    CHECK_STR(line, "");
    stk_buf_puts(&b, "one\ntwo \xc3\xa4\xff\n-----\n\r\n \n");
    stk_output_last_line(&b, line, sizeof line);
    CHECK_STR(line, "two \xc3\xa4?");
    stk_buf_puts(&b, "no!\n{\n  \"error\": {\n    \"x\": 1\n  }\n}\n"); /* a result in JSON */
    stk_output_last_line(&b, line, sizeof line);
    CHECK_STR(line, "no!");
    stk_buf_reset(&b);
    stk_buf_puts(&b, "{\n\"a\": 1\n}\n");
    stk_output_last_line(&b, line, sizeof line);
    CHECK_STR(line, "\"a\": 1");
    stk_buf_release(&b);
}

static void cores(void)
{
    struct stk_cores c;
    cpu_set_t set, ours;
    stk_cores_find(&c);
    CHECK(c.n >= 1 && c.physical >= 1 && c.physical <= c.n);
    CHECK(sched_getaffinity(0, sizeof ours, &ours) == 0 && CPU_COUNT(&ours) == (int)c.n);
    stk_cores_set(&c, 1, &set);
    CHECK_INT(CPU_COUNT(&set), 1);
    stk_cores_set(&c, UINT64_MAX, &set);
    CHECK(CPU_EQUAL(&set, &ours));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(marks);
    CHECK_RUN(splitting);
    CHECK_RUN(numbers);
    CHECK_RUN(metrics);
    CHECK_RUN(better_ways);
    CHECK_RUN(plans);
    CHECK_RUN(batch_file);
    CHECK_RUN(points_of_n);
    CHECK_RUN(points_of_spread);
    CHECK_RUN(points_of_pack);
    CHECK_RUN(bad_variants);
    CHECK_RUN(variants);
    CHECK_RUN(executors);
    CHECK_RUN(old_plans);
    CHECK_RUN(processes);
    CHECK_RUN(last_lines);
    CHECK_RUN(cores);
    return CHECK_DONE();
}
