"""docs/python.md, "When the Loader cannot replace your DataLoader": the code there runs."""

import io
import os
import pathlib
import re

import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed")
PIL = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")

from conftest import ROOT  # noqa: E402
from pythonlib import stoker  # noqa: E402

import numpy as np  # noqa: E402
import stoker.torch  # noqa: E402
import torch.utils.data  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")
PAGE = (ROOT / "docs/python.md").read_text()
SECTION = re.search(r"### When the Loader cannot.*?(?=^Examples:)", PAGE, re.S | re.M).group()


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Three classes of small images, 8 of each."""
    root = tmp_path_factory.mktemp("images")
    for c in range(3):
        (root / f"class{c}").mkdir()
        for i in range(8):
            pixels = np.full((40 + i, 48, 3), 20 * (i + c), np.uint8)
            PIL.fromarray(pixels).save(root / f"class{c}/{i}.png")
    return root


def test_the_code_of_the_page_runs(images):
    """Every block, one after the other, and what it promises."""
    blocks = re.findall(r"^```python\n(.*?)^```", SECTION, re.S | re.M)
    names = {"torch": torch, "stoker": stoker, "io": io, "PIL": __import__("PIL"), "numpy": np,
             "DataLoader": torch.utils.data.DataLoader, "path": str(images),
             "WeightedRandomSampler": torch.utils.data.WeightedRandomSampler}
    assert len(blocks) == 8
    for block in blocks:
        # A worker would have to import the function from this page.
        exec(compile(block.replace("num_workers=2", "num_workers=0"), "python.md", "exec"), names)
    assert names["x"].shape == (8, 3, 32, 32) and names["images"].shape == (8, 3, 32, 32)
    assert [b.shape for b in names["boxes"]] == [(1, 4)] * 8
    assert names["labels"].tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert [len(views) for views in next(iter(names["pairs"]))] == [8, 8]
    assert len(names["pairs"].dataset) == 48
    assert sorted(torch.cat([b["label"] for b in names["val_loader"]]).tolist()) in (
        [0, 0, 1, 1, 2], [0, 0, 1, 2, 2], [0, 1, 1, 2, 2])
    assert sum(len(b.ids) for b in names["few"]) == 10 and len(names["train"]) == 19
    assert next(iter(names["loader"])).shape == (8, 3 * 32 * 32)
    assert next(iter(names["balanced"]))["data"].shape == (8, 32, 32, 3)


@pytest.mark.parametrize("word", ["ColorJitter", "Normalise", "WeightedRandomSampler", "collate_fn",
                                  "split", "Boxes", "MapDataset", "folder", "masks"])
def test_what_people_look_for(word):
    assert word in SECTION


# ---- first mistakes ----

def test_names_of_a_dataloader(images):
    """batch_size, shuffle and drop_last are taken: there is the same thing."""
    for make in (stoker.Loader, stoker.torch.Loader):
        loader = make(images, batch_size=7, shuffle=True, drop_last=False)
        assert [len(b.ids) for b in loader] == [7, 7, 7, 3] and loader.batch == 7
        assert [len(b.ids) for b in make(images, batch_size=7, drop_last=True)] == [7, 7, 7]
        loader = make(images, batch_size=24, shuffle=False)
        assert next(iter(loader)).ids.tolist() == list(range(24))
        for wrong in ({"batch": 3, "batch_size": 4}, {"last": "pad", "drop_last": True},
                      {"batch_size": None}):
            with pytest.raises(TypeError, match="batch_size|drop_last"):
                make(images, **wrong)


def test_all_names_of_a_dataloader(images):
    """A call of DataLoader is taken as it stands, with the dataset in its place."""
    data = stoker.Dataset(images)
    loader = stoker.torch.Loader(data, batch_size=10, shuffle=False, num_workers=0, drop_last=False,
                                 prefetch_factor=2, persistent_workers=False, sampler=None,
                                 collate_fn=lambda samples: [s["key"] for s in samples])
    assert sum(loader, []) == [s["key"] for s in data]


def test_validation_keeps_its_last_samples(images):
    """In order, nothing is left out unless it is asked for; a shuffled training drops."""
    for make in (stoker.Loader, stoker.torch.Loader):
        for options, n in [({"shuffle": False}, 24), ({"shuffle": "none"}, 24), ({}, 21),
                           ({"shuffle": True}, 21), ({"sampler": range(24)}, 24),
                           ({"shuffle": False, "drop_last": True}, 21),
                           ({"shuffle": False, "last": "drop"}, 21),
                           ({"shuffle": True, "drop_last": False}, 24), ({"weights": [1] * 24}, 21)]:
            assert sum(len(b.ids) for b in make(images, batch_size=7, **options)) == n, options


def test_a_path_is_no_dataset(images):
    """Batches of the letters of a path."""
    for path in (str(images), os.fsencode(images), pathlib.Path(images)):
        for call in (lambda path=path: stoker.torch.DataLoader(path, batch_size=8),
                     lambda path=path: stoker.torch.DataLoader(dataset=path, sampler=[0])):
            with pytest.raises(TypeError, match=r"stoker.torch.Loader\(.*\) reads a path"):
                call()


@pytest.mark.parametrize("name, said", [
    ("batch_sampler", "MapDataset"), ("generator", "seed="), ("worker_init_fn", "transform="),
    ("timeout", "leave it out"), ("target_transform", "transform=")])
def test_what_there_is_not(images, name, said):
    """For the rest of a DataLoader's options the error says what to do."""
    for make in (stoker.Loader, stoker.torch.Loader):
        with pytest.raises(TypeError, match=f"no option '{name}': .*{said}"):
            make(images, **{name: 4})
    with pytest.raises(TypeError, match="stoker.torch.Loader has it"):
        stoker.Loader(images, pin_memory=True)


@pytest.mark.parametrize("options, said", [
    ({"decode": "imag:224"}, "imag"), ({"decode": "image:0"}, "."), ({"decode": "image:32,crop=left"}, "left"),
    ({"decode": "image:32,turn"}, "turn"), ({"decode": "RGB"}, "RGB"), ({"io": "tape"}, "no engine"),
    ({"shuffle": "random"}, "block, global, none"), ({"last": True}, "drop, pad")])
def test_wrong_values_fail_when_they_are_given(images, options, said):
    """Not at the first batch, an hour later."""
    with pytest.raises(stoker.UsageError, match=said):
        stoker.Loader(images, **options)


def test_slices(images):
    """A slice is a view; a Loader and MapDataset take it."""
    ds = stoker.Dataset(images)
    for make in (stoker.Loader, stoker.torch.Loader):
        assert sum(len(b.ids) for b in make(ds[:5], shuffle=False)) == 5
        with pytest.raises(TypeError, match="not MapDataset"):
            make(stoker.torch.MapDataset(ds))
    few = stoker.torch.MapDataset(ds[:20:2], transform=lambda s: s["label"])
    assert [few[i] for i in range(len(few))] == [0] * 4 + [1] * 4 + [2] * 2
    assert few.__getitems__([3, 1]) == [0, 0]
