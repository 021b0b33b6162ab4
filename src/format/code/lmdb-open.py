lmdb.open(SOURCE, subdir=False, readonly=True, lock=False)
