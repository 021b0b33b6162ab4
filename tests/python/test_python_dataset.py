"""stoker.Dataset: random access to any format from Python."""

import concurrent.futures
import json
import multiprocessing
import os
import pickle
import signal

import pytest

from conftest import flip_byte
from pythonlib import environment, python, stoker, write_records

import numpy as np


@pytest.fixture
def rows(tmp_path):
    """A JSON Lines file with a field of every kind."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(
        {"key": f"k{i}", "text": f"h\u00e4 {i}", "n": i, "x": i / 4, "ok": i % 2 == 0,
         "v": [1, 2, i], "o": {"a": [i, None]}}) + "\n" for i in range(100)))
    return path


def test_kinds_of_values(rows):
    """Each kind of field arrives as the Python object one expects."""
    s = stoker.Dataset(rows)[7]
    assert s["key"] == "k7" and s["text"] == "h\u00e4 7" and s["o"] == {"a": [7, None]}
    assert s["n"] == 7 and type(s["n"]) is int
    assert s["x"] == 1.75 and type(s["x"]) is float and s["ok"] is False
    assert isinstance(s["v"], np.ndarray) and s["v"].tolist() == [1, 2, 7]


def test_sequence(rows):
    """A dataset counts, slices and refuses like any sequence."""
    ds = stoker.Dataset(rows)
    assert len(ds) == 100 and ds[-1]["key"] == "k99" and ds[np.int64(3)]["key"] == "k3"
    view = ds[10:50:10][::-1]
    assert len(view) == 4 and [s["n"] for s in view] == [40, 30, 20, 10] and view[-1]["n"] == 10
    assert [s["n"] for s in ds] == list(range(100))
    for wrong in (100, -101):
        with pytest.raises(IndexError):
            ds[wrong]
    with pytest.raises(TypeError):
        ds["k1"]


def test_bytes_and_classes(stoker, images, tmp_path):
    """A folder and what was packed from it give the same bytes, labels and classes."""
    folder, files = images
    stoker("pack", folder, tmp_path / "packed")
    import stoker as package
    for path in (folder, tmp_path / "packed"):
        ds = package.Dataset(path)
        assert ds.classes == ("class00", "class01", "class02")
        assert ds.fields == ("data", "label")
        for i, (name, data) in enumerate(files.items()):
            assert ds[i] == {"key": name, "data": data, "label": int(name[5:7])}
    assert package.Dataset(tmp_path / "packed").format == "tfrecord"


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8",
                                   "?"])
def test_types_of_arrays(tmp_path, dtype):
    """Numbers of every type keep type, shape and value, as arrays and as scalars."""
    a = np.array([[0, 1, 1], [1, 0, 5]] * 4).reshape(4, 2, 3).astype(dtype)
    edge = a[:, 0, 2].copy()
    if dtype[0] in "iu":
        edge[1:3] = np.iinfo(dtype).min, np.iinfo(dtype).max
    elif dtype[0] == "f":
        edge[1:4] = np.finfo(dtype).tiny, -np.inf, np.finfo(dtype).max
    np.savez(tmp_path / "a.npz", a=a, s=edge)
    ds = stoker.Dataset(tmp_path / "a.npz")
    for i in range(4):
        got = ds[i]["a"]
        assert got.dtype == a.dtype and np.array_equal(got, a[i]) and got.flags.aligned
        assert ds[i]["s"] == edge[i].item() and type(ds[i]["s"]) is type(edge[i].item())


def test_arrays_keep_their_memory(tmp_path):
    """An array stays right when sample, dataset and everything else are gone."""
    a = np.random.default_rng(0).random((50, 1000))
    np.save(tmp_path / "a.npy", a)
    ds = stoker.Dataset(tmp_path / "a.npy")
    kept = [ds[i]["data"] for i in range(0, 50, 5)]
    for i in range(50):
        ds[i]
    ds.close()
    del ds
    assert all(np.array_equal(k, a[i]) for i, k in zip(range(0, 50, 5), kept))
    kept[0][:] = 0  # a private copy
    assert np.array_equal(kept[1], a[5])


def test_misaligned_arrays_are_copied(tmp_path):
    """Arrays from the middle of records can be given to any library."""
    (tmp_path / "a.jsonl").write_text("".join(f'{{"v": [{i}.5, 2.5]}}\n' for i in range(9)))
    assert all(s["v"].flags.aligned for s in stoker.Dataset(tmp_path / "a.jsonl"))


def test_closed(rows):
    """After close() or `with`, use is an error that says so."""
    with stoker.Dataset(rows) as ds:
        assert len(ds) == 100
    with pytest.raises(ValueError, match="closed"):
        ds[0]
    assert "closed" in repr(ds)


def test_pickle(rows):
    """A dataset can be handed to another process."""
    ds = pickle.loads(pickle.dumps(stoker.Dataset(rows, payload="auto")))
    assert ds[5]["n"] == 5
    view = pickle.loads(pickle.dumps(ds[5:8]))
    assert [s["n"] for s in view] == [5, 6, 7]


def test_threads(rows):
    """Several threads read from one dataset."""
    ds = stoker.Dataset(rows)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: ds[i % 100]["n"], range(2000))) == [i % 100
                                                                          for i in range(2000)]


def test_forked_child(rows):
    """A forked worker reads from the dataset its parent opened."""
    ds = stoker.Dataset(rows)
    assert ds[0]["n"] == 0
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(ds.__getitem__, range(4))[3]["n"] == 3


def test_spawned_child(rows, monkeypatch):
    """So does a spawned one."""
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(stoker.Dataset(rows).__getitem__, range(4))[3]["n"] == 3


def test_missing_file(tmp_path):
    """The exception is the one Python programs expect, and names the file."""
    with pytest.raises(FileNotFoundError) as e:
        stoker.Dataset(tmp_path / "nothing")
    assert isinstance(e.value, stoker.Error) and isinstance(e.value, stoker.SysError)
    assert e.value.path == str(tmp_path / "nothing") and str(tmp_path / "nothing") in str(e.value)
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is type(e.value) and again.errno == 2 and str(again) == str(e.value)


def test_wrong_options(rows):
    """A mistyped option is refused with the reason."""
    with pytest.raises(stoker.UsageError, match="no payload is called"):
        stoker.Dataset(rows, payload="exampel")
    with pytest.raises(TypeError):
        stoker.Dataset(rows, fromat="csv")


def test_corrupt_sample(tmp_path):
    """A damaged record says which byte of which file, and the others can be read."""
    path = tmp_path / "a.tfrecord"
    write_records(path, [bytes([i]) * 100 for i in range(10)])
    ds = stoker.Dataset(path)
    flip_byte(path, 3 * 116 + 50)
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    ds = stoker.Dataset(path, rebuild=True)
    with pytest.raises(stoker.CorruptError) as e:
        ds[3]
    assert e.value.path.endswith("a.tfrecord") and 3 * 116 <= e.value.offset < 4 * 116
    assert pickle.loads(pickle.dumps(e.value)).offset == e.value.offset
    assert ds[4]["data"] == bytes([4]) * 100


def test_interrupt_while_opening(tmp_path):
    """Ctrl-C works while an index is built."""
    path = tmp_path / "long.jsonl"
    path.write_bytes(b'{"n": 1, "text": "some words to take a little time"}\n' * 200000)
    python("""
