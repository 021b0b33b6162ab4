/*
 * collect.c - the outcome of a study's jobs: combines the job's own result with Slurm's
 * record of how it ended and what it was allocated into a run. Either may be missing.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "sched/slurm/slurm.h"
#include "study/priv.h"

#define SETTLE_S 8.0 /* how late the accounting and a shared file system may be */
#define STUCK_S  4.0 /* a node that returns may still make it possible */
#define LOST_S                                                                                     \
    60.0 /* a job that Slurm does not know for this long, and that left no result, is              \
            lost */

/* ---- the result of a job ------------------------------------------------------------------ */

static void done_name(const struct stk_job_run *j, char out[STK_DONE_SIZE])
{
    char id[24], name[STK_RUN_NAME_SIZE];
    snprintf(id, sizeof id, "%llu", (unsigned long long)j->id);
    stk_run_name(j->tally->point, j->repeat, name, sizeof name);
    stk_done_name(name, id, out);
}

bool stk_jobs_has_result(const struct stk_runner *r, const struct stk_job_run *j)
{
    char name[STK_DONE_SIZE];
    done_name(j, name);
    return stk_folder_has(&r->folder, name);
}

/* 1; 0: missing, or not the result of such a run. Texts are in the arena. */
static int read_result(const struct stk_runner *r, const struct stk_job_run *j,
                       struct stk_arena *arena, struct stk_study_run *run, struct stk_err *err)
{
    struct stk_err why = {0};
    char name[STK_DONE_SIZE];
    done_name(j, name);
    *run = (struct stk_study_run)STK_STUDY_RUN_INIT;
    int rc = stk_if_there(stk_folder_read_fields(&r->folder, name, 1u << 20, stk_study_run_fields,
                                                 arena, run, &why),
                          &why);
    bool ok = rc == 1 && stk_runner_point_of(r, run) == j->tally &&
              stk_study_check(&r->study, run, NULL) == 0;
    if (rc != STK_E_SYS && rc != STK_E_NOMEM)
        return ok;
    return err ? (*err = why).code : rc;
}

/* ---- how it ended ------------------------------------------------------------------------- */

/* The last line of the job's output, or of Slurm's message about it. */
static void last_words(const struct stk_runner *r, const struct stk_job_run *j, char *out,
                       size_t size)
{
    static const char *const suffix[] = {"slurm", "out"};
    char name[STK_RUN_NAME_SIZE], file[STK_DONE_SIZE];
    stk_run_name(j->tally->point, j->repeat, name, sizeof name);
    out[0] = '\0';
    for (size_t i = 0; i < 2 && !out[0]; i++) {
        struct stk_buf b = STK_BUF_INIT;
        snprintf(file, sizeof file, "jobs/%s.%s", name, suffix[i]);
        if (stk_folder_read(&r->folder, file, STK_OUTPUT_MAX, &b, NULL) == 0)
            stk_output_last_line(&b, out, size);
        stk_buf_release(&b);
    }
}

/* own: the job's own message about its command. */
static void say_why(const struct stk_runner *r, const struct stk_job_run *j,
                    const struct stk_slurm_job *job, const char *own, char *note, size_t size)
{
    char words[100] = "", how[100];
    bool begun = job->start > 0 && job->elapsed_s != 0;
    if (!own)
        last_words(r, j, words, sizeof words);
    if (job->state == STK_SLURM_UNKNOWN)
        snprintf(how, sizeof how, "its outcome is unknown");
    else if (job->state == STK_SLURM_FAILED && job->exit_signal > 0)
        snprintf(how, sizeof how, "failed, signal %d", job->exit_signal);
    else if (job->state == STK_SLURM_FAILED && job->exit_code > 0)
        snprintf(how, sizeof how, "failed, exit status %d", job->exit_code);
    else
        snprintf(how, sizeof how, "%s%s", stk_slurm_state_name(job->state),
                 job->state == STK_SLURM_CANCELLED && !begun ? " before it started" : "");
    bool enough = own && (job->state == STK_SLURM_FAILED || job->state == STK_SLURM_COMPLETED);
    snprintf(note, size, "job %llu: %s%s%.120s", (unsigned long long)j->id,
             enough ? "" : how, !enough && (own || words[0]) ? "; " : "", own ? own : words);
}

/* Slurm's counts are what is charged; the job's own view replaces them if they are missing. */
static void take_accounts(const struct stk_slurm_job *job, struct stk_study_run *run)
{
    bool started = job->start > 0;
    run->cores = job->alloc.cpus > 0 ? job->alloc.cpus : run->cores;
    run->nodes = job->alloc.nodes > 0 ? job->alloc.nodes : run->nodes;
    if (job->alloc.cpus > 0) /* without GPUs in the record, there were none */
        run->gpus = job->alloc.gpus > 0 ? job->alloc.gpus : 0;
    if (job->elapsed_s >= 0 && stk_slurm_ended(job->state))
        run->accounted_s = job->elapsed_s;
    if (started && job->submit > 0 && job->start >= job->submit)
        run->queue_s = (double)(job->start - job->submit);
    if (job->alloc.gpu_kind[0] && run->gpus > 0)
        run->kind = job->alloc.gpu_kind;
    if (!run->host && job->nodelist && *job->nodelist &&
        strlen(job->nodelist) <= STK_STUDY_TEXT_MAX)
        run->host = job->nodelist;
}

