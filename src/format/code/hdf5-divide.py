mine = range(rank, len(f["NAME"]), world_size)   # ADAPT: h5py
