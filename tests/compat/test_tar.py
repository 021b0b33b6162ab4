"""tar / WebDataset against Python's tarfile and GNU tar, in both directions."""

import base64
import gzip
import io
import json
import os
import random
import re
import shutil
import subprocess
import tarfile

import numpy
import pytest

from conftest import LONG

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def write_tar(path, members, format=tarfile.PAX_FORMAT, mtime=0, mode="w"):
    """members: (name, bytes) pairs or TarInfo, in order."""
    with tarfile.open(path, mode, format=format, encoding="utf-8", errors="surrogateescape") as tar:
        for m in members:
            named = not isinstance(m, tarfile.TarInfo)
            info, data = (tarfile.TarInfo(m[0]), m[1]) if named else (m, None)
            if data is not None:
                info.size, info.mtime = len(data), mtime
            tar.addfile(info, io.BytesIO(data) if data is not None else None)
    return path


def unjson(value):
    if isinstance(value, dict) and "$base64" in value:
        return base64.b64decode(value["$base64"])
    return value


def samples(stoker, path, tmp_path, *options, rc=0):
    """What stoker reads, as [(key, {field: value})], through a pack into JSON Lines."""
    out = tmp_path / f"samples-{len(list(tmp_path.glob('samples-*')))}"
    stoker("pack", path, out, "--format", "jsonl", "--shards", "1", *options, rc=rc)
    found = []
    for shard in sorted(out.glob("*.jsonl")):
        for line in shard.read_text("utf-8").splitlines():
            row = {k: unjson(v) for k, v in json.loads(line).items()}
            found.append((row.pop("key"), row))
    return found


def as_bytes(value):
    return value.encode() if isinstance(value, str) else value


def webdataset(path):
    """WebDataset's own reading rules in plain Python: [(key, {extension: bytes})]."""
    found = []
    with tarfile.open(path, "r|*") as tar:
        for m in tar:
            split = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", m.name)
            if not m.isreg() or not split or re.match(r"__[^/]*__($|/)", m.name):
                continue
            key, ext = split.groups()
            if not found or found[-1][0] != key:
                found.append((key, {}))
            assert ext not in found[-1][1]
            found[-1][1][ext] = tar.extractfile(m).read()
    return found


def tree(root):
    """{name below root: bytes} of every file, names as bytes."""
    root = os.fsencode(root)
    found = {}
    for where, _, names in os.walk(root):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, root)] = f.read()
    return found


def packed_tree(root):
    """The files of a packed folder: they stand in a folder of their own, beside the manifest."""
    [folder] = [p for p in root.iterdir() if p.is_dir()]
    return tree(folder)


# ---- reading what others write -----------------------------------------------------------------

@pytest.mark.parametrize("mtime", [0, 1234567890, 1234567890.25])
@pytest.mark.parametrize("name", FORMATS)
def test_python_tarfile(stoker, tmp_path, name, mtime):
    """A user would lose archives of Python (WebDataset puts a pax header on each member)."""
    members = [(f"{d}/{i:04d}.{e}", f"{d}{i}{e}".encode() * (i + 1))
               for d in ("cat", "dog") for i in range(7) for e in ("jpg", "xml")]
    tar = write_tar(tmp_path / "t.tar", members, FORMATS[name], mtime)
    assert samples(stoker, tar, tmp_path) == [
        (key, {e: d.decode() for e, d in fields.items()}) for key, fields in webdataset(tar)]
    stoker("verify", tar)


@pytest.mark.parametrize("name", ["gnu", "pax"])
def test_long_and_odd_names(stoker, tmp_path, name):
    """A user would lose files with long or non-ASCII names."""
    names = ["a" * 99, "b" * 100, "c" * 101, "/".join(["d" * 60] * 5), "e" * 250,
             "/".join(["f" * 250] * 4), "héllo wörld/ünï", "日本語/画像", "new\nline",
             "quo'te\"s", "-dash", "sp ace", "back\\slash", "tab\there"]
    members = [(n + ".jpg", n.encode()) for n in names]
    tar = write_tar(tmp_path / "t.tar", members, FORMATS[name])
    assert [(k, as_bytes(f["jpg"])) for k, f in samples(stoker, tar, tmp_path)] == [
        (n, n.encode()) for n in names]
    out = tmp_path / "folder"
    stoker("pack", tar, out, "--format", "folder")
    assert packed_tree(out) == {os.fsencode(n): d for n, d in members}


