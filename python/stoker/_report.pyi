from collections.abc import Iterable
from os import PathLike
from typing import Any

_Path = str | bytes | PathLike[str] | PathLike[bytes]

class Report:
    """The page about some results. A notebook shows it; .save(path) writes it to a file."""

    height: int
    def __init__(self, page: bytes, height: int) -> None: ...
    @property
    def html(self) -> str: ...
    def save(self, path: _Path) -> None: ...

class Table(dict[str, Any]):
    """A table: {column: array}."""

    title: str
    def __init__(self, title: str, columns: dict[str, Any]) -> None: ...
    @property
    def frame(self) -> Any: ...

class Result(dict[str, Table]):
    """The tables of a result, by name."""

    kind: str
    name: str
    title: str
    verdict: str
    number: float | None
    findings: list[dict[str, Any]]
    facts: dict[str, Any]
    def __init__(self, data: dict[str, Any]) -> None: ...

def report(*paths: _Path, trust: str | Iterable[str] | None = None, height: int = 900) -> Report: ...
def read(path: _Path, trust: str | Iterable[str] | None = None) -> Result: ...
