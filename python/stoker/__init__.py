"""stoker: datasets of any format, in batches, at the speed of the storage.

    import stoker

    ds = stoker.Dataset("train-packed")        # len(ds), ds[17], ds[:1000], ds.split(0.9, 0.1)
    for batch in stoker.Loader("train-packed", batch=256, seed=1):
        ...                                     # batch["data"], batch["label"], batch.ids

`stoker.torch` and `stoker.tf` do the same for PyTorch and TensorFlow; they are imported when used.
"""

import collections
import importlib
import json

from stoker import _errors, _stoker
from stoker._errors import (AccessError, CorruptError, Error, ExistsError, NoMemoryError,
                            NotFoundError, StaleError, StoppedError, SysError, TransformError,
                            UnsupportedError, UsageError)
from stoker._stoker import Array, Column
from stoker._marks import epoch, phase, step
from stoker._moved import moved

__version__ = _stoker.version


def _first_array(array):
    """Imports NumPy when the first array is made; without NumPy, arrays are stoker.Array."""
    try:
        from numpy import asarray as give
    except ImportError:
        def give(given):
            return given
    _stoker.set_hooks(array=give)
    return give(array)


def _from_json(text):
    try:
        return json.loads(text)
    except ValueError as wrong:
        raise CorruptError(f"a field that should be JSON is not: {wrong}") from None


_stoker.set_hooks(error=_errors.make, array=_first_array, json=_from_json)

from stoker._options import image  # noqa: E402
from stoker.dataset import Dataset, View  # noqa: E402 - they need the hooks
from stoker.loader import REPEAT, REPLACED, Batch, Loader  # noqa: E402
from stoker._report import Report, Result, Table, read, report  # noqa: E402
from stoker._save import Saving, save  # noqa: E402

Rank = collections.namedtuple("Rank", "rank world local_rank local_world launcher")


def rank():
    """This process among those of the job, as torchrun, mpirun or srun numbers them; else 0 of 1."""
    return Rank(*_stoker.rank())


def __getattr__(name):
    if name in ("arrays", "files", "torch", "tf"):
        return importlib.import_module(f"stoker.{name}")
    raise AttributeError(f"module 'stoker' has no attribute {name!r}")


__all__ = ["AccessError", "Array", "Batch", "Column", "CorruptError", "Dataset", "Error",
           "ExistsError", "Loader", "NoMemoryError", "NotFoundError", "REPEAT", "REPLACED", "Rank",
           "Report", "Result", "Saving", "StaleError", "StoppedError", "SysError", "Table", "TransformError",
           "UnsupportedError", "UsageError", "View", "epoch", "image", "moved", "phase", "rank", "read",
           "report", "save", "step", "__version__"]
