"""Paths of data that has moved: to a copy on the node, or to a packed dataset."""

import functools
import json
import os

from stoker._errors import warn


@functools.lru_cache(maxsize=None)
def is_there(new, old):
    """Another node, or the next job, has no copy until `stoker stage` has made one there."""
    there = os.path.exists(new)
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
    """How a dataset was packed; {}: not known."""
    try:
        with open(os.path.join(packed, "manifest.json"), encoding="utf-8") as f:
            made = json.load(f)
    except (OSError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


def settings_of(packed):
    return manifest_of(packed).get("settings") or {}
