"""What a library inside a stranger's program can break, and must not: stacks of a few kilobytes,
locks of the loader, sandboxes that kill, threads that are ended in the middle, memory that cannot
be had. Each program does here what it does alone; a user would lose the job, not only its
profile."""

import os
import re
import resource
import shutil
import subprocess

import pytest

from conftest import PATIENCE_S
from profilelib import (LIBRARY, bare, bare_env, compiled, needs_command,  # noqa: F401
                        profile, zeros)

PAGE, PAGES = 4096, 10


@pytest.fixture
def data(tmp_path):
    folder = tmp_path.resolve() / "data"
    zeros(folder / "a.bin", PAGE * PAGES)
    return folder


def harm():
    return compiled("programs/harm.c", "-O1", "-ldl")


def alone_and_watched(profile, argv):  # noqa: F811
    alone = bare(argv)
    assert alone[0] == 0, alone
    p = profile(argv)
    assert (p.rc, p.out) == alone[:2], p.err
    return p


@pytest.mark.parametrize("case, reads, logs", [
    ("small_stack", 2 * PAGES, 2), ("alternate_stack", PAGES, 1), ("loader_error", PAGES, 1),
    ("allocates", 2 * PAGES, 1), ("many_threads", 2000 * PAGES, 1)])
def test_it_does_what_it_does_alone(case, reads, logs, profile, data):  # noqa: F811
    """Threads and handlers with the least stack there is; dlerror(), which is the program's; no
    malloc() in a first read; threads that come and go. And all is counted."""
    p = alone_and_watched(profile, [harm(), case, data])
    assert p.count(data / "a.bin", "reads") == reads
    assert len(p.processes) == logs


def test_library_whose_constructor_waits_for_a_thread(profile, data):  # noqa: F811
    """The loader's lock is held meanwhile: looking up a function would wait for ever."""
    library = compiled("programs/harm_library.c", "-shared", "-fPIC")
    alone_and_watched(profile, [harm(), "constructor", data, library])


@pytest.mark.parametrize("case", ["strict_sandbox", "filter_sandbox", "no_counter"])
def test_sandbox_that_kills(case, profile, data):  # noqa: F811
    """One system call that the program would not have made itself, and it is dead. What was read
    before is in the profile."""
    if bare([harm(), case, data])[0] != 0:
        pytest.skip("this kernel has no such sandbox")
    p = alone_and_watched(profile, [harm(), case, data])
    assert p.count(data / "a.bin", "reads") >= PAGES


@pytest.mark.parametrize("case", ["cancelled", "closed_while_read", "jumped"])
def test_threads_that_stop_in_the_middle(case, profile, data):  # noqa: F811
    """Cancelled anywhere, left by longjmp() out of a handler, reading what another closes: no
    other thread may wait for them for ever."""
    alone_and_watched(profile, [harm(), case, data])


@needs_command("c++")
def test_exceptions_through_our_functions(profile, data):  # noqa: F811
    program = compiled("programs/harm_throw.cpp", compiler="c++")
    p = alone_and_watched(profile, [program, data])
    assert p.out == b"caught scandir\ncaught nftw\n"


def test_little_address_space(profile, data):  # noqa: F811
    """ulimit -v, as batch systems set it: what cannot be mapped is not recorded."""
    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (24 << 20, 24 << 20))
    argv = [harm(), "many_threads", data]
    alone = bare(argv, preexec_fn=limited)
    done = subprocess.run(argv, capture_output=True, preexec_fn=limited, timeout=PATIENCE_S, env=bare_env(
        {"LD_PRELOAD": str(LIBRARY), "STOKER_PROFILE_DIR": str(data.parent)}))
    assert (done.returncode, done.stdout, done.stderr) == alone


def test_few_descriptors(profile, data):  # noqa: F811
    """RLIMIT_NOFILE: with one descriptor left the program has it."""
    script = 'ulimit -n 4; exec "$0" small_stack "$1"'
    alone_and_watched(profile, ["sh", "-c", script, harm(), data])


