"""What is guessed is decided over the dataset: payload, header, types. Each of these was wrong once."""

import csv
import json
import os
import struct

import pytest


def write_rec(path, records):
    with open(path, "wb") as f:
        for r in records:
            f.write(struct.pack("<II", 0xced7230a, len(r)) + r + b"\0" * (-len(r) % 4))


def image(label, data, number=0, id2=0):
    return struct.pack("<IfQQ", 0, label, number, id2) + data


def rows(stoker, src, tmp_path, *options):
    out = tmp_path / "view"
    stoker("pack", src, out, "--format", "jsonl", "--force", *options)
    return [json.loads(x) for x in next(out.glob("*.jsonl")).read_bytes().splitlines()]


def taken(stoker, src, *options):
    return {t["what"]: t["as"] for t in
            stoker("inspect", src, "--json", "-", *options).json()["result"]["taken"]}


@pytest.mark.parametrize("records", [
    [image(1, os.urandom(5_000_000)), image(2, b"abc", 1)],
    [image(1, b"abc", 0, 7), image(2, b"def", 1, 1 << 60)],
    [image(1, b"abc", 1 << 60), image(2, b"def", 1)]])
def test_image_records_are_known_by_their_header(stoker, tmp_path, records):
    """Not by size or ids: else the header stays in the data and the label is lost."""
    write_rec(tmp_path / "a.rec", records)
    assert taken(stoker, tmp_path / "a.rec")["payload"] == "image"
    assert [r["label"] for r in rows(stoker, tmp_path / "a.rec", tmp_path)] == [1, 2]
    raw = rows(stoker, tmp_path / "a.rec", tmp_path, "--from-payload", "raw")
    assert "label" not in raw[0]
    assert "payload" in taken(stoker, tmp_path / "a.rec")  # what was told once is not kept


def crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        table.append(n)
    return table


def masked(data, table=crc_table()):
    crc = 0xffffffff
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def write_tfrecord(path, records):
    with open(path, "wb") as f:
        for r in records:
            n = struct.pack("<Q", len(r))
            f.write(n + struct.pack("<I", masked(n)) + r + struct.pack("<I", masked(r)))


EXAMPLE = b"\x0a\x0c\x0a\x0a\x0a\x01n\x12\x05\x1a\x03\x0a\x01\x07"  # n: int64_list [7]


@pytest.mark.parametrize("first", [b"", b"\x0a\x00"])
def test_a_first_example_may_be_empty(stoker, tmp_path, first):
    """Else the whole file is raw, and packing puts Examples into Examples."""
    write_tfrecord(tmp_path / "a.tfrecord", [first, EXAMPLE, EXAMPLE])
    assert taken(stoker, tmp_path / "a.tfrecord")["payload"] == "example"
    assert [r.get("n") for r in rows(stoker, tmp_path / "a.tfrecord", tmp_path)] == [None, [7], [7]]


def test_payloads_that_are_found_can_be_told(stoker, tmp_path):
    """What inspect calls a payload, --payload takes."""
    write_tfrecord(tmp_path / "a.tfrecord", [b'{"n":1}', b'{"n":2}'])
    assert taken(stoker, tmp_path / "a.tfrecord")["payload"] == "json"
    stoker("inspect", tmp_path / "a.tfrecord", "--payload", "json")


def kinds(packed):
    """The kinds of feature each name has over all records: 1 bytes, 2 float, 3 int64."""
    found = {}
    for record in rows_of(packed):
        for name in (b"label", b"v"):
            where = record.find(b"\x0a" + bytes([len(name)]) + name + b"\x12")
            if where >= 0:
                found.setdefault(name.decode(), set()).add(record[where + len(name) + 4] >> 3)
    return found


def rows_of(packed):
    for file in sorted(packed.glob("*.tfrecord")):
        data, at = file.read_bytes(), 0
        while at < len(data):
            n, = struct.unpack_from("<Q", data, at)
            yield data[at + 12:at + 12 + n]
            at += n + 16


def test_a_field_is_one_kind_of_feature(stoker, tmp_path):
    """tf.io.parse_single_example knows one description for all records."""
    write_rec(tmp_path / "a.rec", [image(x, b"abc", i) for i, x in enumerate([0, .5, 1])])
    stoker("pack", tmp_path / "a.rec", tmp_path / "rec", "--format", "tfrecord")
    assert kinds(tmp_path / "rec") == {"label": {2}}
    (tmp_path / "a.jsonl").write_text('{"v":1}\n{"v":2.5}\n')
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "lines", "--format", "tfrecord")
    assert len(kinds(tmp_path / "lines")["v"]) == 1


