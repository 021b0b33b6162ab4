"""JSON and JSON Lines against Python's json module, in both directions."""

import base64
import gzip
import io
import json
import random
import tarfile

import numpy
import pytest

from conftest import LONG, make_images
from tablelib import cut_everywhere, flipped, packed, read_samples, verify

SAMPLES = [
    {"key": "a", "x": 1, "f": 1.5, "b": True, "n": None, "t": "é😀 \"q\" \\ \n \x01 /",
     "v": [1, 2, 3], "m": [[1.5, 2.0], [3.0, 4.0]], "o": {"deep": [1, "x", {"y": []}]},
     "empty": [], "ragged": [[1], [2, 3]], "flags": [True, False], "mixed": [1, "a"]},
    {"key": "b", "x": -9223372036854775808, "f": 1e300, "big": 2**70, "nul": "a\0b"},
    {"key": "c/d.txt", "x": 9223372036854775807, "f": 5e-324, "bigs": [2**64, 1], "": "no name"},
]


def dump(path, samples, **how):
    path.write_text(json.dumps(samples, **how), encoding="utf-8")
    return path


def dump_lines(path, samples, end="\n"):
    path.write_text(end.join(json.dumps(s) for s in samples), encoding="utf-8")
    return path


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize("how", [{}, {"indent": 2}, {"ensure_ascii": False},
                                 {"separators": (",", ":")}])
def test_python_writes_array_we_read(stoker, tmp_path, how):
    """An element's boundary found wrongly loses or joins samples."""
    src = dump(tmp_path / "t.json", SAMPLES, **how)
    assert read_samples(stoker, src, tmp_path) == SAMPLES


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n  \n"])
def test_python_writes_lines_we_read(stoker, tmp_path, end):
    """A line is a sample, whatever ends it."""
    src = dump_lines(tmp_path / "t.jsonl", SAMPLES, end)
    assert read_samples(stoker, src, tmp_path) == SAMPLES


def test_we_write_python_reads(stoker, tmp_path):
    """What we write must be JSON to the strictest reader, in every shard."""
    samples = [{"key": f"k{i}", "t": "x" * (i % 50), "v": [i, i + 1]} for i in range(500)]
    src = dump_lines(tmp_path / "t.jsonl", samples)
    shards = packed(stoker, src, tmp_path / "json", "json", "--shards", "3")
    assert [s for f in shards for s in json.loads(f.read_text())] == samples
    again = packed(stoker, tmp_path / "json", tmp_path / "jsonl", "jsonl", "--shards", "2")
    assert [json.loads(x) for f in again for x in f.read_text().splitlines()] == samples


def test_values_that_are_no_objects(stoker, tmp_path):
    """A list of numbers or texts is a dataset too."""
    values = [1, "two", [3, 4], None, 2.5, {"x": 1}, []]
    for src in (dump(tmp_path / "t.json", values), dump_lines(tmp_path / "t.jsonl", values)):
        found = read_samples(stoker, src, tmp_path)
        assert [s.get("data", s.get("x")) for s in found] == [1, "two", [3, 4], None, 2.5, 1, []]


def test_one_object_is_one_sample(stoker, tmp_path):
    """A settings file is not a table of its members."""
    src = dump(tmp_path / "t.json", {"a": 1, "b": [1, 2]}, indent=1)
    found = read_samples(stoker, src, tmp_path)
    assert [(s["a"], s["b"]) for s in found] == [(1, [1, 2])]


def test_lines_under_another_name(stoker, tmp_path):
    """Many datasets call JSON Lines .json."""
    src = dump_lines(tmp_path / "t.json", SAMPLES)
    assert read_samples(stoker, src, tmp_path) == SAMPLES


def test_bytes_survive(stoker, tmp_path):
    """Images must come out of JSON byte for byte."""
    files = make_images(tmp_path / "img")
    shard, = packed(stoker, tmp_path / "img", tmp_path / "out", "jsonl")
    lines = [json.loads(x) for x in shard.read_text().splitlines()]
    assert {s["key"]: base64.b64decode(s["data"]["$base64"]) for s in lines} == files
    tree = tmp_path / "tree"
    stoker("pack", shard, tree, "--format", "folder")
    found = {p.relative_to(tree).as_posix().split("/", 1)[-1]: p.read_bytes()
             for p in tree.rglob("*.jpg")}
    assert sorted(found.values()) == sorted(files.values())


