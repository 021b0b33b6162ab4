"""`stoker stage` as a user sees it: what it prints where, the path that can be used, the copies of a
node, and the order in the background."""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

from conftest import PATIENCE_S, STOKER, clean_env, make_images, run_stoker, until
from faultlib import needs_root, same_tree
from slurmlib import FakeSlurm
from termlib import Terminal


@pytest.fixture
def site(tmp_path):
    make_images(tmp_path / "img", classes=3, per_class=8)
    return tmp_path


def stage(site, *args, **how):
    return run_stoker("stage", *args, cwd=site, **how)


def listed(site, tier="tier"):
    return stage(site, "--list", tier, "--json", "-").json()["result"]["sets"]


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def only_line(done):
    assert done.out.count("\n") == 1 and done.out.endswith("\n"), done
    return pathlib.Path(done.out[:-1])


def in_a_session(site, *args, env=None):
    """As in a login or a job of its own, which is over when this returns."""
    return subprocess.run([STOKER, "stage", *args], cwd=site, env=clean_env(env), capture_output=True, text=True,
                          start_new_session=True, timeout=120)


# ---- the path ------------------------------------------------------------------------------------

def test_path_alone_on_standard_output(site):
    """DATA=$(stoker stage ...) would hold words, or a path that only works in this folder."""
    path = only_line(stage(site, "img", "tier"))
    assert path.is_absolute() and path.name == "img"
    same_tree(path, site / "img")
    again = stage(site, "img", "tier")
    assert only_line(again) == path and "already there" in again.err
    assert not stage(site, "img", "tier", "--quiet").err


def test_json(site):
    r = stage(site, "img", "tier", "--json", "-").json()["result"]
    assert r["staged"] and r["files"] == 24 and r["bytes_copied"] == r["bytes"] and not r["already_there"]
    assert stage(site, "img", "tier", "--json", "-").json()["result"]["already_there"]


def test_single_file_and_plain_folder(site):
    (site / "notes.txt").write_text("not a dataset")
    (site / "plain/empty").mkdir(parents=True)
    (site / "plain/a\nb").write_bytes(b"\0" * 10)
    (site / "plain/.hidden").write_bytes(b"x")
    os.chmod(site / "plain/.hidden", 0o400)
    os.utime(site / "plain/empty", ns=(10**18, 10**18))
    path = only_line(stage(site, "notes.txt", "tier"))
    assert path.read_text() == "not a dataset"
    path = only_line(stage(site, "plain", "tier"))
    same_tree(path, site / "plain")
    assert (path / "empty").is_dir() and (path / "empty").stat().st_mtime_ns == 10**18


def test_a_name_does_not_steer_the_terminal(site):
    """The path that is printed for a script is quoted for a shell where a user sees it."""
    (site / "img").rename(site / "img\x1b[2J")
    path = str(only_line(stage(site, "img\x1b[2J", "tier")))
    assert path.endswith("img\x1b[2J")
    with Terminal([STOKER, "stage", "--quiet", site / "img\x1b[2J", site / "tier"]) as t:
        t.end()
    said = t.seen.replace(b"\r\n", b"")
    assert b"\x1b[2J" not in said and b"img\\033[2J'" in said
    assert subprocess.run(["bash", "-c", b"printf %s " + said], capture_output=True).stdout.decode() == path


@pytest.mark.parametrize("ns", [0, -1_500_000_000, 4_102_444_800 * 10**9], ids=["1970", "before", "2100"])
def test_unusual_times(site, ns):
    """Archives set all times to 0: a copy with others has no valid index, and is copied again."""
    for path in (site / "img/class00/img0000.jpg", site / "img/class00"):
        os.utime(path, ns=(ns, ns))
    path = only_line(stage(site, "img", "tier"))
    same_tree(path, site / "img")
    assert (path / "class00").stat().st_mtime_ns == (path / "class00/img0000.jpg").stat().st_mtime_ns == ns
    assert "already there" in stage(site, "img", "tier").err


def test_links(site):
    """A link out of the folder may lead to any file of the user: it is left out, by name."""
    (site / "secret").write_text("secret")
    (site / "img/out.jpg").symlink_to("../secret")
    (site / "img/in.jpg").symlink_to("class00/img0000.jpg")
    done = stage(site, "img", "tier")
    path = only_line(done)
    assert "out.jpg" in done.err and not (path / "out.jpg").exists()
    assert (path / "in.jpg").read_bytes() == (site / "img/class00/img0000.jpg").read_bytes()
    assert not (path / "in.jpg").is_symlink()
    path = only_line(stage(site, "img", "tier", "--follow-links"))
    assert (path / "out.jpg").read_text() == "secret"


