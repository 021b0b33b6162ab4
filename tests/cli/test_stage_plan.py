"""Where `stoker stage` puts a copy, and what --dry-run says about it."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import STOKER, clean_env, run_stoker

UNSET = dict.fromkeys(("STOKER_SCRATCH", "SLURM_TMPDIR", "TMPDIR", "SCRATCH", "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES"), "")
RATES = "source=2G,source-all=10G,write=1G,read=4G,fabric=5G"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for i in range(4):
        (folder / f"{i}.bin").write_bytes(os.urandom(500_000))
    return folder


def plan(data, *args, **env):
    return run_stoker("stage", data, "--dry-run", "--json", "-", *args, env={**UNSET, **env}).json()["result"]


def test_dry_run_copies_nothing(data, tmp_path):
    """A plan that leaves a copy, or a folder, is not a plan."""
    local = tmp_path / "local"
    local.mkdir()
    r = plan(data, "--epochs", "3", STOKER_SCRATCH=local, SLURM_JOB_ID="7")
    assert not list(local.iterdir()) and r["staged"] is False
    assert r["cost"]["bytes"] == 2_000_000 and r["cost"]["files"] == 4
    if r["target"]["name"] == "$STOKER_SCRATCH":  # on a file system that is not local it cannot be
        assert r["target"]["tier"] == f"{local}/stoker-{os.geteuid()}-job-7"
        assert r["cost"]["write_Bps"] > 0


def test_rates_need_no_measuring(data):
    """A user who knows the storage can ask what eight nodes would take."""
    r = plan(data, "--rates", RATES, "--epochs", "2", SLURM_JOB_NUM_NODES="8")["cost"]
    naive, once, shard = r["ways"]
    assert naive["limited_by"] == "target" and naive["most_s"] == pytest.approx(2e6 / 2**30, rel=1e-3)
    assert shard["most_s"] < once["most_s"] and r["nodes"] == 8 and r["epochs"] == 2
    text = run_stoker("stage", data, "--dry-run", "--rates", RATES, env={**UNSET, "SLURM_JOB_NUM_NODES": "8"}).out
    assert "read once, then spread" in text and max(map(len, text.splitlines())) <= 80
    for wrong in ("source", "source=", "source=0", "soucre=2G", "source=2G,,", "=1", "source=2G,write"):
        assert "--rates" in run_stoker("stage", data, "--dry-run", "--rates", wrong, rc=2).err


def test_shared_and_purged_targets_are_told(data, tmp_path):
    """The copy is gone after a month, or was never local."""
    r = run_stoker("stage", data, tmp_path / "mine", env={**UNSET, "STOKER_PURGE_DAYS": f"{tmp_path}=30"})
    assert "older than 30 days (STOKER_PURGE_DAYS)" in r.err


def in_mounts(script, *args, **env):
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"], check=False,
                                                     stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no user namespace: nothing can be mounted here")
    return subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", *map(str, args)], check=False, text=True,
                          capture_output=True, env=clean_env({**UNSET, **env}))


def test_a_copy_that_was_begun_is_resumed_where_it_is(data, tmp_path):
    """The room that the copy takes is no reason to make a second one elsewhere."""
    (tmp_path / "small").mkdir()
    r = in_mounts('mount -t tmpfs -o size=3m none "$2" || exit 9; export STOKER_SCRATCH="$2"; '
                  '"$1" stage -q "$3"; "$1" stage -q "$3"; ls "$2"', STOKER, tmp_path / "small", data,
                  SLURM_JOB_ID="7")
    if r.returncode == 9:
        pytest.skip("tmpfs cannot be mounted here")
    first, second, *tiers = r.stdout.splitlines()
    assert first == second and first.startswith(str(tmp_path / "small")), r.stderr
    assert len(tiers) == 1


def test_no_folder_takes_it(data, tmp_path):
    """The training still gets a path, and the user every reason."""
    os.truncate(data / "0.bin", 8 << 40)
    r = run_stoker("stage", data, env={**UNSET, "STOKER_SCRATCH": tmp_path, "SCRATCH": tmp_path / "none"}, rc=3)
    assert r.out == f"{data}\n"
    assert re.search(r"no folder on this node takes a copy of 8.00 TiB \(\$STOKER_SCRATCH: .*8.00 TiB needed", r.err)
    assert "$SCRATCH" not in r.err.replace("$STOKER_SCRATCH", "")
    assert plan(data, "--rates", RATES, STOKER_SCRATCH=tmp_path)["target"] is None


def test_rates_of_a_profile(data, tmp_path):
    """What the training did with the data says more than a probe."""
    files = [str(data / f"{i}.bin") for i in range(4)]
    run_stoker("profile", "-o", tmp_path / "p", "-q", "--", "cat", *files)
    r = plan(data, "--profile", tmp_path / "p", "--rates", "source=1G,write=1G,read=1G")
    assert "profile" in r["cost"]["rates"] and r["cost"]["training_Bps"] > 0
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").write_bytes(b"x")
    r = run_stoker("stage", other, "--dry-run", "--profile", tmp_path / "p", rc=2)
    assert "no reads of" in r.err
