"""`stoker tune` of a program that decodes pictures or unpacks files: the loader does that in its own threads,
so it is tried with its own decoder, not with the program's CPU time."""

import gzip
import json
import random
import re
import subprocess
import sys

import pytest

from conftest import STOKER
from profilelib import profile  # noqa: F401

if "libyaml" in subprocess.run([STOKER, "bench", "bert", "--show-workload"], capture_output=True, text=True).stderr:
    pytest.skip("stoker was built without libyaml", allow_module_level=True)
Image = pytest.importorskip("PIL.Image")

SCRIPT = """
import glob, random, sys
from PIL import Image
for epoch in range(2):
    files = sorted(glob.glob(sys.argv[1] + "/*/*"))
    random.Random(epoch).shuffle(files)
    for path in files:
        with open(path, "rb") as f:
            Image.open(f).convert("RGB").resize((64, 64))
"""


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    for i in range(48):
        path = folder / f"class{i % 3}" / f"{i:03}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((240, 200), 40 + i).convert("RGB").save(path)
    return folder


def test_the_loader_decodes(profile, stoker, tmp_path, pictures):  # noqa: F811
    job, out = tmp_path / "job.py", tmp_path / "tune.json"
    job.write_text(SCRIPT)
    p = profile([sys.executable, job, pictures])
    stoker("tune", p.dir, "--only", "loader,threads", "--virtual-storage", "100M,1ms", "--budget", "1s", "--json", out)
    result = json.loads(out.read_text())["result"]
    sets = {c["id"]: c["changes"][0]["set"] or [] for c in result["candidates"] if c["changes"]}
    assert any(s.startswith("reader.decode=image") for s in sets["loader"]), sets
    assert not any("decode" in s for s in sets["threads-4"]), sets
    assert any("decodes the pictures itself" in note for note in result["notes"]), result["notes"]


def test_a_benchmark_decodes(stoker, tmp_path, pictures):
    """--reader stoker with reader.decode: decoded in fact, and not waited for as well."""
    size = sum(p.stat().st_size for p in pictures.glob("*/*")) // 48
    w = tmp_path / "w.yaml"
    w.write_text(f"""
name: pictures
dataset: {{format: replay, path: "{pictures}", files: 48, record: {size}}}
files:
  1: {{path: ".", match: "*.jpg", count: 48, size: {size}, per: 48, opens: 48, requests: 48, bytes: {48 * size}}}
reader: {{threads: 1, think: 3600s, think_as: sleep, decode: "image:32,crop=random"}}
training: {{batch: 8, epochs: 1}}
""")
    out = tmp_path / "r.json"
    stoker("bench", w, "--reader", "stoker", "--no-calibration", "--json", out)
    assert json.loads(out.read_text())["result"]["io"]["samples"] == 48
    broken = pictures / "class1" / "013.jpg"
    broken.write_bytes(broken.read_bytes()[:700] + bytes(broken.stat().st_size - 700))
    assert "013.jpg" in stoker("bench", w, "--reader", "stoker", "--no-calibration", rc=(1, 4)).err
    assert "not a size" in stoker("bench", w, "--reader", "stoker", "--set", "reader.decode=image:0x", rc=(2, 4)).err


UNPACK = """
import glob, gzip, sys
for epoch in range(3):
    for path in sorted(glob.glob(sys.argv[1] + "/*.gz")):
        for line in gzip.open(path, "rb"):
            pass
"""


def think_of(candidate):
    """Seconds per sample that are left to the program; None: as they were."""
    words = [s.split("=") for c in candidate["changes"] for s in c["set"] or []]
    return next((float(value.rstrip("s")) for key, value in words if key == "reader.think"), None)


def unpacked(profile, stoker, tmp_path, script, data):  # noqa: F811
    """CPU seconds per sample of a program, and those that are left to it with the loader."""
    job, out, w = tmp_path / "job.py", tmp_path / "tune.json", tmp_path / "w.yaml"
    job.write_text(script)
    p = profile([sys.executable, job, data])
    stoker("advise", p.dir, "--workload", w)
    think = float(re.search(r"think: ([0-9.]+)s", w.read_text())[1])
    stoker("tune", p.dir, "--only", "loader", "--budget", "1s", "--json", out)
    loader = next(c for c in json.loads(out.read_text())["result"]["candidates"] if c["id"] == "loader")
    return think, think_of(loader)


def test_the_loader_unpacks(profile, stoker, tmp_path):  # noqa: F811
    """Packed without compression, nobody unpacks: that CPU time is not burnt."""
    draw, data = random.Random(3), tmp_path / "data"
    data.mkdir()
    for i in range(4):
        lines = (b'{"id": %d, "text": "%s"}\n' % (k, b" ".join(draw.choices([b"one", b"two", b"three"], k=40)))
                 for k in range(3000))
        (data / f"{i}.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    think, left = unpacked(profile, stoker, tmp_path, UNPACK, data)
    assert think > 0 and left is not None and left < think, (think, left)


CHUNKS = """
import random, sys, h5py
with h5py.File(sys.argv[1]) as f:
    for epoch in range(3):
        for i in random.Random(epoch).sample(range(len(f["x"])), len(f["x"])):
            f["x"][i]
"""


@pytest.mark.parametrize("packed", ["gzip", None])
def test_the_loader_unpacks_chunks(profile, stoker, tmp_path, packed):  # noqa: F811
    """Most compressed data on clusters is HDF5: a job that waits for its CPU would be told "nothing to gain"."""
    h5py, np = pytest.importorskip("h5py"), pytest.importorskip("numpy")
    with h5py.File(tmp_path / "d.h5", "w") as f:
        rows = np.random.default_rng(1).integers(0, 40, (200, 64 << 10)).astype("u1")
        f.create_dataset("x", data=rows, chunks=(1, 64 << 10), compression=packed)
    think, left = unpacked(profile, stoker, tmp_path, CHUNKS, tmp_path / "d.h5")
    assert think > 0 and (left is None or left < think) and (left is not None) == bool(packed), (think, left)


def test_unpacking_is_expected_to_be_saved(stoker, tmp_path):
    """What cannot help is dropped before it is tried: so must not be what saves the CPU that the job waits for."""
    w, out = tmp_path / "w.yaml", tmp_path / "tune.json"
    w.write_text("""
name: compressed
dataset: {format: hdf5, files: 1, samples_per_file: 200, record: 128K, chunk: 128K, compression: gzip}
reader: {threads: 1, prefetch: 2}
training: {batch: 8, compute: 100us}
""")
    stoker("bench", w, "--data", tmp_path / "data", "--generate-only")
    stoker("tune", w, "--data", tmp_path / "data", "--near", tmp_path, "--only", "pack", "--budget", "1s", "--json", out)
    base, pack = json.loads(out.read_text())["result"]["candidates"][:2]
    assert pack["id"] == "pack" and base["predicted_epoch_s"] > 1.5 * pack["predicted_epoch_s"], (base, pack)
