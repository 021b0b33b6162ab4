open(SOURCE, "rb")
