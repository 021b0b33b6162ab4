"""stoker stage --compare --executor slurm on a real Slurm: each job at once on a node of its own."""

import json
import os
import signal
import subprocess

import pytest

from clusterlib import CLUSTER
from conftest import STOKER, make_images, until

pytestmark = pytest.mark.xdist_group("slurm")


@pytest.fixture
def place(shared):
    storage, dst = shared / "storage", shared / "node"
    storage.mkdir()
    dst.mkdir()
    make_images(storage / "src")
    return storage / "src", dst


def left(src, dst):
    return sorted(os.listdir(src.parent)) + os.listdir(dst)


def test_jobs_at_once_are_jobs(slurm, place, shared):
    """The bend of the storage would be that of one node."""
    src, dst = place
    out = shared / "out.json"
    slurm.stoker("stage", "--compare", src, dst, "--executor", "slurm", "--runs", "1", "--jobs-at-once",
                 "1,2", "--forms", "records", "--json", out, cwd=shared)
    result = json.loads(out.read_text())["result"]
    assert result["complete"] and result["via"] == "slurm"
    assert [(p["jobs"], p["measured"]) for p in result["forms"][0]["points"]] == [(1, 1), (2, 2)]
    assert left(src, dst) == ["src"]


def test_an_interrupt_cancels_the_jobs(slurm, place, shared):
    """Jobs of a comparison that is gone would wait for hours, and then fail."""
    src, dst = place
    process = subprocess.Popen([CLUSTER, "exec", STOKER, "stage", "--compare", src, dst, "--executor", "slurm",
                                "--sbatch", "--hold", "--runs", "1", "--jobs-at-once", "1,2", "--forms",
                                "files"], env=slurm.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               cwd=shared, text=True)

    def queue():
        return [name for name in slurm.run("squeue", "-h", "-o", "%j").out.split() if "files-n" in name]

    def waits_for_the_first():  # the next one would read from the storage that is being measured
        (study,) = src.parent.glob("*/study/status.json")
        return json.loads(study.read_text())["now"]["pending"]

    until(queue)
    until(waits_for_the_first)
    assert len(queue()) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert "stopped by an interrupt" in err, err
    until(lambda: not queue())
    assert left(src, dst) == ["src"]
