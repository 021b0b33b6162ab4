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
    mine = os.path.abspath(root)
    same = {old: new for old, new in packed.items() if os.path.abspath(old) == mine}
    above = next((old for old in packed if mine.startswith(os.path.abspath(old).rstrip("/") + "/")), None)
    if not same and above is not None:
        warnings.warn(f"{root} is read as it is: what was packed is {above}, as one dataset", stacklevel=3)
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

# Names of torch's arguments, by place.
PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
          "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator")


class _Given(dict):
    """The arguments of a torch DataLoader, by name."""

    def __init__(self, args, named):
        if len(args) > len(PLACES) or set(PLACES[:len(args)]) & set(named):
            torch.utils.data.DataLoader(*args, **named)  # raises, in its own words
        super().__init__(zip(PLACES, args), **named)

    def is_ours(self):
        sampler = self.get("sampler")
        return isinstance(self.get("dataset"), ImageFolder) and self.get("batch_sampler") is None and \
            self.get("batch_size", 1) is not None and \
            (sampler is None or type(sampler) is torch.utils.data.DistributedSampler)

    def mixes(self):
        sampler = self.get("sampler")
        return bool(self.get("shuffle")) if sampler is None else sampler.shuffle

    def part(self):
        """(rank, world). Without a sampler, torch gives every rank all of it: right for validation. In
        training, ranks that read the same would be a mistake, and what wraps torch's loaders (Lightning,
        Accelerate) does not know ours."""
        sampler = self.get("sampler")
        if sampler is not None:
            return sampler.rank, sampler.num_replicas
        return rank() if self.mixes() else (0, 1)

    def warn_of_parts(self):
        mine, world = self.part()
        if world > 1 and mine == 0 and self.get("sampler") is None:
            warnings.warn(f"each of {world} ranks reads its part of {self['dataset'].root}; without a "
                          "DistributedSampler, torch gives all of it to each", stacklevel=3)

    def seed(self):
        """Ranks must agree on it, so a seed that each may set otherwise is for one rank alone."""
        generator = self.get("generator")
        if self.get("sampler") is not None:
            return self["sampler"].seed
        if self.part()[1] > 1:
            return 0
        seed = torch.initial_seed() if generator is None else generator.initial_seed()
        return seed & (2**63 - 1)

    def samples(self):
        """A sampler that drops the last samples so that all ranks have as many drops the same ones each time
        if it does not shuffle."""
        sampler, all_of_it = self.get("sampler"), self["dataset"].dataset
        if sampler is None or sampler.shuffle or not sampler.drop_last:
            return all_of_it
        return all_of_it[:len(all_of_it) // sampler.num_replicas * sampler.num_replicas]


def _as_given(given):
    """Samples as the dataset's own code makes them, in worker processes."""
    return {"transform": given["dataset"]._made, "workers": given.get("num_workers", 0),
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
                      stacklevel=4)
        return _as_given(given)


class Pictures(Loader):
    """The Loader that stoker.torch.DataLoader gives: has the names of torch's, and its sampler's epoch."""

    def __init__(self, given):
        my_rank, world = given.part()
        super().__init__(given.samples(), given.get("batch_size", 1), shuffle=given.mixes(), seed=given.seed(),
                         last="drop" if given.get("drop_last") else "short", rank=my_rank, world=world,
                         pin_memory=given.get("pin_memory", False), **_how(given))
        self.dataset = given["dataset"]
        self.sampler, self.batch_size = given.get("sampler"), self.batch
        self.drop_last = bool(given.get("drop_last"))
        self.num_workers = given.get("num_workers", 0)
        self._set_epoch = getattr(self.sampler, "epoch", 0)  # what the program set last

    def __iter__(self):
        epoch = getattr(self.sampler, "epoch", 0)
        if epoch != self._set_epoch:
            self._set_epoch = epoch
            self.set_epoch(epoch)
        return super().__iter__()


def DataLoader(*args, **named):
    """A stoker Loader for a stoker.torch.ImageFolder, with the arguments of a torch DataLoader.

    Gives (pictures, labels), as torch's does: decoded by threads if torchvision's transforms are ones
    that the decoder has (RandomResizedCrop, Resize, CenterCrop, RandomHorizontalFlip, ToTensor,
    Normalize), else by the transform itself in `num_workers` processes. A rank gets the part that its
    DistributedSampler says; without one, its part of what is shuffled, and all of what is not. For
    other datasets and samplers it is torch's DataLoader.
    """
    given = _Given(args, named)
    if not given.is_ours():
        return torch.utils.data.DataLoader(**given)
    given.warn_of_parts()
    return Pictures(given)
