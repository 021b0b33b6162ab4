"""Batches of a dataset at the speed of the storage."""

import atexit
import json
import operator
import os
import threading
import weakref

from stoker import _stoker
from stoker._errors import Error, UsageError
from stoker._options import OPTIONS, document, refuse_unknown
from stoker.dataset import Dataset

REPEAT, REPLACED = _stoker.REPEAT, _stoker.REPLACED

_live = weakref.WeakSet()


@atexit.register
def _close_all():
    """Threads of a loader may want the interpreter; it must still be there when they stop."""
    for loader in list(_live):
        loader.close()


class Batch:
    """Samples of one step: a mapping of columns that are made when they are asked for.

    A column is an array of shape (n, …) where all samples have one shape; a `Column` of byte
    strings; a list of `str` for text; a list of values for everything else (None: the sample has
    no such field). Arrays and columns keep the memory of the batch. `len(batch)` counts samples.
    """

    __slots__ = ("_held", "_columns", "__weakref__")

    def __init__(self, held):
        self._held = held
        self._columns = {}

    def _memory(self):
        if self._held is None:
            raise ValueError("the batch was released")
        return self._held

    def __getitem__(self, name):
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = self._memory().column(name)
        return column

    def __len__(self):
        return len(self._memory())

    def __contains__(self, name):
        return name in self._memory().names()

    def __iter__(self):
        return iter(self._memory().names())

    def keys(self):
        return self._memory().names()

    def values(self):
        return [self[name] for name in self]

    def items(self):
        return [(name, self[name]) for name in self]

    def get(self, name, default=None):
        return self[name] if name in self else default

    @property
    def ids(self):
        """Which samples of the dataset they are."""
        return self._memory().ids()

    @property
    def flags(self):
        """stoker.REPEAT and stoker.REPLACED, one byte a sample."""
        return self._memory().flags()

    @property
    def repeats(self):
        """Which samples fill up the last batch and were seen elsewhere (last="pad" or "short")."""
        return self._flagged(REPEAT)

    @property
    def replaced(self):
        """Which samples stand in for corrupt ones (on_error="replace")."""
        return self._flagged(REPLACED)

    def _flagged(self, flag):
        flags = self.flags
        if isinstance(flags, _stoker.Array):
            return [bool(f & flag) for f in flags.tolist()]
        return (flags & flag) != 0

    @property
    def epoch(self):
        return self._memory().epoch

    @property
    def step(self):
        """Number of the batch in the epoch, from 0."""
        return self._memory().step

    def release(self):
        """Lets go of the memory now. Arrays taken from it before stay valid and keep it."""
        self._held = None
        self._columns = {}

    def __repr__(self):
        if self._held is None:
            return "<stoker.Batch, released>"
        return (f"<stoker.Batch epoch {self.epoch} step {self.step}: {len(self)} samples of "
                f"{', '.join(self)}>")


