"""Types of stoker.loader: what editors and type checkers see. tests/python/test_python_types.py holds it against
the package."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from stoker._errors import Error as Error, StaleError as StaleError, UsageError as UsageError
from stoker.dataset import Samples

REPEAT: int
REPLACED: int

_Path = str | bytes | os.PathLike[Any]
_Data = _Path | Samples

class Batch:
    """Columns are arrays, `stoker.Column`s of byte strings, or lists."""

    def __getitem__(self, name: str) -> Any: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object) -> bool: ...
    def __iter__(self) -> Iterator[str]: ...
    def keys(self) -> tuple[str, ...]: ...
    def values(self) -> list[Any]: ...
    def items(self) -> list[tuple[str, Any]]: ...
    def get(self, name: str, default: Any = ...) -> Any: ...
    @property
    def ids(self) -> Any: ...
    @property
    def flags(self) -> Any: ...
    @property
    def repeats(self) -> Any: ...
    @property
    def replaced(self) -> Any: ...
    @property
    def epoch(self) -> int: ...
    @property
    def step(self) -> int: ...
    def release(self) -> None: ...

class Loader:
    """Batches of a dataset: `Batch`, or what transform, collate and as_tuple make of one."""

    batch: int
    dataset: Samples
    transform: Callable[[dict[str, Any]], Any] | None
    collate: Callable[[list[Any]], Any] | None
    batch_transform: Callable[[Any], Any] | None
    as_tuple: bool | tuple[str, ...] | None
    def __init__(
        self,
        data: _Data,
        batch: int | None = ...,
        *,
        shuffle: bool | Literal["block", "global", "none"] | None = ...,
        seed: int | None = ...,
        epoch: int | None = ...,
        last: Literal["drop", "pad", "short"] | None = ...,
        on_error: Literal["stop", "skip", "replace"] | None = ...,
        decode: str | None = ...,
        fields: str | Iterable[str] | None = ...,
        io: str | None = ...,
        depth: int | None = ...,
        read: int | str | None = ...,
        memory: int | str | None = ...,
        threads: int | None = ...,
        block: int | str | None = ...,
        window: int | str | None = ...,
        check: bool | None = ...,
        tier: str | None = ...,
        tier_fill: bool | None = ...,
        tier_limit: int | str | None = ...,
        epochs: int | None = ...,
        rank: int | None = ...,
        world: int | None = ...,
        keys: bool | None = ...,
        state: str | Iterable[str] | None = ...,
        transform: Callable[[dict[str, Any]], Any] | None = ...,
        workers: int = ...,
        collate: Callable[[list[Any]], Any] | None = ...,
        batch_transform: Callable[[Any], Any] | None = ...,
        as_tuple: bool | str | Iterable[str] | None = ...,
        weights: Iterable[float] | None = ...,
        draws: int | None = ...,
        sampler: Iterable[int] | Callable[[int], Iterable[int]] | None = ...,
        batch_size: int = ...,
        drop_last: bool = ...,
        num_workers: int = ...,
        collate_fn: Callable[[list[Any]], Any] | None = ...,
        multiprocessing_context: str | None = ...,
        persistent_workers: bool = ...,
        prefetch_factor: int | None = ...,
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
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Loader: ...
    def __exit__(self, *exc: object) -> None: ...
    @property
    def epoch(self) -> int: ...
    def set_epoch(self, epoch: int) -> None: ...
    def state(self) -> str: ...
    def load_state(self, state: str | Iterable[str]) -> None: ...
    def rank(self) -> tuple[int, int]: ...
    def stats(self) -> dict[str, Any]: ...
    def problems(self) -> list[str]: ...
    def close(self) -> None: ...
