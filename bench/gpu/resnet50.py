#!/usr/bin/env python3
"""ResNet-50 training on a GPU, fed from packed JPEGs by stoker, against synthetic data that is on
the GPU already (the limit) and against ImageFolder + DataLoader at its best number of workers.

From a bare tree, without a network: builds stoker and its Python package, makes the JPEGs, packs
them, trains. Needs gcc, meson, ninja, libjpeg, zlib, Python's headers and PyTorch. Prints a table,
writes resnet50.json into $OUT (or --out).
"""

import argparse
import concurrent.futures
import ctypes
import json
import multiprocessing
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
START = time.monotonic()


def say(text):
    print(f"[{time.monotonic() - START:5.0f} s] {text}", flush=True)


def parse_args():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--images", type=int, default=30000)
    p.add_argument("--classes", type=int, default=100)
    p.add_argument("--batch", type=int, default=256)
    p.add_argument("--steps", type=int, default=150, help="timed, a round")
    p.add_argument("--skip", type=int, default=50,
                   help="steps before the clock starts, so that nothing counts that was read ahead")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--minutes", type=float, default=8, help="no round begins that would end later")
    p.add_argument("--workers", default="", help="numbers of DataLoader workers to try, as 8,12,16")
    p.add_argument("--compile", action="store_true", help="torch.compile, for all of them")
    p.add_argument("--device", default="cuda")
    p.add_argument("--dir", help="where the data goes (default: a temporary folder, removed)")
    p.add_argument("--build", help="a build folder of stoker to use instead of building it")
    p.add_argument("--out", default=os.environ.get("OUT") or str(ROOT / "bench/results"))
    return p.parse_args()


# ---- building, making, packing ----

