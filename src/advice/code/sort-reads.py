batch = sorted(batch)   # ADAPT: by offset; then read neighbours together
