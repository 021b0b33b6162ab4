"""Files of a folder that was packed: their bytes, from the packed dataset.

    with stoker.files.open("/data/train/1.jpg", "rb", packed={"/data/train": "/data/train-packed"}) as f: ...
    image = PIL.Image.open(stoker.files.member(path, {"/data/train": "/data/train-packed"}))

A file that is not in it is opened where it is. With stoker.torch.DataLoader, the files of a dataset are read ahead.
"""

import array
import builtins
import concurrent.futures
import io
import os
import pathlib

from stoker import _moved, _rows, _stoker
from stoker._errors import Error, warn
from stoker.dataset import Dataset
from stoker.loader import Loader


class Member(io.BytesIO):
    """A file in memory. It has a name, as files have, and a descriptor if it is asked for one."""

    def __init__(self, data, name):
        super().__init__(data)
        self.name, self._descriptor = name, None

    def fileno(self):
        """For what reads by a descriptor (numpy.fromfile, mmap): a file in memory with the same bytes, at the same place."""
        if self._descriptor is None:
            self._descriptor = os.memfd_create(os.path.basename(os.fsdecode(self.name))[:200])
            with builtins.open(self._descriptor, "wb", closefd=False) as f:
                f.write(self.getbuffer())
        os.lseek(self._descriptor, self.tell(), os.SEEK_SET)
        return self._descriptor

    def close(self):
        descriptor, self._descriptor = getattr(self, "_descriptor", None), None
        if descriptor is not None:
            os.close(descriptor)
        super().close()


# ---- which sample a file is ----------------------------------------------------------------------

