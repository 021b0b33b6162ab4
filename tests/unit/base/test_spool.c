/* test_spool.c - tables on disk: what was put is what is mapped, small or large, and a full disk is
 * an error each time, not a table that is mapped past its end. A file that is cut under the mapping
 * is an error too, and no signal. */
#include "check.h"
#include "scratch.h"
#include "base/spool.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static int files_in_scratch(void)
{
    DIR *d = opendir(scratch);
    int n = -2;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void holds(uint64_t count)
{
    struct stk_spool s;
    struct stk_err err = {0};
    const void *p = NULL;
    int rc = 0;
    stk_spool_init(&s, scratch);
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        rc = stk_spool_put(&s, &i, sizeof i, &err);
        if (i == count / 2 && rc == 0)
            rc = stk_spool_map(&s, &p, &err); /* looked at in between */
    }
    CHECK_INT(rc, 0);
    CHECK_INT(stk_spool_len(&s), count * 8);
    CHECK_INT(stk_spool_map(&s, &p, &err), 0);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += ((const uint64_t *)p)[i] != i;
    CHECK_INT(wrong, 0);
    CHECK_INT(files_in_scratch(), 0); /* nothing is left however the process ends */
    stk_spool_release(&s);
}

static void small_stays_in_memory(void)
{
    struct stk_spool s;
    const void *p;
    stk_spool_init(&s, "/nonexistent"); /* it would fail to be made */
    CHECK_INT(stk_spool_put(&s, "abc", 3, NULL), 0);
    CHECK_INT(stk_spool_map(&s, &p, NULL), 0);
    CHECK(memcmp(p, "abc", 3) == 0 && s.fd == -1);
    stk_spool_release(&s);
    stk_spool_init(&s, NULL);
    CHECK_INT(stk_spool_map(&s, &p, NULL), 0); /* empty */
    CHECK_INT(stk_spool_len(&s), 0);
    stk_spool_release(&s);
}

static void full_disk(void)
{
    struct rlimit before, small = {1u << 20, 1u << 20};
    struct stk_spool s;
    struct stk_err err = {0};
    static char block[100000];
    const void *p;
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    stk_spool_init(&s, scratch);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 50; i++)
        rc = stk_spool_put(&s, block, sizeof block, &err);
    CHECK_INT(rc, STK_E_SYS);
    CHECK_STR(err.path, scratch); /* which disk it is about */
    CHECK(strstr(err.what, "File too large"));
    CHECK_INT(stk_spool_put(&s, block, 1, &err), STK_E_SYS); /* and stays so */
    CHECK_INT(stk_spool_map(&s, &p, &err), STK_E_SYS);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_INT(stk_spool_map(&s, &p, &err), STK_E_SYS); /* what is missing stays missing */
    stk_spool_release(&s);
}

static void cut_while_mapped(void)
{
    struct stk_spool s;
    struct stk_err err = {0};
    static char block[1 << 20];
    const void *p;
    memset(block, 'x', sizeof block);
    stk_spool_init(&s, scratch);
    CHECK_INT(stk_spool_put(&s, block, sizeof block, &err), 0);
    CHECK_INT(stk_spool_map(&s, &p, &err), 0);
    CHECK_INT(stk_spool_intact(&s, &err), 0);
    CHECK_INT(ftruncate(s.fd, 4096), 0);
    CHECK_INT(((const char *)p)[0], 'x');
    CHECK_INT(stk_spool_intact(&s, &err), 0); /* what was looked at was there */
    CHECK_INT(((const char *)p)[sizeof block - 1], 0);
    CHECK_INT(stk_spool_intact(&s, &err), STK_E_SYS);
    CHECK_STR(err.path, scratch);
    CHECK_INT(stk_spool_map(&s, &p, NULL), 0);
    CHECK_INT(stk_spool_intact(&s, NULL), STK_E_SYS); /* once is for all */
    stk_spool_release(&s);
}

static void no_place(void)
{
    struct stk_err err = {0};
    setenv("TMPDIR", "/nonexistent", 1);
    CHECK_INT(stk_nameless_file(NULL, &err), STK_E_SYS);
    CHECK_STR(err.path, "/nonexistent");
    int fd = stk_nameless_file(scratch, &err);
    CHECK(fd >= 0);
    close(fd);
    setenv("TMPDIR", scratch, 1);
    fd = stk_nameless_file("/nonexistent", &err); /* then the usual place */
    CHECK(fd >= 0);
    close(fd);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_FOR("1", holds, 1);
    CHECK_FOR("one-flush", holds, 32 * 1024);
    CHECK_FOR("200001", holds, 200 * 1000 + 1);
    CHECK_RUN(small_stays_in_memory);
    CHECK_RUN(full_disk);
    CHECK_RUN(cut_while_mapped);
    CHECK_RUN(no_place);
    scratch_done();
    return CHECK_DONE();
}
