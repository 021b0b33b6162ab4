"""Results as documents: what a screen shows is what --json has, and the schema describes all of it."""

import csv
import json
import os

import pytest

from conftest import ROOT, run_stoker

TYPES = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}

# The results that are drawn from fields: the arguments of a command, and which one the result is of.
RESULTS = {"load": ["load", "packed", "--batch", "4", "--epochs", "3", "--mixing"], "pack": ["pack", "images", "again"],
           "verify": ["verify", "packed"], "inspect": ["inspect", "images"], "sample": ["inspect", "packed", "--sample", "1"],
           "damaged": ["verify", "damaged"], "doctor": ["doctor", "--quick"], "formats": ["formats"], "version": ["version"],
           "stage": ["stage", "images", "tier"], "sets": ["stage", "--list", "images", "tier"], "plan": ["stage", "images", "other", "--dry-run"],
           "forms": ["stage", "--compare", "images", "node", "--runs", "1", "--jobs-at-once", "1,2", "--forms", "files,records"],
           "bench": ["bench", "w.yaml", "--data", "bench", "--virtual-storage", "1M,1ms", "--ranks", "3", "--generate"],
           "search": ["bench", "w.yaml", "--data", "bench", "--virtual-storage", "1M,1ms", "--find-max", "--au", "50", "--ranks", "2"],
           "sweep": ["bench", "w.yaml", "--data", "bench", "--virtual-storage", "1M,1ms", "--sweep", "reader.threads=1,2"],
           "compared": ["bench", "--compare", "bench.json", "bench.json"],
           "scale": ["scale", "--from", "times.csv", "--predict", "9,99"], "rates": ["scale", "--from", "rates.csv", "--weak"],
           "tune": ["tune", "w.yaml", "--data", "bench", "--near", "bench", "--virtual-storage", "1M,1ms", "--only", "threads,pack,memory", "--ask"],
           "check": ["tune", "--check", "true", "--runs", "2", "--", "true"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("site")
    for i in range(40):
        (tmp / f"images/{'ab'[i % 2]}").mkdir(parents=True, exist_ok=True)
        (tmp / f"images/{'ab'[i % 2]}/{i}.bin").write_bytes(os.urandom(100 + 700 * i))
    (tmp / "node").mkdir()
    (tmp / "w.yaml").write_text("name: small\ndataset: {format: tfrecord, files: 6, samples_per_file: 40, record: 1000}\n"
                                "training: {batch: 4, compute: 10ms}\ncheckpoint: {every: 6, files: 100000}\n")
    (tmp / "times.csv").write_text("n,time,series,cores,status\n" + "".join(f"{n},{8 / n + 1},{s},{n},ok\n" for n in (1, 2, 4, 8) for s in "ab")
                                   + "16,,a,16,FAILED\n")
    (tmp / "rates.csv").write_text("n,images/s\n" + "".join(f"{n},{50 * n - k}\n" for n in (1, 2, 4) for k in range(3)))
    return tmp


@pytest.fixture(scope="module")
def made(site):
    run_stoker("pack", "images", "packed", cwd=site)
    run_stoker("pack", "images", "damaged", cwd=site)
    [shard] = (site / "damaged").glob("*.tfrecord")
    with open(shard, "r+b") as f:
        f.seek(3000)
        f.write(b"xxxx")
    said = {}
    for name, args in RESULTS.items():
        done = run_stoker(args[0], "--json", f"{name}.json", *args[1:], cwd=site, rc=None)
        said[name] = (done.out, json.loads((site / f"{name}.json").read_text())["result"])
    return said


@pytest.mark.parametrize("name", sorted(set(RESULTS) - {"stage", "sets"}))  # these also print a path, or print as they go
def test_a_saved_result_is_drawn_again(stoker, site, made, name):
    """The same screen from the file alone: nothing is shown that --json does not have."""
    assert len(made[name][0].splitlines()) > 1
    assert stoker("report", f"{name}.json", cwd=site).out == made[name][0]


def described(schema, value, where):
    """Every member is in the schema, and of its type."""
    for key, v in value.items():
        assert key in schema["properties"], f"{where}.{key} is not in the schema"
        one = schema["properties"][key]
        types = one.get("type", list(TYPES))
        assert isinstance(v, tuple(t for name in types for t in (TYPES[name] if isinstance(TYPES[name], tuple) else (TYPES[name],)))), \
            f"{where}.{key}: {v!r} is none of {types}"
        if isinstance(v, dict) and "properties" in one:
            described(one, v, f"{where}.{key}")
        for row in v if isinstance(v, list) and "items" in one else []:
            described(one["items"], row, f"{where}.{key}[]")


@pytest.mark.parametrize("name", RESULTS)
def test_the_schema_has_every_member(stoker, made, name):
    """A script that is written by the schema would not know what a number means."""
    schemas = json.loads(stoker("report", "--schema", RESULTS[name][0]).out)["anyOf"]
    wrong = []
    for schema in schemas:
        try:
            described(schema, made[name][1], name)
            return
        except AssertionError as e:
            wrong.append(str(e))
    raise AssertionError("\n".join(wrong))


@pytest.mark.parametrize("path", sorted((ROOT / "docs/schema").glob("*.json")), ids=lambda p: p.stem)
def test_published_schemas_are_the_program_s(stoker, path):
    """docs/schema is what programs of others are written by. `stoker report --schema COMMAND` writes it anew."""
    assert stoker("report", "--schema", path.stem).out == path.read_text()


def test_a_table_as_csv(stoker, site, made):
    """A spreadsheet reads the numbers of --json, not rounded ones."""
    stoker("report", "load.json", "--csv", "epochs=epochs.csv", cwd=site)
    rows = list(csv.DictReader(open(site / "epochs.csv", newline="")))
    assert [float(r["load_seconds"]) for r in rows] == [e["load_seconds"] for e in made["load"][1]["epochs"]]
    assert stoker("report", "load.json", "--csv", "nothing=x.csv", rc=2, cwd=site).err
    assert stoker("report", "load.json", "--files", rc=2, cwd=site).err


@pytest.mark.parametrize("change, rc, says", [
    ({"result": {}}, 4, "nothing of the result of `stoker load` can be shown"),
    ({"schema": 2}, 4, "a result of schema 2; this stoker reads schema 1"),
    ({"schema": None}, 4, "does not say which schema it has"),
    ({"schema": 1.0}, 0, "")], ids=["empty", "newer", "none", "by-another-writer"])
def test_what_cannot_be_drawn_is_said(stoker, site, change, rc, says):
    """An empty screen and status 0 would pass for a result without findings."""
    saved = json.loads((site / "load.json").read_text())
    (site / "changed.json").write_text(json.dumps({**saved, **change}))
    done = stoker("report", "changed.json", rc=rc, cwd=site)
    assert says in done.err and bool(done.out) == (rc == 0)


def test_what_is_left_out_is_said(stoker, tmp_path):
    """The first lines of a long comparison would pass for all of it."""
    for n, cut in (10, False), (300, True):
        points = [{"jobs": i + 1, "last_s": 1.5} for i in range(n)]
        forms = [{"form": form, "points": points, "last_s": 1.5} for form in ("files", "tar")]
        (tmp_path / "x.json").write_text(json.dumps({"schema": 1, "command": "stage", "arguments": ["d"],
                                                     "result": {"source": "d", "forms": forms}}))
        out = stoker("report", tmp_path / "x.json").out
        assert "1.50 s" in out and ("Not all of it is shown" in out) == cut


def test_results_of_strangers(stoker, tmp_path):
    """A file that says it is a result must neither steer the terminal nor crash the reader."""
    evil = "\x1b[2J\u202e"
    for result in [{}, {"samples": evil, "epochs": [1, {"epoch": evil}], "warnings": [evil, 3], "problems": [evil]},
                   {"problems": [{"path": evil, "offset": evil, "what": 3}], "state": evil, "left_out": [{"names": [evil], "why": evil}]},
                   {"samples": 1, "advice": evil, "first_classes": [evil], "classes": 3, "fields": [{"preview": evil}], "problems": 3},
                   {"series": [1, {"name": evil, "base_n": 1, "law_text": evil, "recommended": {evil: {"n": evil}}, "su_missing": [evil, 3],
                                   "points": [{"n": 1, "runs": 1, "value": 2, "failure": evil}, 5, {"n": 1e300, "runs": 1, "value": 1e300}]}],
                    "common_base": 1, "study": {"metric": evil, "unit": evil}, "cautions": [{"series": 1, "text": evil}], "comparisons": [evil]},
                   {"best": evil, "name": evil, "ask": evil, "notes": [evil, 1], "candidates": [7, {"id": evil, "label": evil, "times": 1, "costs": evil, "pays_after": evil,
                    "changes": [{"advice": evil}, 3], "code": [{"language": evil, "text": evil}, 4]}, {"label": evil, "why": evil, "changes": [1]}]},
                   {"check": evil}, {"check": {"verdict": {"text": evil}, "pairs": evil}}]:
        for command in ("load", "pack", "verify", "inspect", "scale", "tune"):
            (tmp_path / "x.json").write_text(json.dumps({"schema": 1, "command": command, "arguments": [evil], "result": result}))
            done = stoker("report", tmp_path / "x.json", rc=None)
            assert done.rc in (0, 4) and "\x1b" not in done.out + done.err and "\u202e" not in done.out + done.err
