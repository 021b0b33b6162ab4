"""What the security tests share: a node with two users who trust each other with nothing, and the
races one of them runs against the other.

    def test_x(node):
        node.attacker.shell("ln -s /etc/passwd out.partial", cwd=node.shared)
        node.victim.stoker("pack", node.data, node.shared / "out", rc=1)

The two are bare user ids (no entry in /etc/passwd is needed) in one common group. Root is needed to
become them; where that is not to be had, every test that asks for `node` is skipped and says so.
"""

import contextlib
import functools
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest

from conftest import PATIENCE_S, Result, check_sane, clean_env, make_images, stoker_for_others

GROUP = 61000
VICTIM, ATTACKER = 61001, 61002


@functools.cache
def users_trouble():
    """Why there cannot be two users here, or None."""
    if os.geteuid() != 0:
        return "two users need root"
    try:
        subprocess.run(["true"], user=VICTIM, group=VICTIM, extra_groups=[GROUP], check=True)
    except (OSError, subprocess.SubprocessError) as trouble:
        return f"two users need a root who may become them: {trouble}"
    return None


def needs_users():
    if users_trouble():
        pytest.skip(users_trouble())


class User:
    """Somebody on the node, with a private home folder. The files this class makes are theirs."""

    def __init__(self, uid, home):
        self.uid = self.gid = uid
        self.home = home
        home.mkdir(mode=0o700)
        os.chown(home, uid, uid)

    def env(self, extra=None):
        env = {k: v for k, v in clean_env().items() if not k.startswith("XDG_")}
        env.update(HOME=str(self.home), USER=f"u{self.uid}", LOGNAME=f"u{self.uid}")
        env.update({k: str(v) for k, v in (extra or {}).items()})
        return env

    def popen(self, *argv, env=None, cwd=None, umask=0o022, **more):
        """A process of this user, to be ended by the caller."""
        return subprocess.Popen(list(map(str, argv)), user=self.uid, group=self.gid, extra_groups=[GROUP],
                                umask=umask, env=self.env(env), cwd=cwd or self.home, **more)

    def run(self, *argv, rc=0, input=None, timeout=PATIENCE_S, **more):
        """Runs a command; rc is the status (or a tuple of them) expected, None for any."""
        with self.popen(*argv, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more) as proc:
            try:
                out, err = proc.communicate(input, timeout=timeout)
            except subprocess.TimeoutExpired:
                proc.kill()
                pytest.fail(f"still running after {timeout} s: {argv}", pytrace=False)
        result = Result(argv, proc.returncode, out, err)
        if rc is not None:
            assert result.rc in (rc if isinstance(rc, tuple) else (rc,)), repr(result)
        return result

    def stoker(self, *args, rc=0, **more):
        """The program under test, as this user. A crash or a sanitizer's report fails the test."""
        result = self.run(stoker_for_others(), *args, rc=None, **more)
        check_sane(result)
        if rc is not None:
            assert result.rc in (rc if isinstance(rc, tuple) else (rc,)), repr(result)
        return result

    def start_stoker(self, *args, **more):
        """The same, left running: a Popen with its output in pipes."""
        return self.popen(stoker_for_others(), *args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, **more)

    def shell(self, script, **more):
        return self.run("/bin/sh", "-ec", script, **more)

    def python(self, script, *args, **more):
        return self.run(sys.executable, "-c", script, *args, **more)

    def own(self, path, mode=None):
        """Makes path, and all below it, this user's."""
        path = pathlib.Path(path)
        for p in (path, *path.rglob("*")):
            os.chown(p, self.uid, self.gid, follow_symlinks=False)
        if mode is not None:
            path.chmod(mode)
        return path

    def write(self, path, data, mode=0o644):
        """A file of this user's, wherever root may write."""
        path = pathlib.Path(path)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return self.own(path, mode)

    def secret(self, name="secret"):
        """(path, what is in it): a file nobody else may read."""
        text = "top-secret-" + secrets.token_hex(16)
        return self.write(self.home / name, text, 0o600), text

    def images(self, path, mode=0o755, **how):
        """A class-per-folder dataset of this user's; {name: bytes}."""
        files = make_images(path, **how)
        self.own(path, mode)
        return files

    @contextlib.contextmanager
    def swapping(self, a, b):
        """While the block runs, a and b change places as fast as this user can (each name is always
        there). Gives an object whose `count()` says how often so far."""
        board = pathlib.Path(tempfile.mkstemp(prefix="swaps-", dir=self.home)[1])
        self.own(board)
        proc = self.popen(sys.executable, "-c", SWAP, a, b, board)
        try:
            yield Swaps(board, proc)
        finally:
            proc.send_signal(signal.SIGKILL)
            proc.wait()


class Swaps:
    def __init__(self, board, proc):
        self.board, self.proc = board, proc

    def count(self):
        assert self.proc.poll() is None, "the attacker gave up"
        return int.from_bytes(self.board.read_bytes()[:8], "little")


# Python itself is quick enough: some 200,000 a second.
SWAP = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
a, b = (os.fsencode(p) for p in sys.argv[1:3])
board = os.open(sys.argv[3], os.O_RDWR)
os.ftruncate(board, 8)
count = ctypes.c_uint64.from_buffer(mmap.mmap(board, 8))
AT_FDCWD, RENAME_EXCHANGE = -100, 2
while True:
    if libc.renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) == 0:
        count.value += 1
"""


class Node:
    """root: open to all to go through. shared: writable by both (2775, not sticky), as a project's
    folder is. tmp: as /tmp (1777). data: a small dataset of the victim's in `shared`."""

    def __init__(self, root):
        root.chmod(0o755)
        self.root = root
        (root / "home").mkdir()
        self.victim = User(VICTIM, root / "home/vic")
        self.attacker = User(ATTACKER, root / "home/att")
        self.shared = root / "shared"
        self.shared.mkdir()
        os.chown(self.shared, 0, GROUP)
        self.shared.chmod(0o2775)
        self.tmp = root / "tmp"
        self.tmp.mkdir()
        self.tmp.chmod(0o1777)

    @functools.cached_property
    def data(self):
        self.victim.images(self.shared / "data")
        return self.shared / "data"


def open_scratch():
    """A folder other users may enter, in memory where there is room."""
    memory = pathlib.Path("/dev/shm")
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    return pathlib.Path(tempfile.mkdtemp(prefix="stoker-node-", dir=memory if roomy else None))


@pytest.fixture
def node():
    """A shared node: node.victim, node.attacker, node.shared, node.tmp, node.data."""
    needs_users()
    root = open_scratch()
    try:
        yield Node(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
