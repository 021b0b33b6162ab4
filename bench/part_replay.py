"""replay: the profile of a PyTorch script with an image folder becomes a workload; whether its replay
takes the same time in I/O, on a local disk and on a slow file system. Nothing is cached before a run.

Both are measured in the same way, around each call, and in turn. `advise --workload` writes the
workload once, from the first profile; the ratio is of the medians.
"""

import json
import os
import pathlib
import subprocess

from common import ROOT, STOKER, Failed, interleaved, median, table
from part_slowfs import SLOWFS, mounted, uncached

SCRIPT = ROOT / "bench/replay_imagefolder.py"
WORKERS = (0, 2, 4)
MOVING = ("posix", "stdio", "async")


def io_seconds(profile, below):
    """Time in calls on the files below, threads added up."""
    done = subprocess.run([STOKER, "report", profile, "--json", "-"], stdout=subprocess.PIPE, check=True)
    counters = [r["counters"] for r in json.loads(done.stdout)["result"]["records"]
                if r["path"].startswith(str(below)) and r["api"] in MOVING and r["counters"]["reads"]]
    return sum(c["read_ns"] + c["meta_ns"] for c in counters) * 1e-9


class Job:
    """One script with that many workers, and the replay of its first profile."""

    def __init__(self, bench, python, data, workers, under=None):
        self.bench, self.python, self.data, self.workers, self.under = bench, python, data, workers, under
        self.workload = bench.dir / f"replay-{workers}.yaml"
        self.profile = bench.dir / f"replay-{workers}.profile"
        self.runs = []

    def prepare(self):
        if self.under:  # what is below the slow file system is not slow itself
            self.bench.warm([self.under])
            uncached(self.data)
        else:
            self.bench.cool([self.data])

    def original(self):
        self.bench.forget(self.profile.name)
        self.prepare()
        done = subprocess.run([STOKER, "profile", "-o", self.profile, "--", self.python, SCRIPT, self.data,
                               str(self.workers), "2"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if done.returncode:
            raise Failed(done.stderr.decode().strip().splitlines()[-1])
        return io_seconds(self.profile, self.data)

    def replay(self):
        if not self.workload.exists():
            self.original()
            subprocess.run([STOKER, "advise", self.profile, "--workload", self.workload, "--quiet"], check=True)
        self.prepare()
        out = subprocess.run([STOKER, "bench", self.workload, "--no-calibration", "--quiet", "--json", "-"],
                             stdout=subprocess.PIPE, check=True).stdout
        io = json.loads(out)["result"]["io"]
        self.runs.append(io)
        return io["request_seconds"] + io["open_seconds"]


def measure(bench, python, where, data, under=None):
    rows, ratios = [], []
    for workers in WORKERS:
        job = Job(bench, python, data, workers, under)
        try:
            times = interleaved({"replay": job.replay, "original": job.original}, bench.repeats)
        except Failed as e:
            print(f"  replay, {where}, {workers} workers: did not run: {e}\n")
            continue
        was, now = median(times["original"]), median(times["replay"])
        rows.append([f"{where}, {workers} workers", f"{was:.3f}", f"{now:.3f}", f"{now / was:.2f}",
                     " ".join(f"{b / a:.2f}" for a, b in zip(times["original"], times["replay"]))])
        ratios.append(now / was)
        job.workload.unlink()
        bench.forget(job.profile.name)
    table(["replay", "I/O s of the script", "of the replay", "ratio", "each"], rows)
    if ratios:
        worst = max(ratios, key=lambda r: abs(r - 1))
        bench.claim(f"replay, {where}: the I/O time of the profiled script within 10 %",
                    f"{worst:.2f} (the furthest of {len(ratios)})", abs(worst - 1) <= 0.1)
    return {"ratios": ratios, "rows": rows}


def run(bench, python):
    pictures = 200 if bench.quick else 2000
    source = bench.fresh("pictures")
    done = subprocess.run([python, SCRIPT, "--make", source, str(pictures)], stderr=subprocess.PIPE)
    if done.returncode:
        print(f"replay: not measured: {done.stderr.decode().strip().splitlines()[-1]}\n")
        return
    print(f"replay: {pictures:,} JPEG files, two epochs in batches of 16, DataLoader with workers\n")
    result = {"pictures": pictures, "local": measure(bench, python, "local disk", source)}
    if SLOWFS.exists() and pathlib.Path("/dev/fuse").exists():
        mount = bench.dir / "slow"
        with mounted(source, mount):
            result["slowfs"] = measure(bench, python, "slowfs", mount, source)
        os.rmdir(mount)
    else:
        print("  slowfs: not measured: not built (libfuse3-dev), or there is no /dev/fuse here\n")
    bench.results["replay"] = result
    bench.forget("pictures")
