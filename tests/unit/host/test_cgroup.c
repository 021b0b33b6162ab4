/* test_cgroup.c - limits of control groups, on captured machines. A quota or a limit that is
 * missed starts more threads than run and takes memory until the job is killed. */
#include "check.h"
#include "hostset.h"
#include "host/cgroup.h"
#include "host/cpus.h"

#include <math.h>

#define GIB (UINT64_C(1) << 30)

static const struct stk_cgroup_memory no_limit = {UINT64_MAX, UINT64_MAX};

static void check_memory(int line, uint64_t limit, uint64_t left)
{
    struct stk_cgroup_memory m;
    stk_cgroup_memory(0, &m);
    check_int(__FILE__, line, (long long)m.limit_bytes, (long long)limit);
    check_int(__FILE__, line, (long long)m.free_bytes, (long long)left);
}
#define CHECK_MEMORY(limit, left) check_memory(__LINE__, (limit), (left))

static void allow(const char *cpus)
{
    char text[128];
    snprintf(text, sizeof text, "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\nMems:\t0\n",
             cpus);
    host_file("/proc/self/status", text);
}

/* ---- CPU ---------------------------------------------------------------------------------- */

/* The quota is rarely on the innermost group: Slurm has it on the job, Kubernetes on the pod. */
static void nested_quotas(void)
{
    host_groups(HOST_V2, "0::/job/step/task\n");
    allow("0-7");
    CHECK(isinf(stk_cgroup_cpus(0)));
    CHECK_INT(stk_cpus(), 8);
    host_group("/job", "cpu.max", "150000 100000\n");
    host_group("/job/step", "cpu.max", "max 100000\n");
    CHECK(stk_cgroup_cpus(0) == 1.5);
    CHECK_INT(stk_cpus(), 2);
    host_group("/job/step/task", "cpu.max", "50000 200000\n");
    CHECK(stk_cgroup_cpus(0) == 0.25);
    CHECK_INT(stk_cpus(), 1);
    host_group("/job/step/task", "cpu.max", "300000 100000\n");
    CHECK(stk_cgroup_cpus(0) == 1.5);
    host_group("", "cpu.max", "100000 100000\n"); /* of a container's namespace */
    CHECK_INT(stk_cpus(), 1);
}

static void affinity_and_quota(void)
{
    host_groups(HOST_V2, "0::/\n");
    host_group("", "cpu.max", "600000 100000\n");
    allow("0-3,8,10-11");
    CHECK_INT(stk_cpus(), 6);
    allow("4,6");
    CHECK_INT(stk_cpus(), 2);
}

static void first_version(void)
{
    host_groups(HOST_V1, "12:memory:/slurm/job_7\n4:cpu,cpuacct:/slurm/job_7\n0::/x\n");
    allow("0-15");
    host_group("/cpu,cpuacct", "cpu.cfs_quota_us", "-1\n");
    host_group("/cpu,cpuacct", "cpu.cfs_period_us", "100000\n");
    CHECK_INT(stk_cpus(), 16);
    host_group("/cpu,cpuacct/slurm", "cpu.cfs_quota_us", "350000\n");
    host_group("/cpu,cpuacct/slurm", "cpu.cfs_period_us", "100000\n");
    host_group("/cpu,cpuacct/slurm/job_7", "cpu.cfs_quota_us", "-1\n");
    host_group("/cpu,cpuacct/slurm/job_7", "cpu.cfs_period_us", "100000\n");
    CHECK(stk_cgroup_cpus(0) == 3.5);
    CHECK_INT(stk_cpus(), 4);
    /* Of v2, which has no controllers where v1 has them. */
    host_group("/unified/x", "cpu.max", "100000 100000\n");
    CHECK_INT(stk_cpus(), 4);
}

/* ---- memory ------------------------------------------------------------------------------- */

