"""Packed numbers of netCDF files: scale_factor, add_offset, _FillValue and missing_value are
applied, or the dataset is left out by name. The reference is the convention's formula in numpy."""

import pytest

np = pytest.importorskip("numpy")
h5py = pytest.importorskip("h5py")

from test_hdf5 import read_back, same  # noqa: E402

N = 40


def packed(path, data, attributes, name="t", **kwargs):
    with h5py.File(path, "w") as f:
        d = f.create_dataset(name, data=data, **kwargs)
        for key, value in attributes.items():
            d.attrs[key] = value


def meant(data, scale=1.0, offset=0.0, fills=(), dtype="f8"):
    """What the file means, by the convention's own formula."""
    return np.where(np.isin(data, fills), np.nan, data.astype("f8") * scale + offset).astype(dtype)


def stored(dtype, shape=(N, 6, 10)):
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        return rng.normal(size=shape).astype(dtype)
    low = max(np.iinfo(dtype).min, -30000)
    return rng.integers(low, min(np.iinfo(dtype).max, 30000), shape).astype(dtype)


LAYOUTS = {"contiguous": {}, "gzip": {"chunks": (8, 6, 10), "compression": "gzip", "shuffle": True},
           "tiles": {"chunks": (8, 4, 3)}, "pieces": {"chunks": (1, 6, 1), "fletcher32": True}}


@pytest.mark.parametrize("dtype,layout", [("i2", "contiguous"), ("i2", "gzip"), ("i2", "tiles"), (">i2", "contiguous"),
                                          (">i2", "pieces"), ("u1", "gzip"), ("i4", "tiles"), ("f4", "contiguous")])
def test_scale_and_offset(stoker, tmp_path, layout, dtype):
    """Temperatures in hundredths of a degree would be learned as temperatures."""
    data = stored(dtype)
    fill = data.flat[7]
    for scale, offset, want in ((np.float32(0.01), np.float32(20), "f4"), (0.25, -3.0, "f8")):
        packed(tmp_path / "a.nc", data, {"scale_factor": scale, "add_offset": offset, "_FillValue": fill},
               **LAYOUTS[layout])
        if dtype == "i4":
            want = "f8"
        want = meant(data, float(scale), float(offset), [fill], want)
        same(read_back(stoker, tmp_path / "a.nc", tmp_path), {"t": want})
    stoker("verify", tmp_path / "a.nc")
    result = stoker("inspect", tmp_path / "a.nc", "--json", "-", "-q").json()["result"]
    assert [(f["dtype"], f["shape"]) for f in result["fields"]] == [(want.dtype.name, [6, 10])]
    assert any("scale_factor" in t["because"] for t in result["taken"])
    stoker("load", tmp_path / "a.nc")


def test_each_file_has_its_own(stoker, tmp_path):
    """Two files that mean the same are stored as other numbers: ERA5, one file a month."""
    (tmp_path / "d").mkdir()
    data = stored("i2", (N, 5))
    for name, attributes in (("a", {"scale_factor": 0.01, "add_offset": 0.0}),
                             ("b", {"scale_factor": 0.5, "add_offset": 100.0}), ("c", {})):
        packed(tmp_path / f"d/{name}.nc", data, attributes)
    want = np.concatenate([meant(data, 0.01), meant(data, 0.5, 100), meant(data)])
    same(read_back(stoker, tmp_path / "d", tmp_path), {"t": want})
    stoker("verify", tmp_path / "d")
    stoker("pack", tmp_path / "d", tmp_path / "once")
    same(read_back(stoker, tmp_path / "once", tmp_path), {"t": want})


@pytest.mark.parametrize("dtype,attributes,fills,want", [
    ("i2", {"_FillValue": np.int16(-7)}, [-7], "f4"),
    ("i2", {"_FillValue": np.array([-7], "i2"), "missing_value": np.array([3, -7, 9], "i2")}, [-7, 3, 9], "f4"),
    ("i2", {"missing_value": -7.0}, [-7], "f4"),
    ("i2", {"missing_value": -7.5}, None, None),
    ("i2", {"missing_value": 1e20}, None, None),
    ("i2", {"_FillValue": 70000}, None, None),
    ("i4", {"_FillValue": np.int32(-7)}, [-7], "f8"),
    ("i8", {"_FillValue": np.int64(-7)}, [-7], "f8"),
    ("f4", {"_FillValue": np.float32(1e20)}, [np.float32(1e20)], "f4"),
    ("f4", {"missing_value": 1e20}, [np.float32(1e20)], "f4"),
    ("f8", {"_FillValue": 9.969209968386869e36}, [9.969209968386869e36], "f8"),
    ("f2", {"_FillValue": np.float16(-7)}, [-7], "f4"),
    ("f4", {"_FillValue": np.float32("nan")}, None, None),
    ("f4", {"scale_factor": 1.0, "add_offset": np.float32(0)}, None, None),
], ids=str)
def test_missing_values(stoker, tmp_path, dtype, attributes, fills, want):
    data = np.arange(-N, N).astype(dtype).reshape(N, 2)
    if fills and np.dtype(dtype).kind == "f":
        data.flat[5] = fills[0]
    packed(tmp_path / "a.h5", data, attributes)
    same(read_back(stoker, tmp_path / "a.h5", tmp_path),
         {"t": meant(data, fills=fills, dtype=want) if fills else data})


