sqlite3.connect(SOURCE)
