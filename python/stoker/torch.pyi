"""Types of stoker.torch: what editors and type checkers see. tests/python/test_python_types.py holds it against
the package."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
import torch.utils.data

from stoker import loader
from stoker.dataset import Samples

_Path = str | bytes | os.PathLike[Any]
_Data = _Path | Samples

def rank() -> tuple[int, int]: ...
def tensor(array: Any) -> torch.Tensor: ...
def lightning_state(checkpoint: Any) -> dict[str, Any]: ...

class Batch(dict[str, Any]):
    """Columns are tensors, or lists of bytes, str, tensors or anything."""

    epoch: int
    step: int
    @property
    def ids(self) -> torch.Tensor: ...
    @property
    def repeats(self) -> torch.Tensor: ...
    @property
    def replaced(self) -> torch.Tensor: ...

class Loader(loader.Loader):
    """Batches as dicts of tensors, or what transform, collate and as_tuple make of one."""

    device: torch.device | None
    pin_memory: bool
    def __init__(
        self,
        data: _Data,
        batch: int | None = ...,
        *,
        bytes_as: Literal["bytes", "tensor"] = ...,
        pin_memory: bool = ...,
        device: Any = ...,
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
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...

class MapDataset(torch.utils.data.Dataset[Any]):
    dataset: Samples
    transform: Callable[[dict[str, Any]], Any] | None
    def __init__(
        self,
        data: _Data,
        transform: Callable[[dict[str, Any]], Any] | None = ...,
        **options: Any,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def __getitems__(self, indices: Iterable[int]) -> list[Any]: ...

class IterDataset(torch.utils.data.IterableDataset[Any]):
    def __init__(
        self, data: _Data, batch: int = ..., *, epoch: int = ..., **options: Any
    ) -> None: ...
    def set_epoch(self, epoch: int) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...

class ImageFolder(MapDataset):
    root: str
    classes: list[str]
    class_to_idx: dict[str, int]
    target_transform: Callable[[int], Any] | None
    def __init__(
        self,
        root: str | os.PathLike[str],
        transform: Callable[[Any], Any] | None = ...,
        target_transform: Callable[[int], Any] | None = ...,
        *,
        packed: Mapping[str, str] | None = ...,
    ) -> None: ...
    @property
    def targets(self) -> list[int]: ...
    @property
    def samples(self) -> list[tuple[str, int]]: ...
    @property
    def imgs(self) -> list[tuple[str, int]]: ...

def DataLoader(
    dataset: torch.utils.data.Dataset[Any],
    batch_size: int = ...,
    shuffle: bool | None = ...,
    sampler: Any = ...,
    batch_sampler: Any = ...,
    num_workers: int = ...,
    collate_fn: Callable[[list[Any]], Any] | None = ...,
    pin_memory: bool = ...,
    drop_last: bool = ...,
    timeout: float = ...,
    worker_init_fn: Callable[[int], None] | None = ...,
    multiprocessing_context: Any = ...,
    generator: Any = ...,
    **others: Any,
) -> Any: ...
