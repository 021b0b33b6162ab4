/*
 * watch.c - the processes of a job on this node, read again and again; and a reading as one line of
 * JSON, whose parsing checks everything.
 *
 * A process belongs to the job if its cgroup says so (job_ID), if its environment does
 * (SLURM_JOB_ID), or if it descends from such a process or from the job's slurmstepd. Each way
 * fails somewhere: sites without cgroups, programs that change their environment, a /proc that
 * hides root's processes. Where several "nodes" are one machine, the environment distinguishes
 * them.
 */
#include "job/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/pool.h"
#include "host/proc.h"
#include "host/tree.h"

#define BATCH_STEP "4294967291" /* SLURM_BATCH_SCRIPT */
#define TRY_AGAIN  16           /* looks until a process that hangs is examined again */

struct stk_watcher {
    struct stk_watch_target target;
    char node[64]; /* SLURMD_NODENAME; "": unknown */
    struct stk_tree tree;
    double now_s, before_s; /* of this look and the previous one; 0: none */
    struct stk_gpus *gpus;
    struct stk_proc_reader reader;
    struct stk_buf text; /* of the current process: its environment, or its command line */
};

/* ---- whose is it? ------------------------------------------------------------------------- */

static bool is_number(const char *text, uint64_t number)
{
    char *end;
    return text && *text >= '0' && *text <= '9' && strtoull(text, &end, 10) == number && !*end;
}

/* The job's own number, and what follows it. */
static bool is_its_number(const struct stk_watch_target *t, const char *number, char end)
{
    char *rest;
    uint64_t want = t->part ? t->part : t->job;
    return *number >= '0' && *number <= '9' && strtoull(number, &rest, 10) == want && *rest == end;
}

/* ".../job_14/step_0/user/task_1" */
static bool cgroup_is(const char *text, const struct stk_watch_target *t, char *step, size_t size)
{
    const char *at = text;
    while ((at = strstr(at, "/job_")) && !is_its_number(t, at + 5, '/'))
        at += 5;
    if (!at)
        return false;
    at = strchr(at + 5, '/') + 1;
    if (strncmp(at, "step_", 5) == 0)
        snprintf(step, size, "%.*s", (int)strcspn(at + 5, "/\n"), at + 5);
    return true;
}

/* The title of the job's slurmstepd: "slurmstepd: [14.batch]". */
static bool is_stepd(const char *title, const struct stk_watch_target *t, char *step, size_t size)
{
    static const char begin[] = "slurmstepd: [";
    const size_t n = sizeof begin - 1;
    if (strncmp(title, begin, n) != 0 || !is_its_number(t, title + n, '.'))
        return false;
    const char *name = strchr(title + n, '.') + 1;
    snprintf(step, size, "%.*s", (int)strcspn(name, "]"), name);
    return true;
}

/* Reads a file of a process that may hang, NUL-terminated, to w->text. False: it hangs, or is
 * examined at a later look. */
static bool read_file(struct stk_watcher *w, struct stk_proc *p, const char *file)
{
    enum stk_proc_read got =
        stk_proc_reader_read(&w->reader, p->pid, file, p->stat.state, &w->text);
    p->again = got != STK_PROC_READ;
    p->age = got == STK_PROC_HANGS ? 1 : p->age;
    return got == STK_PROC_READ;
}

static void take_environment(struct stk_watcher *w, struct stk_proc *p)
{
    if (!read_file(w, p, "environ") || !w->text.len)
        return;
    size_t n = w->text.len;
    const char *env = (const char *)w->text.data;
    const char *job = stk_proc_variable(env, n, "SLURM_JOB_ID");
    const char *node = stk_proc_variable(env, n, "SLURMD_NODENAME");
    const char *step = stk_proc_variable(env, n, "SLURM_STEP_ID");
    const char *rank = stk_proc_variable(env, n, "SLURM_PROCID");
    struct stk_proc_step *m = &p->member;
    if (!is_number(job, w->target.job))
        return;
    p->ours = p->ours || !w->target.part; /* parts of a job have the same environment */
    m->own = true;
    m->elsewhere = node && w->node[0] && strcmp(node, w->node) != 0;
    bool batch = !step || strcmp(step, BATCH_STEP) == 0;
    if (!m->step[0])
        snprintf(m->step, sizeof m->step, "%.15s", batch ? "batch" : step);
    m->rank = !batch && rank && *rank >= '0' && *rank <= '9' ? strtoll(rank, NULL, 10) : -1;
}

