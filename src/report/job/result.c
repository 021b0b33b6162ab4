/* result.c - Slurm jobs as a result: null for unknown values. docs/slurm.md lists the members. */
#include <math.h>
#include <string.h>

#include "report/job.h"
#include "result/blocks.h"
#include "result/page.h"

/* One job, with what is made of it. */
struct one {
    const struct stk_slurm_job *job;
    const struct stk_job_text *t;
    struct stk_job_view v;
    struct stk_job_cost cost;
    const struct stk_job_node *node;
    size_t nnodes;
};

#define ONE_NUMBER(name, expression)  STK_NUMBER_OF(name, struct one, expression)
#define ONE_TEXT(name, expression)    STK_TEXT_OF(name, struct one, known_text(expression))
#define STEP_NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_slurm_step, expression)

static const char *known_text(const char *text)
{
    return text && *text ? text : NULL;
}

/* ---- parts of a job --------------------------------------------------------------------- */

#define TRES(member) STK_FROM(struct stk_slurm_tres, member)
#define TRES_FIELDS(cpus_title, memory_title, gpus_title)                                          \
    {"nodes", NULL, STK_U_COUNT, TRES(nodes)}, {"cpus", cpus_title, STK_U_COUNT, TRES(cpus)},      \
        {"memory_bytes", memory_title, STK_U_BYTES, TRES(memory_bytes)},                           \
        {"gpus", gpus_title, STK_U_COUNT, TRES(gpus)},                                             \
        {"gpu_kind", NULL, STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_slurm_tres, gpu_kind),        \
         .flags = STK_F_KNOWN},                                                                    \
        {"billing", NULL, STK_U_COUNT, TRES(billing)},                                             \
    {                                                                                              \
        NULL                                                                                       \
    }
static const struct stk_result_field asked_fields[] = {TRES_FIELDS(NULL, NULL, NULL)};
static const struct stk_result_field got_fields[] = {TRES_FIELDS("CPUs", "memory asked", "GPUs")};

#define USE(member) STK_FROM(struct stk_slurm_use, member)
static const struct stk_result_field use_fields[] = {
    {"cpu_s", NULL, STK_U_SECONDS, USE(cpu_s), .flags = STK_F_KNOWN},
    {"memory_bytes", "memory used", STK_U_BYTES, USE(memory_bytes), "the sum of the tasks' peaks"},
    {"task_memory_bytes", NULL, STK_U_BYTES, USE(task_memory_bytes), "of the largest task"},
    {"gpu_util", "GPU use", STK_U_SHARE, USE(gpu_util), .flags = STK_F_KNOWN},
    {"gpu_memory_bytes", NULL, STK_U_BYTES, USE(gpu_memory_bytes)},
    {"energy_joules", NULL, STK_U_PLAIN, USE(energy_J), .flags = STK_F_KNOWN},
    {"read_bytes", NULL, STK_U_BYTES, USE(read_bytes)},
    {"write_bytes", NULL, STK_U_BYTES, USE(write_bytes)},
    {NULL}};

#define VIEW(member) STK_FROM(struct stk_job_view, member)
static const struct stk_result_field used_fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_job_view, use), .of = use_fields},
    {"cpus_busy", "CPUs busy", STK_U_PLAIN, VIEW(cpus_busy), .flags = STK_F_KNOWN},
    {"cpu_share", "CPU use", STK_U_SHARE, VIEW(cpu_share), .flags = STK_F_KNOWN},
    {"memory_share", "memory use", STK_U_SHARE, VIEW(memory_share), .flags = STK_F_KNOWN},
    {"time_share", "time limit used", STK_U_SHARE, VIEW(time_share), .flags = STK_F_KNOWN},
    {NULL}};

#define COST(member) STK_FROM(struct stk_job_cost, member)
static const struct stk_result_field cost_fields[] = {
    {"core_hours", NULL, STK_U_PLAIN, COST(core_h), .flags = STK_F_KNOWN},
    {"core_hours_used", NULL, STK_U_PLAIN, COST(used_h), .flags = STK_F_KNOWN},
    {"core_hours_idle", NULL, STK_U_PLAIN, COST(idle_h), .flags = STK_F_KNOWN},
    {"gpu_hours", NULL, STK_U_PLAIN, COST(gpu_h), .flags = STK_F_KNOWN},
    {"su", "SU", STK_U_PLAIN, COST(su)},
    {NULL}};

