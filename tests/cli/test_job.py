"""`stoker job` on answers of a real Slurm that were kept: what was asked, got and used, why a job
waits, what to write next time; and what happens when a client fails, lies or is not there."""

import csv
import json

import pytest

from slurmlib import FakeSlurm

# Jobs of tests/slurm/capture.
TWO_NODES, STATUS, SEGV, ARRAY, MEMORY, LIMIT, CANCELLED, SERIAL, AGAIN = 21, 22, 23, 24, 27, 28, 29, 30, 31
RUNNING, HELD, AFTER, TOO_MANY, WAITS, TASKS = 33, 34, 35, 36, 37, 38


@pytest.fixture
def slurm(tmp_path):
    return FakeSlurm(tmp_path)


@pytest.fixture
def job(stoker, slurm):
    def run(*args, rc=0):
        return stoker("job", *args, rc=rc, env=slurm.env())
    return run


@pytest.fixture
def only(job):
    def run(*args):
        jobs = job(*args, "--json", "-").json()["result"]["jobs"]
        assert len(jobs) == 1
        return jobs[0]
    return run


def test_memory_is_the_sum_over_tasks_and_steps_at_once(only):
    """Somebody would take one task's memory for the job's, and ask for a quarter of what it needs."""
    j = only(TWO_NODES)
    batch, step = ({s["step"]: s for s in j["steps"]}[name] for name in ("batch", "0"))
    assert step["tasks"] == 4
    assert step["memory_bytes"] > 3.9 * 60e6 > step["task_memory_bytes"] > 60e6
    both = step["memory_bytes"] + batch["memory_bytes"]
    assert j["used"]["memory_bytes"] == both
    assert j["got"] == {"nodes": 2, "cpus": 4, "memory_bytes": 2000 << 20, "gpus": 4, "gpu_kind": "k80",
                        "billing": 4}
    assert j["used"]["memory_share"] == pytest.approx(both / (2000 << 20))


def test_a_name_with_line_ends_and_separators_is_one_name(only, job):
    """A job's name could pass for other fields, other jobs, or a command."""
    assert only(TWO_NODES)["name"] == "two\n|lines; $(reboot)"
    assert r"two\n|lines; $(reboot)" in job(TWO_NODES).out


@pytest.mark.parametrize("number, state, slurm_state, status, signal", [
    (TWO_NODES, "completed", "COMPLETED", 0, 0),
    (STATUS, "failed", "FAILED", 3, 0),
    (SEGV, "failed", "FAILED", 0, 11),
    (MEMORY, "out of memory", "FAILED", 0, 9),
    (LIMIT, "timeout", "TIMEOUT", 0, 0),
    (CANCELLED, "cancelled", "CANCELLED by 0", 0, 0),
])
def test_ends_are_told_apart(only, number, state, slurm_state, status, signal):
    """A job that died of memory or time would look like any other that failed."""
    j = only(number)
    assert (j["state"], j["slurm_state"], j["exit_status"], j["exit_signal"]) == (
        state, slurm_state, status, signal)


@pytest.mark.parametrize("number, reason, words", [
    (HELD, "JobHeldUser", "scontrol release"),
    (AFTER, "DependencyNeverSatisfied", "never start"),
    (TOO_MANY, "PartitionConfig", "never start"),
    (WAITS, "Resources", "waits for enough free resources"),
])
def test_a_pending_job_says_why_in_words(job, only, number, reason, words):
    """The user would not learn that a job can never start."""
    j = only(number)
    assert (j["state"], j["reason"], j["started"] is None or number == WAITS) == ("pending", reason, True)
    text = " ".join(job(number).out.split())
    assert reason in text and words in text


def test_a_requeued_job_is_not_at_its_end(only, job):
    """A study would take the first life of a job for its result."""
    j = only(AGAIN)
    assert (j["state"], j["restarts"]) == ("requeued", 1)
    assert j["ended"] is None
    text = job(AGAIN).out
    assert "BeginTime" in text and "\n  got " not in text and "\n  ran " not in text


