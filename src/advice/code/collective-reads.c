MPI_File_read_all(file, buffer, n, MPI_BYTE, &status);
