"""Whose word counts: indexes, manifests and states that another user of the node wrote are not
believed; those of the caller, of root and of the data's owner are."""

import io
import json
import os
import pathlib
import shutil
import tarfile

import pytest

from conftest import until
from indexlib import Index, manifest_without_checksum
from securitylib import ATTACKER, GROUP, VICTIM

BODY = 64  # bytes of a member: all alike, so that extents can change places


def make_tar(owner, path):
    """A tar of four members; {key: bytes}."""
    files = {f"k{i}": bytes([65 + i]) * BODY for i in range(4)}
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(f"{name}.bin")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    owner.own(path, 0o644)
    return files


def inspect(user, path, *options, rc=0):
    return json.loads(user.stoker("inspect", path, "--json", "-", *options, rc=rc).out)["result"]


def data_of(user, path, i, *options, rc=0):
    return user.stoker("inspect", path, "--sample", i, "-o", "-", *options, rc=rc).out_bytes


def poison(path, sound):
    """The index at `sound` with the first two extents in each other's place, at `path`."""
    idx = Index(sound)
    first, second = idx.get("extents", 0, 0, "QQ"), idx.get("extents", 1, 0, "QQ")
    assert first != second
    idx.put("extents", 0, 0, "QQ", *second)
    idx.put("extents", 1, 0, "QQ", *first)
    idx.write(path)


@pytest.fixture
def tar(node):
    """(node, a tar of the victim's in the shared folder, its members, a sound index of it)."""
    path = node.shared / "v.tar"
    files = make_tar(node.victim, path)
    sound = node.root / "sound.stkidx"
    node.victim.stoker("inspect", path, "--index", node.victim.home / "sound")
    shutil.move(node.victim.home / "sound", sound)
    return node, path, files, sound


def plant(user, sound, at, mode=0o644):
    """A poisoned index of that user's."""
    poison(at, sound)
    return user.own(at, mode)


def test_poisoned_index(tar):
    """Another user's index gave the wrong bytes for a key, in inspect and pack."""
    node, path, files, sound = tar
    planted = plant(node.attacker, sound, node.shared / "v.tar.stkidx")
    before = planted.read_bytes()
    for found in (False, True):  # built in the user's cache first, found there then
        result = inspect(node.victim, path)
        assert str(ATTACKER) in result["index_not_used"] and "--trust" in result["index_not_used"]
        assert result["index_path"].startswith(str(node.victim.home))
        assert result["index_built_now"] is not found
        assert data_of(node.victim, path, 0) == files["k0"]
    assert str(ATTACKER) in node.victim.stoker("inspect", path).out
    out = node.victim.home / "out"
    node.victim.stoker("pack", path, out, "--format", "jsonl", "--shards", "1")
    rows = [json.loads(line) for line in next(out.glob("*.jsonl")).read_text().splitlines()]
    assert [row["bin"] for row in rows] == [data.decode() for data in files.values()]
    assert planted.read_bytes() == before and planted.stat().st_uid == ATTACKER, "not ours to touch"
    # Who wants it says whose.
    assert data_of(node.victim, path, 0, "--trust", ATTACKER) == files["k1"]


def test_verify_holds_indexes_against_the_data(tar):
    """`verify` said "whole" while everybody who opened the data got wrong bytes."""
    node, path, files, sound = tar
    at = node.shared / "v.tar.stkidx"
    for owner in node.attacker, node.victim:
        plant(owner, sound, at)
        result = node.victim.stoker("verify", path, rc=1)
        assert "v.tar.stkidx" in result.out and str(owner.uid) in result.out
        assert "whole" not in result.out
    node.victim.own(pathlib.Path(shutil.copy(sound, at)), 0o644)
    assert "readable" in node.victim.stoker("verify", path).out


def test_verify_notes_samples_that_an_index_hides(node):
    """An index that leaves samples out, or names them otherwise, was not noticed."""
    root = node.attacker.home / "set"
    node.attacker.home.chmod(0o755)
    node.attacker.images(root)
    node.attacker.stoker("inspect", root)
    at = node.attacker.home / "set.stkidx"
    node.victim.stoker("verify", root)
    idx = Index(at)
    off, count, elem = idx.table("files")
    idx.data[off:off + elem], idx.data[off + elem:off + 2 * elem] = (
        idx.data[off + elem:off + 2 * elem], idx.data[off:off + elem])
    idx.write(at)
    assert "set.stkidx" in node.victim.stoker("verify", root, rc=1).out


