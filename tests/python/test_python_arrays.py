"""stoker.arrays in the place of h5py and NumPy: the same values, types and shapes, from packed data or the file."""

import copy
import multiprocessing
import os
import pickle
import warnings

import pytest

from conftest import run_stoker
from pythonlib import stoker

import h5py
import numpy as np

import stoker.arrays

N = 12
TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", ">i4", ">f8", "c8"]
WAYS = {"plain": {}, "chunked": {"chunks": True}, "gzip": {"chunks": True, "compression": "gzip", "shuffle": True}}


def values(dtype, shape):
    """Small and large, negative, and not a number, as far as the type has them."""
    dtype, random = np.dtype(dtype), np.random.default_rng(1)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        made = random.integers(info.min, info.max, shape, dtype=dtype.newbyteorder("="), endpoint=True)
        return made.astype(dtype)
    made = random.standard_normal(shape).astype(dtype)
    if dtype.kind == "f":
        made.flat[0] = np.nan
    return made if dtype.kind != "b" else random.integers(0, 2, shape).astype(bool)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files with arrays of all types, and what they were packed to."""
    root = tmp_path_factory.mktemp("arrays")
    for way, options in WAYS.items():
        with h5py.File(root / f"{way}.h5", "w") as f:
            for dtype in TYPES:
                name = dtype.replace(">", "big-")
                f.create_dataset(f"x/{name}", data=values(dtype, (N, 3, 4)), **options)
                f.create_dataset(f"y/{name}", data=values(dtype, N), **options)
            f.attrs["made"] = "here"
            f["bytes"] = np.array([b"ab", b"c"] * (N // 2))
            f["text"] = ["ä", "bc"] * (N // 2)
            f["few"], f["one"] = np.arange(3), 7
            f["kinds"] = np.zeros(N, [("a", "i4"), ("b", "f8")])
        for form in ("tfrecord", "squashfs") if way == "plain" else ("tfrecord",):
            run_stoker("pack", root / f"{way}.h5", root / f"{way}-{form}", "--format", form, "--quiet", "--no-write-index")
    np.save(root / "a.npy", values("i2", (N, 5)))
    np.save(root / "labels.npy", values("i8", N))
    for name in ("a", "labels"):
        run_stoker("pack", root / f"{name}.npy", root / f"{name}-packed", "--quiet", "--no-write-index")
    return root


def opened(root, way="plain", form=None):
    packed = {root / f"{way}.h5": root / f"{way}-{form}"} if form else None
    return stoker.arrays.File(root / f"{way}.h5", "r", packed=packed)


def same(a, b):
    if isinstance(a, np.ndarray) and a.dtype.kind in "fc" or isinstance(a, np.inexact):
        assert np.array_equal(a, b, equal_nan=True)
    else:
        assert np.array_equal(a, b)
    assert type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None) and np.shape(a) == np.shape(b)


KEYS = [0, N - 1, -1, np.int64(3), slice(2, 7), slice(None), slice(1, None, 3), slice(5, 5), slice(0, 99), [1, 4, 5],
        np.array([0, 2]), (3, Ellipsis), (slice(2, 4),), Ellipsis, (), []]
FLAT = [np.arange(N) > 5]
DEEPER = [(3, 1), (3, slice(None), 2), (-2, -1, -1), (slice(1, 3), 0), (slice(1, 3), Ellipsis, slice(0, 2)),
          ([1, 2], slice(None), 1), (2, slice(9, 12)), (slice(None), 1), (1, slice(None, None, 2)), (1, [0, 2])]
WRONG = [N, -N - 1, slice(None, None, -1), [3, 1], [1, 1], "a", (1, 2, 3, 4), (0, 7), None, 1.5]


@pytest.mark.parametrize("way, form", [("plain", None), ("chunked", None), ("gzip", None), ("plain", "tfrecord"),
                                       ("gzip", "tfrecord"), ("plain", "squashfs")])
def test_rows_as_h5py_gives_them(folder, way, form):
    """A model that is trained with other numbers, or gets another type, is another model."""
    with h5py.File(folder / f"{way}.h5", "r") as theirs, opened(folder, way, form) as ours:
        served = [name for name in theirs["x"] if isinstance(ours[f"x/{name}"]._source, stoker.arrays.Rows)]
        assert set(served) == {t.replace(">", "big-") for t in TYPES} - {"c8"}
        for name in [f"{a}/{b}" for a in "xy" for b in theirs["x"]] + ["bytes", "text", "few", "kinds"]:
            a, b = theirs[name], ours[name]
            assert (b.shape, b.dtype, b.ndim, len(b), b.size, b.name) == (a.shape, a.dtype, a.ndim, len(a), a.size, a.name)
            for key in KEYS[:9] if len(a) < N else KEYS + (DEEPER if a.ndim > 1 else FLAT):
                if not (len(a) < N and key in (N - 1, np.int64(3))):
                    same(a[key], b[key])
            same(np.asarray(a), np.asarray(b))
            assert [r.tobytes() for r in np.array(list(b))] == [r.tobytes() for r in np.array(list(a))]
        assert ours["one"][()] == 7 and dict(ours.attrs) == {"made": "here"}


def test_what_h5py_refuses_is_refused_in_its_words(folder):
    """A mistake in an index is not turned into other rows."""
    with h5py.File(folder / "plain.h5", "r") as theirs, opened(folder, form="tfrecord") as ours:
        for key in WRONG:
            with pytest.raises(Exception) as their:
                theirs["x/f4"][key]
            with pytest.raises(type(their.value)):
                ours["x/f4"][key]
    with pytest.raises(FileNotFoundError):
        stoker.arrays.File(folder / "none.h5", "r")


def test_the_rest_of_a_file_is_h5pys(folder):
    """Groups, names, isinstance(), attributes, with: a script that uses more of h5py runs on."""
    with opened(folder, form="tfrecord") as f:
        assert isinstance(f, h5py.File) and isinstance(f["x"], h5py.Group) and isinstance(f["x"]["f4"], h5py.Dataset)
        assert list(f) == list(f.keys()) and "x" in f and "x/f4" in f and "z" not in f and len(f["x"]) == len(TYPES)
        assert f["/x/f4"] == f["x"]["f4"] == f["x"]["/x/f4"] and f["x/f4"] != f["x/f8"]
        assert {k: type(v).__name__ for k, v in f.items()}["x"] == "Group" and f.get("z", 3) == 3 and f.get("x/f4")
        assert f["x/f4"].chunks is None and f["x/f4"].file.filename == str(folder / "plain.h5") and f.mode == "r"
        assert f["text"].asstr()[0] == "ä" and f["x/f4"].astype("f8")[1].dtype == "f8"
        with pytest.raises(KeyError):
            f["z"]
        with pytest.raises(AttributeError):
            f.nothing
        kept = f["few"]
    assert not f
    for use in (lambda: f["x/f4"], lambda: kept[0]):
        with pytest.raises(ValueError):
            use()


def test_memory_of_a_row_is_the_programs(folder):
    """x[i] /= 255 changes no other row, and not the same row when it is read again."""
    with opened(folder, form="tfrecord") as f:
        x = f["x/i2"]
        before = x[1].copy()
        row = x[1]
        row += 1
        x._source.prime(1, x._source.samples[1])
        same(x[1], before)
        again = x[1]
        again += 1
        same(x[1], before)
        x._source.prime(None, None)


def test_a_primed_row_is_used_only_for_its_number(folder):
    """What was read ahead is never given as another row, nor as another field."""
    with opened(folder, form="tfrecord") as f:
        x, y = f["x/i4"], f["y/i4"]
        source = x._source
        assert source is y._source
        source.prime(5, {"x/i4": np.full((3, 4), 77, "i4")})
        try:
            assert (x[5] == 77).all() and x[5, 0, 1] == 77 and not (x[4] == 77).any()
            with h5py.File(folder / "plain.h5") as theirs:
                assert y[5] == theirs["y/i4"][5]
        finally:
            source.prime(None, None)


@pytest.mark.parametrize("packed", [False, True])
def test_mapped_numpy_arrays(folder, packed):
    """numpy.load(mmap_mode="r"): rows by stoker, all else by the mapping, which code in C takes as an array."""
    for name in ("a", "labels"):
        path = folder / f"{name}.npy"
        places = {path: folder / f"{name}-packed"} if packed else None
        theirs, ours = np.load(path, mmap_mode="r"), stoker.arrays.load(path, mmap_mode="r", packed=places)
        assert isinstance(ours, np.memmap) and ours._source is not None
        for key in [0, -1, np.int32(4), slice(2, 5), [3, 1], (2, Ellipsis), Ellipsis] + ([(3, 2)] if theirs.ndim > 1 else []):
            assert np.array_equal(ours[key], theirs[key]) and ours[key].dtype == theirs[key].dtype
        assert ours[2:6][1].tolist() == theirs[3].tolist() and ours[::-1][0].tolist() == theirs[-1].tolist()
        assert np.array_equal(ours + 1, theirs + 1) and ours.sum() == theirs.sum()
        again = pickle.loads(pickle.dumps(ours))
        assert np.array_equal(again, theirs) and again._source is ours._source
        with pytest.raises(IndexError):
            ours[N]
    assert type(stoker.arrays.load(folder / "a.npy")) is np.ndarray


def read_rows(f, name, numbers):
    return [f[name][i].tolist() for i in numbers]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_in_other_processes(folder, method):
    """Workers of every start method read the right rows, also if the parent has read before."""
    f, numbers = opened(folder, form="tfrecord"), [7, 2, 7]
    want = read_rows(f, "x/u2", numbers), read_rows(f, "bytes", numbers)
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = [pool.apply_async(read_rows, (f, name, numbers)) for name in ("x/u2", "bytes") * 3]
        assert [r.get(60) for r in found] == [*want] * 3
    assert f["x"]._source is pickle.loads(pickle.dumps(f["x"]))._source is copy.deepcopy(f)._source


def rows_file(path, first, n):
    with h5py.File(path, "w") as f:
        f["x"] = np.arange(first, first + 3. * n).reshape(n, 3)


def test_several_files_of_a_folder(tmp_path):
    """train.h5 and val.h5 become one packed dataset: each file has its own rows of it."""
    (tmp_path / "d").mkdir()
    for i, name in enumerate(["train", "val", "extra"]):
        rows_file(tmp_path / f"d/{name}.h5", 100 * i, 4 + i)
    run_stoker("pack", tmp_path / "d", tmp_path / "p", "--quiet", "--no-write-index")
    for name in ("train", "val", "extra"):
        f = stoker.arrays.File(tmp_path / f"d/{name}.h5", packed={tmp_path / "d": tmp_path / "p"})
        with h5py.File(tmp_path / f"d/{name}.h5") as theirs:
            assert f["x"]._source is not None and np.array_equal(np.array(list(f["x"])), theirs["x"][:])


def test_data_that_is_not_what_was_packed(tmp_path):
    """A file that was written again, or packed data that is gone: the file is read, with a warning."""
    path, packed = tmp_path / "a.h5", {tmp_path / "a.h5": tmp_path / "p"}
    rows_file(path, 0, 5)
    with pytest.warns(UserWarning, match="is not there"):
        assert stoker.arrays.File(path, packed=packed)["x"][2].tolist() == [6, 7, 8]
    run_stoker("pack", path, tmp_path / "q", "--quiet", "--no-write-index")
    packed = {path: tmp_path / "q"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stoker.arrays.File(path, packed=packed)["x"]._source is not None
    made = (tmp_path / "q/manifest.json").stat().st_mtime
    for shift, why in ((1, "newer"), (-1, "other data")):
        rows_file(path, 50, 5)
        os.utime(path, (made + shift, made + shift))
        with pytest.warns(UserWarning, match=why):
            assert stoker.arrays.File(path, packed=packed)["x"][2].tolist() == [56, 57, 58]
    rows_file(path, 0, 5)
    with h5py.File(path, "r+") as f:
        f["x"][2] = -1
    os.utime(path, (made - 1, made - 1))  # as a copy that keeps times
    with pytest.warns(UserWarning, match="other data"):
        assert stoker.arrays.File(path, packed=packed)["x"][2].tolist() == [-1, -1, -1]
    rows_file(path, 50, 5)
    run_stoker("pack", path, tmp_path / "r", "--shuffle", 1, "--quiet", "--no-write-index")
    with pytest.warns(UserWarning, match="another order"):
        assert stoker.arrays.File(path, packed={path: tmp_path / "r"})["x"][2].tolist() == [56, 57, 58]
    assert stoker.arrays.File(path, packed={"/elsewhere": tmp_path / "q"})["x"]._source is None


def test_one_array_packed_as_npy(tmp_path):
    """tune packs small rows as NPY, which has no name for them."""
    rows_file(tmp_path / "a.h5", 0, 5)
    run_stoker("pack", tmp_path / "a.h5", tmp_path / "p", "--format", "npy", "--quiet", "--no-write-index")
    x = stoker.arrays.File(tmp_path / "a.h5", packed={tmp_path / "a.h5": tmp_path / "p"})["x"]
    assert x._source is not None and x[3].tolist() == [9, 10, 11]
