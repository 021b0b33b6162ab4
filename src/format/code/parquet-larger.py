import pyarrow.parquet
f = pyarrow.parquet.ParquetFile(SOURCE, pre_buffer=True)
