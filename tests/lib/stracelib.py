"""What a program does to files, from strace: the truth that profiles are held against where a
library decides how it reads. Knows descriptors, duplicates, forks and threads; counts what
proflog/counters.h defines, for regular files below one folder.

    truth = strace_truth(["/usr/bin/python3", "x.py"], folder)
    truth[str(folder / "a.bin")]["reads"]
"""

import collections
import os
import re
import subprocess
import tempfile

CALLS = ("open,openat,creat,close,dup,dup2,dup3,fcntl,read,pread64,readv,preadv,preadv2,write,"
         "pwrite64,writev,pwritev,pwritev2,lseek,stat,lstat,fstat,newfstatat,statx,access,"
         "faccessat,faccessat2,mmap,fsync,fdatasync,fadvise64,unlink,unlinkat,rename,renameat,"
         "renameat2,clone,clone3,fork,vfork,execve,exit_group")
SIZE_EDGES = (100, 1024, 10240, 102400, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)
READS = {"read", "pread64", "readv", "preadv", "preadv2"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2"}
STATS = {"stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"}
COUNTED = ("opens", "closes", "stats", "seeks", "reads", "eof_reads", "read_bytes", "writes",
           "write_bytes", "first_reads", "seq_reads", "consec_reads", "mmaps", "mmap_bytes",
           "fsyncs", "hints", "dups")


def size_bin(size):
    return next((i for i, edge in enumerate(SIZE_EDGES) if size <= edge), len(SIZE_EDGES))


class Description:
    """An open file description: where it stands, and where each thread's last read through it
    ended."""

    def __init__(self, path):
        self.path, self.position, self.read_end = path, 0, {}


class Truth(dict):
    """{path: {counter: value}}; also read_size: ten bins."""

    def __init__(self):
        super().__init__()
        self.thread_reads = {}  # of a thread: [(path, offset, bytes)]
        self.creator = {}       # of a thread that is no process: the thread that made it

    def reads_by_process(self):
        """The reads of each process that has any, in their order; those of its threads one after another."""
        found = collections.defaultdict(list)
        for thread, reads in self.thread_reads.items():
            while thread in self.creator:
                thread = self.creator[thread]
            found[thread] += reads
        return list(found.values())

    def of(self, path):
        if path not in self:
            self[path] = collections.Counter({name: 0 for name in COUNTED})
            self[path]["read_size"] = [0] * 10
        return self[path]


def merged(lines):
    """(pid, call) with the halves of interrupted calls put together again."""
    waiting = {}
    for line in lines:
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        begun = re.match(r"(.*?)\s*<unfinished \.\.\.>$", rest)
        ended = re.match(r"<\.\.\. \w+ resumed>(.*)$", rest)
        if begun:
            waiting[pid] = begun.group(1)
            if re.match(r"(clone3?|v?fork)\(", rest):
                yield pid, rest
        elif ended:
            yield pid, waiting.pop(pid, "") + ended.group(1)
        else:
            yield pid, rest


def births(calls):
    """Of each process and thread that a call has made: by whom, and whether they share descriptors."""
    born = {}
    for pid, text in calls:
        made = re.match(r"(?:clone3?|v?fork)\(.*\)\s+= (\d+)", text)
        if made:
            born[made.group(1)] = (pid, "CLONE_FILES" in text)
    return born


class Replay:
    def __init__(self, root, born):
        self.root, self.truth, self.tables, self.born, self.forking = str(root), Truth(), {}, born, None

    def table(self, pid):
        """Descriptors of a process. A child's first call may come before its parent's fork
        returns, and while other processes fork; of one that never returned, the last one counts."""
        if pid not in self.tables:
            parent, shared = self.born.get(pid) or self.forking or (None, False)
            of_parent = self.tables.get(parent, {})
            self.tables[pid] = of_parent if shared else dict(of_parent)
        return self.tables[pid]

    def description(self, pid, fd, path):
        table = self.table(pid)
        if fd not in table or table[fd].path != path:
            table[fd] = Description(path)
        return table[fd]

    def call(self, pid, text):
        found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+|0x[0-9a-f]+|\?)(?:<(.*?)>)?", text)
        if re.match(r"(clone3?|v?fork)\(", text):
            self.forking = (pid, "CLONE_FILES" in text)
            if found and found.group(3).isdigit():
                self.table(found.group(3))
                if "CLONE_THREAD" in text:
                    self.truth.creator[found.group(3)] = pid
            return
        if not found:
            return
        name, args, result, result_path = found.groups()
        result = int(result, 0) if result != "?" else -1
        if name in ("open", "openat", "creat"):
            self.opened(pid, result, result_path, args)
        elif name in STATS:
            self.stat(name, args, result)
        else:
            self.on_descriptor(pid, name, args, result)

    def opened(self, pid, fd, path, args):
        if fd < 0 or not path or not path.startswith(self.root) or os.path.isdir(path):
            return
        self.table(pid)[fd] = Description(path)
        self.truth.of(path)["opens"] += 1

    def stat(self, name, args, result):
        by_fd = re.match(r"\d+<(.*?)>(?:, \"\")?", args)
        by_path = re.search(r'"([^"]+)"', args)
        path = by_path.group(1) if by_path else by_fd.group(1) if by_fd else None
        if path and path.startswith(self.root) and not os.path.isdir(path) and result >= 0:
            self.truth.of(path)["stats"] += 1

    def on_descriptor(self, pid, name, args, result):
        at = args if name != "mmap" else ", ".join(args.split(", ")[4:])
        found = re.match(r"(\d+)<(.*?)>(.*)", at)
        if not found or not found.group(2).startswith(self.root) or os.path.isdir(found.group(2)):
            return
        fd, path, rest = int(found.group(1)), found.group(2), found.group(3)
        what, count = self.description(pid, fd, path), self.truth.of(path)
        if result < 0 and name != "close":
            return
        if name in READS:
            last = -2 if name == "preadv2" else -1
            at = int(rest.split(", ")[last]) if name.startswith("pread") else None
            self.read(pid, what, count, result, at)
        elif name in WRITES:
            count["writes"] += 1
            count["write_bytes"] += result
            if not name.startswith("pw"):
                what.position += result
        elif name == "lseek":
            count["seeks"] += 1
            what.position = result
        elif name == "close":
            count["closes"] += 1
            self.table(pid).pop(fd, None)
        elif name.startswith("dup") or (name == "fcntl" and "F_DUPFD" in rest):
            count["dups"] += 1
            self.table(pid)[result] = what
        elif name == "mmap":
            count["mmaps"] += 1
            count["mmap_bytes"] += int(args.split(", ")[1])
        elif name in ("fsync", "fdatasync"):
            count["fsyncs"] += 1
        elif name == "fadvise64":
            count["hints"] += 1

    def read(self, pid, what, count, got, offset):
        if got == 0:
            count["eof_reads"] += 1
            return
        if offset is None:
            offset = what.position
            what.position += got
        self.truth.thread_reads.setdefault(pid, []).append((what.path, offset, got))
        count["reads"] += 1
        count["read_bytes"] += got
        count["read_size"][size_bin(got)] += 1
        end = what.read_end.get(pid)
        if end is None:
            count["first_reads"] += 1
        else:
            count["seq_reads"] += offset >= end
            count["consec_reads"] += offset == end
        what.read_end[pid] = offset + got


def strace_truth(argv, root, env=None, cwd=None, timeout=300):
    """Runs the program under strace; what it did below root."""
    with tempfile.NamedTemporaryFile(prefix="strace-", mode="r", errors="replace") as log:
        subprocess.run(["strace", "-f", "-qq", "-y", "-s", "0", "-o", log.name, "-e",
                        f"trace={CALLS}", *map(str, argv)], check=True, env=env, cwd=cwd,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=timeout)
        calls = list(merged(log.read().splitlines()))
        replay = Replay(root, births(calls))
        for pid, text in calls:
            replay.call(pid, text)
    return replay.truth
