"""h5py in a DataLoader: one HDF5 file, opened in each worker."""

import torch_batches
from samples import BATCH, SMALL_BYTES

NAME = "h5py in a DataLoader"
NEEDS = ["torch", "h5py"]
PIP = []


def version():
    import h5py
    return f"h5py {h5py.__version__}, {torch_batches.version()}"


def write(samples, folder):
    import h5py
    import numpy as np
    with h5py.File(f"{folder}/data.h5", "w") as file:
        if samples.which == "small":
            data = file.create_dataset("x", (len(samples), SMALL_BYTES), np.uint8)
        else:
            data = file.create_dataset("x", (len(samples),), h5py.vlen_dtype(np.uint8))
        for first in range(0, len(samples), BATCH):
            rows = [np.frombuffer(samples[i], np.uint8)
                    for i in range(first, min(first + BATCH, len(samples)))]
            if samples.which == "small":
                data[first:first + len(rows)] = np.stack(rows)
            else:
                for i, row in enumerate(rows):
                    data[first + i] = row


class Rows:
    """Item i is row i, or with a list of indices all of those rows in one call."""

    def __init__(self, folder):
        import h5py
        self.path, self.data = f"{folder}/data.h5", None
        with h5py.File(self.path) as file:
            self.count = len(file["x"])

    def __len__(self):
        return self.count

    def opened(self):
        if self.data is None:  # HDF5 does not survive a fork
            import h5py
            self.data = h5py.File(self.path)["x"]
        return self.data

    def __getitem__(self, i):
        return self.opened()[i].tobytes()


class Batches(Rows):
    def __init__(self, folder, order):
        super().__init__(folder)
        self.order = order

    def __getitem__(self, indices):
        if self.order == "sequential":
            return self.opened()[indices[0]:indices[-1] + 1]
        return self.opened()[sorted(indices)]


def variants(which, _order):
    """A call a sample, and for rows of one size a call a batch, which is HDF5 at its best."""
    counts = torch_batches.worker_counts()
    return [{"workers": n, "by_batch": b} for n in counts for b in (False, True)
            if not b or which == "small"]


def epochs(folder, which, order, workers, by_batch):
    if not by_batch:
        return torch_batches.epochs(torch_batches.loader_of(Rows(folder), which, workers,
                                                            shuffle=order == "shuffled"))
    import torch.utils.data as data
    rows = Batches(folder, order)
    sampler = (data.RandomSampler if order == "shuffled" else data.SequentialSampler)(rows)
    return torch_batches.epochs(data.DataLoader(
        rows, sampler=data.BatchSampler(sampler, BATCH, False), batch_size=None,
        num_workers=workers, persistent_workers=workers > 0))
