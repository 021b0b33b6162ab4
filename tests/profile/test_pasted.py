"""What `stoker advise` prints is pasted into the program that was profiled: the lines run there, in the
program's own framework, and give its data, all of it where a program validates or does not train."""

import json
import os
import shlex
import subprocess

import pytest

from conftest import IDLE, STOKER
from profilelib import PYTHON, bare_env, profile  # noqa: F401
from slowfslib import slowfs
from test_imagefolder import python_env
from tfrecordlib import frame

pytestmark = pytest.mark.xdist_group("torch")

# Small datasets of every kind, in folders of their own.
MAKE = """
import io, json, pathlib, struct, sys, tarfile
import numpy as np
root = pathlib.Path(sys.argv[1])
for name in "files numbers archives rows table tokens records tars".split():
    (root / name).mkdir()
for i in range(70):
    (root / "files" / f"{i:03}.dat").write_bytes(bytes([i]) * 500)
    np.save(root / "numbers" / f"{i:03}.npy", np.full((3, 2), i, np.float32))
    np.savez(root / "archives" / f"{i:03}.npz", x=np.full((4, 5), i, np.float32), y=np.arange(4))
np.arange(1 << 19, dtype=np.uint16).tofile(root / "tokens" / "t.bin")
(root / "rows" / "r.jsonl").write_text("".join(json.dumps({"a": i, "t": "t" * 300}) + "\\n" for i in range(600)))
(root / "table" / "t.csv").write_text("a,b\\n" + "".join(f"{i},{i * 2}\\n" for i in range(20000)))
with tarfile.open(root / "tars" / "t.tar", "w") as t:
    for i in range(80):
        m = tarfile.TarInfo(f"{i:04}.txt")
        m.size = 1900
        t.addfile(m, io.BytesIO(b"x" * 1900))
"""

MAKE_TORCH = """
import pathlib, sys
import h5py, numpy as np, PIL.Image
root = pathlib.Path(sys.argv[1])
for split, n in (("train", 33), ("val", 33)):
    for c in range(2):
        folder = root / split / f"c{c}"
        folder.mkdir(parents=True)
        for i in range(n):
            PIL.Image.fromarray(np.full((40, 50, 3), 9 * c, np.uint8)).save(folder / f"{i}.png")
(root / "h").mkdir()
with h5py.File(root / "h" / "a.h5", "w") as f:
    f["x"] = np.zeros((40, 500), np.float32)
    f["y"] = np.arange(40)
(root / "arrays").mkdir()
for i in range(70):
    np.save(root / "arrays" / f"{i:03}.npy", np.full((3, 2), i, np.float32))
"""

TORCH = """
import pathlib, sys
import h5py, numpy as np, torch, torchvision
from torchvision import transforms
root = pathlib.Path(sys.argv[1])
class Arrays(torch.utils.data.Dataset):
    files = sorted((root / "arrays").iterdir())
    def __len__(self): return len(self.files)
    def __getitem__(self, i): return torch.from_numpy(np.load(self.files[i])), i
class Rows(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        with h5py.File(root / "h" / "a.h5") as f:
            return torch.from_numpy(f["x"][i]), int(f["y"][i])
transform = transforms.Compose([transforms.RandomResizedCrop(32), transforms.ToTensor()])
for dataset in (torchvision.datasets.ImageFolder(root / "train", transform),
                torchvision.datasets.ImageFolder(root / "val", transform), Arrays(), Rows()):
    for x, y in torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True): pass
"""

PLAIN = {
    "files": """
for p in sorted((root / "files").iterdir()): p.read_bytes()
""",
    "numbers": """
import numpy as np
for p in sorted((root / "numbers").iterdir()): np.load(p)
""",
    "archives": """
import numpy as np
for p in sorted((root / "archives").iterdir()):
    with np.load(p) as z: z["x"], z["y"]
""",
    "records": """
import struct
with open(root / "records/r.tfrecord", "rb", buffering=0) as f:
    while head := f.read(12):
        f.read(struct.unpack("<Q", head[:8])[0]); f.read(4)
""",
    "rows": """
import json
for line in open(root / "rows/r.jsonl"): json.loads(line)
""",
    "table": """
import csv
for row in csv.reader(open(root / "table/t.csv", newline="")): pass
""",
    "tokens": """
import numpy as np
f = open(root / "tokens/t.bin", "rb", buffering=0)
for i in np.random.default_rng(0).integers(0, 1 << 19, 100):
    f.seek(2 * int(i)); np.frombuffer(f.read(128), np.uint16)
""",
    "tars": """
import tarfile
with tarfile.open(root / "tars/t.tar") as t:
    for m in t.getmembers()[::-1]: t.extractfile(m).read()
""",
}
SAMPLES = {"files": 70, "numbers": 70, "archives": 70, "records": 150, "rows": 600, "table": 20000, "tars": 80}

# What the program has: its variables. Then the lines of each finding, as printed.
RUN = """
import json, sys
results = []
for case in json.load(sys.stdin):
    names = {}
    exec(case["prelude"], names)
    exec(compile(case["text"], case["id"], "exec"), names)
    out = {"id": case["id"]}
    for name in ("loader", "val_loader"):
        if name in names:
            out[name] = sum(len(b[0]) if isinstance(b, tuple) else len(next(iter(b.values()))) for b in names[name])
            out[name + " in"] = type(names[name]).__module__
    results.append(out)
print("\\n" + json.dumps(results))
"""

