"""Round trips: what goes into a format and out again is what it was, or pack says why it will not.

A sample's keys, fields and values must not depend on the formats a dataset has passed through. What
a format cannot hold is refused before anything is written.
"""

import base64
import json
import math

import pytest

import formatlib

ALIKE = {"tsv", "json", "squashfs"}  # read and written by the code of csv, jsonl and folder
BY_VALUE = {"hdf5", "lmdb", "squashfs", "recordio"}  # their files hold more than the samples


@pytest.fixture
def formats():
    return [name for name in formatlib.NAMES if formatlib.FORMATS[name]["write"]]


def blob(data):
    return {"$base64": base64.b64encode(data).decode()}


def write_lines(path, samples):
    path.write_text("".join(json.dumps(s) + "\n" for s in samples))
    return path


def pack(stoker, src, dst, fmt):
    """None, or why it was refused: before writing, with a reason."""
    done = stoker("pack", src, dst, "--format", fmt, rc=None)
    if done.rc == 0:
        return None
    assert done.rc in (3, 4) and done.err.strip() and not dst.exists(), (done.rc, done.err)
    assert not dst.with_name(dst.name + ".partial").exists() or \
        not list(dst.with_name(dst.name + ".partial").glob("*-of-*")), "refused while writing"
    return done.err


def view(stoker, dataset, tmp_path):
    """The samples as Python objects."""
    out = tmp_path / (dataset.name + "-view")
    stoker("pack", dataset, out, "--format", "jsonl", "--force")
    return [json.loads(line) for file in sorted(out.glob("*.jsonl"))
            for line in file.read_bytes().splitlines()]


def shards(dataset):
    """What was written, without index and manifest."""
    return {p.relative_to(dataset).as_posix().replace(dataset.name + "-0", "X-0"): p.read_bytes()
            for p in sorted(dataset.rglob("*"))
            if p.is_file() and p.name not in ("index.stkidx", "manifest.json")}


def keys(n):
    return [f"{i:08d}" for i in range(n)]


TABLE = [{"key": k, "flag": i % 2 == 0, "label": i + 0.25, "n": i - 1, "t": t, "x": x}
         for i, (k, t, x) in enumerate(zip(keys(4), ["1", "2.5", "d\u00e4\n\"q\",;", "null"],
                                           [1.0, 0.1, -3.5e300, 7.0]))]
IMAGES = [{"key": str(i), "data": blob(bytes([255, i, 0, 7])), "label": i} for i in range(4)]
VECTORS = [{"key": k, "data": [i + 0.5, 2.0, 1e-9]} for i, k in enumerate(keys(4))]
PAIRS = {"table": (TABLE, None), "images": (IMAGES, "recordio"), "vectors": (VECTORS, "npy")}


@pytest.mark.parametrize("name", PAIRS)
def test_every_pair(stoker, formats, tmp_path, name):
    """Through A, B gets the very bytes it gets without A, whatever A and B are."""
    samples, only = PAIRS[name]
    src, direct = write_lines(tmp_path / "src.jsonl", samples), {}
    for fmt in formats:
        dst = tmp_path / fmt
        if pack(stoker, src, dst, fmt) is None:
            direct[fmt] = shards(dst)
    assert only is None or only in direct
    assert len(direct) >= (10 if name == "table" else 8), sorted(direct)
    for a in direct:
        assert a not in BY_VALUE or same(view(stoker, tmp_path / a, tmp_path), samples), a
        for b in direct:
            if a in ALIKE or only not in (None, a, b) or (only and b in ALIKE):
                continue
            dst = tmp_path / f"{a}-{b}"
            assert pack(stoker, tmp_path / a, dst, b) is None, (a, b)
            if only and {a, b} & BY_VALUE:
                assert same(view(stoker, dst, tmp_path), samples), (a, b)
            elif b not in BY_VALUE:
                assert shards(dst) == direct[b], (a, b)


def same(got, expected):
    """Equal in keys, fields and values; 1 and 1.0 are equal, true and 1 too."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return got.keys() == expected.keys() and all(same(got[k], v) for k, v in expected.items())
    if isinstance(expected, list) and isinstance(got, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, float) and isinstance(got, float) and math.isnan(expected):
        return math.isnan(got)
    return type(got) in (int, float, bool) and got == expected \
        if isinstance(expected, (int, float)) else got == expected and type(got) is type(expected)


KINDS = {
    "what all take": [
        {"key": "d\u00e4\u4e2d", "a": [1, 2], "mixed": 1, "t": "x", "null": None, "j": {"x": [1, None, "z"]},
         "p": "", "x_0": 1, "x_1": 2, "2019": 3, "b": True},
        {"key": "e/f", "a": [0.5, 2], "mixed": 2.5, "t": None, "null": None, "j": [[1], [2, 3]],
         "p": "\u00e9\u4e2d\U0001f600", "x_0": 3, "x_1": 4, "2019": 5, "b": False},
        {"key": "g", "a": [7, 8], "mixed": -7, "t": "y", "null": None, "j": "plain", "p": " 007 ",
         "x_0": 1, "x_1": 2, "2019": 3, "b": True}],
    "null numbers": [{"key": "a", "n": None, "x": 1.5, "z": True},
                     {"key": "b", "n": 3, "x": None, "z": None}],
    "arrays and none": [{"key": "a", "v": [1, 2]}, {"key": "b", "v": []}, {"key": "c", "v": [3]}],
    "boxes": [{"key": "a", "v": [[1, 2], [3, 4]]}, {"key": "b", "v": []}, {"key": "c", "v": [[5, 6]]}],
    "missing": [{"key": "a", "n": 1, "t": "x"}, {"key": "b", "n": 2}],
    "bytes": [{"key": "a", "d": blob(b"\xff\0")}, {"key": "b", "d": "plain"},
              {"key": "c", "d": blob(b"")}],
    "keys that are no text": [{"key": blob(b"k\xfe"), "n": 1}, {"key": blob(b"k\xff"), "n": 2}],
}
TABLES = {"csv", "npz", "hdf5"}
MAY_REFUSE = {  # what a format has no place for; everything else it must take
    "null numbers": {"folder", "tar", "npz", "hdf5"},
    "arrays and none": TABLES,
    "boxes": TABLES,
    "missing": {"npz", "hdf5"},
    "bytes": {"csv"},
    "keys that are no text": {"csv"},
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind(stoker, formats, tmp_path, name):
    """Each kind of field comes back from each format, or the format refuses it."""
    samples = KINDS[name]
    src = write_lines(tmp_path / "src.jsonl", samples)
    for fmt in formats:
        if fmt in ALIKE or fmt in ("recordio", "npy"):  # one field only, and no names
            continue
        dst = tmp_path / fmt
        why = pack(stoker, src, dst, fmt)
        if why:
            assert fmt in MAY_REFUSE.get(name, set()), (fmt, why)
            continue
        got = view(stoker, dst, tmp_path)
        expected = samples
        if name == "missing" and fmt == "csv":  # all rows have all columns
            expected = [samples[0], {**samples[1], "t": None}]
        if name == "bytes":
            expected = [{**s, "d": "" if s["d"] == blob(b"") else s["d"]} for s in samples]
        assert same(got, expected), (fmt, got)
