import os, zarr
a = zarr.open_array(SOURCE, mode="r")   # ADAPT: SOURCE + "/NAME" of a group
zarr.array(a[:], store=TARGET + ".new", chunks=(1, *a.shape[1:]))   # ADAPT: samples per chunk
os.rename(TARGET + ".new", TARGET)   # all of it, or none
