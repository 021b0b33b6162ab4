"""What the loop gets: transforms of samples (threads, processes), collate, tuples, normalised images."""

import os
import pickle
import random
import signal
import threading

import pytest

from pythonlib import python, stoker

import numpy as np

N = 60


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """N rows: their number, two values, a text."""
    path = tmp_path_factory.mktemp("table") / "a.jsonl"
    path.write_text("".join(f'{{"key": "k{i}", "x": {i}, "v": [{i}, 0.5], "t": "t{i}"}}\n'
                            for i in range(N)))
    return path


def double(s):
    return {"key": s["key"], "x": s["x"] * 2, "v": s["v"] + 1, "pid": os.getpid()}


def keys_of(loader):
    return [k for b in loader for k in b["key"]]


WAYS = pytest.mark.parametrize("workers", [0, 2])


# ---- transform ----

@WAYS
def test_transform(table, workers):
    """Each sample goes through it once, as Dataset gives it, in the loader's order."""
    options = {"batch": 7, "seed": 3, "last": "short"}
    plain = list(stoker.Loader(table, **options))
    with stoker.Loader(table, transform=double, workers=workers, keys=True, **options) as loader:
        for epoch in range(2):
            batches = list(loader)
            assert [b.epoch for b in batches] == [epoch] * 9 and batches[3].step == 3
            if epoch == 0:
                assert [b["x"].tolist() for b in batches] == [(2 * b["x"]).tolist() for b in plain]
                assert [b.ids.tolist() for b in batches] == [b.ids.tolist() for b in plain]
            assert sorted(keys_of(batches)) == sorted(f"k{i}" for i in range(N))
            assert batches[0]["v"].shape == (7, 2) and batches[0]["v"].dtype == np.float64
        pids = {p for b in batches for p in b["pid"].tolist()}
        assert (pids == {os.getpid()}) == (workers == 0) and len(pids) <= max(1, workers)


def test_samples_are_those_of_a_dataset(table):
    """Values have the types that Dataset gives."""
    seen = []
    list(stoker.Loader(table, batch=N, shuffle=False, transform=lambda s: seen.append(dict(s)) or 0))
    seen.sort(key=lambda s: s["x"])
    for got, want in zip(seen, stoker.Dataset(table)):
        assert {k: type(v) for k, v in got.items()} == {k: type(v) for k, v in want.items()}
        assert got["key"] == want["key"] and got["x"] == want["x"] and got["t"] == want["t"]


@WAYS
def test_transform_fails(table, workers):
    """The exception names the sample and has the cause; nothing is lost, and the loop can go on."""
    mark = table.parent / f"fail{workers}"
    mark.write_text("")

    def fail(s):
        if s["x"] == 17 and mark.exists():
            raise KeyError("no such thing")
        return s["x"]
    with stoker.Loader(table, batch=5, shuffle=False, transform=fail, workers=workers) as loader:
        batches, got = iter(loader), []
        with pytest.raises(stoker.TransformError, match=r"sample 17 \(key 'k17'\).*KeyError") as e:
            for b in batches:
                got += b.tolist()
        assert got == list(range(15)) and e.value.key == "k17" and e.value.id == 17
        assert isinstance(e.value.__cause__, KeyError)
        again = pickle.loads(pickle.dumps(e.value))
        assert again.key == "k17" and str(again) == str(e.value)
        with pytest.raises(stoker.TransformError):
            next(batches)
        state = loader.state()
        mark.unlink()
        for b in batches:
            got += b.tolist()
        assert got == list(range(N))
    rest = stoker.Loader(table, batch=5, shuffle=False, transform=fail, state=state)
    assert sum((b.tolist() for b in rest), []) == list(range(15, N))


def test_a_worker_that_dies(table, tmp_path):
    """A crash in a worker is an error, not a hang, and no sample is lost."""
    once = tmp_path / "once"

    def crash(s):
        if s["x"] == 30:
            try:
                once.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
            except FileExistsError:
                pass
        return s["x"]
    with stoker.Loader(table, batch=10, shuffle=False, transform=crash, workers=1) as loader:
        batches, got = iter(loader), []
        with pytest.raises(stoker.Error, match="worker process .* has died"):
            for b in batches:
                got += b.tolist()
        for b in batches:
            got += b.tolist()
        assert got == list(range(N))


