"""What programs write: jq, sqlite3, busybox tar, Perl's Archive::Tar and JSON::PP, squashfs-tools-ng,
mdb_load."""

import json
import os
import subprocess

import numpy as np
import pytest

from writerlib import (TEXTS, compare, compare_files, feed, files, program, rows_of, samples, stoker,
                       table)


def lay(folder, want):
    """Writes the files of {path: bytes}."""
    for name, data in want.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


# ---- jq ----

ROWS = [{"a": i, "s": TEXTS[i % len(TEXTS)], "f": i / 8 + 0.0625, "v": [i, i + 1], "o": {"x": None}, "b": i % 2 == 0}
        for i in range(40)]


@pytest.mark.parametrize("flags", [["-c"], ["-ac"], ["-Sc"]])
def test_jq_lines(tmp_path, flags):
    text = feed([program("jq"), *flags, ".[]"], ROWS)
    (tmp_path / "t.jsonl").write_bytes(text)
    compare(tmp_path / "t.jsonl", ROWS)


@pytest.mark.parametrize("flags", [[], ["-c"], ["--tab"], ["--indent", "7"]])
def test_jq_array(tmp_path, flags):
    (tmp_path / "t.json").write_bytes(feed([program("jq"), *flags, "."], ROWS))
    compare(tmp_path / "t.json", ROWS)


def test_jq_values_over_lines(tmp_path):
    """jq without -c: one value after another, each over several lines."""
    (tmp_path / "t.json").write_bytes(feed([program("jq"), ".[]"], ROWS))
    try:
        compare(tmp_path / "t.json", ROWS)
    except stoker.Error as e:  # refusing is right too, but by saying what it is
        assert "jq -c" in str(e) or "JSON Lines" in str(e), e


def test_jq_csv(tmp_path):
    """@csv quotes every text and no number."""
    rows = table()
    body = [[r["n"], r["t"], r["n"] / 4 + 0.125] for r in rows_of(rows)]
    text = feed([program("jq"), "-r", '["n","t","q"], .[] | @csv'], body)
    (tmp_path / "t.csv").write_bytes(text)
    compare(tmp_path / "t.csv", [dict(zip("ntq", b)) for b in body])


# ---- sqlite3 ----

def sqlite(*commands):
    return feed([program("sqlite3"), ":memory:", *commands])


def test_sqlite_csv(tmp_path):
    """CRLF behind rows, LF inside of cells; null is an empty cell, an empty text is quoted."""
    values = ",".join("({}, {}, '{}', {})".format(i, repr(i / 8), TEXTS[i % len(TEXTS)].replace("'", "''"),
                                                  "null" if i % 5 == 2 else i) for i in range(40))
    text = sqlite("create table t(id, x, s, gap)", f"insert into t values {values}",
                  ".mode csv", ".headers on", "select * from t")
    (tmp_path / "t.csv").write_bytes(text)
    compare(tmp_path / "t.csv", [{"id": i, "x": i / 8, "s": TEXTS[i % len(TEXTS)],
                                  "gap": float("nan") if i % 5 == 2 else float(i)} for i in range(40)])


def test_sqlite_json(tmp_path):
    text = sqlite("create table t(id, x, s, b)", "insert into t values (1, 1e300, 'a''b\u00e9', null), "
                  "(9007199254740993, -0.5, '\"q\"', 2)", ".mode json", "select * from t")
    (tmp_path / "t.json").write_bytes(text)
    compare(tmp_path / "t.json", json.loads(text))


def test_sqlite_tabs(tmp_path):
    text = sqlite("create table t(id, s)", "insert into t values (1, 'a b'), (2, 'c''d')", ".mode tabs",
                  ".headers on", "select * from t")
    (tmp_path / "t.tsv").write_bytes(text)
    compare(tmp_path / "t.tsv", [{"id": 1, "s": "a b"}, {"id": 2, "s": "c'd"}])


# ---- tar ----

def test_busybox_tar(tmp_path):
    folder = lay(tmp_path / "a", files())
    feed([program("busybox"), "tar", "cf", tmp_path / "t.tar", *sorted(os.listdir(folder))], cwd=folder)
    compare_files(tmp_path / "t.tar", files())


