"""What stoker does not read is recognised and named, with what to do instead: taken for a folder of
files, a Zarr store of eight chunks would be eight samples, and `verify` would call them whole."""

import io
import json
import pathlib
import pickle
import struct
import zipfile

import pytest

PARQUET = b"PAR1" + bytes(60) + b"PAR1"
ARROW = b"\xff\xff\xff\xff" + struct.pack("<iI", 64, 16) + bytes(80)
MEGATRON = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 1, 2)
SAFETENSORS = struct.pack("<Q", 2) + b"{}"
MDS = {"version": 2, "shards": [{"raw_data": {"basename": "shard.00000.mds"}}]}


def zipped(*names):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name in names:
            z.writestr(name, b"x" * 50)
    return out.getvalue()


FILES = {  # name: (bytes, what it is called, what is to be done)
    "a.parquet": (PARQUET, "Parquet", "pandas.read_parquet"),
    "part-00000": (PARQUET, "Parquet", "pandas.read_parquet"),
    "a.feather": (b"ARROW1\0\0" + bytes(50), "Arrow", "pandas.read_feather"),
    "data-00000-of-00001.arrow": (ARROW, "Arrow", "load_from_disk"),
    "a.orc": (b"ORC" + bytes(50), "ORC", "pandas.read_orc"),
    "a.nc": (b"CDF\2" + bytes(50), "netCDF-3", "nccopy -k nc4"),
    "a.mat": (b"MATLAB 5.0 MAT-file, Platform: GLNXA64" + bytes(100), "MATLAB", "-v7.3"),
    "a.safetensors": (SAFETENSORS, "safetensors", "load_file"),
    "a.pt": (zipped("archive/data.pkl", "archive/data/0"), "torch.save", "torch.load"),
    "old.pth": (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "torch.save", "torch.load"),
    "a.pkl": (pickle.dumps({"x": list(range(9))}, 4), "pickle", "numpy.savez"),
    "a.zip": (zipped("a/1.jpg", "a/2.jpg"), "zip", "unzip"),
    "a.beton": (struct.pack("<HHIQQ", 2, 1, 8 << 20, 3, 104) + bytes(104), "FFCV", "tar"),
    "shard.00000.mds": (bytes(50), "MosaicML", "tar"),
    "a.idx": (MEGATRON, "Megatron", "numpy.memmap"),
    "a.db": (b"SQLite format 3\0" + bytes(50), "SQLite", "sqlite3"),
    "a.webp": (b"RIFF\x30\0\0\0WEBPVP8 " + bytes(50), "picture", "folder"),
    "a.tif": (b"II*\0" + bytes(50), "picture", "folder"),
    "a.grib2": (b"GRIB\0\0\0\2" + bytes(50), "GRIB", "cdo"),
}
# Those that may be samples of a folder of files.
SAMPLES = {"a.mat", "a.safetensors", "a.pt", "old.pth", "a.pkl", "a.zip", "a.db", "a.webp", "a.tif"}


def refused(stoker, tmp_path, path, title, instead):
    for command in (["inspect", path], ["load", path], ["verify", path], ["pack", path, tmp_path / "o"]):
        said = stoker(*command, rc=4).err
        assert title in said and instead in said, said
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("name", FILES)
def test_a_file(stoker, tmp_path, name):
    data, title, instead = FILES[name]
    (tmp_path / name).write_bytes(data)
    refused(stoker, tmp_path, tmp_path / name, title, instead)
    (tmp_path / "d/n01").mkdir(parents=True)
    (tmp_path / "d/n02").mkdir()
    for i in range(3):
        (tmp_path / f"d/n0{i % 2 + 1}/{i}{name if name[0] != 'a' else name[1:]}").write_bytes(data)
    if name in SAMPLES:
        stoker("pack", tmp_path / "d", tmp_path / "o")
        result = stoker("inspect", tmp_path / "d", "--json", "-", "-q").json()["result"]
        assert (result["samples"], result["classes"]) == (3, 2)
    else:
        refused(stoker, tmp_path, tmp_path / "d", title, instead)
        taken = stoker("inspect", tmp_path / "d", "--format", "folder", "--json", "-", "-q").json()
        assert taken["result"]["samples"] == 3  # what is asked for by name is done


def zarr2(folder, *arrays):
    (folder / ".zgroup").write_text('{"zarr_format": 2}')
    for a in arrays:
        (folder / a).mkdir()
        (folder / a / ".zarray").write_text('{"zarr_format": 2, "shape": [4], "chunks": [1]}')
        for i in range(4):
            (folder / a / str(i)).write_bytes(b"x")


