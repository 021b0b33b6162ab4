"""The formats of the binary under test, as `stoker formats` lists them, for tests that go through all
of them: a new format is tested without being named in each file."""

import shutil

from conftest import run_stoker

FORMATS = {f["name"]: f for f in run_stoker("formats", "--json", "-").json()["result"]["formats"]}
NAMES = list(FORMATS)
IN_FILES = [name for name in NAMES if FORMATS[name]["suffixes"]]  # a dataset can be a single file
ROWS = {"npy", "csv", "tsv", "json"}  # tests write these from numbers
IMAGES = [name for name in NAMES if name not in ROWS]  # and these from a folder of images


def writes(name):
    """True if this build writes the format on this machine."""
    return FORMATS[name]["write"] and not FORMATS[name]["missing_package"] and \
        (name != "squashfs" or shutil.which("mksquashfs"))
