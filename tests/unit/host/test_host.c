/* test_host.c - processes, cores and GPUs of captured machines. A process that is missed uses CPU
 * and memory that nobody is told of; one that is not ours is blamed on the user. */
#include "check.h"
#include "hostset.h"
#include "host/cpus.h"
#include "host/fs.h"
#include "host/gpu.h"
#include "host/tree.h"

#include <math.h>
#include <unistd.h>

static void proc_file(int pid, const char *name, const char *data, size_t size)
{
    char path[200];
    snprintf(path, sizeof path, "%s/proc/%d/%s", host_name, pid, name);
    scratch_file(path, data, size);
}

static void end_process(int pid)
{
    char path[200];
    snprintf(path, sizeof path, "%s/proc/%d", host_name, pid);
    CHECK_INT(stk_remove_tree(scratch_path(path), NULL), 0);
}

/* ---- one process -------------------------------------------------------------------------- */

static void a_process(void)
{
    struct stk_proc_stat s;
    char text[64];
    int proc;
    host_begin();
    host_process(41, 7, "a (b) c) d", 100, 5000);
    CHECK_INT(stk_proc_open(&proc, NULL), 0);
    CHECK(stk_proc_stat(proc, 41, &s));
    CHECK_STR(s.comm, "a (b) c) d");
    CHECK_INT(s.ppid, 7);
    CHECK_INT(s.state, 'S');
    CHECK_INT(s.ticks, 102);
    CHECK_INT(s.children_ticks, 34);
    CHECK_INT(s.threads, 3);
    CHECK_INT(s.start, 5000);
    CHECK_INT(s.resident_bytes, 5 * sysconf(_SC_PAGESIZE));
    host_process(42, 7, "fifteen-letters", 1, 1);
    CHECK(stk_proc_stat(proc, 42, &s));
    CHECK_STR(s.comm, "fifteen-letters");
    CHECK_INT(stk_proc_command_of("python3\0train.py\0", 18, text, sizeof text), 16);
    CHECK_STR(text, "python3 train.py");
    CHECK_INT(stk_proc_command_of("", 0, text, sizeof text), 0);
    proc_file(41, "status", "Name:\tx\nNSpid:\t41\t9\t2\nThreads:\t3\n", 34);
    CHECK_INT(stk_proc_own_pid(proc, 41), 2);
    CHECK_INT(stk_proc_own_pid(proc, 42), 42);
    CHECK(!stk_proc_is_own(proc));
    close(proc);
}

static void damaged_files(void)
{
    static const char *const bad[] = {"",
                                      "41",
                                      "41 (x",
                                      "41 x) S 1",
                                      ")(",
                                      "41 (x)",
                                      "41 (x) ",
                                      "41 (x) S",
                                      "41 (x) S 1 1 1 0 -1 4194560 9 8 7 6 1 2 30 4 20 0 3 0 5 6",
                                      "41 (x) S a b c"};
    struct stk_proc_stat s;
    uint64_t io[STK_IO_COUNTS] = {1, 2, 3, 4};
    int proc;
    host_begin();
    host_file("/proc/version", "x");
    CHECK_INT(stk_proc_open(&proc, NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        host_file("/proc/41/stat", bad[i]);
        CHECK(!stk_proc_stat(proc, 41, &s));
    }
    stk_proc_io(proc, 41, io);
    CHECK(io[0] == 1 && io[3] == 4);
    host_file("/proc/41/io", "rchar: 10\nwchar: x\nread_bytes: 30\ncancelled_write_bytes: 9\n");
    stk_proc_io(proc, 41, io);
    CHECK(io[0] == 10 && io[1] == 2 && io[2] == 30 && io[3] == 4);
    close(proc);
}

static void environments(void)
{
    static char large[100000];
    struct stk_buf b = STK_BUF_INIT;
    int proc;
    host_begin();
    memset(large, 'x', sizeof large);
    large[99990] = '\0';
    memcpy(large + 99991, "JOB=7\0J=", 8);
    proc_file(41, "environ", large, sizeof large - 1);
    CHECK_INT(stk_proc_open(&proc, NULL), 0);
    size_t n = stk_proc_environ(proc, 41, &b);
    CHECK_INT(n, sizeof large - 1);
    CHECK_STR(stk_proc_variable((char *)b.data, n, "JOB"), "7");
    CHECK_STR(stk_proc_variable((char *)b.data, n, "J"), "");
    CHECK(!stk_proc_variable((char *)b.data, n, "JO"));
    n = stk_proc_environ(proc, 42, &b);
    CHECK(n == 0 && !stk_proc_variable((char *)b.data, n, "JOB"));
    stk_buf_release(&b);
    close(proc);
}

/* ---- a tree ------------------------------------------------------------------------------- */

static void look(struct stk_tree *t)
{
    t->next_scan_s = 0;
    CHECK_INT(stk_tree_look(t, NULL), 0);
}

static const struct stk_proc *find(const struct stk_tree *t, pid_t pid)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->p[i].pid == pid)
            return &t->p[i];
    return NULL;
}

