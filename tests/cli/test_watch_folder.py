"""`stoker watch DIR`: a running profile, benchmark, staging, study or tuning, from another process; and the
screen of `stoker bench`, which is drawn by the same code."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest

from conftest import STOKER, clean_env, until
from termlib import Terminal

PYTHON = "/usr/bin/python3"
WORKLOAD = """name: long
dataset: {format: tfrecord, files: 4, samples_per_file: 8, record: 1000}
training: {batch: 1, compute: 20ms, epochs: 100000, warmup: 0}
"""
BOARD = "stoker-bench.status"


@pytest.fixture
def data(stoker, tmp_path):
    """The data of a benchmark that never ends, and its command."""
    workload = tmp_path / "w.yaml"
    workload.write_text(WORKLOAD)
    stoker("bench", workload, "--data", tmp_path / "data", "--generate-only")
    return tmp_path / "data"


@pytest.fixture
def start():
    """Starts a program without a terminal; it and all that it started are ended."""
    started = []

    def run(*argv, env=None):
        started.append(subprocess.Popen(list(map(str, argv)), env=clean_env(env), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True))
        return started[-1]

    yield run
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()


def bench_argv(data, *args, ranks=1):
    return [STOKER, "bench", data.parent / "w.yaml", "--data", data, "--ranks", ranks, "--no-calibration", *args]


def look(stoker, path, *args, rc=0):
    return stoker("watch", "--once", "--every", "0.05s", "--json", "-", path, *args, rc=rc).json()["result"]


def steps_of(board, rank):
    try:
        return json.loads((board / f"rank-{rank:05}.json").read_text())["now"]["step"]
    except FileNotFoundError:
        return 0


# ---- benchmarks ------------------------------------------------------------------------------


def test_a_benchmark_from_another_shell(stoker, start, data):
    """Whoever looks after a long run would see nothing of it."""
    run = start(*bench_argv(data, ranks=2))
    board = data / BOARD
    until(lambda: min(steps_of(board, 0), steps_of(board, 1)) > 2)
    assert board.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in board.iterdir()} == {0o600}
    got = look(stoker, data)
    assert (got["kind"], got["state"], got["title"]) == ("bench", "running", "long, 2 ranks, application reader")
    assert got["steps"] > 2 and got["steps_total"] == 100000 * 32 / 2 and got["left_s"] > 0
    assert 0 < got["utilisation"] <= 1 and got["samples"] >= 2 * got["steps"] and got["read_bytes"] > 0
    assert [(r["rank"], r["phase"]) for r in got["ranks"]] == [("0", "trains"), ("1", "trains")]
    assert got["queue_total"] > 0 and got["ranks"][0]["step_s"] > 0.0199
    assert look(stoker, board)["kind"] == "bench"  # the folder itself
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert run.returncode == 130 and not board.exists()
    assert "no `stoker bench` runs here now" in stoker("watch", "--once", data, rc=4).err


def test_watching_ends_with_the_run(start, data):
    """A line in a script after `stoker watch` would never be reached."""
    run = start(*bench_argv(data))
    until(lambda: steps_of(data / BOARD, 0) > 0)
    watch = start(STOKER, "watch", "--every", "0.05s", "--progress-every", "0s", data)
    line = watch.stdout.readline().decode()
    assert line.startswith("running, steps ") and " left" in line and "busy" in line
    run.send_signal(signal.SIGINT)
    out = watch.communicate()[0].decode()
    assert watch.returncode == 0 and re.search(r"^bench, ended, .*, long, 1 rank, application reader$", out, re.M)


def test_a_run_that_was_killed_is_told_from_one_that_runs(stoker, start, data):
    """A dead run would be waited for; a new one would find its folder taken."""
    run = start(*bench_argv(data))
    board = data / BOARD
    until(lambda: steps_of(board, 0) > 0)
    busy = stoker("bench", data.parent / "w.yaml", "--data", data, "--status", board, rc=4).err
    assert "another benchmark shows its status there" in busy
    run.kill()
    run.communicate()
    got = look(stoker, data, rc=1)
    assert got["state"] == "died" and f"process {run.pid} on " in got["why"]
    # The number of the process is another's now.
    status = json.loads((board / "run.json").read_text())
    (board / "run.json").write_text(json.dumps({**status, "pid": os.getpid()}))
    assert look(stoker, data, rc=1)["state"] == "died"
    # Of another node, which spoke lately or long ago.
    elsewhere = {**status, "host": "n7", "boot_id": "f00"}
    (board / "run.json").write_text(json.dumps({**elsewhere, "updated_s": 4e9}))
    assert look(stoker, data)["state"] == "running"
    for path in board.iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), **elsewhere, "updated_s": 1}))
    got = look(stoker, data)
    assert got["state"] == "silent" and "it runs on n7" in got["why"]
    run = start(*bench_argv(data))
    until(lambda: look(stoker, data, rc=None).get("state") == "running")
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert not board.exists()


def test_clean_removes_what_a_killed_run_left(stoker, start, data):
    """`--clean` would leave a folder behind that nobody asked for."""
    run = start(*bench_argv(data))
    until(lambda: steps_of(data / BOARD, 0) > 0)
    run.kill()
    run.communicate()
    stoker("bench", "--clean", "--data", data)
    assert not data.exists()


def test_status_in_another_folder_or_none(stoker, start, data, tmp_path):
    """Data that may not be written to could not be watched."""
    run = start(*bench_argv(data, "--status", tmp_path / "s"))
    until(lambda: steps_of(tmp_path / "s", 0) > 0)
    assert not (data / BOARD).exists() and look(stoker, tmp_path / "s")["state"] == "running"
    run.send_signal(signal.SIGINT)
    run.communicate()
    assert not (tmp_path / "s").exists()
    run = start(*bench_argv(data, "--status", "none", "--progress-every", "0s"))
    assert b"step " in run.stderr.readline()
    assert not (data / BOARD).exists()


def test_what_is_in_status_files_is_not_trusted(stoker, tmp_path):
    """Whoever can write such a file could steer the terminal of the reader."""
    board = tmp_path / "b"
    board.mkdir(mode=0o700)
    evil = "\x1b]0;owned\x07\x1b[2J\u202e\r\n"
    head = {"kind": "stoker-status", "version": 1, "command": "bench", "state": "running", "host": evil,
            "pid": 1, "boot_id": "x", "start_ticks": 1, "updated_s": 4e9, "started_s": 1}
    now = {"workload": evil, "ranks": 2, "batch": 8, "reader": evil, "rank": -3, "node": evil, "phase": evil * 99,
           "step": 1e300, "steps": -1, "wait_s": "x", "utilisation": 1e9, "read_bytes": 1 << 62}
    (board / "run.json").write_text(json.dumps({**head, "now": now}))
    for i in range(2):
        (board / f"rank-{i:05}.json").write_text(json.dumps({**head, "now": {**now, "rank": i}}))
    out = stoker("watch", "--once", "--every", "0.01s", board).out
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", out) and "\\x1b]0;owned" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    for bad, words in ((b"{", "run.json"), (b"[]", "not a status file"), (b"\xff", "run.json"),
                       (b'{"kind": "stoker-status", "version": 1, "now": 5}', "without figures"),
                       (b'{"kind": "stoker-status", "version": 9, "now": {}}', "another version"),
                       (b"[" * 100000, "run.json"), (b" " * (2 << 20), "run.json")):
        (board / "run.json").write_bytes(bad)
        assert words in stoker("watch", "--once", board, rc=4).err
    (board / "run.json").unlink()
    (board / "run.json").symlink_to("/etc/passwd")
    assert "run.json" in stoker("watch", "--once", board, rc=4).err


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_a_status_of_another_user_is_refused_by_name(stoker, start, data):
    """Another user's figures would be taken for those of the own run."""
    run = start(*bench_argv(data))
    board = data / BOARD
    until(lambda: steps_of(board, 0) > 0)
    run.kill()
    run.communicate()
    for path in [board, *board.iterdir()]:
        os.chown(path, 12345, -1)
    err = stoker("watch", "--once", data, rc=4).err
    assert "12345" in err and "--trust" in err
    assert look(stoker, data, "--trust", "12345", rc=1)["state"] == "died"


