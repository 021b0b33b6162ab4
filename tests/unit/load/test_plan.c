/* test_plan.c - the order of an epoch and its division among ranks: every sample once, whatever the
 * shuffle, the number of ranks, and the interruptions; every rank as many steps. A user whose run
 * is resumed with other numbers of ranks would lose samples, or train on some twice. */
#include "check.h"
#include "load/plan.h"

#include <stdlib.h>

static uint64_t state_of_dice = 1;
static uint64_t dice(uint64_t below)
{
    return stk_mix64(state_of_dice++) % below;
}

static int failed(const char *what, uint64_t n, uint64_t block, uint64_t window, int shuffle)
{
    fprintf(stderr, "%s: n %llu block %llu window %llu %s\n", what, (unsigned long long)n,
            (unsigned long long)block, (unsigned long long)window, stk_shuffle_name(shuffle));
    return 0;
}

/* ---- the order ---- */

static int order_is_bijection(uint64_t n, int shuffle, uint64_t epoch, uint64_t block,
                              uint64_t window)
{
    struct stk_order o;
    uint8_t *seen = calloc(n + 1, 1);
    stk_order_init(&o, n, shuffle, 42, epoch, block, window);
    int good = seen != NULL;
    for (uint64_t p = 0, first = 0, end = 0; good && p < n; p++) {
        uint64_t id = stk_order_at(&o, p), a, b;
        if (id >= n || seen[id]++)
            good = failed("a sample twice or none", n, block, window, shuffle);
        stk_order_window(&o, p, &a, &b);
        if (p == end) { /* windows follow each other without a gap */
            first = a;
            end = b;
            good = good && a == p;
        }
        if (a != first || b != end || a > p || b <= p || b > n)
            good = failed("windows", n, block, window, shuffle);
    }
    free(seen);
    return good;
}

static void orders(void)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 5, 16, 17, 63, 64, 100, 257, 1000, 4099};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            CHECK(order_is_bijection(sizes[i], STK_SHUFFLE_NONE, epoch, 0, 0));
            CHECK(order_is_bijection(sizes[i], STK_SHUFFLE_GLOBAL, epoch, 0, 0));
            for (uint64_t k = 0; k < 40; k++)
                CHECK(order_is_bijection(sizes[i], STK_SHUFFLE_BLOCK, epoch, dice(70), dice(20)));
            CHECK(order_is_bijection(sizes[i], STK_SHUFFLE_BLOCK, epoch, UINT64_MAX, 1));
            CHECK(order_is_bijection(sizes[i], STK_SHUFFLE_BLOCK, epoch, 1, UINT64_MAX));
        }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Stretches of consecutive samples a window is made of. */
static uint64_t stretches(const struct stk_order *o, uint64_t first, uint64_t end)
{
    uint64_t *id = malloc((end - first) * sizeof *id), n = 0;
    for (uint64_t p = first; id && p < end; p++)
        id[p - first] = stk_order_at(o, p);
    if (id)
        qsort(id, end - first, sizeof *id, by_number);
    for (uint64_t i = 0; id && i < end - first; i++)
        n += i == 0 || id[i] != id[i - 1] + 1;
    free(id);
    return n;
}

/* What block shuffle is for: a window can be read in few large pieces, and no window is small. */
static void windows_are_few_stretches(void)
{
    static const uint64_t blocks[] = {1, 7, 10, 50, 99};
    const uint64_t n = 10007, window = 8;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        struct stk_order o;
        uint64_t first, end, smallest = n, largest = 0;
        stk_order_init(&o, n, STK_SHUFFLE_BLOCK, 3, i, blocks[i], window);
        for (uint64_t p = 0; p < n; p = end) {
            stk_order_window(&o, p, &first, &end);
            CHECK(stretches(&o, first, end) <= window + 1); /* one block may wrap around */
            smallest = end - first < smallest ? end - first : smallest;
            largest = end - first > largest ? end - first : largest;
        }
        CHECK(largest <= window * blocks[i]);
        CHECK(smallest + 2 * blocks[i] >= largest);
    }
}

/* Ten equal classes stored one after the other: how few and how many of one there are in any 60
 * batches of 16, as shares of the 96 that are fair. A user would lose accuracy where a class stays
 * away for long. */
