/*
 * job.c - the list of jobs that several clients fill, the meaning of states and of the reasons why
 * jobs wait, and what a job used, computed from its steps.
 */
#include "sched/slurm/priv.h"

#include <stdlib.h>

#include "base/hash.h"

/* ---- states ------------------------------------------------------------------------------- */

static const struct {
    const char *word;
    enum stk_slurm_state state;
} words[] = {
    {"PENDING", STK_SLURM_PENDING},
    {"RUNNING", STK_SLURM_RUNNING},
    {"CONFIGURING", STK_SLURM_RUNNING},
    {"COMPLETING", STK_SLURM_RUNNING},
    {"RESIZING", STK_SLURM_RUNNING},
    {"SIGNALING", STK_SLURM_RUNNING},
    {"STAGE_OUT", STK_SLURM_RUNNING},
    {"SUSPENDED", STK_SLURM_SUSPENDED},
    {"STOPPED", STK_SLURM_SUSPENDED},
    {"REQUEUED", STK_SLURM_REQUEUED},
    {"REQUEUE_FED", STK_SLURM_REQUEUED},
    {"REQUEUE_HOLD", STK_SLURM_REQUEUED},
    {"SPECIAL_EXIT", STK_SLURM_REQUEUED},
    {"RESV_DEL_HOLD", STK_SLURM_PENDING},
    {"COMPLETED", STK_SLURM_COMPLETED},
    {"FAILED", STK_SLURM_FAILED},
    {"LAUNCH_FAILED", STK_SLURM_FAILED},
    {"RECONFIG_FAIL", STK_SLURM_FAILED},
    {"CANCELLED", STK_SLURM_CANCELLED},
    {"REVOKED", STK_SLURM_CANCELLED},
    {"TIMEOUT", STK_SLURM_TIMEOUT},
    {"DEADLINE", STK_SLURM_TIMEOUT},
    {"OUT_OF_MEMORY", STK_SLURM_OUT_OF_MEMORY},
    {"NODE_FAIL", STK_SLURM_NODE_FAIL},
    {"BOOT_FAIL", STK_SLURM_NODE_FAIL},
    {"PREEMPTED", STK_SLURM_PREEMPTED},
};

enum stk_slurm_state stk_slurm_state_of(const char *word, size_t len)
{
    size_t n = 0;
    while (n < len && word[n] != ' ' && word[n] != '+')
        n++;
    bool cut = n < len && word[n] == '+' && n >= 4;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t whole = strlen(words[i].word);
        if ((n == whole || (cut && n < whole)) && memcmp(words[i].word, word, n) == 0)
            return words[i].state;
    }
    return STK_SLURM_UNKNOWN;
}

