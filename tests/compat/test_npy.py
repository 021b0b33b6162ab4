"""NPY and NPZ against NumPy and Python's zipfile, in both directions."""

import io
import json
import struct
import zipfile

import numpy
import pytest

from conftest import LONG, flip_byte, make_images
from tablelib import cut_everywhere, flipped, packed, read_samples, verify

DTYPES = ["|u1", "|i1", "|b1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f2", "<f4", "<f8",
          ">u2", ">i2", ">u4", ">i4", ">u8", ">i8", ">f2", ">f4", ">f8"]


def numbers(dtype, shape, seed=1):
    rng = numpy.random.default_rng(seed)
    if dtype.endswith("b1"):
        return rng.integers(0, 2, shape).astype(bool)
    if dtype[1] == "f":
        return rng.standard_normal(shape).astype(dtype)
    info = numpy.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=numpy.dtype(dtype).newbyteorder("="),
                        endpoint=True).astype(dtype)


def saved(path, array):
    numpy.save(path, array)
    return path


def little(array):
    return array.astype(array.dtype.newbyteorder("<"))


# ---- NPY ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_npy_both_ways(stoker, tmp_path, dtype):
    """A type or byte order read wrongly trains on noise."""
    a = numbers(dtype, (50, 3, 2))
    out, = packed(stoker, saved(tmp_path / "a.npy", a), tmp_path / "out", "npy")
    back = numpy.load(out, mmap_mode="r")
    assert back.dtype == little(a).dtype and numpy.array_equal(back, a)


def test_npy_written_as_numpy_writes(stoker, tmp_path):
    """The same bytes: tools that hash or diff .npy files must not see a difference."""
    a = numbers("<f4", (1000, 7))
    src = saved(tmp_path / "a.npy", a)
    out, = packed(stoker, src, tmp_path / "out", "npy")
    assert out.read_bytes() == src.read_bytes()


@pytest.mark.parametrize("shape", [(), (1,), (9,), (3, 1, 1, 2), (2,) * 8])
def test_npy_shapes(stoker, tmp_path, shape):
    """Scalars and many dimensions are arrays too."""
    a = numbers("<f4", shape) if shape else numpy.float32(2.5)
    found = read_samples(stoker, saved(tmp_path / "a.npy", a), tmp_path)
    rows = [a] if shape == () else list(a)
    assert len(found) == len(rows)
    for sample, row in zip(found, rows):
        assert numpy.array_equal(numpy.array(sample["data"], dtype="f4"), row)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (5, 0)])
def test_npy_empty(stoker, tmp_path, shape):
    """An array of nothing is whole: a filter that lets nothing through leaves one."""
    src = saved(tmp_path / "a.npy", numpy.zeros(shape, "f4"))
    record = stoker("inspect", src, "--json", "-", "--quiet").json()
    assert record["result"]["samples"] == shape[0]
    assert verify(stoker, src, "npy") == (0, [])


def test_npy_shards(stoker, tmp_path):
    """Each shard is a whole array; together they are the first."""
    a = numbers("<i4", (1000, 5))
    shards = packed(stoker, saved(tmp_path / "a.npy", a), tmp_path / "out", "npy", "--shards", "7")
    assert len(shards) == 7
    assert numpy.array_equal(numpy.concatenate([numpy.load(s) for s in shards]), a)
    again, = packed(stoker, tmp_path / "out", tmp_path / "one", "npy")
    assert numpy.array_equal(numpy.load(again), a)


def test_npy_large_big_endian(stoker, tmp_path):
    """Rows beyond the first decoded stretch must be found too."""
    a = numbers(">f8", (3000, 111))
    out, = packed(stoker, saved(tmp_path / "a.npy", a), tmp_path / "out", "npy")
    assert numpy.array_equal(numpy.load(out), a)
    one = numbers(">f4", (3, 500000))  # rows longer than a stretch
    out, = packed(stoker, saved(tmp_path / "b.npy", one), tmp_path / "out-b", "npy")
    assert numpy.array_equal(numpy.load(out), one)


