"""Hostile and damaged input: an error that names the file and the place, exit 1 or 4, memory that
stays bounded, no crash. The `stoker` fixture fails any run that dies or that a sanitizer reports;
here every run is also measured, and killed by its own limit before it could hurt the machine.
"""

import gzip
import io
import json
import os
import pathlib
import re
import shutil
import struct
import tarfile
import zipfile
import zlib

import numpy as np
import pytest

import formatlib
import tfrecordlib as tfr
from conftest import LONG, flip_byte, make_images
from faultlib import BAD, MIB, bad, measured, usual_memory  # noqa: F401 (two are fixtures)
from indexlib import manifest_without_checksum

def every_command(bad, tmp_path, path, name, offset=None, **kw):
    """The same damage, found by each command that reads the data."""
    bad("verify", path, names=name, offset=offset, **kw)
    out = tmp_path / "packed-from-bad"
    bad("pack", path, out, "--format", "tfrecord", names=name, offset=offset, **kw)
    assert not out.exists(), "a failed pack left a dataset behind"
    return bad("inspect", path, rc=(0, *BAD), **kw)


# ---- TFRecord ----------------------------------------------------------------------------------

@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, (1 << 64) - 16, 1 << 40, 1 << 32, 14])
@pytest.mark.parametrize("before", [0, 3])
def test_tfrecord_absurd_length(bad, tmp_path, length, before):
    """One forged length with a right checksum would take all memory, or wrap around."""
    path = tmp_path / "long.tfrecord"
    good = tfr.frame(b"good record")
    path.write_bytes(good * before + tfr.frame(b"hello", length))
    every_command(bad, tmp_path, path, "long.tfrecord", before * len(good))


def test_tfrecord_length_within_a_sparse_file(bad, tmp_path):
    """A 64 GiB hole behind a header would be read into memory as one record."""
    path = tmp_path / "sparse.tfrecord"
    head = struct.pack("<Q", (64 << 30) - 16)
    path.write_bytes(head + struct.pack("<I", tfr.masked(head)))
    os.truncate(path, 64 << 30)
    bad("pack", path, tmp_path / "out", "--format", "tfrecord", names="sparse.tfrecord", offset=0)


def test_tfrecord_truncated_anywhere(bad, tmp_path):
    """A file cut off by a full disk would be taken for a whole one."""
    blob = tfr.frame(b"first") + tfr.frame(b"second record") + tfr.frame(b"")
    starts = [0, 21, 50]
    # Cuts at whole records are left out: nothing in the file says that more were meant.
    for cut in (1, 7, 8, 11, 12, 13, 16, 17, 20, 22, 29, 33, 34, 46, 47, 49, 51, 61, 62, 65):
        path = tmp_path / "cut.tfrecord"
        path.write_bytes(blob[:cut])
        start = max(s for s in starts if s < cut)
        text = bad("verify", path, names="cut.tfrecord", offset=start)
        assert "truncated" in text


def test_tfrecord_bit_flips(bad, tmp_path):
    """A flipped bit would go unnoticed, or be reported at the wrong record."""
    blob = tfr.frame(b"first") + tfr.frame(b"second record")
    for byte in (0, 1, 7, 8, 11, 12, 16, 17, 20, 21, 28, 29, 32, 33, 45, 46, 49):
        path = tmp_path / "flip.tfrecord"
        path.write_bytes(blob)
        flip_byte(path, byte, 1 << byte % 8)
        bad("verify", path, names="flip.tfrecord", offset=0 if byte < 21 else 21)


def test_tfrecord_damage_is_skipped_and_listed(stoker, tmp_path):
    """With --on-error skip one bad record would cost the rest, or vanish without a word."""
    path = tmp_path / "in.tfrecord"
    path.write_bytes(b"".join(tfr.frame(b"record %d" % i) for i in range(10)))
    flip_byte(path, 3 * 24 + 13)
    r = stoker("pack", path, tmp_path / "out", "--format", "tfrecord", "--payload", "raw",
               "--shards", "1", "--on-error", "skip", rc=3)
    assert "in.tfrecord:72" in r.out + r.err
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    assert tfr.records(shard.read_bytes()) == [b"record %d" % i for i in range(10) if i != 3]


