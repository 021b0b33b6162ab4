"""`stoker doctor`: what it says of a node is true, it leaves nothing behind, and no file system can
hold it up."""

import fcntl
import os
import re
import shutil
import signal
import subprocess

import pytest

from conftest import STOKER, clean_env, run_stoker, until
from slowfslib import slowfs

UNSET = dict.fromkeys(("STOKER_SCRATCH", "SLURM_TMPDIR", "TMPDIR", "SCRATCH", "SLURM_JOB_ID"), "")


def doctor(*args, env=None, cwd=None, **more):
    """The result of a run with --json -."""
    return run_stoker("doctor", "--json", "-", "-q", *args, env={**UNSET, **(env or {})}, cwd=cwd,
                      **more).json()["result"]


def target(result, name):
    return next(t for t in result["targets"] if t["name"] == name)


def test_quick_says_what_is_there_and_writes_nothing(tmp_path):
    """A user on a login node wants to look, not to load the storage."""
    (tmp_path / "local").mkdir()
    before = sorted(tmp_path.rglob("*"))
    r = doctor("--quick", tmp_path, cwd=tmp_path,
               env={"TMPDIR": tmp_path / "local", "SLURM_JOB_ID": "77", "SCRATCH": tmp_path / "none"})
    assert sorted(tmp_path.rglob("*")) == before
    first = r["file_systems"][0]
    free = os.statvfs(tmp_path)
    assert first["path"] == str(tmp_path) and first["argument"] and first["speed"] is None
    assert first["total_bytes"] == free.f_blocks * free.f_frsize
    assert "." in r["file_systems"][1]["holds"].split(", ")
    assert target(r, "$TMPDIR")["tier"] == f"{tmp_path}/local/stoker-{os.geteuid()}-job-77"
    assert target(r, "$SCRATCH")["verdict"] == "absent"
    assert target(r, "$SLURM_TMPDIR")["verdict"] == "unset"
    assert r["node"]["job"] == "77" and r["node"]["scheduler"] == "slurm"
    assert 0 < r["node"]["cpus"] <= r["node"]["machine_cpus"]
    assert {p["name"] for p in r["parts"]} >= {"hdf5", "io_uring"}


def test_measuring_is_bounded_and_leaves_nothing(tmp_path):
    """Files of ours in a user's home, or a quota filled by a look at it."""
    (tmp_path / "data").mkdir()
    for i in range(20):
        (tmp_path / "data" / f"{i}").write_bytes(os.urandom(300_000))
    r = doctor(tmp_path / "data", tmp_path / "data" / "3", cwd=tmp_path, env={"HOME": tmp_path})
    assert sorted(p.name for p in tmp_path.rglob("*")) == sorted(["data", *map(str, range(20))])
    folder, file, *rest = r["file_systems"]
    for fs in (folder, file):  # these are read, never written
        assert fs["speed"]["written_bytes"] == 0 and fs["speed"]["write_Bps"] is None
        assert fs["speed"]["read_bytes"] <= 6_000_000
    for fs in rest:
        assert fs["speed"] is None or fs["speed"]["written_bytes"] <= 140 << 20
        assert fs["speed"] is not None or fs["note"]
    assert sum(fs["speed"]["written_bytes"] for fs in rest if fs["speed"]) == r["written_bytes"] > 0


def test_small_files_are_not_the_rate_of_a_file_system(tmp_path):
    """Opening a file takes longer than reading 40 kB of it: 10.6 MiB/s was shown for a disk of 95."""
    for name, n, size in (("small", 20, 40_000), ("large", 2, 4 << 20)):
        (tmp_path / name).mkdir()
        for i in range(n):
            (tmp_path / name / f"{i}").write_bytes(os.urandom(size))
    small, large = doctor(tmp_path / "small", tmp_path / "large", cwd=tmp_path)["file_systems"][:2]
    if not small["speed"]["reads_by"]:
        pytest.skip("the page cache cannot be avoided here")
    assert small["speed"]["read_Bps"] is None and small["speed"]["small_files_Bps"] > 0
    assert re.search(r"small files, 39(\.\d)? KiB on average, are read at", small["note"])
    assert large["speed"]["read_Bps"] > 0 and large["speed"]["small_files_Bps"] is None and not large["note"]


