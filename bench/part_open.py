"""open: what opening an indexed dataset of ten million samples costs."""

import json
import os
import subprocess
import sys

from common import MIB, OPEN, many_samples, median, table

PAYLOAD_BYTES = 24


def measure(folder, env):
    done = subprocess.run([OPEN, folder], stdout=subprocess.PIPE, env=env)
    if done.returncode != 0:
        sys.exit("bench: bench_open failed")
    return json.loads(done.stdout)


def run(bench, _python):
    folder, _ = many_samples(bench, "open", PAYLOAD_BYTES)
    env = {**os.environ, "XDG_CACHE_HOME": str(bench.dir / "cache")}
    first = measure(folder, env)
    index = bench.dir / "open.stkidx"
    result = {"samples": first["samples"], "first_open_builds_index_s": first["open_s"]}
    print(f"open: {first['samples']:,} samples in 10 files; the first open, which builds the"
          f" index, took {first['open_s']:.2f} s; cold: {bench.cold_how}\n")
    rows = []
    for state in ("warm", "cold"):
        runs = []
        for _ in range(bench.repeats):
            bench.in_state(state, [folder, index])
            runs.append(measure(folder, env))
        open_s = median([r["open_s"] for r in runs])
        private = median([r["open_private_kib"] for r in runs]) / 1024
        grown = median([r["open_private_kib"] - r["before_private_kib"] for r in runs]) / 1024
        reads = median([r["reads_s"] / r["reads"] for r in runs])
        after = median([r["reads_private_kib"] for r in runs]) / 1024
        rows.append([state, f"{open_s * 1e3:.2f}", f"{private:.1f}", f"{grown:.1f}",
                     f"{reads * 1e6:.0f}", f"{after:.1f}"])
        bench.claim(f"open of {first['samples']:,} samples, {state}: under 20 ms",
                    f"{open_s * 1e3:.2f} ms", open_s < 0.020)
        # Of the whole process a part belongs to the libraries it is linked with.
        bench.claim(f"open of {first['samples']:,} samples, {state}: takes under 5 MiB private",
                    f"{grown:.1f} MiB", grown < 5)
        result[state] = runs
    table(["open", "ms", "private MiB", "of it new", "us a random read", "private MiB after 100"],
          rows)
    result["index_bytes"] = index.stat().st_size
    print(f"  the index: {result['index_bytes'] / MIB:.1f} MiB,"
          f" {result['index_bytes'] / first['samples']:.1f} bytes a sample\n")
    bench.results["open"] = result
    bench.forget("open")