def zarr3(folder, *arrays):
    (folder / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    for a in arrays:
        (folder / a / "c").mkdir(parents=True)
        (folder / a / "zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
        for i in range(4):
            (folder / a / "c" / str(i)).write_bytes(b"x")


def save_to_disk(folder):
    for split in ("train", "test"):
        (folder / split).mkdir()
        (folder / split / "data-00000-of-00001.arrow").write_bytes(ARROW)
        (folder / split / "state.json").write_text("{}")
        (folder / split / "dataset_info.json").write_text("{}")
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')


def megatron(folder):
    (folder / "text_document.bin").write_bytes(bytes(100))
    (folder / "text_document.idx").write_bytes(MEGATRON)


def litdata(folder):
    (folder / "index.json").write_text(json.dumps({"chunks": [{"chunk_bytes": 9, "filename": "chunk-0-0.bin"}]}))
    (folder / "chunk-0-0.bin").write_bytes(bytes(50))


def mds(folder):
    for split in ("train", "val"):
        (folder / split).mkdir()
        (folder / split / "index.json").write_text(json.dumps(MDS))
        (folder / split / "shard.00000.mds.zstd").write_bytes(bytes(50))


def hub(folder):
    (folder / "data").mkdir()
    (folder / "README.md").write_text("x")
    for i in range(2):
        (folder / f"data/train-0000{i}-of-00002.parquet").write_bytes(PARQUET)


def delta(folder):
    (folder / "_delta_log").mkdir()
    (folder / "_delta_log/00000000000000000000.json").write_text("{}")
    (folder / "year=2024").mkdir()
    (folder / "year=2024/part-00000.snappy.parquet").write_bytes(PARQUET)


def n5(folder):
    (folder / "attributes.json").write_text('{"n5": "2.0.0"}')
    (folder / "x").mkdir()
    (folder / "x/0").write_bytes(b"x")


STORES = [(lambda d: zarr2(d, "x", "y"), "Zarr"), (lambda d: zarr3(d, "x", "y"), "Zarr"), (save_to_disk, "Hugging Face"),
          (megatron, "Megatron"), (litdata, "LitData"), (mds, "MosaicML"), (hub, "Parquet"), (delta, "Parquet"),
          (n5, "N5")]


@pytest.mark.parametrize("make,title", STORES, ids=[f"{i}-{t}" for i, (_, t) in enumerate(STORES)])
def test_a_folder_that_is_a_store(stoker, tmp_path, make, title):
    (tmp_path / "d").mkdir()
    make(tmp_path / "d")
    refused(stoker, tmp_path, tmp_path / "d", title, "the format 'folder'")


def test_tokens_are_known_by_their_index(stoker, tmp_path):
    megatron(tmp_path)
    refused(stoker, tmp_path, tmp_path / "text_document.bin", "Megatron", "numpy.memmap")


def test_stores_beside_samples_are_left_out(stoker, tmp_path):
    """The chunks of a store among pictures are no pictures; a folder of stores alone is refused."""
    stores = tmp_path / "d"
    (stores / "2020.zarr").mkdir(parents=True)
    (stores / "2021.zarr").mkdir()
    zarr2(stores / "2020.zarr", "x")
    zarr3(stores / "2021.zarr", "y")
    (stores / "README.md").write_text("x")
    refused(stoker, tmp_path, stores, "Zarr", "xarray")
    (stores / "README.md").unlink()
    for i in range(12):
        (stores / f"{i}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    (stores / "captions.parquet").write_bytes(PARQUET)
    result = stoker("inspect", stores, "--json", "-", "-q").json()["result"]
    assert result["samples"] == 12
    assert {x["kind"]: sorted(x["names"]) for x in result["left_out"]} == {
        "store": ["2020.zarr", "2021.zarr"], "file": ["captions.parquet"]}
    assert "left out  2 stores (2020.zarr, 2021.zarr): Zarr" in stoker("verify", stores, rc=3).out


def test_stage_copies_what_it_cannot_read(stoker, tmp_path):
    (tmp_path / "d").mkdir()
    zarr2(tmp_path / "d", "x")
    copy = pathlib.Path(stoker("stage", tmp_path / "d", tmp_path / "copy").out.strip())
    assert (copy / "x/.zarray").exists() and (copy / "x/3").exists()


def test_they_are_listed(stoker):
    result = stoker("formats", "--json", "-", "-q").json()["result"]
    known = {x["name"] for x in result["recognised"]}
    assert {"parquet", "zarr", "megatron", "arrow"} <= known and all(x["instead"] for x in result["recognised"])
    assert not known & {x["name"] for x in result["formats"]}
    assert "recognised, but not read: parquet" in stoker("formats").out


def test_a_folder_of_shards_of_several_formats_is_a_guess(stoker, tmp_path):
    """Whole files were the samples, without a word."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a.tar").write_bytes(bytes(1024))
    for name in ("a.tfrecord", "b.tfrecord"):
        (tmp_path / "d" / name).write_bytes(b"")
    (tmp_path / "d/README.md").write_text("what it is")
    said = stoker("inspect", tmp_path / "d", "--json", "-", "-q").json()["result"]["taken"]
    assert [(t["what"], t["as"]) for t in said] == [("sample", "a whole file")]
    (tmp_path / "d/a.jpg").write_bytes(b"\xff\xd8\xff")  # now they may be samples
    assert stoker("inspect", tmp_path / "d", "--json", "-", "-q").json()["result"]["taken"] == []