static void class_shares(const struct stk_order *o, double *least, double *most)
{
    const uint64_t run = 60 * 16;
    uint64_t count[10] = {0};
    uint8_t *class = malloc(o->n);
    *least = *most = 1;
    for (uint64_t p = 0; class && p < o->n; p++) {
        class[p] = (uint8_t)(stk_order_at(o, p) * 10 / o->n);
        count[class[p]]++;
        if (p >= run)
            count[class[p - run]]--;
        for (int c = 0; p + 1 >= run && (p + 1) % 16 == 0 && c < 10; c++) {
            double share = (double)count[c] / ((double)run / 10);
            *least = share < *least ? share : *least;
            *most = share > *most ? share : *most;
        }
    }
    free(class);
}

static void sorted_classes_get_fair_shares(void)
{
    static const uint64_t sizes[] = {960, 2000, 5003, 20011, 60000, 131072};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint64_t k = 0; k < 12; k++) {
            struct stk_order o;
            uint64_t n = sizes[i], block = 1 + dice(n / 200 < 1024 ? n / 200 + 1 : 1024);
            double least, most;
            stk_order_init(&o, n, STK_SHUFFLE_BLOCK, k, dice(5), block, 128 + dice(100));
            class_shares(&o, &least, &most);
            if (least < 0.7 || most > 1.3)
                failed("unfair", n, block, o.window, STK_SHUFFLE_BLOCK);
            CHECK(least >= 0.7 && most <= 1.3);
        }
}

/* However many blocks there are, and of whatever size, each window has one of every stratum. */
static void windows_cover_the_data(void)
{
    for (uint64_t k = 0; k < 300; k++) {
        struct stk_order o;
        uint64_t n = 1 + dice(20000), first, end;
        stk_order_init(&o, n, STK_SHUFFLE_BLOCK, k, 0, 1 + dice(40), 1 + dice(60));
        uint64_t strata = o.nblocks / o.nwindows, size = o.nwindows * o.block;
        for (uint64_t p = 0; p < n; p = end) {
            uint64_t in[64] = {0};
            stk_order_window(&o, p, &first, &end);
            for (uint64_t q = first; q < end; q++)
                in[(stk_order_at(&o, q) + n - o.rotate) % n / size]++;
            for (uint64_t s = 0; s < strata; s++)
                CHECK(in[s] == o.block || (first == 0 && in[s] + o.deficit == o.block));
        }
    }
}

static uint64_t same_places(const struct stk_order *a, const struct stk_order *b)
{
    uint64_t same = 0;
    for (uint64_t p = 0; p < a->n; p++)
        same += stk_order_at(a, p) == stk_order_at(b, p);
    return same;
}

static void seeds_and_epochs_differ(void)
{
    for (int shuffle = STK_SHUFFLE_BLOCK; shuffle <= STK_SHUFFLE_GLOBAL; shuffle++) {
        struct stk_order a, b, c;
        stk_order_init(&a, 5000, shuffle, 1, 0, 10, 20);
        stk_order_init(&b, 5000, shuffle, 2, 0, 10, 20);
        stk_order_init(&c, 5000, shuffle, 1, 1, 10, 20);
        CHECK(same_places(&a, &b) < 20);
        CHECK(same_places(&a, &c) < 20);
        CHECK(same_places(&a, &a) == 5000);
    }
}

/* The same in every version and on every machine: a resumed run depends on it. */
static void orders_stay_the_same(void)
{
    static const uint64_t block[] = {1, 4, 10, 3, 2, 9, 5, 0, 8, 7, 6, 11};
    static const uint64_t global[] = {4, 5, 8, 3, 2, 7, 11, 1, 9, 6, 10, 0};
    struct stk_order o;
    stk_order_init(&o, 12, STK_SHUFFLE_BLOCK, 7, 3, 2, 3);
    for (uint64_t p = 0; p < 12; p++)
        CHECK_INT(stk_order_at(&o, p), block[p]);
    stk_order_init(&o, 12, STK_SHUFFLE_GLOBAL, 7, 3, 0, 0);
    for (uint64_t p = 0; p < 12; p++)
        CHECK_INT(stk_order_at(&o, p), global[p]);
}

