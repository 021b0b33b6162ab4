"""Memory that does not grow: with the size of the dataset, with the number of epochs."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import zlib

import pytest

from conftest import ROOT, STOKER, clean_env, make_images, release_build

pytestmark = [pytest.mark.builds, pytest.mark.xdist_group("install")]
MIB = 1 << 20


@pytest.fixture(scope="module")
def plain_binary():
    """A build without sanitizers, whose allocator would be measured: $STOKER_RELEASE, or made here."""
    if "STOKER_RELEASE" in os.environ:
        return os.environ["STOKER_RELEASE"]
    if b"__asan_init" not in STOKER.read_bytes():
        return STOKER
    release_build()
    return ROOT / "build-release/stoker"


def peak_memory(binary, *args, rc=(0,)):
    """Peak resident bytes. Measured from a small process: a child's peak begins with what its
    parent had when it forked."""
    code = ("import os, sys\n"
            "pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n"
            "_, status, usage = os.wait4(pid, 0)\n"
            "print(usage.ru_maxrss)\n"
            "sys.exit(os.waitstatus_to_exitcode(status))")
    done = subprocess.run([sys.executable, "-ISc", code, binary, *map(str, args)], env=clean_env(),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode in rc, done
    return int(done.stdout.split()[-1]) * 1024


@pytest.mark.parametrize("kind", ["folder", "tfrecord", "tar", "gzip"])
def test_memory_does_not_grow_with_the_dataset(tmp_path, plain_binary, kind):
    """A dataset larger than the job's memory limit could not be packed."""
    peaks = {}
    # Each job holds blocks of some MiB of a compressed file: with one, a small file has enough.
    jobs = 1 if kind == "gzip" else 4
    for times in (1, 8):
        root = tmp_path / f"x{times}"
        make_images(root / "img", classes=4, per_class=96 * times, sizes=(65_000, 66_000))
        src = root / "img"
        if kind != "folder":
            src = root / "src"
            fmt = "tar" if kind == "tar" else "tfrecord"
            peak_memory(plain_binary, "pack", root / "img", src, "--format", fmt, "--quiet")
            shutil.rmtree(root / "img")
        if kind == "gzip":
            (shard,) = src.glob("*.tfrecord")
            src = root / "src.tfrecord.gz"
            src.write_bytes(gzip.compress(shard.read_bytes(), 0))
        out = root / "out"
        whole = src if kind == "gzip" else out
        peaks[times] = (peak_memory(plain_binary, "pack", src, out, "--jobs", jobs, "--quiet"),
                        peak_memory(plain_binary, "verify", whole, "--jobs", jobs, "--quiet"))
        shutil.rmtree(root)
    # With little data some thread may never have got a block to hold; 176 MiB more data are there
    # the second time.
    for one, eight, what in zip(peaks[1], peaks[8], ("pack", "verify")):
        assert eight < one + (jobs + 1) * 8 * MIB, f"{what}: {one >> 20} MiB, then {eight >> 20}"


@pytest.mark.parametrize("settings", [["--shuffle", "block"], ["--shuffle", "global", "--io", "direct"],
                                      ["--shuffle", "none", "--io", "threads"],
                                      ["--on-error", "skip"]], ids=" ".join)
def test_twenty_epochs_take_no_more_than_two(tmp_path, plain_binary, settings):
    """A training of three days would be killed in the second night."""
    make_images(tmp_path / "img", classes=4, per_class=150, sizes=(20_000, 60_000))
    out = tmp_path / "out"
    peak_memory(plain_binary, "pack", tmp_path / "img", out, "--quiet")
    if "skip" in settings:
        (shard,) = out.glob("*.tfrecord")
        with open(shard, "r+b") as f:
            f.seek(5_000_000)
            f.write(b"damage")
    two, twenty = (peak_memory(plain_binary, "load", out, "--batch", 16, "--memory", "16M", "--quiet",
                               "--epochs", n, *settings, rc=(0, 1)) for n in (2, 20))
    # Two epochs, of 48 MiB, need not have filled the memory the loader may use.
    assert twenty < two + 16 * MIB, f"{two >> 10} KiB after two epochs, {twenty >> 10} after twenty"


