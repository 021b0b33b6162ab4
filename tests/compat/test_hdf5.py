"""HDF5 against h5py, in both directions: layouts, filters, types, chunk indexes, ragged columns."""

import json
import os
import random
import re
import shutil
import subprocess

import pytest

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")

from conftest import STOKER, clean_env  # noqa: E402

N = 100


def arrays(seed=1):
    rng = np.random.default_rng(seed)
    return {"x": rng.integers(0, 9, (N, 7, 5), dtype="u1"),
            "y": rng.normal(size=(N, 3, 4)).astype("f4"),
            "label": np.arange(N, dtype="i8")}


def write(path, columns, chunks=True, libver=None, userblock_size=None, **kwargs):
    """columns as datasets; chunks: rows a chunk of each, cut along the first axis only."""
    with h5py.File(path, "w", libver=libver, userblock_size=userblock_size) as f:
        for i, (name, a) in enumerate(columns.items()):
            cut = (8 + 5 * i, *a.shape[1:]) if chunks else None
            f.create_dataset(name, data=a, chunks=cut, **kwargs)


def read_back(stoker, src, tmp_path, *args, rc=0):
    """The samples as columns {name: array, or list of bytes where ragged}, through our NPZ."""
    dst = tmp_path / f"read-back-{len(list(tmp_path.glob('read-back-*')))}"
    result = stoker("pack", src, dst, "--format", "npz", "--shards", 1, *args, rc=rc)
    if result.rc == 4:
        return result
    found = np.load(next(dst.glob("*.npz")))
    columns = {}
    for name in found.files:
        if name.endswith((".offsets", ".kind")):
            continue
        a = found[name]
        if name + ".offsets" in found.files:
            ends = found[name + ".offsets"]
            a = [a[ends[i]:ends[i + 1]].tobytes() for i in range(len(ends) - 1)]
        columns[name] = a
    columns.pop("key", None)
    return columns


def same(found, want):
    assert sorted(found) == sorted(want)
    for name, a in want.items():
        if isinstance(a, list):
            assert found[name] == a, name
            continue
        native = a.dtype.newbyteorder("=")
        assert found[name].dtype == native, name
        assert np.array_equal(found[name], a.astype(native), equal_nan=a.dtype.kind == "f"), name


# ---- reading what h5py writes ----

LAYOUTS = {
    "contiguous": dict(chunks=False),
    "chunked": {},
    "gzip": dict(compression="gzip"),
    "shuffle": dict(shuffle=True),
    "gzip-shuffle": dict(compression="gzip", shuffle=True),
    "fletcher32": dict(fletcher32=True),
    "all-filters": dict(compression="gzip", shuffle=True, fletcher32=True),
    "lzf": dict(compression="lzf"),
    "resizable": dict(maxshape=True),
}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("user_block", [0, 512])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_filters(stoker, tmp_path, layout, user_block, libver):
    """Lost otherwise: the data of anyone who stores it in this (common) way."""
    columns, kwargs = arrays(), dict(LAYOUTS[layout])
    src = tmp_path / "a.h5"
    if kwargs.pop("maxshape", None):
        with h5py.File(src, "w", libver=libver, userblock_size=user_block) as f:
            for name, a in columns.items():
                d = f.create_dataset(name, (0, *a.shape[1:]), a.dtype, maxshape=(None, *a.shape[1:]),
                                     chunks=(7, *a.shape[1:]))
                for k in range(0, N, 10):
                    d.resize(k + 10, axis=0)
                    d[k:] = a[k:k + 10]
    else:
        write(src, columns, libver=libver, userblock_size=user_block, **kwargs)
    same(read_back(stoker, src, tmp_path), columns)


def test_types(stoker, tmp_path):
    """Lost otherwise: the values themselves, silently, where a type is taken for another."""
    columns = {d: (np.arange(N) - 3).astype(d) for d in
               "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()}
    columns["flag"] = np.arange(N) % 3 == 0
    columns["shaped"] = np.arange(N * 6, dtype="f4").reshape(N, 2, 3)
    columns["colour"] = np.arange(N, dtype="u1") % 3
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, a in columns.items():
            if name == "shaped":  # an array type: the element itself has axes
                f.create_dataset(name, (N,), np.dtype(("f4", (2, 3))))[...] = a
            elif name == "colour":
                kind = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": 2}, basetype="u1")
                f.create_dataset(name, (N,), kind)[...] = a
            else:
                f[name] = a
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), columns)


@pytest.mark.parametrize("layout", ["contiguous", "chunked", "gzip-shuffle"])
def test_big_endian(stoker, tmp_path, layout):
    """Lost otherwise: numbers with their bytes the wrong way round."""
    columns = {"a": np.linspace(-9, 9, N * 600).astype(">f4").reshape(N, 600),
               "b": np.arange(N).astype(">i2"), "c": np.arange(N).astype(">f8") / 7,
               "d": np.arange(N).astype(">f2")}
    write(tmp_path / "a.h5", columns, **LAYOUTS[layout])
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), columns)


def variable(f, n, **kwargs):
    rng = random.Random(4)
    images = [rng.randbytes(rng.randrange(3000)) for _ in range(n)]
    images[5] = b""
    captions = [f"caption é {i}" for i in range(n)]
    d = f.create_dataset("image", (n,), h5py.vlen_dtype("u1"), **kwargs)
    for i, b in enumerate(images):
        d[i] = np.frombuffer(b, "u1")
    f.create_dataset("caption", (n,), h5py.string_dtype(), **kwargs)[...] = captions
    return {"image": images, "caption": [c.encode() for c in captions]}