@pytest.mark.parametrize("format", ["v7", "oldgnu", "gnu", "ustar", "pax"])
def test_gnu_tar_reading(stoker, tmp_path, images, format):
    """A user would lose archives of GNU tar."""
    root, files = images
    tar = tmp_path / "t.tar"
    subprocess.run(["tar", f"--format={format}", "--sort=name", "-cf", tar, "-C", root, "."],
                   check=True)
    got = samples(stoker, tar, tmp_path)
    assert [(k + ".jpg", f["jpg"]) for k, f in got] == list(files.items())
    stoker("verify", tar)


@pytest.mark.parametrize("suffix", ["tar.gz", "tgz"])
def test_gzip(stoker, tmp_path, suffix):
    """A user would have to unpack every .tar.gz first."""
    rng = random.Random(7)
    # more than one access point of the index (every few MiB), with members across them
    members = [(f"{i:03d}.bin", rng.randbytes(rng.randrange(300_000))) for i in range(100)]
    plain = write_tar(tmp_path / "t.tar", members)
    packed = tmp_path / f"t.{suffix}"
    with open(plain, "rb") as f, gzip.open(packed, "wb", compresslevel=1) as g:
        shutil.copyfileobj(f, g)
    out = tmp_path / "folder"
    stoker("pack", packed, out, "--format", "folder")
    assert packed_tree(out) == {os.fsencode(n): d for n, d in members}
    stoker("verify", packed)


