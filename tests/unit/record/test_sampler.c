/* test_sampler.c - the processes below a launcher: all of them, nobody else's, and their CPU time
 * even when they end between two samples. Advice on cores and memory rests on it. */
#include "check.h"
#include "scratch.h"
#include "host/cpus.h"
#include "host/gpu.h"
#include "host/cgroup.h"
#include "record/sampler.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void burn(double seconds)
{
    while ((double)clock() / CLOCKS_PER_SEC < seconds)
        ;
}

static int other_end = -1; /* of the pipe: a child that waits for its end must not hold it */

static pid_t start(void (*what)(int fd), int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (other_end >= 0)
            close(other_end);
        what(fd);
        _exit(0);
    }
    return pid;
}

/* A child with a child of its own, both waiting until fd is closed at the other end. */
static void wait_for_end(int fd)
{
    char c;
    (void)!read(fd, &c, 1);
}

static void with_child(int fd)
{
    pid_t pid = start(wait_for_end, fd);
    wait_for_end(fd);
    waitpid(pid, NULL, 0);
}

/* Its child stays behind and comes to us. */
static void orphan_maker(int fd)
{
    (void)start(wait_for_end, fd);
}

static void finds_the_whole_tree(void)
{
    struct stk_tree t;
    struct stk_tree_sum sum;
    const struct stk_sampler_logs logs = {scratch, "host", -1};
    int fd[2], status;
    CHECK(pipe(fd) == 0);
    other_end = fd[1];
    struct stk_proc_reader reader;
    CHECK_INT(stk_sampler_open_tree(&t, getpid(), NULL), 0);
    stk_proc_reader_init(&reader, t.proc_fd);
    stk_sampler_look(&t, &reader, &logs, &sum);
    CHECK_INT(sum.processes, 0);
    CHECK(t.n > 0); /* others are there, and not ours */
    pid_t a = start(with_child, fd[0]), b = start(orphan_maker, fd[0]);
    siginfo_t info;
    CHECK(waitid(P_PID, (id_t)b, &info, WEXITED | WNOWAIT) == 0);
    stk_tree_ended(&t, b);
    CHECK_INT(waitpid(b, &status, 0), b);
    for (int i = 0; i < 30000 && sum.processes < 3; i++) {
        usleep(10000);
        t.next_scan_s = 0;
        stk_sampler_look(&t, &reader, &logs, &sum);
    }
    CHECK_INT(sum.processes, 3); /* a, its child, and b's orphan */
    CHECK(sum.threads >= 3);     /* a sanitizer has its own */
    CHECK(sum.resident_bytes > 3 * 4096);
    CHECK_INT(t.ngone, 1);
    close(fd[1]);
    other_end = -1;
    stk_proc_reader_release(&reader); /* its child is ours, too */
    while (waitpid(-1, &status, 0) > 0)
        ;
    stk_proc_reader_init(&reader, t.proc_fd);
    t.next_scan_s = 0;
    stk_sampler_look(&t, &reader, &logs, &sum);
    CHECK_INT(sum.processes, 0);
    CHECK_INT(t.ngone, 4);
    bool found = false;
    for (size_t i = 0; i < t.ngone; i++)
        found = found || t.gone[i].pid == a;
    CHECK(found);
    stk_proc_reader_release(&reader);
    stk_tree_release(&t);
    close(fd[0]);
}

/* A /proc with one process of ours, whose command cannot be read: opening a pipe waits, as reading
 * the memory of a process that hangs in a stalled file system does. */
static void hold(void)
{
    char line[400];
    int n = snprintf(line, sizeof line, "4242 (held) S %d 1 1 0 -1 0 0 0 0 0 7 8 0 0 20 0 3 0 99",
                     (int)getpid());
    for (int field = 23; field <= 52; field++)
        n += snprintf(line + n, sizeof line - (size_t)n, " 0");
    mkdir(scratch_path("proc"), 0700);
    mkdir(scratch_path("proc/4242"), 0700);
    scratch_file("proc/4242/stat", line, (size_t)n);
    CHECK_INT(mkfifo(scratch_path("proc/4242/cmdline"), 0600), 0);
}

