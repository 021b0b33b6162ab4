"""A loader in a control group: what the kernel cannot take back from it stays within its budget."""

import gzip
import itertools
import json
import os
import pathlib
import subprocess

import pytest

import tfrecordlib
from conftest import clean_env
from test_memory import plain_binary  # noqa: F401 (a fixture)

pytestmark = [pytest.mark.builds, pytest.mark.xdist_group("install")]
MIB = 1 << 20
# What is there besides the budget: the program's own data and stacks, kernel memory of its files,
# and some page cache, without which nothing can be read.
PROCESS = 24 * MIB
V1, V2 = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
numbers = itertools.count()


class Group:
    """A control group of so much memory and no swap."""

    def __init__(self, limit):
        self.two = (V2 / "cgroup.controllers").exists()
        self.path = (V2 if self.two else V1) / f"stoker-test-{os.getpid()}-{next(numbers)}"
        self.limit = limit

    def __enter__(self):
        if os.getuid() != 0:
            pytest.skip("only root can make control groups")
        try:
            if self.two:
                (V2 / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
            self.set("memory.max" if self.two else "memory.limit_in_bytes", self.limit)
        except OSError as e:
            self.__exit__()
            pytest.skip(f"no control group can be made here: {e}")
        for name, value in (("memory.swap.max", 0), ("memory.memsw.limit_in_bytes", self.limit)):
            if (self.path / name).exists():
                self.set(name, value)
        return self

    def set(self, name, value):
        (self.path / name).write_text(str(value))

    def run(self, *argv):
        inside = 'echo $$ > "$0" && exec "$@"'
        return subprocess.run(["sh", "-c", inside, self.path / "cgroup.procs", *map(str, argv)],
                              env=clean_env(), stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def __exit__(self, *_):
        if self.path.exists():
            self.path.rmdir()


# ---- data: each kind says how many samples it has ----

def plain_array(path, mib):
    """Rows of 1 KB; a block shuffle's window is larger than a small budget."""
    numpy = pytest.importorskip("numpy")
    # Not a hole: in a tmpfs, pages of one that are mapped would be the group's.
    numpy.save(path / "x.npy", numpy.zeros((mib * 1024, 1024), "u1"))
    return path / "x.npy", mib * 1024


def numbers_array(path, mib):
    """Of samples of four bytes the plan and the arrays of batches are larger than the data."""
    numpy = pytest.importorskip("numpy")
    numpy.save(path / "n.npy", numpy.arange(mib * MIB // 64, dtype="i4"))
    return path / "n.npy", mib * MIB // 64


def chunked(path, mib, **how):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path / "x.h5", "w") as f:
        x = f.create_dataset("x", (mib * 256, 4096), "u1", chunks=(64, 4096), **how)
        for i in range(0, len(x), 4096):
            x[i:i + 4096] = 7
    return path / "x.h5", mib * 256


def chunked_gzip(path, mib):
    return chunked(path, mib, compression="gzip", compression_opts=1)


def plain_records(path, mib):
    record = tfrecordlib.frame(bytes(100_000))
    with open(path / "x.tfrecord", "wb") as f:
        for _ in range(mib * 10):
            f.write(record)
    return path / "x.tfrecord", mib * 10


def gzip_records(path, mib):
    """Decoded again and again, 8 MiB at a time: a fifth of the data will do."""
    record = tfrecordlib.frame(bytes(range(250)) * 80)
    with gzip.open(path / "x.tfrecord.gz", "wb", 1) as f:
        for _ in range(mib):
            f.write(record * 10)
    return path / "x.tfrecord.gz", mib * 10


def files(path, mib):
    root = path / "files/a"
    root.mkdir(parents=True)
    for i in range(mib * 2):
        with open(root / f"{i}.bin", "wb") as f:
            f.truncate(500_000 + i)
    return path / "files", mib * 2


KINDS = [plain_array, numbers_array, chunked, chunked_gzip, plain_records, gzip_records, files]


def check_load(binary, data, samples, limit, *settings):
    with Group(limit * MIB) as group:
        done = group.run(binary, "load", data, "--batch", 32, "--last", "short", "--threads", 2,
                         "--json", "-", *settings)
    assert done.returncode == 0, f"{data.name} {settings}: killed for memory?\n{done.stderr}"
    assert json.loads(done.stdout)["result"]["samples"] == samples


def check_kind(tmp_path, binary, kind, limit, mib, settings):
    data, samples = kind(tmp_path, mib)
    subprocess.run([binary, "inspect", data], env=clean_env(), check=True, capture_output=True)  # its index
    memory = limit * MIB - PROCESS
    for io, more in settings:
        check_load(binary, data, samples, limit, "--memory", memory, "--io", io, *more)


# A window's chunks fit: none is decoded again and again.
SMALL_WINDOW = ("--window", "8M", "--block", "1M")
PACKED = (chunked_gzip, gzip_records)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [64, 128])
def test_the_budget_holds_in_a_small_control_group(tmp_path, plain_binary, kind, limit):
    """A job would be killed although its loader was given less than it has."""
    order = SMALL_WINDOW if kind in PACKED else ()
    settings = [("threads", order), ("direct", order)]
    check_kind(tmp_path, plain_binary, kind, limit, limit * 3 // 2,
               settings if limit == 64 else settings[1:])


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_budget_holds_in_a_large_control_group(tmp_path, plain_binary, kind):
    """The same with half a gigabyte."""
    order = ("--window", "256M") if kind not in PACKED else SMALL_WINDOW
    check_kind(tmp_path, plain_binary, kind, 512, 1024, [("threads", order), ("direct", order)])


def test_any_order_holds_in_a_small_control_group(tmp_path, plain_binary):
    """The reads of a global shuffle bring in what stands between samples."""
    data, _ = plain_array(tmp_path, 96)
    subprocess.run([plain_binary, "inspect", data], env=clean_env(), check=True, capture_output=True)
    for io, order in (("threads", "global"), ("direct", "none")):
        check_load(plain_binary, data, 2500 * 32, 64, "--memory", 64 * MIB - PROCESS, "--io", io,
                   "--shuffle", order, "--steps", 2500)


@pytest.mark.parametrize("io", ["threads", "direct", "auto"])
def test_the_default_budget_fits_the_control_group(tmp_path, plain_binary, io):
    """A job of 128 MiB would be killed with no setting of its own."""
    data, samples = plain_array(tmp_path, 160)
    check_load(plain_binary, data, samples, 128, "--io", io)
