/*
 * jobs.c - the executor "slurm": submits runs as jobs together, then waits for them. Which job is
 * which run is on disk before anything else happens, so you may close your laptop.
 *
 * The only line of ours in a batch file runs this program again, which reads everything else from
 * the plan: no shell ever sees a word of the command. The job times its run on its node and leaves
 * the result in a file that appears complete; Slurm may forget the job, and either that or Slurm's
 * record may be missing.
 */
#include "study/priv.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/num.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/spawn.h"
#include "base/units.h"
#include "host/gpu.h"
#include "sched/slurm/slurm.h"

/* The jobs of a study: r->there of this executor. */
struct stk_jobs {
    struct stk_job_run *job; /* in the queue */
    size_t n;
    int fd;                     /* jobs.jsonl */
    char token[STK_TOKEN_SIZE]; /* of the jobs of this call; unique to their names */
    char reason[64];            /* why some are pending */
    double changed_s;           /* when something last happened; 0: not examined yet */
    int failures;               /* consecutive looks that Slurm did not answer */
    bool unaccounted;           /* that the accounting gives no answer was noted */
};
#define STK_JOB_NAME_SIZE (STK_RUN_NAME_SIZE + STK_TOKEN_SIZE + 16)
/* The file of a job's result: "jobs/n8-r2.123.json". */
#define STK_DONE_SIZE (STK_RUN_NAME_SIZE + 48)

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

static int write_job(struct stk_jobs *jobs, const struct stk_job_run *j, struct stk_err *err)
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

/* ---- the batch file ----------------------------------------------------------------------- */

static void add(struct stk_words *w, const char *fmt, ...) STK_PRINTF(2, 3);
static void add(struct stk_words *w, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    stk_words_add(w, text);
}

static void add_number(struct stk_words *w, const char *name, uint64_t v)
{
    add(w, "--%s=%llu", name, (unsigned long long)v);
}

