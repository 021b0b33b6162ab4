/*
 * watch_node.c - the processes of a Slurm job on this node, from /proc.
 *
 * A process is the job's when its cgroup says so (job_ID), when its environment does
 * (SLURM_JOB_ID), or when it comes from one of those or from the job's slurmstepd. Each way is
 * closed somewhere: sites without cgroups, programs with an environment of their own, /proc that
 * hides root's processes. Where several "nodes" are one machine, the environment tells them apart.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lab/proc.h"
#include "lab/watch.h"

#define ENVIRON_MAX ((size_t)8 << 20) /* larger than any: a quarter of the stack's limit */
#define PIDS_MAX    65536u
#define BATCH_STEP  "4294967291" /* SLURM_BATCH_SCRIPT */

struct seen {
    pid_t pid;
    struct stk_proc_stat stat;
    int64_t rank;
    bool examined, ours, foreign; /* foreign: of another node of the job */
    bool stepd;                   /* the job's slurmstepd: not its process, but those below are */
    char step[16];
};

struct stk_watcher {
    uint64_t job;
    int proc_fd;
    char node[64]; /* SLURMD_NODENAME; "": not known */
    struct seen *now, *before;
    size_t n, nbefore;
    double now_s, before_s;
    struct stk_watch_nvml *gpus;
    char *environ; /* of the process that is looked at */
    size_t environ_room;
};

/* ---- whose is it? ------------------------------------------------------------------------- */

/* A variable in what /proc/PID/environ gave. NULL: not set. */
static const char *variable(const char *env, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (size_t at = 0; at < n; at += strlen(env + at) + 1)
        if (strncmp(env + at, name, len) == 0 && env[at + len] == '=')
            return env + at + len + 1;
    return NULL;
}

static bool is_number(const char *text, uint64_t number)
{
    char *end;
    return text && *text >= '0' && *text <= '9' && strtoull(text, &end, 10) == number && !*end;
}

/* ".../job_14/step_0/user/task_1" */
static bool cgroup_is(const char *text, uint64_t job, char *step, size_t size)
{
    char want[40];
    snprintf(want, sizeof want, "/job_%llu/", (unsigned long long)job);
    const char *at = strstr(text, want);
    if (!at)
        return false;
    at += strlen(want);
    if (strncmp(at, "step_", 5) == 0)
        snprintf(step, size, "%.*s", (int)strcspn(at + 5, "/\n"), at + 5);
    return true;
}

/* The title of the job's slurmstepd: "slurmstepd: [14.batch]". */
static bool is_stepd(const char *title, uint64_t job, char *step, size_t size)
{
    char want[48];
    snprintf(want, sizeof want, "slurmstepd: [%llu.", (unsigned long long)job);
    if (strncmp(title, want, strlen(want)) != 0)
        return false;
    snprintf(step, size, "%.*s", (int)strcspn(title + strlen(want), "]"), title + strlen(want));
    return true;
}

/* All of it: what Slurm has set may be behind much else. */
static size_t read_environment(struct stk_watcher *w, pid_t pid)
{
    for (;;) {
        size_t n =
            w->environ ? stk_proc_read(w->proc_fd, pid, "environ", w->environ, w->environ_room) : 0;
        size_t room = w->environ_room ? 2 * w->environ_room : 32768;
        if ((w->environ && n + 1 < w->environ_room) || room > ENVIRON_MAX)
            return n;
        char *more = realloc(w->environ, room);
        if (!more)
            return n;
        w->environ = more;
        w->environ_room = room;
    }
}

static void take_environment(struct stk_watcher *w, struct seen *p)
{
    size_t n = read_environment(w, p->pid);
    const char *job = variable(w->environ, n, "SLURM_JOB_ID");
    const char *node = variable(w->environ, n, "SLURMD_NODENAME");
    const char *step = variable(w->environ, n, "SLURM_STEP_ID");
    const char *rank = variable(w->environ, n, "SLURM_PROCID");
    if (!is_number(job, w->job))
        return;
    p->ours = true;
    p->foreign = node && w->node[0] && strcmp(node, w->node) != 0;
    bool batch = !step || strcmp(step, BATCH_STEP) == 0;
    if (!p->step[0])
        snprintf(p->step, sizeof p->step, "%.15s", batch ? "batch" : step);
    p->rank = !batch && rank && *rank >= '0' && *rank <= '9' ? strtoll(rank, NULL, 10) : -1;
}

