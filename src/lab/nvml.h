/*
 * nvml.h - NVIDIA's GPUs as NVML shows them, loaded at run time: no driver, no GPU, no error. And
 * which of them a program may use: CUDA_VISIBLE_DEVICES, read as CUDA reads it.
 */
#ifndef STK_LAB_NVML_H
#define STK_LAB_NVML_H

#include <stdbool.h>
#include <stddef.h>

/* ---- CUDA_VISIBLE_DEVICES ------------------------------------------------------------------ */

/* Its text; NULL: not set, and all GPUs are seen. */
const char *stk_gpus_list(void);
/* The next entry of it. The first that names no GPU ("", "-1", "NoDevFiles") ends the list: those
 * behind it are not seen. */
struct stk_gpu_word {
    const char *p;
    size_t n;
    unsigned index; /* UINT_MAX: a UUID, of a GPU or of a part of one (MIG) */
};
bool stk_gpus_next(const char **list, struct stk_gpu_word *word);

/* ---- NVML ---------------------------------------------------------------------------------- */

/* The few of NVML's declarations that are needed; its ABI is stable since 2013. */
typedef struct nvml_device *stk_nvml_device;
struct stk_nvml_use {
    unsigned gpu, memory; /* percent */
};
struct stk_nvml_memory {
    unsigned long long total, free, used;
};
struct stk_nvml_process { /* as of _v2 and _v3 */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

/* Functions return 0 when they succeed. */
struct stk_nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *);
    int (*by_index)(unsigned, stk_nvml_device *);
    int (*use)(stk_nvml_device, struct stk_nvml_use *);
    int (*memory)(stk_nvml_device, struct stk_nvml_memory *);
    /* NULL where the driver has none. */
    int (*by_uuid)(const char *, stk_nvml_device *);
    int (*uuid)(stk_nvml_device, char *, unsigned);
    int (*name)(stk_nvml_device, char *, unsigned);
    int (*parent)(stk_nvml_device, stk_nvml_device *); /* of a MIG device */
    int (*processes)(stk_nvml_device, unsigned *, struct stk_nvml_process *);
};

#define STK_NVML_GPUS 64u
struct stk_nvml_gpu {
    stk_nvml_device device;
    unsigned index; /* on the node; of a MIG device that of the GPU; UINT_MAX: not known */
};

/* False: no NVML, or it does not start. May take seconds. */
bool stk_nvml_open(struct stk_nvml *a);
void stk_nvml_close(struct stk_nvml *a);
/* Those that may be used, in the order of the list. */
unsigned stk_nvml_visible(const struct stk_nvml *a, struct stk_nvml_gpu gpu[STK_NVML_GPUS]);
/* "NVIDIA A100-SXM4-40GB"; "": not known. */
void stk_nvml_name(const struct stk_nvml *a, stk_nvml_device device, char *name, size_t size);

#endif
