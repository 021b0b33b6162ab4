"""Flood-filling networks: HDF5; images of 32 x 32 x 32, "most reads are 28 KB", "I/O bandwidth per
operation is 127.91 MB/s", "each image is randomly chosen from the dataset", "every rank seems to be
reading the same offsets"; I/O 7 % of the time.
"""

import random

import h5py
import numpy as np

import common

IMAGES, STEPS, STEP_S = 200, 100, 0.008


def make(folder):
    with h5py.File(f"{folder}/fib25_train.h5", "w") as f:
        f.create_dataset("raw", data=np.ones((IMAGES, 28, 32, 32), "u1"), chunks=(1, 28, 32, 32))


def run(folder):
    order = list(range(IMAGES))
    random.Random(7).shuffle(order)  # of every rank the same: the sharding that does not work
    with h5py.File(f"{folder}/fib25_train.h5", "r", rdcc_nbytes=0) as f:
        raw = f["raw"]
        for step in range(STEPS):
            for image in (order[2 * step % IMAGES], order[(2 * step + 1) % IMAGES]):
                raw[image]
            common.compute(STEP_S)


if __name__ == "__main__":
    common.main(make, run)
