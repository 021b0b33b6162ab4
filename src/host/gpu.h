/*
 * gpu.h - NVIDIA GPUs through NVML, which is loaded at run time: without a driver there are no
 * GPUs, and no error. And which GPUs a program may use: CUDA_VISIBLE_DEVICES, interpreted as CUDA
 * does.
 */
#ifndef STK_HOST_GPU_H
#define STK_HOST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_GPUS_MAX 64u

/* ---- CUDA_VISIBLE_DEVICES ------------------------------------------------------------------ */

/* Its text; NULL: not set, all GPUs are visible. */
const char *stk_gpus_list(void);
/* One entry of it. The first that names no GPU ("", "-1", "NoDevFiles") ends the list: the GPUs
 * after it are invisible. */
struct stk_gpu_word {
    const char *p;
    size_t n;
    unsigned index; /* UINT_MAX: a UUID, of a GPU or of a part of one (MIG) */
};
bool stk_gpus_next(const char **list, struct stk_gpu_word *word);

/* ---- without NVML -------------------------------------------------------------------------- */

/* Number and kind of GPUs from /proc, without delay. */
unsigned stk_gpus_glance(char *kind, size_t size);

/* ---- with NVML ----------------------------------------------------------------------------- */

struct stk_gpu {
    unsigned index; /* on the node; for a MIG device, of its GPU; UINT_MAX: unknown */
    char kind[96];  /* "NVIDIA A100-SXM4-40GB"; "": unknown */
    double util;    /* 0..1, -1: unknown */
    int64_t memory_bytes, total_bytes; /* in use, and in total; -1: unknown */
};

struct stk_gpu_process { /* NVML's layout since _v2 */
    unsigned pid;
    unsigned long long memory_bytes;
    unsigned gpu_instance, compute_instance;
};

struct stk_gpus;
/* The visible GPUs, in the order of the list. NULL: no NVML, it fails to start, or no GPU. May take
 * seconds. */
struct stk_gpus *stk_gpus_open(void);
void stk_gpus_close(struct stk_gpus *g);           /* g may be NULL */
unsigned stk_gpus_count(const struct stk_gpus *g); /* NULL: 0 */
/* Of the first GPU; "": unknown. */
const char *stk_gpus_kind(const struct stk_gpus *g);
/* The current state of GPU i. */
void stk_gpus_read(const struct stk_gpus *g, unsigned i, struct stk_gpu *out);
/* The processes on GPU i with the memory each uses. Borrowed until the next call. */
unsigned stk_gpus_processes(struct stk_gpus *g, unsigned i, const struct stk_gpu_process **list);

#endif