/* Sizes no test can go through: both ends, and the place of the short block. */
static void huge_orders(void)
{
    static const uint64_t sizes[] = {(1ull << 48) - 1, (1ull << 48) + 5, 1ull << 62};
    static const uint64_t blocks[] = {1, 10, 1000003, 1ull << 40, 1ull << 62};
    for (size_t i = 0; i < 3 * 5; i++) {
        uint64_t n = sizes[i / 5], from = n, to = 0, seen[64] = {0};
        struct stk_order o;
        stk_order_init(&o, n, STK_SHUFFLE_BLOCK, i, 0, blocks[i % 5], 1u << 10);
        for (uint64_t k = 0; k < 64; k++) {
            uint64_t p = k < 32 ? o.cut - 16 + k : n - 64 + k, first, end;
            p = p < n ? p : p - n; /* cut may be the end */
            stk_order_window(&o, p, &first, &end);
            CHECK(first <= p && p < end && end <= n);
            seen[k] = stk_order_at(&o, p);
            CHECK(seen[k] < n);
            from = first < from ? first : from;
            to = end > to ? end : to;
        }
        CHECK(from < to && to == n);
    }
}

/* ---- ranks and interruptions ---- */

struct run {
    struct stk_order order;
    uint8_t *given, *bad; /* of each sample: how often (not as a repeat); cannot be read */
    uint64_t repeats, wrong;
};

/* What a loader that skips bad samples does with one slot. */
static void take_slot(struct run *r, const struct stk_plan *p, uint64_t s, uint64_t *refills)
{
    bool repeat;
    uint64_t id = stk_plan_sample_after(p, s, *refills, &repeat);
    if (!repeat && r->bad[id]) {
        r->given[id] += 100; /* looked at, which may happen once too */
        repeat = true;
        while (stk_plan_refill(p, s + 1, *refills, &id)) {
            ++*refills;
            if (!r->bad[id]) {
                repeat = false;
                break;
            }
            r->given[id] += 100;
        }
    }
    if (repeat)
        r->repeats++;
    else
        r->given[id]++;
}

struct session {
    uint32_t world, batch;
    int last;
    bool to_end;
};

static uint64_t slots_of(const struct stk_plan *p)
{
    uint64_t n = 0;
    for (uint64_t step = 0; step < p->steps; step++)
        n += stk_plan_batch_size(p, step);
    return n;
}

/* All ranks, from *state to a state after some steps; false: a promise was broken. */
static bool run_session(struct run *r, struct session how, struct stk_state *state)
{
    struct stk_state after[16];
    uint64_t steps = 0, stop = 0;
    bool good = true;
    for (uint32_t rank = 0; rank < how.world; rank++) {
        struct stk_plan p;
        uint64_t refills = 0, slots = 0;
        if (stk_plan_init(&p, &r->order, state->leg, state->nlegs, rank, how.world, how.batch,
                          how.last, NULL))
            return false;
        if (rank == 0) {
            steps = p.steps;
            stop = how.to_end ? steps : dice(steps + 1);
        }
        good = good && p.steps == steps && slots_of(&p) == p.slots;
        for (uint64_t step = 0; step < stop; step++)
            for (uint64_t i = 0, n = stk_plan_batch_size(&p, step); i < n; i++)
                take_slot(r, &p, slots++, &refills);
        good = good && stk_plan_state(&p, slots, refills, 7, &after[rank], NULL) == 0;
        stk_plan_release(&p);
    }
    stk_state_release(state);
    good = good && stk_state_merge(after, how.world, state, NULL) == 0;
    for (uint32_t rank = 0; rank < how.world; rank++)
        stk_state_release(&after[rank]);
    return good;
}

/* Good samples exactly once (drop: at most once), bad ones looked at just as often. */
static bool account(const struct run *r, struct session last)
{
    uint64_t missing = 0;
    for (uint64_t i = 0; i < r->order.n; i++) {
        if (r->given[i] != (r->bad[i] ? 100 : 1) && r->given[i] != 0)
            return false;
        missing += r->given[i] == 0;
    }
    if (last.last == STK_LAST_DROP)
        return missing < (uint64_t)last.world * last.batch || r->order.n == 0;
    return missing == 0;
}

