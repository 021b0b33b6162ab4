"""stoker.torch.DataLoader: torch's, but for datasets whose samples stoker can read ahead.

A Feed says what the loader reads and what it makes of it. _pictures.py has one for stoker's ImageFolder, _primed.py
one for datasets with code of their own.
"""

import collections
import hashlib
import os
import weakref

import torch
import torch.utils.data

from stoker._errors import warn
from stoker.torch import Loader, rank

# Names of torch's arguments, by place.
PLACES = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
          "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator")

# samples: those of stoker, in the order of the dataset; name: for messages; options: of the Loader, which make the
# program's samples of them. numbered: that code gets (number, sample); inline: it runs in the calling process.
Feed = collections.namedtuple("Feed", "samples name options numbered inline", defaults=(False, None))


class Given(dict):
    """The arguments of a torch DataLoader, by name."""

    def __init__(self, args, named):
        if len(args) > len(PLACES) or set(PLACES[:len(args)]) & set(named):
            torch.utils.data.DataLoader(*args, **named)  # raises, in its own words
        super().__init__(zip(PLACES, args), **named)

    def only_for_torch(self):
        """Why stoker cannot read ahead in the order of this loader; None: it can."""
        sampler = self.get("batch_sampler") or self.get("sampler")
        if sampler is not None and type(sampler) is not torch.utils.data.DistributedSampler:
            return f"the order of its {type(sampler).__name__} is not known in advance"
        return None if self.get("batch_size", 1) is not None else "batch_size=None is for single samples"

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

    def warn_of_parts(self, name):
        mine, world = self.part()
        if world > 1 and mine == 0 and self.get("sampler") is None:
            warn(f"each of {world} ranks reads its part of {name}; without a DistributedSampler, torch gives all of it to "
                 "each")

    def seed(self):
        """Ranks must agree on it, so a seed that each may set otherwise is for one rank alone. A program may make a loader
        for each epoch, each with another order: the state of the generator, which every loop changes, says which."""
        if self.get("sampler") is not None:
            return self["sampler"].seed
        if self.part()[1] > 1:
            return 0
        generator = self.get("generator") or torch.default_generator
        return int.from_bytes(hashlib.sha256(bytes(generator.get_state().tolist())).digest()[:8], "little") >> 1

    def draw(self):
        """As the loops of torch's loader do."""
        torch.empty((), dtype=torch.int64).random_(generator=self.get("generator"))

    def taken(self, samples):
        """A sampler that drops the last samples so that all ranks have as many drops the same ones each time
        if it does not shuffle."""
        sampler = self.get("sampler")
        if sampler is None or sampler.shuffle or not sampler.drop_last:
            return samples
        return samples[:len(samples) // sampler.num_replicas * sampler.num_replicas]


def as_given(given, transform):
    """Samples as code of the program makes them, in worker processes."""
    return {"transform": transform, "workers": given.get("num_workers", 0),
            "multiprocessing_context": _start_method(given.get("multiprocessing_context")),
            "collate": given.get("collate_fn") or torch.utils.data.default_collate}


def _start_method(context):
    return context if context is None or isinstance(context, str) else context.get_start_method()


class Loop:
    """The batches of one pass."""

    def __init__(self, batches):
        self._batches, self.ended = batches, False

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return next(self._batches)
        except StopIteration:
            self.ended = True
            raise


class Fed(Loader):
    """The Loader that stoker.torch.DataLoader gives: has the names of torch's, and its sampler's epoch."""

    def __init__(self, given, feed):
        my_rank, world = given.part()
        self._inline, self._numbered = feed.inline, feed.numbered
        self._theirs = torch.utils.data.DataLoader(**given)  # for what a program asks it; it reads nothing
        self._made_of, self._loop, self._other = (given, feed), None, None
        super().__init__(given.taken(feed.samples), given.get("batch_size", 1), shuffle=given.mixes(),
                         seed=given.seed(), last="drop" if given.get("drop_last") else "short", rank=my_rank,
                         world=world, pin_memory=given.get("pin_memory", False), **feed.options)
        self.dataset, self.sampler = self._theirs.dataset, self._theirs.sampler
        self.batch_size, self.drop_last, self.num_workers = self.batch, self._theirs.drop_last, self._theirs.num_workers
        self._set_epoch = 0  # what the program set last

    def __getattr__(self, name):
        """collate_fn, batch_sampler, timeout, …"""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._theirs, name)

    def __getstate__(self):
        return {**super().__getstate__(), "_loop": None, "_other": None}

    def _samples(self, held):
        made = super()._samples(held)
        return made if self._inline is None else [self._inline(sample) for sample in made]

    def __iter__(self):
        loop = self._loop and self._loop()
        if loop is not None and not loop.ended:
            return iter(self._beside())
        epoch = getattr(self.sampler, "epoch", 0)
        if epoch != self._set_epoch:
            self._set_epoch = epoch
            self.set_epoch(epoch)
        self._made_of[0].draw()
        loop = Loop(super().__iter__())
        self._loop = weakref.ref(loop)
        return loop

    def _beside(self):
        """A loader for loops that begin while the program still has one that has not ended, as torch allows."""
        if self._other is None:
            self._other = Fed(*self._made_of)
            self._other.set_epoch(getattr(self.sampler, "epoch", self.epoch + 1))
        return self._other


def DataLoader(*args, **named):
    """A stoker Loader for a dataset that stoker can read ahead, with the arguments of a torch DataLoader.

    Of a stoker.torch.ImageFolder it gives (pictures, labels), as torch's does: decoded by threads if torchvision's
    transforms are ones that the decoder has (RandomResizedCrop, Resize, CenterCrop, RandomHorizontalFlip, ToTensor,
    Normalize), else by the transform itself in `num_workers` processes. Of a dataset that reads rows by
    stoker.arrays, or files by stoker.files, it gives what the dataset's own code makes of them. A rank gets the
    part that its DistributedSampler says; without one, its part of what is shuffled, and all of what is not. For
    other datasets and samplers it is torch's DataLoader.
    """
    from stoker import _pictures, _primed
    given = Given(args, named)
    if isinstance(given.get("dataset"), (str, bytes, os.PathLike)):
        raise TypeError(f"stoker.torch.DataLoader takes a dataset, as torch's does, and not a path: "
                        f"stoker.torch.Loader({given['dataset']!r}, …) reads a path, with the same arguments, and "
                        f"stoker.torch.MapDataset({given['dataset']!r}) is a dataset")
    why = given.only_for_torch()
    if "dataset" in given and why:
        if _pictures.folder_of(given["dataset"]) or any(_primed.asked_by(given["dataset"]).values()):
            warn(f"torch's DataLoader reads packed data, nothing is read ahead by stoker: {why}. More workers help (num_workers)")
    elif "dataset" in given:
        feed = _pictures.feed(given) or _primed.feed(given)
        if feed:
            given.warn_of_parts(feed.name)
            return Fed(given, feed)
    return torch.utils.data.DataLoader(**given)
