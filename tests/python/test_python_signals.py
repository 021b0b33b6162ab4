"""Ctrl-C, Slurm's SIGTERM and any exception between two batches: state() tells of what the loop has.

The exception is raised before every single instruction of the loop and of the package in turn, as the
handler of a signal may do it; then a second loader goes on from the state of the first.
"""

import itertools
import os
import pathlib
import pickle
import signal
import sys
import threading

import pytest

from conftest import LONG
from pythonlib import python, stoker

import numpy as np

N, BATCH = 40, 10
PACKAGE = str(pathlib.Path(stoker.__file__).parent)


class Stop(BaseException):
    """What the handler of a signal raises."""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "a.npy"
    np.save(path, np.arange(N))
    return path


def plain(loader, box):
    for box[0] in loader:
        box[1].append(box[0])


def counted(loader, box):
    for box[2], box[0] in enumerate(loader):
        box[1].append(box[0])


def asked(loader, box):
    batches = iter(loader)
    while True:
        try:
            box[0] = next(batches)
        except StopIteration:
            break
        box[1].append(box[0])


def passing_on(batches):
    """As progress bars are made."""
    for batch in batches:
        yield batch


def through_a_generator(loader, box):
    """Raised where the batch is in between; a batch that the loop has looked at is the loop's."""
    sys.settrace(At.only(passing_on, sys.gettrace()))
    for box[0] in passing_on(loader):
        box[1].append(box[0])
        len(box[0])


class At:
    """A trace function that raises before instruction `number` of the loop or the package."""

    def __init__(self, number):
        self.number, self.raised, self.where = number, False, None

    @staticmethod
    def only(function, at):
        """The same, in the package and in `function` alone."""
        at.where = function.__code__
        return at

    def __call__(self, frame, event, arg):
        name = frame.f_code.co_filename
        here = frame.f_code is self.where if self.where else name == __file__
        if not name.startswith(PACKAGE) and not here:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.number -= 1
            if self.number == 0:
                self.raised = True
                raise Stop
        return self


def trace(at):
    """Sets the trace function. Python 3.12 looks then, and only then, whether some frame wants to know
    of instructions."""
    sys._getframe().f_trace_opcodes = True
    sys.settrace(at)


def received(box):
    """Every batch that was stored in the loop's variable."""
    got = box[1] + ([box[0]] if box[0] is not None and all(box[0] is not b for b in box[1]) else [])
    return [int(i) for b in got for i in b.ids]


def interrupted(loop, loader, at):
    """(what the loop received, whether it was interrupted)"""
    box = [None, [], None]
    old = sys.gettrace()
    trace(at)
    try:
        loop(loader, box)
    except Stop:
        pass
    finally:
        sys.settrace(old)
    return box, at.raised


def check_everywhere(make, loop, step=5):
    """Interrupts at every `step`-th instruction: the loop runs often enough to be hit everywhere."""
    number, more, step = 1, True, 1 if LONG else step
    while more:
        loader = make()
        box, more = interrupted(loop, loader, At(number))
        state = loader.state()
        got = received(box)
        rest = [int(i) for b in make(state=state) for i in b.ids] if len(got) < N else []
        assert sorted(got + rest) == list(range(N)), f"instruction {number}"
        loader.close()
        number += step
    assert number > 50


@pytest.mark.parametrize("loop", [plain, counted, asked, through_a_generator])
def test_nothing_is_lost(table, loop):
    """Whatever instruction an exception comes at: no sample is lost, none is seen twice."""
    with stoker.Dataset(table) as ds:
        check_everywhere(lambda **o: stoker.Loader(ds, batch=BATCH, seed=1, threads=1, **o), loop)


@pytest.mark.xdist_group("signals")  # importing torch takes a while
@pytest.mark.parametrize("loop", [plain, asked])
def test_nothing_is_lost_with_torch(table, loop):
    """The same for tensors, which are made in Python."""
    pytest.importorskip("torch", reason="python3-torch is not installed")
    import stoker.torch
    with stoker.Dataset(table) as ds:
        check_everywhere(lambda **o: stoker.torch.Loader(ds, batch=BATCH, seed=1, threads=1, **o),
                         loop, step=17)


def test_the_same_loop_goes_on(table):
    """A program that catches the exception and asks the same iteration again misses nothing."""
    with stoker.Dataset(table) as ds:
        number, more = 1, True
        while more:
            batches, box = iter(stoker.Loader(ds, batch=BATCH, threads=1)), [None, [], None]
            more = asked_twice(batches, box, At(number))
            assert sorted(received(box)) == list(range(N)), f"instruction {number}"
            number += 1 if LONG else 7
        assert number > 50


def asked_twice(batches, box, at):
    def loop(batches, box):
        while True:
            box[0] = next(batches, None)
            if box[0] is None:
                return
            box[1].append(box[0])
    old = sys.gettrace()
    trace(at)
    try:
        loop(batches, box)
    except Stop:
        sys.settrace(old)
        if box[0] is not None and all(box[0] is not b for b in box[1]):
            box[1].append(box[0])
        loop(batches, box)
    finally:
        sys.settrace(old)
    return at.raised


