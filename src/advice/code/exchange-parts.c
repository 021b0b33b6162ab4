MPI_Allgather(&n, 1, MPI_INT, count, 1, MPI_INT, comm);   // parts may differ in length
for (int r = 0, at = 0; r < ranks; at += count[r++])
    first[r] = at;
MPI_Allgatherv(part, n, MPI_BYTE, whole, count, first, MPI_BYTE, comm);
