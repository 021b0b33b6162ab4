/* totals.c - what many jobs used, as text. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "report/job.h"
#include "report/report_priv.h"

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
