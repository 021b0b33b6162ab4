/* watch.c - a running job as a result that is not complete yet: what it has and uses now, node by
 * node, and its busiest processes. */
#include "report/watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "report/json_priv.h"
#include "result/blocks.h"
#include "result/screen.h"

/* ---- sums ----------------------------------------------------------------------------------- */

struct totals {
    uint64_t processes, threads, memory_bytes;
    double cpus, gpu_util; /* NaN: unknown */
    int64_t gpu_memory_bytes, gpu_total_bytes;
    size_t gpus, gpus_known, silent;
};

static void add_gpu(struct totals *t, const struct stk_gpu *gpu)
{
    t->gpus++;
    if (gpu->util >= 0) {
        t->gpu_util = ((isnan(t->gpu_util) ? 0 : t->gpu_util * (double)t->gpus_known) + gpu->util) /
                      (double)(t->gpus_known + 1);
        t->gpus_known++;
    }
    if (gpu->total_bytes > 0) {
        t->gpu_memory_bytes += gpu->memory_bytes;
        t->gpu_total_bytes += gpu->total_bytes;
    }
}

/* Numbers of a silent node are old. */
static struct totals add_up(const struct stk_watch_node *node, size_t n)
{
    struct totals t = {.cpus = NAN, .gpu_util = NAN};
    for (; n; n--, node++) {
        t.silent += node->silent;
        if (node->silent)
            continue;
        t.processes += node->processes;
        t.threads += node->threads;
        t.memory_bytes += node->memory_bytes;
        if (node->cpus >= 0)
            t.cpus = (isnan(t.cpus) ? 0 : t.cpus) + node->cpus;
        for (size_t k = 0; k < node->ngpus; k++)
            add_gpu(&t, &node->gpu[k]);
    }
    return t;
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* "node1", or "node1 +2": of the third part of a heterogeneous job. */
static void put_host(const struct stk_watch_node *n, struct stk_jw *w)
{
    char text[sizeof n->host + 24];
    snprintf(text, sizeof text, n->part < 0 ? "%s" : "%s +%lld", n->host, (long long)n->part);
    stk_jw_str(w, text);
}

static void node_name(const void *base, struct stk_jw *w)
{
    put_host(base, w);
}

#define OF_NODE(name, expression) STK_NUMBER_OF(name, struct stk_watch_node, expression)
#define IF_HEARD(v)               (r->silent ? NAN : (double)(v))
OF_NODE(node_processes, IF_HEARD(r->processes))
OF_NODE(node_threads, IF_HEARD(r->threads))
OF_NODE(node_cpus, IF_HEARD(r->cpus >= 0 ? r->cpus : NAN))
OF_NODE(node_memory, IF_HEARD(r->memory_bytes))
OF_NODE(node_gpu_util, add_up(r, 1).gpu_util)
OF_NODE(node_gpu_memory, add_up(r, 1).gpus ? (double)add_up(r, 1).gpu_memory_bytes : NAN)

static const struct stk_result_field node_fields[] = {
    {"node", "node", STK_U_TEXT, .put = node_name, .flags = STK_F_CUT},
    {"processes", "processes", STK_U_COUNT, .number = node_processes, .none = "no answer"},
    {"threads", "threads", STK_U_COUNT, .number = node_threads},
    {"cpus", "CPUs busy", STK_U_PLAIN, .number = node_cpus},
    {"memory_bytes", "memory", STK_U_BYTES, .number = node_memory},
    {"gpu_util", "GPU busy", STK_U_SHARE, .number = node_gpu_util, .flags = STK_F_IF_SET},
    {"gpu_memory_bytes", "GPU memory", STK_U_BYTES, .number = node_gpu_memory,
     .flags = STK_F_IF_SET},
    {NULL}};

/* ---- processes ------------------------------------------------------------------------------ */

struct line {
    const struct stk_watch_node *node;
    const struct stk_watch_process *p;
};

static void process_node(const void *base, struct stk_jw *w)
{
    put_host(((const struct line *)base)->node, w);
}

static void process_pid(const void *base, struct stk_jw *w)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)((const struct line *)base)->p->pid);
    stk_jw_str(w, text);
}

static void process_command(const void *base, struct stk_jw *w)
{
    const struct stk_watch_process *p = ((const struct line *)base)->p;
    char text[sizeof p->command + 32];
    snprintf(text, sizeof text, "%s%s", p->command, p->hangs ? " (hangs: not readable)" : "");
    stk_jw_str(w, text);
}

#define OF_PROCESS(name, expression) STK_NUMBER_OF(name, struct line, expression)
OF_PROCESS(process_rank, (double)r->p->rank)
OF_PROCESS(process_threads, r->p->threads)
OF_PROCESS(process_cpus, r->p->cpus)
OF_PROCESS(process_memory, (double)r->p->memory_bytes)
OF_PROCESS(process_gpu_memory, (double)r->p->gpu_memory_bytes)
STK_TEXT_OF(process_step, struct line, r->p->step[0] ? r->p->step : NULL)
STK_TEXT_OF(process_state, struct line, r->p->state)

