data = open(SOURCE, "rb").read()    # once, when the program starts
