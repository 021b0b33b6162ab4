"""`stoker job` and `stoker watch` on jobs of a real Slurm: what the jobs did is known, so what is
said of them can be held against it."""

import contextlib
import os
import pathlib
import pty
import re
import signal
import subprocess

import pytest

from conftest import STOKER, until

pytestmark = pytest.mark.xdist_group("slurm")

MEMORY = 100_000_000  # bytes that SPIN holds


def spin(seconds):
    """One busy CPU for some seconds, with memory that is known."""
    return f"perl -e '$x = q(x) x {MEMORY}; $t = time; 1 while time < $t + {seconds}'"


@pytest.fixture(scope="module")
def jobs(slurm, tmp_path_factory):
    """Jobs of every kind, submitted together and all at their end."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "task.sh").write_text(f"#!/bin/sh\n{spin(3)}\n")
    (folder / "task.sh").chmod(0o755)

    def submit(name, *args, wrap):
        return slurm.submit(folder, "-J", name, *args, wrap=wrap)

    made = {
        "tasks": submit("tasks", "-N2", "-n3", "-t5", "--mem-per-cpu=300", "--gres=gpu:k80:2",
                        wrap="srun ./task.sh"),
        "status": submit("sta|tus\n$(x)", wrap="exit 3"),
        "signal": submit("signal", wrap="kill -SEGV $$"),
        "memory": submit("memory", "--mem=100", wrap="perl -e '$x = q(x) x 4e8; sleep 10000'"),
        "array": submit("array", "--array=0-2", wrap="exit $SLURM_ARRAY_TASK_ID"),
        "cancelled": submit("cancelled", wrap=spin(10000)),
        "step": submit("step", "--mem=300", wrap="srun --mem=100 perl -e '$x = q(x) x 1.5e8; sleep 10000'; true"),
        "idle": submit("idle", "-N2", "-n2", "-t5", wrap=spin(3)),
    }
    slurm.wait(made["cancelled"], running=True)
    slurm.run("scancel", made["cancelled"])
    slurm.wait(*made.values())
    return made


def test_what_a_job_asked_got_and_used(slurm, jobs):
    """Numbers of a real job would be wrong unnoticed."""
    j = slurm.report(jobs["tasks"])
    assert (j["state"], j["exit_status"], j["name"]) == ("completed", 0, "tasks")
    assert (j["got"]["nodes"], j["got"]["cpus"], j["got"]["gpus"], j["got"]["gpu_kind"]) == (2, 3, 4, "k80")
    assert j["got"]["memory_bytes"] == 900 << 20
    step = next(s for s in j["steps"] if s["step"] == "0")
    assert step["tasks"] == 3
    # Perl holds the string twice; each task has its own.
    assert 2 * MEMORY < step["task_memory_bytes"] < 2.2 * MEMORY
    assert 6 * MEMORY < j["used"]["memory_bytes"] < 6.6 * MEMORY
    # Slurm counts whole seconds of time, and CPU time to the end of the last process.
    assert 0 < j["used"]["cpu_s"] <= 3 * (j["elapsed_s"] + 2)
    assert 3 <= j["elapsed_s"] and j["limit_s"] == 300


def test_how_jobs_ended(slurm, jobs):
    """A user would look for a fault in a program that had too little memory."""
    status = slurm.report(jobs["status"])
    assert (status["state"], status["exit_status"], status["name"]) == ("failed", 3, "sta|tus\n$(x)")
    assert (slurm.report(jobs["signal"])["state"], slurm.report(jobs["signal"])["exit_signal"]) == ("failed", 11)
    memory = slurm.report(jobs["memory"])
    assert memory["state"] == "out of memory"
    assert re.fullmatch(r"#SBATCH --mem=\d+[MG]", memory["next"][0]["line"])
    cancelled = slurm.report(jobs["cancelled"])
    assert (cancelled["state"], cancelled["cancelled_by"]) == ("cancelled", "root")
    # It was busy all the time, but not under srun: Slurm does not know.
    assert cancelled["used"]["cpu_s"] is None and cancelled["doubts"][0]["figure"] == "cpu"
    step = slurm.report(jobs["step"])
    assert (step["state"], step["steps"][1]["state"]) == ("completed", "out of memory")
    assert re.match(r"srun --mem=|#SBATCH --mem=", step["next"][0]["line"])


def test_an_array(slurm, jobs):
    """The tasks of an array would be told as one."""
    result = slurm.stoker("job", jobs["array"], "--json", "-").json()["result"]["jobs"]
    assert {j["array_task"]: (j["state"], j["exit_status"]) for j in result} == {
        0: ("completed", 0), 1: ("failed", 1), 2: ("failed", 2)}


def test_several_jobs_are_a_table(slurm, jobs):
    """Fifty jobs would be fifty calls."""
    ids = [jobs[n] for n in ("tasks", "memory", "signal")]
    rows = slurm.stoker("job", *ids).out.splitlines()
    assert {r.split()[0] for r in rows[1:4]} == set(ids)
    mine = slurm.stoker("job", "--me", "--since", "1h", "--json", "-").json()["result"]["jobs"]
    assert {int(i) for i in ids} <= {j["id"] for j in mine}


def test_the_line_for_the_next_batch_file_works(slurm, jobs, shared):
    """Advice that sbatch refuses, or with which the job dies, is worse than none."""
    j = slurm.report(jobs["idle"], "--advise-from", "1s")
    lines = {n["line"] for n in j["next"] if n["line"]}
    assert "#SBATCH --nodes=1" in lines  # nothing ran on the second
    assert any(line.startswith("#SBATCH --mem") for line in lines)
    script = shared / "next.sh"
    script.write_text("#!/bin/sh\n" + "\n".join(sorted(lines)) + f"\n{spin(2)}\n")
    again = slurm.submit(shared, str(script))
    slurm.wait(again)
    assert slurm.report(again)["state"] == "completed"


def test_jobs_that_wait_and_what_the_limit_ends(slurm, shared):
    """A job that can never start would seem to wait for its turn."""
    held = slurm.submit(shared, "-H", wrap="true")
    never = slurm.submit(shared, "-n1000", wrap="true")
    after = slurm.submit(shared, f"--dependency=afterok:{held}", wrap="true")
    until(lambda: slurm.report(never)["reason"] not in (None, "None", "Priority"))
    until(lambda: slurm.report(after)["reason"] not in (None, "None", "Priority"))
    assert (slurm.report(held)["state"], slurm.report(held)["reason"]) == ("pending", "JobHeldUser")
    assert slurm.report(never)["reason"] == "PartitionConfig"
    waiting = slurm.report(after)
    assert (waiting["reason"], waiting["dependency"].startswith(f"afterok:{held}")) == ("Dependency", True)
    slurm.run("scancel", held, never, after)


def test_a_requeued_job(slurm, shared):
    """A job that was put back would count as ended."""
    job = slurm.submit(shared, "--requeue", wrap="sleep 10000")
    slurm.wait(job, running=True)
    slurm.run("scontrol", "requeue", job)
    def requeued():
        j = slurm.report(job)
        return j if j["state"] == "requeued" else None

    j = until(requeued)
    assert (j["restarts"], j["ended"]) == (1, None)
    slurm.run("scancel", job)


def test_without_slurmdbd_there_is_still_a_report(slurm, jobs, tmp_path):
    """At a site without accounting there would be none."""
    conf = (pathlib.Path(slurm.folder) / "etc/slurm.conf").read_text()
    for name in ("gres.conf", "cgroup.conf"):
        (tmp_path / name).write_text((pathlib.Path(slurm.folder) / "etc" / name).read_text())
    (tmp_path / "slurm.conf").write_text(
        re.sub(r"AccountingStorage(Type|Host|Port|Pass|TRES)=.*\n", "", conf))
    r = slurm.run("env", f"SLURM_CONF={tmp_path}/slurm.conf", STOKER, "job", jobs["status"])
    assert "failed (exit status 3)" in r.out
    assert "sacct gave no answer" in " ".join(r.out.split())


# ---- watch -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy(slurm, tmp_path_factory):
    """A job on two nodes that holds and burns what is known."""
    folder = tmp_path_factory.mktemp("busy")
    (folder / "task.sh").write_text(f"#!/bin/sh\n{spin(10000)}\n")
    (folder / "task.sh").chmod(0o755)
    job = slurm.submit(folder, "-J", "bu|sy", "-N2", "-n3", "--mem-per-cpu=400", wrap="srun ./task.sh")
    yield job
    slurm.run("scancel", job, rc=None)


def at_work(slurm, job):
    """(node, process) of its three tasks, when all of them hold their memory and had some CPU time.
    Until then, and when a step ends without a word, there is nothing to say about them."""
    done = slurm.stoker("watch", "--once", "--every", "0.5s", "--json", "-", job, rc=(0, 4))
    nodes = done.json()["result"].get("nodes", [])
    tasks = [(n["host"], p) for n in nodes for p in n["process"] if p["command"].startswith("perl")]
    ready = [t for _, t in tasks if t["memory_bytes"] > 2 * MEMORY and t["cpus"] and t["rank"] is not None]
    return tasks if len(ready) == len(tasks) == 3 else None


def test_watch_once(slurm, busy):
    """Processes would be missing, or counted on the wrong node."""
    seen = until(lambda: at_work(slurm, busy))
    assert sorted(p["rank"] for _, p in seen) == [0, 1, 2]
    assert len({host for host, _ in seen}) == 2
    # One step of the job; not always the first: looking takes steps too.
    (step,) = {p["step"] for _, p in seen}
    assert step.isdigit()
    for _, p in seen:
        assert p["threads"] == 1 and p["state"] == "R"
        assert 2 * MEMORY < p["memory_bytes"] < 2.2 * MEMORY
        assert 0 < p["cpus"] <= 1.2
    assert "bu|sy" in until(lambda: screen_of(slurm, busy, 3))


def screen_of(slurm, job, tasks):
    """A screen with all tasks; None when the step that was to look found its end before it had begun
    (4), or a node's first look came while its processes were not running."""
    screen = slurm.stoker("watch", "--once", job, rc=(0, 4))
    return screen.out if screen.rc == 0 and screen.out.count("perl -e") == tasks else None


