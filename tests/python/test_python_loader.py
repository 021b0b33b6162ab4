"""stoker.Loader: epochs, order, resuming, ranks, damage, from Python."""

import io
import json
import os
import pickle
import subprocess
import threading
import warnings

import pytest

from conftest import STOKER, clean_env, flip_byte
from pythonlib import stoker, write_records

import numpy as np

N = 1000


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """N rows: x of shape (3, 4), and their own number as label."""
    path = tmp_path_factory.mktemp("table") / "a.npz"
    np.savez(path, x=np.arange(N * 12, dtype=np.float32).reshape(N, 3, 4), label=np.arange(N))
    return path


@pytest.fixture
def records(tmp_path):
    """A hundred raw records of 100 bytes."""
    write_records(tmp_path / "r.tfrecord", [bytes([i]) * 100 for i in range(100)])
    return tmp_path / "r.tfrecord"


def labels(batches):
    return [x for b in batches for x in b["label"].tolist()]


def test_classes_that_stay_together_are_told_once(tmp_path):
    """Few of many sorted classes in a window: a warning with what to do; not for what is mixed."""
    for c in range(400):
        (tmp_path / "in" / f"{c:03}").mkdir(parents=True)
        for i in range(8):
            (tmp_path / "in" / f"{c:03}" / f"{i}.bin").write_bytes(b"x" * 100)
    with pytest.warns(UserWarning, match="stand together.*window=.*shuffle=\"global\"") as told:
        loader = stoker.Loader(tmp_path / "in", window=80000)
        for _ in range(3):
            next(iter(loader))
        list(stoker.Loader(tmp_path / "in", window=80000, rank=1, world=2))
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"window": 80000, "shuffle": "global"}, {"window": 80000, "shuffle": False}):
            next(iter(stoker.Loader(tmp_path / "in", **options)))


# ---- batches ----

def test_dense_columns(table):
    """Arrays of one shape come as one array a batch, in order when not shuffled."""
    steps = 0
    for step, batch in enumerate(stoker.Loader(table, batch=64, shuffle="none", last="short")):
        first = step * 64
        assert batch.step == step and batch.epoch == 0 and len(batch) == min(64, N - first)
        assert np.array_equal(batch["label"], np.arange(first, first + len(batch)))
        assert np.array_equal(batch["x"].ravel(), np.arange(first * 12, (first + len(batch)) * 12))
        assert batch["x"].dtype == np.float32 and batch["x"].shape == (len(batch), 3, 4)
        assert np.array_equal(batch.ids, batch["label"])
        steps += 1
    assert steps == 16


def test_mapping(table):
    """A batch is used like a dict; dict() makes one of it."""
    batch = next(iter(stoker.Loader(table, batch=4)))
    assert list(batch) == list(batch.keys()) == ["x", "label"] and "x" in batch and "y" not in batch
    assert dict(batch)["label"] is batch["label"] and batch.get("y", 7) == 7
    assert [k for k, v in batch.items()] == ["x", "label"] and len(batch.values()) == 2
    with pytest.raises(KeyError, match="y"):
        batch["y"]
    assert "4 samples of x, label" in repr(batch)


def test_byte_strings(records):
    """Byte strings come as views, as copies, and all at once."""
    batch = next(iter(stoker.Loader(records, batch=10, shuffle=False)))
    column = batch["data"]
    assert isinstance(column, stoker.Column) and len(column) == 10
    assert column.bytes(3) == bytes([3]) * 100 and column.bytes(-1) == bytes([9]) * 100
    assert column.tolist() == [bytes([i]) * 100 for i in range(10)]
    assert isinstance(column[4], np.ndarray) and column[4].tobytes() == bytes([4]) * 100
    assert not column[4].flags.writeable and [c[0] for c in column] == list(range(10))
    assert column[-1][0] == 9
    assert column.sizes().tolist() == [100] * 10
    assert column.concat().tobytes() == b"".join(column.tolist())
    for wrong in (10, -11):
        with pytest.raises(IndexError):
            column[wrong]
        with pytest.raises(IndexError):
            column.bytes(wrong)


