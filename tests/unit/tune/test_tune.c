/* test_tune.c - verdicts about runs: a gain within the noise that is recommended costs a day, and a
 * real one that is not found costs every epoch. */
#include <math.h>
#include <stdlib.h>

#include "base/pool.h"
#include "check.h"
#include "tune/priv.h"

#define RUNS 5

struct made {
    struct stk_study_run run[RUNS];
    struct stk_study_series series;
};

static struct stk_study_series *series(struct made *m, const double *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m->run[i] = (struct stk_study_run)STK_STUDY_RUN_INIT;
        m->run[i].repeat = (uint32_t)i;
        m->run[i].value = v[i];
    }
    m->series = (struct stk_study_series){.name = "x", .run = m->run, .nruns = n};
    return &m->series;
}

/* A machine that gets three times as slow meanwhile: rounds are compared, not averages. */
static void pairs_of_a_round(void)
{
    struct made a, b;
    const double before[] = {1.0, 1.5, 2.0, 2.5, 3.0}, after[] = {0.5, 0.75, 1.0, 1.25, 1.5};
    double d[RUNS];
    series(&a, before, RUNS);
    series(&b, after, RUNS);
    CHECK_INT(stk_tune_pairs(&a.series, &b.series, d, RUNS), RUNS);
    for (size_t i = 0; i < RUNS; i++)
        CHECK(fabs(d[i] - log(2)) < 1e-9);
    CHECK_INT(stk_tune_pairs(&a.series, &b.series, d, 2), 2);
    b.run[1].status = STK_RUN_FAILED;
    a.run[4].status = STK_RUN_CANCELLED;
    CHECK_INT(stk_tune_pairs(&a.series, &b.series, d, RUNS), RUNS - 2);
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

/* Fewer CPUs are measured with the best change, to be asked for; they are no change to make. */
static void fewer_cpus(void)
{
    struct stk_tune t = {.candidate = calloc(STK_TUNE_MAX + 1, sizeof *t.candidate), .n = 1};
    struct stk_tuner tuner = {.out = &t};
    put(&t, "pack", STK_TUNE_GAIN, 4);
    put(&t, "cpus", STK_TUNE_NOTHING, 1);
    CHECK(stk_tune_combine(&tuner, NULL) == 0);
    CHECK(t.n == 4);
    CHECK_STR(t.candidate[3].id, "pack_cpus");
    t.candidate[3].verdict = STK_TUNE_GAIN;
    t.candidate[3].gain.times = 5;
    stk_tune_rank(&t);
    CHECK_STR(t.candidate[t.best].id, "pack");
    free(t.candidate);
}

static void combinations(void)
{
    struct stk_tune t = {.candidate = calloc(STK_TUNE_MAX + 1, sizeof *t.candidate), .n = 1};
    struct stk_tuner tuner = {.out = &t};
    put(&t, "request", STK_TUNE_GAIN, 4);
    put(&t, "threads", STK_TUNE_GAIN, 3);
    put(&t, "prefetch", STK_TUNE_GAIN, 2);  /* threads read ahead as well */
    put(&t, "shard", STK_TUNE_NOTHING, 1); /* has not won */
    CHECK(stk_tune_combine(&tuner, NULL) == 0);
    CHECK(t.n == 7);
    CHECK_STR(t.candidate[5].id, "request_threads");
    CHECK_STR(t.candidate[6].id, "request_prefetch");
    CHECK(t.candidate[5].nchanges == 2 && t.candidate[5].verdict == STK_TUNE_UNCLEAR);
    free(t.candidate);
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

/* A change that the user asks for is measured, although the budget allows one, and others promise more. */
static void the_choice_is_tried(void)
{
    struct stk_tune t = {.candidate = calloc(STK_TUNE_MAX + 1, sizeof *t.candidate), .n = 1};
    struct stk_tune_plan p = {.budget_s = 10, .choice = "pack"};
    struct stk_tuner tuner = {.out = &t, .plan = &p, .start_s = stk_now(), .run_cost_s = 5};
    tuner.s.epoch_s = 10;
    put(&t, "pack", STK_TUNE_UNCLEAR, 1);
    put(&t, "threads", STK_TUNE_UNCLEAR, 1);
    t.candidate[1].predicted_s = 9;
    t.candidate[2].predicted_s = 1;
    stk_tune_ration(&tuner);
    CHECK(t.candidate[1].verdict == STK_TUNE_UNCLEAR);
    CHECK(t.candidate[2].verdict == STK_TUNE_SKIPPED);
    free(t.candidate);
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
    return CHECK_DONE();
}
