mine = range(rank, len(f["NAME"]), world_size)   # ADAPT: h5py; some ranks have one sample more than others