def disk_usage(folder):
    return sum(f.stat().st_blocks * 512 for f in folder.glob("*.stklog"))


def test_logs_of_small_programs_are_small(profile, tmp_path, data):  # noqa: F811
    """A script starts thousands of programs: what each leaves must not fill the user's quota."""
    p = profile(["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done"])
    assert len(list(p.dir.glob("*.stklog"))) == 1, "small logs share a file"
    assert len(p.processes) == 11 and disk_usage(p.dir) <= 11 * 20480 + 32768
    p = profile([harm(), "loader_error", data])
    assert p.count(data / "a.bin", "reads") == PAGES and disk_usage(p.dir) <= 80 << 10


def test_logs_of_many_threads_are_small(profile, data):  # noqa: F811
    p = alone_and_watched(profile, [harm(), "many_threads", data])
    assert disk_usage(p.dir) <= 2 << 20


def test_memory_of_many_files(tmp_path, profile):  # noqa: F811
    """A node runs a hundred workers, each of which opens a thousand files: memory that is theirs
    must not be ours."""
    folder = tmp_path.resolve() / "files"
    for i in range(1000):
        zeros(folder / str(i), 10)
    script = (f"import os\nfor i in range(1000):\n    fd = os.open('{folder}/%d' % i, 0)\n"
              "    os.read(fd, 5)\n    os.close(fd)\n"
              "print([x.split()[1] for x in open('/proc/self/status') if 'RssAnon' in x][0])")
    alone = bare(["/usr/bin/python3", "-c", script])
    p = profile(["/usr/bin/python3", "-c", script])
    assert p.total(folder, "read_bytes") == 5000
    assert int(p.out) - int(alone[1]) < 460, "kB of its own memory"


def test_names_that_are_asked_for_leave_room(profile, tmp_path):  # noqa: F811
    """A tree of a million files is listed, a hundred are read: these are seen one by one."""
    folder = tmp_path.resolve() / "tree"
    for i in range(200):
        zeros(folder / f"{i:03d}.jpg", 100)
    script = (f"import os\nfor i in range(200): os.stat('{folder}/%03d.jpg' % i)\n"
              f"for i in range(150, 160):\n    fd = os.open('{folder}/%03d.jpg' % i, os.O_RDONLY)\n"
              "    os.read(fd, 9)")
    p = profile(["/usr/bin/python3", "-c", script], "--include", folder,
                env={"STOKER_PROFILE_FILES": "100"})
    assert p.rc == 0, p.err
    for i in range(150, 160):
        assert p.count(folder / f"{i:03d}.jpg", "read_bytes") == 9


@needs_command("objdump")
def test_it_loads_into_old_containers():
    """A version of the C library that is not there keeps every program in a container from
    starting. And thread-local memory is taken without a call that may allocate."""
    symbols = subprocess.run(["objdump", "-T", LIBRARY], capture_output=True, text=True,
                             check=True).stdout
    needed = {tuple(map(int, v.split("."))) for v in re.findall(r"\(?GLIBC_([\d.]+)\)? ", symbols)}
    assert needed and max(needed) <= (2, 17)
    assert "__tls_get_addr" not in symbols


@needs_command("aarch64-linux-gnu-gcc")
def test_it_builds_for_aarch64(tmp_path):
    """Grace and Graviton nodes."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    source = os.path.join(root, "src")
    files = sorted(f for f in os.listdir(os.path.join(source, "preload")) if f.endswith(".c"))
    if not os.path.isdir("/usr/aarch64-linux-gnu/include") and not shutil.which("qemu-aarch64"):
        pytest.skip("no C library for aarch64 here")
    for f in files:
        subprocess.run(["aarch64-linux-gnu-gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O0", "-fPIC",
                        "-D_FILE_OFFSET_BITS=64", "-Wall", "-Wextra", "-Wconversion", "-Wshadow",
                        "-Wno-missing-field-initializers", "-Werror", "-I", source, "-c",
                        os.path.join(source, "preload", f), "-o", tmp_path / f"{f}.o"], check=True)
