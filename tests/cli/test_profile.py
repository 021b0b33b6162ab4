"""`stoker profile` as a launcher: the program must not notice it, and what it leaves must be right."""

import csv
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from conftest import PATIENCE_S, STOKER, clean_env, until

PYTHON = sys.executable


def environment(extra=None):
    """Ours, without what a test runner preloads for itself."""
    env = clean_env(extra)
    if "LD_PRELOAD" not in (extra or {}):
        env.pop("LD_PRELOAD", None)
    for name in list(env):
        if name.startswith(("SLURM_", "OMPI_", "PMI", "PMIX_", "PRTE_")) and name not in (extra or {}):
            del env[name]
    return env


def profile(*args, env=None, input=None, cwd=None, timeout=PATIENCE_S, **more):
    """The finished process; a crash of ours shows as a sanitizer's words."""
    done = subprocess.run([STOKER, "profile", *map(str, args)], capture_output=True, input=input,
                          stdin=None if input is not None else subprocess.DEVNULL, cwd=cwd,
                          env=environment(env), timeout=timeout, **more)
    assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, done.stderr
    return done


def run_file(folder):
    [path] = pathlib.Path(folder).glob("run.*.json")
    return json.loads(path.read_text())


def samples(folder):
    [path] = pathlib.Path(folder).glob("samples.*.csv")
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def build(folder, name, text, *flags):
    """A C program or library; the test is skipped without a compiler."""
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    source, out = folder / f"{name}.c", folder / name
    source.write_text(textwrap.dedent(text))
    done = subprocess.run([compiler, "-o", out, source, *flags], capture_output=True, text=True)
    if done.returncode and "-static" in flags:
        pytest.skip("no static C library")
    assert done.returncode == 0, done.stderr
    return out


# A program that ends when its profile has a sample of which this is true: of rows, a list of dicts.
AWAIT = textwrap.dedent("""
    import csv, glob, os, sys, time
    def rows():
        names = glob.glob(sys.argv[1] + "/samples.*.csv")
        return [r for n in names for r in csv.DictReader(open(n, newline="")) if None not in r.values()]
    def sampled(fact):
        while not fact(rows()):
            time.sleep(0.02)
""")


# ---- the program's own -----------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 1, 42, 127, 255])
def test_exit_status_passes_through(tmp_path, status):
    """A batch script that looks at $? would take another branch."""
    done = profile("-q", "-o", tmp_path / "p", "--", "sh", "-c", f"exit {status}")
    assert (done.returncode, done.stdout, done.stderr) == (status, b"", b"")
    assert run_file(tmp_path / "p")["exit_status"] == status


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_death_by_signal_is_passed_on(tmp_path, name):
    """srun and a shell would no longer say how the program died."""
    number = getattr(signal, name)
    code = ("import os, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); "
            f"os.kill(os.getpid(), {int(number)})")
    done = profile("-o", tmp_path / "p", PYTHON, "-c", code)
    assert done.returncode == -number
    run = run_file(tmp_path / "p")
    assert (run["signal"], run["exit_status"], run["state"]) == (number, 128 + number, "ended")


def test_input_and_output_are_the_programs(tmp_path):
    """A pipeline around the program would break."""
    data = os.urandom(100_000)
    done = profile("-o", tmp_path / "p", "--", "sh", "-c", "cat; echo oops >&2", input=data)
    assert done.stdout == data and done.stderr.startswith(b"oops\n")
    words = done.stderr.decode().splitlines()[1:]
    assert words == [f"stoker: profile in {tmp_path}/p; read it with: stoker report {tmp_path}/p"]


def test_options_after_the_program_are_the_programs(tmp_path):
    """`stoker profile python -c ...` would fail over python's own options."""
    done = profile("-q", "-o", tmp_path / "a", "echo", "-o", "x", "--quiet", "--", "y")
    assert done.stdout == b"-o x --quiet -- y\n"
    done = profile("-q", "-o", tmp_path / "b", "--", "printf", "%s\n", "--help")
    assert done.stdout == b"--help\n"


