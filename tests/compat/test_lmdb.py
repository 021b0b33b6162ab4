"""LMDB against py-lmdb, in both directions, with the payloads people keep in it."""

import base64
import json
import random
import struct

import pytest

lmdb = pytest.importorskip("lmdb")


def varint(v):
    v &= (1 << 64) - 1
    out = b""
    while v >= 0x80:
        out += bytes([v & 0x7F | 0x80])
        v >>= 7
    return out + bytes([v])


def datum(data, label, shape=None):
    """Caffe's Datum (caffe.proto): pixels with a shape, or an encoded image."""
    out = b""
    if shape:
        out = b"".join(bytes([n << 3]) + varint(d) for n, d in zip((1, 2, 3), shape))
    out += b"\x22" + varint(len(data)) + data + b"\x28" + varint(label)
    return out if shape else out + b"\x38\x01"


def parse_message(blob):
    """{field number: [values]} of a protobuf message."""
    fields, at = {}, 0

    def number():
        nonlocal at
        v = shift = 0
        while True:
            byte = blob[at]
            at += 1
            v |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return v

    while at < len(blob):
        tag = number()
        if tag & 7 == 0:
            value = number()
        else:
            size = number() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
            value = blob[at:at + size]
            at += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def write_env(path, items, db=None, **kwargs):
    env = lmdb.open(str(path), map_size=1 << 28, max_dbs=8, **kwargs)
    handle = env.open_db(db) if isinstance(db, bytes) else (env.open_db(**db) if db else None)
    with env.begin(write=True, db=handle) as txn:
        for key, value in items:
            txn.put(key, value)
    env.close()


def read_env(path):
    env = lmdb.open(str(path), subdir=False, readonly=True, lock=False)
    with env.begin() as txn:
        found = list(txn.cursor())
    env.close()
    return found


def read_back(stoker, src, tmp_path, *args):
    dst = tmp_path / f"read-back-{len(list(tmp_path.glob('read-back-*')))}"
    stoker("pack", src, dst, "--format", "jsonl", *args)
    samples = []
    for shard in sorted(dst.glob("*.jsonl")):
        for line in shard.read_text().splitlines():
            sample = json.loads(line)
            data = sample.get("data")
            if isinstance(data, dict):
                sample["data"] = base64.b64decode(data["$base64"])
            elif isinstance(data, str):
                sample["data"] = data.encode()
            samples.append(sample)
    return samples


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    assert len(found) == 1, found
    return found[0]


def values(n=2000, seed=1):
    """Values in the tree's leaves and on pages of their own, empty ones included."""
    rng = random.Random(seed)
    sizes = [0, 1, 10, 100, 2000, 4080, 4096, 9000, 100000]
    return [rng.randbytes(rng.choice(sizes[:-1] if i % 50 else sizes)) for i in range(n)]


# ---- theirs, read by us ------------------------------------------------------------------------


def test_reads_raw_values(stoker, tmp_path):
    """LSUN-like sets (image bytes under any key) would be read wrong."""
    items = [(b"%06d-x" % i, v) for i, v in enumerate(values())]
    write_env(tmp_path / "a.mdb", items, subdir=False)
    got = read_back(stoker, tmp_path / "a.mdb", tmp_path)
    assert [(s["key"].encode(), s["data"]) for s in got] == items
    assert stoker("verify", tmp_path / "a.mdb").rc == 0


def test_reads_the_usual_folder(stoker, tmp_path):
    """NAME_lmdb/ with data.mdb and lock.mdb, as Caffe and py-lmdb make it, could not be opened."""
    items = [(b"%08d_a.jpg" % i, datum(b"\xff\xd8\xff%d" % i, i % 7)) for i in range(100)]
    write_env(tmp_path / "train_lmdb", items)
    assert (tmp_path / "train_lmdb" / "lock.mdb").exists()
    got = read_back(stoker, tmp_path / "train_lmdb", tmp_path)
    assert [s["key"] for s in got] == [k.decode() for k, _ in items]
    assert [s["data"] for s in got] == [b"\xff\xd8\xff%d" % i for i in range(100)]
    assert [s["label"] for s in got] == [i % 7 for i in range(100)]


