"""What other languages' libraries write: Go (archive/tar, archive/zip, encoding/csv, encoding/json,
npyio, go-diskfs), Rust (tar, csv, serde_json, npyz, backhand, heed, tfrecord), Node (tar-stream,
csv-stringify, papaparse, JSON, lmdb) and Java (commons-compress, commons-csv, jhdf)."""

import base64
import json
import math

import numpy as np
import pytest

from writerlib import (WRITERS, TEXTS, compare, compare_files, compare_hdf5, compare_npz, feed, files,
                       program, rows_of, samples, stoker, table)


def members(want):
    return [{"Name": n, "Data": base64.b64encode(d).decode()} for n, d in want.items()]


def lines(rows):
    return "".join(",".join(base64.b64encode(c if isinstance(c, bytes) else c.encode()).decode()
                            for c in row) + "\n" for row in rows).encode()


def write(language, kind, flavour, out, values):
    """Has a language's writer make the file `out`."""
    argv = [program(f"writers-{language}"), kind, flavour, out]
    if language == "java":
        values = lines([[m["Name"], base64.b64decode(m["Data"])] for m in values] if kind == "tar" else values)
    feed(argv, values)
    return out


# ---- tar ----

@pytest.mark.parametrize("language,flavour", [
    ("go", "auto"), ("go", "pax"), ("go", "gnu"), ("rust", "ustar"), ("rust", "gnu"), ("rust", "pax"),
    ("node", "plain"), ("node", "pax"), ("java", "gnu"), ("java", "posix")])
def test_tar(tmp_path, language, flavour):
    want = files() if (language, flavour) != ("rust", "ustar") else files(4)
    compare_files(write(language, "tar", flavour, tmp_path / "t.tar", members(want)), want)


@pytest.mark.parametrize("language", ["go", "node"])
def test_tar_gz(tmp_path, language):
    compare_files(write(language, "tar", "auto", tmp_path / "t.tar.gz", members(files())), files())


@pytest.mark.parametrize("language", ["go", "rust", "node", "java"])
def test_webdataset_samples(tmp_path, language):
    """Members that share a name are one sample."""
    want = {}
    for i in range(30):
        want |= {f"d/{i:03d}.jpg": bytes([i]) * i, f"d/{i:03d}.cls": str(i % 3).encode(),
                 f"d/{i:03d}.json": json.dumps({"n": i}).encode()}
    path = write(language, "tar", "gnu", tmp_path / "t.tar", members(want))
    compare(path, [{"key": f"d/{i:03d}", "jpg": bytes([i]) * i, "label": i % 3, "json": {"n": i}}
                   for i in range(30)])


# ---- CSV ----

def cells():
    rows = table()
    return [list(rows), *([str(r["id"]), repr(r["x"]), r["t"], str(r["n"])] for r in rows_of(rows))]


@pytest.mark.parametrize("language,flavour", [
    *(("go", f) for f in ("plain", "crlf", "semicolon")),
    *(("rust", f) for f in ("plain", "crlf", "semicolon", "always", "nonnumeric")),
    *(("node", f) for f in ("plain", "crlf", "semicolon", "always", "bom", "papaparse")),
    *(("java", f) for f in ("excel", "rfc4180", "all", "minimal"))])
def test_csv(tmp_path, language, flavour):
    want = rows_of(table())
    if (language, flavour) == ("go", "crlf"):  # line ends inside of cells become CRLF, too
        for r in want:
            r["t"] = r["t"].replace("\r", "").replace("\n", "\r\n")
    compare(write(language, "csv", flavour, tmp_path / "t.csv", cells()), want)


# ---- JSON ----

def json_rows():
    return [{"key": f"k{i}", "n": i, "f": i / 8 + 0.0625, "t": TEXTS[i % len(TEXTS)], "v": [i, 1, 2], "b": i % 2 == 0,
             "o": {"a": [None, {"z": ""}]}, "e": [], "odd \"key\" \u00e9": [0.5, -1e-7], "z": None}
            for i in range(40)]


