/*
 * over.h - whether a job, named as in host/scratch.h, is over: what it has left on a node may go.
 * And when ours will be.
 */
#ifndef STK_SCHED_OVER_H
#define STK_SCHED_OVER_H

#include "sched/slurm/slurm.h"

/* 1: it is over, 0: it is not, -1: not known (no scheduler answers, or not one that we can ask).
 * Asks Slurm about numbers. how may be NULL. */
int stk_job_is_over(const char *id, const struct stk_slurm *how);
/* When the Slurm job of this process ends: seconds since 1970; 0: not known. Asks Slurm if the
 * environment does not say it, unless too many ranks would. */
double stk_job_end(const struct stk_rank *rank);

#endif