# ---- the screen --------------------------------------------------------------------------------


@pytest.mark.parametrize("columns, rows, more", [(80, 24, []), (40, 12, []), (80, 24, ["training.compute=600s"])])
def test_the_screen_of_a_benchmark_fits_and_comes_off(data, columns, rows, more):
    """A line that is too long would break the screen, and Ctrl-C leave the terminal unusable, or its last word on the
    screen that is taken away: also in a step that is not waited for."""
    argv = bench_argv(data, ranks=3)
    with Terminal([*argv, *(f"--set={key}" for key in more)], columns, rows) as t:
        t.until(lambda t: t.shows("trains") or ((more or rows < 20) and t.shows("steps")))
        last = t.screens()[-1]
        assert len(last) <= rows and max(map(len, last)) <= columns and last[0].startswith("bench, ")
        assert re.search(rb"\x1b\[[0-9;]*3[0-9]m", t.seen)  # in colour
        assert not re.search(rb"[^\nH]\x1b\[K\r+\n", t.seen)  # it would clear the last letter of a full line
        t.write(b"\x03")
        assert t.end() == 130 and t.is_as_before()
        after = t.seen.split(b"\x1b[?1049l")[-1]
    assert b"stopped by an interrupt" in after and b"does not answer" in after or not more
    assert b"stopped by an interrupt" in after and all(len(line) <= columns for line in after.split(b"\r\n"))
    assert not (data / BOARD).exists() or b"does not answer" in after  # on a busy machine it is not waited for


