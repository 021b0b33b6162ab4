import numpy
data = numpy.memmap(SOURCE, dtype="uint16", mode="r")   # ADAPT: once, before the loop; its type
