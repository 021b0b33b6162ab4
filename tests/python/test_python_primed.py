"""stoker.torch.DataLoader for datasets with code of their own: the samples of that code, from reads ahead."""

import multiprocessing
import random
import warnings

import pytest

torch = pytest.importorskip("torch", reason="python3-torch is not installed")

from conftest import run_stoker  # noqa: E402
from pythonlib import stoker  # noqa: E402

import h5py  # noqa: E402
import numpy as np  # noqa: E402
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset, random_split  # noqa: E402

import stoker.arrays  # noqa: E402
import stoker.files  # noqa: E402
import stoker.torch  # noqa: E402

pytestmark = pytest.mark.xdist_group("torch")  # importing it takes a while
N = 60


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("rows")
    with h5py.File(root / "a.h5", "w") as f:
        f["x"] = np.arange(N * 12, dtype="f4").reshape(N, 3, 4)
        f["y"] = np.arange(N, dtype="i8") * 10
    np.save(root / "x.npy", np.arange(N * 5, dtype="i2").reshape(N, 5))
    for i in range(N):
        (root / f"files/{i % 3}").mkdir(parents=True, exist_ok=True)
        np.save(root / f"files/{i % 3}/{i}.npy", np.full(i + 1, i, "u1"))
    for name in ("a.h5", "x.npy", "files"):
        mixed = ("--shuffle", 1) if name == "files" else ()
        run_stoker("pack", root / name, root / f"{name}-packed", *mixed, "--quiet", "--no-write-index")
    return root


class Rows(Dataset):
    """As most scripts have it: opened when it is made."""

    def __init__(self, root, packed=True):
        self.f = stoker.arrays.File(root / "a.h5", "r", packed={root / "a.h5": root / "a.h5-packed"} if packed else None)
        self.x, self.y = self.f["x"], self.f["y"]

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]) + 1, self.y[i]


class Lazy(Dataset):
    """As scripts with worker processes have it: opened for the first sample, in each process."""

    def __init__(self, root):
        self.root, self.f = root, None

    def __len__(self):
        return N

    def __getitem__(self, i):
        if self.f is None:
            self.f = stoker.arrays.File(self.root / "a.h5", packed={self.root / "a.h5": self.root / "a.h5-packed"})
        return torch.from_numpy(self.f["x"][i]) + 1, self.f["y"][i]


class Reopened(Lazy):
    """Opened for every sample."""

    def __getitem__(self, i):
        with stoker.arrays.File(self.root / "a.h5", packed={self.root / "a.h5": self.root / "a.h5-packed"}) as f:
            return torch.from_numpy(f["x"][i]) + 1, f["y"][i]


class Part(Dataset):
    """A split that the dataset itself makes."""

    def __init__(self, root, indices):
        self.rows, self.indices = Rows(root), indices

    def __len__(self):
        return len(self.indices)

    def __getitem__(self, i):
        return self.rows[self.indices[i]]


class Tail(Part):
    """The last rows."""

    def __getitem__(self, i):
        return self.rows[i + 40]


class Window(Rows):
    """Several rows per sample."""

    def __len__(self):
        return N - 4

    def __getitem__(self, i):
        return self.x[i:i + 4], self.y[i + 3]


class Unlike(Rows):
    """Another row than the number says."""

    def __getitem__(self, i):
        return super().__getitem__((i * 7 + 3) % N)


class Series(Dataset):
    """A window over a mapped array, and the row behind it."""

    def __init__(self, root):
        self.x = stoker.arrays.load(root / "x.npy", mmap_mode="r")

    def __len__(self):
        return N - 4

    def __getitem__(self, i):
        return self.x[i:i + 4] + 0, self.x[i + 4]


class Mapped(Dataset):
    def __init__(self, root):
        self.x = stoker.arrays.load(root / "x.npy", mmap_mode="r", packed={root / "x.npy": root / "x.npy-packed"})

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i].astype("f4"), i


class Files(Dataset):
    """A file per sample, in an order of the dataset's own."""

    def __init__(self, root):
        self.packed = {root / "files": root / "files-packed"}
        self.samples = [(str(p), int(p.stem)) for p in sorted(root.glob("files/*/*"), key=lambda p: -int(p.stem))]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        path, label = self.samples[i]
        file = stoker.files.member(path, self.packed)
        assert file != path
        return np.load(file)[-1:], label


