#!/usr/bin/python3
"""The same programs under stoker and under Darshan: a table of every counter both have.

    compare_darshan.py --darshan PREFIX [--stoker BINARY] [--dir DIR] [--json FILE]

PREFIX is where Darshan is installed (lib/libdarshan.so, bin/darshan-parser), by default
$STOKER_DARSHAN. A row is equal, or different for a reason that is named here: a thing Darshan is
known to count otherwise. Status 0: every row is one of these; 1: something differs that should not;
77: there is no Darshan here.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M",
         "100M_1G", "1G_PLUS")

# (Darshan's counter, what ours is to be put against it)
POSIX = [("POSIX_OPENS", lambda r: r["opens"] + r["dups"]), ("POSIX_READS", lambda r: r["reads"]),
         ("POSIX_WRITES", lambda r: r["writes"]), ("POSIX_BYTES_READ", lambda r: r["read_bytes"]),
         ("POSIX_BYTES_WRITTEN", lambda r: r["write_bytes"]), ("POSIX_SEEKS", lambda r: r["seeks"]),
         ("POSIX_CONSEC_READS", lambda r: r["consec_reads"]),
         ("POSIX_SEQ_READS", lambda r: r["seq_reads"]), ("POSIX_STATS", lambda r: r["stats"]),
         ("POSIX_DUPS", lambda r: r["dups"]), ("POSIX_MMAPS", lambda r: r["mmaps"]),
         ("POSIX_FSYNCS+POSIX_FDSYNCS", lambda r: r["fsyncs"]),
         *((f"POSIX_SIZE_READ_{name}", lambda r, i=i: r["read_size"][i])
           for i, name in enumerate(SIZES)),
         *((f"POSIX_SIZE_WRITE_{name}", lambda r, i=i: r["write_size"][i])
           for i, name in enumerate(SIZES))]
STDIO = [("STDIO_OPENS", lambda r: r["opens"]), ("STDIO_READS", lambda r: r["reads"]),
         ("STDIO_WRITES", lambda r: r["writes"]), ("STDIO_BYTES_READ", lambda r: r["read_bytes"]),
         ("STDIO_BYTES_WRITTEN", lambda r: r["write_bytes"]),
         ("STDIO_SEEKS", lambda r: r["seeks"])]

# Where they differ, why ours is right, and by how much it may be: a difference that is not the one
# named stays a failure. {program or "": [(Darshan's counter or its beginning, test, reason)]}; a
# test gets Darshan's number, ours, and our record.
def at_end(their, our, record):
    return their == our + record["eof_reads"]


def first_or_end(their, our, record):
    return 0 < their - our <= record["eof_reads"] + record["first_reads"]


def not_seen(their, our, _record):
    return their in (0, -1) and our > 0


UNSEEN = "Darshan does not wrap it"
REASONS = {
    "": [("POSIX_READS", at_end, "a read of 0 bytes at the end of the file is a read to Darshan"),
         ("POSIX_SIZE_READ_0_100", at_end, "a read of 0 bytes at the end is a small one there"),
         ("POSIX_CONSEC_READS", first_or_end, "one offset a file; reads of 0 bytes are among them"),
         ("POSIX_SEQ_READS", first_or_end, "one offset a file; first reads, those of 0 bytes too"),
         ("POSIX_STATS", not_seen, "glibc since 2.33 has stat() and fstat() as such: " + UNSEEN),
         ("POSIX_MMAPS", not_seen, "mmap in a preloaded library: " + UNSEEN)],
    "copies": [("POSIX_", not_seen, "sendfile, copy_file_range: " + UNSEEN)],
    "images": [("POSIX_OPENS", not_seen, "opendir: " + UNSEEN)],
    "blind fortify": [("POSIX_", not_seen, "__read_chk, __pread_chk: " + UNSEEN),
                      ("STDIO_", not_seen, "__fread_chk: " + UNSEEN)],
    "blind inherit": [("POSIX_", not_seen, "Darshan drops descriptors from before a fork")],
    "blind unlocked": [("STDIO_", not_seen, "fread_unlocked: " + UNSEEN)],
    "blind openat2": [("POSIX_", not_seen, "no record of a file opened by a raw system call")],
}


def reason(program, counter, their, our, record):
    for name, test, why in REASONS.get(program, []) + REASONS[""]:
        if counter.startswith(name) and test(their, our, record):
            return why
    return None


# ---- the two sides ----

def darshan_counts(prefix, argv, root, scratch):
    """{path: {counter: value}} of all processes below root."""
    logs = scratch / "logs"
    logs.mkdir()
    env = {**os.environ, "LD_PRELOAD": f"{prefix}/lib/libdarshan.so", "DARSHAN_ENABLE_NONMPI": "1",
           "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "DARSHAN_LOGPATH": str(logs),
           # Without a path in the environment it writes below this one, by the date.
           "DARSHAN_MMAP_LOGPATH": str(scratch)}
    for days in (0, 1):  # at midnight, too
        day = time.localtime(time.time() + days * 86400)
        (logs / str(day.tm_year) / str(day.tm_mon) / str(day.tm_mday)).mkdir(parents=True)
    subprocess.run(list(map(str, argv)), check=True, env=env, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    found = collections.defaultdict(lambda: collections.Counter())
    for log in logs.rglob("*.darshan"):
        text = subprocess.run([f"{prefix}/bin/darshan-parser", "--show-incomplete", log],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for line in text.splitlines():
            cells = line.split("\t")
            counted = line.startswith(("POSIX", "STDIO")) and len(cells) >= 6
            if counted and cells[5].startswith(root) and "_F_" not in cells[3]:
                found[cells[5]][cells[3]] += int(cells[4])
    return found


def stoker_counts(binary, argv, root, scratch):
    """{path: {api: {counter: value}}}, with read_size and write_size."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    subprocess.run([binary, "profile", "--quiet", "-o", scratch / "p", "--", *map(str, argv)],
                   check=True, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    text = subprocess.run([binary, "report", scratch / "p", "--quiet", "--json", "-"], check=True,
                          stdout=subprocess.PIPE, env=env).stdout
    found = {}
    for record in json.loads(text)["result"]["records"]:
        if not record["path"].startswith(root) or record["api"] not in ("posix", "stdio"):
            continue
        mine = found.setdefault(record["path"], {}).setdefault(record["api"], None)
        row = {**{k: v or 0 for k, v in record["counters"].items()},
               "read_size": record["read_size"], "write_size": record["write_size"]}
        if mine:
            for key, value in row.items():
                row[key] = ([a + b for a, b in zip(mine[key], value)] if isinstance(value, list)
                            else mine[key] + value)
        found[record["path"]][record["api"]] = row
    return found


