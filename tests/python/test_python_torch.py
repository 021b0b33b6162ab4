"""stoker.torch: tensors, exact resuming, DataLoader workers, PyTorch's ranks."""

import gc
import os

import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed")

from pythonlib import environment, python, stoker, write_records  # noqa: E402

import numpy as np  # noqa: E402
import stoker.torch as stoker_torch  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")  # importing it takes a while
N = 600


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """N rows with a number of each kind PyTorch may not know."""
    path = tmp_path_factory.mktemp("table") / "a.npz"
    np.savez(path, x=np.arange(N * 6, dtype=np.float32).reshape(N, 2, 3), label=np.arange(N),
             u=np.arange(N, dtype=np.uint16), big=np.arange(N, dtype=np.uint64),
             ok=np.arange(N) % 2 == 0)
    return path


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "r.tfrecord"
    write_records(path, [bytes([i]) * (i + 1) for i in range(100)])
    return path


def labels(batches):
    return [x for b in batches for x in b["label"].tolist()]


def test_tensors(table):
    """Columns are tensors with the right types and values, in the memory of the batch."""
    loader = stoker_torch.Loader(table, batch=100, shuffle=False)
    for step, batch in enumerate(loader):
        assert isinstance(batch, dict) and batch["x"].dtype == torch.float32
        assert batch["x"].flatten().tolist() == list(range(step * 600, step * 600 + 600))
        assert batch["label"].dtype == torch.int64 and batch["ok"].dtype == torch.bool
        assert batch["u"].tolist() == batch["big"].tolist() == batch["label"].tolist()
        assert batch.ids.tolist() == batch["label"].tolist() and batch.step == step
        assert batch.epoch == 0 and not batch.repeats.any()
    plain = next(iter(stoker.Loader(table, batch=100, shuffle=False)))
    assert stoker_torch.tensor(plain["x"]).data_ptr() == plain["x"].ctypes.data


def test_tensors_outlive_the_loader(table):
    """A tensor keeps its memory, and may be written to."""
    kept = [b["x"] for b in stoker_torch.Loader(table, batch=100, shuffle=False)]
    for _ in stoker_torch.Loader(table, batch=100, seed=9):
        pass
    gc.collect()
    assert torch.cat(kept).flatten().tolist() == list(range(N * 6))
    kept[0].zero_()
    assert kept[1][0, 0, 0] == 600


def test_byte_strings(records):
    """Byte strings are a list of bytes, or of tensors of bytes."""
    batch = next(iter(stoker_torch.Loader(records, batch=10, shuffle=False)))
    assert batch["data"] == [bytes([i]) * (i + 1) for i in range(10)]
    batch = next(iter(stoker_torch.Loader(records, batch=10, shuffle=False, bytes_as="tensor")))
    assert [t.dtype for t in batch["data"]] == [torch.uint8] * 10
    assert [t.tolist() for t in batch["data"]] == [[i] * (i + 1) for i in range(10)]
    with pytest.raises(stoker.UsageError, match="bytes, tensor"):
        stoker_torch.Loader(records, bytes_as="list")


def test_batch_transform(table):
    """What it returns is what the loop gets."""
    loader = stoker_torch.Loader(table, batch=100, shuffle=False,
                                 batch_transform=lambda b: (b["x"] * 2, b["label"]))
    x, y = next(iter(loader))
    assert x.flatten()[5] == 10 and y[5] == 5


@pytest.mark.parametrize("options", [{}, {"pin_memory": True}, {"device": "cpu"}])
def test_resume_in_the_middle(table, options):
    """state_dict() taken in the middle of a loop goes on with the next batch, exactly."""
    loader = stoker_torch.Loader(table, batch=50, seed=3, **options)
    batches, seen = iter(loader), []
    for _ in range(5):
        seen += next(batches)["label"].tolist()
    state = loader.state_dict()
    rest = labels(batches)
    after = labels(loader)
    again = stoker_torch.Loader(table, batch=50, seed=3, **options)
    again.load_state_dict(state)
    again.set_epoch(again.epoch)
    assert len(again) == 12 and labels(again) == rest and labels(again) == after
    assert sorted(seen + rest) == list(range(N)) and again.epoch == 2


def test_len_that_was_wrong(table):
    """A trainer that asked for len() and then loads a state with more batches gets an error."""
    one = stoker_torch.Loader(table, batch=50, rank=0, world=1)
    batches = iter(one)
    for _ in range(8):
        next(batches)
    for r in range(2):
        loader = stoker_torch.Loader(table, batch=50, rank=r, world=2)
        assert len(loader) == 6
        with pytest.warns(UserWarning, match="len.loader. was 6"):
            loader.load_state_dict(one.state_dict())
        assert len(loader) == 8 + 2 and len(list(loader)) == 2 and len(loader) == 6