static unsigned count_ours(const struct stk_tree *t)
{
    unsigned n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->p[i].ours;
    return n;
}

static void below_a_process(void)
{
    struct stk_tree t;
    const struct stk_tree_rules rules = {.root = 100, .skip = 100, .ended = true};
    host_begin();
    host_process(1, 0, "init", 1, 1);
    host_process(100, 1, "stoker", 1, 10);
    host_process(300, 100, "shell", 5, 20);
    host_process(200, 300, "python", 7, 30); /* a number lower than its parent's */
    host_process(201, 200, "worker", 7, 31);
    host_process(400, 1, "stranger", 7, 31);
    host_file("/proc/500/comm", "gone"); /* it ended while we walked */
    host_file("/proc/uptime", "1 2");
    CHECK_INT(stk_tree_open(&t, &rules, NULL), 0);
    look(&t);
    CHECK_INT(count_ours(&t), 3);
    CHECK_INT(t.n, 5);
    CHECK(find(&t, 200)->ours && !find(&t, 400)->ours && !find(&t, 100) && !find(&t, 500));
    /* An orphan stays ours; a process that runs another program, too. */
    end_process(300);
    host_process(200, 1, "python", 17, 30);
    host_process(201, 200, "other", 9, 31);
    look(&t);
    CHECK_INT(count_ours(&t), 2);
    CHECK_INT(t.ngone, 1);
    CHECK_INT(t.gone[0].pid, 300);
    CHECK(find(&t, 200)->ours && find(&t, 200)->stat.ticks == 19);
    CHECK(find(&t, 200)->ticks_before == 9 && !find(&t, 201)->examined);
    /* The number of one of ours comes to a stranger. */
    host_process(201, 400, "newcomer", 1, 99);
    look(&t);
    look(&t);
    CHECK(!find(&t, 201)->ours && count_ours(&t) == 1 && t.ngone == 2);
    end_process(400);
    look(&t);
    CHECK(!find(&t, 400) && t.ngone == 2);
    stk_tree_release(&t);
}

/* Its last counts are read while it is a zombie, whether it was ever sampled or not. */
static void the_end_of_a_child(void)
{
    struct stk_tree t;
    const struct stk_tree_rules rules = {.root = 100, .skip = 100, .ended = true};
    host_begin();
    host_process(101, 100, "known", 1, 10);
    host_process(102, 1, "stranger", 1, 10);
    CHECK_INT(stk_tree_open(&t, &rules, NULL), 0);
    look(&t);
    host_file("/proc/101/io", "rchar: 10\nwchar: 1\nread_bytes: 2\nwrite_bytes: 3\n");
    host_file("/proc/102/io", "rchar: 20\n");
    host_file("/proc/103/io", "rchar: 40\n");
    for (pid_t pid = 101; pid <= 103; pid++)
        stk_tree_ended(&t, pid);
    CHECK_INT(t.reaped_io[0], 70);
    CHECK_INT(t.ngone, 3);
    CHECK_INT(t.n, 0);
    stk_tree_release(&t);
}

