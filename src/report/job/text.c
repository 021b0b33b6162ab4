/*
 * text.c - Slurm jobs as text: what was requested, allocated and used, with bars, and the lines for
 * the next batch file.
 */
#include "report/job.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/style.h"
#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report.h"
#include "report/report_priv.h"

#define BAR_COLUMNS 20
#define NAMES       11 /* columns before the value of a line */

/* ---- words -------------------------------------------------------------------------------- */

static void put_clean(struct stk_buf *out, const char *text, size_t columns)
{
    stk_text_escape(out, text, strlen(text), columns);
}

static const char *limit_text(int64_t limit_s, char *buf, size_t size)
{
    return limit_s == INT64_MAX ? "no limit" : stk_word_clock((double)limit_s, buf, size);
}

/* "2 nodes, 8 CPUs, 16 GiB, 4 GPUs (k80)": as far as known. */
static void put_tres(struct stk_buf *out, const struct stk_slurm_tres *t)
{
    char a[48];
    const char *comma = "";
    const struct {
        int64_t n;
        const char *one;
    } part[] = {{t->nodes, "node"}, {t->cpus, "CPU"}};
    for (size_t i = 0; i < 2; i++)
        if (part[i].n >= 0) {
            stk_buf_printf(out, "%s%s", comma,
                           stk_word_many((uint64_t)part[i].n, part[i].one, a, sizeof a));
            comma = ", ";
        }
    if (t->memory_bytes >= 0) {
        stk_buf_printf(out, "%s%s", comma, stk_format_size((uint64_t)t->memory_bytes, a, sizeof a));
        comma = ", ";
    }
    if (t->gpus > 0) {
        stk_buf_printf(out, "%s%s", comma, stk_word_many((uint64_t)t->gpus, "GPU", a, sizeof a));
        if (t->gpu_kind[0]) {
            stk_buf_puts(out, " (");
            put_clean(out, t->gpu_kind, 48);
            stk_buf_putc(out, ')');
        }
        comma = ", ";
    }
    if (!comma[0])
        stk_buf_puts(out, "unknown");
}

static void row(struct stk_buf *out, const char *name)
{
    stk_buf_printf(out, "  %-9s", name);
}

/* May exceed 100 %: memory of a job that was killed for it. */
static const char *share_text(double part, char *buf, size_t size)
{
    if (part <= 1)
        return stk_word_share(part, buf, size);
    snprintf(buf, size, "%.0f %%", fmin(part, 9999) * 100);
    return buf;
}

/* Columns left in the line that began there. */
static size_t room_after(const struct stk_buf *out, size_t from, unsigned columns)
{
    size_t used =
        out->len > from ? stk_text_width((const char *)out->data + from, out->len - from) : 0;
    return used + 8 < columns ? columns - used : 8;
}

/* ---- one job ------------------------------------------------------------------------------ */

static const char *state_mark(enum stk_slurm_state s)
{
    return s == STK_SLURM_COMPLETED ? STK_GOOD : stk_slurm_ended(s) ? STK_BAD : STK_STRONG;
}

/* A script that ignores the status of its programs completes, whatever they did. */
static void put_bad_steps(struct stk_buf *out, const struct stk_slurm_job *j)
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
    stk_buf_puts(out, ", but step ");
    put_clean(out, first->name, 16);
    if (more)
        stk_buf_printf(out, " and %zu more", more);
    stk_buf_printf(out, " did not (%s", stk_slurm_state_name(first->state));
    if (first->exit_code > 0)
        stk_buf_printf(out, ", exit status %d", first->exit_code);
    stk_buf_putc(out, ')');
}

