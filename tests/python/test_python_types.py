"""The stubs: they say what the package does, and programs that use it pass mypy."""

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

from packagelib import PACKAGE
from pythonlib import plain_environment, stoker

from stoker import _options

FOLDER = PACKAGE / "stoker"
ALIASES = {"drop_last", *_options.ALIASES, *_options.WITHOUT_EFFECT}
PROGRAM = '''
from typing import Any
import stoker
import stoker.torch
import torch

ds = stoker.Dataset("a", format="csv", types={"x": "int"}, header=True)
sample: dict[str, Any] = ds[3]
train, val = ds.split(0.9, 0.1, seed=1, stratify="label")
part: stoker.View = ds[:10].subset([1, 2, 3])
decode: str = stoker.image(224, crop="random", flip=True, mean=(0.5, 0.5, 0.5), layout="chw")
batch: stoker.Batch
for batch in stoker.Loader(train, batch_size=8, shuffle=True, drop_last=False, num_workers=2):
    n: int = len(batch)
    ids = batch.ids.tolist()
    x = batch["x"] + batch.epoch
for x, y in stoker.Loader("path", 32, as_tuple=("x", "label"), decode=decode):
    pass
for out in stoker.Loader(part, transform=lambda s: s["x"], workers=4, collate=sum, weights=[1.0, 2]):
    pass
loader = stoker.torch.Loader(val, batch=8, device="cuda", pin_memory=True, sampler=lambda e: range(e))
b: stoker.torch.Batch
for b in loader:
    t: torch.Tensor = b.ids
saved: dict[str, Any] = loader.state_dict()
loader.load_state_dict(saved)
state: str = loader.state()
try:
    list(stoker.Loader(ds, state=state, last="pad", on_error="skip", memory="1G"))
except stoker.TransformError as e:
    print(e.key, e.path)
with stoker.phase("load"):
    stoker.step()
rank: int = stoker.rank().rank
with stoker.arrays.File("a.h5", "r", packed={"a.h5": "b"}) as f:
    row = f["x"][3]
file = stoker.files.open("a/1.jpg", "rb", packed={"a": "b"})
mapped = stoker.arrays.load("a.npy", mmap_mode="r", packed={"a.npy": "b"})[3]
'''
WRONG = {
    'stoker.Loader("a", batch_sise=3)': "batch_sise",
    'stoker.Loader("a", shuffle="random")': "shuffle",
    'stoker.Loader(3)': "Argument 1",
    'b: stoker.Batch; b.ident': "ident",
    'stoker.Dataset("a", formt="csv")': "formt",
    'stoker.Dataset("a").split("x")': "split",
    'stoker.image(224, turn=1)': "turn",
}


def stub(module):
    return ast.parse((FOLDER / f"{module}.pyi").read_text())


def body_of(tree, name):
    return next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body


def arguments(cls, name, body):
    """Of each overload of a method."""
    found = [f.args for f in body if isinstance(f, ast.FunctionDef) and f.name == name]
    return [[a.arg for a in (*f.args[1:], *f.kwonlyargs)] for f in found]


@pytest.mark.parametrize("module, cls", [("dataset", "Dataset"), ("loader", "Loader"),
                                         ("torch", "Loader")])
def test_options(module, cls):
    """Every option is in the stub, and nothing else."""
    if module == "torch":
        pytest.importorskip("torch", reason="python3-torch is not installed")
        importlib.import_module("stoker.torch")
    known = {name for c in getattr(getattr(stoker, module), cls).__mro__[:2 if module == "torch" else 1]
             for name in inspect.signature(c.__init__).parameters}
    if cls == "Loader":
        known |= {*_options.DATASET, *ALIASES}
    known -= {"self", "dataset_options", "options"}
    for given in arguments(cls, "__init__", body_of(stub(module), cls)):
        assert set(given) == known and len(given) == len(known)


@pytest.mark.parametrize("module, cls", [
    ("dataset", "Samples"), ("dataset", "Dataset"), ("dataset", "View"), ("loader", "Batch"),
    ("loader", "Loader"), ("torch", "Loader"), ("torch", "MapDataset"), ("torch", "IterDataset")])
def test_methods(module, cls):
    """Every public method and property is in the stub, with the same arguments."""
    if module == "torch":
        pytest.importorskip("torch", reason="python3-torch is not installed")
        importlib.import_module("stoker.torch")
    real = getattr(getattr(stoker, module), cls)
    body = body_of(stub(module), cls)
    said = {f.name for f in body if isinstance(f, ast.FunctionDef)}
    there = {name for name, value in vars(real).items() if not name.startswith("_")
             and (callable(value) or isinstance(value, property))} - {"handle"}
    inherited = {name for c in real.__mro__[1:] for name in vars(c)} | {"path"}
    attributes = {a.target.id for a in body if isinstance(a, ast.AnnAssign)}
    assert there - inherited <= said | attributes and said - {"__init__"} <= set(dir(real))
    for name in there & said:
        if inspect.isfunction(vars(real)[name]):
            parameters = [p.name for p in inspect.signature(vars(real)[name]).parameters.values()
                          if p.kind is not p.VAR_POSITIONAL][1:]
            assert arguments(cls, name, body)[0] == parameters, name


def test_names():
    """What `import stoker` gives is what the stub says."""
    tree, said = stub("__init__"), set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            said.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            said |= {a.asname for a in node.names if a.asname}
    assert said - {"arrays", "files", "tf", "torch"} == set(stoker.__all__) - {"__version__"}
    assert (FOLDER / "py.typed").exists()


@pytest.mark.xdist_group("mypy")
def test_mypy(tmp_path):
    """A program that is right passes in strict mode, and each mistake is found."""
    pytest.importorskip("mypy", reason="python3-mypy is not installed")
    (tmp_path / "right.py").write_text(PROGRAM)
    (tmp_path / "wrong.py").write_text("import stoker\n" + "".join(f"{line}\n" for line in WRONG))
    (tmp_path / "torch").mkdir()  # PyTorch itself would take mypy half a minute
    (tmp_path / "torch/__init__.pyi").write_text(
        "from typing import Any\nfrom torch import utils as utils\n"
        "class Tensor: ...\nclass device: ...\n")
    (tmp_path / "torch/utils").mkdir()
    (tmp_path / "torch/utils/__init__.pyi").write_text("from torch.utils import data as data\n")
    (tmp_path / "torch/utils/data.pyi").write_text(
        "from typing import Generic, TypeVar\nT = TypeVar('T')\n"
        "class Dataset(Generic[T]): ...\nclass IterableDataset(Dataset[T]): ...\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir=/dev/null",
         "right.py", "wrong.py"], cwd=tmp_path, env=plain_environment(MYPYPATH=str(PACKAGE)),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert [line for line in said if not line.startswith("wrong.py")] == [], done.stdout
    lines = {int(line.split(":")[1]): line for line in reversed(said)}
    for number, (line, word) in enumerate(WRONG.items(), 2):
        assert number in lines, f"mypy does not mind {line}\n{done.stdout}"
        assert word in lines[number]
