import os, pyarrow.dataset as arrow
arrow.write_dataset(arrow.dataset(SOURCE), TARGET + ".new", format="parquet")   # once
os.rename(TARGET + ".new", TARGET)   # all of it, or none
