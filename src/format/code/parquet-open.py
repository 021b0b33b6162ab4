pyarrow.parquet.ParquetFile(SOURCE)
