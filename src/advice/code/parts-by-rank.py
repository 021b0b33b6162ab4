offset, end = size * rank // ranks, size * (rank + 1) // ranks   # one part per rank: all bytes, none twice
