/*
 * slurm.c - operations on Slurm: submit a job, look at many, cancel, and collect all data about
 * some; whether a job is over. Decides which client to call for what, in which order, and what its
 * failure means.
 */
#include "sched/slurm/priv.h"

#include <ctype.h>
#include <math.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "host/scratch.h"

#define IDS_PER_CALL 500         /* more would slow down sacct and the database */
#define DETAILS_MAX  64          /* jobs that are queried one by one */
#define NAMED_S      (7 * 86400) /* how far back the accounting is searched for a name */

/* "1,2,3" */
static void put_ids(struct stk_buf *b, const uint64_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++)
        stk_buf_printf(b, "%s%llu", i ? "," : "", (unsigned long long)id[i]);
}

/* ---- submit and cancel -------------------------------------------------------------------- */

int stk_slurm_submit(const struct stk_slurm *s, const struct stk_slurm_batch *batch,
                     struct stk_slurm_receipt *r, struct stk_err *err)
{
    const unsigned passing = STK_SLURM_LATE | STK_SLURM_UNREACHABLE | STK_SLURM_NOT_NOW;
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    char words[240];
    *r = (struct stk_slurm_receipt){0};
    stk_slurm_args(
        &a, s,
        (const char *[]){"sbatch", "--parsable", batch->dir ? "-D" : NULL, batch->dir, NULL});
    for (size_t i = 0; batch->args && batch->args[i]; i++) {
        if (a.n >= STK_SLURM_ARGV_MAX - 1)
            return stk_err_set(err, STK_E_USAGE, NULL, -1, "too many options for sbatch");
        stk_slurm_arg(&a, batch->args[i]);
    }
    int rc = stk_slurm_call(s, a.v, batch->script, batch->len, &out, err);
    if (!rc && out.status != 0) {
        stk_slurm_words(&out, words, sizeof words);
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "sbatch refused the job: %s", words);
    } else if (!rc && !stk_slurm_read_sbatch((const char *)out.out.data, out.out.len, &r->id)) {
        stk_slurm_words(&out, words, sizeof words);
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "sbatch gave no job id: %s", words);
    }
    r->lost = rc == STK_E_STOPPED || (rc && out.trouble & STK_SLURM_LATE);
    r->later = rc == STK_E_UNSUPPORTED && out.trouble & passing;
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_cancel(const struct stk_slurm *s, const uint64_t *id, size_t n,
                     const char *signal_name, struct stk_err *err)
{
    int rc = 0;
    for (size_t at = 0; at < n && !rc; at += STK_SLURM_ARGV_MAX / 2) {
        char number[STK_SLURM_ARGV_MAX / 2][24], words[240];
        struct stk_slurm_output out = {0};
        struct stk_slurm_args a;
        stk_slurm_args(&a, s,
                       (const char *[]){"scancel", signal_name ? "-s" : NULL, signal_name, NULL});
        for (size_t i = at; i < n && i < at + STK_SLURM_ARGV_MAX / 2; i++) {
            snprintf(number[i - at], sizeof number[0], "%llu", (unsigned long long)id[i]);
            stk_slurm_arg(&a, number[i - at]);
        }
        rc = stk_slurm_call(s, a.v, NULL, 0, &out, err);
        /* It complains about jobs that have ended, but handles the others. */
        bool gone = out.trouble & (STK_SLURM_NO_JOB | STK_SLURM_OVER);
        if (!rc && out.status != 0 && !gone) {
            stk_slurm_words(&out, words, sizeof words);
            rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "scancel: %s", words);
        }
        stk_slurm_output_release(&out);
    }
    return rc;
}

/* ---- looking at many ---------------------------------------------------------------------- */

double stk_slurm_poll_s(double age_s)
{
    return fmin(60, fmax(2, age_s / 2));
}

static int no_memory(int rc, struct stk_err *err)
{
    return rc == STK_E_NOMEM && err && !err->code ? stk_err_nomem(err, 0) : rc;
}

