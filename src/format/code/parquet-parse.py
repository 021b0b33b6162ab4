import pyarrow.parquet
table = pyarrow.parquet.read_table(SOURCE)   # once