def test_perl_archive_tar(tmp_path):
    folder = lay(tmp_path / "a", files())
    script = ("use Archive::Tar; $Archive::Tar::DO_NOT_USE_PREFIX = $ARGV[1]; my $t = Archive::Tar->new;"
              "local $/; my @n = split /\\0/, <STDIN>; $t->add_files(@n); $t->write($ARGV[0]) or die $t->error")
    perl = program("perl")
    if subprocess.run([perl, "-MArchive::Tar", "-e1"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("perl without Archive::Tar")
    names = b"\0".join(n.encode() for n in files())
    for prefix in "01":
        feed([perl, "-e", script, tmp_path / f"{prefix}.tar", prefix], names, cwd=folder)
        compare_files(tmp_path / f"{prefix}.tar", files())


@pytest.mark.parametrize("form", ["ustar", "tar", "pax", "odc", "newc"])
def test_cpio_and_pax(tmp_path, form):
    """pax(1) and cpio(1) write tar too; cpio's own formats are none of ours and are refused."""
    folder = lay(tmp_path / "a", files(4))
    names = "\n".join(files(4)).encode()
    feed([program("cpio"), "-o", "--quiet", "-H", form, "-O", tmp_path / "t.tar"] if form != "pax" else
         [program("pax"), "-w", "-x", "ustar", "-f", tmp_path / "t.tar"], names, cwd=folder)
    if form in ("odc", "newc"):
        with pytest.raises(stoker.Error):
            samples(tmp_path / "t.tar")
    else:
        compare_files(tmp_path / "t.tar", files(4))


def test_perl_json(tmp_path):
    """JSON::PP: pretty, canonical, ASCII."""
    perl = program("perl")
    if subprocess.run([perl, "-MJSON::PP", "-e1"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("perl without JSON::PP")
    script = "use JSON::PP; local $/; print JSON::PP->new->ascii->pretty->canonical->encode(decode_json(<STDIN>))"
    (tmp_path / "t.json").write_bytes(feed([perl, "-e", script], ROWS))
    compare(tmp_path / "t.json", ROWS)


# ---- squashfs-tools-ng ----

def tree():
    rng = np.random.default_rng(7)
    want = {f"c{i % 3}/f{i}.bin": rng.bytes(i * 997) for i in range(20)}
    want["c0/zeros.bin"] = bytes(400000)
    want["c1/big.bin"] = rng.bytes(300001)
    want["c2/empty.bin"] = b""
    return want


def tree_with_labels(path, want):
    compare_files(path, want)
    with stoker.Dataset(path) as ds:
        assert ds.classes == ("c0", "c1", "c2")
        assert all(s["label"] == int(s["key"][1]) for s in ds)


@pytest.mark.parametrize("compressor", ["gzip", "zstd", "lz4", "xz"])
def test_gensquashfs(tmp_path, compressor):
    folder = lay(tmp_path / "a", tree())
    feed([program("gensquashfs"), "-q", "-c", compressor, "-b", "64K", "-D", folder, tmp_path / "t.sqsh"])
    tree_with_labels(tmp_path / "t.sqsh", tree())


def test_gensquashfs_listing(tmp_path):
    """From a description: names with spaces, links, devices."""
    folder = lay(tmp_path / "a", {"x": b"payload", "y": b""})
    (tmp_path / "list").write_text('dir /d 0755 0 0\nfile "/d/a b.bin" 0644 0 0 x\nfile /d/y.bin 0644 0 0 y\n'
                                   'slink /d/link 0777 0 0 y.bin\nnod /d/null 0666 0 0 c 1 3\n')
    feed([program("gensquashfs"), "-q", "-F", tmp_path / "list", "-D", folder, tmp_path / "t.sqsh"])
    compare_files(tmp_path / "t.sqsh", {"d/a b.bin": b"payload", "d/y.bin": b""})


def test_tar2sqfs(tmp_path):
    folder = lay(tmp_path / "a", tree())
    tar = subprocess.run(["tar", "-cf", "-", "-C", folder, "."], stdout=subprocess.PIPE, check=True).stdout
    feed([program("tar2sqfs"), "-q", "-f", tmp_path / "t.sqsh"], tar)
    tree_with_labels(tmp_path / "t.sqsh", tree())


# ---- LMDB ----

def test_mdb_load(tmp_path):
    """Keys and values in hexadecimal, of any bytes, large ones on pages of their own."""
    rng = np.random.default_rng(2)
    want = {b"k%03d" % i: rng.bytes(i * 61 % 9000) for i in range(200)}
    want[b"\xff\x00odd"] = b"x"
    dump = b"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=104857600\nmaxreaders=126\ndb_pagesize=4096\nHEADER=END\n"
    dump += b"".join(b" %s\n %s\n" % (k.hex().encode(), v.hex().encode()) for k, v in want.items()) + b"DATA=END\n"
    (tmp_path / "db").mkdir()
    feed([program("mdb_load"), tmp_path / "db"], dump)
    got = samples(tmp_path / "db")
    assert {os.fsencode(s["key"]): bytes(s["data"]) for s in got} == want
