#!/usr/bin/python3
"""Writes the seeds of the fuzz targets: tests/fuzz/corpus/TARGET/NAME.

Small valid files of every format and shape we know, so that the fuzzer starts where the parsers
are, not at their first check. Run it after a change here and commit what it writes; the same
seeds come out every time. Inputs that once crashed something are added by hand as regress-*.
"""

import gzip
import io
import json
import lzma
import pathlib
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus"


def seed(target, name, data):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


# ---- TFRecord and protobuf ---------------------------------------------------------------------

def crc32c_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


TABLE = crc32c_table()


def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data, length=None):
    head = struct.pack("<Q", len(data) if length is None else length)
    return head + struct.pack("<I", masked(head)) + data + struct.pack("<I", masked(data))


def varint(v):
    v &= (1 << 64) - 1
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    return bytes(out) + bytes([v])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(value):
    if isinstance(value, bytes):
        value = [value]
    if not value or isinstance(value[0], bytes):
        return field(1, b"".join(field(1, v) for v in value))
    if isinstance(value[0], float):
        return field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
    return field(3, field(1, b"".join(varint(v) for v in value)))


def entry(name, message):
    return field(1, field(1, name.encode()) + field(2, message))


def features(**values):
    return b"".join(entry(n.replace("__", "/"), feature(v)) for n, v in values.items())


def example(**values):
    return field(1, features(**values))


def sequence(context, lists):
    steps = b"".join(entry(n, b"".join(field(1, feature(v)) for v in vs))
                     for n, vs in lists.items())
    return field(1, features(**context)) + field(2, steps)


EXAMPLES = {
    "image": example(data=b"\xff\xd8\xff\xe0JFIF", key=b"a/b.jpg", label=[7]),
    "numbers": example(x=[1.5, -2.0, 3.25, 0.0], x__shape=[2, 2], n=[1, -1, 1 << 40]),
    "typed": example(img=bytes(range(12)), img__dtype=b"uint8", img__shape=[2, 2, 3],
                     m=[1, 0], m__dtype=b"bool", s=[5], s__shape=[], s__dtype=b"int16"),
    "json": example(j=b'{"a": [1, null]}', j__dtype=b"json"),
    "lists": example(words=[b"one", b"", b"three"], none=[], one=b"x", one__shape=[1]),
    "unpacked": field(1, entry("f", field(2, b"\x0d" + struct.pack("<f", 1) + b"\x0d" +
                                          struct.pack("<f", 2))) +
                      entry("i", field(3, b"\x08\x05\x08" + varint(-3)))),
    "twice": field(1, entry("a", feature(b"1")) + entry("a", feature([2])) + entry("e", b"")),
    "empty": b"",
}

SEQUENCES = {
    "grid": sequence({"key": b"k", "label": [3]}, {"x": [[1.0, 2.0], [3.0, 4.0]]}),
    "ragged": sequence({"y__dtype": b"int16"}, {"x": [[1], [2, 3], []], "y": [[1, 2], [3]]}),
    "words": sequence({}, {"w": [b"one", [b"two", b"three"]], "none": []}),
}


def protobufs():
    for name, data in EXAMPLES.items():
        seed("example", name, data)
    for name, data in SEQUENCES.items():
        seed("sequence", name, data)
    size = b"\x08\x01\x10\x02\x18\x03"
    seed("datum", "pixels", size + field(4, bytes(6)) + b"\x28\x07")
    seed("datum", "encoded", field(4, b"\xff\xd8\xff") + b"\x28\x07\x38\x01")
    seed("datum", "floats", size + field(6, struct.pack("<6f", *range(6))))
    seed("datum", "floats-unpacked", size + b"".join(b"\x35" + struct.pack("<f", i)
                                                     for i in range(6)))


def tfrecords():
    many = b"".join(record(e) for e in EXAMPLES.values())
    seed("tfrecord", "examples", many)
    seed("tfrecord", "sequences", b"".join(record(e) for e in SEQUENCES.values()))
    seed("tfrecord", "raw", record(b"hello") + record(b"") + record(b"\xff\xd8\xff\xd9"))
    seed("tfrecord", "empty", b"")
    seed("tfrecord", "truncated", many[:-3])
    seed("tfrecord", "long", record(b"hello", 1 << 63) + record(b"hello", 1 << 40))
    seed("tfrecord", "bad-data", record(b"hello")[:-1] + b"\0" + record(b"world"))
    seed("tfrecord", "gzip", gzip.compress(many, mtime=0))
    seed("tfrecord", "gzip-members", gzip.compress(many[:40], mtime=0) +
         gzip.compress(many[40:], mtime=0))
    seed("tfrecord", "zlib", zlib.compress(many))


# ---- tar ---------------------------------------------------------------------------------------

def tar_of(members, fmt):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=fmt) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return out.getvalue().rstrip(b"\0") + bytes(1024)


