/* gpu.c - loads NVML, finds the GPUs that CUDA_VISIBLE_DEVICES lets a program see, and asks how
 * busy they are. */
#include "host/gpu.h"
#include "base/dir.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/root.h"

#define PROCESSES_MAX 1024u

/* ---- CUDA_VISIBLE_DEVICES ------------------------------------------------------------------ */

const char *stk_gpus_list(void)
{
    return getenv("CUDA_VISIBLE_DEVICES");
}

bool stk_gpus_next(const char **list, struct stk_gpu_word *word)
{
    const char *p = *list + strspn(*list, " ");
    size_t n = strcspn(p, ","), digits = strspn(p, "0123456789");
    *list = p + n + (p[n] == ',');
    while (n && p[n - 1] == ' ')
        n--;
    *word = (struct stk_gpu_word){p, n, UINT_MAX};
    if (n > 4 && (memcmp(p, "GPU-", 4) == 0 || memcmp(p, "MIG-", 4) == 0))
        return true;
    if (n && digits == n && n < 9) {
        word->index = (unsigned)strtoul(p, NULL, 10);
        return true;
    }
    *list = p + strlen(p);
    return false;
}

/* ---- without NVML ------------------------------------------------------------------------- */

/* "Model: \t NVIDIA A100-SXM4-40GB" */
static void read_model(const char *name, char *kind, size_t size)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.255s/information", name);
    FILE *f = stk_host_fopen(path);
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "Model:", 6) != 0)
            continue;
        const char *p = line + 6 + strspn(line + 6, " \t");
        snprintf(kind, size, "%.*s", (int)strcspn(p, "\n"), p);
    }
    if (f)
        fclose(f);
}

/* The number of `total` GPUs that CUDA_VISIBLE_DEVICES makes visible, without asking what they
 * are. */
static unsigned count_visible(unsigned total)
{
    const char *list = stk_gpus_list();
    struct stk_gpu_word w;
    unsigned n = 0;
    if (!list || !total)
        return total;
    while (n < STK_GPUS_MAX && stk_gpus_next(&list, &w) && (w.index == UINT_MAX || w.index < total))
        n++;
    return n;
}

#define GPUS "/proc/driver/nvidia/gpus"

unsigned stk_gpus_glance(char *kind, size_t size)
{
    unsigned total = 0;
    snprintf(kind, size, "%s", "");
    struct stk_dir d;
    int rc = stk_dir_take(&d, stk_host_open(GPUS, O_RDONLY | O_DIRECTORY), GPUS, NULL);
    for (const struct dirent *e; (e = stk_dir_next(&d));)
        if (!total++)
            read_model(e->d_name, kind, size);
    (void)stk_dir_end(&d, rc, NULL); /* without the driver there is no such folder */
    unsigned n = count_visible(total);
    if (!n)
        kind[0] = '\0';
    return n;
}

/* ---- NVML --------------------------------------------------------------------------------- */

/* The few declarations needed; the ABI has been stable since 2013. */
typedef struct nvml_device *nvml_device;
struct nvml_use {
    unsigned gpu, memory; /* percent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};

/* Functions return 0 on success. */
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    int (*use)(nvml_device, struct nvml_use *);
    int (*memory)(nvml_device, struct nvml_memory *);
    /* NULL if the driver has none. */
    int (*by_uuid)(const char *, nvml_device *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*name)(nvml_device, char *, unsigned);
    int (*parent)(nvml_device, nvml_device *); /* of a MIG device */
    int (*processes)(nvml_device, unsigned *, struct stk_gpu_process *);
};

struct visible {
    nvml_device device;
    unsigned index;
    char kind[96];
};

struct stk_gpus {
    struct nvml api;
    struct visible gpu[STK_GPUS_MAX];
    unsigned n;
    struct stk_gpu_process process[PROCESSES_MAX];
};

