"""Random access to a dataset of any format, and to parts of one."""

import array
import operator
import os

from stoker import _stoker
from stoker._errors import UsageError
from stoker._options import DATASET, document, take_dataset_options

# The thread that reads datasets on a network for this one: a fork must not find it.
os.register_at_fork(before=_stoker.end_helper)


# ---- numbers of samples ------------------------------------------------------------------------

def _from_array(indices):
    """A NumPy array, a tensor: whole numbers, or a mask of True and False."""
    import numpy
    indices = numpy.asarray(indices)
    if indices.ndim != 1 or indices.dtype.kind not in "iub":
        raise TypeError(f"indices are whole numbers in one dimension, not {indices.dtype} of "
                        f"shape {indices.shape}")
    return indices


def _as_integers(indices, n):
    """(a list or an array of whole numbers, as bytes of int64 they can be taken from)"""
    if hasattr(indices, "__array__"):
        indices = _from_array(indices)
        masked = indices.dtype.kind == "b"
        listed = indices.nonzero()[0] if masked else indices
        listed = listed.tolist() if listed.dtype.kind == "u" else listed.astype("i8")
    else:
        indices = listed = list(indices)
        masked = bool(indices) and isinstance(indices[0], bool)
        if masked:
            listed = [i for i, wanted in enumerate(indices) if wanted]
    if masked and len(indices) != n:
        raise IndexError(f"a mask of {len(indices)} for {n} samples")
    if isinstance(listed, list):
        return array.array("q", map(operator.index, listed))
    numbers = array.array("q")
    numbers.frombytes(listed.tobytes())
    return numbers


def numbers_of(indices, n):
    """Indices of n samples as numbers from 0 on: a range, or an array of uint64."""
    if isinstance(indices, range):
        if not indices or (-n <= min(indices[0], indices[-1]) and max(indices[0], indices[-1]) < n
                           and (indices[0] < 0) == (indices[-1] < 0)):
            shift = n if indices and indices[0] < 0 else 0
            return range(indices.start + shift, indices.stop + shift, indices.step)
    found = _as_integers(indices, n)
    for i in (min(found), max(found)) if found else ():
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
    if found and min(found) < 0:
        found = (i + n if i < 0 else i for i in found)
    return array.array("Q", found)


def _shares(parts, n):
    """Fractions of n samples; counts are fractions, too."""
    if not parts:
        raise UsageError("split() needs the sizes of the parts: split(0.9, 0.1)")
    counts = [operator.index(p) for p in parts if hasattr(p, "__index__")]
    if len(counts) == len(parts):
        if sum(counts) > n or min(counts) < 0:
            raise UsageError(f"split({', '.join(map(str, parts))}): there are {n} samples")
        return [p / n if n else 0.0 for p in counts]
    if counts:
        raise UsageError("the parts of a split are all fractions (0.9, 0.1) or all counts "
                         "(900, 100)")
    return [float(p) for p in parts]