@WAYS
def test_slow_and_uneven_transforms_keep_the_order(table, workers):
    """Later samples may be done first; they still come in their turn. break leaves nothing behind."""
    def uneven(s):
        n = 20000 if s["x"] % 7 == 0 else 1
        return s["x"] + sum(range(n)) * 0
    with stoker.Loader(table, batch=4, shuffle=False, transform=uneven, workers=workers) as loader:
        for b in loader:
            break
        assert b.tolist() == [0, 1, 2, 3]
        loader.set_epoch(0)
        assert sum((b.tolist() for b in loader), []) == list(range(N))


def test_state_counts_what_the_loop_received(table):
    """What is transformed ahead is not received."""
    loader = stoker.Loader(table, batch=6, seed=1, transform=lambda s: s["x"])
    got = [b.tolist() for _, b in zip(range(3), loader)]
    copy = pickle.loads(pickle.dumps(stoker.Loader(table, batch=6, state=loader.state())))
    got += [b["x"].tolist() for b in copy]
    assert sorted(sum(got, [])) == list(range(N))


@pytest.mark.parametrize("workers", [1, 2])
def test_random_choices_belong_to_the_sample(table, workers):
    """The same seed gives the same augmentation, however many processes there are; each epoch others."""
    def choose(s):
        return random.random() + np.random.random()

    def epochs(seed):
        with stoker.Loader(table, batch=8, shuffle=False, seed=seed, transform=choose,
                           workers=workers) as loader:
            return [[x for b in loader for x in b.tolist()] for _ in range(2)]
    first, second = epochs(1)
    assert len({*first, *second}) == 2 * N
    if workers == 2:
        assert epochs(1)[0] == first != epochs(2)[0]
        with stoker.Loader(table, batch=N, shuffle=False, seed=1, transform=choose, workers=1) as one:
            assert next(iter(one)).tolist() == first


def test_ctrl_c(table):
    """It ends the wait for a transform at once, in threads and in processes; then the loop goes on."""
    assert python("""
import multiprocessing, os, signal, sys
import stoker

def wait(s):
    if s["x"] == 9 and not os.path.exists(sys.argv[2] + kind):
        received.wait()  # the loop has the batch before
        os.kill(os.getppid() if kind == "p" else os.getpid(), signal.SIGINT)
        go.wait()
    return s["x"]

for kind, workers in (("t", 0), ("p", 1)):
    received, go = (multiprocessing.get_context("fork").Event() for _ in range(2))
    loader = stoker.Loader(sys.argv[1], batch=5, shuffle=False, transform=wait, workers=workers)
    got, batches = [], iter(loader)
    try:
        for b in batches:
            got += b.tolist()
            received.set()
        print("not interrupted")
    except KeyboardInterrupt:
        open(sys.argv[2] + kind, "w").close()
        go.set()
    for b in batches:
        got += b.tolist()
    print(got == list(range(60)))
    loader.close()
""", table, table.parent / "interrupted") == "True\nTrue\n"


def test_what_cannot_be_sent(table):
    """From a process only what can be pickled comes back: the error names the sample."""
    with stoker.Loader(table, batch=10, shuffle=False, workers=1,
                       transform=lambda s: threading.Lock() if s["x"] == 3 else s["x"]) as loader:
        with pytest.raises(stoker.TransformError, match="k3.*cannot be sent"):
            list(loader)


# ---- collate, tuples ----

def test_collate(table):
    """A list of samples becomes a batch, in the order of the loader; with and without a transform."""
    def pad(samples):
        return [s["key"] for s in samples], sum(s["x"] for s in samples)
    for name in ("collate", "collate_fn"):
        got = list(stoker.Loader(table, batch=25, shuffle=False, **{name: pad}))
        assert got[2] == ([f"k{i}" for i in range(50, 60)], sum(range(50, 60)))
    got = list(stoker.Loader(table, batch=30, shuffle=False, transform=lambda s: s["x"], collate=sum))
    assert got == [sum(range(30)), sum(range(30, 60))]


def test_collate_fails_and_is_called_again(table):
    fail = True

    def collate(samples):
        if fail:
            raise OSError
        return [s["x"] for s in samples]
    loader = stoker.Loader(table, batch=30, shuffle=False, collate=collate)
    batches = iter(loader)
    with pytest.raises(OSError):
        next(batches)
    fail = False
    assert sum(batches, []) == list(range(N))


@pytest.mark.parametrize("value, dtype", [(1, "int64"), (1.5, "float64"), (True, "bool"),
                                          (np.float32(2), "float32"), (np.zeros((2, 3), "u1"), "uint8")])