@pytest.mark.parametrize("zip", [False, True])
def test_large_and_global_pax_headers(stoker, tmp_path, zip):
    """Archives with long comments or a global header (git archive makes one) would not be read."""
    tar = tmp_path / "t.tar"
    comment = {"comment": "g" * 3000}
    with tarfile.open(tar, "w", format=tarfile.PAX_FORMAT, pax_headers=comment) as t:
        for i in range(5):
            info = tarfile.TarInfo(f"{i}.jpg")
            info.size, info.pax_headers = 2, {"comment": "c" * 1_000_000}
            t.addfile(info, io.BytesIO(b"%02d" % i))
    if zip:
        tar.with_suffix(".tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
        tar = tar.with_suffix(".tar.gz")
    assert samples(stoker, tar, tmp_path) == [(str(i), {"jpg": f"{i:02d}"}) for i in range(5)]


@pytest.mark.parametrize("format", ["gnu", "pax"])
def test_member_over_8_gib(stoker, tmp_path, format):
    """A user would lose what stands behind a huge member (base-256 and pax sizes)."""
    size = (8 << 30) + 1000
    first, huge = tarfile.TarInfo("first.bin"), tarfile.TarInfo("huge.bin")
    first.size, huge.size = 512, size
    tar = tmp_path / "t.tar"
    tail = write_tar(tmp_path / "tail.tar", [("last.bin", b"the last one")]).read_bytes()
    with open(tar, "wb") as f:
        f.write(first.tobuf(FORMATS[format]) + b"1" * 512 + huge.tobuf(FORMATS[format]))
        f.seek(size + -size % 512, os.SEEK_CUR)  # a hole: takes no room on disk
        f.write(tail)
    result = stoker("inspect", tar, "--json", "-", "--quiet").json()["result"]
    assert result["samples"] == 3 and result["sample_max_bytes"] == size
    assert stoker("inspect", tar, "--sample", "2", "-o", "-").out_bytes == b"the last one"


def test_grouping_as_webdataset(stoker, tmp_path):
    """A user would get samples cut differently than WebDataset cuts them."""
    rng = random.Random(3)
    for round in range(5):
        members, seen = [], set()
        for i in range(60):
            stem = rng.choice(["", "d/", "d.x/y/", "e/"]) + rng.choice("abc") + str(i // 3)
            exts = ["jpg", "png", "seg.png", "xml", "b", "tar.gz"]
            for ext in rng.sample(exts, rng.randint(1, 3)):
                if (stem, ext) not in seen:
                    seen.add((stem, ext))
                    members.append((f"{stem}.{ext}", f"{stem}|{ext}".encode()))
            if rng.random() < 0.2:
                folder = tarfile.TarInfo(f"dir{i}")
                folder.type = tarfile.DIRTYPE
                members.append(folder)
            if rng.random() < 0.2:
                members.append((f"__meta{i}__/x.jpg", b"not a sample"))
        tar = write_tar(tmp_path / f"g{round}.tar", members)
        assert samples(stoker, tar, tmp_path) == [
            (k, {e: d.decode() for e, d in f.items()}) for k, f in webdataset(tar)]


def npy(array):
    b = io.BytesIO()
    numpy.save(b, array)
    return b.getvalue()


def test_kinds_of_fields(stoker, tmp_path):
    """A user would get labels, arrays, JSON and text as bytes, or wrong."""
    array = numpy.arange(12, dtype="<f4").reshape(3, 4)
    arrays = {"c": array, "fortran": numpy.asfortranarray(array), "big": array.astype(">f4"),
              "scalar": numpy.array(7, "<i8"), "flags": numpy.array([True, False]),
              "empty": numpy.zeros((0, 3), "<u2")}
    members = [("s.cls", b"41\n"), ("s.json", b'{"a": [1, null]}'), ("s.jpg", b"\xff\xd8\xff"),
               ("s.note.txt", "größe".encode())]
    members += [(f"s.{n}.npy", npy(a)) for n, a in arrays.items()]
    tar = write_tar(tmp_path / "t.tar", members)
    [(key, fields)] = samples(stoker, tar, tmp_path)
    assert key == "s" and fields["label"] == 41 and fields["note"] == "größe"
    assert fields["json"] == {"a": [1, None]} and fields["jpg"] == b"\xff\xd8\xff"
    for name, a in arrays.items():
        assert numpy.array_equal(numpy.array(fields[name]).reshape(a.shape), a), name
    # and through a tar of ours: numbers in C order, as numpy.save writes them
    out = tmp_path / "out"
    stoker("pack", tar, out, "--format", "tar", "--shards", "1")
    [(key, again)] = webdataset(next(out.glob("*.tar")))
    assert again["cls"] == b"41" and again["note.txt"].decode() == "größe"
    assert again["json"] == b'{"a": [1, null]}' and again["jpg"] == b"\xff\xd8\xff"
    for name, a in arrays.items():
        want = npy(numpy.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"))).reshape(a.shape))
        assert again[f"{name}.npy"] == want, name


def test_bad_values(stoker, tmp_path):
    """A user would train on garbage: a label that is none, an array that is cut off."""
    for bad in [("b.cls", b" \n"), ("b.x.npy", npy(numpy.arange(9))[:-1]),
                ("b.x.npy", b"no array")]:
        tar = write_tar(tmp_path / "t.tar", [("a.jpg", b"1"), bad, ("c.jpg", b"3")])
        out = tmp_path / f"out-{bad[0]}-{len(bad[1])}"
        result = stoker("pack", tar, out, "--format", "tfrecord", rc=4)
        assert "t.tar" in result.err and not out.exists()
        got = samples(stoker, tar, tmp_path, "--on-error", "skip", rc=3)
        assert [k for k, _ in got] == ["a", "c"]


def test_arrays_of_no_numbers(stoker, tmp_path):
    """Arrays of strings, structures or objects would make the whole sample unreadable (or be
    unpickled): they stay the files they are."""
    arrays = [numpy.array(["a", "bc"]), numpy.zeros(2, "i4,f4"), numpy.array([1j]),
              numpy.array([None, {}], object)]
    members = [(f"{i}.npy", npy(a)) for i, a in enumerate(arrays)]
    tar = write_tar(tmp_path / "t.tar", members)
    out = tmp_path / "out"
    stoker("pack", tar, out, "--format", "folder")
    assert packed_tree(out) == {n.encode(): d for n, d in members}


# ---- hostile and damaged -----------------------------------------------------------------------

@pytest.mark.parametrize("evil", ["../../x.jpg", "/abs/x.jpg", "a/../../x.jpg", "..", "ok/.."])
def test_hostile_names(stoker, tmp_path, evil):
    """A member would be written outside the destination."""
    tar = write_tar(tmp_path / "t.tar", [("a.jpg", b"1"), (evil, b"evil"), ("b.jpg", b"2")])
    result = stoker("verify", tar, rc=1)
    assert "t.tar:1024" in result.out + result.err
    out = tmp_path / "deep" / "er" / "out"
    out.parent.mkdir(parents=True)
    stoker("pack", tar, out, "--format", "folder", rc=4)
    assert not out.exists()
    stoker("pack", tar, out, "--format", "folder", "--on-error", "skip", rc=3)
    assert packed_tree(out) == {b"a.jpg": b"1", b"b.jpg": b"2"}
    assert not list(tmp_path.rglob("x.jpg"))


def test_duplicate_extension(stoker, tmp_path):
    """One of two members of the same name would be lost in silence; it is sound, as tar -r leaves it."""
    tar = write_tar(tmp_path / "t.tar", [("a.jpg", b"1"), ("a.txt", b"t"), ("a.jpg", b"2")])
    assert samples(stoker, tar, tmp_path) == [("a", {"jpg": "1", "txt": "t"})]
    why = left_out(stoker, tar)
    assert set(why) == {"a.jpg"} and "webdataset refuses" in why["a.jpg"]


def special_files(root):
    """A folder with one of each kind of file, a few of them with long names."""
    root.mkdir()
    (root / "a.jpg").write_bytes(b"1" * 600)
    os.link(root / "a.jpg", root / "b.jpg")
    os.symlink("a.jpg", root / "c.jpg")
    os.mkfifo(root / "d.jpg")
    with open(root / "e.jpg", "wb") as f:
        f.seek(1 << 20)
        f.write(b"end")
    (root / "f.jpg").write_bytes(b"6")
    long = "/".join(["l" * 90] * 3)
    (root / long).mkdir(parents=True)
    (root / long / "g.jpg").write_bytes(b"7" * 1000)
    os.link(root / long / "g.jpg", root / "h.jpg")
    return {"a": b"1" * 600, "b": b"1" * 600, "f": b"6", "h": b"7" * 1000,
            f"{long}/g": b"7" * 1000}


def left_out(stoker, tar):
    """{name: why} of what verify does not call damage, but was not read."""
    result = stoker("verify", tar, "--json", "-", "--quiet", rc=3).json()["result"]
    assert result["problems_total"] == 0
    return {name: note["why"] for note in result["left_out"] for name in note["names"]}


WRITERS = {"gnu": ["tar", "--format=gnu", "--sort=name", "--sparse"],
           "pax 0.0": ["tar", "--format=pax", "--sort=name", "--sparse", "--sparse-version=0.0"],
           "pax 0.1": ["tar", "--format=pax", "--sort=name", "--sparse", "--sparse-version=0.1"],
           "pax 1.0": ["tar", "--format=pax", "--sort=name", "--sparse", "--sparse-version=1.0"],
           "bsdtar": ["bsdtar", "--format=pax", "--read-sparse"]}


@pytest.mark.parametrize("writer", WRITERS)
def test_special_members(stoker, tmp_path, writer):
    """A sound archive with links, a FIFO and a sparse file would be called damaged, and what a
    hard link leads to would be missing."""
    if not shutil.which(WRITERS[writer][0]):
        pytest.skip(f"no {WRITERS[writer][0]}")
    root, tar = tmp_path / "root", tmp_path / "t.tar"
    want = special_files(root)
    subprocess.run([*WRITERS[writer], "-cf", tar, "-C", root, "."], check=True)
    for path in (tar, tmp_path / "t.tar.gz"):
        if path != tar:
            path.write_bytes(gzip.compress(tar.read_bytes()))
        got = samples(stoker, path, tmp_path)
        assert {k: as_bytes(f["jpg"]) for k, f in got} == want
        why = left_out(stoker, path)
        assert set(why) == {"c.jpg", "d.jpg", "e.jpg"}
        assert "symbolic link" in why["c.jpg"] and "FIFO" in why["d.jpg"]
        assert "sparse" in why["e.jpg"]
        stoker("inspect", path)


def test_special_members_of_tarfile(stoker, tmp_path):
    """The same for what Python writes: it says the size of a hard link again."""
    first, link, char = (tarfile.TarInfo(n) for n in ("a.jpg", "b.jpg", "c.jpg"))
    link.type, link.linkname = tarfile.LNKTYPE, "a.jpg"
    char.type, char.devmajor = tarfile.CHRTYPE, 1
    early = tarfile.TarInfo("0.jpg")
    early.type, early.linkname = tarfile.LNKTYPE, "a.jpg"
    tar = write_tar(tmp_path / "t.tar", [early, ("a.jpg", b"one"), link, char, ("z.jpg", b"z")])
    assert [(k, f["jpg"]) for k, f in samples(stoker, tar, tmp_path)] == [
        ("a", "one"), ("b", "one"), ("z", "z")]
    why = left_out(stoker, tar)
    assert set(why) == {"0.jpg", "c.jpg"} and "not before it" in why["0.jpg"]


@pytest.mark.parametrize("format", ["gnu", "pax"])
def test_volumes(stoker, tmp_path, format):
    """The second half of a file would pass for a file of its own."""
    root = tmp_path / "root"
    root.mkdir()
    for i in range(4):
        (root / f"{i}.bin").write_bytes(bytes([65 + i]) * 15_000)
    (root / "9.bin").write_bytes(b"last")
    volumes = [tmp_path / f"v{i}.tar" for i in range(6)]
    subprocess.run(["tar", f"--format={format}", "--sort=name", "-cM", "-L", "30",
                    *[f"--file={v}" for v in volumes], "-C", root, "."], check=True)
    volumes = [v for v in volumes if v.exists()]
    assert len(volumes) > 1
    for v in volumes[:-1]:  # sound, as far as it goes: the next one is beside it
        assert "tar -M" in left_out(stoker, v)[v.name]
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "v.tar").write_bytes(volumes[0].read_bytes())
    assert "truncated" in stoker("verify", alone / "v.tar", rc=1).out
    for v in volumes:
        got = samples(stoker, v, tmp_path, "--on-error", "skip", rc=(0, 3))
        for key, fields in got:
            assert as_bytes(fields["bin"]) == (root / f"{key}.bin").read_bytes(), v
    assert got[-1][0] == "9"  # behind the rest of what the volume before began
    assert any("volume" in why for why in left_out(stoker, v).values())


@pytest.mark.parametrize("format", ["gnu", "pax"])
def test_volume_that_is_labelled(stoker, tmp_path, format):
    """tar -V says in the volume itself that it is one of several."""
    (tmp_path / "1.bin").write_bytes(b"1" * 15_000)
    volumes = [tmp_path / f"{name}/v.tar" for name in "abc"]
    for v in volumes:
        v.parent.mkdir()
    subprocess.run(["tar", f"--format={format}", "-cM", "-L", "10", "-V", "backup",
                    *[f"--file={v}" for v in volumes], "-C", tmp_path, "1.bin"], check=True)
    assert "tar -M" in left_out(stoker, volumes[0])["v.tar"]


def test_truncated(stoker, tmp_path):
    """A cut-off archive would pass for a whole one."""
    members = [(f"{i}.jpg", bytes([i]) * 700) for i in range(6)]
    whole = write_tar(tmp_path / "t.tar", members).read_bytes()
    for cut in [0, 1, 511, 512, 513, 1211, 1212, 1536, 1600, 6 * 1536 - 1, 6 * 1536]:
        tar = tmp_path / "cut.tar"
        tar.write_bytes(whole[:cut])
        result = stoker("verify", tar, "--format", "tar", rc=(1, 4))
        assert "cut.tar" in result.out + result.err, cut
    for keep in (6 * 1536 + 512, 6 * 1536 + 1024):
        tar.write_bytes(whole[:keep])
        stoker("verify", tar)


def test_damaged_header(stoker, tmp_path):
    """One flipped bit in a header would cost the rest of the archive."""
    members = [(f"{i}.jpg", bytes([65 + i]) * 700) for i in range(6)]
    tar = write_tar(tmp_path / "t.tar", members)
    data = bytearray(tar.read_bytes())
    for at in (2 * 1536, 2 * 1536 + 124, 2 * 1536 + 150, 2 * 1536 + 156):
        damaged = tmp_path / "d.tar"
        data[at] ^= 4
        damaged.write_bytes(data)
        data[at] ^= 4
        result = stoker("verify", damaged, rc=1)
        assert "d.tar:3072" in result.out + result.err
        got = samples(stoker, damaged, tmp_path, "--on-error", "skip", rc=3)
        assert [k for k, _ in got] == ["0", "1", "3", "4", "5"]


def test_random_damage(stoker, tmp_path):
    """No damage may crash or hang the tool."""
    rng = random.Random(11)
    members = [(f"d{'m' * rng.randrange(90)}/{'n' * rng.randrange(90)}{i}.{e}",
                rng.randbytes(rng.randrange(900))) for i in range(8) for e in ("jpg", "x.npy")]
    for name, format in FORMATS.items():
        whole = write_tar(tmp_path / f"{name}.tar", members, format, 0.5 if name == "pax" else 1)
        whole = whole.read_bytes()
        for i in range(12 if LONG else 4):
            data = bytearray(whole)
            for _ in range(rng.choice([1, 3, 50])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            damaged = tmp_path / "damaged.tar"
            if rng.random() < 0.2:
                data = gzip.compress(data)[:-rng.randrange(1, 99)]
            damaged.write_bytes(data)
            stoker("verify", damaged, "--format", "tar", rc=(0, 1, 3, 4))


def test_appended_archive(stoker, tmp_path):
    """`cat a.tar b.tar` would lose b without a word."""
    a = write_tar(tmp_path / "a.tar", [("a.jpg", b"1")]).read_bytes()
    b = write_tar(tmp_path / "b.tar", [("b.jpg", b"2")]).read_bytes()
    (tmp_path / "ab.tar").write_bytes(a + b)
    assert "after the end marker" in left_out(stoker, tmp_path / "ab.tar")["ab.tar"]
    (tmp_path / "a.tar").write_bytes(a + b"trailing garbage" * 100)
    stoker("verify", tmp_path / "a.tar")


# ---- what we write ------------------------------------------------------------------------------

def test_read_by_tarfile(stoker, tmp_path, images):
    """Archives of ours could not be read elsewhere."""
    root, files = images
    out = tmp_path / "out"
    stoker("pack", root, out, "--format", "tar", "--shards", "2", "--label-from", "none")
    shards = sorted(out.glob("*.tar"))
    assert len(shards) == 2
    got = {}
    for shard in shards:
        assert shard.stat().st_size % 10240 == 0
        with tarfile.open(shard, "r:") as tar:
            for m in tar:
                assert m.isreg() and (m.mtime, m.uid, m.gid, m.mode) == (0, 0, 0, 0o644)
                got[m.name] = tar.extractfile(m).read()
    assert got == files


def test_read_by_gnu_tar(stoker, tmp_path):
    """GNU tar would complain about or misread archives of ours."""
    root = tmp_path / "root"
    names = [b"plain.jpg", b"n" * 101 + b".jpg", b"/".join([b"p" * 50] * 4) + b".jpg",
             b"/".join([b"q" * 200] * 3) + b".jpg", "grüße/日本.jpg".encode(),
             b"bad\xff\xfeutf8.jpg", b"\xff" * 120 + b".jpg", b"new\nline.jpg", b"-rf.jpg",
             b"z" * 251 + b".jpg", b"empty.jpg"]
    for name in names:
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(b"" if b"empty" in name else name * 3)
    out = tmp_path / "out"
    stoker("pack", root, out, "--format", "tar", "--shards", "1", "--label-from", "none")
    shard = next(out.glob("*.tar"))
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    done = subprocess.run(["tar", "-xf", shard, "-C", unpacked], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert tree(unpacked) == tree(root)
    with tarfile.open(shard, "r:", errors="surrogateescape") as tar:
        assert {os.fsencode(m.name): tar.extractfile(m).read() for m in tar} == tree(root)


def test_labels(stoker, tmp_path, images):
    """The classes of a folder would be lost in a WebDataset."""
    root, files = images
    out = tmp_path / "out"
    stoker("pack", root, out, "--format", "tar", "--shards", "1")
    got = webdataset(next(out.glob("*.tar")))
    assert [(k + ".jpg", f["jpg"]) for k, f in got] == list(files.items())
    classes = sorted({n.split("/")[0] for n in files})
    assert [int(f["cls"]) for _, f in got] == [classes.index(n.split("/")[0]) for n in files]
    assert json.loads((out / "manifest.json").read_text())["classes"] == classes


def test_files_of_one_stem_are_refused(stoker, tmp_path):
    """Two samples would become one in silence: that is how WebDataset reads them."""
    root = tmp_path / "root"
    root.mkdir()
    for name in ("a.jpg", "b.jpg", "b.json", "c.jpg"):
        (root / name).write_bytes(b"1")
    out = tmp_path / "out"
    result = stoker("pack", root, out, "--format", "tar", rc=4)
    assert "b.jpg" in result.err and "b.json" in result.err and not out.exists()
    stoker("pack", root, out, "--format", "tar", "--keys", "number")
    assert [k for k, _ in samples(stoker, out, tmp_path)] == [f"{i:08d}" for i in range(4)]


def test_same_bytes_whatever_the_jobs(stoker, tmp_path, images):
    """Two runs of the same pack could not be compared."""
    root, _ = images
    seen = []
    for jobs in ("1", "4"):
        out = tmp_path / f"out{jobs}" / "set"
        out.parent.mkdir()
        stoker("pack", root, out, "--format", "tar", "--shards", "3", "--jobs", jobs)
        seen.append([p.read_bytes() for p in sorted(out.glob("*.tar"))])
    assert seen[0] == seen[1] and len(seen[0]) == 3


@pytest.mark.parametrize("method, suffix", [("zstd", "zst"), ("lz4", "lz4")])
def test_compressed_samples(stoker, tmp_path, method, suffix):
    """Samples packed with --compress could not be read back."""
    members = [(f"{i}.{e}", d) for i in range(20)
               for e, d in (("a.txt", b"text " * 500 * i), ("bin", os.urandom(100 * i)),
                            ("cls", b"%d" % i), ("x.npy", npy(numpy.arange(i))))]
    tar = write_tar(tmp_path / "t.tar", members)
    out = tmp_path / "out"
    result = stoker("pack", tar, out, "--format", "tar", "--shards", "1", "--compress", method,
                    rc=(0, 2, 4))
    if result.rc != 0 and "install" in result.err:
        pytest.skip(result.err.strip())
    assert result.rc == 0
    with tarfile.open(next(out.glob("*.tar"))) as packed:
        assert f"1.bin.{suffix}" in packed.getnames() and "1.cls" in packed.getnames()
    stoker("verify", out)
    back = tmp_path / "back"
    stoker("pack", out, back, "--format", "tar", "--shards", "1")
    assert webdataset(next(back.glob("*.tar"))) == [
        (k, dict(sorted(f.items()))) for k, f in webdataset(tar)]


def test_refusals(stoker, tmp_path):
    """A key that is a path to elsewhere, or two samples of one name, would do damage."""
    def rows(*objects):
        path = tmp_path / f"rows{len(list(tmp_path.iterdir()))}.jsonl"
        path.write_text("".join(json.dumps(o) + "\n" for o in objects))
        return path

    out = tmp_path / "out"
    for src, word in [(rows({"key": "../x", "t": "a"}), "../x"),
                      (rows({"key": "a", "t": "1"}, {"key": "a", "t": "2"}), "'a'"),
                      (rows({"key": "__x__", "t": "1"}), "__x__")]:
        result = stoker("pack", src, out, "--format", "tar", rc=4)
        assert word in result.err and not out.exists()
        shutil.rmtree(out, ignore_errors=True)
    stoker("pack", rows({"key": "../x", "t": "a"}), out, "--format", "tar", "--keys", "number")


def test_read_from_tar_of_tar(stoker, tmp_path, images):
    """tar to tar must keep every member as it is."""
    root, files = images
    first, second = tmp_path / "a", tmp_path / "b"
    stoker("pack", root, first, "--format", "tar", "--shards", "1", "--name", "x")
    stoker("pack", first, second, "--format", "tar", "--shards", "1", "--name", "x")
    one, two = next(first.glob("*.tar")), next(second.glob("*.tar"))
    assert one.read_bytes() == two.read_bytes()


# ---- grouping, member for member ---------------------------------------------------------------

def bytes_of(fields):
    """The values of a sample, without their names."""
    return sorted(as_bytes(v) if not isinstance(v, (dict, list, int, float)) and v is not None
                  else json.dumps(v).encode() for v in fields.values())


def test_grouping_does_not_depend_on_the_order(stoker, tmp_path):
    """With 1.jpg.json ahead of 1.jpg every picture of the tar was a sample of its own."""
    orders = [["1.jpg.json", "1.jpg", "2.jpg", "2.jpg.json"],
              ["1.jpg", "1.jpg.json", "2.jpg.json", "2.jpg"],
              ["1.jpg.json", "2.jpg", "3.jpg.txt", "3.jpg.json", "4.jpg", "4.jpg.json", "4.jpg.txt"]]
    rng = random.Random(3)
    exts = ["jpg", "jpg.json", "jpg.txt", "jpg.json.txt", "json", "txt", "cls", "label", "label.txt",
            "label.json", "data", "npy.x", "x.y.z"]
    for _ in range(40):
        orders.append([f"{key}.{e}" for key in ("a", "b", "d/c", "d/a")
                       for e in rng.sample(exts, rng.randint(1, 5))])
    # What has no extension is no member of a sample, and does not part one.
    orders.append(["1.jpg", "README", "1.txt", "2.jpg"])
    for i, names in enumerate(orders):
        values = {n: b"7" if n.endswith((".json", ".cls")) else b"value of " + n.encode()
                  for n in names}
        tar = write_tar(tmp_path / f"{i}.tar", values.items())
        got = [(k, f) for k, f in samples(stoker, tar, tmp_path) if k != "README"]
        want = webdataset(tar)
        assert [(k, bytes_of(f)) for k, f in got] == [(k, bytes_of(f)) for k, f in want], names
        # Each member has one name, told by its own sample alone.
        for (_, fields), (_, members) in zip(got, want):
            assert len(fields) == len(members)
            assert ("jpg" in fields) == any(e in members for e in ("jpg", "jpg.json", "jpg.txt")
                                            if e == "jpg" or not {"jpg", "jpg.json", "jpg.txt"}
                                            .intersection(members) - {e})


def test_a_field_of_several_kinds(stoker, tmp_path):
    """Our own tars: an array here and a text there came back as samples apart, or renamed."""
    rows = [{"key": "a", "x": [1, 2], "t": "text", "u.txt": "v", "w": {"q": 1}},
            {"key": "b", "x": [3], "t": None, "u.txt": "v", "w": "text"},
            {"key": "c", "x": [4, 5], "t": "text", "u.txt": "v", "w": None},
            {"key": "d", "x": [5], "x.npy": [1.5], "x.json": "beside x", "u.json": {"$base64": "/w=="}}]
    source = tmp_path / "r.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for fmt in "tar", "folder", "squashfs":
        out = tmp_path / fmt
        stoker("pack", source, out, "--format", fmt)
        again = tmp_path / f"{fmt}.again"
        stoker("pack", out, again, "--format", "jsonl", "--shards", "1")
        got = [json.loads(line) for line in next(again.glob("*.jsonl")).read_text().splitlines()]
        assert got == rows, fmt
        stoker("verify", out)
    # What cannot be one type is refused before anything is written.
    source.write_text('{"key": "a", "x": [1, 2]}\n{"key": "b", "x": "no array"}\n')
    for fmt in "tar", "folder", "squashfs":
        err = stoker("pack", source, tmp_path / f"{fmt}.bad", "--format", fmt, rc=4).err
        assert "field 'x' is int64 in sample a and text in sample b" in err
        assert not (tmp_path / f"{fmt}.bad").exists()


def test_class_names(stoker, tmp_path):
    """webdataset's {"cls": "cat"} was called damage."""
    labels = {"a": b"cat", "b": b" 4", "c": b"+5\n", "d": b"-3", "e": b"0.25", "f": "größe".encode(),
              "g": b"-9223372036854775808", "h": b"99999999999999999999", "i": b"nan"}
    names = {k: labels[k] for k in "afhi"}
    tar = write_tar(tmp_path / "t.tar", [(f"{k}.{e}", v if e == "cls" else b"x")
                                         for k, v in labels.items() for e in ("cls", "jpg")])
    got = {k: f["label"] for k, f in samples(stoker, tar, tmp_path)}
    assert got == {"a": "cat", "b": 4, "c": 5, "d": -3, "e": 0.25, "f": "größe", "g": -2 ** 63,
                   "h": "99999999999999999999", "i": "nan"}
    stoker("verify", tar)
    out = tmp_path / "out"
    # A field has one type in a dataset that is written: names and numbers cannot be one.
    err = stoker("pack", tar, out, "--format", "tar", rc=4).err
    assert "field 'label' is text in sample a and int64 in sample b" in err
    tar = write_tar(tmp_path / "names.tar", [(f"{k}.{e}", v if e == "cls" else b"x")
                                             for k, v in names.items() for e in ("cls", "jpg")])
    stoker("pack", tar, out, "--format", "tar", "--shards", "1")
    assert dict(webdataset(next(out.glob("*.tar"))))["a"] == {"cls": b"cat", "jpg": b"x"}


def test_json_that_is_none(stoker, tmp_path):
    """verify called it whole, and training died of it without a word where."""
    good = {"1": b'{"a": [1, null, "\\u00e9"]}', "2": b'\xef\xbb\xbf{"a": NaN}', "3": b" -1.5e3\n",
            "4": b"[" * 900 + b"]" * 900}
    bad = {"5": b"", "6": b'{"a":', "7": b"[1,]", "8": b"01", "9": b'"\xff"', "A": b"{} {}",
           "B": b"\xef\xbb\xbf", "C": b'{"a" 1}', "D": b'"\\x"', "E": b"\x00"}
    for name, members in ("good", good), ("bad", bad):
        tar = write_tar(tmp_path / f"{name}.tar", [(f"{k}.json", v) for k, v in members.items()])
        result = stoker("verify", tar, rc=0 if name == "good" else 1)
        assert result.out.count("is not JSON") == (0 if name == "good" else len(bad))
    result = stoker("inspect", tmp_path / "bad.tar", "--sample", "1", rc=4)
    assert "bad.tar" in result.err and "'json' is not JSON" in result.err
    # Nor are files written that no reader could open again.
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.json").write_bytes(b"{")
    assert "a.json" in stoker("pack", folder, tmp_path / "out", "--format", "tar", rc=4).err
    assert not (tmp_path / "out").exists()


def test_hidden_members(stoker, tmp_path):
    """macOS puts ._1.jpg beside 1.jpg: no samples, and said so. A key like that is refused."""
    tar = write_tar(tmp_path / "t.tar", [("._1.jpg", b"AppleDouble"), ("1.jpg", b"x"),
                                         ("d/.DS_Store", b"y"), ("1.txt", b"t")])
    assert [k for k, _ in samples(stoker, tar, tmp_path)] == ["1"]
    [note] = stoker("inspect", tar, "--json", "-", "--quiet").json()["result"]["left_out"]
    assert (note["kind"], note["count"]) == ("member", 2)
    stoker("verify", tar, rc=3)
    source = tmp_path / "r.jsonl"
    source.write_text('{"key": ".hidden", "x": 1}\n')
    assert "skip" in stoker("pack", source, tmp_path / "out", "--format", "tar", rc=4).err
