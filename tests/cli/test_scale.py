"""stoker scale -- CMD: programs of known law are recovered, faults are marked and survived, and what
is run is what was asked for."""

import concurrent.futures
import json
import math
import os
import re
import signal
import subprocess

import pytest

from conftest import STOKER, clean_env, until
from profilelib import compiled, needs_command

SEEDS = range(20)
T1_MS = 30  # of the program of known law
LAW = ("../scale/programs/law.c", "-O2", "-static")
ROOT_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}


def scale(stoker, folder, *args, **more):
    """(the JSON result, the run); the study goes to folder/study."""
    file = folder / "result.json"
    run = stoker("scale", "-o", folder / "study", "--json", file, *args, **more)
    return json.loads(file.read_text())["result"], run


def sh(script):
    return ["--", "sh", "-c", script]


def points(result):
    return {p["n"]: p for p in result["series"][0]["points"]}


# ---- programs of known law -----------------------------------------------------------------


def curve(numbers, a, b):
    return {n: (1 - a) / n + a + b * (n - 1) for n in numbers}


def study_of_law(stoker, folder, seed, numbers, a, b):
    """A study of a program that says times as the law has them, with some noise. It waits as long as it
    says, and a busy machine makes it late: what it says counts."""
    folder.mkdir()
    result, _ = scale(stoker, folder, "--n", ",".join(map(str, numbers)), "--runs", "4", "--warmup", "0",
                      "--seed", seed, "--metric", "waited ([0-9.]+)", "--better", "lower", "--",
                      compiled(*LAW), "{n}", T1_MS, a, b, 0.003, seed, folder / "count")
    assert all(r["wall_s"] >= r["value"] for r in lines(folder / "study"))
    return result["series"][0]


def balanced(t, within):
    """Every N that is nearly the best compromise, from the true curve."""
    worth = {n: (t[1] / t[n]) ** 2 / n for n in t}
    return {n for n in worth if worth[n] > max(worth.values()) * (1 - within)}


def near(value, truth):
    return abs(value / truth - 1) <= 0.05


def check_amdahl(stoker, folder, seed):
    f = 0.15 + 0.01 * (seed % 10)
    s = study_of_law(stoker, folder, seed, [1, 2, 4, 8, 16], f, 0)
    fit, t = s["laws"]["amdahl"], curve([1, 2, 4, 8, 16], f, 0)
    assert s["laws"]["chosen"] == "amdahl", s["laws"]
    assert near(fit["serial"], f) and near(fit["t1"], T1_MS / 1000), (f, fit)
    assert s["recommended"]["fastest"]["n"] == 16
    assert s["recommended"]["balanced"]["n"] in balanced(t, 0.04), s["recommended"]


def check_usl(stoker, folder, seed):
    a, b = 0.12 + 0.01 * (seed % 5), 0.008 + 0.001 * (seed % 4)
    numbers = [1, 2, 4, 8, 16, 32]
    s = study_of_law(stoker, folder, seed, numbers, a, b)
    fit, t = s["laws"]["usl"], curve(numbers, a, b)
    assert s["laws"]["chosen"] == "usl", s["laws"]
    assert near(fit["serial"], a) and near(fit["coherence"], b), (a, b, fit)
    peak = math.sqrt((1 - a) / b)
    assert abs(math.log2(fit["peak_n"] / peak)) < 0.5, (peak, fit)
    best = min(t.values())
    assert s["recommended"]["fastest"]["n"] in {n for n in t if t[n] < best * 1.02}
    assert s["recommended"]["balanced"]["n"] in balanced(t, 0.04), s["recommended"]


def test_known_laws_are_recovered(stoker, tmp_path):
    """The whole answer would be wrong: a serial part that is not there, a peak somewhere else."""
    compiled(*LAW)  # once, not by four at a time
    checks = [(check, seed) for check in (check_amdahl, check_usl) for seed in SEEDS]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they mostly wait
        done = [pool.submit(check, stoker, tmp_path / f"{check.__name__}{seed}", seed)
                for check, seed in checks]
    wrong = {c: d.exception() for c, d in zip(checks, done) if d.exception()}
    assert not wrong, "\n".join(f"{c.__name__}({s}): {e}" for (c, s), e in wrong.items())


# ---- what is run ---------------------------------------------------------------------------


