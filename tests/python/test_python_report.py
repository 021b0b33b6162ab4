"""stoker.report and stoker.read: results of commands in a notebook."""

import html
import json
import os
import re

import numpy
import pytest

from conftest import ROOT, run_stoker
from pythonlib import stoker


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("study")
    (tmp / "t.csv").write_text("n,time\n" + "".join(f"{n},{90 / n + 5 + r / 9}\n" for n in (1, 2, 4, 8) for r in (0, 1)))
    run_stoker("scale", "--from", tmp / "t.csv", "--save", tmp / "study.json", "--json", tmp / "result.json")
    return tmp / "study.json"


def test_a_notebook_shows_it(study):
    """The frame is a document of its own: the notebook's page does not see its scripts, nor they the notebook."""
    try:
        shown = stoker.report(study, height=500)
    except stoker.UnsupportedError as e:
        pytest.skip(str(e))
    frame = shown._repr_html_()
    inside = html.unescape(re.fullmatch(r'<iframe title="[^"]*" srcdoc="([^"]*)" sandbox="([^"]*)" style="[^"]*500px[^"]*"></iframe>', frame).group(1))
    assert inside == shown.html and inside.startswith("<!doctype html>") and "allow-same-origin" not in frame
    assert "bytes" in repr(shown)


def test_it_can_be_saved(study, tmp_path):
    try:
        stoker.report(study).save(tmp_path / "page.html")
    except stoker.UnsupportedError as e:
        pytest.skip(str(e))
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    with pytest.raises(FileNotFoundError):
        stoker.report(study).save(tmp_path / "no/page.html")
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_tables_are_arrays(study):
    """What the page shows can be computed with."""
    r = stoker.read(study)
    want = json.loads((study.parent / "result.json").read_text())["result"]["series"][0]
    assert r.kind == "study" and r.number == want["recommended"]["balanced"]["n"]
    points = r["points"]
    assert isinstance(points["n"], numpy.ndarray) and points["n"].tolist() == [p["n"] for p in want["points"]]
    assert points["speedup"].tolist() == [p["speedup"] for p in want["points"]]
    assert numpy.isnan(points["su"]).all() and set(points["series"]) == {"measured"}
    curve = r["speedup"]
    assert {"measured", "ideal"} <= set(curve["series"]) and curve["value"].dtype == float
    assert "points" in repr(r) and "4 rows" in repr(points)


def test_frames_where_pandas_is(study):
    pandas = pytest.importorskip("pandas")
    frame = stoker.read(study)["points"].frame
    assert isinstance(frame, pandas.DataFrame) and list(frame["n"]) == [1, 2, 4, 8]


SEEDS = ROOT / "tests/fuzz/corpus/page"
SHOWN = sorted(p.name for p in SEEDS.iterdir() if p.name != "report" and not p.name.startswith("regress"))


@pytest.mark.parametrize("name", SHOWN)
def test_every_kind_is_read(name):
    """Whatever a page shows is also there as arrays, and as frames."""
    r = stoker.read(SEEDS / name)
    assert r.verdict and r.kind and r.title
    for table in r.values():
        assert all(isinstance(v, (list, numpy.ndarray)) for v in table.values()) and len(table) > 1
    pytest.importorskip("pandas")
    assert all(len(t.frame.columns) > 1 for t in r.values())


def test_a_heat_map_is_a_matrix():
    heat = stoker.read(SEEDS / "bench")["heat"]
    assert heat["rank"] == [0, 1] and heat["time"].tolist() == [0, 0.5] and heat["waiting for data"].tolist() == [[0.2, 0], [0.2, 0]]
    pytest.importorskip("pandas")
    assert heat.frame.loc[1, 0.0] == 0.2 and heat.frame.index.name == "rank"


def test_intervals_come_with_the_points():
    jobs = stoker.read(SEEDS / "stage-compare")["jobs"]
    files = [s == "files" for s in jobs["series"]]
    assert jobs["low"][files].tolist() == [1, 2] and jobs["high"][files].tolist() == [3, 6]
    assert numpy.isnan(jobs["low"][[s == "law of files" for s in jobs["series"]]]).all()


def test_a_saved_page_is_as_private_as_its_results(study, tmp_path):
    """The names of files in a private profile are nobody else's business."""
    private = tmp_path / "study.json"
    private.write_bytes(study.read_bytes())
    for mode, expected in ((0o600, 0o600), (0o644, 0o644)):
        private.chmod(mode)
        old = os.umask(0o022)
        try:
            stoker.report(private).save(tmp_path / "page.html")
        except stoker.UnsupportedError as e:
            pytest.skip(str(e))
        finally:
            os.umask(old)
        assert (tmp_path / "page.html").stat().st_mode & 0o777 == expected


def test_errors_are_those_of_the_package(tmp_path):
    with pytest.raises(stoker.NotFoundError):
        stoker.read(tmp_path / "missing")
    (tmp_path / "x.json").write_text('{"a": 1}')
    with pytest.raises(stoker.UnsupportedError, match="neither a profile"):
        stoker.read(tmp_path / "x.json")
    with pytest.raises(stoker.UsageError):
        stoker.report()
    with pytest.raises(ValueError):
        stoker.read("a\0b")
    with pytest.raises(TypeError):
        stoker.read(3)
