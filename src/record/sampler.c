/*
 * sampler.c - the sampling thread, and the lines it writes. It holds the lock while it looks at
 * processes, so that none is reaped (which moves its CPU time to the launcher) in between. NVML,
 * which may be slow to start and hang with its driver, has a thread of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "base/thread.h"
#include "host/cpus.h"
#include "host/gpu.h"
#include "host/cgroup.h"
#include "record/sampler.h"

#define STUCK_S     5  /* a thread that has not stopped after this time is left behind */
#define GPU_STUCK_S 2  /* … one that asks a driver */
#define CPU_REST    19 /* pause after a reading, in multiples of its CPU time: 5 % of one CPU */

struct node_use {
    struct stk_memory_use memory;
    struct stk_cpu_use cpu; /* so far */
    bool cpu_known;
};
struct gpu_use {
    double util;         /* 0..1, mean; -1: unknown */
    double memory_bytes; /* added up; -1: unknown */
};

struct stk_sampler {
    struct stk_sampler_options o;
    struct stk_tree tree;
    struct stk_proc_reader reader;
    struct stk_memory_meter memory;
    struct stk_gpus *gpus;
    struct gpu_use gpu;  /* as last seen */
    int csv;             /* -1: not open, or not writable */
    struct stk_buf line; /* being made */
    struct stk_thread *thread, *watcher;
    bool stuck; /* one of them */
    pthread_mutex_t lock; /* tree, gpu, totals.gpu* */
    double last_s, last_cpu_s;
    struct node_use last_node;
    struct stk_sampler_totals totals;
};

static double at_s(const struct stk_sampler *s)
{
    return stk_now() - (double)s->o.start_mono_ns * 1e-9;
}