def test_gzip_bomb(bad, tmp_path):
    """A few KiB that unpack to gigabytes would fill memory or disk."""
    bomb = io.BytesIO()
    zeros = bytes(MIB)
    with gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=1, mtime=0) as z:
        head = struct.pack("<Q", 1 << 40)
        z.write(head + struct.pack("<I", tfr.masked(head)))
        for _ in range(320):
            z.write(zeros)
    path = tmp_path / "bomb.tfrecord"
    path.write_bytes(bomb.getvalue())
    assert path.stat().st_size < 2 * MIB
    bad("verify", path, names="bomb.tfrecord")
    bad("pack", path, tmp_path / "out", "--format", "tfrecord", names="bomb.tfrecord")


@pytest.mark.parametrize("fmt", ["tfrecord", "tar", "jsonl", "csv", "json"])
def test_gzip_damaged(bad, tmp_path, fmt):
    """A damaged compressed file would be read as far as it goes, without a word."""
    plain = {"tfrecord": b"".join(tfr.frame(os.urandom(5000)) for _ in range(40)),
             "tar": make_tar([(f"{i:03d}.bin", os.urandom(5000)) for i in range(40)]),
             "jsonl": b"".join(json.dumps({"x": os.urandom(2000).hex()}).encode() + b"\n"
                               for _ in range(40)),
             "csv": b"a,b\n" + b"".join(b"%d,%s\n" % (i, os.urandom(2000).hex().encode())
                                        for i in range(40)),
             "json": json.dumps([{"x": os.urandom(2000).hex()} for _ in range(40)]).encode()}[fmt]
    packed = gzip.compress(plain)
    path = tmp_path / f"d.{fmt}.gz"
    for what, blob in (("cut", packed[:len(packed) // 2]), ("no trailer", packed[:-8]),
                       ("wrong crc", packed[:-8] + bytes(4) + packed[-4:])):
        path.write_bytes(blob)
        assert bad("verify", path, "--format", fmt, names=path.name), what
    path.write_bytes(packed)
    flip_byte(path, len(packed) // 2, 0xFF)
    bad("verify", path, "--format", fmt, names=path.name)


# ---- every format ------------------------------------------------------------------------------

def suffix(fmt):
    known = formatlib.FORMATS[fmt]["suffixes"]
    return f".{fmt}" if f".{fmt}" in known else known[0]


@pytest.mark.parametrize("fmt", formatlib.IN_FILES)
def test_garbage(bad, tmp_path, fmt):
    """A file that is not what its name says would crash the reader of that format."""
    path = tmp_path / f"garbage{suffix(fmt)}"
    for blob in (b"\0" * 4096, bytes(range(256)) * 40, b"\xff" * 100_000, b"\x89HDF\r\n\x1a\n"):
        path.write_bytes(blob)
        # Zeros are an empty tar, any text may be CSV: those may be fine. Never a crash.
        bad("verify", path, "--format", fmt, rc=(0, *BAD))
        bad("verify", path, rc=(0, *BAD))


@pytest.mark.parametrize("fmt", formatlib.IN_FILES)
def test_zero_length(bad, tmp_path, fmt):
    """An empty file left by a failed copy would crash, or pass for a dataset with samples."""
    path = tmp_path / f"empty{suffix(fmt)}"
    path.write_bytes(b"")
    for options in ((), ("--format", fmt)):
        result, _ = measured("verify", path, *options)
        assert result.rc in (0, *BAD), result
        assert result.rc != 0 or "0 samples" in result.err, result
        if result.rc:
            assert path.name in result.err


@pytest.fixture(scope="session")
def packed_once(tmp_path_factory):
    """{format: shard file} of one small dataset packed into every format there is."""
    root = tmp_path_factory.mktemp("packed")
    rows = {"key": [f"k{i}" for i in range(40)], "label": list(range(40)),
            "x": [[i, i / 2, -i] for i in range(40)]}
    lines = [{n: rows[n][i] for n in rows} for i in range(40)]
    (root / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = {}
    for fmt in formatlib.IN_FILES:
        if fmt == "npy":
            np.save(root / "in.npy", np.arange(3000.).reshape(100, 30))
            found[fmt] = root / "in.npy"
            continue
        out = root / fmt
        options = ["--payload", "raw"] if fmt == "recordio" else []
        source = root / "in.jsonl"
        if fmt == "recordio":
            make_images(root / "images")
            source = root / "images"
        result, _ = measured("pack", source, out, "--format", fmt, "--shards", "1", *options)
        if result.rc != 0:
            continue  # not in this build; the test that wants it says so
        shards = json.loads((out / "manifest.json").read_text())["shards"]
        found[fmt] = out / shards[0]["name"]
    return found


def damaged_copies(blob, path):
    """Writes blob to path with this or that damage, yields what it was."""
    size = len(blob)
    for cut in sorted({1, 7, 64, 511, size // 3, size // 2, size - 100, size - 1} if LONG else
                      {64, size // 2, size - 1}):
        if 0 < cut < size:
            path.write_bytes(blob[:cut])
            yield f"cut to {cut} of {size}"
    step = max(1, size // (24 if LONG else 6))
    for at in range(0, size, step):
        path.write_bytes(blob)
        flip_byte(path, at, 0x80 | at % 127)
        yield f"byte {at} changed"
    path.write_bytes(blob[:size // 2] + b"\xff" * 64 + blob[size // 2 + 64:])
    yield "64 bytes overwritten in the middle"


@pytest.mark.parametrize("fmt", formatlib.IN_FILES)
def test_damaged_files_never_crash(bad, tmp_path, packed_once, fmt):
    """A truncated or bit-flipped file would kill the command instead of being reported."""
    if fmt not in packed_once:
        pytest.skip(f"this build does not write {fmt}")
    source = packed_once[fmt]
    if source.is_dir():
        source = source / "data.mdb"
    folder = tmp_path / f"damaged{suffix(fmt)}" if source.name == "data.mdb" else tmp_path
    folder.mkdir(exist_ok=True)
    path = folder / source.name
    for what in damaged_copies(source.read_bytes(), path):
        text = bad("verify", path, "--format", fmt, rc=(0, *BAD))
        assert path.name in text or "damaged" in text, f"{what}: {text}"


# ---- names that leave the folder ---------------------------------------------------------------

def make_tar(members, fmt=tarfile.GNU_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


@pytest.mark.parametrize("name", ["../../x.txt", "a/../../x.txt", "/tmp/stoker-x.txt", "a/./../../x.txt"])
def test_tar_member_that_leaves(bad, stoker, tmp_path, name):
    """Unpacking a hostile tar would write outside the destination."""
    inside = tmp_path / "in" / "side"
    inside.mkdir(parents=True)
    path = inside / "evil.tar"
    path.write_bytes(make_tar([("good.txt", b"good"), (name, b"evil")]))
    before = sorted(p for p in tmp_path.rglob("*") if p.is_file())
    out = inside / "out"
    result, _ = measured("pack", path, out, "--format", "folder")
    assert result.rc in (1, 2, 3, 4), result
    result, _ = measured("pack", path, inside / "skip", "--format", "folder", "--on-error", "skip")
    written = [p for p in tmp_path.rglob("*") if p.is_file() and p not in before]
    strays = [p for p in written if inside / "skip" not in p.parents and p.suffix != ".stkidx"]
    assert not strays and not pathlib.Path("/tmp/stoker-x.txt").exists()


def test_example_key_that_leaves(bad, tmp_path):
    """Unpacking TFRecords would write where a forged key says."""
    pytest.importorskip("google.protobuf")
    example, _ = tfr.messages()
    path = tmp_path / "keys.tfrecord"
    path.write_bytes(tfr.frame(tfr.make_example(example, {"key": b"../../x.bin", "data": b"evil"})))
    out = tmp_path / "a" / "b"
    out.parent.mkdir()
    text = bad("pack", path, out, "--format", "folder")
    assert "../../x.bin" in text
    assert not list(tmp_path.rglob("x.bin"))


def test_inspect_writes_only_where_told(stoker, tmp_path):
    """`inspect --sample -o DIR` on hostile data would write outside DIR."""
    pytest.importorskip("google.protobuf")
    example, _ = tfr.messages()
    path = tmp_path / "names.tfrecord"
    path.write_bytes(tfr.frame(tfr.make_example(
        example, {"../../up": b"1", "/tmp/stoker-abs": b"2", "ok": b"3", "a/b": b"4"})))
    deep = tmp_path / "x" / "y"
    deep.mkdir(parents=True)
    stoker("inspect", path, "--sample", "0", "-o", deep / "out", rc=(0, 1, 2, 4))
    strays = [p for p in tmp_path.rglob("*") if p.is_file() and p != path and deep not in p.parents
              and p.suffix != ".stkidx"]
    assert not strays and not pathlib.Path("/tmp/stoker-abs").exists()


# ---- arrays ------------------------------------------------------------------------------------

def npy(header, data=b""):
    text = header.encode()
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + data


BOMBS = {
    "shape": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n"),
    "overflow": npy("{'descr': '<f8', 'fortran_order': False, "
                    "'shape': (2305843009213693952, 8, 1), }\n", bytes(64)),
    "negative": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2), }\n", bytes(64)),
    "dimensions": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1, " * 5000 + "), }\n"),
    "nested": npy("{'descr': " + "[" * 20000 + "]" * 20000 + ", 'shape': (1,), }\n"),
    "header-length": b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{'descr'",
    "long-header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 50_000_000) + b" " * 50_000_000,
    "object": npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"cos\nsystem\n."),
    "code": npy("{'descr': __import__('os').system('id'), 'shape': (1,), }\n"),
    "wide": npy("{'descr': '|S4000000000', 'fortran_order': False, 'shape': (1,), }\n", b"x"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_npy_header_bomb(bad, tmp_path, name):
    """A hundred bytes of NPY header would take all memory, or run code."""
    path = tmp_path / "bomb.npy"
    path.write_bytes(BOMBS[name])
    bad("verify", path, names="bomb.npy")
    bad("pack", path, tmp_path / "out", "--format", "tfrecord", names="bomb.npy")
    tar = tmp_path / "bomb.tar"
    tar.write_bytes(make_tar([("a.x.npy", BOMBS[name][:100_000])]))
    # As a member it may also stay bytes, where it is a valid array of a type we do not take.
    bad("verify", tar, rc=(0, *BAD))


def test_npz_bombs(bad, tmp_path):
    """A zip with forged sizes or a deflate bomb would take all memory."""
    path = tmp_path / "bomb.npz"
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w", zipfile.ZIP_DEFLATED) as z:
        header = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 67108864), }\n")
        with z.open("x.npy", "w", force_zip64=True) as f:
            f.write(header)
            for _ in range(128):
                f.write(bytes(MIB))
    path.write_bytes(blob.getvalue())
    bad("verify", path, rc=(0,), memory=1024 * MIB)  # large, but just what it says
    forged = bytearray(blob.getvalue())
    at = forged.rfind(b"PK\x01\x02")
    forged[at + 20:at + 28] = b"\xfe\xff\xff\xff\xfe\xff\xff\xff"  # sizes in the directory
    path.write_bytes(forged)
    bad("verify", path, names="bomb.npz")
    path.write_bytes(blob.getvalue()[:-22] + b"PK\x05\x06" + b"\0\0\0\0" + b"\xff" * 12 + b"\0\0")
    bad("verify", path, names="bomb.npz")


def test_json_depth_and_size(bad, tmp_path):
    """Ten thousand brackets would overflow the stack."""
    for name, blob in (("deep.json", b"[" * 1_000_000), ("deep.jsonl", b"[" * 1_000_000 + b"\n"),
                       ("objects.json", b'[' + b'{"a":' * 200_000), ("half.json", b'[{"a": "'),
                       ("number.json", b"[" + b"9" * 1_000_000 + b"]")):
        path = tmp_path / name
        path.write_bytes(blob)
        bad("verify", path, "--format", path.suffix[1:], rc=(0, *BAD) if "number" in name else BAD,
            names=None if "number" in name else name)


def test_csv_odd_rows(bad, tmp_path):
    """Rows with too few or too many cells, or a quote never closed, would shift columns."""
    path = tmp_path / "odd.csv"
    head = b"a,b,c\n" + b"1,2,3\n" * 200
    for tail in (b"1,2\n", b"1,2,3,4\n", b'1,"2,3\n', b'1,2"x,3\n1,"2"x,3\n'):
        path.write_bytes(head + tail)
        bad("verify", path, "--format", "csv", names="odd.csv", offset=len(head)
            if tail[:4] != b'1,2"' else None)
    path.write_bytes(b"," * 3_000_000 + b"\n")
    bad("verify", path, "--format", "csv", rc=(0, *BAD), memory=1024 * MIB)


# ---- indexes and manifests ---------------------------------------------------------------------

@pytest.fixture
def packed(stoker, tmp_path, images):
    """A packed dataset of ours, and its index and manifest."""
    out = tmp_path / "packed"
    stoker("pack", images[0], out, "--shards", "2")
    (index,) = out.glob("*.stkidx")
    return out, index, out / "manifest.json"


def keys_of(stoker, tmp_path, path):
    out = tmp_path / "keys-of"
    stoker("pack", path, out, "--format", "jsonl", "--force", "--shards", "1")
    (lines,) = out.glob("*.jsonl")
    return [json.loads(line)["key"] for line in lines.read_text().splitlines()]


def test_index_of_another_dataset(stoker, tmp_path, packed, images):
    """With the index of other data beside it, a dataset would give wrong samples."""
    out, index, _ = packed
    other = tmp_path / "other"
    make_images(tmp_path / "more", classes=4, per_class=3, seed=9)
    stoker("pack", tmp_path / "more", other, "--shards", "2")
    shutil.copy(next(other.glob("*.stkidx")), index)
    result, _ = measured("verify", out)
    assert result.rc in BAD and index.name in result.err, result
    assert sorted(keys_of(stoker, tmp_path, out)) == sorted(images[1])


def test_index_of_another_file(stoker, tmp_path):
    """A file replaced by another of the same size would be read at the old one's offsets."""
    path = tmp_path / "a.tfrecord"
    path.write_bytes(tfr.frame(b"12345678") + tfr.frame(b"1234"))
    stoker("inspect", path)
    assert (tmp_path / "a.tfrecord.stkidx").exists()
    path.write_bytes(tfr.frame(b"1234") + tfr.frame(b"12345678"))
    stoker("pack", path, tmp_path / "out", "--format", "tfrecord", "--payload", "raw", "--shards", "1")
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    assert tfr.records(shard.read_bytes()) == [b"1234", b"12345678"]


def test_index_with_flipped_bytes(bad, stoker, tmp_path, packed, images):
    """A damaged index would crash readers, or give other bytes than the data has."""
    out, index, _ = packed
    blob = index.read_bytes()
    for at in range(0, len(blob), max(1, len(blob) // (24 if LONG else 6))):
        index.write_bytes(blob)
        flip_byte(index, at, 0xFF)
        text = bad("verify", out, rc=(0, *BAD))
        if "index" not in text:  # padding between tables may change without harm
            assert ": whole" in text
        dst = tmp_path / f"again-{at}"
        result, _ = measured("pack", out, dst, "--format", "folder")
        if result.rc == 0:
            got = {str(p.relative_to(dst)): p.read_bytes() for p in dst.rglob("*.jpg")}
            assert all(any(name.endswith(k) and data == d for k, d in images[1].items())
                       for name, data in got.items()), at
            assert len(got) == len(images[1])
        shutil.rmtree(dst, ignore_errors=True)


@pytest.mark.parametrize("size", [0, 1, 100, 703, 704, -64, -1])
def test_index_truncated(stoker, tmp_path, packed, images, size):
    """A truncated index would be mapped and read past its end (SIGBUS)."""
    out, index, _ = packed
    index.write_bytes(index.read_bytes()[:size])
    result, _ = measured("verify", out)
    assert result.rc in BAD and index.name in result.err, result
    assert sorted(keys_of(stoker, tmp_path, out)) == sorted(images[1])


def xxh64(data):
    """XXH64 with seed 0 of less than 2^32 bytes, as its specification has it."""
    p1, p2, p3, p4, p5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
                          0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
    m = (1 << 64) - 1

    def rot(x, r):
        return (x << r | x >> 64 - r) & m

    def step(acc, lane):
        return rot((acc + lane * p2) & m, 31) * p1 & m

    def merge(acc, val):
        return ((acc ^ step(0, val)) * p1 + p4) & m

    at, acc = 0, p5
    if len(data) >= 32:
        v = [(p1 + p2) & m, p2, 0, -p1 & m]
        while at + 32 <= len(data):
            v = [step(a, b) for a, b in zip(v, struct.unpack_from("<4Q", data, at))]
            at += 32
        acc = (rot(v[0], 1) + rot(v[1], 7) + rot(v[2], 12) + rot(v[3], 18)) & m
        for x in v:
            acc = merge(acc, x)
    acc = (acc + len(data)) & m
    for size, code in ((8, "<Q"), (4, "<I"), (1, "<B")):
        while at + size <= len(data):
            (lane,) = struct.unpack_from(code, data, at)
            if size == 8:
                acc = (rot(acc ^ step(0, lane), 27) * p1 + p4) & m
            elif size == 4:
                acc = (rot(acc ^ lane * p1 & m, 23) * p2 + p3) & m
            else:
                acc = rot(acc ^ lane * p5 & m, 11) * p1 & m
            at += size
    acc = (acc ^ acc >> 33) * p2 & m
    acc = (acc ^ acc >> 29) * p3 & m
    return acc ^ acc >> 32


def with_checksums(index):
    """A small index with the checksums of its one block, of the checksums, of the header put right."""
    (tables,) = struct.unpack_from("<I", index, 12)
    size, entry = 128 + 32 * tables + 40, 128 + 32 * 17
    start = (size + 63) // 64 * 64
    (sums,) = struct.unpack_from("<Q", index, entry)
    assert len(index) == sums + 8
    struct.pack_into("<Q", index, sums, xxh64(bytes(index[start:sums])))
    struct.pack_into("<Q", index, entry + 16, xxh64(bytes(index[sums:])))
    struct.pack_into("<Q", index, 24, 0)
    struct.pack_into("<Q", index, 24, xxh64(bytes(index[:size])))
    return index


def test_index_that_names_files_outside(stoker, tmp_path):
    """An index that came with the data would make stoker read private files into samples."""
    assert xxh64(b"") == 0xEF46DB3751D8E999 and xxh64(b"a" * 100) == xxh64(bytes([97]) * 100)
    data, name, forged = tmp_path / "data", b"aaaaaaaaaa.tfrecord", b"../out/secret.tfrec"
    (tmp_path / "out").mkdir()
    data.mkdir()
    for path, word in ((data / name.decode(), b"public"), (tmp_path / "out/secret.tfrec", b"secret")):
        path.write_bytes(tfr.frame(word))
        os.utime(path, ns=(10 ** 18, 10 ** 18))
    stoker("inspect", data)
    index = tmp_path / "data.stkidx"
    blob = bytearray(index.read_bytes())
    assert blob.count(name) == 1
    assert with_checksums(bytearray(blob)) == blob, "the index's layout changed: change this test"
    index.write_bytes(with_checksums(blob.replace(name, forged)))
    result, _ = measured("inspect", data, "--sample", "0")
    assert "secret" not in result.err.replace("secret.tfrec", "")


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "..", ".", "", "a/../../b",
                                  "x\0y", "n" * 5000])
@pytest.mark.parametrize("where", ["shards", "other_files"])
def test_manifest_with_hostile_names(bad, tmp_path, packed, name, where):
    """A hostile manifest would make stoker read (or verify, or list) files outside the dataset."""
    out, _, manifest = packed
    m = manifest_without_checksum(manifest)
    m[where][0]["name"] = name
    manifest.write_text(json.dumps(m))
    for command in (("verify", out), ("inspect", out),
                    ("pack", out, tmp_path / "dst", "--format", "tar")):
        text = bad(*command)
        assert "manifest.json" in text
        assert "root:" not in text
    assert not (tmp_path / "dst").exists()


def test_manifest_damaged(bad, tmp_path, packed):
    """A damaged manifest would crash stoker, or the dataset would pass for a foreign folder."""
    out, _, manifest = packed
    m = manifest_without_checksum(manifest)
    text = json.dumps(m)
    cases = [text[:len(text) // 2], text.replace('"tfrecord"', '"nosuch"', 1)]
    for key, value in (("samples", -1), ("samples", 1e300), ("shards", {}), ("shards", [1]),
                       ("format", None), ("format", "a" * 100_000), ("payload", "nosuch"),
                       ("classes", [1, 2]), ("classes", None), ("compression", "rot13"),
                       ("shards", m["shards"] * 2), ("shards", [])):
        cases.append(json.dumps({**m, key: value}))
    for case in cases:
        manifest.write_text(case)
        bad("verify", out)


def flipped(at, by=0x10):
    return lambda text: bytes(c ^ (by if i == at % len(text) else 0) for i, c in enumerate(text))


@pytest.mark.parametrize("damage", [flipped(0), flipped(1), flipped(-3), flipped(3, 0x20), flipped(6), flipped(19),
                                    lambda text: text.replace(b'"grouped"', b'"groupee"'),
                                    lambda text: b"", lambda text: text[:9], lambda text: b"[]",
                                    lambda text: bytes(len(text))])
def test_a_damaged_manifest_is_damage(stoker, packed, damage):
    """`verify` failed, or the dataset was taken for that of another program, with fewer checks."""
    out, _, manifest = packed
    manifest.write_bytes(damage(manifest.read_bytes()))
    said = stoker("verify", out, "--json", "-", rc=1)
    assert [p["path"] for p in said.json()["result"]["problems"]] == [str(manifest)]
    assert "damaged manifest" in stoker("verify", out, rc=1).out
    assert "damaged manifest" in stoker("load", out, rc=4).err


def test_a_changed_manifest_is_damage(stoker, tmp_path, packed):
    """A class by another name, a column more or less, a wrong total: the data was another, status 0."""
    out, _, manifest = packed
    text = manifest.read_bytes()
    assert json.loads(text)["stoker_manifest"] == 2
    for at in range(0, len(text), 7):
        manifest.write_bytes(flipped(at, 0x01)(text))
        said = stoker("load", out, rc=4).err
        assert "damaged manifest" in said and "--on-error" not in said, at
    for change in ({"classes": ["x"]}, {"grouped": True}, {"stoker_manifest": 1}, {"xxh64": "0" * 16}):
        manifest.write_text(json.dumps({**json.loads(text), **change}, indent=2))
        assert "checksum does not match" in stoker("inspect", out, rc=4).err
    manifest.write_bytes(text)
    older = manifest_without_checksum(manifest)
    manifest.write_text(json.dumps({**older, "stoker_manifest": 2}))
    assert "checksum is missing" in stoker("pack", out, tmp_path / "dst", "--format", "tar", rc=4).err
    manifest.write_text(json.dumps(older))
    stoker("verify", out)
    manifest.write_bytes(text)
    stoker("verify", out)


def test_manifest_that_lies(bad, tmp_path, packed):
    """Sizes, counts and checksums in a manifest would be believed instead of checked."""
    out, _, manifest = packed
    m = manifest_without_checksum(manifest)
    for change in ({"samples": 1}, {"size_bytes": 1}, {"size_bytes": (1 << 62)}, {"samples": 1 << 62},
                   {"xxh64": "0" * 16}, {"xxh64": "zz"}):
        lie = json.loads(json.dumps(m))
        lie["shards"][0].update(change)
        manifest.write_text(json.dumps(lie))
        bad("verify", out)


def test_missing_and_swapped_shards(bad, tmp_path, packed):
    """A shard lost or exchanged in a copy would go unnoticed."""
    out, _, _ = packed
    first, second = sorted(out.glob("*.tfrecord"))
    blobs = first.read_bytes(), second.read_bytes()
    first.write_bytes(blobs[1])
    second.write_bytes(blobs[0])
    bad("verify", out, names=first.name)
    first.write_bytes(blobs[0])
    second.unlink()
    bad("verify", out, names=second.name)
    bad("pack", out, tmp_path / "dst", "--format", "tar", names=second.name)


def test_zlib_of_nothing(bad, tmp_path):
    """Two bytes that look like zlib would send a plain file through the decompressor."""
    path = tmp_path / "z.tfrecord"
    for blob in (b"\x78\x9c", b"\x78\x9c" * 3000, zlib.compress(b""), gzip.compress(b""),
                 b"\x1f\x8b\x08" + b"\0" * 20, b"\x1f\x8b\x08\xff" + b"\xff" * 5000):
        path.write_bytes(blob)
        bad("verify", path, "--format", "tfrecord", rc=(0, *BAD))
