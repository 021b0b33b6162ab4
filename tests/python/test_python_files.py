"""stoker.files: files of a packed folder, to the byte; files that are not in it, where they are."""

import builtins
import os
import pathlib
import pickle
import random

import pytest

from conftest import run_stoker
from pythonlib import stoker, write_records

import stoker.files

N = 30


def content(i):
    return random.Random(i).randbytes(100 + i) if i % 3 else f"zeile {i}\r\nä\n".encode()


@pytest.fixture(scope="module", params=["tfrecord", "squashfs", "zstd", "shuffled"])
def packed(request, tmp_path_factory):
    """(the folder, {folder: packed}); the folder has class folders, as most do."""
    root = tmp_path_factory.mktemp("files")
    for i in range(N):
        path = root / f"d/class {i % 4}/{i}.{'bin' if i % 2 else 'npy'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(i))
    options = {"tfrecord": (), "squashfs": ("--format", "squashfs"), "zstd": ("--compress", "zstd"),
               "shuffled": ("--shuffle", 1)}[request.param]
    run_stoker("pack", root / "d", root / "p", *options, "--quiet", "--no-write-index")
    return root / "d", {root / "d": root / "p"}


def paths(folder):
    return sorted(folder.glob("*/*"), key=lambda p: int(p.stem))


@pytest.fixture
def no_files(monkeypatch):
    """Files of the folder are not opened any more."""
    real = builtins.open

    def refuse(path, *args, **named):
        assert not str(path).endswith((".bin", ".npy")), f"{path} was opened"
        return real(path, *args, **named)
    return lambda: monkeypatch.setattr(builtins, "open", refuse)


def test_the_same_bytes(packed, no_files):
    """A decoder gets the file that it got before, by any name that the program has for it."""
    folder, places = packed
    assert stoker.files.member(paths(folder)[0], places).read() == content(0)
    no_files()
    for i, path in enumerate(paths(folder)):
        with stoker.files.member(path, places) as f:
            assert f.read() == content(i) and f.name == str(path)
        with stoker.files.open(f"{path.parent}/../{path.parent.name}/{path.name}", "rb", packed=places) as f:
            assert f.read(10) == content(i)[:10] and f.seek(0) == 0 and f.read() == content(i)


def test_what_reads_by_a_descriptor(packed, no_files):
    """numpy.fromfile and mmap need one: the same bytes, from where the program is in the file, and back there."""
    import mmap
    numpy = pytest.importorskip("numpy", reason="python3-numpy is not installed")
    folder, places = packed
    assert stoker.files.member(paths(folder)[0], places).read() == content(0)
    no_files()
    with stoker.files.open(paths(folder)[4], "rb", packed=places) as f:
        assert f.read(5) == content(4)[:5]
        assert numpy.fromfile(f, "u1", 40).tobytes() == content(4)[5:45] and f.read(3) == content(4)[45:48]
        assert bytes(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)) == content(4)
        number = f.fileno()
    with pytest.raises(OSError):
        os.fstat(number)  # closed with the file


def test_paths(packed, no_files, tmp_path):
    """pathlib's ways to read; other files, and what only has a method of that name, stay as they are."""
    folder, places = packed
    (tmp_path / "other").write_text("ä")
    text = paths(folder)[3].read_text()
    assert stoker.files.member(paths(folder)[0], places).read() == content(0)
    no_files()
    for i in (0, 3, 7):
        path = stoker.files.path(paths(folder)[i], places)
        with path.open("rb") as f:
            assert path.read_bytes() == f.read() == content(i)
    assert stoker.files.path(paths(folder)[3], places).read_text(encoding="utf-8") == text
    assert stoker.files.path(tmp_path / "other", places).read_text() == "ä"
    assert stoker.files.path("text", places) == "text"
    assert stoker.files.path(pathlib.Path("/a/x"), moved={"/a": tmp_path}) == tmp_path / "x"


def test_text(packed):
    """open() as text: the same encoding, errors and line ends."""
    folder, places = packed
    for i, path in enumerate(paths(folder)):
        for options in ({}, {"newline": ""}, {"encoding": "latin-1"}, {"errors": "ignore"}):
            options = {"errors": "replace", **options}
            with open(path, **options) as theirs, stoker.files.open(path, **options, packed=places) as ours:
                assert theirs.read() == ours.read()
        with open(path, "r", errors="replace") as theirs, stoker.files.open(path, "rt", errors="replace", packed=places) as ours:
            assert list(theirs) == list(ours)


def test_other_files_stay(packed, tmp_path):
    """A log, a table beside the data, a file that came later, a node without the packed data."""
    folder, places = packed
    for path in (tmp_path / "log.txt", folder.parent / "later.txt"):
        path.write_text("x")
        assert stoker.files.member(path, places) == path
        with stoker.files.open(path, packed=places) as f:
            assert f.read() == "x"
    assert stoker.files.member(folder / "class 0/none.bin", places) == folder / "class 0/none.bin"
    with stoker.files.open(tmp_path / "new", "w", packed=places) as f:
        f.write("written")
    with pytest.raises(FileNotFoundError):
        stoker.files.open(folder / "none", packed=places)
    some = paths(folder)[0]
    with pytest.warns(UserWarning, match="is not there"):
        assert stoker.files.member(some, {folder: tmp_path / "gone"}) == some


