# INTRO
import stoker.torch
def sample(s):   # ADAPT: the rest of your __getitem__
    return s     # a dict of its fields
dataset = stoker.torch.MapDataset(SOURCE, transform=sample)
