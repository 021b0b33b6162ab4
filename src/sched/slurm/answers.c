/*
 * answers.c - parses what Slurm's clients print: sacct (the accounting: a row per job and one per
 * step), sstat (running steps), squeue (jobs that wait, run, or have just ended), and scontrol -d
 * show job (the controller's own view, with the ids of GPUs and CPUs, and how memory was requested;
 * gone some minutes after the job's end). All of them are merged into one list of jobs.
 *
 * The text of scontrol cannot be split safely: a job's name may look like anything. So only lines
 * that begin as expected are read, and everything before the last "UserId=" (where the name is) is
 * dropped; and a state from another client takes precedence.
 */
#include "sched/slurm/priv.h"

#include <stdlib.h>

/* The fields that are asked for, in order. The first is the id; the last is the name of the job,
 * which may hold anything. All of them exist since 20.11. */
#define SACCT(X)                                                                                   \
    X(JobIDRaw) X(State) X(ExitCode) X(Submit) X(Eligible) X(Start) X(End) X(ElapsedRaw)           \
    X(TimelimitRaw) X(ReqTRES) X(AllocTRES) X(NTasks) X(TotalCPU) X(MaxRSS) X(MaxRSSNode)          \
    X(TRESUsageInTot) X(TRESUsageInAve) X(TRESUsageOutTot) X(ConsumedEnergyRaw) X(User)            \
    X(Account) X(Partition) X(QOS) X(NodeList) X(WorkDir) X(JobName)
#define SSTAT(X)                                                                                   \
    X(NTasks) X(MaxRSS) X(MaxRSSNode) X(TRESUsageInTot) X(TRESUsageInAve) X(TRESUsageOutTot)       \
    X(ConsumedEnergyRaw) X(Nodelist)
#define FIELD(name)        "," #name
#define SACCT_COLUMN(name) SACCT_##name,
#define SSTAT_COLUMN(name) SSTAT_##name,
const char stk_slurm_sacct_fields[] = "JobID" SACCT(FIELD);
const char stk_slurm_sstat_fields[] = "JobID" SSTAT(FIELD);
enum sacct_column { SACCT_JobID, SACCT(SACCT_COLUMN) NSACCT };
enum sstat_column { SSTAT_JobID, SSTAT(SSTAT_COLUMN) NSSTAT };

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
    bool ended = stk_slurm_ended(stk_slurm_state_of(c[SACCT_State].p, c[SACCT_State].n));
    begin_life(j);
    bool ok = stk_slurm_job_name(jobs, j, id) && take_state(jobs, j, c[SACCT_State]);
    if (ended)
        stk_slurm_exit(c[SACCT_ExitCode], &j->exit_code, &j->exit_signal);
    j->submit = stk_slurm_time(c[SACCT_Submit]);
    j->eligible = stk_slurm_time(c[SACCT_Eligible]);
    j->start = stk_slurm_time(c[SACCT_Start]) > 0 ? stk_slurm_time(c[SACCT_Start]) : j->start;
    j->end = stk_slurm_time(c[SACCT_End]) > 0 ? stk_slurm_time(c[SACCT_End]) : j->end;
    j->elapsed_s = (double)stk_slurm_int(c[SACCT_ElapsedRaw]);
    j->limit_s = limit_of(c[SACCT_TimelimitRaw]);
    stk_slurm_tres(c[SACCT_ReqTRES], &j->asked);
    if (c[SACCT_AllocTRES].n)
        stk_slurm_tres(c[SACCT_AllocTRES], &j->alloc);
    j->use.energy_J = joules(c[SACCT_ConsumedEnergyRaw]);
    if (ended)
        j->use.cpu_s = stk_slurm_seconds(c[SACCT_TotalCPU]);
    ok = ok && stk_slurm_take(jobs, &j->user, c[SACCT_User]) &&
         stk_slurm_take(jobs, &j->account, c[SACCT_Account]) &&
         stk_slurm_take(jobs, &j->partition, c[SACCT_Partition]) &&
         stk_slurm_take(jobs, &j->qos, c[SACCT_QOS]) &&
         stk_slurm_take(jobs, &j->nodelist, c[SACCT_NodeList]) &&
         stk_slurm_take(jobs, &j->workdir, c[SACCT_WorkDir]) &&
         stk_slurm_take(jobs, &j->name, c[SACCT_JobName]);
    return ok ? 0 : STK_E_NOMEM;
}

