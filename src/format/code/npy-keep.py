import numpy
data = numpy.load(SOURCE)   # once, when the program starts
# or, if the program uses few of its rows: data = numpy.load(SOURCE, mmap_mode="r")