@pytest.mark.parametrize("file", [{}, dict(libver="latest"), dict(userblock_size=1024)])
@pytest.mark.parametrize("data", [{}, dict(chunks=(7,), compression="gzip", maxshape=(None,))])
def test_variable_length(stoker, tmp_path, file, data):
    """Lost otherwise: images kept as bytes of variable length, the usual way to store JPEGs."""
    with h5py.File(tmp_path / "a.h5", "w", **file) as f:
        want = variable(f, 60, **data)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), want)


def test_strings_of_fixed_size_lose_their_padding(stoker, tmp_path):
    """Lost otherwise: class names that compare equal to nothing because of NULs behind them."""
    names = [b"a", b"bcd", b"", b"hello"]
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["name"] = np.array(names, "S5")
        f.create_dataset("utf8", (4,), h5py.string_dtype("utf-8", 8))[...] = ["é", "b", "c", "dd"]
        f["zipped"] = np.array(names, "S9")
        f["n"] = np.arange(4)
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    assert found["name"] == names and found["zipped"] == names
    assert found["utf8"] == ["é".encode(), b"b", b"c", b"dd"]


def test_key_dataset_gives_the_keys(stoker, tmp_path):
    """Lost otherwise: which sample is which."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("key", (3,), h5py.string_dtype())[...] = ["a/1.jpg", "a/2.jpg", "b/3.jpg"]
        f["x"] = np.arange(3)
    stoker("pack", tmp_path / "a.h5", tmp_path / "out", "--format", "jsonl")
    lines = [json.loads(x) for x in next((tmp_path / "out").glob("*.jsonl")).open()]
    assert [(x["key"], x["x"]) for x in lines] == [("a/1.jpg", 0), ("a/2.jpg", 1), ("b/3.jpg", 2)]


def test_groups_and_metadata(stoker, tmp_path):
    """Lost otherwise: files in which not every dataset is a column (nearly all real ones)."""
    columns = arrays()
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["train/x"], f["train/deep/label"] = columns["x"], columns["label"]
        f["mean"], f["scale"] = np.zeros(3), 2.5
        f["test/x"] = np.zeros((10, 7, 5), "u1")
        f.attrs["author"] = "somebody"
        f["link"] = h5py.SoftLink("/train/x")
        f["nowhere"] = h5py.ExternalLink("other.h5", "/x")
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(found, {"train/x": columns["x"], "train/deep/label": columns["label"],
                 "link": columns["x"]})
    left_out, _ = notes(stoker, tmp_path / "a.h5")
    assert left_out["dataset"] == {"mean", "scale"}
    assert left_out["link"] == {"nowhere"} and left_out["split"] == {"test"}


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_parts_never_written_are_zeros(stoker, tmp_path, libver):
    """Lost otherwise: datasets made larger than they were filled."""
    x = np.zeros((N, 3), "f4")
    x[30:35], x[99] = 1, 2
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as f:
        for name, kwargs in (("x", dict(chunks=(4, 3))), ("z", dict(chunks=(4, 3), compression="gzip")),
                             ("r", dict(chunks=(4, 3), maxshape=(None, 3)))):
            d = f.create_dataset(name, x.shape, "f4", **kwargs)
            d[30:35], d[99] = 1, 2
        f.create_dataset("never", (N, 2), "i4")
        big = f.create_dataset("shrunk", (2 * N, 9), "i4", chunks=(8, 9), maxshape=(None, None))
        big[...] = np.arange(18 * N).reshape(2 * N, 9)
        big.resize((N, 4))
    want = {n: x for n in "xzr"}
    want["never"] = np.zeros((N, 2), "i4")
    want["shrunk"] = np.arange(18 * N, dtype="i4").reshape(2 * N, 9)[:N, :4]
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), want)


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_chunks_that_cut_samples(stoker, tmp_path, libver):
    """Lost otherwise: everything written with h5py's chunks=True or compression= and no chunks."""
    rng = np.random.default_rng(2)
    columns = {"images": rng.integers(0, 99, (60, 50, 40, 3), dtype="u1"),
               "volumes": rng.normal(size=(60, 9, 9, 9)).astype(">f4"),
               "rows": rng.integers(0, 9, (60, 400)).astype("i8")}
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as f:
        f.create_dataset("images", data=columns["images"], chunks=(16, 13, 11, 1),
                         compression="gzip")
        f.create_dataset("volumes", data=columns["volumes"], chunks=(7, 4, 4, 4), shuffle=True)
        f.create_dataset("rows", data=columns["rows"], compression="gzip")
        assert f["rows"].chunks[1] < 400  # h5py's own choice
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), columns)
    # Beside strings, samples are listed one by one: another way through the index.
    with h5py.File(tmp_path / "a.h5", "a") as f:
        f["name"] = np.array([b"n%d" % i for i in range(60)])
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    columns["name"] = [b"n%d" % i for i in range(60)]
    same(found, columns)


