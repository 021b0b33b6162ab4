"""Every counter equals the truth: programs whose I/O is known by construction, or, where a library
decides how it reads, from strace. Whoever acts on a profile acts on these numbers."""

import os
import shutil
import subprocess

import pytest

import datasets
from conftest import PATIENCE_S, STOKER
from faultlib import needs_strace
from profilelib import (HERE, PYTHON, Profile, bare_env, compiled, profile, zeros)  # noqa: F401
from stracelib import COUNTED, strace_truth

PROGRAMS = HERE / "programs.py"
MODULES = {"images": "PIL", "pandas_csv": "pandas", "loader": "torch", "h5_write": "h5py",
           "numpy_save": "numpy"}  # datasets.py asks for the others


def needed(program):
    if program in MODULES:
        package = f"python3-{MODULES[program].lower()}"
        pytest.importorskip(MODULES[program], reason=f"{package} is not installed")


@pytest.fixture
def run(profile, tmp_path):
    """run(program) -> (its profile, its folder); the program must have ended well."""
    def go(name, *args, options=()):
        needed(name)
        folder = datasets.make(name, tmp_path / name)
        p = profile([PYTHON, PROGRAMS, name, folder, *args], *options)
        assert p.rc == 0, p.err
        return p, folder
    return go


def counters(p, path, apis=("posix",)):
    """What was counted of a file, without times, offsets and zeros."""
    found = {}
    for r in p.of(path, apis):
        for name, n in r["counters"].items():
            if n and not name.endswith(("_ns", "_offset", "_size")):
                found[name] = found.get(name, 0) + n
    return found


# ---- known by construction ----


def test_calls_of_the_os_module(run):
    """Each kind of call, once: a call that is counted as another, or twice, shows here."""
    p, folder = run("os_calls")
    assert counters(p, folder / "a.bin") == {
        "opens": 1, "closes": 2, "dups": 1, "stats": 4, "seeks": 2, "hints": 1,
        "reads": 15, "eof_reads": 1, "read_bytes": 10 * 1000 + 1000 + 2000 + 100 + 128 + 10,
        "first_reads": 1, "consec_reads": 10, "seq_reads": 12}
    assert p.count(folder / "a.bin", "min_offset") == 0
    assert p.count(folder / "a.bin", "max_offset") == 501128
    assert p.count(folder / "a.bin", "file_size") == 1000000
    assert p.read_size(folder / "a.bin") == [2, 12, 1, 0, 0, 0, 0, 0, 0, 0]
    b = counters(p, folder / "b.bin")
    assert {**b, "seq_writes": 0, "consec_writes": 0} == {
        "opens": 1, "closes": 1, "write_opens": 1, "writes": 7, "write_bytes": 15000 + 200 + 30,
        "fsyncs": 2, "renames": 1, "seq_writes": 0, "consec_writes": 0}
    assert b["consec_writes"] == 4 and b["seq_writes"] == 5
    assert counters(p, folder / "c.bin") == {"stats": 1, "removes": 1}
    missing = counters(p, folder / "missing.bin")
    assert missing["errors"] == 3 and not missing.keys() & {"opens", "removes", "reads"}
    # Bytes 0-10,000, 100,000-102,100, 500,000-501,128; ten bytes twice.
    assert [r["distinct_bytes"] for r in p.of(folder / "a.bin")] == [10000 + 2100 + 1128]


def test_mapped_files(run):
    """A mapped dataset would look as if it was never read."""
    p, folder = run("mapped")
    found = counters(p, folder / "a.bin")
    assert found["mmaps"] == 2 and found["mmap_bytes"] == 1000000 + 4096 and "reads" not in found


def test_copies_in_the_kernel(run):
    """Staging by shutil.copyfile would move nothing, by the profile."""
    p, folder = run("copies")
    assert p.count(folder / "a.bin", "read_bytes") == 500000
    assert p.count(folder / "sent.bin", "write_bytes") == 200000
    assert p.count(folder / "copied.bin", "write_bytes") == 300000
    assert p.count(folder / "a.bin", "copies") >= 2
    assert (folder / "sent.bin").read_bytes() == (folder / "a.bin").read_bytes()[:200000]


def test_walking_a_tree(run):
    """Listing a million files is what an image folder costs first."""
    p, folder = run("walk")
    for name in ("x", "y", "z"):
        # opendir, then readdir for each of ".", "..", ten files and the end.
        assert p.count(folder / "tree" / name, "dir_reads") == 1 + 13
        for i in range(10):
            assert p.count(folder / "tree" / name / f"{i}.jpg", "stats") == 1


