"""stoker tune --apply: the data is made ready, and a patch lies beside the script, which stays as it is."""

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from conftest import run_stoker
from packagelib import environment

pytestmark = pytest.mark.xdist_group("torch")  # importing it takes a while
PICTURES = """
import os, sys
import torch
from torchvision import datasets, transforms as T
transform = T.Compose([T.Resize(32), T.CenterCrop(24), T.ToTensor()])
train = datasets.ImageFolder(os.path.join(sys.argv[1], "train"), transform)
val = datasets.ImageFolder(os.path.join(sys.argv[1], "val"), transform)
batches = torch.utils.data.DataLoader(train, batch_size=4, shuffle=True)
print(type(batches).__module__)
print(sorted((y.item(), round(x.double().sum().item(), 4)) for xs, ys in batches for x, y in zip(xs, ys)))
print([(y.item(), round(x.double().sum().item(), 4)) for xs, ys in torch.utils.data.DataLoader(val, 4) for x, y in zip(xs, ys)])
"""
ROWS = """
import sys
import h5py
import torch
class Rows(torch.utils.data.Dataset):
    def __init__(self, path):
        self.rows = h5py.File(path, "r")["rows"]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, i):
        return torch.from_numpy(self.rows[i])
"""
MAIN = """
import sys
import torch
from rows import Rows
print(sum(x.sum().item() for x in torch.utils.data.DataLoader(Rows(sys.argv[1] + "/rows.h5"), batch_size=8)))
"""
# No Debian has TensorFlow: its one call that matters here, and a dataset that reads files.
TENSORFLOW = """
class _Records(list):
    def __init__(self, path):
        super().__init__(open(path, "rb").read().split(b"|"))
class data:
    TFRecordDataset = _Records
"""


def pictures(root):
    image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    for i in range(18):
        folder = root / ("train" if i < 12 else "val") / f"class{i % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (40 + i, 60 - i), (20 * i, 255 - 20 * i, 7)).save(folder / f"{i}.png")


def run(*command, cwd):
    return subprocess.run([str(c) for c in command], cwd=cwd, env=environment(), capture_output=True, text=True,
                          check=True).stdout


# Gains do not matter here: the replay is of a second that takes no time.
SHORT = ["--virtual-storage", "100M,1ms", "--budget", "1s"]


def applied(cwd, choice, command, *options):
    """The result of tune with the change of that id applied."""
    return run_stoker("tune", *SHORT, "--choose", choice, "--apply", cwd / "packed", "--json", "-",
                      *options, "--", *command, env=environment(), cwd=cwd).json()["result"]


def not_seen_to_change(*packed):
    """What happens to the files after that is not noticed: the bytes come from the packed data, or a test fails."""
    for folder in packed:
        for manifest in folder.rglob("manifest.json"):
            os.utime(manifest, (2**32, 2**32))


def test_a_script_with_pictures(tmp_path):
    """The user packs, applies the diff, and gets the same pictures from the packed dataset: those to train with, and,
    in order, those for validation. Neither is among the others."""
    pictures(tmp_path / "data")
    (tmp_path / "train.py").write_text(PICTURES)
    command = [sys.executable, "train.py", "data"]
    before = run(*command, cwd=tmp_path)
    result = applied(tmp_path, "pack", command, "--only", "pack")
    assert result["best"] == "pack" and result["chosen"]
    assert (tmp_path / "train.py").read_text() == PICTURES
    assert result["patch"] == str(tmp_path / "train.py.stoker.diff")
    not_seen_to_change(tmp_path / "packed")
    for path in (tmp_path / "data").rglob("*.png"):
        path.write_bytes(b"")  # the names are still listed, the bytes are in the packed dataset
    lines = next(c for c in result["candidates"] if c["id"] == "pack")["lines"]
    assert f"stoker pack {tmp_path}/data/train {tmp_path}/packed/train --format tfrecord --shuffle 1\n" in lines
    assert f"stoker pack {tmp_path}/data/val {tmp_path}/packed/val --format tfrecord\n" in lines
    validation = next(line for line in lines.splitlines() if line.startswith("val_loader = "))
    assert f'"{tmp_path}/packed/val"' in validation and 'shuffle="none", last="short"' in validation
    assert "ADAPT: your batch size" in lines  # the profile does not know it
    run("sh", "-c", result["patch_command"], cwd="/")
    after = run(*command, cwd=tmp_path).splitlines()
    assert after == ["stoker._dataloader", *before.splitlines()[1:]]


