"""Types of stoker.arrays: what editors and type checkers see. What they give is h5py's and NumPy's."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any

class Array:
    """A dataset of a File."""

    shape: tuple[int, ...]
    dtype: Any
    ndim: int
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...

class Group:
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> Any: ...
    def __contains__(self, name: str) -> bool: ...
    def __getattr__(self, name: str) -> Any: ...

class File(Group):
    def __init__(
        self,
        name: Any,
        mode: str = ...,
        *args: Any,
        packed: Mapping[Any, Any] | None = ...,
        **named: Any,
    ) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> File: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def load(
    file: Any,
    mmap_mode: str | None = ...,
    *args: Any,
    packed: Mapping[Any, Any] | None = ...,
    **named: Any,
) -> Any: ...
