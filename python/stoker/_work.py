"""A transform of single samples, on threads or in worker processes.

A batch becomes a Job: chunks of its samples run elsewhere, and the results are put together in order.
Results are kept: where the transform fails or a signal interrupts the wait, only the rest runs again
when the loop asks for the batch again.
"""

import concurrent.futures
import multiprocessing
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback

from stoker import _stoker
from stoker._errors import Error, TransformError

CHUNKS = 4  # of a batch, per thread or process: so that the last one is soon done
AHEAD = 10  # batches begun before they are asked for, at most


# ---- in a worker process -----------------------------------------------------------------------

_transform = None  # of this process


class _Remote(Exception):
    """The traceback of an exception that was raised in another process."""

    def __str__(self):
        return f"\n{self.args[0]}"


class _Pickler(pickle.Pickler):
    """Tensors as arrays: PyTorch's own way makes a file of each."""

    def reducer_override(self, value):
        if type(value).__module__ == "torch" and type(value).__name__ == "Tensor" \
                and value.device.type == "cpu" and not value.requires_grad:
            try:
                return _tensor, (value.numpy(),)
            except TypeError:  # a type that NumPy lacks
                pass
        return NotImplemented


def _tensor(array):
    import torch
    return torch.from_numpy(array)


def _pack(value):
    import io
    out = io.BytesIO()
    _Pickler(out, 5).dump(value)
    return out.getvalue()


def _end_with_parent(parent):
    """parent: None if it is not the program, but a server of Python's that forks for it, and ends with it."""
    parent = parent or os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _serve(calls, transform, parent):
    """A worker process: takes chunks of samples and sends results, until its parent closes the pipe."""
    global _transform
    _transform = transform
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not by a handler of the program's
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    try:
        while True:
            calls.send_bytes(_run_packed(calls.recv_bytes()))
    except (EOFError, OSError):
        pass


def _seed(number):
    """Random choices depend on the sample, never on which process made them."""
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number & 0xffffffff)
    if "torch" in sys.modules:
        sys.modules["torch"].default_generator.manual_seed(number)  # manual_seed() looks for GPUs, every time


def _sendable(error):
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _run_packed(packed):
    """(results, the exception that ended them or None, its traceback), as bytes."""
    samples, seeds = pickle.loads(packed)
    done = []
    for sample, seed in zip(samples, seeds):
        try:
            _seed(seed)
            done.append(_transform(sample))
        except Exception as error:
            return _pack((done, _sendable(error), traceback.format_exc()))
    try:
        return _pack((done, None, ""))
    except Exception:
        return _pack_some(done)


def _pack_some(done):
    """Those before the one that cannot be sent."""
    for i, value in enumerate(done):
        try:
            _pack(value)
        except Exception as error:
            return _pack((done[:i], RuntimeError(f"its result cannot be sent from a worker process: "
                                                 f"{error}"), ""))
    raise RuntimeError("results of a transform that cannot be sent together")


# ---- who runs it -------------------------------------------------------------------------------

def _run(transform, samples):
    done = []
    for sample in samples:
        try:
            done.append(transform(sample))
        except Exception as error:
            return done, error
    return done, None


class Threads:
    """For a transform that releases the GIL (Pillow, NumPy, torchvision, OpenCV)."""

    def __init__(self, transform, count):
        self.transform, self.count = transform, count
        self._pool = concurrent.futures.ThreadPoolExecutor(count, "stoker-transform")

    def submit(self, samples, seeds):
        return self._pool.submit(_run, self.transform, samples)

    def result(self, future):
        return future.result()

    def close(self):
        self._pool.shutdown(wait=False, cancel_futures=True)


class Processes:
    """For a transform in Python, or one that keeps the GIL. All are started at once, before the
    loader has threads. A thread of ours waits for each."""

    def __init__(self, transform, count, context):
        context = multiprocessing.get_context(context or "fork")
        self._pid = os.getpid()
        parent = None if context.get_start_method() == "forkserver" else self._pid
        self._idle, self._all, self._broken = queue.SimpleQueue(), [], False
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, transform, parent),
                                      daemon=True)
            process.start()
            theirs.close()
            self._idle.put(ours)
            self._all.append(process)
        self._threads = concurrent.futures.ThreadPoolExecutor(count, "stoker-workers")

    def _ask(self, packed):
        worker = self._idle.get()
        try:
            if self._broken:
                raise EOFError
            worker.send_bytes(packed)
            return worker.recv_bytes()
        except (EOFError, OSError):
            self._broken = True
            raise concurrent.futures.BrokenExecutor from None
        finally:
            self._idle.put(worker)

    def submit(self, samples, seeds):
        return self._threads.submit(self._ask, _pack((samples, seeds)))

    def result(self, future):
        done, error, trace = pickle.loads(future.result())
        if error is not None and trace:
            error.__cause__ = _Remote(trace)
        return done, error

    def close(self):
        if self._pid != os.getpid():  # a copy in a forked process
            return
        self._threads.shutdown(wait=False, cancel_futures=True)
        for process in self._all:
            process.terminate()
        for process in self._all:
            process.join(1)
        self._all = []

    def __del__(self):
        if getattr(self, "_all", None):
            self.close()


