"""Memory, signals, forks and threads: what must not go wrong in a training job of days."""

import ctypes
import gc
import os
import signal
import struct
import threading
import time
import zlib

import pytest

from conftest import PATIENCE_S
from pythonlib import python, stoker, write_records

import numpy as np


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "a.npz"
    np.savez(path, x=np.arange(2000 * 64, dtype=np.int64).reshape(2000, 64), label=np.arange(2000))
    return path


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "r.tfrecord"
    write_records(path, [bytes([i % 251]) * 300 for i in range(2000)])
    return path


def churn(*paths):
    """Uses and frees memory of the same kind, so that a view of freed memory would be seen."""
    for path in paths:
        for _ in stoker.Loader(path, batch=64, seed=99):
            pass
    gc.collect()


def test_views_outlive_everything(table, records):
    """Arrays and views are right after batch, loader and dataset have gone."""
    loader = stoker.Loader(table, batch=64, shuffle=False)
    x = next(iter(loader))["x"]
    loader.close()
    column = next(iter(stoker.Loader(records, batch=64, shuffle=False)))["data"]
    view = column[5]
    del loader, column
    churn(table, records)
    assert np.array_equal(x.ravel(), np.arange(64 * 64)) and view.tobytes() == bytes([5]) * 300
    x[:] = 7  # the batch is its owner's


def test_many_batches_held(table):
    """Holding every batch of an epoch works: the loader goes over its budget, not into a lock."""
    held = list(stoker.Loader(table, batch=50, shuffle=False, memory="1M"))
    assert [b["label"][0] for b in held] == list(range(0, 2000, 50))


def test_release(table):
    """release() gives the memory back early; arrays taken before stay right."""
    loader = stoker.Loader(table, batch=64, shuffle=False)
    batches = iter(loader)
    batch = next(batches)
    x = batch["x"]
    batch.release()
    for use in (lambda: batch["label"], lambda: batch.ids, lambda: len(batch), lambda: list(batch)):
        with pytest.raises(ValueError, match="released"):
            use()
    for _ in batches:
        pass
    assert np.array_equal(x.ravel(), np.arange(64 * 64)) and "released" in repr(batch)


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_does_not_grow(table, records):
    """Fifty epochs, some left early, take no more memory than five."""
    loaders = [stoker.Loader(table, batch=64, memory="16M"),
               stoker.Loader(records, batch=64, memory="16M", shuffle="global")]

    def epochs(n):
        for i in range(n):
            for loader in loaders:
                for batch in loader:
                    for column in batch.values():
                        column[0]
                    if i % 5 == 4 and batch.step == 9:
                        break
                loader.state(), loader.stats()
        gc.collect()
        return rss()
    before = epochs(10)
    assert epochs(40) - before < 40 << 20  # they read 64 MiB; ASan keeps 16 of what was freed


def test_objects_do_not_leak(table, records):
    """Every call gives back the references it took."""
    ds, loader = stoker.Dataset(table), stoker.Loader(records, batch=10, keys=True)

    def everything():
        ds[1], ds[-1], ds.format, ds.classes, len(ds)
        for batch in loader:
            column = batch["data"]
            column[0], column.bytes(1), column.tolist(), column.sizes(), column.concat()
            batch["key"], batch.flags, batch.ids, batch.repeats, list(batch)
            raw = column[0].base[0]
            raw.__array_interface__, raw.__array_struct__, raw.shape, raw.tolist(), raw.copy()
            raw.__dlpack__(max_version=(1, 0)), repr(raw)
            if batch.step == 20:
                break
        loader.stats(), loader.problems(), loader.state(), len(loader)
        for wrong in ({"io": "tape"}, {"memory": "lots"}, {"fields": ["none"]}):
            with pytest.raises(stoker.Error):
                len(stoker.Loader(records, **wrong))
        gc.collect()
        return len(gc.get_objects())
    everything()
    before = everything()
    for _ in range(5):
        after = everything()
    assert after - before < 50


# ---- memory from elsewhere ----

class Giver:
    """Gives memory for a loader's arrays, and counts it."""

    def __init__(self):
        self.made = 0
        self.pool = stoker._stoker.Pool(self._give)

    def _give(self, size):
        memory = ctypes.create_string_buffer(size + 64)
        self.made += 1
        return (ctypes.addressof(memory) + 63) // 64 * 64, memory


def test_memory_from_elsewhere(table):
    """Arrays are made in memory that a function gives, and that memory is used again."""
    giver = Giver()
    loader = stoker.Loader(table, batch=64, shuffle=False, memory="1M")
    loader._pool = giver.pool
    for _ in range(3):
        for step, batch in enumerate(loader):
            assert batch["x"][0, 0] == step * 64 * 64
    x = batch["x"]
    blocks, given = giver.pool.blocks
    assert blocks == given == giver.made > 0
    loader.close()
    del loader, batch
    assert x[0, 0] == 31 * 64 * 64
    assert giver.pool.blocks[0] == blocks


