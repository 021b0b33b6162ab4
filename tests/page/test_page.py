"""`stoker report -o page.html` in a real browser: every kind of result is drawn, nothing is asked of a
network, names never run, and the numbers are those of --json."""

import csv
import html
import io
import json
import math
import os
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree

import pytest

from conftest import ROOT, STOKER, make_images, run_stoker, until
from pagelib import AXE, Server, browser  # noqa: F401
from profilelib import LIBRARY, PYTHON, bare_env
from slurmlib import FakeSlurm

pytestmark = pytest.mark.xdist_group("page")  # one browser

HOSTILE = ["</script><script>document.title='RUN'</script>", "<img src=x onerror=\"document.title='RUN'\">",
           "javascript:document.title='RUN'", "a'\"`${document.title='RUN'}&lt;", "left\u202ethgir", "tab\there",
           "x" * 250, "<!--<script>"]

PROGRAM = """
import os, subprocess, sys
if len(sys.argv) > 2:
    for name in sorted(os.listdir(sys.argv[1])):
        with open(os.path.join(sys.argv[1], name), "rb") as f:
            while f.read(512):
                pass
else:
    for rank in range(3):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"}
        subprocess.run([sys.executable, *sys.argv, "rank"], env=env, check=True)
"""


def profile(folder, program, *args):
    if not LIBRARY:
        pytest.skip("libstoker-preload.so is not built")
    subprocess.run([STOKER, "profile", "-q", "--sample", "10ms", "-o", folder, "--",
                    PYTHON, program, *map(str, args)], env=bare_env(), check=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One result of every kind, a second profile, and two studies."""
    tmp = tmp_path_factory.mktemp("results")
    done = run_stoker("report", "x", "-o", tmp / "none.html", rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    data = tmp / "data"
    data.mkdir()
    for i in range(60):
        (data / f"part{i:03d}.bin").write_bytes(os.urandom(700 * (i % 7 + 1)))
    for i, name in enumerate(HOSTILE):
        (data / name.replace("/", "\u2215")).write_bytes(b"x" * (i + 1) * 900)
    (data / b"not\xffutf8".decode(errors="surrogateescape")).write_bytes(b"y" * 5000)
    program = tmp / "program.py"
    program.write_text(PROGRAM)
    images = tmp / "images"
    make_images(images)
    (tmp / "gpu-a.csv").write_text("n,time,cores\n" + "".join(f"{n},{100 / n + 3 + r / 10},{n}\n" for n in (1, 2, 4, 8, 16) for r in (0, 1)))
    (tmp / "gpu-b.csv").write_text("n,time,cores\n" + "".join(f"{n},{60 / n + 4 + r / 10},{n}\n" for n in (1, 2, 4, 8, 16) for r in (0, 1)))
    for s in "ab":
        run_stoker("scale", "--from", tmp / f"gpu-{s}.csv", "--save", tmp / f"gpu-{s}.json", "--json", tmp / f"scale-{s}.json")
    run_stoker("pack", images, tmp / "packed", "--json", tmp / "pack.json")
    run_stoker("load", tmp / "packed", "--epochs", "2", "--batch", "4", "--json", tmp / "load.json")
    run_stoker("verify", tmp / "packed", "--json", tmp / "verify.json")
    (tmp / "w.yaml").write_text("name: small\ndataset: {format: tfrecord, files: 6, samples_per_file: 40, record: 1000}\n"
                                "training: {batch: 4, compute: 10ms}\ncheckpoint: {every: 6, files: 100000}\n")
    bench = ["bench", tmp / "w.yaml", "--data", tmp / "bench", "--generate", "--virtual-storage", "1M,1ms", "--json"]
    run_stoker(*bench, tmp / "bench.json", "--ranks", "3")
    run_stoker(*bench, tmp / "bench2.json", "--ranks", "2")
    run_stoker("bench", tmp / "w.yaml", "--data", tmp / "bench", "--set", "access.transfer=4K", "--generate-only")
    run_stoker("tune", tmp / "w.yaml", "--data", tmp / "bench", "--near", tmp / "bench", "--virtual-storage", "1M,1ms",
               "--only", "threads", "--json", tmp / "tune.json")
    run_stoker("stage", images, tmp / "tier", "--json", tmp / "stage.json")
    run_stoker("inspect", images, "--json", tmp / "inspect.json")
    run_stoker("doctor", "--quick", "--json", tmp / "doctor.json")
    run_stoker("job", 21, "--json", tmp / "job.json", env=FakeSlurm(tmp).env())
    return {"dir": tmp, "profile": profile(tmp / "one.profile", program, data), "again": profile(tmp / "two.profile", program, data)}


@pytest.fixture(scope="module")
def page(results):
    """All of them in one page."""
    tmp = results["dir"]
    run_stoker("report", results["profile"], results["again"], tmp / "gpu-a.json", tmp / "gpu-b.json", tmp / "load.json",
               tmp / "job.json", tmp / "pack.json", tmp / "verify.json", *(tmp / f"{k}.json" for k in ("bench", "bench2", "tune", "stage", "inspect", "doctor")),
               "-o", tmp / "page.html")
    return tmp / "page.html"


@pytest.fixture(scope="module")
def opened(browser, page):
    """The page, drawn to its end: for tests that look at it."""
    browser.open(page)
    browser.draw_all()
    return browser


KINDS = {"profile", "comparison", "study", "load", "job", "pack", "verify", "bench", "tune", "stage", "inspect", "doctor"}


# Figures on which nothing was drawn.
BLANK = """return [...document.querySelectorAll('figure')].filter(f => {
    const small = new OffscreenCanvas(60, 60).getContext('2d');
    small.drawImage(f.querySelector('canvas'), 0, 0, 60, 60);
    return new Set(small.getImageData(0, 0, 60, 60).data).size < 5 }).map(f => f.id)"""


def check_drawn(browser, width, kinds=frozenset(KINDS)):
    assert {*browser.js("return [...document.querySelectorAll('.result')].map(r => r.dataset.kind)")} == kinds
    assert browser.js(BLANK) == []
    assert browser.js("""return [...document.querySelectorAll('figure .chart')].filter(c => c.clientHeight < 60).length""") == 0
    # Panels over one time axis: a moment is at the same place in all of them.
    places = browser.js("""const c = document.querySelector('#r1-time .chart').chart, n = c.getOption().grid.length;
        return [...Array(n).keys()].map(i => [0, 1].map(k => Math.round(c.convertToPixel({xAxisIndex: i}, k * c.getOption().xAxis[i].max))).join())""")
    assert len(places) > 1 and len({*places}) == 1
    assert browser.js("return [...document.querySelectorAll('.verdict')].every(v => v.textContent.length > 10)")
    assert browser.js("return document.documentElement.scrollWidth") <= width
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.js("return document.title") == "stoker report"


def test_every_kind_is_drawn_in_silence(opened):
    """A page that asks a server for a font tells others what you read; one that fails shows nothing."""
    check_drawn(opened, 1200)


def test_hostile_names_are_text(opened):
    """A file's name from a stranger's dataset would run in the browser of whoever reads the report."""
    browser = opened
    assert "RUN" not in browser.js("return document.title")
    rows = browser.js("return JSON.parse(document.getElementById('data').textContent).results[0].blocks.find(b => b.id === 'files').rows.map(r => r[0])")
    for name in HOSTILE:
        assert any(r.endswith(name.replace("/", "\u2215")) for r in rows), name
    browser.js("""const t = document.getElementById('r1-files').table; t.setFilter(r => r.c0.includes('left'))""")
    shown = until(lambda: [t for t in browser.js("return [...document.querySelectorAll('#r1-files .tabulator-cell')].map(c => c.textContent)") if "left" in t])
    assert "\\u202e" in shown[0] and "\u202e" not in shown[0]
    assert browser.js("return document.querySelectorAll('script').length") == 2
    assert browser.js("return document.querySelectorAll('img,iframe,object,embed').length") == 0


def cells(browser, block):
    """[{column: number}] of a table as it stands in the DOM."""
    return browser.js("""const b = document.getElementById(arguments[0]);
        const head = [...b.querySelectorAll('thead th')].map(h => h.textContent);
        return [...b.querySelectorAll('tbody tr')].map(r => Object.fromEntries([...r.children].map((c, i) =>
            [head[i], c.firstChild.dataset.value === undefined ? c.textContent : Number(c.firstChild.dataset.value)])));""", block)


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-5)


def test_numbers_are_those_of_json(opened, results):
    """A picture that says something else than the table is worse than none."""
    browser = opened
    report = run_stoker("report", results["profile"], "--json", "-").json()["result"]
    facts = dict(browser.js("return [...document.querySelectorAll('#r1 .facts div')].map(d => [d.firstChild.textContent, Number(d.lastChild.dataset.value)])"))
    assert near(facts["Ran"], report["profile"]["run_s"]) and facts["Read"] == report["job"]["counters"]["read_bytes"]
    loop = report["main_loop"]
    big = float(browser.js("return document.querySelector('#r1 .big strong').dataset.value"))
    assert near(big, loop["wait_s"] / loop["run_s"] if loop["wait_s"] is not None else report["io_share"]["merged"])
    ranks = cells(browser, "r1-ranks-table")
    for row, rank in zip(ranks, report["ranks"]):
        assert near(row["I/O time"], rank["io_s"]) and row["Read"] == rank["read_bytes"] and row["Reads"] == rank["reads"]
    files = browser.js("return document.getElementById('r1-files').table.getData().map(r => [r.c0, r.c6, r.c8, r.c1])")
    expected = {f["name"]: f for f in report["files"]}
    assert len(files) == len(expected)
    for name, read, reads, io_s in files:
        f = expected[name]
        assert (read, reads) == (f["counters"]["read_bytes"], f["counters"]["reads"]) and near(io_s, f["io_s"])
    said = re.sub(r"(\d) us\b", r"\1 µs", report["verdict"])
    shown = browser.js("return document.querySelector('#r1 .verdict p:last-child').textContent").replace("\u00a0", " ")
    assert shown[1:] == f"{said[1:]}." and shown[0] == said[0].upper()


def test_studies_and_loads_too(opened, results):
    browser = opened
    at = {k: i for i, k in enumerate(browser.js("return [...document.querySelectorAll('.result')].map(r => r.dataset.kind)"), 1)}
    points = cells(browser, f"r{at['study']}-points")
    for letter in "ab":
        series = json.loads((results["dir"] / f"scale-{letter}.json").read_text())["result"]["series"][0]
        mine = [p for p in points if p["Series"] == f"gpu-{letter}"]
        assert [(p["N"], p["Time"], p["Speedup"], p["Efficiency"]) for p in mine] == \
            [(p["n"], p["value"], p["speedup"], p["efficiency"]) for p in series["points"]]
    costly = run_stoker("scale", "--from", results["dir"] / "gpu-a.csv", "--su-weights", "core=3,gpu=7", "--gpus-per-n", "2", "--deadline", "20s",
                        "--json", results["dir"] / "costly.json") and json.loads((results["dir"] / "costly.json").read_text())["result"]["series"][0]
    run_stoker("report", results["dir"] / "costly.json", "-o", results["dir"] / "costly.html")
    data = json.loads(re.search(r'id="data">(.*?)</script>', (results["dir"] / "costly.html").read_text(), re.S).group(1))["results"][0]
    assert [r["su"] for r in rows_of(data, "points")] == [p["su"] for p in costly["points"]] and costly["points"][0]["su"]
    assert {r["wish"]: r["n"] for r in rows_of(data, "recommended")} == {w: c["n"] for w, c in costly["recommended"].items()}
    load = json.loads((results["dir"] / "load.json").read_text())["result"]
    assert [r["Time"] for r in cells(browser, f"r{at['load']}-epochs-table")] == [e["load_seconds"] for e in load["epochs"]]
    assert float(browser.js(f"return document.querySelector('#r{at['load']} .big strong').dataset.value")) == load["samples_per_second"]


def test_benchmarks_too(opened, results):
    """Utilisation, steps over time and each rank are those of --json, and two runs stand side by side."""
    browser = opened
    at = browser.js("return Object.fromEntries([...document.querySelectorAll('.result')].reverse().map((r, i, all) => [r.dataset.kind, all.length - i]))")["bench"]
    bench = json.loads((results["dir"] / "bench.json").read_text())["result"]
    assert float(browser.js(f"return document.querySelector('#r{at} .big strong').dataset.value")) == bench["utilisation"]
    rows = cells(browser, f"r{at}-per_rank")
    assert [(r["Utilisation"], r["Waited for data"], r["Requests"]) for r in rows] == \
        [(r["utilisation"], r["wait_seconds"], r["io"]["requests"]) for r in bench["per_rank"]]
    blocks = browser.js(f"return JSON.parse(document.getElementById('data').textContent).results[{at - 1}].blocks")
    plots = {b["id"]: b for b in blocks if b["is"] != "table"}
    assert {"time", "where", "heat", "balance", "sizes", "latency", "steps"} <= {*plots}
    steps = plots["time"]["panels"][1]["series"][0]["v"]
    bin_s = bench["over_time"]["bin_seconds"]
    assert near(sum(steps) * bin_s, sum(r["steps"] for r in bench["per_rank"]))
    for name, part in (("wait", "wait_seconds"), ("compute", "compute_seconds"), ("checkpoint", "checkpoint_seconds")):
        assert math.isclose(sum(bench["over_time"][name]), sum(r[part] for r in bench["per_rank"]), rel_tol=1e-3)
    assert sum(plots["latency"]["panels"][0]["series"][0]["v"]) == bench["io"]["requests"]
    compared = browser.js("return [...document.querySelectorAll('.result')].filter(r => r.textContent.includes('Benchmarks compared')).map(r => r.id)")
    numbers = {r["Figure"]: r for r in cells(browser, f"{compared[0]}-numbers")}
    assert near(numbers["samples"]["bench.json"], bench["samples_per_second"])


# Which number of --json is the one of the verdict, and which tables hold which lists: [table, list, column, member].
FIGURES = {
    "pack": ("samples", []), "verify": (None, []), "inspect": ("samples", [("fields", "fields", "Size", "size_bytes")]),
    "stage": (None, []), "job": ("jobs.0.used.cpu_share", [("jobs-table", "jobs", "CPU use", "used.cpu_share"), ("jobs-table", "jobs", "SU", "cost.su")]),
    "doctor": (None, [("targets", "targets", "Free", "free_bytes"), ("file_systems-table", "file_systems", "Free", "free_bytes")]),
}


def member(value, path):
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else value.get(name)
    return value


@pytest.mark.parametrize("kind", FIGURES)
def test_every_other_kind_too(opened, results, kind):
    """A number on the page that differs from --json is a wrong one."""
    at, (number, tables) = kind_at(opened, kind), FIGURES[kind]
    said = json.loads((results["dir"] / f"{kind}.json").read_text())["result"]
    big = float(opened.js(f"return document.querySelector('#r{at} .big strong').dataset.value"))
    if number:
        assert near(big, member(said, number))
    facts = opened.js("return JSON.parse(document.getElementById('data').textContent).results[arguments[0] - 1].facts ?? []", at)
    numbers = {json.dumps(v) for v in flat(said)}
    assert facts and all(json.dumps(f["value"]) in numbers for f in facts if f["unit"] != "text"), facts
    for table, items, column, path in tables:
        shown = [r[column] for r in cells(opened, f"r{at}-{table}")]
        assert shown == ["–" if member(row, path) is None else member(row, path) for row in said[items]] and shown


def flat(value):
    """Every text and number of a result."""
    if isinstance(value, dict):
        return [v for one in value.values() for v in flat(one)]
    return [v for one in value for v in flat(one)] if isinstance(value, list) else [value]


# What is drawn of the panel of shares: the x of each line's last point, the end of the axis, and the sums of the stack.
SHARES = """const c = document.querySelector(`#${arguments[0]} .chart`).chart, m = c.getModel(), o = c.getOption();
    const lines = o.series.filter(s => s.id.startsWith('0:') && s.id.endsWith(':line'));
    return {end: o.xAxis[0].max, ends: lines.map(s => s.data[s.data.length - 1][0]), first: lines.map(s => s.data[1][1]), z: lines.map(s => s.z)}"""


def test_areas_stand_on_each_other(opened, results):
    """Shares of the time fill the plot to its end, without a gap, also when one of them is hidden."""
    at = kind_at(opened, "bench")
    figure = f"r{at}-time"
    values = [s["v"][1] for s in block_of(opened, at, "time")["panels"][0]["series"]]
    drawn = opened.js(SHARES, figure)
    assert drawn["ends"] == [drawn["end"]] * len(values) and drawn["z"] == sorted(drawn["z"], reverse=True)
    assert all(near(a, 100 * sum(values[:k + 1])) for k, a in enumerate(drawn["first"])) and near(drawn["first"][-1], 100)
    opened.click(f"#{figure} .legend button", "computing")
    assert near(opened.js(SHARES, figure)["first"][-1], 100 - 100 * values[0])
    opened.click(f"#{figure} .legend button", "computing")
    assert near(opened.js(SHARES, figure)["first"][-1], 100)


def kind_at(browser, kind):
    """The number of the first result of that kind."""
    return browser.js("return [...document.querySelectorAll('.result')].findIndex(r => r.dataset.kind === arguments[0]) + 1", kind)


def block_of(browser, result, name):
    return browser.js("return JSON.parse(document.getElementById('data').textContent).results[arguments[0] - 1].blocks.find(b => b.id === arguments[1])",
                      result, name)


def test_tuning_too(opened, results):
    """Every change with its interval and its prediction, what the best one gains, and the lines that make it."""
    browser = opened
    at = kind_at(browser, "tune")
    tune = json.loads((results["dir"] / "tune.json").read_text())["result"]
    changes = [c for c in tune["candidates"] if c["verdict"] != "baseline" and c["times"] is not None]
    best = next(c for c in changes if c["id"] == tune["best"])
    assert float(browser.js(f"return document.querySelector('#r{at} .big strong').dataset.value")) == best["times"]
    said = browser.js(f"return document.querySelector('#r{at} .finding.at-best').textContent")
    assert best["label"][1:] in said and best["lines"].split("\n")[0] in said
    rows = {r["Change"]: r for r in cells(browser, f"r{at}-changes")}
    assert [rows[c["label"]]["Times as fast"] for c in changes] == [c["times"] for c in changes]
    measured, expected = block_of(browser, at, "speed")["panels"][0]["series"]
    for k, c in enumerate(changes):
        assert near(measured["v"][k], c["times"]) and near(measured["lo"][k], c["times_ci"][0])
        assert near(expected["v"][k], tune["candidates"][0]["predicted_epoch_s"] / c["predicted_epoch_s"])
    computing, waiting = block_of(browser, at, "epochs")["panels"][0]["series"]
    for k, c in enumerate([tune["candidates"][0], *changes]):
        assert near(computing["v"][k] + waiting["v"][k], c["epoch_s"]) and near(computing["v"][k], c["epoch_s"] * c["utilisation"])


# What ECharts wrote: [[text, left, top, right, bottom]].
WRITTEN = """const c = document.querySelector(`#${arguments[0]} .chart`).chart;
    return c.getZr().storage.getDisplayList(true).filter(d => d.style.text && !d.ignore).map(d => {
        const r = d.getBoundingRect().clone(); if (d.transform) r.applyTransform(d.transform);
        return [d.style.text, r.x, r.y, r.x + r.width, r.y + r.height]; });"""


def test_each_study_has_its_marks(opened, results):
    """Two kinds of GPU in one plot: whoever reads it sees how many of each to ask for."""
    browser = opened
    at = kind_at(browser, "study")
    marks = {(m["name"], m["at"], m["color"]) for m in block_of(browser, at, "speedup")["marks"]}
    for k, letter in enumerate("ab"):
        series = json.loads((results["dir"] / f"scale-{letter}.json").read_text())["result"]["series"][0]
        wishes = {w: c["n"] for w, c in series["recommended"].items() if c["n"]}
        assert len(wishes) == 3
        for wish, n in wishes.items():
            assert any(f"gpu-{letter}: " in name and wish in name and place == n and color == k for name, place, color in marks)
        plateau = series["plateau"]["n"] if series["plateau"] else None
        assert [place for name, place, _ in marks if f"gpu-{letter}" in name and "plateau" in name] == ([plateau] if plateau else [])
    names = [w for w in browser.js(WRITTEN, f"r{at}-speedup") if ": " in w[0]]
    assert {n[0] for n in names} == {name for name, _, _ in marks}
    for i, (a, left, top, right, bottom) in enumerate(names):
        for b, left2, top2, right2, bottom2 in names[:i]:
            assert right <= left2 or right2 <= left or bottom <= top2 + 1 or bottom2 <= top + 1, (a, b)


# Values of lines, points and intervals that are beyond the ends of their axis: [[figure, value]].
BEYOND = """return [...document.querySelectorAll('figure .chart')].flatMap(box => box.chart.getModel().getSeriesByType('line')
    .concat(box.chart.getModel().getSeriesByType('scatter')).flatMap(s => {
        const data = s.getData(), axis = s.coordinateSystem.getAxis('y'), [low, high] = axis.scale.getExtent();
        return axis.type === 'category' ? [] : data.mapArray(data.mapDimension('y'), v => v).filter(v => v < low * 0.999999 || v > high * 1.000001)
            .map(v => [box.closest('figure').id, v]); }))"""


# Texts that reach beyond the edges of their plot: [[figure, text]]. Letters are 12 high, which ECharts takes for less.
CUT = """return [...document.querySelectorAll('figure .chart')].flatMap(box => box.chart.getZr().storage.getDisplayList(true).filter(d => d.style.text && !d.ignore)
    .filter(d => { const r = d.getBoundingRect().clone(); if (d.transform) r.applyTransform(d.transform);
        const middle = r.x + r.width / 2, half = Math.max(r.width, 12) / 2; return middle < half || middle + half > box.clientWidth; })
    .map(d => [box.closest('figure').id, d.style.text]))"""


def test_no_text_is_cut_off(opened):
    """An axis whose name lacks its upper half cannot be put into a paper."""
    assert opened.js(CUT) == []


def test_the_first_page_says_it_all(opened):
    """Who opens it sees a number and a sentence of each result, and which file it is of."""
    listed = opened.js("return [...document.querySelectorAll('nav li')].map(l => [l.querySelector('.kind').textContent.split(' · ')[1], l.textContent])")
    results = opened.js("""return [...document.querySelectorAll('.result')].map(r => [r.querySelector('.kind').textContent.split(' · ')[1],
        r.querySelector('.big strong').textContent, r.querySelector('.verdict > p:last-child').textContent])""")
    for (name, number, sentence), (shown, text) in zip(results, listed, strict=True):
        assert shown == name and number in text.replace("\u00a0", " ") and sentence in text and sentence.endswith("."), text
    words = opened.js("return [...document.querySelectorAll('.evidence')].map(e => e.textContent).join(' ')")
    assert words and "ratio" not in words and "`" not in opened.js("return [...document.querySelectorAll('.note, .verdict, .do')].map(e => e.textContent).join(' ')")


def test_no_point_is_cut_off(opened):
    """The fastest N of a study stood below the axis, where nobody saw it."""
    assert opened.js(BEYOND) == []


def state(browser, figure):
    return browser.js("""const c = document.querySelector(`#${arguments[0]} .chart`).chart, o = c.getOption();
        return {start: o.dataZoom[0].start, end: o.dataZoom[0].end, off: Object.entries(o.legend?.[0]?.selected ?? {}).filter(e => !e[1]).map(e => e[0])}""", figure)


def test_hover_zoom_and_legend(opened):
    """What the reader does with a plot: look at a moment, look closer, hide a line."""
    from selenium.webdriver.common.action_chains import ActionChains
    browser = opened
    browser.js("document.getElementById('r1-time').scrollIntoView()")
    chart = browser.driver.find_element("css selector", "#r1-time .chart")
    browser.js("""const c = document.querySelector('#r1-time .chart').chart; window.tips = [];
                  c.on('showTip', e => tips.push(e)); c.getZr().on('mousemove', e => tips.push(e.offsetX))""")
    ActionChains(browser.driver, duration=0).move_to_element(chart).perform()
    assert browser.js("return tips.length") > 0
    until(lambda: browser.js("return document.querySelector('#r1-time .chart').chart.getZr().storage.getDisplayList(true).some(d => (d.style.text ?? '').includes('read'))"))
    # Dragging over a part shows that part, here and in the heat map below it.
    ActionChains(browser.driver, duration=0).move_to_element_with_offset(chart, -100, -150).click_and_hold() \
        .move_by_offset(90, 0).move_by_offset(90, 5).release().perform()
    zoomed = until(lambda: (s := state(browser, "r1-time"))["end"] - s["start"] < 60 and s)
    assert 0 < zoomed["start"] < zoomed["end"] < 100
    if browser.js("return document.querySelector('#r1-heat .chart')?.chart !== undefined"):
        linked = state(browser, "r1-heat")
        assert abs(linked["start"] - zoomed["start"]) < 2 and abs(linked["end"] - zoomed["end"]) < 2
    # Another width draws it anew: the part that is shown stays, and dragging still works.
    drawn = browser.js("return document.querySelector('#r1-time .chart').drawnWidth")
    browser.cdp("Emulation.setDeviceMetricsOverride", width=900, height=1000, deviceScaleFactor=1, mobile=False)
    until(lambda: browser.js("return document.querySelector('#r1-time .chart').drawnWidth") < drawn)
    assert abs(state(browser, "r1-time")["start"] - zoomed["start"]) < 0.1
    browser.click("#r1-time .tools button", "All")
    assert state(browser, "r1-time")["end"] == 100
    ActionChains(browser.driver, duration=0).move_to_element_with_offset(chart, -100, -150).click_and_hold() \
        .move_by_offset(90, 0).move_by_offset(90, 5).release().perform()
    until(lambda: (s := state(browser, "r1-time"))["end"] - s["start"] < 60)
    browser.cdp("Emulation.setDeviceMetricsOverride", width=1200, height=1000, deviceScaleFactor=1, mobile=False)
    until(lambda: browser.js("return document.querySelector('#r1-time .chart').drawnWidth") == drawn)
    browser.click("#r1-time .tools button", "All")
    assert state(browser, "r1-time")["end"] == 100
    browser.click("#r1-time .legend button", "read")
    assert state(browser, "r1-time")["off"] == ["read"]
    assert browser.js("return document.querySelector('#r1-time .legend button').getAttribute('aria-pressed')") == "false"


def shown_numbers(browser, block, column):
    return browser.js(f"return [...document.querySelectorAll('#{block} .tabulator-row')].map(r => Number(r.querySelector('[tabulator-field={column}] span').dataset.value))")


def test_tables_sort_and_filter(opened):
    """The table of all files is long: the reader looks for one."""
    browser = opened
    browser.js("document.getElementById('r1-files').scrollIntoView(); document.getElementById('r1-files').table.clearFilter()")
    until(lambda: browser.js("return document.querySelectorAll('#r1-files .tabulator-row').length > 5"))
    browser.click("#r1-files .tabulator-col[tabulator-field=c6]")
    values = until(lambda: (v := shown_numbers(browser, "r1-files", "c6")) == sorted(v, reverse=True) and v)
    browser.click("#r1-files .tabulator-col[tabulator-field=c6]")
    assert until(lambda: (v := shown_numbers(browser, "r1-files", "c6")) == sorted(v) and v) != values
    browser.driver.find_element("css selector", "#r1-files input").send_keys("PART00 bin")
    until(lambda: browser.js("return document.querySelector('#r1-files .count').textContent").startswith("10 of"))


def test_downloads_are_whole(opened):
    """SVG for the paper, PNG for the slides, CSV for the next tool."""
    browser = opened
    browser.click("#r1-sizes .tools button", "SVG")
    svg = browser.saved("r1-sizes.svg").decode()
    root = xml.etree.ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg" and "style=" not in svg and "<script" not in svg
    assert {"reads", "writes", "requests"} <= {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}
    browser.click("#r1-sizes .tools button", "PNG")
    png = browser.saved("r1-sizes.png")
    assert png.startswith(b"\x89PNG\r\n\x1a\n") and struct.unpack(">I", png[16:20])[0] == 3 * 760
    browser.click("#r1-sizes .tools button", "CSV")
    table = list(csv.reader(io.StringIO(browser.saved("r1-sizes.csv").decode())))
    assert table[0][0] == "size of a request" and sum(int(r[1]) for r in table[1:]) > 0
    browser.click("#r1-files .tools button", "CSV")
    rows = list(csv.reader(io.StringIO(browser.saved("r1-files.csv").decode())))
    assert rows[0][:2] == ["name", "io_s"] and len(rows) > 60
    assert browser.complaints() == []


# Whatever can be used, and is on the screen: links, buttons, fields, plots, tables that scroll, what opens.
TABBED = """[...document.querySelectorAll('a[href], button, input, summary, [tabindex="0"], .chart, .scroll, .tabulator-col, .tabulator-tableholder, pre')]
    .filter(e => e.getClientRects().length && !e.closest('.paper'))"""


def test_keyboard_alone(opened):
    """Whoever cannot use a mouse reaches everything, and reads a plot value by value."""
    from selenium.webdriver.common.keys import Keys
    browser = opened
    browser.js("""scrollTo(0, 0); window.reached = new Set(); addEventListener('focusin', e => reached.add(e.target)); document.querySelector('.skip').focus()""")
    browser.keys(Keys.TAB * (browser.js(f"return {TABBED}.length") + 20))
    missed = browser.js(f"return {TABBED}.filter(e => !reached.has(e)).map(e => e.outerHTML.slice(0, 120))")
    assert missed == [] and browser.js("return reached.size") > 150
    browser.js("document.querySelector('#r1-time .chart').focus()")
    browser.keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert re.search(r"time .*read: data", browser.js("return document.querySelector('[role=status].unseen').textContent"))
    browser.keys("+")
    until(lambda: state(browser, "r1-time")["end"] - state(browser, "r1-time")["start"] < 60)
    browser.js("document.querySelector('#r1-files .tabulator-col').focus()")
    browser.keys(Keys.ENTER)
    until(lambda: browser.js("return document.querySelector('#r1-files .tabulator-col').getAttribute('aria-sort')") == "ascending")


def test_prints(opened):
    """Paper gets vector drawings and the first rows of tables."""
    assert opened.paper().startswith(b"%PDF")
    assert opened.js("return [...document.querySelectorAll('figure')].every(f => f.querySelector('.print svg text'))")
    assert opened.complaints() == []


# ---- other pages: the tests above share one that is open ----

def test_every_shape_is_drawn(browser, page, tmp_path):
    """Sweeps, searches, comparisons of forms, plans and copies; results of versions to come may lack any number."""
    seeds = sorted(p for p in (ROOT / "tests/fuzz/corpus/page").iterdir() if p.name != "report" and not p.name.startswith("regress"))
    run_stoker("report", *seeds, "-o", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.draw_all()
    assert browser.js("return document.querySelectorAll('.result').length") >= len(seeds)
    assert browser.js(BLANK) == [] and browser.complaints() == [] and browser.requests() == []
    said = browser.js("return Object.fromEntries([...document.querySelectorAll('.result')].map(r => [r.querySelector('.kind').textContent, r.textContent]))")
    assert "Not known: no change was tried, and 1 might help." in said["tune · tune-skipped"]
    assert "Chosen: staged in RAM. It was not measured." in said["tune · tune-chosen"] and "of a sample of the data" in said["tune · tune-chosen"]


def test_on_a_phone_in_the_dark(browser, results, tmp_path):
    page = tmp_path / "page.html"
    run_stoker("report", results["profile"], results["dir"] / "gpu-a.json", "-o", page)
    browser.open(page, width=390, dark=True)
    browser.draw_all()
    check_drawn(browser, 390, {"profile", "study"})
    assert browser.js(CUT) == []


# Every kind is looked at, and some in the dark: the checker's time grows with the square of the elements.
CHECKED = {"profile": ([], False), "study, load": (["gpu-a", "gpu-b", "load"], True), "bench": (["bench", "bench2"], False), "tune, stage": (["tune", "stage"], True),
           "datasets": (["pack", "verify", "inspect"], False), "job, doctor": (["job", "doctor"], True)}


@pytest.mark.parametrize("which", CHECKED)
def test_accessible(browser, results, which, tmp_path):
    """Contrast, names and roles, as axe sees them."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed (tools/setup page)")
    names, dark = CHECKED[which]
    page = tmp_path / "page.html"
    run_stoker("report", *([results["dir"] / f"{n}.json" for n in names] or [results["profile"]]), "-o", page)
    browser.open(page, dark=dark)
    browser.draw_all()
    # A few rows stand for all.
    browser.js("document.querySelectorAll('#r1-where details, #r1-balance details, #r2-cost details').forEach(d => { d.open = true; }); document.getElementById('r1-files')?.table.setFilter('c0', 'like', 'part00')")
    assert browser.js("return document.querySelectorAll('*').length") < 3000
    assert browser.axe() == {}