def test_marks_and_threads(stoker, tmp_path):
    """The program would run with other threads, on other cores, than the table says."""
    log = tmp_path / "log"
    result, run = scale(stoker, tmp_path, "--n", "1,2", "--threads", "--oversubscribe", "--runs", "2",
                        "--warmup", "0", "--weak", "--size", "10",
                        *sh(f"echo {{n}} {{size}} $OMP_NUM_THREADS $MKL_NUM_THREADS $(nproc) {{x}} >> {log}"))
    cores = min(2, len(os.sched_getaffinity(0)))
    lines = log.read_text().splitlines()
    assert sorted(lines) == ["1 10 1 1 1 {x}"] * 2 + [f"2 20 2 2 {cores} {{x}}"] * 2
    assert result["study"]["unit"] == "threads" and result["study"]["weak"] is True
    assert {p["n"]: p["cores"] for p in result["series"][0]["points"]} == {1: 1, 2: 2}
    assert "seed 1" in run.out and str(tmp_path / "study") in run.out


def test_words_are_not_for_a_shell(stoker, tmp_path):
    """A file name with a semicolon would be run."""
    word = "; touch hacked $(touch hacked) '\"\\ {n}"
    result, _ = scale(stoker, tmp_path, "--n", "3", "--runs", "1", "--metric", "words ([0-9]+)",
                      "--better", "lower", "--", "/usr/bin/python3", "-c",
                      "import sys; print('words', len(sys.argv)); open('argv', 'w').write(sys.argv[1])",
                      word, cwd=tmp_path)
    assert points(result)[3]["value"] == 2
    assert (tmp_path / "argv").read_text() == word.replace("{n}", "3")
    assert not (tmp_path / "hacked").exists()


def test_gpus_are_those_that_can_be_seen(stoker, tmp_path):
    """Two runs would share a GPU that neither was given."""
    log = tmp_path / "log"
    result, _ = scale(stoker, tmp_path, "--n", "1,3", "--gpus", "--runs", "1", "--warmup", "0",
                      *sh(f"echo {{n}} $CUDA_VISIBLE_DEVICES >> {log}"),
                      env={"CUDA_VISIBLE_DEVICES": "2,GPU-abc,0,1"})
    assert sorted(log.read_text().splitlines()) == ["1 2", "3 2,GPU-abc,0"]
    assert points(result)[3]["gpus"] == 3 and result["study"]["unit"] == "GPUs"
    few = stoker("scale", "--n", "5", "--gpus", "--", "true", rc=2, cwd=tmp_path,
                 env={"CUDA_VISIBLE_DEVICES": "2,1"})
    assert "N=5 needs as many GPUs, and 2 are visible" in few.err


def test_prepare_is_not_timed(stoker, tmp_path):
    """The download would count as training."""
    log = tmp_path / "log"
    now = "$(cut -d ' ' -f 1 /proc/uptime)"
    scale(stoker, tmp_path, "--n", "1,2", "--runs", "2", "--warmup", "1",
          "--prepare", f"echo begin {{n}} {now} >> {log}; sleep 0.5; echo prepared {{n}} {now} >> {log}",
          *sh(f"echo run {{n}} >> {log}"))
    said = [line.split() for line in log.read_text().splitlines()]
    rounds = list(zip(said[::3], said[1::3], said[2::3]))
    assert len(rounds) == 5  # a warm-up and four runs, each prepared
    assert all([w[0] for w in r] == ["begin", "prepared", "run"] and len({w[1] for w in r}) == 1 for r in rounds)
    # A run is over before the next is prepared; what was before it would be half a second too much.
    between = [float(after[0][2]) - float(this[1][2]) for this, after in zip(rounds[1:], rounds[2:])]
    assert all(r["wall_s"] < took + 0.1 for r, took in zip(lines(tmp_path / "study"), between))