def test_a_running_job_shows_what_it_used_so_far_and_its_gpus(only, job):
    """sacct knows nothing of a job before its end: it would seem to use nothing."""
    j = only(RUNNING)
    assert j["state"] == "running"
    assert [(g["nodes"], g["kind"], g["ids"]) for g in j["gpu_ids"]] == [("node1", "k80", "0"),
                                                                       ("node2", "k80", "0")]
    assert {s["step"]: s["memory_bytes"] for s in j["steps"]}["0"] == 319184896 and j["used"]["cpu_s"] == 6
    assert "so far" in job(RUNNING).out and "node2: 1 x k80, id 0" in job(RUNNING).out


def test_arrays_give_a_row_a_task(job):
    """The state of an array would be that of one of its tasks."""
    result = job(ARRAY, "--json", "-").json()["result"]
    tasks = {j["array_task"]: j["state"] for j in result["jobs"]}
    assert tasks == {0: "completed", 1: "completed", 2: "failed", 3: "completed"}
    assert all(j["array"] == ARRAY for j in result["jobs"])
    rows = job(ARRAY).out.splitlines()
    assert [r.split()[0] for r in rows[1:5]] == ["24_0", "24_1", "24_2", "24_3"]
    assert job(f"{ARRAY}_2", "--json", "-").json()["result"]["jobs"][0]["state"] == "failed"
    some = job(f"{ARRAY}_[1-3:2,0%2]", "--json", "-").json()["result"]["jobs"]
    assert sorted(j["array_task"] for j in some) == [0, 1, 3]  # sacct itself takes no such list
    assert "not a job id" in job(f"{ARRAY}_[1-", rc=2).err
    waiting = job(TASKS, "--json", "-").json()["result"]["jobs"][0]
    assert (waiting["job"], waiting["state"], waiting["array"]) == ("38_[1-8]", "pending", TASKS)


def test_the_next_batch_file(job, only):
    """The user would have to work out the lines to change."""
    lines = {n["line"]: n["why"] for n in only(SERIAL, "--advise-from", "1s")["next"]}
    assert "#SBATCH --ntasks=1" in lines  # four were asked for, no srun started them
    assert "#SBATCH --mem-per-cpu=150M" in lines  # for the one CPU that is left
    assert "#SBATCH --time=00:05:00" in lines
    assert "no srun" in lines["#SBATCH --ntasks=1"]
    assert [n["line"] for n in only(MEMORY)["next"]] == ["#SBATCH --mem=750M"]
    assert "half as much again, rounded up" in only(MEMORY)["next"][0]["why"]
    assert [n["line"] for n in only(LIMIT)["next"]] == ["#SBATCH --time=00:05:00"]
    assert only(SERIAL)["next"] == []  # five seconds are not typical
    assert "#SBATCH --time=00:05:00" in job(LIMIT).out


HAND = {"JobID": "90", "JobIDRaw": "90", "Submit": "1794742519", "Start": "1794742520", "End": "1794750000",
        "ElapsedRaw": "7480", "TimelimitRaw": "240", "ReqTRES": "cpu=8,mem=64G,node=1",
        "AllocTRES": "cpu=8,gres/gpu:a100=2,mem=64G,node=1", "ExitCode": "0:0", "State": "COMPLETED",
        "TotalCPU": "16:00:00", "User": "u", "NodeList": "n1", "JobName": "hand"}
BATCH = HAND | {"JobID": "90.batch", "JobIDRaw": "90.batch", "NTasks": "1", "JobName": "batch"}


@pytest.mark.parametrize("word, state", [
    ("OUT_OF_MEMORY", "out of memory"), ("NODE_FAIL", "node fail"), ("BOOT_FAIL", "node fail"),
    ("PREEMPTED", "preempted"), ("DEADLINE", "timeout"), ("CANCELLED by 1000", "cancelled"),
    ("REQUEUED", "requeued"), ("RESIZING", "running"), ("SOMETHING_NEW", "unknown"),
])
def test_states_that_a_small_cluster_does_not_make(only, slurm, word, state):
    """(Made by hand.) A state of a large cluster would not be understood."""
    slurm.add_rows("sacct", [HAND | {"State": word}])
    assert only(90)["state"] == state


def test_what_was_not_recorded_is_not_zero(only, slurm):
    """(Made by hand.) Where Slurm counts no CPU time a job would be told to ask for one CPU."""
    slurm.add_rows("sacct", [HAND | {"TotalCPU": "00:00:00"}, BATCH | {"TotalCPU": "00:00:00"}])
    j = only(90)
    assert (j["used"]["cpu_s"], j["used"]["cpus_busy"], j["steps"][0]["cpu_s"]) == (None, None, None)
    assert not [n for n in j["next"] if "cpus" in (n["line"] or "")]


