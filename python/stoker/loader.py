"""Batches of a dataset at the speed of the storage."""

import array
import atexit
import json
import operator
import os
import sys
import threading
import weakref

from stoker import _collate, _sampler, _stoker, _work
from stoker._errors import Error, StaleError, UsageError, warn
from stoker._options import OPTIONS, PYTHON, document, take_options
from stoker.dataset import Dataset, Samples

REPEAT, REPLACED = _stoker.REPEAT, _stoker.REPLACED

_live = weakref.WeakSet()
_exiting = False


@atexit.register
def _close_all():
    """Threads of a loader may want the interpreter; it must still be there when they stop."""
    global _exiting
    _exiting = True
    for loader in list(_live):
        loader.close()


def _after_fork():
    """A thread that is not in the child may hold the lock."""
    for loader in list(_live):
        loader._lock = threading.RLock()
        loader._jobs = {}


os.register_at_fork(after_in_child=_after_fork)


def _on_its_way(running, frame):
    """The state without the last batch, where the program that asked for it has not stored it yet: the
    handler of a signal runs between the two."""
    unseen = running.unseen()
    while unseen and frame is not None:
        if id(frame) == unseen[0]:
            return unseen[2] if frame.f_lasti == unseen[1] else None
        frame = frame.f_back
    return None


class Batch:
    """Samples of one step: a mapping of columns, each made when you first ask for it.

    A column is an array of shape (n, …) where all samples have one shape; a `Column` of byte
    strings; a list of `str` for text; a list of values for everything else (None: the sample has
    no such field). Arrays and columns keep the memory of the batch. `len(batch)` counts samples.
    """

    __slots__ = ("_held", "_numbers", "_columns", "_receipt", "__weakref__")

    def __init__(self, held, numbers=None):
        self._held = held
        self._numbers = numbers  # of the samples that are gone through, where they were picked
        self._columns = {}
        self._receipt = None  # set while the program has not looked at the batch

    def _memory(self):
        self._receipt = None
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
        """Which samples they are of what the loader was given."""
        return self._memory().ids(self._numbers)

    @property
    def flags(self):
        """stoker.REPEAT and stoker.REPLACED, one byte per sample."""
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
        """Gives the memory back now. Arrays taken from the batch stay valid and keep it."""
        self._held = self._receipt = None
        self._columns = {}

    def __repr__(self):
        if self._held is None:
            return "<stoker.Batch, released>"
        return (f"<stoker.Batch epoch {self.epoch} step {self.step}: {len(self)} samples of "
                f"{', '.join(self)}>")


