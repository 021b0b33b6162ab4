"""stoker inside jobs of a real Slurm: the loader in four tasks, a profile of an MPI program on two
nodes, a job that is cancelled in the middle, and the batch files of examples/."""

import json
import shutil
import subprocess

import pytest

from conftest import ROOT, make_images, until
from profilelib import Profile, compiled

pytestmark = pytest.mark.xdist_group("slurm")

EXAMPLES = ROOT / "examples"


def lines(path):
    return [line.split() for line in path.read_text().splitlines()]


def test_the_loader_in_four_tasks(slurm, shared):
    """Two tasks would train on the same samples, or some on none."""
    make_images(shared / "images", classes=4, per_class=16)
    slurm.stoker("pack", shared / "images", shared / "packed", "--quiet")
    job = slurm.submit(shared, "-N2", "-n4", "--mem-per-cpu=500", wrap="""\
srun bash -c 'stoker load packed --quiet --batch 4 --last short --ids ids.$SLURM_PROCID --json $SLURM_PROCID.json'""")
    slurm.wait(job)
    assert slurm.report(job)["state"] == "completed"
    parts = [{line[2] for line in lines(shared / f"ids.{rank}") if not line[0].startswith("#")}
             for rank in range(4)]
    assert [len(p) for p in parts] == [16] * 4
    assert set.union(*parts) == {str(i) for i in range(64)}
    ranks = [json.loads((shared / f"{r}.json").read_text())["result"] for r in range(4)]
    assert [(r["rank"], r["world"]) for r in ranks] == [(r, 4) for r in range(4)]


def mpi_data(folder, ranks):
    for r in range(ranks):
        (folder / f"part.{r}").write_bytes(bytes(100000))
    (folder / "shared.bin").write_bytes(bytes(ranks * 10 * 8192))


def needs_mpi():
    if not shutil.which("mpicc.openmpi"):
        pytest.skip("openmpi is not installed")


def test_a_profile_of_an_mpi_program_on_two_nodes(slurm, shared):
    """Ranks of another node would be missing from the profile, or take its place."""
    needs_mpi()
    program = compiled("ranks.c", compiler="mpicc.openmpi")
    data = shared / "data"
    data.mkdir()
    mpi_data(data, 4)
    job = slurm.submit(shared, EXAMPLES / "slurm/profile.sbatch", program, data)
    slurm.wait(job)
    said = (shared / f"out.{job}.4294967294").read_text()
    assert slurm.report(job)["state"] == "completed", said
    done = subprocess.CompletedProcess([], 0, b"", b"")
    p = Profile(shared / f"{job}.profile", done)
    assert p.report["profile"]["ranks"] == 4
    hosts = set()
    for r in range(4):
        assert p.count(data / f"part.{r}", "read_bytes") == 100000
        process = p.processes[p.of(data / f"part.{r}")[0]["process"]]
        assert (process["rank"], process["world"]) == (r, 4)
        hosts.add(process["host"])
    assert len(hosts) == 2
    assert "4 ranks" in said or "ranks" in said  # the job printed its own report


def test_a_profile_of_a_job_that_is_cancelled(slurm, shared):
    """What a job did until scancel would be lost."""
    (shared / "data.bin").write_bytes(bytes(1000000))
    (shared / "prog.py").write_text("""
import os, time
for i in range(10):
    with open("data.bin", "rb", buffering=0) as f:
        f.read(100000)
open("ready" + os.environ["SLURM_PROCID"], "w").close()
time.sleep(10000)
""")
    job = slurm.submit(shared, "-N2", "-n2", wrap="srun stoker profile -o p -- /usr/bin/python3 prog.py")
    until(lambda: len(list(shared.glob("ready*"))) == 2)
    slurm.run("scancel", job)
    slurm.wait(job)
    assert slurm.report(job)["state"] == "cancelled"
    p = Profile(shared / "p", subprocess.CompletedProcess([], 0, b"", b""))
    assert p.count(shared / "data.bin", "read_bytes") == 2000000


def test_a_pack_that_is_cancelled_goes_on(slurm, shared):
    """scancel in the middle would leave half a dataset that looks whole."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    make_images(shared / "images", classes=5, per_class=60)
    # After three shards it stops on its way to the disk: that is the middle.
    slow = ("ASAN_OPTIONS=detect_leaks=0 strace -f -qq -o trace -e trace=fsync,fdatasync "
            "-e inject=fsync,fdatasync:delay_enter=1000000000:when=8+ stoker pack images packed "
            "--shards 30 --jobs 1 --quiet")
    job = slurm.submit(shared, "-n1", wrap=slow)
    until(lambda: len(list(shared.glob("packed*/*-of-*"))) >= 3)
    slurm.run("scancel", job)
    slurm.wait(job)
    assert slurm.report(job)["state"] == "cancelled"
    assert not (shared / "packed/manifest.json").exists()
    again = slurm.submit(shared, "-n1", EXAMPLES / "pack.sbatch", "images", "packed", "--shards", "30",
                         "--jobs", "1")
    slurm.wait(again)
    said = (shared / f"out.{again}.4294967294").read_text()
    assert slurm.report(again)["state"] == "completed", said
    assert "whole" in said


@pytest.mark.parametrize("name, args, says", [
    ("load.sbatch", ["packed", "--batch", "4"], None),
    ("report.sbatch", ["perl", "-e", "$t = time; 1 while time < $t + 2"], "CPUs busy"),
])
def test_examples(slurm, shared, name, args, says):
    """A batch file that users copy would not run."""
    if name == "load.sbatch":
        make_images(shared / "images", classes=2, per_class=8)
        slurm.stoker("pack", shared / "images", shared / "packed", "--quiet")
    job = slurm.submit(shared, EXAMPLES / "slurm" / name, *args)
    slurm.wait(job)
    said = (shared / f"out.{job}.4294967294").read_text()
    assert slurm.report(job)["state"] == "completed", said
    if name == "load.sbatch":
        parts = [json.loads(p.read_text())["result"] for p in shared.glob(f"load-{job}-*.json")]
        assert sorted(p["rank"] for p in parts) == [0, 1, 2, 3]
    else:
        assert f"job {job}" in said and says in said


def test_examples_say_how_they_are_used(slurm, shared):
    """A missing argument would fail deep inside the job."""
    for name in ("load.sbatch", "profile.sbatch"):
        done = subprocess.run([EXAMPLES / "slurm" / name], capture_output=True, text=True)
        assert done.returncode == 2 and "usage: sbatch" in done.stderr