@pytest.fixture(params=["moved by the loader", "moved by the program"])
def no_gpu(monkeypatch, request):
    """What a loader that copies batches to a GPU asks of PyTorch, answered without one."""
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import contextlib
    import stoker.torch

    class Event:
        query = staticmethod(lambda: True)
        synchronize = staticmethod(lambda: None)

    class Stream:
        def __init__(self, *_):
            pass

        record_event = staticmethod(Event)
        wait_event = staticmethod(lambda event: None)

    class Device:
        type = "cuda"
    for name, value in {"Stream": Stream, "stream": lambda s: contextlib.nullcontext(),
                        "current_stream": Stream, "init": lambda: None,
                        "mem_get_info": lambda device: (1 << 40, 1 << 40)}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(stoker.torch, "_each_tensor", lambda value, do: None)
    monkeypatch.setattr(stoker.torch, "_copy_of", lambda tensor, device: tensor)
    monkeypatch.setattr(stoker.torch, "_pinned", lambda size: ((m := torch.empty(size, dtype=torch.uint8)).data_ptr(), m))

    class Way(stoker.torch.Way):
        """The program has moved every batch."""
        device = property(lambda self: device, lambda self, to: None)
    device = Device()
    monkeypatch.setattr(stoker.torch, "Way", Way)

    def make(*args, **options):
        loader = stoker.torch.Loader(*args, **options)
        if request.param == "moved by the loader":
            loader.device = device
        else:
            loader.pin_memory = True
        return loader
    return make


@pytest.mark.xdist_group("signals")
@pytest.mark.parametrize("loop", [plain, asked])
def test_nothing_is_lost_on_the_way_to_a_gpu(table, loop, no_gpu):
    """There, one batch more than the loop has is on its way."""
    with stoker.Dataset(table) as ds:
        check_everywhere(lambda **o: no_gpu(ds, batch=BATCH, seed=1, threads=1, **o), loop, step=23)
        loader = no_gpu(ds, batch=BATCH, seed=1)
        first, second = ids(loader), ids(loader)
        assert first == ids(stoker.Loader(ds, batch=BATCH, seed=1)) != second
        assert loader.epoch == 2 and len(loader) == N // BATCH


@pytest.mark.xdist_group("signals")
def test_a_transform_that_fails(table):
    """A batch whose transform raises was not received: it is given again."""
    pytest.importorskip("torch", reason="python3-torch is not installed")
    import stoker.torch

    def transform(batch):
        if fail:
            raise Stop
        return batch["data"].tolist()
    fail, got = False, []
    loader = stoker.torch.Loader(table, batch=BATCH, seed=1, batch_transform=transform)
    batches = iter(loader)
    got += next(batches)
    fail = True
    with pytest.raises(Stop):
        next(batches)
    fail, state = False, loader.state()
    rest = sum(stoker.torch.Loader(table, batch=BATCH, batch_transform=transform, state=state), [])
    assert sorted(got + rest) == list(range(N)) and sum(batches, []) == rest


def test_an_error_keeps_the_place(tmp_path):
    """After a corrupt sample the state is where the loop was, not at the beginning."""
    from conftest import flip_byte
    from pythonlib import write_records
    write_records(tmp_path / "r.tfrecord", [bytes([i]) * 100 for i in range(100)])
    flip_byte(tmp_path / "r.tfrecord", 55 * 116 + 50)
    loader, seen = stoker.Loader(tmp_path / "r.tfrecord", batch=10, shuffle=False), []
    with pytest.raises(stoker.CorruptError):
        for batch in loader:
            seen += batch.ids.tolist()
    again = stoker.Loader(tmp_path / "r.tfrecord", batch=10, state=loader.state(), on_error="replace")
    assert seen == list(range(50)) and next(iter(again)).ids[0] == 50


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal(table, number):
    """A signal that is pending when the batch comes is answered before the batch counts."""
    out = python("""
import json, os, signal, sys
import stoker
number, seen = int(sys.argv[2]), []
def handler(*_):
    raise KeyboardInterrupt
signal.signal(number, handler)
loader = stoker.Loader(sys.argv[1], batch=10, seed=1)
made = loader._made
def interrupted(held):  # the last Python code before the loop has it
    batch = made(held)
    if len(seen) == 20 and signal.getsignal(number) is handler:
        signal.pthread_sigmask(signal.SIG_BLOCK, {number})
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    return batch
loader._made = interrupted
try:
    for batch in loader:
        seen += batch.ids.tolist()
except KeyboardInterrupt:
    signal.signal(number, signal.SIG_IGN)
else:
    sys.exit("no signal came")
rest = [i for b in stoker.Loader(sys.argv[1], batch=10, state=loader.state()) for i in b.ids.tolist()]
print(sorted(seen + rest) == list(range(40)), len(seen))
""", table, int(number))
    assert out.split() == ["True", "20"]


