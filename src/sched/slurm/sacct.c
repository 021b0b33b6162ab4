/*
 * sacct.c - parses the output of sacct (the accounting) and sstat (running steps): one row
 * per job and one per step, merged into one job.
 */
#include "sched/slurm/priv.h"

/* All of them exist since 20.11. The name comes last: it may hold anything. */
const char stk_slurm_sacct_fields[] =
    "JobID,JobIDRaw,State,ExitCode,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,ReqTRES,"
    "AllocTRES,NTasks,TotalCPU,MaxRSS,MaxRSSNode,TRESUsageInTot,TRESUsageInAve,TRESUsageOutTot,"
    "ConsumedEnergyRaw,User,Account,Partition,QOS,NodeList,WorkDir,JobName";
enum sacct_column {
    JOBID,
    RAW,
    STATE,
    EXIT,
    SUBMIT,
    ELIGIBLE,
    START,
    END,
    ELAPSED,
    LIMIT,
    ASKED,
    ALLOC,
    TASKS,
    CPU,
    MAX_RSS,
    MAX_RSS_NODE,
    IN_TOT,
    IN_AVE,
    OUT_TOT,
    ENERGY,
    USER,
    ACCOUNT,
    PARTITION,
    QOS,
    NODES,
    WORKDIR,
    NAME,
    NSACCT
};

const char stk_slurm_sstat_fields[] =
    "JobID,NTasks,MaxRSS,MaxRSSNode,TRESUsageInTot,TRESUsageInAve,TRESUsageOutTot,"
    "ConsumedEnergyRaw,Nodelist";
enum sstat_column {
    S_JOBID,
    S_TASKS,
    S_MAX_RSS,
    S_MAX_RSS_NODE,
    S_IN_TOT,
    S_IN_AVE,
    S_OUT_TOT,
    S_ENERGY,
    S_NODES,
    NSSTAT
};

struct reading {
    struct stk_slurm_jobs *jobs;
    bool only;
};

/* 0 means that energy is not measured. */
static double joules(struct stk_slurm_word w)
{
    int64_t v = stk_slurm_int(w);
    return v > 0 ? (double)v : -1;
}

/* TRESUsageInTot: the sum over the tasks; for memory, of each task's peak. */
static void read_use(struct stk_slurm_use *u, struct stk_slurm_word in_tot,
                     struct stk_slurm_word in_ave, struct stk_slurm_word out_tot,
                     struct stk_slurm_word max_rss)
{
    struct stk_slurm_word v;
    u->task_memory_bytes = stk_slurm_bytes(max_rss);
    if (stk_slurm_find(in_tot, "mem", &v))
        u->memory_bytes = stk_slurm_bytes(v);
    if (u->memory_bytes < u->task_memory_bytes)
        u->memory_bytes = u->task_memory_bytes;
    if (stk_slurm_find(in_tot, "fs/disk", &v))
        u->read_bytes = stk_slurm_bytes(v);
    if (stk_slurm_find(out_tot, "fs/disk", &v))
        u->write_bytes = stk_slurm_bytes(v);
    if (stk_slurm_find(in_tot, "gres/gpumem", &v))
        u->gpu_memory_bytes = stk_slurm_bytes(v);
    if (stk_slurm_find(in_ave, "gres/gpuutil", &v) && stk_slurm_int(v) >= 0 &&
        stk_slurm_int(v) <= 100)
        u->gpu_util = (double)stk_slurm_int(v) / 100;
    if (stk_slurm_find(in_tot, "cpu", &v))
        u->cpu_s = stk_slurm_seconds(v);
}

static int64_t limit_of(struct stk_slurm_word minutes)
{
    int64_t v = stk_slurm_int(minutes);
    if (stk_slurm_word_is(minutes, "UNLIMITED"))
        return INT64_MAX;
    return v >= 0 && v < INT64_C(1) << 40 ? v * 60 : -1;
}

