"""Types of stoker.files: what editors and type checkers see."""

from collections.abc import Mapping
from typing import Any

def records(filenames: Any, packed: Mapping[Any, Any]) -> Any: ...
def path(path: Any, packed: Mapping[Any, Any] | None = ..., moved: Mapping[Any, Any] | None = ...) -> Any: ...
def member(path: Any, packed: Mapping[Any, Any]) -> Any: ...
def open(
    file: Any,
    mode: str = ...,
    buffering: int = ...,
    encoding: str | None = ...,
    errors: str | None = ...,
    newline: str | None = ...,
    *more: Any,
    packed: Mapping[Any, Any] | None = ...,
) -> Any: ...
