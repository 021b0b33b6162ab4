"""`stoker tune` of a program that decodes pictures: the loader decodes them in its own threads, so it is
tried with its own decoder, not with the program's CPU time."""

import json
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
    stoker("tune", p.dir, "--only", "loader,threads", "--budget", "6s", "--json", out)
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