static const struct stk_result_field process_fields[] = {
    {"node", "node", STK_U_TEXT, .put = process_node, .flags = STK_F_CUT},
    {"pid", "pid", STK_U_TEXT, .put = process_pid},
    {"step", "step", STK_U_TEXT, .put = process_step},
    {"rank", "rank", STK_U_COUNT, .number = process_rank, .flags = STK_F_KNOWN},
    {"threads", "threads", STK_U_COUNT, .number = process_threads},
    {"cpus", "CPUs", STK_U_PLAIN, .number = process_cpus, .flags = STK_F_KNOWN},
    {"memory_bytes", "memory", STK_U_BYTES, .number = process_memory},
    {"gpu_memory_bytes", "GPU mem", STK_U_BYTES, .number = process_gpu_memory,
     .flags = STK_F_KNOWN | STK_F_IF_SET},
    {"state", "", STK_U_TEXT, .put = process_state},
    {"command", "command", STK_U_TEXT, .put = process_command, .flags = STK_F_CUT_END},
    {NULL}};

static int by_cpu(const void *a, const void *b)
{
    double x = ((const struct line *)a)->p->cpus, y = ((const struct line *)b)->p->cpus;
    return (x < y) - (x > y);
}

static int by_memory(const void *a, const void *b)
{
    uint64_t x = ((const struct line *)a)->p->memory_bytes,
             y = ((const struct line *)b)->p->memory_bytes;
    return (x < y) - (x > y);
}

static size_t processes_of(const struct stk_watch_node *n)
{
    return n->silent ? 0 : n->nprocesses;
}

static void put_processes(const void *base, struct stk_jw *w)
{
    const struct stk_watch_screen *s = base;
    size_t n = 0, k = 0;
    for (size_t i = 0; i < s->nnodes; i++)
        n += processes_of(&s->node[i]);
    struct line *line = malloc((n + 1) * sizeof *line);
    for (size_t i = 0; line && i < s->nnodes; i++)
        for (size_t j = 0; j < processes_of(&s->node[i]); j++)
            line[k++] = (struct line){&s->node[i], &s->node[i].process[j]};
    if (line)
        qsort(line, k, sizeof *line, s->sort == STK_WATCH_BY_MEMORY ? by_memory : by_cpu);
    else
        w->out->fail = true;
    stk_rows_put(process_fields, line, k, sizeof *line, w);
    free(line);
}

/* ---- the job -------------------------------------------------------------------------------- */

#define NUMBER(name, expression) STK_NUMBER_OF(name, struct stk_watch_screen, expression)
#define TEXT(name, expression)   STK_TEXT_OF(name, struct stk_watch_screen, expression)
#define SUMS                     add_up(r->node, r->nnodes)

static double part(double of, double all)
{
    return all > 0 ? of / all : NAN;
}

static double known(int64_t v)
{
    return v > 0 && v != INT64_MAX ? (double)v : NAN;
}

TEXT(job_label, r->job->label)
TEXT(job_name, r->job->name)
TEXT(job_state, stk_slurm_state_name(r->job->state))
TEXT(job_nodelist, r->job->nodelist)
TEXT(gpu_note, !SUMS.gpus && r->job->alloc.gpus > 0 ? "their use is unknown (no NVML)" : NULL)
NUMBER(elapsed, r->job->elapsed_s)
NUMBER(limit, known(r->job->limit_s))
NUMBER(time_share, part(r->job->elapsed_s, known(r->job->limit_s)))
NUMBER(nodes, (double)r->nnodes)
NUMBER(silent, (double)SUMS.silent)
NUMBER(processes, (double)SUMS.processes)
NUMBER(threads, (double)SUMS.threads)
NUMBER(cpus_busy, SUMS.cpus)
NUMBER(cpus_got, (double)r->job->alloc.cpus)
NUMBER(cpu_share, part(SUMS.cpus, (double)r->job->alloc.cpus))
NUMBER(memory, (double)SUMS.memory_bytes)
NUMBER(memory_got, (double)r->job->alloc.memory_bytes)
NUMBER(memory_share, part((double)SUMS.memory_bytes, (double)r->job->alloc.memory_bytes))
NUMBER(gpus, (double)SUMS.gpus)
NUMBER(gpus_got, (double)r->job->alloc.gpus)
NUMBER(gpu_util, SUMS.gpu_util)
NUMBER(gpu_memory, SUMS.gpus ? (double)SUMS.gpu_memory_bytes : NAN)
NUMBER(gpu_total, SUMS.gpus ? (double)SUMS.gpu_total_bytes : NAN)

/* Their entries under "nodes" are old. */
static void put_silent(const void *base, struct stk_jw *w)
{
    const struct stk_watch_screen *s = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nnodes; i++)
        if (s->node[i].silent)
            stk_jw_str(w, s->node[i].host);
    stk_jw_close(w, ']');
}

