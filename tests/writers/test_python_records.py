"""TFRecord of the `tfrecord` package, NPZ through zip writers other than Python's zipfile, and other
archives made in Python."""

import io
import gzip
import subprocess
import zipfile

import numpy as np
import pytest

from writerlib import compare, compare_npz, feed, npy_bytes, program, samples, stoker

RNG = np.random.default_rng(3)


# ---- tfrecord ----

def test_tfrecord_package(tmp_path):
    """A writer in pure Python with protobuf, without TensorFlow."""
    writer = pytest.importorskip("tfrecord.writer")
    rows = [{"image": RNG.bytes(i * 37), "label": i, "w": (np.arange(3) / 4 + i).astype("f4"),
             "big": np.array([2 ** 63 - 1, -(2 ** 63), i])} for i in range(30)]
    out = writer.TFRecordWriter(str(tmp_path / "t.tfrecord"))
    for r in rows:
        out.write({"image": (r["image"], "byte"), "label": (r["label"], "int"),
                   "w": (list(map(float, r["w"])), "float"), "big": (r["big"].tolist(), "int")})
    out.close()
    got = samples(tmp_path / "t.tfrecord")
    assert len(got) == 30
    for g, r in zip(got, rows):
        assert bytes(g["image"]) == r["image"] and g["label"] == r["label"]
        assert np.array_equal(g["w"], r["w"]) and g["w"].dtype == np.float32
        assert np.array_equal(g["big"], r["big"]) and g["big"].dtype == np.int64


def test_tfrecord_package_sequences(tmp_path):
    writer = pytest.importorskip("tfrecord.writer")
    out = writer.TFRecordWriter(str(tmp_path / "t.tfrecord"))
    for i in range(8):
        out.write({"length": (i + 1, "int"), "label": (i, "int")},
                  {"tokens": ([[k, i] for k in range(i + 1)], "int"),
                   "seq": ([[k / 2] for k in range(i + 1)], "float")})
    out.close()
    for i, s in enumerate(samples(tmp_path / "t.tfrecord")):
        assert int(np.ravel(s["length"])[0]) == i + 1 and s["label"] == i
        assert np.asarray(s["tokens"]).tolist() == [[k, i] for k in range(i + 1)]
        assert np.ravel(s["seq"]).tolist() == [k / 2 for k in range(i + 1)]


# ---- NPZ: a zip is a zip, whatever program wrote it ----

def arrays():
    return {"x": RNG.normal(size=(20, 3, 2)), "y": np.arange(20, dtype="i2"),
            "u": RNG.integers(0, 256, (20, 5)).astype("u1"), "b": np.arange(20) % 2 == 0,
            "be": np.arange(20, dtype=">f4"), "h": np.arange(20, dtype="f2")}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zipstream(tmp_path, compression):
    """Streams: sizes stand behind the data, local headers are zip64."""
    zipstream = pytest.importorskip("zipstream")
    z = zipstream.ZipStream(compress_type=compression)
    for name, a in arrays().items():
        z.add(npy_bytes(a), f"{name}.npy")
    (tmp_path / "t.npz").write_bytes(b"".join(z))
    compare_npz(tmp_path / "t.npz")


@pytest.mark.parametrize("flags", [["-0"], ["-9"], ["-fd"], ["-fz"], ["-X"]])
def test_info_zip(tmp_path, flags):
    folder = tmp_path / "a"
    folder.mkdir()
    for name, a in arrays().items():
        np.save(folder / f"{name}.npy", a)
    feed([program("zip"), "-q", *flags, tmp_path / "t.npz", *(f"{n}.npy" for n in arrays())], cwd=folder)
    compare_npz(tmp_path / "t.npz")


@pytest.mark.parametrize("flags", [[], ["-0"]])
def test_info_zip_stream(tmp_path, flags):
    """zip - - writes into a pipe: data descriptors, zip64."""
    folder = tmp_path / "a"
    folder.mkdir()
    for name, a in arrays().items():
        np.save(folder / f"{name}.npy", a)
    piped = subprocess.run([program("zip"), "-q", *flags, "-", *(f"{n}.npy" for n in arrays())], cwd=folder,
                           stdout=subprocess.PIPE, check=True).stdout
    (tmp_path / "t.npz").write_bytes(piped)
    compare_npz(tmp_path / "t.npz")


def test_seven_zip(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    for name, a in arrays().items():
        np.save(folder / f"{name}.npy", a)
    feed([program("7z"), "a", "-tzip", tmp_path / "t.zip", *(f"{n}.npy" for n in arrays())], cwd=folder)
    (tmp_path / "t.zip").rename(tmp_path / "t.npz")
    compare_npz(tmp_path / "t.npz")


def test_zipfile_oddities(tmp_path):
    """A comment that looks like the end of a zip, comments of members, extra fields."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, a in arrays().items():
            info = zipfile.ZipInfo(f"{name}.npy", (2030, 1, 1, 0, 0, 0))
            info.extra = b"UT\x05\x00\x01\x00\x00\x00\x00"
            info.comment = b"of this array"
            z.writestr(info, npy_bytes(a), zipfile.ZIP_DEFLATED if a.ndim > 1 else zipfile.ZIP_STORED)
        z.comment = b"made by hand"
    (tmp_path / "t.npz").write_bytes(out.getvalue())
    compare_npz(tmp_path / "t.npz")


def test_zip_of_other_methods(tmp_path):
    """bzip2 and lzma inside a zip: refused by name, not called damaged."""
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_BZIP2) as z:
        z.writestr("x.npy", npy_bytes(np.arange(9)))
    with pytest.raises(stoker.Error) as e:
        samples(tmp_path / "t.npz")
    assert not isinstance(e.value, stoker.CorruptError), e.value


# ---- npy ----

@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_versions(tmp_path, version):
    with open(tmp_path / "t.npy", "wb") as f:
        np.lib.format.write_array(f, np.arange(12.).reshape(6, 2), version=version)
    compare(tmp_path / "t.npy", [{"data": np.array([2. * i, 2. * i + 1])} for i in range(6)])


def test_gzip_members_of_pigz(tmp_path):
    """A gzip file of several members, as `cat a.gz b.gz` and bgzip give."""
    text = [f'{{"n": {i}}}\n' for i in range(1000)]
    (tmp_path / "t.jsonl.gz").write_bytes(b"".join(
        gzip.compress("".join(text[k:k + 100]).encode()) for k in range(0, 1000, 100)) + gzip.compress(b""))
    compare(tmp_path / "t.jsonl.gz", [{"n": i} for i in range(1000)])