@pytest.mark.parametrize("array,reason", [
    (numpy.asfortranarray(numpy.ones((3, 2))), "ascontiguousarray"),
    (numpy.array([["a", "b"]]), "strings"),
    (numpy.array([[(1, 2)]], dtype=[("a", "i4"), ("b", "i4")]), ""),
    (numpy.array([None, "x"], dtype=object), ""),
])
def test_npy_refused_with_the_reason(stoker, tmp_path, array, reason):
    """An array that cannot be cut into rows must be refused, not read wrong; it is not damaged."""
    numpy.save(tmp_path / "a.npy", array, allow_pickle=True)
    stoker("inspect", tmp_path / "a.npy", rc=3)
    result = stoker("verify", tmp_path / "a.npy", "--json", tmp_path / "v.json", rc=3)
    assert reason in result.out and "damaged" not in result.out and "1 unsupported" in result.out
    said = json.loads((tmp_path / "v.json").read_text())["result"]
    assert said["unsupported"] == 1 and not said["whole"]
    assert [p["code"] for p in said["problems"]] == ["unsupported"]
    result = stoker("pack", tmp_path / "a.npy", tmp_path / "out", "--format", "jsonl", rc=4)
    assert reason in result.err and "a.npy" in result.err


def jsonl_of(stoker, src, tmp_path):
    stoker("pack", src, tmp_path / "out-jsonl", "--format", "jsonl", "-f")
    return [json.loads(x) for x in next((tmp_path / "out-jsonl").glob("*.jsonl")).open()]


@pytest.mark.parametrize("dtype", ["<U4", ">U4"])
def test_npy_strings(stoker, tmp_path, dtype):
    """Strings come back as numpy reads them: without the zero bytes that fill their places."""
    words = ["a", "bcdé", ""]
    numpy.save(tmp_path / "u.npy", numpy.array(words, dtype))
    assert [x["data"] for x in jsonl_of(stoker, tmp_path / "u.npy", tmp_path)] == words
    numpy.save(tmp_path / "s.npy", numpy.array([w.encode() for w in words]))
    stoker("pack", tmp_path / "s.npy", tmp_path / "out-s", "--format", "npz")
    found = numpy.load(next((tmp_path / "out-s").glob("*.npz")))
    assert found["data"].tobytes() == "".join(words).encode()
    assert found["data.offsets"].tolist() == [0, 1, 6, 6]


@pytest.mark.parametrize("dtype", ["<c16", ">c8"])
def test_npy_complex(stoker, tmp_path, dtype):
    """Complex numbers are pairs of real ones, and that is said."""
    numpy.save(tmp_path / "a.npy", (numpy.arange(3) + 2j).astype(dtype))
    assert "pairs" in stoker("inspect", tmp_path / "a.npy").out
    assert [x["data"] for x in jsonl_of(stoker, tmp_path / "a.npy", tmp_path)] == \
        [[i, 2] for i in range(3)]


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
def test_npz_of_all_kinds(stoker, tmp_path, save):
    """What can be read of an archive is, and no array drops out of it without a word."""
    save(tmp_path / "a.npz", x=numpy.arange(2), label=numpy.array(["cat", "dog"]),
         s=numpy.array([b"a", b"bb"]), z=numpy.arange(2) + 1j, st=numpy.zeros((2, 1), [("a", "i4")]),
         f=numpy.asfortranarray(numpy.ones((2, 4))), other=numpy.arange(7), one=3)
    lines = jsonl_of(stoker, tmp_path / "a.npz", tmp_path)
    assert [x["label"] for x in lines] == ["cat", "dog"]
    assert [x["z"] for x in lines] == [[0, 1], [1, 1]]
    result = stoker("verify", tmp_path / "a.npz", "--json", tmp_path / "v.json", rc=3)
    assert "4 members left out" in result.out and "damaged" not in result.out
    said = json.loads((tmp_path / "v.json").read_text())["result"]["left_out"]
    assert {n for x in said for n in x["names"]} == {"st", "f", "other", "one"}


