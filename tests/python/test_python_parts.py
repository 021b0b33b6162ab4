"""Parts of a dataset (slices, subsets, splits), weights and samplers: read, loaded, resumed."""

import collections
import json
import pickle

import pytest

from pythonlib import python, stoker

import numpy as np

N = 200


@pytest.fixture(scope="module")
def ds(tmp_path_factory):
    """N rows: their number, and a class; 150 of the first, 40 of the second, 10 of the third."""
    path = tmp_path_factory.mktemp("table") / "a.npz"
    label = np.repeat([0, 1, 2], [150, 40, 10])
    np.savez(path, x=np.arange(N, dtype=np.int64), label=label)
    return stoker.Dataset(path)


def xs(samples):
    return [s["x"] for s in samples]


def loaded(data, **options):
    options = {"batch": 7, "shuffle": False, **options}
    return [x for b in stoker.Loader(data, **options) for x in b["x"].tolist()]


# ---- parts ----

@pytest.mark.parametrize("s", [slice(10, 50), slice(-20, None), slice(None, None, -1), slice(50, 10),
                               slice(5, 100, 7), slice(-1, -60, -9), slice(0, 0), slice(300, 400)])
def test_slices(ds, s):
    """As of a list, for a dataset and for a slice of one; the Loader goes through the same."""
    want = list(range(N))
    assert xs(ds[s]) == loaded(ds[s]) == want[s] and len(ds[s]) == len(want[s])
    for t in (slice(None, None, -2), slice(3, -3), slice(-4, None)):
        part = ds[s][t]
        assert xs(part) == loaded(part) == want[s][t] and list(part.numbers) == want[s][t]


@pytest.mark.parametrize("indices", [
    [3, 1, 1, 199, -1, -200], range(10, 50, 3), range(-1, -10, -2), range(-3, 3), [], (5,),
    np.array([4, 2, -3]), np.array([4, 2], np.uint8), {7: 1}.keys(), iter([9, 8])])
def test_subsets(ds, indices):
    """Any whole numbers, in their order, also more than once."""
    indices = list(indices) if not isinstance(indices, (range, np.ndarray)) else indices
    want = [int(i) % N for i in indices]
    part = ds.subset(indices)
    assert xs(part) == loaded(part) == want
    assert xs(part.subset([0, -1]) if want else []) == want[:1] + want[-1:]
    assert xs(pickle.loads(pickle.dumps(part))) == want


def test_masks(ds):
    """True and False for each sample, as in NumPy."""
    mask = np.arange(N) % 3 == 0
    for given in (mask, mask.tolist()):
        assert xs(ds.subset(given)) == list(range(0, N, 3))
    with pytest.raises(IndexError, match="mask of 199"):
        ds.subset(mask[:-1])


def test_what_is_no_index(ds):
    for wrong, error in (([200], IndexError), ([-201], IndexError), ([1.5], TypeError),
                         (["1"], TypeError), (np.array([1.0]), TypeError), (range(199, 201), IndexError),
                         (np.zeros((2, 2), int), TypeError)):
        with pytest.raises(error):
            ds.subset(wrong)
    with pytest.raises(IndexError):
        ds[:10][10]
    assert ds[:10][-1]["x"] == 9


def test_split(ds):
    """Parts have nothing in common, are the same every time, and have the sizes asked for."""
    train, val, test = ds.split(0.7, 0.2, 0.1, seed=3)
    assert [len(p) for p in (train, val, test)] == [140, 40, 20]
    assert sorted(xs(train) + xs(val) + xs(test)) == list(range(N))
    assert xs(train) == sorted(xs(train))  # stored order: neighbours are read together
    assert xs(ds.split(0.7, 0.2, 0.1, seed=3)[1]) == xs(val) != xs(ds.split(0.7, 0.2, 0.1)[1])
    few, = ds.split(0.05)
    assert len(few) == 10
    counts = ds.split(190, 10, seed=1)
    assert [len(p) for p in counts] == [190, 10] and not set(xs(counts[0])) & set(xs(counts[1]))
    assert [xs(p) for p in ds.split(0.5, 0.5, shuffle=False)] == [list(range(100)), list(range(100, N))]
    inner = train.split(0.5, 0.5, seed=1)
    assert sorted(xs(inner[0]) + xs(inner[1])) == xs(train)
    assert sorted(loaded(val, shuffle=True, drop_last=False)) == xs(val)


def test_split_is_the_same_in_every_version(ds):
    """A model is not to be validated on what it was trained with."""
    assert xs(ds.split(0.95, 0.05, seed=7)[1]) == [42, 53, 91, 108, 115, 123, 159, 165, 166, 198]


