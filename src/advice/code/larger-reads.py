f = open(SOURCE, "rb", buffering=BYTES)