static void process_that_hangs(void)
{
    const struct stk_sampler_logs logs = {scratch, "host", -1};
    struct stk_tree t;
    struct stk_tree_sum sum;
    struct stk_proc_reader reader;
    hold();
    CHECK_INT(stk_sampler_open_tree(&t, getpid(), NULL), 0);
    close(t.proc_fd);
    t.proc_fd = open(scratch_path("proc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    stk_proc_reader_init(&reader, t.proc_fd);
    alarm(60); /* ends a test that hangs */
    for (int i = 0; i < 3; i++) {
        t.next_scan_s = 0;
        stk_sampler_look(&t, &reader, &logs, &sum);
    }
    alarm(0);
    CHECK_INT(sum.processes, 1);
    CHECK(t.n == 1 && t.p[0].command && strcmp(t.p[0].command, "held") == 0);
    stk_proc_reader_release(&reader);
    stk_tree_release(&t);
}

/* The child that reads commands is not the program's. */
static void reader_does_not_count(void)
{
    const struct stk_sampler_logs logs = {scratch, "host", -1};
    struct stk_tree t;
    struct stk_tree_sum sum;
    struct stk_proc_reader reader;
    int fd[2], status;
    CHECK(pipe(fd) == 0);
    other_end = fd[1];
    CHECK_INT(stk_sampler_open_tree(&t, getpid(), NULL), 0);
    stk_proc_reader_init(&reader, t.proc_fd);
    pid_t child = start(wait_for_end, fd[0]);
    for (int i = 0; i < 5; i++) {
        t.next_scan_s = 0;
        stk_sampler_look(&t, &reader, &logs, &sum);
    }
    CHECK_INT(sum.processes, 1);
    for (size_t i = 0; i < t.n; i++)
        CHECK(t.p[i].pid != child || (t.p[i].command && *t.p[i].command));
    stk_proc_reader_release(&reader); /* its child has a copy of the pipe */
    close(fd[1]);
    other_end = -1;
    CHECK_INT(waitpid(child, &status, 0), child);
    stk_tree_release(&t);
    close(fd[0]);
}

static int begin[2]; /* a pipe: the child waits for the sampler */

static void burn_and_write(int fd)
{
    char block[4096] = {0}, go;
    (void)!read(begin[0], &go, 1);
    for (int i = 0; i < 100; i++)
        (void)!write(fd, block, sizeof block);
    burn(0.3);
}

static void counts_what_has_ended(void)
{
    char csv[600];
    snprintf(csv, sizeof csv, "%s", scratch_path("s.csv"));
    FILE *sink = fopen(scratch_path("sink"), "w");
    struct stk_folder folder;
    CHECK_INT(stk_folder_find(&folder, scratch, "s.csv", NULL, NULL), 0);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    struct stk_sampler_options o = {.root = getpid(),
                                    .every_s = 0.02,
                                    .csv_folder = &folder,
                                    .csv_name = "s.csv",
                                    .logs = {scratch, "host", -1},
                                    .start_mono_ns =
                                        (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    struct stk_sampler *s = NULL;
    CHECK(pipe(begin) == 0);
    pid_t pid = start(burn_and_write, fileno(sink));
    CHECK_INT(stk_sampler_start(&o, &s, NULL), 0);
    CHECK(write(begin[1], "x", 1) == 1);
    siginfo_t info;
    int status = -1;
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    stk_sampler_reap(s, pid, &status);
    CHECK_INT(status, 0);
    CHECK(stk_sampler_stop(s));
    CHECK(stk_sampler_totals(s)->readings >= 1);
    char line[1000], last[1000] = "";
    double at, cores, before = 0, cpu_s = 0;
    unsigned long long written = 0;
    FILE *f = fopen(csv, "r");
    CHECK(fgets(line, sizeof line, f) && strncmp(line, "at_s,processes,", 15) == 0);
    while (fgets(line, sizeof line, f)) {
        CHECK_INT(sscanf(line, "%lf,%*u,%*u,%lf", &at, &cores), 2);
        CHECK(at > before);
        cpu_s += cores * (at - before);
        before = at;
        memcpy(last, line, sizeof last);
    }
    fclose(f);
    CHECK(cpu_s > 0.2 && cpu_s < 0.5);
    /* read_chars, write_chars, … and other_cores are the last five */
    char *p = last + strlen(last);
    for (int commas = 0; p > last && commas < 4; p--)
        commas += p[-1] == ',';
    CHECK_INT(sscanf(p + 1, "%llu", &written), 1);
    CHECK(written >= 409600 && written < 500000);
    stk_sampler_free(s);
    stk_folder_release(&folder);
    fclose(sink);
    close(begin[0]);
    close(begin[1]);
}

static void the_node_says_something(void)
{
    struct stk_memory_meter m;
    struct stk_memory_use use;
    stk_memory_meter_init(&m);
    stk_memory_meter_read(&m, &use);
    CHECK(use.cache_bytes != UINT64_MAX);
    struct stk_cpu_use cpu;
    CHECK(stk_cpu_use(&cpu));
}

/* As CUDA reads it: with one GPU too many or too few a run is told to be what it is not. */
static void gpus_that_may_be_seen(void)
{
    static const struct {
        const char *text;
        unsigned n;
    } all[] = {{"", 0},
               {"-1", 0},
               {"NoDevFiles", 0},
               {"0", 1},
               {"2,0", 2},
               {"0,-1,1", 1},
               {"0,,1", 1},
               {" 1 , 2", 2},
               {"GPU-8f", 1},
               {"0,MIG-1/2/3", 2},
               {"99999999999999999999", 0},
               {"1x", 0}};
    struct stk_gpu_word w;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        unsigned n = 0;
        for (const char *list = all[i].text; stk_gpus_next(&list, &w);)
            n++;
        CHECK_INT(n, all[i].n);
    }
    setenv("CUDA_VISIBLE_DEVICES", "NoDevFiles", 1);
    char kind[96];
    CHECK_INT(stk_gpus_glance(kind, sizeof kind), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
    CHECK(!stk_gpus_list());
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(gpus_that_may_be_seen);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    CHECK_RUN(finds_the_whole_tree);
    CHECK_RUN(process_that_hangs);
    CHECK_RUN(reader_does_not_count);
    CHECK_RUN(counts_what_has_ended);
    CHECK_RUN(the_node_says_something);
    scratch_done();
    return CHECK_DONE();
}
