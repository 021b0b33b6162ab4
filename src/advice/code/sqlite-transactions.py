with connection: connection.executemany(sql, rows)   # one commit for all rows: a killed program loses none of them or all
