/* json.c - Slurm jobs as JSON: all data, null for unknown values. */
#include "report/job.h"

#include "report/json_priv.h"

static void put_text(struct stk_jw *w, const char *key, const char *text)
{
    stk_jw_put_str(w, key, text && text[0] ? text : NULL);
}

static void put_tres(struct stk_jw *w, const char *key, const struct stk_slurm_tres *t)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '{');
    stk_jw_put_known_i64(w, "nodes", t->nodes);
    stk_jw_put_known_i64(w, "cpus", t->cpus);
    stk_jw_put_known_i64(w, "memory_bytes", t->memory_bytes);
    stk_jw_put_known_i64(w, "gpus", t->gpus);
    put_text(w, "gpu_kind", t->gpu_kind);
    stk_jw_put_known_i64(w, "billing", t->billing);
    stk_jw_close(w, '}');
}

static void put_use(struct stk_jw *w, const struct stk_slurm_use *u)
{
    stk_jw_put_known_f64(w, "cpu_s", u->cpu_s);
    stk_jw_put_known_i64(w, "memory_bytes", u->memory_bytes);
    stk_jw_put_known_i64(w, "task_memory_bytes", u->task_memory_bytes);
    stk_jw_put_known_f64(w, "gpu_util", u->gpu_util);
    stk_jw_put_known_i64(w, "gpu_memory_bytes", u->gpu_memory_bytes);
    stk_jw_put_known_f64(w, "energy_joules", u->energy_J);
    stk_jw_put_known_i64(w, "read_bytes", u->read_bytes);
    stk_jw_put_known_i64(w, "write_bytes", u->write_bytes);
}