static void examine(struct stk_watcher *w, struct seen *p)
{
    char text[4096];
    p->examined = true;
    p->rank = -1;
    if (strcmp(p->stat.comm, "slurmstepd") == 0) {
        stk_proc_read(w->proc_fd, p->pid, "cmdline", text, sizeof text);
        p->stepd = is_stepd(text, w->job, p->step, sizeof p->step);
        return;
    }
    stk_proc_read(w->proc_fd, p->pid, "cgroup", text, sizeof text);
    p->ours = cgroup_is(text, w->job, p->step, sizeof p->step);
    take_environment(w, p);
}

static struct seen *find(struct seen *list, size_t n, pid_t pid)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (list[mid].pid < pid)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && list[lo].pid == pid ? &list[lo] : NULL;
}

/* Children of the job's processes are the job's, whatever they did to their environment. */
static void inherit(struct stk_watcher *w)
{
    bool again = true;
    for (int depth = 0; again && depth < 64; depth++) {
        again = false;
        for (size_t i = 0; i < w->n; i++) {
            struct seen *p = &w->now[i], *parent = find(w->now, w->n, p->stat.ppid);
            if (p->ours || p->stepd || !parent || !(parent->ours || parent->stepd))
                continue;
            p->ours = again = true;
            p->foreign = parent->foreign;
            p->rank = parent->rank;
            memcpy(p->step, parent->step, sizeof p->step);
        }
    }
}

/* ---- a sample ----------------------------------------------------------------------------- */

static int by_pid(const void *a, const void *b)
{
    pid_t x = ((const struct seen *)a)->pid, y = ((const struct seen *)b)->pid;
    return (x > y) - (x < y);
}

static int walk(struct stk_watcher *w, struct stk_err *err)
{
    int fd = dup(w->proc_fd);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) {
        int rc = stk_err_sys(err, "/proc", "open");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    rewinddir(d);
    w->n = 0;
    for (struct dirent *e; w->n < PIDS_MAX && (e = readdir(d));) {
        struct seen p = {.pid = (pid_t)strtol(e->d_name, NULL, 10), .rank = -1};
        if (p.pid > 0 && p.pid != getpid() && stk_proc_stat(w->proc_fd, p.pid, &p.stat))
            w->now[w->n++] = p;
    }
    closedir(d);
    if (w->n)
        qsort(w->now, w->n, sizeof *w->now, by_pid);
    return 0;
}

/* What is known of a process from the sample before is not asked again. */
static void identify(struct stk_watcher *w)
{
    for (size_t i = 0; i < w->n; i++) {
        struct seen *p = &w->now[i];
        const struct seen *old = find(w->before, w->nbefore, p->pid);
        if (old && old->stat.start == p->stat.start && old->examined &&
            strcmp(old->stat.comm, p->stat.comm) == 0) {
            p->examined = true;
            p->ours = old->ours;
            p->foreign = old->foreign;
            p->stepd = old->stepd;
            p->rank = old->rank;
            memcpy(p->step, old->step, sizeof p->step);
        } else
            examine(w, p);
    }
    inherit(w);
}

static double busy(const struct stk_watcher *w, const struct seen *p)
{
    const struct seen *old = find(w->before, w->nbefore, p->pid);
    double span = w->now_s - w->before_s, hz = (double)sysconf(_SC_CLK_TCK);
    if (w->nbefore == 0 || span <= 0)
        return -1;
    uint64_t from = old && old->stat.start == p->stat.start ? old->stat.ticks : 0;
    return p->stat.ticks >= from ? (double)(p->stat.ticks - from) / hz / span : 0;
}

static int by_use(const void *a, const void *b)
{
    const struct stk_watch_process *x = a, *y = b;
    if (x->cpus != y->cpus)
        return x->cpus < y->cpus ? 1 : -1;
    return (x->memory_bytes < y->memory_bytes) - (x->memory_bytes > y->memory_bytes);
}

