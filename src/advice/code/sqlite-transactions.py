with connection: connection.executemany(sql, rows)   # one commit
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("PRAGMA synchronous=NORMAL")