def test_text_and_values(tmp_path):
    """Text is str; what has no common shape is a list of values, None where there is none."""
    (tmp_path / "a.jsonl").write_text(
        '{"t": "\u00e4", "v": [1, 2], "o": {"a": 1}}\n{"t": "b", "v": [1, 2, 3], "o": {}}\n'
        '{"t": "c"}\n')
    batch = next(iter(stoker.Loader(tmp_path / "a.jsonl", batch=3, shuffle=False)))
    assert batch["t"] == ["\u00e4", "b", "c"]
    assert [v if v is None else v.tolist() for v in batch["v"]] == [[1, 2], [1, 2, 3], None]
    assert batch["o"] == [{"a": 1}, {}, None]


def test_fields_and_keys(stoker, images, tmp_path):
    """Columns that are not requested are not made; keys come only on request."""
    stoker("pack", images[0], tmp_path / "p", "--format", "tar")
    import stoker as package
    batch = next(iter(package.Loader(tmp_path / "p", batch=15, shuffle=False, fields="label",
                                     keys=True)))
    assert list(batch) == ["key", "label"]
    assert batch["label"].tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert [k.split(".")[0] + ".jpg" for k in batch["key"]] == list(images[1])
    with pytest.raises(package.UsageError, match="nothing"):
        next(iter(package.Loader(tmp_path / "p", fields=["nothing"])))


def test_decoded_images(tmp_path):
    """Images are decoded into one array; the pixels are those PIL sees."""
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "a").mkdir()
    for i in range(6):
        pixels = np.zeros((20, 30, 3), np.uint8)
        pixels[:, : 5 * i, 1] = 200
        image.fromarray(pixels).save(tmp_path / f"a/{i}.png")
    batch = next(iter(stoker.Loader(tmp_path, batch=6, shuffle=False, decode="image:30x20")))
    assert batch["data"].shape == (6, 20, 30, 3) and batch["data"].dtype == np.uint8
    for i in range(6):
        with image.open(io.BytesIO(stoker.Dataset(tmp_path)[i]["data"])) as im:
            assert np.array_equal(batch["data"][i], np.asarray(im))


# ---- order and epochs ----

@pytest.mark.parametrize("shuffle", ["block", "global", True])
def test_every_sample_once(table, shuffle):
    """A shuffled epoch has every sample once, each epoch in another order, a seed in the same."""
    loader = stoker.Loader(table, batch=50, shuffle=shuffle, seed=3)
    epochs = [labels(loader) for _ in range(3)]
    assert all(sorted(e) == list(range(N)) for e in epochs)
    assert epochs[0] != epochs[1] != epochs[2] and epochs[0] != list(range(N))
    again = stoker.Loader(table, batch=25, shuffle=shuffle, seed=3, epoch=1, threads=1, epochs=2)
    assert [labels(again), labels(again)] == epochs[1:]
    assert labels(stoker.Loader(table, batch=50, shuffle=shuffle, seed=4)) != epochs[0]


def test_each_for_is_an_epoch(table):
    """Left by break or an exception, or run to its end: the next `for` is the next epoch."""
    loader = stoker.Loader(table, batch=100, seed=1)
    want = [labels(stoker.Loader(table, batch=100, seed=1, epoch=e)) for e in range(4)]
    assert loader.epoch == 0
    for batch in loader:
        break
    assert batch["label"].tolist() == want[0][:100]
    with pytest.raises(ZeroDivisionError):
        for batch in loader:
            assert loader.epoch == 1
            1 / 0
    assert batch["label"].tolist() == want[1][:100]
    assert labels(loader) == want[2] and loader.epoch == 3
    iter(loader)  # nothing was taken: nothing is lost
    assert labels(loader) == want[3] and len(loader) == 10


def test_one_iteration_at_a_time(table):
    """An iteration that another one took over from says so instead of mixing epochs."""
    loader = stoker.Loader(table, batch=100)
    old = iter(loader)
    next(old)
    assert next(iter(loader)).epoch == 1
    with pytest.raises(stoker.Error, match="another one has begun"):
        next(old)
    done = iter(stoker.Loader(table, batch=100))
    assert len(list(done)) == 10 and list(done) == []


