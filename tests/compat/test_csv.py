"""CSV and TSV against Python's csv module, in both directions."""

import csv
import gzip
import io
import json
import math
import random

import numpy
import pytest

from conftest import LONG
from tablelib import cut_everywhere, flipped, packed, read_samples, verify

CELLS = ['ab', ',', ';', '"', '\n', '\r\n', '\t', 'é', '😀', ' ', "1", "''"]


def write_csv(path, rows, **dialect):
    text = io.StringIO(newline="")
    csv.writer(text, **dialect).writerows(rows)
    path.write_bytes(text.getvalue().encode())
    return path


def read_csv(path, **dialect):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.reader(f, **dialect))


def text_table(rng, columns, rows):
    """Cells no one takes for a number, with every character that needs quoting in them."""
    def cell():
        return "t" + "".join(rng.choice(CELLS) for _ in range(rng.randrange(5)))
    names = ["key"] + [f"n{i}" for i in range(columns)]
    return names, [[f"k{r}"] + [cell() for _ in range(columns)] for r in range(rows)]


@pytest.mark.parametrize("dialect", [
    {}, {"quoting": csv.QUOTE_ALL}, {"quoting": csv.QUOTE_NONNUMERIC}, {"delimiter": ";"},
    {"delimiter": "\t"}])
def test_python_writes_we_read(stoker, tmp_path, dialect):
    """A quoted comma or newline read wrongly shifts every column behind it."""
    names, body = text_table(random.Random(3), 6, 300)
    src = write_csv(tmp_path / "t.csv", [names, *body], **dialect)
    assert read_samples(stoker, src, tmp_path) == [dict(zip(names, row)) for row in body]


@pytest.mark.parametrize("fmt,dialect", [("csv", "excel"), ("tsv", "excel-tab")])
def test_we_write_python_reads(stoker, tmp_path, fmt, dialect):
    """A cell quoted wrongly makes every other program misread the table."""
    names, body = text_table(random.Random(4), 6, 300)
    lines = [json.dumps(dict(zip(names, row))) for row in body]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    shards = packed(stoker, tmp_path / "t.jsonl", tmp_path / "out", fmt, "--shards", "3")
    assert len(shards) == 3
    tables = [read_csv(s, dialect=dialect) for s in shards]
    assert all(t[0] == names for t in tables)
    assert [row for t in tables for row in t[1:]] == body


def test_types_are_found(stoker, tmp_path):
    """Numbers read as text, or text as numbers, would change what a model is trained on."""
    src = tmp_path / "t.csv"
    src.write_text("key,label,x,code,name,gap,big\n"
                   "a,3,1.5,007,x,1,99999999999999999999\n"
                   "b, 4 ,2,008,,,1\n")
    second = stoker("inspect", src, "--sample", "1", "--json", "-", "--quiet").json()
    assert {f["name"]: f["preview"] for f in second["result"]["fields"]} == {
        "label": "4", "x": "2", "code": "008", "name": "", "gap": "nan", "big": "1"}
    text = stoker("inspect", src, "--sample", "0", "--json", "-", "--quiet").json()
    kinds = {f["name"]: f.get("dtype", f["kind"]) for f in text["result"]["fields"]}
    assert kinds == {"label": "int64", "x": "float64", "code": "text", "name": "text",
                     "gap": "float64", "big": "text"}


def test_empty_cells(stoker, tmp_path):
    """A missing number must be told from zero."""
    src = tmp_path / "t.csv"
    src.write_text("a,b,c\n1,,x\n,2.5,\n3,1,y\n")
    out = packed(stoker, src, tmp_path / "out", "npz")
    arrays = numpy.load(out[0])
    assert numpy.array_equal(arrays["a"], [1, math.nan, 3], equal_nan=True)
    assert numpy.array_equal(arrays["b"], [math.nan, 2.5, 1], equal_nan=True)


@pytest.mark.parametrize("text,samples", [
    ("1,2\n3,4\n", [{"c0": 1, "c1": 2}, {"c0": 3, "c1": 4}]),  # no header
    ("a,b\n1,2\n", [{"a": 1, "b": 2}]),
    ("a,b\r\n1,2\r\n\r\n3,4", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),  # blank line, no last newline
    ("\ufeffa,b\n1,2\n", [{"a": 1, "b": 2}]),  # byte order mark
    ("name\nx\ny\n", [{"name": "x"}, {"name": "y"}]),
    ("x,x\nx,x\n", [{"c0": "x", "c1": "x"}] * 2),  # no names: not distinct
    ("a,a,\n1,2,3\n", [{"a": 1, "a.1": 2, "c2": 3}]),
    ("x_0,x_1,y\n1,2,3\n", [{"x": [1, 2], "y": 3}]),  # elements of an array
    ('a\n"1\n', None),  # never closed
])
def test_header_rule(stoker, tmp_path, text, samples):
    """A header taken for data is a sample of nonsense; data taken for a header is a sample lost."""
    src = tmp_path / "t.csv"
    src.write_bytes(text.encode())
    if samples is None:
        assert stoker("pack", src, tmp_path / "out", "--format", "jsonl", rc=4)
        return
    found = read_samples(stoker, src, tmp_path)
    for s in found:
        s.pop("key")  # made up: there was none
    assert found == samples


