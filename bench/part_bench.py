"""bench: what `stoker bench` adds to the I/O that it makes, whether its utilisation is that of the
storage, and how fast it generates data.
"""

import hashlib
import json
import os
import pathlib
import subprocess

from common import BUILD, STOKER, Failed, files_below, interleaved, median, remove, spread, table, timed
from part_slowfs import SLOWFS, mounted

READS = BUILD / "bench/bench_reads"
OVERHEAD_S = 2e-6
POINTS = 0.03


def workload(bench, name, text):
    path = bench.dir / f"{name}.yaml"
    path.write_text(f"name: {name}\n{text}\n")
    return path


def replay(bench, path, data, *options):
    out = bench.dir / "bench.json"
    timed([STOKER, "bench", path, "--data", data, "--no-calibration", "--json", out, *options])
    return json.loads(out.read_text())["result"]


# ---- overhead ---------------------------------------------------------------------------------

CASES = {  # name: dataset, batch
    "files of 1 kB, 50 per batch": ("{{format: files, files: {n}, record: 1000}}", 50, 20000, 1),
    "files of 1 kB, 1 per batch": ("{{format: files, files: {n}, record: 1000}}", 1, 20000, 1),
    "records of 100 B, 500 per batch": ("{{format: tfrecord, files: 4, samples_per_file: {n}, record: 100}}", 500,
                                        250000, 4),
    "records of 100 B, 1 per batch": ("{{format: tfrecord, files: 4, samples_per_file: {n}, record: 100}}", 1,
                                      250000, 4),
}


def bare(names):
    done = subprocess.run([READS, "262144", "1"], input="\n".join(map(str, names)), stdout=subprocess.PIPE, text=True,
                          check=True)
    return json.loads(done.stdout)["rounds"][0]["s"]


def overhead(bench):
    rows, found = [], {}
    for i, (name, (dataset, batch, n, per)) in enumerate(CASES.items()):
        n = n // 10 if bench.quick else n
        path = workload(bench, f"overhead{i}", f"dataset: {dataset.format(n=n)}\ntraining: {{batch: {batch}}}")
        data = bench.fresh(f"overhead{i}")
        timed([STOKER, "bench", path, "--data", data, "--generate-only"])
        names = sorted(files_below(data / "train"))
        bench.warm([data])
        times = interleaved({"bare": lambda: bare(names),
                             "bench": lambda: replay(bench, path, data)["per_rank"][0]["elapsed_seconds"]}, bench.repeats)
        own = (min(times["bench"]) - min(times["bare"])) / (n * per)
        found[name] = {**times, "samples": n * per, "own_s": own}
        rows.append([name, f"{min(times['bare']) / n / per * 1e6:.2f}", f"{min(times['bench']) / n / per * 1e6:.2f}",
                     f"{own * 1e6:.2f}"])
        bench.claim(f"bench, {name}: at most 2 us per sample beyond the I/O", f"{own * 1e6:.2f} us", own <= OVERHEAD_S)
        bench.forget(f"overhead{i}")
    table(["us per sample, from the page cache, best of each", "the reads alone", "stoker bench", "beyond the reads"], rows)
    return found


# ---- utilisation ------------------------------------------------------------------------------

def slow_cases():
    """name: slowfs's settings, keys, ranks, and the utilisation that follows from them: a step takes as long as
    computing or as reading its batch, whichever takes longer."""
    batch_s = 10 * (0.002 + 0.005 + 1e6 / 100e6)
    both = ["--open", "2ms", "--read", "5ms", "--bandwidth", "100MB"]
    latency = ["--open", "2ms", "--read", "8ms"]
    return {
        "100 ms of computing, 170 ms of reading": (both, "compute: 100ms", "threads: 1", 1, 0.1 / batch_s),
        "153 ms of computing, 170 ms of reading": (both, "compute: 153ms", "threads: 1", 1, 0.153 / batch_s),
        "250 ms of computing, 170 ms of reading": (both, "compute: 250ms", "threads: 1", 1, 1.0),
        "120 ms of computing, two threads, 2 x 300 ms": (latency, "compute: 120ms, batch: 30", "threads: 2", 1,
                                                        0.120 / (30 * 0.010 / 2)),
        "100 ms of computing, two ranks share 100 MB/s": (["--read", "1ms", "--bandwidth", "100MB"], "compute: 100ms",
                                                         "threads: 1", 2, 0.1 / (2 * 10 * 1e6 / 100e6)),
    }