def test_arrays_have_types(stoker, tmp_path):
    """Numbers must arrive as numbers, not as text about numbers."""
    src = dump_lines(tmp_path / "t.jsonl", [{"key": "a", "i": [[1, 2, 3], [4, 5, 6]],
                                             "f": [1, 2.5], "b": [True, False], "s": 7}])
    out, = packed(stoker, src, tmp_path / "out", "npz")
    arrays = numpy.load(out)
    assert arrays["i"].dtype == "int64" and arrays["i"].shape == (1, 2, 3)
    assert arrays["f"].dtype == "float64" and arrays["f"].tolist() == [[1, 2.5]]
    assert arrays["b"].dtype == "bool" and arrays["s"].tolist() == [7]


def test_float32_round_trip(stoker, tmp_path):
    """0.1 as float32 is written 0.1 and reads back as the same float32."""
    a = numpy.random.default_rng(1).random((20, 3, 4), dtype="float32")
    numpy.save(tmp_path / "a.npy", a)
    found = read_samples(stoker, tmp_path / "a.npy", tmp_path)
    assert numpy.array_equal(numpy.array([s["data"] for s in found], dtype="float32"), a)


def test_no_nan(stoker, tmp_path):
    """NaN is not JSON: Python would write it, and other readers would stop at it."""
    numpy.save(tmp_path / "a.npy", numpy.array([1.0, numpy.nan]))
    result = stoker("pack", tmp_path / "a.npy", tmp_path / "out", "--format", "jsonl", rc=4)
    assert "NaN" in result.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_gzip(stoker, tmp_path, suffix):
    """Web crawls come as .jsonl.gz."""
    rng = random.Random(1)
    samples = [{"key": f"{i}", "t": rng.randbytes(150).hex()} for i in range(40000)]
    write = dump if suffix == "json" else dump_lines
    plain = write(tmp_path / "t", samples)
    src = tmp_path / f"t.{suffix}.gz"
    src.write_bytes(gzip.compress(plain.read_bytes(), 1))
    assert read_samples(stoker, src, tmp_path) == samples


def test_nested_too_deep(stoker, tmp_path):
    """Sound JSON that is not read would be called damaged."""
    (tmp_path / "t.json").write_bytes(b'[' * 100 + b']' * 100)
    rc, [problem] = verify(stoker, tmp_path / "t.json", "json")
    assert (rc, problem["code"], problem["offset"]) == (3, "unsupported", 64)


@pytest.mark.parametrize("text,offset", [
    (b'[{"a":1},]', 9),            # trailing comma
    (b'[{"a":1} {"a":2}]', 9),     # no comma
    (b'[{"a":1}] x', 10),          # text behind the array
    (b'[{"a":1},{"a":', 14),       # cut off
    (b'[{"a":[1}]', 8),            # brackets of two kinds
    (b'{"a":1} {"b":2}', 8),       # two values
    (b'  ', 2),
])
def test_bad_structure_is_named(stoker, tmp_path, text, offset):
    """The place of the damage is what a user needs to mend it."""
    src = tmp_path / "t.json"
    src.write_bytes(text)
    rc, problems = verify(stoker, src, "json")
    assert rc == 1 and [p["offset"] for p in problems] == [offset], problems


@pytest.mark.parametrize("line", [
    b'{"a":1,}', b'{"a" 1}', b'{a:1}', b"{'a':1}", b'{"a":01}', b'{"a":1.}', b'{"a":.5}', b'{"a":+1}',
    b'{"a":nan}', b'{"a":-NaN}', b'{"a":"\xff"}', b'{"a":"\x01"}', b'{"a":"\\x"}', b'{"a":"\\ud800"}', b'{"a":tru}',
    b'{"a":1} 2', b'{"a":[1,]}', b'{"a":"x}', b'{"a":{"$base64":"!!!!"}}', b'[1', b'{"a":1e}',
    b'{"a":"\xed\xa0\x80"}', b'{"a":"\xc0\x80"}'])
def test_strict(stoker, tmp_path, line):
    """What is not JSON must not be guessed at; the lines around it still count."""
    src = tmp_path / "t.jsonl"
    src.write_bytes(b'{"a":0}\n' + line + b'\n{"a":2}\n')
    rc, problems = verify(stoker, src, "jsonl")
    assert rc == 1 and [p["offset"] for p in problems] == [8], problems


