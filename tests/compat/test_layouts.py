"""Folders as people and tools lay them out: torchvision, YOLO, COCO, img2dataset, tfds. Which files
are samples, which are left out (and said so), what is a class and what a split."""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zlib

import pytest

import tfrecordlib


def write(root, *names, data=b"x"):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_tar(path, members):
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def inspect(stoker, path, *options, rc=0):
    return stoker("inspect", path, "--json", "-", "--quiet", *options, rc=rc).json()["result"]


def left_out(result):
    """{kind: sorted names}"""
    found = {}
    for note in result["left_out"]:
        found.setdefault(note["kind"], []).extend(note["names"])
    return {kind: sorted(names) for kind, names in found.items()}


def taken(result):
    return {note["what"]: note["as"] for note in result["taken"]}


def packed(stoker, path, tmp_path, *options):
    """{key: row} of a pack into JSON Lines."""
    out = tmp_path / f"out-{len(list(tmp_path.glob('out-*')))}"
    stoker("pack", path, out, "--format", "jsonl", "--shards", "1", *options)
    rows = [json.loads(line) for line in next(out.glob("*.jsonl")).read_text().splitlines()]
    return {row.pop("key"): row for row in rows}


@pytest.fixture
def classes(tmp_path):
    """torchvision's ImageFolder: two classes of three files."""
    root = tmp_path / "root"
    write(root, *(f"{c}/{i}.jpg" for c in ("cat", "dog") for i in range(3)))
    return root


# ---- class directories -------------------------------------------------------------------------

@pytest.mark.parametrize("name, said", [("Thumbs.db", {}), ("README.md", {}),
                                        ("labels.csv", {"file": ["labels.csv"]}),
                                        ("model.bin", {"file": ["model.bin"]})])
def test_a_file_beside_class_directories(stoker, classes, name, said):
    """One stray file would take the labels of all others away."""
    write(classes, name)
    result = inspect(stoker, classes)
    assert result["samples"] == 6 and result["first_classes"] == ["cat", "dog"]
    assert left_out(result) == said
    assert stoker("verify", classes, rc=3 if said else 0)
    # Who wants all of them says so, and that lasts for this command.
    assert inspect(stoker, classes, "--format", "folder")["samples"] == 7
    assert inspect(stoker, classes)["samples"] == 6


def test_many_files_without_a_class(stoker, classes):
    """Where half of the files have no directory, directories are no classes; it is said."""
    write(classes, *(f"{i}.jpg" for i in range(6)))
    result = inspect(stoker, classes)
    assert result["samples"] == 12 and result["classes"] == 0
    assert taken(result)["label"] == "none"


def test_linked_class_directories(stoker, classes, tmp_path):
    """A dataset put together from links would be empty, and missing files would not be noticed."""
    linked = tmp_path / "linked"
    linked.mkdir()
    for name in "cat", "dog":
        (linked / name).symlink_to(classes / name)
    (linked / "cat" / "gone.jpg").symlink_to("nowhere.jpg")
    (linked / "dog" / "up").symlink_to("..")
    result = inspect(stoker, linked, "--follow-links")
    # `up` leads from linked/dog, which is root/dog, to root: six more files, and back.
    assert result["first_classes"] == ["cat", "dog"]
    assert any(name.endswith("gone.jpg") for name in left_out(result)["link"])
    assert any(name.endswith("up") for name in left_out(result)["link"])
    stoker("verify", linked, "--follow-links", rc=3)
    (classes / "cat" / "gone.jpg").unlink()
    (classes / "dog" / "up").unlink()
    result = inspect(stoker, linked, "--follow-links")
    assert result["samples"] == 6 and left_out(result) == {}
    stoker("verify", linked, "--follow-links")
    write(classes, "cat/new.jpg")
    assert inspect(stoker, linked, "--follow-links")["samples"] == 7, "a change behind a link is noticed"
    # Not asked for, they are not followed; how to is said.
    result = inspect(stoker, linked)
    assert result["samples"] == 0 and left_out(result) == {"link": ["cat", "dog"]}
    assert "--follow-links" in stoker("inspect", linked).out


