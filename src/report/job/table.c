/* table.c - several Slurm jobs as a table, and what could not be asked. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "result/grid.h"
#include "report/job.h"
#include "report/report_priv.h"

#define NAME_COLUMNS 10  /* of a job's name on a terminal */
#define ROOMY        100 /* from this many columns on, cells may be twice as wide */

/* In a table: whole percent. */
static const char *share_cell(double part, enum stk_job_worth worth, char *buf, size_t size)
{
    if (part < 0)
        return "-";
    if (part > 0 && part < 0.01)
        return worth == STK_JOB_AT_LEAST ? ">0 %" : "<1 %";
    snprintf(buf, size, "%s%.0f %%", worth == STK_JOB_AT_LEAST ? ">" : "",
             floor(fmin(part, 9999) * 100));
    return buf;
}

static void cell_count(int64_t n, char *buf, size_t size)
{
    snprintf(buf, size, n >= 0 ? "%lld" : "-", (long long)n);
}

static void table_row(struct stk_grid *g, const struct stk_slurm_job *j,
                      const struct stk_job_text *t, bool any_gpus)
{
    struct stk_job_view v;
    struct stk_buf id = STK_BUF_INIT, name = STK_BUF_INIT, state = STK_BUF_INIT;
    char nodes[24], cpus[24], gpus[24], time[32], a[24], b[24], c[24];
    stk_job_judge(j, t->scale.now, t->scale.advise_s, &v);
    const struct stk_slurm_tres *r = j->alloc.cpus >= 0 ? &j->alloc : &j->asked;
    cell_count(r->nodes, nodes, sizeof nodes);
    cell_count(r->cpus, cpus, sizeof cpus);
    cell_count(r->gpus, gpus, sizeof gpus);
    stk_buf_puts(&state, stk_slurm_state_name(j->state));
    if (stk_slurm_waits(j->state) && j->reason[0]) {
        stk_buf_puts(&state, ": ");
        stk_text_escape(&state, j->reason, strlen(j->reason), 24);
    } else if (j->exit_code > 0 && j->state == STK_SLURM_FAILED)
        stk_buf_printf(&state, " (%d)", j->exit_code);
    const char *took =
        !stk_slurm_waits(j->state) ? stk_word_clock(j->elapsed_s, time, sizeof time) : "-";
    const char *limit = share_cell(v.time_share, STK_JOB_KNOWN, a, sizeof a),
               *cpu = share_cell(v.cpu_share, v.doubt[STK_JOB_CPU].worth, b, sizeof b),
               *memory = share_cell(v.memory_share, v.doubt[STK_JOB_MEMORY].worth, c, sizeof c);
    stk_word_cut(&id, j->label, 16);
    stk_word_cut(&name, j->name, t->columns < ROOMY ? NAME_COLUMNS : 2 * NAME_COLUMNS);
    if (any_gpus)
        stk_grid_row(g, stk_buf_cstr(&id), stk_buf_cstr(&name), stk_buf_cstr(&state), nodes, cpus,
                     gpus, took, limit, cpu, memory);
    else
        stk_grid_row(g, stk_buf_cstr(&id), stk_buf_cstr(&name), stk_buf_cstr(&state), nodes, cpus,
                     took, limit, cpu, memory);
    stk_buf_release(&id);
    stk_buf_release(&name);
    stk_buf_release(&state);
}

static bool array_seen(const struct stk_slurm_jobs *jobs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (jobs->job[k].array_id == jobs->job[i].array_id)
            return true;
    return false;
}

void stk_job_table(const struct stk_slurm_jobs *jobs, const struct stk_job_text *t,
                   struct stk_buf *out)
{
    struct stk_grid g;
    size_t arrays = 0;
    bool any_gpus = false;
    for (size_t i = 0; i < jobs->n; i++)
        any_gpus = any_gpus || jobs->job[i].alloc.gpus > 0 || jobs->job[i].asked.gpus > 0;
    stk_grid_init(&g, any_gpus ? "leerrrrrrr" : "leerrrrrr");
    if (any_gpus)
        stk_grid_row(&g, "job", "name", "state", "nodes", "CPUs", "GPUs", "time", "limit", "CPU",
                     "memory");
    else
        stk_grid_row(&g, "job", "name", "state", "nodes", "CPUs", "time", "limit", "CPU", "memory");
    for (size_t i = 0; i < jobs->n; i++)
        table_row(&g, &jobs->job[i], t, any_gpus);
    stk_grid_fit(&g, 0, t->columns);
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
    for (size_t i = 0; i < jobs->n && arrays < 20; i++) {
        struct stk_slurm_job all;
        struct stk_job_view v;
        if (!jobs->job[i].array_id || array_seen(jobs, i) ||
            !stk_job_of_array(jobs, jobs->job[i].array_id, &all))
            continue;
        arrays++;
        stk_job_judge(&all, t->scale.now, t->scale.advise_s, &v);
        if (v.nnotes) {
            stk_buf_printf(out, "\narray %llu, by its largest tasks",
                           (unsigned long long)all.array_id);
            stk_job_notes(&v, t->columns, out);
        }
    }
    if (jobs->more)
        stk_buf_puts(out, "and more jobs, which are left out\n");
}

void stk_job_missing(const struct stk_slurm_jobs *jobs, unsigned columns, struct stk_buf *out)
{
    static const struct {
        unsigned bit;
        const char *client, *lost;
    } parts[] = {
        {STK_SLURM_BY_SACCT, "sacct",
         "what jobs used, their steps, and jobs that ended more than some minutes ago"},
        {STK_SLURM_BY_SQUEUE, "squeue", "why jobs wait"},
        {STK_SLURM_BY_SCONTROL, "scontrol", "ids of GPUs, and how memory was requested"},
        {STK_SLURM_BY_SSTAT, "sstat", "what running jobs have used so far"},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (jobs->failed & parts[i].bit) {
            struct stk_buf b = STK_BUF_INIT;
            stk_buf_printf(&b, "%s gave no answer (%s), so this is missing: %s.", parts[i].client,
                           jobs->why[__builtin_ctz(parts[i].bit)], parts[i].lost);
            stk_report_wrapped(stk_buf_cstr(&b), 0, columns, out);
            stk_buf_release(&b);
        }
}
