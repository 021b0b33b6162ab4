import zarr
a = zarr.open_array(SOURCE, mode="r")   # ADAPT: SOURCE + "/NAME" of a group
zarr.array(a[:], store=TARGET, chunks=(1, *a.shape[1:]))   # ADAPT: samples per chunk