def test_structures(stoker, tmp_path):
    """Each member of a list of structures is a field; those that cannot be read are named."""
    a = numpy.zeros(5, numpy.dtype([(("a title", "n"), "<i4"), ("v", "<f8", (3,)), ("s", "S5"), ("u", "U3"),
                                    ("c", "<c8"), ("big", ">i4"), ("when", "M8[s]"), ("ok", "?")],
                                   align=True))
    a["n"], a["v"][:, 1], a["s"], a["u"], a["c"], a["ok"] = range(5), 7, b"hi", "\u00e9", 2 + 3j, True
    numpy.save(tmp_path / "a.npy", a)
    numpy.savez(tmp_path / "a.npz", t=a, x=numpy.arange(5))
    numpy.savez_compressed(tmp_path / "b.npz", t=a, x=numpy.arange(5))
    for name, prefix in (("a.npy", ""), ("a.npz", "t/"), ("b.npz", "t/")):
        lines = jsonl_of(stoker, tmp_path / name, tmp_path)
        assert [x[prefix + "n"] for x in lines] == list(range(5))
        assert [x[prefix + "v"] for x in lines] == [[0, 7, 0]] * 5
        assert [x[prefix + "u"] for x in lines] == ["\u00e9"] * 5
        assert [x[prefix + "c"] for x in lines] == [[2, 3]] * 5 and lines[4][prefix + "ok"] is True
        result = stoker("verify", tmp_path / name, rc=3)
        assert "2 columns left out" in result.out and "big" in result.out and "when" in result.out


def test_npz_splits(stoker, tmp_path):
    """Of x_train and x_test one is taken, the other is named."""
    numpy.savez(tmp_path / "a.npz", x_test=numpy.zeros((6, 3)), x_train=numpy.ones((6, 3)))
    assert "(test)" in stoker("inspect", tmp_path / "a.npz").out
    assert set(jsonl_of(stoker, tmp_path / "a.npz", tmp_path)[0]) - {"key"} == {"x_train"}


@pytest.mark.parametrize("samples,reason", [
    ([{"key": "k", "v": [1, 2], "label": 1}], "use npz"),
    ([{"key": "k", "t": "text"}], "use npz"),
    ([{"key": "j", "v": [1, 2]}, {"key": "k", "v": [1, 2, 3]}], "int64 (3) here but int64 (2)"),
])
def test_npy_not_written(stoker, tmp_path, samples, reason):
    """Samples that differ in shape cannot be rows; the sample is named."""
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    result = stoker("pack", tmp_path / "t.jsonl", tmp_path / "out", "--format", "npy", rc=4)
    assert reason in result.err, result.err
    assert "sample k" in result.err or len(samples) == 1
    assert not (tmp_path / "out").exists()


def npy_bytes(header, data=b"", version=1):
    text = header.encode() if isinstance(header, str) else header
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


BOMBS = [
    npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,), }\n"),
    npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n"),
    npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976, 0), }\n"),
    npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1152921504606846976), }\n",
              b"x"),
    npy_bytes("{'descr': '|S4294967295', 'fortran_order': False, 'shape': (9,), }\n"),
    npy_bytes("{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 5000 + "\n"),
    npy_bytes("{'descr': '<f8'}\n"),
    b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    b"\x93NUMPY\x01\x00\xff\xff{",
    b"\x93NUMPY",
    b"",
]


@pytest.mark.parametrize("blob", BOMBS, ids=range(len(BOMBS)))
def test_npy_header_bombs(stoker, tmp_path, blob):
    """A hundred bytes must not make us allocate, loop or crash."""
    (tmp_path / "a.npy").write_bytes(blob)
    assert verify(stoker, tmp_path / "a.npy", "npy")[0] in (1, 4)


def test_npy_of_another_version(stoker, tmp_path):
    """A header of a version that is to come is no damage."""
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x09\x00\x10\x00" + b" " * 16)
    rc, [problem] = verify(stoker, tmp_path / "a.npy", "npy")
    assert rc == 3 and problem["code"] == "unsupported" and "version" in problem["what"]


