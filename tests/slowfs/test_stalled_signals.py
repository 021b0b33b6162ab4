"""Ctrl-C and SIGTERM where the storage does not answer: a program that opens or reads a dataset gets
its KeyboardInterrupt, a command ends. The thread that the kernel holds is left behind."""

import shutil
import signal
import subprocess
import sys

import pytest

from conftest import PATIENCE_S, STOKER, clean_env, make_images, run_stoker, until
from slowfslib import slowfs


@pytest.fixture
def data(tmp_path):
    """A packed dataset, a table and a folder of files, and where they are to be mounted."""
    src = tmp_path / "src"
    make_images(src / "images", classes=2, per_class=5, sizes=(500, 900))
    run_stoker("pack", src / "images", src / "set", "-q")
    for name in ("opened", "started", "read", "list", "mended"):
        shutil.copytree(src / "set", src / name)
    (src / "rows.jsonl").write_text('{"n": 1}\n' * 20)
    return src, tmp_path / "mnt"


def wait_for_stall(fs, hits=1):
    """Until so many requests were held up by the one rule there is."""
    until(lambda: int(fs.rules().split("# ")[1].split()[0]) >= hits)


# Each of these is begun with the storage as it should be, then what `hang` names does not answer.
# Each has a dataset of its own: a thread that an earlier one left behind reads on after "clear", and
# what it asks for would pass for the request that is waited for.
SCRIPT = """
import os, signal, sys
import stoker
src, mnt = sys.argv[1:]
def control(line):
    with open(mnt + "/.slowfs-control", "w") as f:
        f.write(line)
def case(hang, do):
    control("clear")
    control(hang)
    print("begun", flush=True)
    try:
        do()
        sys.exit(hang + ": not interrupted")
    except KeyboardInterrupt:
        print("interrupted", flush=True)

case("stall opened 9999s op=stat", lambda: stoker.Dataset(mnt + "/opened"))
case("stall started/manifest.json 9999s op=open", lambda: stoker.Loader(mnt + "/started"))
case("stall rows.jsonl 9999s", lambda: stoker.Dataset(mnt + "/rows.jsonl"))
control("clear")
ds, many = stoker.Dataset(mnt + "/read"), stoker.Dataset(mnt + "/list")
images = stoker.Dataset(mnt + "/images", write_index=False)
case("stall *.jpg 9999s", lambda: stoker.Loader(images, batch=2, threads=1).state())
case("stall read/*.tfrecord 9999s", lambda: ds[3])
case("stall list/*.tfrecord 9999s", lambda: [many[i] for i in range(len(many))])

# A bad sample is read again when its batch is asked for. The handler may ask for the state.
control("clear\\nflip *.tfrecord offset=4000")
bad = stoker.Dataset(mnt + "/mended")
loader, seen, told = stoker.Loader(bad, batch=1, shuffle=False, io="threads"), [], []
batches = iter(loader)
seen += next(batches).ids.tolist()
def handler(*_):
    told.append(loader.state())
    raise KeyboardInterrupt
signal.signal(signal.SIGINT, handler)
case("stall mended/*.tfrecord 9999s", lambda: seen.extend(i for b in batches for i in b.ids.tolist()))
assert told == [loader.state()] and 1 < len(seen) < 10
control("clear")
seen += [i for b in stoker.Loader(bad, batch=1, state=told[0]) for i in b.ids.tolist()]
assert seen == list(range(10)), seen
assert [i for b in loader for i in b.ids.tolist()] == list(range(10))  # the next epoch

pid = os.fork()  # the child has none of the threads, and makes its own
if pid == 0:
    signal.alarm(300)
    os._exit(0 if len(stoker.Dataset(src + "/set")[3]) > 1 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
control("clear")
assert ds[3]["key"] and len(ds.classes) == 2  # what was left behind has ended, and did no harm
case("stall *.tfrecord 9999s", lambda: many[4])
print("over", flush=True)
"""


def test_ctrl_c_while_a_dataset_hangs(data):
    """Opening, starting a loader, reading a sample, mending a batch: KeyboardInterrupt; nothing is lost,
    the program goes on and ends."""
    from packagelib import environment
    src, mnt = data
    with slowfs(src, mnt, cache="off", meta_cache=0) as fs:
        proc = subprocess.Popen([sys.executable, "-c", SCRIPT, src, mnt], env=environment(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8):
            assert proc.stdout.readline() == "begun\n", proc.communicate(timeout=PATIENCE_S)
            wait_for_stall(fs)
            proc.send_signal(signal.SIGINT)
            assert proc.stdout.readline() == "interrupted\n", proc.communicate(timeout=PATIENCE_S)
        assert proc.stdout.readline() == "over\n", proc.communicate(timeout=PATIENCE_S)
        _, said = proc.communicate(timeout=PATIENCE_S)
        assert proc.returncode == 0 and not said, said


@pytest.mark.parametrize("hang, number", [("op=stat", signal.SIGINT), ("op=open", signal.SIGTERM),
                                          ("op=read", signal.SIGINT)])
def test_a_command_ends_while_its_data_hangs(data, hang, number):
    """All that read data, whatever call it is that does not come back."""
    src, mnt = data
    commands = ["inspect", "verify", "load", "pack"]
    for name in commands:  # one each: the kernel asks once for what two want to know
        shutil.copytree(src / "set", src / name)
    with slowfs(src, mnt, cache="off", meta_cache=0) as fs:
        fs.command(f"stall *.tfrecord 9999s {hang}")
        end_all(fs, number, [[name, mnt / name, *([src / "new"] if name == "pack" else [])]
                             for name in commands])


def end_all(fs, number, commands, env=lambda name: {}):
    """Runs them all; when all are held up, sends the signal, and each ends of it."""
    runs = [subprocess.Popen([STOKER, *command], env=clean_env(env(command[0])), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE) for command in commands]
    wait_for_stall(fs, len(runs))
    for run in runs:
        run.send_signal(number)
    for run in runs:
        _, said = run.communicate(timeout=PATIENCE_S)
        assert run.returncode == 128 + number and "stopped by" in said, (run.args, said)


@pytest.mark.parametrize("hang, number", [("op=stat", signal.SIGINT), ("op=open", signal.SIGTERM),
                                          ("op=read", signal.SIGINT)])
def test_a_command_ends_while_its_profile_hangs(tmp_path, hang, number):
    """A look at a profile on storage that is down could not be left."""
    src, mnt = tmp_path / "src", tmp_path / "mnt"
    for name in ("report", "advise"):
        (src / name).mkdir(parents=True)
        (src / name / "run.0.json").write_text("{}")
    with slowfs(src, mnt, cache="off", meta_cache=0) as fs:
        fs.command(f"stall run.*.json 9999s {hang}")
        end_all(fs, number, [["report", mnt / "report"], ["advise", mnt / "advise"]])


@pytest.mark.parametrize("hang, number", [("op=stat", signal.SIGINT), ("op=open", signal.SIGTERM)])
def test_a_command_ends_while_a_program_that_it_starts_hangs(tmp_path, hang, number):
    """Slurm's clients are often on shared storage: job and watch could not be left."""
    src, mnt = tmp_path / "src", tmp_path / "mnt"
    for name in ("job", "watch"):
        (src / name).mkdir(parents=True)
        for client in ("sacct", "squeue", "scontrol", "sstat", "srun"):
            shutil.copy("/bin/true", src / name / client)
    with slowfs(src, mnt, cache="off", meta_cache=0) as fs:
        fs.command(f"stall */s* 9999s {hang}")
        end_all(fs, number, [["job", "12"], ["watch", "12"]], lambda name: {"PATH": str(mnt / name)})
