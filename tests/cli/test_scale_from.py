"""stoker scale --from: times measured elsewhere become a table, a curve and a recommendation."""

import csv
import json
import math
import pathlib
import random
import re
import subprocess

import pytest

from profilelib import needs_command

K80 = [(1, 226), (2, 134), (3, 95), (4, 76)]
RTX = [(1, 171), (2, 108), (3, 79), (4, 64), (5, 57), (6, 52), (7, 51), (8, 49), (9, 49), (10, 49)]


def write(path, rows, head="n,time"):
    path.write_text((head + "\n" if head else "") + "".join(",".join(map(str, r)) + "\n" for r in rows))
    return path


@pytest.fixture
def ddp(tmp_path):
    rows = [(n, t, "K80") for n, t in K80] + [(n, t, "RTX 2080 Ti") for n, t in RTX]
    return write(tmp_path / "ddp.csv", rows, "n,time,series")


def series_of(result, name):
    return next(s for s in result["series"] if s["name"] == name)


def test_published_tables_to_the_digit(stoker, ddp):
    """A student who checks the tool against the course's tables would stop trusting it."""
    file = ddp.with_suffix(".json")
    text = stoker("scale", "--from", ddp, "--json", file).out
    result = json.loads(file.read_text())["result"]
    printed = {"K80": [(1.00, 1.00), (1.69, 1.18), (2.38, 1.26), (2.97, 1.35)],
               "RTX 2080 Ti": [(1.00, 1.00), (1.58, 1.26), (2.16, 1.39), (2.67, 1.50), (3.00, 1.67),
                               (3.29, 1.82), (3.35, 2.09), (3.49, 2.29), (3.49, 2.58), (3.49, 2.87)]}
    for name, want in printed.items():
        points = series_of(result, name)["points"]
        assert [f"{p['speedup']:.2f}" for p in points] == [f"{s:.2f}" for s, _ in want]
        assert all(abs(p["relative_su"] - su) <= 0.01 for p, (_, su) in zip(points, want))
    assert series_of(result, "K80")["plateau"]["n"] is None
    rtx = series_of(result, "RTX 2080 Ti")
    assert rtx["plateau"]["n"] == 6 and rtx["recommended"]["balanced"]["n"] == 6
    assert round(result["comparisons"][0]["speed_of_b"], 2) == round(76 / 49, 2)
    assert "Plateau: N=6." in text and "Plateau: none up to N=4, as one run of each shows it." in text
    assert "with N=1 not known (1.32x measured): one run of each" in " ".join(text.split())
    # The table as the course prints it, pasted into a file, is a table.
    page = ddp.with_name("page.md")
    page.write_text("|N|Time (s)|Speedup|\n|---|---|---|\n" + "".join(f"|{n}|{t} |x|\n" for n, t in RTX))
    assert "Plateau: N=6." in stoker("scale", "--from", page, "--no-plot").out


def tables_in(text):
    """The rows of each table of the text, with the columns where cells end."""
    rows = [line for line in text.splitlines() if re.match(r"  +\d+ +\d+ .* [\d.]+x$", line)]
    return rows


def test_table_lines_up_and_fits(stoker, ddp, tmp_path):
    """A table that is out of step, or wraps, cannot be read."""
    path = write(tmp_path / "t.csv", [(1, 1000.5, 1), (1, 1002, 1), (16, 70.25, 16), (16, 71, 16)],
                 "n,time,cores")
    out = stoker("scale", "--from", path, "--no-plot").out
    head = next(line for line in out.splitlines() if "speedup" in line)
    ends = {head.index(w) + len(w) for w in ("time", "speedup", "efficiency", "rel. SU", "Karp-Flatt",
                                             "runs")}
    rows = tables_in(out)
    assert len(rows) == 2
    for row in rows:
        assert ends <= {m.end() for m in re.finditer(r"\S+( %)?", row)}, row
    for text in (out, stoker("scale", "--from", ddp).out):
        assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("locale, point, ideal", [("C.UTF-8", "●", "·"), ("C", "o", ".")])