def test_set_epoch(table):
    """As with a DistributedSampler, the epoch can be set; setting what is so changes nothing."""
    loader = stoker.Loader(table, batch=100, seed=5)
    loader.set_epoch(7)
    assert labels(loader) == labels(stoker.Loader(table, batch=100, seed=5, epoch=7))
    loader.set_epoch(8)
    assert next(iter(loader)).epoch == 8
    loader.set_epoch(8)
    assert next(iter(loader)).epoch == 8


@pytest.mark.parametrize("last, sizes, repeated", [
    ("drop", [300, 300, 300], 0), ("short", [300, 300, 300, 100], 0), ("pad", [300] * 4, 200)])
def test_last_batch(table, last, sizes, repeated):
    """The last batch is dropped, short, or filled up with samples that are marked."""
    batches = list(stoker.Loader(table, batch=300, last=last))
    assert [len(b) for b in batches] == sizes
    assert sum(int(b.repeats.sum()) for b in batches) == repeated
    fresh = [x for b in batches for x in b.ids[~b.repeats].tolist()]
    assert len(set(fresh)) == len(fresh) == sum(sizes) - repeated


# ---- ranks and states ----

def test_ranks_share_the_epoch(table):
    """Three ranks have as many batches each and together every sample."""
    parts = [list(stoker.Loader(table, batch=64, rank=r, world=3, last="pad")) for r in range(3)]
    assert len({len(p) for p in parts}) == 1
    fresh = sorted(x for p in parts for b in p for x in b.ids[~b.repeats].tolist())
    assert fresh == list(range(N))