def test_the_screen_follows_the_size_of_the_terminal(data):
    """After a resize, lines of the old size would stay. And NO_COLOR is a promise."""
    with Terminal(bench_argv(data), 160, 50, env={"NO_COLOR": "1"}) as t:
        t.until(lambda t: t.shows("trains"))
        assert not re.search(rb"\x1b\[[0-9;]*m", t.seen)
        t.resize(60, 15)
        count = len(t.screens())
        t.until(lambda t: len(t.screens()) > count + 1)
        assert max(map(len, t.screens()[-1])) <= 60 and len(t.screens()[-1]) <= 15
        t.write(b"\x03")
        assert t.end() == 130 and t.is_as_before()


def test_the_screen_comes_off_when_the_benchmark_is_killed(data):
    """kill -9 gives no chance to clean up: the terminal would stay on the other screen."""
    with Terminal(bench_argv(data)) as t:
        t.until(lambda t: t.shows("trains"))
        os.kill(json.loads((data / BOARD / "run.json").read_text())["pid"], signal.SIGKILL)
        assert t.end() == 137
        t.until(Terminal.is_as_before)


def test_the_result_follows_the_screen(stoker, data, tmp_path):
    """The result would be drawn on the screen that goes away."""
    with Terminal(bench_argv(data, "--set", "training.most_steps=120")) as t:
        assert t.end() == 0 and t.is_as_before()
        after = t.seen.split(b"\x1b[?1049l")[-1]
        assert b"\x1b[?1049h" in t.seen and b"utilisation" in after


def test_a_watch_on_a_terminal(start, data):
    """q would not end it, or would leave the terminal without echo."""
    start(*bench_argv(data, ranks=2))
    until(lambda: min(steps_of(data / BOARD, 0), steps_of(data / BOARD, 1)) > 1)
    with Terminal([STOKER, "watch", "--every", "0.1s", data]) as t:
        t.until(lambda t: t.shows("slowest") or t.shows("trains"))
        t.write(b"q")
        assert t.end() == 0 and t.is_as_before()
    with Terminal([STOKER, "watch", "--every", "0.1s", data]) as t:
        t.until(lambda t: t.shows("trains"))
        child = pathlib.Path(f"/proc/{t.proc.pid}/task/{t.proc.pid}/children").read_text()
        os.kill(int(child), signal.SIGSEGV)  # a crash
        assert t.end() != 0 and t.is_as_before()


