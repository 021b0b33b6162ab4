import pyarrow.dataset as arrow
arrow.write_dataset(arrow.dataset(SOURCE, format="ipc"), TARGET, format="ipc")   # once