static int keep_job(struct stk_runner *r, const struct stk_job_run *j,
                    const struct stk_slurm_job *job, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_study_run run;
    char id[24], note[STK_STUDY_TEXT_MAX + 1], requeued[STK_STUDY_TEXT_MAX + 1];
    char name[STK_RUN_NAME_SIZE], files[STK_RUN_NAME_SIZE + 16];
    int own = read_result(r, j, &arena, &run, err);
    if (own < 0) { /* the next look, or --resume, may be able to read it */
        stk_arena_release(&arena);
        return own;
    }
    if (!own)
        run = stk_point_run(j->tally->point, j->repeat);
    snprintf(id, sizeof id, "%llu", (unsigned long long)j->id);
    run.repeat = (uint32_t)j->repeat;
    run.job = id;
    take_accounts(job, &run);
    if (!own || run.status != STK_RUN_OK) {
        enum stk_run_status slurms = stk_run_status_of(job->state);
        bool says = job->state != STK_SLURM_FAILED && job->state != STK_SLURM_UNKNOWN &&
                    slurms != STK_RUN_OK;
        run.status = says ? slurms : own ? run.status : STK_RUN_FAILED;
        say_why(r, j, job, own ? run.note : NULL, note, sizeof note);
        stk_run_name(j->tally->point, j->repeat, name, sizeof name);
        snprintf(files, sizeof files, "jobs/%s.*", name);
        run.note = note;
        run.output = files;
    } else if (job->restarts > 0) {
        snprintf(requeued, sizeof requeued, "requeued %d time%s", job->restarts,
                 job->restarts > 1 ? "s" : "");
        run.note = requeued;
    }
    int rc = stk_runner_keep(r, j->tally, &run, err);
    stk_arena_release(&arena);
    return rc;
}

static void forget(struct stk_jobs *jobs, size_t i)
{
    jobs->job[i].tally->waiting--;
    jobs->job[i] = jobs->job[--jobs->n];
}

int stk_jobs_give_up(struct stk_runner *r, size_t i, const char *why, struct stk_err *err)
{
    struct stk_jobs *jobs = r->there;
    const struct stk_job_run *j = &jobs->job[i];
    struct stk_study_run run = stk_point_run(j->tally->point, j->repeat);
    char id[24];
    snprintf(id, sizeof id, "%llu", (unsigned long long)j->id);
    run.status = STK_RUN_PENDING;
    run.job = id;
    run.note = why;
    int rc = stk_runner_keep(r, j->tally, &run, err);
    forget(jobs, i);
    return rc;
}

/* ---- looking ------------------------------------------------------------------------------ */

/* Whether everything that can be known is known. */
static bool is_settled(const struct stk_runner *r, struct stk_job_run *j,
                       const struct stk_slurm_job *job, unsigned failed)
{
    double now = stk_now();
    bool unknown = job->state == STK_SLURM_UNKNOWN;
    bool nobody_asked = unknown && (failed & STK_SLURM_BY_SQUEUE); /* the controller does not
                                                                      answer */
    if ((!stk_slurm_ended(job->state) && !unknown) || nobody_asked) {
        j->gone_s = 0;
        return false;
    }
    j->gone_s = j->gone_s > 0 ? j->gone_s : now;
    double gone = now - j->gone_s;
    bool result = stk_jobs_has_result(r, j);
    if (unknown) /* just submitted, or forgotten */
        return gone >= (result ? SETTLE_S : LOST_S);
    bool never_ran = job->start <= 0 || job->state == STK_SLURM_NODE_FAIL;
    bool accounted = (failed & STK_SLURM_BY_SACCT) || (job->sources & STK_SLURM_BY_SACCT);
    return ((result || never_ran || job->state != STK_SLURM_COMPLETED) && accounted) ||
           gone >= SETTLE_S;
}

static bool is_stuck(struct stk_job_run *j, const struct stk_slurm_job *job)
{
    double now = stk_now();
    if (job->state != STK_SLURM_PENDING || !stk_slurm_reason_is_final(job->reason)) {
        j->stuck_s = 0;
        return false;
    }
    j->stuck_s = j->stuck_s > 0 ? j->stuck_s : now;
    return now - j->stuck_s >= STUCK_S;
}

