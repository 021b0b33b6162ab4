"""`stoker advise PROFILE --workload FILE` and `stoker bench FILE`: the replay makes the calls that the
profiled program made, by the engine's own counters and by those of a profile of the replay."""

import json
import os
import random
import subprocess
import sys

import pytest

from conftest import ROOT, STOKER
from profilelib import MOVING, needs_command, profile  # noqa: F401
from slowfslib import slowfs

if "libyaml" in subprocess.run([STOKER, "bench", "bert", "--show-workload"], capture_output=True, text=True).stderr:
    pytest.skip("stoker was built without libyaml", allow_module_level=True)

PYTHON = sys.executable
CLOSE = {"reads": 0.02, "read_bytes": 0.02, "opens": 0.1, "stats": 0.1, "seeks": 0.1, "eof_reads": 0.1,
         "seq_reads": 0.1, "consec_reads": 0.1}


def make_files(folder, n, low=3000, high=60000, suffix=".jpg", seed=1):
    draw = random.Random(seed)
    for i in range(n):
        path = folder / f"c{i % 3}" / f"{i:04}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(draw.randbytes(draw.randint(low, high)))
    return folder


def sums(p, below):
    """The counters of all files below that were read, added up."""
    total = dict.fromkeys(CLOSE, 0)
    bins = [0] * 10
    for r in p.records:
        if r["path"].startswith(str(below)) and r["api"] in MOVING and r["counters"]["reads"]:
            for name in total:
                total[name] += r["counters"][name]
            bins = [a + b for a, b in zip(bins, r["read_size"])]
    return total, bins


class Replay:
    def __init__(self, first, again, result, workload, said, below):
        self.first, self.again, self.all, self.workload, self.said = first, again, result, workload, said
        self.result = result["io"]
        self.below = below

    def agrees(self, bins_off=0.15, **other):
        """The counters of both profiles, and the engine's. bins_off: share of the requests that may be in another bin
        of sizes; other: a wider limit; None: not compared."""
        (was, bins), (is_, bins_now) = sums(self.first, self.below), sums(self.again, self.below)
        assert was["reads"] > 0
        is_["stats"] = self.result["stats"]  # listing the files takes others
        for name, limit in {**CLOSE, **other}.items():
            slack = max(limit * was[name], 1) if limit is not None else None
            assert slack is None or abs(is_[name] - was[name]) <= slack, (name, was, is_)
        far = sum(abs(a - b) for a, b in zip(bins, bins_now)) / 2
        assert far <= bins_off * was["reads"], (bins, bins_now)
        assert abs(self.result["requests"] - was["reads"]) <= 0.02 * was["reads"] + 1
        assert abs(self.result["bytes_read"] - was["read_bytes"]) <= 0.02 * was["read_bytes"]


@pytest.fixture
def replay(profile, stoker, tmp_path):  # noqa: F811
    """Profiles argv, writes its workload, and profiles the replay."""
    def run(argv, below, *args, env=None):
        first = profile([*argv], env=env)
        assert first.rc == 0, first.err
        w, out = tmp_path / "w.yaml", tmp_path / "r.json"
        said = stoker("advise", first.dir, "--workload", w).err
        again = profile([STOKER, "bench", w, "--no-calibration", "--set", "reader.think=0", "--set", "training.compute=0",
                         "--json", out, *args])
        assert again.rc == 0, again.err
        return Replay(first, again, json.loads(out.read_text())["result"], w, said, below)
    return run


def script(tmp_path, text):
    path = tmp_path / "job.py"
    path.write_text(text)
    return path


SMALL_FILES = """
import glob, random, sys
files = sorted(glob.glob(sys.argv[1] + "/*/*.jpg"))
def sample(path):
    with open(path, "rb") as f:
        head = f.read(16)
        f.seek(0)
        while f.read(16384):
            pass
for epoch in range(int(sys.argv[2])):
    random.Random(epoch).shuffle(files)
    for path in files:
        sample(path)
"""


def test_small_files(replay, tmp_path, stoker):
    data = make_files(tmp_path / "data", 60)
    r = replay([PYTHON, script(tmp_path, SMALL_FILES), data, "2"], data)
    r.agrees()
    assert r.result["samples"] == 120
    assert "assumed: training.batch" in r.said


