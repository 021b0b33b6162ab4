"""Programs with one known I/O problem each, and the same programs after the remedy that a finding
prints. `tools/check-advice` compares the predicted gain with the time that the remedy saves.

    python3 problems.py NAME make DIR              writes the data
    python3 problems.py NAME bad DIR               the program as profiled
    python3 problems.py NAME FINDING DIR NEAR      the program after the remedy; NEAR: a local folder

A problem is a class: `make`, `bad`, and a method per finding (`_` for `-`). `packed` runs once before
the remedies and is not measured: the advice does it once, too.
"""

import io
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

MIB = 1 << 20
READERS = 4
BATCH = 32


def noise(n, seed=0):
    return random.Random(seed).randbytes(n)


def in_batches(items):
    return [items[i:i + BATCH] for i in range(0, len(items), BATCH)]


def numbers(n, below, seed=1):
    draw = random.Random(seed)
    return [draw.randrange(below) for _ in range(n)]


def load_weights(root):
    """What most trainings do first; it shows how fast the storage transfers."""
    with open(root / "weights.pt", "rb", buffering=0) as f:
        while f.read(4 * MIB):
            pass


def in_workers(work, items):
    """Forked workers that each take every n-th item and report it, as a DataLoader's do."""
    def run(part, pipe):
        for item in part:
            work(item)
            pipe.send(item)
        pipe.close()
    started = []
    for w in range(READERS):
        ours, theirs = multiprocessing.Pipe(False)
        process = multiprocessing.Process(target=run, args=(items[w::READERS], theirs))
        process.start()
        theirs.close()
        started.append((process, ours))
    for process, pipe in started:
        try:
            while True:
                pipe.recv()
        except EOFError:
            process.join()


def use_loader(path, samples, shuffle="block"):
    import stoker
    with stoker.Loader(str(path), batch=BATCH, shuffle=shuffle, seed=1, last="short") as loader:
        for i, _ in enumerate(loader):
            if (i + 1) * BATCH >= samples:
                break


def pack(source, target):
    subprocess.run([os.environ["STOKER"], "pack", "-q", str(source), str(target), "--shuffle", "1"],
                   check=True)


def stage(path, near):
    target = near / path.name
    subprocess.run(["cp", "-r", str(path), str(target)], check=True)
    return target


class Problem:
    def packed(self, root):
        pass


# ---- reads ------------------------------------------------------------------------------------


