"""Links in datasets: what stays beneath the folder is followed, what leads out of it only when asked
for; whatever an index or a manifest says, and whoever changes links meanwhile."""

import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile

import pytest

from conftest import STOKER, check_sane, clean_env, until, Result
from indexlib import Index


def inspect(stoker, path, *options, rc=0):
    return json.loads(stoker("inspect", path, "--json", "-", *options, rc=rc).out)["result"]


def links_left_out(result):
    return {name: note["why"] for note in result["left_out"] if note["kind"] == "link"
            for name in note["names"]}


def keys(stoker, path, tmp_path, *options, rc=0):
    out = tmp_path / "keys"
    shutil.rmtree(out, ignore_errors=True)
    stoker("pack", path, out, "--format", "jsonl", "--shards", "1", "--label-from", "none", *options,
           rc=rc)
    return {row["key"]: row["data"] for row in
            map(json.loads, next(out.glob("*.jsonl")).read_text().splitlines())}


def without_openat2(*args, rc=0, **more):
    """stoker on a kernel that has no openat2()."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=openat2",
            "-e", "inject=openat2:error=ENOSYS", STOKER, *args]
    env = clean_env({"ASAN_OPTIONS": "exitcode=99:detect_leaks=0"})  # LSan cannot be traced
    done = subprocess.run(list(map(str, argv)), stdin=subprocess.DEVNULL, capture_output=True, env=env)
    result = Result(argv, done.returncode, done.stdout, done.stderr)
    if "inject" in result.err or "PTRACE" in result.err:
        pytest.skip("strace cannot be used here: " + result.err.splitlines()[0])
    check_sane(result)
    assert result.rc in (rc if isinstance(rc, tuple) else (rc,)), repr(result)
    return result


@pytest.fixture(params=["openat2", "no openat2"])
def any_kernel(request, stoker):
    return stoker if request.param == "openat2" else without_openat2


@pytest.fixture
def linked(tmp_path):
    """A folder with links of every kind, beside it what must not be read."""
    root, out = tmp_path / "root", tmp_path / "private"
    for name in "a/1.txt", "a/2.txt", "b/3.txt":
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("inside " + name)
    out.mkdir()
    (out / "secret.txt").write_text("secret")
    (root / "b/near.txt").symlink_to("3.txt")
    (root / "b/up.txt").symlink_to("../a/1.txt")
    (root / "b/absolute.txt").symlink_to(root / "a/2.txt")
    (root / "c").symlink_to("a")
    (root / "b/outside.txt").symlink_to("../../private/secret.txt")
    (root / "b/elsewhere.txt").symlink_to(out / "secret.txt")
    (root / "d").symlink_to(out)
    (root / "b/gone.txt").symlink_to("../../private/none.txt")
    (root / "b/twice.txt").symlink_to("outside.txt")
    return root


INSIDE = {"a/1.txt", "a/2.txt", "b/3.txt", "b/near.txt", "b/up.txt", "b/absolute.txt", "c/1.txt", "c/2.txt"}
OUTSIDE = {"b/outside.txt", "b/elsewhere.txt", "b/twice.txt", "d/secret.txt"}


def test_the_rule(any_kernel, linked, tmp_path):
    """`pack` copied a private file of the caller's into what it wrote, through a link in the data."""
    result = inspect(any_kernel, linked)
    assert result["samples"] == len(INSIDE)
    left_out = links_left_out(result)
    assert set(left_out) == {"b/outside.txt", "b/elsewhere.txt", "b/twice.txt", "d", "b/gone.txt"}
    assert "--follow-links" in left_out["d"] and "--follow-links" in left_out["b/outside.txt"]
    assert "nothing" in left_out["b/gone.txt"]
    assert "--follow-links" in any_kernel("inspect", linked).out
    rows = keys(any_kernel, linked, tmp_path, rc=(0, 3))
    assert set(rows) == INSIDE and "secret" not in json.dumps(rows)
    any_kernel("verify", linked, rc=3)


def test_followed_when_asked_for(stoker, linked, tmp_path):
    """A dataset put together from links to a site's data could not be read at all."""
    rows = keys(stoker, linked, tmp_path, "--follow-links", rc=(0, 3))
    assert set(rows) == INSIDE | OUTSIDE and rows["d/secret.txt"] == "secret"
    assert inspect(stoker, linked, "--follow-links")["samples"] == len(INSIDE | OUTSIDE)
    assert inspect(stoker, linked)["samples"] == len(INSIDE), "an option given once does not stick"
    stoker("load", linked, "--batch", "1", "--follow-links", "--io", "threads")
    (linked / "b/gone.txt").unlink()
    stoker("verify", linked, "--follow-links")


def test_what_the_user_names_may_be_a_link(stoker, linked, tmp_path):
    """The rule is about what is in a dataset, not about where it is said to be."""
    (tmp_path / "data").symlink_to(linked)
    assert inspect(stoker, tmp_path / "data")["samples"] == len(INSIDE)
    (tmp_path / "table.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/link.csv").symlink_to("../table.csv")
    assert inspect(stoker, tmp_path / "sub/link.csv")["samples"] == 2


def test_shards_that_are_links(any_kernel, tmp_path):
    """The same for shards, which are opened when the format is detected."""
    root = tmp_path / "root"
    root.mkdir()
    for name in "in.tar", "../out.tar":
        with tarfile.open(root / name, "w") as tar:
            info = tarfile.TarInfo(pathlib.Path(name).stem + ".txt")
            info.size = 4
            tar.addfile(info, io.BytesIO(b"text"))
    (root / "link.tar").symlink_to("in.tar")
    (root / "outside.tar").symlink_to("../out.tar")
    result = inspect(any_kernel, root)
    assert result["files"] == 2 and set(links_left_out(result)) == {"outside.tar"}
    assert inspect(any_kernel, root, "--follow-links")["files"] == 3


