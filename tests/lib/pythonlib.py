"""The Python package under test: the one built beside the binary under test.

`make test` builds it with the sanitizers and preloads their libraries; without these the module
would end the whole test run, so the tests are skipped, aloud.
"""

import pathlib
import subprocess
import sys

import pytest

from conftest import PATIENCE_S, clean_env
from packagelib import PACKAGE, environment, preload

if preload():
    pytest.skip("the Python package has the sanitizers in it: tests/run preloads them",
                allow_module_level=True)

sys.path.insert(0, str(PACKAGE))
import stoker  # noqa: E402

assert pathlib.Path(stoker.__file__).parent == PACKAGE / "stoker"


def plain_environment(**extra):
    """For programs that have nothing to do with it."""
    env = clean_env(extra)
    env.pop("LD_PRELOAD", None)
    return env


def python(script, *args, rc=0, timeout=PATIENCE_S, executable=sys.executable, env=None, cwd=None):
    """Runs a script in another Python; returns what it printed."""
    argv = [executable, *(["-c", script] if "\n" in script else [script]), *map(str, args)]
    done = subprocess.run(argv, env=env or environment(), stdin=subprocess.DEVNULL, cwd=cwd,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout)
    assert done.returncode == rc, f"status {done.returncode}\n{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout


def write_records(path, records):
    """A TFRecord file of raw records, in plain Python."""
    import tfrecordlib
    with open(path, "wb") as f:
        for record in records:
            f.write(tfrecordlib.frame(record))
