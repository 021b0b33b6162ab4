"""Lets one system call of a command fail, or come back short, and judges what the command makes of it
(tests/faults/inject.c does the first): right data, a named error, or something that a user would not
see.

A scenario is a command in a folder of small data. Its answer() is what a user relies on: data, counts,
names; never times. rest() is what the next command, without any fault, sees in the folder.
"""

import errno
import functools
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile

from conftest import STOKER, clean_env

HERE = pathlib.Path(__file__).resolve().parent
ERRORS = ["EIO", "ENOSPC", "EACCES", "ENOMEM", "ESTALE", "EINTR", "short"]
SHORT = {"read", "pread64", "readv", "preadv", "write", "pwrite64", "writev", "pwritev", "sendfile",
         "copy_file_range", "recvfrom", "sendto"}
# These do not fail, or an error of them is none of the storage: it would be one of the kernel.
NEVER = {"exit", "exit_group", "rt_sigreturn", "rt_sigaction", "rt_sigprocmask", "futex", "munmap",
         "mprotect", "brk", "madvise", "arch_prctl", "set_tid_address", "set_robust_list", "rseq",
         "sched_yield", "sched_getaffinity", "prctl", "prlimit64", "getpid", "gettid", "getppid", "getuid",
         "geteuid", "getgid", "getegid", "getpgrp", "getpgid", "umask", "uname", "sysinfo", "times",
         "getrusage", "clock_gettime", "clock_getres", "gettimeofday", "sigaltstack", "kill", "tgkill",
         "setpgid", "setsid", "getsid", "getpriority", "setpriority", "getcpu", "close_range",
         "rt_sigtimedwait", "setitimer", "timer_create", "timer_settime", "timer_delete", "seccomp",
         "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "capget",
         "capset", "setgroups", "execve", "sched_setaffinity", "membarrier", "getrandom"}
WAITING = {"wait4", "waitid", "poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait",
           "nanosleep", "clock_nanosleep", "pause"}
STARTING = {"clone", "clone3", "fork", "vfork", "mmap", "mremap", "pipe", "pipe2", "dup", "dup2", "dup3",
            "socket", "socketpair", "bind", "eventfd2", "epoll_create1", "timerfd_create",
            "memfd_create", "io_uring_setup", "userfaultfd"}
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS,
           signal.SIGTRAP}
PATIENCE_S = 60


def errors_of(call):
    """The errors that are tried on a call."""
    if call in NEVER:
        return []
    if call in WAITING:
        return ["EINTR"]
    if call in STARTING:
        return ["ENOMEM"]
    return [e for e in ERRORS if e != "short" or call in SHORT] + ["ENOENT"] * (call == "getdents64")


@functools.cache
def numbers():
    """{name of a system call: its number}"""
    text = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd_64.h", "-x", "c", "/dev/null"],
                          capture_output=True, text=True, check=True).stdout
    return {m[1]: int(m[2]) for m in re.finditer(r"#define __NR_(\w+) (\d+)", text)}


@functools.cache
def injector():
    """The program, compiled; it ends with this process."""
    folder = tempfile.TemporaryDirectory(prefix="stoker-inject-")
    binary = pathlib.Path(folder.name) / "inject"
    subprocess.run(["cc", "-O1", "-o", binary, HERE.parent / "faults/inject.c"], check=True)
    injector.folder = folder
    return binary


