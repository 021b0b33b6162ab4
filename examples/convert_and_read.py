#!/usr/bin/env python3
"""Any dataset into another format, and the same batches from both.

    python convert_and_read.py SOURCE DESTINATION [FORMAT]

FORMAT is one of `stoker formats` (tfrecord without it). What is read does not depend on the format:
the keys, the fields, the order for a seed.
"""

import os
import subprocess
import sys

import stoker

STOKER = os.environ.get("STOKER", "stoker")


def describe(value):
    if hasattr(value, "shape"):
        return f"{value.dtype} {tuple(value.shape)}"
    return f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    source, destination = sys.argv[1:3]
    form = sys.argv[3] if len(sys.argv) > 3 else "tfrecord"
    subprocess.run([STOKER, "pack", source, destination, "--format", form, "--quiet"], check=True)
    for path in (source, destination):
        ds = stoker.Dataset(path)
        print(f"{path}: {ds.format}, {len(ds)} samples")
        print("  first:", ", ".join(f"{name} {describe(v)}" for name, v in ds[0].items()))
        loader = stoker.Loader(ds, batch=16, shuffle="global", seed=7, last="short")
        print("  order:", [int(i) for batch in loader for i in batch.ids][:8])


if __name__ == "__main__":
    main()
