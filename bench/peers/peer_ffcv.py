"""FFCV: one .beton file, mapped into memory, batches put together by compiled Python."""

import os

import numpy as np

from samples import BATCH, SMALL_BYTES

NAME = "FFCV"
NEEDS = ["ffcv", "torch"]  # as the distribution packages it: from PyPI it has to be compiled
PIP = []


def version():
    import importlib.metadata
    import ffcv.loader  # noqa: F401
    import ffcv.writer  # noqa: F401
    return "ffcv " + importlib.metadata.version("ffcv")


class Items:
    """What its writer takes: tuples of arrays."""

    def __init__(self, samples):
        self.samples = samples

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        data = np.frombuffer(self.samples[i], np.uint8)
        return (data,) if self.samples.which == "small" else (data, data.size)


def write(samples, folder):
    from ffcv.fields import BytesField, IntField, NDArrayField
    from ffcv.writer import DatasetWriter
    fields = ({"x": NDArrayField(np.dtype(np.uint8), (SMALL_BYTES,))} if samples.which == "small"
              else {"x": BytesField(), "size": IntField()})
    writer = DatasetWriter(f"{folder}/data.beton", fields, num_workers=1)
    writer.from_indexed_dataset(Items(samples))


def variants(_which, _order):
    cores = len(os.sched_getaffinity(0))
    return [{"workers": n} for n in sorted({1, cores})]


def epochs(folder, which, order, workers):
    from ffcv.loader import Loader, OrderOption
    how = OrderOption.RANDOM if order == "shuffled" else OrderOption.SEQUENTIAL
    # os_cache=False, its other way of reading, stops at the second batch in 0.0.3 without CUDA.
    loader = Loader(f"{folder}/data.beton", batch_size=BATCH, num_workers=workers, order=how,
                    os_cache=True, drop_last=False)
    while True:
        yield (unpack(batch, which) for batch in loader)


def unpack(batch, which):
    data = batch[0].numpy()
    if which == "small":
        return data
    return [row[:size] for row, size in zip(data, batch[1].numpy().reshape(-1))]
