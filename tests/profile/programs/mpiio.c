/*
 * mpiio.c - two ranks that write a file together and read it alone, in order, by pointer, through a
 * view and past its end. What the library does below is not told here.
 */
/* TRUTH
{"out.bin": {"mpi-io": {"opens": 2, "closes": 2, "seeks": 2, "fsyncs": 2, "writes": 2,
                       "write_bytes": 131072, "reads": 18, "eof_reads": 2, "read_bytes": 15400,
                       "first_reads": 2, "seq_reads": 10, "consec_reads": 6},
             "posix": "any", "stdio": "any", "async": "any"},
 "missing.bin": {"mpi-io": {"errors": 2}, "posix": "any"}}
*/
#include "truth.h"

#include <mpi.h>

#define PART 65536

static MPI_File file;

/* In a view of its own: where its tiles have holes, nobody says which bytes a read touched. */
static void read_views(void)
{
    MPI_Status status;
    MPI_Datatype holes;
    int count = 0;
    MUST(MPI_File_set_view(file, 100, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == 0);
    MUST(MPI_File_read_at(file, 1000, data, 100, MPI_INT, &status) == 0); /* 4,100: goes back */
    MUST(MPI_Get_count(&status, MPI_INT, &count) == 0 && count == 100);
    MUST(MPI_Type_vector(2, 1, 4, MPI_INT, &holes) == 0 && MPI_Type_commit(&holes) == 0);
    MUST(MPI_File_set_view(file, 0, MPI_INT, holes, "native", MPI_INFO_NULL) == 0);
    MUST(MPI_File_read_all(file, data, 100, MPI_INT, MPI_STATUS_IGNORE) == 0);
    MUST(MPI_Type_free(&holes) == 0);
    MUST(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) == 0);
}

static void read_alone(void)
{
    MPI_Request request;
    MPI_Status status;
    int count = -1;
    for (int i = 0; i < 2; i++) /* the first, and a consecutive one */
        MUST(MPI_File_read_at(file, i * 1000, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE) == 0);
    MUST(MPI_File_read_at_all(file, 2000, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE) == 0);
    MUST(MPI_File_seek(file, 50000, MPI_SEEK_SET) == 0);
    MUST(MPI_File_read(file, data, 250, MPI_INT, &status) == 0); /* sequential */
    MUST(MPI_Get_count(&status, MPI_INT, &count) == 0 && count == 250);
    MUST(MPI_File_iread(file, data, 1000, MPI_BYTE, &request) == 0); /* consecutive */
    MUST(MPI_Wait(&request, MPI_STATUS_IGNORE) == 0);
    /* The end: 1,000 bytes asked for, 100 there; then none. */
    MUST(MPI_File_read_at(file, 2 * PART - 100, data, 1000, MPI_BYTE, MPI_STATUS_IGNORE) == 0);
    MUST(MPI_File_read_at(file, 2 * PART, data, 1000, MPI_BYTE, &status) == 0);
    MUST(MPI_Get_count(&status, MPI_BYTE, &count) == 0 && count == 0);
    read_views();
    MUST(MPI_File_read_ordered(file, data, 1800, MPI_BYTE, MPI_STATUS_IGNORE) == 0);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_File missing;
    MPI_Init(&argc, &argv);
    begin(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MUST(MPI_File_open(MPI_COMM_WORLD, "out.bin", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL,
                       &file) == 0);
    MUST(MPI_File_write_at_all(file, (MPI_Offset)rank * PART, data, PART, MPI_BYTE,
                               MPI_STATUS_IGNORE) == 0);
    MUST(MPI_File_sync(file) == 0);
    MPI_Barrier(MPI_COMM_WORLD);
    read_alone();
    MUST(MPI_File_close(&file) == 0 && file == MPI_FILE_NULL);
    MUST(MPI_File_open(MPI_COMM_WORLD, "missing.bin", MPI_MODE_RDONLY, MPI_INFO_NULL, &missing));
    MPI_Finalize();
    return 0;
}
