"""stage: bringing a dataset to a node, against the tools that people use for it, each with a final
sync, as ours; eight nodes on one source; training that starts meanwhile; what a filled tier and the
checksums cost.

The source is on the local disk, with a cold cache, and on slowfs, a file system like a busy shared
one. Every contestant copies the same data to the same disk.
"""

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

from common import (BUILD, GEN, LOAD, ROOT, STOKER, Failed, files_below, interleaved, machine, measured,
                    median, remove, spread, table, timed)
from part_pack import make_tree

sys.path.insert(0, str(ROOT / "tests/lib"))
from slowfslib import SlowFs, slowfs_trouble  # noqa: E402

SLOWFS = BUILD / "tools/slowfs/slowfs"
SLOW = {"open": "2ms", "read": "1ms", "bandwidth": "500MB"}
FILES, SHARDS_BYTES = 100000, 8 << 30
SLOW_PART = 10  # cp takes 5 ms per file on slowfs: a tenth of the files is enough
RECORD = 112 << 10  # a JPEG of ImageNet
NODES = 8
NARROW_BPS = 60e6  # of the source of eight nodes
PAIRS = 9
MANY = 1000  # files: so many are not deleted between the runs


# ---- running ----------------------------------------------------------------------------------

@contextlib.contextmanager
def slow(bench, under, **settings):
    """`under` behind slowfs; a new mount has nothing of it cached."""
    at = bench.dir / "mount"
    at.mkdir(exist_ok=True)
    fs = SlowFs(under, at, SLOWFS, settings)
    fs.start()
    try:
        yield fs
    finally:
        fs.stop()


def cpu_s(argv, env=None):
    """CPU seconds of the command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed(argv, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def stage(src, tier, *options, **more):
    return timed([STOKER, "stage", src, tier, "--quiet", *options], **more)


# ---- one node, against other tools ------------------------------------------------------------

def sh(script, *args):
    return ["sh", "-ec", script, "sh", *args]


def peers(src, dst, files):
    """{name: commands} that copy src, of that many files, into the empty folder dst."""
    jobs = 4 * len(os.sched_getaffinity(0))
    at_once = max(1, min(64, files // jobs))
    several = ('cd "$1" && find . -type d -print0 | (cd "$2" && xargs -0 mkdir -p) &&'
               ' find . -type f -print0 | xargs -0 -P "$3" -n "$4" cp --parents -t "$2"')
    found = {"cp -r": [["cp", "-r", src, dst]],
             "tar | tar": [sh('tar -C "$1" -cf - . | tar -C "$2" -xf -', src, dst)],
             f"find | xargs -P {jobs} cp": [sh(several, src, dst, str(jobs), str(at_once))]}
    if shutil.which("rsync"):
        found["rsync -a"] = [["rsync", "-a", src, dst]]
    dcp = os.environ.get("STOKER_DCP")
    if dcp:
        ranks = str(len(os.sched_getaffinity(0)))
        found["dcp (mpiFileUtils)"] = [["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", ranks,
                                        dcp, "-q", src, dst]]
    return found


def missing_peers():
    gone = [] if shutil.which("rsync") else ["rsync: not there (tools/setup bench)"]
    return gone + ([] if os.environ.get("STOKER_DCP") else
                   ["dcp of mpiFileUtils: not there (STOKER_DCP names the program)"])


class Race:
    """Copies of one source; before each, nothing of it is cached, and the target is new.

    Copies of many files stay until the end of the part: for minutes after many files were deleted,
    ext4 takes several times as long to create others, for whoever comes next."""

    def __init__(self, bench, src, settings=None):
        self.bench, self.src, self.settings = bench, src, settings
        self.files = sum(1 for _ in files_below(src))
        self.made = 0

    def target(self):
        """A folder that has not been there before."""
        self.made += 1
        dst = self.bench.dir / "nodes" / f"{self.src.name}-{'slow' if self.settings else 'local'}-{self.made}"
        dst.mkdir(mode=0o700, parents=True)
        return dst

    @contextlib.contextmanager
    def source(self):
        """Where the contestant reads: the source itself, cold, or behind slowfs, which is slow and
        not the disk under it."""
        if self.settings is None:
            self.bench.cool([self.src])
            yield self.src
        else:
            self.bench.warm([self.src])
            with slow(self.bench, self.src.parent, **self.settings) as fs:
                yield fs.mnt / self.src.name

    def once(self, commands):
        def run():
            dst = self.target()
            os.sync()
            with self.source() as src:
                seconds = timed(*commands(src, dst), ["sync", "-f", dst])
            if self.files < MANY:
                remove(dst)
            return seconds
        return run

    def ours(self, src, dst):
        return [[STOKER, "stage", src, dst / "tier", "--quiet"]]

    def times(self):
        names = peers(self.src, self.src, self.files)
        runs = {"stoker stage": self.once(self.ours)}
        for name in names:
            runs[name] = self.once(lambda src, dst, name=name: peers(src, dst, self.files)[name])
        return interleaved(runs, self.bench.repeats)


def report_race(bench, what, size, times):
    ours = median(times["stoker stage"])
    table([what, "median s", "range s", "MB/s", "times stoker's"],
          [[name, f"{median(t):.2f}", spread(t), f"{size / median(t) / 1e6:.0f}",
            f"{median(t) / ours:.2f}"] for name, t in times.items()])
    for name, t in times.items():
        if name != "stoker stage":
            ratio = median(t) / ours
            bench.claim(f"stage, {what}: faster than {name} + sync", f"{ratio:.2f} times", ratio > 1)


def races(bench, data):
    result = {}
    for what, src, settings, size in data:
        times = Race(bench, src, settings).times()
        report_race(bench, what, size, times)
        result[what] = {"bytes": size, "seconds": times}
    for line in missing_peers():
        print(f"stage: {line}\n")
    return result


# ---- eight nodes ------------------------------------------------------------------------------

SET_NODE = ('export STOKER_NODE=node$rank NODE=$NODES_AT/$rank; mkdir -m 700 -p "$NODE"; cd "$NODE";')


def by_mpi(count, argv):
    """The command on that many ranks, each a node of its own with a folder of its own."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(count),
            *sh(f'rank=$OMPI_COMM_WORLD_RANK; {SET_NODE} exec "$@" "$NODE/tier"', *argv)]


