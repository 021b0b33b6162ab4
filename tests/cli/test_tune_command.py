"""stoker tune -- COMMAND: commands that take hours, and those whose profile would mislead."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from conftest import STOKER, clean_env, make_images, run_stoker, until
from packagelib import environment
from slowfslib import slowfs
from termlib import Terminal

# The replay of the command takes no time; the command itself runs by the clock of the machine.
VIRTUAL = ["--virtual-storage", "100M,1ms"]
# No change is tried: only what is said about the command matters here.
NOTHING = ["--only", "checkpoint", *VIRTUAL, "--json", "-"]
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


def test_a_command_of_many_words(data):
    """train.py data/*: what is left out without a word is not tuned, either."""
    words = [f"data/{1 + i % 40}.bin" for i in range(400)]
    (data / "train.py").write_text("import sys\nassert len(sys.argv) == 401\n"
                                   "for name in sys.argv[1:]: open(name, 'rb').read()\n")
    run = run_stoker("tune", *NOTHING, "--", sys.executable, "train.py", *words, cwd=data)
    assert run.json()["result"]["files"] == 40


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


def test_what_the_command_prints_stands_alone(data):
    """Its lines would begin with the progress of tune, and programs that read them would not know them."""
    os.chdir(data)
    slow = "import time\nfor i in range(8): print('epoch', i, flush=True); time.sleep(0.3); open('data/1.bin').read()"
    with Terminal([STOKER, "tune", "--budget", "1s", *NOTHING[:4], "--", sys.executable, "-c", slow]) as terminal:
        assert terminal.end() == 0
        lines = terminal.seen.decode().replace("\r", "").splitlines()
    assert [line for line in lines if "epoch " in line and "0" <= line[-1] <= "9"] == [f"epoch {i}" for i in range(8)]


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


def test_killed_after_it_was_profiled(data):
    """The profile was for this call: it is gone, and a resumed one still knows what it said, and asked for."""
    change = "f = open('data/1.bin', 'r+b'); f.read(); f.write(b'more')\nfor i in range(2, 41): open(f'data/{i}.bin', 'rb').read(100)\n"
    argv = [STOKER, "tune", "--budget", "1h", "--near", "data", "--only", "threads,request", *VIRTUAL,
            "--", sys.executable, "-c", change]
    with subprocess.Popen(argv, cwd=data, env=clean_env(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tune:
        until(lambda: list(data.glob("stoker-tune.*/tune.json")))
        tune.kill()
    folder = next(data.glob("stoker-tune.*"))
    assert left_in(data) == {folder.name}
    run = run_stoker("tune", "--resume", folder, "--budget", "2s", "--json", "-", cwd=data)
    assert "changes its input: " in notes(run)
    assert {c["id"].split("-")[0] for c in run.json()["result"]["candidates"]} <= {"baseline", "threads", "request"}
    assert not left_in(data)


def test_a_command_that_does_something_else_each_time(data):
    """The gain of one run is not that of the next."""
    (data / "runs").mkdir()
    other = "mkdir runs/$$; for i in $(seq $((10 * $(ls runs | wc -l)))); do cat data/$i.bin >/dev/null; done"
    run = run_stoker("tune", *NOTHING, "--budget", "10h", "--", "sh", "-c", other, cwd=data)
    assert "does something else each time: its first run read 10 files" in notes(run)
    assert "the second 20 files" in notes(run) and "a seed, a cache" in notes(run)
    run = run_stoker("tune", *NOTHING, "--budget", "10h", "--", "sh", "-c", "cat data/* >/dev/null", cwd=data)
    assert "does something else" not in notes(run) and not left_in(data)


IN_MEMORY = """
import glob
for epoch in range(3):
    for path in sorted(glob.glob("data/*")):
        open(path, "rb").read()
"""


def test_data_that_an_earlier_run_left_in_memory(tmp_path):
    """The program reads from the page cache: what faster storage would gain, it has already."""
    src, mnt, said = tmp_path / "src", tmp_path / "mnt", "from memory, where earlier runs had left it"
    (src / "data").mkdir(parents=True)
    for i in range(40):
        (src / f"data/{i}.bin").write_bytes(b"x" * 5000)
    with slowfs(src, mnt, read="20ms", cache="keep"):
        command = ["--", sys.executable, "-c", IN_MEMORY]
        real = ["--only", "checkpoint", "--json", "-"]
        assert said in notes(run_stoker("tune", *real, *command, cwd=mnt))
        assert said not in notes(run_stoker("tune", *real, "--set", "reader.cache=fresh", *command, cwd=mnt))


def test_lines_are_for_the_program(stoker, tmp_path):
    """Lines for PyTorch in a program without it do not run, and an assumption that was overruled misleads."""
    make_images(tmp_path / "pictures", per_class=30)
    (tmp_path / "train.py").write_text("import glob, sys\nfor epoch in range(2):\n    for p in sorted(glob.glob("
                                       "sys.argv[1] + '/*/*')):\n        open(p, 'rb').read()\n")
    profile = tmp_path / "profile"
    stoker("profile", "-o", profile, "--", sys.executable, tmp_path / "train.py", tmp_path / "pictures")
    run = stoker("tune", profile, "--only", "pack", "--choose", "pack", "--set", "training.batch=16", *VIRTUAL,
                 "--budget", "1s", "--json", "-")
    pack = next(c for c in run.json()["result"]["candidates"] if c["id"] == "pack")
    assert "stoker.Loader(" in pack["lines"] and "torch" not in pack["lines"]
    assert f"{tmp_path}/pictures-packed" in pack["lines"]
    assert "assumed: training.batch" not in run.err and "assumed:" in run.err


