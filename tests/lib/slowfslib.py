"""A mounted slowfs for tests and benchmarks: mounts, waits until it is there, ends only what it
started.

    with slowfs(src, mnt, open="2ms", read="1ms", bandwidth="500MB") as fs:
        fs.command("eio *.rec count=1")        # in force when this returns
        (fs.mnt / "a.rec").read_bytes()
        fs.stats()["reads"]

Keywords are slowfs's options with _ for -. Where it cannot run the test is skipped, with the reason;
code outside pytest asks slowfs_trouble() first.
"""

import contextlib
import functools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def slowfs_binary(stoker=None):
    """The one built together with `stoker`, by default that under test; $SLOWFS wins then."""
    if not stoker and "SLOWFS" in os.environ:
        return pathlib.Path(os.environ["SLOWFS"]).resolve()
    beside = pathlib.Path(stoker or os.environ.get("STOKER", ROOT / "build/stoker")).resolve().parent
    return beside / "tools/slowfs/slowfs"


@functools.lru_cache(None)
def slowfs_trouble(binary=None):
    """Why slowfs cannot be used here, or None."""
    binary = pathlib.Path(binary or slowfs_binary())
    if not binary.exists():
        return f"{binary} is not built: libfuse3-dev is not installed"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse is not there, or not for this user"
    if not shutil.which("fusermount3"):
        return "fusermount3 is not installed (package fuse3)"
    with tempfile.TemporaryDirectory(prefix="slowfs-try-") as tmp:
        src, mnt = pathlib.Path(tmp, "src"), pathlib.Path(tmp, "mnt")
        src.mkdir()
        mnt.mkdir()
        fs = SlowFs(src, mnt, binary, {})
        try:
            fs.start()
        except RuntimeError as trouble:
            return f"FUSE does not work here: {trouble}"
        fs.stop()
    return None


class SlowFs:
    """One mount: .src, .mnt, .proc (the server), .err (what it said, once stopped)."""

    def __init__(self, src, mnt, binary, settings):
        self.src, self.mnt = pathlib.Path(src).resolve(), pathlib.Path(mnt).resolve()
        self.argv = [str(binary), str(self.src), str(self.mnt), "--foreground"]
        for name, value in settings.items():
            option = "--" + name.replace("_", "-")
            self.argv += [option] if value is True else [option, str(value)]
        self.proc, self.err, self.said = None, "", None

    def start(self, patience_s=300):
        self.said = tempfile.TemporaryFile()
        self.proc = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=self.said,
                                     stderr=self.said)
        deadline = time.monotonic() + patience_s
        while not os.path.ismount(self.mnt):
            if self.proc.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{' '.join(self.argv)}: not mounted: {self.err.strip()}")
            time.sleep(0.005)
        return self

    def command(self, lines):
        """Lines of faults or settings; they are in force when this returns. OSError: not understood."""
        fd = os.open(self.mnt / ".slowfs-control", os.O_WRONLY)
        try:
            os.write(fd, lines.encode())
        finally:
            os.close(fd)

    def rules(self):
        return (self.mnt / ".slowfs-control").read_text()

    def stats(self):
        return json.loads((self.mnt / ".slowfs-stats").read_text())

    def unmount(self):
        """As a user does; files may still be open."""
        subprocess.run(["fusermount3", "-u", "-z", "-q", str(self.mnt)], check=False)

    def stop(self, patience_s=300):
        """Unmounts and waits for the server's end; returns its status. What does not go is killed."""
        if self.proc.poll() is None:
            self.unmount()
            try:
                self.proc.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.proc.send_signal(signal.SIGKILL)
                self.proc.wait()
                self.unmount()
        if self.said:
            self.said.seek(0)
            self.err = self.said.read().decode("utf-8", "replace")
            self.said.close()
            self.said = None
        return self.proc.returncode


@contextlib.contextmanager
def slowfs(src, mnt, binary=None, **settings):
    """Mounts src at mnt (made when missing) for the block; a crash of the server is an error."""
    trouble = slowfs_trouble(binary)
    if trouble:
        import pytest
        pytest.skip(trouble)
    pathlib.Path(mnt).mkdir(parents=True, exist_ok=True)
    fs = SlowFs(src, mnt, binary or slowfs_binary(), settings)
    fs.start()
    try:
        yield fs
    finally:
        status = fs.stop()
    if status != 0 or "Sanitizer" in fs.err or "runtime error:" in fs.err:
        raise RuntimeError(f"slowfs ended with status {status}:\n{fs.err}")