class Names(Files):
    """Names below a folder, and open()."""

    def __init__(self, root):
        super().__init__(root)
        self.root, self.names = root / "files", ["/".join(p.split("/")[-2:]) for p, _ in self.samples]
        self.samples = [None] * len(self.samples)

    def __getitem__(self, i):
        with stoker.files.open(self.root / self.names[i], "rb", packed=self.packed) as f:
            assert isinstance(f, stoker.files.Member)
            return np.load(f)[-1:], i


class Table(Names):
    """A table of pandas with the names."""

    def __init__(self, root):
        super().__init__(root)
        pandas = pytest.importorskip("pandas", reason="python3-pandas is not installed")
        self.table, self.names = pandas.DataFrame({"weight": 1.5, "file": self.names}), None

    def __getitem__(self, i):
        return np.load(stoker.files.member(self.root / self.table.iloc[i]["file"], self.packed))[-1:], i


class Nothing:
    """Samples that nobody is to read one by one."""

    path = "nothing"

    def __getattr__(self, name):
        raise AssertionError("a row was read that should have been read ahead")

    __getitem__ = __len__ = __getattr__


def sources():
    from stoker import _rows
    return [s for s in _rows._known.values() if s is not None]


@pytest.fixture
def nothing_by_hand(monkeypatch):
    """From then on, rows come from the loader's reads or not at all."""
    def forbid():
        for source in sources():
            monkeypatch.setattr(source, "samples", Nothing())
        monkeypatch.setattr(stoker.arrays._Handle, "__call__", Nothing().__getattr__)
    return forbid


def samples(batches):
    return [(x.tolist(), int(y)) for xs, ys in batches for x, y in zip(xs, ys)]


def made(dataset, **options):
    """A loader of stoker's; anything it warns of is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = stoker.torch.DataLoader(dataset, **options)
    assert isinstance(batches, stoker.torch.Loader)
    return batches


def even(root):
    return Part(root, np.arange(0, N, 2))


def nested(root):
    return Subset(even(root), [3, 1, 20])


DATASETS = {"rows": Rows, "the file itself": lambda root: Rows(root, packed=False), "lazy": Lazy, "reopened": Reopened,
            "split": lambda root: random_split(Rows(root), [40, N - 40], torch.Generator().manual_seed(1))[0],
            "lazy split": lambda root: Subset(Lazy(root), list(range(30, 10, -1))), "own split": even,
            "nested": nested, "tail": lambda root: Tail(root, [0] * 20), "mapped": Mapped,
            "files": Files, "names": Names, "table": Table,
            "some files": lambda root: Subset(Files(root), [5, 2, 9])}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", DATASETS)
def test_samples_as_torch_gives_them(data, name, workers, nothing_by_hand):
    """In order the same batches, shuffled the same samples, each once per epoch; all of them read ahead."""
    dataset = DATASETS[name](data)
    want = samples(DataLoader(dataset, batch_size=7))
    in_order = made(dataset, batch_size=7, num_workers=workers)
    mixed = made(dataset, batch_size=7, shuffle=True, num_workers=workers, drop_last=len(want) % 7 == 0)
    nothing_by_hand()
    assert samples(in_order) == want and len(in_order) == -(-len(want) // 7)
    epochs = [samples(mixed) for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(want)
    assert len(want) < 20 or want != epochs[0] != epochs[1]


def test_batches_as_torch_gives_them(data):
    """The program's loop gets the same types: lists of tensors, what its collate_fn makes."""
    dataset = Rows(data)
    theirs, ours = next(iter(DataLoader(dataset, 4))), next(iter(made(dataset, batch_size=4)))
    assert type(ours) is type(theirs) and all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(ours, theirs))
    assert next(iter(made(dataset, batch_size=3, collate_fn=len))) == 3
    assert next(iter(made(dataset, batch_size=3, collate_fn=len, num_workers=2))) == 3


@pytest.mark.parametrize("dataset, method", [(Rows, "spawn"), (Lazy, "spawn"), (Lazy, "forkserver")])
def test_spawned_workers(data, dataset, method):
    """A program that must not fork reads the same."""
    dataset = dataset(data)
    batches = made(dataset, batch_size=20, num_workers=1, multiprocessing_context=multiprocessing.get_context(method))
    assert samples(batches) == samples(DataLoader(dataset, batch_size=20))


