/* test_counts.c - counters added up as their table says. Wrong here, and every total is wrong. */
#include "check.h"
#include "profile/profile.h"

static void sums_and_limits(void)
{
    struct stk_counts a, b;
    stk_counts_init(&a);
    stk_counts_init(&b);
    CHECK(a.c[STK_C_MIN_OFFSET] == UINT64_MAX && a.c[STK_C_FIRST_NS] == UINT64_MAX);
    b.c[STK_C_READS] = 3;
    b.c[STK_C_MIN_OFFSET] = 10;
    b.c[STK_C_MAX_OFFSET] = 20;
    b.c[STK_C_FILE_SIZE] = 100;
    b.read_size[2] = 3;
    b.read_latency[5] = 3;
    stk_counts_add(&a, &b);
    b.c[STK_C_MIN_OFFSET] = 15;
    b.c[STK_C_MAX_OFFSET] = 30;
    b.c[STK_C_FILE_SIZE] = 90;
    stk_counts_add(&a, &b);
    CHECK_INT(a.c[STK_C_READS], 6);
    CHECK_INT(a.c[STK_C_MIN_OFFSET], 10);
    CHECK_INT(a.c[STK_C_MAX_OFFSET], 30);
    CHECK_INT(a.c[STK_C_FILE_SIZE], 100);
    CHECK_INT(a.read_size[2], 6);
    CHECK_INT(a.read_latency[5], 6);
    CHECK(a.c[STK_C_OPEN_NS] == UINT64_MAX); /* no process opened a file */
}

static void stops_at_the_top(void)
{
    struct stk_counts a, b;
    stk_counts_init(&a);
    stk_counts_init(&b);
    a.c[STK_C_READ_BYTES] = b.c[STK_C_READ_BYTES] = UINT64_MAX - 1;
    a.read_latency[0] = b.read_latency[0] = UINT32_MAX;
    stk_counts_add(&a, &b);
    CHECK(a.c[STK_C_READ_BYTES] == UINT64_MAX);
    CHECK(a.read_latency[0] == UINT32_MAX);
}

static void common_values(void)
{
    struct stk_counts a, b;
    stk_counts_init(&a);
    stk_counts_init(&b);
    a.size[0] = (struct stk_common_value){4096, 10};
    a.size[1] = (struct stk_common_value){100, 5};
    a.size[2] = (struct stk_common_value){0, 1};
    b.size[0] = (struct stk_common_value){100, 7};
    b.size[1] = (struct stk_common_value){7, 3};
    b.size[2] = (struct stk_common_value){8, 2};
    stk_counts_add(&a, &b);
    CHECK(a.size[0].value == 100 && a.size[0].count == 12);
    CHECK(a.size[1].value == 4096 && a.size[1].count == 10);
    CHECK(a.size[2].value == 7 && a.size[2].count == 3);
    CHECK(a.size[3].value == 8 && a.size[3].count == 2);
}

static void names(void)
{
    CHECK_STR(stk_counter_name(STK_C_OPENS), "opens");
    CHECK_STR(stk_counter_name(STK_C_CLOSE_NS), "close_ns");
    CHECK_STR(stk_counter_name(STK_C_COUNT), "");
    CHECK_STR(stk_api_name(STK_API_MPIIO), "mpi-io");
    CHECK_STR(stk_api_name((enum stk_api)77), "");
    for (int i = 0; i < STK_C_COUNT; i++)
        CHECK(stk_counter_name((enum stk_counter)i)[0] != '\0');
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(sums_and_limits);
    CHECK_RUN(stops_at_the_top);
    CHECK_RUN(common_values);
    CHECK_RUN(names);
    return CHECK_DONE();
}
