"""Folders that cannot be listed to their end, and files that cannot be looked at. os.walk() leaves such a
folder out, and os.path.exists() says that such a file is not there: a program would train on a part of its
data, or on other data, and nobody would know."""

import errno
import os

import pytest

from conftest import run_stoker
from pythonlib import stoker, write_records

import stoker.files
import stoker.patch


@pytest.fixture
def unreadable(monkeypatch):
    """unreadable(call, path): that call of os fails for it."""
    def spoil(call, path):
        real = getattr(os, call)

        def fail(at=".", *args, **named):
            if not isinstance(at, int) and os.fspath(at) == str(path):
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
            return real(at, *args, **named)
        monkeypatch.setattr(os, call, fail)
    return spoil


@pytest.fixture
def records(tmp_path):
    for name in ("a/0.tfrecord", "b/1.tfrecord"):
        (tmp_path / "d" / name).parent.mkdir(parents=True)
        write_records(tmp_path / "d" / name, [name.encode()] * 9)
    run_stoker("pack", tmp_path / "d", tmp_path / "p", "--format", "tfrecord", "--quiet")
    return tmp_path / "d", tmp_path / "p"


def test_other_records(records, unreadable):
    """The packed dataset has more records than the files that the program could list."""
    folder, packed = records
    listed = [str(folder / "a/0.tfrecord")]
    unreadable("scandir", folder / "b")
    with pytest.warns(UserWarning, match="Input/output error"):
        assert stoker.files.records(listed, {folder: packed}) == listed


@pytest.mark.parametrize("call, spoilt", [("scandir", "d/b"), ("stat", "d/b/1.txt"), ("stat", "p/manifest.json")])
def test_files_that_may_have_changed(tmp_path, unreadable, call, spoilt):
    """Whether they are those that were packed is not known, so they are read where they are."""
    for name in "ab":
        (tmp_path / "d" / name).mkdir(parents=True)
        for i in range(3):
            (tmp_path / "d" / name / f"{i}.txt").write_text(f"{name}{i}")
    run_stoker("pack", tmp_path / "d", tmp_path / "p", "--quiet", "--no-write-index")
    unreadable(call, tmp_path / spoilt)
    path = tmp_path / "d/a/1.txt"
    with pytest.warns(UserWarning, match="Input/output error"):
        assert stoker.files.member(path, {tmp_path / "d": tmp_path / "p"}) == path


def test_pictures(tmp_path, unreadable):
    """torchvision leaves out a folder that it cannot list."""
    image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")
    pytest.importorskip("torchvision", reason="python3-torchvision is not installed")
    import stoker.torch
    for name in ("a/1.png", "a/more/2.png", "b/3.png"):
        (tmp_path / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (4, 4)).save(tmp_path / "d" / name)
    assert len(stoker.torch.ImageFolder(tmp_path / "d")) == 3
    unreadable("scandir", str(tmp_path / "d/a/more"))
    with pytest.raises(OSError, match="a/more"):
        stoker.torch.ImageFolder(tmp_path / "d")


@pytest.mark.parametrize("call, spoilt", [("scandir", "d/sub"), ("stat", "d")])
def test_a_patch_of_data_that_cannot_be_seen(tmp_path, unreadable, capsys, call, spoilt):
    """Which change fits depends on the files: with some of them, it would be another one."""
    (tmp_path / "d/sub").mkdir(parents=True)
    (tmp_path / "d/sub/1.npy").touch()
    (tmp_path / "train.py").write_text("import numpy\nx = numpy.load('d/sub/1.npy')\n")
    unreadable(call, tmp_path / spoilt)
    assert stoker.patch.main([str(tmp_path / "train.py"), "--packed", f"{tmp_path}/d={tmp_path}/p"]) == 2
    assert "Input/output error" in capsys.readouterr().err
