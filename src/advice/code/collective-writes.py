file.Write_at_all(offset, part)   # mpi4py's MPI.File
