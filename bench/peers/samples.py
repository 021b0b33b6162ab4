"""The samples every contestant gets: the same bytes on every run and machine, made when asked for.

`small`: 2048 bytes each, so a batch is one array. `large`: 80 to 140 KB, as JPEGs are, so a batch
is a list of byte strings. Both incompressible: slices of one pool of random bytes.
"""

import hashlib
import random

POOL_BYTES = 8 << 20
SMALL_BYTES = 2048
LARGE_MIN, LARGE_MAX = 80000, 140000
BATCH = 256
# One byte a cache line: every line of a sample is touched, and the adding itself costs little.
STRIDE = 64


class Samples:
    def __init__(self, which, count):
        self.which, self.count = which, count
        self.pool = random.Random(7).randbytes(POOL_BYTES)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        if not 0 <= i < self.count:
            raise IndexError(i)
        word = int.from_bytes(hashlib.blake2b(b"%d" % i, digest_size=8).digest(), "little")
        size = SMALL_BYTES if self.which == "small" else LARGE_MIN + word % (LARGE_MAX - LARGE_MIN)
        at = (word >> 20) % (POOL_BYTES - size)
        return self.pool[at:at + size]

    def check(self):
        """(bytes, sum) of one epoch, whatever its order."""
        size = total = 0
        for sample in self:
            size += len(sample)
            total += sum(sample[::STRIDE])
        return size, total


class Consumer:
    """What stands for the training: touches every batch; knows afterwards whether it was all."""

    def __init__(self):
        self.samples = self.bytes = self.total = 0

    def take(self, batch):
        """batch: an array of n x 2048 uint8, or byte strings (anything NumPy takes as bytes)."""
        import numpy as np
        if getattr(batch, "ndim", 1) == 2:
            self.samples += batch.shape[0]
            self.bytes += batch.size
            self.total += int(batch.reshape(-1)[::STRIDE].sum(dtype=np.uint64))
            return
        for sample in batch:
            line = np.frombuffer(sample, np.uint8)
            self.samples += 1
            self.bytes += line.size
            self.total += int(line[::STRIDE].sum(dtype=np.uint64))
