f = None                        # ADAPT: in your Dataset; opened in the worker, not in __init__
def __getitem__(self, i):
    if self.f is None:
        self.f = OPEN
