h5py.File(SOURCE, "r")
