"""A copy on a node that is reported done is done, whatever happened on the way: killed, a full disk,
errors of the source, damage, changes, several stagers at once. Nothing torn is ever visible, and the
next run completes."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from conftest import PATIENCE_S, STOKER, clean_env, flip_byte, make_images, run_stoker, until
from faultlib import (LONG, change_points, held_at, kill_at, ladder, let_go, needs_root, needs_strace, run_traced,
                      same_tree, small_disk, tree)
from slowfslib import slowfs

MIB = 1 << 20


class Site:
    """Sources `img` (small files) and `packed` (shards, one of several parcels), and a tier."""

    def __init__(self, root):
        self.root = root
        self.tier = root / "tier"
        make_images(root / "img", classes=2, per_class=4)
        (root / "xdg-cache/stoker").mkdir(parents=True)
        run_stoker("inspect", "img", cwd=root)  # its index is there, so that each run makes the same calls

    def pack(self):
        """A packed dataset with a shard of three parcels."""
        make_images(self.root / "large", classes=1, per_class=9, sizes=(MIB, MIB))
        run_stoker("pack", "large", "packed", "--shards", "1", "--quiet", cwd=self.root)
        return self.root / "packed"

    def stage(self, src="img", *more, **how):
        return self.run("stage", src, "tier", "--jobs", "1", "--quiet", *more, **how)

    def run(self, *args, **how):
        return run_stoker(*args, cwd=self.root, **how)

    def copies(self):
        """Usable paths: what a user or a loader may take for whole."""
        return sorted(self.tier.glob("*/data/*[!x]"))

    def assert_whole_or_absent(self, src):
        for path in self.copies():
            if path.is_dir():
                same_tree(path, self.root / src)

    def assert_completes(self, src="img"):
        """The next run ends with a whole copy and says so."""
        done = self.stage(src)
        path = pathlib.Path(done.out.strip())
        same_tree(path, self.root / src)
        assert path.parent.name == "data"
        assert self.run("stage", src, "tier", "--verify").rc == 0
        return path


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


# ---- killed ------------------------------------------------------------------------------------

@needs_strace
@pytest.mark.parametrize("src", ["img", "packed"])
def test_killed_anywhere(site, src):
    """A job that ran into its time limit would leave half a copy that the next job takes for whole."""
    if src == "packed":
        site.pack()
    args = ["stage", src, "tier", "--jobs", "1", "--quiet"]
    points = change_points(*args, tmp=site.root, cwd=site.root)
    (sync,) = (i for i, p in enumerate(points) if p[0] == "syncfs")
    publishing = points[sync - 8:]  # index, modes and times of folders; then the sync, and the name
    assert [p[0] for p in publishing[8:12]] == ["syncfs", "renameat", "fsync", "fsync"]
    for point in {*ladder(points, 8), *publishing}:
        shutil.rmtree(site.tier, ignore_errors=True)
        kill_at(point, *args, cwd=site.root)
        site.assert_whole_or_absent(src)
        site.assert_completes(src)


@needs_strace
def test_killed_between_bytes_and_ledger(site):
    """A thread writes large files: killed there, half a parcel would count, or a whole one would be lost."""
    site.pack()
    # A parcel is 16 writes, then its entry and the record of its file. (The main thread makes fewer than 12.)
    for n in (12, 17, 18, 19, 35, 36, 40):
        shutil.rmtree(site.tier, ignore_errors=True)
        assert kill_at(("pwrite64", n), "stage", "packed", "tier", "--jobs", "1", "--quiet", cwd=site.root, threads=True)
        assert not site.copies()
        done = site.run("stage", "packed", "tier", "--json", "-").json()["result"]
        kept = 4 * MIB if n > 36 else MIB if n > 18 else 0  # at least: they are written as they arrive
        assert done["bytes_copied"] <= done["bytes"] - kept
        site.assert_completes("packed")


@needs_strace
def test_killed_while_packing(site):
    """A packed copy would be there half, twice, or never again."""
    args = ["stage", "img", "tier", "--pack", "tfrecord", "--jobs", "1", "--quiet"]
    points = change_points(*args, tmp=site.root, cwd=site.root)
    last = [p for p in points if p[0] in ("renameat", "renameat2", "syncfs", "mkdirat", "unlinkat")]
    for point in {*ladder(points, 6), *(last if LONG else last[-10:])}:
        shutil.rmtree(site.tier, ignore_errors=True)
        kill_at(point, *args, cwd=site.root)
        for path in site.copies():
            assert site.run("verify", path, "--quiet").rc == 0, point
        path = site.run(*args).out.strip()
        assert site.run("verify", path, "--quiet").rc == 0 and site.run("stage", "img", "tier", "--verify").rc == 0
        sets = site.run("stage", "--list", "tier", "--json", "-").json()["result"]["sets"]
        assert [s["path"] for s in sets if s["files"]] == [path], point
        assert all(s["complete"] for s in sets), (point, sets)


@needs_strace
def test_killed_lease_is_taken_over(site):
    """A dead owner's lease would keep everybody waiting for ever."""
    args = ["stage", "img", "tier", "--jobs", "1", "--quiet"]
    kill_at(("pwrite64", 6), *args, cwd=site.root)
    assert list(site.tier.glob("*/lease")) and not site.copies()
    site.assert_completes()


