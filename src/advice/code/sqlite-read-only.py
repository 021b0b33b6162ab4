import sqlite3
connection = sqlite3.connect(URI, uri=True)   # nobody writes to it
connection.execute("BEGIN")   # before a batch of queries
