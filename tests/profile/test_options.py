"""What is recorded and what not: --include, --exclude, --for, --trace; files left out by default
are still counted; marks of the program."""

import json
import subprocess

import pytest

from conftest import STOKER
from profilelib import PYTHON, bare_env, compiled, profile, zeros  # noqa: F401

READ = "import sys\nfor path in sys.argv[1:]: open(path, 'rb').read()"


@pytest.fixture
def files(tmp_path):
    return [zeros(tmp_path / "data" / name, 5000) for name in ("a.bin", "b.bin", "c.txt")]


def test_interpreter_and_libraries_are_left_out_but_counted(profile, files):
    """Else a Python program's profile is about Python's own files."""
    p = profile([PYTHON, "-c", READ, *files])
    assert not [r["path"] for r in p.records if r["path"].startswith(("/usr/", "/etc/", "/proc/"))]
    assert p.processes[0]["left_out_files"] > 10
    assert p.processes[0]["left_out_read_bytes"] > 10000


def test_exclude_and_include(profile, files):
    p = profile([PYTHON, "-c", READ, *files], "--exclude", files[0].parent)
    assert not p.below(files[0].parent) and p.processes[0]["left_out_read_bytes"] >= 15000
    p = profile([PYTHON, "-c", READ, *files], "--exclude", "*.bin")
    assert {r["path"] for r in p.below(files[0].parent)} == {str(files[2])}
    p = profile([PYTHON, "-c", READ, *files], "--exclude", files[0].parent, "--include", files[1])
    assert {r["path"] for r in p.below(files[0].parent)} == {str(files[1])}
    p = profile(["cat", "/etc/hostname"], "--include", "/etc/hostname")
    assert [r["path"] for r in p.records] == ["/etc/hostname"]


def test_for(profile, files):
    """--for ends the recording, not the program."""
    script = ("import sys, time\nopen(sys.argv[1], 'rb').read()\ntime.sleep(1.2)\n"
              "open(sys.argv[2], 'rb').read()\nprint('done')")
    p = profile([PYTHON, "-c", script, *files[:2]], "--for", "600ms")
    assert (p.rc, p.out) == (0, b"done\n")
    assert p.count(files[0], "read_bytes") == 5000 and p.count(files[1], "read_bytes") == 0
    assert p.report["profile"]["stopped_early"]


def test_trace(profile, files, tmp_path):
    """Every operation, in a file that ui.perfetto.dev opens."""
    p = profile([PYTHON, "-c", READ, *files], "--trace")
    out = tmp_path / "trace.json"
    subprocess.run([STOKER, "report", p.dir, "--trace-out", out], check=True, env=bare_env(),
                   stdout=subprocess.DEVNULL)
    events = json.loads(out.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    reads = [e for e in events if e.get("name", "").startswith("read") and "a.bin" in json.dumps(e)]
    # Data, then the end of the file.
    assert len(reads) in (1, 2) and all(e["ph"] == "X" and e["dur"] >= 0 for e in reads)
    assert p.report["profile"]["traced"]


def test_profiles_of_two_runs_do_not_mix(profile, files, tmp_path):
    """A second run into the same folder is refused, or its own."""
    first = profile([PYTHON, "-c", READ, files[0]], out=tmp_path / "p")
    again = profile([PYTHON, "-c", READ, files[1]], out=tmp_path / "p")
    paths = {r["path"] for r in again.records}
    assert first.rc == 0
    assert (again.rc != 0 and paths == {str(files[0])}) or (again.rc == 0
                                                            and paths == {str(files[1])})
