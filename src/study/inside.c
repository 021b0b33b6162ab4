/*
 * inside.c - what a job of a study does on its node: its run, timed there, with the result
 * in a file that appears complete. Slurm may forget the job; the file stays.
 */
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/num.h"
#include "base/units.h"
#include "sched/slurm/slurm.h"
#include "host/gpu.h"
#include "study/priv.h"

void stk_done_name(const char *name, const char *job, char out[STK_DONE_SIZE])
{
    snprintf(out, STK_DONE_SIZE, "jobs/%s.%.24s.json", name, job);
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

/* CPUs on all nodes, from Slurm's variable in the job. */
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

/* The job's allocation, as far as its environment tells: for sites without accounting. */
static void describe(const struct stk_runner *r, const struct stk_point *p,
                     struct stk_study_run *run)
{
    const struct stk_runner_conditions *c = &r->conditions;
    const char *list = getenv("SLURM_JOB_NODELIST");
    run->nodes = env_number("SLURM_JOB_NUM_NODES");
    run->cores = job_cpus(getenv("SLURM_JOB_CPUS_PER_NODE"));
    run->gpus = job_gpus(run->nodes);
    run->host = list && strlen(list) <= STK_STUDY_TEXT_MAX ? list : c->host;
    run->kind = p->give.gpus && c->gpu[0] ? c->gpu : c->cpu[0] ? c->cpu : NULL;
    run->job = getenv("SLURM_JOB_ID");
}

struct inside {
    struct stk_runner *r;
    struct stk_launcher launcher;
    struct stk_one one;
    const struct stk_point *point;
    uint64_t repeat;
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
    struct stk_study_run run;
    int rc = 0;
    for (uint64_t i = 0; i < in->r->plan.warmup && !rc; i++)
        rc = stk_one_run(&in->one, in->point, in->repeat, &run, err);
    rc = rc ? rc : stk_one_run(&in->one, in->point, in->repeat, &run, err);
    if (rc)
        run = stk_point_run(in->point, in->repeat);
    if (rc == STK_E_STOPPED) { /* scancel, or the time limit: Slurm knows which */
        run.status = STK_RUN_CANCELLED;
    } else if (rc) {
        char text[256];
        run.status = STK_RUN_FAILED;
        snprintf(in->one.note, sizeof in->one.note, "%.200s",
                 err ? stk_err_text(err, text, sizeof text) : "it could not be run");
        run.note = in->one.note;
    }
    describe(in->r, in->point, &run);
    *status = run.status == STK_RUN_OK ? 0 : 1;
    bool stopped = rc == STK_E_STOPPED; /* Slurm's own message is enough */
    if (stopped)
        *status = 128 + SIGTERM;
    int late = stk_folder_write_fields(&in->r->folder, done, stk_study_run_fields, &run, false,
                                       rc && !stopped ? NULL : err);
    return rc && !stopped ? rc : late;
}

static const struct stk_point *point_named(const struct stk_runner *r, const char *id, size_t len)
{
    for (size_t i = 0; i < r->points.n; i++)
        if (strlen(r->points.v[i].id) == len && memcmp(r->points.v[i].id, id, len) == 0)
            return &r->points.v[i];
    return NULL;
}

/* "n8-r2": the point and the number of the run. */
static bool read_name(struct inside *in, const char *name)
{
    const char *dash = NULL;
    int64_t i;
    double f;
    for (const char *p = name; (p = strstr(p, "-r")); p++)
        dash = p;
    if (!dash || stk_num_parse(dash + 2, strlen(dash + 2), &i, &f) != STK_NUM_INT || i < 0 ||
        i > STK_STUDY_RUNS_MAX)
        return false;
    in->repeat = (uint64_t)i;
    in->point = point_named(in->r, name, (size_t)(dash - name));
    return in->point;
}

/* All writers append. Closes it on error. */
static int append_to(int fd, const char *name, struct stk_err *err)
{
    if (fcntl(fd, F_SETFL, O_APPEND) == 0)
        return 0;
    int rc = stk_err_sys(err, name, "open");
    close(fd);
    return rc;
}

static int run_inside(struct inside *in, const char *name, int *status, struct stk_err *err)
{
    struct stk_runner *r = in->r;
    const char *job = getenv("SLURM_JOB_ID");
    const struct stk_metric *metric = r->plan.metric ? &r->metric : NULL;
    char out[STK_DONE_SIZE], done[STK_DONE_SIZE];
    int rc = 0, fd = -1;
    snprintf(out, sizeof out, "jobs/%s.out", name);
    stk_done_name(name, job && *job ? job : "0", done);
    if (job && job[strspn(job, "0123456789")])
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "SLURM_JOB_ID is not a number");
    if (!rc && metric)
        rc = stk_metric_init(&r->metric, r->plan.metric, (enum stk_metric_pick)r->plan.metric_pick,
                             err);
    rc = rc ? rc : stk_launcher_init(&in->launcher, &r->plan, &r->points, &r->conditions, err);
    rc = rc ? rc : stk_folder_fresh(&r->folder, out, &fd, err);
    rc = rc ? rc : append_to(fd, out, err);
    rc = rc ? rc : stk_one_init(&in->one, &r->plan, &in->launcher, metric, fd, err);
    in->one.tick = on_tick;
    in->one.user = in;
    rc = rc ? rc : run_and_tell(in, done, status, err);
    stk_one_release(&in->one);
    stk_launcher_release(&in->launcher);
    return rc;
}

int stk_runner_inside(const char *dir, const char *name, const char *trust, int (*stop)(void),
                      int *status, struct stk_err *err)
{
    struct inside in = {.stop = stop, .one = {.out_fd = -1}};
    *status = 1;
    in.r = calloc(1, sizeof *in.r);
    if (!in.r)
        return stk_err_nomem(err, sizeof *in.r);
    in.r->journal_fd = -1;
    in.r->folder = STK_FOLDER_INIT;
    in.r->trust = trust;
    stk_machine_look(&in.r->conditions);
    int rc = stk_runner_find_plan(in.r, dir, err);
    rc = rc ? rc : stk_runner_check(&in.r->plan, err);
    rc = rc ? rc : stk_runner_make_points(in.r, err);
    if (!rc && !read_name(&in, name))
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "--inside: \"%.40s\" is not a run of a study",
                         name);
    rc = rc ? rc : run_inside(&in, name, status, err);
    stk_runner_free(in.r);
    return rc;
}
