/*
 * nodes.c - figures per node from the samples of a profile. Several tasks of a node sample their
 * own processes, at slightly different times: time is cut into bins, and a node's value in a bin is
 * the sum over its tasks of the task's mean there.
 */
#include "job/job.h"

#include <math.h>
#include <stdlib.h>

#define BINS 4096

struct bin {
    double cpus, memory, gpu_util, gpu_memory; /* gpu_util: sum over tasks */
    unsigned tasks, gpu_tasks;
};

/* Readings of one task in one bin. */
struct share {
    double cpus, memory, gpu_util, gpu_memory;
    unsigned n, gpus;
};

bool stk_job_nodes_fit(const struct stk_profile *p, const struct stk_slurm_job *job)
{
    uint64_t id = strtoull(p->job, NULL, 10);
    return id != 0 && (id == job->id || id == job->het_id);
}

static void add_reading(struct share *s, const struct stk_prof_reading *r)
{
    s->n++;
    s->cpus += r->cpu_cores > 0 ? r->cpu_cores : 0;
    s->memory += (double)r->resident_bytes;
    if (r->gpu_util < 0)
        return;
    s->gpus++;
    s->gpu_util += r->gpu_util;
    s->gpu_memory = fmax(s->gpu_memory, r->gpu_memory_bytes);
}

static void flush(struct bin *b, struct share *s)
{
    if (s->n) {
        b->tasks++;
        b->cpus += s->cpus / s->n;
        b->memory += s->memory / s->n;
    }
    if (s->gpus) {
        b->gpu_tasks++;
        b->gpu_util += s->gpu_util / s->gpus;
        b->gpu_memory = fmax(b->gpu_memory, s->gpu_memory); /* of the node's GPUs, seen by all */
    }
    *s = (struct share){0};
}

static size_t bin_of(const struct stk_profile *p, double at_s)
{
    double width = fmax(1, p->run_s / BINS), k = at_s / width;
    return k > 0 ? (size_t)fmin(k, BINS - 1) : 0;
}

/* Readings of a task are adjacent and in the order of time. */
static void fill(const struct stk_profile *p, uint32_t host, struct bin *bin)
{
    struct share s = {0};
    size_t at = 0;
    uint32_t task = UINT32_MAX;
    for (size_t i = 0; i < p->nreadings; i++) {
        const struct stk_prof_reading *r = &p->reading[i];
        size_t k = bin_of(p, r->at_s);
        if (r->host != host)
            continue;
        if (r->launcher != task || k != at)
            flush(&bin[at], &s);
        task = r->launcher;
        at = k;
        add_reading(&s, r);
    }
    flush(&bin[at], &s);
}

static void sum_up(const struct bin *bin, struct stk_job_node *n)
{
    size_t filled = 0, gpus = 0;
    double cpus = 0, util = 0;
    for (size_t i = 0; i < BINS; i++) {
        const struct bin *b = &bin[i];
        if (b->tasks) {
            filled++;
            cpus += b->cpus;
            n->peak_bytes = fmax(n->peak_bytes, b->memory);
        }
        if (b->gpu_tasks) {
            gpus++;
            util += b->gpu_util / b->gpu_tasks;
            n->gpu_memory_bytes = fmax(n->gpu_memory_bytes, b->gpu_memory);
        }
    }
    n->cpus_busy = filled ? cpus / (double)filled : -1;
    n->gpu_util = gpus ? util / (double)gpus : -1;
}

int stk_job_nodes(const struct stk_profile *p, struct stk_job_nodes *out, struct stk_err *err)
{
    struct bin *bin = malloc(BINS * sizeof *bin);
    struct stk_job_node *node = calloc(p->nhosts ? p->nhosts : 1, sizeof *node);
    if (!bin || !node) {
        free(bin);
        free(node);
        return stk_err_nomem(err, p->nhosts * sizeof *node);
    }
    for (size_t h = 0; h < p->nhosts; h++) {
        const struct stk_prof_host *from = &p->host[h];
        node[h] = (struct stk_job_node){.host = from->name,
                                        .gpu_kind = from->gpu_kind,
                                        .cores = from->cores,
                                        .gpus = from->gpus,
                                        .peak_bytes = -1,
                                        .gpu_memory_bytes = -1};
        memset(bin, 0, BINS * sizeof *bin);
        fill(p, (uint32_t)h, bin);
        sum_up(bin, &node[h]);
    }
    free(bin);
    *out = (struct stk_job_nodes){.path = p->path, .node = node, .n = p->nhosts};
    return 0;
}

void stk_job_nodes_release(struct stk_job_nodes *nodes)
{
    free(nodes->node);
    *nodes = (struct stk_job_nodes){0};
}
