"""Random access to a dataset of any format."""

import operator
import os

from stoker import _stoker

# The thread that reads datasets on a network for this one: a fork shall not find it.
os.register_at_fork(before=_stoker.end_helper)


class Dataset:
    """A file or folder of any format stoker reads, as a sequence of samples.

    `ds[i]` is a dict: `"key"`, and the fields of the sample. Byte strings are `bytes`, text is
    `str`, JSON is what it says, numbers are numbers, arrays are NumPy arrays (`stoker.Array` where
    there is no NumPy) that keep their memory alive. `ds[a:b:c]` is a view that reads nothing yet.

    It can be pickled, and used by several threads and in forked or spawned processes: they open
    it again.

    format       "tfrecord", "tar", … (None: found out)
    payload      what records hold: "example", "raw", …
    datasets     of HDF5 and NPZ, the arrays that are fields: "x,y", "test/*" (None: found out)
    index        where the index is (None: beside the data, else in the cache)
    group        files of one stem (a.jpg, a.json) are one sample
    header       CSV, TSV: the first row names the columns: True, False (None: found out)
    types        CSV, TSV: types of columns, {"x": "int"}: int, float, text, bool, json, bytes
    split        "train", … where names of files or folders tell it (None: all of them)
    jobs         threads that build an index (0: one a core)
    rebuild      ignore an index that is there
    write_index  False: publish no index
    pass_over    True: open what is left of a damaged dataset; reading a bad sample fails
    """

    def __init__(self, path, *, format=None, payload=None, index=None, group=False, split=None, jobs=0,
                 rebuild=False, write_index=True, pass_over=False, datasets=None,
                 header=None, types=None):
        self.path = os.fspath(path)
        self._options = {"format": format, "payload": payload, "group": group, "split": split,
                         "jobs": jobs,
                         "write_index": write_index, "pass_over": pass_over,
                         "datasets": datasets}
        if header is not None:
            self._options["header"] = "yes" if header else "no"
        if types:
            self._options["types"] = ",".join(f"{name}={kind}" for name, kind in types.items())
        if index is not None:
            self._options["index"] = index
        self._closed = False
        self._handle = _stoker.Dataset(self.path, rebuild=rebuild, **self._options)

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