import signal, sys
import stoker
signal.signal(signal.SIGALRM, signal.default_int_handler)  # from the kernel: no thread to wait for
try:
    signal.setitimer(signal.ITIMER_REAL, 0.005)
    ds = stoker.Dataset(sys.argv[1], write_index=False)
except KeyboardInterrupt:
    sys.exit(0)
sys.exit("it was not interrupted")
""", path)


def test_signal_default_is_python_s():
    """Importing the package changes no signal handlers."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_left_out(tmp_path):
    """One array that cannot be read does not take the others with it, nor leave without a word."""
    np.savez(tmp_path / "a.npz", x=np.arange(9), when=np.zeros(9, "M8[s]"), mean=np.zeros(3),
             z=np.arange(9) * 1j)
    ds = stoker.Dataset(tmp_path / "a.npz")
    assert set(ds.fields) == {"x", "z"} and ds[3]["z"].tolist() == [0, 3]
    assert {(x["kind"], x["count"], x["names"]) for x in ds.left_out} == {
        ("member", 1, ("when",)), ("member", 1, ("mean",))}
    assert all(x["why"] for x in ds.left_out)
    assert {x["what"] for x in ds.taken} == {"sample", "array"}
    loader = stoker.Loader(ds, batch=3)
    assert sum(len(b) for b in loader) == 9
    assert loader.stats()["left_out"] == 2 and loader.stats()["unsupported"] == 0
    only = stoker.Dataset(tmp_path / "a.npz", datasets="mean")
    assert len(only) == 3 and only.left_out == []
    assert len(stoker.Dataset(tmp_path / "a.npz")) == 9
    assert pickle.loads(pickle.dumps(only)).fields == ("mean",)


