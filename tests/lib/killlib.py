"""kill -9 at every system call of a piece of code: it runs in a forked child under ptrace, which is
killed as it enters its first call, in the next child as it enters its second, and so on until a
child comes through. Nothing depends on time; threads count together."""

import ctypes
import errno
import itertools
import os
import signal
import sys

TRACEME, SYSCALL, SETOPTIONS = 0, 24, 0x4200
SYSGOOD, TRACE_CLONE, EXITKILL = 1, 8, 1 << 20
WALL = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, pid=0, data=0):
    if _libc.ptrace(request, pid, None, data) < 0 and ctypes.get_errno() != errno.ESRCH:
        raise OSError(ctypes.get_errno(), "ptrace")


def _child(work):
    status = 99
    try:
        _ptrace(TRACEME)
        os.kill(os.getpid(), signal.SIGSTOP)
        work()
        status = 0
    except BaseException:  # noqa: BLE001 - it must not return into the test
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def _follow(child, n):
    """Lets it run up to the entry of its n-th call. None: it was killed there; else how it ended."""
    inside, calls = {}, 0
    while True:
        pid, status = os.waitpid(-1 if inside else child, WALL)
        if not os.WIFSTOPPED(status):
            if pid == child:
                return status
            continue
        if not inside:
            _ptrace(SETOPTIONS, pid, SYSGOOD | TRACE_CLONE | EXITKILL)
        stop, number = os.WSTOPSIG(status), 0
        entered = inside.setdefault(pid, False)
        if stop == signal.SIGTRAP | 0x80:
            inside[pid] = not entered
            calls += not entered
            if not entered and calls == n:
                os.kill(child, signal.SIGKILL)
                while os.waitpid(-1, WALL)[0] != child:
                    pass
                return None
        elif stop not in (signal.SIGSTOP, signal.SIGTRAP):
            number = stop
        _ptrace(SYSCALL, pid, number)


def kills(work, every=1):
    """After each kill, the number of the call; ends when the work came through. every: of so many calls one."""
    for n in itertools.count(1, every):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _child(work)
        ended = _follow(child, n)
        if ended is not None:
            assert ended == 0, f"the work failed: status {ended}"
            return
        yield n