CHUNK_INDEXES = {
    "btree-v1": (dict(), dict()),
    "single": (dict(libver="latest"), dict(chunks=(N, 3, 2))),
    "fixed-array": (dict(libver="latest"), dict()),
    "fixed-array-larger-maximum": (dict(libver="latest"), dict(maxshape=(2 * N, 30, 20))),
    "extensible-array": (dict(libver="latest"), dict(maxshape=(None, 3, 2))),
    "extensible-array-second-axis": (dict(libver="latest"), dict(maxshape=(N, None, 2))),
    "btree-v2": (dict(libver="latest"), dict(maxshape=(None, None, 2))),
    "btree-v2-user-block": (dict(libver="latest", userblock_size=512),
                            dict(maxshape=(None, None, 2))),
}


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("index", CHUNK_INDEXES)
def test_chunk_indexes(stoker, tmp_path, index, compression):
    """Lost otherwise: samples read from the place of others."""
    file, data = CHUNK_INDEXES[index]
    x = np.arange(N * 6, dtype="i4").reshape(N, 3, 2)
    with h5py.File(tmp_path / "a.h5", "w", **file) as f:
        f.create_dataset("x", data=x, compression=compression, **{"chunks": (1, 2, 2), **data})
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"x": x})


def test_implicit_chunk_index(stoker, tmp_path):
    """Lost otherwise: files of simulations that allocate everything at the start."""
    x = np.arange(N * 3, dtype="i4").reshape(N, 3)
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((4, 3))
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        d = h5py.h5d.create(f.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple(x.shape), plist)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"x": x})


@pytest.mark.parametrize("kwargs", [dict(), dict(libver="latest"),
                                    dict(libver="latest", maxshape=(None, 2))])
def test_many_chunks(stoker, tmp_path, kwargs):
    """Lost otherwise: patience. libhdf5 1.10 needs time that grows with the square of 16,000."""
    x = np.arange(32000, dtype="i4").reshape(16000, 2)
    libver = kwargs.pop("libver", None)
    with h5py.File(tmp_path / "a.h5", "w", libver=libver) as f:
        f.create_dataset("x", data=x, chunks=(1, 2), **kwargs)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"x": x})


def test_compact(stoker, tmp_path):
    """Lost otherwise: small columns, which h5py's low-level users store in the header."""
    x = np.arange(20, dtype="i4").reshape(5, 4)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        d = h5py.h5d.create(f.id, b"x", h5py.h5t.STD_I32LE, h5py.h5s.create_simple((5, 4)), plist)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, x)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"x": x})


def test_several_files_are_one_dataset(stoker, tmp_path):
    """Lost otherwise: datasets split over files, with chunks h5py chose for each."""
    columns = arrays()
    (tmp_path / "in").mkdir()
    for k, (a, b) in enumerate(((0, 10), (10, 70), (70, N))):
        with h5py.File(tmp_path / "in" / f"part{k}.h5", "w") as f:
            for name, x in columns.items():
                f.create_dataset(name, data=x[a:b], compression="gzip")
    same(read_back(stoker, tmp_path / "in", tmp_path), columns)


# ---- what is not read says why ----

def refused(stoker, tmp_path, make, reason):
    with h5py.File(tmp_path / "a.h5", "w") as f:
        make(f)
        f["y"] = np.arange(N)
    result = stoker("inspect", tmp_path / "a.h5")
    assert reason in result.out and "left out" in result.out
    # The others are not lost with it, and nothing calls it damaged.
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"y": np.arange(N)})
    result = stoker("verify", tmp_path / "a.h5", rc=3)
    assert reason in result.out and "damaged" not in result.out and "whole" not in result.out


def test_compounds_in_two_dimensions_are_refused(stoker, tmp_path):
    """Lost otherwise: the reason why a column is missing."""
    refused(stoker, tmp_path, lambda f: f.create_dataset("c", (N, 2), [("a", "i4"), ("b", "f8")]),
            "compound")


def test_fill_values_that_are_not_zero_are_refused(stoker, tmp_path):
    """Lost otherwise: -1 read as 0 where nothing was written."""
    refused(stoker, tmp_path, lambda f: f.create_dataset("c", (N, 3), "i4", chunks=(10, 3),
                                                         fillvalue=-1), "fill value")


def test_unknown_filters_are_named(stoker, tmp_path):
    """Lost otherwise: hours, spent on finding out what is wrong with a good file."""
    refused(stoker, tmp_path,
            lambda f: f.create_dataset("c", data=np.arange(N), chunks=(10,), scaleoffset=0),
            "scale-offset")


def test_statistics_are_no_samples(stoker, tmp_path):
    """Three lists of four statistics outvoted x and y of fifty rows: four samples."""
    columns = {"x": np.arange(150.).reshape(50, 3), "y": np.arange(50.)}
    write(tmp_path / "a.h5", {**columns, **{name: np.zeros(4) for name in ("mean", "std", "max")}}, chunks=False)
    np.savez(tmp_path / "a.npz", **columns, **{name: np.zeros(4) for name in ("mean", "std", "max")})
    for path in (tmp_path / "a.h5", tmp_path / "a.npz"):
        same(read_back(stoker, path, tmp_path), columns)
        said = stoker("load", path, "--batch", 10).out
        assert "a row of x, y" in said and "): their length is not" in said
    write(tmp_path / "b.h5", {**columns, "mean": np.zeros(4)}, chunks=False)
    assert "1 dataset (mean): its length is not" in stoker("inspect", tmp_path / "b.h5").out


def matlab(path, arrays, **kwargs):
    with h5py.File(path, "w", userblock_size=512) as f:
        for name, a in arrays.items():
            d = f.create_dataset(name, data=a.T, **(kwargs if a.size > 4 else {}))
            d.attrs["MATLAB_class"] = np.bytes_("double")
        f["#refs#/a"] = np.zeros(9)
        f["text"] = np.zeros((50, 1), "u2")
        f["text"].attrs["MATLAB_class"] = np.bytes_("char")
        f["none"] = np.zeros(2, "u8")
        f["none"].attrs.update(MATLAB_class=np.bytes_("double"), MATLAB_empty=1)
    with open(path, "r+b") as f:
        f.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")