static void put_state(struct stk_buf *out, const struct stk_slurm_job *j)
{
    const struct stk_slurm_step *dead = stk_slurm_killed_for_memory(j, 0);
    stk_buf_printf(out, "%s%s" STK_PLAIN, state_mark(j->state), stk_slurm_state_name(j->state));
    if (j->cancelled_by[0]) {
        stk_buf_puts(out, " by ");
        put_clean(out, j->cancelled_by, 40);
    }
    if (j->exit_signal > 0)
        stk_buf_printf(out, " (signal %d)", j->exit_signal);
    else if (j->exit_code > 0)
        stk_buf_printf(out, " (exit status %d)", j->exit_code);
    if (j->by_kernel)
        stk_buf_puts(out, ": killed for using more memory than requested");
    if (j->deadline)
        stk_buf_puts(out, ": its deadline came first");
    if (j->restarts > (j->state == STK_SLURM_REQUEUED))
        stk_buf_printf(out, ", requeued %d time%s", j->restarts, j->restarts == 1 ? "" : "s");
    if (dead && j->state != STK_SLURM_OUT_OF_MEMORY) {
        stk_buf_puts(out, ", but step ");
        put_clean(out, dead->name, 16);
        stk_buf_printf(out, "%s killed for memory",
                       stk_slurm_killed_for_memory(j, 1) ? " and others were" : " was");
    } else if (j->state == STK_SLURM_COMPLETED) {
        put_bad_steps(out, j);
    }
}

static void put_head(struct stk_buf *out, const struct stk_slurm_job *j,
                     const struct stk_job_text *t)
{
    const struct {
        const char *name, *value;
    } who[] = {
        {"user", j->user}, {"account", j->account}, {"partition", j->partition}, {"QOS", j->qos}};
    const char *comma = "";
    size_t from = out->len;
    stk_buf_puts(out, "job ");
    put_clean(out, j->label, 40);
    if (j->name[0]) {
        stk_buf_puts(out, "  ");
        put_clean(out, j->name, room_after(out, from, t->columns));
    }
    stk_buf_puts(out, "\n");
    row(out, "state");
    put_state(out, j);
    stk_buf_puts(out, "\n");
    for (size_t i = 0; i < sizeof who / sizeof *who; i++)
        if (who[i].value[0]) {
            if (!comma[0])
                row(out, "whose");
            stk_buf_printf(out, "%s%s ", comma, who[i].name);
            put_clean(out, who[i].value, 40);
            comma = ", ";
        }
    stk_buf_puts(out, comma[0] ? "\n" : "");
}

static void put_when(struct stk_buf *out, const char *name, int64_t when)
{
    char a[32];
    struct tm tm;
    time_t w = (time_t)when;
    if (when > 0 && localtime_r(&w, &tm) && strftime(a, sizeof a, "%Y-%m-%d %H:%M:%S", &tm))
        stk_buf_printf(out, "%s %s", name, a);
}

static void put_waiting(struct stk_buf *out, const struct stk_job_view *v,
                        const struct stk_job_text *t)
{
    const struct stk_slurm_job *j = v->job;
    char a[32];
    if (stk_slurm_waits(j->state)) {
        row(out, "why");
        put_clean(out, j->reason[0] ? j->reason : "no reason given", t->columns - 12);
        stk_buf_putc(out, '\n');
        const char *means = stk_slurm_reason_text(j->reason);
        if (means)
            stk_report_wrapped(means, 11, t->columns, out);
        if (j->dependency[0]) {
            row(out, "after");
            put_clean(out, j->dependency, t->columns - 12);
            stk_buf_putc(out, '\n');
        }
    }
    if (v->wait_s >= 0) {
        row(out, "waited");
        stk_buf_puts(out, v->wait_s > 0 ? stk_format_duration(v->wait_s, a, sizeof a) : "0 s");
        if (stk_slurm_waits(j->state) && j->start > t->scale.now)
            put_when(out, " so far; expected to start", j->start);
        stk_buf_putc(out, '\n');
    } else if (v->queued_s >= 0) {
        row(out, "waited");
        stk_buf_printf(out, "not yet: it is not eligible, and was submitted %s ago\n",
                       stk_format_duration(v->queued_s, a, sizeof a));
    }
}

