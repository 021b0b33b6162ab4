"""pack under faults: killed, out of space, unreadable input. What is at the destination must be the
old dataset, the new one, or nothing; what is lost must be named.

strace kills or refuses at exact system calls. With STOKER_LONG=1 every one of them is tried."""

import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import tarfile
import time

import numpy as np
import pytest

import formatlib
import tfrecordlib as tfr
from conftest import STOKER, clean_env, make_images, run_stoker
from faultlib import (LONG, as_nobody, change_points, held_at, kill_at, ladder, let_go, names, needs_root,
                      needs_strace, run_traced, same_tree, small_disk, tree)

SHARDS = {"tfrecord": 3, "tar": 2, "recordio": 2, "jsonl": 2}  # the others: one file
FORMATS = {name: ("--shards", str(SHARDS[name])) if name in SHARDS else () for name in formatlib.IMAGES}


@pytest.fixture(autouse=True)
def needs_format(request):
    fmt = request.node.callspec.params.get("fmt") if hasattr(request.node, "callspec") else None
    if fmt and not formatlib.writes(fmt):
        pytest.skip(f"this build does not write {fmt}")


class Site:
    """A folder with a source `img`, a destination `d/out`, and a cache that is there already, so
    that every run makes the same system calls."""

    def __init__(self, root):
        self.root = root
        make_images(root / "img", classes=2, per_class=6)
        (root / "xdg-cache/stoker").mkdir(parents=True)
        (root / "d").mkdir()
        self.out = root / "d/out"

    def pack(self, fmt, *more):
        return ["pack", "img", "d/out", "--format", fmt, "--jobs", "1", "--quiet", *FORMATS[fmt],
                *more]

    def clear(self):
        shutil.rmtree(self.root / "d")
        (self.root / "d").mkdir()
        for path in self.root.glob("img.stkidx*"):
            path.unlink()

    def run(self, *args, **how):
        return run_stoker(*args, cwd=self.root, **how)

    def assert_tidy(self):
        """Nothing but the source, its index and the dataset is left."""
        assert names(self.root / "d") == ["out"]
        assert not [n for n in names(self.root) if "partial" in n]


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


# ---- killed ------------------------------------------------------------------------------------

@needs_strace
@pytest.mark.parametrize("fmt", FORMATS)
def test_killed_anywhere(site, fmt):
    """A job that ran into its time limit would leave half a dataset, or one that cannot be
    finished."""
    args = site.pack(fmt)
    points = change_points(*args, tmp=site.root, cwd=site.root)
    want = tree(site.out)
    site.assert_tidy()
    for i, point in enumerate(ladder(points, 7)):
        site.clear()
        killed = kill_at(point, *args, cwd=site.root)
        if site.out.exists():
            same_tree(site.out, want)
            continue
        assert killed, point
        site.run(*args, *(["--resume"] if i % 3 else []))
        same_tree(site.out, want)
        site.assert_tidy()
    assert site.run("verify", "d/out").rc == 0


@needs_strace
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("fmt", ["tar", "folder"])
def test_killed_while_replacing(site, fmt, exchange):
    """--force would destroy the old dataset and not finish the new one. Not every file system can
    exchange two folders: there the old one may lose its name for a moment, never its bytes."""
    refuse = [] if exchange else ["renameat2:error=EINVAL"]
    site.run(*site.pack(fmt, "--shuffle", "1"))
    old = tree(site.out)
    keep = site.root / "keep"
    site.out.rename(keep)
    args = site.pack(fmt, "--force", "--shuffle", "2")
    shutil.copytree(keep, site.out)
    points = change_points(*args, tmp=site.root, cwd=site.root, inject=refuse)
    new = tree(site.out)
    assert old != new and sorted(old) == sorted(new)
    gone = 0
    last = points[-26::4] if exchange else points[-26:]
    for point in points if LONG else last:  # those before are test_killed_anywhere's
        site.clear()
        shutil.copytree(keep, site.out)
        kill_at(point, *args, cwd=site.root, inject=refuse)
        if site.out.exists():
            assert tree(site.out) in (old, new), point
        else:
            gone += 1
            assert not exchange
            site.run(*site.pack(fmt, "--shuffle", "2"), rc=4)  # no --force: brings the old one back
            same_tree(site.out, old)
        site.run(*args)
        same_tree(site.out, new)
        site.assert_tidy()
    assert gone == (0 if exchange else 1)


