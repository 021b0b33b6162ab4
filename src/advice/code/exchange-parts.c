MPI_Allgather(part, n, MPI_BYTE, whole, n, MPI_BYTE, comm);
