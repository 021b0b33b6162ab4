"""stoker stage --compare: forms of the same data, and jobs at once, on the user's own storage."""

import json
import os
import signal
import subprocess

import pytest

from conftest import STOKER, clean_env, until

FORMS = ["files", "tar", "records", "squashfs"]


def tree_of(path):
    """Names, sizes and times of everything below path."""
    return sorted((str(p.relative_to(path)), s.st_size if p.is_file() else 0, s.st_mtime_ns)
                  for p in path.rglob("*") for s in [p.lstat()])


@pytest.fixture
def place(tmp_path, images):
    """SRC in a folder of its own, and a DST: what a comparison leaves in either is seen."""
    beside, dst = tmp_path / "storage", tmp_path / "node"
    beside.mkdir()
    dst.mkdir()
    (beside / "a {n} b").mkdir()  # words that mean something in the command of a study
    src = images[0].rename(beside / "a {n} b" / "src")
    return src, dst


def test_forms_and_jobs(stoker, place, tmp_path):
    """A wrong table would send a user to the wrong form; anything left behind fills the storage."""
    src, dst = place
    before, out = tree_of(src), tmp_path / "out.json"
    run = stoker("stage", "--compare", src, dst, "--runs", "1", "--jobs-at-once", "1,2", "--json", out)
    result = json.loads(out.read_text())["result"]
    assert result["complete"] and result["files"] == 15 and result["via"] == "local"
    assert [f["form"] for f in result["forms"]] == FORMS
    for form in result["forms"]:
        if form["not_measured"]:  # a tool is not installed here
            assert form["not_measured"].split()[0] in ("tar", "mksquashfs")
            continue
        assert [(p["jobs"], p["measured"]) for p in form["points"]] == [(1, 1), (2, 2)]
        for p in form["points"]:
            assert 0 < p["first_s"] <= p["last_s"] <= p["slowest_s"]
        assert (form["prepare_s"] is None) == (form["form"] == "files")
        # One run of each shows no noise: nothing is called flat, and no form faster.
        assert (form["bend"]["flat_to"], form["bend"]["unclear_at"], form["bend"]["law"]) == (1, 2, "unknown")
        assert "one run of each does not show the noise" in form["verdict"]
        assert form["form"] == "files" or form["against_files"]["is"] == "not-known"
    assert "--weak" not in run.out  # N is the number of jobs: that is how the work grows
    assert "jobs at once" in run.out and "prepare once" in run.out
    assert tree_of(src) == before
    assert os.listdir(src.parent) == ["src"] and os.listdir(dst) == []


def ended(src, dst, end):
    """A comparison that is ended in the middle of its runs: (status, output, what it said)."""
    process = subprocess.Popen([STOKER, "stage", "--compare", src, dst, "--runs", "100", "--jobs-at-once", "2",
                                "--forms", "files,tar", "--progress-every", "0.1s"], env=clean_env(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               # nohup, under which the tests may run, ignores it
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    # With the times of a second run there, the first run is part of the study.
    until(lambda: len(list(src.parent.glob("stoker-compare.*/results/*"))) > 1)
    end(process)
    out = process.stdout.read()
    err = "" if process.stderr.closed else process.stderr.read()
    return process.wait(), out, err


ENDS = {"interrupt": (lambda p: p.send_signal(signal.SIGINT), 128 + signal.SIGINT),
        "hangup": (lambda p: p.send_signal(signal.SIGHUP), 128 + signal.SIGHUP),
        "reader": (lambda p: p.stderr.close(), 128 + signal.SIGPIPE)}


@pytest.mark.parametrize("how", ENDS)
def test_an_early_end_leaves_nothing(place, how):
    """Ctrl-C, or a closed laptop, must not leave four copies of a dataset on the shared storage."""
    src, dst = place
    before, (end, status) = tree_of(src), ENDS[how]
    got, out, err = ended(src, dst, end)
    assert got == status
    assert how == "reader" or "everything that the comparison made was removed" in err
    assert "not all of them ended well" in out  # what is known so far is shown
    assert tree_of(src) == before
    assert os.listdir(src.parent) == ["src"] and os.listdir(dst) == []


def test_a_killed_comparison_is_named(stoker, place):
    """What it left takes space until a person removes it: only that person knows that it is dead."""
    src, dst = place
    (src.parent / "stoker-compare.0123").mkdir()
    run = stoker("stage", "--compare", src, dst, "--runs", "1", "--jobs-at-once", "1", "--forms", "files")
    assert "stoker-compare.0123 in" in run.out and os.listdir(dst) == []
    assert sorted(os.listdir(src.parent)) == ["src", "stoker-compare.0123"]


def test_a_form_that_fails_does_not_stop_the_others(stoker, place, tmp_path):
    """One missing compressor must not cost the comparison of everything else."""
    src, dst = place
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mksquashfs").write_text("#!/bin/sh\necho 'no such compressor' >&2\nexit 1\n")
    (tools / "mksquashfs").chmod(0o755)
    run = stoker("stage", "--compare", src, dst, "--runs", "1", "--jobs-at-once", "1", "--forms",
                 "files,squashfs", "--json", "-", env={"PATH": f"{tools}:{os.environ['PATH']}"})
    files, squashfs = run.json()["result"]["forms"]
    assert files["points"] and not squashfs["points"]
    assert squashfs["not_measured"] == "mksquashfs ended with status 1: no such compressor"
    assert os.listdir(src.parent) == ["src"] and os.listdir(dst) == []


def test_space_is_checked_first(stoker, tmp_path):
    """Hours of preparing, and then no space, on a file system that others need, too."""
    src, dst = tmp_path / "data", tmp_path / "node"
    src.mkdir()
    dst.mkdir()
    with open(src / "huge.bin", "wb") as f:
        f.truncate(1 << 42)
    run = stoker("stage", "--compare", src, dst, "--forms", "tar", rc=2)
    assert "take up to 4.00 TiB" in run.err and "--beside" in run.err
    run = stoker("stage", "--compare", src, dst, "--forms", "files", rc=2)
    assert "cannot take all copies at once" in run.err
    assert os.listdir(tmp_path / "node") == []


@pytest.mark.parametrize("part", ["train", "images/val2017"])
def test_nothing_is_made_where_programs_list(part, tmp_path):
    """Another job's ImageFolder takes a folder in the dataset for a class without pictures."""
    src, dst = tmp_path / "det" / part, tmp_path / "node"
    src.mkdir(parents=True)
    dst.mkdir()
    (src / "1.bin").write_bytes(bytes(5000))
    process = subprocess.Popen([STOKER, "stage", "--compare", src, dst, "--runs", "100", "--jobs-at-once", "2",
                                "--forms", "files,tar", "--progress-every", "0.1s"], env=clean_env(),
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        until(lambda: [p for p in tmp_path.iterdir() if p.name.startswith("stoker")])
        assert not [p for p in (tmp_path / "det").rglob("stoker*")]
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["det", "node"]


def test_wrong_words(stoker, place):
    src, dst = place
    assert "is not a form" in stoker("stage", "--compare", src, dst, "--forms", "zip", rc=2).err
    assert "--jobs" in stoker("stage", "--compare", src, dst, "--jobs-at-once", "0", rc=2).err
    assert "no such folder" in stoker("stage", "--compare", src, dst / "no", rc=2).err
    assert "exclude" in stoker("stage", "--compare", "--list", src, rc=2).err
    assert os.listdir(src.parent) == ["src"] and os.listdir(dst) == []
