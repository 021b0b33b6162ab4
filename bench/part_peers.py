"""peers: stoker's Python front against what else feeds a training, on the same samples.

Each contestant has a file in bench/peers and, where it is not the system's, a virtual environment
of its own outside the tree. One that does not install or run stands in the tables with the reason.
"""

import hashlib
import importlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time

from common import BUILD, ROOT, STOKER, Failed, interleaved, median, spread, table

HERE = ROOT / "bench/peers"
sys.path.insert(0, str(HERE))
from samples import BATCH, Samples  # noqa: E402

PEERS = ["stoker", "stoker_raw", "files", "tfdata", "webdataset", "ffcv", "mds", "litdata", "h5py",
         "memory"]
COUNTS = {"small": 200000, "large": 20000}
QUICK_SHARE = 20
# times as fast as; everything else: at least as fast
WANTED = {"files": 10, "tfdata": 5, "webdataset": 3}
STEP_TIMEOUT_S = 900  # an epoch, or writing a dataset
INSTALL_TIMEOUT_S = 1800


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "stoker-bench"


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it ended without a word"


# ---- installing ----

class Peer:
    def __init__(self, name, python):
        self.name = name
        self.about = importlib.import_module(f"peer_{name}")
        self.python = python
        self.version = self.trouble = None

    def prepare(self):
        try:
            self.python = self.environment()
            self.version = self.ask("version")["version"]
        except (Failed, OSError, subprocess.SubprocessError) as e:
            self.trouble = last_line(str(e))

    def environment(self):
        """The interpreter to run it with; makes a virtual environment where it needs one."""
        plain, with_deps = getattr(self.about, "PIP_NO_DEPS", []), self.about.PIP
        if not plain and not with_deps:
            return self.python
        isolated = getattr(self.about, "ISOLATED", False)
        recipe = json.dumps([self.python, isolated, plain, with_deps])
        folder = cache_folder() / f"{self.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"
        python = folder / "bin/python"
        if (folder / "complete").exists():
            return python
        print(f"peers: installing {self.about.NAME} in {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        more = [] if isolated else ["--system-site-packages"]
        self.install([self.python, "-m", "venv", *more, folder])
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if with_deps:
            self.install([*pip, *with_deps])
        if plain:
            self.install([*pip, "--no-deps", *plain])
        (folder / "complete").write_text(recipe + "\n")
        return python

    def install(self, argv):
        done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, timeout=INSTALL_TIMEOUT_S)
        if done.returncode != 0:
            errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
            raise Failed("does not install: " + last_line(errors[0] if errors else done.stdout))

    # ---- running ----

    def start(self, *args):
        argv = [self.python, HERE / "driver.py", self.name, *args]
        env = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "STOKER": str(STOKER),
               "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "PYTHONWARNINGS": "ignore",
               "TF_CPP_MIN_LOG_LEVEL": "3"}
        return Running(list(map(str, argv)), env)

    def ask(self, *args):
        with self.start(*args) as running:
            return running.answer()