@pytest.mark.parametrize("packed", [True, False])
def test_copy_opens_with_its_index(site, packed):
    """A copy without an index costs each job the minutes that building it takes."""
    src = "img"
    if packed:
        src = "packed"
        run_stoker("pack", "img", "packed", "-q", cwd=site)
    path = only_line(stage(site, src, "tier"))
    env = {"XDG_CACHE_HOME": site / "another"}
    info = run_stoker("inspect", path, "--json", "-", env=env).json()["result"]
    assert not info["index"]["index_built_now"] if "index" in info else not info["index_built_now"]
    assert run_stoker("verify", path, env=env).rc == 0


def flip_unseen(path):
    """As `cp -p` of another version does: the same size and time."""
    was = path.stat().st_mtime_ns
    flip(path)
    os.utime(path, ns=(was, was))


def test_data_that_changed_under_its_old_time(site):
    """The copy would be served as the data for ever, since nothing that a program can set differs."""
    first = only_line(stage(site, "img", "tier"))
    flip_unseen(site / "img/class01/img0003.jpg")
    env = {"STOKER_TIER": site / "tier"}
    loaded = run_stoker("load", "img", "-b", 8, "--json", "-", cwd=site, env=env)
    assert loaded.json()["result"]["source_bytes"] and "changed after it was copied" in loaded.out
    second = only_line(stage(site, "img", "tier"))
    assert second != first and first.exists()  # a job may still read it
    same_tree(second, site / "img")
    loaded = run_stoker("load", "img", "-b", 8, "--json", "-", cwd=site, env=env).json()["result"]
    assert not loaded["source_bytes"] and loaded["tier_disk_bytes"] + loaded["tier_memory_bytes"]
    assert only_line(stage(site, "img", "tier")) == second
    flip(first / "class00/img0000.jpg")  # each version is checked, not the latest of them twice
    assert stage(site, "--verify", "tier", rc=None).rc == 1
    # The same of a single file, and of a copy that is packed.
    (site / "one.bin").write_bytes(os.urandom(5000))
    for args in (("one.bin",), ("img", "--pack", "tfrecord")):
        first = only_line(stage(site, *args, "tier"))
        flip_unseen(site / ("one.bin" if len(args) == 1 else "img/class00/img0001.jpg"))
        assert only_line(stage(site, *args, "tier")) != first


def test_an_index_of_data_that_changed_under_its_old_time(site):
    """Rows would be cut where those of the old file began. A copy with its index is as good."""
    (site / "t").mkdir()
    (site / "t/a.csv").write_text("a,b\n" + "1,22\n" * 50)
    stoker = lambda name: run_stoker("inspect", name, "--json", "-", cwd=site).json()["result"]
    assert stoker("t")["index_built_now"] and not stoker("t")["index_built_now"]
    was = (site / "t/a.csv").stat().st_mtime_ns
    (site / "t/a.csv").write_text("a,b\n" + "11,2\n" * 50)
    os.utime(site / "t/a.csv", ns=(was, was))
    assert stoker("t")["index_built_now"] and not stoker("t")["index_built_now"]
    subprocess.run(["cp", "-a", "t", "u"], cwd=site, check=True)
    if (site / "t.stkidx").exists():
        subprocess.run(["cp", "-a", "t.stkidx", "u.stkidx"], cwd=site, check=True)
    assert not stoker("u")["index_built_now"]


# ---- the place -----------------------------------------------------------------------------------

def test_default_place(site):
    """A job's own tier: in the folder that the user or the site names, with the job's id."""
    (site / "local").mkdir()
    env = {"STOKER_SCRATCH": site / "local", "SLURM_JOB_ID": "4711"}
    done = stage(site, "img", env=env, rc=None)
    if done.rc == 3:
        pytest.skip(f"the test's folder is on no local file system: {done.err}")
    path = only_line(done)
    assert f"local/stoker-{os.geteuid()}-job-4711/" in str(path)
    assert "local" in done.err
    assert "complete" in stage(site, "--list", env=env).out
    assert stage(site, "--evict", "img", env=env).rc == 0
    assert not path.exists()


def others(path, make=None):
    """Something that another user has put there."""
    path.mkdir() if make is None else make(path)
    os.chown(path, 65534, 65534, follow_symlinks=False)