def test_index_of_the_data_owner(tar):
    """Everybody would have to index a shared dataset again."""
    node, path, files, sound = tar
    os.chmod(node.shared / "v.tar", 0o644)
    node.victim.stoker("inspect", path)  # published beside the data
    assert (node.shared / "v.tar.stkidx").stat().st_uid == VICTIM
    result = inspect(node.attacker, path)  # somebody else, for whom it is the data's owner's
    assert not result["index_built_now"] and result["index_not_used"] is None
    os.chown(node.shared / "v.tar.stkidx", 0, 0)
    assert not inspect(node.attacker, path)["index_built_now"], "root's"


def test_index_that_a_group_may_write(tar):
    """The owner is right, but the attacker wrote it all the same."""
    node, path, files, sound = tar
    planted = plant(node.victim, sound, node.shared / "v.tar.stkidx", 0o664)
    os.chown(planted, VICTIM, GROUP)
    assert data_of(node.victim, path, 0) == files["k0"]
    assert planted.stat().st_mode & 0o777 == 0o644, "it was the caller's: built anew in its place"
    plant(node.victim, sound, planted, 0o646)
    assert data_of(node.victim, path, 0) == files["k0"]
    # A user who may write the data, too, gains nothing by writing the index.
    plant(node.victim, sound, planted, 0o664)
    undated = Index(planted)
    undated.data[776:784] = bytes(8)  # else the new mode of the data makes it stale
    undated.write(planted)
    os.chown(planted, VICTIM, GROUP)
    os.chown(path, VICTIM, GROUP)
    path.chmod(0o664)
    assert data_of(node.victim, path, 0) == files["k1"]


def test_index_through_a_link(tar):
    """A link of the attacker's to a file of the victim's own would be read as the index."""
    node, path, files, sound = tar
    own = plant(node.victim, sound, node.victim.home / "mine")
    node.attacker.shell(f"ln -s {own} v.tar.stkidx", cwd=node.shared)
    assert data_of(node.victim, path, 0) == files["k0"]


def test_folder_of_several_owners(node):
    """The owner of a folder would speak for files that others put into folders of their own."""
    root = node.shared / "set"
    node.attacker.images(root)
    node.attacker.stoker("inspect", root)
    assert (node.shared / "set.stkidx").stat().st_uid == ATTACKER
    assert not inspect(node.victim, root)["index_built_now"], "all of it is the attacker's"
    node.victim.own(root / "class01")
    result = inspect(node.victim, root)
    assert result["index_built_now"] and "all of the data" in result["index_not_used"]


def test_shards_of_several_owners(node):
    """The same of files in one folder, which are few enough to look at."""
    root = node.shared / "set"
    root.mkdir()
    node.attacker.own(root, 0o755)
    for name in "a.tar", "b.tar":
        make_tar(node.attacker, root / name)
    node.attacker.stoker("inspect", root)
    assert not inspect(node.victim, root)["index_built_now"]
    node.victim.own(root / "b.tar")
    assert inspect(node.victim, root)["index_built_now"]


def test_hard_link_to_a_victims_file(node):
    """Who owns the folder does not own a file that is linked into it."""
    kept = node.victim.home / "v.tar"
    files = make_tar(node.victim, kept)
    gift = node.attacker.home / "gift"
    gift.mkdir()
    node.attacker.own(gift, 0o755)
    node.attacker.home.chmod(0o755)
    os.link(kept, gift / "v.tar")  # the attacker may where fs.protected_hardlinks is 0
    node.victim.stoker("inspect", kept, "--index", node.victim.home / "sound")
    for at, path in (gift / "v.tar.stkidx", gift / "v.tar"), (node.attacker.home / "gift.stkidx", gift):
        if path.is_dir():
            node.victim.stoker("inspect", path, "--index", node.victim.home / "sound2")
        plant(node.attacker, node.victim.home / ("sound2" if path.is_dir() else "sound"), at)
        assert data_of(node.victim, path, 0) == files["k0"]


# ---- manifests ---------------------------------------------------------------------------------

@pytest.fixture
def packed(node):
    """(node, a packed dataset of the victim's that the group may write)."""
    out = node.shared / "out"
    node.victim.stoker("pack", node.data, out, "--format", "tfrecord", umask=0o002)
    os.chown(out, VICTIM, GROUP)
    out.chmod(0o2775)
    return node, out


def replace_manifest(node, out):
    """As the attacker: another one in its place, with the classes in another order."""
    manifest = manifest_without_checksum(out / "manifest.json")
    manifest["classes"].reverse()
    (out / "manifest.json").unlink()
    return node.attacker.write(out / "manifest.json", json.dumps(manifest))


