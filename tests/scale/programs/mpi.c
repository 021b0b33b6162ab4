/*
 * mpi.c - an MPI program with a serial part: mpi STEPS SERIAL. The same integral as omp.c, each
 * rank its share, after SERIAL intervals by rank 0. Prints "ranks R pi P".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double part(long from, long to, long steps)
{
    double sum = 0, width = 1.0 / (double)steps;
    for (long i = from; i < to; i++) {
        double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    return sum * width;
}

int main(int argc, char **argv)
{
    int rank, ranks;
    double mine, pi = 0, first = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long steps = argc > 1 ? atol(argv[1]) : 10000000, serial = argc > 2 ? atol(argv[2]) : 0;
    if (rank == 0 && serial > 0)
        first = part(0, serial, serial);
    MPI_Bcast(&first, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    mine =
        part(steps / ranks * rank, rank == ranks - 1 ? steps : steps / ranks * (rank + 1), steps);
    MPI_Reduce(&mine, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("ranks %d pi %.9f serial %.3f\n", ranks, pi, first);
    MPI_Finalize();
    return 0;
}
