for batch in loader:   # KINDS
    print(list(batch))   # ADAPT: x, y = batch[...]: your fields
