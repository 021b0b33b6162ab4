"""load: the loader against what the storage (fio) and the memory (a pread loop) can do."""

import os
import shutil

from common import (GEN, LOAD, MIB, PREAD, STOKER, Failed, interleaved, measured, median, spread,
                    table, timed)

SAMPLE_MIN, SAMPLE_MAX = 80000, 140000  # an ImageNet JPEG is about 110 KB
FIO_SAMPLE = "112k"  # direct reads come in units of 4 KiB: the next size above
DEPTH = 32
SMALL_BYTES = 2048
FIRST_PAYLOAD_BYTES = 24


# ---- contestants: each gives seconds for one pass over the file ----

def fio_engine():
    """io_uring, or what is left where it is forbidden."""
    argv = ["fio", "--name=probe", "--filename=/dev/zero", "--size=4k", "--rw=read",
            "--readonly", "--output-format=json"]
    for engine in ("io_uring", "libaio", "psync"):
        try:
            measured(*argv, f"--ioengine={engine}")
            return engine
        except Failed:
            continue
    return None


def fio(file, engine, rw, block):
    size = file.stat().st_size

    def once():
        found = measured("fio", "--name=read", f"--filename={file}", f"--rw={rw}", f"--bs={block}",
                         f"--iodepth={DEPTH}", f"--ioengine={engine}", "--direct=1", "--readonly",
                         "--allow_file_create=0", "--randseed=1", "--output-format=json")
        return size / found["jobs"][0]["read"]["bw_bytes"]
    return once


def pread(file, read_bytes, rounds=1, pin=()):
    def once():
        return sum(measured(*pin, PREAD, file, read_bytes, rounds)["round_s"]) / rounds
    return once


class Loader:
    """bench_load with some options; remembers the last thing it said."""

    def __init__(self, path, *options, epochs=1, pin=()):
        self.argv = [*pin, LOAD, "-e", epochs, *options, path]
        self.epochs, self.said = epochs, None

    def __call__(self):
        self.said = measured(*self.argv)
        # The opening counts: it is part of getting the data.
        return (self.said["open_s"] + sum(self.said["epoch_s"])) / self.epochs


def command(path, *options):
    """`stoker load` as a user calls it."""
    def once():
        return measured(STOKER, "load", path, "--quiet", "--json", "-", *options)["seconds"]
    return once


def with_cache(bench, state, paths, contestants):
    """The same contestants, the cache put into `state` before each run."""
    def prepared(once):
        def run():
            bench.in_state(state, paths)
            return once()
        return run
    return {name: prepared(once) for name, once in contestants.items()}


def show(title, size, times, against):
    """A table of rates; the last column: the rate as a share of that of `against`."""
    limit = median(times[against])
    table([title, "median s", "range s", "MB/s", f"of {against}"],
          [[name, f"{median(t):.2f}", spread(t), f"{size / median(t) / 1e6:,.0f}",
            f"{limit / median(t):.1%}"] for name, t in times.items()])


def claim(bench, what, share, wanted):
    bench.claim(f"load, {what}: at least {wanted:.0%}", f"{share:.1%}", share >= wanted)


# ---- the parts ----

def make_file(bench, name, samples, smallest, largest):
    folder = bench.fresh(name)
    folder.mkdir()
    file = folder / "data.tfrecord"
    timed([GEN, file, samples, smallest, largest], [STOKER, "inspect", folder, "--quiet"])
    return folder, file


def cold(bench, folder, file, result):
    engine = fio_engine() if shutil.which("fio") else None
    if engine is None:
        print("load: fio is not installed or cannot run: nothing to compare cold reads with\n")
        return
    size = file.stat().st_size
    # Without a seed each run has the same order; that is so for fio too.
    sequential = Loader(folder, "-s", "none")
    runs = {f"fio, direct, 1 MiB, depth {DEPTH}": fio(file, engine, "read", "1m"),
            f"fio, direct, 4 MiB, depth {DEPTH}": fio(file, engine, "read", "4m"),
            "stoker, C API, in order": sequential,
            "stoker load, in order": command(folder, "--shuffle", "none"),
            "stoker, C API, block shuffle": Loader(folder, "-s", "block"),
            "pread loop, buffered, 256 KiB": pread(file, 256 << 10)}
    times = interleaved(with_cache(bench, "cold", [folder], runs), bench.repeats)
    best = min((n for n in times if n.startswith("fio")), key=lambda n: median(times[n]))
    show(f"sequential, cold ({engine})", size, times, best)
    for name in ("stoker, C API, in order", "stoker load, in order"):
        claim(bench, f"cold, sequential, of fio's best ({name})", median(times[best]) / median(times[name]),
              0.95)
    claim(bench, "cold, block shuffle, of in order",
          median(times["stoker, C API, in order"]) / median(times["stoker, C API, block shuffle"]), 0.95)

    shuffled = Loader(folder, "-s", "global", "-q", DEPTH)
    name = f"fio, direct, random {FIO_SAMPLE}, depth {DEPTH}"
    runs = {name: fio(file, engine, "randread", FIO_SAMPLE),
            f"stoker, C API, global shuffle, depth {DEPTH}": shuffled,
            "stoker, C API, global shuffle, its own depth": Loader(folder, "-s", "global")}
    random = interleaved(with_cache(bench, "cold", [folder], runs), bench.repeats)
    show(f"random samples of about 110 KB, cold ({engine})", size, random, name)
    ours = median(random[f"stoker, C API, global shuffle, depth {DEPTH}"])
    claim(bench, f"cold, global shuffle, of fio random {FIO_SAMPLE}", median(random[name]) / ours, 0.9)
    result["cold"] = {"sequential_s": times, "random_s": random, "fio_engine": engine,
                      "sequential": sequential.said, "global": shuffled.said}


