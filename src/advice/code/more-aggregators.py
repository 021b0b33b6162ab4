info.Set("cb_nodes", str(COUNT))   # mpi4py's MPI.Info
