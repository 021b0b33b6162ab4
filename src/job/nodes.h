/*
 * nodes.h - what a job did on each of its nodes, from the samples of a profile of it: Slurm's
 * accounting has no figures per node.
 */
#ifndef STK_JOB_NODES_H
#define STK_JOB_NODES_H

#include "profile/profile.h"
#include "sched/slurm/slurm.h"

struct stk_job_node { /* texts are the profile's */
    const char *host, *gpu_kind;
    uint32_t cores, gpus;
    double cpus_busy; /* mean over the seconds with samples; -1: no samples */
    double peak_bytes;
    double gpu_util, gpu_memory_bytes; /* mean of its GPUs; largest. -1: unknown */
};

struct stk_job_nodes { /* all zero: none */
    const char *path;  /* of the profile, borrowed */
    struct stk_job_node *node;
    size_t n;
};

/* Whether it is a profile of this job. */
bool stk_job_nodes_fit(const struct stk_profile *p, const struct stk_slurm_job *job);
/* Borrows the profile. Caller releases. */
int stk_job_nodes(const struct stk_profile *p, struct stk_job_nodes *out, struct stk_err *err);
void stk_job_nodes_release(struct stk_job_nodes *nodes);

#endif