static void put_steps(struct stk_jw *w, const struct stk_slurm_job *j)
{
    put_array(w, "steps");
    for (size_t i = 0; i < j->nsteps; i++) {
        const struct stk_slurm_step *s = &j->step[i];
        bool pretty = open_row(w);
        put_text(w, "step", s->name);
        put_text(w, "program", s->title);
        stk_jw_put_str(w, "state", stk_slurm_state_name(s->state));
        stk_jw_put_known_i64(w, "exit_status", s->exit_code);
        stk_jw_put_known_i64(w, "exit_signal", s->exit_signal);
        stk_jw_put_known_i64(w, "tasks", s->tasks);
        stk_jw_put_known_i64(w, "nodes", s->alloc.nodes);
        stk_jw_put_known_i64(w, "cpus", s->alloc.cpus);
        put_text(w, "nodelist", s->nodelist);
        put_text(w, "peak_node", s->peak_node);
        stk_jw_put_known_f64(w, "elapsed_s", s->elapsed_s);
        stk_jw_put_bool(w, "killed", s->killed);
        struct stk_slurm_use use = s->use;
        (void)stk_job_step_cpu(s, &use.cpu_s);
        put_use(w, &use);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_gpus(struct stk_jw *w, const struct stk_slurm_job *j)
{
    put_array(w, "gpu_ids");
    for (size_t i = 0; i < j->ngpus; i++) {
        bool pretty = open_row(w);
        put_text(w, "nodes", j->gpus[i].nodes);
        stk_jw_put_known_i64(w, "count", j->gpus[i].count);
        put_text(w, "kind", j->gpus[i].kind);
        put_text(w, "ids", j->gpus[i].ids);
        put_text(w, "cpu_ids", j->gpus[i].cpu_ids);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_times(struct stk_jw *w, const struct stk_slurm_job *j, const struct stk_job_view *v)
{
    stk_jw_put_known_i64(w, "submitted", j->submit);
    stk_jw_put_known_i64(w, "eligible", j->eligible);
    stk_jw_put_known_i64(w, "started", j->start);
    stk_jw_put_known_i64(w, "ended", j->end);
    stk_jw_put_known_f64(w, "waited_s", v->wait_s);
    stk_jw_put_known_f64(w, "elapsed_s", j->elapsed_s);
    stk_jw_put_known_i64(w, "limit_s", j->limit_s == INT64_MAX ? -1 : j->limit_s);
    stk_jw_put_bool(w, "unlimited", j->limit_s == INT64_MAX);
}

static void put_who(struct stk_jw *w, const struct stk_slurm_job *j)
{
    put_text(w, "job", j->label);
    stk_jw_put_u64(w, "id", j->id);
    stk_jw_put_known_i64(w, "array", j->array_id ? (int64_t)j->array_id : -1);
    stk_jw_put_known_i64(w, "array_task", j->array_task);
    stk_jw_put_known_i64(w, "het", j->het_id ? (int64_t)j->het_id : -1);
    stk_jw_put_known_i64(w, "het_part", j->het_part);
    put_text(w, "name", j->name);
    put_text(w, "user", j->user);
    put_text(w, "account", j->account);
    put_text(w, "partition", j->partition);
    put_text(w, "qos", j->qos);
    stk_jw_put_str(w, "state", stk_slurm_state_name(j->state));
    put_text(w, "slurm_state", j->state_word);
    put_text(w, "cancelled_by", j->cancelled_by);
    put_text(w, "reason", j->reason);
    put_text(w, "dependency", j->dependency);
    stk_jw_put_known_i64(w, "exit_status", j->exit_code);
    stk_jw_put_known_i64(w, "exit_signal", j->exit_signal);
    stk_jw_put_known_i64(w, "restarts", j->restarts);
    put_text(w, "workdir", j->workdir);
    put_text(w, "nodelist", j->nodelist);
}

/* Figures that are unknown (null under "used"), or only lower bounds, and why. */
static void put_doubts(struct stk_jw *w, const struct stk_job_view *v)
{
    put_array(w, "doubts");
    for (enum stk_job_figure f = 0; f < STK_JOB_FIGURES; f++) {
        if (v->doubt[f].worth == STK_JOB_KNOWN)
            continue;
        bool pretty = open_row(w);
        stk_jw_put_str(w, "figure", stk_job_figure_name(f));
        stk_jw_put_str(w, "worth", stk_job_worth_name(v->doubt[f].worth));
        stk_jw_put_str(w, "why", v->doubt[f].why);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_next(struct stk_jw *w, const struct stk_job_view *v)
{
    put_array(w, "next");
    for (size_t i = 0; i < v->nnotes; i++) {
        bool pretty = open_row(w);
        put_text(w, "line", v->note[i].line);
        put_text(w, "or", v->note[i].other);
        stk_jw_put_str(w, "why", v->note[i].why);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_cost(struct stk_jw *w, const struct stk_job_view *v, const struct stk_job_text *t)
{
    struct stk_job_cost c;
    stk_job_cost(v, &t->scale.su, &c);
    stk_jw_key(w, "cost");
    bool pretty = open_row(w);
    stk_jw_put_known_f64(w, "core_hours", c.core_h);
    stk_jw_put_known_f64(w, "core_hours_used", c.used_h);
    stk_jw_put_known_f64(w, "core_hours_idle", c.idle_h);
    stk_jw_put_known_f64(w, "gpu_hours", c.gpu_h);
    stk_jw_put_f64(w, "su", c.su);
    close_row(w, pretty);
}

/* Per node, from a profile of the job. */
static void put_nodes(struct stk_jw *w, const struct stk_job_text *t)
{
    stk_jw_put_str(w, "profile", t->nodes ? t->nodes->path : NULL);
    put_array(w, "nodes");
    for (size_t i = 0; t->nodes && i < t->nodes->n; i++) {
        const struct stk_job_node *n = &t->nodes->node[i];
        bool pretty = open_row(w);
        stk_jw_put_str(w, "host", n->host);
        stk_jw_put_u64(w, "cpus", n->cores);
        stk_jw_put_known_f64(w, "cpus_busy", n->cpus_busy);
        stk_jw_put_known_f64(w, "memory_bytes", n->peak_bytes);
        stk_jw_put_u64(w, "gpus", n->gpus);
        put_text(w, "gpu_kind", n->gpu_kind);
        stk_jw_put_known_f64(w, "gpu_util", n->gpu_util);
        stk_jw_put_known_f64(w, "gpu_memory_bytes", n->gpu_memory_bytes);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_job(struct stk_jw *w, const struct stk_slurm_job *j, const struct stk_job_text *t)
{
    struct stk_job_view v;
    stk_job_judge(j, t->scale.now, t->scale.advise_s, &v);
    stk_jw_open(w, '{');
    put_who(w, j);
    put_times(w, j, &v);
    put_tres(w, "asked", &j->asked);
    put_tres(w, "got", &j->alloc);
    put_gpus(w, j);
    stk_jw_key(w, "used");
    stk_jw_open(w, '{');
    put_use(w, &v.use);
    stk_jw_put_known_f64(w, "cpus_busy", v.cpus_busy);
    stk_jw_put_known_f64(w, "cpu_share", v.cpu_share);
    stk_jw_put_known_f64(w, "memory_share", v.memory_share);
    stk_jw_put_known_f64(w, "time_share", v.time_share);
    stk_jw_close(w, '}');
    put_doubts(w, &v);
    put_cost(w, &v, t);
    put_nodes(w, t);
    put_steps(w, j);
    put_next(w, &v);
    stk_jw_close(w, '}');
}

void stk_job_json(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t, struct stk_jw *w)
{
    static const char *const client[] = {"squeue", "sacct", "scontrol", "sstat"};
    put_array(w, "jobs");
    for (size_t i = 0; i < jobs->n; i++)
        put_job(w, &jobs->job[i], t);
    stk_jw_close(w, ']');
    stk_job_totals_json(jobs, t, w);
    stk_jw_put_bool(w, "more", jobs->more);
    put_array(w, "missing");
    for (size_t i = 0; i < 4; i++)
        if (jobs->failed & 1u << i) {
            bool pretty = open_row(w);
            stk_jw_put_str(w, "client", client[i]);
            stk_jw_put_str(w, "why", jobs->why[i]);
            close_row(w, pretty);
        }
    stk_jw_close(w, ']');
}