PRELUDE = """
import io
batch, i, length, offset = [3, 1, 2], 0, 10, 0
read = decode = len
files = samples = ["a", "b"]
"""
TORCH_PRELUDE = PRELUDE + """
import h5py, torch
from torch.utils.data import DataLoader
transform = lambda image: 1
dataset = [1, 2, 3]
f = h5py.File(io.BytesIO(), "w"); f["NAME"] = [1, 2, 3]; batch = 2
"""


# Lines for a job script. A busy machine makes the second one of any program that imports torch.
NOT_PASTED = {"stage-to-node", "library-files"}


def pasted(findings, prelude, env, cwd):
    """Runs the shell lines of each finding, then its Python; {id and path: what it gave}."""
    path = f"{STOKER.parent}:{os.environ['PATH']}"
    cases, packed = [], set()
    for f in findings:
        shell = [c["text"] for c in f["code"] if c["language"] == "shell"]
        other = [c["text"] for c in f["code"] if c["language"] == "python"]
        assert len(shell) + len(other) == len(f["code"]), f["code"]
        for line in "".join(shell).splitlines():
            if not line.startswith("stoker "):
                continue
            where = shlex.split(line)[3]  # two findings may name the same result
            if where in packed:
                continue
            packed.add(where)
            subprocess.run(["bash", "-ec", line], check=True, cwd=cwd, stdout=subprocess.DEVNULL,
                           env={**bare_env(), "PATH": path})
        where = os.path.relpath(f["paths"][0], cwd) if f["paths"] else ""
        cases.append({"id": f"{f['id']} {where}", "prelude": prelude, "text": "".join(other)})
    done = subprocess.run([PYTHON, "-c", RUN], env={**bare_env(), **env}, text=True, cwd=cwd,
                          input=json.dumps(cases), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout + "\n".join(c["text"] for c in cases)
    return {r["id"]: r for r in json.loads(done.stdout.splitlines()[-1])}


def no_others(findings, framework):
    """Nothing for a framework that the program does not use."""
    others = {"torch", "tensorflow", "tf.data", "stoker.tf", "DataLoader"} - set(framework)
    text = "\n".join(line for f in findings for line in f["lines"])
    assert not [word for word in others if word in text], text
    assert "<--" not in text


def test_lines_in_plain_programs(profile, tmp_path):
    """A loop over files, arrays, archives of arrays, TFRecord, JSON lines, CSV, random reads of a file, a
    tar: no framework."""
    env = python_env()
    (tmp_path / "source").mkdir()
    subprocess.run([PYTHON, "-c", MAKE, tmp_path / "source"], check=True, env=bare_env())
    (tmp_path / "source/records/r.tfrecord").write_bytes(b"".join(frame(bytes([i % 256]) * 1900) for i in range(150)))
    with slowfs(tmp_path / "source", tmp_path / "mnt", open="2ms", stat="1ms", read="2ms", cache="off") as fs:
        found = []
        for kind, text in PLAIN.items():
            program = f"import pathlib, sys\nroot = pathlib.Path(sys.argv[1])\n{text}"
            p = profile([PYTHON, "-c", program, fs.mnt], "-q")
            if p.rc == 0 and not p.advice["findings"] and not IDLE:
                pytest.skip(f"{kind}: the machine is so busy that reading is no share of the run")
            assert p.rc == 0 and p.advice["findings"], (kind, p.err, p.advice)
            found += [f for f in p.advice["findings"] if f["id"] not in NOT_PASTED]
        no_others(found, [])
        got = pasted(found, PRELUDE + f"f = open({str(fs.mnt / 'tokens/t.bin')!r}, 'rb')", env, fs.mnt)
        loaders = {key: r for key, r in got.items() if "loader" in r}
        for key, r in loaders.items():
            kind = key.split()[1].split("/")[0]
            assert r["loader"] == SAMPLES[kind] and r["loader in"] == "stoker.loader", (key, r)
        assert {"many-small-files files", "many-small-files numbers",
                "many-small-files archives", "csv-to-records rows/r.jsonl",
                "csv-to-records table/t.csv"} <= set(loaders), got
        assert "small-reads records/r.tfrecord" in got, got


def test_lines_in_torch(profile, tmp_path):
    """An ImageFolder for training and validation, arrays in a Dataset, h5py in a Dataset."""
    for module in ("torchvision", "h5py", "PIL"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    env = python_env()
    (tmp_path / "source").mkdir()
    subprocess.run([PYTHON, "-c", MAKE_TORCH, tmp_path / "source"], check=True, env=bare_env())
    with slowfs(tmp_path / "source", tmp_path / "mnt", open="2ms", stat="1ms", read="2ms") as fs:
        p = profile([PYTHON, "-c", TORCH, fs.mnt], "-q")
        assert p.rc == 0, p.err
        found = [f for f in p.advice["findings"] if f["id"] not in NOT_PASTED]
        if not IDLE and sum(f["id"] == "many-small-files" for f in found) < 3:
            pytest.skip("the machine is so busy that reading is no share of the run: nothing to advise")
        no_others(found, ["torch", "DataLoader"])
        got = pasted(found, TORCH_PRELUDE, env, fs.mnt)
    train, val = got["many-small-files train"], got["many-small-files val"]
    assert train["loader in"] == "stoker.torch"
    assert (train["loader"], train["val_loader"], val["loader"]) == (66, 66, 66)
    assert got["many-small-files arrays"]["loader"] == 70
    assert any(key.endswith("h/a.h5") for key in got), got
