"""What `stoker advise` prints is pasted into programs: the lines run as they stand."""

import ast
import builtins
import itertools
import os
import re
import subprocess

import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed")
PIL = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")

from codelib import only, printed  # noqa: E402
from conftest import ROOT, STOKER, run_stoker  # noqa: E402
from pythonlib import plain_environment, stoker  # noqa: E402

import numpy as np  # noqa: E402
import torch.utils.data  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")
TRAIN, VAL = 14, 5  # images of a class


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """train/ and val/ with three classes of images."""
    root = tmp_path_factory.mktemp("a set's images")
    for (split, n), c in itertools.product([("train", TRAIN), ("val", VAL)], range(3)):
        folder = root / split / f"class{c}"
        folder.mkdir(parents=True)
        for i in range(n):
            pixels = np.full((250 + i, 260, 3), 80 * c + 10, np.uint8)
            PIL.fromarray(pixels).save(folder / f"{i}.png")
    return root


@pytest.fixture(scope="module")
def advised(images):
    """Code of the finding of train/ and of val/; what it says to pack is packed."""
    found = printed("test_advice", "--lines", str(images))
    by_split = {s: found[f"many-small-files {images / s}"] for s in ("train", "val")}
    for found in by_split.values():
        for text in only("shell", found):
            run_shell(text)
    return by_split


def run_shell(text, **more):
    """As pasted, with the stoker under test."""
    subprocess.run(["bash", "-ec", text], check=True, **more,
                   env={**plain_environment(), "PATH": f"{STOKER.parent}:{os.environ['PATH']}"})


def blocks(found):
    """The Python of a finding, cut where another way is shown."""
    return [part for text in only("python", found) for part in re.split(r"^(?=# or)", text, flags=re.M)]


def transform(image):
    """As a program would have it."""
    return torch.from_numpy(np.array(image.resize((32, 32)))).permute(2, 0, 1) / 255


def check_images(x, y, n):
    assert x.shape == (n, 3, 224, 224) and x.dtype == torch.float32 and y.dtype == torch.int64
    expected = (y * 80 + 10)[:, None].float() / 255  # every image has its class's colour
    assert torch.allclose(x.mean(dim=(2, 3)), expected.expand(n, 3), atol=0.01)


def packed_train(images):
    """Beside the whole dataset, unless that is other storage."""
    beside = images.parent / f"{images.name}-packed/train"
    return beside if images.parent.stat().st_dev == images.stat().st_dev else images / "train-packed"


def test_lines_for_training(images, advised):
    """Pasted below each other: batches as a torchvision script has them."""
    folder, mapped, packed = blocks(advised["train"])
    names = {}
    exec(compile(folder, "advised", "exec"), names)
    check_images(names["x"], names["y"], 3 * TRAIN - 32)  # the last batch, as a DataLoader gives it
    # The validation set that was read beside it: all of it, once, in order, nothing random.
    twice = [list(names["val_loader"]) for _ in range(2)]
    assert names["val_loader"].dataset.path == str(images / "val")
    assert [y.tolist() for _, y in twice[0]] == [[0] * VAL + [1] * VAL + [2] * VAL]
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(*twice))
    for lines, path in ((folder, images / "train"), (packed, packed_train(images))):
        exec(compile(lines, "advised", "exec"), names)
        assert names["loader"].dataset.path == str(path)
        batch = next(iter(names["loader"]))
        check_images(*batch, 32)
        assert len(set(batch[1].tolist())) == 3 and batch.ids.tolist() != list(range(32))
    names = {"transform": transform}
    exec(compile(mapped, "advised", "exec"), names)
    loader = torch.utils.data.DataLoader(names["dataset"], batch_size=8, shuffle=True)
    got = [(x.shape[1:], y) for x, y in loader]
    assert {shape for shape, _ in got} == {(3, 32, 32)}
    assert sorted(torch.cat([y for _, y in got]).tolist()) == sorted([0, 1, 2] * TRAIN)