GROWS = "import sys\nfor name in sys.argv[1:]:\n    open(name).read(); print('on', flush=True); sys.stdin.readline()"


def test_a_served_page_grows_by_itself(browser, results, tmp_path):
    """Whoever watches a run and a study in the browser sees what is new, without a hand at the keyboard."""
    study = tmp_path / "study"
    study.mkdir(mode=0o700)
    for name in ("first", "second"):
        (tmp_path / name).write_text(name)

    def measured(*ns):
        (tmp_path / "t.csv").write_text("n,time\n" + "".join(f"{n},{10 / n}\n" for n in ns))
        run_stoker("scale", "--from", tmp_path / "t.csv", "--save", study / "study.json")

    def shown():
        return browser.js("""const d = JSON.parse(document.getElementById('data')?.textContent ?? '{"results": []}');
            const rows = id => d.results.flatMap(r => r.blocks).filter(b => b.id === id).flatMap(b => b.rows);
            return {files: rows('files').map(r => r[0].split('/').pop()), ns: rows('points').map(r => r[1]), drawn: document.querySelectorAll('.verdict').length}""")

    measured(1, 2)
    run = subprocess.Popen([STOKER, "profile", "-q", "-o", tmp_path / "p", "--", PYTHON, "-c", GROWS, tmp_path / "first", tmp_path / "second"],
                           env=bare_env(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert run.stdout.readline() == "on\n"
    server = Server(tmp_path / "p", study)
    try:
        browser.open(server.url)
        until(lambda: (s := shown())["drawn"] == 2 and s["ns"] == [1, 2] and "first" in s["files"] and "second" not in s["files"])
        run.stdin.write("\n")
        run.stdin.flush()
        assert run.stdout.readline() == "on\n"
        measured(1, 2, 4)
        until(lambda: (s := shown())["ns"] == [1, 2, 4] and "second" in s["files"])
        run.communicate("\n", timeout=300)
        os.utime(study / "study.json", (1, 1))
        assert server.ask()[2]["Refresh"] is None
    finally:
        run.kill()
        assert server.end() == 0


def test_policy_stops_a_script_that_got_in(browser, page, tmp_path):
    """The last line of defence: hashes of our own script and style, nothing else."""
    text = page.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy and policy.count("sha256-") == 2
    evil = tmp_path / "evil.html"
    evil.write_text(text.replace('<div id="page">', "<script>document.title='RUN'</script><img src=x onerror=\"document.title='RUN'\"><div id=\"page\">"))
    browser.open(evil)
    assert "RUN" not in browser.js("return document.title")
    assert any("Content Security Policy" in c for c in browser.complaints())


RANKS = 600


def many_ranks(path):
    """A benchmark of many ranks: the last of each hundred waits longer than the others."""
    bins = 64
    ranks = [{"rank": r, "utilisation": 0.5, "wait_seconds": 1, "wait_over_time": [0.09 if r % 100 == 99 else 0.01 + (r * b % 7) / 1000 for b in range(bins)]} for r in range(RANKS)]
    result = {"utilisation": 0.5, "io_share": 0.4, "ranks": RANKS, "per_rank": ranks,
              "over_time": {"bin_seconds": 0.1, "steps": [5] * bins, "compute": [1] * bins, "wait": [1] * bins}}
    path.write_text(json.dumps({"schema": 1, "command": "bench", "arguments": [], "settings": {}, "result": result}))


def test_many_ranks_are_seen_at_once(browser, page, tmp_path):
    """ECharts paints a heat map over seconds: a reader would take the missing half for idle ranks, and so would the saved picture."""
    many_ranks(tmp_path / "many.json")
    run_stoker("report", tmp_path / "many.json", "-o", tmp_path / "page.html")
    browser.open(tmp_path / "page.html")
    browser.draw_all()
    heat = block_of(browser, 1, "heat")
    assert heat["y"]["v"][0] == "0 to 2" and len(heat["y"]["v"]) == RANKS // 3
    assert [i for i, row in enumerate(heat["v"]) if max(row) == 0.9] == [r // 3 for r in range(99, RANKS, 100)]
    chart = "document.querySelector('#r1-heat .chart').chart"
    assert browser.js(f"return {chart}.getZr().storage.getDisplayList().filter(d => d.incremental).length") == 0
    browser.js(f"{chart}.dispatchAction({{type: 'dataZoom', start: 20, end: 60}})")
    assert browser.js(f"return {chart}.getZr().storage.getDisplayList().filter(d => d.incremental).length") == 0
    # The ends of the axis of ranks are ranks.
    low, high = browser.js("const a = document.querySelector('#r1-balance .chart').chart.getOption().xAxis[0]; return [a.min, a.max]")
    assert -20 < low < 0 and RANKS - 1 < high < RANKS + 20
    browser.click("#r1-heat .tools button", "PNG")
    picture = browser.saved("r1-heat.png")
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(picture)).convert("RGB")
    column = [image.getpixel((image.width // 2, y)) for y in range(3 * 40, image.height - 3 * 56)]
    assert (255, 255, 255) not in column


def test_links_work_in_a_notebook(browser, results, tmp_path):
    """In a frame, a link to a place is one of the notebook: it would load the notebook into the frame."""
    run_stoker("report", results["profile"], results["dir"] / "load.json", "-o", tmp_path / "page.html")
    inside = html.escape((tmp_path / "page.html").read_text())
    (tmp_path / "notebook.html").write_text(f'<!doctype html><iframe srcdoc="{inside}" sandbox="allow-scripts allow-downloads" width="900" height="700"></iframe>')
    browser.open(tmp_path / "notebook.html")
    browser.driver.switch_to.frame(browser.driver.find_element("css selector", "iframe"))
    try:
        until(lambda: browser.js("return document.querySelectorAll('nav a').length") == 2)
        browser.js("document.querySelectorAll('nav a')[1].click()")
        until(lambda: abs(browser.js("return document.getElementById('r2').getBoundingClientRect().top")) < 600)
        assert browser.js("return scrollY") > 1000 and browser.js("return location.href") == "about:srcdoc"
    finally:
        browser.driver.switch_to.default_content()


# ---- without a browser ----

def test_page_stays_small(page):
    """Mail servers refuse large attachments."""
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.S).group(1)
    assert page.stat().st_size - len(data.encode()) < 1_000_000
    assert "<" not in data


def test_damaged_and_foreign_results_are_refused(tmp_path, results):
    """A message with the name of the file, and no half page."""
    out = tmp_path / "page.html"
    load = (results["dir"] / "load.json").read_text()
    for text, says in [('{"schema": 1, "comm', "damaged JSON"), ('{"a": 1}', "neither a profile"), ("[1, 2]", ""), ("", ""),
                       (load.replace('"schema": 1', '"schema": 99', 1), "schema 99"),
                       (load.replace('"command": "load"', '"command": "help"', 1), "`stoker help`"),
                       ('{"schema": 1, "command": "report", "arguments": ["a.profile"], "result": {}}', "name a.profile instead"),
                       ('{"schema": 1, "command": "advise", "arguments": ["b.profile"], "result": {}}', "name b.profile instead"),
                       ('{"schema": 1, "command": "profile", "arguments": ["./x"], "result": {"profile": "c.profile"}}', "name c.profile instead"),
                       ('{"schema": 1, "command": "bench", "result": {"removed": 3}}', "contains no run"),
                       ('{"schema": 1, "command": "stage", "result": {"background": true}}', "neither a copy nor a comparison"),
                       ('{"schema": 1, "command": "inspect", "result": {}}', "describes no dataset"),
                       ('{"schema": 1, "command": "job", "result": {}}', "no job")]:
        (tmp_path / "x.json").write_text(text)
        done = run_stoker("report", tmp_path / "x.json", "-o", out, rc=None)
        assert done.rc not in (0, None) and says in done.err and "x.json" in done.err, done.err
        assert not out.exists()
    for text in ['{"schema": 1, "command": "job", "result": {"jobs": [1]}}', '{"schema": 1, "command": "load", "result": {"epochs": [1, null, {"epoch": "x"}]}}',
                 '{"schema": 1, "command": "pack", "result": {}}', '{"schema": 1, "command": "verify", "arguments": [7], "result": {"problems": 3}}']:
        (tmp_path / "x.json").write_text(text)
        run_stoker("report", tmp_path / "x.json", "-o", out)
        out.unlink()


def test_published_whole_or_not_at_all(tmp_path, results):
    """An old page stays as it was when a new one fails."""
    out = tmp_path / "page.html"
    out.write_text("old")
    run_stoker("report", results["dir"] / "load.json", tmp_path / "missing", "-o", out, rc=4)
    assert out.read_text() == "old" and len(list(tmp_path.iterdir())) == 1
    run_stoker("report", results["dir"] / "load.json", "-o", "/dev/full", rc=4)
    run_stoker("report", results["dir"] / "load.json", "--files", "-o", out, rc=2)


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.S).group(1))["results"]


@pytest.mark.parametrize("result,verdict", [
    ({"problems_total": 0, "whole": True, "checksummed_bytes": 9}, "The dataset is whole."),
    ({"problems_total": 0, "whole": True, "checksummed_bytes": 0}, "no checksums to compare"),
    ({"problems_total": 0, "whole": False, "checksummed_bytes": 9}, "not all of it was read"),
    ({"problems_total": 2, "whole": False, "checksummed_bytes": 9}, "2 problems were found.")])
def test_verify_claims_no_more_than_it_checked(tmp_path, result, verdict):
    """A folder of files without any checksum was called whole."""
    (tmp_path / "v.json").write_text(json.dumps({"schema": 1, "command": "verify", "arguments": ["d"], "result": result}))
    run_stoker("report", tmp_path / "v.json", "-o", tmp_path / "page.html")
    assert verdict in data_of(tmp_path / "page.html")[0]["verdict"]


def blocks_of(result):
    return {b["id"]: b for b in result["blocks"]}


def rows_of(result, table):
    table = blocks_of(result)[table]
    return [dict(zip([c["name"] for c in table["columns"]], row)) for row in table["rows"]]


def test_a_darshan_log_too(results, tmp_path):
    log = ROOT / "tests/data/darshan/mpi.txt"
    run_stoker("report", log, "-o", tmp_path / "page.html")
    shown, = data_of(tmp_path / "page.html")
    said = run_stoker("report", log, "--json", "-").json()["result"]
    assert shown["kind"] == "profile" and shown["verdict"] == said["verdict"]
    assert [(r[0], r[6]) for r in blocks_of(shown)["files"]["rows"]] == [(f["name"], f["counters"]["read_bytes"]) for f in said["files"]]


def test_results_of_one_name_are_told_apart(results, tmp_path):
    """Whoever keeps each run in a folder of its own calls them all alike: before/profile and after/profile, a100/study.json and
    h100/study.json. Drawn as one, the two would be a run that never was."""
    tmp = results["dir"]
    for letter in "ab":
        (tmp_path / letter).mkdir()
        shutil.copy(tmp / f"gpu-{letter}.json", tmp_path / letter / "study.json")
        shutil.copytree(results["profile"], tmp_path / letter / "profile")
    run_stoker("report", tmp_path / "a/study.json", tmp_path / "b/study.json", f"{tmp_path}/a/profile/", tmp_path / "b/profile",
               tmp / "load.json", tmp / "load.json", "-o", tmp_path / "page.html")
    shown = data_of(tmp_path / "page.html")
    assert [r["name"] for r in shown] == ["a/profile", "b/profile", "load.json", "load.json (2)", "a/study, b/study", "profiles side by side"]
    for letter, series in zip("ab", ("a/study", "b/study")):
        said = json.loads((tmp / f"scale-{letter}.json").read_text())["result"]["series"][0]["points"]
        mine = [(r["n"], r["runs"], r["value"]) for r in rows_of(shown[4], "points") if r["series"] == series]
        assert mine == [(p["n"], p["runs"], p["value"]) for p in said]
    assert {s["name"] for s in blocks_of(shown[5])["sizes"]["panels"][0]["series"]} == {"a/profile", "b/profile"}
    assert shown[5]["number"]["what"] == "as fast as the first: a/profile, from one run each" and shown[5]["verdict"].startswith("b/profile took ")
    assert "x measured): one run of each does not show the noise" in shown[5]["verdict"]


def test_series_of_one_name_in_two_studies_stay_two(tmp_path):
    for name, scale in (("x", 1), ("y", 2)):
        (tmp_path / f"{name}.csv").write_text("n,time\n" + "".join(f"{n},{scale * 8 / n}\n" for n in (1, 2, 4)))
        run_stoker("scale", "--from", f"gpu={tmp_path}/{name}.csv", "--save", tmp_path / f"{name}.json")
    done = run_stoker("report", tmp_path / "x.json", tmp_path / "y.json", "-o", tmp_path / "page.html", rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    study, = data_of(tmp_path / "page.html")
    assert [(r["series"], r["n"], r["value"]) for r in rows_of(study, "points")] == \
        [("gpu", n, 8 / n) for n in (1, 2, 4)] + [("y: gpu", n, 16 / n) for n in (1, 2, 4)]


def test_the_headline_of_two_curves_is_of_one_n(tmp_path):
    """"1.55 x as fast, each at its best N" compared N=8 with N=4, and the N to request was far below."""
    rows = [("K80", n, t) for n, t in ((1, 226), (2, 134), (4, 76))] + \
        [("RTX", n, t) for n, t in ((1, 171), (2, 108), (4, 64), (6, 52), (8, 49), (10, 49))]
    (tmp_path / "t.csv").write_text("series,n,time\n" + "".join(f"{s},{n},{t}\n" for s, n, t in rows))
    run_stoker("scale", "--from", tmp_path / "t.csv", "--save", tmp_path / "t.json")
    done = run_stoker("report", tmp_path / "t.json", "-o", tmp_path / "page.html", rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    study, = data_of(tmp_path / "page.html")
    assert study["number"]["value"] == 76 / 64 and study["number"]["what"] == "as fast: with N=4, RTX against K80 (not known)"
    assert study["verdict"].startswith("Request: K80 N=4 (balanced, not known), RTX N=6 (balanced, not known). RTX against K80: with N=1 not known")
    # Curves of one plot have one base, as on the screen: a GPU that is faster lies higher.
    curves = {c["name"]: c["v"] for c in blocks_of(study)["speedup"]["panels"][0]["series"]}
    assert curves["K80"][0] == 1 and near(curves["RTX"][0], 226 / 171)


@pytest.mark.parametrize("rows", ["1,100;1,130;1,90;2,80;2,50;2,105;4,60;4,95;4,40;8,70;8,35;8,90", "1,100;2,70",
                                  "1,3;1,3;2,2;2,2;4,1;4,1;8,1;8,1", "1,100;1,101;2,60;2,61;4,40;4,41;8,31;8,30", "4,9"])
def test_a_study_says_on_the_page_what_the_screen_says(rows, tmp_path):
    """The page said "Serial part 59.6 %" where the screen said "anything from 0 to 100 %"."""
    (tmp_path / "t.csv").write_text("n,time\n" + rows.replace(";", "\n") + "\n")
    said = run_stoker("scale", "--from", tmp_path / "t.csv", "--save", tmp_path / "t.json", "--no-plot").out
    said = " ".join(said.split())
    done = run_stoker("report", tmp_path / "t.json", "-o", tmp_path / "page.html", rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    study, = data_of(tmp_path / "page.html")
    for note in [*study["notes"], study["verdict"]]:
        assert " ".join(note.split()) in said
    for opening in ("Law: ", "Plateau: ", "Peak: "):
        assert (opening in said) == any(n.startswith(opening) for n in study["notes"])
    for row in rows_of(study, "recommended"):
        assert f"{row['sentence']}; {row['reason']}." in said


def test_a_comparison_of_one_form_has_its_verdict(tmp_path):
    """"The forms were measured; files were not." stood above a table of files."""
    src, dst = tmp_path / "src", tmp_path / "dst"
    src.mkdir()
    dst.mkdir()
    (src / "a").write_bytes(bytes(5000))
    said = run_stoker("stage", "--compare", src, dst, "--forms", "files", "--jobs-at-once", "1", "--runs", "1", "--json", tmp_path / "c.json").out
    done = run_stoker("report", tmp_path / "c.json", "-o", tmp_path / "page.html", rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    shown, = data_of(tmp_path / "page.html")
    assert shown["verdict"] == "One form was measured, files: there is none to compare it with."
    assert shown["verdict"] in " ".join(said.split())


def test_two_tunings_are_told_apart(tmp_path):
    """Two profiles, p.seg and p.vol, were both "Tuning p"."""
    candidate = {"id": "as-is", "label": "as it is", "verdict": "baseline", "changes": [], "actions": []}
    for where, arguments in (("a", ["one/p.d"]), ("b", ["two/p.e"]), ("c", ["python3", "train.py"])):
        (tmp_path / f"{where}.json").write_text(json.dumps({"schema": 1, "command": "tune", "arguments": arguments,
                                                            "result": {"name": "p", "verdict": "x", "candidates": [candidate]}}))
    done = run_stoker("report", *(tmp_path / f"{w}.json" for w in "abc"), "-o", tmp_path / "page.html", rc=None)
    if "built without the page" in done.err:
        pytest.skip("this build has no page: Node.js or its libraries are missing")
    assert [r["title"] for r in data_of(tmp_path / "page.html")] == ["Tuning one/p.d", "Tuning two/p.e", "Tuning p"]


def test_findings_of_several_profiles(results, tmp_path):
    """A profile without findings is a column, too: the reader sees that the change took them away."""
    logs = [ROOT / f"tests/data/darshan/{name}.txt" for name in ("mpi", "posix_stdio")]
    run_stoker("report", *logs, "-o", tmp_path / "page.html")
    table = blocks_of(data_of(tmp_path / "page.html")[-1])["findings"]
    of = [{f["id"]: f["gain_s"] for f in run_stoker("report", log, "--json", "-").json()["result"]["findings"]} for log in logs]
    assert [r[0] for r in table["rows"]] == list(of[0]) and of[0] and not of[1]
    for rule, _, *cells in table["rows"]:
        assert cells == [f"saves about {of[0][rule] * 1e3:.0f} ms", None]


def test_jobs_get_a_verdict_and_lines_to_copy(results, tmp_path):
    (tmp_path / "fake").mkdir()
    run_stoker("job", "--me", "--json", tmp_path / "jobs.json", env=FakeSlurm(tmp_path / "fake").env())
    run_stoker("report", tmp_path / "jobs.json", "-o", tmp_path / "page.html")
    said = json.loads((tmp_path / "jobs.json").read_text())["result"]
    shown, = data_of(tmp_path / "page.html")
    totals = said["totals"]
    assert shown["verdict"].startswith(f"{totals['jobs']} jobs: {totals['by_state']['pending']} pending, ")
    assert near(shown["number"]["value"], totals["core_hours_used"] / (totals["core_hours_used"] + totals["core_hours_idle"]))
    assert {f["name"]: f["value"] for f in shown["facts"]}["Service units"] == totals["su"]
    next_time = [(j["job"], n["line"], n["why"]) for j in said["jobs"] for n in j["next"]]
    assert [(f["title"].split(",")[0], f.get("lines", [None])[0], f["what_to_do"]) for f in shown["findings"]] == \
        [(f"job {job}", line, why) for job, line, why in next_time] and any(line for _, line, _ in next_time)
    assert any(n.startswith("Job 27, memory: at least what is shown") for n in shown["notes"])
    rows = rows_of(shown, "jobs-table")
    assert [(r["job"], r["state"], r["used.cpu_share"], r["cost.su"]) for r in rows] == [(j["job"], j["state"], j["used"]["cpu_share"], j["cost"]["su"]) for j in said["jobs"]]


@pytest.mark.parametrize("mode, expected", [(0o700, 0o600), (0o755, 0o644)])
def test_a_page_is_as_private_as_the_profile(tmp_path, results, mode, expected):
    """A page names the files of a profile: whoever may not read the one may not read the other."""
    folder = results["dir"] / "private.profile"
    if not folder.exists():
        shutil.copytree(results["profile"], folder)
    folder.chmod(mode)
    old = os.umask(0o022)
    try:
        run_stoker("report", folder, "-o", tmp_path / "page.html")
        run_stoker("report", folder, "--json", tmp_path / "all.json", "--csv", f"files={tmp_path}/files.csv")
    finally:
        os.umask(old)
    assert {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == dict.fromkeys(["page.html", "all.json", "files.csv"], expected)
