"""Paths of data that has moved: to a copy on the node, or to a packed dataset."""

import functools
import json
import os
import stat

from stoker._errors import warn


def status(path):
    """os.stat(), or None if there is no such file. os.path.exists() also says so of what cannot be looked at."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_folder(path):
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path):
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def walk(folder, followlinks=False):
    """os.walk(), which leaves out what it cannot list; here that is an error."""
    def stop(why):
        raise why
    return os.walk(folder, onerror=stop, followlinks=followlinks)


@functools.lru_cache(maxsize=None)
def is_there(new, old):
    """Another node, or the next job, has no copy until `stoker stage` has made one there."""
    try:
        there = status(new) is not None
    except OSError as why:
        warn(f"{why}: data is read from {old}, where it was")
        return False
    if not there:
        warn(f"{new} is not there: data is read from {old}, where it was. If it was staged, `stoker stage` makes the copy "
             "again on this node")
    return there


def place_of(path, places):
    """(old, new): the place of `places` that a path is at or below, as absolute paths; None: it is at none of them."""
    name = os.path.abspath(os.fsdecode(path))
    for old, new in places.items():
        old, new = os.path.abspath(os.fsdecode(old)), os.fsdecode(new)
        if name == old or name.startswith(old.rstrip("/") + "/"):
            return old, new
    return None


def moved(path, places):
    """`path`, or its place in `places` ({old: new}) if it is one of the old ones or below one, and the new
    place is there.

    Of a list or a tuple, all that are paths. Names decide: links are not followed.
    """
    if type(path) in (list, tuple):
        return type(path)(moved(p, places) for p in path)
    if not isinstance(path, (str, bytes, os.PathLike)):
        return path
    old, new = place_of(path, places) or (None, None)
    if old is None or not is_there(new, old):
        return path
    below = os.path.relpath(os.path.abspath(os.fsdecode(path)), old)
    return new if below == "." else os.path.join(new, below)


def manifest_of(packed):
    """How a dataset was packed; {}: not known. A manifest that cannot be read is an error: its order would be a guess."""
    try:
        with open(os.path.join(packed, "manifest.json"), encoding="utf-8") as f:
            made = json.load(f)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


def settings_of(packed):
    return manifest_of(packed).get("settings") or {}