/* A requeued job has one row per life, the last one last. */
static void begin_life(struct stk_slurm_job *j)
{
    bool again = j->sources & STK_SLURM_BY_SACCT;
    j->restarts = again ? j->restarts + 1 : 0;
    if (again) {
        j->start = j->end = -1;
        j->exit_code = j->exit_signal = -1;
        j->nodelist = "";
        stk_slurm_tres((struct stk_slurm_word){"", 0}, &j->alloc);
    }
    j->sources |= STK_SLURM_BY_SACCT;
    stk_slurm_steps_drop(j);
    stk_slurm_use_init(&j->use);
}

/* squeue knows the present better; the accounting, the end. */
static bool take_state(struct stk_slurm_jobs *jobs, struct stk_slurm_job *j,
                       struct stk_slurm_word w)
{
    enum stk_slurm_state state = stk_slurm_state_of(w.p, w.n);
    bool live = j->sources & (STK_SLURM_BY_SQUEUE | STK_SLURM_BY_SCONTROL);
    if (live && j->state != STK_SLURM_UNKNOWN && !stk_slurm_ended(state))
        return true;
    if (live && !stk_slurm_ended(j->state) && j->state != STK_SLURM_UNKNOWN)
        return true;
    j->state = state;
    return stk_slurm_take(jobs, &j->state_word, w);
}

static int read_job(struct stk_slurm_jobs *jobs, const struct stk_slurm_word *c,
                    const struct stk_slurm_id *id, struct stk_slurm_job *j)
{
    bool ended = stk_slurm_ended(stk_slurm_state_of(c[STATE].p, c[STATE].n));
    begin_life(j);
    bool ok = stk_slurm_job_name(jobs, j, id) && take_state(jobs, j, c[STATE]);
    if (ended)
        stk_slurm_exit(c[EXIT], &j->exit_code, &j->exit_signal);
    j->submit = stk_slurm_time(c[SUBMIT]);
    j->eligible = stk_slurm_time(c[ELIGIBLE]);
    j->start = stk_slurm_time(c[START]) > 0 ? stk_slurm_time(c[START]) : j->start;
    j->end = stk_slurm_time(c[END]) > 0 ? stk_slurm_time(c[END]) : j->end;
    j->elapsed_s = (double)stk_slurm_int(c[ELAPSED]);
    j->limit_s = limit_of(c[LIMIT]);
    stk_slurm_tres(c[ASKED], &j->asked);
    if (c[ALLOC].n)
        stk_slurm_tres(c[ALLOC], &j->alloc);
    j->use.energy_J = joules(c[ENERGY]);
    if (ended)
        j->use.cpu_s = stk_slurm_seconds(c[CPU]);
    ok = ok && stk_slurm_take(jobs, &j->user, c[USER]) &&
         stk_slurm_take(jobs, &j->account, c[ACCOUNT]) &&
         stk_slurm_take(jobs, &j->partition, c[PARTITION]) &&
         stk_slurm_take(jobs, &j->qos, c[QOS]) && stk_slurm_take(jobs, &j->nodelist, c[NODES]) &&
         stk_slurm_take(jobs, &j->workdir, c[WORKDIR]) && stk_slurm_take(jobs, &j->name, c[NAME]);
    return ok ? 0 : STK_E_NOMEM;
}