def test_rank_from_the_launcher(table, monkeypatch):
    """Under torchrun or srun nothing needs to be said about ranks."""
    for name, value in {"RANK": 1, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    assert stoker.rank() == (1, 4, 1, 4, "torchrun")
    got = labels(stoker.Loader(table, batch=50, shuffle=False))
    assert got == labels(stoker.Loader(table, batch=50, shuffle=False, rank=1, world=4))
    assert stoker.Loader(table).rank() == (1, 4)
    monkeypatch.setenv("RANK", "4")
    with pytest.raises(stoker.Error, match="RANK"):
        len(stoker.Loader(table))


@pytest.mark.parametrize("taken", [0, 1, 6])
def test_resume(table, taken):
    """A loader that goes on from a state gives what the first one had not given yet."""
    first = stoker.Loader(table, batch=100, seed=9, epoch=2)
    batches = iter(first)
    for _ in range(taken):
        next(batches)
    state = first.state()
    rest = labels(batches)
    again = stoker.Loader(table, batch=100, state=state)
    assert again.epoch == 2 and len(again) == 10 and labels(again) == rest
    assert labels(again) == labels(first) and again.epoch == 4  # and the epoch after
    assert len(again) == 10


def test_resume_at_the_end(table):
    """A state taken at the last batch goes on with the next epoch, not with an empty one."""
    first = stoker.Loader(table, batch=100, seed=9)
    batches = iter(first)
    for _ in range(10):
        next(batches)
    state = first.state()
    assert first.epoch == 0 and list(batches) == [] and first.epoch == 1
    again = stoker.Loader(table, batch=100, state=state)
    assert again.epoch == 1 and len(again) == 10 and labels(again) == labels(first)
    done = json.loads(state)  # what others may write of the same place
    done.update(stoker_loader=1, epoch=1, done=[{"world": 1, "each": N}])  # without a checksum
    again = stoker.Loader(table, batch=100, state=json.dumps(done))
    assert next(iter(again)).epoch == 2


def test_who_counts_batches(table):
    """A program that takes len(loader) batches and no more has finished the epoch."""
    loader = stoker.Loader(table, batch=100, seed=9)
    for epoch in range(3):
        got = labels(batch for _, batch in zip(range(len(loader)), loader))
        assert sorted(got) == list(range(N)) and loader.stats()["batches"] >= 10 * (epoch + 1)


def test_resume_with_more_ranks(table):
    """A job that is given other resources goes on: nothing is lost, nothing seen twice."""
    first = [stoker.Loader(table, batch=50, seed=1, rank=r, world=2) for r in range(2)]
    seen = []
    for loader in first:
        batches = iter(loader)
        seen += labels(next(batches) for _ in range(4))
    for r in range(5):
        seen += labels(stoker.Loader(table, batch=40, rank=r, world=5, state=first[0].state()))
    assert sorted(seen) == list(range(N))


def test_states_of_all_ranks(damaged):
    """Where ranks skipped samples, their states together say what is left."""
    loaders = [stoker.Loader(damaged, batch=5, seed=1, rank=r, world=2, on_error="skip")
               for r in range(2)]
    seen = []
    for loader in loaders:
        batches = iter(loader)
        seen += [x for _ in range(8) for x in next(batches).ids.tolist()]
    states = [loader.state() for loader in loaders]
    for r in range(3):
        again = stoker.Loader(damaged, batch=4, rank=r, world=3, state=states, on_error="skip",
                              last="short")
        seen += [int(i) for b in again for i in b.ids[~b.repeats]]
    assert len(seen) == len(set(seen)) and set(range(100)) - set(seen) <= {30, 60}
    with pytest.raises(stoker.Error):
        stoker.Loader(damaged, state=[states[0], "{}"])


def test_states_are_checked(table, records):
    """A state of something else is refused before training goes wrong."""
    for wrong in ("", "{}", "null", "[1]", '{"epoch": 3}'):
        with pytest.raises(stoker.Error):
            len(stoker.Loader(table, state=wrong))
    with pytest.raises(stoker.StaleError, match="another dataset"):
        len(stoker.Loader(table, state=stoker.Loader(records).state()))
    loader = stoker.Loader(table, batch=100)
    state = loader.state()
    next(iter(loader))
    loader.load_state(state)
    assert next(iter(loader)).step == 0 and loader.epoch == 0


def test_set_epoch_keeps_a_state_of_that_epoch(table):
    """The usual loop, set_epoch() and `for`, does not throw away where it was."""
    first = stoker.Loader(table, batch=100, seed=2)
    batches = iter(first)
    next(batches)
    again = stoker.Loader(table, batch=100, state=first.state())
    again.set_epoch(0)
    assert labels(again) == labels(batches)


# ---- damage ----

@pytest.fixture
def damaged(tmp_path):
    """A hundred records; two of them are corrupt."""
    path = tmp_path / "d.tfrecord"
    write_records(path, [bytes([i]) * 100 for i in range(100)])
    for i in (30, 60):
        flip_byte(path, i * 116 + 50)
    return path


def test_damage_stops(damaged):
    """By default a corrupt sample is an exception with its place; another `for` tries again."""
    loader = stoker.Loader(damaged, batch=10, shuffle=False)
    for _ in range(2):
        given = 0
        with pytest.raises(stoker.CorruptError) as e:
            for batch in loader:
                given += len(batch)
        assert given == 30 and e.value.path.endswith("d.tfrecord")
        assert 30 * 116 <= e.value.offset < 31 * 116

def test_epochs_beyond_what_a_double_holds(table):
    """The state of such an epoch is written as text: the epoch could not be resumed."""
    for epoch in (2 ** 53 + 1, 2 ** 63 + 5):
        loader = stoker.Loader(table, batch=100, epoch=epoch)
        first = labels([next(iter(loader))])
        again = stoker.Loader(table, batch=100, state=loader.state())
        assert again.epoch == epoch and sorted(first + labels(again)) == list(range(N))


def test_a_state_with_a_flipped_bit(table):
    """A training that goes on from a damaged state loses samples, or has some twice."""
    loader = stoker.Loader(table, batch=70)
    next(iter(loader))
    text = loader.state()
    stoker.Loader(table, batch=70, state=json.dumps(json.loads(text), indent=1)).state()
    with pytest.raises(stoker.Error, match="checksum does not match"):
        stoker.Loader(table, batch=70, state=text.replace('"each":70', '"each":72')).state()


@pytest.mark.parametrize("how", ["skip", "replace"])
def test_a_lost_shard_is_passed_over(tmp_path, how):
    """A packed dataset that lost a shard: its other samples come, the number of steps stays."""
    write_records(tmp_path / "r.tfrecord", [bytes([i]) * 100 for i in range(100)])
    subprocess.run([STOKER, "pack", tmp_path / "r.tfrecord", tmp_path / "p", "--format", "recordio",
                    "--shards", "4", "--quiet"], check=True, env=clean_env())
    whole = stoker.Loader(tmp_path / "p", batch=10)
    assert sum(len(b) for b in whole) == 100
    assert whole.stats()["checked"] == 100 and whole.stats()["checked_bytes"] > 10000
    shard = sorted((tmp_path / "p").glob("*.rec"))[0]
    shard.write_bytes(shard.read_bytes() + b"\n")
    for reads in (stoker.Dataset, stoker.Loader):
        with pytest.raises(stoker.Error, match=f"{shard.name}.*bytes, but .* were packed"):
            reads(tmp_path / "p")
    shard.unlink()
    with pytest.raises(stoker.Error, match=shard.name):
        stoker.Loader(tmp_path / "p", batch=10)
    loader = stoker.Loader(tmp_path / "p", batch=10, on_error=how)
    fresh = [i for b in loader for i, r, x in zip(b.ids, b.repeats, b.replaced) if not r and not x]
    assert len(loader) == 10 and sorted(fresh) == list(range(25, 100)) and loader.problems()



@pytest.mark.parametrize("how", ["skip", "replace"])
def test_damage_is_passed_over(damaged, how):
    """With on_error the number of steps stays, and every corrupt sample is listed."""
    loader = stoker.Loader(damaged, batch=10, shuffle=False, on_error=how)
    batches = list(loader)
    assert len(loader) == 10
    assert len(batches) == 10 if how == "replace" else len(batches) in (9, 10)
    assert all(len(b) == 10 for b in batches)
    got = [b["data"].bytes(i)[0] for b in batches for i in range(10)]
    assert not {30, 60} & set(got)
    assert len(loader.problems()) == 2 and all("d.tfrecord:" in p for p in loader.problems())
    if how == "replace":
        assert sum(int(b.replaced.sum()) for b in batches) == 2
    assert loader.stats()["corrupt"] == 2


def test_trusting(damaged):
    """check=False does not look at checksums."""
    assert len(list(stoker.Loader(damaged, batch=10, check=False))) == 10


# ---- options ----

def test_options_are_checked(table):
    """What makes no sense is refused with the choices there are."""
    for options, said in [({"shuffle": "blok"}, "block, global, none"), ({"last": 3}, "drop, pad"),
                          ({"on_error": "ignore"}, "stop, skip"), ({"batch": 0}, "batch=0"),
                          ({"batch": 1 << 32}, "batch="), ({"seed": -1}, "seed=-1"),
                          ({"rank": 1}, "both or none"), ({"io": "tape"}, "no engine"),
                          ({"decode": "image:0"}, "."), ({"memory": "lots"}, "lots"),
                          ({"rank": 2, "world": 2}, "rank 2 of 2")]:
        with pytest.raises(ValueError, match=said):
            next(iter(stoker.Loader(table, **options)))
    with pytest.raises(TypeError):
        stoker.Loader(table, shufle=True)
    with pytest.raises(TypeError):
        stoker.Loader(stoker.Dataset(table), format="npz")


@pytest.mark.parametrize("io_engine", ["threads", "mmap", "uring", "direct"])
def test_settings_do_not_change_the_data(records, io_engine):
    """Engines, threads and memory are about speed only."""
    loader = stoker.Loader(records, batch=7, seed=1, io=io_engine, threads=2, memory="8M", depth=2,
                           read="64K", last="short")
    try:
        got = [b for batch in loader for b in batch["data"].tolist()]
    except stoker.UnsupportedError as e:
        pytest.skip(f"{io_engine}: {e}")
    want = stoker.Loader(records, batch=7, seed=1, last="short", check=False)
    assert got == [b for batch in want for b in batch["data"].tolist()]
    stats = loader.stats()
    assert stats["samples"] == 100 and stats["bytes_asked"] >= 10000 and stats["threads"] == 2
    assert stats["memory_bytes"] == 8 << 20 and stats["io"]


def test_threads_share_an_iteration(table):
    """Several threads that take from one iteration get every batch once."""
    batches, seen, lock = iter(stoker.Loader(table, batch=10)), [], threading.Lock()

    def take():
        for batch in batches:
            with lock:
                seen.extend(batch["label"].tolist())
    threads = [threading.Thread(target=take) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(seen) == list(range(N))


def test_closed(table):
    """After close() or `with`, use is an error that says so; the dataset of the caller stays."""
    ds = stoker.Dataset(table)
    with stoker.Loader(ds, batch=100) as loader:
        batches = iter(loader)
        next(batches)
    with pytest.raises(stoker.Error, match="closed"):
        next(batches)
    with pytest.raises(ValueError, match="closed"):
        iter(loader)
    assert ds[3]["label"] == 3


def test_pickle(table):
    """A loader can be handed to another process, which goes on where it is."""
    loader = stoker.Loader(table, batch=100, seed=6, epoch=2)
    fresh = pickle.loads(pickle.dumps(loader))
    batches = iter(loader)
    first = labels([next(batches)])
    again = pickle.loads(pickle.dumps(loader))
    assert again.epoch == 2 and len(again) == 10
    rest = labels(batches)
    assert labels(again) == rest and labels(fresh) == first + rest
    done = pickle.loads(pickle.dumps(loader))
    assert done.epoch == again.epoch == 3 and labels(done) == labels(again) == labels(loader)


def test_path_like(table):
    """Paths may be str, bytes-like paths of the system, or pathlib's."""
    for path in (str(table), table, os.fspath(table)):
        assert len(stoker.Loader(path, batch=10)) == 100


def test_keys_that_stand_in_the_records(tmp_path):
    """A user who writes predictions beside the samples needs to know which they are."""
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f'{{"key": "row-{i}", "x": {i}}}\n' for i in range(40)))
    with stoker.Dataset(source) as ds, stoker.Loader(ds, batch=8, keys=True, rank=0, world=1) as loader:
        for batch in loader:
            keys = [k if isinstance(k, str) else bytes(k).decode() for k in batch["key"]]
            assert keys == [ds[int(i)]["key"] for i in batch.ids]
            assert keys == [f"row-{int(i)}" for i in batch.ids]


