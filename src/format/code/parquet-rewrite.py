import pyarrow.dataset as arrow
arrow.write_dataset(arrow.dataset(SOURCE), TARGET, format="parquet")   # once