def test_the_program_gets_the_callers_surroundings(tmp_path):
    """Blocked or ignored signals, another group or open files change what a program does."""
    code = ("import os, signal, resource, sys\n"
            "s = open('/proc/self/status').read()\n"
            "print([l for l in s.splitlines() if l.startswith(('SigBlk', 'SigIgn', 'Umask'))])\n"
            "print(os.getpgrp(), os.getsid(0), os.getcwd(), os.nice(0))\n"
            "print(sorted(os.listdir('/proc/self/fd')))\n"
            "print(resource.getrlimit(resource.RLIMIT_CORE), sys.argv)\n")

    def before():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    argv = [PYTHON, "-c", code, "a b", "", "ü"]
    bare = subprocess.run(argv, env=environment(), cwd=tmp_path, stdin=subprocess.DEVNULL,
                          capture_output=True, preexec_fn=before)
    done = profile("-o", tmp_path / "p", "--", *argv, cwd=tmp_path, preexec_fn=before)
    assert done.returncode == bare.returncode == 0
    assert done.stdout == bare.stdout


def test_a_signal_to_the_launcher_reaches_the_program_once(tmp_path):
    """`kill -USR1` to the job would be lost, or a checkpoint written twice."""
    code = ("import signal, sys, time\n"
            "got = []\n"
            "for name in ('USR1', 'USR2', 'TERM', 'HUP', 'INT'):\n"
            "    signal.signal(getattr(signal, 'SIG' + name), lambda n, f: got.append(n))\n"
            "print('ready', flush=True)\n"
            "while len(set(got)) < 5: time.sleep(0.01)\n"
            "time.sleep(0.3); print(sorted(map(int, got)))\n")  # time for more of them
    with subprocess.Popen([STOKER, "profile", "-q", "-o", tmp_path / "p", PYTHON, "-c", code],
                          stdout=subprocess.PIPE, env=environment()) as proc:
        assert proc.stdout.readline() == b"ready\n"
        sent = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTERM]
        for number in sent:
            proc.send_signal(number)
        assert proc.stdout.read().decode().strip() == str(sorted(map(int, sent)))
    assert proc.returncode == 0


def test_interrupt_from_the_terminal_reaches_the_program_once(tmp_path):
    """Ctrl-C twice kills what the first one asked to clean up."""
    code = ("import signal, time\n"
            "got = []\n"
            "signal.signal(signal.SIGINT, lambda n, f: got.append(n))\n"
            "print('ready', flush=True)\n"
            "while not got: time.sleep(0.01)\n"
            "time.sleep(0.3); print('interrupts', len(got), flush=True)\n")
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(STOKER, ["stoker", "profile", "-o", str(tmp_path / "p"), PYTHON, "-c", code],
                  environment())
    text = b""
    while b"ready" not in text:
        text += os.read(fd, 1000)
    os.write(fd, b"\x03")
    try:
        while True:
            text += os.read(fd, 1000)
    except OSError:
        pass
    assert os.waitpid(pid, 0)[1] == 0
    assert b"interrupts 1" in text, text


def test_daemons_are_not_waited_for(tmp_path):
    """A job that leaves a server behind would never end."""
    done = profile("-q", "-o", tmp_path / "p", "--", "sh", "-c",
                   "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!; exit 3")
    assert done.returncode == 3
    os.kill(int(done.stdout), signal.SIGKILL)


def test_not_found_is_127_and_leaves_nothing(tmp_path):
    """A typo must not leave folders behind."""
    done = profile("no-such-program-at-all", cwd=tmp_path)
    assert done.returncode == 127 and b"no-such-program-at-all" in done.stderr
    (tmp_path / "text").write_text("not a program")
    assert profile("./text", cwd=tmp_path).returncode == 126
    assert profile(tmp_path, cwd=tmp_path).returncode == 126
    assert profile("./none/x", cwd=tmp_path).returncode == 127
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert profile("./broken", cwd=tmp_path).returncode in (126, 127)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["broken", "text"]


def test_a_script_without_a_head_line_runs(tmp_path):
    """Shells run those; a launcher that does not breaks old job scripts."""
    script = tmp_path / "old"
    script.write_text("echo old style\n")
    script.chmod(0o755)
    assert profile("-q", "-o", tmp_path / "p", script).stdout == b"old style\n"


# ---- the folder ------------------------------------------------------------------------------