static void nested_limits(void)
{
    host_groups(HOST_V2, "0::/job/step\n");
    host_file("/proc/meminfo",
              "MemTotal:  16777216 kB\nMemAvailable:  8388608 kB\nCached:  7 kB\n");
    CHECK_MEMORY(no_limit.limit_bytes, no_limit.free_bytes);
    CHECK(stk_memory_limit() == 16 * GIB && stk_memory_free() == 8 * GIB);
    host_group("/job", "memory.max", "4294967296\n");
    host_group("/job", "memory.current", "3221225472\n");
    CHECK_MEMORY(4 * GIB, 1 * GIB);
    /* What can be dropped of the cache is room; tmpfs is in "file" too, and cannot be. */
    host_group("/job", "memory.stat", "anon 5\nfile 2147483648\nshmem 1073741824\n");
    CHECK_MEMORY(4 * GIB, 2 * GIB);
    /* The smallest limit need not be the one that is reached first. */
    host_group("/job/step", "memory.max", "3221225472\n");
    host_group("/job/step", "memory.current", "1000\n");
    CHECK_MEMORY(3 * GIB, 2 * GIB);
    CHECK(stk_memory_limit() == 3 * GIB && stk_memory_free() == 2 * GIB);
    host_group("/job/step", "memory.current", "3221225472\n");
    CHECK_MEMORY(3 * GIB, 0);
    host_group("/job/step", "memory.max", "max\n");
    CHECK_MEMORY(4 * GIB, 2 * GIB);
}

static void first_version_memory(void)
{
    host_groups(HOST_V1, "12:memory:/slurm/job_7\n4:cpu,cpuacct:/\n0::/\n");
    host_group("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
    host_group("/memory", "memory.usage_in_bytes", "99\n");
    CHECK_MEMORY(no_limit.limit_bytes, no_limit.free_bytes);
    host_group("/memory/slurm/job_7", "memory.limit_in_bytes", "2147483648\n");
    host_group("/memory/slurm/job_7", "memory.usage_in_bytes", "1073741824\n");
    host_group("/memory/slurm/job_7", "memory.stat",
               "cache 1\nrss 2\ntotal_cache 536870912\ntotal_rss 100\ntotal_shmem 10\n"
               "total_mapped_file 1000\n");
    CHECK_MEMORY(2 * GIB, GIB + GIB / 2 - 10);
    struct stk_memory_meter m;
    struct stk_memory_use use;
    stk_memory_meter_init(&m);
    stk_memory_meter_read(&m, &use);
    CHECK_INT(use.cache_bytes, 536870912);
    CHECK_INT(use.used_bytes, 1110);
}

/* The root of all groups counts the machine: what our processes use is not told by it. */
static void the_machine_is_no_group(void)
{
    struct stk_memory_meter m;
    struct stk_memory_use use;
    host_groups(HOST_V2, "0::/\n");
    host_group("", "memory.stat", "anon 5\nfile 6\n");
    host_file("/proc/meminfo", "Cached:  7 kB\n");
    stk_memory_meter_init(&m);
    stk_memory_meter_read(&m, &use);
    CHECK_INT(use.cache_bytes, 7168);
    CHECK(use.used_bytes == UINT64_MAX);
}

/* ---- where the group is ------------------------------------------------------------------- */

static void check_dir(int line, const char *mounts, const char *cgroup, const char *want)
{
    struct stk_cgroup g;
    host_groups(mounts, cgroup);
    bool found = stk_cgroup_find(0, "memory", &g);
    check_int(__FILE__, line, found, want[0] != '\0');
    check_text(__FILE__, line, g.dir, want);
}
#define CHECK_DIR(mounts, cgroup, want) check_dir(__LINE__, mounts, cgroup, want)

static void places(void)
{
    /* A controller that v1 does not have is v2's. */
    CHECK_DIR(HOST_V1, "1:name=systemd:/a\n0::/b\n", "/sys/fs/cgroup/unified/b");
    CHECK_DIR(HOST_V1, "3:hugetlb,memory:/a\n0::/b\n", "/sys/fs/cgroup/memory/a");
    /* Containers: a part of the hierarchy is mounted, with or without a namespace. */
    CHECK_DIR("9 8 0:1 /docker/5a /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/docker/5a/sub\n",
              "/sys/fs/cgroup/sub");
    CHECK_DIR("9 8 0:1 /docker/5a /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/docker/5a\n",
              "/sys/fs/cgroup");
    CHECK_DIR("9 8 0:1 /docker/5a /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/docker/5abc\n",
              "/sys/fs/cgroup");
    CHECK_DIR("9 8 0:1 /.. /sys/fs/cgroup ro - cgroup2 c rw\n", "0::/../job\n",
              "/sys/fs/cgroup/job");
    /* Moved out of the namespace: nothing outside of the mount is read. */
    CHECK_DIR(HOST_V2, "0::/../..\n", "/sys/fs/cgroup");
    CHECK_DIR(HOST_V2, "0::/../../other/job\n", "/sys/fs/cgroup");
    CHECK_DIR(HOST_V2, "0::/a/../../b\n", "/sys/fs/cgroup");
    CHECK_DIR(HOST_V2, "0::/..a/b..\n", "/sys/fs/cgroup/..a/b..");
    /* The mount that shows the group is taken, wherever it is. */
    CHECK_DIR("9 8 0:1 /other /a rw - cgroup2 c rw\n9 8 0:1 / /b\\040c rw x:1 y:2 - cgroup2 c rw\n",
              "0::/job\n", "/b c/job");
}

static void nothing_there(void)
{
    struct stk_cpu_use use;
    host_begin();
    CHECK(isinf(stk_cgroup_cpus(0)) && isinf(stk_cgroup_cpus(1)));
    CHECK_MEMORY(no_limit.limit_bytes, no_limit.free_bytes);
    CHECK(stk_memory_limit() == GIB && stk_memory_free() == GIB);
    CHECK(!stk_cpu_use(&use) && isnan(stk_load_average()));
    CHECK_DIR("", "", "");
    CHECK_DIR("", "0::/job\n", "");
    CHECK_DIR(HOST_V2, "", "");
}

static void malformed(void)
{
    static const char *const quotas[] = {"",         "\n",       "max",       "1000",   "x y",
                                         "0 100000", "100000 0", "-1 100000", "10000 ", "1e5 max",
                                         "max max",  "max 1",    "100000 -1", "\xff",   "5 5x"};
    CHECK_DIR(HOST_V2, "\n0\n0:\n0::\n0::job\n::/x\nx:memory", "/sys/fs/cgroup/x");
    CHECK_DIR(
        "\n-\n - \n9 8 0:1 - cgroup2 c rw\n9 8 0:1 / - cgroup2\n9 8 0:1 / / rw - cgroup2 c rw\n"
        "9 8 0:1 relative /p rw - cgroup2 c rw\n9 8 0:1 / /q\\04 rw - cgroup2\n",
        "0::/job\n", "/q\\04/job");
    host_groups(HOST_V2, "0::/job\n");
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        host_group("/job", "cpu.max", quotas[i]);
        double cpus = stk_cgroup_cpus(0);
        CHECK(isinf(cpus) || i == sizeof quotas / sizeof *quotas - 1);
    }
    host_group("/job", "memory.max", "4294967296 and more");
    host_group("/job", "memory.current", "lots\n");
    CHECK_MEMORY(4 * GIB, UINT64_MAX);
    host_group("/job", "memory.current", "99999999999999999999999\n");
    CHECK_MEMORY(4 * GIB, UINT64_MAX);
    host_group("/job", "memory.max", "-5\n");
    CHECK_MEMORY(UINT64_MAX, UINT64_MAX);
    host_file("/proc/meminfo", "MemTotal: 18446744073709551615 kB\nMemAvailable:\n");
    CHECK(stk_memory_limit() == GIB && stk_memory_free() == GIB);
}