def test_foreign_manifest(packed):
    """Labels, checksums and names of a packed dataset were what another user said they are."""
    node, out = packed
    assert inspect(node.victim, out)["has_manifest"]
    replace_manifest(node, out)
    for command in ("inspect",), ("verify",), ("load",), ("pack", node.victim.home / "again"):
        result = node.victim.stoker(command[0], out, *command[1:], rc=4)
        assert str(ATTACKER) in result.err and "manifest.json" in result.err
        assert f"--trust {ATTACKER}" in result.err
    assert inspect(node.victim, out, "--trust", ATTACKER)["first_classes"][0] == "class02"
    assert inspect(node.victim, out, "--trust", f"0,{ATTACKER}")["has_manifest"]
    assert inspect(node.victim, out, "--trust", "all")["has_manifest"]
    node.victim.stoker("inspect", out, "--trust", VICTIM, rc=4)
    assert "nobody-of-that-name" in node.victim.stoker("inspect", out, "--trust",
                                                       "nobody-of-that-name", rc=2).err
    node.attacker.stoker("inspect", out)  # it is their own


def test_manifest_that_others_may_write(packed):
    """The owner is right, but anybody could have changed it."""
    node, out = packed
    out.chmod(0o755)
    manifest = out / "manifest.json"
    manifest.chmod(0o666)
    assert "0666" in node.victim.stoker("inspect", out, rc=4).err
    manifest.chmod(0o664)
    os.chown(manifest, VICTIM, GROUP)
    assert "chmod" in node.victim.stoker("inspect", out, rc=4).err
    manifest.chmod(0o644)
    node.victim.stoker("inspect", out)


def test_a_stranger_s_manifest_json_is_no_manifest(node):
    """Folders have files of that name that are none of stoker's: those are not refused."""
    node.attacker.write(node.data / "manifest.json", '{"name": "a web page"}')
    assert inspect(node.victim, node.data)["samples"] == 15


# ---- states ------------------------------------------------------------------------------------

def test_foreign_state(node):
    """Another user would choose which samples a training sees."""
    path = node.attacker.home / "state"
    node.attacker.home.chmod(0o755)
    node.attacker.stoker("load", node.data, "--batch", "2", "--steps", "3", "--state", path)
    for option in "--state", "--from":
        result = node.victim.stoker("load", node.data, "--batch", "2", option, path, rc=4)
        assert str(path) in result.err and f"--trust {ATTACKER}" in result.err
    node.victim.stoker("load", node.data, "--batch", "2", "--from", path, "--trust", ATTACKER)


# ---- no nuisance -------------------------------------------------------------------------------

def test_group_of_ones_own(node):
    """With umask 002 and a group of one's own, one's own files would not be believed."""
    how = {"umask": 0o002}
    path = node.victim.home / "v.tar"
    make_tar(node.victim, path)
    path.chmod(0o664)
    node.victim.stoker("inspect", path, **how)
    assert not inspect(node.victim, path)["index_built_now"]
    node.victim.stoker("pack", path, node.victim.home / "out", "--format", "tfrecord", **how)
    result = inspect(node.victim, node.victim.home / "out")
    assert result["has_manifest"] and not result["index_built_now"]
    state = node.victim.home / "state"
    for _ in range(2):
        node.victim.stoker("load", path, "--batch", "1", "--steps", "2", "--state", state, **how)
    # Where the folder cannot be written, the index is in the cache: the user's own, too.
    (node.root / "set").mkdir()
    shutil.copy(path, node.root / "set/v.tar")
    for user in node.victim, node.attacker:
        user.stoker("inspect", node.root / "set", **how)
        assert not inspect(user, node.root / "set")["index_built_now"]


# ---- races -------------------------------------------------------------------------------------

SWAPS, LOOKS = 10000, 12


def test_race_for_the_index(tar):
    """An index is looked at, and another one used."""
    node, path, files, sound = tar
    at, other = node.shared / "v.tar.stkidx", node.shared / "other"
    node.victim.own(pathlib.Path(shutil.copy(sound, other)), 0o644)
    plant(node.attacker, sound, at)
    with node.attacker.swapping(at, other) as swaps:
        looks = 0
        while looks < LOOKS or swaps.count() < SWAPS:
            assert data_of(node.victim, path, 0) == files["k0"]
            looks += 1
            until(lambda: swaps.count() >= SWAPS * min(looks, LOOKS) // LOOKS)


def test_race_for_the_manifest(packed):
    """A manifest is looked at, and another one read."""
    node, out = packed
    mine = out / "mine"
    shutil.copy(out / "manifest.json", mine)
    node.victim.own(mine, 0o644)
    replace_manifest(node, out)
    with node.attacker.swapping(out / "manifest.json", mine) as swaps:
        looks = 0
        while looks < LOOKS or swaps.count() < SWAPS:
            result = node.victim.stoker("inspect", out, "--json", "-", rc=(0, 4))
            if result.rc == 0:
                assert result.json()["result"]["first_classes"][0] == "class00"
            looks += 1
            until(lambda: swaps.count() >= SWAPS * min(looks, LOOKS) // LOOKS)