/* Anybody can call a process slurmstepd, or set SLURM_JOB_ID: a name counts only for users who
 * could have it from Slurm. */
static bool may_be(int proc_fd, pid_t pid, uid_t one, uid_t other)
{
    uid_t uid = stk_proc_uid(proc_fd, pid);
    return uid == STK_NOBODY || uid == one || uid == other;
}

static void ask(void *user, int proc_fd, struct stk_proc *p)
{
    struct stk_watcher *w = user;
    struct stk_proc_step *m = &p->member;
    uid_t owner = w->target.owner;
    char text[4096];
    if (strcmp(p->stat.comm, STK_WATCH_SAMPLER) == 0) {
        p->barred = true;
        return;
    }
    if (p->again && p->age && p->age++ % TRY_AGAIN) /* it hung */
        return;
    bool known = p->again && p->ours; /* from before it hung */
    free(p->command);
    p->command = NULL;
    p->again = false;
    if (strcmp(p->stat.comm, "slurmstepd") == 0) {
        bool read = read_file(w, p, "cmdline") && w->text.len;
        p->above = read &&
                   is_stepd((const char *)w->text.data, &w->target, m->step, sizeof m->step) &&
                   may_be(proc_fd, p->pid, 0, geteuid());
        return;
    }
    stk_proc_read(proc_fd, p->pid, "cgroup", text, sizeof text);
    p->ours = cgroup_is(text, &w->target, m->step, sizeof m->step) || known;
    if (p->ours || owner == STK_NOBODY || may_be(proc_fd, p->pid, owner, owner))
        take_environment(w, p);
}

/* ---- a sample ----------------------------------------------------------------------------- */

static double busy(const struct stk_watcher *w, const struct stk_proc *p)
{
    double span = w->now_s - w->before_s, hz = (double)sysconf(_SC_CLK_TCK);
    if (w->before_s <= 0 || span <= 0)
        return -1;
    uint64_t from = p->ticks_before;
    return p->stat.ticks >= from ? (double)(p->stat.ticks - from) / hz / span : 0;
}

static int by_use(const void *a, const void *b)
{
    const struct stk_watch_process *x = a, *y = b;
    if (x->cpus != y->cpus)
        return x->cpus < y->cpus ? 1 : -1;
    return (x->memory_bytes < y->memory_bytes) - (x->memory_bytes > y->memory_bytes);
}

/* Read once per program: each read takes the memory lock of the process. */
static void take_command(struct stk_watcher *w, struct stk_proc *p)
{
    char text[sizeof((struct stk_watch_process *)0)->command] = "";
    if (p->command || (p->again && p->age) || !read_file(w, p, "cmdline"))
        return;
    (void)stk_proc_command_of((const char *)w->text.data, w->text.len, text, sizeof text);
    p->command = strdup(text[0] ? text : p->stat.comm);
}

static void describe(struct stk_watcher *w, struct stk_proc *p, struct stk_watch_process *o)
{
    uint64_t io[STK_IO_COUNTS] = {0};
    stk_proc_io(w->tree.proc_fd, p->pid, io);
    *o = (struct stk_watch_process){.pid = p->pid,
                                    .rank = p->member.rank,
                                    .threads = p->stat.threads,
                                    .cpus = busy(w, p),
                                    .memory_bytes = p->stat.resident_bytes,
                                    .gpu_memory_bytes = -1,
                                    .read_bytes = io[0],
                                    .write_bytes = io[1],
                                    .state = {p->stat.state}};
    memcpy(o->step, p->member.step, sizeof o->step);
    take_command(w, p);
    o->hangs = p->again && p->age;
    snprintf(o->command, sizeof o->command, "%s", p->command ? p->command : p->stat.comm);
}