def test_state_survives_torch_save(table, tmp_path):
    """The state goes into a checkpoint like everything else."""
    loader = stoker_torch.Loader(table, batch=50, seed=3)
    next(iter(loader))
    torch.save({"loader": loader.state_dict()}, tmp_path / "checkpoint.pt")
    again = stoker_torch.Loader(table, batch=50)
    again.load_state_dict(torch.load(tmp_path / "checkpoint.pt")["loader"])
    assert len(again) == 12 and len(labels(again)) == 11 * 50 and len(again) == 12


def test_rank_of_torch_distributed(table, tmp_path):
    """Once a process group is there, its rank counts, whatever the environment says."""
    out = python("""
import os, sys
import torch.distributed
import stoker.torch
loader = stoker.torch.Loader(sys.argv[1], batch=100)
torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=0,
                                     world_size=1)
print(loader.rank(), len(loader))
os.environ.update(RANK="1", WORLD_SIZE="3")
print(stoker.torch.rank(), stoker.rank()[:2])
""", table, tmp_path / "store")
    assert out.splitlines() == ["(0, 1) 6", "(0, 1) (1, 3)"]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_map_dataset_in_workers(stoker, images, tmp_path, monkeypatch, context):
    """A DataLoader with worker processes and a sampler sees every sample once."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    stoker("pack", images[0], tmp_path / "p")
    dataset = stoker_torch.MapDataset(tmp_path / "p")
    assert len(dataset) == 15 and dataset[-1]["label"] == 2
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2,
                                         multiprocessing_context=context)
    got = {k: d for b in loader for k, d in zip(b["key"], b["data"])}
    assert got == images[1]


def test_map_dataset_batched(table):
    """Newer PyTorch asks for a batch at once."""
    dataset = stoker_torch.MapDataset(table, transform=lambda s: s["label"])
    assert dataset.__getitems__([5, 3, 5, 0]) == [5, 3, 5, 0]


@pytest.mark.parametrize("workers, context", [
    (0, None), (2, "fork"), pytest.param(2, "spawn", marks=pytest.mark.long)])
def test_iter_dataset_in_workers(table, monkeypatch, workers, context):
    """A DataLoader of batches divides the data between its workers, without repeats."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    dataset = stoker_torch.IterDataset(table, batch=50, seed=1, fields=["label"])
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers,
                                         multiprocessing_context=context)
    first = labels(loader)
    assert sorted(first) == list(range(N))
    dataset.set_epoch(1)
    second = labels(loader)
    assert sorted(second) == list(range(N)) and second != first


def test_iter_dataset_with_persistent_workers(table):
    """set_epoch() reaches workers that live on."""
    dataset = stoker_torch.IterDataset(table, batch=50, seed=1, fields=["label"])
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1,
                                         multiprocessing_context="fork", persistent_workers=True)
    first = labels(loader)
    dataset.set_epoch(1)
    assert labels(loader) == labels(stoker_torch.Loader(table, batch=50, seed=1, epoch=1))
    dataset.set_epoch(0)
    assert labels(loader) == first


def test_errors_of_workers(tmp_path):
    """A corrupt sample in a worker process stops the loop with its file and offset."""
    path = tmp_path / "r.tfrecord"
    write_records(path, [b"x" * 100] * 20)
    with open(path, "r+b") as f:
        f.seek(5 * 116 + 60)
        f.write(b"y")
    loader = torch.utils.data.DataLoader(stoker_torch.MapDataset(path), num_workers=1,
                                         multiprocessing_context="fork")
    with pytest.raises(stoker.CorruptError, match="r.tfrecord:580"):
        list(loader)


def test_one_thread_for_each_core(table):
    """Workers do not start a thread for each core each."""
    dataset = stoker_torch.IterDataset(table, batch=50)
    next(iter(dataset))
    assert dataset._loader.stats()["threads"] == len(os.sched_getaffinity(0))


def test_without_numpy(table):
    """PyTorch alone is enough: tensors come through DLPack."""
    out = python("""
import sys
sys.modules["numpy"] = None
import stoker.torch
batch = next(iter(stoker.torch.Loader(sys.argv[1], batch=4, shuffle=False)))
print(batch["x"].shape, batch["label"].tolist(), batch.ids.tolist(), batch["ok"].tolist())
""", table)
    assert out.split("]) ")[1].strip() == "[0, 1, 2, 3] [0, 1, 2, 3] [True, False, True, False]"


