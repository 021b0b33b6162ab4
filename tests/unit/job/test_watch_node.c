/* test_watch_node.c - which processes of a captured node are a Slurm job's. One that is missed is
 * not on the screen of `stoker watch`; one too many is somebody else's. */
#include "check.h"
#include "hostset.h"
#include "job/watch.h"

#include <sys/stat.h>

static void proc_file(int pid, const char *name, const char *data, size_t size)
{
    char path[200];
    snprintf(path, sizeof path, "%s/proc/%d/%s", host_name, pid, name);
    scratch_file(path, data, size);
}

#define ENVIRON(pid, text) proc_file(pid, "environ", text, sizeof text)
#define OWNED(pid, uid)    STATUS(pid, "Name:\tx\nUid:\t" uid "\t" uid "\t" uid "\t" uid "\n")
#define STATUS(pid, text)  proc_file(pid, "status", text, sizeof text - 1)
#define CGROUP(pid, text)  proc_file(pid, "cgroup", text, sizeof text - 1)

static int start(uint64_t job, uint64_t part, uid_t owner, struct stk_watcher **w)
{
    const struct stk_watch_target t = {.job = job, .part = part, .owner = owner};
    return stk_watcher_new(&t, w, NULL);
}

static const struct stk_watch_process *find(const struct stk_watch_node *n, int pid)
{
    for (size_t i = 0; i < n->nprocesses; i++)
        if (n->process[i].pid == pid)
            return &n->process[i];
    return NULL;
}

static void capture(void)
{
    host_begin();
    host_process(1, 0, "systemd", 1, 1);
    /* By its slurmstepd, whose own it is not. */
    host_process(10, 1, "slurmstepd", 1, 2);
    proc_file(10, "cmdline", "slurmstepd: [14.batch]", 22);
    host_process(11, 10, "bash", 1, 3);
    /* By its cgroup. */
    host_process(20, 1, "python", 1, 4);
    CGROUP(20, "4:memory:/slurm/uid_1/job_14/step_3/task_1\n0::/\n");
    /* By its environment, and what is below it. */
    host_process(30, 1, "train", 1, 5);
    ENVIRON(30, "A=1\0SLURM_JOB_ID=14\0SLURM_STEP_ID=0\0SLURM_PROCID=7\0SLURMD_NODENAME=n1");
    host_process(31, 30, "loader", 1, 6);
    proc_file(31, "cmdline", "loader\0-j\0002", 12);
    host_file("/proc/31/io", "rchar: 10\nwchar: 20\n");
    /* Of another node of the job on this machine. */
    host_process(40, 1, "train", 1, 7);
    ENVIRON(40, "SLURM_JOB_ID=14\0SLURM_STEP_ID=0\0SLURM_PROCID=8\0SLURMD_NODENAME=n2");
    host_process(41, 40, "loader", 1, 8);
    /* Of other jobs. */
    host_process(50, 1, "slurmstepd", 1, 9);
    proc_file(50, "cmdline", "slurmstepd: [142.0]", 19);
    host_process(51, 50, "bash", 1, 10);
    host_process(60, 1, "other", 1, 11);
    CGROUP(60, "0::/slurm/job_141/step_0\n");
    ENVIRON(60, "SLURM_JOB_ID=141\0XSLURM_JOB_ID=14");
}

static void first_reading(const struct stk_watch_node *n)
{
    const struct stk_watch_process *p;
    CHECK_STR(n->host, "n1");
    CHECK_INT(n->processes, 4);
    CHECK_INT(n->threads, 12);
    CHECK(n->cpus < 0);
    CHECK((p = find(n, 11)) && strcmp(p->step, "batch") == 0 && p->rank == -1);
    CHECK((p = find(n, 20)) && strcmp(p->step, "3") == 0 && p->rank == -1);
    CHECK((p = find(n, 30)) && strcmp(p->step, "0") == 0 && p->rank == 7 && p->cpus < 0);
    CHECK_STR(p ? p->command : "", "train");
    CHECK((p = find(n, 31)) && strcmp(p->step, "0") == 0 && p->rank == 7);
    CHECK(p && p->read_bytes == 10 && p->write_bytes == 20 && p->state[0] == 'S');
    CHECK_STR(p ? p->command : "", "loader -j 2");
}

static void second_reading(const struct stk_watch_node *n)
{
    CHECK_INT(n->processes, 4);
    CHECK(n->nprocesses == 4 && n->process[0].pid == 31); /* the busiest first */
    CHECK(n->process[0].cpus > n->process[1].cpus && n->process[3].cpus == 0);
    CHECK(!find(n, 20) && find(n, 61) && find(n, 61)->cpus > 0); /* it is new: all of its time */
    CHECK(n->cpus >= n->process[0].cpus + find(n, 61)->cpus);
}

/* The second has to do with what changed since the first. */
static void two_readings(void)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    capture();
    setenv("SLURMD_NODENAME", "n1", 1);
    CHECK_INT(start(14, 0, STK_NOBODY, &w), 0);
    CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
    first_reading(&node);
    host_process(31, 30, "loader", 1000, 6);
    char path[200];
    snprintf(path, sizeof path, "%s/proc/20", host_name);
    CHECK_INT(stk_remove_tree(scratch_path(path), NULL), 0);
    host_process(61, 11, "child", 0, 12);
    CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
    second_reading(&node);
    stk_watch_node_release(&node);
    stk_watcher_free(w);
}