class Running:
    """A driver that was started. Its answers are lines of JSON."""

    def __init__(self, argv, env):
        # A temporary file: a pipe nobody empties would stop it.
        self.log = open(f"/proc/self/fd/{os.memfd_create('stderr')}", "w+b")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log, env=env, start_new_session=True)

    def answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], STEP_TIMEOUT_S)
        line = self.process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        if not ready:
            raise Failed(f"no answer within {STEP_TIMEOUT_S} s")
        self.log.seek(0)
        raise Failed(last_line(self.log.read().decode(errors="replace")))

    def epoch(self):
        try:
            self.process.stdin.write(b"epoch\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() says why
        return self.answer()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Ends the driver with the worker processes it made: its session is its own."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


# ---- one cell: which samples, which order, which state of the cache ----

class Row:
    """A contestant in one cell; finds out how it is fastest here."""

    def __init__(self, bench, peer, which, order, state, expected):
        self.bench, self.peer, self.which, self.order, self.state = bench, peer, which, order, state
        self.expected = expected
        self.folder = bench.dir / which / getattr(peer.about, "DATA_OF", peer.name)
        self.name, self.trouble = peer.about.NAME, peer.trouble
        self.options = self.running = None
        self.firsts = []

    def open(self):
        running = self.peer.start("read", self.folder, self.which, self.order,
                                  json.dumps(self.options))
        running.answer()
        return running

    def checked(self, said):
        if (said["samples"], said["bytes"], said["sum"]) != self.expected:
            raise Failed(f"gave {said['samples']} samples, {said['bytes']} bytes: not the data set")
        return said["seconds"]

    def once(self):
        """Seconds of an epoch. Warm: not the first of its process; cold: the first."""
        if self.state == "cold":
            self.bench.cool([self.folder])
            with self.open() as running:
                said = running.epoch()
                self.firsts.append(said["first_batch_s"])
                return self.checked(said)
        if self.running is None:
            self.running = self.open()
            self.checked(self.running.epoch())
        self.bench.warm([self.folder])
        said = self.running.epoch()
        self.firsts.append(said["first_batch_s"])
        return self.checked(said)

    def choose(self, variants):
        """Tries each way once and keeps the fastest."""
        found, why = [], None
        for self.options in variants:
            try:
                found.append((self.once(), json.dumps(self.options)))
            except Failed as e:
                why = str(e)
            self.close()
        if not found:
            self.trouble = last_line(why)
            return
        self.options = json.loads(min(found)[1])
        self.firsts = []

    def once_or_trouble(self):
        """As once(); one that fails does not end the others' race."""
        if not self.trouble:
            try:
                return self.once()
            except Failed as e:
                self.trouble = last_line(str(e))
        return float("inf")

    def close(self):
        if self.running is not None:
            self.running.__exit__()
            self.running = None


def is_limit(peer):
    return getattr(peer.about, "LIMIT", False)


def rows_of(bench, peers, which, order, state, expected):
    rows = []
    for peer in peers:
        if state == "cold" and is_limit(peer):
            continue
        if peer.trouble:
            rows.append(Row(bench, peer, which, order, state, expected))
            continue
        variants = peer.ask("variants", which, order)["variants"]
        if bench.quick and not peer.name.startswith("stoker"):
            variants = variants[:1]  # not worth the time of trying
        # Ways of ours that differ in what they give, not only in speed, are rows of their own.
        groups = [[v] for v in variants] if peer.name.startswith("stoker") else [variants]
        for group in groups:
            row = Row(bench, peer, which, order, state, expected)
            if len(groups) > 1:
                row.name += ", " + "".join(str(v) for v in group[0].values())
            row.choose(group)
            rows.append(row)
    return rows


def cell(bench, peers, which, order, state, expected):
    rows = rows_of(bench, peers, which, order, state, expected)
    alive = [r for r in rows if not r.trouble]
    try:
        times = interleaved({r.name: r.once_or_trouble for r in alive}, bench.repeats)
    finally:
        for row in rows:
            row.close()
    size = expected[1]
    ours = None
    if alive and alive[0].peer.name == "stoker" and not alive[0].trouble:
        ours = median(times[alive[0].name])
    shown, found = [], {}
    for row in rows:
        if row.trouble:
            shown.append([row.name, "-", "-", "-", "-", "-", "did not run"])
            found[row.name] = {"trouble": row.trouble}
            continue
        t = times[row.name]
        settings = ", ".join(f"{k} {v}" for k, v in row.options.items() if k != "shuffle")
        shown.append([row.name, f"{expected[0] / median(t):,.0f}", f"{size / median(t) / 1e6:,.0f}",
                      spread(t), f"{median(row.firsts):.2f}",
                      f"{median(t) / ours:.1f}" if ours else "-", settings])
        found[row.name] = {"seconds": t, "first_batch_s": row.firsts, "options": row.options}
    table([f"{which} samples, {order}, {state}", "samples/s", "MB/s", "range s", "first batch s",
           "stoker is so many times as fast", "with"], shown)
    if ours:
        ran = [r for r in alive if not r.trouble]
        claims(bench, f"{which}, {order}, {state}", ran, times, ours)
    return found


def claims(bench, where, rows, times, ours):
    for row in rows:
        if row.peer.name.startswith("stoker") or is_limit(row.peer):
            continue
        wanted = WANTED.get(row.peer.name, 1)
        ratio = median(times[row.name]) / ours
        bench.claim(f"peers, {where}: {wanted} times {row.name}", f"{ratio:.1f} times",
                    ratio >= wanted)


# ---- the part ----

def write_all(bench, peers, which, count):
    for peer in sorted(peers, key=lambda p: p.name != "files"):  # what stoker packs comes first
        if peer.trouble or hasattr(peer.about, "DATA_OF"):
            continue
        folder = bench.dir / which / peer.name
        folder.mkdir(parents=True)
        start = time.monotonic()
        try:
            peer.ask("write", which, count, folder)
        except Failed as e:
            peer.trouble = f"does not write: {last_line(str(e))}"
        print(f"peers: wrote {count:,} {which} samples for {peer.about.NAME}:"
              f" {peer.trouble or f'{time.monotonic() - start:.0f} s'}", flush=True)


def run(bench, python):
    peers = [Peer(name, python) for name in PEERS]
    for peer in peers:
        peer.prepare()
    by_name = {peer.name: peer for peer in peers}
    for peer in peers:
        print(f"peers: {peer.about.NAME}: {peer.version or 'not used: ' + peer.trouble}")
    print(f"peers: batches of {BATCH}; cold: {bench.cold_how}\n", flush=True)
    result = {"versions": {p.about.NAME: p.version or p.trouble for p in peers}, "data": {},
              "cells": {}}
    for which, count in COUNTS.items():
        count //= QUICK_SHARE if bench.quick else 1
        (bench.dir / which).mkdir()
        write_all(bench, peers, which, count)
        for peer in peers:
            other = by_name.get(getattr(peer.about, "DATA_OF", None))
            if other and other.trouble and not peer.trouble:
                peer.trouble = f"{other.about.NAME} wrote no data"
        expected = (count, *Samples(which, count).check())
        result["data"][which] = {"samples": count, "bytes": expected[1]}
        print(flush=True)
        for order in ("shuffled", "sequential"):
            for state in ("warm", "cold"):
                found = cell(bench, peers, which, order, state, expected)
                result["cells"][f"{which}, {order}, {state}"] = found
        shutil.rmtree(bench.dir / which)
    for peer in peers:
        if peer.trouble:
            print(f"  {peer.about.NAME} did not run: {peer.trouble}")
    print(flush=True)
    bench.results["peers"] = result