static int read_step(struct stk_slurm_jobs *jobs, const struct stk_slurm_word *c,
                     const struct stk_slurm_id *id, struct stk_slurm_job *j)
{
    struct stk_slurm_step *s = stk_slurm_step_get(jobs, j, id->step);
    if (!s)
        return STK_E_NOMEM;
    s->state = stk_slurm_state_of(c[SACCT_State].p, c[SACCT_State].n);
    bool ended = stk_slurm_ended(s->state);
    if (ended)
        stk_slurm_exit(c[SACCT_ExitCode], &s->exit_code, &s->exit_signal);
    s->tasks = stk_slurm_int(c[SACCT_NTasks]);
    s->start = stk_slurm_time(c[SACCT_Start]);
    s->end = stk_slurm_time(c[SACCT_End]);
    s->elapsed_s = (double)stk_slurm_int(c[SACCT_ElapsedRaw]);
    stk_slurm_tres(c[SACCT_AllocTRES], &s->alloc);
    read_use(&s->use, c[SACCT_TRESUsageInTot], c[SACCT_TRESUsageInAve], c[SACCT_TRESUsageOutTot],
             c[SACCT_MaxRSS]);
    s->use.energy_J = joules(c[SACCT_ConsumedEnergyRaw]);
    /* Milliseconds instead of seconds; 0 until the step has ended. */
    if (ended && stk_slurm_seconds(c[SACCT_TotalCPU]) >= 0)
        s->use.cpu_s = stk_slurm_seconds(c[SACCT_TotalCPU]);
    return stk_slurm_take(jobs, &s->title, c[SACCT_JobName]) &&
                   stk_slurm_take(jobs, &s->nodelist, c[SACCT_NodeList]) &&
                   stk_slurm_take(jobs, &s->peak_node, c[SACCT_MaxRSSNode])
               ? 0
               : STK_E_NOMEM;
}

static int sacct_row(void *user, const struct stk_slurm_word *c)
{
    const struct reading *r = user;
    struct stk_slurm_id id, raw;
    if (!stk_slurm_id(c[SACCT_JobID], &id) || !stk_slurm_id(c[SACCT_JobIDRaw], &raw))
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
    struct stk_slurm_job *j = stk_slurm_id(c[SSTAT_JobID], &id) ? job_of(jobs, &id) : NULL;
    if (!j || id.step.n == 0)
        return 0;
    struct stk_slurm_step *s = stk_slurm_step_get(jobs, j, id.step);
    if (!s)
        return STK_E_NOMEM;
    j->sources |= STK_SLURM_BY_SSTAT;
    s->state = STK_SLURM_RUNNING;
    s->tasks = stk_slurm_int(c[SSTAT_NTasks]);
    read_use(&s->use, c[SSTAT_TRESUsageInTot], c[SSTAT_TRESUsageInAve], c[SSTAT_TRESUsageOutTot],
             c[SSTAT_MaxRSS]);
    s->use.energy_J = joules(c[SSTAT_ConsumedEnergyRaw]);
    return stk_slurm_take(jobs, &s->nodelist, c[SSTAT_Nodelist]) &&
                   stk_slurm_take(jobs, &s->peak_node, c[SSTAT_MaxRSSNode])
               ? 0
               : STK_E_NOMEM;
}

int stk_slurm_read_sstat(struct stk_slurm_jobs *jobs, const char *text, size_t len, const char *sep)
{
    return stk_slurm_rows(text, len, sep, NSSTAT, sstat_row, jobs);
}

/* ---- squeue ------------------------------------------------------------------------------- */

/* Short formats: old versions cut the long ones to twenty columns. The name comes last. */
#define SQUEUE(X)                                                                                  \
    X(Q_LABEL, i) X(Q_ID, A) X(Q_STATE, T) X(Q_REASON, r) X(Q_NODES, D) X(Q_CPUS, C)               \
    X(Q_GRES, b) X(Q_LIMIT, l) X(Q_USED, M) X(Q_SUBMIT, V) X(Q_START, S) X(Q_END, e)               \
    X(Q_USER, u) X(Q_ACCOUNT, a) X(Q_PARTITION, P) X(Q_QOS, q) X(Q_NODELIST, N)                    \
    X(Q_DEPENDENCY, E) X(Q_WORKDIR, Z) X(Q_NAME, j)
#define LETTER(name, letter)        #letter
#define SQUEUE_COLUMN(name, letter) name,
const char stk_slurm_squeue_fields[] = SQUEUE(LETTER);
enum squeue_column { SQUEUE(SQUEUE_COLUMN) NSQUEUE };

