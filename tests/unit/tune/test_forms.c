/* test_forms.c - other forms of the data are tried where they can differ: each costs the user a copy
 * of everything. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "host/fs.h"
#include "scratch.h"
#include "tune/priv.h"

#define GIB (1ull << 30)

/* What a kind proposes for data like this: the label of the first; "": nothing. */
static const char *proposed(const char *kind, struct stk_tune_subject s)
{
    static char label[96];
    const char *const only[] = {kind, NULL};
    const struct stk_tune_plan plan = {.least = 0.03, .only = only};
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_tune_list list;
    s.source = scratch;
    s.w.training.ranks = s.w.training.ranks ? s.w.training.ranks : 1;
    s.w.dataset.format = STK_BENCH_REPLAY;
    CHECK(stk_tune_propose(&plan, &s, &arena, &list, NULL) == 0);
    snprintf(label, sizeof label, "%.90s", list.n > 1 ? list.item[1].label : "");
    stk_arena_release(&arena);
    return label;
}

static void more_shards(void)
{
    struct stk_tune_subject s = {.fs = stk_fs_by_name("lustre"), .bytes = GIB, .files = 9, .w.training.ranks = 8};
    CHECK_STR(proposed("shards", s), "packed in 64 MiB shards + loader");
    s.w.training.ranks = 2; /* there are enough for them */
    CHECK_STR(proposed("shards", s), "");
    s.w.training.ranks = 8;
    s.bytes = 10 << 20; /* one either way */
    CHECK_STR(proposed("shards", s), "");
    s.bytes = GIB;
    s.fs = stk_fs_by_name("ext4"); /* one disk */
    CHECK_STR(proposed("shards", s), "");
}

/* By a recorded lfs. */
static void stripes(void)
{
    struct stk_tune_subject s = {.fs = stk_fs_by_name("lustre"), .bytes = 8 * GIB, .files = 2};
    const char *text = "#!/bin/sh\necho \"stripe_count:  $STRIPES stripe_size:   1048576\"\n";
    char path[600];
    chmod(scratch_file("bin/lfs", text, strlen(text)), 0755);
    snprintf(path, sizeof path, "%s/bin:/usr/bin:/bin", scratch);
    setenv("PATH", path, 1);
    setenv("STRIPES", "1", 1);
    CHECK_STR(proposed("stripes", s), "4 stripes instead of 1");
    setenv("STRIPES", "8", 1);
    CHECK_STR(proposed("stripes", s), "");
    setenv("STRIPES", "-1", 1); /* all */
    CHECK_STR(proposed("stripes", s), "");
    setenv("STRIPES", "1", 1);
    s.files = 100; /* small files lie on one target each */
    CHECK_STR(proposed("stripes", s), "");
    s.files = 2;
    s.fs = stk_fs_by_name("nfs");
    CHECK_STR(proposed("stripes", s), "");
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(more_shards);
    CHECK_RUN(stripes);
    scratch_done();
    return CHECK_DONE();
}
