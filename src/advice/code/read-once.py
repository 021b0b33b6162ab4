data = open(SOURCE, "rb").read()   # once, before the loop