/* "gres:gpu:k80:2", "gres/gpu:2", "gres/gpu:k80=2": per node. -1: no GPU in it. */
static int64_t gpus_of(struct stk_slurm_word w, char *kind, size_t size)
{
    static const char gpu[] = "gpu";
    const char *at = w.n ? memmem(w.p, w.n, gpu, 3) : NULL;
    if (!at)
        return -1;
    const char *end = memchr(at, ',', w.n - (size_t)(at - w.p));
    end = end ? end : w.p + w.n;
    const char *last = memrchr(at, '=', (size_t)(end - at));
    last = last ? last : memrchr(at, ':', (size_t)(end - at));
    if (!last)
        return 1;
    if (last > at + 4 && (size_t)(last - at) - 4 < size) {
        memcpy(kind, at + 4, (size_t)(last - at) - 4);
        kind[last - at - 4] = '\0';
    }
    return stk_slurm_int((struct stk_slurm_word){last + 1, (size_t)(end - last) - 1});
}

/* What it has or had, otherwise what it requests: a job that never started has no nodes. */
static void read_size(struct stk_slurm_job *j, const struct stk_slurm_word *c)
{
    bool given = !stk_slurm_waits(j->state) && !stk_slurm_word_empty(c[Q_NODELIST]);
    struct stk_slurm_tres *t = given ? &j->alloc : &j->asked;
    char kind[sizeof t->gpu_kind] = "";
    int64_t gpus = gpus_of(c[Q_GRES], kind, sizeof kind), nodes = stk_slurm_int(c[Q_NODES]);
    t->cpus = t->cpus < 0 ? stk_slurm_int(c[Q_CPUS]) : t->cpus;
    t->nodes = t->nodes < 0 ? nodes : t->nodes;
    if (t->gpus >= 0 || gpus < 0 || nodes < 0 || __builtin_mul_overflow(gpus, nodes, &gpus))
        return;
    t->gpus = gpus;
    memcpy(t->gpu_kind, kind, sizeof kind);
}

/* A job that goes back to the queue says so in its reason, or not at all. */
static enum stk_slurm_state state_of(const struct stk_slurm_word *c)
{
    enum stk_slurm_state s = stk_slurm_state_of(c[Q_STATE].p, c[Q_STATE].n);
    bool again = c[Q_REASON].n && memmem(c[Q_REASON].p, c[Q_REASON].n, "requeue", 7);
    return s == STK_SLURM_PENDING && again ? STK_SLURM_REQUEUED : s;
}

static int squeue_row(void *user, const struct stk_slurm_word *c)
{
    const struct reading *r = user;
    int64_t number = stk_slurm_int(c[Q_ID]);
    struct stk_slurm_id id;
    if (number < 1 || number > UINT32_MAX || !stk_slurm_id(c[Q_LABEL], &id))
        return 0;
    struct stk_slurm_job *j = r->only ? stk_slurm_jobs_find(r->jobs, (uint64_t)number)
                                      : stk_slurm_jobs_get(r->jobs, (uint64_t)number);
    if (!j)
        return r->only || r->jobs->more ? 0 : STK_E_NOMEM;
    /* The accounting is right about the end of a job, squeue about everything before. */
    enum stk_slurm_state state = state_of(c);
    bool known = stk_slurm_ended(j->state);
    j->sources |= STK_SLURM_BY_SQUEUE;
    bool ok = stk_slurm_job_name(r->jobs, j, &id);
    if (!known) {
        j->state = state;
        ok = ok && stk_slurm_take(r->jobs, &j->state_word, c[Q_STATE]);
    }
    ok = ok && stk_slurm_take(r->jobs, &j->reason, c[Q_REASON]);
    read_size(j, c);
    j->limit_s = j->limit_s < 0 ? stk_slurm_limit(c[Q_LIMIT]) : j->limit_s;
    j->elapsed_s = known ? j->elapsed_s : stk_slurm_seconds(c[Q_USED]);
    j->submit = j->submit < 0 ? stk_slurm_time(c[Q_SUBMIT]) : j->submit;
    j->start = j->start < 0 ? stk_slurm_time(c[Q_START]) : j->start;
    if (stk_slurm_ended(state) && j->end < 0)
        j->end = stk_slurm_time(c[Q_END]);
    ok = ok && stk_slurm_take(r->jobs, &j->user, c[Q_USER]) &&
         stk_slurm_take(r->jobs, &j->account, c[Q_ACCOUNT]) &&
         stk_slurm_take(r->jobs, &j->partition, c[Q_PARTITION]) &&
         stk_slurm_take(r->jobs, &j->qos, c[Q_QOS]) &&
         stk_slurm_take(r->jobs, &j->nodelist, c[Q_NODELIST]) &&
         stk_slurm_take(r->jobs, &j->dependency, c[Q_DEPENDENCY]) &&
         stk_slurm_take(r->jobs, &j->workdir, c[Q_WORKDIR]) &&
         stk_slurm_take(r->jobs, &j->name, c[Q_NAME]);
    return ok ? 0 : STK_E_NOMEM;
}