@pytest.mark.parametrize("kwargs", [{}, dict(chunks=True, compression="gzip")], ids=["plain", "gzip"])
def test_matlab(stoker, tmp_path, kwargs):
    """MATLAB's matrix of 50 rows and 4 columns was read as 4 samples."""
    x, y = np.arange(200.).reshape(50, 4), np.arange(50.).reshape(50, 1)
    boxes = np.arange(50. * 2 * 3).reshape(50, 2, 3)
    matlab(tmp_path / "a.mat", {"x": x, "y": y, "boxes": boxes, "row": y.T, "mean": np.zeros((1, 4))}, **kwargs)
    same(read_back(stoker, tmp_path / "a.mat", tmp_path), {"x": x, "y": y[:, 0], "boxes": boxes, "row": y[:, 0]})
    left_out, taken = notes(stoker, tmp_path / "a.mat")
    assert left_out["dataset"] == {"mean", "none", "text"} and "MATLAB" in taken["array"]
    images = np.arange(7. * 5 * 3 * 50).reshape(7, 5, 3, 50)
    matlab(tmp_path / "b.mat", {"images": images, "y": y}, **kwargs)
    same(read_back(stoker, tmp_path / "b.mat", tmp_path), {"images": images.T, "y": y[:, 0]})


def test_samples_that_matlab_stores_apart(stoker, tmp_path):
    matlab(tmp_path / "a.mat", {"x": np.zeros((5000, 4999)), "y": np.zeros((5000, 1))}, compression="gzip")
    assert notes(stoker, tmp_path / "a.mat")[0]["dataset"] == {"x", "none", "text"}


def test_open_for_writing(stoker, tmp_path):
    """A file that a simulation still writes is not damaged."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        f.create_dataset("x", data=np.zeros((9, 3)), maxshape=(None, 3), chunks=(3, 3))
        f.swmr_mode = True
        shutil.copy(tmp_path / "a.h5", tmp_path / "b.h5")
    said = stoker("verify", tmp_path / "b.h5", rc=3)
    assert "open for writing" in said.out and "unsupported" in said.out
    assert "h5clear -s" in stoker("load", tmp_path / "b.h5", rc=4).err


def test_load_and_verify_tell_the_same_of_checksums(stoker, tmp_path):
    """`verify` found no checksums where `load` compared one for every sample."""
    for kwargs, share in (dict(fletcher32=True), 0.8), (dict(compression="gzip"), 0.5), ({}, 0):
        write(tmp_path / "a.h5", {"x": np.random.default_rng(1).random((200, 64))}, **kwargs)
        result = stoker("verify", tmp_path / "a.h5", "--json", "-", "-q").json()["result"]
        assert share * result["bytes"] <= result["checksummed_bytes"] <= (share > 0) * result["bytes"]
        verify, load = stoker("verify", tmp_path / "a.h5").out, stoker("load", tmp_path / "a.h5").out
        assert ("compared for every sample" in load) == (": whole; " in verify) == bool(share)
        assert ("; no checksums to compare" in verify) == (": readable" in verify) == (not share)


def test_samples_that_checksums_cover_in_part(stoker, tmp_path):
    """`load` said that a flipped bit goes undetected, of data in which it does not."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("x", data=np.ones((40, 8), "f4"), chunks=(8, 8), fletcher32=True)
        f["y"] = np.arange(40)
    assert "compared for 80.0 % of the bytes of each sample" in stoker("load", tmp_path / "a.h5").out
    stats = stoker("load", tmp_path / "a.h5", "--batch", 40, "--json", "-", "-q").out
    assert '"checked": 0' in stats and '"checked_bytes": 1280' in stats
    broken = bytearray((tmp_path / "a.h5").read_bytes())
    broken[broken.index(np.ones(8, "f4").tobytes()) + 3] ^= 1
    (tmp_path / "a.h5").write_bytes(broken)
    assert "checksum" in stoker("load", tmp_path / "a.h5", rc=4).err