def utilisation(bench):
    if not SLOWFS.exists() or not pathlib.Path("/dev/fuse").exists():
        print("  utilisation: not measured: slowfs is not built (libfuse3-dev), or there is no /dev/fuse here\n")
        return {}
    rows, found = [], {}
    text = "dataset: {{format: files, files: 300, record: 1000000}}\naccess: {{transfer: 0}}\n" \
           "reader: {{{reader}, prefetch: 4}}\n" \
           "training: {{batch: 10, {training}, epochs: 4, most_steps: {steps}, warmup: 3, scaling: weak}}"
    source = bench.fresh("slow-under")
    source.mkdir()
    for name, (settings, training, reader, ranks, must) in slow_cases().items():
        full = text.format(reader=reader, training=training, steps=13 if bench.quick else 43)
        if "batch:" in training:
            full = full.replace("batch: 10, ", "")
        path = workload(bench, "slow", full)
        timed([STOKER, "bench", path, "--data", source / "d", "--generate-only"])
        with mounted(source, bench.dir / "slow-mount", [*settings, "--cache", "off", "--catch-up", "--meta-cache", "1h"]):
            is_ = replay(bench, path, bench.dir / "slow-mount/d", "--ranks", ranks)["utilisation"]
        (bench.dir / "slow-mount").rmdir()
        found[name] = {"must": must, "is": is_}
        rows.append([name, f"{must:.1%}", f"{is_:.1%}", f"{100 * (is_ - must):+.1f}"])
    worst = max(abs(f["is"] - f["must"]) for f in found.values())
    table(["utilisation on slowfs", "as the settings say", "measured", "points"], rows)
    bench.claim("bench, utilisation on slowfs: within 3 points of what its settings give", f"{100 * worst:.1f} points",
                worst <= POINTS)
    bench.forget("slow-under")
    return found


# ---- generation -------------------------------------------------------------------------------

def digest(folder):
    h = hashlib.sha256()
    for path in sorted(files_below(folder / "train")):
        h.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return h.hexdigest()


def generation(bench):
    mib = 128 if bench.quick else 2048
    shapes = {"TFRecord shards": f"{{format: tfrecord, files: 16, samples_per_file: {mib * 8 // 16}, record: 128K}}",
              "NPZ files": f"{{format: npz, files: {mib // 8}, record: 8M}}"}
    data, plain = bench.dir / "generated", bench.dir / "plain"

    def one(path):
        def run():
            remove(data)
            os.sync()
            return timed([STOKER, "bench", path, "--data", data, "--generate-only"])
        return run

    def dd():
        remove(plain)
        os.sync()
        return timed(["dd", "if=/dev/zero", f"of={plain}", "bs=1M", f"count={mib}", "conv=fsync"])
    contestants = {"dd, one file, zeros": dd}
    for i, (name, dataset) in enumerate(shapes.items()):
        contestants[name] = one(workload(bench, f"generate{i}", f"dataset: {dataset}"))
    times = interleaved(contestants, bench.repeats)
    table([f"generating {mib} MiB", "MiB/s", "range s"],
          [[name, f"{mib / median(t):,.0f}", spread(t)] for name, t in times.items()])
    rate = median(times["dd, one file, zeros"]) / median(times["TFRecord shards"])
    bench.claim("bench, generated TFRecord shards: as fast as dd writes zeros (at least 90 %)", f"{rate:.0%}", rate >= 0.9)
    sums = set()
    for jobs in (1, 2):
        remove(data)
        timed([STOKER, "bench", bench.dir / "generate0.yaml", "--data", data, "--generate-only", "--jobs", jobs])
        sums.add(digest(data))
    bench.claim("bench, generated twice, with one thread and with two: the same bytes", f"{len(sums)} versions",
                len(sums) == 1)
    remove(data)
    remove(plain)
    return {"mib": mib, "seconds": times, "versions": len(sums)}


def run(bench, python):
    del python
    print("bench: the benchmark itself\n")
    bench.results["bench"] = {"overhead": overhead(bench)}
    bench.results["bench"]["generation"] = generation(bench)
    try:
        bench.results["bench"]["utilisation"] = utilisation(bench)
    except Failed as e:
        print(f"  utilisation: not measured: {e}\n")