def test_reads_caffe_pixels(stoker, tmp_path):
    """Unencoded Datums would lose their shape."""
    rng = random.Random(2)
    pixels = [rng.randbytes(3 * 4 * 5) for _ in range(20)]
    write_env(tmp_path / "p.mdb", [(b"%08d" % i, datum(p, -i, (3, 4, 5)))
                                   for i, p in enumerate(pixels)], subdir=False)
    got = read_back(stoker, tmp_path / "p.mdb", tmp_path)
    for i, s in enumerate(got):
        flat = [v for plane in s["data"] for row in plane for v in row]
        assert bytes(flat) == pixels[i] and len(s["data"]) == 3 and len(s["data"][0]) == 4
        assert s["label"] == -i


def test_huge_map_is_no_problem(stoker, tmp_path):
    """People set map_size to a terabyte; listing must not ask for that much address space."""
    env = lmdb.open(str(tmp_path / "t.mdb"), subdir=False, map_size=1 << 40)
    with env.begin(write=True) as txn:
        txn.put(b"k", b"v")
    env.close()
    assert [s["data"] for s in read_back(stoker, tmp_path / "t.mdb", tmp_path)] == [b"v"]


def test_metadata_is_not_a_sample(stoker, tmp_path):
    """__len__ and __keys__ of ImageFolder2LMDB would turn up among the images."""
    write_env(tmp_path / "m.mdb", [(b"0", b"a"), (b"1", b"b"), (b"__keys__", b"x"),
                                   (b"__len__", b"2")], subdir=False)
    assert [s["key"] for s in read_back(stoker, tmp_path / "m.mdb", tmp_path)] == ["0", "1"]


def test_named_databases(stoker, tmp_path):
    """The only named database is the dataset; of two, none may be picked in silence."""
    write_env(tmp_path / "one.mdb", [(b"k%03d" % i, b"%d" % i) for i in range(300)], db=b"images",
              subdir=False)
    got = read_back(stoker, tmp_path / "one.mdb", tmp_path)
    assert [s["data"] for s in got] == [b"%d" % i for i in range(300)]
    for name in (b"images", b"labels"):
        write_env(tmp_path / "two.mdb", [(b"k", b"v")], db=name, subdir=False)
    r = stoker("inspect", tmp_path / "two.mdb", rc=3)
    assert "images, labels" in r.out + r.err


def test_duplicate_and_integer_keys(stoker, tmp_path):
    """DUPSORT and INTEGERKEY databases would lose samples or show binary keys."""
    write_env(tmp_path / "dup.mdb", [(b"k%d" % (i % 10), b"%05d" % i) for i in range(500)],
              db=dict(key=b"d", dupsort=True), subdir=False)
    got = read_back(stoker, tmp_path / "dup.mdb", tmp_path)
    assert sorted(s["data"] for s in got) == [b"%05d" % i for i in range(500)]
    write_env(tmp_path / "fix.mdb", [(b"k%d" % (i % 3), b"%08d" % i) for i in range(5000)],
              db=dict(key=b"d", dupsort=True, dupfixed=True), subdir=False)
    got = read_back(stoker, tmp_path / "fix.mdb", tmp_path)
    assert sorted(s["data"] for s in got) == [b"%08d" % i for i in range(5000)]
    write_env(tmp_path / "int.mdb", [(struct.pack("<Q", i), b"%d" % i) for i in range(300)],
              db=dict(key=b"d", integerkey=True), subdir=False)
    got = read_back(stoker, tmp_path / "int.mdb", tmp_path)
    assert [s["key"] for s in got] == [str(i) for i in range(300)]


