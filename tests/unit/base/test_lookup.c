/* test_lookup.c - numbers by hash: all are found, also those that share a hash, none that is not.
 */
#include "base/hash.h"
#include "base/random.h"
#include "check.h"

#define MANY 5000u

static void every_one_is_found(void)
{
    struct stk_lookup t = {0};
    uint32_t item;
    size_t at = 0;
    CHECK(!stk_lookup_next(&t, 7, &at, &item));
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_INT(stk_lookup_add(&t, stk_mix64(i), i, NULL), 0);
    CHECK(t.n == MANY && t.nslots >= 2 * MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        bool found = false;
        for (at = 0; !found && stk_lookup_next(&t, stk_mix64(i), &at, &item);)
            found = item == i;
        CHECK(found);
    }
    stk_lookup_clear(&t);
    at = 0;
    CHECK(!stk_lookup_next(&t, stk_mix64(1), &at, &item) && t.n == 0);
    stk_lookup_release(&t);
}

/* Ten of one hash, beside others that got into their way. */
static void of_one_hash(void)
{
    struct stk_lookup t = {0};
    uint32_t item, n = 0;
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_INT(stk_lookup_add(&t, 42, i, NULL), 0);
        CHECK_INT(stk_lookup_add(&t, 43, 100 + i, NULL), 0);
    }
    for (size_t at = 0; stk_lookup_next(&t, 42, &at, &item);) {
        CHECK(item < 10);
        n |= 1u << item;
    }
    CHECK_INT(n, 1023);
    stk_lookup_release(&t);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(every_one_is_found);
    CHECK_RUN(of_one_hash);
    return CHECK_DONE();
}
