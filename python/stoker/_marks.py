"""Marks: the program's own steps, epochs and phases, on the time line of `stoker profile`.

Without the profiler they do nothing, so they can stay in the program.
"""

import functools

from stoker import _stoker


def step(number=None):
    """A training step begins: number `number`, or one more than the last."""
    _stoker.step(number)


def epoch(number=None):
    """An epoch begins."""
    _stoker.epoch(number)


class phase:
    """A stretch of the program that has a name: `with stoker.phase("load"): ...`, or `@stoker.phase`
    with a name before a function. Phases nest; each thread has its own."""

    __slots__ = ("_name",)

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"the name of a phase is text, not {type(name).__name__}")
        self._name = name.encode("utf-8", "replace")

    def __enter__(self):
        _stoker.phase_begin(self._name)
        return self

    def __exit__(self, *_):
        _stoker.phase_end()

    def __call__(self, function):
        @functools.wraps(function)
        def named(*args, **kwargs):
            _stoker.phase_begin(self._name)
            try:
                return function(*args, **kwargs)
            finally:
                _stoker.phase_end()
        return named