/* Root sees every environment, and anybody may write SLURM_JOB_ID into theirs, or call a process
 * slurmstepd: then somebody else's processes stood on the screen as the job's. */
static void of_others(void)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    capture();
    setenv("SLURMD_NODENAME", "n1", 1);
    OWNED(30, "1001");
    host_process(70, 1, "evil", 1, 13);
    ENVIRON(70, "SLURM_JOB_ID=14\0SLURMD_NODENAME=n1");
    OWNED(70, "1002");
    host_process(71, 70, "below", 1, 14);
    host_process(80, 1, "slurmstepd", 1, 15);
    proc_file(80, "cmdline", "slurmstepd: [14.batch]", 22);
    OWNED(80, "1002");
    host_process(81, 80, "below", 1, 16);
    /* The kernel says so: whoever's it is. */
    host_process(90, 1, "setuid", 1, 17);
    CGROUP(90, "4:memory:/slurm/uid_1/job_14/step_3/task_1\n0::/\n");
    OWNED(90, "1002");
    CHECK_INT(start(14, 0, 1001, &w), 0);
    CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
    CHECK(find(&node, 30) && find(&node, 31) && find(&node, 11) && find(&node, 90));
    CHECK(!find(&node, 70) && !find(&node, 71) && !find(&node, 81));
    stk_watch_node_release(&node);
    stk_watcher_free(w);
    node = (struct stk_watch_node){0};
    CHECK_INT(start(14, 0, STK_NOBODY, &w), 0); /* --all */
    CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
    CHECK(find(&node, 70) && find(&node, 71));
    stk_watch_node_release(&node);
    stk_watcher_free(w);
}

/* The processes of all parts of a heterogeneous job have the number of the first in their
 * environment: on a node of two parts, those of one would be shown as the other's. */
static void parts(void)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    host_begin();
    setenv("SLURMD_NODENAME", "n1", 1);
    for (int i = 0; i < 2; i++) {
        host_process(10 + i, 1, "slurmstepd", 1, 2);
        proc_file(10 + i, "cmdline", i ? "slurmstepd: [15.0]" : "slurmstepd: [14.0]", 18);
        host_process(20 + i, 10 + i, "train", 1, 3);
        ENVIRON(20 + i, "SLURM_JOB_ID=14\0SLURM_STEP_ID=0\0SLURM_PROCID=3");
        host_process(30 + i, 1, "train", 1, 4);
        CGROUP(30 + i, "0::/x/job_14x/job_13/step_2\n1:y:/job_15/step_1/user\n");
    }
    CGROUP(30, "0::/slurm/job_14/step_1/user\n");
    for (int part = 0; part < 2; part++) {
        CHECK_INT(start(14, (uint64_t)(14 + part), STK_NOBODY, &w), 0);
        CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
        CHECK_INT(node.processes, 2);
        const struct stk_watch_process *p = find(&node, 20 + part);
        CHECK(p && p->rank == 3 && strcmp(p->step, "0") == 0);
        CHECK((p = find(&node, 30 + part)) && strcmp(p->step, "1") == 0);
        stk_watcher_free(w);
    }
    stk_watch_node_release(&node);
}

/* A watch that was killed may leave its samplers in the job: the next one would count them. */
static void other_samplers(void)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    capture();
    setenv("SLURMD_NODENAME", "n1", 1);
    host_process(70, 10, STK_WATCH_SAMPLER, 1, 13);
    ENVIRON(70, "SLURM_JOB_ID=14\0SLURMD_NODENAME=n1");
    host_process(71, 70, "child", 1, 14);
    CHECK_INT(start(14, 0, STK_NOBODY, &w), 0);
    CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
    first_reading(&node);
    stk_watch_node_release(&node);
    stk_watcher_free(w);
}

/* A process that hangs in a stalled file system holds its environment and its command line back (a
 * pipe that nobody writes to, here): the whole node would give no answer. */
static void a_process_that_hangs(void)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    char path[200];
    capture();
    setenv("SLURMD_NODENAME", "n1", 1);
    for (int pid = 80; pid < 83; pid++) {
        host_process_in('D', pid, pid == 80 ? 10 : 1, "hung", 1, 13);
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "%s/proc/%d/%s", host_name, pid, i ? "environ" : "cmdline");
            CHECK_INT(mkfifo(scratch_path(path), 0600), 0);
        }
    }
    CGROUP(81, "0::/slurm/job_14/step_7/user\n");
    CHECK_INT(start(14, 0, STK_NOBODY, &w), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(stk_watcher_read(w, &node, NULL), 0);
        CHECK(find(&node, 11) && find(&node, 20)); /* by their slurmstepd and cgroup: always */
        const struct stk_watch_process *p = find(&node, 80), *q = find(&node, 81);
        CHECK(p && p->hangs && strcmp(p->command, "hung") == 0 && strcmp(p->step, "batch") == 0);
        CHECK(q && q->hangs && strcmp(q->step, "7") == 0);
        CHECK(!find(&node, 82)); /* whose it is, is not known */
    }
    CHECK_INT(node.processes, 6);
    stk_watch_node_release(&node);
    stk_watcher_free(w);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(two_readings);
    CHECK_RUN(of_others);
    CHECK_RUN(parts);
    CHECK_RUN(other_samplers);
    CHECK_RUN(a_process_that_hangs);
    scratch_done();
    return CHECK_DONE();
}
