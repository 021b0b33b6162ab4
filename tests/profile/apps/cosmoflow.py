"""CosmoFlow: TFRecord files, "256 KB request (default buffer size)", "completely consecutive",
"read in parallel across processes but not within a process", "every rank gets different set of
files", "40 % of the time is spent in performing I/O", each sample decoded with little parallelism.
"""

import pathlib

import common

FILES, RECORDS, RECORD = 8, 20, 1 << 20
SAMPLE_S = 0.012  # decoding and training of a sample


def make(folder):
    for i in range(FILES):
        common.write_tfrecord(f"{folder}/univ_{i:04d}.tfrecord", RECORDS, RECORD)


def run(folder):
    files = sorted(map(str, pathlib.Path(folder).glob("univ_*")))[common.rank()::common.world()]
    for path in files:
        for i, _ in enumerate(common.blocks(path)):
            if i % 4 == 3:  # a sample of 1 MiB is there
                common.compute(SAMPLE_S)


if __name__ == "__main__":
    common.main(make, run)
