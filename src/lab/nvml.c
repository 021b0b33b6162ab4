/* nvml.c - loads NVML, and finds the GPUs that CUDA_VISIBLE_DEVICES lets a program see. */
#include "lab/nvml.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- loading ------------------------------------------------------------------------------- */

static bool find(void *library, const char *name, void *to)
{
    void *p = dlsym(library, name);
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static bool load(struct stk_nvml *a)
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

bool stk_nvml_open(struct stk_nvml *a)
{
    *a = (struct stk_nvml){0};
    if (load(a) && a->init() == 0)
        return true;
    if (a->library)
        dlclose(a->library);
    *a = (struct stk_nvml){0};
    return false;
}

void stk_nvml_close(struct stk_nvml *a)
{
    if (!a->library)
        return;
    a->shutdown();
    dlclose(a->library);
    *a = (struct stk_nvml){0};
}

/* ---- which ones ---------------------------------------------------------------------------- */

static unsigned index_of(const struct stk_nvml *a, stk_nvml_device device, unsigned total)
{
    stk_nvml_device gpu, d;
    gpu = a->parent && a->parent(device, &d) == 0 ? d : device;
    for (unsigned i = 0; i < total; i++)
        if (a->by_index(i, &d) == 0 && d == gpu)
            return i;
    return UINT_MAX;
}

/* A UUID may be cut short, as long as one device begins so. */
static bool by_uuid(const struct stk_nvml *a, const char *word, unsigned total,
                    struct stk_nvml_gpu *out)
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

static bool by_word(const struct stk_nvml *a, const struct stk_gpu_word *w, unsigned total,
                    struct stk_nvml_gpu *out)
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

/* As CUDA does it: devices behind the first that is not there are not seen. */
unsigned stk_nvml_visible(const struct stk_nvml *a, struct stk_nvml_gpu gpu[STK_NVML_GPUS])
{
    const char *list = stk_gpus_list();
    struct stk_gpu_word w;
    unsigned total = 0, n = 0;
    if (a->count(&total) != 0)
        return 0;
    for (unsigned i = 0; !list && i < total && n < STK_NVML_GPUS; i++) {
        gpu[n].index = i;
        n += a->by_index(i, &gpu[n].device) == 0;
    }
    while (list && n < STK_NVML_GPUS && stk_gpus_next(&list, &w) && by_word(a, &w, total, &gpu[n]))
        n++;
    return n;
}

void stk_nvml_name(const struct stk_nvml *a, stk_nvml_device device, char *name, size_t size)
{
    if (!a->name || a->name(device, name, (unsigned)size) != 0)
        name[0] = '\0';
    name[size - 1] = '\0';
}
