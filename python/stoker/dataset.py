"""Random access to a dataset of any format."""

import operator
import os

from stoker import _stoker
from stoker._options import DATASET, document, take_dataset_options

# The thread that reads datasets on a network for this one: a fork shall not find it.
os.register_at_fork(before=_stoker.end_helper)


class Dataset:
    """A file or folder of any format stoker reads, as a sequence of samples.

    `ds[i]` is a dict: `"key"`, and the fields of the sample. Byte strings are `bytes`, text is
    `str`, JSON is what it says, numbers are numbers, arrays are NumPy arrays (`stoker.Array` where
    there is no NumPy) that keep their memory alive. `ds[a:b:c]` is a view that reads nothing yet.

    It can be pickled, and used by several threads and in forked or spawned processes: they open
    it again.

    {options}

    `header` may be True or False, too, and `types` a dict: {"x": "int"}. `index` is a path.
    """

    def __init__(self, path, **options):
        self.path = os.fspath(path)
        self._options = take_dataset_options(options)
        self._closed = False
        self._handle = _stoker.Dataset(self.path, **self._options)
        self._options.pop("rebuild", None)  # was for this time

    @property
    def handle(self):
        """The open dataset of this process."""
        handle = self._handle
        if self._closed:
            raise ValueError("the dataset is closed")
        if handle is None or handle.pid != os.getpid():
            handle = self._handle = _stoker.Dataset(self.path, **self._options)
        return handle

    def __len__(self):
        return len(self.handle)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return View(self, range(len(self))[i])
        handle, i = self.handle, operator.index(i)
        n = len(handle)
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
        return handle.read(i + n if i < 0 else i)

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]

    @property
    def format(self):
        """The name of the format, as `stoker formats` lists it."""
        return self.handle.format

    @property
    def classes(self):
        """Names of the classes that labels count, or an empty tuple."""
        return self.handle.classes

    @property
    def left_out(self):
        """What is in the files but is not read, for reasons other than damage: a list of
        {"kind": "link", "count": 2, "names": ("a", "b"), "why": "..."}; empty: all is read."""
        return [{"kind": kind, "count": count, "names": names, "why": why}
                for taken, kind, _, why, count, names in self.handle.notes if not taken]

    @property
    def taken(self):
        """What was guessed: a list of {"what": "sample", "as": "...", "because": "..."}."""
        return [{"what": kind, "as": as_, "because": why}
                for taken, kind, as_, why, _, _ in self.handle.notes if taken]

    @property
    def fields(self):
        """Names of the fields of the first sample."""
        return tuple(name for name in self[0] if name != "key") if len(self) else ()

    def close(self):
        """Lets go of the files. Arrays, loaders and batches that need them keep them open."""
        self._closed = True
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __getstate__(self):
        return {**self.__dict__, "_handle": None}

    def __repr__(self):
        what = "closed" if self._closed else f"{self.format}, {len(self)} samples"
        return f"<stoker.Dataset {self.path!r}: {what}>"


document(Dataset, DATASET)


class View:
    """Some samples of a dataset, in some order: what slicing a Dataset gives."""

    def __init__(self, dataset, numbers):
        self.dataset = dataset
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, i):
        if isinstance(i, slice):
            return View(self.dataset, self.numbers[i])
        return self.dataset[self.numbers[i]]

    def __iter__(self):
        for i in self.numbers:
            yield self.dataset[i]

    def __repr__(self):
        return f"<{len(self)} samples of {self.dataset!r}>"