def test_floats_survive(stoker, tmp_path):
    """A float that changes in its last bit makes a packed table another table."""
    rng = numpy.random.default_rng(1)
    for dtype in ("float32", "float64"):
        bits = rng.integers(0, 2**32, (50, 40), dtype="uint32" if dtype == "float32" else "uint64")
        values = numpy.where(rng.random((50, 40)) < 0.5, bits.view(dtype)[:, :40],
                             rng.random((50, 40)).astype(dtype)).astype(dtype)
        values[~numpy.isfinite(values)] = 0
        values[0, :4] = [0.1, -0.0, 1e-45 if dtype == "float32" else 5e-324, 1]
        numpy.save(tmp_path / f"{dtype}.npy", values)
        shard, = packed(stoker, tmp_path / f"{dtype}.npy", tmp_path / f"out-{dtype}", "csv")
        table = read_csv(shard)
        assert table[0][1:] == [f"data_{i}" for i in range(40)]
        assert numpy.array_equal(numpy.array([r[1:] for r in table[1:]], dtype=dtype), values)
        back, = packed(stoker, shard, tmp_path / f"back-{dtype}", "npz")
        assert numpy.array_equal(numpy.load(back)["data"].astype(dtype), values)


def test_sixty_thousand_columns(stoker, tmp_path):
    """Gene expression tables are this wide."""
    names = [f"ENSG{i:011d}" for i in range(60483)]
    rng = random.Random(5)
    rows = [[f"cell{r}", *(f"{rng.random():.3f}" for _ in names)] for r in range(3)]
    src = write_csv(tmp_path / "wide.csv", [["key", *names], *rows])
    shard, = packed(stoker, src, tmp_path / "out", "csv")
    table = read_csv(shard)
    assert table[0] == ["key", *names]
    assert [[float(v) for v in r[1:]] for r in table[1:]] == [
        [float(v) for v in r[1:]] for r in rows]
    array = numpy.random.default_rng(2).random((3, 60484), dtype="float32")
    numpy.save(tmp_path / "wide.npy", array)
    shard, = packed(stoker, tmp_path / "wide.npy", tmp_path / "array", "csv")
    back, = packed(stoker, shard, tmp_path / "back", "npz")
    assert numpy.array_equal(numpy.load(back)["data"].astype("float32"), array)


def test_files_of_differing_types(stoker, tmp_path):
    """A column of integers in one file and floats in the next is one column."""
    src = tmp_path / "parts"
    src.mkdir()
    (src / "a.csv").write_text("x,y\n1,2\n")
    (src / "b.csv").write_text("x,y\n1.5,z\n")
    (src / "c.csv").write_text("x,y\n")
    found = read_samples(stoker, src, tmp_path)
    assert [(s["x"], s["y"]) for s in found] == [(1.0, "2"), (1.5, "z")]
    (src / "d.csv").write_text("x,other\n1,2\n")
    result = stoker("pack", src, tmp_path / "no", "--format", "jsonl", rc=4)
    assert "other" in result.err and "d.csv" in result.err


def test_gzip(stoker, tmp_path):
    """Tables are often kept compressed; samples in the middle must be found without unpacking."""
    names, body = text_table(random.Random(6), 30, 12000)
    plain = write_csv(tmp_path / "t.csv", [names, *body])
    src = tmp_path / "t.csv.gz"
    src.write_bytes(gzip.compress(plain.read_bytes(), 1))
    assert read_samples(stoker, src, tmp_path) == [dict(zip(names, row)) for row in body]


@pytest.mark.parametrize("sample,reason", [
    ({"key": "k", "data": {"$base64": "/9j/4A=="}}, "image bytes cannot go into CSV"),
    ({"key": "k", "m": [[1, 2], [3, 4]]}, "more than one dimension"),
    ({"key": "k", "t": "a\0b"}, "NUL"),
])
def test_refused_with_the_reason(stoker, tmp_path, sample, reason):
    """What has no cell must be refused before a shard is written, not written wrong."""
    (tmp_path / "t.jsonl").write_text(json.dumps(sample) + "\n")
    result = stoker("pack", tmp_path / "t.jsonl", tmp_path / "out", "--format", "csv", rc=4)
    assert reason in result.err and "sample k" in result.err
    assert not (tmp_path / "out").exists()