int stk_slurm_read_squeue(struct stk_slurm_jobs *jobs, const char *text, size_t len,
                          const char *sep, bool only)
{
    struct reading r = {jobs, only};
    return stk_slurm_rows(text, len, sep, NSQUEUE, squeue_row, &r);
}

/* ---- scontrol ----------------------------------------------------------------------------- */

struct record {
    struct stk_slurm_jobs *jobs;
    struct stk_slurm_job *job; /* NULL: skipped */
    struct stk_slurm_word name;
    bool past_command;
};

/* ---- one "Key=value" after the other ------------------------------------------------------ */

static bool value_of(struct stk_slurm_word line, const char *key, struct stk_slurm_word *value)
{
    size_t n = strlen(key);
    for (size_t at = 0; at + n < line.n;) {
        if (memcmp(line.p + at, key, n) == 0 && line.p[at + n] == '=') {
            at += n + 1;
            const char *end = memchr(line.p + at, ' ', line.n - at);
            *value = (struct stk_slurm_word){line.p + at,
                                             end ? (size_t)(end - line.p) - at : line.n - at};
            return true;
        }
        const char *blank = memchr(line.p + at, ' ', line.n - at);
        if (!blank)
            return false;
        at = (size_t)(blank - line.p) + 1;
    }
    return false;
}

static bool begins(struct stk_slurm_word line, const char *key)
{
    size_t n = strlen(key);
    return line.n > n && memcmp(line.p, key, n) == 0 && line.p[n] == '=';
}

/* ---- lines -------------------------------------------------------------------------------- */

/* "Nodes=node[1-2] CPU_IDs=0-1 Mem=1000 GRES=gpu:k80:2(IDX:0-1)" */
static bool read_node(struct record *r, struct stk_slurm_word line)
{
    struct stk_slurm_job *j = r->job;
    struct stk_slurm_word nodes, cpus, gres, ids = {"", 0}, kind = {"", 0};
    if (!value_of(line, "Nodes", &nodes) || !value_of(line, "CPU_IDs", &cpus) ||
        !value_of(line, "GRES", &gres) || j->ngpus >= 4096)
        return true;
    const char *gpu = gres.n ? memmem(gres.p, gres.n, "gpu", 3) : NULL;
    if (!gpu)
        return true;
    size_t left = gres.n - (size_t)(gpu - gres.p);
    const char *open = memmem(gpu, left, "(IDX:", 5);
    const char *close = open ? memchr(open, ')', left - (size_t)(open - gpu)) : NULL;
    size_t head = open ? (size_t)(open - gpu) : left;
    const char *last = memrchr(gpu, ':', head);
    if (!last)
        return true;
    if (last > gpu + 4)
        kind = (struct stk_slurm_word){gpu + 4, (size_t)(last - gpu) - 4};
    if (close)
        ids = (struct stk_slurm_word){open + 5, (size_t)(close - open) - 5};
    if (STK_ARRAY_MORE(j->gpus, j->ngpus, NULL))
        return false;
    struct stk_slurm_gpus *g = &j->gpus[j->ngpus];
    *g = (struct stk_slurm_gpus){
        .count = stk_slurm_int((struct stk_slurm_word){last + 1, head - (size_t)(last - gpu) - 1})};
    j->ngpus++;
    return stk_slurm_take(r->jobs, &g->nodes, nodes) && stk_slurm_take(r->jobs, &g->ids, ids) &&
           stk_slurm_take(r->jobs, &g->kind, kind) && stk_slurm_take(r->jobs, &g->cpu_ids, cpus);
}