def test_watch_ends_with_the_job(slurm, busy):
    """A script that watches a job would hang after its end."""
    until(lambda: at_work(slurm, busy))
    argv = [slurm_exec(slurm), "exec", STOKER, "watch", "--every", "0.5s", "--progress-every", "1s", busy]
    with subprocess.Popen(list(map(str, argv)), env=slurm.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as watch:
        first = watch.stdout.readline()
        assert re.match(r"runs on 2 nodes, \d+ processes, \d+ threads, time .*, CPU [\d.]+ of 3 CPUs busy", first), first
        slurm.run("scancel", busy)
        rest = watch.stdout.read()
    assert watch.returncode == 0
    assert rest.splitlines()[-1] in (f"job {busy}: cancelled", f"job {busy}: ended")


def test_a_heterogeneous_job_and_a_watch_that_is_killed(slurm, shared):
    """The parts of the job would not be shown; samplers would stay in it, and be shown as its own."""
    job = slurm.submit(shared, "-n1", ":", "-n2", wrap="srun --het-group=0,1 sleep 10000")
    slurm.wait(job, running=True)

    def parts():
        done = slurm.stoker("watch", "--once", "--every", "0.3s", "--json", "-", job, rc=(0, 4))
        nodes = done.json()["result"].get("nodes", [])
        tasks = [(n["part"], p["rank"]) for n in nodes for p in n["process"] if p["command"].endswith("sleep 10000")
                 and p["rank"] is not None]
        own = [p for n in nodes for p in n["process"] if "stoker" in p["command"]]
        assert not own
        return sorted(tasks) == [(0, 0), (1, 1), (1, 2)]

    until(parts)
    argv = [slurm_exec(slurm), "exec", STOKER, "watch", "--every", "0.3s", "--progress-every", "1s", "--lifeline",
            "5s", job]
    with subprocess.Popen(list(map(str, argv)), env=slurm.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout.readline()
        clients = subprocess.run(["pgrep", "-f", f"^srun --overlap --jobid={job} "], capture_output=True, text=True)
        watch.kill()
    for pid in clients.stdout.split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    until(parts)
    samplers = ["pgrep", "-f", f"watch --node-sample .* {job} --part="]
    until(lambda: not subprocess.run(samplers, capture_output=True).stdout)
    slurm.run("scancel", job)


def slurm_exec(slurm):
    return pathlib.Path(__file__).with_name("cluster")


def test_the_screen_ends_with_q(slurm, shared):
    """The terminal would be left unusable, or the helpers on the nodes running."""
    job = slurm.submit(shared, "-N2", "-n2", wrap="srun sleep 10000")
    slurm.wait(job, running=True)
    leader, follower = pty.openpty()
    argv = [slurm_exec(slurm), "exec", STOKER, "watch", "--every", "0.3s", job]
    with subprocess.Popen(list(map(str, argv)), env=slurm.env, stdin=follower, stdout=follower,
                          stderr=follower) as watch:
        os.close(follower)
        shown = b""
        while b"q: quit" not in shown or b"running" not in shown:
            shown += os.read(leader, 65536)
        os.write(leader, b"mq")
        try:
            while True:
                shown += os.read(leader, 65536)
        except OSError:
            pass  # the terminal's other end is closed
    os.close(leader)
    assert watch.returncode == 0
    assert b"running" in shown and b"\x1b[?1049h" in shown
    assert shown.rstrip().endswith(b"\x1b[?1049l")
    helpers = ["pgrep", "-f", f"watch --node-sample .* {job}$"]
    until(lambda: not subprocess.run(helpers, capture_output=True).stdout)
    slurm.run("scancel", job)


def test_a_suspended_job(slurm, shared):
    """Its steps do not run, whatever Slurm calls them; there is nothing to watch, and the reason is named."""
    job = slurm.submit(shared, "-n1", wrap="srun sleep 10000")
    slurm.wait(job, running=True)
    until(lambda: any(s["step"] == "0" for s in slurm.report(job)["steps"]))
    slurm.run("scontrol", "suspend", job)
    j = slurm.report(job)
    assert j["state"] == "suspended" and {s["state"] for s in j["steps"]} == {"suspended"}, j["steps"]
    done = slurm.stoker("watch", "--once", job, rc=4)
    assert f"job {job} is not running: it is suspended" in done.err
    slurm.run("scontrol", "resume", job)
    assert {s["state"] for s in slurm.report(job)["steps"]} == {"running"}
    slurm.run("scancel", job)


def test_the_job_of_another_user(slurm, shared):
    """"Permission denied" would leave the reader to guess whose permission, and what to do."""
    job = slurm.submit(shared, "-n1", "--uid=nobody", "-o", "/dev/null", "-D", "/", wrap="sleep 10000")
    slurm.wait(job, running=True)
    assert slurm.report(job)["user"] == "nobody"
    done = slurm.stoker("watch", "--once", job, rc=(0, 4))
    if done.rc:  # some Slurms let root
        assert "belongs to nobody" in done.err and "sudo -u" in done.err
    slurm.run("scancel", job)