def test_wide_integers_with_gaps(stoker, tmp_path):
    """An identifier past 2^53 loses digits as a float, the way gaps are read otherwise."""
    first, last = 2 ** 53 + 1, 2 ** 63 - 1
    for name, rows in {"near": [first, "", last], "far": [*range(first, first + 1500), "", last],
                       "late": ["", *range(1500), last]}.items():
        src = tmp_path / f"{name}.csv"
        src.write_text("id,x\n" + "".join(f"{r},0.5\n" for r in rows))
        got = [s["id"] for s in read_samples(stoker, src, tmp_path)]
        assert got == [None if r == "" else r for r in rows]
    src.write_text("id,x\n1,0.5\n,0.5\n")
    assert "nan" in stoker("inspect", src, "--sample", "1", "--json", "-", "--quiet").out


def test_wide_integers_with_gaps_in_some_files(stoker, tmp_path):
    """The files of a dataset settle on what loses no digit of any of them."""
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "a.csv").write_text(f"id,x\n{2 ** 53 + 1},1\n,2\n")
    (folder / "b.csv").write_text(f"id,x\n{2 ** 53 + 3},1\n5,2\n")
    (folder / "c.csv").write_text("id,x\n,1\n")
    got = [s["id"] for s in read_samples(stoker, folder, tmp_path)]
    assert got == [2 ** 53 + 1, None, 2 ** 53 + 3, 5, None]
    (folder / "c.csv").write_text("id,x\n1.5,1\n")
    got = [s["id"] for s in read_samples(stoker, folder, tmp_path)]
    assert got[0] == str(2 ** 53 + 1) and got[-1] == "1.5"



def test_bad_rows_are_named(stoker, tmp_path):
    """One short row must not cost the table, and must be found."""
    src = tmp_path / "t.csv"
    src.write_text("a,b\n1,2\n3\n4,5,6\n7,8\n9,x\n")
    rc, problems = verify(stoker, src, "csv")
    assert rc == 1
    assert [p["offset"] for p in problems] == [8, 10]
    src.write_text("a,b\n" + "1,2\n" * 1500 + "9,x\n")
    rc, problems = verify(stoker, src, "csv")
    assert rc == 1 and [p["offset"] for p in problems] == [6004]
    assert "column b" in problems[0]["what"] and "'x'" in problems[0]["what"]


@pytest.mark.parametrize("text, word", [(b"\xff\xfea\0b\0", "UTF-16"), (b"a\rb\rc\r", "CR"),
                                        (b"," * 2_000_000 + b"\n1\n", "columns")],
                         ids=["utf-16", "cr", "wide"])
def test_foreign_text(stoker, tmp_path, text, word):
    """A table that Excel saved as Unicode text is not damaged: it says what it is, and what to do."""
    (tmp_path / "t.csv").write_bytes(text)
    rc, [problem] = verify(stoker, tmp_path / "t.csv", "csv")
    assert rc == 3 and problem["code"] == "unsupported" and word in problem["what"]


def test_damaged(stoker, tmp_path):
    """No damage may crash us or take memory without bound."""
    whole = b'key,label,x,t\na,1,2.5,"q""x"\nb,2,3,"l\nm"\n'
    cut_everywhere(whole, tmp_path / "cut", ".csv")
    for path in sorted((tmp_path / "cut").iterdir())[::1 if LONG else 4]:
        assert verify(stoker, path, "csv")[0] in (0, 1, 4)
    for i, damaged in enumerate(flipped(whole, 60 if LONG else 12)):
        path = tmp_path / f"flip{i}.csv"
        path.write_bytes(damaged)
        verify(stoker, path, "csv")
    for i, hostile in enumerate([b'"' * 100_001, b"\0" * 1000,
                                 b"a,b\n" + b'"' + b"x\n" * 100_000]):
        path = tmp_path / f"hostile{i}.csv"
        path.write_bytes(hostile)
        assert verify(stoker, path, "csv")[0] in (1, 4)


WIDE = 2**53 + 1


