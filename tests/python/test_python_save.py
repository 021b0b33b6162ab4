"""stoker.save and stk_save_*: a checkpoint is there, whole, whenever the program is killed."""

import ctypes
import errno
import os
import pickle
import subprocess

import pytest

from killlib import kills_at_changes
from pythonlib import PACKAGE, python, stoker

OLD, NEW = b"old" * 70000, b"new" * 90000  # larger than what is written at once


class Err(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("sys_errno", ctypes.c_int), ("offset", ctypes.c_int64),
                ("path", ctypes.c_char * 1024), ("what", ctypes.c_char * 1024), ("reserved", ctypes.c_uint64 * 4)]


lib = ctypes.CDLL(str(PACKAGE.parent / "libstoker.so.1"))


def call(name, *args):
    err = Err()
    if getattr(lib, name)(*args, ctypes.byref(err)) < 0:
        raise OSError(err.sys_errno, f"{err.path.decode()}: {err.what.decode()}")


def in_c(path, near, start):
    save = ctypes.c_void_p()
    call("stk_save_begin", os.fsencode(path), os.fsencode(near) if near else None, ctypes.byref(save))
    os.write(lib.stk_save_fd(save), NEW)
    call("stk_save_start" if start else "stk_save_commit", save)
    if start:
        call("stk_saves_wait")


def in_python(path, near, background):
    saving = stoker.save(NEW, path, near=near, background=background)
    if background:
        saving.join()