static int collect(struct stk_watcher *w, struct stk_watch_node *out, struct stk_err *err)
{
    for (size_t i = 0; i < w->tree.n; i++) {
        struct stk_proc *p = &w->tree.p[i];
        if (!p->ours || p->member.elsewhere)
            continue;
        if (STK_ARRAY_MORE(out->process, out->nprocesses, err))
            return STK_E_NOMEM;
        struct stk_watch_process *o = &out->process[out->nprocesses++];
        describe(w, p, o);
        out->processes++;
        out->threads += o->threads;
        out->memory_bytes += o->memory_bytes;
        if (o->cpus >= 0)
            out->cpus = (out->cpus > 0 ? out->cpus : 0) + o->cpus;
    }
    if (out->nprocesses)
        qsort(out->process, out->nprocesses, sizeof *out->process, by_use);
    return 0;
}

/* ---- GPUs --------------------------------------------------------------------------------- */

static void add_gpu_process(const struct stk_gpu_process *p, struct stk_watch_node *out)
{
    for (size_t i = 0; i < out->nprocesses; i++) {
        struct stk_watch_process *q = &out->process[i];
        if (q->pid != (int64_t)p->pid || p->memory_bytes > INT64_MAX / 2)
            continue;
        q->gpu_memory_bytes =
            (q->gpu_memory_bytes > 0 ? q->gpu_memory_bytes : 0) + (int64_t)p->memory_bytes;
    }
}

static int by_index(const void *a, const void *b)
{
    unsigned x = ((const struct stk_gpu *)a)->index, y = ((const struct stk_gpu *)b)->index;
    return (x > y) - (x < y);
}

/* Slurm names the job's GPUs in the environment; if it does not hide the others, they are
 * skipped. */
static void collect_gpus(struct stk_gpus *g, struct stk_watch_node *out)
{
    const struct stk_gpu_process *list;
    out->ngpus = stk_gpus_count(g);
    for (unsigned i = 0; i < out->ngpus; i++) {
        stk_gpus_read(g, i, &out->gpu[i]);
        unsigned n = stk_gpus_processes(g, i, &list);
        for (unsigned k = 0; k < n; k++)
            add_gpu_process(&list[k], out);
    }
    if (out->ngpus)
        qsort(out->gpu, out->ngpus, sizeof *out->gpu, by_index);
}

/* ---- from outside ------------------------------------------------------------------------- */

int stk_watcher_read(struct stk_watcher *w, struct stk_watch_node *out, struct stk_err *err)
{
    struct timespec real;
    clock_gettime(CLOCK_REALTIME, &real);
    w->before_s = w->now_s;
    w->now_s = stk_now();
    stk_proc_reader_round(&w->reader);
    int rc = stk_tree_look(&w->tree, err);
    if (rc)
        return rc;
    free(out->process);
    *out = (struct stk_watch_node){.part = -1, .cpus = -1};
    out->at_s = (double)real.tv_sec + (double)real.tv_nsec / 1e9;
    if (w->node[0] || gethostname(out->host, sizeof out->host) != 0)
        snprintf(out->host, sizeof out->host, "%s", w->node);
    out->host[sizeof out->host - 1] = '\0';
    rc = collect(w, out, err);
    if (!rc)
        collect_gpus(w->gpus, out);
    if (out->nprocesses > STK_WATCH_PROCESSES)
        out->nprocesses = STK_WATCH_PROCESSES;
    return rc;
}

int stk_watcher_new(const struct stk_watch_target *target, struct stk_watcher **out,
                    struct stk_err *err)
{
    struct stk_watcher *w = calloc(1, sizeof *w);
    const char *node = getenv("SLURMD_NODENAME");
    if (!w)
        return stk_err_nomem(err, sizeof *w);
    w->target = *target;
    w->tree.proc_fd = -1;
    snprintf(w->node, sizeof w->node, "%.63s", node ? node : "");
    const struct stk_tree_rules rules = {.skip = getpid(), .ask = ask, .user = w};
    int rc = stk_tree_open(&w->tree, &rules, err);
    stk_proc_reader_init(&w->reader, w->tree.proc_fd);
    if (rc) {
        stk_watcher_free(w);
        return rc;
    }
    w->gpus = stk_gpus_open();
    *out = w;
    return 0;
}