@pytest.mark.parametrize("language", ["go", "rust", "node"])
@pytest.mark.parametrize("flavour", ["lines", "indent", "plain"])
def test_json(tmp_path, language, flavour):
    name = "t.jsonl" if flavour == "lines" else "t.json"
    path = write(language, "json", flavour, tmp_path / name, json_rows())
    text = path.read_text()
    again = [json.loads(line) for line in text.split("\n") if line] if flavour == "lines" else json.loads(text)
    assert again == json_rows()
    compare(path, json_rows())


# ---- arrays ----

@pytest.mark.parametrize("language", ["go", "rust"])
@pytest.mark.parametrize("flavour", ["stored", "deflated"])
def test_npz(tmp_path, language, flavour):
    path = write(language, "npz", flavour, tmp_path / "t.npz", [])
    compare_npz(path)
    compare(path, [{"f": k / 3, "i": -k, "u": k % 256, "b": k % 3 == 0} for k in range(1000)])


@pytest.mark.parametrize("flavour", ["plain", "text"])
def test_jhdf(tmp_path, flavour):
    """HDF5 without libhdf5: a writer in pure Java."""
    path = write("java", "hdf5", flavour, tmp_path / "t.h5", [])
    read = compare_hdf5(path, 50)
    assert read >= {"d", "i", "l", "g/f", "g/b", "g/s", "ok"}
    assert flavour == "plain" or "t" in read
    for k, s in enumerate(samples(path)):
        assert s["d"].tolist() == [k / 3, -k, 1e300] and s["i"] == -k and s["l"] == 2 ** 53 + k
        assert flavour == "plain" or s["t"] == "text " + "x" * (k % 5) + ("\u00e9" if k % 2 == 0 else "")


# ---- squashfs, LMDB, TFRecord ----

def tree():
    rng = np.random.default_rng(7)
    want = {f"c{i % 3}/f{i}.bin": rng.bytes(i * 9970) for i in range(1, 20)}
    want["c0/zeros.bin"] = bytes(400000)
    want["c2/text.bin"] = b"line\n" * 60000
    return want


@pytest.mark.parametrize("language,flavour", [("go", "plain"), ("go", "gzip"), ("rust", "gzip"), ("rust", "zstd")])
def test_squashfs(tmp_path, language, flavour):
    path = write(language, "squashfs", flavour, tmp_path / "t.sqsh", members(tree()))
    compare_files(path, tree())
    assert stoker.Dataset(path).classes == ("c0", "c1", "c2")


@pytest.mark.parametrize("flavour", ["plain", "named"])
def test_heed(tmp_path, flavour):
    want = {f"k{i:04d}": bytes([i % 256]) * (i * 37 % 9000) for i in range(300)}
    path = write("rust", "lmdb", flavour, tmp_path / "db", members(want))
    compare(path, [{"key": k, "data": v} for k, v in sorted(want.items())], payload="raw")


def test_lmdb_js(tmp_path):
    """lmdb-js has a newer data format of its own: read, or refused by that name."""
    want = {f"k{i:04d}": bytes([i % 256]) * (i * 37 % 9000) for i in range(300)}
    path = write("node", "lmdb", "plain", tmp_path / "db", members(want))
    try:
        compare(path, [{"key": k, "data": v} for k, v in sorted(want.items())], payload="raw")
    except stoker.Error as e:
        assert isinstance(e, stoker.UnsupportedError) and "version" in str(e), repr(e)


def test_rust_tfrecord(tmp_path):
    want = {f"k{i}": bytes([i]) * i * 100 for i in range(50)}
    got = samples(write("rust", "tfrecord", "example", tmp_path / "t.tfrecord", members(want)))
    assert len(got) == 50
    for i, (s, (k, v)) in enumerate(zip(got, want.items())):
        assert s["key"] == k and bytes(s["data"]) == v and s["label"] == i
        assert s["w"].tolist() == [0.5, i] and s["w"].dtype == np.float32


def test_rust_tfrecord_raw(tmp_path):
    want = {f"k{i}": b"\xff" + bytes([i]) * i * 100 for i in range(50)}
    got = samples(write("rust", "tfrecord", "raw", tmp_path / "t.tfrecord", members(want)))
    assert [bytes(s["data"]) for s in got] == list(want.values())