def npy_of(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def tars():
    sample = [("a/1.jpg", b"\xff\xd8\xff"), ("a/1.cls", b"3"), ("a/1.json", b'{"x": 1}'),
              ("a/2.jpg", b"\xff\xd8"), ("a/2.cls", b"-1\n"), ("a/2.x.npy", npy_of(np.arange(3)))]
    long = [("d" * 90 + "/" + "n" * 120 + ".txt", b"long name")]
    seed("tar", "ustar", tar_of(sample, tarfile.USTAR_FORMAT))
    seed("tar", "pax", tar_of(long, tarfile.PAX_FORMAT))
    seed("tar", "gnu", tar_of(long, tarfile.GNU_FORMAT))
    seed("tar", "dotdot", tar_of([("../../x.txt", b"out")], tarfile.USTAR_FORMAT))
    big = bytearray(tar_of([("big.bin", b"x")], tarfile.GNU_FORMAT))
    big[124:136] = b"\x80" + bytes(3) + struct.pack(">Q", 1 << 40)
    big[148:156] = b" " * 8
    big[148:156] = b"%06o\0 " % sum(big[:512])
    seed("tar", "base256", bytes(big))
    seed("tar", "gzip", gzip.compress(tar_of(sample, tarfile.USTAR_FORMAT), mtime=0))
    b = io.BytesIO()
    with tarfile.open(fileobj=b, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, link in [("a.jpg", tarfile.REGTYPE, ""), ("b.jpg", tarfile.LNKTYPE, "a.jpg"),
                                 ("c.jpg", tarfile.LNKTYPE, "l" * 120), ("d", tarfile.SYMTYPE, "a"),
                                 ("e", tarfile.FIFOTYPE, ""), ("f.jpg", b"M", "")]:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size = kind, link, 3 if kind == tarfile.REGTYPE else 0
            t.addfile(info, io.BytesIO(b"abc"))
    seed("tar", "links", b.getvalue())


# ---- RecordIO ----------------------------------------------------------------------------------

MAGIC = struct.pack("<I", 0xCED7230A)


def rec(data, flag=0):
    return MAGIC + struct.pack("<I", flag << 29 | len(data)) + data + bytes(-len(data) % 4)


def recordios():
    header = struct.pack("<IfQQ", 0, 3.0, 11, 0)
    labels = struct.pack("<IfQQ", 2, 0.0, 12, 0) + struct.pack("<2f", 1, 2)
    seed("recordio", "image", rec(header + b"\xff\xd8\xff\xd9") + rec(labels + b"\x89PNG"))
    seed("recordio", "raw", rec(b"hello") + rec(b"") + rec(b"abcd"))
    seed("recordio", "parts", rec(header + b"abcd", 1) + rec(b"", 2) + rec(b"efgh", 3) + rec(b"x"))
    seed("recordio", "damaged", rec(b"hello") + b"\0\0\0\0" + rec(b"found again"))
    seed("recordio", "long", MAGIC + struct.pack("<I", (1 << 29) - 1) + b"short")


# ---- arrays ------------------------------------------------------------------------------------

def npy_text(text, data=b"", version=1):
    raw = text.encode()
    return (b"\x93NUMPY" + bytes([version, 0]) +
            struct.pack("<H" if version == 1 else "<I", len(raw)) + raw + data)


def npz_of(compress, **arrays):
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(out, "w", method) as z:
        for name, array in arrays.items():
            z.writestr(zipfile.ZipInfo(f"{name}.npy"), npy_of(array), method)
    return out.getvalue()


def arrays():
    for kind in ("<f4", ">i2", "|u1", "<f8", "|b1", "<f2", "|S3", "<U2"):
        name = kind.strip("<>|")
        seed("npy", name, npy_of(np.zeros((2, 3), kind)))
    seed("npy", "fortran", npy_of(np.asfortranarray(np.arange(6.).reshape(2, 3))))
    seed("npy", "scalar", npy_of(np.float32(1)))
    seed("npy", "v2", npy_text("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n",
                               bytes(4), 2))
    seed("npy", "bomb", npy_text("{'descr': '<f8', 'fortran_order': False, "
                                 "'shape': (4294967296, 4294967296), }\n"))
    seed("npy", "object", npy_text("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n"))
    table = {"data": np.arange(6, dtype="u1"), "data.offsets": np.array([0, 2, 2, 6], "u8"),
             "label": np.array([1, 2, 3]), "x": np.zeros((3, 2), "f4")}
    seed("npz", "stored", npz_of(False, **table))
    seed("npz", "deflated", npz_of(True, **table))
    keys = {"key": np.frombuffer(b"abbccc", "u1"), "key.offsets": np.array([0, 1, 3, 6], "u8"),
            "t": np.frombuffer(b"xyz", "u1"), "t.offsets": np.array([0, 1, 2, 3], "u8"),
            "t.kind": np.array(b"text")}
    seed("npz", "keys", npz_of(False, **keys))
    seed("npz", "keys-deflated", npz_of(True, **keys))
    seed("npz", "fixed-keys", npz_of(False, key=np.array([b"a", b"bc"]), u=np.array(["x", "yz"])))
    saved = io.BytesIO()
    np.savez(saved, x=np.zeros((2, 2)))
    seed("npz", "numpy", saved.getvalue())
    seed("npz", "no-samples", npz_of(False, a=np.float32(1)))


# ---- text --------------------------------------------------------------------------------------

VALUES = [{"key": "a", "label": 1, "x": [1.5, 2], "t": "h\u00e9 \"q\" \\ \n"},
          {"key": "b", "label": -2, "x": [[1], [2, 3]], "o": {"n": None, "b": [True, False]}},
          {"data": {"$base64": "/9j/2Q=="}, "big": 12345678901234567890, "e": 1e-300}]


def texts():
    for target, delim in (("csv", ","), ("tsv", "\t")):
        rows = [["key", "label", "x_0", "x_1", "t"], ["a", "1", "1.5", "2", '"q ""x"""'],
                ["b", "-2", "", "nan", f'"two\nlines{delim}"'], ["c", "3", "1e5", "0x1", ""]]
        text = "\r\n".join(delim.join(r) for r in rows)
        seed(target, "header", text.encode())
        seed(target, "plain", delim.join("123").encode() + b"\n" + delim.join("456").encode())
        seed(target, "bom", b"\xef\xbb\xbf" + text.encode() + b"\n\n")
        seed(target, "open-quote", f'a{delim}b\n1{delim}"never closed\n'.encode())
        seed(target, "gzip", gzip.compress(text.encode(), mtime=0))
    lines = "\n".join(json.dumps(v) for v in VALUES)
    for target in ("json", "jsonparse"):
        seed(target, "array", json.dumps(VALUES).encode())
        seed(target, "pretty", json.dumps(VALUES, indent=1, ensure_ascii=False).encode())
        seed(target, "single", json.dumps(VALUES[1]).encode())
        seed(target, "scalars", b'[1, -0.5, "x", null, true, [], {}, "\\ud83d\\ude00"]')
        seed(target, "deep", b"[" * 70 + b"]" * 70)
    seed("json", "gzip", gzip.compress(json.dumps(VALUES).encode(), mtime=0))
    seed("jsonl", "lines", lines.encode())
    seed("jsonl", "blank", b"\n\n" + lines.encode() + b"\n\r\n")
    seed("jsonl", "mixed", b'1\n"two"\n[3]\n{"four": 4}\nbroken\nnull')
    seed("jsonl", "gzip", gzip.compress(lines.encode(), mtime=0))


def settings():
    seed("opt", "config", b"# comment\n[fuzz]\nsize = 64M\nwait = 1.5m\nflag = yes\nshare = 5%\n"
                          b"choice = dir:2\nlist = a\nlist = b\ncount = 7\n")
    seed("opt", "argv", b"--size=64MiB\0-f\0--no-flag\0--text\0x\0--choice=csv:f\0--list=a\0--\0z")
    for i, text in enumerate(["64M", "1.5GB", "90", "250ms", "2h", "18446744073709551615", "1e3",
                              "16E", "-1", "0.1%"]):
        seed("opt", f"value{i}", text.encode())


def result(command, result, *arguments):
    return json.dumps({"schema": 1, "command": command, "arguments": arguments, "settings": {}, "result": result}).encode()


def times(**more):
    return {"count": 3, "p50_s": 1e-3, "p99_s": 2e-3, "max_s": 3e-3, "histogram": [{"from_s": 5e-4, "below_s": 1e-3, "count": 3}], **more}


def pages():
    """A small result of every kind and shape that a page shows."""
    io = {"requests": 9, "bytes_read": 900, "bytes_from_device": 0, "latency": times(),
          "request_sizes": [{"bytes": "0-100", "count": 0}, {"bytes": "100-1K", "count": 9}, {"bytes": "1K-10K", "count": 0}]}
    ranks = [{"rank": i, "node": "n", "utilisation": 0.5, "wait_seconds": 1, "compute_seconds": 2, "wait_over_time": [0.1, 0], "io": io}
             for i in (0, 1)]
    seed("page", "bench", result("bench", {
        "workload": {"name": "t", "training.batch": 4}, "utilisation": 0.5, "utilisation_mlperf": 0.6, "io_share": 0.4, "ranks": 2,
        "samples_per_second": 10, "step": times(), "io": io, "clock": "virtual", "calibration": {"utilisation": 0.9},
        "over_time": {"bin_seconds": 0.5, "steps": [3, 1], "compute": [0.2, 0.1], "wait": [0.1, 0], "others": [0, 0], "checkpoint": [0]},
        "per_rank": ranks}, "t"))
    seed("page", "bench-lost", result("bench", {"lost_rank": 1, "lost_because": "it hangs"}))
    points = [{"run": f"{n} ranks", "ranks": n, "utilisation": 1 / n, "utilisation_mlperf": 1 / n, "samples_per_second": n,
               "step_seconds": 1, "io_bound": n > 1} for n in (1, 4, 2)]
    seed("page", "bench-search", result("bench", {"points": points, "utilisation_asked": 0.9, "most_ranks": 1, "verdict": "1 rank."}))
    seed("page", "bench-sweep", result("bench", {"points": points, "neighbour": None, "verdict": "It turns.\n"}, "t"))
    seed("page", "bench-compared", result("bench", {"verdict": "b is faster.", "differences": ["x is 1, and 2 in b"], "compared": [
        {"file": f, "utilisation": 0.5, "samples_per_second": n, "io.latency.p99_s": 0.1} for f, n in (("a", 2), ("b", 3))]}))
    bend = {"law": "limit", "flat_to": 1, "rises_at": 2, "one_job_s": 1, "at": 1.5, "share": None, "poor": False}
    curve = [{"jobs": n, "last_s": n} for n in (1, 2)]
    forms = [{"form": "files", "prepare_s": None, "last_s": 2, "bends_at": 1.5, "curve": curve, "files": 3, "bytes": 9, "bend": bend, "verdict": "files: bends.", "points": [
        {"jobs": n, "measured": 2, "first_s": n, "last_s": 2 * n, "slowest_s": 3 * n, "last_ci": [n, 3 * n]} for n in (1, 2)]},
             {"form": "tar", "prepare_s": 2, "points": [], "bend": {"law": "contention", "share": 0.1}, "not_measured": "no room"}]
    seed("page", "stage-compare", result("stage", {"source": "/a", "best": "files", "verdict": "Stage it.", "forms": forms, "notes": ["n"]}))
    seed("page", "stage-copy", result("stage", {"source": "/a", "staged": True, "path": "/b", "bytes_copied": 9, "copy_seconds": 2,
                                                "list_seconds": 1, "publish_seconds": 1, "left_out": [{"kind": "k", "count": 1, "why": "w"}]}))
    seed("page", "stage-nodes", result("stage", {"source": "/a", "nodes_good": 2, "total_seconds": 3, "slowest": "n1", "nodes": [
        {"node": f"n{i}", "state": "done", "seconds": i, "bytes_read": 5} for i in (0, 1)]}))
    target = {"name": "TMPDIR", "path": "/t", "verdict": "fits", "reason": "local", "room_bytes": 10}
    seed("page", "stage-plan", result("stage", {"source": "/a", "target": target, "targets": [target], "cost": {
        "saved_s": 4, "reason": "It pays.", "ways": [{"way": "each", "least_s": 1, "most_s": 2, "limited_by": "the source"}]}}))
    seed("page", "stage-list", result("stage", {"sets": [{"tier": "/t", "set": "s", "source": "/a", "complete": True, "bytes": 5}]}))
    seed("page", "doctor", result("doctor", {"node": {"host": "h", "cpus": 2}, "target": target, "targets": [target], "file_systems": [
        {"path": "/", "fs": "ext4", "speed": {"read_Bps": 1e9, "write_Bps": 1e8, "opens_per_s": 100}}], "missing": [{"what": "a", "gives": "b"}]}))
    seed("page", "inspect", result("inspect", {"format": "tfrecord", "files": 1, "samples": 3, "advice": "pack it", "size_histogram": [
        {"from_bytes": 2, "below_bytes": 4, "samples": 3}], "fields": [{"name": "x", "kind": "bytes", "size_bytes": 4}]}, "/a"))
    seed("page", "load", result("load", {"samples_per_second": 5, "stall_fraction": 0.1, "epochs": [
        {"epoch": 0, "load_seconds": 2, "stall_seconds": 1, "asked_bytes": 5, "read_bytes": 6}]}, "/a"))
    seed("page", "job", result("job", {"jobs": [{"job": "7", "name": "n", "state": "COMPLETED", "used": {"cpu_share": 0.5},
                                                 "next": [{"line": "#SBATCH -c 1", "why": "idle"}]}]}))
    seed("page", "pack", result("pack", {"samples": 3, "shards": 1}, "/a", "/b"))
    seed("page", "verify", result("verify", {"problems_total": 1, "problems": [{"path": "p", "offset": 3, "what": "w"}]}, "/a"))
    seed("page", "report", result("report", {}, "train.profile"))
    series = [{"name": "", "runs": [{"n": n, "wall_s": 8 / n + 1, "cores": n, "status": "ok"} for n in (1, 2, 4, 8)]}]
    seed("page", "study", json.dumps({"stoker_study": 1, "unit": "cores", "metric": None, "series": series}).encode())


def studies():
    curve = "".join(f"{n},{10 * (.95 / n + .05 + .002 * n):.3f},{n}\n" for n in (1, 2, 4, 8, 16, 32))
    seed("study", "curve", b"n,time,cores\n" + curve.encode())
    seed("study", "plain", b"1;10\n2;6\n4;4.5\n8;4\n16;4\n")
    seed("study", "repeats", b"n,time,time,time\n1,10,11,9.5\n2,5,5.5,\n4,3,3.1,2.9\n")
    seed("study", "rates", b"n\trate\ttime\n1\t100\t60\n2\t190\t60\n4\t300\t61\n")
    seed("study", "full", b'# times\nn,time,repeat,series,cores,gpus,nodes,host,status,kind,note,jobid,'
                          b'queue\n1,1:02:03,0,"a ""b""",4,1,1,h,ok,k80,,17_1,3\n'
                          b'2,3m20s,1,cpu,8,0,1,h,COMPLETED,,,,\n4,,0,cpu,,,,,CANCELLED by 0,,why,,\n')
    seed("study", "json", json.dumps({"stoker_study": 1, "unit": "GPUs", "metric": None, "series": [
        {"name": "a", "runs": [{"n": n, "wall_s": 8 / n + 1, "gpus": n, "status": "ok"}
                               for n in (1, 2, 4)]}]}).encode())
    seed("study", "hyperfine", json.dumps({"results": [
        {"command": "a", "median": 2 / n, "times": [2 / n, 2.1 / n], "exit_codes": [0, 1],
         "parameters": {"threads": str(n), "algo": "x"}} for n in (1, 2)]}).encode())
    seed("study", "reframe", json.dumps({"session_info": {}, "runs": [{"testcases": [
        {"name": f"t %num_tasks={n}", "result": "pass", "num_tasks": n, "jobid": "7", "job_nodelist": ["a", "b"],
         "perfvalues": {"s:p:time": [9 / n, 0, None, None, "ms", "pass"]}} for n in (1, 2)]}]}).encode())
    seed("study", "sacct", b"JobID|AllocCPUS|NNodes|NTasks|Elapsed|State|AllocTRES|NodeList\n"
         b"7|4|1||00:01:40|COMPLETED|cpu=4,gres/gpu=2,node=1|n1\n7.0|4|1|4|00:01:39|COMPLETED|cpu=4|n1\n"
         b"8|8|2||00:01:00|RUNNING|cpu=8,node=2|n[1-2]\n9|16|4||00:00:30|COMPLETED|cpu=16|n[1-3,7]\n")
    seed("study", "jube", b"result:\n| tasks | runtime_avg[ms] | runtime_std[ms] |\n|---|---|---|\n"
         b"|     1 |    10.5 |  1 |\n|     2 |    5.5 |  1 |\n")
    plan = {"stoker_scale_plan": 1, "n": [1, 2, 4], "argv": ["./train", {"hex": "ff01"}, "{n}"],
            "shell": False, "prepare": None, "cwd": "/tmp", "weak": True, "size": 10, "sets": 4,
            "threads_per_rank": 0, "ranks_per_node": 0, "pin": True, "oversubscribe": False,
            "launcher": "srun --mpi=pmix", "container": None, "runs_min": 3, "runs_max": 20, "warmup": 1,
            "seed": 1, "precision": 0.02, "budget_s": 0, "timeout_s": 1.5, "metric": "x ([0-9]+)",
            "metric_pick": 2, "higher_better": True, "series": None, "unit": None, "cores_per_n": 0,
            "slurm": True, "sbatch": ["--partition=gpu"], "batch_head": None, "gpu_type": "k80",
            "at_once": 0}
    seed("run", "plan", json.dumps(plan).encode())
    variant = {"id": "a", "label": None, "series": None, "n": 0, "size": 0, "argv": ["./a", "{n}"], "env": ["A=b"],
               "threads": 2, "ranks": 0, "gpus": 0, "nodes": 0, "ranks_per_node": 0, "cpus": 2}
    points = {**plan, "stoker_scale_plan": 2, "via": "slurm", "sets": 2, "ranks_per_node": 0, "spread": [1, 2], "variants": []}
    seed("run", "spread", json.dumps(points).encode())
    seed("run", "pack", json.dumps({**points, "stoker_scale_plan": 3, "spread": [], "pack": [1, 2]}).encode())
    seed("run", "variants", json.dumps({**points, "n": [], "spread": [], "variants": [variant]}).encode())
    seed("run", "words", b"mpirun -n {n} 'a b' \"c\" \\d{size}")
    seed("run", "numbers", b"1-8,16-64*2")
    seed("run", "output", b"epoch 1: 120.5 images/s\nepoch 2: 130 images/s\n-----\n")
    who = {"host": "n1", "pid": 4711, "pid_space": 4026531836, "boot_id": "0a1b2c3d", "start_ticks": 123456}
    beacon = {"kind": "stoker-status", "version": 1, "command": "bench", "state": "running", **who,
              "started_s": 1.7e9, "updated_s": 1.7e9 + 9.5}
    rank = {"rank": 3, "ranks": 4, "node": "n1", "phase": "trains", "since_s": 0.2, "step": 120, "steps": 480,
            "samples": 960, "utilisation": 0.93, "wait_s": 1.5, "barrier_s": 0.1, "run_s": 12.5, "step_s": 0.1,
            "step_max_s": 0.4, "queue": 3, "queue_slots": 4, "checkpoints": 1, "read_bytes": 1 << 30,
            "write_bytes": 10, "device_bytes": 1 << 20, "read_Bps": 1e8, "device_Bps": 1e6}
    run = {"workload": "imagenet", "ranks": 4, "batch": 8, "reader": "stoker"}
    point = {"label": "N=2", "series": "", "n": 2, "good": 3, "bad": 1, "waiting": 0, "wall_s": 1.5, "cost": 1.5,
             "half_width": 0.02, "done": True}
    study = {"unit": "threads", "metric": None, "weak": False, "done": 4, "planned": 9, "phase": "run",
             "label": "N=2", "left_s": 7.5, "pending": 1, "running": 2, "reason": "Priority", "waiting": 3,
             "points": [point, {**point, "label": "N=4", "n": 4, "cost": 0.8, "done": False}]}
    seed("status", "run", json.dumps({**beacon, "now": run}).encode())
    seed("status", "rank", json.dumps({**beacon, "now": rank}).encode())
    seed("status", "study", json.dumps({**beacon, "command": "scale", "now": study}).encode())
    seed("status", "hostile", json.dumps({**beacon, "host": "\x1b[2J", "pid": -1, "now": {
        **rank, **run, "node": "\x1b]0;x\x07" * 99, "workload": "\u202e\r\n", "step": 1e308, "steps": -1,
        "points": [[], 1, None, {**point, "label": "\x9b", "cost": 0}]}}).encode())
    seed("status", "node", json.dumps({**who, "node": "n1", "rank": 0, "phase": "copy", "wanted_bytes": 1 << 33,
                                       "there_bytes": 1 << 30, "read_bytes": 1 << 29, "sent_bytes": 5,
                                       "received_bytes": 7, "written_bytes": 12, "read_s": 1.5, "seconds": 3.5,
                                       "path": "/local/x", "error": "", "updated": 1700000000}).encode())


# ---- codecs, filters, samples, indexes ---------------------------------------------------------

CODECS = ["raw", "example", "sequence", "image", "datum", "csv", "json", "npy", "cls"]


def codecs():
    def case(codec, name, data, context=b""):
        seed("codec", f"{codec}-{name}",
             bytes([CODECS.index(codec), len(context)]) + context + data)

    case("cls", "one", b"-12\n")
    case("image", "one", struct.pack("<IfQQ", 0, 3.0, 11, 0) + b"\xff\xd8\xff\xd9")
    case("image", "labels", struct.pack("<IfQQ", 2, 0.0, 1, 0) + struct.pack("<2f", 1, 2) + b"x")
    case("json", "one", json.dumps(VALUES[1]).encode())
    case("npy", "one", npy_of(np.arange(6, dtype=">i2").reshape(2, 3)))
    case("raw", "one", b"bytes")
    case("example", "typed", EXAMPLES["typed"])
    case("csv", "row", b'a,1,1.5,"x ""y"""', b"csv 44 1 4\ntkey\nilabel\nfx\ntt\n")
    case("csv", "array", b" 7 ,1.5,2,\"3\"", b"csv 44 1 4\nukey\nF3 x\n")
    case("csv", "merge", b"csv 44 1 3\nikey\nflabel\ntx\n", b"csv 44 1 3\nukey\nilabel\nfx\n")
    case("json", "base64", json.dumps(VALUES[2]).encode())
    case("json", "arrays", b'{"a": [[1, 2], [3, 4.5]], "b": [true, false], "c": ["x", "y"], "d": []}')
    case("json", "names", json.dumps({f"n{i % 40}": i for i in range(60)}).encode() + b" ")
    case("sequence", "ragged", SEQUENCES["ragged"])
    case("datum", "encoded", field(4, b"\xff\xd8\xff") + b"\x28\x07\x38\x01")


def filters():
    text = b"stoker keeps the furnace fed " * 8
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = raw.compress(text) + raw.flush()
    ids = {"zlib": 1, "gzip": 2, "deflate": 3, "zstd": 4, "lz4f": 5, "lz4b": 6, "xz": 7,
           "shuffle": 8, "fletcher": 9, "bswap": 10, "resume": 11, "join": 12, "zeros": 13, "lzf": 14}

    def case(name, data, *steps):
        seed("filter", name, bytes([len(steps)]) + b"".join(bytes([ids[s], a]) for s, a in steps) +
             data)

    case("zlib", zlib.compress(text), ("zlib", 0))
    case("gzip", gzip.compress(text, mtime=0) * 2, ("gzip", 0))
    case("deflate", deflated, ("deflate", 0))
    case("hdf5", zlib.compress(text), ("zlib", 0), ("shuffle", 4))
    case("big-endian", text[:16], ("bswap", 8))
    case("fletcher", text[:16] + bytes(4), ("fletcher", 0))
    # "hello hello hello hello" by the zstd and lz4 commands; from a pipe the size is not stored.
    case("zstd", bytes.fromhex("28b52ffd24176500003068656c6c6f200100994b11175eae0d"), ("zstd", 0))
    case("zstd-stream", bytes.fromhex("28b52ffd04586500003068656c6c6f200100994b11175eae0d"),
         ("zstd", 0))
    case("zstd-plain", text, ("zstd", 0))
    case("lz4", bytes.fromhex("04224d186440a70f0000006868656c6c6f2006005068656c6c6f00000000f26b940b"),
         ("lz4f", 0))
    case("xz", lzma.compress(text), ("xz", 0))
    case("lzf", b"\x04hello\x20\x04\xe0\x20\x00\x00!", ("lzf", 0))
    case("lz4-block", b"\x50hello", ("lz4b", 0))
    case("join", rec(b"abcd", 1) + rec(b"efgh", 3), ("join", 0))
    case("zeros", b"", ("zeros", 12))


TABLES = ["files", "names", "dirs", "extents", "segments", "columns", "rows", "parts", "keyoff",
          "keys", "fields", "fieldnames", "chains", "points", "windows", "crcs", "context",
          "sums", "checks", "notes"]
ELEMENT = dict(files=32, names=1, dirs=24, extents=16, segments=48, columns=48, rows=8, parts=16,
               keyoff=8, keys=1, fields=96, fieldnames=1, chains=32, points=32, windows=1, crcs=16,
               context=1, sums=8, checks=4, notes=1)


def types():
    """A byte that says what the target holds, then JSON Lines."""
    rows = [{"a": 1, "t": "x", "n": None, "v": [1, 2]}, {"a": 2.5, "t": {"$base64": "AA=="}, "v": []},
            {"a": 3, "t": {"u": 1}, "n": "text", "v": [[1], [2]]}, {"a": True, "m": [1, "b"]}]
    text = "".join(json.dumps(r) + "\n" for r in rows).encode()
    for holds in (0, 1, 12, 13, 15, 32):
        seed("types", f"holds-{holds}", bytes([holds]) + text)
    seed("types", "numbers", b"\0" + b'{"a":1}\n{"a":-9007199254740993}\n{"a":18446744073709551615}\n')


def index_file(nsamples, fmt, choice=b"\0\0", **tables):
    """A header and tables at multiples of 64 (the target puts checksums in and right). choice: the two
    bytes by which the target decides what else it does."""
    head = 8 + 8 + 16 + 24 + 16 + 8 + 8 + 32 + 8 + 32 * len(TABLES) + 8
    at, body, entries = (head + 63) // 64 * 64, b"", b""
    start = at
    for name in TABLES:
        data = tables.get(name, b"")
        entries += struct.pack("<QQQII", at + len(body), len(data) // ELEMENT[name], 0,
                               ELEMENT[name], 0)
        body += data + bytes(-len(data) % 64)
    header = (b"STKINDX\0" + struct.pack("<II", 3, len(TABLES)) + bytes(8) + choice.ljust(8, b"\0") +
              struct.pack("<QQQ", len(tables.get("files", b"")) // 32,
                          len(tables.get("extents", b"")) // 16, nsamples) + bytes(32) +
              fmt.ljust(16, b"\0") + b"raw".ljust(16, b"\0") + bytes(8) + entries)
    return header.ljust(start, b"\0") + body


def extent(offset, length, file=0, chain=0):
    return struct.pack("<QQ", offset | length << 48 & (1 << 64) - 1,
                       length >> 16 | file << 28 | chain << 56)


def indexes():
    # The file fuzz_index.c makes: data.bin of 1000 bytes.
    files = struct.pack("<QIIQq", 0, 8, 0, 1000, 0)
    fields = struct.pack("<II4B16sI8Q", 0, 4, 1, 0, 0, 0, b"example", 0, *[0] * 8)
    common = dict(files=files, names=b"data.bin\0", fields=fields, fieldnames=b"data")
    whole = struct.pack("<QQQQQIHH", 0, 2, 0, 2, 0, 0, 0, 1)
    keys = dict(keyoff=struct.pack("<3Q", 0, 1, 2), keys=b"ab")
    seed("index", "framed", index_file(2, b"tfrecord", segments=whole,
                                       extents=extent(12, 100) + extent(128, 50), **keys, **common))
    seed("index", "whole", index_file(2, b"recordio", segments=whole,
                                      extents=extent(0, 100) + extent(128, 872), **keys, **common))
    seed("index", "raw", index_file(
        3, b"tar", choice=b"\5\x08", extents=extent(0, 100), rows=struct.pack("<4Q", 0, 1, 2, 3),
        parts=struct.pack("<QQ", 0, 10 << 24) * 3,
        segments=struct.pack("<QQQQQIHH", 0, 3, 0, 1, 0, 0, 0, 2), **common))
    seed("index", "notes", index_file(
        2, b"recordio", segments=whole, extents=extent(0, 100) + extent(128, 872),
        notes=b"left\0link\0\0why\0" b"3\0" b"2\0a\0b\0taken\0sample\0row\0because\0" b"1\0" b"0\0",
        **keys, **common))
    seed("index", "parts", index_file(
        1, b"tar", extents=extent(0, 100), rows=struct.pack("<2Q", 0, 2),
        parts=struct.pack("<QQ", 0, 10 << 24) + struct.pack("<QQ", 10 << 48, 20 << 24),
        segments=struct.pack("<QQQQQIHH", 0, 1, 0, 1, 0, 0, 0, 2), checks=b"crc!", **common))
    seed("index", "columns", index_file(
        10, b"npy", choice=b"\5\x08", extents=extent(0, 100, chain=1) + extent(100, 100, chain=2),
        columns=struct.pack("<5QII", 0, 5, 0, 10, 10, 0, 0),
        chains=struct.pack("<I2H16xQ", 1, 10, 2, 0) + struct.pack("<I2H16xQ", 1, 11, 0, 0),
        points=struct.pack("<QQQII", 1, 100, 0, 4, 3), windows=b"wind",
        crcs=struct.pack("<QII", 0, 7, 0),
        segments=struct.pack("<QQQQQIHH", 0, 10, 0, 2, 0, 1, 0, 3), **common))


def manifests():
    shard = {"name": "data-00000-of-00001.tfrecord", "size_bytes": 100, "samples": 2,
             "xxh64": "0123456789abcdef"}
    m = {"stoker_manifest": 1, "stoker_version": "0.1.0", "format": "tfrecord",
         "payload": "example", "compression": "", "samples": 2, "size_bytes": 100, "source": "src",
         "shards": [shard], "other_files": [{**shard, "name": "index.stkidx"}],
         "classes": ["cat", "dog"], "settings": {"shards": 1}}
    seed("manifest", "tfrecord", json.dumps(m, indent=1).encode())
    seed("manifest", "folder", json.dumps({**m, "format": "folder", "payload": "",
                                           "compression": "zstd"}).encode())
    seed("manifest", "outside", json.dumps({**m, "shards": [{**shard, "name": "../x"}]}).encode())
    seed("manifest", "others", b'{"manifest_version": 3}')


def states():
    s = {"stoker_loader": 1, "samples": 1000, "dataset": "0123456789abcdef", "seed": 7, "epoch": 2,
         "shuffle": "block", "block": 16, "window": 8}
    steps = [{"world": 4, "each": 100, "refill": [0, 1, 0, 3]}, {"world": 3, "each": 50},
             {"world": 7, "each": 8}]
    seed("state", "fresh", json.dumps({**s, "done": []}).encode())
    seed("state", "resumed", json.dumps({**s, "done": steps}).encode())
    seed("state", "huge", json.dumps({**s, "samples": str(1 << 62), "seed": str((1 << 64) - 1),
                                      "shuffle": "global", "done": steps}).encode())


def hdf5s():
    """Files of libhdf5's own, one for each way it keeps chunks; heaps by hand. Needs h5py."""
    def case(name, file, header=0, heap=0, rank=1, filtered=False, dims=(8,), grow=(0,)):
        head = struct.pack("<BHHBBBB", 0x0A, header, heap, 1, rank - 1, filtered, 15)
        head += bytes(d - 1 for d in dims).ljust(3, b"\0") + bytes(grow).ljust(3, b"\0")
        seed("hdf5", name, head.ljust(16, b"\0") + file)

    heap = b"GCOL" + struct.pack("<B3xQ", 1, 64) + struct.pack("<HH4xQ", 1, 1, 5) + b"hello\0\0\0"
    case("heap", heap.ljust(64, b"\0"))
    try:
        import h5py
    except ImportError:
        return print("no h5py: the seeds of fuzz_hdf5 stay as they are")
    data = np.arange(32, dtype="i4")
    deflate = dict(compression="gzip")
    kinds = {
        "contiguous": ("earliest", data, {}, {}),
        "compact": ("latest", data[:2], {}, {}),
        "btree1": ("earliest", data, dict(chunks=(4,)), {}),
        "btree1-deflate": ("earliest", data, dict(chunks=(4,), **deflate), dict(filtered=True)),
        "single": ("latest", data, dict(chunks=(32,)), dict(dims=(1,))),
        "fixed": ("latest", data, dict(chunks=(4,)), {}),
        "fixed-deflate": ("latest", data, dict(chunks=(4,), **deflate), dict(filtered=True)),
        "extensible": ("latest", data, dict(chunks=(4,), maxshape=(None,)), dict(grow=(255,))),
        "btree2": ("latest", data.reshape(8, 4), dict(chunks=(4, 1), maxshape=(None, None)),
                   dict(rank=2, dims=(2, 4), grow=(255, 255))),
    }
    for name, (libver, array, options, grid) in kinds.items():
        out = io.BytesIO()
        with h5py.File(out, "w", libver=libver) as f:
            d = f.create_dataset("x", data=array, track_times=False, **options)
            header = h5py.h5o.get_info(d.id).addr
        case(name, out.getvalue(), header, **grid)


def images():
    """Small images of the kinds Pillow can write, each with what is asked of it. Needs Pillow."""
    texts = ["image", "image:224", "image:32x24,crop=random,flip,scale=0.2-1,ratio=3/4-4/3",
             "image:24,resize=32,gray,layout=nchw,field=jpg"]
    for i, text in enumerate(texts):
        seed("image", f"text{i}", b"\x80\0" + text.encode())
    try:
        from PIL import Image
    except ImportError:
        return print("no Pillow: the images of fuzz_image stay as they are")
    y, x = np.mgrid[0:21, 0:27]
    rgb = Image.fromarray(np.stack([x * 9, y * 12, (x ^ y) * 8], -1).astype("u1"))

    def save(name, image, **options):
        out = io.BytesIO()
        image.save(out, **options)
        seed("image", name, bytes([len(name) % 8, 7]) + out.getvalue())

    for name, options in {"444": dict(subsampling=0), "422": dict(subsampling=1), "420": {},
                          "progressive": dict(progressive=True), "fine": dict(quality=98)}.items():
        save(f"jpeg-{name}", rgb, format="JPEG", **options)
    for mode in ["L", "CMYK"]:
        save(f"jpeg-{mode.lower()}", rgb.convert(mode), format="JPEG")
    for mode in ["1", "L", "LA", "P", "RGB", "RGBA", "I"]:
        save(f"png-{mode.lower()}", rgb.convert(mode), format="PNG")
    seed("image", "png-adam7", b"\1\1" + interlaced_png(np.asarray(rgb)))


def interlaced_png(rgb):
    """Adam7, which Pillow reads but does not write."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    raw = b""
    for x, y, dx, dy in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                         (1, 0, 2, 2), (0, 1, 1, 2)]:
        raw += b"".join(b"\0" + row.tobytes() for row in rgb[y::dy, x::dx])
    head = struct.pack(">IIBBBBB", rgb.shape[1], rgb.shape[0], 8, 2, 0, 0, 1)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) +
            chunk(b"IEND", b""))


def profiles():
    """Changes to a log (fuzz_profile_log.c: block, offset, length, bytes), Darshan's text."""
    def change(block, offset, data):
        return struct.pack("<BHB", block, offset, len(data)) + data

    seed("profile_log", "none", b"")
    seed("profile_log", "killed", change(0, 40, struct.pack("<I", 0)))
    seed("profile_log", "cut", change(0, 24, struct.pack("<I", 9)) + b"\5")
    seed("profile_log", "name", change(1, 16, struct.pack("<II", 9, 4000) + b"/a/../b//c"))
    seed("profile_log", "record", change(2, 16, struct.pack("<IBB", 2, 4, 1)))
    seed("profile_log", "used", change(3, 8, struct.pack("<I", 65520)))
    seed("profile_log", "mark", change(4, 16, struct.pack("<QQQII", 5, 0, 7, 3, 2)))
    seed("profile_log", "event", change(5, 16, struct.pack("<QQIIIBBH", 9, 4096, 5, 100, 2, 3, 0, 6)))
    for path in sorted((HERE.parent / "data/darshan").glob("*.txt")):
        lines = [x for x in path.read_text().split("\n") if x and not x.startswith("#  ")]
        head = [x for x in lines if x.startswith("# ")][1:12]
        for module in dict.fromkeys(x.split("\t")[0] for x in lines if not x.startswith("#")):
            rows = [x for x in lines if x.startswith(module + "\t") and "\t0\t/" not in x]
            seed("darshan", f"{path.stem}-{module}", "\n".join(head + rows[:30]).encode() + b"\n")


def slurm_answers():
    """What Slurm's clients printed (tests/data/slurm): the first byte says who it comes from."""
    for folder in sorted((HERE.parent / "data/slurm").iterdir()):
        for first, client in ((0x24, "sacct"), (0x11, "squeue"), (0xAA, "scontrol"), (0xFC, "sstat")):
            text = (folder / f"{client}.txt").read_bytes().partition(b"\n")[2]
            seed("slurm", f"{folder.name}-{client}", bytes([first]) + text[:6000])
    process = {"pid": 7, "step": "0", "rank": 1, "threads": 2, "cpus": 0.5, "memory_bytes": 1, "state": "R",
               "gpu_memory_bytes": 5, "command": "perl"}
    gpu = {"index": 0, "kind": "k80", "util": 0.1, "memory_bytes": 1, "total_bytes": 2}
    node = {"host": "n1", "at_s": 1.5, "processes": 1, "threads": 2, "cpus": 0.5, "memory_bytes": 1,
            "gpus": [gpu], "process": [process]}
    seed("slurm", "node", b"\xff" + json.dumps(node).encode())


def loaders():
    """The files of the formats, two bytes before each: format, and way to load it."""
    formats = ["tfrecord", "tar", "recordio", "npy", "csv", "json", "jsonl", "npz"]
    for number, name in enumerate(formats):
        for i, path in enumerate(sorted((CORPUS / name).iterdir())[:6]):
            data = path.read_bytes()
            if len(data) <= 4096:
                seed("loader", f"{name}-{path.name}", bytes([number, 37 * (number + 3 * i) % 256]) + data)


# ---- what libraries read in a child process ----------------------------------------------------

def message(kind, blob=b"", chain=0xFFFF, field=0, a=0, b=0, c=0, has_key=0):
    return struct.pack("<BBHIQQQII", kind, has_key, chain, field, a, b, c, len(blob), 0) + blob


def jails():
    """Messages of a child that lists a file, one after another."""
    wire = struct.pack("<BBBB16s8Q", 1, 0, 0, 0, b"raw", *[0] * 8) + b"data"
    zlib_chain = struct.pack("<I10HxxxxQ", 1, 1, *[0] * 9, 4096)
    stripe = struct.pack("<ixxxxqQQQQQ", 0, 0, 1, 0, 100, 100, 0)
    field, ended = message(1, wire), message(251)
    extent = message(4, a=0, b=100)
    seed("jail", "records", field + message(6, b"key", a=10, b=20, has_key=1) * 3 + ended)
    seed("jail", "parts", field + extent + message(7, b"k", has_key=1) + message(8, a=1, b=2, c=0) + ended)
    seed("jail", "chain", message(2, zlib_chain) + field + message(4, a=0, b=50, chain=0) + message(5, a=7))
    seed("jail", "column", field + extent + message(9, stripe, a=1) + ended)
    seed("jail", "notes", message(13, b"link\0name\0why\0") + message(14, b"what\0as\0because\0") +
         message(11, b"damaged", a=5) + message(3, b"context") + message(250) + ended)
    seed("jail", "wrong", message(8, field=9, c=1000) + message(77))


def entries(flags, share, *pairs):
    return bytes([flags, share]) + b"".join(struct.pack("<BH", len(k), len(v)) + k + v for k, v in pairs)


def lmdbs():
    """Entries for a sound file; and small files, which need python3-lmdb to be made again."""
    pairs = [(b"%04d" % i, b"v" * (i * 37 % 300)) for i in range(20)]
    seed("lmdb", "entries", entries(0, 0, *pairs))
    seed("lmdb", "names", entries(0, 0, (b"__len__", b"3"), (b"__keys__", b"x"), (b"\0\xff", b""), (b"k" * 255, b"v")))
    seed("lmdb", "numbers", entries(8 | 1, 255, *[(struct.pack("<Q", i), b"v%d" % i) for i in range(9)]))
    seed("lmdb", "duplicates", entries(8 | 2, 255, *[(b"same", b"value %d" % i) for i in range(9)]))
    seed("lmdb", "several", entries(8 | 16, 128, *pairs[:6]))
    seed("lmdb", "examples", entries(0, 0, *[(b"%d" % i, e) for i, e in enumerate(EXAMPLES.values())]))
    seed("lmdb", "large", entries(0, 0, *[(b"%d" % i, b"x" * 4900) for i in range(3)]))
    try:
        import lmdb
    except ImportError:
        return print("no lmdb: the files among the seeds of fuzz_lmdb stay as they are")
    for name, count, size in (("file-leaf", 5, 20), ("file-tree", 30, 400)):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.mdb"
            env = lmdb.open(str(path), subdir=False, map_size=1 << 20)
            with env.begin(write=True) as txn:
                for i in range(count):
                    txn.put(b"%04d" % i, b"v" * size)
            env.close()
            seed("lmdb", name, path.read_bytes())


def squashfses():
    """Small images of every kind that mksquashfs makes. Needs squashfs-tools."""
    if not shutil.which("mksquashfs"):
        return print("no mksquashfs: the seeds of fuzz_squashfs stay as they are")
    plain = ["-noI", "-noD", "-noF", "-noX"]
    kinds = {"gzip": [], "plain": plain, "zstd": ["-comp", "zstd"], "blocks": [*plain, "-b", "4096", "-no-fragments"],
             "lz4": ["-comp", "lz4"], "xz": ["-comp", "xz", *plain[:1]]}
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "tree"
        (tree / "sub/deep").mkdir(parents=True)
        for name, data in (("a.txt", b"hello"), ("sub/b.bin", bytes(range(256)) * 20), ("sub/empty", b""),
                           ("sub/deep/zeros", bytes(9000)), ("sub/deep/c.cls", b"3")):
            (tree / name).write_bytes(data)
        (tree / "link").symlink_to("a.txt")
        for name, options in kinds.items():
            path = pathlib.Path(folder) / name
            subprocess.run(["mksquashfs", tree, path, "-quiet", "-no-progress", "-nopad", "-all-root", "-mkfs-time",
                            "0", "-all-time", "0", *options], check=True, stdout=subprocess.DEVNULL)
            seed("squashfs", name, path.read_bytes())


# ---- tiers -------------------------------------------------------------------------------------

def tier_list(names, path=b"/data/set", name=b"set"):
    items = b"".join(struct.pack("<QqQII", 100 * i, 10**18 + i, i, 0o644, i % 2) for i in range(len(names)))
    texts = b"".join(text + b"\0" for text in (path, name, *names))
    return b"STKTLIST" + struct.pack("<IIQQQQ", 1, 0, len(names), len(texts), 7, 0) + items + texts


def tiers():
    """The first byte: 0 and 1 a list, 2 and 3 a ledger; odd ones get fitting check values."""
    for name, names in (("some", [b"a/x", b"a/y", b"b"]), ("single", [b""]), ("none", []),
                        ("outside", [b"../x"]), ("twice", [b"a", b"a"]), ("root", [b"/etc/passwd"])):
        seed("tier", f"list-{name}", b"\1" + tier_list(names))
        seed("tier", f"list-{name}-as-is", b"\0" + tier_list(names))
    record = struct.pack("<QQqqQQIIII", 1, (4 << 20) + 100, 5, 6, 7, 2, 2, 9, 0, 0)
    entry = struct.pack("<QII", 123, 9, 0)
    for i in range(16):  # one in some is tried
        seed("tier", f"ledger-{i:02}", b"\3" + record + struct.pack("<QQ", i, 5))
        seed("tier", f"ledger-{i:02}-as-is", b"\2" + record + entry + entry + bytes([i]))


def main():
    protobufs()
    tfrecords()
    tars()
    recordios()
    arrays()
    texts()
    settings()
    studies()
    pages()
    codecs()
    filters()
    types()
    indexes()
    manifests()
    states()
    profiles()
    hdf5s()
    jails()
    lmdbs()
    squashfses()
    images()
    slurm_answers()
    loaders()
    tiers()
    total = sum(p.stat().st_size for p in CORPUS.rglob("*") if p.is_file())
    print(f"{total} bytes in {CORPUS}")


if __name__ == "__main__":
    main()
