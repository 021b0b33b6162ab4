"""C programs whose I/O is known exactly (programs/*.c say what they do): every wrapped function is
called, and every counter of every file equals the truth. A wrapper that forgets to count, counts
twice or changes what a program gets shows here, and nowhere else in time."""

import hashlib
import json
import re
import subprocess

import pytest

from conftest import run_stoker
from profilelib import HERE, compiled, needs_command, profile, zeros  # noqa: F401
from slowfslib import slowfs

PROGRAMS = HERE / "programs"
# Told by time, place or size: not by how often something was done.
NOT_COUNTED = ("_ns", "min_offset", "max_offset", "file_size", "rw_switches")


def truth(name):
    text = re.search(r"/\* TRUTH\n(.*?)\*/", (PROGRAMS / f"{name}.c").read_text(), re.DOTALL)
    return json.loads(text.group(1))


def build(name, *flags, compiler=None):
    header = hashlib.sha256((PROGRAMS / "truth.h").read_bytes()).hexdigest()[:8]
    return compiled(f"programs/{name}.c", "-O2", "-std=gnu17", f"-DTRUTH_H=0x{header}",
                    "-Wl,--no-as-needed", *flags, compiler=compiler)


@pytest.fixture
def folder(tmp_path):
    """As truth.h says. The path of the temporary directory may hold links: the profile's does not."""
    made = tmp_path.resolve() / "data"
    zeros(made / "in.bin", 100000)
    (made / "lines.txt").write_text("".join(f"line {i:04}\n" for i in range(1000)))
    return made


def counted(p, path):
    """{api: {counter: n}} of a file, all processes together, without zeros."""
    found = {}
    for r in p.records:
        if r["path"] != str(path):
            continue
        counters = found.setdefault(r["api"], {})
        for name, n in r["counters"].items():
            if n and not name.endswith(NOT_COUNTED):
                counters[name] = counters.get(name, 0) + n
    return found


def check(p, folder, expected):
    assert p.rc == 0, p.err
    for name, apis in expected.items():
        where = {"f0": "sub/f0"}.get(name, name)
        found = counted(p, folder / where)
        left_open = {api for api, counters in apis.items() if counters == "any"}
        assert {a: c for a, c in found.items() if a not in left_open} == \
            {a: c for a, c in apis.items() if a not in left_open}, name


@pytest.mark.parametrize("name", ["stdio", "tiny", "meta", "dirs", "mmap", "copy", "aio", "fortify"])
def test_c_program(profile, folder, name):  # noqa: F811
    check(profile([build(name), folder]), folder, truth(name))


def test_streams(profile, folder):  # noqa: F811
    """What the C library reads and writes inside fseek() and fclose() was metadata, at 0.4 %
    coverage; a stream on an open descriptor was an open; appended files were read at their end."""
    p = profile([build("streams"), folder])
    check(p, folder, truth("streams"))
    assert p.report["coverage"]["read"] == pytest.approx(1, abs=0.02)
    reach = [p.count(folder / f, n) for f in ("lines.txt", "log.txt")
             for n in ("min_offset", "max_offset")]
    assert reach == [0, 10200, 0, 30]


def test_what_a_buffer_holds_takes_no_time(profile, folder):  # noqa: F811
    """Two readings of the clock take longer than fread() of a number: a loop over a file of numbers
    took six times as long under the profiler. 5,000 reads of a byte fill two buffers; the call after
    a filling one is recorded as well, and all others lie in runs, of 8 to 16 ns per call."""
    p = profile([build("tiny"), folder])
    [r] = p.of(folder / "in.bin", ("stdio",))
    assert r["read_latency"][3] >= 0.95 * r["counters"]["reads"]


def test_time_inside_streams(profile, folder, tmp_path):  # noqa: F811
    """Storage answers after 50 ms, and only within fseek() and fclose(): that is reading and
    writing, not metadata."""
    with slowfs(folder, tmp_path / "mnt", read="50ms", write="50ms") as fs:
        p = profile([build("streams"), fs.mnt])
        assert p.rc == 0, p.err
        assert p.count(fs.mnt / "in.bin", "read_ns") >= 50e6
        assert p.count(fs.mnt / "in.bin", "max_read_ns") >= 50e6
        assert p.count(fs.mnt / "log.txt", "write_ns") >= 50e6


def test_hdf5_program(profile, folder):  # noqa: F811
    """HDF5's own calls: without them, a dataset read piece by piece is only anonymous preads."""
    found = subprocess.run(["pkg-config", "--cflags", "--libs", "hdf5-serial"], capture_output=True)
    if found.returncode:
        pytest.skip("libhdf5-dev is not installed")
    program = build("hdf5io", *found.stdout.decode().split())
    check(profile([program, folder]), folder, truth("hdf5io"))


@pytest.mark.parametrize("flags", [(), ("-DLIBRARY", "-l:libaio.so.1")], ids=["syscall", "libaio"])
def test_kernel_aio(profile, folder, flags):  # noqa: F811
    """What kernel aio moves is neither in the kernel's count nor was it in ours: 400 MB were
    "nothing to fix". Results that nobody was seen to fetch leave the profile without a verdict."""
    try:
        program = build("kernelaio", *flags)
    except subprocess.CalledProcessError:
        pytest.skip("libaio is not installed")
    p = profile([program, folder])
    if p.rc == 77:
        pytest.skip("the kernel has no aio here")
    check(p, folder, truth("kernelaio"))
    assert [(q["kernel_aio_calls"], q["blind"]) for q in p.processes] == [(4, False)]
    p = profile([program, folder], env={"UNFETCHED": "1"})
    assert [(q["kernel_aio_calls"], q["blind"]) for q in p.processes] == [(5, True)]
    said = run_stoker("advise", p.dir, rc=3).out
    assert "nothing to fix" not in said and "kernel AIO in 1 process were not seen" in said.replace("\n", " ")


@pytest.mark.parametrize("how, flags, rings", [
    ("syscall", [], 2), ("liburing", ["-DLIBRARY", "-luring"], 3)])
def test_rings(profile, folder, how, flags, rings):  # noqa: F811
    """What io_uring moves is not seen: a user who is not told takes a profile that lacks it for
    whole."""
    if how == "liburing" and subprocess.run(["pkg-config", "--exists", "liburing"]).returncode:
        pytest.skip("liburing-dev is not installed")
    p = profile([build("rings", *flags), folder])
    if p.rc == 77:
        pytest.skip("the kernel gives no rings here")
    assert p.rc == 0, p.err
    assert [q["uring_rings"] for q in p.processes] == [rings]
    assert [q["blind"] for q in p.processes] == [True]
    said = run_stoker("advise", p.dir, rc=3).out
    assert "nothing to fix" not in said and "io_uring" in said


MPIRUN = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
          "openmpi romio": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca",
                            "io", "romio321", "-n", "2"],
          "mpich": ["mpirun.mpich", "-n", "2"]}


@needs_command("mpicc.openmpi", "mpirun.openmpi", "mpicc.mpich", "mpirun.mpich")
@pytest.mark.parametrize("mpi", MPIRUN)
def test_mpi_program(profile, folder, mpi):  # noqa: F811
    """One library for both MPIs, whose handles differ, and for both ways Open MPI does files."""
    program = build("mpiio", compiler=f"mpicc.{mpi.split()[0]}")
    check(profile([*MPIRUN[mpi], program, folder]), folder, truth("mpiio"))