/* Whether it has left the queue; or is pending and may have been requeued. */
static bool needs_sacct(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_UNKNOWN || stk_slurm_ended(j->state) ||
           (j->state == STK_SLURM_PENDING && strcmp(j->reason, "BeginTime") == 0);
}

static bool needs_scontrol(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_UNKNOWN || (stk_slurm_ended(j->state) && j->exit_code < 0);
}

/* Calls one client for up to IDS_PER_CALL of the jobs that need it. */
static int ask_for(const struct stk_slurm *s, struct stk_slurm_jobs *jobs,
                   bool (*needs)(const struct stk_slurm_job *), struct stk_err *err)
{
    uint64_t id[IDS_PER_CALL];
    int rc = 0;
    for (size_t at = 0; at < jobs->n && !rc;) {
        struct stk_buf list = STK_BUF_INIT;
        size_t n = 0;
        for (; at < jobs->n && n < IDS_PER_CALL; at++)
            if (!needs || needs(&jobs->job[at]))
                id[n++] = jobs->job[at].id;
        put_ids(&list, id, n);
        rc = stk_buf_check(&list, err);
        if (!rc && n && needs)
            rc = stk_slurm_ask_sacct(s, "-j", stk_buf_cstr(&list), NULL, jobs, true, err);
        else if (!rc && n)
            rc = stk_slurm_ask_squeue(s, "-j", stk_buf_cstr(&list), jobs, true, err);
        stk_buf_release(&list);
    }
    return rc;
}

/* Combines the answers of several clients into one state. */
static void settle(struct stk_slurm_job *j)
{
    stk_slurm_job_settle(j);
    if (j->state == STK_SLURM_PENDING && j->restarts > 0)
        j->state = STK_SLURM_REQUEUED;
    /* Slurm calls the steps of a suspended job running. */
    for (size_t i = 0; j->state == STK_SLURM_SUSPENDED && i < j->nsteps; i++)
        if (j->step[i].state == STK_SLURM_RUNNING)
            j->step[i].state = STK_SLURM_SUSPENDED;
}

/* An error only when no client could be called. */
static int nobody_answered(const struct stk_slurm_jobs *jobs, struct stk_err *err)
{
    static const char *const names[] = {"squeue", "sacct", "scontrol", "sstat"};
    if (jobs->asked == 0 || jobs->failed != jobs->asked)
        return 0;
    unsigned first = stk_slurm_bit(jobs->failed);
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "Slurm does not answer: %s: %s",
                       names[first], jobs->why[first]);
}

int stk_slurm_look(const struct stk_slurm *s, const uint64_t *id, size_t n,
                   struct stk_slurm_jobs *out, struct stk_err *err)
{
    int rc = 0;
    char number[24];
    stk_slurm_jobs_clear(out);
    out->max = n > STK_SLURM_JOBS_MAX ? n : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct stk_slurm_job *j = stk_slurm_jobs_get(out, id[i]);
        rc = j ? 0 : stk_err_nomem(err, n * sizeof *out->job);
        if (j && out->n != i + 1)
            rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "job %llu is given twice",
                             (unsigned long long)id[i]);
    }
    rc = rc ? rc : ask_for(s, out, NULL, err);
    rc = rc ? rc : ask_for(s, out, needs_sacct, err);
    for (size_t i = 0, asked = 0; i < out->n && asked < DETAILS_MAX && !rc; i++)
        if (needs_scontrol(&out->job[i])) {
            asked++;
            snprintf(number, sizeof number, "%llu", (unsigned long long)out->job[i].id);
            rc = stk_slurm_ask_scontrol(s, number, out->job[i].id, out, true, err);
        }
    for (size_t i = 0; i < out->n && !rc; i++)
        settle(&out->job[i]);
    return rc ? no_memory(rc, err) : nobody_answered(out, err);
}

/* ---- everything about some ---------------------------------------------------------------- */

struct asking {
    const struct stk_slurm *s;
    struct stk_slurm_jobs *out;
    struct stk_err *err;
    struct stk_buf list;
    size_t n;
};

