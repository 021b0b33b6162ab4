counts = comm.allgather(len(part))         # mpi4py; part: an array; parts may differ in length
comm.Allgatherv(part, (whole, counts))