MANY = ", ".join(f'"m{i}": {i}' for i in range(5000))
TWICE = {  # the name, and a value in which it stands twice
    "a": '{"a": 1, "b": 2, "a": 1}',
    "key": '{"key": "x", "key": "y"}',
    "x": r'{"x": 1, "\u0078": 2}',
    "é": r'{"é": 1, "\u00e9": 2}',
    "": '{"": 1, "": 2}',
    "in": '{"o": {"deep": [1, {"in": 1, "in": 2}]}}',
    "$base64": '{"d": {"$base64": "", "$base64": ""}}',
    "m3": '{%s, "m3": -3}' % MANY,
    "m4999": '{"o": [{%s, "m4999": 0}]}' % MANY,
}


def test_a_name_twice_in_an_object(stoker, tmp_path):
    """Readers keep the last of the two or the first: the other would be lost without a word."""
    good = '{"key": "1", "a": 1, "o": {"a": 1, "in": {"a": 2}}, "m": {%s}}' % MANY
    lines = [good, *TWICE.values()]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    (tmp_path / "t.json").write_text(f"[{','.join(lines)}]")
    write_tar(tmp_path / "t.tar", [(f"{i}.json", line.encode()) for i, line in enumerate(lines)])
    for path in ("t.jsonl", "t.json", "t.tar"):
        result = stoker("verify", tmp_path / path, "--json", "-", "-q", rc=3).json()["result"]
        assert result["samples"] == len(lines) and result["unsupported"] == len(TWICE), path
        for name, problem in zip(TWICE, result["problems"]):
            assert f"called '{name}'" in problem["what"], (path, name)
    assert "called" in stoker("pack", tmp_path / "t.jsonl", tmp_path / "out", rc=4).err
    stoker("pack", tmp_path / "t.jsonl", tmp_path / "rest", "--on-error", "skip", rc=3)
    assert len(read_samples(stoker, tmp_path / "rest", tmp_path)) == 1


@pytest.mark.parametrize("indent", [None, 2])
def test_objects_without_an_array(stoker, tmp_path, indent):
    """JSON Lines called .json (DuckDB, Spark) with a first line of more than a probe sees, and what
    jq writes without -c, would be one sample and a problem."""
    rows = [{"key": "a", "t": "x" * 9000}, {"key": "b", "t": '"}{"'}, {"key": "c", "t": ""}]
    src = tmp_path / "t.json"
    src.write_text("\n".join(json.dumps(r, indent=indent) for r in rows))
    assert read_samples(stoker, src, tmp_path) == rows
    taken = stoker("inspect", src, "--json", "-", "--quiet").json()["result"]["taken"]
    assert [t["as"] for t in taken if t["what"] == "sample"] == ["each object"]
    src.write_text(src.read_text()[:-3])
    assert verify(stoker, src, "json")[0] == 1
    for more in ("\n[1]", "\n2", "\n,", " {}"):
        src.write_text(json.dumps(rows[0]) + more)
        assert verify(stoker, src, "json")[0] == 1



def test_skip_leaves_out_the_bad(stoker, tmp_path):
    """One bad line in a million must not cost the others."""
    src = tmp_path / "t.jsonl"
    src.write_bytes(b'{"a":0}\n{"a":\n{"a":2}\n')
    dst = tmp_path / "out"
    stoker("pack", src, dst, "--format", "jsonl", rc=4)
    assert not dst.exists()
    stoker("pack", src, dst, "--format", "jsonl", "--on-error", "skip", rc=3)
    lines = next(dst.glob("*.jsonl")).read_text().splitlines()
    assert [json.loads(x)["a"] for x in lines] == [0, 2]


def test_damaged(stoker, tmp_path):
    """No damage may crash us."""
    for suffix, write in (("json", dump), ("jsonl", dump_lines)):
        whole = write(tmp_path / f"whole.{suffix}", SAMPLES).read_bytes()
        lengths = cut_everywhere(whole, tmp_path / f"cut-{suffix}", f".{suffix}")
        rc, problems = verify(stoker, tmp_path / f"cut-{suffix}", suffix)
        assert rc == 1
        if suffix == "json":  # any cut of the one array shows
            assert len({p["path"] for p in problems}) == len(lengths)
        for i, damaged in enumerate(flipped(whole, 60 if LONG else 12)):
            path = tmp_path / f"flip{i}.{suffix}"
            path.write_bytes(damaged)
            verify(stoker, path, suffix)