def test_plot_holds_every_point(stoker, tmp_path, locale, point, ideal):
    """A curve with points missing, or garbage on a plain terminal."""
    path = write(tmp_path / "t.csv", [(1, 100), (2, 55), (4, 32), (8, 21)])
    out = stoker("scale", "--from", path, env={"LC_ALL": locale}).out
    start = out.index("speedup over N")
    plot = out[start:out.index("ideal", start)]
    frame = [line for line in plot.splitlines() if re.match(r" +[\d.]* [│┤|+]", line)]
    assert sum(line.count(point) for line in frame) == 4
    assert sum(line.count(ideal) for line in frame) > 8
    if locale == "C":
        assert out.isascii()


def plotted(out):
    """The frame of the plot, without axis and labels."""
    return [m[1] for m in re.finditer(r"^ +[\d.]* [|+](.*)$", out[out.index(" over N"):], re.M)
            if not m[1].startswith("----")]


def drawn_text(stoker, path, *args, **more):
    return stoker("scale", "--from", path, *args, **more).out


def test_curves_of_one_plot_have_one_base(stoker, tmp_path):
    """A GPU that is eleven times as fast would be drawn below the CPU."""
    rows = [(1, 110, "cpu"), (2, 56, "cpu"), (4, 29, "cpu"), (1, 10, "gpu"), (2, 9, "gpu"), (4, 8.9, "gpu")]
    path = write(tmp_path / "t.csv", rows, "n,time,series")

    def drawn(*args):
        out = stoker("scale", "--from", path, *args, env={"LC_ALL": "C"}).out
        frame = plotted(out)
        where = {m: [y for y, line in enumerate(frame) for c in line if c == m] for m in "ox"}
        return out, where

    out, y = drawn()
    assert "speedup over N, against cpu with N=1" in out
    assert len(y["o"]) == len(y["x"]) == 3 and max(y["x"]) < min(y["o"])  # the GPU is above
    out, y = drawn("--plot", "time")
    assert "time, s over N" in out and len(y["x"]) == 3 and min(y["x"]) > min(y["o"])
    out, y = drawn("--plot", "loglog")
    assert "(both axes to base 2)" in out and len(y["o"]) + len(y["x"]) == 6
    assert " over N" not in drawn_text(stoker, path, "--no-plot") + drawn_text(stoker, path, "--plot", "none")
    assert "speedup over N" in drawn_text(stoker, path, env={"STOKER_SCALE_PLOT": "yes"})
    assert " over N" not in drawn_text(stoker, path, env={"STOKER_SCALE_PLOT": "false"})


def test_rows_without_a_header_are_not_guessed(stoker, tmp_path):
    """1,1,226 (n, repeat, time): the repeat would be the time, and the noise be blamed."""
    rows = [(n, k, t + k) for n, t in ((1, 226), (2, 134), (4, 76)) for k in (1, 2)]
    refused = stoker("scale", "--from", write(tmp_path / "t.csv", rows, None), rc=4)
    assert "no header" in refused.err and 'such as "n,repeat,time"' in refused.err
    points = stoker("scale", "--from", write(tmp_path / "u.csv", rows, "n,repeat,time"), "--json", "-").json()
    assert [p["value"] for p in points["result"]["series"][0]["points"]] == [227.5, 135.5, 77.5]
    assert "N=1" in stoker("scale", "--from", write(tmp_path / "v.csv", [(1, 226), (2, 134)], None)).out


