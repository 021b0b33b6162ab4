/* job.c - `stoker job`: what Slurm jobs requested, got and used, and what to request next time. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "advice/advice.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/units.h"
#include "sched/slurm/slurm.h"
#include "cmd/cmd.h"
#include "report/job.h"

struct settings {
    struct stk_common common;
    const char *since, *until, *user, *state, *name, *partition, *sort, *su_weights, *csv, *profile,
        *trust;
    double advise_s, timeout_s;
    bool me, steps;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("me", me, FLAG,
           .help = "Your own jobs that are pending, running, or have run since --since"),
    OPTION("user", user, STRING, .arg = "NAME", .help = "Like --me, for this user"),
    OPTION("since", since, STRING, .arg = "WHEN", .def = "1d",
           .help = "How far back --me and --user look: a time (12h, 7d) or a date (2024-05-31, "
                   "2024-05-31T12:00)"),
    OPTION("until", until, STRING, .arg = "WHEN",
           .help = "Leave out jobs that started after this (a time or a date, as --since)"),
    OPTION("state", state, STRING, .arg = "LIST", .suggest = stk_job_state_names,
           .help = "Only jobs in these states (failed,timeout,out-of-memory)"),
    OPTION("name", name, STRING, .arg = "PATTERN",
           .help = "Only jobs whose name matches this pattern (train-*)"),
    OPTION("partition", partition, STRING, .arg = "LIST", .help = "Only jobs in these partitions"),
    OPTION("sort", sort, STRING, .arg = "KEY", .incidental = true, .suggest = stk_job_order_names,
           .help = "Order of the table, the largest first: " STK_JOB_ORDERS " (default: as Slurm "
                   "lists them)"),
    OPTION("su-weights", su_weights, STRING, .arg = "LIST", .def = "core=1,gpu=2",
           .help = "Service units per hour of a core, a GPU and a node, as for `stoker scale`"),
    OPTION("csv", csv, STRING, .arg = "FILE", .incidental = true,
           .help = "Also write a table with one row per job to FILE"),
    OPTION("profile", profile, STRING, .arg = "DIR",
           .help = "A profile of the job (`stoker profile`): its figures per node (default: one "
                   "in the job's folder that `stoker profile` has named after the job)"),
    STK_TRUST_OPTION(offsetof(struct settings, trust)),
    OPTION("steps", steps, FLAG, .def = "true", .incidental = true,
           .help = "Print a table of each job's steps"),
    OPTION("advise-from", advise_s, DURATION, .arg = "TIME", .def = "5m",
           .help = "Give no advice on unused resources for jobs that ran shorter than this"),
    OPTION("timeout", timeout_s, DURATION, .arg = "TIME", .def = "60s", .incidental = true,
           .help = "Time limit for each call of a Slurm client"),
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

static int read_when(struct stk_run *run, const char *option, const char *text, int64_t now,
                     int64_t *when)
{
    if (parse_when(text, now, when))
        return 0;
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                       "--%s: \"%.80s\" is neither a time (12h, 7d) nor a date (2024-05-31)",
                       option, text);
}

/* until 0: now. */
static int read_range(struct stk_run *run, int64_t now, int64_t *since, int64_t *until)
{
    const struct settings *s = run->settings;
    *until = 0;
    int rc = read_when(run, "since", s->since, now, since);
    if (!rc && s->until)
        rc = read_when(run, "until", s->until, now, until);
    if (!rc && *since > now)
        rc =
            stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                        "--since: %.80s is in the future, and no job has run since then", s->since);
    if (!rc && s->until && *until < *since && (s->me || s->user))
        rc = stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--until %.80s is before --since %.80s",
                         s->until, s->since);
    return rc;
}

/* ---- which jobs, and their order ---------------------------------------------------------- */

struct choice {
    struct stk_job_filter filter;
    enum stk_job_order order;
};

static int bad_word(struct stk_run *run, const char *option, const char *text, const char *how)
{
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--%s: \"%.80s\": %s", option, text, how);
}

static int read_choice(struct stk_run *run, struct choice *c, struct stk_su_rates *su)
{
    const struct settings *s = run->settings;
    c->filter.name = s->name;
    c->filter.partitions = s->partition;
    if (s->state && !stk_job_states(s->state, &c->filter.states))
        return bad_word(run, "state", s->state,
                        "write states such as completed,failed,timeout,out-of-memory");
    if (s->sort && !stk_job_order(s->sort, &c->order))
        return bad_word(run, "sort", s->sort, "write one of " STK_JOB_ORDERS);
    if (!stk_su_parse(s->su_weights, su))
        return bad_word(run, "su-weights", s->su_weights, STK_SU_HOW);
    return stk_check_output(run, "csv", s->csv);
}

static bool is_wanted(const void *filter, const struct stk_slurm_job *job)
{
    return stk_job_wanted(filter, job);
}

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
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

/* ---- a profile of the job ------------------------------------------------------------------ */

/* "stoker-profile-NAME-12.0", "…-12-MPI": as `stoker profile` names them. */
static bool is_named_after(const char *name, uint64_t job)
{
    char part[2][32];
    snprintf(part[0], sizeof part[0], "-%llu.", (unsigned long long)job);
    snprintf(part[1], sizeof part[1], "-%llu-", (unsigned long long)job);
    return strncmp(name, "stoker-profile-", 15) == 0 &&
           (strstr(name, part[0]) || strstr(name, part[1]));
}

/* *path: caller frees; NULL: none. The folder of a job may be gone, be another user's, or be on
 * another machine. */