def _died():
    return Error("a worker process of transform= has died: it was killed, perhaps for want of "
                 "memory, or it crashed. The batch is given again when the loop goes on")


class Work:
    """Runs a transform. Starts threads or processes when they are first needed."""

    def __init__(self, transform, workers=0, threads=None, context=None):
        self.transform, self.workers, self.context = transform, workers, context
        self.threads = threads or _stoker.cpus()
        self._team = self._pid = None
        self.closed = False

    @property
    def count(self):
        return self.workers or self.threads

    def team(self):
        """The threads or processes of this process; starts them."""
        if self._team is None or self._pid != os.getpid():  # a fork has no threads
            self._pid = os.getpid()
            self._team = Processes(self.transform, self.workers, self.context) if self.workers \
                else Threads(self.transform, self.threads)
        return self._team

    def ahead(self, batch):
        """How many batches to begin before they are asked for: two, more where they are small."""
        return min(AHEAD, max(2, 2 * self.count // batch + 1))

    def submit(self, samples, seeds):
        """(the team that runs them, the future)"""
        team = self.team()
        return team, team.submit(samples, seeds)

    def dismiss(self, team):
        """Ends a team. True if it was the current one: the next call starts another."""
        ours = team is self._team
        if ours:
            self._team = None
            if self._pid == os.getpid():
                team.close()
        return ours

    def close(self):
        self.closed = True
        if self._team is not None:
            self.dismiss(self._team)

    def __getstate__(self):
        return {**self.__dict__, "_team": None, "_pid": None}


def samples_of(held, first, end, numbers, numbered):
    """Samples of a batch, as Dataset gives them; if `numbered`, (which it is of what the loader was given, sample)."""
    made = [held.sample(i) for i in range(first, end)]
    return list(zip(held.ids(numbers).tolist()[first:end], made)) if numbered else made


class Job:
    """The samples of a batch on their way through the transform."""

    def __init__(self, work, held, numbers, seed, numbered=False):
        n, self._work, self._held, self._numbers = len(held), work, held, numbers
        self._numbered = numbered
        # Any mixture will do: equal for equal seeds, epochs and samples, and for those alone.
        key = (seed * 0x9e3779b97f4a7c15 + held.epoch) * 0xd1b54a32d192ed03
        self._seeds = [(key + i) % 2**64 * 0x8cb92ba72f3d8dd7 % 2**63 for i in held.ids().tolist()]
        size = max(1, -(-n // (CHUNKS * work.count)))
        self._chunks = [_Chunk(first, min(first + size, n)) for first in range(0, n, size)]
        for chunk in self._chunks:
            self._submit(chunk)

    def _submit(self, chunk):
        done, _, _ = chunk.at
        first = chunk.first + len(done)
        samples = samples_of(self._held, first, chunk.end, self._numbers, self._numbered)
        chunk.at = (done, *self._work.submit(samples, self._seeds[first:chunk.end]))

    def _finish(self, chunk):
        before, team, future = chunk.at
        if future is None:
            self._submit(chunk)
            before, team, future = chunk.at
        try:
            done, error = team.result(future)
        except (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError):
            chunk.at = before, None, None
            if self._work.closed:
                raise Error("the loader was closed while a transform was under way") from None
            if self._work.dismiss(team):
                raise _died() from None
            return  # dismissed before: the next team runs the chunk
        chunk.at = before + done, None, None
        if error is not None:
            raise self._blame(chunk.first + len(before) + len(done), error) from error

    def _blame(self, i, error):
        key, number = self._held.sample(i).get("key"), int(self._held.ids(self._numbers)[i])
        blamed = TransformError(f"transform= failed at sample {number} (key {key!r}): "
                                f"{type(error).__name__}: {error}")
        blamed.key, blamed.id = key, number
        return blamed

    def result(self):
        """The samples, in their order."""
        for chunk in self._chunks:
            while chunk.first + len(chunk.at[0]) < chunk.end:
                self._finish(chunk)
        return [sample for chunk in self._chunks for sample in chunk.at[0]]


class _Chunk:
    """Neighbouring samples of a batch. `at` is (results, the team that has the rest, its future); it
    changes in one step, since a signal handler may raise between two."""

    __slots__ = ("first", "end", "at")

    def __init__(self, first, end):
        self.first, self.end, self.at = first, end, ([], None, None)