def test_noise_keeps_it_honest(stoker, tmp_path):
    """A user would double the GPUs for a difference that is chance."""
    rows = [(1, 100), (1, 104), (1, 97), (4, 30), (4, 31.5), (4, 29), (8, 29.6), (8, 31), (8, 28.6)]
    result = stoker("scale", "--from", write(tmp_path / "t.csv", rows), "--json", "-").json()["result"]
    series = result["series"][0]
    assert series["recommended"]["fastest"]["n"] == 4
    assert "N=8 against it: not known (1.01x measured)" in series["recommended"]["fastest"]["reason"]
    assert series["plateau"]["last_step"]["is"] == "not-known" and series["plateau"]["last_step"]["more_runs"] > 5
    # Two runs that differ by two thirds: N=1 is not the fastest because nothing is known.
    rows = [(1, 3.9), (1, 2.1), (2, 2.2), (2, 2.9), (3, 1.2), (3, 2.2)]
    fastest = stoker("scale", "--from", write(tmp_path / "u.csv", rows), "--json", "-").json()["result"]["series"][0]["recommended"]["fastest"]
    assert fastest["n"] == 3 and fastest["sentence"].startswith("Fastest measured: N=3 takes 1.70 s, 1.76x as fast as N=1")
    assert "N=2 against it: not known (0.667x measured)" in fastest["reason"]
    assert all(p["interval_is_range"] for p in series["points"])


def test_two_points_carry_nothing(stoker, tmp_path):
    """Two times and a law through them: a prediction from that would be made up."""
    out = stoker("scale", "--from", write(tmp_path / "t.csv", [(1, 100), (2, 60)]), "--predict", "4").out
    assert "cannot test it" in out and "N=4: not predicted" in out and "no third N" in out


def usl(n, a, b):
    return 100 * ((1 - a) / n + a + b * (n - 1))


def test_law_peak_and_prediction(stoker, tmp_path):
    """The law of a program that follows one, to 5 %, and what it says of an N not measured."""
    rng = random.Random(7)
    rows = [(n, usl(n, .05, .002) * (1 + rng.gauss(0, .005))) for n in (1, 2, 4, 8, 16, 32)
            for _ in range(5)]
    path = write(tmp_path / "t.csv", rows)
    laws = stoker("scale", "--from", path, "--json", "-", "--predict", "64,1000").json()["result"]["series"][0]
    assert laws["laws"]["chosen"] == "usl"
    fit = laws["laws"]["usl"]
    assert abs(fit["serial"] / .05 - 1) < .05 and abs(fit["coherence"] / .002 - 1) < .05
    assert abs(laws["laws"]["peak_n"] - math.sqrt(.95 / .002)) < 1
    near, far = laws["predictions"]
    assert near["cost_interval"][0] <= usl(64, .05, .002) <= near["cost_interval"][1]
    assert far["refused"] and far["cost"] is None and "four times" in far["why"]


def test_several_files_and_formats_in_one(stoker, tmp_path):
    """Two kinds of GPU, one exported by a spreadsheet, one saved by stoker itself."""
    k80 = write(tmp_path / "k80.csv", K80, "N;Time (s)".replace(";", ","))
    stoker("scale", "--from", f"RTX={write(tmp_path / 'x.csv', RTX)}", "--save", tmp_path / "rtx.json", "-q")
    stoker("scale", "--from", tmp_path / "rtx.json", "--json", tmp_path / "result.json", "-q")
    for second in ("rtx.json", "result.json"):
        result = stoker("scale", "--from", k80, "--from", tmp_path / second, "--json", "-").json()["result"]
        assert [s["name"] for s in result["series"]] == ["k80", "RTX"]
        assert len(result["series"][1]["points"]) == 10


def test_tables_of_other_tools_through_a_pipe(stoker, tmp_path):
    """Support staff get sacct's tables and JUBE's, not ours."""
    sacct = "JobID|AllocCPUS|Elapsed|State\n7|1|00:01:40|COMPLETED\n7.batch|1|00:01:40|COMPLETED\n8|4|00:00:30|COMPLETED\n"
    result = stoker("scale", "--from", "-", "--json", "-", input=sacct.encode()).json()["result"]
    assert {p["n"]: p["time_s"] for p in result["series"][0]["points"]} == {1: 100, 4: 30}
    assert result["study"]["unit"] == "CPUs"
    jube = write(tmp_path / "result.dat", [(1, 10, 99), (2, 6, 99)], "mpi,solve_avg[ms],solve_std[ms]")
    run = stoker("scale", "--from", jube, rc=4)
    assert "--columns n=HEADING" in run.err
    points = stoker("scale", "--from", jube, "--columns", "n=mpi,time=solve_avg", "--json",
                    "-").json()["result"]["series"][0]["points"]
    assert [p["time_s"] for p in points] == pytest.approx([0.01, 0.006])
    assert "--from" in stoker("scale", "--columns", "n=x", "--n", "1", "--", "true", rc=2).err


