"""The Python package under test, for tests that use it in another process: the one built beside the
binary under test. `make test` builds it with the sanitizers, whose libraries a Python must load
before it; tests/run says which they are ($STOKER_SANITIZERS).
"""

import os

import pytest

from conftest import STOKER, clean_env

PACKAGE = STOKER.parent / "python"
EXTENSION = PACKAGE / "stoker/_stoker.abi3.so"


def preload():
    """What a Python needs in its environment before it can import the package."""
    if not EXTENSION.exists():
        pytest.skip("the Python package was not built: python3-dev is missing", allow_module_level=True)
    if b"__asan_init" not in EXTENSION.read_bytes() or "libasan" in os.environ.get("LD_PRELOAD", ""):
        return {}
    if "STOKER_SANITIZERS" not in os.environ:
        pytest.skip("the Python package has the sanitizers in it, and STOKER_SANITIZERS does not name their "
                    "libraries: tests/run does", allow_module_level=True)
    return {"LD_PRELOAD": os.environ["STOKER_SANITIZERS"],
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0:quarantine_size_mb=16"}


def environment(**extra):
    """For another Python that uses the package."""
    return clean_env({"PYTHONPATH": str(PACKAGE), "OMP_NUM_THREADS": "1", **preload(), **extra})