def test_splits_are_no_classes(stoker, tmp_path):
    """A user would train on the test set, with the splits as classes."""
    root = tmp_path / "root"
    write(root, *(f"{s}/{c}/{i}.jpg" for s in ("train", "val") for c in ("cat", "dog")
                  for i in range(2 if s == "val" else 3)))
    result = inspect(stoker, root)
    assert result["samples"] == 10 and result["first_classes"] == ["cat", "dog"]
    assert taken(result)["split"] == "train, val"
    assert inspect(stoker, root, "--split", "train")["samples"] == 6
    assert inspect(stoker, root, "--split", "val")["samples"] == 4
    assert inspect(stoker, root)["samples"] == 10, "an option given once does not stick"
    rows = packed(stoker, root, tmp_path, "--split", "val")
    assert len(rows) == 4 and all(key.startswith("val/") for key in rows)
    assert {row["label"] for row in rows.values()} == {0, 1}
    assert "train, val" in stoker("inspect", root, "--split", "dev", rc=2).err


def test_splits_of_shards(stoker, tmp_path):
    """tfds writes all splits into one folder, with notes and perhaps an empty shard."""
    root = tmp_path / "1.0.0"
    root.mkdir()
    for split, n in ("train", 5), ("test", 2):
        for shard in range(2):
            records = [tfrecordlib.frame(b"%s %d" % (split.encode(), i))
                       for i in range(n) if shard == 0]
            name = f"mnist-{split}.tfrecord-{shard:05d}-of-00002"
            (root / name).write_bytes(b"".join(records))
    write(root, "dataset_info.json", "features.json", data=b"{}")
    write(root, "label.labels.txt", data=b"0\n1\n")
    result = inspect(stoker, root)
    assert (result["format"], result["samples"], result["files"]) == ("tfrecord", 7, 4)
    assert left_out(result) == {} and sorted(taken(result)["split"].split(", ")) == ["test", "train"]
    assert inspect(stoker, root, "--split", "test")["samples"] == 2
    stoker("verify", root)
    stoker("verify", root / "mnist-test.tfrecord-00001-of-00002")
    # Beside shards that are named the other way, too.
    write(root, "more.tfrecord", data=tfrecordlib.frame(b"more"))
    assert inspect(stoker, root)["samples"] == 8


# ---- annotations -------------------------------------------------------------------------------

def test_yolo(stoker, tmp_path):
    """Images and the boxes in them would be samples apart, of the classes images and labels."""
    root = tmp_path / "yolo"
    for split in "train", "val":
        write(root, *(f"images/{split}/{i}.jpg" for i in range(4)))
        for i in range(1, 4):
            write(root, f"labels/{split}/{i}.txt", data=f"{i} .5 .5 .1 .1\n".encode())
    write(root, "data.yaml", "labels/train.cache", "labels/train/99.txt")
    result = inspect(stoker, root)
    assert result["samples"] == 8 and result["classes"] == 0
    assert left_out(result) == {"file": ["data.yaml", "labels/train.cache", "labels/train/99.txt"]}
    assert taken(result)["sample"] == "an image and its labels"
    rows = packed(stoker, root, tmp_path)
    assert list(rows) == [f"{s}/{i}" for s in ("train", "val") for i in range(4)]
    assert "txt" not in rows["train/0"] and rows["val/3"]["txt"] == "3 .5 .5 .1 .1\n"
    assert len(packed(stoker, root, tmp_path, "--split", "val")) == 4
    assert inspect(stoker, root, "--format", "folder")["samples"] == 17
    # The other order of directories, and another writer's names (Pascal VOC).
    voc = tmp_path / "voc"
    write(voc, *(f"JPEGImages/{i}.jpg" for i in range(3)))
    write(voc, *(f"Annotations/{i}.xml" for i in range(3)))
    assert inspect(stoker, voc)["samples"] == 3
    other = tmp_path / "other"
    write(other, *(f"train/images/{i}.png" for i in range(3)))
    write(other, *(f"train/labels/{i}.txt" for i in range(3)))
    assert set(packed(stoker, other, tmp_path)) == {f"train/{i}" for i in range(3)}