/* CPU time of the processes that the launcher has reaped. */
static double waited_cpu_s(void)
{
    struct rusage r;
    if (getrusage(RUSAGE_CHILDREN, &r) != 0)
        return 0;
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static void look_at_node(const struct stk_sampler *s, struct node_use *use)
{
    stk_memory_meter_read(&s->memory, &use->memory);
    use->cpu_known = stk_cpu_use(&use->cpu);
}

static void look_at_gpus(const struct stk_gpus *g, struct gpu_use *use)
{
    double util = 0, bytes = 0;
    unsigned nutil = 0, nmemory = 0;
    for (unsigned i = 0; i < stk_gpus_count(g); i++) {
        struct stk_gpu one;
        stk_gpus_read(g, i, &one);
        util += one.util >= 0 ? one.util : 0;
        nutil += one.util >= 0;
        bytes += one.memory_bytes >= 0 ? (double)one.memory_bytes : 0;
        nmemory += one.memory_bytes >= 0;
    }
    use->util = nutil ? util / nutil : -1;
    use->memory_bytes = nmemory ? bytes : -1;
}

/* ---- a line ------------------------------------------------------------------------------- */

static void put_u64(struct stk_buf *b, uint64_t v, bool known)
{
    stk_buf_putc(b, ',');
    if (known)
        stk_buf_printf(b, "%llu", (unsigned long long)v);
}

static void put_real(struct stk_buf *b, int digits, double v, bool known)
{
    stk_buf_putc(b, ',');
    if (known)
        stk_buf_printf(b, "%.*f", digits, v);
}

/* One write per line: nothing is lost if we are killed. A full disk ends the file, not the program;
 * the totals say what happened. */
static int flush_line(struct stk_sampler *s, struct stk_err *err)
{
    int rc = stk_buf_check(&s->line, err);
    if (!rc)
        rc = stk_write_full(s->csv, s->line.data, s->line.len, s->o.csv_name, err);
    if (rc) {
        close(s->csv);
        s->csv = -1;
    }
    return rc;
}

static void write_line(struct stk_sampler *s, double now_s, double cpu_s,
                       const struct stk_tree_sum *sum, const struct node_use *node,
                       const struct gpu_use *gpu)
{
    double span_s = now_s - s->last_s;
    const struct node_use *was = &s->last_node;
    bool alive = sum->processes > 0, known = node->cpu_known && was->cpu_known;
    double used_s = fmax(0, cpu_s - s->last_cpu_s);
    double waited_s = fmax(0, node->cpu.iowait_s - was->cpu.iowait_s);
    double others_s = fmax(0, node->cpu.busy_s - was->cpu.busy_s - used_s);
    struct stk_buf *f = &s->line;
    struct stk_err err;
    if (s->csv < 0)
        return;
    stk_buf_reset(f);
    stk_buf_printf(f, "%.3f", now_s);
    put_u64(f, sum->processes, true);
    put_u64(f, sum->threads, true);
    put_real(f, 3, used_s / span_s, true);
    put_real(f, 3, waited_s / span_s, known);
    put_u64(f, sum->resident_bytes, alive);
    put_u64(f, node->memory.cache_bytes, node->memory.cache_bytes != UINT64_MAX);
    put_real(f, 4, gpu->util, gpu->util >= 0);
    put_u64(f, (uint64_t)(gpu->memory_bytes > 0 ? gpu->memory_bytes : 0), gpu->memory_bytes >= 0);
    for (size_t i = 0; i < STK_IO_COUNTS; i++)
        put_u64(f, sum->io[i], true);
    put_real(f, 3, others_s / span_s, known);
    stk_buf_putc(f, '\n');
    if (flush_line(s, &err))
        snprintf(s->totals.trouble, sizeof s->totals.trouble, "%.127s", err.what);
    else
        s->totals.readings++;
}

static void take_reading(struct stk_sampler *s, bool last)
{
    struct stk_tree_sum sum;
    struct node_use node;
    struct gpu_use gpu;
    /* Before the look, which may take long if processes are new: the next one counts the CPU time
     * since then, too. */
    double now_s = at_s(s);
    pthread_mutex_lock(&s->lock);
    stk_sampler_look(&s->tree, &s->reader, &s->o.logs, &sum);
    double cpu_s = waited_cpu_s() + (double)sum.cpu_ticks / (double)sysconf(_SC_CLK_TCK);
    gpu = s->gpu;
    pthread_mutex_unlock(&s->lock);
    look_at_node(s, &node);
    if (sum.processes > 1 && node.memory.used_bytes < sum.resident_bytes)
        sum.resident_bytes = node.memory.used_bytes;
    struct stk_sampler_totals *t = &s->totals;
    t->peak_resident_bytes =
        sum.resident_bytes > t->peak_resident_bytes ? sum.resident_bytes : t->peak_resident_bytes;
    t->peak_threads = sum.threads > t->peak_threads ? sum.threads : t->peak_threads;
    t->peak_processes = sum.processes > t->peak_processes ? sum.processes : t->peak_processes;
    /* A fraction of a period at the end says little, unless it is all there is. */
    if (last && t->readings && now_s - s->last_s < s->o.every_s / 4)
        return;
    if (now_s <= s->last_s)
        return;
    write_line(s, now_s, cpu_s, &sum, &node, &gpu);
    s->last_s = now_s;
    s->last_cpu_s = cpu_s;
    s->last_node = node;
}

/* ---- the thread --------------------------------------------------------------------------- */

static int sampling(void *user, struct stk_err *err)
{
    struct stk_sampler *s = user;
    (void)err;
    double start_s = (double)s->o.start_mono_ns * 1e-9, next_s = start_s + s->o.every_s;
    look_at_node(s, &s->last_node);
    while (stk_thread_sleep(s->thread, next_s)) {
        double before_s = stk_thread_cpu_s();
        take_reading(s, false);
        /* On the grid of whole periods. */
        double cost_s = stk_thread_cpu_s() - before_s, least_s = stk_now() + CPU_REST * cost_s;
        next_s = start_s + (floor((least_s - start_s) / s->o.every_s) + 1) * s->o.every_s;
    }
    take_reading(s, true);
    return 0;
}

static int watching(void *user, struct stk_err *err)
{
    struct stk_sampler *s = user;
    (void)err;
    struct gpu_use use;
    struct stk_gpus *g = stk_gpus_open();
    pthread_mutex_lock(&s->lock);
    s->gpus = g;
    s->totals.gpus = stk_gpus_count(g);
    snprintf(s->totals.gpu_kind, sizeof s->totals.gpu_kind, "%s", stk_gpus_kind(g));
    pthread_mutex_unlock(&s->lock);
    /* A reading uses the latest values: NVML itself averages over up to a second. */
    double next_s = stk_now();
    while (g && stk_thread_sleep(s->watcher, next_s)) {
        look_at_gpus(g, &use);
        pthread_mutex_lock(&s->lock);
        s->gpu = use;
        pthread_mutex_unlock(&s->lock);
        next_s = stk_now() + s->o.every_s;
    }
    return 0;
}

/* ---- from outside ------------------------------------------------------------------------- */

static int open_csv(struct stk_sampler *s, struct stk_err *err)
{
    int rc = stk_folder_fresh(s->o.csv_folder, s->o.csv_name, &s->csv, err);
    if (rc)
        return rc;
    stk_buf_puts(
        &s->line,
        "at_s,processes,threads,cpu_cores,iowait_cores,resident_bytes,cache_bytes,gpu_util,"
        "gpu_memory_bytes,read_chars,write_chars,storage_read_bytes,storage_write_bytes,"
        "other_cores\n");
    return flush_line(s, err);
}

static int start_threads(struct stk_sampler *s, struct stk_err *err)
{
    int rc = stk_thread_open(&s->thread, err);
    if (rc)
        return rc;
    stk_thread_begin(s->thread, sampling, NULL, s);
    if (stk_thread_open(&s->watcher, NULL) == 0)
        stk_thread_begin(s->watcher, watching, NULL, s);
    return 0;
}

int stk_sampler_start(const struct stk_sampler_options *o, struct stk_sampler **out,
                      struct stk_err *err)
{
    struct stk_sampler *s = calloc(1, sizeof *s);
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    s->o = *o;
    s->totals.gpus = UINT_MAX;
    s->gpu = (struct gpu_use){.util = -1, .memory_bytes = -1};
    s->tree.proc_fd = s->csv = -1;
    pthread_mutex_init(&s->lock, NULL);
    stk_memory_meter_init(&s->memory);
    int rc = stk_sampler_open_tree(&s->tree, o->root, err);
    stk_proc_reader_init(&s->reader, s->tree.proc_fd);
    if (!rc && o->every_s > 0)
        rc = open_csv(s, err);
    if (!rc && o->every_s > 0)
        rc = start_threads(s, err);
    if (rc)
        stk_sampler_free(s);
    else
        *out = s;
    return rc;
}

/* The thread holds the lock while it reads /proc, which may hang with a process's memory. */
static bool lock_within(struct stk_sampler *s, unsigned seconds)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += seconds;
    return pthread_mutex_timedlock(&s->lock, &limit) == 0;
}