def test_memory_that_is_refused(table):
    """Where the function fails, ordinary memory takes its place."""
    loader = stoker.Loader(table, batch=64, shuffle=False)
    for give in (lambda size: None, lambda size: 1 // 0, lambda size: "x"):
        loader._pool = stoker._stoker.Pool(give)
        assert next(iter(loader))["x"][0, 1] == 1
        assert loader._pool.blocks[1] == 0
        loader.set_epoch(0)


# ---- a loader that waits ----

@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """Images that take a while to decode, some hundred times as long as it takes to ask: 16 times 9
    million black pixels."""
    side = 3000
    rows = zlib.compress(bytes((side + 1) * side), 1)

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    png = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
           + chunk(b"IDAT", rows) + chunk(b"IEND", b""))
    folder = tmp_path_factory.mktemp("slow")
    for i in range(16):
        (folder / f"{i:02d}.png").write_bytes(png)
    return folder


def slow_loader(path):
    try:
        loader = stoker.Loader(path, batch=16, shuffle=False, threads=1, decode="image:8,gray")
        len(loader)
    except stoker.UnsupportedError as e:
        pytest.skip(str(e))
    return loader


def test_ctrl_c_while_waiting(slow):
    """Ctrl-C interrupts a training script that waits for data; it can go on."""
    loader = slow_loader(slow)
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        try:
            timer.start()
            next(iter(loader))
        finally:
            timer.join()
    assert loader.epoch == 0


def test_signal_handler_asks_for_the_state(slow):
    """A handler of Slurm's warning signal can save the state while the loader waits."""
    loader, states = slow_loader(slow), []

    class Enough(Exception):
        pass

    def handler(number, frame):
        states.append(loader.state())
        raise Enough
    old = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with pytest.raises(Enough):
            try:
                timer.start()
                next(iter(loader))
            finally:
                timer.join()
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert len(states) == 1 and stoker.Loader(slow, state=states[0]).epoch == 0


def test_closed_by_another_thread(slow):
    """close() ends a next() that waits in another thread."""
    loader = slow_loader(slow)
    batches, ended = iter(loader), []

    def take():
        try:
            ended.append(next(batches))
        except Exception as e:
            ended.append(e)
    thread = threading.Thread(target=take)
    thread.start()
    time.sleep(0.02)  # when it has not begun to wait it is told the same
    loader.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and "closed" in str(ended[0])


# ---- processes ----

def test_fork_while_running(table):
    """A child forked in the middle of an epoch ends by itself, and can begin one of its own."""
    out = python("""
import os, sys, threading, time
import stoker
def resting():  # whether all other threads sleep: one that waits for a core does not
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/stat") as f:
            if int(thread) != threading.get_native_id() and f.read().rpartition(")")[2].split()[0] != "S":
                return False
    return True
loader = stoker.Loader(sys.argv[1], batch=64, shuffle=False)
batches = iter(loader)
first = next(batches)
seen = 0
while seen < 20:  # a fork in the middle of ASan's allocator would hang the child
    seen = seen + 1 if resting() else 0
    time.sleep(0.01)
child = os.fork()
if child == 0:
    assert first["x"][0, 1] == 1
    try:
        next(batches)
    except stoker.Error as e:
        assert "process" in str(e), e
    else:
        sys.exit("the parent's iteration went on in the child")
    print("child", sum(len(b) for b in loader), loader.epoch, flush=True)
    del first
    sys.exit(0)
status = os.waitpid(child, 0)[1]
print("parent", status, 64 + sum(len(b) for b in batches))
""", table)
    assert out.splitlines() == ["child 2000 2", "parent 0 2000"]


@pytest.mark.parametrize("how", ["end", "break", "exception", "sys.exit", "thread"])
def test_exit_in_the_middle(table, how):
    """A program that ends in the middle of an epoch ends, with its own status."""
    python("""
import sys, threading
import stoker
loader = stoker.Loader(sys.argv[1], batch=16, memory="8M")
how = sys.argv[2]
def take():
    global kept
    for kept in loader:
        if how == "exception":
            1 / 0
        if how == "sys.exit":
            sys.exit(1)
        if how != "end":
            break
if how == "thread":
    threading.Thread(target=lambda: [None for _ in loader], daemon=True).start()
else:
    take()
""", table, how, rc=1 if how in ("exception", "sys.exit") else 0)


def test_nothing_in_shared_memory(table):
    """Nothing is left in /dev/shm, whatever happens: there was nothing."""
    out = python("""
import os, sys
import stoker
loader = stoker.Loader(sys.argv[1], batch=16)
batches = iter(loader)
kept = [next(batches) for _ in range(20)]
held = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
held |= {line.split()[-1] for line in open("/proc/self/maps")}
data = os.path.dirname(os.path.realpath(sys.argv[1]))
print([name for name in held if name.startswith("/dev/shm") and not name.startswith(data)], flush=True)
os._exit(0)
""", table)
    assert out.strip() == "[]"


def test_no_threads_left(table):
    """A closed loader, and one that was dropped, leave no thread behind."""
    out = python("""
import os, sys, time
import stoker
def threads():
    return len(os.listdir("/proc/self/task"))
before = threads()
loader = stoker.Loader(sys.argv[1], batch=16, threads=3)
next(iter(loader))
during = threads()
loader.close()
batch = next(iter(stoker.Loader(sys.argv[1], batch=16)))
while threads() != before:  # the kernel lists a thread a little longer than it runs
    time.sleep(0.01)
print(before, during > before, threads())
""", table)
    before, more, after = out.split()
    assert more == "True" and before == after
