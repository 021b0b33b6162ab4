"""squashfs images against squashfs-tools: theirs read by us, ours unpacked by them."""

import base64
import json
import os
import random
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("mksquashfs"), reason="no squashfs-tools")

BLOCK = 131072


def tree_files():
    """Contents that take every path: fragments, blocks, exact blocks, holes, nothing at all."""
    rng = random.Random(3)
    files = {
        "empty": b"",
        "tiny": b"x",
        "a/text": b"hello " * 1000,
        "a/random": rng.randbytes(300000),
        "a/b/blocks": b"abc" * 200000,
        "c/exact": rng.randbytes(BLOCK),
        "c/exact2": b"y" * 2 * BLOCK,
        "c/hole-first": b"\0" * (1 << 20) + b"end",
        "c/hole-inside": b"A" * BLOCK + b"\0" * BLOCK * 3 + rng.randbytes(10),
        "c/hole": b"\0" * 400000,
    }
    for i in range(200):
        files[f"c/small{i:03d}"] = rng.randbytes(rng.randint(1, 3000))
    return files


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    files = tree_files()
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    os.symlink("tiny", root / "symlink")
    os.mkfifo(root / "fifo")
    os.link(root / "tiny", root / "hardlink")
    files["hardlink"] = b"x"
    return root, files


def mksquashfs(src, image, *args):
    r = subprocess.run(["mksquashfs", src, image, "-noappend", "-quiet", "-no-progress", *args],
                       capture_output=True, text=True, check=False)
    if r.returncode and "compress" in r.stdout + r.stderr:
        pytest.skip("this mksquashfs cannot: " + " ".join(args))
    assert r.returncode == 0, r.stderr


def read_back(stoker, src, tmp_path, *args):
    dst = tmp_path / f"read-back-{len(list(tmp_path.glob('read-back-*')))}"
    stoker("pack", src, dst, "--format", "jsonl", *args)
    found = {}
    for shard in sorted(dst.glob("*.jsonl")):
        for line in shard.read_text().splitlines():
            sample = json.loads(line)
            data = sample["data"]
            found[sample["key"]] = (base64.b64decode(data["$base64"]) if isinstance(data, dict)
                                    else data.encode())
    return found


def unsquash(image, where):
    subprocess.run(["unsquashfs", "-q", "-n", "-d", where, image], check=True,
                   stdout=subprocess.DEVNULL)
    return {str(p.relative_to(where)): p.read_bytes() for p in where.rglob("*") if p.is_file()}


def only(folder, pattern="*.sqsh"):
    found = sorted(folder.glob(pattern))
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("comp", ["gzip", "zstd", "lz4", "xz"])
@pytest.mark.parametrize("options", [[], ["-no-fragments"], ["-noD", "-noI"], ["-noF"],
                                     ["-b", "4096"], ["-b", "1M", "-always-use-fragments"]],
                         ids=lambda o: "".join(o) or "default")
def test_reads_images(stoker, tree, tmp_path, comp, options):
    """A file in an image would have wrong bytes, or be missing."""
    root, files = tree
    image = tmp_path / "i.sqsh"
    mksquashfs(root, image, "-comp", comp, *options)
    got = read_back(stoker, image, tmp_path, "--label-from", "none")
    assert set(got) == set(files)
    assert [k for k in files if got[k] != files[k]] == []
    result = stoker("verify", image, "--json", "-", "--quiet", rc=3).json()["result"]
    assert result["problems_total"] == 0
    why = {name: note["why"] for note in result["left_out"] for name in note["names"]}
    assert set(why) == {"symlink", "fifo"} and "symbolic link" in why["symlink"]


@pytest.mark.parametrize("comp", ["lzo", "lzma"])
def test_other_compressors_are_named(stoker, tree, tmp_path, comp):
    """For an image that cannot be decoded, the message must say so, and what to do."""
    root, _ = tree
    mksquashfs(root, tmp_path / "i.sqsh", "-comp", comp)
    r = stoker("inspect", tmp_path / "i.sqsh", rc=3)
    assert comp in r.out + r.err and "-comp zstd" in r.out + r.err


@pytest.mark.parametrize("how", [None, "zstd:5", "lz4", "deflate:9"])
def test_ours_is_unpacked_by_unsquashfs(stoker, tree, tmp_path, how):
    """What pack wrote could not be mounted or would be other files."""
    root, files = tree
    args = ["--compress", how] if how else []
    source = tmp_path / "src"
    for name, data in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    stoker("pack", source, tmp_path / "out", "--format", "squashfs", "--label-from", "none", *args)
    image = only(tmp_path / "out")
    assert unsquash(image, tmp_path / "un") == files
    assert read_back(stoker, tmp_path / "out", tmp_path, "--label-from", "none") == files


def test_classes_stay_directories(stoker, images, tmp_path):
    """A class-per-directory tree would come out flat or with label files strewn in."""
    folder, files = images
    stoker("pack", folder, tmp_path / "out", "--format", "squashfs")
    assert unsquash(only(tmp_path / "out"), tmp_path / "un") == files


def test_same_bytes_whatever_the_jobs(stoker, images, tmp_path):
    """The day, the user or the number of processors would get into the image."""
    folder, _ = images
    for jobs in (1, 4):
        stoker("pack", folder, tmp_path / f"j{jobs}", "--format", "squashfs", "--name", "x",
               "--jobs", jobs, env={"SOURCE_DATE_EPOCH": "12345"})
    assert only(tmp_path / "j1").read_bytes() == only(tmp_path / "j4").read_bytes()


def test_missing_tool_is_named(stoker, images, tmp_path):
    """'No such file or directory' would not tell what to install."""
    folder, _ = images
    r = stoker("pack", folder, tmp_path / "out", "--format", "squashfs", rc=4,
               env={"PATH": str(tmp_path)})
    assert "squashfs-tools" in r.err and not (tmp_path / "out").exists()


def test_failing_tool_is_quoted(stoker, images, tmp_path):
    """A tool that fails must not leave a dataset, and what it said must be shown."""
    folder, _ = images
    tool = tmp_path / "bin" / "mksquashfs"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'the sky is falling' >&2\nexit 3\n")
    tool.chmod(0o755)
    r = stoker("pack", folder, tmp_path / "out", "--format", "squashfs", rc=4,
               env={"PATH": f"{tool.parent}:/usr/bin:/bin"})
    assert "the sky is falling" in r.err and "3" in r.err and not (tmp_path / "out").exists()


def test_same_path_twice_is_named(stoker, tmp_path):
    """mksquashfs keeps the first of two files of one name and exits 0."""
    src = tmp_path / "a.jsonl"
    src.write_text("".join(f'{{"key": "{k}", "data": "x{i}"}}\n' for i, k in enumerate("abca")))
    r = stoker("pack", src, tmp_path / "out", "--format", "squashfs", rc=4)
    assert "--keys number" in r.err and not (tmp_path / "out").exists()
