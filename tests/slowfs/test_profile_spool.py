"""`stoker profile` into a network file system (FUSE stands for one): logs are written on the node."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from conftest import STOKER, clean_env
from slowfslib import slowfs


def test_logs_are_written_on_the_node_and_copied(tmp_path, request):
    """Every call of the program would become traffic, or the logs would never be complete."""
    src, mnt = tmp_path / "src", tmp_path / "mnt"
    local = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))  # on a disk: memory is the last choice
    request.addfinalizer(lambda: shutil.rmtree(local))
    for folder in (src, mnt):
        folder.mkdir()
    (tmp_path / "data").write_bytes(bytes(1_000_000))
    code = (f"import os; open({str(tmp_path / 'data')!r}, 'rb').read()\n"
            "print(os.environ['STOKER_PROFILE_DIR'])")
    env = clean_env({"TMPDIR": local})
    env.pop("LD_PRELOAD", None)
    with slowfs(src, mnt):
        done = subprocess.run([STOKER, "profile", "-q", "-o", mnt / "p", sys.executable, "-c", code],
                              env=env, capture_output=True, text=True, check=True)
        assert done.stdout.startswith(f"{local}/stoker-profile-") and done.stderr == ""
        files = sorted(os.listdir(mnt / "p"))
        [run] = [json.loads((mnt / "p" / f).read_text()) for f in files if f.endswith(".json")]
    assert run["state"] == "ended" and run["logs"] == 1 and run["unseen"] == []
    assert [f.split(".")[-1] for f in files] == ["id", "json", "csv", "stklog"]
    assert list(local.iterdir()) == []
