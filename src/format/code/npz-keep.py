import numpy
data = dict(numpy.load(SOURCE))   # once, when the program starts
