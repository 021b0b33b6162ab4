/*
 * rank.h - which process of how many this is: the one place that knows the variables of launchers.
 *
 * stk_rank_detect() (stoker.h) reads the environment: torchrun (RANK, WORLD_SIZE, LOCAL_RANK,
 * LOCAL_WORLD_SIZE), Open MPI (OMPI_COMM_WORLD_*), MPICH/Hydra and Intel MPI (PMI_RANK, PMI_SIZE,
 * MPI_LOCALRANKID, ...), PMIx, Slurm (SLURM_PROCID, SLURM_STEP_NUM_TASKS, ...), in this order: the
 * innermost launcher counts. A batch script that srun did not start is one process, whatever
 * SLURM_NTASKS says. Contradictions (rank >= world, half of a pair, not a number) are errors that
 * name the variables.
 */
#ifndef STK_SCHED_RANK_H
#define STK_SCHED_RANK_H

#include <stdbool.h>

#include "base/err.h"

/* stk_rank_detect() on variables that `get` looks up (NULL: not set), such as those of a profiled
 * process. */
int stk_rank_detect_from(const char *(*get)(void *user, const char *name), void *user,
                         struct stk_rank *r, struct stk_err *err);
enum stk_rank_from {
    STK_FROM_NOBODY,
    STK_FROM_TORCHRUN,
    STK_FROM_OPEN_MPI,
    STK_FROM_MPICH,
    STK_FROM_PMIX,
    STK_FROM_SLURM,
};
/* Which launcher it was that gave the rank: r->from is its name. */
enum stk_rank_from stk_rank_from(const struct stk_rank *r);
/* True if a program of this rank reads what this process prints: DATA=$(...) in a script that srun
 * starts. Else all ranks print to one place. */
bool stk_rank_is_captured(const struct stk_rank *r);
/* "R/W". */
int stk_rank_parse(const char *text, struct stk_rank *r, struct stk_err *err);

#endif