const char *stk_slurm_state_name(enum stk_slurm_state state)
{
    static const char *const names[] = {
        [STK_SLURM_UNKNOWN] = "unknown",     [STK_SLURM_PENDING] = "pending",
        [STK_SLURM_RUNNING] = "running",     [STK_SLURM_SUSPENDED] = "suspended",
        [STK_SLURM_REQUEUED] = "requeued",   [STK_SLURM_COMPLETED] = "completed",
        [STK_SLURM_FAILED] = "failed",       [STK_SLURM_CANCELLED] = "cancelled",
        [STK_SLURM_TIMEOUT] = "timeout",     [STK_SLURM_OUT_OF_MEMORY] = "out of memory",
        [STK_SLURM_NODE_FAIL] = "node fail", [STK_SLURM_PREEMPTED] = "preempted",
    };
    return (size_t)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

bool stk_slurm_ended(enum stk_slurm_state state)
{
    return state >= STK_SLURM_COMPLETED;
}

bool stk_slurm_waits(enum stk_slurm_state state)
{
    return state == STK_SLURM_PENDING || state == STK_SLURM_REQUEUED;
}

/* ---- the list ----------------------------------------------------------------------------- */

/* Frees its own memory. */
static void slurm_job_release(struct stk_slurm_job *job)
{
    free(job->step);
    stk_lookup_release(&job->by_name);
    free(job->gpus);
}

void stk_slurm_jobs_clear(struct stk_slurm_jobs *jobs)
{
    for (size_t i = 0; i < jobs->n; i++)
        slurm_job_release(&jobs->job[i]);
    jobs->n = 0;
    jobs->more = false;
    jobs->asked = jobs->failed = jobs->silent = 0;
    memset(jobs->why, 0, sizeof jobs->why);
    stk_arena_reset(&jobs->arena);
}

void stk_slurm_jobs_release(struct stk_slurm_jobs *jobs)
{
    stk_slurm_jobs_clear(jobs);
    stk_arena_release(&jobs->arena);
    free(jobs->job);
    *jobs = (struct stk_slurm_jobs){0};
}

void stk_slurm_jobs_keep(struct stk_slurm_jobs *jobs,
                         bool (*wanted)(const void *user, const struct stk_slurm_job *job),
                         const void *user)
{
    size_t kept = 0;
    for (size_t i = 0; i < jobs->n; i++) {
        if (wanted(user, &jobs->job[i]))
            jobs->job[kept++] = jobs->job[i];
        else
            slurm_job_release(&jobs->job[i]);
    }
    jobs->n = kept;
}

struct stk_slurm_job *stk_slurm_jobs_find(const struct stk_slurm_jobs *jobs, uint64_t id)
{
    /* The newest first: rows of a job are adjacent. */
    for (size_t i = jobs->n; i-- > 0;)
        if (jobs->job[i].id == id)
            return &jobs->job[i];
    return NULL;
}

static void job_init(struct stk_slurm_job *j, uint64_t id)
{
    *j = (struct stk_slurm_job){
        .id = id,
        .array_task = -1,
        .het_part = -1,
        .label = "",
        .state_word = "",
        .reason = "",
        .cancelled_by = "",
        .exit_code = -1,
        .exit_signal = -1,
        .restarts = -1,
        .name = "",
        .user = "",
        .account = "",
        .partition = "",
        .qos = "",
        .nodelist = "",
        .workdir = "",
        .dependency = "",
        .tasks = -1,
        .cpus_per_task = -1,
        .memory_per_cpu_bytes = -1,
        .memory_per_node_bytes = -1,
        .submit = -1,
        .eligible = -1,
        .start = -1,
        .end = -1,
        .elapsed_s = -1,
        .limit_s = -1,
    };
    stk_slurm_tres((struct stk_slurm_word){"", 0}, &j->asked);
    stk_slurm_tres((struct stk_slurm_word){"", 0}, &j->alloc);
    stk_slurm_use_init(&j->use);
}

struct stk_slurm_job *stk_slurm_jobs_get(struct stk_slurm_jobs *jobs, uint64_t id)
{
    struct stk_slurm_job *j = stk_slurm_jobs_find(jobs, id);
    jobs->more = jobs->more || (!j && jobs->n >= (jobs->max ? jobs->max : STK_SLURM_JOBS_MAX));
    if (j || jobs->more)
        return j;
    if (STK_ARRAY_MORE(jobs->job, jobs->n, NULL))
        return NULL;
    j = &jobs->job[jobs->n++];
    job_init(j, id);
    return j;
}

/* Copies text into the arena, "" for no value. NULL: out of memory. */
static const char *slurm_keep(struct stk_slurm_jobs *jobs, struct stk_slurm_word w)
{
    return stk_slurm_word_empty(w) ? "" : stk_arena_dup(&jobs->arena, w.p, w.n);
}

bool stk_slurm_take(struct stk_slurm_jobs *jobs, const char **to, struct stk_slurm_word w)
{
    if (*to && stk_slurm_word_empty(w))
        return true;
    const char *text = slurm_keep(jobs, w);
    if (text)
        *to = text;
    return text != NULL;
}

void stk_slurm_steps_drop(struct stk_slurm_job *job)
{
    job->nsteps = 0;
    stk_lookup_clear(&job->by_name);
}

struct stk_slurm_step *stk_slurm_step_get(struct stk_slurm_jobs *jobs, struct stk_slurm_job *job,
                                          struct stk_slurm_word name)
{
    /* A job may have tens of thousands of steps. */
    uint64_t hash = stk_hash64(name.p, name.n);
    uint32_t i;
    for (size_t at = 0; stk_lookup_next(&job->by_name, hash, &at, &i);)
        if (stk_slurm_word_is(name, job->step[i].name))
            return &job->step[i];
    const char *text = stk_arena_dup(&jobs->arena, name.p, name.n);
    if (!text || job->nsteps >= UINT32_MAX - 1 || STK_ARRAY_MORE(job->step, job->nsteps, NULL) ||
        stk_lookup_add(&job->by_name, hash, (uint32_t)job->nsteps, NULL))
        return NULL;
    struct stk_slurm_step *s = &job->step[job->nsteps++];
    *s = (struct stk_slurm_step){.name = text,
                                 .title = "",
                                 .nodelist = "",
                                 .peak_node = "",
                                 .exit_code = -1,
                                 .exit_signal = -1,
                                 .tasks = -1,
                                 .start = -1,
                                 .end = -1,
                                 .elapsed_s = -1};
    stk_slurm_tres((struct stk_slurm_word){"", 0}, &s->alloc);
    stk_slurm_use_init(&s->use);
    return s;
}

bool stk_slurm_job_name(struct stk_slurm_jobs *jobs, struct stk_slurm_job *job,
                        const struct stk_slurm_id *id)
{
    if (memchr(id->label.p, '_', id->label.n)) {
        job->array_id = id->job;
        job->array_task = id->task;
    }
    const char *plus = memchr(id->label.p, '+', id->label.n);
    if (plus) {
        size_t head = (size_t)(plus - id->label.p) + 1;
        job->het_id = id->job;
        job->het_part = stk_slurm_int((struct stk_slurm_word){plus + 1, id->label.n - head});
    }
    return stk_slurm_take(jobs, &job->label, id->label);
}

/* ---- use ---------------------------------------------------------------------------------- */

static void most(int64_t *to, int64_t v)
{
    *to = v > *to ? v : *to;
}

static void add(double *to, double v)
{
    if (v >= 0)
        *to = *to < 0 ? v : *to + v;
}

bool stk_slurm_step_is_ours(const struct stk_slurm_step *step)
{
    return step->title && strcmp(step->title, STK_SLURM_WATCH_STEP) == 0;
}

enum stk_slurm_step_kind stk_slurm_step_kind(const struct stk_slurm_step *step)
{
    return stk_slurm_step_is_ours(step)        ? STK_STEP_OURS
           : strcmp(step->name, "batch") == 0  ? STK_STEP_BATCH
           : strcmp(step->name, "extern") == 0 ? STK_STEP_EXTERN
                                               : STK_STEP_PROGRAM;
}

struct change {
    int64_t when;
    double by;
};

static int by_time(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->when != y->when)
        return x->when < y->when ? -1 : 1;
    return (x->by > y->by) - (x->by < y->by); /* ends before beginnings */
}

