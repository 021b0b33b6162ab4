#!/usr/bin/env python3
"""Makes N pictures of ten classes, each class of its own colour: python make_pictures.py N FOLDER"""

import pathlib
import sys

import numpy as np
from PIL import Image

random = np.random.default_rng(1)
for i in range(int(sys.argv[1])):
    label = i % 10
    pixels = random.integers(0, 100, (64, 64, 3)) + [15 * label, 80, 150 - 15 * label]
    folder = pathlib.Path(sys.argv[2], f"class{label}")
    folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype("uint8")).save(folder / f"{i:05d}.jpg", quality=90)