def test_what_cannot_be_one_type_is_refused(stoker, tmp_path):
    """Before writing, with the field, both types and the first sample of each."""
    (tmp_path / "a.jsonl").write_text('{"key":"p","v":1}\n{"key":"q","v":2}\n{"key":"r","v":"x"}\n')
    for fmt in ("tfrecord", "tar", "npz", "csv"):
        err = stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", "--format", fmt, rc=4).err
        assert all(word in err for word in ("'v'", "int64", "text", "sample p", "sample r")), err
        assert not (tmp_path / "o").exists()
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", "--format", "tfrecord", "--on-error",
           "skip", rc=3)
    assert [r["key"] for r in rows(stoker, tmp_path / "o", tmp_path)] == ["p", "q"]
    (tmp_path / "a.jsonl").write_text('{"v":9007199254740993}\n{"v":0.5}\n')
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "o2", "--format", "npz", rc=4)


@pytest.mark.parametrize("text,header,names", [
    ("0,1,2\n5,6,7\n8,9,10\n", True, ["0", "1", "2"]),
    (",0,1\n0,5,6\n1,8,9\n", True, ["c0", "0", "1"]),
    ("0\n1.5\n2.5\n", True, ["0"]),
    ("id,2019,2020\n1,5,6\n2,8,9\n", True, ["id", "2019", "2020"]),
    ("0,1\n1,0\n", False, ["c0", "c1"]),
    ("a.jpg,cat\nb.jpg,dog\nc.jpg,cat\n", False, ["c0", "c1"]),
    ("name,kind\nb.jpg,dog\nc.jpg,cat\n", True, ["name", "kind"])])
def test_header(stoker, tmp_path, text, header, names):
    """A header is no row of data, and a row of data no header; both can be told."""
    (tmp_path / "t.csv").write_text(text)
    n = len(list(csv.reader(text.splitlines())))
    found = rows(stoker, tmp_path / "t.csv", tmp_path)
    assert len(found) == n - header and sorted(set(found[0]) - {"key"}) == sorted(names)
    for word, there in (("yes", True), ("no", False)):
        told = stoker("inspect", tmp_path / "t.csv", "--header", word, "--json", "-").json()
        assert told["result"]["samples"] == n - there and not told["result"]["taken"]
    assert len(rows(stoker, tmp_path / "t.csv", tmp_path)) == n - header


def test_types_over_all_rows(stoker, tmp_path):
    """What comes after the first thousand rows counts, too."""
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n" * 1500 + "2.5,\n")
    found = rows(stoker, tmp_path / "t.csv", tmp_path, "--types", "y=text")
    assert found[-1]["x"] == 2.5 and found[-1]["y"] == "" and found[0]["y"] == "2"
    stoker("pack", tmp_path / "t.csv", tmp_path / "o", "--format", "npz")
    assert "int" in stoker("inspect", tmp_path / "t.csv", "--types", "x=decimal", rc=2).err


def test_float_labels(stoker, tmp_path):
    """Targets of a regression are no classes."""
    (tmp_path / "d").mkdir()
    for name in "abc":
        (tmp_path / "d" / name).write_text(name)
    (tmp_path / "l.csv").write_text("key,label\na,0.37\nb,0.74\nc,1.11\n")
    found = rows(stoker, tmp_path / "d", tmp_path, "--label-from", f"csv:{tmp_path}/l.csv")
    assert [r["label"] for r in found] == [0.37, 0.74, 1.11]


def test_resume_of_a_whole_dataset(stoker, tmp_path):
    """A job that is requeued after its work is done has not failed."""
    (tmp_path / "a.jsonl").write_text('{"v":1}\n{"v":2}\n')
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", "--format", "npz")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "o").iterdir()}
    done = stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", "--format", "npz", "--resume")
    assert "already complete" in done.out
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "o").iterdir()}
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", "--format", "csv", "--resume", rc=4)


@pytest.mark.parametrize("value,word", [('"\\ud800"', "surrogate"),
                                        ("[" * 70 + "]" * 70, "64")])
def test_json_is_refused_by_name(stoker, tmp_path, value, word):
    """Python writes these: the reason must be found in the message."""
    (tmp_path / "a.jsonl").write_text('{"v":%s}\n' % value)
    assert word in stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", rc=4).err


