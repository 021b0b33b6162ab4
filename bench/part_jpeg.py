"""jpeg: the loader decoding, against libjpeg's own loop on as many threads as there are cores."""

import os
import re
import subprocess
import sys

from common import BUILD, ROOT, STOKER, Failed, median, table, timed
from part_load import Loader

sys.path.insert(0, str(ROOT / "bench/gpu"))
from resnet50 import make_jpegs  # noqa: E402

JPEG = BUILD / "bench/bench_jpeg"
CROP = "image:224,crop=random,flip"
# Rates of bench_jpeg, by the last column of its lines.
LINE = re.compile(r"\s*([0-9.]+) images/s\s+[0-9.]+ %\s+(.*)")
LIBJPEG = "libjpeg, all of it to RGB"


def single(folder, copies):
    """Rates on `copies` threads at once, one a process, added up: {what: images/s}."""
    argv = [JPEG, "-r", "3", "-d", "image", "-d", CROP, folder]
    running = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(copies)]
    total = {}
    for process in running:
        out, err = process.communicate()
        if process.returncode != 0:
            raise Failed(err.strip())
        for line in out.splitlines():
            found = LINE.match(line)
            if found:
                total[found[2]] = total.get(found[2], 0) + float(found[1])
    return total


def loader(packed, decode, images):
    epochs = 3
    run = Loader(packed, "-d", decode, "-b", 64, epochs=epochs)
    seconds = run()
    return run.said["samples"] / epochs / seconds


def run(bench, _python):
    images, cores = (300 if bench.quick else 3000), len(os.sched_getaffinity(0))
    places = ("jpeg.so", "jpegs", "jpegs-packed")
    library, tree, packed = map(bench.fresh, places)
    timed(["cc", "-O2", "-shared", "-fPIC", "-o", library, ROOT / "bench/gpu/jpeg.c", "-ljpeg"])
    make_jpegs(library, tree, images, 10)
    timed([STOKER, "pack", tree, packed, "--quiet"])
    some = tree / "class_000"  # bench_jpeg has its files in memory
    rates = {"one": [], "all": [], "image": [], CROP: []}
    for _ in range(bench.repeats):
        bench.warm([packed])
        rates["one"].append(single(some, 1))
        rates["image"].append(loader(packed, "image", images))
        rates["all"].append(single(some, cores))
        rates[CROP].append(loader(packed, CROP, images))
    one, every = (lambda what: median([r[what] for r in rates["one"]]),
                  lambda what: median([r[what] for r in rates["all"]]))
    print(f"jpeg: {images:,} JPEGs of 500x375, about 110 KB, warm, {cores} cores\n")
    rows = []
    for what, decode in ((LIBJPEG, "image"), (CROP, CROP)):
        ours, limit = median(rates[decode]), cores * one(what)
        rows += [[f"{what}, one thread", f"{one(what):,.0f}", ""],
                 [f"{what}, {cores} threads at once", f"{every(what):,.0f}",
                  f"{every(what) / limit:.1%}"],
                 [f"stoker loader, decode {decode}", f"{ours:,.0f}", f"{ours / limit:.1%}"]]
        if decode == "image":
            bench.claim(f"jpeg: at least 95 % of {cores} x one thread of libjpeg",
                        f"{ours / limit:.1%}; of {cores} threads at once {ours / every(what):.1%}",
                        ours / limit >= 0.95)
    table(["jpeg", "images/s", f"of {cores} x one thread"], rows)
    bench.results["jpeg"] = {"images": images, "cores": cores, "images_per_s": rates}
    for name in places:
        bench.forget(name)