def test_files_are_as_cold_as_the_program_found_them(replay, tmp_path):
    """Listing looked at every file: their inodes were in memory before the replay opened them."""
    data = make_files(tmp_path / "data", 200, 50, 200)
    r = replay([PYTHON, script(tmp_path, SMALL_FILES), data, "1"], data)
    r.agrees()
    before = sums(r.again, data)[0]["stats"] - r.result["stats"]
    assert before <= 16 + 200 // 64 + 3, before  # a few sizes, and the folders


def test_links_that_lead_in_circles(replay, tmp_path):
    data = make_files(tmp_path / "data", 30)
    (data / "c1" / "up").symlink_to(data)
    (data / "gone.jpg").symlink_to(tmp_path / "nowhere")
    r = replay([PYTHON, script(tmp_path, SMALL_FILES), data, "1"], data)
    r.agrees()
    assert r.result["opens"] == 30


def test_shape_elsewhere(replay, tmp_path, stoker):
    """The same shape, generated in another folder; the folder of the user is not touched."""
    data = make_files(tmp_path / "data", 60)
    r = replay([PYTHON, script(tmp_path, SMALL_FILES), data, "1"], data)
    before = sorted((str(p), p.stat().st_mtime_ns) for p in data.rglob("*"))
    other, out = tmp_path / "other", tmp_path / "o.json"
    stoker("bench", r.workload, "--data", other, "--generate", "--no-calibration", "--set", "reader.think=0",
           "--set", "training.compute=0", "--json", out)
    made = json.loads(out.read_text())["result"]["io"]
    assert made["requests"] == pytest.approx(r.result["requests"], rel=0.02)
    assert made["bytes_read"] == pytest.approx(r.result["bytes_read"], rel=0.02)
    assert made["opens"] == r.result["opens"]
    assert sorted((str(p), p.stat().st_mtime_ns) for p in data.rglob("*")) == before
    stoker("bench", "--clean", "--data", other)
    assert not other.exists()


WORKERS = """
import glob, multiprocessing, sys
files = sorted(glob.glob(sys.argv[1] + "/*/*.jpg"))
both = multiprocessing.get_context("fork").Barrier(2)
def work(index, conn):
    both.wait()  # neither has ended before the other begins
    for path in files[index::2]:
        with open(path, "rb") as f:
            conn.send(len(f.read()))
    both.wait()
    conn.close()
for epoch in range(2):
    pairs = []
    for i in range(2):
        mine, theirs = multiprocessing.get_context("fork").Pipe(False)
        p = multiprocessing.get_context("fork").Process(target=work, args=(i, theirs))
        p.start()
        theirs.close()
        pairs.append((p, mine))
    for p, mine in pairs:
        try:
            while True:
                mine.recv()
        except EOFError:
            pass
        p.join()
"""


def test_worker_processes(replay, tmp_path):
    data = make_files(tmp_path / "data", 60)
    r = replay([PYTHON, script(tmp_path, WORKERS), data], data)
    r.agrees()
    assert "threads: 2" in r.workload.read_text()


def reader_of(workload):
    """The section `reader`, {key: value}."""
    lines = workload.read_text().split("\nreader:\n")[1].split("\ntraining:")[0].splitlines()
    return dict(line.strip().split(": ") for line in lines)


@pytest.mark.parametrize("restarts", [True, False])
def test_the_start_of_worker_processes(replay, tmp_path, restarts):
    """Workers that are started in each epoch cost that much in each: more of them may gain nothing."""
    data = make_files(tmp_path / "data", 60)
    job = WORKERS if restarts else WORKERS.replace("range(2):\n    pairs", "range(1):\n    pairs") \
        .replace("files[index::2]", "files[index::2] * 2")
    reader = reader_of(replay([PYTHON, script(tmp_path, job), data], data).workload)
    assert reader["epochs"] == ("restart" if restarts else "asked")
    assert float(reader["start"].rstrip("s")) > 0 and float(reader["begin"].rstrip("s")) > 0


def test_threads_are_not_started_by_the_loop(replay, tmp_path):
    """Only worker processes take long to start."""
    data = make_files(tmp_path / "data", 30)
    job = "import glob, sys\nfor p in glob.glob(sys.argv[1] + '/*/*'): open(p, 'rb').read()"
    assert "start" not in reader_of(replay([PYTHON, script(tmp_path, job), data], data).workload)


