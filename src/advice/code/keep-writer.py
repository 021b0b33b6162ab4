f = open(SOURCE, "a", buffering=BYTES)   # once, before the loop; f.flush() where others must see it
