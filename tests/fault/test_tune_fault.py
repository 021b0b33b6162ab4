"""stoker tune, killed anywhere: what it left can be continued, and removed to the last file; a full disk."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import STOKER, clean_env, run_stoker, until
from faultlib import change_points, kill_at, ladder, needs_root, needs_strace, small_disk
from slowfslib import slowfs


# Runs and copies take as long as a model says, and no time.
VIRTUAL = ["--virtual-storage", "100M,1ms"]


class Site:
    """Data, and two places where tune makes things: beside the data, and on other storage."""

    def __init__(self, tmp_path, near):
        self.root, self.near = tmp_path / "here", near
        self.data = self.root / "data"
        self.data.mkdir(parents=True)
        for i in range(24):
            (self.data / f"{i}.bin").write_bytes(bytes([i]) * 9000)
        self.args = ["tune", self.data, "--only", "threads,stage", "--choose", "stage-near1", "--near", near, *VIRTUAL,
                     "--budget", "1h"]

    def left(self):
        """What lies there besides the data."""
        return sorted(str(p) for p in [*self.root.iterdir(), *self.near.iterdir()] if p != self.data)

    def settle(self):
        """Waits until the processes of a killed call are gone: they are told by the kernel."""
        def gone():
            for cmdline in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if str(self.root).encode() in cmdline.read_bytes():
                        return False
                except OSError:
                    continue
            return True
        until(gone)

    def folder(self):
        return next(self.root.glob("stoker-tune.*"), None)


@pytest.fixture
def site(tmp_path, other_storage):
    return Site(tmp_path, other_storage)


@needs_strace
def test_killed_anywhere(site, tmp_path):
    """A quota that fills with folders nobody knows, or a night of runs that begins anew."""
    points = change_points(*site.args, tmp=tmp_path)
    assert not site.left()
    first = [p for p in points if p[0] in ("mkdir", "mkdirat", "openat")]
    # The first two publish the workload and the description; later calls depend on the moment.
    published = [p for p in points if p[0] == "renameat"][2:4]
    described = 0
    for point in [*first[:2], *published, *ladder(points[:len(points) // 2], 3)]:
        kill_at(point, *site.args)
        site.settle()
        folder = site.folder()
        described += bool(folder and (folder / "tune.json").exists())
        if folder and described % 2 and (folder / "tune.json").exists():
            run_stoker("tune", "--resume", folder, "--budget", "1h")
        elif folder and (folder / "tune.json").exists():
            mine = folder / "thesis.tex"
            mine.write_text("x")
            assert f"{mine} stays" in run_stoker("tune", "--clean", folder).out
            assert list(folder.iterdir()) == [mine]
            shutil.rmtree(folder)
        elif folder:
            run_stoker("tune", "--clean", folder)
        assert not site.left(), (point, site.left())
    assert described > 1
    for point in ladder([p for p in points if p[0] == "unlinkat"][-16:], 4):  # while it tidies up
        kill_at(point, *site.args)
        site.settle()
        if site.folder():
            run_stoker("tune", "--clean", site.folder())
        assert not site.left(), (point, site.left())


@needs_strace
def test_killed_while_it_profiles(tmp_path):
    """The profile of a command is a folder, too."""
    (tmp_path / "x").write_bytes(b"x" * 4096)
    starts = [(call, 1) for call in ("vfork", "clone", "clone3")]
    assert any([kill_at(p, "tune", "--", "cat", tmp_path / "x", cwd=tmp_path) for p in starts])
    folders = list(tmp_path.glob("stoker-tune-profile.*"))
    assert folders
    for folder in folders:
        run_stoker("tune", "--clean", folder)
    (tmp_path / "stoker-tune.mine").mkdir()
    (tmp_path / "stoker-tune.mine/thesis.tex").write_text("x")
    run_stoker("tune", "--clean", tmp_path / "stoker-tune.mine", rc=4)
    shutil.rmtree(tmp_path / "stoker-tune.mine")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("stoker")] == []


@needs_root
def test_a_full_disk(tmp_path):
    """The candidate is skipped by name, the others are tried, and the disk is as empty as before."""
    with small_disk(tmp_path / "disk", "65M") as disk:
        data = pathlib.Path(disk.path) / "data"
        data.mkdir()
        for i in range(16):
            (data / f"{i}.bin").write_bytes(os.urandom(60000))
        run = run_stoker("tune", data, "--only", "pack,threads", "--near", data, *VIRTUAL, "--budget", "1h",
                         "--json", "-")
        seen = {c["id"]: c for c in run.json()["result"]["candidates"]}
        assert seen["pack"]["verdict"] == "skipped" and "are free" in seen["pack"]["why"] and not seen["pack"]["runs"]
        assert seen["threads-4"]["runs"]
        assert os.listdir(disk.path) == ["data"]


@needs_root
def test_a_disk_that_fills_up(tmp_path):
    """Hours of runs are not lost to somebody else's files: what is known is shown, and the rest can be continued."""
    with small_disk(tmp_path / "disk", "65M") as disk:
        root = pathlib.Path(disk.path)
        (root / "data").mkdir()
        for i in range(16):
            (root / f"data/{i}.bin").write_bytes(os.urandom(60000))
        process = subprocess.Popen([STOKER, "tune", root / "data", "--only", "threads", "--near", root, "--budget", "30s"],
                                   env=clean_env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: any(p.stat().st_size for p in root.glob("stoker-tune.*/first/runs.jsonl")))
        process.send_signal(signal.SIGSTOP)  # more runs are to come, however fast the machine is
        fill = os.open(root / "fill", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(fill, bytes(4096)):
                pass
        except OSError:
            os.close(fill)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate()
        folder = next(root.glob("stoker-tune.*"))
        assert process.returncode == 4 and "as it is" in out and "stopped before the end" in out
        assert "No space left" in err and f"--resume {folder}" in err and "the same command" not in err
        (root / "fill").unlink()
        run_stoker("tune", "--resume", folder, "--budget", "1s")
        assert os.listdir(root) == ["data"]


def test_a_dataset_that_takes_long_to_list(tmp_path):
    """Ctrl-C means now, not when all names of a slow file system have been looked at."""
    (tmp_path / "real/data").mkdir(parents=True)
    for i in range(40):
        (tmp_path / f"real/data/{i}.bin").write_bytes(b"x" * 900)
    with slowfs(tmp_path / "real", tmp_path / "mnt", meta_cache="0") as fs:
        fs.command("stall *.bin 1h op=stat")
        process = subprocess.Popen([STOKER, "tune", tmp_path / "mnt/data"], env=clean_env(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        until(lambda: "# 0 hits" not in fs.rules())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 128 + signal.SIGINT and "stopped by an interrupt" in err
        fs.command("clear")
    assert os.listdir(tmp_path / "real") == ["data"]