def test_external_and_virtual_data_is_refused(stoker, tmp_path):
    """Lost otherwise: zeros in place of data that stands in another file."""
    def make(f):
        (tmp_path / "raw.bin").write_bytes(bytes(8 * N))
        f.create_dataset("c", (N,), "i8", external=[(str(tmp_path / "raw.bin"), 0, 8 * N)])
    refused(stoker, tmp_path, make, "external")
    with h5py.File(tmp_path / "b.h5", "w") as f:
        f["y"] = np.arange(N)
        layout = h5py.VirtualLayout((N,), "i8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "a.h5"), "y", (N,))
        f.create_virtual_dataset("v", layout)
    result = stoker("inspect", tmp_path / "b.h5")
    assert "virtual" in result.out
    with h5py.File(tmp_path / "b.h5", "a") as f:
        del f["y"]
    assert "virtual" in stoker("load", tmp_path / "b.h5", rc=4).err


@pytest.mark.parametrize("kwargs", [{}, dict(chunks=(4,), compression="gzip")])
def test_members_of_compounds_are_fields(stoker, tmp_path, kwargs):
    """Lost otherwise: tables of records (PyTables, pandas, structured arrays)."""
    a = np.zeros(10, [("a", "<i4"), ("b", "<f8", (3,)), ("s", "S5"), ("n", [("z", "?")]),
                      ("c", "<c8"), ("big", ">i4")])
    a["a"], a["b"][:, 1], a["s"], a["n"]["z"], a["c"] = range(10), 7, b"hi", True, 2 + 3j
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("t", data=a, **kwargs)
        f["x"] = np.arange(10)
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(found, {"t/a": a["a"], "t/b": a["b"], "t/s": [b"hi"] * 10, "t/n/z": a["n"]["z"],
                 "t/c": np.array([[2, 3]] * 10, "f4"), "x": np.arange(10)})
    assert notes(stoker, tmp_path / "a.h5")[0] == {"column": {"t/big"}}


# ---- which datasets are the samples, and what is said of the others ----

def notes(stoker, path):
    """({kind: names left out}, {what: as}) that `inspect` says of a file."""
    stoker("inspect", path, "--json", path.parent / "notes.json")
    said = json.loads((path.parent / "notes.json").read_text())["result"]
    left_out = {}
    for x in said["left_out"]:
        left_out.setdefault(x["kind"], set()).update(x["names"])
        assert x["why"] and x["count"] >= len(x["names"])
    return left_out, {x["what"]: x["as"] for x in said["taken"]}


def test_links(stoker, tmp_path):
    """Lost otherwise: fields that are known by a second name, without a word."""
    x = np.arange(9)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["x"], f["g/y"] = x, x * 2
        f["hard"] = f["x"]
        f["soft"], f["group"] = h5py.SoftLink("/x"), h5py.SoftLink("/g")
        f["nowhere"], f["other"] = h5py.SoftLink("/no"), h5py.ExternalLink("b.h5", "/x")
        f["round"] = h5py.SoftLink("/other")
    with h5py.File(tmp_path / "b.h5", "w") as f:
        f["x"] = x
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"x": x, "hard": x, "soft": x, "g/y": x * 2})
    assert notes(stoker, tmp_path / "a.h5")[0] == {"link": {"group", "nowhere", "other", "round"}}
    result = stoker("verify", tmp_path / "a.h5", rc=3)
    assert "4 links left out" in result.out


def test_a_dataset_for_each_sample(stoker, tmp_path):
    """Lost otherwise: the samples; rows of images would be taken for them."""
    images = [np.full((10, 12, 3), i, "u1") for i in range(20)]
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i, image in enumerate(images):
            f[f"images/{i:05}"] = image
        f["labels"] = np.arange(20)
        f["mean"] = np.zeros(3)
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(found, {"images": np.stack(images), "labels": np.arange(20)})
    left_out, taken = notes(stoker, tmp_path / "a.h5")
    assert left_out == {"dataset": {"mean"}} and "images/00000" in taken["sample"]
    assert stoker("inspect", tmp_path / "a.h5", "--sample", 17).out.count("00017")


def test_samples_of_differing_shapes(stoker, tmp_path):
    """Lost otherwise: images as they are found, one dataset each and no two alike."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i in range(6):
            g = f.create_group(f"data/demo_{i}")
            g.create_dataset("act", data=np.full((5 + i, 7), i, "f4"), compression="gzip")
            g["name"] = f"number {i}"
            g["jpeg"] = np.arange(3 + i, dtype="u1")
    stoker("pack", tmp_path / "a.h5", tmp_path / "out", "--format", "jsonl")
    lines = [json.loads(x) for x in next((tmp_path / "out").glob("*.jsonl")).open()]
    assert [x["act"] for x in lines] == [[[i] * 7] * (5 + i) for i in range(6)]
    assert [x["name"] for x in lines] == [f"number {i}" for i in range(6)]
    assert [x["key"] for x in lines] == [f"demo_{i}" for i in range(6)]


def test_numbered_columns_stay_columns(stoker, tmp_path):
    """Lost otherwise: tables whose columns are x1, x2, ..."""
    want = {f"x{i}": np.arange(30) + i for i in range(4)} | {"y": np.arange(30)}
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, a in want.items():
            f[name] = a
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), want)


@pytest.mark.parametrize("name", ["{}/x", "x_{}", "{}_x"])
def test_splits_are_said(stoker, tmp_path, name):
    """Lost otherwise: the other split, or (of the same length) both mixed into one sample."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f[name.format("test")], f[name.format("train")] = np.zeros((30, 2)), np.ones((30, 2))
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {name.format("train"): np.ones((30, 2))})
    left_out, taken = notes(stoker, tmp_path / "a.h5")
    assert left_out == {"split": {"test"}} and taken["split"] == "train"


def test_datasets_can_be_named(stoker, tmp_path):
    """Lost otherwise: the other split; and what is asked for once must not be what comes next."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for split, value in (("train", 1), ("test", 2)):
            f[f"{split}/x"], f[f"{split}/y"] = np.full((9, 2), value), np.full(9, value)
        f["record"] = np.zeros(9, [("a", "i4"), ("b", "i4")])
    def columns(*names):
        stoker("inspect", tmp_path / "a.h5", "--datasets", ",".join(names))
        stoker("verify", tmp_path / "a.h5", "--datasets", ",".join(names))
        return set(read_back(stoker, tmp_path / "a.h5", tmp_path, "--from-datasets",
                             ",".join(names)))
    assert columns("test") == {"test/x", "test/y"}
    assert columns("test/y", "record/b") == {"test/y", "record/b"}
    assert set(read_back(stoker, tmp_path / "a.h5", tmp_path)) == {"train/x", "train/y", "record/a",
                                                                   "record/b"}
    result = stoker("inspect", tmp_path / "a.h5", "--datasets", "none", rc=3)
    assert "--datasets" in result.out
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert "HDF5" in stoker("inspect", tmp_path / "a.csv", "--datasets", "a", rc=2).err


def test_rows_without_elements(stoker, tmp_path):
    """Lost otherwise: the whole file, for one array that is empty."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["e"], f["x"] = np.zeros((9, 0)), np.arange(9)
        f.create_dataset("c", (9, 0), "f4", chunks=(3, 2), maxshape=(None, None))
    result = stoker("verify", tmp_path / "a.h5")
    assert "9 samples" in result.out
    stoker("pack", tmp_path / "a.h5", tmp_path / "out", "--format", "jsonl")
    line = json.loads(next((tmp_path / "out").glob("*.jsonl")).open().readline())
    assert line["x"] == 0 and line["e"] == [] and line["c"] == []


