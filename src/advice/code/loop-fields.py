for batch in loader:   # KINDS
    print(list(batch))   # ADAPT: x = batch["..."]: your fields, which this prints
