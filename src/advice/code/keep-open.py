def __getitem__(self, i):       # ADAPT: your Dataset
    if self.f is None:          # in the worker, not in __init__
        self.f = OPEN
