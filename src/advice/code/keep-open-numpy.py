f = OPEN   # ADAPT: once, before the loop
