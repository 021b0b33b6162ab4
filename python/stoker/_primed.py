"""Reading ahead for a torch Dataset with code of its own, whose data stoker reads (stoker.arrays, stoker.files).

A few samples are made while their reads are watched: they show which sample of stoker the code asks for, given its own
number. A loader then reads those in its order and primes the stand-ins with each (_rows.py) before the code runs.
"""

import copy
import itertools
import random
import sys

import torch
import torch.utils.data

from stoker import _rows
from stoker._dataloader import Feed, as_given
from stoker._errors import warn

DEPTH = 4  # datasets within datasets that are looked into
COLUMNS = 100  # of a table


# ---- what the code of a dataset asks for ---------------------------------------------------------

class _SameRandom:
    """What is drawn by chance meanwhile is drawn again afterwards."""

    def __enter__(self):
        self._numpy = sys.modules.get("numpy")
        self._states = random.getstate(), torch.get_rng_state(), self._numpy and self._numpy.random.get_state()

    def __exit__(self, *exc):
        random.setstate(self._states[0])
        torch.set_rng_state(self._states[1])
        if self._numpy:
            self._numpy.random.set_state(self._states[2])


def _inner(dataset):
    """Datasets that a dataset has."""
    own = getattr(dataset, "__dict__", {})
    return {name: value for name, value in own.items() if isinstance(value, torch.utils.data.Dataset)}


def _copied(dataset, depth=DEPTH):
    """What its code opens for the first sample must not be open when processes are forked."""
    made = copy.copy(dataset)
    for name, value in _inner(dataset).items() if depth else ():
        setattr(made, name, _copied(value, depth - 1))
    return made


def _probe(dataset, numbers):
    """{number: [(Source, sample of it, field)]}, or None if the code fails."""
    with _SameRandom():
        try:
            dataset, asked = _copied(dataset), {}
            for number in numbers:
                with _rows.watched() as asked[number]:
                    dataset[number]
        except Exception:
            return None  # it fails again where the program can see it
    return asked


# ---- which sample it asks for, by number ---------------------------------------------------------

def _listed(dataset, numbers_of):
    """Sequences of as many numbers as a dataset has samples, of those that it keeps."""
    for value in _sequences(list(getattr(dataset, "__dict__", {}).values())):
        found = numbers_of(value) if len(value) == len(dataset) else None
        if found is not None:
            yield found


def _sequences(values, depth=1):
    """Those among some values; of a dict, or a table of pandas, those in it."""
    for value in values:
        library = type(value).__module__.partition(".")[0]
        if depth and (isinstance(value, dict) or library == "pandas" and value.ndim == 2):
            yield from _sequences([value[name] for name in itertools.islice(value, COLUMNS)], depth - 1)
        elif isinstance(value, (list, tuple, range)) or library in ("numpy", "torch") and getattr(value, "ndim", 0):
            yield value
        elif library == "pandas" and value.ndim == 1:
            yield value.values


def _guesses(dataset, source, depth=DEPTH):
    """Lists of the sample that may belong to each number of the dataset."""
    yield from _listed(dataset, source.numbers_of)
    for value in _inner(dataset).values() if depth else ():
        for of_inner in _guesses(value, source, depth - 1):
            if len(of_inner) == len(dataset):
                yield of_inner
            for indices in _listed(dataset, _rows.integers):
                if max(indices) < len(of_inner):
                    yield [of_inner[i] for i in indices]
    if len(dataset) <= len(source):
        yield range(len(dataset))


def _shifted(asked, n, source):
    """A part of the rows: the number and a constant."""
    shifts = {row - number for number, rows in asked.items() for row in rows if len(rows) == 1}
    if len(shifts) == 1:
        first = shifts.pop()
        if first > 0 and first + n <= len(source):
            yield range(first, first + n)


def _numbers(dataset, source, asked):
    """The sample of source that each number of the dataset asks for; None: not known. Others may be asked for as
    well, but not more of them."""
    rows = {number: {row for s, row, _ in some if s is source} for number, some in asked.items()}
    if any(len(found) > 2 or not found for found in rows.values()):
        return None
    for guess in (*_guesses(dataset, source), *_shifted(rows, len(dataset), source)):
        if all(guess[number] in found for number, found in rows.items()):
            return guess
    return None


# ---- the loader's part ---------------------------------------------------------------------------

class Primed:
    """Makes (number, sample of stoker) what the dataset's own code makes of that number."""

    def __init__(self, dataset, source, rows):
        self.dataset, self.source, self.rows = dataset, source, rows

    def __call__(self, numbered):
        number, sample = numbered
        self.source.prime(self.rows[number], sample)
        try:
            return self.dataset[number]
        finally:
            self.source.prime(None, None)


def _largest_first(asked):
    """The Sources that were asked, by the bytes of their samples."""
    def size(source):
        field = next(f for some in asked.values() for s, _, f in some if s is source)
        value = source.samples[0].get(field)
        return getattr(value, "nbytes", None) or (len(value) if hasattr(value, "__len__") else 0)
    found = {id(s): s for some in asked.values() for s, _, _ in some}
    return sorted(found.values(), key=size, reverse=True)


def _unlike(given):
    """Why code that stoker feeds would not do what it does in torch's loader; None: it would."""
    if given.get("worker_init_fn") is not None and given.get("num_workers"):
        return "worker_init_fn is for torch's worker processes"
    return None


def asked_by(dataset):
    """What some samples of a dataset ask stoker for, as {number: …}; {}: nothing, or it is not known."""
    if isinstance(dataset, torch.utils.data.IterableDataset) or not hasattr(dataset, "__len__") or not len(dataset):
        return {}
    return _probe(dataset, sorted({0, len(dataset) // 2, len(dataset) - 1})) or {}


def feed(given):
    dataset = given["dataset"]
    asked = asked_by(dataset)
    sources = _largest_first(asked)
    why = _unlike(given) if sources else None
    for source in sources if why is None else []:
        rows = _numbers(dataset, source, asked)
        if rows is not None:
            return _feed(given, source, rows, asked)
    if sources:
        why = why or "which of its samples the dataset asks for is not known in advance"
        warn(f"torch's DataLoader reads {sources[0].name}, nothing is read ahead by stoker: {why}")
    return None


def _feed(given, source, rows, asked):
    primed = Primed(given["dataset"], source, rows)
    fields = sorted({field for some in asked.values() for s, _, field in some if s is source})
    whole = isinstance(rows, range) and len(rows) == len(source)
    samples = source.samples if whole else source.samples.subset(rows)
    options = {**as_given(given, primed), "fields": fields}
    if options["workers"]:
        return Feed(samples, source.name, options, numbered=True)
    del options["transform"], options["workers"]
    return Feed(samples, source.name, options, numbered=True, inline=primed)
