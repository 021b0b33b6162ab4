"""The jobs of scenarios.py as programs: training loops whose readers are Python threads, and whose
accelerator is a sleep of known length. `tools/check-tune --real` tunes them, and then runs them with
the change that tune recommends, to see whether the gain comes true.

    python3 scripts.py NAME make DIR SEED
    python3 scripts.py NAME run DIR [KEY=VALUE ...]     prints the seconds of an epoch

A key is one of Settings below: a change that tune recommends sets some of them.
"""

import gzip
import io
import os
import pathlib
import random
import struct
import subprocess
import sys
import threading
import time

MIB = 1 << 20
WORLD = int(os.environ.get("WORLD_SIZE", 1))
RANK = int(os.environ.get("RANK", 0))


class Settings:
    """What a user would change in the script."""
    threads = 2
    prefetch = 2     # batches
    request = 0      # bytes per read
    keep = False     # small files that are read again and again are kept
    shard = False    # ranks take samples of their own
    memory = False   # all samples are read before the first step
    loader = ""      # stoker's loader reads this instead
    data = ""        # samples are here instead
    save = ""        # checkpoints go here instead

    def __init__(self, **set_by_job):
        for key, value in set_by_job.items():
            setattr(self, key, value)

    def change(self, words):
        for word in words:
            key, value = word.split("=", 1)
            kind = type(getattr(Settings, key))
            setattr(self, key, value if kind is str else kind(int(value)))


def noise(size, seed):
    return random.Random(seed).randbytes(size)


# ---- the loop ---------------------------------------------------------------------------------


class Ahead:
    """Batches that threads read ahead: thread t of n reads every n-th one."""

    def __init__(self, batches, read, threads, prefetch):
        self.batches, self.read, self.prefetch = batches, read, max(prefetch, threads)
        self.done, self.taken, self.change = {}, 0, threading.Condition()
        for t in range(threads):
            threading.Thread(target=self.lane, args=(t, threads), daemon=True).start()

    def lane(self, first, step):
        for i in range(first, len(self.batches), step):
            with self.change:
                self.change.wait_for(lambda: i < self.taken + self.prefetch)
            data = self.read(self.batches[i])
            with self.change:
                self.done[i] = data
                self.change.notify_all()

    def __iter__(self):
        for i in range(len(self.batches)):
            with self.change:
                self.change.wait_for(lambda: i in self.done)
                data = self.done.pop(i)
                self.taken = i + 1
                self.change.notify_all()
            yield data


class Job:
    """A training loop. Subclasses say what a sample is and how it is read."""
    batch, compute_s, epochs, ranks, save_every = 16, 0.003, 2, 1, 0
    settings = Settings()

    def samples(self, root):
        """All samples, in the order on disk."""
        return []

    def read(self, sample):
        raise NotImplementedError

    def save(self, folder, step):
        raise NotImplementedError

    def order(self, root, epoch):
        samples = self.samples(pathlib.Path(self.settings.data or root))
        if self.settings.shard:
            samples = samples[RANK::WORLD]
        random.Random(epoch).shuffle(samples)
        return samples

    def read_batch(self, batch):
        return [self.read(sample) for sample in batch]

    def batches(self, root, epoch):
        s = self.settings
        if s.loader:
            return self.loaded()
        order = self.order(root, epoch)
        parts = [order[i:i + self.batch] for i in range(0, len(order), self.batch)]
        if s.memory:
            kept = self.__dict__.setdefault("kept", {})
            return (list(map(lambda x: kept.get(x) or kept.setdefault(x, self.read(x)), part))
                    for part in parts)
        if not s.threads:
            return map(self.read_batch, parts)
        return Ahead(parts, self.read_batch, s.threads, s.prefetch)

    def loaded(self):
        """One loader for all epochs: it reads ahead across their ends."""
        if not hasattr(self, "feed"):
            self.feed = sys.modules["stoker"].Loader(self.settings.loader, batch=self.batch, epochs=self.epochs, seed=1,
                                                     last="short")
        return self.feed

    def epoch(self, root, number):
        for step, batch in enumerate(self.batches(root, number), 1):
            time.sleep(self.compute_s)
            if self.save_every and step % self.save_every == 0:
                self.save(pathlib.Path(self.settings.save or root), step)

    def run(self, root):
        start = time.monotonic()
        for number in range(self.epochs):
            self.epoch(root, number)
        return (time.monotonic() - start) / self.epochs


# ---- the eight ----------------------------------------------------------------------------------


class Files(Job):
    """A sample is a file."""

    def samples(self, root):
        with os.scandir(root / "samples") as found:
            return sorted(entry.path for entry in found)

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()


class SmallFiles(Files):
    batch, compute_s, settings = 48, 0.01, Settings(threads=2)

    def make(self, root, seed):
        (root / "samples").mkdir(parents=True)
        for i in range(1200):
            (root / "samples" / f"{i:05d}.bin").write_bytes(noise(20480, (seed << 20) + i))


class FilePerSample(Files):
    """A table that is read again for each sample."""
    compute_s = 0.01
    settings = Settings(threads=8, prefetch=8)

    def make(self, root, seed):
        (root / "samples").mkdir(parents=True)
        for i in range(320):
            (root / "samples" / f"{i:05d}.bin").write_bytes(noise(2048, (seed << 20) + i))
        (root / "labels.csv").write_bytes(b"name,class\n" * 2000)

    def table(self, path):
        if not self.settings.keep:
            return super().read(path)
        kept = self.__dict__.setdefault("tables", {})
        return kept.get(path) or kept.setdefault(path, super(FilePerSample, self).read(path))

    def read(self, path):
        root = pathlib.Path(path).parent.parent
        for _ in range(8):  # name, class, weight, …: a look-up each
            self.table(root / "labels.csv")
        return super().read(path)


