"""h5py.File and numpy.load for data that stoker reads: the same names and values, few large reads.

    f = stoker.arrays.File("train.h5", "r", packed={"/data/train.h5": "/data/train-packed"})
    x = stoker.arrays.load("train.npy", mmap_mode="r")

Rows of an array (x[i], x[a:b], x[[1, 5]], x[i, :, 3]) come from a stoker.Dataset: the packed one, or without `packed` the
file itself. Everything else is what h5py and NumPy give for the file, which is opened when it is needed. With
stoker.torch.DataLoader, rows are read ahead.
"""

import collections.abc
import os

import numpy

from stoker import _moved, _rows, files
from stoker._errors import Error
from stoker.dataset import Dataset

ROWS_MAX = 1024  # rows of one selection; h5py reads larger ones of a contiguous array at once
ENDINGS = (".h5", ".hdf5", ".he5", ".npy")


# ---- which samples are the rows of a file --------------------------------------------------------

class Rows(_rows.Source):
    """The rows of the arrays in one file. fields: {name: (shape, dtype, field of the samples)}; None for an array that
    is read otherwise."""

    def __init__(self, key, samples, fields=None):
        super().__init__(key, samples)
        self.fields = fields or {}

    def _kept(self):
        return self.samples, self.fields

    def numbers_of(self, values):
        found = _rows.integers(values)
        return found if found and max(found) < len(self) else None

    def row(self, name, number):
        """As h5py and NumPy give it: memory of its own, a scalar if the array has one dimension."""
        _, dtype, field = self.fields[name]
        return numpy.array(self.sample(number, field)[field], dtype)[()]

    def rows(self, name, numbers):
        shape, dtype, field = self.fields[name]
        made = numpy.empty((len(numbers), *shape[1:]), dtype)
        for i, sample in enumerate(self.several(numbers, field)):
            made[i] = sample[field]
        return made

    def take(self, name, array):
        """Whether this has the rows of `array`, which h5py or NumPy opened: its type and shape, and its first and last
        values. Packed data of another version of the file has others."""
        if name not in self.fields:
            field = self._field(name)
            like = field is not None and self._is_like(field, array)
            self.fields[name] = (array.shape, array.dtype, field) if like else None
        return self.fields[name] is not None

    def _field(self, name):
        """An NPY file does not know the name of its array."""
        fields = self.samples.fields
        if name in fields or self.samples.format != "npy":
            return name if name in fields else None
        return "data" if Dataset(self.key[1], write_index=False).fields == (name,) else None

    def _is_like(self, field, array):
        if not array.shape or len(array) != len(self) or array.dtype.kind not in "biuf" or array.dtype.metadata \
                or array.dtype.itemsize > 8:
            return False
        like = all(_same(self.samples[i].get(field), array[i]) for i in self._to_compare())
        if not like:
            _rows.unread(f"{field!r} of {self.key[1]}", f"{self.name} has other data")
        return like


    def _to_compare(self):
        """A copy that keeps its times does not look newer, but it was made later: more of its rows are compared."""
        _, path, place, *_ = self.key
        made = _moved.status(os.path.join(place[1], "manifest.json")) if place else None
        later = made is not None and os.stat(path).st_ctime > made.st_mtime
        return {0, len(self) - 1, *(range(0, len(self), max(1, len(self) // files.COMPARED)) if later else ())}


def _same(value, row):
    if value is None or isinstance(value, (str, bytes, list, dict)):
        return False
    value = numpy.asarray(value)
    return value.shape == row.shape and \
        numpy.array_equal(value.astype(row.dtype), row, equal_nan=row.dtype.kind == "f")


def _files_in(folder, ending):
    """Files of a folder, in the order in which they are one dataset."""
    found = [os.path.join(at, name) for at, _, names in _moved.walk(folder) for name in names
             if name.endswith(ending) and not name.startswith(".")]
    return sorted(found, key=lambda n: os.fsencode(os.path.relpath(n, folder)))


class _Folder:
    """A packed folder of files with rows: which samples are those of each file."""

    def __init__(self, old, new):
        self.samples, self.parts = Dataset(new), {}
        first = self.samples[0]["key"] if len(self.samples) else ""
        self.has_files = bool(first) and _moved.is_file(os.path.join(old, first))  # a sample is a file
        if not self.has_files and _moved.settings_of(new).get("shuffle") is not None:
            raise Error(f"{new} has its rows in another order")
        if _moved.is_file(old):
            self.parts[old] = range(len(self.samples))
        elif not self.has_files:
            self._count(_files_in(old, ENDINGS))
            if self._end != len(self.samples):
                raise Error(f"{new} has {len(self.samples)} samples, and the files of {old} have {self._end} rows")

    def _count(self, names):
        self._end = 0
        for name in names:
            first, self._end = self._end, self._end + len(Dataset(name, write_index=False))
            self.parts[name] = range(first, self._end)

    def part(self, path):
        numbers = self.parts.get(path)
        return None if numbers is None else self.samples[numbers.start:numbers.stop]


def _folder_of(place):
    """Where the rows of each file are in a packed dataset; None, after one warning, if that is not known."""
    def opened():
        try:
            return _Folder(*place)
        except (Error, OSError) as why:
            return _rows.unread(place[0], why)
    return _rows.source(("folder", *place), opened)


def _is_newer(path, new):
    made = os.path.join(new, "manifest.json")
    then = _moved.status(made)
    return then is not None and os.stat(path).st_mtime > then.st_mtime


def _place_of(name, packed):
    """(path, place it was packed to or None) of a file that is opened by that name; None: stoker does not read it."""
    if not isinstance(name, (str, bytes, os.PathLike)):
        return None
    path = os.path.abspath(os.fsdecode(name))
    place = None if packed is None else _moved.place_of(path, packed)
    if not os.path.isfile(path) or packed is not None and (place is None or not _moved.is_there(place[1], place[0])):
        return None
    return path, place


def _rows_of(name, packed):
    """The Rows of a file that is opened by that name, or None: its own library reads it."""
    found = _place_of(name, packed)
    if found is None or found[1] is not None and _folder_of(found[1]) is None:
        return None
    now = os.stat(found[0])
    key = ("rows", *found, now.st_mtime_ns, now.st_ctime_ns, now.st_size)  # a program may write the file, and read it again
    return _rows.source(key, lambda: _opened(key))


def _opened(key):
    _, path, place, *_ = key
    try:
        if place is None:
            return Rows(key, Dataset(path))
        if _is_newer(path, place[1]):
            return _rows.unread(path, f"it is newer than {place[1]}")
        samples = _folder_of(place).part(path)
        return None if samples is None else Rows(key, samples)
    except (Error, OSError) as why:
        return _rows.unread(path, why)


# ---- selections ----------------------------------------------------------------------------------

def _some_rows(key, n):
    """The rows of n that the first part of a selection means: a number, or a list; None: leave it to the library."""
    if _rows.is_number(key):
        return int(key) % n if -n <= key < n else None
    if isinstance(key, slice):
        if any(not (v is None or _rows.is_number(v)) for v in (key.start, key.stop, key.step)) or (key.step or 1) < 1:
            return None
        found = list(range(n)[key])
    elif isinstance(key, list) or type(key) is numpy.ndarray and key.ndim == 1:
        found = list(key)
        if not found or not all(map(_rows.is_number, found)) or not 0 <= found[0] <= found[-1] < n \
                or any(a >= b for a, b in zip(found, found[1:])):
            return None  # h5py refuses them
    else:
        return None
    return found if len(found) <= ROWS_MAX and len(found) < n else None


def _is_plain(part):
    if isinstance(part, slice):
        return all(v is None or _rows.is_number(v) for v in (part.start, part.stop, part.step)) and (part.step or 1) > 0
    return part is Ellipsis or _rows.is_number(part)


def _selected(source, name, key):
    """What array[key] is, or NotImplemented."""
    shape = source.fields[name][0]
    first, *rest = key if isinstance(key, tuple) and key else (key,)
    rows = _some_rows(first, shape[0])
    if rows is None or not all(map(_is_plain, rest)):
        return NotImplemented
    dots = rest.count(Ellipsis)
    if dots > 1 or len(rest) - dots >= len(shape):
        return NotImplemented
    one = isinstance(rows, int)
    if rest and not _takes_most(shape[1:], tuple(rest)) and not (one and source.has(rows, source.fields[name][2])):
        return NotImplemented  # a row is read as a whole
    made = source.row(name, rows) if one else source.rows(name, rows)
    if not one:
        return made[(slice(None), *rest)]
    return numpy.asarray(made)[tuple(rest)][()]


def _takes_most(shape, rest):
    row = numpy.broadcast_to(numpy.empty((), "b"), shape)
    try:
        return 2 * row[rest].size >= row.size
    except IndexError:
        return False


# ---- h5py ----------------------------------------------------------------------------------------

class _Handle:
    """The file as h5py opens it: when it is first needed, and again in another process."""

    def __init__(self, args, named):
        self._args, self._named = args, named
        self._file = self._pid = None
        self.closed = False

    def __call__(self):
        import h5py
        if self.closed:
            raise ValueError("the file is closed")
        if self._pid != os.getpid():
            if self._file is not None:
                self._file.close()  # of the process that was forked; HDF5 would give its descriptor again
            self._file, self._pid = h5py.File(*self._args, **self._named), os.getpid()
        return self._file

    def close(self):
        self.closed = True
        if self._file is not None and self._pid == os.getpid():
            self._file.close()

    def __getstate__(self):
        return {**self.__dict__, "_file": None, "_pid": None}


class _Object:
    """What a group and an array have in common: everything that is not here is as h5py has it."""

    _is = None  # its class in h5py, for isinstance()

    def __init__(self, handle, source, name):
        self._handle, self._source, self._name = handle, source, name

    @property
    def _real(self):
        return self._handle()[self._name or "/"]

    @property
    def __class__(self):
        import h5py
        return getattr(h5py, self._is)

    def __getattr__(self, name):
        if name.startswith("__"):  # pickle and copy look for some
            raise AttributeError(name)
        return getattr(self._real, name)

    def __reduce__(self):
        return _object, (type(self), {**self.__dict__})

    def __bool__(self):
        return not self._handle.closed

    def __eq__(self, other):
        return self._real == (other._real if isinstance(other, _Object) else other)

    def __hash__(self):
        return hash((type(self), self._name))

    def __repr__(self):
        return repr(self._real)


def _object(kind, state):
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


class Array(_Object):
    """An h5py.Dataset."""

    _is = "Dataset"

    def __init__(self, handle, source, name):
        super().__init__(handle, source, name)
        if source is not None:
            self.shape, self.dtype, _ = source.fields[name]
            self.ndim = len(self.shape)

    def __getitem__(self, key, *more):
        if self._source is not None and not more:
            made = _selected(self._source, self._name, key)
            if made is not NotImplemented:
                return made
        return self._real.__getitem__(key, *more)

    def __len__(self):
        return self.len()

    def len(self):
        return self._real.len() if self._source is None else self.shape[0]

    def __iter__(self):
        for i in range(len(self)):
            yield self[i]

    def __array__(self, *args, **named):
        return self._real.__array__(*args, **named)


class Group(_Object):
    """An h5py.Group."""

    _is = "Group"

    def _below(self, name):
        name = name.decode() if isinstance(name, bytes) else name
        words = name.split("/") if name.startswith("/") else [*self._name.split("/"), *name.split("/")]
        return "/".join(word for word in words if word not in ("", "."))

    def __getitem__(self, name):
        import h5py
        if not isinstance(name, (str, bytes)):
            return self._real[name]
        name, source = self._below(name), self._source
        if source is not None and source.fields.get(name) and not self._handle.closed:
            return Array(self._handle, source, name)
        found = self._handle()[name or "/"]
        if isinstance(found, h5py.Dataset):
            served = source is not None and found.shape is not None and source.take(name, found)
            return Array(self._handle, source if served else None, name)
        return Group(self._handle, source, name) if isinstance(found, h5py.Group) else found

    def get(self, name, default=None, **named):
        if named:
            return self._real.get(name, default, **named)
        return self[name] if name in self else default

    def __contains__(self, name):
        return name in self._real

    def __iter__(self):
        return iter(self._real)

    def __len__(self):
        return len(self._real)

    def keys(self):
        return self._real.keys()

    def values(self):
        return collections.abc.ValuesView(self)

    def items(self):
        return collections.abc.ItemsView(self)


class File(Group):
    """An h5py.File that is only read. packed: {file or folder: its packed dataset}."""

    _is = "File"

    def __init__(self, name, mode="r", *args, packed=None, **named):
        plain = mode == "r" and not named.get("swmr") and named.get("driver") is None
        super().__init__(_Handle((name, mode, *args), named), _rows_of(name, packed) if plain else None, "")
        if self._source is None:
            self._handle()  # it says what is wrong with the file, if anything

    @property
    def _real(self):
        return self._handle()

    def close(self):
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


# ---- NumPy ---------------------------------------------------------------------------------------

class Mapped(numpy.memmap):
    """A numpy.memmap whose rows, by their number, come from stoker. Parts of it are mapped, too."""

    _source = _call = None

    def __array_finalize__(self, base):
        super().__array_finalize__(base)
        self._source = self._call = None  # of a view, row i is another

    def __getitem__(self, key):
        # With an ellipsis, NumPy gives arrays of no dimensions.
        first, *rest = key if type(key) is tuple and key else (key,)
        if self._source is not None and _rows.is_number(first) and not any(k is Ellipsis for k in rest):
            made = _selected(self._source, "data", key)
            if made is not NotImplemented:
                return made
        elif self._source is not None:
            self._note(first)
        return super().__getitem__(key)

    def _note(self, key):
        """Rows that are mapped are not read ahead."""
        rows = _some_rows(key, len(self))
        for row in rows if isinstance(rows, list) else ():
            _rows.note(self._source, row, "data")

    def __reduce__(self):
        return super().__reduce__() if self._call is None else (_load, self._call)


def _load(args, named):
    return load(*args, **named)


def _is_sample(file, packed):
    """Whether a file is a sample by itself, not the rows of several."""
    found = _place_of(file, packed) if packed else None
    folder = _folder_of(found[1]) if found else None
    return folder is not None and folder.has_files


def load(file, mmap_mode=None, *args, packed=None, **named):
    """numpy.load. An array that is mapped to be read (mmap_mode="r") has rows of stoker. packed: {file or folder: its
    packed dataset}."""
    if mmap_mode == "r" and _is_sample(file, packed):
        return numpy.load(files.member(file, packed), None, *args, **named)
    made = numpy.load(file, mmap_mode, *args, **named)
    if mmap_mode != "r" or type(made) is not numpy.memmap:
        return made
    source = _rows_of(file, packed)
    if source is None or not source.take("data", made):
        return made
    made = made.view(Mapped)
    made._source, made._call = source, ((file, mmap_mode, *args), {**named, "packed": packed})
    return made
