"""memory: the peak of pack and verify on datasets of 1, 4 and 16 times a size."""

import os
import pathlib
import subprocess
import sys
import time

from common import GEN, MIB, STOKER, table, timed
from part_pack import make_tree

SCALES = (1, 4, 16)
# From 4 to 16 times: the smallest dataset may fit in the buffers. Allocator noise is below these.
GROWTH_ALLOWED = 1.25
NOISE_BYTES = 2 * MIB


def peak(argv):
    """(peak RSS, peak anonymous memory) in bytes, polled from /proc while it runs.

    RSS also counts mapped file pages, which the kernel takes back when it wants to."""
    proc = subprocess.Popen(list(map(str, argv)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    status = pathlib.Path(f"/proc/{proc.pid}/status")
    rss = anonymous = 0
    while proc.poll() is None:
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
            ours = os.path.samefile(f"/proc/{proc.pid}/exe", argv[0])  # not Python before its exec
        except OSError:
            continue  # it has just ended
        if "VmHWM" in fields and ours:
            rss = max(rss, int(fields["VmHWM"].split()[0]) << 10)
            anonymous = max(anonymous, int(fields["RssAnon"].split()[0]) << 10)
        time.sleep(0.002)
    if proc.wait() != 0:
        sys.exit(f"bench: {argv} failed: {proc.stderr.read().decode()}")
    return rss, anonymous


def big_records(bench, scale):
    base = (16 if bench.quick else 128) * MIB
    source = bench.fresh("records")
    source.mkdir()
    timed([GEN, source / "in.tfrecord", scale * base // (64 << 10), 32 << 10, 96 << 10])
    return source, f"{scale * base // MIB:,} MiB of records"


def small_files(bench, scale):
    files = scale * (2000 if bench.quick else 12500)
    source = bench.fresh("files")
    make_tree(source, files, 100)
    return source, f"{files:,} files"


def run(bench, _python):
    print("memory: peaks in MiB; anonymous: without mapped files\n")
    rows, result = [], []
    for make in (big_records, small_files):
        peaks = {"pack": [], "verify": []}
        for scale in SCALES:
            source, what = make(bench, scale)
            packed = bench.fresh("packed")
            for command, argv in (("pack", [STOKER, "pack", source, packed, "--quiet"]),
                                  ("verify", [STOKER, "verify", packed, "--quiet"])):
                rss, anonymous = peak(argv)
                peaks[command].append(anonymous)
                rows.append([f"{command}, {what}", f"{rss / MIB:.1f}", f"{anonymous / MIB:.1f}"])
                result.append({"command": command, "source": make.__name__, "scale": scale,
                               "peak_rss_bytes": rss, "peak_anonymous_bytes": anonymous})
            bench.forget(source.name)
            bench.forget("packed")
        for command, values in peaks.items():
            allowed = max(values[1] * GROWTH_ALLOWED, values[1] + NOISE_BYTES)
            bench.claim(f"memory of {command}, {make.__name__}: does not grow with the data",
                        " MiB, ".join(f"{v / MIB:.1f}" for v in values) + " MiB for 1, 4 and 16"
                        " times the data", values[-1] <= allowed)
    table(["memory", "peak RSS", "peak anonymous"], rows)
    bench.results["memory"] = result
