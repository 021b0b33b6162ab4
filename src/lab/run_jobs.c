/*
 * run_jobs.c - a study as jobs of Slurm: those that are missing are submitted together, then waited
 * for. Which job is which run is on disk before anything else happens, so that a laptop may close.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "cluster/slurm.h"
#include "lab/run_priv.h"

#define TICK_S         0.25
#define NEW_RESULT_S   1.0 /* between looks when a job has just left its result */
#define RESULTS_A_TICK 64

/* ---- jobs on disk ------------------------------------------------------------------------- */

static int remember(struct stk_runs *r, const struct stk_job_run *j, struct stk_err *err)
{
    if (r->njobs == r->jobs_room) {
        size_t room = r->jobs_room ? 2 * r->jobs_room : 64;
        struct stk_job_run *more = realloc(r->job, room * sizeof *more);
        if (!more)
            return stk_err_nomem(err, room * sizeof *more);
        r->job = more;
        r->jobs_room = room;
    }
    r->job[r->njobs++] = *j;
    return 0;
}

static uint64_t number_of(const struct stk_jval *v, const char *name)
{
    const struct stk_jval *x = v->type == STK_JOBJ ? stk_json_get(v, name) : NULL;
    return x && x->type == STK_JINT && x->i >= 0 ? (uint64_t)x->i : UINT64_MAX;
}

static bool is_collected(const struct stk_runs *r, uint64_t id)
{
    const struct stk_study_series *s = &r->study.series[r->series];
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)id);
    for (size_t i = 0; i < s->nruns; i++)
        if (s->run[i].job && strcmp(s->run[i].job, text) == 0)
            return true;
    return false;
}

static int take_job(void *user, const struct stk_jval *v, const char *text, size_t len,
                    struct stk_err *err)
{
    struct stk_runs *r = user;
    struct stk_job_run j = {.id = number_of(v, "job"),
                            .n = number_of(v, "n"),
                            .repeat = number_of(v, "repeat"),
                            .since_s = stk_now()};
    (void)text;
    (void)len;
    if (j.id == UINT64_MAX || !j.id || j.n < 1 || j.n > STK_STUDY_N_MAX ||
        j.repeat > STK_STUDY_RUNS_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a job");
    return is_collected(r, j.id) ? 0 : remember(r, &j, err);
}

int stk_jobs_read(struct stk_runs *r, struct stk_err *err)
{
    char *path = stk_runs_path(r, "jobs.jsonl");
    int rc = path ? stk_lines_open(path, &r->jobs_fd, take_job, r, err) : stk_err_nomem(err, 4096);
    free(path);
    return rc;
}

static int write_job(struct stk_runs *r, const struct stk_job_run *j, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_jw_put_u64(&w, "n", j->n);
    stk_jw_put_u64(&w, "repeat", j->repeat);
    stk_jw_put_u64(&w, "job", j->id);
    stk_jw_put_u64(&w, "submitted", (uint64_t)time(NULL));
    stk_jw_close(&w, '}');
    int rc = stk_lines_add(r->jobs_fd, &b, "jobs.jsonl", err);
    if (!rc && fdatasync(r->jobs_fd) != 0)
        rc = stk_err_sys(err, "jobs.jsonl", "fdatasync");
    stk_buf_release(&b);
    return rc;
}

/* ---- submitting --------------------------------------------------------------------------- */

static uint64_t tries(const struct stk_point *p)
{
    return p->good + p->bad + p->waiting;
}

/* How often this N is to have been tried before the jobs that are out are collected. */
static uint64_t target(const struct stk_runs *r, const struct stk_point *p)
{
    if (p->done)
        return 0;
    if (tries(p) < r->plan.runs_min)
        return r->plan.runs_min;
    return p->waiting ? 0 : tries(p) + 1; /* not yet narrow: one more at a time */
}

static int submit(struct stk_runs *r, struct stk_point *p, struct stk_err *err)
{
    struct stk_buf script = STK_BUF_INIT;
    struct stk_words args = {.arena = &r->arena};
    struct stk_job_run j = {.n = p->n, .repeat = tries(p), .since_s = stk_now(), .pending = true};
    int rc = stk_batch_make(r, j.n, j.repeat, &script, &args, err);
    struct stk_slurm_batch batch = {
        .script = stk_buf_cstr(&script), .len = script.len, .args = args.v, .dir = r->plan.cwd};
    rc = rc ? rc : stk_slurm_submit(NULL, &batch, &j.id, err);
    rc = rc ? rc : write_job(r, &j, err);
    rc = rc ? rc : remember(r, &j, err);
    p->waiting += rc == 0;
    stk_buf_release(&script);
    return rc;
}

/* Slurm will not have this N: that is a failed run, in its words. */
static int keep_refusal(struct stk_runs *r, const struct stk_point *p, const struct stk_err *why,
                        struct stk_err *err)
{
    struct stk_study_run run = STK_STUDY_RUN_INIT;
    char note[STK_STUDY_TEXT_MAX + 1];
    snprintf(note, sizeof note, "%.250s", why->what);
    run.n = p->n;
    run.repeat = (uint32_t)tries(p);
    run.status = STK_RUN_FAILED;
    run.note = note;
    return stk_runs_keep(r, &run, err);
}

/* why: Slurm's last refusal. */
static int submit_round(struct stk_runs *r, uint64_t round, struct stk_err *why,
                        struct stk_err *err)
{
    size_t order[STK_RUNS_N_MAX];
    int rc = 0;
    stk_points_order(&r->plan, round, order);
    for (size_t i = 0; i < r->plan.nn && !rc; i++) {
        struct stk_point *p = &r->point[order[i]];
        struct stk_err this = {0};
        if (tries(p) > round || tries(p) >= target(r, p) ||
            (r->plan.at_once && r->njobs >= r->plan.at_once))
            continue;
        if (stk_runs_tick(r, "jobs") != 0)
            return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
        rc = submit(r, p, &this);
        if (rc == STK_E_UNSUPPORTED) {
            *why = this;
            rc = keep_refusal(r, p, &this, err);
        } else if (rc && err) {
            *err = this;
        }
    }
    return rc;
}

/* Whether there is, or may still come, anything to report. */
static bool in_vain(const struct stk_runs *r)
{
    for (size_t i = 0; i < r->plan.nn; i++)
        if (r->point[i].good || r->point[i].waiting)
            return false;
    return true;
}

static int submit_missing(struct stk_runs *r, struct stk_err *err)
{
    struct stk_err why = {0};
    int rc = 0;
    for (uint64_t round = 0; round < r->plan.runs_max && !rc; round++) {
        rc = submit_round(r, round, &why, err);
        if (!rc && why.code && in_vain(r)) { /* the same for every N */
            if (err)
                *err = why;
            rc = why.code;
        }
    }
    return rc;
}

/* ---- waiting ------------------------------------------------------------------------------ */

static bool new_result(const struct stk_runs *r)
{
    for (size_t i = 0; i < r->njobs && i < RESULTS_A_TICK; i++)
        if (r->job[i].gone_s == 0 && stk_jobs_has_result(r, &r->job[i]))
            return true;
    return false;
}

static bool any_gone(const struct stk_runs *r)
{
    for (size_t i = 0; i < r->njobs; i++)
        if (r->job[i].gone_s > 0)
            return true;
    return false;
}

/* Until it is time to look again; changed_s: when something last happened. */
static int wait_for_look(struct stk_runs *r, double changed_s, struct stk_err *err)
{
    double start = stk_now(), until = start + stk_slurm_poll_s(start - changed_s);
    bool settling = any_gone(r);
    for (double now = start; now < until; now = stk_now()) {
        if (now - start >= NEW_RESULT_S && (settling || new_result(r)))
            break;
        if (stk_runs_tick(r, "jobs") != 0)
            return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
        nanosleep(&(struct timespec){.tv_nsec = (long)(TICK_S * 1e9)}, NULL);
    }
    return 0;
}

/* The time is spent: what has not begun is not going to. */
static int cancel_pending(struct stk_runs *r, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = r->njobs; i-- > 0 && !rc;) {
        if (!r->job[i].pending)
            continue;
        rc = stk_slurm_cancel(NULL, &r->job[i].id, 1, NULL, err);
        rc = rc ? rc : stk_jobs_give_up(r, i, "still pending when the budget was spent", err);
    }
    return rc;
}

