/* watch.c - a running job as a screen of text, as a sentence, and as JSON. */
#include "report/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/json_priv.h"
#include "report/report_priv.h"

#define BAR_COLUMNS 20

struct totals {
    uint64_t processes, threads, memory_bytes;
    double cpus, gpu_util;
    int64_t gpu_memory_bytes, gpu_total_bytes;
    size_t gpus, gpus_known;
};

static struct totals add_up(const struct stk_watch_screen *s)
{
    struct totals t = {.cpus = -1, .gpu_util = -1};
    double util = 0;
    for (size_t i = 0; i < s->nnodes; i++) {
        const struct stk_watch_node *n = &s->node[i];
        if (n->silent)
            continue;
        t.processes += n->processes;
        t.threads += n->threads;
        t.memory_bytes += n->memory_bytes;
        if (n->cpus >= 0)
            t.cpus = (t.cpus > 0 ? t.cpus : 0) + n->cpus;
        t.gpus += n->ngpus;
        for (size_t k = 0; k < n->ngpus; k++) {
            if (n->gpu[k].util >= 0) {
                util += n->gpu[k].util;
                t.gpus_known++;
            }
            if (n->gpu[k].total_bytes > 0) {
                t.gpu_memory_bytes += n->gpu[k].memory_bytes;
                t.gpu_total_bytes += n->gpu[k].total_bytes;
            }
        }
    }
    if (t.gpus_known)
        t.gpu_util = util / (double)t.gpus_known;
    return t;
}

/* ---- the head ----------------------------------------------------------------------------- */

/* If the line is too long, cuts the names of the nodes, then that of the job. */
static void put_head(const struct stk_watch_screen *s, struct stk_buf *out)
{
    const struct stk_slurm_job *j = s->job;
    struct stk_grid g;
    struct stk_buf label = STK_BUF_INIT, name = STK_BUF_INIT, nodes = STK_BUF_INIT;
    char state[96], a[32], b[32];
    snprintf(state, sizeof state, "%s %s%s%s", stk_slurm_state_name(j->state),
             stk_word_clock(j->elapsed_s, a, sizeof a),
             j->limit_s > 0 && j->limit_s != INT64_MAX ? " of " : "",
             j->limit_s > 0 && j->limit_s != INT64_MAX
                 ? stk_word_clock((double)j->limit_s, b, sizeof b)
                 : "");
    stk_buf_puts(&label, "job ");
    stk_text_escape(&label, j->label, strlen(j->label), 20);
    stk_grid_init(&g, "lele");
    stk_grid_row(&g, stk_buf_cstr(&label), stk_word_cut(&name, j->name, 24), state,
                 stk_word_cut(&nodes, j->nodelist, 40));
    stk_grid_fit(&g, 0, s->columns);
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
    stk_buf_release(&label);
    stk_buf_release(&name);
    stk_buf_release(&nodes);
}

static void put_bar(const struct stk_watch_screen *s, const char *name, double part,
                    const char *text, struct stk_buf *out)
{
    char a[24];
    stk_buf_printf(out, "%-8s%-*s", name, part >= 0 ? 36 : 0, text);
    if (part >= 0) {
        stk_grid_box(fmin(part, 1), BAR_COLUMNS, s->utf8, out);
        snprintf(a, sizeof a, "%.0f %%", fmin(part, 99) * 100);
        stk_buf_printf(out, " %s", a);
    }
    stk_buf_putc(out, '\n');
}

static void put_totals(const struct stk_watch_screen *s, const struct totals *t,
                       struct stk_buf *out)
{
    const struct stk_slurm_tres *r = &s->job->alloc;
    char text[120], a[32], b[32];
    if (t->cpus >= 0)
        snprintf(text, sizeof text, "%.2f of %lld busy, %llu threads", t->cpus, (long long)r->cpus,
                 (unsigned long long)t->threads);
    else
        snprintf(text, sizeof text, "%llu threads", (unsigned long long)t->threads);
    put_bar(s, "CPU", t->cpus >= 0 && r->cpus > 0 ? t->cpus / (double)r->cpus : -1, text, out);
    stk_format_size(t->memory_bytes, a, sizeof a);
    if (r->memory_bytes > 0)
        snprintf(text, sizeof text, "%s of %s", a,
                 stk_format_size((uint64_t)r->memory_bytes, b, sizeof b));
    else
        snprintf(text, sizeof text, "%s", a);
    put_bar(s, "memory",
            r->memory_bytes > 0 ? (double)t->memory_bytes / (double)r->memory_bytes : -1, text,
            out);
    if (t->gpus) {
        snprintf(text, sizeof text, "%zu, %s of %s", t->gpus,
                 stk_format_size((uint64_t)t->gpu_memory_bytes, a, sizeof a),
                 stk_format_size((uint64_t)t->gpu_total_bytes, b, sizeof b));
        put_bar(s, "GPU", t->gpu_util, text, out);
    } else if (r->gpus > 0) {
        snprintf(text, sizeof text, "%lld, whose use is unknown (no NVML)", (long long)r->gpus);
        put_bar(s, "GPU", -1, text, out);
    }
}

