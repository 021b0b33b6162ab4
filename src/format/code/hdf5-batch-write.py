d[i:i + rows] = block   # ADAPT: one write, not `rows` of them