def test_complex_numbers_are_pairs(stoker, tmp_path):
    """Lost otherwise: spectra and the like."""
    a = (np.arange(18) + 1j).reshape(9, 2)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["c"], f["big"] = a, a.astype(">c8")
    pairs = np.stack([a.real, a.imag], -1)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"c": pairs, "big": pairs.astype("f4")})
    assert "pairs" in notes(stoker, tmp_path / "a.h5")[1]["array"]


def test_rows_of_characters_are_strings(stoker, tmp_path):
    """Lost otherwise: the strings of netCDF."""
    words = ["ab", "abc", "", "x"]
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["w"] = np.array([list(w.ljust(4, "\0")) for w in words], "S1")
        f["x"] = np.arange(4)
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(found, {"w": [w.encode() for w in words], "x": np.arange(4)})


def test_of_a_newer_hdf5(stoker, tmp_path):
    """Lost otherwise: the reason (the library is old, not the file damaged), and the other fields."""
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as f:
        f["x"] = np.arange(9)
        f["b"] = np.arange(9) % 2 == 0
    whole = (tmp_path / "a.h5").read_bytes()
    # The version of the datatype message of an enumeration (class 8): 3 in HDF5 1.10, 5 in 1.14.
    at = [i for i in range(len(whole) - 8) if whole[i] == 0x38 and whole[i + 1:i + 8] ==
          b"\x02\0\0\1\0\0\0"]
    if len(at) != 1:
        pytest.skip("this h5py writes another version")
    # The checksum of the object header is not looked at before the message is: mend it all the same.
    head = whole.rindex(b"OHDR", 0, at[0])
    new = bytearray(whole)
    new[at[0]] = 0x58
    end = whole.index(b"OHDR", head + 4) if b"OHDR" in whole[head + 4:] else len(whole)
    for stop in range(at[0], end):
        if lookup3(whole[head:stop]) == int.from_bytes(whole[stop:stop + 4], "little"):
            new[stop:stop + 4] = lookup3(bytes(new[head:stop])).to_bytes(4, "little")
            break
    else:
        pytest.skip("the object header was not found")
    (tmp_path / "a.h5").write_bytes(new)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path), {"x": np.arange(9)})
    result = stoker("verify", tmp_path / "a.h5", rc=3)
    assert "newer HDF5" in result.out and "--high=v110" in result.out
    assert "damaged" not in result.out


def lookup3(data):
    """Bob Jenkins's hash, the checksum of HDF5's metadata."""
    def rot(x, k):
        return (x << k | x >> (32 - k)) & 0xffffffff
    a = b = c = (0xdeadbeef + len(data)) & 0xffffffff
    def words(p):
        p = p.ljust(12, b"\0")
        return [int.from_bytes(p[i:i + 4], "little") for i in (0, 4, 8)]
    while len(data) > 12:
        x, y, z = words(data[:12])
        a, b, c = (a + x) & 0xffffffff, (b + y) & 0xffffffff, (c + z) & 0xffffffff
        for k1, k2, k3, k4, k5, k6 in [(4, 6, 8, 16, 19, 4)]:
            a = ((a - c) & 0xffffffff) ^ rot(c, k1); c = (c + b) & 0xffffffff
            b = ((b - a) & 0xffffffff) ^ rot(a, k2); a = (a + c) & 0xffffffff
            c = ((c - b) & 0xffffffff) ^ rot(b, k3); b = (b + a) & 0xffffffff
            a = ((a - c) & 0xffffffff) ^ rot(c, k4); c = (c + b) & 0xffffffff
            b = ((b - a) & 0xffffffff) ^ rot(a, k5); a = (a + c) & 0xffffffff
            c = ((c - b) & 0xffffffff) ^ rot(b, k6); b = (b + a) & 0xffffffff
        data = data[12:]
    if data:
        x, y, z = words(data)
        a, b, c = (a + x) & 0xffffffff, (b + y) & 0xffffffff, (c + z) & 0xffffffff
        for target, source, k in [("c", "b", 14), ("a", "c", 11), ("b", "a", 25), ("c", "b", 16),
                                  ("a", "c", 4), ("b", "a", 14), ("c", "b", 24)]:
            v = {"a": a, "b": b, "c": c}
            v[target] = ((v[target] ^ v[source]) - rot(v[source], k)) & 0xffffffff
            a, b, c = v["a"], v["b"], v["c"]
    return c