void stk_watcher_free(struct stk_watcher *w)
{
    if (!w)
        return;
    stk_gpus_close(w->gpus);
    stk_proc_reader_release(&w->reader);
    stk_tree_release(&w->tree);
    stk_buf_release(&w->text);
    free(w);
}

void stk_watch_node_release(struct stk_watch_node *n)
{
    free(n->process);
    *n = (struct stk_watch_node){0};
}

#define PROCESS(type, name) STK_JFIELD(type, #name, struct stk_watch_process, name)
#define GPU(type, name)     STK_JFIELD(type, #name, struct stk_gpu, name)
#define NODE(type, name)    STK_JFIELD(type, #name, struct stk_watch_node, name)

static const struct stk_watch_process no_process = {
    .pid = -1, .rank = -1, .cpus = -1, .gpu_memory_bytes = -1};
static const struct stk_jfield process_fields[] = {
    {PROCESS(COUNT, pid)},
    {PROCESS(CHARS, step), .cut = true},
    {PROCESS(COUNT, rank)},
    {PROCESS(UNSIGNED, threads)},
    {PROCESS(REAL, cpus), .known = true, .max = 1000000},
    {PROCESS(UNSIGNED, memory_bytes)},
    {PROCESS(COUNT, gpu_memory_bytes)},
    {PROCESS(UNSIGNED, read_bytes)},
    {PROCESS(UNSIGNED, write_bytes)},
    {PROCESS(CHARS, state), .cut = true},
    {PROCESS(FLAG, hangs)},
    {PROCESS(CHARS, command), .cut = true},
    {0},
};

static const struct stk_gpu no_gpu = {
    .index = UINT32_MAX, .util = -1, .memory_bytes = -1, .total_bytes = -1};
static const struct stk_jfield gpu_fields[] = {
    {GPU(COUNT, index)},
    {GPU(CHARS, kind), .cut = true},
    {GPU(REAL, util), .known = true, .max = 1},
    {GPU(COUNT, memory_bytes)},
    {GPU(COUNT, total_bytes)},
    {0},
};

const struct stk_jfield stk_watch_fields[] = {
    {NODE(CHARS, host), .required = true, .cut = true},
    {NODE(COUNT, part), .omit = true},
    {NODE(REAL, at_s), .known = true, .max = 1000000000000},
    {NODE(UNSIGNED, processes)},
    {NODE(UNSIGNED, threads)},
    {NODE(REAL, cpus), .known = true, .max = 1000000},
    {NODE(UNSIGNED, memory_bytes)},
    {STK_JFIELD_ARRAY(STRUCT, "gpus", struct stk_watch_node, gpu, ngpus), .table = gpu_fields,
     .init = &no_gpu},
    {STK_JFIELD_LIST(STRUCT, "process", struct stk_watch_node, process, nprocesses),
     .room = STK_WATCH_PROCESSES, .table = process_fields, .init = &no_process},
    {0},
};

int stk_watch_read(const char *line, size_t len, struct stk_watch_node *out, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_watch_node got = {.at_s = -1, .cpus = -1};
    if (len > STK_WATCH_LINE_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a sample of %zu bytes", len);
    int rc = stk_jfields_parse(stk_watch_fields, line, len, NULL, &arena, &got, err);
    if (!rc && !got.host[0])
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a sample of a node");
    size_t n = got.nprocesses;
    struct stk_watch_process *p = rc ? NULL : realloc(out->process, (n + 1) * sizeof *p);
    if (!rc && !p)
        rc = stk_err_nomem(err, n * sizeof *p);
    for (size_t i = 0; i < n && !rc; i++) {
        p[i] = got.process[i];
        p[i].state[0] = p[i].state[0] >= 'A' && p[i].state[0] <= 'z' ? p[i].state[0] : '?';
    }
    if (!rc) {
        *out = got;
        out->process = p;
        out->part = -1;
    }
    stk_arena_release(&arena);
    return rc;
}