# ---- values as the dataset has them ----

ROWS = [
    ['{"a": "x"}', '{"a": null}', '{"a": "null"}'],
    ['{"a": {"k": 1}}', '{"a": "7"}', '{"a": 7}', '{"a": [7]}'],
    ['{"a": null}', '{"a": "x"}', '{"a": {"$base64": "AAE="}}', '{"a": 1.5}'],
    ['{"a": {"$base64": "AAE="}}', '{"a": null}', '{"a": "b"}', '{"a": true}'],
    ['{"a": 1}', '{"a": null}', '{"a": "1"}', '{"a": {"k": null}}'],
    ['{"a": "x"}', '{"a": "y", "b": 1}', '{"b": null, "c": "z"}', '{}'],
    ['{"a": [1, 2]}', '{"a": []}', '{"a": [[1], [2]]}', '{"a": ["p", 1]}'],
    ['{"a": null}', '{"a": null}'],
    ['{"a": ""}', '{"a": "\\ud83d\\ude00"}', '{"a": "{}"}', '{"a": {}}'],
]


def same(a, b):
    """Equal, and of one type; arrays of one dtype and shape."""
    if hasattr(a, "dtype") or hasattr(b, "dtype"):
        a, b = np.asarray(a), np.asarray(b)
        return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)
    return type(a) is type(b) and a == b


