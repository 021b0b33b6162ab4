"""torchvision's ImageFolder over stoker, and what its pictures need of a loader: see _dataloader.py."""

import io
import os

import torch

from stoker import _moved, loader as _loader
from stoker._dataloader import Feed, as_given
from stoker._errors import UsageError, warn
from stoker._options import image
from stoker.torch import MapDataset


def _open_picture(data):
    from PIL import Image
    with Image.open(io.BytesIO(data)) as image:
        return image.convert("RGB")


def _packed_of(root, packed):
    """Of the folder itself: a packed dataset has no folders to look into."""
    mine = os.path.abspath(root)
    same = {old: new for old, new in packed.items() if os.path.abspath(old) == mine}
    above = next((old for old in packed if mine.startswith(os.path.abspath(old).rstrip("/") + "/")), None)
    if not same and above is not None:
        warn(f"{root} is read as it is: what was packed is {above}, as one dataset")
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


def _resizes(made, t):
    """Whether it is the first to resize, and does so as Pillow does: torchvision resizes tensors otherwise."""
    return _is_bilinear(t) and not made["before"] & {"size", "resize", "layout"}


def _random_crop(made, t):
    made.update(size=_pair(t.size), crop="random", scale=t.scale, ratio=t.ratio)
    return _resizes(made, t)


def _resize(made, t):
    if isinstance(t.size, int) or len(t.size) == 1:
        made["resize"] = t.size if isinstance(t.size, int) else t.size[0]
    else:
        made.update(size=list(t.size), crop="none")
    return _resizes(made, t) and getattr(t, "max_size", None) is None


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
    mean, std = (torch.as_tensor(v, dtype=torch.float64).flatten().tolist() for v in (t.mean, t.std))
    made.update(mean=mean, std=std)
    return "dtype" in made["before"] and "mean" not in made["before"]


# By the name of the class; each adds its settings and says whether the decoder does the same.
KNOWN = {"RandomResizedCrop": _random_crop, "Resize": _resize, "CenterCrop": _center_crop,
         "RandomHorizontalFlip": _flip, "ToTensor": _to_tensor, "Normalize": _normalize}


def _is_theirs(t):
    return type(t).__module__.startswith("torchvision.")


def _flat(transform):
    """The steps of a Compose. Others that have transforms (RandomApply) choose among them."""
    if type(transform).__name__ != "Compose" or not _is_theirs(transform):
        return [transform]
    return [t for part in transform.transforms for t in _flat(part)]


def _step(made, t):
    name = type(t).__name__
    made["before"] = set(made)
    known = _is_theirs(t) and KNOWN.get(name)
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
    try:
        return _text(made, field)
    except UsageError as why:
        raise Unlike(f"{transform} is not what the decoder does: {why}") from None


# ---- for the loader ------------------------------------------------------------------------------

def _decoded(given):
    dataset = given["dataset"]
    if dataset.target_transform is not None or given.get("collate_fn") is not None:
        raise Unlike("target_transform and collate_fn are code")
    return {"decode": decode_of(dataset.transform, dataset.image),
            "as_tuple": (dataset.image, dataset.label)}


def feed(given):
    """Pictures that threads decode, if they can; else samples as the folder's own code makes them."""
    dataset = given["dataset"]
    if not isinstance(dataset, ImageFolder):
        return None
    try:
        how = _decoded(given)
    except Unlike as why:
        warn(f"stoker reads {dataset.root}, but does not decode it: {why}")
        how = as_given(given, dataset._made)
    return Feed(dataset.dataset, dataset.root, how)