def test_columns_of_results(table, value, dtype):
    """Numbers and arrays of one shape become an array; everything else a list."""
    batch = next(iter(stoker.Loader(table, batch=4, transform=lambda s: {"a": value, "b": "text"})))
    assert batch["a"].dtype == dtype and batch["a"].shape == (4, *np.shape(value))
    assert batch["b"] == ["text"] * 4 and list(batch) == ["a", "b"]
    x, y = next(iter(stoker.Loader(table, batch=4, transform=lambda s: (value, None))))
    assert x.dtype == dtype and y == [None] * 4
    ragged = next(iter(stoker.Loader(table, batch=4, shuffle=False,
                                     transform=lambda s: np.zeros(s["x"]))))
    assert isinstance(ragged, list) and len(ragged[3]) == 3


@pytest.mark.parametrize("as_tuple", [("x", "v"), ["x", "v"], True])
def test_tuples(table, as_tuple):
    """`for x, y in loader`."""
    options = {"batch": 8, "seed": 1, "fields": ("x", "v"), "as_tuple": as_tuple}
    n = 0
    for (x, v), batch in zip(stoker.Loader(table, **options), stoker.Loader(table, batch=8, seed=1)):
        assert (x == batch["x"]).all() and (v == batch["v"]).all()
        n += len(x)
    assert n == 56
    first = next(iter(stoker.Loader(table, **options)))
    assert first.epoch == 0 and first.step == 0 and len(first.ids) == 8 and len(first) == 2
    x, = next(iter(stoker.Loader(table, batch=8, as_tuple="x")))
    assert x.shape == (8,)
    x, v = next(iter(stoker.Loader(table, batch=8, as_tuple=("x", "v"), transform=double)))
    assert v.shape == (8, 2)


def test_a_tuple_that_was_not_seen_is_given_again(table):
    """A signal between the iteration and the loop loses no batch (as of batches themselves)."""
    loader = stoker.Loader(table, batch=6, shuffle=False, as_tuple=("x",))
    batches, got = iter(loader), []
    (x,) = next(batches)
    got.append(x.tolist())
    given = next(batches)
    assert given._receipt is not None
    x, = given
    assert given._receipt is None
    state = loader.state()
    assert loader.state() == state
    rest = stoker.Loader(table, batch=6, shuffle=False, as_tuple=("x",), state=state)
    assert [x.tolist()[0] for x, in rest] == list(range(12, 60, 6))


@pytest.mark.parametrize("options, said", [
    ({"transform": 5}, "transform: a function is needed"), ({"collate": "x"}, "collate: a function"),
    ({"workers": -1}, "workers=-1"), ({"collate": len, "as_tuple": True}, "return a tuple"),
    ({"num_workers": 2, "workers": 3}, "the same option")])
def test_what_cannot_be(table, options, said):
    with pytest.raises((TypeError, stoker.UsageError), match=said):
        stoker.Loader(table, **options)


