"""pack: small files to TFRecord, against GNU tar and against a Python writer."""

import os
import random
import subprocess

from common import ROOT, STOKER, interleaved, median, remove, spread, table, timed

WRITER = ROOT / "bench/python_writer.py"
PURE_SHARE = 20  # the writer without an extension module gets 1/20 of the classes


def make_tree(root, files, classes):
    """4 to 16 KiB a file, class-per-directory, incompressible, the same bytes on every run."""
    rng = random.Random(4)
    pool = rng.randbytes(8 << 20)
    size = 0
    for c in range(classes):
        folder = root / f"class_{c:04d}"
        folder.mkdir(parents=True)
        for i in range(files // classes):
            length = rng.randint(4096, 16384)
            at = rng.randrange(len(pool) - length)
            with open(f"{folder}/img_{i:05d}.jpg", "wb", buffering=0) as f:
                f.write(pool[at:at + length])
            size += length
    os.sync()
    return size


def contestants(bench, tree, python):
    def pack():
        out = bench.fresh("packed")
        return timed([STOKER, "pack", tree, out, "--format", "tfrecord", "--quiet"])

    def tar():
        out = bench.fresh("out.tar")
        return timed(["tar", "cf", out, "-C", tree, "."], ["sync", out])

    def writer():
        return timed([python, WRITER, tree, bench.fresh("out.tfrecord")])

    return {"stoker pack": pack, "tar cf + sync": tar, "Python writer": writer}


def prepared(bench, state, tree, run):
    """A contestant that starts with the cache in that state and leaves no output behind."""
    def once():
        remove(bench.dir / "tree.stkidx")  # pack starts from the bare files every time
        bench.in_state(state, [tree])
        seconds = run()
        for name in ("packed", "out.tar", "out.tfrecord"):
            bench.forget(name)
        return seconds
    return once


def write_and_sync_s(bench, size):
    """What the device alone needs for as many bytes: nobody durable is faster."""
    out = bench.fresh("zeros")
    seconds = timed(["dd", "if=/dev/zero", f"of={out}", "bs=1M", f"count={size >> 20}", "conv=fsync"])
    remove(out)
    return seconds


def run_pure(bench, tree, classes, python):
    """Seconds of the pure Python writer for the whole tree, scaled up from a share of it."""
    share = bench.fresh("share")
    share.mkdir()
    count = max(1, classes // PURE_SHARE)
    for c in range(count):
        (share / f"class_{c:04d}").symlink_to(tree / f"class_{c:04d}")
    seconds = timed([python, WRITER, share, bench.fresh("out.tfrecord"), "--pure"])
    remove(bench.dir / "out.tfrecord")
    return seconds * classes / count


def report(state, size, times, floor_s, pure_s):
    ours = median(times["stoker pack"])
    rows = [[name, f"{median(t):.2f}", spread(t), f"{size / median(t) / 1e6:.0f}",
             f"{median(t) / ours:.2f}"] for name, t in times.items()]
    rows.append(["pure Python writer (scaled up)", f"{pure_s:.1f}", "", f"{size / pure_s / 1e6:.0f}",
                 f"{pure_s / ours:.1f}"])
    rows.append(["dd of as many zeros + fsync", f"{floor_s:.2f}", "", f"{size / floor_s / 1e6:.0f}",
                 f"{floor_s / ours:.2f}"])
    table([f"pack, {state} cache", "median s", "range s", "MB/s", "times stoker's"], rows)


def run(bench, python):
    files, classes = (10000, 100) if bench.quick else (200000, 1000)
    tree = bench.fresh("tree")
    size = make_tree(tree, files, classes)
    which = subprocess.run([python, WRITER, "--which"], stdout=subprocess.PIPE, text=True).stdout.strip()
    print(f"pack: {files:,} files of 4-16 KiB, {size / 1e6:,.0f} MB, all outputs fsynced;"
          f" Python writer: {which}; cold: {bench.cold_how}\n")
    result = {"files": files, "bytes": size, "python_crc": which}
    for state in ("warm", "cold"):
        runs = {name: prepared(bench, state, tree, f)
                for name, f in contestants(bench, tree, python).items()}
        times = interleaved(runs, bench.repeats)
        floor_s, pure_s = write_and_sync_s(bench, size), run_pure(bench, tree, classes, python)
        report(state, size, times, floor_s, pure_s)
        ours = median(times["stoker pack"])
        tar_ratio = median(times["tar cf + sync"]) / ours
        writer_ratio = median(times["Python writer"]) / ours
        bench.claim(f"pack, {state}: faster than tar + sync", f"{tar_ratio:.2f} times", tar_ratio > 1)
        bench.claim(f"pack, {state}: ten times a Python writer, pure Python",
                    f"{pure_s / ours:.1f} times", pure_s / ours >= 10)
        bench.claim(f"pack, {state}: ten times a Python writer, {which}",
                    f"{writer_ratio:.1f} times; with the device's own {floor_s:.1f} s of writing taken"
                    f" as given, at most {median(times['Python writer']) / floor_s:.1f} times is"
                    " possible", writer_ratio >= 10)
        result[state] = {"seconds": times, "pure_python_s": pure_s, "write_and_sync_s": floor_s,
                         "tar_over_stoker": tar_ratio, "python_over_stoker": writer_ratio,
                         "pure_python_over_stoker": pure_s / ours}
    bench.results["pack"] = result
    bench.forget("tree")
    bench.forget("share")
