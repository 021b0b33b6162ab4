"""Folders that cannot be listed to their end: EIO, ESTALE and ENOMEM are everyday on shared file
systems, and readdir() then returns what it returns after the last name. A user would lose the rest
of the dataset, in this run and in all that use its index."""

import pathlib

import pytest

from conftest import run_stoker
from faultlib import kill_at, needs_strace, run_traced, tree

pytestmark = needs_strace
CLASSES = 3


@pytest.fixture
def site(tmp_path):
    """A folder of files in classes, and what is made of it."""
    for c in range(CLASSES):
        (tmp_path / f"src/c{c}").mkdir(parents=True)
        for i in range(4):
            (tmp_path / f"src/c{c}/{i}.txt").write_text(f"{c}{i}")
    return tmp_path


def fail(site, folder, *args, error="EIO", when="1+"):
    """3: stage has made no copy, and prints the path of the source."""
    done = run_traced(*args, inject=[f"getdents64:error={error}:when={when}"], paths=[site / folder], cwd=site,
                      threads=True, env={"XDG_CACHE_HOME": str(site / "cache")})
    assert done.rc in (1, 3, 4), repr(done)
    assert folder in done.err + done.out and "read the folder: " in done.err + done.out, repr(done)
    return done


@pytest.mark.parametrize("args", [
    ["pack", "src", "out"], ["pack", "src", "old", "--force"], ["load", "src"], ["inspect", "src"],
    ["verify", "src"], ["stage", "src", "tier"], ["stage", "src", "tier", "--pack", "tar"]],
    ids=" ".join)
def test_short_listing_is_an_error(site, args):
    """Nothing is made of a part of the folder, and nothing of it stays for the next run."""
    if "old" in args:
        run_stoker("pack", "src", "old", "--quiet", cwd=site, rc=0)
        for index in site.glob("*.stkidx"):
            index.unlink()
    before = tree(site / "old") if "old" in args else None
    # readdir() of glibc takes ENOENT for the end.
    for error, when in (("EIO", "2+"), ("ESTALE", "1+"), ("ENOENT", "1+")):
        fail(site, "src/c1", *args, error=error, when=when)
        assert not list(site.glob("*.stkidx")) and not (site / "cache").exists(), "a short index"
    assert not (site / "out").exists()
    assert before is None or tree(site / "old") == before
    assert f"{CLASSES * 4} samples" in run_stoker("load", "src", cwd=site, rc=0).out


def test_results_of_a_run(site):
    """A profile, a study and a tier are read whole or not at all."""
    run_stoker("profile", "-o", "prof", "--", "true", cwd=site, rc=0)
    for command in ("report", "advise"):
        fail(site, "prof", command, "prof")
    run_stoker("stage", "src", "tier", cwd=site, rc=0)
    fail(site, "tier", "stage", "--list", "tier")


# ---- files that need not be there ----------------------------------------------------------------

OPENS = ("openat", "openat2", "newfstatat", "statx", "faccessat2", "access")


def refuse(site, name, *args, error="EACCES", calls=OPENS, rc=(1, 4)):
    """A run in which the file is there and nothing can look at it, by any name of it."""
    args = [site / a if (site / a).exists() else a for a in args]
    done = run_traced(*args, inject=[f"{c}:error={error}:when=1+" for c in calls],
                      paths=[site / name, pathlib.Path(name).name], cwd=site, threads=True,
                      env={"XDG_CACHE_HOME": str(site / "cache")})
    assert done.rc in rc, repr(done)
    assert pathlib.Path(name).name in (done.err, done.err + done.out)[0 in rc], repr(done)
    return done


@pytest.mark.parametrize("error, args", [
    ("EACCES", ["verify", "old"]), ("ENOMEM", ["load", "old"]), ("EIO", ["inspect", "old"]),
    ("ESTALE", ["stage", "old", "tier"]), ("EMFILE", ["pack", "old", "out"]),
    ("EACCES", ["pack", "src", "old", "--force"])])
def test_unreadable_manifest_is_not_absent(site, error, args):
    """Without its manifest a packed dataset that lost a shard is whole, with another identity."""
    run_stoker("pack", "src", "old", "--shards", "3", "--quiet", cwd=site, rc=0)
    before = tree(site / "old")
    refuse(site, "old/manifest.json", *args, error=error, rc=(3,) if args[0] == "stage" else (1, 4))
    assert tree(site / "old") == before and not (site / "out").exists()