@needs_strace
def test_forced_run_can_be_resumed(site):
    """Hours of a --force run that was killed would be lost: --force alone starts over."""
    site.run(*site.pack("tfrecord", "--shuffle", "1"))
    old = tree(site.out)
    args = site.pack("tfrecord", "--shuffle", "2")
    kill_at(("renameat", 4), *args, "--force", cwd=site.root)
    same_tree(site.out, old)
    assert len([n for n in names(site.root / "d/out.partial") if n.endswith(".tfrecord")]) == 1
    done = site.run(*args, "--resume", "--json", "-")
    assert done.json()["result"]["shards_kept"] == 1
    assert tree(site.out) != old
    site.assert_tidy()


@pytest.mark.parametrize("fmt", ["tfrecord", "folder"])
def test_killed_at_any_moment_with_many_jobs(tmp_path, fmt):
    """With many threads at work a kill would find shards in states one thread never has."""
    make_images(tmp_path / "img", classes=4, per_class=60, sizes=(1000, 60_000))
    args = ["pack", "img", "out", "--format", fmt, "--jobs", "8", "--quiet", "--shuffle", "5"]
    args += ["--shards", "5"] if fmt == "tfrecord" else []
    begin = time.monotonic()
    run_stoker(*args, cwd=tmp_path)
    took, want = time.monotonic() - begin, tree(tmp_path / "out")
    rng = random.Random(7)
    for _ in range(40 if LONG else 4):
        shutil.rmtree(tmp_path / "out")
        proc = subprocess.Popen([STOKER, *args], cwd=tmp_path, env=clean_env())
        try:
            proc.wait(rng.uniform(0.05, 1.05) * took)
        except subprocess.TimeoutExpired:
            proc.kill()
        proc.wait()
        if (tmp_path / "out").exists():
            same_tree(tmp_path / "out", want)
            continue
        run_stoker(*args, "--resume", cwd=tmp_path)
        same_tree(tmp_path / "out", want)
        assert not [n for n in names(tmp_path) if "partial" in n]


@needs_strace
def test_resume_rewrites_a_shard_that_is_damaged(site):
    """A power cut may leave a shard with its name and not its bytes: it would be published."""
    args = site.pack("tfrecord")
    site.run(*args)
    want = tree(site.out)
    for damage in (b"", want["out-00000-of-00003.tfrecord"][:-7]):
        site.clear()
        kill_at(("renameat", 5), *args, cwd=site.root)  # index, plan, three shards: two are done
        partial = site.root / "d/out.partial"
        assert (partial / "out-00001-of-00003.tfrecord").exists()
        (partial / "out-00000-of-00003.tfrecord").write_bytes(damage)
        done = site.run(*args, "--resume", "--json", "-")
        assert done.json()["result"]["shards_kept"] == 1
        same_tree(site.out, want)