def test_npy_damaged(stoker, tmp_path):
    """A file cut at any byte is noticed, and its whole rows are still there."""
    whole = saved(tmp_path / "a.npy", numbers("<f4", (4, 3))).read_bytes()
    lengths = cut_everywhere(whole, tmp_path / "cut", ".npy")
    rc, problems = verify(stoker, tmp_path / "cut", "npy", rc=1)
    assert len({p["path"] for p in problems}) == len(lengths)
    (tmp_path / "long.npy").write_bytes(whole + b"more")
    rc, problems = verify(stoker, tmp_path / "long.npy", "npy", rc=1)
    assert problems[0]["offset"] == len(whole)
    for i, damaged in enumerate(flipped(whole[:140], 60 if LONG else 12)):
        path = tmp_path / f"flip{i}.npy"
        path.write_bytes(damaged + whole[140:])
        verify(stoker, path, "npy")


# ---- NPZ ---------------------------------------------------------------------------------------


def columns(n=40):
    return {"x": numbers("<f4", (n, 3, 2)), "label": numpy.arange(n), "flag": numbers("|b1", n),
            "big": numbers(">i4", (n, 5))}


def check_arrays(path, want):
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
    arrays = numpy.load(path)
    for name, a in want.items():
        assert arrays[name].dtype == little(a).dtype and numpy.array_equal(arrays[name], a), name
    return arrays


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
@pytest.mark.parametrize("compress", ["none", "deflate", "deflate:9"])
def test_npz_both_ways(stoker, tmp_path, save, compress):
    """Stored and deflated archives are what people have."""
    want = columns()
    save(tmp_path / "a.npz", **want, settings=numpy.zeros(3), version=numpy.int64(7))
    out, = packed(stoker, tmp_path / "a.npz", tmp_path / "out", "npz", "--compress", compress)
    arrays = check_arrays(out, want)
    assert "settings" not in arrays and "version" not in arrays  # other lengths: not samples
    assert stoker("verify", tmp_path / "out")
    again, = packed(stoker, tmp_path / "out", tmp_path / "again", "npz")
    check_arrays(again, want)


@pytest.mark.parametrize("save", [numpy.savez, numpy.savez_compressed])
@pytest.mark.parametrize("dtype", ["U", "S", ">U"])
def test_npz_text_keys(stoker, tmp_path, save, dtype):
    """A list of names saved beside the data names the samples."""
    names = [f"img-{i}" + ("é" if "U" in dtype else "") for i in range(30)]
    width = max(map(len, names))
    keys = numpy.array(names).astype(f"{dtype}{width}")
    save(tmp_path / "a.npz", x=numpy.arange(30), key=keys)
    found = read_samples(stoker, tmp_path / "a.npz", tmp_path)
    assert [(s["key"], s["x"]) for s in found] == list(zip(names, range(30)))