/* ---- a job -------------------------------------------------------------------------------- */

static unsigned asked;

static void ask(void *user, int proc_fd, struct stk_proc *p)
{
    const char *comm = p->stat.comm;
    (void)user;
    (void)proc_fd;
    asked++;
    p->above = strcmp(comm, "stepd") == 0;
    p->ours = strcmp(comm, "rank") == 0;
    if (p->above || p->ours)
        p->member = (struct stk_proc_step){.step = "3", .rank = p->ours ? 5 : -1};
    if (strcmp(comm, "vanishes") == 0)
        end_process(p->pid);
}

static void of_a_job(void)
{
    struct stk_tree t;
    const struct stk_tree_rules rules = {.ask = ask};
    host_begin();
    host_process(1, 0, "init", 1, 1);
    host_process(20, 1, "stepd", 1, 2);
    host_process(10, 20, "shell", 1, 3);
    host_process(30, 1, "rank", 1, 4);
    host_process(31, 30, "worker", 1, 5);
    host_process(40, 1, "stranger", 1, 5);
    host_process(50, 1, "vanishes", 1, 5);
    CHECK_INT(stk_tree_open(&t, &rules, NULL), 0);
    look(&t);
    CHECK_INT(asked, 7);
    CHECK_INT(count_ours(&t), 3);
    CHECK(!find(&t, 20)->ours && find(&t, 10)->ours && find(&t, 31)->ours);
    CHECK_STR(find(&t, 10)->member.step, "3");
    CHECK_INT(find(&t, 10)->member.rank, -1);
    CHECK_INT(find(&t, 31)->member.rank, 5);
    CHECK_INT(find(&t, 40)->member.rank, -1);
    CHECK_INT(find(&t, 31)->ticks_before, 0);
    /* A process is asked once, and again only if it runs another program now. */
    host_process(40, 1, "rank", 1, 5);
    host_process(41, 40, "worker", 1, 6);
    host_process(31, 30, "worker", 11, 5);
    end_process(10);
    look(&t);
    CHECK_INT(asked, 9);
    CHECK(find(&t, 40)->ours && find(&t, 41)->ours && !find(&t, 10) && !find(&t, 50));
    CHECK(find(&t, 31)->ticks_before == 3 && find(&t, 31)->stat.ticks == 13);
    CHECK(t.ngone == 0);
    /* No longer the job's by what it says, and none of its parents is. */
    host_process(40, 1, "shell", 1, 5);
    host_process(41, 40, "another", 1, 6);
    look(&t);
    CHECK(!find(&t, 40)->ours && !find(&t, 41)->ours && count_ours(&t) == 2);
    stk_tree_release(&t);
}

static void no_proc(void)
{
    struct stk_tree t;
    const struct stk_tree_rules rules = {.root = 1};
    struct stk_err err = {0};
    host_begin();
    CHECK(stk_tree_open(&t, &rules, &err) != 0 && strstr(err.what, "open"));
    stk_tree_release(&t);
}

/* ---- cores and GPUs ----------------------------------------------------------------------- */

static void cpu_file(unsigned cpu, const char *name, int value)
{
    char path[128], text[16];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, name);
    snprintf(text, sizeof text, "%d\n", value);
    host_file(path, text);
}