# ---- profiles ----------------------------------------------------------------------------------


def test_a_profile_that_runs(stoker, start, tmp_path):
    """Hours would pass before it is known that a program reads the wrong files."""
    (tmp_path / "input").write_bytes(b"x" * 1000000)
    code = f"open('{tmp_path}/input', 'rb').read(); open('{tmp_path}/read', 'w'); input()"
    run = subprocess.Popen([STOKER, "profile", "-q", "-o", tmp_path / "p", PYTHON, "-c", code], env=clean_env(),
                           stdin=subprocess.PIPE)
    until((tmp_path / "read").exists)
    got = look(stoker, tmp_path / "p")
    assert (got["kind"], got["state"]) == ("profile", "running") and "-c" in got["title"]
    assert got["read_bytes"] >= 1000000 and got["reads"] > 0 and got["elapsed_s"] > 0
    assert [p["command"] for p in got["programs"]][0].startswith("python3")
    run.communicate(b"\n")
    got = look(stoker, tmp_path / "p")
    assert got["state"] == "ended" and got["why"] is None


RANKS = """import os, subprocess, sys
if len(sys.argv) > 2:
    open(sys.argv[1], 'rb').read()
else:
    for rank in range(2):
        subprocess.run([sys.executable, *sys.argv, 'rank'], env={**os.environ, 'RANK': str(rank), 'WORLD_SIZE': '2'}, check=True)
"""


def test_who_started_the_ranks_is_none_of_them(stoker, tmp_path):
    """A third rank of two would be looked for in vain."""
    (tmp_path / "ranks.py").write_text(RANKS)
    (tmp_path / "input").write_bytes(b"x" * 1000000)
    subprocess.run([STOKER, "profile", "-q", "-o", tmp_path / "p", PYTHON, tmp_path / "ranks.py", tmp_path / "input"], env=clean_env(), check=True)
    got = look(stoker, tmp_path / "p")
    assert sorted(r["rank"] for r in got["ranks"]) == ["0", "1", "beside"]
    assert all(r["read_bytes"] >= 1000000 for r in got["ranks"] if r["rank"] != "beside")


def test_a_profile_whose_launcher_was_killed(stoker, tmp_path):
    """It would count as running for ever."""
    run = subprocess.Popen([STOKER, "profile", "-q", "-o", tmp_path / "p", "sh", "-c",
                            f"echo > {tmp_path}/go; read x"], env=clean_env(), stdin=subprocess.PIPE)
    until((tmp_path / "go").exists)
    assert look(stoker, tmp_path / "p")["state"] == "running"
    run.kill()
    run.communicate()
    got = look(stoker, tmp_path / "p", rc=1)
    assert got["state"] == "died" and f"process {run.pid} " in got["why"]


# ---- studies -----------------------------------------------------------------------------------


def test_a_study_that_runs(stoker, start, tmp_path):
    """How far a study of hours is, only its own terminal would say."""
    study, go = tmp_path / "study", tmp_path / "go"
    script = f'[ "$(wc -l < {study}/runs.jsonl)" != 3 ] || until [ -e {go} ]; do sleep 0.05; done; true {{n}}'
    run = start(STOKER, "scale", "-o", study, "--n", "1,2", "--runs", "3", "--warmup", "0", "--", "sh", "-c", script)

    def waits():
        got = look(stoker, study, rc=None) if (study / "status.json").exists() else {}
        return got.get("done") == 3 and got

    got = until(waits)
    assert (got["kind"], got["state"]) == ("scale", "running") and got["done_total"] >= 6
    assert got["running"] in ("N=1: run", "N=2: run") and got["left_s"] >= 0
    assert [p["label"] for p in got["points"]] == ["N=1", "N=2"] and sum(p["good"] for p in got["points"]) == 3
    go.touch()
    run.communicate()
    got = look(stoker, study)
    assert got["state"] == "ended" and got["done"] == got["done_total"]
    assert [p["state"] for p in got["points"]] == ["done", "done"]


# ---- tuning ------------------------------------------------------------------------------------


