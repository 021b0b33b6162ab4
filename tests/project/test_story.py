"""The story that the README begins, docs/tutorial.md tells and `make demo` runs: its commands work, one after
the other, and print what the pages show. Times are not compared."""

import importlib.machinery
import importlib.util
import re
import subprocess

import pytest

from conftest import IDLE, PATIENCE_S, ROOT, STOKER
from packagelib import environment
from slowfslib import slowfs_trouble

DEMO = ROOT / "tools/demo"
PICTURES, EPOCHS = 80, 3  # with --quick


def load_demo():
    """The demo as a module: it knows how to read the tutorial."""
    loader = importlib.machinery.SourceFileLoader("demo", str(DEMO))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(module)
    return module


def told():
    """The tutorial: [(sentence, [(command, its output)])]."""
    return list(load_demo().story((ROOT / "docs/tutorial.md").read_text()))


def commands_told():
    return [pair for _, commands in told() for pair in commands]


# Rows that depend on what was measured: severities of findings, costs of what tune found.
VARYING = {"high", "medium", "low", "note", "what it costs", "epoch", "disk", "disk memory per node", "import",
           "for x, y in loader", "pass"}


def rows(output):
    """The names of the rows of tables, without their numbers."""
    return {row.strip() for row in re.findall(r"^ *([A-Za-z][\w ,']*?):? {2,}\S", output, re.M)} - VARYING


def run_demo(tmp_path):
    """([(command, its output)], the summary) of a short run."""
    for module in ("numpy", "PIL"):
        pytest.importorskip(module)
    env = environment(STOKER=STOKER, TMPDIR=tmp_path)
    env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    done = subprocess.run([DEMO, "--quick", "--page", tmp_path / "page.html"], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    story, summary = done.stdout.split("\nWhat changed\n")
    for number, (sentence, _) in enumerate(told(), 1):
        assert f"\n{number}. {sentence}\n" in story
        story = story.replace(f"\n{number}. {sentence}\n", "")
    return re.findall(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", story + "\n", re.M), summary


def test_the_tutorial_runs_and_prints_what_it_shows(tmp_path):
    """The first thing that a newcomer tries would fail, or show something else than the page."""
    if slowfs_trouble():
        pytest.skip(slowfs_trouble())
    shown, (ran, summary) = commands_told(), run_demo(tmp_path)
    assert [c.split()[:2] for c, _ in ran] == [c.split()[:2] for c, _ in shown]
    for (command, page), (_, now) in zip(shown, ran):
        if command.startswith("diff"):
            assert now.split() == page.split()
        assert rows(page) <= rows(now), f"{command}\n{now}"
    said = {" ".join(command.split()[:2]): output for command, output in ran}
    losses = [re.findall(r"loss ([\d.]+)", output) for _, output in ran if "epoch 0" in output]
    assert [len(loss) for loss in losses] == [EPOCHS, EPOCHS]
    opened = re.search(r"files opened +([\d,]+) +([\d,]+)\n", summary).groups()
    before, after = (int(n.replace(",", "")) for n in opened)
    assert before >= EPOCHS * PICTURES and after < 50
    if IDLE or "many-small-files" in said["stoker report"]:  # else the machine is so busy that reading is no matter
        assert "many-small-files" in re.search(r"findings gone +(.*)", summary).group(1)
        assert "--shuffle mixes them" in " ".join(said["stoker advise"].split())
    page = load_demo().page_said()
    assert "built without the page" in page or (tmp_path / "page.html").stat().st_size > 100000
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("stoker-demo-")] == []


def test_the_demo_leaves_out_what_it_cannot_run(tmp_path, monkeypatch):
    """Without FUSE or Node.js, `make demo` would end in the middle."""
    demo = load_demo()
    monkeypatch.setattr(demo, "slowfs_missing", lambda: "no FUSE")
    monkeypatch.setattr(demo, "page_said", lambda: "stoker: report: this stoker was built without the page: no Node.js")
    monkeypatch.setattr(demo, "find_python", lambda: "/usr/bin/python3")
    stage = demo.Stage(tmp_path, quick=False)
    assert {c.split()[-1]: stage.left_out(c) for c, _ in commands_told() if stage.left_out(c)} == {
        "1ms": "no FUSE; the rest runs on the local disk, which is fast",
        "report.html": "this stoker was built without the page: no Node.js"}


def test_the_demo_says_so_if_tune_tried_nothing():
    """On a fast disk or a busy machine, `make demo` would end in a traceback."""
    said = load_demo().tune_said
    pack = {"id": "pack", "verdict": "skipped", "times": None, "times_ci": [None, None]}
    assert said({"candidates": []}) == said({"candidates": [pack]}) == "nothing: packing was not tried, see above"
    pack = {"id": "pack", "verdict": "gain", "times": 5.58, "times_ci": [4.81, 6.47]}
    assert said({"candidates": [pack]}) == "packed: 5.6 times as fast (4.8 to 6.5)"
    pack = {**pack, "verdict": "unclear", "times_ci": [None, None]}
    assert said({"candidates": [pack]}) == "packed: 5.6 times as fast (not known)"


def test_the_readme_tells_the_same_story():
    """Its commands would not be the ones that are tested."""
    story = (ROOT / "README.md").read_text().split("\n## A story\n")[1].split("\n## ")[0]
    commands = re.findall(r"^\$ ((?:.*\\\n)*.*)", story, re.M)
    assert len(commands) > 4 and set(commands) <= {command for command, _ in commands_told()}