@pytest.mark.others
def test_on_a_gpu(table):
    """Batches are copied to the GPU one ahead; pinned memory is not used again too early."""
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    for options in ({"device": "cuda"}, {"device": "cuda", "pin_memory": True}):
        loader = stoker_torch.Loader(table, batch=50, seed=3, fields=["x", "label"], **options)
        for _ in range(20):
            batches, seen = iter(loader), []
            for _ in range(4):
                batch = next(batches)
                assert batch["x"].is_cuda
                assert torch.equal(batch["x"][:, 0, 0].long(), batch["label"] * 6)
                seen += batch["label"].tolist()
            again = stoker_torch.Loader(table, batch=50, fields=["x", "label"])
            again.load_state_dict(loader.state_dict())
            assert labels(again) == labels(batches)
    loader = stoker_torch.Loader(table, batch=50, pin_memory=True, memory="1M",
                                 fields=["x", "label"])
    copies = []
    for _ in range(20):
        for batch in loader:
            assert batch["x"].is_pinned()
            copies.append((batch["x"].to("cuda", non_blocking=True), batch["label"].clone()))
            del batch
    assert all(torch.equal(x[:, 0, 0].cpu().long(), y * 6) for x, y in copies)
    assert moved_ahead(loader) and right_after_changes(loader)


def moved_ahead(loader):
    """Batches are on the GPU before they are asked for, and what they hold is right."""
    ahead = 0
    for batch in loader:
        ahead += batch["x"]._copy is not None
        x, y = batch["x"].to("cuda", non_blocking=True), batch["label"].cuda(non_blocking=True)
        assert type(x) is torch.Tensor and x.is_cuda
        assert torch.equal(x[:, 0, 0].long(), y * 6)
    return ahead > 0


def right_after_changes(loader):
    """A batch that was changed on the host is not the one that was copied."""
    for batch in loader:
        batch["x"].numpy()[:] += 1
        changed = batch["x"].to("cuda")
        assert torch.equal(changed[:, 0, 0].cpu().long(), batch["label"] * 6 + 1)
    return True


@pytest.fixture
def no_gpu_needed(monkeypatch):
    """The host stands in for the GPU."""
    from stoker import _hosted
    monkeypatch.setattr(_hosted, "_device_of", lambda func, args, named: torch.device("cpu") if args else None)
    monkeypatch.setattr(_hosted, "_join", lambda copy, event: None)
    return _hosted


def hosted(module, values):
    """A tensor, and the copy of it that is there."""
    copy = torch.tensor(values)
    return module.Hosted.of(torch.tensor(values), module.Way(), copy), copy


def test_a_batch_that_is_moved_is_there_already(no_gpu_needed):
    """Without it, the model waits for each copy."""
    x, copy = hosted(no_gpu_needed, [1.0, 2.0])
    assert x.shape == (2,) and len(x) == 2 and x.dtype == torch.float32 and x.size(0) == 2
    assert x.to("cpu", non_blocking=True) is copy
    again = x.to("cpu")
    assert again is not copy and again.tolist() == [1, 2]  # each has its own memory
    assert x._way.device == torch.device("cpu")  # the next batch goes there as well


@pytest.mark.parametrize("change", [lambda x: x.add_(1), lambda x: x.numpy().__iadd__(1), lambda x: x[:].add_(1),
                                    lambda x: torch.add(x, 1, out=x), lambda x: x.view(2, 1)[0].fill_(7),
                                    lambda x: x.__setitem__(0, 3), lambda x: torch.as_tensor(x).mul_(2)])
def test_a_batch_that_was_changed_is_copied_as_it_is(no_gpu_needed, change):
    """Training would see the values before the program's own change."""
    x, copy = hosted(no_gpu_needed, [1.0, 2.0])
    change(x)
    assert torch.equal(x.to("cpu"), x) and not torch.equal(copy, x)


def test_a_batch_is_an_ordinary_tensor(no_gpu_needed):
    """What a program does with batches, on the host, works as before."""
    import copy
    import io
    import pickle
    x, _ = hosted(no_gpu_needed, [1.0, 2.0])
    for made in (x + 1, x[0], torch.stack([x, x]), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(made) is torch.Tensor
    torch.save(x, io.BytesIO())
    assert "2." in repr(x) and x.tolist() == [1, 2] and isinstance(x, torch.Tensor)
    assert x.to(torch.float64).dtype == torch.float64
    with pytest.raises((TypeError, RuntimeError)):
        x.to("nowhere")