def status_of(path, process, **now):
    """Makes the status of a run that has ended that of a running process."""
    status = json.loads(path.read_text())
    ticks = int(pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    status.update(state="running", pid=process.pid, start_ticks=ticks, now={**status["now"], **now})
    path.write_text(json.dumps(status))


def test_a_tuning(stoker, start, tmp_path):
    """What it does for half an hour, and how the changes compare so far."""
    (tmp_path / "w.yaml").write_text("name: small\ndataset: {format: tfrecord, files: 2, samples_per_file: 32, record: 16K}\n"
                                     "access: {transfer: 4K}\nreader: {threads: 1}\ntraining: {batch: 8, compute: 2ms}\n")
    stoker("bench", tmp_path / "w.yaml", "--data", tmp_path / "data", "--generate-only")
    tuned = stoker("tune", tmp_path / "w.yaml", "--data", tmp_path / "data", "--near", tmp_path / "data", "--virtual-storage", "100M,1ms",
                   "--only", "threads", "--keep", "--json", "-").json()["result"]
    folder = pathlib.Path(tuned["folder"])
    got = look(stoker, folder)
    assert (got["kind"], got["state"], got["title"]) == ("tune", "ended", "small") and got["done"] > 0
    best = next(c for c in tuned["candidates"] if c["id"] == tuned["best"])
    rows = {r["label"]: r for r in got["changes"]}
    assert rows["as it is"]["times"] == 1 and abs(rows[best["label"]]["times"] / best["times"] - 1) < 0.01
    assert "times as fast" in stoker("watch", "--once", "--every", "0.05s", folder).out
    process = start("sleep", "1000")
    status_of(folder / "status.json", process, doing="packing", left_s=99)
    got = look(stoker, folder)
    assert (got["state"], got["doing"], got["budget_left_s"]) == ("running", "packing", 99)
    process.kill()
    process.wait()
    assert look(stoker, folder, rc=1)["state"] == "died"


# ---- staging -----------------------------------------------------------------------------------


def test_a_copy_that_is_there_and_one_that_is_not(stoker, tmp_path):
    """A staging that was killed would look like one that is done."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.bin").write_bytes(b"x" * 5000)
    tier = tmp_path / "tier"
    stoker("stage", tmp_path / "src", tier)
    got = look(stoker, tier)
    assert (got["kind"], got["state"]) == ("stage", "ended")
    assert got["there_bytes"] == got["there_bytes_total"] == got["sets"][0]["there_bytes"] == 5000
    assert got["sets"][0]["state"] == "complete" and got["filling"] == 0


def test_a_copy_on_its_way(stoker, start, tmp_path):
    """A staging in the background has no other screen."""
    (tmp_path / "src").mkdir()
    for i in range(40):
        (tmp_path / f"src/{i}.bin").write_bytes(os.urandom(100000))
    tier = tmp_path / "tier"
    run = start(STOKER, "stage", tmp_path / "src", tier, "--max-rate", "100K")

    def fills():
        got = look(stoker, tier, rc=None) if (tier / "tier.json").exists() else {}
        return got.get("state") == "running" and got

    got = until(fills)
    assert got["filling"] == 1 and got["there_bytes_total"] == 4000000 > got["there_bytes"]
    assert got["sets"][0]["state"] == "filling" and got["sets"][0]["source"].endswith("/src")
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    got = look(stoker, tier, rc=1)
    assert got["state"] == "died" and "resumes" in got["why"] and got["sets"][0]["state"] == "incomplete"


# ---- what is none of them ----------------------------------------------------------------------


def test_what_is_not_a_run(stoker, tmp_path):
    """A message that names neither the folder nor what is expected would be of no use."""
    assert "nothing of stoker runs here" in stoker("watch", tmp_path, rc=4).err
    (tmp_path / "f").write_text("x")
    assert "name the folder" in stoker("watch", tmp_path / "f", rc=2).err
    assert "open" in stoker("watch", tmp_path / "none", rc=4).err
    assert pathlib.Path(tmp_path / "f").read_text() == "x"