def test_a_killed_job_is_not_idle(only, job, slurm):
    """(Made by hand.) A job at its time limit would be told that it needs one CPU and less memory."""
    slurm.add_rows("sacct", [HAND | {"State": "TIMEOUT", "TotalCPU": "00:00.002"},
                             BATCH | {"State": "CANCELLED", "ExitCode": "0:15", "TotalCPU": "00:00.002",
                                      "TRESUsageInTot": "cpu=00:00:00,mem=2G"}])
    j = only(90)
    assert (j["used"]["cpu_s"], j["used"]["cpus_busy"], j["steps"][0]["cpu_s"]) == (None, None, None)
    assert j["used"]["memory_bytes"] == 2 << 30
    assert [(d["figure"], d["worth"]) for d in j["doubts"]] == [("cpu", "unknown"), ("gpu", "unknown"),
                                                              ("files", "unknown")]
    assert [n["line"] for n in j["next"]] == ["#SBATCH --time=08:00:00", None]
    assert "CPU     unknown: it was killed" in job(90).out
    slurm.add_rows("sacct", [HAND | {"JobID": "91", "JobIDRaw": "91", "State": "TIMEOUT", "TotalCPU": "02:00:00"}])
    assert "at least 0.96 of 8 CPUs busy" in job(91).out
    assert only(91)["doubts"][0]["worth"] == "at least"
    rows = [r for r in job(90, 91).out.splitlines() if "timeout" in r]
    assert ">12.0 %" in rows[1] and "-" in rows[0].split()


def test_a_step_that_was_killed_for_memory(only, job, slurm):
    """(Made by hand.) The job completed, so nobody would learn that a step had too little memory."""
    slurm.add_rows("sacct", [HAND, BATCH, BATCH | {
        "JobID": "90.0", "JobIDRaw": "90.0", "State": "CANCELLED by 0", "ExitCode": "0:9", "JobName": "prog",
        "AllocTRES": "cpu=8,mem=64G,node=1", "TRESUsageInTot": "mem=70G"}])
    j = only(90)
    assert (j["state"], j["steps"][1]["state"]) == ("completed", "out of memory")
    assert j["next"][0]["line"] == "#SBATCH --mem=105G" and "step 0 was killed" in j["next"][0]["why"]
    assert "completed but step 0 was killed for memory" in job(90).out


def test_a_step_that_failed_in_a_job_that_completed(job, slurm):
    """(Made by hand.) A script that ignores the status of its program would be told that all is well."""
    bad = BATCH | {"JobID": "90.0", "JobIDRaw": "90.0", "State": "FAILED", "ExitCode": "3:0", "JobName": "prog"}
    slurm.add_rows("sacct", [HAND, BATCH, bad])
    assert "completed but step 0 did not (failed, exit status 3)" in job(90).out
    slurm.add_rows("sacct", [bad | {"JobID": "90.1", "JobIDRaw": "90.1"}])
    assert "completed but step 0 and 1 more did not (failed" in job(90).out


def test_large_and_small_costs_are_plain_numbers(job, slurm):
    """(Made by hand.) "3.07e+03 core-hours" would have to be read twice."""
    slurm.add_rows("sacct", [HAND | {"ElapsedRaw": "86400", "AllocTRES": "cpu=128,mem=64G,node=1"},
                             HAND | {"JobID": "91", "JobIDRaw": "91", "ElapsedRaw": "1", "AllocTRES": "cpu=1,node=1"}])
    assert "cost    3072 core-hours, 3072 SU" in job(90).out
    assert "cost    0.0002778 core-hours, 0.0002778 SU" in job(91).out
    assert "e+" not in job(90, 91).out and "e-0" not in job(90, 91).out


def test_who_cancelled_a_job(only, job):
    """The owner would look for the reason in the job."""
    assert only(CANCELLED)["cancelled_by"] == "root" and "cancelled by root" in job(CANCELLED).out


def test_a_held_job_does_not_wait_for_its_turn(only, job):
    """A job that its owner holds would seem to wait in a long queue."""
    assert only(HELD)["waited_s"] is None and only(WAITS)["waited_s"] > 0
    assert "not yet: it is not eligible" in job(HELD).out