def test_with_torch(table):
    """Results are tensors; tensors may be returned from threads and processes."""
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import stoker.torch
    for workers in (0, 1):
        with stoker.torch.Loader(table, batch=8, shuffle=False, workers=workers,
                                 transform=lambda s: (torch.full((2,), s["x"]), s["x"])) as loader:
            x, y = next(iter(loader))
            assert x.tolist()[5] == [5, 5] and y.tolist() == list(range(8)) and y.dtype == torch.int64
    batch = next(iter(stoker.torch.Loader(table, batch=8, transform=double)))
    assert isinstance(batch, stoker.torch.Batch) and batch["v"].shape == (8, 2)
    assert "key" not in batch and batch.ids.tolist() == (batch["x"] // 2).tolist()
    odd = next(iter(stoker.torch.Loader(table, batch=8, shuffle=False, transform=lambda s: {
        "back": np.arange(s["x"] + 1)[::-1], "name": np.str_("n"), "one": np.float32(s["x"])})))
    assert odd["back"][3].tolist() == [3, 2, 1, 0] and odd["one"].dtype == torch.float32
    assert list(odd["name"]) == ["n"] * 8
    x, v = next(iter(stoker.torch.Loader(table, batch=8, as_tuple=("x", "v"), device="cpu")))
    assert isinstance(x, torch.Tensor) and v.shape == (8, 2)


# ---- images ----

@pytest.fixture(scope="module")
def images(tmp_path_factory):
    Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    root = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(1)
    for i in range(6):
        pixels = rng.integers(0, 256, (30 + i, 40, 3), np.uint8)
        Image.fromarray(pixels).save(root / f"{i}.png")
    return root


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def first(images, decode):
    return next(iter(stoker.Loader(images, batch=6, shuffle=False, decode=decode)))["data"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("how", ["image:24", "image:24,gray", "image"])
def test_normalised_images(images, dtype, layout, how):
    """To the bit what torchvision's ToTensor and Normalize make of the same pixels."""
    plain = first(images, how)
    numbers = ":".join(map(str, MEAN)), ":".join(map(str, STD))
    got = first(images, f"{how},layout={layout},dtype={dtype},mean={numbers[0]},std={numbers[1]}")
    scaled = first(images, f"{how},layout={layout},dtype={dtype}")
    for pixels, normal, only in zip(plain, got, scaled):
        channels = pixels.shape[2]
        x = pixels.astype(np.float32) / np.float32(255)
        y = (x - np.float32(MEAN)[:channels]) / np.float32(STD)[:channels]
        order = (2, 0, 1) if layout == "chw" else (0, 1, 2)
        for want, have in ((y, normal), (x, only)):
            want = want.transpose(order).astype(dtype)
            assert have.dtype == dtype and have.shape == want.shape
            assert have.tobytes() == np.ascontiguousarray(want).tobytes()


def test_float16_rounds_as_numpy(images):
    """Values that are tiny, huge and in between."""
    for std in ("1e-5", "3e-6", "1", "77777", "999999"):
        plain = first(images, "image:24").astype(np.float32) / np.float32(255)
        with np.errstate(over="ignore"):
            want = ((plain - np.float32(0.3)) / np.float32(std)).astype(np.float16)
        assert first(images, f"image:24,dtype=float16,mean=0.3,std={std}").tobytes() == want.tobytes()


def test_image_settings_in_python(images):
    """stoker.image() writes the text."""
    decode = stoker.image(24, crop="random", flip=True, layout="chw", mean=MEAN, std=STD)
    assert decode == ("image:24,crop=random,flip,layout=chw,mean=0.485:0.456:0.406,"
                      "std=0.229:0.224:0.225")
    assert first(images, decode).shape == (6, 3, 24, 24)
    assert stoker.image((32, 24), gray=True, flip=False, crop="random", scale=(0.5, 1)) == \
        "image:32x24,gray,crop=random,scale=0.5-1"
    assert stoker.image() == "image" and stoker.image(field="jpg") == "image:field=jpg"
    with pytest.raises(stoker.UsageError, match="turn"):
        stoker.image(24, turn=True)
    with pytest.raises(stoker.UsageError, match="crop=left"):
        stoker.image(24, crop="left")


@pytest.mark.parametrize("text, said", [
    ("image:mean=0.5,dtype=uint8", "mean and std need"), ("image:std=0", "std=0"),
    ("image:std=1:0:1", "std=1:0:1"), ("image:mean=1:2", "mean=1:2"), ("image:mean=1:2:3:4", "mean"),
    ("image:mean=x", "mean=x"), ("image:dtype=float64", "dtype=float64"), ("image:mean=nan", "nan"),
    ("image:layout=cwh", "layout=cwh"), ("image:mean=", "mean="), ("image:mean=1::2", "mean")])
def test_image_settings_that_cannot_be(images, text, said):
    with pytest.raises(stoker.UsageError, match=said):
        stoker.Loader(images, decode=text)


def test_map_dataset_reads_a_batch_in_one_call(table):
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import stoker.torch
    data = stoker.torch.MapDataset(stoker.Dataset(table)[10:], transform=lambda s: s["x"])
    assert data.__getitems__([3, 0, 3]) == [13, 10, 13] and len(data) == 50 and torch


def test_processes_end_with_the_loader(table):
    """Whether it is closed, forgotten, or the program ends."""
    out = python("""
import gc, os, sys
import stoker
def pids():
    loader = stoker.Loader(sys.argv[1], batch=10, transform=lambda s: os.getpid(), workers=2)
    return loader, {p for b in loader for p in b.tolist()}
def alive(pids):
    return [p for p in pids if os.path.exists(f"/proc/{p}")]
loader, first = pids()
loader.close()
loader, second = pids()
assert os.getpid() not in first | second
del loader
gc.collect()
kept = pids()
print(alive(first), alive(second), len(alive(kept[1])) > 0)
""", table)
    assert out == "[] [] True\n"


def test_tuples_through_a_dataloader(table):
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    import stoker.torch
    data = stoker.torch.IterDataset(table, batch=10, as_tuple=("x", "v"), shuffle=False)
    for x, v in torch.utils.data.DataLoader(data, batch_size=None):
        assert x.shape == (10,) and v.shape == (10, 2)
