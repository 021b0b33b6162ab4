/* job.c - a run as a job: what it changes of a workload, in a child process or of a scheduler. */

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/helper.h"
#include "bench/bench.h"

#define PATIENCE_S 300.0 /* a rank that waits longer for storage hangs: as in `stoker bench` */

#define JOB(type, name, member)                                                                    \
    {                                                                                              \
        STK_JFIELD(type, name, struct stk_bench_job, member)                                       \
    }
#define FIGURE(type, name, member)                                                                 \
    {                                                                                              \
        STK_JFIELD(type, name, struct stk_bench_figures, member)                                   \
    }

const struct stk_jfield stk_bench_job_fields[] = {
    {STK_JFIELD_WORDS("set", struct stk_bench_job, set)},
    JOB(TEXT, "data", data),
    JOB(TEXT, "storage", storage),
    JOB(FLAG, "stoker", stoker),
    JOB(UNSIGNED, "cpus", cpus),
    {0},
};

const struct stk_jfield stk_bench_figures_fields[] = {
    FIGURE(REAL, "epoch_seconds", epoch_s),
    FIGURE(REAL, "measured_seconds", wall_s),
    FIGURE(REAL, "measured_steps", steps),
    FIGURE(REAL, "elapsed_seconds", elapsed_s),
    FIGURE(REAL, "wait_seconds", wait_s),
    FIGURE(REAL, "load_seconds", load_s),
    FIGURE(REAL, "checkpoint_seconds", save_s),
    FIGURE(REAL, "compute_seconds", compute_s),
    FIGURE(REAL, "open_seconds", open_s),
    FIGURE(REAL, "request_seconds", request_s),
    FIGURE(REAL, "request_bytes", request_bytes),
    FIGURE(REAL, "memory_bytes", memory_bytes),
    FIGURE(UNSIGNED, "cpus", cpus),
    {0},
};

/* ---- what runs ------------------------------------------------------------------------------ */

int stk_bench_configure(struct stk_bench_config *c, struct stk_workload *w, bool stoker,
                        const char *storage, struct stk_err *err)
{
    c->w = w;
    c->stoker = stoker;
    int rc = storage ? stk_storage_parse(storage, &c->model.storage, err) : 0;
    c->model.is_virtual = storage != NULL;
    if (c->stoker && w->reader.decode) /* really, by the loader's own threads */
        w->reader.think = (struct stk_dist){.kind = STK_DIST_CONSTANT};
    if (rc == 0 && (w->reader.cache == STK_CACHE_DROP || w->reader.cache == STK_CACHE_FRESH))
        stk_bench_data_drop(c->data, c->stoker);
    return rc;
}

/* Keeps this process, and what it starts, to some of its CPUs. *have: how many it has then. */
static int use_cpus(uint64_t n, uint64_t *have, struct stk_err *err)
{
    cpu_set_t all, some;
    CPU_ZERO(&some);
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return stk_err_sys(err, NULL, "ask for the CPUs");
    for (size_t i = 0; i < CPU_SETSIZE && (uint64_t)CPU_COUNT(&some) < n; i++)
        if (CPU_ISSET(i, &all))
            CPU_SET(i, &some);
    if (n && sched_setaffinity(0, sizeof some, &some) != 0)
        return stk_err_sys(err, NULL, "keep to some CPUs");
    *have = (uint64_t)CPU_COUNT(n ? &some : &all);
    return 0;
}

/* ---- what comes of it ----------------------------------------------------------------------- */

static void take_figures(const struct stk_bench_result *r, struct stk_bench_figures *out)
{
    const struct stk_bench_rank *first = &r->rank[0];
    const struct stk_io_tally *io = &r->io;
    double requests = (double)io->requests, opens = (double)io->opens;
    out->epoch_s = r->epoch_s;
    out->wall_s = r->wall_s;
    out->steps = (double)first->measured_steps;
    out->load_s = first->load_s + first->head_s;
    for (uint32_t i = 0; i < r->ranks; i++) {
        const struct stk_bench_rank *one = &r->rank[i];
        out->wait_s = fmax(out->wait_s, one->wait_s);
        out->elapsed_s = fmax(out->elapsed_s, one->head_s + one->load_s + one->elapsed_s);
    }
    out->save_s = r->checkpoint_s;
    out->compute_s = first->compute_s;
    out->open_s = opens > 0 ? io->open_s / opens : NAN;
    out->request_s = requests > 0 ? io->request_s / requests : NAN;
    out->request_bytes = requests > 0 ? (double)io->bytes / requests : NAN;
    out->memory_bytes = (double)r->memory_bytes;
}