def value_of(column, i):
    if isinstance(column, stoker.Column):
        return column.bytes(i)
    value = column[i]
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("rows", ROWS, ids=range(len(ROWS)))
def test_values_are_the_dataset_s(tmp_path, rows):
    """Null, text, JSON, bytes and numbers arrive as in Dataset, whichever comes first."""
    (tmp_path / "a.jsonl").write_text("".join(row + "\n" for row in rows))
    with stoker.Dataset(tmp_path / "a.jsonl") as ds:
        for batch_size in (1, 2, len(rows)):
            for batch in stoker.Loader(ds, batch=batch_size, shuffle=False, last="short"):
                for i, number in enumerate(batch.ids.tolist()):
                    want = {k: v for k, v in ds[number].items() if k != "key"}
                    got = {k: value_of(batch[k], i) for k in batch}
                    assert want.keys() <= got.keys()
                    for name, value in got.items():
                        assert same(value, want.get(name)), (name, value, want)


def test_fields_of_later_rows(tmp_path):
    """A field that the first rows do not have is given, and can be asked for."""
    (tmp_path / "a.jsonl").write_text("".join(
        f'{{"a": {i}{", " + chr(34) + "late" + chr(34) + ": " + str(i) if i >= 50 else ""}}}\n'
        for i in range(100)))
    seen = {}
    for batch in stoker.Loader(tmp_path / "a.jsonl", batch=10, seed=4):
        late = batch["late"] if "late" in batch else [None] * len(batch)
        seen.update(zip(batch.ids.tolist(), late))
    assert seen == {i: i if i >= 50 else None for i in range(100)}
    batch = next(iter(stoker.Loader(tmp_path / "a.jsonl", batch=100, shuffle=False, fields="late")))
    assert list(batch) == ["late"] and batch["late"] == [None] * 50 + list(range(50, 100))
    with pytest.raises(stoker.UsageError, match="there is no field 'never'"):
        next(iter(stoker.Loader(tmp_path / "a.jsonl", fields=["never"])))