# ---- the comparison ----

EMPTY = collections.defaultdict(int, read_size=[0] * 10, write_size=[0] * 10)


def compare(program, theirs, ours, root):
    rows = []
    for path in sorted({*theirs, *ours}):
        for api, counters in (("posix", POSIX), ("stdio", STDIO)):
            mine = ours.get(path, {}).get(api) or EMPTY
            for name, value in counters:
                their = sum(theirs.get(path, {}).get(part, 0) for part in name.split("+"))
                our = value(mine)
                if their <= 0 and our == 0:  # -1: not counted
                    continue
                rows.append({"program": program, "file": os.path.relpath(path, root),
                             "counter": name, "darshan": their, "stoker": our,
                             "equal": their == our,
                             "why": "" if their == our else reason(program, name, their, our,
                                                                      mine)})
    return rows


def programs(scratch):
    """{name: argv}; each has a folder of its own with what it needs."""
    sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "lib")]
    import datasets
    python = "/usr/bin/python3"
    for name in ("os_calls", "copies", "whole_files", "buffered", "numpy_load", "h5_read", "images",
                 "csv_rows", "pandas_csv"):
        folder = scratch / name
        datasets.make(name, folder)
        yield name, [python, HERE / "programs.py", name, folder], folder
    plain, fortified = scratch / "plain.program", scratch / "fortified.program"
    subprocess.run(["cc", "-O1", "-o", plain, HERE / "blind.c"], check=True)
    subprocess.run(["cc", "-w", "-O2", "-D_FORTIFY_SOURCE=2", "-o", fortified, HERE / "blind.c"],
                   check=True)
    for case in ("stat", "mmap", "openat2", "fortify", "inherit", "unlocked", "two", "eof"):
        folder = scratch / case
        folder.mkdir()
        (folder / "a.bin").write_bytes(bytes(1 << 20))
        blind = fortified if case == "fortify" else plain
        yield f"blind {case}", [blind, case, folder / "a.bin"], folder


def run(prefix, binary, where):
    rows = []
    with tempfile.TemporaryDirectory(prefix="stoker-darshan-", dir=where) as scratch:
        scratch = pathlib.Path(scratch)
        for name, argv, folder in programs(scratch):
            sides = []
            for count in (lambda d: darshan_counts(prefix, argv, str(folder), d),
                          lambda d: stoker_counts(binary, argv, str(folder), d)):
                with tempfile.TemporaryDirectory(prefix="stoker-side-") as side:
                    sides.append(count(pathlib.Path(side)))
            rows += compare(name, *sides, folder)
    return rows


def show(rows):
    head = ("program", "file", "counter", "darshan", "stoker", "")
    cells = [head] + [(r["program"], r["file"], r["counter"], f"{r['darshan']:,}",
                       f"{r['stoker']:,}",
                       "equal" if r["equal"] else r["why"] or "DIFFERENT, and nobody knows why")
                      for r in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(5)]
    for row in cells:
        left = [row[i].ljust(widths[i]) for i in range(3)]
        right = [row[i].rjust(widths[i]) for i in (3, 4)]
        print("  ".join(left + right + [row[5]]).rstrip())
    equal = sum(r["equal"] for r in rows)
    known = sum(not r["equal"] and bool(r["why"]) for r in rows)
    print(f"\n{len(rows)} counters: {equal} equal, {known} different for a known reason,"
          f" {len(rows) - equal - known} different without one")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--darshan", metavar="PREFIX", default=os.environ.get("STOKER_DARSHAN"))
    p.add_argument("--stoker", metavar="BINARY", default=os.environ.get("STOKER", "stoker"))
    p.add_argument("--dir", default="/tmp",
                   help="for the files; Darshan leaves out /dev, /var, /usr, … (default /tmp)")
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    if not args.darshan or not pathlib.Path(args.darshan, "lib/libdarshan.so").exists():
        print("compare_darshan: skipped: no Darshan here; give --darshan PREFIX or set"
              " STOKER_DARSHAN", file=sys.stderr)
        return 77
    rows = run(args.darshan, args.stoker, args.dir)
    show(rows)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(r["equal"] or r["why"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
