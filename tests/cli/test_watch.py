"""`stoker watch` without Slurm: the helper that runs on a node finds the processes of a job there,
and what comes from other nodes is shown whatever it says."""

import json
import os
import pathlib
import subprocess

import pytest

from conftest import PATIENCE_S, STOKER, clean_env, until
from slurmlib import FakeSlurm

JOB = 777000 + os.getpid() % 1000  # nobody else's, when tests run side by side
RUNNING = 33  # of tests/slurm/capture

FAKE_NVML = """
#include <stdio.h>
#include <stdlib.h>
struct process { unsigned pid; unsigned long long used; unsigned gi, ci; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = (void *)(long)(i + 1); return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned n) { (void)d; snprintf(s, n, "Fake"); return 0; }
int nvmlDeviceGetUtilizationRates(void *d, unsigned *u) { u[0] = 10 * (unsigned)(long)d; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m)
{ m[0] = 1000; m[2] = 100 * (unsigned long)d; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p)
{ (void)d; *n = 1; p[0].pid = (unsigned)atoi(getenv("GPU_PID")); p[0].used = 50; return 0; }
"""


@pytest.fixture
def start():
    """Starts a process of a job; all of them are ended."""
    started = []

    def run(argv, **variables):
        env = clean_env({"SLURM_JOB_ID": JOB, "SLURMD_NODENAME": "n1", **variables})
        started.append(subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def sample(stoker, **env):
    """What the helper says of each process in the last of its samples, and of the node."""
    out = stoker("watch", "--node-sample", "--samples", "2", "--every", "0.3s", JOB,
                 env={"SLURMD_NODENAME": "n1", **env}).out
    node = json.loads(out.splitlines()[-1])
    return {p["pid"]: p for p in node["process"]}, node


def test_the_jobs_processes_are_found(stoker, start):
    """A process with an environment of its own would be missing, one of another node counted twice."""
    spin = start(["perl", "-e", "$x = q(x) x 5e7; 1 while 1"], SLURM_STEP_ID="3", SLURM_PROCID="5")
    shell = start(["sh", "-c", "env -i sleep 10000 & wait"])
    elsewhere = start(["sleep", "10000"], SLURMD_NODENAME="n2")
    another = start(["sleep", "10000"], SLURM_JOB_ID=str(JOB + 1))

    def settled():
        found, node = sample(stoker)
        task = found.get(spin.pid)
        commands = {p["command"] for p in found.values()}
        return len(found) == 3 and task and task["memory_bytes"] > 1e8 and task["cpus"] \
            and "sleep 10000" in commands and (found, node)

    found, node = until(settled)
    assert elsewhere.pid not in found and another.pid not in found
    assert (found[spin.pid]["step"], found[spin.pid]["rank"], found[spin.pid]["state"]) == ("3", 5, "R")
    assert found[spin.pid]["cpus"] <= 1.2
    assert (found[shell.pid]["step"], found[shell.pid]["rank"]) == ("batch", None)
    assert [p["command"] for p in found.values() if p["pid"] not in (spin.pid, shell.pid)] == ["sleep 10000"]
    assert node["host"] == "n1" and node["processes"] == 3


def test_a_large_environment(stoker, start):
    """Where a module has set many variables, what Slurm has set behind them would not be found."""
    process = start(["env", "-u", "SLURM_JOB_ID", *(f"A{i}={'x' * 1000}" for i in range(100)),
                     f"SLURM_JOB_ID={JOB}", "sleep", "10000"])
    until(lambda: process.pid in sample(stoker)[0])


@pytest.mark.parametrize("visible, indexes", [(None, [0, 1, 2]), ("2,0", [0, 2]), ("1", [1]), ("", []),
                                              ("1,-1,0", [1]), ("NoDevFiles", [])])
def test_gpus_of_the_job_and_of_its_processes(stoker, start, tmp_path, visible, indexes):
    """Another user's GPU on the same node would be shown as the job's."""
    source = tmp_path / "nvml.c"
    source.write_text(FAKE_NVML)
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", tmp_path / "libnvidia-ml.so.1"], check=True)
    process = start(["sleep", "10000"])
    env = {"LD_LIBRARY_PATH": str(tmp_path), "GPU_PID": str(process.pid)}
    env.update({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    until(lambda: process.pid in sample(stoker)[0])  # it has begun
    found, node = sample(stoker, **env)
    assert [g["index"] for g in node["gpus"]] == indexes
    assert [g["util"] for g in node["gpus"]] == [pytest.approx((i + 1) / 10) for i in indexes]
    if not indexes:
        return
    assert node["gpus"][0] == {"index": indexes[0], "kind": "Fake", "util": (indexes[0] + 1) / 10,
                               "memory_bytes": 100 * (indexes[0] + 1), "total_bytes": 1000}
    assert found[process.pid]["gpu_memory_bytes"] == 50 * len(indexes)


def fake_srun(slurm, lines, status=0):
    path = slurm.bin / "srun"
    (slurm.folder / "lines").write_bytes(b"".join(line + b"\n" for line in lines))
    path.write_text(f"#!/bin/sh\ncat {slurm.folder}/lines\nexit {status}\n")
    path.chmod(0o755)


def test_what_nodes_send_is_not_trusted(stoker, tmp_path):
    """A program's name could steer the terminal of the user who watches the job."""
    slurm = FakeSlurm(tmp_path)
    process = {"pid": 1, "command": "x\x1b]0;owned\x07\n\x1b[2J", "threads": 1, "cpus": 1e5,
               "memory_bytes": 2**62, "state": "\x1b", "step": "\x1b[1m", "rank": None}
    node = {"host": "node1", "at_s": 1, "processes": 1, "threads": 1, "cpus": 0.5, "memory_bytes": 1,
            "gpus": [{"index": 0, "kind": "\x1b[31m", "util": 0.9}], "process": [process]}
    good = json.dumps(node).encode()
    wrong = [{"host": 5}, *({**node, "host": "wrong", "process": [bad]} for bad in (7, None)),
             *({**node, "host": "wrong", "process": [{**process, **bad}]} for bad in ({"cpus": 1e300}, {"rank": -5})),
             {**node, "host": "wrong", "gpus": [{"util": 9}]}]
    fake_srun(slurm, [b"welcome to the site", b"{", b"[]", b"null", b"\xff\xfe",
                      *(json.dumps(bad).encode() for bad in wrong), good, good,
                      good.replace(b"node1", b"node2"), good.replace(b"node1", b"node2"),
                      *(good.replace(b"node1", b"fake%d" % i) for i in range(50))])
    r = stoker("watch", "--once", RUNNING, env=slurm.env())
    assert "\x1b" not in r.out and "\x07" not in r.out and "node1" in r.out
    assert "fake" not in r.out  # the job has two nodes
    assert "wrong" not in r.out
    result = stoker("watch", "--once", "--json", "-", RUNNING, env=slurm.env()).json()["result"]
    assert [n["host"] for n in result["nodes"]] == ["node1", "node2"]


def test_a_line_a_sample(stoker, tmp_path):
    """A sample that is a little early would have no line: of three, one or two would be seen."""
    slurm = FakeSlurm(tmp_path)
    lines = [json.dumps({"host": f"node{i}", "processes": 1, "threads": 1, "cpus": 1}) for i in (1, 2)]
    out = tmp_path / "out"
    # The next one comes a little early, but not before the line of the one before was there. The first
    # has none: it says nothing of CPUs.
    (slurm.bin / "srun").write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6; do\n" +
                                    "".join(f"echo '{line}'\n" for line in lines) +
                                    f"until [ $(grep -c '2 nodes' {out}) -ge $((i - 1)) ]; do sleep 0.05; done\n"
                                    "sleep 0.25\ndone\nexec sleep 10000\n")
    (slurm.bin / "srun").chmod(0o755)
    with open(out, "w") as file:
        subprocess.run([STOKER, "watch", "--every", "0.3s", "--progress-every", "0.3s", "--samples", "3",
                        str(RUNNING)], stdout=file, env=clean_env(slurm.env()), check=True, timeout=PATIENCE_S)
    assert out.read_text().count("2 nodes, 2 processes") == 3


def test_srun_that_fails_is_quoted(stoker, tmp_path):
    """The user would not learn why there is no screen."""
    slurm = FakeSlurm(tmp_path)
    (slurm.bin / "srun").write_text("#!/bin/sh\necho 'srun: error: Unable to create step for job 33: "
                                    "Job/step already completing or completed' >&2\nexit 1\n")
    (slurm.bin / "srun").chmod(0o755)
    r = stoker("watch", "--once", RUNNING, env=slurm.env(), rc=4)
    assert "Unable to create step for job 33" in r.err


@pytest.mark.parametrize("silent", [False, True])
def test_the_helper_ends_when_its_watch_is_gone(start, silent):
    """srun may be killed without a word to its tasks: they would stay in the job until its end."""
    start(["sleep", "10000"])
    life = "0.2s" if silent else "10000s"
    with subprocess.Popen([STOKER, "watch", "--node-sample", "--every", "0.1s", "--lifeline", life, str(JOB)],
                          stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=clean_env({"SLURMD_NODENAME": "n1"})) as helper:
        if not silent:
            helper.stdin.close()
        assert helper.wait(PATIENCE_S) == 0


def test_the_helper_lives_while_its_watch_does(start):
    """A sampler that is not read from every second would end before its time."""
    start(["sleep", "10000"])
    with subprocess.Popen([STOKER, "watch", "--node-sample", "--every", "0.1s", "--lifeline", "10000s", str(JOB)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=clean_env({"SLURMD_NODENAME": "n1"})) as helper:
        for _ in range(4):
            helper.stdin.write(b"\n")
            helper.stdin.flush()
            assert json.loads(helper.stdout.readline())["host"] == "n1"
        # The sampler itself, and the child that reads for it, are no processes of the job.
        names = {pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                 for pid in [helper.pid, *children_of(helper.pid)]}
        assert names == {"stoker-watch"}
        helper.stdin.close()
        helper.stdout.read()


def children_of(pid):
    return subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()


def test_a_heterogeneous_job_is_shown_as_one(stoker, tmp_path):
    """`watch 281` would ask for a task "281_-1", which does not exist; a part would be asked for by a
    number that srun refuses."""
    slurm = FakeSlurm(tmp_path)
    row = {"State": "RUNNING", "Start": "1794742582", "ElapsedRaw": "8", "TimelimitRaw": "20", "JobName": "het",
           "AllocTRES": "cpu=2,mem=1000M,node=1", "User": "root"}
    slurm.add_rows("sacct", [row | {"JobID": f"281+{i}", "JobIDRaw": str(281 + i), "NodeList": f"node{i + 1}"}
                             for i in range(2)])
    line = json.dumps({"host": "nodeX", "processes": 1, "threads": 1, "cpus": 0.5, "memory_bytes": 1 << 20})
    (slurm.bin / "srun").write_text(
        f"#!/bin/sh\necho \"$@\" >> {slurm.folder}/srun\n"
        f"case \"$*\" in *--het-group=0*) n=1;; *) n=2;; esac\n"
        f"for i in 1 2; do echo '{line}' | sed s/X/$n/; done\n")
    (slurm.bin / "srun").chmod(0o755)
    result = stoker("watch", "--once", "--json", "-", 281, env=slurm.env()).json()["result"]
    assert [(n["host"], n["part"]) for n in result["nodes"]] == [("node1", 0), ("node2", 1)]
    assert (result["job"], result["cpus_got"], result["memory_got_bytes"]) == ("281", 4, 2000 << 20)
    calls = (slurm.folder / "srun").read_text().splitlines()
    assert all("--jobid=281 " in c and c.endswith(f"281 --part={281 + i}") for i, c in enumerate(sorted(
        calls, key=lambda c: "group=1" in c)))
    out = stoker("watch", "--once", "281+1", env=slurm.env()).out
    assert "job 281+1" in out and "node2 +1" in out and "node1" not in out


def test_the_helper_ends_when_nobody_reads(start):
    """A watch that was killed would leave a process on every node."""
    start(["sleep", "10000"])
    with subprocess.Popen([STOKER, "watch", "--node-sample", "--every", "0.1s", str(JOB)],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=clean_env({"SLURMD_NODENAME": "n1"})) as helper:
        helper.stdout.readline()
        helper.stdout.close()
        helper.wait(PATIENCE_S)
