"""However a program ends and whatever it does to its descriptors: it prints and returns what it
does without the profiler, and what can be known is in the profile."""

import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import PATIENCE_S, STOKER, until
from faultlib import as_nobody, needs_root
from profilelib import (LIBRARY, PYTHON, Profile, bare, bare_env, compiled,  # noqa: F401
                        profile, zeros)

FILE = 40960


@pytest.fixture
def data(tmp_path):
    """64 files of ten pages."""
    folder = tmp_path / "data"
    (folder / "away").mkdir(parents=True)
    for i in range(64):
        zeros(folder / f"f{i:02d}.bin", FILE)
    return folder


@pytest.fixture
def watched(profile, data):
    """watched(argv) -> Profile, after checking that the program behaved as it does alone."""
    def run(argv, *options, same_err=True, again=None, **kw):
        alone = bare(argv, env=kw.get("env"), cwd=kw.get("cwd"), preexec_fn=kw.get("preexec_fn"))
        if again:
            again()
        p = profile(argv, *options, **kw)
        status = alone[0] if alone[0] >= 0 else 128 - alone[0]  # of a signal, as shells have it
        assert (p.rc if p.rc >= 0 else 128 - p.rc, p.out) == (status, alone[1]), p.err
        if same_err:
            assert program_said(p.err) == alone[2]
        return p
    return run


def program_said(err):
    """The program's own part: the launcher's lines begin with its name."""
    return b"".join(line for line in err.splitlines(True) if not line.startswith(b"stoker"))


def fault():
    return compiled("fault.c", "-O1")


# ---- ends ----

ENDS = {"return": "exit", "_exit": "exit", "quick_exit": "exit", "exit_group": "exit",
        "kill": "killed", "abort": "abort", "segv": "killed", "term": "killed"}


@pytest.mark.parametrize("case", ENDS)
def test_however_it_ends(case, watched, data):
    """SIGKILL at the time limit is how one job in ten ends: its profile must be whole."""
    p = watched([fault(), case, data])
    assert p.counts(data / "f00.bin", ("opens", "reads", "read_bytes", "closes")) == {
        "opens": 1, "reads": 10, "read_bytes": FILE, "closes": 1}
    assert len(p.processes) == 1
    assert p.processes[0]["ended"] == ENDS[case]


def test_python_os_exit(watched, data):
    script = f"import os; print(len(open('{data}/f00.bin', 'rb').read()), flush=True); os._exit(5)"
    p = watched([PYTHON, "-c", script])
    assert p.rc == 5 and p.count(data / "f00.bin", "read_bytes") == FILE


