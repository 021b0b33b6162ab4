"""A folder of files: what is a sample, what is left out, and that files come back as they were."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile

import numpy
import pytest

ODD_NAMES = [b"a.jpg", b"sub/b.jpg", b"sub/deeper/still/c.tar.gz", b"no_extension", b"dot.",
             b"two..dots", b"new\nline.txt", b"quo'te\"s.jpg", b"-rf", b"-n.jpg", b"sp ace.jpg",
             b"back\\slash", b"bad\xff\xfe.jpg", b"\xe9t\xe9/latin1.txt", "grüße/日本.jpg".encode(),
             b"n" * 255, b"m" * 251 + b".jpg", b"empty.jpg", b"percent%2F.jpg", b"%s%n.jpg",
             b"$(id).jpg", b"*.jpg", b"z.json", b"UPPER.JPG", b"tilde~", b"aa/b/data"]


def make_tree(root, names):
    """{name: bytes} as written below root."""
    files = {}
    for i, name in enumerate(names):
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files[name] = b"" if name.startswith(b"empty") else name * (i + 1)
        if name.endswith(b".json"):
            files[name] = b"[%d]" % i
        with open(path, "wb") as f:
            f.write(files[name])
    return files


def tree(root):
    found = {}
    for where, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(where, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, os.fsencode(root))] = f.read()
    return found


def packed_folder(out):
    """The folder of files in a packed dataset."""
    [folder] = [p for p in out.iterdir() if p.is_dir()]
    return folder


def keys_of(stoker, path, tmp_path, *options, rc=0):
    out = tmp_path / "keys"
    shutil.rmtree(out, ignore_errors=True)
    stoker("pack", path, out, "--format", "jsonl", "--shards", "1", *options, rc=rc)
    shard = next(out.glob("*.jsonl"))
    return [json.loads(line)["key"] for line in shard.read_text().splitlines()]


def test_through_tar_and_back(stoker, tmp_path):
    """A user would not get back the files that were packed."""
    root = tmp_path / "root"
    files = make_tree(root, ODD_NAMES)
    stoker("pack", root, tmp_path / "tar", "--format", "tar", "--shards", "3",
           "--label-from", "none")
    stoker("verify", tmp_path / "tar")
    stoker("pack", tmp_path / "tar", tmp_path / "back", "--format", "folder")
    assert tree(packed_folder(tmp_path / "back")) == files
    stoker("verify", tmp_path / "back")


@pytest.mark.parametrize("format", ["tfrecord", "tar"])
def test_classes_survive(stoker, tmp_path, images, format):
    """A user would not get back a class-per-directory tree, or find a .cls beside every image."""
    root, files = images
    stoker("pack", root, tmp_path / "mid", "--format", format)
    stoker("pack", tmp_path / "mid", tmp_path / "back", "--format", "folder")
    back = {os.fsdecode(n): d for n, d in tree(packed_folder(tmp_path / "back")).items()}
    images_back = {n: d for n, d in back.items() if not n.endswith(".cls")}
    assert images_back == files


def test_folder_to_folder(stoker, tmp_path, images):
    """A copy of a folder must be that folder: the directories say the classes."""
    root, files = images
    stoker("pack", root, tmp_path / "out", "--format", "folder")
    assert tree(packed_folder(tmp_path / "out")) == {os.fsencode(n): d for n, d in files.items()}


def test_what_is_a_sample(stoker, tmp_path):
    """A FIFO would hang the tool, a link to a folder would make it walk in circles."""
    root = tmp_path / "root"
    make_tree(root, [b"d/a.jpg", b"d/b.jpg"])
    os.symlink("a.jpg", root / "d" / "link.jpg")
    os.symlink("../d", root / "d" / "loop")
    os.symlink("nowhere", root / "d" / "broken.jpg")
    os.mkfifo(root / "d" / "fifo.jpg")
    (root / "d" / ".hidden.jpg").write_bytes(b"hidden")
    assert keys_of(stoker, root, tmp_path, "--label-from", "none") == [
        "d/a.jpg", "d/b.jpg", "d/link.jpg"]


def test_unreadable_file(stoker):
    """A file that cannot be read must be named, and left out only when told so."""
    if os.geteuid() == 0:
        def drop():
            os.setgid(65534)
            os.setuid(65534)
    else:
        drop = None
    with tempfile.TemporaryDirectory(prefix="stoker-unreadable-") as scratch:
        os.chmod(scratch, 0o777)
        root = os.path.join(scratch, "root")
        make_tree(root, [b"a.jpg", b"b.jpg", b"c.jpg"])
        os.chmod(os.path.join(root, "b.jpg"), 0)
        env = {"XDG_CACHE_HOME": os.path.join(scratch, "cache"), "HOME": scratch,
               "XDG_CONFIG_HOME": os.path.join(scratch, "config")}
        out = os.path.join(scratch, "out")
        result = stoker("pack", root, out, "--format", "tar", preexec_fn=drop, env=env, rc=4)
        assert "b.jpg" in result.err and "ermission" in result.err and not os.path.exists(out)
        result = stoker("pack", root, out, "--format", "tar", "--on-error", "skip",
                        "--label-from", "none", preexec_fn=drop, env=env, rc=3)
        assert "b.jpg" in result.out + result.err
        [shard] = [n for n in os.listdir(out) if n.endswith(".tar")]
        with tarfile.open(os.path.join(out, shard)) as tar:
            assert tar.getnames() == ["a.jpg", "c.jpg"]


def test_fields_become_files(stoker, tmp_path):
    """Labels, arrays, text and JSON would be lost in a folder."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"key": "d/one", "label": 3, "x": [[1.5, 2], [3, 4]], "note": "hi",
                                "more": {"a": 1}, "image/raw": {"$base64": "AAEC"}}) + "\n")
    stoker("pack", rows, tmp_path / "out", "--format", "folder")
    folder = packed_folder(tmp_path / "out")
    assert sorted(os.fsdecode(n) for n in tree(folder)) == [
        "d/one.cls", "d/one.image%2Fraw", "d/one.more.json", "d/one.note.txt", "d/one.x.npy"]
    assert (folder / "d/one.cls").read_text() == "3"
    assert (folder / "d/one.note.txt").read_text() == "hi"
    assert json.loads((folder / "d/one.more.json").read_text()) == {"a": 1}
    assert (folder / "d/one.image%2Fraw").read_bytes() == b"\0\1\2"
    assert numpy.array_equal(numpy.load(folder / "d/one.x.npy"), [[1.5, 2], [3, 4]])


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_fields_come_back(stoker, tmp_path, compress):
    """A sample of several fields would come back from a folder as several samples."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"key": f"d/{i}", "label": i, "x": [i, 2.5], "note": "n" * i,
                                        "more": {"a": i}}) + "\n" for i in range(12)))
    out = tmp_path / "out"
    result = stoker("pack", rows, out, "--format", "folder", "--compress", compress, rc=(0, 2, 4))
    if result.rc != 0 and "install" in result.err:
        pytest.skip(result.err.strip())
    stoker("verify", out)
    stoker("pack", out, tmp_path / "back", "--format", "jsonl", "--shards", "1")
    back = next((tmp_path / "back").glob("*.jsonl")).read_text().splitlines()
    want = {r["key"]: r for r in map(json.loads, rows.read_text().splitlines())}
    assert {r["key"]: r for r in map(json.loads, back)} == want


def test_conflicts(stoker, tmp_path):
    """One sample would overwrite another, or write outside the folder."""
    def refuse(*keys):
        rows = tmp_path / "rows.jsonl"
        rows.write_text("".join(json.dumps({"key": k, "data": "x"}) + "\n" for k in keys))
        result = stoker("pack", rows, tmp_path / "out", "--format", "folder", rc=4)
        assert not (tmp_path / "out").exists()
        return result.err

    assert "a.jpg" in refuse("a.jpg", "b.jpg", "a.jpg")
    assert "a.txt" in refuse("a.txt", "a.txt/b.txt")
    assert "a.txt" in refuse("a.txt/b.txt", "a.txt")
    assert "../x" in refuse("../x")
    assert "/etc" in refuse("/etc/x")
    assert "a/./b" in refuse("a/./b")


@pytest.mark.parametrize("method, suffix, tool", [("zstd", ".zst", "zstd"), ("lz4", ".lz4", "lz4")])
def test_compressed_files(stoker, tmp_path, images, method, suffix, tool):
    """Files packed with --compress could not be read back, by us or by others."""
    root, files = images
    out = tmp_path / "out"
    result = stoker("pack", root, out, "--format", "folder", "--compress", method, rc=(0, 2, 4))
    if result.rc != 0 and "install" in result.err:
        pytest.skip(result.err.strip())
    assert result.rc == 0
    folder = packed_folder(out)
    assert sorted(os.fsdecode(n) for n in tree(folder)) == sorted(n + suffix for n in files)
    if shutil.which(tool):
        name = next(iter(files))
        got = subprocess.run([tool, "-dc", folder / (name + suffix)], capture_output=True,
                             check=True)
        assert got.stdout == files[name]
    stoker("verify", out)
    stoker("pack", out, tmp_path / "back", "--format", "folder")
    assert tree(packed_folder(tmp_path / "back")) == {os.fsencode(n): d for n, d in files.items()}
