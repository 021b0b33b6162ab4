/*
 * squeue.c - parses the output of squeue: jobs that wait, run, or have just ended.
 */
#include "sched/slurm/priv.h"

/* Short formats: old versions cut the long ones to twenty columns. The name comes last. */
const char stk_slurm_squeue_fields[] = "iATrDCblMVSeuaPqNEZj";
enum column {
    LABEL,
    ID,
    STATE,
    REASON,
    NODES,
    CPUS,
    GRES,
    LIMIT,
    USED,
    SUBMIT,
    START,
    END,
    USER,
    ACCOUNT,
    PARTITION,
    QOS,
    NODELIST,
    DEPENDENCY,
    WORKDIR,
    NAME,
    NSQUEUE
};

struct reading {
    struct stk_slurm_jobs *jobs;
    bool only;
};

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
    bool given = !stk_slurm_waits(j->state) && !stk_slurm_word_empty(c[NODELIST]);
    struct stk_slurm_tres *t = given ? &j->alloc : &j->asked;
    char kind[sizeof t->gpu_kind] = "";
    int64_t gpus = gpus_of(c[GRES], kind, sizeof kind), nodes = stk_slurm_int(c[NODES]);
    t->cpus = t->cpus < 0 ? stk_slurm_int(c[CPUS]) : t->cpus;
    t->nodes = t->nodes < 0 ? nodes : t->nodes;
    if (t->gpus >= 0 || gpus < 0 || nodes < 0 || __builtin_mul_overflow(gpus, nodes, &gpus))
        return;
    t->gpus = gpus;
    memcpy(t->gpu_kind, kind, sizeof kind);
}

/* A job that goes back to the queue says so in its reason, or not at all. */
static enum stk_slurm_state state_of(const struct stk_slurm_word *c)
{
    enum stk_slurm_state s = stk_slurm_state_of(c[STATE].p, c[STATE].n);
    bool again = c[REASON].n && memmem(c[REASON].p, c[REASON].n, "requeue", 7);
    return s == STK_SLURM_PENDING && again ? STK_SLURM_REQUEUED : s;
}

static int squeue_row(void *user, const struct stk_slurm_word *c)
{
    const struct reading *r = user;
    int64_t number = stk_slurm_int(c[ID]);
    struct stk_slurm_id id;
    if (number < 1 || number > UINT32_MAX || !stk_slurm_id(c[LABEL], &id))
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
        ok = ok && stk_slurm_take(r->jobs, &j->state_word, c[STATE]);
    }
    ok = ok && stk_slurm_take(r->jobs, &j->reason, c[REASON]);
    read_size(j, c);
    j->limit_s = j->limit_s < 0 ? stk_slurm_limit(c[LIMIT]) : j->limit_s;
    j->elapsed_s = known ? j->elapsed_s : stk_slurm_seconds(c[USED]);
    j->submit = j->submit < 0 ? stk_slurm_time(c[SUBMIT]) : j->submit;
    j->start = j->start < 0 ? stk_slurm_time(c[START]) : j->start;
    if (stk_slurm_ended(state) && j->end < 0)
        j->end = stk_slurm_time(c[END]);
    ok = ok && stk_slurm_take(r->jobs, &j->user, c[USER]) &&
         stk_slurm_take(r->jobs, &j->account, c[ACCOUNT]) &&
         stk_slurm_take(r->jobs, &j->partition, c[PARTITION]) &&
         stk_slurm_take(r->jobs, &j->qos, c[QOS]) &&
         stk_slurm_take(r->jobs, &j->nodelist, c[NODELIST]) &&
         stk_slurm_take(r->jobs, &j->dependency, c[DEPENDENCY]) &&
         stk_slurm_take(r->jobs, &j->workdir, c[WORKDIR]) &&
         stk_slurm_take(r->jobs, &j->name, c[NAME]);
    return ok ? 0 : STK_E_NOMEM;
}

int stk_slurm_read_squeue(struct stk_slurm_jobs *jobs, const char *text, size_t len,
                          const char *sep, bool only)
{
    struct reading r = {jobs, only};
    _Static_assert(sizeof stk_slurm_squeue_fields == NSQUEUE + 1, "one letter per column");
    return stk_slurm_rows(text, len, sep, NSQUEUE, squeue_row, &r);
}