@needs_command("hyperfine")
def test_hyperfine(stoker, tmp_path):
    """Its results, as it writes them, are a study."""
    subprocess.run(["hyperfine", "-N", "--runs", "2", "-L", "threads", "1,2", "true", "--export-json",
                    "h.json", "--export-csv", "h.csv"], cwd=tmp_path, check=True, capture_output=True)
    for name, runs in (("h.json", 2), ("h.csv", 1)):
        result = stoker("scale", "--from", tmp_path / name, "--json", "-").json()["result"]
        assert {p["n"]: p["runs"] for p in result["series"][0]["points"]} == {1: runs, 2: runs}
        assert result["study"]["unit"] == "threads"


def test_service_units_and_wishes(stoker, tmp_path):
    """Money: what was allocated counts, at the site's rates."""
    rows = [(1, 3600, 10, 1), (2, 2000, 20, 2), (4, 1200, 40, 4)]
    path = write(tmp_path / "t.csv", rows, "n,time,cores,gpus")
    args = ["scale", "--from", path, "--su-weights", "core=0.5,gpu=10", "--site", "Tetralith", "--unit", "GPUs",
            "--deadline", "40m", "--max-relative-su", "1.2", "--csv", tmp_path / "out.csv"]
    text = stoker(*args, "--json", tmp_path / "json").out
    series = json.loads((tmp_path / "json").read_text())["result"]["series"][0]
    assert [p["su"] for p in series["points"]] == pytest.approx([15, 30 * 2000 / 3600, 20])
    assert series["recommended"]["deadline"]["n"] == 2
    assert series["recommended"]["max-relative-su"]["n"] == 2
    assert "Tetralith" in text and "2 GPUs take 33 min 20 s" in text
    table = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [float(r["relative_su"]) for r in table] == pytest.approx([1, 30 * 2000 / 54000, 72000 / 54000])
    assert table[0]["value_low"] == "" and table[0]["n"] == "1"


def test_does_the_accelerator_pay(stoker, tmp_path):
    """The question of the course: is it worth using the GPU?"""
    rows = [(1, 1000, "cpu", 1, 0), (8, 150, "cpu", 8, 0), (1, 30, "gpu", 4, 1)]
    out = stoker("scale", "--from", write(tmp_path / "t.csv", rows, "n,time,series,cores,gpus")).out
    out = " ".join(out.split())
    assert "As measured, the accelerator pays: gpu takes 30.0 s with N=1 at its best" in out
    assert "gpu against cpu: not known (5x measured): one run of each" in out


def test_failures_are_marked_and_the_rest_is_shown(stoker, tmp_path):
    """One job that ran out of memory would cost the whole study."""
    rows = [(1, 100, "ok"), (2, 60, "COMPLETED"), (4, 35, "ok"), (8, "", "OUT_OF_MEMORY")]
    out = stoker("scale", "--from", write(tmp_path / "t.csv", rows, "n,time,status")).out
    assert re.search(r"8 +0 +out of memory", out) and "N=8: 1 of 1 run did not end well" in out
    assert "Fastest measured: N=4" in out
    none = write(tmp_path / "none.csv", [(1, "", "failed")], "n,time,status")
    assert "no good run" in stoker("scale", "--from", none, rc=1).out


