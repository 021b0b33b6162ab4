"""TFRecord and tf.train.Example: files of others read right, our files read by others.

Others are: a reader and writer of its own (tests/tfrecordlib.py), Google's protobuf, and TensorFlow
where STOKER_TF_PYTHON names a Python that has it.
"""

import base64
import functools
import gzip
import json
import os
import pathlib
import random
import subprocess
import zlib

import numpy as np
import pytest

import tfrecordlib as tfr

pytest.importorskip("google.protobuf", reason="python3-protobuf is not installed")

EXAMPLE, SEQUENCE = tfr.messages()
UNPACKED, _ = tfr.messages(packed=False)


def shards(folder):
    return sorted(pathlib.Path(folder).glob("*.tfrecord"))


def read_all(folder):
    return [r for s in shards(folder) for r in tfr.records(s.read_bytes())]


def as_json(stoker, tmp_path, path, *options):
    """The samples of a dataset as stoker sees them, through JSON Lines."""
    out = tmp_path / "as-json"
    stoker("pack", path, out, "--format", "jsonl", "--shards", "1", "--force", *options)
    text = "".join(p.read_text("utf-8") for p in sorted(out.glob("*.jsonl")))
    return [json.loads(line) for line in text.splitlines()]


def from_base64(value):
    return base64.b64decode(value["$base64"]) if isinstance(value, dict) else value.encode()


# ---- theirs, read by us ------------------------------------------------------------------------

VALUES = {
    "data": b"\xff\xd8\xff\xe0 not text \xff\xd9",
    "key": b"train/cat 1.jpg",
    "label": 7,
    "text": "h\u00e9".encode(),
    "words": [b"one", b"", b"three"],
    "floats": [1.5, -0.25, 3.0],
    "ints": [1, -1, 1 << 62, -(1 << 63)],
    "one": [5],
}


@pytest.mark.parametrize("cls", [EXAMPLE, UNPACKED], ids=["packed", "unpacked"])
def test_example_written_by_protobuf(stoker, tmp_path, cls):
    """A dataset made with TensorFlow would come in with wrong or missing fields."""
    path = tmp_path / "theirs.tfrecord"
    path.write_bytes(b"".join(tfr.frame(tfr.make_example(cls, VALUES)) for _ in range(3)))
    got = as_json(stoker, tmp_path, path)
    assert len(got) == 3
    for sample in got:
        assert sample["key"] == "train/cat 1.jpg"
        assert sample["label"] == 7
        assert from_base64(sample["data"]) == VALUES["data"]
        assert sample["text"] == "h\u00e9"
        assert sample["words"] == ["one", "", "three"]
        assert sample["floats"] == VALUES["floats"]
        assert sample["ints"] == VALUES["ints"]
        assert sample["one"] == [5]


def test_last_of_two_features_wins(stoker, tmp_path):
    """A map with a name twice would be read otherwise than protobuf reads it."""
    first, second = (tfr.make_example(EXAMPLE, {"x": v, "y": 1}) for v in ([1, 2], [3.5]))
    (tmp_path / "twice.tfrecord").write_bytes(tfr.frame(first + second))
    theirs = tfr.example_values(EXAMPLE.FromString(first + second))
    assert theirs["x"] == ("float", [3.5])
    got = as_json(stoker, tmp_path, tmp_path / "twice.tfrecord", "--from-payload", "example")
    assert got[0]["x"] == [3.5]


def test_sequence_example_written_by_protobuf(stoker, tmp_path):
    """A video or sentence dataset would lose its steps."""
    m = SEQUENCE()
    tfr.fill(m.context.feature["key"], b"clip")
    tfr.fill(m.context.feature["label"], 3)
    for row in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
        tfr.fill(m.feature_lists.feature_list["even"].feature.add(), row)
    for row in ([1], [2, 3]):
        tfr.fill(m.feature_lists.feature_list["ragged"].feature.add(), row)
    for word in (b"a", b"bc"):
        tfr.fill(m.feature_lists.feature_list["words"].feature.add(), word)
    path = tmp_path / "clips.tfrecord"
    path.write_bytes(tfr.frame(m.SerializeToString()))
    (got,) = as_json(stoker, tmp_path, path)
    assert got == {"key": "clip", "label": 3, "even": [[1, 2], [3, 4], [5, 6]],
                   "ragged": [[1], [2, 3]], "words": ["a", "bc"]}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_large_first_record(stoker, tmp_path, packed):
    """Volumes of many MiB (one Example a record) would be taken for raw bytes, labels and all."""
    volume = bytes(5 << 20)
    blob = b"".join(tfr.frame(tfr.make_example(EXAMPLE, {"label": i, "x": volume})) for i in (1, 2))
    path = tmp_path / "volumes.tfrecord"
    path.write_bytes(gzip.compress(blob, 1) if packed else blob)
    out = tmp_path / "out"
    stoker("pack", path, out, "--keys", "number", "--shards", "1")
    values = [tfr.example_values(EXAMPLE.FromString(r)) for r in read_all(out)]
    assert [v["label"] for v in values] == [("int64", [1]), ("int64", [2])]
    assert all(v["x"] == ("bytes", [volume]) for v in values)


