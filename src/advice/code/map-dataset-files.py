# INTRO
import MODULES, stoker.torch
def sample(s):   # ADAPT: the rest of your __getitem__
    return RESULT
dataset = stoker.torch.MapDataset(SOURCE, transform=sample)
