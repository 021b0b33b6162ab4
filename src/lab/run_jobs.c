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

/* A job whose number was not known, and is told by a later line. */
static struct stk_job_run *unsure_of(const struct stk_runs *r, const struct stk_job_run *j)
{
    for (size_t i = 0; i < r->njobs; i++)
        if (!r->job[i].id && r->job[i].n == j->n && r->job[i].repeat == j->repeat)
            return &r->job[i];
    return NULL;
}

static int take_job(void *user, const struct stk_jval *v, const char *text, size_t len,
                    struct stk_err *err)
{
    struct stk_runs *r = user;
    struct stk_job_run j = {
        .id = number_of(v, "job"), .n = number_of(v, "n"), .repeat = number_of(v, "repeat")};
    const struct stk_jval *token = v->type == STK_JOBJ ? stk_json_get(v, "token") : NULL;
    (void)text;
    (void)len;
    if (token && token->type == STK_JSTR && token->len < sizeof j.token)
        snprintf(j.token, sizeof j.token, "%s", token->str);
    if (j.id == UINT64_MAX || (!j.id && !j.token[0]) || j.n < 1 || j.n > STK_STUDY_N_MAX ||
        j.repeat > STK_STUDY_RUNS_MAX)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a job");
    struct stk_job_run *known = unsure_of(r, &j);
    if (known)
        *known = r->job[--r->njobs];
    return j.id && is_collected(r, j.id) ? 0 : remember(r, &j, err);
}

int stk_jobs_read(struct stk_runs *r, struct stk_err *err)
{
    char *path = stk_runs_path(r, "jobs.jsonl");
    int rc = path ? stk_lines_open(path, &r->jobs_fd, take_job, r, err) : stk_err_nomem(err, 4096);
    free(path);
    return rc;
}

int stk_jobs_write(struct stk_runs *r, const struct stk_job_run *j, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_jw_put_u64(&w, "n", j->n);
    stk_jw_put_u64(&w, "repeat", j->repeat);
    stk_jw_put_u64(&w, "job", j->id);
    stk_jw_put_str(&w, "token", j->token);
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

/* Asked once a while by a client of Slurm that runs. */
static int on_wait(void *user)
{
    return stk_runs_tick(user, "jobs");
}

struct stk_slurm stk_jobs_slurm(struct stk_runs *r)
{
    return (struct stk_slurm){.stop = on_wait, .user = r};
}

/* An sbatch that was not heard to the end may have done its work: "Socket timed out on send/recv
 * operation", or it was ended by us. */
static bool may_be_there(int rc, const struct stk_err *why)
{
    return rc == STK_E_STOPPED || strstr(why->what, "timed out") ||
           strstr(why->what, "did not answer");
}

/* A job that may be there is on the list from now on, until its name is found, or is not. */
static int submit(struct stk_runs *r, struct stk_point *p, struct stk_err *err)
{
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    struct stk_buf script = STK_BUF_INIT;
    struct stk_words args = {.arena = &r->arena};
    struct stk_job_run j = {.n = p->n, .repeat = tries(p), .pending = true};
    snprintf(j.token, sizeof j.token, "%s", r->token);
    int rc = stk_batch_make(r, &j, &script, &args, err);
    struct stk_slurm_batch batch = {
        .script = stk_buf_cstr(&script), .len = script.len, .args = args.v, .dir = r->plan.cwd};
    bool made = rc == 0;
    rc = rc ? rc : stk_slurm_submit(&slurm, &batch, &j.id, err);
    if (rc == 0 || (made && may_be_there(rc, err))) {
        int kept = stk_jobs_write(r, &j, rc ? NULL : err);
        kept = kept ? kept : remember(r, &j, rc ? NULL : err);
        p->waiting += kept == 0;
        rc = rc ? rc : kept;
    }
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

/* What Slurm refuses now and may take when some of our jobs have ended, or its controller is back:
 * "AssocMaxSubmitJobLimit", "Unable to contact slurm controller", "Socket timed out". */
static bool may_pass(const struct stk_err *why)
{
    static const char *const words[] = {"SubmitJob", "Unable to contact", "timed out",
                                        "did not answer", "temporarily"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(why->what, words[i]))
            return true;
    return false;
}

/* why: Slurm's last refusal. Sets r->later where the rest is to be tried at the next look. */
static int submit_round(struct stk_runs *r, uint64_t round, struct stk_err *why,
                        struct stk_err *err)
{
    size_t order[STK_RUNS_N_MAX];
    int rc = 0;
    stk_points_order(&r->plan, round, order);
    for (size_t i = 0; i < r->plan.nn && !rc && !r->later; i++) {
        struct stk_point *p = &r->point[order[i]];
        struct stk_err this = {0};
        if (tries(p) > round || tries(p) >= target(r, p) ||
            (r->plan.at_once && r->njobs >= r->plan.at_once))
            continue;
        if (stk_runs_tick(r, "jobs") != 0)
            return stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped");
        rc = submit(r, p, &this);
        if (rc == STK_E_UNSUPPORTED && may_pass(&this)) {
            r->later = true;
            *why = this;
            rc = r->njobs ? 0 : rc; /* no run failed: the study can go on another time */
        } else if (rc == STK_E_UNSUPPORTED) {
            *why = this;
            rc = keep_refusal(r, p, &this, err);
        }
        if (rc && err && this.code == rc)
            *err = this;
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
    r->later = false;
    for (uint64_t round = 0; round < r->plan.runs_max && !rc && !r->later; round++) {
        rc = submit_round(r, round, &why, err);
        if (!rc && why.code && in_vain(r)) { /* the same for every N */
            if (err)
                *err = why;
            rc = why.code;
        }
    }
    if (!rc && r->later && r->plan.detach)
        stk_runs_note(&r->conditions,
                      "Slurm takes no more jobs now (%.160s): --resume submits the rest", why.what);
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
        if (r->job[i].gone_s > 0 && r->job[i].id)
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

static bool is_pending(const struct stk_job_run *j)
{
    return j->pending && j->id;
}

/* The time is spent: what has not begun is not going to. */
static int cancel_pending(struct stk_runs *r, struct stk_err *err)
{
    const struct stk_slurm slurm = stk_jobs_slurm(r);
    uint64_t *id = calloc(r->njobs + 1, sizeof *id);
    size_t n = 0;
    if (!id)
        return stk_err_nomem(err, r->njobs * sizeof *id);
    for (size_t i = 0; i < r->njobs; i++)
        if (is_pending(&r->job[i]))
            id[n++] = r->job[i].id;
    int rc = n ? stk_slurm_cancel(&slurm, id, n, NULL, err) : 0;
    for (size_t i = r->njobs; i-- > 0 && !rc;)
        if (is_pending(&r->job[i]))
            rc = stk_jobs_give_up(r, i, "still pending when the budget was spent", err);
    free(id);
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
        if (!rc && (changed || r->later) && !r->budget_spent)
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
    stk_slurm_token(r->token, sizeof r->token);
    int rc = dir ? stk_mkdirs(dir, err) : stk_err_nomem(err, 4096);
    free(dir);
    count_waiting(r);
    rc = rc ? rc : submit_missing(r, err);
    if (rc || r->plan.detach)
        return rc;
    return wait_for_jobs(r, err);
}