def test_names_that_look_like_companions(stoker, tmp_path):
    """NPZ has no folders: bad and bad/shape are two arrays."""
    (tmp_path / "a.jsonl").write_text('{"bad":[1,2,3],"bad/shape":[7,7]}\n' * 2)
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "t", "--format", "tfrecord")
    stoker("pack", tmp_path / "t", tmp_path / "n", "--format", "npz")
    assert rows(stoker, tmp_path / "n", tmp_path)[0]["bad/shape"] == [7, 7]
    assert "group" in stoker("pack", tmp_path / "t", tmp_path / "h", "--format", "hdf5", rc=4).err
    (tmp_path / "a.jsonl").write_text('{"v":[1,2,3,4],"v/shape":[2,2]}\n')
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "s", "--format", "tfrecord", rc=4)


@pytest.mark.parametrize("row, told", [
    ({"": 1}, "empty name"), ({"x": [1], "": [1]}, "empty name"), ({"__key__": 1}, "'__key__'"),
    ({"__key__": "a"}, "'__key__'"), ({"x/shape": 1}, "'x/shape'"), ({"x/dtype": "a"}, "'x/dtype'"),
    ({"x/shape": [True]}, "'x/shape'"), ({"x": 1, "x/shape": []}, "'x/shape'"),
    ({"x": [[1]], "x/shape": [1, 1]}, "x/shape"), ({"x": "t", "x/dtype": "json"}, "x/dtype")])
@pytest.mark.parametrize("payload", ["example", "sequence"])
def test_names_that_an_example_has_for_itself(stoker, tmp_path, row, told, payload):
    """Such a field would be read back as another value, or as a part of another field."""
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    done = stoker("pack", tmp_path / "a.jsonl", tmp_path / "t", "--format", "tfrecord", "--payload", payload,
                  rc=4)
    assert told in done.err and not (tmp_path / "t").exists()


@pytest.mark.parametrize("row", [{"x/shape": [1, 2]}, {"x/shape": [1.5]}, {"x": 1.5, "y/dtype": [1, 2]},
                                 {"x": [1, 2], "x/shape": [3]}, {"key/shape": [4]}])
@pytest.mark.parametrize("payload", ["example", "sequence"])
def test_names_that_only_look_reserved(stoker, tmp_path, row, payload):
    """Refusing those would keep sound data from being packed."""
    (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "t", "--format", "tfrecord", "--payload", payload)
    assert rows(stoker, tmp_path / "t", tmp_path) == [{"key": "00000000", **row}]


@pytest.mark.parametrize("form", ["npz", "hdf5", "csv"])
def test_text_with_a_nul_is_refused(stoker, tmp_path, form):
    """One field would be text in one sample and bytes in another."""
    (tmp_path / "a.jsonl").write_text('{"s":"ab"}\n{"s":"a\\u0000b"}\n')
    assert "NUL" in stoker("pack", tmp_path / "a.jsonl", tmp_path / "t", "--format", form, rc=4).err
    assert rows(stoker, tmp_path / "a.jsonl", tmp_path)[1]["s"] == "a\0b"


