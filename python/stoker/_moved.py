"""Paths of data that has moved: to a copy on the node, or to a packed dataset."""

import os


def moved(path, places):
    """`path`, or its place in `places` ({old: new}) if it is one of the old ones or below one.

    A list or tuple of paths gives a list. Names decide, not files: links are not followed.
    """
    if isinstance(path, (list, tuple)):
        return [moved(p, places) for p in path]
    if not isinstance(path, (str, bytes, os.PathLike)):
        return path
    name = os.path.abspath(os.fsdecode(path))
    for old, new in places.items():
        old = os.path.abspath(os.fsdecode(old))
        if name == old:
            return os.fsdecode(new)
        if name.startswith(old.rstrip("/") + "/"):
            return os.path.join(os.fsdecode(new), os.path.relpath(name, old))
    return path