def trouble():
    """Why nothing can be injected here, or None."""
    if os.uname().machine != "x86_64":
        return "the injector is for x86-64"
    if not shutil.which("cc"):
        return "there is no C compiler"
    with tempfile.NamedTemporaryFile() as out:
        done = subprocess.run([injector(), out.name, "list", "true"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"ptrace and seccomp do not work here: {done.stderr.strip()}"


# ---- what a folder holds -----------------------------------------------------------------------

def tree(path, leave=()):
    """{relative name: hash} of the files below path; None if there is no path."""
    path = pathlib.Path(path)
    if not path.exists():
        return None
    return {str(p.relative_to(path)): digest(p)
            for p in sorted(path.rglob("*")) if p.is_file() and p.name not in leave}


def digest(path):
    """Of its bytes; where the data came from is no part of it."""
    data = path.read_bytes()
    if path.name == "manifest.json":
        data = re.sub(rb'"(source|plan|xxh64)": ".*"', b"", data)
    return hashlib.sha256(data).hexdigest()


def plain(*args, cwd, rc=(0,)):
    """stoker without a fault."""
    done = subprocess.run([STOKER, *map(str, args)], cwd=cwd, capture_output=True, text=True,
                          errors="replace", env=environment(cwd), timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    assert rc is None or done.returncode in rc, (args, done.returncode, done.stdout, done.stderr)
    return done


def environment(cwd):
    env = clean_env({"XDG_CACHE_HOME": f"{cwd}/cache", "XDG_CONFIG_HOME": f"{cwd}/config",
                     "XDG_RUNTIME_DIR": f"{cwd}/run", "TMPDIR": f"{cwd}/tmp", "HOME": cwd})
    env["ASAN_OPTIONS"] += ":detect_leaks=0"
    return env


def result(cwd, name="said.json"):
    return json.loads((pathlib.Path(cwd) / name).read_text())["result"]


def picked(d, *keys):
    return {k: d[k] for k in keys}


def without(value, *keys):
    """Without these members, however deep."""
    if isinstance(value, dict):
        return {k: without(v, *keys) for k, v in value.items() if k not in keys}
    return [without(v, *keys) for v in value] if isinstance(value, list) else value


# ---- scenarios ---------------------------------------------------------------------------------

class Scenario:
    """make(cwd): what is there before. argv: the command, which ends with rc. own: only its own calls
    count, not those of programs that it runs. notes: what it says of what is missing in its answer."""

    def __init__(self, name, argv, make, answer, rest=lambda cwd: None, own=False, rc=0, cost=1,
                 notes=lambda cwd: []):
        self.name, self.argv, self.make, self.own = name, argv, make, own
        self.answer, self.rest, self.rc, self.cost, self.notes = answer, rest, rc, cost, notes

    @property
    def command(self):
        return self.argv[0]


def images(cwd, n=6):
    rng = random.Random(1)
    for c in "abc":
        (cwd / "img" / c).mkdir(parents=True)
        for i in range(n):
            (cwd / "img" / c / f"{i}.bin").write_bytes(rng.randbytes(900 + 50 * i))


def rows(cwd):
    (cwd / "rows.csv").write_text("i,x\n" + "".join(f"{i},{i / 8}\n" for i in range(60)))


def packed(fmt, src="img", shards=2):
    def make(cwd):
        images(cwd) if src == "img" else rows(cwd)
        plain("pack", src, "packed", "--format", fmt, "--shards", shards, "--jobs", 1, "--quiet", cwd=cwd)
    return make


def hdf5(cwd):
    rows(cwd)
    plain("pack", "rows.csv", "h", "--format", "hdf5", "--quiet", cwd=cwd)
    shutil.move(next((cwd / "h").glob("*.h5")), cwd / "rows.h5")


def seen(src):
    """What the next command sees of the source."""
    def rest(cwd):
        plain("inspect", src, "--json", "rest.json", cwd=cwd, rc=(0, 1))
        return picked(result(cwd, "rest.json"), "samples", "samples_bytes", "classes", "problems")
    return rest


def pack_rest(src, argv):
    """The source is as it was, what is there is whole (the new dataset, the one before, or none), and the
    same command makes the rest."""
    def rest(cwd):
        said = seen(src)(cwd)
        if not (cwd / "out").exists():
            plain(*argv, cwd=cwd)
        out = tree(cwd / "out")
        said["verified"] = plain("verify", "out", cwd=cwd, rc=None).returncode
        said["out"] = out in [tree_of("new", cwd), tree_of("before", cwd)] or sorted(out)
        return said
    return rest


def tree_of(name, cwd):
    path = pathlib.Path(cwd) / f"{name}.tree"
    return json.loads(path.read_text()) if path.exists() else None


def with_reference(make, *argv):
    """Remembers what the command gives, and what is there before it."""
    def made(cwd):
        make(cwd)
        if (cwd / "out").exists():
            (cwd / "before.tree").write_text(json.dumps(tree(cwd / "out")))
            shutil.copytree(cwd / "out", cwd / "kept")
        plain(*argv, cwd=cwd)
        (cwd / "new.tree").write_text(json.dumps(tree(cwd / "out")))
        shutil.rmtree(cwd / "out")
        if (cwd / "kept").exists():
            (cwd / "kept").rename(cwd / "out")
        (cwd / "said.json").unlink(missing_ok=True)
        for index in cwd.glob("*.stkidx"):
            index.unlink()
    return made


def older_dataset(cwd):
    images(cwd)
    plain("pack", "img/a", "out", "--format", "tar", "--quiet", cwd=cwd)


def profile_of(cwd):
    plain("report", "p", "--json", "rest.json", cwd=cwd)
    r = result(cwd, "rest.json")
    return [sorted([pathlib.Path(f["name"]).name, f["files_read"], f["size_bytes"], f["distinct_bytes"]]
                   for f in r["files"] if "/img/" in f["name"]), len(r["processes"])]


def profiled(cwd):
    images(cwd)
    plain("profile", "-o", "p", "--", *READS, cwd=cwd)


def benchmark(cwd):
    (cwd / "w.yaml").write_text("name: w\ndataset:\n  format: npz\n  files: 6\n  samples_per_file: 2\n"
                                "  record: 2KB\ntraining:\n  batch: 2\n  compute: 1ms\n")


def generated(cwd):
    benchmark(cwd)
    plain("bench", "w.yaml", "--data", "d", "--generate-only", cwd=cwd)


def killed_bench(cwd):
    generated(cwd)
    (cwd / "d/checkpoint").mkdir()
    for rank in range(3):
        (cwd / f"d/checkpoint/rank{rank:05}-00.ckpt").write_bytes(b"x")


def cleaned(cwd):
    """Nothing is left, at the latest after the same command."""
    if (cwd / "d").exists():
        plain("bench", "--clean", "--data", "d", cwd=cwd)
    return tree(cwd / "d")


def bench_answer(cwd):
    r = result(cwd)
    return [r["step"]["count"], {k: r["io"][k] for k in r.get("io", {}) if k == "bytes"}]


def damaged(cwd):
    packed("tar")(cwd)
    shard = sorted((cwd / "packed").glob("*.tar"))[0]
    data = bytearray(shard.read_bytes())
    data[len(data) // 3] ^= 1
    shard.write_bytes(data)


def copy_of(cwd):
    copies = [p for p in (cwd / "tier").glob("*/data/*") if p.is_dir()] if (cwd / "tier").exists() else []
    return [tree(p) for p in copies]


READS = ["md5sum", "img/a/0.bin", "img/b/1.bin"]
PACK = ["pack", "img", "out", "--format", "tar", "--shards", 2, "--quiet", "--json", "said.json"]
REPACK = [*PACK, "-f"]
TABLE = ["pack", "rows.csv", "out", "--format", "jsonl", "--shards", 2, "--quiet", "--json", "said.json"]
LOAD = ["--batch", 5, "--last", "short", "--consume", "hash", "--io", "threads", "--json", "said.json", "--quiet"]


def load_answer(cwd):
    return picked(result(cwd), "samples", "content_hash", "checked", "skipped", "problems")


def inspect_answer(cwd):
    return without(result(cwd), "index_built_now", "index", "index_path", "index_bytes", "index_not_used",
                   "index_was", "index_kept", "seconds")


def verify_answer(cwd):
    return without(result(cwd), "verify_seconds", "bytes_per_second")


def stage_rest(src):
    def rest(cwd):
        """What the next job gets."""
        path = plain("stage", src, "tier", "--quiet", cwd=cwd).stdout.strip()
        return tree(path) == tree(cwd / src)
    return rest


SCENARIOS = [
    Scenario("pack", PACK, with_reference(images, *PACK), lambda cwd: tree(cwd / "out"), pack_rest("img", PACK)),
    Scenario("pack-over", REPACK, with_reference(older_dataset, *REPACK), lambda cwd: tree(cwd / "out"),
             pack_rest("img", REPACK)),
    Scenario("pack-table", TABLE, with_reference(rows, *TABLE), lambda cwd: tree(cwd / "out"),
             pack_rest("rows.csv", TABLE)),
    Scenario("verify", ["verify", "packed", "--json", "said.json"], packed("tar"), verify_answer),
    Scenario("verify-damaged", ["verify", "packed", "--json", "said.json"], damaged, verify_answer, rc=1),
    Scenario("load", ["load", "packed", *LOAD], packed("csv", "rows.csv"), load_answer, seen("packed")),
    Scenario("load-files", ["load", "img", *LOAD], images, load_answer, seen("img")),
    Scenario("load-lost-index", ["load", "packed", *LOAD],
             lambda cwd: (packed("tar")(cwd), (cwd / "packed/index.stkidx").unlink()), load_answer,
             seen("packed")),
    Scenario("inspect", ["inspect", "img", "--json", "said.json"], images, inspect_answer, seen("img")),
    Scenario("inspect-packed", ["inspect", "packed", "--json", "said.json"], packed("recordio"), inspect_answer,
             seen("packed")),
    Scenario("inspect-hdf5", ["inspect", "rows.h5", "--json", "said.json"], hdf5, inspect_answer,
             seen("rows.h5")),
    Scenario("stage", ["stage", "img", "tier", "--json", "said.json", "--quiet"], images, copy_of,
             stage_rest("img")),
    Scenario("stage-packed", ["stage", "packed", "tier", "--json", "said.json", "--quiet"], packed("tar"),
             copy_of, stage_rest("packed")),
    Scenario("bench-generate", ["bench", "w.yaml", "--data", "d", "--generate-only"], benchmark,
             lambda cwd: tree(cwd / "d", ["stoker-bench.json"]),
             lambda cwd: (plain("bench", "w.yaml", "--data", "d", "--generate-only", cwd=cwd),
                          tree(cwd / "d", ["stoker-bench.json"]))[1]),
    Scenario("bench", ["bench", "w.yaml", "--data", "d", "--json", "said.json"], generated, bench_answer),
    Scenario("bench-clean", ["bench", "--clean", "--data", "d"], killed_bench, lambda cwd: tree(cwd / "d"), cleaned),
    Scenario("profile", ["profile", "-o", "p", "--", *READS], images, profile_of,
             own=True, notes=lambda cwd: result(cwd, "rest.json")["notes"]),
    Scenario("report", ["report", "p", "--json", "said.json"], profiled,
             lambda cwd: without(result(cwd), "machine", "notes"), notes=lambda cwd: result(cwd)["notes"]),
    Scenario("scale", ["scale", "--n", "1,2", "--threads", "--runs", 2, "-o", "s", "--json", "said.json", "--",
                       "sh", "-c", ":"], lambda cwd: None,
             lambda cwd: [[p[k] for k in ("n", "runs", "failed_runs", "lost_runs")]
                          for p in result(cwd)["series"][0]["points"]], own=True, cost=4),
    Scenario("tune", ["tune", "img", "--virtual-storage", "100M,1ms", "--budget", "1s", "--json", "said.json"], images,
             lambda cwd: picked(result(cwd), "files", "bytes", "sample_bytes"), own=True, cost=40,
             rest=seen("img")),
]


# ---- a run -------------------------------------------------------------------------------------

class Case:
    """One command with its folder, in which every run begins anew."""

    def __init__(self, scenario, work):
        self.scenario, self.work = scenario, pathlib.Path(work)
        self.base, self.cwd = self.work / "base", self.work / "run"  # paths are part of some answers
        for name in ("tmp", "run", "config", "cache"):
            (self.cwd / name).mkdir(mode=0o700, parents=True)
        scenario.make(self.cwd)
        self.cwd.rename(self.base)
        self.calls = {}
        ended, self.want = self.run("list")
        assert ended.returncode == scenario.rc, (scenario.name, ended)
        assert not any(str(x).startswith("no answer: ") for x in self.want.values()), (scenario.name, self.want)
        names = {v: k for k, v in numbers().items()}
        for line in self.report.read_text().split("\n"):
            if line and line != "done":
                number, count = map(int, line.split())
                self.calls[names.get(number, str(number))] = count

    def run(self, *spoil):
        """Runs the command; (ended, what it gave)."""
        cwd = self.cwd
        shutil.copytree(self.base, cwd, symlinks=True)
        self.report = self.work / "report"
        self.report.unlink(missing_ok=True)
        own = "own:" if self.scenario.own else ""
        argv = [injector(), self.report, own + str(spoil[0]), *spoil[1:], STOKER, *self.scenario.argv]
        try:
            ended = subprocess.run(list(map(str, argv)), cwd=cwd, capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL, env=environment(cwd), timeout=PATIENCE_S,
                                   errors="replace")
        except subprocess.TimeoutExpired:
            return None, self.clear(cwd)
        kept = ("out.partial/", "out.swap.partial") if ended.returncode else ()  # for the next pack
        left = sorted(str(p.relative_to(cwd)) for p in cwd.rglob("*.partial*") if p.is_file())
        gave = {"strays": [p for p in left if not p.startswith(kept)]}
        for key in "answer", "notes", "rest":
            ask = getattr(self.scenario, key)
            try:
                gave[key] = json.loads(json.dumps(ask(cwd)).replace(str(cwd), "CWD"))
            except Exception as e:  # nothing of it is there: that is an answer, too
                gave[key] = f"no answer: {type(e).__name__}: {e}"
        self.clear(cwd)
        return ended, gave

    @staticmethod
    def clear(cwd):
        shutil.rmtree(cwd, ignore_errors=True)

    def judge(self, call, nth, error):
        """(verdict, why): right, named, missed (the call did not come), or bad: hidden, hang, crash."""
        what = 0 if error == "short" else getattr(errno, error)
        ended, gave = self.run(numbers()[call], nth, what)
        if ended is None:
            return "hang", f"it still ran after {PATIENCE_S} s"
        if not self.report.exists() or "done" not in self.report.read_text():
            return "missed", ""
        said = (ended.stderr + ended.stdout).strip()
        if ended.returncode - 128 in CRASHES or "Sanitizer" in said or ended.returncode in (99, 125):
            return "crash", f"status {ended.returncode}: {said[-600:]}"
        if gave["rest"] != self.want["rest"]:
            return "hidden", f"status {ended.returncode}; afterwards {gave['rest']} instead of {self.want['rest']}; {said[-300:]}"
        if gave["strays"]:
            return "stray", f"status {ended.returncode}; left: {gave['strays']}; {said[-300:]}"
        if ended.returncode == self.scenario.rc and gave["answer"] == self.want["answer"]:
            return "right", ""
        if ended.returncode in (0, self.scenario.rc):
            noted = any(n not in self.want["notes"] for n in gave["notes"])
            return ("named", "") if noted or names_it(said, error) else \
                ("hidden", f"status {ended.returncode}: {differs(gave['answer'], self.want['answer'])}")
        return ("named", "") if ended.stderr.strip() or said else ("hidden", f"status {ended.returncode}, not a word")


def names_it(said, error):
    """A note that says what is not known, or is missing."""
    return error != "short" and (os.strerror(getattr(errno, error)) in said or
                                 error == "ENOMEM" and "out of memory" in said)


def differs(a, b):
    a, b = json.dumps(a, sort_keys=True), json.dumps(b, sort_keys=True)
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return f"...{a[max(0, at - 80):at + 160]} instead of ...{b[max(0, at - 80):at + 160]}"


def places(calls, per_call, per_place, salt=0):
    """[(call, nth, error)]: every error on up to per_call uses of each call, per_place of them on each
    (0: all), spread over its uses."""
    found = []
    for k, (call, count) in enumerate(sorted(calls.items())):
        errors = errors_of(call)
        if not errors:
            continue
        some = count if not per_call else min(count, per_call)
        uses = sorted({1 + i * (count - 1) // max(1, some - 1) for i in range(some)})
        n = len(errors) if not per_place else min(per_place, len(errors))
        for i, nth in enumerate(uses):
            found += [(call, nth, errors[(salt + k + i * n + e) % len(errors)]) for e in range(n)]
    return found
