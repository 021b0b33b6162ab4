import numpy
data = dict(numpy.load(SOURCE))   # once, before the loop
