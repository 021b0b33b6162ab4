"""FRNN: "at each timestep it reads different NPZ files which is read in one go and is fed to
training steps"; "8.43 % of time on I/O". The study ends before its suggestions.
"""

import io
import pathlib

import numpy as np

import common

SHOTS, STEP_S = 100, 0.04


def make(folder):
    values = np.random.default_rng(3).random((200, 160), dtype="f4")
    for i in range(SHOTS):
        np.savez(f"{folder}/{150000 + i}.npz", signals=values, ttd=values[:, 0])


def run(folder):
    shots = sorted(pathlib.Path(folder).glob("*.npz"))
    for path in shots[common.rank()::common.world()]:
        with np.load(io.BytesIO(path.read_bytes())) as shot:
            shot["signals"], shot["ttd"]
        common.compute(STEP_S)


if __name__ == "__main__":
    common.main(make, run)
