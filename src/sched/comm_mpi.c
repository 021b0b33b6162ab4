/*
 * comm_mpi.c - the messages of a communicator through the functions of a module. One per process:
 * MPI begins once.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sched/comm_priv.h"
#include "sched/mpi/stoker_mpi.h"

static const struct stoker_mpi *the_mpi; /* of this process, since stk_comm_mpi_join() */

static int failed(const char *why, struct stk_err *err)
{
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "%s", why);
}

static int mpi_isend(void *impl, uint32_t to, int tag, const void *p, size_t n, uint64_t *room,
                     struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    return mpi->isend(room, (int)to, tag, p, (int)n, why) ? failed(why, err) : 0;
}

static int mpi_irecv(void *impl, uint32_t from, int tag, void *p, size_t n, uint64_t *room,
                     struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    return mpi->irecv(room, from == STK_COMM_ANY ? -1 : (int)from, tag, p, (int)n, why)
               ? failed(why, err)
               : 0;
}

static int mpi_test(void *impl, uint64_t *room, bool *done, uint32_t *from, size_t *n,
                    struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    int is_done = 0, source = 0, count = 0;
    if (mpi->test(room, &is_done, &source, &count, why))
        return failed(why, err);
    *done = is_done;
    *from = source < 0 ? 0 : (uint32_t)source;
    *n = count < 0 ? 0 : (size_t)count;
    return 0;
}

static void mpi_cancel(void *impl, uint64_t *room)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY];
    (void)mpi->cancel(room, why);
}

/* An MPI library may print a banner when it begins or ends, and our standard output may be data. */
static int output_aside(void)
{
    fflush(stdout);
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (kept >= 0)
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    return kept;
}

static void output_back(int kept)
{
    fflush(stdout);
    if (kept < 0)
        return;
    (void)dup2(kept, STDOUT_FILENO);
    close(kept);
}

/* MPI_Finalize waits for all ranks: after a failure it might wait forever. */
static void mpi_close(void *impl, bool is_failed)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY];
    int kept = output_aside();
    if (!is_failed)
        (void)mpi->finalize(why);
    output_back(kept);
}

static int mpi_file_open(void *impl, const uint32_t *rank, uint32_t n, const char *path, void *room,
                         struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    int *ranks = calloc(n, sizeof *ranks);
    if (!ranks)
        return stk_err_nomem(err, n * sizeof *ranks);
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = (int)rank[i];
    int rc = mpi->file_open(room, ranks, (int)n, path, why);
    free(ranks);
    return rc ? stk_err_set(err, STK_E_SYS, path, -1, "%s", why) : 0;
}

static int mpi_file_read_all(void *impl, void *room, uint64_t off, void *p, size_t n, size_t *got,
                             struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    int count = 0;
    if (mpi->file_read_all(room, (int64_t)off, p, (int)n, &count, why))
        return stk_err_set(err, STK_E_SYS, NULL, (int64_t)off, "%s", why);
    *got = count < 0 ? 0 : (size_t)count;
    return 0;
}

static void mpi_file_close(void *impl, void *room)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY];
    (void)mpi->file_close(room, why);
}

static const struct comm_ops ops = {
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .close = mpi_close,
    .file_open = mpi_file_open,
    .file_read_all = mpi_file_read_all,
    .file_close = mpi_file_close,
};

/* Each process alone: MPI did not recognise the launcher. */
static int check_size(const struct stoker_mpi *mpi, int size, uint32_t world, struct stk_err *err)
{
    if (size > 0 && (uint32_t)size == world)
        return 0;
    char why[STOKER_MPI_WHY];
    if (size == 1)
        (void)mpi->finalize(why);
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "the launcher started %u processes, and the MPI of module \"%s\" sees %d: "
                       "start them with its own mpirun, or with srun --mpi=pmix (srun --mpi=list "
                       "shows what there is), or name another module in STOKER_MPI",
                       (unsigned)world, mpi->name, size);
}

int stk_comm_mpi_join(const struct stoker_mpi *mpi, uint32_t world,
                      const struct stk_comm_options *o, struct stk_comm **out, struct stk_err *err)
{
    char why[STOKER_MPI_WHY] = "";
    int rank = 0, size = 0, threads = o->files ? 2 : 1;
    if (the_mpi)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "MPI begins only once in a process");
    the_mpi = mpi;
    int kept = output_aside(), failed_init = mpi->init(&rank, &size, &threads, why);
    output_back(kept);
    if (failed_init)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "MPI does not start: %s", why);
    int rc = check_size(mpi, size, world, err);
    if (rc)
        return rc;
    rc = stk_comm_make(&ops, (void *)(uintptr_t)mpi, mpi->name, (uint32_t)rank, (uint32_t)size,
                       threads, o->node, out, err);
    if (rc)
        return rc;
    struct comm_root *r = (*out)->root;
    r->files = threads > 1;
    stk_module_library(mpi, r->library, sizeof r->library);
    return 0;
}
