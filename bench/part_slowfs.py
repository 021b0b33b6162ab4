"""slowfs: a global-shuffled epoch on a file system like a busy shared one, against a DataLoader.

2 ms an open, 1 ms a read, 500 MB/s (tools/slowfs): packed samples are bound by the bandwidth, the
same samples as files by the latency.
"""

import contextlib
import os
import pathlib
import subprocess
import time

from common import BUILD, GEN, STOKER, Failed, interleaved, median, spread, table, timed
from part_load import SAMPLE_MAX, SAMPLE_MIN, Loader
from part_peers import Peer, Row
from samples import Samples

SLOWFS = BUILD / "tools/slowfs/slowfs"
SETTINGS = ["--open", "2ms", "--read", "1ms", "--bandwidth", "500MB"]
BANDWIDTH_BPS = 500e6
WORKERS = (0, 2, 4, 8)


@contextlib.contextmanager
def mounted(source, at, settings=SETTINGS):
    at.mkdir()
    process = subprocess.Popen([SLOWFS, source, at, "--foreground", *settings])
    try:
        for _ in range(200):
            if os.path.ismount(at):
                break
            if process.poll() is not None:
                raise Failed(f"slowfs ended with status {process.returncode}")
            time.sleep(0.05)
        else:
            raise Failed("slowfs did not mount within ten seconds")
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        # A process that was killed leaves its mount behind; nothing else may be left there.
        if os.path.ismount(at):
            subprocess.run(["fusermount3", "-u", "-z", at], stderr=subprocess.DEVNULL)


def uncached(folder):
    """Nothing of the mount stays in the page cache; what is under it does: it must not be slow."""
    for top, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(top, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def packed_runs(bench, source, mount, repeats):
    contestants = {f"stoker, packed, {name}": Loader(mount / "packed", "-s", how)
                   for name, how in (("global shuffle", "global"), ("block shuffle", "block"),
                                     ("in order", "none"))}

    def prepared(loader):
        def once():
            bench.warm([source / "packed"])
            uncached(mount / "packed")
            return loader()
        return once
    return interleaved({n: prepared(r) for n, r in contestants.items()}, repeats)


class FilesRow(Row):
    """The contestant `files` of the part peers, on the mount."""

    def __init__(self, bench, peer, mount, count, workers):
        expected = (count, *Samples("large", count).check())
        super().__init__(bench, peer, "large", "shuffled", "cold", expected)
        self.folder, self.options = mount / "files", {"workers": workers}

    def once(self):
        # A fresh process: nothing it has open keeps pages; names are forgotten within a second.
        uncached(self.folder)
        time.sleep(1.5)
        with self.open() as running:
            return self.checked(running.epoch())


def files_runs(bench, python, mount, count):
    peer = Peer("files", python)
    peer.prepare()
    if peer.trouble:
        raise Failed(peer.trouble)
    rows = {f"torch DataLoader, files, {n} workers": FilesRow(bench, peer, mount, count, n)
            for n in WORKERS}
    times = interleaved({name: row.once for name, row in rows.items()}, bench.repeats)
    return times, next(iter(rows.values())).expected[1], peer.version


def make(bench, python, source, samples, files):
    (source / "packed").mkdir(parents=True)
    (source / "files").mkdir()
    timed([GEN, source / "packed/data.tfrecord", samples, SAMPLE_MIN, SAMPLE_MAX],
          [STOKER, "inspect", source / "packed", "--quiet"])
    Peer("files", python).ask("write", "large", files, source / "files")
    os.sync()


def run(bench, python):
    if not SLOWFS.exists() or not pathlib.Path("/dev/fuse").exists():
        print("slowfs: not measured: not built (libfuse3-dev), or there is no /dev/fuse here\n")
        return
    samples, files = (2500, 512) if bench.quick else (50000, 4096)
    source, mount = bench.fresh("under"), bench.dir / "mount"
    make(bench, python, source, samples, files)
    size = (source / "packed/data.tfrecord").stat().st_size
    print(f"slowfs: {' '.join(SETTINGS)}; {samples:,} packed samples of about 110 KB,"
          f" {size / 1e6:,.0f} MB; {files:,} such samples as files; nothing of it cached\n")
    result, trouble = {"bytes": size, "samples": samples, "files": files}, None
    with mounted(source, mount):
        packed = packed_runs(bench, source, mount, bench.repeats)
        try:
            loose, loose_size, result["torch"] = files_runs(bench, python, mount, files)
        except Failed as e:
            loose, loose_size, trouble = {}, 0, str(e)
    rows = []
    for times, n, of in ((packed, samples, size), (loose, files, loose_size)):
        for name, t in times.items():
            rate = of / median(t)
            rows.append([name, f"{n / median(t):,.0f}", f"{rate / 1e6:,.0f}",
                         f"{rate / BANDWIDTH_BPS:.1%}", f"{samples * median(t) / n:.0f}",
                         spread(t)])
    if trouble:
        rows.append([f"torch DataLoader, files: did not run: {trouble}", "-", "-", "-", "-", "-"])
    head = ["slowfs", "samples/s", "MB/s", "of the bandwidth", f"s for {samples:,}", "range s"]
    table(head, rows)
    share = size / median(packed["stoker, packed, global shuffle"]) / BANDWIDTH_BPS
    bench.claim("slowfs, global shuffle of packed samples: at least 90 % of the bandwidth set",
                f"{share:.1%}", share >= 0.9)
    bench.results["slowfs"] = {**result, "packed_s": packed, "files_s": loose,
                               "files_bytes": loose_size}
    bench.forget("under")