def warm(bench, folder, file, pin, result):
    rounds = 3
    loader = Loader(folder, "-s", "none", "-t", 1, epochs=rounds, pin=pin)
    unchecked = Loader(folder, "-s", "none", "-t", 1, "-u", epochs=rounds, pin=pin)
    runs = {"pread loop, 1 MiB, one buffer": pread(file, MIB, rounds, pin),
            "stoker, C API, CRC checked": loader,
            "stoker, C API, CRC not checked": unchecked}
    times = interleaved(with_cache(bench, "warm", [folder], runs), bench.repeats)
    show("sequential, warm, one core", file.stat().st_size, times, "pread loop, 1 MiB, one buffer")
    share = median(times["pread loop, 1 MiB, one buffer"]) / median(times["stoker, C API, CRC checked"])
    claim(bench, "warm, CRC checked, of a pread loop on the same core", share, 0.8)
    result["warm"] = {"seconds": times, "loader": loader.said}


def small(bench, pin, result):
    samples = 50000 if bench.quick else 1000000
    folder, _ = make_file(bench, "small", samples, SMALL_BYTES, SMALL_BYTES)
    rows, seconds = [], {}
    contestants = {f"{name}, batch {batch}": Loader(folder, "-s", "none", "-t", 1, "-b", batch, *more,
                                                    epochs=4, pin=pin)
                   for batch in (32, 256)
                   for name, more in (("CRC checked", ()), ("CRC not checked", ("-u",)))}
    times = interleaved(with_cache(bench, "warm", [folder], contestants), bench.repeats)
    for name, t in times.items():
        rate = contestants[name].said["samples"] / contestants[name].epochs / median(t)
        rows.append([name, f"{rate / 1e6:.2f}", f"{median(t):.3f}", spread(t)])
        seconds[name] = t
    table([f"{samples:,} samples of 2 KB as views, warm, one core", "million/s", "s an epoch", "range s"],
          rows)
    rate = samples / median(times["CRC checked, batch 256"])
    bench.claim("load, 2 KB samples, one core, CRC checked: at least 2.5 million/s",
                f"{rate / 1e6:.2f} million/s", rate >= 2.5e6)
    result["small"] = {"seconds": seconds, "samples": samples}
    bench.forget("small")


def first_batch(bench, result):
    """From before the dataset is opened until the first batch is there."""
    samples, shards = (1000000 if bench.quick else 10000000), 10
    folder = bench.fresh("first")
    folder.mkdir()
    for i in range(shards):
        timed([GEN, folder / f"part-{i:05d}.tfrecord", samples // shards, FIRST_PAYLOAD_BYTES,
               FIRST_PAYLOAD_BYTES])
    timed([STOKER, "inspect", folder, "--quiet"])
    rows = []
    result["first_batch"] = {}
    for state in ("warm", "cold"):
        contestants = {how: Loader(folder, "-s", how, "-n", 1) for how in ("none", "block", "global")}
        found = {how: [] for how in contestants}
        for _ in range(bench.repeats):
            for how, loader in contestants.items():
                bench.in_state(state, [folder, bench.dir / "first.stkidx"])
                loader()
                found[how].append(loader.said["first_batch_s"])
        for how, t in found.items():
            rows.append([f"{state}, shuffle {how}", f"{median(t) * 1e3:.1f}",
                         f"{min(t) * 1e3:.1f}-{max(t) * 1e3:.1f}"])
            bench.claim(f"first batch of {samples:,} samples, {state}, {how}: at most 50 ms",
                        f"{median(t) * 1e3:.1f} ms", median(t) <= 0.050)
        result["first_batch"][state] = found
    table([f"first batch of {samples:,} indexed samples", "ms", "range ms"], rows)
    bench.forget("first")


def run(bench, _python):
    size = (256 if bench.quick else 4096) * MIB
    pin = ["taskset", "-c", max(os.sched_getaffinity(0))]
    folder, file = make_file(bench, "load", size * 2 // (SAMPLE_MIN + SAMPLE_MAX), SAMPLE_MIN, SAMPLE_MAX)
    print(f"load: one TFRecord file of {file.stat().st_size / MIB:,.0f} MiB, samples of"
          f" {SAMPLE_MIN // 1000}-{SAMPLE_MAX // 1000} KB; cold: {bench.cold_how}\n")
    result = {"bytes": file.stat().st_size}
    cold(bench, folder, file, result)
    warm(bench, folder, file, pin, result)
    bench.forget("load")
    small(bench, pin, result)
    first_batch(bench, result)
    bench.results["load"] = result
