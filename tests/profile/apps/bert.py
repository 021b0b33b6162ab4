"""BERT on MRPC: "all I/O happens in the beginning, the tsv is read and converted into samples into
memory", "each I/O size is a record length in size which is 200 bytes", 3,600 examples, one node;
reading is very short beside the training.
"""

import csv

import common

EXAMPLES, STEPS, STEP_S = 3600, 20, 0.05


def make(folder):
    with open(f"{folder}/train.tsv", "w") as f:
        f.write("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n")
        for i in range(EXAMPLES):
            f.write(f"{i % 2}\t{10 ** 6 + i}\t{2 * 10 ** 6 + i}\t{'a sentence ' * 8}"
                    f"\t{'another ' * 9}\n")


def run(folder):
    with open(f"{folder}/train.tsv", "rb", buffering=200) as f:  # a line's length a request
        examples = list(csv.reader((line.decode() for line in f), delimiter="\t"))
    assert len(examples) == EXAMPLES + 1
    for _ in range(STEPS):
        common.compute(STEP_S)


if __name__ == "__main__":
    common.main(make, run)