static int ask_listed(struct asking *a)
{
    int rc = stk_buf_check(&a->list, a->err);
    if (!rc && a->n) {
        const char *list = stk_buf_cstr(&a->list);
        rc = stk_slurm_ask_sacct(a->s, "-j", list, NULL, a->out, false, a->err);
        rc = rc ? rc : stk_slurm_ask_squeue(a->s, "-j", list, a->out, false, a->err);
    }
    stk_buf_reset(&a->list);
    a->n = 0;
    return rc;
}

static int list_id(void *user, const char *id, size_t len)
{
    struct asking *a = user;
    stk_buf_printf(&a->list, "%s%.*s", a->n ? "," : "", (int)len, id);
    return ++a->n < IDS_PER_CALL ? 0 : ask_listed(a);
}

static int gather_by_id(const struct stk_slurm *s, const struct stk_slurm_query *q,
                        struct stk_slurm_jobs *out, struct stk_err *err)
{
    struct asking a = {.s = s, .out = out, .err = err};
    int rc = 0;
    for (size_t i = 0; q->ids[i] && !rc; i++)
        if (!stk_slurm_id_ok(q->ids[i]))
            rc = stk_err_set(err, STK_E_USAGE, NULL, -1,
                             "\"%.80s\" is not a job id (12, or 12_3 for a task of an array)",
                             q->ids[i]);
    for (size_t i = 0; q->ids[i] && !rc; i++)
        rc = stk_slurm_id_each(q->ids[i], list_id, &a);
    rc = rc ? rc : ask_listed(&a);
    stk_buf_release(&a.list);
    return rc;
}

/* squeue lists all parts of a heterogeneous job when asked for one. */
static bool is_wanted_part(const void *user, const struct stk_slurm_job *j)
{
    const struct stk_slurm_query *q = user;
    bool wanted = !strchr(j->label, '+');
    for (size_t k = 0; q->ids[k] && !wanted; k++)
        wanted = !strchr(q->ids[k], '+') || strcmp(q->ids[k], j->label) == 0;
    return wanted;
}

/* In sacct's format. */
static bool time_text(int64_t at, char *text, size_t size)
{
    struct tm tm;
    time_t when = (time_t)at;
    return localtime_r(&when, &tm) && strftime(text, size, "%Y-%m-%dT%H:%M:%S", &tm);
}

/* until 0: now. */
static int range_text(int64_t since, int64_t until, struct stk_slurm_range *r, struct stk_err *err)
{
    *r = (struct stk_slurm_range){0};
    if (time_text(since, r->since, sizeof r->since) &&
        (!until || time_text(until, r->until, sizeof r->until)))
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "the time range is invalid");
}

/* A name of this machine, or a number: sacct finds no jobs of any other, which is not an error for
 * it. */
static bool is_user(const char *who)
{
    if (who[0] && strspn(who, "0123456789") == strlen(who))
        return true;
    return who[0] && who[0] != '-' && getpwnam(who) != NULL;
}

static int gather_by_user(const struct stk_slurm *s, const struct stk_slurm_query *q,
                          struct stk_slurm_jobs *out, struct stk_err *err)
{
    struct stk_slurm_range range;
    char user[64];
    int rc = range_text(q->since, q->until, &range, err);
    if (rc)
        return rc;
    snprintf(user, sizeof user, "%u", (unsigned)getuid());
    const char *who = q->user ? q->user : user;
    if (!is_user(who))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no user \"%.80s\"", who);
    rc = stk_slurm_ask_sacct(s, "-u", who, &range, out, false, err);
    return rc ? rc : stk_slurm_ask_squeue(s, "-u", who, out, false, err);
}

