"""Marks: what a program says of its steps, epochs and phases, and that it costs nothing to say it."""

import shutil
import subprocess
import sys
import timeit

import pytest

from pythonlib import environment, stoker

# Stands in for the preload library: records its calls.
LISTENER = r"""
#include <stdint.h>
#include <stdio.h>
#define SAY(...) do { fprintf(stderr, __VA_ARGS__); fputc('\n', stderr); } while (0)
void stoker_preload_mark(uint32_t kind, const char *name, uint64_t number)
{ SAY("mark %u %s %lld", kind, name ? name : "-", (long long)number); }
void stoker_preload_phase_begin(const char *name) { SAY("begin %s", name); }
void stoker_preload_phase_end(void) { SAY("end"); }
void stoker_preload_told(int fd, int is_write, int64_t offset, int64_t bytes, uint64_t a, uint64_t b)
{ SAY("told %d %d %lld %lld %d", fd >= 0, is_write, (long long)offset, (long long)bytes, a < b); }
"""


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    folder = tmp_path_factory.mktemp("listener")
    compiler = shutil.which("cc") or pytest.skip("no C compiler")
    (folder / "l.c").write_text(LISTENER)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "l.so", folder / "l.c"], check=True)
    return folder / "l.so"


def heard(listener, code):
    env = environment()
    env["LD_PRELOAD"] = f"{env.get('LD_PRELOAD', '')}:{listener}".lstrip(":")
    done = subprocess.run([sys.executable, "-c", "import stoker\n" + code], env=env, text=True,
                          capture_output=True, check=True)
    return done.stderr.splitlines()


def test_marks_reach_the_profiler(listener):
    """The time line would have no steps."""
    lines = heard(listener, """
stoker.epoch()
stoker.step()
stoker.step(41)
stoker.epoch(number=2)
with stoker.phase("load"):
    with stoker.phase("décode"):
        pass

@stoker.phase("work")
def work(a, b=1):
    "doc"
    return a + b

assert work(1, b=2) == 3 and work.__doc__ == "doc"
try:
    with stoker.phase("bad"):
        raise ValueError
except ValueError:
    pass
""")
    assert lines == ["mark 3 - -1", "mark 1 - -1", "mark 1 - 41", "mark 3 - 2", "begin load",
                     "begin décode", "end", "end", "begin work", "end", "begin bad", "end"]


def test_reads_through_io_uring_are_told(listener, tmp_path):
    """A profile of a job that uses our loader would show no reads at all."""
    (tmp_path / "d").mkdir()
    for i in range(20):
        (tmp_path / "d" / f"{i}.bin").write_bytes(bytes(10_000))
    try:
        lines = heard(listener, f"""
ld = stoker.Loader({str(tmp_path / "d")!r}, batch=5, io="uring")
assert sum(len(b["data"]) for b in ld) == 20
""")
    except subprocess.CalledProcessError as wrong:
        if "io_uring" in wrong.stderr:
            pytest.skip("no io_uring here")
        raise
    told = [line.split() for line in lines if line.startswith("told")]
    assert told and all(t[1] == "1" and t[2] == "0" and t[5] == "1" for t in told)
    assert sum(int(t[4]) for t in told) >= 20 * 10_000


def test_marks_do_nothing_without_a_profiler():
    """They may stay in the program: a microsecond a step is the most they take."""
    stoker.step()
    stoker.epoch(1)
    with stoker.phase("x"):
        pass
    for wrong in ("x", -1, 1 << 64, 1.5):
        with pytest.raises((TypeError, OverflowError)):
            stoker.step(wrong)
    with pytest.raises(TypeError):
        stoker.phase(3)
    best = min(timeit.repeat(stoker.step, number=10_000, repeat=5)) / 10_000
    assert best < 20e-6  # 0.1 us without sanitizers, on an idle machine
