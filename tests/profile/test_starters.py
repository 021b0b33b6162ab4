"""Programs that others start: container runtimes, with process numbers and host names of their
own, and torchrun. A user would get a profile in which processes are mixed up, or none."""

import subprocess

import pytest

import mpilib
from conftest import STOKER
from profilelib import (LIBRARY, PYTHON, Profile, bare, bare_env, compiled,  # noqa: F401
                        needs_command, profile, zeros)

READS = """import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.read(fd, 1000 + int(sys.argv[2]))
if os.fork() == 0:
    os.pread(fd, 10, 0)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def data(tmp_path):
    return zeros(tmp_path.resolve() / "data/a.bin", 40960)


@pytest.fixture
def container():
    """The words that run a program in a container that shares the node's files."""
    words = ["bwrap", "--dev-bind", "/", "/", "--proc", "/proc", "--unshare-pid"]
    if bare([*words, "true"])[0] != 0:
        pytest.skip("this machine lets no user make namespaces")
    return words


@needs_command("bwrap")
def test_containers_at_the_same_time(profile, data, tmp_path, container):  # noqa: F811
    """All have a process 1 and 2: each is its own, and none is said to have left no log."""
    (tmp_path / "reads.py").write_text(READS)
    one = " ".join([*container, "{}", PYTHON, f"{tmp_path}/reads.py", str(data)])
    p = profile(["sh", "-c", " & ".join([one.format("") + " 1", one.format("") + " 2",
                                         one.format("--unshare-uts --hostname box") + " 3"])
                 + " & wait"])
    assert p.rc == 0, p.err
    readers = [i for i, x in enumerate(p.processes) if x["command"].startswith(PYTHON)
               and x["born"] != "fork"]
    assert len({p.processes[i]["parent"] for i in readers}) == 3
    for i in readers:
        extra = int(p.processes[i]["command"].split()[-1])
        assert p.count(data, "read_bytes", process=i) == 1000 + extra
        forked = [k for k, x in enumerate(p.processes) if x["parent"] == i]
        assert [p.processes[k]["worker"] for k in forked] == [1]
        assert p.count(data, "read_bytes", process=forked[0]) == 10
    assert not any("left no log" in note for note in p.report["notes"])


@needs_command("bwrap")
def test_a_container_that_shows_the_nodes_processes(data, tmp_path, container):
    """stoker inside, with numbers of its own: what has the same numbers outside is not the job's."""
    words = [w for w in container if w not in ("--proc", "/proc")]
    done = subprocess.run([*words, STOKER, "profile", "-o", tmp_path / "p", "--sample", "20ms", "--",
                           PYTHON, "-c", READS + "import time; time.sleep(0.1)", data, "5"],
                          capture_output=True, env=bare_env())
    p = Profile(tmp_path / "p", done)
    assert p.rc == 0, p.err
    assert p.count(data, "read_bytes") == 1015
    assert not p.report["samples"] and any("no samples" in n for n in p.report["notes"])


@needs_command("musl-gcc")
def test_another_c_library(profile, tmp_path):  # noqa: F811
    """Alpine's loader ends a program when a preloaded library asks for what musl does not have."""
    program = compiled("programs/stdio.c", "-O1", "-w", compiler="musl-gcc")
    zeros(tmp_path / "in.bin", 100000)
    (tmp_path / "lines.txt").write_text("".join(f"line {i:04d}\n" for i in range(1000)))
    alone = bare([program, tmp_path])
    direct = subprocess.run([program, tmp_path], capture_output=True, env=bare_env(
        {"LD_PRELOAD": str(LIBRARY), "STOKER_PROFILE_DIR": str(tmp_path)}))
    assert (direct.returncode, direct.stdout, direct.stderr) == alone
    p = profile(["sh", "-c", '"$0" "$1"; echo $?', program, tmp_path])
    assert (p.rc, p.out) == (0, b"%s%d\n" % (alone[1], alone[0])), p.err


