"""Colours: on a terminal, unless NO_COLOR or --color says otherwise."""

import os
import pty
import re
import subprocess

import pytest

from conftest import STOKER, clean_env

ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")


def shown(argv, **env):
    """What stoker prints on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([STOKER, *argv], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL,
                          env=clean_env({"TERM": "xterm", **env})):
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 65536):
                text += chunk
        except OSError:  # EIO: the other end is closed
            pass
    os.close(ours)
    return text.replace(b"\r\n", b"\n")


@pytest.fixture
def packed(stoker, images, tmp_path):
    stoker("pack", images[0], tmp_path / "p")
    return tmp_path / "p"


def test_when(stoker, packed):
    """Escape sequences in a log file, or for somebody who asked for none."""
    whole = b"\x1b[32mwhole\x1b[0m"
    assert whole in shown(["verify", packed])
    for text in (shown(["verify", packed], NO_COLOR="1"), shown(["verify", packed, "--color", "never"]),
                 shown(["verify", packed], TERM="dumb"), shown(["verify", packed], STOKER_COLOR="never"),
                 stoker("verify", packed).out_bytes):
        assert b"\x1b" not in text and b": whole;" in text
    for text in (stoker("verify", packed, "--color", "always").out_bytes,
                 shown(["verify", packed, "--color", "always"], NO_COLOR="1"), shown(["verify", packed], NO_COLOR="")):
        assert whole in text


def test_only_colours_are_added(stoker, packed, images):
    """A table that no longer lines up, or a mark that reaches the user."""
    for argv in (["inspect", packed], ["inspect", images[0]], ["inspect", packed, "--sample", "1"], ["formats"],
                 ["help"], ["version"], ["verify", images[0]]):
        plain, coloured = (stoker(*argv, "--color", when).out_bytes for when in ("never", "always"))
        same = re.compile(rb"[0-9.]+ [mu]?s\b|\([0-9.]+ .iB/s\)")
        assert same.sub(b"", ESCAPE.sub(b"", coloured)) == same.sub(b"", plain)
        assert not re.search(rb"[\x00-\x09\x0b-\x1f]", plain)


def test_names_cannot_colour(stoker, tmp_path):
    """A file called by a mark, or by an escape sequence, is shown as text."""
    (tmp_path / "d").mkdir()
    for name in ("\x13bad\x0e", "\x1b[31mred"):
        (tmp_path / "d" / name).write_bytes(b"x" * 100)
    text = stoker("inspect", tmp_path / "d", "--sample", "0", "--color", "always").out_bytes
    text += stoker("inspect", tmp_path / "d", "--sample", "1", "--color", "always").out_bytes
    assert rb"\x13bad\x0e" in text and rb"\x1b[31mred" in text
    assert b"\x1b[31mred" not in text and b"\x1b[1;31mbad" not in text
