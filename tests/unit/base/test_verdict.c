/*
 * test_verdict.c - what runs show, and how often that is wrong. If it failed, users would pay for
 * changes that change nothing, or be told that a slow thing is as good as a fast one.
 *
 * The errors are counted over seeded runs with noise as machines have it: a few per cent to a
 * quarter, now and then a run that takes half as long again.
 */
#include <math.h>

#include "base/verdict.h"
#include "check.h"

static uint64_t seed = 1;

static double a_run(double sd)
{
    double hit = stk_random_unit(&seed) < 0.05 ? 1.5 : 1;
    return hit * exp(sd * stk_random_normal(&seed));
}

static struct stk_verdict of_runs(double times, double sd, size_t runs, size_t among)
{
    double a[16], b[16];
    struct stk_noise pool = {0};
    for (size_t i = 0; i < runs; i++) {
        a[i] = a_run(sd) / times;
        b[i] = a_run(sd);
    }
    stk_noise_add(&pool, a, runs);
    stk_noise_add(&pool, b, runs);
    stk_noise_finish(&pool);
    struct stk_timed x = {stk_median(a, runs), runs, &pool, 0},
                     y = {stk_median(b, runs), runs, &pool, 0};
    return stk_verdict_of(&x, &y, STK_VERDICT_ALIKE, among);
}

#define TRIALS 2000

/* How many of the trials end in one of the kinds. */
static double share(double times, double sd, size_t runs, unsigned kinds)
{
    int n = 0;
    for (int i = 0; i < TRIALS; i++)
        n += (kinds >> of_runs(times, sd, runs, 1).kind & 1u) != 0;
    return (double)n / TRIALS;
}

#define DIFFER (1u << STK_VERDICT_FASTER | 1u << STK_VERDICT_SLOWER)
#define CHANCE 0.015 /* of a share of 5 % among so many trials, with three standard deviations */

static void equal_things_are_rarely_called_faster(void)
{
    const double noise[] = {0.02, 0.05, 0.10, 0.25};
    for (size_t k = 0; k < 4; k++)
        for (size_t runs = 2; runs <= 9; runs += runs < 3 ? 1 : 3)
            CHECK(share(1, noise[k], runs, DIFFER) <= 0.05 + CHANCE);
}

/* ---- the promised errors, for every ratio, noise and number of runs -------------------------- */

enum way { POOLED, PAIRED, ONE_IS_LOUD, WHOLE_SECONDS, WAYS };

#define RUNS 10

static double drawn(double sd)
{
    return exp(sd * stk_random_normal(&seed));
}

/* As a series of a study has it: eight N that differ by 2 %, beside the two that are compared. */
static struct stk_verdict of_medians(double *a, double *b, size_t n, bool quiet_others)
{
    struct stk_noise pool = {0}, own[2] = {{0}}, room[2];
    stk_noise_add(&own[0], a, n);
    stk_noise_add(&own[1], b, n);
    stk_noise_add(&pool, a, n);
    stk_noise_add(&pool, b, n);
    for (size_t k = 0; k < 8 && quiet_others; k++) {
        double other[RUNS];
        for (size_t i = 0; i < n; i++)
            other[i] = drawn(0.02);
        stk_noise_add(&pool, other, n);
    }
    stk_noise_finish(&pool);
    double step = fmin(stk_step_of(a, n), stk_step_of(b, n));
    struct stk_timed x = {stk_median(a, n), n, stk_noise_of(&pool, &own[0], &room[0]), 0},
                     y = {stk_median(b, n), n, stk_noise_of(&pool, &own[1], &room[1]), 0};
    x.step = step / x.median;
    y.step = step / y.median;
    return stk_verdict_of(&x, &y, STK_VERDICT_ALIKE, 1);
}

static struct stk_verdict of_way(enum way way, double times, double sd, size_t n)
{
    double a[RUNS], b[RUNS], log_ratio[RUNS];
    for (size_t i = 0; i < n; i++) {
        a[i] = 10 * drawn(sd) / times;
        b[i] = 10 * drawn(sd);
        if (way == WHOLE_SECONDS) {
            a[i] = fmax(1, round(a[i]));
            b[i] = fmax(1, round(b[i]));
        }
        log_ratio[i] = log(b[i] / a[i]);
    }
    return way == PAIRED ? stk_verdict_of_pairs(log_ratio, n, STK_VERDICT_ALIKE, 1)
                         : of_medians(a, b, n, way == ONE_IS_LOUD);
}