@pytest.fixture
def place(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    return tmp_path


def hidden(place):
    return [p for p in place.rglob("*") if p.is_file() and p.name != "last.pt"]


@pytest.mark.parametrize("near", [False, True], ids=["there", "near"])
@pytest.mark.parametrize("aside", [False, True], ids=["waits", "background"])
@pytest.mark.parametrize("save", [in_c, in_python])
def test_killed_at_every_call(place, save, near, aside):
    """What a killed run leaves is loaded by the next one."""
    path = place / "far/last.pt"
    seen, left = set(), 0

    def again():  # the same calls each time
        for p in hidden(place):
            p.unlink()
        path.write_bytes(OLD)

    for n in kills_at_changes(lambda: save(path, place / "near" if near else None, aside), again):
        now = path.read_bytes()
        assert now in (OLD, NEW), f"torn by a kill at change {n}"
        seen.add(now)
        if len(hidden(place)) > left:
            left = len(hidden(place))
            save(path, place / "near" if near else None, aside)
            assert path.read_bytes() == NEW and not hidden(place), "the next save removes what a killed one left"
    assert path.read_bytes() == NEW and not hidden(place) and seen | {NEW} == {OLD, NEW}
    assert left == 1 + near


def test_what_runs_is_not_left_over(place):
    """Two ranks that save one name must not remove each other's file."""
    path = place / "far/last.pt"

    def slow(obj, file):
        file.write(b"first")
        stoker.save(b"second", path)
        assert path.read_bytes() == b"second"

    stoker.save(None, path, write=slow)
    assert path.read_bytes() == b"first" and not hidden(place)
    # Of the user, whatever it is called.
    (place / "far/.last.pt.saving.notes").write_text("mine")
    (place / "far/.last.pt.saving.00000000.0123456789abcdef").mkdir()
    stoker.save(b"third", path)
    assert (place / "far/.last.pt.saving.notes").exists() and len(list((place / "far").iterdir())) == 3


def test_order_of_saves_in_the_background(place):
    """The last one wins, however long the ones before it take."""
    path = place / "far/last.pt"
    for i in range(20):
        state = {"step": i}
        stoker.save(state, path, near=place / "near" if i % 2 else None, background=True, write=pickle.dump)
        state["step"] = -1
    assert stoker.save({"step": 20}, path, write=pickle.dump) is None
    assert pickle.loads(path.read_bytes()) == {"step": 20} and not hidden(place)


def test_python_waits_at_its_end(place):
    """A script that ends, or fails, right after the last save has that save."""
    script = """
import sys, stoker
stoker.save(b"x" * (1 << 22), sys.argv[1], near=sys.argv[2], background=True)
raise SystemExit(3)
"""
    python(script, place / "far/last.pt", place / "near", rc=3)
    assert (place / "far/last.pt").read_bytes() == b"x" * (1 << 22) and not hidden(place)


def test_what_goes_wrong_is_said(place):
    """A save that failed without a word is found when it is needed."""
    path = place / "far/last.pt"
    path.write_bytes(OLD)
    with pytest.raises(ZeroDivisionError):
        stoker.save(None, path, write=lambda obj, file: file.write(OLD) / 0)
    assert path.read_bytes() == OLD and not hidden(place)
    saving = stoker.save(NEW, place / "none/last.pt", background=True)
    with pytest.raises(stoker.NotFoundError, match="none/last.pt"):
        saving.join()
    with pytest.raises(stoker.SysError) as wrong:
        stoker.save(NEW, place / "far")
    assert wrong.value.errno == errno.EISDIR
    os.mkfifo(place / "far/pipe")
    with pytest.raises(stoker.UnsupportedError, match="is not a file"):
        stoker.save(NEW, place / "far/pipe")
    stoker.save(NEW, place / "none/a", background=True)._thread.join()
    with pytest.warns(RuntimeWarning, match="none/a: the save in the background failed"), \
            pytest.raises(stoker.NotFoundError):
        stoker.save(NEW, place / "none/a")
    script = """
import sys, stoker
stoker.save(b"x", sys.argv[1], background=True)
"""
    done = subprocess.run([os.sys.executable, "-c", script, place / "none/b"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert "none/b: the save in the background failed" in done.stderr


def test_what_cannot_be_copied_stays(place):
    """A full file system takes the old checkpoint's place only if the new one is there."""
    path = place / "far/last.pt"
    script = """
import resource, sys, stoker
def write(obj, file):
    file.write(b"n" * (1 << 20))
    file.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    stoker.save(None, sys.argv[1], near=sys.argv[2], write=write)
except stoker.SysError as wrong:
    print(wrong)
"""
    path.write_bytes(OLD)
    said = python(script, path, place / "near")
    kept, = hidden(place)
    assert str(kept) in said and "stays until the next save" in said and "File too large" in said
    assert kept.read_bytes() == b"n" * (1 << 20) and path.read_bytes() == OLD


def test_as_the_program_would_have(place):
    """Its mode, its links, its library."""
    path, real = place / "far/last.pt", place / "real.pt"
    path.symlink_to(real)
    real.write_bytes(OLD)
    real.chmod(0o640)
    stoker.save("text", path)
    assert path.is_symlink() and real.read_text() == "text" and real.stat().st_mode & 0o777 == 0o640
    numpy = pytest.importorskip("numpy", reason="python3-numpy is not installed")
    stoker.save(numpy.arange(3), place / "far/a.npy")
    assert numpy.load(place / "far/a.npy").tolist() == [0, 1, 2]
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    stoker.save({"w": torch.ones(2)}, path, near=place / "near", background=True).join()
    assert torch.load(real)["w"].tolist() == [1, 1]
    stoker.save(7, place / "far/b", write=pickle.dump)
    assert pickle.loads((place / "far/b").read_bytes()) == 7


def test_after_a_fork(place):
    """A worker forked while a save runs saves, too."""
    path, read = place / "far/last.pt", os.pipe()
    with open(read[0]) as waits:
        def slow(obj, file):
            file.write(NEW)
        stoker.save(None, path, write=slow, background=True)
        child = os.fork()
        if child == 0:
            try:
                stoker.save(b"child", place / "far/last.pt")
            finally:
                os._exit(0 if path.read_bytes() else 1)
        os.close(read[1])
        assert os.waitpid(child, 0)[1] == 0 and waits.read() == ""
    assert path.read_bytes() in (NEW, b"child")
