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
    struct stk_timed x = {stk_median(a, runs), runs, &pool}, y = {stk_median(b, runs), runs, &pool};
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
    struct stk_timed x = {a, runs, &noise}, y = {b, runs, &noise};
    struct stk_verdict v = stk_verdict_of(&x, &y, 0.10, 1);
    return stk_verdict_text(&v, text, sizeof text);
}

static void the_words_say_what_is_known(void)
{
    CHECK_STR(said(1, 5, 3, 0.02, 4), "faster, 5x (95 %: 4.75x to 5.27x)");
    CHECK_STR(said(5, 1, 3, 0.02, 4), "slower, 0.2x (95 %: 0.19x to 0.211x)");
    CHECK_STR(said(1, 1.01, 3, 0.02, 4), "same within 7 %");
    CHECK_STR(said(3.48, 1.69, 2, 0.6, 3),
              "not known (0.486x measured): a difference up to 6.7x would not have been seen; 6 more "
              "runs of each would show it");
    CHECK_STR(said(1, 1.3, 3, 0.15, 4),
              "not known (1.3x measured): a difference up to 48 % would not have been seen; 3 more "
              "runs of each would show it");
    CHECK_STR(said(1, 2, 1, NAN, 0), "not known (2x measured): one run of each does not show the "
                                     "noise; 2 more of each would show it");
    CHECK_STR(said(1, 1.1, 2, 0.6, 1), "not known (1.1x measured): 2 runs of each show no difference "
                                       "of any size; 305 more runs of each would show it");
    struct stk_verdict none = stk_verdict_of_pairs(NULL, 0, 0.1, 1);
    char text[STK_VERDICT_TEXT];
    CHECK_STR(stk_verdict_text(&none, text, sizeof text), "not known: nothing was measured");
    CHECK_STR(stk_verdict_id(none.kind), "not-known");
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(equal_things_are_rarely_called_faster);
    CHECK_RUN(same_is_only_said_of_the_same);
    CHECK_RUN(a_difference_is_seen_with_the_runs_that_were_named);
    CHECK_RUN(nothing_is_found_among_many);
    CHECK_RUN(students_t_is_that_of_the_tables);
    CHECK_RUN(the_words_say_what_is_known);
    return CHECK_DONE();
}
