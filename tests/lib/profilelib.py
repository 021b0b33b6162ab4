"""What the tests of the profiler share: run a program under `stoker profile`, read back what the
profile says; compile small C programs; know what a program prints and how it ends without it.

    def test_x(profile, tmp_path):
        p = profile([PYTHON, "x.py"])
        assert p.count(tmp_path / "a.bin", "reads") == 10
        assert "small-reads" in p.findings
"""

import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

from conftest import PATIENCE_S, ROOT, STOKER, clean_env, run_stoker

PYTHON = sys.executable
HERE = ROOT / "tests/profile"
LIBRARY = next((p for p in (pathlib.Path(os.environ.get("STOKER_PRELOAD", "/nonexistent")),
                            STOKER.parent / "libstoker-preload.so",
                            STOKER.parent / "src/libstoker-preload.so") if p.is_file()), None)
MOVING = ("posix", "stdio", "async")  # a job's totals: each call is seen at one of these


def bare_env(extra=None):
    """For the programs: no settings of ours, no sanitizer meant for us."""
    env = clean_env({"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **(extra or {})})
    if "LD_PRELOAD" not in (extra or {}):
        env.pop("LD_PRELOAD", None)
    else:  # into a sanitized stoker, too, whose runtime wants to be first
        env["ASAN_OPTIONS"] += ":verify_asan_link_order=0"
    return env


def bare(argv, env=None, cwd=None, timeout=PATIENCE_S, preexec_fn=None):
    """(status, stdout, stderr) of the program by itself."""
    done = subprocess.run(list(map(str, argv)), stdin=subprocess.DEVNULL, capture_output=True,
                          env=bare_env(env), cwd=cwd, timeout=timeout, preexec_fn=preexec_fn)
    return done.returncode, done.stdout, done.stderr


class Profile:
    """A finished run: rc, out, err (bytes) of the program; .report and .advice as JSON."""

    def __init__(self, folder, done):
        self.dir, self.rc, self.out, self.err = folder, done.returncode, done.stdout, done.stderr

    @functools.cached_property
    def report(self):
        return run_stoker("report", self.dir, "--json", "-").json()["result"]

    @functools.cached_property
    def advice(self):
        return run_stoker("advise", self.dir, "--json", "-", rc=(0, 1)).json()["result"]

    @functools.cached_property
    def findings(self):
        return {f["id"]: f for f in self.advice["findings"]}

    @functools.cached_property
    def records(self):
        """Every (process, file, API) with its counters."""
        return self.report["records"]

    @functools.cached_property
    def processes(self):
        return self.report["processes"]

    def of(self, path, apis=MOVING, process=None):
        return [r for r in self.records if r["path"] == str(path) and r["api"] in apis
                and process in (None, r["process"])]

    def count(self, path, counter, apis=MOVING, process=None):
        """A counter of a file, all processes (or one) and the given APIs put together."""
        apis = (apis,) if isinstance(apis, str) else apis
        values = [r["counters"][counter] for r in self.of(path, apis, process)]
        together = {"min": min, "max": max, "file": max}.get(counter.split("_")[0], sum)
        return together([v for v in values if v is not None] or [0])

    def counts(self, path, names, apis=MOVING):
        return {name: self.count(path, name, apis) for name in names}

    def below(self, folder, apis=MOVING):
        """Records of files below a folder."""
        return [r for r in self.records if r["api"] in apis
                and r["path"].startswith(str(folder).rstrip("/") + "/")]

    def total(self, folder, counter, apis=MOVING):
        return sum(r["counters"][counter] for r in self.below(folder, apis))

    def read_size(self, path):
        """Ten bins, POSIX, STDIO and ASYNC added up."""
        return [sum(column) for column in zip(*(r["read_size"] for r in self.of(path)))]


@pytest.fixture
def profile(tmp_path):
    """profile(argv, *options) -> Profile; the program's status and output are checked by the
    test."""
    number = iter(range(1000))

    def run(argv, *options, env=None, cwd=None, timeout=PATIENCE_S, preexec_fn=None, out=None):
        folder = out or tmp_path / f"profile-{next(number)}"
        done = subprocess.run([str(STOKER), "profile", "-o", str(folder), *map(str, options), "--",
                               *map(str, argv)], stdin=subprocess.DEVNULL, capture_output=True,
                              env=bare_env(env), cwd=cwd, timeout=timeout, preexec_fn=preexec_fn)
        assert b"Sanitizer" not in done.stderr and b"runtime error:" not in done.stderr, done.stderr
        return Profile(folder, done)
    return run


def compiled(source, *flags, compiler=None):
    """The path of a program, built once for the whole test run from a file beside the tests."""
    source = HERE / source
    compiler = compiler or os.environ.get("CC", "cc")
    key = hashlib.sha256(f"{source.read_text()}{compiler}{flags}".encode()).hexdigest()[:16]
    cache = pathlib.Path(tempfile.gettempdir()) / f"stoker-profile-programs-{os.getuid()}"
    cache.mkdir(mode=0o755, exist_ok=True)
    program = cache / f"{source.stem}-{key}"
    if not program.exists():
        scratch = cache / f"{program.name}.{os.getpid()}"
        subprocess.run([compiler, "-g", *flags, "-o", scratch, source, "-lpthread"], check=True,
                       env=bare_env())
        os.replace(scratch, program)
    return program


def needs_command(*names):
    missing = [n for n in names if not shutil.which(n)]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def zeros(path, size):
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).write_bytes(bytes(size))
    return pathlib.Path(path)


def read_json(path):
    return json.loads(pathlib.Path(path).read_text())
