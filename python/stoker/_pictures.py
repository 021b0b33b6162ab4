"""What a script with torchvision's ImageFolder and a torch DataLoader needs to read through stoker with
two names changed: stoker.torch.ImageFolder and stoker.torch.DataLoader.
"""

import io
import os
import warnings

import torch
import torch.utils.data

from stoker import _moved, loader as _loader
from stoker._options import image
from stoker.torch import Loader, MapDataset, rank


def _open_picture(data):
    from PIL import Image
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def _packed_of(root, packed):
    """Of the folder itself: a packed dataset has no folders to look into."""
    same = {old: new for old, new in packed.items() if os.path.abspath(old) == os.path.abspath(root)}
    return _moved.moved(root, same)


class ImageFolder(MapDataset):
    """torchvision's ImageFolder: (picture, class), from a folder of pictures or a packed one.

    packed      {folder: packed dataset}: read instead of that folder. Another root is read as it is.
    transform, target_transform   as in torchvision; a picture is a PIL image in RGB

    Samples of a dataset that was shuffled when it was packed come in that order, not by name.
    """

    def __init__(self, root, transform=None, target_transform=None, *, packed=None):
        self.root = os.fspath(root)
        super().__init__(_packed_of(self.root, packed or {}))
        self.transform, self.target_transform = transform, target_transform
        self.classes = list(self.dataset.classes)
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        fields = list(self.dataset.fields)
        self.label = next((f for f in ("label", "cls") if f in fields), None)
        self.image = next((f for f in fields if f not in (self.label, "key")), None)
        if self.label is None or self.image is None:
            raise ValueError(f"{self.dataset.path}: an ImageFolder has a picture and a label per "
                             f"sample; this dataset has {', '.join(fields) or 'no fields'}")

    def _made(self, sample):
        picture, label = _open_picture(sample[self.image]), int(sample[self.label])
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, label if self.target_transform is None else self.target_transform(label)

    def __getitem__(self, i):
        return self._made(self.dataset[i])

    def __getitems__(self, indices):
        return [self._made(s) for s in self.dataset.__getitems__(indices)]

    @property
    def targets(self):
        return [int(label) for label in self.dataset.column(self.label)]

    @property
    def samples(self):
        """[(name, class)]: the path of a picture below root, also if it is read from a packed dataset."""
        with _loader.Loader(self.dataset, batch=4096, shuffle="none", last="short", fields=self.label,
                            keys=True, rank=0, world=1, tier="off") as batches:
            return [(os.path.join(self.root, key), int(label)) for b in batches
                    for key, label in zip(b["key"], b[self.label])]

    imgs = samples


# ---- torchvision's transforms as settings of the decoder ---------------------------------------

class Unlike(Exception):
    """A transform that the decoder does not have; the text says which."""


def _pair(size):
    sizes = [size] if isinstance(size, int) else list(size)
    return sizes if len(sizes) == 2 else sizes * 2


def _is_bilinear(t):
    return getattr(getattr(t, "interpolation", None), "value", "bilinear") == "bilinear"


def _random_crop(made, t):
    made.update(size=_pair(t.size), crop="random", scale=t.scale, ratio=t.ratio)
    return _is_bilinear(t) and not made["before"] & {"size", "resize"}


def _resize(made, t):
    if isinstance(t.size, int) or len(t.size) == 1:
        made["resize"] = t.size if isinstance(t.size, int) else t.size[0]
    else:
        made.update(size=list(t.size), crop="none")
    return _is_bilinear(t) and not made["before"] & {"size", "resize"} and \
        getattr(t, "max_size", None) is None


def _center_crop(made, t):
    made.update(size=_pair(t.size), crop="center")
    return "resize" in made["before"] and "size" not in made["before"]


def _flip(made, t):
    made["flip"] = True
    return t.p == 0.5


def _to_tensor(made, t):
    made.update(layout="chw", dtype="float32")
    return True


def _normalize(made, t):
    made.update(mean=list(t.mean), std=list(t.std))
    return "dtype" in made["before"]