/* GPUs are requested per node. */
static void add_gpus(const struct stk_resources *give, const char *type, struct stk_words *w)
{
    uint64_t per_node = give->ranks_per_node && give->ranks_per_node < give->gpus
                            ? give->ranks_per_node
                            : give->gpus;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "--gres=gpu:%s%s%llu", type ? type : "", type ? ":" : "",
                   (unsigned long long)per_node);
    w->fail = w->fail || b.fail;
    stk_words_add(w, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void add_tasks(const struct stk_resources *give, struct stk_words *w)
{
    uint64_t per_node = give->ranks_per_node;
    if (give->nodes && per_node) {
        add_number(w, "nodes", give->nodes);
        add_number(w, "ntasks-per-node", per_node);
    } else if (give->ranks) {
        add_number(w, "ntasks", give->ranks);
        if (per_node)
            add_number(w, "ntasks-per-node", per_node < give->ranks ? per_node : give->ranks);
        else if (give->nodes)
            add_number(w, "nodes", give->nodes);
    } else if (give->nodes) {
        add_number(w, "nodes", give->nodes);
        add_number(w, "ntasks", 1);
    }
}

static void add_resources(const struct stk_resources *give, const char *gpu_type,
                          struct stk_words *w)
{
    add_tasks(give, w);
    if (give->threads)
        add_number(w, "cpus-per-task", give->threads);
    if (give->gpus)
        add_gpus(give, gpu_type, w);
}

/* Slurm replaces %j and the like in the name of the output: a % of the path is escaped. */
static void add_output(const struct stk_runner *r, const char *name, struct stk_words *w)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_puts(&b, "--output=");
    for (const char *p = r->dir; *p; p++) {
        if (*p == '%')
            stk_buf_putc(&b, '%');
        stk_buf_putc(&b, *p);
    }
    stk_buf_printf(&b, "/jobs/%s.slurm", name);
    w->fail = w->fail || b.fail;
    stk_words_add(w, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* Replaces marks in #SBATCH lines only: the rest is the user's own shell script. */
static void put_head(const char *head, const struct stk_marks *marks, struct stk_buf *out)
{
    if (!head || strncmp(head, "#!", 2) != 0)
        stk_buf_puts(out, "#!/bin/sh\n");
    while (head && *head) {
        size_t n = strcspn(head, "\n");
        if (strncmp(head, "#SBATCH", 7) == 0) {
            struct stk_buf line = STK_BUF_INIT;
            stk_buf_put(&line, head, n);
            stk_marks_expand(out, stk_buf_cstr(&line), marks);
            out->fail = out->fail || line.fail;
            stk_buf_release(&line);
        } else {
            stk_buf_put(out, head, n);
        }
        stk_buf_putc(out, '\n');
        head += n + (head[n] == '\n');
    }
}

static int check_path(const char *path, struct stk_err *err)
{
    if (!path[strcspn(path, "\\\n\r")])
        return 0;
    return stk_err_set(err, STK_E_USAGE, path, -1,
                       "Slurm cannot name files in a folder whose path contains a backslash or a "
                       "line break");
}

/* "stoker-n8-r2-5f3a9c1e" */
static void name_job(const struct stk_job_run *j, char *name, size_t size)
{
    char run[STK_RUN_NAME_SIZE];
    stk_run_name(j->tally->point, j->repeat, run, sizeof run);
    snprintf(name, size, "stoker-%s%s%s", run, j->token[0] ? "-" : "", j->token);
}

int stk_batch_make(const struct stk_runner *r, const struct stk_job_run *j, struct stk_buf *script,
                   struct stk_words *args, struct stk_err *err)
{
    const struct stk_runner_plan *p = &r->plan;
    const struct stk_point *point = j->tally->point;
    const struct stk_marks marks = stk_point_marks(point);
    char exe[PATH_MAX], name[STK_RUN_NAME_SIZE], job_name[STK_JOB_NAME_SIZE];
    int rc = stk_self_path(exe, sizeof exe, err);
    rc = rc ? rc : check_path(r->dir, err);
    if (rc)
        return rc;
    stk_run_name(point, j->repeat, name, sizeof name);
    name_job(j, job_name, sizeof job_name);
    add(args, "--job-name=%s", job_name);
    add_output(r, name, args);
    add_resources(&point->give, p->gpu_type, args);
    for (size_t i = 0; p->sbatch && p->sbatch[i]; i++)
        stk_words_add_expanded(args, p->sbatch[i], &marks);
    put_head(p->batch_head, &marks, script);
    stk_buf_puts(script, "exec ");
    stk_quote_raw(script, exe, strlen(exe));
    stk_buf_puts(script, " scale --quiet --resume ");
    stk_quote_raw(script, r->dir, strlen(r->dir));
    if (r->trust) {
        stk_buf_puts(script, " --trust ");
        stk_quote_raw(script, r->trust, strlen(r->trust));
    }
    stk_buf_printf(script, " --inside %s\n", name);
    rc = stk_buf_check(script, err);
    return rc ? rc : args->fail ? stk_err_nomem(err, 4096) : 0;
}

/* ---- submitting --------------------------------------------------------------------------- */

/* Called now and then while a client of Slurm runs. */
static int on_wait(void *user)
{
    return stk_runner_tick(user, "jobs");
}

/* For clients of Slurm that may take long: they stop when tick() says so. */
static struct stk_slurm slurm_of(struct stk_runner *r)
{
    return (struct stk_slurm){.stop = on_wait, .user = r};
}

/* A job that may exist stays on the list until its name is found or known to be missing. */
static int submit(struct stk_runner *r, struct stk_tally *t, struct stk_slurm_receipt *got,
                  struct stk_err *err)
{
    const struct stk_slurm slurm = slurm_of(r);
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
        int kept = write_job(jobs, &j, rc ? NULL : err);
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

#define SETTLE_S 8.0 /* how late the accounting and a shared file system may be */
#define STUCK_S  4.0 /* a node that returns may still make it possible */
#define LOST_S                                                                                     \
    60.0 /* a job that Slurm does not know for this long, and that left no result, is              \
            lost */

/* ---- the result of a job ------------------------------------------------------------------ */

static void result_name(const char *name, const char *job, char out[STK_DONE_SIZE])
{
    snprintf(out, STK_DONE_SIZE, "jobs/%s.%.24s.json", name, job);
}

static void name_of_result(const struct stk_job_run *j, char out[STK_DONE_SIZE])
{
    char id[24], name[STK_RUN_NAME_SIZE];
    snprintf(id, sizeof id, "%llu", (unsigned long long)j->id);
    stk_run_name(j->tally->point, j->repeat, name, sizeof name);
    result_name(name, id, out);
}

static bool has_result(const struct stk_runner *r, const struct stk_job_run *j)
{
    char name[STK_DONE_SIZE];
    name_of_result(j, name);
    return stk_folder_has(&r->folder, name);
}

/* 1; 0: missing, or not the result of such a run. Texts are in the arena. */
static int read_result(const struct stk_runner *r, const struct stk_job_run *j,
                       struct stk_arena *arena, struct stk_study_run *run, struct stk_err *err)
{
    struct stk_err why = {0};
    char name[STK_DONE_SIZE];
    name_of_result(j, name);
    *run = (struct stk_study_run)STK_STUDY_RUN_INIT;
    int rc = stk_if_there(
        stk_folder_read_fields(&r->folder, name, 1u << 20, stk_study_run_fields, arena, run, &why),
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
    snprintf(note, size, "job %llu: %s%s%.120s", (unsigned long long)j->id, enough ? "" : how,
             !enough && (own || words[0]) ? "; " : "", own ? own : words);
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

/* Keeps a run for job i that says it never ran, and forgets the job. */
static int give_up(struct stk_runner *r, size_t i, const char *why, struct stk_err *err)
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
    bool result = has_result(r, j);
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
    const struct stk_slurm slurm = slurm_of(r);
    int rc = stk_slurm_cancel(&slurm, &id, 1, NULL, err);
    return rc ? rc : give_up(r, i, why, err);
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
    const struct stk_slurm slurm = slurm_of(r);
    struct stk_jobs *jobs = r->there;
    struct stk_job_run *j = &jobs->job[i];
    char name[STK_JOB_NAME_SIZE];
    name_job(j, name, sizeof name);
    int rc = stk_slurm_named(&slurm, name, &j->id, err);
    if (rc || j->id) {
        j->gone_s = 0;
        return rc ? rc : write_job(jobs, j, err);
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
static int look_at_jobs(struct stk_runner *r, bool *changed, struct stk_err *err)
{
    const struct stk_slurm slurm = slurm_of(r);
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

/* ---- waiting ------------------------------------------------------------------------------ */

static bool new_result(const struct stk_runner *r)
{
    const struct stk_jobs *jobs = r->there;
    for (size_t i = 0; i < jobs->n && i < RESULTS_A_TICK; i++)
        if (jobs->job[i].gone_s == 0 && has_result(r, &jobs->job[i]))
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
    rc = look_at_jobs(r, changed, err);
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
    const struct stk_slurm slurm = slurm_of(r);
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
            rc = give_up(r, i, why, err);
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

/* ---- inside a job ------------------------------------------------------------------------- */

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

static int on_tick_inside(void *user, const char *phase)
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
    result_name(name, job && *job ? job : "0", done);
    if (job && job[strspn(job, "0123456789")])
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "SLURM_JOB_ID is not a number");
    if (!rc && metric)
        rc = stk_metric_init(&r->metric, r->plan.metric, (enum stk_metric_pick)r->plan.metric_pick,
                             err);
    rc = rc ? rc : stk_launcher_init(&in->launcher, &r->plan, &r->points, &r->conditions, err);
    rc = rc ? rc : stk_folder_fresh(&r->folder, out, &fd, err);
    rc = rc ? rc : append_to(fd, out, err);
    rc = rc ? rc : stk_one_init(&in->one, &r->plan, &in->launcher, metric, fd, err);
    in->one.tick = on_tick_inside;
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
