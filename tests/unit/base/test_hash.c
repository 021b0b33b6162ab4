/* test_hash.c - XXH64: manifests are checked with `xxhsum -H64` by people who do not have stoker.
 */
#include "check.h"
#include "base/hash.h"

#include <stdlib.h>

static void known_values(void)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {{"", 0xef46db3751d8e999},
                 {"a", 0xd24ec4f1a98c6e5b},
                 {"abc", 0x44bc2cf5ad770999},
                 {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        CHECK(stk_hash64(known[i].text, strlen(known[i].text)) == known[i].hash);
    char *thousand = malloc(1000); /* as xxhsum says of "abcdefghij" a hundred times */
    for (int i = 0; i < 1000; i++)
        thousand[i] = (char)('a' + i % 10);
    CHECK(stk_hash64(thousand, 1000) == 0x44d40003e1cfe694);
    free(thousand);
}

/* In pieces of any size, at any address: the same. */
static void pieces(void)
{
    uint8_t data[301];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 131 + i / 7);
    for (size_t n = 0; n <= 300; n += 1 + n / 16) {
        uint64_t whole = stk_hash64(data + 1, n);
        for (size_t step = 1; step <= 70; step += 3) {
            struct stk_hash h;
            stk_hash_init(&h);
            for (size_t at = 0; at < n; at += step)
                stk_hash_update(&h, data + 1 + at, n - at < step ? n - at : step);
            CHECK(stk_hash_final(&h) == whole);
            CHECK(stk_hash_final(&h) == whole); /* asking does not change it */
        }
    }
    struct stk_hash h;
    stk_hash_init(&h);
    stk_hash_update(&h, NULL, 0);
    CHECK(stk_hash_final(&h) == stk_hash64(NULL, 0));
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(known_values);
    CHECK_RUN(pieces);
    return CHECK_DONE();
}
