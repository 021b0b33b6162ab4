"""Batches out of torch's DataLoader, for the contestants that are a torch dataset.

Byte strings of differing sizes go from a worker to the parent as one tensor and its lengths, in
shared memory: several times faster than the pickled list one gets by default.
"""

import os

from samples import BATCH, SMALL_BYTES


def version():
    import torch
    import torch.utils.data  # noqa: F401, imported here so that no clock sees it
    return f"torch {torch.__version__.split('+')[0]}"


def worker_counts():
    """What is tried to find the best number of workers here."""
    cores = len(os.sched_getaffinity(0))
    return sorted({0, max(1, cores // 2), cores, 2 * cores})


def collate_small(samples):
    import torch
    return torch.frombuffer(bytearray(b"".join(samples)), dtype=torch.uint8).view(-1, SMALL_BYTES)


def collate_large(samples):
    import torch
    lengths = [len(s) for s in samples]
    return torch.frombuffer(bytearray(b"".join(samples)), dtype=torch.uint8), lengths


def as_is(samples):
    return samples


def collate(which, workers):
    if which == "small":
        return collate_small
    return collate_large if workers else as_is


def unpack(batch):
    """What the consumer takes, of what a collate function above made."""
    if isinstance(batch, tuple) or isinstance(batch, list) and hasattr(batch[0], "numpy"):
        whole, lengths = batch[0].numpy(), batch[1]
        ends = [0]
        for n in lengths:
            ends.append(ends[-1] + n)
        return [whole[a:b] for a, b in zip(ends, ends[1:])]
    return batch.numpy() if hasattr(batch, "numpy") else batch


def epochs(loader):
    """One iterator an epoch, for ever."""
    while True:
        yield (unpack(batch) for batch in loader)


def loader_of(dataset, which, workers, **more):
    import torch.utils.data
    make = more.pop("make", torch.utils.data.DataLoader)
    return make(dataset, batch_size=BATCH, num_workers=workers, collate_fn=collate(which, workers),
                persistent_workers=workers > 0, **more)
