"""stoker tune -- COMMAND: commands that take hours, and those whose profile would mislead."""

import os
import re
import signal
import subprocess
import sys

import pytest

from conftest import STOKER, clean_env, run_stoker, until
from packagelib import environment
from termlib import Terminal

# No change is tried: only what is said about the command matters here.
NOTHING = ["--only", "checkpoint", "--json", "-"]
STEPS = """
import glob, stoker
while True:
    for path in sorted(glob.glob("data/*")):
        open(path, "rb").read()
        stoker.step()
"""


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(1, 41):
        (tmp_path / f"data/{i}.bin").write_bytes(b"x" * 5000)
    return tmp_path


def notes(run):
    return " ".join(run.json()["result"]["notes"])


def left_in(folder):
    """Everything but what the test made."""
    return {p.name for p in folder.iterdir()} - {"data", "runs", "train.py", "xdg-cache"}


def test_steps_end_a_command_that_takes_hours(data):
    """A user with a job of a week tunes it in minutes."""
    (data / "train.py").write_text(STEPS)
    run = run_stoker("tune", "--steps", 25, *NOTHING, "--", sys.executable, "train.py", cwd=data, env=environment())
    result = run.json()["result"]
    assert result["files"] == 40 and result["candidates"][0]["epoch_s"] > 0 and not left_in(data)
    assert "--for and --steps end a command" in run_stoker("tune", data / "data", "--steps", 3, rc=2).err


def test_hours_are_told(data):
    """Nobody waits for a profile without knowing how to end it."""
    wait = "cat data/*; while [ ! -e runs ]; do sleep 0.1; done"
    argv = [STOKER, "tune", "--budget", "1s", *NOTHING, "--", "sh", "-c", wait]
    with subprocess.Popen(argv, cwd=data, env=clean_env(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as tune:
        said = ""
        while "--steps N" not in said:
            line = tune.stderr.readline()
            assert line, said
            said += line
        assert "has run for 1" in said and "--for TIME" in said and "stoker tune PROFILE" in said
        (data / "runs").mkdir()
        tune.stderr.read()
    assert tune.returncode == 0 and not left_in(data)


def test_stopped_while_it_is_profiled(data):
    """Ctrl-C in a command that takes hours says how to end it, and leaves nothing."""
    argv = [STOKER, "tune", "--", "sh", "-c", "cat data/1.bin >runs; sleep 1000"]
    with subprocess.Popen(argv, cwd=data, env=clean_env(), stderr=subprocess.PIPE, text=True) as tune:
        until(lambda: (data / "runs").exists())
        tune.send_signal(signal.SIGINT)
        said = tune.communicate()[1]
    assert tune.returncode == 128 + signal.SIGINT and "--steps N" in said and not left_in(data)


def test_a_command_that_needs_a_terminal(data):
    """It would wait for an answer for ever, and nobody would know."""
    os.chdir(data)
    ask = "import os; os.read(os.open('/dev/tty', os.O_RDWR), 1)"
    with Terminal([STOKER, "tune", "--", sys.executable, "-c", ask]) as terminal:
        assert terminal.end() == 4
        said = re.sub(r"\s+", " ", terminal.seen.decode())
    assert "asks the terminal" in said and "stoker profile" in said and not left_in(data)


def check(cwd, after, *before, runs=2, **more):
    run = run_stoker("tune", "--check", after, "--runs", runs, "--json", "-", "--", *before, cwd=cwd, **more)
    return run.json()["result"]["check"]


def test_what_was_really_gained(data):
    """Both commands run in turns, as they are written; nothing is left."""
    each = ["sh", "-c", "echo before '{n}' >>runs"]
    found = check(data, "echo 'after {n}' >>runs", *each, runs=3)
    assert found["pairs"] == 3 and found["before_s"] > 0 and found["after_s"] > 0 and not found["failed_before"]
    assert sorted((data / "runs").read_text().splitlines()) == ["after {n}"] * 3 + ["before {n}"] * 3
    assert not left_in(data)


def test_a_change_that_breaks_the_command(data):
    """A command that fails is fast."""
    run = run_stoker("tune", "--check", "exit 7", "--", "true", cwd=data, rc=4)
    assert "the command after the change failed" in run.err and "7" in run.err and "see output" not in run.err
    assert "before the change failed" in run_stoker("tune", "--check", "true", "--", "false", cwd=data, rc=4).err
    found = check(data, "true", "sh", "-c", "mkdir runs", runs=3)  # the first time only
    assert (found["failed_before"], found["failed_after"]) == (2, 0)
    assert not left_in(data)


def test_a_command_that_changes_its_input(data):
    """What is measured now is not what the next run reads."""
    change = "for path in ('data/1.bin', 'data/2.bin'):\n    f = open(path, 'r+b')\n    f.read()\n    f.write(b'more')\n"
    run = run_stoker("tune", *NOTHING, "--", sys.executable, "-c", change + "open('data/3.bin').read()", cwd=data)
    assert "changes its input: 2 files" in notes(run) and f"{data}/data/" in notes(run)
    scratch = "f = open('new', 'w+')\nf.write('x')\nf.seek(0)\nf.read()\nimport os\nos.remove('new')\n"
    run = run_stoker("tune", *NOTHING, "--", sys.executable, "-c", scratch + "open('data/3.bin').read()", cwd=data)
    assert "changes its input" not in notes(run) and not left_in(data)


def test_a_command_that_does_something_else_each_time(data):
    """The gain of one run is not that of the next."""
    (data / "runs").mkdir()
    other = "mkdir runs/$$; for i in $(seq $((10 * $(ls runs | wc -l)))); do cat data/$i.bin >/dev/null; done"
    run = run_stoker("tune", *NOTHING, "--budget", "10h", "--", "sh", "-c", other, cwd=data)
    assert "does something else each time: its first run read 10 files" in notes(run)
    assert "the second 20 files" in notes(run) and "a seed, a cache" in notes(run)
    run = run_stoker("tune", *NOTHING, "--budget", "10h", "--", "sh", "-c", "cat data/* >/dev/null", cwd=data)
    assert not notes(run) and not left_in(data)
