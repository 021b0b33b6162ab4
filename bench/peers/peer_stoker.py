"""stoker.Loader: files packed by `stoker pack`, or the TFRecord files that tf.data reads."""

import os
import subprocess

import peer_files
from samples import BATCH, SMALL_BYTES

NAME = "stoker"
NEEDS = ["numpy"]
PIP = []

STOKER = os.environ.get("STOKER", "stoker")


def version():
    import numpy  # noqa: F401
    import stoker
    return f"stoker {stoker.__version__}"


def write(samples, folder):
    """As one would: the files one has (the contestant `files` wrote them), packed."""
    files = os.path.join(os.path.dirname(folder), "files")
    if not os.path.isdir(files):
        os.mkdir(files)
        peer_files.write(samples, files)
    subprocess.run([STOKER, "pack", files, f"{folder}/packed", "--quiet"], check=True)


def variants(_which, order):
    """Block shuffle is the default; global is what the others' samplers do."""
    if order == "sequential":
        return [{"shuffle": "none"}]
    return [{"shuffle": "block"}, {"shuffle": "global"}]


def epochs(folder, which, order, shuffle, data=None):
    import stoker
    loader = stoker.Loader(data or f"{folder}/packed", BATCH, shuffle=shuffle, fields=["data"],
                           last="short")
    while True:
        yield (unpack(batch["data"], which) for batch in loader)


def unpack(column, which):
    return column.concat().reshape(-1, SMALL_BYTES) if which == "small" else column