def test_a_handler_asks_before_the_batch_is_stored(table):
    """A signal handler that saves the state itself, between the call of next() and the assignment."""
    loader, states = stoker.Loader(table, batch=BATCH, seed=1), []

    def handler(*_):
        states.append(loader.state())
    old = signal.signal(signal.SIGUSR1, handler)
    try:
        seen = []
        # zip takes a batch, and then runs what raises the signal, before the loop has either.
        for batch, _ in zip(loader, iter(lambda: signal.raise_signal(signal.SIGUSR1), 1)):
            seen.append(batch.ids.tolist())
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert len(states) == len(seen) == N // BATCH
    for number, state in enumerate(states):
        again = stoker.Loader(table, batch=BATCH, state=state)
        assert [b.ids.tolist() for b in again] == seen[number:]
    batch = next(iter(loader))
    assert ids([batch]) + ids(stoker.Loader(table, batch=BATCH, state=loader.state())) \
        == ids(stoker.Loader(table, batch=BATCH, seed=1, epoch=1))


# ---- what a resumed loader keeps ----

def ids(batches):
    return [int(i) for b in batches for i in b.ids]


@pytest.fixture
def resumed(table):
    """A loader that goes on from a state of another seed and shuffle, and the epochs it has."""
    first = stoker.Loader(table, batch=BATCH, seed=77, shuffle="global")
    next(iter(first))
    want = [ids(stoker.Loader(table, batch=BATCH, seed=77, shuffle="global", epoch=e))
            for e in range(8)]
    return stoker.Loader(table, batch=BATCH, state=first.state()), want


def test_resumed_and_left(resumed):
    """After break, an exception, or the end: the next epochs are in the order of the state."""
    loader, want = resumed
    for batch in loader:
        break
    assert ids([batch]) == want[0][BATCH:2 * BATCH]
    assert ids(loader) == want[1] and ids(loader) == want[2]
    for batch in loader:
        break
    assert ids(loader) == want[4] and len(loader) == N // BATCH


def test_resumed_and_set_epoch(resumed):
    loader, want = resumed
    loader.set_epoch(5)
    assert loader.epoch == 5 and ids(loader) == want[5]
    loader.set_epoch(2)
    assert ids(loader) == want[2] and ids(loader) == want[3]


def test_resumed_and_pickled(resumed):
    loader, want = resumed
    again = pickle.loads(pickle.dumps(loader))
    assert ids(again) == want[0][BATCH:] and ids(again) == want[1]
    again.set_epoch(6)
    again = pickle.loads(pickle.dumps(again))
    assert ids(again) == want[6] and ids(pickle.loads(pickle.dumps(again))) == want[7]


def test_resumed_and_forked(resumed):
    loader, want = resumed
    batches = iter(loader)
    next(batches)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ok = ids(stoker.Loader(loader.dataset.path, batch=BATCH, state=loader.state())) \
                == want[0][2 * BATCH:] and ids(loader) == want[1]
            os.write(write, b"ok" if ok else b"no")
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        assert f.read() == b"ok"
    os.waitpid(child, 0)
    assert ids(batches) == want[0][2 * BATCH:]


def test_fork_while_a_thread_takes_batches(table):
    """A child of a program whose other thread is in the loop can ask for the state and begin."""
    loader = stoker.Loader(table, batch=BATCH, seed=3)
    inside, leave = threading.Event(), threading.Event()
    made = loader._made

    def slow(held):
        inside.set()
        leave.wait(60)
        return made(held)
    loader._made = slow
    thread = threading.Thread(target=lambda: ids(loader), daemon=True)
    thread.start()
    assert inside.wait(60)
    child = os.fork()
    if child == 0:
        try:
            del loader._made
            good = loader.state() and len(ids(loader)) == N
        finally:
            os._exit(0 if good else 1)
    leave.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join(60)


def closed_at_line(loader, nth):
    """A tracer that closes the loader before the nth line of the package that runs, as another thread may."""
    lines = itertools.count()

    def trace(frame, event, _):
        if not frame.f_code.co_filename.endswith("stoker/loader.py"):
            return None
        if event == "line" and next(lines) == nth:
            loader.close()
        return trace
    return trace, lines


def test_closed_at_every_line(table):
    """A loop whose loader is closed under it ends with that reason, wherever it was."""
    for nth in itertools.count():
        loader = stoker.Loader(table, batch=BATCH)
        trace, lines = closed_at_line(loader, nth)
        sys.settrace(trace)
        try:
            for _ in zip(range(2), loader):
                pass
        except stoker.UsageError as error:
            assert "closed" in str(error) and error.__suppress_context__
        finally:
            sys.settrace(None)
        if next(lines) <= nth:
            break
    assert nth > 20


def test_daemon_threads_end_in_silence(table):
    """A program that ends while a daemon thread takes batches prints no traceback."""
    import subprocess
    from pythonlib import environment
    script = """
import sys, threading, time
import stoker
loader = stoker.Loader(sys.argv[1], batch=1)
begun = threading.Event()
def take():
    while True:
        for batch in loader:
            begun.set()
threading.Thread(target=take, daemon=True).start()
begun.wait()
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script, str(table)], env=environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0 and done.stdout == ""
