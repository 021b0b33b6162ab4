"""`stoker advise`: what to change, how we know, and when there is nothing to fix."""

import json
import os
import re
import subprocess

import pytest

from conftest import run_stoker

# Opens a file for each of 40,000 samples; nothing else: half of its time is in open and close.
BAD = """
import os, sys
for i in range(40000):
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.pread(fd, 64, i * 16)
    os.close(fd)
"""

# Reads the file in large pieces and then computes (sleeps).
GOOD = """
import sys, time
with open(sys.argv[1], "rb", buffering=0) as f:
    while f.read(4 << 20):
        pass
time.sleep(3)
"""


def profiled(root, name, text):
    (root / f"{name}.py").write_text(text)
    (root / "big.bin").write_bytes(os.urandom(8 << 20))
    run_stoker("profile", "-q", "-o", root / name, "--", "/usr/bin/python3", root / f"{name}.py",
               root / "big.bin")
    return root / name


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    return profiled(tmp_path_factory.mktemp("advise"), "bad", BAD)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return profiled(tmp_path_factory.mktemp("advise"), "good", GOOD)


def test_a_finding_has_evidence_lines_and_gain(stoker, bad):
    """A finding that only says "slow" helps nobody."""
    text = stoker("advise", bad, rc=1).out
    assert "(open-per-sample)" in text
    finding = " ".join(text[text.index("(open-per-sample)"):].split("\n\n")[0].split())
    assert "40,000 times" in finding and "big.bin" in finding
    assert "What to do:" in finding and "f = open(" in finding
    assert re.search(r"Gain: about [\d.]+ m?s of", finding)


def test_a_healthy_job_has_nothing_to_fix(stoker, good):
    """Advice that fits every program helps none."""
    done = stoker("advise", good)
    assert done.out.startswith("nothing to fix") and done.rc == 0
    assert stoker("advise", good, "--json", "-").json()["result"]["findings"] == []


def test_nothing_recorded_is_not_healthy(stoker, tmp_path):
    """A script that checks for status 0 would take a program that was not recorded for a healthy one."""
    stoker("profile", "-q", "-o", tmp_path / "p", "--", "true")
    for log in (tmp_path / "p").glob("*.stklog"):
        log.unlink()
    done = stoker("advise", tmp_path / "p", rc=3)
    assert done.out.startswith("nothing is known") and "nothing to fix" not in done.out


def test_json_has_the_findings(stoker, bad):
    """For scripts that act on them."""
    whole = stoker("advise", bad, "--json", "-", rc=1).json()
    result = whole["result"]
    assert whole["exit_status"] == 1 and result["findings_total"] == len(result["findings"])
    for finding in result["findings"]:
        assert finding["severity"] in ("note", "low", "medium", "high")
        assert finding["sentences"] and finding["evidence"] and finding["what_to_do"]
        assert finding["gain_why"]
        assert finding["actions"] and all(a["kind"] for a in finding["actions"])
    first = next(f for f in result["findings"] if f["id"] == "open-per-sample")
    evidence = {e["name"]: e["value"] for e in first["evidence"]}
    assert evidence["opens"] == 40000 and 0 < first["gain_s"] < result_run_s(stoker, bad)


def result_run_s(stoker, profile):
    return stoker("report", profile, "--json", "-").json()["result"]["profile"]["run_s"]


def test_report_and_advise_say_the_same(stoker, bad):
    """Users would trust neither of two commands that disagree."""
    advised = stoker("advise", bad, "--json", "-", rc=1).json()["result"]
    reported = stoker("report", bad, "--json", "-").json()["result"]
    assert reported["findings"] == advised["findings"]
    assert reported["verdict"] == advised["verdict"]
    assert stoker("report", bad, "--findings").out == stoker("advise", bad, rc=1).out
    screen = stoker("report", bad).out
    assert all(f["id"] in screen for f in advised["findings"][:5])


