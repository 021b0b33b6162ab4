"""A tier that is filled, killed, changed, cut, full, stolen or removed: the samples are those of the
source, whatever happens to the copies, and the next run completes them."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess

import pytest

from conftest import PATIENCE_S, STOKER, check_sane, clean_env, run_stoker, until, Result
from faultlib import needs_root

SHARDS, SAMPLES = 3, 60


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A packed dataset of three shards, the content hash of an epoch, and its bytes."""
    folder = tmp_path_factory.mktemp("tier-source")
    rng = random.Random(5)
    (folder / "in").mkdir()
    for i in range(SAMPLES):
        (folder / f"in/{i:03}.bin").write_bytes(rng.randbytes(300_000))
    run_stoker("pack", folder / "in", folder / "set", "--shards", SHARDS)
    shutil.rmtree(folder / "in")
    return folder / "set"


@pytest.fixture(scope="module")
def content(source):
    return load(source, "off")["content_hash"]


def load(source, tier, *more, rc=0, env=None):
    done = run_stoker("load", source, "-b", 5, "--consume", "hash", "--json", "-", "--tier", tier, *more, rc=rc,
                      env=env)
    return json.loads(done.out)["result"] if rc == 0 else done


def fill(source, tier, *more):
    return load(source, tier, "--fill-tier", *more)


def set_of(tier):
    return next(p for p in tier.iterdir() if p.is_dir())


def copies(tier):
    """Those in sets that have their name: others are being made."""
    return sorted(p for p in tier.glob("????????????????-????????/*/*/*.tfrecord") if p.is_file())


def total(source):
    return sum(p.stat().st_size for p in source.glob("*.tfrecord"))