def test_raw_records(stoker, tmp_path):
    """Records that are no Examples would be refused or mangled."""
    payloads = [b"hello", b"", b"\x0a\x03abc", os.urandom(5000)]
    path = tmp_path / "raw.tfrecord"
    path.write_bytes(b"".join(map(tfr.frame, payloads)))
    out = tmp_path / "out"
    stoker("pack", path, out, "--format", "tfrecord", "--payload", "raw", "--shards", "1")
    assert read_all(out) == payloads


@functools.lru_cache
def stream_blob(seed, count):
    """Records of half-compressible bytes, 9 MiB: several access points when compressed."""
    rng = random.Random(seed)
    noise = rng.randbytes(4096)
    payloads = [i.to_bytes(4, "little") + rng.randbytes(64) + noise[:rng.randrange(4000)] * 15
                for i in range(count)]
    return payloads, b"".join(map(tfr.frame, payloads))


@pytest.mark.parametrize("how", ["gzip", "zlib", "gzip-members"])
def test_compressed_file(stoker, tmp_path, how):
    """TFRecordWriter(options="GZIP") files would not open, or not be readable from the middle."""
    payloads, blob = stream_blob(3, 300)
    if how == "zlib":
        blob = zlib.compress(blob)
    elif how == "gzip":
        blob = gzip.compress(blob)
    else:  # what `cat a.gz b.gz` gives
        cut = len(blob) // 3
        blob = gzip.compress(blob[:cut]) + gzip.compress(blob[cut:])
    path = tmp_path / "c.tfrecord"
    path.write_bytes(blob)
    for i in (299, 0, 150, 151):
        out = tmp_path / f"sample{i}"
        stoker("inspect", path, "--sample", i, "--payload", "raw", "-o", out)
        files = [out] if out.is_file() else [p for p in out.rglob("*") if p.is_file()]
        assert any(p.read_bytes() == payloads[i] for p in files)
    packed = tmp_path / "packed"
    stoker("pack", path, packed, "--from-payload", "raw", "--payload", "raw", "--shards", "2")
    assert read_all(packed) == payloads
    assert stoker("verify", path, "--payload", "raw").rc == 0
    bad = bytearray(b"".join(map(tfr.frame, payloads[:3])))
    bad[len(payloads[0]) + 40] ^= 1
    path.write_bytes(gzip.compress(bad))
    found = stoker("verify", path, "--payload", "raw", rc=1).out
    assert f"{path}:{len(payloads[0]) + 16}:" in found and "of the decompressed data" in found


# ---- ours, read by them ------------------------------------------------------------------------

def test_packed_images(stoker, tmp_path, images):
    """TensorFlow could not read what we pack, or would see wrong labels."""
    folder, files = images
    out = tmp_path / "packed"
    stoker("pack", folder, out, "--shards", "4")
    assert len(shards(out)) == 4
    classes = sorted({n.split("/")[0] for n in files})
    seen = {}
    for record in read_all(out):
        m = EXAMPLE.FromString(record)
        values = tfr.example_values(m)
        key = values["key"][1][0].decode()
        seen[key] = values["data"][1][0]
        assert values["label"] == ("int64", [classes.index(key.split("/")[0])])
        assert set(values) == {"key", "data", "label"}
        assert m.SerializeToString(deterministic=True) == record, "not the canonical bytes"
    assert seen == files


DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?"]
LISTS = {"u1": "bytes", "i1": "bytes", "u2": "bytes", "i2": "bytes", "f2": "bytes", "f8": "bytes",
         "f4": "float", "i8": "int64", "u8": "int64", "u4": "int64", "i4": "int64", "?": "int64"}


def random_array(dtype, shape):
    rng = np.random.default_rng(5)
    if dtype == "?":
        return rng.integers(0, 2, shape).astype("?")
    raw = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype="u1")
    array = raw.view(dtype).reshape(shape)
    return np.where(np.isfinite(array), array, 0).astype(dtype) if dtype[0] == "f" else array


def decode(values, name):
    """A field of ours as docs/formats.md says another reader gets it back."""
    kind, data = values[name]
    shape = values.get(f"{name}/shape", (None, [-1]))[1]
    dtype = values.get(f"{name}/dtype", (None, [None]))[1][0]
    if kind == "bytes":
        return np.frombuffer(data[0], np.dtype(dtype.decode())).reshape(shape)
    dtype = dtype.decode() if dtype else {"float": "f4", "int64": "i8"}[kind]
    return np.array(data, "f4" if kind == "float" else "i8").astype(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays(stoker, tmp_path, dtype):
    """An array of this type would change its values, type or shape on the way through TFRecord."""
    arrays = {"matrix": random_array(dtype, (3, 2, 5)), "vector": random_array(dtype, (3, 4)),
              "single": random_array(dtype, (3, 1)), "scalar": random_array(dtype, (3,))}
    np.savez(tmp_path / "in.npz", **arrays)
    out, back = tmp_path / "packed", tmp_path / "back"
    stoker("pack", tmp_path / "in.npz", out, "--format", "tfrecord", "--shards", "1")
    for i, record in enumerate(read_all(out)):
        values = tfr.example_values(EXAMPLE.FromString(record))
        assert values["vector"][0] == LISTS[dtype]
        for name, array in arrays.items():
            got = decode(values, name)
            assert got.dtype == array.dtype and got.shape == array.shape[1:]
            np.testing.assert_array_equal(got, array[i])
    stoker("pack", out, back, "--format", "npz", "--shards", "1")
    with np.load(next(back.glob("*.npz"))) as z:
        for name, array in arrays.items():
            assert z[name].dtype == array.dtype
            np.testing.assert_array_equal(z[name], array)


def make_sequences(path, count=5):
    """Sequence i has i + 1 ragged numbers, words, and a grid."""
    blob = b""
    for i in range(count):
        m = SEQUENCE()
        tfr.fill(m.context.feature["key"], b"k%d" % i)
        tfr.fill(m.context.feature["label"], i)
        lists = m.feature_lists.feature_list
        for row in ([1] * (i + 1), [2, 3]):
            tfr.fill(lists["ragged"].feature.add(), row)
        for word in (b"a", b"b" * i, [b"c", b"d"]):
            tfr.fill(lists["words"].feature.add(), word)
        for row in ([1.0, 2.0], [3.0, 4.0]):
            tfr.fill(lists["grid"].feature.add(), row)
        blob += tfr.frame(m.SerializeToString())
    path.write_bytes(blob)


def test_sequence_written_by_us(stoker, tmp_path):
    """Sequences would change when they are written again."""
    make_sequences(tmp_path / "in.tfrecord")
    out = tmp_path / "packed"
    # New keys, so that records cannot be copied as they are.
    stoker("pack", tmp_path / "in.tfrecord", out, "--payload", "sequence", "--keys", "number",
           "--shards", "1")
    for i, record in enumerate(read_all(out)):
        m = SEQUENCE.FromString(record)
        assert tfr.feature_values(m.context.feature["label"]) == ("int64", [i])
        assert tfr.feature_values(m.context.feature["key"]) != ("bytes", [b"k%d" % i])
        lists = {n: [tfr.feature_values(f) for f in fl.feature]
                 for n, fl in m.feature_lists.feature_list.items()}
        assert lists == {
            "ragged": [("int64", [1] * (i + 1)), ("int64", [2, 3])],
            "words": [("bytes", [b"a"]), ("bytes", [b"b" * i]), ("bytes", [b"c", b"d"])],
            "grid": [("float", [1, 2]), ("float", [3, 4])]}
        assert m.SerializeToString(deterministic=True) == record


def test_ragged_list_is_refused_as_example(stoker, tmp_path):
    """Ragged arrays would silently be flattened into one list."""
    make_sequences(tmp_path / "in.tfrecord")
    r = stoker("pack", tmp_path / "in.tfrecord", tmp_path / "out", "--payload", "example", rc=(2, 4))
    assert ("'ragged'" in r.err or "'words'" in r.err) and "--payload sequence" in r.err
    assert not (tmp_path / "out").exists()


# ---- TensorFlow itself -------------------------------------------------------------------------

TF_WRITE = """
import sys, tensorflow as tf
folder = sys.argv[1]
for kind in ("", "GZIP", "ZLIB"):
    with tf.io.TFRecordWriter(f"{folder}/tf{kind}.tfrecord", options=kind) as w:
        for i in range(50):
            f = lambda **kw: tf.train.Feature(**kw)
            w.write(tf.train.Example(features=tf.train.Features(feature={
                "key": f(bytes_list=tf.train.BytesList(value=[b"k%d" % i])),
                "data": f(bytes_list=tf.train.BytesList(value=[bytes([255, i]) * (i * 100)])),
                "label": f(int64_list=tf.train.Int64List(value=[-i])),
                "x": f(float_list=tf.train.FloatList(value=[i / 4, 1.0])),
            })).SerializeToString())
"""

TF_READ = """
import sys, glob, json, tensorflow as tf
seen = {}
spec = {"key": tf.io.FixedLenFeature([], tf.string), "data": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64)}
for r in tf.data.TFRecordDataset(sorted(glob.glob(sys.argv[1] + "/*.tfrecord"))):
    x = tf.io.parse_single_example(r, spec)
    seen[x["key"].numpy().decode()] = [x["data"].numpy().hex(), int(x["label"])]
arrays = []
spec = {"a": tf.io.FixedLenFeature([], tf.string), "a/shape": tf.io.FixedLenFeature([2], tf.int64)}
for r in tf.data.TFRecordDataset(sorted(glob.glob(sys.argv[2] + "/*.tfrecord"))):
    x = tf.io.parse_single_example(r, spec)
    arrays.append(tf.reshape(tf.io.decode_raw(x["a"], tf.uint8), x["a/shape"]).numpy().tolist())
print(json.dumps([seen, arrays]))
"""


@pytest.fixture
def tensorflow():
    """A function that runs a script with TensorFlow's Python."""
    python = os.environ.get("STOKER_TF_PYTHON")
    if not python:
        pytest.skip("set STOKER_TF_PYTHON to a Python that has TensorFlow")

    def run(script, *args):
        env = {k: v for k, v in os.environ.items() if "SAN_OPTIONS" not in k}
        done = subprocess.run([python, "-c", script, *map(str, args)], env=env, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        return done.stdout
    return run


@pytest.mark.others
def test_tensorflow_writes(stoker, tmp_path, tensorflow):
    """What TensorFlow itself writes, in each compression, would not be read right."""
    tensorflow(TF_WRITE, tmp_path)
    for kind in ("", "GZIP", "ZLIB"):
        got = as_json(stoker, tmp_path, tmp_path / f"tf{kind}.tfrecord")
        assert len(got) == 50
        for i, sample in enumerate(got):
            assert sample["key"] == f"k{i}" and sample["label"] == -i
            assert sample["x"] == [i / 4, 1.0]
            assert from_base64(sample["data"]) == bytes([255, i]) * (i * 100)
        assert stoker("verify", tmp_path / f"tf{kind}.tfrecord").rc == 0


@pytest.mark.others
def test_tensorflow_reads(stoker, tmp_path, images, tensorflow):
    """TensorFlow itself would not read what we pack."""
    folder, files = images
    stoker("pack", folder, tmp_path / "packed", "--shards", "3")
    array = random_array("u1", (4, 3, 5))
    np.savez(tmp_path / "in.npz", a=array)
    stoker("pack", tmp_path / "in.npz", tmp_path / "arrays", "--format", "tfrecord", "--shards", "1")
    seen, arrays = json.loads(tensorflow(TF_READ, tmp_path / "packed", tmp_path / "arrays"))
    classes = sorted({n.split("/")[0] for n in files})
    assert seen == {n: [d.hex(), classes.index(n.split("/")[0])] for n, d in files.items()}
    assert arrays == array.tolist()