def test_numpy_load(run):
    """The array itself is read by the C library: 800,000 bytes, not the 4,096 of the header."""
    p, folder = run("numpy_load")
    head = os.stat(folder / "v.npy").st_blksize
    assert p.counts(folder / "v.npy", ("reads", "read_bytes"), "stdio") == {
        "reads": 1, "read_bytes": 800000}
    assert p.counts(folder / "v.npy", ("reads", "read_bytes"), "posix") == {
        "reads": 1, "read_bytes": head}
    assert p.counts(folder / "v.raw", ("reads", "read_bytes"), "stdio") == {
        "reads": 2, "read_bytes": 800000 + 80}
    assert p.count(folder / "v.raw", "reads", "posix") == 0


def test_numpy_save(run):
    p, folder = run("numpy_save")
    assert p.counts(folder / "v.npy", ("writes", "write_bytes"), "stdio") == {
        "writes": 1, "write_bytes": 800000}
    assert p.counts(folder / "v.npy", ("writes", "write_bytes"), "posix") == {
        "writes": 1, "write_bytes": 128}
    assert p.counts(folder / "v.raw", ("writes", "write_bytes"), "stdio") == {
        "writes": 1, "write_bytes": 800000}


def test_numpy_memmap(run):
    p, folder = run("numpy_memmap")
    assert p.counts(folder / "v.raw", ("mmaps", "mmap_bytes", "read_bytes")) == {
        "mmaps": 1, "mmap_bytes": 800000, "read_bytes": 0}
    assert p.counts(folder / "v.npy", ("mmaps", "mmap_bytes")) == {
        "mmaps": 1, "mmap_bytes": 800128}


def test_files_without_a_name(profile, tmp_path):  # noqa: F811
    """O_TMPFILE opens a folder and gets a file: what is written there is not the folder's."""
    data = tmp_path.resolve() / "data"
    data.mkdir()
    p = profile([PYTHON, "-c", f"""if 1:
        import os, sys
        try:
            fd = os.open({str(data)!r}, os.O_TMPFILE | os.O_RDWR)
        except OSError:
            sys.exit(77)
        os.write(fd, bytes(1234))
        os.pread(fd, 500, 100)"""])
    if p.rc == 77:
        pytest.skip("this file system has no files without names")
    found = {r["path"]: r["counters"] for r in p.below(data)}
    assert not p.of(data)
    [counters] = found.values()
    assert (counters["opens"], counters["write_bytes"], counters["read_bytes"]) == (1, 1234, 500)


def test_hdf5_calls(run):
    """100 rows of 2,000 bytes and one dataset of 256 KiB, whatever HDF5 makes of them below."""
    p, folder = run("h5_read")
    assert p.counts(folder / "d.h5", ("reads", "read_bytes"), "hdf5") == {
        "reads": 101, "read_bytes": 100 * 2000 + 64 * 1024 * 4}
    [data] = [f for f in p.report["files"] if f["name"] == str(folder / "d.h5")]
    assert data["arrays"] == ["whole", "chunks"]
    p, folder = run("h5_write")
    assert p.counts(folder / "w.h5", ("writes", "write_bytes"), "hdf5") == {
        "writes": 50, "write_bytes": 50 * 4000}
    assert p.count(folder / "w.h5", "writes", "posix") > 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.xdist_group("torch")
def test_dataloader(run, method):
    """Workers' reads are the job's: a profile without them says that training reads nothing."""
    p, folder = run("loader", method)
    for i in range(8):  # each file by five samples
        assert counters(p, folder / f"p{i:02d}.bin") == {
            "opens": 5, "closes": 5, "reads": 10, "read_bytes": 50000, "first_reads": 5,
            "seq_reads": 5, "consec_reads": 5}
        assert [r["distinct_bytes"] for r in p.of(folder / f"p{i:02d}.bin")] == [10000]
    by_process = {}
    for r in p.below(folder):
        by_process[r["process"]] = by_process.get(r["process"], 0) + r["counters"]["opens"]
    assert sorted(by_process.values()) == [20, 20]
    workers = [p.processes[i] for i in by_process]
    assert all(w["ended"] == "exit" for w in workers)
    if method == "fork":
        assert {w["born"] for w in workers} == {"fork"}
        assert sorted(w["worker"] for w in workers) == [1, 2]