def test_only_and_min_choose(stoker, bad):
    """Who follows up one finding wants that one, and its exit status."""
    one = stoker("advise", bad, "--only", "open-per-sample", "--json", "-", rc=1).json()["result"]
    assert [f["id"] for f in one["findings"]] == ["open-per-sample"]
    assert stoker("advise", bad, "--only", "imbalance", "--json", "-").json()["result"]["findings"] == []
    high = stoker("advise", bad, "--min", "high", "--json", "-", rc=(0, 1)).json()["result"]
    assert all(f["severity"] == "high" for f in high["findings"])
    done = stoker("advise", bad, "--only", "open-per-samples", rc=2)
    assert "did you mean open-per-sample?" in done.err


def test_list_has_every_rule(stoker):
    """So that one can see what was looked for and not found."""
    rules = stoker("advise", "--list", "--json", "-").json()["result"]["rules"]
    assert len({r["id"] for r in rules}) == len(rules) >= 20
    text = stoker("advise", "--list").out
    assert all(r["id"] in text and r["summary"] in text for r in rules)


def test_a_profile_must_be_named(stoker, tmp_path):
    """Not a report about nothing."""
    assert "PROFILE is missing" in stoker("advise", rc=2).err
    assert stoker("advise", tmp_path / "none", rc=4).err


def test_json_is_written_with_a_finding_too(stoker, bad, tmp_path):
    """Status 1 says that there is something to fix, not that the result is missing."""
    stoker("advise", bad, "--quiet", "--json", tmp_path / "a.json", rc=1)
    assert json.loads((tmp_path / "a.json").read_text())["outcome"] == "problem found"


# Two of five files: the others, and the folder beside them, are none of its business.
SOME = """
import pathlib, sys
for name in ("a b.bin", "deep/c.bin"):
    (pathlib.Path(sys.argv[1]) / name).read_bytes()
"""


def test_only_what_was_read_is_copied(stoker, tmp_path):
    """The folder of a dataset may be the working directory, with a virtual environment in it."""
    for name in ("a b.bin", "deep/c.bin", "deep/d.bin", "venv/lib.bin", "e.bin"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_bytes(name.encode() * 100)
    for files, rc in (("100", 0), ("1", 3)):  # 3: files in groups have no names
        p = tmp_path / f"p{files}"
        stoker("profile", "-q", "--files", files, "-o", p, "--", "/usr/bin/python3", "-c", SOME, tmp_path / "data")
        done = stoker("report", p, "--list-read", tmp_path / "data", rc=rc)
        assert rc or done.out.splitlines() == ["a b.bin", "deep/c.bin"]
        assert not rc or "not complete" in done.err


NAMES = [b"a b.bin", b"deep/c.bin", b"-rf", b"--files-from=secret", b"--checkpoint-action=exec=touch hacked", b" lead", b"trail ",
         b"new\nline", b"tab\there", b"\x1b[2J", b"back\\slash\\n", b"\\055x", b"quote'\"", "ünï\u202e".encode(), b"\xff\xfe", b"#c"]

READ_ALL = """
import os, sys
os.chdir(sys.argv[1])
for name in sys.stdin.buffer.read().split(b"\\0"):
    os.open(name, os.O_RDONLY) and os.read(os.open(name, os.O_RDONLY), 100)
"""


def test_tar_takes_the_list(stoker, tmp_path):
    """A file named like an option of tar would take another file into the archive, or run a program."""
    data, node = tmp_path / "data", tmp_path / "node"
    node.mkdir()
    for name in [*NAMES, b"other"]:
        path = os.path.join(os.fsencode(data), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(name)
    stoker("profile", "-q", "-o", tmp_path / "p", "--", "/usr/bin/python3", "-c", READ_ALL, data,
           input=b"\0".join(NAMES))
    out = stoker("report", tmp_path / "p", "--list-read", data).out
    assert len(out.splitlines()) == len(NAMES) and not set(out) & set("\x1b\t\u202e")
    (tmp_path / "files.txt").write_text(out)
    tar = ["tar", "-C", data, "-cf", tmp_path / "a.tar", "-T", "files.txt"]
    subprocess.run(tar, check=True, cwd=tmp_path)
    subprocess.run(["tar", "-C", node, "-xf", tmp_path / "a.tar"], check=True)
    there = {os.path.relpath(os.path.join(at, f), os.fsencode(node)) for at, _, files in os.walk(os.fsencode(node)) for f in files}
    assert there == set(NAMES) and not (tmp_path / "hacked").exists()
