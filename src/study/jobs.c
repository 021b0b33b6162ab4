/*
 * jobs.c - the executor "slurm": submits runs as jobs together, then waits for them. Which
 * job is which run is on disk before anything else happens, so you may close your laptop.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/pool.h"
#include "sched/slurm/slurm.h"
#include "study/priv.h"

#define TICK_S         0.25
#define NEW_RESULT_S   1.0 /* between looks when a job has just left its result */
#define RESULTS_A_TICK 64

/* ---- jobs on disk ------------------------------------------------------------------------- */

static int remember(struct stk_jobs *jobs, const struct stk_job_run *j, struct stk_err *err)
{
    int rc = STK_ARRAY_MORE(jobs->job, jobs->n, err);
    if (rc)
        return rc;
    jobs->job[jobs->n++] = *j;
    j->tally->waiting++;
    return 0;
}

static bool is_collected(const struct stk_runner *r, const struct stk_job_run *j)
{
    const struct stk_study_series *s = &r->study.series[j->tally->series];
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)j->id);
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].job && strcmp(s->run[i].job, text) == 0)
            return true;
    return false;
}

/* A later line of the journal gives the id of an unsure job: it is no longer unsure. */
static void drop_unsure(struct stk_jobs *jobs, const struct stk_job_run *j)
{
    for (size_t i = 0; i < jobs->n; i++) {
        struct stk_job_run *known = &jobs->job[i];
        if (!known->id && known->tally == j->tally && known->repeat == j->repeat) {
            known->tally->waiting--;
            *known = jobs->job[--jobs->n];
            return;
        }
    }
}

/* A line of jobs.jsonl. */
struct line {
    uint64_t n, repeat, job, submitted; /* submitted: seconds since 1970 */
    const char *point, *token;
};
static const struct stk_jfield line_fields[] = {
    {STK_JFIELD(UNSIGNED, "n", struct line, n)},
    {STK_JFIELD(TEXT, "point", struct line, point), .omit = true},
    {STK_JFIELD(UNSIGNED, "repeat", struct line, repeat), .required = true,
     .max = STK_STUDY_RUNS_MAX},
    {STK_JFIELD(UNSIGNED, "job", struct line, job), .required = true},
    {STK_JFIELD(TEXT, "token", struct line, token), .max = STK_TOKEN_SIZE - 1},
    {STK_JFIELD(UNSIGNED, "submitted", struct line, submitted)},
    {0},
};

static int take_job(void *user, const struct stk_jval *v, struct stk_err *err)
{
    struct stk_runner *r = user;
    struct stk_jobs *jobs = r->there;
    struct line line = {.token = ""};
    int rc = stk_jfields_read(line_fields, v, NULL, NULL, &line, err);
    if (rc)
        return rc;
    const struct stk_study_run of = {.n = line.n, .point = line.point};
    struct stk_job_run j = {
        .id = line.job, .repeat = line.repeat, .tally = stk_runner_point_of(r, &of)};
    snprintf(j.token, sizeof j.token, "%s", line.token ? line.token : "");
    if ((!j.id && !j.token[0]) || !j.tally)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a job");
    drop_unsure(jobs, &j);
    return j.id && is_collected(r, &j) ? 0 : remember(jobs, &j, err);
}

static int open_jobs(struct stk_runner *r, struct stk_err *err)
{
    struct stk_jobs *jobs = r->there = calloc(1, sizeof *jobs);
    if (!jobs)
        return stk_err_nomem(err, sizeof *jobs);
    jobs->fd = -1;
    return stk_lines_open(&r->folder, "jobs.jsonl", &jobs->fd, take_job, r, err);
}

static void close_jobs(struct stk_runner *r)
{
    struct stk_jobs *jobs = r->there;
    if (jobs->fd >= 0)
        close(jobs->fd);
    free(jobs->job);
    free(jobs);
    r->there = NULL;
}

int stk_jobs_write(struct stk_jobs *jobs, const struct stk_job_run *j, struct stk_err *err)
{
    const struct stk_point *p = j->tally->point;
    const struct line line = {.n = p->n,
                              .point = p->by_n ? NULL : p->id,
                              .repeat = j->repeat,
                              .job = j->id,
                              .token = j->token,
                              .submitted = (uint64_t)time(NULL)};
    int rc = stk_lines_add(jobs->fd, line_fields, &line, "jobs.jsonl", err);
    if (!rc && fdatasync(jobs->fd) != 0)
        rc = stk_err_sys(err, "jobs.jsonl", "fdatasync");
    return rc;
}

/* ---- submitting --------------------------------------------------------------------------- */

/* Called now and then while a client of Slurm runs. */
static int on_wait(void *user)
{
    return stk_runner_tick(user, "jobs");
}

struct stk_slurm stk_jobs_slurm(struct stk_runner *r)
{
    return (struct stk_slurm){.stop = on_wait, .user = r};
}

/* A job that may exist stays on the list until its name is found or known to be missing. */
static int submit(struct stk_runner *r, struct stk_tally *t, struct stk_slurm_receipt *got,
                  struct stk_err *err)
{
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    struct stk_jobs *jobs = r->there;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_buf script = STK_BUF_INIT;
    struct stk_words args = {.arena = &arena};
    struct stk_job_run j = {.tally = t, .repeat = stk_tally_next(t), .pending = true};
    snprintf(j.token, sizeof j.token, "%s", jobs->token);
    int rc = stk_batch_make(r, &j, &script, &args, err);
    struct stk_slurm_batch batch = {
        .script = stk_buf_cstr(&script), .len = script.len, .args = args.v, .dir = r->plan.cwd};
    *got = (struct stk_slurm_receipt){0};
    rc = rc ? rc : stk_slurm_submit(&slurm, &batch, got, err);
    j.id = got->id;
    if (rc == 0 || got->lost) {
        int kept = stk_jobs_write(jobs, &j, rc ? NULL : err);
        kept = kept ? kept : remember(jobs, &j, rc ? NULL : err);
        rc = rc ? rc : kept;
    }
    stk_buf_release(&script);
    stk_arena_release(&arena);
    return rc;
}