class Samples:
    """What a dataset and a part of one have in common: a sequence of samples."""

    @property
    def handle(self):
        """The open dataset of this process."""
        raise NotImplementedError

    def _part(self, numbers):
        """A view of the samples `numbers`, which are among ours."""
        raise NotImplementedError

    def __len__(self):
        return len(self.handle)

    def _number(self, i):
        i, n = operator.index(i), len(self)
        if not -n <= i < n:
            raise IndexError(f"sample {i} of {n}")
        return i + n if i < 0 else i

    def __getitem__(self, i):
        if isinstance(i, slice):
            return self._part(range(len(self))[i])
        return self.handle.read(self._number(i))

    def __getitems__(self, indices):
        """Several samples as a list, in as few reads as possible. A torch DataLoader calls it."""
        return self.handle.read_many(array.array("Q", map(self._number, indices)).tobytes())

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
    def fields(self):
        """Names of the fields of the first sample."""
        return tuple(name for name in self[0] if name != "key") if len(self) else ()

    # -- parts --

    def subset(self, indices):
        """The samples `indices`, in that order: a list, a range, an array, or a mask of True and
        False. Nothing is read. A sample may be named more than once."""
        return self._part(numbers_of(indices, len(self)))

    def split(self, *parts, seed=0, shuffle=True, stratify=None):
        """Parts that have no sample in common, of the sizes given as fractions, split(0.9, 0.1), or
        counts, split(50000, 10000); sizes that do not add up to all leave samples out.

        Which samples a part has depends on `seed` and the number of samples alone; they come in the
        order they are stored in. shuffle=False: the first samples are the first part, and so on.
        stratify: every class is divided in the same proportions; the name of the field of the
        classes ("label"), or a sequence of the class of each sample.
        """
        n, shares = len(self), _shares(parts, len(self))
        if not shuffle:
            if stratify is not None:
                raise UsageError("stratify= needs shuffle=True")
            return self._cut(shares)
        strata, nstrata = (None, 1) if stratify is None else self._strata(stratify)
        found = _stoker.divide(n, strata, nstrata, array.array("d", shares).tobytes(), seed)
        return tuple(self._part(_numbers_from(one)) for one in found)

    def _cut(self, shares):
        n, at, parts = len(self), 0.0, []
        if sum(shares) > 1 + 1e-9:
            raise UsageError(f"the shares add up to {sum(shares):g}, more than all")
        for share in shares:
            parts.append(self[round(at * n):round((at + share) * n)])
            at += share
        return tuple(parts)

    def _strata(self, stratify):
        """(the class of each sample as a number, bytes of uint32; the number of classes)"""
        classes = self.column(stratify) if isinstance(stratify, str) else stratify
        classes = classes.tolist() if hasattr(classes, "tolist") else list(classes)
        if len(classes) != len(self):
            raise UsageError(f"stratify: {len(classes)} classes of {len(self)} samples")
        number = {c: i for i, c in enumerate(sorted(set(classes), key=lambda c: (str(type(c)), c)))}
        return array.array("I", (number[c] for c in classes)).tobytes(), max(1, len(number))

    def column(self, name):
        """The field `name` of all samples: an array where they are numbers or arrays of one shape,
        else a list. Other fields are not read where the format allows it."""
        from stoker.loader import Loader
        with Loader(self, batch=4096, shuffle="none", last="short", fields=name, rank=0,
                    world=1) as loader:
            columns = [batch[name] for batch in loader]
        if columns and all(hasattr(c, "dtype") and hasattr(c, "flags") for c in columns) \
                and len({(c.dtype, c.shape[1:]) for c in columns}) == 1:
            import numpy
            return numpy.concatenate(columns)
        return [v for c in columns for v in (c if isinstance(c, list) else c.tolist())]


def _numbers_from(data):
    numbers = array.array("Q")
    numbers.frombytes(data)
    return numbers


class Dataset(Samples):
    """A file or folder of any format stoker reads, as a sequence of samples.

    `ds[i]` is a dict: `"key"`, and the fields of the sample. Byte strings are `bytes`, text is
    `str`, JSON is the value, numbers are numbers, arrays are NumPy arrays (`stoker.Array` where
    there is no NumPy) that keep their memory alive. `ds[a:b:c]`, `ds.subset(indices)` and
    `ds.split(0.9, 0.1)` are views that read nothing yet; a `Loader` takes them.

    It can be pickled, and used by several threads and in forked or spawned processes, which open
    it again.

    {options}

    `header` may also be True or False, and `types` a dict: {"x": "int"}. `index` is a path.
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

    def _part(self, numbers):
        return View(self, numbers)

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

    def close(self):
        """Closes the files. Arrays, loaders and batches that need them keep them open."""
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


class View(Samples):
    """Some samples of a dataset, in some order: a slice, a subset, a part of a split.

    `numbers` are those of the dataset: `view[i]` is `view.dataset[view.numbers[i]]`.
    """

    def __init__(self, dataset, numbers):
        self.dataset = dataset
        self.numbers = numbers
        self._handle = self._of = None

    @property
    def path(self):
        """The dataset's."""
        return self.dataset.path

    @property
    def handle(self):
        whole = self.dataset.handle
        if self._of is not whole:
            self._handle, self._of = part_of(whole, self.numbers), whole
        return self._handle

    def _part(self, numbers):
        if isinstance(numbers, range) and isinstance(self.numbers, range):
            ours = self.numbers
            numbers = range(ours.start + numbers.start * ours.step,
                            ours.start + numbers.stop * ours.step, ours.step * numbers.step)
        else:
            numbers = array.array("Q", (self.numbers[i] for i in numbers))
        return View(self.dataset, numbers)

    def __len__(self):
        return len(self.numbers)

    def __getstate__(self):
        return {**self.__dict__, "_handle": None, "_of": None}

    def __repr__(self):
        return f"<{len(self)} samples of {self.dataset!r}>"


def part_of(handle, numbers):
    """The extension's dataset of some samples of another one."""
    if isinstance(numbers, range):
        return handle.slice(numbers.start if numbers else 0, numbers.step, len(numbers))
    return handle.subset(numbers.tobytes())