static void put_got(struct stk_buf *out, const struct stk_slurm_job *j,
                    const struct stk_job_text *t)
{
    char a[32];
    row(out, "asked");
    put_tres(out, &j->asked);
    if (j->limit_s > 0)
        stk_buf_printf(out, ", %s", limit_text(j->limit_s, a, sizeof a));
    stk_buf_putc(out, '\n');
    if (j->alloc.cpus < 0 || stk_slurm_waits(j->state))
        return;
    size_t from = out->len;
    row(out, "got");
    put_tres(out, &j->alloc);
    if (j->nodelist[0]) {
        stk_buf_puts(out, ": ");
        put_clean(out, j->nodelist, room_after(out, from, t->columns));
    }
    stk_buf_putc(out, '\n');
    for (size_t i = 0; i < j->ngpus && i < 16; i++) {
        row(out, i ? "" : "GPUs");
        put_clean(out, j->gpus[i].nodes, 40);
        stk_buf_printf(out, ": %lld", (long long)j->gpus[i].count);
        if (j->gpus[i].kind[0]) {
            stk_buf_puts(out, " x ");
            put_clean(out, j->gpus[i].kind, 24);
        }
        if (j->gpus[i].ids[0]) {
            stk_buf_puts(out, ", id ");
            put_clean(out, j->gpus[i].ids, 40);
        }
        stk_buf_putc(out, '\n');
    }
    if (j->alloc.gpus > 0 && !j->ngpus && stk_slurm_ended(j->state))
        stk_buf_printf(out, "  %-9sids unknown: Slurm keeps them only while a job runs\n", "GPUs");
}

/* Lines with bars; the text before them is aligned. */
static void bar_line(struct stk_buf *out, const char *name, double part,
                     const struct stk_job_text *t, const char *text)
{
    char a[24];
    row(out, name);
    if (part < 0) {
        stk_buf_printf(out, "%s\n", text);
        return;
    }
    stk_buf_printf(out, "%-34s  ", text);
    stk_grid_box(fmin(part, 1), BAR_COLUMNS, t->utf8, out);
    stk_buf_printf(out, " %s\n", share_text(part, a, sizeof a));
}

/* "unknown: why", or why the figure above it is only a lower bound. */
static void put_doubt(struct stk_buf *out, const char *name, const struct stk_job_doubt *d,
                      const struct stk_job_text *t)
{
    struct stk_buf text = STK_BUF_INIT, lines = STK_BUF_INIT;
    bool unknown = d->worth == STK_JOB_UNKNOWN;
    if (d->worth == STK_JOB_KNOWN)
        return;
    stk_buf_printf(&text, "%s%s", unknown ? "unknown: " : "", d->why);
    stk_report_wrapped(stk_buf_cstr(&text), NAMES, t->columns, &lines);
    row(out, unknown ? name : "");
    stk_buf_puts(out, lines.len > NAMES ? stk_buf_cstr(&lines) + NAMES : "\n");
    stk_buf_release(&text);
    stk_buf_release(&lines);
}

static const char *at_least(const struct stk_job_doubt *d)
{
    return d->worth == STK_JOB_AT_LEAST ? "at least " : "";
}

static void put_cpu(struct stk_buf *out, const struct stk_job_view *v, const struct stk_job_text *t)
{
    const struct stk_slurm_job *j = v->job;
    const struct stk_job_doubt *d = &v->doubt[STK_JOB_CPU];
    char text[120];
    snprintf(text, sizeof text, "%s%.2f of %lld CPU%s busy%s", at_least(d), v->cpus_busy,
             (long long)j->alloc.cpus, j->alloc.cpus == 1 ? "" : "s",
             stk_slurm_ended(j->state) ? "" : " so far");
    if (v->cpus_busy >= 0)
        bar_line(out, "CPU", v->cpu_share, t, text);
    put_doubt(out, "CPU", d, t);
}

static void put_memory(struct stk_buf *out, const struct stk_job_view *v,
                       const struct stk_job_text *t)
{
    const struct stk_slurm_job *j = v->job;
    const struct stk_job_doubt *d = &v->doubt[STK_JOB_MEMORY];
    char text[120], a[32], b[32];
    if (v->use.memory_bytes >= 0) {
        bool known = j->alloc.memory_bytes >= 0;
        snprintf(text, sizeof text, "peak %s%s%s%s", at_least(d),
                 stk_format_size((uint64_t)v->use.memory_bytes, a, sizeof a), known ? " of " : "",
                 known ? stk_format_size((uint64_t)j->alloc.memory_bytes, b, sizeof b) : "");
        bar_line(out, "memory", v->memory_share, t, text);
    }
    put_doubt(out, "memory", d, t);
}

