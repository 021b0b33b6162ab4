"""Types of stoker.tf: what editors and type checkers see. tests/python/test_python_types.py holds it against
the package."""

import os
from collections.abc import Iterable
from typing import Any

from stoker.dataset import Samples

def dataset(
    data: str | bytes | os.PathLike[Any] | Samples,
    batch: int = ...,
    *,
    ragged: Iterable[str] = ...,
    **options: Any,
) -> Any: ...
