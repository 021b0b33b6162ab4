import pyarrow.feather
table = pyarrow.feather.read_table(SOURCE)   # once