static int read_step(struct stk_slurm_jobs *jobs, const struct stk_slurm_word *c,
                     const struct stk_slurm_id *id, struct stk_slurm_job *j)
{
    struct stk_slurm_step *s = stk_slurm_step_get(jobs, j, id->step);
    if (!s)
        return STK_E_NOMEM;
    s->state = stk_slurm_state_of(c[STATE].p, c[STATE].n);
    bool ended = stk_slurm_ended(s->state);
    if (ended)
        stk_slurm_exit(c[EXIT], &s->exit_code, &s->exit_signal);
    s->tasks = stk_slurm_int(c[TASKS]);
    s->start = stk_slurm_time(c[START]);
    s->end = stk_slurm_time(c[END]);
    s->elapsed_s = (double)stk_slurm_int(c[ELAPSED]);
    stk_slurm_tres(c[ALLOC], &s->alloc);
    read_use(&s->use, c[IN_TOT], c[IN_AVE], c[OUT_TOT], c[MAX_RSS]);
    s->use.energy_J = joules(c[ENERGY]);
    /* Milliseconds instead of seconds; 0 until the step has ended. */
    if (ended && stk_slurm_seconds(c[CPU]) >= 0)
        s->use.cpu_s = stk_slurm_seconds(c[CPU]);
    return stk_slurm_take(jobs, &s->title, c[NAME]) &&
                   stk_slurm_take(jobs, &s->nodelist, c[NODES]) &&
                   stk_slurm_take(jobs, &s->peak_node, c[MAX_RSS_NODE])
               ? 0
               : STK_E_NOMEM;
}

static int sacct_row(void *user, const struct stk_slurm_word *c)
{
    const struct reading *r = user;
    struct stk_slurm_id id, raw;
    if (!stk_slurm_id(c[JOBID], &id) || !stk_slurm_id(c[RAW], &raw))
        return 0;
    /* A step belongs to a job that was read before; pending tasks of an array share the number of
     * the array, which a started task may have too. */
    struct stk_slurm_job *j = stk_slurm_jobs_find(r->jobs, raw.job);
    if (!j && !r->only && id.step.n == 0)
        j = stk_slurm_jobs_get(r->jobs, raw.job);
    if (!j)
        return r->jobs->more || r->only || id.step.n ? 0 : STK_E_NOMEM;
    return id.step.n ? read_step(r->jobs, c, &id, j) : read_job(r->jobs, c, &id, j);
}

int stk_slurm_read_sacct(struct stk_slurm_jobs *jobs, const char *text, size_t len, const char *sep,
                         bool only)
{
    struct reading r = {jobs, only};
    return stk_slurm_rows(text, len, sep, NSACCT, sacct_row, &r);
}

/* ---- sstat -------------------------------------------------------------------------------- */

static struct stk_slurm_job *job_of(const struct stk_slurm_jobs *jobs,
                                    const struct stk_slurm_id *id)
{
    if (id->task < 0)
        return stk_slurm_jobs_find(jobs, id->job);
    for (size_t i = 0; i < jobs->n; i++)
        if (jobs->job[i].array_id == id->job && jobs->job[i].array_task == id->task)
            return &jobs->job[i];
    return NULL;
}

static int sstat_row(void *user, const struct stk_slurm_word *c)
{
    struct stk_slurm_jobs *jobs = user;
    struct stk_slurm_id id;
    struct stk_slurm_job *j = stk_slurm_id(c[S_JOBID], &id) ? job_of(jobs, &id) : NULL;
    if (!j || id.step.n == 0)
        return 0;
    struct stk_slurm_step *s = stk_slurm_step_get(jobs, j, id.step);
    if (!s)
        return STK_E_NOMEM;
    j->sources |= STK_SLURM_BY_SSTAT;
    s->state = STK_SLURM_RUNNING;
    s->tasks = stk_slurm_int(c[S_TASKS]);
    read_use(&s->use, c[S_IN_TOT], c[S_IN_AVE], c[S_OUT_TOT], c[S_MAX_RSS]);
    s->use.energy_J = joules(c[S_ENERGY]);
    return stk_slurm_take(jobs, &s->nodelist, c[S_NODES]) &&
                   stk_slurm_take(jobs, &s->peak_node, c[S_MAX_RSS_NODE])
               ? 0
               : STK_E_NOMEM;
}

int stk_slurm_read_sstat(struct stk_slurm_jobs *jobs, const char *text, size_t len, const char *sep)
{
    return stk_slurm_rows(text, len, sep, NSSTAT, sstat_row, jobs);
}
