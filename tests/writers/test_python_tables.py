"""CSV, JSON and JSON Lines as Python's data frame libraries write them: polars, pyarrow, DuckDB,
Hugging Face datasets, orjson, simplejson, ujson, jsonlines."""

import csv
import gzip
import json
import math

import numpy as np
import pytest

from writerlib import INTS, TEXTS, compare, rows_of, same, samples, stoker, table

NAN = math.nan


def nullable(n=30):
    """A gap in every column; what CSV makes of a gap stands in `csv_rows`."""
    return {
        "i": [None if k % 7 == 3 else k for k in range(n)],
        "f": [None if k % 7 == 4 else k / 8 for k in range(n)],
        "s": [None if k % 7 == 5 else f"s{k}" for k in range(n)],
        "n": list(range(n)),
    }


def csv_rows(columns):
    """As CSV has it: a gap is nan among numbers, empty among texts; text is never a number."""
    gaps = {"i": NAN, "f": NAN, "s": ""}
    rows = rows_of(columns)
    for row in rows:
        for name, value in row.items():
            if value is None:
                row[name] = gaps[name]
            elif name == "i" and None in columns["i"]:
                row[name] = float(value)
    return rows


def nested(n=20):
    """What JSON has and CSV has not. Values keep their types over the rows."""
    return [{"key": f"k/{i}", "id": INTS[i % len(INTS)], "s": TEXTS[i % len(TEXTS)], "v": [i, -i, 2 ** 40],
             "f": [i / 3, 1e300, -0.5], "ok": i % 2 == 0, "m": [[1, 2], [3, i]],
             "o": {"a": {"b": [i, None]}, "e": ""}, "words": ["a", "", f"\u00e9{i}"],
             "none": None} for i in range(n)]


# ---- polars ----

@pytest.mark.parametrize("options", [{}, {"quote_style": "always"}, {"separator": ";"},
                                     {"separator": "\t"}, {"include_bom": True},
                                     {"line_terminator": "\r\n"}, {"quote_style": "non_numeric"}])
def test_polars_csv(tmp_path, options):
    pl = pytest.importorskip("polars")
    pl.DataFrame(table()).write_csv(tmp_path / "t.csv", **options)
    compare(tmp_path / "t.csv", rows_of(table()))


def test_polars_csv_gaps(tmp_path):
    pl = pytest.importorskip("polars")
    pl.DataFrame(nullable()).write_csv(tmp_path / "t.csv")
    compare(tmp_path / "t.csv", csv_rows(nullable()))


def test_polars_csv_large_integers_with_gaps(tmp_path):
    """Identifiers past 2^53 lose digits as floats: a gap among them must not make them floats."""
    pl = pytest.importorskip("polars")
    ids = [2 ** 53 + 1, None, 2 ** 62 + 3]
    pl.DataFrame({"id": ids, "n": [1, 2, 3]}).write_csv(tmp_path / "t.csv")
    compare(tmp_path / "t.csv", rows_of({"id": ids, "n": [1, 2, 3]}))


