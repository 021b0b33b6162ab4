for x, y in loader:   # KINDS
    pass   # ADAPT: your training step
