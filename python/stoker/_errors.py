"""The exceptions: what went wrong, in which file, at which byte."""

import errno as _errno
import sys
import warnings

from stoker import _stoker


class Error(Exception):
    """Something stoker could not do.

    `path` and `offset` say where in which file (None: nowhere in particular), `code` is the
    number of the C library (`STK_E_*` in stoker.h).
    """

    code = 0
    path = None
    offset = None

    def __str__(self):
        return str(self.args[0]) if self.args else ""

    def __reduce__(self):
        return make, (self.code, getattr(self, "errno", None) or 0, self.path,
                      -1 if self.offset is None else self.offset, str(self))


class CorruptError(Error, ValueError):
    """The bytes of a dataset are wrong."""

    code = _stoker.E_CORRUPT


class UnsupportedError(Error):
    """Not built in, or it cannot be expressed in that format."""

    code = _stoker.E_UNSUPPORTED


class UsageError(Error, ValueError):
    """An option that makes no sense."""

    code = _stoker.E_USAGE


class ExistsError(Error):
    """The destination holds data that is not ours to replace."""

    code = _stoker.E_EXISTS


class StaleError(Error):
    """An index, a manifest or a state no longer describes the files."""

    code = _stoker.E_STALE


class StoppedError(Error):
    """It was asked to stop."""

    code = _stoker.E_STOPPED


class NoMemoryError(Error, MemoryError):
    """Out of memory, or over the memory budget."""

    code = _stoker.E_NOMEM


class TransformError(Error, RuntimeError):
    """A transform raised an exception, which is the cause of this one; `key` and `id` are those of
    the sample."""

    key = id = None

    def __reduce__(self):
        return _transform_error, (str(self), self.key, self.id)


def _transform_error(text, key, number):
    error = TransformError(text)
    error.key, error.id = key, number
    return error


class SysError(Error, OSError):
    """A system call failed; `errno` says how."""

    code = _stoker.E_SYS


class NotFoundError(SysError, FileNotFoundError):
    """There is no such file."""


class AccessError(SysError, PermissionError):
    """This user may not read it."""


_CLASSES = {cls.code: cls for cls in (CorruptError, UnsupportedError, UsageError, ExistsError,
                                      StaleError, StoppedError, NoMemoryError, SysError)}
_ERRNO_CLASSES = {_errno.ENOENT: NotFoundError, _errno.ENOTDIR: NotFoundError,
                  _errno.EACCES: AccessError, _errno.EPERM: AccessError}


def make(code, errno, path, offset, text):
    """The exception for an error of the C library."""
    cls = _CLASSES.get(code, Error)
    if cls is SysError:
        cls = _ERRNO_CLASSES.get(errno, SysError)
    error = cls(text)
    error.code = code
    error.path = path
    error.offset = offset if offset >= 0 else None
    if isinstance(error, OSError):
        error.errno = errno
        error.filename = path
    return error


def warn(text):
    """As of the line of the program that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
