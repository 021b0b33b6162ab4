"""A real PyTorch script with a naive image folder: profile, advise, apply the advised commands,
profile again: faster, finding gone. tests/project/test_story.py does the same for the script of the tutorial."""

import contextlib
import functools
import os
import re
import shlex
import subprocess

import pytest

from conftest import IDLE, ROOT, STOKER
from profilelib import PYTHON, bare_env, profile  # noqa: F401
from slowfslib import slowfs

TRAIN = ROOT / "examples/profile_imagefolder/train.py"
PACKAGE = STOKER.parent / "python"
MAKE = ROOT / "examples/story/make_pictures.py"  # without torch, which takes seconds to import
PICTURES = 80
STORAGE_MS = {"open": 16, "stat": 2, "read": 16}

pytestmark = pytest.mark.xdist_group("torch")


@functools.lru_cache(None)
def python_env():
    """For the script, before and after alike; a package built with the sanitizers needs them loaded
    first."""
    extension = PACKAGE / "stoker/_stoker.abi3.so"
    if not extension.exists():
        pytest.skip("the Python package was not built: python3-dev is missing")
    env = {"PYTHONPATH": str(PACKAGE)}
    if b"__asan_init" in extension.read_bytes():
        found = [subprocess.run([os.environ.get("CC", "cc"), f"-print-file-name={name}"],
                                stdout=subprocess.PIPE, text=True).stdout.strip()
                 for name in ("libasan.so", "libubsan.so")]
        env["LD_PRELOAD"] = " ".join(found)
        env["ASAN_OPTIONS"] = bare_env()["ASAN_OPTIONS"] + ":detect_leaks=0"
    return env


def epoch_seconds(p):
    """Of the last epoch: everything has been started by then."""
    return [float(s) for s in re.findall(rb"pictures in ([\d.]+) s", p.out)][-1]


def reading_share(p):
    """Of the time the script ran: what the storage took for its two epochs, however fast the machine is."""
    return 2 * PICTURES * sum(STORAGE_MS.values()) / 1000 / p.report["profile"]["run_s"]


@contextlib.contextmanager
def without_latency(fs):
    """What is no part of the two runs need not wait for the storage."""
    fs.command("".join(f"set {name} 0ms\n" for name in STORAGE_MS))
    yield
    fs.command("".join(f"set {name} {ms}ms\n" for name, ms in STORAGE_MS.items()))


def apply(lines, cwd):
    """Runs the advised commands as they stand, with the stoker under test."""
    path = f"{STOKER.parent}:{os.environ['PATH']}"
    commands = [line for line in lines if line.startswith("stoker ")]
    for line in commands:
        subprocess.run(["bash", "-ec", line], check=True, cwd=cwd, env={**bare_env(), "PATH": path},
                       stdout=subprocess.DEVNULL)
    return commands


PASTED = """
{lines}
assert x.shape == (len(y), 3, 224, 224) and x.dtype == torch.float32 and y.dtype == torch.int64
assert 0 <= x.min() and x.max() <= 1 and 0 <= y.min() and y.max() < 10
"""


def run_pasted(lines, env):
    """The advised Python, as printed, in a program that has a transform of its own."""
    text = "import torch\ntransform = len\n" + PASTED.format(lines="\n".join(lines))
    done = subprocess.run([PYTHON, "-c", text], env={**bare_env(), **env}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout + text


def test_profile_advise_apply(profile, tmp_path):
    """What stoker promises, from end to end."""
    pytest.importorskip("torch", reason="python3-torch is not installed")
    env = python_env()
    source = tmp_path / "source"
    subprocess.run([PYTHON, MAKE, str(PICTURES), source / "pictures"], check=True, env=bare_env())
    storage = {name: f"{ms}ms" for name, ms in STORAGE_MS.items()}
    with slowfs(source, tmp_path / "mnt", **storage, bandwidth="500MB") as fs:
        before = profile([PYTHON, TRAIN, fs.mnt / "pictures"], env=env)
        assert before.rc == 0, before.err
        finding = before.findings.get("many-small-files")
        if not finding and not IDLE and reading_share(before) < 0.1:
            pytest.skip("the machine is so busy that there is nothing to advise: reading was not a tenth of the run")
        with without_latency(fs):
            commands = apply(finding["lines"], fs.mnt)
            run_pasted([line for line in finding["lines"] if line not in commands], env)
        packed = [word for line in commands for word in shlex.split(line)[3:]
                  if line.startswith("stoker pack") and not word.startswith("-")][0]
        after = profile([PYTHON, TRAIN, "--packed", fs.mnt / packed], env=env)
        assert after.rc == 0, after.err
    said = f"{PICTURES} pictures".encode()
    assert said in before.out and said in after.out
    # Without the packing an epoch waits for 80 opens and reads of 16 ms each, with it for a few.
    assert not IDLE or epoch_seconds(after) < epoch_seconds(before) / 2
    assert not set(after.findings) & {"many-small-files", "open-per-sample", "small-reads", "random-reads"}
    # Opening a dataset looks at a few files, which on a quiet machine is much of so short a run.
    looks = [e["value"] for e in after.findings.get("metadata-load", {}).get("evidence", ()) if e["unit"] == "count"]
    assert "metadata-load" not in after.findings or looks and looks[0] < PICTURES / 2, looks
    opens = [p.total(tmp_path / "mnt", "opens") for p in (before, after)]
    assert opens[0] >= 2 * PICTURES and opens[1] < 50
