"""CANDLE NT3: "uses pd.read_csv", "every process reads the data once in the start", "each request
reads a record which is approx 256 KB", "less than 1 % of total time on I/O"; the study suggests
nothing.
"""

import numpy as np
import pandas

import common

ROWS, COLUMNS, EPOCHS, EPOCH_S = 24, 6000, 8, 0.25


def make(folder):
    values = np.random.default_rng(1).random((ROWS, COLUMNS), dtype="f4")
    pandas.DataFrame(values).to_csv(f"{folder}/nt_train2.csv", index=False, header=False)


def run(folder):
    data = pandas.read_csv(f"{folder}/nt_train2.csv", header=None).values.astype("f4")
    assert data.shape == (ROWS, COLUMNS)
    for _ in range(EPOCHS):
        common.compute(EPOCH_S)


if __name__ == "__main__":
    common.main(make, run)
