"""tools/setup: the step between a bare machine and a build, with the system's tools faked."""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SETUP = ROOT / "tools/setup"


class FakeMachine:
    """A PATH whose dpkg, apt and sudo answer from files and write down what was asked."""

    def __init__(self, root, lacks, is_root=True, lists=True):
        self.bin, self.log = root / "bin", root / "log"
        self.bin.mkdir()
        self.log.write_text("")
        for name in ("bash", "cat", "sed", "env", "readlink", "dirname", "compgen", "grep"):
            real = shutil.which(name)
            if real:
                (self.bin / name).symlink_to(real)
        installed = root / "installed"
        everything = subprocess.run(["bash", SETUP, "--list", "build"], stdout=subprocess.PIPE,
                                    env={"PATH": str(self.bin)}, text=True).stdout.split()
        installed.write_text("".join(f"installed {p}\n" for p in everything if p not in lacks))
        self.fake("dpkg-query", f'cat "{installed}"')
        self.fake("id", f"echo {0 if is_root else 1000}")
        self.fake("sudo", "exit 1")
        lists_file = root / "lists"
        if lists:
            lists_file.write_text("")
        self.fake("apt-cache", f'[ -e "{lists_file}" ] && echo "Candidate: 1.0"')
        self.fake("apt-get", f'echo "apt-get $*" >>"{self.log}"\n'
                  'case "$*" in\n'
                  f'*update*) echo >"{lists_file}" ;;\n'
                  f'*install*) for p; do echo "installed $p" >>"{installed}"; done ;;\nesac')

    def fake(self, name, body):
        (self.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.bin / name).chmod(0o755)

    def setup(self, *args):
        done = subprocess.run(["bash", SETUP, *args], stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.STDOUT, env={"PATH": str(self.bin)})
        return done.returncode, done.stdout, self.log.read_text()


pytestmark = pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="bash is not installed")


def test_nothing_missing_asks_apt_nothing(tmp_path):
    """A second `make` is quick and works offline."""
    assert FakeMachine(tmp_path, lacks=[]).setup("--quiet", "build") == (0, "", "")


def test_installs_without_update_when_lists_are_there(tmp_path):
    """A missing package is installed; the lists are not fetched again for it."""
    status, _, log = FakeMachine(tmp_path, lacks=["liblmdb-dev"]).setup("build")
    assert status == 0
    assert "install liblmdb-dev" in log and "update" not in log


def test_updates_when_there_are_no_lists(tmp_path):
    """A bare container has no package lists: they are fetched, then the package installed."""
    status, _, log = FakeMachine(tmp_path, lacks=["liblmdb-dev"], lists=False).setup("build")
    assert status == 0
    assert log.index("update") < log.index("install liblmdb-dev")


def test_without_root_names_the_packages_and_goes_on(tmp_path):
    """A user without root learns what to ask the administrator for, and gets a build."""
    status, out, log = FakeMachine(tmp_path, ["liblmdb-dev", "libhdf5-dev"], is_root=False).setup("build")
    assert status == 0 and log == ""
    assert "apt-get install libhdf5-dev liblmdb-dev" in out


def test_without_the_core_it_stops(tmp_path):
    """Where nothing can be built, that is said at once and not by a compiler error."""
    status, out, _ = FakeMachine(tmp_path, ["zlib1g-dev"], is_root=False).setup("build")
    assert status == 1
    assert "cannot be built without: zlib1g-dev" in out