#define GPU(member) STK_FROM(struct stk_slurm_gpus, member)
static const struct stk_result_field gpu_fields[] = {
    {"nodes", NULL, STK_U_TEXT, GPU(nodes), .flags = STK_F_KNOWN},
    {"count", NULL, STK_U_COUNT, GPU(count)},
    {"kind", NULL, STK_U_TEXT, GPU(kind), .flags = STK_F_KNOWN},
    {"ids", NULL, STK_U_TEXT, GPU(ids), .flags = STK_F_KNOWN},
    {"cpu_ids", NULL, STK_U_TEXT, GPU(cpu_ids), .flags = STK_F_KNOWN},
    {NULL}};

#define NODE(member) STK_FROM(struct stk_job_node, member)
static const struct stk_result_field node_fields[] = {
    {"host", NULL, STK_U_TEXT, NODE(host)},
    {"cpus", NULL, STK_U_COUNT, NODE(cores)},
    {"cpus_busy", NULL, STK_U_PLAIN, NODE(cpus_busy), .flags = STK_F_KNOWN},
    {"memory_bytes", NULL, STK_U_BYTES, NODE(peak_bytes), .flags = STK_F_KNOWN},
    {"gpus", NULL, STK_U_COUNT, NODE(gpus)},
    {"gpu_kind", NULL, STK_U_TEXT, NODE(gpu_kind), .flags = STK_F_KNOWN},
    {"gpu_util", NULL, STK_U_SHARE, NODE(gpu_util), .flags = STK_F_KNOWN},
    {"gpu_memory_bytes", NULL, STK_U_BYTES, NODE(gpu_memory_bytes), .flags = STK_F_KNOWN},
    {NULL}};

STK_TEXT_OF(step_state, struct stk_slurm_step, stk_slurm_state_name(r->state))
STEP_NUMBER(step_exit, r->exit_code)
STEP_NUMBER(step_signal, r->exit_signal)

static void step_use(const void *base, struct stk_jw *w)
{
    const struct stk_slurm_step *s = base;
    struct stk_slurm_use use = s->use;
    (void)stk_job_step_cpu(s, &use.cpu_s);
    stk_fields_put(use_fields, &use, w);
}

#define STEP(member) STK_FROM(struct stk_slurm_step, member)
static const struct stk_result_field step_fields[] = {
    {"step", NULL, STK_U_TEXT, STEP(name), .flags = STK_F_KNOWN},
    {"program", NULL, STK_U_TEXT, STEP(title), .flags = STK_F_KNOWN},
    {"state", NULL, STK_U_TEXT, .put = step_state},
    {"exit_status", NULL, STK_U_COUNT, .number = step_exit, .flags = STK_F_KNOWN},
    {"exit_signal", NULL, STK_U_COUNT, .number = step_signal, .flags = STK_F_KNOWN},
    {"tasks", NULL, STK_U_COUNT, STEP(tasks)},
    {"nodes", NULL, STK_U_COUNT, STEP(alloc.nodes)},
    {"cpus", NULL, STK_U_COUNT, STEP(alloc.cpus)},
    {"nodelist", NULL, STK_U_TEXT, STEP(nodelist), .flags = STK_F_KNOWN},
    {"peak_node", NULL, STK_U_TEXT, STEP(peak_node), .flags = STK_F_KNOWN},
    {"elapsed_s", NULL, STK_U_SECONDS, STEP(elapsed_s), .flags = STK_F_KNOWN},
    {"killed", NULL, STK_U_FLAG, STEP(killed)},
    {"", NULL, STK_U_GROUP, .put = step_use, .of = use_fields},
    {NULL}};