@pytest.mark.parametrize("masks, ending", [("masks", "png"), ("labels", "png"), ("masks", "jpg"),
                                           ("SegmentationClass", "png")])
def test_masks(stoker, tmp_path, masks, ending):
    """An image and its mask, of the same name and ending, would be samples of two classes."""
    for i in range(4):
        write(tmp_path / "seg", f"images/train/{i}.png", data=b"image %d" % i)
        write(tmp_path / "seg", f"{masks}/train/{i}.{ending}", data=b"mask %d" % i)
    write(tmp_path / "seg", f"{masks}/train/9.{ending}")
    result = inspect(stoker, tmp_path / "seg")
    assert result["samples"] == 4 and result["classes"] == 0
    assert left_out(result) == {"file": [f"{masks}/train/9.{ending}"]}
    assert taken(result)["sample"] == f"an image and its {masks}"
    rows = packed(stoker, tmp_path / "seg", tmp_path)
    assert {k: (r["png"], r[f"{masks}.{ending}"]) for k, r in rows.items()} == {
        f"train/{i}": (f"image {i}", f"mask {i}") for i in range(4)}
    assert inspect(stoker, tmp_path / "seg", "--format", "folder")["samples"] == 9
    # Two classes, whatever they are called: the names in them differ.
    write(tmp_path / "classes", *(f"images/{i}.png" for i in range(4)))
    write(tmp_path / "classes", *(f"masks/{i}.png" for i in range(4, 8)))
    assert inspect(stoker, tmp_path / "classes")["samples"] == 8


def test_annotations_beside_images(stoker, tmp_path):
    """A table of captions or COCO's annotations are not samples, and are never read silently."""
    coco = tmp_path / "coco"
    write(coco, *(f"{s}/{i}.jpg" for s in ("train2017", "val2017") for i in range(3)))
    write(coco, "annotations/instances_train2017.json", data=b"{}")
    result = inspect(stoker, coco)
    assert result["samples"] == 6 and result["classes"] == 0
    assert left_out(result) == {"file": ["annotations/instances_train2017.json"]}
    assert inspect(stoker, coco, "--split", "val2017")["samples"] == 3
    captions = tmp_path / "captions"
    write(captions, *(f"{i}.jpg" for i in range(4)))
    write(captions, "captions.csv", data=b"file,text\n0.jpg,a cat\n")
    assert left_out(inspect(stoker, captions)) == {"file": ["captions.csv"]}
    stoker("verify", captions, rc=3)


def test_an_image_and_its_text(stoker, tmp_path):
    """The advice that helps is --group, not other keys."""
    root = tmp_path / "root"
    write(root, *(f"{i}.{e}" for i in range(3) for e in ("jpg", "txt")))
    assert "--group" in stoker("inspect", root).out
    assert "--group" in stoker("pack", root, tmp_path / "tar", "--format", "tar", rc=4).err
    rows = packed(stoker, root, tmp_path, "--group")
    assert rows["1"] == {"jpg": "x", "txt": "x"}


def test_members_of_a_group_that_share_a_name(stoker, tmp_path):
    """The mask of 1.jpg called 1.jpg.json would take its name."""
    root = tmp_path / "root"
    write(root, "1.jpg", "2.jpg.json", "2.jpg.txt", data=b"[1]")
    write(root, "1.jpg.json", data=b"{}")
    rows = packed(stoker, root, tmp_path, "--group")
    assert {k: sorted(row) for k, row in rows.items()} == {
        "1": ["jpg", "jpg.json"], "2": ["jpg.json", "jpg.txt"]}