void stk_sampler_reap(struct stk_sampler *s, pid_t pid, int *status)
{
    bool locked = lock_within(s, 1);
    siginfo_t info;
    /* It may be a child that read for the sampler, which has waited for it meanwhile. */
    bool there = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (locked && there && !stk_proc_reader_is(&s->reader, pid))
        stk_tree_ended(&s->tree, pid);
    (void)stk_reap(pid, status, NULL);
    if (locked)
        pthread_mutex_unlock(&s->lock);
}

bool stk_sampler_stop(struct stk_sampler *s)
{
    if (s->stuck)
        return false;
    bool ended = stk_thread_close(s->thread, STUCK_S);
    s->stuck = !stk_thread_close(s->watcher, ended ? GPU_STUCK_S : 0) || !ended;
    if (!s->stuck) /* else they use these */
        s->thread = s->watcher = NULL;
    return ended;
}

const struct stk_sampler_totals *stk_sampler_totals(const struct stk_sampler *s)
{
    return &s->totals;
}

const struct stk_tree *stk_sampler_tree(const struct stk_sampler *s)
{
    return &s->tree;
}

void stk_sampler_free(struct stk_sampler *s)
{
    if (!s || s->stuck)
        return; /* a thread stuck in a driver still uses it */
    if (s->csv >= 0)
        close(s->csv);
    stk_buf_release(&s->line);
    stk_gpus_close(s->gpus);
    stk_proc_reader_release(&s->reader);
    stk_tree_release(&s->tree);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