def test_screen_fits(tmp_path):
    """Lines that wrap, or names that a terminal obeys."""
    evil = tmp_path / "a\x1b[31m\nb\u202e"
    deep = tmp_path / ("long" * 30) / ("name" * 30)
    for folder in (evil, deep):
        folder.mkdir(parents=True)
    env = {**UNSET, "STOKER_SCRATCH": deep, "TMPDIR": evil, "STOKER_PURGE_DAYS": f"{deep}=30"}
    for when in ("never", "always"):
        r = run_stoker("doctor", "--quick", evil, deep, tmp_path / "none", "--color", when, env=env, cwd=deep)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", r.out)
        assert max(len(line) for line in plain.splitlines()) <= 80
        assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", plain)
        words = " ".join(plain.split())  # where a line is wrapped depends on the length of tmp_path
        assert "older than 30 days (STOKER_PURGE_DAYS)" in words
        assert "No such file or directory" in words
    assert r.err == ""


def test_a_file_system_that_hangs_does_not_hang_it(tmp_path):
    """The node whose storage stalls is the one on which a user calls doctor."""
    (tmp_path / "src/sub").mkdir(parents=True)
    with slowfs(tmp_path / "src", tmp_path / "mnt") as fs:
        fs.command("stall sub 9999s op=stat")
        hung = tmp_path / "mnt/sub"
        r = doctor("--quick", "--answer-limit", "300ms", hung, cwd=tmp_path,
                   env={"STOKER_SCRATCH": hung, "HOME": hung, "XDG_CONFIG_HOME": hung})
        fs.command("clear")
    assert r["file_systems"][0]["path"] == str(hung) and not r["file_systems"][0]["answers"]
    assert r["file_systems"][0]["mounted_at"] == str(tmp_path / "mnt")
    assert r["file_systems"][0]["free_bytes"] is None
    assert target(r, "$STOKER_SCRATCH")["verdict"] == "stalled"
    assert r["target"] is None or r["target"]["name"] != "$STOKER_SCRATCH"
    assert r["node"]["cpus"] > 0


def test_fuse_is_not_taken_for_local(tmp_path):
    """A copy on what is another continent behind a mount point."""
    (tmp_path / "src").mkdir()
    with slowfs(tmp_path / "src", tmp_path / "mnt"):
        r = doctor("--quick", env={"SCRATCH": tmp_path / "mnt"}, cwd=tmp_path)
    assert target(r, "$SCRATCH")["verdict"] == "unknown"
    assert "not known to be local" in target(r, "$SCRATCH")["reason"]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_writes(tmp_path, sig):
    """Ctrl-C in a write that hangs: the command ends, and its files are gone."""
    src = tmp_path / "src"
    src.mkdir()
    with slowfs(src, tmp_path / "mnt") as fs:
        fs.command("stall small-* 9999s op=write")
        with subprocess.Popen([STOKER, "doctor"], cwd=tmp_path / "mnt", stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env=clean_env({**UNSET, "HOME": tmp_path})) as p:
            until(lambda: list(src.glob(".stoker-doctor*/small-*")))
            p.send_signal(sig)
            err = p.communicate()[1].decode()
        assert p.returncode == 128 + sig, err
        until(lambda: not list(src.iterdir()))
        fs.command("clear")


def test_killed_while_it_writes(tmp_path):
    """Each doctor that was killed would leave a hundred megabytes in a folder that nobody looks into."""
    src, mnt = tmp_path / "src", tmp_path / "mnt"
    src.mkdir()
    with slowfs(src, mnt) as fs:
        fs.command("stall small-* 9999s op=write")
        with subprocess.Popen([STOKER, "doctor", "--quiet"], cwd=mnt, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=clean_env({**UNSET, "HOME": tmp_path})) as p:
            until(lambda: list(src.glob(".stoker-doctor*/small-*")))
            p.kill()
        (left,) = src.glob(".stoker-doctor*")
        fs.command("clear")
    assert list(left.iterdir())
    doctor(cwd=src)
    assert left.exists()  # it is young: one that measures may not have locked it yet
    os.utime(left, (1, 1))
    measuring = os.open(left, os.O_RDONLY)
    fcntl.flock(measuring, fcntl.LOCK_EX)
    doctor(cwd=src)
    assert left.exists()
    os.close(measuring)
    doctor(cwd=src)
    assert not list(src.iterdir())