@pytest.mark.parametrize("compress", ["none", "deflate"])
def test_npz_ragged(stoker, tmp_path, compress):
    """Images of differing size, text and JSON go through NPZ and come out as they were."""
    samples = [{"key": f"s{i}", "t": "é" * (i % 7), "j": {"a": [i, None]}, "v": [i, i + 1],
                "label": i} for i in range(20000)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
    out, = packed(stoker, tmp_path / "t.jsonl", tmp_path / "out", "npz", "--compress", compress)
    arrays = numpy.load(out)
    at, text = arrays["t.offsets"], bytes(arrays["t"])
    assert at.dtype == "uint64" and arrays["t"].dtype == "uint8"
    assert [text[at[i]:at[i + 1]].decode() for i in range(9)] == [s["t"] for s in samples[:9]]
    assert read_samples(stoker, tmp_path / "out", tmp_path) == samples
    assert verify(stoker, tmp_path / "out", "npz") == (0, [])


def test_npz_images_round_trip(stoker, tmp_path):
    """Packed and unpacked again, every file is what it was."""
    files = make_images(tmp_path / "img", classes=3, per_class=20)
    packed(stoker, tmp_path / "img", tmp_path / "npz", "npz", "--shards", "4")
    found = read_samples(stoker, tmp_path / "npz", tmp_path)
    assert {s["key"]: s["data"] for s in found} == files
    assert [s["label"] for s in found] == [int(s["key"][5:7]) for s in found]


def test_npz_same_bytes_every_time(stoker, tmp_path):
    """A dataset's checksum must not depend on the hour or the number of threads."""
    numpy.savez(tmp_path / "a.npz", **columns(3000))
    one, = packed(stoker, tmp_path / "a.npz", tmp_path / "one", "npz", "--jobs", "1", "--name", "n")
    two, = packed(stoker, tmp_path / "a.npz", tmp_path / "two", "npz", "--jobs", "4", "--name", "n")
    assert one.read_bytes() == two.read_bytes()


def test_npz_spooled_columns(stoker, tmp_path):
    """Columns larger than their buffers come out whole and in order."""
    rng = numpy.random.default_rng(3)
    want = {"a": rng.random((6000, 100)), "b": rng.integers(0, 255, (6000, 333), dtype="uint8")}
    numpy.savez(tmp_path / "a.npz", **want)
    out, = packed(stoker, tmp_path / "a.npz", tmp_path / "out", "npz")
    check_arrays(out, want)


def test_npz_checksum(stoker, tmp_path):
    """A flipped bit in an array is found by the archive's own checksum."""
    numpy.savez(tmp_path / "a.npz", x=numbers("<f4", (100, 10)), label=numpy.arange(100))
    with zipfile.ZipFile(tmp_path / "a.npz") as z:
        place = z.getinfo("x.npy").header_offset
    assert verify(stoker, tmp_path / "a.npz", "npz") == (0, [])
    flip_byte(tmp_path / "a.npz", place + 1000)
    rc, problems = verify(stoker, tmp_path / "a.npz", "npz")
    assert rc == 1 and len(problems) == 1


def test_npz_fortran_refused(stoker, tmp_path):
    """Columns of a Fortran array read as rows would mix the samples."""
    numpy.savez(tmp_path / "a.npz", x=numpy.asfortranarray(numpy.ones((4, 3))))
    result = stoker("pack", tmp_path / "a.npz", tmp_path / "out", "--format", "jsonl", rc=4)
    assert "ascontiguousarray" in result.err


def zip_bytes(members):
    """[(name, bytes, compression)] as zipfile writes them."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data, how in members:
            z.writestr(name, data, how)
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    numpy.save(out, array)
    return out.getvalue()


def test_two_members_of_one_name(stoker, tmp_path):
    """numpy would take the last of them: sound, but one of the two would be lost."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zip_bytes([("x.npy", npy(numpy.arange(3)), zipfile.ZIP_STORED),
                          ("x.npy", npy(numpy.arange(4)), zipfile.ZIP_STORED)])
    (tmp_path / "a.npz").write_bytes(data)
    result = stoker("verify", tmp_path / "a.npz", "--json", "-", "-q", rc=3).json()["result"]
    assert result["unsupported"] == 1 and "'x.npy'" in result["problems"][0]["what"]


def hostile_archives():
    x = npy(numpy.arange(20.0))
    plain = zip_bytes([("x.npy", x, zipfile.ZIP_STORED)])
    end = plain.rindex(b"PK\5\6")
    central = plain.index(b"PK\1\2")
    twice = bytearray(plain[:central] + plain[central:end] * 2 + plain[end:])
    new_end = twice.rindex(b"PK\5\6")
    twice[new_end + 8:new_end + 16] = struct.pack("<HHI", 2, 2, 2 * (end - central))
    yield "same member twice", bytes(twice)
    for name, at, value in [("size", central + 24, 0x7FFFFFFF), ("stored", central + 20, 1),
                            ("place", central + 42, 0x7FFFFFFF), ("count", end + 8, 0xFFFFFFFF),
                            ("directory", end + 16, 0x7FFFFFFF), ("length", end + 12, 0x7FFFFFFF)]:
        wrong = bytearray(plain)
        wrong[at:at + 4] = struct.pack("<I", value)
        yield f"wrong {name}", bytes(wrong)
    zeros = npy(numpy.zeros(1 << 20, "u1"))
    bomb = bytearray(zip_bytes([("x.npy", zeros, zipfile.ZIP_DEFLATED)]))
    entry = bomb.rindex(b"PK\1\2")
    bomb[entry + 24:entry + 28] = struct.pack("<I", 1 << 12)
    yield "decodes to more than it says", bytes(bomb)
    bomb[entry + 24:entry + 28] = struct.pack("<I", 0xFFFFFFF0)
    yield "over a GiB deflated", bytes(bomb)
    yield "array longer than its member", zip_bytes([("x.npy", x[:-8], zipfile.ZIP_STORED)])
    yield "not an array", zip_bytes([("x.npy", b"hello", zipfile.ZIP_STORED)])
    yield "another compression", zip_bytes([("x.npy", x, zipfile.ZIP_BZIP2)])
    offsets = numpy.array([0, 5, 3, 10**15, 8], "u8")
    yield "offsets anywhere", zip_bytes([
        ("t.npy", npy(numpy.zeros(8, "u1")), zipfile.ZIP_STORED),
        ("t.offsets.npy", npy(offsets), zipfile.ZIP_STORED)])
    yield "keys anywhere", zip_bytes([
        ("key.npy", npy(numpy.zeros(8, "u1")), zipfile.ZIP_DEFLATED),
        ("key.offsets.npy", npy(offsets), zipfile.ZIP_DEFLATED),
        ("x.npy", npy(numpy.arange(4)), zipfile.ZIP_STORED)])
    yield "no end", plain[:end]
    yield "only an end", plain[end:]


