"""`stoker stage` in jobs of a real Slurm: the batch files of examples/slurm, two nodes with Open MPI
under srun, and what is said where srun cannot connect the ranks. The jobs run at the same time."""

import json
import os
import signal

import pytest

from conftest import ROOT, make_images, until
from mpilib import needs_mpi, same_tree, total

pytestmark = pytest.mark.xdist_group("slurm")

EXAMPLES = ROOT / "examples/slurm"
# To a file each: srun may end before it has passed on all that its tasks said.
DIES = """DATA=$(srun --mpi=pmix --ntasks-per-node=2 sh -c 'exec stoker stage --max-rate 50K --mode replicate \
--status status data 2> said.$SLURM_PROCID'); echo "DATA=$DATA\""""


class Site:
    """Nodes with local folders of their own: a task prolog says where; a batch script has another."""

    def __init__(self, slurm, folder):
        self.slurm, self.folder, self.jobs = slurm, folder, {}
        (folder / "batch").mkdir()
        prolog = folder / "prolog.sh"
        prolog.write_text(f"#!/bin/sh\nmkdir -p {folder}/$SLURMD_NODENAME\n"
                          f"echo export STOKER_SCRATCH={folder}/$SLURMD_NODENAME\n")
        prolog.chmod(0o755)
        self.env = {"SLURM_TASK_PROLOG": str(prolog), "STOKER_SCRATCH": f"{folder}/batch",
                    "ASAN_OPTIONS": slurm.env["ASAN_OPTIONS"] + ":detect_leaks=0"}
        make_images(folder / "data", classes=2, per_class=30)
        (folder / "data/large.bin").write_bytes(os.urandom(9_000_000))
        slurm.stoker("pack", folder / "data", folder / "packed", "--quiet")

    def submit(self, name, *args):
        argv = ["sbatch", "--parsable", "--exclusive=user", "-o", f"{self.folder}/out.%j", *args]
        self.jobs[name] = self.slurm.run(*argv, cwd=self.folder, env=self.env).out.strip()

    def said(self, name):
        text = (self.folder / f"out.{self.jobs[name]}").read_text()
        assert self.slurm.report(self.jobs[name])["state"] == "completed", text
        return text

    def status(self, node):
        try:
            return json.loads((self.folder / f"status/node-{node:04d}.json").read_text())
        except (OSError, ValueError):
            return {}


@pytest.fixture(scope="module")
def site(slurm, tmp_path_factory):
    folder = tmp_path_factory.mktemp("stage")
    site = Site(slurm, folder)
    site.submit("one", EXAMPLES / "stage.sbatch", folder / "data", "bash", "-c",
                'cp -r "$DATA" copied; echo "DATA is $DATA"')
    site.submit("background", EXAMPLES / "stage-background.sbatch", folder / "packed", "--seed", "7")
    site.submit("nodes", EXAMPLES / "stage-nodes.sbatch", folder / "packed", "bash", "-c",
                'stoker verify "$STOKER_SCRATCH"/*/*/data/packed --quiet && echo "$SLURMD_NODENAME is sound"')
    site.submit("none", "-N2", "-n4", "--wrap", f"srun --mpi=none stoker stage {folder}/data {folder}/both")
    site.submit("dies", "-N2", "-n4", "--wrap", DIES)
    until(lambda: all(site.status(n).get("phase") == "copying" for n in range(2)))
    os.kill(site.status(1)["pid"], signal.SIGKILL)
    slurm.wait(*site.jobs.values())
    return site


def test_the_batch_files_of_one_node(site):
    """Users copy these files: they must work as they are."""
    text, folder = site.said("one"), site.folder
    assert f"DATA is {folder}/batch/" in text and same_tree(folder / "data", folder / "copied")
    text = site.said("background")
    assert "samples" in text
    # Copies end with their jobs, unless the training was over before the copy, and says that it stays.
    assert bool(list((folder / "batch").glob("*/*/*/packed"))) == ("stays: it is in use" in text), text
    assert not list((folder / "batch").glob("*/*/*/data"))


def test_the_batch_file_of_two_nodes(site):
    """The same on two nodes: each has a copy, and the source was read once."""
    needs_mpi("openmpi")
    text = site.said("nodes")
    result = json.loads((site.folder / f"stage-{site.jobs['nodes']}.json").read_text())["result"]
    names = [n["node"] for n in result["nodes"]]
    assert len(names) == 2 and result["mpi"] == "openmpi" and result["nodes_good"] == 2
    assert total(result, "bytes_read") == result["bytes"] and all(n["bytes_read"] for n in result["nodes"])
    assert all(f"{name} is sound" in text for name in names)


def test_srun_that_cannot_connect_ranks(site):
    """Open MPI would end the job with a page of text; now each node copies alone, and one task speaks."""
    text = site.said("none")
    assert text.count("each node copies alone") == 1 and "--mpi=pmix" in text
    paths = [line for line in text.splitlines() if line.endswith("/data/data")]
    assert len(paths) == 1 and same_tree(site.folder / "data", paths[0]), text


def test_a_rank_of_a_job_dies(site):
    """Slurm kills the step soon after a task has ended without MPI_Finalize: rank 0 says at once which node is
    lost. Unless it was killed, it has shown how far all are and printed a path; the others wait for that."""
    needs_mpi("openmpi")
    text, lost = (site.folder / "said.0").read_text(), site.status(1)
    assert f"rank {lost['rank']} on node" in text and "is lost: its process has ended" in text, text
    assert text.count(f"stoker: stage: rank {lost['rank']} on node") == 1 and lost["phase"] == "copying", text
    assert "\n  how " not in text or text.index("is lost: its") < text.index("\n  how "), text
    table = any(line.split()[:1] == [lost["node"]] and line.endswith(" lost") for line in text.splitlines())
    path = f"DATA={site.folder}/data\n" in (site.folder / f"out.{site.jobs['dies']}").read_text()
    assert table and path or "the same command resumes" not in text, text
