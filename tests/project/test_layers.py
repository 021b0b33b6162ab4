"""The layers of src: each is built from those below it and asks nothing of those above."""

import collections
import pathlib
import re
import subprocess

import pytest

from conftest import STOKER

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYERS = [name for name in ("base", "host", "format", "data", "cluster", "lab", "report", "cmd")
          if (ROOT / "src" / name).is_dir()]


def above(layer):
    return LAYERS[LAYERS.index(layer) + 1:]


@pytest.fixture(scope="module")
def symbols():
    """layer -> (symbols its objects define, {symbol they need: object}), from the build tested."""
    objects = sorted((STOKER.parent / "stoker.p").glob("src_*.c.o"))
    out = subprocess.run(["nm", "-gPA", STOKER.parent / "libstoker.a", *objects], text=True,
                         stdout=subprocess.PIPE, check=True).stdout
    found = collections.defaultdict(lambda: (set(), {}))
    for line in out.splitlines():
        name, symbol, kind = re.match(r".*?(\w+\.c\.o)\]?: (\S+) (\S)", line).groups()
        defined, needed = found[name.split("_")[1]]
        if kind == "U":
            needed[symbol] = name
        else:
            defined.add(symbol)
    assert set(found) == set(LAYERS)
    return found


@pytest.mark.parametrize("layer", LAYERS)
def test_links_without_those_above(symbols, layer):
    """What a layer calls is defined in it or below: it could be a library of its own."""
    higher = {s: name for name in above(layer) for s in symbols[name][0]}
    upward = {f"{user} needs {s} of {higher[s]}" for s, user in symbols[layer][1].items()
              if s in higher}
    assert not upward, "\n".join(sorted(upward))


@pytest.mark.parametrize("layer", LAYERS)
def test_includes_point_downwards(layer):
    upward = [f"{path.relative_to(ROOT)}: {line}" for path in sorted((ROOT / "src" / layer).iterdir())
              if path.suffix in (".c", ".h")
              for line in re.findall(r'^\s*#\s*include "\w+/.*"', path.read_text(), re.M)
              if line.split('"')[1].split("/")[0] in above(layer)]
    assert not upward, "\n".join(upward)
