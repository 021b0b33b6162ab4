"""Samples put together into batches: columns of arrays where they fit together, else lists."""

import sys


class Seen:
    """What the loop gets of a batch; the batch counts as received once the program looks at it."""

    _receipt = None
    epoch = step = ids = repeats = replaced = None  # those of the batch

    def _look(self):
        self._receipt = None


class Columns(Seen, tuple):
    """The columns of a batch, in the order asked for: `for x, y in loader`.

    ids, repeats, replaced, epoch and step are those of the batch.
    """

    def __iter__(self):
        self._look()
        return super().__iter__()

    def __getitem__(self, i):
        self._look()
        return super().__getitem__(i)

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_receipt"}


class Mapping(Seen, dict):
    """The columns of a batch by name. ids, epoch and step are those of the batch."""

    def __getitem__(self, name):
        self._look()
        return super().__getitem__(name)

    def __iter__(self):
        self._look()
        return super().__iter__()

    def get(self, name, default=None):
        self._look()
        return super().get(name, default)

    def keys(self):
        self._look()
        return super().keys()

    def values(self):
        self._look()
        return super().values()

    def items(self):
        self._look()
        return super().items()

    def pop(self, *args):
        self._look()
        return super().pop(*args)

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k != "_receipt"}


def _kind(value):
    return type(value).__module__.partition(".")[0]


def column(values):
    """One array of all values where they are numbers or arrays of one shape, else the list."""
    kinds = {type(v) for v in values}
    if len(kinds) == 1 and _kind(values[0]) == "torch":
        torch = sys.modules["torch"]
        alike = len({(v.dtype, v.shape, v.device) for v in values}) == 1
        return torch.stack(values) if alike else values
    if kinds <= {int, float} or kinds == {bool} or all(_kind(v) == "numpy" for v in values):
        return _array(values)
    return values


def _array(values):
    try:
        import numpy
    except ImportError:
        return values
    made = [numpy.asarray(v) for v in values]
    if len({(v.dtype, v.shape) for v in made}) != 1 and any(v.ndim for v in made):
        return values
    try:
        return numpy.stack(made)
    except (TypeError, ValueError):
        return values


def columns(samples):
    """Columns of dicts and of tuples; of anything else, one column."""
    first = samples[0]
    if isinstance(first, dict):
        names = {name: None for s in samples for name in s}
        return Mapping((name, column([s.get(name) for s in samples])) for name in names)
    if isinstance(first, (tuple, list)) and len({len(s) for s in samples}) == 1:
        return Columns(column(list(part)) for part in zip(*samples))
    return column(samples)
