"""The loader on a file system that fails under it: what was asked for happens, in the order of the data,
and nothing hangs. Each engine, since each meets the failure in another place."""

import json
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE_S, STOKER, clean_env, make_images, run_stoker, until
from packagelib import environment
from slowfslib import slowfs

ENGINES = ["threads", "direct", "uring", "mmap"]


@pytest.fixture
def packed(tmp_path):
    """A dataset of four shards, and its 600 samples."""
    make_images(tmp_path / "images", classes=3, per_class=200, sizes=(20_000, 60_000))
    (tmp_path / "src").mkdir()
    run_stoker("pack", tmp_path / "images", tmp_path / "src/set", "--shards", 4, "-q")
    (tmp_path / "mnt").mkdir()
    return tmp_path / "src", tmp_path / "mnt"


def load(path, *args, rc=0):
    return run_stoker("load", path, "--batch", 10, "--json", "-", *args, rc=rc).json()["result"]


@pytest.mark.parametrize("io", ENGINES)
def test_a_failing_disk_costs_its_own_samples_only(packed, io):
    """One bad disk of many must not end the training where the user said to go on."""
    src, mnt = packed
    with slowfs(src, mnt) as fs:
        fs.command("eio *00002-of-00004* after=100000")
        whole = load(mnt / "set", "--io", io, "--on-error", "skip", "--shuffle", "none", rc=1)
        assert whole["batches"] == 60  # the number of steps stays
        assert 100 < whole["corrupt"] < 160  # all of that shard but its first 100 kB, no others
        said = run_stoker("load", mnt / "set", "--io", io, "--batch", 10, rc=4)
        assert "00002-of-00004" in said.err and "Input/output error" in said.err


@pytest.mark.parametrize("io", ["threads", "direct", "uring"])
def test_a_disk_that_comes_back_costs_nothing(packed, io):
    """A read that fails once is tried again before a sample is given up."""
    src, mnt = packed
    with slowfs(src, mnt, cache="off") as fs:
        fs.command("eio *00001-of-00004* count=1")
        whole = load(mnt / "set", "--io", io, "--on-error", "skip", "--shuffle", "none")
        assert whole["batches"] == 60 and whole["corrupt"] == 0


def start(path, *args):
    return subprocess.Popen([STOKER, "load", path, "--batch", "10", *args], env=clean_env(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for_reads(fs):
    until(lambda: fs.stats()["reads"])


@pytest.mark.parametrize("what", ["vanish *.tfrecord", "shrink *.tfrecord to=50000"])
@pytest.mark.parametrize("io", ENGINES)
def test_files_that_go_away_in_the_middle_are_named(packed, io, what):
    """A purge of scratch space in the middle of an epoch: an error with the file, no crash, no hang."""
    src, mnt = packed
    with slowfs(src, mnt, read="1ms", bandwidth="40MB") as fs:
        run = start(mnt / "set", "--io", io, "--epochs", "100")
        wait_for_reads(fs)
        fs.command(what)
        _, said = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 4 and "-of-00004.tfrecord" in said, said


def test_a_flipped_bit_is_found(packed):
    """What neither disk nor network notices goes into no batch."""
    src, mnt = packed
    with slowfs(src, mnt) as fs:
        fs.command("flip *00000-of-00004* offset=100000 bit=3")
        passed = load(mnt / "set", "--on-error", "skip", rc=1)
        assert passed["corrupt"] == 1


@pytest.mark.parametrize("io", ENGINES)
def test_interrupted_while_the_file_system_hangs(packed, io):
    """Ctrl-C must work when the storage does not: the reads in flight are waited for, no more."""
    src, mnt = packed
    with slowfs(src, mnt) as fs:
        fs.command("stall *.tfrecord 300ms")
        run = start(mnt / "set", "--io", io, "--epochs", "50")
        wait_for_reads(fs)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=PATIENCE_S)
        assert run.returncode not in (0, None)


CLOSE = """
import sys, stoker
loader = stoker.Loader(sys.argv[1], batch=10, io=sys.argv[2], shuffle="none", memory="1M")
next(iter(loader))
with open(sys.argv[3], "w") as control:
    control.write("stall *.tfrecord 9999s")
loader.close()
print("closed")
"""


@pytest.mark.parametrize("io", ENGINES)
def test_a_loader_can_be_closed_while_the_storage_hangs(packed, io):
    """Ctrl-C would be answered when the file server comes back, if it does."""
    src, mnt = packed
    with slowfs(src, mnt, cache="off" if io != "mmap" else "open") as fs:
        proc = subprocess.Popen(
            [sys.executable, "-c", CLOSE, mnt / "set", io, mnt / ".slowfs-control"],
            env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert proc.stdout.readline() == "closed\n", proc.communicate()
        fs.command("clear")  # what is stuck in the kernel may keep the process
        _, said = proc.communicate(timeout=PATIENCE_S)
        assert proc.returncode == 0 and not said, said


def test_bytes_from_the_device_are_counted_or_not_known(tmp_path):
    """134 MB at 10 ms per read "from the device 0 B: everything was in the page cache"."""
    w, out = tmp_path / "w.yaml", tmp_path / "out.json"
    w.write_text("name: t\ndataset: {format: files, files: 8, samples_per_file: 1, record: 128K}\n"
                 "reader: {threads: 1}\ntraining: {batch: 4, compute: 1ms}\n")
    run_stoker("bench", w, "--data", tmp_path / "d", "--generate-only")
    near = run_stoker("bench", w, "--data", tmp_path / "d", "--json", out)
    assert "came from memory, not from storage" in near.out
    with slowfs(tmp_path / "d", tmp_path / "mnt", read="10ms", cache="off") as fs:
        got = run_stoker("bench", w, "--data", fs.mnt, "--json", out)
        loaded = run_stoker("load", fs.mnt / "train", "--batch", 2, "--json", tmp_path / "load.json").out
    result = json.loads(out.read_text())["result"]
    assert result["io"]["bytes_from_device"] is None and result["data_came_from"] is None
    assert "from the device    not known: not counted for fuse; slower than memory" in got.out
    assert "not known; the kernel does not count what fuse reads" in loaded
    assert json.loads((tmp_path / "load.json").read_text())["result"]["storage_bytes"] is None
