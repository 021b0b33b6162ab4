"""One system call of a command fails: the data is right, or the error is named. `make check-faults` tries
far more of them."""

import pytest

import injectlib

pytestmark = pytest.mark.skipif(injectlib.trouble() is not None, reason=str(injectlib.trouble()))
# What tells data from nothing: lists, opening, status, reading. The rest is check-faults'.
CALLS = ["getdents64", "openat", "openat2", "newfstatat", "statx", "pread64", "fsync"]
COMMANDS = ["pack", "verify-damaged", "load", "inspect", "inspect-packed", "stage-packed", "bench-clean", "report"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_call_that_fails(tmp_path, name):
    """On a shared file system, EIO, ESTALE and ENOMEM are everyday: less data, and status 0."""
    (scenario,) = [s for s in injectlib.SCENARIOS if s.name == name]
    case = injectlib.Case(scenario, tmp_path / "case")
    calls = {c: n for c, n in case.calls.items() if c in CALLS}
    wrong = []
    for place in injectlib.places(calls, 2, 1, salt=len(name)):
        verdict, why = case.judge(*place)
        if verdict not in ("right", "named", "missed"):
            wrong.append(f"{verdict}: tools/check-faults --only {name} --at {' '.join(map(str, place))}: {why}")
    assert not wrong, "\n".join(wrong)