/* Of consecutive steps, the next may be recorded a second before the end of the last: here steps
 * begin a second later. */
double stk_slurm_at_once(const struct stk_slurm_job *job,
                         double (*of)(const struct stk_slurm_step *step))
{
    struct change *c = malloc((2 * job->nsteps + 1) * sizeof *c);
    double now = 0, peak = -1;
    size_t n = 0;
    for (size_t i = 0; i < job->nsteps; i++) {
        const struct stk_slurm_step *s = &job->step[i];
        double v = stk_slurm_step_is_ours(s) ? -1 : of(s);
        if (v < 0)
            continue;
        peak = v > peak ? v : peak;
        if (!c)
            continue;
        c[n++] = (struct change){s->start > 0 ? s->start + 1 : INT64_MIN, v};
        c[n++] = (struct change){s->end > 0 ? s->end : INT64_MAX, -v};
        if (c[n - 1].when <= c[n - 2].when) /* too short to overlap with another */
            n -= 2;
    }
    if (n)
        qsort(c, n, sizeof *c, by_time);
    for (size_t i = 0; i < n; i++) {
        now += c[i].by;
        peak = now > peak ? now : peak;
    }
    free(c);
    return peak;
}

static double memory_of(const struct stk_slurm_step *s)
{
    return (double)s->use.memory_bytes;
}