/* Two packages of two cores of two threads, numbered as Linux does: siblings are 4 apart. */
static void cores(void)
{
    struct stk_cores c;
    cpu_set_t set;
    host_begin();
    for (unsigned cpu = 0; cpu < 8; cpu++) {
        cpu_file(cpu, "topology/physical_package_id", cpu / 2 % 2);
        cpu_file(cpu, "topology/core_id", cpu % 2);
    }
    stk_cores_find(&c);
    CHECK_INT(c.n, 0);
    CHECK_INT(stk_cpus() >= 1, 1);
    host_file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-7\n");
    stk_cores_find(&c);
    CHECK(c.n == 7 && c.physical == 4 && !c.mixed && stk_cpus() == 7);
    CHECK(c.cpu[0] == 1 && c.cpu[1] == 2 && c.cpu[2] == 3 && c.cpu[3] == 4 && c.cpu[4] == 5);
    stk_cores_set(&c, 4, &set);
    CHECK(CPU_COUNT(&set) == 4 && CPU_ISSET(4, &set) && !CPU_ISSET(0, &set));
    for (unsigned cpu = 0; cpu < 8; cpu++)
        cpu_file(cpu, "cpu_capacity", cpu < 4 ? 1024 : 400);
    stk_cores_find(&c);
    CHECK(c.mixed);
    host_file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t9-2,,5000,-\n");
    stk_cores_find(&c);
    CHECK_INT(c.n, 0);
}

static void what_cpus_did(void)
{
    struct stk_cpu_times t;
    struct stk_cpu_use use;
    char text[64];
    double tick = (double)sysconf(_SC_CLK_TCK);
    host_begin();
    host_file("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t1\n");
    host_file("/proc/stat", "cpu  1 2 3 400 50 6 7 80 0 0\ncpu0 1 2 3 4 10 6 7 8 0 0\n"
                            "cpu1 1 2 3 4 40 6 7 8 0 0\nintr 5\n");
    host_file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n");
    host_file("/proc/loadavg", "1.50 0.2 0.1 1/2 3\n");
    CHECK(stk_cpu_times(&t));
    CHECK(fabs(t.busy_s * tick - 19) < 1e-6 && fabs(t.steal_s * tick - 80) < 1e-6);
    CHECK(fabs(t.idle_s * tick - 450) < 1e-6);
    CHECK(stk_cpu_use(&use) && fabs(use.iowait_s * tick - 40) < 1e-6);
    CHECK(fabs(use.busy_s * tick - 19) < 1e-6);
    CHECK(stk_load_average() == 1.5);
    stk_cpu_model(text, sizeof text);
    CHECK_STR(text, "Some CPU @ 2 GHz");
    stk_cpu_governor(text, sizeof text);
    CHECK_STR(text, "");
    host_file("/proc/stat", "cpu  1 2 3\n");
    CHECK(!stk_cpu_times(&t) && !stk_cpu_use(&use));
}

static void gpus(void)
{
    char kind[96];
    host_begin();
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK_INT(stk_gpus_glance(kind, sizeof kind), 0);
    CHECK_STR(kind, "");
    host_file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA T9\nIRQ: 1\n");
    host_file("/proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: \t NVIDIA T9\nIRQ: 2\n");
    CHECK_INT(stk_gpus_glance(kind, sizeof kind), 2);
    CHECK_STR(kind, "NVIDIA T9");
    setenv("CUDA_VISIBLE_DEVICES", "1,5", 1);
    CHECK_INT(stk_gpus_glance(kind, sizeof kind), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* A folder on a server, or one that is full, would make every process wait for it. */
static void local_folders(void)
{
    const char *const path[] = {NULL, "relative", "/nonexistent", scratch};
    uint64_t bytes = 0;
    CHECK(!stk_fs_choose_local(path, 3, 0, &bytes));
    CHECK(!stk_fs_choose_local(path, 4, UINT64_MAX, &bytes));
    if (!stk_fs_of_path(scratch)->network) {
        CHECK_STR(stk_fs_choose_local(path, 4, 1, &bytes), scratch);
        CHECK(bytes > 0);
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(local_folders);
    CHECK_RUN(a_process);
    CHECK_RUN(damaged_files);
    CHECK_RUN(environments);
    CHECK_RUN(below_a_process);
    CHECK_RUN(the_end_of_a_child);
    CHECK_RUN(of_a_job);
    CHECK_RUN(no_proc);
    CHECK_RUN(cores);
    CHECK_RUN(what_cpus_did);
    CHECK_RUN(gpus);
    scratch_done();
    return CHECK_DONE();
}
