"""Cosmic Tagger: larcv3, that is HDF5; "initially reads 50 operations of 13 KB", then "always read
sequentially and consecutively", "most reads are either 2 KB and 6 KB (chunking)", "the I/O
bandwidth per operation is only 9 MB/s"; "the file is small and read multiple times"; "every rank
seems to be reading the same offsets"; I/O 6 % of the time.
"""

import h5py
import numpy as np

import common

EVENTS, STEPS, BATCH, STEP_S = 48, 16, 8, 0.06


def make(folder):
    with h5py.File(f"{folder}/cosmic_train.h5", "w", rdcc_nbytes=0) as f:
        f.create_dataset("meta", data=np.arange(50 * 3328, dtype="i4").reshape(50, 3328),
                         chunks=(1, 3328))  # 13 KB each
        parts = [f.create_dataset(name, (EVENTS, size), "i4", chunks=(1, size))
                 for name, size in (("pixels", 512), ("labels", 1536))]  # 2 KB, 6 KB
        for event in range(EVENTS):  # an event's parts lie behind one another
            for part in parts:
                part[event] = event


def run(folder):
    with h5py.File(f"{folder}/cosmic_train.h5", "r", rdcc_nbytes=0) as f:
        meta, pixels, labels = f["meta"], f["pixels"], f["labels"]
        for i in range(50):
            meta[i]
        for step in range(STEPS):
            for i in range(BATCH):  # no shuffling; the file is used up and begun again
                event = (step * BATCH + i) % EVENTS
                pixels[event], labels[event]
            common.compute(STEP_S)


if __name__ == "__main__":
    common.main(make, run)