static void put_cost(struct stk_buf *out, const struct stk_job_view *v,
                     const struct stk_job_text *t)
{
    struct stk_job_cost c;
    char h[32];
    stk_job_cost(v, &t->scale.su, &c);
    if (!(c.core_h > 0))
        return;
    row(out, "cost");
    stk_buf_printf(out, "%s core-hours", stk_job_hours(c.core_h, h, sizeof h));
    if (c.gpu_h > 0)
        stk_buf_printf(out, ", %s GPU-hours", stk_job_hours(c.gpu_h, h, sizeof h));
    if (isfinite(c.su))
        stk_buf_printf(out, ", %s SU", stk_job_hours(c.su, h, sizeof h));
    stk_buf_putc(out, '\n');
}

static void put_used(struct stk_buf *out, const struct stk_job_view *v,
                     const struct stk_job_text *t)
{
    const struct stk_slurm_job *j = v->job;
    char text[120], a[32], b[32];
    bool running = !stk_slurm_ended(j->state);
    if (j->elapsed_s >= 0) {
        snprintf(text, sizeof text, "%s of %s", stk_word_clock(j->elapsed_s, a, sizeof a),
                 limit_text(j->limit_s, b, sizeof b));
        bar_line(out, running ? "runs" : "ran", v->time_share, t, text);
    }
    put_cpu(out, v, t);
    put_memory(out, v, t);
    if (j->alloc.gpus > 0 && v->use.gpu_util >= 0)
        bar_line(out, "GPU", v->use.gpu_util, t, "busy");
    if (v->use.gpu_memory_bytes > 0)
        stk_buf_printf(out, "  %-9s%s\n", "GPU mem",
                       stk_format_size((uint64_t)v->use.gpu_memory_bytes, a, sizeof a));
    put_cost(out, v, t);
    if (v->use.read_bytes >= 1 << 20 || v->use.write_bytes >= 1 << 20)
        stk_buf_printf(
            out, "  %-9sread %s, wrote %s\n", "files",
            stk_format_size(v->use.read_bytes > 0 ? (uint64_t)v->use.read_bytes : 0, a, sizeof a),
            stk_format_size(v->use.write_bytes > 0 ? (uint64_t)v->use.write_bytes : 0, b,
                            sizeof b));
    if (j->use.energy_J > 0)
        stk_buf_printf(out, "  %-9s%.4g kWh\n", "energy", j->use.energy_J / 3.6e6);
}

static void put_steps(struct stk_buf *out, const struct stk_slurm_job *j, unsigned columns)
{
    struct stk_grid g;
    struct stk_buf name = STK_BUF_INIT, title = STK_BUF_INIT;
    char tasks[24], cpus[24], time[32], busy[24], mem[32], task_mem[32];
    stk_grid_init(&g, "lerrrrrre");
    stk_grid_row(&g, "step", "program", "tasks", "CPUs", "time", "busy", "memory", "largest",
                 "state");
    for (size_t i = 0; i < j->nsteps && i < 100; i++) {
        const struct stk_slurm_step *s = &j->step[i];
        snprintf(tasks, sizeof tasks, s->tasks >= 0 ? "%lld" : "-", (long long)s->tasks);
        snprintf(cpus, sizeof cpus, s->alloc.cpus >= 0 ? "%lld" : "-", (long long)s->alloc.cpus);
        double cpu_s;
        bool more = stk_job_step_cpu(s, &cpu_s) == STK_JOB_AT_LEAST;
        double busy_v = cpu_s >= 0 && s->elapsed_s > 0 ? cpu_s / s->elapsed_s : -1;
        snprintf(busy, sizeof busy, busy_v >= 0 ? "%s%.2f" : "-", more ? ">" : "", busy_v);
        stk_grid_row(
            &g, stk_word_cut(&name, s->name, 12), stk_word_cut(&title, s->title, 20), tasks, cpus,
            stk_word_clock(s->elapsed_s, time, sizeof time), busy,
            s->use.memory_bytes >= 0
                ? stk_format_size((uint64_t)s->use.memory_bytes, mem, sizeof mem)
                : "-",
            s->use.task_memory_bytes >= 0
                ? stk_format_size((uint64_t)s->use.task_memory_bytes, task_mem, sizeof task_mem)
                : "-",
            stk_slurm_state_name(s->state));
    }
    stk_buf_putc(out, '\n');
    stk_grid_fit(&g, 2, columns);
    stk_grid_render(&g, 2, out);
    if (j->nsteps > 100)
        stk_buf_printf(out, "  and %zu more steps\n", j->nsteps - 100);
    stk_grid_release(&g);
    stk_buf_release(&name);
    stk_buf_release(&title);
}