@pytest.mark.parametrize("at,magic,what", [
    (24, b"\xde\xc0\xef\xbe\x02", "newer data version"), (16, b"\xde\xc0\xef\xbe\x07", "newer data version"),
    (12, b"\xde\xc0\xef\xbe\x01", "32-bit"), (16, b"\xbe\xef\xc0\xde\0\0\0\x01", "big-endian")])
def test_of_another_lmdb(stoker, tmp_path, at, magic, what):
    """lmdb-js and LMDB 1.0 write another page header: sound, but not for this liblmdb."""
    src = tmp_path / "data.mdb"
    src.write_bytes((bytes(at) + magic).ljust(8192, b"\0"))
    r = stoker("inspect", src, "--json", "-", "--quiet", rc=3)
    problem = r.json()["result"]["problems"][0]
    assert problem["code"] == "unsupported" and what in problem["what"] and "mdb_dump" in problem["what"]



def test_empty_database(stoker, tmp_path):
    """An LMDB without entries is a dataset of none, not an error."""
    lmdb.open(str(tmp_path / "e.mdb"), subdir=False).close()
    r = stoker("inspect", tmp_path / "e.mdb", "--json", "-")
    assert '"samples": 0' in r.out or '"samples":0' in r.out


# ---- ours, read by theirs ----------------------------------------------------------------------


def test_ours_raw(stoker, images, tmp_path):
    """py-lmdb would find other keys or bytes than were packed."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "lmdb", "--payload", "raw")
    got = read_env(only(tmp_path / "out", "*.mdb"))
    assert got == [(k.encode(), files[k]) for k in sorted(files)]


def test_ours_datum(stoker, images, tmp_path):
    """Caffe could not read what was packed for it."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "lmdb", "--payload", "datum")
    got = read_env(only(tmp_path / "out", "*.mdb"))
    assert got == [(k.encode(), datum(files[k], int(k[5:7]))) for k in sorted(files)]


def test_ours_example(stoker, images, tmp_path):
    """The default payload would not be a tf.train.Example."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "lmdb")
    for key, value in read_env(only(tmp_path / "out", "*.mdb")):
        features = parse_message(parse_message(value)[1][0])[1]
        entry = {m[1][0]: parse_message(m[2][0]) for m in map(parse_message, features)}
        assert parse_message(entry[b"data"][1][0])[1] == [files[key.decode()]]
        assert parse_message(entry[b"label"][3][0])[1] == [bytes([int(key[5:7])])]


def test_many_values_of_all_sizes(stoker, tmp_path):
    """Batches, map growth, pages of their own: samples would get lost on the way."""
    folder = tmp_path / "src"
    folder.mkdir()
    want = {}
    for i, v in enumerate(values(9000, seed=3)):
        want[b"%06d" % i] = v
        (folder / f"{i:06d}").write_bytes(v)
    stoker("pack", folder, tmp_path / "out", "--format", "lmdb", "--payload", "raw")
    got = read_env(only(tmp_path / "out", "*.mdb"))
    assert len(got) == len(want) and dict(got) == want
    back = read_back(stoker, tmp_path / "out", tmp_path)
    assert {s["key"].encode(): s["data"] for s in back} == want


@pytest.mark.parametrize("extra", [[], ["--shuffle", "7"], ["--compress", "zstd"]])
def test_same_bytes_whatever_the_jobs(stoker, images, tmp_path, extra):
    """Two runs of the same pack could not be compared (uninitialised pages, times)."""
    folder, files = images
    for jobs in (1, 4):
        stoker("pack", folder, tmp_path / f"j{jobs}", "--format", "lmdb", "--jobs", jobs, "--name",
               "x", *extra, env={"ASAN_OPTIONS": f"malloc_fill_byte={jobs}:"
                                 "max_malloc_fill_size=100000000:exitcode=99"})
    assert (only(tmp_path / "j1", "*.mdb").read_bytes()
            == only(tmp_path / "j4", "*.mdb").read_bytes())
    back = read_back(stoker, tmp_path / "j1", tmp_path)
    assert {s["key"]: s["data"] for s in back} == files
    assert [s["key"] for s in back] == sorted(files)
    assert not list((tmp_path / "j1").glob("*.sorted"))


def test_shards(stoker, images, tmp_path):
    """--shards would lose what is not in the first file."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "lmdb", "--payload", "raw", "--shards", 3)
    got = [kv for shard in sorted((tmp_path / "out").glob("*.mdb")) for kv in read_env(shard)]
    assert got == [(k.encode(), files[k]) for k in sorted(files)]