def test_the_launcher_is_killed_with_it(data, tmp_path):
    """scancel and the out-of-memory killer take the launcher too: the logs are there."""
    script = (f"import os, time\nfd = os.open('{data}/f00.bin', os.O_RDONLY)\nos.read(fd, 4096)\n"
              "print('now', flush=True)\ntime.sleep(10000)")
    with subprocess.Popen([STOKER, "profile", "-o", tmp_path / "p", "--", PYTHON, "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=bare_env(),
                          start_new_session=True) as running:
        assert running.stdout.readline() == b"now\n"
        os.killpg(running.pid, signal.SIGKILL)
    p = Profile(tmp_path / "p", running)
    assert p.counts(data / "f00.bin", ("opens", "reads", "read_bytes")) == {
        "opens": 1, "reads": 1, "read_bytes": 4096}


def test_a_signal_to_the_launcher_reaches_the_program(data, tmp_path):
    """Slurm warns by a signal: a program that saves its state on it must get it."""
    # os.write: a handler that prints while print() prints is an error of Python's.
    script = ("import os, signal, sys, time\ndef save(*_):\n    os.write(1, b'saved\\n')\n"
              "    sys.exit(3)\nsignal.signal(signal.SIGTERM, save)\nos.write(1, b'now\\n')\n"
              "time.sleep(10000)")
    with subprocess.Popen([STOKER, "profile", "-o", tmp_path / "p", "--", PYTHON, "-c", script],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=bare_env()) as running:
        assert running.stdout.readline() == b"now\n"
        running.send_signal(signal.SIGTERM)
        assert running.stdout.readline() == b"saved\n"
        assert running.wait(PATIENCE_S) == 3


# ---- processes ----


def test_64_forked_workers(watched, data):
    p = watched([fault(), "fork64", data])
    for i in range(64):
        assert p.counts(data / f"f{i:02d}.bin", ("opens", "reads", "read_bytes")) == {
            "opens": 1, "reads": 10, "read_bytes": FILE}
    assert len({r["process"] for r in p.below(data)}) == 64
    # A worker's number is its own while it lives; one that starts later may get it again.
    workers = [x for x in p.processes if x["worker"]]
    assert len(workers) == 64 and len(p.processes) == 65
    for i, a in enumerate(workers):
        for b in workers[:i]:
            alive_together = a["start_s"] < b["end_s"] and b["start_s"] < a["end_s"]
            assert not alive_together or a["worker"] != b["worker"], (a, b)


@pytest.mark.parametrize("case, times", [("vfork", 3), ("spawn", 3), ("system", 2)])
def test_programs_that_are_started(case, times, watched, data):
    """vfork, posix_spawn and shells in between: each program has its own profile."""
    p = watched([fault(), case, data])
    assert p.counts(data / "f00.bin", ("opens", "read_bytes")) == {
        "opens": times, "read_bytes": times * FILE}
    assert len({r["process"] for r in p.of(data / "f00.bin")}) == times


def test_exec(watched, data):
    """One process, three programs: what each did is kept."""
    p = watched([fault(), "exec", data])
    for i in range(3):
        assert p.count(data / f"f{i:02d}.bin", "read_bytes") == FILE
    assert len({x["pid"] for x in p.processes}) == 1 and len(p.processes) == 3
    assert [x["ended"] for x in sorted(p.processes, key=lambda x: x["start_s"])] == [
        "exec", "exec", "exit"]


def test_exec_that_fails(watched, data):
    """Recording goes on."""
    p = watched([fault(), "exec_fails", data])
    assert p.count(data / "f01.bin", "read_bytes") == FILE


def test_a_chain_of_subprocesses(watched, data):
    inner = f"open('{data}/f00.bin', 'rb').read()"
    script = ("import subprocess, sys\n"
              f"subprocess.run(['sh', '-c', 'exec \"$0\" -c \"$1\"', sys.executable, {inner!r}])\n"
              f"open('{data}/f01.bin', 'rb').read()")
    p = watched([PYTHON, "-c", script])
    assert p.count(data / "f00.bin", "read_bytes") == FILE
    assert p.count(data / "f01.bin", "read_bytes") == FILE


def test_an_environment_that_is_emptied(watched, data):
    """env -i drops the preload: the child is not seen, and nothing breaks."""
    p = watched(["env", "-i", fault(), "read", data])
    assert p.report is not None


# ---- where the logs go ----


@needs_root
def test_full_log_disk(watched, profile, data, tmp_path):
    """No SIGBUS, no error: the program runs on, and what fitted is there."""
    small = tmp_path / "small"
    small.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", small],
                          capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        p = watched([fault(), "fork64", data], out=small / "p")
        assert p.report is not None
        shutil.rmtree(small / "p")  # else there is no room for a run file, and no profile
        p = watched([fault(), "manythreads", data], "--trace", out=small / "p2")
        assert p.report is not None
    finally:
        subprocess.run(["umount", small], check=True)


@needs_root
@pytest.mark.parametrize("leave", ["os.chroot('.'); os.chdir('/')", "os.setuid(65534)"])
def test_child_that_leaves_before_it_reads(profile, data, leave):  # noqa: F811
    """A server's worker confines itself first: its reads would be missing without a word."""
    code = ("import os, sys\nos.chdir(sys.argv[1])\npid = os.fork()\n"
            f"if pid == 0: {leave}; print(len(open('f07.bin', 'rb').read())); sys.exit(0)\n"
            "sys.exit(os.waitpid(pid, 0)[1])")
    p = profile([PYTHON, "-c", code, data])
    assert (p.rc, p.out) == (0, f"{FILE}\n".encode()), p.err
    assert len(p.processes) == 2
    assert sum(r["counters"]["read_bytes"] for r in p.records
               if r["path"].endswith("/f07.bin")) == FILE


def test_limit_on_the_size_of_files(watched, data):
    """RLIMIT_FSIZE sends SIGXFSZ to whoever writes past it: not to this program, for our logs."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    p = watched(["sh", "-c", "ulimit -f 16; exec \"$0\" read \"$1\"", fault(), data])
    assert p.report is not None
    alone = bare([fault(), "read", data])
    done = subprocess.run([fault(), "read", data], capture_output=True, preexec_fn=limited,
                          env=bare_env({"LD_PRELOAD": str(LIBRARY),
                                        "STOKER_PROFILE_DIR": str(data.parent)}))
    assert (done.returncode, done.stdout, done.stderr) == alone


def test_limit_on_the_size_of_files_meets_the_launcher(profile, tmp_path):
    """Its samples outgrow the limit of a long job: that must not end it, and the job with it."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
    script = ("import glob, os, sys, time\n"
              "while sum(map(os.path.getsize, glob.glob(sys.argv[1]))) < 3000: time.sleep(0.05)\nsys.exit(3)")
    p = profile([PYTHON, "-c", script, tmp_path / "p/samples.*.csv"], "--sample", "10ms", preexec_fn=limited,
                out=tmp_path / "p")
    assert p.rc == 3, p.err
    assert any("samples of CPU and memory end" in note for note in p.report["notes"])


@pytest.fixture
def open_folder():
    """Where another user may read: pytest's own folders are private."""
    with tempfile.TemporaryDirectory(prefix="stoker-profile-test-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield pathlib.Path(folder)


def test_log_folder_that_cannot_be_written(open_folder):
    """The library alone, with a folder it may not write to, or that is not there."""
    for i in range(64):
        zeros(open_folder / f"f{i:02d}.bin", FILE)
    library, program = open_folder / "preload.so", open_folder / "fault"
    shutil.copy(LIBRARY, library)
    shutil.copy(fault(), program)
    (open_folder / "readonly").mkdir(mode=0o555)
    alone = bare([program, "fork64", open_folder])
    for folder in (open_folder / "readonly", open_folder / "none", open_folder / "f00.bin",
                   "relative", ""):
        env = bare_env({"LD_PRELOAD": str(library), "STOKER_PROFILE_DIR": str(folder)})
        done = subprocess.run([program, "fork64", open_folder], capture_output=True, env=env,
                              cwd=open_folder, preexec_fn=as_nobody if os.geteuid() == 0 else None)
        assert (done.returncode, done.stdout, done.stderr) == alone, folder
    assert list((open_folder / "readonly").iterdir()) == []


# ---- company ----


def test_ld_preload_already_set(watched, data):
    """Another preloaded library keeps working, before ours or after."""
    shim = compiled("shim.c", "-shared", "-fPIC", "-ldl")
    p = watched([fault(), "read", data], env={"LD_PRELOAD": str(shim)}, same_err=False)
    assert b"shim: 10 reads" in p.err
    assert p.counts(data / "f00.bin", ("reads", "read_bytes")) == {"reads": 10, "read_bytes": FILE}


def test_static_binary(watched, data):
    """It cannot be watched: it runs, and the report says what was not seen."""
    try:
        static = compiled("fault.c", "-O1", "-static")
    except subprocess.CalledProcessError:
        pytest.skip("no static C library here")
    p = watched([static, "read", data])
    assert not p.below(data)
    assert any("static" in note for note in p.report["notes"]), p.report["notes"]


def test_static_binary_of_a_script(profile, stoker, tmp_path):
    """Whoever starts it, what it read by itself is no healthy program's silence."""
    big = zeros(tmp_path / "big.bin", 4 << 20)
    (tmp_path / "reader.c").write_text(
        "#include <fcntl.h>\n#include <unistd.h>\nint main(int c, char **v)\n{ static char b[4096]; "
        "int f = open(v[c - 1], O_RDONLY); while (read(f, b, sizeof b) > 0) {} return 0; }\n")
    try:
        static = compiled(tmp_path / "reader.c", "-O1", "-static")
    except subprocess.CalledProcessError:
        pytest.skip("no static C library here")
    p = profile(["sh", "-c", '"$0" "$1"; "$0" "$1"; cat "$1" > /dev/null; true', static, big])
    assert p.report["coverage"]["read"] == pytest.approx(1 / 3, abs=0.05)
    assert "no fault in what was seen; only " in stoker("advise", p.dir, rc=3).out
    p = profile([PYTHON, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])", static, big])
    assert p.report["coverage"]["read"] < 0.5


def test_program_that_does_not_exist(stoker, tmp_path):
    done = stoker("profile", "-o", tmp_path / "p", "--", tmp_path / "nobody", rc=None)
    assert done.rc == 127 and "nobody" in done.err


def test_status_of_the_program(profile):
    for status in (0, 1, 2, 77, 255):
        assert profile(["sh", "-c", f"exit {status}"]).rc == status


# ---- descriptors ----


def test_all_descriptors_closed(watched, data):
    """Daemons and spawners close everything they did not open, ours too: no wrong file is written
    to, and the numbers go on."""
    p = watched([fault(), "closeall", data])
    for i in (0, 2, 3):
        assert p.counts(data / f"f{i:02d}.bin", ("opens", "read_bytes")) == {
            "opens": 1, "read_bytes": FILE}
    assert all((data / f"f{i:02d}.bin").read_bytes() == bytes(FILE) for i in range(64))


def test_numbers_of_descriptors_are_used_again(watched, data):
    p = watched([fault(), "reuse", data])
    for i in range(4):
        assert p.counts(data / f"f{i:02d}.bin", ("opens", "reads", "read_bytes", "closes")) == {
            "opens": 250, "reads": 2500, "read_bytes": 250 * FILE, "closes": 250}
    assert p.count(data / "f04.bin", "read_bytes") == FILE
    assert p.count(data / "f05.bin", "read_bytes") == FILE


def test_relative_paths(watched, data):
    p = watched([fault(), "chdir", data])
    for i in range(3):
        assert p.count(data / f"f{i:02d}.bin", "read_bytes") == FILE


def test_deleted_and_renamed_files(watched, data):
    """Known by the name they were opened with."""
    def restore():
        (data / "f01.bin.renamed").unlink()
        zeros(data / "f00.bin", FILE)
        zeros(data / "f01.bin", FILE)
    p = watched([fault(), "gone", data], again=restore)
    assert p.count(data / "f00.bin", "read_bytes") == FILE
    both = p.count(data / "f01.bin", "read_bytes") + p.count(data / "f01.bin.renamed", "read_bytes")
    assert both == 2 * FILE
    assert p.count(data / "f00.bin", "removes") == 1


def test_the_highest_descriptor(watched, data):
    p = watched([fault(), "hugefd", data])
    assert p.counts(data / "f00.bin", ("opens", "dups", "read_bytes")) == {
        "opens": 1, "dups": 1, "read_bytes": FILE}


def test_closed_standard_descriptors(watched, data):
    p = watched([fault(), "nostd", data], same_err=False)
    assert p.count(data / "f00.bin", "read_bytes") == FILE


def test_names_that_are_no_text(watched, data):
    """Newlines, escapes and bytes that are no UTF-8: counted, valid JSON, harmless on a
    terminal."""
    p = watched([fault(), "names", data])
    assert p.total(data, "write_bytes") == 50 and p.total(data, "read_bytes") == 50
    assert len({r["path"] for r in p.below(data) if r["counters"]["reads"]}) == 5
    text = subprocess.run([STOKER, "report", p.dir], capture_output=True, env=bare_env()).stdout
    assert b"\033[31m" not in text and b"new\nline" not in text
    text.decode("utf-8")


# ---- threads ----


def test_threads_and_signals(watched, data):
    """Four threads read while a handler that reads, too, interrupts them: nothing is lost."""
    p = watched([fault(), "threads", data], same_err=False)
    in_handler = int(program_said(p.err))
    for i in range(4):
        assert p.counts(data / f"f{i:02d}.bin", ("opens", "reads", "read_bytes")) == {
            "opens": 1, "reads": 20000, "read_bytes": 20000 * 4096}
    # A handler that interrupts us while we count is not counted, and said to be missing.
    seen = p.count(data / "f10.bin", "reads")
    missing = sum(x["dropped_calls"] for x in p.processes)
    assert seen <= in_handler and in_handler - seen <= max(missing, in_handler // 2)


def test_a_thousand_threads(watched, data):
    p = watched([fault(), "manythreads", data])
    assert p.total(data, "opens") == 1000 and p.total(data, "read_bytes") == 1000 * FILE
    assert sum(x["dropped_calls"] for x in p.processes) == 0


def test_sigpipe(watched, data):
    watched([fault(), "sigpipe", data])


def test_trace_of_many_processes(watched, data):
    """--trace keeps every operation of every worker."""
    p = watched([fault(), "fork64", data], "--trace")
    assert p.total(data, "reads") == 640
    assert sum(x["dropped_trace"] for x in p.processes) == 0


def test_handlers_that_do_not_return(watched, data):
    """A read left by longjmp: the thread's later reads are still seen."""
    p = watched([fault(), "longjmp", data])
    assert p.counts(data / "f00.bin", ("opens", "reads", "read_bytes")) == {
        "opens": 1, "reads": 10, "read_bytes": FILE}


def test_threads_that_are_cancelled(watched, data):
    p = watched([fault(), "cancel", data])
    assert p.counts(data / "f00.bin", ("opens", "reads", "read_bytes")) == {
        "opens": 1, "reads": 10, "read_bytes": FILE}


def test_a_position_shared_over_fork(watched, data):
    """The child's read moves the parent's position: where the parent reads next is known."""
    p = watched([fault(), "shared", data])
    assert p.counts(data / "f00.bin", ("opens", "reads", "read_bytes")) == {
        "opens": 1, "reads": 3, "read_bytes": 3 * 4096}
    assert p.count(data / "f00.bin", "max_offset") == 3 * 4096


def test_appending(watched, data):
    """O_APPEND writes at the end, wherever the position was."""
    p = watched([fault(), "append", data], again=lambda: zeros(data / "f00.bin", FILE))
    assert p.counts(data / "f00.bin", ("writes", "write_bytes", "consec_writes"), "posix") == {
        "writes": 4, "write_bytes": 32, "consec_writes": 3}
    assert p.count(data / "f00.bin", "min_offset", "posix") == FILE
    assert p.count(data / "f00.bin", "max_offset", "posix") == FILE + 32
    assert p.counts(data / "f00.bin", ("writes", "write_bytes"), "stdio") == {
        "writes": 1, "write_bytes": 8}


def test_a_daemon_is_not_waited_for(watched, profile, data):
    """It outlives the launcher, and what it does later is in its log."""
    p = profile([fault(), "daemon", data])
    assert p.rc == 0
    until((data / "done").exists)
    assert p.count(data / "f00.bin", "read_bytes") == FILE


def test_few_descriptors_and_little_memory(watched, data):
    p = watched([fault(), "limits", data])
    assert p.total(data, "read_bytes") >= 64 * FILE


def test_a_current_folder_that_is_gone(watched, data):
    p = watched([fault(), "gone_folder", data])
    assert p.count(data / "f00.bin", "read_bytes") == FILE


# ---- disk use ----


def test_logs_are_small(profile, data):
    """A job of thousands of processes must not fill the folder."""
    p = profile([fault(), "fork64", data])
    used = sum(f.stat().st_blocks * 512 for f in pathlib.Path(p.dir).iterdir())
    assert used / len(p.processes) < 600 << 10