static void chain_of_sessions(uint64_t nbad)
{
    struct run r = {0};
    struct stk_state state = {0};
    struct session how = {0};
    uint64_t n = dice(300), sessions = 1 + dice(4);
    bool good = true;
    stk_order_init(&r.order, n, (int)dice(3), dice(1000), dice(10), 1 + dice(20), 1 + dice(5));
    r.given = calloc(n + 1, 1);
    r.bad = calloc(n + 1, 1);
    for (uint64_t i = 0; n && i < nbad; i++)
        r.bad[dice(n)] = 1;
    for (uint64_t i = 0; i < sessions; i++) {
        /* As often as not with the same number of ranks. */
        uint32_t world = i && dice(2) ? how.world : 1 + (uint32_t)dice(9);
        how = (struct session){world, 1 + (uint32_t)dice(9), (int)dice(3), i + 1 == sessions};
        good = good && run_session(&r, how, &state);
    }
    CHECK(good);
    CHECK(account(&r, how));
    stk_state_release(&state);
    free(r.given);
    free(r.bad);
}

/* The order does not depend on the number of ranks: theirs, one after the other, are the whole. */
static void ranks_divide_one_order(void)
{
    for (uint32_t world = 1; world <= 40; world += 3) {
        struct stk_order o;
        uint64_t p = 0, wrong = 0;
        stk_order_init(&o, 101, STK_SHUFFLE_BLOCK, 5, world, 4, 3);
        for (uint32_t rank = 0; rank < world; rank++) {
            struct stk_plan plan;
            bool repeat;
            CHECK_INT(stk_plan_init(&plan, &o, NULL, 0, rank, world, 4, STK_LAST_PAD, NULL), 0);
            for (uint64_t s = 0; s < plan.slots; s++) {
                uint64_t id = stk_plan_sample(&plan, s, &repeat);
                if (!repeat)
                    wrong += id != stk_order_at(&o, p++);
                else
                    wrong += s < plan.size;
            }
            stk_plan_release(&plan);
        }
        CHECK_INT(wrong, 0);
        CHECK_INT(p, 101);
    }
}

/* Interrupted and resumed with as many ranks: slot for slot what it would have been, also after
 * samples were refilled, also the repeats. */
static void same_ranks_go_on_exactly(void)
{
    static const int modes[] = {STK_LAST_DROP, STK_LAST_PAD, STK_LAST_SHORT};
    for (uint64_t k = 0; k < 300; k++) {
        struct stk_order o;
        struct stk_plan whole, rest;
        struct stk_state state;
        uint32_t world = 1 + (uint32_t)dice(5), rank = (uint32_t)dice(world), batch = 8;
        stk_order_init(&o, dice(200), STK_SHUFFLE_GLOBAL, k, 0, 0, 0);
        CHECK_INT(stk_plan_init(&whole, &o, NULL, 0, rank, world, batch, modes[k % 3], NULL), 0);
        uint64_t stop = dice(whole.steps + 1), refills = dice(whole.size - whole.size / 2 + 1);
        uint64_t cut = stop * batch < whole.slots ? stop * batch : whole.slots;
        CHECK_INT(stk_plan_state(&whole, cut, refills, 0, &state, NULL), 0);
        CHECK_INT(stk_plan_init(&rest, &o, state.leg, state.nlegs, rank, world, batch,
                                modes[k % 3], NULL),
                  0);
        CHECK_INT(rest.steps, whole.steps - stop);
        CHECK_INT(rest.slots, whole.slots - cut);
        for (uint64_t s = 0; s < rest.slots; s++) {
            bool a, b;
            CHECK_INT(stk_plan_sample(&rest, s, &a),
                      stk_plan_sample_after(&whole, cut + s, refills, &b));
            CHECK_INT(a, b);
        }
        uint64_t a = 0, b = 0;
        CHECK_INT(stk_plan_refill(&rest, 0, 0, &a), stk_plan_refill(&whole, cut, refills, &b));
        CHECK_INT(a, b);
        stk_state_release(&state);
        stk_plan_release(&rest);
        stk_plan_release(&whole);
    }
}