def test_key_twice_is_named(stoker, tmp_path):
    """One of two samples with the same key would vanish in silence."""
    src = tmp_path / "a.jsonl"
    src.write_text("".join(f'{{"key": "{k}", "data": "x{i}"}}\n' for i, k in enumerate("abca")))
    r = stoker("pack", src, tmp_path / "out", "--format", "lmdb", rc=4)
    assert "'a'" in r.err and "--keys number" in r.err and not (tmp_path / "out").exists()
    stoker("pack", src, tmp_path / "out", "--format", "lmdb", "--keys", "number")
    assert len(read_env(only(tmp_path / "out", "*.mdb"))) == 4


def test_long_key_is_refused(stoker, tmp_path):
    """liblmdb's own message (MDB_BAD_VALSIZE) says nothing of the cause."""
    src = tmp_path / "a.jsonl"
    src.write_text('{"key": "%s", "data": "x"}\n' % ("k" * 512))
    r = stoker("pack", src, tmp_path / "out", "--format", "lmdb", rc=4)
    assert "511" in r.err and "--keys number" in r.err
    src.write_text('{"key": "%s", "data": "x"}\n' % ("k" * 511))
    stoker("pack", src, tmp_path / "ok", "--format", "lmdb")


# ---- what the values are taken for -------------------------------------------------------------

def payload_of(stoker, path, rc=0):
    result = stoker("inspect", path, "--json", "-", "--quiet", rc=rc).json()["result"]
    return next(t for t in result["taken"] if t["what"] == "payload")


def test_payload_is_voted_on(stoker, tmp_path):
    """One odd entry at the beginning would make the whole dataset bytes, without a word."""
    rows = [(b"%04d" % i, datum(bytes([i]) * 300, i, (3, 10, 10))) for i in range(20)]
    write_env(tmp_path / "odd.mdb", [(b"0", b"made by a script"), *rows], subdir=False)
    taken = payload_of(stoker, tmp_path / "odd.mdb", rc=1)  # the odd one is none
    assert taken["as"] == "datum" and "15 of the first 16" in taken["because"]
    write_env(tmp_path / "first.mdb", [(b"0", rows[0][1]), *((k, b"text") for k, _ in rows)],
              subdir=False)
    assert payload_of(stoker, tmp_path / "first.mdb")["as"] == "raw"
    rows[0] = (rows[0][0], b"")
    write_env(tmp_path / "empty.mdb", rows, subdir=False)
    assert payload_of(stoker, tmp_path / "empty.mdb")["as"] == "datum"
    notes = [(b"__keys__", b"notes"), (b"__len__", b"20")]
    write_env(tmp_path / "notes.mdb", notes + rows, subdir=False)
    assert payload_of(stoker, tmp_path / "notes.mdb")["as"] == "datum"


def test_other_version(stoker, tmp_path):
    """A file of a later LMDB would be called damaged."""
    write_env(tmp_path / "e.mdb", [(b"a", b"1")], subdir=False)
    data = bytearray((tmp_path / "e.mdb").read_bytes())
    for page in (0, 4096):
        struct.pack_into("<I", data, page + 20, 2)
    (tmp_path / "e.mdb").write_bytes(data)
    result = stoker("verify", tmp_path / "e.mdb", "--json", "-", "--quiet", rc=3).json()["result"]
    assert [p["code"] for p in result["problems"]] == ["unsupported"]
    assert "newer data version" in result["problems"][0]["what"]