def each_alone(count, argv):
    """The same on as many nodes that know nothing of each other."""
    return sh(f'n=$1; shift; pids=; for rank in $(seq $n); do ({SET_NODE} exec "$@" "$NODE/tier") & '
              'pids="$pids $!"; done; for p in $pids; do wait $p; done', str(count), *argv)


class Nodes:
    """Eight nodes that stage from one narrow source: {how: [seconds]}, and bytes read from it."""

    def __init__(self, bench, src, at):
        self.bench, self.src, self.at = bench, src, at
        self.read = {}

    def once(self, how, launch, count):
        def run():
            remove(self.at)
            self.at.mkdir()
            self.bench.warm([self.src])
            # Nodes do not share a page cache.
            with slow(self.bench, self.src.parent, bandwidth=int(NARROW_BPS), cache="off") as fs:
                mode = ["--mode", "replicate"] if launch is by_mpi else []
                argv = [STOKER, "stage", "--quiet", *mode, fs.mnt / self.src.name]
                seconds = timed(launch(count, argv), env={"NODES_AT": str(self.at)})
                self.read.setdefault(how, []).append(fs.stats()["read_bytes"])
            copies = [p for p in self.at.glob("*/tier/*/data/*") if p.is_dir()]
            if len(copies) != count:
                raise Failed(f"{how}: {len(copies)} copies on {count} nodes")
            return seconds
        return run


def eight_nodes(bench, src, size):
    at = pathlib.Path("/dev/shm") / f"stoker-bench-{os.getpid()}"
    nodes = Nodes(bench, src, at)
    try:
        ways = {"one node alone": (each_alone, 1), "eight, replicate": (by_mpi, NODES),
                "eight, each alone": (each_alone, NODES)}
        times = interleaved({how: nodes.once(how, *way) for how, way in ways.items()}, bench.repeats)
    finally:
        remove(at)
    one, all_at_once = median(times["one node alone"]), median(times["eight, replicate"])
    table([f"{NODES} nodes, {size / 1e6:,.0f} MB from a source of {NARROW_BPS / 1e6:.0f} MB/s",
           "median s", "range s", "times one node", "bytes read / dataset"],
          [[name, f"{median(t):.2f}", spread(t), f"{median(t) / one:.2f}",
            f"{median(nodes.read[name]) / size:.3f}"] for name, t in times.items()])
    bench.claim("stage, eight nodes, replicate: at most 1.2 times one node alone",
                f"{all_at_once / one:.2f} times", all_at_once <= 1.2 * one)
    read = max(nodes.read["eight, replicate"]) / size
    bench.claim("stage, eight nodes, replicate: reads at most 1.01 times the dataset",
                f"{read:.4f} times", read <= 1.01)
    return {"bytes": size, "seconds": times, "bytes_read": nodes.read}


# ---- while training runs ----------------------------------------------------------------------

