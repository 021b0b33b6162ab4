# INTRO
import io, PIL.Image, stoker.torch
def sample(s):   # ADAPT: the rest of your __getitem__
    image = PIL.Image.open(io.BytesIO(s["data"])).convert("RGB")
    return transform(image), s.get("label")   # ADAPT: your transform
dataset = stoker.torch.MapDataset(SOURCE, transform=sample)