def test_pandas_table(stoker, tmp_path):
    """Lost otherwise: all rows of a table that pandas wrote (as PyTables lays it out)."""
    rows = np.zeros(30, [("index", "<i8"), ("values_block_0", "<f8", (2,)),
                         ("values_block_1", "S3", (1,))])
    rows["index"], rows["values_block_0"][:, 1], rows["values_block_1"] = range(30), 7, b"ab"
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("df/table", data=rows, chunks=(8,), maxshape=(None,))
        for name in ("abounds", "bounds", "sorted", "indices"):
            f[f"df/_i_table/index/{name}"] = np.zeros((0, 16))
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(found, {"df/table/index": np.arange(30), "df/table/values_block_0": rows["values_block_0"],
                 "df/table/values_block_1": [b"ab"] * 30})
    stoker("verify", tmp_path / "a.h5")


def test_pandas_fixed(stoker, tmp_path):
    """The same of the other way pandas writes one."""
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["df/axis0"], f["df/axis1"] = np.array([b"a", b"b", b"s"]), np.arange(30)
        f["df/block0_items"], f["df/block0_values"] = np.array([b"a", b"b"]), np.ones((30, 2))
        f["df/block1_items"] = np.array([b"s"])
        f.create_dataset("df/block1_values", (1,), h5py.vlen_dtype("u1"))[0] = np.arange(9)
    found = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(found, {"df/axis1": np.arange(30), "df/block0_values": np.ones((30, 2))})
    assert notes(stoker, tmp_path / "a.h5")[0]["dataset"] == {
        "df/axis0", "df/block0_items", "df/block1_items", "df/block1_values"}


# ---- writing what h5py reads ----

def ragged(f, name):
    ends, data = f[name + ".offsets"][...], f[name][...]
    assert f[name].dtype == "u1" and ends.dtype == "u8" and ends[0] == 0 and ends[-1] == len(data)
    return [data[ends[i]:ends[i + 1]].tobytes() for i in range(len(ends) - 1)]


@pytest.mark.parametrize("compress", [None, "deflate", "deflate:9"])
def test_packed_images(stoker, images, tmp_path, compress):
    """Lost otherwise: training scripts that open with h5py what stoker packed."""
    src, files = images
    args = ["--compress", compress] if compress else []
    stoker("pack", src, tmp_path / "out", "--format", "hdf5", "--shards", 2, *args)
    shards = sorted((tmp_path / "out").glob("*.h5"))
    found = {}
    for shard in shards:
        with h5py.File(shard) as f:
            assert (f["data"].compression == "gzip") == bool(compress)
            assert f["label"].dtype == "i8"
            for key, data, label in zip(ragged(f, "key"), ragged(f, "data"), f["label"][...]):
                found[key.decode()] = (data, int(label))
    assert len(shards) == 2
    assert found == {k: (v, int(k[5:7])) for k, v in files.items()}
    stoker("verify", tmp_path / "out")


def test_types_survive_a_round_trip(stoker, tmp_path):
    """Lost otherwise: the types and shapes of arrays, and what is text and what bytes."""
    columns = {d: (np.arange(N) - 3).astype(d) for d in
               "u1 i1 u2 i2 u4 i4 u8 i8 f2 f4 f8".split()}
    columns["flag"] = np.arange(N) % 3 == 0
    columns["group/shaped"] = np.arange(N * 6, dtype="f4").reshape(N, 2, 3)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for name, a in columns.items():
            f[name] = a
        f.create_dataset("caption", (N,), h5py.string_dtype())[...] = [f"é{i}" for i in range(N)]
    stoker("pack", tmp_path / "a.h5", tmp_path / "out", "--format", "hdf5", "--shards", 1,
           "--compress", "deflate")
    with h5py.File(next((tmp_path / "out").glob("*.h5"))) as f:
        for name, a in columns.items():
            assert f[name].dtype == a.dtype and np.array_equal(f[name][...], a), name
        assert ragged(f, "caption") == [f"é{i}".encode() for i in range(N)]
    sample = stoker("inspect", tmp_path / "out", "--sample", 1, "--json", "-").json()
    text = json.dumps(sample)
    assert '"text"' in text and "é1" in json.dumps(sample, ensure_ascii=False)


def test_values_larger_than_chunks(stoker, tmp_path):
    """Lost otherwise: the middle of large samples."""
    rng = random.Random(3)
    files = {f"f{i}.bin": rng.randbytes(size) for i, size in
             enumerate((0, 1, 3 << 20, 5, (1 << 20) - 6, 1 << 20, 7))}
    (tmp_path / "in").mkdir()
    for name, data in files.items():
        (tmp_path / "in" / name).write_bytes(data)
    stoker("pack", tmp_path / "in", tmp_path / "out", "--format", "hdf5", "--shards", 1)
    with h5py.File(next((tmp_path / "out").glob("*.h5"))) as f:
        assert f["data"].chunks == (1 << 20,)
        assert dict(zip((k.decode() for k in ragged(f, "key")), ragged(f, "data"))) == files
    assert read_back(stoker, tmp_path / "out", tmp_path)["data"] == list(files.values())


def test_same_bytes_whatever_the_jobs(stoker, tmp_path):
    """Lost otherwise: reproducible datasets, and --resume with them."""
    columns = arrays()
    write(tmp_path / "a.h5", columns)
    packed = []
    for jobs in (1, 4):
        dst = tmp_path / f"out{jobs}"
        stoker("pack", tmp_path / "a.h5", dst, "--format", "hdf5", "--shards", 3, "--jobs", jobs,
               "--compress", "deflate", "--name", "x")
        packed.append([p.read_bytes() for p in sorted(dst.glob("*.h5"))])
    assert packed[0] == packed[1] and len(packed[0]) == 3