/* The job's memory is that of simultaneous steps; CPU time and traffic add up. */
static void sum_steps(struct stk_slurm_job *job)
{
    struct stk_slurm_use sum, *u = &job->use;
    double reads = -1, writes = -1, ours_s = 0;
    stk_slurm_use_init(&sum);
    for (size_t i = 0; i < job->nsteps; i++) {
        const struct stk_slurm_use *s = &job->step[i].use;
        if (stk_slurm_step_is_ours(&job->step[i])) {
            ours_s += s->cpu_s > 0 ? s->cpu_s : 0;
            continue;
        }
        add(&sum.cpu_s, s->cpu_s);
        most(&sum.task_memory_bytes, s->task_memory_bytes);
        most(&sum.gpu_memory_bytes, s->gpu_memory_bytes);
        sum.gpu_util = s->gpu_util > sum.gpu_util ? s->gpu_util : sum.gpu_util;
        sum.energy_J = s->energy_J > sum.energy_J ? s->energy_J : sum.energy_J;
        add(&reads, s->read_bytes < 0 ? -1 : (double)s->read_bytes);
        add(&writes, s->write_bytes < 0 ? -1 : (double)s->write_bytes);
    }
    u->cpu_s = sum.cpu_s > u->cpu_s - ours_s ? sum.cpu_s : u->cpu_s - ours_s;
    u->energy_J = u->energy_J > 0 ? u->energy_J : sum.energy_J;
    double memory = stk_slurm_at_once(job, memory_of);
    u->memory_bytes = memory < 0x1p62 ? (int64_t)memory : -1;
    u->task_memory_bytes = sum.task_memory_bytes;
    u->gpu_util = sum.gpu_util;
    u->gpu_memory_bytes = sum.gpu_memory_bytes;
    u->read_bytes = reads >= 0 && reads < 0x1p62 ? (int64_t)reads : -1;
    u->write_bytes = writes >= 0 && writes < 0x1p62 ? (int64_t)writes : -1;
}

/* ---- how it ended ------------------------------------------------------------------------- */

#define BY_SIGNAL(n) (128 + (n)) /* the status of a shell whose program died of it */

/* Slurm ended it, or a signal did. */
static bool was_killed(enum stk_slurm_state state, int code, int sig)
{
    return state > STK_SLURM_FAILED || sig > 0 || code == BY_SIGNAL(9) || code == BY_SIGNAL(15);
}

/* Without cgroups, slurmstepd kills a step over its memory and Slurm calls it cancelled. In a job
 * that was ended as a whole, signal 9 says nothing about a step. */
static bool killed_for_memory(const struct stk_slurm_job *job, const struct stk_slurm_step *s)
{
    int64_t limit = s->alloc.memory_bytes > 0 ? s->alloc.memory_bytes : job->alloc.memory_bytes;
    bool ended_alone = job->state <= STK_SLURM_FAILED;
    return s->state == STK_SLURM_OUT_OF_MEMORY ||
           (ended_alone && (s->exit_signal == 9 || s->exit_code == BY_SIGNAL(9)) && limit > 0 &&
            s->use.memory_bytes >= limit);
}

static void settle_step(const struct stk_slurm_job *job, struct stk_slurm_step *s)
{
    bool with_its_job = job->killed && s->state != STK_SLURM_COMPLETED;
    s->killed = was_killed(s->state, s->exit_code, s->exit_signal) || with_its_job;
    if (killed_for_memory(job, s))
        s->state = STK_SLURM_OUT_OF_MEMORY;
    if (s->use.cpu_s == 0 && s->use.memory_bytes < 0)
        s->use.cpu_s = -1; /* its end was never reported: node lost, or no accounting */
}

void stk_slurm_job_settle(struct stk_slurm_job *job)
{
    bool by_kill = job->exit_signal == 9, memory = false;
    job->killed = was_killed(job->state, job->exit_code, job->exit_signal);
    for (size_t i = 0; i < job->nsteps; i++) {
        settle_step(job, &job->step[i]);
        by_kill |= job->step[i].exit_signal == 9 || job->step[i].exit_code == BY_SIGNAL(9);
        memory |= job->step[i].state == STK_SLURM_OUT_OF_MEMORY;
    }
    if (job->use.cpu_s == 0)
        job->use.cpu_s = -1; /* a program that ran has used some */
    sum_steps(job);
    /* Without cgroups, slurmstepd kills a job over its memory and Slurm calls it FAILED; with them,
     * possibly only the step. */
    if (job->state == STK_SLURM_FAILED &&
        (memory || (by_kill && job->alloc.memory_bytes > 0 &&
                    job->use.memory_bytes >= job->alloc.memory_bytes))) {
        job->state = STK_SLURM_OUT_OF_MEMORY;
        job->by_kernel = true;
    }
    job->deadline = strncmp(job->state_word, "DEADLINE", 8) == 0;
}

