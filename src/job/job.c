/*
 * job.c - judges Slurm jobs. Which states and sources make which figure of a job unusable: one
 * table, for every view, for JSON and for advice (docs/slurm.md shows the same). Which jobs of a
 * list are shown, in which order, and what they cost.
 */
#include "job/job.h"

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define OF(figure) (1u << (figure))
#define ALL        (OF(STK_JOB_FIGURES) - 1)
#define SAMPLED_S  60   /* Slurm's own interval is 30 s: a shorter job may have no sample */
#define NOTHING    0.01 /* of a CPU: what a script itself takes while its programs work */
#define START_S    0.1 /* what a shell takes to start; Slurm counts whole seconds of elapsed time */

/* ---- conditions --------------------------------------------------------------------------- */

static bool never_ran(const struct stk_slurm_job *j)
{
    return stk_slurm_waits(j->state) || (j->elapsed_s <= 0 && !j->nodelist[0]);
}

static bool is_live(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_RUNNING || j->state == STK_SLURM_SUSPENDED;
}

static bool no_accounting(const struct stk_slurm_job *j)
{
    return stk_slurm_ended(j->state) && !(j->sources & STK_SLURM_BY_SACCT);
}

static bool not_sampled(const struct stk_slurm_job *j)
{
    return is_live(j) && !(j->sources & STK_SLURM_BY_SSTAT);
}

static bool of_another_user(const struct stk_slurm_job *j)
{
    return not_sampled(j) && j->others;
}

static bool suspended(const struct stk_slurm_job *j)
{
    return not_sampled(j) && j->state == STK_SLURM_SUSPENDED;
}

static bool node_lost(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_NODE_FAIL;
}

static bool killed(const struct stk_slurm_job *j)
{
    return j->killed;
}

static bool step_killed(const struct stk_slurm_job *j)
{
    for (size_t i = 0; i < j->nsteps; i++)
        if (j->step[i].killed && !stk_slurm_step_is_ours(&j->step[i]))
            return true;
    return false;
}

static bool memory_killed(const struct stk_slurm_job *j)
{
    return j->state == STK_SLURM_OUT_OF_MEMORY || stk_slurm_killed_for_memory(j, 0);
}

static bool too_short(const struct stk_slurm_job *j)
{
    return stk_slurm_ended(j->state) && j->use.memory_bytes < 0 && j->elapsed_s < SAMPLED_S;
}

