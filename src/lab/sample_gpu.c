/*
 * sample_gpu.c - how busy the GPUs are that the program may use, by NVML, which is loaded at run
 * time: no driver, no GPU, no error. Which ones: CUDA_VISIBLE_DEVICES, read as CUDA reads it.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/sample.h"

#define GPUS_MAX 64u

/* The few of NVML's declarations that are needed; its ABI is stable since 2013. */
typedef struct nvml_device *nvml_device;
struct nvml_use {
    unsigned gpu, memory; /* percent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, nvml_device *);
    int (*by_uuid)(const char *, nvml_device *);
    int (*uuid)(nvml_device, char *, unsigned);
    int (*name)(nvml_device, char *, unsigned);
    int (*use)(nvml_device, struct nvml_use *);
    int (*memory)(nvml_device, struct nvml_memory *);
};

struct stk_gpus {
    void *library;
    struct nvml api;
    nvml_device device[GPUS_MAX];
    unsigned n;
    char kind[96];
};

static bool find(void *library, const char *name, void *to)
{
    void *p = dlsym(library, name);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static bool load(struct stk_gpus *g)
{
    struct nvml *a = &g->api;
    void *l = g->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!l)
        return false;
    (void)find(l, "nvmlDeviceGetHandleByUUID", &a->by_uuid);
    (void)find(l, "nvmlDeviceGetUUID", &a->uuid);
    (void)find(l, "nvmlDeviceGetName", &a->name);
    return find(l, "nvmlInit_v2", &a->init) && find(l, "nvmlShutdown", &a->shutdown) &&
           find(l, "nvmlDeviceGetCount_v2", &a->count) &&
           find(l, "nvmlDeviceGetHandleByIndex_v2", &a->by_index) &&
           find(l, "nvmlDeviceGetUtilizationRates", &a->use) &&
           find(l, "nvmlDeviceGetMemoryInfo", &a->memory);
}

/* A UUID may be cut short, as long as one device begins so. */
static bool by_uuid(const struct nvml *a, const char *word, unsigned total, nvml_device *out)
{
    char uuid[96];
    if (a->by_uuid && a->by_uuid(word, out) == 0)
        return true;
    for (unsigned i = 0; a->uuid && i < total; i++)
        if (a->by_index(i, out) == 0 && a->uuid(*out, uuid, sizeof uuid) == 0 &&
            strncmp(uuid, word, strlen(word)) == 0)
            return true;
    return false;
}

static bool by_word(const struct nvml *a, const char *word, unsigned total, nvml_device *out)
{
    char *end;
    if (strncmp(word, "GPU-", 4) == 0 || strncmp(word, "MIG-", 4) == 0)
        return by_uuid(a, word, total, out);
    unsigned long i = strtoul(word, &end, 10);
    return isdigit((unsigned char)*word) && !*end && i < total &&
           a->by_index((unsigned)i, out) == 0;
}

/* As CUDA does it: unset means all; devices behind the first that is not there are not seen. */
static void choose(struct stk_gpus *g, unsigned total)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    if (!text) {
        for (unsigned i = 0; i < total && g->n < GPUS_MAX; i++)
            if (g->api.by_index(i, &g->device[g->n]) == 0)
                g->n++;
        return;
    }
    char list[4096], *rest = list;
    snprintf(list, sizeof list, "%s", text);
    for (char *word; g->n < GPUS_MAX && (word = strsep(&rest, ","));) {
        word += strspn(word, " ");
        if (!by_word(&g->api, word, total, &g->device[g->n]))
            return;
        g->n++;
    }
}

struct stk_gpus *stk_gpus_open(void)
{
    struct stk_gpus *g = calloc(1, sizeof *g);
    unsigned total = 0;
    if (!g)
        return NULL;
    if (load(g) && g->api.init() == 0) {
        if (g->api.count(&total) == 0)
            choose(g, total);
        if (g->n) {
            if (!g->api.name || g->api.name(g->device[0], g->kind, sizeof g->kind) != 0)
                g->kind[0] = '\0';
            g->kind[sizeof g->kind - 1] = '\0';
            return g;
        }
        g->api.shutdown();
    }
    if (g->library)
        dlclose(g->library);
    free(g);
    return NULL;
}

void stk_gpus_close(struct stk_gpus *g)
{
    if (!g)
        return;
    g->api.shutdown();
    dlclose(g->library);
    free(g);
}

void stk_gpus_sample(struct stk_gpus *g, struct stk_gpu_use *use)
{
    double util = 0, bytes = 0;
    unsigned nutil = 0, nmemory = 0;
    for (unsigned i = 0; g && i < g->n; i++) {
        struct nvml_use u;
        struct nvml_memory m;
        if (g->api.use(g->device[i], &u) == 0 && u.gpu <= 100) {
            util += u.gpu / 100.0;
            nutil++;
        }
        if (g->api.memory(g->device[i], &m) == 0) {
            bytes += (double)m.used;
            nmemory++;
        }
    }
    use->util = nutil ? util / nutil : -1;
    use->memory_bytes = nmemory ? bytes : -1;
}

unsigned stk_gpus_count(const struct stk_gpus *g)
{
    return g ? g->n : 0;
}

const char *stk_gpus_kind(const struct stk_gpus *g)
{
    return g ? g->kind : "";
}

/* "Model: \t NVIDIA A100-SXM4-40GB" */
static void read_model(const char *name, char *kind, size_t size)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "/proc/driver/nvidia/gpus/%.255s/information", name);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "Model:", 6) != 0)
            continue;
        const char *p = line + 6 + strspn(line + 6, " \t");
        snprintf(kind, size, "%.*s", (int)strcspn(p, "\n"), p);
    }
    if (f)
        fclose(f);
}

/* How many of `total` CUDA_VISIBLE_DEVICES lets be seen, without asking what they are. */
static unsigned visible(unsigned total)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    unsigned n = 0;
    if (!text)
        return total;
    for (; *text && *text != '-'; n++) {
        text += strcspn(text, ",");
        text += *text == ',';
    }
    return n < total ? n : total;
}

unsigned stk_gpus_glance(char *kind, size_t size)
{
    unsigned total = 0;
    snprintf(kind, size, "%s", "");
    DIR *d = opendir("/proc/driver/nvidia/gpus");
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        if (!total++)
            read_model(e->d_name, kind, size);
    }
    if (d)
        closedir(d);
    unsigned n = visible(total);
    if (!n)
        kind[0] = '\0';
    return n;
}
