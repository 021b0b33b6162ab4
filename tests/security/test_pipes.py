"""A pipe, a socket, a device or a folder at a name where a file is expected: refused, or passed over, at once.
A pipe that nobody writes to would hold up whoever opens it for ever, and its owner decides for how long."""

import functools
import os
import pathlib
import shutil
import signal
import socket
import stat
import subprocess

import pytest

import conftest
from conftest import PATIENCE_S, STOKER, clean_env, make_images, until
from profilelib import profile  # noqa: F401

# Nothing here waits for anything: what takes a minute waits for ever.
run_stoker = functools.partial(conftest.run_stoker, timeout=60)
KINDS = ["pipe", "socket", "device", "folder"]


def plant(path, kind="pipe"):
    """Something of that kind in the place of whatever is there."""
    path = pathlib.Path(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        here = os.open(path.parent, os.O_RDONLY)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)
    elif os.geteuid() == 0:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # zeros without end
    else:
        path.symlink_to("/dev/zero")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table, a folder of images and a packed dataset; tests copy them."""
    root = tmp_path_factory.mktemp("made")
    (root / "rows.jsonl").write_text('{"n": 1}\n' * 20)
    make_images(root / "images", classes=2, per_class=3, sizes=(100, 200))
    run_stoker("pack", root / "images", root / "set", "-q")
    return root


@pytest.fixture
def site(made, tmp_path):
    return pathlib.Path(shutil.copytree(made, tmp_path / "site"))


ENDED = (0, 1, 2, 3, 4)  # by itself


def said(*command, rc=ENDED):
    """All that a command says, on the screen and of what went wrong."""
    result = run_stoker(*command, rc=rc)
    return result.out + result.err


def samples(path, *options):
    return run_stoker("inspect", path, "--json", "-", *options).json()["result"]["samples"]


# ---- indexes and manifests ---------------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
def test_in_place_of_an_index(site, kind):
    """It is no index: one is built, as if nothing were there."""
    plant(site / "rows.jsonl.stkidx", kind)
    assert samples(site / "rows.jsonl") == 20
    plant(site / "set/index.stkidx", kind)
    assert samples(site / "set") == 6
    run_stoker("load", site / "set", "-q")
    assert "index.stkidx" in said("verify", site / "set", rc=1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_that_is_named(site, kind):
    plant(site / "my.stkidx", kind)
    result = run_stoker("inspect", site / "rows.jsonl", "--index", site / "my.stkidx", rc=(0, 4))
    assert result.rc == 0 or "my.stkidx" in result.err, result


@pytest.mark.parametrize("kind", KINDS)
def test_in_place_of_a_manifest(site, kind):
    plant(site / "set/manifest.json", kind)
    for command in (["inspect"], ["load"], ["verify"], ["pack"]):
        result = run_stoker(*command, site / "set", *([site / "new"] if command == ["pack"] else []),
                            rc=(1, 4))
        assert "manifest.json" in result.out + result.err, result


# ---- data --------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS[:3])
def test_in_place_of_data(site, kind):
    """A file of its own, one among others, and one that an index still knows as a file."""
    plant(site / "new.tfrecord", kind)
    for command in ("inspect", "load", "verify"):
        assert "new.tfrecord" in said(command, site / "new.tfrecord", rc=4)
    samples(site / "images")
    folder = site / "images/class00"
    times = folder.stat()
    plant(folder / "img0000.jpg", kind)
    os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert "img0000.jpg" in said("load", site / "images", "--on-error", "skip", "-b", 2, rc=(1, 3))
    shard = next((site / "set").glob("*.tfrecord"))
    plant(shard, kind)
    for command in ("inspect", "load", "verify"):
        assert shard.name in said(command, site / "set", rc=(1, 3, 4))


# ---- what options name -------------------------------------------------------------------------

def test_in_place_of_a_file_that_an_option_names(site):
    """None of these was ever read from a pipe; said at once, not when somebody writes to it."""
    rows, fifo = site / "rows.jsonl", site / "fifo"
    plant(fifo)
    for command in (["load", rows, "--from", fifo], ["load", rows, "--state", fifo],
                    ["pack", rows, site / "new", "--label-from", f"csv:{fifo}"],
                    ["scale", "--from", fifo],
                    ["scale", "--via", "slurm", "--sbatch-file", fifo, "--n", "1", "--", "true"],
                    ["report", fifo], ["advise", fifo], ["scale", "--resume", fifo]):
        result = run_stoker(*command, rc=(1, 2, 3, 4))
        assert "fifo" in result.err, result


def test_in_place_of_settings(site):
    plant(site / "config")
    result = run_stoker("inspect", site / "rows.jsonl", rc=(0, 2, 4), env={"STOKER_CONFIG": site / "config"})
    assert "config" in result.err, result
    home = site / "home"
    (home / "stoker").mkdir(parents=True)
    plant(home / "stoker/config")
    run_stoker("inspect", site / "rows.jsonl", rc=(0, 2, 4), env={"XDG_CONFIG_HOME": home})


# ---- packs -------------------------------------------------------------------------------------

def test_in_a_pack_that_was_stopped(site):
    """Whatever --resume looks at in DST.partial."""
    command = ["pack", site / "images", site / "out", "--shards", "2", "-q"]
    for name in ("pack.plan", "manifest.json", "index.stkidx", "out-00000-of-00002.tfrecord"):
        shutil.rmtree(site / "out.partial", ignore_errors=True)
        shutil.rmtree(site / "out", ignore_errors=True)
        run_stoker(*command)
        (site / "out").rename(site / "out.partial")
        (site / "out.partial").chmod(0o700)
        plant(site / "out.partial" / name)
        run_stoker(*command, "--resume", rc=ENDED)


# ---- profiles and studies ----------------------------------------------------------------------

@pytest.mark.parametrize("kind", KINDS)
def test_in_a_profile(profile, kind):  # noqa: F811
    """Whatever reports look at. What is left of the profile is shown."""
    run = profile(["cat", "/proc/self/status"])
    for pattern in ("run.*.json", "samples.*.csv", "*.stklog"):
        for path in sorted(run.dir.glob(pattern)):
            plant(path, kind)
        plant(run.dir / pattern.replace("*", "planted"), kind)
        for command in ("report", "advise"):
            run_stoker(command, run.dir, rc=ENDED)
    for name in ("x.darshan", "y.darshan"):
        for path in run.dir.iterdir():
            plant(path, "pipe")
            path.unlink()
        plant(run.dir / name, kind)
        assert name in run_stoker("report", run.dir, rc=(2, 4)).err


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_study(tmp_path, kind):
    """Whatever --resume and --from look at in a study's folder."""
    study = tmp_path / "study"
    run_stoker("scale", "--n", "1,2", "--runs", "2", "--output", study, "-q", "--", "true", "{n}")
    files = sorted(p.relative_to(study) for p in study.rglob("*") if p.is_file())
    assert pathlib.Path("plan.json") in files and pathlib.Path("runs.jsonl") in files
    for name in files:
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(study, copy)
        plant(copy / name, kind)
        if name.name != "study.json":  # it is written, not read
            run_stoker("scale", "--resume", copy, rc=ENDED)
        run_stoker("scale", "--from", copy, rc=ENDED)


# ---- signals -----------------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_pipe_that_output_goes_to(site, number):
    """Where a pipe is meant, waiting for its reader ends with a signal."""
    plant(site / "out")
    proc = subprocess.Popen([STOKER, "inspect", site / "rows.jsonl", "--json", site / "out"], env=clean_env(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: "fifo" in wchan(proc.pid) or "wait_for_partner" in wchan(proc.pid)
          or proc.poll() is not None or opening(proc.pid))
    proc.send_signal(number)
    proc.communicate(timeout=PATIENCE_S)
    assert proc.returncode in (128 + number, -number)


def wchan(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/wchan").read_text()
    except OSError:
        return ""


def opening(pid):
    """It waits in open(): the number of the call is the first of this line."""
    try:
        return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[0] in ("2", "56", "257")
    except OSError:
        return False
