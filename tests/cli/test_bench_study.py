"""The ten workloads of the study, small, however their ranks are started: one process, four forked
ranks, four ranks of each MPI. What the counters of the engine say is what the kernel saw."""

import collections
import json
import shutil
import subprocess

import pytest

from benchlib import KIB, STUDY, VIRTUAL, check_sharing, check_study
from conftest import STOKER, clean_env, run_stoker
from mpilib import MPIS, RANK, needs_mpi, run_ranks
from stracelib import strace_truth

if "libyaml" in subprocess.run([STOKER, "bench", "bert", "--show-workload"], capture_output=True, text=True).stderr:
    pytest.skip("stoker was built without libyaml", allow_module_level=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The dataset of a workload, generated once."""
    def of(name, *args):
        folder = tmp_path_factory.getbasetemp() / f"bench-{name}"
        if not folder.exists():
            run_stoker("bench", name, *args, "--data", folder, "--generate-only")
        return folder
    return of


def argv_of(name, data, out, *more):
    return ["bench", name, "--small", "--data", data(name, "--small"), "--json", out, *VIRTUAL, *more]


@pytest.mark.parametrize("name", STUDY)
def test_one_process(stoker, data, tmp_path, name):
    stoker(*argv_of(name, data, tmp_path / "out.json", "--ranks", 1))
    check_study(name, tmp_path / "out.json", 1, "alone")


def strace_or_skip(argv, folder):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    env = clean_env()
    env["ASAN_OPTIONS"] += ":detect_leaks=0"
    try:
        return strace_truth(argv, folder, env=env)
    except subprocess.CalledProcessError:
        if subprocess.run(["strace", "-f", "true"], capture_output=True).returncode:
            pytest.skip("this machine does not allow strace")
        raise


# Counters of the engine, and of strace.
SAME = {"opens": "opens", "requests": "reads", "bytes_read": "read_bytes", "first_requests": "first_reads",
        "sequential": "seq_reads", "consecutive": "consec_reads"}


@pytest.mark.parametrize("name", STUDY)
def test_four_forked_ranks_as_the_kernel_sees_them(data, tmp_path, name):
    """Counters are worth nothing if they count what was not asked for."""
    out, folder = tmp_path / "out.json", data(name, "--small")
    truth = strace_or_skip([STOKER, *argv_of(name, data, out, "--ranks", 4)], folder)
    result = check_study(name, out, 4, "forked")
    reads, writes = collections.Counter(), collections.Counter()
    bins = [0] * 10
    for path, seen in truth.items():
        where = reads if "/train/" in path else writes if "/checkpoint/" in path else {}
        bins = [a + b for a, b in zip(bins, seen["read_size"])] if where is reads else bins
        where.update({k: v for k, v in seen.items() if k != "read_size"})
    assert {k: result["io"][k] for k in SAME} == {k: reads[v] for k, v in SAME.items()}
    assert [b["count"] for b in result["io"]["request_sizes"]] == bins
    by_rank = [[read for read in reads if "/train/" in read[0]] for reads in truth.reads_by_process()]
    by_rank = [reads for reads in by_rank if reads]
    assert sorted(map(len, by_rank)) == sorted(r["io"]["requests"] for r in result["per_rank"] if r["io"]["requests"])
    check_sharing(name, by_rank)
    assert result["checkpoint_bytes"] == writes["write_bytes"]
    # fwrite() of the C library passes on whole blocks first, then the rest.
    files = result["checkpoint_bytes"] and writes["opens"]
    assert files <= writes["writes"] <= 2 * files
    if name == "climate":
        assert writes["opens"] == writes["writes"] == 4 * 3  # "in one single operation"


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize("name", STUDY)
def test_four_ranks_of_mpi(data, tmp_path, name, mpi):
    """The same figures whoever starts the ranks; rank 0 alone speaks."""
    needs_mpi(mpi)
    done = run_ranks(mpi, 4, STOKER, *argv_of(name, data, tmp_path / "out.json"))
    check_study(name, tmp_path / "out.json", 4, mpi)
    assert done.out.count("utilisation") == 1


COLLECTIVE = """name: together
dataset: {format: %s, files: 3, samples_per_file: 40, record: "%s"}
access: {sharing: collective, readers: 2, transfer: 64K}
training: {batch: 5, compute: 2ms}
"""


@pytest.fixture
def together(tmp_path, stoker):
    """Generates a dataset for collective reads; returns the arguments of a run."""
    def of(fmt, record="9000"):
        path = tmp_path / f"{fmt}.yaml"
        path.write_text(COLLECTIVE % (fmt, record))
        stoker("bench", path, "--data", tmp_path / fmt, "--ranks", 4, "--generate-only")
        return ["bench", path, "--data", tmp_path / fmt, "--json", tmp_path / f"{fmt}.json"]
    return of


@pytest.mark.parametrize("fmt, record", [("tfrecord", "uniform(1000, 17000)"), ("csv", "9000"), ("npz", "9000"),
                                         ("tar", "uniform(1000, 17000)"), ("json", "9000"), ("hdf5", "9000")])
def test_some_forked_ranks_read_for_all(together, stoker, tmp_path, fmt, record):
    """Two of four ranks read all samples once, and the result does not call it MPI-IO."""
    got = stoker(*together(fmt, record), "--ranks", 4, *VIRTUAL)
    result = json.loads((tmp_path / f"{fmt}.json").read_text())["result"]
    assert result["collective_reads"] == "plain" and "MPI-IO needs mpirun or srun" in got.out
    assert [r["io"]["samples"] for r in result["per_rank"]] == [60, 0, 60, 0]
    readers = [r["io"] for r in result["per_rank"] if r["io"]["samples"]]
    whole = fmt in ("npz", "json")  # both readers need every file
    on_disk = sum(p.stat().st_size for p in (tmp_path / fmt / "train").iterdir())
    read = sum(io["bytes_read"] for io in readers)
    assert 0.95 < read / (on_disk * (2 if whole else 1)) < 1.05
    assert all(max(s["bytes"] for s in io["common_sizes"]) <= 64 * KIB for io in readers)


def mpiio_records(folder):
    """(reads, bytes, opened files) through MPI-IO of each process that has some, from a profile."""
    records = json.loads(run_stoker("report", folder, "--json", "-").out)["result"]["records"]
    sums = {}
    for record in records:
        if record["api"] == "mpi-io":
            c, old = record["counters"], sums.get(record["pid"], (0, 0, 0))
            sums[record["pid"]] = (old[0] + c["reads"], old[1] + c["read_bytes"], old[2] + c["opens"])
    return sorted(sums.values())


@pytest.mark.parametrize("mpi", MPIS)
def test_collective_reads_are_those_of_mpiio(together, tmp_path, mpi):
    """A benchmark of MPI-IO that reads with read() says nothing about MPI-IO."""
    needs_mpi(mpi)
    if not (STOKER.parent / "libstoker-preload.so").exists():
        pytest.skip("the library of `stoker profile` is not built")
    argv = together("tfrecord", "uniform(1000, 17000)")
    run_ranks(mpi, 4, STOKER, "profile", "--quiet", "-o", tmp_path / "profile", "--", STOKER, *argv)
    result = json.loads((tmp_path / "tfrecord.json").read_text())["result"]
    assert result["collective_reads"] == "MPI-IO" and result["ranks_are"] == mpi
    readers = [r["io"] for r in result["per_rank"] if r["io"]["samples"]]
    assert [io["samples"] for io in readers] == [60, 60]
    counted = sorted((io["requests"], io["bytes_read"], io["opens"]) for io in readers)
    assert mpiio_records(tmp_path / "profile") == counted


DIES = """#!/bin/sh
"$@" &
if [ %s = 2 ]; then
    until ls -l /proc/$!/fd | grep -q /train/; do sleep 0.02; done
    kill -9 $!
fi
wait $!
echo $? > %s/status.%s
exit 0
"""


def test_a_reader_that_dies_ends_the_others(together, tmp_path):
    """They wait in a collective call or for a broadcast: MPI itself would wait forever. (The launcher of
    MPICH ends all ranks at once if one dies while they connect.)"""
    needs_mpi("openmpi")
    argv = together("tfrecord") + ["--set", "training.scaling=weak", "--set", "training.steps=1000000"]
    script = tmp_path / "rank.sh"
    script.write_text(DIES % (RANK, tmp_path, RANK))
    script.chmod(0o755)
    run_ranks("openmpi", 4, script, STOKER, *argv, rc=None, lenient=True)
    result = json.loads((tmp_path / "tfrecord.json").read_text())["result"]
    assert result["lost_rank"] == 2 and "its process has ended" in result["lost_because"]
    assert [int((tmp_path / f"status.{r}").read_text()) for r in (0, 2)] == [3, 137]
    assert all((tmp_path / f"status.{r}").exists() for r in (1, 3))