/* Figures that are unknown (null under "used"), or only lower bounds, and why. */
static void put_doubts(const void *base, struct stk_jw *w)
{
    const struct stk_job_view *v = &((const struct one *)base)->v;
    stk_jw_open(w, '[');
    for (enum stk_job_figure f = 0; f < STK_JOB_FIGURES; f++) {
        if (v->doubt[f].worth == STK_JOB_KNOWN)
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "figure", stk_job_figure_name(f));
        stk_jw_put_str(w, "worth", stk_job_worth_name(v->doubt[f].worth));
        stk_jw_put_str(w, "why", v->doubt[f].why);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

#define NEXT(member) STK_FROM_AS(CHARS, struct stk_job_note, member)
static const struct stk_result_field next_fields[] = {
    {"line", NULL, STK_U_TEXT, NEXT(line), .flags = STK_F_KNOWN},
    {"or", NULL, STK_U_TEXT, NEXT(other), .flags = STK_F_KNOWN},
    {"why", NULL, STK_U_TEXT, NEXT(why)},
    {NULL}};

static void put_next(const void *base, struct stk_jw *w)
{
    const struct one *r = base;
    stk_rows_put(next_fields, r->v.note, r->v.nnotes, sizeof *r->v.note, w);
}

/* ---- a job ------------------------------------------------------------------------------ */

ONE_TEXT(job_profile, r->t->nodes ? r->t->nodes->path : NULL)
ONE_TEXT(cpu_worth, stk_job_worth_name(r->v.doubt[STK_JOB_CPU].worth))
ONE_TEXT(memory_worth, stk_job_worth_name(r->v.doubt[STK_JOB_MEMORY].worth))
ONE_NUMBER(job_array, r->job->array_id ? (double)r->job->array_id : -1)
ONE_NUMBER(job_het, r->job->het_id ? (double)r->job->het_id : -1)
ONE_NUMBER(job_exit, r->job->exit_code)
ONE_NUMBER(job_signal, r->job->exit_signal)
ONE_NUMBER(job_restarts, r->job->restarts)
ONE_NUMBER(job_limit, r->job->limit_s == INT64_MAX ? -1 : (double)r->job->limit_s)
STK_BOOL_OF(job_unlimited, struct one, r->job->limit_s == INT64_MAX)

#define JOB(member) STK_FROM(struct stk_slurm_job, member)
STK_TEXT_OF(job_state, struct stk_slurm_job, stk_slurm_state_name(r->state))
static const struct stk_result_field slurm_fields[] = {
    {"job", "job", STK_U_TEXT, JOB(label), .flags = STK_F_KNOWN},
    {"id", NULL, STK_U_COUNT, JOB(id)},
    {"array_task", NULL, STK_U_COUNT, JOB(array_task)},
    {"het_part", NULL, STK_U_COUNT, JOB(het_part)},
    {"name", "name", STK_U_TEXT, JOB(name), .flags = STK_F_KNOWN},
    {"user", "user", STK_U_TEXT, JOB(user), .flags = STK_F_KNOWN},
    {"account", NULL, STK_U_TEXT, JOB(account), .flags = STK_F_KNOWN},
    {"partition", NULL, STK_U_TEXT, JOB(partition), .flags = STK_F_KNOWN},
    {"qos", NULL, STK_U_TEXT, JOB(qos), .flags = STK_F_KNOWN},
    {"state", "state", STK_U_TEXT, .put = job_state},
    {"slurm_state", NULL, STK_U_TEXT, JOB(state_word), .flags = STK_F_KNOWN},
    {"cancelled_by", NULL, STK_U_TEXT, JOB(cancelled_by), .flags = STK_F_KNOWN},
    {"reason", NULL, STK_U_TEXT, JOB(reason), .flags = STK_F_KNOWN},
    {"dependency", NULL, STK_U_TEXT, JOB(dependency), .flags = STK_F_KNOWN},
    {"workdir", NULL, STK_U_TEXT, JOB(workdir), .flags = STK_F_KNOWN},
    {"nodelist", NULL, STK_U_TEXT, JOB(nodelist), .flags = STK_F_KNOWN},
    {"submitted", NULL, STK_U_COUNT, JOB(submit)},
    {"eligible", NULL, STK_U_COUNT, JOB(eligible)},
    {"started", NULL, STK_U_COUNT, JOB(start)},
    {"ended", NULL, STK_U_COUNT, JOB(end)},
    {"elapsed_s", "ran", STK_U_SECONDS, JOB(elapsed_s), .flags = STK_F_KNOWN},
    {"asked", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_slurm_job, asked),
     .of = asked_fields},
    {"got", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_slurm_job, alloc), .of = got_fields},
    {"gpu_ids", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_slurm_job, gpus, ngpus),
     .of = gpu_fields},
    {"steps", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_slurm_job, step, nsteps),
     .of = step_fields},
    {NULL}};