static bool always(const struct stk_slurm_job *j)
{
    (void)j;
    return true;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* For each figure, the first row that holds counts. */
static const struct rule {
    bool (*holds)(const struct stk_slurm_job *job);
    unsigned figures;
    enum stk_job_worth worth;
    const char *why;
} rules[] = {
    {never_ran, ALL, STK_JOB_UNKNOWN, "it has not run"},
    {no_accounting, ALL, STK_JOB_UNKNOWN,
     "only the accounting knows what a job used, and it gave no answer"},
    {of_another_user, ALL, STK_JOB_UNKNOWN,
     "it belongs to another user, and Slurm tells only the owner what a job has used so far"},
    {suspended, ALL, STK_JOB_UNKNOWN,
     "it is suspended, and Slurm does not say what it used before it runs on"},
    {not_sampled, ALL, STK_JOB_UNKNOWN, "sstat has no sample of it"},
    {node_lost, ALL, STK_JOB_AT_LEAST, "a node was lost, and with it what it had not yet reported"},
    {killed, OF(STK_JOB_CPU), STK_JOB_AT_LEAST,
     "it was killed, and Slurm counts the CPU time of a program only when the program ends by "
     "itself, or was started by srun"},
    {step_killed, OF(STK_JOB_CPU), STK_JOB_AT_LEAST,
     "a step was killed, and Slurm counts the CPU time of a program only when the program ends by "
     "itself, or was started by srun"},
    {memory_killed, OF(STK_JOB_MEMORY), STK_JOB_AT_LEAST,
     "it was killed for memory, at a peak that may lie between two samples"},
    {too_short, OF(STK_JOB_MEMORY), STK_JOB_UNKNOWN, "too short to be sampled"},
    {always, OF(STK_JOB_GPU), STK_JOB_KNOWN, "this Slurm does not record how busy GPUs are"},
    {always, ALL, STK_JOB_KNOWN, "not recorded"},
};

static const struct rule *rule_for(const struct stk_slurm_job *job, enum stk_job_figure figure)
{
    const struct rule *r = rules;
    while (!(r->figures & OF(figure) && r->holds(job)))
        r++;
    return r;
}

/* A killed script has waited for none of its programs: its own CPU time is not theirs. */
static bool says_nothing(double cpu_s, double elapsed_s)
{
    return cpu_s < START_S + NOTHING * elapsed_s;
}

static bool is_missing(const struct stk_slurm_job *job, enum stk_job_figure figure,
                       enum stk_job_worth worth)
{
    const struct stk_slurm_use *u = &job->use;
    switch (figure) {
    case STK_JOB_CPU:
        return u->cpu_s < 0 ||
               (worth == STK_JOB_AT_LEAST && says_nothing(u->cpu_s, job->elapsed_s));
    case STK_JOB_MEMORY:
        return u->memory_bytes < 0;
    case STK_JOB_GPU:
        return u->gpu_util < 0 && u->gpu_memory_bytes < 0;
    default:
        return u->read_bytes < 0 && u->write_bytes < 0;
    }
}

static void forget(struct stk_slurm_use *u, enum stk_job_figure figure)
{
    switch (figure) {
    case STK_JOB_CPU:
        u->cpu_s = -1;
        break;
    case STK_JOB_MEMORY:
        u->memory_bytes = u->task_memory_bytes = -1;
        break;
    case STK_JOB_GPU:
        u->gpu_util = -1;
        u->gpu_memory_bytes = -1;
        break;
    default:
        u->read_bytes = u->write_bytes = -1;
    }
}

/* Sets figures that the job's state or the source of its data make unusable to -1, and says why. */
static void job_doubts(const struct stk_slurm_job *job, struct stk_slurm_use *use,
                       struct stk_job_doubt doubt[STK_JOB_FIGURES])
{
    *use = job->use;
    for (enum stk_job_figure f = 0; f < STK_JOB_FIGURES; f++) {
        const struct rule *r = rule_for(job, f);
        enum stk_job_worth worth = is_missing(job, f, r->worth) ? STK_JOB_UNKNOWN : r->worth;
        doubt[f] = (struct stk_job_doubt){worth, worth == STK_JOB_KNOWN ? "" : r->why};
        if (worth == STK_JOB_UNKNOWN)
            forget(use, f);
    }
}

enum stk_job_worth stk_job_step_cpu(const struct stk_slurm_step *step, double *cpu_s)
{
    bool unknown =
        step->use.cpu_s < 0 || (step->killed && says_nothing(step->use.cpu_s, step->elapsed_s));
    *cpu_s = unknown ? -1 : step->use.cpu_s;
    return unknown ? STK_JOB_UNKNOWN : step->killed ? STK_JOB_AT_LEAST : STK_JOB_KNOWN;
}

const char *stk_job_figure_name(enum stk_job_figure figure)
{
    static const char *const names[STK_JOB_FIGURES] = {"cpu", "memory", "gpu", "files"};
    return names[figure];
}

const char *stk_job_worth_name(enum stk_job_worth worth)
{
    static const char *const names[] = {"known", "at least", "unknown"};
    return names[worth];
}

static double share(double part, double whole)
{
    return part >= 0 && whole > 0 ? part / whole : -1;
}

/* A job that is held, or whose dependency is not met, is not eligible: it does not compete yet. */
static double waited(const struct stk_slurm_job *j, int64_t now)
{
    int64_t from = j->eligible;
    bool begun = !stk_slurm_waits(j->state) && j->start > 0;
    int64_t to = begun ? j->start : j->end > 0 ? j->end : now;
    return from > 0 && to >= from ? (double)(to - from) : -1;
}

void stk_job_judge(const struct stk_slurm_job *job, int64_t now, double advise_s,
                   struct stk_job_view *v)
{
    *v = (struct stk_job_view){.job = job};
    bool limited = job->limit_s > 0 && job->limit_s != INT64_MAX;
    bool begun = !stk_slurm_waits(job->state) && job->elapsed_s > 0;
    v->wait_s = waited(job, now);
    v->queued_s = stk_slurm_waits(job->state) && job->eligible <= 0 && job->submit > 0
                      ? (double)(now - job->submit)
                      : -1;
    job_doubts(job, &v->use, v->doubt);
    v->cpus_busy = begun ? share(v->use.cpu_s, job->elapsed_s) : -1;
    v->cpu_share = share(v->cpus_busy, (double)job->alloc.cpus);
    v->memory_share = share((double)v->use.memory_bytes, (double)job->alloc.memory_bytes);
    v->time_share = begun && limited ? share(job->elapsed_s, (double)job->limit_s) : -1;
    stk_job_advise(v, advise_s);
}

/* ---- arrays ------------------------------------------------------------------------------- */

static void most(double *to, double v)
{
    *to = v > *to ? v : *to;
}

static void most_int(int64_t *to, int64_t v)
{
    *to = v > *to ? v : *to;
}

/* The task with the most busy CPUs determines how many are needed. */
static void add_task(struct stk_slurm_job *all, const struct stk_slurm_job *j, double *busy)
{
    if (j->elapsed_s > 0 && j->use.cpu_s >= 0)
        most(busy, j->use.cpu_s / j->elapsed_s);
    most(&all->elapsed_s, j->elapsed_s);
    most_int(&all->use.memory_bytes, j->use.memory_bytes);
    most_int(&all->use.task_memory_bytes, j->use.task_memory_bytes);
    most(&all->use.gpu_util, j->use.gpu_util);
    most_int(&all->use.gpu_memory_bytes, j->use.gpu_memory_bytes);
    if (stk_slurm_ended(j->state) && j->state > all->state)
        all->state = j->state;
    all->killed |= j->killed;
    if (stk_slurm_killed_for_memory(j, 0) && !stk_slurm_killed_for_memory(all, 0)) {
        all->step = j->step;
        all->nsteps = j->nsteps;
    }
}

bool stk_job_of_array(const struct stk_slurm_jobs *jobs, uint64_t array_id,
                      struct stk_slurm_job *all)
{
    bool any = false;
    double busy = -1;
    for (size_t i = 0; i < jobs->n; i++) {
        const struct stk_slurm_job *j = &jobs->job[i];
        if (j->array_id != array_id || stk_slurm_waits(j->state) || j->state == STK_SLURM_UNKNOWN)
            continue;
        if (!any)
            *all = *j;
        any = true;
        add_task(all, j, &busy);
    }
    if (!any)
        return false;
    all->array_task = -1;
    all->use.cpu_s = busy >= 0 && all->elapsed_s > 0 ? busy * all->elapsed_s : -1;
    return true;
}

/* ---- values of Slurm's options -------------------------------------------------------------- */

static double up(double v, double step)
{
    return ceil(v / step) * step;
}

void stk_job_mem_text(double bytes, char *buf, size_t size)
{
    double mib = fmin(fmax(bytes, 1) / 0x1p20, 1e12);
    if (mib <= 1000)
        snprintf(buf, size, "%.0fM", up(mib, 50));
    else if (mib <= 10240)
        snprintf(buf, size, "%.0fM", up(mib, 500));
    else
        snprintf(buf, size, "%.0fG", ceil(mib / 1024));
}

double stk_job_time_up(double seconds)
{
    double s = fmin(fmax(seconds, 1), 1e9);
    return up(s, s <= 3600 ? 300 : s <= 36000 ? 900 : 3600);
}

void stk_job_time_text(double seconds, char *buf, size_t size)
{
    long minutes = lround(stk_job_time_up(seconds) / 60);
    if (minutes >= 24 * 60)
        snprintf(buf, size, "%ld-%02ld:%02ld:00", minutes / 1440, minutes / 60 % 24, minutes % 60);
    else
        snprintf(buf, size, "%02ld:%02ld:00", minutes / 60, minutes % 60);
}

static double hours(int64_t count, double seconds)
{
    return count >= 0 && seconds >= 0 ? (double)count * seconds / 3600 : -1;
}

void stk_job_cost(const struct stk_job_view *v, const struct stk_su_rates *su,
                  struct stk_job_cost *c)
{
    const struct stk_slurm_job *j = v->job;
    bool ran = !stk_slurm_waits(j->state) && j->elapsed_s > 0;
    double s = ran ? j->elapsed_s : 0;
    *c = (struct stk_job_cost){.core_h = ran ? hours(j->alloc.cpus, s) : 0,
                               .gpu_h = ran ? hours(j->alloc.gpus, s) : 0,
                               .used_h = -1,
                               .idle_h = -1};
    c->su = ran ? stk_su_per_hour(su, (double)j->alloc.cpus, (double)j->alloc.gpus,
                                  (double)j->alloc.nodes) *
                      s / 3600
                : 0;
    if (!ran)
        c->used_h = c->idle_h = 0;
    else if (v->use.cpu_s >= 0) {
        c->used_h = v->use.cpu_s / 3600;
        if (v->doubt[STK_JOB_CPU].worth == STK_JOB_KNOWN && c->core_h >= 0)
            c->idle_h = fmax(0, c->core_h - c->used_h);
    }
}

static void add(double *to, double v)
{
    *to += v > 0 ? v : 0;
}

static void add_job(struct stk_job_totals *t, const struct stk_slurm_job *j,
                    const struct stk_job_scale *scale)
{
    struct stk_job_view v;
    struct stk_job_cost c;
    stk_job_judge(j, scale->now, scale->advise_s, &v);
    stk_job_cost(&v, &scale->su, &c);
    t->jobs++;
    t->by_state[j->state]++;
    add(&t->core_h, c.core_h);
    add(&t->gpu_h, c.gpu_h);
    if (c.idle_h >= 0) {
        add(&t->used_h, c.used_h);
        add(&t->idle_h, c.idle_h);
    } else
        add(&t->unknown_h, c.core_h);
    if (isnan(c.su))
        t->without_su++;
    else
        t->su += c.su;
    if (!stk_slurm_ended(j->state) || j->state == STK_SLURM_COMPLETED)
        return;
    add(&t->lost_h, c.core_h);
    if (t->lost < STK_JOB_NAMED)
        t->lost_job[t->lost] = j;
    t->lost++;
}

void stk_job_total(const struct stk_slurm_jobs *jobs, const struct stk_job_scale *scale,
                   struct stk_job_totals *t)
{
    *t = (struct stk_job_totals){0};
    for (size_t i = 0; i < jobs->n; i++)
        add_job(t, &jobs->job[i], scale);
}

/* ---- which -------------------------------------------------------------------------------- */

/* "OUT_OF_MEMORY", "out-of-memory" and "out of memory" are one word. */
static bool same_state(const char *word, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        char c = word[i] == '_' || word[i] == '-' ? ' ' : (char)tolower((unsigned char)word[i]);
        if (c != name[i]) /* which ends in NUL */
            return false;
    }
    return name[n] == '\0';
}