static void of_another_process(void)
{
    host_groups(HOST_V2, "0::/launcher\n");
    host_file("/proc/4711/cgroup", "0::/job\n");
    host_group("/job", "cpu.max", "200000 100000\n");
    CHECK(stk_cgroup_cpus(4711) == 2 && isinf(stk_cgroup_cpus(0)));
}

/* A path longer than any that can be opened. */
static void too_long(void)
{
    static char text[9000];
    struct stk_cgroup g;
    memset(text, 'a', sizeof text - 2);
    memcpy(text, "0::/", 4);
    text[sizeof text - 2] = '\n';
    host_groups(HOST_V2, text);
    (void)stk_cgroup_find(0, "cpu", &g);
    CHECK(isinf(stk_cgroup_cpus(0)));
}

static void this_machine(void)
{
    stk_host_set_root(NULL);
    CHECK(stk_cpus() >= 1 && stk_memory_limit() >= stk_memory_free());
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(nested_quotas);
    CHECK_RUN(affinity_and_quota);
    CHECK_RUN(first_version);
    CHECK_RUN(nested_limits);
    CHECK_RUN(first_version_memory);
    CHECK_RUN(the_machine_is_no_group);
    CHECK_RUN(places);
    CHECK_RUN(nothing_there);
    CHECK_RUN(malformed);
    CHECK_RUN(of_another_process);
    CHECK_RUN(too_long);
    CHECK_RUN(this_machine);
    scratch_done();
    return CHECK_DONE();
}
