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
    return way == PAIRED ? stk_verdict_of_pairs(log_ratio, n, STK_VERDICT_ALIKE)
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

/* ---- candidates that are looked at while they run ------------------------------------------- */

#define LEAST      0.03
#define CANDIDATES 10

/* What became of a simulated study. */
struct outcome {
    size_t faster;     /* of those that gain nothing: called faster */
    size_t found;      /* of those that do gain: called faster */
    size_t missed;     /* of those that do gain: called anything else but not known */
    double rounds;     /* until the last was decided */
};

/* `n` candidates in rounds with one baseline, until each is decided or has all its runs: the first
 * `good` are `times` as fast, the others `null`. hits: now and then a run takes half as long again. */
static struct outcome a_study(size_t n, size_t good, double times, double null, double sd, bool hits)
{
    double d[CANDIDATES][STK_LOOKS_LAST];
    struct stk_trial trial[CANDIDATES] = {{0}};
    struct outcome out = {0};
    size_t open = n;
    for (size_t round = 0; round < STK_LOOKS_LAST && open; round++) {
        double base = hits ? a_run(sd) : drawn(sd);
        for (size_t i = 0; i < n; i++) {
            if (round && trial[i].verdict.kind != STK_VERDICT_NOT_KNOWN)
                continue; /* decided: it is not run any more */
            d[i][round] = log(base / (hits ? a_run(sd) : drawn(sd)) * (i < good ? times : null));
            trial[i].log_ratio = d[i];
            trial[i].n = round + 1;
        }
        stk_verdict_of_trials(trial, n, LEAST);
        open = 0;
        for (size_t i = 0; i < n; i++)
            open += trial[i].verdict.kind == STK_VERDICT_NOT_KNOWN;
        out.rounds = (double)round + 1;
    }
    for (size_t i = 0; i < n; i++) {
        bool faster = trial[i].verdict.kind == STK_VERDICT_FASTER;
        out.faster += i >= good && faster;
        out.found += i < good && faster;
        out.missed += i < good && !faster && trial[i].verdict.kind != STK_VERDICT_NOT_KNOWN;
    }
    return out;
}

struct rate {
    double wrong, found, missed, rounds; /* shares of the studies; the mean of the rounds */
};

static struct rate of_studies(int studies, size_t n, size_t good, double times, double null, double sd, bool hits)
{
    struct rate r = {0};
    for (int i = 0; i < studies; i++) {
        struct outcome o = a_study(n, good, times, null, sd, hits);
        r.wrong += (o.faster > 0) / (double)studies;
        r.found += (good && o.found == good) / (double)studies;
        r.missed += (o.missed > 0) / (double)studies;
        r.rounds += o.rounds / studies;
    }
    return r;
}

/* Three standard deviations of a share of 2.5 % among so many studies. */
static double chance(int studies)
{
    return 3 * sqrt(0.025 * 0.975 / studies);
}

#define STUDIES 2000

/* With Student's intervals of 95 % after each of 3 to 15 runs, without regard to the looks and to the
 * number of candidates, it was 1.6 % (noise of 5 %), 6 % (20 %) and at the threshold 10 % of one
 * candidate, and among ten 34 and 46 % of the studies at 20 %. */
static void one_study_in_forty_is_wrong(void)
{
    const struct {
        double null, noise;
        bool hits;
    } how[] = {{1, 0.05, false}, {1, 0.2, false}, {1 + LEAST, 0.05, false}, {1 + LEAST, 0.2, true}};
    for (size_t n = 1; n <= CANDIDATES; n += CANDIDATES - 1)
        for (size_t k = 0; k < 4; k++) {
            struct rate r = of_studies(STUDIES, n, 0, 1, how[k].null, how[k].noise, how[k].hits);
            printf("%zu of %gx, noise %g%s: one is called faster in %.2f %% of the studies\n", n,
                   how[k].null, how[k].noise, how[k].hits ? ", some slow" : "", 100 * r.wrong);
            CHECK(r.wrong <= 0.025 + chance(STUDIES));
        }
    /* Beside those that do gain, which leave their part of the error to the others. */
    struct rate r = of_studies(STUDIES, CANDIDATES, 5, 2, 1 + LEAST, 0.05, false);
    printf("five of 2x, five of 1.03x, noise 0.05: %.2f %%\n", 100 * r.wrong);
    CHECK(r.wrong <= 0.025 + chance(STUDIES));
}

