/* fuzz_workload.c - a workload file of anybody, ours or DLIO's: read, settled, written as JSON. */
#include "harness.h"

#include "bench/workload.h"

static void read_one(const char *text, size_t n, bool small)
{
    struct stk_workload w;
    struct stk_err err = {0};
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *v;
    struct stk_jw j;
    int rc = stk_workload_parse(text, n, "fuzz.yaml", small, &w, &err);
    if (rc == 0)
        rc = stk_workload_settle(&w, &err);
    if (rc < 0 && !*err.what)
        stk_fuzz_broken("a refused workload has a reason");
    if (rc == 0) {
        stk_jw_init(&j, &b, false);
        stk_jw_open(&j, '{');
        stk_workload_json(&w, &j);
        stk_jw_close(&j, '}');
        if (stk_json_parse(&a, (const char *)b.data, b.len, &v, NULL))
            stk_fuzz_broken("a workload is written as JSON");
        stk_workload_scale(&w, 0.01);
        for (uint64_t i = 0; i < 16; i++)
            if (stk_dist_at(&w.dataset.record, i) < 0 || stk_dist_at(&w.training.compute, i) < 0)
                stk_fuzz_broken("lengths and times are not negative");
    }
    stk_arena_release(&a);
    stk_buf_release(&b);
    stk_workload_release(&w);
}

static void read_dlio(const char *text, size_t n)
{
    static const char *const changes[] = {"++workload.reader.batch_size=4"};
    struct stk_workload w;
    struct stk_dlio d;
    struct stk_err err = {0};
    int rc = stk_dlio_parse(text, n, "fuzz.yaml", changes, 1, &w, &d, &err);
    if (rc == 0)
        rc = stk_workload_settle(&w, &err);
    if (rc < 0 && !*err.what)
        stk_fuzz_broken("a refused file of DLIO has a reason");
    stk_fuzz_touch(stk_buf_cstr(&d.unused), 1);
    stk_dlio_release(&d);
    stk_workload_release(&w);
}

int fuzz_workload(const uint8_t *data, size_t size)
{
    read_one((const char *)data, size, false);
    read_one((const char *)data, size, true);
    read_dlio((const char *)data, size);
    return 0;
}
