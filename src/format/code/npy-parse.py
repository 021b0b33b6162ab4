import numpy
data = numpy.load(SOURCE)   # once, before the loop