def test_without_signs(stoker, tmp_path):
    """netCDF's classic bytes have a sign, and an attribute that takes it away."""
    data = np.arange(-N, N, dtype="i1").reshape(N, 2)
    packed(tmp_path / "a.nc", data, {"_Unsigned": "true"})  # a string of variable length
    same(read_back(stoker, tmp_path / "a.nc", tmp_path), {"t": data.view("u1")})
    packed(tmp_path / "b.nc", data, {"_Unsigned": np.bytes_("true"), "_FillValue": np.int8(-1), "scale_factor": 0.5})
    same(read_back(stoker, tmp_path / "b.nc", tmp_path), {"t": meant(data.view("u1"), 0.5, 0, [255])})


def test_integers_that_no_float_holds(stoker, tmp_path):
    """With missing values they would become floats, and other numbers."""
    packed(tmp_path / "a.h5", np.array([1, 2 ** 53 + 1, -7]), {"_FillValue": np.int64(-7)})
    assert "2^53" in stoker("pack", tmp_path / "a.h5", tmp_path / "o", rc=4).err


@pytest.mark.parametrize("attributes,reason", [
    ({"scale_factor": "0.01"}, "scale_factor is not a number"),
    ({"scale_factor": np.array([0.1, 0.2])}, "scale_factor has several values"),
    ({"_FillValue": np.bytes_("x")}, "_FillValue is not a number"),
    ({"missing_value": np.arange(9)}, "missing_value names too many values")], ids=str)
def test_what_cannot_be_applied_is_left_out(stoker, tmp_path, attributes, reason):
    packed(tmp_path / "a.nc", stored("i2"), attributes)
    with h5py.File(tmp_path / "a.nc", "a") as f:
        f["x"] = np.arange(N)
    said = stoker("inspect", tmp_path / "a.nc", "--json", "-", "-q").json()["result"]["left_out"]
    assert [(x["kind"], x["names"]) for x in said] == [("dataset", ["t"])] and reason in said[0]["why"]
    assert sorted(read_back(stoker, tmp_path / "a.nc", tmp_path)) == ["x"]


def test_a_valid_range_is_said(stoker, tmp_path):
    data = stored("i2")
    packed(tmp_path / "a.nc", data, {"valid_range": np.array([0, 10], "i2")})
    same(read_back(stoker, tmp_path / "a.nc", tmp_path), {"t": data})
    assert any("valid_range" in t["as"] for t in stoker("inspect", tmp_path / "a.nc", "--json", "-", "-q").json()["result"]["taken"])


@pytest.mark.parametrize("shapes", [[(3, 2)] * 5, [(3, 2), (4, 2), (1, 2), (3, 2), (2, 2)]], ids=["same", "other"])
def test_a_dataset_for_each_sample(stoker, tmp_path, shapes):
    (tmp_path / "n").mkdir()
    want = []
    with h5py.File(tmp_path / "a.h5", "w") as f:
        for i, shape in enumerate(shapes):
            data = np.arange(np.prod(shape), dtype="i2").reshape(shape)
            d = f.create_dataset(f"g/{i:03}", data=data)
            d.attrs["scale_factor"] = 0.5 * (i + 1)
            want.append(meant(data, 0.5 * (i + 1)))
    stoker("pack", tmp_path / "a.h5", tmp_path / "o", "--format", "folder")
    for i, a in enumerate(want):
        found = np.load(tmp_path / f"o/data/{i:03}.g.npy" if (tmp_path / f"o/data/{i:03}.g.npy").exists()
                        else next((tmp_path / "o").rglob(f"{i:03}.g.npy")))
        assert found.dtype == a.dtype and np.array_equal(found, a)
