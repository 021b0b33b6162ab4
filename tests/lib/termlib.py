"""A program on a terminal: what it draws, as lines of a screen."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from conftest import PATIENCE_S, clean_env


class Terminal:
    """Runs argv on a terminal of its own. `seen`: everything it wrote."""

    def __init__(self, argv, columns=80, rows=24, env=None):
        self.leader, follower = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(follower)
        self.follower = follower  # kept open: the settings it leaves can be asked for
        self.seen = b""

        def own_session():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        # A shell owns the terminal, as it does for a user: it outlives a program that is killed.
        shell = ["sh", "-c", 'trap : INT; "$@"; exit $?', "sh"]
        self.proc = subprocess.Popen([*shell, *map(str, argv)], stdin=follower, stdout=follower, stderr=follower,
                                     env=clean_env({"TERM": "xterm-256color", **(env or {})}),
                                     preexec_fn=own_session)

    def resize(self, columns, rows):
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        if select.select([self.leader], [], [], seconds)[0]:
            self.seen += os.read(self.leader, 65536)

    def until(self, fact):
        """Reads until fact(self) is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not (answer := fact(self)):
            assert time.monotonic() < deadline, self.seen[-4000:]
            self.read()
        return answer

    def screens(self):
        """The complete screens so far, each as its lines without colours."""
        parts = re.split(rb"\x1b\[H", self.seen)[1:]
        whole = [p.split(b"\x1b[J")[0] for p in parts if b"\x1b[J" in p]
        return [re.sub(r"\x1b\[[0-9;]*[mK]", "", p.decode()).replace("\r", "").split("\n") for p in whole]

    def shows(self, text):
        return any(text in line for screen in self.screens()[-1:] for line in screen)

    def write(self, keys):
        os.write(self.leader, keys)

    def end(self):
        """Waits for its end, reading what it writes. The exit status."""
        self.until(lambda t: t.proc.poll() is not None)
        while select.select([self.leader], [], [], 0)[0]:
            self.read()
        return self.proc.returncode

    def is_as_before(self):
        """The first screen, cursor and modes are back."""
        left = self.seen.rfind(b"\x1b[?1049l")
        return left > self.seen.rfind(b"\x1b[?1049h") and left > self.seen.rfind(b"\x1b[?25l") \
            and termios.tcgetattr(self.follower) == self.before

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.proc.poll() is None:
            self.proc.kill()
        self.proc.wait()
        os.close(self.leader)
        os.close(self.follower)
