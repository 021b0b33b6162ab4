offset = rank * (size // ranks)   # one part per rank