def test_default_folder_is_named_after_the_script(tmp_path):
    """Ten profiles of the same second or name must not fall over each other."""
    (tmp_path / "train.py").write_text("print('hello')")
    for _ in range(3):
        assert profile(PYTHON, "-u", "train.py", cwd=tmp_path).returncode == 0
    folders = [p for p in tmp_path.iterdir() if p.is_dir()]
    assert len(folders) == 3 and all(p.name.startswith("stoker-profile-train-2") for p in folders)
    assert all(run_file(p)["command"][1:] == ["-u", "train.py"] for p in folders)


def test_another_runs_profile_is_not_touched(tmp_path):
    """A profile that took a day would be gone."""
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    assert profile("-q", "-o", folder, "true").returncode == 0
    first = sorted(folder.iterdir())
    for number in (2, 3):  # a requeued job, or one of an array, must run
        done = profile("-o", f"{folder}/", "sh", "-c", "echo ran; exit 7")
        assert (done.returncode, done.stdout) == (7, b"ran\n")
        assert done.stderr.count(b"another run") == 1 and b"--force" in done.stderr
        assert run_file(f"{folder}-{number}")["exit_status"] == 7
    assert sorted(folder.iterdir()) == first
    assert profile("-q", "--force", "-o", folder, "false").returncode == 1
    assert run_file(folder)["command"] == ["false"]
    assert (folder / "notes.txt").read_text() == "mine"
    assert not any(p.name.startswith(".") for p in folder.iterdir())


SLURM = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "2", "SLURM_STEP_NUM_TASKS": "6"}
OPEN_MPI = {"OMPI_COMM_WORLD_SIZE": "6", "PMIX_NAMESPACE": "prterun-n1-77@1"}


@pytest.mark.parametrize("env, rank, name", [
    (SLURM, "SLURM_PROCID", "stoker-profile-true-4711.2"),
    (OPEN_MPI, "OMPI_COMM_WORLD_RANK", "stoker-profile-true-prterun-n1-77_1"),
])
def test_tasks_of_a_run_share_a_folder(tmp_path, env, rank, name):
    """Eight tasks would give eight profiles that cannot be merged."""
    procs = [subprocess.Popen([STOKER, "profile", "true"], env=environment({**env, rank: task}),
                              cwd=tmp_path, stderr=subprocess.PIPE) for task in range(6)]
    said = [p.communicate(timeout=PATIENCE_S)[1] for p in procs]
    assert [p.returncode for p in procs] == [0] * 6, said
    assert b"stoker report" in said[0] and not any(said[1:])
    assert [p.name for p in tmp_path.iterdir()] == [name]
    runs = [json.loads(p.read_text()) for p in (tmp_path / name).glob("run.*.json")]
    assert sorted(r["rank"] for r in runs) == list(range(6))
    assert {(r["world"], r["run"]) for r in runs} == {(6, runs[0]["run"])}
    procs = [subprocess.Popen([STOKER, "profile", "-q", "true"], cwd=tmp_path,
                              env=environment({**env, rank: task})) for task in range(6)]
    assert [p.wait(PATIENCE_S) for p in procs] == [0] * 6  # the same tasks again are another run
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, name + "-2"]
    assert [len(list(p.glob("run.*.json"))) for p in tmp_path.iterdir()] == [6, 6]


def test_ranks_without_a_common_name_share_a_folder(tmp_path):
    """MPICH's mpiexec tells ranks nothing they share but their command."""
    ranks = [{"PMI_RANK": str(r), "PMI_SIZE": "10"} for r in range(10)]
    for times in (1, 2):
        for env in ranks:
            done = profile("true", env=env, cwd=tmp_path)
            assert done.returncode == 0 and (b"another run" in done.stderr) == (times == 2)
        assert [len(list(p.glob("run.*.json"))) for p in tmp_path.iterdir()] == [10] * times


def test_runs_that_begin_together_do_not_mix(tmp_path):
    """Tasks of an array job all have the same -o, and start within a millisecond."""
    procs = [subprocess.Popen([STOKER, "profile", "-q", "-o", tmp_path / "p", "true"],
                              env=environment(), stderr=subprocess.PIPE) for _ in range(8)]
    assert [p.wait(PATIENCE_S) for p in procs] == [0] * 8
    assert [len(list(p.glob("run.*.json"))) for p in tmp_path.iterdir()] == [1] * 8
    assert sum(b"another run" in p.stderr.read() for p in procs) == 7