def test_lines_are_for_the_library(stoker, tmp_path):
    """A buffer for open() is no help in a program that never calls it, and a broken file is named also if it is all
    there is."""
    h5py = pytest.importorskip("h5py", reason="python3-h5py is not installed")
    (tmp_path / "train.py").write_text("import h5py, sys\nx = h5py.File(sys.argv[1] + '/rows.h5')['x']\n"
                                       "for i in range(800): x[i % 400]\n")
    (tmp_path / "bytes.py").write_text("import sys\nf = open(sys.argv[1] + '/rows.npy', 'rb', buffering=0)\n"
                                       "while f.read(1000): pass\n")
    (tmp_path / "data").mkdir()
    with h5py.File(tmp_path / "data/rows.h5", "w") as f:
        f.create_dataset("x", (400, 1024), "f4", chunks=(1, 1024))[:] = 1
    (tmp_path / "data/rows.npy").write_bytes(b"no array" * 100000)

    def tuned(script, *options):
        profile = tmp_path / f"{script}.profile"
        stoker("profile", "-o", profile, "--", sys.executable, tmp_path / script, tmp_path / "data")
        result = stoker("tune", profile, "--only", "request,memory", *VIRTUAL, "--budget", "1s", "--json", "-",
                        *options).json()["result"]
        return {c["id"]: c for c in result["candidates"]}, " ".join(result["notes"])
    found, notes = tuned("train.py", "--choose", "memory")
    assert "request-1048576" not in found and "h5py.File(io.BytesIO(open(" in found["memory"]["lines"]
    assert "cannot be read" not in notes
    assert "1 of 1 files cannot be read as what its name says: rows.npy: " in tuned("bytes.py")[1]


def test_checkpoints_on_other_storage(data, other_storage, tmp_path):
    """Checkpoints in $HOME: copies of the data would fill its quota, and be measured on the wrong storage. What a
    killed run has written lies in folders that --clean knows; the folder of the job's checkpoints may be gone."""
    saves, near = other_storage / "home/out", tmp_path / "near"
    near.mkdir()
    code = "import glob, os\nfor p in sorted(glob.glob('data/*')): open(p, 'rb').read()\nopen('%s/ck', 'wb').write(bytes(200000))" % saves
    for there in (True, False):
        saves.mkdir(parents=True, exist_ok=True)
        run_stoker("profile", "-o", tmp_path / "profile", "--force", "--", sys.executable, "-c", code, cwd=data)
        if not there:
            (saves / "ck").unlink()
            saves.rmdir()
        run = run_stoker("tune", tmp_path / "profile", "--only", "checkpoint", "--near", near, *VIRTUAL,
                         "--budget", "1s", "--keep", "--json", "-")
        folder = pathlib.Path(run.json()["result"]["folder"])
        said = json.loads((folder / "tune.json").read_text())
        assert folder.parent == data and str((saves if there else saves.parent) / folder.name) in said["folders"]
        for run in said["points"].values():
            places = [key for key in run["set"] if key.startswith("checkpoint.dir=")]
            assert places[-1].split("=")[1] in said["folders"]
        run_stoker("tune", "--clean", folder)
        assert [p.name for p in other_storage.rglob("*")] == (["home", "out", "ck"] if there else ["home"])
        assert not os.listdir(near) and not list(data.glob("stoker*"))


def test_a_command_that_uses_its_input_up(data):
    """A second run of it would find nothing, or destroy what the first has left."""
    run = run_stoker("tune", *NOTHING, "--", "sh", "-c", "cat data/*; rm -r data; echo >> runs", cwd=data, rc=4)
    assert "changes its input: 40 files" in run.err and "let it write elsewhere" in run.err
    assert (data / "runs").read_text() == "\n" and not left_in(data)
    run = run_stoker("tune", *NOTHING, "--", "true", cwd=data, rc=4)
    assert "nothing to replay" in run.err and "stoker-tune-profile" not in run.err  # which is gone


def test_a_program_that_only_maps_its_files(tmp_path):
    """nanoGPT maps train.bin anew for each batch: a profile has no reads of it that could be
    repeated, but it knows what is wrong."""
    (tmp_path / "src").mkdir()
    (tmp_path / "mnt").mkdir()
    (tmp_path / "src/train.bin").write_bytes(bytes(1 << 20))
    script = ("import mmap, sys\nfor i in range(60):\n    with open(sys.argv[1], 'rb') as f:\n"
              "        mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[i << 12]\n")
    with slowfs(tmp_path / "src", tmp_path / "mnt", open="10ms") as fs:
        run = run_stoker("tune", "--json", "-", "--", sys.executable, "-c", script, fs.mnt / "train.bin",
                         cwd=tmp_path, rc=3)
    result = run.json()["result"]
    assert "mapped into memory" in result["not_measured"]
    assert result["findings"][0]["id"] == "map-per-sample"
    assert left_in(tmp_path) == {"src", "mnt"}