static bool parse_state(const char *word, size_t n, unsigned *mask)
{
    for (enum stk_slurm_state s = STK_SLURM_PENDING; s < STK_SLURM_STATES; s++)
        if (same_state(word, n, stk_slurm_state_name(s))) {
            *mask |= 1u << s;
            return true;
        }
    return false;
}

const char *const *stk_job_state_names(void)
{
    static char text[STK_SLURM_STATES][24];
    static const char *names[STK_SLURM_STATES + 1];
    for (enum stk_slurm_state s = STK_SLURM_PENDING; s < STK_SLURM_STATES; s++) {
        snprintf(text[s], sizeof text[s], "%s", stk_slurm_state_name(s));
        for (char *p = text[s]; (p = strchr(p, ' '));)
            *p = '-';
        names[s - STK_SLURM_PENDING] = text[s];
    }
    return names;
}

bool stk_job_states(const char *list, unsigned *mask)
{
    *mask = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (!parse_state(p, n, mask))
            return false;
        p += n;
        p += *p == ',';
    }
    return *mask != 0;
}

static bool is_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n;
        p += *p == ',';
    }
    return false;
}

bool stk_job_wanted(const struct stk_job_filter *f, const struct stk_slurm_job *j)
{
    int64_t from = j->start > 0 && !stk_slurm_waits(j->state) ? j->start : j->submit;
    return (!f->states || f->states & 1u << j->state) &&
           (!f->name || fnmatch(f->name, j->name, 0) == 0) &&
           (!f->partitions || is_listed(f->partitions, j->partition)) &&
           (f->until <= 0 || from <= f->until);
}

