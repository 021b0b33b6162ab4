import os, pyarrow.dataset as arrow
arrow.write_dataset(arrow.dataset(SOURCE, format="ipc"), TARGET + ".new", format="ipc")   # once
os.rename(TARGET + ".new", TARGET)   # all of it, or none