static int end_stuck(struct stk_runner *r, size_t i, const struct stk_slurm_job *job,
                     struct stk_err *err)
{
    char why[STK_STUDY_TEXT_MAX + 1];
    const struct stk_jobs *jobs = r->there;
    uint64_t id = jobs->job[i].id;
    snprintf(why, sizeof why, "job %llu could never start: %.80s", (unsigned long long)id,
             job->reason);
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    int rc = stk_slurm_cancel(&slurm, &id, 1, NULL, err);
    return rc ? rc : stk_jobs_give_up(r, i, why, err);
}

static void note_missing(struct stk_runner *r, const struct stk_slurm_jobs *seen)
{
    struct stk_jobs *jobs = r->there;
    if (jobs->unaccounted || !(seen->failed & STK_SLURM_BY_SACCT))
        return;
    jobs->unaccounted = true;
    stk_runner_note(&r->conditions,
                    "No accounting (sacct: %.160s): the allocation and the end of jobs are taken "
                    "from the controller and the jobs themselves",
                    seen->why[1]);
}

static void count_states(struct stk_runner *r, const struct stk_slurm_jobs *seen)
{
    struct stk_jobs *jobs = r->there;
    r->state.pending = r->state.running = 0;
    jobs->reason[0] = '\0';
    for (size_t i = 0; i < seen->n; i++) {
        const struct stk_slurm_job *job = &seen->job[i];
        bool waits = stk_slurm_waits(job->state);
        jobs->job[i].pending = waits;
        r->state.pending += waits;
        r->state.running += job->state == STK_SLURM_RUNNING;
        if (waits && job->reason && *job->reason)
            snprintf(jobs->reason, sizeof jobs->reason, "%s", job->reason);
    }
    r->state.reason = jobs->reason;
}

/* A job whose sbatch gave no answer: it is found by its name, or after a while is taken as missing
 * and submitted again. */
static int find_unsure(struct stk_runner *r, size_t i, bool *changed, struct stk_err *err)
{
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    struct stk_jobs *jobs = r->there;
    struct stk_job_run *j = &jobs->job[i];
    char name[STK_JOB_NAME_SIZE];
    stk_job_name(j, name, sizeof name);
    int rc = stk_slurm_named(&slurm, name, &j->id, err);
    if (rc || j->id) {
        j->gone_s = 0;
        return rc ? rc : stk_jobs_write(jobs, j, err);
    }
    j->gone_s = j->gone_s > 0 ? j->gone_s : stk_now();
    if (stk_now() - j->gone_s < LOST_S)
        return 0;
    forget(jobs, i);
    *changed = true;
    return 0;
}

/* Jobs with a known id come first: *n of them. */
static int find_all(struct stk_runner *r, size_t *n, bool *changed, struct stk_err *err)
{
    struct stk_jobs *jobs = r->there;
    int rc = 0;
    for (size_t i = jobs->n; i-- > 0 && !rc;)
        if (!jobs->job[i].id)
            rc = find_unsure(r, i, changed, err);
    *n = 0;
    for (size_t i = 0; i < jobs->n; i++)
        if (jobs->job[i].id) {
            struct stk_job_run first = jobs->job[*n];
            jobs->job[(*n)++] = jobs->job[i];
            jobs->job[i] = *n == i + 1 ? jobs->job[i] : first;
        }
    return rc;
}

/* Backwards: the last job takes the place of a removed one. */
static int keep_ended(struct stk_runner *r, const struct stk_slurm_jobs *seen, bool *changed,
                      struct stk_err *err)
{
    struct stk_jobs *jobs = r->there;
    int rc = 0;
    for (size_t i = seen->n; i-- > 0 && !rc;) {
        struct stk_job_run *j = &jobs->job[i];
        if (is_stuck(j, &seen->job[i])) {
            rc = end_stuck(r, i, &seen->job[i], err);
        } else if (is_settled(r, j, &seen->job[i], seen->failed)) {
            rc = keep_job(r, j, &seen->job[i], err);
            if (!rc)
                forget(jobs, i);
        } else {
            continue;
        }
        *changed = true;
    }
    return rc;
}

/* A hanging controller must neither prevent stopping nor make us look hung. */
int stk_jobs_look(struct stk_runner *r, bool *changed, struct stk_err *err)
{
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    const struct stk_jobs *jobs = r->there;
    struct stk_slurm_jobs seen = {0};
    size_t n;
    int rc = find_all(r, &n, changed, err);
    if (rc || !n)
        return rc;
    uint64_t *id = calloc(n, sizeof *id);
    if (!id)
        return stk_err_nomem(err, n * sizeof *id);
    for (size_t i = 0; i < n; i++)
        id[i] = jobs->job[i].id;
    rc = stk_slurm_look(&slurm, id, n, &seen, err);
    if (!rc) {
        note_missing(r, &seen);
        count_states(r, &seen);
        rc = keep_ended(r, &seen, changed, err);
    }
    stk_slurm_jobs_release(&seen);
    free(id);
    return rc;
}
