"""`stoker bench` on two nodes of a real Slurm: the ten workloads of the study, two ranks per node, each
a step of one job; and a collective read through MPI-IO."""

import json

import pytest

from benchlib import STUDY, VIRTUAL, check_study
from mpilib import needs_mpi

pytestmark = pytest.mark.xdist_group("slurm")

TOGETHER = """name: together
dataset: {format: tfrecord, files: 2, samples_per_file: 40, record: 9000}
access: {sharing: collective, readers: 2}
training: {batch: 5, compute: 2ms}
"""
STEP = """srun --mpi=pmix -N2 --ntasks-per-node=2 sh -c 'STOKER_NODE=$SLURMD_NODENAME exec stoker bench {what} \
--data {folder}/{name} --json {folder}/{name}.json {more}' || exit 1
"""


@pytest.fixture(scope="module")
def site(slurm, tmp_path_factory):
    """One job runs all of them, one after the other; its folder."""
    needs_mpi("openmpi")
    folder = tmp_path_factory.mktemp("bench")
    (folder / "together.yaml").write_text(TOGETHER)
    script = "#!/bin/sh\n"
    for name in [*STUDY, "together"]:
        what = f"{name} --small" if name in STUDY else f"{folder}/together.yaml"
        slurm.stoker("bench", *what.split(), "--data", folder / name, "--ranks", 4, "--generate-only")
        script += STEP.format(what=what, folder=folder, name=name, more=" ".join(VIRTUAL))
    (folder / "job.sh").write_text(script)
    env = {"ASAN_OPTIONS": slurm.env["ASAN_OPTIONS"] + ":detect_leaks=0"}
    job = slurm.run("sbatch", "--parsable", "--exclusive=user", "-N2", "--ntasks-per-node=2", "-o", folder / "out", folder / "job.sh",
                    cwd=folder, env=env).out.strip()
    slurm.wait(job)
    assert slurm.report(job)["state"] == "completed", (folder / "out").read_text()
    return folder


@pytest.mark.parametrize("name", STUDY)
def test_two_nodes(site, name):
    """The same figures on a cluster; both nodes take part, and rank 0 alone speaks."""
    result = check_study(name, site / f"{name}.json", 4, "openmpi")
    nodes = [rank["node"] for rank in result["per_rank"]]
    assert nodes[0] == nodes[1] != nodes[2] == nodes[3]
    assert (site / "out").read_text().count("as MLPerf Storage") == len(STUDY) + 1


def test_readers_on_two_nodes(site):
    """One reader per node, through MPI-IO."""
    result = json.loads((site / "together.json").read_text())["result"]
    assert result["collective_reads"] == "MPI-IO"
    assert [r["io"]["samples"] for r in result["per_rank"]] == [40, 0, 40, 0]
