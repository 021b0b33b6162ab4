/* job.c - `stoker job`: what Slurm jobs requested, got and used, and what to request next time. */
#include <stdlib.h>
#include <time.h>

#include "base/units.h"
#include "sched/slurm/slurm.h"
#include "cmd/cmd.h"
#include "report/grid.h"
#include "report/job.h"

struct settings {
    struct stk_common common;
    const char *since, *user;
    double advise_s, timeout_s;
    bool me, steps;
};

static const struct stk_opt options[] = {
    {.name = "me",
     .type = STK_OPT_FLAG,
     .offset = offsetof(struct settings, me),
     .help = "Your own jobs that are pending, running, or have run since --since"},
    {.name = "user",
     .type = STK_OPT_STRING,
     .arg = "NAME",
     .offset = offsetof(struct settings, user),
     .help = "Like --me, for this user"},
    {.name = "since",
     .type = STK_OPT_STRING,
     .arg = "WHEN",
     .def = "1d",
     .offset = offsetof(struct settings, since),
     .help = "How far back --me and --user look: a time (12h, 7d) or a date (2024-05-31, "
             "2024-05-31T12:00)"},
    {.name = "steps",
     .type = STK_OPT_FLAG,
     .def = "true",
     .incidental = true,
     .offset = offsetof(struct settings, steps),
     .help = "Print a table of each job's steps"},
    {.name = "advise-from",
     .type = STK_OPT_DURATION,
     .arg = "TIME",
     .def = "5m",
     .offset = offsetof(struct settings, advise_s),
     .help = "Give no advice on unused resources for jobs that ran shorter than this"},
    {.name = "timeout",
     .type = STK_OPT_DURATION,
     .arg = "TIME",
     .def = "60s",
     .incidental = true,
     .offset = offsetof(struct settings, timeout_s),
     .help = "Time limit for each call of a Slurm client"},
    STK_COMMON_OPTIONS,
};

/* "7d" before now, or a date. */
static bool parse_when(const char *text, int64_t now, int64_t *when)
{
    static const char *const forms[] = {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"};
    double back;
    if (stk_parse_duration(text, &back, NULL) == 0 && back < 1e10) {
        *when = now - (int64_t)back;
        return true;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, forms[i], &tm);
        if (end && !*end) {
            *when = (int64_t)mktime(&tm);
            return true;
        }
    }
    return false;
}

static int read_since(struct stk_run *run, int64_t now, int64_t *since)
{
    const struct settings *s = run->settings;
    if (!parse_when(s->since, now, since))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--since: \"%.80s\" is neither a time (12h, 7d) nor a date (2024-05-31)",
                           s->since);
    if (*since > now)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--since: %.80s is in the future, and no job has run since then",
                           s->since);
    return 0;
}

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
}

static void show(const struct stk_run *run, const struct stk_slurm_jobs *jobs,
                 struct stk_job_text *t)
{
    struct stk_buf out = STK_BUF_INIT, missing = STK_BUF_INIT;
    t->columns = stk_columns(run);
    t->utf8 = stk_term_utf8();
    if (jobs->n == 1)
        stk_job_text(&jobs->job[0], t, &out);
    else if (jobs->n)
        stk_job_table(jobs, t, &out);
    else
        stk_buf_puts(&out, "no jobs\n");
    stk_say(run, "%s", stk_buf_cstr(&out));
    stk_job_missing(jobs, t->columns, &missing);
    if (missing.len)
        stk_say(run, "\n%s", stk_buf_cstr(&missing));
    stk_buf_release(&out);
    stk_buf_release(&missing);
}

/* True if the list holds the job or one of its tasks. */
static bool found(const struct stk_slurm_jobs *jobs, const char *id)
{
    uint64_t number = strtoull(id, NULL, 10);
    for (size_t i = 0; i < jobs->n; i++) {
        const struct stk_slurm_job *j = &jobs->job[i];
        if (strcmp(j->label, id) == 0 ||
            (strspn(id, "0123456789") == strlen(id) && (j->id == number || j->array_id == number)))
            return true;
    }
    return strpbrk(id, "[+,") != NULL && jobs->n > 0;
}

static int missing_jobs(struct stk_run *run, const struct stk_slurm_jobs *jobs)
{
    size_t lost = 0;
    char text[160];
    for (size_t i = 0; i < run->opts.nargs; i++)
        if (!found(jobs, run->opts.arg[i])) {
            lost++;
            snprintf(text, sizeof text, "job %.60s: Slurm does not know it%s", run->opts.arg[i],
                     jobs->failed & STK_SLURM_BY_SACCT ? " (any more: the site has no accounting)"
                                                       : "");
            if (lost <= 20)
                stk_complain("job", text);
        }
    if (lost && lost == run->opts.nargs)
        return STK_EXIT_FAILED;
    return lost ? STK_EXIT_PARTLY : STK_EXIT_DONE;
}

static int run_job(struct stk_run *run)
{
    const struct settings *s = run->settings;
    int64_t now = (int64_t)time(NULL), since = now;
    bool by_user = s->me || s->user;
    if (by_user == (run->opts.nargs > 0))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           by_user ? "give either job ids or --me, not both"
                                   : "give a job id, or --me");
    int rc = read_since(run, now, &since);
    if (rc)
        return rc;
    const char **ids = calloc(run->opts.nargs + 1, sizeof *ids);
    if (!ids)
        return stk_err_nomem(&run->err, run->opts.nargs * sizeof *ids);
    memcpy(ids, run->opts.arg, run->opts.nargs * sizeof *ids);
    struct stk_slurm slurm = {.timeout_s = s->timeout_s, .stop = stopped};
    struct stk_slurm_query q = {.ids = by_user ? NULL : ids, .user = s->user, .since = since};
    struct stk_slurm_jobs jobs = {0};
    struct stk_job_text t = {.now = now, .advise_s = s->advise_s, .steps = s->steps};
    rc = stk_slurm_report(&slurm, &q, &jobs, &run->err);
    if (!rc) {
        if (jobs.n || by_user)
            show(run, &jobs, &t);
        stk_job_json(&jobs, &t, &run->json);
        rc = missing_jobs(run, &jobs);
    }
    stk_slurm_jobs_release(&jobs);
    free(ids);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker job 123456", "what did it use, and what should the next one request?"},
    {"stoker job 123456_7", "one task of an array"},
    {"stoker job --me --since 7d", "all your jobs of a week, one line each"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_job = {
    .name = "job",
    .summary = "what a Slurm job requested and used, and what to request next",
    .args = "[JOBID...]",
    .description = "Prints what Slurm knows about a job, running or finished: nodes, CPUs, GPUs "
                   "with their ids, memory (peak and requested), the number of busy CPUs, its time "
                   "and time limit, its state, why it waits, and its steps. Then prints the lines "
                   "to put into the next batch file, each with its reason. Several jobs and arrays "
                   "give a table with one line per job.\n\n"
                   "The data comes from sacct, squeue, scontrol and sstat. At a site without "
                   "accounting sacct cannot answer, and the output says what is missing. Jobs that "
                   "ran for less than --advise-from get advice only on their failure.\n\n"
                   "The exit status is 0 when Slurm knows all of the jobs, however they ended.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_job,
};