static int collect(struct stk_watcher *w, struct stk_watch_node *out, struct stk_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += w->now[i].ours && !w->now[i].foreign;
    struct stk_watch_process *list = realloc(out->process, (n ? n : 1) * sizeof *list);
    if (!list)
        return stk_err_nomem(err, n * sizeof *list);
    out->process = list;
    out->nprocesses = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct seen *p = &w->now[i];
        if (!p->ours || p->foreign)
            continue;
        struct stk_watch_process *o = &list[out->nprocesses++];
        uint64_t io[STK_IO_COUNTS] = {0};
        stk_proc_io(w->proc_fd, p->pid, io);
        *o = (struct stk_watch_process){.pid = p->pid,
                                        .rank = p->rank,
                                        .threads = p->stat.threads,
                                        .cpus = busy(w, p),
                                        .memory_bytes = p->stat.resident_bytes,
                                        .gpu_memory_bytes = -1,
                                        .read_bytes = io[0],
                                        .write_bytes = io[1],
                                        .state = p->stat.state};
        memcpy(o->step, p->step, sizeof o->step);
        if (!stk_proc_command(w->proc_fd, p->pid, o->command, sizeof o->command))
            memcpy(o->command, p->stat.comm, sizeof p->stat.comm);
        out->processes++;
        out->threads += o->threads;
        out->memory_bytes += o->memory_bytes;
        if (o->cpus >= 0)
            out->cpus = (out->cpus > 0 ? out->cpus : 0) + o->cpus;
    }
    qsort(list, out->nprocesses, sizeof *list, by_use);
    return 0;
}

int stk_watcher_sample(struct stk_watcher *w, struct stk_watch_node *out, struct stk_err *err)
{
    struct timespec mono, real;
    struct seen *swap = w->before;
    w->before = w->now;
    w->now = swap;
    w->nbefore = w->n;
    w->before_s = w->now_s;
    clock_gettime(CLOCK_MONOTONIC, &mono);
    clock_gettime(CLOCK_REALTIME, &real);
    w->now_s = (double)mono.tv_sec + (double)mono.tv_nsec / 1e9;
    int rc = walk(w, err);
    if (rc)
        return rc;
    identify(w);
    struct stk_watch_process *list = out->process;
    *out = (struct stk_watch_node){.process = list, .cpus = -1};
    out->at_s = (double)real.tv_sec + (double)real.tv_nsec / 1e9;
    if (w->node[0] || gethostname(out->host, sizeof out->host) != 0)
        snprintf(out->host, sizeof out->host, "%s", w->node);
    out->host[sizeof out->host - 1] = '\0';
    rc = collect(w, out, err);
    if (!rc)
        stk_watch_nvml_sample(w->gpus, out);
    if (out->nprocesses > STK_WATCH_PROCESSES)
        out->nprocesses = STK_WATCH_PROCESSES;
    return rc;
}

int stk_watcher_new(uint64_t job, struct stk_watcher **out, struct stk_err *err)
{
    struct stk_watcher *w = calloc(1, sizeof *w);
    const char *node = getenv("SLURMD_NODENAME");
    if (!w)
        return stk_err_nomem(err, sizeof *w);
    w->job = job;
    snprintf(w->node, sizeof w->node, "%.63s", node ? node : "");
    w->now = calloc(PIDS_MAX, sizeof *w->now);
    w->before = calloc(PIDS_MAX, sizeof *w->before);
    w->proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = !w->now || !w->before ? stk_err_nomem(err, PIDS_MAX * sizeof *w->now)
             : w->proc_fd < 0      ? stk_err_sys(err, "/proc", "open")
                                   : 0;
    if (rc) {
        stk_watcher_free(w);
        return rc;
    }
    w->gpus = stk_watch_nvml_open();
    *out = w;
    return 0;
}

void stk_watcher_free(struct stk_watcher *w)
{
    if (!w)
        return;
    if (w->proc_fd >= 0)
        close(w->proc_fd);
    stk_watch_nvml_close(w->gpus);
    free(w->now);
    free(w->before);
    free(w->environ);
    free(w);
}

void stk_watch_node_release(struct stk_watch_node *n)
{
    free(n->process);
    *n = (struct stk_watch_node){0};
}