def test_rows_of_hdf5_in_a_module_of_the_script(tmp_path, other_storage):
    """The Dataset is in another file of the project: the diff is for that one."""
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    h5py = pytest.importorskip("h5py", reason="python3-h5py is not installed")
    (tmp_path / "data").mkdir()
    with h5py.File(tmp_path / "data/rows.h5", "w") as f:
        f["rows"] = torch.arange(4096.).reshape(64, 64).numpy()
    (tmp_path / "train.py").write_text(MAIN)
    (tmp_path / "rows.py").write_text(ROWS)
    command = [sys.executable, "train.py", "data"]
    result = applied(tmp_path, "stage-near1", command, "--only", "stage", "--near", other_storage)
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["rows.h5"]  # no index, either
    lines = next(c for c in result["candidates"] if c["id"] == "stage-near1")["lines"]
    assert f"DATA=$(stoker stage {tmp_path}/data/rows.h5 {other_storage})\n" in lines  # the place that was named
    (tmp_path / "data/rows.h5").rename(tmp_path / "elsewhere")  # only the copy is there now
    run("sh", "-c", result["patch_command"], cwd="/")
    assert (tmp_path / "train.py").read_text() == MAIN and "stoker.moved(path" in (tmp_path / "rows.py").read_text()
    assert run(*command, cwd=tmp_path) == f"{float(sum(range(4096)))}\n"


FILES = """
import glob, os, sys
import torch
class Files(torch.utils.data.Dataset):
    def __init__(self, root):
        self.paths = sorted(glob.glob(root + "/*"))
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, i):
        with open(self.paths[i], "rb") as f:
            return int(os.path.basename(self.paths[i])[:-4]), sum(f.read())
"""


@pytest.mark.parametrize("choice", ["pack", "loader"])
def test_packed_rows_of_hdf5(tmp_path, choice):
    """The user of an HDF5 file packs it, or lets stoker's loader read it, applies the diff, and gets the same numbers
    through stoker: no row is read by h5py."""
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    h5py = pytest.importorskip("h5py", reason="python3-h5py is not installed")
    (tmp_path / "data").mkdir()
    with h5py.File(tmp_path / "data/rows.h5", "w") as f:
        f["rows"] = torch.arange(4096.).reshape(64, 64).numpy()
    (tmp_path / "train.py").write_text(MAIN)
    (tmp_path / "rows.py").write_text(ROWS)
    command = [sys.executable, "train.py", "data"]
    before = run(*command, cwd=tmp_path)
    result = applied(tmp_path, choice, command, "--only", choice)
    run("sh", "-c", result["patch_command"], cwd="/")
    assert "stoker.torch.DataLoader(" in (tmp_path / "train.py").read_text()
    assert "stoker.arrays.File(path" in (tmp_path / "rows.py").read_text()
    if choice != "loader":
        seen = (tmp_path / "data/rows.h5").stat()
        with h5py.File(tmp_path / "data/rows.h5", "r+") as f:
            f["rows"][1:-1] = 0  # the first and the last row are compared
        os.utime(tmp_path / "data/rows.h5", ns=(seen.st_atime_ns, seen.st_mtime_ns))
        not_seen_to_change(tmp_path / "packed")
    assert run(*command, cwd=tmp_path) == before


@pytest.mark.parametrize("choice", ["pack", "pack-near1"])
def test_files_that_a_dataset_opens(tmp_path, other_storage, choice):
    """A file per sample: the same bytes from the packed dataset, and none from the files. The next job, on
    a node without the copy, reads the packed dataset where it is, not the files."""
    pytest.importorskip("torch", reason="python3-torch is not installed")
    (tmp_path / "data").mkdir()
    for i in range(40):
        (tmp_path / f"data/{i:02}.bin").write_bytes(bytes([i]) * 3000)
    (tmp_path / "train.py").write_text(FILES + "for x, y in torch.utils.data.DataLoader(Files(sys.argv[1]), 8):\n"
                                       "    print(x.tolist(), y.tolist())\n")
    command = [sys.executable, "train.py", "data"]
    before = run(*command, cwd=tmp_path)
    result = applied(tmp_path, choice, command, "--only", "pack", "--near", other_storage)
    copy_it, check = result["check_commands"].splitlines()  # --check compares a patched copy with the script
    run("sh", "-c", copy_it, cwd="/")
    words = shlex.split(check)
    assert words[:3] == ["stoker", "tune", "--check"] and words[4:] == ["--", *command]
    assert run(*shlex.split(words[3]), cwd=tmp_path) == before and words[3].split()[1] != command[1]
    run("sh", "-c", result["patch_command"], cwd="/")
    not_seen_to_change(tmp_path / "packed", other_storage)
    for i in range(1, 40):  # the first one is compared
        (tmp_path / f"data/{i:02}.bin").write_bytes(b"")
    assert run(*command, cwd=tmp_path) == before
    assert bool(os.listdir(other_storage)) == (choice == "pack-near1")
    shutil.rmtree(other_storage)
    other_storage.mkdir()
    assert run(*command, cwd=tmp_path) == before


