"""What the fault tests share: stoker under strace (killed, slowed or refused at an exact system
call), as another user, with a limit; what a folder holds before and after; and hostile input, with
the memory that a run takes."""

import functools
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess

import pytest

import tfrecordlib as tfr
from conftest import LONG, PATIENCE_S, STOKER, Result, check_sane, clean_env, until

# Calls that change a file system: between any two of them nothing on disk can differ.
CHANGING = ("mkdir", "mkdirat", "rename", "renameat", "renameat2", "link", "linkat", "unlink",
            "unlinkat", "rmdir", "write", "pwrite64", "writev", "ftruncate", "fallocate", "fsync",
            "fdatasync", "syncfs", "msync", "chmod", "fchmod", "utimensat")


@functools.lru_cache(None)
def strace_trouble():
    """Why strace cannot be used here, or None."""
    if not shutil.which("strace"):
        return "strace is not installed"
    done = subprocess.run(["strace", "-o", "/dev/null", "-e", "trace=none", "true"],
                          capture_output=True, text=True)
    return None if done.returncode == 0 else f"strace does not work here: {done.stderr.strip()}"


needs_strace = pytest.mark.skipif(strace_trouble() is not None, reason=str(strace_trouble()))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount or be somebody else")


def traced_env(env=None):
    """LeakSanitizer is a tracer itself and cannot work under another."""
    env = clean_env(env)
    env["ASAN_OPTIONS"] += ":detect_leaks=0"
    return env


def run_traced(*args, inject=(), paths=(), log=None, rc=None, env=None, cwd=None, threads=False):
    """stoker under strace with the given --inject expressions, for all files or only those of
    `paths`; its own return code in .rc. threads: those that it starts, too; each counts its own calls."""
    argv = ["strace", "-qq", *(["-f"] if threads else []), "-o", str(log or "/dev/null"),
            *(f"--trace-path={p}" for p in paths)]
    argv += [f"--inject={i}" for i in inject]
    calls = {i.split(":")[0] for i in inject} | ({"openat", *CHANGING} if log else set())
    argv += ["-e", "trace=" + ",".join(sorted(calls))]
    argv += [str(STOKER), *map(str, args)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, cwd=cwd,
                          env=traced_env(env))
    result = Result(argv, done.returncode, done.stdout, done.stderr)
    if result.rc != -9:
        check_sane(result)
    if rc is not None:
        assert result.rc in (rc if isinstance(rc, tuple) else (rc,)), repr(result)
    return result


def change_points(*args, tmp, inject=(), env=None, cwd=None):
    """[(call, n)]: the n-th use of that call changes something; all of an unbroken run's main
    thread, in order. With --jobs 1 that is everything but what child processes do."""
    log = pathlib.Path(tmp) / "strace.log"
    run_traced(*args, log=log, inject=inject, rc=(0, 3), env=env, cwd=cwd)
    points, count = [], {}
    for line in log.read_text(errors="replace").splitlines():
        m = re.match(r"(\w+)\(", line)
        if not m:
            continue
        call = m.group(1)
        count[call] = count.get(call, 0) + 1
        if call != "openat" or "O_CREAT" in line or "O_TMPFILE" in line:
            points.append((call, count[call]))
    log.unlink()
    return points


