"""Samples of a stoker dataset in the place of what a program reads itself: rows of an array, files of a folder.

A Source is shared by all that stand for the same data in a process, also by those that are opened for every sample. A
loader that has read a sample ahead primes the Source with it; a stand-in takes the primed sample if it is the one that
the program asks for, and reads it otherwise. So a wrong guess about what comes next costs time, and nothing else.
"""

import contextlib
import numbers
import threading

from stoker._errors import warn

_known = {}  # {key: Source, or None if there is none}
_probing = threading.local()  # .asked: [(Source, number, field)] while a program's code is watched


class Source:
    """`samples` in the order of the rows, or files, that they stand for. `key` says which data it is."""

    def __init__(self, key, samples):
        self.key, self.samples = key, samples
        self._primed = (None, None)

    def __reduce__(self):
        return _again, (type(self), self.key, self._kept())

    def _kept(self):
        """What another process needs to make the same one again, without looking at the data."""
        return (self.samples,)

    def __len__(self):
        return len(self.samples)

    def prime(self, number, sample):
        self._primed = (number, sample)

    def has(self, number, field):
        """Whether that sample is at hand."""
        primed, sample = self._primed
        return primed == number and field in sample

    def sample(self, number, field):
        """A sample with that field, at least."""
        note(self, number, field)
        primed, sample = self._primed
        return sample if primed == number and field in sample else self.samples[number]

    def several(self, numbers, field):
        """Samples with that field, in as few reads as possible."""
        for number in numbers:
            note(self, number, field)
        return self.samples.__getitems__(numbers)

    def numbers_of(self, values):
        """The numbers of samples that a sequence of the program's may stand for: a list, or None."""
        raise NotImplementedError

    @property
    def name(self):
        return self.samples.path


def _again(kind, key, kept):
    if _known.get(key) is None:
        _known[key] = kind(key, *kept)
    return _known[key]


def source(key, make):
    """The Source of that key: make() gives it when it is first asked for, or None with a warning about why."""
    if key not in _known:
        _known[key] = make()
    return _known[key]


def unread(what, why):
    """None, and a warning that the data is read as it was before."""
    warn(f"{what} is read where it was, and not through stoker: {why}")


# ---- what a program asks for ---------------------------------------------------------------------

def note(source, number, field):
    asked = getattr(_probing, "asked", None)
    if asked is not None:
        asked.append((source, number, field))


@contextlib.contextmanager
def watched():
    """A list that fills with what this thread asks for."""
    before, _probing.asked = getattr(_probing, "asked", None), []
    try:
        yield _probing.asked
    finally:
        _probing.asked = before


# ---- numbers -------------------------------------------------------------------------------------

def is_number(value):
    return isinstance(value, numbers.Integral) and type(value) is not bool


def integers(values):
    """A list of whole numbers from 0 on, of a sequence, an array or a tensor of such; None: it is none."""
    if hasattr(values, "ndim"):
        values = values.tolist() if values.ndim == 1 and "int" in str(values.dtype) else ()
    found = list(map(int, values)) if all(map(is_number, values)) else None
    return found if found and min(found) >= 0 else None