def flip(one, other):
    data = bytearray(one.read_bytes())
    data[len(data) // 2] ^= 1
    one.write_bytes(data)


def swap(one, other):
    spare = one.parent.parent / "spare"
    one.rename(spare)
    other.rename(one)
    spare.rename(other)


def link(one, other):
    one.unlink()
    one.hardlink_to(other)


CHANGES = {"flip": flip, "swap": swap, "link": link, "moved": lambda one, other: None,
           "copy": lambda one, other: shutil.copy2(other, one),
           "no record": lambda one, other: (one.parent / "pack.done").unlink(),
           "record cut": lambda one, other: os.truncate(one.parent / "pack.done", 20)}


def unfinished(site, fmt):
    """An unfinished run with two finished shards; their paths. The shards are of one size: a format
    of lines or rows has no checksum that would show that one is another, or changed."""
    rows = site.root / "rows.csv"
    rows.write_text("v\n" + "".join(f"{i}\n" for i in range(1000, 1012)))
    args = ["pack", "rows.csv", "d/out", "--format", fmt, "--jobs", "1", "--quiet", "--shards", "3"]
    site.run(*args)
    want = tree(site.out)
    finished = [n for n in sorted(want) if "-of-" in n][:2]
    points = [p for p in change_points(*args, "--force", tmp=site.root, cwd=site.root)
              if p[0] == "renameat"]
    for point in reversed(points):
        site.clear()
        kill_at(point, *args, cwd=site.root)
        partial = site.root / "d/out.partial"
        if [n for n in names(partial) if n.endswith(pathlib.Path(finished[0]).suffix)] == finished:
            return args, want, [partial / n for n in finished]
    raise AssertionError("no run ended with two shards")


@needs_strace
@pytest.mark.parametrize("change", CHANGES)
def test_resume_keeps_only_what_was_finished(site, change):
    """A finished shard that somebody replaced, or a disk changed, would get a checksum that says it
    is right: wrong data that verify finds whole."""
    args, want, (one, other) = unfinished(site, "csv")
    CHANGES[change](one, other)
    if change == "moved":  # by a program that copies: other inodes, other times of change
        shutil.copytree(one.parent, site.root / "copy")
        shutil.rmtree(one.parent)
        (site.root / "copy").rename(one.parent)
        one.parent.chmod(0o700)
    if "record" in change:
        assert "in the way" in site.run(*args, "--resume", rc=4).err
        return
    done = site.run(*args, "--resume", "--json", "-").json()["result"]
    redone = {"moved": 0, "swap": 2}.get(change, 1)
    assert (done["shards_kept"], done["shards_redone"]) == (2 - redone, redone)
    same_tree(site.out, want)
    site.assert_tidy()


@needs_strace
def test_resume_compares_sidecars(site):
    """The keys of a RecordIO file are in its .idx: one that was lost or changed would be kept."""
    args = site.pack("recordio")
    site.run(*args)
    want = tree(site.out)
    for spoil in (lambda p: p.unlink(), lambda p: flip(p, None)):
        site.clear()
        kill_at(("renameat", 6), *args, cwd=site.root)  # index, plan, two of the first shard
        partial = site.root / "d/out.partial"
        assert (partial / "out-00000-of-00002.rec").exists()
        spoil(partial / "out-00000-of-00002.idx")
        assert site.run(*args, "--resume", "--json", "-").json()["result"]["shards_redone"] == 1
        same_tree(site.out, want)


@needs_strace
@pytest.mark.parametrize("source", ["tree", "file"])
def test_resume_notices_a_source_with_its_old_times(site, source):
    """A file that was written again with its size and times kept (rsync, a restored backup) would be
    packed in part from the old content, in part from the new."""
    path = site.root / "img/class00/img0002.jpg"
    args = site.pack("tfrecord")
    if source == "file":
        site.run("pack", "img", "one.tar", "--format", "tar", "--quiet")
        (path,) = (site.root / "one.tar").glob("*.tar")
        path = path.rename(site.root / "alone.tar")
        args[1] = "alone.tar"
        site.run("inspect", path, "--quiet")  # an index that is there already
    kill_at(("renameat", 4), *args, cwd=site.root)
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[-1 if source == "tree" else 600] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "changed since" in site.run(*args, "--resume", rc=4).err


# ---- refused -----------------------------------------------------------------------------------

def beside(out):
    (out / "ckpt").mkdir()
    (out / "ckpt/last.pt").write_text("weights")


def among_the_files(out):
    (out / "files/class00/.notes").write_text("mine")


def among_the_files_and_indexed(out):
    (out / "files/class00/mine.jpg").write_bytes(b"mine")
    (out / "index.stkidx").unlink()
    run_stoker("inspect", out, "--rebuild-index", "--quiet", rc=(0, 1))


@pytest.mark.parametrize("fmt, add, named", [
    ("tfrecord", beside, "ckpt/last.pt"),
    ("tfrecord", lambda out: (out / "notes.partial").write_text("mine"), "notes.partial"),
    ("tfrecord", lambda out: shutil.copytree(out.parent.parent / "other", out / "other"), "other/"),
    ("tfrecord", lambda out: (out / "link").symlink_to("/"), "link"),
    ("folder", beside, "ckpt/last.pt"),
    ("folder", among_the_files, "files/class00/.notes"),
    ("folder", among_the_files_and_indexed, "files/class0")])
def test_force_leaves_what_the_manifest_does_not_name(site, fmt, add, named):
    """--force would delete a checkpoint, notes or a whole dataset that a user keeps in the folder of
    a dataset."""
    site.run("pack", "img", "other", "--quiet")
    site.run(*site.pack(fmt))
    site.run(*site.pack(fmt, "--force"))  # nothing of ours is in the way
    add(site.out)
    before = tree(site.root / "d")
    result = site.run(*site.pack(fmt, "--force"), rc=4)
    assert named in result.err and "choose another destination" in result.err
    same_tree(site.root / "d", before)


def test_force_leaves_what_lies_beside_a_copied_manifest(site):
    """A manifest that was copied among other files would have them deleted."""
    site.run("pack", "img", "other", "--quiet")
    site.out.mkdir()
    shutil.copy(site.root / "other/manifest.json", site.out)
    (site.out / "thesis.tex").write_text("years of work")
    assert "thesis.tex" in site.run(*site.pack("tar", "--force"), rc=4).err
    (site.out / "manifest.json").write_text('{"stoker_manifest": 2')
    assert "is damaged" in site.run(*site.pack("tar", "--force"), rc=4).err
    assert names(site.out) == ["manifest.json", "thesis.tex"]


@needs_strace
@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("fmt", ["tfrecord", "folder"])
def test_force_leaves_what_arrives_while_it_works(site, fmt, exchange):
    """A checkpoint that is saved to the old folder just before that is removed would go with it."""
    site.run(*site.pack(fmt))
    args = site.pack(fmt, "--force")
    refuse = [] if exchange else ["renameat2:error=EINVAL"]
    points = change_points(*args, tmp=site.root, cwd=site.root, inject=refuse)
    first = next(i for i, (call, n) in enumerate(points) if call == "renameat2")
    kill_at(points[first + 4], *args, cwd=site.root, inject=refuse)  # the old one has another name
    (old,) = [p for p in (site.root / "d").iterdir() if p.is_dir() and p != site.out]
    inside = old / "files" if fmt == "folder" else old
    (inside / "mine.txt").write_text("mine")
    for _ in range(2):
        assert "mine.txt" in site.run(*site.pack(fmt, "--resume"), rc=4).err
    assert list(tree(old).values()) == [b"mine"]
    (inside / "mine.txt").rename(site.root / "mine.txt")
    site.run(*site.pack(fmt, "--resume"))
    site.assert_tidy()


@needs_strace
@pytest.mark.parametrize("more", [(), ("--resume",), ("--force",)])
def test_others_in_the_unfinished_folder_stay(site, more):
    """A new run clears away what an unfinished one left: with it would go what a user put there."""
    args = site.pack("tfrecord")
    kill_at(("renameat", 5), *args, cwd=site.root)
    partial = site.root / "d/out.partial"
    (partial / "notes.txt").write_text("mine")
    before = tree(partial)
    result = site.run(*args, *more, rc=4)
    assert "notes.txt" in result.err and "move that away" in result.err
    same_tree(partial, before)
    (partial / "notes.txt").unlink()
    site.run(*args, *more)
    site.assert_tidy()

def test_never_replaces_what_is_not_ours(site):
    """A wrong destination would cost a user's files."""
    site.out.mkdir()
    (site.out / "precious").write_text("mine")
    before = tree(site.root / "d")
    for more in ((), ("--force",), ("--resume",)):
        result = site.run(*site.pack("tar", *more), rc=4)
        assert "d/out" in result.err and "no manifest of stoker" in result.err
    (site.out / "manifest.json").write_text('{"version": 1, "files": []}')
    result = site.run(*site.pack("tar", "--force"), rc=4)
    (site.out / "manifest.json").unlink()
    assert "no manifest of stoker" in result.err and tree(site.root / "d") == before
    shutil.rmtree(site.out)
    site.out.write_text("a file")
    result = site.run(*site.pack("tar", "--force"), rc=4)
    assert "a file of this name exists" in result.err and site.out.read_text() == "a file"
    site.out.unlink()
    (site.root / "d/out.partial").mkdir()
    (site.root / "d/out.partial/precious").write_text("mine")
    for more in ((), ("--force",), ("--resume",)):
        assert "in the way" in site.run(*site.pack("tar", *more), rc=4).err
    assert tree(site.root / "d") == {"out.partial/precious": b"mine"}


def test_finished_dataset_is_not_replaced_without_force(site):
    """A repeated command would replace a dataset that jobs are reading."""
    site.run(*site.pack("tfrecord"))
    before = tree(site.out)
    for more in ((), ("--shuffle", "3"), ("--resume", "--shuffle", "3")):
        assert "--force" in site.run(*site.pack("tfrecord", *more), rc=4).err
    site.run(*site.pack("tfrecord", "--resume"))  # a job that is requeued when its work is done
    same_tree(site.out, before)
    site.assert_tidy()


@needs_strace
def test_resume_with_other_options_or_source_is_refused(site):
    """Shards of two different runs would be mixed into one dataset."""
    args = site.pack("tfrecord")
    kill_at(("renameat", 4), *args, cwd=site.root)
    partial = tree(site.root / "d/out.partial")
    for more in (("--shuffle", "1"), ("--payload", "raw"), ("--label-from", "none"),
                 ("--keys", "number"), ("--exclude", "*0.jpg"), ("--on-error", "skip"),
                 ("--compress", "zstd"), ("--name", "x")):
        result = site.run(*args, "--resume", *more, rc=4)
        assert "other options" in result.err, more
    (site.root / "img/class00/new.jpg").write_bytes(b"new")
    assert "another source" in site.run(*args, "--resume", rc=4).err
    assert tree(site.root / "d/out.partial") == partial
    site.run(*args)
    site.assert_tidy()


@needs_strace
def test_resume_notices_other_labels(site):
    """With the label file changed in between, shards of one dataset would have different labels."""
    rows = [f"class0{c}/img000{i}.jpg,{i % 2}\n" for c in range(2) for i in range(6)]
    labels = site.root / "labels.csv"
    labels.write_text("key,label\n" + "".join(rows))
    args = site.pack("tfrecord", "--label-from", "csv:labels.csv")
    kill_at(("renameat", 4), *args, cwd=site.root)
    labels.write_text("key,label\n" + "".join(r.replace(",0", ",5") for r in rows))
    assert "other options" in site.run(*args, "--resume", rc=4).err


def test_destination_behind_a_link(site):
    """Packing to a link into scratch space would fail after hours, or replace the link."""
    scratch = site.root / "scratch"
    scratch.mkdir()
    site.out.symlink_to(scratch)
    for more in ((), ("--force",)):
        site.run(*site.pack("tfrecord", *more))
        assert site.out.is_symlink() and (scratch / "manifest.json").exists()
        assert not [n for n in names(site.root) if "partial" in n]
    site.run("verify", "d/out")


def test_destination_inside_the_source_is_refused(site):
    """The next run would pack its own output."""
    for dst in ("img/packed", "img/class00/packed", "img"):
        result = site.run("pack", "img", dst, rc=(2, 4))
        assert not list((site.root / "img").rglob("*partial*")), result
    assert len(tree(site.root / "img")) == 12


@needs_root
def test_mount_point_as_destination(site):
    """A mounted folder cannot be renamed: pack would detect that after all the work."""
    site.out.mkdir()
    with small_disk(site.out, "1m"):
        assert "mounted" in site.run(*site.pack("tar"), rc=4).err
    assert names(site.root / "d") == ["out"]


# ---- the same bytes ----------------------------------------------------------------------------

def numbers_source(root):
    """Rows every format for numbers can hold, enough for several chunks."""
    x = np.random.default_rng(3).normal(size=(400, 5)).round(4)
    path = root / "x.csv"
    path.write_text("key,label,v\n" + "".join(f"k{i:04d},{i % 7},{r[0]}\n"
                                              for i, r in enumerate(x)))
    np.save(root / "x.npy", x)
    return path, root / "x.npy"


@pytest.mark.parametrize("fmt", formatlib.NAMES)
def test_same_bytes_whatever_the_jobs(tmp_path, fmt):
    """Two runs of the same command could not be compared, and --resume not be trusted. (A small
    --memory makes many small chunks for the jobs to fight over.)"""
    csv, npy = numbers_source(tmp_path)
    if fmt in FORMATS:
        src = tmp_path / "img"
        make_images(src, classes=5, per_class=20, sizes=(0, 2000))
    else:
        src = npy if fmt == "npy" else csv
    args = ["--format", fmt, "--quiet", "--name", "x"]
    shards = ["--shards", "3"] if fmt not in ("folder",) else []
    for more in ([], ["--shuffle", "11", *shards]):
        want = None
        for jobs in (1, 2, 5, 16) if LONG else (1, 5):
            dst = tmp_path / f"out{jobs}"
            memory = ["--memory", "128K"] if jobs > 1 else []
            run_stoker("pack", src, dst, "--jobs", jobs, *args, *more, *memory)
            want = want or tree(dst)
            same_tree(dst, want)
            shutil.rmtree(dst)


def samples_of(path, tmp):
    """The samples as text, whatever the format."""
    dst = pathlib.Path(tmp) / "as-jsonl"
    run_stoker("pack", path, dst, "--format", "jsonl", "--shards", "1", "--quiet", "--force")
    (shard,) = dst.glob("*.jsonl")
    return shard.read_text().splitlines()


@pytest.mark.parametrize("fmt", ["tfrecord", "tar", "npz", "hdf5"])
def test_shuffle_is_a_permutation_that_the_seed_decides(tmp_path, fmt):
    """Shuffling would lose or repeat samples, or give the same order for every seed."""
    make_images(tmp_path / "img", classes=5, per_class=20, sizes=(0, 300))
    lists = []
    for i, more in enumerate(([], ["--shuffle", "1"], ["--shuffle", "2"])):
        run_stoker("pack", tmp_path / "img", tmp_path / f"out{i}", "--format", fmt, *more)
        lists.append(samples_of(tmp_path / f"out{i}", tmp_path))
    plain, one, two = lists
    assert len(plain) == 100 and len(set(plain)) == 100
    assert sorted(one) == sorted(plain) == sorted(two)
    assert len({tuple(x) for x in lists}) == 3


# ---- full disk ---------------------------------------------------------------------------------

@needs_root
@pytest.mark.parametrize("fmt", FORMATS)
def test_full_disk(site, fmt):
    """A full disk would pass for a finished dataset, cost the old one, or not be named."""
    make_images(site.root / "img", classes=2, per_class=60, sizes=(4000, 8000))
    plain = site.pack(fmt)
    site.run(*plain)
    want = tree(site.out)
    shutil.rmtree(site.root / "d")
    with small_disk(site.root / "d", "640k") as disk:
        site.run("pack", "img", "d/out", "--include", "*0.jpg", "--format", "tar")
        old = tree(site.out)
        result = site.run(*plain, "--force", rc=4)
        assert "No space left on device" in result.err and "d/out.partial" in result.err, result
        same_tree(site.out, old)
        disk.resize("4m")
        site.run(*plain, "--resume")
        same_tree(site.out, want)
        site.assert_tidy()
    (site.root / "d").rmdir()


@needs_strace
@pytest.mark.parametrize("fmt", ["tfrecord", "recordio", "lmdb"])
def test_no_space_at_any_call(site, fmt):
    """One call whose failure is not checked would make an incomplete dataset."""
    args = site.pack(fmt)
    points = [p for p in change_points(*args, tmp=site.root, cwd=site.root) if p[0] != "openat"]
    want = tree(site.out)
    failed = 0
    for call, n in ladder(points, 8):
        site.clear()
        result = run_traced(*args, inject=[f"{call}:error=ENOSPC:when={n}"], cwd=site.root,
                            rc=(0, 4))
        if result.rc == 4:
            failed += 1
            assert "No space left on device" in result.err and "d" in result.err, result
            site.run(*args, "--resume")  # also where only tidying up had failed
        same_tree(site.out, want)
        site.assert_tidy()
    assert failed >= 5


def test_file_size_limit(site):
    """Where the batch system limits the size of files, the process would die without a word."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
    result = site.run(*site.pack("tar"), rc=4, preexec_fn=limit)
    assert "File too large" in result.err and "d/out.partial" in result.err
    assert not site.out.exists()
    site.run(*site.pack("tar"), "--resume")
    site.assert_tidy()


@needs_root
def test_full_disk_for_the_index(tmp_path):
    """A dataset on a full disk could not even be looked at."""
    src, cache = tmp_path / "full", tmp_path / "cache"
    cache.mkdir()
    with small_disk(src, "512k"), small_disk(cache, "64k"):
        files = make_images(src / "img", classes=2, per_class=6)
        (src / "fill").write_bytes(bytes(1))
        fill(src / "fill")
        result = run_stoker("inspect", src / "img", "--json", "-", env={"XDG_CACHE_HOME": cache})
        assert result.json()["result"]["samples"] == len(files)
        assert names(src) == ["fill", "img"]
        assert len(list((cache / "stoker").iterdir())) == 1  # the next place
        shutil.rmtree(cache / "stoker")
        (cache / "stoker").mkdir()
        fill(cache / "fill")
        result = run_stoker("inspect", src / "img", "--json", "-", env={"XDG_CACHE_HOME": cache})
        assert result.json()["result"]["samples"] == len(files)
        assert names(cache / "stoker") == [] and names(src) == ["fill", "img"]
        run_stoker("pack", src / "img", tmp_path / "out", env={"XDG_CACHE_HOME": cache})
    run_stoker("verify", tmp_path / "out")


def fill(path):
    with open(path, "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError:
            pass


@needs_root
def test_full_disk_for_temporary_files(tmp_path):
    """"No space left" on /tmp would send the user looking at the wrong disk."""
    path = tmp_path / "many.tfrecord"
    path.write_bytes(tfr.frame(b"0123456789") * 60_000)
    with small_disk(tmp_path / "tmp", "64k"):
        result = run_stoker("verify", path, rc=4, env={"TMPDIR": tmp_path / "tmp"})
        assert "No space left on device" in result.err and str(tmp_path / "tmp") in result.err


# ---- input that cannot be read ------------------------------------------------------------------

def in_tars(out):
    """{name: bytes} of the images in all shards."""
    found = {}
    for path in out.glob("*.tar"):
        with tarfile.open(path) as tar:
            found.update({m.name: tar.extractfile(m).read() for m in tar if m.name[-4:] == ".jpg"})
    return found


def skipped_in(path):
    result = json.loads(path.read_text())["result"]
    assert result["skipped_total"] == len(result["skipped"])
    return sorted(p["path"] for p in result["skipped"])


def open_to_all(path):
    for folder in (path, *path.parents):
        if folder.stat().st_mode & 5 != 5:
            folder.chmod(folder.stat().st_mode | 5)


@needs_root
def test_unreadable_files_and_folders(site):
    """One file without permission would cost the whole run, or be left out in silence."""
    secret = ["class00/img0002.jpg", "class01/img0004.jpg"]
    for name in secret:
        (site.root / "img" / name).chmod(0)
    closed = site.root / "img/class02"
    closed.mkdir()
    (closed / "x.jpg").write_bytes(b"x")
    closed.chmod(0)
    open_to_all(site.root)
    shutil.rmtree(site.root / "xdg-cache/stoker")
    for name in ("d", "xdg-cache"):
        (site.root / name).chmod(0o777)
    args = site.pack("tar", "--json", "d/said.json", "--on-error")
    result = site.run(*args, "stop", rc=4, preexec_fn=as_nobody)
    assert "Permission denied" in result.err and "img/class0" in result.err
    assert not site.out.exists()
    site.run(*args, "skip", rc=3, preexec_fn=as_nobody)
    assert skipped_in(site.root / "d/said.json") == sorted(["img/class02",
                                                            *(f"img/{s}" for s in secret)])
    kept = in_tars(site.out)
    assert len(kept) == 10 and not set(secret) & set(kept)
    site.run("verify", "d/out")


def change_while_packing(site, *args):
    """Runs pack and changes the source between its index and its reading: pack is held when it
    has made its folder."""
    made = [p for p in change_points(*args, tmp=site.root, cwd=site.root) if p[0] == "mkdirat"]
    site.clear()
    proc = held_at(made[-1], *args, log=site.root / "strace.log", cwd=site.root)
    assert (site.root / "d/out.partial").exists()
    img = site.root / "img"
    (img / "class00/img0003.jpg").unlink()
    os.truncate(img / "class01/img0001.jpg", 10)
    with open(img / "class01/img0002.jpg", "ab") as f:
        f.write(b"more")
    (img / "class01/img0005.jpg").write_bytes((img / "class01/img0005.jpg").read_bytes())
    let_go(proc)
    _, err = proc.communicate()
    return proc.returncode, err.decode()


@needs_strace
def test_files_that_change_while_they_are_packed(site):
    """Half-written or vanished files would be packed as they happen to be, without a word."""
    changed = ["class00/img0003.jpg", "class01/img0001.jpg", "class01/img0002.jpg",
               "class01/img0005.jpg"]
    rc, err = change_while_packing(site, *site.pack("tar"))
    assert rc == 4 and "img/class00/img0003.jpg: open: No such file" in err, err
    assert not site.out.exists()
    make_images(site.root / "img", classes=2, per_class=6)
    rc, err = change_while_packing(site, *site.pack("tar", "--on-error", "skip", "--json",
                                                    "said.json"))
    assert rc == 3, err
    assert skipped_in(site.root / "said.json") == [f"img/{c}" for c in changed]
    kept = in_tars(site.out)
    assert len(kept) == 8 and not set(changed) & set(kept)
    site.run("verify", "d/out")


@needs_strace
def test_read_errors(site):
    """A disk that fails in one place would cost everything, or give bytes that were never read."""
    bad = ["img/class00/img0003.jpg", "img/class01/img0001.jpg"]
    args = site.pack("tar", "--json", "said.json")
    how = {"inject": ["pread64:error=EIO"], "paths": [site.root / b for b in bad],
           "cwd": site.root}
    result = run_traced(*args, rc=4, **how)
    assert f"{bad[0]}:0: read: Input/output error" in result.err, result
    assert not site.out.exists()
    run_traced(*args, "--on-error", "skip", rc=3, **how)
    assert skipped_in(site.root / "said.json") == bad
    kept = in_tars(site.out)
    assert len(kept) == 10
    assert all((site.root / "img" / k).read_bytes() == v for k, v in kept.items())
    site.run("verify", "d/out")


@needs_strace
def test_read_error_inside_a_shard(site):
    """One bad block would cost all samples that happen to be read in the same request."""
    site.run(*site.pack("tfrecord"))
    shard = site.out / "out-00001-of-00003.tfrecord"
    # Records are copied as they are, so each is read once.
    args = ["pack", "d/out", "again", "--format", "tfrecord", "--jobs", "1", "--quiet"]

    def packed():
        return run_stoker("inspect", site.root / "again", "--json", "-").json()["result"]["samples"]

    inject = ["pread64:error=EIO:when=1"]  # the large read; the single ones after it work
    run_traced(*args, inject=inject, paths=[shard], rc=0, cwd=site.root)
    assert packed() == 12
    shutil.rmtree(site.root / "again")
    run_traced(*args, "--on-error", "skip", "--json", "said.json", rc=3, cwd=site.root,
               inject=["pread64:error=EIO:when=1+2"], paths=[shard])
    assert set(skipped_in(site.root / "said.json")) == {str(shard.relative_to(site.root))}
    assert 8 < packed() < 12
    run_stoker("verify", site.root / "again")


@needs_strace
@pytest.mark.parametrize("fmt", ["tfrecord", "npz", "folder"])
def test_interrupted_calls(site, fmt):
    """A signal (a timer of the batch system) in the middle of a read would be an I/O error."""
    args = site.pack(fmt)
    site.run(*args)
    want = tree(site.out)
    files = [p for p in site.root.glob("img/*/*")]
    files += [site.root / "d/out.partial" / n for n in want]
    files += [f"{p}.partial" for p in files if "out.partial" in str(p)]
    files += [site.root / "d/out" / n for n in want]
    site.clear()
    storm = [f"{call}:error=EINTR:when=1+2" for call in ("pread64", "write", "pwrite64")]
    run_traced(*args, inject=storm, paths=files, rc=0, cwd=site.root)
    same_tree(site.out, want)
    run_traced("verify", "d/out", inject=storm, paths=files, rc=0, cwd=site.root)


@needs_strace
def test_stopped_by_a_signal(site):
    """Ctrl-C would leave a mess, or a run that cannot go on."""
    args = site.pack("tfrecord")
    first = next(p for p in change_points(*args, tmp=site.root, cwd=site.root) if p[0] == "renameat")
    site.clear()
    proc = held_at(first, *args, log=site.root / "strace.log", cwd=site.root)
    let_go(proc, signal.SIGTERM)
    _, err = proc.communicate()
    assert proc.returncode == 128 + signal.SIGTERM, err
    assert not site.out.exists()
    site.run(*args, "--resume")
    site.assert_tidy()
    site.run("verify", "d/out")