@pytest.mark.parametrize("where, why", [
    ("file", b"is a file, not a folder"), ("/proc/x", b"/proc/x"), ("file/p", b"file"),
    ("p", b"File too large")])
def test_without_a_folder_the_program_runs_unrecorded(tmp_path, where, why):
    """A job that waited a day in the queue would not run for want of a place for its profile."""
    (tmp_path / "file").write_text("mine")
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))}
    done = profile("-o", where, "--", "sh", "-c", "echo $LD_PRELOAD; echo ran >&2; exit 9",
                   cwd=tmp_path, **(limit if where == "p" else {}))
    assert (done.returncode, done.stdout) == (9, b"\n"), done
    said, ran = done.stderr.splitlines()  # before the program runs, so that it can be stopped
    assert b"nothing is recorded" in said and why in said and ran == b"ran"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("options", [
    ["--for", "300000d"], ["--sample", "0.0001ns"], ["--exclude", ",".join("abcdefgh" * 9)],
    ["--include", "x" * 4200]])
def test_what_would_be_dropped_in_silence_is_refused(tmp_path, options):
    """Files would be recorded that were excluded, or nothing at all."""
    done = profile(*options, "-o", tmp_path / "p", "echo", "ran")
    assert (done.returncode, done.stdout) == (2, b""), done
    assert not (tmp_path / "p").exists()


def test_force_by_many_tasks_removes_the_old_run_once(tmp_path):
    """A task that comes late must not take away what the first ones wrote."""
    assert profile("-q", "-o", tmp_path / "p", "true").returncode == 0
    procs = [subprocess.Popen([STOKER, "profile", "-q", "--force", "-o", tmp_path / "p", "sh", "-c",
                               f"cd {tmp_path}; touch here.$SLURM_PROCID; "
                               "until [ -e here.0 ] && [ -e here.1 ] && [ -e here.2 ]; do sleep 0.05; done"],
                              env=environment({**SLURM, "SLURM_PROCID": str(task)}))
             for task in range(3)]
    assert [p.wait(PATIENCE_S) for p in procs] == [0, 0, 0]
    runs = [json.loads(p.read_text()) for p in (tmp_path / "p").glob("run.*.json")]
    assert sorted(r["rank"] for r in runs) == [0, 1, 2]


# ---- what it leaves --------------------------------------------------------------------------


def test_run_file_and_json_say_what_ran(tmp_path):
    """A profile without its circumstances cannot be compared with another."""
    before = time.time()
    done = profile("--json", tmp_path / "r.json", "-o", tmp_path / "p", "--for", "2h", "--exclude",
                   "a,b", "--exclude", "/c", "sh", "-c", "exit 5", "näme\n")
    assert done.returncode == 5
    run, result = run_file(tmp_path / "p"), json.loads((tmp_path / "r.json").read_text())
    assert run["command"] == ["sh", "-c", "exit 5", "näme\n"] and run["state"] == "ended"
    assert run["linkage"] == "dynamic" and run["cores"] >= 1 and run["memory_bytes"] > 1 << 20
    assert run["settings"]["exclude"] == ["a,b", "/c"] and run["settings"]["for_s"] == 7200
    assert not run["stopped_early"] and run["seconds"] >= 0
    assert before <= run["start_real_ns"] / 1e9 <= time.time()
    assert result["result"]["program_status"] == result["exit_status"] == 5
    assert result["result"]["profile"] == str(tmp_path / "p")
    assert result["result"]["run"] == run["run"] and result["outcome"] == "done"


