/* sample_gpu.c - how busy the GPUs are that the program may use, and how much of their memory is
 * taken. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab/nvml.h"
#include "lab/sample.h"

struct stk_gpus {
    struct stk_nvml api;
    struct stk_nvml_gpu gpu[STK_NVML_GPUS];
    unsigned n;
    char kind[96];
};

struct stk_gpus *stk_gpus_open(void)
{
    struct stk_gpus *g = calloc(1, sizeof *g);
    if (g && stk_nvml_open(&g->api) && (g->n = stk_nvml_visible(&g->api, g->gpu)) > 0) {
        stk_nvml_name(&g->api, g->gpu[0].device, g->kind, sizeof g->kind);
        return g;
    }
    stk_gpus_close(g);
    return NULL;
}

void stk_gpus_close(struct stk_gpus *g)
{
    if (g)
        stk_nvml_close(&g->api);
    free(g);
}

void stk_gpus_sample(struct stk_gpus *g, struct stk_gpu_use *use)
{
    double util = 0, bytes = 0;
    unsigned nutil = 0, nmemory = 0;
    for (unsigned i = 0; g && i < g->n; i++) {
        struct stk_nvml_use u;
        struct stk_nvml_memory m;
        if (g->api.use(g->gpu[i].device, &u) == 0 && u.gpu <= 100) {
            util += u.gpu / 100.0;
            nutil++;
        }
        if (g->api.memory(g->gpu[i].device, &m) == 0) {
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
    const char *list = stk_gpus_list();
    struct stk_gpu_word w;
    unsigned n = 0;
    if (!list || !total)
        return total;
    while (n < STK_NVML_GPUS && stk_gpus_next(&list, &w) &&
           (w.index == UINT_MAX || w.index < total))
        n++;
    return n;
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