def test_ids_of_gpus_are_gone_with_the_job(job):
    """The user would think that the job had no GPUs of its own."""
    assert "ids unknown: Slurm keeps them only while a job runs" in job(TWO_NODES).out


def test_a_job_that_never_began_got_nothing(job, slurm):
    """Nodes that a job would have begun on would be told as those it had."""
    slurm.fails("sacct", "Slurm accounting storage is disabled\n")
    slurm.fails("squeue", "slurm_load_jobs error: Invalid job id specified\n")
    with open(slurm.folder / "scontrol.txt", "a") as file:
        file.write("JobId=91 JobName=x\n   UserId=u(1) GroupId=u(1) MCS_label=N/A\n"
                   "   JobState=DEADLINE Reason=DeadLine Dependency=(null)\n   RunTime=00:00:00\n   StartTime=1794742519\n   NodeList= SchedNodeList=n[1-4]\n"
                   "   TRES=cpu=16,mem=8000M,node=4\n")
    out = job(91).out
    assert "\n  ran " not in out
    assert "asked  4 nodes, 16 CPUs, 7.81 GiB" in out and "\n  got " not in out


def test_one_part_of_a_heterogeneous_job(job, slurm):
    """(Made by hand.) squeue names all parts where one is asked for: a line would stand for the wrong one."""
    slurm.add_rows("sacct", [HAND | {"JobID": f"90+{i}", "JobIDRaw": str(90 + i)} for i in range(2)])
    assert "job 90+1 " in job("90+1").out
    assert [row.split()[0] for row in job("90+1", "90+0").out.splitlines()[1:3]] == ["90+0", "90+1"]
    j = job("90+1", "--json", "-").json()["result"]["jobs"][0]
    assert (j["het"], j["het_part"], j["array_task"]) == (90, 1, None)
    slurm.fails("sacct", "Slurm accounting storage is disabled\n")
    with open(slurm.folder / "scontrol.txt", "a") as file:
        file.write("".join(f"JobId={92 + i} HetJobId=92 HetJobOffset={i} JobName=x\n   UserId=u(1)\n"
                           "   JobState=RUNNING Reason=None Dependency=(null)\n" for i in range(2)))
    assert [j["job"] for j in job("92", "--json", "-").json()["result"]["jobs"]] == ["92+0"]


def test_many_ids_are_asked_for_in_parts(job, slurm):
    """A list of thousands would stall the database, or be too long for a command line."""
    job(*range(1000, 1999), TWO_NODES, "200_[1-300]", rc=3)
    lists = [c[c.index("-j") + 1].split(",") for c in slurm.calls() if c[0] == "sacct"]
    assert [len(ids) for ids in lists] == [500, 500, 300]


def test_units_gpus_energy_and_time_as_other_sites_record_them(only, slurm, job):
    """(Made by hand, after the manual.) Suffixes, GPU use and energy would be dropped."""
    use = "cpu=15:59:00,energy=7200000,gres/gpumem=20G,gres/gpuutil=150,mem=12.50G"
    slurm.add_rows("sacct", [HAND | {"ConsumedEnergyRaw": "7200000"},
                             BATCH | {"TRESUsageInTot": use, "TRESUsageInAve": "gres/gpuutil=9",
                                      "MaxRSS": "12.50G", "AllocTRES": HAND["AllocTRES"]}])
    j = only(90)
    assert j["used"]["memory_bytes"] == int(12.5 * 2**30)
    assert (j["used"]["gpu_util"], j["used"]["gpu_memory_bytes"]) == (0.09, 20 << 30)
    assert j["used"]["energy_joules"] == 7200000 and j["limit_s"] == 240 * 60
    assert j["used"]["cpus_busy"] == pytest.approx(16 * 3600 / 7480)
    text = job(90).out
    assert "2 kWh" in text and "2 GPUs (a100)" in text
    assert [n["line"] for n in j["next"]] == ["#SBATCH --mem=15G", "#SBATCH --time=02:30:00", None]
    assert "busy 9 %" in j["next"][2]["why"]


def test_without_accounting_the_controller_is_asked(only, job, slurm):
    """At a site without slurmdbd there would be no report at all."""
    slurm.fails("sacct", "Slurm accounting storage is disabled\n")
    j = only(STATUS)
    assert (j["state"], j["exit_status"], j["got"]["cpus"]) == ("failed", 3, 1)
    text = " ".join(job(STATUS).out.split())
    assert "sacct gave no answer (Slurm accounting storage is disabled)" in text
    assert "what jobs used" in text
    missing = job(STATUS, "--json", "-").json()["result"]["missing"]
    assert [m["client"] for m in missing] == ["sacct"]


