/*
 * scontrol.c - parses the output of `scontrol -d show job`: the controller's own view, with
 * the ids of GPUs and CPUs, and how memory was requested. Gone some minutes after the job's end.
 *
 * The text cannot be split safely: a job's name may look like anything. So only lines that begin as
 * expected are read, and everything before the last "UserId=" (where the name is) is dropped; and a
 * state from another client takes precedence.
 */
#include <stdlib.h>

#include "sched/slurm/priv.h"

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