# By the name of the class; each adds its settings and says whether the decoder does the same.
KNOWN = {"RandomResizedCrop": _random_crop, "Resize": _resize, "CenterCrop": _center_crop,
         "RandomHorizontalFlip": _flip, "ToTensor": _to_tensor, "Normalize": _normalize}


def _flat(transform):
    parts = getattr(transform, "transforms", None)
    return [transform] if parts is None else [t for part in parts for t in _flat(part)]


def _step(made, t):
    name = type(t).__name__
    made["before"] = set(made)
    known = type(t).__module__.startswith("torchvision.") and KNOWN.get(name)
    if not known or not known(made, t):
        raise Unlike(f"{t} is not one that the decoder has, or not in this place")


def _text(made, field):
    height, width = made["size"]
    names = ("crop", "resize", "flip", "layout", "dtype", "scale", "ratio", "mean", "std")
    return image((width, height), field=field, **{n: made[n] for n in names if n in made})


def decode_of(transform, field=None):
    """The setting `decode` that does what a torchvision transform does; raises Unlike."""
    made = {}
    for t in _flat(transform):
        _step(made, t)
    if "size" not in made or "layout" not in made:
        raise Unlike("pictures have no common size, or do not end as tensors (ToTensor)")
    return _text(made, field)


# ---- the loader ----------------------------------------------------------------------------------

def _seed_of(sampler, generator):
    """Ranks must agree on it, so a seed that each may set otherwise is for one rank alone."""
    if sampler is not None:
        return sampler.seed
    if rank()[1] > 1:
        return 0
    seed = torch.initial_seed() if generator is None else generator.initial_seed()
    return seed & (2**63 - 1)


def _as_given(given):
    """Samples as the dataset's own code makes them, in worker processes."""
    dataset = given["dataset"]
    return {"transform": dataset._made, "workers": given.get("num_workers", 0),
            "collate": given.get("collate_fn") or torch.utils.data.default_collate}


def _decoded(given):
    dataset = given["dataset"]
    if dataset.target_transform is not None or given.get("collate_fn") is not None:
        raise Unlike("target_transform and collate_fn are code")
    return {"decode": decode_of(dataset.transform, dataset.image),
            "as_tuple": (dataset.image, dataset.label)}


def _how(given):
    try:
        return _decoded(given)
    except Unlike as why:
        warnings.warn(f"stoker reads {given['dataset'].root}, but does not decode it: {why}",
                      stacklevel=3)
        return _as_given(given)


def _is_ours(dataset, sampler, given):
    distributed = isinstance(sampler, torch.utils.data.DistributedSampler)
    return isinstance(dataset, ImageFolder) and (sampler is None or distributed) and \
        given.get("batch_sampler") is None and given.get("batch_size", 1) is not None


def DataLoader(dataset, batch_size=1, shuffle=None, sampler=None, **others):
    """A stoker Loader for a stoker.torch.ImageFolder, with the options of a torch DataLoader.

    Gives (pictures, labels), as torch's does: decoded by threads if torchvision's transforms are ones
    that the decoder has (RandomResizedCrop, Resize, CenterCrop, RandomHorizontalFlip, ToTensor,
    Normalize), else by the transform itself in `num_workers` processes. Every rank gets its part, with
    or without a DistributedSampler. For other datasets and samplers it is torch's DataLoader.
    """
    given = {"dataset": dataset, "batch_size": batch_size, **others}
    if not _is_ours(dataset, sampler, given):
        return torch.utils.data.DataLoader(shuffle=shuffle, sampler=sampler, **given)
    drop_last = others.get("drop_last", False)
    mixed = sampler.shuffle if sampler is not None else bool(shuffle)
    made = Loader(dataset.dataset, batch_size, shuffle=mixed,
                  seed=_seed_of(sampler, others.get("generator")),
                  last="drop" if drop_last else "short" if rank()[1] == 1 else "pad",
                  pin_memory=others.get("pin_memory", False), **_how(given))
    made.sampler, made.batch_size, made.drop_last = sampler, batch_size, drop_last
    return made