@pytest.mark.parametrize("wrong", ["folder", "text"])
def test_settings_that_cannot_be_read(tmp_path, wrong):
    """The command that is run because something is wrong would end at the first thing that is."""
    config = tmp_path / "config"
    config.mkdir() if wrong == "folder" else config.write_text("no such = option\n")
    done = run_stoker("doctor", "--quick", env={**UNSET, "STOKER_CONFIG": config}, cwd=tmp_path)
    assert "of your settings are used" in done.err and "file systems" in done.out
    assert run_stoker("formats", env={"STOKER_CONFIG": config}, rc=None).rc != 0


def mounted(script, *args):
    """Runs a shell script as root of mounts of its own."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], check=False,
                                                     stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no user namespace: nothing can be mounted here")
    return subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", *map(str, args)], check=False,
                          capture_output=True, env=clean_env(UNSET))


def test_full_read_only_and_hostile_mounts(tmp_path):
    """What is full or read-only is not chosen; the name of a mount is text."""
    evil = tmp_path / "m \x1b[31m\t"
    for folder in (tmp_path / "full", tmp_path / "ro", evil):
        folder.mkdir()
    r = mounted('mount -t tmpfs -o size=64k none "$2" && head -c 65536 /dev/zero > "$2/x" 2>&-; '
                'mount -t tmpfs -o ro none "$3" && mount -t tmpfs none "$4" || exit 9; '
                'export STOKER_SCRATCH="$2" TMPDIR="$3" SCRATCH="$4"; "$1" doctor --quick "$4"; "$1" doctor -q',
                STOKER, tmp_path / "full", tmp_path / "ro", evil)
    if r.returncode == 9:
        pytest.skip("tmpfs cannot be mounted here")
    text = r.stdout.decode()
    assert r.returncode == 0, r.stderr.decode()
    assert re.search(r"STOKER_SCRATCH .* 0 B free", text) and re.search(r"TMPDIR .* mounted read-only", text)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    assert r"m \x1b[31m\t" in text


def test_tiers_of_the_job(tmp_path):
    """Copies that a loader would use without being told, or would silently not use."""
    data, local = tmp_path / "data", tmp_path / "local"
    data.mkdir()
    (data / "a").write_bytes(b"x" * 5000)
    (local / "theirs").mkdir(parents=True)
    (local / "theirs").chmod(0o777)
    env = {"SLURM_JOB_ID": "77"}
    path = run_stoker("stage", data, local / "mine", "--limit", "1M", "-q", env={**UNSET, **env}).out
    assert path.startswith(str(local / "mine"))
    r = doctor("--quick", env={**env, "STOKER_TIER": f"{local}/mine:{local}/theirs:{local}/none"})
    mine, theirs = r["tiers"]
    assert (mine["copies"], mine["complete"], mine["limit_bytes"], mine["problem"]) == (1, 1, 1 << 20, None)
    assert theirs["problem"]
    assert doctor("--quick", env={**env, "STOKER_TIER": "off"})["tiers"] == []


def test_build_mpi(tmp_path):
    """A site's own MPI gets its module by one command."""
    data = {"XDG_DATA_HOME": tmp_path / "share"}
    r = run_stoker("doctor", "--quick", "--build-mpi", "no-such-mpicc", env=data, rc=4)
    assert "no-such-mpicc" in r.err and r.out == ""
    mpicc = shutil.which("mpicc")
    if not mpicc:
        pytest.skip("no mpicc: a module cannot be built")
    built = doctor("--quick", "--build-mpi", mpicc, env=data)
    assert os.path.exists(built["built"]) and built["built"].startswith(str(tmp_path))
    assert any(m["path"] == built["built"] and m["library"] for m in built["mpi"])