def test_pool_workers_that_are_terminated(run):
    """`with Pool()` ends its workers by SIGTERM: what they read is counted all the same."""
    for _ in range(3):
        p, folder = run("pool")
        assert p.total(folder, "opens") == 32 and p.total(folder, "read_bytes") == 320000
        readers = {r["process"] for r in p.below(folder)}
        assert all(p.processes[i]["born"] == "fork" for i in readers)
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


# ---- against strace: the library decides what it reads ----


@needs_strace
@pytest.mark.parametrize("name", ["whole_files", "buffered", "images", "csv_rows", "pandas_csv",
                                  "numpy_npz", "h5_read", "h5_write", "os_calls"])
def test_equal_to_strace(name, profile, tmp_path):
    """Python's files, PIL, csv, pandas, zip files, HDF5: every call the kernel saw."""
    needed(name)
    folder = datasets.make(name, tmp_path / name)
    argv = [PYTHON, PROGRAMS, name, folder]
    truth = strace_truth(argv, folder, env=bare_env())
    shutil.rmtree(folder)
    datasets.make(name, folder)
    p = profile(argv)
    assert truth and p.rc == 0, p.err
    for path, true in truth.items():
        if path.endswith("c.bin"):
            continue  # known by its first name until it was renamed
        ours = p.counts(path, COUNTED, "posix")
        assert ours == {k: true[k] for k in COUNTED}, path
        assert p.read_size(path) == true["read_size"], path


# ---- MPI ----


MPIS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"],
        "mpich": ["mpirun.mpich", "-n"]}


@pytest.mark.parametrize("mpi", MPIS)
@pytest.mark.parametrize("inside", [False, True], ids=["around mpirun", "under mpirun"])
def test_mpi(mpi, inside, profile, tmp_path):
    """Ranks are told apart, and MPI-IO's calls are seen as the program makes them."""
    if not shutil.which(f"mpicc.{mpi}") or not shutil.which(MPIS[mpi][0]):
        pytest.skip(f"{mpi} is not installed")
    ranks = 3
    program = compiled("ranks.c", compiler=f"mpicc.{mpi}")
    data = tmp_path / "data"
    for r in range(ranks):
        zeros(data / f"part.{r}", 100000)
    zeros(data / "shared.bin", ranks * 10 * 8192)
    env = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "TMPDIR": str(tmp_path)}
    if inside:
        p = profile_under(MPIS[mpi] + [str(ranks)], [program, data], tmp_path / "p", env)
    else:
        p = profile([*MPIS[mpi], ranks, program, data], env=env)
    assert p.rc == 0, p.err
    assert p.report["profile"]["ranks"] == ranks
    for r in range(ranks):
        assert p.counts(data / f"part.{r}", ("opens", "reads", "read_bytes", "consec_reads")) == {
            "opens": 1, "reads": 25, "read_bytes": 100000, "consec_reads": 24}
        reader = p.of(data / f"part.{r}")[0]["process"]
        assert p.processes[reader]["rank"] == r and p.processes[reader]["world"] == ranks
    assert p.counts(data / "shared.bin", ("opens", "reads", "read_bytes"), "mpi-io") == {
        "opens": ranks, "reads": ranks * 10, "read_bytes": ranks * 81920}
    assert p.counts(data / "out.bin", ("opens", "writes", "write_bytes"), "mpi-io") == {
        "opens": ranks, "writes": ranks, "write_bytes": ranks * 65536}
    # Below, the bytes are moved once, by the process that collected them.
    assert p.count(data / "out.bin", "write_bytes", "posix") == ranks * 65536
    assert p.count(data / "shared.bin", "read_bytes", "posix") >= ranks * 81920
    assert p.counts(data / "note.txt", ("writes", "write_bytes"), "stdio") == {
        "writes": 1, "write_bytes": 1000}


def profile_under(launcher, argv, folder, env):
    """One `stoker profile` a rank, all into one folder, as under srun."""
    done = subprocess.run([*map(str, launcher), str(STOKER), "profile", "-o", str(folder), "--",
                           *map(str, argv)], stdin=subprocess.DEVNULL, capture_output=True,
                          env=bare_env(env), timeout=PATIENCE_S)
    return Profile(folder, done)


# ---- coverage ----


def test_coverage(run, profile, tmp_path):
    """Our bytes against the kernel's own count: what was not seen is known to be missing."""
    p, folder = run("whole_files")
    assert p.report["coverage"]["read"] == pytest.approx(1, abs=0.02)
    mine = [x for x in p.processes if x["seen_read_bytes"] > 2000000]
    assert len(mine) == 1 and mine[0]["kernel_read_bytes"] >= mine[0]["seen_read_bytes"] * 0.98