def test_samples_are_the_programs_cpu_and_memory(tmp_path):
    """Advice on cores and memory would rest on wrong numbers."""
    code = AWAIT + textwrap.dedent("""
        import threading
        block = bytearray(os.urandom(1) * 200_000_000)
        seen, ends = threading.Event(), os.pipe()
        threads = [threading.Thread(target=seen.wait) for _ in range(5)]
        pid = os.fork()
        end = time.process_time() + (0.6 if pid else 0.4)
        while time.process_time() < end: pass
        if not pid:
            os.close(ends[1])
            os.read(ends[0], 1)
            os._exit(0)
        [x.start() for x in threads]
        sampled(lambda rows: any(int(r["threads"]) >= 7 and int(r["processes"]) >= 2 and
                                 int(r["resident_bytes"] or 0) > 200e6 for r in rows))
        seen.set()
        os.close(ends[1])
        os.waitpid(pid, 0)
        t = os.times(); print(t.user + t.system + t.children_user + t.children_system)
    """)
    done = profile("-q", "-o", tmp_path / "p", "--sample", "100ms", PYTHON, "-c", code, tmp_path / "p")
    used, lines, run = float(done.stdout), samples(tmp_path / "p"), run_file(tmp_path / "p")
    before, seen = 0, 0
    for line in lines:
        seen += float(line["cpu_cores"]) * (float(line["at_s"]) - before)
        before = float(line["at_s"])
    assert abs(seen - used) < 0.1 + used / 5
    assert abs(run["cpu_s"] - used) < 0.1 + used / 5
    assert run["peak_processes"] >= 2
    most = max(int(line["resident_bytes"] or 0) for line in lines)
    assert 200e6 < most < 900e6 and 200e6 < run["peak_resident_bytes"] < 900e6
    assert all(int(line["cache_bytes"]) > 0 for line in lines)
    assert all(line["gpu_util"] == "" for line in lines) or shutil.which("nvidia-smi")


def test_samples_can_be_left_out(tmp_path):
    """--sample 0 asks for no thread beside the program."""
    assert profile("-q", "-o", tmp_path / "p", "--sample", "0", "true").returncode == 0
    assert run_file(tmp_path / "p")["samples"] is None
    assert not list((tmp_path / "p").glob("samples.*"))


STATIC = """
    #include <fcntl.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        static char buf[65536];
        int fd = open(argv[1], O_RDONLY);
        ssize_t n, sum = 0;
        while ((n = read(fd, buf, sizeof buf)) > 0)
            sum += n;
        return argc == 2 && sum == 5000000 ? 0 : 1;
    }
"""


@pytest.mark.parametrize("through_shell", [False, True])
def test_a_static_program_runs_and_the_kernels_counts_are_kept(tmp_path, through_shell):
    """stoker cannot look into it, and must say so instead of showing a program without I/O."""
    program = build(tmp_path, "static", STATIC, "-static")
    data = tmp_path / "data"
    data.write_bytes(bytes(5_000_000))
    argv = ["sh", "-c", f"exec {program} {data}"] if through_shell else [program, data]
    done = profile("-o", tmp_path / "p", *argv)
    run = run_file(tmp_path / "p")
    assert done.returncode == 0, done.stderr
    [unseen] = [u for u in run["unseen"] if u["rchar"] >= 5_000_000]
    assert unseen["rchar"] < 5_100_000 and unseen["wchar"] < 100_000
    if not through_shell:
        assert b"linked statically" in done.stderr and run["linkage"] == "static"
        assert unseen["pid"] == run["child"] and any("statically" in n for n in run["notes"])


FAKE_NVML = """
    #include <stdlib.h>
    #include <string.h>
    #include <stdio.h>
    #include <unistd.h>
    int nvmlInit_v2(void) { if (getenv("NVML_HANGS")) for (;;) pause(); return 0; }
    int nvmlShutdown(void) { return 0; }
    int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
    int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
    { *d = (void *)(long)(i + 1); return i < 3 ? 0 : 2; }
    int nvmlDeviceGetUUID(void *d, char *s, unsigned n)
    { snprintf(s, n, "GPU-%ld-beef", (long)d - 1); return 0; }
    int nvmlDeviceGetName(void *d, char *s, unsigned n)
    { (void)d; snprintf(s, n, "Fake H9000"); return 0; }
    int nvmlDeviceGetUtilizationRates(void *d, unsigned *u)
    { u[0] = 20 * (unsigned)(long)d; u[1] = 1; return 0; }
    int nvmlDeviceGetMemoryInfo(void *d, unsigned long long *m)
    { m[0] = 1ull << 40; m[1] = 1; m[2] = 1000ull * (unsigned long)d; return 0; }
"""