@needs_root
def test_names_that_another_user_took(site):
    """Anyone may make a folder in /tmp: staging, and all that looks for the copy, takes another name."""
    uid = os.geteuid()
    for name in ("folder", "link", "settings", "job"):
        (site / name).mkdir()
        (site / name).chmod(0o1777)
    others(site / f"folder/stoker-{uid}")
    others(site / f"folder/stoker-{uid}+1", lambda path: path.write_text("a file"))
    others(site / f"link/stoker-{uid}", lambda path: path.symlink_to(site / "img"))
    others(site / "settings/tier.json", lambda path: path.write_text("{}"))
    for name, tier in (("folder", f"stoker-{uid}+2"), ("link", f"stoker-{uid}+1"), ("settings", f"stoker-{uid}")):
        done = stage(site, "img", name)
        assert only_line(done).is_relative_to(site / name / tier)
        assert ("belongs to another user" in done.err) == ("+" in tier), done.err
        assert "already there" in stage(site, "img", name).err and len(listed(site, name)) == 1
        loaded = run_stoker("load", "img", "-b", 8, "--tier", site / name, "--json", "-", cwd=site).json()["result"]
        assert loaded["source_bytes"] == 0 and loaded["tier_disk_bytes"] + loaded["tier_memory_bytes"]
    slurm = FakeSlurm(site)
    env = {**slurm.env(), "STOKER_SCRATCH": site / "job", "SLURM_JOB_ID": OVER}
    squatted = site / f"job/stoker-{uid}-job-{OVER}"
    others(squatted)
    done = stage(site, "img", env=env, rc=None)
    if done.rc == 3:
        pytest.skip(f"the test's folder is on no local file system: {done.err}")
    assert only_line(done).is_relative_to(f"{squatted}+1") and "another user" in done.err
    loaded = run_stoker("load", "img", "-b", 8, "--json", "-", cwd=site, env=env).json()["result"]
    assert not loaded["source_bytes"] and loaded["tier_disk_bytes"] + loaded["tier_memory_bytes"]
    assert only_line(stage(site, "img", env={**env, "SLURM_JOB_ID": RUNS})).is_relative_to(site / "job")
    assert squatted.exists() and not pathlib.Path(f"{squatted}+1").exists()  # that job is over


def test_folder_with_other_uses(site):
    """`mkdir scratch; stoker stage img scratch` is what one types."""
    (site / "scratch").mkdir(mode=0o755)
    (site / "scratch/mine").write_text("mine")
    path = only_line(stage(site, "img", "scratch"))
    assert path.is_relative_to(site / f"scratch/stoker-{os.geteuid()}")
    assert "complete" in stage(site, "--list", "scratch").out
    assert stage(site, "--verify", "scratch").rc == 0
    assert only_line(stage(site, "img", "scratch")) == path
    assert stage(site, "--evict", "scratch").rc == 0
    assert not path.exists() and (site / "scratch/mine").read_text() == "mine"


@pytest.mark.parametrize("args", [["img"], ["img/new/tier"], ["link/tier"], ["tier", "--via", "img/between"],
                                  ["img", "--pack", "tfrecord"]], ids=["itself", "below", "link", "via", "packed"])
def test_folder_inside_the_source(site, args):
    """Each run would copy the copies of those before."""
    (site / "link").symlink_to("img/class00")
    before = sorted(site.joinpath("img").rglob("*"))
    for _ in range(2):
        done = stage(site, "img", *args, rc=3)
        assert only_line(done) == site / "img" and "a part of what is copied" in done.err
    assert sorted(site.joinpath("img").rglob("*")) == before
    (site / "img2").mkdir()  # only begins with the same letters
    assert only_line(stage(site, "img", "img2/tier")).exists()


# ---- the copies of a node ------------------------------------------------------------------------

def test_list_evict_verify(site):
    stage(site, "img", "tier")
    run_stoker("pack", "img", "packed", "-q", cwd=site)
    stage(site, "packed", "tier")
    sets = stage(site, "--list", "tier", "--json", "-").json()["result"]["sets"]
    assert {s["source"] for s in sets} == {f"{site}/img", f"{site}/packed"}
    assert all(s["complete"] and s["bytes"] == s["bytes_there"] for s in sets)
    assert stage(site, "--verify", "img", "tier").rc == 0
    assert stage(site, "--evict", "img", "tier").rc == 0
    assert stage(site, "--evict", "img", "tier", rc=2).err
    sets = stage(site, "--list", "tier", "--json", "-").json()["result"]["sets"]
    assert [s["source"] for s in sets] == [f"{site}/packed"]
    assert (site / "img").is_dir()


def test_usage(site):
    assert "SRC is missing" in stage(site, rc=2).err
    assert "exclude" in stage(site, "img", "tier", "--list", "--evict", rc=2).err
    gone = stage(site, "not-there", "tier", rc=4)
    assert gone.out == "" and "not-there" in gone.err


# ---- ways ----------------------------------------------------------------------------------------

def test_background(site):
    """The training starts while the copy is made: the command must return, and say where it logs."""
    done = stage(site, "img", "tier", "--background", "--seed", "7", "--json", "state.json")
    assert only_line(done) == site / "img"  # loaders find the copy by themselves
    state = json.loads((site / "state.json").read_text())["result"]
    log = pathlib.Path(state["log"])
    assert log.parent == site / "tier"
    path = only_line(stage(site, "img", "tier", "--wait"))
    same_tree(path, site / "img")
    until(lambda: str(path) in log.read_text())


