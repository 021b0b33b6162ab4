/* test_tune_files.c - a part of the files that stands for all of them: a sample of the small ones alone
 * would promise gains that nobody gets. */
#include "check.h"
#include "scratch.h"
#include "tune/priv.h"

static void put(const char *name, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *f = fopen(path, "w");
    CHECK(f && fprintf(f, "%*s", (int)bytes, "") == (int)bytes && fclose(f) == 0);
}

static void sizes_of_a_part(void)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct stk_tune_files f;
        size_t large = 0;
        CHECK(stk_tune_files_list(scratch, "*.bin", &f, NULL) == 0);
        CHECK(f.n == 90 && f.bytes == 30 * 10 + 60 * 1000);
        stk_tune_files_thin(&f, 9, seed);
        for (size_t i = 0; i < f.n; i++)
            large += f.file[i].bytes == 1000;
        CHECK(f.n == 9 && large == 6);
        CHECK(f.bytes == 3 * 10 + 6 * 1000);
        stk_tune_files_release(&f);
    }
}

static void seeds_and_bounds(void)
{
    struct stk_tune_files a, b;
    CHECK(stk_tune_files_list(scratch, NULL, &a, NULL) == 0);
    CHECK(stk_tune_files_list(scratch, NULL, &b, NULL) == 0);
    CHECK(a.n == 91);
    stk_tune_files_thin(&a, 1000, 1);
    CHECK(a.n == 91);
    stk_tune_files_thin(&a, 7, 3);
    stk_tune_files_thin(&b, 7, 3);
    for (size_t i = 0; i < 7; i++)
        CHECK_STR(a.file[i].name, b.file[i].name);
    stk_tune_files_thin(&a, 0, 3);
    CHECK(a.n == 0 && a.bytes == 0);
    stk_tune_files_release(&a);
    stk_tune_files_release(&b);
}

int main(int argc, char **argv)
{
    char name[64];
    scratch_begin();
    for (int i = 0; i < 90; i++) {
        snprintf(name, sizeof name, "%d.bin", i);
        put(name, i % 3 ? 1000 : 10);
    }
    put("labels.csv", 5);
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(sizes_of_a_part);
    CHECK_RUN(seeds_and_bounds);
    scratch_done();
    return CHECK_DONE();
}