def test_torchs_own_workers(data):
    """A torch DataLoader with workers, where the patch changed the file alone."""
    for method in ("fork", "spawn"):
        theirs = DataLoader(Rows(data), batch_size=20, num_workers=1, multiprocessing_context=method)
        assert samples(theirs) == samples(DataLoader(Rows(data), batch_size=20))


def test_ranks(data):
    """Every rank gets its part by its DistributedSampler, in another order each epoch; together they get all."""
    dataset = Rows(data)
    want, found = sorted(samples(DataLoader(dataset, 8))), {}
    for rank in range(2):
        sampler = DistributedSampler(dataset, num_replicas=2, rank=rank, seed=3)
        batches = made(dataset, batch_size=8, sampler=sampler)
        for epoch in (0, 5):
            sampler.set_epoch(epoch)
            found[rank, epoch] = samples(batches)
    for epoch in (0, 5):
        assert sorted(found[0, epoch] + found[1, epoch]) == want
    assert found[0, 0] != found[0, 5]


@pytest.mark.parametrize("dataset, options", [
    (Window, {}), (Series, {}), (Unlike, {}), (Rows, {"num_workers": 1, "worker_init_fn": print})])
def test_what_cannot_be_read_ahead_is_torchs(data, dataset, options):
    """The same samples, if slower, and a warning that says why."""
    dataset = dataset(data)
    with pytest.warns(UserWarning, match="nothing is read ahead by stoker: "):
        batches = stoker.torch.DataLoader(dataset, batch_size=6, **options)
    assert isinstance(batches, DataLoader)
    with h5py.File(data / "a.h5") as f:
        x, y = f["x"][:], f["y"][:]
    for number, (some, label) in enumerate(dataset[i] for i in range(len(dataset))):
        if type(dataset) is Window:
            assert np.array_equal(some, x[number:number + 4]) and label == y[number + 3]


def test_a_guess_that_turns_out_wrong(data):
    """Samples whose numbers are mapped otherwise than the first ones looked at are right all the same."""
    class Odd(Rows):
        def __getitem__(self, i):
            return super().__getitem__(i if i in (0, N // 2, N - 1) else N - 1 - i)
    dataset = Odd(data)
    for workers in (0, 1):
        assert samples(made(dataset, batch_size=9, num_workers=workers)) == samples(DataLoader(dataset, batch_size=9))


def test_looking_at_a_dataset_changes_nothing(data):
    """Random numbers that the program draws are the same as without; its dataset has opened nothing yet."""
    class Noisy(Lazy):
        def __getitem__(self, i):
            return super().__getitem__(i)[0] + random.random() + np.random.rand() + torch.rand(1), 0
    dataset = Noisy(data)
    drawn = []
    for loader in (DataLoader, stoker.torch.DataLoader):
        torch.manual_seed(1), np.random.seed(1), random.seed(1)
        loader(dataset, batch_size=4)
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert drawn[0] == drawn[1] and dataset.f is None


def test_other_datasets_keep_torch(data):
    """Samples in memory, streams, a sampler of the program's own."""
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(3))

    class Broken(Rows):
        def __getitem__(self, i):
            raise KeyError(i)
    for dataset in (torch.utils.data.TensorDataset(torch.arange(5)), Stream(), [1, 2, 3], Broken(data)):
        assert type(stoker.torch.DataLoader(dataset, batch_size=2)) is DataLoader
    some = torch.utils.data.SubsetRandomSampler([1, 2])
    assert type(stoker.torch.DataLoader(Rows(data), sampler=some)) is DataLoader


def test_an_error_of_the_dataset(data):
    """Code that fails for one sample fails as itself in this process, and by its sample in a worker."""
    class Fails(Rows):
        def __getitem__(self, i):
            if i == 9:
                raise KeyError("nine")
            return super().__getitem__(i)
    with pytest.raises(KeyError, match="nine"):
        list(made(Fails(data), batch_size=4))
    with pytest.raises(stoker.TransformError, match="sample 9 .*nine"):
        list(made(Fails(data), batch_size=4, num_workers=1))
