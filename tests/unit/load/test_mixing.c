/* test_mixing.c - the measure of a shuffle against orders whose mixing is known: a user who sees
 * "as good as random" for data in order would train on sorted classes. */
#include "check.h"
#include "load/plan.h"

#include <math.h>

#define BATCH 64

static struct stk_mixing measure(uint64_t n, int shuffle, uint64_t block, uint64_t window,
                                 uint64_t budget, int64_t (*label)(void *, uint64_t), void *user)
{
    struct stk_order o;
    struct stk_mixing m;
    stk_order_init(&o, n, shuffle, 1, 2, block, window);
    CHECK_INT(stk_mixing_measure(&o, BATCH, budget, label, user, &m, NULL), 0);
    CHECK(m.looked_at <= budget && m.looked_at > 0);
    return m;
}

static int near(double got, double want, double by)
{
    if (fabs(got - want) <= by)
        return 1;
    fprintf(stderr, "got %g, want %g +- %g\n", got, want, by);
    return 0;
}

static int64_t sorted_classes(void *user, uint64_t sample) /* ten equal ones, as in a folder */
{
    return (int64_t)(sample * 10 / *(uint64_t *)user);
}

static int64_t every_second(void *user, uint64_t sample)
{
    return sample % 2 ? -1 : sorted_classes(user, sample);
}

static int64_t unknown(void *user, uint64_t sample)
{
    (void)user;
    (void)sample;
    return -1;
}

static void known_orders(void)
{
    uint64_t n = 100000;
    struct stk_mixing m = measure(n, STK_SHUFFLE_NONE, 0, 0, n, sorted_classes, &n);
    CHECK(m.moved == 0 && m.kept == 1);
    CHECK(near(m.spread, 1.0 / 64, 0.002)); /* few batches see two parts */
    CHECK(near(m.classes, 0.1, 0.002));
    CHECK(near(m.spread_random, 1 - pow(63.0 / 64, BATCH), 0.001));
    CHECK(near(m.classes_random, 1 - pow(0.9, BATCH), 0.001));
    CHECK(near(m.moved_random, 1.0 / 3, 1e-6));

    struct stk_mixing g = measure(n, STK_SHUFFLE_GLOBAL, 0, 0, n, sorted_classes, &n);
    CHECK(near(g.moved, g.moved_random, 0.01));
    CHECK(g.kept < 5 * g.kept_random);
    CHECK(near(g.spread, g.spread_random, 0.01));
    CHECK(near(g.classes, g.classes_random, 0.002));

    struct stk_mixing b = measure(n, STK_SHUFFLE_BLOCK, 100, 20, n, sorted_classes, &n);
    CHECK(near(b.moved, b.moved_random, 0.05));
    CHECK(b.kept < 0.01 && b.kept > 2 * b.kept_random);
    CHECK(b.spread > 5 * m.spread && b.spread < g.spread);
    CHECK(b.classes > 5 * m.classes && b.classes >= g.classes); /* one of each stratum a round */
    /* A larger window mixes better. */
    CHECK(measure(n, STK_SHUFFLE_BLOCK, 100, 100, n, NULL, NULL).spread > b.spread);
}

/* Neighbours count whichever of the two comes first: rare enough to need many seeds to be seen. */
static void kept_is_what_chance_keeps(void)
{
    double kept = 0, random = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct stk_order o;
        struct stk_mixing m;
        stk_order_init(&o, 200, STK_SHUFFLE_GLOBAL, seed, 0, 0, 0);
        CHECK_INT(stk_mixing_measure(&o, 200, 200, NULL, NULL, &m, NULL), 0);
        kept += m.kept;
        random += m.kept_random;
    }
    CHECK(near(kept / random, 1, 0.15));
}

/* A part of the epoch says much the same as all of it, of a dataset of any size. */
static void with_a_budget(void)
{
    uint64_t n = 1ull << 40;
    struct stk_mixing g = measure(n, STK_SHUFFLE_GLOBAL, 0, 0, 20000, sorted_classes, &n);
    CHECK_INT(g.looked_at, 20000 / BATCH * BATCH);
    CHECK(near(g.moved, 1.0 / 3, 0.01));
    CHECK(near(g.spread, g.spread_random, 0.02));
    CHECK(near(g.classes, g.classes_random, 0.01));
    CHECK_INT(measure(n, STK_SHUFFLE_GLOBAL, 0, 0, 10, NULL, NULL).looked_at, 10);
    struct stk_mixing none = measure(n, STK_SHUFFLE_NONE, 0, 0, 20000, NULL, NULL);
    CHECK(none.moved == 0 && none.kept == 1);
}

