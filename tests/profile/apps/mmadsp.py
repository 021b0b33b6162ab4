"""mmaADSP: an HDF5 file of 625 MB, of which the study "didn't detect any I/O in the application":
the data is in memory when the training begins, and stays there.
"""

import h5py
import numpy as np

import common

STEPS, STEP_S = 20, 0.05


def make(folder):
    pass


def run(folder):
    with h5py.File("train.h5", "w", driver="core", backing_store=False) as f:
        train = f.create_dataset("train", data=np.zeros((500, 2048), "f4"))
        for step in range(STEPS):
            train[step * 25:(step + 1) * 25]
            common.compute(STEP_S)


if __name__ == "__main__":
    common.main(make, run)