def test_metric(stoker, tmp_path):
    """A rate would be taken for a time, or the first line of the log for the last."""
    script = "echo warming up, images/s: 1; echo images/s: $(({n} * 100)); echo done"
    result, run = scale(stoker, tmp_path, "--n", "1,2,4", "--metric", "images/s: ([0-9.]+)", *sh(script))
    assert result["study"]["metric"] == "images/s" and result["study"]["higher_is_better"] is True
    assert [p["speedup"] for p in points(result).values()] == [1, 2, 4]
    assert "images/s, higher is better" in run.out
    (tmp_path / "after").mkdir()  # the unit behind the number tells, too
    result, _ = scale(stoker, tmp_path / "after", "--n", "1,2", "--runs", "1", "--warmup", "0", "--metric",
                      "([0-9.]+) it/s", *sh("echo {n}0 it/s"))
    assert result["study"]["higher_is_better"] is True and points(result)[2]["speedup"] == 2
    (tmp_path / "b").mkdir()
    result, _ = scale(stoker, tmp_path / "b", "--n", "1,2", "--runs", "1", "--metric", "t=([0-9.]+)",
                      "--better", "lower", "--match", "median", *sh("echo t=1 t=5 t={n}0"))
    assert {n: p["value"] for n, p in points(result).items()} == {1: 5, 2: 5}
    (tmp_path / "long").mkdir()  # the first of a long output is not the first of its end
    result, _ = scale(stoker, tmp_path / "long", "--n", "1", "--runs", "1", "--warmup", "0", "--metric",
                      "t=([0-9.]+)", "--match", "first", "--better", "lower",
                      *sh("echo t={n}1; head -c 17000000 /dev/zero; echo; echo t=5"))
    assert points(result)[1]["value"] == 11
    (tmp_path / "c").mkdir()
    result, _ = scale(stoker, tmp_path / "c", "--n", "1,2", "--runs", "1", "--metric", "t=([a-z0-9]+)",
                      "--better", "lower", *sh("[ {n} = 1 ] && echo t=7 || echo t=never"), rc=3)
    assert points(result)[2]["runs"] == 0
    assert "the metric is not in its output" in points(result)[2]["failure_note"]


# ---- faults --------------------------------------------------------------------------------


def test_an_n_that_fails_is_marked_and_the_rest_goes_on(stoker, tmp_path):
    """Hours of runs would be lost to one N that does not fit into memory."""
    result, run = scale(stoker, tmp_path, "--n", "1,2,4", "--runs", "3",
                        *sh("[ {n} = 2 ] && { echo no memory for {n}; exit 3; }; sleep 0.05"), rc=3)
    p = points(result)
    assert (p[1]["runs"], p[2]["runs"], p[4]["runs"]) == (3, 0, 3)
    assert p[2]["failed_runs"] == 2  # twice is enough
    assert "exit status 3; its last line: no memory for 2" in p[2]["failure_note"]
    assert (tmp_path / "study/output/n2-r0.txt").read_text() == "no memory for 2\n"
    assert "output/n2-r0.txt" in run.out


