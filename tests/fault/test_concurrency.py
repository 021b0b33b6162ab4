"""Several processes at one dataset: they build its index at once, write it at once, replace it
while it is read. And, with STOKER_TSAN (a build with -Db_sanitize=thread), the threads of one."""

import fcntl
import os
import random
import shutil
import subprocess
import threading

import pytest

import formatlib
from conftest import PATIENCE_S, STOKER, Result, check_sane, clean_env, make_images, run_stoker
from faultlib import LONG, held_at, let_go, names, needs_strace, run_traced, tree


def start(*args, cwd=None):
    return subprocess.Popen([STOKER, *map(str, args)], cwd=cwd, env=clean_env(),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def end(proc):
    out, err = proc.communicate(timeout=PATIENCE_S)
    result = Result(proc.args, proc.returncode, out, err)
    check_sane(result)
    return result


# ---- index -------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", ["folder", "tfrecord"])
def test_index_built_by_several_at_once(tmp_path, kind):
    """The jobs of an array all start at once: one would read what another has half written."""
    files = make_images(tmp_path / "img", classes=2, per_class=30, sizes=(10, 200))
    path = tmp_path / "img"
    if kind == "tfrecord":
        run_stoker("pack", tmp_path / "img", tmp_path / "packed")
        path = tmp_path / "x.tfrecord"
        shutil.copy(next((tmp_path / "packed").glob("*.tfrecord")), path)
    index = path.with_name(path.name + ".stkidx")
    first = files[sorted(files)[0]]
    for _ in range(60 if LONG else 8):
        index.unlink(missing_ok=True)
        procs = [start("inspect", path, "--sample", 0, "-o", "-") for _ in range(3)]
        for proc in procs:
            result = end(proc)
            assert result.rc == 0 and first in result.out_bytes, result
        before = index.stat().st_ino
    run_stoker("inspect", path)
    assert index.stat().st_ino == before  # it fits
    assert not [n for n in names(tmp_path) if "partial" in n]


def test_index_left_by_a_killed_process_is_cleared_away(tmp_path):
    """Every killed job would leave a file beside the data; a living one's must stay."""
    make_images(tmp_path / "img", classes=2, per_class=3)
    dead = tmp_path / "img.stkidx.partial.0123456789abcdef"
    alive = tmp_path / "img.stkidx.partial.f123456789abcdef"
    dead.write_bytes(b"half")
    alive.write_bytes(b"half")
    with open(alive) as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        run_stoker("inspect", tmp_path / "img")
    assert [n for n in names(tmp_path) if "stkidx" in n] == ["img.stkidx", alive.name]


# ---- pack --------------------------------------------------------------------------------------

@needs_strace
def test_second_pack_at_the_same_place_is_refused(tmp_path):
    """Two jobs with the same destination would write into each other's files."""
    make_images(tmp_path / "img", classes=2, per_class=6)
    args = ["pack", "img", "out", "--jobs", "1", "--quiet", "--shards", "2"]
    run_stoker("inspect", tmp_path / "img")
    first = held_at(("fsync", 5), *args, log=tmp_path / "strace.log", cwd=tmp_path)
    assert (tmp_path / "out.partial/pack.plan").exists()
    for more in ((), ("--resume",), ("--force",), ("--shuffle", "3")):
        result = run_stoker(*args, *more, cwd=tmp_path, rc=4)
        assert "another stoker is writing this dataset" in result.err
    let_go(first)
    assert end(first).rc == 0
    run_stoker("verify", tmp_path / "out")
    assert not [n for n in names(tmp_path) if "partial" in n]


@pytest.mark.parametrize("force", [False, True])
def test_packs_that_race(tmp_path, force):
    """Whatever the moment: one dataset that is whole, and nothing beside it."""
    make_images(tmp_path / "img", classes=2, per_class=6)
    variants = []
    for seed in (1, 2):
        run_stoker("pack", "img", f"want{seed}", "--name", "x", "--shuffle", seed, cwd=tmp_path)
        variants.append(tree(tmp_path / f"want{seed}"))
        shutil.rmtree(tmp_path / f"want{seed}")
    won = set()
    for _ in range(50 if LONG else 10):
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        procs = [start("pack", "img", "out", "--name", "x", "--quiet", "--shuffle", seed,
                       *(["--force"] if force else []), cwd=tmp_path) for seed in (1, 2)]
        results = [end(p) for p in procs]
        assert sorted(r.rc for r in results) in ([[0, 4], [0, 0]] if force else [[0, 4]]), results
        for r in results:
            assert r.rc == 0 or "another stoker" in r.err or "already" in r.err, r
        got = tree(tmp_path / "out")
        assert got in variants
        won.add(variants.index(got))
        assert not [n for n in names(tmp_path) if "partial" in n], results
    assert won


def test_read_while_it_is_replaced(tmp_path):
    """A job that opens the dataset in the moment it is replaced would get samples of neither."""
    files = make_images(tmp_path / "img", classes=2, per_class=6)
    args = ["pack", tmp_path / "img", tmp_path / "out", "--format", "tar", "--quiet", "--force"]
    run_stoker(*args)
    stop = threading.Event()
    failed = []

    def replace():
        seed = 0
        while not stop.is_set() and not failed:
            seed += 1
            result = run_stoker(*args, "--shuffle", seed, rc=None)
            if result.rc:
                failed.append(result)

    writer = threading.Thread(target=replace)
    writer.start()
    rng, good, tries = random.Random(1), 0, 150 if LONG else 25
    try:
        for _ in range(tries):
            result = run_stoker("inspect", tmp_path / "out", "--sample", rng.randrange(12), "-o",
                                f"{tmp_path}/one/", "--force", rc=None)
            if result.rc:  # it may say that something changed; it may not make something up
                assert result.rc in (1, 4) and str(tmp_path / "out") in result.err, result
                continue
            good += 1
            (data,) = [p.read_bytes() for p in (tmp_path / "one").rglob("*") if p.suffix == ".jpg"]
            assert data in files.values()
            shutil.rmtree(tmp_path / "one")
    finally:
        stop.set()
        writer.join()
    assert not failed and good > tries // 2


# ---- threads -----------------------------------------------------------------------------------

TSAN = os.environ.get("STOKER_TSAN")


@pytest.mark.skipif(not TSAN, reason="set STOKER_TSAN to a build with -Db_sanitize=thread")
@pytest.mark.parametrize("fmt", formatlib.IMAGES if TSAN else ["any format"])
def test_threads_of_one_process(tmp_path, fmt):
    """Two threads at one variable: right a thousand times, wrong once, never found again."""
    make_images(tmp_path / "img", classes=8, per_class=80 if LONG else 12, sizes=(10, 9000))
    env = clean_env({"TSAN_OPTIONS": "exitcode=99:halt_on_error=0"})

    def run(*args, rc=(0,)):
        done = subprocess.run([TSAN, *map(str, args)], env=env, capture_output=True, text=True)
        assert "ThreadSanitizer" not in done.stderr, done.stderr[:4000]
        assert done.returncode in rc, done

    out = tmp_path / "out"
    run("inspect", tmp_path / "img", "--jobs", 8)
    run("pack", tmp_path / "img", out, "--format", fmt, "--jobs", 8, "--memory", "1M", "--shuffle",
        3, *(["--shards", "4"] if fmt in ("tfrecord", "tar", "recordio", "jsonl") else []))
    run("verify", out, "--jobs", 8)
    run("inspect", out, "--jobs", 8, "--rebuild-index")
    for io in ("threads", "mmap", "direct"):
        run("load", out, "--threads", 4, "--batch", 7, "--epochs", 2, "--io", io, "--memory", "1M")
    run("load", out, "--threads", 4, "--batch", 64, "--shuffle", "global", "--last", "pad")
    run("pack", out, tmp_path / "back", "--format", "tar", "--jobs", 8, "--memory", "1M",
        "--on-error", "skip", "--keys", "number")
    for path in out.glob("*-00000-of-*"):
        if path.is_file():
            with open(path, "r+b") as f:
                f.seek(path.stat().st_size // 2)
                f.write(b"damage")
    run("verify", out, "--jobs", 8, rc=(0, 1, 4))
    run("load", out, "--threads", 4, "--on-error", "skip", rc=(0, 1, 4))


# ---- verify ------------------------------------------------------------------------------------

@pytest.mark.parametrize("fmt", formatlib.IMAGES)
def test_verify_of_many_blocks(tmp_path, fmt):
    """Threads that pass blocks to each other would wait for one that never comes."""
    make_images(tmp_path / "img", classes=3, per_class=100, sizes=(0, 9000))
    out = tmp_path / "out"
    result = run_stoker("pack", tmp_path / "img", out, "--format", fmt, "--quiet", rc=(0, 4))
    if result.rc and "install" in result.err:
        pytest.skip(f"this build does not write {fmt}")
    shard = next(p for p in sorted(out.glob("out-*")) if p.suffix != ".idx") if fmt != "folder" \
        else out / "files/class01/img0050.jpg"
    for jobs in (1, 3, 16):
        run_stoker("verify", out, "--jobs", jobs)
    with open(shard, "r+b") as f:
        f.seek(shard.stat().st_size // 2)
        f.write(b"damage")
    for jobs in (1, 16):
        said = run_stoker("verify", out, "--jobs", jobs, rc=1).out
        assert (shard.name if fmt != "folder" else "out/files") in said


def test_verify_claims_no_checksums_that_are_not_there(tmp_path):
    """"100 % under checksums" of a format that has none: damage would be trusted to be found."""
    make_images(tmp_path / "img", classes=2, per_class=10)
    for fmt, suffix, share in (("tfrecord", "tfrecord", 0.9), ("recordio", "rec", 0)):
        run_stoker("pack", tmp_path / "img", tmp_path / fmt, "--format", fmt)
        (shard,) = (tmp_path / fmt).glob(f"*.{suffix}")
        shutil.copy(shard, tmp_path)
        said = run_stoker("verify", tmp_path / shard.name, "--json", "-", "-q").json()["result"]
        assert (said["checksummed_bytes"] > share * said["bytes"]) == (share > 0)


@needs_strace
@pytest.mark.parametrize("made, locked, args", [
    (["scale", "--n", "1", "--threads", "--runs", "1", "-o", "study", "--", "true"],
     "study/runs.jsonl", ["scale", "--resume", "study", "--runs", "2"]),
    (None, "out.partial", ["pack", "src", "out", "--quiet"])], ids=["scale", "pack"])
def test_the_lock_of_a_process_that_was_just_killed(tmp_path, made, locked, args):
    """A child that it was starting has its files open until it runs its program: the job that resumes at once was
    refused because of a process that is gone."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/1.txt").write_text("1")
    run_stoker("inspect", "src", cwd=tmp_path)
    if made:
        run_stoker(*made, cwd=tmp_path, rc=0)
    run_traced(*args, inject=["flock:error=EAGAIN:when=1..3"], paths=[tmp_path / locked], cwd=tmp_path, rc=0)