def test_torchrun(profile, data, tmp_path):  # noqa: F811
    """Which process is which rank, and which of its workers."""
    pytest.importorskip("torch.distributed.run")
    (tmp_path / "train.py").write_text(READS.replace("sys.argv[2]", "os.environ['RANK']"))
    # Redirections of a rank 9, which is not there: the default ones need an older Python.
    p = profile([PYTHON, "-m", "torch.distributed.run", "-r", "9:1", "-t", "9:1",
                 "--monitor_interval", "0.1", "--nproc_per_node", "2", tmp_path / "train.py", data])
    if b"torch/distributed" in p.err and p.rc != 0:
        pytest.skip("this torchrun does not start with this Python")
    assert p.rc == 0, p.err
    for rank in (0, 1):
        ours = {x["worker"] or 0: i for i, x in enumerate(p.processes)
                if x["world"] == 2 and x["rank"] == rank}
        assert sorted(ours) == [0, 1]
        assert p.count(data, "read_bytes", process=ours[0]) == 1000 + rank
        assert p.count(data, "read_bytes", process=ours[1]) == 10


def test_programs_that_set_ld_preload(profile, data, tmp_path):  # noqa: F811
    """A job script that preloads an allocator (jemalloc) would get a profile without its program.
    What it sets comes first; a program for which the variable is emptied is left alone. Some start
    it with an environment that has nothing else, or through the C library's shell."""
    (tmp_path / "other.c").write_text("int stk_test_other;")
    (tmp_path / "reads.py").write_text(
        "import os, sys\nos.read(os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]))\n"
        "print(os.environ['LD_PRELOAD'])")
    other = tmp_path / "libother.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", other, tmp_path / "other.c"], check=True)
    one, start = f"{PYTHON} {tmp_path}/reads.py {data}", "import os, subprocess, sys; "
    args = f"{{**os.environ, \"LD_PRELOAD\": \"{other}\"}}"
    only, own = f"{{\"LD_PRELOAD\": \"{other}\"}}", f"os.environ[\"LD_PRELOAD\"] = \"{other}\""
    lines = [f"env LD_PRELOAD={other} {one}", f"LD_PRELOAD={other} {one}",
             f"(export LD_PRELOAD={other}; exec {one}", f"env LD_PRELOAD={other}: nice {one}",
             f"{PYTHON} -c '{start}subprocess.call(sys.argv[1:], env={args})' {one}",
             f"{PYTHON} -c '{start}os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], {args}), 0)' {one}",
             f"{PYTHON} -c '{start}os.execve(sys.argv[1], sys.argv[1:], {args})' {one}",
             f"env -i LD_PRELOAD={other} {one}",
             f"{PYTHON} -c '{start}os.execve(sys.argv[1], sys.argv[1:], {only})' {one}",
             f"{PYTHON} -c '{start}os.waitpid(os.posix_spawn(sys.argv[1], sys.argv[1:], {only}), 0)' {one}",
             f"{PYTHON} -c '{start}{own}; os.system(\" \".join(sys.argv[1:]))' {one}"]
    lines = [f"{line} {2 ** i}" + ")" * line.startswith("(") for i, line in enumerate(lines)]
    lines += [f"LD_PRELOAD= {one} 1000"]
    p = profile(["sh", "-c", "; ".join(lines)])
    assert p.rc == 0, p.err
    assert p.count(data, "read_bytes") == 2 ** (len(lines) - 1) - 1
    told = p.out.decode().split()
    assert len(told) == len(lines) - 1
    assert all(x.startswith(str(other)) and x.endswith("/libstoker-preload.so") for x in told), told


def test_programs_that_leave_no_log(profile, stoker, data, tmp_path):  # noqa: F811
    """Nobody sampled them, but the kernel counted what they read: a note says so, and the profile
    gets no clean bill."""
    zeros(tmp_path / "big.bin", 24 << 20)
    p = profile(["sh", "-c", f"cat {data}; exec 3>&1; env -i cat {tmp_path}/big.bin"], "--sample", "10s")
    assert p.rc == 0 and any("24.0 MiB read by processes that left no log" in note
                             for note in p.report["notes"]), p.report["notes"]
    assert stoker("advise", p.dir, rc=3).out.count("% of the bytes") == 1


