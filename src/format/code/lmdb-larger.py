import lmdb
env = lmdb.open(SOURCE, subdir=False, readonly=True, lock=False, readahead=True)