static bool find(void *library, const char *name, void *to)
{
    void *p = dlsym(library, name);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static bool load(struct nvml *a)
{
    void *l = a->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!l)
        return false;
    (void)find(l, "nvmlDeviceGetHandleByUUID", &a->by_uuid);
    (void)find(l, "nvmlDeviceGetUUID", &a->uuid);
    (void)find(l, "nvmlDeviceGetName", &a->name);
    (void)find(l, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", &a->parent);
    (void)(find(l, "nvmlDeviceGetComputeRunningProcesses_v3", &a->processes) ||
           find(l, "nvmlDeviceGetComputeRunningProcesses_v2", &a->processes));
    return find(l, "nvmlInit_v2", &a->init) && find(l, "nvmlShutdown", &a->shutdown) &&
           find(l, "nvmlDeviceGetCount_v2", &a->count) &&
           find(l, "nvmlDeviceGetHandleByIndex_v2", &a->by_index) &&
           find(l, "nvmlDeviceGetUtilizationRates", &a->use) &&
           find(l, "nvmlDeviceGetMemoryInfo", &a->memory);
}

/* ---- visible GPUs ---------------------------------------------------------------------------- */

static unsigned index_of(const struct nvml *a, nvml_device device, unsigned total)
{
    nvml_device gpu, d;
    gpu = a->parent && a->parent(device, &d) == 0 ? d : device;
    for (unsigned i = 0; i < total; i++)
        if (a->by_index(i, &d) == 0 && d == gpu)
            return i;
    return UINT_MAX;
}

/* A UUID may be abbreviated to a unique prefix. */
static bool by_uuid(const struct nvml *a, const char *word, unsigned total, struct visible *out)
{
    char uuid[96];
    if (a->by_uuid && a->by_uuid(word, &out->device) == 0) {
        out->index = index_of(a, out->device, total);
        return true;
    }
    for (unsigned i = 0; a->uuid && i < total; i++)
        if (a->by_index(i, &out->device) == 0 && a->uuid(out->device, uuid, sizeof uuid) == 0 &&
            strncmp(uuid, word, strlen(word)) == 0) {
            out->index = i;
            return true;
        }
    return false;
}

static bool by_word(const struct nvml *a, const struct stk_gpu_word *w, unsigned total,
                    struct visible *out)
{
    char word[96];
    out->index = w->index;
    if (w->index != UINT_MAX)
        return w->index < total && a->by_index(w->index, &out->device) == 0;
    if (w->n >= sizeof word)
        return false;
    memcpy(word, w->p, w->n);
    word[w->n] = '\0';
    return by_uuid(a, word, total, out);
}

static void read_kind(const struct nvml *a, struct visible *v)
{
    if (!a->name || a->name(v->device, v->kind, sizeof v->kind) != 0)
        v->kind[0] = '\0';
    v->kind[sizeof v->kind - 1] = '\0';
}

static void add(struct stk_gpus *g, const struct visible *v)
{
    for (unsigned i = 0; i < g->n; i++)
        if (g->gpu[i].device == v->device)
            return;
    g->gpu[g->n] = *v;
    read_kind(&g->api, &g->gpu[g->n++]);
}

/* Like CUDA: devices after the first missing one are invisible. */
static void find_visible(struct stk_gpus *g)
{
    const struct nvml *a = &g->api;
    const char *list = stk_gpus_list();
    struct stk_gpu_word w;
    struct visible v = {0};
    unsigned total = 0;
    if (a->count(&total) != 0)
        return;
    for (unsigned i = 0; !list && i < total && g->n < STK_GPUS_MAX; i++) {
        v.index = i;
        if (a->by_index(i, &v.device) == 0)
            add(g, &v);
    }
    while (list && g->n < STK_GPUS_MAX && stk_gpus_next(&list, &w) && by_word(a, &w, total, &v))
        add(g, &v);
}

struct stk_gpus *stk_gpus_open(void)
{
    struct stk_gpus *g = calloc(1, sizeof *g);
    if (g && load(&g->api) && g->api.init() == 0) {
        find_visible(g);
        if (g->n)
            return g;
        g->api.shutdown();
    }
    if (g && g->api.library)
        dlclose(g->api.library);
    free(g);
    return NULL;
}

void stk_gpus_close(struct stk_gpus *g)
{
    if (!g)
        return;
    g->api.shutdown();
    dlclose(g->api.library);
    free(g);
}

/* ---- utilisation ------------------------------------------------------------------------- */

unsigned stk_gpus_count(const struct stk_gpus *g)
{
    return g ? g->n : 0;
}

const char *stk_gpus_kind(const struct stk_gpus *g)
{
    return g ? g->gpu[0].kind : "";
}

void stk_gpus_read(const struct stk_gpus *g, unsigned i, struct stk_gpu *out)
{
    const struct visible *v = &g->gpu[i];
    struct nvml_use u;
    struct nvml_memory m;
    *out = (struct stk_gpu){.index = v->index, .util = -1, .memory_bytes = -1, .total_bytes = -1};
    memcpy(out->kind, v->kind, sizeof out->kind);
    if (g->api.use(v->device, &u) == 0 && u.gpu <= 100)
        out->util = u.gpu / 100.0;
    if (g->api.memory(v->device, &m) == 0 && m.total <= INT64_MAX && m.used <= m.total) {
        out->memory_bytes = (int64_t)m.used;
        out->total_bytes = (int64_t)m.total;
    }
}

unsigned stk_gpus_processes(struct stk_gpus *g, unsigned i, const struct stk_gpu_process **list)
{
    unsigned n = PROCESSES_MAX;
    *list = g->process;
    if (!g->api.processes || g->api.processes(g->gpu[i].device, &n, g->process) != 0)
        return 0;
    return n < PROCESSES_MAX ? n : PROCESSES_MAX;
}
