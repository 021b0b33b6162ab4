"""kill -9 at every system call of a piece of code that changes a file: it runs in a forked child
under ptrace, which is killed as it enters its first such call, in the next child as it enters its
second, and so on. Nothing depends on time; threads and the processes that it starts count together,
and are killed together."""

import ctypes
import errno
import os
import signal
import sys

TRACEME, SYSCALL, SETOPTIONS, SYSCALL_INFO = 0, 24, 0x4200, 0x420e
SYSGOOD, TRACE_FORK, TRACE_VFORK, TRACE_CLONE, TRACE_EXEC, EXITKILL = 1, 2, 4, 8, 16, 1 << 20
# Those that change a file or a folder, by machine. Between two of them, a kill finds the same files.
# write, open, ftruncate, pwrite64, writev, sendfile, rename…, link…, unlink…, mkdir…, fallocate, copy_file_range, …
CHANGES = {
    "x86_64": {1, 2, 18, 20, 40, 76, 77, 82, 83, 84, 85, 86, 87, 88, 257, 258, 263, 264, 265, 266, 275, 285, 296, 316, 326},
    "aarch64": {34, 35, 36, 37, 38, 45, 46, 47, 56, 64, 66, 68, 70, 71, 76, 276, 285},
}.get(os.uname().machine)
WALL = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, pid=0, data=0, address=None):
    if _libc.ptrace(request, pid, address, data) < 0 and ctypes.get_errno() != errno.ESRCH:
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


def _changes(pid):
    """Whether the call that it enters may change a file."""
    if CHANGES is None:
        return True
    info = (ctypes.c_uint64 * 11)()
    _ptrace(SYSCALL_INFO, pid, ctypes.addressof(info), ctypes.sizeof(info))
    return info[3] in CHANGES


def _kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    left = set(pids)
    while left:  # threads end before the process that they belong to
        pid, status = os.waitpid(-1, WALL)
        if not os.WIFSTOPPED(status):
            left.discard(pid)
        elif pid not in left:  # it was being born
            left.add(pid)
            os.kill(pid, signal.SIGKILL)


def _follow(child, n):
    """Lets it run up to the entry of its n-th call of those that count. (None, n): it was killed there; else how it
    ended, and how many there were."""
    inside, calls, ended = {}, 0, None
    while ended is None or inside:
        pid, status = os.waitpid(-1 if inside else child, WALL)
        if not os.WIFSTOPPED(status):
            inside.pop(pid, None)
            ended = status if pid == child else ended
            continue
        if not inside:
            _ptrace(SETOPTIONS, pid, SYSGOOD | TRACE_FORK | TRACE_VFORK | TRACE_CLONE | TRACE_EXEC | EXITKILL)
        stop, number = os.WSTOPSIG(status), 0
        entered = inside.setdefault(pid, False)
        if stop == signal.SIGTRAP | 0x80:
            inside[pid] = not entered
            calls += not entered and _changes(pid)
            if not entered and calls == n:
                _kill_all(inside)
                return None, n
        elif stop not in (signal.SIGSTOP, signal.SIGTRAP):
            number = stop
        _ptrace(SYSCALL, pid, number)
    return ended, calls


def _run(work, n):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        _child(work)
    ended, calls = _follow(child, n)
    assert not ended, f"the work failed: status {ended}"
    return ended is None, calls


def kills_at_changes(work, clean, most=1000):
    """After each kill, the number of the call; evenly spread ones if there are more than `most`. clean() removes what a
    run leaves; in the end the work has come through once more."""
    clean()
    calls = _run(work, None)[1]
    for n in range(1, calls + 1, -(-calls // most)):
        clean()
        if _run(work, n)[0]:
            yield n
    clean()
    _run(work, None)