TRAIN = """import os, sys, time
while time.process_time() < 0.3:
    pass
os.read(os.open(sys.argv[1], os.O_RDONLY), 1 << 20)
"""
SHIM = """#!/usr/bin/env bash
at="$(readlink -f "$0")"; name=$(basename "$at" | tr a-z A-Z); cat "$at" > /dev/null
{}"$@"{}
"""
SUBPROCESS = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"


def chains():
    """Ways to start a program that leave one process of it."""
    return {"shim": ["./shim"], "script": ["./script"], "nested": ["bash", "-c", 'exec ./shim "$@"', "x"],
            "env": ["env", "X=1", "bash", "-c", 'exec "$@"', "x"], "nice": ["nice", "timeout", "99"],
            "python": [PYTHON, "-c", SUBPROCESS, "./script"]}


@needs_command("bash")
@pytest.mark.parametrize("mpi", ["none", *mpilib.MPIS])
def test_what_starts_a_program(stoker, tmp_path, mpi):
    """A job behind a shim of pyenv would be said to have 41 processes, with a rank called readlink."""
    data = zeros(tmp_path / "data.bin", 1 << 20)
    (tmp_path / "train.py").write_text(TRAIN)
    for name, before, after in ("shim", "exec ", ""), ("script", "", "; exit $?"):
        (tmp_path / name).write_text(SHIM.format(before, after))
        (tmp_path / name).chmod(0o755)
    (tmp_path / "p").mkdir()
    ranks = 1 if mpi == "none" else 2
    if ranks > 1:
        mpilib.needs_mpi(mpi)
    for name, words in chains().items():
        argv = [STOKER, "profile", "-q", "-o", tmp_path / "p" / name, "--", *words, PYTHON, "train.py", data]
        line = argv if ranks == 1 else mpilib.argv_of(mpi, ranks, *argv)
        subprocess.run(line, env=mpilib.env_for(bare_env()), cwd=tmp_path, check=True)
        report = stoker("report", tmp_path / "p" / name, "--json", "-").json()["result"]
        shown = stoker("report", tmp_path / "p" / name).out
        rows = stoker("watch", "--once", "--json", "-", tmp_path / "p" / name).json()["result"]
        rows = rows["ranks" if ranks > 1 else "programs"]
        assert (report["profile"]["processes"], report["job"]["procs"]) == (ranks, ranks), name
        assert [r["procs"] for r in report["ranks"]] == [1] * ranks, name
        assert f"{ranks} process{'es' * (ranks > 1)}, {ranks} thread" in shown, shown
        assert [(r["processes"], r["command"][:6]) for r in rows] == [(1, "python")] * ranks, name
        assert report["main_loop"]["start_s"] >= 0.2, name


ASAN = r"""
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char p[4096];
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    return read(fd, p, sizeof p) == sizeof p ? 0 : 3;
}
"""


def test_programs_with_asan_whoever_starts_them(profile, data, tmp_path):  # noqa: F811
    """A program built with ASan runs and is recorded, also when a shell, env or Python starts it,
    with options of their own for ASan, or none."""
    (tmp_path / "a.c").write_text(ASAN)
    if subprocess.run(["gcc", "-fsanitize=address", "-o", tmp_path / "a", tmp_path / "a.c"],
                      capture_output=True).returncode:
        pytest.skip("no gcc with a runtime of ASan")
    a, start = f"{tmp_path}/a {data}", "import os, subprocess, sys; "
    lines = [a, f"env {a}", f"timeout 99 {a}", f"ASAN_OPTIONS=detect_leaks=0 {a}",
             f"env -u ASAN_OPTIONS {a}", f"(exec {a})",
             f"{PYTHON} -c '{start}os.environ.pop(\"ASAN_OPTIONS\"); "
             f"sys.exit(subprocess.call(sys.argv[1:]))' {a}",
             f"{PYTHON} -c '{start}os.environ[\"ASAN_OPTIONS\"] = \"\"; "
             f"os.execv(sys.argv[1], sys.argv[1:])' {a}"]
    p = profile(["sh", "-c", "; ".join(f"{line} || echo failed: {i}" for i, line
                                       in enumerate(lines))])
    assert (p.rc, p.out) == (0, b""), p.err
    assert p.count(data, "read_bytes") == 4096 * len(lines)
