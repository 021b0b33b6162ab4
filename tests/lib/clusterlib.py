"""A real Slurm for tests: one cluster of four nodes for a whole session, started by
tests/slurm/cluster and always stopped. Skipped, aloud, where it cannot run.

conftest.py has the fixtures, so that there is one cluster; a file that uses them says
`pytestmark = pytest.mark.xdist_group("slurm")`, so that there is one for all workers.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

import conftest

CLUSTER = pathlib.Path(__file__).resolve().parent.parent / "slurm/cluster"
NODES = 4


class Slurm:
    """The cluster: run clients, programs and stoker on its login node."""

    def __init__(self, folder):
        self.folder = folder
        # stoker is found in PATH on the nodes too, as at a site that has installed it.
        self.env = conftest.clean_env({"STOKER_SLURM_DIR": folder, "TZ": "UTC",
                              "PATH": f"{conftest.STOKER.parent}:{os.environ['PATH']}:/usr/sbin"})

    def control(self, *args, timeout=conftest.PATIENCE_S):
        return subprocess.run([CLUSTER, *map(str, args)], env=self.env, timeout=timeout, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)

    def run(self, *argv, rc=0, cwd=None, env=None, timeout=conftest.PATIENCE_S, input=None):
        """A program on the login node; rc as in run_stoker()."""
        done = subprocess.run([CLUSTER, "exec", *map(str, argv)], cwd=cwd, timeout=timeout,
                              env={**self.env, **(env or {})}, input=input or b"", capture_output=True)
        result = conftest.Result(argv, done.returncode, done.stdout, done.stderr)
        conftest.check_sane(result)
        assert rc is None or result.rc in (rc if isinstance(rc, tuple) else (rc,)), repr(result)
        return result

    def stoker(self, *args, **more):
        return self.run(conftest.STOKER, *args, **more)

    def submit(self, cwd, *args, wrap=None):
        """The job's number. wrap: a command line for the job's shell."""
        more = ["--wrap", wrap] if wrap is not None else []
        return self.run("sbatch", "--parsable", "-o", f"{cwd}/out.%A.%a", *more, *args, cwd=cwd).out.strip()

    def state(self, job):
        """What the queue calls it, of all tasks of an array."""
        return set(self.run("squeue", "-h", "-t", "all", "-o", "%T", "-j", job, rc=None).out.split())

    def wait(self, *jobs, running=False):
        """Until all of them have ended (or run, with everything of them started)."""
        def there(job):
            states = self.state(job)
            waiting = states & {"PENDING", "CONFIGURING", "COMPLETING", "RUNNING", "SUSPENDED"}
            return "RUNNING" in states if running else states and not waiting

        for job in jobs:
            try:
                conftest.until(lambda: there(job))
            except AssertionError as never:
                raise AssertionError(f"job {job} never {'ran' if running else 'ended'}\n{self.situation()}") from never
        return jobs[0]

    def situation(self):
        """What the queue and the nodes say. Nodes that Slurm took out of service are put back: the
        next test is to speak for itself."""
        said = self.run("sh", "-c", "squeue; sinfo -N; sinfo -R", rc=None).out
        self.control("start", NODES)
        return said

    def report(self, job, *args):
        """Its object in the result of `stoker job`, when the accounting has its end, too."""
        def jobs():
            found = self.stoker("job", *args, "--json", "-", job).json()["result"]["jobs"]
            settled = all(j["ended"] is None or j["exit_status"] is not None for j in found)
            return found if settled else None

        (found,) = conftest.until(jobs)
        return found


@pytest.fixture(scope="session")
def slurm():
    why = subprocess.run([CLUSTER, "missing"], text=True, capture_output=True).stdout.strip()
    if why:
        pytest.skip(f"no Slurm here: {why}")
    cluster = Slurm(f"/tmp/stk-slurm-{os.getpid()}")
    try:
        started = cluster.control("start", NODES)
        assert started.returncode == 0, started.stderr
        yield cluster
    finally:
        stopped = cluster.control("clean")
        shutil.rmtree(cluster.folder, ignore_errors=True)
    assert stopped.returncode == 0, stopped.stderr


@pytest.fixture
def shared(tmp_path_factory):
    """A folder that all nodes see (they are one machine)."""
    return tmp_path_factory.mktemp("shared")