static void labels_may_be_missing(void)
{
    uint64_t n = 100000;
    struct stk_mixing m = measure(n, STK_SHUFFLE_GLOBAL, 0, 0, n, every_second, &n);
    CHECK(near(m.classes, m.classes_random, 0.01));
    CHECK(near(m.classes_random, 1 - pow(0.9, BATCH / 2.0), 0.005));
    m = measure(n, STK_SHUFFLE_GLOBAL, 0, 0, n, unknown, &n);
    CHECK(m.classes == 0 && m.classes_random == 0);
}

static void tiny_and_empty(void)
{
    struct stk_order o;
    struct stk_mixing m;
    for (uint64_t n = 1; n < 130; n++) {
        m = measure(n, (int)(n % 3), 3, 2, 1000, sorted_classes, &n);
        CHECK(m.moved >= 0 && m.moved <= 1 && m.kept >= 0 && m.kept <= 1);
        CHECK(m.spread > 0 && m.spread <= 1 && m.spread_random > 0 && m.spread_random <= 1);
        CHECK(m.classes > 0 && m.classes <= 1 && m.classes_random > 0 && m.classes_random <= 1);
    }
    stk_order_init(&o, 0, STK_SHUFFLE_BLOCK, 0, 0, 1, 1);
    CHECK_INT(stk_mixing_measure(&o, 8, 100, NULL, NULL, &m, NULL), 0);
    CHECK_INT(m.looked_at, 0);
    CHECK_INT(stk_mixing_measure(&o, 0, 100, NULL, NULL, &m, NULL), STK_E_USAGE);
}

/* ---- at a glance ---- */

struct classes {
    uint64_t n, classes, run; /* run: samples of a class that stand together; 0: all of it */
};

static int64_t class_of(void *user, uint64_t i)
{
    const struct classes *c = user;
    return (int64_t)(c->run ? i / c->run * 7919 % c->classes : i * c->classes / c->n);
}

static bool poor(struct classes c, int shuffle, uint64_t block, uint64_t window)
{
    struct stk_order o;
    struct stk_glance g = {0};
    stk_order_init(&o, c.n, shuffle, 1, 0, block, window);
    bool found = stk_mixing_poor(&o, c.classes, class_of, &c, &g);
    CHECK(!found || (2 * g.classes < g.of_random && g.of_random <= c.classes && g.samples));
    return found;
}

/* A warning that always comes is ignored; one that never comes costs accuracy. */
static void at_a_glance(void)
{
    const int block = STK_SHUFFLE_BLOCK;
    struct classes tiny = {1u << 20, 1000, 0}, ten = {50000, 10, 0}, huge = {1u << 30, 21000, 0};
    CHECK(poor(tiny, block, 102, 128));
    CHECK(poor(huge, block, 1024, 128));
    CHECK(poor((struct classes){3200, 400, 0}, block, 6, 133));
    CHECK(!poor(tiny, block, 4, 152)); /* four at a time */
    CHECK(!poor(tiny, block, 102, 1024));
    CHECK(!poor(tiny, STK_SHUFFLE_GLOBAL, 0, 0) && !poor(tiny, STK_SHUFFLE_NONE, 0, 0));
    CHECK(!poor(ten, block, 170, 128) && !poor(ten, block, 6, 64));
    CHECK(poor(ten, block, 500, 3)); /* an order that the defaults never make */
    CHECK(!poor((struct classes){tiny.n, 1000, 1}, block, 102, 128)); /* shuffled when packed */
    CHECK(!poor((struct classes){tiny.n, 1000, 8}, block, 102, 128));
    CHECK(!poor((struct classes){tiny.n, 1, 0}, block, 102, 128));
    for (uint64_t n = 0; n < 40; n++)
        (void)poor((struct classes){n, 3, 0}, block, 5, 2);
}

static void standing_together(void)
{
    struct classes sorted = {1000, 10, 0}, mixed = {1000, 10, 1}, one = {1000, 1, 0};
    CHECK(stk_mixing_together(1000, 1, class_of, &sorted));
    CHECK(!stk_mixing_together(1000, 1, class_of, &mixed));
    CHECK(!stk_mixing_together(1000, 1, class_of, &one));
    CHECK(!stk_mixing_together(1, 1, class_of, &sorted) &&
          !stk_mixing_together(0, 1, unknown, NULL));
    CHECK(!stk_mixing_together(1000, 1, unknown, NULL));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(known_orders);
    CHECK_RUN(kept_is_what_chance_keeps);
    CHECK_RUN(with_a_budget);
    CHECK_RUN(labels_may_be_missing);
    CHECK_RUN(tiny_and_empty);
    CHECK_RUN(at_a_glance);
    CHECK_RUN(standing_together);
    return CHECK_DONE();
}