# ---- shards ------------------------------------------------------------------------------------

def test_img2dataset(stoker, tmp_path):
    """Tars beside tables of what is in them would be one sample each."""
    root = tmp_path / "laion"
    root.mkdir()
    for k in range(2):
        write_tar(root / f"{k:05d}.tar", [(f"{k}{i}.{e}", b"{}") for i in range(3)
                                          for e in ("jpg", "json", "txt")])
        write(root, f"{k:05d}.parquet", data=b"PAR1")
        write(root, f"{k:05d}_stats.json", data=b"{}")
    result = inspect(stoker, root)
    assert (result["format"], result["samples"]) == ("tar", 6)
    assert left_out(result) == {"file": ["00000.parquet", "00001.parquet"]}
    stoker("verify", root, rc=3)


def compressed(path, how):
    data = path.read_bytes()
    target = path.with_name(path.name + how)
    if how == ".xz":
        target.write_bytes(lzma.compress(data))
    elif how == ".bz2":
        target.write_bytes(bz2.compress(data))
    else:
        target.write_bytes(b"\x28\xb5\x2f\xfd" + data if how == ".zst"
                           else b"\x04\x22\x4d\x18\x64\x40\xa7" + data)
    return target


@pytest.mark.parametrize("how, name", [(".xz", "xz"), (".bz2", "bzip2"), (".zst", "zstd"),
                                       (".lz4", "lz4")])
def test_compressed_files(stoker, tmp_path, how, name):
    """Nothing was found in them, and that was called whole."""
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1,2\n")
    tar = write_tar(tmp_path / "t.tar", [("1.jpg", b"x")])
    for path, fmt in (compressed(table, how), "csv"), (compressed(tar, how), "tar"):
        assert f"compressed with {name}" in stoker("inspect", path, rc=4).err
        result = stoker("verify", path, "--format", fmt, rc=3)
        assert f"compressed with {name}" in result.out + result.err
        assert f"compressed with {name}" in stoker(
            "pack", path, tmp_path / "out", "--from-format", fmt, rc=4).err
    folder = tmp_path / "shards"
    folder.mkdir()
    for i in range(2):
        os.link(tmp_path / f"t.tar{how}", folder / f"{i}.tar{how}")
    assert f"compressed with {name}" in stoker("inspect", folder, rc=4).err


def test_empty_shards(stoker, tmp_path):
    """A writer that got no records leaves a file of no bytes: sound, and no reason to fail."""
    for name in "a.tfrecord", "a.rec", "a.jsonl":
        write(tmp_path, name, data=b"")
        assert inspect(stoker, tmp_path / name)["samples"] == 0
        stoker("verify", tmp_path / name)
    write(tmp_path, "a.tar", data=b"")
    stoker("verify", tmp_path / "a.tar", rc=1)


def test_columns_in_names_of_directories(stoker, tmp_path):
    """Spark, DuckDB and Arrow leave the columns they cut a table up by out of the files."""
    for year in (2023, 2024):
        folder = tmp_path / "t" / f"year={year}" / "lang=de"
        folder.mkdir(parents=True)
        (folder / "data_0.csv").write_text("id,x\n1,0.5\n2,1.5\n")
    (tmp_path / "t" / "_SUCCESS").touch()
    said = stoker("inspect", tmp_path / "t", "--json", "-", "--quiet").json()["result"]
    assert said["samples"] == 4
    assert [(x["kind"], x["names"]) for x in said["left_out"]] == [("column", ["year", "lang"])]
    assert "not all of it was read" in stoker("verify", tmp_path / "t", rc=3).out