static int wait_for_jobs(struct stk_runs *r, struct stk_err *err)
{
    double changed_s = stk_now();
    int rc = 0, failures = 0;
    bool first = true;
    while (r->njobs && !rc) {
        bool changed = false;
        if (!first)
            rc = wait_for_look(r, changed_s, err);
        first = false;
        if (rc)
            break;
        rc = stk_jobs_collect(r, &changed, err);
        /* A controller that does not answer for a while comes back. */
        failures = rc == STK_E_UNSUPPORTED ? failures + 1 : 0;
        if (failures && failures < 10)
            rc = 0;
        changed_s = changed ? stk_now() : changed_s;
        if (!rc && r->plan.budget_s > 0 && stk_now() - r->start_s > r->plan.budget_s) {
            r->budget_spent = true;
            rc = cancel_pending(r, err);
        }
        if (!rc && changed && !r->budget_spent)
            rc = submit_missing(r, err);
    }
    return rc;
}

static void count_waiting(struct stk_runs *r)
{
    for (size_t i = 0; i < r->plan.nn; i++) {
        r->point[i].waiting = 0;
        for (size_t k = 0; k < r->njobs; k++)
            r->point[i].waiting += r->job[k].n == r->point[i].n;
    }
}

int stk_runs_slurm(struct stk_runs *r, struct stk_err *err)
{
    char *dir = stk_runs_path(r, "jobs");
    int rc = dir ? stk_mkdirs(dir, err) : stk_err_nomem(err, 4096);
    free(dir);
    count_waiting(r);
    rc = rc ? rc : submit_missing(r, err);
    if (rc || r->plan.detach)
        return rc;
    return wait_for_jobs(r, err);
}
