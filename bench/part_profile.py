"""profile: what watching costs a program, a call: 2 million preads of 4 KiB, by itself, under
`stoker profile`, with every operation kept (--trace), under Darshan and under strace. Watched and
unwatched calls take turns within each run (bench_profile.c): their difference is the cost."""

import json
import os
import pathlib
import shutil
import subprocess

from common import BUILD, MIB, STOKER, Failed, median, remove, table

PROGRAM = BUILD / "bench/bench_profile"
FILE_BYTES = 64 * MIB
STRACE_CALLS = 100000
LIMIT_NS, TRACE_LIMIT_NS = 100, 150
MANY = (1000, 4000)  # files that are open at once
NOISE_NS = 30  # medians of the same program differ by this much


class Contestant:
    """One way to run the program: ns that it adds to a call, in every run, and what was recorded."""

    def __init__(self, name, prefix=(), env=None, calls=None, folder=None):
        self.name, self.prefix, self.env, self.calls = name, list(prefix), env or {}, calls
        self.folder = folder
        self.added, self.bare, self.seen_ns, self.dropped, self.missed = [], [], [], 0, None

    def run(self, file, calls, threads, order):
        if self.folder:
            remove(self.folder)
        argv = [*self.prefix, PROGRAM, file, self.calls or calls, threads, *order]
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True,
                              env={**os.environ, **self.env})
        lines = [x for x in done.stdout.splitlines() if x.startswith('{"calls"')]
        if done.returncode != 0 or not lines:
            raise Failed(f"{self.name}: status {done.returncode}: {done.stderr[-500:]}")
        found = json.loads(lines[-1])
        self.added.append(found["added_ns"])
        self.bare.append(found["bare_ns"])
        self.seen_ns.append(found["seen_ns"])
        if self.folder:
            self.look(file, found["calls"])

    def look(self, file, calls):
        """The profile must hold every call."""
        done = subprocess.run([STOKER, "report", self.folder, "--json", "-"], capture_output=True,
                              text=True, check=True)
        found = json.loads(done.stdout)["result"]
        self.dropped += sum(p["dropped_calls"] + p["dropped_trace"] for p in found["processes"])
        seen = sum(r["counters"]["reads"] for r in found["records"]
                   if r["path"].startswith(str(file)) and r["api"] == "posix")
        self.missed = (self.missed or 0) + calls - seen


def darshan():
    """(library, why not)."""
    prefix = os.environ.get("STOKER_DARSHAN")
    if not prefix:
        return None, "STOKER_DARSHAN does not name the folder it is installed in"
    library = pathlib.Path(prefix) / "lib/libdarshan.so"
    return (library, "") if library.exists() else (None, f"{library} is not there")


def contestants(bench):
    folder = bench.dir / "p"
    watch = [STOKER, "profile", "--quiet", "-o", folder]
    found = [Contestant("bare"), Contestant("stoker profile", [*watch, "--"], folder=folder),
             Contestant("stoker profile --trace", [*watch, "--trace", "--"], folder=folder)]
    library, why = darshan()
    if library:
        env = {"LD_PRELOAD": str(library), "DARSHAN_ENABLE_NONMPI": "1",
               "DARSHAN_LOGPATH": str(bench.dir), "DARSHAN_LOGFILE": str(bench.dir / "d.darshan")}
        found.append(Contestant("Darshan", env=env))
    else:
        print(f"profile: without Darshan: {why}\n")
    if shutil.which("strace"):
        found.append(Contestant(f"strace -f -c, {STRACE_CALLS:,} calls",
                                ["strace", "-f", "-c", "-o", "/dev/null"], calls=STRACE_CALLS))
    return found


def race(bench, file, calls, threads, order):
    runners = contestants(bench)
    for i in range(bench.repeats):
        for runner in runners[i % len(runners):] + runners[:i % len(runners)]:
            (bench.dir / "d.darshan").unlink(missing_ok=True)
            runner.run(file, calls, threads, order)
    bare = runners[0]
    for runner in runners:
        if runner.calls:  # strace slows both kinds of call
            runner.bare = bare.bare
            runner.added = [a - b for a, b in zip(runner.seen_ns, bare.bare)]
    how = f"{threads} thread{'s' if threads > 1 else ''}, {order[0] if order else 'in order'}"
    if file.is_dir():
        how += f", {len(list(file.iterdir())):,} files"
    table([f"{calls:,} preads of 4 KiB, {how}", "bare ns", "added ns", "range", "missed",
           "dropped"],
          [[r.name, f"{median(r.bare):,.0f}", f"{median(r.added):+,.0f}",
            f"{min(r.added):,.0f} to {max(r.added):,.0f}",
            f"{r.missed:,}" if r.folder else "", f"{r.dropped:,}" if r.folder else ""]
           for r in runners])
    return {r.name: r for r in runners}


def many_files(bench, count):
    """A folder of files that are all open at once: what is kept of each leaves the cache."""
    folder = bench.fresh(f"profile-{count}")
    folder.mkdir()
    for i in range(count):
        (folder / str(i)).write_bytes(bytes(16384))
    return folder


def run(bench, _python):
    calls = 100000 if bench.quick else 2000000
    file = bench.fresh("profile.bin")
    file.write_bytes(os.urandom(MIB) * (FILE_BYTES // MIB))
    bench.warm([file])
    print("profile: what watching adds to a call; the file is in the page cache\n")
    result = {"calls": calls, "bare_ns": {}, "added_ns": {}, "dropped": {}}
    missed, plain, trace = 0, "stoker profile", "stoker profile --trace"
    cases = [(file, 1, []), (file, 1, ["random"]), (file, 2, [])]
    cases += [(many_files(bench, n), 1, ["random"]) for n in MANY]
    for path, threads, order in cases:
        key = f"{threads}{' random' if order else ''}{' ' + path.name if path.is_dir() else ''}"
        found = race(bench, path, calls, threads, order)
        result["bare_ns"][key] = {n: r.bare for n, r in found.items()}
        result["added_ns"][key] = {n: r.added for n, r in found.items()}
        result["dropped"][key] = {n: r.dropped for n, r in found.items() if r.folder}
        missed += found[plain].missed + found[trace].missed
    one, two = ({n: median(v) for n, v in result["added_ns"][key].items()} for key in ("1", "2"))
    dropped = sum(d for found in result["dropped"].values() for d in found.values())
    bench.claim(f"profile adds at most {LIMIT_NS} ns a call, one thread",
                f"{one[plain]:.0f} ns", one[plain] <= LIMIT_NS)
    bench.claim("profile adds no more with two threads", f"{two[plain]:.0f} ns",
                two[plain] <= max(one[plain], 0) + NOISE_NS)
    bench.claim(f"profile --trace adds at most {TRACE_LIMIT_NS} ns a call, one thread",
                f"{one[trace]:.0f} ns", one[trace] <= TRACE_LIMIT_NS)
    bench.claim("profile sees every call and drops no operation",
                f"{missed:,} missed, {dropped:,} dropped", missed == 0 and dropped == 0)
    bench.results["profile"] = result
    bench.forget("profile.bin")
    for n in MANY:
        bench.forget(f"profile-{n}")