/* ---- tables ------------------------------------------------------------------------------- */

static const char *busy_text(double v, char *buf, size_t size)
{
    snprintf(buf, size, v >= 0 ? "%.2f" : "-", v);
    return buf;
}

/* "node1", or "node1 +2": of the third part of a heterogeneous job. */
static const char *host_cell(struct stk_buf *cell, const struct stk_watch_node *n)
{
    char text[sizeof n->host + 24];
    if (n->part < 0)
        return stk_word_cut(cell, n->host, sizeof n->host);
    snprintf(text, sizeof text, "%s +%lld", n->host, (long long)n->part);
    return stk_word_cut(cell, text, sizeof text);
}

static void put_nodes(const struct stk_watch_screen *s, struct stk_buf *out)
{
    struct stk_grid g;
    struct stk_buf name = STK_BUF_INIT;
    stk_grid_init(&g, "brrrrrr");
    stk_grid_row(&g, "node", "processes", "threads", "CPUs busy", "memory", "GPU busy",
                 "GPU memory");
    /* On a terminal, half of the lines are for processes. */
    size_t shown = s->rows && s->nnodes > s->rows / 2 ? s->rows / 2 : s->nnodes;
    for (size_t i = 0; i < shown; i++) {
        const struct stk_watch_node *n = &s->node[i];
        if (n->silent) {
            stk_grid_row(&g, host_cell(&name, n), "no answer", "-", "-", "-", "-", "-");
            continue;
        }
        struct stk_watch_screen one = *s;
        char p[24], t[24], c[24], m[32], u[24], gm[32];
        one.node = n;
        one.nnodes = 1;
        struct totals sum = add_up(&one);
        snprintf(p, sizeof p, "%u", n->processes);
        snprintf(t, sizeof t, "%u", n->threads);
        stk_grid_row(&g, host_cell(&name, n), p, t, busy_text(n->cpus, c, sizeof c),
                     stk_format_size(n->memory_bytes, m, sizeof m),
                     stk_word_share(sum.gpu_util, u, sizeof u),
                     sum.gpu_total_bytes > 0
                         ? stk_format_size((uint64_t)sum.gpu_memory_bytes, gm, sizeof gm)
                         : "-");
    }
    stk_grid_fit(&g, 0, s->columns);
    stk_grid_render(&g, 0, out);
    if (shown < s->nnodes)
        stk_buf_printf(out, "and %zu more nodes\n", s->nnodes - shown);
    stk_grid_release(&g);
    stk_buf_release(&name);
}

static size_t processes_of(const struct stk_watch_node *n)
{
    return n->silent ? 0 : n->nprocesses;
}

struct line {
    const struct stk_watch_node *node;
    const struct stk_watch_process *p;
};

static int by_cpu(const void *a, const void *b)
{
    const struct stk_watch_process *x = ((const struct line *)a)->p,
                                   *y = ((const struct line *)b)->p;
    return (x->cpus < y->cpus) - (x->cpus > y->cpus);
}

static int by_memory(const void *a, const void *b)
{
    const struct stk_watch_process *x = ((const struct line *)a)->p,
                                   *y = ((const struct line *)b)->p;
    return (x->memory_bytes < y->memory_bytes) - (x->memory_bytes > y->memory_bytes);
}

static void process_row(struct stk_grid *g, const struct line *l, bool gpus)
{
    struct stk_buf host = STK_BUF_INIT, step = STK_BUF_INIT, command = STK_BUF_INIT;
    const struct stk_watch_process *p = l->p;
    char pid[24], rank[24], threads[24], cpus[24], mem[32], gpu[32];
    snprintf(pid, sizeof pid, "%lld", (long long)p->pid);
    snprintf(rank, sizeof rank, p->rank >= 0 ? "%lld" : "-", (long long)p->rank);
    snprintf(threads, sizeof threads, "%u", p->threads);
    host_cell(&host, l->node);
    stk_word_cut(&step, p->step[0] ? p->step : "-", 12);
    if (p->hangs) {
        char text[sizeof p->command + 32];
        snprintf(text, sizeof text, "%s (hangs: not readable)", p->command);
        stk_word_cut(&command, text, sizeof text);
    } else
        stk_word_cut(&command, p->command, sizeof p->command);
    busy_text(p->cpus, cpus, sizeof cpus);
    stk_format_size(p->memory_bytes, mem, sizeof mem);
    snprintf(gpu, sizeof gpu, "-");
    if (p->gpu_memory_bytes >= 0)
        stk_format_size((uint64_t)p->gpu_memory_bytes, gpu, sizeof gpu);
    /* A grid without the column for GPUs ignores the last cell. */
    stk_grid_row(g, stk_buf_cstr(&host), pid, stk_buf_cstr(&step), rank, threads, cpus, mem,
                 gpus ? gpu : p->state, gpus ? p->state : stk_buf_cstr(&command),
                 stk_buf_cstr(&command));
    stk_buf_release(&host);
    stk_buf_release(&step);
    stk_buf_release(&command);
}