# ---- disks ---------------------------------------------------------------------------------------

@needs_root
@pytest.mark.parametrize("how", [[], ["--pack", "tar"], ["--background"]], ids=["copied", "packed", "background"])
def test_small_disk(site, how):
    """A disk that is too small would be full at the end, for all who use it, and have no copy."""
    packed = site.pack()
    with small_disk(site.root / "disk", "6m") as disk:
        small = site.run("stage", "packed", "disk/tier", *how, rc=3)
        assert small.out == f"{packed}\n"  # the job goes on with the source
        assert re.search(r"too small for the copy: tmpfs, 5\.\d+ MiB free, 9\.\d+ MiB needed", small.err), small
        assert disk.used() < MIB
        sets = site.run("stage", "--list", "disk/tier", "--json", "-").json()["result"]["sets"]
        assert sets == []


@needs_root
@needs_strace
def test_full_disk(site):
    """A disk that others fill meanwhile must not look like success, and what was copied must not be lost."""
    packed = site.pack()
    with small_disk(site.root / "disk", "12m") as disk:
        proc = held_at(("pwrite64", 4), "stage", "packed", "disk/tier", "--jobs", "1", "--quiet",
                       log=str(site.root / "log"), cwd=site.root)
        (disk.path / "of others").write_bytes(bytes(6 * MIB))
        let_go(proc)
        out, err = (text.decode() for text in proc.communicate())
        assert proc.returncode == 3 and out == f"{packed}\n", err
        assert "No space" in err
        assert not list(disk.path.glob("tier/*/data"))
        (disk.path / "of others").unlink()
        # The rest fits where the whole does not.
        assert disk.free() < sum(p.stat().st_size for p in packed.iterdir())
        done = site.run("stage", "packed", "disk/tier", "--json", "-").json()["result"]
        assert done["staged"] and 0 < done["bytes_before"] < done["bytes"]
        same_tree(done["path"], packed)


@needs_strace
@pytest.mark.parametrize("call, error", [("pwrite64", "EIO"), ("pwrite64", "EDQUOT"), ("syncfs", "EIO"),
                                         ("renameat", "EIO"), ("fsync", "EIO"), ("futimens", "EPERM")])
def test_target_fails(site, call, error):
    """A target that fails would be reported as done: UnifyFS says success for a truncated file."""
    name = {"futimens": "utimensat"}.get(call, call)
    args = ["stage", "img", "tier", "--jobs", "1", "--quiet"]
    failed = run_traced(*args, inject=[f"{name}:error={error}:when=2+" if name == "pwrite64" else
                                       f"{name}:error={error}"], cwd=site.root)
    assert failed.rc == 3, failed
    assert failed.out == f"{site.root}/img\n"
    site.assert_whole_or_absent("img")
    site.assert_completes()


@needs_root
def test_disk_without_inodes(site):
    """The disk has room for bytes, and not for files: half a copy, and nobody else can make a file there."""
    with small_disk(site.root / "disk", "64m,nr_inodes=14") as disk:
        done = site.run("stage", "img", "disk/tier", rc=3)
        assert done.out == f"{site.root}/img\n" and "files can be made there" in " ".join(done.err.split())
        assert not list(disk.path.glob("tier/*-*"))


@needs_root
def test_disk_that_became_read_only(site):
    """A file system with errors is mounted read-only by the kernel: begun or complete, what is there is used."""
    with small_disk(site.root / "disk", "64m") as disk:
        path = site.run("stage", "img", "disk/tier").out
        subprocess.run(["mount", "-o", "remount,ro", disk.path], check=True)
        done = site.run("stage", "img", "disk/tier", rc=(0, 3))
        assert done.out in (path, f"{site.root}/img\n") and (done.rc == 0) == (done.out == path)
        done = site.run("stage", "img", "disk/new", rc=3)
        assert done.out == f"{site.root}/img\n" and "Read-only" in done.err