def test_a_key_with_two_labels(stoker, tmp_path):
    """The label of the last row would be the one, without a word."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.jpg").write_bytes(b"a")
    for labels, rc in (("cat,cat", 0), ("cat,dog", 4), ("1,1.0", 0), ("1,1.5", 4)):
        (tmp_path / "l.csv").write_text("key,label\n" + "".join(f"a.jpg,{x}\n" for x in labels.split(",")))
        said = stoker("pack", tmp_path / "d", tmp_path / "o", "--force", "--label-from",
                      f"csv:{tmp_path}/l.csv", rc=rc).err
        assert (rc == 0) != ("'a.jpg' different labels" in said)


def test_captions_are_no_classes(stoker, tmp_path):
    """A table of captions would give a class to every image."""
    (tmp_path / "d").mkdir()
    for i in range(40):
        (tmp_path / "d" / f"{i}.jpg").write_bytes(b"%d" % i)
    table = "".join(f"{i}.jpg,a picture of {i // 2 if i < 10 else i} things\n" for i in range(40))
    (tmp_path / "l.csv").write_text("file,caption\n" + table)
    result = stoker("pack", tmp_path / "d", tmp_path / "o", "--format", "jsonl", "--label-from",
                    f"csv:{tmp_path}/l.csv", "--json", "-", "--quiet").json()["result"]
    taken = {t["what"]: t for t in result["taken"]}
    assert taken["label"]["as"] == "text, in the field 'caption'" and result["classes"] == 0
    assert "35 different ones in 40 rows" in taken["label"]["because"]
    [shard] = (tmp_path / "o").glob("*.jsonl")
    found = {r["key"]: r for r in map(json.loads, shard.read_text().splitlines())}
    assert found["7.jpg"]["caption"] == "a picture of 3 things" and "label" not in found["7.jpg"]
    # Few names are classes, also when every file has its own; so are many that come again.
    for rows, classes in ((20, 20), (40, 18)):
        table = "".join(f"{i}.jpg,class {i % classes}\n" for i in range(rows))
        (tmp_path / "l.csv").write_text("file,name\n" + table)
        for i in range(rows, 40):
            (tmp_path / "d" / f"{i}.jpg").unlink()
        result = stoker("pack", tmp_path / "d", tmp_path / f"o{rows}", "--label-from",
                        f"csv:{tmp_path}/l.csv", "--json", "-", "--quiet").json()["result"]
        assert result["classes"] == classes
        for i in range(rows, 40):
            (tmp_path / "d" / f"{i}.jpg").write_bytes(b"")


@pytest.mark.parametrize("format, payload, key, fields", [
    ("recordio", None, 3, set()), ("recordio", "raw", 3, {"label"}),
    ("tfrecord", "raw", 3, {"label"}), ("lmdb", "raw", 0, {"label"}), ("tfrecord", None, 0, set()),
    ("tar", None, 0, set()), ("jsonl", None, 0, set())])
def test_what_is_not_written_is_said(stoker, tmp_path, format, payload, key, fields):
    """Keys and labels would be gone after a pack that said nothing."""
    for c in "abc":
        (tmp_path / "d" / c).mkdir(parents=True)
        (tmp_path / "d" / c / f"{c}.jpg").write_bytes(c.encode())
    (tmp_path / "n").mkdir()
    for i in range(3):
        (tmp_path / "n" / str(i)).write_bytes(b"x")
    more = ["--payload", payload] if payload else []
    args = ["--format", format, *more, "--json", "-", "--quiet"]
    result = stoker("pack", tmp_path / "d", tmp_path / "o", *args).json()["result"]
    told = {n["kind"]: n for n in result["left_out"]}
    assert told.get("key", {"count": 0})["count"] == key
    assert set(told.get("field", {"names": []})["names"]) == fields
    # Nothing to say: numbers were asked for, no labels, or the keys are the places.
    stoker("pack", tmp_path / "d", tmp_path / "p", *args, "--keys", "number", "--label-from", "none")
    for source, more in ((tmp_path / "n", []),
                         (tmp_path / "d", ["--keys", "number", "--label-from", "none"])):
        result = stoker("pack", source, tmp_path / "q", "--force", *args, *more).json()["result"]
        assert result["left_out"] == []


def test_numeric_ids_of_a_label_table(stoker, tmp_path):
    """A table `id,label` with numbers as ids is the most common one there is."""
    (tmp_path / "d").mkdir()
    for name in ("1", "2"):
        (tmp_path / "d" / f"{name}.bin").write_text(name)
    for table in ("id,label\n1,10\n2,20\n", "label,id\n10,1\n20,2\n", "id,class\n1,10\n2,20\n"):
        (tmp_path / "l.csv").write_text(table)
        found = rows(stoker, tmp_path / "d", tmp_path, "--label-from", f"csv:{tmp_path}/l.csv")
        assert [r["label"] for r in found] == [10, 20]
    (tmp_path / "l.csv").write_text("id,label\n1,10\n,20\n")
    assert "column 'id'" in stoker("pack", tmp_path / "d", tmp_path / "o", "--label-from",
                                   f"csv:{tmp_path}/l.csv", rc=4).err


@pytest.mark.parametrize("first,second,want", [("", "20", 20), ("", str(2**53 + 1), 2**53 + 1), ("", "1.5", 1.5),
                                               ("nan", "2", 2.0), ('""', '"a"', 0)])
def test_an_empty_cell_is_no_label(stoker, tmp_path, first, second, want):
    """It made every label a float and itself nan, or a class without a name."""
    (tmp_path / "d").mkdir()
    for name in ("1", "2"):
        (tmp_path / "d" / f"{name}.bin").write_text(name)
    (tmp_path / "l.csv").write_text(f"id,label\n1,{first}\n2,{second}\n")
    pack = ["pack", tmp_path / "d", tmp_path / "o", "--format", "jsonl", "--label-from", f"csv:{tmp_path}/l.csv"]
    assert "no label is given for '1.bin'" in stoker(*pack, rc=4).err
    stoker(*pack, "--on-error", "skip", rc=3)
    [found] = map(json.loads, next((tmp_path / "o").glob("*.jsonl")).read_text().splitlines())
    assert (repr(found["label"]), found["key"]) == (repr(want), "2.bin")
    assert json.loads((tmp_path / "o/manifest.json").read_text())["classes"] == (["a"] if want == 0 else [])


def test_a_label_is_one_value(stoker, tmp_path):
    """Of two columns of labels the first was the label, without a word."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/1").write_text("x")
    (tmp_path / "l.csv").write_text("id,label_0,label_1\n1,10,11\n")
    assert "not one number or name per row" in stoker(
        "pack", tmp_path / "d", tmp_path / "o", "--label-from", f"csv:{tmp_path}/l.csv", rc=4).err


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_types_of_fields_that_samples_lack_are_said(stoker, tmp_path, form):
    """Only the fields of the first sample were looked at; nulls make the others wider, too."""
    numpy = pytest.importorskip("numpy")
    (tmp_path / "d").mkdir()
    for i in range(3):
        (tmp_path / "d" / f"{i}.txt").write_text("a")
        if i:
            numpy.save(tmp_path / "d" / f"{i}.x.npy", numpy.float32(i + 0.1))
    taken = stoker("pack", tmp_path / "d", tmp_path / "o", "--format", form, "--group", "--json", "-",
                   "-q").json()["result"]["taken"]
    assert [t["because"].split(";")[0] for t in taken if t["what"] == "type"] == ["x was float32"]
    assert [r.get("x") for r in rows(stoker, tmp_path / "o", tmp_path)] == [None, 1.1, 2.1]


