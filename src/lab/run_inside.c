/*
 * run_inside.c - what a job of a study does on its node: the run it was made for, timed there, and
 * the result left in a file that appears as a whole. Slurm may forget the job; the file stays.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/units.h"
#include "cluster/slurm.h"
#include "host/gpu.h"
#include "lab/run_priv.h"

char *stk_done_path(const char *dir, uint64_t n, uint64_t repeat, const char *job)
{
    char name[96];
    snprintf(name, sizeof name, "jobs/n%llu-r%llu.%.24s.json", (unsigned long long)n,
             (unsigned long long)repeat, job);
    return stk_path_join(dir, name);
}

static int64_t env_number(const char *name)
{
    const char *text = getenv(name);
    int64_t i;
    double f;
    return text && stk_num_parse(text, strlen(text), &i, &f) == STK_NUM_INT && i >= 0 &&
                   i <= STK_STUDY_N_MAX
               ? i
               : -1;
}

/* CPUs of all nodes, as Slurm tells a job. */
static int64_t job_cpus(const char *text)
{
    int64_t sum = 0;
    uint32_t cpus, nodes;
    while (text && stk_slurm_per_node(&text, &cpus, &nodes)) {
        if ((uint64_t)cpus * nodes > (uint64_t)(STK_STUDY_N_MAX - sum))
            return -1;
        sum += (int64_t)cpus * nodes;
    }
    return sum > 0 ? sum : -1;
}

static int64_t job_gpus(int64_t nodes)
{
    int64_t here = env_number("SLURM_GPUS_ON_NODE");
    const char *list = stk_gpus_list();
    if (here < 0 && list) {
        struct stk_gpu_word w;
        for (here = 0; stk_gpus_next(&list, &w);)
            here++;
    }
    return here >= 0 && nodes > 0 && here <= STK_STUDY_N_MAX / nodes ? here * nodes : here;
}

/* What the job was given, as far as its environment tells: for sites without accounting. */
static void describe(const struct stk_runs *r, struct stk_study_run *run)
{
    const struct stk_runs_conditions *c = &r->conditions;
    const char *list = getenv("SLURM_JOB_NODELIST");
    bool gpus = r->plan.sets & STK_SETS_GPUS;
    run->nodes = env_number("SLURM_JOB_NUM_NODES");
    run->cores = job_cpus(getenv("SLURM_JOB_CPUS_PER_NODE"));
    run->gpus = job_gpus(run->nodes);
    run->host = list && strlen(list) <= STK_STUDY_TEXT_MAX ? list : c->host;
    run->kind = gpus && c->gpu[0] ? c->gpu : c->cpu[0] ? c->cpu : NULL;
    run->job = getenv("SLURM_JOB_ID");
}

static int write_done(const char *path, const struct stk_study_run *run, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_study_write_run(run, &w);
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_write_file_atomic(path, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

struct inside {
    struct stk_runs *r;
    struct stk_launcher launcher;
    struct stk_one one;
    uint64_t n, repeat;
    int (*stop)(void);
};

static int on_tick(void *user, const char *phase)
{
    struct inside *in = user;
    (void)phase;
    return in->stop ? in->stop() : 0;
}

static int run_and_tell(struct inside *in, const char *done, int *status, struct stk_err *err)
{
    struct stk_study_run run = STK_STUDY_RUN_INIT;
    int rc = 0;
    for (uint64_t i = 0; i < in->r->plan.warmup && !rc; i++)
        rc = stk_one_run(&in->one, in->n, &run, err);
    rc = rc ? rc : stk_one_run(&in->one, in->n, &run, err);
    if (rc == STK_E_STOPPED) { /* scancel, or the time limit: Slurm knows which */
        run = (struct stk_study_run)STK_STUDY_RUN_INIT;
        run.n = in->n;
        run.status = STK_RUN_CANCELLED;
    } else if (rc) {
        char text[256];
        run = (struct stk_study_run)STK_STUDY_RUN_INIT;
        run.n = in->n;
        run.status = STK_RUN_FAILED;
        snprintf(in->one.note, sizeof in->one.note, "%.200s",
                 err ? stk_err_text(err, text, sizeof text) : "it could not be run");
        run.note = in->one.note;
    }
    run.repeat = (uint32_t)in->repeat;
    describe(in->r, &run);
    *status = run.status == STK_RUN_OK ? 0 : 1;
    bool stopped = rc == STK_E_STOPPED; /* Slurm's own words about that are enough */
    if (stopped)
        *status = 128 + SIGTERM;
    int late = write_done(done, &run, rc && !stopped ? NULL : err);
    return rc && !stopped ? rc : late;
}

static bool read_name(const char *name, uint64_t *n, uint64_t *repeat)
{
    const char *dash = strchr(name, '-');
    int64_t a, b;
    double f;
    if (name[0] != 'n' || !dash || dash[1] != 'r' ||
        stk_num_parse(name + 1, (size_t)(dash - name) - 1, &a, &f) != STK_NUM_INT ||
        stk_num_parse(dash + 2, strlen(dash + 2), &b, &f) != STK_NUM_INT || a < 1 ||
        a > STK_STUDY_N_MAX || b < 0 || b > STK_STUDY_RUNS_MAX)
        return false;
    *n = (uint64_t)a;
    *repeat = (uint64_t)b;
    return true;
}

static int run_inside(struct inside *in, const char *name, int *status, struct stk_err *err)
{
    struct stk_runs *r = in->r;
    const char *job = getenv("SLURM_JOB_ID");
    const struct stk_metric *metric = r->plan.metric ? &r->metric : NULL;
    char *out = stk_runs_path(r, "jobs/%.80s.out", name);
    char *done = stk_done_path(r->dir, in->n, in->repeat, job && *job ? job : "0");
    int rc = out && done ? 0 : stk_err_nomem(err, 4096);
    if (!rc && job && job[strspn(job, "0123456789")])
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "SLURM_JOB_ID is not a number");
    if (!rc && metric)
        rc = stk_metric_init(&r->metric, r->plan.metric, (enum stk_metric_pick)r->plan.metric_pick,
                             err);
    rc = rc ? rc : stk_launcher_init(&in->launcher, &r->plan, false, &r->conditions, err);
    rc = rc ? rc : stk_one_init(&in->one, &r->plan, &in->launcher, metric, out, err);
    in->one.tick = on_tick;
    in->one.user = in;
    rc = rc ? rc : run_and_tell(in, done, status, err);
    stk_one_release(&in->one);
    stk_launcher_release(&in->launcher);
    free(out);
    free(done);
    return rc;
}

int stk_runs_inside(const char *dir, const char *name, int (*stop)(void), int *status,
                    struct stk_err *err)
{
    struct inside in = {.stop = stop, .one = {.out_fd = -1}};
    *status = 1;
    if (!read_name(name, &in.n, &in.repeat))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--inside: \"%.40s\" is not a run of a study", name);
    in.r = calloc(1, sizeof *in.r);
    if (!in.r)
        return stk_err_nomem(err, sizeof *in.r);
    in.r->journal_fd = in.r->jobs_fd = -1;
    stk_machine_look(&in.r->conditions);
    int rc = stk_runs_find_plan(in.r, dir, err);
    rc = rc ? rc : run_inside(&in, name, status, err);
    stk_runs_free(in.r);
    return rc;
}
