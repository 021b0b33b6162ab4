"""profile: what watching costs a program, a call: 2 million preads of 4 KiB, by itself, under
`stoker profile`, with every operation kept (--trace), under Darshan and under strace."""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import time

from common import BUILD, MIB, STOKER, Failed, median, remove, table

PROGRAM = BUILD / "bench/bench_profile"
FILE_BYTES, READ_BYTES = 64 * MIB, 4096
STRACE_CALLS = 100000
LIMIT_NS, TRACE_LIMIT_NS = 100, 150
NOISE_NS = 30  # medians of the same program differ by this much
# Others on the machine: a run in which they took more than this of a core is done again.
FOREIGN_CORES, TRIES = 0.1, 6


def busy_s():
    """CPU seconds of the whole machine, and of our children, so far."""
    words = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    user, nice, system, _, _, irq, soft, steal = map(int, words[1:9])
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft + steal) / ticks, ours.ru_utime + ours.ru_stime


class Contestant:
    """One way to run the program; ns a call of every run, and what was not recorded."""

    def __init__(self, name, prefix=(), env=None, calls=None, folder=None):
        self.name, self.prefix, self.env, self.calls = name, list(prefix), env or {}, calls
        self.folder = folder
        self.ns, self.cpu_ns, self.dropped, self.seen, self.noisy = [], [], 0, None, 0

    def run(self, file, calls, threads, order):
        for attempt in range(TRIES):
            found, foreign = self.once(file, calls, threads, order)
            if foreign <= FOREIGN_CORES or attempt == TRIES - 1:
                break
        self.noisy += foreign > FOREIGN_CORES
        self.ns.append(found["ns_per_call"])
        self.cpu_ns.append(found["cpu_ns_per_call"])
        if self.folder:
            self.look(file)

    def once(self, file, calls, threads, order):
        """(what the program says, cores that others used meanwhile)."""
        if self.folder:
            remove(self.folder)
        argv = [*self.prefix, PROGRAM, file, self.calls or calls, threads, *order]
        start, (all_before, our_before) = time.monotonic(), busy_s()
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True,
                              env={**os.environ, **self.env})
        all_after, our_after = busy_s()
        foreign = ((all_after - all_before) - (our_after - our_before)) / (time.monotonic() - start)
        lines = [x for x in done.stdout.splitlines() if x.startswith('{"calls"')]
        if done.returncode != 0 or not lines:
            raise Failed(f"{self.name}: status {done.returncode}: {done.stderr[-500:]}")
        return json.loads(lines[-1]), foreign

    def look(self, file):
        """The profile must hold every call."""
        done = subprocess.run([STOKER, "report", self.folder, "--json", "-"], capture_output=True,
                              text=True, check=True)
        found = json.loads(done.stdout)["result"]
        self.dropped += sum(p["dropped_calls"] + p["dropped_trace"] for p in found["processes"])
        self.seen = sum(r["counters"]["reads"] for r in found["records"]
                        if r["path"] == str(file) and r["api"] == "posix")


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


def added(one, base):
    """Median over the rounds of what it adds to the bare run of the same round."""
    return median([a - b for a, b in zip(one.ns, base.ns)])


def added_cpu(one, base):
    return median(one.cpu_ns) - median(base.cpu_ns)


def race(bench, file, calls, threads, order):
    runners = contestants(bench)
    for i in range(bench.repeats):
        for runner in runners[i % len(runners):] + runners[:i % len(runners)]:
            (bench.dir / "d.darshan").unlink(missing_ok=True)
            runner.run(file, calls, threads, order)
    bare = runners[0]
    how = f"{threads} thread{'s' if threads > 1 else ''}, {order[0] if order else 'in order'}"
    table([f"{calls:,} preads of 4 KiB, {how}", "ns a call", "range", "added ns", "CPU ns", "added",
           "calls seen", "dropped"],
          [[r.name, f"{median(r.ns):,.0f}", f"{min(r.ns):,.0f}-{max(r.ns):,.0f}",
            f"{added(r, bare):+,.0f}" if r is not bare else "", f"{median(r.cpu_ns):,.0f}",
            f"{added_cpu(r, bare):+,.0f}" if r is not bare else "",
            f"{r.seen:,}" if r.seen is not None else "",
            f"{r.dropped:,}" if r.seen is not None else ""] for r in runners])
    noisy = sum(r.noisy for r in runners)
    if noisy:
        print(f"  In {noisy} of {len(runners) * bench.repeats} runs others used more than"
              f" {FOREIGN_CORES} cores, {TRIES} times in a row: times are too high there.\n")
    return {r.name: r for r in runners}


def run(bench, _python):
    calls = 100000 if bench.quick else 2000000
    file = bench.fresh("profile.bin")
    file.write_bytes(os.urandom(MIB) * (FILE_BYTES // MIB))
    bench.warm([file])
    print("profile: what watching adds to a call; the file is in the page cache\n")
    result = {"calls": calls, "ns_per_call": {}, "cpu_ns_per_call": {}, "added_ns": {},
              "added_cpu_ns": {}, "dropped": {}, "noisy_runs": {}}
    missed, plain, trace = 0, "stoker profile", "stoker profile --trace"
    for threads, order in ((1, []), (1, ["random"]), (2, [])):
        key = f"{threads}{' random' if order else ''}"
        found = race(bench, file, calls, threads, order)
        result["ns_per_call"][key] = {n: r.ns for n, r in found.items()}
        result["cpu_ns_per_call"][key] = {n: r.cpu_ns for n, r in found.items()}
        result["added_ns"][key] = {n: added(r, found["bare"]) for n, r in found.items()
                                   if n != "bare"}
        result["added_cpu_ns"][key] = {n: added_cpu(r, found["bare"]) for n, r in found.items()
                                       if n != "bare"}
        result["dropped"][key] = {n: r.dropped for n, r in found.items() if r.seen is not None}
        result["noisy_runs"][key] = sum(r.noisy for r in found.values())
        made = calls + threads * (FILE_BYTES // READ_BYTES)  # each thread has warmed up
        missed += sum(made - found[name].seen for name in (plain, trace))
    # Between other programs' time slices only the CPU time is the program's own.
    busy = any(result["noisy_runs"].values())
    by, unit = "added_ns", "ns"
    if busy:
        by, unit = "added_cpu_ns", "ns of CPU time: the machine was busy"
    one, two = result[by]["1"], result[by]["2"]
    dropped = sum(d for found in result["dropped"].values() for d in found.values())
    bench.claim(f"profile adds at most {LIMIT_NS} ns a call, one thread",
                f"{one[plain]:.0f} {unit}", one[plain] <= LIMIT_NS)
    bench.claim("profile adds no more with two threads", f"{two[plain]:.0f} {unit}",
                two[plain] <= max(one[plain], 0) + NOISE_NS)
    bench.claim(f"profile --trace adds at most {TRACE_LIMIT_NS} ns a call, one thread",
                f"{one[trace]:.0f} {unit}", one[trace] <= TRACE_LIMIT_NS)
    bench.claim("profile sees every call and drops no operation",
                f"{missed:,} missed, {dropped:,} dropped", missed == 0 and dropped == 0)
    bench.results["profile"] = result
    bench.forget("profile.bin")
