"""Types of stoker: what editors and type checkers see. tests/python/test_python_types.py holds it against
the package."""

import builtins
import os
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, NamedTuple, TypeVar, overload

from stoker import arrays as arrays, files as files, tf as tf, torch as torch
from stoker._errors import (
    AccessError as AccessError,
    CorruptError as CorruptError,
    Error as Error,
    ExistsError as ExistsError,
    NoMemoryError as NoMemoryError,
    NotFoundError as NotFoundError,
    StaleError as StaleError,
    StoppedError as StoppedError,
    SysError as SysError,
    TransformError as TransformError,
    UnsupportedError as UnsupportedError,
    UsageError as UsageError,
)
from stoker._report import Report as Report, Result as Result, Table as Table, read as read, report as report
from stoker.dataset import Dataset as Dataset, View as View
from stoker.loader import (
    REPEAT as REPEAT,
    REPLACED as REPLACED,
    Batch as Batch,
    Loader as Loader,
)

__version__: str
__all__: list[str]

_F = TypeVar("_F", bound=Callable[..., Any])

class Array:
    """Memory with a type and a shape, where there is no NumPy. DLPack takes it."""

    dtype: str
    shape: tuple[int, ...]
    ndim: int
    nbytes: int
    readonly: bool
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def copy(self) -> Array: ...
    def tolist(self) -> list[Any]: ...
    def tobytes(self) -> bytes: ...
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

class Column:
    """Byte strings of a batch: c[i] is a view, c.bytes(i) and c.tolist() are copies."""

    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def bytes(self, i: int) -> builtins.bytes: ...
    def tolist(self) -> list[builtins.bytes]: ...
    def sizes(self) -> Any: ...
    def concat(self) -> Any: ...

class Rank(NamedTuple):
    rank: int
    world: int
    local_rank: int
    local_world: int
    launcher: str

class phase:
    def __init__(self, name: str) -> None: ...
    def __enter__(self) -> phase: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def __call__(self, function: _F) -> _F: ...

class Saving:
    path: str | builtins.bytes
    def done(self) -> bool: ...
    def join(self, timeout: float | None = ...) -> bool: ...

@overload
def save(
    obj: Any,
    path: str | builtins.bytes | os.PathLike[str],
    *,
    write: Callable[[Any, Any], object] | None = ...,
    near: str | os.PathLike[str] | None = ...,
    background: Literal[False] = ...,
) -> None: ...
@overload
def save(
    obj: Any,
    path: str | builtins.bytes | os.PathLike[str],
    *,
    write: Callable[[Any, Any], object] | None = ...,
    near: str | os.PathLike[str] | None = ...,
    background: Literal[True],
) -> Saving: ...
def rank() -> Rank: ...
def moved(path: Any, places: Mapping[str, str]) -> Any: ...
def step(number: int | None = ...) -> None: ...
def epoch(number: int | None = ...) -> None: ...
def image(
    size: int | tuple[int, int] | None = ...,
    *,
    crop: str | None = ...,
    resize: int | None = ...,
    flip: bool = ...,
    layout: str | None = ...,
    gray: bool = ...,
    scale: tuple[float, float] | None = ...,
    ratio: tuple[float, float] | None = ...,
    dtype: str | None = ...,
    mean: float | tuple[float, ...] | None = ...,
    std: float | tuple[float, ...] | None = ...,
    field: str | None = ...,
) -> str: ...
