/* job.c - the result of `stoker job`: null for unknown values. docs/slurm.md lists the members. */
#include "report/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/units.h"
#include "report/report_priv.h"
#include "result/blocks.h"
#include "result/page.h"
#include "result/screen.h"

/* One job, with what is made of it. */
struct one {
    const struct stk_slurm_job *job;
    const struct stk_job_list *list;
    struct stk_job_view v;
    struct stk_job_cost cost;
    const struct stk_slurm_tres *had; /* what it got, or asked for if it got nothing yet */
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

/* ">0.96": a lower bound. */
static void step_busy(const void *base, struct stk_jw *w)
{
    const struct stk_slurm_step *s = base;
    double cpu_s;
    char text[32];
    bool more = stk_job_step_cpu(s, &cpu_s) == STK_JOB_AT_LEAST;
    bool known = cpu_s >= 0 && s->elapsed_s > 0;
    snprintf(text, sizeof text, "%s%.2f", more ? ">" : "", known ? cpu_s / s->elapsed_s : 0);
    stk_jw_str(w, known ? text : NULL);
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
    {"busy", NULL, STK_U_TEXT, .put = step_busy, .meaning = "CPUs, on average"},
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

/* ---- what is said about a job ----------------------------------------------------------- */

static void add(struct stk_buf *out, const char *between, const char *fmt, ...) STK_PRINTF(3, 4);
static void add(struct stk_buf *out, const char *between, const char *fmt, ...)
{
    va_list ap;
    stk_buf_puts(out, out->len ? between : "");
    va_start(ap, fmt);
    stk_buf_vprintf(out, fmt, ap);
    va_end(ap);
}

static void add_many(struct stk_buf *out, int64_t n, const char *one)
{
    char a[48];
    if (n >= 0)
        add(out, ", ", "%s", stk_word_many((uint64_t)n, one, a, sizeof a));
}

/* "2 nodes, 8 CPUs, 16 GiB, 4 GPUs (k80)": as far as known. */
static void add_tres(const struct stk_slurm_tres *t, struct stk_buf *out)
{
    char a[48];
    add_many(out, t->nodes, "node");
    add_many(out, t->cpus, "CPU");
    if (t->memory_bytes >= 0)
        add(out, ", ", "%s", stk_format_size((uint64_t)t->memory_bytes, a, sizeof a));
    add_many(out, t->gpus > 0 ? t->gpus : -1, "GPU");
    if (t->gpus > 0 && t->gpu_kind[0])
        stk_buf_printf(out, " (%s)", t->gpu_kind);
    if (!out->len)
        stk_buf_puts(out, "unknown");
}

static const char *limit_text(int64_t limit_s, char *buf, size_t size)
{
    return limit_s == INT64_MAX ? "no limit" : stk_word_clock((double)limit_s, buf, size);
}

static void add_asked(const struct one *r, struct stk_buf *out)
{
    char a[32];
    add_tres(&r->job->asked, out);
    if (r->job->limit_s > 0)
        add(out, ", ", "%s", limit_text(r->job->limit_s, a, sizeof a));
}

static void add_got(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_job *j = r->job;
    if (j->alloc.cpus < 0 || stk_slurm_waits(j->state))
        return;
    add_tres(&j->alloc, out);
    if (j->nodelist[0])
        add(out, ": ", "%s", j->nodelist);
}

static void add_gpus(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_job *j = r->job;
    for (size_t i = 0; i < j->ngpus; i++) {
        const struct stk_slurm_gpus *g = &j->gpus[i];
        add(out, "; ", "%s: %lld%s%s%s%s", g->nodes, (long long)g->count, g->kind[0] ? " x " : "",
            g->kind, g->ids[0] ? ", id " : "", g->ids);
    }
    if (j->alloc.gpus > 0 && !j->ngpus && stk_slurm_ended(j->state))
        stk_buf_puts(out, "ids unknown: Slurm keeps them only while a job runs");
}

/* A script that ignores the status of its programs completes, whatever they did. */
static void add_bad_steps(const struct stk_slurm_job *j, struct stk_buf *out)
{
    const struct stk_slurm_step *first = NULL;
    size_t more = 0;
    for (size_t i = 0; i < j->nsteps; i++) {
        const struct stk_slurm_step *s = &j->step[i];
        if (s->state <= STK_SLURM_COMPLETED || stk_slurm_step_is_ours(s))
            continue;
        more += first != NULL;
        first = first ? first : s;
    }
    if (!first)
        return;
    add(out, " ", "but step %s", first->name);
    if (more)
        stk_buf_printf(out, " and %zu more", more);
    stk_buf_printf(out, " did not (%s", stk_slurm_state_name(first->state));
    if (first->exit_code > 0)
        stk_buf_printf(out, ", exit status %d", first->exit_code);
    stk_buf_putc(out, ')');
}

/* What follows the state: "by root (signal 9)". */
static void add_state(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_job *j = r->job;
    const struct stk_slurm_step *dead = stk_slurm_killed_for_memory(j, 0);
    if (j->cancelled_by[0])
        add(out, " ", "by %s", j->cancelled_by);
    if (j->exit_signal > 0)
        add(out, " ", "(signal %d)", j->exit_signal);
    else if (j->exit_code > 0)
        add(out, " ", "(exit status %d)", j->exit_code);
    if (j->by_kernel)
        add(out, " ", "(killed for using more memory than requested)");
    if (j->deadline)
        add(out, " ", "(its deadline came first)");
    if (j->restarts > (j->state == STK_SLURM_REQUEUED))
        add(out, " ", "(requeued %d time%s)", j->restarts, j->restarts == 1 ? "" : "s");
    if (dead && j->state != STK_SLURM_OUT_OF_MEMORY)
        add(out, " ", "but step %s%s killed for memory", dead->name,
            stk_slurm_killed_for_memory(j, 1) ? " and others were" : " was");
    else if (j->state == STK_SLURM_COMPLETED)
        add_bad_steps(j, out);
}

/* In a table: "pending: Resources", "failed (3)". */
static void add_brief_state(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_job *j = r->job;
    stk_buf_puts(out, stk_slurm_state_name(j->state));
    if (stk_slurm_waits(j->state) && j->reason[0])
        stk_buf_printf(out, ": %s", j->reason);
    else if (j->exit_code > 0 && j->state == STK_SLURM_FAILED)
        stk_buf_printf(out, " (%d)", j->exit_code);
}

static void add_why(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_job *j = r->job;
    const char *means = stk_slurm_reason_text(j->reason);
    if (!stk_slurm_waits(j->state))
        return;
    stk_buf_puts(out, j->reason[0] ? j->reason : "no reason given");
    if (means)
        add(out, ": ", "%s", means);
    if (j->dependency[0])
        add(out, "; ", "it waits for %s", j->dependency);
}

static void add_waited(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_job *j = r->job;
    char a[32];
    struct tm tm;
    time_t start = (time_t)j->start;
    if (r->v.wait_s >= 0)
        stk_buf_puts(out, stk_unit_text(STK_U_SECONDS, r->v.wait_s, a, sizeof a));
    else if (r->v.queued_s >= 0)
        stk_buf_printf(out, "not yet: it is not eligible, and was submitted %s ago",
                       stk_unit_text(STK_U_SECONDS, r->v.queued_s, a, sizeof a));
    if (r->v.wait_s >= 0 && stk_slurm_waits(j->state) && j->start > r->list->scale.now &&
        localtime_r(&start, &tm) && strftime(a, sizeof a, "%Y-%m-%d %H:%M:%S", &tm))
        add(out, " ", "so far; expected to start %s", a);
}

/* A job that was cancelled in the queue has a start, but never had a node. */
static bool has_begun(const struct stk_slurm_job *j)
{
    bool had_nodes = j->elapsed_s > 0 || (j->elapsed_s == 0 && j->nodelist[0]);
    return had_nodes && !stk_slurm_waits(j->state) && j->start > 0;
}

static void add_ran(const struct one *r, struct stk_buf *out)
{
    char a[32], b[32];
    if (has_begun(r->job) && r->job->elapsed_s >= 0)
        stk_buf_printf(out, "%s of %s", stk_word_clock(r->job->elapsed_s, a, sizeof a),
                       limit_text(r->job->limit_s, b, sizeof b));
}

static const char *at_least(const struct stk_job_doubt *d)
{
    return d->worth == STK_JOB_AT_LEAST ? "at least " : "";
}

static void add_cpu(const struct one *r, struct stk_buf *out)
{
    const struct stk_job_doubt *d = &r->v.doubt[STK_JOB_CPU];
    int64_t cpus = r->job->alloc.cpus;
    if (!has_begun(r->job))
        return;
    if (d->worth == STK_JOB_UNKNOWN)
        stk_buf_printf(out, "unknown: %s", d->why);
    else if (r->v.cpus_busy >= 0)
        stk_buf_printf(out, "%s%.2f of %lld CPU%s busy%s", at_least(d), r->v.cpus_busy,
                       (long long)cpus, cpus == 1 ? "" : "s",
                       stk_slurm_ended(r->job->state) ? "" : " so far");
}

static void add_memory(const struct one *r, struct stk_buf *out)
{
    const struct stk_job_doubt *d = &r->v.doubt[STK_JOB_MEMORY];
    int64_t had = r->job->alloc.memory_bytes;
    char a[32];
    if (!has_begun(r->job))
        return;
    if (d->worth == STK_JOB_UNKNOWN)
        stk_buf_printf(out, "unknown: %s", d->why);
    else if (r->v.use.memory_bytes >= 0)
        stk_buf_printf(out, "peak %s%s", at_least(d),
                       stk_unit_text(STK_U_BYTES, (double)r->v.use.memory_bytes, a, sizeof a));
    if (out->len && d->worth != STK_JOB_UNKNOWN && had >= 0)
        add(out, " of ", "%s", stk_unit_text(STK_U_BYTES, (double)had, a, sizeof a));
}

static void add_files(const struct one *r, struct stk_buf *out)
{
    const struct stk_slurm_use *u = &r->v.use;
    char a[32], b[32];
    if (has_begun(r->job) && (u->read_bytes >= 1 << 20 || u->write_bytes >= 1 << 20))
        stk_buf_printf(out, "read %s, wrote %s",
                       stk_unit_text(STK_U_BYTES, fmax((double)u->read_bytes, 0), a, sizeof a),
                       stk_unit_text(STK_U_BYTES, fmax((double)u->write_bytes, 0), b, sizeof b));
}

static void add_energy(const struct one *r, struct stk_buf *out)
{
    if (has_begun(r->job) && r->job->use.energy_J > 0)
        stk_buf_printf(out, "%.4g kWh", r->job->use.energy_J / 3.6e6);
}

/* ">12.0 %": a lower bound. */
static void add_share(double share, enum stk_job_figure f, const struct one *r, struct stk_buf *out)
{
    char a[32];
    if (share >= 0)
        stk_buf_printf(out, "%s%s", r->v.doubt[f].worth == STK_JOB_AT_LEAST ? ">" : "",
                       stk_unit_text(STK_U_SHARE, share, a, sizeof a));
}

static void add_cpu_share(const struct one *r, struct stk_buf *out)
{
    add_share(r->v.cpu_share, STK_JOB_CPU, r, out);
}

static void add_memory_share(const struct one *r, struct stk_buf *out)
{
    add_share(r->v.memory_share, STK_JOB_MEMORY, r, out);
}

/* Why a figure is a lower bound. */
static const char *bound(const struct one *r, enum stk_job_figure f)
{
    bool is_bound = has_begun(r->job) && r->v.doubt[f].worth == STK_JOB_AT_LEAST;
    return is_bound ? r->v.doubt[f].why : NULL;
}
ONE_TEXT(cpu_bound, bound(r, STK_JOB_CPU))
ONE_TEXT(memory_bound, bound(r, STK_JOB_MEMORY))

static void put_said(void (*say)(const struct one *, struct stk_buf *), const void *base,
                     struct stk_jw *w)
{
    struct stk_buf text = STK_BUF_INIT;
    say(base, &text);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
}

/* Sentences and cells of the screen: members of the result, so that a saved one has them. */
#define ALL_SAID(X)                                                                                \
    X(state, "how it came to that state") X(asked, NULL) X(got, NULL) X(gpus, NULL)                \
    X(why, "why it waits") X(waited, NULL) X(ran, NULL) X(cpu, NULL) X(memory, NULL)               \
    X(files, NULL) X(energy, NULL) X(brief_state, NULL) X(cpu_share, NULL) X(memory_share, NULL)
#define PUT_SAID(name, meaning)                                                                    \
    static void put_##name(const void *base, struct stk_jw *w)                                     \
    {                                                                                              \
        put_said(add_##name, base, w);                                                             \
    }
#define SAID_FIELD(name, meaning_)                                                                 \
    {#name, NULL, STK_U_TEXT, .put = put_##name, .meaning = meaning_},
ALL_SAID(PUT_SAID)
static const struct stk_result_field said_fields[] = {
    ALL_SAID(SAID_FIELD)
    {"cpu_bound", NULL, STK_U_TEXT, .put = cpu_bound, .meaning = "why it is a lower bound"},
    {"memory_bound", NULL, STK_U_TEXT, .put = memory_bound},
    {NULL}};

/* ---- a job ------------------------------------------------------------------------------ */

ONE_TEXT(job_profile, r->list->nodes ? r->list->nodes->path : NULL)
ONE_TEXT(cpu_worth, stk_job_worth_name(r->v.doubt[STK_JOB_CPU].worth))
ONE_TEXT(memory_worth, stk_job_worth_name(r->v.doubt[STK_JOB_MEMORY].worth))
ONE_NUMBER(job_array, r->job->array_id ? (double)r->job->array_id : -1)
ONE_NUMBER(job_het, r->job->het_id ? (double)r->job->het_id : -1)
ONE_NUMBER(nodes_had, (double)r->had->nodes)
ONE_NUMBER(cpus_had, (double)r->had->cpus)
ONE_NUMBER(gpus_had, (double)r->had->gpus)
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
    {"nodes_had", NULL, STK_U_COUNT, .number = nodes_had, .flags = STK_F_KNOWN,
     .meaning = "got, or asked for"},
    {"cpus_had", NULL, STK_U_COUNT, .number = cpus_had, .flags = STK_F_KNOWN},
    {"gpus_had", NULL, STK_U_COUNT, .number = gpus_had, .flags = STK_F_KNOWN},
    {"said", NULL, STK_U_GROUP, .of = said_fields},
    {NULL}};

static void put_jobs(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < l->jobs->n; i++) {
        struct one r = {.job = &l->jobs->job[i], .list = l};
        stk_job_judge(r.job, l->scale.now, l->scale.advise_s, &r.v);
        stk_job_cost(&r.v, &l->scale.su, &r.cost);
        r.had = r.job->alloc.cpus >= 0 ? &r.job->alloc : &r.job->asked;
        r.node = l->nodes ? l->nodes->node : NULL;
        r.nnodes = l->nodes ? l->nodes->n : 0;
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

static void states_text(const void *base, struct stk_jw *w)
{
    const struct stk_job_totals *t = base;
    struct stk_buf text = STK_BUF_INIT;
    for (enum stk_slurm_state s = 0; s < STK_SLURM_STATES; s++)
        if (t->by_state[s])
            add(&text, ", ", "%zu %s", t->by_state[s], stk_slurm_state_name(s));
    stk_jw_str(w, stk_buf_cstr(&text));
    stk_buf_release(&text);
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
    {"states", NULL, STK_U_TEXT, .put = states_text, .meaning = "the same in words"},
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
    stk_job_total(l->jobs, &l->scale, &sum);
    stk_jw_open(w, '{');
    stk_fields_put(total_fields, &sum, w);
    stk_jw_close(w, '}');
}

/* For each array: what to write next time, by its largest tasks. */
struct array {
    uint64_t id;
    struct stk_job_view v;
};

static void put_array_next(const void *base, struct stk_jw *w)
{
    const struct array *r = base;
    stk_rows_put(next_fields, r->v.note, r->v.nnotes, sizeof *r->v.note, w);
}

static const struct stk_result_field array_fields[] = {
    {"array", NULL, STK_U_COUNT, STK_FROM(struct array, id)},
    {"next", NULL, STK_U_TABLE, .put = put_array_next, .of = next_fields},
    {NULL}};

#define ARRAYS_MAX 20

static bool array_seen(const struct stk_slurm_jobs *jobs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (jobs->job[k].array_id == jobs->job[i].array_id)
            return true;
    return false;
}

static void put_arrays(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    size_t n = 0;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < l->jobs->n && n < ARRAYS_MAX; i++) {
        struct stk_slurm_job all;
        struct array one = {.id = l->jobs->job[i].array_id};
        if (!one.id || array_seen(l->jobs, i) || !stk_job_of_array(l->jobs, one.id, &all))
            continue;
        n++;
        stk_job_judge(&all, l->scale.now, l->scale.advise_s, &one.v);
        stk_jw_open(w, '{');
        stk_fields_put(array_fields, &one, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* What could not be asked. */
static const struct {
    const char *name, *lost;
} client[] = {
    {"squeue", "why jobs wait"},
    {"sacct", "what jobs used, their steps, and jobs that ended more than some minutes ago"},
    {"scontrol", "ids of GPUs, and how memory was requested"},
    {"sstat", "what running jobs have used so far"},
};

static void put_missing(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < STK_PG_COUNT(client); i++) {
        if (!(l->jobs->failed & 1u << i))
            continue;
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "client", client[i].name);
        stk_jw_put_str(w, "why", l->jobs->why[i]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void missing_text(const void *base, struct stk_jw *w)
{
    const struct stk_job_list *l = base;
    struct stk_buf text = STK_BUF_INIT;
    for (size_t i = 0; i < STK_PG_COUNT(client); i++)
        if (l->jobs->failed & 1u << i)
            add(&text, " ", "%s gave no answer (%s), so this is missing: %s.", client[i].name,
                l->jobs->why[i], client[i].lost);
    stk_jw_str(w, text.len ? stk_buf_cstr(&text) : NULL);
    stk_buf_release(&text);
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
    stk_job_total(l->jobs, &l->scale, &sum);
    if (l->jobs->n != 1)
        return sum.used_h / (sum.used_h + sum.idle_h);
    stk_job_judge(&l->jobs->job[0], l->scale.now, l->scale.advise_s, &v);
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
        stk_job_judge(&l->jobs->job[i], l->scale.now, l->scale.advise_s, &v);
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
    "job", "job", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"used", STK_U_SHARE,
      {{"used.cpu_share", "CPU", "bar"},
       {"used.memory_share", "memory", "bar"},
       {"used.time_share", "time limit", "bar"},
       {"used.gpu_util", "GPU", "bar"}}}}};

/* ---- on the screen ---------------------------------------------------------------------- */

#define SHOWN 100 /* rows of a table */

static const char *state_tone(const struct stk_jval *v)
{
    enum stk_slurm_state s = 0;
    while (s < STK_SLURM_STATES && strcmp(stk_slurm_state_name(s), v->str) != 0)
        s++;
    return s == STK_SLURM_COMPLETED                        ? STK_GOOD
           : s < STK_SLURM_STATES && stk_slurm_ended(s) ? STK_BAD
                                                           : STK_STRONG;
}

#define SAID(array, ...) static const struct stk_result_field array[] = {__VA_ARGS__, {NULL}}
#define SAID_GROUP(key, array) {key, NULL, STK_U_GROUP, .of = array}
SAID(said_state, {"state", "", STK_U_TEXT, .joins = " %"});
SAID(said_before, {"asked", "asked", STK_U_TEXT}, {"got", "got", STK_U_TEXT},
     {"gpus", "GPUs", STK_U_TEXT}, {"why", "why", STK_U_TEXT}, {"waited", "waited", STK_U_TEXT},
     {"ran", "ran", STK_U_TEXT});
SAID(time_share, {"time_share", "", STK_U_SHARE, .joins = "", .flags = STK_F_BAR});
SAID(said_cpu, {"cpu", "CPU", STK_U_TEXT});
SAID(cpu_share, {"cpu_share", "", STK_U_SHARE, .joins = "", .flags = STK_F_BAR});
SAID(said_memory, {"cpu_bound", "", STK_U_TEXT}, {"memory", "memory", STK_U_TEXT});
SAID(memory_share, {"memory_share", "", STK_U_SHARE, .joins = "", .flags = STK_F_BAR},
     {"gpu_util", "GPU", STK_U_SHARE, .flags = STK_F_BAR},
     {"gpu_memory_bytes", "GPU memory", STK_U_BYTES, .flags = STK_F_IF_SET});
SAID(said_bound, {"memory_bound", "", STK_U_TEXT});
SAID(said_after, {"files", "files", STK_U_TEXT}, {"energy", "energy", STK_U_TEXT});
SAID(cost_view,
     {"core_hours", "cost", STK_U_PLAIN, .say = "% core-hours", .flags = STK_F_IF_SET},
     {"gpu_hours", "", STK_U_PLAIN, .joins = ", % GPU-hours", .flags = STK_F_IF_SET},
     {"su", "", STK_U_PLAIN, .joins = ", % SU"});

static const struct stk_result_field step_view[] = {
    {"step", "step", STK_U_TEXT},
    {"program", "program", STK_U_TEXT, .flags = STK_F_CUT_END},
    {"tasks", "tasks", STK_U_COUNT},
    {"cpus", "CPUs", STK_U_COUNT},
    {"elapsed_s", "time", STK_U_SECONDS},
    {"busy", "busy", STK_U_PLAIN},
    {"memory_bytes", "memory", STK_U_BYTES},
    {"task_memory_bytes", "largest", STK_U_BYTES},
    {"state", "state", STK_U_TEXT, .flags = STK_F_CUT_END},
    {NULL}};

static const struct stk_result_field node_view[] = {
    {"host", "node", STK_U_TEXT, .flags = STK_F_CUT},
    {"cpus_busy", "CPUs busy", STK_U_PLAIN},
    {"cpus", "CPUs", STK_U_COUNT},
    {"memory_bytes", "memory", STK_U_BYTES},
    {"gpus", "GPUs", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"gpu_util", "GPU busy", STK_U_SHARE, .flags = STK_F_IF_SET},
    {"gpu_memory_bytes", "GPU memory", STK_U_BYTES, .flags = STK_F_IF_SET},
    {NULL}};

static void draw_lines(const struct stk_jval *next, struct stk_screen *s)
{
    bool any = false;
    for (size_t i = 0; stk_pg_has_rows(next) && i < next->len; i++) {
        const char *line = stk_pg_text(&next->item[i], "line", NULL);
        const char *other = stk_pg_text(&next->item[i], "or", NULL);
        struct stk_buf text = STK_BUF_INIT;
        if (!line)
            continue;
        if (!any) {
            stk_screen_part(s);
            stk_buf_puts(s->out, "for the next batch file\n");
        }
        any = true;
        stk_buf_printf(&text, "%s%s%s", line, other ? "   or " : "", other ? other : "");
        stk_buf_puts(s->out, "  ");
        stk_text_escape(s->out, stk_buf_cstr(&text), text.len, SIZE_MAX);
        stk_buf_putc(s->out, '\n');
        stk_report_wrapped(stk_pg_text(&next->item[i], "why", ""), 6, s->columns, s->out);
        stk_buf_release(&text);
    }
}

/* The lines for the next batch file, and what to know about the figures. */
static void draw_next(const struct stk_result_field *f, const struct stk_jval *job,
                      struct stk_screen *s)
{
    const struct stk_jval *next = stk_json_get(job, f->key);
    bool any = false;
    draw_lines(next, s);
    for (size_t i = 0; stk_pg_has_rows(next) && i < next->len; i++) {
        if (stk_pg_text(&next->item[i], "line", NULL))
            continue;
        if (!any)
            stk_screen_part(s);
        any = true;
        stk_screen_say(s, "%s", stk_pg_text(&next->item[i], "why", ""));
    }
}

static void draw_steps(const struct stk_result_field *f, const struct stk_jval *job,
                       struct stk_screen *s)
{
    static const struct stk_result_field table = {"steps", NULL, STK_U_TABLE, .of = step_view,
                                                  .most = SHOWN};
    const struct stk_jval *steps = stk_json_get(job, f->key);
    const bool *wanted = s->style;
    if (!stk_pg_has_rows(steps) || (wanted && !*wanted))
        return;
    stk_screen_part(s);
    stk_screen_table(&table, steps, s);
}

static const struct stk_result_field one_view[] = {
    {"state", "state", STK_U_TEXT, .tone = state_tone},
    SAID_GROUP("said", said_state),
    {"user", "user", STK_U_TEXT, .row = "whose", .say = "user %"},
    {"account", "", STK_U_TEXT, .joins = ", account %"},
    {"partition", "", STK_U_TEXT, .joins = ", partition %"},
    {"qos", "", STK_U_TEXT, .joins = ", QOS %"},
    SAID_GROUP("said", said_before),
    SAID_GROUP("used", time_share),
    SAID_GROUP("said", said_cpu),
    SAID_GROUP("used", cpu_share),
    SAID_GROUP("said", said_memory),
    SAID_GROUP("used", memory_share),
    SAID_GROUP("said", said_bound),
    SAID_GROUP("cost", cost_view),
    SAID_GROUP("said", said_after),
    {"profile", "profile", STK_U_TEXT},
    {"steps", NULL, STK_U_TABLE, .draw = draw_steps},
    {"nodes", "nodes", STK_U_TABLE, .of = node_view, .most = SHOWN},
    {"next", NULL, STK_U_TABLE, .draw = draw_next},
    {NULL}};

SAID(brief_state, {"brief_state", "state", STK_U_TEXT, .flags = STK_F_CUT_END});
SAID(time_column, {"time_share", "limit", STK_U_SHARE});
SAID(share_columns, {"cpu_share", "CPU", STK_U_SHARE}, {"memory_share", "memory", STK_U_SHARE});
static const struct stk_result_field row_view[] = {
    {"job", "job", STK_U_TEXT},
    {"name", "name", STK_U_TEXT, .flags = STK_F_CUT_END},
    SAID_GROUP("said", brief_state),
    {"nodes_had", "nodes", STK_U_COUNT},
    {"cpus_had", "CPUs", STK_U_COUNT},
    {"gpus_had", "GPUs", STK_U_COUNT, .flags = STK_F_IF_SET},
    {"elapsed_s", "time", STK_U_SECONDS},
    SAID_GROUP("used", time_column),
    SAID_GROUP("said", share_columns),
    {NULL}};

static void draw_jobs(const struct stk_result_field *f, const struct stk_jval *all,
                      struct stk_screen *s)
{
    static const struct stk_result_field table = {"jobs", NULL, STK_U_TABLE, .of = row_view};
    const struct stk_jval *jobs = stk_json_get(all, f->key);
    struct stk_buf head = STK_BUF_INIT;
    stk_screen_part(s);
    if (!jobs->len) {
        stk_buf_puts(s->out, "no jobs\n");
    } else if (jobs->len > 1) {
        stk_screen_table(&table, jobs, s);
    } else {
        stk_buf_printf(&head, "job %s  %s", stk_pg_text(jobs->item, "job", "?"),
                       stk_pg_text(jobs->item, "name", ""));
        stk_text_escape(s->out, stk_buf_cstr(&head), head.len, s->columns);
        stk_buf_putc(s->out, '\n');
        s->any = false; /* its rows stand directly below */
        stk_screen_fields(one_view, jobs->item, s);
        s->any = true;
        stk_buf_release(&head);
    }
    if (stk_pg_true(all, "more"))
        stk_buf_puts(s->out, "and more jobs, which are left out\n");
}

static void draw_arrays(const struct stk_result_field *f, const struct stk_jval *all,
                        struct stk_screen *s)
{
    const struct stk_jval *arrays = stk_json_get(all, f->key), *jobs = stk_json_get(all, "jobs");
    for (size_t i = 0; stk_pg_has_rows(jobs) && jobs->len > 1 && i < arrays->len; i++) {
        const struct stk_jval *array = &arrays->item[i];
        if (!stk_pg_has_rows(stk_json_get(array, "next")))
            continue;
        stk_screen_part(s);
        stk_buf_printf(s->out, "array %.0f, by its largest tasks\n", stk_pg_get(array, "array"));
        s->any = false;
        draw_next(&(struct stk_result_field){"next"}, array, s);
        s->any = true;
    }
}

SAID(total_view,
     {"jobs", "in all", STK_U_COUNT, .say = "% job(s)"},
     {"states", "", STK_U_TEXT, .joins = ": %"},
     {"core_hours", "core-hours", STK_U_PLAIN, .say = "% allocated"},
     {"core_hours_used", "", STK_U_PLAIN, .joins = ", % used"},
     {"core_hours_idle", "", STK_U_PLAIN, .joins = ", % idle"},
     {"core_hours_unknown", "", STK_U_PLAIN, .joins = ", % of unknown use",
      .flags = STK_F_IF_SET},
     {"core_hours_not_completed", "", STK_U_PLAIN, .joins = "; % in jobs that did not complete",
      .flags = STK_F_IF_SET},
     {"gpu_hours", "GPU-hours", STK_U_PLAIN, .flags = STK_F_IF_SET},
     {"su", "service units", STK_U_PLAIN},
     {"jobs_without_su", "", STK_U_COUNT, .joins = ", without % job(s)", .flags = STK_F_IF_SET},
     {"not_completed", "not completed", STK_U_LIST, .flags = STK_F_IF_SET});

static void draw_totals(const struct stk_result_field *f, const struct stk_jval *all,
                        struct stk_screen *s)
{
    const struct stk_jval *jobs = stk_json_get(all, "jobs");
    if (stk_pg_has_rows(jobs) && jobs->len > 1)
        stk_screen_fields(total_view, stk_json_get(all, f->key), s);
}

STK_BOOL_OF(any_more, struct stk_job_list, r->jobs->more)

static const struct stk_result_field fields[] = {
    {"jobs", "jobs", STK_U_TABLE, .put = put_jobs, .of = job_fields, .plot = &use_plot,
     .draw = draw_jobs},
    {"arrays", NULL, STK_U_TABLE, .put = put_arrays, .of = array_fields, .draw = draw_arrays,
     .meaning = "what to write next time for each array, by its largest tasks"},
    {"totals", NULL, STK_U_GROUP, .put = put_totals, .of = total_fields, .draw = draw_totals},
    {"share_used", "CPU time used", STK_U_SHARE, .number = headline,
     .flags = STK_F_LEAD | STK_F_PAGE},
    {"bounds", "figures that are bounds", STK_U_LIST, .put = put_notes,
     .flags = STK_F_NAMED | STK_F_PAGE},
    {"more", NULL, STK_U_FLAG, .put = any_more},
    {"missing", NULL, STK_U_ANY, .put = put_missing},
    {"missing_text", NULL, STK_U_PROSE, .put = missing_text},
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
                                             .fits = true,
                                             .needs = "jobs",
                                             .lacks = "contains no job"};
