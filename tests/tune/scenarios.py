"""The planted scenarios: a job with one fault, the storage that shows it, and the change that `stoker
tune` must find. "best" lists kinds: the recommended candidate must have one of them among its changes;
an empty list means that nothing may be recommended.

`make check-tune` runs them on slowfs ("storage"), by the clock; tests/cli/test_tune_scenarios.py on
virtual storage ("virtual": rate and latency), where all is exact. A virtual clock does not know what
unpacking costs, or a second storage: None."""

import os
import random

FAST = dict(read="50us")


def compressible(folder, seed, files=48, size=1 << 20):
    """Files of which zstd leaves about a quarter."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    for i in range(files):
        words = [rng.randbytes(16) for _ in range(256)]
        (folder / f"{i:05d}.bin").write_bytes(b"".join(rng.choices(words, k=size // 16)))


def table(folder, seed):
    """Small samples, and a table that the job reads again for each of them."""
    rng = random.Random(seed)
    (folder / "samples").mkdir(parents=True)
    for i in range(320):
        (folder / "samples" / f"{i:05d}.bin").write_bytes(rng.randbytes(2048))
    (folder / "labels.csv").write_bytes(b"name,class\n" * 2000)


SCENARIOS = {
    "small-files": dict(
        storage=dict(open="2ms", stat="1ms", read="1ms"),
        virtual="1G,10ms",  # 32 reads at once of the loader do not hide it
        best=["pack", "compress", "squashfs"],
        workload="""
dataset: {format: files, files: 1200, record: 20K}
access: {sharing: shared, shuffle: samples}
reader: {threads: 2, prefetch: 2}
training: {batch: 48, compute: 3ms}
"""),
    "small-requests": dict(
        storage=dict(read="1ms", cache="off"),
        virtual="1G,1ms",
        best=["request"],
        workload="""
dataset: {format: tfrecord, files: 4, samples_per_file: 250, record: 64K}
access: {transfer: 8K}
reader: {threads: 1, prefetch: 2}
training: {batch: 16, compute: 20ms}
"""),
    "same-data": dict(
        storage=FAST,
        virtual="1G,1ms",
        best=["shard", "loader"],  # the loader divides the samples as well
        workload="""
dataset: {format: hdf5, files: 1, samples_per_file: 1600, record: 16K}
access: {sharing: shared, offsets: same}
reader: {threads: 1, prefetch: 2}
training: {ranks: 4, batch: 8, compute: 10ms}
"""),
    "file-per-sample": dict(
        storage=dict(open="1ms", stat="200us", read="300us"),
        virtual="1G,1ms",
        best=["keep"],
        make=table,
        workload="""
dataset: {format: replay, path: "DATA", files: 320, record: 2048}
files:
  1: {path: samples, count: 320, size: 2048, per: 320, opens: 320, requests: 320, bytes: 655360}
  2: {path: labels.csv, count: 1, size: 22000, per: 320, opens: 2560, requests: 2560, bytes: 56320000}
access: {sharing: shared, shuffle: samples}
reader: {threads: 8, prefetch: 8}
training: {batch: 16, compute: 3ms}
"""),
    "slow-link": dict(
        storage=dict(read="200us", bandwidth="30MB"),
        virtual="30M,200us,shared",
        best=["compress"],
        make=compressible,
        workload="""
dataset: {format: replay, path: "DATA", files: 48, record: 1M}
files:
  1: {path: ".", count: 48, size: 1048576, per: 48, opens: 48, requests: 48, bytes: 50331648}
access: {sharing: shared, shuffle: samples}
reader: {threads: 4, prefetch: 8}
training: {batch: 2, compute: 5ms}
"""),
    "compressed": dict(
        storage=FAST,
        virtual=None,
        best=["pack"],
        workload="""
dataset: {format: hdf5, files: 1, samples_per_file: 600, record: 128K, chunk: 128K, compression: gzip}
access: {sharing: shared}
reader: {threads: 1, prefetch: 2}
training: {batch: 8, compute: 500us}
"""),
    "checkpoints": dict(
        storage=dict(write="2ms", bandwidth="60MB"),
        virtual=None,
        best=["checkpoint"],
        near=True,
        workload="""
training: {steps: 80, compute: 10ms}
checkpoint: {every: 8, files: [8M], fsync: yes}
"""),
    "optimal": dict(
        storage=FAST,
        virtual="1G,50us",
        best=[],
        workload="""
dataset: {format: tfrecord, files: 4, samples_per_file: 256, record: 64K}
access: {transfer: 1M}
reader: {threads: 2, prefetch: 8}
training: {batch: 8, compute: 40ms}
"""),
}


def write(name, seed, folder, path):
    """The workload of a scenario, whose data is in `folder`, as the file `path`."""
    text = f"name: {name}\n" + SCENARIOS[name]["workload"].replace("DATA", str(folder))
    if "dataset:" in text and "replay" not in text:
        text = text.replace("dataset: {", f"dataset: {{seed: {seed}, ")
    path.write_text(text)


def kinds_of(candidate):
    """Ids of changes without their numbers: "threads-16" is "threads", "pack-zstd" is "compress"."""
    ids = [c["id"] for c in candidate["changes"]]
    return {"compress" if i.startswith("pack-zstd") else i.split("-")[0] for i in ids}


def found(name, result):
    """Whether tune recommends what was planted."""
    want = set(SCENARIOS[name]["best"])
    best = next((c for c in result["candidates"] if c["id"] == result["best"]), None)
    return bool(want & kinds_of(best)) if best and want else not best and not want


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("STOKER_")}