def test_a_job_that_the_controller_forgot_is_in_the_accounting(only, slurm):
    """Minutes after its end a job would be unknown."""
    words = "slurm_load_jobs error: Invalid job id specified\n"
    for name in ("squeue", "scontrol"):
        slurm.fails(name, words)
    assert only(TWO_NODES)["state"] == "completed"
    assert only(TWO_NODES)["gpu_ids"] == []


def test_unknown_jobs_are_named(job):
    """A wrong number among several would be passed over in silence."""
    r = job(STATUS, 999, rc=3)
    assert "job 999: Slurm does not know it" in r.err and "failed" in r.out
    assert "999" in job(999, rc=4).err


def test_slurm_that_is_not_there_or_does_not_answer(job, slurm, stoker):
    """The user would look for the fault in stoker."""
    for name in ("sacct", "squeue", "scontrol"):
        slurm.fails(name, f"{name}: error: Unable to contact slurm controller (connect failure)\n")
    assert "Unable to contact slurm controller" in job(STATUS, rc=4).err
    for name in ("sacct", "squeue", "scontrol", "sstat"):
        slurm.remove(name)
    empty = slurm.env() | {"PATH": str(slurm.bin)}
    r = stoker("job", "1", rc=4, env=empty)
    assert "not found" in r.err and "slurm-client" in r.err


def test_a_client_that_hangs_is_ended(job, slurm):
    """A dead controller would hold the user's terminal for minutes."""
    (slurm.folder / "sacct.sleep").write_text("10000")
    # The others answer in time, on a busy machine not in a second.
    for seconds in (1, 10, 100):
        r = job(STATUS, "--timeout", f"{seconds}s", rc=(0, 4))
        if r.rc == 0:
            break
    said = " ".join(r.out.split())
    assert "sacct gave no answer" in said and f"within {seconds} s" in said


def test_arguments_reach_no_shell_and_no_option(job, slurm):
    """A job id could be an option of sacct, or a command."""
    for bad in ("1;reboot", "$(reboot)", "--allusers", "1 2", "", "x", "1.0", "-1"):
        r = job("--", bad, rc=2)
        assert "is not a job id" in r.err or "which job" in r.err
    assert slurm.calls() == []
    assert "either" in job("1", "--me", rc=2).err
    assert "--since" in job("--me", "--since", "yesterday-ish", rc=2).err
    assert "in the future" in job("--me", "--since", "2999-01-01", rc=2).err
    assert 'no user "nosuch"' in job("--user", "nosuch", rc=2).err
    assert slurm.calls() == []


def test_my_jobs_since(job, slurm):
    """--me would show nothing, or everybody's jobs."""
    rows = job("--me", "--since", "2026-11-15").out.splitlines()
    assert len(rows) > 15
    sacct = next(c for c in slurm.calls() if c[0] == "sacct")
    assert sacct[sacct.index("-S") + 1] == "2026-11-15T00:00:00"
    assert sacct[sacct.index("-u") + 1].isdigit()


def test_totals_of_many_jobs(job, slurm, tmp_path):
    """Support would add up core-hours by hand, and count killed work as idle."""
    result = job("--me", "--since", "2026-11-15", "--json", "-").json()["result"]
    totals, jobs = result["totals"], result["jobs"]
    assert totals["by_state"] == {s: sum(j["state"] == s for j in jobs) for s in totals["by_state"]}
    assert sum(totals["by_state"].values()) == totals["jobs"] == len(jobs)
    ran = [j for j in jobs if j["got"]["cpus"] and j["elapsed_s"]]
    hours = {j["job"]: j["got"]["cpus"] * j["elapsed_s"] / 3600 for j in ran}
    assert totals["core_hours"] == pytest.approx(sum(hours.values()))
    known = [j for j in ran if j["used"]["cpu_s"] is not None and j["state"] != "out of memory"]
    used = sum(j["used"]["cpu_s"] for j in known) / 3600
    assert totals["core_hours_used"] == pytest.approx(used)
    assert totals["core_hours_idle"] == pytest.approx(sum(hours[j["job"]] for j in known) - used)
    assert totals["core_hours_unknown"] == pytest.approx(sum(hours[str(n)] for n in (MEMORY, LIMIT, CANCELLED)))
    assert set(totals["not_completed"]) == {"24_2", "22", "23", "27", "28", "29"}
    assert totals["su"] == pytest.approx(sum((j["got"]["cpus"] + 2 * j["got"]["gpus"]) * j["elapsed_s"] for j in ran) / 3600)
    text = job(ARRAY).out
    assert "4 jobs: 3 completed, 1 failed" in text and "not completed  24_2" in text


