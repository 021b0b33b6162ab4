"""The examples for PyTorch and TensorFlow run as they stand, on a CPU, in seconds."""

import os
import re
import socket
import subprocess
import sys

import pytest

from conftest import PATIENCE_S, ROOT, STOKER
from pythonlib import environment, plain_environment, python

import numpy as np

EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.xdist_group("examples")


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """What pytorch_mnist.py made and printed: (folder, text)."""
    pytest.importorskip("torch", reason="python3-torch is not installed")
    folder = tmp_path_factory.mktemp("digits")
    return folder, python(str(EXAMPLES / "pytorch_mnist.py"), folder,
                          env=environment(STOKER=STOKER), timeout=300)


def test_mnist(digits):
    """A user who copies the example gets a model that learns."""
    shares = [int(x) for x in re.findall(r"(\d+)% right", digits[1])]
    assert len(shares) == 4 and shares[0] < 40 and shares[-1] > 75


def test_convert_and_read(digits, tmp_path):
    """The order of batches is that of the source, whatever the format."""
    out = python(str(EXAMPLES / "convert_and_read.py"), digits[0] / "test", tmp_path / "out",
                 "recordio", env=environment(STOKER=STOKER))
    orders = re.findall(r"order: (.*)", out)
    assert "folder, 500 samples" in out and "recordio, 500 samples" in out
    assert len(orders) == 2 and orders[0] == orders[1]


@pytest.mark.others
def test_tensorflow(digits, tmp_path):
    """TensorFlow trains on the same data, and reads the shards without stoker."""
    candidate = os.environ.get("STOKER_TF_PYTHON")
    if not candidate:
        pytest.skip("STOKER_TF_PYTHON does not name a Python that has TensorFlow")
    out = python(str(EXAMPLES / "tensorflow_read.py"), digits[0] / "train", tmp_path / "packed",
                 executable=candidate, env=environment(STOKER=STOKER), timeout=300)
    accuracies = [float(x) for x in re.findall(r"accuracy ([\d.]+)", out)]
    assert accuracies[-1] > 0.6 and "sees 2000 examples" in out


def launch(processes, *args):
    """As torchrun does (Debian 12's own does not start with its Python): [(status, stdout)]."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    running = [subprocess.Popen(
        [sys.executable, EXAMPLES / "pytorch_ddp.py", *map(str, args)], stdin=subprocess.DEVNULL,
        env=environment(RANK=r, LOCAL_RANK=r, WORLD_SIZE=processes, LOCAL_WORLD_SIZE=processes,
                        MASTER_ADDR="127.0.0.1", MASTER_PORT=port),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for r in range(processes)]
    try:
        said = [p.communicate(timeout=PATIENCE_S) for p in running]
    finally:
        for p in running:
            p.kill()
    assert all(p.returncode in (0, 3) for p in running), said
    return [(p.returncode, out) for p, (out, err) in zip(running, said)]


def test_ddp_stops_and_goes_on(tmp_path):
    """Uneven data hangs no rank; after a stop, another number of ranks misses nothing."""
    pytest.importorskip("torch", reason="python3-torch is not installed")
    rng = np.random.default_rng(0)
    y = np.arange(1003) % 10
    np.savez(tmp_path / "a.npz", x=np.eye(10, dtype=np.float32)[y] + rng.normal(0, .1, (1003, 10)),
             label=y)
    args = [tmp_path / "a.npz", tmp_path / "run.pt", "--epochs", "2"]
    ranks = launch(2, *args, "--stop-after", "6")
    assert [status for status, out in ranks] == [3, 3]
    assert re.findall(r"epoch (\d): (\d+) samples", ranks[0][1]) == [("0", str(6 * 32 * 2))]
    ranks = launch(3, *args)
    assert [status for status, out in ranks] == [0, 0, 0]
    lines = re.findall(r"epoch (\d): (\d+) samples, loss ([\d.]+)", ranks[0][1])
    assert [x[:2] for x in lines] == [("0", str(1003 - 6 * 64)), ("1", "1003")]
    assert float(lines[1][2]) < 1


@pytest.mark.parametrize("status, requeued", [(0, False), (3, True), (1, False)])
def test_ddp_job(tmp_path, status, requeued):
    """The Slurm job goes back into the queue when it ran out of time, and only then."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, body in (("srun", f'echo "srun $* $MASTER_ADDR" >> {tmp_path}/log; exit {status}'),
                       ("scontrol", f'echo "scontrol $*" >> {tmp_path}/log; echo node1')):
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    env = plain_environment(PATH=f"{tools}:{os.environ['PATH']}", SLURM_JOB_ID=17,
                            SLURM_JOB_NODELIST="node[1-2]", SLURM_SUBMIT_DIR=EXAMPLES)
    done = subprocess.run(["bash", EXAMPLES / "ddp.sbatch", "data", "run.pt"], env=env)
    log = (tmp_path / "log").read_text()
    assert done.returncode == (0 if requeued else status)
    assert f"srun python3 {EXAMPLES}/pytorch_ddp.py data run.pt node1" in log
    assert ("scontrol requeue 17" in log) == requeued
