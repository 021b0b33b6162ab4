"""stoker scale --via slurm on a real Slurm: threads, ranks, nodes and pretend GPUs, and jobs that are
refused, cancelled, killed, left in the queue or can never begin."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from clusterlib import CLUSTER
from conftest import STOKER, until
from profilelib import compiled, needs_command

pytestmark = pytest.mark.xdist_group("slurm")


def scale(slurm, folder, *args, **more):
    file = folder / "result.json"
    run = slurm.stoker("scale", "--via", "slurm", "-o", folder / "study", "--json", file, *args,
                       cwd=folder, **more)
    return json.loads(file.read_text())["result"], run


def resume(slurm, folder, *args, **more):
    file = folder / "result.json"
    run = slurm.stoker("scale", "--resume", folder / "study", "--json", file, *args, **more)
    return json.loads(file.read_text())["result"], run


def sh(script):
    return ["--", "sh", "-c", script]


def points(result):
    return {p["n"]: p for p in result["series"][0]["points"]}


def runs(folder):
    return [json.loads(line) for line in (folder / "study/runs.jsonl").read_text().splitlines()]


def jobs(folder):
    return [json.loads(line) for line in (folder / "study/jobs.jsonl").read_text().splitlines()]


def hosts_in(out):
    """What `hostname` printed; srun may say, in sentences, that it waits for the nodes."""
    return [line for line in out.read_text().splitlines() if " " not in line]


def test_threads(slurm, shared):
    """Service units would be counted of what was asked for, not of what was given."""
    script = "echo $OMP_NUM_THREADS of $SLURM_CPUS_PER_TASK; sleep 0.4"
    result, run = scale(slurm, shared, "--n", "1,2,4", "--threads", *sh(script))
    p = points(result)
    assert {n: (v["runs"], v["cores"], v["nodes"], v["gpus"]) for n, v in p.items()} == {
        n: (3, n, 1, 0) for n in (1, 2, 4)}
    assert all(v["time_s"] >= 0.4 and v["su"] > 0 for v in p.values())
    for r in runs(shared):
        assert r["accounted_s"] >= 0 and r["queue_s"] >= 0 and r["host"].startswith("node")
        assert r["accounted_s"] > r["wall_s"] - 2  # Slurm counts whole seconds, and the start
        assert (shared / f"study/jobs/n{r['n']}-r{r['repeat']}.out").read_text() == f"{r['n']} of {r['n']}\n"
    assert len({r["job"] for r in runs(shared)}) == 9
    assert result["run"] == {**result["run"], "complete": True, "jobs_left": 0, "via": "slurm"}
    assert "in random order" in run.out


@needs_command("mpicc.openmpi")
def test_ranks_on_nodes(slurm, shared):
    """Ranks would all be on one node, or each alone."""
    program = compiled("../scale/programs/mpi.c", "-O2", compiler="mpicc.openmpi")
    result, _ = scale(slurm, shared, "--n", "1,2,4", "--ranks", "--ranks-per-node", "2", "--runs", "1",
                      "--launcher", "srun --mpi=pmix", "--container", "env X='a b'",
                      "--metric", "ranks ([0-9]+) pi 3.141592654", "--better", "higher", "--",
                      program, 1000000)
    assert {n: (p["value"], p["cores"], p["nodes"]) for n, p in points(result).items()} == {
        1: (1, 1, 1), 2: (2, 2, 1), 4: (4, 4, 2)}


def test_nodes_and_gpus(slurm, shared):
    """A study of GPUs would be one of CPUs."""
    for name in "ab":
        (shared / name).mkdir()
    result, _ = scale(slurm, shared / "a", "--n", "1,2,4", "--gpus", "--gpu-type", "k80", "--runs", "1",
                      "--sbatch", "--partition=gpu", "--sbatch", "--comment=n{n}",
                      *sh("echo $CUDA_VISIBLE_DEVICES $SLURM_JOB_PARTITION"))
    assert {n: (p["gpus"], p["cores"]) for n, p in points(result).items()} == {1: (1, 1), 2: (2, 1), 4: (4, 1)}
    assert (shared / "a/study/jobs/n2-r0.out").read_text() == "0,1 gpu\n"
    assert {r["kind"] for r in runs(shared / "a")} == {"k80"}
    result, _ = scale(slurm, shared / "b", "--n", "1,3", "--nodes", "--runs", "1", "--", "hostname")
    assert {n: p["nodes"] for n, p in points(result).items()} == {1: 1, 3: 3}
    assert len(set(hosts_in(shared / "b/study/jobs/n3-r0.out"))) == 3


def test_the_same_ranks_on_one_node_and_on_several(slurm, shared):
    """Two placements would be one curve, or the ranks wherever Slurm had room."""
    scale(slurm, shared, "--detach", "--n", "1,2,4", "--ranks", "--spread", "1,2", "--runs", "1", "--", "hostname")
    assert {j["point"] for j in jobs(shared)} == {"n1-on1", "n2-on1", "n4-on1", "n2-on2", "n4-on2"}
    result, _ = resume(slurm, shared)
    assert {s["name"]: {p["n"]: p["nodes"] for p in s["points"]} for s in result["series"]} == {
        "1 node": {1: 1, 2: 1, 4: 1}, "2 nodes": {2: 2, 4: 2}}
    for nodes in (1, 2):
        said = hosts_in(shared / f"study/jobs/n4-on{nodes}-r0.out")
        assert len(said) == 4 and {said.count(host) for host in said} == {4 // nodes}
    assert sorted(r["point"] for r in runs(shared)) == sorted(j["point"] for j in jobs(shared))
    resume(slurm, shared, "--runs", "2")
    assert len(runs(shared)) == len(jobs(shared)) == 10


def test_packed_and_spread(slurm, shared):
    """Whether ranks are better on one node or on four would be a matter of opinion."""
    result, run = scale(slurm, shared, "--n", "4", "--ranks", "--ranks-per-node", "4,2,1", "--runs", "2", "--", "hostname")
    assert {s["name"]: s["points"][0]["nodes"] for s in result["series"]} == {
        "4 ranks per node": 1, "2 ranks per node": 2, "1 rank per node": 4}
    assert {r["point"] for r in runs(shared)} == {"n4-by4", "n4-by2", "n4-by1"}
    for per_node in (4, 2, 1):
        said = hosts_in(shared / f"study/jobs/n4-by{per_node}-r0.out")
        assert {said.count(host) for host in said} == {per_node} and len(said) == 4
    assert all(c["text"] for c in result["comparisons"]) and len(result["comparisons"]) == 3
    assert result["placement"]["n"] == 4 and "Placement: with 4 ranks, " in run.out
    # srun alone; one that Slurm refused at that moment is left out, and the run is good all the same
    assert any(r.get("launch_s", 0) > 0 for r in runs(shared))


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_packed_and_spread_by_mpirun(slurm, shared, mpi):
    """In an allocation, mpirun would place the ranks as it likes, and three placements would be one."""
    mpirun = shutil.which(f"mpirun.{mpi}") or pytest.skip(f"no mpirun.{mpi}")
    (shared / "bin").mkdir()
    (shared / "bin/mpirun").write_text(f'#!/bin/sh\nexec {mpirun} "$@"\n')
    (shared / "bin/mpirun").chmod(0o755)
    file = shared / "result.json"
    slurm.run("salloc", "-Q", "-N4", "--ntasks-per-node=4", STOKER, "scale", "--n", "4", "--ranks", "--ranks-per-node",
              "4,2,1", "--runs", "1", "--warmup", "0", "--oversubscribe", "-o", shared / "study", "--json", file,
              "--", "sh", "-c", "hostname >> on.{ranks_per_node}", cwd=shared,
              env={"PATH": f"{shared}/bin:{slurm.env['PATH']}"})
    for per_node in (4, 2, 1):
        said = (shared / f"on.{per_node}").read_text().split()
        assert {said.count(host) for host in said} == {per_node} and len(said) == 4, (per_node, said)
    assert json.loads(file.read_text())["result"]["placement"]["n"] == 4


def test_the_users_own_batch_file(slurm, shared):
    """Modules would not be loaded, or the shell would see a path unquoted."""
    folder = shared / "it's; $(touch hacked) 100% \"x\""
    folder.mkdir()
    head = shared / "head.sh"
    head.write_text("#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --comment=for-{n}\nmodule() { :; }\n"
                    "module load x\nexport FROM_HEAD=\"{n} $BASH_VERSION\"\n")
    result, _ = scale(slurm, folder, "--n", "1,2", "--threads", "--runs", "1", "--sbatch-file", head,
                      "--prepare", "echo {n} >> prepared", "--weak", "--size", "5",
                      *sh("echo $SLURM_JOB_PARTITION $FROM_HEAD {size}"))
    out = (folder / "study/jobs/n2-r0.out").read_text()
    assert out.startswith("gpu {n} ") and out.endswith(" 10\n")
    assert sorted((folder / "prepared").read_text().split()) == ["1", "2"]
    assert not list(shared.rglob("hacked")) and points(result)[2]["runs"] == 1


def test_refused(slurm, shared):
    """Somebody would wait for jobs that were never taken."""
    run = slurm.stoker("scale", "--via", "slurm", "--sbatch", "--partition=nowhere", "--n", "1,2", "--threads",
                       "--", "true", rc=4, cwd=shared)
    assert "sbatch refused the job" in run.err and "nowhere" in run.err
    assert list(shared.iterdir()) == []


def test_jobs_end_in_every_way(slurm, shared):
    """A job over its memory, one that was cancelled and one that failed would look alike."""
    script = """case {n} in
