"""A loader in a control group: what the kernel cannot take back from it stays within its budget."""

import gzip
import itertools
import json
import os
import pathlib
import random
import subprocess
import zlib

import pytest

import tfrecordlib
from conftest import clean_env
from test_memory import peak_memory, plain_binary  # noqa: F401 (a fixture)

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

    def peak(self, *argv):
        """Runs a program in it, which must not fail; its peak of resident bytes."""
        return peak_memory("/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', self.path / "cgroup.procs", *argv)

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
    numpy.save(path / "n.npy", numpy.arange(mib * 10_000, dtype="i4"))
    return path / "n.npy", mib * 10_000


def chunked(path, mib, encode=bytes, **how):
    """The same chunk of 256 KiB again and again, which is encoded once."""
    h5py = pytest.importorskip("h5py")
    chunk = encode(bytes(x & 31 for x in random.Random(1).randbytes(64 * 4096)))
    with h5py.File(path / "x.h5", "w") as f:
        x = f.create_dataset("x", (mib * 256, 4096), "u1", chunks=(64, 4096), **how)
        for i in range(0, len(x), 64):
            x.id.write_direct_chunk((i, 0), chunk)
    return path / "x.h5", mib * 256


def chunked_gzip(path, mib):
    return chunked(path, mib, zlib.compress, compression="gzip")


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


def tiny_records(path, mib):
    """Their index is larger than the budget."""
    with open(path / "tiny.tfrecord", "wb") as f:
        f.write(tfrecordlib.frame(b"tiny") * (mib * 10_000))
    return path / "tiny.tfrecord", mib * 10_000


def files(path, mib):
    root = path / "files/a"
    root.mkdir(parents=True)
    for i in range(mib * 2):
        with open(root / f"{i}.bin", "wb") as f:
            f.truncate(500_000 + i)
    return path / "files", mib * 2


# Plain, chunked, compressed; and what else was once more than the budget.
MAIN = [plain_array, chunked, chunked_gzip]
OTHERS = [numbers_array, plain_records, gzip_records, tiny_records, files]
# A window's chunks fit: none is decoded again and again.
SMALL_WINDOW = ("--window", "8M", "--block", "1M")
PACKED = (chunked_gzip, gzip_records)


def check_load(binary, data, samples, limit, *settings):
    """Not killed, nothing left out, and no more resident than the group may have, libraries included."""
    result = data.parent / "result.json"
    with Group(limit * MIB) as group:
        peak = group.peak(binary, "load", data, "--batch", 32, "--last", "short", "--threads", 2, "--json",
                          result, *settings)
    assert peak <= limit * MIB
    assert json.loads(result.read_text())["result"]["samples"] == samples


def indexed(binary, data):
    subprocess.run([binary, "inspect", data], env=clean_env(), check=True, capture_output=True)
    return data


def check_kind(tmp_path, binary, kind, limit, *engines):
    data, samples = kind(tmp_path, limit * 5 // 4)
    order = SMALL_WINDOW if kind in PACKED else ()
    for io in engines:
        check_load(binary, indexed(binary, data), samples, limit, "--memory", limit * MIB - PROCESS, "--io", io,
                   *order)


@pytest.mark.parametrize("kind", MAIN + [numbers_array, gzip_records, files])
def test_the_budget_holds_in_a_control_group_of_64_mib(tmp_path, plain_binary, kind):
    """A job would be killed although its loader was given less than it has."""
    check_kind(tmp_path, plain_binary, kind, 64, "threads" if kind in PACKED else "direct")


@pytest.mark.parametrize("kind", MAIN)
def test_the_budget_holds_in_a_control_group_of_128_mib(tmp_path, plain_binary, kind):
    """The same with more memory."""
    check_kind(tmp_path, plain_binary, kind, 128, "direct" if kind in PACKED else "threads")


def test_chunks_that_do_not_fit_hold_in_a_control_group(tmp_path, plain_binary):
    """A window of the usual size, whose chunks decode to more than the group has."""
    data, _ = chunked_gzip(tmp_path, 80)
    check_load(plain_binary, indexed(plain_binary, data), 40 * 32, 64, "--memory", 64 * MIB - PROCESS, "--io",
               "threads", "--steps", 40)


@pytest.mark.long
@pytest.mark.parametrize("limit", [64, 128, 512])
@pytest.mark.parametrize("kind", MAIN + OTHERS)
def test_the_budget_holds_in_any_control_group(tmp_path, plain_binary, kind, limit):
    """The same with half a gigabyte, and with each engine."""
    check_kind(tmp_path, plain_binary, kind, limit, "threads", "direct", "uring")


@pytest.mark.parametrize("order", ["block", "global", pytest.param("none", marks=pytest.mark.long)])
def test_an_index_larger_than_its_share(tmp_path, plain_binary, order):
    """Very many tiny samples would take more memory for where they are than for themselves."""
    data, samples = tiny_records(tmp_path, 100)
    steps = 1000 if order == "global" else samples // 32  # enough to look at all of it
    check_load(plain_binary, indexed(plain_binary, data), steps * 32, 30, "--memory", "16M", "--io", "threads",
               "--shuffle", order, "--steps", steps)


def test_any_order_holds_in_a_small_control_group(tmp_path, plain_binary):
    """The reads of a global shuffle bring in what stands between samples."""
    data, _ = plain_array(tmp_path, 80)
    for io, order in (("threads", "global"), ("direct", "none")):
        check_load(plain_binary, indexed(plain_binary, data), 500 * 32, 64, "--memory", 64 * MIB - PROCESS, "--io",
                   io, "--shuffle", order, "--steps", 500)


@pytest.mark.parametrize("io", ["direct", pytest.param("threads", marks=pytest.mark.long)])
def test_the_default_budget_fits_the_control_group(tmp_path, plain_binary, io):
    """A job of 128 MiB would be killed with no setting of its own."""
    data, samples = plain_array(tmp_path, 150)
    check_load(plain_binary, data, samples, 128, "--io", io)
