/*
 * ranks.c - an MPI program whose I/O is known: ranks FOLDER. Rank r of n reads part.r (100,000
 * bytes) with 25 preads of 4,000 bytes; all read block r of the shared file by MPI-IO (10 x 8,192
 * bytes each, independent), write block r of out.bin together (one collective write of 65,536
 * bytes), and rank 0 writes 1,000 bytes by stdio.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART 4000
#define STEP 8192
#define OUT  65536

static char data[OUT];

static void own_part(const char *folder, int rank)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/part.%d", folder, rank);
    int fd = open(path, O_RDONLY);
    for (int i = 0; i < 25; i++)
        if (pread(fd, data, PART, (off_t)i * PART) != PART)
            MPI_Abort(MPI_COMM_WORLD, 1);
    close(fd);
}

static void shared_part(const char *folder, int rank)
{
    char path[4096];
    MPI_File file;
    snprintf(path, sizeof path, "%s/shared.bin", folder);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file))
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < 10; i++)
        MPI_File_read_at(file, (MPI_Offset)(rank * 10 + i) * STEP, data, STEP, MPI_BYTE,
                         MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

static void write_together(const char *folder, int rank)
{
    char path[4096];
    MPI_File file;
    snprintf(path, sizeof path, "%s/out.bin", folder);
    if (MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL,
                      &file))
        MPI_Abort(MPI_COMM_WORLD, 3);
    MPI_File_write_at_all(file, (MPI_Offset)rank * OUT, data, OUT, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
}

static void note(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/note.txt", folder);
    FILE *f = fopen(path, "w");
    if (!f || fwrite(data, 1, 1000, f) != 1000 || fclose(f) != 0)
        MPI_Abort(MPI_COMM_WORLD, 4);
}

int main(int argc, char **argv)
{
    int rank = 0;
    if (MPI_Init(&argc, &argv) || argc != 2)
        return 2;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memset(data, rank + 1, sizeof data);
    own_part(argv[1], rank);
    shared_part(argv[1], rank);
    write_together(argv[1], rank);
    if (rank == 0)
        note(argv[1]);
    MPI_Finalize();
    return 0;
}