class Loader:
    """Gives a dataset in batches, epoch by epoch; threads of its own read ahead and decode.

        for batch in stoker.Loader("train-packed", batch=256, seed=1):
            images, labels = batch["data"], batch["label"]

    A `for` gives one epoch; the next `for` gives the next one, also when the last was left by
    `break` or an exception. The order depends on `seed`, the epoch and the shuffle alone.
    Rank r of W gets the r-th of W equal parts of it; all ranks get the same number of batches.

    data      a path, a stoker.Dataset, or a part of one (ds[a:b], ds.subset(), ds.split())
    {options}

    Sizes are bytes, or text as "64M". `shuffle` may also be True or False; `fields` is a name or
    several. `rank` and `world`: both or none; without them, what torchrun, srun or mpirun says.
    `state` is what `state()` gave. `batch_size`, `drop_last`, `num_workers` and `collate_fn` of a
    torch DataLoader work, too. Other names are options of stoker.Dataset.
    """

    def __init__(self, data, batch=OPTIONS["batch"].default, **options):
        options["batch"] = batch
        options, dataset_options, own = take_options("Loader", options)
        state = options.pop("state", None)
        _stoker.check_options(**options)
        # What depends on where it is. The rest is the same each time it begins.
        epoch, epochs = options.pop("epoch", 0) or 0, options.pop("epochs", None)
        rank, world = options.pop("rank", None), options.pop("world", None)
        if (rank is None) != (world is None):
            raise UsageError("rank and world: both or none")
        self.batch = options["batch"] or OPTIONS["batch"].default
        self._options, self._pool = options, None
        self._last_epoch = None if epochs is None else epoch + epochs
        self._rank = None if rank is None else (operator.index(rank), operator.index(world))
        self._own = not isinstance(data, Samples)
        if self._own and not isinstance(data, (str, bytes, os.PathLike)):
            raise TypeError(f"data is a path, a stoker.Dataset or a part of one, not "
                            f"{type(data).__name__}: a Loader reads files itself")
        if self._own and options.get("on_error") in ("skip", "replace"):
            dataset_options.setdefault("pass_over", True)  # damage it finds when it is opened, too
        self.dataset = self._data = Dataset(data, **dataset_options) if self._own else data
        if dataset_options and not self._own:
            raise TypeError(f"options of the dataset: {', '.join(dataset_options)}")
        self._set_shape(own)
        self._set_sampler(own)
        self._lock = threading.RLock()  # held to take batches; a signal handler may take it again
        self._closed = False
        self._running = None
        self._turn = None  # mark of the iteration that may ask for batches
        # Where it begins when it is not running: epoch, state or None, batches received before.
        self._place = (operator.index(epoch), None, 0)
        self._begun = False  # in a forked child: the epoch was under way in the parent
        self._order = None  # a state whose seed and shuffle hold for all epochs
        self._told = None  # what len() said
        self._warned = False
        _live.add(self)
        if state is not None:
            self.load_state(state)

    # -- what the loop gets --

    _numbered = False  # whether the transform gets (number, sample)

    def _set_shape(self, own):
        """What is made of a batch."""
        self.transform, self.collate = own.get("transform"), own.get("collate")
        self.batch_transform, self.as_tuple = own.get("batch_transform"), own.get("as_tuple")
        workers = operator.index(own.get("workers") or 0)
        for name in ("transform", "collate", "batch_transform"):
            if own.get(name) is not None and not callable(own[name]):
                raise TypeError(f"{name}: a function is needed, not {own[name]!r}")
        if workers < 0:
            raise UsageError(f"workers={workers}: it is 0 or more")
        if self.collate is not None and self.as_tuple:
            raise TypeError("as_tuple: a batch is what collate returns; return a tuple there")
        if isinstance(self.as_tuple, str):
            self.as_tuple = (self.as_tuple,)
        elif self.as_tuple not in (None, True, False):
            self.as_tuple = tuple(self.as_tuple)
        self._with_keys = bool(self._options.get("keys"))
        self._jobs, self._work = {}, None
        if self.transform is not None:
            self._work = _work.Work(self.transform, workers, self._options.get("threads"),
                                    own.get("context"))
        if self.transform is not None or self.collate is not None:
            self._options["keys"] = True

    def _samples(self, held):
        """The samples of a batch, as Dataset gives them, transformed."""
        if self._work is None:
            return _work.samples_of(held, 0, len(held), self._numbers, self._numbered)
        self._look_ahead()
        return self._job(held).result()

    def _job(self, held):
        job = self._jobs.get(held)
        if job is None:
            job = self._jobs[held] = _work.Job(self._work, held, self._numbers, self._seed, self._numbered)
        return job

    def _look_ahead(self):
        """Begins the batches that are ready, and forgets those that the loop has received."""
        known = {}
        for i in range(self._work.ahead(self.batch)):
            try:
                held = self._running.ahead(i)
            except Error:
                break  # the error comes again at its place in the order
            if held is None:
                break
            known[held] = self._job(held)
        self._jobs = known

    def _columns(self, samples):
        """A batch of samples."""
        made = _collate.columns(samples)
        if isinstance(made, dict) and not self._with_keys:
            made.pop("key", None)
        return made

    def _plain(self, held):
        """The batch itself."""
        return Batch(held, self._numbers)

    def _tuple(self, made):
        names = self.as_tuple
        if names is True:
            names = self._options.get("fields") or [n for n in made if n != "key"]
            names = (names,) if isinstance(names, str) else names
        return _collate.Columns(made[name] for name in names)

    def _shaped(self, held):
        """What the loop gets of a batch, but for where it is."""
        if self.transform is None and self.collate is None:
            made = self._plain(held)
        else:
            samples = self._samples(held)
            made = self._columns(samples) if self.collate is None else self.collate(samples)
        if self.as_tuple and not isinstance(made, tuple):
            made = self._tuple(made)
        if isinstance(made, _collate.Seen) and made.epoch is None:
            self._mark(made, Batch(held, self._numbers))
        return made if self.batch_transform is None else self.batch_transform(made)

    def _mark(self, made, batch):
        made.epoch, made.step, made.ids = batch.epoch, batch.step, batch.ids.copy()
        made.repeats, made.replaced = batch.repeats, batch.replaced

    # -- which samples --

    def _set_sampler(self, own):
        n = len(self._data)
        self._sampler, self._picked = None, (None, None)
        if own.get("weights") is not None:
            self._sampler = _sampler.Weighted(own["weights"], own.get("draws"), n)
        elif own.get("draws") is not None:
            raise TypeError("draws: it goes with weights=")
        elif own.get("sampler") is not None:
            self._sampler = _sampler.Given(own["sampler"], n)

    @property
    def _seed(self):
        """A resumed loader's is that of the state."""
        given = self._options.get("seed") if self._order is None else json.loads(self._order)["seed"]
        return int(given or 0)

    @property
    def _numbers(self):
        """The samples of the epoch, bytes of uint64, where they were picked."""
        return self._picked[1]

    def _pick(self, epoch):
        """The samples of an epoch, where they are not all in our own order."""
        if self._sampler is None:
            return self._data.handle
        if self._picked[0] != epoch:
            self._picked = (epoch, array.array("Q", self._sampler(epoch, self._seed)).tobytes())
        return self._data.handle.subset(self._picked[1])

    # -- where it is --
    # A signal handler may raise between any two lines. The place is set before the running loader
    # is closed, and the extension counts what a loop has received.

    def _begin(self, epoch, state=None, given=0):
        """The next `for` goes through `epoch`, or what `state` says is left of it."""
        if state is None and self._order is not None:
            state = _stoker.state_at(self._order, epoch)
        self._place = (epoch, state, given)
        self._begun = False
        self._stop()

    def _here(self):
        """The running loader of this process, or None; also None if a call that hangs has it."""
        running = self._running
        if running is not None and (running.lost or running.pid != os.getpid()):
            epoch, _, _, begun, _ = running.place()
            self._place = self._place_of(running.state(), self._received())
            self._begun = begun and self._place[0] == epoch
            running = self._running = self._turn = None
        return running

    def _received(self):
        """Batches of this epoch received so far, also by the loaders that this one resumes."""
        if self._running is None:
            return self._place[2]
        epoch, given, *_ = self._running.place()
        return given + (self._place[2] if epoch == self._place[0] else 0)

    def _place_of(self, state, given=None):
        try:
            told = json.loads(state)
            epoch = operator.index(int(told["epoch"]))
            each = [int(leg["each"]) for leg in told["done"]]
        except (ValueError, KeyError, TypeError):
            raise UsageError("this is not the state of a loader") from None
        if given is None or not each:
            given = sum(-(-n // self.batch) for n in each)
        return epoch, state, given

    @property
    def epoch(self):
        """The epoch under way; between two, the next one."""
        running = self._here()
        return self._place[0] if running is None else running.place()[0]

    def set_epoch(self, epoch):
        """The next `for` gives this epoch. Nothing changes where that is so already."""
        _stoker.check_options(epoch=epoch)
        epoch = operator.index(epoch)
        running = self._here()
        under_way = self._begun if running is None else running.place()[3]
        if epoch != self.epoch or under_way:
            self._begin(epoch)

    def state(self):
        """Where it is, as a short text: a loader with `state=` goes on with the next batch.

        It counts the batches that the loop received. The number of ranks, the batch size and the
        settings for speed may change; seed and shuffle are those of the state.
        """
        with self._lock:
            running = self._here()
            if running is None and self._place[1] is not None and not self._closed:
                return self._place[1]
            running = self._start()
            return _on_its_way(running, sys._getframe(1)) or running.state()

    def load_state(self, state):
        """Goes on from `state` at the next `for`, with the rest of that epoch.

        A list of the states of all ranks is needed only where samples were skipped
        (on_error="skip") and the number of ranks has changed.
        """
        self._load(state, None)

    def _load(self, state, given):
        if not isinstance(state, str):
            state = _stoker.merge_states(tuple(state))
        place = self._place_of(state, given)
        _stoker.state_at(state, place[0])  # a damaged one, or of another order, is refused here
        self._order, self._picked = state, (None, None)
        self._begin(*place)

    def rank(self):
        """(rank, world) this loader divides the data by."""
        return self._rank or tuple(_stoker.rank()[:2])

    # -- the C loader --

    def _refuse(self, text):
        if _exiting and threading.current_thread() is not threading.main_thread():
            raise SystemExit from None  # a daemon thread ends with the program, without a traceback
        raise UsageError(text) from None

    def _unless_open(self):
        """For what failed because another thread closed the loader in the middle of it."""
        if self._closed:
            self._refuse("this iteration was ended: the loader was closed")

    def _start(self):
        if self._closed:
            self._refuse("the loader is closed")
        running = self._here()
        if running is None:
            rank, world = self.rank()
            epoch, state, _ = self._place
            left = max(0, self._last_epoch - epoch) if self._last_epoch is not None else 0
            if self._work is not None:
                self._work.team()  # processes are forked before there are threads
            if self._sampler is not None:
                left = 0  # another epoch has other samples
                state = state if state and json.loads(state)["done"] else None
            running = self._running = self._open(rank, world, epoch, left, state)
            if rank == 0 and not self._warned:
                self._warned = True
                text = running.warning()
                if text is not None:
                    warn(f"{self._data.path}: {text}")
        return running

    def _start_picked(self):
        """The same, with the samples of the epoch that comes."""
        running = self._start()
        epoch = running.place()[0]
        if self._sampler is not None and epoch != self._picked[0]:
            self._begin(epoch)
            running = self._start()
        return running

    def _open(self, rank, world, epoch, epochs, state):
        try:
            return _stoker.Loader(self._pick(epoch), self._pool, rank=rank, world=world, epoch=epoch,
                                  epochs=epochs, state=state, **self._options)
        except StaleError as error:
            if self._sampler is None:
                raise
            raise StaleError(f"{error} (or the sampler gives other samples of epoch {epoch} than when "
                             "the state was saved: it must give the same ones again)") from None

    def _stop(self):
        self._jobs = {}
        running, self._running, self._turn = self._running, None, None
        if running is not None:
            running.close()

    def __len__(self):
        """Batches of an epoch, including those received before it was resumed.

        An epoch resumed with another number of ranks or batch size may have more than others: those
        received, and those left.
        """
        running = self._start_picked()
        epoch, _, whole, _, _ = running.place()
        first, _, before = self._place
        resumed = epoch == first and before
        self._told = max(whole, before + running.steps()) if resumed else whole
        return self._told

    def __iter__(self):
        with self._lock:
            if self._closed:
                self._refuse("the loader is closed")
            try:
                return self._iteration()
            except Exception:
                self._unless_open()
                raise

    def _iteration(self):
        running = self._start_picked()
        epoch, _, _, begun, failed = running.place()
        if running.settle():
            running = self._start_picked()
        elif begun or self._begun:
            self._begin(epoch + 1)
            running = self._start()
        elif failed:  # at its first batch
            self._begin(epoch, *(self._place[1:] if epoch == self._place[0] else ()))
            running = self._start()
        if self._place[1] is not None and running.steps() == 0:
            if running.take(0) is None:  # nothing was left of it
                running.settle()
        self._turn = turn = object()
        return _stoker.Iteration(self, running, turn, self._lock)

    def _next(self, turn):
        """(what the loop gets, the batch it was made of); None at the end of the epoch."""
        if turn is not self._turn:
            self._refuse("this iteration was ended: another one has begun, or the loader was "
                         "closed")
        try:
            held = self._running.take(0)
            return None if held is None else (self._made(held), held)
        except Exception:
            self._unless_open()
            raise

    def _made(self, held):
        """What the loop gets. An exception in here loses nothing: the batch is given again."""
        return self._with_receipt(self._shaped(held))

    def _with_receipt(self, made):
        if isinstance(made, (Batch, _collate.Seen)):
            made._receipt = self._running.receipt()
        return made

    # -- how it goes --

    def stats(self):
        """Counters since it was opened (with weights or a sampler, since the epoch began): samples,
        bytes_read, reads, stall_ns, io, …"""
        return self._start().stats()

    def problems(self):
        """What on_error passed over, one text each (the first thousand): damage found when the dataset was
        opened, and samples."""
        return self._start().problems()

    def close(self):
        """Stops the threads. Batches that are still held stay valid."""
        self._closed = True
        self._stop()
        if self._work is not None:
            self._work.close()
        if self._own:
            self._data.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def __getstate__(self):
        """The copy goes on where this one is."""
        with self._lock:
            kept = dict(self.__dict__)
            if not self._closed and (self._here() is not None or self._begun):
                received = self._received()
                kept["_place"] = self._place_of(self.state(), received)
        left_out = {"_running": None, "_turn": None, "_lock": None, "_pool": None, "_begun": False,
                    "_jobs": {}}
        return {**kept, **left_out}

    def __setstate__(self, state):
        self.__dict__.update(state, _lock=threading.RLock())
        _live.add(self)

    def __repr__(self):
        return f"<{type(self).__module__}.{type(self).__name__} of {self._data.path!r}, " \
               f"batch {self.batch}, epoch {self.epoch}>"


document(Loader, {**OPTIONS, **PYTHON}, rest="dataset_options")
