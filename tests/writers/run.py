"""Runs the tests beside it with this interpreter's pytest, says with which writers, and ends in a
line `N passed, N failed, N skipped`."""

import collections
import importlib.metadata
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent


class Tally:
    def __init__(self):
        self.count = collections.Counter()

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.count["failed"] += 1
        elif report.skipped or report.when == "call":
            self.count["skipped" if report.skipped else "passed"] += 1

    def pytest_collectreport(self, report):
        self.count["failed"] += report.failed
        self.count["skipped"] += report.skipped


def versions():
    for line in (HERE / "requirements.txt").read_text().splitlines():
        name = line.split("=")[0].strip()
        try:
            if name and not name.startswith("#"):
                yield f"{name} {importlib.metadata.version(name)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{name} (not installed)"


print("check-writers:", ", ".join(versions()), flush=True)
tally = Tally()
status = pytest.main(["-q", "-rs", "-W", "ignore", "-p", "no:cacheprovider", str(HERE), *sys.argv[1:]], plugins=[tally])
print("{passed} passed, {failed} failed, {skipped} skipped".format(
    **{k: tally.count[k] for k in ("passed", "failed", "skipped")}))
sys.exit(status)