def test_a_lone_numbered_column_is_a_number(stoker, tmp_path):
    """x_0 alone is a name; only what pack wrote as an array of one is an array again."""
    (tmp_path / "a.csv").write_text("a,y_0\n1,2\n3,4\n")
    assert rows(stoker, tmp_path / "a.csv", tmp_path)[0]["y_0"] == 2
    (tmp_path / "p").mkdir()
    (tmp_path / "p/a.csv").write_text("y_0,y_1\n1,2\n")
    (tmp_path / "p/b.csv").write_text("y_0,y_1\n3,x\n")
    assert rows(stoker, tmp_path / "p", tmp_path) == [{"key": "00000000", "y_0": 1, "y_1": "2"},
                                                     {"key": "00000001", "y_0": 3, "y_1": "x"}]
    (tmp_path / "a.jsonl").write_text('{"y":[1]}\n{"y":[2]}\n')
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "o", "--format", "csv")
    assert rows(stoker, tmp_path / "o", tmp_path)[0]["y"] == [1]


@pytest.mark.parametrize("form,said", [("csv", False), ("jsonl", True), ("json", True), ("tfrecord", False), ("npz", False)])
def test_types_that_change_are_said(stoker, tmp_path, form, said):
    """float32 and uint8 came back as float64 and int64, and nothing said so."""
    numpy = pytest.importorskip("numpy")
    numpy.savez(tmp_path / "a.npz", x=numpy.arange(6, dtype="f4").reshape(3, 2), u=numpy.arange(3, dtype="u1"),
                label=numpy.arange(3), y=numpy.arange(3.), b=numpy.array([True, False, True]),
                c=numpy.ones((3, 2), bool))
    taken = stoker("pack", tmp_path / "a.npz", tmp_path / "o", "--format", form, "--json", "-",
                   "-q").json()["result"]["taken"]
    assert [t["because"].split(";")[0] for t in taken if t["what"] == "type"] == \
        (["x was float32, u was uint8"] if said else [])
    if form == "json":
        return
    fields = stoker("inspect", tmp_path / "o", "--json", "-", "-q").json()["result"]["fields"]
    want = {"x": "float64" if said else "float32", "u": "int64" if said else "uint8", "label": "int64",
            "y": "float64", "b": "bool", "c": "bool"}
    assert {f["name"]: f["dtype"] for f in fields if f["name"] in want} == want
    again = stoker("pack", tmp_path / "o", tmp_path / "o2", "--format", form, "--json", "-", "-q").json()["result"]
    assert not [t for t in again["taken"] if t["what"] == "type"]
