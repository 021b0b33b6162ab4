"""scan: index and verify of one big TFRecord file, against cat to /dev/null."""

from common import GEN, MIB, STOKER, interleaved, median, remove, spread, table, timed

MIN_RECORD, MAX_RECORD = 8 << 10, 192 << 10  # an ImageNet JPEG is about 110 KB


def contestants(bench, state, folder, file):
    env = {"XDG_CACHE_HOME": str(bench.dir / "cache")}

    def without_index(*commands):
        """Only the data file is there when it starts, so that the index is built each time."""
        def once():
            remove(bench.dir / "cache")
            for other in folder.iterdir():
                if other != file:
                    remove(other)
            bench.in_state(state, [file])
            return timed(*commands, env=env)
        return once

    return {
        "cat > /dev/null": without_index(["sh", "-c", f"cat '{file}' >/dev/null"]),
        "stoker inspect (builds the index)": without_index([STOKER, "inspect", file, "--quiet"]),
        "stoker verify (index and all CRCs)": without_index([STOKER, "verify", file, "--quiet"]),
    }


def run(bench, _python):
    size = (256 * MIB) if bench.quick else (4096 * MIB)
    folder = bench.fresh("scan")
    folder.mkdir()
    file = folder / "big.tfrecord"
    timed([GEN, file, size * 2 // (MIN_RECORD + MAX_RECORD), MIN_RECORD, MAX_RECORD])
    size = file.stat().st_size
    print(f"scan: one TFRecord file of {size / MIB:,.0f} MiB, records of {MIN_RECORD >> 10}-"
          f"{MAX_RECORD >> 10} KiB; cold: {bench.cold_how}\n")
    result = {"bytes": size}
    for state in ("warm", "cold"):
        times = interleaved(contestants(bench, state, folder, file), bench.repeats)
        cat_s = median(times["cat > /dev/null"])
        table([f"scan, {state} cache", "median s", "range s", "MB/s", "of cat's rate"],
              [[name, f"{median(t):.2f}", spread(t), f"{size / median(t) / 1e6:.0f}",
                f"{cat_s / median(t):.0%}"] for name, t in times.items()])
        share = cat_s / median(times["stoker verify (index and all CRCs)"])
        bench.claim(f"index and verify, {state}: at least 80 % of cat's rate", f"{share:.0%}",
                    share >= 0.8)
        result[state] = {"seconds": times, "verify_rate_over_cat": share}
    bench.results["scan"] = result
    bench.forget("scan")