class SlowLink(Files):
    batch, compute_s, settings = 2, 0.02, Settings(threads=4, prefetch=8)

    def make(self, root, seed):
        rng = random.Random(seed)
        (root / "samples").mkdir(parents=True)
        for i in range(48):
            words = [rng.randbytes(16) for _ in range(256)]
            (root / "samples" / f"{i:05d}.bin").write_bytes(b"".join(rng.choices(words, k=MIB // 16)))


class Records(Job):
    """A stream of records, in the order of the files."""
    per_file, files, size = 250, 4, 65536
    suffix = ".tfrecord"

    def make(self, root, seed):
        root.mkdir(parents=True)
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lib"))
        import tfrecordlib
        for n in range(self.files):
            with self.create(root / f"train-{n}{self.suffix}") as f:
                for i in range(self.per_file):
                    f.write(tfrecordlib.frame(self.record((seed << 20) + n * self.per_file + i)))

    def create(self, path):
        return open(path, "wb")

    def record(self, seed):
        return noise(self.size, seed)

    def order(self, root, epoch):
        return range(self.per_file * self.files)

    def open(self, path):
        """Read by so many bytes at a time."""
        return io.BufferedReader(open(path, "rb", buffering=0), self.settings.request)

    def stream(self, root):
        """Records, read in pieces."""
        for path in sorted(root.glob("*" + self.suffix)):
            with self.open(path) as f:
                data = bytearray()
                while piece := f.read1() if self.suffix == ".tfrecord" else f.read(131072):
                    data += piece
                    while len(data) >= 12:
                        length, = struct.unpack_from("<Q", data)
                        if len(data) < 16 + length:
                            break
                        yield bytes(data[12:12 + length])
                        del data[:16 + length]

    def epoch(self, root, number):
        self.records = self.stream(pathlib.Path(root))
        super().epoch(root, number)

    def read(self, _):
        return next(self.records)


class SmallRequests(Records):
    compute_s, settings = 0.02, Settings(threads=1, request=8192)


class Compressed(Records):
    """Packed so tightly that decoding takes longer than reading. An epoch is short once it is not: in a run of two,
    half of the time would be the program's first use of its memory."""
    batch, compute_s, per_file, size, suffix, epochs = 8, 0.0005, 150, 131072, ".tfrecord.gz", 6
    settings = Settings(threads=1, request=MIB)

    def create(self, path):
        return gzip.open(path, "wb", 6)

    def record(self, seed):
        return bytes(b & 31 for b in noise(self.size, seed))

    def open(self, path):
        return gzip.GzipFile(fileobj=super().open(path))


class Optimal(Records):
    batch, compute_s = 8, 0.04
    settings = Settings(threads=1, prefetch=8, request=MIB)


class SameData(Job):
    """Four ranks that all read every sample."""
    batch, compute_s, ranks, rows, size = 8, 0.01, 4, 1600, 16384
    settings = Settings(threads=1)

    def make(self, root, seed):
        root.mkdir(parents=True)
        head = "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }" % (self.rows, self.size)
        with open(root / "train.npy", "wb") as f:
            f.write(b"\x93NUMPY\x01\x00v\x00" + head.ljust(117).encode() + b"\n")
            for i in range(self.rows):
                f.write(noise(self.size, (seed << 20) + i))

    def samples(self, root):
        self.fd = os.open(root / "train.npy", os.O_RDONLY)
        return list(range(self.rows))

    def read(self, i):
        return os.pread(self.fd, self.size, 128 + i * self.size)


class Checkpoints(Optimal):
    """Five epochs of 16 steps, and a checkpoint after each."""
    batch, compute_s, epochs, per_file, files, save_every = 8, 0.02, 5, 128, 1, 16

    def save(self, folder, step):
        with open(folder / "model.pt.partial", "wb", buffering=0) as f:
            f.write(bytes(24 * MIB))
            os.fsync(f.fileno())
        os.replace(folder / "model.pt.partial", folder / "model.pt")


JOBS = {"small-files": SmallFiles, "small-requests": SmallRequests, "same-data": SameData,
        "file-per-sample": FilePerSample, "slow-link": SlowLink, "compressed": Compressed,
        "checkpoints": Checkpoints, "optimal": Optimal}


def start_ranks(job):
    started = [subprocess.Popen([sys.executable, *sys.argv], stdout=subprocess.PIPE, text=True,
                                env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(job.ranks)})
               for r in range(job.ranks)]
    said = [p.communicate()[0] for p in started]
    if any(p.returncode for p in started):
        sys.exit("a rank failed")
    return max(map(float, said))


def main(name, mode, root, *words):
    job = JOBS[name]()
    if mode == "make":
        job.make(pathlib.Path(root), int(words[0]))
        return
    job.settings.change(words)
    if job.settings.loader:
        import stoker  # noqa: F401 (not in the time of an epoch)
    print(start_ranks(job) if job.ranks > WORLD else job.run(root))


if __name__ == "__main__":
    main(*sys.argv[1:])
