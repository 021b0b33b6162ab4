"""Folders that cannot be listed to their end: EIO, ESTALE and ENOMEM are everyday on shared file
systems, and readdir() then returns what it returns after the last name. A user would lose the rest
of the dataset, in this run and in all that use its index."""

import pytest

from conftest import run_stoker
from faultlib import needs_strace, run_traced, tree

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
    for error, when in (("EIO", "2+"), ("ESTALE", "1+")):
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