def train(src, tier, *options):
    """bench_load as a training that finds the tier by itself; tier None: it uses none."""
    env = {"STOKER_TIER": str(tier) if tier else "off"}
    return measured(LOAD, "-b", 32, "-s", "block", *options, src, env=env)


def indexed(src):
    timed([STOKER, "inspect", src, "--quiet"])


class Meanwhile:
    """A training whose steps ask for half of the source's bandwidth, and staging."""

    def __init__(self, bench, src, size):
        self.bench, self.src, self.tier = bench, src, bench.dir / "node"
        samples = size / RECORD
        self.step_us = int(1e6 * 2 * size / float(SLOW["bandwidth"][:-2]) / 1e6 / (samples / 32))

    def mounted(self):
        remove(self.tier)
        self.bench.warm([self.src])
        return slow(self.bench, self.src.parent, **SLOW)

    def training(self):
        with self.mounted() as fs:
            start = time.monotonic()
            train(fs.mnt / self.src.name, None, "-w", self.step_us)
            return time.monotonic() - start

    def staging(self):
        with self.mounted() as fs:
            return stage(fs.mnt / self.src.name, self.tier)

    def both(self):
        """Until the training has ended and the copy is complete."""
        with self.mounted() as fs:
            src = fs.mnt / self.src.name
            start = time.monotonic()
            stage(src, self.tier, "--background", "--shuffle", "block")
            train(src, self.tier, "-w", self.step_us)
            stage(src, self.tier, "--wait")
            return time.monotonic() - start

    def first_batch(self):
        with self.mounted() as fs:
            src = fs.mnt / self.src.name
            start = time.monotonic()
            stage(src, self.tier, "--background", "--shuffle", "block")
            ready = time.monotonic() - start
            first = ready + train(src, self.tier, "-n", 1)["first_batch_s"]
            stage(src, self.tier, "--wait")
            return first


def meanwhile(bench, src, size):
    m = Meanwhile(bench, src, size)
    pairs = 3 if bench.quick else PAIRS
    times = interleaved({"training alone, from the source": m.training, "stage alone": m.staging,
                         "stage --background, training meanwhile": m.both}, pairs)
    train_s, stage_s, both_s = times.values()
    ratios = sorted(b / max(t, s) for t, s, b in zip(train_s, stage_s, both_s))
    low, high = ratios[1 if pairs >= PAIRS else 0], ratios[-2 if pairs >= PAIRS else -1]
    rows = [[name, f"{median(t):.2f}", spread(t)] for name, t in times.items()]
    table([f"{size / 1e6:,.0f} MB on slowfs", "median s", "range s"], rows)
    bench.claim("stage --background and training: at most 1.1 times the longer of the two",
                f"{median(ratios):.3f} times; {pairs} pairs, 96 %: {low:.3f} to {high:.3f}",
                median(ratios) <= 1.1)
    return {"bytes": size, "seconds": times, "ratios": ratios, "step_us": m.step_us}


def first_batch(bench, src, size, full_s):
    """From `stage --background` to the first batch, of the data that was staged in full_s."""
    m = Meanwhile(bench, src, size)
    first = [m.first_batch() for _ in range(bench.repeats)]
    share = median(first) / full_s
    table([f"{size / 1e6:,.0f} MB on slowfs", "median s", "range s"],
          [["stage", f"{full_s:.2f}", ""],
           ["stage --background, first batch", f"{median(first):.3f}", spread(first)]])
    bench.claim("stage --background: first batch in under 1 % of the time of staging",
                f"{share:.2%} ({median(first) * 1e3:.0f} ms of {full_s:.1f} s)", share < 0.01)
    return {"bytes": size, "first_batch_s": first, "staging_s": full_s}


# ---- CPU seconds ------------------------------------------------------------------------------

def tier_cost(bench, src):
    """The loader on a copy, as a local dataset and through the tier."""
    tier = bench.dir / "node"
    remove(tier)
    stage(src, tier)
    copy = next(p for p in tier.glob("*/data/*") if p.is_dir())
    indexed(copy)
    bench.warm([copy])
    rounds = max(bench.repeats, PAIRS)
    cpu = interleaved({"the local file": lambda: train(copy, None, "-e", 2)["cpu_s"],
                       "through the tier": lambda: train(src, tier, "-e", 2)["cpu_s"]}, rounds)
    remove(tier)
    ratios = sorted(a / b for a, b in zip(cpu["through the tier"], cpu["the local file"]))
    table(["loader, warm", "median CPU s", "range"],
          [[name, f"{median(t):.3f}", spread(t)] for name, t in cpu.items()])
    bench.claim("a filled tier costs no more CPU seconds than the local file, within 3 %",
                f"{median(ratios):.3f} times; {rounds} pairs, {ratios[1]:.3f} to {ratios[-2]:.3f}",
                median(ratios) <= 1.03)
    return {"cpu_s": cpu, "ratios": ratios}


