"""A packed dataset is what its manifest says, or it is damaged: every reader says so by name, and no
edit makes it smaller or leaves its samples unchecked."""

import json
import shutil
import struct

import pytest

from conftest import flip_byte, make_images, run_stoker
from formatlib import NAMES, writes

SHARDS = 3


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """packed(format) -> a packed dataset of 30 samples that are all of one size, in three shards if
    the format has shards."""
    root, made = tmp_path_factory.mktemp("packed"), {}
    make_images(root / "img", classes=2, per_class=15, sizes=(400, 400))
    rows = [{"i": 1000 + i, "x": i % 8 + 0.5} for i in range(30)]
    (root / "rows.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))

    def get(name):
        if name not in made:
            arrays = name in ("csv", "tsv", "json", "jsonl", "npz", "npy", "hdf5")
            src = root / ("rows.jsonl" if arrays else "img")
            if name == "npy":
                src = root / "one.jsonl"
                src.write_text("".join(json.dumps({"x": [r["x"]]}) + "\n" for r in rows))
            shards = ["--shards", SHARDS] if name not in ("folder", "lmdb", "squashfs") else []
            run_stoker("pack", src, root / name, "--format", name, *shards, "--quiet")
            made[name] = root / name
        return made[name]
    return get


def shards_of(path):
    """The files with the samples, sorted."""
    manifest = json.loads((path / "manifest.json").read_text())
    shards = [path / s["name"] for s in manifest["shards"]]
    return sorted(shards[0].rglob("*.*")) if shards[0].is_dir() else shards


def shortened(shards):
    """Its last line, or its last third, is gone: whole records are left."""
    data = shards[-1].read_bytes()
    lines = data.splitlines(keepends=True)
    text = shards[-1].suffix in (".csv", ".tsv", ".json", ".jsonl")
    shards[-1].write_bytes(b"".join(lines[:-1]) if text else data[:len(data) * 2 // 3])


def appended(shards):
    shards[-1].write_bytes(shards[-1].read_bytes() + b"\n")


def removed(shards):
    shards[-1].unlink()


def replaced_by_a_folder(shards):
    shards[-1].unlink()
    shards[-1].mkdir()


DAMAGES = [shortened, appended, removed, replaced_by_a_folder]
# What each reader must end with.
READERS = {
    "load": lambda path, tmp: run_stoker("load", path, "-b", 2, rc=4),
    "inspect": lambda path, tmp: run_stoker("inspect", path, rc=1),
    "pack": lambda path, tmp: run_stoker("pack", path, tmp / "again", rc=4),
    "stage": lambda path, tmp: run_stoker("stage", path, tmp / "tier", rc=1),
    "verify": lambda path, tmp: run_stoker("verify", path, rc=1),
    "load --on-error skip": lambda path, tmp: run_stoker("load", path, "-b", 2, "--on-error", "skip", rc=1),
    "tune": lambda path, tmp: run_stoker("tune", path, "--budget", "1s", rc=4),
    "inspect --rebuild-index": lambda path, tmp: run_stoker("inspect", path, "--rebuild-index", rc=1),
}


def damaged(path, how, tmp):
    """A copy of the dataset with that damage, and the damaged file."""
    copy = tmp / "copy"
    shutil.copytree(path, copy, copy_function=shutil.copyfile)  # other times
    shards = shards_of(copy)
    how(shards)
    return copy, shards[-1]


def refuses(reader, copy, victim, tmp):
    result = READERS[reader](copy, tmp)
    assert victim.name in result.out + result.err, (reader, result)
    assert not (tmp / "again").exists() and not list(tmp.glob("tier/*/data/*"))


@pytest.mark.parametrize("reader", READERS)
def test_damage_and_readers(packed, tmp_path, reader):
    """A reader would go on with fewer samples, and without checksums, and end with status 0."""
    for how in DAMAGES:
        copy, victim = damaged(packed("csv"), how, tmp_path)
        refuses(reader, copy, victim, tmp_path)
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "csv"])
def test_damage_and_formats(packed, tmp_path, name):
    """Likewise for every format that pack writes: one reader per damage, in turn."""
    if not writes(name):
        pytest.skip(f"{name} is not written here")
    readers = list(READERS)[:3]
    for i, how in enumerate((shortened, appended, removed), NAMES.index(name)):
        copy, victim = damaged(packed(name), how, tmp_path)
        refuses(readers[i % 3], copy, victim, tmp_path)
        shutil.rmtree(copy)


def checked(path, *args):
    """(samples, samples whose checksum was compared)"""
    result = run_stoker("load", path, "-b", 5, "--last", "short", *args, "--json", "-").json()["result"]
    return result["samples"], result["checked"]


@pytest.mark.parametrize("name", [n for n in NAMES if n != "tfrecord"])
def test_same_sizes(packed, tmp_path, name):
    """Content of the same size: a copy with other times is sound; exchanged shards and a flipped bit
    are found, without the index of the dataset as well."""
    if not writes(name):
        pytest.skip(f"{name} is not written here")
    copy, _ = damaged(packed(name), lambda shards: None, tmp_path)
    assert checked(copy) == (30, 30)
    shards = shards_of(copy)
    a, b = shards[0].read_bytes(), shards[-1].read_bytes()
    if len(shards) > 1 and len(a) == len(b):
        shards[0].write_bytes(b)
        shards[-1].write_bytes(a)
        assert "checksum" in run_stoker("load", copy, "-b", 2, rc=4).err
        shards[0].write_bytes(a)
        shards[-1].write_bytes(b)
    (copy / "index.stkidx").unlink()
    assert checked(copy) == (30, 30)  # from an index made again, which is found by the next run
    (again,) = tmp_path.glob("copy.stkidx")
    found, number = 0, [b.find(x) for x in (b"1029", struct.pack("<q", 1029), struct.pack("<q", 1028))]
    for at in [at for at in number if at > 0] + list(range(0, len(b), len(b) // 40 + 1)):
        flip_byte(shards[-1], at)
        found += run_stoker("load", copy, "-b", 2, rc=(0, 4)).rc == 4
        flip_byte(shards[-1], at)
        if found:
            break
    assert found  # others are between samples, where nothing is lost
    again.unlink()
    flip_byte(shards[-1], len(b) // 2)
    assert shards[-1].name in (err := run_stoker("load", copy, "-b", 2, rc=4).err) or "files:" in err
    assert not again.exists()


def test_a_lost_index_and_damage(packed, tmp_path):
    """Without the index, listing would take what is left for the dataset."""
    for how in (shortened, appended, lambda shards: flip_byte(shards[-1], -3)):
        copy, victim = damaged(packed("csv"), how, tmp_path)
        (copy / "index.stkidx").unlink()
        assert victim.name in run_stoker("load", copy, "-b", 2, rc=4).err
        result = run_stoker("inspect", copy, rc=1)
        assert victim.name in result.out
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_a_flipped_bit_in_a_header(packed, tmp_path, name):
    """A damaged column name would be the user's mistake: status 2, and a hint about options."""
    for at in (0, 3):
        copy, _ = damaged(packed(name), lambda shards: flip_byte(shards[0], at), tmp_path)
        found = run_stoker("verify", copy, rc=1)
        assert "column" in found.out and shards_of(copy)[0].name in found.out
        shutil.rmtree(copy)