static void gains_are_found(void)
{
    struct rate one = of_studies(500, 1, 1, 1.1, 1, 0.05, false),
                ten = of_studies(500, CANDIDATES, 1, 1.1, 1, 0.05, false),
                large = of_studies(500, 1, 1, 2, 1, 0.05, false),
                many = of_studies(500, CANDIDATES, CANDIDATES, 2, 1, 0.05, false);
    printf("noise 0.05: 1.1x found alone in %.0f %% (%.1f rounds), among ten in %.0f %%; 2x in %.0f %% "
           "(%.1f rounds), ten of 2x in %.0f %% (%.1f rounds)\n",
           100 * one.found, one.rounds, 100 * ten.found, 100 * large.found, large.rounds,
           100 * many.found, many.rounds);
    CHECK(one.found > 0.85 && ten.found > 0.5 && one.missed < 0.03);
    CHECK(large.found > 0.999 && large.rounds <= 4);
    CHECK(many.found > 0.999 && many.rounds <= 6);
    CHECK(of_studies(500, 1, 1, 1.03 * 1.03, 1, 0.05, false).missed <= 0.025 + chance(500));
}

/* By hand: the shares of the looks add up to 1, and those of the candidates follow Holm. */
static void a_look_by_hand(void)
{
    /* Three pairs of mean log(2) and standard deviation 0.01: t of two degrees of freedom that is
     * exceeded to either side in 0.5 % of cases is 14.089. */
    const double d[] = {log(2) - 0.01, log(2), log(2) + 0.01};
    struct stk_trial one = {.log_ratio = d, .n = 3};
    stk_verdict_of_trials(&one, 1, LEAST);
    CHECK_INT(one.verdict.kind, STK_VERDICT_FASTER);
    CHECK(fabs(one.verdict.times - 2) < 1e-9 && one.verdict.runs == 3);
    CHECK(fabs(log(one.verdict.ci.lo) - (log(2) - 14.089 * 0.01 / sqrt(3))) < 1e-4);
    CHECK(fabs(log(one.verdict.ci.hi) - (log(2) + 14.089 * 0.01 / sqrt(3))) < 1e-4);
    /* Two more that gain nothing divide the error by three: t is 24.46. Once the first is faster, they
     * share it between them: 19.96. */
    const double none[] = {-0.01, 0, 0.01};
    struct stk_trial three[] = {{.log_ratio = none, .n = 3}, {.log_ratio = d, .n = 3}, {.n = 0}};
    stk_verdict_of_trials(three, 3, LEAST);
    CHECK_INT(three[1].verdict.kind, STK_VERDICT_FASTER);
    CHECK(fabs(log(three[1].verdict.ci.lo) - (log(2) - 24.464 * 0.01 / sqrt(3))) < 1e-4);
    CHECK(fabs(log(three[0].verdict.ci.lo) + 19.962 * 0.01 / sqrt(3)) < 1e-4);
    CHECK(isnan(three[2].verdict.times) && three[2].verdict.kind == STK_VERDICT_NOT_KNOWN);
    /* Between two looks nothing new is known. */
    const double more[] = {0, 0.1, 0.2, 0.1, 0.05, 9};
    struct stk_trial five = {.log_ratio = more, .n = 5}, six = {.log_ratio = more, .n = 6};
    stk_verdict_of_trials(&five, 1, LEAST);
    stk_verdict_of_trials(&six, 1, LEAST);
    CHECK(five.verdict.times == six.verdict.times && six.verdict.runs == 5);
    CHECK(five.verdict.kind == STK_VERDICT_NOT_KNOWN && five.verdict.more > 0);
    five.n = 2; /* before the first look */
    stk_verdict_of_trials(&five, 1, LEAST);
    CHECK(five.verdict.runs == 2 && fabs(five.verdict.times - exp(0.05)) < 1e-9);
    CHECK(!stk_interval_known(five.verdict.ci));
}

