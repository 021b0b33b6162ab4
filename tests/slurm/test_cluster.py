"""The cluster script itself: what is there is there for real, and nothing is left behind."""

import os
import pathlib
import subprocess

import pytest

from conftest import PATIENCE_S, clean_env

pytestmark = pytest.mark.xdist_group("slurm")

CLUSTER = pathlib.Path(__file__).with_name("cluster")


def test_nodes_have_names_gpus_and_accounting(slurm):
    """Tests would pass on something that is not a cluster."""
    hosts = slurm.run("srun", "-N4", "hostname").out.split()
    assert sorted(hosts) == ["node1", "node2", "node3", "node4"]
    seen = slurm.run("srun", "-N1", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES").out
    assert seen.strip() == "0,1"
    assert slurm.control("status").returncode == 0
    assert "already up" in slurm.control("start").stderr


def test_it_listens_on_loopback_alone(slurm):
    """A test machine would offer Slurm, as root, to its network."""
    names = ("slurmctld", "slurmd", "slurmdbd", "mariadbd")
    listening = [line for line in subprocess.run(["ss", "-Hltnp"], capture_output=True,
                                                 text=True).stdout.splitlines()
                 if any(f'"{n}"' in line for n in names)]
    assert all("127.0.0.1:" in line.split()[3] for line in listening)


def test_two_clusters_and_a_clean_end(slurm, tmp_path):
    """Stopping one would kill another's daemons, or leave its own."""
    folder = f"/tmp/stk-slurm2-{os.getpid()}"
    env = clean_env({"STOKER_SLURM_DIR": folder})

    def second(*args):
        return subprocess.run([CLUSTER, *args], env=env, capture_output=True, text=True, timeout=PATIENCE_S)

    try:
        started = second("start", "1")
        assert started.returncode == 0, started.stderr
        job = second("exec", "sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 1000").stdout
        assert job.strip().isdigit()
    finally:
        cleaned = second("clean")
    assert cleaned.returncode == 0 and not pathlib.Path(folder).exists()
    mark = f"STOKER_SLURM_MARK={folder}".encode()
    left = [p for p in pathlib.Path("/proc").glob("[0-9]*/environ") if mark in readable(p)]
    assert left == []
    assert slurm.control("status").returncode == 0


def readable(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_bad_folders_are_refused(tmp_path):
    """A path too long for a socket, or a user's folder, would give a cryptic error."""
    for folder in ("/tmp/" + "x" * 80, "relative", "/tmp/a b"):
        done = subprocess.run([CLUSTER, "start"], env=clean_env({"STOKER_SLURM_DIR": folder}),
                              capture_output=True, text=True)
        assert done.returncode == 1 and "STOKER_SLURM_DIR" in done.stderr
    (tmp_path / "mine").write_text("x")
    done = subprocess.run([CLUSTER, "clean"], env=clean_env({"STOKER_SLURM_DIR": tmp_path}),
                          capture_output=True, text=True)
    assert done.returncode == 1 and (tmp_path / "mine").exists()