def test_unsupported_samples(tmp_path):
    """A sample that is sound but not read is counted as such where bad ones are passed over."""
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 1, "a": 2}\n{"a":\n')
    loader = stoker.Loader(tmp_path / "a.jsonl", batch=1, on_error="skip")
    assert {b["a"].item() for b in loader} == {1}  # in its place, too: steps are kept
    assert loader.stats()["corrupt"] == 2 and loader.stats()["unsupported"] == 1
    with pytest.raises(stoker.UnsupportedError, match="called 'a'"):
        stoker.Dataset(tmp_path / "a.jsonl")[1]


def test_left_out_of_hdf5(tmp_path):
    """The same of HDF5: Dataset and Loader go on where the command line does."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = np.arange(9)
        f.create_dataset("v", (9,), h5py.vlen_dtype("f4"))
    ds = stoker.Dataset(tmp_path / "a.h5")
    assert ds.fields == ("x",) and [x["names"] for x in ds.left_out] == [("v",)]
    for how in ("stop", "skip"):
        assert sum(len(b) for b in stoker.Loader(ds, batch=3, on_error=how)) == 9


def test_samples_of_several_shapes(tmp_path):
    """Samples with a dataset each come in the shapes they have."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i in range(7):
            f[f"images/{i}"] = np.full((2 + i % 3, 4), i, "f4")
        f["labels"] = np.arange(7)
    ds = stoker.Dataset(tmp_path / "a.h5")
    assert [s["images"].shape for s in ds] == [(2 + i % 3, 4) for i in range(7)]
    loader = stoker.Loader(ds, batch=7, shuffle="none", fields=("labels", "images"))
    batch, = loader
    assert batch["labels"].tolist() == list(range(7)) and len(batch["images"]) == 7


def test_links_and_trust(tmp_path):
    """What a folder of links needs, and whose word counts, can be said from Python too."""
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    for folder, name in ("far", "b.txt"), ("near", "a.txt"):
        (tmp_path / folder / name).write_text(name)
    (tmp_path / "near/b.txt").symlink_to(tmp_path / "far/b.txt")
    ds = stoker.Dataset(tmp_path / "near")
    assert len(ds) == 1 and "follow-links" in ds.left_out[0]["why"]
    ds = stoker.Dataset(tmp_path / "near", follow_links=True, trust="all")
    assert [s["key"] for s in ds] == ["a.txt", "b.txt"]
    assert len(pickle.loads(pickle.dumps(ds))) == 2
    with pytest.raises(stoker.UsageError, match="no user"):
        stoker.Dataset(tmp_path / "near", trust="nobody of that name")


def test_hdf5_that_h5py_has_open(tmp_path):
    """A program with an open file of h5py can still read it through stoker: both have the same libhdf5."""
    import h5py
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"] = list(range(5))
    with h5py.File(tmp_path / "a.h5", "r") as f:
        assert [s["x"] for s in stoker.Dataset(tmp_path / "a.h5")] == f["x"][:].tolist()