def test_no_place(site):
    """Without any local folder the job must go on, with the source."""
    done = site.run("stage", "img", "/proc/nowhere/tier", rc=3)
    assert done.out == f"{site.root}/img\n"
    assert "read from the source" in done.err


# ---- the source ----------------------------------------------------------------------------------

@pytest.mark.parametrize("at", [100, 5 * MIB, -1])
def test_flipped_byte_at_the_source(site, at):
    """A damaged shard would be published as a verified copy."""
    packed = site.pack()
    shard = next(packed.glob("*.tfrecord"))
    flip_byte(shard, at)
    bad = site.stage("packed", rc=1)
    assert shard.name in bad.err and "checksum" in bad.err
    assert not site.copies()
    flip_byte(shard, at)
    site.assert_completes("packed")


def test_changed_since_the_manifest(site):
    """A shard that someone appended to is not the packed one."""
    packed = site.pack()
    shard = next(packed.glob("*.tfrecord"))
    with open(shard, "ab") as f:
        f.write(b"x")
    bad = site.stage("packed", rc=1)
    assert shard.name in bad.err and "manifest" in bad.err
    assert not site.copies()
    os.truncate(shard, shard.stat().st_size - 1)
    site.assert_completes("packed")


def test_lost_since_the_manifest(site):
    packed = site.pack()
    shard = next(packed.glob("*.tfrecord"))
    shard.rename(site.root / "elsewhere")
    bad = site.stage("packed", rc=1)
    assert shard.name in bad.err and not site.copies()
    (site.root / "elsewhere").rename(shard)
    site.assert_completes("packed")


@needs_strace
@pytest.mark.parametrize("src", ["img", "packed"])
def test_changed_while_copying(site, src):
    """Bytes of two states would make a file that never existed."""
    if src == "packed":
        site.pack()
    proc = held_at(("pwrite64", 4), "stage", src, "tier", "--jobs", "1", "--quiet",
                   log=str(site.root / "log"), cwd=site.root)
    last = max(p for p in (site.root / src).rglob("*") if p.suffix in (".jpg", ".tfrecord"))
    os.utime(last, ns=(1, 1))
    let_go(proc)
    out, err = proc.communicate()
    if proc.returncode == 0:  # all of that file was read before
        return
    assert proc.returncode == 1, err
    assert last.name in err.decode() and "changed" in err.decode()
    assert not site.copies()
    site.assert_completes(src)
    assert len(list(site.tier.glob("*/ledger"))) == 1  # what was begun of the former state is gone


def become(path, what):
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "link":
        path.symlink_to("/etc/passwd")


@needs_strace
@pytest.mark.parametrize("what", ["pipe", "folder", "link", "nothing"])
@pytest.mark.parametrize("size", [500, 9 * MIB], ids=["small", "large"])
def test_file_that_became_something_else(site, what, size):
    """A pipe would be waited for, a link would lead out of the source, and a changed source is no full disk."""
    victim = site.root / "plain/file.bin"
    victim.parent.mkdir()
    victim.write_bytes(os.urandom(size))
    (victim.parent / "other.bin").write_bytes(b"other")
    site.run("inspect", "plain", rc=None)
    # The second folder that gets its name is the set: the source is listed, and nothing is copied yet.
    proc = held_at(("renameat", 2), "stage", "plain", "tier", "--jobs", "1", "--quiet",
                   log=str(site.root / "log"), cwd=site.root)
    assert list(site.tier.glob("????????????????-????????")) and not list(site.tier.glob("*/filling/plain/*"))
    kept = victim.read_bytes(), victim.stat()
    become(victim, what)
    let_go(proc)
    out, err = (text.decode() for text in proc.communicate())
    assert proc.returncode == 1 and out == f"{site.root}/plain\n", err
    assert "file.bin" in err and not site.copies()
    shutil.rmtree(victim) if victim.is_dir() and not victim.is_symlink() else victim.unlink(missing_ok=True)
    victim.write_bytes(kept[0])
    site.assert_completes("plain")


