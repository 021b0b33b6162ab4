"""stoker tune --executor slurm on a real Slurm: candidates are jobs, and so is what --ask prints."""

import os
import signal
import subprocess

import pytest

from clusterlib import CLUSTER
from conftest import STOKER, until

pytestmark = pytest.mark.xdist_group("slurm")

SMALL = """name: small
dataset: {format: tfrecord, files: 2, samples_per_file: 64, record: 16K}
access: {transfer: 4K}
reader: {threads: 1, prefetch: 2}
training: {batch: 8, compute: 2ms}
"""


@pytest.fixture
def tuned(slurm, shared):
    """tuned(*options): the result of a call on modelled storage, whose runs are jobs."""
    (shared / "job.yaml").write_text(SMALL)
    slurm.stoker("bench", shared / "job.yaml", "--data", shared / "data", "--generate-only")

    def call(*options):
        run = slurm.stoker("tune", shared / "job.yaml", "--data", shared / "data", "--near", shared / "data",
                           "--virtual-storage", "100M,1ms", "--only", "request", "--executor", "slurm",
                           "--sbatch", "--job-name=tuning", "--budget", "1h", "--json", "-", *options)
        return run.json()["result"]
    return call


def test_candidates_as_jobs(slurm, shared, tuned):
    """Who may not compute on the login node could not tune at all."""
    result = tuned("--ask")
    best = next(c for c in result["candidates"] if c["id"] == result["best"])
    assert best["id"].startswith("request") and best["times"] > 3 and best["confirmed"] and result["via"] == "slurm"
    assert os.listdir(shared / "data") and sorted(os.listdir(shared)) == ["data", "job.yaml"]
    # As many of the job as it is; the accounting learns of them later.
    until(lambda: slurm.run("sacct", "-n", "-X", "-P", "-o", "JobName").out.split().count("tuning") >= 2 * best["runs"])
    # The lines are a batch file: its comments are none of the options.
    lines = [line for line in result["ask"].splitlines() if "gpus" not in line]  # the nodes have none
    (shared / "ask.sh").write_text("\n".join(["#!/bin/sh", *lines, "echo $SLURM_NTASKS,$SLURM_CPUS_PER_TASK"]) + "\n")
    job = slurm.submit(shared, shared / "ask.sh")
    slurm.wait(job)
    assert [p.read_text() for p in shared.glob(f"out.{job}.*")] == ["1,2\n"]


def queued(slurm):
    return [job for job in slurm.run("squeue", "-h", "-t", "pending", "-o", "%i %j").out.splitlines() if "tuning" in job]


def test_jobs_that_never_start(slurm, shared, tuned):
    """A full partition is no reason to say that there is nothing to gain."""
    result = tuned("--sbatch", "--begin=now+1hour", "--budget", "1s")
    found = [c for c in result["candidates"] if c["id"].startswith("request") and c["verdict"] != "skipped"]
    assert found and {c["verdict"] for c in found} == {"unclear"} and "still pending" in found[0]["why"]
    assert not queued(slurm) and sorted(os.listdir(shared)) == ["data", "job.yaml"]


def test_clean_cancels_the_jobs(slurm, shared, tuned):
    """Jobs of a call that was killed would run for nothing, in a folder that is not there."""
    call = [CLUSTER, "exec", STOKER, "tune", shared / "job.yaml", "--data", shared / "data", "--near", shared / "data",
            "--virtual-storage", "100M,1ms", "--only", "request", "--executor", "slurm", "--sbatch", "--job-name=tuning",
            "--sbatch", "--begin=now+1hour"]
    with subprocess.Popen(call, env=slurm.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: queued(slurm))
        process.send_signal(signal.SIGTERM)
    assert queued(slurm)  # --resume would find them
    (folder,) = shared.glob("stoker-tune.*")
    slurm.stoker("tune", "--clean", folder)
    assert not queued(slurm) and sorted(os.listdir(shared)) == ["data", "job.yaml"]
