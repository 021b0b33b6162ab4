import sqlite3
connection = sqlite3.connect(SOURCE)
connection.execute("PRAGMA cache_size=-262144")   # 256 MiB of pages
connection.execute("PRAGMA mmap_size=1073741824")
