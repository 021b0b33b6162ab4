/*
 * gpu.h - NVIDIA's GPUs as NVML shows them, loaded at run time: no driver, no GPU, no error. And
 * which of them a program may use: CUDA_VISIBLE_DEVICES, read as CUDA reads it.
 */
#ifndef STK_HOST_GPU_H
#define STK_HOST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_GPUS_MAX 64u

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

/* ---- without NVML -------------------------------------------------------------------------- */

/* By what the driver shows in /proc: number and kind; at once. */
unsigned stk_gpus_glance(char *kind, size_t size);

/* ---- with NVML ----------------------------------------------------------------------------- */

struct stk_gpu {
    unsigned index; /* on the node; of a MIG device that of the GPU; UINT_MAX: not
                       known */
    char kind[96];  /* "NVIDIA A100-SXM4-40GB"; "": not known */
    double util;    /* 0..1, -1: not known */
    int64_t memory_bytes, total_bytes; /* in use, and there; -1: not known */
};

struct stk_gpu_process { /* as NVML has it since _v2 */
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance, compute_instance;
};

struct stk_gpus;
/* Those that may be used, in the order of the list. NULL: no NVML, it does not start, or no GPU.
 * May take seconds. */
struct stk_gpus *stk_gpus_open(void);
void stk_gpus_close(struct stk_gpus *g);           /* NULL is fine */
unsigned stk_gpus_count(const struct stk_gpus *g); /* NULL: 0 */
/* Of the first; "": not known. */
const char *stk_gpus_kind(const struct stk_gpus *g);
/* What the i-th of them does right now. */
void stk_gpus_read(const struct stk_gpus *g, unsigned i, struct stk_gpu *out);
/* Which processes have how much of its memory. Borrowed until the next call. */
unsigned stk_gpus_processes(struct stk_gpus *g, unsigned i, const struct stk_gpu_process **list);

#endif
