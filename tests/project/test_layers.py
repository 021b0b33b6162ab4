"""The rooms of src: each is built from those above it in the table of docs/architecture.md, and asks
nothing of the others."""

import collections
import pathlib
import re
import subprocess

import pytest

from conftest import STOKER

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = (ROOT / "docs/architecture.md").read_text().split("## Rooms")[1].split("\n## ")[0]
# room -> the rooms it may include, in the order of the table
ROOMS = {room: set(re.findall(r"\w+", uses))
         for room, uses in re.findall(r"^\| `src/(\w+)` \|.*\| ([\w, —]*) \|$", TABLE, re.M)}
APART = {"preload"}  # linked into programs of users, not into libstoker
GENERATED = {"page": "report"}  # sources that are made elsewhere, and their room


def includes():
    """(file, its room, the room it includes, what it includes)"""
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        room = path.relative_to(ROOT / "src").parts[0]
        for other, rest in re.findall(r'^\s*#\s*include "(\w+)/(.*)"', path.read_text(), re.M):
            yield path.relative_to(ROOT), room, other, rest


def test_every_room_is_in_the_picture():
    """A room without a description collects everything."""
    assert set(ROOMS) == {path.parts[1] for path, *_ in includes()}


def test_arrows_are_the_includes():
    """The picture says who stands on whom: no include without its arrow, no arrow without an include."""
    real = collections.defaultdict(set)
    for _, room, other, _ in includes():
        real[room] |= {other} - {room}
    assert {room: real[room] for room in ROOMS} == ROOMS


def test_arrows_point_to_lower_rooms():
    """Two rooms that need each other are one."""
    seen = set()
    for room, uses in ROOMS.items():
        assert uses <= seen, f"{room} needs {uses - seen}, which come after it"
        seen.add(room)


def test_private_headers_stay_in_their_room():
    across = [f"{path} includes {other}/{rest}" for path, room, other, rest in includes()
              if room != other and rest.endswith("priv.h")]
    assert not across, "\n".join(across)


def test_rooms_are_not_crowded():
    """A reader can keep some 40 sources in mind."""
    for folder in {p.parent for p in (ROOT / "src").rglob("*.c") if p.parent.name != "code"}:
        assert len(list(folder.glob("*.c"))) <= 45, folder


@pytest.fixture(scope="module")
def symbols():
    """room -> (symbols its objects define, {symbol they need: object}), from the build tested."""
    objects = sorted((STOKER.parent / "stoker.p").glob("src_*.c.o"))
    out = subprocess.run(["nm", "-gPA", STOKER.parent / "libstoker.a", *objects], text=True,
                         stdout=subprocess.PIPE, check=True).stdout
    found = collections.defaultdict(lambda: (set(), {}))
    for line in out.splitlines():
        name, symbol, kind = re.match(r".*?(\w+\.c\.o)\]?: (\S+) (\S)", line).groups()
        room = name.lstrip("_").split("_")[1]
        defined, needed = found[GENERATED.get(room, room)]
        if kind == "U":
            needed[symbol] = name
        else:
            defined.add(symbol)
    assert set(found) <= set(ROOMS) - APART
    return found


def test_links_without_those_above(symbols):
    """What a room calls is defined in it or in a lower one: it could be a library of its own."""
    order = list(ROOMS)
    upward = {f"{user} needs {symbol} of {higher}" for room in symbols for higher in symbols
              if order.index(higher) > order.index(room)
              for symbol, user in symbols[room][1].items() if symbol in symbols[higher][0]}
    assert not upward, "\n".join(sorted(upward))


def test_no_archive_is_tracked():
    """Nothing enters the repository that we did not write: what a package manager leaves is not committed."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    files = listed.stdout.split("\0")
    archives = (".whl", ".tgz", ".tar.gz", ".tar.xz", ".deb", ".zip", ".so", ".o", ".a")
    assert [f for f in files if f.endswith(archives) and not f.startswith("tests/")] == []
