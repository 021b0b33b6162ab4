/*
 * stoker_mpi.h - what stoker asks of an MPI: the table of functions that a module exports.
 *
 * The binary interfaces of Open MPI and MPICH differ, so the module is built once for each, with
 * its own compiler, and loaded when it is needed. This header and module.c are installed and depend
 * on nothing but mpi.h: `stoker doctor --build-mpi` builds a module from them on a cluster.
 */
#ifndef STOKER_MPI_H
#define STOKER_MPI_H

#include <stddef.h>
#include <stdint.h>

/* Changes whenever the table does: a module of another version is refused. */
#define STOKER_MPI_VERSION 2
#define STOKER_MPI_TABLE   "stoker_mpi_table" /* the symbol: a const struct stoker_mpi */

#define STOKER_MPI_WHY 512 /* size of a buffer for a reason */

struct stoker_mpi {
    uint32_t version;   /* STOKER_MPI_VERSION: first in every version */
    uint32_t size;      /* of this struct */
    const char *name;   /* "openmpi", "mpich", "intelmpi", "mvapich", "mpi" */
    uint32_t room;      /* bytes of a request, at most 64 */
    uint32_t file_room; /* bytes of a file, at most 64 */

    /* The text of MPI_Get_library_version(); also before init(). */
    void (*library)(char *text, size_t size);
    /* All functions below return 0, or -1 with a reason in why[STOKER_MPI_WHY]. Errors are
     * returned, never fatal. *threads: calls of several threads are fine if one comes after the
     * other (1), or at once (2); set it to what is wanted. */
    int (*init)(int *rank, int *size, int *threads, char *why);
    int (*finalize)(char *why);
    int (*isend)(void *room, int to, int tag, const void *p, int n, char *why);
    /* from: -1 for any. */
    int (*irecv)(void *room, int from, int tag, void *p, int n, char *why);
    int (*test)(void *room, int *done, int *from, int *n, char *why);
    /* Gives up a receive. */
    int (*cancel)(void *room, char *why);
    /* Collective over the given ranks, n of them; the calls below over those of the file. */
    int (*file_open)(void *room, const int *rank, int n, const char *path, char *why);
    int (*file_read_all)(void *room, int64_t off, void *p, int n, int *got, char *why);
    int (*file_close)(void *room, char *why);
};

#endif
