/* totals.c - what many jobs used, as text and JSON; and each job as a row of CSV. */
#include <math.h>
#include <stdio.h>

#include "base/csv.h"
#include "base/text.h"
#include "report/job.h"
#include "report/json_priv.h"
#include "report/report_priv.h"

/* ---- text --------------------------------------------------------------------------------- */

const char *stk_job_hours(double h, char *buf, size_t size)
{
    if (h > 0 && h < 0.001)
        snprintf(buf, size, "<0.001");
    else
        snprintf(buf, size, h < 10 ? "%.3g" : h < 100 ? "%.1f" : "%.0f", h);
    return buf;
}

static void put_states(const struct stk_job_totals *t, struct stk_buf *out)
{
    char a[48];
    const char *between = ": ";
    stk_buf_puts(out, stk_word_many(t->jobs, "job", a, sizeof a));
    for (enum stk_slurm_state s = 0; s < STK_SLURM_STATES; s++)
        if (t->by_state[s]) {
            stk_buf_printf(out, "%s%zu %s", between, t->by_state[s], stk_slurm_state_name(s));
            between = ", ";
        }
}

static void put_hours(const struct stk_job_totals *t, struct stk_buf *out)
{
    char a[32], b[32], c[32];
    stk_buf_printf(out, "core-hours: %s allocated, %s used, %s idle",
                   stk_job_hours(t->core_h, a, sizeof a), stk_job_hours(t->used_h, b, sizeof b),
                   stk_job_hours(t->idle_h, c, sizeof c));
    if (t->unknown_h > 0)
        stk_buf_printf(out, ", %s of unknown use", stk_job_hours(t->unknown_h, a, sizeof a));
    if (t->lost_h > 0)
        stk_buf_printf(out, "; %s in jobs that did not complete",
                       stk_job_hours(t->lost_h, a, sizeof a));
    if (t->gpu_h > 0)
        stk_buf_printf(out, "; GPU-hours: %s", stk_job_hours(t->gpu_h, a, sizeof a));
}

static void put_lost(const struct stk_job_totals *t, struct stk_buf *out)
{
    if (!t->lost)
        return;
    stk_buf_puts(out, "not completed: ");
    for (size_t i = 0; i < t->lost && i < 20; i++) {
        stk_buf_puts(out, i ? ", " : "");
        stk_text_escape(out, t->lost_job[i]->label, strlen(t->lost_job[i]->label), 24);
    }
    if (t->lost > 20)
        stk_buf_printf(out, " and %zu more (--state lists them)", t->lost - 20);
}

void stk_job_totals_text(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t,
                         struct stk_buf *out)
{
    struct stk_job_totals sum;
    struct stk_buf line = STK_BUF_INIT;
    char a[32];
    stk_job_total(jobs, &t->scale, &sum);
    stk_buf_putc(out, '\n');
    put_states(&sum, &line);
    stk_report_wrapped(stk_buf_cstr(&line), 0, t->columns, out);
    stk_buf_reset(&line);
    put_hours(&sum, &line);
    stk_buf_printf(&line, "; SUs: %s", stk_job_hours(sum.su, a, sizeof a));
    if (sum.without_su)
        stk_buf_printf(&line, ", without %zu jobs", sum.without_su);
    stk_report_wrapped(stk_buf_cstr(&line), 0, t->columns, out);
    stk_buf_reset(&line);
    put_lost(&sum, &line);
    if (line.len)
        stk_report_wrapped(stk_buf_cstr(&line), 0, t->columns, out);
    stk_buf_release(&line);
}

/* ---- JSON --------------------------------------------------------------------------------- */

void stk_job_totals_json(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t,
                         struct stk_jw *w)
{
    struct stk_job_totals sum;
    stk_job_total(jobs, &t->scale, &sum);
    stk_jw_key(w, "totals");
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "jobs", sum.jobs);
    stk_jw_key(w, "by_state");
    stk_jw_open(w, '{');
    for (enum stk_slurm_state s = 0; s < STK_SLURM_STATES; s++)
        if (sum.by_state[s])
            stk_jw_put_u64(w, stk_slurm_state_name(s), sum.by_state[s]);
    stk_jw_close(w, '}');
    stk_jw_put_f64(w, "core_hours", sum.core_h);
    stk_jw_put_f64(w, "core_hours_used", sum.used_h);
    stk_jw_put_f64(w, "core_hours_idle", sum.idle_h);
    stk_jw_put_f64(w, "core_hours_unknown", sum.unknown_h);
    stk_jw_put_f64(w, "core_hours_not_completed", sum.lost_h);
    stk_jw_put_f64(w, "gpu_hours", sum.gpu_h);
    stk_jw_put_f64(w, "su", sum.su);
    stk_jw_put_u64(w, "jobs_without_su", sum.without_su);
    put_array(w, "not_completed");
    for (size_t i = 0; i < sum.lost && i < STK_JOB_NAMED; i++)
        stk_jw_str(w, sum.lost_job[i]->label);
    stk_jw_close(w, ']');
    stk_jw_close(w, '}');
}

/* ---- CSV ---------------------------------------------------------------------------------- */

/* An empty cell is unknown. */
static void put_number(struct stk_buf *out, double v)
{
    stk_buf_putc(out, ',');
    if (v >= 0)
        stk_buf_printf(out, "%.15g", v);
}

static void put_cell(struct stk_buf *out, const char *text)
{
    stk_buf_putc(out, ',');
    stk_csv_put_text(out, text ? text : "");
}

static void put_row(struct stk_buf *out, const struct stk_slurm_job *j,
                    const struct stk_job_text *t)
{
    struct stk_job_view v;
    struct stk_job_cost c;
    stk_job_judge(j, t->scale.now, t->scale.advise_s, &v);
    stk_job_cost(&v, &t->scale.su, &c);
    stk_csv_put_text(out, j->label);
    const char *const text[] = {j->name, j->user, j->account, j->partition,
                                stk_slurm_state_name(j->state)};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        put_cell(out, text[i]);
    const double number[] = {(double)j->exit_code,
                             (double)j->submit,
                             (double)j->start,
                             (double)j->end,
                             v.wait_s,
                             j->elapsed_s,
                             j->limit_s == INT64_MAX ? -1 : (double)j->limit_s,
                             (double)j->alloc.nodes,
                             (double)j->alloc.cpus,
                             (double)j->alloc.gpus,
                             (double)j->alloc.memory_bytes,
                             v.use.cpu_s,
                             v.cpu_share,
                             (double)v.use.memory_bytes,
                             v.memory_share,
                             v.use.gpu_util,
                             c.core_h,
                             c.idle_h,
                             c.su};
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        put_number(out, number[i]);
    put_cell(out, stk_job_worth_name(v.doubt[STK_JOB_CPU].worth));
    put_cell(out, stk_job_worth_name(v.doubt[STK_JOB_MEMORY].worth));
    stk_buf_putc(out, '\n');
}

void stk_job_csv(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t,
                 struct stk_buf *out)
{
    stk_buf_puts(out, "job,name,user,account,partition,state,exit_status,submitted,started,ended,"
                      "waited_s,elapsed_s,limit_s,nodes,cpus,gpus,memory_bytes,cpu_s,cpu_share,"
                      "memory_used_bytes,memory_share,gpu_util,core_hours,core_hours_idle,su,"
                      "cpu_worth,memory_worth\n");
    for (size_t i = 0; i < jobs->n; i++)
        put_row(out, &jobs->job[i], t);
}
