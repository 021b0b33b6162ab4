numpy.load(SOURCE, mmap_mode="r")