/* No gain, and perhaps half as fast: "same within 80 %" would be no answer. */
static void no_faster_is_not_the_same(void)
{
    const double d[] = {-0.05, -0.6, -0.3, -0.1, -0.5, -0.15, -0.4};
    char text[STK_VERDICT_TEXT];
    struct stk_trial t = {.log_ratio = d, .n = 7};
    stk_verdict_of_trials(&t, 1, LEAST);
    CHECK_STR(stk_verdict_text(&t.verdict, text, sizeof text),
              "no faster, 0.741x (95 %: 0.541x to 1.01x)");
    CHECK_STR(stk_verdict_id(t.verdict.kind), "no-faster");
}

static void the_one_of_eight_that_differs_most(void)
{
    int n = 0;
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
    struct stk_verdict none = stk_verdict_of_pairs(NULL, 0, 0.1);
    char text[STK_VERDICT_TEXT];
    CHECK_STR(stk_verdict_text(&none, text, sizeof text), "not known: nothing was measured");
    CHECK_STR(stk_verdict_id(none.kind), "not-known");
}

/* ---- runs that are repeated until they are precise ------------------------------------------- */

#define LEAST_RUNS     3
#define MOST_RUNS      20
#define PRECISION      0.02
#define PRECISE        2000
#define PRECISE_CHANCE 0.015

/* As `scale` makes them: looked at after every run from the third on, until the interval is narrow. */
static size_t runs_until_precise(double sd, double *v, struct stk_summary *sum)
{
    size_t n = 0;
    while (n < MOST_RUNS) {
        v[n++] = 10 * drawn(sd);
        if (n >= LEAST_RUNS && stk_summarise(v, n, sum) && stk_half_width(sum) <= PRECISION)
            break;
    }
    return n;
}

/* When to stop depends on how far the runs are apart and not on where they lie: an interval that is
 * called one of 95 % contains the median as often, and what is the same is not called faster more often,
 * than with a number of runs that was fixed beforehand. */
static void stopping_early_makes_nothing_untrue(void)
{
    const double noise[] = {0.01, 0.02, 0.03, 0.05, 0.1};
    for (size_t k = 0; k < 5; k++) {
        int intervals = 0, outside = 0, differ = 0;
        for (int i = 0; i < PRECISE; i++) {
            double a[MOST_RUNS], b[MOST_RUNS];
            struct stk_summary sa, sb;
            struct stk_noise pool = {0};
            size_t na = runs_until_precise(noise[k], a, &sa);
            size_t nb = runs_until_precise(noise[k], b, &sb);
            intervals += !sa.ci_is_range;
            outside += !sa.ci_is_range && (10 < sa.median_ci.lo || 10 > sa.median_ci.hi);
            stk_noise_add(&pool, a, na);
            stk_noise_add(&pool, b, nb);
            stk_noise_finish(&pool);
            struct stk_timed x = {sa.median, na, &pool, 0}, y = {sb.median, nb, &pool, 0};
            differ += (DIFFER >> stk_verdict_of(&x, &y, STK_VERDICT_ALIKE, 1).kind & 1u) != 0;
        }
        /* With little noise six runs are rarely needed. */
        double most = (0.05 + PRECISE_CHANCE) * fmax(intervals, 200);
        if (outside > most || differ > (0.05 + PRECISE_CHANCE) * PRECISE)
            printf("noise %g: %d of %d intervals miss, %d of %d differ\n", noise[k], outside,
                   intervals, differ, PRECISE);
        CHECK(outside <= most && differ <= (0.05 + PRECISE_CHANCE) * PRECISE);
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(equal_things_are_rarely_called_faster);
    CHECK_RUN(errors_are_as_rare_as_promised);
    CHECK_RUN(rounded_times_are_no_exact_ones);
    CHECK_RUN(same_is_only_said_of_the_same);
    CHECK_RUN(a_difference_is_seen_with_the_runs_that_were_named);
    CHECK_RUN(the_one_of_eight_that_differs_most);
    CHECK_RUN(one_study_in_forty_is_wrong);
    CHECK_RUN(gains_are_found);
    CHECK_RUN(a_look_by_hand);
    CHECK_RUN(no_faster_is_not_the_same);
    CHECK_RUN(stopping_early_makes_nothing_untrue);
    CHECK_RUN(students_t_is_that_of_the_tables);
    CHECK_RUN(the_words_say_what_is_known);
    return CHECK_DONE();
}
