"""save(): a file that is replaced whole or not at all, if wanted while the program goes on."""

import atexit
import io
import os
import pickle
import sys
import threading
import warnings

from stoker import _stoker

_lock = threading.Lock()
_running = {}  # real path: the last Saving of it


class Saving:
    """A save that goes on in the background. Python waits for it when it ends."""

    def __init__(self, path, real):
        self.path = path
        self._real = real
        self._thread = None
        self._error = None
        self._told = True  # of the error

    def done(self):
        """Whether it has ended, well or not."""
        return self._thread is None or not self._thread.is_alive()

    def join(self, timeout=None):
        """Waits for its end, and raises what went wrong. False: it has not ended in `timeout` seconds."""
        if self._thread is not None:
            self._thread.join(timeout)
        if not self.done():
            return False
        self._told = True
        if self._error is not None:
            raise self._error
        return True

    def _run(self, work):
        try:
            work()
        except BaseException as wrong:  # noqa: BLE001 - join() raises it
            self._error, self._told = wrong, False
            return
        with _lock:
            if _running.get(self._real) is self:
                del _running[self._real]

    def _start(self, work):
        thread = threading.Thread(target=self._run, args=(work,), name=f"stoker.save {self.path}")
        self._thread = thread
        try:
            thread.start()  # not a daemon: Python joins it before it ends
        except RuntimeError:  # no thread is left, or Python is ending: now, then
            self._thread = None
            self._run(work)

    def _warn(self, level):
        if not self._told:
            self._told = True
            warnings.warn(f"{self.path}: the save in the background failed: {self._error}", RuntimeWarning,
                          stacklevel=level)


@atexit.register
def _say_at_exit():
    for saving in list(_running.values()):
        if not saving._told:
            saving._told = True
            print(f"stoker: {saving.path}: the save in the background failed: {saving._error}", file=sys.stderr)


def _after_fork():
    """The threads are the parent's."""
    global _lock
    _lock = threading.Lock()
    _running.clear()


os.register_at_fork(after_in_child=_after_fork)


def _write(obj, file):
    """As the program would have: torch.save() if it uses PyTorch."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if isinstance(obj, str):
        file.write(obj.encode())
    elif isinstance(obj, (bytes, bytearray, memoryview)):
        file.write(obj)
    elif numpy is not None and isinstance(obj, numpy.ndarray):
        numpy.save(file, obj)
    elif torch is not None:
        torch.save(obj, file)
    else:
        pickle.dump(obj, file, protocol=pickle.HIGHEST_PROTOCOL)


def _begin(path, near, fill):
    """A save with everything written, to be committed."""
    new = _stoker.save_begin(os.fsencode(path), None if near is None else os.fsencode(near))
    with open(new.path(), "wb", opener=lambda *_: os.dup(new.fileno())) as file:
        fill(file)
    return new


def _wait_for_last(real):
    with _lock:
        last = _running.get(real)
    if last is not None:
        if last._thread is not None:
            last._thread.join()
        last._warn(4)


def save(obj, path, *, write=None, near=None, background=False):
    """Saves an object to a file: whenever the program is killed, the old or the new file is there, whole.

    `write(obj, file)` writes it, as torch.save and pickle.dump do. Without it, bytes and text are
    written as they are, NumPy arrays by numpy.save, all else by torch.save if the program has
    imported PyTorch, and by pickle if not.

    `near` is a folder on a disk of this node: the file is written there, then copied to `path`.

    `background=True` returns as soon as the object has been written near, or, without `near`, to
    memory: it may change then. The rest is done on a thread. Python waits for it when it ends, and
    the next save of the same path does; join() of the Saving that is returned waits and raises
    what went wrong.
    """
    write = write or _write
    path = os.fspath(path)
    real = os.path.realpath(path)
    _wait_for_last(real)
    if not background:
        _begin(path, near, lambda file: write(obj, file)).commit()
        return None
    if near is not None:
        work = _begin(path, near, lambda file: write(obj, file)).commit
    else:
        memory, there = io.BytesIO(), os.path.abspath(path)
        write(obj, memory)

        def work():
            _begin(there, None, lambda file: file.write(memory.getbuffer())).commit()
    saving = Saving(path, real)
    with _lock:
        _running[real] = saving
    saving._start(work)
    return saving
