/*
 * module.c - the functions of stoker_mpi.h on one MPI. Built by its own compiler:
 *
 *     mpicc -shared -fPIC -O2 -o libstoker-mpi-NAME.so module.c
 */
#include "stoker_mpi.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if defined(OPEN_MPI)
#define NAME "openmpi"
#elif defined(I_MPI_VERSION)
#define NAME "intelmpi"
#elif defined(MVAPICH2_VERSION) || defined(MVAPICH_VERSION)
#define NAME "mvapich"
#elif defined(MPICH_VERSION)
#define NAME "mpich"
#else
#define NAME "mpi"
#endif

static int check(int code, const char *call, char *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (code == MPI_SUCCESS)
        return 0;
    (void)MPI_Error_string(code, text, &len);
    snprintf(why, STOKER_MPI_WHY, "%s: %s", call, len ? text : "unknown error");
    return -1;
}

static void get_library(char *text, size_t size)
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int len = 0;
    (void)MPI_Get_library_version(all, &len);
    snprintf(text, size, "%s", all);
}

static int start(int *rank, int *size, int *threads, char *why)
{
    int level = MPI_THREAD_SINGLE;
    int want = *threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    if (check(MPI_Init_thread(NULL, NULL, want, &level), "MPI_Init_thread", why))
        return -1;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    *threads = level >= MPI_THREAD_MULTIPLE ? 2 : level >= MPI_THREAD_SERIALIZED;
    if (check(MPI_Comm_rank(MPI_COMM_WORLD, rank), "MPI_Comm_rank", why))
        return -1;
    return check(MPI_Comm_size(MPI_COMM_WORLD, size), "MPI_Comm_size", why);
}

static int finish(char *why)
{
    return check(MPI_Finalize(), "MPI_Finalize", why);
}

static int post_send(void *room, int to, int tag, const void *p, int n, char *why)
{
    return check(MPI_Isend(p, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, (MPI_Request *)room),
                 "MPI_Isend", why);
}

static int post_receive(void *room, int from, int tag, void *p, int n, char *why)
{
    return check(MPI_Irecv(p, n, MPI_BYTE, from < 0 ? MPI_ANY_SOURCE : from, tag, MPI_COMM_WORLD,
                           (MPI_Request *)room),
                 "MPI_Irecv", why);
}

static int look(void *room, int *done, int *from, int *n, char *why)
{
    MPI_Status status;
    memset(&status, 0, sizeof status);
    if (check(MPI_Test((MPI_Request *)room, done, &status), "MPI_Test", why))
        return -1;
    if (*done) {
        *from = status.MPI_SOURCE;
        if (MPI_Get_count(&status, MPI_BYTE, n) != MPI_SUCCESS)
            *n = 0;
    }
    return 0;
}

static int give_up(void *room, char *why)
{
    MPI_Request *r = room;
    if (check(MPI_Cancel(r), "MPI_Cancel", why))
        return -1;
    return check(MPI_Wait(r, MPI_STATUS_IGNORE), "MPI_Wait", why);
}

#define FILE_TAG 17 /* only these ranks make the communicator: others may make theirs meanwhile */

static int make_comm(const int *rank, int n, MPI_Comm *out, char *why)
{
    MPI_Group all, some;
    if (check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group", why))
        return -1;
    int rc = check(MPI_Group_incl(all, n, rank, &some), "MPI_Group_incl", why);
    if (rc == 0) {
        rc = check(MPI_Comm_create_group(MPI_COMM_WORLD, some, FILE_TAG, out),
                   "MPI_Comm_create_group", why);
        MPI_Group_free(&some);
    }
    MPI_Group_free(&all);
    return rc;
}

/* The file has a communicator of its own: a copy of the one it is opened with. */
static int open_file(void *room, const int *rank, int n, const char *path, char *why)
{
    MPI_Comm comm;
    if (make_comm(rank, n, &comm, why))
        return -1;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    int rc = check(MPI_File_open(comm, path, MPI_MODE_RDONLY, MPI_INFO_NULL, (MPI_File *)room),
                   "MPI_File_open", why);
    MPI_Comm_free(&comm);
    return rc;
}

static int read_file(void *room, int64_t off, void *p, int n, int *got, char *why)
{
    MPI_Status status;
    memset(&status, 0, sizeof status);
    if (check(MPI_File_read_at_all(*(MPI_File *)room, (MPI_Offset)off, p, n, MPI_BYTE, &status),
              "MPI_File_read_at_all", why))
        return -1;
    return check(MPI_Get_count(&status, MPI_BYTE, got), "MPI_Get_count", why);
}

static int close_file(void *room, char *why)
{
    return check(MPI_File_close((MPI_File *)room), "MPI_File_close", why);
}

__attribute__((visibility("default"))) extern const struct stoker_mpi stoker_mpi_table;
const struct stoker_mpi stoker_mpi_table = {
    .version = STOKER_MPI_VERSION,
    .size = sizeof(struct stoker_mpi),
    .name = NAME,
    .room = sizeof(MPI_Request),
    .file_room = sizeof(MPI_File),
    .library = get_library,
    .init = start,
    .finalize = finish,
    .isend = post_send,
    .irecv = post_receive,
    .test = look,
    .cancel = give_up,
    .file_open = open_file,
    .file_read_all = read_file,
    .file_close = close_file,
};
