import h5py, io
f = h5py.File(io.BytesIO(open(SOURCE, "rb").read()), "r")