/* Slurm refuses this point: keeps a run that never started, with Slurm's message. */
static int keep_refusal(struct stk_runner *r, struct stk_tally *t, const struct stk_err *why,
                        struct stk_err *err)
{
    struct stk_study_run run = stk_point_run(t->point, stk_tally_next(t));
    char note[STK_STUDY_TEXT_MAX + 1];
    snprintf(note, sizeof note, "%.250s", why->what);
    run.status = STK_RUN_PENDING;
    run.note = note;
    return stk_runner_keep(r, t, &run, err);
}

static int start(struct stk_runner *r, struct stk_tally *t, struct stk_err *err)
{
    struct stk_err this = {0};
    struct stk_slurm_receipt got;
    if (stk_runner_tick(r, "jobs") != 0)
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
    int rc = submit(r, t, &got, &this);
    if (rc == STK_E_UNSUPPORTED) {
        r->refused = this;
        r->later = got.later;
        if (!r->later)
            return keep_refusal(r, t, &this, err);
        if (stk_runner_waiting(r)) /* not a failed run: the rest is tried at the next look */
            return 0;
    }
    if (rc && err)
        *err = this;
    return rc;
}

/* ---- waiting ------------------------------------------------------------------------------ */

static bool new_result(const struct stk_runner *r)
{
    const struct stk_jobs *jobs = r->there;
    for (size_t i = 0; i < jobs->n && i < RESULTS_A_TICK; i++)
        if (jobs->job[i].gone_s == 0 && stk_jobs_has_result(r, &jobs->job[i]))
            return true;
    return false;
}

static bool any_gone(const struct stk_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        if (jobs->job[i].gone_s > 0 && jobs->job[i].id)
            return true;
    return false;
}

/* Waits until it is time to look again. */
static int wait_for_look(struct stk_runner *r, struct stk_err *err)
{
    const struct stk_jobs *jobs = r->there;
    double start_s = stk_now(), until = start_s + stk_slurm_poll_s(start_s - jobs->changed_s);
    bool settling = any_gone(jobs);
    for (double now = start_s; now < until; now = stk_now()) {
        if (now - start_s >= NEW_RESULT_S && (settling || new_result(r)))
            break;
        if (stk_runner_tick(r, "jobs") != 0)
            return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
        nanosleep(&(struct timespec){.tv_nsec = (long)(TICK_S * 1e9)}, NULL);
    }
    return 0;
}

static int collect(struct stk_runner *r, bool *changed, struct stk_err *err)
{
    struct stk_jobs *jobs = r->there;
    int rc = jobs->changed_s > 0 ? wait_for_look(r, err) : 0;
    if (rc)
        return rc;
    rc = stk_jobs_look(r, changed, err);
    /* A controller that does not answer for a while comes back. */
    jobs->failures = rc == STK_E_UNSUPPORTED ? jobs->failures + 1 : 0;
    if (jobs->failures && jobs->failures < 10)
        rc = 0;
    if (*changed || jobs->changed_s == 0)
        jobs->changed_s = stk_now();
    return rc;
}

static bool is_meant(const struct stk_job_run *j, bool all)
{
    return (all || j->pending) && j->id;
}

static int cancel(struct stk_runner *r, bool all, const char *why, struct stk_err *err)
{
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    struct stk_jobs *jobs = r->there;
    uint64_t *id = calloc(jobs->n + 1, sizeof *id);
    size_t n = 0;
    if (!id)
        return stk_err_nomem(err, jobs->n * sizeof *id);
    for (size_t i = 0; i < jobs->n; i++)
        if (is_meant(&jobs->job[i], all))
            id[n++] = jobs->job[i].id;
    int rc = n ? stk_slurm_cancel(&slurm, id, n, NULL, err) : 0;
    for (size_t i = jobs->n; i-- > 0 && !rc;)
        if (is_meant(&jobs->job[i], all))
            rc = stk_jobs_give_up(r, i, why, err);
    free(id);
    return rc;
}

/* ---- the executor ------------------------------------------------------------------------- */

static int find(const struct stk_runner *r, struct stk_err *err)
{
    (void)r;
    return stk_slurm_have("sbatch", err);
}

static int begin(struct stk_runner *r, struct stk_err *err)
{
    struct stk_jobs *jobs = r->there;
    int fd, rc = stk_folder_below(&r->folder, "jobs", &fd, err);
    stk_slurm_token(jobs->token, sizeof jobs->token);
    if (!rc)
        close(fd);
    return rc;
}

static void end(struct stk_runner *r)
{
    if (r->later && r->plan.detach)
        stk_runner_note(&r->conditions,
                        "Slurm accepts no more jobs now (%.160s): use --resume to submit the rest",
                        r->refused.what);
}

const struct stk_executor stk_executor_slurm = {
    .name = "slurm",
    .can = STK_VIA_QUEUES,
    .launcher = "srun",                    /* gets its numbers from the job's environment */
    .cpus_variable = "SRUN_CPUS_PER_TASK", /* since 22.05 it no longer inherits this from the job */
    .runs_max = 3,
    .find = find,
    .open = open_jobs,
    .begin = begin,
    .end = end,
    .start = start,
    .collect = collect,
    .cancel = cancel,
    .close = close_jobs,
};