static void put_processes(const struct stk_watch_screen *s, size_t rows, struct stk_buf *out)
{
    size_t n = 0, k = 0;
    struct stk_grid g;
    for (size_t i = 0; i < s->nnodes; i++)
        n += processes_of(&s->node[i]);
    struct line *line = malloc((n ? n : 1) * sizeof *line);
    if (!line) {
        out->fail = true;
        return;
    }
    for (size_t i = 0; i < s->nnodes; i++)
        for (size_t j = 0; j < processes_of(&s->node[i]); j++)
            line[k++] = (struct line){&s->node[i], &s->node[i].process[j]};
    qsort(line, n, sizeof *line, s->sort == STK_WATCH_BY_MEMORY ? by_memory : by_cpu);
    bool gpus = false;
    for (size_t i = 0; i < n; i++)
        gpus = gpus || line[i].p->gpu_memory_bytes >= 0;
    stk_grid_init(&g, gpus ? "brlrrrrrle" : "brlrrrrle");
    stk_grid_row(&g, "node", "pid", "step", "rank", "threads", "CPUs", "memory",
                 gpus ? "GPU mem" : "", gpus ? "" : "command", "command");
    for (size_t i = 0; i < n && (!rows || i < rows); i++)
        process_row(&g, &line[i], gpus);
    stk_grid_fit(&g, 0, s->columns);
    stk_grid_render(&g, 0, out);
    stk_grid_release(&g);
    free(line);
}

void stk_watch_text(const struct stk_watch_screen *s, struct stk_buf *out)
{
    struct totals t = add_up(s);
    put_head(s, out);
    put_totals(s, &t, out);
    stk_buf_putc(out, '\n');
    put_nodes(s, out);
    stk_buf_putc(out, '\n');
    size_t used = (s->rows && s->nnodes > s->rows / 2 ? s->rows / 2 + 1 : s->nnodes) + 8;
    put_processes(s, !s->rows ? 0 : s->rows > used + 1 ? s->rows - used : 1, out);
}

void stk_watch_sentence(const struct stk_watch_screen *s, struct stk_buf *out)
{
    struct totals t = add_up(s);
    char a[48], b[48], c[48];
    size_t silent = 0;
    for (size_t i = 0; i < s->nnodes; i++)
        silent += s->node[i].silent;
    stk_buf_puts(out, stk_word_many(s->nnodes, "node", a, sizeof a));
    if (silent)
        stk_buf_printf(out, " (%zu without an answer)", silent);
    stk_buf_printf(out, ", %s, %s", stk_word_many(t.processes, "process", b, sizeof b),
                   stk_word_many(t.threads, "thread", c, sizeof c));
    if (t.cpus >= 0)
        stk_buf_printf(out, ", %.2f of %lld CPUs busy", t.cpus, (long long)s->job->alloc.cpus);
    stk_buf_printf(out, ", %s", stk_format_size(t.memory_bytes, c, sizeof c));
    if (s->job->alloc.memory_bytes > 0)
        stk_buf_printf(out, " of %s",
                       stk_format_size((uint64_t)s->job->alloc.memory_bytes, c, sizeof c));
    if (t.gpu_util >= 0)
        stk_buf_printf(out, ", GPUs %s busy", stk_word_share(t.gpu_util, a, sizeof a));
}

void stk_watch_json(const struct stk_watch_screen *s, struct stk_jw *w)
{
    struct totals t = add_up(s);
    stk_jw_put_str(w, "job", s->job->label);
    stk_jw_put_str(w, "state", stk_slurm_state_name(s->job->state));
    stk_jw_put_known_f64(w, "elapsed_s", s->job->elapsed_s);
    stk_jw_put_known_i64(w, "cpus_got", s->job->alloc.cpus);
    stk_jw_put_known_i64(w, "memory_got_bytes", s->job->alloc.memory_bytes);
    stk_jw_put_u64(w, "processes", t.processes);
    stk_jw_put_u64(w, "threads", t.threads);
    stk_jw_put_known_f64(w, "cpus_busy", t.cpus);
    stk_jw_put_u64(w, "memory_bytes", t.memory_bytes);
    stk_jw_put_known_f64(w, "gpu_util", t.gpu_util);
    put_array(w, "silent_nodes"); /* their entries under "nodes" are old */
    for (size_t i = 0; i < s->nnodes; i++)
        if (s->node[i].silent)
            stk_jw_str(w, s->node[i].host);
    stk_jw_close(w, ']');
    put_array(w, "nodes");
    for (size_t i = 0; i < s->nnodes; i++)
        stk_jfields_write(stk_watch_fields, &s->node[i], w);
    stk_jw_close(w, ']');
}