def ladder(points, rungs):
    """`rungs` of the points, evenly spread, first and last included; all of them with
    STOKER_LONG=1."""
    if LONG or len(points) <= rungs:
        return points
    return [points[i * (len(points) - 1) // (rungs - 1)] for i in range(rungs)]


def kill_at(point, *args, inject=(), env=None, cwd=None, threads=False):
    """kill -9 on entering the n-th call. False: it ended before (how many files the sanitizers'
    runtime opens varies)."""
    call, n = point
    inject = [*inject, f"{call}:signal=KILL:when={n}"]
    return run_traced(*args, inject=inject, rc=(-9, 0), env=env, cwd=cwd, threads=threads).rc == -9


def held_at(point, *args, log, cwd=None):
    """stoker under strace, standing still behind the n-th call, until let_go()."""
    call, n = point
    argv = ["strace", "-qq", "-o", log, "-e", f"trace={call}", f"--inject={call}:signal=STOP:when={n}",
            STOKER, *map(str, args)]
    pathlib.Path(log).write_text("")
    proc = subprocess.Popen(argv, cwd=cwd, env=traced_env(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: "stopped by SIGSTOP" in pathlib.Path(log).read_text() or proc.poll() is not None)
    assert proc.poll() is None, proc.communicate()
    return proc


def let_go(strace, also=None):
    """It goes on; with a signal, that is the first thing it sees."""
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            traced = f"\nTracerPid:\t{strace.pid}\n" in status.read_text()
        except OSError:
            continue
        if traced:
            for number in filter(None, (also, signal.SIGCONT)):
                os.kill(int(status.parent.name), number)


def tree(path):
    """{relative name: bytes} of all files below path."""
    path = pathlib.Path(path)
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*"))
            if p.is_file()}


def names(path):
    return sorted(p.name for p in pathlib.Path(path).iterdir())


def same_tree(a, b):
    """Fails with names, not with megabytes of bytes."""
    a = tree(a) if not isinstance(a, dict) else a
    b = tree(b) if not isinstance(b, dict) else b
    assert sorted(a) == sorted(b)
    assert not [n for n in a if a[n] != b[n]], "files differ"


def as_nobody():
    """preexec_fn: drop to an unprivileged user, so that permissions mean something."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


class small_disk:
    """A tmpfs of that size on a folder, as long as the block lasts."""

    def __init__(self, path, size):
        self.path, self.size = pathlib.Path(path), size

    def __enter__(self):
        self.path.mkdir(exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.size}", "stoker-test",
                               self.path], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"cannot mount a tmpfs here: {done.stderr.strip()}")
        return self

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)

    def used(self):
        v = os.statvfs(self.path)
        return (v.f_blocks - v.f_bfree) * v.f_frsize

    def free(self):
        v = os.statvfs(self.path)
        return v.f_bfree * v.f_frsize

    def __exit__(self, *exc):
        subprocess.run(["umount", self.path], check=True)


# ---- hostile input ------------------------------------------------------------------------------

MIB = 1 << 20
# Over what a run on a small healthy dataset takes (sanitizers take some hundred MiB of their own).
MEMORY_MARGIN = 128 * MIB
BAD = (1, 3, 4)  # damaged, not supported, refused: never "done"


def measured(*args, timeout=120):
    """Runs stoker; returns (Result, peak resident bytes of it and its children)."""
    def limits():
        # Against a bug here taking the machine down: files, CPU time, no core dumps.
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (timeout, timeout))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    argv = [str(STOKER), *map(str, args)]
    proc = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, env=clean_env(), preexec_fn=limits)
    text = proc.stdout.read()
    proc.stdout.close()
    _, status, usage = os.wait4(proc.pid, 0)
    proc.returncode = os.waitstatus_to_exitcode(status)
    result = Result(argv, proc.returncode, b"", text)
    check_sane(result)
    return result, usage.ru_maxrss * 1024


@pytest.fixture(scope="session")
def usual_memory(tmp_path_factory):
    """Peak memory of verifying a small healthy file: what the binary itself takes."""
    path = tmp_path_factory.mktemp("usual") / "small.tfrecord"
    path.write_bytes(b"".join(tfr.frame(b"x" * 1000) for _ in range(100)))
    result, peak = measured("verify", path)
    assert result.rc == 0, result
    return peak


@pytest.fixture
def bad(usual_memory):
    """Runs a command that must find fault: bad("verify", path) -> its output."""
    def run(*args, rc=BAD, names=None, offset=None, memory=MEMORY_MARGIN):
        result, peak = measured(*args)
        assert result.rc in rc, f"status {result.rc}, expected {rc}\n{result!r}"
        assert peak < usual_memory + memory, f"{(peak - usual_memory) >> 20} MiB over the usual"
        if names is not None:
            place = re.escape(str(names)) + (f":{offset}\\b" if offset is not None else "")
            assert re.search(place, result.err), f"{place} is not named\n{result!r}"
        return result.err
    return run