@pytest.mark.parametrize("name,blob", hostile_archives(), ids=[n for n, _ in hostile_archives()])
def test_npz_hostile(stoker, tmp_path, name, blob):
    """An archive that lies about itself is named, not believed."""
    (tmp_path / "a.npz").write_bytes(blob)
    assert verify(stoker, tmp_path / "a.npz", "npz")[0] in (1, 3, 4)


def test_npz_damaged(stoker, tmp_path):
    """A cut at any byte is noticed, a changed byte never crashes us."""
    numpy.savez(tmp_path / "a.npz", x=numbers("<f4", (4, 3)), key=numpy.array(list("abcd")))
    numpy.savez_compressed(tmp_path / "b.npz", x=numbers(">f4", (4, 3)), label=numpy.arange(4))
    for source in ("a", "b"):
        whole = (tmp_path / f"{source}.npz").read_bytes()
        lengths = cut_everywhere(whole, tmp_path / f"cut-{source}", ".npz")
        rc, problems = verify(stoker, tmp_path / f"cut-{source}", "npz", rc=1)
        assert len({p["path"] for p in problems}) == len(lengths)
        for i, damaged in enumerate(flipped(whole, 80 if LONG else 12)):
            path = tmp_path / f"{source}{i}-flip.npz"
            path.write_bytes(damaged)
            verify(stoker, path, "npz")


@pytest.mark.parametrize("rows,save", [(200, numpy.savez_compressed), (20000, numpy.savez_compressed),
                                       (200, numpy.savez)], ids=["whole", "pieces", "stored"])