def checksum_cost(bench, data):
    result = {}
    for what, src in data:
        def once(*options, src=src):
            remove(bench.dir / "node")
            bench.warm([src])
            return cpu_s([STOKER, "stage", src, bench.dir / "node", "--quiet", *options])
        cpu = interleaved({"stage": once, "stage --no-hash": lambda: once("--no-hash")},
                          max(bench.repeats, PAIRS))
        ratios = sorted(a / b for a, b in zip(*cpu.values()))
        table([f"{what}, warm", "median CPU s", "range"],
              [[name, f"{median(t):.3f}", spread(t)] for name, t in cpu.items()])
        bench.claim(f"verification adds under 10 % CPU seconds, {what}",
                    f"{median(ratios) - 1:+.1%}, {ratios[1] - 1:+.1%} to {ratios[-2] - 1:+.1%}",
                    median(ratios) < 1.10)
        result[what] = {"cpu_s": cpu, "ratios": ratios}
    remove(bench.dir / "node")
    return result


# ---- all of it --------------------------------------------------------------------------------

def sizes(bench):
    """(files on disk, files on slowfs, bytes of shards), as far as there is room for two of each."""
    files, shards = (5000, 256 << 20) if bench.quick else (FILES, SHARDS_BYTES)
    files = bench.stage_files or files
    shards = bench.stage_bytes or shards
    room = shutil.disk_usage(bench.dir).free
    copies = bench.repeats * (2 + len(peers(bench.dir, bench.dir, files)))
    need = 2.5 * shards + files * 14000 * copies
    if need > room:
        print(f"stage: {room / 1e9:.0f} GB are free: smaller data, by {need / room:.1f}\n")
        shards, files = int(shards * room / need), int(files * room / need)
    return files, files // SLOW_PART, shards


def make_shards(folder, size):
    folder.mkdir(parents=True)
    count = max(4, min(32, size >> 28))
    for i in range(count):
        timed([GEN, folder / f"part-{i:05d}.tfrecord", size // count // (RECORD + 16), RECORD, RECORD])
    indexed(folder)
    return sum(f.stat().st_size for f in folder.iterdir())


def run(bench, _python):
    files, slow_files, shards = sizes(bench)
    under = bench.fresh("under")
    size = {"files": make_tree(under / "files", files, 100),
            "few": make_tree(under / "few", slow_files, 100),
            "shards": make_shards(under / "shards", shards),
            "part": make_shards(under / "part", min(shards, 2 << 30)),
            "narrow": make_shards(under / "narrow", min(shards, 384 << 20))}
    os.sync()
    print(f"stage: {files:,} files of 4-16 KiB ({size['files'] / 1e6:,.0f} MB; {slow_files:,} of them on"
          f" slowfs), shards of {size['shards'] / 1e6:,.0f} MB; slowfs:"
          f" {', '.join(f'{k} {v}' for k, v in SLOW.items())}; cold: {bench.cold_how}\n")
    many, large = f"{files:,} small files", f"shards of {size['shards'] / 1e9:.1f} GB"
    here = f"local {machine(bench.dir)['file_system']}"
    data = [(f"{many}, {here}", under / "files", None, size["files"]),
            (f"{large}, {here}", under / "shards", None, size["shards"])]
    trouble = slowfs_trouble(SLOWFS)
    if trouble:
        print(f"stage: not measured on slowfs: {trouble}\n")
    else:
        data += [(f"{slow_files:,} small files, slowfs", under / "few", SLOW, size["few"]),
                 (f"{large}, slowfs", under / "shards", SLOW, size["shards"])]
    result = {"files": files, "slow_files": slow_files, "slowfs": SLOW, "copies": races(bench, data)}
    if not trouble:
        full_s = median(result["copies"][f"{large}, slowfs"]["seconds"]["stoker stage"])
        result["first_batch"] = first_batch(bench, under / "shards", size["shards"], full_s)
        result["while_training"] = meanwhile(bench, under / "part", size["part"])
        if shutil.which("mpirun"):
            result["nodes"] = eight_nodes(bench, under / "narrow", size["narrow"])
        else:
            print("stage: eight nodes not measured: mpirun is not there\n")
    result["tier"] = tier_cost(bench, under / "part")
    result["checksums"] = checksum_cost(bench, [("shards", under / "part"),
                                                ("small files", under / "few")])
    bench.results["stage"] = result
    remove(bench.dir / "nodes")
    bench.forget("under")