def test_some_of_many_jobs_in_order(job, slurm, tmp_path):
    """A job that went wrong would have to be found in a table of a thousand."""
    def labels(*args):
        result = job("--me", "--since", "2026-11-15", *args, "--json", "-").json()["result"]
        return [j["job"] for j in result["jobs"]]

    assert labels("--state", "FAILED,out-of-memory", "--sort", "job") == ["22", "23", "27", "24_2"]
    assert labels("--name", "[lc]*", "--sort", "time") == ["28", "29"]
    assert labels("--partition", "gpu,other") == [] and "24_0" in labels("--partition", "gpu,main")
    assert "24_2" not in labels("--until", "2026-11-15T11:35:20", "--state", "failed")  # it began a second later
    sacct = next(c for c in slurm.calls() if c[0] == "sacct" and "-E" in c)
    assert sacct[sacct.index("-E") + 1] == "2026-11-15T11:35:20"
    table = tmp_path / "jobs.csv"
    job("--me", "--since", "2026-11-15", "--sort", "su", "--csv", table)
    rows = list(csv.DictReader(table.open(newline="")))
    assert (rows[0]["job"], rows[0]["name"], rows[0]["cpus"]) == ("21", "two\n|lines; $(reboot)", "4")
    assert rows[0]["elapsed_s"] == "6"  # scripts of the shell compute with it
    assert float(rows[0]["su"]) == pytest.approx((4 + 2 * 4) * 6 / 3600)
    killed = next(r for r in rows if r["job"] == str(LIMIT))
    assert (killed["cpu_s"], killed["cpu_worth"], killed["memory_worth"]) == ("", "unknown", "known")
    assert "--state" in job("--me", "--state", "nonsense", rc=2).err
    assert "--sort" in job("--me", "--sort", "nonsense", rc=2).err
    assert "--su-weights" in job("--me", "--su-weights", "core=x", rc=2).err
    assert "before --since" in job("--me", "--since", "1d", "--until", "2d", rc=2).err


def test_what_a_job_cost(only):
    """The owner of an allocation would not learn what a job took of it."""
    cost = only(TWO_NODES, "--su-weights", "core=1.5,gpu=10,node=3")["cost"]
    assert cost["core_hours"] == pytest.approx(4 * 6 / 3600) and cost["gpu_hours"] == pytest.approx(4 * 6 / 3600)
    assert cost["su"] == pytest.approx((1.5 * 4 + 10 * 4 + 3 * 2) * 6 / 3600)
    assert only(LIMIT)["cost"]["core_hours_idle"] is None and only(HELD)["cost"]["su"] == 0


def profile_of(folder, job):
    """A profile of two tasks on one node, and one on another."""
    folder.mkdir()
    head = "at_s,processes,threads,cpu_cores,iowait_cores,resident_bytes,cache_bytes,gpu_util,gpu_memory_bytes\n"
    for pid, (host, cpus) in enumerate((("node1", 1), ("node1", 0.5), ("node2", 2))):
        (folder / f"run.{host}.{pid}.json").write_text(json.dumps(
            {"stoker": 1, "host": host, "pid": pid, "job": str(job), "scheduler": "slurm", "cores": 4, "gpus": 1,
             "gpu_kind": "k80", "exit_status": 0, "start_real_ns": 1794742519 * 10**9, "end_s": 3,
             "command": ["x"]}))
        (folder / f"samples.{host}.{pid}.csv").write_text(head + "".join(
            f"{at}.2,1,1,{cpus},0,{(at + 1) * 100},0,0.5,1000\n" for at in range(3)))
    return folder