class RandomReads(Problem):
    """4 KiB at random offsets of a file that no loader reads."""
    size, count, piece = 32 * MIB, 2000, 4096

    def make(self, root):
        (root / "samples.bin").write_bytes(noise(self.size))

    def batches(self):
        return in_batches([n * self.piece for n in numbers(self.count, self.size // self.piece)])

    def read(self, path):
        fd = os.open(path, os.O_RDONLY)
        for batch in self.batches():
            for offset in batch:
                os.pread(fd, self.piece, offset)

    def bad(self, root):
        self.read(root / "samples.bin")

    def random_reads(self, root, near):
        fd = os.open(root / "samples.bin", os.O_RDONLY)
        for batch in self.batches():
            batch = sorted(batch)
            while batch:
                n = 1
                while n < len(batch) and batch[n] - batch[n - 1] <= 256 << 10:
                    n += 1
                os.pread(fd, batch[n - 1] + self.piece - batch[0], batch[0])
                del batch[:n]

    small_reads = random_reads

    def stage_to_node(self, root, near):
        self.read(stage(root / "samples.bin", near))

    def read_parallelism(self, root, near):
        fd = os.open(root / "samples.bin", os.O_RDONLY)
        with ThreadPoolExecutor(READERS) as readers:
            for batch in self.batches():
                list(readers.map(lambda offset: os.pread(fd, self.piece, offset), batch))


class BackwardReads(Problem):
    """A file from its end to its start, 4 KiB at a time."""
    size, piece = 8 * MIB, 4096

    def make(self, root):
        (root / "log.bin").write_bytes(noise(self.size))

    def read(self, path, piece):
        with open(path, "rb", buffering=0) as f:
            for offset in range(self.size - piece, -1, -piece):
                f.seek(offset)
                f.read(piece)

    def bad(self, root):
        self.read(root / "log.bin", self.piece)

    def small_reads(self, root, near):
        self.read(root / "log.bin", 4 * MIB)

    def stage_to_node(self, root, near):
        self.read(stage(root / "log.bin", near), self.piece)

    def read_parallelism(self, root, near):
        fd = os.open(root / "log.bin", os.O_RDONLY)
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(lambda offset: os.pread(fd, self.piece, offset),
                             range(self.size - self.piece, -1, -self.piece)))


class TinyReads(Problem):
    """A file in order, 16 bytes at a time, without a buffer."""
    size, piece = 8 * MIB, 16

    def make(self, root):
        (root / "events.bin").write_bytes(noise(self.size))

    def read(self, root, buffering):
        with open(root / "events.bin", "rb", buffering=buffering) as f:
            while f.read(self.piece):
                pass

    def bad(self, root):
        self.read(root, 0)

    def small_reads(self, root, near):
        self.read(root, 4 * MIB)

    def read_parallelism(self, root, near):
        part = self.size // READERS

        def one(number):
            with open(root / "events.bin", "rb", buffering=0) as f:
                f.seek(number * part)
                for _ in range(part // self.piece):
                    f.read(self.piece)
        in_workers(one, range(READERS))


class Stream(Problem):
    """A record file in order, 256 KiB at a time, with computing after each read."""
    size, piece = 64 * MIB, 256 << 10

    def make(self, root):
        (root / "train.tfrecord").write_bytes(noise(self.size))

    def bad(self, root):
        with open(root / "train.tfrecord", "rb", buffering=0) as f:
            while f.read(self.piece):
                time.sleep(0.004)

    def prefetch_depth(self, root, near):
        ready = threading.Semaphore(0)

        def ahead():
            with open(root / "train.tfrecord", "rb", buffering=0) as f:
                while f.read(self.piece):
                    ready.release()
        threading.Thread(target=ahead).start()
        for _ in range(self.size // self.piece):
            ready.acquire()
            time.sleep(0.004)

    def read_parallelism(self, root, near):
        fd = os.open(root / "train.tfrecord", os.O_RDONLY)
        with ThreadPoolExecutor(READERS) as readers:
            for _ in readers.map(lambda at: os.pread(fd, self.piece, at),
                                 range(0, self.size, self.piece)):
                time.sleep(0.004)


class LinesBySeek(Problem):
    """Lines of a JSON-lines file in random order."""
    lines, count = 20000, 1500

    def make(self, root):
        import json
        draw = random.Random(3)
        with open(root / "train.jsonl", "w") as f:
            for i in range(self.lines):
                f.write(json.dumps({"id": i, "text": "%0800x" % draw.getrandbits(3200)}) + "\n")
        length = (root / "train.jsonl").stat().st_size
        assert length > 15 * MIB

    def read(self, path):
        import json
        draw = random.Random(4)
        size = os.path.getsize(path)
        with open(path, "rb") as f:
            for _ in range(self.count):
                f.seek(draw.randrange(size - 4096))
                f.readline()
                json.loads(f.readline())

    def bad(self, root):
        self.read(root / "train.jsonl")

    def packed(self, root):
        use_loader(root / "train.jsonl", BATCH)     # builds its index
        pack(root / "train.jsonl", root / "train.jsonl-packed")

    def random_reads(self, root, near):
        use_loader(root / "train.jsonl", self.count)

    def csv_to_records(self, root, near):
        use_loader(root / "train.jsonl-packed", self.count)

    def stage_to_node(self, root, near):
        self.read(stage(root / "train.jsonl", near))

    def read_parallelism(self, root, near):
        import json
        draw = random.Random(4)
        size = os.path.getsize(root / "train.jsonl")
        opened = {}

        def one(offset):
            if not opened:
                opened["f"] = open(root / "train.jsonl", "rb")
            f = opened["f"]
            f.seek(offset)
            f.readline()
            json.loads(f.readline())
        in_workers(one, [draw.randrange(size - 4096) for _ in range(self.count)])


class Mapped(Problem):
    """Rows of a mapped array in random order."""
    rows, count = 16384, 4000

    def make(self, root):
        import numpy
        numpy.save(root / "x.npy", numpy.frombuffer(noise(self.rows * 4096), "f4").reshape(-1, 1024))

    def touch(self, array):
        for i in numbers(self.count, self.rows):
            array[i].sum()

    def bad(self, root):
        import numpy
        self.touch(numpy.load(root / "x.npy", mmap_mode="r"))

    def mmap_random(self, root, near):
        import numpy
        self.touch(numpy.load(root / "x.npy"))


class MappedAgain(Problem):
    """A file of numbers that is mapped anew for each batch."""
    size, count = 16 * MIB, 150

    def make(self, root):
        (root / "train.bin").write_bytes(noise(self.size))

    def touch(self, map_it):
        for at in numbers(self.count, self.size - 4096):
            map_it()[at:at + 4096].sum()

    def map(self, root):
        import numpy
        return numpy.memmap(root / "train.bin", mode="r")

    def bad(self, root):
        self.touch(lambda: self.map(root))

    def map_per_sample(self, root, near):
        data = self.map(root)
        self.touch(lambda: data)


class AllRanks(Problem):
    """Three ranks that each read the whole file, past the page cache, as on nodes of their own."""
    size, piece, ranks = 24 * MIB, 16384, 3

    def make(self, root):
        (root / "train.bin").write_bytes(noise(self.size))

    def read(self, root, rank, step):
        import mmap
        buffer = mmap.mmap(-1, self.piece)
        fd = os.open(root / "train.bin", os.O_RDONLY | os.O_DIRECT)
        offsets = list(range(0, self.size, self.piece))
        random.Random(rank).shuffle(offsets)
        for offset in offsets[:: step]:
            os.preadv(fd, [buffer], offset)

    def start(self, root, step, data=None):
        mine = [sys.executable, __file__, type(self).__name__]
        env = {**os.environ, "WORLD_SIZE": str(self.ranks), "PROBLEM_STEP": str(step),
               "PROBLEM_DATA": str(data or root)}
        started = [subprocess.Popen([*mine, "rank", str(root)], env={**env, "RANK": str(r)})
                   for r in range(self.ranks)]
        assert not any(p.wait() for p in started)

    def rank(self, root):
        load_weights(root)
        self.read(pathlib.Path(os.environ["PROBLEM_DATA"]), int(os.environ["RANK"]),
                  int(os.environ["PROBLEM_STEP"]))

    def bad(self, root):
        self.start(root, 1)

    def same_data_every_rank(self, root, near):
        self.start(root, self.ranks)

    def stage_to_node(self, root, near):
        stage(root / "train.bin", near)
        self.start(root, 1, near)


# ---- files that are opened again and again ------------------------------------------------------


class NpzPerSample(Problem):
    members, count = 64, 250

    def make(self, root):
        import numpy
        numpy.savez(root / "shots.npz", **{f"a{i}": numpy.frombuffer(noise(65536, i), "f4")
                                           for i in range(self.members)})

    def bad(self, root):
        import numpy
        for i in numbers(self.count, self.members):
            with numpy.load(root / "shots.npz") as f:
                f[f"a{i}"].sum()

    def open_per_sample(self, root, near):
        import numpy
        f = numpy.load(root / "shots.npz")
        for i in numbers(self.count, self.members):
            f[f"a{i}"].sum()

    def stage_to_node(self, root, near):
        stage(root / "shots.npz", near)
        self.bad(near)


class Hdf5PerSample(Problem):
    rows, count = 4096, 300

    def make(self, root):
        import h5py
        import numpy
        with h5py.File(root / "train.h5", "w") as f:
            f["x"] = numpy.frombuffer(noise(self.rows * 4096), "f4").reshape(-1, 1024)

    def bad(self, root):
        import h5py
        for i in numbers(self.count, self.rows):
            with h5py.File(root / "train.h5", "r") as f:
                f["x"][i].sum()

    def open_per_sample(self, root, near):
        import h5py
        f = h5py.File(root / "train.h5", "r")
        for i in numbers(self.count, self.rows):
            f["x"][i].sum()

    def stage_to_node(self, root, near):
        stage(root / "train.h5", near)
        self.bad(near)


class TarScan(Problem):
    """Members of a tar file by name: each open scans the headers again."""
    members, count = 200, 20

    def make(self, root):
        import tarfile
        with tarfile.open(root / "train.tar", "w") as t:
            for i in range(self.members):
                info = tarfile.TarInfo(f"{i:05}.bin")
                info.size = 40000
                t.addfile(info, io.BytesIO(noise(info.size, i)))

    def bad(self, root):
        import tarfile
        for i in numbers(self.count, self.members):
            with tarfile.open(root / "train.tar") as t:
                t.extractfile(f"{i:05}.bin").read()

    def open_per_sample(self, root, near):
        import tarfile
        t = tarfile.open(root / "train.tar")
        for i in numbers(self.count, self.members):
            t.extractfile(f"{i:05}.bin").read()

    def packed(self, root):
        use_loader(root / "train.tar", BATCH)

    def random_reads(self, root, near):
        use_loader(root / "train.tar", self.count)

    def stage_to_node(self, root, near):
        stage(root / "train.tar", near)
        self.bad(near)


class SmallFileAgain(Problem):
    """A vocabulary that is read for every sample."""
    count = 500

    def make(self, root):
        (root / "vocab.bin").write_bytes(noise(60000))

    def bad(self, root):
        for _ in range(self.count):
            (root / "vocab.bin").read_bytes()

    def open_per_sample(self, root, near):
        data = (root / "vocab.bin").read_bytes()
        for _ in range(self.count):
            len(data)


# ---- HDF5 that stays open -----------------------------------------------------------------------


class Hdf5Rows(Problem):
    """Rows of a contiguous dataset in random order."""
    rows, count = 8192, 1500
    options = {}

    def make(self, root):
        import h5py
        import numpy
        x = numpy.frombuffer(noise(self.rows * 4096), "u2").reshape(-1, 2048) >> 8
        with h5py.File(root / "train.h5", "w") as f:
            f.create_dataset("x", data=x, **self.options)

    def read(self, f):
        for i in numbers(self.count, self.rows):
            f["x"][i].sum()

    def bad(self, root):
        import h5py
        self.read(h5py.File(root / "train.h5", "r"))

    def packed(self, root):
        use_loader(root / "train.h5", BATCH)

    def in_memory_hdf5(self, root, near):
        import h5py
        self.read(h5py.File(root / "train.h5", "r", driver="core"))

    def reread_small_file(self, root, near):
        import h5py
        self.read(h5py.File(io.BytesIO((root / "train.h5").read_bytes()), "r"))

    def random_reads(self, root, near):
        import h5py  # noqa: F401
        use_loader(root / "train.h5", self.count)

    def stage_to_node(self, root, near):
        stage(root / "train.h5", near)
        self.bad(near)

    def read_parallelism(self, root, near):
        import h5py
        opened = {}

        def one(i):
            if not opened:
                opened["f"] = h5py.File(root / "train.h5", "r")
            opened["f"]["x"][i].sum()
        in_workers(one, numbers(self.count, self.rows))


class Hdf5Chunks(Hdf5Rows):
    """The same in gzip chunks of 128 rows: every row decodes a chunk."""
    count = 400
    options = {"chunks": (128, 2048), "compression": "gzip", "compression_opts": 1}

    def packed(self, root):
        super().packed(root)
        import h5py
        with h5py.File(root / "train.h5", "r") as f, \
                h5py.File(root / "train-by-sample.h5", "w") as to:    # as h5repack -l CONTI -f NONE
            to["x"] = f["x"][:]

    def chunk_shape(self, root, near):
        import h5py
        self.read(h5py.File(root / "train-by-sample.h5", "r"))


# ---- many files -----------------------------------------------------------------------------------


class FilesInOrder(Problem):
    files, workers, shuffled = 500, False, False

    def make(self, root):
        for i in range(self.files):
            folder = root / "train" / f"class{i % 5}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{i:05}.bin").write_bytes(noise(20000, i))

    def paths(self, root):
        found = [root / "train" / f"class{i % 5}" / f"{i:05}.bin" for i in range(self.files)]
        if self.shuffled:
            random.Random(1).shuffle(found)
        return found

    def bad(self, root):
        if self.workers:
            in_workers(pathlib.Path.read_bytes, self.paths(root))
        else:
            for path in self.paths(root):
                path.read_bytes()

    def packed(self, root):
        pack(root / "train", root / "train-packed")

    def many_small_files(self, root, near):
        use_loader(root / "train-packed", self.files)

    def read_parallelism(self, root, near):
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(pathlib.Path.read_bytes, self.paths(root)))

    def stage_to_node(self, root, near):
        stage(root / "train", near)
        self.bad(near)


class FilesShuffled(FilesInOrder):
    shuffled = True


class FilesByWorkers(FilesInOrder):
    files, workers, shuffled = 1500, True, True


class StatStorm(Problem):
    """The size of every file, asked for before the first sample."""
    files = 1500

    def make(self, root):
        (root / "train").mkdir()
        for i in range(self.files):
            (root / "train" / f"{i:05}.jpg").write_bytes(b"x")

    def bad(self, root):
        for name in os.listdir(root / "train"):
            os.stat(root / "train" / name)

    def packed(self, root):
        (root / "files.txt").write_text("\n".join(os.listdir(root / "train")))

    def metadata_load(self, root, near):
        (root / "files.txt").read_text().split()


class MissingFile(Problem):
    """A file that does not exist, asked for before every step."""
    count = 2000

    def make(self, root):
        pass

    def bad(self, root):
        for _ in range(self.count):
            os.path.exists(root / "stop")

    def metadata_load(self, root, near):
        os.path.exists(root / "stop")


# ---- writes -----------------------------------------------------------------------------------------


class Sync(Problem):
    """A log that is written and synced byte by byte."""
    count = 600

    def make(self, root):
        pass

    def write(self, root, each):
        fd = os.open(root / "train.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for i in range(self.count):
            os.write(fd, b"x")
            if each or i == self.count - 1:
                os.fsync(fd)
        os.close(fd)

    def bad(self, root):
        self.write(root, True)

    def fsync_heavy(self, root, near):
        self.write(root, False)


class SmallWrites(Problem):
    count, piece = 1200, 512

    def make(self, root):
        pass

    def write(self, root, buffering):
        with open(root / "out.bin", "wb", buffering=buffering) as f:
            for _ in range(self.count):
                f.write(b"x" * self.piece)

    def bad(self, root):
        self.write(root, 0)

    def small_writes(self, root, near):
        self.write(root, 4 * MIB)


class Checkpoints(Problem):
    """Checkpoints that the loop waits for, with computing in between."""
    size, count = 16 * MIB, 5

    def make(self, root):
        pass

    def bad(self, root):
        state = bytes(self.size)
        for i in range(self.count):
            with open(root / f"model{i}.pt", "wb") as f:
                f.write(state)
            time.sleep(0.6)

    def checkpoint_local(self, root, near):
        state = bytes(self.size)

        def copy(name):
            shutil.copyfile(near / name, root / (name + ".partial"))
            os.replace(root / (name + ".partial"), root / name)
        for i in range(self.count):
            (near / f"model{i}.pt").write_bytes(state)
            threading.Thread(target=copy, args=(f"model{i}.pt",)).start()
            time.sleep(0.6)


class ManyResults(Problem):
    """A small file per result."""
    files = 400

    def make(self, root):
        pass

    def bad(self, root):
        (root / "out").mkdir(exist_ok=True)
        for i in range(self.files):
            (root / "out" / f"{i}.json").write_text("{}")

    def metadata_load(self, root, near):
        import tarfile
        for i in range(self.files):
            (near / f"{i}.json").write_text("{}")
        with tarfile.open(root / "results.tar", "w") as t:
            for i in range(self.files):
                t.add(near / f"{i}.json")


PROBLEMS = {c.__name__: c for c in
            (RandomReads, BackwardReads, TinyReads, Stream, LinesBySeek, Mapped, MappedAgain,
             AllRanks, NpzPerSample, Hdf5PerSample, TarScan, SmallFileAgain, Hdf5Rows, Hdf5Chunks,
             FilesInOrder, FilesShuffled, FilesByWorkers, StatStorm, MissingFile, Sync, SmallWrites,
             Checkpoints, ManyResults)}


def main(name, mode, root, near=None):
    problem, root = PROBLEMS[name](), pathlib.Path(root)
    if mode == "make":
        (root / "weights.pt").write_bytes(noise(16 * MIB))
        problem.make(root)
    elif mode == "rank":
        problem.rank(root)
    elif mode == "packed":
        problem.packed(root)
    else:
        if os.environ.get("PROBLEM_WEIGHTS", "1") == "1" and name != "AllRanks":
            load_weights(root)
        run = getattr(problem, mode.replace("-", "_"))
        run(root, pathlib.Path(near)) if near else run(root)


if __name__ == "__main__":
    main(*sys.argv[1:])
