"""HDF5 as other Python libraries write it: h5netcdf and xarray, hdf5storage (MATLAB 7.3), hickle,
anndata, silx. Every dataset that h5py sees is read row by row, or said to be left out."""

import numpy as np
import pytest

from writerlib import TEXTS, compare_hdf5, samples, same, stoker

RNG = np.random.default_rng(11)
DTYPES = ["u1", "i1", "<u2", ">i2", "<i4", ">u4", "<i8", "<u8", "<f2", "<f4", ">f8", "?", "<c8"]


# ---- h5netcdf, xarray ----

@pytest.mark.parametrize("options", [{}, {"compression": "gzip", "shuffle": True},
                                     {"compression": "gzip", "chunks": (3, 2), "fletcher32": True},
                                     {"compression": "lzf", "chunks": (4, 3)}])
def test_h5netcdf(tmp_path, options):
    h5netcdf = pytest.importorskip("h5netcdf")
    with h5netcdf.File(tmp_path / "t.nc", "w") as f:
        f.dimensions = {"time": 10, "x": 3}
        f.create_variable("temp", ("time", "x"), float, data=RNG.normal(size=(10, 3)), **options)
        f.create_variable("time", ("time",), "i4", data=np.arange(10))
        g = f.create_group("more")
        g.create_variable("flag", ("time",), "u1", data=np.arange(10) % 2)
    assert compare_hdf5(tmp_path / "t.nc", 10, format="hdf5") >= {"temp", "time", "more/flag"}


def test_h5netcdf_unlimited_and_text(tmp_path):
    h5netcdf = pytest.importorskip("h5netcdf")
    h5py = pytest.importorskip("h5py")
    with h5netcdf.File(tmp_path / "t.nc", "w") as f:
        f.dimensions["n"] = None
        v = f.create_variable("x", ("n",), "f4", fillvalue=np.float32(-9))
        f.resize_dimension("n", 8)
        v[:5] = np.arange(5)
        s = f.create_variable("name", ("n",), dtype=h5py.string_dtype())
        s[:] = [f"t{i}\u00e9" for i in range(8)]
    compare_hdf5(tmp_path / "t.nc", 8, format="hdf5")


@pytest.mark.parametrize("encoding", [None, {"a": {"dtype": "i2", "scale_factor": 0.1, "_FillValue": -9}},
                                      {"a": {"zlib": True, "complevel": 9}}])
def test_xarray(tmp_path, encoding):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    ds = xr.Dataset({"a": (("t", "x"), RNG.normal(size=(12, 4))), "b": ("t", np.arange(12, dtype="u2")),
                     "c": ("t", np.array([f"w{i}" for i in range(12)], dtype=object)),
                     "flag": ("t", np.arange(12) % 3 == 0)},
                    {"t": np.arange(12).astype("M8[D]").astype("M8[ns]"), "x": list("abcd")})
    ds.to_netcdf(tmp_path / "t.nc", engine="h5netcdf", encoding=encoding)
    assert compare_hdf5(tmp_path / "t.nc", 12, format="hdf5") >= {"a", "b", "c", "flag"}


# ---- MATLAB ----

def test_hdf5storage(tmp_path):
    """MATLAB stores arrays transposed behind a block of 512 bytes of its own."""
    hdf5storage = pytest.importorskip("hdf5storage")
    data = {"images": RNG.integers(0, 256, (5, 4, 9)).astype("u1"), "labels": np.arange(9.0)[None],
            "name": "text \u00e9", "ok": True}
    hdf5storage.savemat(str(tmp_path / "t.mat"), data, format="7.3")
    compare_hdf5(tmp_path / "t.mat", format="hdf5")


def test_hdf5storage_rows(tmp_path):
    hdf5storage = pytest.importorskip("hdf5storage")
    hdf5storage.savemat(str(tmp_path / "t.mat"), {"x": RNG.normal(size=(3, 2, 20)), "y": RNG.normal(size=(7, 20))},
                        format="7.3", oned_as="column")
    assert compare_hdf5(tmp_path / "t.mat", 20, format="hdf5") == {"x", "y"}


def test_mat_is_recognised(tmp_path):
    hdf5storage = pytest.importorskip("hdf5storage")
    hdf5storage.savemat(str(tmp_path / "t.mat"), {"x": RNG.normal(size=(3, 20))}, format="7.3")
    assert stoker.Dataset(tmp_path / "t.mat").format == "hdf5"


# ---- hickle, anndata, silx ----

def test_hickle(tmp_path):
    hickle = pytest.importorskip("hickle")
    data = {"x": RNG.normal(size=(15, 3)), "y": np.arange(15), "note": "hello", "list": [1, 2, 3]}
    hickle.dump(data, str(tmp_path / "t.h5"), mode="w", compression="gzip")
    compare_hdf5(tmp_path / "t.h5", 15)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_anndata(tmp_path, sparse, compression):
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    x = RNG.poisson(0.5, size=(30, 7)).astype("f4")
    if sparse:
        x = pytest.importorskip("scipy.sparse").csr_matrix(x)
    a = anndata.AnnData(x, obs=pd.DataFrame({"kind": pd.Categorical(["a", "b", "c"] * 10), "q": np.arange(30.)},
                                            index=[f"cell{i}" for i in range(30)]),
                        obsm={"pca": RNG.normal(size=(30, 2))})
    a.write_h5ad(tmp_path / "t.h5ad", compression=compression)
    read = compare_hdf5(tmp_path / "t.h5ad", format="hdf5")
    assert "obs/q" in read and "obsm/pca" in read
    assert sparse or "X" in read


def test_silx(tmp_path):
    pytest.importorskip("silx")
    from silx.io.dictdump import dicttoh5
    dicttoh5({"run": {"x": RNG.normal(size=(9, 2)), "t": np.arange(9)}, "title": "text", "z": np.arange(9) * 1j},
             str(tmp_path / "t.h5"), create_dataset_args={"compression": "gzip", "fletcher32": True})
    compare_hdf5(tmp_path / "t.h5", 9)


# ---- every type ----

@pytest.mark.parametrize("dtype", DTYPES)
def test_h5py_low_level_types(tmp_path, dtype):
    """xarray's and h5netcdf's types, as far as netCDF-4 has them."""
    h5netcdf = pytest.importorskip("h5netcdf")
    data = RNG.integers(0, 2, (6, 2)).astype(dtype)
    with h5netcdf.File(tmp_path / "t.nc", "w", invalid_netcdf=True) as f:
        f.dimensions = {"n": 6, "k": 2}
        f.create_variable("v", ("n", "k"), data=data)
    assert compare_hdf5(tmp_path / "t.nc", 6, format="hdf5") == {"v"}
