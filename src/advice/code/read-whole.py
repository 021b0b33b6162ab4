data = open(SOURCE, "rb").read()