static int find_profile(const struct stk_slurm_job *job, char **path, struct stk_err *err)
{
    struct stk_err why = {0};
    struct stk_dir d;
    int rc = job->workdir[0] == '/' ? stk_dir_open_optional(&d, job->workdir, &why) : 0;
    *path = NULL;
    if (job->workdir[0] != '/')
        return 0;
    if (rc && why.sys_errno == EACCES)
        return stk_dir_end(&d, 0, NULL);
    for (const struct dirent *e; !*path && (e = stk_dir_next(&d));)
        if (is_named_after(e->d_name, job->id))
            *path = stk_path_join(job->workdir, e->d_name);
    rc = stk_dir_end(&d, rc, &why);
    if (rc && err)
        *err = why;
    return rc;
}

struct profiled {
    struct stk_judged judged;
    bool read;
    struct stk_job_nodes nodes;
    char *path;
};

/* Only a profile that the user names has to be one of this job. */
static int read_profile(struct stk_run *run, const struct stk_slurm_job *job, struct profiled *p)
{
    const struct settings *s = run->settings;
    int rc = s->profile ? 0 : find_profile(job, &p->path, &run->err);
    const char *path = s->profile ? s->profile : p->path;
    rc = rc     ? rc
         : path ? stk_judge_profile(run, path, s->trust, &p->judged) : 0;
    p->read = path && !rc;
    bool fits = p->read && stk_job_nodes_fit(&p->judged.profile, job);
    if (p->read && !fits && s->profile)
        rc = stk_err_set(&run->err, STK_E_USAGE, path, -1,
                         "this is a profile of job %.40s, not of %.40s",
                         p->judged.profile.job[0] ? p->judged.profile.job : "(none)", job->label);
    if (fits)
        rc = stk_job_nodes(&p->judged.profile, &p->nodes, &run->err);
    if (!rc || s->profile)
        return rc;
    char why[2200], text[sizeof why + 80];
    snprintf(text, sizeof text, "figures per node of a profile are missing: %s",
             stk_err_text(&run->err, why, sizeof why));
    stk_complain("job", text);
    run->err = (struct stk_err){0};
    return 0;
}

static void release_profile(struct profiled *p)
{
    stk_job_nodes_release(&p->nodes);
    if (p->read)
        stk_judged_release(&p->judged);
    free(p->path);
}

/* Shows the jobs that were asked for and are wanted. */
static int report(struct stk_run *run, struct stk_slurm_jobs *jobs, const struct choice *c,
                  struct stk_job_list *list)
{
    const struct settings *s = run->settings;
    int missing = missing_jobs(run, jobs);
    stk_slurm_jobs_keep(jobs, is_wanted, &c->filter);
    struct profiled profiled = {0};
    int rc = stk_job_sort(jobs, c->order, &list->scale, &run->err);
    if (!rc && s->profile && jobs->n != 1)
        rc = stk_err_set(&run->err, STK_E_USAGE, NULL, -1, "--profile is for one job");
    if (!rc && jobs->n == 1)
        rc = read_profile(run, &jobs->job[0], &profiled);
    list->jobs = jobs;
    list->nodes = profiled.nodes.n ? &profiled.nodes : NULL;
    const struct stk_say_how how = {.csv = s->csv, .style = &s->steps};
    rc = rc ? rc : stk_say_result(run, &stk_job_kind, list, &how);
    release_profile(&profiled);
    return rc ? rc : missing;
}

static int run_job(struct stk_run *run)
{
    const struct settings *s = run->settings;
    struct stk_job_list list = {.scale = {.now = (int64_t)time(NULL), .advise_s = s->advise_s}};
    struct stk_slurm_query q = {.user = s->user};
    struct choice choice = {0};
    bool by_user = s->me || s->user;
    if (by_user == (run->opts.nargs > 0))
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           by_user ? "give either job ids or --me, not both"
                                   : "give a job id, or --me");
    int rc = read_range(run, list.scale.now, &q.since, &q.until);
    rc = rc ? rc : read_choice(run, &choice, &list.scale.su);
    if (rc)
        return rc;
    choice.filter.until = q.until;
    const char **ids = calloc(run->opts.nargs + 1, sizeof *ids);
    if (!ids)
        return stk_err_nomem(&run->err, run->opts.nargs * sizeof *ids);
    memcpy(ids, run->opts.arg, run->opts.nargs * sizeof *ids);
    q.ids = by_user ? NULL : ids;
    struct stk_slurm slurm = {.timeout_s = s->timeout_s, .stop = stopped};
    struct stk_slurm_jobs jobs = {0};
    rc = stk_slurm_report(&slurm, &q, &jobs, &run->err);
    rc = rc ? rc : report(run, &jobs, &choice, &list);
    stk_slurm_jobs_release(&jobs);
    free(ids);
    return rc;
}

static const struct stk_example examples[] = {
    {"stoker job 123456", "what did it use, and what should the next one request?"},
    {"stoker job 123456_7", "one task of an array"},
    {"stoker job --me --since 7d", "all your jobs of a week, one line each, and totals"},
    {"stoker job --me --since 30d --state failed,timeout --sort idle --csv jobs.csv",
     "what went wrong in a month, the largest waste first, also for a spreadsheet"},
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
                   "give a table with one line per job, and totals.\n\n"
                   "The data comes from sacct, squeue, scontrol and sstat. At a site without "
                   "accounting sacct cannot answer, and the output says what is missing. Jobs that "
                   "ran for less than --advise-from get advice only on their failure.\n\n"
                   "The exit status is 0 when Slurm knows all of the jobs, however they ended.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_job,
};