1) true ;;
2) echo no such file: x; exit 7 ;;
3) exec perl -e '$x = q(x) x 4e8; sleep 10000' ;;
4) touch at-work; sleep 10000 ;;
esac"""
    scale(slurm, shared, "--detach", "--n", "1,2,3,4,99", "--threads", "--runs", "1", "--timeout", "3000",
          "--sbatch", "--mem=100M", *sh(script), rc=(0, 3))
    job = {j["n"]: j["job"] for j in jobs(shared)}
    until((shared / "at-work").exists)
    slurm.run("scancel", job[4])
    result, run = resume(slurm, shared, rc=3)
    p = points(result)
    assert {n: v["failure"] for n, v in p.items()} == {
        1: None, 2: "failed", 3: "memory", 4: "cancelled", 99: p[99]["failure"]}
    assert "exit status 7; its last line: no such file: x" in p[2]["failure_note"]
    assert p[99]["runs"] == 0 and p[99]["failure"] in ("failed", "pending")
    assert p[1]["runs"] == 1 and "did not end well" in run.out


def test_a_closed_laptop(slurm, shared):
    """The jobs of a long study would be orphans after a broken connection."""
    argv = [CLUSTER, "exec", STOKER, "scale", "--via", "slurm", "-o", shared / "study", "--n", "1,2",
            "--threads", "--runs", "2", *sh("until [ -e go ]; do sleep 0.1; done; true {n}")]
    proc = subprocess.Popen(list(map(str, argv)), env=slurm.env, cwd=shared, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    until(lambda: (shared / "study/jobs.jsonl").exists() and len(jobs(shared)) == 4)
    os.killpg(proc.pid, signal.SIGKILL)
    proc.communicate()
    (shared / "go").touch()
    had = jobs(shared)
    result, _ = resume(slurm, shared)
    assert jobs(shared) == had  # collected, not submitted again
    assert {n: p["runs"] for n, p in points(result).items()} == {1: 2, 2: 2}
    result, _ = resume(slurm, shared, "--runs", "3", "--jobs-at-once", "1")
    assert {n: p["runs"] for n, p in points(result).items()} == {1: 3, 2: 3}


def test_what_never_started_is_repeated(slurm, shared):
    """A full cluster on Friday would spoil the study for good."""
    slurm.run("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    try:
        result, _ = scale(slurm, shared, "--n", "1,2", "--threads", "--runs", "1", "--budget", "1s",
                          "--sbatch", "--partition=gpu", "--", "true", rc=1)
        assert {p["failure"] for p in points(result).values()} == {"pending"}
    finally:
        slurm.run("scontrol", "update", "PartitionName=gpu", "State=UP")
    result, _ = resume(slurm, shared, "--budget", "5m", "--runs", "2")
    assert {n: (p["runs"], p["failed_runs"], p["lost_runs"]) for n, p in points(result).items()} == {
        1: (2, 0, 1), 2: (2, 0, 1)}
    assert len({r["job"] for r in runs(shared)}) == len(runs(shared)) == 6


def client(folder, name, script):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_without_accounting_and_with_few_jobs_at_a_time(slurm, shared):
    """On a cluster without slurmdbd there would be no studies; and where a user may have one job in the
    queue, all others would be failures."""
    client(shared / "bin", "sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1")
    client(shared / "bin", "sbatch", f"""echo x >> {shared}/asked
