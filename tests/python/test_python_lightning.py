"""A real PyTorch Lightning, resumed in the middle of an epoch: every sample of every epoch once.

Lightning is not in Debian: tools/setup puts a pinned one into build-lightning, on the system's
PyTorch. `make check-frameworks` runs the same with whatever Lightning and PyTorch a machine has.
"""

import json
import os

import pytest

from conftest import ROOT
from pythonlib import python

import numpy as np

pytestmark = pytest.mark.xdist_group("lightning")
PYTHON = os.environ.get("STOKER_FRAMEWORKS_PYTHON", str(ROOT / "build-lightning/bin/python"))
N, BATCH, EPOCHS = 840, 10, 3

SCRIPT = """
import json, logging, sys, warnings
warnings.filterwarnings("ignore")
logging.disable(logging.INFO)
try:
    import torch
    try:
        import pytorch_lightning as pl
    except ImportError:
        import lightning.pytorch as pl
except ImportError as missing:
    print("SKIP", missing)
    sys.exit()
import stoker.torch

if torch.__version__ < "2":  # PyTorch 1.13 cannot import its _shard in Python 3.11
    pl.LightningModule._register_sharded_tensor_state_dict_hooks_if_available = lambda self: None

DATA, FOLDER, EPOCHS = sys.argv[1], sys.argv[2], int(sys.argv[3])

class Enough(Exception):
    pass

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.seen, self.hours = [], []
        self.stop_after = None

    def training_step(self, batch, number):
        self.seen += [[e, i] for e, i in zip(batch["epoch"].tolist(), batch["label"].tolist())]
        self.hours.append(self.current_epoch)
        return self.layer(batch["label"].float()[:, None]).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-9)

    def on_train_batch_end(self, *_):
        if self.stop_after is not None and len(self.hours) == self.stop_after:
            self.trainer.save_checkpoint(self.path)
            raise Enough

def with_epoch(batch):
    batch["epoch"] = torch.full_like(batch["label"], batch.epoch)
    return batch

def leg(name, rank, world, stop_after=None, after=None, changed=False):
    '''Trains rank `rank` of `world`, from a checkpoint on, until a step of this leg or the end.'''
    loader = stoker.torch.Loader(DATA, batch=10, seed=5, rank=rank, world=world,
                                 batch_transform=with_epoch)
    path = after and f"{FOLDER}/{after}.ckpt"
    if changed:
        loader.load_state_dict(stoker.torch.lightning_state(path))
    model = Model()
    model.stop_after, model.path = stop_after, f"{FOLDER}/{name}.ckpt"
    trainer = pl.Trainer(accelerator="cpu", devices=1, max_epochs=EPOCHS, logger=False,
                         enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False, use_distributed_sampler=False)
    try:
        trainer.fit(model, loader, ckpt_path=path)
    except Enough:
        pass
    return [model.seen, max(model.hours, default=None), len(loader)]

legs = json.loads(sys.argv[4])
print("RESULT" + json.dumps([leg(**one) for one in legs]))
"""


# Stopped in the first epoch, resumed, stopped in the second, resumed.
TWICE = [{"name": "a", "rank": 0, "world": 1, "stop_after": 60},
         {"name": "b", "rank": 0, "world": 1, "stop_after": 24 + 10, "after": "a"},
         {"name": "c", "rank": 0, "world": 1, "after": "b"}]
# Two ranks, then one, then three.
RANKS = [*({"name": f"two{r}", "rank": r, "world": 2, "stop_after": 30} for r in range(2)),
         {"name": "one", "rank": 0, "world": 1, "stop_after": 12, "after": "two0", "changed": True},
         *({"name": f"three{r}", "rank": r, "world": 3, "after": "one", "changed": True}
           for r in range(3))]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """[(samples with their epochs, Lightning's last epoch, len(loader))] of every leg, in one process:
    importing Lightning takes longer than training."""
    if not os.path.exists(PYTHON):
        pytest.skip("Lightning is not installed: tools/setup test does it where there is a network")
    folder = tmp_path_factory.mktemp("lightning")
    np.savez(folder / "a.npz", label=np.arange(N))
    out = python(SCRIPT, folder / "a.npz", folder, EPOCHS, json.dumps(TWICE + RANKS),
                 executable=PYTHON)
    if out.startswith("SKIP"):
        pytest.skip(f"Lightning does not work here: {out[5:].strip()}")
    return json.loads(out.partition("RESULT")[2])


def check(results):
    """Every sample of every epoch was trained on once, and Lightning counted the same epochs."""
    seen = sorted(tuple(one) for result in results for one in result[0])
    assert seen == [(e, i) for e in range(EPOCHS) for i in range(N)]
    assert all(result[2] in (N // BATCH, N // BATCH // 2, N // BATCH // 3) for result in results)
    assert results[-1][1] == EPOCHS - 1


def test_resumed_twice(trained):
    """The steps of an epoch that are left are run, no fewer, and later epochs are whole."""
    results = trained[:len(TWICE)]
    assert [len(result[0]) for result in results] == [600, 340, EPOCHS * N - 940]
    check(results)


def test_another_number_of_ranks(trained):
    """A job that is given other resources trains on everything else once."""
    check(trained[len(TWICE):])