static void refuses(void)
{
    struct stk_order o;
    struct stk_plan p;
    struct stk_err err;
    uint64_t refill[2] = {0, 6};
    stk_order_init(&o, 10, STK_SHUFFLE_NONE, 0, 0, 0, 0);
    CHECK_INT(stk_plan_init(&p, &o, NULL, 0, 2, 2, 1, STK_LAST_DROP, &err), STK_E_USAGE);
    CHECK_INT(stk_plan_init(&p, &o, NULL, 0, 0, 0, 1, STK_LAST_DROP, &err), STK_E_USAGE);
    CHECK_INT(stk_plan_init(&p, &o, NULL, 0, 0, 1, 0, STK_LAST_DROP, &err), STK_E_USAGE);
    CHECK_INT(stk_plan_init(&p, &o, NULL, 0, 0, 1, 1, 3, &err), STK_E_USAGE);
    struct stk_leg none = {.world = 0}, over = {.world = 2, .refill = refill};
    struct stk_leg all[2] = {{.world = 2, .done = 5}, {.world = 3, .done = 1}};
    CHECK_INT(stk_plan_init(&p, &o, &none, 1, 0, 1, 1, STK_LAST_DROP, &err), STK_E_CORRUPT);
    CHECK_INT(stk_plan_init(&p, &o, &over, 1, 0, 1, 1, STK_LAST_DROP, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, "loader state, part 0: rank 1 had 5 samples, not 6 to refill from");
    CHECK_INT(stk_plan_init(&p, &o, all, 2, 0, 1, 1, STK_LAST_DROP, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, "loader state, part 1: nothing was left to be done");
}

/* As many samples and ranks as there can be: no sum overflows (UBSan looks on). */
static void huge_plan(void)
{
    struct stk_order o;
    struct stk_plan p;
    struct stk_state state;
    bool repeat;
    stk_order_init(&o, STK_PLAN_SAMPLES_MAX, STK_SHUFFLE_BLOCK, 1, 1, 1u << 20, 64);
    struct stk_leg leg[2] = {{.world = STK_PLAN_WORLD_MAX - 1, .done = 1ull << 41},
                                 {.world = 3, .done = 1ull << 59}};
    for (int last = STK_LAST_DROP; last <= STK_LAST_SHORT; last++) {
        CHECK_INT(stk_plan_init(&p, &o, leg, 2, STK_PLAN_WORLD_MAX - 1, STK_PLAN_WORLD_MAX,
                                UINT32_MAX, last, NULL),
                  0);
        CHECK(stk_plan_sample(&p, 0, &repeat) < o.n);
        CHECK(stk_plan_sample(&p, p.slots - 1, &repeat) < o.n);
        CHECK_INT(repeat, last != STK_LAST_DROP && p.size < p.slots);
        CHECK_INT(stk_plan_state(&p, p.slots, 0, 0, &state, NULL), 0);
        CHECK_INT(state.nlegs, 3);
        stk_plan_release(&p);
        CHECK_INT(stk_plan_init(&p, &o, state.leg, 3, 0, 5, 1, last, NULL), 0);
        CHECK_INT(p.left > 0, last == STK_LAST_DROP);
        stk_plan_release(&p);
        stk_state_release(&state);
    }
}

static void chains_of_sessions(void)
{
    for (int i = 0; i < 3000; i++)
        chain_of_sessions(0);
}

static void chains_with_bad_samples(void)
{
    for (int i = 0; i < 3000; i++)
        chain_of_sessions(dice(30));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(orders);
    CHECK_RUN(windows_are_few_stretches);
    CHECK_RUN(windows_cover_the_data);
    CHECK_RUN(sorted_classes_get_fair_shares);
    CHECK_RUN(seeds_and_epochs_differ);
    CHECK_RUN(orders_stay_the_same);
    CHECK_RUN(huge_orders);
    CHECK_RUN(chains_of_sessions);
    CHECK_RUN(chains_with_bad_samples);
    CHECK_RUN(ranks_divide_one_order);
    CHECK_RUN(same_ranks_go_on_exactly);
    CHECK_RUN(refuses);
    CHECK_RUN(huge_plan);
    return CHECK_DONE();
}
