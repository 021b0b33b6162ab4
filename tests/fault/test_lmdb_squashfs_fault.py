"""LMDB files and squashfs images cut off and bit-flipped: a message and status 1 or 4, never a
crash of stoker, though the libraries that read them may well crash (they are asked in a child
process)."""

import random
import shutil
import subprocess

import pytest

from conftest import LONG, make_images

WHOLE, DAMAGED = (0,), (1, 4)


@pytest.fixture(scope="module")
def lmdb_blob(tmp_path_factory):
    lmdb = pytest.importorskip("lmdb")
    rng = random.Random(1)
    path = tmp_path_factory.mktemp("lmdb") / "a.mdb"
    env = lmdb.open(str(path), subdir=False, map_size=1 << 26)
    with env.begin(write=True) as txn:
        for i in range(400):
            txn.put(b"%08d" % i, rng.randbytes(rng.choice([10, 100, 3000, 9000])))
    env.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
def squashfs_blob(tmp_path_factory):
    if not shutil.which("mksquashfs"):
        pytest.skip("no squashfs-tools")
    root = tmp_path_factory.mktemp("tree")
    make_images(root / "t", classes=5, per_class=20, sizes=(100, 9000))
    (root / "t" / "big").write_bytes(b"0123456789abcdef" * 40000)
    image = root / "i.sqsh"
    subprocess.run(["mksquashfs", root / "t", image, "-quiet", "-no-progress", "-comp", "gzip",
                    "-nopad"], check=True, stdout=subprocess.DEVNULL)
    return image.read_bytes()


def cuts(size, n=24 if LONG else 4, seed=5):
    """Places to cut: the ends, the first pages, and anywhere."""
    rng = random.Random(seed)
    edges = [0, 1, 15, 16, 95, 96, 97, 4095, 4096, 4097, 8191, 8192, size // 2, size - 4097,
             size - 1]
    return sorted({c for c in edges + [rng.randrange(size) for _ in range(n)] if 0 <= c < size})


def say(result):
    return result.err.strip() + result.out.strip()


def check_cuts(stoker, tmp_path, name, blob):
    path = tmp_path / name
    for cut in cuts(len(blob)):
        path.write_bytes(blob[:cut])
        for command in ("inspect", "verify"):
            r = stoker(command, path, "--format", name.split(".")[0], rc=DAMAGED)
            assert name in say(r), f"cut at {cut}: {r!r}"


def check_flips(stoker, tmp_path, name, blob, places, n):
    """Flips bits where the structure is (places) and anywhere; returns how many were noticed."""
    rng = random.Random(7)
    path = tmp_path / name
    noticed = 0
    for i in range(n):
        b = bytearray(blob)
        for _ in range(rng.choice([1, 1, 4, 30])):
            at = rng.choice(places) if i % 3 else rng.randrange(len(b))
            b[at] ^= 1 << rng.randrange(8)
        path.write_bytes(b)
        r = stoker("verify", path, "--format", name.split(".")[0], rc=WHOLE + DAMAGED)
        noticed += r.rc != 0
        assert r.rc == 0 or say(r), f"flip {i}: no message"
    return noticed


def test_lmdb_cut_off(stoker, tmp_path, lmdb_blob):
    """liblmdb dies of SIGBUS on a truncated file; stoker must not."""
    check_cuts(stoker, tmp_path, "lmdb.mdb", lmdb_blob)


def test_lmdb_flipped(stoker, tmp_path, lmdb_blob):
    """A damaged tree must not crash, hang or fill the memory."""
    heads = [p + i for p in range(0, len(lmdb_blob), 4096) for i in range(0, 120)]
    assert check_flips(stoker, tmp_path, "lmdb.mdb", lmdb_blob, heads, 60 if LONG else 20) > 0


def test_squashfs_cut_off(stoker, tmp_path, squashfs_blob):
    """An image that was not copied to its end must say so."""
    check_cuts(stoker, tmp_path, "squashfs.sqsh", squashfs_blob)


def test_squashfs_flipped(stoker, tmp_path, squashfs_blob):
    """A damaged image must not crash, hang or fill the memory."""
    tables = int.from_bytes(squashfs_blob[64:72], "little")  # where the inodes begin
    places = list(range(96)) + list(range(tables, len(squashfs_blob)))
    assert check_flips(stoker, tmp_path, "squashfs.sqsh", squashfs_blob, places, 80 if LONG else 24) > 6


def test_pack_of_a_cut_lmdb_leaves_nothing(stoker, tmp_path, lmdb_blob):
    """A half-read source must not become a dataset that looks whole."""
    path = tmp_path / "a.mdb"
    path.write_bytes(lmdb_blob[:len(lmdb_blob) // 2])
    r = stoker("pack", path, tmp_path / "out", rc=DAMAGED)
    assert "a.mdb" in say(r) and not (tmp_path / "out").exists()
