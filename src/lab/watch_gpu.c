/*
 * watch_gpu.c - every GPU of the node that the job may see, and which process has how much of its
 * memory. Slurm names the job's GPUs in the environment; where it does not hide the others, they
 * are not the job's.
 */
#include <stdlib.h>

#include "lab/nvml.h"
#include "lab/watch.h"

#define PROCESSES_MAX 1024u

struct stk_watch_nvml {
    struct stk_nvml api;
    struct stk_nvml_process list[PROCESSES_MAX];
};

struct stk_watch_nvml *stk_watch_nvml_open(void)
{
    struct stk_watch_nvml *g = calloc(1, sizeof *g);
    if (g && stk_nvml_open(&g->api))
        return g;
    free(g);
    return NULL;
}

void stk_watch_nvml_close(struct stk_watch_nvml *g)
{
    if (g)
        stk_nvml_close(&g->api);
    free(g);
}

static void add_process(struct stk_watch_node *out, const struct stk_nvml_process *p)
{
    for (size_t i = 0; i < out->nprocesses; i++) {
        struct stk_watch_process *q = &out->process[i];
        if (q->pid != (int64_t)p->pid || p->used > INT64_MAX / 2)
            continue;
        q->gpu_memory_bytes =
            (q->gpu_memory_bytes > 0 ? q->gpu_memory_bytes : 0) + (int64_t)p->used;
    }
}

static int by_index(const void *a, const void *b)
{
    unsigned x = ((const struct stk_nvml_gpu *)a)->index,
             y = ((const struct stk_nvml_gpu *)b)->index;
    return (x > y) - (x < y);
}

static void sample_one(struct stk_watch_nvml *g, const struct stk_nvml_gpu *gpu,
                       struct stk_watch_node *out)
{
    struct stk_watch_gpu *o = &out->gpu[out->ngpus++];
    struct stk_nvml_use u;
    struct stk_nvml_memory m;
    unsigned n = PROCESSES_MAX;
    *o = (struct stk_watch_gpu){
        .index = gpu->index, .util = -1, .memory_bytes = -1, .total_bytes = -1};
    stk_nvml_name(&g->api, gpu->device, o->kind, sizeof o->kind);
    if (g->api.use(gpu->device, &u) == 0 && u.gpu <= 100)
        o->util = u.gpu / 100.0;
    if (g->api.memory(gpu->device, &m) == 0 && m.total <= INT64_MAX && m.used <= m.total) {
        o->memory_bytes = (int64_t)m.used;
        o->total_bytes = (int64_t)m.total;
    }
    if (g->api.processes && g->api.processes(gpu->device, &n, g->list) == 0)
        for (unsigned k = 0; k < n && k < PROCESSES_MAX; k++)
            add_process(out, &g->list[k]);
}

void stk_watch_nvml_sample(struct stk_watch_nvml *g, struct stk_watch_node *out)
{
    struct stk_nvml_gpu gpu[STK_NVML_GPUS];
    _Static_assert(STK_NVML_GPUS <= STK_WATCH_GPUS, "room for all of them");
    unsigned n = g ? stk_nvml_visible(&g->api, gpu) : 0;
    out->ngpus = 0;
    if (n)
        qsort(gpu, n, sizeof *gpu, by_index);
    for (unsigned i = 0; i < n; i++)
        if (i == 0 || gpu[i].device != gpu[i - 1].device)
            sample_one(g, &gpu[i], out);
}
