MPI_File_write_at_all(file, offset, part, n, MPI_BYTE, &status);
