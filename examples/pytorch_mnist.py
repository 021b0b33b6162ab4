#!/usr/bin/env python3
"""Training from end to end on pictures of digits: make them, pack them, train on them.

    python pytorch_mnist.py [FOLDER]          # a scratch folder without one

The pictures are small PNG files, one folder a class, as a dataset arrives from somewhere. `stoker
pack` turns them into a few large files; stoker.torch.Loader reads, decodes and shuffles them on its
own threads: there are no worker processes.
"""

import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

import numpy as np
import torch
import torch.nn.functional as F

import stoker.torch

STOKER = os.environ.get("STOKER", "stoker")
SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
STROKES = {"a": (4, 8, 6, 20), "b": (5, 18, 14, 20), "c": (14, 18, 23, 20), "d": (22, 8, 24, 20),
           "e": (14, 8, 23, 10), "f": (5, 8, 14, 10), "g": (13, 8, 15, 20)}


def picture(digit, random):
    """28 x 28 grey pixels: the digit as on a pocket calculator, moved about, with noise."""
    pixels = np.zeros((28, 28))
    for segment in SEGMENTS[digit]:
        top, left, bottom, right = STROKES[segment]
        pixels[top:bottom, left:right] = random.uniform(0.5, 1)
    pixels = np.roll(pixels, random.integers(-3, 4, 2), (0, 1))
    return np.clip(255 * (pixels + random.normal(0, 0.2, pixels.shape)), 0, 255).astype(np.uint8)


def png(pixels):
    """The bytes of a PNG file."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    height, width = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_pictures(folder, count, seed):
    random = np.random.default_rng(seed)
    for i in range(count):
        path = folder / str(i % 10) / f"{i:05d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(picture(i % 10, random)))


def model():
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(8, 16, 3, stride=2),
        torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 5 * 5, 10))


def loader(path, **options):
    return stoker.torch.Loader(path, batch=64, as_tuple=("data", "label"),
                               decode="image:28,gray,layout=chw,dtype=float32", **options)


def accuracy(net, batches):
    right = total = 0
    with torch.no_grad():
        for x, y in batches:
            right += int((net(x).argmax(1) == y).sum())
            total += len(y)
    return right / total


def main(folder):
    for name, count, seed in (("train", 2000, 1), ("test", 500, 2)):
        make_pictures(folder / name, count, seed)
        subprocess.run([STOKER, "pack", folder / name, folder / f"{name}-packed", "--quiet",
                        "--force"], check=True)
    torch.manual_seed(0)
    net = model()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    train = loader(folder / "train-packed", seed=1, epochs=3)
    test = loader(folder / "test-packed", shuffle=False, last="short")
    print(f"before training: {accuracy(net, test):.0%} right")
    for epoch in range(3):
        for x, y in train:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        print(f"after epoch {epoch}: {accuracy(net, test):.0%} right")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(pathlib.Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(pathlib.Path(scratch))