void stk_job_notes(const struct stk_job_view *v, unsigned columns, struct stk_buf *out)
{
    bool any = false;
    for (size_t i = 0; i < v->nnotes; i++) {
        const struct stk_job_note *n = &v->note[i];
        if (!n->line[0])
            continue;
        stk_buf_printf(out, "%s  %s%s%s\n", any ? "" : "\nfor the next batch file\n", n->line,
                       n->other[0] ? "   or " : "", n->other);
        stk_report_wrapped(n->why, 6, columns, out);
        any = true;
    }
    for (size_t i = 0, first = 1; i < v->nnotes; i++)
        if (!v->note[i].line[0]) {
            stk_buf_puts(out, first ? "\n" : "");
            first = 0;
            stk_report_wrapped(v->note[i].why, 2, columns, out);
        }
}

static const char *known_size(double bytes, char *buf, size_t size)
{
    return bytes >= 0 ? stk_format_size((uint64_t)bytes, buf, size) : "-";
}

/* Slurm has no figures per node, a profile of the job does. */
static void put_nodes(struct stk_buf *out, const struct stk_job_text *t)
{
    struct stk_grid g;
    struct stk_buf host = STK_BUF_INIT;
    char busy[48], memory[32], gpus[32], util[24], gpu_memory[32];
    stk_grid_init(&g, "brrrrr");
    stk_grid_row(&g, "node", "CPUs busy", "memory", "GPUs", "GPU busy", "GPU memory");
    for (size_t i = 0; i < t->nodes->n && i < 100; i++) {
        const struct stk_job_node *n = &t->nodes->node[i];
        snprintf(busy, sizeof busy, n->cpus_busy >= 0 ? "%.2f of %u" : "-", n->cpus_busy, n->cores);
        snprintf(gpus, sizeof gpus, n->gpus ? "%u" : "-", n->gpus);
        stk_grid_row(&g, stk_word_cut(&host, n->host, 64), busy,
                     known_size(n->peak_bytes, memory, sizeof memory), gpus,
                     stk_word_share(n->gpu_util, util, sizeof util),
                     known_size(n->gpu_memory_bytes, gpu_memory, sizeof gpu_memory));
    }
    stk_buf_puts(out, "\n  from the profile ");
    put_clean(out, t->nodes->path, t->columns > 40 ? t->columns - 22 : 40);
    stk_buf_putc(out, '\n');
    stk_grid_fit(&g, 2, t->columns);
    stk_grid_render(&g, 2, out);
    if (t->nodes->n > 100)
        stk_buf_printf(out, "  and %zu more nodes\n", t->nodes->n - 100);
    stk_grid_release(&g);
    stk_buf_release(&host);
}

void stk_job_text(const struct stk_slurm_job *job, const struct stk_job_text *t,
                  struct stk_buf *out)
{
    struct stk_job_view v;
    stk_job_judge(job, t->scale.now, t->scale.advise_s, &v);
    put_head(out, job, t);
    put_got(out, job, t);
    put_waiting(out, &v, t);
    /* A job that was cancelled in the queue has a start, but never had a node. */
    bool begun = job->elapsed_s > 0 || (job->elapsed_s == 0 && job->nodelist[0]);
    if (begun && !stk_slurm_waits(job->state) && job->start > 0)
        put_used(out, &v, t);
    if (t->steps && job->nsteps)
        put_steps(out, job, t->columns);
    if (t->nodes)
        put_nodes(out, t);
    stk_job_notes(&v, t->columns, out);
}