def unfinished(site):
    """A pack that was killed behind its first shard."""
    args = ["pack", "src", "out", "--shards", "3", "--jobs", "1", "--quiet"]
    assert kill_at(("renameat", 4), *args, cwd=site)


def staged(site):
    run_stoker("stage", "src", "tier", cwd=site, rc=0)


def studied(site):
    run_stoker("scale", "--n", "1", "--threads", "--runs", "1", "-o", "study", "--", "true", cwd=site, rc=0)


def recorded(site):
    run_stoker("profile", "-o", "prof", "--", "true", cwd=site, rc=0)


# (what makes it, the file that may be missing, what reads it)
OPTIONAL = [
    (unfinished, "out.partial/pack.plan", ["pack", "src", "out", "--shards", "3", "--resume"]),
    (unfinished, "out.partial/pack.plan", ["pack", "src", "out", "--shards", "3"]),
    (unfinished, "out.partial", ["pack", "src", "out", "--shards", "3", "--resume"]),
    (staged, "tier/tier.json", ["stage", "--list", "tier"]),
    (staged, "tier/*/list", ["stage", "--list", "tier"]),
    (staged, "tier/*/ledger", ["stage", "--list", "tier"]),
    (staged, "tier/*/list", ["stage", "--evict", "src", "tier"]),
    (staged, "tier/*/ledger", ["stage", "other", "tier", "--limit", "1M"]),
    (studied, "study/plan.json", ["scale", "--resume", "study"]),
    (studied, "study/runs.jsonl", ["scale", "--resume", "study"]),
    (studied, "study/study.json", ["report", "study", "-o", "page.html"]),
    (studied, "study/study.json", ["scale", "--from", "study"]),
    (recorded, "prof/run.*.json", ["report", "prof", "--notes"]),  # the report has what it could read
    (recorded, "prof/*.stklog", ["report", "prof", "--notes"]),
]


@pytest.mark.parametrize("error", ["EACCES", "EIO", "ENOMEM", "ESTALE", "ELOOP"])
@pytest.mark.parametrize("made, name, args", OPTIONAL, ids=lambda v: " ".join(v) if isinstance(v, list) else None)
def test_what_cannot_be_read_is_not_absent(site, made, name, args, error):
    """Nothing is made, removed or reported as if the file were not there."""
    (site / "other").mkdir()
    (site / "other/1.txt").write_text("1")
    made(site)
    found = next(site.glob(name)).relative_to(site)
    before = tree(site)
    done = refuse(site, found, *args, error=error, rc=(0, 4) if "prof" in args else (1, 2, 3, 4))
    after = tree(site)
    for files in before, after:  # pack lists src again, and an index has its own inode
        files.pop("src.stkidx", None)
    assert {n: after.get(n) for n in before} == before, repr(done)
    assert not (site / "out").exists()


def test_an_index_that_cannot_be_read_is_said(site):
    """Listing all of the data again may take an hour; the user should know why."""
    run_stoker("load", "src", cwd=site, rc=0)
    done = refuse(site, "src.stkidx", "inspect", "src", error="EIO", calls=["openat"], rc=(0,))
    assert "existing index not used: open: Input/output error" in done.out, repr(done)


def test_unreadable_notes_of_runs_are_not_absent(site):
    """A resumed run would begin again; a report would lack the readings of a node."""
    run_stoker("load", "src", "--batch", "2", "--state", "state", cwd=site, rc=0)
    refuse(site, "state", "load", "src", "--batch", "2", "--state", "state")
    run_stoker("profile", "--sample", "0.1", "-o", "prof", "--", "sleep", "0.3", cwd=site, rc=0)
    readings = next((site / "prof").glob("samples.*.csv"))
    refuse(site, f"prof/{readings.name}", "report", "prof", error="EIO")


def test_replacing_more_by_less_is_said(site):
    """The files that are gone may have been on a disk that is not mounted today."""
    run_stoker("pack", "src", "old", "--quiet", cwd=site, rc=0)
    for name in ("0.txt", "1.txt"):
        (site / "src/c1" / name).unlink()
    done = run_stoker("pack", "src", "old", "--force", "--quiet", cwd=site, rc=0)
    assert "replaced a dataset of 12 samples: 2 more than now" in done.err
    done = run_stoker("pack", "src", "old", "--force", "--json", "r.json", cwd=site, rc=0)
    assert "a dataset of 10 samples" in done.out
