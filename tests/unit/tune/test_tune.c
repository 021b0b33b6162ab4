/* test_tune.c - verdicts about runs: a gain within the noise that is recommended costs a day, and a
 * real one that is not found costs every epoch. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "tune/priv.h"

#define RUNS 5

static void fill(struct stk_study_series *s, struct stk_study_run *run, const double *seconds)
{
    for (size_t i = 0; i < RUNS; i++) {
        run[i] = (struct stk_study_run)STK_STUDY_RUN_INIT;
        run[i].repeat = (uint32_t)i;
        run[i].wall_s = seconds[i];
    }
    *s = (struct stk_study_series){.name = "x", .run = run, .nruns = RUNS};
}

/* A machine that gets three times as slow meanwhile: rounds are compared, not averages. */
static void pairs_of_a_round(void)
{
    const double before[] = {1.0, 1.5, 2.0, 2.5, 3.0}, after[] = {0.5, 0.75, 1.0, 1.25, 1.5};
    struct stk_study_run a[RUNS], b[RUNS];
    static struct stk_study study = {.nseries = 2};
    double d[RUNS];
    fill(&study.series[0], a, before);
    fill(&study.series[1], b, after);
    CHECK_INT(stk_tune_pairs(&study, 0, 1, d, RUNS), RUNS);
    for (size_t i = 0; i < RUNS; i++)
        CHECK(fabs(d[i] - log(2)) < 1e-9);
    CHECK_INT(stk_tune_pairs(&study, 0, 1, d, 2), 2);
    b[1].status = STK_RUN_FAILED;
    a[4].status = STK_RUN_CANCELLED;
    CHECK_INT(stk_tune_pairs(&study, 0, 1, d, RUNS), RUNS - 2);
}

static void put(struct stk_tune *t, const char *kind, enum stk_tune_verdict v, double times)
{
    struct stk_tune_candidate *c = &t->candidate[t->n++];
    *c = (struct stk_tune_candidate){.nchanges = 1, .verdict = v};
    c->change[0].kind = stk_tune_kind_find(kind);
    c->gain.times = times;
    snprintf(c->id, sizeof c->id, "%s", kind);
    CHECK(c->change[0].kind);
}

/* Of two that gain as much, people want the one that is a number in a script. */
static void least_effort_wins(void)
{
    struct stk_tune t = {.candidate = calloc(6, sizeof *t.candidate), .n = 1};
    put(&t, "prefetch", STK_TUNE_UNCLEAR, 9);
    put(&t, "threads", STK_TUNE_GAIN, 3.95);
    put(&t, "pack", STK_TUNE_GAIN, 4.0);
    put(&t, "shard", STK_TUNE_GAIN, 2.0);
    stk_tune_rank(&t);
    CHECK_STR(t.candidate[1].id, "pack");
    CHECK_STR(t.candidate[t.best].id, "threads");
    CHECK_STR(t.candidate[4].id, "prefetch");
    struct stk_verdict *less = &t.candidate[t.best].gain;
    *less = (struct stk_verdict){.times = 3.5, .ci = {3.3, 3.7}};
    stk_tune_rank(&t);
    CHECK_STR(t.candidate[t.best].id, "pack");
    for (size_t i = 1; i < t.n; i++)
        if (t.candidate[i].gain.times == 3.5)
            t.candidate[i].gain.ci = (struct stk_interval){2, 6}; /* may be noise */
    stk_tune_rank(&t);
    CHECK_STR(t.candidate[t.best].id, "threads");
    for (size_t i = 1; i < t.n; i++)
        t.candidate[i].verdict = STK_TUNE_NOTHING;
    stk_tune_rank(&t);
    CHECK(t.best == 0);
    free(t.candidate);
}

/* Candidates, and what the first study shows of them. */
struct shown {
    struct stk_arena arena;
    struct stk_tune_list list;
    struct stk_tune_measured item[STK_TUNE_MAX];
};

static void show(struct shown *s, const char *kind, enum stk_tune_verdict v, double times)
{
    struct stk_tune_proposal *c = stk_tune_add(&s->list);
    struct stk_tune_measured *m = &s->item[s->list.n - 1];
    c->nchanges = 1;
    c->change[0].kind = stk_tune_kind_find(kind);
    snprintf(c->id, sizeof c->id, "%s", kind);
    *m = (struct stk_tune_measured){.runs = 3, .verdict = v, .gain.times = times};
    CHECK(c->change[0].kind);
}

static struct stk_tune_list combined(const struct shown *s)
{
    const struct stk_tune_study first = {.item = (void *)(uintptr_t)s->item, .n = s->list.n};
    struct stk_tune_list all;
    CHECK(stk_tune_combine(&s->list, &first, &all, NULL) == 0);
    return all;
}