#define SOME        200
#define SOME_CHANCE 0.047 /* of 5 % among so many, with three standard deviations */

static void check_errors(enum way way, double times, double sd, size_t n)
{
    int wrong = 0, beyond = 0, outside = 0;
    for (int i = 0; i < SOME; i++) {
        struct stk_verdict v = of_way(way, times, sd, n);
        double reach = fmax(v.ci.hi, 1 / v.ci.lo); /* the x of both sentences */
        wrong += v.kind == STK_VERDICT_SLOWER || (v.kind == STK_VERDICT_FASTER && times == 1);
        beyond += (v.kind == STK_VERDICT_SAME || v.kind == STK_VERDICT_NOT_KNOWN) && times > reach;
        outside += times < v.ci.lo || times > v.ci.hi;
    }
    const double most = SOME * (0.05 + SOME_CHANCE);
    if (wrong > most || beyond > most || outside > most)
        printf("way %d, %gx, noise %g, %zu runs: wrong %d, beyond x %d, outside %d of %d\n",
               (int)way, times, sd, n, wrong, beyond, outside, SOME);
    CHECK(wrong <= most && beyond <= most && outside <= most);
}

static void errors_are_as_rare_as_promised(void)
{
    const double ratio[] = {1, 1.05, 1.3, 2}, noise[] = {0.02, 0.1, 0.3};
    const size_t runs[] = {2, 3, RUNS};
    for (int way = 0; way < WAYS; way++)
        for (size_t r = 0; r < 4; r++)
            for (size_t s = 0; s < 3; s++)
                for (size_t k = 0; k < 3; k++)
                    check_errors((enum way)way, ratio[r], noise[s], runs[k]);
}

/* Whole seconds: eleven and ten may be 10.51 and 10.49. */
static void rounded_times_are_no_exact_ones(void)
{
    const double coarse[] = {11, 11, 11}, tenths[] = {11.1, 11, 11.2}, fine[] = {11.0312, 11, 11.5};
    CHECK(stk_step_of(coarse, 3) == 1 && stk_step_of(tenths, 3) == 0.1);
    CHECK(stk_step_of(fine, 3) == 0);
    const struct stk_noise none = {0, 4};
    struct stk_timed a = {10, 3, &none, 1.0 / 10}, b = {11, 3, &none, 1.0 / 11};
    struct stk_verdict v = stk_verdict_of(&a, &b, STK_VERDICT_ALIKE, 1);
    CHECK_INT(v.kind, STK_VERDICT_NOT_KNOWN);
    CHECK(v.ci.hi > 1.2 && v.more == 0); /* more runs would show the same */
    a.step = b.step = 0;
    v = stk_verdict_of(&a, &b, STK_VERDICT_ALIKE, 1);
    CHECK_INT(v.kind, STK_VERDICT_FASTER);
}

static void same_is_only_said_of_the_same(void)
{
    for (size_t runs = 2; runs <= 9; runs++) {
        CHECK(share(1.08, 0.02, runs, 1u << STK_VERDICT_SAME) <= 0.025 + CHANCE);
        CHECK(share(1 / 1.08, 0.1, runs, 1u << STK_VERDICT_SAME) <= 0.025 + CHANCE);
    }
    CHECK(share(1, 0.01, 5, 1u << STK_VERDICT_SAME) > 0.8); /* and it is said */
}

static void a_difference_is_seen_with_the_runs_that_were_named(void)
{
    int n = 0, named = 0;
    for (int i = 0; i < 200; i++) {
        struct stk_verdict v = of_runs(1.3, 0.1, 3, 1);
        named += v.kind == STK_VERDICT_NOT_KNOWN && v.more > 0;
        n += v.kind == STK_VERDICT_FASTER;
    }
    CHECK(named > 50 && n + named > 180);
    CHECK(share(1.3, 0.1, 10, 1u << STK_VERDICT_FASTER) > 0.9);
    CHECK(share(1.3, 0.1, 10, 1u << STK_VERDICT_SLOWER) == 0);
}

/* Of eight that gain nothing, looked at after each run, and the best measured again: how a tuning
 * does it. */
