for batch in loader:   # KINDS
    x = batch["data"]   # ADAPT: your work on a batch