def test_figures_per_node_from_a_profile(only, job, slurm, tmp_path):
    """Slurm has none: an idle node among busy ones would stay unseen."""
    profile = profile_of(tmp_path / "profile", TWO_NODES)
    nodes = {n["host"]: n for n in only(TWO_NODES, "--profile", profile)["nodes"]}
    assert {h: n["cpus_busy"] for h, n in nodes.items()} == {"node1": pytest.approx(1.5), "node2": pytest.approx(2)}
    assert (nodes["node1"]["memory_bytes"], nodes["node2"]["memory_bytes"]) == (600, 300)
    assert (nodes["node1"]["gpus"], nodes["node1"]["gpu_util"], nodes["node1"]["gpu_memory_bytes"]) == (1, 0.5, 1000)
    assert ["node1", "1.5", "4"] in [row.split()[:3] for row in job(TWO_NODES, "--profile", profile).out.splitlines()]
    assert "profile of job 21, not of 22" in job(STATUS, "--profile", profile, rc=2).err
    assert "for one job" in job(ARRAY, "--profile", profile, rc=2).err
    # By the name that `stoker profile` gives it, in the job's folder.
    slurm.add_rows("sacct", [HAND | {"WorkDir": str(tmp_path)}])
    profile_of(tmp_path / "stoker-profile-x-90.0", 90)
    profile_of(tmp_path / "stoker-profile-x-190.0", 190)
    assert len(only(90)["nodes"]) == 2 and only(TWO_NODES)["nodes"] == []
    # One that cannot be read is not absent.
    (tmp_path / "stoker-profile-x-90.0").rename(tmp_path / "moved")
    (tmp_path / "stoker-profile-x-90.0").write_text("no folder")
    assert "figures per node of a profile are missing: " in job(90).err


def test_tables_fit_a_terminal_of_80_columns(job, slurm):
    """Every second line would be the rest of the one before."""
    slurm.add_rows("sacct", [HAND | {"JobName": "a-name-that-is-much-longer-than-a-column-may-be",
                                     "State": "OUT_OF_MEMORY"},
                             BATCH | {"JobName": "a-program-with-a-long-name", "State": "OUT_OF_MEMORY"}])
    for out in (job(90).out, job(90, TWO_NODES, AFTER, TOO_MANY).out):
        assert max(map(len, out.splitlines())) <= 80
    assert "a-name-" in out and "pending" in out


def test_our_own_step_is_not_the_jobs(only, slurm):
    """A job that was watched would be told that it used what `stoker watch` did."""
    step = BATCH | {"NTasks": "1", "AllocTRES": "cpu=1,node=1", "TotalCPU": "01:00:00"}
    slurm.add_rows("sacct", [HAND | {"TotalCPU": "02:00:00"}, step | {"TRESUsageInTot": "mem=1G"},
                             step | {"JobID": "90.0", "JobIDRaw": "90.0", "JobName": "stoker-watch",
                                     "TRESUsageInTot": "mem=5G"}])
    j = only(90)
    assert (j["used"]["memory_bytes"], j["used"]["cpu_s"]) == (1 << 30, 3600)
    assert [s["program"] for s in j["steps"]] == ["batch", "stoker-watch"]


@pytest.mark.parametrize("args", [(TWO_NODES,), (LIMIT, "--advise-from", "1s"), (HELD,), (RUNNING,), (ARRAY, STATUS)])
def test_a_saved_result_is_drawn_again(job, stoker, tmp_path, args):
    """The screen would show what --json does not have."""
    out = job(*args, "--json", tmp_path / "job.json").out
    assert len(out.splitlines()) > 4 and stoker("report", tmp_path / "job.json").out == out


def test_separators_cannot_be_guessed(job, slurm):
    """A job's name that holds the separator could forge the fields of another job."""
    job(STATUS)
    job(STATUS)
    used = [w for c in slurm.calls() if c[0] == "sacct" for w in c if w.startswith("--delimiter=")]
    assert len(set(used)) == 2 and all(len(w) > 30 for w in used)


def test_watch_says_that_a_job_does_not_run(stoker, slurm):
    """Somebody would wait for a screen of a job that has ended."""
    env = slurm.env()
    assert "it is failed" in stoker("watch", STATUS, rc=4, env=env).err
    assert "it is pending, JobHeldUser" in stoker("watch", HELD, rc=4, env=env).err
    assert "does not know job 999" in stoker("watch", 999, rc=4, env=env).err
    assert "not a job id" in stoker("watch", "x;y", rc=2, env=env).err