@pytest.mark.parametrize("size", [500, 9 * MIB], ids=["small", "large"])
def test_stalled_source_when_the_job_ends(site, tmp_path, size):
    """Threads that the kernel blocks look at no clock: the command would be killed with its job, without a word."""
    (site.root / "plain").mkdir()
    for i in range(20):
        (site.root / f"plain/{i}.bin").write_bytes(os.urandom(size if i == 0 else 500))
    with slowfs(site.root / "plain", tmp_path / "mnt") as fs:
        fs.command("stall *.bin 3600s op=read")
        done = site.run("stage", fs.mnt, "tier", rc=3, env={"SLURM_JOB_END_TIME": str(int(time.time()) + 33)})
        fs.command("clear")
        assert done.out == f"{fs.mnt}\n" and "the job ends" in done.err
        assert not site.copies()
        same_tree(site.run("stage", fs.mnt, "tier", "--quiet").out.strip(), site.root / "plain")


def test_source_that_changes_while_it_is_copied(site, tmp_path):
    """A copy of half of each version, under the name of one of them."""
    (site.root / "plain").mkdir()
    for i in range(24):  # 11 is none of the 16 that the identity looks into
        (site.root / f"plain/{i:02}.bin").write_bytes(os.urandom(5000))
    with slowfs(site.root / "plain", tmp_path / "mnt") as fs:
        site.run("inspect", fs.mnt)  # its index saves staging from looking into more of them
        fs.command("stall 11.bin 3600s op=read")
        proc = subprocess.Popen([STOKER, "stage", fs.mnt, "tier"], cwd=site.root, env=clean_env(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until(lambda: int(fs.rules().split("# ")[1].split()[0]) >= 1)  # a request is held up
        first = fs.mnt / "00.bin"
        was = first.stat().st_mtime_ns
        first.write_bytes(os.urandom(5000))
        os.utime(first, ns=(was, was))
        fs.command("clear")
        out, err = proc.communicate(timeout=PATIENCE_S)
        assert proc.returncode == 1 and "while it was copied; run again" in err, err
        assert out == f"{fs.mnt}\n" and not site.copies()
        same_tree(site.run("stage", fs.mnt, "tier", "--quiet").out.strip(), site.root / "plain")


def test_source_fails_and_stalls(site, tmp_path):
    """EIO must name the file; a source that stalls must not keep the job from ending."""
    packed = site.pack()
    with slowfs(packed, tmp_path / "mnt") as fs:
        fs.command("eio *.tfrecord")
        bad = site.run("stage", fs.mnt, "tier", "--quiet", rc=3)
        assert "Input/output error" in bad.err and ".tfrecord" in bad.err
        assert bad.out == f"{fs.mnt}\n"
        assert not site.copies()
        fs.command("clear")
        fs.command("stall *.tfrecord 3600s")
        proc = subprocess.Popen([STOKER, "stage", fs.mnt, "tier", "--quiet"], cwd=site.root, env=clean_env(),
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        until(lambda: int(fs.rules().split("# ")[1].split()[0]) >= 1)  # a request is held up
        proc.send_signal(signal.SIGTERM)
        out, err = proc.communicate(timeout=120)
        assert proc.returncode == 128 + signal.SIGTERM, err
        assert out == b"" and not site.copies()
        fs.command("clear")
        done = site.run("stage", fs.mnt, "tier", "--quiet")
        same_tree(done.out.strip(), packed)


# ---- several at once -----------------------------------------------------------------------------

def test_two_at_once(site):
    """Two jobs of one node that stage the same set would write into each other's files."""
    packed = site.pack()
    procs = [subprocess.Popen([STOKER, "stage", "packed", "tier", "--json", "-"], cwd=site.root, env=clean_env(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    results = [json.loads(p.communicate()[0])["result"] for p in procs]
    assert [p.returncode for p in procs] == [0, 0, 0]
    assert len({r["path"] for r in results}) == 1
    assert sum(r["bytes_copied"] for r in results) == results[0]["bytes"]  # each byte once
    same_tree(results[0]["path"], packed)


@needs_strace
def test_waits_for_a_slow_one(site):
    """While one stands still with a claim, the other must neither publish nor give up."""
    proc = held_at(("pwrite64", 3), "stage", "img", "tier", "--jobs", "1", "--quiet", log=str(site.root / "log"),
                   cwd=site.root)
    other = subprocess.Popen([STOKER, "stage", "img", "tier", "--quiet"], cwd=site.root, env=clean_env(),
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    assert other.poll() is None and not site.copies()
    let_go(proc)
    one, two = proc.communicate()[0], other.communicate()[0]
    assert one == two and proc.returncode == other.returncode == 0
    site.assert_completes()


# ---- signals and time limits ---------------------------------------------------------------------

@needs_strace
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_cleanly(site, number):
    packed = site.pack()
    proc = held_at(("pwrite64", 5), "stage", "packed", "tier", "--jobs", "1", "--quiet",
                   log=str(site.root / "log"), cwd=site.root)
    let_go(proc, number)
    out, err = proc.communicate()
    assert out == b"" or proc.returncode == 0
    assert proc.returncode in (0, 128 + number), err
    assert proc.returncode == 0 or not site.copies()
    site.assert_completes("packed")
    assert packed.exists()


def test_job_that_ends_soon(site):
    """A copy that is cut off by the time limit is no copy: the command must say so while it can."""
    env = {"SLURM_JOB_END_TIME": str(int(time.time()) + 5)}
    done = site.stage(rc=3, env=env)
    assert "the job ends" in done.err and done.out == f"{site.root}/img\n"
    site.assert_completes()


# ---- the copy ------------------------------------------------------------------------------------

@pytest.mark.parametrize("src", ["img", "packed"])
def test_damaged_copy_is_found_and_mended(site, src):
    """A bit that flips on the node's disk would be served for the rest of the job."""
    if src == "packed":
        site.pack()
    path = site.assert_completes(src)
    victim = max(p for p in path.rglob("*") if p.suffix in (".jpg", ".tfrecord"))
    stamp = victim.stat()
    flip_byte(victim, -5)
    os.utime(victim, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    bad = site.run("stage", src, "tier", "--verify", rc=1)
    assert victim.name in bad.out
    assert tree(site.assert_completes(src))


@pytest.mark.parametrize("src", ["img", "packed"])
@pytest.mark.parametrize("by", [1, -1, 5 * MIB], ids=["a byte more", "a byte less", "a parcel more"])
def test_copy_of_another_size_is_found_and_mended(site, src, by):
    """Every byte of the list is good, and a program that reads the copy gets more, or fewer."""
    if src == "packed":
        site.pack()
    path = site.assert_completes(src)
    victim = max(p for p in path.rglob("*") if p.suffix in (".jpg", ".tfrecord"))
    os.truncate(victim, victim.stat().st_size + by)
    assert victim.name in site.run("stage", src, "tier", "--verify", rc=1).out
    site.run("stage", src, "tier", "--verify", rc=1)
    site.assert_completes(src)


def test_copy_of_another_program(site):
    """A file that someone changed in the copy must not be served, and is mended."""
    path = site.assert_completes()
    victim = min(path.rglob("*.jpg"))
    victim.write_bytes(b"not an image")
    site.assert_completes()


def test_many_small_files_verify_clean(site):
    """Threads that meet at a lock must not take "busy" for "not there"."""
    make_images(site.root / "many", classes=2, per_class=300, sizes=(1, 40))
    site.run("stage", "many", "tier", "--quiet")
    for _ in range(3):
        assert site.run("stage", "many", "tier", "--verify", "--json", "-").json()["result"]["sets"][0][
            "parcels_bad"] == 0


def taken_locks(log):
    """The n-th fcntl() of the main thread, for each that takes a lock."""
    main, n = None, 0
    for line in log.read_text(errors="replace").splitlines():
        pid = line.split()[0]
        main = main or pid
        n += pid == main and "fcntl(" in line
        if pid == main and "F_OFD_SETLK" in line and "F_UNLCK" not in line:
            yield n


@needs_strace
@pytest.mark.parametrize("args", [["stage", "src", "tier", "--pack", "tar"], ["stage", "src", "tier"]],
                         ids=["packed", "copied"])
def test_a_refused_lock_is_an_error(tmp_path, args):
    """EACCES also means that another has the lock: a file system that refuses locks was waited for, for a minute
    or for ever, and nobody knew for whom."""
    (tmp_path / "src").mkdir()
    for i in range(4):
        (tmp_path / f"src/{i}.txt").write_text(str(i))
    log = tmp_path / "log"
    run_traced(*args, inject=["fcntl:error=EACCES:when=60000"], log=log, cwd=tmp_path, threads=True, rc=0)
    points = list(taken_locks(log))[2:]  # the first two show whether there are locks
    for n in ladder(points, 6):
        shutil.rmtree(tmp_path / "tier")
        done = run_traced(*args, inject=[f"fcntl:error=EACCES:when={n}+"], cwd=tmp_path, threads=True, rc=(0, 3, 4))
        assert done.rc == 0 or "Permission denied" in done.err, repr(done)
