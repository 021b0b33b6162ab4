f = open(SOURCE, "wb", buffering=BYTES)   # bytes
f = open(SOURCE, "w", buffering=BYTES)   # text; no flush=True