def test_other_data_beside_it(replay, tmp_path):
    """A program with many folders: a report adds some up with the folders above them, of which only the
    files are replayed that were read."""
    data = make_files(tmp_path / "work" / "data", 120, low=3000, high=3000)
    make_files(tmp_path / "work" / "other", 60, low=90, high=90)
    for i in range(300):
        (tmp_path / "lib" / f"a{i}" / "b").mkdir(parents=True)
        (tmp_path / "lib" / f"a{i}" / "b" / "x.txt").write_text("x" * 2)
    job = script(tmp_path, SMALL_FILES + "for p in glob.glob(sys.argv[1] + '/../../lib/*/*/*'): open(p).read()")
    r = replay([PYTHON, job, data, "3"], data)
    assert f'path: "{data}"' in r.workload.read_text()


MANY = """
import glob, os, random, sys
files = sorted(glob.glob(sys.argv[1] + "/*/*.jpg"))
for epoch in range(2):
    random.Random(epoch).shuffle(files)
    for worker in range(4):
        if os.fork() == 0:
            for path in files[worker::4]:
                open(path, "rb").read()
                if len(sys.argv) > 2:
                    open(sys.argv[2], "rb").read()
            os._exit(0)
    for worker in range(4):
        os.wait()
"""
FEW_NAMES = {"STOKER_PROFILE_FILES": "75"}  # half of what a process reads


def test_more_files_than_a_profile_names(replay, tmp_path):
    """Beyond a number of files, a process records groups, and their size is an estimate: it gives way to
    the files that are there."""
    data = make_files(tmp_path / "data", 600, low=300, high=900)
    r = replay([PYTHON, script(tmp_path, MANY), data], data, env=FEW_NAMES)
    r.agrees(stats=None)
    assert "count: 600\n" in r.workload.read_text()


def test_a_file_of_several_processes_counts_once(profile, tmp_path):  # noqa: F811
    """One process names a file, another one has it in a group: it is one file, whose bytes count once.
    What every process names keeps its name."""
    data = make_files(tmp_path / "data", 600, low=300, high=900)
    often = data / "c0" / "0000.jpg"
    p = profile([PYTHON, script(tmp_path, MANY), data, often], env=FEW_NAMES)
    files = [f for f in p.report["files"] if f["name"].startswith(str(data))]
    assert 600 * 0.6 < sum(f["files"] for f in files) < 600 * 1.4, files
    read = sum(f.stat().st_size for f in data.glob("*/*.jpg"))
    assert 0.6 * read < sum(f["distinct_bytes"] for f in files) < 1.4 * read
    assert str(often) in [f["name"] for f in files]


REREAD = """
import glob, sys
files = sorted(glob.glob(sys.argv[1] + "/*/*.jpg"))
for path in files:
    labels = open(sys.argv[1] + "/labels.csv", "rb").read()
    data = open(path, "rb").read()
"""


def test_file_read_again_for_every_sample(replay, tmp_path, stoker):
    data = make_files(tmp_path / "data", 80)
    (data / "labels.csv").write_bytes(b"x,1\n" * 700)
    r = replay([PYTHON, script(tmp_path, REREAD), data], data)
    r.agrees()
    labels = str(data / "labels.csv")
    assert r.again.count(labels, "opens") == 80
    kept = stoker("bench", r.workload, "--no-calibration", "--set", "files.2.keep=yes", "--set", "reader.think=0",
                  "--set", "training.compute=0", "--json", "-").json()["result"]["io"]
    assert kept["opens"] == 81


STREAM = """
import os, sys
for epoch in range(2):
    for name in sorted(os.listdir(sys.argv[1])):
        fd = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
        while os.read(fd, 256 << 10):
            pass
        os.close(fd)
"""