@contextlib.contextmanager
def running(*args):
    proc = subprocess.Popen([STOKER, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=clean_env())
    try:
        yield proc
    finally:
        proc.kill()
        proc.communicate(timeout=PATIENCE_S)


def endless(source, tier, *more):
    return running("load", source, "-b", 5, "--epochs", 1_000_000, "--consume", "none", "--quiet", "--tier", tier, *more)


def is_locked(tier):
    """Whether a process has the set open, by what eviction asks: the lock of its byte."""
    done = subprocess.run(["cat", "/proc/locks"], capture_output=True, text=True)
    inode = (set_of(tier) / "ledger").stat().st_ino
    return any(f":{inode} " in line for line in done.stdout.splitlines())


def test_filled_on_read_then_read_from_it(tmp_path, source, content):
    """The first epoch pays for the second; a run that does not ask for it writes nothing."""
    tier = tmp_path / "t"
    first = load(source, tier)
    assert first["source_bytes"] and not tier.exists() and first["tier"] is None
    first = fill(source, tier)
    assert first["content_hash"] == content and first["tier_filled_bytes"] == total(source)
    assert (set_of(tier) / "data/set").is_dir() and oct(tier.stat().st_mode & 0o777) == "0o700"
    for engine in ("auto", "direct"):
        second = load(source, tier, "--io", engine)
        assert second["content_hash"] == content and second["source_bytes"] == 0
        assert second["read_bytes"] >= second["tier_disk_bytes"] + second["tier_memory_bytes"] >= total(source) - 1000
    assert load(source, "off")["source_bytes"] >= total(source)
    assert load(source, "auto", env={"STOKER_TIER": tier})["source_bytes"] == 0
    screen = run_stoker("load", source, "-b", 5, "--tier", tier).out
    assert str(tier) in screen and "from the source" not in screen


def test_default_is_private_to_the_job(tmp_path, source, content):
    """Two jobs of a user on one node do not meet, and each finds its own without being told."""
    job = {"STOKER_SCRATCH": tmp_path, "SLURM_JOB_ID": "7"}
    first = load(source, "auto", "--fill-tier", env=job)
    tier = tmp_path / f"stoker-{os.geteuid()}-job-7"
    assert first["content_hash"] == content and str(tier) in first["tier"]
    assert load(source, "auto", env=job)["source_bytes"] == 0
    assert load(source, "auto", env={**job, "SLURM_JOB_ID": "8"})["tier"] is None


def test_part_of_an_epoch_fills_a_part(tmp_path, source, content):
    """What is there is used; the rest comes from the source."""
    tier = tmp_path / "t"
    part = fill(source, tier, "--shuffle", "none", "--steps", 1, "--memory", "4M")
    assert 0 < part["tier_filled_bytes"] < total(source)
    assert not (set_of(tier) / "data").exists()
    mixed = load(source, tier)
    assert mixed["content_hash"] == content and mixed["source_bytes"]
    assert mixed["tier_disk_bytes"] + mixed["tier_memory_bytes"] > 0
    rest = fill(source, tier)
    assert rest["content_hash"] == content
    assert rest["tier_filled_bytes"] + part["tier_filled_bytes"] == total(source)


def test_resume_is_good_for_source_and_copy(tmp_path, source):
    """A job that is requeued to another node finds no copy there; its state must fit the source."""
    tier, state = tmp_path / "t", tmp_path / "state"
    def ids(name, *more):
        run_stoker("load", source, "-b", 5, "--ids", tmp_path / name, "--quiet", *more)
        return [line.split()[2] for line in (tmp_path / name).read_text().splitlines()]
    fill(source, tier)
    whole = ids("whole", "--tier", "off")
    parts = ids("a", "--tier", tier, "--steps", 4, "--state", state)
    parts += ids("b", "--tier", "off", "--steps", 4, "--state", state)
    parts += ids("c", "--tier", tier, "--state", state)
    assert parts == whole


def test_killed_while_filling(tmp_path, source, content):
    """kill -9: no lock stays, no torn shard is read, the next run completes."""
    tier = tmp_path / "t"
    with running("load", source, "-b", 1, "--epochs", 1000, "--quiet", "--tier", tier, "--fill-tier", "--memory", "4M",
                 "--consume", "hash") as proc:
        until(lambda: tier.exists() and copies(tier))
        proc.send_signal(signal.SIGKILL)
    assert not is_locked(tier)
    assert load(source, tier)["content_hash"] == content
    assert fill(source, tier)["content_hash"] == content
    assert load(source, tier)["source_bytes"] == 0


def test_killed_while_reading(tmp_path, source):
    """The copy of a killed reader can be evicted; that of a living one cannot."""
    tier = tmp_path / "t"
    fill(source, tier)
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.tfrecord").write_bytes(next(source.glob("*.tfrecord")).read_bytes())
    limit = ("--tier-limit", total(source) + 1000)
    with endless(source, tier) as proc:
        until(lambda: is_locked(tier))
        full = fill(other, tier, *limit)
        assert "limit" in full["tier_ended"] and full["tier_filled_bytes"] == 0
        assert load(source, tier)["source_bytes"] == 0
        proc.send_signal(signal.SIGKILL)
    assert fill(other, tier, *limit)["tier_ended"] is None
    assert load(other, tier)["source_bytes"] == 0
    assert load(source, tier)["source_bytes"] > 0


def flip(path, keep):
    old = path.stat()
    with open(path, "r+b") as f:
        f.seek(1_000_000)
        byte = f.read(1)
        f.seek(1_000_000)
        f.write(bytes([byte[0] ^ 4]))
    if keep:
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


def cut(path, keep):
    os.truncate(path, path.stat().st_size - 100)


def swapped(path, keep):
    new = path.with_suffix(".new")
    new.write_bytes(bytes(path.stat().st_size))
    old = path.stat()
    os.utime(new, ns=(old.st_atime_ns, old.st_mtime_ns))
    new.rename(path)


def linked(path, keep):
    away = path.parent.parent.parent.parent.parent / "elsewhere"
    away.write_bytes(bytes(path.stat().st_size))
    path.unlink()
    path.symlink_to(away)


@pytest.mark.parametrize("harm, keep", [(flip, False), (flip, True), (cut, False), (swapped, True), (linked, False)],
                         ids=["flip", "flip-kept", "cut", "swapped", "linked"])
def test_changed_copy_is_never_served(tmp_path, source, content, harm, keep):
    """Another program touched it: its bytes may be anything. --no-check, so that no checksum helps."""
    tier = tmp_path / "t"
    fill(source, tier)
    harm(copies(tier)[1], keep)
    got = load(source, tier, "--no-check", "--io", "threads" if keep else "auto")
    assert got["content_hash"] == content and 0 < got["source_bytes"] < 2 * total(source) // SHARDS
    assert fill(source, tier, "--no-check")["content_hash"] == content  # mended
    assert load(source, tier, "--no-check")["source_bytes"] == 0


def test_garbage(tmp_path, source, content):
    """Files of the tier that a crash or another program wrote: no copy, and filled again."""
    tier = tmp_path / "t"
    fill(source, tier)
    for name, what in (("list", b""), ("ledger", bytes(5000)), ("list", b"\xff" * 9999), ("lease", b"{"),
                       ("../tier.json", b"[")):
        (set_of(tier) / name).resolve().write_bytes(what)
        got = load(source, tier)
        assert got["content_hash"] == content and (got["source_bytes"] > 0) == (name != "lease"), name
        if name != "../tier.json":
            assert fill(source, tier)["content_hash"] == content


def test_stale_lease(tmp_path, source, content):
    """The lease of a process that is gone, or of a machine that was restarted, keeps nobody out."""
    tier = tmp_path / "t"
    fill(source, tier, "--shuffle", "none", "--steps", 1, "--memory", "4M")
    lease = set_of(tier) / "lease"
    lease.write_text(json.dumps({"job": "1", "pid": 1, "boot_id": "another", "host": "n1", "since_s": 1}))
    assert fill(source, tier)["content_hash"] == content
    assert json.loads(lease.read_text())["pid"] != 1


def test_two_fill_at_once(tmp_path, source, content):
    """Two jobs of a node: each byte leaves the source once."""
    tier = tmp_path / "t"
    args = [STOKER, "load", source, "-b", "5", "--consume", "hash", "--json", "-", "--tier", tier, "--fill-tier"]
    procs = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env()) for _ in range(2)]
    results = []
    for proc in procs:
        out, err = proc.communicate(timeout=PATIENCE_S)
        check_sane(Result(args, proc.returncode, out, err))
        results.append(json.loads(out)["result"])
    assert [r["content_hash"] for r in results] == [content] * 2
    assert sum(r["tier_filled_bytes"] for r in results) == total(source)
    assert load(source, tier)["source_bytes"] == 0