[ $(wc -l < {shared}/asked) = 2 ] && echo 'sbatch: error: AssocMaxSubmitJobLimit' >&2 && exit 1
exec /usr/bin/sbatch "$@\"""")
    result, run = scale(slurm, shared, "--n", "1,2", "--threads", "--runs", "1", *sh("sleep 0.2"), "{n}",
                        env={"PATH": f"{shared}/bin:{slurm.env['PATH']}"})
    assert {n: (p["runs"], p["cores"]) for n, p in points(result).items()} == {1: (1, 1), 2: (1, 2)}
    assert "No accounting (sacct: Slurm accounting storage is disabled)" in run.out
    assert len(runs(shared)) == 2 and len((shared / "asked").read_text()) == 6  # three lines


def test_what_cannot_begin_is_not_waited_for(slurm, shared):
    """A study would wait for ever for a job that asks for more nodes than there are."""
    result, _ = scale(slurm, shared, "--n", "1,40", "--nodes", "--runs", "1", "--", "hostname", rc=3)
    assert points(result)[40]["failure"] in ("pending", "failed")
    left = slurm.run("squeue", "-h", "-t", "pending", "-o", "%j").out.split()
    assert not [name for name in left if name.startswith("stoker-")]


def test_an_sbatch_that_gave_no_answer(slurm, shared):
    """A job that Slurm has taken all the same would run twice, and nobody would look at the first."""
    real = slurm.run("sh", "-c", "command -v sbatch").out.strip()
    (shared / "bin").mkdir()
    (shared / "bin/sbatch").write_text(f"""#!/bin/sh
id=$({real} "$@") || exit
[ -e {shared}/once ] && exec echo "$id"
touch {shared}/once
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
""")
    (shared / "bin/sbatch").chmod(0o755)
    path = f"{shared}/bin:{slurm.env['PATH']}"
    result, _ = scale(slurm, shared, "--n", "1", "--threads", "--runs", "2", *sh("sleep 0.1"),
                      env={"PATH": path})
    assert points(result)[1]["runs"] == 2
    assert len({r["job"] for r in runs(shared)}) == 2
    lines = jobs(shared)
    assert lines[0]["job"] == 0 and sum(j["job"] > 0 for j in lines) == 2
    name = f"stoker-n1-r0-{lines[0]['token']}"
    assert len(slurm.run("squeue", "-h", "-t", "all", "-o", "%A", f"--name={name}").out.split()) == 1
