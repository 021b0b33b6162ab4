"""Damaged HDF5 files: libhdf5 may die of them, stoker says what is wrong."""

import random
import resource
import signal

import pytest

from conftest import LONG

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")

N = 40


def make(path, **kwargs):
    """A bit of everything: chunks with filters, a B-tree or an array, the global heap, strings."""
    rng = np.random.default_rng(3)
    with h5py.File(path, "w", **kwargs) as f:
        f.create_dataset("x", data=rng.integers(0, 9, (N, 6, 5), dtype="u1"), chunks=(4, 3, 5),
                         compression="gzip", maxshape=(None, 6, 5))
        f.create_dataset("y", data=rng.integers(0, 9, (N, 3)).astype(">i4"), chunks=(4, 3),
                         fletcher32=True, shuffle=True)
        f.create_dataset("g/label", data=np.arange(N))
        f["name"] = np.array([b"abc"] * N, "S7")
        d = f.create_dataset("image", (N,), h5py.vlen_dtype("u1"))
        for i in range(N):
            d[i] = np.arange(i % 7, dtype="u1")
    return path.read_bytes()


FILES = {"old": {}, "latest": dict(libver="latest"), "user-block": dict(userblock_size=512)}


def check(stoker, path, statuses):
    result = stoker("verify", path, rc=statuses)
    said = result.out + result.err
    # A sanitizer's report about our own code in the child that lists.
    assert "exit status 99" not in said, said
    if result.rc:
        assert path.name in said
    return result


@pytest.mark.parametrize("kind", FILES)
def test_truncated_files(stoker, tmp_path, kind):
    """Lost otherwise: a message in place of a crash for every transfer that broke off."""
    path = tmp_path / "a.h5"
    whole = make(path, **FILES[kind])
    check(stoker, path, 0)
    for n in sorted({0, 1, 8, 100, len(whole) - 1, *range(512, len(whole), len(whole) // 12)}):
        path.write_bytes(whole[:n])
        check(stoker, path, (1, 4))
    assert f"a.h5:{n}: truncated" in check(stoker, path, (1, 4)).out


@pytest.mark.parametrize("kind", FILES)
def test_flipped_bits(stoker, tmp_path, kind):
    """Lost otherwise: the process, to one bad bit on a disk. Bits of the data itself cannot be
    noticed where the file has no checksums, so that status 0 is allowed."""
    path = tmp_path / "a.h5"
    whole = make(path, **FILES[kind])
    rng = random.Random(f"flip {kind}")
    # Metadata is what makes libraries crash: it stands mostly at the start.
    places = [rng.randrange(min(len(whole), 6000)) for _ in range(25 if LONG else 8)]
    places += [rng.randrange(len(whole)) for _ in range(10 if LONG else 4)]
    for at in places:
        damaged = bytearray(whole)
        damaged[at] ^= rng.choice((0x01, 0x10, 0x80, 0xff))
        path.write_bytes(damaged)
        check(stoker, path, (0, 1, 3, 4))


def test_damaged_chunk_is_found(stoker, tmp_path):
    """Lost otherwise: trust in verify, where the file does have checksums."""
    path = tmp_path / "a.h5"
    x = np.arange(4000, dtype="i4").reshape(100, 40)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=x, chunks=(10, 40), fletcher32=True)
    whole = path.read_bytes()
    at = whole.index(x[55].tobytes())
    path.write_bytes(whole[:at] + b"\xff" + whole[at + 1:])
    result = check(stoker, path, 1)
    assert "Fletcher" in result.out + result.err


def test_damaged_heap_reference_costs_one_sample(stoker, tmp_path):
    """Lost otherwise: all samples, for the fault of one."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        d = f.create_dataset("image", (N,), h5py.vlen_dtype("u1"))
        for i in range(N):
            d[i] = np.full(50, i, "u1")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"GCOL")
    reference = at.to_bytes(8, "little")
    first = whole.index(reference)  # the address in the reference of sample 0
    whole[first + 8] = 0xee         # an object that is not in the heap
    path.write_bytes(whole)
    result = stoker("inspect", path, rc=1)
    said = result.out + result.err
    assert "no object" in said and "39" in said


def test_not_hdf5_at_all(stoker, tmp_path):
    """Lost otherwise: the name of the file that is something else."""
    path = tmp_path / "a.h5"
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 50)
    check(stoker, path, (1, 4))
    path.write_bytes(b"")
    check(stoker, path, (1, 4))


def test_dimension_of_billions(stoker, tmp_path):
    """Lost otherwise: memory and disk, to a file of 2 KB that claims 2^40 chunks."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f.create_dataset("x", (1 << 40, 3), "u1", chunks=(1, 3))
        f.create_dataset("z", (1 << 40, 1 << 20), "u1")
    result = check(stoker, path, (3,))
    assert "chunks" in result.out + result.err


def test_group_that_contains_itself(stoker, tmp_path):
    """Lost otherwise: an end to the search for datasets."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as f:
        f["x"] = np.arange(5)
        f["group/again"] = f["/"]
        f["soft"] = h5py.SoftLink("/soft")
    assert "5" in stoker("inspect", path).out


def test_write_that_fails_names_file_and_cause(stoker, tmp_path):
    """Lost otherwise: the reason (a full disk, a quota), and the rest of libhdf5's memory."""
    rng = random.Random(1)
    (tmp_path / "in").mkdir()
    for i in range(40):
        (tmp_path / "in" / f"{i}.bin").write_bytes(rng.randbytes(100_000))

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes fail instead, as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))

    result = stoker("pack", tmp_path / "in", tmp_path / "out", "--format", "hdf5", rc=4,
                    preexec_fn=limit)
    assert ".h5" in result.err and "File too large" in result.err
    assert not (tmp_path / "out").exists()
    stoker("pack", tmp_path / "in", tmp_path / "out", "--format", "hdf5", "--resume")
    stoker("verify", tmp_path / "out")