def test_samples_that_differ_are_refused_by_name(stoker, tmp_path):
    """Lost otherwise: the name of the field that made a long pack fail."""
    lines = [{"key": "a", "v": [1, 2]}, {"key": "b", "v": [1, 2, 3]}, {"key": "c", "v": [3, 4]}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    result = stoker("pack", tmp_path / "a.jsonl", tmp_path / "out", "--format", "hdf5", rc=4)
    assert "'v'" in result.err and "(3)" in result.err and "(2)" in result.err
    assert not (tmp_path / "out").exists()
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "out", "--format", "hdf5",
           "--on-error", "skip", rc=3)
    with h5py.File(next((tmp_path / "out").glob("*.h5"))) as f:
        assert f["v"][...].tolist() == [[1, 2], [3, 4]] and ragged(f, "key") == [b"a", b"c"]


def test_whole_numbers_fit_columns_of_floats(stoker, tmp_path):
    """Lost otherwise: JSON in which 1.0 was written as 1."""
    (tmp_path / "a.jsonl").write_text('{"v": 0.5}\n{"v": 1}\n{"v": -2}\n')
    stoker("pack", tmp_path / "a.jsonl", tmp_path / "out", "--format", "hdf5", "--shards", 1)
    with h5py.File(next((tmp_path / "out").glob("*.h5"))) as f:
        assert f["v"].dtype == "f8" and f["v"][...].tolist() == [0.5, 1, -2]


def test_notes_are_no_samples(stoker, tmp_path):
    """hickle keeps texts under numbers (types/0, types/2), MATLAB single numbers as arrays of one
    row: neither may hide the data because there are more of them."""
    x = np.arange(45.).reshape(15, 3)
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f["data/x"], f["data/y"] = x, np.arange(15)
        for i in range(4):
            f[f"types/{i}"] = np.array([[b"n", b"d"]], dtype="S1")
            f[f"scale{'abcd'[i]}"] = np.array([[i]])
    got = read_back(stoker, tmp_path / "a.h5", tmp_path)
    same(got, {"data/x": x, "data/y": np.arange(15)})
    with h5py.File(tmp_path / "one.h5", "w") as f:  # a sample of its own it is where it is the data
        f["image"], f["label"], f["names"] = np.zeros((1, 8, 8)), [3], np.arange(10)
    assert sorted(read_back(stoker, tmp_path / "one.h5", tmp_path)) == ["image", "label"]



# ---- nobody but us reads data ----

def test_data_is_read_by_us_alone(tmp_path):
    """Lost otherwise: reading in parallel. libhdf5 reads for one thread at a time."""
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("strace is not installed")
    x = np.random.default_rng(1).integers(0, 99, (400, 3000), dtype="u1")
    with h5py.File(tmp_path / "a.h5", "w") as f:
        f.create_dataset("x", data=x, chunks=(20, 3000), compression="gzip")
    log = tmp_path / "log"
    env = clean_env({"LSAN_OPTIONS": "detect_leaks=0"})  # leaks cannot be looked for under strace
    env["ASAN_OPTIONS"] += ":detect_leaks=0"
    done = subprocess.run([strace, "-f", "-yy", "-e", "trace=read,pread64,openat,mmap,%process",
                           "-o", str(log), str(STOKER), "pack", str(tmp_path / "a.h5"),
                           str(tmp_path / "out"), "--format", "tfrecord", "--jobs", "1"],
                          env=env, capture_output=True)
    if done.returncode and b"ptrace" in done.stderr:
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    lines = log.read_text(errors="replace").splitlines()
    # The child that lists is the one process (not thread) that is made.
    listers = {line.split("= ")[-1].split()[0] for line in lines
               if re.match(r"\d+ +(<\.\.\. )?clone", line) and "CLONE_VM" not in line and "= " in line}
    ours = [line for line in lines if line.split()[0] not in listers and "a.h5>" in line
            and "resumed" not in line]
    reads = [line for line in ours if "pread64(" in line]
    assert reads
    # Large and few: 20 chunks of 60,000 bytes, not a read a row; and no other way in.
    assert len(reads) < 40
    assert not [line for line in ours if " read(" in line or " mmap(" in line]
    size = os.path.getsize(tmp_path / "a.h5")
    asked = sum(int(line.rsplit("= ", 1)[1].split()[0]) for line in reads)
    assert asked < 2 * size


def libhdf5():
    """The library that stoker loads: its file name."""
    asked = subprocess.run(["strings", "-a", STOKER], stdout=subprocess.PIPE, text=True, check=True)
    return re.search(r"^/\S*/(libhdf5\S*\.so\.\d+)$", asked.stdout, re.M).group(1)


def test_another_libhdf5_is_named(stoker, tmp_path):
    """A module that brings a libhdf5 of its own must not end in a crash, and costs other formats nothing."""
    write(tmp_path / "a.h5", arrays())
    (tmp_path / "lib").mkdir()
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    subprocess.run(["cc", "-shared", "-o", tmp_path / "lib" / libhdf5(), "-x", "c", "/dev/null"], check=True)
    env = clean_env({"LD_LIBRARY_PATH": str(tmp_path / "lib")})
    said = stoker("inspect", tmp_path / "a.h5", env=env, rc=4)
    assert "the libhdf5 here is not the one stoker was built with" in said.err
    stoker("inspect", tmp_path / "a.csv", env=env)