@pytest.mark.parametrize("by", ["label", "list"])
def test_stratified_split(ds, by):
    """Every class is divided alike, also one of few samples."""
    labels = ds.column("label")
    parts = ds.split(0.8, 0.2, seed=1, stratify="label" if by == "label" else labels.tolist())
    assert [collections.Counter(labels[xs(p)].tolist()) for p in parts] == [
        {0: 120, 1: 32, 2: 8}, {0: 30, 1: 8, 2: 2}]
    rare = [str(i // 3) for i in range(N)]  # three of each: one part cannot have all of them
    sizes = [len(p) for p in ds.split(0.9, 0.1, stratify=rare)]
    assert sizes == [180, 20]


def test_what_is_no_split(ds):
    for parts, said in (((), "needs the sizes"), ((0.9, 0.2), "add up to 1.1"), ((150, 60), "200 samples"),
                        ((0.5, 10), "all fractions"), ((-0.1, 0.5), "share of -0.1"), ((-1, 5), "200")):
        with pytest.raises(stoker.UsageError, match=said):
            ds.split(*parts)
    with pytest.raises(stoker.UsageError, match="3 classes of 200"):
        ds.split(0.5, stratify=[1, 2, 3])
    with pytest.raises(stoker.UsageError, match="shuffle=True"):
        ds.split(0.5, stratify="label", shuffle=False)


def test_parts_know_what_they_are_of(ds):
    part = ds[5:10]
    assert part.path == ds.path and part.format == ds.format and part.fields == ("x", "label")
    assert part.column("x").tolist() == [5, 6, 7, 8, 9] and "5 samples" in repr(part)
    assert [s["x"] for s in part.__getitems__([4, 0, 0, -1])] == [9, 5, 5, 9]
    assert ds.__getitems__([]) == []
    with pytest.raises(IndexError):
        part.__getitems__([5])


def test_the_numbers_of_a_batch_are_those_of_the_part(ds):
    part = ds.subset(range(50, 100))
    for batch in stoker.Loader(part, batch=8):
        assert [part[i]["x"] for i in batch.ids.tolist()] == batch["x"].tolist()


def test_parts_are_resumed(ds):
    """The state of a part goes with the part, by whatever way it was made; ranks divide it."""
    part = ds.split(0.8, 0.2, seed=1)[0]
    loader = stoker.Loader(part, batch=10, seed=4)
    first = [b["x"].tolist() for _, b in zip(range(5), loader)]
    state = loader.state()
    again = ds.subset(list(part.numbers))
    rest = [x for rank in range(2)
            for x in loaded(again, batch=10, seed=4, rank=rank, world=2, state=state)]
    assert sorted(sum(first, []) + rest) == xs(part)
    for other in (ds, ds.split(0.8, 0.2, seed=2)[0], ds[:160]):
        with pytest.raises(stoker.StaleError):
            list(stoker.Loader(other, batch=10, state=state))
    copy = pickle.loads(pickle.dumps(loader))
    assert [b["x"].tolist() for b in copy] == [b["x"].tolist() for b in loader.__class__(
        part, batch=10, seed=4, state=state)]


def test_a_part_in_a_fork(ds):
    """A forked worker reads the part that its parent made."""
    part = ds[20:40]
    assert python("""
import multiprocessing, sys
import stoker
part = stoker.Dataset(sys.argv[1])[20:40]
part[0]
with multiprocessing.get_context("fork").Pool(2) as pool:
    print([s["x"] for s in pool.map(part.__getitem__, [0, 19])])
""", ds.path) == "[20, 39]\n" and part[0]["x"] == 20


# ---- weights ----

def test_weights(ds):
    """Samples come as often as their weight says, the same in every run, and others each epoch."""
    labels = ds.column("label")
    weights = 1 / np.bincount(labels)[labels]
    loader = stoker.Loader(ds, batch=50, weights=weights, draws=6000, seed=2)
    epochs = [np.concatenate([b["label"] for b in loader]) for _ in range(2)]
    for drawn in epochs:
        assert len(drawn) == 6000 and all(1800 < n < 2200 for n in np.bincount(drawn))
    assert (epochs[0] != epochs[1]).any() and len(loader) == 120
    again = stoker.Loader(ds, batch=50, weights=weights.tolist(), draws=6000, seed=2)
    assert (np.concatenate([b["label"] for b in again]) == epochs[0]).all()
    none = np.zeros(N)
    none[[3, 77]] = 1, 2
    batch = next(iter(stoker.Loader(ds, batch=100, weights=none)))
    assert set(batch["x"].tolist()) == {3, 77} and batch.ids.tolist() == batch["x"].tolist()


def test_weights_are_divided_and_resumed(ds):
    weights, options = np.arange(N), {"batch": 8, "seed": 1, "last": "short"}
    whole = loaded(ds, weights=weights, **options)
    halves = [loaded(ds, weights=weights, rank=r, world=2, **options) for r in range(2)]
    assert halves[0] + halves[1] == whole
    loader = stoker.Loader(ds, weights=weights, **options)
    loader.set_epoch(3)
    first = [b["x"].tolist() for _, b in zip(range(4), loader)]
    resumed = stoker.Loader(ds, weights=weights, state=loader.state(), **{**options, "seed": 99})
    want = stoker.Loader(ds, weights=weights, epoch=3, **options)
    two = [[b["x"].tolist() for b in want], [b["x"].tolist() for b in want]]
    assert first + [b["x"].tolist() for b in resumed] == two[0]
    assert json.loads(resumed.state())["epoch"] == 4
    again = stoker.Loader(ds, weights=weights, state=resumed.state(), **options)
    assert [b["x"].tolist() for b in again] == two[1] == [b["x"].tolist() for b in resumed]
    with pytest.raises(stoker.StaleError, match="sampler gives other samples"):
        list(stoker.Loader(ds, weights=weights[::-1], state=loader.state(), **options))


@pytest.mark.parametrize("options, said", [
    ({"weights": [1, 2]}, "2 of them for 200"), ({"weights": [0] * N}, "add up to 0"),
    ({"weights": [-1.0] + [1] * (N - 1)}, "weight -1 of sample 0"),
    ({"weights": [float("nan")] * N}, "0 or more"), ({"weights": [1] * N, "draws": -1}, "draws=-1"),
    ({"weights": [1] * N, "sampler": [1]}, "give one"), ({"draws": 3}, "goes with weights"),
    ({"weights": [1] * N, "shuffle": True}, "leave shuffle= out"),
    ({"sampler": [1], "shuffle": "global"}, "leave shuffle= out"), ({"sampler": iter([1])}, "one epoch"),
    ({"sampler": 5}, "iterable")])
def test_what_cannot_be_drawn(ds, options, said):
    with pytest.raises((TypeError, stoker.UsageError), match=said):
        stoker.Loader(ds, **options)


# ---- samplers ----

class Shuffled:
    """As torch's: another order whenever it is gone through."""

    def __init__(self, n):
        self.n, self.epoch, self.asked = n, 0, []

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        self.asked.append(self.epoch)
        return iter(np.random.default_rng(self.epoch).permutation(self.n)[:50].tolist())

    def __len__(self):
        return 50


def test_samplers(ds):
    """A sequence, an object that is gone through again, a function of the epoch."""
    assert loaded(ds, sampler=[5, 5, 3]) == [5, 5, 3]
    loader = stoker.Loader(ds, batch=10, sampler=lambda epoch: range(epoch, 40 + epoch * 10))
    assert [[x for b in loader for x in b["x"].tolist()] for _ in range(3)] == [
        list(range(e, 40 + e * 10)) for e in range(3)]
    ours = Shuffled(N)
    loader = stoker.Loader(ds, batch=20, sampler=ours)
    assert len(loader) == 3
    for epoch in range(2):
        want = np.random.default_rng(epoch).permutation(N)[:50].tolist()
        batches = list(loader)
        assert [x for b in batches for x in b["x"].tolist()] == want
        assert [i for b in batches for i in b.ids.tolist()] == want
        assert {b.epoch for b in batches} == {epoch}
    assert ours.asked == [0, 1]
    assert loaded(ds[100:], sampler=[0, -1]) == [100, 199]
    with pytest.raises(IndexError):
        loaded(ds, sampler=[200])


def test_a_transform_of_what_a_sampler_gives(ds):
    """The error names the sample of the dataset, not its place in the epoch."""
    with pytest.raises(stoker.TransformError, match="sample 42 ") as e:
        list(stoker.Loader(ds, sampler=[7, 42], transform=lambda s: 1 // (s["x"] - 42)))
    assert e.value.id == 42


def test_samplers_are_resumed(ds):
    """In the middle of an epoch, at its end, and by a copy."""
    loader = stoker.Loader(ds, batch=20, sampler=Shuffled(N))
    got = [next(iter(loader))["x"].tolist()]
    resumed = stoker.Loader(ds, batch=20, sampler=Shuffled(N), state=loader.state())
    got += [b["x"].tolist() for b in pickle.loads(pickle.dumps(loader))]
    assert got[1:] == [b["x"].tolist() for b in resumed]
    assert sum(got, []) == np.random.default_rng(0).permutation(N)[:50].tolist()
    after = stoker.Loader(ds, batch=50, sampler=Shuffled(N), state=resumed.state())
    assert next(iter(after))["x"].tolist() == np.random.default_rng(1).permutation(N)[:50].tolist()


def test_a_sampler_that_divides_by_rank_is_refused(ds):
    torch = pytest.importorskip("torch", reason="python3-torch is not installed")
    from torch.utils.data import DistributedSampler, SequentialSampler
    with pytest.raises(TypeError, match="gives each rank its part"):
        stoker.Loader(ds, sampler=DistributedSampler(ds, num_replicas=2, rank=0))
    assert loaded(ds, sampler=SequentialSampler(range(9))) == list(range(9)) and torch