class Loader:
    """Goes through a dataset epoch by epoch; threads of its own read ahead and decode.

        for batch in stoker.Loader("train-packed", batch=256, seed=1):
            images, labels = batch["data"], batch["label"]

    A `for` gives one epoch; the next `for` gives the next one, also when the last was left by
    `break` or an exception. The order depends on `seed`, the epoch and the shuffle alone.
    Rank r of W gets the r-th of W equal parts of it, and every rank gets as many batches.

    data      a path, or a stoker.Dataset
    {options}

    Sizes are bytes, or text as "64M". `shuffle` may be True or False, too; `fields` is a name or
    several. `rank` and `world`: both or none; without them, what torchrun, srun or mpirun says.
    `state` is what `state()` gave. Other names are options of stoker.Dataset.
    """

    def __init__(self, data, batch=OPTIONS["batch"].default, **options):
        options["batch"] = batch
        dataset_options = {name: options.pop(name) for name in [*options] if name not in OPTIONS}
        refuse_unknown("Loader", dataset_options, [*OPTIONS, *Dataset.__init__.__kwdefaults__])
        if isinstance(options.get("shuffle"), bool):
            options["shuffle"] = "block" if options["shuffle"] else "none"
        if options.get("fields") is not None and not isinstance(options["fields"], str):
            options["fields"] = tuple(options["fields"])
        state = options.pop("state", None)
        _stoker.check_options(**options)
        # What depends on where it is. The rest is the same each time it begins.
        epoch, epochs = options.pop("epoch", 0) or 0, options.pop("epochs", None)
        rank, world = options.pop("rank", None), options.pop("world", None)
        if (rank is None) != (world is None):
            raise UsageError("rank and world: both or none")
        self.batch = batch
        self._options, self._pool = options, None
        self._last_epoch = None if epochs is None else epoch + epochs
        self._rank = None if rank is None else (operator.index(rank), operator.index(world))
        self._own = not isinstance(data, Dataset)
        if self._own and options.get("on_error") in ("skip", "replace"):
            dataset_options.setdefault("pass_over", True)  # damage it finds when it is opened, too
        self.dataset = Dataset(data, **dataset_options) if self._own else data
        if dataset_options and not self._own:
            raise TypeError(f"options of the dataset: {', '.join(dataset_options)}")
        self._lock = threading.RLock()  # who takes batches; a signal handler may ask in between
        self._begin(operator.index(epoch), None)
        self._running, self._pid, self._closed = None, os.getpid(), False
        if state is not None:
            self.load_state(state)

    # -- where it is --

    def _begin(self, epoch, state):
        """The next `for` goes through `epoch`, or what `state` says is left of it."""
        self._epoch = epoch
        self._resume = state
        self._given = 0  # batches of this epoch
        self._over = False  # all were given, and the C loader has told the end
        self._turn = None  # mark of the iteration that may ask for batches

    @property
    def epoch(self):
        """The epoch under way; between two, the next one."""
        return self._epoch

    def set_epoch(self, epoch):
        """The next `for` gives this epoch. Nothing changes where that is so already."""
        _stoker.check_options(epoch=epoch)
        epoch = operator.index(epoch)
        if epoch != self._epoch or self._given:
            self._stop()
            self._begin(epoch, None)

    def state(self):
        """Where it is, as a short text: a loader with `state=` goes on with the next batch.

        The number of ranks, the batch size and the settings for speed may be others then; seed
        and shuffle are those of the state.
        """
        with self._lock:
            self._start()
            self._settle()
            return self._running.state()

    def load_state(self, state):
        """Goes on from `state` at the next `for`, with the rest of that epoch.

        A list of the states of all ranks is needed only where samples were skipped
        (on_error="skip") and the number of ranks is another now.
        """
        if not isinstance(state, str):
            state = _stoker.merge_states(tuple(state))
        try:
            epoch = int(json.loads(state)["epoch"])  # text above 2^53
        except (ValueError, KeyError, TypeError):
            raise UsageError("this is not the state of a loader") from None
        self._stop()
        self._begin(epoch, state)

    def rank(self):
        """(rank, world) this loader divides the data by."""
        return self._rank or tuple(_stoker.rank()[:2])

    # -- the C loader --

    def _start(self):
        if self._closed:
            raise ValueError("the loader is closed")
        if self._running is None or self._pid != os.getpid():
            rank, world = self.rank()
            self._pid = os.getpid()
            left = max(0, self._last_epoch - self._epoch) if self._last_epoch is not None else 0
            self._running = _stoker.Loader(self.dataset.handle, self._pool, rank=rank, world=world,
                                           epoch=self._epoch, epochs=left, state=self._resume,
                                           **self._options)
            _live.add(self)
        return self._running

    def _stop(self):
        running, self._running, self._turn = self._running, None, None
        if running is not None:
            running.close()

    def __len__(self):
        """Batches of an epoch; where it goes on from a state, those that are left of it."""
        return self._start().steps()

    def __iter__(self):
        with self._lock:
            self._settle()
            if self._over:
                self._finish()
            elif self._given:
                self._stop()
                self._begin(self._epoch + 1, None)
            self._start()
            if self._resume is not None and self._running.steps() == 0:
                self._running.next()  # nothing was left of it
                self._finish()
            self._turn = object()
            return _Iteration(self, self._turn)

    def _next(self, turn):
        """The next batch, None at the end of the epoch."""
        with self._lock:
            if turn is not self._turn:
                raise Error("this iteration was ended: another one has begun, or the loader was "
                            "closed")
            try:
                held = None if self._over else self._running.next()
            except Error:
                self._stop()  # it cannot go on; the next `for` tries again
                raise
            if held is None:
                return self._finish()
            self._given += 1
            return Batch(held)

    def _settle(self):
        """Where all batches of the epoch were given, its end is taken as well: who counts batches
        and does not ask for one more has finished the epoch all the same."""
        if self._given and not self._over and self._running is not None \
                and self._pid == os.getpid() and self._given == self._running.steps():
            self._running.next()
            self._over = True

    def _finish(self):
        self._epoch += 1
        self._given, self._resume, self._over, self._turn = 0, None, False, None

    # -- how it goes --

    def stats(self):
        """Counters since it was opened: samples, bytes_read, reads, stall_ns, io, …"""
        return self._start().stats()

    def problems(self):
        """Samples that on_error passed over, one text each (the first thousand)."""
        return self._start().problems()

    def close(self):
        """Stops the threads. Batches that are still held stay valid."""
        self._closed = True
        self._stop()
        if self._own:
            self.dataset.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __getstate__(self):
        left_out = ("_running", "_turn", "_lock", "_pool")
        kept = {k: v for k, v in self.__dict__.items() if k not in left_out}
        return {**kept, "_given": 0, "_over": False}

    def __setstate__(self, state):
        self.__dict__.update(state, _running=None, _turn=None, _lock=threading.RLock(), _pool=None)

    def __repr__(self):
        return f"<{type(self).__module__}.{type(self).__name__} of {self.dataset.path!r}, " \
               f"batch {self.batch}, epoch {self._epoch}>"


document(Loader)


class _Iteration:
    """What a `for` asks for batches. Threads may share one."""

    __slots__ = ("_loader", "_turn")

    def __init__(self, loader, turn):
        self._loader, self._turn = loader, turn

    def __iter__(self):
        return self

    def __next__(self):
        loader = self._loader
        if loader is not None:
            with loader._lock:
                if self._loader is not None:
                    batch = loader._next(self._turn)
                    if batch is not None:
                        return batch
                    self._loader = None
        raise StopIteration