const struct stk_slurm_step *stk_slurm_killed_for_memory(const struct stk_slurm_job *job, size_t n)
{
    for (size_t i = 0; i < job->nsteps; i++) {
        const struct stk_slurm_step *s = &job->step[i];
        if (s->state == STK_SLURM_OUT_OF_MEMORY && !stk_slurm_step_is_ours(s) && n-- == 0)
            return s;
    }
    return NULL;
}

static const struct reason {
    const char *reason;
    const char *means;
    bool final; /* whatever others do, the job never starts */
} reasons[] = {
    {"Priority", "jobs with a higher priority come first", false},
    {"Resources", "it is next, and waits for enough free resources", false},
    {"Dependency", "it waits for another job", false},
    {"DependencyNeverSatisfied", "the job it depends on failed: it will never start; cancel it",
     true},
    {"JobHeldUser", "its owner holds it: release it with scontrol release", false},
    {"JobHeldAdmin", "an administrator holds it: ask your site", false},
    {"BeginTime", "its begin time has not come; a requeued job also waits a while", false},
    {"JobArrayTaskLimit", "the array runs as many tasks as its limit allows (%)", false},
    {"PartitionTimeLimit",
     "it requests more time than the partition allows: it will never start as it is", true},
    {"PartitionNodeLimit",
     "it requests more nodes than the partition allows: it will never start as it is", true},
    {"PartitionConfig",
     "it requests more than the partition has or allows: it will never start as it is", true},
    {"PartitionDown", "the partition is closed", false},
    {"PartitionInactive", "the partition is closed", false},
    {"BadConstraints", "no node has what it requests: it will never start as it is", true},
    {"ReqNodeNotAvail", "a node it requests is down, drained or reserved", false},
    {"Reservation", "its reservation has not started", false},
    {"Licenses", "it waits for a licence", false},
    {"AssocGrpBillingMinutes", "the account has used up its service units", false},
    {"AssocGrpCPUMinutesLimit", "the account has used up its CPU time", false},
    {"AssocGrpGRES", "the account uses as many GPUs as it may", false},
    {"AssocGrpCpuLimit", "the account uses as many CPUs as it may", false},
    {"AssocMaxJobsLimit", "the user runs as many jobs as the account allows", false},
    {"QOSMaxJobsPerUserLimit", "the user runs as many jobs as the QOS allows", false},
    {"QOSMaxCpuPerUserLimit", "the user uses as many CPUs as the QOS allows", false},
    {"QOSMaxGRESPerUser", "the user uses as many GPUs as the QOS allows", false},
    {"QOSGrpCpuLimit", "all CPUs of the QOS are in use", false},
    {"QOSGrpGRES", "all GPUs of the QOS are in use", false},
    {"MaxCpuPerAccount", "the account uses as many CPUs as it may", false},
    {"launch failed requeued held", "its start failed, and it is held: ask your site", false},
    {"job requeued in held state", "it was requeued and is held: release it with scontrol release",
     false},
    {"InvalidAccount",
     "the account does not exist, or not for this user: it will never start as it is", true},
    {"InvalidQOS", "the QOS does not exist, or not for this account: it will never start as it is",
     true},
    {"AccountNotAllowed",
     "the partition does not accept this account: it will never start as it "
     "is",
     true},
    {"QOSNotAllowed", "the partition does not accept this QOS: it will never start as it is", true},
};

/* "ReqNodeNotAvail, UnavailableNodes:…" */
static const struct reason *find(const char *reason)
{
    size_t n = strcspn(reason, ",(");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strlen(reasons[i].reason) == n && memcmp(reasons[i].reason, reason, n) == 0)
            return &reasons[i];
    return NULL;
}

const char *stk_slurm_reason_text(const char *reason)
{
    const struct reason *r = find(reason);
    return r ? r->means : NULL;
}

bool stk_slurm_reason_is_final(const char *reason)
{
    const struct reason *r = find(reason);
    return r ? r->final : strstr(reason, "PerJob") != NULL; /* QOSMaxCpuPerJobLimit and the like */
}
