"""torchvision's ImageFolder over stoker, and what its pictures need of a loader: see _dataloader.py."""

import array
import functools
import io
import os

import torch
import torch.utils.data

from stoker import _moved, _rows, files, loader as _loader
from stoker._dataloader import Feed, as_given
from stoker._errors import UsageError, warn
from stoker._options import image
from stoker.dataset import Samples, View
from stoker.torch import MapDataset


DECODED = (".jpg", ".jpeg", ".png")  # pictures that the decoder knows, by their names


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


def _listed(root):
    """(classes, [(path, class)]) as torchvision lists a folder; None: one of the two is not there."""
    try:
        from torchvision.datasets import folder
    except ImportError:
        return None
    if not _moved.is_folder(root):
        return None
    classes, numbers = folder.find_classes(root)
    return classes, _made(root, numbers, folder)


def _made(root, numbers, folder):
    """torchvision's make_dataset(), which leaves out folders that it cannot list; here that is an error."""
    found = [(os.path.join(at, name), numbers[label]) for label in sorted(numbers)
             for at, _, names in sorted(_moved.walk(os.path.join(root, label), followlinks=True))
             for name in sorted(names) if folder.has_file_allowed_extension(name, folder.IMG_EXTENSIONS)]
    if len({number for _, number in found}) < len(numbers):  # it says what it makes of that
        return folder.make_dataset(root, numbers, folder.IMG_EXTENSIONS)
    return found


class _Unpacked:
    """The pictures of a folder, in the form of stoker's samples, if stoker's dataset has others."""

    def __init__(self, classes, samples):
        self.classes, self.fields, self._samples = classes, ("data", "label"), samples

    def __len__(self):
        return len(self._samples)

    def __getitem__(self, i):
        path, label = self._samples[i]
        with open(path, "rb") as f:
            return {"data": f.read(), "label": label}

    def __getitems__(self, indices):
        return [self[i] for i in indices]


class _Pictures(_rows.Source):
    """Those of an ImageFolder, for a Dataset of the program that has one: _primed.py reads them ahead."""

    def numbers_of(self, values):
        return _rows.integers(values)


class ImageFolder(MapDataset):
    """torchvision's ImageFolder: (picture, class), from a folder of pictures or a packed one.

    packed      {folder: packed dataset}: read instead of that folder. Another root is read as it is.
    transform, target_transform   as in torchvision; a picture is a PIL image in RGB

    If the folder is there, its pictures are those that torchvision lists, in the same order. If only the packed dataset
    is, they come in the order in which they were packed.
    """

    def __init__(self, root, transform=None, target_transform=None, *, packed=None):
        self.root = os.path.expanduser(os.fspath(root))
        place, listed = _packed_of(self.root, packed or {}), _listed(self.root)
        super().__init__(place, follow_links=place == self.root)
        self._samples = listed and listed[1]
        if listed is not None:
            self.dataset = self._as_listed(*listed)
        self.transform, self.target_transform = transform, target_transform
        self.classes = list(self.dataset.classes)
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        fields = list(self.dataset.fields)
        self.label = next((f for f in ("label", "cls") if f in fields), None)
        self.image = next((f for f in fields if f not in (self.label, "key")), None)
        if self.label is None or self.image is None:
            raise ValueError(f"{self.dataset.path}: an ImageFolder has a picture and a label per "
                             f"sample; this dataset has {', '.join(fields) or 'no fields'}")
        self._source = _Pictures(("pictures", self.root, place), self.dataset) if isinstance(self.dataset, Samples) else None

    def _as_listed(self, classes, samples):
        """The pictures that torchvision lists, in its order: by default stoker follows no links, and a dataset may be
        shuffled, or have other files, too."""
        have, top = self.dataset, len(os.path.join(self.root, ""))
        keys = files.keys_of(self.root, have.path, have) if len(have) else []
        at = {key: i for i, key in enumerate(keys)}
        numbers = [at.get(path[top:]) for path, _ in samples]
        lacks = [path for (path, _), n in zip(samples, numbers) if n is None]
        other = files.changed(self.root, keys, have) if have.path != self.root and "data" in have.fields else []
        if other:
            files.say_changed(self.root, other, have.path)
            return _Unpacked(classes, samples)
        if lacks or list(have.classes) != classes:
            why = f"does not have {lacks[0]}" if lacks else "has other classes"
            warn(f"{self.root} is read by its files, nothing is read ahead by stoker: its dataset {have.path} {why}")
            return _Unpacked(classes, samples)
        return have if numbers == list(range(len(have))) else have.subset(numbers)

    def __getattr__(self, name):
        """What only torchvision's has: loader, extensions, find_classes(), …"""
        if name.startswith("_") or not os.path.isdir(self.root):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self._theirs, name)

    @functools.cached_property
    def _theirs(self):
        from torchvision.datasets import ImageFolder as Theirs
        return Theirs(self.root, self.transform, self.target_transform)

    def _made(self, sample):
        picture, label = _open_picture(sample[self.image]), int(sample[self.label])
        if self.transform is not None:
            picture = self.transform(picture)
        return picture, label if self.target_transform is None else self.target_transform(label)

    def __getitem__(self, i):
        if self._source is None or not 0 <= i < len(self):
            return self._made(self.dataset[i])
        _rows.note(self._source, i, self.label)
        return self._made(self._source.sample(i, self.image))

    def __getitems__(self, indices):
        return [self._made(s) for s in self.dataset.__getitems__(indices)]

    @functools.cached_property  # torchvision's can be assigned, too
    def targets(self):
        return [label for _, label in self.samples]

    @property
    def samples(self):
        """[(name, class)]: the path of a picture below root, also if it is read from a packed dataset."""
        if self._samples is None:
            with _loader.Loader(self.dataset, batch=4096, shuffle="none", last="short", fields=self.label,
                                keys=True, rank=0, world=1, tier="off") as batches:
                self._samples = [(os.path.join(self.root, key), int(label)) for b in batches
                                 for key, label in zip(b["key"], b[self.label])]
        return list(self._samples)

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

def _decoded(given, dataset):
    if dataset.target_transform is not None or given.get("collate_fn") is not None:
        raise Unlike("target_transform and collate_fn are code")
    other = next((path for path, _ in dataset._samples or () if not path.lower().endswith(DECODED)), None)
    if other is not None:
        raise Unlike(f"{other} is neither JPEG nor PNG")
    return {"decode": decode_of(dataset.transform, dataset.image),
            "as_tuple": (dataset.image, dataset.label)}


def folder_of(dataset):
    """(ImageFolder, which of its pictures or None for all) of a dataset that is one, or a Subset of one; else None."""
    indices = None
    while type(dataset) is torch.utils.data.Subset:
        indices = dataset.indices if indices is None else [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    ours = isinstance(dataset, ImageFolder) and isinstance(dataset.dataset, Samples)
    return (dataset, indices) if ours else None


def _as_stored(samples):
    """The same in the order of the files: neighbours are read together."""
    if not isinstance(samples, View) or isinstance(samples.numbers, range):
        return samples
    return View(samples.dataset, array.array("Q", sorted(samples.numbers)))


def feed(given):
    """Pictures that threads decode, if they can; else samples as the folder's own code makes them."""
    found = folder_of(given["dataset"])
    if found is None:
        return None
    folder, indices = found
    try:
        how = _decoded(given, folder)
    except Unlike as why:
        warn(f"stoker reads {folder.root}, but does not decode it: {why}")
        how = as_given(given, folder._made)
    samples = folder.dataset if indices is None else folder.dataset.subset(indices)
    return Feed(_as_stored(samples) if given.mixes() else samples, folder.root, how)
