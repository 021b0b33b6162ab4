"""torch DataLoader over files: one file a sample, as image folders are."""

import os

import torch_batches

NAME = "torch DataLoader, files"
NEEDS = ["torch"]
PIP = []

FILES_A_FOLDER = 1000


def version():
    return torch_batches.version()


def write(samples, folder):
    for i, sample in enumerate(samples):
        if i % FILES_A_FOLDER == 0:
            os.mkdir(f"{folder}/{i // FILES_A_FOLDER:05d}")
        with open(f"{folder}/{i // FILES_A_FOLDER:05d}/{i:08d}.bin", "wb", buffering=0) as f:
            f.write(sample)


class Files:
    def __init__(self, folder):
        self.paths = sorted(os.path.join(top, name)
                            for top, _, names in os.walk(folder) for name in names)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        with open(self.paths[i], "rb", buffering=0) as f:
            return f.read()


def variants(_which, _order):
    return [{"workers": n} for n in torch_batches.worker_counts()]


def epochs(folder, which, order, workers):
    return torch_batches.epochs(torch_batches.loader_of(Files(folder), which, workers,
                                                        shuffle=order == "shuffled"))
