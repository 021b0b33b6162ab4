"""Puts the built page into a release: `meson dist` runs dist.py PAGE.html."""
import os
import pathlib
import shutil
import sys

shutil.copy(sys.argv[1], pathlib.Path(os.environ["MESON_DIST_ROOT"]) / "web/page.html")
