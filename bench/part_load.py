"""load: the loader against what the storage (fio) and the memory (a pread loop) can do."""

import os
import shutil

from common import (GEN, LOAD, MIB, PREAD, STOKER, Failed, device_read_bytes, interleaved, many_samples, measured,
                    median, spread, table, timed)

SAMPLE_MIN, SAMPLE_MAX = 80000, 140000  # an ImageNet JPEG is about 110 KB
FIO_SAMPLE = "112k"  # direct reads come in units of 4 KiB: the next size above
DEPTH = 32
SMALL_BYTES = 2048
FIRST_PAYLOAD_BYTES = 24
PROGRAMS_BYTES = 200e6  # contestants and their libraries come from the device too


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


def fio(file, engine, rw, block, fixed):
    size = file.stat().st_size
    more = ["--fixedbufs", "--registerfiles"] if fixed else []

    def once():
        found = measured("fio", "--name=read", f"--filename={file}", f"--rw={rw}", f"--bs={block}",
                         f"--iodepth={DEPTH}", f"--ioengine={engine}", "--direct=1", "--readonly",
                         "--allow_file_create=0", "--randseed=1", "--output-format=json", *more)
        return size / found["jobs"][0]["read"]["bw_bytes"]
    return once


def fios(file, engine, rw, blocks):
    """fio's ways: registered buffers make a difference of a third, so both are tried."""
    ways = (False, True) if engine == "io_uring" else (False,)
    return {f"fio, {'random' if rw == 'randread' else 'in order'}, {block}"
            + (", fixed buffers" if fixed else ""): fio(file, engine, rw, block, fixed)
            for block in blocks for fixed in ways}


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


class Race:
    """Contestants in turn, the cache put into `state` before each; counts the device's bytes."""

    def __init__(self, bench, state, paths, contestants):
        self.bench, self.state, self.paths = bench, state, paths
        self.device = {name: [] for name in contestants}
        self.times = interleaved({name: self.prepared(name, once)
                                  for name, once in contestants.items()}, bench.repeats)

    def prepared(self, name, once):
        def run():
            self.bench.in_state(self.state, self.paths)
            before = device_read_bytes(self.bench.dir)
            seconds = once()
            if before is not None:
                self.device[name].append(device_read_bytes(self.bench.dir) - before)
            return seconds
        return run

    def median(self, name):
        return median(self.times[name])

    def best(self, prefix):
        return min((n for n in self.times if n.startswith(prefix)), key=self.median)

    def show(self, title, size, against):
        """A table of rates; the last column: the rate as a share of that of `against`."""
        limit = self.median(against)
        table([title, "median s", "range s", "MB/s", "MB from the device", f"of {against}"],
              [[name, f"{median(t):.2f}", spread(t), f"{size / median(t) / 1e6:,.0f}",
                f"{median(self.device[name]) / 1e6:,.0f}" if self.device[name] else "?",
                f"{limit / median(t):.1%}"] for name, t in self.times.items()])
        if any(d and median(d) > 1.1 * size + PROGRAMS_BYTES for d in self.device.values()):
            print("  Others read from the device meanwhile: these rates are not to be trusted.\n")


def claim(bench, what, share, wanted):
    bench.claim(f"load, {what}: at least {wanted:.0%}", f"{share:.1%}", share >= wanted)


# ---- the parts ----

def samples_in(size):
    return size * 2 // (SAMPLE_MIN + SAMPLE_MAX)