@pytest.mark.parametrize("visible, gpus, util, memory", [
    (None, 3, 0.4, 6000), ("2,0", 2, 0.4, 4000), ("1", 1, 0.4, 2000), ("GPU-2", 1, 0.6, 3000),
    ("0,9,1", 1, 0.2, 1000), ("", 0, None, None), ("-1", 0, None, None),
])
def test_gpus_that_the_program_may_use_are_sampled(tmp_path, visible, gpus, util, memory):
    """A job on one GPU of four would be told that its GPUs idle."""
    build(tmp_path, "libnvidia-ml.so.1", FAKE_NVML, "-shared", "-fPIC")
    env = {"LD_LIBRARY_PATH": tmp_path}
    if visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = visible
    code = AWAIT + f"sampled(lambda rows: rows and bool(rows[-1]['gpu_util']) == {gpus > 0})"
    done = profile("-q", "-o", tmp_path / "p", "--sample", "50ms", PYTHON, "-c", code, tmp_path / "p", env=env)
    assert done.returncode == 0
    last, run = samples(tmp_path / "p")[-1], run_file(tmp_path / "p")
    if gpus:
        assert (run["gpus"], run["gpu_kind"]) == (gpus, "Fake H9000")
        assert abs(float(last["gpu_util"]) - util) < 1e-6
        assert int(last["gpu_memory_bytes"]) == memory
    else:
        assert last["gpu_util"] == last["gpu_memory_bytes"] == "" and run["gpus"] == 0


def test_a_driver_that_hangs_stops_nobody(tmp_path):
    """A broken GPU would keep the job from ending."""
    build(tmp_path, "libnvidia-ml.so.1", FAKE_NVML, "-shared", "-fPIC")
    code = AWAIT + "sampled(lambda rows: len(rows) > 1); sys.exit(9)"
    done = profile("-q", "-o", tmp_path / "p", "--sample", "50ms", PYTHON, "-c", code, tmp_path / "p",
                   env={"LD_LIBRARY_PATH": tmp_path, "NVML_HANGS": "1",
                        "LSAN_OPTIONS": "detect_leaks=0", "ASAN_OPTIONS": "detect_leaks=0"})
    assert done.returncode == 9
    assert len(samples(tmp_path / "p")) > 1 and run_file(tmp_path / "p")["state"] == "ended"


# ---- the library -----------------------------------------------------------------------------


def test_a_library_preloaded_before_keeps_its_place(tmp_path):
    """A sanitizer or a memory allocator that is no longer first refuses to run."""
    other = build(tmp_path, "libother.so", "int other;", "-shared", "-fPIC")
    code = "import os; print(os.environ['LD_PRELOAD']); print(open('/proc/self/maps').read())"
    anywhere = {"ASAN_OPTIONS": "verify_asan_link_order=0"}  # for stoker itself, if it has one
    done = profile("-q", "-o", tmp_path / "p", PYTHON, "-c", code,
                   env={"LD_PRELOAD": other, **anywhere})
    first, maps = done.stdout.decode().split("\n", 1)
    assert first.startswith(f"{other}:/") and first.endswith("/libstoker-preload.so")
    assert "libother.so" in maps and "libstoker-preload.so" in maps
    nested = profile("-q", "-o", tmp_path / "q", STOKER, "profile", "-q", "-o", tmp_path / "r",
                     PYTHON, "-c", code, env=anywhere)
    assert nested.stdout.decode().split("\n")[0].count("libstoker-preload.so") == 1


def test_a_program_with_a_sanitizer_runs(tmp_path):
    """AddressSanitizer's library insists on being first, and ends programs where it is not."""
    program = build(tmp_path, "checked", "int main(void) { return 3; }", "-fsanitize=address")
    assert profile("-q", "-o", tmp_path / "p", program).returncode == 3


def test_a_missing_library_is_an_error_before_the_program_runs(tmp_path):
    """A run of hours without a record would be for nothing."""
    done = profile("-o", tmp_path / "p", "sh", "-c", "echo ran",
                   env={"STOKER_PRELOAD": tmp_path / "none.so"})
    assert done.returncode == 4 and b"STOKER_PRELOAD" in done.stderr and done.stdout == b""
    assert not (tmp_path / "p").exists()