static bool read_state(struct record *r, struct stk_slurm_word line)
{
    struct stk_slurm_job *j = r->job;
    struct stk_slurm_word v;
    bool known = j->state != STK_SLURM_UNKNOWN;
    bool ok = true;
    if (!known && value_of(line, "JobState", &v)) {
        j->state = stk_slurm_state_of(v.p, v.n);
        ok = stk_slurm_take(r->jobs, &j->state_word, v);
    }
    if (ok && !j->reason[0] && value_of(line, "Reason", &v))
        ok = stk_slurm_take(r->jobs, &j->reason, v);
    if (ok && value_of(line, "Dependency", &v))
        ok = stk_slurm_take(r->jobs, &j->dependency, v);
    return ok;
}

static void read_numbers(struct stk_slurm_job *j, struct stk_slurm_word line)
{
    struct stk_slurm_word v;
    if (value_of(line, "Restarts", &v) && stk_slurm_int(v) >= 0 && stk_slurm_int(v) < INT32_MAX)
        j->restarts = (int)stk_slurm_int(v);
    if (value_of(line, "ExitCode", &v) && j->exit_code < 0 && stk_slurm_ended(j->state))
        stk_slurm_exit(v, &j->exit_code, &j->exit_signal);
    if (value_of(line, "RunTime", &v) && j->elapsed_s < 0)
        j->elapsed_s = stk_slurm_seconds(v);
    if (value_of(line, "TimeLimit", &v) && j->limit_s < 0)
        j->limit_s = stk_slurm_limit(v);
    if (value_of(line, "SubmitTime", &v) && j->submit < 0)
        j->submit = stk_slurm_time(v);
    if (value_of(line, "EligibleTime", &v) && j->eligible < 0)
        j->eligible = stk_slurm_time(v);
    if (value_of(line, "StartTime", &v) && j->start < 0)
        j->start = stk_slurm_time(v);
    if (value_of(line, "EndTime", &v) && j->end < 0 && stk_slurm_ended(j->state))
        j->end = stk_slurm_time(v);
    if (value_of(line, "NumTasks", &v))
        j->tasks = stk_slurm_int(v);
    if (value_of(line, "CPUs/Task", &v))
        j->cpus_per_task = stk_slurm_int(v);
    if (value_of(line, "MinMemoryCPU", &v))
        j->memory_per_cpu_bytes = stk_slurm_megas(v);
    if (value_of(line, "MinMemoryNode", &v))
        j->memory_per_node_bytes = stk_slurm_megas(v);
    if (value_of(line, "OverSubscribe", &v))
        j->exclusive = stk_slurm_word_is(v, "NO");
}

/* A job that has not started has none of it (the line with its nodes comes first); if the two
 * differ, newer versions name both. */
static void read_tres(struct stk_slurm_job *j, struct stk_slurm_word line)
{
    struct stk_slurm_word v;
    if (value_of(line, "TRES", &v) || value_of(line, "AllocTRES", &v)) {
        bool given = !stk_slurm_waits(j->state) && j->nodelist[0];
        struct stk_slurm_tres *t = given ? &j->alloc : &j->asked, got;
        stk_slurm_tres(v, &got);
        if (got.cpus >= 0 && (t->cpus < 0 || t->memory_bytes < 0))
            *t = got;
    }
    if (value_of(line, "ReqTRES", &v) && j->asked.memory_bytes < 0)
        stk_slurm_tres(v, &j->asked);
}

static bool read_texts(struct record *r, struct stk_slurm_word line)
{
    struct stk_slurm_job *j = r->job;
    struct stk_slurm_word v, rest;
    const char *eq = memchr(line.p, '=', line.n);
    rest = eq ? (struct stk_slurm_word){eq + 1, line.n - (size_t)(eq - line.p) - 1} : line;
    bool ok = true;
    if (begins(line, "Priority")) {
        ok = !value_of(line, "Account", &v) || stk_slurm_take(r->jobs, &j->account, v);
        ok = ok && (!value_of(line, "QOS", &v) || stk_slurm_take(r->jobs, &j->qos, v));
    } else if (begins(line, "UserId")) {
        const char *paren = value_of(line, "UserId", &v) ? memchr(v.p, '(', v.n) : NULL;
        v.n = paren ? (size_t)(paren - v.p) : v.n;
        ok = stk_slurm_take(r->jobs, &j->user, v);
    } else if (begins(line, "Partition")) {
        ok = !value_of(line, "Partition", &v) || stk_slurm_take(r->jobs, &j->partition, v);
    } else if (begins(line, "NodeList")) {
        /* "NodeList= SchedNodeList=node[1-4]": where it would have started */
        ok = !value_of(line, "NodeList", &v) || stk_slurm_take(r->jobs, &j->nodelist, v);
    } else if (begins(line, "WorkDir")) {
        ok = stk_slurm_take(r->jobs, &j->workdir, rest);
    }
    return ok;
}

