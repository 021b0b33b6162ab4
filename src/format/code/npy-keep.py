import numpy
data = numpy.load(SOURCE)   # once, when the program starts
