f = open(SOURCE, "rb", buffering=BYTES)   # a C stream: setvbuf()