@pytest.mark.parametrize("name,text", [("a.csv", "a,b\r\n1,2\r\n"), ("a.json", '[{"a": 1}]'),
                                       ("a.jsonl", '{"a": 1}\r\n{"a": 2}\r\n')])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16(stoker, tmp_path, name, text, encoding):
    """What PowerShell writes is sound; it is not damaged, and what to do is said."""
    (tmp_path / name).write_bytes(text.encode(encoding))
    r = stoker("inspect", tmp_path / name, "--json", "-", "--quiet", rc=3).json()["result"]
    assert [p["code"] for p in r["problems"]] == ["unsupported"] and "iconv" in r["problems"][0]["what"]


def test_group_and_left_out_in_every_command(stoker, tmp_path):
    """verify would check other samples than pack writes; load would train on less without a word."""
    write(tmp_path / "d", "a", "a.data", "a.jpg", "b.jpg")
    counts = {}
    for command in ("inspect", "verify", "load"):
        options = ["--json", "-", "-q", *(["--batch", "1"] if command == "load" else [])]
        plain, grouped = (stoker(command, tmp_path / "d", *more, *options, rc=(0, 3)).json()["result"]
                          for more in ((), ("--group",)))
        counts[command] = plain["samples"], grouped["samples"]
        assert plain["left_out"] == [] and left_out(grouped) == {"file": ["a.data"]}
    assert counts == dict.fromkeys(counts, (4, 2))
    assert "a.data" in stoker("load", tmp_path / "d", "--group").out


def rows_of(n, text=""):
    return "".join(json.dumps({"id": i, "text": text}) + "\n" for i in range(n)).encode()


@pytest.mark.parametrize("suffix, pack", [("json", bytes), ("json.gz", gzip.compress),
                                          ("json.deflate", zlib.compress), ("long.json", bytes)])
def test_json_lines_that_spark_wrote(stoker, tmp_path, suffix, pack):
    """Each part would be one sample of bytes; or a note beside shards, and ignored."""
    root, text = tmp_path / "d", "x" * (9000 if "long" in suffix else 1)
    for i, n in enumerate((0, 5, 1, 7)):
        write(root, f"part-{i:05d}-3f-c000.{suffix}", data=pack(rows_of(n, text)))
        write(root, f".part-{i:05d}-3f-c000.{suffix}.crc")
    write(root, "_SUCCESS", data=b"")
    write(root, "meta.json", data=b'{\n "a": 1\n}\n')
    result = inspect(stoker, root)
    assert result["format"] == "jsonl" and result["samples"] == 13
    assert taken(result)["format"] == "JSON Lines"
    assert [s["id"] for s in packed(stoker, root, tmp_path).values()] == [*range(5), 0, *range(7)]
    assert inspect(stoker, root, "--format", "folder")["samples"] == 6  # overruled; then again
    assert inspect(stoker, root, "--format", "jsonl")["samples"] == 13
    assert inspect(stoker, root)["samples"] == 13


def test_a_folder_of_json_values(stoker, tmp_path):
    """Files of one value each are samples, as they were."""
    for i in range(4):
        write(tmp_path / "one", f"{i}.json", data=rows_of(1))
        write(tmp_path / "pretty", f"{i}.json", data=b'{\n"a": 1\n}\n{\n')
        write(tmp_path / "array", f"{i}.json", data=b"[1, 2]\n[3]\n")
    for name in ("one", "pretty", "array"):
        result = inspect(stoker, tmp_path / name)
        assert result["format"] == "folder" and result["samples"] == 4 and not taken(result), name


@pytest.mark.parametrize("name, said", [("part-0.csv.snappy", "snappy"), ("part-0.json.bz2", "bzip2"),
                                        ("part-0.json.lzo", "lzo"), ("part-0.csv.lz4", "lz4")])
def test_compressed_parts(stoker, tmp_path, name, said):
    """Parts in Hadoop's compressions are no samples of bytes: refused by that name."""
    write(tmp_path / "d", name, "_SUCCESS")
    assert f"compressed with {said}" in stoker("inspect", tmp_path / "d", rc=4).err
