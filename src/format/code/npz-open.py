numpy.load(SOURCE)