static void put_nodes(const void *base, struct stk_jw *w)
{
    const struct stk_watch_screen *s = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nnodes; i++)
        stk_jfields_write(stk_watch_fields, &s->node[i], w);
    stk_jw_close(w, ']');
}

#define BAR(key, share) {key, NULL, STK_U_SHARE, .number = share, .joins = "", .flags = STK_F_BAR}

static const struct stk_result_field fields[] = {
    {"job", "job", STK_U_TEXT, .put = job_label, .say = "job %", .flags = STK_F_HEAD},
    {"name", "name", STK_U_TEXT, .put = job_name, .flags = STK_F_HEAD | STK_F_IF_SET},
    {"state", "state", STK_U_TEXT, .put = job_state, .flags = STK_F_HEAD},
    {"nodelist", "on", STK_U_TEXT, .put = job_nodelist, .flags = STK_F_HEAD | STK_F_IF_SET},
    {"nodes_total", "runs on", STK_U_COUNT, .number = nodes, .say = "% node(s)"},
    {"nodes_silent", "nodes without an answer", STK_U_COUNT, .number = silent,
     .joins = " (% without an answer)", .flags = STK_F_IF_SET},
    {"processes", "processes", STK_U_COUNT, .number = processes, .joins = ", % process(es)"},
    {"threads", "threads", STK_U_COUNT, .number = threads, .joins = ", % thread(s)"},
    {"elapsed_s", "time", STK_U_SECONDS, .number = elapsed, .flags = STK_F_KNOWN},
    {"limit_s", "time limit", STK_U_SECONDS, .number = limit, .joins = " of %"},
    BAR("time_share", time_share),
    {"cpus_busy", "CPU", STK_U_PLAIN, .number = cpus_busy},
    {"cpus_got", "CPUs of the job", STK_U_COUNT, .number = cpus_got, .joins = " of % CPUs busy",
     .flags = STK_F_KNOWN},
    BAR("cpu_share", cpu_share),
    {"memory_bytes", "memory", STK_U_BYTES, .number = memory},
    {"memory_got_bytes", "memory of the job", STK_U_BYTES, .number = memory_got, .joins = " of %",
     .flags = STK_F_KNOWN},
    BAR("memory_share", memory_share),
    {"gpus", "GPU", STK_U_COUNT, .number = gpus, .flags = STK_F_IF_SET},
    {"gpu_memory_bytes", "GPU memory", STK_U_BYTES, .number = gpu_memory, .joins = ", %"},
    {"gpu_total_bytes", "GPU memory in all", STK_U_BYTES, .number = gpu_total, .joins = " of %"},
    BAR("gpu_util", gpu_util),
    {"gpus_got", NULL, STK_U_COUNT, .number = gpus_got, .flags = STK_F_KNOWN},
    {"gpu_note", "GPU", STK_U_TEXT, .put = gpu_note},
    {"silent_nodes", NULL, STK_U_LIST, .put = put_silent},
    {"nodes", NULL, STK_U_ANY, .put = put_nodes, .meaning = "the last sample of each node"},
    {"by_node", "nodes", STK_U_TABLE, STK_FROM_ARRAY(struct stk_watch_screen, node, nnodes),
     .of = node_fields, .by = ""},
    {"by_process", "processes", STK_U_TABLE, .put = put_processes, .of = process_fields, .by = "",
     .meaning = "the busiest first"},
    {NULL}};

static bool takes(const struct stk_jval *result)
{
    return stk_json_get(result, "job") != NULL;
}

static void verdict(const struct stk_jval *result, struct stk_buf *out)
{
    stk_buf_printf(out, "Job %.60s: %.60s", stk_pg_text(result, "job", "?"),
                   stk_pg_text(result, "state", "unknown"));
}

const struct stk_result_kind stk_watch_kind = {.command = "watch",
                                               .doing = "Watching",
                                               .subject = SIZE_MAX,
                                               .fields = fields,
                                               .takes = takes,
                                               .verdict = verdict,
                                               .fits = true};

static void draw(const struct stk_watch_screen *s, struct stk_screen *screen)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result;
    if (stk_result_fill(&stk_watch_kind, s, &arena, &result, NULL) != 0)
        screen->out->fail = true;
    else if (screen->line)
        stk_screen_fields(fields, result, screen);
    else
        stk_screen_draw(&stk_watch_kind, result, screen);
    stk_arena_release(&arena);
}

void stk_watch_text(const struct stk_watch_screen *s, struct stk_buf *out)
{
    draw(s, &(struct stk_screen){
                .columns = s->columns, .rows = s->rows, .utf8 = s->utf8, .out = out});
}

void stk_watch_sentence(const struct stk_watch_screen *s, struct stk_buf *out)
{
    draw(s, &(struct stk_screen){.line = true, .out = out});
}