/* The ids as given, or those of the jobs that the controller still knows. */
static int details(const struct stk_slurm *s, const struct stk_slurm_query *q,
                   struct stk_slurm_jobs *out, struct stk_err *err)
{
    struct stk_slurm_id id;
    int rc = 0;
    for (size_t i = 0; q->ids && q->ids[i] && i < DETAILS_MAX && !rc; i++) {
        const char *text = q->ids[i], *list = strchr(text, '[');
        struct stk_slurm_word whole = {text, list ? (size_t)(list - text) - 1 : strlen(text)};
        char one[32];
        if (!stk_slurm_id(whole, &id))
            continue;
        bool part = list || id.label.n != strspn(text, "0123456789");
        snprintf(one, sizeof one, "%.*s", (int)whole.n, text);
        rc = stk_slurm_ask_scontrol(s, one, id.job, out, part && out->n > 0, err);
    }
    for (size_t i = 0; !q->ids && i < out->n && i < DETAILS_MAX && !rc; i++) {
        char number[24];
        const struct stk_slurm_job *j = &out->job[i];
        snprintf(number, sizeof number, "%llu", (unsigned long long)j->id);
        if (j->sources & STK_SLURM_BY_SQUEUE)
            rc = stk_slurm_ask_scontrol(s, number, j->id, out, true, err);
    }
    return rc;
}

static int live_use(const struct stk_slurm *s, struct stk_slurm_jobs *out, struct stk_err *err)
{
    struct stk_buf list = STK_BUF_INIT;
    size_t n = 0;
    for (size_t i = 0; i < out->n && n < DETAILS_MAX; i++)
        if (out->job[i].state == STK_SLURM_RUNNING || out->job[i].state == STK_SLURM_SUSPENDED)
            stk_buf_printf(&list, "%s%llu", n++ ? "," : "", (unsigned long long)out->job[i].id);
    int rc = stk_buf_check(&list, err);
    if (!rc && n)
        rc = stk_slurm_ask_sstat(s, stk_buf_cstr(&list), out, err);
    stk_buf_release(&list);
    return rc;
}

/* ---- people ------------------------------------------------------------------------------- */

/* The user's name, or the number if it has none here. */
static bool name_of(struct stk_slurm_jobs *jobs, const char **to, uid_t uid)
{
    const struct passwd *pw = getpwuid(uid);
    char number[24];
    snprintf(number, sizeof number, "%lu", (unsigned long)uid);
    const char *name = pw ? pw->pw_name : number;
    return stk_slurm_take(jobs, to, (struct stk_slurm_word){name, strlen(name)});
}

/* "CANCELLED by 1000" */
static bool find_canceller(struct stk_slurm_jobs *jobs, struct stk_slurm_job *j)
{
    const char *by = strstr(j->state_word, " by ");
    int64_t uid = by ? stk_slurm_int((struct stk_slurm_word){by + 4, strlen(by + 4)}) : -1;
    if (j->state != STK_SLURM_CANCELLED || uid < 0 || uid >= UINT32_MAX)
        return true;
    return name_of(jobs, &j->cancelled_by, (uid_t)uid);
}

/* Who cancelled jobs, and which are of others than the caller. */
static int find_people(struct stk_slurm_jobs *jobs)
{
    const char *me = NULL;
    bool ok = name_of(jobs, &me, geteuid());
    for (size_t i = 0; i < jobs->n && ok; i++) {
        struct stk_slurm_job *j = &jobs->job[i];
        j->others = geteuid() != 0 && j->user[0] && strcmp(j->user, me) != 0;
        ok = find_canceller(jobs, j);
    }
    return ok ? 0 : STK_E_NOMEM;
}

int stk_slurm_report(const struct stk_slurm *s, const struct stk_slurm_query *q,
                     struct stk_slurm_jobs *out, struct stk_err *err)
{
    stk_slurm_jobs_clear(out);
    out->max = q->max_jobs;
    int rc = q->ids ? gather_by_id(s, q, out, err) : gather_by_user(s, q, out, err);
    if (q->ids && !rc)
        stk_slurm_jobs_keep(out, is_wanted_part, q);
    rc = rc ? rc : details(s, q, out, err);
    rc = rc ? rc : live_use(s, out, err);
    rc = rc ? rc : find_people(out);
    for (size_t i = 0; i < out->n && !rc; i++)
        settle(&out->job[i]);
    return rc ? no_memory(rc, err) : nobody_answered(out, err);
}