def test_the_checksum_of_a_zip_is_compared(stoker, tmp_path, rows, save):
    """A flipped byte was served although numpy.load would have found it."""
    save(tmp_path / "a.npz", x=numpy.random.default_rng(1).integers(0, 9, (rows, 64)))
    by_rows = save is numpy.savez
    assert ("none: " if by_rows else "compared for every sample") in stoker("load", tmp_path / "a.npz").out
    whole = bytearray((tmp_path / "a.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "a.npz") as z:
        crc = struct.pack("<I", z.infolist()[0].CRC)
    for at in (whole.index(crc), whole.rindex(crc)):
        whole[at] ^= 1
    (tmp_path / "a.npz").write_bytes(whole)
    for command in (["load", tmp_path / "a.npz"], ["pack", tmp_path / "a.npz", tmp_path / "o"])[by_rows:]:
        assert "checksum does not match" in stoker(*command, rc=4).err
    assert not (tmp_path / "o").exists()
    if by_rows:
        assert "checksum does not match" in stoker("pack", tmp_path / "a.npz", tmp_path / "q", "--on-error", "skip", rc=3).out
    result = stoker("verify", tmp_path / "a.npz", rc=1)
    assert "checksum does not match" in result.out and len(result.out.splitlines()) < 9


def test_single_values_are_no_samples(stoker, tmp_path):
    """Settings saved beside the data as arrays of one element outnumber it."""
    numpy.savez(tmp_path / "a.npz", x=numpy.arange(12.).reshape(6, 2), lr=[0.1], epochs=[3], seed=[1])
    r = stoker("inspect", tmp_path / "a.npz", "--json", "-", "--quiet").json()["result"]
    assert r["samples"] == 6


def test_bytes_without_a_type(stoker, tmp_path):
    """bfloat16 is saved as <V2, which says nothing of what it is."""
    numpy.save(tmp_path / "a.npy", numpy.zeros((3, 2), dtype="V2"))
    r = stoker("inspect", tmp_path / "a.npy", "--json", "-", "--quiet", rc=3).json()["result"]
    assert r["problems"][0]["code"] == "unsupported" and "bfloat16" in r["problems"][0]["what"]


def large_arrays():
    """Compressed arrays that are read in pieces: rows of all kinds, more than 4 MiB each."""
    rng = numpy.random.default_rng(5)
    numbers = (rng.integers(0, 4096, (1300, 1024)) / 64).astype("<f4")
    table = numpy.zeros(30000, [("n", "<i4"), ("v", "<f4", (50,)), ("s", "S7")])
    table["n"], table["v"] = numpy.arange(30000), numbers.ravel()[:50] + numpy.arange(30000)[:, None]
    table["s"] = [b"k%d" % i for i in range(30000)]
    offsets = numpy.r_[0, numpy.cumsum(rng.integers(0, 4000, 2600))].astype("u8")
    ragged = {"x": rng.integers(0, 64, int(offsets[-1])).astype("u1"), "x.offsets": offsets}
    return {"plain": {"x": numbers, "y": numpy.arange(1300)},
            "swapped": {"x": numbers.astype(">f4"), "y": numpy.arange(1300)},
            "rows": {"x": numbers.reshape(5, -1)},
            "alike": {"x": numpy.full((300, 1 << 15), 7, "u1")},
            "table": {"t": table}, "ragged": ragged}


@pytest.mark.parametrize("kind", ["plain", "swapped", "rows", "alike", "table", "ragged"])
def test_large_compressed_arrays(stoker, tmp_path, kind):
    """Rows of an array that is decoded in pieces are those that numpy reads, at every border."""
    arrays = large_arrays()[kind]
    numpy.savez_compressed(tmp_path / "a.npz", **arrays)
    stoker("pack", tmp_path / "a.npz", tmp_path / "out", "--format", "npz", "--quiet")
    got = numpy.load(next((tmp_path / "out").glob("*.npz")))
    for name, want in arrays.items():
        if kind == "table":
            for field in ("n", "v"):
                assert numpy.array_equal(got[f"{name}/{field}"], want[field])
        else:
            assert numpy.array_equal(got[name], want)
    stoker("verify", tmp_path / "a.npz")


def test_large_compressed_array_with_a_wrong_checksum(stoker, tmp_path):
    """Bytes that decode, but not to what was saved, are never given out without a word."""
    numpy.savez_compressed(tmp_path / "a.npz", x=numpy.arange(1500000, dtype="i4").reshape(-1, 1000))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(b"PK\x01\x02") + 16] ^= 1  # in the directory
    data[14] ^= 1  # in the local header
    (tmp_path / "a.npz").write_bytes(data)
    result = stoker("verify", tmp_path / "a.npz", rc=1)
    assert "checksum does not match" in result.out + result.err


@pytest.mark.parametrize("at", range(1, 8))
def test_large_compressed_array_with_damage(stoker, tmp_path, at):
    """Damage that decodes to something, even to the end, is not taken for data."""
    rows = numpy.random.default_rng(0).integers(0, 64, (1200, 4096)).astype("u1")
    numpy.savez_compressed(tmp_path / "a.npz", x=rows)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    begin = len(data) * at // 8
    data[begin:begin + 1000] = numpy.random.default_rng(at).bytes(1000)
    (tmp_path / "a.npz").write_bytes(data)
    result = stoker("verify", tmp_path / "a.npz", rc=1)
    assert "x.npy" in result.out + result.err
