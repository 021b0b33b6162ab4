"""Which samples an epoch has where the loader's own order is not wanted: by weight, or as given."""

import array

from stoker import _stoker
from stoker._errors import UsageError
from stoker.dataset import numbers_of


class Weighted:
    """Draws samples by weight, with replacement: a function of the seed and the epoch."""

    def __init__(self, weights, draws, n):
        weights = weights.tolist() if hasattr(weights, "tolist") else weights
        self._weights = array.array("d", weights).tobytes()
        self._draws = n if draws is None else draws
        if len(self._weights) // 8 != n:
            raise UsageError(f"weights: {len(self._weights) // 8} of them for {n} samples")
        if self._draws < 0:
            raise UsageError(f"draws={draws}: it is 0 or more")
        _stoker.draw(self._weights, 0, 0, 0)  # weights that cannot be are refused here

    def __call__(self, epoch, seed):
        numbers = array.array("Q")
        numbers.frombytes(_stoker.draw(self._weights, seed, epoch, self._draws))
        return numbers


class Given:
    """The program's own order: a sequence, an iterable, or a function of the epoch."""

    def __init__(self, sampler, n):
        self._sampler, self._n = sampler, n
        if not callable(sampler) and not hasattr(sampler, "__iter__"):
            raise TypeError(f"sampler: an iterable or a function is needed, not {sampler!r}")
        if not callable(sampler) and hasattr(sampler, "__next__"):
            raise TypeError("sampler: an iterator has one epoch only; give a sequence, an object "
                            "that can be gone through again, or a function of the epoch")
        if getattr(sampler, "num_replicas", 1) > 1:
            raise TypeError("sampler: a DistributedSampler gives each rank its part, and so does the "
                            "loader: leave it out, or give one of num_replicas=1")

    def __call__(self, epoch, seed):
        if callable(self._sampler):
            return numbers_of(self._sampler(epoch), self._n)
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        return numbers_of(self._sampler, self._n)
