"""Logs of small processes share a file. A script that starts thousands of programs must not leave
thousands of files, and a process must lose nothing by sharing, however it ends and whatever it
outgrows."""

import re
import shutil
import subprocess

import pytest

from conftest import until
from profilelib import (LIBRARY, bare_env, compiled, needs_command,  # noqa: F401
                        profile, zeros)

PAGES, TURNS = 10, 20000


@pytest.fixture
def data(tmp_path):
    folder = tmp_path.resolve() / "data"
    for i in range(24):
        zeros(folder / f"f{i:02d}.bin", PAGES * 4096)
    return folder


def small(case, folder, *more):
    return [compiled("programs/small.c", "-O1", "-w"), case, folder, *more]


def own_files(p):
    return [f for f in p.dir.glob("*.stklog") if ".slots." not in f.name]


def reads(p, data, i):
    return p.count(data / f"f{i:02d}.bin", "reads")


def test_many_short_processes_leave_one_file(profile, data):  # noqa: F811
    """A folder with 2,000 files takes longer to copy and to read than it took to fill."""
    p = profile(["sh", "-c", f"for i in {'. ' * 50}; do cat {data}/f00.bin >/dev/null; done"])
    assert len(p.processes) == 51 and reads(p, data, 0) == 50
    assert not own_files(p) and len(list(p.dir.glob("*.stklog"))) == 1
    assert [q["parent"] for q in p.processes[1:]] == [0] * 50


@pytest.mark.parametrize("case, ended", [("files", "exit"), ("_exit", "exit"), ("killed", "killed")])
@pytest.mark.parametrize("files", [2, 20])
def test_nothing_is_lost_however_it_ends(case, ended, files, profile, data):  # noqa: F811
    """kill -9 asks nobody: what was counted is in the slot, or in the file that the log moved to."""
    p = profile(small(case, data, files))
    assert [q["ended"] for q in p.processes] == [ended]
    assert [reads(p, data, i) for i in range(files)] == [PAGES] * files
    assert len(own_files(p)) == (files > 5)


def test_threads_that_outgrow_a_slot(profile, data):  # noqa: F811
    """The log moves while a thread writes to it."""
    p = profile(small("threads", data))
    assert p.rc == 0
    assert [reads(p, data, i) for i in range(4)] == [2 * TURNS, TURNS, TURNS, TURNS]
    assert len(p.processes) == 1 and len(own_files(p)) == 1


def test_programs_executed_in_a_row_are_one_process(profile, data):  # noqa: F811
    """Counted as three, a wrapper script would look like three ranks."""
    p = profile(["sh", "-c", f"cat < {data}/f00.bin >/dev/null; exec env A=1 cat {data}/f01.bin"])
    assert reads(p, data, 0) == reads(p, data, 1) == 1
    born = sorted(q["born"] for q in p.processes)
    assert born == ["exec", "exec", "start", "start"], p.processes


def test_forked_children(profile, data):  # noqa: F811
    p = profile(small("forks", data, 10))
    assert reads(p, data, 0) == 10 * PAGES and reads(p, data, 11) == 5 * PAGES
    assert len(own_files(p)) == 5 and all(q["parent"] == 0 for q in p.processes[1:])


def test_process_that_outlives_the_launcher(profile, data):  # noqa: F811
    """The launcher cuts the file to what is in use: a process in it must not be killed by that."""
    p = profile(small("left_behind", data))
    (data / "go").touch()
    until(lambda: (data / "done").exists())
    assert reads(p, data, 0) == 2 * PAGES and reads(p, data, 11) == PAGES


def test_ranks_in_containers_have_slots_of_their_own(profile, data):  # noqa: F811
    """Their process ids are the same, and so are their nodes' names: one would replace the other's file."""
    p = profile(small("files", data, 20),
                env={"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3"})
    [slots] = p.dir.glob("*.slots.stklog")
    assert int(slots.name.split(".")[-3]) // (1 << 22) == 3
    [own] = own_files(p)
    assert own.name.split(".")[-2] == slots.name.split(".")[-3] + "000001" and reads(p, data, 19) == PAGES


@needs_command("strace")
def test_a_short_process_makes_few_calls(data, tmp_path, profile):  # noqa: F811
    """A file, a library, memory in many pieces: each is a part of what a script of short programs takes
    longer. (Other calls depend on how long the process takes.)"""
    def calls(argv):
        log = tmp_path / "calls"
        subprocess.run(["strace", "-f", "-o", log, *argv], env=bare_env(), check=True, capture_output=True)
        lines = log.read_text().splitlines()
        began = max(i for i, line in enumerate(lines) if "execve(" in line and "= 0" in line)
        return [line for line in lines[began + 1:] if line.split()[0] == lines[began].split()[0] and "(" in line]
    cat = shutil.which("cat")
    p = profile(["true"])
    if not list(p.dir.glob("*.slots.stklog")):
        pytest.skip("this file system cannot allocate room for slots")
    alone = calls([cat, data / "f00.bin"])
    name = next(p.dir.glob("*.slots.stklog"))
    head = bytearray(name.read_bytes()[:32768])
    head[12:16] = bytes(4)  # open again
    name.write_bytes(bytes(head) + bytes(32768 * 40))
    watched = calls(["env", f"LD_PRELOAD={LIBRARY}", f"STOKER_PROFILE_DIR={p.dir}",
                     f"STOKER_PROFILE_SLOTS={name.name}", cat, data / "f00.bin"])
    costly = [c for c in watched if re.search(r"O_CREAT|fallocate|ftruncate|libdl", c)]
    mapped = sum(" mmap(" in c for c in watched) - sum(" mmap(" in c for c in alone)
    assert not costly and mapped <= 8, "\n".join(watched)