class Files(_rows.Source):
    """The files of a folder. numbers: {name below the folder: number of its sample}."""

    FIELD = "data"

    def __init__(self, key, samples, numbers):
        super().__init__(key, samples)
        self._numbers = numbers

    def _kept(self):
        return self.samples, self._numbers

    def _name(self, path):
        """The name of a file below the folder; None: it is no path, or of another place."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None
        path, folder = os.fsdecode(path), self.key[1]
        if path in self._numbers:
            return path
        name = os.path.relpath(os.path.abspath(path), folder) if not path.startswith(folder + "/") \
            else path[len(folder) + 1:]
        return name if name in self._numbers else os.path.normpath(name)

    def number(self, path):
        return self._numbers.get(self._name(path))

    def _number_of(self, value):
        """Of a path, or of what has one: (path, class)."""
        parts = value if isinstance(value, (tuple, list)) else (value,)
        return next((n for n in map(self.number, parts) if n is not None), None)

    def numbers_of(self, values):
        try:
            if self._number_of(values[0]) is None:
                return None
            found = [self._number_of(value) for value in values]
        except (KeyError, IndexError, TypeError):
            return None
        return None if None in found else found

    def read(self, path):
        """The bytes of a file, or None: they are not known, or no longer those that it has."""
        number = self.number(path)
        sample = {} if number is None else self.sample(number, self.FIELD)
        data = sample.get(self.FIELD)
        return data if type(data) is bytes and sample.get("key") == self._name(path) else None


def _keys(samples):
    """The keys of all samples; of a folder or an image, nothing is read for them."""
    with Loader(samples, batch=4096, shuffle="none", last="short", fields=(), keys=True, rank=0, world=1,
                tier="off") as batches:
        return [key for batch in batches for key in batch["key"]]


def _walked(folder):
    """Names of the files below a folder, in the order in which they are one dataset. Nothing is asked about each file:
    that would take longer than to list the folder."""
    top, names = len(os.path.join(folder, "")), []
    for at, folders, files in _moved.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        names += [os.path.join(at, name)[top:] for name in files if not name.startswith(".")]
    return sorted(names, key=os.fsencode)


def _lists(folder, packed):
    """Names that may be those of the packed files, before they were shuffled. Each list takes longer than the last."""
    names = _walked(folder)
    yield names
    endings = {os.path.splitext(packed[i]["key"])[1] for i in _some(packed)}
    yield [name for name in names if os.path.splitext(name)[1] in endings]
    yield _keys(Dataset(folder, write_index=False))


def _some(samples):
    return {0, len(samples) // 2, len(samples) - 1}


def _fits(keys, packed):
    return len(keys) == len(packed) and all(packed[i]["key"] == keys[i] for i in _some(packed))


def keys_of(folder, place, packed):
    """The names of all files in a packed dataset: by the folder that it was made of, if they are still those, since
    that is faster than to read them."""
    seed = _moved.settings_of(place).get("shuffle")
    for names in _lists(folder, packed) if _moved.is_folder(folder) else ():
        order = range(len(names)) if seed is None else array.array("Q", _stoker.permuted(len(names), int(seed)))
        keys = [names[i] for i in order]
        if _fits(keys, packed):
            return keys
    return _keys(packed)


# ---- what has changed since ----------------------------------------------------------------------

LOOKS = 1000  # at files, evenly spread: to ask about each of a million takes as long as to read them
COMPARED = 100


def _newest(path):
    """When a file or a folder was changed last; a change that sets the time back is one, too."""
    at = _moved.status(path)
    return max(at.st_mtime, at.st_ctime) if at else 0


def changed(folder, keys, packed):
    """The files that no longer have the bytes that were packed, as names below the folder. Of a folder in which files
    came, went or were replaced, all are looked at (up to 20 times LOOKS), else some."""
    made = _newest_of_manifest(packed.path)
    if made is None or not _moved.is_folder(folder):
        return []
    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        below = sorted({os.path.dirname(key) for key in keys})
        times = dict(zip(below, threads.map(lambda name: _newest(os.path.join(folder, name)), below)))
        some = range(0, len(keys), max(1, len(keys) // LOOKS))
        there = [i for i, key in enumerate(keys) if times[os.path.dirname(key)] > made][:20 * LOOKS]
        look = sorted({*some, *there})
        times = list(threads.map(lambda i: _newest(os.path.join(folder, keys[i])), look))
    newer = [i for i, time in zip(look, times) if time > made]
    return [keys[i] for k, i in enumerate(newer)
            if k >= COMPARED or not _is_same(os.path.join(folder, keys[i]), packed[i][Files.FIELD])]


def _newest_of_manifest(place):
    made = _moved.status(os.path.join(place, "manifest.json"))
    return made and made.st_mtime


def say_changed(folder, names, place):
    more = f" and {len(names) - 1} more" if names[1:] else ""
    warn(f"{os.path.join(folder, names[0])}{more}: changed after {place} was packed, so the file itself is read. Pack again")


def _opened(key):
    _, folder, place = key
    try:
        packed = Dataset(place)
        if not len(packed) or Files.FIELD not in packed.fields:
            return _rows.unread(folder, f"{place} does not have the bytes of its files")
        keys = keys_of(folder, place, packed)
        if not _is_same(os.path.join(folder, keys[0]), packed[0][Files.FIELD]):
            return _rows.unread(folder, f"{place} has other data")
        other = set(changed(folder, keys, packed))
        if other:
            say_changed(folder, sorted(other), place)
        return Files(key, packed, {name: i for i, name in enumerate(keys) if name not in other})
    except (Error, OSError) as why:
        return _rows.unread(folder, why)


def _is_same(path, data):
    """Whether these are the bytes of a file, if that is still there."""
    if _moved.status(path) is None:
        return True
    with builtins.open(path, "rb") as f:
        return f.read() == data


def _bytes(path, packed):
    if not isinstance(path, (str, bytes, os.PathLike)):
        return None
    place = _moved.place_of(path, packed)
    if place is None or not _moved.is_there(place[1], place[0]):
        return None
    key = ("files", *place)
    source = _rows.source(key, lambda: _opened(key))
    return None if source is None else source.read(path)


# ---- in the place of a path ----------------------------------------------------------------------

def member(path, packed):
    """A file object with the bytes of a file, for what takes one instead of a path; else the path. packed: {folder: its
    packed dataset}."""
    data = _bytes(path, packed)
    return path if data is None else Member(data, os.fspath(path))


def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *more, packed=None):
    """open(), to read."""
    data = _bytes(file, packed) if mode in ("r", "rt", "rb") and packed else None
    if data is None:
        return builtins.open(file, mode, buffering, encoding, errors, newline, *more)
    made = Member(data, os.fspath(file))
    return made if mode == "rb" else io.TextIOWrapper(made, encoding, errors, newline)


class _Read:
    """A pathlib.Path, of what reads the file."""

    def __init__(self, path, packed):
        self._path, self._packed = path, packed

    def open(self, mode="r", *args, **named):
        return open(self._path, mode, *args, **named, packed=self._packed)

    def read_bytes(self):
        with self.open("rb") as f:
            return f.read()

    def read_text(self, encoding=None, errors=None, newline=None):
        with self.open("r", -1, encoding, errors, newline) as f:
            return f.read()


def path(path, packed=None, moved=None):
    """A pathlib.Path whose open(), read_bytes() and read_text() give the bytes from a packed dataset; or with moved={old:
    new} one at its new place. What is no such path stays as it is."""
    if type(path) is not type(pathlib.Path()):
        return path
    return _Read(path, packed) if moved is None else pathlib.Path(_moved.moved(path, moved))


# ---- TFRecord ------------------------------------------------------------------------------------

RECORDS_END = (".tfrecord", ".tfrecords", ".tfrec", ".tfr")


def _listed(filenames):
    """Paths, as one or several; None: they are something else, such as a tensor."""
    names = [filenames] if isinstance(filenames, (str, bytes, os.PathLike)) else filenames
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, (str, bytes, os.PathLike)) for n in names):
        return None
    return [os.path.abspath(os.fsdecode(name)) for name in names]


def _all_of(place):
    """The files that were packed."""
    if _moved.is_file(place):
        return {place}
    return {os.path.join(at, name) for at, _, names in _moved.walk(place) for name in names
            if not name.startswith(".") and (name.endswith(RECORDS_END) or ".tfrecord-" in name)}


def _first_record(path):
    with builtins.open(path, "rb") as f:
        head = f.read(12)
        return head + f.read(min(int.from_bytes(head[:8], "little"), 1 << 30))


def _shards(names, old, new):
    """The shards that hold the records of some files, and no others; None, with a warning, if there are none."""
    made = _moved.manifest_of(new)
    shards = [os.path.join(new, s["name"]) for s in made.get("shards", ())]
    if made.get("format") != "tfrecord" or made.get("compression") or not shards:
        return _rows.unread(old, f"{new} is not TFRecord without compression")
    if set(names) != _all_of(old):
        return _rows.unread(old, f"{new} has the records of other files, too")
    newer = [name for name in sorted(names) if _newest(name) > (_newest_of_manifest(new) or 0)]
    if newer:
        return _rows.unread(old, f"{newer[0]} is newer than {new}. Pack again")
    if _first_record(sorted(names, key=os.fsencode)[0]) != _first_record(shards[0]):
        return _rows.unread(old, f"{new} has other records, or in another order")
    return shards


def records(filenames, packed):
    """For tf.data.TFRecordDataset: the shards that files were packed to, as a list of paths, if they hold the same
    records; else the file names. packed: {folder or file: its packed dataset}."""
    names = _listed(filenames)
    places = {_moved.place_of(name, packed) for name in names or ()}
    place = places.pop() if len(places) == 1 else None
    if place is None or not _moved.is_there(place[1], place[0]):
        return filenames
    try:
        return _shards(names, *place) or filenames
    except OSError as why:
        return _rows.unread(place[0], why) or filenames