/* Fewer CPUs are measured with the best change, to be asked for; they are no change to make. */
static void fewer_cpus(void)
{
    struct shown s = {.arena = STK_ARENA_INIT};
    CHECK(stk_tune_list_new(&s.arena, &s.list, NULL) == 0);
    show(&s, "pack", STK_TUNE_GAIN, 4);
    show(&s, "cpus", STK_TUNE_NOTHING, 1);
    struct stk_tune_list all = combined(&s);
    CHECK(all.n == 4);
    CHECK_STR(all.item[3].id, "pack_cpus");
    struct stk_tune t = {.candidate = calloc(4, sizeof *t.candidate), .n = 1};
    put(&t, "pack", STK_TUNE_GAIN, 4);
    put(&t, "cpus", STK_TUNE_GAIN, 5);
    stk_tune_rank(&t);
    CHECK_STR(t.candidate[t.best].id, "pack");
    free(t.candidate);
    stk_arena_release(&s.arena);
}

static void combinations(void)
{
    struct shown s = {.arena = STK_ARENA_INIT};
    CHECK(stk_tune_list_new(&s.arena, &s.list, NULL) == 0);
    show(&s, "prefetch", STK_TUNE_GAIN, 2); /* threads read ahead as well */
    show(&s, "threads", STK_TUNE_GAIN, 3);
    show(&s, "shard", STK_TUNE_NOTHING, 1); /* has not won */
    show(&s, "request", STK_TUNE_GAIN, 4);
    struct stk_tune_list all = combined(&s);
    CHECK(all.n == 7); /* the largest gains first */
    CHECK_STR(all.item[5].id, "request_threads");
    CHECK_STR(all.item[6].id, "request_prefetch");
    CHECK(all.item[5].nchanges == 2);
    stk_arena_release(&s.arena);
}

/* A job whose only finding is that it lists a folder too often still waits for its files. */
static void findings_that_nothing_carries_out(void)
{
    struct stk_action list = {.kind = STK_ACT_LIST_ONCE}, both[] = {list, {.kind = STK_ACT_STAGE}};
    struct stk_tune_plan p = {.action = &list, .nactions = 1};
    CHECK(stk_tune_wants(&p, stk_tune_kind_find("pack")));
    p = (struct stk_tune_plan){.action = both, .nactions = 2};
    CHECK(stk_tune_wants(&p, stk_tune_kind_find("stage")));
    CHECK(!stk_tune_wants(&p, stk_tune_kind_find("threads")));
}

/* How many of two candidates the budget allows: the first is expected to gain little. */
static void ration(const struct stk_tune_plan *p, const uint64_t *runs, double left_s,
                   enum stk_tune_verdict pack, enum stk_tune_verdict threads)
{
    struct shown s = {.arena = STK_ARENA_INIT};
    const struct stk_tune_subject job = {.pilot = {.epoch_s = 10, .run_cost_s = 5}};
    struct stk_tune_expected e[3] = {{.verdict = STK_TUNE_UNCLEAR},
                                     {.verdict = STK_TUNE_UNCLEAR, .epoch_s = 9},
                                     {.verdict = STK_TUNE_UNCLEAR, .epoch_s = 1}};
    CHECK(stk_tune_list_new(&s.arena, &s.list, NULL) == 0);
    show(&s, "pack", STK_TUNE_UNCLEAR, 1);
    show(&s, "threads", STK_TUNE_UNCLEAR, 1);
    stk_tune_ration(p, &job, &s.list, runs, left_s, e);
    CHECK(e[1].verdict == pack && e[2].verdict == threads);
    stk_arena_release(&s.arena);
}

/* A change that the user asks for is measured, although the budget allows one, and others promise more. */
static void the_choice_is_tried(void)
{
    ration(&(struct stk_tune_plan){0}, NULL, 10, STK_TUNE_SKIPPED, STK_TUNE_UNCLEAR);
    ration(&(struct stk_tune_plan){.choice = "pack"}, NULL, 10, STK_TUNE_UNCLEAR, STK_TUNE_SKIPPED);
    ration(&(struct stk_tune_plan){0}, NULL, 100, STK_TUNE_UNCLEAR, STK_TUNE_UNCLEAR);
}

/* Runs of yesterday are not thrown away because today's budget is small. */
static void what_was_run_stays(void)
{
    const uint64_t pack[3] = {3, 3, 0}, both[3] = {3, 3, 3};
    ration(&(struct stk_tune_plan){0}, pack, 10, STK_TUNE_UNCLEAR, STK_TUNE_SKIPPED);
    ration(&(struct stk_tune_plan){0}, both, 10, STK_TUNE_UNCLEAR, STK_TUNE_UNCLEAR);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(pairs_of_a_round);
    CHECK_RUN(least_effort_wins);
    CHECK_RUN(fewer_cpus);
    CHECK_RUN(combinations);
    CHECK_RUN(findings_that_nothing_carries_out);
    CHECK_RUN(the_choice_is_tried);
    CHECK_RUN(what_was_run_stays);
    return CHECK_DONE();
}