def test_wait_with_nobody_to_wait_for(site):
    """Processes that wait would wait for themselves, or for each other."""
    argv = [STOKER, "stage", "img", "tier", "--wait", "--quiet"]
    runs = [subprocess.Popen(argv, cwd=site, env=clean_env(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {run.communicate(timeout=PATIENCE_S)[0].strip() for run in runs}
    assert len(paths) == 1 and all(run.returncode == 0 for run in runs)
    same_tree(pathlib.Path(paths.pop()), site / "img")


def test_background_that_cannot_work(site):
    done = stage(site, "img", "/proc/nowhere/tier", "--background", rc=3)
    assert only_line(done) == site / "img" and "/proc" in done.err


def test_background_is_no_part_of_the_command(site):
    """$(...) waits for everybody who holds the pipe: a copier that keeps it would not be in the
    background."""
    os.mkfifo(site / "gate")
    script = f'DATA=$({STOKER} stage img tier --background --quiet); echo "$DATA"'
    done = subprocess.run(["sh", "-c", script], cwd=site, env=clean_env(), capture_output=True, text=True,
                          timeout=120)
    assert done.stdout == f"{site}/img\n", done


def test_two_hops(site):
    """A compute node that does not see the archive takes the copy on the way."""
    first = only_line(stage(site, "img", "--via", "between", "tier"))
    same_tree(first, site / "img")
    (site / "img").rename(site / "hidden")
    second = only_line(stage(site, f"{site}/img", "tier2", "--via", "between"))
    same_tree(second, site / "hidden")
    assert "between" in stage(site, "nothing", "tier2", "--via", "between", rc=(2, 4)).err


def test_packed_while_copied(site):
    path = only_line(stage(site, "img", "tier", "--pack", "tfrecord"))
    assert run_stoker("verify", path).rc == 0
    assert len(list(path.iterdir())) == 3  # shard, index, manifest
    again = stage(site, "img", "tier", "--pack", "tfrecord")
    assert only_line(again) == path and "already there" in again.err


def test_a_packed_copy_is_a_copy(site):
    """It would fill the disk of the node, unlisted, unlimited, unchecked, until somebody removed it by hand."""
    path = only_line(stage(site, "img", "tier", "--pack", "tfrecord"))
    (one,) = listed(site)
    assert one["source"] == f"{site}/img" and one["packed"] == "tfrecord" and one["path"] == str(path)
    assert one["complete"] and one["files"] == 3 and one["bytes"] == one["bytes_there"]
    assert "img as tfrecord" in stage(site, "--list", "tier").out
    stage(site, "img", "tier")
    assert len(listed(site)) == 2
    assert stage(site, "--verify", "img", "tier").rc == 0
    # A byte that the disk lost is found, and the next run packs again.
    shard = next(path.glob("*.tfrecord"))
    flip(shard)
    stage(site, "--verify", "img", "tier", rc=1)
    path = only_line(stage(site, "img", "tier", "--pack", "tfrecord"))
    assert run_stoker("verify", path).rc == 0 and stage(site, "--verify", "img", "tier").rc == 0
    (one,) = (s for s in listed(site) if s["packed"])
    stage(site, "--evict", one["set"], "tier")
    assert [s["packed"] for s in listed(site)] == [None] and not path.exists()
    stage(site, "img", "tier", "--pack", "tar")
    assert "2" in stage(site, "--evict", "img", "tier", "--json", "-").out and not listed(site)


def test_limit_and_age_of_a_packed_copy(site):
    size = sum(f.stat().st_size for f in (site / "img").rglob("*.jpg"))
    limit = str(3 * size)
    assert in_a_session(site, "img", "tier", "--limit", limit, "--pack", "tfrecord").returncode == 0
    make_images(site / "other", classes=3, per_class=8, seed=2)
    assert in_a_session(site, "other", "tier", "--limit", limit, "--pack", "tar").returncode == 0
    assert [s["packed"] for s in listed(site)] == ["tar"]
    done = stage(site, "img", "small", "--limit", str(size // 2), "--pack", "tfrecord", rc=3)
    assert "full" in done.err and only_line(done) == site / "img"
    ledger = next((site / "tier").glob("*/ledger"))
    os.utime(ledger, (1, 1))
    stage(site, "img", "tier", "--keep", "1h")
    assert [s["packed"] for s in listed(site)] == [None]


def test_what_cannot_be_packed(site):
    """A copy of nothing would stay in the list for ever."""
    (site / "odd").mkdir()
    for name in ("a.conf", "a.local"):
        (site / "odd" / name).write_text(name)
    done = stage(site, "odd", "tier", "--pack", "tar", rc=3)
    assert only_line(done) == site / "odd" and "stoker pack" in done.err and not listed(site)


def test_two_pack_the_same_at_once(site):
    """Both would write one folder, or the second would fail."""
    argv = [STOKER, "stage", "img", "tier", "--pack", "tfrecord", "--quiet"]
    runs = [subprocess.Popen(argv, cwd=site, env=clean_env(), stdout=subprocess.PIPE, text=True) for _ in range(3)]
    paths = {run.communicate()[0] for run in runs}
    assert len(paths) == 1 and all(run.returncode == 0 for run in runs)
    assert run_stoker("verify", paths.pop().strip()).rc == 0 and len(listed(site)) == 1


@pytest.mark.parametrize("packed", [True, False])
def test_loader_and_stage_fill_one_set(site, packed):
    """The node would hold the data twice, and the second would be read from the source again."""
    if packed:
        run_stoker("pack", "img", "packed", "-q", cwd=site)
    else:
        (site / "img").rename(site / "packed")
        (site / "packed/README").write_text("no sample")
    run_stoker("load", "packed", "--tier", "tier", "--fill-tier", "-b", 5, "--steps", 1, cwd=site)
    (one,) = listed(site)
    stage(site, "packed", "tier")
    (two,) = listed(site)
    assert one["set"] == two["set"] and two["complete"] and one["bytes"] == two["bytes"]
    same_tree(pathlib.Path(two["path"]), site / "packed")
    # The other way round; and what a loader completes is published like a staged copy.
    run_stoker("load", "packed", "--tier", "tier2", "--fill-tier", "-b", 4, cwd=site)
    (one,) = listed(site, "tier2")
    assert one["complete"] and one["set"] == two["set"]
    same_tree(pathlib.Path(one["path"]), site / "packed")
    again = stage(site, "packed", "tier2", "--json", "-").json()["result"]
    assert again["already_there"] and again["path"] == one["path"]


def test_dry_run_leaves_nothing(site):
    """It would write an index into a folder that others share, or copy what was only asked about."""
    def there():
        return sorted(str(p) for p in site.rglob("*") if p.is_file() or "xdg-cache" not in p.parts)
    before = there()
    stage(site, "img", "tier", "--dry-run", "--rates", "source=1G,write=1G,read=1G")
    stage(site, "img", "tier", "--dry-run", "--via", "between", "--rates", "source=1G,write=1G,read=1G")
    assert there() == before


def test_max_rate_copies_the_same(site):
    path = only_line(stage(site, "img", "tier", "--max-rate", "1M"))
    same_tree(path, site / "img")


def test_max_rate_keeps_what_was_read(site):
    """At 24 s of a slow copy, 0 % was there: a job that was killed then began anew, time after time. And the
    end of the job, which old versions of Slurm do not tell in the environment, came as a surprise."""
    (site / "large").mkdir()
    (site / "large/large.bin").write_bytes(os.urandom(8 << 20) * 4)
    slurm = FakeSlurm(site)
    (slurm.bin / "squeue").write_text(f"#!/bin/sh\nsleep 1; echo {int(time.time()) + 32}\n")
    argv = [STOKER, "stage", "large", "tier", "--max-rate", "50K"]
    for env, status, said in (({}, (143, -15), "stopped by SIGTERM"),
                              ({**slurm.env(), "SLURM_JOB_ID": "7"}, (3,), "the job ends in less than 30 s")):
        run = subprocess.Popen(argv, cwd=site, env=clean_env(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        until(lambda: (site / "tier/tier.json").exists() and listed(site) and listed(site)[0]["bytes_there"])
        if not env:
            run.terminate()
        err = run.communicate(timeout=PATIENCE_S)[1]
        assert run.returncode in status and said in err, (run.returncode, err)
    assert listed(site)[0]["bytes_there"] >= 4 << 20


@pytest.mark.parametrize("how", [[], ["--wait"]], ids=["copies", "waits"])
def test_one_that_is_stopped_is_not_waited_for(site, how):
    """A stage that somebody had stopped (Ctrl-Z) kept every other job that wants the data for ever."""
    (site / "large").mkdir()
    (site / "large/large.bin").write_bytes(os.urandom(4 << 20) * 4)
    first = subprocess.Popen([STOKER, "stage", "large", "tier", "--max-rate", "1K"], cwd=site, env=clean_env(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: (site / "tier/tier.json").exists() and listed(site) and listed(site)[0]["bytes_there"])
        first.send_signal(signal.SIGSTOP)
        done = stage(site, "large", "tier", *how, rc=(0, 3))  # what it has not claimed, is copied
        if done.rc == 3:
            assert f"process {first.pid} works on the same copy and is stopped" in done.err
            assert only_line(done) == site / "large"
    finally:
        first.kill()
        first.communicate()
    same_tree(only_line(stage(site, "large", "tier")), site / "large")


def test_a_limit_that_cannot_work_leaves_nothing(site):
    done = stage(site, "img", "new/tier", "--limit", "5", rc=3)
    assert only_line(done) == site / "img" and "less than img" in done.err and not (site / "new").exists()


# ---- what jobs use -------------------------------------------------------------------------------

RUNS, OTHER, OVER = "33", "38", "21"  # jobs of slurmlib


def test_room_is_made_of_what_no_job_uses(site):
    """A plain program that reads the printed path would find no file in the middle of its training."""
    slurm = FakeSlurm(site)
    make_images(site / "other", classes=3, per_class=8, seed=2)
    limit = ("--limit", str(int(1.5 * sum(f.stat().st_size for f in (site / "img").rglob("*.jpg")))))

    def of(job, *args, **how):
        return stage(site, *args, env={**slurm.env(), "SLURM_JOB_ID": job}, **how)

    used = only_line(of(RUNS, "img", "tier", *limit))
    done = of(OTHER, "other", "tier", *limit, rc=3)
    assert only_line(done) == site / "other" and f"{site}/img stays: job {RUNS} uses it" in done.err
    assert of(OTHER, "other", "tier", *limit, "--pack", "tar", rc=3).out.strip() == f"{site}/other"
    run_stoker("load", "other", "--tier", "tier", "--fill-tier", "--tier-limit", limit[1], cwd=site)
    os.utime(used.parents[1] / "ledger", (1, 1))  # nor by age
    assert f"job {RUNS}" in of(OTHER, "--evict", "img", "tier", rc=3).err
    for client in ("sacct", "squeue", "scontrol"):
        slurm.fails(client, "slurm_load_jobs error: Unable to contact slurm controller\n")
    assert "not known" in of(OTHER, "other", "tier", *limit, rc=3).err
    assert "not known" in of(OTHER, "--evict", "img", "tier", rc=3).err
    same_tree(used, site / "img")
    assert of(RUNS, "--evict", "img", "tier").rc == 0 and not used.exists()  # its own job knows


def test_room_is_made_of_what_jobs_have_left(site):
    slurm = FakeSlurm(site)
    make_images(site / "other", classes=3, per_class=8, seed=2)
    limit = ("--limit", str(int(1.5 * sum(f.stat().st_size for f in (site / "img").rglob("*.jpg")))))
    env = {**slurm.env(), "SLURM_JOB_ID": OVER}
    left = only_line(stage(site, "img", "tier", *limit, env=env))
    done = stage(site, "other", "tier", *limit, env={**env, "SLURM_JOB_ID": RUNS})
    assert only_line(done).exists() and not left.exists() and f"removed the copy of {site}/img" in done.err
    # To be kept for a time, whoever needs room; and of a session that has ended, or that is this one.
    left = only_line(stage(site, "img", "kept", *limit, "--keep", "1h", env=env))
    done = stage(site, "other", "kept", *limit, env=slurm.env(), rc=3)
    assert left.exists() and "to be kept until" in done.err
    left = pathlib.Path(in_a_session(site, "img", "plain", *limit).stdout.strip())
    done = stage(site, "other", "plain", *limit)
    assert not left.exists() and f"removed the copy of {site}/img" in done.err
    assert "stays: this job uses it" in stage(site, "img", "plain", *limit, rc=3).err


def test_files_of_the_user_stay(site):
    """A checkpoint that somebody put beside the data would be gone with the copy."""
    copy = only_line(stage(site, "img", "tier"))
    (copy / "model").mkdir()
    (copy / "model/last.pt").write_text("weeks")
    done = stage(site, "--evict", "img", "tier")
    assert f"{copy}/model/last.pt stays" in done.err + done.out
    assert [p for p in (site / "tier").rglob("*") if p.is_file()] == [site / "tier/tier.json", copy / "model/last.pt"]
    done = stage(site, "img", "tier", rc=3)
    assert "model/last.pt; move that away" in done.err and only_line(done) == site / "img"
    shutil.move(copy / "model", site)
    assert only_line(stage(site, "img", "tier")) == copy
    same_tree(copy, site / "img")


# ---- several tasks that cannot talk to each other -------------------------------------------------

def tasks(site, *args, nodes=3, shell=None, leave_out=()):
    """As srun --mpi=none starts two tasks on each of these nodes, with one standard output for all: what
    it prints, and what each says."""
    read, write = os.pipe()
    runs = []
    for rank in range(2 * nodes):
        if rank // 2 in leave_out:
            continue
        env = clean_env({"SLURM_JOB_ID": "4712", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank),
                         "SLURM_STEP_NUM_TASKS": str(2 * nodes), "SLURM_LOCALID": str(rank % 2),
                         "SLURM_NODEID": str(rank // 2), "SLURM_STEP_TASKS_PER_NODE": f"2(x{nodes})",
                         "SLURMD_NODENAME": f"node{rank // 2}"})
        argv = ["sh", "-c", shell.format(STOKER)] if shell else [STOKER, "stage", *args]
        runs.append(subprocess.Popen(argv, cwd=site, env=env, stdout=write, stderr=subprocess.PIPE, text=True))
    os.close(write)
    said = [run.communicate(timeout=PATIENCE_S)[1] for run in runs]
    with open(read) as pipe:
        return pipe.read(), said, [run.returncode for run in runs]


@pytest.mark.parametrize("how", [[], ["--pack", "tfrecord"], ["--via", "between"], ["--json", "r.json"]],
                         ids=["copied", "packed", "via", "json"])
def test_one_voice(site, how):
    """DATA=$(srun stoker stage SRC) was six lines, and every message came six times."""
    out, said, status = tasks(site, "img", "tier", *how)
    assert status == [0] * 6, said
    path = pathlib.Path(out[:-1])
    assert out.count("\n") == 1 and path.is_relative_to(site / "tier") and path.exists(), out
    alone = sum("each node copies alone" in text for text in said)
    assert not any(said[1::2]) and alone == (not {"--pack", "--via"} & set(how)), said
    assert not list(site.glob("*.status"))


def test_one_voice_in_the_background_and_in_trouble(site):
    out, _, status = tasks(site, "img", "tier", "--background")
    assert out == f"{site}/img\n" and status == [0] * 6
    out, said, status = tasks(site, "nothing", "tier")
    assert out == "" and set(status) == {4} and not list(site.glob("*.status")) and not any(said[1::2])
    # Each shell has what is printed in it for itself.
    out, said, _ = tasks(site, shell="DATA=$({} stage img tier); echo $DATA")
    assert len(out.split()) == 6 and len(set(out.split())) == 1 and not any(said[1::2])
    stage(site, "img", "tier", "--wait", "--quiet")


# ---- the end of a job ----------------------------------------------------------------------------

def test_copies_of_a_session_that_is_over(site):
    """What a job leaves behind would fill the node's disk, job by job."""
    (site / "local").mkdir()
    env = {"STOKER_SCRATCH": site / "local"}
    done = in_a_session(site, "img", env=env)
    if done.returncode == 3:
        pytest.skip(f"the test's folder is on no local file system: {done.stderr}")
    first = pathlib.Path(done.stdout.strip())
    stage(site, "img", "local/named")  # a folder that the user names stays
    (site / f"local/stoker-{os.geteuid()}-job-77.pbs").mkdir(mode=0o700)  # whose scheduler is not asked
    (site / f"local/stoker-{os.geteuid()}-job-session-1-0-0").mkdir(mode=0o700)  # over, but no tier
    assert first.exists()
    second = in_a_session(site, "img", env=env)
    assert second.returncode == 0 and "job that is over" in second.stderr, second
    assert not first.parents[2].exists() and pathlib.Path(second.stdout.strip()).exists()
    assert len(list((site / "local").iterdir())) == 4


def old_tier(site):
    """The tier of a session that is over, in a folder that others may look at; its copy."""
    (site / "local").mkdir(exist_ok=True)
    done = in_a_session(site, "img", env={"STOKER_SCRATCH": site / "local"})
    if done.returncode == 3:
        pytest.skip(f"the test's folder is on no local file system: {done.stderr}")
    return pathlib.Path(done.stdout.strip()).parents[2], pathlib.Path(done.stdout.strip())


def test_files_of_the_user_in_the_copies_of_a_session(site):
    tier, copy = old_tier(site)
    (tier / "last.pt").write_text("weeks")
    (copy / "class00/notes").write_text("mine")
    done = in_a_session(site, "--list", env={"STOKER_SCRATCH": site / "local"})
    assert done.returncode == 0 and "stoker did not make it" in done.stdout + done.stderr, done
    assert {p for p in tier.rglob("*") if p.is_file()} == {tier / "last.pt", copy / "class00/notes"}


def test_another_folder_in_the_place_of_the_copies(site):
    """Whoever may rename in the folder above would have stoker remove the user's own folder."""
    libc = ctypes.CDLL(None)
    mine = site / "local/mine"
    for _ in range(6):
        tier, _ = old_tier(site)
        mine.mkdir(mode=0o700, exist_ok=True)
        (mine / "last.pt").write_text("weeks")
        stop = threading.Event()

        def swap():
            while not stop.is_set():
                libc.renameat2(-100, str(tier).encode(), -100, str(mine).encode(), 2)  # RENAME_EXCHANGE

        thread = threading.Thread(target=swap)
        thread.start()
        in_a_session(site, "--list", env={"STOKER_SCRATCH": site / "local"})
        stop.set()
        thread.join()
        assert [p for p in (site / "local").glob("*/last.pt")], list((site / "local").rglob("*"))
        shutil.rmtree(site / "local")


# ---- what processes have open ----------------------------------------------------------------------

OPENS = "import sys; f = open(sys.argv[1], 'rb')"
MAPS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
fd = os.open(sys.argv[1], os.O_RDONLY)
assert libc.mmap(None, 4096, 1, 1, fd, 0) != ctypes.c_void_p(-1).value
os.close(fd)
"""
STANDS = "import os, sys; os.chdir(os.path.dirname(sys.argv[1]))"
MOUNTS = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
os.mkdir(at := sys.argv[1].encode().split(b"/tier/")[0] + b"/in")
libc.mount.argtypes = [ctypes.c_char_p] * 3 + [ctypes.c_ulong, ctypes.c_void_p]
assert libc.unshare(0x20000) == 0 and libc.mount(None, b"/", None, 0x44000, None) == 0
assert libc.mount(os.path.dirname(sys.argv[1]).encode(), at, None, 4096, None) == 0
f = open(at + b"/" + os.path.basename(sys.argv[1]).encode())
"""


@contextlib.contextmanager
def user_of(path, how=OPENS):
    """A process of another session that uses a file, from the moment it says so until the end."""
    run = subprocess.Popen([sys.executable, "-c", how + "\nprint('ready', flush=True); sys.stdin.read()", path],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert run.stdout.readline() == "ready\n"
        yield f"process {run.pid} ("
    finally:
        run.communicate()


@pytest.mark.parametrize("how", [OPENS, MAPS, STANDS, pytest.param(MOUNTS, marks=needs_root)],
                         ids=["opens", "maps", "stands", "mounts"])
def test_a_copy_that_a_process_has_open_is_not_evicted(site, how):
    copy = only_line(stage(site, "img", "tier"))
    with user_of(next(copy.rglob("*.jpg")), how) as who:
        done = stage(site, "--evict", "img", "tier", rc=3)
        assert who in done.err and f"uses {copy}" in done.err
        same_tree(copy, site / "img")
    assert stage(site, "--evict", "img", "tier").rc == 0 and not copy.exists()


def test_a_copy_that_a_process_has_open_leaves_no_room(site):
    """A training whose launcher has ended with its session reads on."""
    make_images(site / "other", classes=3, per_class=8, seed=2)
    limit = ("--limit", str(int(1.5 * sum(f.stat().st_size for f in (site / "img").rglob("*.jpg")))))
    copy = pathlib.Path(in_a_session(site, "img", "tier", *limit).stdout.strip())
    with user_of(next(copy.rglob("*.jpg"))) as who:
        done = stage(site, "other", "tier", *limit, rc=3)
        assert only_line(done) == site / "other" and who in done.err and f"uses {copy}" in done.err
        os.utime(copy.parents[1] / "ledger", (1, 1))  # nor by age
        stage(site, "other", "tier", *limit, rc=3)
        same_tree(copy, site / "img")
    os.utime(copy.parents[1] / "ledger")
    done = stage(site, "other", "tier", *limit)
    assert not copy.exists() and f"no job uses: {copy}\n" in done.err


def test_copies_of_a_session_that_is_over_and_that_a_process_has_open(site):
    tier, copy = old_tier(site)
    env = {"STOKER_SCRATCH": site / "local"}
    with user_of(next(copy.rglob("*.jpg"))) as who:
        done = in_a_session(site, "--list", env=env)
        assert done.returncode == 0 and who in done.stdout + done.stderr and f"{tier}: " in done.stdout + done.stderr
        same_tree(copy, site / "img")
    in_a_session(site, "--list", env=env)
    assert not tier.exists()


def test_an_open_copy_of_another_tier_is_another(site):
    copy, other = only_line(stage(site, "img", "tier")), only_line(stage(site, "img", "second"))
    with user_of(next(copy.rglob("*.jpg"))):
        stage(site, "--evict", "img", "second")
    assert copy.exists() and not other.exists()


@pytest.mark.parametrize("src, dst", [("a\nb", "tier"), ("img", "a\ntier"), ("a\nb", "--background"), ("img", "")])
def test_a_newline_in_a_path(site, src, dst):
    """What reads a line would take the first half for the path."""
    (site / "img/of").write_text(str(site))  # no other test has begun to stage it
    shutil.copytree(site / "img", site / "a\nb")
    done = stage(site, src, *[dst] * bool(dst), env={} if dst else {"STOKER_SCRATCH": site / "a\nb"}, rc=2)
    assert "newline" in done.err and not done.out and not (site / "tier").exists()
    assert not (site / "a\ntier").exists()


def test_no_index_is_left_where_programs_list(stoker, images, tmp_path):
    """tune stages a job's data on its own: a file beside a class is one that nobody expects there."""
    before = sorted(images[0].parent.iterdir())
    stoker("stage", "--no-write-index", images[0], tmp_path / "node")
    assert sorted(images[0].parent.iterdir()) == sorted([*before, tmp_path / "node"])
