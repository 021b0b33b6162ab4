file.Read_all(buffer)   # mpi4py's MPI.File
