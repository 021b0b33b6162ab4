"""What the parts of the benchmark share: runs, cache states, medians, tables, results as JSON."""

import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
STOKER = BUILD / "stoker"
GEN = BUILD / "bench/bench_gen"
OPEN = BUILD / "bench/bench_open"
LOAD = BUILD / "bench/bench_load"
PREAD = BUILD / "bench/bench_pread"
MIB = 1 << 20


class Bench:
    """One run of the benchmark: where its data lives, how big it is, what it found."""

    def __init__(self, folder, repeats, quick=True, stage_files=None, stage_gib=None, drop_caches=False):
        self.quick = quick
        self.repeats = repeats
        self.stage_files = stage_files
        self.stage_bytes = int(stage_gib * (1 << 30)) if stage_gib else None
        self.dir = pathlib.Path(folder).resolve() / f"run-{os.getpid()}"
        self.dir.mkdir(parents=True)
        self.cold_how = find_cold_how() if drop_caches else FADVISE
        self.results = {}
        self.claims = []

    def claim(self, text, value, met):
        self.claims.append({"claim": text, "measured": value, "met": bool(met)})

    def fresh(self, name):
        """An empty place for output; what an earlier run left there is gone."""
        self.forget(name)
        return self.dir / name

    def forget(self, name):
        """Removes a dataset and its index, which stands beside it."""
        remove(self.dir / name)
        remove(self.dir / f"{name}.stkidx")

    def cool(self, paths):
        """Leaves nothing of `paths` (files or trees) in the page cache, and nothing dirty."""
        os.sync()
        if self.cold_how == DROP_CACHES:
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
            return
        for path in paths:
            for file in files_below(path):
                fd = os.open(file, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def warm(self, paths):
        """Reads `paths` into the page cache, and waits until nothing is dirty."""
        os.sync()
        for path in paths:
            argv = ["find", str(path), "-type", "f", "-exec", "cat", "{}", "+"]
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)

    def in_state(self, state, paths):
        (self.cool if state == "cold" else self.warm)(paths)


DROP_CACHES = "drop_caches (pages, names and inodes)"
FADVISE = "posix_fadvise(DONTNEED) on each file (names and inodes stay cached)"


def find_cold_how():
    try:
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("1\n")
        return DROP_CACHES
    except OSError:
        return FADVISE


def device_read_bytes(path):
    """Bytes the device under `path` has given since boot, to anyone; None where there is no such
    counter (a network or stacked file system)."""
    device = os.stat(path).st_dev
    try:
        stat = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat").read_text()
    except OSError:
        return None
    return int(stat.split()[2]) * 512


def files_below(path):
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        for name in names:
            yield pathlib.Path(folder) / name


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def timed(*commands, env=None):
    """Seconds for the commands one after another; their output is shown only when one fails."""
    start = time.monotonic()
    for argv in commands:
        done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, **(env or {})})
        if done.returncode != 0:
            sys.stdout.buffer.write(done.stdout)
            sys.exit(f"bench: {argv[0]} ended with status {done.returncode}: {argv}")
    return time.monotonic() - start


def measured(*argv, env=None):
    """The JSON object a program prints as its last line, or as all of its output."""
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, **(env or {})})
    text = done.stdout.decode(errors="replace").strip()
    try:
        if done.returncode == 0:
            return json.loads(text if text.startswith("{") else text.splitlines()[-1])
    except (ValueError, IndexError):
        pass
    raise Failed(f"{' '.join(map(str, argv))}: status {done.returncode}: "
                 + done.stderr.decode(errors="replace").strip()[-1000:])


class Failed(Exception):
    """A contestant did not run; says why."""


def interleaved(contestants, repeats):
    """{name: [seconds]}: each round runs every contestant once, beginning with another each time."""
    times = {name: [] for name in contestants}
    names = list(contestants)
    for i in range(repeats):
        k = i % len(names)
        for name in names[k:] + names[:k]:
            times[name].append(contestants[name]())
    return times


def median(values):
    return statistics.median(values)


def table(head, rows):
    """Prints rows under head, the first column to the left, the others to the right."""
    cells = [head] + [[str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for n, row in enumerate(cells):
        left = row[0].ljust(widths[0])
        print("  " + "  ".join([left] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]).rstrip())
        if n == 0:
            print("  " + "  ".join("-" * w for w in widths))
    print(flush=True)


def spread(values):
    return f"{min(values):.2f}-{max(values):.2f}"


def machine(folder):
    """What the numbers were measured on."""
    def first(path, key):
        for line in pathlib.Path(path).read_text().splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
        return ""

    fs = subprocess.run(["findmnt", "-n", "-o", "FSTYPE", "-T", str(folder)],
                        stdout=subprocess.PIPE, text=True).stdout.split() or [""]
    version = subprocess.run([STOKER, "--version"], stdout=subprocess.PIPE, text=True).stdout
    return {"cpu": first("/proc/cpuinfo", "model name"), "cores": len(os.sched_getaffinity(0)),
            "memory": first("/proc/meminfo", "MemTotal"), "kernel": platform.release(),
            "file_system": fs[-1], "stoker": version.strip().splitlines()[0] if version else ""}


def write_results(bench, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "quick": bench.quick,
        "repeats": bench.repeats, "cold": bench.cold_how, "machine": machine(bench.dir),
        "claims": bench.claims, "parts": bench.results}, indent=2) + "\n")


def many_samples(bench, name, payload_bytes):
    """(folder, samples): ten million TFRecords in ten files, a million with --quick."""
    samples, shards = (1000000 if bench.quick else 10000000), 10
    folder = bench.fresh(name)
    folder.mkdir()
    for i in range(shards):
        timed([GEN, folder / f"part-{i:05d}.tfrecord", samples // shards, payload_bytes,
               payload_bytes])
    return folder, samples