def is_gone(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_run_that_hangs(stoker, tmp_path):
    """The study would hang with it, or leave its children behind."""
    pid = tmp_path / "pid"
    # What does not hang ends in time, on a busy machine not in three seconds.
    for seconds in (3, 60):
        (tmp_path / str(seconds)).mkdir()
        result, _ = scale(stoker, tmp_path / str(seconds), "--n", "1,2", "--runs", "2", "--timeout", seconds,
                          "--warmup", "0", *sh(f"[ {{n}} = 1 ] || {{ sleep 98765 & echo $! > {pid}; wait; }}"),
                          rc=3)
        p = points(result)
        if p[1]["runs"] == 2:
            break
    assert p[1]["runs"] == 2 and (p[2]["runs"], p[2]["failed_runs"]) == (0, 1)
    assert f"{seconds}.0" in p[2]["failure_note"]
    until(lambda: is_gone(pid.read_text().strip()))  # a killed process ends when it is scheduled


def test_what_makes_no_sense_is_refused_before_anything_runs(stoker, tmp_path):
    """An hour later would be too late."""
    cases = [(["--n", "1,2", "--", "true"], "nothing depends on N"),
             (["--", "true", "{n}"], "--n is missing"),
             (["--n", "0,1", "--", "true", "{n}"], "--n: \"0,1\""),
             (["--n", "4-2", "--", "true", "{n}"], "--n: \"4-2\""),
             (["--n", "1", "--", "true", "{size}", "{n}"], "--size, which gives its value, is missing"),
             (["--n", "1", "--threads", "--ranks", "--", "true"], "--threads-per-rank"),
             (["--n", "1", "--nodes", "--", "true"], "require --via slurm"),
             (["--n", "1,2", "--ranks", "--spread", "1,2", "--", "true"], "require --via slurm"),
             (["--n", "1,2", "--ranks", "--ranks-per-node", "1,2", "--", "true"], "require --via slurm"),
             (["--via", "slurm", "--n", "4", "--ranks", "--ranks-per-node", "2,3", "--", "true"], "multiple of 3"),
             (["--via", "slurm", "--n", "4", "--threads", "--ranks-per-node", "2,4", "--", "true"], "requires --ranks"),
             (["--via", "slurm", "--n", "1,2", "--ranks", "--spread", "1,4", "--", "true"], "evenly over 4 nodes"),
             (["--via", "slurm", "--n", "1,2", "--nodes", "--spread", "1", "--", "true"], "--spread"),
             (["--n", "1,100000", "--threads", "--", "true"], "--oversubscribe"),
             (["--n", "1", "--metric", "x([0-9]", "--", "true", "{n}"], "--metric"),
             (["--n", "1", "--metric", "x", "--", "true", "{n}"], "in parentheses"),
             (["--n", "1", "--runs", "5..2", "--", "true", "{n}"], "--runs"),
             (["--n", "1", "--shell", "--", "true", "{n}"], "quote it"),
             (["--n", "1", "--container", "a 'b", "--", "true", "{n}"], "a quote is not closed"),
             (["--n", "1", "--sbatch", "-x", "--", "true", "{n}"], "require --via slurm"),
             (["--n", "1", "--weak", "--size", "5", "--", "touch", "ran", "{n}"], "{size} is not in"),
             (["--n", "1", "--metric", "t=([0-9]+)", "--", "touch", "ran", "{n}"], "--better higher"),
             (["--n", "1", "--predict", "x", "--", "touch", "ran", "{n}"], "--predict"),
             (["--n", "1", "--su-weights", "core=x", "--", "touch", "ran", "{n}"], "--su-weights"),
             (["--n", "1", "--max-relative-su", "x", "--", "touch", "ran", "{n}"], "--max-relative-su"),
             (["--n", "1", "--from", "nosuch.csv", "--", "touch", "ran", "{n}"], "nosuch.csv"),
             (["--n", "1", "--from", "rate.csv", "--", "touch", "ran", "{n}"], "it has no times"),
             (["--n", "1", "--csv", "/nonexistent/x", "--", "touch", "ran", "{n}"], "--csv"),
             (["--n", "1", "--save", ".", "--", "touch", "ran", "{n}"], "--save names a folder"),
             (["--n", "1", "--timeout", "300000d", "--", "touch", "ran", "{n}"], "--timeout"),
             (["--from", "x.csv", "--deadline", "300000d"], "--deadline"),
             (["--from", "x.csv", "--n", "1,2"], "--n needs a command to run"),
             (["--resume", "nowhere", "--threads"], "--threads cannot be changed"),
             (["--resume", "nowhere", "--metric", "s ([0-9]+)"], "--metric cannot be changed"),
             (["--resume", "nowhere"], "nowhere"),
             ([], "no source of times")]
    (tmp_path / "rate.csv").write_text("n,rate\n1,5\n")
    for args, words in cases:
        run = stoker("scale", *args, rc=(2, 4), cwd=tmp_path)
        assert words in run.err, run
    run = stoker("scale", "--n", "1", "--", "no-such-program", "{n}", rc=4, cwd=tmp_path)
    assert "no-such-program: cannot be run: No such file" in run.err
    assert list(tmp_path.glob("stoker-scale*")) == [] and not (tmp_path / "ran").exists()


def test_weak_scaling_that_nothing_makes_grow_is_pointed_out(stoker, tmp_path):
    """The same problem at every N would be judged as one that grows."""
    result, run = scale(stoker, tmp_path, "--n", "1,2", "--threads", "--oversubscribe", "--weak", "--runs", "1",
                        "--warmup", "0", "--", "true")
    assert any(c["id"] == "conditions" and "grow with N" in c["text"] for c in result["cautions"])
    assert "Nothing in the command makes the problem grow" in run.out.split("Cautions")[1]


def test_a_folder_that_is_somebodys(stoker, tmp_path):
    """A user's data would be mixed with a study."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("mine")
    run = stoker("scale", "--n", "1", "-o", tmp_path / "data", "--", "true", "{n}", rc=2)
    assert "the folder is not empty" in run.err and os.listdir(tmp_path / "data") == ["file"]


# ---- stopping and going on -----------------------------------------------------------------


def lines(study):
    return [json.loads(line) for line in (study / "runs.jsonl").read_text().splitlines()]


def start(folder, *args):
    return subprocess.Popen([STOKER, "scale", "-o", folder, *map(str, args)], env=clean_env(),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_runs(study, count):
    until(lambda: (study / "runs.jsonl").exists() and len(lines(study)) >= count)


def test_an_interrupt_reports_and_resume_goes_on(stoker, tmp_path):
    """Everything measured so far would be lost with a Ctrl-C."""
    study = tmp_path / "study"
    (tmp_path / "gone").mkdir()
    proc = start(study, "--n", "1,2", "--runs", "5", "--json", tmp_path / "json", "--csv", tmp_path / "gone/csv",
                 *sh(f'[ "$(wc -l < {study}/runs.jsonl)" != 3 ] || until [ -e {tmp_path}/go ]; do sleep 0.1; done; '
                     "true {n}"))
    wait_for_runs(study, 3)  # the fourth waits
    (tmp_path / "gone").rmdir()
    proc.send_signal(signal.SIGINT)
    out, err = proc.communicate()
    (tmp_path / "go").touch()
    assert proc.returncode == 130, err
    assert b"against N=1" in out and re.search(b"stopped by an interrupt\n  hint: .* --resume", err), err
    assert b"gone/csv" in err  # what went wrong besides is not lost
    had = lines(study)
    assert json.loads((tmp_path / "json").read_text())["result"]["run"]["complete"] is False
    result = stoker("scale", "--resume", study, "--json", "-").json()["result"]
    assert lines(study)[:len(had)] == had
    assert sorted((r["n"], r["repeat"]) for r in lines(study)) == [(n, r) for n in (1, 2) for r in range(5)]
    assert result["run"]["complete"] is True and result["study"] == json.loads(
        (study / "study.json").read_text())


def test_killed_at_any_moment(stoker, tmp_path):
    """A node that dies would take the study with it."""
    study = tmp_path / "study"
    study.mkdir(0o700)
    (study / "plan.json.partial.0123456789abcdef").write_text("{")  # killed at once: no study yet
    proc = start(study, "--n", "1,2", "--runs", "4", *sh("sleep 0.0{n}"))
    wait_for_runs(study, 2)
    proc.kill()
    proc.communicate()
    with open(study / "runs.jsonl", "a") as f:
        f.write('{"n":1,"repeat":9,"sta')  # half of a line
    stoker("scale", "--resume", study)
    assert sorted((r["n"], r["repeat"]) for r in lines(study)) == [(n, r) for n in (1, 2) for r in range(4)]


def test_resume_adds_and_two_cannot_work_on_one(stoker, tmp_path):
    """A second look at larger N would mean to begin again."""
    scale(stoker, tmp_path, "--n", "1,2", "--runs", "2", *sh("sleep 0.01"), "{n}")
    study = tmp_path / "study"
    stoker("scale", "--resume", study, "--n", "3", "--runs", "3", cwd="/")
    assert sorted(r["n"] for r in lines(study)) == [1] * 3 + [2] * 3 + [3] * 3
    stoker("scale", "--from", study, "--from", f"again={study}/study.json", "--no-plot")
    proc = start(tmp_path / "other", "--n", "1", "--runs", "1", *sh("sleep 10000"), "{n}")
    until((tmp_path / "other/runs.jsonl").exists)
    plan = (tmp_path / "other/plan.json").read_bytes()
    run = stoker("scale", "--resume", tmp_path / "other", "--n", "9", rc=2)
    assert "another stoker is working" in run.err
    assert (tmp_path / "other/plan.json").read_bytes() == plan
    proc.send_signal(signal.SIGTERM)
    proc.communicate()
    assert proc.returncode == 143


def test_placements_and_the_launcher_from_here(stoker, tmp_path):
    """In an allocation of several nodes, packed and spread ranks would not be compared; and the time of a
    launcher would pass as serial work of the program."""
    (tmp_path / "launch").write_text("#!/bin/sh\necho $1 $2 >> asked\nshift 2\nsleep 0.05\nexec \"$@\"\n")
    (tmp_path / "launch").chmod(0o755)
    result, run = scale(stoker, tmp_path, "--n", "2,4", "--ranks", "--ranks-per-node", "4,2,1", "--runs", "2",
                        "--warmup", "0", "--oversubscribe", "--launcher",
                        f"{tmp_path}/launch {{nodes}} {{ranks_per_node}}", "--", "sh", "-c", "true", "{nodes}",
                        cwd=tmp_path)
    assert {s["name"]: {p["n"]: p["nodes"] for p in s["points"]} for s in result["series"]} == {
        "1 rank per node": {2: 2, 4: 4}, "2 ranks per node": {2: 1, 4: 2}, "4 ranks per node": {4: 1}}
    assert len(result["comparisons"]) == 3 and all(c["at_best"]["runs"] == 2 for c in result["comparisons"])
    assert set((tmp_path / "asked").read_text().splitlines()) == {"2 1", "4 1", "1 2", "2 2", "1 4"}
    launches = [r["launch_s"] for r in lines(tmp_path / "study") if "launch_s" in r]
    assert len(launches) == 5 and min(launches) >= 0.05
    # On a busy machine the empty command may take longer than the runs.
    assert re.search("the launcher (alone|with an empty command) takes", re.sub(r"\s+", " ", run.out))


def counts(result):
    return {n: (p["runs"], p["failed_runs"], p["lost_runs"]) for n, p in points(result).items()}


def test_what_did_not_run_is_repeated_and_retry_repeats_failures(stoker, tmp_path):
    """A study whose jobs were cancelled, or whose program was mended, would have to begin again."""
    result, run = scale(stoker, tmp_path, "--n", "1,2", "--runs", "2", "--warmup", "0",
                        *sh("[ {n} = 1 ] || [ -e mended ]"), rc=3, cwd=tmp_path)
    assert counts(result) == {1: (2, 0, 0), 2: (0, 2, 0)} and "--retry repeats runs that failed" in run.err
    journal = tmp_path / "study/runs.jsonl"
    kept = [json.loads(line) for line in journal.read_text().splitlines()]
    (tmp_path / "mended").touch()

    def resume(*args, **more):
        file = tmp_path / "again.json"
        stoker("scale", "--resume", tmp_path / "study", "--json", file, *args, **more)
        return counts(json.loads(file.read_text())["result"])

    assert resume(rc=3) == {1: (2, 0, 0), 2: (0, 2, 0)}
    assert resume("--retry") == {1: (2, 0, 0), 2: (2, 2, 0)}
    assert len({(r["n"], r["repeat"]) for r in lines(tmp_path / "study")}) == 6
    for status in ("cancelled", "pending", "node"):  # they say nothing about the program
        journal.write_text("".join(json.dumps({**r, "status": status if r["n"] == 2 else "ok"}) + "\n" for r in kept))
        assert resume() == {1: (2, 0, 0), 2: (2, 0, 2)}, status
    assert "--resume DIR" in stoker("scale", "--from", tmp_path / "study", "--retry", rc=2).err


def test_a_damaged_study_is_named(stoker, tmp_path):
    """A wrong byte would give wrong answers in silence."""
    scale(stoker, tmp_path, "--n", "1", "--runs", "1", *sh("true"), "{n}")
    study = tmp_path / "study"
    (study / "runs.jsonl").write_text('{"n":1,"status":"ok","wall_s":1}\nnonsense\n')
    assert "runs.jsonl: line 2 is damaged" in stoker("scale", "--resume", study, rc=4).err
    (study / "plan.json").write_text((study / "plan.json").read_text().replace('"pin": true', '"pin": 7'))
    assert "plan.json: 'pin' is neither true nor false" in stoker("scale", "--resume", study, rc=4).err


def test_budget_and_precision(stoker, tmp_path):
    """A study would go on for ever, or stop when nothing is known."""
    result, run = scale(stoker, tmp_path, "--n", "1,2", "--runs", "3..1000", "--precision", "0.0001%",
                        "--budget", "3", *sh("sleep 0.05"), "{n}")
    assert 3 <= points(result)[1]["runs"] <= 31 and "The budget was spent" in run.out
    # What comes with a run counts, too: a second one would not end in time. And nothing at all is said.
    log = tmp_path / "log"
    run = stoker("scale", "-o", tmp_path / "p", "--n", "1,2", "--warmup", "0", "--budget", "0.5", "--prepare",
                 f"echo >> {log}; sleep 0.3", "--", "true", "{n}", rc=3)
    assert log.read_text() == "\n" and "before N=" in run.out
    run = stoker("scale", "-o", tmp_path / "q", "--n", "1,2", "--budget", "0.2", *sh("sleep 0.15"), "{n}", rc=1)
    assert "The budget was spent before N=1, 2 could be run" in run.err
    (tmp_path / "b").mkdir()
    result, _ = scale(stoker, tmp_path / "b", "--n", "1,2", "--runs", "3..50", "--precision", "1%",
                      "--metric", "t=([0-9]+)", "--better", "lower", *sh("echo t=5"), "{n}")
    assert points(result)[1]["runs"] == 3


def test_rounds_are_shuffled_and_the_seed_tells_how(stoker, tmp_path):
    """A machine that grows warm would look like bad scaling."""
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        scale(stoker, tmp_path / name, "--n", "1-8", "--runs", "2", "--seed", seed, "--", "true", "{n}")
        orders.append([r["n"] for r in lines(tmp_path / name / "study")])
    assert orders[0] == orders[1] != orders[2]
    assert all(sorted(o[:8]) == list(range(1, 9)) == sorted(o[8:]) for o in orders)
    assert orders[0][:8] != orders[0][8:] and orders[0][:8] != list(range(1, 9))


# ---- real programs -------------------------------------------------------------------------


def test_an_openmp_program(stoker, tmp_path):
    """Threads would be counted that are not there."""
    program = compiled("../scale/programs/omp.c", "-O2", "-fopenmp")
    result, _ = scale(stoker, tmp_path, "--n", "1,2", "--threads", "--oversubscribe", "--runs", "2",
                      "--metric", "threads ([0-9]+) pi 3.141592654", "--better", "higher", "--", program, 2000000)
    assert {n: p["value"] for n, p in points(result).items()} == {1: 1, 2: 2}
    (tmp_path / "b").mkdir()
    result, _ = scale(stoker, tmp_path / "b", "--n", "1,2", "--threads", "--oversubscribe", "--runs", "3",
                      "--", program, 40000000, 4000000)
    runs = result["study"]["series"][0]["runs"]
    assert all(r["cpu_s"] > 0 and r["status"] == "ok" for r in runs)


@pytest.mark.parametrize("mpi", [pytest.param("openmpi", marks=needs_command("mpicc.openmpi")),
                                 pytest.param("mpich", marks=needs_command("mpicc.mpich"))])
def test_an_mpi_program(stoker, tmp_path, mpi):
    """Each rank would do all of the work, and the times would not show it."""
    program = compiled("../scale/programs/mpi.c", "-O2", compiler=f"mpicc.{mpi}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mpirun").write_text(f'#!/bin/sh\nexec mpirun.{mpi} "$@"\n')
    (tmp_path / "bin/mpirun").chmod(0o755)
    env = {**ROOT_MPI, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    result, _ = scale(stoker, tmp_path, "--n", "1,2", "--ranks", "--oversubscribe", "--runs", "1",
                      "--warmup", "0", "--metric", "ranks ([0-9]+) pi 3.141592654", "--better", "higher", "--",
                      program, 2000000, env=env)
    assert {n: p["value"] for n, p in points(result).items()} == {1: 1, 2: 2}
    assert points(result)[2]["cores"] == 2 and result["study"]["unit"] == "ranks"


def test_two_curves_in_one_plot(stoker, tmp_path):
    """Whether the accelerator pays would need a spreadsheet again."""
    (tmp_path / "cpu.csv").write_text("n,time,cores\n1,4000,1\n2,2000,2\n")
    result, run = scale(stoker, tmp_path, "--n", "1,2", "--gpus", "--cores-per-n", "1", "--name", "GPU",
                        "--from", f"CPU={tmp_path}/cpu.csv", "--runs", "2", *sh("sleep 0.05"),
                        env={"CUDA_VISIBLE_DEVICES": "0,1"})
    assert {s["name"] for s in result["series"]} == {"CPU", "GPU"}
    assert len(result["comparisons"]) == 1 and re.search("pays|faster", run.out)
