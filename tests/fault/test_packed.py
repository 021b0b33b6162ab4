"""A packed dataset is what its manifest says, or it is damaged: every reader says so by name, and no
edit makes it smaller or leaves its samples unchecked."""

import json
import os
import shutil
import struct
import subprocess
import sys

import pytest

from conftest import flip_byte, make_images, run_stoker
from faultlib import run_traced
from formatlib import NAMES, writes
from indexlib import manifest_without_checksum
from packagelib import environment

SHARDS = 3


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """packed(format) -> a packed dataset of 30 samples that are all of one size, in three shards if
    the format has shards; packed(format, n): of the first n."""
    root, made = tmp_path_factory.mktemp("packed"), {}
    make_images(root / "img", classes=2, per_class=15, sizes=(400, 400))
    images = sorted(p.relative_to(root / "img") for p in root.glob("img/*/*"))

    def source(name, n):
        src = root / f"{name}.{n}"
        if name not in ("csv", "tsv", "json", "jsonl", "npz", "npy", "hdf5"):
            for image in images[:n]:
                (src / image).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / "img" / image, src / image)
            return src
        rows = [{"i": 1000 + i, "x": i % 8 + 0.5} for i in range(n)]
        rows = [{"x": [r["x"]]} for r in rows] if name == "npy" else rows
        src.with_suffix(".jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        return src.with_suffix(".jsonl")

    def get(name, n=30):
        if (name, n) not in made:
            made[name, n] = root / str(n) / name
            made[name, n].parent.mkdir(exist_ok=True)
            shards = ["--shards", SHARDS] if name not in ("folder", "lmdb", "squashfs") else []
            run_stoker("pack", source(name, n), made[name, n], "--format", name, *shards, "--quiet")
        return made[name, n]
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
    "load --on-error skip": lambda path, tmp: run_stoker("load", path, "-b", 2, "--on-error", "skip", rc=(1, 4)),
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


def fewer(copy, get, name):
    """A shard with whole records, of which some are gone: what another run wrote for fewer samples."""
    shards, others = shards_of(copy), shards_of(get(name, 27))
    shards[-1].unlink()
    if name != "folder":
        shutil.copyfile(others[-1], shards[-1])
    return shards[-1].name


def longer(copy, get, name):
    appended(shards_of(copy))
    return shards_of(copy)[-1].name


def other_count(copy, get, name):
    manifest = manifest_without_checksum(copy / "manifest.json")
    manifest["samples"] -= 1
    manifest["shards"][-1]["samples"] -= 1
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return "30 samples are there, but 29 were packed"


def flipped(copy, get, name):
    """In a sample: a byte between them is of no sample, and nothing is lost."""
    shard = shards_of(copy)[-1]
    size = shard.stat().st_size
    for at in (size * i // 41 for i in range(40, 0, -1)):
        flip_byte(shard, at)
        if run_stoker("load", copy, "-b", 2, rc=(0, 4)).rc == 4:
            return shard.name
        flip_byte(shard, at)
    assert False, "no byte of it is in a sample"


def exchanged(copy, get, name):
    """Sound samples under checksums of their own (TFRecord), but another shard's."""
    shards = shards_of(copy)
    shutil.copyfile(shards[0], shards[-1])
    return shards[-1].name


def sizes(path):
    return [p.stat().st_size for p in shards_of(path) if p.exists()]


# Per dataset: the error of a Dataset or of reading its samples, and what a loader that passes over names.
PYTHON = """
import sys, json, stoker
said = []
for path in sys.argv[1:]:
    try:
        error, _ = "", [dict(sample) for sample in stoker.Dataset(path)]
    except (stoker.Error, OSError) as e:
        error = str(e)
    try:
        loader = stoker.Loader(path, batch=2, on_error="skip")
        for _ in loader: pass
        named = " ".join(loader.problems())
    except (stoker.Error, OSError) as e:
        named = str(e)
    said.append([error, named])
print(json.dumps(said))
"""


@pytest.mark.parametrize("name", NAMES)
def test_damage_and_formats(packed, tmp_path, name):
    """docs/guarantees.md for every format and every reader: refused, or what is lost is named."""
    if not writes(name):
        pytest.skip(f"{name} is not written here")
    copies, named = [], []
    single = len(shards_of(packed(name))) == 1
    for how in (fewer, longer, other_count, flipped) + (() if single else (exchanged,)):
        copies.append(tmp_path / how.__name__)
        shutil.copytree(packed(name), copies[-1], copy_function=shutil.copyfile)
        named.append(how(copies[-1], packed, name))
        for reader in "load", "pack", "load --on-error skip":
            result = READERS[reader](copies[-1], tmp_path)
            assert named[-1] in result.out + result.err, (how, reader, result)
        assert not (tmp_path / "again").exists()
        same_size = how is not other_count and sizes(copies[-1]) == sizes(packed(name))  # nothing is read
        result = run_stoker("inspect", copies[-1], rc=(0, 1) if same_size else 1)
        assert same_size or named[-1] in result.out, (how, result)
    said = json.loads(subprocess.run([sys.executable, "-c", PYTHON, *copies], env=environment(), check=True,
                                     capture_output=True, text=True).stdout)
    for (error, passed_over), want, copy in zip(said, named, copies):
        assert want in error and want in passed_over, (copy.name, error, passed_over)


def checked(path, *args):
    """(samples, samples whose checksum was compared)"""
    result = run_stoker("load", path, "-b", 5, "--last", "short", *args, "--json", "-").json()["result"]
    return result["samples"], result["checked"]


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", ["tfrecord", "tar"])
def test_shards_of_another_run(packed, tmp_path, name):
    """Each shard is sound, and has the name, the size and the number of samples that it should have."""
    for seed in 1, 2:
        run_stoker("pack", packed("jsonl") / "", tmp_path / str(seed), "--format", name, "--shards", 4,
                   "--name", "x", "--shuffle", seed, "--quiet")
    first, second = shards_of(tmp_path / "1"), shards_of(tmp_path / "2")
    assert [p.stat().st_size for p in first[2:]] == [p.stat().st_size for p in second[2:]]
    for p in first[2:]:
        shutil.copyfile(p, tmp_path / "2" / p.name)
    for reader in "load", "pack", "load --on-error skip", "verify":
        result = READERS[reader](tmp_path / "2", tmp_path)
        assert any(p.name in result.out + result.err for p in first[2:]), (reader, result)
    (tmp_path / "2/index.stkidx").unlink()  # made again, it would say what is there
    assert "manifest" in READERS["load"](tmp_path / "2", tmp_path).err


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


def lost(manifest):
    pass


@pytest.mark.parametrize("instead", [lost, os.mkdir, os.mkfifo, lambda manifest: os.symlink("nowhere", manifest)],
                         ids=["nothing", "folder", "pipe", "link"])
def test_no_manifest(packed, tmp_path, instead):
    """The files that are left would be a dataset with fewer samples."""
    copy, _ = damaged(packed("tfrecord"), removed, tmp_path)
    (copy / "manifest.json").unlink()
    instead(copy / "manifest.json")
    for reader, read in READERS.items():
        if reader.startswith("inspect"):
            result = run_stoker("inspect", copy, rc=4)
        else:
            result = read(copy, tmp_path)
        assert "manifest.json" in result.out + result.err, (reader, result)
    assert not (tmp_path / "again").exists() and not list(tmp_path.glob("tier/*/data/*"))
    said = json.loads(subprocess.run([sys.executable, "-c", PYTHON, copy], env=environment(), check=True,
                                     capture_output=True, text=True).stdout)
    assert all("manifest.json" in error for error in said[0])


@pytest.mark.parametrize("error", ["EIO", "EACCES", "ESTALE", "ENOMEM"])
def test_no_manifest_and_an_index_that_cannot_be_read(packed, tmp_path, error):
    """Whether pack wrote the folder would be taken for no."""
    copy, _ = damaged(packed("tfrecord"), removed, tmp_path)
    (copy / "manifest.json").unlink()
    result = run_traced("load", copy, inject=[f"openat,openat2:error={error}:when=1+"], paths=["index.stkidx"],
                        cwd=tmp_path, threads=True, rc=4)
    assert "index.stkidx: open: " in result.err, result


def test_an_index_that_is_of_no_packed_dataset(tmp_path):
    """The index of a file named `index` has the name of a packed dataset's."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/index").write_text('{"i": 1}\n{"i": 2}\n')
    run_stoker("load", tmp_path / "data/index", "--format", "jsonl")
    run_stoker("load", tmp_path / "data/index")
    assert run_stoker("inspect", tmp_path / "data").json is not None


@pytest.mark.parametrize("how", [shortened, lambda shards: flip_byte(shards[-1], -3)], ids=["shortened", "flipped"])
@pytest.mark.parametrize("name", ["csv", "tfrecord", "folder"])
def test_one_shard(packed, tmp_path, name, how):
    """The path to a shard is the path to a part of the dataset, not a way around its manifest."""
    copy, _ = damaged(packed(name), lambda shards: None, tmp_path)
    (shard,) = [copy / s["name"] for s in json.loads((copy / "manifest.json").read_text())["shards"]][-1:]
    link = tmp_path / f"link{shard.suffix}"
    link.symlink_to(shard)
    how(shards_of(copy))
    for path in shard, link:
        for reader in "load", "pack", "inspect", "verify", "load --on-error skip":
            result = READERS[reader](path, tmp_path)
            assert path.name in result.out + result.err and "manifest" in result.out + result.err, (reader, result)