def test_a_module_with_tf_data(tmp_path, other_storage):
    """python -m pkg, and tf.data over files."""
    package = tmp_path / "pkg"
    package.mkdir()
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import glob, sys\nimport tensorflow as tf\n"
                                         "print(sum(len(r) for f in sorted(glob.glob(sys.argv[1] + '/*'))\n"
                                         "          for r in tf.data.TFRecordDataset(f)))\n")
    (tmp_path / "data").mkdir()
    for i in range(3):
        (tmp_path / f"data/{i}.bin").write_bytes(b"abc|defg" * 500)
    command = [sys.executable, "-m", "pkg", tmp_path / "data"]
    before = run(*command, cwd=tmp_path)
    result = applied(tmp_path, "stage-near1", command, "--only", "stage", "--near", other_storage)
    again = applied(tmp_path, "stage-near1", command, "--only", "stage", "--near", other_storage)
    assert again["patch"] == str(package / "__main__.py.stoker-2.diff")  # not over the first
    assert result["script"] == "pkg" and result["patch"] == str(package / "__main__.py.stoker.diff")
    shutil.copytree(package, tmp_path / "new/pkg")
    shutil.copy(tmp_path / "tensorflow.py", tmp_path / "new")  # a module of the program, here
    run("sh", "-c", result["patch_command"].replace(f"-d {tmp_path}", f"-d {tmp_path}/new"), cwd="/")
    after = f"cd new; PYTHONPATH=..:$PYTHONPATH {sys.executable} -m pkg {tmp_path}/data"
    checked = run_stoker("tune", "--check", after, "--runs", 2, "--json", "-", "--", *command, env=environment(), cwd=tmp_path).json()
    assert checked["result"]["check"]["pairs"] == 2 and not checked["result"]["check"]["failed_after"]
    run("sh", "-c", result["patch_command"], cwd="/")
    for path in (tmp_path / "data").iterdir():
        path.write_bytes(b"")  # the names are still listed, the bytes are in the copy
    assert run(*command, cwd=tmp_path) == before


def test_a_script_that_is_not_understood(tmp_path):
    """Said plainly, with the lines to change by hand; the packed data is there."""
    (tmp_path / "data").mkdir()
    for i in range(8):
        (tmp_path / f"data/{i}.bin").write_bytes(b"x" * 5000)
    (tmp_path / "read.py").write_text("import glob, os\nfor p in glob.glob('data/*'):\n"
                                      "    os.read(os.open(p, os.O_RDONLY), 5000)\n")
    done = run_stoker("tune", *SHORT, "--choose", "pack", "--only", "pack", "--apply", "packed", "--",
                      sys.executable, "read.py", env=environment(), cwd=tmp_path)
    assert "no call that this patch could change" in done.out and "stoker.Loader" in done.out
    done = run_stoker("tune", *SHORT, "--choose", "pack", "--only", "pack", "--", sys.executable, "read.py",
                      env=environment(), cwd=tmp_path)
    assert " ".join(done.out.split()).endswith(" The same with --apply DST makes the data ready, and writes a patch for read.py, if it knows its calls.")
    assert (tmp_path / "packed/manifest.json").exists()
    assert {p.name for p in tmp_path.iterdir()} - {"xdg-cache"} == {"data", "packed", "read.py"}
    done = run_stoker("tune", "--apply", "packed", "--", "touch", "ran", cwd=tmp_path, rc=2)  # before hours of runs
    assert "--apply packs into a new folder" in done.err and not (tmp_path / "ran").exists()
    done = run_stoker("tune", *SHORT, "--choose", "nothing", tmp_path / "data", rc=2)
    assert "is not a change that is possible here (" in done.err
