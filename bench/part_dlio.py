"""dlio: DLIO and `stoker bench --dlio` side by side: the same workload file on the same files.

STOKER_DLIO names the program dlio_benchmark. The dataset is stoker's, its files then filled with
what DLIO's readers expect: small samples, so that the benchmark itself is what is measured.
"""

import datetime
import io
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
import zipfile

from common import STOKER, Failed, interleaved, median, table

SIDE = 64           # of a sample: 64 x 64 bytes
BATCH = 10
COMPUTE_S = 0.05    # of a step, where utilisation is measured
LOADERS = {"npz": "pytorch", "tfrecord": "tensorflow"}
WORKLOAD = """model: {{name: side, type: cnn}}
framework: {loader}
workflow: {{generate_data: False, train: True, checkpoint: False}}
dataset:
  data_folder: {folder}
  format: {format}
  num_files_train: {files}
  num_samples_per_file: 1
  record_length: {bytes}
reader: {{data_loader: {loader}, batch_size: {batch}, read_threads: 1, file_shuffle: seed, sample_shuffle: seed}}
train: {{epochs: 1, computation_time: {compute}, total_training_steps: {steps}}}
"""


# ---- files that both read ---------------------------------------------------------------------

def npy(shape, descr, payload):
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + payload


def npz_file():
    """As numpy.savez(x=..., y=[0]) writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("x.npy", npy((SIDE, SIDE, 1), "|u1", os.urandom(SIDE * SIDE)))
        z.writestr("y.npy", npy((1,), "<i8", bytes(8)))
    return out.getvalue()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def field(number, data):
    """One field of a protocol buffer that has a length."""
    size, n = b"", len(data)
    while n > 127:
        size += bytes([n & 127 | 128])
        n >>= 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data


def tfrecord_file():
    """One tf.train.Example with the features image and size."""
    image = field(1, b"image") + field(2, field(1, field(1, os.urandom(SIDE * SIDE))))
    size = field(1, b"size") + field(2, field(3, field(1, bytes([SIDE * SIDE & 127 | 128, SIDE * SIDE >> 7]))))
    example = field(1, field(1, image) + field(1, size))
    length = struct.pack("<Q", len(example))
    return length + crc32c(length) + example + crc32c(example)


def make(bench, fmt, files, conf):
    folder = bench.fresh(f"dlio-{fmt}-{files}")
    write_conf(conf, fmt, folder, files, 0, 1)
    run_quietly([STOKER, "bench", "--dlio", conf, "--data", folder, "--generate-only"])
    content = npz_file() if fmt == "npz" else tfrecord_file()
    for path in (folder / "train").iterdir():
        path.write_bytes(content)
    (folder / "valid").mkdir()  # DLIO lists it even if there is nothing to evaluate
    os.sync()
    return folder


def write_conf(conf, fmt, folder, files, compute, steps):
    conf.write_text(WORKLOAD.format(loader=LOADERS[fmt], format=fmt, folder=folder, files=files, bytes=SIDE * SIDE,
                                    batch=BATCH, compute=compute, steps=steps))


# ---- runs -------------------------------------------------------------------------------------

def run_quietly(argv, env=None):
    done = subprocess.run(list(map(str, argv)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    if done.returncode:
        raise Failed(f"{argv[0]}: status {done.returncode}: {done.stdout.decode(errors='replace')[-1500:]}")


def descendants(pid):
    found, new = {pid}, {pid}
    while new:
        more = set()
        for p in new:
            try:
                for task in os.listdir(f"/proc/{p}/task"):
                    more |= set(map(int, pathlib.Path(f"/proc/{p}/task/{task}/children").read_text().split()))
            except OSError:
                pass
        new = more - found
        found |= new
    return found


def resident(pid):
    """Bytes in memory of a process and its children; what they share is counted once."""
    total = 0
    for p in descendants(pid):
        try:
            text = pathlib.Path(f"/proc/{p}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
    return total


def watched(argv, env, log):
    """(time of the start, seconds, largest resident size)."""
    peak, start, begun = 0, time.time(), time.monotonic()
    with open(log, "wb") as out:
        process = subprocess.Popen(list(map(str, argv)), stdout=out, stderr=subprocess.STDOUT, env=env)
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.02 if time.monotonic() - begun < 2 else 0.2)
    if process.returncode:
        raise Failed(f"{argv[0]}: status {process.returncode}: {pathlib.Path(log).read_text(errors='replace')[-1500:]}")
    return start, time.monotonic() - begun, peak


class Side:
    """A workload of one size for one of the two programs."""

    def __init__(self, bench, fmt, files, folder, steps):
        self.bench, self.fmt, self.files, self.folder, self.steps = bench, fmt, files, folder, steps
        self.conf = bench.dir / "conf/workload/side.yaml"
        self.found = {"stoker": [], "DLIO": []}

    def stoker(self, compute):
        out = self.bench.dir / "side.json"
        write_conf(self.conf, self.fmt, self.folder, self.files, compute, self.steps)
        _, wall, peak = watched([STOKER, "bench", "--dlio", self.conf, "--data", self.folder, "--no-calibration",
                                 "--json", out], None, self.bench.dir / "side.log")
        result = json.loads(out.read_text())["result"]
        rank = result["per_rank"][0]
        return {"samples_per_s": self.steps * BATCH / rank["elapsed_seconds"], "start_s": wall - rank["elapsed_seconds"],
                "resident": max(peak, result["memory_bytes"]), "utilisation": result["utilisation_mlperf"]}

    def dlio(self, compute):
        out = self.bench.fresh("dlio-out")
        write_conf(self.conf, self.fmt, self.folder, self.files, compute, self.steps)
        env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "DLIO_LOG_LEVEL": "warning", "TF_CPP_MIN_LOG_LEVEL": "3"}
        start, _, peak = watched([os.environ["STOKER_DLIO"], "--config-dir", self.conf.parent.parent, "workload=side",
                                  f"hydra.run.dir={out}", f"++workload.output.folder={out}"], env,
                                 self.bench.dir / "side.log")
        epoch = json.loads((out / "per_epoch_stats.json").read_text())["1"]
        summary = json.loads((out / "summary.json").read_text())
        begun = datetime.datetime.fromisoformat(epoch["block1"]["start"]).timestamp()
        return {"samples_per_s": self.steps * BATCH / float(epoch["block1"]["duration"]), "start_s": begun - start,
                "resident": peak, "utilisation": summary["metric"]["train_au_mean_percentage"] / 100}

    def once(self, name, compute):
        found = self.stoker(compute) if name == "stoker" else self.dlio(compute)
        self.found[name].append({**found, "compute_s": compute})

    def of(self, name, key, compute):
        return median([f[key] for f in self.found[name] if (f["compute_s"] > 0) == compute])


def rows_of(side):
    def row(name):
        return [f"{side.fmt}, {side.files:,} files, {name}", f"{side.of(name, 'samples_per_s', False):,.0f}",
                f"{side.of(name, 'utilisation', True):.1%}", f"{side.of(name, 'resident', False) / 1e6:,.0f}",
                f"{side.of(name, 'start_s', False):.2f}"]
    return [row("stoker"), row("DLIO")]


def run(bench, python):
    del python
    program = os.environ.get("STOKER_DLIO")
    if not program or not os.access(program, os.X_OK):
        print("dlio: not measured: DLIO is not there (STOKER_DLIO names the program dlio_benchmark)\n")
        return
    sizes = (100, 1000) if bench.quick else (1000, 10000, 100000)
    conf = bench.dir / "conf/workload/side.yaml"
    conf.parent.mkdir(parents=True)
    rows, sides = [], []
    print(f"dlio: one rank, one reader, batches of {BATCH} samples of {SIDE * SIDE} bytes, a file each, from the page"
          f" cache; utilisation with {COMPUTE_S * 1e3:.0f} ms of computing per step\n", flush=True)
    for fmt in LOADERS:
        for files in sizes:
            steps = min(files // BATCH, 100 if files < 50000 else 40)
            try:
                side = Side(bench, fmt, files, make(bench, fmt, files, conf), steps)
                for compute in (0, COMPUTE_S):
                    interleaved({name: lambda n=name, c=compute: side.once(n, c) for name in side.found},
                                min(bench.repeats, 3))
                rows += rows_of(side)
                sides.append({"format": fmt, "files": files, "steps": steps, "found": side.found})
            except Failed as e:
                print(f"  {fmt}, {files:,} files: did not run: {e}", file=sys.stderr)
            bench.forget(f"dlio-{fmt}-{files}")
    table(["workload", "samples/s", "utilisation", "resident MB", "start-up s"], rows)
    bench.results["dlio"] = {"batch": BATCH, "sample_bytes": SIDE * SIDE, "compute_s": COMPUTE_S, "sides": sides}