def make_file(bench, name, samples, smallest=SAMPLE_MIN, largest=SAMPLE_MAX):
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
    ours, shuffled, block = (Loader(folder, "-s", how) for how in ("none", "global", "block"))
    race = Race(bench, "cold", [folder], {
        **fios(file, engine, "read", ("1m", "4m")), "stoker, C API, in order": ours,
        "stoker load, in order": command(folder, "--shuffle", "none"),
        "stoker, C API, block shuffle": block,
        "pread loop, buffered, 256 KiB": pread(file, 256 << 10)})
    best = race.best("fio")
    race.show(f"in order, cold; fio: direct, {engine}, depth {DEPTH}", size, best)
    for name in ("stoker, C API, in order", "stoker load, in order"):
        claim(bench, f"cold, in order, of fio's best ({name})",
              race.median(best) / race.median(name), 0.95)
    in_order, in_blocks = (race.median(f"stoker, C API, {how}")
                           for how in ("in order", "block shuffle"))
    claim(bench, "cold, block shuffle, of in order", in_order / in_blocks, 0.95)

    fixed_depth = Loader(folder, "-s", "global", "-q", DEPTH)
    random = Race(bench, "cold", [folder], {
        **fios(file, engine, "randread", (FIO_SAMPLE,)),
        f"stoker, C API, global shuffle, depth {DEPTH}": fixed_depth,
        "stoker, C API, global shuffle, its own depth": shuffled})
    best = random.best("fio")
    random.show(f"random samples, cold; fio: direct, {engine}, depth {DEPTH}", size, best)
    claim(bench, f"cold, global shuffle, of fio's best random {FIO_SAMPLE}",
          random.median(best) / random.median(f"stoker, C API, global shuffle, depth {DEPTH}"), 0.9)
    result["cold"] = {
        "fio_engine": engine, "in_order_s": race.times, "in_order_device_bytes": race.device,
        "random_s": random.times, "random_device_bytes": random.device, "in_order": ours.said,
        "block": block.said, "global": fixed_depth.said, "global_own_depth": shuffled.said}


def warm(bench, pin, result):
    rounds = 3
    folder, file = make_file(bench, "warm", samples_in((256 if bench.quick else 4096) * MIB))
    loader = Loader(folder, "-s", "none", "-t", 1, epochs=rounds, pin=pin)
    limit = "pread loop, 1 MiB, one buffer"
    race = Race(bench, "warm", [folder], {limit: pread(file, MIB, rounds, pin),
                                          "stoker, C API, CRC checked": loader})
    size = file.stat().st_size
    race.show(f"in order, warm, {size / MIB:,.0f} MiB, one core", size, limit)
    claim(bench, "warm, CRC checked, of a pread loop on the same core",
          race.median(limit) / race.median("stoker, C API, CRC checked"), 0.8)
    result["warm"] = {"bytes": size, "seconds": race.times, "loader": loader.said}
    bench.forget("warm")


def small(bench, pin, result):
    samples = 50000 if bench.quick else 1000000
    folder, _ = make_file(bench, "small", samples, SMALL_BYTES, SMALL_BYTES)
    rows, seconds = [], {}
    contestants = {f"{name}, batch {batch}": Loader(folder, "-s", "none", "-t", 1, "-b", batch,
                                                    *more, epochs=4, pin=pin)
                   for batch in (32, 256)
                   for name, more in (("CRC checked", ()), ("bytes not looked at", ("-u",)))}
    times = Race(bench, "warm", [folder], contestants).times
    for name, t in times.items():
        rate = contestants[name].said["samples"] / contestants[name].epochs / median(t)
        rows.append([name, f"{rate / 1e6:.2f}", f"{median(t):.3f}", spread(t)])
        seconds[name] = t
    table([f"{samples:,} samples of 2 KB as views, warm, one core", "million/s", "s an epoch",
           "range s"], rows)
    rate = samples / median(times["CRC checked, batch 256"])
    bench.claim("load, 2 KB samples, one core, CRC checked: at least 2.5 million/s",
                f"{rate / 1e6:.2f} million/s", rate >= 2.5e6)
    result["small"] = {"seconds": seconds, "samples": samples}
    bench.forget("small")


def first_batch(bench, result):
    """From before the dataset is opened until the first batch is there."""
    folder, samples = many_samples(bench, "first", FIRST_PAYLOAD_BYTES)
    timed([STOKER, "inspect", folder, "--quiet"])
    rows = []
    result["first_batch"] = {}
    result["first_batch_samples"] = samples
    for state in ("warm", "cold"):
        contestants = {how: Loader(folder, "-s", how, "-n", 1)
                       for how in ("none", "block", "global")}
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
    # An epoch long enough that memory taken once, when it begins, does not count for much.
    size = (256 if bench.quick else 12288) * MIB
    pin = ["taskset", "-c", max(os.sched_getaffinity(0))]
    folder, file = make_file(bench, "load", samples_in(size))
    result = {"bytes": file.stat().st_size}
    print(f"load: TFRecord files, samples of {SAMPLE_MIN // 1000}-{SAMPLE_MAX // 1000} KB; cold:"
          f" {result['bytes'] / MIB:,.0f} MiB, {bench.cold_how}\n")
    cold(bench, folder, file, result)
    bench.forget("load")
    warm(bench, pin, result)
    small(bench, pin, result)
    first_batch(bench, result)
    bench.results["load"] = result