static const struct stk_result_field job_fields[] = {
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct one, job), .of = slurm_fields},
    {"array", NULL, STK_U_COUNT, .number = job_array, .flags = STK_F_KNOWN},
    {"het", NULL, STK_U_COUNT, .number = job_het, .flags = STK_F_KNOWN},
    {"exit_status", NULL, STK_U_COUNT, .number = job_exit, .flags = STK_F_KNOWN},
    {"exit_signal", NULL, STK_U_COUNT, .number = job_signal, .flags = STK_F_KNOWN},
    {"restarts", NULL, STK_U_COUNT, .number = job_restarts, .flags = STK_F_KNOWN},
    {"waited_s", "waited", STK_U_SECONDS, STK_FROM(struct one, v.wait_s), .flags = STK_F_KNOWN},
    {"limit_s", NULL, STK_U_COUNT, .number = job_limit, .flags = STK_F_KNOWN},
    {"unlimited", NULL, STK_U_FLAG, .put = job_unlimited},
    {"used", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct one, v), .of = used_fields},
    {"cpu_worth", NULL, STK_U_TEXT, .put = cpu_worth, .meaning = "what the CPU time is worth"},
    {"memory_worth", NULL, STK_U_TEXT, .put = memory_worth},
    {"doubts", NULL, STK_U_ANY, .put = put_doubts},
    {"cost", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct one, cost), .of = cost_fields},
    {"profile", NULL, STK_U_TEXT, .put = job_profile},
    {"nodes", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct one, node, nnodes), .of = node_fields},
    {"next", NULL, STK_U_TABLE, .put = put_next, .of = next_fields},
    {NULL}};