/* ---- in which order ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum stk_job_order order;
} orders[] = {{"job", STK_JOB_BY_ID},        {"time", STK_JOB_BY_TIME}, {"cpu", STK_JOB_BY_CPU},
              {"memory", STK_JOB_BY_MEMORY}, {"idle", STK_JOB_BY_IDLE}, {"su", STK_JOB_BY_SU},
              {"waited", STK_JOB_BY_WAIT},   {"ended", STK_JOB_BY_END}};

const char *const *stk_job_order_names(void)
{
    static const char *names[sizeof orders / sizeof *orders + 1];
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        names[i] = orders[i].name;
    return names;
}

bool stk_job_order(const char *text, enum stk_job_order *order)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].name, text) == 0) {
            *order = orders[i].order;
            return true;
        }
    return false;
}

/* Jobs without the figure come last. */
static double key_of(const struct stk_slurm_job *j, enum stk_job_order order,
                     const struct stk_job_scale *scale)
{
    struct stk_job_view v;
    struct stk_job_cost c;
    stk_job_judge(j, scale->now, scale->advise_s, &v);
    stk_job_cost(&v, &scale->su, &c);
    const double key[] = {
        [STK_JOB_BY_ID] = -(double)j->id, [STK_JOB_BY_TIME] = j->elapsed_s,
        [STK_JOB_BY_CPU] = v.cpu_share,   [STK_JOB_BY_MEMORY] = v.memory_share,
        [STK_JOB_BY_IDLE] = c.idle_h,     [STK_JOB_BY_SU] = isnan(c.su) ? -1 : c.su,
        [STK_JOB_BY_WAIT] = v.wait_s,     [STK_JOB_BY_END] = (double)j->end};
    return key[order];
}

struct ranked {
    double key;
    size_t at;
    struct stk_slurm_job job;
};

static int by_key(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

int stk_job_sort(struct stk_slurm_jobs *jobs, enum stk_job_order order,
                 const struct stk_job_scale *scale, struct stk_err *err)
{
    struct ranked *r = order == STK_JOB_UNSORTED || !jobs->n ? NULL : calloc(jobs->n, sizeof *r);
    if (order == STK_JOB_UNSORTED || !jobs->n)
        return 0;
    if (!r)
        return stk_err_nomem(err, jobs->n * sizeof *r);
    for (size_t i = 0; i < jobs->n; i++)
        r[i] = (struct ranked){key_of(&jobs->job[i], order, scale), i, jobs->job[i]};
    qsort(r, jobs->n, sizeof *r, by_key);
    for (size_t i = 0; i < jobs->n; i++)
        jobs->job[i] = r[i].job;
    free(r);
    return 0;
}