def test_stream(replay, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for i in range(3):
        (data / f"part-{i}.tfrecord").write_bytes(os.urandom((9 << 20) + 1000))
    r = replay([PYTHON, script(tmp_path, STREAM), data], data)
    r.agrees(eof_reads=None)


ROWS = """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
rows = list(range(size // 10000))
for epoch in range(2):
    random.Random(epoch).shuffle(rows)
    for row in rows:
        os.pread(fd, 6000, row * 10000)
        os.pread(fd, 4000, row * 10000 + 6000)
"""


def test_random_rows_of_one_file(replay, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.h5").write_bytes(os.urandom(3000000))
    r = replay([PYTHON, script(tmp_path, ROWS), data / "x.h5"], data)
    r.agrees(seq_reads=0.15)


PIECES = """
import glob, os, sys
for path in sorted(glob.glob(sys.argv[1] + "/*/*.jpg")):
    fd = os.open(path, os.O_RDONLY)
    left = os.fstat(fd).st_size
    while left:  # as PIL: it knows where the picture ends
        left -= len(os.read(fd, min(4096, left)))
    os.close(fd)
"""


OPENED_ROWS = """
import os, random, sys
rows = list(range(os.path.getsize(sys.argv[1]) // 4096))
for epoch in range(2):
    random.Random(epoch).shuffle(rows)
    for row in rows:
        with open(sys.argv[1], "rb", buffering=0) as f:
            f.seek(row * 4096)
            f.read(4096)
"""


def test_a_file_that_is_opened_for_each_row(replay, tmp_path):
    """`with h5py.File(...)` in __getitem__: an epoch is all rows, not one of them, and tune says what an epoch takes."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "rows.h5").write_bytes(random.randbytes(100 * 4096))
    r = replay([PYTHON, script(tmp_path, OPENED_ROWS), data / "rows.h5"], data)
    r.agrees(seq_reads=None, consec_reads=None)
    assert r.result["samples"] == 200
    text = r.workload.read_text()
    assert "samples_per_file: 100\n" in text and "epochs: 2\n" in text and "shuffle: samples\n" in text


def test_many_files_are_read_to_their_end_and_no_further(replay, tmp_path):
    """The mean size in a workload is rounded: a byte too many was read from the start of the last piece again."""
    data = make_files(tmp_path / "data", 100, 5000, 11000)
    files = sorted(data.rglob("*.jpg"))
    short = 99 - sum(p.stat().st_size for p in files) % 100  # to a mean of N.99 bytes
    files[0].write_bytes(files[0].read_bytes() + bytes(short))
    replay([PYTHON, script(tmp_path, PIECES), data], data).agrees()


RECORDS = """
import os, random, sys
for name in sorted(os.listdir(sys.argv[1])):
    draw = random.Random(name)
    fd = os.open(os.path.join(sys.argv[1], name), os.O_RDONLY)
    while os.read(fd, draw.choice((800, 12000, 60000, 200000))):
        pass
    os.close(fd)
"""


def test_records_of_many_sizes(replay, tmp_path):
    """Storage answers 1 kB and 200 kB differently: each size occurs as often as in the profile."""
    data = tmp_path / "data"
    data.mkdir()
    for i in range(3):
        (data / f"part-{i}.rec").write_bytes(os.urandom(6000000))
    replay([PYTHON, script(tmp_path, RECORDS), data], data).agrees(bins_off=0.02, eof_reads=None)


def test_files_of_other_lengths_than_a_whole_number_of_samples(replay, tmp_path):
    """16 to 19 requests per file are 17.4 on average; each request counts all the same."""
    data = tmp_path / "data"
    data.mkdir()
    for i, n in enumerate((17, 17, 18, 18, 17, 18, 17)):
        (data / f"part-{i}.tfrecord").write_bytes(os.urandom(n * (256 << 10)))
    r = replay([PYTHON, script(tmp_path, STREAM.replace("range(2)", "range(1)")), data], data)
    r.agrees(eof_reads=None)
    assert r.result["requests"] == 122


def test_a_file_that_is_opened_in_each_epoch(replay, tmp_path):
    """pandas.read_csv three times: three opens."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_bytes(os.urandom(5 << 20))
    r = replay([PYTHON, script(tmp_path, STREAM.replace("range(2)", "range(3)")), data], data)
    r.agrees(eof_reads=None)
    assert r.result["opens"] == 3


CROPS = """
import glob, random, sys
draw = random.Random(3)
for path in sorted(glob.glob(sys.argv[1] + "/*/*.wav")):
    with open(path, "rb", buffering=0) as f:
        f.read(44)
        f.seek(draw.randrange(44, 10000))
        f.read(8000)
"""


def test_crops_have_one_size(replay, tmp_path):
    """A second of sound from long and from short files: the same requests."""
    data = make_files(tmp_path / "data", 120, 20000, 90000, suffix=".wav")
    replay([PYTHON, script(tmp_path, CROPS), data], data).agrees(bins_off=0.02)


HELD = """
import os, random, sys
names = sorted(os.listdir(sys.argv[1]))
fds = [os.open(os.path.join(sys.argv[1], name), os.O_RDONLY) for name in names]
rows = [(fd, row) for fd in fds for row in range(200)]
for epoch in range(2):
    random.Random(epoch).shuffle(rows)
    for fd, row in rows:
        os.pread(fd, 5000, row * 6000)
"""


def test_files_that_all_stay_open(replay, tmp_path):
    """Sharded HDF5 files are opened once, and read here and there: not once per sample."""
    data = tmp_path / "data"
    data.mkdir()
    for i in range(5):
        (data / f"part-{i}.h5").write_bytes(os.urandom(1200000))
    r = replay([PYTHON, script(tmp_path, HELD), data], data)
    r.agrees()
    assert r.result["opens"] == 5


SORTED = """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
rows = list(range(os.fstat(fd).st_size // 5000))
for epoch in range(2):
    random.Random(epoch).shuffle(rows)
    for i in range(0, len(rows), 20):
        for row in sorted(rows[i:i + 20]):
            os.pread(fd, 4000, row * 5000)
"""


def test_batches_in_the_order_of_the_file(replay, tmp_path):
    """h5py takes sorted rows only: most jumps lead forward, which a disk and readahead like better."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.h5").write_bytes(os.urandom(5000000))
    r = replay([PYTHON, script(tmp_path, SORTED), data / "x.h5"], data)
    r.agrees(seq_reads=0.03, consec_reads=None)
    assert "sorted: " in r.workload.read_text()


BESIDE = """
import glob, os, random, sys
files = sorted(glob.glob(sys.argv[1] + "/*/*.jpg"))
rows, log = (os.open(sys.argv[1] + name, os.O_RDONLY) for name in ("/rows.bin", "/captions.txt"))
draw = random.Random(1)
for path in files:
    open(path, "rb", buffering=0).read()
    os.pread(rows, 500, draw.randrange(400000))
    os.read(log, 300)
"""


def test_other_files_that_stay_open_beside_the_dataset(replay, tmp_path):
    """One is read here and there, one from its start on: neither at the same place for every sample."""
    data = make_files(tmp_path / "data", 100, 20000, 30000)
    (data / "rows.bin").write_bytes(os.urandom(400500))
    (data / "captions.txt").write_bytes(os.urandom(30000))
    r = replay([PYTHON, script(tmp_path, BESIDE), data], data)
    r.agrees(seq_reads=0.15)
    assert r.again.count(str(data / "captions.txt"), "consec_reads") == 99
    assert 30 <= r.again.count(str(data / "rows.bin"), "seq_reads") <= 70


LARGE = """
import os, sys
piece = bytearray(64 << 20)
for i in range(2):
    fd = os.open(sys.argv[1], os.O_RDONLY)
    os.preadv(fd, [piece] * 20, 4 << 30)
    os.close(fd)
"""


def test_large_files_and_requests(replay, tmp_path):
    """numpy.load of an array of gigabytes: one request of as many bytes, and the replay takes no such memory."""
    data = tmp_path / "data"
    data.mkdir()
    with open(data / "x.npy", "wb") as f:
        f.truncate(6 << 30)  # without blocks
    r = replay([PYTHON, script(tmp_path, LARGE), data / "x.npy"], data)
    r.agrees()
    assert r.result["common_sizes"] == [{"bytes": 20 * 64 << 20, "count": 2}]
    assert r.all["memory_bytes"] < 1 << 30


CHECKPOINTS = SMALL_FILES + """
    with open(sys.argv[3] + f"/epoch{epoch}.pt", "wb") as f:
        f.write(bytes(3000000))
"""


def test_checkpoints(replay, tmp_path):
    data = make_files(tmp_path / "data", 30)
    out = tmp_path / "out"
    out.mkdir()
    r = replay([PYTHON, script(tmp_path, CHECKPOINTS), data, "2", out], data)
    r.agrees()
    assert r.all["checkpoints"] == 2 and r.all["checkpoint_bytes"] == 6000000, r.all
    assert sorted(p.name for p in out.iterdir()) == ["epoch0.pt", "epoch1.pt"]


def test_pipeline(replay, tmp_path):
    needs_command("tar", "cat")
    data = make_files(tmp_path / "data", 40, suffix=".bin")
    r = replay(["sh", "-c", f"cat {data}/*/*.bin | cat > /dev/null"], data)
    r.agrees()


def test_what_is_refused_and_said(profile, stoker, tmp_path):  # noqa: F811
    data = make_files(tmp_path / "data", 20)
    p = profile([PYTHON, "-c", f"import glob\nfor f in glob.glob('{data}/*/*'): open(f, 'rb').read()\nraise SystemExit(3)"])
    w = tmp_path / "w.yaml"
    assert "failed with status 3" in stoker("advise", p.dir, "--workload", w).err
    gone = sorted(data.rglob("*.jpg"))[4]
    gone.unlink()
    err = stoker("advise", p.dir, "--workload", w).err
    assert "1 file is gone" in err and str(gone) in err
    err = stoker("bench", w, rc=4).err
    assert "19 of the 20 files *.jpg of group 1" in err
    gone.write_bytes(bytes(9000000))
    err = stoker("bench", w, rc=4).err
    assert "they have changed" in err
    assert "--data DIR is missing" in stoker("bench", w, "--generate", rc=2).err
    none = profile(["true"])
    assert "nothing to replay" in stoker("advise", none.dir, "--workload", w, rc=4).err


def test_time_on_a_slow_file_system(replay, tmp_path):
    """The replay waits for the storage as long as the program did: a wide limit, tests do not measure."""
    data, mnt = make_files(tmp_path / "data", 20), tmp_path / "mnt"
    mnt.mkdir()
    with slowfs(data, mnt, open="10ms", read="10ms"):
        r = replay([PYTHON, script(tmp_path, SMALL_FILES), mnt, "1"], mnt)
        r.agrees()
        took = r.result["request_seconds"] + r.result["open_seconds"]
        was = sum(x["counters"]["read_ns"] + x["counters"]["meta_ns"] for x in r.first.below(mnt)) * 1e-9
    assert 0.4 < took / was < 2.5, (took, was)


def test_ranks_that_all_read_the_same(replay, tmp_path):
    data = make_files(tmp_path / "data", 24)
    job = script(tmp_path, SMALL_FILES)
    each = " & ".join(f"RANK={i} WORLD_SIZE=3 LOCAL_RANK={i} {PYTHON} {job} {data} 1" for i in range(3))
    r = replay(["sh", "-c", f"{each} & wait"], data)
    r.agrees()
    text = r.workload.read_text()
    assert "ranks: 3" in text and "offsets: same" in text, text


def test_darshan_log(stoker, tmp_path):
    """A log without CPU times and threads: what it lacks is named; its shape can be replayed."""
    w = tmp_path / "w.yaml"
    err = stoker("advise", ROOT / "tests/data/darshan/posix_stdio.txt", "--workload", w).err
    assert "a Darshan log has no CPU times, threads and waits" in err
    assert "files are gone" in err
    out = stoker("bench", w, "--data", tmp_path / "d", "--generate", "--no-calibration", "--set", "training.compute=0",
                 "--set", f"checkpoint.dir={tmp_path}", "--json", "-").json()["result"]["io"]
    text = w.read_text()
    reads = sum(int(line.split(":")[1]) for line in text.splitlines() if line.strip().startswith("requests:"))
    assert abs(out["requests"] - reads) <= 0.02 * reads + 1


@pytest.mark.parametrize("text, said", [
    ("files: {1: {path: x}}", "groups of files need dataset.format: replay"),
    ("dataset: {format: replay}", "replay needs files.1.path"),
    ("dataset: {format: replay}\nfiles: {2: {path: x}}", "there is a group 2, but no group 1"),
    ("dataset: {format: replay}\nfiles: {1: {path: x, sizes: [4Kx1, 1Kx1]}}", "line 3: files.1.sizes: the sizes must increase"),
    ("dataset: {format: replay}\nfiles: {1: {path: x, sizes: [4K]}}", "is not SIZExN"),
    ("dataset: {format: replay}\nfiles: {9: {path: x}}", "files.9.path"),
    ("dataset: {format: replay}\nfiles: {1: {path: x, consecutive: 50%, sequential: 20%}}", "larger than sequential"),
    ("dataset: {format: replay, files: 3}\nfiles: {1: {path: x, count: 2}}", "more than files.1.count"),
    ("dataset: {format: replay}\nfiles: {1: {path: x}}\nreader: {cache: direct}", "use drop"),
])
def test_contradictions(stoker, tmp_path, text, said):
    w = tmp_path / "w.yaml"
    w.write_text(f"name: t\n{text}\n")
    assert said in stoker("bench", w, "--show-workload", rc=2).err