def test_lines_for_validation(advised):
    """Of the finding about val/ itself, too."""
    assert not any("--shuffle" in text or "crop=random" in text for _, text in advised["val"])
    names = {}
    exec(compile(blocks(advised["val"])[0], "advised", "exec"), names)
    check_images(names["x"], names["y"], 3 * VAL)


def test_lines_for_other_data(tmp_path, capsys):
    """Fields have the names that they have: the lines show them."""
    np.savez(tmp_path / "a.npz", x=np.arange(80).reshape(40, 2), label=np.arange(40))
    found = printed("test_action", "--render", str(tmp_path / "a.npz"), "out", "npz")
    names = {}
    for kind in ("use-loader python", "map-dataset python"):
        exec(compile(found[kind][0][1], "advised", "exec"), names)
    assert capsys.readouterr().out == "['x', 'label']\n" * 2
    assert names["dataset"][3]["label"] == 3


def test_lines_in_c(tmp_path):
    """They compile, in a program that has declared what they use."""
    (language, text), = printed("test_action", "--render", "/data/x", "out", "")["use-loader c"]
    assert language == "c"
    (tmp_path / "a.c").write_text(f"""#include <stoker.h>
int run(struct stk_dataset *dataset, struct stk_loader *loader, struct stk_batch *batch)
{{
    struct stk_err err;
    int rc;
{text}
return rc;
}}
""")
    subprocess.run([os.environ.get("CC", "cc"), "-fsyntax-only", "-Wall", "-Werror",
                    f"-I{ROOT / 'include'}", tmp_path / "a.c"], check=True, env=plain_environment())


# ---- every kind ----

# What a program has already: its variables, and what it reads such files with.
YOURS = {"DataLoader", "dataset", "torch", "tf", "decode", "files", "f", "h5py", "rank", "world_size",
         "ranks", "size", "comm", "part", "whole", "file", "buffer", "offset", "info", "i", "batch",
         "d", "rows", "block", "length", "state", "data", "connection",
         "sql", "json", "zipfile", "transform", "read", "samples", "numpy", "mode", "PATH"}


def unknown_names(tree):
    """Names that are used and neither bound in there, nor Python's, nor the program's."""
    nodes = list(ast.walk(tree))
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {a.arg for n in nodes if isinstance(n, ast.arguments) for a in n.args}
    bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    bound |= {(a.asname or a.name).split(".")[0] for n in nodes if isinstance(n, ast.Import)
              for a in n.names}
    used = {n.id for n in nodes if isinstance(n, ast.Name)}
    return used - bound - YOURS - set(dir(builtins))


@pytest.mark.parametrize("form", ["hdf5", "tfrecord", "json", "image", "zip", ""])
def test_every_kind_can_be_pasted(form):
    """Python compiles and imports what it brings along; shell lines are shell."""
    found = printed("test_action", "--render", "/data/a 'b", "/node/to", form)
    assert len(found) >= 2 * 37
    for head, snippets in found.items():
        for language, text in snippets:
            if language == "shell":
                subprocess.run(["bash", "-nc", text], check=True)
            elif language == "python":
                assert not unknown_names(ast.parse(text)), (head, text)


def test_every_option_of_ours_exists(images, tmp_path):
    """The lines that call stoker, on a real dataset."""
    found = printed("test_action", "--render", str(images / "val"), str(tmp_path / "out"), "image")
    ours = {text for f in found.values() for text in only("shell", f) if text.startswith("stoker pack ")}
    assert ours
    for text in ours:
        run_shell(text)
    assert stoker.Dataset(tmp_path / "out").classes == ("class0", "class1", "class2")


def test_the_table_of_the_docs_has_every_kind():
    kinds = {head.split()[0] for head in printed("test_action", "--render", "x", "y", "")}
    assert not {k for k in kinds if f"`{k}`" not in (ROOT / "docs/profile.md").read_text()}
