/*
 * rank_vars.h - the one list of variables by which launchers give a process its rank: rank.c reads
 * them, the preload library keeps them in its log. Depends on nothing.
 *
 * X(launcher, rank, size, local rank, local size), innermost launcher first. torchrun comes first:
 * srun starts it once per node, and it assigns its own ranks. mpirun in a Slurm job leaves the srun
 * variables of its daemons in place, so Slurm comes last. PMIx gives processes their rank but not
 * the size; under srun, Slurm does. Slurm counts only with the variables of a step: a batch script
 * is one process, and has SLURM_PROCID and SLURM_NTASKS, too.
 */
#ifndef STK_BASE_RANK_VARS_H
#define STK_BASE_RANK_VARS_H

#define STK_RANK_LAUNCHERS(X)                                                                      \
    X("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")                          \
    X("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",    \
      "OMPI_COMM_WORLD_LOCAL_SIZE")                                                                \
    X("MPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",          \
      "MV2_COMM_WORLD_LOCAL_SIZE")                                                                 \
    X("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")                       \
    X("PMIx", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL)                          \
    X("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL)

/* Slurm gives the tasks per node, and the number of this node. */
#define STK_RANK_NODE       "SLURM_NODEID"
#define STK_RANK_NODE_TASKS "SLURM_STEP_TASKS_PER_NODE"

#endif
