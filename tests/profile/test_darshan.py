"""The same programs under Darshan: every counter both have is equal, or differs for a known
reason."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import STOKER
from profilelib import HERE, bare_env


@pytest.mark.others
def test_equal_to_darshan():
    """Sites compare our numbers with those they know."""
    prefix = os.environ.get("STOKER_DARSHAN")
    if not prefix:
        pytest.skip("STOKER_DARSHAN does not name the folder Darshan is installed in")
    assert pathlib.Path(prefix, "lib/libdarshan.so").exists()
    done = subprocess.run([sys.executable, HERE / "compare_darshan.py", "--darshan", prefix,
                           "--stoker", STOKER], capture_output=True, text=True,
                          env=bare_env())
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