def test_polars_csv_numbers(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({
        "odd": [NAN, 1.5, math.inf, -math.inf], "f32": pl.Series([0.1, 1e-7, 3e38, -0.0], dtype=pl.Float32),
        "u64": pl.Series([0, 1, 2 ** 63, 2 ** 64 - 1], dtype=pl.UInt64),
        "i8": pl.Series([-128, 127, 0, 1], dtype=pl.Int8), "b": [True, False, True, False]})
    frame.write_csv(tmp_path / "t.csv")
    want = frame.to_dict(as_series=False)
    want["u64"] = [str(v) for v in want["u64"]]  # past int64: text, since a float would change it
    want["b"] = ["true", "false"] * 2
    want["f32"] = [float(str(np.float32(v))) for v in want["f32"]]
    compare(tmp_path / "t.csv", rows_of(want))


@pytest.mark.parametrize("rows", [0, 1, 25000])
def test_polars_csv_rows(tmp_path, rows):
    pl = pytest.importorskip("polars")
    columns = {"a": list(range(rows)), "t": [f"x{i}\n" for i in range(rows)]}
    pl.DataFrame(columns, schema={"a": pl.Int64, "t": pl.String}).write_csv(tmp_path / "t.csv")
    compare(tmp_path / "t.csv", rows_of(columns))


@pytest.mark.parametrize("how", ["write_ndjson", "write_json"])
def test_polars_json(tmp_path, how):
    pl = pytest.importorskip("polars")
    rows = [{k: v for k, v in r.items() if k != "none"} for r in nested()]
    name = "t.jsonl" if how == "write_ndjson" else "t.json"
    getattr(pl.DataFrame(rows), how)(tmp_path / name)
    compare(tmp_path / name, rows)


def test_polars_ndjson_gaps(tmp_path):
    pl = pytest.importorskip("polars")
    pl.DataFrame({**nullable(), "x": [NAN, math.inf, -math.inf] * 10}).write_ndjson(tmp_path / "t.ndjson")
    with open(tmp_path / "t.ndjson") as f:
        compare(tmp_path / "t.ndjson", [json.loads(line) for line in f])


# ---- pyarrow ----

@pytest.mark.parametrize("options", [{}, {"quoting_style": "all_valid"}, {"delimiter": ";"},
                                     {"delimiter": "\t"}, {"batch_size": 3}])
def test_pyarrow_csv(tmp_path, options):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    pa.csv.write_csv(pa.table(table()), tmp_path / "t.csv", pa.csv.WriteOptions(**options))
    compare(tmp_path / "t.csv", rows_of(table()))


def test_pyarrow_csv_gaps_and_gzip(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    with pa.CompressedOutputStream(str(tmp_path / "t.csv.gz"), "gzip") as out:
        pa.csv.write_csv(pa.table(nullable()), out)
    compare(tmp_path / "t.csv.gz", csv_rows(nullable()))


def test_pyarrow_csv_texts_of_digits(tmp_path):
    """pyarrow quotes every text and no number: "7" was a text."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    columns = {"zip": ["12345", "99501"], "n": [1, 2], "name": ["a", "b"]}
    pa.csv.write_csv(pa.table(columns), tmp_path / "t.csv")
    compare(tmp_path / "t.csv", rows_of(columns), types={"zip": "text"})


def test_pyarrow_csv_is_read_by_pyarrow_alike(tmp_path):
    """What pyarrow's own reader makes of the file, type by type."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    columns = {"a": [1, 2, 3], "b": [0.5, NAN, -math.inf], "c": ["x", "", "z"]}
    pa.csv.write_csv(pa.table(columns), tmp_path / "t.csv")
    options = pa.csv.ConvertOptions(null_values=[])  # else nan is a null to it
    compare(tmp_path / "t.csv", pa.csv.read_csv(tmp_path / "t.csv", convert_options=options).to_pylist())


# ---- DuckDB ----

def duck(sql, **tables):
    duckdb = pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    with duckdb.connect() as c:
        for name, columns in tables.items():
            c.register(name, pa.table(columns))
        c.execute(sql)


@pytest.mark.parametrize("options", ["", ", delim ';'", ", delim '\t'", ", force_quote *", ", header"])
def test_duckdb_csv(tmp_path, options):
    duck(f"copy t to '{tmp_path}/t.csv' (format csv{options})", t=table())
    compare(tmp_path / "t.csv", rows_of(table()))


def test_duckdb_csv_gaps(tmp_path):
    """An empty text is quoted, a gap is not."""
    duck(f"copy t to '{tmp_path}/t.csv' (format csv)", t=nullable())
    compare(tmp_path / "t.csv", csv_rows(nullable()))


def test_duckdb_csv_numbers(tmp_path):
    duck(f"""copy (select * from (values (1.5::double, 170141183460469231731687303715884105727::hugeint,
             1.10::decimal(9,2), true, date '2024-01-02', [1,2]),
             ('nan'::double, 1::hugeint, -2.25::decimal(9,2), false, date '1999-12-31', []),
             ('-inf'::double, 2::hugeint, 0::decimal(9,2), true, null, null)) v(f, h, d, b, t, l))
             to '{tmp_path}/t.csv' (format csv)""")
    big = str(2 ** 127 - 1)
    compare(tmp_path / "t.csv", [
        {"f": 1.5, "h": big, "d": 1.1, "b": "true", "t": "2024-01-02", "l": "[1, 2]"},
        {"f": NAN, "h": "1", "d": -2.25, "b": "false", "t": "1999-12-31", "l": "[]"},
        {"f": -math.inf, "h": "2", "d": 0.0, "b": "true", "t": "", "l": ""}])


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_duckdb_json(tmp_path, array, compression):
    pytest.importorskip("duckdb")
    name = tmp_path / ("t.json" + (".gz" if compression == "gzip" else ""))
    duck(f"copy t to '{name}' (format json, array {str(array).lower()}, compression {compression})",
         t={**table(), "v": [[i, 2 ** 40] for i in range(40)], "o": [{"a": i, "b": None} for i in range(40)]})
    text = (gzip.open(name) if compression == "gzip" else open(name, "rb")).read().decode()
    compare(name, json.loads(text) if array else [json.loads(line) for line in text.split("\n") if line])
    assert same([s["id"] for s in samples(name)], table()["id"])


def test_duckdb_json_long_rows(tmp_path):
    """DuckDB calls JSON Lines `.json`; a first row of more than 4 KiB must not hide that."""
    rows = {"text": ["x" * 9000 + str(i) for i in range(5)], "n": list(range(5))}
    duck(f"copy t to '{tmp_path}/t.json' (format json)", t=rows)
    compare(tmp_path / "t.json", rows_of(rows))


# ---- Hugging Face datasets ----

@pytest.mark.parametrize("name,options", [("t.jsonl", {}), ("t.json", {}), ("t.json", {"lines": False}),
                                          ("t.jsonl.gz", {"compression": "gzip"})])
def test_datasets_json(tmp_path, name, options):
    datasets = pytest.importorskip("datasets")
    if options.get("lines") is False:
        options["orient"] = "records"
    data = datasets.Dataset.from_list(nested())
    data.to_json(tmp_path / name, **options)  # pandas rounds floats to ten digits
    text = (gzip.open if name.endswith("gz") else open)(tmp_path / name, "rb").read().decode()
    compare(tmp_path / name, json.loads(text) if options.get("lines") is False else
            [json.loads(line) for line in text.split("\n") if line])


def test_datasets_csv(tmp_path):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict(table())
    data.to_csv(tmp_path / "t.csv")
    compare(tmp_path / "t.csv", data.to_list())


# ---- JSON libraries ----

def json_value(text):
    return json.loads(text)


@pytest.mark.parametrize("writer", ["orjson", "ujson", "simplejson", "rapidjson", "msgspec.json"])
@pytest.mark.parametrize("shape", ["array", "lines"])
def test_json_libraries(tmp_path, writer, shape):
    module = pytest.importorskip(writer)
    encode = getattr(module, "encode" if writer == "msgspec.json" else "dumps")
    def dump(value):
        out = encode(value)
        return out if isinstance(out, bytes) else out.encode()
    rows = [{**r, "\u00e9 key/%.\"": 1, "": i, "big": 2 ** 63 + i} for i, r in enumerate(nested())]
    if shape == "array":
        (tmp_path / "t.json").write_bytes(dump(rows))
        compare(tmp_path / "t.json", json.loads(dump(rows)))
    else:
        (tmp_path / "t.jsonl").write_bytes(b"\n".join(map(dump, rows)))
        compare(tmp_path / "t.jsonl", [json.loads(dump(r)) for r in rows])


def test_orjson_numpy_and_indent(tmp_path):
    orjson = pytest.importorskip("orjson")
    rows = [{"x": np.arange(12, dtype=np.float32).reshape(3, 4) / 7, "i": np.int16(-3), "nan": NAN,
             "t": np.datetime64("2024-01-02")} for _ in range(3)]
    text = orjson.dumps(rows, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2)
    (tmp_path / "t.json").write_bytes(text)
    compare(tmp_path / "t.json", json.loads(text))


def test_simplejson_nan_and_decimals(tmp_path):
    """Decimals keep their digits. NaN is a number, as Python's json module writes it."""
    simplejson = pytest.importorskip("simplejson")
    from decimal import Decimal
    rows = [{"y": Decimal("1.10"), "z": [1.0, 0.1]}, {"y": Decimal("2.50"), "z": [2.0, 0.5]}]
    (tmp_path / "t.jsonl").write_text("\n".join(map(simplejson.dumps, rows)))
    compare(tmp_path / "t.jsonl", [{**r, "y": float(r["y"])} for r in rows])
    (tmp_path / "n.jsonl").write_text(simplejson.dumps({"x": NAN}, allow_nan=True))
    compare(tmp_path / "n.jsonl", [{"x": NAN}])
    (tmp_path / "i.jsonl").write_text(simplejson.dumps({"x": NAN}, ignore_nan=True))
    compare(tmp_path / "i.jsonl", [{"x": None}])


def test_jsonlines(tmp_path):
    jsonlines = pytest.importorskip("jsonlines")
    with jsonlines.open(tmp_path / "t.jsonl", "w", compact=True, sort_keys=True) as f:
        f.write_all(nested())
    compare(tmp_path / "t.jsonl", nested())


def test_jsonlines_scalars(tmp_path):
    """Lines that are no objects."""
    jsonlines = pytest.importorskip("jsonlines")
    with jsonlines.open(tmp_path / "t.jsonl", "w") as f:
        f.write_all([1, 2, 3])
    compare(tmp_path / "t.jsonl", [{"data": v} for v in (1, 2, 3)])