def compressed_zeros(root, binary):
    """A megabyte a sample that hardly takes any room on disk."""
    (root / "zeros").mkdir(parents=True)
    for i in range(300):
        (root / f"zeros/{i:03d}.bin").write_bytes(bytes(MIB))
    peak_memory(binary, "pack", root / "zeros", root / "set", "--format", "tfrecord", "--compress",
                "zstd", "--quiet")
    return root / "set"


def large_chunks(root, _):
    h5py = pytest.importorskip("h5py")
    numpy = pytest.importorskip("numpy")
    with h5py.File(root / "x.h5", "w") as f:
        x = f.create_dataset("x", (20480, 4096), "u1", chunks=(256, 4096), compression="gzip",
                             compression_opts=1)
        for i in range(0, len(x), 256):
            x[i:i + 256] = numpy.arange(256 * 4096).astype("u1").reshape(256, 4096)
    return root / "x.h5"


def plain_array(root, _):
    numpy = pytest.importorskip("numpy")
    numpy.save(root / "x.npy", numpy.zeros((150_000, 1024), "u1"))
    return root / "x.npy"


@pytest.mark.parametrize("kind", [compressed_zeros, large_chunks, plain_array])
@pytest.mark.parametrize("limit", [64, 128, 512])
def test_the_budget_holds_for_what_is_resident(tmp_path, plain_binary, kind, limit):
    """A job of that much memory would be killed though half of it was the budget."""
    data = kind(tmp_path, plain_binary)
    for io in "threads", "direct":
        peak = peak_memory(plain_binary, "load", data, "--batch", 8, "--memory", f"{limit // 2}M", "--io",
                           io, "--threads", 2, "--quiet", "--epochs", 1, "--block", "1M",
                           "--window", "8M")  # a window's chunks fit: none is decoded twice
        assert peak < limit * MIB, f"{peak >> 20} MiB resident, the budget is {limit // 2}"


def window_of_h5(root, numpy, chunk):
    """Sixteen gzip chunks of 4 MiB: a window needs them all."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(root / "x.h5", "w") as f:
        x = f.create_dataset("x", (16 * len(chunk), chunk.shape[1]), "u1", chunks=chunk.shape, compression="gzip")
        packed = zlib.compress(chunk.tobytes(), 1)
        for i in range(0, len(x), len(chunk)):
            x.id.write_direct_chunk((i, 0), packed)
    return root / "x.h5"


def window_of_npz(root, numpy, chunk):
    """The same samples in pieces of a deflated array."""
    numpy.savez_compressed(root / "x.npz", x=numpy.tile(chunk, (16, 1)))
    return root / "x.npz"


@pytest.mark.parametrize("make", [window_of_h5, window_of_npz])
def test_the_budget_holds_for_chunks_that_do_not_fit(tmp_path, plain_binary, make):
    """A job would be killed because the chunks of a window decode to more than it may use."""
    numpy = pytest.importorskip("numpy")
    chunk = numpy.random.default_rng(1).integers(0, 32, (256, 16384), dtype="u1")
    data = make(tmp_path, numpy, chunk)
    for order in "block", "global":
        hashes = set()
        for limit, io in (24, "threads"), (40, "direct"), (24, "mmap"):
            out = tmp_path / "result.json"
            peak = peak_memory(plain_binary, "load", data, "--batch", 32, "--memory", f"{limit}M", "--io", io,
                               "--shuffle", order, "--threads", 2, "--steps", 6, "--consume", "hash", "--json", out)
            result = json.loads(out.read_text())["result"]
            assert result["memory_peak_bytes"] <= limit * MIB
            assert io == "mmap" or peak <= (limit + 24) * MIB, f"{peak >> 20} MiB resident of {limit}"
            hashes.add(result["content_hash"])
        assert len(hashes) == 1
