"""Climate segmentation: "doesn't perform much I/O": "initially reads stats.h5 (4 KB file)", "total
500 bytes reads average over 50 operations", "not read consecutively (only 13 %)"; at the end "each
rank writes 3 json files of 4 MB each in one single operation".
"""

import os

import common

STEPS, STEP_S = 30, 0.05


def make(folder):
    """Statistics of 16 channels in a file of some 4 KB."""
    import h5py
    import numpy as np
    with h5py.File(f"{folder}/stats.h5", "w") as f:
        f.create_dataset("climate/stats", data=np.ones((16, 60), "f4"))


def run(folder):
    fd = os.open(f"{folder}/stats.h5", os.O_RDONLY)
    for i in range(50):  # as the HDF5 library looks into headers, here and there
        os.pread(fd, 10, (i * 977) % 3800)
    os.close(fd)
    for _ in range(STEPS):
        common.compute(STEP_S)
    for name in ("train", "validation", "timing"):
        fd = os.open(f"{folder}/{name}.{common.rank()}.json", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(fd, b"[" + b"1.5, " * (800 << 10) + b"0]")
        os.close(fd)


if __name__ == "__main__":
    common.main(make, run)