def test_one_type_over_all_files(stoker, tmp_path):
    """An identifier past 2^53 would lose digits because another file has a gap, or a float."""
    files = {"0.csv": f"id,x,y,n\n{WIDE},{WIDE},1,1\n", "1.csv": "id,x,y,n\n,0.5,2,2\n7,1.5,2.5,3\n"}
    for name, text in files.items():
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / name).write_text(text)
    rows = read_samples(stoker, tmp_path / "d", tmp_path)
    assert [r["id"] for r in rows] == [WIDE, None, 7]
    assert [r["x"] for r in rows] == [str(WIDE), "0.5", "1.5"]
    assert repr([r["y"] for r in rows]) == "[1.0, 2.0, 2.5]" and [r["n"] for r in rows] == [1, 2, 3]
    one = "id,x,y,n\n" + "".join(text.partition("\n")[2] for text in files.values())
    (tmp_path / "one.csv").write_text(one)
    same = read_samples(stoker, tmp_path / "one.csv", tmp_path)
    assert repr([{**r, "key": 0} for r in same]) == repr([{**r, "key": 0} for r in rows])
    said = stoker("inspect", tmp_path / "one.csv", "--json", "-", "-q").json()["result"]["taken"]
    assert any(t["as"] == "text: 'x'" and "a float would change" in t["because"] for t in said)
    told = read_samples(stoker, tmp_path / "one.csv", tmp_path, "--types", "x=float")
    assert [r["x"] for r in told] == [float(WIDE), 0.5, 1.5]


@pytest.mark.parametrize("cell", ["", '""', " ", '" "'])
def test_an_empty_cell_is_null_however_it_is_written(stoker, tmp_path, cell):
    """pandas with QUOTE_ALL: the table was refused, as '' is no integer."""
    (tmp_path / "t.csv").write_text(f'a,b\n"{WIDE}",1\n{cell},2\n')
    for source in (tmp_path / "t.csv", tmp_path / "packed"):
        assert [r["a"] for r in read_samples(stoker, source, tmp_path)] == [WIDE, None]
        stoker("pack", tmp_path / "t.csv", tmp_path / "packed", "--format", "csv", "--force")


def test_a_float_past_float64_stays_what_it_is(stoker, tmp_path):
    """It came as inf; JSON kept it."""
    (tmp_path / "t.csv").write_text("a,b,c\n1e400,inf,-1E999\n0.5,-Infinity,INF\n")
    found = read_samples(stoker, tmp_path / "t.csv", tmp_path, "--types", "b=text")
    assert [(r["a"], r["c"]) for r in found] == [("1e400", "-1E999"), ("0.5", "INF")]
    taken = stoker("inspect", tmp_path / "t.csv", "--json", "-", "-q").json()["result"]["taken"]
    assert {t["as"] for t in taken if "64 bits" in t["because"]} == {"text: 'a'", "text: 'c'"}
    fields = stoker("inspect", tmp_path / "t.csv", "--json", "-", "-q").json()["result"]["fields"]
    assert [f["kind"] for f in fields] == ["text", "array", "text"]


def test_what_is_said_of_columns_and_delimiters(stoker, tmp_path):
    """A name that stands twice gets another, a delimiter is guessed: both are said, the latter overruled."""
    (tmp_path / "t.csv").write_text("a,a,a.1\n1,2,3\n")
    assert [*read_samples(stoker, tmp_path / "t.csv", tmp_path)[0].values()][1:] == [1, 2, 3]
    taken = {t["as"]: t for t in stoker("inspect", tmp_path / "t.csv", "--json", "-").json()["result"]["taken"]}
    assert "called 'a'" in taken["'a.1'"]["because"]
    (tmp_path / "b.csv").write_text("a|b\n1|x\n2|y\n")
    for options, fields in (((), ["a", "b"]), (("--delimiter", "comma"), ["a|b"]), ((), ["a", "b"])):
        result = stoker("inspect", tmp_path / "b.csv", "--json", "-", *options).json()["result"]
        assert [f["name"] for f in result["fields"]] == fields
        assert any(t["what"] == "delimiter" and t["as"] == "bar" for t in result["taken"]) != bool(options)


def test_a_packed_table_is_as_small_as_its_text(stoker, tmp_path):
    """Numbers become arrays: the packed copy that `advise` suggests does not take more to read."""
    draw = random.Random(1)
    (tmp_path / "t.csv").write_text(",".join(f"feature_{i}" for i in range(21)) + "\n" + "".join(
        ",".join(f"{draw.gauss(0, 1):.6f}" for _ in range(21)) + "\n" for _ in range(3000)))
    stoker("pack", tmp_path / "t.csv", tmp_path / "packed", "--format", "npz", "--quiet")
    size = sum(f.stat().st_size for f in (tmp_path / "packed").iterdir())
    assert size < 1.2 * (tmp_path / "t.csv").stat().st_size
    assert read_samples(stoker, tmp_path / "packed", tmp_path) == read_samples(stoker, tmp_path / "t.csv", tmp_path)