# ---- the spool -------------------------------------------------------------------------------


def test_logs_in_a_spool_are_copied_while_the_program_runs(tmp_path):
    """At the time limit the node and its disk are gone; what was copied is all there is."""
    folder, spool, go = tmp_path / "p", tmp_path / "spool", tmp_path / "go"
    code = (f"import os, sys, time; open({str(tmp_path / 'x')!r}, 'w').write('y')\n"
            f"while not os.path.exists({str(go)!r}): time.sleep(0.02)")
    with subprocess.Popen([STOKER, "profile", "-q", "-o", folder, "--spool", spool, "--copy-every",
                           "1s", "--sample", "100ms", PYTHON, "-c", code], env=environment()) as proc:
        until(lambda: list(folder.glob("*.stklog")) and list(folder.glob("samples.*.csv")))
        [inside] = spool.iterdir()
        assert inside.stat().st_mode & 0o777 == 0o700
        assert {p.name for p in folder.glob("*.stklog")} <= {p.name for p in inside.iterdir()}
        assert run_file(folder)["state"] == "running"
        go.touch()
    assert proc.returncode == 0 and list(spool.iterdir()) == []
    run = run_file(folder)
    assert run["state"] == "ended" and run["logs"] == 1 and len(list(folder.glob("*.stklog"))) >= 1
    assert run["unseen"] == [] and len(samples(folder)) >= 2
    assert not list(folder.glob("*.partial*"))


def test_a_spool_that_cannot_be_copied_stays(tmp_path):
    """Logs of a day would be thrown away because a file system was full for a minute."""
    folder, spool = tmp_path / "p", tmp_path / "spool"
    done = profile("-o", folder, "--spool", spool, "sh", "-c", f"rm -rf {folder}; exit 6")
    assert done.returncode == 6
    [inside] = spool.iterdir()
    assert str(inside).encode() in done.stderr and list(inside.glob("*.stklog"))


def test_killed_launcher_leaves_a_run_file_and_logs(tmp_path):
    """Out of memory, or at the end of its time, Slurm kills everything at once."""
    code = "import time; print('ready', flush=True); time.sleep(1000)"
    with subprocess.Popen([STOKER, "profile", "-o", tmp_path / "p", "--sample", "50ms", PYTHON,
                           "-c", code], env=environment(), stdout=subprocess.PIPE,
                          start_new_session=True) as proc:
        proc.stdout.readline()
        until(lambda: len(samples(tmp_path / "p")) > 2)
        os.killpg(proc.pid, signal.SIGKILL)
    assert run_file(tmp_path / "p")["state"] == "running"
    assert list((tmp_path / "p").glob("*.stklog"))


def test_preload_library_of_another_version_is_named(tmp_path):
    """Half an update: hours of a job are recorded that nothing can read, and nobody is told in time."""
    library = next(p for p in (STOKER.parent, STOKER.parent.parent / "lib/stoker")
                   if (p / "libstoker-preload.so").exists()) / "libstoker-preload.so"
    other = tmp_path / "libstoker-preload.so"
    text, places = re.subn(rb"(?<=logs of version )\d", b"0", library.read_bytes())
    assert places == 1
    other.write_bytes(text)
    done = profile("-o", tmp_path / "p", "--", "true", env={"STOKER_PRELOAD": str(other)})
    assert done.returncode == 0 and f"{other} is of another version".encode() in done.stderr
    assert b"another version" not in profile("-o", tmp_path / "q", "--", "true").stderr


def test_logs_of_another_version_are_named(tmp_path):
    """After an update of half an installation, every program looks as if nothing had been recorded."""
    profile("-o", tmp_path / "p", "--", "cat", __file__)
    for log in (tmp_path / "p").glob("*.stklog"):
        with open(log, "r+b") as f:
            f.seek(8)  # behind the magic: the version
            f.write(b"\x02\0\0\0")
    done = subprocess.run([STOKER, "advise", tmp_path / "p"], env=environment(), capture_output=True, text=True)
    assert done.returncode == 3 and "another version of stoker" in done.stdout.replace("\n", " ")
