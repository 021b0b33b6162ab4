"""Helpers every Python test shares: run the binary under test, make small datasets.

The binary is $STOKER, or build/stoker. `make test` points it at the ASan+UBSan build, and run()
turns any sanitizer report or death by signal into a failure, whatever exit status was expected.
"""

import atexit
import fcntl
import functools
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))  # what suites share
STOKER = pathlib.Path(os.environ.get("STOKER", ROOT / "build" / "stoker")).resolve()

# A status no command of ours uses, so that a sanitizer's exit is never taken for an expected one.
SANITIZER_STATUS = 99
SANITIZER_ENV = {
    "ASAN_OPTIONS": f"exitcode={SANITIZER_STATUS}:abort_on_error=0:allocator_may_return_null=1:quarantine_size_mb=32",
    "UBSAN_OPTIONS": f"halt_on_error=1:print_stacktrace=1:exitcode={SANITIZER_STATUS}",
    "LSAN_OPTIONS": f"exitcode={SANITIZER_STATUS}",
}


# What a sanitizer looks for at every start costs more than most commands: 24 ms instead of 13. The
# unit tests, the fuzz targets and every fourth test look for leaks, for overruns of globals and for
# stacks used after return; `make check-stress` has all tests do so.
QUICK_START = ":detect_leaks=0:report_globals=0:detect_stack_use_after_return=0"


OPTIONAL_MODULES = {"numpy", "h5py", "lmdb"}


class MissingModules:
    """Asked last for a missing module: a test that needs one of these is skipped, with the reason."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in OPTIONAL_MODULES:
            pytest.skip(f"python3-{name} is not installed", allow_module_level=True)


sys.meta_path.append(MissingModules)


def release_build():
    """build-release, made by the first test that needs it: as users build it, with warnings as errors.
    Returns what is needed to install it."""
    flags = "MESON_FLAGS=-Dwerror=true"
    lock = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(["make", "BUILD=build-release", flags], cwd=ROOT, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    finally:
        os.close(lock)
    assert done.returncode == 0, done.stdout[-8000:]
    return ["BUILD=build-release", flags]


PATIENCE_S = 300  # against hanging for ever; no test is to depend on how fast a machine is


def until(fact, patience_s=PATIENCE_S):
    """Asks until the answer is true, and gives that answer."""
    deadline = time.monotonic() + patience_s
    while not (answer := fact()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)
    return answer


# More of the same: every byte flipped, every call killed at (make check-stress).
LONG = os.environ.get("STOKER_LONG") == "1"
# What is said about time holds on a machine that has nothing else to do: `make check-timing`.
IDLE = os.environ.get("STOKER_IDLE") == "1"


class Result:
    """What a run gave: rc, out and err as text, out_bytes."""

    def __init__(self, argv, rc, out, err):
        self.argv = argv
        self.rc = rc
        self.out_bytes = out
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"$ {' '.join(map(str, self.argv))}\n[{self.rc}]\n{self.out}{self.err}"


def check_sane(result):
    """Fails the test when the run crashed or a sanitizer spoke up."""
    spoke = any(s in result.err for s in ("Sanitizer", "runtime error:"))
    if result.rc < 0 or result.rc == SANITIZER_STATUS or spoke:
        pytest.fail(f"crash or sanitizer report:\n{result!r}", pytrace=False)


def clean_env(extra=None):
    """The caller's environment without STOKER_* settings, plus the sanitizers' and `extra`."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("STOKER")}
    env.update({k: os.environ.get(k, v) for k, v in SANITIZER_ENV.items()})
    env["LC_ALL"] = "C.UTF-8"
    env.update({k: str(v) for k, v in (extra or {}).items()})
    return env


def reachable(path):
    """Whether other users may go through all folders above it."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


@functools.cache
def stoker_for_others():
    """The binary, or a copy of it and of the library it loads into programs where the checkout is in
    somebody's private folder: for tests that run it as another user."""
    if reachable(STOKER):
        return STOKER
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stoker-public-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.chmod(0o755)
    for library in STOKER.parent.glob("libstoker-preload.so"):
        shutil.copy(library, folder)
    return pathlib.Path(shutil.copy(STOKER, folder))


def run_stoker(*args, rc=0, env=None, input=None, cwd=None, timeout=PATIENCE_S, preexec_fn=None):
    """Runs stoker; rc is the status (or a tuple of them) expected, None for any."""
    argv = [str(stoker_for_others() if preexec_fn else STOKER), *map(str, args)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_env(env),
                          cwd=cwd, preexec_fn=preexec_fn) as proc:
        try:
            out, err = proc.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            proc.kill()
            out, err = proc.communicate()
            pytest.fail(f"still running after {timeout} s: {argv}\n{err.decode()}", pytrace=False)
    result = Result(argv, proc.returncode, out, err)
    check_sane(result)
    if rc is not None:
        want = rc if isinstance(rc, tuple) else (rc,)
        assert result.rc in want, f"status {result.rc}, expected {want}\n{result!r}"
    return result


