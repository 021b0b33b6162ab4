import h5py
f = h5py.File(SOURCE, "r", driver="core")