def packed_with_link(stoker, linked, tmp_path, format, name):
    """A packed dataset of which `name` is a link to a copy of it elsewhere."""
    out = tmp_path / "out"
    stoker("pack", linked, out, "--format", format, "--shards", "1", "--name", "x", rc=(0, 3))
    [found] = out.glob(name)
    shutil.move(found, tmp_path / "moved")
    found.symlink_to(tmp_path / "moved")
    return out


@pytest.mark.parametrize("format, name", [("tfrecord", "x*.tfrecord"), ("folder", "files")])
def test_packed_shards_that_are_links(any_kernel, stoker, linked, tmp_path, format, name):
    """A manifest names a shard, and that leads anywhere."""
    out = packed_with_link(stoker, linked, tmp_path, format, name)
    result = any_kernel("inspect", out, "--sample", "0", rc=(1, 2, 3, 4))
    assert "inside" not in result.out
    any_kernel("verify", out, rc=(1, 3, 4))
    assert "inside" in any_kernel("inspect", out, "--sample", "0", "--follow-links").out


def test_manifest_that_is_a_link(stoker, linked, tmp_path):
    """Another user's manifest would describe this folder."""
    out = packed_with_link(stoker, linked, tmp_path, "tfrecord", "manifest.json")
    assert "--follow-links" in stoker("inspect", out, rc=4).err
    assert inspect(stoker, out, "--follow-links")["has_manifest"]


# ---- indexes that lie --------------------------------------------------------------------------

def forge(stoker, at, root, name, size, scratch):
    """An index of the folder `root` that names one file, by whatever way: built of one whose name is
    as long, then changed. Its checksums are right."""
    (scratch / "fake").mkdir()
    (scratch / "fake" / ("x" * len(name))).write_bytes(b"." * size)
    stoker("inspect", scratch / "fake", "--index", scratch / "made")
    idx = Index(scratch / "made")
    spot = idx.data.index(b"x" * len(name) + b"\0")
    idx.data[spot:spot + len(name)] = os.fsencode(name)
    idx.put("files", 0, 24, "q", 0)  # no time: it is not compared
    idx.put("dirs", 0, 16, "q", root.stat().st_mtime_ns)
    idx.write(at)


@pytest.mark.parametrize("way", ["link", "folder", "dots", "absolute"])
def test_forged_index_of_the_owner(node, stoker, tmp_path, way):
    """`inspect --sample` printed a private file of the victim's: the index of a gift named it, by a
    link to the folder it is in. It is the owner's own index, so it is believed: not that far."""
    secret, text = node.victim.secret("s" * 12)
    gift = node.attacker.home / "gift"
    node.attacker.home.chmod(0o755)
    gift.mkdir()
    name = {"link": secret.name, "folder": f"home/{secret.name}", "dots": f"../../vic/{secret.name}",
            "absolute": str(secret)}[way]
    if way == "link":
        (gift / name).symlink_to(secret)
    elif way == "folder":
        (gift / "home").symlink_to(node.victim.home)
    node.attacker.own(gift, 0o755)
    at = node.attacker.home / "gift.stkidx"
    forge(stoker, at, gift, name, len(text), tmp_path)
    node.attacker.own(at, 0o644)
    result = node.victim.stoker("inspect", gift, "--sample", "0", rc=(1, 2, 3, 4))
    assert text not in result.out + result.err
    out = node.victim.home / "out"
    for io in "threads", "uring", "mmap", "direct":
        result = node.victim.stoker("load", gift, "--batch", "1", "--io", io, rc=(3, 4))
        assert "outside" in result.err or "leaves the folder" in result.err, result
    node.victim.stoker("pack", gift, out, "--on-error", "skip", "--format", "tar", rc=(0, 1, 2, 3, 4))
    assert not any(text.encode() in path.read_bytes() for path in out.glob("*.tar"))


# ---- races -------------------------------------------------------------------------------------

FILES, SWAPS = 500, 10000


def test_race_for_a_folder(node):
    """Between looking at a folder and reading from it, it becomes a link to another."""
    gift, private = node.shared / "gift", node.victim.home / "private"
    other = node.shared / "other"
    for folder, text in (gift / "x", b"open"), (private, b"leak"):
        folder.mkdir(parents=True)
        for i in range(FILES):
            (folder / f"{i:04d}.txt").write_bytes(text)
            os.utime(folder / f"{i:04d}.txt", ns=(0, 10**18))
        os.utime(folder, ns=(0, 10**18))
    node.attacker.own(gift)
    node.victim.own(private, 0o700)
    other.symlink_to(private)
    os.chown(other, node.attacker.uid, node.attacker.uid, follow_symlinks=False)
    # The swapped name is in `gift` itself, which the attacker owns: its time can be put back.
    gift.chmod(0o755)
    runs = 0
    with node.attacker.swapping(gift / "x", other) as swaps:
        while runs < 4 or swaps.count() < SWAPS:
            out = node.victim.home / f"out{runs}"
            node.victim.stoker("pack", gift, out, "--format", "tar", "--on-error", "skip",
                               "--label-from", "none", "--quiet", rc=(0, 1, 2, 3, 4))
            shards = list(out.glob("*.tar"))
            assert not any(b"leak" in shard.read_bytes() for shard in shards)
            runs += 1
            until(lambda: swaps.count() >= SWAPS * min(runs, 4) // 4)