def image_bytes(rng, size):
    """`size` bytes that look like a JPEG from both ends; incompressible in between."""
    head, tail = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01", b"\xff\xd9"
    return head + rng.randbytes(max(0, size - len(head) - len(tail))) + tail


def make_images(root, classes=3, per_class=5, sizes=(100, 3000), seed=1):
    """A class-per-directory tree. Returns {path below root: bytes} in sorted order."""
    rng = random.Random(seed)
    files = {}
    for c in range(classes):
        for i in range(per_class):
            name = f"class{c:02d}/img{i:04d}.jpg"
            files[name] = image_bytes(rng, rng.randint(*sizes))
            path = pathlib.Path(root) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name])
    return files


def flip_byte(path, offset, mask=0x01):
    """Damages one byte in place; a negative offset counts from the end."""
    with open(path, "r+b") as f:
        f.seek(offset, os.SEEK_SET if offset >= 0 else os.SEEK_END)
        byte = f.read(1)[0]
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte ^ mask]))


@pytest.fixture(autouse=True)
def private_cache(tmp_path, monkeypatch):
    """Indexes of read-only datasets go to a cache of the test's own, not to the user's."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg-cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg-config"))


def is_thorough(nodeid):
    """Whether a test looks for all that sanitizers find: by its name, so that it is the same each time."""
    return LONG or zlib.crc32(nodeid.encode()) % 4 == 0


@pytest.fixture(autouse=True)
def quick_start(request, monkeypatch):
    """Most tests leave out what costs time at every start."""
    if not is_thorough(request.node.nodeid):
        for_all = os.environ.get("ASAN_OPTIONS", SANITIZER_ENV["ASAN_OPTIONS"])
        monkeypatch.setenv("ASAN_OPTIONS", for_all + QUICK_START)


@pytest.fixture
def stoker():
    """The binary: stoker("pack", src, dst, rc=0) -> Result."""
    return run_stoker


@pytest.fixture
def other_storage(tmp_path):
    """A folder on another file system than that of tmp_path."""
    places = [p for p in ("/dev/shm", "/var/tmp", "/tmp")
              if os.access(p, os.W_OK) and os.stat(p).st_dev != os.stat(tmp_path).st_dev]
    if not places:
        pytest.skip("there is one file system here")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="stoker-test-", dir=places[0]))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def images(tmp_path):
    """(folder, {name: bytes}): three classes of five image-like files."""
    root = tmp_path / "images"
    return root, make_images(root)


def pytest_configure(config):
    config.addinivalue_line("markers", "xdist_group(name): tests that share a slow fixture")
    config.addinivalue_line("markers", "long: more of the same; `make check-stress` runs it")
    config.addinivalue_line("markers", "idle: needs an idle machine; `make check-timing` runs it")
    config.addinivalue_line("markers", "others: needs what the distribution has not (TensorFlow, JAX, Darshan) or a GPU; "
                            "`make check-frameworks` runs it")
    config.addinivalue_line("markers", "builds: needs a build of its own; `make check-builds` runs it")
    log = os.environ.get("STOKER_TEST_LOG")
    if log and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(Course(log, config))


class Course:
    """Follows the whole run where xdist has several workers: writes down what begins and ends, for
    tests/run to tell where it hung ($STOKER_TEST_LOG), and ends a run in which waiting is in vain
    instead of being patient hundreds of times."""

    IN_VAIN = 3  # tests

    def __init__(self, log, config):
        self.log = open(log, "a", buffering=1)
        self.config = config
        self.in_vain = []

    def pytest_runtest_logstart(self, nodeid):
        print("begin", nodeid, file=self.log)

    def pytest_runtest_logfinish(self, nodeid):
        print("end", nodeid, file=self.log)

    def pytest_runtest_logreport(self, report):
        if report.failed and report.duration >= PATIENCE_S:
            self.in_vain.append(report.nodeid)
        workers = self.config.pluginmanager.getplugin("dsession")
        if workers and len(self.in_vain) >= self.IN_VAIN:
            workers.shouldstop = f"waited in vain in {', '.join(self.in_vain)}"


def pytest_report_header(config):
    return f"stoker under test: {STOKER}"


def pytest_sessionstart(session):
    if not STOKER.is_file():
        pytest.exit(f"{STOKER} is not there: run `make`, or set STOKER", returncode=4)


from clusterlib import shared, slurm  # noqa: E402,F401 (fixtures; it needs what stands above)
from securitylib import node  # noqa: E402,F401 (a fixture)