def run(*argv):
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode != 0:
        sys.exit(f"resnet50: {' '.join(map(str, argv))} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def build(folder):
    run("meson", "setup", folder, ROOT, "--buildtype", "release", f"-Dpython_exe={sys.executable}",
        "-Dpython=enabled")
    run("ninja", "-C", folder)
    return folder


def make_part(library, folder, first, count, classes):
    return ctypes.CDLL(library).make_images(folder.encode(), first, count, classes)


def make_jpegs(library, folder, images, classes):
    for c in range(classes):
        (folder / f"class_{c:03d}").mkdir(parents=True)
    parts = 4 * len(os.sched_getaffinity(0))
    each = -(-images // parts)
    with concurrent.futures.ProcessPoolExecutor(
            mp_context=multiprocessing.get_context("spawn")) as pool:
        jobs = [pool.submit(make_part, str(library), str(folder), first, min(each, images - first),
                            classes) for first in range(0, images, each)]
        if any(job.result() for job in jobs):
            sys.exit("resnet50: making the JPEGs failed")


def prepare(args, scratch):
    build_dir = pathlib.Path(args.build) if args.build else build(scratch / "build")
    say(f"stoker is built: {run(build_dir / 'stoker', '--version').splitlines()[0]}")
    library = scratch / "jpeg.so"
    run("gcc", "-O2", "-shared", "-fPIC", "-o", library, HERE / "jpeg.c", "-ljpeg")
    tree, packed = scratch / "jpegs", scratch / "packed"
    make_jpegs(library, tree, args.images, args.classes)
    size = sum(f.stat().st_size for f in tree.glob("*/*.jpg"))
    say(f"{args.images:,} JPEGs of {size / args.images / 1000:.0f} KB on average")
    run(build_dir / "stoker", "pack", tree, packed, "--quiet")
    say("packed")
    sys.path.insert(0, str(build_dir / "python"))
    sys.path.insert(0, str(HERE))
    return tree, packed, library, size


# ---- measuring ----

def busy_cpu_s():
    """CPU seconds of the whole machine: worker processes are counted that way too."""
    fields = list(map(int, pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]))
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Meter:
    """Trains from feeds that stay open, so that each round goes on where the last one ended."""

    def __init__(self, training, batch):
        import torch
        self.torch, self.training, self.batch = torch, training, batch

    def wait(self):
        if self.training.device.type == "cuda":
            self.torch.cuda.synchronize()

    def train(self, batches, steps):
        for _ in range(steps):
            self.training.step(*next(batches))

    def measure(self, batches, skip, steps):
        """(images/s, cores busy)."""
        self.train(batches, skip)
        self.wait()
        cpu, start = busy_cpu_s(), time.perf_counter()
        self.train(batches, steps)
        self.wait()
        seconds = time.perf_counter() - start
        return steps * self.batch / seconds, (busy_cpu_s() - cpu) / seconds

    def alone(self, feed):
        """Images/s of a feed on the host, one epoch, nobody training; not from its first batch."""
        images, start = 0, None
        for data, _ in feed.host():
            if start is None:
                start = time.perf_counter()
            else:
                images += len(data)
        return images / (time.perf_counter() - start) if images else 0.0


def best_workers(args, meter, make):
    """The DataLoader whose training is fastest."""
    cores = len(os.sched_getaffinity(0))
    counts = ([int(n) for n in args.workers.split(",")] if args.workers
              else sorted({max(1, cores // 2), max(1, cores * 3 // 4), cores}))
    found = []
    for count in counts:
        feed = make(count)
        batches = iter(feed)
        rate, _ = meter.measure(batches, args.skip, max(1, args.steps // 3))
        say(f"{feed.name}: {rate:,.0f} images/s, to choose the number of workers")
        found.append((rate, count))
        batches.close()
        del batches, feed
    return make(max(found)[1])


def rounds(args, meter, feeds):
    open_feeds = {feed.name: iter(feed) for feed in feeds}
    results = {name: [] for name in open_feeds}
    for n in range(args.rounds):
        began = time.monotonic()
        names = list(open_feeds)
        for name in names[n % len(names):] + names[:n % len(names)]:
            rate, cores = meter.measure(open_feeds[name], args.skip, args.steps)
            results[name].append({"images_per_s": rate, "cores_busy": cores})
        say(f"round {n + 1}: " + "; ".join(f"{name} {r[-1]['images_per_s']:,.0f}"
                                           for name, r in results.items()))
        if time.monotonic() - START + (time.monotonic() - began) > args.minutes * 60:
            say("no time for another round")
            break
    for batches in open_feeds.values():
        batches.close()
    return results


def show(results, alone):
    limit = statistics.median(r["images_per_s"] for r in next(iter(results.values())))
    print(f"\n  {'ResNet-50, bf16, channels_last':62} {'images/s':>9} {'of the limit':>13} "
          f"{'cores busy':>11} {'feed alone, images/s':>21}\n")
    for name, runs in results.items():
        rate = statistics.median(r["images_per_s"] for r in runs)
        cores = statistics.median(r["cores_busy"] for r in runs)
        free = f"{alone[name]:,.0f}" if name in alone else ""
        print(f"  {name:62} {rate:9,.0f} {rate / limit:13.1%} {cores:11.1f} {free:>21}")
    print(flush=True)
    return limit


def main():
    args = parse_args()
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="stoker-gpu-", dir=args.dir))
    try:
        return measure_all(args, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure_all(args, scratch):
    tree, packed, library, size = prepare(args, scratch)
    import feeds
    import torch
    from model import Training
    device = torch.device(args.device)
    training = Training(args.classes, device, args.compile)
    meter = Meter(training, args.batch)
    what = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    say(f"{what}, {len(os.sched_getaffinity(0))} cores, torch {torch.__version__}, model of"
        f" {training.source}, batch {args.batch}, cudnn.benchmark,"
        f" torch.compile {'on' if args.compile else 'off'}")
    synthetic = feeds.Synthetic(args.batch, args.classes, device)
    meter.train(iter(synthetic), min(args.skip, 30))
    meter.wait()
    say("the model is warm")
    stoker = feeds.Stoker(packed, args.batch, device)
    loader = best_workers(args, meter,
                          lambda n: feeds.DataLoader(tree, library, args.batch, device, n))
    alone = {feed.name: meter.alone(feed) for feed in (stoker, loader)}
    say("alone: " + "; ".join(f"{name} {rate:,.0f} images/s" for name, rate in alone.items()))
    results = rounds(args, meter, [synthetic, stoker, loader])
    limit = show(results, alone)
    share = statistics.median(r["images_per_s"] for r in results[stoker.name]) / limit
    print(f"  {'met    ' if share >= 0.97 else 'NOT MET'}  gpu: at least 97 % of synthetic data:"
          f" {share:.1%}")
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "resnet50.json").write_text(json.dumps({
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "device": what,
        "cores": len(os.sched_getaffinity(0)), "torch": torch.__version__, "model": training.source,
        "settings": vars(args), "jpeg_bytes": size, "rounds": results, "alone_images_per_s": alone,
        "stoker_share_of_limit": share, "seconds": time.monotonic() - START}, indent=2) + "\n")
    say(f"written to {out / 'resnet50.json'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