static bool is_found(size_t candidates, double sd)
{
    bool found = false;
    for (size_t k = 0; k < candidates; k++) {
        double d[15];
        enum stk_verdict_kind kind = STK_VERDICT_NOT_KNOWN;
        for (size_t n = 0; n < 15 && kind == STK_VERDICT_NOT_KNOWN; n++) {
            d[n] = log(a_run(sd) / a_run(sd));
            if (n < 2)
                continue;
            struct stk_verdict v = stk_verdict_of_pairs(d, n + 1, 0.03, 1);
            kind = v.ci.lo > 1.03   ? STK_VERDICT_FASTER
                   : v.ci.hi < 1.03 ? STK_VERDICT_SAME
                                    : STK_VERDICT_NOT_KNOWN;
        }
        found = found || kind == STK_VERDICT_FASTER;
    }
    return found;
}

static void nothing_is_found_among_many(void)
{
    const double noise[] = {0.02, 0.1, 0.25};
    for (size_t k = 0; k < 3; k++) {
        int n = 0;
        for (int i = 0; i < 300; i++)
            n += is_found(8, noise[k]) && is_found(1, noise[k]);
        CHECK(n <= 15);
    }
    int n = 0; /* the one of eight that differs most */
    for (int i = 0; i < 100; i++) {
        bool any = false;
        for (int k = 0; k < 8; k++)
            any = any || (DIFFER >> of_runs(1, 0.1, 3, 8).kind & 1);
        n += any;
    }
    CHECK(n <= 11);
}

static void students_t_is_that_of_the_tables(void)
{
    CHECK(fabs(stk_t_of(1, 0.01) - 63.657) < 0.01 && fabs(stk_t_of(2, 0.01) - 9.925) < 0.001);
    CHECK(fabs(stk_t_of(10, 0.001) - 4.587) < 0.001 && fabs(stk_t_of(100, 0.01) - 2.626) < 0.001);
    CHECK(fabs(stk_t_of(5, 0.0500001) - stk_t95(5)) < 0.001 && isnan(stk_t_of(0.5, 0.01)));
}

/* ---- words ---------------------------------------------------------------------------------- */

static const char *said(double a, double b, size_t runs, double sd, double dof)
{
    static char text[STK_VERDICT_TEXT];
    const struct stk_noise noise = {sd, dof};
    struct stk_timed x = {a, runs, &noise, 0}, y = {b, runs, &noise, 0};
    struct stk_verdict v = stk_verdict_of(&x, &y, 0.10, 1);
    return stk_verdict_text(&v, text, sizeof text);
}

static void the_words_say_what_is_known(void)
{
    CHECK_STR(said(1, 5, 3, 0.02, 4), "faster, 5x (95 %: 4.75x to 5.27x)");
    CHECK_STR(said(5, 1, 3, 0.02, 4), "slower, 0.2x (95 %: 0.19x to 0.211x)");
    CHECK_STR(said(1, 1.01, 3, 0.02, 4), "same within 7 %");
    CHECK_STR(said(3.48, 1.69, 2, 0.6, 3),
              "not known (0.486x measured): a difference up to 14x would not have been seen; 6 more "
              "runs of each would show it if 0.486x is right");
    CHECK_STR(said(1, 1.3, 3, 0.15, 4),
              "not known (1.3x measured): a difference up to 93 % would not have been seen; 3 more "
              "runs of each would show it if 1.3x is right");
    CHECK_STR(said(1, 2, 1, NAN, 0), "not known (2x measured): one run of each does not show the "
                                     "noise; 2 more of each would show it");
    CHECK_STR(said(1, 1.1, 2, 0.6, 1), "not known (1.1x measured): 2 runs of each show no difference "
                                       "of any size; 305 more runs of each would show it if 1.1x is "
                                       "right");
    struct stk_verdict none = stk_verdict_of_pairs(NULL, 0, 0.1, 1);
    char text[STK_VERDICT_TEXT];
    CHECK_STR(stk_verdict_text(&none, text, sizeof text), "not known: nothing was measured");
    CHECK_STR(stk_verdict_id(none.kind), "not-known");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(equal_things_are_rarely_called_faster);
    CHECK_RUN(errors_are_as_rare_as_promised);
    CHECK_RUN(rounded_times_are_no_exact_ones);
    CHECK_RUN(same_is_only_said_of_the_same);
    CHECK_RUN(a_difference_is_seen_with_the_runs_that_were_named);
    CHECK_RUN(nothing_is_found_among_many);
    CHECK_RUN(students_t_is_that_of_the_tables);
    CHECK_RUN(the_words_say_what_is_known);
    return CHECK_DONE();
}