struct ticking {
    int (*stop)(void);
};

static int on_step(void *user, const struct stk_bench_live *live)
{
    const struct ticking *t = user;
    (void)live;
    return t->stop ? t->stop() : 0;
}

static int run(const struct stk_bench_job *job, struct stk_workload *w, int (*stop)(void),
               struct stk_bench_figures *out, struct stk_err *err)
{
    struct stk_bench_data d = STK_BENCH_DATA_INIT;
    struct stk_bench_result r = {.lost = -1};
    struct ticking ticking = {stop};
    struct stk_bench_config c = {
        .data = &d, .patience_s = PATIENCE_S, .tick = on_step, .user = &ticking};
    int rc = job->data ? stk_bench_data_open_within(&d, w, job->data, PATIENCE_S, NULL, err)
                       : stk_bench_data_users(&d, w, err);
    rc = rc ? rc : stk_bench_configure(&c, w, job->stoker, job->storage, err);
    rc = rc ? rc : stk_bench_run(&c, (uint32_t)w->training.ranks, false, &r, err);
    if (!rc && stop && stop())
        rc = stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    if (!rc && r.lost >= 0)
        rc = stk_err_set(err, STK_E_SYS, NULL, -1, "rank %lld is lost: %s", (long long)r.lost,
                         r.why_lost);
    if (!rc)
        take_figures(&r, out);
    stk_bench_release(&r);
    stk_bench_data_close(&d);
    return rc;
}

int stk_bench_job_run(const struct stk_bench_job *job, int (*stop)(void),
                      struct stk_bench_figures *out, struct stk_err *err)
{
    struct stk_workload w;
    stk_workload_borrow(job->w, &w);
    *out = (struct stk_bench_figures){0};
    int rc = use_cpus(job->cpus, &out->cpus, err);
    for (const char *const *s = job->set; s && *s && !rc; s++)
        rc = stk_workload_set(&w, *s, err);
    rc = rc ? rc : stk_workload_settle(&w, err);
    rc = rc ? rc : run(job, &w, stop, out, err);
    stk_workload_release(&w);
    return rc;
}

/* ---- in a child ----------------------------------------------------------------------------- */

static volatile sig_atomic_t ended;

static void on_term(int signal)
{
    (void)signal;
    ended = 1;
}

static int is_ended(void)
{
    return ended;
}

/* What this process has of its parent's memory is none of the run's. */
static double resident_bytes(void)
{
    struct stk_buf b = STK_BUF_INIT;
    unsigned long long all = 0, resident = 0;
    if (stk_read_file("/proc/self/statm", 4096, &b, NULL) == 0)
        (void)sscanf(stk_buf_cstr(&b), "%llu %llu", &all, &resident);
    stk_buf_release(&b);
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

int stk_bench_job_child(const struct stk_bench_job *job)
{
    const struct sigaction term = {.sa_handler = on_term};
    struct stk_bench_figures f;
    struct stk_buf text = STK_BUF_INIT;
    struct stk_err err = {0};
    char why[1000];
    double before = resident_bytes();
    (void)sigaction(SIGTERM, &term, NULL);
    stk_helper_close(-1);
    int rc = stk_bench_job_run(job, is_ended, &f, &err), out = STDOUT_FILENO;
    if (rc) {
        out = STDERR_FILENO;
        stk_buf_printf(&text, "%s\n", stk_err_text(&err, why, sizeof why));
    } else {
        f.memory_bytes = fmax(f.memory_bytes - before, 0);
        stk_jfields_text(stk_bench_figures_fields, &f, false, &text);
    }
    rc = stk_write_full(out, text.data, text.len, NULL, NULL) || rc;
    stk_buf_release(&text);
    return rc;
}
