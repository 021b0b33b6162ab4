"""Types of stoker.dataset: what editors and type checkers see. tests/python/test_python_types.py holds it against
the package."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

_Path = str | bytes | os.PathLike[Any]
_Sample = dict[str, Any]

class Samples:
    """A dataset, or a part of one."""

    path: Any
    @property
    def handle(self) -> Any: ...
    @property
    def format(self) -> str: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def fields(self) -> tuple[str, ...]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, i: int) -> _Sample: ...
    @overload
    def __getitem__(self, i: slice) -> View: ...
    def __getitems__(self, indices: Iterable[int]) -> list[_Sample]: ...
    def __iter__(self) -> Iterator[_Sample]: ...
    def subset(self, indices: Iterable[int]) -> View: ...
    def split(
        self,
        *parts: float,
        seed: int = ...,
        shuffle: bool = ...,
        stratify: str | Iterable[Any] | None = ...,
    ) -> tuple[View, ...]: ...
    def column(self, name: str) -> Any: ...

class Dataset(Samples):
    """A file or folder of any format stoker reads."""

    def __init__(
        self,
        path: _Path,
        *,
        format: str | None = ...,
        payload: str | None = ...,
        datasets: str | None = ...,
        split: str | None = ...,
        header: bool | str | None = ...,
        delimiter: str | None = ...,
        types: Mapping[str, str] | str | None = ...,
        group: bool | None = ...,
        follow_links: bool | None = ...,
        trust: str | None = ...,
        index: _Path | None = ...,
        rebuild: bool | None = ...,
        write_index: bool | None = ...,
        jobs: int | None = ...,
        pass_over: bool | None = ...,
    ) -> None: ...
    @property
    def left_out(self) -> list[dict[str, Any]]: ...
    @property
    def taken(self) -> list[dict[str, str]]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Dataset: ...
    def __exit__(self, *exc: object) -> None: ...

class View(Samples):
    """Some samples of a dataset, in some order."""

    dataset: Dataset
    numbers: Sequence[int]
    def __init__(self, dataset: Dataset, numbers: Sequence[int]) -> None: ...

def numbers_of(indices: Iterable[int], n: int) -> Sequence[int]: ...
def part_of(handle: Any, numbers: Sequence[int]) -> Any: ...