static void put_jobs(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < l->jobs->n; i++) {
        struct one r = {.job = &l->jobs->job[i], .t = l->t};
        stk_job_judge(r.job, l->t->scale.now, l->t->scale.advise_s, &r.v);
        stk_job_cost(&r.v, &l->t->scale.su, &r.cost);
        r.node = l->t->nodes ? l->t->nodes->node : NULL;
        r.nnodes = l->t->nodes ? l->t->nodes->n : 0;
        stk_jw_open(w, '{');
        stk_fields_put(job_fields, &r, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- all of them ------------------------------------------------------------------------ */

static void put_states(const void *base, struct stk_jw *w)
{
    const struct stk_job_totals *t = base;
    stk_jw_open(w, '{');
    for (enum stk_slurm_state s = 0; s < STK_SLURM_STATES; s++)
        if (t->by_state[s])
            stk_jw_put_u64(w, stk_slurm_state_name(s), t->by_state[s]);
    stk_jw_close(w, '}');
}

static void put_lost(const void *base, struct stk_jw *w)
{
    const struct stk_job_totals *t = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < t->lost && i < STK_JOB_NAMED; i++)
        stk_jw_str(w, t->lost_job[i]->label);
    stk_jw_close(w, ']');
}

#define SUM(member) STK_FROM(struct stk_job_totals, member)
static const struct stk_result_field total_fields[] = {
    {"jobs", "jobs", STK_U_COUNT, SUM(jobs)},
    {"by_state", NULL, STK_U_ANY, .put = put_states},
    {"core_hours", "core-hours", STK_U_PLAIN, SUM(core_h)},
    {"core_hours_used", "used", STK_U_PLAIN, SUM(used_h)},
    {"core_hours_idle", "idle", STK_U_PLAIN, SUM(idle_h)},
    {"core_hours_unknown", "of unknown use", STK_U_PLAIN, SUM(unknown_h)},
    {"core_hours_not_completed", "in jobs that did not complete", STK_U_PLAIN, SUM(lost_h)},
    {"gpu_hours", "GPU-hours", STK_U_PLAIN, SUM(gpu_h)},
    {"su", "service units", STK_U_PLAIN, SUM(su)},
    {"jobs_without_su", NULL, STK_U_COUNT, SUM(without_su)},
    {"not_completed", NULL, STK_U_LIST, .put = put_lost},
    {NULL}};

static void put_totals(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    struct stk_job_totals sum;
    stk_job_total(l->jobs, &l->t->scale, &sum);
    stk_jw_open(w, '{');
    stk_fields_put(total_fields, &sum, w);
    stk_jw_close(w, '}');
}

static void put_missing(const void *base, struct stk_jw *w)
{
    static const char *const client[] = {"squeue", "sacct", "scontrol", "sstat"};
    const struct stk_job_list *l = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < 4; i++) {
        if (!(l->jobs->failed & 1u << i))
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "client", client[i]);
        stk_jw_put_str(w, "why", l->jobs->why[i]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- on the page ------------------------------------------------------------------------ */

#define REQUESTS_MAX 40 /* lines for job scripts */

static double share_used(const struct stk_jval *r)
{
    double used = stk_pg_get(r, "totals.core_hours_used");
    return used / (used + stk_pg_get(r, "totals.core_hours_idle"));
}

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    const struct stk_jval *states = stk_pg_at(r, "totals.by_state");
    const struct stk_jval *jobs = stk_json_get(r, "jobs");
    bool one = stk_pg_has_rows(jobs) && jobs->len == 1;
    double share = one ? stk_pg_get(r, "jobs.0.used.cpu_share") : share_used(r);
    const char *between = ": ";
    char a[32];
    if (one)
        stk_buf_printf(out, "Job %.60s: %.60s", stk_pg_text(r, "jobs.0.job", "?"),
                       stk_pg_text(r, "jobs.0.state", "unknown"));
    else
        stk_buf_printf(out, "%zu jobs", stk_pg_has_rows(jobs) ? jobs->len : 0);
    for (size_t i = 0; !one && states && states->type == STK_JOBJ && i < states->len; i++) {
        stk_buf_printf(out, "%s%.0f %.40s", between, states->item[i].f, states->name[i].str);
        between = ", ";
    }
    if (isfinite(share))
        stk_buf_printf(out,
                       one ? "; it used %s of its CPU time"
                           : ". They used %s of their core-hours, where that is known",
                       stk_unit_text(STK_U_SHARE, share, a, sizeof a));
}

/* What the jobs used, of what they had: known of one job by its own figure. */
static double headline(const void *base)
{
    const struct stk_job_list *l = base;
    struct stk_job_totals sum;
    struct stk_job_view v;
    stk_job_total(l->jobs, &l->t->scale, &sum);
    if (l->jobs->n != 1)
        return sum.used_h / (sum.used_h + sum.idle_h);
    stk_job_judge(&l->jobs->job[0], l->t->scale.now, l->t->scale.advise_s, &v);
    return v.cpu_share >= 0 ? v.cpu_share : NAN;
}

static void put_request(const struct stk_jval *job, const struct stk_jval *next, struct stk_jw *w)
{
    const char *line = stk_pg_text(next, "line", NULL), *other = stk_pg_text(next, "or", NULL);
    struct stk_buf title = STK_BUF_INIT, lines = STK_BUF_INIT;
    stk_buf_printf(&title, "job %.60s, %.120s", stk_pg_text(job, "job", "?"),
                   stk_pg_text(job, "name", "without a name"));
    stk_buf_puts(&lines, line ? line : "");
    if (other)
        stk_buf_printf(&lines, "%s# or: %s", line ? "\n" : "", other);
    stk_pg_finding(w, line ? "request" : "note", stk_buf_cstr(&title),
                   stk_pg_text(next, "why", NULL), stk_buf_cstr(&lines));
    stk_jw_close(w, '}');
    stk_buf_release(&title);
    stk_buf_release(&lines);
}

static void findings(const struct stk_jval *r, struct stk_jw *w)
{
    const struct stk_jval *jobs = stk_json_get(r, "jobs");
    size_t shown = 0;
    stk_pg_findings(w, "What to request next time");
    for (size_t i = 0; stk_pg_has_rows(jobs) && i < jobs->len && shown < REQUESTS_MAX; i++) {
        const struct stk_jval *next = stk_json_get(&jobs->item[i], "next");
        for (size_t k = 0; stk_pg_has_rows(next) && k < next->len; k++, shown++)
            put_request(&jobs->item[i], &next->item[k], w);
    }
    stk_jw_close(w, ']');
}

/* Figures that are bounds only: what is unknown has no number. */
static void put_notes(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    size_t shown = 0;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < l->jobs->n && shown < REQUESTS_MAX; i++) {
        struct stk_job_view v;
        stk_job_judge(&l->jobs->job[i], l->t->scale.now, l->t->scale.advise_s, &v);
        for (enum stk_job_figure f = 0; f < STK_JOB_FIGURES; f++) {
            struct stk_buf b = STK_BUF_INIT;
            if (v.doubt[f].worth != STK_JOB_AT_LEAST)
                continue;
            stk_buf_printf(&b, "Job %.60s, %s: %s what is shown; %s", l->jobs->job[i].label,
                           stk_job_figure_name(f), stk_job_worth_name(v.doubt[f].worth),
                           v.doubt[f].why);
            stk_jw_str(w, stk_buf_cstr(&b));
            stk_buf_release(&b);
            shown++;
        }
    }
    stk_jw_close(w, ']');
}