/* ---- by name ------------------------------------------------------------------------------ */

int stk_slurm_named(const struct stk_slurm *s, const char *name, uint64_t *id, struct stk_err *err)
{
    struct stk_slurm_jobs jobs = {0};
    struct stk_slurm_range range;
    int rc = range_text((int64_t)time(NULL) - NAMED_S, 0, &range, err);
    rc = rc ? rc : stk_slurm_ask_squeue(s, "--name", name, &jobs, false, err);
    if (!rc && !jobs.n)
        rc = stk_slurm_ask_sacct(s, "--name", name, &range, &jobs, false, err);
    if (!rc && (jobs.failed & STK_SLURM_BY_SQUEUE))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "squeue: %s", jobs.why[0]);
    *id = 0;
    for (size_t i = 0; i < jobs.n && !rc; i++)
        if (strcmp(jobs.job[i].name, name) == 0)
            *id = jobs.job[i].id;
    rc = no_memory(rc, err);
    stk_slurm_jobs_release(&jobs);
    return rc;
}

/* A job that Slurm no longer knows is over: it forgets jobs only after their end. But one client
 * must have said so: an answer that failed proves nothing. */
static int ask_slurm(uint64_t id, const struct stk_slurm *how)
{
    struct stk_slurm_jobs jobs = {0};
    int over = -1;
    if (stk_slurm_look(how, &id, 1, &jobs, NULL) == 0 && jobs.n == 1) {
        enum stk_slurm_state state = jobs.job[0].state;
        if (state != STK_SLURM_UNKNOWN)
            over = stk_slurm_ended(state);
        else if (jobs.asked & ~jobs.failed & STK_SLURM_BY_SQUEUE)
            over = 1;
    }
    stk_slurm_jobs_release(&jobs);
    return over;
}

int stk_job_is_over(const char *id, const struct stk_slurm *how)
{
    static _Atomic bool silent; /* a controller that does not answer is not waited for again */
    int over = stk_job_over(id);
    size_t digits = strspn(id, "0123456789");
    if (over >= 0 || !digits || id[digits] || digits > 18 || atomic_load(&silent) ||
        stk_slurm_have("squeue", NULL) != 0)
        return over;
    over = ask_slurm(strtoull(id, NULL, 10), how);
    atomic_store(&silent, over < 0);
    return over;
}

/* ---- its end ---- */

#define END_S     3.0 /* for squeue */
#define ASK_RANKS 256 /* more of them would be too much for its controller: rank 0 asks alone */

/* Old versions of Slurm do not say it in the environment. */
static void ask_for_end(const char *job, char end[32])
{
    const char *argv[] = {"squeue", "-h", "-j", job, "-o", "%e", NULL};
    const struct stk_slurm how = {.timeout_s = END_S};
    struct stk_slurm_output out = {0};
    if (stk_slurm_have("squeue", NULL) == 0 &&
        stk_slurm_call(&how, argv, NULL, 0, &out, NULL) == 0 && out.status == 0) {
        const char *text = stk_buf_cstr(&out.out), *line = strchr(text, '\n');
        if (line) /* else the time may have been cut short */
            snprintf(end, 32, "%.*s", (int)(line - text), text);
    }
    stk_slurm_output_release(&out);
}

double stk_job_end(const struct stk_rank *rank)
{
    const char *end = getenv("SLURM_JOB_END_TIME"), *job = getenv("SLURM_JOB_ID");
    char asked[32] = "";
    uint64_t s = 0;
    if (!end && job && *job && rank->local_rank == 0 && (!rank->rank || rank->world <= ASK_RANKS))
        ask_for_end(job, asked);
    return stk_parse_u64(end ? end : asked, &s, NULL) == 0 ? (double)s : 0;
}