def test_limit(tmp_path, source, content):
    """A tier that is full keeps what it has, and training goes on from the source."""
    tier = tmp_path / "t"
    got = fill(source, tier, "--tier-limit", "8M")
    assert got["content_hash"] == content and "limit is 8.00 MiB" in got["tier_ended"]
    assert 0 < got["tier_filled_bytes"] <= 8 << 20
    again = load(source, tier)
    assert again["content_hash"] == content and again["source_bytes"] < 2 * total(source)
    used = sum(p.stat().st_blocks * 512 for p in copies(tier))
    assert used <= 9 << 20


@needs_root
def test_full_disk(tmp_path, source, content):
    """ENOSPC in the tier is not the training's problem."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=9m,mode=0700", "none", small], capture_output=True).returncode:
        pytest.skip("cannot mount a tmpfs here")
    try:
        got = fill(source, small / "t")
        assert got["content_hash"] == content and "No space left" in got["tier_ended"]
        assert load(source, small / "t")["content_hash"] == content
    finally:
        subprocess.run(["umount", "-l", small], check=True)


@needs_root
def test_folder_of_another_user(tmp_path, source, content):
    """A folder that another user prepared could hold any bytes: ignored, and said."""
    tier = tmp_path / "t"
    fill(source, tier)
    os.chown(tier, 65534, 65534)
    done = run_stoker("load", source, "-b", 5, "--consume", "hash", "--tier", tier)
    assert "belongs to" in done.out + done.err and "not used" in done.out + done.err
    assert content in done.out
    assert load(source, tier, "--fill-tier", rc=4).rc == 4


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_folder_that_others_may_enter(tmp_path, source, content, mode):
    """Copies would be readable, or writable, by others."""
    tier = tmp_path / "t"
    tier.mkdir()
    tier.chmod(mode)
    assert load(source, tier, "--fill-tier")["content_hash"] == content
    ours = tier / f"stoker-{os.geteuid()}"  # a folder with other uses gets a private one in it
    assert list(tier.iterdir()) == [ours] and ours.stat().st_mode & 0o777 == 0o700
    ours.chmod(mode)
    assert load(source, tier)["content_hash"] == content
    assert "chmod" in load(source, tier, "--fill-tier", rc=4).err
    shutil.rmtree(tier)
    (tmp_path / "real").mkdir(mode=0o700)
    tier.symlink_to(tmp_path / "real")
    assert load(source, tier)["content_hash"] == content
    load(source, tier, "--fill-tier", rc=4)
    assert not list((tmp_path / "real").iterdir())


def test_verify_and_inspect_read_the_source(tmp_path, source):
    """A damaged source that has a good copy is still damaged."""
    broken, tier = tmp_path / "set", tmp_path / "t"
    shutil.copytree(source, broken)
    fill(broken, tier)
    shard = next(broken.glob("*00001*"))
    data = bytearray(shard.read_bytes())
    data[1_000_000] ^= 1
    shard.write_bytes(data)
    env = {"STOKER_TIER": tier}
    run_stoker("verify", broken, env=env, rc=1)
    assert load(broken, tier)["source_bytes"] == 0  # the loader trusts what the identity says