/* ---- records ------------------------------------------------------------------------------ */

/* "JobId=9 ArrayJobId=5 ArrayTaskId=2 JobName=arr", "JobId=9 HetJobId=8 HetJobOffset=1 …". A job
 * that was not requested is a line of another job's name. */
static int begin_record(struct record *r, struct stk_slurm_word line, uint64_t want, bool only)
{
    struct stk_slurm_word v, head = line;
    const char *name = memmem(line.p, line.n, "JobName=", 8);
    if (!name)
        return 0;
    head.n = (size_t)(name - line.p);
    int64_t id = value_of(head, "JobId", &v) ? stk_slurm_int(v) : -1;
    int64_t array = value_of(head, "ArrayJobId", &v) ? stk_slurm_int(v) : -1;
    int64_t task = value_of(head, "ArrayTaskId", &v) ? stk_slurm_int(v) : -1;
    int64_t het = value_of(head, "HetJobId", &v) ? stk_slurm_int(v) : -1;
    int64_t part = value_of(head, "HetJobOffset", &v) ? stk_slurm_int(v) : -1;
    if (id < 1 || id > UINT32_MAX ||
        (want && (uint64_t)id != want && (uint64_t)array != want && (uint64_t)het != want))
        return 0;
    r->past_command = false;
    r->name = (struct stk_slurm_word){name + 8, line.n - head.n - 8};
    r->job = only ? stk_slurm_jobs_find(r->jobs, (uint64_t)id)
                  : stk_slurm_jobs_get(r->jobs, (uint64_t)id);
    if (!r->job)
        return only || r->jobs->more ? 0 : STK_E_NOMEM;
    r->job->sources |= STK_SLURM_BY_SCONTROL;
    if (array > 0) {
        r->job->array_id = (uint64_t)array;
        r->job->array_task = task;
    }
    if (het > 0 && part >= 0) {
        r->job->het_id = (uint64_t)het;
        r->job->het_part = part;
    }
    if (r->job->label[0])
        return 0;
    struct stk_buf b = STK_BUF_INIT;
    if (array > 0 && task >= 0)
        stk_buf_printf(&b, "%lld_%lld", (long long)array, (long long)task);
    else if (het > 0 && part >= 0)
        stk_buf_printf(&b, "%lld+%lld", (long long)het, (long long)part);
    else
        stk_buf_printf(&b, "%lld", (long long)id);
    bool ok =
        stk_slurm_take(r->jobs, &r->job->label, (struct stk_slurm_word){stk_buf_cstr(&b), b.len});
    stk_buf_release(&b);
    return ok ? 0 : STK_E_NOMEM;
}

static bool read_line(struct record *r, struct stk_slurm_word line)
{
    size_t blanks = 0;
    while (blanks < line.n && line.p[blanks] == ' ')
        blanks++;
    line.p += blanks;
    line.n -= blanks;
    if (blanks < 3 || !r->job)
        return true;
    if (begins(line, "UserId")) {
        r->past_command = false;
        if (!r->job->name[0] && !stk_slurm_take(r->jobs, &r->job->name, r->name))
            return false;
    }
    if (blanks == 5 && begins(line, "Nodes"))
        return read_node(r, line);
    r->past_command |= begins(line, "Command");
    if (!r->past_command) {
        if (begins(line, "JobState") && !read_state(r, line))
            return false;
        if (!begins(line, "JobState"))
            read_numbers(r->job, line);
        read_tres(r->job, line);
    }
    return read_texts(r, line);
}

int stk_slurm_read_scontrol(struct stk_slurm_jobs *jobs, const char *text, size_t len,
                            uint64_t want, bool only)
{
    struct record r = {.jobs = jobs};
    int rc = 0;
    for (size_t at = 0; at < len && rc == 0;) {
        const char *end = memchr(text + at, '\n', len - at);
        struct stk_slurm_word line = {text + at, end ? (size_t)(end - text) - at : len - at};
        at += line.n + 1;
        if (begins(line, "JobId"))
            rc = begin_record(&r, line, want, only);
        else if (line.n && !read_line(&r, line))
            rc = STK_E_NOMEM;
    }
    return rc == 0 && !stk_slurm_is_whole(text, len) ? STK_SLURM_CUT : rc;
}