def test_other_data(tmp_path):
    """A folder that was filled again after it was packed is read itself, with a warning."""
    (tmp_path / "d").mkdir()
    for i in range(3):
        (tmp_path / f"d/{i}.bin").write_bytes(content(i))
    run_stoker("pack", tmp_path / "d", tmp_path / "p", "--quiet", "--no-write-index")
    (tmp_path / "d/0.bin").write_bytes(b"new")
    with pytest.warns(UserWarning, match="has other data"):
        with stoker.files.open(tmp_path / "d/1.bin", "rb", packed={tmp_path / "d": tmp_path / "p"}) as f:
            assert isinstance(f, builtins.open(__file__, "rb").__class__)


@pytest.mark.parametrize("how", ["renamed", "in place", "time set back"])
def test_a_file_that_changed(tmp_path, how):
    """Labels that were corrected after packing would be trained with as they were."""
    folder, place = tmp_path / "d", tmp_path / "p"
    folder.mkdir()
    for i in range(5):
        (folder / f"{i}.bin").write_bytes(content(i))
    run_stoker("pack", folder, place, "--quiet", "--no-write-index")
    made = place / "manifest.json"
    os.utime(made, (made.stat().st_atime, made.stat().st_mtime - 100))  # long ago; the others are as they were
    other = bytes(reversed(content(3)))
    before = (folder / "3.bin").stat()
    if how == "renamed":
        (tmp_path / "new").write_bytes(other)
        os.replace(tmp_path / "new", folder / "3.bin")
    else:
        (folder / "3.bin").write_bytes(other)
    if how == "time set back":
        os.utime(folder / "3.bin", ns=(before.st_atime_ns, before.st_mtime_ns - 10**12))
    with pytest.warns(UserWarning, match=r"3.bin: changed after .* was packed"):
        read = [stoker.files.path(folder / f"{i}.bin", packed={folder: place}).read_bytes() for i in range(5)]
    assert read == [other if i == 3 else content(i) for i in range(5)]
    assert isinstance(stoker.files.member(folder / "2.bin", {folder: place}), stoker.files.Member)


def test_a_source_in_another_process(packed):
    """Spawned workers do not list the folder again."""
    folder, places = packed
    stoker.files.member(paths(folder)[0], places)
    from stoker import _rows
    source = _rows._known["files", str(folder), str(places[folder])]
    sent = pickle.dumps(source)
    _rows._known.clear()
    again = pickle.loads(sent)
    assert again is not source and again.read(paths(folder)[5]) == content(5) and pickle.loads(sent) is again
    assert again.numbers_of([str(p) for p in paths(folder)]) == again.numbers_of([(p, 3) for p in paths(folder)])
    assert again.numbers_of([p.relative_to(folder) for p in paths(folder)]) is not None
    assert again.numbers_of([pathlib.Path("x")]) is None and again.numbers_of([1]) is None and again.numbers_of([]) is None


def example(data):
    """A tf.train.Example with one feature, x: messages within messages, each with its length."""
    for tag in (10, 10, 18, None, 10, 10):
        data = b"\x0a\x01x" + data if tag is None else bytes([tag]) + varint(len(data)) + data
    return data


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def test_shards_for_tensorflow(tmp_path):
    """TFRecordDataset gets the shards if they hold the very records of its files; else its files."""
    (tmp_path / "d").mkdir()
    names = [str(tmp_path / f"d/{i}.tfrecord") for i in range(3)]
    want = [example(f"{i} {k}".encode() * 40) for i in range(3) for k in range(5)]
    for i, name in enumerate(names):
        write_records(name, want[5 * i:5 * i + 5])
    run_stoker("pack", tmp_path / "d", tmp_path / "p", "--quiet", "--shard-size", "1K", "--no-write-index")
    places = {tmp_path / "d": tmp_path / "p"}
    shards = stoker.files.records(names[::-1], places)
    assert len(shards) > 1 and all(str(tmp_path / "p") in name for name in shards)
    assert b"".join(pathlib.Path(s).read_bytes() for s in shards) == b"".join(pathlib.Path(n).read_bytes() for n in names)
    assert stoker.files.records("/elsewhere/x", places) == "/elsewhere/x" and stoker.files.records(3, places) == 3
    run_stoker("pack", tmp_path / "d", tmp_path / "z", "--compress", "zstd", "--quiet", "--no-write-index")
    run_stoker("pack", tmp_path / "d", tmp_path / "s", "--shuffle", 1, "--quiet", "--no-write-index")
    for given, packed, why in ((names[:2], "p", "other files, too"), (names[0], "p", "other files"), (names, "z", "compression"), (names, "s", "order")):
        with pytest.warns(UserWarning, match=why):
            assert stoker.files.records(given, {tmp_path / "d": tmp_path / packed}) == given
    then = os.stat(names[1])
    write_records(names[1], [b"corrected"])
    os.utime(names[1], ns=(then.st_atime_ns, then.st_mtime_ns - 10**12))  # as a copy that keeps times
    with pytest.warns(UserWarning, match="1.tfrecord is newer"):
        assert stoker.files.records(names, places) == names
