"""What the ten applications share. Each is a program `APP make FOLDER` / `APP run FOLDER`: small,
but with the format, request sizes, order, ranks and share of time that the study of the real one
gives. Computing is sleeping.

    python3 common.py RANKS PROGRAM ARGS…     starts ranks as torchrun does
"""

import os
import struct
import subprocess
import sys
import time

BLOCK = 256 << 10  # TensorFlow's buffer for TFRecord files


def rank():
    return int(os.environ.get("RANK", 0))


def world():
    return int(os.environ.get("WORLD_SIZE", 1))


def compute(seconds):
    time.sleep(seconds)


def write_tfrecord(path, records, record_bytes):
    """Framed as TFRecord; the checksums, which are not read here, are zero."""
    with open(path, "wb") as f:
        for i in range(records):
            f.write(struct.pack("<QI", record_bytes, 0))
            f.write(bytes([i % 251]) * record_bytes + bytes(4))


def blocks(path):
    """A file from start to end as TensorFlow reads it: 256 KiB a request, by pread."""
    fd = os.open(path, os.O_RDONLY)
    try:
        at = 0
        while data := os.pread(fd, BLOCK, at):
            at += len(data)
            yield data
    finally:
        os.close(fd)


def main(make, run):
    {"make": make, "run": run}[sys.argv[1]](*sys.argv[2:])


def start_ranks(count, argv):
    """The worst status of the ranks, which are all waited for."""
    ranks = [subprocess.Popen(argv, env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r),
                                         "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)})
             for r in range(count)]
    return max(p.wait() for p in ranks)


if __name__ == "__main__":
    sys.exit(start_ranks(int(sys.argv[1]), sys.argv[2:]))
