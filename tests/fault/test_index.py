"""The index: damaged, of other data, out of date, or of compressed files. An index may be wrong in
every way and must never make a dataset give other samples than its files hold.

With STOKER_LONG=1 every byte is flipped and every length cut."""

import base64
import csv
import gzip
import io
import json
import os
import pathlib
import random
import shutil
import tarfile
import zlib

import numpy as np
import pytest

import tfrecordlib as tfr
from conftest import flip_byte, make_images, run_stoker
from faultlib import LONG, as_nobody, names, needs_root, tree

BAD = (1, 4)


def data_of(path, i, rc=0, **how):
    return run_stoker("inspect", path, "--sample", i, "-o", "-", rc=rc, **how)


def samples_of(path, tmp, rc=0):
    """(result, all samples as text) of a dataset that is a file or packed."""
    out = pathlib.Path(tmp) / "as-jsonl"
    shutil.rmtree(out, ignore_errors=True)
    result = run_stoker("pack", path, out, "--format", "jsonl", "--shards", "1", "--quiet", rc=rc)
    return result, out.exists() and next(out.glob("*.jsonl")).read_text().splitlines()


# ---- datasets of every way to store samples, without checksums of their own ---------------------

def make_tar(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def make_dataset(kind, root):
    """A small dataset whose index holds that kind of segment. Returns its path."""
    rng = random.Random(5)
    if kind == "whole":
        path = root / "x.csv"
        path.write_text("key,v\n" + "".join(f"k{i},{rng.random()}\n" for i in range(30)))
    elif kind == "parts":
        path = root / "x.tar"
        make_tar(path, [(f"{i:02d}.{ext}", rng.randbytes(40)) for i in range(15)
                        for ext in ("a", "b")])
    elif kind == "columns":
        path = root / "x.npy"
        np.save(path, np.arange(400, dtype=np.int32).reshape(50, 8))
    elif kind == "points":
        path = root / "x.jsonl.gz"
        rows = [{"i": i, "v": rng.randbytes(40).hex()} for i in range(40)]
        path.write_bytes(gzip.compress("".join(json.dumps(r) + "\n" for r in rows).encode()))
    elif kind == "packed":
        make_images(root / "img", classes=2, per_class=6)
        path = root / "packed"
        run_stoker("pack", root / "img", path, "--format", "tar", "--shards", "2")
    return path


def index_of(path):
    return path / "index.stkidx" if path.is_dir() else path.with_name(path.name + ".stkidx")


KINDS = ["whole", "parts", "columns", "points", "packed"]


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bytes(tmp_path, kind):
    """A flipped bit in an offset would give other bytes than the sample's, without a word."""
    path = make_dataset(kind, tmp_path)
    _, want = samples_of(path, tmp_path)
    index = index_of(path)
    blob = index.read_bytes()
    errors = 0
    for at in range(3, len(blob), 1 if LONG else 97):
        index.write_bytes(blob)
        flip_byte(index, at, 1 << at % 8)
        result, got = samples_of(path, tmp_path, rc=(0, 4))
        if result.rc == 0:
            assert got == want, f"byte {at}"
        else:
            errors += 1
            assert "index" in result.err, f"byte {at}: {result}"
    assert errors < len(blob) // 97  # most damage is detected when the index is opened; then it is rebuilt


@pytest.mark.parametrize("kind", ["parts", "packed"])
def test_truncated(tmp_path, kind):
    """A truncated index would be read past its end (SIGBUS)."""
    path = make_dataset(kind, tmp_path)
    _, want = samples_of(path, tmp_path)
    index = index_of(path)
    blob = index.read_bytes()
    few = [0, 7, 703, 704, *range(705, len(blob), 301), len(blob) - 1]
    cuts = range(len(blob)) if LONG else few
    for cut in cuts:
        index.write_bytes(blob[:cut])
        assert samples_of(path, tmp_path)[1] == want, cut
        index.write_bytes(blob + bytes(cut + 1))
        assert samples_of(path, tmp_path)[1] == want, cut


def test_damage_beyond_the_first_block(tmp_path):
    """Only what is looked at is checked: damage far behind must be found when it is reached."""
    path = tmp_path / "x.csv"
    path.write_text("a\n" + "".join(f"{i}\n" for i in range(20_000)))
    middle = 10_000
    want = {i: data_of(path, i).out_bytes for i in (0, middle, 19_999)}
    index = index_of(path)
    blob = index.read_bytes()
    assert len(blob) > 4 * 65536
    flip_byte(index, len(blob) // 2, 0x10)  # 16 bytes an extent, and little else
    for i in (0, 19_999):
        assert data_of(path, i).out_bytes == want[i]
    assert "damaged index" in data_of(path, middle, rc=4).err
    assert index.name in run_stoker("verify", path, rc=1).out
    run_stoker("inspect", path, "--rebuild-index")
    assert data_of(path, middle).out_bytes == want[middle]


# ---- of other data -----------------------------------------------------------------------------

@pytest.mark.parametrize("fmt", ["tar", "folder", "npz"])
def test_index_of_another_packing(tmp_path, fmt):
    """The same samples in another order make files of the same names and sizes: with the index of
    one the other would give the wrong bytes for every key."""
    make_images(tmp_path / "img", classes=2, per_class=6, sizes=(900, 901))
    outs = []
    for seed in (1, 2):
        out = tmp_path / f"s{seed}/out"
        run_stoker("pack", tmp_path / "img", out, "--format", fmt, "--shuffle", seed, "--compress",
                   "deflate" if fmt == "npz" else "none")
        outs.append(out)
    want = [samples_of(out, tmp_path)[1] for out in outs]
    shutil.copy(outs[1] / "index.stkidx", outs[0] / "index.stkidx")
    assert samples_of(outs[0], tmp_path)[1] == want[0]
    if fmt == "tar":
        result = run_stoker("verify", outs[0], rc=1)
        assert "index.stkidx" in result.out + result.err


def test_index_of_another_file_of_the_same_name(tmp_path):
    """An index copied along with the wrong file would be used."""
    for name, start in (("a", 0), ("b", 1000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.csv").write_text("v\n" + "".join(f"{start + i}\n" for i in range(30)))
        run_stoker("inspect", tmp_path / name / "x.csv")
    before = data_of(tmp_path / "b/x.csv", 20).out_bytes
    shutil.copy(tmp_path / "a/x.csv.stkidx", tmp_path / "b/x.csv.stkidx")
    assert data_of(tmp_path / "b/x.csv", 20).out_bytes == before


def first_fields(path):
    fields = run_stoker("inspect", path, "--json", "-", "--quiet").json()["result"]["fields"]
    return sorted((f["name"], f.get("dtype")) for f in fields)


def built(path):
    return run_stoker("inspect", path, "--json", "-", "--quiet").json()["result"]["index_built_now"]


def make_version(kind, root, which):
    """Files of the same names, sizes and times, which mean something else: version 0 or 1."""
    root.mkdir(parents=True)
    if kind == "csv":
        names = ["width,depth", "depth,width"]
        for i in range(3):
            (root / f"{i}.csv").write_text(names[which] + "\n1,2\n3,4\n")
    elif kind == "npy":
        np.save(root / "x.npy", np.full(50, 0xFFFFFFF0, np.uint32).view([np.uint32, np.int32][which]))
    elif kind == "tar":
        sizes = [(500, 900), (900, 500)]
        make_tar(root / "x.tar", [(f"{i}.bin", b"%d" % i * n) for i, n in enumerate(sizes[which])])
    elif kind == "folder":
        for i in range(3 + which):
            (root / f"{i}.jpg").write_bytes(b"%d" % i * 50)
    for path in [*root.iterdir(), root]:
        os.utime(path, ns=(10**18, 10**18))
    return root


def seen(path):
    run_stoker("inspect", path, "--quiet")
    n = run_stoker("inspect", path, "--json", "-", "--quiet").json()["result"]["samples"]
    return first_fields(path), n, [run_stoker("inspect", path, "--sample", i).out for i in range(n)]


@pytest.mark.parametrize("kind", ["csv", "tar", "folder"])
def test_another_folder_that_took_the_name(tmp_path, kind):
    """Files of the same names, sizes and times that were moved there whole: nothing was touched since
    the index was made, but they are other files."""
    versions = [make_version(kind, tmp_path / f"v{i}", i) for i in (0, 1)]
    want = seen(versions[1])
    index_of_v1 = versions[1].with_name("v1.stkidx")
    index_of_v1.unlink()
    data = versions[0].rename(tmp_path / "data")
    assert seen(data) != want and not built(data)
    data.rename(tmp_path / "old")
    versions[1].rename(data)
    assert seen(data) == want
    assert not built(data)


@pytest.mark.parametrize("kind", ["csv", "npy", "tar"])
@pytest.mark.parametrize("parent", ["same", "other"])
def test_another_file_that_took_the_name(tmp_path, kind, parent):
    """An index beside a file, which another of the same size and time replaced."""
    old, new = (next(make_version(kind, tmp_path / f"v{i}", i).iterdir()) for i in (0, 1))
    want = seen(new)
    index_of(new).unlink()
    assert seen(old) != want
    if parent == "other":
        (tmp_path / "old").mkdir()
        index_of(old).rename(tmp_path / "old" / index_of(old).name)
        old = tmp_path / "old" / old.name
    new.rename(old)
    assert seen(old) == want
    assert not built(old)


@pytest.mark.parametrize("kind", ["csv", "npy", "tar"])
def test_an_index_that_was_copied(tmp_path, kind):
    """A copy of data and index is used as it is; with other data of the same sizes and times it is not."""
    v0, v1 = (make_version(kind, tmp_path / f"v{i}", i) for i in (0, 1))
    want = seen(v0), seen(v1)
    for i, v in enumerate((v0, v1) if kind != "npy" else ()):  # a folder of those is files
        copy = shutil.copytree(v, tmp_path / f"copy{i}")
        shutil.copy2(tmp_path / "v0.stkidx", tmp_path / f"copy{i}.stkidx")
        assert built(copy) == (i == 1)
        assert seen(copy) == want[i]
        run_stoker("verify", copy)
    # A file of its own, likewise.
    single = [next(v.iterdir()) for v in (v0, v1)]
    want = [seen(path) for path in single]
    (tmp_path / "c").mkdir()
    for i, path in enumerate(single):
        copy = shutil.copy2(path, tmp_path / "c" / single[0].name)
        shutil.copy2(index_of(single[0]), index_of(copy))
        assert built(copy) == (i == 1)
        assert seen(copy) == want[i]


def test_a_copy_is_changed_in_place(tmp_path):
    """A copy that uses an index of its own notices a change under the old size and time."""
    v0, v1 = (make_version("csv", tmp_path / f"v{i}", i) for i in (0, 1))
    want = seen(v1)
    run_stoker("inspect", v0)
    for path in v0.iterdir():
        path.write_text((v1 / path.name).read_text())
        os.utime(path, ns=(10**18, 10**18))
    os.utime(v0, ns=(10**18, 10**18))
    assert seen(v0) == want


# ---- a file of the user that has the name of an index -------------------------------------------

@pytest.mark.parametrize("what", ["text", "short", "link", "folder"])
@pytest.mark.parametrize("how", [[], ["--rebuild-index"]])
def test_a_file_of_the_user_stays(tmp_path, what, how):
    """NAME.stkidx that is something else would be replaced by the index of NAME."""
    data = tmp_path / "x.csv"
    data.write_text("a,b\n1,2\n3,4\n")
    own = tmp_path / "x.csv.stkidx"
    if what == "folder":
        own.mkdir()
    elif what == "link":
        (tmp_path / "mine").write_text("my own text")
        own.symlink_to("mine")
    else:
        own.write_text("my own text" if what == "text" else "my")
    before = tree(tmp_path)
    for i in range(2):
        result = run_stoker("inspect", data, *how, "--json", "-", "--quiet").json()["result"]
        assert result["samples"] == 2
        assert "x.csv.stkidx" in result["index_not_used"] if how or not i else True
    assert {k: v for k, v in tree(tmp_path).items() if "cache" not in k} == before


def test_remains_of_an_index_are_replaced(tmp_path):
    data = tmp_path / "x.csv"
    data.write_text("a,b\n1,2\n3,4\n")
    run_stoker("inspect", data)
    whole = index_of(data).read_bytes()
    for n in (0, 4, 8, 500, len(whole) - 1):
        index_of(data).write_bytes(whole[:n])
        assert built(data) and not built(data), n
        assert len(index_of(data).read_bytes()) == len(whole)


# ---- out of date -------------------------------------------------------------------------------

def test_shards_that_change(tmp_path):
    """Data appended, rewritten, added, removed or renamed would be read by an old index."""
    root = tmp_path / "set"
    root.mkdir()
    shards = {name: [b"%s %d" % (name.encode(), i) for i in range(5)] for name in "abc"}

    def write(name):
        (root / f"{name}.tfrecord").write_bytes(b"".join(map(tfr.frame, shards[name])))

    def check(step):
        result = run_stoker("inspect", root, "--json", "-", "--quiet").json()["result"]
        want = [r for name in sorted(shards) for r in shards[name]]
        assert result["samples"] == len(want), step
        for i in (0, len(want) // 2, len(want) - 1):
            assert data_of(root, i).out_bytes == want[i], (step, i)

    for name in shards:
        write(name)
    check("as written")
    shards["b"].append(b"one more")
    write("b")
    check("appended")
    stat = (root / "a.tfrecord").stat()
    shards["a"] = [b"A %d" % i for i in range(5)]
    write("a")
    assert (root / "a.tfrecord").stat().st_size == stat.st_size
    check("same size, other time")
    shards["d"] = [b"added"]
    write("d")
    check("added")
    del shards["a"]
    (root / "a.tfrecord").unlink()
    check("removed")
    shards["z"] = shards.pop("b")
    (root / "b.tfrecord").rename(root / "z.tfrecord")
    check("renamed")
    shards["c"], shards["d"] = shards["d"], shards["c"]
    (root / "c.tfrecord").rename(tmp_path / "t")
    (root / "d.tfrecord").rename(root / "c.tfrecord")
    (tmp_path / "t").rename(root / "d.tfrecord")
    check("exchanged")


def test_files_of_a_folder_that_change(tmp_path):
    """New, removed and renamed files would go unnoticed; a file written anew would be cut off at
    its old length."""
    root = tmp_path / "img"
    files = make_images(root, classes=2, per_class=4)

    def check():
        result = run_stoker("inspect", root, "--json", "-", "--quiet").json()["result"]
        assert result["samples"] == len(files)
        for i in (0, len(files) - 1):
            assert data_of(root, i).out_bytes == files[sorted(files)[i]]

    check()
    (root / "class00/aaa.jpg").write_bytes(files.setdefault("class00/aaa.jpg", b"new"))
    check()
    (root / "class01/img0003.jpg").unlink()
    del files["class01/img0003.jpg"]
    check()
    (root / "class01/img0001.jpg").rename(root / "class01/zzz.jpg")
    files["class01/zzz.jpg"] = files.pop("class01/img0001.jpg")
    check()
    (root / "class02").mkdir()
    (root / "class02/x.jpg").write_bytes(files.setdefault("class02/x.jpg", b"x" * 100))
    check()
    # Rewritten in place: no folder shows it. Reading reports it, and never returns the old data.
    (root / "class02/x.jpg").write_bytes(b"y" * 100)
    files["class02/x.jpg"] = b"y" * 100
    result = data_of(root, len(files) - 1, rc=(0, 4))
    assert "changed" in result.err if result.rc else result.out_bytes == b"y" * 100
    run_stoker("inspect", root, "--rebuild-index")
    check()
    (root / "class02/x.jpg").write_bytes(b"z" * 50)
    run_stoker("pack", root, tmp_path / "out", "--format", "folder")  # pack looks again by itself
    assert (tmp_path / "out/files/class02/x.jpg").read_bytes() == b"z" * 50


def test_packed_dataset_can_be_copied(tmp_path):
    """Times change in a copy: the index would be built anew on every node, or not at all where the
    copy is read-only."""
    make_images(tmp_path / "img", classes=2, per_class=4)
    run_stoker("pack", tmp_path / "img", tmp_path / "out", "--format", "tar")
    shutil.copytree(tmp_path / "out", tmp_path / "copy", copy_function=shutil.copyfile)
    run_stoker("inspect", tmp_path / "copy")
    cache = tmp_path / "xdg-cache/stoker"
    assert not (tmp_path / "copy.stkidx").exists() and not list(cache.glob("*"))
    assert sorted(tree(tmp_path / "copy")) == sorted(tree(tmp_path / "out"))


# ---- where it cannot be written ----------------------------------------------------------------

@needs_root
def test_read_only_dataset(tmp_path):
    """A shared dataset that belongs to somebody else would be listed anew every time, or not be
    readable at all."""
    root = tmp_path / "shared/img"
    files = make_images(root, classes=2, per_class=4)
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 5 != 5:
            folder.chmod(folder.stat().st_mode | 5)
    how = {"env": {"XDG_CACHE_HOME": cache}, "preexec_fn": as_nobody}
    for _ in range(2):
        assert data_of(root, 3, **how).out_bytes == files[sorted(files)[3]]
        assert names(tmp_path / "shared") == ["img"]
        (index,) = (cache / "stoker").iterdir()
        before = index.stat().st_ino
        assert index.stat().st_uid == 65534 and (cache / "stoker").stat().st_mode & 0o77 == 0
    assert index.stat().st_ino == before
    shutil.rmtree(cache)
    assert data_of(root, 3, **how).out_bytes == files[sorted(files)[3]]  # no place at all
    assert names(tmp_path / "shared") == ["img"]


@needs_root
def test_cache_of_somebody_else(tmp_path):
    """Another user's folder in our place would feed us indexes."""
    path = make_dataset("parts", tmp_path)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 5 != 5:
            folder.chmod(folder.stat().st_mode | 5)
    (tmp_path / "cache/stoker").mkdir(parents=True)
    (tmp_path / "cache/stoker").chmod(0o777)
    run_stoker("inspect", path, env={"XDG_CACHE_HOME": tmp_path / "cache"}, preexec_fn=as_nobody)
    assert names(tmp_path / "cache/stoker") == []


# ---- compressed files: read from the middle -----------------------------------------------------

def semi_random(rng, n):
    """Bytes that compress to about half, so that deflate makes blocks of every kind."""
    words = [rng.randbytes(rng.randint(3, 40)) for _ in range(300)]
    parts, size = [], 0
    while size < n:
        part = rng.choice(words) if rng.random() < 0.7 else rng.randbytes(30)
        parts.append(part)
        size += len(part)
    return b"".join(parts)[:n]


@pytest.fixture(scope="module")
def long_file(tmp_path_factory):
    """18 MiB of TFRecords: small ones, empty ones, and two longer than an access point is away."""
    rng = random.Random(11)
    block = semi_random(rng, 6 << 20)
    records = [block[rng.randrange(1 << 20):][:rng.randint(0, 30_000)] for _ in range(400)]
    records[100] = block
    records[300] = block[::-1]
    path = tmp_path_factory.mktemp("long") / "plain.tfrecord"
    path.write_bytes(b"".join(map(tfr.frame, records)))
    return path, records


def compressed(how, data):
    third = len(data) // 3
    if how == "gzip":
        return gzip.compress(data, 6)
    if how == "zlib":
        return zlib.compress(data, 1)
    if how == "members":  # cut in the middle of records, one of them empty, padded with zeros
        cuts = [0, 1000, third, third, len(data) - 5, len(data)]
        return b"".join(gzip.compress(data[a:b], 1) for a, b in zip(cuts, cuts[1:])) + bytes(700)
    if how == "stored":
        return gzip.compress(data[:third], 0) + gzip.compress(data[third:], 1)
    if how == "blocks":  # as bgzip: a member every 64 KiB
        return b"".join(gzip.compress(data[i:i + 65280], 1) for i in range(0, len(data), 65280))
    raise ValueError(how)


@pytest.mark.parametrize("how", ["gzip", "zlib", "members", "stored", "blocks"])
def test_random_access_to_compressed_records(tmp_path, long_file, how):
    """Sample N of a compressed file would be another one's bytes."""
    plain, records = long_file
    path = tmp_path / "x.tfrecord.gz"
    path.write_bytes(compressed(how, plain.read_bytes()))
    run_stoker("inspect", path, "--payload", "raw")
    for i in (399, 0, 300, 301, 100):
        got = run_stoker("inspect", path, "--payload", "raw", "--sample", i, "-o", "-").out_bytes
        assert got == records[i], i
    if how in ("gzip", "members"):
        opts = ("--from-payload", "raw", "--payload", "raw", "--shards", "2", "--quiet", "--name",
                "x", "--shuffle", "3", "--jobs", "3")
        run_stoker("pack", plain, tmp_path / "a", *opts)
        run_stoker("pack", path, tmp_path / "b", *opts)
        for name in ("x-00000-of-00002.tfrecord", "x-00001-of-00002.tfrecord"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("fmt", ["tar", "csv", "jsonl"])
def test_random_access_to_compressed_text_and_tar(tmp_path, fmt):
    """The same for formats whose samples have no frame: nothing would tell the wrong bytes."""
    rng = random.Random(3)
    path = tmp_path / f"x.{fmt}"
    if fmt == "tar":
        blob = semi_random(rng, 3 << 20)
        make_tar(path, [(f"{i:03d}.bin", blob[rng.randrange(1 << 20):][:rng.randint(0, 200_000)])
                        for i in range(220)])
        count = 220
    else:
        count = 60_000
        rows = [(f"k{i}", rng.random(), rng.randbytes(rng.randint(0, 300)).hex())
                for i in range(count)]
        if fmt == "csv":
            text = io.StringIO()
            csv.writer(text).writerows([("key", "v", "text"), *rows])
            path.write_text(text.getvalue())
        else:
            path.write_text("".join(json.dumps(dict(zip(("key", "v", "text"), r))) + "\n"
                                    for r in rows))
    packed = tmp_path / f"x.{fmt}.gz"
    packed.write_bytes(compressed("members", path.read_bytes()))
    assert path.stat().st_size > 18 << 20
    for i in (0, count - 1, count // 2, count // 3, count // 7):
        a, b = ({k: v for k, v in run_stoker("inspect", p, "--sample", i, "--json", "-", "-q")
                 .json()["result"].items()} for p in (path, packed))
        assert a == b, i
    a, b = (run_stoker("inspect", p, "--json", "-", "-q").json()["result"]["samples"]
            for p in (path, packed))
    assert a == b == count


def test_damaged_compressed_file(tmp_path, long_file):
    """Truncation and flipped bits behind the first access points would cost what is before them,
    or go unnoticed."""
    plain, records = long_file
    data = b"".join(map(tfr.frame, records[:300]))  # 10 MiB: two points and more
    blob = gzip.compress(data, 1)
    path = tmp_path / "x.tfrecord.gz"
    for damage in ("cut", "flip", "sum"):
        bad = bytearray(blob)
        if damage == "cut":
            del bad[len(bad) * 3 // 4:]
        else:
            bad[len(bad) * 3 // 4 if damage == "flip" else -6] ^= 0x10
        path.write_bytes(bad)
        result = run_stoker("verify", path, "--payload", "raw", rc=1)
        assert "x.tfrecord.gz" in result.out + result.err
        out = tmp_path / f"out-{damage}"
        opts = ("--from-payload", "raw", "--payload", "raw", "--shards", "1")
        assert "x.tfrecord.gz" in run_stoker("pack", path, out, *opts, rc=4).err
        assert not out.exists()
        run_stoker("pack", path, out, *opts, "--on-error", "skip", rc=3)
        (shard,) = out.glob("*.tfrecord")
        got = tfr.records(shard.read_bytes())
        rest = iter(records[:300])
        assert all(any(r == g for r in rest) for g in got), damage  # in order, none changed
        assert len(got) == 300 if damage == "sum" else 100 < len(got) < 300, (damage, len(got))


# ---- options, and other versions -----------------------------------------------------------------

def inspect(path, *options, rc=0):
    return run_stoker("inspect", path, "--json", "-", "--quiet", *options, rc=rc).json()["result"]


def test_an_option_given_once_does_not_stick(tmp_path):
    """One look with --payload raw, and the next pack loses all labels."""
    folder = tmp_path / "src"
    for name in "cat/1.jpg", "dog/2.jpg":
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"pixels of " + name.encode())
    run_stoker("pack", folder, tmp_path / "rec", "--format", "recordio", "--shards", "1")
    rec = tmp_path / "img.rec"
    shutil.copy(next((tmp_path / "rec").glob("*.rec")), rec)
    table = tmp_path / "t.csv"
    table.write_text("a,b\tc\n1,2\t3\n")
    for path, options, key in ((rec, ("--payload", "raw"), "payload"),
                               (table, ("--format", "tsv"), "format"),
                               (folder, ("--group",), "fields"),
                               (folder, ("--format", "folder"), "files")):
        plain = inspect(path)[key]
        for _ in range(2):
            asked = inspect(path, *options)
            assert inspect(path)[key] == plain, options
        assert not asked["index_built_now"], "an index made with options is used by who gives them"
        assert not inspect(path)["index_built_now"], "and the other one is still there"
        # Nor does it matter who comes first.
        for index in tmp_path.glob("*.stkidx"):
            index.unlink()
        inspect(path, *options)
        assert inspect(path)[key] == plain
    assert inspect(rec, "--payload", "auto")["payload"] == "image"
    run_stoker("inspect", rec, "--payload", "raw")
    _, rows = samples_of(rec, tmp_path)
    assert [json.loads(r)["label"] for r in rows] == [0, 1]


def test_what_is_found_out_anyway_is_no_option(tmp_path):
    """A format named in a script would double the work and the indexes."""
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    inspect(table, "--format", "csv")
    assert not inspect(table)["index_built_now"]
    assert not inspect(table, "--format", "csv")["index_built_now"]
    assert [p.name for p in tmp_path.glob("*.stkidx")] == ["t.csv.stkidx"]


# The index of the file below as stoker 0.1.0 wrote it: version 2.
OLD_INDEX = (
    'c-'
    'jjN@%Hp{iC|!2U|<jeVh&aYFi>COP|<OJ={!aV7c7rV^FV1f2J9fYxC}2J1`a?CgxO=sGP^CUKjEALOaU{hJ<Jv%'
    'JY75Ab-~m-'
    'Fr%6`^W}{|^V@FkC1CO_sO}C>Jel&p>Q;>al;6ODYX9}?%_SO&1s4rq?qk7jKDs<i|8D8qr_N@bG~s}0V8yOqfPg'
    '$9{pkLO@%M)aZ_Lx+6G?!%4=NAy#$s9BP><Py+hOV%aQIJwfc*+Yx{sj$q4o<xxk`)8Oa)&=cA)Er@wa`JPFVeg_'
    'Z|mYI$}jjmq&xIdHaOCkYFGHO7w80OyU6x)P0njL^?=GEJ>t9KhVtzCMF7o3PxO+iCmdUTx9qio=HLF2O6JPz(jz'
    'LnhK}~Br-N!QWiNE4*(T2ZIu')


def test_index_of_the_last_version(tmp_path):
    """It would be misread, or a user would not know why everything is listed again."""
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n3,4\n")
    index = tmp_path / "t.csv.stkidx"
    index.write_bytes(zlib.decompress(base64.b85decode(OLD_INDEX)))
    result = inspect(table)
    assert result["samples"] == 2 and result["index_built_now"]
    assert "version 2" in result["index_not_used"]
    assert inspect(table)["index_not_used"] is None
    # A dataset that the last version packed has one inside: sound, not used, not touched.
    out = tmp_path / "out"
    run_stoker("pack", table, out, "--format", "jsonl", "--shards", "1")
    inside = out / "index.stkidx"
    manifest = json.loads((out / "manifest.json").read_text())
    old = zlib.decompress(base64.b85decode(OLD_INDEX))
    inside.write_bytes(old)
    assert "version 2" in inspect(out)["index_not_used"] and inside.read_bytes() == old
    assert manifest["samples"] == inspect(out)["samples"]