# ---- training ----

def accuracy_after_an_epoch(path, validation, seed, **options):
    """Softmax regression, the samples as they come."""
    w, speed = np.zeros((64, 10)), 0
    for batch in stoker.Loader(path, batch=16, seed=seed, **options):
        x, y = batch["x"] / 64.0 - 2, batch["label"]
        p = np.exp(x @ w - (x @ w).max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        speed = 0.9 * speed - 0.01 * (x.T @ p) / len(y)
        w = w + speed
    x, y = validation
    return ((x / 64.0 - 2) @ w).argmax(1) == y


def test_sorted_classes_are_learned_as_shuffled_ones(tmp_path):
    """The default order of a dataset stored class by class costs accuracy: the last classes that
    came are all a model knows."""
    rng = np.random.default_rng(1)
    middle, y = rng.normal(0, 1, (10, 64)), np.repeat(np.arange(10), 2100)
    x = np.clip(middle[y] * 20 + rng.normal(0, 60, (len(y), 64)) + 128, 0, 255).astype("u1")
    held = np.arange(len(y)) % 2100 < 100
    np.savez(tmp_path / "a.npz", x=x[~held], label=y[~held])
    test = x[held], y[held]
    got = {name: [accuracy_after_an_epoch(tmp_path / "a.npz", test, seed, **how).mean()
                  for seed in range(8)]
           for name, how in {"global": {"shuffle": "global"}, "block": {"window": "128K"}}.items()}
    noise = np.std(got["global"], ddof=1) + np.std(got["block"], ddof=1)
    assert np.mean(got["global"]) > 0.5
    assert abs(np.mean(got["global"]) - np.mean(got["block"])) < max(noise, 0.01), got


@pytest.mark.parametrize("shuffle", ["none", "block", "global"])
def test_a_large_compressed_array_is_decoded_once(tmp_path, shuffle):
    """savez_compressed is what people have: an epoch of it is one pass over it, not hundreds."""
    rows = np.random.default_rng(0).integers(0, 64, (1600, 4096)).astype("u1")
    np.savez_compressed(tmp_path / "x.npz", x=rows)
    loader = stoker.Loader(tmp_path / "x.npz", batch=32, shuffle=shuffle)
    for batch in loader:
        pass
    assert rows.nbytes <= loader.stats()["decoded_bytes"] <= 1.1 * rows.nbytes
    data = stoker.Dataset(tmp_path / "x.npz")
    assert all(np.array_equal(data[i]["x"], rows[i]) for i in range(0, 1600, 37))


@pytest.mark.parametrize("io", ["threads", "direct", "uring", "mmap"])
def test_text_among_numbers_stays(tmp_path, io):
    """A column that began with numbers has texts later: those of a batch must not change, or go, while
    others are read."""
    rows = [1] * 32 + [f"text {i} " + "x" * 500 for i in range(4000)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"a": row}) + "\n" for row in rows))
    loader = stoker.Loader(tmp_path / "a.jsonl", batch=16, shuffle=False, memory="1M", threads=2, io=io)
    held = []
    for batch in loader:
        held.append(batch)
        if len(held) > 8:
            old = held.pop(0)
            assert list(old["a"]) == rows[old.step * 16:old.step * 16 + 16]
