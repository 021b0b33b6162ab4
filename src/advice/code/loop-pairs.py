import MODULES
for batch in loader:   # KINDS
    x = [LOAD for b in batch[FIELD]]   # ADAPT: the rest of your __getitem__
    y = LABELS