static const struct stk_result_plot use_plot = {
    "use", "Use of what was allocated",
    "The share of the CPU time, memory and time limit that each job used; the rest was allocated "
    "in vain.",
    "job", "job", STK_U_PLAIN, "category",
    {{"used", STK_U_SHARE,
      {{"used.cpu_share", "CPU", "bar"},
       {"used.memory_share", "memory", "bar"},
       {"used.time_share", "time limit", "bar"},
       {"used.gpu_util", "GPU", "bar"}}}}};

STK_BOOL_OF(any_more, struct stk_job_list, r->jobs->more)

static const struct stk_result_field fields[] = {
    {"jobs", "jobs", STK_U_TABLE, .put = put_jobs, .of = job_fields, .plot = &use_plot},
    {"totals", NULL, STK_U_GROUP, .put = put_totals, .of = total_fields},
    {"share_used", "CPU time used", STK_U_SHARE, .number = headline,
     .flags = STK_F_LEAD},
    {"bounds", "figures that are bounds", STK_U_LIST, .put = put_notes, .flags = STK_F_NAMED},
    {"more", NULL, STK_U_FLAG, .put = any_more},
    {"missing", NULL, STK_U_ANY, .put = put_missing},
    {NULL}};

static const struct stk_csv_member csv_members[] = {
    {"job"}, {"name"}, {"user"}, {"account"}, {"partition"}, {"state"}, {"exit_status"},
    {"submitted"}, {"started"}, {"ended"}, {"waited_s"}, {"elapsed_s"}, {"limit_s"},
    {"nodes", "got.nodes"}, {"cpus", "got.cpus"}, {"gpus", "got.gpus"},
    {"memory_bytes", "got.memory_bytes"}, {"cpu_s", "used.cpu_s"}, {"cpu_share", "used.cpu_share"},
    {"memory_used_bytes", "used.memory_bytes"}, {"memory_share", "used.memory_share"},
    {"gpu_util", "used.gpu_util"}, {"core_hours", "cost.core_hours"},
    {"core_hours_idle", "cost.core_hours_idle"}, {"su", "cost.su"}, {"cpu_worth"},
    {"memory_worth"}, {NULL}};
static const struct stk_result_csv csv = {"jobs", NULL, csv_members};

const struct stk_result_kind stk_job_kind = {.command = "job",
                                             .doing = "Jobs",
                                             .fields = fields,
                                             .verdict = verdict,
                                             .findings = findings,
                                             .csv = &csv,
                                             .by_hand = true,
                                             .needs = "jobs",
                                             .lacks = "contains no job"};