def test_rates_and_weak_scaling(stoker, tmp_path):
    """More is better for images/s; and a problem that grows with N is judged by its own rule."""
    rate = write(tmp_path / "r.csv", [(1, 100), (2, 190), (4, 300)], "n,rate")
    points = stoker("scale", "--from", rate, "--json", "-").json()["result"]["series"][0]["points"]
    assert [p["speedup"] for p in points] == pytest.approx([1, 1.9, 3])
    value = write(tmp_path / "v.csv", [(1, 100), (2, 190), (4, 300)], "n,value")
    again = stoker("scale", "--from", value, "--better", "higher", "--json", "-").json()["result"]
    assert [p["speedup"] for p in again["series"][0]["points"]] == pytest.approx([1, 1.9, 3])
    weak = write(tmp_path / "w.csv", [(1, 100), (2, 105), (4, 111), (8, 118)])
    result = stoker("scale", "--from", weak, "--weak", "--json", "-").json()["result"]["series"][0]
    assert result["points"][3]["efficiency"] == pytest.approx(100 / 118)
    assert result["points"][3]["speedup"] == pytest.approx(800 / 118)


@pytest.mark.parametrize("text, line, words", [
    ("n,time\n1,10\n2,ten\n", 3, '"ten" is not a time'),
    ("n,time\n1,0\n", 2, '"0" is not a time'),
    ("n,time\n-1,5\n", 2, "is not a valid N"),
    ("n,speed\n1,5\n", 1, "needs a column `n`"),
    ('n,time\n1,"5\n', 2, "quote"),
    ("n,time\n1,5,6\n", 2, "more cells"),
])
def test_bad_files_are_named_with_their_line(stoker, tmp_path, text, line, words):
    """Who typed a table by hand wants to know where the slip is."""
    (tmp_path / "bad.csv").write_text(text)
    err = stoker("scale", "--from", tmp_path / "bad.csv", rc=4).err
    assert f"bad.csv:{line}: " in err and words in err


@pytest.mark.parametrize("args, words", [
    ((), "--from"),
    (("--su-weights", "core=1,tpu=3"), "core=1,gpu=2"),
    (("--su-weights", "core=-1"), "core=1,gpu=2"),
    (("--max-relative-su", "cheap"), "write a number"),
    (("--predict", "4,x"), "whole numbers"),
])
def test_wrong_usage(stoker, ddp, args, words):
    """A typo must not end in numbers."""
    given = ["--from", ddp, *args] if args else []
    assert words in stoker("scale", *given, rc=2).err


def test_a_full_disk_and_a_device(stoker, ddp):
    """The hint would name options that the command has not; and a device would be replaced by a file."""
    run = stoker("scale", "--from", ddp, "--csv", "/dev/full", rc=4)
    assert "No space left" in run.err and "hint: free some space" in run.err and "--index" not in run.err
    assert not pathlib.Path("/dev/full").is_file()


def test_help_is_in_groups_and_for_people(stoker):
    """Forty options in a block, some of them for stoker's own jobs, hide those that one needs."""
    text = stoker("scale", "--help").out
    assert "Usage: stoker scale [OPTIONS] [-- CMD [ARG...]]" in text
    assert re.findall(r"^(What runs|How often|Where|Options of every command):$", text, re.M) == [
        "What runs", "How often", "Where", "Options of every command"]
    for page in (text, stoker("watch", "--help").out, stoker("help", "--man", "scale").out,
                 stoker("completion", "bash", "--", "scale", "--").out):
        assert "--inside" not in page and "node-sample" not in page and "\\-inside" not in page
    assert "stoker profile [OPTIONS] -- CMD" in stoker("profile", rc=2).err


def test_hostile_names_reach_no_terminal(stoker, tmp_path):
    """A series called by an escape sequence would take over the terminal."""
    (tmp_path / "t.csv").write_bytes(b"n,time,series,note,status\n1,5,\x1b[31m\xff,,ok\n2,4,\x1b[31m\xff,,ok\n"
                                     b"4,,\x1b[31m\xff,\x1b]0;x\x07,failed\n")
    run = stoker("scale", "--from", tmp_path / "t.csv", "--unit", "\x1b[7mx", "--site", "\x1b[7m",
                 "--cores-per-n", "1", "--json", "-", "--csv", tmp_path / "o.csv")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", run.out + run.err)
    assert json.loads(run.out)["result"]["series"][0]["name"].endswith("[31m�")
