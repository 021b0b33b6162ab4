comm.Allgather(part, whole)   # mpi4py
