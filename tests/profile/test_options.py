"""What is recorded and what not: --include, --exclude, --for, --trace; files left out by default
are still counted; marks of the program."""

import json
import subprocess

import pytest

from conftest import STOKER, run_stoker
from profilelib import LIBRARY, PYTHON, bare_env, compiled, profile, zeros  # noqa: F401

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
    script = ("import sys, time\nopen(sys.argv[1], 'rb').read()\ntime.sleep(4.2)\n"
              "open(sys.argv[2], 'rb').read()\nprint('done')")
    p = profile([PYTHON, "-c", script, *files[:2]], "--for", "4s")
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
    """A second run into the same folder has its own."""
    first = profile([PYTHON, "-c", READ, files[0]], out=tmp_path / "p")
    again = profile([PYTHON, "-c", READ, files[1]], out=tmp_path / "p")
    again.dir = tmp_path / "p-2"
    assert (first.rc, again.rc) == (0, 0)
    assert [{r["path"] for r in p.records} for p in (first, again)] == [{str(files[0])},
                                                                        {str(files[1])}]


def test_files_that_a_shell_opens_are_counted(profile, tmp_path):
    """`program > file` is how many programs write, and `< file` how they read."""
    a, b = tmp_path / "a.bin", tmp_path / "b.bin"
    script = 'head -c 3000000 /dev/zero > "$0"; cat < "$0" > "$1"; echo done; echo x >&2'
    p = profile(["sh", "-c", script, a, b])
    assert (p.count(a, "write_bytes"), p.count(a, "read_bytes")) == (3000000, 3000000)
    assert p.count(b, "write_bytes") == 3000000 and p.out == b"done\n"
    assert p.report["coverage"]["write"] > 0.999


def test_what_the_program_prints_is_no_data(profile, tmp_path):
    """A job's output goes to a file, and is none that it made."""
    out, data = tmp_path / "slurm-1.out", tmp_path / "data.bin"
    script = 'cat "$0" & wait; cat "$0" >&2; exec 3>&1; cat "$0" >&3'
    zeros(data, 5000)
    with open(out, "wb") as f:
        subprocess.run([STOKER, "profile", "-o", tmp_path / "p", "sh", "-c", script, data],
                       check=True, env=bare_env(), stdout=f, stderr=f)
    report = run_stoker("report", tmp_path / "p", "--json", "-").json()["result"]
    paths = {r["path"] for r in report["records"]}
    assert str(data) in paths and str(out) not in paths and out.read_bytes()[:15000] == bytes(15000)


def test_ranks_of_every_launcher_are_known(profile, files):
    """MVAPICH2's processes would all be rank 0."""
    p = profile(["cat", files[0]], env={"MV2_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_SIZE": "4"})
    assert (p.processes[0]["rank"], p.processes[0]["world"]) == (3, 4)


def test_a_stoker_without_its_library(tmp_path):
    """What pip installs hides a whole installation, and nothing would say where that is."""
    for name in ("pip", "whole"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stoker").write_bytes(STOKER.read_bytes())
        (tmp_path / name / "stoker").chmod(0o755)
    argv = [tmp_path / "pip/stoker", "profile", "-o", tmp_path / "p", "--", "true"]
    env = {k: v for k, v in bare_env().items() if k != "STOKER_PRELOAD"}
    for there in (False, True):
        if there:
            (tmp_path / "whole/libstoker-preload.so").write_bytes(LIBRARY.read_bytes())
        done = subprocess.run(argv, capture_output=True, text=True, env={
            **env, "PATH": f"{tmp_path}/pip:relative::{tmp_path}/whole:/usr/bin"})
        if done.returncode == 0:
            pytest.skip("this stoker is installed, with its library")
        assert done.returncode == 4 and "libstoker-preload.so is neither beside this program" in done.stderr
        assert (f"later in PATH, has it: {tmp_path}/whole/stoker;" in done.stderr) == there, done.stderr
        assert ("set STOKER_PRELOAD" in done.stderr) != there
