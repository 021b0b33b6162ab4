/* test_draw.c - parts of a dataset and draws by weight: right sizes, nothing twice, the same
 * numbers in every version. */
#include "check.h"
#include "load/plan.h"

#include <math.h>
#include <stdlib.h>

#define N 1000

static void sizes(const double *share, size_t nparts, uint64_t n, uint64_t seed)
{
    uint8_t part[N];
    uint64_t count[8] = {0};
    CHECK_INT(stk_divide(n, NULL, 1, share, nparts, seed, part, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        count[part[i]]++;
    for (size_t k = 0; k < nparts; k++)
        CHECK(fabs((double)count[k] - share[k] * (double)n) < 1);
}

/* A user would validate with fewer samples than asked for. */
static void parts_have_their_sizes(void)
{
    static const double shares[][4] = {{0.9, 0.1}, {0.5, 0.5},  {1. / 3, 1. / 3, 1. / 3},
                                       {0.05},     {1},         {0.7, 0.1, 0.1, 0.1},
                                       {0, 1},     {0.001, 0.9}};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++)
        for (uint64_t n = 0; n <= N; n += 1 + n / 3)
            for (size_t k = 1; k <= 4; k++)
                sizes(shares[s], k, n, n + s);
}

/* ...or with none of a rare class. */
static void strata_are_divided_alike(void)
{
    static const double share[] = {0.9, 0.1};
    uint32_t strata[N];
    uint8_t part[N];
    uint64_t second[4] = {0}, size[4] = {0};
    for (uint32_t i = 0; i < N; i++)
        strata[i] = i % 100 == 0 ? 3 : i % 10 < 6 ? 0 : i % 10 < 9 ? 1 : 2;
    CHECK_INT(stk_divide(N, strata, 4, share, 2, 5, part, NULL), 0);
    for (uint32_t i = 0; i < N; i++) {
        size[strata[i]]++;
        second[strata[i]] += part[i] == 1;
    }
    for (int c = 0; c < 4; c++)
        CHECK(fabs((double)second[c] - 0.1 * (double)size[c]) <= 1);
    CHECK(second[3] >= 1);
}

static void wrong_shares(void)
{
    uint8_t part[4];
    const uint32_t strata[] = {0, 1, 2, 0};
    CHECK_INT(stk_divide(4, NULL, 1, (double[]){0.9, 0.2}, 2, 0, part, NULL), STK_E_USAGE);
    CHECK_INT(stk_divide(4, NULL, 1, (double[]){-0.1}, 1, 0, part, NULL), STK_E_USAGE);
    CHECK_INT(stk_divide(4, NULL, 1, (double[]){NAN}, 1, 0, part, NULL), STK_E_USAGE);
    CHECK_INT(stk_divide(4, NULL, 1, NULL, 0, 0, part, NULL), STK_E_USAGE);
    CHECK_INT(stk_divide(4, strata, 2, (double[]){0.5}, 1, 0, part, NULL), STK_E_USAGE);
}

/* A user would train on other proportions than asked for. */
static void draws_follow_the_weights(void)
{
    double weight[100];
    uint64_t got[100] = {0}, *drawn = malloc(200000 * sizeof *drawn);
    double sum = 0, off = 0;
    for (int i = 0; i < 100; i++)
        sum += weight[i] = i % 10 == 0 ? 0 : i * i;
    CHECK_INT(stk_draw(weight, 100, 1, 2, drawn, 200000, NULL), 0);
    for (int i = 0; i < 200000; i++)
        got[drawn[i]]++;
    for (int i = 0; i < 100; i++) {
        double want = weight[i] / sum * 200000;
        CHECK(want > 0 || got[i] == 0);
        off += want > 0 ? ((double)got[i] - want) * ((double)got[i] - want) / want : 0;
    }
    CHECK(off < 160); /* chi squared of 89: above that once in 100,000 times */
    free(drawn);
}

/* A resumed run would go on with other samples than it had begun with. */
static void draws_are_the_same_everywhere(void)
{
    static const double weight[] = {1, 2, 3, 4};
    static const uint64_t want[] = {2, 0, 3, 1, 2, 0, 2, 3};
    uint64_t got[8];
    CHECK_INT(stk_draw(weight, 4, 7, 1, got, 8, NULL), 0);
    for (int i = 0; i < 8; i++)
        CHECK_INT(got[i], want[i]);
}

static void wrong_weights(void)
{
    uint64_t out[1];
    CHECK_INT(stk_draw((double[]){0, 0}, 2, 0, 0, out, 1, NULL), STK_E_USAGE);
    CHECK_INT(stk_draw((double[]){1, -1}, 2, 0, 0, out, 1, NULL), STK_E_USAGE);
    CHECK_INT(stk_draw((double[]){1, NAN}, 2, 0, 0, out, 1, NULL), STK_E_USAGE);
    CHECK_INT(stk_draw((double[]){1e308, 1e308}, 2, 0, 0, out, 1, NULL), STK_E_USAGE);
    CHECK_INT(stk_draw(NULL, 0, 0, 0, out, 0, NULL), STK_E_USAGE);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(parts_have_their_sizes);
    CHECK_RUN(strata_are_divided_alike);
    CHECK_RUN(wrong_shares);
    CHECK_RUN(draws_follow_the_weights);
    CHECK_RUN(draws_are_the_same_everywhere);
    CHECK_RUN(wrong_weights);
    return CHECK_DONE();
}
