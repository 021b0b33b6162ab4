/*
 * watch_gpu.c - every GPU of the node that we may see, and which process has how much of its
 * memory, by NVML, which is loaded at run time: no driver, no GPU, no error.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "lab/watch.h"

#define PROCESSES_MAX 1024u

/* The few of NVML's declarations that are needed. */
typedef struct nvml_device *nvml_device;
struct nvml_use {
    unsigned gpu, memory; /* percent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};
struct nvml_process { /* as of _v2 and _v3 */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

struct stk_watch_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    int (*name)(nvml_device, char *, unsigned);
    int (*use)(nvml_device, struct nvml_use *);
    int (*memory)(nvml_device, struct nvml_memory *);
    int (*processes)(nvml_device, unsigned *, struct nvml_process *);
    struct nvml_process list[PROCESSES_MAX];
};

static bool find(void *library, const char *name, void *to)
{
    void *p = dlsym(library, name);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static bool load(struct stk_watch_nvml *g)
{
    void *l = g->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!l)
        return false;
    (void)find(l, "nvmlDeviceGetName", &g->name);
    (void)(find(l, "nvmlDeviceGetComputeRunningProcesses_v3", &g->processes) ||
           find(l, "nvmlDeviceGetComputeRunningProcesses_v2", &g->processes));
    return find(l, "nvmlInit_v2", &g->init) && find(l, "nvmlShutdown", &g->shutdown) &&
           find(l, "nvmlDeviceGetCount_v2", &g->count) &&
           find(l, "nvmlDeviceGetHandleByIndex_v2", &g->by_index) &&
           find(l, "nvmlDeviceGetUtilizationRates", &g->use) &&
           find(l, "nvmlDeviceGetMemoryInfo", &g->memory);
}

struct stk_watch_nvml *stk_watch_nvml_open(void)
{
    struct stk_watch_nvml *g = calloc(1, sizeof *g);
    if (g && load(g) && g->init() == 0)
        return g;
    if (g && g->library)
        dlclose(g->library);
    free(g);
    return NULL;
}

void stk_watch_nvml_close(struct stk_watch_nvml *g)
{
    if (!g)
        return;
    g->shutdown();
    dlclose(g->library);
    free(g);
}

/* Slurm names the job's GPUs in the environment; where it does not hide the others, they are not
 * the job's. Names other than numbers: all that can be seen. */
static bool visible(unsigned index)
{
    const char *p = getenv("CUDA_VISIBLE_DEVICES");
    if (!p || !*p || strspn(p, "0123456789,") != strlen(p))
        return true;
    for (char *end; *p; p = *end == ',' ? end + 1 : end)
        if (strtoul(p, &end, 10) == index && end != p)
            return true;
        else if (end == p)
            return false;
    return false;
}

static void add_process(struct stk_watch_node *out, const struct nvml_process *p)
{
    for (size_t i = 0; i < out->nprocesses; i++) {
        struct stk_watch_process *q = &out->process[i];
        if (q->pid != (int64_t)p->pid || p->used > INT64_MAX / 2)
            continue;
        q->gpu_memory_bytes =
            (q->gpu_memory_bytes > 0 ? q->gpu_memory_bytes : 0) + (int64_t)p->used;
    }
}

void stk_watch_nvml_sample(struct stk_watch_nvml *g, struct stk_watch_node *out)
{
    unsigned total = 0;
    out->ngpus = 0;
    if (!g || g->count(&total) != 0)
        return;
    for (unsigned i = 0; i < total && out->ngpus < STK_WATCH_GPUS; i++) {
        struct stk_watch_gpu *o = &out->gpu[out->ngpus];
        struct nvml_use u;
        struct nvml_memory m;
        nvml_device d;
        unsigned n = PROCESSES_MAX;
        if (!visible(i) || g->by_index(i, &d) != 0)
            continue;
        *o = (struct stk_watch_gpu){.index = i, .util = -1, .memory_bytes = -1, .total_bytes = -1};
        if (!g->name || g->name(d, o->kind, sizeof o->kind) != 0)
            o->kind[0] = '\0';
        o->kind[sizeof o->kind - 1] = '\0';
        if (g->use(d, &u) == 0 && u.gpu <= 100)
            o->util = u.gpu / 100.0;
        if (g->memory(d, &m) == 0 && m.total <= INT64_MAX && m.used <= m.total) {
            o->memory_bytes = (int64_t)m.used;
            o->total_bytes = (int64_t)m.total;
        }
        if (g->processes && g->processes(d, &n, g->list) == 0)
            for (unsigned k = 0; k < n && k < PROCESSES_MAX; k++)
                add_process(out, &g->list[k]);
        out->ngpus++;
    }
}
